"""`AutoUIVI`: a semi-implicit guide for users of NumPyro's SVI."""

import math
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpyro.infer import Trace_ELBO, TraceMeanField_ELBO, init_to_median
from numpyro.infer.autoguide import AutoContinuous
from numpyro.infer.elbo import ELBO

from uivi import presets
from uivi._types import Draw, Key, Latent, Scalar
from uivi.estimators.marginal_score import score
from uivi.evaluation.bounds import log_marginal_sides
from uivi.families.semi_implicit import SemiImplicit
from uivi.fitting.starts.search import Start
from uivi.reverse import ISIR, AbstractReverseSampler
from uivi.reverse.proposals import LearnedState
from uivi.trainable import partition_trained

LOSSES = (Trace_ELBO, TraceMeanField_ELBO)
NUM_FIRST = 512


class AutoUIVI(AutoContinuous):
    """A guide with q(z) = ∫ q(z|ε) q(ε) dε on the unconstrained space, for `numpyro.infer.SVI`.

    The log density of its draws is a surrogate: its value is an estimate of log q(z), too high in expectation
    (so the loss is an upper bound of minus the ELBO), and its gradient is that of the entropy by reverse draws
    (Titsias & Ruiz 2019, eqs. 8 and 9). That is right for `Trace_ELBO` and `TraceMeanField_ELBO`; other losses
    weigh or differentiate log q in other ways, and are refused.

    Args:
        model: a NumPyro model.
        family: on the unconstrained space; by default `uivi.presets.default_family` around the start.
        sampler: of the reverse conditional; by default i-SIR, whose proposal is learned with the guide.
        num_mixing: ε for the estimate of log q(z) that is reported.
        init_scale: of q at the start.
        prefix: of the names of its sites.
        init_loc_fn: NumPyro's way to find the start.
    """

    def __init__(
        self,
        model: Callable,
        *,
        family: SemiImplicit | None = None,
        sampler: AbstractReverseSampler | None = None,
        num_mixing: int = 50,
        init_scale: float = 0.1,
        prefix: str = "auto",
        init_loc_fn: Callable = init_to_median,
    ):
        self._given, self._sampler = family, ISIR() if sampler is None else sampler
        self._num_mixing, self._init_scale = num_mixing, init_scale
        super().__init__(model, prefix=prefix, init_loc_fn=init_loc_fn)

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """Sample all latent sites."""
        _refuse_other_losses()
        return super().__call__(*args, **kwargs)

    def _setup_prototype(self, *args: Any, **kwargs: Any) -> None:
        super()._setup_prototype(*args, **kwargs)
        key = jax.random.key(0)
        family = self._given
        if family is None:
            start = Start(self._init_latent, jnp.full((self.latent_dim,), self._init_scale))
            family = presets.default_family(key, self.latent_dim, start=start)
        if family.dim != self.latent_dim:
            raise ValueError(
                f"expected a family on {self.latent_dim} dimensions (the model's unconstrained space), "
                f"got {family.dim}"
            )
        state = self._sampler.init(key, family)
        if isinstance(state, LearnedState):
            z = jax.vmap(lambda k: family.sample(k).z)(jax.random.split(key, NUM_FIRST))
            state = state._replace(mean=jnp.mean(z, 0), variance=jnp.var(z, 0))
        trained, self._static = partition_trained((family, _learned(state)))
        self._state = state
        self._flat, self._unflatten = ravel_pytree(trained)

    def _get_posterior(self) -> "SemiImplicitDistribution":
        flat: Any = numpyro.param(f"{self.prefix}_parameters", self._flat)
        family, net = eqx.combine(self._unflatten(flat), self._static)
        state = self._state if net is None else self._state._replace(net=net)
        return SemiImplicitDistribution(family, self._sampler, state, self._num_mixing)

    def get_posterior(self, params: dict[str, Array]) -> "SemiImplicitDistribution":
        """The distribution of the flat latent vector."""
        posterior: Any = numpyro.handlers.substitute(self._get_posterior, params)
        return posterior()

    def get_family(self, params: dict[str, Array]) -> SemiImplicit:
        """The fitted family, for `uivi.evaluation.bounds` and friends."""
        return self.get_posterior(params).family


