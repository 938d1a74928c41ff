"""The part `answer`: how seconds are split, how children are read, and what becomes of their rows."""

import functools
import io
import json
import subprocess
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from scipy import stats

import uivi
from uivi.bench import answer, answer_cases, answer_figure, run, runner, table
from uivi.evaluation import metrics

OURS = {
    "case": "student",
    "method": "uivi",
    "seed": 0,
    "dim": 2,
    "seconds": 9.0,
    "parts": dict(zip(answer.PARTS, (0.5, 1.0, 2.0, 3.0, 1.5, 0.75, 0.25), strict=True)),
    "compile_seconds": 6.0,
    "compile_by_program": {"_run": 4.0, "all others": 2.0},
    "sample_seconds": 0.5,
    "updates": 3_000,
    "verdict": "good",
    "pareto_k": 0.4,
    "distance": 1.25,
    "distance_sds": 0.08,
    "import_seconds": 0.4,
}
THEIRS = {
    "case": "student",
    "method": "nuts",
    "seed": 0,
    "dim": 2,
    "seconds": 6.0,
    "compile_seconds": 4.0,
    "divergences": 3,
    "distance": 1.0,
    "distance_sds": 0.07,
    "import_seconds": 0.3,
}
ROWS = {"uivi": OURS, "nuts": THEIRS}
PNG = b"\x89PNG"


def fake_child(name, method, seed):
    return ROWS[method] | {"case": name, "seed": seed}


def stopwatch(times):
    """A stopwatch whose clock shows these times, one after the other."""
    return answer.Stopwatch(functools.partial(next, iter(times)))


def test_the_seconds_of_a_fit_are_split_by_its_reports():
    watch = stopwatch([0.0, 0.5, 2.0, 5.0, 9.0, 12.0, 12.5, 14.0])
    watch.phase("reading the model")  # 0.5 s before it
    watch.phase("searching for a start")  # 1.5 s of reading
    watch.phase("compiling")  # 3 s of search
    watch.update(100, 1_000, 100.0, "")  # 4 s, 1 of them updates
    watch.update(300, 1_000, 100.0, "")  # 3 s, 2 of them updates
    watch.phase("checking")  # 0.5 s of nothing that has a name
    assert watch.finish() == 14.0
    assert watch.seconds == {
        "reading": 1.5,
        "search": 3.0,
        "waiting": 3.0,
        "updates": 3.0,
        "looks": 1.0,
        "check": 1.5,
        "other": 1.0,
    }


def test_a_second_compilation_interrupts_the_updates():
    watch = stopwatch([0.0, 1.0, 2.0, 6.0])
    watch.update(100, 200, 100.0, "")
    watch.phase("compiling")
    watch.update(200, 200, 100.0, "")  # 4 s, 1 of them updates
    assert watch.seconds["updates"] == 2.0
    assert watch.seconds["waiting"] == 3.0
    assert watch.seconds["other"] == 1.0


def test_the_look_at_the_end_of_a_round_is_a_look():
    watch = stopwatch([0.0, 1.0, 3.0, 3.0, 6.0, 6.5])
    watch.phase("round 1 of at most 4")  # 1 s of nothing that has a name
    watch.update(100, 200, 100.0, "")  # 2 s, 1 of them updates
    watch.phase("checking round 1")
    watch.update(100, 200, 100.0, "")  # 3 s
    watch.finish()
    assert (watch.seconds["updates"], watch.seconds["looks"], watch.seconds["other"]) == (1.0, 4.0, 1.5)


def test_updates_are_never_longer_than_the_clock_says():
    watch = stopwatch([0.0, 1.0])
    watch.update(100, 100, 1.0, "")
    assert watch.seconds["updates"] == 1.0
    assert sum(watch.seconds.values()) == 1.0


def test_an_unknown_phase_is_other():
    watch = stopwatch([0.0, 1.0, 3.0])
    watch.phase("polishing")
    watch.finish()
    assert watch.seconds["other"] == 3.0


def test_every_part_has_a_colour_and_a_label():
    assert list(answer_figure.LABELS) == list(answer_figure.COLORS) == list(answer.PARTS)
    assert set(answer.PHASES.values()) <= set(answer.PARTS)


