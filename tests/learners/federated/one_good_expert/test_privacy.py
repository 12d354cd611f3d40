"""Tests of Fed-SVT's guarantee: its totals beside the printed ones, and the exact law of small instances against
both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from hockeystick.accounting import InvalidArgumentError, compose, epsilon
from hockeystick.accounting.events.catalogue import BoundedRange, CumulativeAboveThreshold, OneWay
from hockeystick.learners.federated.one_good_expert import plan
from hockeystick.learners.federated.one_good_expert.exact_law import all_runs, exact_loss, log_window_law
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.one_good_expert.runs import SVTRuns

ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 32.0])


def printed(eps: float, kappa: int, *, delta: float = 0.0, rounds: int = 512) -> FedSVT:
    """The learner with the printed noise and learning rate."""
    eta = eps / (2 * kappa) if delta == 0.0 else eps / math.sqrt(kappa * math.log(1 / delta))
    return FedSVT(
        clients=10,
        rounds=rounds,
        experts=100,
        switches=kappa,
        learning_rate=eta,
        threshold=100.0,
        threshold_scale=4.0 / eps,
        query_scale=8.0 / eps,
    )


# --- totals ----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 20.0), st.integers(1, 200))
def test_the_pure_claim_costs_three_quarters(eps: float, kappa: int) -> None:
    """eps/4 for the threshold and eps/2 for the draws; a learning rate of 3 eps/(4 kappa) would cost eps."""
    made = printed(eps, kappa)
    assert made.guarantee().epsilon(0.0).upper == pytest.approx(0.75 * eps)
    assert evolve(made, learning_rate=0.75 * eps / kappa).guarantee().epsilon(0.0).upper == pytest.approx(eps)
    claim = plan.printed_pure(eps, switches=kappa)
    assert claim.epsilon == eps and claim.delta == 0.0 and claim.applies
    cost = plan.printed_cost(
        0.0, switches=kappa, learning_rate=made.learning_rate, threshold_scale=4 / eps, query_scale=8 / eps
    )
    assert cost.epsilon == pytest.approx(eps)
    assert dict(claim.constants) == {
        "learning_rate": made.learning_rate,
        "threshold_scale": made.threshold_scale,
        "query_scale": made.query_scale,
        "proof": eps,
    }


def split_epsilon(delta: float, *, rate: float, threshold_scale: float, query_scale: float) -> float:
    """A baseline at kappa = 60: the pure cost of the threshold plus the Rényi cost of the draws."""
    threshold = CumulativeAboveThreshold(threshold_scale, query_scale).pure_epsilon()
    return threshold + epsilon(compose((BoundedRange(rate), 60)), delta, method="rdp").upper


@pytest.mark.parametrize(
    ("eps", "delta", "share"),
    [(0.1, 1e-5, 0.72), (0.1, 1e-8, 0.80), (1, 1e-5, 0.82), (1, 1e-8, 0.86), (4, 1e-5, 0.89), (4, 1e-8, 0.90)],
)
def test_the_approximate_claim_in_numbers(eps: float, delta: float, share: float) -> None:
    """Golden numbers at kappa = 60: pure threshold and Renyi draws, in units of eps; both by Renyi is less."""
    made = printed(eps, 60, delta=delta)
    split = split_epsilon(delta, rate=made.learning_rate, threshold_scale=4 / eps, query_scale=8 / eps)
    assert split / eps == pytest.approx(share, abs=0.006)
    certified = made.guarantee().epsilon(delta).upper
    assert 0.66 * eps < certified < split


@pytest.mark.parametrize(("delta", "split", "joint"), [(1e-5, 0.0493, 0.0523), (1e-8, 0.0369, 0.0381)])
def test_largest_learning_rates(delta: float, split: float, joint: float) -> None:
    """Golden numbers at eps = 1, kappa = 60; "joint" is for a two-point bound of the threshold, above the event's."""
    noise = {"threshold_scale": 4.0, "query_scale": 8.0}

    def by_parts(rate: float) -> float:
        return split_epsilon(delta, rate=rate, **noise)

    def two_point(rate: float) -> float:
        up, down = 1 / 4, -1 / 8
        p = math.expm1(-down) / (math.exp(up - down) - 1) * math.exp(up)  # of the loss "up", so that both laws add to 1
        orders = np.arange(2.0, 400.0)
        curve = special.logsumexp([math.log(p) + (orders - 1) * up, math.log1p(-p) + (orders - 1) * down], axis=0) / (
            orders - 1
        )
        curve = curve + 60 * BoundedRange(rate).rdp(orders)
        # Canonne, Kamath & Steinke 2020, Prop. 12
        return float(np.min(curve + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)))

    for cost, rate in ((by_parts, split), (two_point, joint)):
        assert cost(rate - 5e-5) <= 1.0 < cost(rate + 1.05e-4)
    assert evolve(printed(1.0, 60), learning_rate=joint).guarantee().epsilon(delta).upper <= 1.0
    assert evolve(printed(1.0, 60), learning_rate=joint * 1.01).guarantee().epsilon(delta).upper > 1.0
    assert dict(plan.printed_approximate(1.0, delta, switches=60).constants)["learning_rate"] < split


