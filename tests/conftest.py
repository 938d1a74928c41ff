"""Settings of the whole suite: shapes are checked, implicit promotions and warnings are errors."""

import functools
import os
import pathlib
import threading

import jax
import jaxtyping
import optax
import pytest
from jax._src import compiler
from jaxtyping import install_import_hook

# PyTensor runs little here, and need not compile it.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=,mode=FAST_COMPILE")

# XLA's new code generator takes twice as long for the many small programs of the suite, and cutting programs
# into parts, which cores compile side by side, a tenth longer. XLA reads the flags at its first use.
if jax.__version_info__ < (0, 11):  # later releases have no other code generator, and refuse the flag
    flags = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
    os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *flags)).strip()

# Before anything imports uivi: every annotated shape of the package is checked at run time.
install_import_hook("uivi", "beartype.beartype")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Calls queued behind one another were seen to hang JAX 0.10.2 on two cores: each is waited for.
jax.config.update("jax_cpu_enable_async_dispatch", False)
# The suite compiles much and runs little: this takes a third off its time.
jax.config.update("jax_disable_most_optimizations", True)

_keeps_level: set[bool] = set()
_compile_options = compiler.get_compile_options


def _not_optimised(*args, env_options_overrides=None, **kwargs):
    """Let uivi's own level of optimisation not undo the setting: fits compile in two thirds of the time."""
    options = dict(env_options_overrides or {})
    if jax.config.read("jax_disable_most_optimizations") and not _keeps_level:
        options.pop("xla_backend_optimization_level", None)
    return _compile_options(*args, env_options_overrides=options or None, **kwargs)


if jax.__version_info__ < (0, 11):  # not a public interface
    compiler.get_compile_options = _not_optimised


def _standard_promotion(function):
    """Run a third-party function under JAX's ordinary promotion rules."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with jax.numpy_dtype_promotion("standard"):
            return function(*args, **kwargs)

    return call


# Optax 0.2.8 mixes the int32 update count with floats in these two; uivi itself must not.
optax.tree.bias_correction = _standard_promotion(optax.tree.bias_correction)
_cosine = optax.cosine_decay_schedule
optax.cosine_decay_schedule = lambda *args, **kwargs: _standard_promotion(_cosine(*args, **kwargs))


MOST_MAPS = 4_500
"""Number of memory maps from which compiled programs are forgotten: a worker has 3 GB then, instead of 5."""


@pytest.fixture(autouse=True, scope="module")
def _few_programs():
    """Forget compiled programs before they use up the memory, or the process's memory maps (65,530 on Linux).

    XLA maps each program separately; near the limit its compiler crashes.
    """
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def _short_second_looks(request, monkeypatch):
    """Fits of a few updates leave doubt, and a second look at them takes seconds: here it is a short one."""
    if "full_looks" not in request.fixturenames:
        for module in ("uivi.evaluation.verdict", "uivi.training.monitors"):
            monkeypatch.setattr(f"{module}.MORE_DRAWS", 1)


@pytest.fixture
def own_level():
    """Compiles at uivi's own level of optimisation: for many updates, and for the bits of another process."""
    jax.clear_caches()
    _keeps_level.add(True)
    yield
    _keeps_level.clear()


@pytest.fixture
def full_looks():
    """Second looks as users have them."""


def pytest_collection_modifyitems(items):
    """Begin with the files of this folder: the longest is among them, and a worker runs a file by itself."""
    items.sort(key=lambda item: item.path.parent != pathlib.Path(__file__).parent)


@pytest.fixture
def getkey():
    """A function that returns a new random key at each call; the same keys in every run."""
    keys = iter(range(10_000))
    return lambda: jax.random.key(next(keys))


@pytest.fixture
def quiet_threads():
    """Wait for what fits of earlier tests still compile in the background.

    Equinox and beartype enter `warnings.catch_warnings` there. It is not safe for threads, and can undo
    `pytest.warns`.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("uivi-compile"):
            thread.join()


@pytest.fixture
def x64():
    """Double precision for one test. Arrays must be made inside the test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """The package as users have it: without the suite's run-time types, whose error would come first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
