"""Plots as values, which are drawn as text for terminals and as SVG for pages.

The trade-off plot shows the tests that distinguish two neighbouring data sets: the rate of misses against that of false
alarms, as in Dong, Roth & Su 2022. A claim (ε, δ) says that no test lies below the curve

    misses >= max(0, 1 - δ - e^ε · false alarms, e^-ε · (1 - δ - false alarms)).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting.pictures import COLOURS

_TEXT_MARKERS = "·xo+*#@%"
_COLOURS = (*COLOURS, "#b08d00", "#7a8791", "#c2487f")  # legible on white and on near-black
_INK = "#010203"  # a placeholder for the text colour of the page, which depends on the reader's dark mode


@frozen
class Series:
    """A curve or a set of points; ``x_interval`` and ``y_interval`` are the ends (low, high) of each point's interval.

    A "ceiling" is an upper bound on the true curve; the region above it, up to y = 1 - x, is shaded.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Literal["line", "dashed", "points", "ceiling"] = "line"
    x_interval: tuple[tuple[float, float], ...] = ()
    y_interval: tuple[tuple[float, float], ...] = ()


@frozen
class Plot:
    """A plot with its title, labels, and a description for readers who can't see it."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    description: str
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]
    log: bool = False  # both axes; a 0 is then drawn at the lower limit
    in_terminal: bool = True

    def __attrs_post_init__(self) -> None:
        if len(self.series) > len(_COLOURS):
            raise ValueError(f"{len(self.series)} series, but colours for {len(_COLOURS)}")


def claimed_curve(epsilon: float, delta: float, label: str) -> Series:
    """Returns the least misses that an (ε, δ) claim allows at each rate of false alarms."""
    corner = (1 - delta) / (1 + math.exp(epsilon))
    alarms = sorted({0.0, 1.0, 1 - delta, corner})
    misses = (max(0.0, 1 - delta - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - delta - a)) for a in alarms)
    return Series(label, tuple(alarms), tuple(misses))


def curve(label: str, points: Sequence[Sequence[float]], kind: Literal["line", "dashed", "ceiling"] = "line") -> Series:
    """Returns a curve through points (x, y), as results hold them."""
    return Series(label, tuple(float(x) for x, _ in points), tuple(float(y) for _, y in points), kind)


def text_plot(plot: Plot, *, width: int) -> str:
    """Returns the plot as text without colours, at most ``width`` columns wide, with the legend below.

    If plotext can't be imported, returns a line that says so.
    """
    try:
        import plotext
    except ImportError as error:  # its compiled part does not load on every system
        return f"(no plot: plotext does not load here: {' '.join(str(error).split())})"
    width = max(40, min(width, 90))
    figure = plotext.figure
    figure.clear()  # plotext has a single global figure
    figure.theme("colorless")
    figure.plot_size(width, max(12, width // 4))
    legend = []
    for series, marker in zip(plot.series, _TEXT_MARKERS, strict=False):
        x, y = _dense(plot, series, 4 * width) if series.kind != "points" else (series.x, series.y)
        figure.draw(figure.signal(_placed(plot, x, plot.x_limits), _placed(plot, y, plot.y_limits), marker=marker))
        legend.append(f"  {marker} {series.label}")
    for axis, limits in (("x", plot.x_limits), ("y", plot.y_limits)):
        ruler = figure.ruler(axis)
        ruler.lim(*_placed(plot, limits, limits))
        if plot.log:
            powers = range(math.ceil(math.log10(limits[0])), math.floor(math.log10(limits[1])) + 1)
            ruler.ticks(list(map(float, powers)), [f"{10.0**power:g}" for power in powers])
    drawn = figure.build().string(True)
    figure.clear()
    lines = [line.rstrip() for line in drawn.rstrip().splitlines()]
    return "\n".join([plot.title, f"{plot.y_label} (up) against {plot.x_label} (right)", *lines, *legend])


def _dense(plot: Plot, series: Series, points: int) -> tuple[Sequence[float], Sequence[float]]:
    """Returns the line with more points than columns, so that it has no gaps."""
    x = np.linspace(series.x[0], series.x[-1], points)
    if plot.log:
        x = np.geomspace(max(series.x[0], plot.x_limits[0]), series.x[-1], points)
    return x.tolist(), np.interp(x, series.x, series.y).tolist()


def _placed(plot: Plot, values: Sequence[float], limits: tuple[float, float]) -> list[float]:
    """Returns the values in the units of the axis, which are powers of ten if it is logarithmic."""
    return [math.log10(max(value, limits[0])) for value in values] if plot.log else list(values)


def svg_plot(plot: Plot, *, name: str) -> str:
    """Returns the plot as an SVG element for a page, in the page's own font and text colour.

    Args:
      plot: The plot.
      name: A name that is unique within the page, for identifiers.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    # These settings are global; the context restores them.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10, "text.parse_math": False}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(4.4, 2.9 + 0.22 * len(plot.series)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for series, colour in zip(plot.series, _COLOURS, strict=False):
            _draw(axes, series, colour)
        if plot.log:
            axes.set_xscale("log", nonpositive="clip")
            axes.set_yscale("log", nonpositive="clip")
            for axis in (axes.xaxis, axes.yaxis):  # the default 10⁻² is mathtext, which is switched off above
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_formatter(NullFormatter())
        axes.set(xlim=plot.x_limits, ylim=plot.y_limits)
        axes.set_xlabel(plot.x_label, color=_INK)
        axes.set_ylabel(plot.y_label, color=_INK)
        axes.tick_params(which="both", colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_INK)
        axes.grid(alpha=0.2, color=_INK)
        figure.legend(frameon=False, labelcolor=_INK, loc="outside lower left")  # below, where it covers nothing
        file = io.StringIO()
        no_metadata = dict.fromkeys(("Date", "Creator", "Type", "Format"))
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    return _embeddable(file.getvalue(), name)


def _draw(axes: object, series: Series, colour: str) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    if series.kind == "points":
        x, y = np.asarray(series.x), np.asarray(series.y)
        x_error, y_error = (
            np.abs(np.asarray(interval).T - at) if interval else None
            for interval, at in ((series.x_interval, x), (series.y_interval, y))
        )
        axes.errorbar(x, y, xerr=x_error, yerr=y_error, fmt="o", ms=4, capsize=2, color=colour, label=series.label)
    else:
        style = "--" if series.kind == "dashed" else "-"
        axes.plot(series.x, series.y, style, lw=2, color=colour, label=series.label)
    if series.kind == "ceiling":
        x = np.union1d(series.x, np.linspace(0.0, 1.0, 101))
        y = np.interp(x, series.x, series.y)
        axes.fill_between(x, y, np.maximum(y, 1.0 - x), color=colour, alpha=0.15, lw=0)


def _embeddable(svg: str, name: str) -> str:
    """Removes the parts of a stand-alone file, makes identifiers unique, and uses the colours of the page."""
    svg = svg[svg.index("<svg") :]
    for part in ("metadata", "style"):
        svg = re.sub(rf"<{part}\b.*?</{part}>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(width|height)="[\d.]+pt"', "", svg, count=2)  # the page sets the width, viewBox the shape
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = svg.replace(_INK, "currentColor")
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)  # the page describes the plot in words beside it
