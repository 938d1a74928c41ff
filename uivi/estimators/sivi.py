"""Semi-implicit variational inference: the gradient of a lower bound."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Draw, Estimate, Key, Scalar
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites, grad_of_trained, info_without_chain
from uivi.estimators.uivi import need_semi_implicit
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractTarget


class SIVI(AbstractEstimator):
    """The gradient of the SIVI bound with L extra mixing draws (Yin & Zhou 2018; paper, eq. 11).

    It is biased for the ELBO's gradient: the bound lies below the ELBO and tightens with L.

    Args:
        num_draws: number of draws of z per site, S.
        num_mixing: L at the end of the fit.
        schedule: pairs (step, L) for a smaller L at first; each holds from its step on. It starts at step 0,
            ends at `num_mixing` and never decreases. All stages cost as much as the last, because unused draws
            are only masked.
    """

    num_draws: int = eqx.field(static=True, default=64)
    num_mixing: int = eqx.field(static=True, default=50)
    schedule: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)
        _checks.positive_int("num_mixing", self.num_mixing)
        steps = [step for step, _ in self.schedule]
        sizes = [size for _, size in self.schedule] + [self.num_mixing]
        grows = steps == sorted(steps) and sizes == sorted(sizes) and min(sizes) >= 1
        whole = not self.schedule or (steps[0] == 0 and sizes[-2] == self.num_mixing)
        if not (grows and whole):
            raise ValueError(
                "expected a `schedule` of (step, L) from step 0 on, with L >= 1 never decreasing and ending at "
                f"num_mixing={self.num_mixing}, got {self.schedule}"
            )

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> tuple:
        """Checks the family; there is no state."""
        del key, target
        need_semi_implicit(self, family)
        return ()

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns q(ε): SIVI learns no proposal."""
        del state
        return from_mixing()

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: tuple) -> Estimate:
        """Differentiates the bound."""
        draw_key, mixing_key = jax.random.split(key)
        batch = RepeatedSites.create(params[1], sites, self.num_draws)
        draw_keys = jax.random.split(draw_key, batch.size)
        mixing_keys = jax.random.split(mixing_key, batch.size)
        active = self._active(step)

        def loss(params: Params):
            family, target = params
            assert isinstance(family, SemiImplicit)
            draws = jax.vmap(family.sample)(draw_keys, batch.contexts)
            one = lambda k, d, c: _log_marginal(family, k, d, c, active)
            log_q = jax.vmap(one)(mixing_keys, draws, batch.contexts)
            log_joint = batch.log_joint(target, draws.z)
            return -jnp.mean(log_joint - log_q), log_joint

        grads, log_joint = grad_of_trained(loss, params)
        return Estimate(grads, state, info_without_chain(log_joint))

    def _active(self, step: Array) -> Float[Array, "L"]:
        """Returns 0 for the mixing draws in use at this step, minus infinity for the others."""
        size = jnp.asarray(self.num_mixing)
        for start, value in self.schedule:
            size = jnp.where(step >= start, value, size)
        # A mask, because JAX needs static shapes: a program for each L would compile several times.
        return jnp.where(jnp.arange(self.num_mixing) < size, 0.0, -jnp.inf)


def _log_marginal(
    family: SemiImplicit, key: Key, draw: Draw, context: Array | None, active: Float[Array, "L"]
) -> Scalar:
    """Returns the log of the mean of q(z|ε) over the generating ε and the active fresh ones."""
    fresh = jax.vmap(family.mixing.sample)(jax.random.split(key, active.shape[0]))
    log_prob = family.conditional.log_prob_of(draw.z, context)
    eps = jnp.concatenate([draw.eps[None], fresh])
    mask = jnp.concatenate([jnp.zeros((1,)), active]).astype(draw.z.dtype)
    count = jnp.sum(mask == 0).astype(draw.z.dtype)
    return jax.nn.logsumexp(jax.vmap(log_prob)(eps) + mask) - jnp.log(count)
