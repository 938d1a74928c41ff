"""Small functions that return HTML."""

import base64
import html
import struct
from collections.abc import Iterable

from uivi.paper.report.columns import Column
from uivi.paper.results import Result

STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #f2f4f6; --ok: #1a7f37; --no: #b2182b;
  --flag: #ffe2df; --flagged: #8c1515; --warn: #fff4d6 }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #23272e; --ok: #4ac26b; --no: #ff8182;
  --flag: #4c1d1b; --flagged: #ffc1ba; --warn: #3b2f0b } body { background: #14171c; color: #e3e6ea } }
* { box-sizing: border-box }
body { overflow-wrap: anywhere; font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.3rem; margin-top: 2.6rem; border-bottom: 1px solid var(--line) }
h3 { font-size: 1.05rem; margin-top: 1.8rem } p, li { max-width: 62rem }
.scroll { overflow-x: auto }
table { overflow-wrap: normal; border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right }
th { white-space: normal; vertical-align: bottom; max-width: 9rem }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tr:hover td { background: var(--soft) }
/* A figure has its own white sheet, so that its colours hold in the dark; a narrow screen scrolls it. */
img { width: auto; max-width: 100%; min-width: min(36rem, var(--natural)); height: auto; background: white;
  border-radius: 4px } code, pre { background: var(--soft); font-size: 12px }
pre { overflow-x: auto }
.ok { color: var(--ok) } .no { color: var(--no) }
td.flag { background: var(--flag); color: var(--flagged); font-weight: 600 }
.warning { background: var(--warn); border-left: 4px solid #d9a400; padding: .4rem .8rem }
"""


def heading(text: str) -> str:
    """Returns the heading of a figure or a table."""
    return f"<h3>{html.escape(text)}</h3>"


def note(text: str) -> str:
    """Returns a paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def warning(text: str) -> str:
    """Returns a highlighted paragraph."""
    return f"<p class='warning'>{html.escape(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    """Returns a bulleted list of plain texts."""
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def image(png: bytes, alt: str) -> str:
    """Returns an image with its data inline, so that the page needs no other file."""
    width = struct.unpack(">I", png[16:20])[0]  # where the header of a PNG file has it
    size = f"style='--natural: {width}px'"
    source = f"src='data:image/png;base64,{base64.b64encode(png).decode()}'"
    return f"<div class='scroll'><img alt='{html.escape(alt)}' {size} {source}></div>"


def folded(summary: str, text: str) -> str:
    """Returns preformatted text that unfolds on a click."""
    return f"<details><summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre></details>"


def table(columns: Iterable[Column], results: list[Result]) -> str:
    """Returns a table with one row per result."""
    columns = tuple(columns)
    head = "".join(f"<th>{html.escape(column.header)}</th>" for column in columns)
    rows = ("".join(_cell(column, result) for column in columns) for result in results)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll'>{whole}</div>"


def _cell(column: Column, result: Result) -> str:
    mark = " class='flag'" if column.flagged(result) else ""
    return f"<td{mark}>{html.escape(column.cell(result))}</td>"
