"""FlowJAX's flows as families: density, draws, gradients, fits, files, and what is refused."""

import flowjax.bijections
import flowjax.distributions
import flowjax.flows
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
import pytest

import uivi
from tests.estimators.table import ESTIMATORS, FLOWS, flow_family
from uivi import presets
from uivi._types import Status
from uivi.families.conditionals.affine import Frame
from uivi.integrations.flowjax import Flow, RealNVP, Spline
from uivi.storage import posteriors
from uivi.storage.archive import ArchiveError
from uivi.testing import (
    TARGET_COVARIANCE,
    assert_mean,
    assert_not_mean,
    flat,
    gradient_samples,
    make_oracle,
)
from uivi.testing.oracle import LOG_CONSTANT
from uivi.trainable import NonTrainable, trained

AXIS = np.linspace(-9.0, 9.0, 241)
CELL = (AXIS[1] - AXIS[0]) ** 2
NUM_ESTIMATES = 6_000
SMALL = RealNVP(2, num_layers=2, width=4)


def grid():
    return jnp.asarray(np.stack(np.meshgrid(AXIS, AXIS), -1).reshape(-1, 2))


def partly_fixed(key):
    """A flow whose last layer FlowJAX does not train."""
    flow = flowjax.flows.planar_flow(
        key, base_dist=flowjax.distributions.StandardNormal((2,)), flow_layers=2, negative_slope=0.1
    )
    last = flowjax.bijections.Affine(jnp.array([0.5, -0.5]), jnp.array([0.7, 1.2]))
    return flowjax.distributions.Transformed(flow, paramax.non_trainable(last))


MAKERS = {"real-nvp": SMALL, "spline": Spline(2, num_layers=2, width=4, knots=4), "user": partly_fixed}


@pytest.mark.parametrize("name", MAKERS)
def test_density_and_draws_agree(name, x64, getkey):
    """The integral is one, and means by quadrature are those of draws; not so of another flow."""
    moments = lambda z: jnp.concatenate([z, jnp.tanh(z) ** 2, jnp.sin(2 * z)])
    frame = Frame.create(jnp.array([0.3, -0.5]), jnp.array([[1.1, 0.0], [0.4, 0.8]]))
    key = getkey()
    family, other = (Flow.create(k, MAKERS[name], frame=f) for k, f in ((key, frame), (key, None)))

    def by_quadrature(family):
        density = jnp.exp(jax.jit(jax.vmap(family.log_prob))(grid())) * CELL
        np.testing.assert_allclose(density.sum(), 1.0, atol=3e-3)
        return density @ jax.vmap(moments)(grid())

    draws = jax.jit(jax.vmap(lambda k: family.sample(k).z))(jax.random.split(getkey(), 20_000))
    assert_mean(jax.vmap(moments)(draws), by_quadrature(family), max_stderr=0.02, bias=5e-3)
    assert_not_mean(jax.vmap(moments)(draws), by_quadrature(other))


def negative_elbo(family, target):
    """By quadrature, without a draw."""
    points = grid()
    log_q = jax.vmap(family.log_prob)(points)
    log_p = jax.vmap(target.log_density)(points)
    return CELL * jnp.sum(jnp.exp(log_q) * (log_q - log_p))


@pytest.mark.parametrize("name", FLOWS)
def test_gradient_of_the_elbo(name, x64, getkey):
    family, target = flow_family(), make_oracle().target
    exact = flat(jax.jit(lambda f: jax.grad(negative_elbo, allow_int=True)(f, target))(family))
    assert np.max(np.abs(exact)) > 0.5
    samples = gradient_samples(getkey(), ESTIMATORS[name].make(), (family, target), NUM_ESTIMATES)
    assert_mean(samples, exact, max_stderr=0.06)
    assert_not_mean(-samples, exact)


def test_what_flowjax_fixes_is_not_trained(getkey):
    family = Flow.create(getkey(), partly_fixed)
    fixed = [x for x in family.arrays if isinstance(x, NonTrainable)]
    assert len(fixed) == 2
    assert len(jax.tree.leaves(trained(family))) == len(family.arrays) - 2


