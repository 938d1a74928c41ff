"""How good a fit is: bounds, likelihoods, distances, mixing, importance weights, the verdict."""

from uivi.evaluation.annealing import AIS, Sandwich, Tuning
from uivi.evaluation.bounds import BoundValue, Evaluated, PaperElbo, bracket, evaluate
from uivi.evaluation.classification import Predictive, predict
from uivi.evaluation.importance import MomentGaps, moment_gaps, pareto_k, smoothed_weights
from uivi.evaluation.likelihood import Likelihood, StudentT
from uivi.evaluation.metrics import Quadrature, kl_quadrature, sliced_wasserstein, sobol_mixing
from uivi.evaluation.reverse_mixing import ReverseMixing, measure_mixing
from uivi.evaluation.verdict import Check, Verdict

__all__ = [
    "AIS",
    "BoundValue",
    "Check",
    "Evaluated",
    "Likelihood",
    "MomentGaps",
    "PaperElbo",
    "Predictive",
    "Quadrature",
    "ReverseMixing",
    "Sandwich",
    "StudentT",
    "Tuning",
    "Verdict",
    "bracket",
    "evaluate",
    "kl_quadrature",
    "measure_mixing",
    "moment_gaps",
    "pareto_k",
    "predict",
    "sliced_wasserstein",
    "smoothed_weights",
    "sobol_mixing",
]