@pytest.mark.statistical
@given(st.floats(0.001, 30.0), st.floats(1e-12, 0.5), st.integers(1, 300))
@settings(max_examples=20, deadline=None)
def test_the_approximate_claim_is_true_by_another_proof(eps: float, delta: float, kappa: int) -> None:
    """The printed proof adds up to about twice eps; the certified epsilon is at most eps if the condition holds."""
    claim = plan.printed_approximate(eps, delta, switches=kappa)
    (condition,) = claim.conditions
    assert condition.limit == pytest.approx(0.3431 * math.log(1 / delta), rel=1e-3)
    proof = dict(claim.constants)["proof"]
    assert proof >= 1.914 * eps
    if eps <= 1.0 and delta <= 1e-3 and kappa >= 20:
        assert proof <= 2.07 * eps
    if condition.holds:
        assert printed(eps, kappa, delta=delta).guarantee().epsilon(delta).upper <= eps


def test_views_cost_the_stated_epsilon() -> None:
    """The view of the plays has the same cost with or without colluding clients; the view of the messages sees the
    data."""
    made = printed(1.0, 23)
    costs = {model: made.guarantee(model).epsilon(1e-6).upper for model in ("output", "client", "central")}
    assert len(set(costs.values())) == 1
    graph = made.graph()
    assert graph.guarantee(view="server").epsilon(0.5).upper == math.inf
    assert graph.guarantee().epsilon(0.5).upper == math.inf
    for refused in ("server", "nobody"):
        with pytest.raises(InvalidArgumentError):
            made.guarantee(refused)
    assert evolve(made, clients=1).graph() == evolve(made, clients=10**6).graph()
    few = evolve(made, rounds=100, period=20)
    assert few.guarantee().epsilon(0.0).upper == pytest.approx(0.25 + 5 / 46)


def test_groups_cost_the_stated_epsilon() -> None:
    """All losses of one round are a group of m: m times the pure cost, of the larger rate where they are not equal."""
    equal = evolve(printed(1.0, 23), threshold_scale=8.0)
    assert equal.guarantee(group=10).epsilon(0.0).upper == pytest.approx(10 * (1 / 8 + 1 / 2))
    assert printed(1.0, 23).guarantee(group=10).epsilon(0.0).upper == pytest.approx(10 * (1 / 4 + 1 / 2))


