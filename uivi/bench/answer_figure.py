"""The figure of the part `answer`: the seconds of `uivi.fit`, split into parts, beside NUTS."""

import io
from typing import Any

from matplotlib.figure import Figure

COLORS = {
    "reading": "#bdbdbd",
    "search": "#f4a582",
    "waiting": "#b2182b",
    "updates": "#1f5fa8",
    "looks": "#92c5de",
    "check": "#4d9221",
    "other": "#636363",
}
LABELS = {
    "reading": "reading the model",
    "search": "search for a start",
    "waiting": "waiting for compilation",
    "updates": "updates",
    "looks": "looks at the bound",
    "check": "check",
    "other": "other",
}
NUTS, COMPILATION = "#dfc27d", "#000000"


def draw_answers(rows: list[dict[str, Any]]) -> bytes:
    """Draws the rows of the part `answer`, with an axis for each case, and returns PNG bytes.

    Cases take seconds to minutes, so each has its own scale. A thin line below a bar shows the seconds of all
    compilations. Most of them run in the background, so the line lies beside other parts.
    """
    picture = Figure(figsize=(9, 1.0 + 0.95 * len(rows)), layout="constrained")
    axes = picture.subplots(len(rows), 1, squeeze=False)[:, 0]
    for place, row in zip(axes, rows, strict=True):
        _bars(place, row)
    if rows:
        axes[-1].set_xlabel("seconds from the call to the answer (each case has its own scale)", fontsize=8)
    # A case in which a method failed lacks its bars, so the legend is collected over all cases.
    handles = {}
    for place in axes:
        handles |= {label: handle for handle, label in zip(*place.get_legend_handles_labels(), strict=True)}
    if handles:
        picture.legend(handles.values(), handles, loc="outside upper center", ncols=5, fontsize=7)
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _bars(axes: Any, row: dict[str, Any]) -> None:
    ours, theirs = row["uivi"], row["nuts"]
    axes.set_yticks([1, 0], ["uivi", "NUTS"], fontsize=7)
    axes.set_ylim(-0.6, 1.6)
    axes.set_title(f"{row['case']} ({row['dim']}-d)" if row["dim"] else row["case"], fontsize=8, loc="left")
    axes.tick_params(axis="x", labelsize=7)
    longest = max((method["seconds"] for method in (ours, theirs) if method), default=1.0)
    axes.set_xlim(0, 1.25 * longest)  # with room for the words behind the bars
    if ours:
        left = 0.0
        for name, label in LABELS.items():
            seconds = ours["parts"][name]
            axes.barh(1, seconds, 0.7, left, color=COLORS[name], label=label)
            left += seconds
        line = (ours["compile_seconds"], 0.08, 0.0)
        axes.barh(0.58, *line, color=COMPILATION, label="all compilations (beside the parts)")
    if theirs:
        axes.barh(0, theirs["seconds"], 0.7, color=NUTS, label="NUTS")
    _note(axes, 1, ours, ours and ours["verdict"])
    _note(axes, 0, theirs, theirs and _divergences(theirs["divergences"]))


def _divergences(number: int) -> str:
    return f"{number} divergence{'' if number == 1 else 's'}"


def _note(axes: Any, height: int, row: dict[str, Any] | None, words: str | None) -> None:
    """Writes seconds and words behind the bar of a method, or that it failed."""
    end, text = (row["seconds"], f" {row['seconds']:.1f} s, {words}") if row else (0.0, " failed")
    axes.text(end, height, text, va="center", fontsize=7)
