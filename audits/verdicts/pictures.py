"""Pictures of a verdict: its event beside the claim, and the power of its test over the number of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick.accounting.graph.drawing.curves import trade_off_axes
from hockeystick.accounting.pictures import GREY, axes_of, colour, line, tidy
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.audits.bounds.sample_limits import refutation_power

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 12  # of a curve of powers


def claimed_misses(points: Sequence[tuple[float, float]], alarms: Any) -> Any:
    """Returns the least rate of misses that a claim of all these (ε, δ) allows at each rate of false alarms."""
    alarms = np.asarray(alarms, dtype=float)
    least = np.zeros(alarms.shape)
    for epsilon, delta in points:
        ratio = math.exp(min(epsilon, 700.0))
        least = np.maximum(least, np.maximum(1 - delta - ratio * alarms, (1 - delta - alarms) / ratio))
    return least


def plot_power(
    *,
    probability_of_event: float,
    epsilon: float,
    delta: float,
    true_epsilons: Sequence[float],
    alpha: float,
    least: int,
    most: int,
    now: int | None = None,
    ax: Any = None,
) -> Axes:
    """Returns the axes with the probability that a test refutes a claim, over the number of outputs.

    One line for each true ε: of an event that has the probability q on one data set and e^ε·q + δ on the other. The
    powers are those of ``refutation_power``, estimates of about a per cent; straight lines join them.

    Args:
      probability_of_event: q, in (0, 1).
      epsilon, delta: the claimed point.
      true_epsilons: above ``epsilon``; those with e^ε·q + δ > 1 are left out.
      alpha: the level of the test.
      least, most: the range of the number of outputs from each data set.
      now: a number of outputs that is marked.
      ax: axes, or None.
    """
    q, alpha = (
        probability("probability_of_event", probability_of_event, open=True),
        probability("alpha", alpha, open=True),
    )
    least, most = integer("least", least, low=10), integer("most", most, low=11)
    axes = axes_of(ax)
    counts = np.unique(np.geomspace(least, max(most, least + 1), _POINTS).round().astype(int)).tolist()
    number = 0
    for true in true_epsilons:
        true = real("true_epsilons", true, low=epsilon, high=700.0)
        p = math.exp(true) * q + delta
        if p <= 1.0:
            powers = [refutation_power(n, p, q, epsilon=epsilon, delta=delta, alpha=alpha) for n in counts]
            line(axes, number, counts, powers, f"true ε = {true:.3g}")
            number += 1
    if now is not None:
        axes.axvline(now, color=GREY, ls=":", lw=1.5, label=f"{now:,} outputs")
    axes.set_xscale("log")
    axes.set_ylim(0.0, 1.02)
    return tidy(axes, "outputs from each data set", f"probability to refute ε = {epsilon:g}")


def plot_attack(
    points: Sequence[tuple[float, float]],
    label: str,
    found: tuple[float, float],
    estimated: Sequence[tuple[float, float, float, float, float, float]],
    ax: Any,
) -> Axes:
    """Returns the axes with the attacks that a claim allows, the event of a verdict, and the points that were measured.

    Args:
      points: of the claim.
      label: of the claim.
      found: false alarms and misses of the event.
      estimated: (fpr, fnr, fpr_low, fpr_high, fnr_low, fnr_high) of the measured points.
      ax: axes, or None.
    """
    axes = trade_off_axes({label: lambda alarms: claimed_misses(points, alarms)}, ax)
    alarms = np.linspace(0.0, 1.0, 401)
    axes.fill_between(alarms, 0.0, claimed_misses(points, alarms), color=colour(0), alpha=0.12, lw=0)
    if estimated:
        table = np.asarray(estimated)
        x, y = table[:, 0], table[:, 1]
        ends = [np.abs(table[:, [2, 3]].T - x), np.abs(table[:, [4, 5]].T - y)]
        axes.errorbar(
            x, y, xerr=ends[0], yerr=ends[1], fmt=".", ms=4, lw=1, color=GREY, label="measured, with intervals"
        )
    axes.plot([found[0]], [found[1]], "o", ms=8, color=colour(1), label="event of the verdict")
    return tidy(axes, "false alarms of an attack", "its misses")
