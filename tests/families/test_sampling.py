"""Many draws in batches of one size."""

import jax
import numpy as np

import uivi
from uivi.families.sampling import BATCH, sample_many


def test_fewer_draws_are_the_first_of_more(getkey):
    family, key = uivi.ExplicitGaussian.create(2, 0.5), getkey()
    more = sample_many(key, family, BATCH + 10).z
    assert more.shape == (BATCH + 10, 2)
    np.testing.assert_array_equal(sample_many(key, family, 7).z, more[:7])
    np.testing.assert_array_equal(sample_many(key, family, BATCH).z, more[:BATCH])
    assert len(np.unique(np.asarray(more), axis=0)) == BATCH + 10, "batches differ"


def test_draws_inside_a_compiled_function(getkey):
    family, key = uivi.ExplicitGaussian.create(2, 0.5), getkey()
    inside = jax.jit(lambda key: sample_many(key, family, 5).z)(key)
    np.testing.assert_allclose(inside, sample_many(key, family, 5).z, rtol=1e-6)