def test_a_fit_with_a_verdict_a_checkpoint_and_a_file(tmp_path, getkey):
    """Of a target that the flow cannot miss; a resumed fit is the same, and so is a loaded posterior."""
    target = make_oracle().target
    fit = lambda check: uivi.fit(
        target,
        key=jax.random.key(0),
        family=Flow.create(jax.random.key(1), SMALL, frame=Frame.create(jnp.zeros(2), jnp.ones(2))),
        optimizer=optax.adam(0.02),
        num_steps=300,
        checkpoint=tmp_path / "fit",
        check=check,
        progress=False,
    )
    posterior, again = fit(True), fit(False)
    draws = posterior.sample(jax.random.key(2), 5)
    np.testing.assert_array_equal(again.sample(jax.random.key(2), 5), draws)
    check = posterior.check()
    assert check.lower.mean == pytest.approx(check.upper.mean)
    log_z = LOG_CONSTANT + np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(TARGET_COVARIANCE)[1]
    assert log_z - 0.1 < check.lower.mean < log_z + 5 * check.lower.stderr
    posterior.save(tmp_path / "posterior")
    with pytest.raises(ArchiveError, match=r"trust=\[Flow, RealNVP\]"):
        uivi.load(tmp_path / "posterior")
    loaded = uivi.load(tmp_path / "posterior", trust=[Flow, RealNVP])
    np.testing.assert_array_equal(loaded.sample(jax.random.key(2), 5), draws)


def test_a_nameless_function_cannot_be_saved(getkey):
    family = Flow.create(getkey(), lambda key: SMALL(key))
    with pytest.raises(ValueError, match="write it with `def` or `class`"):
        posteriors.describe(family, jnp.zeros(2), Status.DONE)


def test_the_settings():
    family = presets.methods.flow_family(jax.random.key(0), 3, num_layers=4, width=8)
    assert family.make == RealNVP(3, num_layers=4, width=8)
    assert presets.methods.spline_family(jax.random.key(0), 1, width=8).make == Spline(1, width=8)
    estimator = presets.methods.flow_estimator()
    assert isinstance(estimator, uivi.estimators.StickingTheLanding)
    assert estimator.num_draws == 256


def of_shape(shape, **kwargs):
    return lambda key: flowjax.flows.coupling_flow(
        key, base_dist=flowjax.distributions.StandardNormal(shape), **kwargs
    )


@pytest.mark.parametrize(
    ("error", "make", "message"),
    [
        (ValueError, lambda: RealNVP(1), "`dim` of at least 2 for RealNVP, got 1: .*use Spline"),
        (ValueError, lambda: RealNVP(2, num_layers=0), "`num_layers` to be a positive whole number, got 0"),
        (ValueError, lambda: Spline(2, interval=0.0), "`interval` to be positive and finite"),
        (
            TypeError,
            lambda: Flow.create(jax.random.key(0), lambda key: 3.0),
            "to return a FlowJAX distribution, got float: return one of flowjax",
        ),
        (
            ValueError,
            lambda: Flow.create(jax.random.key(0), of_shape((2,), cond_dim=3)),
            r"an unconditional distribution .* cond_shape \(3,\): leave out cond_dim",
        ),
        (
            ValueError,
            lambda: Flow.create(jax.random.key(0), SMALL, frame=Frame.create(jnp.zeros(3), jnp.ones(3))),
            r"the location of `frame` of shape \(2,\), got \(3,\)",
        ),
        (
            ValueError,
            lambda: uivi.fit(
                make_oracle().target,
                key=jax.random.key(0),
                family=Flow.create(jax.random.key(0), RealNVP(3, num_layers=2, width=4)),
                progress=False,
            ),
            "expected a family on 2 dimensions",
        ),
    ],
)
def test_bad_input(error, make, message):
    with pytest.raises(error, match=message):
        make()
