"""A priori error bounds of Smooth MWEM, corrected, and the paper's printed constants.

Let there be T = R + 1 laws and (σ, χ)-smooth data. The potential KL(smooth data || law) is at most l = ln(1/σ) at the
start. A round of true error a and measurement error e lowers it by (2/w^2)(a^2 - e^2) ("hoeffding"), or (a^2 - e^2)/4
("paper", w <= 2), by Hoeffding's lemma, for any noise. So the mean error of the T laws on the cover is at most

    P + choice + measurement + 2χ,   P = w sqrt(l/(2T)), or 2 sqrt(l/T) for the paper's step.

The last law is bounded by a fictitious round, which costs no privacy. Queries off the cover add w γ/σ + 2χ, and another
w γ/σ if the law answers them itself.

Source: Haghtalab, Roughgarden & Shetty 2020, Theorems 4.2 and 4.3 and their proofs in E and F, corrected.
"""

from __future__ import annotations

import math
from typing import Literal

from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import boolean, integer, probability, real
from hockeystick.learners.common import arguments

Step = Literal["paper", "hoeffding"]


@frozen(kw_only=True)
class ErrorBound:
    """A bound on max |answer - q(D_B)| over the whole class: at most ``error``, except with probability ``failure``.

    See :func:`error_bound`.

    Attributes:
        error: The sum of all parts below.
        failure: The failure probability, over the noise and the public coins of the cover.
        progress: P, the error that remains after the rounds without noise.
        choice: The error of the private choice of a query.
        measurement: The error of a measurement.
        cover: The error of queries off the cover.
        smoothness: 4χ, the error of data that are smooth only up to χ.
        window: The error of the printed average, which is over the wrong laws.
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
        """The sum of all parts."""
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
    """Returns the error bound for R rounds with given budgets for each choice and measurement.

    Args:
        records: n.
        width: The range w of the queries' values.
        sigma, chi: Some σ-smooth law is within χ of the data on every query of the class.
        gamma: γ of the cover.
        queries: The number K of queries of the cover.
        rounds: R.
        epsilon_em, epsilon_lap: The budgets of a choice and of a measurement.
        step: The length of an update.
        projected: Whether the law answers queries off the cover itself, after projection.
        whole_noise: Whether measurements have discrete Laplace noise.
        printed: Whether to bound the printed algorithm: noise for w = 1, and the average of the laws after each update.
        failure: The failure probability of the noise; default: the paper's 2R/K.
        cover_failure: The probability that the cover is not a γ-cover.

    Raises:
        InvalidArgumentError: an argument outside its domain, the paper's step for w > 2, or 2R >= K without
            ``failure``, for which the paper's failure probability is 1 or more.

    Example:
        >>> from hockeystick.learners.smoothed.queries.error_bounds import error_bound
        >>> bound = error_bound(records=100_000, width=1.0, sigma=0.25, gamma=1e-5, queries=4096, rounds=20,
        ...                     epsilon_em=0.1, epsilon_lap=0.05)
        >>> round(bound.progress, 3), round(bound.choice, 4), round(bound.measurement, 4), round(bound.error, 3)
        (0.182, 0.0033, 0.0017, 0.187)
    """
    n, R = integer("records", records, low=1), integer("rounds", rounds, low=1)
    w = real("width", width, low=0.0, low_open=True)
    K = integer("queries", queries, low=1)
    if step == "paper" and w > 2.0:
        raise InvalidArgumentError("step", step, f"has no bound for queries of range {w:g} > 2", 'use "hoeffding"')
    if failure is None and 2 * R >= K:
        raise InvalidArgumentError("rounds", R, f"is not below half of the {K} queries", "give a failure probability")
    allowed = 2.0 * R / K if failure is None else probability("failure", failure, open=True)
    tail = math.log(2.0 * R / allowed)  # each of 2R noises passes its bound with probability e^-tail
    assumed = 1.0 if printed else w
    noise = tail * assumed / real("epsilon_lap", epsilon_lap, low=0.0, low_open=True)
    gap = wide = real("gamma", gamma, low=0.0) * w / arguments.sigma(sigma)
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
    """Returns P for T laws, the error of multiplicative weights after T - 1 rounds without noise."""
    left = math.log(1.0 / sigma)
    return 2.0 * math.sqrt(left / laws) if step == "paper" else width * math.sqrt(left / (2.0 * laws))


def cover_gamma(*, records: int, sigma: float, width: float = 1.0, project: bool = False) -> float:
    """Returns γ of a cover that adds 1/n to the error: σ/(w n), or half of it if the law answers queries itself.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, s = integer("records", records, low=1), arguments.sigma(sigma)
    twice = 2.0 if boolean("project", project) else 1.0
    return min(1.0, s / (n * real("width", width, low=0.0, low_open=True) * twice))


# --- rates -----------------------------------------------------------------------------------------------------------


@frozen
class Tuned:
    """The best number of laws T, not rounded, and the error bound there, without the parts of the cover and of χ."""

    laws: float
    error: float


def tuned_pure(*, records: float, epsilon: float, sigma: float, log_queries: float, width: float = 1.0) -> Tuned:
    """Returns the best T for the paper's step and equal budgets ε/(2T), which minimises 2 sqrt(l/T) + 10 w T L/(ε n).

    T = (ε n sqrt(l)/(10 w L))^(2/3), and the bound is 3 (10 w l L/(ε n))^(1/3), of slope -1/3 in n.
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
    """Returns the best T for the paper's step and budgets κε/sqrt(T ln(1/δ)), which minimises 2 sqrt(l/T) + b sqrt(T).

    T = 2 sqrt(l)/b and the bound is 2 sqrt(2 b sqrt(l)), with b = 5 w L sqrt(ln(1/δ))/(κ ε n): slope -1/2 in n.
    κ = 1/4 is the paper's composition; the accountant's is near 0.7.
    """
    root = math.sqrt(math.log(1.0 / sigma))
    b = 5.0 * width * log_queries * math.sqrt(math.log(1.0 / delta)) / (kappa * epsilon * records)
    return Tuned(2.0 * root / b, 2.0 * math.sqrt(2.0 * b * root))


# --- printed and corrected constants ---------------------------------------------------------------------------------


@frozen
class Constant:
    """A number of the paper, as printed and as corrected."""

    what: str
    printed: float
    corrected: float


def paper_constants(
    *, records: int, sigma: float, vc_dimension: int, rounds: int, epsilon: float, width: float = 1.0
) -> tuple[Constant, ...]:
    """Returns the paper's constants for T = ``rounds``, as printed and as its proofs give them.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed.queries.error_bounds import paper_constants
        >>> rows = paper_constants(records=1000, sigma=0.1, vc_dimension=1, rounds=10, epsilon=1.0, width=2.0)
        >>> rows[0].what, rows[0].printed, rows[0].corrected
        ('total epsilon of the noise with sensitivity 1/n', 1.0, 2.0)
    """
    n, d = integer("records", records, low=1), integer("vc_dimension", vc_dimension, low=1)
    s, T = arguments.sigma(sigma), arguments.two_rounds(rounds)
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
