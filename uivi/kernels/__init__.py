"""Fused GPU kernels. Importing this package needs neither Triton nor a GPU."""

from uivi.kernels.moves import Tiling, fused_moves, is_available, misfit
from uivi.kernels.reference import log_density, reference_moves
from uivi.kernels.types import Adaptation, MoveInputs, Moves

__all__ = [
    "Adaptation",
    "MoveInputs",
    "Moves",
    "Tiling",
    "fused_moves",
    "is_available",
    "log_density",
    "misfit",
    "reference_moves",
]
