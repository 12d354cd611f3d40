"""Tests of reports: numbers rounded in the safe direction, strict JSON, plots, and self-contained pages."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hockeystick._report.commands.audit import audit_report
from hockeystick._report.parts.plots import Plot, Series, claimed_curve, svg_plot, text_plot
from hockeystick._report.results import audit_result, strict, to_html, to_json, to_report, to_terminal
from hockeystick._words import figures
from hockeystick.audits import TradeoffPoint, Verdict

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def verdict(**changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "outcome": "refuted",
        "epsilon_claimed": 1.0,
        "delta": 0.0,
        "epsilon_lower": 1.73456789,
        "confidence": 0.999,
        "samples": 1_000_000,
        "timed": True,
        "direction": "d1->d0",
        "event": "output < 0.5",
        "count_p": 250_000,
        "count_q": 30_000,
        "trials": 500_000,
        "epsilon_tested": 1.0,
        "delta_tested": 0.0,
        "detectable_epsilon": 1.01234567,
        "float_leak": False,
        "bits": False,
        "seed": 7,
        "seconds": 3.2,
        "delta_lower": 0.251297,
        "tradeoff": (TradeoffPoint(0.06, 0.5, 0.05, 0.07, 0.49, 0.51), TradeoffPoint(0.5, 0.1, 0.49, 0.51, 0.09, 0.11)),
    }
    return Verdict(**(values | changes))


def result(**changes: Any) -> dict[str, Any]:
    return audit_result(verdict(**changes), target="mymech.py:release", d0="[0]", d1="[1]")


def shown(content: dict[str, Any], *, encoding: str = "utf-8", width: int = 100) -> str:
    """What a terminal of this encoding and width shows, without colours."""
    from io import BytesIO, TextIOWrapper

    file = TextIOWrapper(BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(to_terminal(content))
    return capture.get()


# -------------------------------------------------------------------------------------------------------- numbers


@given(FINITE)
def test_an_upper_bound_is_never_shown_smaller_nor_a_lower_one_larger(value: float) -> None:
    assert float(figures.upper(value)) >= value
    assert float(figures.lower(value)) <= value


@given(st.floats(1e-300, 1e300))
def test_shown_numbers_are_close_to_the_exact_ones(value: float) -> None:
    for text in (figures.upper(value), figures.lower(value), figures.number(value)):
        assert float(text) == pytest.approx(value, rel=1.1e-4)


@pytest.mark.parametrize(
    "value, upper, lower",
    [
        (1.3037148, "1.3038", "1.3037"),
        (0.1, "0.1", "0.1"),
        (0.0, "0", "0"),
        (12.0, "12", "12"),
        (100_000.0, "100000", "100000"),
        (1_234_567.0, "1.2346e6", "1.2345e6"),
        (5e-10, "5e-10", "5e-10"),
        (math.inf, "inf", "inf"),
        ("inf", "inf", "inf"),
        (None, "–", "–"),
    ],
)
def test_examples_of_bounds(value: Any, upper: str, lower: str) -> None:
    assert (figures.upper(value), figures.lower(value)) == (upper, lower)


def test_chosen_numbers_and_events() -> None:
    assert [figures.exact(v) for v in (1.0, 1e-6, 0.999999, 0.1)] == ["1", "1e-06", "0.999999", "0.1"]
    assert figures.event_text("Mix(p=0.461595099, e=Laplace(b=2.0))", 80) == "Mix(p=0.4616, e=Laplace(b=2))"
    assert figures.shorten("a\n b" + "c" * 20, 8) == "a bcccc…"


# ------------------------------------------------------------------------------------------------------------ JSON


def test_strict_turns_everything_into_plain_values() -> None:
    value = {
        "f": np.float64(1.5),
        "i": np.int64(3),
        "b": np.bool_(True),
        "a": np.array([[1.0, np.inf], [np.nan, -np.inf]]),
        "t": (1, None, "x"),
        3: {"set"},
        "o": complex(1, 2),
    }

    plain = strict(value)

    assert plain == {
        "f": 1.5,
        "i": 3,
        "b": True,
        "a": [[1.0, "inf"], [None, "-inf"]],
        "t": [1, None, "x"],
        "3": ["set"],
        "o": "(1+2j)",
    }
    assert type(plain["b"]) is bool and type(plain["i"]) is int


@pytest.mark.statistical
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_json_is_strict_for_every_result(value: Any) -> None:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    text = to_json({"value": value})

    assert json.loads(text, parse_constant=refuse) == strict({"value": value})


def test_a_result_survives_its_own_json() -> None:
    content = result(detectable_epsilon=math.inf)

    assert json.loads(to_json(content)) == content
    assert content["detectable_epsilon"] == "inf" and content["seed"] == 7 and "schema" not in content


# ------------------------------------------------------------------------------------------------------- terminal


def test_the_terminal_report_has_what_the_verdict_has() -> None:
    text = shown(result())

    for words in (
        "refuted: the claim of (1, 0)-differential privacy is false (confidence level 0.999)",
        "ε ≥ 1.7345 at δ = 0",  # rounded down
        "δ ≥ 0.25129 at ε = 1",  # rounded down
        "output < 0.5",
        "more likely on d1 than on d0",
        "1,000,000 from each data set, limited by the time",
        "mymech.py:release",
    ):
        assert words in text
    assert re.search(r"d1\s+250,000\s+500,000\s+50\.0000%", text)
    assert re.search(r"d0\s+30,000\s+500,000\s+6\.0000%", text)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"outcome": "consistent"}, "consistent: no violation of (1, 0)-differential privacy was found"),
        ({"outcome": "consistent"}, "ε ≥ 1.0124 with probability 0.9, by such an event"),  # rounded up
        ({"samples": 2000, "planned": 10**6, "timed": False}, "stopped after 2,000 of 1,000,000 from each data set"),
        (
            {"outcome": "inconclusive", "detectable_epsilon": math.inf},
            "no violation, however large, with probability 0.9, by such an event",
        ),
        ({"epsilon_tested": 0.25, "delta_tested": 0.01}, "ε = 0.25, δ = 0.01 (a point of the claimed curve)"),
        ({"float_leak": True}, "(not part of the verdict without --bits)"),
        ({"float_leak": True, "bits": True}, "(part of the verdict)"),
        ({"tradeoff": ()}, "event of the verdict"),
    ],
)
def test_the_terminal_report_of_other_verdicts(changes: dict[str, Any], words: str) -> None:
    assert words in " ".join(shown(result(**changes)).split())


def test_a_narrow_terminal_and_one_without_unicode() -> None:
    narrow = shown(result(), width=44)
    ascii_only = shown(result(), encoding="ascii")

    assert max(map(len, narrow.splitlines())) <= 44
    assert "┌" in narrow and "┌" not in ascii_only


def test_terminal_commands_in_a_result_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in shown(result(event="output is '\x1b]0;owned\x07'"))


# ----------------------------------------------------------------------------------------------------------- plots


@pytest.mark.statistical
@given(st.floats(0.0, 20.0), st.floats(0.0, 1.0))
def test_the_claimed_curve_is_the_one_of_the_claim(epsilon: float, delta: float) -> None:
    curve = claimed_curve(epsilon, delta, "claim")

    alarms = np.linspace(0.0, 1.0, 201)
    exact = np.maximum.reduce(
        [np.zeros(201), 1 - delta - np.exp(epsilon) * alarms, np.exp(-epsilon) * (1 - delta - alarms)]
    )
    np.testing.assert_allclose(np.interp(alarms, curve.x, curve.y), exact, atol=1e-12)


def plot(**changes: Any) -> Plot:
    series = (
        claimed_curve(1.0, 0.1, "claim <&>$x_1$"),
        Series("seen", (0.2,), (0.5,), "points", ((0.1, 0.3),), ((0.4, 0.6),)),
    )
    values: dict[str, Any] = {
        "title": "A plot",
        "x_label": "false alarms",
        "y_label": "misses",
        "series": series,
        "description": "What can be seen",
        "x_limits": (0.0, 1.0),
        "y_limits": (0.0, 1.0),
    }
    return Plot(**(values | changes))


@pytest.mark.parametrize("width", [20, 40, 60, 90, 200])
def test_the_text_plot_fits_the_width(width: int) -> None:
    text = text_plot(plot(), width=width)

    assert max(map(len, text.splitlines())) <= max(40, min(width, 90))
    assert "\x1b" not in text and text.startswith("A plot\nmisses (up) against false alarms (right)\n")
    assert text.endswith("  · claim <&>$x_1$\n  x seen")


def test_the_text_plot_puts_points_where_they_are() -> None:
    points = Series("corner", (0.0, 1.0), (0.0, 1.0), "points")
    drawn = [line for line in text_plot(plot(series=(points,)), width=60).splitlines() if line[4:5] in "┤│"]

    assert drawn[0].rstrip("│").endswith("·") and drawn[-1][5] == "·"
    assert sum(line.count("·") for line in drawn) == 2


@pytest.mark.statistical
def test_logarithmic_plots_take_zeros_to_their_edge() -> None:
    points = Series("zero", (0.0, 0.1), (0.01, 1.0), "points")
    logarithmic = plot(series=(points,), log=True, x_limits=(1e-3, 1.0), y_limits=(1e-3, 1.0))

    text = text_plot(logarithmic, width=80)

    assert "0.001" in text and "0.01" in text
    assert text.count("·") == 3  # two points and the legend
    assert "svg" in svg_plot(logarithmic, name="p")


def test_a_terminal_without_plotext_gets_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)

    assert text_plot(plot(), width=80).startswith("(no plot: plotext does not load here")


def test_more_series_than_colours_are_refused_not_dropped() -> None:
    with pytest.raises(ValueError, match="20 series"):
        plot(series=(Series("s", (0.0,), (0.0,)),) * 20)


@pytest.mark.statistical
def test_svg_plots_can_share_a_page() -> None:
    first, second = svg_plot(plot(), name="plot0"), svg_plot(plot(), name="plot1")

    def identifiers(svg: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]+)"', svg))

    assert not identifiers(first) & identifiers(second)
    for svg in (first, second):
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= identifiers(svg)
        assert "currentColor" in svg and "<style" not in svg and "<metadata" not in svg
        assert ">claim &lt;&amp;&gt;$x_1$</text>" in svg  # escaped, and not read as mathematics


@pytest.mark.statistical
def test_drawing_leaves_no_trace_in_matplotlib() -> None:
    code = (
        "import sys, matplotlib\n"
        "from hockeystick._report.parts.plots import Plot, Series, svg_plot\n"
        "names = [name for name in matplotlib.rcParams if name != 'backend']\n"  # reading that one loads pyplot
        "before = [matplotlib.rcParams[name] for name in names]\n"
        "line = Series('s', (0.0, 1.0), (0.0, 1.0))\n"
        "svg_plot(Plot('t', 'x', 'y', (line,), 'd', (0, 1), (0, 1)), name='p')\n"
        "assert [matplotlib.rcParams[name] for name in names] == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------------------ page


class Outline(HTMLParser):
    """Collects what a screen reader and a strict browser would trip over."""

    void = {"meta", "br", "hr", "img", "input", "link"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>{{ 7*7 }}"


@pytest.mark.statistical
def test_the_page_is_well_formed_and_accessible() -> None:
    outline = Outline()
    outline.feed(to_html(result(warnings=("a leak",))))

    tags = [tag for tag, _ in outline.tags]
    assert outline.open == []
    assert tags.count("h1") == 1 and tags.count("h2") >= 2 and tags.count("main") == 1
    assert dict(outline.tags)["html"]["lang"] == "en"
    assert tags.count("caption") == tags.count("table") >= 1
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in outline.tags if tag == "th")
    pictures = [attrs for tag, attrs in outline.tags if attrs.get("role") == "img"]
    assert len(pictures) == tags.count("svg") == 1 and all(attrs["aria-label"] for attrs in pictures)
    assert any(attrs.get("name") == "viewport" for _, attrs in outline.tags)
    identifiers = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.statistical
def test_the_page_needs_nothing_from_outside_and_runs_nothing() -> None:
    page = to_html(result())

    assert not re.search(r"https?:|\bsrc=|<script|<link|<iframe|@import|\bon\w+=", page)
    assert "default-src 'none'" in page


@pytest.mark.statistical
@pytest.mark.parametrize("field", ["event", "direction"])
def test_hostile_texts_are_shown_not_run(field: str) -> None:
    page = to_html(result(**{field: HOSTILE + ("->d0" if field == "direction" else "")}))

    assert "<script" not in page and "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "{{ 7*7 }}" in page


@pytest.mark.statistical
def test_a_hostile_target_and_data_set_are_shown_not_run() -> None:
    page = to_html(audit_result(verdict(), target=HOSTILE, d0=HOSTILE, d1=HOSTILE))

    assert "<script" not in page and "<img" not in page and page.count("&lt;script&gt;") >= 4


@pytest.mark.statistical
def test_a_page_can_be_made_from_the_json_file_alone() -> None:
    content = result()

    assert to_html(json.loads(to_json(content))) == to_html(content)
    assert to_report(content) == audit_report(content)
