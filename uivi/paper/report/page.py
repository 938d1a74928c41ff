"""The HTML page: one self-contained file with all sections."""

import json
import pathlib
from collections.abc import Callable

from uivi.paper.report import markup
from uivi.paper.report.loading import load_results
from uivi.paper.report.provenance import COLUMNS, data_sets, protocol_warning
from uivi.paper.report.sections import by_section
from uivi.paper.results import Result, distinct, run_name
from uivi.storage import archive

ABOUT = (
    "Every method fits a distribution q(z) to a posterior, by raising a lower bound of the log evidence (the "
    "ELBO). “explicit” is the usual choice, a Gaussian whose density is known. “sivi” and “uivi” mix Gaussians "
    "through a neural network, with noise ε as its input. So q(z) can take other shapes, but its density is "
    "unknown. SIVI (semi-implicit) raises an approximate bound. UIVI (unbiased implicit), the subject of the "
    "paper, estimates the gradient of the ELBO itself, by sampling which ε could have made each z. Larger "
    "bounds are better.",
    "The preset “paper” has the settings of the paper (Titsias & Ruiz, “Unbiased Implicit Variational "
    "Inference”, AISTATS 2019), the preset “default” has ours.",
)


def write_page(directory: pathlib.Path, doing: Callable[[str], None] = lambda words: None) -> pathlib.Path:
    """Writes `report.html` into `directory` from the results below it.

    Args:
        directory: where the results are.
        doing: is told what goes on, section by section.

    Returns:
        The path of the page.
    """
    directory = pathlib.Path(directory)
    results, faults = load_results(directory)
    path = directory / "report.html"
    archive.write_bytes(path, _page(results, faults, doing).encode())
    return path


def _page(results: list[Result], faults: list[str], doing: Callable[[str], None]) -> str:
    sections = by_section(results)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>uivi: results</title><style>{markup.STYLE}</style></head><body>",
        "<h1>Unbiased implicit variational inference: results</h1>",
        *map(markup.note, ABOUT),
        protocol_warning(results),
        *(markup.warning(f"Left out: {fault}") for fault in faults),
    ]
    for section, members in sections:
        doing(f"drawing the figures: {section.title}")
        parts += [f"<h2>{section.title}</h2>", section.body(members)]
    deviations = distinct(text for section, _ in sections for text in section.deviations)
    parts += [
        "<h2>Where the preset “paper” differs from the paper</h2>",
        markup.bullets(deviations),
        "<h2>How each result was made</h2>",
        markup.table(COLUMNS, results),
        data_sets(results),
        *(markup.folded(f"{run_name(r)}: configuration", json.dumps(r["config"], indent=1)) for r in results),
        "</body></html>",
    ]
    return "\n".join(parts)
