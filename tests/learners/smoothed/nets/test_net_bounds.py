"""Bounds of the subsampled net: the specification's example, the domain reduction as corrected, smoothness of pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.nets.net_bounds import (
    choice_error,
    domain_size,
    labelled_smoothness,
    log_growth,
    log_multisets,
    net_bound,
    net_gap,
    plan_net,
    sample_deviation,
    shortfall,
)
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet

EXAMPLE: dict[str, Any] = {"vc_dimension": 1, "sigma": 0.1, "records": 10_000, "epsilon": 1.0, "failure": 0.1}


def test_the_example_of_the_specification() -> None:
    """n = 10^4, epsilon = 1, sigma = eta = 0.1, k = 738, m = 20: about .05 + .025 + .033."""
    bound = net_bound(**EXAMPLE, accepted=738, size=20, thresholds=True)
    assert bound.points == 29_520
    assert log_multisets(bound.points, 20) == pytest.approx(math.log(math.comb(29_539, 20)), rel=1e-9)
    assert (bound.domain, bound.net, bound.choice) == pytest.approx((0.04999, 0.025, 0.03330), abs=1e-5)
    assert bound.total == pytest.approx(bound.chi + bound.domain + bound.net + bound.choice)
    wide = net_bound(**EXAMPLE, accepted=738, size=20, thresholds=True, width=2.0)
    assert wide.total == pytest.approx(2.0 * bound.total)


@pytest.mark.statistical
def test_the_plan_is_the_best_of_its_grid_and_falls_with_n() -> None:
    plans = [plan_net(**(EXAMPLE | {"records": n}), thresholds=True) for n in (10_000, 10**5, 10**6)]
    assert plans[0].total < net_bound(**EXAMPLE, accepted=738, size=20, thresholds=True).total
    assert plans[0].total > plans[1].total > plans[2].total
    with pytest.raises(InvalidArgumentError, match="too few"):
        plan_net(**(EXAMPLE | {"records": 20}), thresholds=True)


@pytest.mark.parametrize("sigma", [1.0, 0.3, 0.1, 1e-3])
@pytest.mark.parametrize("accepted", [1, 2, 8, 64, 738])
@pytest.mark.every(3)
def test_enough_points_are_accepted(accepted: int, sigma: float) -> None:
    """Lemma G.3 as corrected: Pr[Bin(M, sigma) < k] <= e^(-9 k/8), by the exact binomial."""
    chance = stats.binom.cdf(accepted - 1, domain_size(accepted, sigma), sigma)
    assert chance <= shortfall(accepted)
    # The mean number of points, without the factor 4, is no sub-domain.
    assert sigma == 1.0 or stats.binom.cdf(accepted - 1, math.ceil(accepted / sigma), sigma) > 0.2


def test_the_printed_tail_is_false() -> None:
    """k = 1, sigma = 0.1: the chance is 0.0148 and not e^(-10), the mean number of points being 10."""
    chance = stats.binom.cdf(0, domain_size(1, 0.1), 0.1)
    assert chance == pytest.approx(0.0148, abs=1e-4) and chance > 300 * math.exp(-10)


@pytest.mark.statistical
def test_accepted_points_imitate_the_law() -> None:
    """Domain reduction end to end, for the uniform law on a window: it fails no more often than promised.

    Each public point stands for a draw of the law of density p with chance sigma p. At most 0.05 + e^(-72) of 200
    trials may fail; false alarm 1e-6. The violation: a quarter of the points.
    """
    k, sigma, eta, trials = 64, 0.1, 0.1, 200
    gamma = sample_deviation(1, k, eta / 2.0, thresholds=True)

    def failures(points: int, seed: int) -> int:
        rng = np.random.default_rng(seed)
        x = rng.random((trials, points))
        density = np.where((x >= 0.4) & (x < 0.5), 1.0 / sigma, 0.0)
        failed = 0
        for row, accepted in zip(x, rng.random(x.shape) < sigma * density, strict=True):
            drawn = np.sort(row[accepted][:k])
            failed += len(drawn) < k or stats.kstest((drawn - 0.4) / 0.1, "uniform").statistic > gamma
        return failed

    limit = stats.binom.isf(1e-6, trials, eta / 2.0 + shortfall(k))
    assert failures(domain_size(k, sigma), 1) <= limit < failures(domain_size(k, sigma) // 4, 2)


def smooth_errors(data: np.ndarray[Any, Any], seed: int) -> float:
    """The error of one net of the example's size."""
    rng = np.random.default_rng(seed)
    net = SubsampledNet.draw(
        Thresholds(), UniformCube(1), rng, sigma=0.1, accepted=738, size=20, epsilon=1.0, records=len(data)
    )
    return float(net.largest_error(net.simulate(data, rng, 1), data)[0])


@pytest.mark.statistical
def test_measured_errors_stay_below_the_bound_for_smooth_data_and_only_for_these() -> None:
    """Independent data on a window of width sigma, chi by Dvoretzky, Kiefer, Wolfowitz & Massart at 0.01.

    A trial may fail with probability 0.11; that more than 8 of 10 do is a false alarm of less than 1e-6. Data at one
    point are not smooth: no point of V is as good, and a threshold in between tells.
    """
    chi = math.sqrt(math.log(2.0 / 0.01) / (2.0 * 10_000))
    bound = net_bound(**EXAMPLE, accepted=738, size=20, thresholds=True, chi=chi).total
    assert stats.binom.sf(8, 10, 0.11) < 1e-6
    failed = sum(
        smooth_errors(0.4 + 0.1 * np.random.default_rng(seed).random(10_000), 100 + seed) > bound for seed in range(10)
    )
    assert failed <= 8
    assert smooth_errors(np.full(10_000, math.pi / 10.0), 7) > 0.45 > bound


def test_bounds_of_classes_in_general() -> None:
    assert log_growth(1, 10) == pytest.approx(math.log(11)) and log_growth(3, 2) == pytest.approx(math.log(4))
    assert (
        sample_deviation(2, 1000, 0.05)
        > sample_deviation(1, 1000, 0.05)
        > sample_deviation(1, 1000, 0.05, thresholds=True)
    )
    assert net_gap(1, 20, thresholds=True) == 0.025 and net_gap(1, 1) == 1.0 and net_gap(1, 10**5) < 0.05
    assert choice_error(log_candidates=5.0, records=100, epsilon=1.0, failure=math.exp(-1)) == pytest.approx(0.12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: labelled_smoothness(0.0),
        lambda: domain_size(0, 0.5),
        lambda: domain_size(1, 1.5),
        lambda: sample_deviation(1, 10, 0.0),
        lambda: sample_deviation(1, 10, 0.1, thresholds=1),  # type: ignore[arg-type]
        lambda: net_gap(True, 10),
        lambda: choice_error(log_candidates=math.nan, records=1, epsilon=1.0, failure=0.1),
        lambda: net_bound(**(EXAMPLE | {"epsilon": -1.0}), accepted=1, size=1),
        lambda: net_bound(**EXAMPLE, accepted=1, size=1, chi=-0.1),
    ],
)
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
