"""What methods refuse, before any program is compiled."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.estimators.table import explicit_family, flow_family, implicit_family, particle_family
from uivi.estimators import IWHVI, KSIVI, PVI, SIVI, SIVISM, UIVI, Explicit, FixedBandwidth, StickingTheLanding
from uivi.families import MLP
from uivi.priors import Normal
from uivi.reverse import ISIR, ByParticle, Coupled, Importance, LearnedFlow
from uivi.targets import BernoulliVAE, Rows
from uivi.testing import make_oracle


@pytest.fixture
def compiled(caplog):
    """JAX's messages about programs that it has compiled, but for the two that only split a key."""
    is_small = lambda text: any(name in text for name in ("jit(_keys)", "jit(_first_site)"))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        messages = lambda: [r.getMessage() for r in caplog.records]
        yield lambda: [text for text in messages() if "XLA compilation" in text and not is_small(text)]


def test_compilations_are_noticed(compiled):
    """The control."""
    jax.jit(lambda x: x + 3.0)(jnp.ones(7))
    assert compiled()


IMPLICIT = [UIVI(4), SIVI(4), IWHVI(4), KSIVI(4), SIVISM(4), PVI(4), UIVI(4, Coupled(4))]
OTHER = [UIVI(4, Importance(4, ByParticle())), PVI(4)]
CASES = [
    *[(x, explicit_family, "expected a uivi.SemiImplicit family") for x in IMPLICIT],
    *[(x, flow_family, "expected a uivi.SemiImplicit family") for x in IMPLICIT[:2]],
    *[(x, implicit_family, "expected an AtParticles conditional under Uniform") for x in OTHER],
    *[(x, implicit_family, "expected a family with a density") for x in (Explicit(4), StickingTheLanding(4))],
]


@pytest.mark.parametrize(("estimator", "make", "message"), CASES)
def test_a_family_that_a_method_cannot_use(estimator, make, message, compiled):
    family, target, key = make(), make_oracle().target, jax.random.key(0)
    before = len(compiled())
    with pytest.raises(TypeError, match=message):
        uivi.fit(target, key=key, family=family, estimator=estimator, progress=False)
    assert not compiled()[before:]


def test_a_flow_proposal_refuses_noise_of_one_coordinate(compiled):
    estimator = UIVI(4, ISIR(4, 1, LearnedFlow()))
    family, target, key = particle_family(), make_oracle().target, jax.random.key(0)
    before = len(compiled())
    with pytest.raises(ValueError, match="two coordinates or more for LearnedFlow, got 1"):
        uivi.fit(target, key=key, family=family, estimator=estimator, progress=False)
    assert not compiled()[before:]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ISIR(num_proposals=0), "`num_proposals` to be a positive whole number, got 0"),
        (lambda: Coupled(num_proposals=0), "`num_proposals` to be a positive whole number, got 0"),
        (lambda: Importance(num_draws=0), "`num_draws` to be a positive whole number, got 0"),
        (lambda: SIVI(num_mixing=0), "`num_mixing` to be a positive whole number, got 0"),
        # K = 0 is a hierarchical variational model.
        (lambda: IWHVI(num_proposals=-1), "`num_proposals` to be a positive whole number, got -1"),
        (lambda: KSIVI(num_draws=0), "`num_draws` to be a positive whole number, got 0"),
        (lambda: FixedBandwidth(0.0), "`length` to be positive and finite, got 0.0"),
        (lambda: uivi.presets.methods.paper_aisivi(num_proposals=0), "`num_draws` to be a positive whole"),
    ],
)
def test_numbers_of_no_use(make, message, compiled):
    with pytest.raises(ValueError, match=message):
        make()
    assert not compiled()


def test_a_prior_of_another_dimension(compiled):
    decoder = MLP.create(jax.random.key(0), 2, 4, width=3)
    images = Rows.create(np.zeros((5, 4), np.uint8))
    before = len(compiled())
    with pytest.raises(ValueError, match="a prior on 2 dimensions .*got one on 3"):
        BernoulliVAE(decoder, images, 3, Normal(3))
    assert not compiled()[before:]
