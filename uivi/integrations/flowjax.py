"""Normalising flows of FlowJAX as families with a density."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._types import Context, Key, Latent, Scalar
from uivi.families.conditionals.affine import Frame
from uivi.families.explicit import AbstractDensityAt, AbstractExplicit
from uivi.integrations._optional import needs
from uivi.trainable import NonTrainable

with needs("FlowJAX", extra="flow"):
    import paramax
    from flowjax.bijections import AbstractBijection, RationalQuadraticSpline
    from flowjax.distributions import AbstractDistribution, StandardNormal
    from flowjax.flows import coupling_flow


class _FlowAt(AbstractDensityAt):
    distribution: AbstractDistribution
    frame: Frame

    def sample(self, key: Key) -> Latent:
        with ordinary_promotion():
            return self.frame.move(self.distribution.sample(key))

    def log_prob(self, z: Latent) -> Scalar:
        with ordinary_promotion():
            return self.distribution.log_prob(self.frame.whiten(z)) - self.frame.volume


class Flow(AbstractExplicit):
    """z = loc + F w, where w follows an unconditional FlowJAX distribution and neither loc nor F is trained.

    The distribution is made by a function of a random key. A file holds the name of the function and the
    arrays: `uivi.load(path, trust=[Flow, RealNVP])` reads it again, with your own function for `RealNVP` if you
    wrote one. What FlowJAX marks as not trainable stays so.

    Attributes:
        make: the function. It must return the same kind of distribution for every key.
        arrays: the arrays of the distribution.
        loc: rough mean of z.
        factor: F, a matrix or a diagonal.
        inverse: F⁻¹.
        volume: log |det F|.

    Examples:
        >>> import jax, uivi
        >>> from flowjax.distributions import StandardNormal
        >>> from flowjax.flows import triangular_spline_flow
        >>> from uivi.integrations.flowjax import Flow
        >>> def make(key):
        ...     return triangular_spline_flow(key, base_dist=StandardNormal((2,)), flow_layers=2, invert=False)
        >>> family = Flow.create(jax.random.key(0), make)
        >>> family.dim, family.sample(jax.random.key(1)).z.shape
        (2, (2,))
    """

    make: Callable[[Key], Any] = eqx.field(static=True)
    arrays: tuple[Array | NonTrainable, ...]
    loc: NonTrainable
    factor: NonTrainable
    inverse: NonTrainable
    volume: NonTrainable

    def __check_init__(self):
        made = lambda key: eqx.filter(_made(self.make, key), eqx.is_array)
        shapes = eqx.filter_eval_shape(made, jax.random.key(0))
        expected = [x.shape for x in jax.tree.leaves(shapes)]
        got = [jnp.shape(x.value if isinstance(x, NonTrainable) else x) for x in self.arrays]
        if got != expected:
            raise ValueError(
                f"expected arrays of the shapes that `make` gives, {expected}, got {got}: use the function "
                "that made them"
            )
        dim, advice = self.loc.value.shape[0], "it must have the size of z"
        for name in ("factor", "inverse"):
            value = getattr(self, name).value
            _checks.shape(f"`{name}`", value, (dim,) * max(1, jnp.ndim(value)), advice)

    @classmethod
    def create(cls, key: Key, make: Callable[[Key], Any], *, frame: Frame | None = None) -> "Flow":
        """Makes the distribution, on a scale of one or on the location and scale of a start.

        Args:
            key: random key, passed to `make`.
            make: function of a key that returns a FlowJAX distribution. Flows for `uivi.fit` should have fast
                draws: `invert=False` in `flowjax.flows`.
            frame: `find_start(...).frame()`, or `Frame.create(loc, factor)`, of
                `uivi.families.conditionals.affine`.
        """
        _checks.prng_key(key)
        size = jax.eval_shape(lambda key: _made(make, key).sample(key), key).shape[0]
        arrays = jax.jit(lambda key: _arrays(_made(make, key)))(key)
        chosen = Frame.create(jnp.zeros(size), jnp.ones(size)) if frame is None else frame
        _checks.shape("the location of `frame`", chosen.loc, (size,), "it must have the size of the flow")
        # A flow has its own means for what a stretch would do.
        *parts, _ = chosen
        return cls(make, arrays, *(NonTrainable(x) for x in parts))

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.loc.value.shape[0]

    @property
    def context_dim(self) -> int:
        """Size of the context, 0: a flow is not amortised."""
        return 0

    def distribution(self) -> Any:
        """Returns the FlowJAX distribution of w."""
        # Made anew in the trace of the caller: FlowJAX's layers hide arrays in closures. Its own arrays are
        # dropped for ours, and XLA drops their computation.
        arrays, rest = eqx.partition(_made(self.make, jax.random.key(0)), eqx.is_array)
        ours = [x() if isinstance(x, NonTrainable) else x for x in self.arrays]
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), ours), rest)

    def at(self, context: Context = None) -> AbstractDensityAt:
        """Returns q(z)."""
        del context
        frame = Frame(self.loc(), self.factor(), self.inverse(), self.volume())
        return _FlowAt(self.distribution(), frame)


class RealNVP(eqx.Module):
    """Makes a flow of affine couplings (Dinh, Sohl-Dickstein & Bengio 2017); pass it to `Flow.create`.

    Attributes:
        dim: size of z, D.
        num_layers: number of couplings, each followed by a permutation.
        width: units in the hidden layer of a coupling's network.
        depth: number of hidden layers.
    """

    dim: int = eqx.field(static=True)
    num_layers: int = eqx.field(static=True, default=10)
    width: int = eqx.field(static=True, default=64)
    depth: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        _check_sizes(self)
        if self.dim < 2:
            raise ValueError(
                f"expected `dim` of at least 2 for RealNVP, got {self.dim}: affine couplings of one number are "
                "a Gaussian; use Spline"
            )

    def __call__(self, key: Key) -> Any:
        """Returns the distribution."""
        return _coupling(self, key, None)


class Spline(eqx.Module):
    """Makes a flow of rational-quadratic spline couplings (Durkan et al. 2019); pass it to `Flow.create`.

    Attributes:
        dim: size of z, D.
        num_layers: number of couplings, each followed by a permutation.
        width: units in the hidden layer of a coupling's network.
        depth: number of hidden layers.
        knots: number of knots of a spline.
        interval: splines act on [-interval, interval] and are the identity outside.
    """

    dim: int = eqx.field(static=True)
    num_layers: int = eqx.field(static=True, default=6)
    width: int = eqx.field(static=True, default=64)
    depth: int = eqx.field(static=True, default=1)
    knots: int = eqx.field(static=True, default=8)
    interval: float = eqx.field(static=True, default=4.0)

    def __check_init__(self):
        _check_sizes(self)
        _checks.positive_int("knots", self.knots)
        _checks.positive_float("interval", self.interval)

    def __call__(self, key: Key) -> Any:
        """Returns the distribution."""
        return _coupling(self, key, RationalQuadraticSpline(knots=self.knots, interval=self.interval))


def _check_sizes(recipe: RealNVP | Spline) -> None:
    for name in ("dim", "num_layers", "width", "depth"):
        _checks.positive_int(name, getattr(recipe, name))


def _coupling(recipe: RealNVP | Spline, key: Key, transformer: AbstractBijection | None) -> Any:
    return coupling_flow(
        key,
        base_dist=StandardNormal((recipe.dim,)),
        transformer=transformer,
        flow_layers=recipe.num_layers,
        nn_width=recipe.width,
        nn_depth=recipe.depth,
        invert=False,
    )


def _made(make: Callable[[Key], Any], key: Key) -> Any:
    """Calls the function, and checks what it returns."""
    with ordinary_promotion():
        made = make(key)
    if not isinstance(made, AbstractDistribution):
        raise TypeError(
            f"expected `make` to return a FlowJAX distribution, got {type(made).__name__}: return one of "
            "flowjax.flows or flowjax.distributions"
        )
    if made.cond_shape is not None or len(made.shape) != 1:
        raise ValueError(
            "expected an unconditional distribution of a vector, got one with shape "
            f"{made.shape} and cond_shape {made.cond_shape}: leave out cond_dim, and use a base of shape (dim,)"
        )
    return made


def _arrays(distribution: Any) -> tuple[Array | NonTrainable, ...]:
    """Returns the arrays of a distribution; those that FlowJAX does not train are marked for us."""
    is_fixed = lambda node: isinstance(node, paramax.NonTrainable)

    def marked(node: PyTree) -> list[Array | NonTrainable]:
        arrays = jax.tree.leaves(eqx.filter(node, eqx.is_array))
        return [NonTrainable(x) if is_fixed(node) else x for x in arrays]

    nodes = jax.tree.leaves(distribution, is_leaf=is_fixed)
    return tuple(x for node in nodes for x in marked(node))
