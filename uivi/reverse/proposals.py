"""Proposal distributions m(ε|z) for i-SIR and importance sampling.

A proposal only changes how well a kernel mixes, never what it is invariant for.
"""

import abc
import math
from statistics import NormalDist
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._random import normal
from uivi._types import Key, Scalar
from uivi.families.conditionals.modes import unmapped
from uivi.families.mixing import AbstractMixing
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP, he_init
from uivi.trainable import trained

FAST_UPDATES = 500.0
"""Number of updates in which the learning rate of a proposal falls from three times its value."""


class AbstractProposalAt(eqx.Module):
    """A proposal at one z: independent draws and their density."""

    @abc.abstractmethod
    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        """Returns `num` independent draws."""

    @abc.abstractmethod
    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Returns the normalised log density."""


class AbstractProposal(eqx.Module):
    """A proposal for the reverse conditional, learned or not."""

    @abc.abstractmethod
    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns the state that is carried between updates."""

    @abc.abstractmethod
    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: PyTree) -> AbstractProposalAt:
        """Returns the proposal for one z."""

    @abc.abstractmethod
    def inputs(self, family: SemiImplicit, z: Array, context: Array | None) -> PyTree:
        """Returns what the proposal learns from at one z."""

    @abc.abstractmethod
    def adapt(self, state: PyTree, eps: Float[Array, "N E"], inputs: PyTree) -> PyTree:
        """Returns the next state, given the ε of an update and the inputs at the z that they made."""

    def learn(self, key: Key, family: SemiImplicit, state: PyTree, num_pairs: int) -> PyTree:
        """Returns the next state after fresh pairs (ε, z) of a family that is held and takes no context."""
        pairs = jax.vmap(family.sample)(jax.random.split(key, num_pairs))
        inputs = jax.vmap(lambda z: self.inputs(family, z, None))(pairs.z)
        return self.adapt(state, pairs.eps, inputs)


class FittedProposal(eqx.Module):
    """A proposal with its state."""

    proposal: AbstractProposal
    state: PyTree

    def at(self, family: SemiImplicit, z: Array, context: Array | None) -> AbstractProposalAt:
        """Returns the proposal for one z."""
        return self.proposal.at(family, z, context, self.state)


class _MixingAt(AbstractProposalAt):
    mixing: AbstractMixing

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        return jax.vmap(self.mixing.from_normal)(normal(key, (num, self.mixing.dim)))

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        return self.mixing.log_prob(eps)


class FromMixing(AbstractProposal):
    """Proposes from q(ε), which works where ε is small or the conditional is wide."""

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """Returns an empty state."""
        del key, family
        return ()

    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: tuple) -> AbstractProposalAt:
        """Returns q(ε), whatever z."""
        del z, context, state
        return _MixingAt(family.mixing)

    def inputs(self, family: SemiImplicit, z: Array, context: Array | None) -> tuple:
        """Returns nothing, because there is nothing to learn."""
        del family, z, context
        return ()

    def adapt(self, state: tuple, eps: Float[Array, "N E"], inputs: tuple) -> tuple:
        """Returns the state unchanged."""
        del eps, inputs
        return state


def from_mixing() -> FittedProposal:
    """Returns q(ε) as a fitted proposal, for samplers and methods that learn none."""
    return FittedProposal(FromMixing(), ())


class AbstractNormalImage(eqx.Module):
    """A density on ε that is the image of N(0, I) under an invertible map."""

    @property
    @abc.abstractmethod
    def noise_dim(self) -> int:
        """Size of the noise, E."""

    @property
    @abc.abstractmethod
    def dtype(self) -> jnp.dtype:
        """The precision of its draws."""

    @abc.abstractmethod
    def from_normal(self, u: Float[Array, "K E"]) -> Float[Array, "K E"]:
        """Maps standard normal vectors to draws."""

    @abc.abstractmethod
    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Returns the normalised log density."""

    @abc.abstractmethod
    def widened(self, factor: float) -> "AbstractNormalImage":
        """Returns the image of N(0, factor² I) under the same map."""


class UnmixedAt(AbstractProposalAt):
    """An image of N(0, I) as a proposal."""

    image: AbstractNormalImage

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        """Returns `num` independent draws."""
        return self.image.from_normal(normal(key, (num, self.image.noise_dim), self.image.dtype))

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Returns the normalised log density."""
        return self.image.log_prob(eps)


