"""Updates are counted, or fit into the seconds of another method, also when a run is killed and resumed."""

import dataclasses
import json

import pytest

from tests.paper.test_runner import interrupted_after
from uivi import paper
from uivi.paper import EXPERIMENTS, Run, SecondsOf, Updates, granting, runner
from uivi.paper.toy.task import ToyTask

BANANA = EXPERIMENTS["banana"]
RECIPE = dataclasses.replace(BANANA.recipes["default"]["explicit"], budget=SecondsOf("uivi"))
TIMED = dataclasses.replace(BANANA, name="timed", recipes={"seconds": {"uivi": RECIPE, "slow": RECIPE}})
PACES = {"uivi": 0.001, "slow": 0.004}


def timed(method, out, **changes):
    settings = {"seeds": (0,), "num_steps": 48} | changes
    return Run.create(TIMED, preset="seconds", method=method, out=out, **settings)


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    """Evaluations that take no time, but tell fits apart."""
    drawn = lambda self, key, fit, recipe: {"draws": fit.sample_flat(key, 3).tolist()}
    monkeypatch.setattr(ToyTask, "evaluate", drawn)


@pytest.fixture
def clock(monkeypatch):
    """A clock that says what it is told, and what was timed."""
    asked = []

    def pace(plan, tasks, shown):
        asked.append(plan.method)
        return PACES[plan.method]

    monkeypatch.setattr(granting, "_timed", pace)
    return asked


def test_what_budgets_grant():
    assert Updates().grant("slow", 100, PACES.__getitem__) == (100, {})
    assert SecondsOf("uivi").grant("slow", 100, PACES.__getitem__) == (25, PACES)
    assert SecondsOf("uivi").grant("uivi", 100, PACES.__getitem__) == (100, {"uivi": 0.001})
    assert SecondsOf("slow").grant("uivi", 100, PACES.__getitem__).updates == 400
    assert SecondsOf("uivi").grant("slow", 1, PACES.__getitem__).updates == 1


def test_a_slow_method_gets_fewer_updates_and_the_other_is_timed_once(clock, tmp_path):
    (fast,) = paper.run(timed("uivi", tmp_path), progress=False)
    (slow,) = paper.run(timed("slow", tmp_path), progress=False)
    assert (fast["config"]["num_steps"], slow["config"]["num_steps"]) == (48, 12)
    assert slow["config"]["budget"] == "seconds of uivi"
    assert slow["timed"] == PACES
    assert clock == ["uivi", "slow"]
    assert paper.report.one_line(slow)


def test_another_number_of_seeds_is_timed_anew(clock, tmp_path):
    paper.run(timed("uivi", tmp_path), progress=False)
    paper.run(timed("slow", tmp_path, seeds=(0, 1)), progress=False)
    assert clock == ["uivi", "uivi", "slow"]


def test_a_resumed_run_keeps_its_number(clock, tmp_path, monkeypatch):
    (whole,) = paper.run(timed("slow", tmp_path / "whole"), progress=False)
    run = timed("slow", tmp_path / "parts")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "reporter", interrupted_after(5))
        with pytest.raises(KeyboardInterrupt, match="pass --resume to continue from"):
            paper.run(run, progress=False)
    with pytest.raises(FileExistsError, match="found an unfinished one"):
        paper.run(run, progress=False)
    # A slower machine by now: the number must not change.
    monkeypatch.setitem(PACES, "slow", 0.04)
    (parts,) = paper.run(run, resume=True, progress=False)
    assert parts["config"] == whole["config"]
    assert parts["seeds"] == whole["seeds"]
    assert parts["fingerprint"] == whole["fingerprint"]
    assert paper.run(run, resume=True, progress=False) == [json.loads(run.result_path(TIMED).read_text())]
    assert clock == ["uivi", "slow"] * 2


def test_a_damaged_number_is_refused(clock, tmp_path):
    run = timed("uivi", tmp_path)
    run.directory.mkdir(parents=True)
    for text in ("", "[]", '{"updates": 3}'):
        run.budget_path.write_text(text)
        with pytest.raises(ValueError, match="delete the file, and it will be timed again"):
            paper.run(run, resume=True, progress=False)


def test_the_clock_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(granting, "STRETCH", 0.001)
    (result,) = paper.run(timed("slow", tmp_path, num_steps=4), progress=False)
    assert result["timed"].keys() == {"uivi", "slow"}
    assert all(0 < value < 10 for value in result["timed"].values())
    # Both are the same recipe.
    assert 1 <= result["config"]["num_steps"] <= 100
