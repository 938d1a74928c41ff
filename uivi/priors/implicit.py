"""Priors p(z) = ∫ p(z|ζ) p(ζ) dζ, known by their draws."""

import abc

from uivi._types import Draw, Key
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.priors import AbstractPrior
from uivi.trainable import Frozen


class AbstractImplicit(AbstractPrior):
    """A semi-implicit distribution as a prior: its ε is called ζ here. Its log p(z) is intractable."""

    @abc.abstractmethod
    def distribution(self) -> SemiImplicit:
        """Returns the distribution."""

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.distribution().dim

    def sample(self, key: Key) -> Draw:
        """Draws ζ ~ p(ζ), then z ~ p(z|ζ)."""
        return self.distribution().sample(key)


class Implicit(AbstractImplicit):
    """A semi-implicit prior that is trained with the model (Molchanov et al. 2019)."""

    family: SemiImplicit

    def __check_init__(self):
        _check_family(self.family)

    def distribution(self) -> SemiImplicit:
        """Returns the distribution."""
        return self.family


class FixedImplicit(AbstractImplicit):
    """A semi-implicit prior that is not trained: a simulator ζ -> z, say. Make it by `create`."""

    frozen: Frozen

    @classmethod
    def create(cls, family: SemiImplicit) -> "FixedImplicit":
        """Keeps `family` as it is."""
        _check_family(family)
        return cls(Frozen.create(family))

    def distribution(self) -> SemiImplicit:
        """Returns the distribution, with the gradient in its parameters stopped."""
        return self.frozen()


def _check_family(family: SemiImplicit) -> None:
    if not isinstance(family, SemiImplicit):
        raise TypeError(
            f"expected a uivi.SemiImplicit for an implicit prior, got {type(family).__name__}: give it a "
            "mixing distribution and a conditional, or use uivi.priors.VampPrior for a prior with a density"
        )
    if family.context_dim:
        raise ValueError(
            f"expected a prior without context, got one with context_dim={family.context_dim}: for a prior of "
            "rows, use uivi.priors.RowConditional"
        )
