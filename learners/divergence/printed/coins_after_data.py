"""What a noisy estimate of KL(Pi || P) costs if its symbols are drawn after the data are fixed.

It is less than with the worst draw. The symbols x_1, ..., x_T are public coins. Whoever has chosen two neighbouring
data sets, with one record at x and at y, does not know the coins yet. So the cost is that of the pair (coins, output),
an average over the coins of what Gaussian noise costs at the distance that the drawn symbols allow, and the worst pair
of symbols is taken last:

    delta(eps) = max over x, y of E_w[delta_G(eps; D(w(x), w(y))/sigma)].

Both weights count, as both cells can be at their emptiest: one symbol alone gives too little. It holds for coins that
are tossed honestly after the data are fixed, and for averages that weight symbols by how often they were drawn
(``QueryAverage.drawn(..., weights="draws")``); for no others (``QueryAverage.sensitivity`` is for those). Releases of
the same draw share their coins and are channels of one ``CoinRelease``; releases of fresh draws are composed pair by
pair (:func:`coin_event`). What is released is D of :meth:`FreshCoins.average`; averages with other weights, of several
cohorts, or weighted by client have other laws.

Weights are rounded up to blocks of counts, and distances to a geometric grid; what the tails of the coins' law lack is
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
    """Symbols that are drawn from the reference once the data are fixed, for one cohort, and weighted by how often.

    Args:
        reference: Pi, shape (k,).
        samples: T, at most 1e6.
        records: N of the cohort, public.
        logarithm: How logarithms of counts are taken.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    reference: FloatArray = field(converter=sensitivity.reference, repr=False)
    samples: int = field(converter=_samples)
    records: int = field(converter=arguments.records)
    logarithm: CountLogarithm = field(factory=Smoothed, converter=count_logarithm)

    def average(self, client_records: npt.ArrayLike, rng: np.random.Generator) -> QueryAverage:
        """Tosses these coins: the average whose law :func:`coin_event` accounts for, asked of all clients.

        Args:
            client_records: How many records each client has, shape (n,); N in sum.
            rng: Of the coins; to be seeded after the data are fixed, by nobody who knows them.

        Raises:
            InvalidArgumentError: an argument outside its domain, or another number of records than N.
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
                "client_records", int(found.records[0]), f"in sum are not {self.records}", "give coins their number"
            )
        return found

    def law(self, x: int, y: int) -> tuple[FloatArray, FloatArray]:
        """The law of two symbols' weights, rounded up: probabilities (outcomes,) and weights (outcomes, 2).

        What the probabilities lack to 1 is any draw. The counts are trinomial: (T; Pi(x), Pi(y)).

        Raises:
            InvalidArgumentError: they are no two different symbols.
        """
        k = len(self.reference)
        first, second = (integer("symbol", i, low=0, high=k - 1) for i in (x, y))
        if first == second:
            raise InvalidArgumentError("y", y, "is the same symbol as x", "a record moves between two")
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
    """One number that is published: lambda*U - V with normal noise, or U alone.

    Args:
        sigma: Standard deviation of its noise.
        multiplier: lambda >= 0, public; what U is multiplied by.
        logs: Whether V, the average of ln r, is in it.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a number in which there is nothing.
    """

    sigma: float = field(converter=_sigma)
    multiplier: float = field(default=0.0, converter=arguments.multiplier)
    logs: bool = True

    def __attrs_post_init__(self) -> None:
        boolean("logs", self.logs)
        if not self.logs and not self.multiplier:
            raise InvalidArgumentError("multiplier", self.multiplier, "leaves nothing to publish", "set logs=True")

    def slopes(self, coins: FreshCoins, pi: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """How much a query grows at most, per weight and noise, as a record comes to a symbol, and as it leaves it."""
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
    """Numbers that are published about one draw of symbols.

    Args:
        coins: The draw.
        channels: What is published. All of it is about the same coins, and every record is in all of it.

    Raises:
        InvalidArgumentError: an argument outside its domain, or nothing is published.
    """

    coins: FreshCoins = field()
    channels: tuple[CoinChannel, ...] = field(converter=_channels)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.coins, FreshCoins):
            raise InvalidArgumentError("coins", type(self.coins).__name__, "are no FreshCoins")
        if not self.channels or not all(isinstance(channel, CoinChannel) for channel in self.channels):
            raise InvalidArgumentError("channels", self.channels, "are not one CoinChannel or several")

    def event(self, x: int, y: int) -> PrivacyEvent:
        """What it costs that one record is at x or at y. The worst pair is what it costs: :func:`coin_event`."""
        return self._event(self._tails(x, y))

    @property
    def worst(self) -> float:
        """Distance over noise if all draws hit one symbol."""
        found = [np.maximum(*channel.slopes(self.coins, self.coins.reference)).max() for channel in self.channels]
        return math.hypot(*found) * _UP

    @property
    def heaviest_pair_is_worst(self) -> bool:
        """Whether no record gains by coming to a symbol, so that heavier symbols are worse ones.

        Then the distance is max(w(x) b(x), w(y) b(y)) with b growing with Pi, and the counts of two symbols with more
        mass are larger (couple: some draws of other symbols become theirs).
        """
        return all(not channel.slopes(self.coins, self.coins.reference)[0].any() for channel in self.channels)

    def _tails(self, x: int, y: int, *, any_pair: bool = False) -> FloatArray:
        """P(distance >= worst*exp(-i*step)) for i = 0, 1, ..., with distances rounded up to that grid.

        ``any_pair``: of a distance that no pair's exceeds, w(x) comes + w(y) goes <= (w(x) + w(y)) max(comes, goes).
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
        # A larger distance is the safe one: a lower index, by more than the round-off of a logarithm over a step.
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
    """What releases cost together, each about a fresh draw of symbols: the worst pair of symbols, taken last.

    Every pair is looked at, or every kind of pair where symbols have equal mass; of two pairs of which one is farther
    apart in every release (in law) only that one is kept, and in place of many that remain, a law above all of them.

    If no record gains by coming to a symbol (multipliers up to about the least mass), the two heaviest symbols are the
    worst pair. With larger multipliers and more than 24 different masses it takes a bound for all pairs at once: the
    two heaviest symbols' weights together, at the largest slope.

    The event has no rule for groups: records of a group may move between different symbols.

    Args:
        parts: Releases, or pairs of a release and how often it is repeated with fresh coins. All draw from one
            reference.

    Raises:
        InvalidArgumentError: no release, a count below 1, or different references.
    """
    releases = [part if isinstance(part, tuple) else (part, 1) for part in parts]
    if not releases:
        raise InvalidArgumentError("parts", parts, "is empty", "give a release")
    for release, count in releases:
        if not isinstance(release, CoinRelease):
            raise InvalidArgumentError("parts", release, "is no CoinRelease")
        integer("count", count, low=1)
    pi = releases[0][0].coins.reference
    if any(not np.array_equal(release.coins.reference, pi) for release, _ in releases):
        raise InvalidArgumentError("parts", "...", "draw from different references", "compose bounds for each")
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
    # A record that moves between symbols that nobody asks for costs nothing; as a branch it rules out groups.
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
    """The pairs of which no other is farther apart, in law, in every release; or one law above all of them.

    Noise of one law costs more the larger the distance, and a law of distances is above another if its tails are.
    """
    kept: list[int] = []
    order = sorted(range(len(tails[0])), key=lambda i: -sum(float(own[i].sum()) for own in tails))
    for i in order:
        if not any(all(bool((own[j] >= own[i]).all()) for own in tails) for j in kept):
            kept.append(i)
    if len(kept) <= _MOST_PAIRS:
        return [own[kept] for own in tails]
    return [own[kept].max(axis=0, keepdims=True) for own in tails]


def coin_graph(*parts: CoinRelease | tuple[CoinRelease, int]) -> AccountantGraph:
    """The plan of :func:`coin_event`: all releases, for one record, if coins are tossed after the data are fixed."""
    event = coin_event(*parts)  # refuses what are no releases
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
