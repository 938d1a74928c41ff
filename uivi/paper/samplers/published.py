"""Goals for KL(q‖p), and ELBOs that others have published.

All published figures are second-hand: from notes on the papers, which have other starts, families and budgets.
"""

from typing import NamedTuple

from uivi.paper.methods.published import PUBLISHED as BY_METHOD
from uivi.paper.report.columns import number
from uivi.paper.samplers.benchmarks import BENCHMARKS


class PublishedElbo(NamedTuple):
    """An ELBO that others have published, in nats.

    Attributes:
        method: the method, or what it is known by.
        elbo: its value.
    """

    method: str
    elbo: float


BEST = "the best that we know"
GOALS = {
    "ionosphere": 0.04,
    "sonar": 0.2,
    "german-credit": 0.02,
    "german-credit-flat": 0.02,
    "breast-cancer": 0.5,
    "seeds": 0.01,
    "brownian": 0.05,
    "pines": 2.98,
    "funnel": 0.04,
    "eight-gaussians": 0.05,
    "diffusion": 0.05,
    "diffusion-paper": 0.05,
}
"""Our goals for KL(q‖p) in nats, by target. That of the pines is an ELBO above the best Gaussian's, 498.80."""

PUBLISHED: dict[str, tuple[PublishedElbo, ...]] = {
    "ionosphere": (PublishedElbo(BEST, -111.657), PublishedElbo("another paper", -27.5)),
    "sonar": (PublishedElbo(BEST, -108.83),),
    "german-credit": (PublishedElbo(BEST, -585.145),),
    "german-credit-flat": (PublishedElbo(BEST, -504.58),),
    "breast-cancer": (PublishedElbo(BEST, -78.40),),
    "seeds": (PublishedElbo(BEST, -73.418),),
    "brownian": (PublishedElbo(BEST, 1.118),),
    "pines": (
        PublishedElbo("SMC", 497.85),
        PublishedElbo("another paper", 486.8),
        PublishedElbo("another paper", 469.9),
        PublishedElbo("another paper", 1118.0),
    ),
    "funnel": tuple(PublishedElbo("three papers", elbo) for elbo in (-0.04, -0.058, -0.212)),
    "eight-gaussians": (PublishedElbo("SIVI", -0.236), PublishedElbo("RealNVP", -0.280)),
}
"""By target. Centres and sizes of the larger mixtures differ from code to code, so they have none."""


def is_impossible(name: str, elbo: float) -> bool:
    """Whether an ELBO lies above log Z, beyond its standard error: no distribution has it."""
    log_z, stderr, _ = BENCHMARKS[name].evidence
    return elbo > log_z + 4 * stderr


def in_words(name: str) -> list[str]:
    """Returns a line for each published figure. Impossible ones are named so."""
    lines = []
    for method, elbo in PUBLISHED.get(name, ()):
        log_z = number(BENCHMARKS[name].evidence.log_z, 3)
        what = f"impossible: above log Z = {log_z}" if is_impossible(name, elbo) else "second-hand"
        lines.append(f"{method}: ELBO {number(elbo, 3)} ({what})")
    for found in BY_METHOD.get(f"methods-{name}", ()):
        lines.append(f"{found.method}: {found.figure} ({found.source})")
    return lines
