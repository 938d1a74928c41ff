"""The documentation: printed code runs, every public name is in the reference, figures are there and small."""

import ast
import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import types

import pytest

import uivi
from tests.pages import BLOCK, EXCERPT, PAGES, ROOT, run, shortened

FENCE = re.compile(r"^```(\S.*)$", re.MULTILINE)
FENCES = {"python", 'python title="excerpt"', "sh", "text", 'text title="output"'}
DIRECTIVE = re.compile(r"^::: (\S+)(?:\n    options: \{(.*)\})?$", re.MULTILINE)
IMAGE = re.compile(r"!\[[^]]*\]\(([^)]+)\)")
LARGEST_FIGURE = 100_000

page_name = lambda page: str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=page_name)
def test_printed_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, short=True)


def names_used(code: str) -> set[str]:
    """Dotted names of uivi in a piece of code, with those of a variable `posterior` as uivi.Posterior's."""
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
    for name in IMAGE.findall(page.read_text()):
        assert (page.parent / name).stat().st_size < LARGEST_FIGURE, name


def resolved(path: str) -> object:
    """The object at a dotted path; a submodule comes before a function of its name, as in the reference."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(".".join(parts[:size]))
            return functools.reduce(getattr, parts[size:], module)
    raise ModuleNotFoundError(path)


def own_names(module: types.ModuleType) -> list[str]:
    """The exported names of a package; of a module without `__all__`, what it defines for others."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    mine = {n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__}
    return sorted(name for name in mine if not name.startswith("_"))


def documented(reference: str) -> tuple[set[str], set[int]]:
    """Paths in the reference, and the identities of what can be called at them."""
    paths = set()
    for path, options in DIRECTIVE.findall(reference):
        found = resolved(path)
        is_whole = inspect.ismodule(found) and "members: null" in options
        paths |= {path} | ({f"{path}.{name}" for name in own_names(found)} if is_whole else set())
    return paths, {id(x) for x in map(resolved, paths) if callable(x)}


def missing(module: types.ModuleType, reference: str) -> list[str]:
    """Names of `module` that the reference leaves out, under this path and any other."""
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
    without = REFERENCE.replace("::: uivi.SIVI\n", "").replace(
        "::: uivi.evaluation.bounds\n", "::: uivi.evaluation.metrics\n"
    )
    assert "uivi.SIVI" in missing(uivi, without)
    assert "uivi.evaluation.bounds.evaluate" in missing(uivi.evaluation.bounds, without)
