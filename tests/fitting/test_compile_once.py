"""A second fit of the same density compiles nothing, and `import uivi` imports little."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import uivi
from uivi.training.rounds import Rounds


@pytest.fixture
def compiled():
    """The programs that XLA compiles, by name."""
    names = []

    def listen(event, seconds, **details):
        del seconds
        if "backend_compile" in event:
            names.append(details.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def log_density(z):
    return -0.5 * jnp.sum(z**2) - 0.1 * z[0] ** 4


def model(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


X = np.linspace(-1.0, 2.0, 7, dtype=np.float32)
GIVEN = {
    "a density": lambda: {"log_density": log_density, "dim": 2},
    "a structure": lambda: {"log_density": lambda z: log_density(z["a"]), "init": {"a": jnp.zeros(2)}},
    "a model": lambda: {"log_density": model, "model_args": (X,)},
    "a model with other data": lambda: {"log_density": model, "model_args": (X + next(SHIFTS),)},
}
SHIFTS = iter(np.linspace(0.1, 1.0, 10, dtype=np.float32))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "a structure" else ()) for name in GIVEN]
)
def test_a_second_fit_compiles_nothing(name, compiled):
    given = GIVEN[name]()

    def answer(seed, given):
        # One round: another may ask for more proposals, which is another program.
        settings = {"num_steps": Rounds(20, 1), "progress": False}
        posterior = uivi.fit(**given, key=jax.random.key(seed), **settings)
        posterior.sample(jax.random.key(seed), 100)
        return posterior

    answer(0, given)
    # The control: a first fit does compile. Other data run the program of the model before.
    assert bool(compiled) == (name != "a model with other data")
    compiled.clear()
    answer(1, GIVEN[name]() if name != "a structure" else given)
    assert compiled == []


def test_import_leaves_the_heavy_libraries_alone():
    heavy = "matplotlib arviz arviz_stats blackjax typer numpyro pymc scipy.stats scipy.io rich"
    code = f"import sys, uivi; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
