"""Files made to run code, to fill the memory or to pass as something else: refused before anything is built."""

import json
import os
import sys
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.storage import crafted
from uivi.storage import archive, decoding

PARTIAL = {
    "func": {"function": "builtins:max"},
    "args": {"tuple": []},
    "keywords": {"dict": [["key", {"function": "os:system"}]]},
}
TRUSTED_PARTIAL = {
    "func": {"trusted_function": "max"},
    "args": {"tuple": []},
    "keywords": {"dict": [["key", {"trusted_function": "system"}]]},
}


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """A module that must not be imported, a command that must not be run, and no module that may be built."""
    (tmp_path / "evilmod.py").write_text("raise AssertionError('imported')\ndef f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    def never(*args, **kwargs):
        raise AssertionError("called")

    crafted.contents()  # once, before the trap is set
    monkeypatch.setattr(os, "system", never)
    monkeypatch.setattr(decoding._Builder, "build", never)
    before = set(sys.modules)
    yield
    assert set(sys.modules) == before


NAMES = {
    "a function of a module, imported at load": ("example", {"function": "evilmod:f"}, "'evilmod:f'"),
    "a shell command as the key of a maximum": (
        crafted.ACTIVATION, {"module": "equinox:Partial", "fields": PARTIAL}, "'equinox:Partial'",
    ),
    "the same with the user's names": (
        crafted.ACTIVATION, {"trusted_module": "Partial", "fields": TRUSTED_PARTIAL}, "Partial, max, system",
    ),
    "a shell command as the activation": (crafted.ACTIVATION, {"function": "os:system"}, "'os:system'"),
    "a builtin": (crafted.ACTIVATION, {"function": "eval"}, "'eval'"),
    "a dotted builtin": (crafted.ACTIVATION, {"function": "builtins.exec"}, "'builtins.exec'"),
    "a path to an activation": (crafted.ACTIVATION, {"function": "jax.nn:relu"}, "'jax.nn:relu'"),
    "an attribute of an activation": (crafted.ACTIVATION, {"function": "relu.__globals__"}, "__globals__"),
    "an attribute of the table": (crafted.ACTIVATION, {"function": "__getitem__"}, "'__getitem__'"),
    "a class in place of a function": (crafted.ACTIVATION, {"function": "Gaussian"}, "'Gaussian'"),
    "an initialiser in place of an activation": (crafted.ACTIVATION, {"function": "he_init"}, "'he_init'"),
    "a function in place of a class": (crafted.NET + ".module", "relu", "'relu'"),
    "a module path of one of our classes": (crafted.NET + ".module", "uivi.networks:MLP", "'uivi.networks:"),
    "a class outside the table": (crafted.NET + ".module", "UIVI", "'UIVI'"),
    "an abstract class": (crafted.NET + ".module", "AbstractFamily", "'AbstractFamily'"),
    "any class": (crafted.NET + ".module", "subprocess:Popen", "'subprocess:Popen'"),
    "no name": (crafted.NET + ".module", None, "got None"),
    "a list of names": (crafted.ACTIVATION, {"function": ["relu"]}, r"\['relu'\]"),
    "a named tuple that makes a directory": ("example", {"namedtuple": "os:mkdir", "items": ["x"]}, "os:mkdir"),
    "the user's named tuple": ("example", {"trusted_namedtuple": "Popen", "items": ["true"]}, "Popen"),
    "the user's name with a path": (crafted.ACTIVATION, {"trusted_function": "os.system"}, "'os.system'"),
    "the user's name that is none": (crafted.ACTIVATION, {"trusted_function": "\x1b[2J"}, r"\\x1b"),
    "the user's name in a list": (crafted.ACTIVATION, {"trusted_function": ["f"]}, r"\['f'\]"),
    "an opaque function": (crafted.ACTIVATION, {"opaque": "f#00"}, "opaque"),
    "a pickle": ("example", {"pickle": "gASVBQAAAAAAAABLBS4="}, "pickle"),
    "two kinds at once": (crafted.ACTIVATION, {"function": "relu", "module": "MLP"}, "function"),
    "a class to set": (crafted.NET + ".__class__", "os:system", "__class__"),
    "fields that are a list": (crafted.NET + ".fields", [], "dictionary of the fields"),
    "items that are a dictionary": ("example", {"tuple": {}}, "expected a list"),
    "entries that are no pairs": ("example", {"dict": [["a", 1, 2]]}, "keys and values"),
    "keys that are lists": ("example", {"dict": [[["a"], 1]]}, "different strings or numbers"),
    "keys that come twice": ("example", {"dict": [["a", 1], ["a", 2]]}, "different strings or numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_nothing_that_is_not_in_the_table(name, tmp_path, traps):
    place, value, message = NAMES[name]
    path = crafted.changed(tmp_path / "file", place, value)
    with pytest.raises(uivi.storage.ArchiveError, match=message):
        uivi.load(path)


def evil(*args):
    raise AssertionError("called")


def test_trust_in_one_name_is_no_trust_in_others(tmp_path, traps):
    path = crafted.changed(tmp_path / "file", crafted.ACTIVATION, {"trusted_function": "system"})
    with pytest.raises(uivi.storage.ArchiveError, match=r"got system: .* uivi.load\(path, trust=\[system\]\)"):
        uivi.load(path, trust=[evil])


class Pair(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    ("place", "value", "trust", "message"),
    [
        (crafted.ACTIVATION, {"trusted_function": "Pair"}, Pair, "Pair in `trust` to be a function"),
        ("example", {"trusted_namedtuple": "evil", "items": []}, evil, "evil in `trust` to be a named tuple"),
        ("example", {"trusted_namedtuple": "Pair", "items": [1]}, Pair, "Pair in `trust` to be a named tuple"),
        ("family.*.mixing", {"trusted_module": "evil", "fields": {}}, evil, "evil in `trust` to be an Equinox"),
        ("family.*.mixing", {"trusted_module": "Pair", "fields": {}}, Pair, "Pair in `trust` to be an Equinox"),
    ],
)  # fmt: skip
def test_what_is_trusted_is_used_as_what_it_is(place, value, trust, message, tmp_path):
    path = crafted.changed(tmp_path / "file", place, value)
    with pytest.raises(uivi.storage.ArchiveError, match=message):
        uivi.load(path, trust=[trust])


LOG_SCALE = {"module": "LogScale", "fields": {"log_value": {"array": 0}}}
VALUES = {
    "a field too many": (crafted.NET + ".*.sample", {"function": "relu"}, "'sample' unknown"),
    "a method as a field": ("family.*.sample", {"function": "relu"}, "'sample' unknown"),
    "a field too few": ("family.fields", {"mixing": 1}, "conditional missing"),
    "a number as the activation": (crafted.ACTIVATION, 3, "net.activation to be .*Callable.*, got int 3"),
    "text as the activation": (crafted.ACTIVATION, "relu", "net.activation to be .*Callable"),
    "layers in a list": (crafted.NET + ".*.layers", {"list": []}, r"net.layers to be tuple\["),
    "no layers": (crafted.NET + ".*.layers", {"tuple": []}, r"net \(MLP\): expected layers"),
    "an array as the network": (crafted.NET, {"array": 0}, r"conditional.net to be MLP, got float32\[3, 1\]"),
    "a scale as the network": (crafted.NET, LOG_SCALE, r"log_value to be Float\[D\], got float32\[3, 1\]"),
    "noise as the family": ("family", {"module": "StandardNormal", "fields": {"dim": 1}}, "expected"),
    "no family": ("family", {"list": []}, "expected"),
    "noise of a size that is text": ("family.*.mixing.*.dim", "1", "mixing.dim to be int, got str '1'"),
    "noise of a size that is true": ("family.*.mixing.*.dim", True, "mixing.dim to be int, got bool True"),
    "noise of no size": ("family.*.mixing.*.dim", 0, "positive"),
    "noise of a huge size": ("family.*.mixing.*.dim", 10**12, "expected `dim` to be at most"),
    "noise of an endless size": ("family.*.mixing.*.dim", float("inf"), "mixing.dim to be finite"),
    "an array twice": (crafted.NET + ".*.skip", {"array": 0}, "an array of its own"),
    "an array that is not there": (crafted.NET + ".*.skip", {"array": 99}, "an array of its own"),
    "an array before the first": (crafted.NET + ".*.skip", {"array": -1}, "an array of its own"),
    "an array of number true": (crafted.NET + ".*.skip", {"array": True}, "an array of its own"),
    "an array by name": (crafted.NET + ".*.skip", {"array": "float32[1000, 1000]"}, "an array of its own"),
    "an array that nobody uses": ("example", {"tuple": []}, "some belong to nothing"),
    "an unknown status": ("status", "__class__", "a status of RUNNING"),
    "a status that is a list": ("status", ["DONE"], "'status' in its header to be str"),
    "time that is text": ("seconds", "1", "'seconds' in its header to be float"),
    "time that is endless": ("seconds", float("inf"), "`seconds` to be finite"),
    "time that is negative": ("seconds", -1.0, "not negative"),
    "phase of text": ("phases", {"checking": "1"}, "'phases' in its header to be dict"),
    "phase that is endless": ("phases", {"checking": float("inf")}, "`seconds` to be finite"),
    "phase that is a command": ("phases", {"\x1b[2J": 1.0}, "expected printable texts"),
    "a history of text": ("history", {"step": ["1"]}, "'history' in its header to be dict"),
    "a history of unequal columns": ("history", {"a": [1], "b": []}, "columns of equal length"),
    "a history that is a list": ("history", [], "'history' in its header"),
    "a model or not": ("is_model", 1, "'is_model' in its header to be bool"),
    "a check that is a list": ("check", [], "'check' in its header"),
    "a check without contents": ("check", {}, "is refused"),
    "commands for the terminal": ("history", {"\x1b[2J": []}, "expected printable texts"),
    "an unknown key": ("extra", 1, "'extra' unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_have_the_types_and_sizes_of_their_fields(name, tmp_path):
    place, value, message = VALUES[name]
    path = crafted.changed(tmp_path / "file", place, value)
    with pytest.raises(uivi.storage.ArchiveError, match=message):
        uivi.load(path)


@pytest.mark.parametrize(
    ("number", "array", "message"),
    [
        (0, np.full((3, 1), np.nan, np.float32), r"layers\[0\].weight to be finite, got NaN"),
        (4, np.array([-np.inf, 0.5], np.float32), "scale.log_value to be finite"),
        (5, np.full(1, np.nan, np.float32), r"example\['a'\] to be finite"),
        (0, np.ones((3, 1), np.int32), r"weight to be Float\[out in\], got int32\[3, 1\]"),
        (0, np.ones((3, 1), bool), "weight to be Float"),
        (0, np.ones((3, 1), np.float64), "expected JAX in double precision, since .*weight"),
        (0, np.ones((3,), np.float32), r"got float32\[3\]"),
        (
            1,
            np.ones((2,), np.float32),
            r"layers\[0\].bias to be Float\[out\] with out=3, in=1, got float32\[2\]",
        ),
        (0, np.ones((3, 2), np.float32), "expected `eps` of shape"),
        (2, np.ones((2, 4), np.float32), "family"),
        (4, np.ones((3,), np.float32), r"`scale` of shape \(2,\)"),
        (0, np.ones((3, 0), np.float32), "an empty array"),
        (5, np.zeros((2,), np.float32), "expected an example of 2 numbers"),
        (5, np.zeros((1,), np.int32), "an example of float arrays"),
    ],
)
def test_arrays_have_the_dtypes_and_shapes_of_their_fields_and_are_finite(number, array, message, tmp_path):
    header, arrays = crafted.contents()
    arrays[number] = array
    archive.write(tmp_path / "file", "posterior", header, arrays)
    with pytest.raises(uivi.storage.ArchiveError, match=message):
        uivi.load(tmp_path / "file")


def test_an_empty_array_cannot_claim_a_large_size(tmp_path):
    """A network without hidden units needs no numbers for 10^9 noise variables, but a draw of these."""
    header, arrays = crafted.contents()
    header["family"]["fields"]["mixing"]["fields"]["dim"] = 10**9
    arrays[0], arrays[1], arrays[2] = (np.ones(s, np.float32) for s in ((0, 10**9), (0,), (2, 0)))
    archive.write(tmp_path / "file", "posterior", header, arrays)
    with pytest.raises(uivi.storage.ArchiveError, match="an empty array"):
        uivi.load(tmp_path / "file")


def test_a_fit_that_broke_down_may_have_infinite_parameters(tmp_path):
    broken = eqx.tree_at(lambda f: f.conditional.scale.log_value, crafted.family(), jnp.array([jnp.nan, 0.5]))
    with pytest.raises(ValueError, match="scale.log_value to be finite"):
        crafted.posterior(family=broken).save(tmp_path / "done")
    assert not list(tmp_path.iterdir())
    crafted.posterior(family=broken, status=uivi.Status.NONFINITE).save(tmp_path / "broken")
    again = uivi.load(tmp_path / "broken")
    assert again.status is uivi.Status.NONFINITE
    assert np.isnan(again.family.conditional.scale.log_value[0])


CHECK = uivi.evaluation.Check


@pytest.fixture(scope="module")
def judged():
    """The JSON of a check."""
    value = uivi.evaluation.BoundValue("ELBO", "lower", -1.0, 0.1, 10)
    weights = uivi.evaluation.Weights(0.1, 0.05, 0.8, float("inf"), 1.0, 2048)
    return CHECK(uivi.Status.DONE, 2, value, value._replace(side="upper"), None, weights, 0.0, 0.0).to_json()


def test_a_check_comes_back(judged, tmp_path):
    posterior = uivi.load(crafted.changed(tmp_path / "file", "check", judged))
    assert posterior.check().to_json() == judged


@pytest.mark.parametrize(
    "change",
    [
        {"status": "__class__"},
        {"verdict": 7},
        {"advice": [1]},
        {"advice": ["\x1b]0;title\x07"]},
        {"dim": "2"},
        {"weights": None},
        {"weights": {"pareto_k": 0.1}},
        {"coverage": [4, 2, 1.0, 0.0]},
        {"nonfinite": None},
        {"unknown": 1},
        {"lower": {"name": "ELBO", "side": "lower", "mean": "x", "stderr": 0.1, "num_draws": 10}},
        {"lower": {"name": "ELBO", "side": "left", "mean": 1.0, "stderr": 0.1, "num_draws": 10}},
        {"lower": None},
    ],
)
def test_a_crafted_check_is_refused(judged, change, tmp_path):
    path = crafted.changed(tmp_path / "file", "check", json.loads(json.dumps(judged)) | change)
    with pytest.raises(uivi.storage.ArchiveError, match="is refused"):
        uivi.load(path)


def test_loading_runs_no_code_of_a_trusted_class_before_its_fields_are_compared(tmp_path):
    class Mine(eqx.Module):
        size: jax.Array

        def __check_init__(self):
            raise AssertionError("called")

    value = {"trusted_module": "Mine", "fields": {"__class__": 1}}
    path = crafted.changed(tmp_path / "file", "family.*.mixing", value)
    with pytest.raises(uivi.storage.ArchiveError, match="size missing and '__class__' unknown"):
        uivi.load(path, trust=[Mine])
