"""Whatever `uivi.fit` is given, it returns a fit with a verdict, or raises an error of our own.

An error is our own if a module of uivi raises it, as a TypeError or a ValueError that says what was expected or
what failed. An error from inside JAX, NumPy or Equinox is a fault, and so is a RuntimeWarning.

Densities are module-level functions of module-level arrays, so that cases of equal shapes share their programs.
"""

import dataclasses
import pathlib
import traceback
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import uivi
from tests.tiny import implicit_settings
from uivi.evaluation.check import Verdict
from uivi.fitting.problem import problem_of
from uivi.fitting.starts.checked import checked_start
from uivi.targets.traced import traced

OUR_FILES = str(pathlib.Path(uivi.__file__).parent)
OUR_WORDS = ("expected", "failed", "cannot", "unknown")
MOST = 3
"""Largest number of dimensions. The arrays of the densities have as many entries."""

ARRAYS: dict[str, jax.Array] = {}
"""Which density this case has, and its numbers."""


def _normal(tree):
    z = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(tree)])
    size = len(z)
    return -0.5 * jnp.sum(((z - ARRAYS["loc"][:size]) / ARRAYS["scale"][:size]) ** 2) + ARRAYS["constant"]


def _where(tree):
    """Whether the first coordinate is on the far side of the density's location."""
    first = jnp.ravel(jax.tree.leaves(tree)[0])[0]
    return (first - ARRAYS["loc"][0]) / ARRAYS["scale"][0] > ARRAYS["edge"]


def plain(tree):
    return _normal(tree)


def nan_region(tree):
    return jnp.where(_where(tree), jnp.nan, _normal(tree))


def infinite_region(tree):
    return jnp.where(_where(tree), jnp.inf, _normal(tree))


def bounded(tree):
    return jnp.where(_where(tree), -jnp.inf, _normal(tree))


def jump(tree):
    return jnp.where(_where(tree), 5.0, 0.0) + _normal(tree)


def heavy(tree):
    return -jnp.log1p(-_normal(tree))


def unbounded(tree):
    return -_normal(tree)


def flat(tree):
    return 0.0 * _normal(tree)


def nowhere(tree):
    return jnp.nan * _normal(tree)


def half(tree):
    return _normal(tree).astype(jnp.float16)


def whole(tree):
    return _normal(tree).astype(jnp.int32)


def vector(tree):
    return _normal(tree)[None]


def nothing(tree):
    del tree


def pair(tree):
    return _normal(tree), 0.0


def broken(tree):
    raise RuntimeError("a fault of the user's own")


def on_the_host(tree):
    return float(_normal(tree))


def in_numpy(tree):
    return np.sum(np.asarray(jax.tree.leaves(tree)[0]))


BRANCHES = (plain, nan_region, infinite_region, bounded, jump, heavy, unbounded, flat, nowhere)


def usable(tree):
    """One of the densities above: a program of this one serves for all of them."""
    return jax.lax.switch(ARRAYS["kind"], BRANCHES, tree)


UNUSABLE = (half, whole, vector, nothing, pair, broken, on_the_host, in_numpy)
NO_DENSITIES = ("normal", None, 3.0, np.zeros(2), [plain], object(), uivi.ExplicitGaussian)

STRUCTURES = (
    lambda x: x[:1],
    lambda x: x[:MOST],
    lambda x: {"": x[0], "a/b c": x[1:MOST]},
    lambda x: {"z": x[:1], "log_p": {"\N{GREEK SMALL LETTER MU}": x[1:MOST]}},
    lambda x: [x[0], (x[1], {}, None)],
    lambda x: x[0],
    lambda x: x[:MOST].reshape(1, MOST, 1),
)
DIMS = (1, MOST, np.int64(2))
EMPTY = ((), {}, [], {"a": ()}, None, np.zeros(0), {"a": np.zeros((0, 2))})
DTYPES = (np.float32, np.float64, np.float16, np.int32, np.uint8, bool, np.complex64, object, "U4")
SCALES = st.floats(-6, 6).map(lambda power: float(10.0**power))
KEYS = (0, 1.5, "key", None, np.zeros(2, np.uint32), np.zeros(3), jax.random.split(jax.random.key(0)), True)
SEEDS = (0, np.int64(7), 2**32 - 1, 2**32, -1, 1.0, "1", True, np.zeros(2, int))
STEPS = (1, 3, np.int32(3), 0, -1, 2.0, "3", True, 10**18, float("nan"), uivi.training.Rounds(2, 1), [3])


