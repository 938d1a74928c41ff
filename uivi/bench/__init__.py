"""`uivi bench`: what an update costs on this device, and how close that is to what the hardware allows."""

from uivi.bench.runner import PARTS, run
from uivi.bench.terminal import table

__all__ = ["PARTS", "run", "table"]
