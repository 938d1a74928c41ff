"""A log-Gaussian Cox process: points in the plane whose log intensity is a Gaussian process."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import standard_normal_log_prob
from uivi.targets.rows import Rows

VARIANCE, RANGE = 1.91, 1 / 33
"""Variance and range of the log intensity of the Finnish pines (Møller et al., 1998)."""


class CoxProcess(AbstractGlobalTarget):
    """The posterior of the log intensity z in the G² cells of the unit square, given points in it.

    z is Gaussian with mean log N - v/2 for N points, and with covariance v exp(-|i-j| / (G r)) between the
    cells i and j, whose places are counted in cells. A cell has y ~ Poisson(exp(z) / G²) points. The density
    lacks the factorials of y, as all public code has it (Møller et al., 1998; Heng et al., 2020).

    Attributes:
        counts: y, with the second coordinate running fastest.
        whitening: the inverse of the covariance's Cholesky factor.
        mean: prior mean of z.
        log_volume: half the log determinant of the covariance.
    """

    counts: Rows
    whitening: Rows
    mean: float = eqx.field(static=True)
    log_volume: float = eqx.field(static=True)

    @classmethod
    def create(
        cls, points: np.ndarray, *, cells: int = 40, variance: float = VARIANCE, reach: float = RANGE
    ) -> "CoxProcess":
        """Counts the points in every cell and factors the covariance.

        Args:
            points: places in the unit square, shape (N, 2).
            cells: number of cells along each side, G.
            variance: v.
            reach: r, the distance over which correlations fall by a factor e.
        """
        points = np.asarray(points, np.float64)
        _checks.positive_int("cells", cells)
        _checks.positive_float("variance", variance)
        _checks.positive_float("reach", reach)
        if points.ndim != 2 or points.shape[1] != 2 or not len(points):
            raise ValueError(f"expected points of shape (N, 2), got {points.shape}: give one row per point")
        if not np.all((points >= 0) & (points <= 1)):
            raise ValueError("expected points in the unit square, got others: rescale the coordinates first")
        # A point on the upper edge belongs to the last cell.
        row, column = np.minimum((points * cells).astype(int), cells - 1).T
        counts = np.bincount(cells * row + column, minlength=cells**2)
        places = np.stack(np.divmod(np.arange(cells**2), cells), 1)
        distances = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
        factor = np.linalg.cholesky(variance * np.exp(-distances / (cells * reach)))
        return cls(
            Rows.create(counts),
            Rows.create(np.linalg.inv(factor)),
            math.log(len(points)) - variance / 2,
            float(np.log(np.diag(factor)).sum()),
        )

    @property
    def dim(self) -> int:
        """Number of cells, G²."""
        return self.counts.shape[0]

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(y, z) without the factorials of y."""
        del site
        white = self.whitening.stored().astype(z.dtype) @ (z - self.mean)
        log_likelihood = jnp.sum(self.counts.stored().astype(z.dtype) * z - jnp.exp(z) / self.dim)
        return log_likelihood + standard_normal_log_prob(white) - self.log_volume
