"""The command line as users see it. What needs no new process runs in this one, which is much faster."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

import uivi_start
from tests.paper.samples import TITLES
from uivi import __version__ as uivi_version
from uivi.cli import app


def uivi(*args, **kwargs):
    command = [sys.executable, "-m", "uivi", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, **kwargs)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """An empty cache for data and compiled programs, and no data directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("UIVI_DATA", raising=False)
        patch.setenv("UIVI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_compiled_programs_are_kept_unless_jax_was_told_where(tmp_path):
    program = (
        "from uivi.cli import app; import jax; app.keep_programs(); print(jax.config.jax_compilation_cache_dir)"
    )
    for given, expected in (({}, "programs"), ({"JAX_COMPILATION_CACHE_DIR": "elsewhere"}, "elsewhere")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"UIVI_CACHE": str(tmp_path)} | given,
            cwd=tmp_path,
        )
        assert pathlib.Path(done.stdout.strip()).name == expected


def test_the_command_speaks_before_it_imports_jax():
    program = (
        "import sys, uivi_start; print('jax' in sys.modules, flush=True); uivi_start.PATIENCE = 0.1;"
        "sys.argv = ['uivi', '--version']; uivi_start.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"False\nuivi {uivi_version}\n"
    assert re.fullmatch(r"uivi: loading JAX\.*\n", done.stderr), "a dot from time to time"


def test_the_command_is_quiet_where_imports_are_quick(monkeypatch, capsys):
    monkeypatch.setattr(app, "main", lambda: time.sleep(0.3))
    monkeypatch.setattr(uivi_start, "PATIENCE", 0.2)
    uivi_start.main()
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_during_the_imports_is_no_traceback(monkeypatch, capsys):
    class Interrupting:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "uivi.cli.app", Interrupting())
    with pytest.raises(SystemExit) as stopped:
        uivi_start.main()
    assert stopped.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_mistake_ends_the_process_with_a_message(tmp_path):
    done = uivi("run", "bananna", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown experiment 'bananna'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_run_and_report(tmp_path):
    done = uivi("run", "banana", "--method", "explicit", "--steps", 3, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "banana default-explicit: KL(q‖p)" in done.stdout
    assert "3 updates, " in done.stdout.splitlines()[0], "one line, however narrow the terminal"
    # Off a terminal, a line for each phase, some with the seconds so far and a bound.
    said = [re.sub(r"^ *[\d.]+ s  banana default-explicit: |  \(.*", "", x) for x in done.stderr.splitlines()]
    assert said == [
        "looking at the devices",
        *("reading the data", "making the first state", "updates", "evaluating seed 0", "done"),
        f"reading the results below {tmp_path}",
        f"drawing the figures: {TITLES['toy'].partition('  (')[0]}",
    ]
    page = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    assert uivi("report", tmp_path).returncode == 0
    assert (tmp_path / "report.html").read_bytes() == page


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "bananna"), "unknown experiment 'bananna': did you mean 'banana'?"),
        (("run", "banana", "--method", "uivy"), "unknown method 'uivy': did you mean 'uivi'?"),
        (("run", "banana", "--preset", "defalt"), "unknown preset 'defalt': did you mean 'default'?"),
        (("run", "banana", "--steps", "0"), "expected `steps` to be a positive whole number, got 0"),
        (("run", "samplers-funnel", "--steps", "5"), "expected no `steps` for samplers-funnel, got 5"),
        (("run", "samplers-funnel", "--method", "nutz"), "unknown method 'nutz': did you mean 'nuts'?"),
        (("run", "banana", "--seeds", "-1"), "expected `seeds` to be a positive whole number, got -1"),
        (("run", "banana", "--out", "FILE/below"), "cannot write to"),
        (("report", "nowhere"), "expected results below nowhere, found none"),
        (("report", "FILE"), "expected a directory with results, got the file FILE: give its directory, ."),
        (("run", "banana", "--seed", "-3"), "expected `seed` from 0 to 4294967295, got -3"),
        (("run", "banana", "--seed", str(2**32)), "expected `seed` from 0 to 4294967295, got 4294967296"),
        (("run", "banana", "--seed", str(10**20)), f"expected `seed` from 0 to 4294967295, got {10**20}"),
        (("run", "banana", "--seeds", str(2**32)), "expected `seeds` to be at most 1,000,000,000"),
        (("run", "banana", "--seeds", "20000"), "expected `seeds` to be at most 10,000"),
        (
            ("run", "banana", "--seed", str(2**32 - 1), "--seeds", "2"),
            "expected `seed + seeds - 1` from 0 to 4294967295",
        ),
        (("run", "banana", "--steps", str(10**18)), "expected `steps` to be at most 1,000,000,000"),
        (("run", "[/]"), "unknown experiment '[/]': known"),
        (("run", "[bold]banana"), "unknown experiment '[bold]banana': did you mean 'banana'?"),
        (("run", "banana", "--method", "[/]"), "unknown method '[/]': known"),
        (("report", "\\[/] \\"), "expected results below \\[/] \\, found none"),
        (("data", "verify", "[/]"), "unknown data set '[/]'"),
        (("run", "logreg-hapt-recomputed"), "expected hapt/hapt_recomputed.npz of data set"),
        (("data", "get", "mnits"), "unknown data set 'mnits': did you mean 'mnist'?"),
        (("bench", "--parts", "quallity"), "unknown part 'quallity': did you mean 'quality'?"),
    ],
)
def test_mistakes_are_one_message(args, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "FILE").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["uivi", *args])
    monkeypatch.setattr(app, "keep_programs", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        app.main()
    assert stopped.value.code == 2
    errors = capsys.readouterr().err
    assert message in " ".join(errors.split())
    assert "Traceback" not in errors
    assert [p.name for p in tmp_path.iterdir()] == ["FILE"]


@pytest.mark.parametrize(
    ("args", "runs"),
    [
        (("banana",), ["banana default-uivi"]),
        (("logreg-iterations",), [f"logreg-iterations paper-hmc-{n}" for n in (1, 5, 20, 50)]),
        (
            ("vae-prior-mnist",),
            [f"vae-prior-mnist {name}" for name in ("exact-normal", "exact-vamp", "bound-dsivi-prior")]
            + [
                f"vae-prior-mnist {name}"
                for name in ("bound-dsivi-agg", "score-dsivi-prior", "coupled-dsivi-prior")
            ],
        ),
        (("samplers-funnel",), ["samplers-funnel seconds-uivi"]),
        (("banana", "--method", "all"), [f"banana default-{m}" for m in ("uivi", "sivi", "explicit")]),
        (("banana", "--preset", "paper, default"), ["banana paper-uivi", "banana default-uivi"]),
    ],
)
def test_what_runs_by_default(args, runs, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(app, "run", lambda plan, **options: done.append(plan) or [])
    monkeypatch.setattr(app.data_cli, "fetch", lambda *args, **options: [])
    monkeypatch.setattr(app, "_show", lambda *args: None)
    monkeypatch.setattr(app, "keep_programs", lambda: None)
    monkeypatch.setattr(sys, "argv", ["uivi", "run", *args, "--out", str(tmp_path), "--quick"])
    with pytest.raises(SystemExit) as stopped:
        app.main()
    assert stopped.value.code == 0
    assert [f"{plan.name} {plan.preset}-{plan.method}" for plan in done] == runs


@pytest.mark.parametrize("again", [(), ("--resume",)])
def test_an_interrupt_names_the_command_that_goes_on(again, tmp_path, monkeypatch, capsys):
    out = tmp_path / "[/] and more"

    def interrupt(plan, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["uivi", "run", "banana", "--out", str(out), *again])
    monkeypatch.setattr(app, "keep_programs", lambda: None)
    monkeypatch.setattr(app, "run", interrupt)
    with pytest.raises(SystemExit) as stopped:
        app.main()
    assert stopped.value.code == 130
    errors = capsys.readouterr().err
    assert f"uivi run banana --out '{out}' --resume\n" in errors
    assert "Traceback" not in errors


def test_the_command_of_an_interrupt_goes_on(tmp_path):
    command = [
        "run",
        "banana",
        "--method",
        "explicit",
        "--steps",
        "10000000",
        "--out",
        str(tmp_path),
        "--quiet",
    ]
    process = subprocess.Popen([sys.executable, "-m", "uivi", *command], stderr=subprocess.PIPE, text=True)
    checkpoint = tmp_path / "banana" / "default-explicit" / "checkpoint"
    for _ in range(600):
        if list(checkpoint.glob("*.ckpt")):
            break
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=100)[1]
    assert process.returncode == 130
    assert errors.splitlines()[-1] == shlex.join(["uivi", *command, "--resume"])
    assert max(checkpoint.glob("*.ckpt")).stat().st_size > 0
