"""Confidence sets of ridge regression on noisy statistics, and the regret of a learner that is optimistic in them.

The learner sees V = G + Z + 2U·I in place of the sum G of x xᵀ, and u + h in place of the sum u of y x. Rewards are
y = ⟨θ, x⟩ + η with η of mean zero given the past and |y| ≤ 1, so η is 1-sub-Gaussian (Hoeffding 1963); ‖θ‖ ≤ S. In each
round Z is symmetric and has independent N(0, s²) isometric coordinates, and h independent N(0, s²/2) entries, up to the
rounding of contributions to a grid, and s may be smaller. Let ‖Z‖ ≤ U and ‖h‖ ≤ H in all rounds. Then:

* With W = Z + 2U·I, which lies between U·I and 3U·I, the estimate θ̃ = V⁻¹(u + h) has the error
  V⁻¹(Σ η x + h − Wθ). In the norm of V its parts are at most √(2 ln(1/β) + d ln(1 + t/(dU))) after t people, with
  probability 1 − β for all t together (Abbasi-Yadkori, Pál & Szepesvári 2011, Theorem 1, as V ≥ G + U·I),
  H/√U and S·√(3U). Their sum is the *width* b_t.
* A learner that takes the action of largest ⟨x, θ̃⟩ + b_t·‖x‖ (in the norm of V⁻¹) loses at most 2·b_t·‖x‖ in a round,
  and at most 2. So its regret is at most 2·max(1, b_T)·√(T·Σ min(1, ‖x‖²)), and with m = min(1, 1/U) the sum is at most
  m/ln(1 + m)·d·ln(1 + T/(dU)): z ≤ m/ln(1 + m)·ln(1 + z) for z ≤ m, and the product of 1 + ‖x‖² is at most that of
  determinants.

*U and H.* Z is s·(A + Aᵀ)/2 with independent standard normal entries in A. E λ_max ≤ s·√(2d) by Sudakov & Fernique, as
E(xᵀAx − yᵀAy)² = 2 − 2⟨x, y⟩² ≤ 4 − 4⟨x, y⟩, and ‖Z‖ is 1-Lipschitz in isometric coordinates. So
‖Z‖ > s·(√(2d) + √(2 ln(2/α))) has probability at most α, and ‖h‖ > (s/√2)·(√d + √(2 ln(1/α))) too.

A release's noise is on a grid; the learner adds normal noise of 2^-10 scales, with which the density of a coordinate is
that of a normal number up to a factor of 1 within 1e-38. U and H have a margin for the product of all these factors.

Source: Shariff & Sheffet 2018, arXiv 1810.00068, with the constants above.
"""

from __future__ import annotations

import math

from attrs import frozen


@frozen(kw_only=True)
class RidgeConfidence:
    """The confidence sets: they depend on public numbers alone.

    Args:
        rounds: T.
        dimension: d.
        parameter_norm: S.
        failure: The probability that a set may miss in some round: a half for the rewards, a quarter each for U and H.
        deviation: s, for isometric coordinates.
        rounding: The step of the grid to which coordinates of contributions are rounded.

    Example:
        >>> sets = RidgeConfidence(rounds=1000, dimension=2, parameter_norm=1.0, failure=0.01, deviation=10.0)
        >>> round(sets.matrix_error, 1), round(sets.width(0), 1), round(sets.regret(), 1)
        (72.1, 23.4, 3094.0)
    """

    rounds: int
    dimension: int
    parameter_norm: float
    failure: float
    deviation: float
    rounding: float = 0.0

    @property
    def matrix_error(self) -> float:
        """U, at least ‖Z‖ in all rounds."""
        far = math.sqrt(2.0 * math.log(8.0 * self.rounds / self.failure))
        return self.deviation * (math.sqrt(2.0 * self.dimension) + far) + self._moved(
            self.dimension * (self.dimension + 1) / 2.0
        )

    @property
    def vector_error(self) -> float:
        """H, at least ‖h‖ in all rounds."""
        far = math.sqrt(2.0 * math.log(4.0 * self.rounds / self.failure))
        return (self.deviation * (math.sqrt(self.dimension) + far) + self._moved(self.dimension)) / math.sqrt(2.0)

    def _moved(self, entries: float) -> float:
        """The distance by which rounding moves so many coordinates of a sum."""
        return self.rounds * self.rounding / 2.0 * math.sqrt(entries)

    @property
    def shift(self) -> float:
        """2U, the multiple of the identity that makes the matrix positive definite."""
        return 2.0 * self.matrix_error

    def _log_volume(self, seen: int) -> float:
        return self.dimension * math.log1p(seen / (self.dimension * self.matrix_error))

    def width(self, seen: int) -> float:
        """Returns b_t after ``seen`` people."""
        rewards = math.sqrt(2.0 * math.log(2.0 / self.failure) + self._log_volume(seen))
        matrix, vector = self.matrix_error, self.vector_error
        return rewards + vector / math.sqrt(matrix) + self.parameter_norm * math.sqrt(3.0 * matrix)

    def regret(self) -> float:
        """Returns the bound on the regret, which fails with probability ``failure`` at most."""
        small = min(1.0, 1.0 / self.matrix_error)
        potential = small / math.log1p(small) * self._log_volume(self.rounds)
        return 2.0 * max(1.0, self.width(self.rounds)) * math.sqrt(self.rounds * potential)
