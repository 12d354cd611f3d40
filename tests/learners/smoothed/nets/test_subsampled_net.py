"""The subsampled net: privacy by enumeration, exact laws, mutants, chains that certify nothing, SmallDB."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import chi_square_of_outcomes

from hockeystick.accounting import BoundedRange, InvalidArgumentError, Ledger, NonPrivate
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.nets import net_scores
from hockeystick.learners.smoothed.nets.net_bounds import choice_error
from hockeystick.learners.smoothed.nets.net_scores import NetScores, multisets
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet, small_db
from hockeystick.learners.smoothed.nets.threshold_net import ThresholdNet
from hockeystick.mechanisms.randomness.noise import SimulationNoise

FALSE_ALARM = 1e-6
Array = np.ndarray[Any, Any]


def net(concepts: ConceptClass | None = None, **changes: Any) -> SubsampledNet:
    given: dict[str, Any] = {"domain": [0.1, 0.3, 0.5, 0.9], "size": 5, "epsilon": 1.0, "records": 6}
    return SubsampledNet(concepts=concepts or Thresholds(), **(given | changes))


def log_ratio(mechanism: SubsampledNet, first: Any, second: Any) -> float:
    """The largest |ln| of the ratio of two enumerated laws."""
    return float(np.abs(np.log(mechanism.law(first)) - np.log(mechanism.law(second))).max())


def p_value(drawn: Array, candidates: Array, law: Array) -> float:
    listed = dict(zip(map(tuple, candidates.tolist()), law, strict=True))
    return float(chi_square_of_outcomes(drawn, listed))


# --- privacy ---------------------------------------------------------------------------------------------------------


@given(
    domain=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    data=st.lists(st.integers(-1, 10), min_size=1, max_size=7),
    other=st.integers(-1, 10),
    size=st.integers(1, 5),
    epsilon=st.floats(0.05, 20.0),
    intervals=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_no_neighbours_are_told_apart_by_more_than_epsilon(
    domain: list[int], data: list[int], other: int, size: int, epsilon: float, intervals: bool
) -> None:
    """Exact enumeration: all losses lie in an interval of length epsilon around 0."""
    concepts = Intervals() if intervals else Thresholds()
    mechanism = net(concepts, domain=domain, size=size, epsilon=epsilon, records=len(data))
    first, second = (np.array(x, float) for x in (data, [other, *data[1:]]))
    losses = np.log(mechanism.law(first)) - np.log(mechanism.law(second))
    assert np.ptp(losses) <= epsilon * (1 + 1e-9) + 1e-9 and losses.min() <= 1e-9 and losses.max() >= -1e-9


def test_worst_neighbours_come_near_epsilon_even_on_a_point_mass() -> None:
    """All records at one point, far from smooth: privacy is as promised, and used. Golden: 0.952 at random pairs."""
    assert 0.85 < log_ratio(net(), *net().worst_case_neighbours()) <= 1.0
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(100):
        mechanism = net(domain=rng.random(rng.integers(2, 5)), size=int(rng.integers(1, 6)), records=20)
        data = rng.beta(0.3, 0.3, 20)
        largest = max(largest, log_ratio(mechanism, data, np.append(rng.random(), data[1:])))
    assert 0.9 < largest <= 1.0


def test_the_printed_weight_costs_the_width_and_says_so() -> None:
    """For queries in {-1, 1}: the corrected law is that of predicates; the printed one has twice the loss."""
    corrected, printed = net(width=2), net(width=2, printed=True)
    pair = corrected.worst_case_neighbours()
    assert (corrected.law(pair[0]) == net().law(pair[0])).all()
    assert corrected.event() == BoundedRange(1.0) and printed.event() == BoundedRange(2.0)
    assert log_ratio(corrected, *pair) <= 1.0 < 1.4 < log_ratio(printed, *pair) <= 2.0
    assert printed.graph().guarantee().epsilon(0.0).upper == pytest.approx(2.0)
    assert net(printed=True).event() == BoundedRange(1.0)  # right for width 1
    data = np.linspace(0, 1, 6)
    assert corrected.largest_error([[0] * 5], data)[0] == 2 * net().largest_error([[0] * 5], data)[0]


@pytest.mark.parametrize("concepts", [Thresholds(), Intervals(), Rectangles(2), ErrorQueries(Thresholds())])
def test_scores_are_over_the_whole_class(concepts: ConceptClass, monkeypatch: pytest.MonkeyPatch) -> None:
    """By labelings of data and domain together, and by the class's own largest gap: the same whole numbers."""
    rng = np.random.default_rng(1)
    domain: Array = (
        np.unique(rng.integers(0, 2 if concepts.dimension > 1 else 8, (4, concepts.dimension)), axis=0) * 1.0
    )
    data: Array = rng.integers(0, 2, (7, concepts.dimension)) + (0.5 if concepts == Thresholds() else 0.0)
    nets = multisets(len(domain), 3)
    found = NetScores(concepts=concepts, domain=domain, data=data, size=3)(nets)
    labels, _ = concepts.labelings(np.concatenate((domain, data)))
    inside = labels[:, : len(domain)][:, nets].sum(axis=2)
    brute = np.abs(7 * inside - 3 * labels[:, len(domain) :].sum(axis=1)[:, None]).max(axis=0)
    assert (found == brute).all()
    monkeypatch.setattr(net_scores, "_MOST_CELLS", -1.0)
    assert (NetScores(concepts=concepts, domain=domain, data=data, size=3)(nets) == found).all()


