"""Pictures of what events cost: ε over noise, ε over steps, the privacy profile, trade-off curves.

The points are certified bounds, computed as everywhere. Between two of them a picture shows the worse one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, fields

from hockeystick.accounting import validate
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.tradeoff_curve import deltas, trade_off
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, compose, parallel
from hockeystick.accounting.events.basic.declared import Failure
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.numerics import rounded_text
from hockeystick.accounting.pictures import GREY, axes_of, colour, line, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("utility", "steps", "profile", "trade-off")
_SCALES = {"noise_multiplier": 1, "sigma": 1, "scale": 1, "variance": 2}  # fields of events, and their power of noise
_ALARMS = np.unique(np.concatenate([np.linspace(0.0, 1.0, 401), np.geomspace(1e-4, 0.1, 60)]))
_MANY = 400  # points of a curve that is read off one law


def plot_event(event: PrivacyEvent, kind: str, *, delta: float, points: int, ax: Any) -> Axes:
    """Returns the axes with a picture of an event; see ``Guarantee.plot``."""
    check_event(event)
    kind = validate.one_of("kind", kind, *KINDS)
    delta, points = validate.probability("delta", delta), validate.integer("points", points, low=2, high=_MANY)
    if kind == "utility":
        return _over_noise(event, delta, points, ax)
    if kind == "steps":
        return _over_steps(event, delta, points, ax)
    return _profile(event, ax) if kind == "profile" else plot_trade_offs({"this guarantee": event}, ax)


def part_way(event: PrivacyEvent, step: int, steps: int) -> PrivacyEvent:
    """Returns the event after ``step`` of ``steps``: each part as often as that, in proportion, rounded up."""
    if isinstance(event, Parallel):
        return parallel(*(part_way(branch, step, steps) for branch in event.branches))
    if isinstance(event, Composed):
        return compose(*((part, -(-count * step // steps)) for part, count in event.parts))
    return event if step else NO_EVENT


def steps_of(event: PrivacyEvent) -> int:
    """Returns how often the part is paid that is paid most often."""
    if isinstance(event, Parallel):
        return max(map(steps_of, event.branches))
    return max(count for _, count in event.parts) if isinstance(event, Composed) else 1


def with_noise(event: PrivacyEvent, factor: float) -> PrivacyEvent:
    """Returns the event of the same accesses with ``factor`` times the noise.

    Raises:
      UnsupportedEventError: a part of the event is not an access with noise that can be scaled.
    """
    if isinstance(event, Parallel):
        return parallel(*(with_noise(branch, factor) for branch in event.branches))
    if isinstance(event, Composed):
        return compose(*((with_noise(part, factor), count) for part, count in event.parts))
    if isinstance(event, Failure) or event == NO_EVENT:
        return event
    names = {one.name for one in fields(type(event))}
    for name in names & _SCALES.keys():
        return evolve(event, **{name: getattr(event, name) * factor ** _SCALES[name]})
    for name in names & {"event"}:
        return evolve(event, **{name: with_noise(getattr(event, name), factor)})
    raise UnsupportedEventError(f'{type(event).__name__} has no noise to scale: use kind="steps" or kind="profile"')


def _epsilons(events: Sequence[PrivacyEvent], delta: float) -> list[float]:
    found = [_epsilon(event, delta) for event in events]
    if not any(map(math.isfinite, found)):
        raise InvalidArgumentError("delta", delta, "is one at which no ε of this picture is finite", "give a larger δ")
    return found


def _over_noise(event: PrivacyEvent, delta: float, points: int, ax: Any) -> Axes:
    factors = np.unique(np.append(np.geomspace(0.5, 4.0, points), 1.0))
    found = _epsilons([with_noise(event, float(factor)) for factor in factors], delta)
    return plot_parameter(
        factors.tolist(), found, 1.0, ax, name="noise, as a multiple of this guarantee's", delta=delta, mark="as it is"
    )


def _over_steps(event: PrivacyEvent, delta: float, points: int, ax: Any) -> Axes:
    steps = steps_of(event)
    tried = sorted({math.ceil(steps * i / points) for i in range(1, points + 1)})
    found = _epsilons([part_way(event, step, steps) for step in tried], delta)
    return plot_parameter([0, *tried], [0.0, *found], steps, ax, name="steps so far", delta=delta, mark="all steps")


def plot_parameter(
    values: Sequence[float],
    epsilons: Sequence[float],
    chosen: float,
    ax: Any,
    *,
    name: str,
    delta: float,
    mark: str,
    target: float | None = None,
) -> Axes:
    """Returns the axes with ε over a parameter, increasing or decreasing in it, and the chosen value."""
    axes = axes_of(ax)
    shown = [(x, y) for x, y in zip(values, epsilons, strict=True) if math.isfinite(y)]
    x, y = [point[0] for point in shown], [point[1] for point in shown]
    line(axes, 0, x, y, "certified ε", worse="left" if y[0] > y[-1] else "right")
    axes.plot(x, y, ".", color=colour(0), ms=7)
    at = dict(shown).get(chosen)
    if at is not None:
        axes.plot([chosen], [at], "o", ms=8, color=colour(1), label=f"{mark}: ε = {best_text(at)}")
    if target is not None:
        axes.axhline(target, color=GREY, ls=":", lw=1.5, label=f"target: ε = {target:g}")
    if 0.0 < 10.0 * min(y) < max(y):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_ylim(bottom=0.0)
    return tidy(axes, name, f"ε at δ = {delta:g}")


def best_text(epsilon: float) -> str:
    """Returns ε for a label, rounded up."""
    return rounded_text.upper(epsilon, 4)


def _profile(event: PrivacyEvent, ax: Any) -> Axes:
    far = next((found for at in (1e-12, 1e-9, 1e-6, 1e-3) if math.isfinite(found := _epsilon(event, at))), 1.0)
    epsilons = np.linspace(0.0, max(far, 1e-9), _MANY)
    losses = deltas(event, epsilons)
    axes = axes_of(ax)
    line(axes, 0, epsilons.tolist(), np.where(losses > 0.0, losses, np.nan).tolist(), "", worse="left")
    axes.set_yscale("log")
    axes.set_ylim(top=1.0)
    return tidy(axes, "ε", "δ at this ε")


def _epsilon(event: PrivacyEvent, delta: float) -> float:
    return best_bound.epsilon(event, delta).upper


def plot_trade_offs(events: Mapping[str, PrivacyEvent], ax: Any) -> Axes:
    """Returns the axes with the trade-off curves of several events, by name."""
    return trade_off_axes({name: partial(trade_off, event) for name, event in events.items()}, ax)


def trade_off_axes(curves: Mapping[str, Callable[[Any], Any]], ax: Any) -> Axes:
    """Returns the axes with curves that give the least rate of misses at each rate of false alarms."""
    axes = axes_of(ax)
    axes.plot([0.0, 1.0], [1.0, 0.0], color=GREY, lw=1, label="a random guess")
    for number, (name, curve) in enumerate(curves.items()):
        line(axes, number, _ALARMS.tolist(), np.asarray(curve(_ALARMS)).tolist(), name, worse="right")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    return tidy(axes, "false alarms of an attack", "its misses, at least")
