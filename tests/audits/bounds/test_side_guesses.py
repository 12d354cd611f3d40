"""Guesses of the data set: the tail beside all adaptive guessers, and the exact level of walks and of their mutants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import GuessLadder, GuessWalk, guess_tail, guessed_delta, guessed_epsilon
from hockeystick.audits.bounds import side_guesses

ROUNDED = 1 + 1.1e-6


def best_guesser(trials: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The largest Pr[right guesses >= ``right``] against randomised response with visible leaks, by dynamic program."""
    p = float(special.expit(epsilon))

    @lru_cache(None)
    def value(n: int, d: int, k: int) -> float:
        if k <= 0:
            return 1.0
        if d == 0 or n == 0:
            return 0.0
        leak = value(n - 1, d - 1, k - 1)
        noisy = p * leak + (1 - p) * value(n - 1, d - 1, k)
        stay = value(n - 1, d, k) if n > d else 0.0
        return delta * max(leak, stay) + (1 - delta) * max(noisy, stay)

    return value(trials, guesses, right)


@pytest.mark.parametrize("trials", [6, 12, 25])
def test_the_tail_is_that_of_the_best_adaptive_guesser(trials: int) -> None:
    for guesses, epsilon, delta in itertools.product((3, 6), (0.0, 0.5, 1.0, 3.0), (0.0, 0.01, 0.1, 0.3, 1.0)):
        for right in range(guesses + 2):
            best = best_guesser(trials, guesses, right, epsilon, delta)
            found = guess_tail(right, guesses, trials, epsilon=epsilon, delta=delta)
            assert best * (1 - 1e-12) <= found <= min(1.0, best * ROUNDED + 1e-300), (guesses, epsilon, delta, right)


def test_bounds_lie_on_either_side_of_the_exact_sum() -> None:
    """Large numbers of trials, where leaks are cut off: beside a plain sum over all numbers of leaks."""
    trials, guesses, epsilon = 20_000, 3000, 0.3
    p = float(special.expit(epsilon))
    for delta, right in ((0.0, 1800), (0.001, 1800), (0.03, 2000), (0.03, 2600), (0.2, 2999)):
        leaks = np.arange(trials + 1)
        sure = np.minimum(leaks, guesses)
        exact = min(1.0, stats.binom.pmf(leaks, trials, delta) @ stats.binom.sf(right - sure - 1, guesses - sure, p))
        lower, upper = side_guesses._tail(right, guesses, trials, epsilon, delta)
        assert lower <= exact <= upper
        assert upper <= 1.00001 * exact + 1e-30 and lower >= 0.99999 * exact - 1e-30


def test_without_leaks_the_bound_is_that_of_clopper_and_pearson() -> None:
    low = stats.beta.ppf(0.05, 80, 100 - 80 + 1)
    assert guessed_epsilon(80, 100, 100, alpha=0.05) == pytest.approx(math.log(low / (1 - low)), abs=1e-5)
    assert guessed_epsilon(50, 100, 100, alpha=0.05) == 0.0
    assert guessed_delta(50, 100, 100, epsilon=1.0, alpha=0.05) == 0.0


@pytest.mark.parametrize(("right", "guesses", "trials"), [(95, 100, 300), (60, 60, 60), (800, 1000, 1000)])
def test_bounds_are_at_the_end_that_is_refuted(right: int, guesses: int, trials: int) -> None:
    epsilon = guessed_epsilon(right, guesses, trials, delta=0.01, alpha=0.01)
    delta = guessed_delta(right, guesses, trials, epsilon=0.5, alpha=0.01)

    for point in ((epsilon, 0.01), (0.5, delta)):
        assert guess_tail(right, guesses, trials, epsilon=point[0], delta=point[1]) <= 0.01
    assert guess_tail(right, guesses, trials, epsilon=epsilon + 1e-4, delta=0.01) > 0.01
    assert guess_tail(right, guesses, trials, epsilon=0.5, delta=delta + 1e-4) > 0.01
    assert guessed_epsilon(right, guesses, trials, delta=0.02, alpha=0.01) < epsilon


