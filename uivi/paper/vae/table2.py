"""Table 2: test log-likelihood of the variational autoencoders, published values and ours.

`PUBLISHED` holds the paper's values. Ours are in `results/paper/vae-*/paper-*/result.json`, computed with the
paper's estimator at the paper's budget. `uivi report results/paper` shows both side by side, and
`docs/paper.md` discusses the differences.
"""

from uivi.paper.results import Result, median

PUBLISHED = {
    "vae-mnist": {"explicit": -98.29, "sivi": -97.77, "uivi": -94.09},
    "vae-fashion": {"explicit": -126.73, "sivi": -121.53, "uivi": -110.72},
}
"""Log p(x) in nats per test image, by experiment and method."""

TOLERANCE = 1.5
"""Difference in nats beyond which the report highlights our value."""


def published_by_run(experiment: str) -> dict[str, tuple[float, str]]:
    """Returns the published values of one experiment with their source, by "preset-method"."""
    return {
        f"paper-{method}": (value, "Table 2 (paper's estimator)")
        for method, value in PUBLISHED[experiment].items()
    }


def ours(result: Result) -> float | None:
    """Returns our log p(x) by the paper's estimator: the median over the seeds."""
    return median(result, "paper", "mean")


def published(result: Result) -> float | None:
    """Returns the value in Table 2, or None for a run that the paper does not have."""
    return result["published"] and result["published"]["value"]


def difference(result: Result) -> float | None:
    """Returns our value minus the published one, or None if either is missing."""
    mine, theirs = ours(result), published(result)
    return None if mine is None or theirs is None else mine - theirs


def differs(result: Result) -> bool:
    """Returns whether our value is further than `TOLERANCE` from the published one."""
    found = difference(result)
    return found is not None and abs(found) > TOLERANCE
