"""Events as they stand in a certificate, turned into laws of the loss: what each one costs at a distance.

Each rule states the theorem of the event anew. An event, a parameter or a combination that has no rule here raises
``NotCoveredError`` with its name, and is never taken for something else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb

from hockeystick_verify import finite
from hockeystick_verify.balls import ONE, ZERO, NotCoveredError, ball, larger
from hockeystick_verify.laws import (
    Kept,
    Largest,
    Law,
    Mixed,
    Normal,
    Pieces,
    RenyiOnly,
    Sampled,
    Together,
    bounded_range,
    laplace,
    larger_moment,
    one_way,
    two_points,
    two_way,
)
from hockeystick_verify.mixtures import NormalMixture, sampled_group, sampled_normal

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """The pair of data sets under which events are seen.

    Attributes:
      direction: "removal" (P is the law with the record) or "addition", for all accesses alike; "any" if it may differ
        from access to access.
      order: of the two laws of events whose orders are free: "worst" (the upper envelope), or "forward" or "backward",
        the members of the class from which lower ends may come.
      relation: the neighbouring relation.
    """

    direction: str
    order: str
    relation: str


@dataclass
class Cost:
    """The cost of a composition: laws with their counts, and probabilities of failure with theirs.

    ``member`` is False where a failure lies inside a coin or a sample, so that its sum with the laws only bounds.
    """

    parts: list[tuple[Law, int]] = field(default_factory=list)
    failures: list[tuple[arb, int]] = field(default_factory=list)
    member: bool = True

    def add(self, other: Cost, count: int = 1) -> None:
        """Adds another cost, ``count`` times."""
        self.parts += [(law, n * count) for law, n in other.parts]
        self.failures += [(delta, n * count) for delta, n in other.failures]
        self.member = self.member and other.member

    def is_member(self) -> bool:
        """Returns whether the class holds exactly this composition."""
        return self.member and all(law.member for law, _ in self.parts)

    def failure(self) -> arb:
        """Returns the sum of the probabilities of failure."""
        return sum((delta * n for delta, n in self.failures), ZERO)

    def single(self) -> Law | None:
        """Returns the cost as one law, failures left out; None for no cost."""
        merged = merge_normals(self.parts)
        if not merged:
            return None
        return merged[0][0] if len(merged) == 1 and merged[0][1] == 1 else Together(merged)


def merge_normals(parts: list[tuple[Law, int]]) -> list[tuple[Law, int]]:
    """Returns the parts with all Gaussian ones as one: their squared shifts add up (Dong, Roth & Su 2022, Cor. 3.3)."""
    square = sum((law.square * n for law, n in parts if isinstance(law, Normal)), ZERO)
    others = [(law, n) for law, n in parts if not isinstance(law, Normal)]
    return others if square.is_zero() else [(Normal(square), 1), *others]


def cost_of(event: Event, distance: Fraction, way: Way) -> Cost:
    """Returns the cost of an event whose inputs are ``distance`` units apart.

    Raises:
      NotCoveredError: there is no rule for it.
    """
    name = event.get("type")
    rule = _RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        raise NotCoveredError(f"{name}")
    if distance == 0:
        return Cost()
    relations = _RELATIONS.get(str(name))
    if relations is not None and way.relation not in relations:
        raise NotCoveredError(f"{name} under {way.relation}")
    try:
        return rule(event, distance, way)
    except NotCoveredError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError, OverflowError) as error:
        raise NotCoveredError(f"{name} with such fields ({type(error).__name__})") from None


_CHANGES = ("replace-one", "local")
_PRESENCE = ("add-or-remove-one", "replace-with-null")
_RELATIONS = {
    "RandomizedResponse": _CHANGES,
    "UnaryEncoding": _CHANGES,
    "InputMix": _CHANGES,
    "SampledWithoutReplacement": ("replace-one",),
    "PoissonSampled": _PRESENCE,
    "MixtureOfGaussians": _PRESENCE,
}


# Fields


def _number(event: Event, name: str, *, low: float = 0.0, high: float = math.inf) -> Fraction:
    """A finite number of a field, exactly as the file has it."""
    value = event[name]
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)) or not low <= value <= high:
        raise NotCoveredError(f"{event.get('type')} with {name} = {value!r}")
    return Fraction(value)


def _positive(event: Event, name: str) -> Fraction:
    value = _number(event, name)
    if value == 0:
        raise NotCoveredError(f"{event.get('type')} with {name} = 0")
    return value


def _whole(event: Event, name: str, low: int = 1) -> int:
    value = event[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise NotCoveredError(f"{event.get('type')} with {name} = {value!r}")
    return value


def _one(law: Law, count: int = 1) -> Cost:
    return Cost([(law, count)])


# Noise, and declared guarantees


def _gaussian(event: Event, d: Fraction, way: Way) -> Cost:
    return _one(Normal(ball((d / _positive(event, "noise_multiplier")) ** 2)))


def _gaussian_dp(event: Event, d: Fraction, way: Way) -> Cost:
    return _one(Normal(ball((_positive(event, "mu") * math.ceil(d)) ** 2)))


def _laplace(event: Event, d: Fraction, way: Way) -> Cost:
    return _one(laplace(ball(d / _positive(event, "noise_multiplier"))))


def _pure(event: Event, d: Fraction, way: Way) -> Cost:
    e = _number(event, "epsilon") * math.ceil(d)
    return _one(two_points(("two points", e), ball(e))) if e else Cost()


def _approximate(event: Event, d: Fraction, way: Way) -> Cost:
    k, e = math.ceil(d), ball(_number(event, "epsilon"))
    delta = ball(_number(event, "delta", high=1.0))
    growth = ball(k) if e.is_zero() else (k * e).expm1() / e.expm1()  # δ·(1 + e^ε + … + e^{(k−1)ε})
    cost = _pure({"epsilon": event["epsilon"]}, d, way)
    return Cost(cost.parts, [((delta * growth).min(ONE), 1)] if not delta.is_zero() else [])


def _zcdp(event: Event, d: Fraction, way: Way) -> Cost:
    rho = ball(_number(event, "rho") * math.ceil(d) ** 2)
    return _one(RenyiOnly(lambda c: rho * c * (c + 1)))


def _renyi_curve(event: Event, d: Fraction, way: Way) -> Cost:
    if d > 1:
        raise NotCoveredError("RenyiCurve at a distance above 1")
    rows = [
        (Fraction(a), Fraction(e)) for a, e in zip(event["orders"], event["epsilons"], strict=True) if a > 1 and e >= 0
    ]

    def exponent(c: arb) -> arb:
        above = [ball(e) for a, e in rows if ball(a) >= c + 1]  # a Rényi divergence doesn't fall with the order
        least = above[0] if above else arb("inf")
        for e in above[1:]:
            least = least.min(e)
        return c * least

    return _one(RenyiOnly(exponent))


def _failure(event: Event, d: Fraction, way: Way) -> Cost:
    if d > 1:
        raise NotCoveredError("Failure at a distance above 1")
    return Cost([], [(ball(_number(event, "delta", high=1.0)), 1)])


def _non_private(event: Event, d: Fraction, way: Way) -> Cost:
    return Cost([], [(ONE, 1)])


def _nothing(event: Event, d: Fraction, way: Way) -> Cost:
    return Cost()


# Answers


def _bounded_range(event: Event, d: Fraction, way: Way) -> Cost:
    width = ball(_positive(event, "width") * d)
    if way.order == "worst":
        return _one(bounded_range(width))
    return _one(two_points(("range", _positive(event, "width") * d), width / 2))  # a member: losses ±width/2


def _rates(fall: Fraction, rise: Fraction, way: Way, *, member: bool) -> Cost:
    if not (fall and rise):
        return Cost()  # if no probability falls, none rises
    if fall == rise:
        law = laplace(ball(fall))
        law.member = member
        return _one(law)
    if way.order == "worst":
        return _one(two_way(ball(fall), ball(rise)))
    ends = (fall, rise) if way.order == "forward" else (rise, fall)
    law = one_way(*map(ball, ends))
    law.member = member
    return _one(law)


def _log_lipschitz(event: Event, d: Fraction, way: Way) -> Cost:
    return _rates(_number(event, "fall") * d, _number(event, "rise") * d, way, member=True)


def _one_way(event: Event, d: Fraction, way: Way) -> Cost:
    inner = event["event"]
    if not isinstance(event["forward"], bool) or inner["type"] != "LogLipschitz":
        raise NotCoveredError("OneWay of another event")
    one = dataclasses.replace(way, order="forward" if event["forward"] else "backward")
    return _rates(_number(inner, "fall") * d, _number(inner, "rise") * d, one, member=True)


def _above_threshold(event: Event, d: Fraction, way: Way) -> Cost:
    one = d / _positive(event, "threshold_scale")
    each = d * _whole(event, "answers") / _positive(event, "query_scale")
    if event["monotone"] is True:
        return _rates(one + each, each, way, member=False)
    return _rates(one + 2 * each, one + 2 * each, way, member=False)


def _cumulative_above(event: Event, d: Fraction, way: Way) -> Cost:
    threshold, query = _positive(event, "threshold_scale"), _positive(event, "query_scale")
    if d > 1:
        threshold = query = min(threshold, query)
    return _rates(d / threshold, d / query, way, member=False)


def _permute_and_flip(event: Event, d: Fraction, way: Way) -> Cost:
    e = _number(event, "epsilon") * d
    return _rates(e, e, way, member=True)


def _noisy_max(event: Event, d: Fraction, way: Way) -> Cost:
    e = _positive(event, "score_range") * d / _positive(event, "scale")
    if event["noise"] == "gumbel":
        return _bounded_range({"type": "ReportNoisyMax", "width": e}, Fraction(1), way)
    if event["noise"] not in ("laplace", "exponential"):
        raise NotCoveredError(f"ReportNoisyMax with noise {event['noise']!r}")
    return _rates(e, e, way, member=event["noise"] == "exponential")


def _randomized_response(event: Event, d: Fraction, way: Way) -> Cost:
    e, k = _number(event, "epsilon"), _whole(event, "categories", 2)
    less = (-ball(e)).exp()
    more = 1 / (1 + (k - 1) * less)
    atoms = [(ball(e), more), (-ball(e), more * less), (ZERO, (k - 2) * more * less)]
    law = Pieces(atoms, unit=(("two points", e), ball(e)), indices=(1, -1, 0))
    return _one(law, math.ceil(d)) if e else Cost()


def _unary_encoding(event: Event, d: Fraction, way: Way) -> Cost:
    p, q = _number(event, "p", high=1.0), _number(event, "q", high=1.0)
    high, low = max(p, q), min(p, q)
    more, less = high * (1 - low), low * (1 - high)
    if more == less:
        return Cost()
    same = ball(1 - more - less)
    if less == 0:
        return _one(Pieces([(ZERO, ball(1 - more))], infinity=ball(more)), math.ceil(d))
    e = ball(more / less).log()
    atoms = [(e, ball(more)), (-e, ball(less)), (ZERO, same)]
    return _one(Pieces(atoms, unit=(("odds", more / less), e), indices=(1, -1, 0)), math.ceil(d))


def _lazy_switch(event: Event, d: Fraction, way: Way) -> Cost:
    keep, ratio = _number(event, "keep_probability", high=1.0), _number(event, "log_ratio") * d
    if event.get("log_ratio_cap", "inf") != "inf":
        ratio = min(ratio, _number(event, "log_ratio_cap"))
    if not (keep and ratio):
        return Cost()
    k, kappa = ball(keep), ball(ratio)
    p, q = (k, 1 - k), (k * (-kappa).exp(), 1 - k - k * (-kappa).expm1())
    key = ("lazy", keep, ratio)
    orders = [finite.law_of_masses(list(zip(*both, strict=True))) for both in ((p, q), (q, p))]
    if way.order != "worst":
        return _one(orders[way.order == "backward"])
    if keep == 1:
        return _one(Pieces([(ZERO, q[0])], infinity=q[1], member=False))
    # For ε ≥ 0 one of the two lines is the larger one throughout; with its mirror image it is a symmetric pair.
    more, less = (q[1], p[1]) if p[1] < q[0] else (p[0], q[0])
    if not (p[1] < q[0] or p[1] > q[0]):
        more, less = q[1].union(p[0]), p[1].union(q[0])
    loss = (more / less).log()
    atoms = [(loss, more), (-loss, less), (ZERO, 1 - more - less)]
    worst = larger_moment(*orders)
    return _one(Pieces(atoms, member=False, unit=(key, loss), indices=(1, -1, 0), worst_moment=worst))


def _oriented(event: Event, d: Fraction, way: Way) -> Cost:
    if not isinstance(event["keep_more"], bool) or event["event"]["type"] != "LazySwitchDecision":
        raise NotCoveredError("Oriented of another event")
    order = "forward" if event["keep_more"] else "backward"
    return _lazy_switch(event["event"], d, dataclasses.replace(way, order=order))


def _discrete_pair(event: Event, d: Fraction, way: Way) -> Cost:
    if d > 1:
        raise NotCoveredError("DiscretePair at a distance above 1")
    p, q = ([Fraction(x) for x in event[name]] for name in ("p", "q"))
    pairs = [(x / sum(p), y / sum(q)) for x, y in zip(p, q, strict=True) if x or y]
    if event["orientation"] == "tied":
        if way.relation not in _PRESENCE:
            raise NotCoveredError(f"a tied DiscretePair under {way.relation}")
        if way.direction == "any":
            return _one(Largest([finite.law_of_rationals(pairs), finite.law_of_rationals(finite.turned(pairs))]))
        return _one(finite.law_of_rationals(pairs if way.direction == "removal" else finite.turned(pairs)))
    if event["orientation"] != "free":
        raise NotCoveredError("a DiscretePair that is known in one order alone")
    if way.order == "worst":
        return _one(finite.larger_of_both(pairs))
    return _one(finite.law_of_rationals(pairs if way.order == "forward" else finite.turned(pairs)))


def _discrete_laplace(event: Event, d: Fraction, way: Way) -> Cost:
    m, scale = finite.whole(_positive(event, "distance") * d), _positive(event, "scale")
    if m > 100_000:
        raise NotCoveredError(f"DiscreteLaplace at distance {m}")
    return _one(finite.discrete_laplace(m, scale))


def _discrete_gaussian(event: Event, d: Fraction, way: Way) -> Cost:
    square = finite.whole((_positive(event, "distance") * d) ** 2)
    laws = finite.discrete_gaussian(square, _positive(event, "sigma"), event["coordinates"])
    return _one(laws[0]) if len(laws) == 1 else _one(Largest(laws))


# Events around events


def _composed(event: Event, d: Fraction, way: Way) -> Cost:
    cost = Cost()
    for inner, count in event["parts"]:
        cost.add(cost_of(inner, d, way), _whole({"type": "Composed", "count": count}, "count"))
    return cost


def _parallel(event: Event, d: Fraction, way: Way) -> Cost:
    if d > 1:
        raise NotCoveredError("Parallel at a distance above 1")
    costs = [cost_of(inner, d, way) for inner in event["branches"]]
    found = Cost([], [(failure, 1)], member=False) if (failure := _largest_failure(costs)) is not None else Cost()
    laws = [law for cost in costs if (law := cost.single()) is not None]
    if laws:
        found.parts = [(laws[0] if len(costs) == 1 else Largest(laws), 1)]
    return found


def _largest_failure(costs: list[Cost]) -> arb | None:
    found = ZERO
    for cost in costs:
        found = larger(found, cost.failure())
    return None if found.is_zero() else found


def _coin(weights: list[arb], events: list[Event], d: Fraction, way: Way) -> Cost:
    costs = [cost_of(event, d, way) for event in events]
    failure = sum((w * cost.failure() for w, cost in zip(weights, costs, strict=True)), ZERO)
    found = Cost([], [(failure, 1)], member=False) if not failure.is_zero() else Cost()
    kept = [(w, law) for w, cost in zip(weights, costs, strict=True) if (law := cost.single()) is not None]
    if kept:
        law = kept[0][1]
        if len(kept) == 1 and isinstance(law, Pieces) and not law.slopes:
            found.parts = [(finite.behind_coin(kept[0][0], law), 1)]
        else:
            found.parts = [(Mixed([w for w, _ in kept], [law for _, law in kept]), 1)]
    return found


def _visible(event: Event, d: Fraction, way: Way) -> Cost:
    return _coin([ball(_number(event, "probability", high=1.0))], [event["event"]], d, way)


def _assignment(event: Event, d: Fraction, way: Way) -> Cost:
    weights = [Fraction(w) for w in event["probabilities"]]
    if len(weights) != len(event["events"]) or min(weights) <= 0 or sum(weights) > 1 + Fraction(1, 10**12):
        raise NotCoveredError("Assignment with such probabilities")
    return _coin([ball(w) for w in weights], event["events"], d, way)


def _around_sample(q: Fraction, inner: Cost, build: Callable[[Law], Law]) -> Cost:
    failure = ball(q) * inner.failure()
    found = Cost([], [(failure, 1)], member=False) if not failure.is_zero() else Cost()
    law = inner.single()
    if law is not None:
        found.parts = [(build(law), 1)]
    return found


def _poisson(event: Event, d: Fraction, way: Way) -> Cost:
    q, k = _number(event, "probability", high=1.0), math.ceil(d)
    stated = event.get("direction", "both")
    if stated not in ("both", "removal", "addition"):
        raise NotCoveredError(f"PoissonSampled in direction {stated!r}")
    if q == 0:
        return Cost()
    direction = way.direction if stated == "both" else str(stated)
    if direction == "any":
        if k > 1:
            raise NotCoveredError("PoissonSampled for several records, some of which may leave while others enter")
        both = [_poisson({**event, "direction": one}, d, way) for one in ("removal", "addition")]
        return Cost([(Largest([law for cost in both for law, _ in cost.parts]), 1)], both[0].failures)
    inner = cost_of(event["event"], Fraction(1), dataclasses.replace(way, direction=direction))
    law, removal = inner.single(), direction == "removal"
    if isinstance(law, Normal) and q < 1:
        mu = law.square.sqrt()
        if k == 1:
            return _around_sample(q, inner, lambda _: sampled_normal(ball(q), mu, removal=removal))
        if not inner.failures:
            return _one(sampled_group(ball(q), mu, k, removal=removal))
    if k > 1:  # a group counts as one record that joins if any of its records does
        inner = cost_of(event["event"], Fraction(k), dataclasses.replace(way, direction=direction))
        q = 1 - (1 - q) ** k if k <= 64 else Fraction(1)
    if q == 1:
        return inner
    return _around_sample(q, inner, lambda one: Sampled(ball(q), one, removal=removal))


def _mixture(event: Event, d: Fraction, way: Way) -> Cost:
    if d > 1:
        raise NotCoveredError("MixtureOfGaussians at a distance above 1")
    s = _positive(event, "noise_multiplier")
    rows = [(Fraction(c) / s, Fraction(w)) for c, w in zip(event["sensitivities"], event["probabilities"], strict=True)]
    total = sum((w for _, w in rows), Fraction(0))
    if any(c < 0 or w < 0 for c, w in rows) or abs(total - 1) > Fraction(1, 10**9):
        raise NotCoveredError("MixtureOfGaussians with such probabilities")
    kept = [(ball(c), ball(w / total)) for c, w in rows if w]
    if all(c.is_zero() for c, _ in kept):
        return Cost()
    if len(kept) == 1:
        return _one(Normal(kept[0][0] ** 2))
    direction = way.direction if event.get("direction", "both") == "both" else event["direction"]
    if direction not in ("removal", "addition", "any"):
        raise NotCoveredError(f"MixtureOfGaussians in direction {direction!r}")
    centres, weights = [c for c, _ in kept], [w for _, w in kept]
    ways = [NormalMixture(centres, weights, removal=one == "removal") for one in _directions(direction)]
    return _one(ways[0] if len(ways) == 1 else Largest(ways))


def _directions(direction: str) -> tuple[str, ...]:
    return ("removal", "addition") if direction == "any" else (direction,)


def _without_replacement(event: Event, d: Fraction, way: Way) -> Cost:
    n, m = _whole(event, "population"), _whole(event, "sample")
    k = min(_whole({"group": event.get("group", 1), "type": event["type"]}, "group") * math.ceil(d), n)
    if m > n:
        raise NotCoveredError("SampledWithoutReplacement of more than the population")
    share = 1 - Fraction(math.comb(n - k, m), math.comb(n, m)) if k > 1 else Fraction(m, n)
    inner = cost_of(event["event"], Fraction(min(k, m)), dataclasses.replace(way, direction="any"))
    return inner if share == 1 else _around_sample(share, inner, lambda law: Kept(ball(share), law))


def _input_mix(event: Event, d: Fraction, way: Way) -> Cost:
    kept = 1 - _number(event, "probability", high=1.0) ** math.ceil(d)
    inner = cost_of(event["event"], max(d, Fraction(1)), dataclasses.replace(way, direction="any"))
    if kept == 0:
        return Cost()
    return inner if kept == 1 else _around_sample(kept, inner, lambda law: Kept(ball(kept), law))


_RULES: dict[str, Callable[[Event, Fraction, Way], Cost]] = {
    "AboveThreshold": _above_threshold,
    "ApproximateDP": _approximate,
    "Assignment": _assignment,
    "BoundedRange": _bounded_range,
    "Composed": _composed,
    "CumulativeAboveThreshold": _cumulative_above,
    "DiscreteGaussian": _discrete_gaussian,
    "DiscreteLaplace": _discrete_laplace,
    "DiscretePair": _discrete_pair,
    "Failure": _failure,
    "Gaussian": _gaussian,
    "GaussianDP": _gaussian_dp,
    "InputMix": _input_mix,
    "Laplace": _laplace,
    "LazySwitchDecision": _lazy_switch,
    "LogLipschitz": _log_lipschitz,
    "MixtureOfGaussians": _mixture,
    "NoEvent": _nothing,
    "NonPrivate": _non_private,
    "OneWay": _one_way,
    "Oriented": _oriented,
    "Parallel": _parallel,
    "PermuteAndFlip": _permute_and_flip,
    "PoissonSampled": _poisson,
    "PureDP": _pure,
    "RandomizedResponse": _randomized_response,
    "RenyiCurve": _renyi_curve,
    "ReportNoisyMax": _noisy_max,
    "SampledWithoutReplacement": _without_replacement,
    "UnaryEncoding": _unary_encoding,
    "VisibleMixture": _visible,
    "ZCDP": _zcdp,
}
COVERED = tuple(sorted(_RULES))
"""The events that have a rule."""
