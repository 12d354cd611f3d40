"""Tests of mechanisms charged for groups: the cost covers all changes by a group, and calibration meets its target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import hockey_stick
from mutant_table import each_third
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import Adjacency, InvalidArgumentError, UnsupportedEventError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import (
    AuditableMechanism,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    LazySwitch,
    RandomizedResponse,
    ReleaseNoise,
    SecureReleaseUnavailableError,
    SimulationNoise,
    check_mechanism,
)
from hockeystick.mechanisms.data.group_privacy import ForGroups
from hockeystick.mechanisms.local.hadamard_response import HadamardResponse
from hockeystick.mechanisms.local.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.local.unary_encoding import UnaryEncoding

FALSE_ALARM = 1e-6

GROUPS = [
    ForGroups(Laplace(6.0, sensitivity=2.0), size=3),
    ForGroups(Gaussian(4.0), size=4),
    ForGroups(ExponentialMechanism(8.0), size=2),
    ForGroups(RandomizedResponse(0.3, categories=3), size=3),
    ForGroups(UnaryEncoding.symmetric(0.5, categories=3), size=2),
    ForGroups(HadamardResponse(0.5, categories=3), size=2),
    ForGroups(OneBitChannel(0.4, low=0.0, high=1.0), size=3),
    ForGroups(LazySwitch.dartboard(0.2, sensitivity=0.05), size=2),
]


@frozen
class Plain:
    """A user's mechanism, with nothing but what a mechanism needs."""

    rate: float = 0.5

    def event(self) -> accounting.PrivacyEvent:
        return accounting.PureDP(self.rate)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        p = -math.expm1(-self.rate)
        return value + rng.geometric(p, runs) - rng.geometric(p, runs)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: type(g.mechanism).__name__)
def test_the_mechanism_satisfies_the_contract(group: ForGroups) -> None:
    protocol: object = group
    assert isinstance(protocol, AuditableMechanism)
    assert group == evolve(group) and hash(group) == hash(evolve(group))
    pair = group.worst_case_neighbours()
    for value in pair:
        check_mechanism(group, value)
    for side, sign in ((0, -1), (1, 1)):
        outputs = group.simulate(pair[side], np.random.default_rng(581), 50_000)
        loss = group.log_likelihood_ratio(outputs, *pair)
        assert np.abs(loss).max() <= group.event().pure_epsilon() * (1 + 1e-9)
        inverse = np.exp(sign * loss)
        assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(50_000)


@pytest.mark.statistical
@pytest.mark.parametrize("group", each_third(GROUPS), ids=lambda g: type(g.mechanism).__name__)
def test_audit_refutes_the_cost_of_one_record_but_not_that_of_the_group(group) -> None:
    whole, one = (Claim.curve(event, 1e-3) for event in (group.event(), group.mechanism.event()))
    for claim, refuted in ((whole, False), (one, True)):
        verdict = audit(group, claim=claim, samples=100_000, rng=582, confidence=1 - 1e-6)
        assert verdict.refuted == refuted, verdict


def test_event_is_that_at_the_distance_and_composes_for_several_groups() -> None:
    assert ForGroups(Laplace(6.0, sensitivity=2.0), size=3).event() == accounting.Laplace(1.0)
    assert ForGroups(Gaussian(4.0), size=4).event() == Gaussian(4.0, sensitivity=4.0).event()
    assert ForGroups(Plain(), size=3).event() == accounting.PureDP(1.5)
    reports = ForGroups(RandomizedResponse(0.3), size=3).event()
    assert reports == accounting.compose((accounting.RandomizedResponse(0.3), 3))
    for group in GROUPS:
        single = ForGroups(group.mechanism, size=1)
        assert single.event() == group.mechanism.event()
        assert ForGroups(group.mechanism, size=2 * group.size).event().pure_epsilon() == pytest.approx(
            group.event().at(2).pure_epsilon()
        )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_cost_is_the_exact_profile_of_groups_of_reports(size) -> None:
    group = ForGroups(RandomizedResponse(0.7, categories=3), size=size)
    one = [np.array([math.exp(0.7) if c == truth else 1.0 for c in range(3)]) for truth in (0, 1)]
    p, q = np.ones(1), np.ones(1)
    for _ in range(size):
        p, q = (np.outer(x, row / row.sum()).ravel() for x, row in zip((p, q), one, strict=True))
    for at in np.linspace(0, 0.8 * size, 6):
        truth = hockey_stick(p, q, at)
        stated = accounting.delta(group.event(), at).upper
        assert truth <= stated + 1e-12 and stated <= truth + 2e-4


def test_values_of_a_group_are_its_size_apart() -> None:
    assert ForGroups(Laplace(1.0, sensitivity=2.0), size=3).worst_case_neighbours() == (0.0, 6.0)
    zeros, ones = ForGroups(RandomizedResponse(1.0), size=3).worst_case_neighbours()
    np.testing.assert_array_equal([zeros, ones], [[0, 0, 0], [1, 1, 1]])
    low, high = ForGroups(OneBitChannel(1.0, low=-1.0, high=2.0), size=2).worst_case_neighbours()
    np.testing.assert_array_equal([low, high], [[-1.0, -1.0], [2.0, 2.0]])


@frozen
class WithPair(Plain):
    def worst_case_neighbours(self) -> tuple[int, int]:
        return 0, 1


