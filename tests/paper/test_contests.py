"""The contests of the sampler benchmarks: judges against closed forms, seeds in files, every contender."""

import dataclasses
import json
import pathlib
import re
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.paper.samples import chains, printed, samplers
from uivi import paper
from uivi._types import Status
from uivi.evaluation import verdict
from uivi.paper import EXPERIMENTS, GROUPS, Trials, granting, report
from uivi.paper.methods.judging import Budget
from uivi.paper.samplers import BENCHMARKS, Evidence, contenders, experiments, nuts, published, scores
from uivi.paper.samplers.contenders import AbstractContender, Allowance, AtEqualSeconds, Entry, Gaussian
from uivi.paper.samplers.outcomes import Chains, Fitted
from uivi.targets import Density, eight_gaussians
from uivi.testing import z_threshold
from uivi.training.progress import Silent

RNG = np.random.default_rng(0)


class Fake(AbstractContender):
    """Independent normal draws at once. They say how many seconds they took, or were allowed."""

    paced: bool = eqx.field(static=True)
    seconds: float = eqx.field(static=True, default=2.5)

    @property
    def is_paced(self):
        return self.paced

    @property
    def words(self):
        return "a fake"

    def require(self):
        pass

    def compete(self, key, target, allowance, shown):
        z = np.asarray(jax.random.normal(key, (2, 50, target.dim)))
        if int(jax.random.key_data(key)[-1]) == 13:
            raise KeyboardInterrupt
        return Entry(Chains(z, 10, 1, 0), allowance.seconds or self.seconds, {"draws": 1.0})


def contest_of(contenders, evidence=None, name="funnel"):
    found = EXPERIMENTS[f"samplers-{name}"]
    return dataclasses.replace(found, recipes={"seconds": contenders}, evidence=evidence)


FAKES = contest_of({"uivi": Fake(paced=False), "rival": Fake(paced=True)})


def trials_of(out, method="uivi", seeds=(0,), contest=FAKES, **changes):
    options = {"preset": "seconds", "effort": "smoke", "out": out} | changes
    return Trials.create(contest, method=method, seeds=seeds, **options)


def test_there_is_a_contest_for_every_benchmark():
    assert GROUPS["samplers"] == tuple(f"samplers-{name}" for name in BENCHMARKS)
    assert paper.WHOLE["samplers"] == ("seconds",)
    for name, benchmark in BENCHMARKS.items():
        contest = EXPERIMENTS[f"samplers-{name}"]
        assert (contest.evidence, contest.dataset) == (benchmark.evidence, benchmark.dataset)
        assert [c.is_paced for c in contest.recipes["seconds"].values()] == [False, True, True, True, True]
    assert set(published.GOALS) | set(published.PUBLISHED) <= set(BENCHMARKS)


def test_impossible_values_are_named():
    every = [(name, elbo) for name, found in published.PUBLISHED.items() for _, elbo in found]
    wrong = {pair for pair in every if published.is_impossible(*pair)}
    assert wrong == {("ionosphere", -27.5), ("pines", 1118.0)}
    assert "another paper: ELBO 1,118.000 (impossible: above log Z = 501.780)" in published.in_words("pines")
    assert "SIVI: 58.1" in " ".join(published.in_words("diffusion"))


def test_the_docs_have_the_same_goals_and_values():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "samplers.md").read_text()
    table = page.partition("| goal for KL |")[2].partition("## Results")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    for name, goal in published.GOALS.items():
        (row,) = (row for row in rows if f"`{name}`" in row)
        found = [float(number) for number in re.findall(r"-?\d+\.\d+", row)]
        values = [elbo for _, elbo in published.PUBLISHED.get(name, ())]
        assert found == [goal, *(elbo for elbo in values if not published.is_impossible(name, elbo))]
    assert all(f"| `{name}` |" in page for name in experiments.CONTENDERS)


def test_mode_scores():
    right = scores.mode_scores(np.full(4, 0.25))
    assert right == {"modes": 4.0, "modes_found": 4.0, "weight_error": 0.0, "weight_factor": 1.0}
    # A third of 1/4 is found, less is not.
    found = scores.mode_scores(np.array([0.5, 0.3, 0.12, 0.08]))
    assert found["modes_found"] == 3
    assert found["weight_error"] == pytest.approx(0.25)
    assert found["weight_factor"] == pytest.approx(0.25 / 0.08)
    assert scores.mode_scores(np.array([1.0, 0.0]))["weight_factor"] == np.inf


