"""`uivi bench`: what an update costs on this device, and what it could cost."""

from uivi.bench.runner import PARTS, bench
from uivi.bench.terminal import table

__all__ = ["PARTS", "bench", "table"]
