"""One row per conditional, mixing distribution, scale and family; every exported one must have a row."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from uivi.families import (
    MLP,
    AbstractConditional,
    Affine,
    AtModes,
    AtParticles,
    ExplicitGaussian,
    Exponential,
    FullGaussian,
    Gamma,
    Gaussian,
    Laplace,
    Layered,
    LinearGaussian,
    LogScale,
    NetGaussian,
    RawScale,
    Reparameterised,
    SemiImplicit,
    Sheared,
    Standardised,
    StandardNormal,
    Stretched,
    TwoNetGaussian,
    Uniform,
    Warped,
)
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.families.conditionals.stretched import Stretch
from uivi.integrations.flowjax import Flow, RealNVP

NOISE_DIM = 2


class Row(NamedTuple):
    """How to make a conditional of a given size.

    Attributes:
        make: `(key, dim, context_dim) -> conditional`.
        positive: whether z lives on the positive half line.
        takes_context: whether it can be amortised.
        pathwise: whether a draw is a smooth function of the parameters at a fixed key.
        noise_dim: size of its ε.
    """

    make: Callable[..., AbstractConditional]
    positive: bool = False
    takes_context: bool = True
    pathwise: bool = True
    noise_dim: int = NOISE_DIM


def net(key, outputs: int, context_dim: int) -> MLP:
    return MLP.create(key, NOISE_DIM, outputs, context_dim=context_dim, width=6, activation=jnp.tanh)


def _logistic_sample(key, p):
    return p + jax.random.logistic(key, p.shape)


def _logistic_log_prob(z, p):
    return jnp.sum(jax.scipy.stats.logistic.logpdf(z - p))


def _scale(dim: int):
    return jnp.linspace(0.5, 1.2, dim)


def _gaussian(key, dim, context_dim):
    return Gaussian(net(key, dim, context_dim), LogScale(jnp.log(_scale(dim))))


def _net_gaussian(key, dim, context_dim):
    return NetGaussian(net(key, 2 * dim, context_dim), jnp.log(_scale(dim)))


def _affine(inner):
    def make(key, dim, context_dim):
        cholesky = jnp.array([[1.4, 0.0], [-0.8, 0.6]])[:dim, :dim]
        shift = jnp.array([0.3, -1.0])[:dim]
        return Affine.create(inner(key, dim, context_dim), shift, cholesky)

    return make


def _warped(inner):
    def make(key, dim, context_dim):
        skew, tail = jnp.array([0.5, -0.2])[:dim], jnp.array([0.8, 1.3])[:dim]
        return Warped.create(inner(key, dim, context_dim), skew, tail)

    return make


def _sheared(inner):
    def make(key, dim, context_dim):
        sheared = Sheared.create(key, inner(key, dim, context_dim), num_layers=3, width=4)
        return eqx.tree_at(lambda s: s.out, sheared, 0.5 * jax.random.normal(key, sheared.out.shape))

    return make


def _layered(inner):
    def make(key, dim, context_dim):
        layered = Layered.create(key, inner(key, dim, context_dim), num_layers=3, width=4)
        return eqx.tree_at(lambda s: s.out, layered, 1.5 * jax.random.normal(key, layered.out.shape))

    return make


def _standardised(inner, factor):
    """`factor` is cut to size: a matrix or a diagonal."""

    def make(key, dim, context_dim):
        cut = jnp.asarray(factor)[tuple([slice(dim)] * jnp.ndim(jnp.asarray(factor)))]
        return Standardised.create(inner(key, dim, context_dim), jnp.array([-0.4, 0.3])[:dim], cut)

    return make


def _stretched(key, dim, context_dim):
    basis = jnp.array([[0.6], [0.8]])[:dim]
    return Stretched.on(
        _net_gaussian(key, dim, context_dim), Stretch(basis / jnp.linalg.norm(basis), jnp.array([0.4]))
    )


def _at_particles(key, dim, context_dim):
    return AtParticles.create(key, 5, _net_gaussian(key, dim, context_dim))


def _at_modes(key, dim, context_dim):
    """Two modes that overlap, so that both have a part in every density."""
    factors = np.array([[0.8, 0.0], [0.3, 0.5]]), np.array([[0.6, 0.0], [-0.2, 0.9]])
    places = zip(np.array([[-1.0, 0.3], [0.7, -0.2]]), factors, strict=True)
    frames = [Frame.create(loc[:dim], factor[:dim, :dim]) for loc, factor in places]
    made = AtModes.on(_net_gaussian(key, dim, context_dim), Places.create(frames, np.array([0.4, 0.6])))
    trained = (0.2 * jnp.ones((2, dim)), jnp.array([[0.1], [-0.2]]) * jnp.ones((1, dim)))
    return eqx.tree_at(lambda m: (m.shift, m.log_scale), made, trained)


def _linear(key, dim, context_dim):
    del context_dim
    return LinearGaussian(jax.random.normal(key, (dim, NOISE_DIM)), jnp.ones(dim), _scale(dim))


CONDITIONALS = {
    "gaussian": Row(_gaussian),
    "gaussian-raw-scale": Row(lambda k, d, c: Gaussian(net(k, d, c), RawScale(_scale(d)))),
    "net-gaussian": Row(_net_gaussian),
    "laplace": Row(lambda k, d, c: Laplace(net(k, d, c), LogScale(jnp.log(_scale(d))))),
    "exponential": Row(lambda k, d, c: Exponential(net(k, d, c)), positive=True),
    # Drawn by rejection, with an implicit derivative.
    "gamma": Row(lambda k, d, c: Gamma(net(k, 2 * d, c)), positive=True, pathwise=False),
    "user": Row(lambda k, d, c: Reparameterised(net(k, d, c), d, _logistic_sample, _logistic_log_prob)),
    "affine-gaussian": Row(_affine(_gaussian)),
    "affine-net-gaussian": Row(_affine(_net_gaussian)),
    "standardised": Row(_standardised(_net_gaussian, [[0.5, 0.3], [-0.4, 0.5]])),
    "standardised-diagonal": Row(_standardised(_gaussian, [3.0, 0.2])),
    "sheared": Row(_sheared(_net_gaussian)),
    "layered": Row(_layered(_net_gaussian)),
    "stretched": Row(_stretched),
    "warped": Row(_warped(_net_gaussian)),
    "at-modes": Row(_at_modes),
    "at-particles": Row(_at_particles, noise_dim=1),
    "linear-gaussian": Row(_linear, takes_context=False),
}

MIXINGS = {"standard-normal": (StandardNormal, scipy.stats.norm), "uniform": (Uniform, scipy.stats.uniform)}
"""Constructor by dimension, and the SciPy distribution of one coordinate."""

SCALES = {"log": LogScale, "raw": RawScale}


def _encoder(seed: int) -> MLP:
    return MLP.create(jax.random.key(seed), 3, 2, width=5)


def full_gaussian() -> FullGaussian:
    """Nothing symmetric; what is above the diagonal must not count."""
    lower = jnp.array([[5.0, -7.0], [-0.8, 3.0]])
    return FullGaussian(jnp.array([0.4, -0.3]), jnp.array([-0.5, 0.2]), lower)


FAMILIES = {
    "semi-implicit": lambda: SemiImplicit(StandardNormal(NOISE_DIM), _linear(jax.random.key(0), 2, 0)),
    "explicit": lambda: ExplicitGaussian.create(2),
    "full": full_gaussian,
    "two-nets": lambda: TwoNetGaussian(_encoder(1), _encoder(2)),
    "flow": lambda: Flow.create(jax.random.key(0), RealNVP(2, num_layers=2, width=4)),
}
