"""Random splits of a table into training and test rows."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from uivi import datasets


class Split(NamedTuple):
    """A table, split at random and standardised by its training rows.

    Attributes:
        x: features of the training rows, with mean 0 and standard deviation 1; a constant one is 0.
        y: their values, with mean 0 and standard deviation 1.
        test_x: features of the test rows, on the scale of the training rows.
        test_y: their values, on the scale of the training rows.
        unit: standard deviation of the training values, by which values were divided.
    """

    x: Float[np.ndarray, "N F"]
    y: Float[np.ndarray, "N"]
    test_x: Float[np.ndarray, "R F"]
    test_y: Float[np.ndarray, "R"]
    unit: float


def split(dataset: str, seed: int, test_share: float) -> Split:
    """Loads a data set and splits all of its rows anew, by a seed."""
    data = datasets.load(dataset)
    assert data.train.y is not None
    assert data.test is not None
    assert data.test.y is not None
    x, y = np.concatenate([data.train.x, data.test.x]), np.concatenate([data.train.y, data.test.y])
    # NumPy's legacy generator is the one that never changes between releases.
    order = np.random.RandomState(seed).permutation(len(x))
    size = round(test_share * len(x))
    return standardised(x[order[size:]], y[order[size:]], x[order[:size]], y[order[:size]])


def standardised(x: np.ndarray, y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray) -> Split:
    """Returns training and test rows on the scale of the training rows."""
    spread = np.where(x.std(0) > 0, x.std(0), 1.0)
    mean, unit = y.mean(), float(y.std())
    return Split(
        (x - x.mean(0)) / spread,
        (y - mean) / unit,
        (test_x - x.mean(0)) / spread,
        (test_y - mean) / unit,
        unit,
    )
