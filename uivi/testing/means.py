"""A mean of independent samples against its exact value, and the broken version that must fail."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

FAILURE_RATE = 1e-5
"""Probability that a correct program fails one assertion, whatever the number of components.

Keys are fixed, so chance decides when the test is written, and again when a random stream changes."""
_ROUNDING = 1e-9


def z_threshold(num_comparisons: int, failure_rate: float = FAILURE_RATE) -> float:
    """Returns the two-sided normal quantile at the failure rate, shared among the comparisons (Bonferroni)."""
    return -NormalDist().inv_cdf(failure_rate / 2 / num_comparisons)


class _Comparison(NamedTuple):
    """Sample mean, exact value and standard error of each component, the threshold, and the declared bias."""

    mean: Any
    exact: Any
    stderr: Any
    z: float
    bias: float
    names: Sequence[str]

    @classmethod
    def create(cls, samples, exact, bias, failure_rate, names) -> "_Comparison":
        samples = np.asarray(samples, np.float64)
        if samples.ndim == 0 or len(samples) < 2:
            raise ValueError(f"expected two samples or more along the first axis, got shape {samples.shape}")
        shape = samples.shape[1:]
        exact = np.broadcast_to(np.asarray(exact, np.float64), shape)
        if names is not None and (len(names),) != shape:
            raise ValueError(f"expected a name for each component, so {shape} names, got {len(names)}")
        bad = int(np.sum(~np.isfinite(samples)))
        if bad:
            raise AssertionError(f"{bad} of {samples.size} numbers in the samples are NaN or infinite")
        stderr = samples.std(0, ddof=1) / np.sqrt(len(samples))
        z = z_threshold(max(exact.size, 1), failure_rate)
        return cls(samples.mean(0), exact, stderr, z, bias, names or ())

    @property
    def excess(self) -> Any:
        """How far each deviation lies beyond what is allowed."""
        allowed = self.z * self.stderr + self.bias + _ROUNDING * (1 + np.abs(self.exact))
        return np.abs(self.mean - self.exact) - allowed

    def errors(self, where) -> float:
        """The deviation of one component in standard errors."""
        return float(abs(self.mean - self.exact)[where] / max(self.stderr[where], 1e-300))

    def called(self, where) -> str:
        """What a component is called in messages."""
        place = f"component {list(map(int, where))}" if where else "the mean"
        return f"{place} ({self.names[where[0]]})" if self.names else place


def _worst(values: Any) -> tuple:
    """Returns the index of the largest value."""
    return np.unravel_index(int(np.argmax(values)), np.shape(values)) if np.ndim(values) else ()


def assert_mean(
    samples: Any,
    exact: Any,
    *,
    max_stderr: float,
    bias: float = 0.0,
    failure_rate: float = FAILURE_RATE,
    names: Sequence[str] | None = None,
) -> None:
    """Checks that independent samples have the exact mean: |mean - exact| < z SE + bias in every component.

    Prefer `assert_unbiased`, which also has a control.

    Args:
        samples: independent samples along the first axis.
        exact: the exact mean; it is broadcast to the shape of one sample.
        max_stderr: the largest standard error that makes the comparison meaningful.
        bias: the declared bias of a method that has one, in every component.
        failure_rate: probability that correct samples fail.
        names: what the components of a vector are called in messages, as from `component_names`.
    """
    found = _Comparison.create(samples, exact, bias, failure_rate, names)
    where = _worst(found.stderr)
    if (largest := float(found.stderr[where])) > max_stderr:
        needed = len(samples) * (largest / max_stderr) ** 2
        raise AssertionError(
            f"no power: the standard error of {found.called(where)} is {largest:.2g}, above max_stderr="
            f"{max_stderr}: take {needed:,.0f} samples instead of {len(samples):,}"
        )
    where = _worst(found.excess)
    if found.excess[where] > 0:
        raise AssertionError(
            f"the mean is off by {(found.mean - found.exact)[where]:.3g} = {found.errors(where):.1f} standard "
            f"errors in {found.called(where)}: {found.mean[where]:.5g}, exact {found.exact[where]:.5g}; "
            f"{found.z:.1f} standard errors and a bias of {bias} are allowed: find the fault there, or declare "
            "the bias if the method has one"
        )


def assert_not_mean(samples: Any, exact: Any, *, bias: float = 0.0, failure_rate: float = FAILURE_RATE) -> None:
    """Checks a control: samples of a broken version, of which `assert_mean` must fail in some component.

    Args:
        samples: independent samples of the broken version along the first axis.
        exact: the exact mean of the correct version.
        bias: the declared bias of the correct version.
        failure_rate: that of `assert_mean`.
    """
    found = _Comparison.create(samples, exact, bias, failure_rate, None)
    if np.max(found.excess) <= 0:
        where = _worst(found.excess)
        raise AssertionError(
            "the control passes, so this test cannot notice that fault: the broken version is at most "
            f"{found.errors(where):.1f} standard errors off, in {found.called(where)}; {found.z:.1f} and a "
            f"bias of {bias} are allowed: break more, or take more samples than {len(samples):,}"
        )


def assert_unbiased(
    samples: Any,
    exact: Any,
    *,
    control: Any,
    max_stderr: float,
    bias: float = 0.0,
    failure_rate: float = FAILURE_RATE,
    names: Sequence[str] | None = None,
) -> None:
    """Checks that samples have the exact mean, and that those of a broken version do not.

    A test that cannot fail shows nothing, so the control is a part of the assertion: samples from the same code
    with one fault, such as a flipped sign or noise from q(ε) in place of q(ε|z).

    Args:
        samples: independent samples along the first axis.
        exact: the exact mean; it is broadcast to the shape of one sample.
        control: samples of the broken version, which must fail.
        max_stderr: the largest standard error that makes the comparison meaningful.
        bias: the declared bias of a method that has one, in every component.
        failure_rate: probability that correct samples fail.
        names: what the components of a vector are called in messages, as from `component_names`.

    Examples:
        >>> import numpy as np
        >>> from uivi.testing import assert_unbiased
        >>> draws = np.random.default_rng(0).normal(2.0, 1.0, (1_000, 3))
        >>> assert_unbiased(draws, 2.0, control=-draws, max_stderr=0.05)
    """
    assert_mean(samples, exact, max_stderr=max_stderr, bias=bias, failure_rate=failure_rate, names=names)
    assert_not_mean(control, exact, bias=bias, failure_rate=failure_rate)
