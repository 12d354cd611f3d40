"""Dominating pairs (P, Q) under a secret choice: the access happens with probability q, otherwise P's world is Q's.

| function    | pair                             | loss, of the loss l = ln(dP/dQ)   |
|-------------|----------------------------------|-----------------------------------|
| removal     | (1−q)·Q + q·P against Q          | ln(1 − q + q·e^l)                 |
| addition    | P against (1−q)·P + q·Q          | −ln(1 − q + q·e^{−l})             |
| replacement | symmetric: the removal where l>0 | ±ln(1 − q + q·e^{|l|})            |

Removal and addition are Zhu, Dong & Wang 2022, Thm 11. The replacement has the profile q·δ(ln(1 + (e^ε − 1)/q)) for
ε ≥ 0 (Balle, Barthe & Gaboardi 2018, Thm 2) and its mirror image below. All masses are sums: nothing cancels.
"""

from __future__ import annotations

import abc
import math

import numpy as np
from attrs import frozen

from hockeystick.accounting.losses.dominating_pairs import Array, Atoms, Cells, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair
from hockeystick.accounting.losses.loss_of_mixture import mixed, unmixed


@frozen
class _Sampled(DominatingPair):
    pair: DominatingPair
    q: float

    @abc.abstractmethod
    def _atom(self) -> tuple[float, float, float]:
        """A loss that the inner pair's cells don't hold, with P's and Q's mass there."""

    @abc.abstractmethod
    def atoms(self, pair: Atoms) -> Atoms:
        """The same for a pair of finitely many losses, as such a pair."""

    @abc.abstractmethod
    def _spread(self, edges: Array) -> Cells:
        """The cells without that atom."""

    def cells(self, edges: Array) -> Cells:
        edges = np.asarray(edges, dtype=float)
        loss, p, q = self._atom()
        return _with_atom(self._spread(edges), edges, loss, p, q)

    def _inner(self, edges: Array) -> Cells:
        """The inner pair's cells; where several edges are infinite, all but the innermost bound empty cells."""
        first = max(int(np.count_nonzero(edges == -math.inf)) - 1, 0)
        last = len(edges) - max(int(np.count_nonzero(edges == math.inf)) - 1, 0)
        c = self.pair.cells(edges[first:last])
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        p[first : last - 1], q[first : last - 1] = c.p, c.q
        return Cells(p, q, c.p_below, c.q_below, c.p_above, c.q_above)

    def _q_alone(self) -> float:
        """Q's mass where P has none."""
        c = self.pair.cells(np.array([-math.inf, math.inf]))
        return max(0.0, 1.0 - (float(c.q.sum()) + c.q_below + c.q_above))


@frozen
class Removal(_Sampled):
    """P is the world with the record."""

    def _atom(self) -> tuple[float, float, float]:
        alone = self._q_alone()
        return math.log1p(-self.q), (1 - self.q) * alone, alone

    def atoms(self, pair: Atoms) -> Atoms:
        losses, p = np.array(pair.losses), np.array(pair.p)
        loss, rest, _ = self._atom()
        masses = self.q * p + (1 - self.q) * p * np.exp(-losses)
        return Atoms((*mixed(losses, self.q).tolist(), loss), (*masses.tolist(), rest), self.infinity())

    def _spread(self, edges: Array) -> Cells:
        return _mixed_cells(self._inner(unmixed(edges, self.q)), self.q)

    def support(self) -> tuple[float, float]:
        return math.log1p(-self.q), float(mixed(np.array(self.pair.support()[1]), self.q))

    def infinity(self) -> float:
        return self.q * self.pair.infinity()


@frozen
class Addition(_Sampled):
    """P is the world without the record."""

    def _atom(self) -> tuple[float, float, float]:
        alone = self.pair.infinity()
        return -math.log1p(-self.q), alone, (1 - self.q) * alone

    def atoms(self, pair: Atoms) -> Atoms:
        loss, rest, _ = self._atom()
        losses = -mixed(-np.array(pair.losses), self.q)
        return Atoms((*losses.tolist(), loss), (*pair.p, rest))

    def _spread(self, edges: Array) -> Cells:
        c, r = self._inner(-unmixed(-edges, self.q)), 1 - self.q
        return Cells(
            c.p, r * c.p + self.q * c.q,
            c.p_below, r * c.p_below + self.q * c.q_below,
            c.p_above, r * c.p_above + self.q * c.q_above,
        )  # fmt: skip

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        ends = -mixed(-np.array([low, high]), self.q)
        return float(ends[0]), -math.log1p(-self.q) if self.pair.infinity() else float(ends[1])


