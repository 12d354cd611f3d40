"""The number of guesses of a one-run audit, fixed by the claim alone.

A verdict is valid for any number of guesses that is fixed beforehand. Few guesses are right more often; many weigh
more. :meth:`OneRunPlan.of` takes the number that finds the smallest fault: of all truths "the claimed mechanism with
its noise times c", it refutes with the stated power the one with the largest c.

The truth is a model that chooses, and no verdict rests on it. If the claim has a delta, a canary's score is N(mu/c, 1)
if it is included and N(0, 1) otherwise, where mu is the largest for which mu-Gaussian-DP meets the claim. If not, the
score has Laplace noise of scale c/epsilon. The guesses are the highest and the lowest scores, equally many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from attrs import frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run.right_guesses import Points
from hockeystick.audits.one_run.several_runs import runs_tail

_SHARES = np.geomspace(0.004, 1.0, 15)  # of the canaries that are guessed
_MOST = 100_000_000  # coins
_SEARCHED = 1 << 20  # coins, of a search for the fewest canaries
_CLOSE = 1.02  # ratio of the numbers of canaries between which a search stops
_STRONGEST = 200.0  # mu, or epsilon, of a truth

Errors = Callable[[float, float], float]


@frozen
class OneRunPlan:
    """The numbers of guesses of a one-run audit, and the faults that it finds.

    Attributes:
      canaries: number of canaries in each run.
      runs: number of independent runs.
      k_plus, k_minus: number of guesses "in" (the highest scores) and "out" (the lowest) in each run.
      needed: the least number of right guesses, of all runs, that refutes the claim.
      noise: the largest factor c such that a mechanism with c times the claimed noise is refuted with ``power``; 0 if
        there is none.
      power: probability of a refutation if the scores follow the model.
      confidence: confidence level of the verdict.
      model: the law of the scores, "gaussian" or "laplace".
      strength: mu (or epsilon) of the model at the claimed noise.

    Example:
      >>> import hockeystick as hs
      >>> plan = hs.audits.OneRunPlan.of(hs.Claim.gdp(1.0, delta=1e-5), 100, runs=5, confidence=0.95)
      >>> plan.k_plus + plan.k_minus, round(plan.noise, 2), round(plan.power_at(0.6), 3)
      (31, 0.64, 0.978)
      >>> print(plan)  # doctest: +NORMALIZE_WHITESPACE
      100 canaries in each of 5 runs: noise x 0.639 is refuted with probability 0.9 (confidence 0.95);
      16 guesses in, 15 out in each run, of which 143 of 155 must be right
    """

    canaries: int
    runs: int
    k_plus: int
    k_minus: int
    needed: int
    noise: float
    power: float
    confidence: float
    model: Literal["gaussian", "laplace"]
    strength: float

    @classmethod
    def of(
        cls, claim: Claim, canaries: int, *, runs: int = 1, power: float = 0.9, confidence: float = 0.999
    ) -> OneRunPlan:
        """Returns the best plan for a claim and a number of canaries.

        Args:
          claim: one point or a whole curve, for adding or removing one canary.
          canaries: number of canaries in each run.
          runs: number of independent runs.
          power: probability of a refutation at ``noise``, in (0.5, 1).
          confidence: confidence level of the verdict, in (0.5, 1).

        Raises:
          InvalidArgumentError: an argument is outside its domain.
        """
        if not isinstance(claim, Claim):
            raise InvalidArgumentError(
                "claim", claim, "is not a claim", "give Claim(epsilon, delta) or Claim.curve(...)"
            )
        canaries = integer("canaries", canaries, low=1, high=_MOST)
        runs = integer("runs", runs, low=1, high=_MOST // canaries)
        power = real("power", power, low=0.5, high=1.0, low_open=True, high_open=True)
        confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
        return _best(claim.points, canaries, runs, power, confidence)

    @classmethod
    def for_noise(
        cls, claim: Claim, noise: float, *, runs: int = 1, power: float = 0.9, confidence: float = 0.999
    ) -> OneRunPlan:
        """Returns the plan with the fewest canaries, within 2 %, that finds ``noise`` times the claimed noise.

        Args:
          claim: see :meth:`of`.
          noise: factor of the claimed noise, in (0, 1).
          runs, power, confidence: see :meth:`of`.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
          NumericalError: a million canaries, of all runs, are not enough; some claims allow a run to show all coins.

        Example:
          >>> import hockeystick as hs
          >>> plan = hs.audits.OneRunPlan.for_noise(hs.Claim.gdp(1.0, delta=1e-5), 0.3, runs=3, confidence=0.95)
          >>> plan.canaries
          9
        """
        noise = real("noise", noise, low=0.0, high=1.0, low_open=True, high_open=True)
        runs = integer("runs", runs, low=1, high=_SEARCHED // 8)
        low, high = 1, 8
        plan = cls.of(claim, high, runs=runs, power=power, confidence=confidence)
        while plan.noise < noise:
            low, high = high, 4 * high
            if high * runs > _SEARCHED:
                raise NumericalError(
                    f"{low:,} canaries in each of {runs:,} runs don't find noise x {noise:g} of this claim: "
                    "give more runs, a lower confidence level, or a smaller factor"
                )
            plan = cls.of(claim, high, runs=runs, power=power, confidence=confidence)
        while high - low > 1 and high > _CLOSE * low:
            middle = int(math.sqrt(low * high)) if high > 2 * low + 64 else (low + high) // 2
            tried = cls.of(claim, middle, runs=runs, power=power, confidence=confidence)
            low, high, plan = (low, middle, tried) if tried.noise >= noise else (middle, high, plan)
        return plan

    def power_at(self, noise: float) -> float:
        """Returns the probability of a refutation, by the model, for a mechanism with ``noise`` times the noise.

        Args:
          noise: factor of the claimed noise, above 0.

        Raises:
          InvalidArgumentError: ``noise`` is not a positive number.
        """
        noise = real("noise", noise, low=0.0, low_open=True)
        errors = _ERRORS[self.model]
        each = self.k_plus + self.k_minus
        right = 1 - errors(min(self.strength / noise, _STRONGEST), each / self.canaries)
        return float(special.bdtrc(self.needed - 1, each * self.runs, right)) if self.needed else 1.0

    def __str__(self) -> str:
        where = f"{self.canaries:,} canaries" + (f" in each of {self.runs:,} runs" if self.runs > 1 else "")
        found = (
            f"noise x {math.floor(self.noise * 1e3) / 1e3:g} is refuted with probability {self.power:g}"
            if self.noise
            else f"no factor of the noise is refuted with probability {self.power:g}"
        )
        total = (self.k_plus + self.k_minus) * self.runs
        least = f"of which {self.needed} of {total} must be right" if self.needed <= total else "which can't refute it"
        each = " in each run" if self.runs > 1 else ""
        return (
            f"{where}: {found} (confidence {self.confidence:.10g}); {self.k_plus} guesses in, "
            f"{self.k_minus} out{each}, {least}"
        )


@lru_cache(maxsize=256)
def _best(points: Points, canaries: int, runs: int, power: float, confidence: float) -> OneRunPlan:
    guesses, needed = _guesses(points, canaries, runs, power, 1 - confidence)

    def refuted(correct: int) -> bool:
        return runs_tail(correct, runs, guesses, canaries, points) <= 1 - confidence

    step = 1
    while needed > step and refuted(needed - step):  # the whole curve needs a few guesses fewer than its points
        needed, step = needed - step, 2 * step
    while step > 1:
        step //= 2
        if needed > step and refuted(needed - step):
            needed -= step
    model, claimed = _model(points)
    return OneRunPlan(
        canaries=canaries,
        runs=runs,
        k_plus=guesses - guesses // 2,
        k_minus=guesses // 2,
        needed=needed,
        noise=_noise(claimed, _ERRORS[model], canaries, runs, guesses, needed, power),
        power=power,
        confidence=confidence,
        model=model,
        strength=claimed,
    )


@lru_cache(maxsize=256)
def planned_guesses(points: Points, canaries: int, runs: int, confidence: float) -> int:
    """Returns the number of guesses in each run for which the smallest fault is refuted with probability 0.9."""
    return _guesses(points, canaries, runs, 0.9, 1 - confidence)[0]


def _guesses(points: Points, canaries: int, runs: int, power: float, alpha: float) -> tuple[int, int]:
    """Returns the best number of guesses in each run, and the number of right ones that refutes a point."""
    model, claimed = _model(points)
    found = []
    for guesses in np.unique(np.maximum(np.rint(canaries * _SHARES), 1).astype(int)).tolist():
        low, needed = 0, runs * guesses + 1
        while needed - low > 1:
            middle = (low + needed) // 2
            refuted = runs_tail(middle, runs, guesses, canaries, points, curve=False) <= alpha
            low, needed = (low, middle) if refuted else (middle, needed)
        noise = _noise(claimed, _ERRORS[model], canaries, runs, guesses, needed, power)
        found.append((noise, guesses, needed))
    return max(found)[1:]


def _noise(claimed: float, errors: Errors, canaries: int, runs: int, guesses: int, needed: int, power: float) -> float:
    """Returns the largest factor of the noise at which ``needed`` guesses are right with probability ``power``."""
    total = runs * guesses
    if needed > total:
        return 0.0
    right = float(special.betaincinv(needed, total - needed + 1, power))  # of each guess
    share = guesses / canaries

    def excess(strength: float) -> float:
        return errors(strength, share) - (1 - right)

    if excess(_STRONGEST) > 0:
        return 0.0
    return claimed / float(optimize.brentq(excess, 0.0, _STRONGEST, xtol=1e-9))


def _model(points: Points) -> tuple[Literal["gaussian", "laplace"], float]:
    """Returns the law of the scores, and its mu or epsilon at the claimed noise."""
    approximate = [(epsilon, delta) for epsilon, delta in points if 0.0 < delta < 1.0]
    if approximate:
        return "gaussian", min(_mu(*point) for point in approximate)
    return "laplace", min((epsilon for epsilon, delta in points if delta == 0.0), default=math.inf)


def _mu(epsilon: float, delta: float) -> float:
    """Returns the largest mu, up to 1e-9, such that mu-Gaussian-DP has at most ``delta`` at ``epsilon``."""
    log = math.log(delta)
    return float(
        optimize.brentq(
            lambda mu: max(gaussian_profile.log_delta(mu, epsilon), -1e6) - log, 1e-12, 2e3 + epsilon, xtol=1e-9
        )
    )


def _gaussian_errors(mu: float, share: float) -> float:
    """Returns the share of wrong guesses if those are made whose score is farthest from mu/2."""
    if share >= 1.0:
        return float(special.ndtr(-mu / 2))
    reach = optimize.brentq(lambda t: special.ndtr(mu / 2 - t) + special.ndtr(-mu / 2 - t) - share, 0.0, mu / 2 + 40)
    return float(special.ndtr(-mu / 2 - reach) / share)


def _laplace_errors(epsilon: float, share: float) -> float:
    """Returns the same for Laplace noise of scale 1/epsilon and a shift of 1: |score - 1/2| > t, in closed form."""
    wrong = math.exp(-epsilon) / 2  # at t = 1/2, beyond which the loss is epsilon
    if share <= 0.5 + wrong:
        return 1.0 / (1.0 + math.exp(epsilon))

    def missed(t: float) -> float:  # 1 - exp(-eps (1/2 - t))/2 are right, exp(-eps (1/2 + t))/2 wrong
        return 1 - math.exp(-epsilon * (0.5 - t)) / 2 + math.exp(-epsilon * (0.5 + t)) / 2 - share

    if epsilon == 0.0 or missed(0.0) <= 0.0:
        return math.exp(-epsilon / 2) / 2 / share
    t = optimize.brentq(missed, 0.0, 0.5)
    return math.exp(-epsilon * (0.5 + t)) / 2 / share


_ERRORS: dict[str, Errors] = {"gaussian": _gaussian_errors, "laplace": _laplace_errors}
