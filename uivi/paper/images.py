"""Images in results and figures."""

import base64

import numpy as np
from jaxtyping import Array, Float

SIDE = 28


def encoded(images: Float[Array, "N P"]) -> str:
    """Encodes pixels between 0 and 1 as bytes in base64."""
    return base64.b64encode(np.round(255 * np.asarray(images)).astype(np.uint8).tobytes()).decode()


def framed(text: str) -> np.ndarray:
    """Decodes images, with a grey frame around each."""
    images = np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, SIDE, SIDE)
    return np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=90)


def strip(images: np.ndarray) -> np.ndarray:
    """Returns the images side by side."""
    return np.concatenate(list(images), axis=1)
