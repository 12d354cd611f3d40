"""Tests of sampled matrix mechanisms: laws of steps by enumeration, ratios by Monte Carlo, and trees of jax_privacy."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest

from hockeystick.accounting import (
    NO_EVENT,
    Adjacency,
    Gaussian,
    InvalidArgumentError,
    PoissonSampled,
    RandomAllocation,
    RecordByRecord,
    banded_matrix_mechanism,
    chain,
    compose,
    delta,
    epsilon,
    from_dp_event,
    min_separated_matrix_mechanism,
    retention,
)
from hockeystick.accounting.events.sampling import sampled_matrices


class TestGroupsInTurn:
    def test_event_is_that_of_jax_privacy(self):
        """jax_privacy.accounting.amplified_bandmf_event(2.0, 30, num_bands=4, sampling_prob=0.1), written out."""
        sample = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
        theirs = from_dp_event(
            dp_accounting.SelfComposedDpEvent(sample, 8), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        )
        ours = banded_matrix_mechanism(30, bands=4, noise_multiplier=2.0, sampling_rate=0.1)
        assert ours == RecordByRecord(theirs)
        assert epsilon(ours, 1e-6) == epsilon(theirs, 1e-6)
        accountant = dp_accounting.pld.PLDAccountant()
        accountant.compose(dp_accounting.SelfComposedDpEvent(sample, 8))
        assert epsilon(ours, 1e-6).upper == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)

    def test_groups_with_fewer_steps_are_the_worst_for_a_fixed_number_of_participations(self):
        """Steps 0, 2 and 1: the second group has one step, which its records certainly take."""
        event = banded_matrix_mechanism(3, bands=1, groups=2, noise_multiplier=1.0, participations=1)
        assert event == RecordByRecord(RandomAllocation(1, 1, Gaussian(1.0)))
        assert epsilon(event, 1e-5).upper == pytest.approx(4.3772, abs=1e-4)
        assert epsilon(RandomAllocation(2, 1, Gaussian(1.0)), 1e-5).upper == pytest.approx(3.697, abs=1e-3)

    def test_groups_of_records_are_chains(self):
        """Two records may be in groups whose steps share rows: the rule of Poisson samples would be too small."""
        event = banded_matrix_mechanism(40, bands=4, noise_multiplier=2.0, sampling_rate=0.1)
        assert event.at(2) == chain(event, 2)
        both = compose((PoissonSampled(0.1, Gaussian(2.0)).at(2), 10))
        assert epsilon(event.at(2), 1e-6).upper > epsilon(both, 1e-6).upper
        assert not event.accepts(Adjacency.REPLACE_ONE)

    def test_neighbouring_groups_cost_more_than_one(self):
        """q = 1, C = [[1, 0], [1, 1]]: two records of one group move C·x by √8, of two groups by √5."""
        event = banded_matrix_mechanism(2, bands=2, noise_multiplier=3.0, sampling_rate=1.0)
        apart = Gaussian(3.0).at(math.sqrt(5.0) / math.sqrt(2.0))
        together = Gaussian(3.0).at(2.0)
        for other in (apart, together):
            assert epsilon(event.at(2), 1e-6).upper >= epsilon(other, 1e-6).upper * (1 - 1e-4)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"groups": 3}, "share rows"),
            ({"participations": 2}, "exactly one"),
            ({"sampling_rate": None}, "exactly one"),
            ({"sampling_rate": None, "participations": 11}, "smallest group"),
            ({"sampling_rate": 1.5}, "sampling_rate|probability"),
            ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ],
    )
    def test_bad_arguments_are_refused(self, change, message):
        given = {"bands": 4, "noise_multiplier": 2.0, "sampling_rate": 0.1} | change
        with pytest.raises(InvalidArgumentError, match=message):
            banded_matrix_mechanism(40, **given)


def law_of_steps(steps, b, p, warm):
    """The law of the set of a record's steps, by the definition of the sampler."""
    waits = {w: p / (1 + (b - 1) * p) for w in range(1, b)} if warm else {}
    waits[0] = 1.0 - sum(waits.values())
    found: dict[tuple[int, ...], float] = {}
    for bits in itertools.product((0, 1), repeat=steps):
        for wait, weight in waits.items():
            probability, left = weight, wait
            for bit in bits:
                if left:
                    probability *= 0.0 if bit else 1.0
                    left -= 1
                else:
                    probability *= p if bit else 1 - p
                    left = b - 1 if bit else 0
            found[bits] = found.get(bits, 0.0) + probability
    return found


