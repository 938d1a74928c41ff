"""A posterior as text and as HTML: the verdict in plain words, then a table of its variables."""

import html
import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from uivi.evaluation.check import Check, Verdict
from uivi.fitting.tables import NUM_DRAWS, Variable, worst

if TYPE_CHECKING:
    from uivi.fitting.posterior import Posterior

MOST_LINES = 40
"""Largest number of lines of a printed posterior."""
MOST_ADVICE = 14
"""Largest number of lines of advice in it."""
WIDTH = 100
NUM_BINS = 24
COLUMNS = ("mean", "sd", "5 %", "50 %", "95 %", "error")
WORDS = {
    Verdict.GOOD: "good: the draws can be used",
    Verdict.CARE: "use with care: the draws may be off",
    Verdict.BAD: "do not use: the draws are not those of the posterior",
}
Row = tuple[str, list[str], np.ndarray | None]
"""Label, cells and draws of an entry; no cells for a line that stands for many."""


def short(posterior: "Posterior") -> str:
    """Returns one line: the family, its size, the verdict if it is known."""
    found = posterior._check_result
    verdict = f", verdict: {found.verdict}" if found else ""
    return f"<Posterior: {type(posterior.family).__name__}, {posterior.dim} dimensions{verdict}>"


def text(posterior: "Posterior", found: Check | None, table: list[Variable]) -> str:
    """Returns verdict, advice, table and a footer, in at most `MOST_LINES` lines."""
    head = [f"verdict: {_verdict(found)}"]
    advice = [
        line
        for words in (found.advice if found else ())
        for line in textwrap.wrap(words, WIDTH - 4, initial_indent="  - ", subsequent_indent="    ")
    ]
    if len(advice) > MOST_ADVICE:
        advice = [*advice[: MOST_ADVICE - 1], "    ... all of it: posterior.check().advice"]
    foot = ["", *_footer(posterior, table)]
    if not table:
        return "\n".join([*head, *advice, *foot])
    rows = _rows(table, MOST_LINES - len(head) - len(advice) - len(foot) - 2)
    columns = _columns(table)
    widths = [
        max(len(x) for x in column) for column in zip(columns, *(r[1] for r in rows if r[1]), strict=True)
    ]
    first = max(len(label) for label, _, _ in rows)
    lines = [" " * (first + 2) + _aligned(list(columns), widths)]
    lines += [f"{label:<{first}}  {_aligned(cells, widths)}".rstrip() for label, cells, _ in rows]
    return "\n".join([*head, *advice, "", *lines, *foot])


def as_html(posterior: "Posterior", found: Check | None, table: list[Variable]) -> str:
    """Returns the same as HTML, with a small histogram of each entry. It takes the colours of the page."""
    esc = html.escape
    advice = "".join(f"<li>{esc(words)}</li>" for words in (found.advice if found else ()))
    cell = '<td style="text-align:right">{}</td>'
    head = "".join(f'<th style="text-align:right">{esc(name)}</th>' for name in _columns(table))
    body = "".join(
        f'<tr><td style="text-align:left">{esc(label)}</td>'
        + "".join(cell.format(esc(value)) for value in cells)
        + (f"<td>{_histogram(draws)}</td>" if draws is not None else "")
        + "</tr>"
        for label, cells, draws in (_rows(table, 24) if table else [])
    )
    drawn = f"<table><thead><tr><th></th>{head}<th></th></tr></thead><tbody>{body}</tbody></table>"
    return (
        f"<div><p><strong>verdict: {esc(_verdict(found))}</strong></p>"
        + (f"<ul>{advice}</ul>" if advice else "")
        + (drawn if table else "")
        + f"<p><small>{'<br>'.join(map(esc, _footer(posterior, table)))}</small></p></div>"
    )


def _verdict(found: Check | None) -> str:
    return WORDS[found.verdict] if found else "unknown, since this posterior has not been judged"


def _columns(table: list[Variable]) -> tuple[str, ...]:
    """Returns the names of the columns. Errors have one only if some are known."""
    return COLUMNS if any(np.isfinite(v.errors).any() for v in table) else COLUMNS[:-1]


def _footer(posterior: "Posterior", table: list[Variable]) -> list[str]:
    done = posterior.history["step"][-1] if posterior.history.get("step") else 0
    seconds = sum(posterior.phases.values()) or posterior.seconds
    lines = [
        f"{type(posterior.family).__name__} posterior on {posterior.dim} dimensions ({done:,} updates, "
        f"{seconds:.1f} s), {posterior.status.value}"
    ]
    if table:
        lines.append(f"numbers from {NUM_DRAWS:,} draws; more: posterior.summary(details=True)")
    if len(_columns(table)) == len(COLUMNS):
        error, label, _ = worst(table)[0]
        lines.insert(0, f"error: of the mean in sds, or of the sd; the largest is {error:.3f}, of {label}")
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines]


def _rows(table: list[Variable], most: int) -> list[Row]:
    """Returns at most `most` rows: every variable gets as many entries as there is room for."""
    # A shortened variable has one line more, which says so.
    lines = lambda limit: [min(len(v.labels), limit) + (len(v.labels) > limit) for v in table]
    limit = next((n for n in range(most, 0, -1) if sum(lines(n)) <= most), 0)
    shown = table
    if not limit:
        limit = 1
        used = np.cumsum(lines(limit))
        shown = table[: int(np.sum(used <= most - 1))]
    with_error = len(_columns(table)) == len(COLUMNS)
    rows: list[Row] = []
    for variable in shown:
        entries = zip(variable.labels, variable.numbers, variable.errors, variable.draws.T, strict=True)
        for label, numbers, error, draws in list(entries)[:limit]:
            cells = _cells(numbers) + ([_error(error)] if with_error else [])
            rows.append((label if len(label) <= 32 else f"{label[:29]}...", cells, draws))
        if len(variable.labels) > limit:
            rows.append((f"  ... {len(variable.labels) - limit:,} more", [], None))
    if len(shown) < len(table):
        rows.append((f"... {len(table) - len(shown):,} more variables", [], None))
    return rows


def _cells(numbers: np.ndarray) -> list[str]:
    """Writes the numbers of one entry with as many decimals as its standard deviation is worth."""
    sd, largest = numbers[1], np.max(np.abs(numbers))
    if not (np.all(np.isfinite(numbers)) and sd > 1e-5 and largest < 1e6):
        return [f"{x:.4g}" for x in numbers]
    decimals = int(np.clip(2 - math.floor(math.log10(sd)), 0, 6))
    return [f"{x:.{decimals}f}" for x in numbers]


def _error(error: float) -> str:
    return "–" if math.isnan(error) else f"{error:.3f}"


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))


def _histogram(draws: np.ndarray) -> str:
    """Draws the entry's histogram as SVG, in the colour of the text."""
    kept = draws[np.isfinite(draws)]
    if not kept.size or kept.min() == kept.max():
        return ""
    # The outermost draws of a heavy tail would leave one bar for all others.
    counts, _ = np.histogram(kept, NUM_BINS, range=tuple(np.quantile(kept, [0.005, 0.995])))
    bars = "".join(
        f'<rect x="{4 * i}" y="{20 - height:.1f}" width="3.5" height="{height:.1f}"/>'
        for i, height in enumerate(20 * counts / max(counts.max(), 1))
    )
    size = f'width="{4 * NUM_BINS}" height="20" viewBox="0 0 {4 * NUM_BINS} 20"'
    return f'<svg {size} fill="currentColor" fill-opacity="0.6" role="img">{bars}</svg>'
