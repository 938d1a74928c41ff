"""A posterior as text and as HTML: the verdict in plain words, then a table of its variables."""

import html
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uivi._types import Status
from uivi.evaluation.check import Check, Verdict, labelled, number_lines
from uivi.fitting.tables import Variable, shortened, worst

if TYPE_CHECKING:
    from uivi.fitting.posterior import Posterior

MOST_LINES = 40
"""Largest number of lines of a printed posterior."""
MOST_ADVICE = 14
"""Largest number of lines of advice in it."""
WIDTH = 80
"""Width to which words are folded, as many terminals have it."""
LONGEST_LABEL = 32
"""Largest number of letters of a label in the table."""
NUM_BINS = 24
LEAST_DIGITS, MOST_DIGITS = 4, 15
"""Fewest and most significant digits of a number that is written without a fixed number of decimals."""
COLUMNS = ("mean", "sd", "5 %", "50 %", "95 %", "error")
WORDS = {
    Verdict.GOOD: "good. The draws can be used.",
    Verdict.CARE: "use with care. The draws may be off.",
    Verdict.BAD: "do not use. The draws are not those of the posterior.",
}
COLOURS = {Verdict.GOOD: "#2e9e5b", Verdict.CARE: "#d99000", Verdict.BAD: "#d03b3b"}
UNKNOWN_COLOUR = "#888888"
"""Colours of a verdict, on a light and on a dark ground."""
MOST_HTML = 24
"""Largest number of rows of a table in HTML."""
SAME_WIDTH = str.maketrans({" ": "\u2007"})
"""The space that is as wide as a digit."""
NOT_FOLDED = "\u00a0"
"""A space at which no line ends."""
Row = tuple[str, list[str], np.ndarray | None]
"""Label, cells and draws of an entry; no cells for a line that stands for many."""


def short(posterior: "Posterior") -> str:
    """Returns one line: the family, its size, the verdict if it is known."""
    found = posterior._check_result
    verdict = f", verdict: {found.verdict}" if found else ""
    return f"<Posterior: {type(posterior.family).__name__}, {_size(posterior)}{verdict}>"


