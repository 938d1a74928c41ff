"""Moments of the posterior of the waveform regression, by a long run of NUTS."""

import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

REFERENCE = pathlib.Path(__file__).with_name("waveform_reference.csv")
"""Made by `python -m benchmarks.waveform_reference`, whose settings stand in its comments."""


class Moments(NamedTuple):
    """Mean and covariance of a posterior."""

    mean: Float[np.ndarray, "D"]
    covariance: Float[np.ndarray, "D D"]


def reference() -> Moments:
    """Reads the reference."""
    rows = np.loadtxt(REFERENCE, delimiter=",")
    return Moments(rows[:, 0], rows[:, 1:])
