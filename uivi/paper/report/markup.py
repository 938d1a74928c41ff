"""Small functions that return HTML."""

import base64
import html
from collections.abc import Iterable

from uivi.paper.report.columns import Column
from uivi.paper.results import Result

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.3rem; margin-top: 2.6rem; border-bottom: 1px solid #bbb }
h3 { font-size: 1.05rem; margin-top: 1.8rem } p, li { max-width: 62rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right }
th { white-space: normal; vertical-align: bottom; max-width: 9rem }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tr:hover td { background: #f6f8fa }
img { max-width: 100%; height: auto } code, pre { background: #f2f2f2; font-size: 12px }
pre { overflow-x: auto }
.ok { color: #1a7f37 } .no { color: #b2182b } td.flag { background: #ffe2df; color: #8c1515; font-weight: 600 }
.warning { background: #fff4d6; border-left: 4px solid #d9a400; padding: .4rem .8rem }
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
    return f"<img alt='{html.escape(alt)}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"


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
