"""The names that a file may contain: the only thing that loading consults to find a class or a function.

A name in a file is a public name that stays the same when code moves. It is never a module path, and loading
imports nothing. Everything else in a file needs the reader's consent, see `uivi.load(path, trust=...)`.

To add a class or an activation, add a line. To rename a class, change the right-hand side only: files that
were written before still load. A line that is changed on the left or removed makes older files unreadable:
raise `uivi.storage.archive.FORMAT`.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi import families, networks, trainable

CLASSES: dict[str, type[eqx.Module]] = {
    # Families.
    "ExplicitGaussian": families.ExplicitGaussian,
    "FullGaussian": families.FullGaussian,
    "SemiImplicit": families.SemiImplicit,
    "TwoNetGaussian": families.TwoNetGaussian,
    # Conditionals.
    "Affine": families.Affine,
    "AtModes": families.AtModes,
    "AtParticles": families.AtParticles,
    "Exponential": families.Exponential,
    "Gamma": families.Gamma,
    "Gaussian": families.Gaussian,
    "Laplace": families.Laplace,
    "Layered": families.Layered,
    "LinearGaussian": families.LinearGaussian,
    "NetGaussian": families.NetGaussian,
    "Reparameterised": families.Reparameterised,
    "Sheared": families.Sheared,
    "Standardised": families.Standardised,
    "Stretched": families.Stretched,
    "Warped": families.Warped,
    # Scales.
    "LogScale": families.LogScale,
    "RawScale": families.RawScale,
    # Mixing distributions.
    "StandardNormal": families.StandardNormal,
    "Uniform": families.Uniform,
    # Parts.
    "Linear": networks.Linear,
    "MLP": networks.MLP,
    "NonTrainable": trainable.NonTrainable,
}
"""The classes that a posterior file may name."""

ACTIVATIONS: dict[str, Callable] = {
    "celu": jax.nn.celu,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_silu": jax.nn.hard_silu,
    "hard_tanh": jax.nn.hard_tanh,
    "identity": jax.nn.identity,
    "leaky_relu": jax.nn.leaky_relu,
    "log_sigmoid": jax.nn.log_sigmoid,
    "mish": jax.nn.mish,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
    "soft_sign": jax.nn.soft_sign,
    "softplus": jax.nn.softplus,
    "squareplus": jax.nn.squareplus,
    "tanh": jnp.tanh,
}
"""The functions that a posterior file may name."""

_CLASS_NAMES = {cls: name for name, cls in CLASSES.items()}
_FUNCTION_NAMES = {id(function): name for name, function in ACTIVATIONS.items()}


def class_name(cls: type) -> str | None:
    """Returns the name of one of our classes, or None for any other class."""
    return _CLASS_NAMES.get(cls)


def function_name(function: Callable) -> str | None:
    """Returns the name of an activation of the table, or None for any other function."""
    return _FUNCTION_NAMES.get(id(function))
