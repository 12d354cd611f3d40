"""Both ends of δ(ε) of one composition, by the routes that apply: the first that decides the claim ends the search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flint import arb

from hockeystick_verify import grid, line, sums
from hockeystick_verify.balls import ONE, ZERO, NotCoveredError, ball, up
from hockeystick_verify.events import Cost, merge_normals
from hockeystick_verify.laws import Law, Normal, Pieces, survival
from hockeystick_verify.mixtures import NormalMixture

Ends = tuple[arb, arb]
Parts = list[tuple[Law, int]]
_EXACT = ("one event", "sum over outcomes", "line")  # beside which no other route has more to say of the same laws
_SMOOTHING = (1e-3, 1e-4, 3e-5)
_WIDTHS = (2.0**-8, 2.0**-10, 2.0**-12, 2.0**-13)


@dataclass
class Found:
    """The best ends so far.

    Attributes:
      lower, upper: of δ(ε).
      route: by which the upper end was found.
    """

    lower: arb
    upper: arb
    route: str

    def improve(self, ends: Ends | None, route: str, *, member: bool) -> None:
        """Takes over ends that are better; a law outside its class gives no lower one."""
        if ends is None:
            return
        if member and ends[0].is_finite() and ends[0].lower() > self.lower:
            self.lower = ends[0].lower()
        if ends[1].is_finite() and ends[1].upper() < self.upper:
            self.upper, self.route = ends[1].upper(), route


def enclosed(cost: Cost, eps: arb, delta: arb, tol: float, clock: line.Clock) -> Found:
    """Returns ends of δ(ε), at least one of which decides ``delta`` where a route can.

    Raises:
      NotCoveredError: no route applies to some part.
      OutOfTimeError: the clock has run down.
    """
    parts, member = merge_normals(cost.parts), cost.is_member()
    failure, alive = cost.failure(), ONE
    for probability, n in cost.failures:
        alive *= (1 - probability) ** n
    found = Found(ZERO, ONE, "none")
    tried, settled = 0, False
    room = up(delta - failure)  # δ = 0 can only be verified by pure privacy; the rest looks for a lower end above 0
    for route, search in _routes(parts, eps, max(room, 1e-300) if delta > 0 else 1e-6, tol, clock):
        if settled and route == "grid":
            continue
        try:
            ends = search()
        except NotCoveredError:
            continue
        tried += 1
        if ends is None:
            continue
        lower = 1 - alive + alive * ends[0].lower() if ends[0] > 0 else 1 - alive
        found.improve((lower, (failure + ends[1]).min(ONE)), route, member=member)
        settled = settled or (route == "line, smoothed" and bool(ends[1].is_finite()))
        if found.upper <= delta or found.lower > delta or (route in _EXACT and ends[1].is_finite()):
            break
        if 1 - alive + alive * ends[0] > delta:  # these laws can't verify it, by whichever route
            break
    if not tried:
        raise NotCoveredError("a composition of such events")
    return found


def _routes(
    parts: Parts, eps: arb, goal: float, tol: float, clock: line.Clock
) -> Iterator[tuple[str, Callable[[], Ends | None]]]:
    laws = [law for law, _ in parts]
    yield "pure", lambda: _pure(parts, eps)
    if not all(law.member for law in laws):  # a Rényi bound of the class may be below its envelope's profile
        yield "Rényi", lambda: _renyi(parts, eps, clock)
    if len(parts) == 1 and parts[0][1] == 1 and laws[0].has_profile:
        yield "one event", lambda: _one(laws[0], eps)
    if all(isinstance(law, Pieces) and not law.slopes for law in laws):
        yield "sum over outcomes", lambda: sums.enclosed(parts, eps, clock)
    if all(law.has_moment for law in laws):
        yield "line", lambda: line.enclosed(parts, eps, goal, tol, clock)
        if not all(isinstance(law, (Normal, NormalMixture)) for law in laws):
            for s in _SMOOTHING:
                yield "line, smoothed", lambda s=s: line.smoothed(parts, eps, goal, tol, s, clock)  # type: ignore[misc]
    if all(law.has_profile for law in laws):
        for h in _WIDTHS:
            yield "grid", lambda h=h: _grid(parts, eps, goal, h, clock)  # type: ignore[misc]
    if all(law.member for law in laws):
        yield "Rényi", lambda: _renyi(parts, eps, clock)


def _pure(parts: Parts, eps: arb) -> Ends | None:
    total = ZERO
    for law, n in parts:
        one = law.pure()
        if one is None:
            return None
        total += n * one
    return (ZERO, 1 - survival(parts)) if total <= eps else None


def _one(law: Law, eps: arb) -> Ends:
    value = law.profile(eps)
    return value.lower(), value.upper()


def _grid(parts: Parts, eps: arb, goal: float, h: float, clock: line.Clock) -> Ends | None:
    upper = grid.upper_end(parts, eps, goal, h, clock)
    return None if upper is None else (ZERO, upper)


def _renyi(parts: Parts, eps: arb, clock: line.Clock) -> Ends | None:
    """(1 − e^{ε−L})₊ ≤ e^{c(L−ε)}·c^c/(c+1)^{c+1}: at any c > 0, a bound by the moment over the whole class."""
    infinite = 1 - survival(parts)

    def bound(c: float) -> arb:
        clock.check()
        at = ball(c)
        total = (at * at.log() - (at + 1) * (at + 1).log() - at * eps).exp()
        for law, n in parts:
            total *= law.renyi(at) ** n
        return total

    def height(c: float) -> float:
        try:
            value = bound(c)
        except NotCoveredError:
            return math.inf
        return float(value.log().mid()) if value.is_finite() and value > 0 else math.inf

    points = [10 ** (-2 + k / 8) for k in range(41)]
    heights = [height(c) for c in points]
    best = min(range(len(points)), key=heights.__getitem__)
    low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if height(a) < height(b):
            high = b
        else:
            low = a
    value = bound((low + high) / 2)
    return (ZERO, value + infinite) if value.is_finite() else None
