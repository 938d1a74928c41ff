"""Bayesian neural networks for tables of UCI, by the two protocols of the literature."""
