"""Integrations load on first use, and name the extra of a missing library."""

import subprocess
import sys

import pytest

import uivi.integrations

LAZY = """
import sys, uivi
assert not {"numpyro", "pymc", "arviz", "flowjax", "jax_triton", "uivi.testing"} & set(sys.modules)
import uivi.testing
assert not {"pytest", "scipy.stats"} & set(sys.modules)
"""

MISSING = """
import sys
sys.modules.update(dict.fromkeys(["numpyro", "pymc", "arviz", "arviz_base", "flowjax", "jax_triton"]))
import jax, uivi
from uivi.gpu.launch import launch
from uivi.integrations import arviz

def message(use):
    try:
        use()
    except ImportError as error:
        return str(error)

for name in ("numpyro", "autoguide", "pymc", "flowjax"):
    print(message(lambda: getattr(uivi.integrations, name)))
arviz._is_before_one = lambda: False
print(message(lambda: arviz._convert({"unconstrained_posterior": {}}, {}, {}, {})))
print(message(lambda: uivi.fit(lambda: None, key=jax.random.key(0))))
print(message(lambda: launch(None)))
"""


def run(code: str) -> list[str]:
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


def test_importing_uivi_imports_no_optional_library_and_no_tests():
    run(LAZY)


def test_a_missing_library_names_its_extra():
    found = run(MISSING)
    extras = ["numpyro", "numpyro", "pymc", "flow", "arviz", "numpyro", "gpu"]
    assert len(found) == len(extras)
    for line, extra in zip(found, extras, strict=True):
        assert line.startswith("expected ")
        assert line.endswith(f": pip install 'uivi[{extra}]'")


def test_all_modules_load():
    for name in uivi.integrations.__all__:
        assert getattr(uivi.integrations, name).__name__ == f"uivi.integrations.{name}"
    with pytest.raises(AttributeError, match="no attribute 'recognise'"):
        uivi.integrations.recognise  # noqa: B018
