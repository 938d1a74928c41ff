"""What tests of several integrations assert."""

import jax.numpy as jnp
import numpy as np


def assert_regression_is_constrained(target, x):
    """Of a model with a positive `scale`, two `weights` and the `mean` that they give: one draw, by name."""
    draw = target.constrain(jnp.array([0.3, 0.2, -0.7]))
    np.testing.assert_allclose(draw["scale"], np.exp(0.3), rtol=1e-6)
    np.testing.assert_allclose(draw["mean"], 0.2 - 0.7 * x, rtol=1e-5)
    assert set(draw) == {"scale", "weights", "mean"}
