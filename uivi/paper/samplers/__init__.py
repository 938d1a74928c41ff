"""Targets that samplers are measured with, and what is known of each."""

from uivi.paper.samplers.benchmarks import BENCHMARKS, Benchmark, Evidence

__all__ = ["BENCHMARKS", "Benchmark", "Evidence"]