def adversary(
    trials: int, alpha: float, points: tuple[tuple[float, float], ...], epsilon: float, delta: float
) -> float:
    """The largest probability of a refutation over all plans at all boundaries, batches of one trial, and all guessers.

    The outputs are those of randomised response with visible leaks.
    """
    p = float(special.expit(epsilon))
    known: dict[tuple[int, float], float] = {}

    def value(left: int, walk: GuessWalk) -> float:
        if walk.refuted:
            return 1.0
        if left == 0:
            return 0.0
        key = left, walk.budget
        if key not in known:
            plans = [
                walk.planned(guesses, rest, epsilon=point[0], delta=point[1])
                for point in points
                for rest in range(1, left + 1)
                for guesses in range(1, rest + 1)
            ]
            known[key] = max(batch(left, plan) for plan in plans)
        return known[key]

    def batch(left: int, plan: GuessWalk) -> float:
        stay = value(left - 1, plan.after(0, 1, right=0))
        hit, miss = (value(left - 1, plan.after(1, 1, right=right)) for right in (1, 0))
        return delta * max(hit, stay) + (1 - delta) * max(p * hit + (1 - p) * miss, stay)

    return value(trials, GuessWalk(alpha))


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4, 0.65])
@pytest.mark.parametrize(
    ("epsilon", "delta", "points"),
    [
        (0.0, 0.0, ((0.0, 0.0),)),
        (1.0, 0.0, ((1.0, 0.0), (0.5, 0.2877))),
        (0.5, 0.1, ((0.5, 0.1),)),
        (0.7, 0.25, ((0.7, 0.25), (0.0, 0.55), (1.5, 0.25))),
    ],
)
@pytest.mark.every(3)
def test_no_choice_of_plans_refutes_a_true_claim_more_often_than_stated(
    epsilon: float, delta: float, points: tuple[tuple[float, float], ...], alpha: float
) -> None:
    p = float(special.expit(epsilon))
    for at, allowed in points:  # the points are claims that the pair satisfies
        assert delta + (1 - delta) * max(0.0, p - math.exp(at) * (1 - p)) <= allowed + 1e-12

    found = adversary(4, alpha, points, epsilon, delta)

    assert found <= alpha
    if alpha > 0.3:  # plans do use the level, so that one that spends more would be seen
        assert found > 0.5 * alpha


def two_parts(bound: Callable[[int, int], float], planned: int, early: int, truth: float) -> float:
    """Pr[bound > truth] for randomised response, exactly; ``bound`` takes the right guesses of both parts."""
    p = float(special.expit(truth))
    first, second = (stats.binom.pmf(np.arange(n + 1), n, p) for n in (early, planned - early))
    above = np.array([[bound(i, j) > truth for j in range(planned - early + 1)] for i in range(early + 1)])
    return float(first @ above @ second)


@pytest.mark.parametrize(("truth", "planned", "early"), [(2.0, 40, 20), (1.5, 60, 30), (1.0, 40, 20)])
def test_the_bound_of_a_ladder_is_above_the_truth_as_seldom_as_stated(truth: float, planned: int, early: int) -> None:
    ladder = GuessLadder.of([1.0, 1.2, truth + 1e-6] if truth > 1.2 else [truth + 1e-6], alpha=0.05)
    ladder = ladder.planned(planned, planned)
    rest = planned - early
    firsts = [ladder.after(early, early, right=i).planned(rest, rest) for i in range(early + 1)]

    missed = two_parts(lambda i, j: firsts[i].after(rest, rest, right=j).epsilon_lower, planned, early, truth)

    assert missed <= 0.05


