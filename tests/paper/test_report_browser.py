"""The report page in a real browser, on a desk and on a phone, in light and dark."""

import itertools
import json

import pytest

from tests.paper import chromium
from tests.paper.samples import MAKERS, autoencoder, logreg, toy
from uivi.paper import report

WIDTHS = {"desk": 1400, "phone": 400}
SCHEMES = ("light", "dark")
SCREENS = list(itertools.product(WIDTHS, SCHEMES))
READABLE = 8.0
"""Height in CSS pixels of the smallest text in a figure that can be read."""
CONTRAST = 4.5
"""Least contrast of text with its background, by the Web Content Accessibility Guidelines (level AA)."""

MEASURE = """(() => {
  const root = document.documentElement, width = root.clientWidth;
  // What scrolls by itself may be wider than the page. All else must end inside it.
  const free = element => !element.closest('.scroll, pre, details');
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = colour => { const [r, g, b] = numbers(colour).map(x => linear(x / 255));
    return .2126 * r + .7152 * g + .0722 * b };
  const opaque = element => { const colour = getComputedStyle(element).backgroundColor;
    return numbers(colour)[3] === 0 && element.parentElement ? opaque(element.parentElement) : colour };
  const contrast = element => { const pair = [light(getComputedStyle(element).color), light(opaque(element))];
    return (Math.max(...pair) + .05) / (Math.min(...pair) + .05) };
  const box = element => element.getBoundingClientRect();
  const head = element => element.outerHTML.slice(0, 90);
  const all = [...document.body.querySelectorAll('*')];
  const images = [...document.images].map(image => ({alt: image.alt, loaded: image.complete,
    natural: image.naturalWidth, shown: box(image).width, filter: getComputedStyle(image).filter,
    blend: getComputedStyle(image).mixBlendMode,
    ratio: box(image).height / box(image).width - image.naturalHeight / image.naturalWidth}));
  const wide = [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1);
  return {width: innerWidth, dark: matchMedia('(prefers-color-scheme: dark)').matches, images,
    overflow: root.scrollWidth - width,
    outside: all.filter(free).filter(e => box(e).right > width + .5).map(head),
    scrolling: wide.length, clipped: wide.filter(e => getComputedStyle(e).overflowX !== 'auto').map(head),
    background: light(opaque(document.body)),
    text: parseFloat(getComputedStyle(document.querySelector('p')).fontSize),
    faint: all.filter(e => e.innerText?.trim() && contrast(e) < %(contrast)s).map(head)};
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    program = chromium.find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(chromium.NAMES)} is on the path")
    with chromium.browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with all sections, several methods and data sets, long names, and a warning."""
    out = tmp_path_factory.mktemp("results")
    long = "HAPT recordings, features recomputed (not UCI's matrix)"
    runs = [make() for make in MAKERS.values()] + [toy("paper", m) for m in ("uivi", "sivi", "explicit")]
    runs += [toy(title="X-shaped"), logreg(method="sivi"), logreg(title=long), logreg(title="word" * 30)]
    runs += [autoencoder(method=m) for m in ("sivi", "explicit")] + [
        autoencoder(title="Fashion", effort="quick")
    ]
    for i, run in enumerate(runs):
        (out / str(i)).mkdir()
        (out / str(i) / "result.json").write_text(json.dumps(run))
    (out / "result.json").write_text("null")
    return report.write_page(out)


def measure(tab, page, screen, scheme):
    tab.show(page, width=WIDTHS[screen], height=900, scheme=scheme)
    return tab.evaluate(MEASURE % {"contrast": CONTRAST})


@pytest.mark.parametrize(("screen", "scheme"), SCREENS)
def test_the_page_can_be_read(screen, scheme, tab, page):
    seen = measure(tab, page, screen, scheme)
    # The screen is the one that was asked for.
    assert (seen["width"], seen["dark"]) == (WIDTHS[screen], scheme == "dark")
    assert (seen["background"] < 0.05) is (scheme == "dark")
    # Nothing is wider than the page but tables and figures, which scroll by themselves.
    assert (seen["overflow"], seen["outside"], seen["clipped"]) == (0, [], [])
    assert seen["scrolling"] >= (5 if screen == "phone" else 1)
    assert seen["faint"] == []
    assert seen["text"] >= 14
    assert len(seen["images"]) > 10
    for image in seen["images"]:
        assert image["loaded"], image
        assert image["natural"] > 200, image
        assert image["alt"], image
        assert image["shown"] <= image["natural"] + 0.5, image
        assert image["ratio"] == pytest.approx(0, abs=0.01), image
        # Figures have text of 9 points at 110 dots per inch.
        assert image["shown"] / image["natural"] * 9 * 110 / 72 > READABLE, image
    inverted = [image["filter"] != "none" for image in seen["images"]]
    assert any(inverted) is (scheme == "dark")
    # An inverted figure has the ground of the page, not one of its own.
    assert [image["blend"] == "lighten" for image in seen["images"]] == inverted
    assert not all(inverted)


@pytest.mark.parametrize(("screen", "scheme"), SCREENS)
def test_the_browser_has_nothing_to_complain_of(screen, scheme, tab, page):
    tab.show(page, width=WIDTHS[screen], height=900, scheme=scheme)
    assert tab.evaluate("new Promise(done => setTimeout(() => done(1), 100))") == 1
    assert tab.reported("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    asked = [event["request"]["url"] for event in tab.reported("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [page.resolve().as_uri()]


def test_a_page_that_is_too_wide_or_faint_or_broken_is_noticed(tab, tmp_path):
    poor = tmp_path / "poor.html"
    poor.write_text(
        "<!doctype html><p style='font-size: 9px; color: #aaa; background: #fff'>faint"
        "<div style='width: 900px'>wide</div><img src='nothing.png' alt=''><script>nothing()</script>"
    )
    seen = measure(tab, poor, "phone", "light")
    assert seen["overflow"] > 400
    assert len(seen["outside"]) >= 1
    assert len(seen["faint"]) >= 1
    assert seen["text"] < 14
    assert [image["natural"] for image in seen["images"]] == [0]
    assert len(tab.reported("Runtime.exceptionThrown")) == 1
    assert len(tab.reported("Log.entryAdded")) >= 1
