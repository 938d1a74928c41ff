"""Types for data sets: the arrays, the files that hold them, and where the files come from."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class DataError(RuntimeError):
    """Raised if a data set is missing or corrupt, or cannot be downloaded or written."""


class Split(NamedTuple):
    """The rows of one split.

    Attributes:
        x: features, shape (N, features).
        y: class labels from 0 in int32, or numbers to predict in float64, shape (N,); None for a data set
            without either.
    """

    x: np.ndarray
    y: np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    Attributes:
        name: name in `DATASETS`.
        description: one-line description.
        source: path of the file or directory that it was read from.
        train: training split.
        valid: validation split; None for a data set without one.
        test: test split; None for a data set that is used whole.
        num_classes: number of classes; None for a data set without classes.
    """

    name: str
    description: str
    source: str
    train: Split
    valid: Split | None
    test: Split | None
    num_classes: int | None


class Content(NamedTuple):
    """An array read from a file.

    Attributes:
        array: the array.
        hashed: the bytes that its checksum covers.
    """

    array: np.ndarray
    hashed: bytes | memoryview


Reader = Callable[[bytes], dict[str, Content]]


class Part(NamedTuple):
    """Expected shape and content of an array.

    Attributes:
        shape: its shape.
        sha256: checksum of its content; None if it is not known.
        counts: how often each class occurs in an array of labels; None if it is not known.
    """

    shape: tuple[int, ...]
    sha256: str | None
    counts: tuple[int, ...] | None = None


class Source(NamedTuple):
    """One download.

    Attributes:
        urls: mirrors, in the order in which they are tried.
        read: turns the downloaded bytes into arrays.
        parts: expected shape and content of these arrays.
        most_bytes: size beyond which a download is refused.
    """

    urls: tuple[str, ...]
    read: Reader
    parts: Mapping[str, Part]
    most_bytes: int


@dataclasses.dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        path: path below a data directory, with forward slashes.
        read: turns its bytes into arrays named `train.x`, `train.y`, `valid.x`, ...
        parts: expected shape and content of these arrays.
        sources: downloads that the file is made from; empty for a file that is not public.
        pack: makes the file from the downloaded arrays; None if the only download is the file itself.
    """

    path: str
    read: Reader
    parts: Mapping[str, Part]
    sources: tuple[Source, ...] = ()
    pack: Callable[[dict[str, np.ndarray]], bytes] | None = None


@dataclasses.dataclass(frozen=True)
class Spec:
    """Specification of a named data set: a row of `DATASETS`.

    Attributes:
        name: name of the data set.
        description: one-line description.
        files: files that hold it.
        num_classes: number of classes; None for a data set without classes.
    """

    name: str
    description: str
    files: tuple[File, ...]
    num_classes: int | None

    @property
    def public(self) -> bool:
        """Whether all files can be downloaded."""
        return all(file.sources for file in self.files)

    @property
    def pinned(self) -> bool:
        """Whether the SHA256 of every array is known."""
        return all(part.sha256 for file in self.files for part in file.parts.values())

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Shape of `x` in each split."""
        parts = {name: part for file in self.files for name, part in file.parts.items()}
        splits = ("train", "valid", "test")
        return {split: parts[f"{split}.x"].shape for split in splits if f"{split}.x" in parts}


class State(enum.StrEnum):
    """Whether a data set is available."""

    FOUND = "found"
    MISSING = "missing"
    CORRUPT = "corrupt"


class DatasetStatus(NamedTuple):
    """Outcome of `status` for one data set.

    Attributes:
        name: name of the data set.
        state: whether it is available.
        where: file or directories where it was found.
        note: how far its content was checked, or what is wrong and what to do.
    """

    name: str
    state: State
    where: str
    note: str
