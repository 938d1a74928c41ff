"""The benchmark measures what it says, on programs small enough for a test."""

import json

import jax
import jax.numpy as jnp
import pytest

from uivi import gpu, presets
from uivi.bench import (
    PARTS,
    bench,
    cases,
    flops,
    measure,
    quality,
    sweeps,
)
from uivi.bench import (
    runner as running,
)
from uivi.bench import (
    terminal as table,
)
from uivi.estimators import SIVI, UIVI
from uivi.reverse import HMC, FixedStep
from uivi.training.update import Method, initial_state, run_updates

SMALL_UIVI = UIVI(2, HMC(1, 1, 3, FixedStep(0.1)))
TINY = (
    cases.Case("banana", "uivi", presets.paper_family, SMALL_UIVI, presets.paper_optimizer, 2),
    cases.Case("banana", "sivi", presets.paper_family, SIVI(2, 3), presets.paper_optimizer, 2),
)


def test_products_are_counted_through_loops_maps_and_derivatives():
    a = jnp.ones((3, 4))
    loss = lambda w: jnp.sum(jnp.tanh(a @ w) ** 2)
    assert flops.count_products(loss, jnp.ones((4, 5))) == 2 * 3 * 4 * 5
    # Backwards one product more: the input has no gradient.
    assert flops.count_products(jax.grad(loss), jnp.ones((4, 5))) == 2 * 2 * 3 * 4 * 5
    turn = lambda x: jax.lax.fori_loop(0, 7, lambda _, y: y @ x, x)
    assert flops.count_products(jax.jit(turn), jnp.ones((2, 2))) == 7 * 16
    assert flops.count_products(jax.vmap(turn), jnp.ones((3, 2, 2))) == 3 * 7 * 16


def test_the_chain_costs_its_gradients():
    """One leapfrog more adds one gradient a move and chain: two products with w2, two with w1, two with w3."""
    count = []
    for leapfrogs in (1, 2):
        estimator = UIVI(4, HMC(1, 1, leapfrogs))
        case = cases.Case("banana", "", presets.paper_family, estimator, presets.paper_optimizer, 1)
        count.append(measure._products_of_update(*case.start(None)))
    weights = 3 * 50 + 50 * 50 + 50 * 2
    assert count[1] - count[0] == 4 * 2 * 2 * 2 * weights


def test_a_row_of_the_table():
    row = measure.measure(TINY[0])
    assert row["ms"] > 0
    assert 0 <= row["chain_share"] <= 1
    assert row["gflop"] * 1e9 == measure._products_of_update(*TINY[0].start(None))
    assert measure.measure(TINY[1])["chain_share"] is None


def test_an_update_without_its_chain_keeps_the_start(getkey):
    method = Method(UIVI(2, measure.Stay()), presets.paper_optimizer(1))
    state = initial_state(getkey(), method, presets.paper_family(getkey(), 2), cases.PROBLEMS["banana"]())
    _, info = run_updates(method, state, 2)
    assert float(info.mean.jump) == 0.0


def test_the_rate_of_products_is_plausible():
    assert 1e6 < measure.product_rate((8, 16, 16), None) < 1e16


def test_a_goal_out_of_reach_has_no_time(getkey, monkeypatch):
    racer = quality.Racer(presets.paper_family, SIVI(2, 3), presets.paper_optimizer, 4, 2)
    monkeypatch.setattr(quality, "RACERS", {"slow": racer})
    monkeypatch.setattr(quality, "GOALS", (1e6, 1e-9))
    easy, hard = quality.race("slow", getkey(), 60.0)
    assert easy["seconds"] > 0
    assert hard["seconds"] is None


@pytest.mark.slow
def test_the_whole_benchmark_in_small(tmp_path, monkeypatch, getkey):
    monkeypatch.setattr(running, "cases", lambda: [*TINY, *(c for c in TINY_VAE)])
    monkeypatch.setattr(running, "COPIED", 1_000)
    monkeypatch.setattr(running, "product_rate", lambda shape, precision: 1e9)
    monkeypatch.setattr(running, "compare", lambda draws, updates: {"draws": draws, "ratio": 1.0})
    monkeypatch.setattr(sweeps, "SWEEPS", {n: lambda quick, n=n: [SMALLEST] for n in sweeps.SWEEPS})
    monkeypatch.setattr(
        running, "race", lambda name, key, limit: [{"method": name, "kl": 0.1, "seconds": None}]
    )
    said = []
    found = bench(tmp_path, None, quick=True, say=said.append)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert all(found[part] for part in PARTS)
    assert [row["lanes"] for row in found["lanes"]] == [1, 2]
    assert said
    assert len(table(found).renderables) == len(PARTS)
    again = bench(tmp_path, None, ["flat"], quick=True, say=said.append)
    assert again["updates"] == found["updates"], "parts that were not asked for are kept"
    assert bench(tmp_path, "highest", ["flat"], quick=True, say=said.append)["updates"] == []


SMALLEST = sweeps.Setting(2, 2, 4)
TINY_VAE = (cases.Case("vae", "sivi", presets.paper_family, SIVI(1, 2), presets.paper_optimizer, 1),)


@pytest.fixture(autouse=True)
def small_vae(monkeypatch):
    """The problem `vae` with a toy's size."""
    monkeypatch.setitem(cases.PROBLEMS, "vae", cases.PROBLEMS["banana"])


def test_an_interrupted_part_keeps_its_rows(tmp_path, monkeypatch):
    def interrupted(precision, quick, say):
        yield {"draws": 1}
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "rates", lambda precision: {"small": 1.0})
    monkeypatch.setitem(running.PARTS, "flat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench(tmp_path, None, ["flat"], say=lambda words: None)
    assert json.loads((tmp_path / "bench.json").read_text())["flat"] == [{"draws": 1}]


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown part 'updaets': did you mean 'updates'"):
        bench(tmp_path, None, ["updaets"])


def test_every_case_can_be_traced():
    """The real cases, without running them."""
    for case in cases.cases():
        if case.problem == "banana":
            method, state = case.start(None)
            assert measure._products_of_update(method, state) > 0
    fused = [c for c in cases._ALL if cases.NOT_FUSED in c.method]
    assert gpu.is_available() or not set(fused) & set(cases.cases())
