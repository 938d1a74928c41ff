"""`uivi bench`: what an update costs on this device, and what it could cost."""

from uivi.bench.benchmark import PARTS, bench
from uivi.bench.tables import table

__all__ = ["PARTS", "bench", "table"]
