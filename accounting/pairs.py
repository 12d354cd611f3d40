"""Dominating pairs (P, Q) of output laws, seen through their privacy loss L = ln(dP/dQ).

A pair is asked one thing: how much mass P and Q put on the outcomes whose loss lies in each cell of a grid. From that
alone a discrete pair above it (``upper``) and one below it (``lower``) follow, see ``loss_pmf.py``. Masses are computed
cell by cell, never as differences of numbers near 1, so that tails keep their relative accuracy.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from scipy import special

Array = NDArray[Any]


@frozen
class Cells:
    """Masses of P and Q by privacy loss, on the cells (edges[i], edges[i+1]] and outside them."""

    p: Array
    q: Array
    p_below: float
    q_below: float
    p_above: float
    q_above: float


class DominatingPair(abc.ABC):
    """A pair of laws (P, Q) given by the law of its privacy loss."""

    @abc.abstractmethod
    def cells(self, edges: Array) -> Cells:
        """Returns the masses of P and Q on the cells of ``edges`` (ascending; the outermost may be infinite).

        Masses where one of the two laws has none (loss ±inf) are not counted: neither in ``p_above``, which
        ``infinity`` completes, nor in ``q_below``.
        """

    @abc.abstractmethod
    def support(self) -> tuple[float, float]:
        """Returns losses that hold all but a negligible mass (at most 1e-40 of P) between them."""

    def infinity(self) -> float:
        """Returns P's mass where Q has none."""
        return 0.0


@frozen
class Atoms(DominatingPair):
    """A pair with finitely many losses: P has mass ``p[i]`` at ``losses[i]``, and ``at_infinity`` where Q has none."""

    losses: tuple[float, ...]
    p: tuple[float, ...]
    at_infinity: float = 0.0

    def cells(self, edges: Array) -> Cells:
        losses, p = np.array(self.losses), np.array(self.p)
        q = p * np.exp(-losses)
        m = len(edges) - 1
        where = np.searchsorted(edges, losses, side="left") - 1  # cell i is (edges[i], edges[i+1]]
        below, above = where < 0, where >= m
        inside = ~below & ~above
        return Cells(
            np.bincount(where[inside], p[inside], m),
            np.bincount(where[inside], q[inside], m),
            float(p[below].sum()),
            float(q[below].sum()),
            float(p[above].sum()),
            float(q[above].sum()),
        )

    def support(self) -> tuple[float, float]:
        return min(self.losses, default=0.0), max(self.losses, default=0.0)

    def infinity(self) -> float:
        return self.at_infinity


@frozen
class GaussianPair(DominatingPair):
    """N(mu, 1) against N(0, 1): the loss is N(mu²/2, mu²) under P and N(−mu²/2, mu²) under Q."""

    mu: float

    def cells(self, edges: Array) -> Cells:
        below_p, inside_p, above_p = _normal_masses((edges - self.mu**2 / 2) / self.mu)
        below_q, inside_q, above_q = _normal_masses((edges + self.mu**2 / 2) / self.mu)
        return Cells(inside_p, inside_q, below_p, below_q, above_p, above_q)

    def support(self) -> tuple[float, float]:
        reach = 13.5 * self.mu  # P(N > 13.5) < 1e-41
        return self.mu**2 / 2 - reach, self.mu**2 / 2 + reach


def _normal_masses(z: Array) -> tuple[float, Array, float]:
    upper = z[:-1] > 0  # take the difference in the smaller tail
    inside = np.where(upper, special.ndtr(-z[:-1]) - special.ndtr(-z[1:]), special.ndtr(z[1:]) - special.ndtr(z[:-1]))
    return float(special.ndtr(z[0])), np.maximum(inside, 0.0), float(special.ndtr(-z[-1]))


@frozen
class ExponentialLossPair(DominatingPair):
    """A symmetric pair whose loss has density ``density·e^{(l−reach)/2}`` on [−reach, reach] under P.

    Besides it P has an atom ``atom`` at +reach, and ``atom·e^{−reach}`` at −reach. Two well-known pairs are of this
    form: Laplace noise of scale 1/reach (density 1/4, atom 1/2), and bounded range of width ``reach`` with density
    1/(2(1−e^{−reach})) and no atom.
    """

    reach: float
    density: float
    atom: float = field(default=0.0)

    def cells(self, edges: Array) -> Cells:
        r = self.reach
        low, high = np.clip(edges[:-1], -r, r), np.clip(edges[1:], -r, r)
        half = (high - low) / 2
        p = 2 * self.density * np.exp((low - r) / 2) * np.expm1(half)
        q = 2 * self.density * np.exp((-high - r) / 2) * np.expm1(half)
        p_below, q_below = self._between(-r, min(max(float(edges[0]), -r), r))
        p_above, q_above = self._between(min(max(float(edges[-1]), -r), r), r)
        if self.atom:
            atoms = Atoms((r, -r), (self.atom, self.atom * math.exp(-r))).cells(edges)
            p, q = p + atoms.p, q + atoms.q
            p_below, q_below = p_below + atoms.p_below, q_below + atoms.q_below
            p_above, q_above = p_above + atoms.p_above, q_above + atoms.q_above
        return Cells(p, q, p_below, q_below, p_above, q_above)

    def _between(self, low: float, high: float) -> tuple[float, float]:
        """Masses of P and Q on (low, high], the atoms left out."""
        scale = 2 * self.density * math.expm1((high - low) / 2)
        return scale * math.exp((low - self.reach) / 2), scale * math.exp((-high - self.reach) / 2)

    def support(self) -> tuple[float, float]:
        return -self.reach, self.reach
