"""Unbiased implicit variational inference in JAX."""
