"""Rules by which a Markov kernel's step size follows its acceptance rate."""

import abc

import equinox as eqx
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Scalar
from uivi.gpu import Adaptation


class AbstractStepSize(eqx.Module):
    """A rule with two parts: `adaptation` acts after each burn-in transition, `between` after each update."""

    initial: eqx.AbstractVar[float]

    def init(self) -> Scalar:
        """Returns the first step size."""
        return jnp.asarray(self.initial, dtype=float)

    @abc.abstractmethod
    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """Returns the change after each of `num_burnin` transitions, or None for a constant step size."""

    def within(self, step_size: Scalar, accepted: Scalar) -> Scalar:
        """Returns the step size of the next transition, given the share of chains that accepted this one."""
        adaptation = self.adaptation(1)
        return adaptation.after(step_size, accepted) if adaptation else step_size

    @abc.abstractmethod
    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Returns the step size of the next update."""


class FixedStep(AbstractStepSize):
    """A constant step size."""

    initial: float = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_float("initial", self.initial)

    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """Returns None: the step size is constant."""
        del num_burnin

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Returns the step size unchanged."""
        del acceptance
        return step_size


class AdaptBetween(AbstractStepSize):
    """Robbins-Monro on the log step size, between updates only: every kernel in use is exactly invariant."""

    initial: float = eqx.field(static=True, default=0.2)
    target: float = eqx.field(static=True, default=0.8)
    rate: float = eqx.field(static=True, default=0.05)
    lowest: float = eqx.field(static=True, default=1e-4)
    highest: float = eqx.field(static=True, default=2.0)

    def __check_init__(self):
        for name in ("initial", "target", "rate", "lowest", "highest"):
            _checks.positive_float(name, getattr(self, name))

    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """Returns None: the step size is constant within an update."""
        del num_burnin

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Adds rate (acceptance - target) to the log step size, within bounds."""
        moved = step_size * jnp.exp(self.rate * (acceptance - self.target))
        return jnp.clip(moved, self.lowest, self.highest)


class AuthorsRule(AbstractStepSize):
    """The rule of the authors' `hmc.m`: step += 0.01 ((a - 0.9)/0.9) step after each burn-in transition.

    Here a is the share of chains that accepted. A chain that adapts its own kernel does not leave q(ε|z)
    exactly invariant, so this rule is for the `paper` preset.
    """

    initial: float = eqx.field(static=True, default=0.2)
    target: float = eqx.field(static=True, default=0.9)
    rate: float = eqx.field(static=True, default=0.01)

    def __check_init__(self):
        for name in ("initial", "target", "rate"):
            _checks.positive_float(name, getattr(self, name))

    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """Returns the multiplicative rule."""
        return Adaptation(num_burnin, self.rate, self.target)

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Returns the last step size of the chain unchanged."""
        del acceptance
        return step_size
