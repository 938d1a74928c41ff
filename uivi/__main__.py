"""`python -m uivi`."""

from uivi.cli.app import main

main()
