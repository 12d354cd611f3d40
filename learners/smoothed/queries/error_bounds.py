"""How far the answers of Smooth MWEM are off, corrected, with what the paper prints beside it.

With T = R + 1 laws and (sigma, chi)-smooth data the potential KL(smooth data || law) starts at l = ln(1/sigma) at most,
and a round of true error a and measuring error e lowers it by (2/w^2)(a^2 - e^2) ("hoeffding"), or by (a^2 - e^2)/4
("paper", w <= 2): by Hoeffding's lemma, whatever the noise. So the errors of the T laws average to at most

    P + choice + measurement + 2 chi,   P = w sqrt(l/(2T)), or 2 sqrt(l/T) for the paper's step,

on the cover; the last law is controlled by a fictitious round that costs no privacy. Off the cover w gamma/sigma and
2 chi come on top, and w gamma/sigma once more for a law that answers itself.

After Haghtalab, Roughgarden & Shetty 2020, Theorems 4.2 and 4.3 and their proofs in E and F, corrected.
"""

from __future__ import annotations

import math
from typing import Literal

from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, probability, real

Step = Literal["paper", "hoeffding"]


@frozen(kw_only=True)
class ErrorBound:
    """max |answer - q(D_B)| over the whole class is at most ``error``, but with probability ``failure``.

    Attributes:
        error: The sum of all parts below.
        failure: Over the noise, and the public coins of the cover.
        progress: P, what remains after the rounds without any noise.
        choice: What a choice may fall short of the worst query.
        measurement: The noise of a measurement.
        cover: What queries off the cover add.
        smoothness: 4 chi, what data add that are smooth up to chi only.
        window: What the printed average of the wrong laws adds.
    """

    failure: float
    progress: float
    choice: float
    measurement: float
    cover: float
    smoothness: float
    window: float

    @property
    def error(self) -> float:
        """The bound."""
        return self.progress + self.choice + self.measurement + self.cover + self.smoothness + self.window


def error_bound(
    *,
    records: int,
    width: float,
    sigma: float,
    gamma: float,
    queries: int,
    rounds: int,
    epsilon_em: float,
    epsilon_lap: float,
    step: Step = "hoeffding",
    projected: bool = False,
    whole_noise: bool = False,
    printed: bool = False,
    chi: float = 0.0,
    failure: float | None = None,
    cover_failure: float = 0.0,
) -> ErrorBound:
    """The bound for R rounds with these budgets each.

    Args:
        records: n.
        width: w, the range of the queries' values.
        sigma, chi: Some sigma-smooth law is within chi of the data on every query of the class.
        gamma: The cover's.
        queries: K, of the cover.
        rounds: R.
        epsilon_em, epsilon_lap: Budgets of a choice and of a measurement.
        step: The length of an update.
        projected: The law answers itself, after projection.
        whole_noise: Measurements have discrete Laplace noise.
        printed: The printed algorithm: noise for w = 1, the average of the laws after each update.
        failure: Allowed for the noise; None for the paper's 2R/K.
        cover_failure: Probability that the cover is none.

    Raises:
        InvalidArgumentError: an argument outside its domain, the paper's step for w > 2, or 2R >= K without a failure
            probability, where the paper's says nothing.
    """
    n, R = integer("records", records, low=1), integer("rounds", rounds, low=1)
    w = real("width", width, low=0.0, low_open=True)
    K = integer("queries", queries, low=1)
    if step == "paper" and w > 2.0:
        raise InvalidArgumentError("step", step, f"has no bound for queries of range {w:g} > 2", 'use "hoeffding"')
    if failure is None and 2 * R >= K:
        raise InvalidArgumentError("rounds", R, f"is no less than half of {K} queries", "give a failure probability")
    allowed = 2.0 * R / K if failure is None else probability("failure", failure, open=True)
    tail = math.log(2.0 * R / allowed)  # each of 2R noises passes its bound with probability e^-tail
    assumed = 1.0 if printed else w
    noise = tail * assumed / real("epsilon_lap", epsilon_lap, low=0.0, low_open=True)
    gap = wide = real("gamma", gamma, low=0.0) * w / real("sigma", sigma, low=0.0, high=1.0, low_open=True)
    laws = R if printed else R + 1
    missed = 2.0 * assumed * (math.log(K) + tail) / real("epsilon_em", epsilon_em, low=0.0, low_open=True)
    return ErrorBound(
        failure=min(1.0, allowed + probability("cover_failure", cover_failure)),
        progress=progress(laws, sigma, w, step),
        choice=missed / n,
        measurement=(math.ceil(noise) if whole_noise else noise) / n,
        cover=gap + (wide if projected else 0.0),
        smoothness=4.0 * real("chi", chi, low=0.0),
        window=w / R if printed else 0.0,
    )


