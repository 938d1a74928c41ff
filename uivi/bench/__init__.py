"""`uivi bench`: what an update costs on this device, and what it could cost."""

from uivi.bench.running import PARTS, bench
from uivi.bench.table import table

__all__ = ["PARTS", "bench", "table"]
