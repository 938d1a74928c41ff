"""`python -m uivi`."""

from uivi.cli import main

main()
