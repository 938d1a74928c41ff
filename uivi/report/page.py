"""One self-contained HTML page."""

import base64
import html
import pathlib

from uivi import archive
from uivi.experiments import DEVIATIONS, EXPERIMENTS
from uivi.report import figures, tables
from uivi.report.results import Result, load_results, median

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tr:hover td { background: #f6f8fa }
img { max-width: 100% } .ok { color: #1a7f37 } .no { color: #b2182b } code { background: #f2f2f2 }
"""

NOTES = """
<p>KL(q‖p) is by quadrature on a grid; the median over the seeds, with the worst in brackets. The ELBO of these
normalised targets is −KL, so 0 is exact; the lower side includes the ε that made z, the upper side leaves it
out, and both carry a standard error of 2,048 draws. The paper's estimator (100 draws, 10,000 shared ε, the
generating one left out) is biased upwards. <em>recovered</em> is the share of the gradient of I(z;ε) that
the reverse sampler recovers (1 is unbiased); <em>moved</em> the share of i-SIR weight that leaves the start;
k-hat uses the estimate of log q from above. Seconds include compilation and exclude evaluation; all seeds
run side by side and share them.</p>
"""


def write_page(directory: pathlib.Path) -> pathlib.Path:
    """Write `report.html` into `directory` from the results below it."""
    directory = pathlib.Path(directory)
    results = load_results(directory)
    path = directory / "report.html"
    archive.write_bytes(path, _page(results).encode())
    return path


def _page(results: list[Result]) -> str:
    targets = {name: experiment.target for name, experiment in EXPERIMENTS.items()}
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>uivi: results</title><style>{STYLE}</style></head><body>",
        "<h1>Unbiased implicit variational inference: toy experiments</h1>",
        "<h2>Draws</h2><p>Contours of the target and 300 draws of each fit (first seed), as in the paper's ",
        "Figure 2.</p>",
        _image(figures.draws_figure(targets, results), "draws over contours"),
        f"<h2>Results</h2><div class='scroll'>{_table(results)}</div>{NOTES}",
        f"<h2>Against the goals</h2>{_goals(results)}",
        "<h2>Bound against time</h2>",
        _image(figures.history_figure(results), "ELBO against time"),
        f"<h2>Where the <code>paper</code> preset differs from the paper</h2>{_list(DEVIATIONS)}",
        f"<h2>Provenance</h2>{_list(sorted({_provenance(r) for r in results}))}",
        "</body></html>",
    ]
    return "\n".join(parts)


def _table(results: list[Result]) -> str:
    head = "".join(f"<th>{html.escape(h)}</th>" for h in tables.HEADERS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in tables.rows(results)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _goals(results: list[Result]) -> str:
    lines = []
    for result in results:
        config, kl = result["config"], median(result, "kl", "kl")
        if (config["preset"], config["method"]) != ("default", "uivi") or kl is None:
            continue
        goal = result["expected"]["kl"]
        kind, word = ("ok", "reached") if kl <= goal else ("no", "missed")
        lines.append(
            f"<li>{html.escape(result['title'])}: KL {kl:.5f}, goal {goal} "
            f"(<span class='{kind}'>{word}</span>; {html.escape(result['expected']['source'])})</li>"
        )
    return f"<ul>{''.join(lines)}</ul>" if lines else "<p>No run of the default preset here.</p>"


def _provenance(result: Result) -> str:
    config, versions = result["config"], result["versions"]
    return (
        f"{config['experiment']} {config['preset']}-{config['method']}: seeds {config['seeds']}, "
        f"{config['num_steps']:,} updates, fingerprint {result['fingerprint']}, {result['device']}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )


def _list(items) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def _image(png: bytes, alt: str) -> str:
    return f"<img alt='{alt}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"
