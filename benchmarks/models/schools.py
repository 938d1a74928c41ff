"""Eight schools (Rubin 1981; Gelman et al.), with the published effects and standard errors."""

import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def centred(effects, errors) -> None:
    """The sites are mu, tau and theta ~ N(mu, tau), with a funnel between tau and theta."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", effects.shape[0]):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, errors), obs=effects)


def noncentred(effects, errors) -> None:
    """The sites are mu, tau and eta ~ N(0, 1). The effects are mu + tau * eta."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", effects.shape[0]):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * eta, errors), obs=effects)


_DATA = {"effects": EFFECTS, "errors": ERRORS}

SCHOOLS = (
    Model("schools_centred", "Eight schools, centred", centred, _DATA, decentre=("theta",)),
    Model("schools_noncentred", "Eight schools, non-centred", noncentred, _DATA),
)
