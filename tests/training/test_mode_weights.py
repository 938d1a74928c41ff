"""Weights of modes from the draws of q: right after one step, whatever they were before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi.families import AtModes, LinearGaussian, SemiImplicit, StandardNormal
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.presets import default_optimizer
from uivi.targets import Density
from uivi.testing import assert_unbiased
from uivi.training.mode_weights import changed, reweighted
from uivi.training.update import Method, initial_state

EXACT = np.array([0.7, 0.2, 0.1])
OWN = np.array([0.2, 0.3, 0.5])
PLACES = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, -9.0]])
NUM_RUNS, NUM_DRAWS = 400, 500


def weighed(rng, own):
    """One step from draws of q with weights `own`; p/q varies within each mode, with mean one."""
    mode = rng.choice(3, NUM_DRAWS, p=own)
    noise = np.exp(0.5 * rng.standard_normal(NUM_DRAWS) - 0.125)
    return np.exp(changed(np.log(own), np.eye(3)[mode], noise * (EXACT / own)[mode]))


def test_one_step_is_unbiased():
    """Up to a bias of the order of 1 / draws. The control are the weights of draws that are not reweighted."""
    rng = np.random.default_rng(0)
    found = np.stack([weighed(rng, OWN) for _ in range(NUM_RUNS)])
    control = np.stack([rng.multinomial(NUM_DRAWS, OWN) / NUM_DRAWS for _ in range(NUM_RUNS)])
    assert_unbiased(found, EXACT, control=control, max_stderr=0.002, bias=0.002)


def test_constant_ratios_give_exact_weights():
    """How many draws fall to a mode is chance, and has no part in its weight."""
    mode = np.array([0] * 7 + [1] * 50 + [2] * 90)
    new = changed(np.log(OWN), np.eye(3)[mode], (EXACT / OWN)[mode])
    np.testing.assert_allclose(np.exp(new), EXACT)


def test_a_mode_without_draws_keeps_its_weight():
    mode = np.array([0] * 50 + [1] * 50)
    new = np.exp(changed(np.log(OWN), np.eye(3)[mode], np.ones(100)))
    np.testing.assert_allclose(new, OWN)


def state_of(conditional):
    """A fit of a mixture of three normal distributions, and its method."""

    def log_density(z):
        logs = jax.vmap(lambda place: jnp.sum(jax.scipy.stats.norm.logpdf(z - place)))(
            jnp.asarray(PLACES, z.dtype)
        )
        return jax.nn.logsumexp(logs + jnp.log(jnp.asarray(EXACT, z.dtype)))

    sampler = uivi.ISIR(num_proposals=4, num_rounds=1, proposal=uivi.reverse.FromMixing())
    method = Method(uivi.UIVI(num_draws=4, sampler=sampler), default_optimizer(20))
    family = SemiImplicit(StandardNormal(2), conditional)
    return method, initial_state(jax.random.key(0), method, family, Density(log_density, 2))


@pytest.fixture(scope="module")
def exact():
    """Standard normal at every mode: q is the target but for the weights."""
    inner = LinearGaussian(0.6 * jnp.eye(2), jnp.zeros(2), 0.8 * jnp.ones(2))
    frames = [Frame.create(place, np.eye(2)) for place in PLACES]
    return state_of(AtModes.on(inner, Places.create(frames, OWN)))


def test_a_state_gets_the_weights_of_the_target(exact):
    method, state = exact
    new = reweighted(method, reweighted(method, state))
    found = np.exp(np.asarray(new.family.conditional.log_weights()))
    np.testing.assert_allclose(found, EXACT, atol=0.01)
    assert np.sum(found) == pytest.approx(1, abs=1e-5)
    # Nothing else has changed.
    np.testing.assert_array_equal(new.family.conditional.shift, state.family.conditional.shift)
    assert new.step == state.step


def test_any_other_fit_stays_as_it_is(exact):
    inner = exact[1].family.conditional.inner
    method, state = state_of(inner)
    assert reweighted(method, state) is state
