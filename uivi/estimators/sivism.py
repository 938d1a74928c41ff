"""Semi-implicit variational inference by score matching: a minimax game with a network f."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._types import Estimate, Key, Scalar
from uivi.estimators.base import AbstractEstimator, Params, grad_of_trained, info_without_chain
from uivi.estimators.residuals import need_fixed_target, residuals
from uivi.estimators.uivi import need_semi_implicit
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP, he_init
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractTarget
from uivi.trainable import trained


class SIVISMState(NamedTuple):
    """The network f and its optimiser's state."""

    net: MLP
    opt_state: PyTree


class SIVISM(AbstractEstimator):
    """The gradient of the Fisher divergence E |s_p(z) - s_q(z)|², as a game (Yu & Zhang 2023, Section 3).

    The divergence is the largest value, over functions f of z, of

        E [2 f(z) · (∇_z log p(x, z) - ∇_z log q(z|ε)) - |f(z)|²],

    attained at f = s_p - s_q, and q(z|ε) is known. A network f takes `num_inner` steps of Adam up this
    objective with q held, on fresh draws. Then q takes the gradient down, with f held.

    It is not the ELBO's gradient, and the best q by this measure is another unless the family holds p. It is
    unbiased for the gradient of the divergence only if f is exact: its bias is as large as the error of f.

    Args:
        num_draws: number of draws of z per site, S, for each step of f and for the gradient.
        num_inner: number of steps of f in an update.
        width: units in each hidden layer of f.
        depth: number of hidden layers of f.
        learning_rate: learning rate of f's Adam, whose second moment forgets with 0.99 as in the authors' code.
    """

    num_draws: int = eqx.field(static=True, default=500)
    num_inner: int = eqx.field(static=True, default=1)
    width: int = eqx.field(static=True, default=128)
    depth: int = eqx.field(static=True, default=2)
    learning_rate: float = eqx.field(static=True, default=2e-3)

    def __check_init__(self):
        for name in ("num_draws", "num_inner", "width", "depth"):
            _checks.positive_int(name, getattr(self, name))
        _checks.positive_float("learning_rate", self.learning_rate)

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, b2=0.99)

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> SIVISMState:
        """Returns a fresh network, after checking family and target."""
        need_semi_implicit(self, family)
        need_fixed_target(self, target)
        size, contexts = family.dim, family.context_dim
        net = MLP.create(
            key, size, size, context_dim=contexts, width=self.width, depth=self.depth, init=he_init
        )
        with ordinary_promotion():  # Optax mixes its count of updates with floats
            return SIVISMState(net, self._optimizer.init(trained(net)))

    def fitted_proposal(self, state: SIVISMState) -> FittedProposal:
        """Returns q(ε): SIVI-SM learns no proposal."""
        del state
        return from_mixing()

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: SIVISMState) -> Estimate:
        """Improves f, then differentiates the objective in the family."""
        del step
        inner_key, outer_key = jax.random.split(key)

        def improve(state: SIVISMState, key: Key) -> tuple[SIVISMState, None]:
            loss = lambda net: (-self.objective(key, params, sites, net)[0], None)
            grads, _ = grad_of_trained(loss, state.net)
            with ordinary_promotion():
                updates, opt_state = self._optimizer.update(grads, state.opt_state)
            return SIVISMState(eqx.apply_updates(state.net, updates), opt_state), None

        # f goes first, so that the gradient belongs to an f of the present q.
        state, _ = jax.lax.scan(improve, state, jax.random.split(inner_key, self.num_inner))
        loss = lambda params: self.objective(outer_key, params, sites, state.net)
        grads, log_joint = grad_of_trained(loss, params)
        return Estimate(grads, state, info_without_chain(log_joint))

    def objective(self, key: Key, params: Params, sites: PyTree, net: MLP) -> tuple[Scalar, Float[Array, "N"]]:
        """Returns the objective of the game, averaged over sites and draws, and log p(x, z) of the draws."""
        family, target = params
        assert isinstance(family, SemiImplicit)

        def one(key: Key, site: PyTree):
            context = target.context(site)
            draws = residuals(key, family, target, site, context, self.num_draws)
            f = jax.vmap(net.bind(context))(draws.z)
            return jnp.mean(jnp.sum(f * (2 * draws.value - f), -1)), draws.log_joint

        keys = jax.random.split(key, target.num_sites)
        values, log_joint = jax.vmap(one, axis_size=target.num_sites)(keys, sites)
        return jnp.mean(values), log_joint.ravel()