def renewal_law(steps, b, p, q, warm):
    """The law of the set of steps of the process with gaps f = (p/q)·z^b·h; the coefficients of h, too."""
    a = (1 - q) * p / q
    h = np.zeros(steps + 1)
    for n in range(steps + 1):
        h[n] = (1.0 if n == 0 else (1 - p) * h[n - 1]) - (a * h[n - b] if n >= b else 0.0)
    gap = np.zeros(steps + 1)
    gap[b:] = p / q * h[: max(0, steps + 1 - b)]
    first = p / q * h
    if warm:
        mean = q * (b - 1 + 1 / p)
        first = (1 - np.cumsum(gap)) / mean
    found = {}
    for bits in itertools.product((0, 1), repeat=steps):
        places = [i for i, bit in enumerate(bits) if bit]
        if not places:
            found[bits] = 1 - first[:steps].sum()
            continue
        probability = first[places[0]]
        for i, j in itertools.pairwise(places):
            probability *= gap[j - i]
        found[bits] = probability * (1 - gap[: steps - places[-1]].sum())
    return found, h


class TestSeparatedSamples:
    @pytest.mark.parametrize(("b", "p"), [(1, 0.3), (2, 0.1), (2, 0.6), (3, 0.05), (4, 0.3)])
    @pytest.mark.parametrize("warm", [False, True])
    def test_steps_are_a_poisson_sample_of_a_renewal_process(self, b, p, warm):
        steps, q = 7, retention(p, b)
        kept, h = renewal_law(steps, b, p, q, warm)
        assert h.min() >= 0.0
        assert min(kept.values()) >= -1e-15
        assert sum(kept.values()) == pytest.approx(1.0, abs=1e-12)
        thinned = dict.fromkeys(kept, 0.0)
        for bits, probability in kept.items():
            for left in itertools.product(*((0, 1) if bit else (0,) for bit in bits)):
                thinned[left] += probability * q ** sum(left) * (1 - q) ** (sum(bits) - sum(left))
        exact = law_of_steps(steps, b, p, warm)
        assert all(thinned[bits] == pytest.approx(exact[bits], abs=1e-12) for bits in exact)
        # the numbers of steps that are charged are exceeded no more often than claimed
        for tail in (0.3, 0.01, 1e-4):
            most = sampled_matrices._count_below(steps, b, p, q, warm, tail)
            assert sum(value for bits, value in kept.items() if sum(bits) > most) <= tail

    @pytest.mark.parametrize(("b", "p"), [(2, 0.1), (5, 0.01), (16, 0.002), (3, 0.5)])
    def test_a_smaller_rate_has_no_such_process(self, b, p):
        """The retention is the least one: 1 % less, and a coefficient of h is negative for long enough runs."""
        q = retention(p, b)
        assert renewal_coefficients(4000, b, p, q).min() >= 0.0
        assert renewal_coefficients(4000, b, p, 0.99 * q).min() < 0.0

    def test_no_separation_is_poisson_sampling(self):
        event = min_separated_matrix_mechanism(10, separation=1, sampling_rate=0.2, noise_multiplier=1.0)
        assert event == banded_matrix_mechanism(10, bands=1, noise_multiplier=1.0, sampling_rate=0.2)
        none = min_separated_matrix_mechanism(10, separation=3, sampling_rate=0.0, noise_multiplier=1.0)
        assert none == NO_EVENT

    @pytest.mark.parametrize("p", [0.01, 0.3, 1.0])
    def test_it_costs_no_more_than_all_accesses(self, p):
        event = min_separated_matrix_mechanism(30, separation=4, sampling_rate=p, noise_multiplier=4.0)
        every = compose((Gaussian(4.0), 8))
        for target in (1e-3, 1e-8):
            assert epsilon(event, target).upper <= epsilon(every, target).upper * (1 + 1e-3)

    def test_more_bands_than_the_separation_are_refused(self):
        with pytest.raises(InvalidArgumentError, match="share rows"):
            min_separated_matrix_mechanism(10, separation=3, sampling_rate=0.1, noise_multiplier=1.0, bands=4)


