"""Rules by which a Markov kernel's step size follows its acceptance rate."""

import equinox as eqx
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Scalar


class AbstractStepSize(eqx.Module):
    """`within` acts after each burn-in transition, `between` after each update."""

    initial: eqx.AbstractVar[float]

    @property
    def adapts_within(self) -> bool:
        """Whether the rule changes the step within a chain: whether it has a `within` of its own."""
        return type(self).within is not AbstractStepSize.within

    def init(self) -> Scalar:
        """The first step size."""
        return jnp.asarray(self.initial, dtype=float)

    def within(self, step_size: Scalar, accepted: Scalar) -> Scalar:
        """The step size of the next transition, from the share of chains that accepted this one."""
        del accepted
        return step_size

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """The step size of the next update."""
        raise NotImplementedError


class FixedStep(AbstractStepSize):
    """A constant step size."""

    initial: float = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_float("initial", self.initial)

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Unchanged."""
        del acceptance
        return step_size


class AdaptBetween(AbstractStepSize):
    """Robbins-Monro on the log step between updates: every kernel used is exactly invariant."""

    initial: float = eqx.field(static=True, default=0.2)
    target: float = eqx.field(static=True, default=0.8)
    rate: float = eqx.field(static=True, default=0.05)
    lowest: float = eqx.field(static=True, default=1e-4)
    highest: float = eqx.field(static=True, default=2.0)

    def __check_init__(self):
        for name in ("initial", "target", "rate", "lowest", "highest"):
            _checks.positive_float(name, getattr(self, name))

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Log step += rate (acceptance - target), within bounds."""
        moved = step_size * jnp.exp(self.rate * (acceptance - self.target))
        return jnp.clip(moved, self.lowest, self.highest)


class AuthorsRule(AbstractStepSize):
    """The authors' `hmc.m`: step += 0.01 ((a - 0.9)/0.9) step after each burn-in transition.

    a is the share of chains that accepted. The chain in use changes its own kernel, so its draws are
    not exactly invariant: kept for the `paper` preset.
    """

    initial: float = eqx.field(static=True, default=0.2)
    target: float = eqx.field(static=True, default=0.9)
    rate: float = eqx.field(static=True, default=0.01)

    def __check_init__(self):
        for name in ("initial", "target", "rate"):
            _checks.positive_float(name, getattr(self, name))

    def within(self, step_size: Scalar, accepted: Scalar) -> Scalar:
        """The multiplicative rule."""
        return step_size * (1 + self.rate * (accepted - self.target) / self.target)

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Unchanged: the chain's last step size persists."""
        del acceptance
        return step_size
