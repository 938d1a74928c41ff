"""The shape of the package: imports in one direction, no cycles, short files, a test row for every class."""

import ast
import inspect
import pathlib
import re
import sys

import equinox as eqx
import jax
import pytest

import uivi
from tests.estimators.table import ESTIMATORS
from tests.families.table import CONDITIONALS, FAMILIES, MIXINGS, SCALES
from tests.priors.table import PRIORS
from tests.reverse.table import SAMPLERS
from tests.targets.test_targets import TARGETS

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "uivi"
MAX_LINES = 400

# A module imports from its own layer and from those above it in this table. A new module or folder of
# uivi/ needs an entry here and in docs/architecture.md. "__init__" is the public package (`import uivi`).
LAYERS = {
    "ground": ("_types", "_checks", "_jax", "_random", "_leapfrog", "trainable", "networks"),
    "problem and family": ("targets", "families"),
    "prior": ("priors",),
    "devices and files": ("gpu", "storage", "datasets"),
    "method": ("reverse", "estimators"),
    "evaluation": ("evaluation",),
    "training": ("training",),
    "tests of methods": ("testing",),
    "user": ("presets", "integrations", "fitting", "__init__"),
    "paper": ("paper", "bench"),
    "shell": ("cli", "__main__"),
}
# Pairs of one layer that must not know each other, and pairs in which only the first may know the second.
APART = ({"targets", "families"},)
ONE_WAY = (("estimators", "reverse"),)

LEVEL = {name: level for level, names in enumerate(LAYERS.values()) for name in names}


def unit_of(path: pathlib.Path) -> str:
    """The module or folder directly under uivi/ that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(PACKAGE.rglob("*.py"))
UNITS = {unit_of(path) for path in FILES}


def module_of(path: pathlib.Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imported_names(source: str) -> set[str]:
    """The dotted names of uivi that a module imports anywhere in its text, except for type checkers."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write absolute imports: from uivi.families import ..."
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] == "uivi"}


def imported_units(source: str) -> set[str]:
    """The modules and folders directly under uivi/ that a module imports."""
    units = {name.partition(".")[2].partition(".")[0] for name in imported_names(source)}
    return {unit if unit in UNITS else "__init__" for unit in units}


def imported_modules(source: str) -> set[str]:
    """The modules of uivi that a module imports; a package stands for its `__init__`."""
    found = set()
    for name in imported_names(source):
        while name not in MODULES:
            name = name.rpartition(".")[0]
        found.add(name)
    return found


def back_edges(unit: str, imported: set[str]) -> list[str]:
    """What `unit` must not import."""
    wrong = [name for name in imported if LEVEL[name] > LEVEL[unit]]
    wrong += [name for name in imported if {name, unit} in APART]
    return wrong + [name for name in imported if (name, unit) in ONE_WAY]


def test_every_module_has_a_layer():
    unknown = UNITS - set(LEVEL)
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS of tests/test_architecture.py"
    assert set(LEVEL) == UNITS, "LAYERS names modules that do not exist"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    unit = unit_of(path)
    wrong = back_edges(unit, imported_units(path.read_text()))
    assert not wrong, f"{unit} must not import {wrong}: see LAYERS in tests/test_architecture.py"


