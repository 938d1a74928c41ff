"""The hybrid Rosenbrock density: curved ridges with a known log Z and exact draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable
from uivi.targets.priors import standard_normal_log_prob


class Rosenbrock(AbstractGlobalTarget, AbstractSamplable):
    """x₁ ~ N(1, 1/(2a)). In each block, every variable is N(y², 1/(2b)) with y the variable before it.

    This is the hybrid density of Pagani, Wiegand & Nadarajah (2022), with the usual constants. They have
    a = 1/20 and b = 5, with which the ridge is longer and bends more. Every block begins after x₁, and z is x₁
    followed by the blocks. By default three variables follow the square of the first.

    Attributes:
        blocks: number of blocks.
        length: number of variables in a block, x₁ not counted.
        a: half the precision of x₁.
        b: half the precision of all others.
    """

    blocks: int = eqx.field(static=True, default=3)
    length: int = eqx.field(static=True, default=1)
    a: float = eqx.field(static=True, default=1.0)
    b: float = eqx.field(static=True, default=100.0)

    def __check_init__(self):
        _checks.positive_int("blocks", self.blocks)
        _checks.positive_int("length", self.length)
        _checks.positive_float("a", self.a)
        _checks.positive_float("b", self.b)

    @property
    def dim(self) -> int:
        """Number of variables, D."""
        return 1 + self.blocks * self.length

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""
        del site
        rows = z[1:].reshape(self.blocks, self.length)
        first = jnp.broadcast_to(z[:1], (self.blocks, 1))
        before = jnp.concatenate([first, rows[:, :-1]], 1)
        noise = jnp.concatenate([(z[:1] - 1) / self._sds[0], ((rows - before**2) / self._sds[1]).ravel()])
        volume = jnp.log(self._sds[0]) + (self.dim - 1) * jnp.log(self._sds[1])
        return standard_normal_log_prob(noise) - volume

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        noise = jax.random.normal(key, (self.dim,))
        first = 1 + self._sds[0] * noise[0]
        before = jnp.broadcast_to(first, (self.blocks,))
        columns: list[Array] = []
        for column in noise[1:].reshape(self.blocks, self.length).T:
            before = before**2 + self._sds[1] * column
            columns.append(before)
        return jnp.concatenate([first[None], jnp.stack(columns, 1).ravel()])

    @property
    def _sds(self) -> tuple[float, float]:
        """Returns the standard deviations of x₁ and of all others around the square."""
        return (2 * self.a) ** -0.5, (2 * self.b) ** -0.5
