"""Pairs of output laws, represented by the law of their likelihood ratio, which is all that an audit can use.

The limits of :mod:`hockeystick.audits.bounds.sample_limits` are computed from a :class:`LawPair`. Continuous laws are
bracketed by two finite ones, so that the results are bracketed too.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.validate import array, integer, probability, real

_CELLS = 1000
_TAIL = 9.0  # standard deviations on either side of a Gaussian


@frozen(eq=False)
class LawPair:
    """Two laws of an output, bracketed by pairs of finite laws.

    Attributes:
      below: masses (p, q) of a pair that is harder to distinguish: it merges outcomes. Shape (2, outcomes).
      above: masses of a pair that is easier to distinguish: it splits each merged outcome into its two extreme
        likelihood ratios. The same as ``below`` for finite laws.

    Example:
      >>> from hockeystick.audits import Claim, LawPair, klinf
      >>> pair = LawPair.laplace(1.0)  # Laplace noise with epsilon = 1
      >>> round(klinf(pair, Claim(0.8)).stopping(alpha=1e-3))  # mean sample size of the best sequential audit
      1206
    """

    below: FloatArray
    above: FloatArray

    @classmethod
    def finite(cls, p: object, q: object) -> LawPair:
        """Returns the pair of two finite laws on the same outcomes.

        Raises:
          InvalidArgumentError: the arguments are not probabilities of the same length that add up to 1.
        """
        laws = np.stack([_law("p", p), _law("q", q, like=p)])
        return cls(laws, laws)

    @classmethod
    def losses(cls, losses: object, masses: object, infinite: float = 0.0) -> LawPair:
        """Returns the pair with a discrete law of the privacy loss log P/Q under P.

        Args:
          losses: finite, in any order; shape (m,).
          masses: P's probability of each loss; shape (m,).
          infinite: P's probability of outcomes that Q excludes. P excludes the outcomes that are then missing for Q.

        Raises:
          InvalidArgumentError: the masses are not probabilities, or those of Q add up to more than 1.
        """
        at = array("losses", losses, ndim=1)
        p = array("masses", masses, shape=at.shape, low=0.0, high=1.0)
        q = p * np.exp(-at)
        rest = 1.0 - float(q.sum())
        if rest < -1e-6:
            raise InvalidArgumentError(
                "losses", losses, f"give Q a total of {1 - rest:g}", "losses are log P/Q under P"
            )
        tails = [[probability("infinite", infinite), 0.0], [0.0, max(rest, 0.0)]]
        return cls.finite(np.concatenate([p, tails[0]]), np.concatenate([q / max(1.0, 1.0 - rest), tails[1]]))

    @classmethod
    def laplace(cls, epsilon: float, *, cells: int = _CELLS) -> LawPair:
        """Returns Laplace noise of scale 1 at a distance of ``epsilon``."""
        epsilon, cells = real("epsilon", epsilon, low=0.0, low_open=True, high=700.0), integer("cells", cells, low=1)
        at = np.linspace(0.0, epsilon, cells + 1)  # P is centred at 0, Q at epsilon; the loss is epsilon - 2 x between
        p = np.concatenate([[0.5], -np.diff(np.exp(-at)) / 2, [math.exp(-epsilon) / 2]])
        ratios = np.exp(np.concatenate([[epsilon], epsilon - 2 * at, [-epsilon]]))
        return cls._cells(p, p[::-1], ratios)

    @classmethod
    def gaussian(cls, mu: float, *, cells: int = _CELLS) -> LawPair:
        """Returns Gaussian noise of standard deviation 1 at a distance of ``mu``."""
        mu, cells = real("mu", mu, low=0.0, low_open=True, high=20.0), integer("cells", cells, low=1)
        at = np.concatenate([[-np.inf], np.linspace(-_TAIL, mu + _TAIL, cells + 1), [np.inf]])
        p = np.diff(special.ndtr(at))
        q = np.diff(special.ndtr(at - mu))
        return cls._cells(p, q, np.exp(np.clip(mu * mu / 2 - mu * at, -700, 700)), open_ended=True)

    @classmethod
    def of_event(cls, event: PrivacyEvent, *, step: float = 2.0**-8) -> LawPair:
        """Returns the dominating pair of a privacy event, composed or not, from its privacy-loss laws on a grid.

        Args:
          event: an event with a single direction (see ``PrivacyEvent.directions``).
          step: step of the grid of losses.

        Raises:
          InvalidArgumentError: ``event`` is not such an event.
        """
        if not isinstance(event, PrivacyEvent) or len(event.directions()) != 1:
            raise InvalidArgumentError(
                "event", event, "is not an event of one direction", "give one of event.directions()"
            )
        step = real("step", step, low=0.0, low_open=True)
        ends = [discretise(event, step, upper=upper) for upper in (False, True)]
        below, above = (_proper(law.losses(), law.p, law.infinity) for law in ends)
        return cls(below, above)

    @classmethod
    def _cells(cls, p: FloatArray, q: FloatArray, ratios: FloatArray, open_ended: bool = False) -> LawPair:
        """Returns the pair from the masses of cells and the ratios p/q at their edges, in order."""
        one, other = ratios[:-1].copy(), ratios[1:].copy()
        if open_ended:  # the outer ratios are unbounded: split off the mass that the other law may lack
            one[0], other[-1] = ratios[1], 0.0
        wide = one > other
        q_one = np.where(wide, np.clip((p - other * q) / np.where(wide, one - other, 1.0), 0.0, q), 0.0)
        p_one = np.minimum(one * q_one, p)
        if open_ended:
            q_one[0], p_one[0] = 0.0, max(float(p[0] - ratios[1] * q[0]), 0.0)
        above = np.stack([np.concatenate([p_one, p - p_one]), np.concatenate([q_one, q - q_one])])
        return cls(_normal(np.stack([p, q])), _normal(above))


def _law(name: str, value: object, like: object = None) -> FloatArray:
    # A rounded mass may exceed 1 by so much.
    masses = array(name, value, ndim=1, low=0.0, high=1.0 + 1e-9)
    if like is not None and len(masses) != len(array("p", like, ndim=1)):
        raise InvalidArgumentError(name, value, f"has {len(masses)} outcomes", "give as many as p has")
    if not abs(masses.sum() - 1) <= 1e-6:
        raise InvalidArgumentError(name, value, f"adds up to {masses.sum():.9g}", "give probabilities that add up to 1")
    return np.asarray(masses / masses.sum())


def _proper(losses: FloatArray, p: FloatArray, infinite: float) -> FloatArray:
    """Returns the pair whose profile is the larger of that of the losses and 1 - e^epsilon, a bound on every profile.

    A lower bracket need not give Q a total of 1. The line 1 - e^epsilon cuts off its lowest losses; they become one
    outcome with the rest of the masses of P and Q.
    """
    q = p * np.exp(-losses)
    p_left = 1.0 - infinite - np.append(np.cumsum(p[::-1])[::-1], 0.0)
    q_left = 1.0 - np.append(np.cumsum(q[::-1])[::-1], 0.0)
    steeper = np.append(np.exp(losses), np.inf)
    first = int(np.argmax((q_left >= 0) & (p_left <= steeper * np.maximum(q_left, 0.0) + 1e-15)))
    cells = [[p_left[first], *p[first:], infinite], [q_left[first], *q[first:], 0.0]]
    return _normal(np.maximum(np.array(cells), 0.0))


def _normal(laws: FloatArray) -> FloatArray:
    positive = np.maximum(laws[:, laws.any(axis=0)], 0.0)
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))
