"""The cost of a noisy estimate of KL(Pi || P) whose symbols are drawn after the data are fixed.

It is below that of the worst draw. The symbols x_1, ..., x_T are public coins, which are unknown when two neighbouring
data sets, with one record at x and at y, are chosen. So the cost is that of the pair (coins, output): the average over
the coins of the cost of Gaussian noise at the distance of the drawn symbols. The worst pair of symbols is taken last:

    delta(eps) = max over x, y of E_w[delta_G(eps; D(w(x), w(y))/sigma)].

Both weights count, because both cells can be nearly empty; one symbol alone would give too little. The bound holds for
coins that are tossed honestly after the data are fixed, and only for averages that weight symbols by their number of
draws (``QueryAverage.drawn(..., weights="draws")``); for others use ``QueryAverage.sensitivity``. Releases of the same
draw share their coins and are channels of one ``CoinRelease``; releases of fresh draws are composed pair by pair
(:func:`coin_event`). The released number is D of :meth:`FreshCoins.average`; averages with other weights, of several
cohorts, or weighted by client have other laws.

Weights are rounded up to blocks of counts, and distances to a geometric grid; the truncated tails of the coins' law are
charged as the worst draw.

After Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), who calibrate to a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import (
    NO_EVENT,
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    PrivacyEvent,
    compose,
    parallel,
    public_coin_gaussian,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean, integer, items, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Smoothed, count_logarithm
from hockeystick.learners.divergence.query_average import QueryAverage

_UP = 1.0 + 2.0**-48
_TAIL = 1e-15  # of a count's law on either side, charged as the worst draw
_BLOCKS = 128
_LOST = 1e-9  # of every outcome's probability, above the relative error of a binomial one
_LOST_MASS = 1e-16  # and, per sample, above the absolute error of a difference of distribution functions
_STEP = math.log(1.005)  # of the grid of distances
_MOST_CLASSES = 24
_MOST_PAIRS = 3


def _samples(value: object) -> int:
    return integer("samples", value, low=1, high=10**6)


def _sigma(value: object) -> float:
    return real("sigma", value, low=0.0, low_open=True)


@frozen(eq=False, kw_only=True)
class FreshCoins:
    """Symbols that are drawn from the reference after the data are fixed, for one cohort, weighted by number of draws.

    Args:
        reference: Pi, shape (k,).
        samples: T, at most 1e6.
        records: N of the cohort, public.
        logarithm: The rule for logarithms of counts.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    See :func:`coin_event` for an example.
    """

    reference: FloatArray = field(converter=sensitivity.reference, repr=False)
    samples: int = field(converter=_samples)
    records: int = field(converter=arguments.records)
    logarithm: CountLogarithm = field(factory=Smoothed, converter=count_logarithm)

    def average(self, client_records: npt.ArrayLike, rng: np.random.Generator) -> QueryAverage:
        """Returns an average with fresh coins, over all clients, whose law :func:`coin_event` accounts for.

        Args:
            client_records: The number of records of each client, shape (n,), with sum N.
            rng: The source of the coins, seeded after the data are fixed, by somebody who does not know them.

        Raises:
            InvalidArgumentError: an argument is outside its domain, or the number of records is not N.
        """
        found = QueryAverage.drawn(
            self.reference,
            client_records,
            samples=self.samples,
            rng=rng,
            logarithm=self.logarithm,
            weighting="record",
            weights="draws",
        )
        if int(found.records[0]) != self.records:
            raise InvalidArgumentError(
                "client_records",
                int(found.records[0]),
                f"is not the sum {self.records} of the coins",
                "use coins for this number",
            )
        return found

    def law(self, x: int, y: int) -> tuple[FloatArray, FloatArray]:
        """Returns the law of two symbols' weights, rounded up: probabilities (outcomes,), weights (outcomes, 2).

        The missing probability is that of any draw. The counts are trinomial: (T; Pi(x), Pi(y)).

        Raises:
            InvalidArgumentError: ``x`` and ``y`` are not two different symbols.
        """
        k = len(self.reference)
        first, second = (integer("symbol", i, low=0, high=k - 1) for i in (x, y))
        if first == second:
            raise InvalidArgumentError("y", y, "is the same symbol as x", "give two different symbols")
        p, q = float(self.reference[first]), float(self.reference[second])
        tops, counts = _blocks(self.samples, p), _likely(self.samples, p)
        others = _blocks(self.samples, q)
        left = self.samples - counts[:, np.newaxis]
        below = stats.binom.cdf(others, left, min(1.0, q / (1.0 - p)))
        masses = np.diff(below, axis=1, prepend=0.0) - _LOST_MASS * max(100, self.samples)
        joint = np.maximum(stats.binom.pmf(counts, self.samples, p)[:, np.newaxis] * masses, 0.0) * (1.0 - _LOST)
        grouped = np.zeros((len(tops), len(others)))
        np.add.at(grouped, np.searchsorted(tops, counts), joint)
        where = np.nonzero(grouped)
        shares = np.stack([tops[where[0]], others[where[1]]], axis=1) / self.samples
        return grouped[where], shares


def _likely(samples: int, p: float) -> npt.NDArray[np.int64]:
    low, high = (int(stats.binom.ppf(tail, samples, p)) for tail in (_TAIL, 1.0 - _TAIL))
    return np.arange(low, high + 1)


def _blocks(samples: int, p: float) -> npt.NDArray[np.int64]:
    """The largest count of each block; the last one is T."""
    inside = _likely(samples, p)
    tops = inside[np.unique(np.ceil(np.linspace(0, len(inside) - 1, _BLOCKS)).astype(np.int64))]
    return np.unique(np.append(tops, samples))


@frozen(kw_only=True)
class CoinChannel:
    """One published number, λ·U − V with normal noise, or U alone; see :class:`CoinRelease`.

    Args:
        sigma: The standard deviation of its noise.
        multiplier: λ ≥ 0, the public factor of U.
        logs: Whether V, the average of ln r, is included.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or neither U nor V is included.
    """

    sigma: float = field(converter=_sigma)
    multiplier: float = field(default=0.0, converter=arguments.multiplier)
    logs: bool = True

    def __attrs_post_init__(self) -> None:
        boolean("logs", self.logs)
        if not self.logs and not self.multiplier:
            raise InvalidArgumentError("multiplier", self.multiplier, "leaves nothing to publish", "set logs=True")

    def slopes(self, coins: FreshCoins, pi: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Returns the largest rises of a query, per weight and noise, as a record joins and as it leaves a symbol."""
        rule, sizes = coins.logarithm, (coins.records, len(coins.reference))
        linear = self.multiplier / (rule.mass(*sizes) * np.asarray(pi))
        least, most = (rule.least_rise(coins.records), rule.largest_rise()) if self.logs else (0.0, 0.0)
        return (
            np.maximum(linear - least, 0.0) / self.sigma * _UP,
            np.maximum(most - linear, 0.0) / self.sigma * _UP,
        )


