"""The documentation: printed code runs, the reference is complete, figures are small, lines are short."""

import ast
import contextlib
import dataclasses
import functools
import http.server
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
import time
import types

import matplotlib as mpl
import pytest

import uivi
from tests.pages import (
    BLOCK,
    EXCERPT,
    NOTEBOOKS,
    PAGES,
    ROOT,
    as_users_have_it,
    folded,
    notebook,
    run,
    shortened,
)
from tests.paper import chromium
from uivi import paper

FENCE = re.compile(r"^```(\S.*)$", re.MULTILINE)
FENCES = {"python", 'python title="excerpt"', "sh", "text", 'text title="output"'}
DIRECTIVE = re.compile(r"^::: (\S+)(?:\n    options: \{(.*)\})?$", re.MULTILINE)
IMAGE = re.compile(r"!\[[^]]*\]\(([^)]+)\)|^\[[^]]+\]: (\S+\.png)$", re.MULTILINE)
URL = re.compile(r"https?://[^\s)>\"]+")
LARGEST_FIGURE = 100_000
LARGEST_SCREEN = 300_000
LONGEST_LINE = 120
LONGEST_README = 120

page_name = lambda page: str(page.relative_to(ROOT))


# These show what the other pages' code does too, with more fits.
MORE_FITS = ("gallery.md", "diagnostics.md", "mean_field.md", "networks.md", "pymc.md", "recipes.md")
RUN = [
    pytest.param(p, marks=pytest.mark.slow if p.name in MORE_FITS else ())
    for p in PAGES
    if BLOCK.search(p.read_text())
]


@pytest.mark.parametrize("page", RUN, ids=page_name)
def test_printed_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, short=True)


def names_used(code: str) -> set[str]:
    """Return the dotted names of uivi in a piece of code; a variable `posterior` counts as a uivi.Posterior."""
    roots = {"uivi": "uivi", "posterior": "uivi.Posterior"}
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            found |= (
                {f"{roots[root]}.{rest}"} if root in roots and rest.replace(".", "").isidentifier() else set()
            )
    return {name for name in found if name.startswith("uivi.")}


@pytest.mark.parametrize("page", [p for p in PAGES if EXCERPT.search(p.read_text())], ids=page_name)
def test_excerpts_use_names_that_exist(page):
    for code in EXCERPT.findall(page.read_text()):
        assert names_used(code)
        for name in names_used(code):
            resolved(name)


@pytest.mark.parametrize("name", MORE_FITS)
def test_slow_pages_compile_and_use_names_that_exist(name):
    """Their code runs in `make test-all` only."""
    (page,) = (p for p in PAGES if p.name == name)
    # A class does not have the fields of its objects.
    fields = {field.name for field in dataclasses.fields(uivi.Posterior)}
    for code, _ in BLOCK.findall(page.read_text()):
        shortened(code)
        for used in names_used(code):
            if used.removeprefix("uivi.Posterior.").partition(".")[0] not in fields:
                resolved(used)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=page_name)
def test_a_notebook_is_its_page(page):
    """To write it anew: `python -m tests.pages` with the page."""
    stored = json.loads(NOTEBOOKS[page].read_text())
    assert stored == notebook(page.read_text())
    code = ["".join(cell["source"]) + "\n" for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert code == [block for block, _ in BLOCK.findall(page.read_text())]
    assert stored["nbformat"] == 4
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    assert NOTEBOOKS[page].stat().st_size < LARGEST_FIGURE


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=page_name)
def test_the_cells_of_a_notebook_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names = {"__name__": "__main__"}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            with as_users_have_it(short=True):
                exec(shortened("".join(cell["source"]) + "\n"), names)


def test_a_wrong_name_in_an_excerpt_is_noticed():
    assert names_used("import uivi\nposterior.draw(uivi.fit(f))") == {"uivi.fit", "uivi.Posterior.draw"}
    with pytest.raises(AttributeError):
        resolved("uivi.Posterior.draw")


