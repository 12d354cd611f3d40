"""Guesses of which data set an output came from: an exact test of both orders that may learn from every guess.

In each of N trials a fair coin picks a data set first; then one output is drawn from it, independent of all before.
Once the output is seen, the data set is guessed, or nothing is. Then the coin is shown, and later guesses may use it.
If the number D of guesses is fixed beforehand, the number K of right ones says how well the data sets are told apart:

    Under P(S) <= e^epsilon Q(S) + delta in both orders, K is stochastically at most M + Bin(D - M, p),
    M = min(D, Bin(N, delta)), p = e^epsilon / (1 + e^epsilon), and randomised response with leaks attains this.

A pair of laws that satisfies the claim is a post-processing of "with probability delta the data set itself, else
randomised response" (Kairouz, Oh and Viswanath 2015, theorem 3.1 and its proof). So a trial is a leak with probability
delta, independent of the coins and of the past; in any other trial a guess is right with probability at most p, given
the output and the past. Couple the j-th guess with a uniform U_j: it is right only if its trial leaks or U_j <= p.
Whether a guess is in a leak is known before its U_j, so the first D - M guesses in other trials are like independent
tosses, and the rest counts as right.

*D is fixed before the trials.* With delta > 0 an output may show that it is a leak, so not even a choice of D from the
outputs alone is allowed; guesses that were planned and not made are wrong ones.

*Plans may change between batches* (Mueller and Schaefer 2001): see :class:`GuessWalk`. The test needs no nuisance
parameter and no split of the samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import Factory, evolve, field, frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer, probability, real

_ROUNDING = 1e-6, 1e-14  # of a tail, and of it per trial: far above the errors of incomplete beta functions and of sums
_SPREADS, _MORE = 12.0, 40  # leaks within so many standard deviations, and so many more, are summed one by one
_LARGEST = 700.0  # epsilon
_STEPS = 60  # of a bisection


def guess_tail(right: int, guesses: int, trials: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Returns sup Pr[K >= ``right``] over all systems that satisfy a claim and all guessers, rounded up.

    See the module's docstring for the theorem.

    Args:
      right: number of right guesses.
      guesses: number D of guesses that was fixed before the trials.
      trials: number N of trials, at least D.
      epsilon, delta: the claim, of both orders.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import guess_tail
      >>> p_value = guess_tail(52, 60, 100, epsilon=1.0)  # Pr[Bin(60, 0.731) >= 52]
      >>> round(p_value, 4)
      0.0095
    """
    right = integer("right", right)
    guesses, trials = _sizes(guesses, trials)
    epsilon, delta = real("epsilon", epsilon, low=0.0, high=_LARGEST), probability("delta", delta)
    return _tail(right, guesses, trials, epsilon, delta)[1]


def guessed_epsilon(right: int, guesses: int, trials: int, *, delta: float = 0.0, alpha: float) -> float:
    """Returns a lower bound on epsilon at ``delta``: it is above the truth with probability at most ``alpha``.

    Args:
      right, guesses, trials: as in :func:`guess_tail`.
      delta: where epsilon is bounded.
      alpha: probability of an error.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import guessed_epsilon
      >>> round(guessed_epsilon(90, 100, 100, alpha=0.05), 2)  # the estimate is ln(90/10) = 2.2
      1.63
    """
    right, (guesses, trials) = integer("right", right), _sizes(guesses, trials)
    delta, alpha = probability("delta", delta), probability("alpha", alpha, open=True)

    def refuted(epsilon: float) -> bool:
        return _tail(right, guesses, trials, epsilon, delta)[1] <= alpha

    return _largest(refuted, 40.0)


def guessed_delta(right: int, guesses: int, trials: int, *, epsilon: float, alpha: float) -> float:
    """Returns a lower bound on delta at ``epsilon``: it is above the truth with probability at most ``alpha``.

    Bounds at several points hold together if they are read from the same counts at the same level.

    Args:
      right, guesses, trials: as in :func:`guess_tail`.
      epsilon: where delta is bounded.
      alpha: probability of an error.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import guessed_delta
      >>> round(guessed_delta(95, 100, 100, epsilon=1.0, alpha=0.05), 2)
      0.62
    """
    right, (guesses, trials) = integer("right", right), _sizes(guesses, trials)
    epsilon = real("epsilon", epsilon, low=0.0, high=_LARGEST)
    alpha = probability("alpha", alpha, open=True)

    def refuted(delta: float) -> bool:
        return _tail(right, guesses, trials, epsilon, delta)[1] <= alpha

    return _largest(refuted, 1.0)


def _largest(refuted: Callable[[float], bool], high: float) -> float:
    """Returns the largest number in [0, ``high``] that is refuted, from below; 0 if none is."""
    low = 0.0
    if not refuted(low):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _level(value: object) -> float:
    return probability("alpha", value, open=True)


