"""The table of names: complete, consistent, and the same as in files that were written before."""

import ast
import dataclasses
import inspect
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.families.table import CONDITIONALS, FAMILIES, MIXINGS, SCALES
from uivi.storage import archive, fields, names

FIELDS = {
    "Affine": ["inner", "shift", "log_diagonal", "lower"],
    "AtModes": ["inner", "shift", "log_scale", "log_weights", "loc", "factor", "inverse", "volume"],
    "AtParticles": ["cloud", "inner"],
    "ExplicitGaussian": ["encoder"],
    "Exponential": ["net"],
    "FullGaussian": ["loc", "log_diagonal", "lower"],
    "Gamma": ["net"],
    "Gaussian": ["net", "scale"],
    "Laplace": ["net", "scale"],
    "Layered": ["inner", "hidden", "bias", "out", "bound"],
    "Linear": ["weight", "bias"],
    "LinearGaussian": ["weight", "bias", "scale"],
    "LogScale": ["log_value"],
    "MLP": ["layers", "context_weight", "skip", "activation"],
    "NetGaussian": ["net", "offset", "bound"],
    "NonTrainable": ["value"],
    "RawScale": ["value"],
    "Reparameterised": ["net", "size", "sample_fn", "log_prob_fn"],
    "SemiImplicit": ["mixing", "conditional"],
    "Sheared": ["inner", "hidden", "bias", "out"],
    "StandardNormal": ["dim"],
    "Standardised": ["inner", "loc", "factor", "inverse", "volume"],
    "Stretched": ["inner", "basis", "factors"],
    "TwoNetGaussian": ["loc_net", "scale_net"],
    "Uniform": ["dim"],
    "Warped": ["inner", "skew", "log_tail"],
}
"""The classes of format 2 and their fields. After a change other than a new class, older files do not load:
raise `archive.FORMAT`, then change this table."""


def test_files_of_before_still_load():
    found = {name: [field.name for field in dataclasses.fields(cls)] for name, cls in names.CLASSES.items()}
    assert archive.FORMAT == 2
    assert found == FIELDS


def test_every_exported_class_is_in_the_table():
    exported = [getattr(uivi.families, name) for name in uivi.families.__all__]
    modules = {x for x in exported if inspect.isclass(x) and issubclass(x, eqx.Module)}
    concrete = {x for x in modules if not x.__name__.startswith("Abstract")}
    assert concrete <= set(names.CLASSES.values())


def types_in(value):
    """The types of all modules inside a module, itself included."""
    if isinstance(value, tuple | list):
        return {t for item in value for t in types_in(item)}
    if not isinstance(value, eqx.Module):
        return set()
    return {type(value)} | types_in([getattr(value, field.name) for field in dataclasses.fields(value)])


def test_the_table_has_every_part_of_a_family_and_nothing_else():
    key = jax.random.key(0)
    made = [row.make(key, 2, 0) for row in CONDITIONALS.values()] + [make() for make in FAMILIES.values()]
    made += [make(2) for make, _ in MIXINGS.values()] + [make.create(2) for make in SCALES.values()]
    made += [uivi.presets.default_family(key, dim) for dim in (2, 300)]
    # A file may name those of another library only with the reader's trust.
    own = {x for x in types_in(made) if not x.__module__.startswith("uivi.integrations")}
    assert own == set(names.CLASSES.values())


def test_names_are_plain_and_belong_to_one_class_each():
    assert len(set(names.CLASSES.values())) == len(names.CLASSES)
    for name, cls in names.CLASSES.items():
        assert name.isidentifier()
        assert names.class_name(cls) == name
        assert dataclasses.is_dataclass(cls)
        assert not inspect.isabstract(cls)
    assert names.class_name(uivi.UIVI) is None


@pytest.mark.parametrize("name", names.CLASSES)
def test_the_annotations_of_every_field_can_be_checked(name):
    """A value of no use fits none of them."""
    for annotation in fields.annotations_of(names.CLASSES[name]).values():
        assert not isinstance(annotation, str)
        assert not fields.fits(object(), annotation, {})


@pytest.mark.parametrize("name", names.ACTIVATIONS)
def test_activations_are_elementwise(name):
    activation = names.ACTIVATIONS[name]
    assert names.function_name(activation) == name
    x = jnp.linspace(-3.0, 3.0, 7)
    whole = activation(x)
    assert whole.shape == x.shape
    np.testing.assert_allclose(whole, jnp.stack([activation(one) for one in x]), rtol=1e-5, atol=1e-6)


def test_other_functions_have_no_name():
    assert names.function_name(lambda z: z) is None
    assert names.function_name(uivi.families.he_init) is None


FORBIDDEN = {
    "importlib",
    "pickle",
    "eval",
    "exec",
    "__import__",
    "compile",
    "import_module",
    "marshal",
    "runpy",
}


def test_the_storage_neither_imports_by_name_nor_evaluates_text():
    for path in pathlib.Path(archive.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
        used |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not used & FORBIDDEN, path


def test_the_package_does_not_pickle():
    for path in pathlib.Path(uivi.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "allow_pickle=True" not in text, path
