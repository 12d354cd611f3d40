"""Dominating pairs (P, Q) of output laws, seen through their privacy loss L = ln(dP/dQ).

A pair is asked one thing: how much mass P and Q put on the outcomes whose loss lies in each cell of a grid. From that
alone a discrete pair above it (``upper``) and one below it (``lower``) follow, see ``losses/loss_grid.py``. Masses are
computed cell by cell, never as differences of numbers near 1, so that tails keep their relative accuracy.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from scipy import special

from hockeystick.accounting.errors import NumericalError

Array = NDArray[Any]

MASS_ERROR = 2.0**-43
RATIO_ERROR = 2.0**-49
EDGE_ERROR = 2.0**-49

_MOST_SHIFT = 2e5  # whose cells are cut: into some 27 pieces per unit of it, however many they are
_NODES = ((2, 6e-4), (3, 0.015), (4, 0.0625))


@frozen
class Cells:
    """Masses of P and Q by privacy loss, on the cells (edges[i], edges[i+1]] and outside them.

    ``rise`` is p − e^{edges[i]}·q from above, for losses so small that the difference of the two would be round-off;
    None where nothing better than that difference is known.
    """

    p: Array
    q: Array
    p_below: float
    q_below: float
    p_above: float
    q_above: float
    rise: Array | None = None


class DominatingPair(abc.ABC):
    """A pair of laws (P, Q) given by the law of its privacy loss."""

    @abc.abstractmethod
    def cells(self, edges: Array) -> Cells:
        """Returns the masses of P and Q on the cells of ``edges`` (ascending; the outermost may be infinite).

        Masses where one of the two laws has none (loss ±inf) are not counted: neither in ``p_above``, which
        ``infinity`` completes, nor in ``q_below``.

        With E the larger end of the pair's support in absolute value, rounding may do this much, between those ends:
        the masses are those of cells whose edges are off by ``EDGE_ERROR``·E; P's have a relative error of at most
        ``MASS_ERROR``·(1 + E/8), and the ratios of P's to Q's one of ``RATIO_ERROR``·(1 + E). The law of losses on a
        grid, ``losses.loss_grid.from_pair``, makes up for as much, and takes masses of Q below 1e-290 for none.
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
        with np.errstate(divide="ignore"):
            q = np.where(losses > -700.0, p * np.exp(-np.maximum(losses, -700.0)), np.exp(np.log(p) - losses))
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
        below, above = (edges[0] - self.mu**2 / 2) / self.mu, (edges[-1] - self.mu**2 / 2) / self.mu
        reach = self.mu**2 / 2 + 40.0 * self.mu  # beyond it neither P nor Q has a mass that a float can hold
        p, q = self._inside(np.clip(np.asarray(edges, dtype=float), -reach, reach))
        return Cells(
            p,
            q,
            float(special.ndtr(below)),
            float(special.ndtr(below + self.mu)),
            float(special.ndtr(-above)),
            float(special.ndtr(-above - self.mu)),
        )

    def _inside(self, edges: Array) -> tuple[Array, Array]:
        """P's and Q's masses by Gauss–Legendre quadrature of the density: a difference of tails would cancel.

        The remainder at n nodes is f^(2n)·w^(2n+1)·(n!)⁴/((2n+1)·(2n)!³) on a cell of width w. For the normal density
        it is below 1e-16 of the mass if w·(1 + |z|) is at most the size that ``_NODES`` gives for n.
        """
        low, high = edges[:-1], edges[1:]
        far = np.maximum(np.abs(low), np.abs(high)) / self.mu + self.mu / 2  # the larger |z| under P and Q
        size = (high - low) / self.mu * (1 + far)
        largest = float(size.max(initial=0.0))
        nodes = next((n for n, most in _NODES if largest <= most), None)
        if nodes is not None:
            return self._quadrature(low, high, nodes)
        wide = size > _NODES[-1][1]
        if self.mu > _MOST_SHIFT:
            raise NumericalError(f"{self}: cells this wide would be cut into {27 * self.mu:.0e} pieces")
        p, q = np.zeros(len(low)), np.zeros(len(low))
        p[~wide], q[~wide] = self._quadrature(low[~wide], high[~wide], 4)
        pieces = np.ceil(size[wide]).astype(int)
        first = np.concatenate([[0], np.cumsum(pieces)[:-1]])
        share = (np.arange(pieces.sum()) - np.repeat(first, pieces)) / np.repeat(pieces, pieces)
        part = np.repeat((high - low)[wide] / pieces, pieces)
        left = np.repeat(low[wide], pieces) + share * np.repeat((high - low)[wide], pieces)
        parts = self._quadrature(left, left + part, 8)
        p[wide], q[wide] = (np.add.reduceat(masses, first) for masses in parts)
        return p, q

    def _quadrature(self, low: Array, high: Array, nodes: int) -> tuple[Array, Array]:
        half = (high - low) / 2
        middle = low + half
        p, q = np.zeros(len(low)), np.zeros(len(low))
        for node, weight in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
            loss = middle + node * half
            positive = loss >= 0
            np.abs(loss, out=loss)
            # The larger of the two densities, and the other one by the loss: their ratio is right to an ulp or two.
            more = np.exp(((loss - self.mu**2 / 2) / self.mu) ** 2 * -0.5)
            less = more * np.exp(-loss)
            p += weight * np.where(positive, more, less)
            q += weight * np.where(positive, less, more)
        scale = half / (self.mu * math.sqrt(2 * math.pi))
        return p * scale, q * scale

    def support(self) -> tuple[float, float]:
        reach = 13.5 * self.mu  # P(N > 13.5) < 1e-41
        return self.mu**2 / 2 - reach, self.mu**2 / 2 + reach


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
        p = -2 * self.density * np.exp((high - r) / 2) * np.expm1(-half)
        q = -2 * self.density * np.exp((-low - r) / 2) * np.expm1(-half)
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
        scale = -2 * self.density * math.expm1((low - high) / 2)
        return scale * math.exp((high - self.reach) / 2), scale * math.exp((-low - self.reach) / 2)

    def support(self) -> tuple[float, float]:
        return -self.reach, self.reach
