"""The benchmark on the terminal."""

from typing import Any

from rich.console import Group
from rich.table import Table

HEADERS = {
    "case": "case",
    "problem": "problem",
    "method": "method",
    "ms": "ms / update",
    "chain_share": "chain",
    "gradients_per_second": "gradients / s",
    "gflop_per_second": "GFLOP/s",
    "compile_seconds": "compile s",
    "temporary_mib": "temp MiB",
    "lanes": "fits",
    "updates_per_second": "updates / s",
    "draws": "draws",
    "flat_ms": "flat ms",
    "library_ms": "library ms",
    "uivi_seconds": "uivi, s",
    "nuts_seconds": "NUTS, s",
    "ratio": "ratio",
    "dim": "dim",
    "chains": "chains",
    "width": "width",
    "chain_ms": "10 moves, ms",
    "kl": "KL below",
    "seconds": "seconds",
    "uivi_distance": "uivi, dist.",
    "nuts_distance": "NUTS, dist.",
    "verdict": "verdict",
}
TITLES = {
    "updates": "Updates",
    "flat": "Banana against a hand-flattened loop",
    "lanes": "Fits side by side",
    "dim": "Cost by size of z",
    "chains": "Cost by number of chains",
    "width": "Cost by width of the hidden layers",
    "quality": "Time to quality, banana",
    "answer": "From the call to the answer, compilation included",
}


def table(found: dict[str, Any]) -> Group:
    """Returns one table per part that was measured."""
    return Group(*(_table(title, found[name]) for name, title in TITLES.items() if found[name]))


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = [name for name in HEADERS if name in rows[0]]
    made = Table(*(HEADERS[name] for name in columns), title=title)
    made.columns[0].no_wrap = True  # a narrow terminal would cut the names of cases
    for row in rows:
        made.add_row(*(_cell(row[name]) for name in columns))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
