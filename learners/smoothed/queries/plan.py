"""Plans for Smooth MWEM: the number of rounds, and the budgets of each choice and each measurement.

A plan is a function of public numbers: n, the cover's size, σ, the target. The number of rounds minimises the error
bound under closed forms. At that number both budgets are scaled until the accountant's bound just meets the target.
The error is proportional to 4w/epsilon_em + w/epsilon_lap, so choices get more of the budget: twice as much in pure ε,
and 16^(1/3) = 2.52 times as much in zCDP, where a choice costs ε^2/8 and a measurement ε^2/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from attrs import frozen
from scipy import optimize

from hockeystick.accounting import (
    BoundedRange,
    EpsilonDelta,
    InvalidArgumentError,
    InvalidDataError,
    Laplace,
    PrivacyEvent,
    calibrate,
    compose,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.queries.cells import QueryCells
from hockeystick.learners.smoothed.queries.error_bounds import progress
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

Composition = Literal["certified", "pure", "simple", "advanced", "zcdp", "rdp", "pld"]
Split = Literal["best", "equal"]

PURE_SPLIT = 2.0
"""The ratio epsilon_em/epsilon_lap of least error under pure composition."""
ZCDP_SPLIT = 16.0 ** (1.0 / 3.0)
"""The ratio epsilon_em/epsilon_lap of least error under zCDP."""

_MOST_ROUNDS = 1 << 14
_TRIED = 256  # numbers of rounds


def calibrated(
    cells: QueryCells,
    *,
    records: int,
    sigma: float,
    epsilon: float,
    delta: float = 0.0,
    rounds: int | None = None,
    split: Split = "best",
    group: int = 1,
    failure: float | None = None,
    vacuous: bool = False,
    **options: Any,
) -> SmoothMWEM:
    """Returns the learner of least error bound that is (ε, δ)-DP, as certified by its graph.

    Args:
        cells: The public cover.
        records: n, public.
        sigma: σ in (0, 1].
        epsilon, delta: The target under replace-one.
        rounds: R; default: the best number, at most K/4 - 1 without ``failure``.
        split: "best", which gives choices the larger share, or "equal".
        group: The number of replaced records for which the target holds.
        failure: The failure probability of the noise in the error bound; default: the paper's 2R/K.
        vacuous: Allow a vacuous error bound.
        options: ``step``, ``project``, ``noise``, ``clip``, ``replay``, ``output`` of :class:`SmoothMWEM`.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a vacuous error bound, of w or more: there are too few
            records for this ε.

    Example:
        >>> from hockeystick.learners.smoothed import BoxCells, Thresholds, UniformGrid
        >>> from hockeystick.learners.smoothed.queries.plan import calibrated
        >>> cells = BoxCells.of(Thresholds().cover(1 / 8192, UniformGrid(4096)))
        >>> learner = calibrated(cells, records=2**16, sigma=1 / 16, epsilon=1.0)
        >>> learner.rounds, round(learner.error_bound().error, 2), round(learner.event().pure_epsilon(), 6)
        (64, 0.22, 1.0)
    """
    target, allowed = real("epsilon", epsilon, low=1e-90), probability("delta", delta)
    members, n = integer("group", group, low=1), integer("records", records, low=1)
    one_of("split", split, "best", "equal")
    if not isinstance(cells, QueryCells):
        raise InvalidArgumentError("cells", type(cells).__name__, "is not a QueryCells", "use BoxCells.of(cover)")
    ratio = 1.0 if split == "equal" else PURE_SPLIT if allowed == 0.0 else ZCDP_SPLIT
    smooth, chance = arguments.sigma(sigma), None if failure is None else probability("failure", failure, open=True)
    if rounds is None:

        def budget(R: FloatArray) -> FloatArray:
            return _measuring(R, target / members, allowed, ratio)

        step = options.get("step", "hoeffding")
        R = _best_rounds(cells, n, smooth, budget, ratio=ratio, step=step, failure=chance, vacuous=vacuous)
    else:
        R = integer("rounds", rounds, low=1)

    def built(measure: float) -> SmoothMWEM:
        return SmoothMWEM(
            cells=cells,
            records=n,
            sigma=smooth,
            rounds=R,
            epsilon_em=ratio * measure,
            epsilon_lap=measure,
            **options,
        )

    def event(measure: float) -> PrivacyEvent:
        return built(measure).graph().guarantee(group=members).event

    found = built(_largest(event, target, allowed, guess=target / (members * R * (1.0 + ratio))))
    if not vacuous:
        _refuse_vacuous(found, chance)
    return found


def printed(
    cells: QueryCells, *, records: int, sigma: float, epsilon: float, rounds: int, **options: Any
) -> SmoothMWEM:
    """Returns the paper's algorithm: T = ``rounds`` rounds of twice ε/(2T), the paper's step, and noise for w = 1.

    For w = 1 it is ε-DP. For w = 2 it is not: its graph certifies 2ε.
    """
    each = real("epsilon", epsilon, low=1e-90) / (2.0 * integer("rounds", rounds, low=1))
    return SmoothMWEM(
        cells=cells,
        records=records,
        sigma=sigma,
        rounds=rounds,
        epsilon_em=each,
        epsilon_lap=each,
        step="paper",
        clip=False,
        printed=True,
        **options,
    )


def mwem(cells: QueryCells, *, records: int, epsilon: float, delta: float = 0.0, **options: Any) -> SmoothMWEM:
    """Returns the baseline without a cover (Hardt, Ligett & McSherry 2012): all queries of a class on a finite domain.

    Nothing is assumed about the data: any data on the domain are σ-smooth for its least mass σ.

    Args:
        cells: The cells of all queries, with γ = 0.
        records, epsilon, delta, options: See :func:`calibrated`.

    Raises:
        InvalidArgumentError: as for :func:`calibrated`, or the cells are those of a proper cover.
    """
    if not isinstance(cells, QueryCells) or cells.gamma > 0.0:
        raise InvalidArgumentError(
            "cells", getattr(cells, "gamma", None), "is the gamma of a proper cover", "give cells of all queries"
        )
    least = float(cells.masses[cells.masses > 0.0].min())
    return calibrated(cells, records=records, sigma=min(1.0, least), epsilon=epsilon, delta=delta, **options)


# --- budgets ---------------------------------------------------------------------------------------------------------


def step_epsilon(rounds: int, *, epsilon: float, delta: float, composition: Composition = "certified") -> float:
    """Returns the common budget of all choices and measurements at which R rounds are (ε, δ)-DP.

    Args:
        rounds: R.
        epsilon, delta: The target; δ may be 0 for "pure" and "certified".
        composition: "certified" is the accountant's least bound; "rdp" and "pld" are single methods of it; "zcdp" is
            zCDP, with ρ = e^2/8 for a choice and e^2/2 for a measurement of budget e; "advanced" is Theorem 3.20 of
            Dwork & Roth 2014; "simple" is its corollary in the paper, for ε <= 1; "pure" is the sum.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed.queries.plan import step_epsilon
        >>> [round(step_epsilon(30, epsilon=1.0, delta=1e-6, composition=c), 4) for c in ("pure", "simple", "zcdp")]
        [0.0167, 0.0123, 0.036]
    """
    R, target = integer("rounds", rounds, low=1), real("epsilon", epsilon, low=1e-90)
    one_of("composition", composition, "certified", "pure", "simple", "advanced", "zcdp", "rdp", "pld")
    if composition == "pure":
        probability("delta", delta)
        return target / (2.0 * R)
    allowed = probability("delta", delta, open=composition != "certified")
    if composition == "simple":
        real("epsilon", target, high=1.0)
        return target / (4.0 * math.sqrt(R * math.log(1.0 / allowed)))
    if composition == "advanced":
        return _root(lambda e: math.sqrt(4.0 * R * math.log(1.0 / allowed)) * e + 2.0 * R * e * math.expm1(e), target)
    if composition == "zcdp":
        return math.sqrt(_largest_rho(target, allowed) / (0.625 * R))
    method = None if composition == "certified" else composition

    def event(e: float) -> PrivacyEvent:
        return compose((BoundedRange(e), R), (Laplace(1.0 / e), R))

    return _largest(event, target, allowed, guess=target / (2.0 * R), method=method)


@frozen
class _ByMethod(EpsilonDelta):
    """The target (ε, δ) by one method of the accountant; None for the certified bound."""

    method: str | None = None

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        return EpsilonDelta.excess(self, event, method=self.method or method)


def _largest(
    event: Callable[[float], PrivacyEvent], epsilon: float, delta: float, *, guess: float, method: str | None = None
) -> float:
    """Returns the largest budget at which an event meets the target, to six digits, or up to rounding for δ = 0."""
    target = _ByMethod(epsilon, delta, method)
    if delta > 0.0:
        return calibrate(event, target, guess=guess).value
    found, less = guess, 2.0**-50
    while target.excess(event(found)) > 0.0:
        found, less = guess * (1.0 - less), 2.0 * less
    return found


def _root(cost: Callable[[float], float], target: float) -> float:
    """Returns the largest argument at which an increasing cost does not exceed the target, up to rounding."""
    found = float(optimize.brentq(lambda e: cost(e) - target, 0.0, 1.0 + target, xtol=1e-300, rtol=1e-14))
    while cost(found) > target:
        # Any small step will do: the loop ends when the cost itself meets the target.
        found *= 1.0 - 2.0**-40
    return found


def _largest_rho(epsilon: float, delta: float) -> float:
    """Returns the largest ρ that is (ε, δ)-DP at the best order (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    orders = 1.0 + np.geomspace(1e-3, 1e5, 4000)
    spare = epsilon - np.log1p(-1.0 / orders) + np.log(delta * orders) / (orders - 1.0)
    return float((spare / orders).max())


# --- rounds ----------------------------------------------------------------------------------------------------------


def _measuring(rounds: FloatArray, epsilon: float, delta: float, ratio: float) -> FloatArray:
    """Returns the budget of a measurement under closed forms: pure composition, or zCDP if that allows more."""
    pure = epsilon / (rounds * (1.0 + ratio))
    if delta == 0.0:
        return np.asarray(pure)
    rho = max(0.0, _largest_rho(epsilon, delta))
    return np.maximum(pure, np.sqrt(rho / (rounds * (ratio**2 / 8.0 + 0.5))))


def _best_rounds(
    cells: QueryCells,
    records: int,
    sigma: float,
    budget: Callable[[FloatArray], FloatArray],
    *,
    ratio: float,
    step: str,
    failure: float | None,
    vacuous: bool,
) -> int:
    """Returns the R of least error bound, if R rounds leave ``budget(R)`` for a measurement."""
    K, w = cells.queries, cells.width
    most = _MOST_ROUNDS if failure is not None else K // 4 - 1
    if most < 1 and not vacuous:
        raise InvalidArgumentError(
            "failure", None, f"leaves no room for a round with {K} queries", "give a failure probability"
        )
    R = np.unique(np.rint(np.geomspace(1, max(1, min(most, _MOST_ROUNDS)), _TRIED)))
    tail = np.log(2.0 * R / failure) if failure is not None else math.log(K)
    noise = w * (2.0 * (math.log(K) + tail) / ratio + tail) / (budget(R) * records)
    left = np.array([progress(T, sigma, w, "paper" if step == "paper" else "hoeffding") for T in R + 1.0])
    return int(R[np.argmin(left + noise)])


def _refuse_vacuous(found: SmoothMWEM, failure: float | None) -> None:
    if found.replay or found.output == "last":
        return  # nothing is proved a priori
    bound = found.error_bound(failure=failure).error
    if bound >= found.cells.width:
        raise InvalidDataError(
            "records",
            found.records,
            f"are too few: the error bound is {bound:.3g}, which is vacuous",
            "give more records or budget, a larger gamma, or vacuous=True",
        )
