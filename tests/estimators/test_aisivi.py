"""AISIVI and BSIVI: UIVI whose score comes from self-normalised importance sampling."""

import pytest

from tests.reverse.table import FLOW, LEARNED
from uivi.estimators import UIVI
from uivi.reverse import FromMixing, Importance
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    exact_gradient,
    gradient_samples,
    make_oracle,
    negative_elbo,
    trained_state,
)

NUM_ESTIMATES = 6_000


def samples_of(key, sampler, num_updates=0):
    oracle = make_oracle()
    state = trained_state(key, sampler, oracle.family, num_updates)
    return gradient_samples(key, UIVI(4, sampler), tuple(oracle), NUM_ESTIMATES, state=state)


def exact():
    return exact_gradient(negative_elbo, make_oracle().conditional)


@pytest.mark.parametrize(
    ("few", "many", "num_updates"),
    [
        pytest.param(Importance(2, FLOW), Importance(40, FLOW), 30, id="aisivi"),
        pytest.param(Importance(2, LEARNED), Importance(40, LEARNED), 200, id="gaussian"),
        pytest.param(Importance(5, FromMixing()), Importance(200, FromMixing()), 0, id="bsivi"),
    ],
)
def test_bias_falls_with_the_number_of_draws(few, many, num_updates, x64, getkey):
    """As one over it. A learned proposal needs a fifth of the draws of q(ε), even a flow of 30 updates."""
    assert_not_mean(samples_of(getkey(), few, num_updates), exact())
    assert_mean(samples_of(getkey(), many, num_updates), exact(), max_stderr=0.04, bias=0.02)


def test_a_learned_proposal_has_less_bias(x64, getkey):
    """With as many draws: the largest error falls below half, beyond what chance explains."""
    plain, learned = (
        samples_of(getkey(), Importance(5, FromMixing())),
        samples_of(getkey(), Importance(5, LEARNED), 200),
    )
    worst = lambda samples: abs(samples.mean(0) - exact()).max()
    assert worst(learned) < 0.5 * worst(plain)
    assert worst(plain) > 10 * (plain.std(0) / NUM_ESTIMATES**0.5).max()
