"""A Brownian motion with unknown scales and a gap in its observations."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import standard_normal_log_prob

OBSERVATIONS = (
    *(0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845),
    *(-0.1484156, -0.3250906, -0.22957903, -0.44110894, -0.09830782),
    *(-0.8786016, -0.83736074, -0.7384849, -0.8939254, -0.7774566),
    *(-0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789),
)
"""The observations of TensorFlow Probability's Inference Gym."""

PLACES = (*range(10), *range(20, 30))
"""Numbers of the observed positions, from 0."""

PRIOR_SCALE = 2.0


class BrownianMotion(AbstractGlobalTarget):
    """The posterior of z = (log s, log t, x₁, …, x₃₀) with x_i ~ N(x_{i-1}, s²) from x₀ = 0.

    The first and the last ten positions are observed with Gaussian noise of standard deviation t. Both log
    scales have the prior N(0, 2²). This is `BrownianMotionUnknownScalesMissingMiddleObservations` of the
    Inference Gym, as a density of the log scales.

    Attributes:
        observations: what was observed.
        places: numbers of the observed positions, from 0.
        length: number of positions.
    """

    observations: tuple[float, ...] = eqx.field(static=True, default=OBSERVATIONS)
    places: tuple[int, ...] = eqx.field(static=True, default=PLACES)
    length: int = eqx.field(static=True, default=30)

    def __check_init__(self):
        _checks.positive_int("length", self.length)
        if not self.places or len(self.observations) != len(self.places):
            raise ValueError(
                f"expected one observation for each observed position, and at least one, got "
                f"{len(self.observations)} observations for {len(self.places)} places"
            )
        if min(self.places) < 0 or max(self.places) >= self.length:
            raise ValueError(
                f"expected places from 0 to {self.length - 1}, got {min(self.places)} to {max(self.places)}: "
                "count the positions from 0, or raise `length`"
            )

    @property
    def dim(self) -> int:
        """Number of positions, and two scales."""
        return 2 + self.length

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(x, y, scales), normalised."""
        del site
        scales, positions = z[:2], z[2:]
        steps = jnp.diff(positions, prepend=jnp.zeros((1,), z.dtype))
        noise = jnp.asarray(self.observations, z.dtype) - positions[np.array(self.places)]
        return (
            _normal(scales, jnp.log(jnp.asarray(PRIOR_SCALE, z.dtype)))
            + _normal(steps, scales[0])
            + _normal(noise, scales[1])
        )


def _normal(x: Latent, log_scale: Scalar) -> Scalar:
    return standard_normal_log_prob(x * jnp.exp(-log_scale)) - x.shape[0] * log_scale
