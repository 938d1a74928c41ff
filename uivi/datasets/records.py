"""What a data set is: the arrays, the files that hold them, and where the files come from."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class DataError(RuntimeError):
    """A data set that is missing, damaged, or cannot be downloaded or written."""


class Split(NamedTuple):
    """Cases of one split.

    Attributes:
        x: one case a row, (N, features).
        y: int32 class labels from 0, (N,); None where the data set has none.
    """

    x: np.ndarray
    y: np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    Attributes:
        name: its name in `DATASETS`.
        description: what it is.
        source: the file or directory the bytes came from.
        train: the training cases.
        valid: the validation cases, for the data sets that come with such a split.
        test: the test cases.
        num_classes: number of classes; None without labels.
    """

    name: str
    description: str
    source: str
    train: Split
    valid: Split | None
    test: Split
    num_classes: int | None


class Content(NamedTuple):
    """An array read from a file, and the bytes of it that the checksum covers."""

    array: np.ndarray
    hashed: bytes | memoryview


Reader = Callable[[bytes], dict[str, Content]]


class Part(NamedTuple):
    """What an array must be: its shape and the SHA256 of its content, None where that is not known."""

    shape: tuple[int, ...]
    sha256: str | None


class Source(NamedTuple):
    """One download: mirrors in the order of trial, the reader of what they send, and its arrays."""

    urls: tuple[str, ...]
    read: Reader
    parts: Mapping[str, Part]


@dataclasses.dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        path: where it lies below a data directory, with forward slashes.
        read: turns its bytes into arrays named `train.x`, `train.y`, `valid.x`, ...
        parts: what these arrays must be.
        sources: the downloads it is made of; empty for a file that is not public.
        pack: makes the file of the downloaded arrays; None where the one download is the file itself.
    """

    path: str
    read: Reader
    parts: Mapping[str, Part]
    sources: tuple[Source, ...] = ()
    pack: Callable[[dict[str, np.ndarray]], bytes] | None = None


@dataclasses.dataclass(frozen=True)
class Spec:
    """A named data set: a row of `DATASETS`."""

    name: str
    description: str
    files: tuple[File, ...]
    num_classes: int | None

    @property
    def public(self) -> bool:
        """Whether it can be downloaded."""
        return all(file.sources for file in self.files)

    @property
    def pinned(self) -> bool:
        """Whether the SHA256 of every array is known."""
        return all(part.sha256 for file in self.files for part in file.parts.values())

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Shape of `x` for each split."""
        parts = {name: part for file in self.files for name, part in file.parts.items()}
        splits = ("train", "valid", "test")
        return {split: parts[f"{split}.x"].shape for split in splits if f"{split}.x" in parts}


class State(enum.StrEnum):
    """What `status` can say of a data set."""

    FOUND = "found"
    MISSING = "missing"
    CORRUPT = "corrupt"


class DatasetStatus(NamedTuple):
    """Whether a data set is there, where, and what is to be said about it."""

    name: str
    state: State
    where: str
    note: str