def progress(laws: float, sigma: float, width: float, step: Step) -> float:
    """P for T laws: what multiplicative weights leave after T - 1 exact rounds."""
    left = math.log(1.0 / sigma)
    return 2.0 * math.sqrt(left / laws) if step == "paper" else width * math.sqrt(left / (2.0 * laws))


def cover_gamma(*, records: int, sigma: float, width: float = 1.0, project: bool = False) -> float:
    """gamma of a cover that adds 1/n to the error: sigma/(w n), or half of it for a law that answers itself.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, s = integer("records", records, low=1), real("sigma", sigma, low=0.0, high=1.0, low_open=True)
    return min(1.0, s / (n * real("width", width, low=0.0, low_open=True) * (2.0 if project else 1.0)))


# --- rates -----------------------------------------------------------------------------------------------------------


@frozen
class Tuned:
    """The best number of laws T, not rounded, and the bound there, without cover and chi."""

    laws: float
    error: float


def tuned_pure(*, records: float, epsilon: float, sigma: float, log_queries: float, width: float = 1.0) -> Tuned:
    """The paper's step and equal budgets epsilon/(2T): 2 sqrt(l/T) + 10 w T L/(epsilon n), least over T.

    T = (epsilon n sqrt(l)/(10 w L))^(2/3), and the bound is 3 (10 w l L/(epsilon n))^(1/3): slope -1/3 in n.
    """
    left, noise = math.log(1.0 / sigma), 10.0 * width * log_queries / (epsilon * records)
    return Tuned((math.sqrt(left) / noise) ** (2.0 / 3.0), 3.0 * (noise * left) ** (1.0 / 3.0))


def tuned_approximate(
    *,
    records: float,
    epsilon: float,
    delta: float,
    sigma: float,
    log_queries: float,
    width: float = 1.0,
    kappa: float = 0.25,
) -> Tuned:
    """The paper's step and budgets kappa*epsilon/sqrt(T ln(1/delta)): 2 sqrt(l/T) + b sqrt(T), least over T.

    T = 2 sqrt(l)/b and the bound is 2 sqrt(2 b sqrt(l)), b = 5 w L sqrt(ln(1/delta))/(kappa epsilon n): slope -1/2.
    kappa = 1/4 is the paper's composition; the accountant's is near 0.7.
    """
    root = math.sqrt(math.log(1.0 / sigma))
    b = 5.0 * width * log_queries * math.sqrt(math.log(1.0 / delta)) / (kappa * epsilon * records)
    return Tuned(2.0 * root / b, 2.0 * math.sqrt(2.0 * b * root))


# --- printed beside corrected ----------------------------------------------------------------------------------------


@frozen
class Constant:
    """One number of the paper, as printed and as it has to be."""

    what: str
    printed: float
    corrected: float


def paper_constants(
    *, records: int, sigma: float, vc_dimension: int, rounds: int, epsilon: float, width: float = 1.0
) -> tuple[Constant, ...]:
    """The paper's constants for T = ``rounds`` side by side with what its proofs give.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, d = integer("records", records, low=1), integer("vc_dimension", vc_dimension, low=1)
    s, T = real("sigma", sigma, low=0.0, high=1.0, low_open=True), integer("rounds", rounds, low=2)
    w, e = real("width", width, low=1.0, high=2.0), real("epsilon", epsilon, low=0.0, low_open=True)
    answers, release = d * math.log(82.0 * n / s), d * math.log(164.0 * n / s)
    return (
        Constant("total epsilon of the noise with sensitivity 1/n", e, w * e),
        Constant("ln of the cover's size, answers", d * math.log(2.0 * n / s), answers),
        Constant("ln of the cover's size, release", d * math.log(4.0 * n / s), release),
        Constant("gamma for a cover error of 1/n, answers", s / (2.0 * n), s / (w * n)),
        Constant("gamma for a cover error of 1/n, release", s / (2.0 * n), s / (2.0 * w * n)),
        Constant("rounds that are paid for, T laws", T, T - 1),
        Constant("budget of one step", e / (2.0 * T), e / (2.0 * (T - 1))),
        Constant("loss of the average of D_1 .. D_T", 0.0, w / T),
        Constant("step of an update", 0.5, 4.0 / w**2),
        Constant("exponent of ln(1/sigma) in the (epsilon, delta) rate", 0.375, 0.75),
    )
