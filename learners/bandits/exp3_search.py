"""The bound on the regret of batched EXP3 on noisy losses, and the parameters of the least bound."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

_BATCHES = 200  # sizes that are compared, evenly spaced in logarithms
_SHARES = np.linspace(0.02, 0.98, 49)  # compared values of u, the noise's moment at the least probability
_HALVINGS = 60  # of the interval of the learning rate


@frozen
class Exp3Parameters:
    """The batch, the learning rate per unit of a batch's mean loss, and the probability of a uniform draw."""

    batch: int
    learning_rate: float
    exploration: float


def exp3_bound(*, rounds: int, arms: int, scale: float, given: Exp3Parameters) -> float:
    """Returns the bound of ``NoisyBandit.regret_bound`` for noise of ``scale`` on a batch's sum; may be infinite."""
    eta, gamma, batches = given.learning_rate, given.exploration, -(-rounds // given.batch)
    noise = scale / given.batch
    share = eta * arms * noise / gamma
    if share >= 1.0 or gamma >= 1.0:
        return math.inf
    squares = eta * arms * batches * (0.5 + noise**2 / (1.0 - share**2)) / (1.0 - gamma)
    return given.batch * (math.log(arms) / eta + squares + gamma * batches)


def best_parameters(*, rounds: int, arms: int, scale: float) -> Exp3Parameters:
    """Returns the parameters of about the least bound, of at least two batches if there are two rounds.

    With exploration γ = ηKs/u, for noise of scale s on a batch's mean, the bound is ln(K)/η + Cη/(1 - Dη) + Eη. For
    each batch size and u in a grid this is convex in η, and the zero of its derivative is found by bisection.
    """
    largest = max(1, -(-rounds // 2))
    sizes = np.unique(np.round(np.geomspace(1.0, float(largest), _BATCHES)))[:, None]
    batches, noise = np.ceil(rounds / sizes), scale / sizes
    d = arms * noise / _SHARES
    c, e = arms * batches * (0.5 + noise**2 / (1.0 - _SHARES**2)), d * batches
    low, high = np.zeros_like(c), np.minimum(1.0 / d, np.sqrt(math.log(arms) / c))
    for _ in range(_HALVINGS):
        eta = (low + high) / 2.0
        rising = c / (1.0 - d * eta) ** 2 + e > math.log(arms) / eta**2
        low, high = np.where(rising, low, eta), np.where(rising, eta, high)
    eta = (low + high) / 2.0
    found = sizes * (math.log(arms) / eta + c * eta / (1.0 - d * eta) + e * eta)
    i, j = np.unravel_index(int(np.argmin(found)), found.shape)
    rate = float(eta[i, j])
    return Exp3Parameters(int(sizes[i, 0]), rate, rate * float(d[i, j]))
