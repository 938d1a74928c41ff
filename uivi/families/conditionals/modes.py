"""A conditional around several modes at once: the same shape at every one of them, with fixed weights."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.base import AbstractAround, AbstractConditional, AbstractMappingConditional
from uivi.families.conditionals.mapped import AbstractMapped
from uivi.trainable import NonTrainable


class Places(NamedTuple):
    """Where the modes are: a frame for each, and their weights.

    Attributes:
        frames: locations and scales, stacked along a leading axis.
        log_weights: logs of the weights, whose sum is one.
    """

    frames: Frame
    log_weights: Array

    @classmethod
    def create(cls, frames: Sequence[Frame], weights: Float[np.ndarray, "K"]) -> "Places":
        """Stacks the frames and normalises the weights."""
        # A tree map skips the stretch, which is None up to 200 dimensions.
        stacked = jax.tree.map(lambda *parts: jax.device_put(np.stack([np.asarray(x) for x in parts])), *frames)
        logs = np.log(np.asarray(weights, np.float64) / np.sum(weights))
        return cls(stacked, jax.device_put(logs.astype(stacked.loc.dtype)))


class AtModes(AbstractAround, AbstractMappingConditional):
    """q(z|ε) = Σ_k π_k q_k(z|ε), where q_k is z = loc_k + F_k (shift_k + scale_k w) with w ~ inner(ε).

    All modes share one conditional of w, and one ε. So the reverse conditional of ε is as simple as around a
    single mode, a proposal learns it from the w of the nearest mode, and ε stays a continuous variable. The sum
    over k is exact: its terms share the network's evaluation. A draw picks its k at random, so the gradient
    that goes through a draw is unbiased for all that is trained: the inner conditional, shifts and scales. The
    weights π are not. They get their values from `reweighted`.

    Attributes:
        inner: the conditional of w.
        shift: shift of w at every mode.
        log_scale: log scale of the coordinates of w at every mode.
        log_weights: log π.
        loc, factor, inverse, volume: the frames of `Standardised`, stacked.
    """

    inner: AbstractConditional
    shift: Float[Array, "K D"]
    log_scale: Float[Array, "K D"]
    log_weights: NonTrainable
    loc: NonTrainable
    factor: NonTrainable
    inverse: NonTrainable
    volume: NonTrainable

    def __check_init__(self):
        advice = "there is one location for each mode, of the size of z"
        shape = (self.num_modes, self.inner.dim)
        for name, value in (("loc", self.loc.value), ("shift", self.shift), ("log_scale", self.log_scale)):
            _checks.shape(f"`{name}`", value, shape, advice)
        for name in ("log_weights", "volume"):
            _checks.shape(f"`{name}`", getattr(self, name).value, shape[:1], "there is one for each mode")

    @classmethod
    def on(cls, inner: AbstractConditional, places: Places) -> "AtModes":
        """Puts `inner` around every one of the places."""
        zeros = jnp.zeros_like(places.frames.loc)
        frames = places.frames
        fixed = (places.log_weights, frames.loc, frames.factor, frames.inverse, frames.volume)
        return cls(inner, zeros, zeros, *(NonTrainable(x) for x in fixed))

    @property
    def num_modes(self) -> int:
        """Number of modes, K."""
        return self.log_weights.value.shape[0]

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Picks a mode by its weight, then draws there."""
        pick_key, w_key = jax.random.split(key)
        mode = jax.random.categorical(pick_key, self.log_weights())
        w = self.inner.sample(w_key, eps, context)
        loc, factor, inverse, volume = (x()[mode] for x in self._frames())
        return Frame(loc, factor, inverse, volume).move(self.shift[mode] + jnp.exp(self.log_scale[mode]) * w)

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log of the sum over all modes."""
        return self.log_prob_of(z, context)(eps)

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε). z is whitened at all modes right away."""
        w, offsets = self._whitened(z), self._offsets()
        return lambda eps: jax.nn.logsumexp(offsets + self._inner_log_probs(w, eps, context))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Averages over the modes as well, each with its probability given z and ε."""
        w, offsets = self._whitened(z), self._offsets()
        logs = jax.vmap(lambda e: offsets + self._inner_log_probs(w, e, context))(eps)
        joint = weights[:, None] * jax.nn.softmax(logs, 1)
        share = jnp.sum(joint, 0)
        # Far from a mode its share may round to zero, and then its score counts for nothing.
        given = joint / jnp.where(share > 0, share, 1.0)[None]

        def at_mode(w: Latent, given: Array, log_scale: Array, inverse: Array) -> Latent:
            score = jnp.exp(-log_scale) * self.inner.mean_score(w, eps, given, context)
            return inverse.T @ score if inverse.ndim == 2 else inverse * score

        scores = jax.vmap(at_mode, (0, 1, 0, 0))(w, given, self.log_scale, self.inverse())
        return jnp.sum(jnp.where(share[:, None] > 0, share[:, None] * scores, 0.0), 0)

    def nearest(self, z: Latent) -> Latent:
        """Returns w at the mode that z most likely belongs to."""
        return self._whitened(z)[jnp.argmax(self._log_shares(z))]

    def shares(self, z: Latent) -> Float[Array, "K"]:
        """Returns the probability that z belongs to each mode, taking w for standard normal."""
        return jax.nn.softmax(self._log_shares(z))

    def _log_shares(self, z: Latent) -> Float[Array, "K"]:
        return self._offsets() - 0.5 * jnp.sum(self._whitened(z) ** 2, 1)

    def _whitened(self, z: Latent) -> Float[Array, "K D"]:
        """Returns w at every mode."""

        def one(shift: Array, log_scale: Array, *frame: Array) -> Latent:
            loc, factor, inverse, volume = frame
            return jnp.exp(-log_scale) * (Frame(loc, factor, inverse, volume).whiten(z) - shift)

        return jax.vmap(one)(self.shift, self.log_scale, *(x() for x in self._frames()))

    def _frames(self) -> tuple[NonTrainable, ...]:
        return self.loc, self.factor, self.inverse, self.volume

    def _offsets(self) -> Float[Array, "K"]:
        """Returns log π_k minus the log determinant of the map from w to z."""
        return self.log_weights() - self.volume() - jnp.sum(self.log_scale, 1)

    def _inner_log_probs(self, w: Float[Array, "K D"], eps: Noise, context: Context) -> Float[Array, "K"]:
        # Mapped over w alone, so that the network is evaluated once for all modes.
        return jax.vmap(lambda w: self.inner.log_prob_of(w, context)(eps))(w)


def unmapped(conditional: AbstractConditional, z: Latent) -> Latent:
    """Returns z as the innermost conditional sees it, behind all maps; of several modes, at the nearest."""
    while isinstance(conditional, AbstractMapped | AtModes):
        w = conditional.nearest(z) if isinstance(conditional, AtModes) else conditional.undo(z)[0]
        conditional, z = conditional.inner, w
    return z
