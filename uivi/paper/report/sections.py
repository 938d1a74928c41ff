"""All sections of the report, in order. A new kind of experiment needs a `section.py` and an entry here."""

from uivi import _checks
from uivi.paper.methods import section as methods
from uivi.paper.networks import section as networks
from uivi.paper.prior import section as prior
from uivi.paper.regression import section as regression
from uivi.paper.report.section import Section
from uivi.paper.results import Result
from uivi.paper.samplers import section as samplers
from uivi.paper.toy import section as toy
from uivi.paper.vae import section as vae

SECTIONS: dict[str, Section] = {
    "toy": toy.SECTION,
    "logreg": regression.FIGURE_3,
    "iterations": regression.FIGURE_4,
    "vae": vae.SECTION,
    "vae-prior": prior.SECTION,
    "methods": methods.SECTION,
    "samplers": samplers.SECTION,
    "networks": networks.SECTION,
}


def section_of(result: Result) -> Section:
    """Returns the section that shows a result."""
    return SECTIONS[_checks.known_name("kind of experiment", result["config"]["kind"], SECTIONS)]


def by_section(results: list[Result]) -> list[tuple[Section, list[Result]]]:
    """Returns the sections that have results, each with its results."""
    owners = [section_of(result) for result in results]
    pairs = [
        (section, [r for r, owner in zip(results, owners, strict=True) if owner is section])
        for section in SECTIONS.values()
    ]
    return [(section, members) for section, members in pairs if members]