class GaussianAt(AbstractNormalImage):
    """A Gaussian around `mean`, given by u = (I - B)(ε - mean)/scale with B strictly lower triangular.

    The density needs no solve, only the draws do.
    """

    mean: Float[Array, "E"]
    scale: Float[Array, "E"]
    whitener: Float[Array, "E E"]

    @classmethod
    def of(cls, outputs: Float[Array, "outputs"], noise_dim: int) -> "GaussianAt":
        """Reads mean, scales and correlations from the (2 + E) E outputs of a network."""
        mean, raw_scale, square = jnp.split(outputs, [noise_dim, 2 * noise_dim])
        # A mask is cheaper than a scatter into the triangle; outputs above the diagonal are not used.
        lower = jnp.tril(square.reshape(noise_dim, noise_dim), -1)
        whitener = jnp.eye(noise_dim, dtype=mean.dtype) + lower
        # Scales between e⁻⁵ and e⁵: an outlier must not make one zero or infinite.
        return cls(mean, jnp.exp(5.0 * jnp.tanh(raw_scale / 5.0)), whitener)

    @property
    def noise_dim(self) -> int:
        """Size of the noise, E."""
        return self.mean.shape[0]

    @property
    def dtype(self) -> jnp.dtype:
        """The precision of its draws."""
        return self.mean.dtype

    def widened(self, factor: float) -> "GaussianAt":
        """Returns the Gaussian with all scales times the factor."""
        return GaussianAt(self.mean, factor * self.scale, self.whitener)

    def from_normal(self, u: Float[Array, "K E"]) -> Float[Array, "K E"]:
        """Maps standard normal vectors to draws."""
        return self.mean[None] + (u * self.scale[None]) @ _unit_lower_inverse(self.whitener).T

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Returns the normalised log density."""
        u = (self.whitener @ (eps - self.mean)) / self.scale
        constant = 0.5 * eps.shape[0] * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.sum(u**2) - jnp.sum(jnp.log(self.scale)) - constant


def _unit_lower_inverse(matrix: Float[Array, "E E"]) -> Float[Array, "E E"]:
    """Inverts I - N, where N is strictly lower triangular, as the product (I + N)(I + N²)(I + N⁴)...

    It ends, because powers of N from the E-th on are zero. A solve by LAPACK takes longer at this size. Worse,
    JAX 0.10 deadlocks if two batched solves run at once on a CPU with two cores.
    """
    size = matrix.shape[0]
    identity = jnp.eye(size, dtype=matrix.dtype)
    power = identity - matrix
    inverse = identity + power
    for _ in range(1, math.ceil(math.log2(size)) if size > 1 else 0):
        power = power @ power
        inverse = inverse + inverse @ power
    return inverse


class _DefensiveAt(AbstractProposalAt):
    """The mixture share * q(ε) + (1 - share) * r(ε|z). Each draw picks its component at random."""

    mixing: AbstractMixing
    learned: AbstractNormalImage
    share: float = eqx.field(static=True)

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        # One normal vector serves whichever component its last number picks: random numbers are a large part of
        # an update's cost on a CPU.
        u = normal(key, (num, self.mixing.dim + 1), self.learned.dtype)
        u, from_mixing = u[:, :-1], u[:, -1:] < NormalDist().inv_cdf(self.share)
        plain = jax.vmap(self.mixing.from_normal)(u)
        return jnp.where(from_mixing, plain, self.learned.from_normal(u))

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        plain = self.mixing.log_prob(eps) + jnp.log(self.share)
        return jnp.logaddexp(plain, self.learned.log_prob(eps) + jnp.log1p(-self.share))


class LearnedState(NamedTuple):
    """The learned proposal: its networks, running moments of its inputs, its optimiser's state."""

    net: PyTree
    mean: Float[Array, "I"]
    variance: Float[Array, "I"]
    count: Scalar
    opt_state: PyTree


