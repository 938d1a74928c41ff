"""What every conditional promises: draws, densities and gradients that agree with each other."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.testing.means import FAILURE_RATE, assert_unbiased
from uivi.testing.promises import differing, require
from uivi.testing.sampling import flat
from uivi.trainable import partition_trained

NUM_DRAWS = 20_000


class _Values(NamedTuple):
    """All methods of a conditional at a few z, ε and contexts."""

    z: Array
    log_prob: Array
    log_prob_of: Array
    log_prob_near: Array
    pairs: Array
    mapped_pairs: Array
    mean_score: Array
    mapped_mean_score: Array


def check_conditional(
    key: Key, conditional: AbstractConditional, contexts: Float[Array, "N C"] | None = None
) -> None:
    """Compares the methods of a conditional with each other, and raises an AssertionError for a broken promise.

    Draws and densities have their shapes and the precision of the parameters, the same key gives the same draw
    and another key another one. `log_prob_of`, `log_prob_near`, `log_prob_pairs` and `mean_score` are what
    `log_prob` says, also far from all components.

    In double precision (`jax.enable_x64`) they are compared to nine digits, in single precision to two.

    Args:
        key: random key.
        conditional: the conditional.
        contexts: a few contexts, if the conditional takes one.
    """
    name, num = type(conditional).__name__, 4 if contexts is None else len(contexts)
    eps_key, draw_key, other_key = jax.random.split(key, 3)
    eps = jax.random.normal(eps_key, (num, conditional.noise_dim))

    @eqx.filter_jit
    def run(key: Key) -> _Values:
        return _values(conditional, jax.random.split(key, num), eps, contexts)

    found, other = run(draw_key), run(other_key)
    context_dim = 0 if contexts is None else contexts.shape[1]
    promised = conditional.context_dim
    require(promised == context_dim, f"expected `context_dim` of {name} to be {context_dim}, got {promised}")
    _require_shape(f"{num} draws of {name}", found.z, (num, conditional.dim), eps.dtype)
    _require_shape(f"{num} values of log_prob of {name}", found.log_prob, (num,), eps.dtype)
    require(not differing(found.z, run(draw_key).z), f"the same key gave another draw of {name}")
    require(differing(found.z, other.z), f"another key gave the same draw of {name}: use `key`")
    single = conditional.log_prob(found.z[2], eps[2], None if contexts is None else contexts[2])
    comparisons = (
        ("log_prob under vmap", found.log_prob[2], single),
        ("log_prob_of", found.log_prob_of, found.log_prob),
        ("log_prob_near", found.log_prob_near, found.log_prob),
        ("log_prob_pairs", found.pairs, found.mapped_pairs),
        ("mean_score", found.mean_score, found.mapped_mean_score),
    )
    tolerance = 1e-9 if eps.dtype == jnp.float64 else 1e-2
    for method, values, expected in comparisons:
        shapes = values.shape, expected.shape
        require(shapes[0] == shapes[1], f"expected shape {shapes[1]} of {method}, got {shapes[0]}")
        message = f"{method} of {name} is not what its log_prob says"
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance, err_msg=message)


def _require_shape(what: str, found: Array, shape: tuple[int, ...], dtype: np.dtype) -> None:
    require(
        (found.shape, found.dtype) == (shape, dtype),
        f"expected {what} of shape {shape} and {dtype}, got {found.shape} and {found.dtype}",
    )


def _values(conditional: AbstractConditional, keys: Array, eps: Array, contexts: Array | None) -> _Values:
    one = contexts if contexts is None else contexts[0]
    z = jax.vmap(conditional.sample)(keys, eps, contexts)
    # The last of them is far from all components.
    several = jnp.concatenate([z, 30 * z[:1]])
    log_prob = lambda z, e: conditional.log_prob(z, e, one)
    score = lambda e: jax.grad(log_prob)(z[0], e)
    weights = jnp.arange(1.0, 1.0 + len(eps)) / jnp.sum(jnp.arange(1.0, 1.0 + len(eps)))
    return _Values(
        z=z,
        log_prob=jax.vmap(conditional.log_prob)(z, eps, contexts),
        log_prob_of=jax.vmap(lambda z, e, c: conditional.log_prob_of(z, c)(e))(z, eps, contexts),
        log_prob_near=jax.vmap(lambda z, e, c: conditional.log_prob_near(z, eps[0], c)(e))(z, eps, contexts),
        pairs=conditional.log_prob_pairs(several, eps, one),
        mapped_pairs=jax.vmap(jax.vmap(log_prob, (0, None)), (None, 0))(several, eps),
        mean_score=conditional.mean_score(z[0], eps, weights, one),
        mapped_mean_score=weights @ jax.vmap(score)(eps),
    )


def assert_draws_follow_density(
    key: Key,
    conditional: AbstractConditional,
    eps: Noise,
    context: Context = None,
    *,
    positive: bool = False,
    failure_rate: float = FAILURE_RATE,
) -> None:
    """Checks that the density of a conditional in one dimension integrates to one, and that draws follow it.

    The second is a Kolmogorov-Smirnov test at the failure rate. Draws with a scale or a location that is off by
    a tenth of a standard deviation must fail it.

    Args:
        key: random key.
        conditional: a conditional of one dimension.
        eps: ε of the draws.
        context: their context, if the conditional takes one.
        positive: whether z lives on the positive half line.
        failure_rate: probability that a correct conditional fails.
    """
    from scipy.stats import kstest  # importing it takes half a second, and few tests need it

    name = type(conditional).__name__
    mass, cdf = _integrated(conditional, eps, context, positive=positive)
    require(abs(mass - 1) < 1e-4, f"the density of {name} integrates to {mass:.6g} instead of one")
    keys = jax.random.split(key, NUM_DRAWS)
    draws = np.asarray(jax.jit(jax.vmap(lambda k: conditional.sample(k, eps, context)))(keys))[:, 0]
    level = lambda draws: float(kstest(draws, cdf).pvalue)
    found = level(draws)
    require(found > failure_rate, f"draws of {name} do not follow its density: p = {found:.2g}")
    for words, wrong in (("scale", 1.1 * draws), ("location", draws + 0.1 * draws.std())):
        require(level(wrong) < failure_rate, f"the control passes: a {words} that is wrong goes unnoticed")


def _integrated(
    conditional: AbstractConditional, eps: Noise, context: Context, *, positive: bool
) -> tuple[float, Callable]:
    """Returns total mass and distribution function by the trapezoid rule."""
    grid = jnp.exp(jnp.linspace(-30.0, 8.0, 20_001)) if positive else jnp.linspace(-60.0, 60.0, 40_001)
    log_prob = jax.vmap(lambda z: conditional.log_prob(z[None], eps, context))
    density = np.exp(np.asarray(jax.jit(log_prob)(grid)))
    grid = np.asarray(grid)
    steps = np.diff(grid) * 0.5 * (density[1:] + density[:-1])
    cumulative = np.concatenate([[0.0], np.cumsum(steps)])
    return float(cumulative[-1]), lambda z: np.interp(z, grid, cumulative)


def assert_reparameterised(
    key: Key, conditional: AbstractConditional, eps: Noise, context: Context = None, *, max_stderr: float = 0.03
) -> None:
    """Checks the gradient of a conditional's draws in its parameters against that of its density.

    For a bounded f, ∇ f(h(u; ε)) and f(z) ∇ log q(z|ε) have the same mean, and that of ∇ log q(z|ε) alone is
    zero. The control is ∇ log q(z|ε) at z that are a little off.

    Args:
        key: random key.
        conditional: a conditional of two dimensions.
        eps: ε of the draws.
        context: their context, if the conditional takes one.
        max_stderr: see `assert_mean`.
    """
    trained, static = partition_trained(conditional)
    combine = lambda trained: eqx.combine(trained, static)

    def one(key: Key):
        draw = lambda trained: combine(trained).sample(key, eps, context)
        path = flat(jax.grad(lambda trained: smooth(draw(trained)))(trained))
        z = draw(trained)
        log_prob = lambda trained, z: combine(trained).log_prob(z, eps, context)
        score, wrong = (flat(jax.grad(log_prob)(trained, x)) for x in (z, z + 0.3))
        return path - smooth(z) * score, score, wrong

    difference, score, wrong = jax.jit(jax.vmap(one))(jax.random.split(key, NUM_DRAWS))
    both = jnp.concatenate([difference, score], 1)
    control = jnp.concatenate([difference, wrong], 1)
    assert_unbiased(both, 0.0, control=control, max_stderr=max_stderr)


def smooth(z: Latent) -> Scalar:
    """Returns a bounded function of two variables that is not symmetric in anything."""
    return jnp.tanh(z[0]) - 0.5 * jnp.tanh(z[1]) + jnp.tanh(z[0] * z[1])
