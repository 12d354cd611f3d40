"""The page docs/try-it.md: its numbers are the package's, rounded up, and what a browser shows are these numbers."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import headless_browser as headless
import pytest
from benchmark_scripts import benchmark

import hockeystick as hs

ROOT = Path(__file__).parents[2]
script = benchmark("try_it")
NUMBERS = script.read()
AXES = [("training", "noise", "rate", "epochs"), ("releases", "noise", "count")]


def positions(table: str, *axes: str) -> list[tuple[Any, ...]]:
    return list(itertools.product(*(NUMBERS[table][axis] for axis in axes)))


@pytest.mark.parametrize("axes", AXES, ids=lambda axes: str(axes[0]))
def test_the_page_has_a_row_for_every_position_and_rows_worsen_along_each_slider(axes: tuple[str, ...]) -> None:
    at, rows = positions(*axes), NUMBERS[axes[0]]["rows"]
    assert len(at) == len(rows) and {len(row) for row in rows} == {1 + len(script.DELTAS) + len(script.PARTS)}
    by_position = dict(zip(at, rows, strict=True))
    for here, row in by_position.items():
        bounds = row[: 1 + len(script.DELTAS)]  # δ at ε = 0, and ε at the δ of the slider, which falls
        assert bounds[1:] == sorted(bounds[1:])
        for i, axis in enumerate(axes[1:]):
            values = NUMBERS[axes[0]][axis]
            for value in values[values.index(here[i]) + 1 :][:1]:
                other = by_position[*here[:i], value, *here[i + 1 :]][: len(bounds)]
                less, more = (other, bounds) if axis == "noise" else (bounds, other)
                assert all(a <= b for a, b in zip(less, more, strict=True)), (here, axis)


def test_numbers_of_random_positions_are_the_packages_rounded_up() -> None:
    chosen = random.Random(30)
    for axes, event in ((AXES[0], training), (AXES[1], releases)):
        for index in chosen.sample(range(len(positions(*axes))), 4):
            row, found = NUMBERS[axes[0]]["rows"][index], event(*positions(*axes)[index])
            for delta, shown in zip(script.DELTAS[1::2], row[2 : 1 + len(script.DELTAS) : 2], strict=True):
                bound = hs.epsilon(found, delta).upper
                assert bound <= shown <= bound * (1 + 1e-4)
            assert hs.delta(found, 0.0).upper <= row[0] <= 1.0
            assert hs.epsilon(found, row[0] / 2).upper <= row[1 + len(script.DELTAS)]


def training(noise: float, rate: float, epochs: int) -> Any:
    return hs.DPSGD(records=1_000_000, batch=round(1_000_000 * rate), epochs=epochs).event(noise)


def releases(noise: float, count: int) -> Any:
    return hs.compose((hs.events.Gaussian(noise), count))


@pytest.mark.parametrize("width", [390, 1200])
def test_sliders_show_the_epsilon_of_the_call_below_them(tmp_path: Path, width: int) -> None:
    if (program := headless.find()) is None:
        pytest.skip(f"no browser is installed ({', '.join(headless.NAMES)})")
    elements = "\n".join(re.findall(r"^<.*>$", (ROOT / "docs" / "try-it.md").read_text("utf-8"), re.MULTILINE))
    static = (ROOT / "docs" / "static").as_uri()
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>'
    style = '<link rel="stylesheet" href="_static/site.css"><h1>t</h1>'
    (tmp_path / "page.html").write_text((head + style + elements).replace("_static", static), encoding="utf-8")
    with headless.browser(program, tmp_path / "profile") as page:
        page.open((tmp_path / "page.html").as_uri(), width=width)
        before = shown(page)
        page.evaluate("document.getElementById('try-it-noise').focus()")
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
        after = shown(page)
        page.evaluate("document.querySelector('[value=releases]').click()")
        other = shown(page)
        assert page.messages() == [] and page.evaluate(OVERFLOW) == 0
        assert all(url.startswith("file:") for url in page.requests())
        named = {role: name for role, name in page.accessible() if role in ("slider", "image", "status")}
    assert {"slider", "image"} <= named.keys() and named["image"].startswith("Trade-off curve")
    assert before != after and float(after[0]) < float(before[0])
    for epsilon, call in (before, after, other):
        namespace: dict[str, Any] = {}
        exec(re.sub(r"print\(f\"\{(.*):\.5g\}\"\)", r"found = \1", call), namespace)
        assert namespace["found"].upper <= float(epsilon) <= namespace["found"].upper * (1 + 1e-4)


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def shown(page: Any) -> tuple[str, str]:
    """ε in the first line, and the Python call below."""
    text = page.evaluate("document.querySelector('#try-it .result').textContent")
    assert re.fullmatch(r"ε ≤ [\d.]+ at δ = 1e-5", text)
    return text.split()[2], page.evaluate("document.querySelector('#try-it pre').textContent")
