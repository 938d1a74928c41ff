"""What a fit refuses at once, with words of its own."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi.targets import Density
from uivi.targets.traced import digest


def fit(density=log_density, dim=2, **changes):
    return uivi.fit(density, dim, key=jax.random.key(0), **(explicit_settings() | changes))


@pytest.mark.parametrize(
    ("num_steps", "message"), [(10**18, "at most 1,000,000,000 updates"), (10**9 + 1, "smaller `num_steps`")]
)
def test_more_updates_than_anyone_can_wait_for(num_steps, message):
    with pytest.raises(ValueError, match=message):
        fit(num_steps=num_steps)
    with pytest.raises(ValueError, match="at most"):
        uivi.training.Rounds(10, 10**6)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_densities_of_half_precision(dtype):
    with pytest.raises(ValueError, match="expected a log density in float32 or float64, got b?float16"):
        fit(lambda z: -jnp.sum(z.astype(dtype) ** 2))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_point_of_half_precision_becomes_float32(dtype):
    posterior = fit(lambda z: -jnp.sum(z**2), None, init=np.zeros(2, dtype))
    assert posterior.sample(jax.random.key(1), 3).dtype == jnp.float32


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (optax.sgd(float("nan")), "first updates not finite"),
        (optax.adam(float("nan")), "first updates not finite"),
        (optax.adam(-1e-3), "first updates go uphill"),
        (optax.sgd(-1e-3), "first updates go uphill"),
    ],
)
def test_optimisers_that_cannot_learn(optimizer, message):
    with pytest.raises(ValueError, match=message):
        fit(optimizer=optimizer)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adamw(1e-3, weight_decay=0.1),
        optax.chain(optax.clip_by_global_norm(1.0), optax.lion(1e-3)),
        optax.sgd(lambda count: 1e-3 * jnp.minimum(count, 10) / 10),
    ],
    ids=["decay", "clipped", "warm-up"],
)
def test_optimisers_that_can(optimizer):
    with jax.numpy_dtype_promotion("standard"):
        assert fit(optimizer=optimizer).history["step"][-1] == 20


def test_a_sampler_given_as_a_string(unchecked):
    for make in (lambda: uivi.UIVI(sampler="hmc"), lambda: uivi.reverse.Compose("hmc")):
        with pytest.raises(TypeError, match="expected .*reverse sampler.* got str 'hmc'"):
            make()


def code(scale, table):
    """Densities of one name and other contents, as two versions of a file have them."""

    def changing(z):
        return -0.5 * scale * jnp.sum(z**2) + jnp.sum(jnp.asarray(table)) * z[0]

    changing.__qualname__, changing.__module__ = "changing", __name__
    return changing


changing = code(1.0, np.zeros(3, np.float32))


def test_a_checkpoint_of_changed_code_is_refused(tmp_path, monkeypatch):
    fit(changing, checkpoint=tmp_path)
    other = code(2.0, np.zeros(3, np.float32))
    monkeypatch.setitem(globals(), "changing", other)
    with pytest.raises(ValueError, match="another configuration"):
        fit(other, checkpoint=tmp_path)


def test_the_digest_sees_numbers_and_derivatives():
    table = np.zeros(2000, np.float32)
    late = table.copy()
    late[1000] = 1e-3

    @jax.custom_jvp
    def square(x):
        return x**2

    def density(z):
        return -jnp.sum(square(z))

    square.defjvp(lambda x, t: (x[0] ** 2, 2 * x[0] * t[0]))
    digests = [digest(Density(code(s, t), 2)) for s, t in ((1.0, table), (1.5, table), (1.0, late))]
    digests.append(digest(Density(density, 2)))
    square.defjvp(lambda x, t: (x[0] ** 2, 3 * x[0] * t[0]))
    jax.clear_caches()
    digests.append(digest(Density(density, 2)))
    assert len(set(digests)) == len(digests)
    assert digest(Density(code(1.0, table), 2)) == digests[0]
