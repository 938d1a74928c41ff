"""Optimisers, one update, and the driver that runs many of them."""