def text(posterior: "Posterior", found: Check | None, table: list[Variable]) -> str:
    """Returns verdict, advice, table and a footer, in at most `MOST_LINES` lines."""
    head = textwrap.wrap(f"verdict: {_verdict(posterior, found)}", WIDTH, subsequent_indent="  ")
    advice = [
        line
        for words in (found.advice if found else ())
        for line in textwrap.wrap(words, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    ]
    if len(advice) > MOST_ADVICE:
        advice = [*advice[: MOST_ADVICE - 1], "    ... all of it: posterior.check().advice"]
    footer = _footer(posterior, found, table)
    folded = (part for line in footer for part in textwrap.wrap(line, WIDTH, subsequent_indent="  "))
    foot = ["", *(part.replace(NOT_FOLDED, " ") for part in folded)]
    if not table:
        return "\n".join([*head, *advice, *foot])
    rows = _rows(table, MOST_LINES - len(head) - len(advice) - len(foot) - 2)
    rows.insert(0, ("", list(_columns(table)), None))
    widths = [max(map(len, column)) for column in zip(*(row[1] for row in rows if row[1]), strict=True)]
    first = max(len(label) for label, _, _ in rows)
    lines = [f"{label:<{first}}  {_aligned(cells, widths)}".rstrip() for label, cells, _ in rows]
    return "\n".join([*head, *advice, "", *lines, *foot])


def details(posterior: "Posterior", found: Check | None) -> str:
    """Returns the numbers of the check, and the seconds of each phase as far as they are known."""
    lines = number_lines(found) if found else []
    if posterior.phases:
        words = ", ".join(f"{name} {spent:.1f}" for name, spent in posterior.phases.items())
        first, others = labelled("seconds", ""), labelled("", "")
        lines += textwrap.wrap(words, WIDTH, initial_indent=first, subsequent_indent=others)
    return "\n".join(lines)


def as_html(posterior: "Posterior", found: Check | None, table: list[Variable]) -> str:
    """Returns the same as HTML, with a small histogram of each entry. It takes the colours of the page."""
    esc = html.escape
    advice = "".join(f"<li>{esc(words)}</li>" for words in (found.advice if found else ()))
    cell = lambda kind, side, inner: f'<{kind} style="text-align:{side};padding:2px 8px">{inner}</{kind}>'
    head = "".join(cell("th", "right", esc(name)) for name in ("", *_columns(table), ""))
    body = "".join(
        f"<tr>{cell('td', 'left', esc(label))}"
        + "".join(cell("td", "right", esc(value.translate(SAME_WIDTH))) for value in cells)
        + (cell("td", "left", _histogram(draws)) if draws is not None else "")
        + "</tr>"
        for label, cells, draws in (_rows(table, MOST_HTML) if table else [])
    )
    numbers = "border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap"
    drawn = (
        f'<div style="overflow-x:auto"><table style="{numbers}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    colour = COLOURS[found.verdict] if found else UNKNOWN_COLOUR
    return (
        f'<div style="border-left:4px solid {colour};padding-left:12px">'
        f"<p><strong>verdict: {esc(_verdict(posterior, found))}</strong></p>"
        + (f"<ul>{advice}</ul>" if advice else "")
        + (drawn if table else "")
        + f"<p><small>{'<br/>'.join(map(esc, _footer(posterior, found, table)))}</small></p></div>"
    )


def _verdict(posterior: "Posterior", found: Check | None) -> str:
    if found:
        return WORDS[found.verdict]
    if posterior._is_amortised:
        return "unknown. An amortised posterior is judged on data, by uivi.evaluation.Likelihood."
    return "unknown, since this posterior has not been judged"


def _columns(table: list[Variable]) -> tuple[str, ...]:
    """Returns the names of the columns. Errors have one only if some are known."""
    return COLUMNS if any(np.isfinite(v.errors).any() for v in table) else COLUMNS[:-1]


def _footer(posterior: "Posterior", found: Check | None, table: list[Variable]) -> list[str]:
    done = posterior.history["step"][-1] if posterior.history.get("step") else 0
    seconds = sum(posterior.phases.values()) or posterior.seconds
    family = f"{type(posterior.family).__name__} posterior on {_size(posterior)}"
    ended = "" if posterior.status is Status.DONE else f", {posterior.status.value}"
    lines = [f"{family} ({done:,} updates, {seconds:.1f} s){ended}"]
    if table:
        lines.append(f"numbers from {len(table[0].draws):,} draws; more: posterior.summary(details=True)")
    if len(_columns(table)) == len(COLUMNS):
        error, label, _ = worst(table)[0]
        where = shortened(label, LONGEST_LABEL).replace(" ", NOT_FOLDED)
        lines.insert(0, f"error: of the mean (in sds) or of the sd (relative); largest {error:.3f} ({where})")
    elif table and found and posterior.target is not None:
        lines.insert(0, "the error of each variable is unknown: the importance weights are not reliable")
    return lines


def _size(posterior: "Posterior") -> str:
    return f"{posterior.dim:,} dimension{'' if posterior.dim == 1 else 's'}"


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
        numbers = variable.numbers[:limit]
        entries = zip(
            variable.labels, numbers, _decimals(numbers), variable.errors, variable.draws.T, strict=False
        )
        for label, row, decimals, error, draws in entries:
            digits = _digits(row)
            cells = [
                _written(x, decimals, LEAST_DIGITS if name == "sd" else digits)
                for name, x in zip(COLUMNS, row.tolist(), strict=False)
            ]
            cells += [_error(error)] if with_error else []
            rows.append((shortened(label, LONGEST_LABEL), cells, draws))
        if len(variable.labels) > limit:
            rows.append((f"  ... {len(variable.labels) - limit:,} more", [], None))
    columns = [_on_the_point(column) for column in zip(*(row[1] for row in rows if row[1]), strict=True)]
    aligned = zip(*columns, strict=True)
    rows = [(label, list(next(aligned)) if cells else [], draws) for label, cells, draws in rows]
    if len(shown) < len(table):
        rows.append((f"... {len(table) - len(shown):,} more variables", [], None))
    return rows


def _decimals(numbers: np.ndarray) -> list[int | None]:
    """Returns how many decimals the draws of each entry are worth; None where decimals do not serve.

    The last decimal is between a fiftieth and a five-hundredth of the standard deviation. The mean of 2,048
    draws is known to a forty-fifth. Entries of similar scales have the same number of decimals.
    """
    sd, largest = numbers[:, 1], np.max(np.abs(numbers), 1)
    can = np.all(np.isfinite(numbers), 1) & (sd > 1e-5) & (largest < 1e6)
    found = np.clip(2 - np.floor(np.log10(2 * np.where(can, sd, 1.0))), 0, 6).astype(int)
    if np.any(can) and np.ptp(found[can]) <= 1:
        found[:] = found[can].max()
    return [int(n) if fits else None for n, fits in zip(found, can, strict=True)]


def _digits(row: np.ndarray) -> int:
    """Returns how many significant digits serve where decimals do not: as many as tell quantiles apart."""
    sd, largest = row[1], np.max(np.abs(row))
    if not (np.isfinite(largest) and sd > 0):
        return LEAST_DIGITS
    return int(np.clip(2 + np.ceil(np.log10(largest / sd)), LEAST_DIGITS, MOST_DIGITS))


def _written(x: float, decimals: int | None, digits: int) -> str:
    # Adding zero takes the sign from a zero.
    return f"{x:.{digits}g}" if decimals is None else f"{round(x, decimals) + 0.0:.{decimals}f}"


def _on_the_point(column: Sequence[str]) -> list[str]:
    """Pads the cells of a column at the right, so that their decimal points are below one another."""
    tails = [len(cell) - len(cell.partition(".")[0]) for cell in column]
    return [cell + " " * (max(tails) - tail) for cell, tail in zip(column, tails, strict=True)]


def _error(error: float) -> str:
    return "–" if math.isnan(error) else f"{error:.3f}"


def _aligned(cells: Sequence[str], widths: list[int]) -> str:
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
    return f'<svg {size} fill="currentColor" fill-opacity="0.6" aria-hidden="true">{bars}</svg>'