def test_back_edges_are_noticed():
    assert back_edges("families", imported_units("from uivi.reverse.base import jump")) == ["reverse"]
    assert back_edges("families", imported_units("def f():\n  from uivi import targets")) == ["targets"]
    assert back_edges("training", imported_units("import uivi")) == ["__init__"]
    assert back_edges("reverse", imported_units("from uivi.estimators import UIVI")) == ["estimators"]
    assert not back_edges("training", imported_units("from uivi import _checks\nimport uivi.reverse"))


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or an empty list."""
    done, path = set(), []

    def visit(node: str) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph[node]):
            if found := visit(other):
                return found
        done.add(path.pop())
        return []

    return next((found for node in graph if (found := visit(node))), [])


def test_there_is_no_import_cycle():
    """Also none through an import inside a function, which would only hide it."""
    graph = {name: imported_modules(path.read_text()) - {name} for name, path in MODULES.items()}
    assert find_cycle(graph) == []


def test_a_cycle_is_noticed():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_files_are_short():
    folders = [PACKAGE, ROOT / "tests", ROOT / "benchmarks"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    lengths = {path: len(path.read_text().splitlines()) for path in paths}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MAX_LINES}
    assert not long, f"over {MAX_LINES} lines, split: {long}"


def shadowed(package: str, names: dict[str, object]) -> list[str]:
    """The modules of a package that one of its other names hides."""
    own = [name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == package]
    return [name for name in own if name in names and not inspect.ismodule(names[name])]


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in MODULES} - {""}))
def test_no_module_is_shadowed_by_a_function_of_its_name(package):
    __import__(package)
    assert not shadowed(package, vars(sys.modules[package]))


def test_a_shadowed_module_is_noticed():
    assert shadowed("uivi.fitting", {"fit": uivi.fit}) == ["fit"]


def test_the_top_level_has_what_a_user_types():
    assert len(uivi.__all__) <= 30
    assert sorted(set(uivi.__all__)) == sorted(uivi.__all__)
    assert all(hasattr(uivi, name) for name in uivi.__all__)


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def table_of(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of docs/architecture.md."""
    below = ARCHITECTURE.split(f"## {heading}\n", 1)[1]
    lines = below[below.index("|") :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_of_layers_in_the_docs_is_this_one():
    rows = {row[0]: re.findall(r"`([\w/]+)`", row[1]) for row in table_of("The layers")}
    assert {layer: tuple(name.rstrip("/") for name in names) for layer, names in rows.items()} == LAYERS


def test_every_concept_of_the_docs_is_where_they_say():
    rows = table_of("Where is what?")
    assert len(rows) > 10
    for _, where in rows:
        for path in re.findall(r"`([\w/]+\.py|[\w/]+/)`", where):
            assert (PACKAGE / path).exists(), path


def types_in(value) -> set[type]:
    """The types of all modules inside a module, itself included."""
    if isinstance(value, tuple | list):
        return {t for item in value for t in types_in(item)}
    if not isinstance(value, eqx.Module):
        return set()
    return {type(value)} | types_in([getattr(value, name, None) for name in vars(value)])


def tabled_types() -> set[type]:
    """All types that the role tables build, wherever they sit in a row."""
    key = jax.random.key(0)
    made = [row.make(2) for row in SAMPLERS.values()]
    made += [x for row in ESTIMATORS.values() for x in (row.make(), row.family())]
    made += [row.make(key, 2, 0) for row in CONDITIONALS.values()]
    made += [make(2) for make, _ in MIXINGS.values()] + [make.create(2) for make in SCALES.values()]
    made += [make() for make in FAMILIES.values()] + [make() for make in TARGETS.values()]
    made += [make() for make in PRIORS.values()] + [row.target() for row in ESTIMATORS.values()]
    return types_in(made)


ROLES = {
    uivi.families: ["AbstractConditional", "AbstractMixing", "AbstractScale", "AbstractFamily"],
    uivi.reverse: ["AbstractReverseSampler", "AbstractProposal", "AbstractStepSize"],
    uivi.priors: ["AbstractPrior", "AbstractTarget"],
    uivi.estimators: ["AbstractEstimator", "AbstractKernel", "AbstractBandwidth", "AbstractPairs"],
    uivi.targets: ["AbstractTarget", "AbstractPrior"],
}


@pytest.mark.parametrize("package", ROLES, ids=lambda package: package.__name__)
def test_every_exported_class_of_a_role_has_a_row(package):
    """Adding one takes a file, an export and a row in the role's table."""
    roles = tuple(getattr(package, name, None) or getattr(uivi.targets, name) for name in ROLES[package])
    exported = [getattr(package, name) for name in package.__all__]
    concrete = {x for x in exported if inspect.isclass(x) and issubclass(x, roles)}
    concrete = {x for x in concrete if not x.__name__.startswith("Abstract")}
    assert concrete
    missing = sorted(x.__name__ for x in concrete - tabled_types())
    assert not missing, f"no row in a test table for {missing}"


@pytest.mark.parametrize("package", ROLES, ids=lambda package: package.__name__)
def test_exports_exist_and_are_sorted_out(package):
    assert len(set(package.__all__)) == len(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)