def _channels(value: CoinChannel | Iterable[CoinChannel]) -> tuple[CoinChannel, ...]:
    return (value,) if isinstance(value, CoinChannel) else items("channels", value)


@frozen(kw_only=True)
class CoinRelease:
    """The numbers that are published about one draw of symbols.

    Args:
        coins: The draw.
        channels: The published numbers, all with the same coins and the same records.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or nothing is published.

    See :func:`coin_event` for an example.
    """

    coins: FreshCoins = field()
    channels: tuple[CoinChannel, ...] = field(converter=_channels)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.coins, FreshCoins):
            raise InvalidArgumentError("coins", type(self.coins).__name__, "is not a FreshCoins")
        if not self.channels or not all(isinstance(channel, CoinChannel) for channel in self.channels):
            raise InvalidArgumentError("channels", self.channels, "are not one CoinChannel or several")

    def event(self, x: int, y: int) -> PrivacyEvent:
        """Returns the cost of the distinction whether a record is at x or at y; :func:`coin_event` takes the worst."""
        return self._event(self._tails(x, y))

    @property
    def worst(self) -> float:
        """The distance over the noise if all draws hit one symbol."""
        found = [np.maximum(*channel.slopes(self.coins, self.coins.reference)).max() for channel in self.channels]
        return math.hypot(*found) * _UP

    @property
    def heaviest_pair_is_worst(self) -> bool:
        """Whether no query grows as a record joins a symbol, so that the two heaviest symbols are the worst pair.

        Then the distance is max(w(x) b(x), w(y) b(y)) with b increasing in Pi, and the counts of two symbols with more
        mass are stochastically larger (by a coupling in which some draws of other symbols become theirs).
        """
        return all(not channel.slopes(self.coins, self.coins.reference)[0].any() for channel in self.channels)

    def _tails(self, x: int, y: int, *, any_pair: bool = False) -> FloatArray:
        """P(distance >= worst*exp(-i*step)) for i = 0, 1, ..., with distances rounded up to that grid.

        ``any_pair``: for a distance that bounds all pairs, w(x) comes + w(y) goes <= (w(x) + w(y)) max(comes, goes).
        """
        probabilities, shares = self.coins.law(x, y)
        top, square = self.worst, np.zeros(len(shares))
        pi = self.coins.reference
        for channel in self.channels:
            comes, goes = channel.slopes(self.coins, pi if any_pair else pi[[x, y]])
            if any_pair:
                distance = shares.sum(axis=1) * float(np.maximum(comes, goes).max())
            else:
                rises, falls = shares * comes, shares * goes
                distance = np.maximum(rises[:, 0] + falls[:, 1], rises[:, 1] + falls[:, 0])
            square += distance**2
        distance = np.minimum(np.sqrt(square) * _UP, top)
        moved = distance > 0.0
        # Rounding to a larger distance, a lower index, is safe; the offset exceeds the round-off of the logarithm.
        indices = np.maximum(0, np.floor(np.log(top / distance[moved]) / _STEP - 1e-9)).astype(np.int64)
        of_level = np.bincount(indices, weights=probabilities[moved], minlength=1)
        of_level[0] += max(0.0, 1.0 - math.fsum(probabilities))
        return np.asarray(np.minimum(np.cumsum(of_level), 1.0))

    def _event(self, tails: FloatArray) -> PrivacyEvent:
        probabilities = np.append(np.diff(tails, prepend=0.0), 1.0 - tails[-1])
        # Exponents to −745 are off by U of themselves, at most 750 U, exp by 2 U, two products by U: of 900 U.
        distances = np.append(self.worst * np.exp(-_STEP * np.arange(len(tails))) * (1.0 + 1e-13), 0.0)
        return public_coin_gaussian(np.maximum(probabilities, 0.0), distances, most=len(distances))


