"""Tests of the event of a last iterate: published figures, exact laws of chains, and what it refuses."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from divergences import hockey_stick
from scipy.special import ndtr

from hockeystick.accounting import (
    Adjacency,
    Contraction,
    Gaussian,
    GaussianDP,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    last_iterate_mu,
)
from hockeystick.accounting.events.iterates import published_last
from hockeystick.accounting.events.iterates.sampled_window import _DELTA, worst_distance

last_iterate: Any = published_last.last_iterate  # whose events have fields of their own kinds

# Bok, Su & Altschuler 2024, table of noisy cyclic gradient descent: s/σ = 2/3, 40 batches.
CYCLIC = [
    (0.9999, 50, 0.992491, 4.3392), (0.9999, 100, 1.235339, 5.6013), (0.9999, 200, 1.592974, 7.5790),
    (0.9998, 50, 0.988859, 4.3208), (0.9998, 100, 1.217454, 5.5061), (0.9998, 200, 1.506124, 7.0859),
]  # fmt: skip


@pytest.mark.parametrize(("c", "epochs", "mu", "eps"), CYCLIC)
def test_published_figures_of_cyclic_batches(c, epochs, mu, eps):
    event = last_iterate(Gaussian(1.5), 40 * epochs, contraction=c, batches=40)
    assert 1 / event.noise_multiplier == pytest.approx(mu, abs=1e-6)
    assert epsilon(event, 1e-5).upper == pytest.approx(eps, abs=1e-4)


@pytest.mark.parametrize(("unread", "mu"), [(39, 0.742667), (20, 0.749477), (1, 0.873381)])
def test_earlier_batches_cost_less(unread, mu):
    event = last_iterate(Gaussian(1.5), 2000, contraction=0.9999, batches=40, unread=unread)
    assert 1 / event.noise_multiplier == pytest.approx(mu, abs=1e-6)


@pytest.mark.parametrize(("t", "mu"), [(10, 0.312866014234), (160, 0.624329486003)])
def test_published_figures_of_full_batches(t, mu):
    event = last_iterate(Gaussian(10.0), t, contraction=Contraction.proved(0.95))
    assert 1 / event.noise_multiplier == pytest.approx(mu, abs=1e-12)


@pytest.mark.parametrize("c", [0.3, 0.9, 1.0, 1.1])
@pytest.mark.parametrize(("t", "batches", "unread"), [(12, 1, 0), (12, 3, 0), (13, 3, 2), (7, 7, 4), (5, 4, 1)])
@pytest.mark.parametrize("diameter", [math.inf, 2.0])
def test_short_cuts_agree_with_the_schedule_step_by_step(c, t, batches, unread, diameter):
    moves = np.zeros(t)
    moves[t - 1 - unread :: -batches] = 1.0
    event = last_iterate(Gaussian(2.0), t, contraction=c, batches=batches, unread=unread, diameter=diameter)
    mu = event.mu if isinstance(event, GaussianDP) else 1 / event.noise_multiplier
    assert mu == pytest.approx(last_iterate_mu(moves, c, 2.0, diameter=diameter), rel=1e-10)
    assert mu >= last_iterate_mu(moves, c, 2.0, diameter=diameter) * (1 - 1e-11)


@pytest.mark.parametrize("c", [0.9, 1.0, 1.05])
def test_the_last_batch_is_the_worst_and_all_iterates_are_never_cheaper(c):
    costs = [1 / last_iterate(Gaussian(1.0), 30, contraction=c, batches=6, unread=r).noise_multiplier for r in range(6)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] <= math.sqrt(5) * (1 + 1e-9)


def test_endless_training_is_possible_where_steps_contract_or_the_domain_is_bounded():
    event = last_iterate(Gaussian(1.0), 10**12, contraction=0.5)
    assert 1 / event.noise_multiplier == pytest.approx(math.sqrt(3.0), rel=1e-12)
    cyclic = last_iterate(Gaussian(1.0), 10**6, contraction=0.9, batches=5)
    assert 1 / cyclic.noise_multiplier == pytest.approx(
        1 / last_iterate(Gaussian(1.0), 10**4, contraction=0.9, batches=5).noise_multiplier, rel=1e-9
    )
    with pytest.raises(InvalidArgumentError, match="steps"):
        last_iterate(Gaussian(1.0), 10**6, contraction=1.001)


def test_a_group_is_charged_for_its_size():
    assert last_iterate(Gaussian(2.0), 100, contraction=1.0).at(3).noise_multiplier <= 2.0 / 10 / 3
    bounded = last_iterate(Gaussian(2.0), 100, contraction=1.0, diameter=4.0)
    assert bounded.at(2) == GaussianDP(2 * bounded.mu) and bounded.at(0.5).mu >= bounded.mu


# Poisson samples ------------------------------------------------------------------------------------------------------


def quadratic(t, q, s, c):
    """(centres, weights) of X_t with the record, in deviations of X_t without it, N(0, 1): all 2^t samples."""
    spread = math.sqrt(sum(c ** (2 * j) for j in range(t)))
    rows = [(sum(c**j * s for j in range(t) if b[j]) / spread, math.prod(q if x else 1 - q for x in b))
            for b in itertools.product((0, 1), repeat=t)]  # fmt: skip
    return np.array(rows).T


def mixture_delta(law, eps):
    """The larger hockey stick of a mixture with centres ≥ 0 and N(0, 1), attained by a half-line."""
    (centres, weights), found = law, []
    for sign in (1, -1):
        low, high = -40.0, 40.0
        for _ in range(100):
            y = (low + high) / 2
            above = math.log(np.sum(weights * np.exp(centres * y - centres**2 / 2))) > sign * eps
            low, high = (low, y) if above else (y, high)
        p, q = float(weights @ ndtr(centres - high)), ndtr(-high)
        found.append(p - math.exp(eps) * q if sign == 1 else (1 - q) - math.exp(eps) * (1 - p))
    return max(found)


@pytest.mark.statistical
def test_samples_of_a_quadratic_are_within_the_bound_and_cheaper_than_all_iterates():
    t, q, s, c = 10, 0.1, 1.0, 0.4
    step = PoissonSampled(q, Gaussian(1 / s))
    event, everything = last_iterate(step, t, contraction=c), compose((step, t))
    for eps in (0.1, 0.5, 1.5):
        assert mixture_delta(quadratic(t, q, s, c), eps) <= delta(event, eps).upper
    assert epsilon(event, 1e-5).upper < 0.9 * epsilon(everything, 1e-5).upper


@pytest.mark.statistical
def test_samples_of_a_projected_bent_chain_are_within_the_bound():
    """Exact on a grid of [−D/2, D/2]: maps of slope ±c and 0, and a record whose pull changes sign."""
    t, q, s, c, diameter, cells = 4, 0.5, 1.0, 0.6, 1.0, 301
    x = np.linspace(-diameter / 2, diameter / 2, cells)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    bent = c * np.where(x < 0.1, np.abs(x), 0.1)
    pull = np.where(x > -0.2, s, -s)
    without = np.diff(ndtr(edges[None, :] - bent[:, None]), axis=1)
    pulled = np.diff(ndtr(edges[None, :] - (bent + pull)[:, None]), axis=1)
    p = q0 = np.eye(cells)[cells // 2]
    for _ in range(t):
        p, q0 = p @ ((1 - q) * without + q * pulled), q0 @ without
    event = last_iterate(PoissonSampled(q, Gaussian(1 / s)), t, contraction=c, diameter=diameter / s)
    for eps in (0.1, 0.7):
        assert max(hockey_stick(p, q0, eps), hockey_stick(q0, p, eps)) <= delta(event, eps).upper


SAMPLED = [  # t, q, s/σ, c, D/s, ε at 1e-5 of the prototype, of a quadratic
    pytest.param(50, 0.1, 0.5, 0.9, math.inf, 1.5442, 0.9696, marks=pytest.mark.deep),
    (400, 0.05, 0.5, 0.98, math.inf, 1.8458, 0.9987),
    pytest.param(100_000, 0.01, 0.5, 1.0, 10.0, 1.2429, 0.0, marks=pytest.mark.deep),
    (100_000, 0.01, 0.5, 0.999, math.inf, 1.9303, 0.0),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("t", "q", "s", "c", "diameter", "known", "exact"), SAMPLED)
def test_windows_are_no_worse_than_a_search_by_hand(t, q, s, c, diameter, known, exact):
    found = epsilon(last_iterate(PoissonSampled(q, Gaussian(1 / s)), t, contraction=c, diameter=diameter), _DELTA).upper
    assert exact < found <= known


def test_shifts_use_up_the_distance():
    """Σ c^{n−k}·a_k = c^n·z for the chosen window, from the event alone: the condition of the proof."""
    t, q, s, c = 60, 0.2, 0.5, 0.9
    event = last_iterate(PoissonSampled(q, Gaussian(1 / s)), t, contraction=c)
    shifts = sorted((a for part, count in event.parts for a in [part.sensitivities[0]] * count))  # growing, as weights
    n = len(shifts)
    absorbed = sum(c ** (n - k) * a for k, a in enumerate(shifts, 1))
    apart = c**n * s * (1 - c ** (t - n)) / (1 - c)
    assert 0 < n < t and absorbed >= apart and absorbed == pytest.approx(apart, rel=1e-9)
    assert all(part.sensitivities[1] == pytest.approx(part.sensitivities[0] + s) for part, _ in event.parts)


def test_without_contraction_or_domain_all_iterates_are_charged():
    step = PoissonSampled(0.2, Gaussian(2.0))
    assert last_iterate(step, 50, contraction=1.2) == compose((step, 50))
    assert last_iterate(PoissonSampled(0.0, Gaussian(2.0)), 50, contraction=0.5) == compose(
        (PoissonSampled(0.0, Gaussian(2.0)), 50)
    )
    assert last_iterate(PoissonSampled(1.0, Gaussian(2.0)), 50, contraction=0.5) == last_iterate(
        Gaussian(2.0), 50, contraction=0.5
    )
    assert worst_distance(2.0, 2000) == math.inf


def test_samples_have_no_rule_for_groups_and_replacements():
    event = last_iterate(PoissonSampled(0.2, Gaussian(2.0)), 60, contraction=0.9)
    with pytest.raises(UnsupportedEventError):
        event.at(2)
    with pytest.raises(UnsupportedEventError):
        event.replaced(1, 1)
    assert not event.accepts(Adjacency.REPLACE_ONE)


@pytest.mark.parametrize("step", [Laplace(1.0), PoissonSampled(0.1, Laplace(1.0)),
                                  PoissonSampled(0.1, Gaussian(1.0), "removal")])  # fmt: skip
def test_other_noise_is_refused(step):
    with pytest.raises(UnsupportedEventError, match="last iterate"):
        last_iterate(step, 10, contraction=1.0)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batches": 0}, {"batches": 11}, {"unread": 1}, {"diameter": 0.0},
                                   {"contraction": -1.0}])  # fmt: skip
def test_bad_arguments_are_refused(wrong):
    given = {"steps": 10, "contraction": 1.0} | wrong
    with pytest.raises(InvalidArgumentError):
        last_iterate(Gaussian(1.0), **given)


def test_samples_do_not_take_turns():
    with pytest.raises(InvalidArgumentError, match="batches"):
        last_iterate(PoissonSampled(0.1, Gaussian(1.0)), 10, contraction=1.0, batches=2)
