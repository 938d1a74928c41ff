"""Experiments run, resume and refuse; the report reads what they write."""

import functools
import json

import pytest

from uivi import bounds, diagnosis, experiments, metrics, report
from uivi.checkpoint import locked_directory
from uivi.experiments import EXPERIMENTS, Run

TINY = {"seeds": (0, 1), "num_steps": 3}
RECIPES = [(p, m) for p, recipes in EXPERIMENTS["banana"].recipes.items() for m in recipes]


def tiny(name, preset, method, out, **changes):
    settings = TINY | changes
    return Run.create(EXPERIMENTS[name], preset, method, settings["seeds"], out, settings["num_steps"])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Every recipe on the banana, with three updates and two seeds."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosis, "NUM_DRAWS", 100)
        patch.setattr(diagnosis, "NUM_MIXING", 20)
        patch.setattr(metrics, "kl_quadrature", functools.partial(metrics.kl_quadrature, log2_mixing=8))
        patch.setattr(bounds, "PaperElbo", functools.partial(bounds.PaperElbo, num_mixing=100))
        for preset, method in RECIPES:
            experiments.run(tiny("banana", preset, method, out), progress=False)
    return out


@pytest.mark.parametrize(("preset", "method"), RECIPES)
def test_every_recipe_writes_a_whole_result(out, preset, method):
    result = json.loads(tiny("banana", preset, method, out).result_path.read_text())
    assert result["config"]["num_steps"] == 3
    assert len(result["seeds"]) == 2
    assert result["seeds"][0]["kl"] != result["seeds"][1]["kl"]
    assert abs(result["seeds"][0]["kl"]["mass"] - 1) < 0.05
    assert len(result["draws"]) == 300
    assert {"uivi", "jax", "python"} <= result["versions"].keys()
    assert not (tiny("banana", preset, method, out).directory / "checkpoint").exists()


@pytest.mark.parametrize("name", [n for n in EXPERIMENTS if n != "banana"])
def test_the_other_experiments_share_the_recipes(name, tmp_path):
    assert EXPERIMENTS[name].recipes is EXPERIMENTS["banana"].recipes
    run = tiny(name, "paper", "explicit", tmp_path, seeds=(0,))
    assert experiments.run(run, progress=False)["title"] == EXPERIMENTS[name].title


def test_seeds_side_by_side_equal_a_seed_alone(out, tmp_path):
    alone = experiments.run(tiny("banana", "default", "sivi", tmp_path, seeds=(1,)), progress=False)
    both = json.loads(tiny("banana", "default", "sivi", out).result_path.read_text())
    assert alone["seeds"][0]["kl"]["kl"] == pytest.approx(both["seeds"][1]["kl"]["kl"], rel=0.02)


def test_a_finished_run_is_kept_or_refused(out):
    run = tiny("banana", "paper", "explicit", out)
    before = run.result_path.read_bytes()
    assert experiments.run(run, resume=True, progress=False) == json.loads(before)
    with pytest.raises(FileExistsError, match="pass --resume to keep it, or another --out"):
        experiments.run(run, progress=False)
    with pytest.raises(FileExistsError, match="belongs to another configuration"):
        experiments.run(tiny("banana", "paper", "explicit", out, num_steps=4), resume=True, progress=False)
    assert run.result_path.read_bytes() == before


def test_two_runs_in_one_directory(tmp_path):
    run = tiny("banana", "paper", "explicit", tmp_path)
    with locked_directory(run.directory), pytest.raises(RuntimeError, match="another run is using"):
        experiments.run(run, progress=False)


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
    page = report.write_page(out).read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "src='http" not in page
    assert "href=" not in page
    for preset, method in RECIPES:
        assert f"banana {preset}-{method}: seeds [0, 1], 3 updates" in page


def test_a_directory_without_results(tmp_path):
    with pytest.raises(FileNotFoundError, match="run `uivi run toy --out"):
        report.write_page(tmp_path)
    (tmp_path / "result.json").write_text('{"half": ')
    with pytest.raises(ValueError, match="is not a whole result"):
        report.write_page(tmp_path)
