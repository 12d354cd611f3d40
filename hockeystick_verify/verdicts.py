"""The verdict on a certificate: each claimed point of its curve, enclosed from its graph alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flint import arb, ctx

from hockeystick_verify import documents, routes
from hockeystick_verify.balls import NotCoveredError, OutOfTimeError, ball, down, up
from hockeystick_verify.documents import UnusableError
from hockeystick_verify.events import Cost, Way, cost_of
from hockeystick_verify.line import Clock
from hockeystick_verify.moves import Charge, Move, moves_of

SCHEMA = "hockeystick.certificate/1"
VERIFIED, REFUTED, NOT_DECIDED = "verified", "refuted", "not decided"
EXIT_STATUS = {VERIFIED: 0, REFUTED: 1, NOT_DECIDED: 3}
_BITS = 128
_TOLERANCES = (1e-6, 1e-9, 1e-13)
_REQUIRED = {
    *("schema", "id", "created", "software", "relation", "privacy_unit", "group", "view", "threat_model", "graph"),
    *("curve", "headline", "assumptions", "not_covered", "digest"),
}
_OPTIONAL = {"subject", "extensions"}


@dataclass(frozen=True)
class Point:
    """The verdict on one claim, δ(ε) ≤ δ.

    Attributes:
      epsilon, delta: as claimed.
      verdict: "verified", "refuted" or "not decided".
      lower, upper: ends of the true δ(ε), rounded outwards.
      route: by which the upper end was found.
      move: the change of the data with the largest upper end.
      reason: for a verdict of "not decided".
    """

    epsilon: float
    delta: float
    verdict: str
    lower: float
    upper: float
    route: str
    move: str
    reason: str = ""

    def interval(self) -> str:
        """Returns the enclosure in words."""
        if self.reason:
            return f"{self.reason}; it lies in [{self.lower!r}, {self.upper!r}]"
        return f"it lies in [{self.lower!r}, {self.upper!r}] ({self.route})"

    def width(self) -> float:
        """Returns the width of the enclosure, as a share of the claimed δ."""
        return (self.upper - self.lower) / self.delta if self.delta else self.upper - self.lower


@dataclass(frozen=True)
class Verdict:
    """The verdict on a certificate.

    Attributes:
      verdict: "refuted" if any point is, "verified" if all are, else "not decided".
      points: those with a finite ε; only the headline's in quick mode.
      not_covered: events and combinations that the checker has no rule for.
      on_trust: what no accountant can check.
      digest: of the certificate.
      key: the id of the key that signed the file, "" if no key was given.
      quick: whether the headline alone was checked.
      seconds: of processor time.
    """

    verdict: str
    points: tuple[Point, ...]
    not_covered: tuple[str, ...]
    on_trust: tuple[str, ...]
    digest: str
    key: str
    quick: bool
    seconds: float

    def exit_status(self) -> int:
        """Returns 0 for verified, 1 for refuted and 3 for not decided."""
        return EXIT_STATUS[self.verdict]

    def lines(self) -> list[str]:
        """Returns the verdict in words: one line, then one for each point, then what was taken on trust."""
        told = [point for point in self.points if point.verdict == self.verdict]
        first = told[0] if told else self.points[0]
        if self.verdict == VERIFIED:
            what = "the headline alone" if self.quick else f"{len(self.points)} points of the curve"
            said = [f"verified: {what}, in {self.seconds:.1f} CPU s"]
        elif self.verdict == REFUTED:
            said = [f"refuted: δ({first.epsilon!r}) is at least {first.lower!r}, not {first.delta!r} ({first.move})"]
        else:
            said = [f"not decided: {first.reason}"]
        said += [f"  δ({p.epsilon!r}) ≤ {p.delta!r}: {p.verdict}, {p.interval()}" for p in self.points]
        said += [f"  signed by key {self.key}"] if self.key else []
        return [*said, "taken on trust:", *(f"  {one}" for one in self.on_trust)]

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict as a JSON value."""
        points = [{**asdict(point), "width": point.width()} for point in self.points]
        rest = {name: value for name, value in asdict(self).items() if name != "points"}
        return {"schema": "hockeystick.verification/1", **rest, "points": points}


