"""Errors that others have published for the same protocols.

All are second-hand: from notes on the papers. Their splits are their own, at random like ours.
"""

from typing import NamedTuple


class PublishedErrors(NamedTuple):
    """Errors on test rows.

    Attributes:
        method: the method.
        rmse: root mean squared error; None if we know none.
        nll: mean negative log likelihood of a row; None if we know none.
    """

    method: str
    rmse: float | None
    nll: float | None


OTHERS = "UIVI, as run by others"

PUBLISHED: dict[str, tuple[PublishedErrors, ...]] = {
    "networks-boston": (
        PublishedErrors("KSIVI", 2.555, None),
        PublishedErrors("DIVI", None, 2.477),
        PublishedErrors(OTHERS, 3.266, 2.606),
    ),
    "networks-concrete": (
        PublishedErrors("KSIVI", 5.750, None),
        PublishedErrors("SIVI-SM", None, 3.229),
        PublishedErrors(OTHERS, 7.668, 3.490),
    ),
    "networks-yacht": (
        PublishedErrors("SIVI-SM", 0.884, 1.432),
        PublishedErrors(OTHERS, 2.720, 2.281),
    ),
    "networks-protein": (
        PublishedErrors("DIVI", 4.493, 2.927),
        PublishedErrors(OTHERS, 5.021, 3.029),
    ),
    "networks-concrete-narrow": (PublishedErrors("PVI", 0.43, None), PublishedErrors(OTHERS, 0.50, None)),
    "networks-yacht-narrow": (PublishedErrors("PVI", 0.13, None), PublishedErrors(OTHERS, 0.18, None)),
    "networks-protein-narrow": (PublishedErrors("PVI", 0.87, None), PublishedErrors(OTHERS, 0.92, None)),
}
"""By experiment. Errors of the narrow networks are in standard deviations of the values."""


def best(name: str, quantity: str) -> float | None:
    """Returns the smallest error that others than UIVI have published, by its name."""
    found = [getattr(each, quantity) for each in PUBLISHED.get(name, ()) if each.method != OTHERS]
    return min((error for error in found if error is not None), default=None)


def of_uivi(name: str, quantity: str) -> float | None:
    """Returns the error of UIVI as others have run it, by its name."""
    found = [getattr(each, quantity) for each in PUBLISHED.get(name, ()) if each.method == OTHERS]
    return next(iter(found), None)
