"""A NumPyro model with its data and the reference draws of its posterior."""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

REFERENCES = pathlib.Path(__file__).parents[1] / "references"


class Model(NamedTuple):
    """A posterior of the benchmark. `model(*args, **kwargs)` is an ordinary NumPyro model.

    Attributes:
        name: short name, also of the reference file.
        title: human-readable name.
        model: NumPyro model function.
        kwargs: data by name, as NumPy arrays.
        args: positional arguments; no model here needs any.
        decentre: normal sites that the reference run samples non-centred, because NUTS would be biased on the
            model as written. The posterior is the same.
    """

    name: str
    title: str
    model: Callable[..., None]
    kwargs: dict[str, Any]
    args: tuple = ()
    decentre: tuple[str, ...] = ()

    @property
    def path(self) -> pathlib.Path:
        """Path of the reference file."""
        return REFERENCES / f"{self.name}.npz"

    def reference(self) -> dict[str, np.ndarray]:
        """Returns constrained reference draws of every latent site, shape (draws, *site), in random order."""
        with np.load(self.path) as file:
            return {site: _decode(file, site) for site in _sites(file)}

    def moments(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns means and standard deviations of every latent site, from all draws of the reference run."""
        with np.load(self.path) as file:
            means = {site: file[f"mean/{site}"] for site in _sites(file)}
            return means, {site: file[f"sd/{site}"] for site in means}

    def metadata(self) -> dict[str, Any]:
        """Returns how the reference was made and its diagnostics: dim, chains, rhat, ess_bulk, versions, ..."""
        with np.load(self.path) as file:
            return {key.removeprefix("meta/"): file[key].item() for key in file if key.startswith("meta/")}


def _sites(file: Any) -> list[str]:
    return [key.removeprefix("kind/") for key in file if key.startswith("kind/")]


def _decode(file: Any, site: str) -> np.ndarray:
    """Undoes `references.encode` and `references.pack`. The values lie inside the support of the site."""
    offsets = file[f"whole/{site}"] + file[f"part/{site}"] / np.float32(256)
    values = file[f"centre/{site}"] + file[f"scale/{site}"] * offsets
    kind = file[f"kind/{site}"].item()
    if kind == "positive":
        return np.exp(values)
    if kind == "simplex":
        weights = np.exp(np.concatenate([values, np.zeros_like(values[..., :1])], -1))
        return weights / weights.sum(-1, keepdims=True)
    return values