def test_compilations_are_added_up_by_program(monkeypatch):
    monkeypatch.setattr(answer, "LARGEST", 2)
    programs = answer.Programs()
    event = "/jax/core/compile/backend_compile_duration"
    for name, seconds in (
        ("jit(look)", 1.0),
        ("jit(_run)", 4.0),
        ("jit(look)", 2.0),
        ("key", 0.25),
        ("x", 0.25),
    ):
        programs(event, seconds, fun_name=name)
    programs("/jax/core/compile/jaxpr_trace_duration", 8.0, fun_name="_run")
    assert programs.total() == 7.5
    assert list(programs.by_name().items()) == [("_run", 4.0), ("look", 3.0), (answer.REST, 0.5)]


def test_jax_tells_what_it_compiles():
    def cubed(x):
        return x**3

    with answer.listening() as programs:
        jax.jit(cubed)(jnp.ones(3))
    inside = programs.total()
    jax.jit(lambda x: cubed(x) + 1)(jnp.ones(3))
    assert "cubed" in programs.by_name()
    assert programs.total() == inside > 0


def test_the_row_is_the_last_line():
    printed = f"a warning of a library\n{json.dumps(OURS)}\n\n"
    assert answer.read_answer(0, printed, "") == OURS


@pytest.mark.parametrize(
    ("code", "printed", "errors", "shown"),
    [
        (1, "", "one\ntwo\nthree\nfour\nfive\nsix\n", "exit code 1, no row\ntwo\nthree\nfour\nfive\nsix"),
        (0, "no row here\n", "", "exit code 0, no row\nno row here"),
        (0, "3\n", "why", "exit code 0, no row\nwhy"),
        (-9, "", "", "exit code -9, no row"),
    ],
)
def test_a_child_without_a_row_shows_its_last_lines(code, printed, errors, shown):
    with pytest.raises(answer.ChildError) as caught:
        answer.read_answer(code, printed, errors)
    assert str(caught.value) == shown


def test_a_child_is_a_fresh_process_without_a_cache(monkeypatch):
    def faked(command, *, env, **options):
        assert command[1:] == ["-m", "uivi.bench.answer", "student", "uivi", "--seed", "3"]
        assert "JAX_COMPILATION_CACHE_DIR" not in env
        assert env["UIVI_OTHER"] == "kept"
        assert options["timeout"] == answer.LIMIT
        return subprocess.CompletedProcess(command, 0, json.dumps(OURS), "")

    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/tmp/programs")
    monkeypatch.setenv("UIVI_OTHER", "kept")
    monkeypatch.setattr(subprocess, "run", faked)
    assert answer.run_child("student", "uivi", 3) == OURS


