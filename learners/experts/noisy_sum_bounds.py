"""Regret bounds of learners that read prefix sums of losses with normal noise: the noisy leader, and Hedge.

Losses in [0, 1]^d are fixed in advance, and L is their sum before a round. In each round the learner sees L + N, where
N has independent entries of law N(0, s²); noises of different rounds may depend on each other in any way, as expected
losses depend on each round's law alone. M is the expected maximum of d standard normal numbers.

*Leader.* Its expected regret is at most M·(s + T/(4s)). Φ(L) = E min_i (L_i + N_i) is concave, and its gradient is the
law of the leader. With a loss vector ℓ, ⟨∇Φ(L), ℓ⟩ ≤ Φ(L + ℓ) − Φ(L) + ½·sup |ℓᵀ∇²Φ ℓ|. Rows of −∇²Φ add up to 0 and
have one positive entry, so the last term is at most ¼ of its trace, which is at most M/s by integration by parts. The
sum telescopes, and Φ(0) ≥ −sM.

*Hedge* at the rate η: at most ln d/η + min(η·s²/2, s·M) + T·min(η/8, M/(4s)), by the same argument for
Ψ(L) = −E ln Σ exp(−η(L_i + N_i))/η.

*Rising noise.* If the standard deviation s_t rises from round to round, Φ changes by at most M·(s_{t+1} − s_t) between
two rounds, and the leader's bound is M·(s_T + Σ 1/(4s_t)). Hedge's rate η_t may fall at the same time: a lower rate
adds at most ln d·(1/η_{t+1} − 1/η_t), more noise at most min(η_{t+1}·(s²_{t+1} − s²_t)/2, M·(s_{t+1} − s_t)). So the
bound is ln d/η_T + Σ min(η_t·(s²_t − s²_{t−1})/2, M·(s_t − s_{t−1})) + Σ min(η_t/8, M/(4s_t)), with s_0 = 0.

*Discounted losses.* Let L_t = γ·L_(t−1) + ℓ_t for γ < 1, and let round t read γ·L_(t−1) + N. By concavity Φ(γ·L) ≥
γ·Φ(L) + (1 − γ)·Φ(0), so ⟨∇Φ(γ·L_(t−1)), ℓ_t⟩ ≤ Φ(L_t) − γ·Φ(L_(t−1)) − (1 − γ)·Φ(0) + M/(4s). Multiplied by γ^(T−t)
this telescopes to Φ(L_T) − Φ(0). So the same bounds hold for the discounted regret, whose round t counts γ^(T−t), with
the sum of these weights, (1 − γ^T)/(1 − γ), in the place of T. For Ψ and below it is the same.

*Hedge against adaptive losses:* at most ln d/η + η·T/8 + Σ tanh(η·s_t·M/2): noise of range r moves the law by at most
tanh(η·r/4) in total variation, whatever the loss that follows, and E r ≤ 2·s·M. With a rate that falls it is at most
ln d/η_T + Σ η_t·(1/8 + s_t·M/2).

Sources: Abernethy, Lee, Sinha & Tewari 2014 (Gaussian smoothing); Agarwal & Singh 2017; Freund & Schapire 1997.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import integrate, optimize, special

from hockeystick.accounting.arrays import FloatArray


@lru_cache(maxsize=64)
def expected_maximum(count: int) -> float:
    """Returns E max of ``count`` independent standard normal numbers, by quadrature, rounded up by 1e-8.

    Example:
        >>> round(expected_maximum(2) * math.pi**0.5, 6), round(expected_maximum(100), 4)
        (1.0, 2.5076)
    """
    accuracy = {"limit": 400, "epsabs": 1e-12, "epsrel": 1e-12}
    above = integrate.quad(lambda x: -math.expm1(count * special.log_ndtr(x)), 0.0, 40.0, **accuracy)[0]
    below = integrate.quad(lambda x: math.exp(count * special.log_ndtr(x)), -40.0, 0.0, **accuracy)[0]
    return float(above - below + 1e-8)  # far more than the quadrature's error


def leader(rounds: float, experts: int, spread: float) -> float:
    """Returns the bound of the noisy leader, whose noise has the standard deviation ``spread`` in every round."""
    return expected_maximum(experts) * (spread + rounds / (4.0 * spread))


def hedge(rounds: float, experts: int, spread: float, rate: float) -> float:
    """Returns the bound of Hedge on noisy sums, for losses that are fixed in advance."""
    largest = expected_maximum(experts)
    start = min(rate * spread**2 / 2.0, spread * largest)
    each = min(rate / 8.0, largest / (4.0 * spread)) if spread else rate / 8.0
    return math.log(experts) / rate + start + rounds * each


Piece = tuple[int, int, float]
"""(a, b, s): in the rounds a … b, numbered from 1, the noise has the standard deviation s."""


def rising_leader(experts: int, pieces: Iterable[Piece]) -> float:
    """Returns the bound of the noisy leader for noise that rises from piece to piece, padded to √(t/2) in each.

    A sum of 1/√t over the rounds a … b is at most 2·(√b − √(a − 1)).
    """
    total = spread = 0.0
    for a, b, own in pieces:
        steady = min(b, max(a - 1, math.floor(2.0 * own**2)))  # the last round whose noise needs no padding
        if steady >= a:
            total += (steady - a + 1) / (4.0 * own)
        if steady < b:
            total += (math.sqrt(b) - math.sqrt(steady)) / math.sqrt(2.0)
        spread = float(leader_spread(b, own))
    return expected_maximum(experts) * (spread + total)


def leader_spread(rounds: Any, spreads: Any) -> Any:
    """Returns the standard deviation to which the leader of an unknown horizon pads the noise of rounds 1, 2, …."""
    return np.maximum(spreads, np.sqrt(rounds / 2.0))


def rising_hedge(experts: int, pieces: Iterable[Piece], *, adaptive: bool = False) -> float:
    """Returns the bound of Hedge for noise that rises from piece to piece, at the rate ``falling_rate`` of each round.

    A sum of these rates over the rounds a … b of a piece is at most 8·√(ln d)·(√(s² + b/4) − √(s² + (a − 1)/4)).
    """
    largest, total, before, rate = expected_maximum(experts), 0.0, 0.0, math.inf
    for a, b, own in pieces:
        rate = float(falling_rate(a, experts, own))
        each = math.sqrt(math.log(experts)) * (math.sqrt(own**2 + b / 4.0) - math.sqrt(own**2 + (a - 1) / 4.0))
        if adaptive:  # each is the sum of the rates, divided by 8
            total += min(each * (1.0 + 4.0 * own * largest), b - a + 1)
        else:
            total += min(rate * (own**2 - before**2) / 2.0, largest * (own - before))
            total += min(each, (b - a + 1) * largest / (4.0 * own))
        before, rate = own, float(falling_rate(b, experts, own))
    return math.log(experts) / rate + total


def rising_adaptive(experts: int, pieces: Iterable[Piece]) -> float:
    """Returns the bound of Hedge against adaptive losses, for noise that rises, at the rates ``adaptive_rates``.

    It is at most 2·√(2·ln d·C_T), as Σ c_t/√C_t is at most 2·√C_T; and no round costs more than 1.
    """
    total = before = 0.0
    for a, b, cost in _costs(experts, pieces):
        after = before + (b - a + 1) * cost
        total += min(math.sqrt(2.0 * math.log(experts)) * (math.sqrt(after) - math.sqrt(before)), b - a + 1)
        before = after
    return math.sqrt(2.0 * math.log(experts) * before) + total


def adaptive_rates(rounds: Any, experts: int, pieces: Iterable[Piece]) -> FloatArray:
    """Returns η_t = √(ln d/(2·C_t)), in rounds 1, 2, … of the pieces, where C_t is the sum of 1/8 + s·M/2 so far."""
    costs = _costs(experts, pieces)
    first, each = np.array([a for a, _, _ in costs]), np.array([c for _, _, c in costs])
    before = np.cumsum([0.0, *((b - a + 1) * c for a, b, c in costs[:-1])])
    at = np.searchsorted(first, rounds, side="right") - 1
    return np.asarray(np.sqrt(math.log(experts) / (2.0 * (before[at] + (rounds - first[at] + 1) * each[at]))))


def _costs(experts: int, pieces: Iterable[Piece]) -> list[Piece]:
    """Returns the pieces with 1/8 + s·M/2 in the place of s."""
    largest = expected_maximum(experts)
    return [(a, b, 0.125 + own * largest / 2.0) for a, b, own in pieces]


def falling_rate(rounds: Any, experts: int, spreads: Any) -> Any:
    """Returns η_t = √(ln d/(s_t² + t/4)), Hedge's rate in rounds 1, 2, … of an unknown horizon.

    With these the bound is at most 2·√(ln d·(s_T² + T/4)), √2 times that at the best rate for T rounds of noise s_T.
    """
    return np.sqrt(math.log(experts) / (spreads**2 + rounds / 4.0))


def adaptive_hedge(rounds: float, experts: int, spread: float, rate: float) -> float:
    """Returns the bound of Hedge on noisy sums against adaptive losses, for noise of at most ``spread``."""
    moved = math.tanh(rate * spread * expected_maximum(experts) / 2.0)
    return math.log(experts) / rate + rate * rounds / 8.0 + rounds * moved


def best_leader_spread(rounds: float, spread: float) -> float:
    """Returns the standard deviation from ``spread`` on at which the leader's bound is least."""
    return max(spread, math.sqrt(rounds) / 2.0)


def best_rate(rounds: float, experts: int, spread: float) -> float:
    """Returns the rate at which Hedge's bound is least, for losses that are fixed in advance."""
    # The bound is the least of functions ln d/η + c·η + constant, so one of their minima is its own.
    slopes = {rounds / 8.0 + spread**2 / 2.0, rounds / 8.0} | ({spread**2 / 2.0} if spread else set())
    rates = [math.sqrt(math.log(experts) / slope) for slope in slopes]
    return min(rates, key=lambda rate: hedge(rounds, experts, spread, rate))


def best_adaptive_rate(rounds: float, experts: int, spread: float) -> float:
    """Returns about the rate at which Hedge's bound against adaptive losses is least."""
    middle = 0.5 * math.log(8.0 * math.log(experts) / rounds)
    found = optimize.minimize_scalar(
        lambda x: adaptive_hedge(rounds, experts, spread, math.exp(x)),
        bounds=(middle - 5.0 - math.log1p(spread), middle),
        method="bounded",
    )
    return math.exp(float(found.x))
