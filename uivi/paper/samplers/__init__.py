"""Targets that samplers are measured with, what is known of each, and contests on them at equal seconds."""

from uivi.paper.samplers.benchmarks import BENCHMARKS, Benchmark, Evidence

__all__ = ["BENCHMARKS", "Benchmark", "Evidence"]
