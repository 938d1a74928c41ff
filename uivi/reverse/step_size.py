"""Rules by which a Markov kernel's step size follows its acceptance rate."""

import equinox as eqx
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Scalar
from uivi.gpu import Adaptation


class AbstractStepSize(eqx.Module):
    """`adaptation` acts after each burn-in transition, `between` after each update."""

    initial: eqx.AbstractVar[float]

    def init(self) -> Scalar:
        """The first step size."""
        return jnp.asarray(self.initial, dtype=float)

    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """The change after each burn-in transition; None, unless a rule says otherwise, for none."""
        del num_burnin

    def within(self, step_size: Scalar, accepted: Scalar) -> Scalar:
        """The step size of the next transition, from the share of chains that accepted this one."""
        adaptation = self.adaptation(1)
        return adaptation.after(step_size, accepted) if adaptation else step_size

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

    def adaptation(self, num_burnin: int) -> Adaptation | None:
        """The multiplicative rule."""
        return Adaptation(num_burnin, self.rate, self.target)

    def between(self, step_size: Scalar, acceptance: Scalar) -> Scalar:
        """Unchanged: the chain's last step size persists."""
        del acceptance
        return step_size
