"""The bytes of a file, which depend on its contents only and do not change while `FORMAT` stays the same."""

import hashlib

import jax
import numpy as np

import uivi
from tests.storage import crafted
from uivi.storage import archive

CURRENT = crafted.FILES / f"format-{archive.FORMAT}.npz"
DIGEST = "038146f0e5503d66beb089d43530070c36fbee0b2f030f958f8703c98d3f52d7"
HEADER = (
    '{"arrays":[["float32",[3,1]],["float32",[3]],["float32",[2,3]],["float32",[2]],["float32",[2]],["flo'
    'at32",[1]],["float32",[]]],"check":null,"example":{"dict":[["a",{"array":5}],["b",{"tuple":[{"array"'
    ':6}]}]]},"family":{"fields":{"conditional":{"fields":{"net":{"fields":{"activation":{"function":"rel'
    'u"},"context_weight":null,"layers":{"tuple":[{"fields":{"bias":{"array":1},"weight":{"array":0}},"mo'
    'dule":"Linear"},{"fields":{"bias":{"array":3},"weight":{"array":2}},"module":"Linear"}]},"skip":null'
    '},"module":"MLP"},"scale":{"fields":{"log_value":{"array":4}},"module":"LogScale"}},"module":"Gaussi'
    'an"},"mixing":{"fields":{"dim":1},"module":"StandardNormal"}},"module":"SemiImplicit"},"format":2,"h'
    'istory":{"elbo_lower":[null,-1.5],"step":[10,20]},"is_model":false,"kind":"posterior","seconds":0.25'
    ',"status":"DONE"}'
)


def test_the_bytes_of_a_small_posterior(tmp_path):
    """Raise `archive.FORMAT` if this fails: add a file of the new format, and a refusal of the one before."""
    crafted.posterior().save(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    assert content == CURRENT.read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGEST
    with np.load(CURRENT) as file:
        assert file["header.json"].decode() == HEADER


def test_a_file_of_before_loads():
    again, posterior = uivi.load(CURRENT), crafted.posterior()
    for found, expected in zip(jax.tree.leaves(again.family), jax.tree.leaves(posterior.family), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    assert jax.tree.structure(again.family) == jax.tree.structure(posterior.family)
    assert (again.status, again.history, again.seconds) == (uivi.Status.DONE, posterior.history, 0.25)
    assert again.sample(jax.random.key(0), 3)["a"].shape == (3, 1)
