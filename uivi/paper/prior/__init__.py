"""Priors of a variational autoencoder: with a density, or doubly semi-implicit."""