def renewal_coefficients(steps, b, p, q):
    """Coefficients of h, each relative to the largest possible one, so that they do not underflow."""
    a, scale = (1 - q) * p / q, (1 - p) * (b - 1) / b
    h = [1.0]
    for n in range(1, steps):
        h.append((1 - p) / scale * h[-1] - (a / scale**b * h[n - b] if n >= b else 0.0))
        if h[-1] < 0.0:
            break
    return np.array(h)


def ratios(coefficients, steps, b, p, sigma, runs, rng):
    """dP/dQ of noisy C·x under P: contributions of 1 at b-min-separated steps, warm start; the filter has b bands."""
    c = np.array(coefficients)
    y = rng.normal(scale=sigma, size=(runs, steps + b))
    left = np.where(rng.random(runs) < (b - 1) * p / (1 + (b - 1) * p), rng.integers(1, max(b, 2), size=runs), 0)
    for t in range(steps):
        now = (left == 0) & (rng.random(runs) < p)
        left = np.where(now, b - 1, np.maximum(left - 1, 0))
        for j, value in enumerate(c[: steps - t]):
            y[now, t + j] += value
    # law[w]: the part of the ratio of those who may join again after w steps
    stationary = p / (1 + (b - 1) * p)
    law = np.full((b, runs), stationary)
    law[0] = 1 - (b - 1) * stationary
    for t in range(steps):
        column = c[: steps - t]
        log_ratio = (y[:, t : t + len(column)] @ column - column @ column / 2) / sigma**2
        joins = p * law[0] * np.exp(log_ratio)
        stay = (1 - p) * law[0]
        law[:-1] = law[1:]
        law[-1] = 0.0
        law[0] += stay
        law[b - 1] += joins
    return law.sum(axis=0)


@pytest.mark.statistical
@pytest.mark.parametrize(("p", "sigma"), [(0.2, 3.0), (0.01, 1.0), pytest.param(0.05, 2.0, marks=pytest.mark.deep)])
def test_certified_delta_is_above_the_monte_carlo_ratio(p, sigma):
    """E_P(1 − c/M)₊ is in [0, 1]: by Hoeffding it is within √(ln(1e6)/2n) of the mean of n runs, but once in 1e6."""
    steps, b, runs = 24, 4, 40_000
    filter_ = np.array([1.0, 0.5, 0.375, 0.3125])
    filter_ /= np.linalg.norm(filter_)
    m = ratios(filter_, steps, b, p, sigma, runs, np.random.default_rng(5))
    event = min_separated_matrix_mechanism(steps, separation=b, sampling_rate=p, noise_multiplier=sigma)
    for target in (0.1, 0.5, 1.0):
        mean = float(np.maximum(0.0, 1 - math.exp(target) / m).mean())
        assert mean - math.sqrt(math.log(1e6) / (2 * runs)) <= delta(event, target).upper
    # the twin: at half the noise the same check fails
    half = min_separated_matrix_mechanism(steps, separation=b, sampling_rate=p, noise_multiplier=4 * sigma)
    wide = ratios(filter_, steps, b, p, sigma / 2, runs, np.random.default_rng(6))
    mean = float(np.maximum(0.0, 1 - math.exp(0.1) / wide).mean())
    assert mean - math.sqrt(math.log(1e6) / (2 * runs)) > delta(half, 0.1).upper


def test_the_monte_carlo_ratio_has_mean_one_under_the_other_law():
    """With p = 1 and one band the ratio is that of the fixed bin: log M is a known function of the sums."""
    m = ratios([1.0], 4, 2, 1.0, 5.0, 20_000, np.random.default_rng(1))
    assert abs(float(np.log(m).mean())) < 0.1
    assert float((1.0 / m).mean()) == pytest.approx(1.0, abs=6 * float(np.std(1.0 / m)) / math.sqrt(20_000))
