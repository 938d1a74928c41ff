"""PyMC models for the tests; importing this needs PyMC."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered

X = np.linspace(-1.0, 1.0, 6)
Y = 0.5 + 2.0 * X + np.sin(9 * X) / 5
ROWS = list("abcdef")


def regression() -> pm.Model:
    """Constrained, vector and deterministic variables, data, dims with labels."""
    with pm.Model(coords={"row": ROWS, "term": ["intercept", "slope"]}) as model:
        x = pm.Data("x", X, dims="row")
        scale = pm.HalfNormal("scale", 2.0)
        weights = pm.Normal("weights", 0.0, 3.0, dims="term")
        mean = pm.Deterministic("mean", weights[0] + weights[1] * x, dims="row")
        pm.Normal("y", mean, scale, observed=Y, dims="row")
    return model


def conjugate() -> pm.Model:
    """Two independent normal means, observed with known errors: the posterior is normal."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 1.0, [2.0, 0.5], shape=2)
        pm.Normal("y", mean, [1.0, 0.5], observed=[[2.0, -1.0], [3.0, 0.0]])
    return model


CONJUGATE_MEAN = np.array([(1 / 4 + 2 + 3) / (1 / 4 + 2), (4 * 1 + 4 * -1 + 0) / (4 + 8)])
CONJUGATE_VARIANCE = 1 / np.array([1 / 4 + 2, 4 + 8])


def half_normal():
    pm.HalfNormal("v", 2.0)


def beta():
    pm.Beta("v", 2.0, 3.0)


def interval():
    pm.Uniform("v", -1.0, 4.0)


def simplex():
    pm.Dirichlet("v", np.array([1.0, 2.0, 3.0]))


def ascending():
    pm.Normal("v", 0.0, 1.5, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])


def imputed():
    mean = pm.Normal("mean")
    pm.Normal("y", mean, 1.0, observed=np.array([1.0, np.nan, 2.0]))


def with_potential():
    mean = pm.Normal("mean")
    pm.Potential("pull", -3.0 * pt.abs(mean - 1.0))


def mixture():
    means = pm.Normal("means", 0.0, 3.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
    pm.NormalMixture("y", pm.Dirichlet("weights", np.ones(2)), means, 1.0, observed=Y)


def random_walk():
    walk = pm.GaussianRandomWalk(
        "walk", sigma=pm.Exponential("scale", 1.0), init_dist=pm.Normal.dist(), steps=5
    )
    pm.Poisson("y", pm.math.exp(walk), observed=np.arange(6))


def no_free():
    pm.Normal("y", 0.0, 1.0, observed=Y)


def discrete():
    pm.Normal("y", pm.Bernoulli("label", 0.3), 1.0, observed=Y)


def minibatch():
    pm.Normal("y", pm.Normal("mean"), 1.0, observed=pm.Minibatch(Y, batch_size=2), total_size=6)


def untransformed():
    pm.Normal("y", 0.0, pm.HalfNormal("scale", default_transform=None), observed=Y)


def circular():
    pm.VonMises("angle", 0.0, 1.0)


def nan():
    pm.Normal("y", pm.Normal("mean"), -1.0, observed=Y)


class Unknown(pt.Op):
    """An operation without a translation to JAX."""

    itypes, otypes = [pt.dscalar], [pt.dscalar]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0])


def unknown_op():
    pm.Normal("y", Unknown()(pm.Normal("mean")), 1.0, observed=Y)


def improper():
    pm.Flat("free")
    pm.Normal("y", pm.Normal("mean"), 1.0, observed=Y)


def made(declare) -> pm.Model:
    """A model of what `declare` declares."""
    with pm.Model() as model:
        declare()
    return model
