"""Alternatives that modellers would use: NUTS and NumPyro's guides, each run for a given number of seconds."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoBNAFNormal, AutoContinuous, AutoDiagonalNormal, AutoMultivariateNormal

from benchmarks.models import Model
from uivi.evaluation import importance, metrics
from uivi.integrations.numpyro import target

NUM_DRAWS = 20_000
WARMUP, CHUNK = 500, 100
LEAST_UPDATES = 1_000
TRIAL_SECONDS = 1.0
"""Length of the trial that estimates how many updates fit into the time."""
RATE = 1e-2


class Answer(NamedTuple):
    """The outcome of a rival.

    Attributes:
        draws: draws by site.
        pareto_k: k-hat of p/q; NaN for a method without a density.
        work: number of updates or draws, human-readable.
    """

    draws: dict[str, jax.Array]
    pareto_k: float
    work: str


def nuts(model: Model, seed: int, seconds: float) -> Answer:
    """Runs one chain: 500 warm-up transitions, then as many as fit into the time, at least 100."""
    began = time.perf_counter()
    mcmc = MCMC(NUTS(model.model), num_warmup=WARMUP, num_samples=CHUNK, progress_bar=False)
    mcmc.run(jax.random.key(seed), *model.args, **model.kwargs)
    parts = [mcmc.get_samples()]
    while time.perf_counter() - began < seconds:
        mcmc.post_warmup_state = mcmc.last_state
        mcmc.run(mcmc.post_warmup_state.rng_key, *model.args, **model.kwargs)
        parts.append(mcmc.get_samples())
    draws = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    return Answer(draws, float("nan"), f"{CHUNK * len(parts)} draws")


def with_guide(make: Callable[..., AutoContinuous], model: Model, seed: int, seconds: float) -> Answer:
    """Runs SVI with Adam and a cosine schedule over as many updates as fit into the time."""
    began = time.perf_counter()
    guide = make(model.model)

    def started(num_steps: int):
        """Returns SVI with its initial state and a compiled function that makes a number of updates."""
        optimizer = numpyro.optim.optax_to_numpyro(optax.adam(optax.cosine_decay_schedule(RATE, num_steps)))
        svi = SVI(model.model, guide, optimizer, Trace_ELBO(num_particles=10))
        update = lambda _, state: svi.update(state, *model.args, **model.kwargs)[0]
        advance = jax.jit(lambda state, number: jax.lax.fori_loop(0, number, update, state))
        state = jax.block_until_ready(advance(svi.init(jax.random.key(seed), *model.args, **model.kwargs), 0))
        return svi, state, advance

    _, state, advance = started(LEAST_UPDATES)
    compilation, number, took = time.perf_counter() - began, 1, 0.0
    while took < TRIAL_SECONDS:
        number *= 4
        since = time.perf_counter()
        jax.block_until_ready(advance(state, number))
        took = time.perf_counter() - since
    # The schedule depends on the number of updates, so the real run has to compile once more.
    left = seconds - compilation - (time.perf_counter() - began)
    num_steps = max(LEAST_UPDATES, int(left * number / took))
    svi, state, advance = started(num_steps)
    params = svi.get_params(jax.block_until_ready(advance(state, num_steps)))
    draws = guide.sample_posterior(jax.random.key(1), params, sample_shape=(NUM_DRAWS,))
    return Answer(draws, _pareto_k(guide, params, model), f"{num_steps} updates")


def _pareto_k(guide: AutoContinuous, params, model: Model) -> float:
    """Returns k-hat of p/q at 2,048 draws in the unconstrained space."""
    posterior = guide.get_posterior(params)
    if isinstance(guide, AutoBNAFNormal):  # its flow has no inverse, so the density must come with the draw
        z, intermediates = posterior.sample_with_intermediates(jax.random.key(2), (2_048,))
    else:
        z, intermediates = posterior.sample(jax.random.key(2), (2_048,)), None
    program = target(model.model, model.args, model.kwargs).source
    log_p = jax.vmap(lambda z: program.log_density(guide._unpack_latent(z)))(z)
    log_q = posterior.log_prob(z, intermediates) if intermediates else posterior.log_prob(z)
    log_q = log_q.reshape(len(z), -1).sum(1)  # a diagonal normal gives one value per coordinate
    return importance.pareto_k(log_p - log_q)


RIVALS: dict[str, Callable[[Model, int, float], Answer]] = {
    "nuts": nuts,
    # The same family as AutoNormal, but as one vector, which has a density.
    "AutoNormal": lambda *a: with_guide(AutoDiagonalNormal, *a),
    "AutoMultivariateNormal": lambda *a: with_guide(AutoMultivariateNormal, *a),
    "AutoBNAFNormal": lambda *a: with_guide(AutoBNAFNormal, *a),
}


def sliced(draws: dict[str, jax.Array], model: Model) -> float:
    """Returns the sliced 2-Wasserstein distance to the reference, in reference standard deviations."""
    means, sds = model.moments()
    flat = lambda x: jnp.concatenate(
        [((jnp.asarray(x[n]) - means[n]) / sds[n]).reshape(len(x[n]), -1) for n in means], 1
    )
    reference = flat(model.reference())
    mine = flat({name: draws[name] for name in means})
    picked = np.random.default_rng(0).integers(0, len(mine), len(reference))
    return float(metrics.sliced_wasserstein(jax.random.key(2), mine[picked], reference))
