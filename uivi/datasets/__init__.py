"""Named data sets as NumPy arrays: found locally or downloaded, and checked."""

from uivi.datasets.loading import binarize, fetch, find, load, status, verify
from uivi.datasets.records import DataError, Dataset, DatasetStatus, Spec, Split, State
from uivi.datasets.specs import DATASETS
from uivi.datasets.store import cache_directory

__all__ = [
    "DATASETS",
    "DataError",
    "Dataset",
    "Spec",
    "Split",
    "State",
    "DatasetStatus",
    "binarize",
    "cache_directory",
    "fetch",
    "find",
    "load",
    "status",
    "verify",
]
