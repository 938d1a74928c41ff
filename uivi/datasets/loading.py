"""Loads, finds, downloads and checks data sets by name."""

import pathlib
from collections.abc import Iterable

import numpy as np

from uivi import _checks
from uivi.datasets import store
from uivi.datasets.records import DataError, Dataset, DatasetStatus, Spec, Split, State
from uivi.datasets.specs import DATASETS


def load(name: str, *, download: bool = True, progress: bool = True) -> Dataset:
    """Loads a data set as NumPy arrays and checks its content.

    Each file is looked up in the directory that the environment variable UIVI_DATA names, then in the cache
    (UIVI_CACHE, or XDG_CACHE_HOME/uivi, or ~/.cache/uivi). If neither has it, it is downloaded to the cache.

    Args:
        name: name of the data set, a key of `DATASETS`.
        download: whether to download missing files.
        progress: whether to show a progress bar while downloading, if standard error is a terminal.

    Returns:
        The data set. Images have one row each, with values 0..255 (grey) or 0 and 1 (binary) in uint8. Features
        are float32 (float64 for waveform, pines and tables with a number to predict). Labels are int32 and
        start at 0.

    Raises:
        ValueError: if the name is unknown.
        DataError: if a file is missing, corrupt, or cannot be downloaded or written.

    Examples:
        >>> from uivi import datasets
        >>> digits = datasets.load("mnist")  # doctest: +SKIP
        >>> digits.train.x.shape, digits.train.y.max()  # doctest: +SKIP
        ((60000, 784), 9)
    """
    spec = _spec(name)
    paths, arrays = _obtain(spec, download=download, progress=progress)
    return Dataset(
        name=name,
        description=spec.description,
        source=_where(paths),
        train=_split(arrays, "train"),
        valid=_split(arrays, "valid") if "valid.x" in arrays else None,
        test=_split(arrays, "test") if "test.x" in arrays else None,
        num_classes=spec.num_classes,
    )


def fetch(name: str, *, progress: bool = True) -> list[pathlib.Path]:
    """Downloads the missing files of a data set, checks all files, and returns their paths."""
    return _obtain(_spec(name), download=True, progress=progress)[0]


def find(name: str) -> list[pathlib.Path]:
    """Returns the paths of a data set's files without reading them, or an empty list if any is missing."""
    paths = [path for path in map(store.find, _spec(name).files) if path is not None]
    return paths if len(paths) == len(_spec(name).files) else []


def status(name: str) -> DatasetStatus:
    """Returns whether a data set is found, where, and whether its content is correct."""
    spec = _spec(name)
    places = [(file, store.find(file)) for file in spec.files]
    where = _where([path for _, path in places if path is not None])
    try:
        for file, path in places:
            if path is not None:
                store.read(spec, file, path)
    except DataError as error:
        return DatasetStatus(name, State.CORRUPT, where, str(error))
    lacking = [file for file, path in places if path is None]
    if lacking:
        return DatasetStatus(name, State.MISSING, where, str(store.missing(spec, lacking[0])))
    note = "checksums agree" if spec.pinned else "no pinned checksum: only shapes, labels and ranges agree"
    return DatasetStatus(name, State.FOUND, where, note)


def verify(names: Iterable[str] = ()) -> list[DatasetStatus]:
    """Checks the content of the named data sets, or of all if none is named."""
    return [status(name) for name in [_spec(name).name for name in names] or DATASETS]


def binarize(images: np.ndarray) -> np.ndarray:
    """Maps grey levels 0..255 to 0 and 1 (uint8), with the threshold at half of 255.

    Examples:
        >>> import numpy as np
        >>> from uivi import datasets
        >>> datasets.binarize(np.array([0, 127, 128, 255], np.uint8))
        array([0, 0, 1, 1], dtype=uint8)
    """
    if images.dtype != np.uint8:
        raise ValueError(f"expected uint8 grey levels 0..255, got {images.dtype}: pass the images as loaded")
    return (images > 127).astype(np.uint8)


def _spec(name: str) -> Spec:
    return DATASETS[_checks.known_name("data set", name, DATASETS)]


def _obtain(spec: Spec, *, download: bool, progress: bool) -> tuple[list[pathlib.Path], dict[str, np.ndarray]]:
    paths, arrays = [], {}
    for file in spec.files:
        path = store.find(file)
        if path is not None:
            found = store.read(spec, file, path)
        elif download:
            path, found = store.get(spec, file, progress=progress)
        else:
            raise store.missing(spec, file)
        paths.append(path)
        arrays |= found
    return paths, arrays


def _split(arrays: dict[str, np.ndarray], split: str) -> Split:
    return Split(arrays[f"{split}.x"], arrays.get(f"{split}.y"))


def _where(paths: list[pathlib.Path]) -> str:
    """Returns the path of a single file, or the directories of several."""
    if len(paths) == 1:
        return str(paths[0])
    return ", ".join(dict.fromkeys(str(path.parent) for path in paths))
