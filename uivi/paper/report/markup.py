"""Small functions that return HTML."""

import base64
import html
import re
import struct
from collections.abc import Iterable

from uivi.paper.report.columns import Column
from uivi.paper.results import Result

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --line: #ccc; --soft: #f2f4f6; --shade: #0003;
  --ok: #1a7f37; --no: #b2182b; --flag: #ffe2df; --flagged: #8c1515; --warn: #fff4d6; --figure: none;
  --blend: normal }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --text: #e3e6ea; --line: #444; --soft: #23272e;
  --shade: #0009; --ok: #4ac26b; --no: #ff8182; --flag: #4c1d1b; --flagged: #ffc1ba; --warn: #3b2f0b;
  --figure: invert(.92) hue-rotate(180deg); --blend: lighten } }
* { box-sizing: border-box }
body { background: var(--page); color: var(--text); overflow-wrap: anywhere; max-width: 82rem;
  font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; line-height: 1.25 } h3 { font-size: 1.05rem; margin-top: 1.8rem }
h2 { font-size: 1.3rem; line-height: 1.3; margin-top: 2.6rem; border-bottom: 1px solid var(--line) }
p, ul { max-width: 62rem } ul { padding-left: 1.4rem }
/* What is wider than the page scrolls by itself; a shadow at its edge says that there is more. */
.scroll { overflow-x: auto; max-width: 100%; background:
  linear-gradient(to right, var(--page) 1rem, transparent) 0 0 / 3rem 100% local no-repeat,
  linear-gradient(to left, var(--page) 1rem, transparent) 100% 0 / 3rem 100% local no-repeat,
  linear-gradient(to right, var(--shade), transparent) 0 0 / .8rem 100% scroll no-repeat,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / .8rem 100% scroll no-repeat }
table { overflow-wrap: normal; border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right }
th { white-space: normal; vertical-align: bottom; min-width: 4.5rem; max-width: 9rem }
th.text, td.text { text-align: left } th.text { min-width: 0 }
@media (max-width: 40rem) { td:first-child { white-space: normal; min-width: 7rem } }
/* The method stays in sight while the numbers scroll. */
th.name, td.name { position: sticky; left: 0; background: var(--page) } tr:hover td { background: var(--soft) }
.figures { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1rem }
.figures .scroll { flex: 1 1 calc(.8 * var(--natural)); max-width: min(100%, var(--natural)) }
/* The text of a figure stays readable: the figure shrinks by a quarter at most, and then scrolls. */
img { display: block; width: auto; max-width: 100%; min-width: calc(.72 * var(--natural)); height: auto;
  background: white; border-radius: 4px }
/* The lighter of both colours: what was white takes the colour of a dark page. */
img.drawn { filter: var(--figure); mix-blend-mode: var(--blend) }
code, pre { background: var(--soft); font-size: .85em } pre { overflow-x: auto; padding: .6rem }
.ok { color: var(--ok) } .no { color: var(--no) }
td.flag { background: var(--flag); color: var(--flagged); font-weight: 600 }
.warning { background: var(--warn); border-left: 4px solid #d9a400; padding: .4rem .8rem }
"""


def heading(text: str) -> str:
    """Returns the heading of a figure or a table."""
    return f"<h3>{html.escape(text)}</h3>"


def prose(text: str) -> str:
    """Returns a text in which only backticks mean something: they enclose code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def note(text: str) -> str:
    """Returns a paragraph of text."""
    return f"<p>{prose(text)}</p>"


def warning(text: str) -> str:
    """Returns a highlighted paragraph."""
    return f"<p class='warning'>{prose(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    """Returns a bulleted list of texts."""
    return "<ul>" + "".join(f"<li>{prose(item)}</li>" for item in items) + "</ul>"


def figures(pngs: Iterable[bytes], alt: str) -> str:
    """Returns drawn figures, side by side where there is room. A dark page inverts them but for their hues."""
    return _images(pngs, alt, "drawn")


def pictures(pngs: Iterable[bytes], alt: str) -> str:
    """Returns pictures, which look the same on a dark page, side by side where there is room."""
    return _images(pngs, alt, "picture")


def _images(pngs: Iterable[bytes], alt: str, kind: str) -> str:
    return "<div class='figures'>" + "".join(_image(png, alt, kind) for png in pngs) + "</div>"


def _image(png: bytes, alt: str, kind: str) -> str:
    """Returns an image with its data inline, so that the page needs no other file."""
    width, height = struct.unpack(">II", png[16:24])  # where the header of a PNG file has them
    size = f"width='{width}' height='{height}'"
    source = f"src='data:image/png;base64,{base64.b64encode(png).decode()}'"
    tag = f"<img class='{kind}' alt='{html.escape(alt)}' {size} {source}>"
    return f"<div class='scroll' tabindex='0' style='--natural: {width}px'>{tag}</div>"


def folded(summary: str, text: str) -> str:
    """Returns preformatted text that unfolds on a click."""
    return f"<details><summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre></details>"


def table(columns: Iterable[Column], results: list[Result]) -> str:
    """Returns a table with one row per result."""
    columns = tuple(columns)
    head = "".join(f"<th{_kind(column)}>{html.escape(column.header)}</th>" for column in columns)
    rows = ("".join(_cell(column, result) for column in columns) for result in results)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll' tabindex='0'>{whole}</div>"


def _cell(column: Column, result: Result) -> str:
    kind = _kind(column, "flag" if column.flagged(result) else "")
    return f"<td{kind}>{html.escape(column.cell(result))}</td>"


def _kind(column: Column, mark: str = "") -> str:
    names = " ".join(name for name in (column.kind, mark) if name)
    return f" class='{names}'" if names else ""