def check(
    content: bytes,
    *,
    quick: bool = False,
    seconds: float = 300.0,
    signature: bytes | None = None,
    keys: Sequence[bytes] = (),
) -> Verdict:
    """Checks a certificate in ball arithmetic, from its graph alone.

    Args:
      content: the bytes of the file.
      quick: only the headline, at a tolerance of 1e-6 of δ.
      seconds: of processor time, after which what is left is not decided.
      signature, keys: the bytes of the detached signature and of public keys in PEM; one of the keys must fit.

    Raises:
      UnusableError: the file can't be read, isn't of the schema, claims nothing, or has a wrong digest or signature.

    Example:
      >>> from hockeystick_verify import check
      >>> check(b'{"schema": "hockeystick.certificate/2"}')
      Traceback (most recent call last):
      ...
      hockeystick_verify.documents.UnusableError: the schema isn't hockeystick.certificate/1
    """
    start = time.process_time()
    if (signature is None) != (not keys):
        raise UnusableError("a signature needs a key, and a key a signature")
    key = documents.verify_signature(content, signature, list(keys)) if signature is not None else ""
    certificate = documents.parsed(content)
    _check_fields(certificate)
    clock, uncovered = Clock(seconds), dict[str, None]()
    claims = certificate["curve"]
    claims = [claims[certificate["headline"]]] if quick else claims
    with ctx.workprec(_BITS):
        try:
            if certificate["relation"] != certificate["graph"]["adjacency"]:
                raise NotCoveredError("another relation than the graph's")
            found: list[Move] | NotCoveredError = moves_of(
                certificate["graph"], certificate["view"], certificate["group"]
            )
        except NotCoveredError as error:
            found = error
        relation, tolerances = str(certificate["relation"]), _TOLERANCES[:1] if quick else _TOLERANCES
        points = tuple(
            _point(float(claim["epsilon"]), float(claim["delta"]), found, relation, tolerances, clock, uncovered)
            for claim in claims
            if claim["epsilon"] != "inf" and claim["delta"] < 1
        )
    verdicts = {point.verdict for point in points}
    verdict = REFUTED if REFUTED in verdicts else VERIFIED if verdicts == {VERIFIED} else NOT_DECIDED
    trusted = tuple(_on_trust(certificate))
    taken = time.process_time() - start
    return Verdict(verdict, points, tuple(uncovered), trusted, certificate["digest"], key, quick, taken)


def _check_fields(certificate: Mapping[str, Any]) -> None:
    if certificate.get("schema") != SCHEMA:
        raise UnusableError(f"the schema isn't {SCHEMA}")
    if missing := _REQUIRED - certificate.keys():
        raise UnusableError(f"the certificate lacks {', '.join(sorted(missing))}")
    if unknown := certificate.keys() - _REQUIRED - _OPTIONAL:
        raise UnusableError(f"the certificate has unknown fields: {', '.join(sorted(unknown))}")
    if documents.digest(dict(certificate)) != certificate["digest"]:
        raise UnusableError("the digest isn't that of the certificate: it has been changed")
    group, curve, headline, view = (certificate[name] for name in ("group", "curve", "headline", "view"))
    if not (isinstance(group, int) and not isinstance(group, bool) and group >= 1):
        raise UnusableError("the group isn't a whole number above 0")
    if not isinstance(certificate["graph"], dict) or not (view is None or isinstance(view, str)):
        raise UnusableError("the graph isn't an object, or the view not a name")
    if not isinstance(curve, list) or not curve or not all(map(_is_claim, curve)):
        raise UnusableError("the curve isn't a list of points with ε ≥ 0 (or inf) and a δ in [0, 1]")
    if isinstance(headline, bool) or not isinstance(headline, int) or not 0 <= headline < len(curve):
        raise UnusableError("the headline isn't a point of the curve")
    if curve[headline]["epsilon"] == "inf" or curve[headline]["delta"] >= 1:
        raise UnusableError("the headline claims nothing: its ε is infinite, or its δ is 1")


def _is_claim(point: Any) -> bool:
    if not isinstance(point, dict) or set(point) != {"epsilon", "delta", "lower", "method"}:
        return False
    epsilon, delta = point["epsilon"], point["delta"]
    numbers = not isinstance(delta, (bool, str)) and isinstance(delta, (int, float)) and 0 <= delta <= 1
    if epsilon == "inf":
        return numbers
    return numbers and not isinstance(epsilon, bool) and isinstance(epsilon, (int, float)) and epsilon >= 0