@frozen
class GuessWalk:
    """A test by guesses whose plan may change between batches, at an exact level.

    A plan says: refute if ``needed`` of ``guesses`` guesses in ``trials`` trials are right. Under the claim this has at
    most the probability of the plan's tail at one of the claimed points. The *budget* is the probability that is left:
    a new plan may be anything whose tail is within it, with another number of guesses, at another point of a claimed
    curve, or with other events; what it does not use is kept. After a batch, the budget is the tail of what the plan
    still needs, and what was kept. Under the claim it grows on average by nothing, so it reaches 1, a refutation, with
    probability at most ``alpha``.

    A plan is made before a batch is drawn; which outputs of the batch are guessed may depend on its outputs and on all
    that was shown before, and never on the batch's own coins. Guesses that are not made count as wrong.

    Attributes:
      alpha: level of the test.
      budget: probability, under the claim, that the test may still refute; 1 once it has.
      kept: the part of the budget that the current plan does not use.
      guesses, trials, needed: what is left of the plan; ``needed`` is above ``guesses`` if the plan can't refute.
      point: the claimed (epsilon, delta) of the plan.

    Raises:
      InvalidArgumentError: ``alpha`` is not in (0, 1).

    Example:
      >>> from hockeystick.audits import GuessWalk
      >>> walk = GuessWalk(0.05).planned(20, 30, epsilon=1.0)
      >>> walk.needed
      19
      >>> walk = walk.after(10, 15, right=10).planned(12, 15, epsilon=1.0)  # more guesses than the 10 planned before
      >>> walk.needed, walk.after(12, 15, right=12).refuted
      (11, True)
    """

    alpha: float = field(converter=_level)
    budget: float = Factory(lambda self: self.alpha / (1 + _ROUNDING[0]), takes_self=True)
    kept: float = Factory(lambda self: self.budget, takes_self=True)
    guesses: int = 0
    trials: int = 0
    needed: int = 1
    point: tuple[float, float] = (0.0, 0.0)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.budget >= 1.0

    def planned(self, guesses: int, trials: int, *, epsilon: float, delta: float = 0.0) -> GuessWalk:
        """Returns the walk with a new plan for the trials to come, in place of what is left of the old one.

        Args:
          guesses, trials: numbers of guesses and of trials, as in :func:`guess_tail`.
          epsilon, delta: one of the claimed points.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
        """
        guesses, trials = _sizes(guesses, trials)
        epsilon, delta = real("epsilon", epsilon, low=0.0, high=_LARGEST), probability("delta", delta)
        if self.refuted:
            return self
        needed = _least(guesses, trials, epsilon, delta, self.budget)
        used = _tail(needed, guesses, trials, epsilon, delta)[1] if needed <= guesses else 0.0
        kept, point = self.budget - used, (epsilon, delta)
        return evolve(self, kept=kept, guesses=guesses, trials=trials, needed=needed, point=point)

    def after(self, guesses: int, trials: int, *, right: int) -> GuessWalk:
        """Returns the walk after a batch of the current plan.

        Args:
          guesses, trials: those of the batch, at most what is left of the plan.
          right: number of right guesses.

        Raises:
          InvalidArgumentError: a number is not in its domain, or above what the plan has left.
        """
        guesses = integer("guesses", guesses, low=0, high=min(self.guesses, integer("trials", trials, low=0)))
        trials = integer("trials", trials, low=0, high=self.trials)
        right = integer("right", right, low=0, high=guesses)
        if self.refuted:
            return self
        more, rest, needed = self.guesses - guesses, self.trials - trials, self.needed - right
        more = min(more, rest)  # what can't be made any more counts as wrong
        left = evolve(self, guesses=more, trials=rest, needed=needed)
        if needed <= 0:
            return evolve(left, budget=1.0, kept=0.0)
        # Below 1 in floats too: what is likely is no refutation.
        return evolve(left, budget=min(_tail(needed, more, rest, *self.point)[0] + self.kept, 1 - 1e-15))


