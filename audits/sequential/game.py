"""The game of a sequential audit: bets on events and on whole laws, against a claim and each epsilon of a ladder.

Bets change after fixed numbers of pairs, which grow geometrically. In between, the wealth against the claim is checked
after fixed numbers of pairs too: after every pair at first, later at every half per cent. So the result depends on the
order of the outputs, but not on the sizes of the batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import define, field

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.sequential.betting import (
    PRIOR,
    ROUND_OFF,
    STAKES,
    Bets,
    log_total,
    nearest_boundary,
    share_out,
    standing,
)
from hockeystick.audits.sequential.events import GRADES, Cut, Events
from hockeystick.audits.sequential.whole_laws import SMOOTHINGS, best_factors, smoothed, worst_points

_EVERY = 256  # pairs up to which the wealth is checked after each; then at least so many checks per doubling
_GROWTH = ((200, 0.08), (1000, 0.17), (10_000, 0.25), (math.inf, 0.4))  # (pairs up to, share until the next change)
_POWER = 1.2816  # the normal quantile of 0.9
_ON_LAWS = 0.93  # share of the money on bets on whole laws
_LARGEST_STAKES = np.array([0.78, 0.17])  # of that, on the two largest stakes; the rest is on stakes of all sizes
_BLOCK = 1 << 20  # numbers in a block of wealths
_ADD = (0.03, 0.1, 0.3, 1.0, 3.0, 8.0)
_TIMES = (0.25, 0.5, 0.75, 0.9, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 3.0, 5.0)


def ladder(epsilon: float) -> FloatArray:
    """Returns the possible values of the lower bound on epsilon, increasing; the claimed epsilon is one of them."""
    rungs = np.concatenate([np.multiply(epsilon, _TIMES), np.add(epsilon, _ADD), _ADD, [epsilon]])
    return np.unique(rungs[rungs <= max(300.0, epsilon)])


def next_change(pairs: int) -> int:
    """Returns the number of pairs, above ``pairs``, after which bets change next."""
    at = 8
    while at <= pairs:
        growth = next(growth for most, growth in _GROWTH if at < most)
        at += max(2, int(at * growth))
    return at


def looks(start: int, stop: int) -> IntArray:
    """Returns the numbers of pairs in (start, stop] after which the wealth is checked; ``stop`` is always one."""
    found, at = [], start
    while at < stop:
        step = 1 << max(0, (at // _EVERY).bit_length() - 1) if at >= _EVERY else 1
        at = min(stop, (at // step + 1) * step)
        found.append(at)
    return np.array(found, dtype=np.int64)


def _joined(prior: FloatArray, cuts: int) -> FloatArray:
    """Returns the prior of all money: on events and, against the claim, also on estimated laws of each cut's cells."""
    if not cuts:
        return prior
    by_cut = 0.5 ** np.arange(cuts)
    roles = np.outer(by_cut / by_cut.sum(), SMOOTHINGS).ravel()
    stakes = (1 - _LARGEST_STAKES.sum()) * PRIOR
    stakes[: len(_LARGEST_STAKES)] += _LARGEST_STAKES  # smaller stakes hedge against poor estimates
    found = np.concatenate([prior, np.zeros((len(prior), len(roles), len(STAKES)))], axis=1)
    found[0] *= 1 - _ON_LAWS
    found[0, -len(roles) :] = _ON_LAWS * (1 - 1e-12) * np.outer(roles, stakes)
    return found


def _sums(events: Events, plain: int) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """Returns the sums of each role's values on the likelier and on the other data set, and the sums of their squares.

    A graded event is the mean of its nested events; 1, 3, 5, ... are the differences of squares.
    """
    nested = events.counts[plain:].reshape(events.graded, GRADES, 2).astype(float)
    found = []
    for weights in (np.ones(GRADES) / GRADES, (2 * np.arange(GRADES) + 1) / GRADES**2):
        both = events.counts[:plain].astype(float), np.einsum("j,ijk->ik", weights, nested)
        found.append(np.concatenate([turned for sums in both for turned in (sums, sums[:, ::-1])]).T)
    return found[0], (found[1][0], found[1][1])


