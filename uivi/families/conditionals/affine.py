"""Affine maps of z behind any conditional: a full covariance by composition, and a standard scale."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped
from uivi.families.conditionals.stretched import Stretch, Stretched
from uivi.trainable import NonTrainable


class Affine(AbstractMapped):
    """z = shift + A w with w ~ inner(ε). A is lower triangular with a positive diagonal; all of it is trained.

    Around a `Gaussian` this is a Gaussian with the full covariance A diag(σ²) Aᵀ. Around a `NetGaussian` the
    covariance also varies with ε. The inner network works on a standardised scale, whatever the units of z.
    """

    inner: AbstractConditional
    shift: Float[Array, "D"]
    log_diagonal: Float[Array, "D"]
    lower: Float[Array, "D D"]

    def __check_init__(self):
        dim, advice = self.inner.dim, "it must have the size of z"
        _checks.shape("`shift`", self.shift, (dim,), advice)
        _checks.shape("`log_diagonal`", self.log_diagonal, (dim,), advice)
        _checks.shape("`lower`", self.lower, (dim, dim), advice)

    @classmethod
    def create(
        cls,
        inner: AbstractConditional,
        shift: Float[Array, "D"] | None = None,
        cholesky: Float[Array, "D D"] | None = None,
    ) -> "Affine":
        """Wraps `inner`, starting at the identity by default."""
        dim = inner.dim
        shift = jnp.zeros(dim) if shift is None else shift
        cholesky = jnp.eye(dim) if cholesky is None else cholesky
        _checks.shape("`shift`", shift, (dim,), "it must have the size of z")
        _checks.shape("`cholesky`", cholesky, (dim, dim), "it must be square in the size of z")
        diagonal = jnp.diag(cholesky)
        return cls(inner, shift, jnp.log(diagonal), jnp.tril(cholesky, -1) / diagonal[:, None])

    def matrix(self) -> Float[Array, "D D"]:
        """Returns A = diag(exp(log_diagonal)) (I + strictly lower part)."""
        unit = jnp.eye(self.dim, dtype=self.lower.dtype) + jnp.tril(self.lower, -1)
        return jnp.exp(self.log_diagonal)[:, None] * unit

    def move(self, w: Latent) -> Latent:
        """Returns shift + A w."""
        return self.shift + self.matrix() @ w

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Returns A⁻¹ (z - shift) and the sum of the log diagonal."""
        return solve_triangular(self.matrix(), z - self.shift, lower=True), jnp.sum(self.log_diagonal)


class Standardised(AbstractMapped):
    """z = loc + F w with w ~ inner(ε). F is a matrix or a diagonal; neither loc nor F is trained.

    With rough moments of the posterior as loc and F, everything that is trained is of order one.

    Attributes:
        inner: the conditional of w.
        loc: rough mean of z.
        factor: F.
        inverse: F⁻¹. A product with it is cheaper than a solve, and JAX 0.10 can deadlock in batched solves.
        volume: log |det F|.
    """

    inner: AbstractConditional
    loc: NonTrainable
    factor: NonTrainable
    inverse: NonTrainable
    volume: NonTrainable

    def __check_init__(self):
        dim, advice = self.inner.dim, "it must have the size of z"
        _checks.shape("`loc`", self.loc.value, (dim,), advice)
        for name in ("factor", "inverse"):
            value = getattr(self, name).value
            _checks.shape(f"`{name}`", value, (dim,) * max(1, jnp.ndim(value)), advice)
        _checks.shape("`volume`", self.volume.value, (), "it is the logarithm of a determinant")

    @classmethod
    def create(
        cls, inner: AbstractConditional, loc: Float[Array, "D"], factor: Float[Array, "D D"] | Float[Array, "D"]
    ) -> "Standardised":
        """Wraps `inner`. F is inverted in float64, unless it is traced."""
        dim, advice = inner.dim, "it must have the size of z"
        _checks.shape("`loc`", loc, (dim,), advice)
        _checks.shape("`factor`", factor, (dim,) * max(1, factor.ndim), advice)
        return cls.on(inner, Frame.create(loc, factor))

    @classmethod
    def on(cls, inner: AbstractConditional, frame: "Frame") -> "Standardised":
        """Wraps `inner` by a frame that is made already."""
        *parts, stretch = frame
        inner = inner if stretch is None else Stretched.on(inner, stretch)
        return cls(inner, *(NonTrainable(x) for x in parts))

    @property
    def frame(self) -> "Frame":
        """Location and scale."""
        return Frame(self.loc(), self.factor(), self.inverse(), self.volume())

    def move(self, w: Latent) -> Latent:
        """Returns loc + F w."""
        return self.frame.move(w)

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Returns F⁻¹ (z - loc) and log |det F|, which is the same for every z."""
        return self.frame.whiten(z), self.volume()


class Frame(NamedTuple):
    """A location and a scale for z: z = loc + F w.

    Attributes:
        loc: rough mean of z.
        factor: F, a matrix or a diagonal.
        inverse: F⁻¹.
        volume: log |det F|.
        stretch: a stretch of w before F, or None; see `uivi.families.Stretched`.
    """

    loc: Array
    factor: Array
    inverse: Array
    volume: Array
    stretch: Stretch | None = None

    @classmethod
    def create(cls, loc: Array | np.ndarray, factor: Array | np.ndarray) -> "Frame":
        """Inverts F in float64, on the host, unless it is traced."""
        is_traced = isinstance(factor, Tracer)
        xp, wide = (jnp, factor) if is_traced else (np, np.asarray(factor, np.float64))
        is_full = factor.ndim == 2
        volume = xp.linalg.slogdet(wide)[1] if is_full else xp.sum(xp.log(xp.abs(wide)))
        if not is_traced and not np.isfinite(volume):
            raise ValueError("expected a `factor` with an inverse, got a singular one: q would have no density")
        inverse = xp.linalg.inv(wide) if is_full else 1 / wide
        dtype = jax.dtypes.canonicalize_dtype(factor.dtype)
        # NumPy rounds and `device_put` copies: neither compiles a program.
        is_host = lambda x: not isinstance(x, Tracer)
        place = lambda x: jax.device_put(np.asarray(x, dtype)) if is_host(x) else x.astype(dtype)
        return cls(*(place(x) for x in (loc, wide, inverse, volume)))

    def move(self, w: Latent) -> Latent:
        """Returns loc + F w, with w stretched before if there is a stretch."""
        return self.loc + _times(self.factor, w if self.stretch is None else self.stretch.times(w))

    def whiten(self, z: Latent) -> Latent:
        """Returns w."""
        w = _times(self.inverse, z - self.loc)
        return w if self.stretch is None else self.stretch.inverse().times(w)


def _times(factor: Float[Array, "D D"] | Float[Array, "D"], w: Latent) -> Latent:
    """Returns F w. A one-dimensional factor is a diagonal."""
    return factor @ w if factor.ndim == 2 else factor * w
