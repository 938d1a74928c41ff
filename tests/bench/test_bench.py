"""The benchmark measures what it claims to, on programs small enough for a test."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import pytest

from uivi import gpu, presets
from uivi.bench import PARTS, cases, flops, measure, quality, run, runner, sweeps, table
from uivi.estimators import SIVI, UIVI
from uivi.reverse import HMC, FixedStep
from uivi.testing import Stuck
from uivi.training.update import Method, initial_state, run_updates

SMALL_UIVI = UIVI(2, HMC(num_burnin=1, num_draws=1, num_leapfrog=3, step_size=FixedStep(0.1)))
SMALL_SIVI = SIVI(num_draws=2, num_mixing=3)
on_banana = functools.partial(
    cases.Case, problem="banana", family=presets.paper_family, optimizer=presets.paper_optimizer, updates=2
)
TINY = (on_banana(method="uivi", estimator=SMALL_UIVI), on_banana(method="sivi", estimator=SMALL_SIVI))
TINY_VAE = dataclasses.replace(TINY[1], problem="vae")
SMALLEST = sweeps.Sweep(full=[], quick=[sweeps.Setting(dim=2, chains=2, width=4)])


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
        sampler = HMC(num_burnin=1, num_draws=1, num_leapfrog=leapfrogs)
        case = on_banana(method="uivi", estimator=UIVI(4, sampler))
        count.append(measure._products_of_update(*case.start(None)))
    weights = 3 * 50 + 50 * 50 + 50 * 2
    assert count[1] - count[0] == 4 * 2 * 2 * 2 * weights


def test_a_row_of_the_table():
    row = measure.measure_case(TINY[0])
    assert row["ms"] > 0
    assert 0 <= row["chain_share"] <= 1
    assert row["gflop"] * 1e9 == measure._products_of_update(*TINY[0].start(None))
    assert measure.measure_case(TINY[1])["chain_share"] is None


def test_an_update_without_its_chain_keeps_the_start(getkey):
    method = Method(UIVI(2, Stuck()), presets.paper_optimizer(1))
    state = initial_state(getkey(), method, presets.paper_family(getkey(), 2), cases.PROBLEMS["banana"]())
    _, info = run_updates(method, state, 2)
    assert float(info.mean.jump) == 0.0


def test_the_rate_of_products_is_plausible():
    assert 1e6 < measure.product_rate((8, 16, 16), None) < 1e16


def test_a_goal_out_of_reach_has_no_time(getkey, monkeypatch):
    racer = quality.Racer(
        family=presets.paper_family,
        estimator=SMALL_SIVI,
        optimizer=presets.paper_optimizer,
        num_steps=4,
        chunk=2,
    )
    monkeypatch.setattr(quality, "RACERS", {"slow": racer})
    monkeypatch.setattr(quality, "GOALS", (1e6, 1e-9))
    easy, hard = quality.race("slow", getkey(), 60.0)
    assert easy["seconds"] > 0
    assert hard["seconds"] is None


@pytest.mark.slow
def test_the_whole_benchmark_in_small(tmp_path, monkeypatch, getkey):
    monkeypatch.setattr(runner, "available_cases", lambda: [*TINY, TINY_VAE])
    monkeypatch.setattr(runner, "COPIED", 1_000)
    monkeypatch.setattr(runner, "product_rate", lambda shape, precision: 1e9)
    monkeypatch.setattr(runner, "compare", lambda draws, updates: {"draws": draws, "ratio": 1.0})
    monkeypatch.setattr(runner, "SWEEPS", dict.fromkeys(sweeps.SWEEPS, SMALLEST))
    monkeypatch.setattr(runner, "race", lambda name, key, limit: [{"method": name, "kl": 0.1, "seconds": None}])
    said = []
    found = run(tmp_path, precision=None, quick=True, say=said.append)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert all(found[part] for part in PARTS)
    assert [row["lanes"] for row in found["lanes"]] == [1, 2]
    assert said
    assert len(table(found).renderables) == len(PARTS)
    again = run(tmp_path, precision=None, parts=["flat"], quick=True, say=said.append)
    assert again["updates"] == found["updates"], "parts that were not asked for are kept"
    other = run(tmp_path, precision="highest", parts=["flat"], quick=True, say=said.append)
    assert other["updates"] == []


@pytest.fixture(autouse=True)
def small_vae(monkeypatch):
    """Gives the problem `vae` the size of a toy."""
    monkeypatch.setitem(cases.PROBLEMS, "vae", cases.PROBLEMS["banana"])


def test_an_interrupted_part_keeps_its_rows(tmp_path, monkeypatch):
    def interrupted(options):
        yield {"draws": 1}
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "rates", lambda precision: {"small": 1.0})
    monkeypatch.setitem(runner.PARTS, "flat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, precision=None, parts=["flat"], say=lambda line: None)
    assert json.loads((tmp_path / "bench.json").read_text())["flat"] == [{"draws": 1}]


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown part 'updaets': did you mean 'updates'"):
        run(tmp_path, precision=None, parts=["updaets"])


def test_every_case_can_be_traced():
    """The real cases, without runner them."""
    for case in cases.available_cases():
        if case.problem == "banana":
            method, state = case.start(None)
            assert measure._products_of_update(method, state) > 0
    unfused = {c.method for c in cases.CASES if cases.NOT_FUSED in c.method}
    assert unfused
    assert gpu.is_available() or not unfused & {c.method for c in cases.available_cases()}