def coin_event(*parts: CoinRelease | tuple[CoinRelease, int]) -> PrivacyEvent:
    """Returns the joint cost of releases, each with a fresh draw of symbols, for the worst pair of symbols.

    All pairs of symbols, or one per pair of masses, are considered. A pair is dropped if another is at a larger
    distance in every release (in law); if many remain, they are replaced by a law above all of them.

    If no query grows as a record joins a symbol (multipliers up to about the least mass), the two heaviest symbols are
    the worst pair. With larger multipliers and more than 24 different masses a common bound for all pairs is used: the
    weights of the two heaviest symbols together, at the largest slope.

    The event has no rule for groups, because the records of a group may move between different symbols.

    Args:
        parts: Releases, or pairs of a release and the number of its repetitions with fresh coins. All draw from the
            same reference.

    Raises:
        InvalidArgumentError: there is no release, a count is below 1, or the references differ.

    Example:
        >>> from hockeystick.accounting import epsilon
        >>> from hockeystick.learners.divergence import CoinChannel, CoinRelease, FreshCoins, coin_event
        >>> coins = FreshCoins(reference=[0.25] * 4, samples=8, records=1000)
        >>> release = CoinRelease(coins=coins, channels=CoinChannel(sigma=1.0))
        >>> round(float(epsilon(coin_event(release), 1e-3)), 1)
        0.8
    """
    releases = [part if isinstance(part, tuple) else (part, 1) for part in parts]
    if not releases:
        raise InvalidArgumentError("parts", parts, "is empty", "give a release")
    if any(len(pair) != 2 for pair in releases):
        raise InvalidArgumentError("parts", "...", "has a tuple of another length than two", "give (release, count)")
    for release, count in releases:
        if not isinstance(release, CoinRelease):
            raise InvalidArgumentError("parts", release, "is not a CoinRelease")
        integer("count", count, low=1)
    pi = releases[0][0].coins.reference
    if any(not np.array_equal(release.coins.reference, pi) for release, _ in releases):
        raise InvalidArgumentError("parts", "...", "draw from different references", "compose their events")
    pairs = _pairs(pi)
    order = np.argsort(-pi, kind="stable")
    if pairs is None or all(release.heaviest_pair_is_worst for release, _ in releases):
        pairs, exact = [(int(order[0]), int(order[1]))], False
    else:
        exact = True
    tails = []
    for release, _ in releases:
        any_pair = not exact and not release.heaviest_pair_is_worst
        tails.append(_stacked([release._tails(x, y, any_pair=any_pair) for x, y in pairs]))
    tails = _fewer(tails)
    events = [
        compose(*((release._event(own[i]), count) for (release, count), own in zip(releases, tails, strict=True)))
        for i in range(len(tails[0]))
    ]
    # A record that moves between symbols that are not asked for costs nothing; this branch rules out groups.
    return parallel(*events, NO_EVENT)