@dataclasses.dataclass(frozen=True)
class Case:
    """The arguments of one call, and the arrays of its density."""

    density: Any
    arrays: dict[str, Any]
    arguments: dict[str, Any]


def _mostly(usual, *odd, share=12):
    """One draw in `share` or so is odd. Hypothesis likes the ends of a range, so the middle stands for it."""
    strange = st.one_of(*map(st.sampled_from, odd))
    return st.integers(0, share - 1).flatmap(lambda number: strange if number == share // 2 else usual)


@st.composite
def _arrays(draw):
    loc = draw(st.sampled_from([0.0, 1.0, -30.0, 1e4, 1e9])) * draw(st.sampled_from([0.0, 1.0, draw(SCALES)]))
    kind = draw(st.sampled_from(["one", "equal", "any"]))
    equal = 1.0 if kind == "one" else draw(SCALES)
    scale = [draw(SCALES) if kind == "any" else equal for _ in range(MOST)]
    constant = draw(_mostly(st.just(0.0), [1e6, 1e9, -1e9, 1e30, float("inf"), float("nan")], share=4))
    edge = draw(st.sampled_from([0.0, 1.0, 3.0]))
    kind = draw(st.integers(0, len(BRANCHES) - 1))
    return {"loc": [loc] * MOST, "scale": scale, "constant": constant, "edge": edge, "kind": kind}


@st.composite
def _points(draw, structures):
    """An example draw: some structure of some dtype, now and then empty, infinite or NaN."""
    structure = draw(st.sampled_from(structures))
    values = np.full(MOST, draw(_mostly(st.sampled_from([0.0, 1.0, -3.0]), [1e30, np.inf, np.nan])))
    dtype = draw(_mostly(st.sampled_from(DTYPES[:2]), DTYPES[2:], share=5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the test's own: NaN as a whole number
        return jax.tree.map(lambda x: np.asarray(x).astype(dtype), structure(values))


@st.composite
def _places(draw, structures, dims):
    """Either `dim` or `init`; now and then both, neither, or neither of use."""
    kind = draw(_mostly(st.sampled_from(["dim", "init"]), ["both", "neither", "odd dim", "empty"], share=8))
    if kind == "odd dim":
        return {"dim": draw(st.sampled_from([0, -1, 2.0, "2", True, 2**40, np.zeros(2)]))}
    if kind == "empty":
        return {"init": draw(st.sampled_from(EMPTY))}
    found = {}
    if kind in ("dim", "both"):
        found["dim"] = draw(st.sampled_from(dims))
    if kind in ("init", "both"):
        found["init"] = draw(_points(structures))
    return found


@st.composite
def cases(draw, structures=STRUCTURES, dims=DIMS):
    """One call of `fit` with small settings. Fewer structures and sizes need fewer programs."""
    density = draw(_mostly(st.just(usable), UNUSABLE, NO_DENSITIES, share=6))
    place = draw(_places(structures, dims))
    size = place.get("dim", sum(np.size(x) for x in jax.tree.leaves(place.get("init"))))
    size = int(size) if isinstance(size, int | np.integer) and 0 < size <= MOST else 1
    explicit = {"family": uivi.ExplicitGaussian.create(size), "estimator": uivi.Explicit(num_draws=4)}
    method = explicit
    if size == 2:
        method = {name: implicit_settings()[name] for name in ("family", "estimator")}
    odd = {
        "family": ("gaussian", 3, uivi.ExplicitGaussian.create(4), uivi.ExplicitGaussian),
        "estimator": ("uivi", uivi.UIVI, uivi.Explicit, uivi.UIVI()),
        "optimizer": ("adam", 1e-3, optax.adam(-1.0), optax.sgd(float("nan")), optax.sgd(1e30), optax.lbfgs()),
        "model_args": ((1,), 3, np.zeros(2)),
        "checkpoint": (3, b"x", ["x"]),
        "progress": ("yes", 1, None),
    }
    name = draw(_mostly(st.none(), list(odd), share=6))
    changed = {} if name is None else {name: draw(st.sampled_from(odd[name]))}
    steps = draw(_mostly(st.sampled_from(STEPS[:3]), STEPS[3:], share=10))
    random = draw(_mostly(st.just({"key": jax.random.key(1)}), [{"key": k} for k in KEYS], share=10))
    if draw(_mostly(st.just(False), [True], share=10)):
        random = draw(st.sampled_from([{"random_seed": s} for s in SEEDS] + [{}, {**random, "random_seed": 1}]))
    return Case(density, draw(_arrays()), {**place, **method, **changed, **random, "num_steps": steps})


@st.composite
def searches(draw, structures=STRUCTURES):
    """A density and a place, for the search alone."""
    place = (
        {"init": draw(_points(structures))}
        if draw(st.booleans())
        else {"dim": draw(st.sampled_from([1, MOST]))}
    )
    return Case(usable, draw(_arrays()), place)


def _is_ours(error):
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    is_worded = any(word in str(error) for word in OUR_WORDS)
    return isinstance(error, TypeError | ValueError) and last.startswith(OUR_FILES) and is_worded


def _outcome(case, answer):
    """The answer, or None after an error of our own. Any other error fails the test."""
    for name, value in case.arrays.items():
        ARRAYS[name] = jnp.asarray(value, jnp.int32 if name == "kind" else jnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ours, about precision and the like
        try:
            return answer()
        except (TypeError, ValueError) as error:
            if not _is_ours(error):
                raise
            return None


def _fit(case):
    arguments = {"optimizer": ADAM, "progress": False, **case.arguments}
    posterior = _outcome(case, lambda: uivi.fit(case.density, **arguments))
    if posterior is None:
        return
    found = posterior.check()
    assert found.verdict in Verdict
    assert found.verdict == Verdict.BAD or posterior.status is uivi.Status.DONE
    assert found.advice or found.verdict is Verdict.GOOD
    draws = posterior.sample(jax.random.key(2), 2)
    if "init" in arguments:
        assert jax.tree.structure(draws) == jax.tree.structure(arguments["init"])


ADAM = optax.adam(1e-2)


def _search(case):
    def answer():
        problem = problem_of(case.density, jax.random.key(0), **case.arguments)
        return checked_start(jax.random.key(1), problem, traced(problem.target))

    start = _outcome(case, answer)
    if start is not None:
        assert np.all(np.isfinite(start.loc))
        assert np.all(np.isfinite(start.factor))
        assert np.all(np.abs(np.diag(start.factor)) > 0)


def fuzzed(strategy, number):
    """Calls a test with as many cases, the same in every run."""
    chosen = settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: chosen(given(case=strategy)(test))


@fuzzed(cases(STRUCTURES[1:3], (MOST,)), 25)
def test_fits(unchecked, case):
    _fit(case)


@fuzzed(searches(STRUCTURES[1:3]), 25)
def test_searches(unchecked, case):
    _search(case)


@pytest.mark.slow
@fuzzed(cases(), 1_500)
def test_many_fits(unchecked, case):
    _fit(case)


@pytest.mark.slow
@fuzzed(searches(), 500)
def test_many_searches(unchecked, case):
    _search(case)


@pytest.mark.parametrize(
    "error", [lambda: jnp.zeros(2) + jnp.zeros(3), lambda: np.zeros(2) + np.zeros(3), lambda: {}["expected"]]
)
def test_errors_of_others_are_not_ours(error):
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        error()
    assert not _is_ours(caught.value)


def test_ours_are():
    with pytest.raises(ValueError, match="expected") as caught:
        uivi.fit(plain, 0, key=jax.random.key(0))
    assert _is_ours(caught.value)
