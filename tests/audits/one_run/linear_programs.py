"""Oracle of one-run audits: the most right guesses that a private mechanism allows, by linear programs."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize


def worst_symmetric(wrong, guesses, canaries, points, *, tails=False):
    """The largest Pr[at most ``wrong`` wrong guesses] over symmetric private mechanisms, by a linear program."""
    return worst_law(wrong, guesses, canaries, points, tails=tails)[0]


def worst_law(wrong, guesses, canaries, points, *, tails=False):
    """The same, and the masses of k = 0, ..., guesses wrong guesses of a mechanism that attains it.

    With ``tails`` the mechanism is bound by the constraints on the sets {k <= K} alone.
    """
    k = np.arange(guesses)
    stay, move = (guesses - k) / guesses, (k + 1) / guesses
    swapped = 1 if tails else 2
    variables = guesses + 1 + (0 if tails else swapped * guesses * len(points))
    rows, limits = [], []
    for j, (epsilon, delta) in enumerate(points):
        ratio, budget = math.exp(epsilon), delta * canaries / guesses
        excess = np.zeros((guesses, guesses + 1))
        excess[k, k], excess[k, k + 1] = stay, -ratio * move
        if tails:
            rows += list(np.cumsum(excess, axis=0))
            limits += [budget] * guesses
            continue
        back = np.zeros((guesses, guesses + 1))
        back[k, k + 1], back[k, k] = move, -ratio * stay
        start = guesses + 1 + 2 * j * guesses
        for i, row in enumerate(np.vstack([excess, back])):
            rows.append(np.zeros(variables))
            rows[-1][: guesses + 1], rows[-1][start + i] = row, -1
            limits.append(0.0)
        rows.append(np.zeros(variables))
        rows[-1][start : start + 2 * guesses] = 1
        limits.append(budget)
    gain, one = np.zeros(variables), np.zeros((1, variables))
    gain[: wrong + 1], one[0, : guesses + 1] = 1, 1
    found = optimize.linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=one, b_eq=[1.0], method="highs")
    return -found.fun, found.x[: guesses + 1]
