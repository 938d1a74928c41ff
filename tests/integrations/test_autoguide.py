"""AutoUIVI: under the right losses its gradient is the closed form's; other losses are refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.infer import SVI, RenyiELBO, Trace_ELBO, TraceGraph_ELBO, TraceMeanField_ELBO

import uivi
from uivi._jax import ordinary_promotion
from uivi.families import LinearGaussian
from uivi.integrations.autoguide import AutoUIVI
from uivi.reverse import ISIR, Exact, FromMixing
from uivi.reverse.base import AbstractPerDrawSampler
from uivi.testing import assert_mean, assert_not_mean
from uivi.trainable import trained


@pytest.fixture(autouse=True)
def numpyro_rules():
    """NumPyro needs JAX's ordinary promotion rules."""
    with ordinary_promotion():
        yield


MEAN, SD = jnp.array([0.5, -1.0]), jnp.array([1.0, 0.4])


def model():
    numpyro.sample("z", dist.Normal(MEAN, SD).to_event(1))


def family() -> uivi.SemiImplicit:
    weights = jnp.array([[0.8, 0.3], [-0.4, 0.6]])
    return uivi.SemiImplicit(
        uivi.families.StandardNormal(2), LinearGaussian(weights, jnp.array([0.1, 0.2]), jnp.array([0.7, 0.5]))
    )


def exact_loss(flat, unflatten, static) -> jax.Array:
    """KL(q ‖ p) of Gaussians: minus the ELBO, for the target is normalised."""
    linear = eqx.combine(unflatten(flat), static)[0].conditional
    eps_cov = linear.weight @ linear.weight.T + jnp.diag(linear.scale**2)
    precision = jnp.diag(1 / SD**2)
    gap = linear.bias - MEAN
    log_det = 2 * jnp.sum(jnp.log(SD)) - jnp.linalg.slogdet(eps_cov)[1]
    return 0.5 * (jnp.trace(precision @ eps_cov) + gap @ precision @ gap - 2 + log_det)


NUM_PARAMETERS = ravel_pytree(trained(family()))[0].size
SAMPLERS = {"exact": Exact(), "i-SIR": ISIR(proposal=FromMixing()), "learned": ISIR()}


def prepared(sampler):
    guide = AutoUIVI(model, family=family(), sampler=sampler)
    with numpyro.handlers.seed(rng_seed=0):
        guide()
    return guide


def gradients(loss, guide, keys):
    """Losses, and gradients in the family's parameters: the learned proposal's come behind them."""
    start, rest = jnp.split(guide._flat, [NUM_PARAMETERS])
    parameters = lambda part: {"auto_parameters": jnp.concatenate([part, rest])}
    one = lambda part, key: loss.loss(key, parameters(part), model, guide)
    return jax.jit(jax.vmap(jax.value_and_grad(one), (None, 0)))(start, keys)


class Stuck(AbstractPerDrawSampler):
    """The exact sampler, except that ε′ = ε."""

    exact: Exact = Exact()

    def init(self, key, family):
        return self.exact.init(key, family)

    def kernel(self, key, family, draw, context, state):
        reverse, info, memo = self.exact.kernel(key, family, draw, context, state)
        same = jnp.broadcast_to(draw.eps, reverse.eps.shape)
        return eqx.tree_at(lambda r: r.eps, reverse, same), info, memo

    def adapt(self, state, draws, contexts, memos):
        return state

    def fitted_proposal(self, state):
        return self.exact.fitted_proposal(state)


@pytest.mark.parametrize(
    "loss",
    [
        Trace_ELBO(),
        pytest.param(TraceMeanField_ELBO(), marks=pytest.mark.slow),
        Trace_ELBO(num_particles=3),
    ],
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_gradient_is_that_of_the_closed_form(name, loss, getkey):
    guide = prepared(SAMPLERS[name])
    losses, grads = gradients(loss, guide, jax.random.split(getkey(), 8_000))
    expected = jax.grad(exact_loss)(guide._flat, guide._unflatten, guide._static)
    # i-SIR's ε′ still depends on ε a little.
    bias = 0.0 if name == "exact" else 0.03
    assert_mean(np.asarray(grads), np.asarray(expected[:NUM_PARAMETERS]), max_stderr=0.12, bias=bias)
    value = float(exact_loss(guide._flat, guide._unflatten, guide._static))
    error = 4 * float(losses.std()) / np.sqrt(losses.size)
    assert value - error < float(losses.mean()) < value + error + 0.1  # an upper bound, and a close one


def test_a_sampler_that_stays_at_its_start_is_noticed(getkey):
    """The control: with ε′ = ε the gradient belongs to another objective."""
    guide = prepared(Stuck())
    grads = gradients(Trace_ELBO(), guide, jax.random.split(getkey(), 8_000))[1]
    assert_not_mean(
        np.asarray(grads), np.asarray(jax.grad(exact_loss)(guide._flat, guide._unflatten, guide._static))
    )


class Weighted(Trace_ELBO):
    """A loss of the user's own."""


@pytest.mark.parametrize("loss", [RenyiELBO(alpha=0.5, num_particles=2), TraceGraph_ELBO(), Weighted()])
def test_svi_refuses_other_losses(loss):
    with pytest.raises(TypeError, match=f"expected Trace_ELBO .* got {type(loss).__name__}: its log density"):
        AutoUIVI(model).svi(optax.adam(1e-3), loss)


@pytest.mark.parametrize("loss", [RenyiELBO(alpha=0.5, num_particles=2), TraceGraph_ELBO()])
def test_a_plain_svi_refuses_numpyros_other_losses(loss):
    svi = SVI(model, AutoUIVI(model), optax.adam(1e-3), loss)
    with pytest.raises(TypeError, match="expected Trace_ELBO .* got a loss that needs the log density"):
        svi.run(jax.random.key(0), 1, progress_bar=False)


def test_svi_is_numpyros_own():
    guide = AutoUIVI(model)
    svi = guide.svi(optax.adam(1e-3), TraceMeanField_ELBO(num_particles=2), level=3.0)
    assert (svi.model, svi.guide, svi.loss.num_particles) == (model, guide, 2)
    assert svi.static_kwargs == {"level": 3.0}
    assert type(guide.svi(optax.adam(1e-3)).loss) is Trace_ELBO


def constrained():
    scale = numpyro.sample("scale", dist.Gamma(4.0, 2.0))
    numpyro.deterministic("twice", 2 * scale)


def test_svi_runs_on_a_constrained_model(getkey):
    guide = AutoUIVI(constrained)
    svi = guide.svi(optax.adam(5e-3), Trace_ELBO(num_particles=4))
    result = svi.run(jax.random.key(0), 20, progress_bar=False)
    draws = guide.sample_posterior(getkey(), result.params, sample_shape=(50,))
    assert draws["scale"].shape == (50,)
    assert np.all(draws["scale"] > 0)
    np.testing.assert_allclose(draws["twice"], 2 * draws["scale"], rtol=1e-6)
    assert np.all(np.isfinite(result.losses))
    assert not np.array_equal(result.params["auto_parameters"], guide._flat)
    assert guide.get_family(result.params).dim == 1


def test_a_family_of_another_size_is_refused():
    with (
        pytest.raises(ValueError, match="expected a family on 1 dimensions"),
        numpyro.handlers.seed(rng_seed=0),
    ):
        AutoUIVI(constrained, family=family())()
