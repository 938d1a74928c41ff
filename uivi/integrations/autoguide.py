"""`AutoUIVI`: a semi-implicit guide for users of NumPyro's SVI."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from uivi import presets
from uivi._types import Draw, Key, Latent, Scalar
from uivi.estimators.marginal_score import score
from uivi.evaluation.bounds import log_marginal_sides
from uivi.families.semi_implicit import SemiImplicit
from uivi.fitting.starts.search import Start
from uivi.integrations._optional import needs
from uivi.reverse import ISIR, AbstractReverseSampler
from uivi.reverse.proposals import LearnedState
from uivi.trainable import partition_trained

with needs("NumPyro", extra="numpyro"):
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO, init_to_median
    from numpyro.infer.autoguide import AutoContinuous

LOSSES = (Trace_ELBO, TraceMeanField_ELBO)
"""Losses that average log p - log q over draws, which is what the guide's surrogate of log q is made for."""
NUM_FIRST = 512
"""Number of draws that standardise the inputs of a learned proposal before the first update."""


class AutoUIVI(AutoContinuous):
    """A semi-implicit guide, q(z) = ∫ q(z|ε) q(ε) dε on the unconstrained space, for `numpyro.infer.SVI`.

    **Use it with `Trace_ELBO` or `TraceMeanField_ELBO` only.** The log density of its draws is a surrogate. Its
    value is an estimate of log q(z) that is too high in expectation, so the loss is an upper bound of minus the
    ELBO. Its gradient is the gradient of the entropy by reverse draws (Titsias & Ruiz 2019, eqs. 8 and 9). Both
    are right for a loss that averages log p - log q over draws. A loss that weighs draws by log q or
    differentiates it in another way, such as `RenyiELBO`, would follow a wrong gradient. `svi` checks the loss;
    in a plain `SVI`, NumPyro's other losses are refused at their first step, but your own are not.

    Args:
        model: a NumPyro model.
        family: family on the unconstrained space; by default `uivi.presets.default_family` around the start.
        sampler: sampler of the reverse conditional; by default i-SIR with a proposal learned with the guide.
        num_mixing: number of ε in the reported estimate of log q(z).
        init_scale: scale of q at the start.
        prefix: prefix of the names of the guide's sites.
        init_loc_fn: NumPyro's strategy for the start.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, optax
        >>> from uivi.integrations.autoguide import AutoUIVI
        >>> def model():
        ...     numpyro.sample("scale", dist.Gamma(4.0, 2.0))
        >>> guide = AutoUIVI(model)
        >>> result = guide.svi(optax.adam(5e-3)).run(jax.random.key(0), 2, progress_bar=False)
        >>> guide.sample_posterior(jax.random.key(1), result.params, sample_shape=(3,))["scale"].shape
        (3,)
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

    def svi(self, optim: Any, loss: Any = None, **static_kwargs: Any) -> SVI:
        """Returns NumPyro's `SVI` for this guide and its model, after a check of the loss.

        Args:
            optim: an optimiser from NumPyro or Optax.
            loss: a `Trace_ELBO` (the default) or `TraceMeanField_ELBO`.
            **static_kwargs: keyword arguments of the model that stay constant.

        Raises:
            TypeError: for any other loss.
        """
        loss = Trace_ELBO() if loss is None else loss
        # Exact types: a subclass may treat log q differently.
        if type(loss) not in LOSSES:
            raise TypeError(_wrong_loss(type(loss).__name__))
        return SVI(self.model, self, optim, loss, **static_kwargs)

    def _setup_prototype(self, *args: Any, **kwargs: Any) -> None:
        super()._setup_prototype(*args, **kwargs)
        key = jax.random.key(0)
        family = self._given
        if family is None:
            start = Start(self._init_latent, jnp.full((self.latent_dim,), self._init_scale))
            family = presets.default_family(key, self.latent_dim, start=start)
        if family.dim != self.latent_dim:
            raise ValueError(
                f"expected a family on {self.latent_dim} dimensions (the model's unconstrained space), got "
                f"{family.dim}: pass a family of that size, or leave it out"
            )
        state = self._sampler.init(key, family)
        if isinstance(state, LearnedState):
            # SVI has no place for running moments, so the moments of the first q stay for the whole fit.
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
        """Returns the distribution of the flat latent vector."""
        posterior: Any = numpyro.handlers.substitute(self._get_posterior, params)
        return posterior()

    def get_family(self, params: dict[str, Array]) -> SemiImplicit:
        """Returns the fitted family, for example for `uivi.evaluation.bounds`."""
        return self.get_posterior(params).family


class SemiImplicitDistribution(dist.Distribution):
    """A semi-implicit q(z) as a NumPyro distribution.

    Its `log_prob` needs the ε that made z, which NumPyro passes along as the "intermediates" of a draw.

    Args:
        family: the family.
        sampler: sampler of the reverse conditional.
        state: state of the sampler.
        num_mixing: number of ε in the estimate of log q(z).
    """

    support: Any = dist.constraints.real_vector
    reparametrized_params: list[str] = []
    pytree_data_fields = ("family", "state")
    pytree_aux_fields = ("sampler", "num_mixing")

    def __init__(self, family: SemiImplicit, sampler: AbstractReverseSampler, state: Any, num_mixing: int):
        self.family, self.sampler, self.state, self.num_mixing = family, sampler, state, num_mixing
        super().__init__(event_shape=(family.dim,))

    @property
    def has_rsample(self) -> bool:
        """Raises TypeError: neither answer would make the loss that asks right.

        A loss asks this to choose between pathwise and score-function gradients of log q. `Trace_ELBO` and
        `TraceMeanField_ELBO` never ask. Losses that weigh draws by log q do: `RenyiELBO`, `TraceGraph_ELBO`.
        """
        raise TypeError(_wrong_loss("a loss that needs the log density of the guide itself"))

    def sample(self, key: Key, sample_shape: tuple[int, ...] = ()) -> Float[Array, "*S D"]:
        """Draws z."""
        return self.sample_with_intermediates(key, sample_shape)[0]

    def sample_with_intermediates(self, key: Key, sample_shape: tuple[int, ...] = ()):
        """Draws z, together with the ε that made it and a seed for its reverse draws."""
        count = math.prod(sample_shape)
        draw_key, seed_key = jax.random.split(key)
        draws = jax.vmap(lambda k: self.family.sample(k))(jax.random.split(draw_key, count))
        seeds = jax.random.bits(seed_key, (count,))
        shaped = lambda x: x.reshape(*sample_shape, *x.shape[1:])
        return shaped(draws.z), [shaped(draws.eps), shaped(seeds)]

    def log_prob(self, value: Float[Array, "*S D"], intermediates: list[Array] | None = None) -> Array:
        """Returns the surrogate of log q(z) that `AutoUIVI` describes."""
        if not intermediates:
            raise ValueError(
                "expected a draw of the guide itself, got another point: its log density is intractable; see "
                "uivi.evaluation.bounds for bounds"
            )
        shape = value.shape[:-1]
        eps, seeds = (x.reshape(-1, *x.shape[len(shape) :]) for x in intermediates)
        return jax.vmap(self._surrogate)(value.reshape(-1, self.family.dim), eps, seeds).reshape(shape)

    def _surrogate(self, z: Latent, eps: Float[Array, "E"], seed: Array) -> Scalar:
        """Returns a scalar with the value of log q(z) and the gradient of eq. 8, for one draw.

        Everything is stopped except z: the gradient must be ∇_z log q(z) along the path of z. The direct
        gradient in the parameters has expectation zero, and here it would come from a biased estimate.
        """
        reverse_key, bound_key = jax.random.split(jax.random.key(seed))
        proposal = self.sampler.fitted_proposal(self.state)
        family, fitted, draw = jax.lax.stop_gradient((self.family, proposal, Draw(z, eps)))
        state = jax.lax.stop_gradient(self.state)
        one = jax.tree.map(lambda x: x[None], draw)
        made = self.sampler.sample(reverse_key[None], family, one, None, state)[0]
        reverse = jax.tree.map(lambda x: x[0], made)
        slope = jax.lax.stop_gradient(score(family, draw.z, reverse))
        value = jax.lax.stop_gradient(log_marginal_sides(bound_key, family, draw, self.num_mixing, fitted)[0])
        # The proposal learns by maximum likelihood on (ε, z). The added term has value zero, so the loss still
        # reports the bound. The minus sign: SVI's loss has plus log q, and descends.
        learned = proposal.at(family, draw.z, None).log_prob(draw.eps)
        return value + slope @ (z - draw.z) - (learned - jax.lax.stop_gradient(learned))


def _learned(state: Any) -> Any:
    return state.net if isinstance(state, LearnedState) else None


def _wrong_loss(got: str) -> str:
    return (
        f"expected Trace_ELBO or TraceMeanField_ELBO as the loss of AutoUIVI, got {got}: its log density is a "
        "surrogate whose gradient is right for those two only"
    )