def test_exact_draws_cannot_be_told_from_exact_draws(monkeypatch):
    monkeypatch.setattr(scores, "NUM_EXACT", 1_000)
    target = eight_gaussians()
    keys = jax.random.split(jax.random.key(7), 8_192)
    draws = np.asarray(jax.jit(jax.vmap(target.sample))(keys), np.float64)
    found = scores.scores(target, draws)
    assert found["modes_found"] == 8
    # The share of a mode in so many draws is binomial.
    assert found["weight_error"] < z_threshold(8) * (1 / 8 * 7 / 8 / 8_192) ** 0.5
    assert 0.5 < found["distance_ratio"] < 1.5
    assert found["distance"] == pytest.approx(found["distance_ratio"] * found["distance_exact"])
    # Not so without one of the modes.
    less = scores.scores(target, draws[draws[:, 0] < 3])
    assert less["modes_found"] == 7
    assert less["distance_ratio"] > 2


def gaussian_fit(mean):
    """A fit of N(0, I) e³ by N(mean, I)."""
    target = Density(lambda z: 3.0 - 0.5 * jnp.sum(z**2) - jnp.log(2 * jnp.pi), 2)
    family = uivi.ExplicitGaussian(jnp.concatenate([jnp.asarray(mean), jnp.zeros(2)]))
    fitted = uivi.Posterior(
        family, np.zeros(2), Status.DONE, {"step": [7], "nonfinite": [0.0]}, 0.0, target=target
    )
    fitted.estimator, fitted.est_state = uivi.estimators.StickingTheLanding(), ()
    return fitted


def test_both_sides_of_kl_contain_the_error_of_log_z(monkeypatch):
    monkeypatch.setattr(verdict, "NUM_DRAWS", 100)
    fit = Fitted(gaussian_fit([0.6, -0.8]))
    judged = fit.judge(jax.random.key(0), Evidence(3.0, 0.1, "by hand"), Budget(draws=4_096))
    for side in ("kl_lower", "kl_upper"):
        error = (judged[side]["stderr"] ** 2 - 0.1**2) ** 0.5
        assert 0 < error < 0.03
        assert abs(judged[side]["mean"] - 0.5) < z_threshold(2) * error
        # Not so with another log Z.
        assert abs(judged[side]["mean"] + 0.3 - 0.5) > z_threshold(2) * error
    assert judged["own"]["verdict"] == int(fit.posterior.check().verdict)
    assert (fit.status, fit.updates) == ("DONE", 7)
    unknown = fit.judge(jax.random.key(0), None, Budget(draws=64))
    assert "kl_upper" not in unknown
    assert unknown["check"]["lower"]["stderr"] > 0


def test_chains_are_judged_by_their_own_diagnostics():
    z = RNG.normal(size=(4, 1_000, 3))
    good = Chains(z, 100, 1, 0).judge(jax.random.key(0), None, Budget())["chains"]
    assert good["r_hat"] < 1.01
    assert 2_500 < good["ess"] < 6_000
    # One chain that is elsewhere is seen.
    stuck = Chains(z + np.array([3.0, 0, 0, 0])[:, None, None], 100, 1, 0)
    assert stuck.judge(jax.random.key(0), None, Budget())["chains"]["r_hat"] > 1.3
    drawn = stuck.draws(jax.random.key(1), 10**6)
    assert sorted(drawn[:, 0]) == sorted(stuck.z[..., 0].ravel())


def test_as_many_updates_as_fit_into_the_seconds():
    steps = contenders.PROBE_STEPS
    assert contenders.affordable(30.0, 10.0, 0.01) == steps + 2_000
    assert contenders.affordable(5.0, 10.0, 0.01) == steps
    assert contenders.affordable(1e9, 10.0, 1e-6) == contenders.MOST_STEPS


def test_a_rival_gets_the_seconds_of_uivi_and_seeds_combine(tmp_path):
    """Each seed in a run of its own, the rival first: it runs `uivi` where nobody has."""
    paper.run(trials_of(tmp_path, "rival", (3,)), progress=False)
    paper.run(trials_of(tmp_path, "rival", (1,)), progress=False)
    (ours,) = paper.run(trials_of(tmp_path, seeds=(1, 3)), resume=True, progress=False)
    assert ours["config"]["seeds"] == [1, 3]
    result = json.loads(trials_of(tmp_path, "rival").result_path.read_text())
    assert result["config"]["seeds"] == [1, 3]
    assert [seed["allowed"] for seed in result["seeds"]] == [2.5, 2.5]
    assert result["seconds"] == 5.0
    assert result["seconds_per_fit"] == 2.5
    with pytest.raises(FileExistsError, match="seed-1.json, found one: pass --resume to keep it"):
        paper.run(trials_of(tmp_path, "rival", (1,)), progress=False)


