"""What scripts share that measure row by row: their options, and files with a row in each line."""

import argparse
import json
import pathlib
from collections.abc import Collection, Iterable
from typing import Any

Row = dict[str, Any]


def parser(doc: str | None, kind: str, known: Collection[str], *, seeds: int) -> argparse.ArgumentParser:
    """Returns the options of a script.

    Args:
        doc: what the script does.
        kind: what is measured, in the plural.
        known: names of all that can be measured.
        seeds: number of seeds by default.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = f"of {', '.join(known)}; default: all"
    made.add_argument("names", nargs="*", metavar=kind.upper(), help=words)
    made.add_argument("--seeds", type=int, default=seeds, help="number of seeds")
    made.add_argument("--out", type=pathlib.Path, help="file to append the rows to")
    made.add_argument("--table", type=pathlib.Path, nargs="+", help="show these files and measure nothing")
    return made


def need_known(made: argparse.ArgumentParser, kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Ends the script if there are names that it does not know."""
    if unknown := sorted(set(names) - set(known)):
        made.error(f"unknown {kind} {', '.join(unknown)}: known: {', '.join(known)}")


def read(paths: Iterable[pathlib.Path]) -> list[Row]:
    """Returns the rows of several files."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def kept(rows: Iterable[Row], out: pathlib.Path | None) -> list[Row]:
    """Prints every row as soon as it is measured, appends it to the file if there is one, and returns all."""
    found = []
    for row in rows:
        found.append(row)
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        if out:
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return found
