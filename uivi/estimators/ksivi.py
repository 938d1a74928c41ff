"""Kernel semi-implicit variational inference: the gradient of a kernel Stein discrepancy."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Estimate, Key, Scalar
from uivi.estimators.base import AbstractEstimator, Params, grad_of_trained, info_without_chain
from uivi.estimators.kernels import AbstractKernel, GaussianKernel
from uivi.estimators.residuals import Residuals, need_fixed_target, residuals
from uivi.estimators.uivi import need_semi_implicit
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractTarget


class AbstractPairs(eqx.Module):
    """Which pairs of draws estimate the discrepancy."""

    @abc.abstractmethod
    def mean(
        self, key: Key, draw: Callable[[Key], Residuals], kernel: AbstractKernel
    ) -> tuple[Scalar, Residuals]:
        """Returns the mean of k(z, z′) f · f′ over the pairs, and a batch of draws."""


class TwoBatches(AbstractPairs):
    """Every draw of one batch with every draw of another: the paper's vanilla estimator."""

    def mean(
        self, key: Key, draw: Callable[[Key], Residuals], kernel: AbstractKernel
    ) -> tuple[Scalar, Residuals]:
        """Averages over all pairs, at the cost of two batches."""
        here, there = (draw(k) for k in jax.random.split(key))
        return jnp.mean(kernel(here.z, there.z) * (here.value @ there.value.T)), here


class WithinBatch(AbstractPairs):
    """All pairs of different draws of one batch: the paper's U-statistic."""

    def mean(
        self, key: Key, draw: Callable[[Key], Residuals], kernel: AbstractKernel
    ) -> tuple[Scalar, Residuals]:
        """Averages over the pairs, which takes at least two draws."""
        here = draw(key)
        terms = kernel(here.z, here.z) * (here.value @ here.value.T)
        size = here.z.shape[0]
        # A draw with itself would add the variance of f: the discrepancy of the joint law of z and ε.
        return (jnp.sum(terms) - jnp.trace(terms)) / (size * (size - 1)), here


class KSIVI(AbstractEstimator):
    """The gradient of the squared kernel Stein discrepancy from q to p (Cheng et al. 2024, Section 3).

    The discrepancy needs the scores of the conditional only,

        KSD² = E k(z, z′) f · f′ with f = ∇_z log p(x, z) - ∇_z log q(z|ε),

    over two independent pairs (z, ε) and (z′, ε′), because f has the mean s_p(z) - s_q(z) given z. It is
    differentiated through the draws and everything else.

    It is not the ELBO's gradient, and the best q by this measure is another unless the family holds p. For a
    fixed bandwidth it is unbiased for the gradient of KSD². The median heuristic makes the kernel depend on the
    draws, so the objective is then none in particular. Scores do not see how much mass a far mode has.

    Args:
        num_draws: number of draws of z per site and batch, S.
        kernel: k, with its bandwidth.
        pairs: which pairs are averaged.
    """

    num_draws: int = eqx.field(static=True, default=500)
    kernel: AbstractKernel = eqx.field(default_factory=GaussianKernel)
    pairs: AbstractPairs = eqx.field(default_factory=TwoBatches)

    def __check_init__(self):
        least = 2 if isinstance(self.pairs, WithinBatch) else 1
        if _checks.positive_int("num_draws", self.num_draws) < least:
            raise ValueError("expected at least two draws for pairs within a batch, got num_draws=1")

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> tuple:
        """Checks family and target; there is no state."""
        del key
        need_semi_implicit(self, family)
        need_fixed_target(self, target)
        return ()

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns q(ε): KSIVI learns no proposal."""
        del state
        return from_mixing()

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: tuple) -> Estimate:
        """Differentiates the discrepancy, averaged over sites."""
        del step
        num_sites = params[1].num_sites
        keys = jax.random.split(key, num_sites)

        def loss(params: Params):
            family, target = params
            assert isinstance(family, SemiImplicit)

            def one(key: Key, site: PyTree):
                context = target.context(site)
                draw = lambda k: residuals(k, family, target, site, context, self.num_draws)
                return self.pairs.mean(key, draw, self.kernel)

            squares, draws = jax.vmap(one, axis_size=num_sites)(keys, sites)
            return jnp.mean(squares), draws.log_joint.ravel()

        grads, log_joint = grad_of_trained(loss, params)
        return Estimate(grads, state, info_without_chain(log_joint))