def _pairs(pi: FloatArray) -> list[tuple[int, int]] | None:
    """A pair of symbols for every pair of masses; None if there are too many."""
    masses, first, counts = np.unique(pi, return_index=True, return_counts=True)
    if len(masses) > _MOST_CLASSES:
        return None
    found = [(int(first[i]), int(first[j])) for i in range(len(masses)) for j in range(i)]
    return found + [tuple(np.flatnonzero(pi == masses[i])[:2].tolist()) for i in np.flatnonzero(counts > 1)]


def _stacked(laws: list[FloatArray]) -> FloatArray:
    length = max(len(law) for law in laws)
    return np.stack([np.pad(law, (0, length - len(law)), mode="edge") for law in laws])


def _fewer(tails: list[FloatArray]) -> list[FloatArray]:
    """The pairs that no other pair dominates, in law, in every release; or one law above all of them.

    The cost of noise increases in the distance, and one law of distances is above another if its tails are.
    """
    remaining: list[int] = []
    order = sorted(range(len(tails[0])), key=lambda i: -sum(float(own[i].sum()) for own in tails))
    for i in order:
        if not any(all(bool((own[j] >= own[i]).all()) for own in tails) for j in remaining):
            remaining.append(i)
    if len(remaining) <= _MOST_PAIRS:
        return [own[remaining] for own in tails]
    return [own[remaining].max(axis=0, keepdims=True) for own in tails]


def coin_graph(*parts: CoinRelease | tuple[CoinRelease, int]) -> AccountantGraph:
    """Returns the plan of :func:`coin_event`: all releases, with coins tossed after the data are fixed.

    Example:
        >>> from hockeystick.learners.divergence import CoinChannel, CoinRelease, FreshCoins, coin_graph
        >>> coins = FreshCoins(reference=[0.25] * 4, samples=8, records=1000)
        >>> graph = coin_graph(CoinRelease(coins=coins, channels=CoinChannel(sigma=1.0)))
        >>> graph.adjacency.value, len(graph.assumptions)
        ('replace-one', 2)
    """
    event = coin_event(*parts)  # refuses parts that are not releases
    rules = {(part[0] if isinstance(part, tuple) else part).coins.logarithm.assumption for part in parts}
    return (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(
                "neighbours differ in the symbol of one record; how many records a client has is public",
                "symbols are drawn at random from the reference, after the data are fixed, afresh for each release",
                *sorted(rule for rule in rules if rule is not None),
            ),
        )
        .source("records")
        .release("estimates", event, reads=("records",))
    )
