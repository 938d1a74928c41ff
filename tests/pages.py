"""Runs the Python blocks of README and docs/ as they are printed.

The blocks of a page run in order, in one namespace. A block that starts with ```python title="excerpt" is not
run. In the tests, and only there, a line that ends in `# CI: 6_000 -> 50` runs with 50 in the place of 6_000,
and verdicts come from few draws.

`python -m tests.pages PAGE ...` (or `make figures`) runs pages in full. Figures that they save go to
docs/figures. What a block prints goes into the ```text title="output" block after it, if there is one; lines
too long for a page are folded. The quick start is written as a notebook, too.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import warnings
from typing import Any
from unittest import mock

import jax
import matplotlib as mpl

from uivi.evaluation import verdict

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = {ROOT / "docs" / "tutorials" / "quickstart.md": ROOT / "docs" / "tutorials" / "quickstart.ipynb"}
"""Pages that are notebooks, too."""
FIGURES = ROOT / "docs" / "figures"
BLOCK = re.compile(r'^```python\n(.*?)^```$(?:\n\n```text title="output"\n(.*?)^```$)?', re.M | re.S)
EXCERPT = re.compile(r'^```python title="excerpt"\n(.*?)^```$', re.M | re.S)
SHORTER = re.compile(r"^(.*)(#.*\bCI: (\S+) -> (\S+))$", re.M)
LONGEST_OUTPUT = 112
FIRST_COLUMN = re.compile(r" +\S+ {2,}")


def shortened(code: str) -> str:
    """Return the code with the effort that its comments give for the tests."""

    def line(found: re.Match[str]) -> str:
        assert found[3] in found[1], f"no {found[3]} to replace in: {found[0]}"
        return found[1].replace(found[3], found[4]) + found[2]

    return SHORTER.sub(line, code)


def folded(printed: str) -> str:
    """Fold long lines; the rest of a table's row is indented to its second column."""

    def fold(line: str) -> str:
        column = FIRST_COLUMN.match(line)
        indent = " " * (column.end() if column else 2)
        parts = textwrap.wrap(
            line, LONGEST_OUTPUT, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return "\n".join(parts) or line

    return "".join(
        f"{fold(line)}\n" if len(line) > LONGEST_OUTPUT else f"{line}\n" for line in printed.splitlines()
    )


@contextlib.contextmanager
def as_users_have_it(*, short: bool):
    """JAX's ordinary promotion rules; no complaint about a fit that is bad, or has few updates."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        if not short:
            yield
            return
        for message in ("k-hat of the importance weights", "floating point resolves the log density"):
            warnings.filterwarnings("ignore", message)
        with mock.patch.multiple(verdict, NUM_DRAWS=128, MORE_DRAWS=128):
            yield


def run(page: pathlib.Path, *, short: bool) -> str:
    """Run a page in the current directory and return it with the outputs of this run."""
    text, names = page.read_text(), {"__name__": "__main__"}
    mpl.use("Agg")

    def block(found: re.Match[str]) -> str:
        code = shortened(found[1]) if short else found[1]
        lines_above = "\n" * text.count("\n", 0, found.start(1))
        with as_users_have_it(short=short), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(lines_above + code, str(page), "exec"), names)
        if found[2] is None:
            return found[0]
        return f'```python\n{found[1]}```\n\n```text title="output"\n{folded(printed.getvalue())}```'

    return BLOCK.sub(block, text)


def notebook(page: str) -> dict[str, Any]:
    """Return a page as a notebook, in the format 4.5: code cells with their printed outputs, and text."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str, **rest: Any) -> None:
        lines = source.strip("\n").splitlines(keepends=True)
        if lines:
            cells.append(
                {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, **rest, "source": lines}
            )

    place = 0
    for found in BLOCK.finditer(page):
        add("markdown", page[place : found.start()])
        printed = (found[2] or "").splitlines(keepends=True)
        outputs = [{"name": "stdout", "output_type": "stream", "text": printed}] if printed else []
        add("code", found[1], execution_count=None, outputs=outputs)
        place = found.end()
    add("markdown", page[place:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebook(page: pathlib.Path) -> None:
    """Write the notebook of a page, if it has one."""
    if page in NOTEBOOKS:
        made = notebook(page.read_text())
        NOTEBOOKS[page].write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


def main() -> None:
    """Run the pages named on the command line in full and put their figures and outputs in place."""
    pages = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for page in pages:
            print(page.relative_to(ROOT), flush=True)
            page.write_text(run(page, short=False))
            write_notebook(page)
        for figure in pathlib.Path(directory).glob("*.png"):
            shutil.copy(figure, FIGURES)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
