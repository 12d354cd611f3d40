"""Pages in a real browser: no error, no request, no sideways scrolling, legible in both colour schemes, told in words.

Skipped, and said so, where no Chromium is installed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headless_browser as headless
import pytest

from hockeystick._report.results import account_result, audit_result, graph_result, to_html
from hockeystick.accounting import AccountantGraph, Gaussian, Laplace
from hockeystick.audits import TradeoffPoint, Verdict

pytestmark = pytest.mark.statistical


# Contrast as WCAG 2 defines it (4.5 for text), of every text node against the nearest opaque background; text in a
# drawing stands on the page or on a tint of it, over which the tint is laid first.
CONTRAST = """
(() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const background = node => {
    for (let one = node; one; one = one.parentElement) {
      const c = parse(getComputedStyle(one).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ['TITLE', 'DESC', 'title', 'desc', 'STYLE'].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const inside = node.closest('svg');
    let ink = parse(inside ? (style.fill === 'none' ? style.color : style.fill) : style.color);
    ink[3] *= Number(style.opacity);
    let paper = background(node);
    const box = inside && node.closest('g') && node.closest('g').querySelector('rect');
    if (box) {
      const tint = parse(getComputedStyle(box).fill);
      paper = over([...tint.slice(0, 3), Number(getComputedStyle(box).fillOpacity)], paper);
    }
    ink = over(ink, paper);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) poor.push([walk.currentNode.data.trim(), ink, paper]);
  }
  return poor;
})()
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"


def graph() -> AccountantGraph:
    plain = AccountantGraph().source("a clinic with a rather long name").source("survey", size=3)
    plain = plain.release("mean", Gaussian(5.0), reads=["a clinic with a rather long name"])
    return plain.release("count", Laplace(2.0), reads=["survey"], count=3).post("page", reads=["mean", "count"])


def verdict() -> dict[str, Any]:
    points = (TradeoffPoint(0.06, 0.5, 0.05, 0.07, 0.49, 0.51), TradeoffPoint(0.5, 0.1, 0.49, 0.51, 0.09, 0.11))
    found = Verdict(
        outcome="refuted",
        epsilon_claimed=1.0,
        delta=0.0,
        epsilon_lower=1.7,
        confidence=0.999,
        samples=1_000_000,
        timed=False,
        direction="d1->d0",
        event="output is one of " + "'averylongwordthatcannotbebroken'" * 8,
        count_p=250_000,
        count_q=30_000,
        trials=500_000,
        epsilon_tested=1.0,
        delta_tested=0.0,
        detectable_epsilon=1.01,
        float_leak=True,
        bits=False,
        seed=7,
        seconds=3.2,
        warnings=("a leak",),
        tradeoff=points,
    )
    return audit_result(found, target="a/very/long/path/to/mymech.py:release", d0="[0]", d1=json.dumps([1] * 80))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = headless.find()
    if program is None:
        pytest.skip(f"no browser is installed ({', '.join(headless.NAMES)}): pages are not looked at")
    with headless.browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    account = account_result(graph().guarantee(), 1e-6)
    certified = {**verdict(), "certificate": account}
    made = {
        "one": to_html(verdict()),
        "several": to_html(certified, account, graph_result(graph(), 1e-6, None)),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["one", "several"])
def test_a_page_in_a_browser(
    page: Any, pages: dict[str, str], tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    page.open(pages[name], width=width, dark=dark)

    assert page.messages() == []
    assert page.requests() == [pages[name]]
    assert page.evaluate(OVERFLOW) == 0
    assert page.evaluate(CONTRAST) == []
    headings = page.evaluate(HEADINGS)
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(headings, headings[1:], strict=False))
    page.screenshot(tmp_path / "page.png")
    header = (tmp_path / "page.png").read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", header[16:20])[0] == width


def test_every_element_has_an_accessible_name(page: Any, pages: dict[str, str]) -> None:
    page.open(pages["several"], width=360)
    found = page.accessible()

    names = {role: [name for one, name in found if one == role] for role, _ in found}
    pictures = [name for role in ("image", "img", "graphics-document") for name in names.get(role, [])]
    assert len(pictures) == 4 and all(pictures)  # two plots, two drawings
    assert sum("Accountant graph" in name for name in pictures) == 2
    assert "3 results" in names["heading"] and all(names["heading"]) and all(names["region"])
    assert len(names["columnheader"]) > 10 and names["rowheader"]
    assert names["navigation"] == ["Results"] and len(names["link"]) == 3


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("<script>alert(1)</script>", "Content Security Policy"),
        ('<img src="https://example.invalid/x.png" alt="">', "example.invalid"),
    ],
)
def test_the_browser_check_catches_a_planted_error(
    page: Any, pages: dict[str, str], tmp_path: Path, spoilt: str, said: str
) -> None:
    """What the page must not do, planted in it, is seen by the test above."""
    (tmp_path / "bad.html").write_text(to_html(verdict()).replace("</main>", f"{spoilt}</main>"), encoding="utf-8")
    page.open((tmp_path / "bad.html").as_uri(), width=360)

    assert said in " ".join(page.messages())


def test_the_check_catches_poor_contrast_and_overflow(page: Any, tmp_path: Path) -> None:
    text = to_html(verdict()).replace("--soft: #55606b", "--soft: #b5b0ab").replace("max-width: 60rem", "width: 60rem")
    (tmp_path / "bad.html").write_text(text, encoding="utf-8")
    page.open((tmp_path / "bad.html").as_uri(), width=360)

    assert page.evaluate(CONTRAST) and page.evaluate(OVERFLOW) > 0
