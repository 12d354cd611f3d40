"""Regret bounds against smooth adversaries: against numerical infima, exact walks and the stated reference numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures import regret_bounds as bounds


@given(st.floats(0.0, 500.0), st.floats(0.0, 1e5))
def test_the_closed_form_is_the_infimum(log_sets: float, mean: float) -> None:
    found = bounds.hits_bound(log_sets, mean)
    assert found >= mean * (1 - 1e-9)
    if 0.0 < math.sqrt(log_sets) <= mean:
        assert found <= bounds.printed_hits_bound(log_sets, mean) * (1 + 1e-9)
    if min(log_sets, mean) > 1e-6:

        def value(log_s: float) -> float:
            s = math.exp(log_s)
            return (log_sets + mean * math.expm1(s)) / s

        best = optimize.minimize_scalar(value, bounds=(-18.0, 6.0), method="bounded", options={"xatol": 1e-9}).fun
        assert found <= best * (1 + 1e-7)
        # Any s gives a bound, so that only a smaller one could be wrong; it is attained at no s.
        assert found >= best * (1 - 1e-7)


def test_one_set_is_hit_its_mean_and_the_printed_form_refuses() -> None:
    assert bounds.hits_bound(0.0, 3.0) == 3.0
    assert bounds.hits_bound(5.0, 0.0) == 0.0
    for log_sets, mean in ((0.0, 3.0), (4.0, 1.9)):
        with pytest.raises(InvalidArgumentError):
            bounds.printed_hits_bound(log_sets, mean)


@pytest.mark.parametrize(
    ("rounds", "sigma", "sharp", "printed"), [(400, 0.1, 36.2, 86), (1600, 0.1, 63.8, 178), (1600, 0.5, 60.1, 164)]
)
def test_reference_values_of_lemma_3_2(rounds: int, sigma: float, sharp: float, printed: float) -> None:
    cells = round(math.sqrt(rounds) / sigma)  # of mass 1 / cells
    mean = rounds / (sigma * cells)
    assert bounds.hits_bound(math.log(cells), mean) == pytest.approx(sharp, abs=0.06)
    assert bounds.printed_hits_bound(math.log(cells), mean) == pytest.approx(printed, abs=0.6)


def simple_cover_bound(rounds: int, log_brackets: float) -> float:
    """sqrt(2 T ln N) + sqrt(T): O1 at gamma = beta = sigma / (4 sqrt(T)), for ln K <= ln N and T >= 8 ln N."""
    return math.sqrt(2.0 * rounds * log_brackets) + math.sqrt(rounds)


@pytest.mark.parametrize(("sigma", "simple", "floor"), [(1 / 4, 302, 32.0), (1 / 1024, 384, 71.6)])
def test_reference_values_of_thresholds(sigma: float, simple: float, floor: float) -> None:
    rounds, gamma = 4096, sigma / 4 / 64.0
    log_n = math.log(1 / gamma)
    assert simple_cover_bound(rounds, log_n) == pytest.approx(simple, abs=0.6)
    whole = bounds.block_depth(sigma) * (rounds // bounds.block_depth(sigma))
    assert bounds.printed_regret_floor(rounds=whole, sigma=sigma) == pytest.approx(floor, abs=0.1)
    assert bounds.thresholds_regret_floor(rounds=rounds, sigma=sigma) >= floor


@given(st.integers(1, 10**6), st.floats(1e-6, 1.0), st.floats(0.0, 200.0))
def test_the_simple_forms_are_above_the_full_bounds(rounds: int, sigma: float, log_n: float) -> None:
    root = math.sqrt(rounds)
    if rounds >= 8 * log_n:
        full = bounds.cover_regret_bound(
            rounds=rounds, sigma=sigma, gamma=sigma / (4 * root), log_cover=log_n, log_brackets=log_n
        )
        assert full <= simple_cover_bound(rounds, log_n) * (1 + 1e-9)
    if rounds >= log_n:
        full = bounds.brackets_regret_bound(rounds=rounds, sigma=sigma, epsilon=sigma / root, log_brackets=log_n)
        assert full <= (1 + 1 / math.sqrt(2)) * math.sqrt(rounds * log_n) + 2 * root + 1e-6


def test_brackets_of_mass_sigma_ln_n_over_t_cost_e_ln_n() -> None:
    log_n, rounds, sigma = 9.0, 5000, 0.02
    found = bounds.brackets_regret_bound(rounds=rounds, sigma=sigma, epsilon=sigma * log_n / rounds, log_brackets=log_n)
    assert found == pytest.approx(math.sqrt(rounds * log_n / 2) + math.e * log_n)


def test_explicit_theorem_3_1() -> None:
    rounds, sigma, d = 10_000, 0.1, 3
    gamma = sigma / rounds
    stated = math.sqrt(rounds * d * math.log(41 / gamma) / 2) + 2 + 16 * d * math.log(math.e * rounds / d)
    assert bounds.nonadaptive_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=d) == pytest.approx(stated)


def test_coupling_bound_grows_like_the_root_of_t_and_the_log_of_sigma() -> None:
    big, small = (bounds.coupling_regret_bound(rounds=10**8, sigma=s, vc_dimension=2) for s in (0.5, 1e-6))
    assert small < 2.0 * big
    growth = bounds.coupling_regret_bound(rounds=4 * 10**8, sigma=0.1, vc_dimension=2)
    assert growth < 2.2 * bounds.coupling_regret_bound(rounds=10**8, sigma=0.1, vc_dimension=2)
    # Fewer base draws: the chance that none fits takes over.
    few = bounds.coupling_regret_bound(rounds=1000, sigma=0.1, vc_dimension=1, draws=1)
    assert few > 1000**2 * 0.9


@given(st.integers(1, 400), st.floats(1e-4, 1.0))
def test_blocks_fill_the_rounds_and_the_floor_is_the_exact_walk(rounds: int, sigma: float) -> None:
    lengths = bounds.block_lengths(rounds, sigma)
    assert sum(lengths) == rounds and max(lengths) - min(lengths) <= 1
    depth = bounds.block_depth(sigma)
    assert 2.0**-depth >= sigma > 2.0 ** -(depth + 1)
    walk = 0.0
    for n in lengths:
        ends = np.array([abs(2 * k - n) * math.comb(n, k) / 2**n for k in range(n + 1)])
        walk += float(ends.sum()) / 2
    floor = bounds.thresholds_regret_floor(rounds=rounds, sigma=sigma)
    assert floor == pytest.approx(walk, rel=1e-9)
    if depth >= 1 and rounds % depth == 0:
        assert floor >= bounds.printed_regret_floor(rounds=rounds, sigma=sigma) * (1 - 1e-9)


def test_bad_arguments_are_refused() -> None:
    for bad in (
        *(lambda value=value: bounds.block_depth(value) for value in (0.0, 1.5, math.nan, True, -0.1)),
        lambda: bounds.hits_bound(-1.0, 2.0),
        lambda: bounds.printed_regret_floor(rounds=10, sigma=1.0),
        lambda: bounds.hedge_bound(rounds=10, log_size=2.0, learning_rate=0.0),
    ):
        with pytest.raises(InvalidArgumentError):
            bad()