def test_keeping_the_direction_of_a_record_to_the_end_would_gain_nothing() -> None:
    bound: Any = CumulativeAboveThreshold(4.0, 8.0).bound()
    graph_cost = printed(1.0, 60, delta=1e-6).guarantee().epsilon(1e-6).upper
    parts = (BoundedRange(printed(1.0, 60, delta=1e-6).learning_rate), 60)
    either = max(epsilon(compose(OneWay(bound, way), parts), 1e-6).upper for way in (True, False))
    assert graph_cost == pytest.approx(either, rel=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: plan.printed_pure(0.0, switches=3),
        lambda: plan.printed_pure(1.0, switches=0),
        lambda: plan.printed_approximate(1.0, 0.0, switches=3),
        lambda: plan.printed_approximate(1.0, 1.0, switches=3),
        lambda: plan.printed_approximate(math.nan, 0.1, switches=3),
        lambda: plan.printed_cost(1.0, switches=3, learning_rate=0.1, threshold_scale=1.0, query_scale=1.0),
        lambda: plan.printed_cost(0.1, switches=3, learning_rate=0.1, threshold_scale=math.inf, query_scale=1.0),
        lambda: printed(1.0, 3).worst_case_neighbours(focus="other"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


# --- the exact law ---------------------------------------------------------------------------------------------------


def small(rng: np.random.Generator, **changes: Any) -> FedSVT:
    """A learner with few runs, its noise about as large as its sums."""
    settings: dict[str, Any] = {
        "clients": int(rng.integers(1, 4)),
        "rounds": int(rng.integers(2, 6)),
        "experts": int(rng.integers(2, 4)),
        "switches": int(rng.integers(1, 4)),
        "learning_rate": float(rng.choice([0.05, 0.5, 2.0])),
        "threshold": float(rng.uniform(-1.0, 3.0)),
        "best_loss": float(rng.choice([0.0, 0.3])),
        "threshold_scale": float(rng.choice([0.5, 1.0, 3.0])),
        "query_scale": float(rng.choice([0.5, 1.0, 3.0])),
        "indexing": str(rng.choice(["clean", "paper"])),
    }
    if settings["rounds"] > 3:
        settings["experts"], settings["switches"] = 2, min(2, settings["switches"])
    return FedSVT(**settings | changes)


def neighbours(made: FedSVT, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two streams that differ in one loss of one client."""
    first = rng.choice([0.0, 0.5, 1.0], (made.clients, made.rounds, made.experts))
    second = first.copy()
    i, t = int(rng.integers(made.clients)), int(rng.integers(made.rounds))
    first[i, t], second[i, t] = rng.choice([0.0, 1.0], (2, made.experts))
    return first, second


@pytest.mark.statistical
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_the_law_adds_up_to_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = small(rng)
    losses, _ = neighbours(made, rng)
    every = all_runs(made)
    log_p = made.log_probability(every, losses)
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-9)
    assert len(set(map(bytes, np.concatenate([every.experts, every.above], axis=1)))) == len(log_p)


@pytest.mark.statistical
def test_a_window_by_plain_quadrature() -> None:
    gaps, b1, b2 = np.array([-1.3, 0.2, 0.9]), 0.7, 1.1
    ends, none = log_window_law(gaps, b1, b2)

    def mass(above: int | None) -> float:
        last = 3 if above is None else above

        def integrand(x: float) -> float:
            value = float(stats.laplace.pdf(x, scale=b1))
            for k in range(last):
                value *= float(stats.laplace.cdf(x - gaps[k], scale=b2))
            return value if above is None else value * float(stats.laplace.sf(x - gaps[above], scale=b2))

        cuts = [-40.0, *sorted([0.0, *gaps]), 40.0]
        return sum(float(integrate.quad(integrand, a, b)[0]) for a, b in zip(cuts[:-1], cuts[1:], strict=True))

    np.testing.assert_allclose(np.exp(ends), [mass(k) for k in range(3)], rtol=1e-8)
    assert math.exp(none[-1]) == pytest.approx(mass(None), rel=1e-8)
    np.testing.assert_allclose(np.exp(none), 1.0 - np.cumsum(np.exp(ends)), atol=1e-12)


def excess(law: FedSVT, claim: FedSVT, first: np.ndarray, second: np.ndarray, *, group: int = 1) -> float:
    """Returns the factor by which the exact privacy loss of ``law`` exceeds the certificate of ``claim``, the worst of
    all curves."""
    runs = all_runs(law)
    log_p, log_q = law.log_probability(runs, first), law.log_probability(runs, second)
    event = claim.guarantee(group=group).event
    ratios = [float(np.abs(log_p - log_q).max()) / event.pure_epsilon()]
    for one, other in ((log_p, log_q), (log_q, log_p)):
        moments = special.logsumexp(one + (ORDERS[:, None] - 1) * (one - other), axis=1) / (ORDERS - 1)
        ratios.append(float((moments / event.rdp(ORDERS)).max()))
    return max(ratios)


@pytest.mark.statistical
@pytest.mark.parametrize("instances", [75, pytest.param(170, marks=pytest.mark.deep)])
def test_no_instance_of_many_exceeds_the_certificate(instances: int) -> None:
    """Pure, and the summed Renyi curves at five orders, in both directions.

    A certificate that fails for one instance in five is found with probability 1 - 0.8^75 > 1 - 1e-7; of 170, one that
    fails for one in ten.
    """
    rng, most = np.random.default_rng(2), 0.0
    for _ in range(instances):
        made = small(rng)
        most = max(most, excess(made, made, *neighbours(made, rng)))
    assert 0.3 < most <= 1.0 + 1e-9


@pytest.mark.statistical
def test_no_small_instance_exceeds_the_certificate_of_a_pair() -> None:
    """Two losses of different rounds or clients, each replaced: they may rise and fall in one window."""
    rng, most = np.random.default_rng(5), 0.0
    for i in range(30):
        scales = {"threshold_scale": (1.0, 1.0, 2.0)[i % 3], "query_scale": (1.0, 2.0, 1.0)[i % 3]}
        made = small(rng, clients=2, rounds=4, experts=2, switches=2, **scales)
        first, second = neighbours(made, rng)
        who, t = np.argwhere((first == second).all(axis=2))[0]
        first[who, t], second[who, t] = second[0, 0], 1.0 - second[0, 0]
        most = max(most, excess(made, made, first, second, group=2))
    assert 0.3 < most <= 1.0


@pytest.mark.statistical
def test_no_client_of_a_small_instance_exceeds_its_certificate() -> None:
    """All losses of a client, in all windows at once, from one extreme to another; exactly, in all curves.

    The mutant that charges one loss is exceeded.
    """
    rng, most, mutant = np.random.default_rng(6), 0.0, 0.0
    for i in range(12):
        scales = {"threshold_scale": (1.0, 1.0, 2.0)[i % 3], "query_scale": (1.0, 2.0, 1.0)[i % 3]}
        made = small(rng, clients=1, rounds=3 + i % 2, experts=2, switches=2, period=1, **scales)
        first = rng.integers(0, 2, (1, made.rounds, 2)).astype(float)
        second = 1.0 - first if i % 2 else rng.random(first.shape)
        most = max(most, excess(made, made, first, second, group=made.client_losses))
        mutant = max(mutant, excess(made, made, first, second))
    assert most <= 1.0 + 1e-9 and mutant > 1.5


def hard(**changes: Any) -> tuple[FedSVT, np.ndarray, np.ndarray]:
    """An instance on which each part of the cost is nearly attained: 4 blocks, a threshold that is soon crossed."""
    settings: dict[str, Any] = {
        "clients": 1,
        "rounds": 6,
        "experts": 2,
        "switches": 2,
        "learning_rate": 0.3,
        "threshold": 1.0,
        "threshold_scale": 4.0,
        "query_scale": 4.0,
    }
    made = FedSVT(**settings | changes)
    first = np.zeros((1, 6, 2))
    second = first.copy()
    first[0, 0], second[0, 0] = [1.0, 0.0], [0.0, 1.0]
    first[0, 1:] = second[0, 1:] = 1.0
    return made, first, second


@pytest.mark.statistical
@pytest.mark.parametrize(
    "planted",
    [
        {"threshold_scale": 0.2, "threshold": -10.0},  # the threshold hardly noised
        {"query_scale": 0.2},  # the queries hardly noised
        {"learning_rate": 0.6},  # exp(-eta*score) for exp(-eta*score/2)
        {"switches": 6},  # a budget that is not enforced
        {"threshold_scale": 2.0, "query_scale": 2.0, "learning_rate": 0.6},  # as with losses in [0, 2]
    ],
    ids=str,
)
def test_broken_learners_exceed_the_certificate(planted: dict[str, Any]) -> None:
    claim, first, second = hard()
    mutant = evolve(claim, **planted)
    none, soon, later = np.zeros((3, 1, 6, 2))
    soon[0, 0], later[0, 2] = 1.0, 1.0
    pairs = [(first, second), (none, soon), (none, later)]
    assert all(excess(claim, claim, *pair) <= 1.0 for pair in pairs)
    assert max(excess(mutant, claim, *pair) for pair in pairs) > 1.02


def test_exact_losses_of_worst_cases() -> None:
    """The bracketed exact epsilon of both foci: below the certificate, and the threshold's part nearly attained."""
    made, *_ = hard(rounds=9, switches=1, learning_rate=0.05, threshold=2.0, threshold_scale=2.0, query_scale=2.0)
    foci: tuple[Literal["run", "threshold"], ...] = ("run", "threshold")
    for focus in foci:
        first, second = made.worst_case_neighbours(focus=focus)
        assert np.abs(first - second).max() == 1.0 and (first != second).any(axis=1).sum() == 1
        found = exact_loss(made, first, second)
        for delta in (0.0, 1e-3, 0.1):
            assert found.epsilon(delta)[1] <= made.guarantee().epsilon(delta).upper + 1e-6
    assert found.epsilon(0.0)[0] > 0.8 * 0.5


@pytest.mark.parametrize("focus", ["run", "threshold"])
def test_likelihood_ratios_are_those_of_the_laws(focus: Literal["run", "threshold"]) -> None:
    """They are differences of log-probabilities, and their mean under the first world is a divergence: not negative."""
    made = FedSVT(
        clients=2,
        rounds=40,
        experts=5,
        switches=4,
        period=2,
        learning_rate=0.4,
        threshold=9.0,
        threshold_scale=2.0,
        query_scale=3.0,
    )
    first, second = made.worst_case_neighbours(focus=focus)
    assert first.max() <= 2.0 and first.min() >= 0.0
    runs = made.simulate(first, np.random.default_rng(3), 500)
    ratios = made.log_likelihood_ratio(runs, first, second)
    np.testing.assert_allclose(
        ratios, made.log_probability(runs, first) - made.log_probability(runs, second), atol=1e-9
    )
    assert ratios.mean() > 0.0 and np.abs(ratios).max() <= made.guarantee().epsilon(0.0).upper
    one = SVTRuns(runs.experts[0], runs.above[0])
    assert made.log_likelihood_ratio(one, first, second) == pytest.approx(ratios[:1])


def test_runs_of_another_learner_are_refused() -> None:
    made, first, _ = hard()
    good = made.simulate(first, np.random.default_rng(4), 20)
    moved, many, wrong = good.experts.copy(), np.ones_like(good.above), good.experts.astype(float)
    moved[~good.above[:, 2], 3] = 1 - moved[~good.above[:, 2], 2]
    wrong[0, 0] = 0.5
    for bad in (
        SVTRuns(moved, good.above),
        SVTRuns(good.experts, many),
        SVTRuns(wrong, good.above),
        SVTRuns(good.experts + 2, good.above),
        SVTRuns(good.experts[:, :-1], good.above),
        SVTRuns(good.experts, good.above.astype(int)),
    ):
        with pytest.raises(InvalidArgumentError):
            made.log_probability(bad, first)
    with pytest.raises(InvalidArgumentError):
        all_runs(evolve(made, rounds=5000))
