"""Fused GPU kernels for HMC: all moves of all chains in one launch.

`uivi.gpu.dispatch` decides when they run. Importing this package needs neither Triton nor a GPU.
"""

from uivi.gpu.collapsed import CollapsedTiling, collapsed_misfit, collapsed_moves
from uivi.gpu.launch import is_available
from uivi.gpu.moves import Tiling, fused_moves, misfit
from uivi.gpu.reference import log_density, reference_moves
from uivi.gpu.types import Adaptation, CollapsedInputs, MoveInputs, Moves

__all__ = [
    "Adaptation",
    "CollapsedInputs",
    "CollapsedTiling",
    "MoveInputs",
    "Moves",
    "Tiling",
    "collapsed_misfit",
    "collapsed_moves",
    "fused_moves",
    "is_available",
    "log_density",
    "misfit",
    "reference_moves",
]