def test_an_interrupt_costs_one_fit_only(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        paper.run(trials_of(tmp_path, seeds=(4, 13, 5)), progress=False)
    kept = trials_of(tmp_path).seed_path(4)
    written = kept.stat().st_mtime_ns
    (result,) = paper.run(trials_of(tmp_path, seeds=(4, 5)), resume=True, progress=False)
    assert kept.stat().st_mtime_ns == written
    assert result["config"]["seeds"] == [4, 5]


def test_other_settings_and_broken_files_are_refused(tmp_path):
    plan = trials_of(tmp_path)
    paper.run(plan, progress=False)
    with pytest.raises(FileExistsError, match="expected the same configuration in .*seed-0.json"):
        paper.run(trials_of(tmp_path, seeds=(1,), effort="quick"), progress=False)
    plan.seed_path(0).write_text("{")
    with pytest.raises(ValueError, match="expected a finished fit in .*: delete the file and run again"):
        paper.run(plan, resume=True, progress=False)
    (tmp_path / "FILE").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to"):
        paper.run(trials_of(tmp_path / "FILE"), progress=False)


@pytest.mark.parametrize(
    ("method", "module", "extra"),
    [("flow", "flowjax.bijections", "flow"), ("nuts", "numpyro.infer", "numpyro")],
)
def test_a_missing_package_is_named_before_anything_runs(method, module, extra, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "uivi.integrations.flowjax", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'uivi\[{extra}\]'"):
        trials_of(tmp_path, method, contest=EXPERIMENTS["samplers-funnel"])
    assert not list(tmp_path.iterdir())


def test_a_target_without_log_z_shows_bounds_only(tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "NUM_DRAWS", 100)
    rivals = {"uivi": Fake(paced=False), "gaussian": AtEqualSeconds(Gaussian())}
    contest = contest_of(rivals, name="eight-gaussians")
    (result,) = paper.run(trials_of(tmp_path, "gaussian", contest=contest), progress=False)
    (seed,) = result["seeds"]
    assert "kl_upper" not in seed
    assert result["config"]["task"]["evidence"] is None
    assert report.one_line(result).startswith("samplers-eight-gaussians seconds-gaussian (smoke): ELBO ≥ ")
    page = report.write_page(tmp_path).read_text()
    headers = set(re.findall("<th>(.*?)</th>", page))
    assert {"ELBO (lower bound)", "ELBO (upper bound)"} <= headers
    assert not any("KL(q‖p)" in header for header in headers)
    assert seed["scores"]["modes_found"] >= 1
    assert len(result["exhibit"]["draws"]) == experiments.EXHIBITED


SMOKED = [pytest.param("eight-gaussians", m, marks=pytest.mark.slow) for m in experiments.CONTENDERS]
SMOKED += [("seeds", "nuts")]


@pytest.mark.parametrize(("name", "method"), SMOKED)
def test_every_contender_smokes(name, method, tmp_path):
    """The pacer is a fake: its own smoke test is enough."""
    contender = experiments.CONTENDERS[method]
    pacer = Fake(paced=False) if method != "uivi" else contender
    contest = contest_of({"uivi": pacer, method: contender}, BENCHMARKS[name].evidence, name)
    (result,) = paper.run(trials_of(tmp_path, method, contest=contest), progress=False)
    (seed,) = result["seeds"]
    assert result["status"] == ["DONE"]
    assert seed["failed"] is False
    assert "scores" not in seed or seed["scores"]["distance_ratio"] > 0
    if method == "nuts":
        assert seed["chains"]["kept"] >= 8
    else:
        assert seed["kl_upper"]["mean"] >= seed["kl_lower"]["mean"] - 1e-6
        assert result["config"]["num_steps"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("contender", [AtEqualSeconds(Gaussian()), nuts.Nuts()], ids=["gaussian", "nuts"])
def test_a_contender_uses_all_that_it_may(contender, monkeypatch):
    """More seconds than it can use: then the limits decide, and not the clock."""
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    monkeypatch.setattr(granting, "STRETCH", 0.001)
    monkeypatch.setattr(contenders, "MOST_STEPS", 200)
    monkeypatch.setattr(nuts, "MOST_WARMUP", 100)
    allowance = Allowance("full", 1e6)
    entry = contender.compete(jax.random.key(0), eight_gaussians(), allowance, Silent())
    if isinstance(entry.outcome, Chains):
        assert entry.outcome.z.shape == (4, 100, 2)
        assert (entry.outcome.warmup, entry.outcome.thinning) == (100, 1)
    else:
        assert entry.outcome.updates == 200
    assert 0 < sum(entry.phases.values()) <= 1.01 * entry.seconds


def test_the_page_has_goals_modes_advice_and_published_values(write):
    missed = samplers("sivi", name="samplers-ionosphere", title="Ionosphere, by all")
    page = write(samplers(), chains(), missed)
    for text in (
        "0.050 (missed)",
        "<td class='flag'>0.050 (missed)",
        "0.040 (missed)",
        "8 [7] of 8",
        "2 use with care",
        "<code>uivi</code>: raise num_steps",
        "search 3.2, updates 20.0",
        "SIVI: ELBO −0.236 (second-hand)",
        "another paper: ELBO −27.500 (impossible: above log Z = −111.610)",
        "1.234",
        "0.0777",
    ):
        assert text in page, text
    assert "nuts: R-hat 1.234, 1 seed, 30.0 s per fit" in report.one_line(chains())
    assert "KL ≤ 0.069" in printed(report.table([samplers()]))
