"""Two streams on which batching costs more than Proposition 3.3 of the lazy learner's paper allows.

Asi, Koren, Liu & Talwar 2024 bound what batches of B rounds add to regret by O(T B^2 eta^2). Two streams say otherwise:

A. *Coins per batch.* Two experts; in each batch a fair coin says which of them loses, in all B rounds. Whatever learner
   plays one expert per batch has expected loss T/2, hence expected regret (B/2) E|S_n| with S_n a walk of n = T/B
   steps: 0.399 sqrt(T B). With the printed B = 1/eps and eps = T^(-1/4) that is T^(5/8); printed is T^(1/2).
B. *Alternating batches.* The experts lose in turns, a whole batch each. The batched learner loses eta T (B-1)/8 more
   than the same learner without batches: one power of B and of eta, not two.

Both numbers are exact. What holds instead, ln(d)/eta + eta T B/8, is checked on the same streams.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners import LazyExperts
from hockeystick.learners.experts.multiplicative_weights import expected_regret, regret_bound
from hockeystick.learners.lazy import log_log_slope

TOLERANCE = 0.05  # of slopes
POWERS = (16, 20, 24, 28, 32)  # of two: rounds whose fourth root is a whole number
BATCHES = (2, 3, 5, 10, 20, 30)
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def coin_regret(rounds: int, batch: int) -> float:
    """(B/2) E|S_n|, exactly, for an even number n = T/B of batches: E|S_n| = n * C(n, n/2) / 2^n."""
    n = rounds // batch
    walk = math.exp(math.log(n) + gammaln(n + 1) - 2.0 * gammaln(n / 2 + 1) - n * math.log(2.0))
    return batch / 2.0 * walk


def coin_stream(rounds: int, batch: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """One stream of kind A, shape (rounds, 2)."""
    first = np.repeat(rng.integers(0, 2, rounds // batch), batch).astype(float)
    return np.stack([first, 1.0 - first], axis=1)


def learner_on_coins(rounds: int, batch: int, rate: float, streams: int) -> dict[str, float]:
    """Mean and standard error of the lazy learner's exact expected regret over streams of kind A."""
    learner = LazyExperts(rounds=rounds, experts=2, batch=batch, learning_rate=rate, fake_switch_probability=0.1)
    rng = np.random.default_rng(20240604)
    regrets = [learner.expected_regret(coin_stream(rounds, batch, rng)) for _ in range(streams)]
    return {
        "mean": float(np.mean(regrets)),
        "error": float(np.std(regrets, ddof=1) / math.sqrt(streams)),
        "largest": float(np.max(regrets)),
        "bound": learner.regret_bound(),
    }


def alternating_regret(rounds: int, batch: int, rate: float) -> tuple[float, float]:
    """Exact expected regret on stream B, with batches and without; T a multiple of 2B.

    After two batches the experts are level again, so every such period costs the same.
    """
    first = np.repeat([1.0, 0.0], batch)
    period = np.stack([first, 1.0 - first], axis=1)
    batched = expected_regret([np.array([[batch, 0.0], [0.0, batch]])], rate)
    single = expected_regret([period], rate)
    periods = rounds / (2 * batch)
    return periods * batched, periods * single


def experiment(cells: Cells, powers: tuple[int, ...] = POWERS, streams: int = 100) -> Report:
    """The two refutations, exactly, and their slopes."""
    # A
    rounds = [2**power for power in powers]
    batches = [2 ** (power // 4) for power in powers]  # 1/eps for eps = T^(-1/4)
    coins = [coin_regret(t, b) for t, b in zip(rounds, batches, strict=True)]
    printed = [2.0 * math.sqrt(t) for t in rounds]  # sqrt(T) + T^(1/3) eps^(-2/3)
    rows: list[list[object]] = [
        ["A", f"T = 2^{power}, ε = 1/{b}", b, value, claim, value / claim]
        for power, b, value, claim in zip(powers, batches, coins, printed, strict=True)
    ]
    slope_coins = log_log_slope(rounds, coins).slope
    played = cells.each(
        learner_on_coins, [(rounds[0], batches[0], rate, streams) for rate in (1e-4, 1e-3, 1e-2)], "learners on coins"
    ).values()
    # B
    extras = {}
    for t, b, rate in (
        *((10**6, b, 1e-3) for b in BATCHES),
        *((6 * 10**6, 10, rate) for rate in RATES),
        (9999960, 30, 1e-4),  # 10^7, in whole periods
    ):
        t -= t % (2 * b)
        batched, single = alternating_regret(t, b, rate)
        extras[t, b, rate] = batched - single, batched
    for (t, b, rate), (extra, _) in extras.items():
        claim = t * b**2 * rate**2
        if (b, rate) in ((10, 1e-3), (30, 1e-3), (10, 1e-4), (30, 1e-4)):
            rows.append(["B", f"T = {float(t):.3g}, η = {rate:g}", b, extra, claim, extra / claim])
    in_batch = [extras[10**6 - 10**6 % (2 * b), b, 1e-3][0] for b in BATCHES]
    in_rate = [extras[6 * 10**6, 10, rate][0] for rate in RATES]
    # The last, incomplete period is left out of T; per round it makes no difference.
    per_round = [extra / (10**6 - 10**6 % (2 * b)) for extra, b in zip(in_batch, BATCHES, strict=True)]
    slope_batch = log_log_slope([b - 1 for b in BATCHES], per_round).slope
    slope_rate = log_log_slope(RATES, in_rate).slope
    formula = max(abs(extra / (rate * t * (b - 1) / 8.0) - 1.0) for (t, b, rate), (extra, _) in extras.items())
    within = all(
        batched <= regret_bound(rounds=t, experts=2, batch=b, learning_rate=rate)
        for (t, b, rate), (_, batched) in extras.items()
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.loglog(rounds, coins, "o-", label="A: every learner with batches of 1/ε")
        left.loglog(rounds, printed, "k--", label="printed rate")
        left.set(xlabel="rounds T, with ε = T^(-1/4)", ylabel="expected regret")
        right.loglog([b - 1 for b in BATCHES], in_batch, "o-", label="B: what batching adds")
        right.loglog([b - 1 for b in BATCHES], [1e6 * b**2 * 1e-6 for b in BATCHES], "k--", label="printed T B²η²")
        right.set(xlabel="B - 1, at T = 10^6, η = 0.001", ylabel="regret added")
        for axes in (left, right):
            axes.legend()

    return Report(
        markdown(["stream", "setting", "B", "exact", "printed", "ratio"], rows),
        {
            f"A grows like T^0.625 (measured {slope_coins:.3f}), printed T^0.5": abs(slope_coins - 0.625) <= TOLERANCE,
            "A, played by the lazy learner at three learning rates: its mean regret is within 6 standard errors of "
            "the exact number, and never above ln(d)/η + ηTB/8": all(
                abs(p["mean"] - coins[0]) <= 6.0 * p["error"] and p["largest"] <= p["bound"] for p in played
            ),
            f"B grows like B - 1 (measured {slope_batch:.3f}) and like η ({slope_rate:.3f}), printed B² and η²": abs(
                slope_batch - 1.0
            )
            <= TOLERANCE
            and abs(slope_rate - 1.0) <= TOLERANCE,
            "B is ηT(B-1)/8 up to 1 %": formula < 0.01,
            "B: the batched learner's regret is within ln(d)/η + ηTB/8": within,
        },
        draw,
        "Exact regret on both streams beside the printed rates, on logarithmic axes.",
    )
