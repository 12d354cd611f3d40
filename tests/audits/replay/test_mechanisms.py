"""Mechanisms in a replay: of this library, of OpenDP and of diffprivlib, with their stated sensitivities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

import hockeystick as hs
from hockeystick import mechanisms as M
from hockeystick.audits.replay.run import replay
from hockeystick.mechanisms.release import Releasable

FIVE = [0.2, 0.9, 0.4, 1.0, 0.7]
SLIPPED = [*FIVE, 1.2]

EVERY = (
    M.Laplace(2.0, sensitivity=3.0),
    M.Gaussian(4.0, sensitivity=2.0),
    M.DiscreteLaplace(2.0, sensitivity=2),
    M.DiscreteGaussian(3.0),
    M.CellCounts(cells=9, scale=4.0, branching=3, records=20),
    M.Marginals(sizes=(2, 3), marginals=1, scale=4.0, records=20),
    M.Marginals(sizes=(2, 3), marginals=2, scale=4.0, law="gaussian", strategy="residual"),
    M.CellCounts(cells=9, scale=2.0, strategy="optimised-thresholds"),
    M.CellCounts(cells=9, scale=4.0, records=20, law="gaussian", strategy="square-root"),
    M.Skellam(9.0),
    M.Staircase(1.0, sensitivity=2.0),
    M.ExponentialMechanism(2.0),
    M.NoisyMax(2.0, "laplace", monotone=True),
    M.NoisyMax(2.0, "gumbel"),
    M.PermuteAndFlip(2.0),
    M.TopK(4.0, k=2),
    M.RandomizedResponse(1.0, categories=3),
    M.UnaryEncoding.symmetric(1.0, categories=3),
    M.PartitionSelection(rule=M.OptimalRule(0.5, 1e-7), partitions=2),
    M.PartitionSelection(rule=M.ThresholdRule("laplace", 3.0, 60)),
    M.HadamardResponse(1.0, categories=4),
    M.SubsetSelection(1.0, categories=4),
    M.OneBitChannel(1.0, low=0.0, high=1.0),
    M.AboveThreshold.calibrated(10.0, epsilon=1.0),
    M.SparseVector.calibrated(10.0, epsilon=1.0, answers=2),
    M.GaussianAboveThreshold(10.0, threshold_scale=4.0, query_scale=6.0, queries=10),
    M.HybridTree.calibrated(epsilon=1.0, steps=7),
    M.CumulativeAboveThreshold.calibrated(5.0, epsilon=1.0),
    M.MatrixMechanism.calibrated(M.factorisations.square_root(8), epsilon=1.0, delta=1e-6),
    M.TreeAggregation.calibrated(8, epsilon=1.0),
    M.LazySwitch(0.2, normaliser=0.2, sensitivity=0.1),
    M.ForGroups(M.Laplace(2.0), size=3),
    M.Subsampled(M.PoissonSample(0.1), M.Gaussian(1.0)),
)


def mechanism_name(mechanism: Any) -> str:
    return type(mechanism).__name__


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("mechanism", EVERY, ids=mechanism_name)
@pytest.mark.every(3)  # an odd step keeps both values of the flag
def test_a_mechanism_at_its_worst_pair_costs_what_it_states(mechanism: Any, released: bool) -> None:
    d0, d1 = mechanism.worst_case_neighbours()
    event = mechanism.event()
    delta = 0.0 if np.isfinite(event.pure_epsilon()) and not event.failure_delta() else 1e-5
    stated = hs.epsilon(event, delta).upper
    target = (lambda x, rng: mechanism.release(x)) if released else mechanism

    found = replay(target, d0, d1, epsilon=stated, delta=delta, paths=3, seed=1)

    assert found.outcome == "agrees", str(found)
    assert found.epsilon_path == pytest.approx(stated, rel=1e-9) and len(found.mechanisms) == 1
    met = found.mechanisms[0]
    assert met.name == mechanism_name(mechanism) and met.stated is not None
    assert met.largest == pytest.approx(met.stated)


NUMBERS = [one for one in EVERY if isinstance(one, (M.Laplace, M.Gaussian, M.DiscreteLaplace, M.Staircase))]
CHOICES = [one for one in EVERY if isinstance(one, (M.ExponentialMechanism, M.NoisyMax, M.TopK, M.PermuteAndFlip))]
STREAMS = [one for one in EVERY if isinstance(one, (M.AboveThreshold, M.SparseVector))]


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("mechanism", [*NUMBERS, *CHOICES, *STREAMS], ids=mechanism_name)
def test_a_slip_of_the_stated_sensitivity_is_a_violation(mechanism: Any, delta: float) -> None:
    d0, d1 = mechanism.worst_case_neighbours()
    slipped = evolve(mechanism, sensitivity=1) if isinstance(mechanism, M.DiscreteLaplace) else None
    target = slipped or evolve(mechanism, sensitivity=mechanism.sensitivity / 1.03)

    found = replay(target, d0, d1, epsilon=0.1, delta=delta, paths=2, seed=1)

    assert found.violated and found.findings[0].kind == "sensitivity"
    assert "stated" in found.findings[0].message


@pytest.mark.parametrize("mechanism", [CHOICES[1], evolve(STREAMS[0], monotone=True)], ids=mechanism_name)
def test_scores_that_are_not_monotone_though_stated_are_a_violation(mechanism: Any) -> None:
    found = replay(mechanism, [0.0, 1.0, 0.5], [0.5, 0.5, 0.5], epsilon=50.0, paths=2, seed=1)

    assert found.violated and "monotone" in found.findings[0].message


@pytest.mark.parametrize(
    ("mechanism", "changed", "words"),
    [
        (EVERY[-4], [0, 5], "participations"),
        (EVERY[-5], [1, 2], "participations"),
        (M.TreeAggregation(8, 3.0, participations=2, separation=4), [1, 2], "separation"),
        (EVERY[-6], [0, 3], "terms change"),
        (M.HybridTree(3.0, steps=8), [1, 6], "steps change"),
    ],
)
def test_a_record_in_more_steps_than_stated_is_a_violation(mechanism: Any, changed: list[int], words: str) -> None:
    d0, d1 = np.zeros(8), np.zeros(8)
    d1[changed] = 0.5

    found = replay(mechanism, d0, d1, epsilon=50.0, delta=1e-6, paths=2, seed=1)

    assert found.violated and words in found.findings[0].message


def test_two_persons_who_change_their_answers_are_more_than_is_stated() -> None:
    answers = M.RandomizedResponse(1.0, categories=3)
    found = replay(answers, [0, 0, 1], [1, 1, 2], epsilon=1.0, paths=2, seed=1)

    assert found.violated and found.mechanisms[0].largest == 3.0


def test_a_default_sensitivity_that_the_price_covers_is_no_statement() -> None:
    """Two counts with noise for each: charged as two, though the class has the sensitivity 1."""

    def per_query(x: Any, rng: Any) -> Any:
        return M.Laplace(2.0).release(np.array([len(x), len(x)], dtype=float))

    def stated(x: Any, rng: Any) -> Any:
        return M.Laplace(2.0, sensitivity=1.5).release(np.array([len(x), len(x)], dtype=float))

    def one_value(x: Any, rng: Any) -> Any:
        return M.Laplace(2.0).release(2.0 * len(x))

    assert replay(per_query, FIVE, FIVE[:-1], epsilon=1.0, seed=1).agrees
    assert replay(per_query, FIVE, FIVE[:-1], epsilon=0.9, delta=1e-9, seed=1).outcome == "not certified"
    assert replay(stated, FIVE, FIVE[:-1], epsilon=1.0, seed=1).violated
    assert replay(one_value, FIVE, FIVE[:-1], epsilon=1.0, seed=1).agrees
    assert replay(one_value, FIVE, FIVE[:-1], epsilon=0.9, delta=1e-9, seed=1).violated


def test_a_release_whose_answer_is_returned_convicts_the_claim_by_its_loss() -> None:
    def total(x: Any, rng: Any) -> Any:
        return M.Laplace(1.0).release(float(np.clip(x, 0, 1.03).sum()))

    found = replay(total, SLIPPED, FIVE, epsilon=1.0, seed=1)
    assert {"sensitivity", "loss"} <= {finding.kind for finding in found.findings if finding.outcome == "violation"}
    assert not replay(total, FIVE, FIVE[:-1], epsilon=0.7, seed=1).violated


def test_a_mechanism_in_an_algorithm_is_named_with_its_line() -> None:
    def total(x: Any, rng: Any) -> Any:
        return M.Laplace(1.0).release(float(np.clip(x, 0, 1.03).sum()))

    found = replay(total, SLIPPED, FIVE, epsilon=1.0, seed=1)

    line = total.__code__.co_firstlineno + 1
    assert found.violated
    assert str(found.findings[0]).startswith(
        f"tests/audits/replay/test_mechanisms.py:{line}: sensitivity: Laplace: "
    ) or (f"test_mechanisms.py:{line}" in found.findings[0].where)
    assert "1.03 apart (l1), above the 1 stated" in found.findings[0].message


def test_a_pair_below_the_sensitivity_is_warned_of() -> None:
    found = replay(M.Laplace(1.0), 0.0, 0.7, epsilon=1.0, seed=1)

    assert found.agrees and any("0.7 of 1" in warning for warning in found.warnings)


def test_releases_compose_and_a_ledger_is_charged_in_every_run() -> None:
    def algorithm(x: Any, rng: Any) -> Any:
        ledger = hs.accounting.Ledger(
            hs.AccountantGraph().source("x").release("a", M.Laplace(2.0).event(), reads=["x"])
        )
        first = M.Laplace(2.0).release(float(len(x)), ledger=ledger, name="a")
        with pytest.raises(hs.HockeystickError):
            M.Laplace(2.0).release(float(len(x)), ledger=ledger, name="a")
        return first, M.Laplace(2.0).simulate(float(np.clip(x, 0, 1).sum()), rng, 3)

    found = replay(algorithm, FIVE, FIVE[:-1], epsilon=5.0, seed=1, paths=2)

    assert found.outcome == "agrees", str(found)
    assert found.epsilon_path == pytest.approx(0.5 + 3 * 0.35)  # the release that the ledger refuses is none


@pytest.mark.parametrize("queries", [[0.0, 12.0, 12.0, 3.0], [30.0] * 4])
def test_a_session_is_charged_once(queries: list[float]) -> None:
    mechanism = M.AboveThreshold.calibrated(10.0, epsilon=1.0, answers=2)

    def algorithm(shift: float, rng: Any) -> Any:
        session = mechanism.start()
        found: list[bool] = []
        for query in queries:
            if session.halted:
                break
            found.append(session.ask(query + shift * (-1) ** len(found)))
        return found, session.answers_left

    assert replay(algorithm, 0.0, 1.0, epsilon=1.0, seed=1).epsilon_path == pytest.approx(1.0)
    assert replay(algorithm, 0.0, 1.0, epsilon=1.0, seed=1).agrees
    assert replay(algorithm, 0.0, 1.05, epsilon=1.0, seed=1).violated


def test_sessions_with_numbers_and_of_running_sums() -> None:
    numeric = M.SparseVector.calibrated(1.0, epsilon=1.0, answers=2, answer_share=0.5)
    running = M.CumulativeAboveThreshold.calibrated(1.0, epsilon=1.0)

    def numbers(shift: float, rng: Any) -> Any:
        session = numeric.start()
        found: list[float | None] = []
        while not session.halted and len(found) < 20:
            found.append(session.ask(1.0 + shift))
        return found

    def sums(changed: float, rng: Any) -> Any:
        session = running.start()
        return [session.add(changed if step == 2 else 0.5) for step in range(8)]

    assert replay(numbers, 0.0, 1.0, epsilon=1.0, seed=1).agrees
    assert replay(sums, 0.0, 1.0, epsilon=1.0, seed=1).agrees
    assert replay(sums, 0.0, 1.0, epsilon=0.9, seed=1).outcome == "not certified"


def test_samplers_are_draws_that_a_pair_with_other_records_is_not_followed_through() -> None:
    def algorithm(x: Any, rng: Any) -> Any:
        chosen = M.PoissonSample(0.5).draw(len(x))
        return M.Laplace(1.0).release(float(np.clip(np.asarray(x)[chosen], 0, 1).sum()))

    replaced = [*FIVE[:3], 0.0, FIVE[4]]
    assert replay(algorithm, FIVE, replaced, epsilon=1.0, seed=1).agrees
    assert replay(algorithm, FIVE, FIVE[:-1], epsilon=1.0, seed=1).outcome == "not covered"
    amplified = replay(algorithm, FIVE, replaced, epsilon=0.6, seed=1)
    assert amplified.outcome == "not covered" and "amplification" in amplified.findings[0].message


def test_a_mechanism_whose_distance_is_not_known_is_not_certified() -> None:
    class Coin(Releasable):
        """It reports a bit with probability 3/4."""

        def event(self) -> hs.PrivacyEvent:
            return hs.events.RandomizedResponse(np.log(3))

        def _checked(self, value: Any) -> Any:
            return value

        def _draw(self, checked: Any, noise: Any) -> Any:
            return bool(checked) ^ bool(noise.coins(0.25, 1)[0])

    mechanism = Coin()
    found = replay(lambda x, rng: mechanism.release(x), False, True, epsilon=50.0, seed=1, paths=2)

    assert found.outcome == "not certified" and "distance" in found.findings[0].message


def test_nothing_stays_replaced_afterwards() -> None:
    before = [M.Laplace.simulate, M.Laplace.release, M.PoissonSample.draw, np.random.default_rng, np.random.seed]
    replay(EVERY[0], 0.0, 3.0, epsilon=2.0, seed=1, paths=1)
    with pytest.raises(hs.InvalidDataError):
        replay(lambda x, rng: x.pop() + rng.laplace(), [1.0, 2.0], [1.0], epsilon=1.0, seed=1)
    assert before == [
        M.Laplace.simulate,
        M.Laplace.release,
        M.PoissonSample.draw,
        np.random.default_rng,
        np.random.seed,
    ]


# --- other libraries -------------------------------------------------------------------------------------------------


def opendp_sum(high: float, scale: float = 1.0) -> Any:
    def algorithm(x: Any, rng: Any) -> Any:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        return dp.m.make_laplace(*number, scale=scale)(float(np.clip(x, 0, high).sum()))

    return algorithm


def test_an_opendp_measurement_is_priced_by_its_map_at_the_distance_met() -> None:
    pytest.importorskip("opendp")
    right = replay(opendp_sum(1.0), SLIPPED, FIVE, epsilon=1.0, seed=1)
    slipped = replay(opendp_sum(1.03), SLIPPED, FIVE, epsilon=1.0, seed=1)

    assert right.agrees and right.epsilon_path == pytest.approx(1.0)
    assert slipped.outcome == "not certified" and slipped.epsilon_path == pytest.approx(1.03)
    assert "test_mechanisms.py" in slipped.findings[0].where
    assert right.mechanisms[0].name == "OpenDP measurement (AbsoluteDistance)"


def test_opendp_on_records_vectors_and_in_other_measures() -> None:
    pytest.importorskip("opendp")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    vector = dp.m.make_laplace(numbers, dp.l1_distance(T=float), scale=2.0)
    gauss = dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=2.0)
    counted = (dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()) >> dp.t.then_count()
    counted = counted >> dp.m.then_laplace(scale=2.0)

    def found(measurement: Any, d0: Any, d1: Any, delta: float = 0.0) -> float:
        verdict = replay(lambda x, rng: measurement(x), d0, d1, epsilon=9.0, delta=delta, seed=1, paths=2)
        assert verdict.agrees, str(verdict)
        return verdict.epsilon_path

    assert found(vector, [0.0, 0.0], [1.0, -1.0]) == pytest.approx(1.0)
    assert found(counted, [1, 2, 3], [1, 3]) == pytest.approx(0.5)
    rho = hs.epsilon(hs.events.ZCDP(2 / 8), 1e-6).upper
    assert found(gauss, [0.0, 0.0], [1.0, -1.0], 1e-6) == pytest.approx(rho)


def test_opendp_that_returns_what_can_t_be_given_again_is_not_covered() -> None:
    pytest.importorskip("opendp")

    def algorithm(x: Any, rng: Any) -> Any:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        asks = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[1.0])
        queryable = asks(x)
        return queryable(space >> dp.t.then_count() >> dp.m.then_laplace(scale=1.0))

    found = replay(algorithm, [1, 2, 3], [1, 3], epsilon=1.0, seed=1, paths=2)
    assert found.outcome == "not covered", str(found)


def diffprivlib_sum(high: float, *, sensitivity_of_data: bool = False) -> Any:
    def algorithm(x: Any, rng: Any) -> Any:
        from diffprivlib.mechanisms import Laplace  # type: ignore[import-not-found, unused-ignore]

        sensitivity = float(max(x)) if sensitivity_of_data else 1.0
        return Laplace(epsilon=1.0, sensitivity=sensitivity).randomise(float(np.clip(x, 0, high).sum()))

    return algorithm


def test_a_diffprivlib_mechanism_is_held_to_its_sensitivity() -> None:
    pytest.importorskip("diffprivlib")
    right = replay(diffprivlib_sum(1.0), SLIPPED, FIVE, epsilon=1.0, seed=1)
    slipped = replay(diffprivlib_sum(1.03), SLIPPED, FIVE, epsilon=1.0, seed=1)
    of_data = replay(diffprivlib_sum(1.0, sensitivity_of_data=True), SLIPPED, FIVE, epsilon=1.0, seed=1)

    assert right.agrees and right.epsilon_path == pytest.approx(1.0)
    assert slipped.violated and "1.03 apart (l1), above the 1 stated" in slipped.findings[0].message
    assert "test_mechanisms.py" in slipped.findings[0].where
    assert of_data.outcome == "not certified" and of_data.findings[0].kind == "parameters"


def test_diffprivlib_s_choices_read_their_utilities() -> None:
    mechanisms = pytest.importorskip("diffprivlib.mechanisms")

    def algorithm(x: Any, rng: Any) -> Any:
        return mechanisms.Exponential(epsilon=1.0, sensitivity=1.0, utility=list(x)).randomise()

    def labels(x: Any, rng: Any) -> Any:
        return mechanisms.Binary(epsilon=1.0, value0="a", value1="b").randomise(x)

    assert replay(algorithm, [0.0, 1.0, 2.0], [1.0, 0.0, 2.0], epsilon=1.0, seed=1).agrees
    assert replay(algorithm, [0.0, 1.0, 2.0], [1.5, 1.0, 2.0], epsilon=9.0, seed=1).violated
    assert replay(labels, "a", "b", epsilon=1.0, seed=1).agrees
