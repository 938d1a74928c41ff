"""The shape of the package: imports in one direction, short files, a test row for every class."""

import ast
import inspect
import pathlib

import equinox as eqx
import jax
import pytest

import uivi.estimators
import uivi.families
import uivi.reverse
import uivi.targets
from tests.estimators.table import ESTIMATORS
from tests.families.table import CONDITIONALS, FAMILIES, MIXINGS, SCALES
from tests.reverse.table import SAMPLERS
from tests.targets.test_targets import TARGETS

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "uivi"
MAX_LINES = 300

# A module imports from its own layer and from those above it in this table. A new module or folder of
# uivi/ needs an entry here. "__init__" is the public package itself (`import uivi`).
LAYERS = (
    {"_types", "_checks", "_jax", "_leapfrog", "networks", "trainable"},
    {"targets", "families"},
    {"gpu", "storage", "datasets"},
    {"reverse"},
    {"estimators"},
    {"evaluation", "training"},
    {"presets", "integrations", "fitting"},
    {"__init__"},
    {"paper", "bench"},
    {"cli", "__main__"},
)
# Pairs of one layer that must not know each other.
APART = ({"targets", "families"},)

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def unit_of(path: pathlib.Path) -> str:
    """The module or folder directly under uivi/ that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


UNITS = {unit_of(path) for path in PACKAGE.rglob("*.py")}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported_units(source: str) -> set[str]:
    """The parts of uivi that a module imports, anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write absolute imports: from uivi.families import ..."
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "uivi":
                unit = rest.partition(".")[0]
                found.add(unit if unit in UNITS else "__init__")
    return found


def back_edges(unit: str, imported: set[str]) -> list[str]:
    """What `unit` must not import."""
    wrong = [name for name in imported if LEVEL[name] > LEVEL[unit]]
    return wrong + [name for name in imported if {name, unit} in APART]


def test_every_module_has_a_layer():
    unknown = UNITS - set(LEVEL)
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS of tests/test_architecture.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    unit = unit_of(path)
    wrong = back_edges(unit, imported_units(path.read_text()))
    assert not wrong, f"{unit} must not import {wrong}: see LAYERS in tests/test_architecture.py"


def test_back_edges_are_noticed():
    assert back_edges("families", imported_units("from uivi.reverse.base import jump")) == ["reverse"]
    assert back_edges("families", imported_units("def f():\n  from uivi import targets")) == ["targets"]
    assert back_edges("training", imported_units("import uivi")) == ["__init__"]
    assert not back_edges("training", imported_units("from uivi import _checks\nimport uivi.reverse"))


def test_files_are_short():
    folders = [PACKAGE, ROOT / "tests", ROOT / "benchmarks"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    lengths = {path: len(path.read_text().splitlines()) for path in paths}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MAX_LINES}
    assert not long, f"over {MAX_LINES} lines, split: {long}"


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
    return types_in(made)


ROLES = {
    uivi.families: ["AbstractConditional", "AbstractMixing", "AbstractScale", "AbstractFamily"],
    uivi.reverse: ["AbstractReverseSampler", "AbstractProposal", "AbstractStepSize"],
    uivi.estimators: ["AbstractEstimator"],
    uivi.targets: ["AbstractTarget"],
}


@pytest.mark.parametrize("package", ROLES, ids=lambda package: package.__name__)
def test_every_exported_class_of_a_role_has_a_row(package):
    """Adding one takes a file, an export and a row in the role's table."""
    roles = tuple(getattr(package, name) for name in ROLES[package])
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
