"""Exact laws of privacy losses as lists of atoms, and the (ε, δ) that follow from them."""

import math

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import probability, real


@frozen(eq=False)
class LossLaw:
    """The law of the privacy loss ln P/Q under P, as atoms: P(loss = losses[i]) = masses[i].

    Attributes:
        losses: Ascending, shape (m,).
        masses: Shape (m,), nonnegative.
        infinite: The probability, under P, of outcomes that Q excludes.
        slack: Bound on the error of each loss.

    Example:
        >>> law = LossLaw(np.array([-1.0, 1.0]), np.array([0.25, 0.75]), infinite=0.0, slack=0.0)
        >>> round(law.delta(0.5), 4), round(law.epsilon(0.1), 4)
        (0.2951, 0.8569)
    """

    losses: FloatArray
    masses: FloatArray
    infinite: float
    slack: float

    def delta(self, epsilon: float) -> float:
        """Returns the hockey-stick divergence sup_S P(S) - e^ε Q(S)."""
        above = self.losses > epsilon
        return self.infinite + float(np.sum(self.masses[above] * -np.expm1(epsilon - self.losses[above])))

    def epsilon(self, delta: float) -> float:
        """Returns the smallest ε >= 0 with δ(ε) <= ``delta``, or inf where none exists."""
        if self.delta(0.0) <= delta:
            return 0.0
        if self.infinite >= delta and (self.infinite > delta or delta == 0.0):
            return math.inf if self.infinite > delta else float(self.losses[self.masses > 0.0].max(initial=0.0))
        low, high = 0.0, float(self.losses[-1])
        while high - low > 1e-12 * max(1.0, high):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def tails(self) -> tuple[FloatArray, FloatArray]:
        """Returns P(loss >= losses[i]) and Q(loss >= losses[i]), each of shape (m + 1,); the last is for infinite loss.

        With P as the power and Q as the level these are the most powerful tests: the exact trade-off curve.
        """
        p = np.append(np.cumsum(self.masses[::-1])[::-1] + self.infinite, self.infinite)
        q = np.append(np.cumsum((self.masses * np.exp(-self.losses))[::-1])[::-1], 0.0)
        return p, q


@frozen(eq=False)
class ExactLoss:
    """The exact privacy loss in both directions, each bracketed by a law rounded down and a law rounded up.

    See ``exact_loss`` for an example.

    Attributes:
        forward: Laws (lower, upper) of ln P0/P1 under P0.
        backward: Laws (lower, upper) of ln P1/P0 under P1.
    """

    forward: tuple[LossLaw, LossLaw]
    backward: tuple[LossLaw, LossLaw]

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Returns a bracket (lower, upper) of δ at ``epsilon``, for the larger direction."""
        epsilon = real("epsilon", epsilon)
        lower = max(law.delta(epsilon + law.slack) for law in (self.forward[0], self.backward[0]))
        upper = max(law.delta(epsilon - law.slack) for law in (self.forward[1], self.backward[1]))
        return lower, upper

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Returns a bracket (lower, upper) of the smallest ε >= 0 at ``delta``, for the larger direction."""
        delta = probability("delta", delta)
        lower = max(max(0.0, law.epsilon(delta) - law.slack) for law in (self.forward[0], self.backward[0]))
        upper = max(law.epsilon(delta) + law.slack for law in (self.forward[1], self.backward[1]))
        return lower, upper
