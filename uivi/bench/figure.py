"""The figure of the benchmark: the roofline of the updates, the sweeps and the race."""

import io
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

COLORS = {"banana": "#1f5fa8", "logreg": "#b2182b", "vae": "#4d9221"}
MARKS = "o^svDP"


def draw_figure(found: dict[str, Any]) -> bytes:
    """Draws the content of `bench.json` and returns PNG bytes."""
    picture = Figure(figsize=(12, 7.5), layout="constrained")
    axes = picture.subplots(2, 3)
    _roofline(axes[0, 0], found)
    for place, (name, label) in zip(axes.flat[1:4], LABELS.items(), strict=True):
        _sweep(place, found[name], name, label)
    _race(axes[1, 1], found["quality"])
    _times(axes[1, 2], found["updates"])
    for place in axes.flat:
        if not place.lines and not place.patches:  # a part that was not measured
            place.set_axis_off()
    picture.suptitle(f"{found['device']}, JAX {found['versions']['jax']}, {found['precision']} products")
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


LABELS = {
    "dim": "size of z (one chain)",
    "chains": "chains",
    "width": "width of the hidden layers (100 chains)",
}


def _roofline(axes: Any, found: dict[str, Any]) -> None:
    rates = found["rates"]
    intensity = np.logspace(-1, 9, 100)  # far beyond all updates, to leave room for the legend
    for name, style in (("large", "-"), ("small", "--")):
        roof = np.minimum(rates[name], rates["copy"] * intensity)
        axes.plot(intensity, roof / 1e9, style, color="black", label=f"{name} products, copies")
    for problem, color in COLORS.items():
        rows = [row for row in found["updates"] if row["problem"] == problem]
        for row, mark in zip(rows, MARKS, strict=False):
            place = (row["flop_per_byte"], row["gflop_per_second"])
            axes.plot(*place, mark, color=color, label=f"{problem}: {row['method']}")
    axes.set(xlabel="FLOP per byte of state moved", ylabel="GFLOP/s")
    _logarithmic(axes)
    axes.set_title("updates under the rooflines")
    axes.legend(fontsize=5, loc="lower right", framealpha=0.5)


def _sweep(axes: Any, rows: list[dict[str, Any]], name: str, label: str) -> None:
    if not rows:
        return
    sizes = [row[name] for row in rows]
    axes.plot(sizes, [row["ms"] for row in rows], "o-", color="#555555", label="update")
    axes.plot(sizes, [row["chain_ms"] for row in rows], "o-", color="#1f5fa8", label="ten moves of the chain")
    axes.set(xlabel=label, ylabel="ms")
    _logarithmic(axes)
    axes.set_title(f"cost by {label.partition(' (')[0]}")
    axes.set_xticks(sizes, [_short(size) for size in sizes])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    _legend(axes, 7)


def _short(size: int) -> str:
    """Formats a size for an axis: large powers of ten as powers."""
    power = len(str(size)) - 1
    return f"$10^{power}$" if size == 10**power and power > 2 else str(size)


def _race(axes: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        axes.set_title("banana: time to quality")
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name and row["seconds"] is not None]
        axes.plot([row["seconds"] for row in mine], [row["kl"] for row in mine], "o-", label=name)
    axes.set(xlabel="seconds", ylabel="KL(q‖p) reached")
    _logarithmic(axes)
    _legend(axes, 7)


def _times(axes: Any, rows: list[dict[str, Any]]) -> None:
    names = [f"{row['problem']}: {row['method']}" for row in rows]
    chains = [(row["chain_share"] or 0.0) * row["ms"] for row in rows]
    axes.barh(names, [row["ms"] for row in rows], color="#cccccc", label="update")
    axes.barh(names, chains, color="#1f5fa8", label="chain")
    axes.set(xlabel="ms")
    if rows:
        axes.set_title("one update")
    axes.tick_params(axis="y", labelsize=6)
    _legend(axes, 7)


def _legend(axes: Any, size: int) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size)


def _logarithmic(axes: Any) -> None:
    """Makes the axes logarithmic, unless they show nothing positive, which Matplotlib would warn about."""
    data = [line.get_xydata() for line in axes.lines]
    shown = np.concatenate(data) if data else np.zeros((0, 2))
    if np.any(np.all(shown > 0, 1)):
        axes.set(xscale="log", yscale="log")