class AbstractLearned(AbstractProposal):
    """A proposal r(ε|z), alone or mixed with q(ε), fitted on the (ε, z) pairs that every update draws anyway.

    Maximum likelihood on them minimises the forward KL to the true reverse conditional, without bias. Inputs
    are standardised by running moments.
    """

    prior_share: eqx.AbstractVar[float]
    learning_rate: eqx.AbstractVar[float]
    inflation: eqx.AbstractVar[float]

    @abc.abstractmethod
    def fresh(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns networks whose r(ε|z) is near N(0, I)."""

    @abc.abstractmethod
    def image(self, net: PyTree, inputs: Float[Array, "I"], noise_dim: int) -> AbstractNormalImage:
        """Returns r(ε|z) at one z, given the networks and standardised inputs."""

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        # Three times the rate at first, because q itself changes most then.
        rate = lambda count: (
            self.learning_rate * (1.0 + 2.0 * jnp.exp(-jnp.asarray(count, float) / FAST_UPDATES))
        )
        # Flattened: Adam then runs a few kernels on a GPU instead of a few for each array.
        return optax.flatten(optax.adam(rate))

    def init(self, key: Key, family: SemiImplicit) -> LearnedState:
        """Returns fresh networks, whose proposal is near N(0, I)."""
        net = self.fresh(key, family)
        inputs = family.dim + family.context_dim
        opt_state = self._optimizer.init(trained(net))
        return LearnedState(net, jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(()), opt_state)

    def at(
        self, family: SemiImplicit, z: Array, context: Array | None, state: LearnedState
    ) -> AbstractProposalAt:
        """Returns r(ε|z) at one z, in a mixture with q(ε) if that has a share."""
        fitted = self._fitted(state, self.inputs(family, z, context), family.noise_dim)
        wider = fitted.widened(self.inflation)
        return _DefensiveAt(family.mixing, wider, self.prior_share) if self.prior_share else UnmixedAt(wider)

    def inputs(self, family: SemiImplicit, z: Array, context: Array | None) -> Float[Array, "I"]:
        """Returns z, as the innermost conditional sees it, and the context."""
        return inner_inputs(family, z, context)

    def adapt(self, state: LearnedState, eps: Float[Array, "N E"], inputs: Float[Array, "N I"]) -> LearnedState:
        """Takes one Adam step on the mean of -log r(ε|z), then updates the running moments."""

        def loss(net: PyTree) -> Scalar:
            fitted = state._replace(net=net)
            one = lambda x, e: self._fitted(fitted, x, e.shape[0]).log_prob(e)
            return -jnp.mean(jax.vmap(one)(inputs, eps))

        grads = jax.grad(loss)(state.net)
        with ordinary_promotion():  # Optax mixes its count of updates with floats
            updates, opt_state = self._optimizer.update(grads, state.opt_state)
        net = eqx.apply_updates(state.net, updates)
        # A plain average at first, then one that forgets: q moves during a fit, and its moments with it.
        rate = jnp.maximum(1.0 / (state.count + 2.0), 0.01)
        mean = state.mean + rate * (jnp.mean(inputs, 0) - state.mean)
        spread = jnp.mean((inputs - mean[None]) ** 2, 0)
        variance = state.variance + rate * (spread - state.variance)
        return LearnedState(net, mean, variance, state.count + 1.0, opt_state)

    def _fitted(self, state: LearnedState, inputs: Float[Array, "I"], noise_dim: int) -> AbstractNormalImage:
        standard = (inputs - state.mean) / jnp.sqrt(state.variance + 1e-12)
        # A z far out in the tails must not drive the networks to where they were never trained.
        return self.image(state.net, jnp.clip(standard, -10.0, 10.0), noise_dim)


class Learned(AbstractLearned):
    """An amortised Gaussian r(ε|z) with a full covariance, mixed with q(ε) so that weights stay bounded.

    It is fitted by maximum likelihood on the (ε, z) pairs that every update draws anyway. This minimises the
    forward KL to the true reverse conditional, without bias. Inputs are standardised by running moments.

    Attributes:
        width: units in each hidden layer of the network.
        depth: number of hidden layers.
        prior_share: probability that a proposal comes from q(ε).
        learning_rate: learning rate of Adam. It begins at three times this value and falls to it.
        inflation: factor by which proposals are wider than r in every direction. Weights are enormous where r
            is too narrow; a proposal that is a little too wide costs next to nothing.
    """

    width: int = eqx.field(static=True, default=128)
    depth: int = eqx.field(static=True, default=2)
    prior_share: float = eqx.field(static=True, default=0.5)
    learning_rate: float = eqx.field(static=True, default=1e-3)
    inflation: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        _checks.positive_int("width", self.width)
        _checks.positive_int("depth", self.depth)
        _checks.positive_float("learning_rate", self.learning_rate)
        _checks.positive_float("inflation", self.inflation)
        if not 0 < self.prior_share < 1:
            raise ValueError(f"expected `prior_share` between 0 and 1, got {self.prior_share}")

    def fresh(self, key: Key, family: SemiImplicit) -> MLP:
        """Returns a fresh network, whose proposal is near N(0, I)."""
        return gaussian_net(key, family, self.width, self.depth)

    def image(self, net: MLP, inputs: Float[Array, "I"], noise_dim: int) -> GaussianAt:
        """Returns the Gaussian at one z."""
        return GaussianAt.of(net(inputs), noise_dim)


def gaussian_net(key: Key, family: SemiImplicit, width: int, depth: int) -> MLP:
    """Returns a network of z and the context whose outputs `GaussianAt.of` reads, near N(0, I) at first."""
    inputs = family.dim + family.context_dim
    outputs = (2 + family.noise_dim) * family.noise_dim
    # A linear path from z to the mean: much of the dependence of ε on z is linear.
    skip = jnp.zeros((family.noise_dim, inputs))
    net = MLP.create(key, inputs, outputs, width=width, depth=depth, init=he_init, skip=skip)
    # Small outputs: mean 0, scale 1 and no correlation are a proposal that is wide enough to learn from.
    return eqx.tree_at(lambda n: n.layers[-1].weight, net, 0.1 * net.layers[-1].weight)


def inner_inputs(family: SemiImplicit, z: Array, context: Array | None) -> Float[Array, "I"]:
    """Returns z, as the innermost conditional sees it, and the context.

    Behind all maps, the coordinates of z are of order one and hardly correlated.
    """
    inner = unmapped(family.conditional, z)
    return inner if context is None else jnp.concatenate([inner, context])