def _on_trust(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The statements of a certificate that no accountant can check."""
    yield "that the graph holds all accesses to the data, with the distances that it states"
    yield from map(str, certificate["assumptions"])
    for node in certificate["graph"].get("nodes", ()):
        if isinstance(node, dict) and node.get("simulated") is True:
            yield f"that nobody knows the seed of the simulated noise of {node.get('name')!r}"
    for view in certificate["graph"].get("views", ()):
        if isinstance(view, dict) and view.get("name") == certificate["view"]:
            yield from (f"the event that {view['name']!r} states for {name!r}" for name in view.get("events", {}))


def _point(
    epsilon: float,
    delta: float,
    found: list[Move] | NotCoveredError,
    relation: str,
    tolerances: Sequence[float],
    clock: Clock,
    uncovered: dict[str, None],
) -> Point:
    """The verdict on one claim: the largest lower and upper end over all moves."""
    if isinstance(found, NotCoveredError):
        uncovered[str(found)] = None
        return Point(epsilon, delta, NOT_DECIDED, 0.0, 1.0, "none", "", f"not covered: {found}")
    lower, upper, route, where, reason = 0.0, 0.0, "none", "nothing is read", ""
    for move in found:
        try:
            one = _of_move(move, ball(epsilon), ball(delta), relation, tolerances, clock)
        except NotCoveredError as error:
            uncovered[str(error)] = None
            one, reason = (arb(0), arb(1), "none"), f"not covered: {error}"
        except OutOfTimeError:
            one, reason = (arb(0), arb(1), "none"), "the time is used up"
        if one[0] > ball(delta):
            return Point(epsilon, delta, REFUTED, down(one[0]), min(up(one[1]), 1.0), one[2], move.label)
        lower = max(lower, down(one[0]))
        if up(one[1]) >= upper:
            upper, route, where = up(one[1]), one[2], move.label
    if upper <= delta:
        return Point(epsilon, delta, VERIFIED, lower, upper, route, where)
    return Point(
        epsilon, delta, NOT_DECIDED, lower, min(upper, 1.0), route, where, reason or "the enclosure is too wide"
    )


def _of_move(
    move: Move, eps: arb, delta: arb, relation: str, tolerances: Sequence[float], clock: Clock
) -> tuple[arb, arb, str]:
    """Ends of δ(ε) of one move, and the route of the upper one."""
    lower, upper, route = arb(0), arb(0), "none"
    for direction in _directions(move):
        for charges in _orders(move, Way(direction, "worst", relation)):
            cost = _cost(charges)
            ends = _decided(cost, eps, delta, tolerances, clock)
            if not (ends.upper <= delta) and not cost.is_member():
                ends.lower = _member_end(move, direction, eps, delta, relation, clock)
            if move.exact and ends.lower > lower:
                lower = ends.lower
            if ends.upper >= upper:
                upper, route = ends.upper, ends.route
            if lower > delta:
                return lower, upper, route
    return lower, upper, route


def _decided(cost: Cost, eps: arb, delta: arb, tolerances: Sequence[float], clock: Clock) -> routes.Found:
    for tolerance in tolerances:
        found = routes.enclosed(cost, eps, delta, tolerance, clock)
        if found.upper <= delta or found.lower > delta or not cost.is_member():
            break
    return found


def _member_end(move: Move, direction: str, eps: arb, delta: arb, relation: str, clock: Clock) -> arb:
    """The largest lower end over compositions that the class really holds: those of one order throughout."""
    found = arb(0)
    for order in ("forward", "backward"):
        try:
            cost = _cost([(charge, Way(direction, order, relation)) for charge in move.charges])
            if cost.is_member():
                ends = routes.enclosed(cost, eps, delta, _TOLERANCES[0], clock)
                found = ends.lower if ends.lower > found else found
        except NotCoveredError:
            continue
    return found


def _cost(charges: Sequence[tuple[Charge, Way]]) -> Cost:
    total = Cost()
    for charge, way in charges:
        seen = way if charge.tied else Way("any", way.order, way.relation)
        total.add(cost_of(charge.event, charge.distance, seen), charge.count)
    return total


def _orders(move: Move, way: Way) -> Iterator[list[tuple[Charge, Way]]]:
    """The charges of a move; in both orders of a leading release that is paid once, and first."""
    leading = [charge for charge in move.charges if charge.leading]
    if len(leading) == 1 and leading[0] is move.charges[0] and leading[0].count == 1:
        for order in ("forward", "backward"):
            first = (leading[0], Way(way.direction, order, way.relation))
            if leading[0].event.get("type") not in ("LazySwitchDecision", "LogLipschitz"):
                first = (leading[0], way)
            yield [first, *((charge, way) for charge in move.charges[1:])]
    else:
        yield [(charge, way) for charge in move.charges]


def _directions(move: Move) -> tuple[str, ...]:
    """One direction where no event depends on it."""
    directed = any(_is_directed(charge.event) for charge in move.charges)
    return ("removal", "addition") if directed else ("any",)


def _is_directed(value: Any) -> bool:
    if isinstance(value, dict):
        named = value.get("type") in ("PoissonSampled", "MixtureOfGaussians") or value.get("orientation") == "tied"
        return named or any(map(_is_directed, value.values()))
    return isinstance(value, list) and any(map(_is_directed, value))
