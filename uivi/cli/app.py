"""The command line. Each command calls one function of the library."""

import contextlib
import pathlib
import shlex
import sys
from collections.abc import Iterator
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.text import Text

from uivi import __version__, _checks, bench, datasets
from uivi.cli import data as data_cli
from uivi.cli.busy import Busy, busy
from uivi.cli.listing import listing
from uivi.paper import (
    EXPERIMENTS,
    GROUPS,
    WHOLE,
    AbstractContest,
    Effort,
    Experiment,
    Trials,
    members,
    plan_of,
    report,
    run,
    side_by_side,
)
from uivi.paper.plan import UPDATE_PRECISION
from uivi.storage.archive import ArchiveError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
)
app.add_typer(data_cli.app, name="data")
console = Console(markup=False)  # paths and messages may contain brackets
MOST_SEEDS = 10_000
"""Largest number of seeds: all fits of a run are held in memory."""


def _print_version(wanted: bool | None) -> None:  # noqa: FBT001 (Typer calls it so)
    if wanted:
        console.print(f"uivi {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Unbiased implicit variational inference: the paper's experiments, a benchmark, and the data sets."""


Out = Annotated[pathlib.Path, typer.Option(help="Directory to write the results to.")]


@app.command("list")
def list_experiments() -> None:
    """List the experiments and groups: presets, methods, the time a fit takes, and the data it needs."""
    console.print(listing())


@app.command("run")
def run_experiments(
    name: Annotated[str, typer.Argument(help="An experiment or a group; `uivi list` shows both.")],
    method: Annotated[
        str,
        typer.Option(help="Methods separated by commas (uivi, sivi, explicit, ...), or `all`. Default: uivi."),
    ] = "",
    preset: Annotated[
        str, typer.Option(help="Presets separated by commas (default, paper, ...). Default: default, or all.")
    ] = "",
    steps: Annotated[int | None, typer.Option(help="Number of updates. Default: the preset's.")] = None,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 1,
    out: Out = pathlib.Path("results"),
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Few updates and draws: minutes on a CPU.")] = False,
    apart: Annotated[
        bool, typer.Option("--apart", help="On a GPU, fit the data sets one after the other.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished results and continue unfinished runs.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False,
) -> None:
    """Run experiments; write their results and an HTML page with tables and figures.

    The group `paper` runs the whole paper: by default all methods of the preset `paper`. The group `methods`
    runs all methods, at equal updates and at equal seconds; `samplers` runs whole programs on targets with a
    known log Z, at equal seconds; `networks` runs Bayesian neural networks on tables of UCI.
    """
    # On a GPU, JAX would otherwise round the inputs of float32 products to 10 bits.
    jax.config.update("jax_default_matmul_precision", "highest")
    _checks.known_name("experiment", name, [*EXPERIMENTS, *GROUPS])
    if _checks.positive_int("seeds", seeds) > MOST_SEEDS:
        raise ValueError(
            f"expected `seeds` to be at most {MOST_SEEDS:,}, since all are fitted at once, got {seeds}"
        )
    last = _checks.seed("seed", seed) + seeds - 1
    all_seeds = tuple(range(seed, _checks.seed("seed + seeds - 1", last) + 1))
    effort: Effort = "quick" if quick else "full"
    names = members(name)
    with busy(console, quiet=quiet) as says:
        says.phase("looking at the devices")
        together = jax.default_backend() == "gpu" and not apart
        groups = side_by_side(names) if together else [(EXPERIMENTS[member],) for member in names]
        todo = [
            plan_of(group, preset=p, method=m, seeds=all_seeds, out=out, num_steps=steps, effort=effort)
            for group in groups
            for p in _presets(group[0], preset or ",".join(WHOLE.get(name, ())))
            for m in _methods(group[0], p, method or ("all" if name in WHOLE else ""))
        ]
        if any(isinstance(plan, Trials) and plan.contest.is_timed for plan in todo):
            # The seconds of a contender are those of a user's first call, which compiles.
            jax.config.update("jax_enable_compilation_cache", val=False)
        for missing, used in zip(GROUPS.get(name, (name,)), names, strict=True):
            if missing != used:
                says.print(f"found no data for {missing}: running {used} instead, under its own name")
        # Missing data must stop the command now, not after hours of fits.
        for dataset in dict.fromkeys(e.dataset for group in groups for e in group if e.dataset):
            data_cli.fetch(dataset, says, quiet=quiet)
        says.rest()
        with _says_how_to_resume():
            for plan in todo:
                for result in run(plan, resume=resume, progress=not quiet):
                    console.print(report.one_line(result), soft_wrap=True)
            _show(out, says)


@app.command("bench")
def bench_device(
    out: Out = pathlib.Path("results/bench"),
    parts: Annotated[
        str, typer.Option(help=f"Parts separated by commas: {', '.join(bench.PARTS)}. Default: all.")
    ] = "",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes: minutes on a CPU.")] = False,
) -> None:
    """Time updates on this device, by method and size, and the seconds to reach a good fit."""
    # Otherwise a second run would report the loading of a cached program as its compilation.
    jax.config.update("jax_enable_compilation_cache", val=False)
    names = _separated(parts) if parts else ()
    with busy(console) as says:
        talk = {"say": says.print, "doing": says.phase}
        found = bench.run(out, precision=UPDATE_PRECISION, parts=names, quick=quick, **talk)
    console.print(bench.table(found))
    console.print(f"numbers and figure: {out / 'bench.json'}, {out / 'bench.png'}")


@app.command("report")
def make_report(
    out: Annotated[pathlib.Path, typer.Argument(help="Directory with results.")] = pathlib.Path("results"),
) -> None:
    """Show results in a table and write an HTML page with tables and figures. Nothing is fitted."""
    with busy(console) as says:
        _show(out, says)


class Interrupted(RuntimeError):
    """Ctrl-C, with a message for the user. Typer would turn a KeyboardInterrupt into a bare "Aborted!"."""


@contextlib.contextmanager
def _says_how_to_resume() -> Iterator[None]:
    """Turns Ctrl-C into a message with the command that continues the run."""
    try:
        yield
    except KeyboardInterrupt as error:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        command = shlex.join(["uivi", *arguments, "--resume"])
        raise Interrupted(
            f"interrupted: finished runs and the last checkpoint are kept. To continue, run\n{command}"
        ) from error


def _show(out: pathlib.Path, says: Busy) -> None:
    says.phase(f"reading the results below {out}")
    results, faults = report.load_results(out)
    says.rest()
    console.print(report.table(results))
    for fault in faults:
        _complain(Text.assemble(("left out: ", "bold yellow"), fault))
    page = report.write_page(out, doing=says.phase)
    says.rest()
    console.print(f"page with figures: {page}", soft_wrap=True)


def _separated(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _presets(experiment: Experiment | AbstractContest, preset: str) -> list[str]:
    """Returns the presets that were asked for; without any, `default`, or all if there is no such preset."""
    if preset:
        return _separated(preset)
    return ["default"] if "default" in experiment.recipes else list(experiment.recipes)


def _methods(experiment: Experiment | AbstractContest, preset: str, method: str) -> list[str]:
    """Returns the methods that were asked for; without any, `uivi`, or all that there are."""
    known = experiment.recipes[_checks.known_name("preset", preset, experiment.recipes)]
    if method == "all" or not (method or "uivi" in known):
        return list(known)
    return _separated(method or "uivi")


def keep_programs() -> None:
    """Caches compiled programs in the user's cache directory, unless JAX has a directory already."""
    if not getattr(jax.config, "jax_compilation_cache_dir", None):
        jax.config.update("jax_compilation_cache_dir", str(datasets.cache_directory() / "programs"))


def main() -> None:
    """Runs the command line. An expected error is printed as one message without a traceback."""
    keep_programs()
    try:
        app()
    except Interrupted as interrupted:
        _complain(Text(str(interrupted), "yellow"))
        sys.exit(130)
    except (ArchiveError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        _complain(Text.assemble(("error: ", "bold red"), str(error)))
        sys.exit(2)


def _complain(message: Text) -> None:
    # A `Text`, since a message may repeat names that look like Rich's markup. Not wrapped: it may hold a
    # command.
    Console(stderr=True).print(message, highlight=False, soft_wrap=True)
