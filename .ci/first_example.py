"""Runs the first Python example of a page against the installed package, shortened as in the tests.

Usage: python first_example.py README.md, from a directory that does not hold the sources.
"""

import pathlib
import re
import sys

import uivi

home = pathlib.Path(uivi.__file__).parent
assert "site-packages" in home.parts, f"expected the installed package, got {home}"
assert (home / "py.typed").exists(), "the wheel lacks py.typed"

page = pathlib.Path(sys.argv[1]).read_text()
code = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE).group(1)
lines = []
for line in code.splitlines():
    short = re.search(r"# .*CI: (.+) -> (.+)$", line)
    lines.append(line.replace(short.group(1), short.group(2), 1) if short else line)
exec("\n".join(lines), {"__name__": "__main__"})
print(f"uivi {uivi.__version__} from {home.parent.name}: the first example runs")
