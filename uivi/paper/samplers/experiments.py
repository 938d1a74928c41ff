"""One contest for each target of the sampler benchmarks: the same contenders, at the seconds of `uivi`."""

import dataclasses
from collections.abc import Callable

from uivi.paper.experiment import Takes
from uivi.paper.samplers.benchmarks import BENCHMARKS, Benchmark, Evidence
from uivi.paper.samplers.contenders import AbstractContender, AtEqualSeconds, Default, Flow, Gaussian, Sivi
from uivi.paper.samplers.nuts import Nuts
from uivi.targets.base import AbstractGlobalTarget

PACER = "uivi"
"""The contender whose seconds the others get."""
PRESET = "seconds"

CONTENDERS: dict[str, AbstractContender] = {
    PACER: Default(),
    "sivi": AtEqualSeconds(Sivi()),
    "gaussian": AtEqualSeconds(Gaussian()),
    "flow": AtEqualSeconds(Flow()),
    "nuts": Nuts(),
}
"""The contenders by name, the pacer first."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest:
    """A target, and the programs that compete on it.

    Attributes:
        name: name on the command line.
        title: human-readable name.
        reference: what the target is.
        make: makes the target; loads the data set first, if there is one.
        evidence: its log Z; None if nobody knows it.
        recipes: contenders by preset, then by name.
        takes: how long a fit takes, by preset.
        dataset: name of the data set, or None.
        kind: section of the report that shows it.
        stand_in: always None: the target is never replaced by another.
        program: always None: every fit is a program of its own.
    """

    name: str
    title: str
    reference: str
    make: Callable[[], AbstractGlobalTarget]
    evidence: Evidence | None
    recipes: dict[str, dict[str, AbstractContender]]
    takes: dict[str, Takes]
    dataset: str | None = None
    kind: str = "samplers"
    stand_in: None = None
    program: None = None


_TITLES = {
    "ionosphere": ("Ionosphere", "logistic regression, 35-d"),
    "sonar": ("Sonar", "logistic regression, 61-d"),
    "german-credit": ("German credit", "logistic regression, 25-d"),
    "german-credit-flat": ("German credit, flat prior", "logistic regression, 25-d"),
    "breast-cancer": ("Breast cancer", "logistic regression, 31-d"),
    "seeds": ("Seeds", "random effects, 26-d"),
    "brownian": ("Brownian motion", "two unknown scales, 32-d"),
    "pines": ("Pines", "log-Gaussian Cox, 1,600-d"),
    "funnel": ("Funnel", "Neal's, 10-d, sd 3"),
    "rosenbrock": ("Rosenbrock", "hybrid, 4-d"),
    "eight-gaussians": ("8 Gaussians", "on a circle, 2-d"),
    "forty-gaussians": ("40 Gaussians", "2-d"),
    "forty-gaussians-50": ("40 Gaussians in 50 dimensions", "50-d"),
    "ten-students": ("10 Students", "two degrees of freedom, 10-d"),
    "ten-students-50": ("10 Students in 50 dimensions", "two degrees of freedom, 50-d"),
    "diffusion": ("Diffusion, the drift of the code", "bridge, 100-d"),
    "diffusion-paper": ("Diffusion, the drift of the papers", "bridge, 100-d"),
}


def contest(name: str, benchmark: Benchmark, title: str, reference: str) -> Contest:
    """Returns the contest of all contenders on a target."""
    return Contest(
        name=name,
        title=title,
        reference=reference,
        make=benchmark.make,
        evidence=benchmark.evidence,
        dataset=benchmark.dataset,
        recipes={PRESET: CONTENDERS},
        takes={PRESET: Takes()},
    )


SAMPLERS = tuple(contest(f"samplers-{name}", BENCHMARKS[name], *words) for name, words in _TITLES.items())

GROUP = tuple(each.name for each in SAMPLERS)
"""What `uivi run samplers` runs."""