def test_code_is_shortened_only_where_it_says_so():
    code = "a = 6_000\nb = f(6_000)  # the default; CI: 6_000 -> 50\n"
    assert shortened(code) == "a = 6_000\nb = f(50)  # the default; CI: 6_000 -> 50\n"
    with pytest.raises(AssertionError, match="no 5 to replace"):
        shortened("b = 6  # CI: 5 -> 1\n")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_fences_are_of_known_kinds(page):
    assert set(FENCE.findall(page.read_text())) <= FENCES


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_figures_are_there_and_small(page):
    for inline, reference in IMAGE.findall(page.read_text()):
        path = page.parent / (inline or reference)
        assert path.stat().st_size < (LARGEST_SCREEN if "screen" in path.name else LARGEST_FIGURE), path


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_lines_are_short(page):
    """Lines have at most 120 characters. A URL cannot be broken, so it counts for nothing."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert not [number for number, line in lines if len(URL.sub("", line)) > LONGEST_LINE]


OPEN_SEARCH = """(() => {
    const toggle = document.querySelector("#__search"), input = document.querySelector(".md-search__input");
    toggle.checked = true;
    toggle.dispatchEvent(new Event("change"));
    input.focus();
    input.value = "reweight";
    for (const kind of ["keyup", "input"]) input.dispatchEvent(new Event(kind, {bubbles: true}));
})()"""
FOUND = "document.querySelectorAll('.md-search-result__item').length"


@pytest.mark.slow
def test_the_search_of_the_site_works_over_http(tmp_path):
    if (program := chromium.find()) is None:
        pytest.skip("needs Chromium")
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with chromium.browser(program, tmp_path / "profile") as page:
                page.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/index.html")
                end = time.monotonic() + 60
                found = 0
                while not found and time.monotonic() < end:
                    time.sleep(1)
                    page.evaluate(OPEN_SEARCH)
                    found = page.evaluate(FOUND)
        finally:
            server.shutdown()
    assert found


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format, *args):
        del format, args


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST_README


def test_long_outputs_are_folded():
    words = "a fit " * 30
    printed = f"  verdict  good\n  advice   {words}\n{words}\n"
    assert all(len(line) <= LONGEST_LINE for line in folded(printed).splitlines())
    assert folded(printed).split() == printed.split()
    assert folded(printed).splitlines()[2].startswith("           a fit")
    assert folded("short\n\nlines\n") == "short\n\nlines\n"


@pytest.mark.parametrize("kind", paper.DEVIATIONS)
def test_the_paper_page_lists_every_deviation(kind):
    text = " ".join((ROOT / "docs" / "paper.md").read_text().split())
    assert all(f"- {line} " in f"{text} " for line in paper.DEVIATIONS[kind])


def resolved(path: str) -> object:
    """Return the object at a dotted path; a submodule wins over a function of its name, as in the reference."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(".".join(parts[:size]))
            return functools.reduce(getattr, parts[size:], module)
    raise ModuleNotFoundError(path)


def own_names(module: types.ModuleType) -> list[str]:
    """Return the exported names of a package, or what a module without `__all__` defines for others."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    mine = {n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__}
    return sorted(name for name in mine if not name.startswith("_"))


def documented(reference: str) -> tuple[set[str], set[int]]:
    """Return the paths in the reference, and the identities of the callables at them."""
    paths = set()
    for path, options in DIRECTIVE.findall(reference):
        found = resolved(path)
        is_whole = inspect.ismodule(found) and "members: null" in options
        paths |= {path} | ({f"{path}.{name}" for name in own_names(found)} if is_whole else set())
    return paths, {id(x) for x in map(resolved, paths) if callable(x)}


def missing(module: types.ModuleType, reference: str) -> list[str]:
    """Return the names of `module` that the reference has under no path."""
    paths, identities = documented(reference)
    names = {f"{module.__name__}.{name}": getattr(module, name) for name in own_names(module)}
    return [name for name, x in names.items() if name not in paths and id(x) not in identities]


REFERENCE = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))
PACKAGES = [
    "uivi",
    *(f"uivi.{m.name}" for m in pkgutil.iter_modules(uivi.__path__) if m.ispkg),
    *(f"uivi.{name}" for name in uivi.__all__ if inspect.ismodule(getattr(uivi, name))),
]


@pytest.mark.parametrize("package", sorted(set(PACKAGES)))
def test_every_public_name_is_in_the_reference(package):
    assert not missing(importlib.import_module(package), REFERENCE)


def test_a_missing_name_is_noticed():
    without = re.sub(r"^::: uivi\.(SIVI|evaluation\.evaluate|presets\.vae)\n", "", REFERENCE, flags=re.M)
    assert missing(uivi, without) == ["uivi.SIVI"]
    assert missing(uivi.evaluation, without) == ["uivi.evaluation.evaluate"]
    assert not missing(uivi.presets.vae, REFERENCE)
    assert "uivi.presets.vae.default_uivi" in missing(uivi.presets.vae, without)
