"""Proposal distributions m(ε|z) for i-SIR and importance sampling.

A proposal only changes how well a kernel mixes, never what it is invariant for.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Draw, Key, Scalar
from uivi.families.mixing import AbstractMixing
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP, he_init
from uivi.trainable import trained


class AbstractProposalAt(eqx.Module):
    """A proposal at one z: independent draws and their density."""

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        """`num` independent draws."""
        raise NotImplementedError

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        """Normalised log density."""
        raise NotImplementedError


class AbstractProposal(eqx.Module):
    """A (possibly learned) proposal for the reverse conditional."""

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """The state carried between updates."""
        raise NotImplementedError

    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: PyTree) -> AbstractProposalAt:
        """The proposal for one z."""
        raise NotImplementedError

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None) -> PyTree:
        """The next state, from the (ε, z) pairs of an update."""
        raise NotImplementedError


class FittedProposal(eqx.Module):
    """A proposal with its state."""

    proposal: AbstractProposal
    state: PyTree

    def at(self, family: SemiImplicit, z: Array, context: Array | None) -> AbstractProposalAt:
        """The proposal for one z."""
        return self.proposal.at(family, z, context, self.state)


class _MixingAt(AbstractProposalAt):
    mixing: AbstractMixing

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        return jax.vmap(self.mixing.from_normal)(jax.random.normal(key, (num, self.mixing.dim)))

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        return self.mixing.log_prob(eps)


class FromMixing(AbstractProposal):
    """Propose from q(ε): good where dim(ε) is small or the conditional is wide."""

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """No state."""
        del key, family
        return ()

    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: tuple) -> AbstractProposalAt:
        """q(ε), whatever z."""
        del z, context, state
        return _MixingAt(family.mixing)

    def adapt(self, state: tuple, draws: Draw, contexts: Array | None) -> tuple:
        """Nothing to learn."""
        del draws, contexts
        return state


class _GaussianAt(eqx.Module):
    """N(mean, ·) given by u = (I - B)(ε - mean)/scale with B strictly lower triangular."""

    mean: Float[Array, "E"]
    scale: Float[Array, "E"]
    whitener: Float[Array, "E E"]

    def from_normal(self, u: Float[Array, "K E"]) -> Float[Array, "K E"]:
        identity = jnp.eye(self.mean.shape[0], dtype=self.mean.dtype)
        inverse = solve_triangular(self.whitener, identity, lower=True, unit_diagonal=True)
        return self.mean[None] + (u * self.scale[None]) @ inverse.T

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        u = (self.whitener @ (eps - self.mean)) / self.scale
        constant = 0.5 * eps.shape[0] * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.sum(u**2) - jnp.sum(jnp.log(self.scale)) - constant


class _DefensiveAt(AbstractProposalAt):
    """share * q(ε) + (1 - share) * r(ε|z); each draw picks its component at random."""

    mixing: AbstractMixing
    learned: _GaussianAt
    share: float = eqx.field(static=True)

    def sample(self, key: Key, num: int) -> Float[Array, "K E"]:
        # One normal vector serves whichever component its last number picks.
        u = jax.random.normal(key, (num, self.mixing.dim + 1), self.learned.mean.dtype)
        u, from_mixing = u[:, :-1], jax.scipy.special.ndtr(u[:, -1:]) < self.share
        plain = jax.vmap(self.mixing.from_normal)(u)
        return jnp.where(from_mixing, plain, self.learned.from_normal(u))

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        plain = self.mixing.log_prob(eps) + jnp.log(self.share)
        return jnp.logaddexp(plain, self.learned.log_prob(eps) + jnp.log1p(-self.share))


class LearnedState(NamedTuple):
    """The learned proposal: its network, running moments of its inputs, its optimiser's state."""

    net: MLP
    mean: Float[Array, "I"]
    variance: Float[Array, "I"]
    count: Scalar
    opt_state: PyTree


class Learned(AbstractProposal):
    """An amortised Gaussian r(ε|z), mixed with q(ε) so that weights stay bounded.

    Fitted by maximum likelihood on the (ε, z) pairs that every update draws anyway: the forward KL
    to the true reverse conditional, without bias. The covariance is full. Inputs are standardised by
    running moments.

    Attributes:
        width: of the network.
        depth: its hidden layers.
        prior_share: probability that a proposal comes from q(ε).
        learning_rate: of Adam.
        inflation: proposals are this much wider than r in every direction. Where r is too narrow, weights are
            enormous; a proposal that is a little too wide costs next to nothing.
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

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.flatten(optax.adam(self.learning_rate))

    def init(self, key: Key, family: SemiImplicit) -> LearnedState:
        """A fresh network with the proposal near N(0, I)."""
        inputs = family.dim + family.context_dim
        outputs = (2 + family.noise_dim) * family.noise_dim
        net = MLP.create(key, inputs, outputs, width=self.width, depth=self.depth, init=he_init)
        last = net.layers[-1]
        net = eqx.tree_at(lambda n: n.layers[-1].weight, net, 0.1 * last.weight)
        opt_state = self._optimizer.init(trained(net))
        return LearnedState(net, jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(()), opt_state)

    def at(
        self, family: SemiImplicit, z: Array, context: Array | None, state: LearnedState
    ) -> AbstractProposalAt:
        """The defensive mixture at one z."""
        fitted = _gaussian_at(state, _inputs(z, context), family.noise_dim)
        wider = eqx.tree_at(lambda g: g.scale, fitted, self.inflation * fitted.scale)
        return _DefensiveAt(family.mixing, wider, self.prior_share)

    def adapt(self, state: LearnedState, draws: Draw, contexts: Array | None) -> LearnedState:
        """One Adam step on the mean of -log r(ε|z); then the running moments."""
        inputs = jax.vmap(_inputs)(draws.z, contexts)

        def loss(net: MLP) -> Scalar:
            fitted = state._replace(net=net)
            one = lambda x, e: _gaussian_at(fitted, x, e.shape[0]).log_prob(e)  # noqa: E731
            return -jnp.mean(jax.vmap(one)(inputs, draws.eps))

        grads = jax.grad(loss)(state.net)
        updates, opt_state = self._optimizer.update(grads, state.opt_state)
        net = eqx.apply_updates(state.net, updates)
        rate = jnp.maximum(1.0 / (state.count + 2.0), 0.01)
        mean = state.mean + rate * (jnp.mean(inputs, 0) - state.mean)
        spread = jnp.mean((inputs - mean[None]) ** 2, 0)
        variance = state.variance + rate * (spread - state.variance)
        return LearnedState(net, mean, variance, state.count + 1.0, opt_state)


def _inputs(z: Array, context: Array | None) -> Array:
    return z if context is None else jnp.concatenate([z, context])


def _gaussian_at(state: LearnedState, inputs: Array, noise_dim: int) -> _GaussianAt:
    standard = (inputs - state.mean) / jnp.sqrt(state.variance + 1e-12)
    outputs = state.net(jnp.clip(standard, -10.0, 10.0))
    mean, raw_scale, square = jnp.split(outputs, [noise_dim, 2 * noise_dim])
    # A mask is cheaper than a scatter into the triangle; outputs above the diagonal are not used.
    lower = jnp.tril(square.reshape(noise_dim, noise_dim), -1)
    whitener = jnp.eye(noise_dim, dtype=mean.dtype) + lower
    return _GaussianAt(mean, jnp.exp(5.0 * jnp.tanh(raw_scale / 5.0)), whitener)
