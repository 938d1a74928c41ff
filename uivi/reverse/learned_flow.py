"""A conditional RealNVP as the learned proposal (Dinh, Sohl-Dickstein & Bengio 2017)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP, small_init
from uivi.reverse.proposals import AbstractLearned, AbstractNormalImage

LARGEST_LOG_SCALE = 3.0
"""Bound of the log scale of one coupling: an outlier must not make one zero or infinite."""


class CouplingsAt(AbstractNormalImage):
    """The image of N(0, spread² I) under affine couplings, whose networks know z already.

    Coupling 0, 2, ... moves the second half of the vector by a shift and a scale that depend on the first half.
    The others move the first half, given the second.
    """

    nets: tuple[MLP, ...]
    size: int = eqx.field(static=True)
    spread: float = eqx.field(static=True, default=1.0)

    @property
    def noise_dim(self) -> int:
        """Size of the noise, E."""
        return self.size

    @property
    def dtype(self) -> jnp.dtype:
        """The precision of its draws."""
        return self.nets[0].layers[0].weight.dtype

    def widened(self, factor: float) -> "CouplingsAt":
        """Returns the image of a wider Gaussian."""
        return CouplingsAt(self.nets, self.size, factor * self.spread)

    def from_normal(self, u: Float[Array, "K E"]) -> Float[Array, "K E"]:
        """Maps standard normal vectors to draws."""
        return jax.vmap(self._push)(self.spread * u)

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Returns the normalised log density."""
        given, moved = self._halves(eps, len(self.nets) - 1)
        volume = self.size * jnp.log(jnp.asarray(self.spread, eps.dtype))
        for net in reversed(self.nets):
            shift, log_scale = _shift_and_scale(net(given))
            given, moved = (moved - shift) * jnp.exp(-log_scale), given
            volume = volume + jnp.sum(log_scale)
        # Each step has swapped the two names, so after the last the half that is moved first is `given`.
        u = jnp.concatenate([moved, given]) / self.spread
        return -0.5 * jnp.sum(u**2) - 0.5 * self.size * jnp.log(2 * jnp.pi) - volume

    def _push(self, u: Float[Array, "E"]) -> Float[Array, "E"]:
        given, moved = self._halves(u, 0)
        for net in self.nets:
            shift, log_scale = _shift_and_scale(net(given))
            given, moved = moved * jnp.exp(log_scale) + shift, given
        return jnp.concatenate([given, moved] if len(self.nets) % 2 == 0 else [moved, given])

    def _halves(self, x: Float[Array, "E"], number: int) -> tuple[Array, Array]:
        """Returns the half that coupling `number` takes and the half that it moves."""
        first, second = jnp.split(x, [_first_half(self.size)])
        return (first, second) if number % 2 == 0 else (second, first)


class LearnedFlow(AbstractLearned):
    """An amortised flow r(ε|z) of affine couplings, as AISIVI proposes: it can have several modes.

    It is fitted like `Learned`, and costs more. By default it is not mixed with q(ε), so weights have no bound.
    ε needs two coordinates or more: of one, all couplings together would be a Gaussian.

    Attributes:
        num_layers: number of couplings, which move the two halves of ε in turn.
        width: units in each hidden layer of a coupling's network.
        depth: number of hidden layers.
        prior_share: probability that a proposal comes from q(ε); 0 for none.
        learning_rate: learning rate of Adam. It begins at three times this value and falls to it.
        inflation: factor by which the Gaussian that the flow moves is wider than N(0, I).
    """

    num_layers: int = eqx.field(static=True, default=6)
    width: int = eqx.field(static=True, default=32)
    depth: int = eqx.field(static=True, default=1)
    prior_share: float = eqx.field(static=True, default=0.0)
    learning_rate: float = eqx.field(static=True, default=1e-3)
    inflation: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        for name in ("num_layers", "width", "depth"):
            _checks.positive_int(name, getattr(self, name))
        _checks.positive_float("learning_rate", self.learning_rate)
        _checks.positive_float("inflation", self.inflation)
        if self.num_layers < 2:
            raise ValueError("expected `num_layers` of at least 2, got 1: one coupling moves only half of ε")
        if not 0 <= self.prior_share < 1:
            raise ValueError(f"expected `prior_share` from 0 to below 1, got {self.prior_share}")

    def fresh(self, key: Key, family: SemiImplicit) -> tuple[MLP, ...]:
        """Returns fresh networks, whose proposal is near N(0, I)."""
        size = family.noise_dim
        if size < 2:
            raise ValueError(
                f"expected ε of two coordinates or more for LearnedFlow, got {size}: use "
                "uivi.reverse.Learned(), or a family with a larger noise_dim"
            )
        first, inputs = _first_half(size), family.dim + family.context_dim
        nets = []
        for number, one in enumerate(jax.random.split(key, self.num_layers)):
            given, moved = (first, size - first) if number % 2 == 0 else (size - first, first)
            net = MLP.create(
                one,
                given,
                2 * moved,
                context_dim=inputs,
                width=self.width,
                depth=self.depth,
                init=small_init,
            )
            nets.append(net)
        return tuple(nets)

    def image(self, net: tuple[MLP, ...], inputs: Float[Array, "I"], noise_dim: int) -> CouplingsAt:
        """Returns the flow at one z."""
        return CouplingsAt(tuple(one.bind(inputs) for one in net), noise_dim)


def _first_half(size: int) -> int:
    return size // 2


def _shift_and_scale(outputs: Float[Array, "outputs"]) -> tuple[Array, Array]:
    shift, raw = jnp.split(outputs, 2)
    return shift, LARGEST_LOG_SCALE * jnp.tanh(raw / LARGEST_LOG_SCALE)
