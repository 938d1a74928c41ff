"""Optimisers, one update, and the driver that runs many of them."""

from uivi.training.monitors import AbstractMonitor, ElboMonitor, RoundMonitor
from uivi.training.optimisers import adam, adam_cosine, paper_rmsprop, scale_by_paper_rmsprop, with_average
from uivi.training.rounds import Rounds
from uivi.training.update import FitState, Method

__all__ = [
    "AbstractMonitor",
    "ElboMonitor",
    "FitState",
    "Method",
    "RoundMonitor",
    "Rounds",
    "adam",
    "adam_cosine",
    "paper_rmsprop",
    "scale_by_paper_rmsprop",
    "with_average",
]