class SemiImplicitDistribution(dist.Distribution):
    """A semi-implicit q(z) as a NumPyro distribution; log q needs the ε that made z (its "intermediates")."""

    support: Any = dist.constraints.real_vector
    reparametrized_params: list[str] = []  # noqa: RUF012
    pytree_data_fields = ("family", "state")
    pytree_aux_fields = ("sampler", "num_mixing")

    def __init__(self, family: SemiImplicit, sampler: AbstractReverseSampler, state: Any, num_mixing: int):
        self.family, self.sampler, self.state, self.num_mixing = family, sampler, state, num_mixing
        super().__init__(event_shape=(family.dim,))

    def sample(self, key: Key, sample_shape: tuple[int, ...] = ()) -> Float[Array, "*S D"]:
        """Draws of z."""
        return self.sample_with_intermediates(key, sample_shape)[0]

    def sample_with_intermediates(self, key: Key, sample_shape: tuple[int, ...] = ()):
        """Draws of z, with the ε that made them and the seeds of their reverse draws."""
        count = math.prod(sample_shape)
        draw_key, seed_key = jax.random.split(key)
        draws = jax.vmap(lambda k: self.family.sample(k))(jax.random.split(draw_key, count))
        seeds = jax.random.bits(seed_key, (count,))
        shaped = lambda x: x.reshape(*sample_shape, *x.shape[1:])
        return shaped(draws.z), [shaped(draws.eps), shaped(seeds)]

    def log_prob(self, value: Float[Array, "*S D"], intermediates: list[Array] | None = None) -> Array:
        """The surrogate of `AutoUIVI`."""
        if not intermediates:
            raise ValueError(
                "expected a draw of the guide itself: the log density of other points is intractable; "
                "uivi.evaluation.bounds has bounds of it"
            )
        shape = value.shape[:-1]
        eps, seeds = (x.reshape(-1, *x.shape[len(shape) :]) for x in intermediates)
        return jax.vmap(self._surrogate)(value.reshape(-1, self.family.dim), eps, seeds).reshape(shape)

    def _surrogate(self, z: Latent, eps: Float[Array, "E"], seed: Array) -> Scalar:
        reverse_key, bound_key = jax.random.split(jax.random.key(seed))
        proposal = self.sampler.fitted_proposal(self.state)
        family, fitted, draw = jax.lax.stop_gradient((self.family, proposal, Draw(z, eps)))
        state = jax.lax.stop_gradient(self.state)
        one = jax.tree.map(lambda x: x[None], draw)
        made = self.sampler.kernels(reverse_key[None], family, one, None, state)[0]
        reverse = jax.tree.map(lambda x: x[0], made)
        slope = jax.lax.stop_gradient(score(family, draw.z, reverse))
        value = jax.lax.stop_gradient(log_marginal_sides(bound_key, family, draw, self.num_mixing, fitted)[0])
        # The proposal learns by maximum likelihood on (ε, z); what is added has the value zero.
        learned = proposal.at(family, draw.z, None).log_prob(draw.eps)
        return value + slope @ (z - draw.z) - (learned - jax.lax.stop_gradient(learned))


def _learned(state: Any) -> Any:
    return state.net if isinstance(state, LearnedState) else None


def _refuse_other_losses() -> None:
    """Look up the stack for the loss that calls the guide."""
    frame = sys._getframe(1)
    while frame is not None:
        loss = frame.f_locals.get("self")
        if isinstance(loss, ELBO) and type(loss) not in LOSSES:
            raise TypeError(
                "expected Trace_ELBO or TraceMeanField_ELBO as the loss of AutoUIVI, got "
                f"{type(loss).__name__}: its gradient would be wrong"
            )
        frame = frame.f_back
