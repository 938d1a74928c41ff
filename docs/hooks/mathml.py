"""MkDocs hook that turns LaTeX into MathML at build time, so that formulas need no script, font or network."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

# The markup that pymdownx.arithmatex produces with `generic: true`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[\s*(.+?)\s*\\\]</div>', re.DOTALL)
TAG = re.compile(r"\\tag\{(\w+)\}")
# latex2mathml marks these operators as identifiers, which browsers set without space.
BETTER = {
    "<mi>log</mi>": '<mi>log</mi><mspace width="0.17em" />',
    "<mi>&#x0007E;</mi>": '<mo lspace="0.28em" rspace="0.28em">&#x0223C;</mo>',
    "<mi>;</mi>": '<mo lspace="0" rspace="0.17em">;</mo>',
}


def on_page_content(content: str, **_: object) -> str:
    """Replaces every formula of a page; the number in its tag moves to the right margin."""
    content = INLINE.sub(lambda found: _mathml(found[1], display="inline"), content)
    content = BLOCK.sub(_block, content)
    if 'class="arithmatex"' in content:
        raise PluginError("a formula was left as LaTeX: see docs/hooks/mathml.py")
    return content


def _mathml(latex: str, display: str) -> str:
    formula = convert(html.unescape(latex), display=display)
    for plain, better in BETTER.items():
        formula = formula.replace(plain, better)
    return formula


def _block(found: re.Match[str]) -> str:
    number = "".join(f"({n})" for n in TAG.findall(found[1]))
    formula = _mathml(TAG.sub("", found[1]), display="block")
    return f'<div class="equation">{formula}<span class="equation-number">{number}</span></div>'