@frozen
class GuessLadder:
    """Walks against several values of epsilon at once: a lower bound on epsilon by guesses with changing plans.

    Every value has a budget of its own; the guesses are the same. One budget, that of the claim, would not do: above
    the claim it grows with the evidence, and a bound that is read from later guesses at that level is too large.

    Attributes:
      walks: one for each value of ``epsilons``.
      epsilons: increasing values of epsilon.
      delta: where epsilon is bounded.

    Example:
      >>> from hockeystick.audits import GuessLadder
      >>> ladder = GuessLadder.of([0.5, 1.0, 1.5, 2.0], alpha=0.05).planned(100, 100).after(50, 50, right=46)
      >>> ladder.planned(50, 50).after(50, 50, right=46).epsilon_lower
      1.5
    """

    walks: tuple[GuessWalk, ...]
    epsilons: tuple[float, ...]
    delta: float

    @classmethod
    def of(cls, epsilons: list[float], *, delta: float = 0.0, alpha: float) -> GuessLadder:
        """Returns the ladder before the first plan.

        Args:
          epsilons: increasing values of epsilon.
          delta: where epsilon is bounded.
          alpha: probability that the bound is above the truth.

        Raises:
          InvalidArgumentError: the values don't increase, or an argument is outside its domain.
        """
        values = tuple(real("epsilons", value, low=0.0, high=_LARGEST) for value in epsilons)
        if not values or any(a >= b for a, b in zip(values, values[1:], strict=False)):
            raise InvalidArgumentError("epsilons", epsilons, "do not increase", "give increasing numbers")
        return cls(tuple(GuessWalk(alpha) for _ in values), values, probability("delta", delta))

    def planned(self, guesses: int, trials: int) -> GuessLadder:
        """Returns the ladder with a new plan for all values; see :meth:`GuessWalk.planned`."""
        pairs = zip(self.walks, self.epsilons, strict=True)
        walks = tuple(walk.planned(guesses, trials, epsilon=value, delta=self.delta) for walk, value in pairs)
        return evolve(self, walks=walks)

    def after(self, guesses: int, trials: int, *, right: int) -> GuessLadder:
        """Returns the ladder after a batch; see :meth:`GuessWalk.after`."""
        return evolve(self, walks=tuple(walk.after(guesses, trials, right=right) for walk in self.walks))

    @property
    def epsilon_lower(self) -> float:
        """The largest refuted value all of whose smaller ones are refuted; 0 if there is none."""
        found = 0.0
        for walk, value in zip(self.walks, self.epsilons, strict=True):
            if not walk.refuted:
                break
            found = value
        return found


def _sizes(guesses: int, trials: int) -> tuple[int, int]:
    trials = integer("trials", trials, low=0, high=10**9)
    return integer("guesses", guesses, low=0, high=trials), trials


def _least(guesses: int, trials: int, epsilon: float, delta: float, level: float) -> int:
    """Returns the least number of right guesses whose tail is within a level; ``guesses`` + 1 if there is none."""

    def within(right: int) -> bool:
        return _tail(right, guesses, trials, epsilon, delta)[1] <= level

    p, low, high = float(special.expit(epsilon)), -1, guesses + 1
    spread = math.sqrt(guesses * p * (1 - p) + trials * delta * (1 - delta))
    z = -float(special.ndtri(min(max(level, 1e-300), 0.5)))
    near = p * guesses + (1 - p) * min(guesses, trials * delta) + z * spread
    at, step = min(max(round(near), 0), guesses), 1 + int(spread / 8)
    while low < at < high:  # steps of growing length from a guess
        if within(at):
            high, at = at, at - step
            step = 2 * step if at > low else step
        else:
            low, at = at, at + step
            step = 2 * step if at < high else step
        if high - low <= step:
            break
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


def _tail(right: int, guesses: int, trials: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Returns bounds (lower, upper) on Pr[M + Bin(D - M, p) >= right]."""
    if right <= 0:
        return 1.0, 1.0
    if right > guesses:
        return 0.0, 0.0
    p = float(special.expit(epsilon))
    spread = _SPREADS * math.sqrt(trials * delta * (1 - delta)) + _MORE
    first = max(0, math.floor(trials * delta - spread)) if delta > 0 else 0
    last = min(trials, math.ceil(trials * delta + spread)) if delta > 0 else 0
    leaks = np.arange(first, last + 1)
    mass = _binomial(leaks, trials, delta)
    sure = np.minimum(leaks, guesses)
    reach = _at_least(right - sure, guesses - sure, p)
    inside = float(mass @ reach)
    # Fewer leaks reach the count less often than the first ones that are summed; more may reach it always.
    fewer = float(special.betaincc(first, trials - first + 1.0, delta)) if first else 0.0
    more = float(_at_least(np.array([last + 1]), np.array([trials]), delta)[0]) if last < trials else 0.0
    slack = _ROUNDING[0] + _ROUNDING[1] * trials
    upper = (inside + fewer * float(reach[0]) + more) * (1 + slack)
    return max(0.0, inside * (1 - slack)), min(1.0, upper)


def _binomial(counts: IntArray, trials: int, p: float) -> FloatArray:
    if p in (0.0, 1.0):
        return np.asarray(counts == trials * p, dtype=np.float64)
    logs = special.gammaln(trials + 1.0) - special.gammaln(counts + 1.0) - special.gammaln(trials - counts + 1.0)
    return np.asarray(np.exp(logs + counts * math.log(p) + (trials - counts) * math.log1p(-p)))


def _at_least(needed: IntArray, trials: IntArray, p: float) -> FloatArray:
    """Returns Pr[Bin(trials, p) >= needed]."""
    inside = (needed > 0) & (needed <= trials)
    found = np.where(needed <= 0, 1.0, 0.0)
    found[inside] = special.betainc(needed[inside], trials[inside] - needed[inside] + 1.0, p)
    return found
