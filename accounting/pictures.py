"""The frame of all pictures for notebooks: axes of matplotlib, colours, and lines that never flatter.

A bound is computed at some points. Between two of them a line shows the worse of both, as a step, so that no point of
a picture is better than the truth. Matplotlib is an optional package, and is imported when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.optional_packages import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by readers who see no red, no green or no blue, and in grey by their dashes; legible on white and on black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # of Okabe & Ito
DASHES = ("-", "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3)), (0, (8, 3)))
GREY = "#7a8791"


def axes_of(ax: Any) -> Axes:
    """Returns ``ax``, or the axes of a new figure of pyplot, which notebooks show.

    Raises:
      MissingExtraError: matplotlib is not installed.
      InvalidArgumentError: ``ax`` is neither None nor axes of matplotlib.
    """
    require("matplotlib", "a picture", extra="report")
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise InvalidArgumentError("ax", ax, "are not axes of matplotlib", "give None, or axes of plt.subplots()")
    from matplotlib import pyplot

    _, made = pyplot.subplots(figsize=(6.0, 3.8), layout="constrained")
    return made


def colour(number: int) -> str:
    """Returns the colour of the line with this number, from 0; they repeat."""
    return COLOURS[number % len(COLOURS)]


def line(axes: Axes, number: int, x: Sequence[float], y: Sequence[float], label: str, *, worse: str = "") -> None:
    """Draws a line.

    Args:
      axes: where.
      number: of the line, for its colour and its dashes.
      x: increasing.
      y: the computed values.
      label: for the legend; "" for none.
      worse: "left" or "right": between two points the line has the value at that one of them, which is the worse one;
        by default it is straight.
    """
    style = {"left": "steps-post", "right": "steps-pre"}.get(worse, "default")
    dashes: Any = DASHES[number % len(DASHES)]
    width = 1.2 if worse and len(x) < 100 else 2.0  # a coarse stair is the ground of its points
    axes.plot(x, y, ls=dashes, lw=width, drawstyle=style, color=colour(number), label=label or None)


def tidy(axes: Axes, x_label: str, y_label: str, title: str = "") -> Axes:
    """Returns the axes with labels, a light grid, no box, and a legend if a line has a name."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    return axes