def test_thresholds_beyond_the_sub_domain_count() -> None:
    """A mutant that asks for thresholds at the points of V alone finds no fault in a net at 1 of data at 2."""
    scores = NetScores(concepts=Thresholds(), domain=np.array([[0.0], [1.0]]), data=np.full((7, 1), 2.0), size=3)
    assert scores([[1, 1, 1]])[0] == 21
    at_points = [abs(7 * 3 - 3 * 7) for _ in (0.0, 1.0)]  # q_0 and q_1 hold for all of either
    assert max(at_points) == 0


def test_a_gap_in_fractions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that floats have rounded could move by more than its sensitivity."""
    monkeypatch.setattr(net_scores, "_MOST_CELLS", -1.0)
    monkeypatch.setattr(Thresholds, "max_gap", lambda self, points, first, second: 0.5)
    with pytest.raises(InvalidArgumentError, match="whole weights"):
        net().law(np.linspace(0, 1, 6))


def test_the_ratio_of_transcripts_is_that_of_the_laws() -> None:
    for concepts in (Thresholds(), Intervals()):
        mechanism = net(concepts)
        pair = np.linspace(0, 1, 6), np.append(0.9, np.linspace(0, 1, 6)[1:])
        expected = np.log(mechanism.law(pair[0])) - np.log(mechanism.law(pair[1]))
        found = mechanism.log_likelihood_ratio(mechanism.candidates(), *pair)
        assert found == pytest.approx(expected, abs=1e-9)


# --- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("concepts", [Thresholds(), Intervals()])
def test_simulations_and_releases_have_the_enumerated_law(concepts: ConceptClass) -> None:
    """False alarm 1e-6 each. The planted violation, four times the epsilon, is seen by both."""
    mechanism, data = net(concepts, epsilon=4.0), np.array([0.05, 0.3, 0.3, 0.55, 0.9, 0.95])
    candidates, law = mechanism.candidates(), mechanism.law(data)
    assert p_value(mechanism.simulate(data, np.random.default_rng(1), 8_000), candidates, law) > FALSE_ALARM
    noise = SimulationNoise(1)
    released = np.array([mechanism.release(data, noise=noise).places for _ in range(250)])
    assert p_value(released, candidates, law) > FALSE_ALARM
    wrong = net(concepts, epsilon=16.0)
    assert p_value(wrong.simulate(data, np.random.default_rng(1), 8_000), candidates, law) < FALSE_ALARM
    released = np.array([wrong.release(data, noise=noise).places for _ in range(150)])
    assert p_value(released, candidates, law) < FALSE_ALARM


@pytest.mark.statistical
def test_a_chain_certifies_nothing_and_a_short_one_is_seen() -> None:
    """A long chain agrees with the law, false alarm 1e-6; a short one does not. Neither has an epsilon."""
    data = np.array([0.05, 0.3, 0.3, 0.55, 0.9, 0.95])
    exact = net(epsilon=4.0)
    long, short = net(epsilon=4.0, metropolis_steps=100), net(epsilon=4.0, metropolis_steps=2)
    for chain in (long, short):
        assert chain.event() == NonPrivate()
        assert chain.graph().guarantee().epsilon(1e-6).upper == math.inf
        for refused in (
            lambda chain=chain: chain.release(data, noise=SimulationNoise(1)),
            lambda chain=chain: chain.law(data),
            lambda chain=chain: chain.log_likelihood_ratio([[0] * 5], data, data),
        ):
            with pytest.raises(InvalidArgumentError, match="metropolis_steps"):
                refused()
    values = [
        p_value(chain.simulate(data, np.random.default_rng(2), 8000), exact.candidates(), exact.law(data))
        for chain in (long, short)
    ]
    assert values[1] < FALSE_ALARM < values[0]


def test_a_release_is_recorded_before_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, data = net(), np.linspace(0, 1, 6)
    ledger = Ledger(mechanism.graph())
    release = mechanism.release(data, ledger=ledger, name="net", noise=SimulationNoise(1))
    assert release.simulated and release.points.shape == (5, 1)
    assert (release.points == mechanism.domain[release.places]).all()
    assert ledger.guarantee().epsilon(0.0).upper == pytest.approx(1.0)
    again = Ledger(mechanism.graph())
    monkeypatch.setattr(ThresholdNet, "draw", lambda self, noise: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mechanism.release(data, ledger=again, name="net", noise=SimulationNoise(1))
    assert again.guarantee().epsilon(0.0).upper == pytest.approx(1.0)


def test_a_secure_release_has_no_seed() -> None:
    for concepts in (Thresholds(), Intervals()):
        assert not net(concepts).release(np.linspace(0, 1, 6)).simulated


def test_the_sub_domain_is_public_and_the_same_for_neighbours() -> None:
    """It is drawn from the measure and public coins alone, M = ceil(4 k/sigma); no data are asked for."""
    made = [
        SubsampledNet.draw(
            Thresholds(),
            UniformCube(1),
            np.random.default_rng(3),
            sigma=0.3,
            accepted=5,
            size=4,
            epsilon=1.0,
            records=9,
        )
        for _ in range(2)
    ]
    assert (made[0].domain == made[1].domain).all() and made[0].domain.shape == (67, 1)
    again = SubsampledNet.draw(
        Thresholds(), UniformGrid(5), np.random.default_rng(3), sigma=0.3, accepted=5, size=4, epsilon=1.0, records=9
    )
    assert len(again.domain) == 5  # repeated points count once


def test_the_choice_falls_short_of_the_best_as_rarely_as_promised() -> None:
    """Pr[s >= min s + (2 w/(epsilon n)) (ln |C| + t)] <= e^-t, by enumeration; at a tenth of it, it does not hold."""
    mechanism = net(records=40, epsilon=0.5)
    data = np.repeat([0.1, 0.9], 20)
    law, errors = mechanism.law(data), mechanism.largest_error(mechanism.candidates(), data)
    for t in (0.1, 1.0, 3.0, 6.0):
        slack = choice_error(log_candidates=math.log(56), records=40, epsilon=0.5, failure=math.exp(-t))
        assert law[errors >= errors.min() + slack].sum() <= math.exp(-t)
    assert law[errors >= errors.min() + 0.1 * slack].sum() > math.exp(-6.0)


@pytest.mark.parametrize("epsilon", [1e-90, 1e-3, 1e3])
def test_extreme_budgets_draw_evenly_or_the_best(epsilon: float) -> None:
    mechanism, data = net(epsilon=epsilon), np.linspace(0.1, 0.9, 6)
    drawn = mechanism.simulate(data, np.random.default_rng(1), 300)
    released = np.array([mechanism.release(data, noise=SimulationNoise(i)).places for i in range(20)])
    errors, best = mechanism.largest_error(np.concatenate((drawn, released)), data), mechanism.law(data).max()
    least = mechanism.largest_error(mechanism.candidates(), data).min()
    assert (errors == least).all() if epsilon == 1e3 else best == pytest.approx(1 / 56, rel=0.01)
    assert len(np.unique(drawn, axis=0)) > 40 or epsilon == 1e3


def test_small_db_is_the_net_on_the_whole_domain() -> None:
    points, data = np.arange(6) / 5, np.array([0.0, 0.2, 0.2, 0.4, 1.0])
    everything = small_db(Intervals(), points, size=3, epsilon=2.0, records=5)
    same = SubsampledNet(concepts=Intervals(), domain=points[::-1], size=3, epsilon=2.0, records=5)
    assert (everything.law(data) == same.law(data)).all() and everything.multisets == 56
    best = everything.candidates()[np.argmax(everything.law(data))]
    assert everything.largest_error([best], data)[0] == everything.largest_error(everything.candidates(), data).min()


def test_too_many_candidates_are_refused_except_for_thresholds() -> None:
    many: dict[str, Any] = {"domain": np.arange(100) / 99, "size": 10, "records": 50}
    data = np.linspace(0, 1, 50)
    for call in (
        lambda: net(Intervals(), **many).law(data),
        lambda: net(Intervals(), **many).simulate(data, np.random.default_rng(1), 2),
        lambda: net(Intervals(), **many).release(data, noise=SimulationNoise(1)),
        lambda: net(**many).law(data),
    ):
        with pytest.raises(InvalidArgumentError, match="too many"):
            call()
    assert net(**many).simulate(data, np.random.default_rng(1), 2).shape == (2, 10)


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": []},
        {"domain": [math.nan]},
        {"domain": [[0.1, 0.2]]},
        {"size": 0},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"epsilon": 1001.0},
        {"records": True},
        {"width": 3},
        {"printed": 1},
        {"metropolis_steps": 0},
        {"records": 2**53},
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        net(**changes)


def test_bad_data_are_refused() -> None:
    for data in ([0.1] * 5, [math.nan] * 6, [[0.1, 0.2]] * 6):
        with pytest.raises(InvalidArgumentError):
            net().simulate(data, np.random.default_rng(1), 2)
    with pytest.raises(InvalidArgumentError):
        net("thresholds")  # type: ignore[arg-type]