def test_queries_that_the_mechanism_cannot_answer_are_refused() -> None:
    assert ForGroups(WithPair(), size=1).worst_case_neighbours() == (0, 1)
    for mechanism in (Plain(), WithPair()):
        group = ForGroups(mechanism, size=2)
        check_mechanism(group, 3)
        with pytest.raises(UnsupportedEventError, match=r"group_neighbours\(size\)"):
            group.worst_case_neighbours()
        with pytest.raises(UnsupportedEventError, match="log_likelihood_ratio"):
            group.log_likelihood_ratio([1], 0, 2)
        with pytest.raises(SecureReleaseUnavailableError, match=r"simulate\("):
            group.release(3)
        audit(group, claim=Claim(1.0, 0.0), neighbours=(0, 2), samples=1000, rng=583)


def test_releases_are_the_mechanisms_own_and_charged_for_the_group() -> None:
    group = ForGroups(Laplace(2.0), size=3)
    assert group.release(5, noise=SimulationNoise(1)) == Laplace(2.0).release(5, noise=SimulationNoise(1))
    drawn = group.release(np.zeros(5_000, dtype=int), noise=ReleaseNoise())
    assert stats.kstest(drawn, stats.laplace(0, 2.0).cdf).pvalue > FALSE_ALARM
    plan = accounting.AccountantGraph().source("people").release("sum", group.event(), reads=["people"])
    ledger = accounting.Ledger(plan)
    group.release(5, ledger=ledger, name="sum", noise=SimulationNoise(1))
    assert ledger.recorded("sum") == 1
    cheap = accounting.AccountantGraph().source("people").release("sum", Laplace(2.0).event(), reads=["people"])
    with pytest.raises(accounting.RefinementError):
        group.release(5, ledger=accounting.Ledger(cheap), name="sum", noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError):
        group.release(math.nan, noise=SimulationNoise(1))


def test_the_graph_has_the_same_cost() -> None:
    plan = accounting.AccountantGraph().source("records").release("sum", Gaussian(4.0).event(), reads=["records"])
    persons = accounting.AccountantGraph().source("people")
    persons = persons.release("sum", ForGroups(Gaussian(4.0), size=4).event(), reads=["people"])
    assert plan.guarantee(group=4).epsilon(1e-6).upper == persons.guarantee().epsilon(1e-6).upper


@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize(
    ("make", "delta"),
    [
        (RandomizedResponse, 0.0),
        (RandomizedResponse, 1e-2),
        (lambda e: Laplace.calibrated(epsilon=e), 0.0),
        (lambda e: Laplace.calibrated(epsilon=e, sensitivity=3.0), 1e-4),
        (lambda e: Gaussian.calibrated(epsilon=e, delta=1e-9), 1e-5),
        (lambda e: UnaryEncoding.optimised(e, categories=4), 0.0),
    ],
)
@pytest.mark.every(4)
def test_calibrated_meets_the_target_tightly(make, delta, size) -> None:
    group = ForGroups.calibrated(make, size=size, epsilon=1.0, delta=delta)
    assert group.size == size
    spent = accounting.epsilon(group.event(), delta).upper
    assert 1.0 - 1e-4 <= spent <= 1.0 + 1e-12
    if delta:
        assert accounting.delta(group.event(), 1.0).upper <= delta
    else:
        assert group.event().pure_epsilon() <= 1.0


def test_calibrated_is_the_known_one_for_noise() -> None:
    group = ForGroups.calibrated(lambda e: Gaussian.calibrated(epsilon=e, delta=1e-6), size=4, epsilon=1.0, delta=1e-6)
    direct = Gaussian.calibrated(epsilon=1.0, delta=1e-6, sensitivity=4.0)
    assert direct.sigma <= group.mechanism.sigma <= direct.sigma * (1 + 1e-5)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"size": 0}, InvalidArgumentError),
        ({"size": 1.5}, InvalidArgumentError),
        ({"size": True}, InvalidArgumentError),
        ({"epsilon": 0.0}, InvalidArgumentError),
        ({"epsilon": math.nan}, InvalidArgumentError),
        ({"delta": -0.1}, InvalidArgumentError),
        ({"make": 3}, InvalidArgumentError),
        ({"make": lambda _: 3}, InvalidArgumentError),
        ({"make": lambda _: Plain(0.0)}, accounting.NumericalError),
        ({"make": lambda _: Plain(9.0)}, accounting.NumericalError),
    ],
)
def test_calibrated_refuses_bad_targets(arguments, error) -> None:
    given_ = {"make": RandomizedResponse, "size": 2, "epsilon": 1.0, "delta": 0.0, **arguments}
    with pytest.raises(error):
        ForGroups.calibrated(given_.pop("make"), **given_)


@frozen
class Fickle(Plain):
    def event(self) -> Any:
        return 1.0


@frozen
class Limited(Plain):
    def event(self) -> accounting.PrivacyEvent:
        return accounting.Failure(0.1)


def test_bad_arguments_are_refused() -> None:
    for mechanism in (3, Laplace, accounting.PureDP(1.0), Fickle()):
        with pytest.raises(InvalidArgumentError, match="^mechanism="):
            ForGroups(mechanism, size=2)
    sizes: list[Any] = [0, -1, 2.5, math.nan, True, "2", None]
    for size in sizes:
        with pytest.raises(InvalidArgumentError, match="^size="):
            ForGroups(Laplace(1.0), size=size)
    with pytest.raises(UnsupportedEventError):
        ForGroups(Limited(), size=2)
    assert ForGroups(RandomizedResponse(1.0), size=2).event().accepts(Adjacency.LOCAL)