@frozen
class Replacement(_Sampled):
    """The pair of a record's replacement, made of a symmetric one."""

    def _atom(self) -> tuple[float, float, float]:
        c = self._positive(np.array([0.0, math.inf]))
        rest = max(0.0, 1.0 - self.infinity() - float(c.p.sum() + c.q.sum()))
        return 0.0, rest, rest

    def atoms(self, pair: Atoms) -> Atoms:
        up = np.array(pair.losses) > 0
        losses, p = np.array(pair.losses)[up], np.array(pair.p)[up]
        q = p * np.exp(-losses)
        away = mixed(losses, self.q)
        masses = np.concatenate([self.q * p + (1 - self.q) * q, q])
        rest = max(0.0, 1.0 - self.infinity() - float(masses.sum()))
        return Atoms((*away.tolist(), *(-away).tolist(), 0.0), (*masses.tolist(), rest), self.infinity())

    def _positive(self, edges: Array) -> Cells:
        """The cells of ``edges`` ≥ 0."""
        return _mixed_cells(self._inner(unmixed(edges, self.q)), self.q)

    def _spread(self, edges: Array) -> Cells:
        positive, negative = edges[edges > 0], edges[edges < 0]
        c = self._positive(np.concatenate([[0.0], positive, [math.inf]]))
        d = self._positive(np.concatenate([[0.0], -negative[::-1], [math.inf]]))
        # Below 0 the losses and the worlds are mirrored. Which cell is it that ends there?
        ends = np.concatenate([negative, [0.0], positive, [math.inf]])
        where, m = np.searchsorted(edges, ends) - 1, len(edges) - 1
        inside = (where >= 0) & (where < m)
        out = []
        for mass in (np.concatenate([d.q[::-1], c.p]), np.concatenate([d.p[::-1], c.q])):
            below, above = float(mass[where < 0].sum()), float(mass[where >= m].sum())
            out.append((np.bincount(where[inside], mass[inside], m), below, above))
        (p, p_below, p_above), (q, q_below, q_above) = out
        return Cells(p, q, p_below, q_below, p_above, q_above)

    def support(self) -> tuple[float, float]:
        high = float(mixed(np.array(max(self.pair.support()[1], 0.0)), self.q))
        return -high, high

    def infinity(self) -> float:
        return self.q * self.pair.infinity()


def _mixed_cells(c: Cells, share: float) -> Cells:
    r = 1 - share
    return Cells(
        r * c.q + share * c.p, c.q,
        r * c.q_below + share * c.p_below, c.q_below,
        r * c.q_above + share * c.p_above, c.q_above,
    )  # fmt: skip


def _with_atom(c: Cells, edges: Array, loss: float, p: float, q: float) -> Cells:
    if p == 0.0 and q == 0.0:
        return c
    i = int(np.searchsorted(edges, loss)) - 1  # cell i is (edges[i], edges[i+1]]
    if i < 0:
        return Cells(c.p, c.q, c.p_below + p, c.q_below + q, c.p_above, c.q_above)
    if i >= len(c.p):
        return Cells(c.p, c.q, c.p_below, c.q_below, c.p_above + p, c.q_above + q)
    c.p[i] += p
    c.q[i] += q
    return c


def sampled(kind: type[_Sampled], pair: DominatingPair, q: float) -> DominatingPair:
    """Returns the pair of a sampled access, 0 < q < 1; of finitely many losses where the access has finitely many."""
    return kind(pair, q).atoms(pair) if isinstance(pair, Atoms) else kind(pair, q)


class LawPair(DominatingPair):
    """The pair whose loss has a given law; Q's mass where P has none is what is left of it."""

    def __init__(self, law: LossPmf) -> None:
        self.law, self.losses = law, law.losses()

    def cells(self, edges: Array) -> Cells:
        where, m = np.searchsorted(edges, self.losses) - 1, len(edges) - 1
        sums = []
        for mass in (self.law.p, self.law.p * np.exp(-self.losses)):
            inside = (where >= 0) & (where < m)
            below, above = float(mass[where < 0].sum()), float(mass[where >= m].sum())
            sums.append((np.bincount(where[inside], mass[inside], m), below, above))
        (p, p_below, p_above), (q, q_below, q_above) = sums
        return Cells(p, q, p_below, q_below, p_above, q_above)

    def support(self) -> tuple[float, float]:
        return float(self.losses[0]), float(self.losses[-1])

    def infinity(self) -> float:
        return self.law.infinity


def sampled_law(kind: type[_Sampled], inner: LossPmf, q: float, step: float, upper: bool) -> LossPmf:
    """Returns the law of a sampled access on a grid from that of the access, from above or below alike."""
    return from_pair(kind(LawPair(inner), q), step, upper)
