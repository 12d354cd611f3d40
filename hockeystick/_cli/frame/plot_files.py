"""Pictures that commands write: ``--plot FILE``, as PNG, SVG or PDF by the suffix of the file."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hockeystick._cli.frame.destinations import output_file
from hockeystick._cli.frame.option_types import FileName
from hockeystick._cli.frame.shared_options import Given, option

if TYPE_CHECKING:
    from hockeystick.accounting import Guarantee

SUFFIXES = (".png", ".svg", ".pdf")
_AROUND = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.35, 1.6, 2.0)  # multiples of the value that was found

plot_option = option(
    "--plot FILE",
    FileName("output"),
    "Draw ε over the parameter, and the trade-off curve, as .png, .svg or .pdf.",
    dest="plot_file",
)


def plot_file(given: Given, *taken: Path | None) -> Path | None:
    """Returns the file of ``--plot``, after checking that it can be drawn and written; it is none of ``taken``.

    Raises:
      InvalidArgumentError: The suffix names no format, or the file can't be written.
      MissingExtraError: matplotlib is not installed.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.accounting.optional_packages import require

    file = given["plot_file"]
    if file is None:
        return None
    if Path(file).suffix.lower() not in SUFFIXES:
        raise InvalidArgumentError("--plot", file, "has no suffix of a picture", "name it .png, .svg or .pdf")
    require("matplotlib", "--plot", extra="report")
    return output_file("--plot", file, *taken)


def calibration_picture(
    path: Path,
    *,
    build: Callable[[Any], Guarantee],
    parameter: str,
    value: float,
    whole: bool,
    delta: float,
    target: float | None,
    limit: float = math.inf,
) -> bytes:
    """Returns the picture of a calibration.

    Args:
      path: The file that it is for, whose suffix is the format.
      build: The guarantee at a value of the parameter.
      parameter: The parameter's name.
      value: The value that was found.
      whole: Whether the parameter is a whole number.
      delta: The δ of the picture.
      target: The targeted ε, if there is one.
      limit: The largest value of the parameter.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from hockeystick.accounting.errors import HockeystickError
    from hockeystick.accounting.graph.drawing.curves import plot_parameter, plot_trade_offs

    found = {}
    for one in sorted({max(1, round(value * f)) if whole else min(limit, value * f) for f in _AROUND}):
        with contextlib.suppress(HockeystickError):  # beyond the parameter's domain
            found[one] = build(one)
    with matplotlib.rc_context({"svg.hashsalt": "hockeystick"}):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        epsilons = [guarantee.epsilon(delta).upper for guarantee in found.values()]
        plot_parameter(list(found), epsilons, value, left, name=parameter, delta=delta, mark="found", target=target)
        plot_trade_offs({f"{parameter} = {value:.6g}": found[value].event}, right)
        out = io.BytesIO()
        kind = path.suffix.lower()[1:]
        figure.savefig(out, format=kind, dpi=150, metadata=_undated(kind))
    return out.getvalue()


def _undated(kind: str) -> dict[str, None]:
    """Returns metadata without the time, so that equal results are equal files."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
