"""Writes the screens of the gallery: a posterior in a notebook, and the report of `make demo`.

Run `make demo`, then `python -m tests.screens`. It needs Chromium, fits the eight schools, and writes to
docs/figures.
"""

import io
import pathlib
import tempfile

import jax
from PIL import Image

import uivi
from benchmarks.models.schools import EFFECTS, ERRORS, centred
from tests.pages import FIGURES, ROOT
from tests.paper import chromium

REPORT = ROOT / "results" / "demo" / "report.html"
REPORT_HEIGHT = 1_200
WIDTHS = {"narrow": 400, "wide": 1_400}
NOTEBOOK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><style>
:root {{ color-scheme: light dark }}
body {{ margin: 0; padding: 12px; font: 13px/1.5 Helvetica, Arial, sans-serif;
  background: light-dark(#fff, #111); color: light-dark(#000, #ddd) }}
pre {{ font: 13px monospace; margin: 0 0 8px; padding: 8px; background: light-dark(#f5f5f5, #222);
  border: 1px solid light-dark(#ddd, #444) }}
</style></head><body><pre>posterior</pre>{output}</body></html>"""
"""A cell of a notebook and its output, in the colours of Jupyter."""


def main() -> None:
    """Write the screens in light and dark."""
    program = chromium.find()
    if program is None or not REPORT.exists():
        raise SystemExit(f"expected Chromium, found {program}, and {REPORT} from `make demo`")
    posterior = uivi.fit(centred, model_args=(EFFECTS, ERRORS), key=jax.random.key(0))
    with tempfile.TemporaryDirectory() as directory:
        notebook = pathlib.Path(directory) / "notebook.html"
        notebook.write_text(NOTEBOOK.format(output=posterior._repr_html_()))
        with chromium.browser(program, pathlib.Path(directory) / "profile") as tab:
            tab.call("Emulation.setScrollbarsHidden", hidden=True)
            for scheme in ("light", "dark"):
                tab.show(notebook, width=560, height=492, scheme=scheme, scale=1.5)
                write(f"screen_notebook_{scheme}.png", tab.screenshot())
                for name, width in WIDTHS.items():
                    tab.show(REPORT, width=width, height=REPORT_HEIGHT, scheme=scheme)
                    write(f"screen_report_{name}_{scheme}.png", tab.screenshot())


def write(name: str, png: bytes) -> None:
    """Write a picture with few colours, which is a third of the size."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64).save(FIGURES / name, optimize=True)


if __name__ == "__main__":
    main()
