"""Measures how good a fit is: bounds, likelihoods, distances, mixing, importance weights, a verdict."""

from uivi.evaluation.annealing import AIS, Sandwich, Tuning
from uivi.evaluation.bounds import BoundValue, Evaluated, bracket, evaluate, paper_elbo
from uivi.evaluation.check import Check, Verdict
from uivi.evaluation.classification import Predictive, predict
from uivi.evaluation.coverage import Coverage
from uivi.evaluation.doubly import DoublyEvaluated, evaluate_doubly, learn_proposal
from uivi.evaluation.importance import MomentGaps, Weights, moment_gaps, pareto_k, smoothed_weights
from uivi.evaluation.likelihood import Likelihood, StudentT
from uivi.evaluation.metrics import Quadrature, kl_quadrature, sliced_wasserstein, sobol_mixing
from uivi.evaluation.precision import Precision
from uivi.evaluation.reverse_mixing import ReverseMixing, measure_mixing
from uivi.evaluation.thorough import Thorough

__all__ = [
    "AIS",
    "BoundValue",
    "Check",
    "Coverage",
    "DoublyEvaluated",
    "Evaluated",
    "Likelihood",
    "MomentGaps",
    "Precision",
    "Predictive",
    "Quadrature",
    "ReverseMixing",
    "Sandwich",
    "StudentT",
    "Thorough",
    "Tuning",
    "Verdict",
    "Weights",
    "bracket",
    "evaluate",
    "evaluate_doubly",
    "kl_quadrature",
    "learn_proposal",
    "measure_mixing",
    "moment_gaps",
    "paper_elbo",
    "pareto_k",
    "predict",
    "sliced_wasserstein",
    "smoothed_weights",
    "sobol_mixing",
]
