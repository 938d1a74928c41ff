"""Experiments run, resume and refuse bad input; the report reads what they write."""

import contextlib
import functools
import json
import os
import pathlib
import signal

import pytest

from uivi import datasets, paper
from uivi.evaluation import bounds, metrics, verdict
from uivi.paper import EXPERIMENTS, GROUPS, Run, members, report, runner
from uivi.paper.toy import experiments as toy
from uivi.storage.checkpoints import locked_directory
from uivi.training.progress import AbstractReporter

TINY = {"seeds": (0, 1), "num_steps": 3}
RECIPES = [(p, m) for p, recipes in EXPERIMENTS["banana"].recipes.items() for m in recipes]


def tiny(name, preset, method, out, **changes):
    settings = TINY | changes
    return Run.create(EXPERIMENTS[name], preset=preset, method=method, out=out, **settings)


@pytest.fixture(autouse=True, scope="module")
def _brief():
    """Few draws judge a fit, and few mixing draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict, "NUM_DRAWS", 100)
        patch.setattr(metrics, "kl_quadrature", functools.partial(metrics.kl_quadrature, log2_mixing=6))
        patch.setattr(bounds, "paper_elbo", functools.partial(bounds.paper_elbo, num_mixing=100))
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory, _brief):
    """Every recipe on the banana, with three updates and two seeds."""
    out = tmp_path_factory.mktemp("results")
    for preset, method in RECIPES:
        paper.run(tiny("banana", preset, method, out), progress=False)
    return out


def path(run):
    return run.result_path(run.experiments[0])


@pytest.mark.parametrize(("preset", "method"), RECIPES)
def test_every_recipe_writes_a_whole_result(out, preset, method):
    result = json.loads(path(tiny("banana", preset, method, out)).read_text())
    assert result["config"]["num_steps"] == 3
    assert len(result["seeds"]) == 2
    assert result["seeds"][0]["kl"] != result["seeds"][1]["kl"]
    assert abs(result["seeds"][0]["kl"]["mass"] - 1) < 0.05
    assert len(result["exhibit"]["draws"]) == 300
    assert result["status"] == ["DONE", "DONE"]
    assert {"uivi", "jax", "python"} <= result["versions"].keys()
    assert not (tiny("banana", preset, method, out).directory / "checkpoint").exists()


@pytest.mark.parametrize("name", [e.name for e in toy.TOYS if e.name != "banana"])
def test_the_other_experiments_share_the_recipes(name, tmp_path):
    assert EXPERIMENTS[name].recipes is EXPERIMENTS["banana"].recipes
    run = tiny(name, "paper", "explicit", tmp_path, seeds=(0,))
    assert paper.run(run, progress=False)[0]["title"] == EXPERIMENTS[name].title


def test_seeds_side_by_side_equal_a_seed_alone(out, tmp_path):
    alone = paper.run(tiny("banana", "default", "sivi", tmp_path, seeds=(1,)), progress=False)[0]
    both = json.loads(path(tiny("banana", "default", "sivi", out)).read_text())
    assert alone["seeds"][0]["kl"]["kl"] == pytest.approx(both["seeds"][1]["kl"]["kl"], rel=0.02)


def test_a_finished_run_is_kept_or_refused(out):
    run = tiny("banana", "paper", "explicit", out)
    before = path(run).read_bytes()
    assert paper.run(run, resume=True, progress=False) == [json.loads(before)]
    with pytest.raises(FileExistsError, match="pass --resume to keep it, or another --out"):
        paper.run(run, progress=False)
    with pytest.raises(FileExistsError, match="expected the same configuration"):
        paper.run(tiny("banana", "paper", "explicit", out, num_steps=4), resume=True, progress=False)
    assert path(run).read_bytes() == before


def test_two_runs_in_one_directory(tmp_path):
    run = tiny("banana", "paper", "explicit", tmp_path)
    with locked_directory(run.directory), pytest.raises(RuntimeError, match="another run is using"):
        paper.run(run, progress=False)


@pytest.mark.parametrize(
    ("preset", "method", "message"),
    [
        ("papper", "uivi", "unknown preset 'papper': did you mean 'paper'"),
        ("paper", "sivy", "did you mean 'sivi'"),
    ],
)
def test_unknown_names_get_the_nearest_match(preset, method, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tiny("banana", preset, method, tmp_path)


def test_the_page_is_whole(out):
    text = report.write_page(out).read_text()
    assert text.count("data:image/png;base64,") >= 2
    for preset, method in RECIPES:
        assert f"banana {preset}-{method}" in text


REAL = ["logreg-mnist", "logreg-hapt-recomputed", "logreg-iterations", "vae-mnist", "vae-fashion"]
REAL += ["vae-prior-mnist", "vae-prior-fashion"]
REAL_RECIPES = [(n, p, m) for n in REAL for p, recipes in EXPERIMENTS[n].recipes.items() for m in recipes]
# MNIST has every recipe of the presets; the other data sets differ by their arrays alone, and the ablations
# by parts of recipes: one of each shows that it runs.
ONE = {("vae-fashion", "explicit"), ("logreg-hapt-recomputed", "sivi"), ("logreg-iterations", "hmc-1")}
SMOKED = [
    pytest.param(n, p, m, marks=() if (n, p, m) == ("logreg-mnist", "paper", "uivi") else pytest.mark.slow)
    for n, p, m in REAL_RECIPES
    if (n in ("vae-mnist", "logreg-mnist") and p != "ablation")
    or (p == "paper" and (n, m) in ONE)
    or (n, m) == ("vae-mnist", "paper-start")
    or n == "vae-prior-mnist"
    or (n, p) == ("vae-prior-fashion", "score")
]


def need(name):
    dataset = EXPERIMENTS[name].dataset
    if not datasets.find(dataset):
        pytest.skip(f"{dataset} not found: set UIVI_DATA, or `uivi data get {dataset}`")


@pytest.mark.parametrize(("name", "preset", "method"), SMOKED)
def test_every_experiment_smokes_on_real_data(name, preset, method, tmp_path):
    need(name)
    run = Run.create(EXPERIMENTS[name], preset=preset, method=method, seeds=(0,), out=tmp_path, effort="smoke")
    (result,) = paper.run(run, progress=False)
    assert result["config"]["num_steps"] == 4
    assert result["config"]["task"]["dataset"]
    values = result["seeds"][0]
    assert values["elbo_lower"]["side"] == "lower"
    assert values["elbo_lower"]["stderr"] > 0
    assert report.one_line(result)


@pytest.mark.parametrize("kind", paper.DEVIATIONS)
def test_the_docs_list_every_deviation(kind):
    page = pathlib.Path(__file__).parents[2] / "docs" / "paper.md"
    text = " ".join(page.read_text().split())  # the page wraps its lines
    assert [line for line in paper.DEVIATIONS[kind] if f"- {line}" not in text] == []


def test_stand_ins_only_where_their_data_alone_is_here(monkeypatch):
    for here, expected in (
        ({"hapt", "hapt-recomputed"}, "logreg-hapt"),
        ({"hapt-recomputed"}, "logreg-hapt-recomputed"),
        (set(), "logreg-hapt"),
    ):
        monkeypatch.setattr(datasets, "find", lambda name, here=here: ["path"] if name in here else [])
        assert members("logreg") == ("logreg-mnist", expected)
        assert members("logreg-hapt") == ("logreg-hapt",)
    assert set(members("paper")) <= set(EXPERIMENTS)
    assert all(len(members(group)) == len(GROUPS[group]) for group in GROUPS)


def test_an_interrupted_run_is_refused_without_resume(tmp_path, monkeypatch):
    run = tiny("banana", "default", "explicit", tmp_path, seeds=(0,), num_steps=12)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "reporter", interrupted_after(5))
        with pytest.raises(KeyboardInterrupt, match="interrupted: pass --resume to continue from"):
            paper.run(run, progress=False)
    with pytest.raises(FileExistsError, match="found an unfinished one: pass --resume to continue it"):
        paper.run(run, progress=False)
    (result,) = paper.run(run, resume=True, progress=False)
    assert result["history"]["step"][-1] == 12
    assert not (run.directory / "checkpoint").exists()


@pytest.mark.slow
def test_data_sets_side_by_side_and_resumed(tmp_path, monkeypatch):
    """Two data sets in one program, stopped in the middle and resumed, equal one that was not stopped."""
    need("vae-mnist")
    need("vae-fashion")
    pair = (EXPERIMENTS["vae-mnist"], EXPERIMENTS["vae-fashion"])

    def make(out):
        return Run.create(
            pair,
            preset="default",
            method="explicit",
            seeds=(0,),
            out=tmp_path / out,
            num_steps=12,
            effort="smoke",
        )

    whole = paper.run(make("whole"), progress=False)
    assert [r["config"]["experiment"] for r in whole] == ["vae-mnist", "vae-fashion"]
    with monkeypatch.context() as patch:
        patch.setattr(runner, "reporter", interrupted_after(5))
        with pytest.raises(KeyboardInterrupt, match="pass --resume to continue"):
            paper.run(make("parts"), progress=False)
    with pytest.raises(FileExistsError, match="found an unfinished one"):
        paper.run(make("parts"), progress=False)
    parts = paper.run(make("parts"), resume=True, progress=False)
    for a, b in zip(whole, parts, strict=True):
        assert a["seeds"] == b["seeds"]
        assert a["exhibit"] == b["exhibit"]
        assert {k: v for k, v in a["history"].items() if k != "seconds"} == {
            k: v for k, v in b["history"].items() if k != "seconds"
        }


def interrupted_after(step):
    """Returns a reporter that presses Ctrl-C once `step` updates are done."""

    class Presser(AbstractReporter):
        def phase(self, name):
            del name

        def update(self, done, total, rate, bound):
            if done == step:
                os.kill(os.getpid(), signal.SIGINT)

    @contextlib.contextmanager
    def reporter(*args, **kwargs):
        yield Presser()

    return reporter