@define(eq=False)
class Game:
    """Bets against the claim and against each epsilon of a ladder at the claim's delta.

    Attributes:
      claim, epsilons: the hypotheses, the claim first.
      needed: log-wealth that refutes each hypothesis.
      carried, runs: log-money against the claim from earlier runs, shape (roles, stakes), and the number of these runs.
      log_money: shape (hypotheses, roles, stakes). Roles are the events, likelier on d0; then the same events, likelier
        on d1; then the laws of each cut and each smoothing, which bet against the claim alone. Money moves among
        events; money on laws stays there, since a law is estimated again at each change.
      start: log-wealth against the claim before the first bet.
      pairs: number of pairs with bets; there are ``first`` pairs before them.
      best, best_at: the largest log-wealth against the claim so far, and the number of pairs after which it occurred.
      crossed: mask of the hypotheses whose wealth has reached the needed one.
      points: number of the claimed point against which each role bets.
    """

    claim: Claim
    epsilons: FloatArray
    needed: FloatArray
    carried: FloatArray | None = None
    runs: int = 0
    log_money: FloatArray | None = field(default=None, init=False)
    pairs: int = field(default=0, init=False)
    first: int = field(default=0, init=False)
    best: float = field(default=-math.inf, init=False)
    best_at: int = field(default=0, init=False)
    crossed: BoolArray = field(init=False)
    points: IntArray = field(factory=lambda: np.zeros(0, dtype=np.int64), init=False)
    start: float = field(default=0.0, init=False)
    _events: Events | None = field(default=None, init=False)
    _means: FloatArray = field(factory=lambda: np.zeros((2, 0)), init=False)
    _bets: tuple[Bets, ...] = field(default=(), init=False)
    _laws: tuple[Bets, ...] = field(default=(), init=False)
    _roles: int = field(default=0, init=False)
    _paid: FloatArray = field(factory=lambda: np.zeros(0), init=False)
    _changes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.crossed = np.zeros(1 + len(self.epsilons), dtype=bool)

    def change(self, events: Events) -> None:
        """Sets the bets on the events, from their counts so far."""
        n, plain = events.trials, len(events.counts) - GRADES * events.graded
        (x, y), squares = _sums(events, plain)
        epsilon, delta = np.array(self.claim.points).T
        over, _ = standing(x, y, n, epsilon[:, None], delta[:, None], squares)
        self.points = over.argmax(axis=0) if n else np.zeros(len(x), dtype=np.int64)
        epsilons = np.concatenate([epsilon[self.points][None], np.repeat(self.epsilons[:, None], len(x), axis=1)])
        deltas = np.concatenate([delta[self.points][None], np.full((len(self.epsilons), len(x)), self.claim.delta)])
        prior = self._prior(*standing(x, y, n, epsilons, deltas, squares), n)[..., None] * PRIOR
        self._roles = len(x)
        if self.log_money is None:
            prior = _joined(prior, len(events.cuts))
            self.log_money = self._opening(prior)
            self.start = self.best = float(self.log_totals[0])
        else:
            shared = share_out(self.log_money[:, : len(x)], 1 / (1 + self._changes + self.runs), prior)
            self.log_money = np.concatenate([shared, self.log_money[:, len(x) :]], axis=1)
        self.first = self.first if self._changes else (n if events.learned else 0)
        self._events, self._means = events, np.stack([x + 0.5, y + 0.5]) / (n + 1)
        self._paid = prior[0, : len(x)].sum(axis=-1) * (1 - _ON_LAWS if events.cuts and self._changes else 1.0)
        q = nearest_boundary(x, y, n, epsilons, deltas)
        about = [np.asarray(v)[..., None] for v in (epsilons, deltas, q)]
        self._bets = tuple(
            Bets.at(about[0][:, own], about[1][:, own], about[2][:, own], STAKES, grades=grades)
            for own, grades in ((slice(2 * plain), 1), (slice(2 * plain, None), GRADES))
        )
        self.refresh(events)
        self._changes += 1

    def refresh(self, events: Events) -> None:
        """Sets the bets on laws, from their counts so far."""
        self._laws = tuple(self._on_laws(cut) for cut in events.cuts)

    def _on_laws(self, cut: Cut) -> Bets:
        """Returns the bets on the laws of a cut's cells, one for each smoothing."""
        p, q = smoothed(cut.counts, ordered=cut.partition.ordered)
        epsilon, delta = np.array(self.claim.points).T
        chosen = worst_points(p.mean(axis=0), q.mean(axis=0), epsilon, delta)
        return Bets.on_cells(*best_factors(p, q, epsilon[chosen], delta[chosen]))

    def _opening(self, prior: FloatArray) -> FloatArray:
        """Returns the money at the first bets: that of earlier runs against the claim, and 1 against the others."""
        with np.errstate(divide="ignore"):
            money = np.log(prior)
        if self.carried is None:
            return money
        if self.carried.shape != prior.shape[1:]:  # the roles are others: the money is distributed again
            money[0] += log_total(self.carried)
        else:
            money[0] = share_out(self.carried, 1 / (1 + self.runs), prior[0])
        return money

    @staticmethod
    def _prior(over: FloatArray, worth: FloatArray, trials: int) -> FloatArray:
        """Returns the shares of the roles in the money: larger where a violation would show and seems possible.

        A role that is z standard errors below its claim violates it with probability of the order of exp(-z^2 / 2).
        """
        log = 2 * np.log(worth) + np.where(over < 0, -0.5, 0.25) * np.square(over) * (trials > 0)
        log -= log.max(axis=-1, keepdims=True)
        weight = np.exp(np.maximum(log, -30.0))
        # The factor keeps the sum of the shares at most 1 after rounding: a few hundred roundings of 1e-16 each.
        return np.asarray(weight / weight.sum(axis=-1, keepdims=True) * (1 - 1e-12))

    def settle(self, happened: tuple[BoolArray, BoolArray], places: tuple[IntArray, IntArray] | None = None) -> bool:
        """Settles the bets on a batch of pairs, up to the first check that refutes the claim; returns whether one did.

        Args:
          happened: for each data set, a mask of the events that happened, shape (events, pairs), in stream order.
          places: for each data set, the outputs' cells in each of the events' cuts, shape (cuts, pairs).
        """
        assert self.log_money is not None
        ends = looks(self.pairs, self.pairs + happened[0].shape[1]) - self.pairs
        starts = np.concatenate([[0], ends[:-1]])
        sums = [np.add.reduceat(side, starts, axis=1, dtype=np.int64).cumsum(axis=1) for side in happened]
        counts = list(self._by_role(sums))
        on_laws = list(self._by_cell(places, ends)) if places is not None else []
        settled, block = len(ends) - 1, max(1, _BLOCK // self.log_money[0].size)
        for at in range(0, len(ends), block):
            own = slice(at, at + block)
            gains = [bets.of(0).settle_each(ends[own], x[..., own], y[..., own]) for bets, x, y in counts]
            gains += [bets.settle_each(ends[own], x[..., own], y[..., own]) for bets, x, y in on_laws]
            money = self.log_money[0] + np.concatenate(gains, axis=1)
            total = log_total(money) - (self.pairs + ends[own]) * ROUND_OFF
            reached = np.flatnonzero(total >= self.needed[0])
            k = int(reached[0]) if len(reached) else int(total.argmax())
            if total[k] > self.best:
                self.best, self.best_at = float(total[k]), self.pairs + int(ends[at + k])
            if len(reached):
                settled = at + k
                break
        pairs = int(ends[settled])
        gains = [bets.settle(pairs, x[:, None, :, settled], y[:, None, :, settled]) for bets, x, y in counts]
        for bets, x, y in on_laws:
            gain = bets.settle(pairs, x[:, None, :, settled], y[:, None, :, settled])
            gains.append(np.broadcast_to(gain, (len(self.log_money), *gain.shape)))
        self.log_money = self.log_money + np.concatenate(gains, axis=1)
        self.pairs += pairs
        self.crossed |= self.log_totals >= self.needed
        return bool(self.crossed[0])

    def _by_role(self, sums: list[IntArray]) -> Iterator[tuple[Bets, IntArray, IntArray]]:
        """Yields the bets on plain and on graded events, with counts on each data set, shape (roles, m, times)."""
        start = 0
        for bets in self._bets:
            m = bets.on_p.shape[-1]
            rows = bets.rest.shape[1] // 2 * m
            d0, d1 = (s[start : start + rows].reshape(-1, m, s.shape[1]) for s in sums)
            yield bets, np.concatenate([d0, d1]), np.concatenate([d1, d0])
            start += rows

    def _by_cell(self, places: tuple[IntArray, IntArray], ends: IntArray) -> Iterator[tuple[Bets, IntArray, IntArray]]:
        """Yields the bets on laws, with the counts of cells on each data set, shape (1, cells, times)."""
        turn = np.searchsorted(ends, np.arange(places[0].shape[1]), side="right")
        for i, bets in enumerate(self._laws):
            cells = bets.on_p.shape[-1]
            at = [np.bincount(turn * cells + side[i], minlength=len(ends) * cells) for side in places]
            x, y = (own.reshape(len(ends), cells).cumsum(axis=0).T[None] for own in at)
            yield bets, x, y

    @property
    def log_totals(self) -> FloatArray:
        """The log-wealth against each hypothesis."""
        assert self.log_money is not None
        return np.asarray(log_total(self.log_money) - self.pairs * ROUND_OFF)

    @property
    def richest(self) -> int:
        """The role with the most money against the claim, among those of events."""
        assert self.log_money is not None
        return int(log_total(self.log_money[0, : self._roles, None]).argmax())

    def event(self, role: int) -> tuple[int, int]:
        """Returns a role's event and its direction: 0 if the bet is that it is likelier on d0."""
        assert self._events is not None
        graded = self._events.graded
        plain = len(self._events.counts) - GRADES * graded
        if role < 2 * plain:
            return role % plain, role // plain
        return plain + (role - 2 * plain) % graded, (role - 2 * plain) // graded

    def words(self, event: int, *, exact: bool = False) -> str:
        """Describes an event, with all digits of its numbers if ``exact``."""
        assert self._events is not None
        return self._events.words(event, exact=exact)

    def counts(self, role: int) -> tuple[int, int, int]:
        """Returns the counts of a role's event on the likelier data set and on the other, and of outputs of each.

        They are of the outputs that chose the event; a score is counted where it is largest.
        """
        assert self._events is not None
        event, direction = self.event(role)
        plain = len(self._events.counts) - GRADES * self._events.graded
        row = event if event < plain else plain + (event - plain + 1) * GRADES - 1
        found = self._events.counts[row]
        return int(found[direction]), int(found[1 - direction]), self._events.trials

    def frequencies(self, role: int) -> tuple[float, float]:
        """Returns the share of outputs in a role's event on the likelier data set and on the other."""
        return float(self._means[0, role]), float(self._means[1, role])

    def detectable(self, pairs: int) -> float:
        """Returns the least epsilon that the best role would have found with probability 0.9 in ``pairs`` pairs.

        It considers the roles that bet against the same point as the richest one, each with the money of the last
        distribution. The log-wealth of a bet is a sum, and is assumed to be normal.
        """
        if not pairs or self._events is None:
            return math.inf
        points = np.array(self.claim.points)[self.points]
        epsilon, delta = points[:, 0], points[:, 1]
        same = self.points == self.points[self.richest]
        q, top = self._means[1], np.log(np.maximum(1 - delta, 1e-300) / self._means[1])
        with np.errstate(divide="ignore"):
            money = np.log(self._paid)[:, None] + np.log(PRIOR)
        low, high = epsilon, np.maximum(top, epsilon)
        found = self._shows(high, q, epsilon, delta, money, pairs) & (top > epsilon) & same
        if not found.any():
            return math.inf
        low, high, q, epsilon, delta, money = (v[found] for v in (low, high, q, epsilon, delta, money))
        for _ in range(30):
            middle = (low + high) / 2
            shows = self._shows(middle, q, epsilon, delta, money, pairs)
            low, high = np.where(shows, low, middle), np.where(shows, middle, high)
        return float(high.min())

    def _shows(
        self, true: FloatArray, q: FloatArray, epsilon: FloatArray, delta: FloatArray, money: FloatArray, pairs: int
    ) -> BoolArray:
        """Returns, for each role, whether P = e^true q + delta is found with probability 0.9."""
        p = np.minimum(np.exp(true) * q + delta, 1.0)
        at = nearest_boundary(pairs * p, pairs * q, pairs, epsilon, delta)
        bets = Bets.at(epsilon[:, None], delta[:, None], at[:, None], STAKES)
        p, q = p[:, None], q[:, None]
        on_p, on_q = bets.on_p[..., 0], bets.on_q[..., 0]
        mean = pairs * (bets.rest + on_p * p + on_q * q)
        spread = np.sqrt(pairs * (on_p**2 * p * (1 - p) + on_q**2 * q * (1 - q)))
        return np.asarray((money + mean - _POWER * spread >= self.needed[0]).any(axis=1))