def test_a_child_that_never_ends_is_a_failure(monkeypatch):
    def late(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(answer.ChildError, match="no answer within 1,800 seconds"):
        answer.run_child("student", "nuts", 0)


def test_a_row_has_both_methods(monkeypatch):
    monkeypatch.setattr(answer, "run_child", fake_child)
    said = []
    rows = list(answer.answers(quick=True, say=said.append))
    assert [row["case"] for row in rows] == ["student", "schools_noncentred"]
    assert (rows[0]["uivi_seconds"], rows[0]["nuts_seconds"], rows[0]["ratio"]) == (9.0, 6.0, 1.5)
    assert (rows[0]["uivi_distance"], rows[0]["nuts_distance"]) == (1.25, 1.0)
    assert (rows[0]["verdict"], rows[0]["dim"], rows[0]["errors"]) == ("good", 2, {})
    assert rows[0]["uivi"] == OURS
    assert said[0].startswith("student, uivi: 9.0 s (reading 0.5, search 1.0, waiting 2.0, updates 3.0")
    assert said[1] == "student, nuts: 6.0 s"


def test_a_case_that_cannot_run_is_skipped_with_a_line(monkeypatch):
    monkeypatch.setattr(answer, "run_child", fake_child)
    monkeypatch.setattr(answer_cases, "_is_there", lambda package: package != "benchmarks.models")
    said = []
    rows = list(answer.answers(quick=False, say=said.append))
    assert [row["case"] for row in rows] == ["student", "banana", "multimodal", "xshaped"]
    skipped = [line for line in said if "skipped" in line]
    assert len(skipped) == len(answer_cases.MODELS)
    assert skipped[0] == (
        "schools_noncentred: skipped, because benchmarks.models cannot be imported: run this from the root of "
        "the repository"
    )


def test_missing_packages_are_noticed():
    assert answer_cases._is_there("numpy")
    assert not answer_cases._is_there("numpy.nothing_here")
    assert not answer_cases._is_there("nothing_here.models")
    assert not answer_cases.why_skipped("banana")


def test_a_child_that_fails_loses_no_other_row(monkeypatch, tmp_path):
    def failing(name, method, seed):
        if (name, method) == ("student", "uivi"):
            raise answer.ChildError("exit code 1, no row\nValueError: no luck")
        return fake_child(name, method, seed)

    monkeypatch.setattr(answer, "run_child", failing)
    monkeypatch.setattr(runner, "rates", lambda precision: {"small": 1.0, "large": 1.0, "copy": 1.0})
    said = []
    found = run(tmp_path, precision=None, parts=["answer"], quick=True, say=said.append)
    assert "student, uivi: failed\nexit code 1, no row\nValueError: no luck" in said
    first, second = found["answer"]
    assert (first["uivi"], first["uivi_seconds"], first["ratio"], first["verdict"]) == (None, None, None, None)
    assert first["errors"] == {"uivi": "exit code 1, no row\nValueError: no luck"}
    assert (first["nuts_seconds"], first["dim"], second["ratio"]) == (6.0, 2, 1.5)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert (tmp_path / "answer.png").read_bytes().startswith(PNG)
    assert (tmp_path / "bench.png").read_bytes().startswith(PNG)
    shown = io.StringIO()
    Console(width=160, file=shown).print(table(found))
    for words in (
        "From the call to the answer",
        "uivi, s",
        "NUTS, dist.",
        "schools_noncentred",
        "good",
        "–",
    ):
        assert words in shown.getvalue()


def test_without_answers_there_is_no_figure_of_them(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "rates", lambda precision: {"small": 1.0, "large": 1.0, "copy": 1.0})
    monkeypatch.setitem(runner.PARTS, "answer", lambda options: iter(()))
    found = run(tmp_path, precision=None, parts=["answer"], say=lambda line: None)
    assert found["answer"] == []
    assert not (tmp_path / "answer.png").exists()


@pytest.mark.parametrize("found", [ROWS, {"uivi": OURS}, {"nuts": THEIRS}, {}])
def test_the_figure_draws_what_is_there(found):
    rows = [answer.joined("student", ROWS, {}), answer.joined("banana", found, {"uivi": "no luck"})]
    assert answer_figure.draw_answers(rows).startswith(PNG)
    assert answer_figure.draw_answers(rows[1:]).startswith(PNG)


def test_the_student_density_is_the_one_that_is_drawn():
    """The density against SciPy's, and the draws against the exact distribution of their quadratic form."""
    case = answer_cases.DENSITIES["student"]
    points = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    student: Any = stats.multivariate_t  # its type hints allow one dimension only
    exact = student.logpdf(points, shape=[[1.0, 0.8], [0.8, 1.0]], df=5)
    mine = np.asarray(jax.vmap(case.log_density)(jnp.asarray(points)))
    np.testing.assert_allclose(mine - mine[0], exact - exact[0], atol=1e-4)
    draws = np.asarray(case.reference(), np.float64)
    # Half of the form has an F distribution with 2 and 5 degrees of freedom, and its median halves the draws.
    form = (draws[:, 0] ** 2 + draws[:, 1] ** 2 - 1.6 * draws[:, 0] * draws[:, 1]) / 0.36 / 2
    stderr = 0.5 / np.sqrt(len(draws))
    assert abs(np.mean(form < stats.f(2, 5).median()) - 0.5) < 4.4 * stderr
    normal = (draws[:, 0] ** 2 + draws[:, 1] ** 2) / 2  # the control: no correlation
    assert abs(np.mean(normal < stats.f(2, 5).median()) - 0.5) > 4.4 * stderr


SPREAD = 0.131
"""Largest sd of the log of the ratio for exact draws, over 100 seeds of the cases below."""


@pytest.mark.parametrize("size", [500, 2_000, 4_000])
def test_exact_draws_are_at_the_distance_of_noise(size):
    """This holds for each size of the reference. Draws of a wrong location or scale are further away."""
    rng = np.random.default_rng(1)
    reference = 3.0 + 2.0 * rng.standard_normal((size, 3)).astype(np.float32)
    exact = 3.0 + 2.0 * rng.standard_normal((2_000, 3)).astype(np.float32)
    ratio = lambda draws: metrics.distance(draws, reference).over_noise
    is_noise = lambda value: abs(np.log(value)) < 4.4 * SPREAD
    assert is_noise(ratio(exact))
    assert not is_noise(ratio(exact + 1.0))
    assert not is_noise(ratio(3.0 + 1.5 * (exact - 3.0)))
    # A shift by one sd in every dimension is one sd, in the quadratic mean over all directions.
    assert abs(metrics.distance(exact + 2.0, reference).sds - 1.0) < 0.1


def test_a_model_is_compared_in_the_sites_of_its_reference():
    moments = ({"tau": np.ones(()), "theta": np.ones((2,))}, {})
    case = answer_cases.ModelCase(types.SimpleNamespace(moments=lambda: moments, metadata=lambda: {"dim": 3}))
    draws = {"theta": np.ones((4, 2), np.float32), "other": np.zeros(4), "tau": np.full(4, 2.0, np.float32)}
    assert case.dim == 3
    np.testing.assert_array_equal(case.flat(draws), [[2.0, 1.0, 1.0]] * 4)


def test_a_tiny_fit_gives_a_whole_row(monkeypatch, capsys):
    monkeypatch.setattr(uivi, "fit", functools.partial(uivi.fit, num_steps=4))
    monkeypatch.setattr(answer, "import_seconds", lambda package: 0.5)
    row = answer.measure("student", "uivi", 0)
    assert set(row) == set(OURS)
    assert set(row["parts"]) == set(answer.PARTS)
    assert row["seconds"] == pytest.approx(sum(row["parts"].values()))
    assert row["updates"] == 4
    assert row["parts"]["updates"] > 0
    assert row["parts"]["search"] > 0
    assert row["compile_seconds"] > 0
    assert "verdict" in capsys.readouterr().err
    json.dumps(row, allow_nan=False)


def test_nuts_gives_a_whole_row(monkeypatch):
    case = answer_cases.DENSITIES["student"]

    class Faked:
        def run(self, key, init_params):
            assert init_params.shape == (answer_cases.CHAINS, 2)
            assert float(jnp.max(jnp.abs(init_params))) <= 2.0

        def get_samples(self):
            return case.reference()[: answer_cases.NUM_DRAWS]

        def get_extra_fields(self):
            return {"diverging": np.array([True, False, True])}

    monkeypatch.setattr(answer_cases, "_mcmc", lambda potential_fn: Faked())
    monkeypatch.setattr(answer, "import_seconds", lambda package: 0.5)
    row = answer.measure("student", "nuts", 0)
    assert set(row) == set(THEIRS)
    assert row["divergences"] == 2


def test_nuts_has_four_vectorised_chains():
    mcmc = answer_cases._mcmc(potential_fn=lambda z: 0.5 * jnp.sum(z**2))
    assert (mcmc.num_chains, mcmc.num_warmup, mcmc.num_samples) == (4, 1_000, 1_000)
    assert mcmc.chain_method == "vectorized"


def test_every_case_is_known():
    from benchmarks.models import MODELS

    assert set(answer_cases.NAMES) == {*answer_cases.DENSITIES, *answer_cases.MODELS}
    assert set(answer_cases.MODELS) <= set(MODELS)
    assert set(answer_cases.QUICK) <= set(answer_cases.NAMES)
    loaded = {name: answer_cases.load_case(name) for name in answer_cases.QUICK}
    assert [case.dim for case in loaded.values()] == [2, 10]


def test_the_command_prints_one_line_of_json(monkeypatch, capsys):
    monkeypatch.setattr(jax.config, "update", lambda name, val: None)
    monkeypatch.setattr(answer, "measure", lambda name, method, seed: fake_child(name, method, seed))
    answer.main(["banana", "nuts", "--seed", "7"])
    assert json.loads(capsys.readouterr().out) == THEIRS | {"case": "banana", "seed": 7}
    with pytest.raises(SystemExit):
        answer.main(["bananna", "nuts"])
    assert "invalid choice: 'bananna'" in capsys.readouterr().err