def test_a_bound_from_later_guesses_at_the_budget_of_the_claim_is_above_the_truth_too_often() -> None:
    """The mutant of the test above: above the claim the budget grows with the evidence."""
    planned, early, truth = 100, 50, 2.0
    walks = [
        GuessWalk(0.05).planned(planned, planned, epsilon=1.0).after(early, early, right=i) for i in range(early + 1)
    ]

    @lru_cache(None)
    def bound(i: int, j: int) -> float:
        budget = walks[i].budget
        rest = planned - early
        return truth + 1 if budget < 1 and guess_tail(j, rest, rest, epsilon=truth) <= budget else 0.0

    assert two_parts(bound, planned, early, truth) > 0.4


def test_a_number_of_guesses_that_depends_on_the_coins_breaks_the_level() -> None:
    """Why the number is fixed: stop when ahead, and take the tail of the guesses that were made."""
    trials, alpha, p = 30, 0.05, float(special.expit(1.0))

    @lru_cache(None)
    def value(made: int, right: int) -> float:
        if made and guess_tail(right, made, trials, epsilon=1.0) <= alpha:
            return 1.0
        return 0.0 if made == trials else p * value(made + 1, right + 1) + (1 - p) * value(made + 1, right)

    assert value(0, 0) > 1.8 * alpha


def test_a_number_of_guesses_that_depends_on_outputs_breaks_the_level_where_there_are_leaks() -> None:
    """Why it is fixed before the outputs are seen: guess as many as suits the leaks, claim (0.5, 0.3)."""
    trials, alpha, epsilon, delta = 100, 0.05, 0.5, 0.3
    p = float(special.expit(epsilon))
    needed = {d: side_guesses._least(d, trials, epsilon, delta, alpha) for d in range(1, trials + 1)}
    level = 0.0
    for leaks in range(trials + 1):
        sure = {d: min(leaks, d) for d in needed}
        reached = [stats.binom.sf(c - sure[d] - 1, d - sure[d], p) for d, c in needed.items() if c <= d]
        level += stats.binom.pmf(leaks, trials, delta) * max(reached)
    assert level > 1.2 * alpha


def test_guesses_that_are_not_made_count_as_wrong() -> None:
    plan = GuessWalk(0.4).planned(3, 3, epsilon=0.5)
    skipped = plan.after(0, 2, right=0)

    assert (skipped.guesses, skipped.trials) == (1, 1)
    assert skipped.needed == plan.needed
    assert not skipped.after(1, 1, right=1).refuted or plan.needed == 1
    assert skipped.budget <= plan.budget


def test_a_refutation_stays() -> None:
    walk = GuessWalk(0.05).planned(5, 5, epsilon=0.0)
    walk = walk.after(5, 5, right=5)

    assert walk.refuted
    assert walk.planned(5, 5, epsilon=0.0).refuted and walk.after(0, 0, right=0).refuted
    assert not GuessWalk(0.05).planned(5, 5, epsilon=0.0).after(5, 5, right=4).refuted


@pytest.mark.parametrize(
    "call",
    [
        lambda: guess_tail(1, 5, 4, epsilon=1.0),
        lambda: guess_tail(1, -1, 4, epsilon=1.0),
        lambda: guess_tail(1.5, 2, 4, epsilon=1.0),  # type: ignore[arg-type]
        lambda: guess_tail(1, 2, 4, epsilon=-1.0),
        lambda: guess_tail(1, 2, 4, epsilon=1.0, delta=1.5),
        lambda: guessed_epsilon(1, 2, 4, alpha=0.0),
        lambda: guessed_delta(1, 2, 4, epsilon=math.nan, alpha=0.1),
        lambda: GuessWalk(1.0),
        lambda: GuessWalk(0.05).planned(3, 2, epsilon=1.0),
        lambda: GuessWalk(0.05).planned(3, 3, epsilon=1.0).after(4, 4, right=1),
        lambda: GuessWalk(0.05).planned(3, 3, epsilon=1.0).after(2, 1, right=1),
        lambda: GuessWalk(0.05).planned(3, 3, epsilon=1.0).after(1, 1, right=2),
        lambda: GuessLadder.of([1.0, 1.0], alpha=0.05),
        lambda: GuessLadder.of([], alpha=0.05),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
