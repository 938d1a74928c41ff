"""Judges fits of all methods alike: bounds by one kind of proposal, whatever a method has learned itself."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from uivi._jax import seldom_jit
from uivi._types import Key
from uivi.evaluation import bounds, importance
from uivi.evaluation.check import Check
from uivi.evaluation.findings import with_verdict
from uivi.evaluation.history import total
from uivi.evaluation.precision import measure_precision
from uivi.families.conditionals.particles import AtParticles
from uivi.families.sampling import sample_many
from uivi.families.semi_implicit import SemiImplicit
from uivi.fitting.posterior import Posterior
from uivi.reverse.by_particle import ByParticle
from uivi.reverse.proposals import FittedProposal, Learned, LearnedState

PROPOSAL = Learned(prior_share=0.1, inflation=1.2)
"""The proposal that every semi-implicit fit is judged with, learned anew for each fit."""
DIVERGED = 1e6
"""Size in nats of the ELBO of a fit that has diverged."""
LEARNING_DRAWS = 256
"""Number of pairs (ε, z) in a step of learning."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """Draws of the evaluation.

    Attributes:
        draws: draws of z in the bounds and the importance weights.
        mixing: proposals of ε for each of them.
        regressed: pairs (ε, z) in the regression that the learned proposal begins with.
        learning: steps of learning after it.
        moments: draws for means, covariances and predictions.
    """

    draws: int = 2_048
    mixing: int = 128
    regressed: int = 8_192
    learning: int = 400
    moments: int = 20_480


def judge(key: Key, fit: Posterior, budget: Budget) -> Check:
    """Returns bounds, importance weights and verdict of one fit, with the same budget for every method."""
    proposal_key, draw_key = jax.random.split(key)
    proposal = proposal_of(proposal_key, fit, budget)
    assert fit.target is not None
    evaluated = bounds.evaluate(draw_key, fit.family, fit.target, budget.draws, budget.mixing, proposal)
    lower, upper = bounds.bracket(evaluated)
    measured = Check(
        status=fit.status,
        dim=fit.dim,
        lower=lower,
        upper=upper,
        mixing=None,
        weights=importance.summarise(evaluated.log_weights, evaluated.unsure),
        nonfinite=total(fit.history, "nonfinite"),
        skipped=float(sum(fit.history.get("skipped", [0]))),
        gaps=importance.moment_gaps(evaluated.z, evaluated.log_weights),
        precision=measure_precision(evaluated.z, evaluated.log_p),
    )
    return with_verdict(measured, fit.history)


def proposal_of(key: Key, fit: Posterior, budget: Budget) -> FittedProposal | None:
    """Returns the exact reverse conditional where it is known, a learned proposal, or None for a density."""
    if not isinstance(fit.family, SemiImplicit):
        return None
    if is_exact(fit.family):
        return FittedProposal(ByParticle(), ())
    first_key, run_key = jax.random.split(key)
    state = regressed(first_key, fit.family, budget.regressed)
    return FittedProposal(PROPOSAL, _learned(run_key, fit.family, state, np.int32(budget.learning)))


def is_exact(family: SemiImplicit) -> bool:
    """Whether the reverse conditional is known."""
    return isinstance(family.conditional, AtParticles)


def regressed(key: Key, family: SemiImplicit, number: int) -> LearnedState:
    """Returns a proposal whose mean is the linear regression of ε on z, with the covariance of its residuals.

    It is a good one where the reverse conditional is nearly Gaussian, and `Learned` continues from it.
    """
    pairs_key, state_key = jax.random.split(key)
    draws = sample_many(pairs_key, family, number)
    state = PROPOSAL.init(state_key, family)
    inputs = np.asarray(_inputs(family, draws.z), np.float64)
    eps = np.asarray(draws.eps, np.float64)
    if not (np.all(np.isfinite(inputs)) and np.all(np.isfinite(eps))):
        return state
    mean, variance = inputs.mean(0), inputs.var(0) + 1e-12
    standard = (inputs - mean) / np.sqrt(variance)
    size = standard.shape[1]
    gram = standard.T @ standard + np.eye(size)
    slope = np.linalg.solve(gram, standard.T @ (eps - eps.mean(0)))
    residuals = eps - eps.mean(0) - standard @ slope
    cholesky = np.linalg.cholesky(residuals.T @ residuals / number + 1e-6 * np.eye(eps.shape[1]))
    scale = np.diag(cholesky)
    whitener = np.linalg.inv(cholesky / scale)
    raw = 5.0 * np.arctanh(np.clip(np.log(scale) / 5.0, -0.99, 0.99))
    bias = np.concatenate([eps.mean(0), raw, np.tril(whitener, -1).ravel()])
    place = lambda x: jnp.asarray(x, float)
    last = state.net.layers[-1]
    net = eqx.tree_at(
        lambda n: (n.skip, n.layers[-1].weight, n.layers[-1].bias),
        state.net,
        (place(slope.T), 0.01 * last.weight, place(bias)),
    )
    return state._replace(net=net, mean=place(mean), variance=place(variance), count=place(100.0))


@seldom_jit
def _inputs(family: SemiImplicit, z: Array) -> Array:
    return jax.vmap(lambda one: PROPOSAL.inputs(family, one, None))(z)


@seldom_jit
def _learned(key: Key, family: SemiImplicit, state: LearnedState, steps: Any) -> LearnedState:
    arrays, static = eqx.partition(state, eqx.is_array)

    def step(i, arrays):
        state = eqx.combine(arrays, static)
        learned = PROPOSAL.learn(jax.random.fold_in(key, i), family, state, LEARNING_DRAWS)
        return eqx.filter(learned, eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(0, steps, step, arrays), static)


def values(check: Check, log_evidence: float | None, stderr: float = 0.0) -> dict[str, Any]:
    """Returns a check for JSON, with both sides of KL(q‖p) where log Z is known.

    Args:
        check: the check.
        log_evidence: log Z, or None.
        stderr: its standard error, which both sides contain.
    """
    found: dict[str, Any] = {"check": check.to_json(), "failed": failed(check)}
    if log_evidence is not None:
        # A bound from below of the ELBO is one from above of the divergence.
        sides = {"kl_upper": check.lower, "kl_lower": check.upper}
        found |= {
            name: {"mean": log_evidence - bound.mean, "stderr": math.hypot(bound.stderr, stderr)}
            for name, bound in sides.items()
        }
    return found


def failed(check: Check) -> bool:
    """Whether a fit has stopped early, or has an ELBO that is not finite or a million nats off."""
    return check.status.name != "DONE" or not abs(check.lower.mean) < DIVERGED
