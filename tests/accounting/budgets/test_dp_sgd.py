"""Tests of the training by DP-SGD: its steps, events and relations, and what other libraries say about it.

The numbers of Opacus 1.6.0 (its RDP and PRV accountants) and of dp-accounting 0.6.0 (RDP, and PLD on its grid of 1e-4)
were computed once by these libraries at the sampling rate batch/records and the same number of steps.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from hockeystick.accounting import (
    DPSGD,
    AccountantGraph,
    Adjacency,
    Gaussian,
    HockeystickError,
    InvalidArgumentError,
    PoissonSampled,
    PoissonSampledReplace,
    PrivacyEvent,
    RandomAllocation,
    SampledWithoutReplacement,
    ShuffledBatches,
    UnsupportedAdjacencyError,
    banded_matrix_mechanism,
    compose,
    epsilon,
)
from hockeystick.accounting.numerics import ratio_sums

SLOW = pytest.mark.statistical  # by its time
ADD, NULL, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL, Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("run", "noise", "delta", "pld", "rdp", "prv"),
    [
        pytest.param(
            DPSGD(60_000, 256, 10), 1.0, 1e-5, 1.0999307828409142, 1.3523378362358764, 1.109990705618187, marks=SLOW
        ),
        pytest.param(
            DPSGD(60_000, 256, 60), 1.1, 1e-5, 2.381778812581751, 2.5966555286883684, 2.3918365361863922, marks=SLOW
        ),
        pytest.param(
            DPSGD(50_000, 500, 50), 0.8, 1e-6, 7.707678319917358, 8.3960485449703, 7.718027639349919, marks=SLOW
        ),
        (DPSGD(1000, 100, 5), 2.0, 1e-5, 1.6525022602139507, 1.8439516379468925, 1.6626231027347878),
    ],
)
def test_poisson_agrees_with_pld_accountants_and_is_below_prv_and_rdp(
    run: DPSGD, noise: float, delta: float, pld: float, rdp: float, prv: float
) -> None:
    found = run.epsilon(noise, delta).upper
    assert found == pytest.approx(pld, rel=1e-4)
    assert found < prv < rdp


@SLOW
def test_calibration_agrees_with_dp_accounting_and_meets_its_target() -> None:
    run = DPSGD(60_000, 256, 10)
    found = run.calibrated(3.0, 1e-5)
    assert found.value == pytest.approx(0.6937013995081964, rel=1e-5)  # dp-accounting's PLD accountant
    assert found.value < 0.7420310040329521  # its RDP accountant
    assert run.epsilon(found.value, 1e-5).upper <= 3.0
    assert found.rejected is not None and run.epsilon(found.rejected, 1e-5).upper > 3.0


@pytest.mark.parametrize(
    ("records", "batch", "epochs", "steps"),
    [
        (60_000, 256, 10, 2344),
        (60_000, 250, 10, 2400),
        (100, 100, 3, 3),
        (100, 30, 0.5, 2),
        (49, 1, 1, 49),
        (9, 10, 1, 0),
    ],
)
def test_steps_are_rounded_up_without_errors_of_floats(records: int, batch: int, epochs: float, steps: int) -> None:
    if not steps:
        with pytest.raises(InvalidArgumentError, match=r"batch=10: is larger than records=9; give at most the number"):
            DPSGD(records, batch, epochs)
        return
    run = DPSGD(records, batch, epochs)
    assert run.steps == steps and (steps - 1) * batch < epochs * records <= steps * batch


@pytest.mark.parametrize(
    ("sampling", "adjacency", "step"),
    [
        ("poisson", ADD, PoissonSampled(0.1, Gaussian(2.0))),
        ("poisson", NULL, PoissonSampled(0.1, Gaussian(2.0))),
        ("poisson", REPLACE, PoissonSampledReplace(0.1, Gaussian(2.0))),
        ("without-replacement", REPLACE, SampledWithoutReplacement(100, 10, Gaussian(1.0))),
        ("full", ADD, Gaussian(2.0)),
        ("full", NULL, Gaussian(2.0)),
        ("full", REPLACE, Gaussian(1.0)),
    ],
)
def test_a_replaced_record_moves_the_sum_by_twice_the_clip(
    sampling: str, adjacency: Adjacency, step: PrivacyEvent
) -> None:
    batch = 100 if sampling == "full" else 10
    run = DPSGD(100, batch, 2, clip=0.5, sampling=sampling, adjacency=adjacency)
    assert run.event(2.0) == compose((step, 200 // batch))
    assert run.guarantee(2.0).adjacency is run.relation is adjacency
    assert run.epsilon(2.0, 1e-5).upper == epsilon(run.event(2.0), 1e-5).upper


def test_each_sampling_has_its_own_default_relation() -> None:
    run = DPSGD(100, 10, 2)
    assert {one.sampling: (one.relation, one.steps) for one in (run, *run.others())} == {
        "poisson": (ADD, 20),
        "without-replacement": (REPLACE, 20),
        "full": (ADD, 2),
        "allocation": (NULL, 20),
        "allocation-fixed": (NULL, 20),
        "shuffle": (NULL, 20),
    }


def test_a_sampling_rate_is_never_rounded_down() -> None:
    for records in (3, 7, 49, 60_000):
        run = DPSGD(records, 1, 1)
        (step,) = {part for part, _ in run.event(1.0).parts}  # type: ignore[attr-defined]
        assert step.probability * records >= 1.0 and step.probability == pytest.approx(run.sampling_rate, rel=1e-15)


def test_users_are_charged_for_all_their_records_in_full_batches() -> None:
    whole = DPSGD(100, 100, 1, sampling="full", user_records=3)
    assert whole.epsilon(3.0, 1e-5).upper == pytest.approx(epsilon(Gaussian(1.0), 1e-5).upper, rel=1e-12)


@SLOW
def test_users_are_charged_for_all_their_records_in_poisson_samples() -> None:
    alone, user = DPSGD(1000, 10, 1), DPSGD(1000, 10, 1, user_records=3)
    assert user.guarantee(1.5).group == 3
    assert user.epsilon(1.5, 1e-5).upper == pytest.approx(epsilon(alone.event(1.5).at(3), 1e-5).upper, rel=1e-9)
    # Three records in one batch, with probability q³: no bound may be below this pair's.
    together = epsilon(compose((PoissonSampled(1e-6, Gaussian(0.5)), 100)), 1e-9).upper
    assert user.epsilon(1.5, 1e-9).upper > max(together, alone.epsilon(1.5, 1e-9).upper)


@SLOW
def test_replaced_users_cost_more_than_replaced_records_and_less_than_a_group_in_every_batch() -> None:
    run = DPSGD(60_000, 256, 0.05, clip=1.0, sampling="without-replacement")
    user = DPSGD(60_000, 256, 0.05, clip=1.0, sampling="without-replacement", user_records=2)
    found = user.guarantee(2.0)
    assert found.group == 2 and found.adjacency is REPLACE
    assert run.epsilon(2.0, 1e-6).upper < found.epsilon(1e-6).upper < epsilon(run.event(2.0).at(2), 1e-6).upper


def test_the_guarantee_says_what_it_assumes_and_survives_files() -> None:
    run = DPSGD(100, 10, 1, adjacency=NULL)
    graph = run.graph(1.0)
    assert AccountantGraph.from_json(graph.to_json()) == graph
    assert graph.guarantee().assumptions == run.assumptions and run.loader in run.assumptions
    assert any("null record" in sentence for sentence in run.assumptions)
    assert not any("null record" in sentence for sentence in DPSGD(100, 10, 1).assumptions)


def test_the_noise_is_the_multiplier_times_the_clip() -> None:
    assert DPSGD(100, 10, 1, clip=0.5).standard_deviation(3.0) == 1.5
    assert DPSGD(100, 10, 1, clip=0.1).standard_deviation(0.7) >= 0.07
    with pytest.raises(InvalidArgumentError, match="clip=None: is needed for the standard deviation; give the clip"):
        DPSGD(100, 10, 1).standard_deviation(1.0)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"records": 0}, "records"),
        ({"records": 10.5}, "records"),
        ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": math.nan}, "epochs"),
        ({"epochs": 1e300}, "epochs"),
        ({"records": 2**50, "epochs": 2**50}, "steps"),
        ({"clip": 0.0}, "clip"),
        ({"clip": math.inf}, "clip"),
        ({"sampling": "shuffled"}, "sampling"),
        ({"sampling": "full"}, "batch"),
        ({"user_records": 101}, "user_records"),
        ({"user_records": 0}, "user_records"),
        ({"sampling": "without-replacement"}, "clip"),
        ({"adjacency": REPLACE}, "clip"),
        ({"sampling": "allocation", "epochs": 1.5}, "epochs"),
        ({"sampling": "allocation-fixed", "epochs": 0.5}, "epochs"),
        ({"sampling": "shuffle", "epochs": 1.5}, "epochs"),
    ],
)
def test_bad_runs_are_refused_by_name(change: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        DPSGD(**{"records": 100, "batch": 10, "epochs": 1, **change})  # type: ignore[arg-type]
    assert caught.value.argument == argument and caught.value.reason


@pytest.mark.parametrize(
    ("sampling", "adjacency"),
    [("without-replacement", ADD), ("without-replacement", NULL), ("poisson", Adjacency.LOCAL)],
)
def test_a_relation_without_a_bound_is_refused(sampling: str, adjacency: Adjacency) -> None:
    with pytest.raises(UnsupportedAdjacencyError, match=f"no bound under {adjacency.value}: use .*replace-one"):
        DPSGD(100, 10, 1, clip=1.0, sampling=sampling, adjacency=adjacency)
    with pytest.raises(UnsupportedAdjacencyError, match="has no bound under replace-one!"):
        DPSGD(100, 10, 1, clip=1.0, adjacency="replace-one!")  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["epsilon", "calibrated"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, True, "1"])
def test_bad_noise_and_targets_are_refused(call: str, bad: object) -> None:
    run = DPSGD(100, 10, 1)
    with pytest.raises(HockeystickError):
        getattr(run, call)(bad, 1e-5)
    if call == "calibrated":
        with pytest.raises(InvalidArgumentError, match="delta="):
            run.calibrated(1.0, bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("adjacency", [NULL, ADD])
def test_records_that_choose_their_steps_do_so_in_every_epoch_or_once(adjacency: Adjacency) -> None:
    fresh = DPSGD(105, 10, 3, sampling="allocation", adjacency=adjacency)
    fixed = DPSGD(105, 10, 3, sampling="allocation-fixed", adjacency=adjacency)
    assert fresh.steps == fixed.steps == 33 and fresh.batches == 11
    assert fresh.event(2.0) == compose((RandomAllocation(11, 1, Gaussian(2.0)), 3))
    assert fixed.event(2.0) == RandomAllocation(11, 1, compose((Gaussian(2.0), 3)))
    assert "anew in every epoch" in fresh.loader and "once, for all epochs" in fixed.loader


@SLOW
@pytest.mark.parametrize(
    ("sampling", "value"), [("allocation", 0.683), pytest.param("allocation-fixed", 1.822, marks=pytest.mark.deep)]
)
def test_allocations_are_calibrated_by_few_bounds_of_the_engine(
    sampling: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    laws: list[tuple[bool, float]] = []
    made = ratio_sums.total

    def total(*args: Any, spread: bool, width: float, small: bool) -> ratio_sums.Sum:
        laws.append((spread, width))
        return made(*args, spread=spread, width=width, small=small)

    monkeypatch.setattr(ratio_sums, "total", total)
    run = DPSGD(60_000, 256, 10, sampling=sampling)
    found = run.calibrated(3.0, 1e-5)
    monkeypatch.undo()
    assert found.rejected is not None and found.rejected == pytest.approx(found.value, rel=1e-6)
    assert found.value == pytest.approx(value, abs=1e-3)
    assert found.evaluations <= 5
    assert all(spread for spread, _ in laws)  # no bound from below is asked for
    assert len(laws) <= 16 and sum(width < 2 * min(laws)[1] for _, width in laws) <= 6  # the others are coarse
    assert run.epsilon(found.value, 1e-5).upper <= 3.0 < run.epsilon(found.rejected, 1e-5).upper


def test_shuffled_batches_are_charged_without_amplification() -> None:
    run = DPSGD(1000, 1, 1, sampling="shuffle")
    assert run.event(1.0) == ShuffledBatches(1, 1000, Gaussian(1.0))
    assert run.epsilon(1.0, 1e-6).upper == pytest.approx(4.886554, rel=1e-6)  # one access, in closed form
    assert run.known_epsilon(1.0, 1e-6) == pytest.approx(3.7239, abs=1e-4)  # the formula of Chua et al. 2024
    replaced = DPSGD(1000, 1, 1, sampling="shuffle", adjacency=REPLACE, clip=1.0)
    assert replaced.event(2.0) == run.event(1.0) and replaced.known_epsilon(1.0, 1e-6) == run.known_epsilon(1.0, 1e-6)
    assert DPSGD(1000, 1, 1).known_epsilon(1.0, 1e-6) is None
    assert {one.sampling for one in DPSGD(100, 10, 1.5).others()} == {"without-replacement", "full"}


@SLOW
def test_a_fixed_choice_costs_more_than_a_new_one_and_shuffling_most() -> None:
    found = [
        DPSGD(200, 10, 2, sampling=name).epsilon(1.0, 1e-5).upper
        for name in ("allocation", "allocation-fixed", "shuffle")
    ]
    assert found == sorted(set(found)) and found[2] == pytest.approx(epsilon(compose((Gaussian(1.0), 2)), 1e-5).upper)


def test_a_normaliser_that_depends_on_the_drawn_batch_is_refused() -> None:
    assert DPSGD(1000, 10, 1, normaliser="constant") == DPSGD(1000, 10, 1)
    with pytest.raises(InvalidArgumentError, match="secret size of the batch.*divide by a constant"):
        DPSGD(1000, 10, 1, normaliser="drawn-batch")
    with pytest.raises(InvalidArgumentError, match="normaliser"):
        DPSGD(1000, 10, 1, normaliser="mean")


def test_a_banded_strategy_is_charged_as_groups_in_turn() -> None:
    run = DPSGD(10_000, 100, 20, strategy="banded:8")
    assert run.event(4.0) == banded_matrix_mechanism(2000, bands=8, noise_multiplier=4.0, sampling_rate=0.08)
    assert run.epsilon(4.0, 1e-6).upper == pytest.approx(1.4350, abs=1e-3)
    assert "8 groups" in run.loader and "C⁻¹" in run.assumptions[2]
    assert all(one.strategy is None for one in run.others())
    one = DPSGD(10_000, 100, 20)
    same = DPSGD(10_000, 100, 20, strategy="banded:1")
    assert same.epsilon(4.0, 1e-6).upper == pytest.approx(one.epsilon(4.0, 1e-6).upper, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "blt:3"}, "no amplification.*shuffle"),
        ({"strategy": "blt:0", "sampling": "shuffle"}, "from 1 to 10"),
        ({"strategy": "blt:11", "sampling": "shuffle"}, "from 1 to 10"),
        ({"strategy": "blt:-1", "sampling": "shuffle"}, "blt:D"),
        ({"strategy": "bisr:3", "sampling": "shuffle"}, "banded:K, or blt:D"),
        ({"strategy": "banded:"}, "banded:K"),
        ({"strategy": "banded:-1"}, "banded:K"),
        ({"strategy": "banded:0"}, "from 1 to 100"),
        ({"strategy": "banded:101"}, "from 1 to 100"),
        ({"strategy": "banded:4", "sampling": "shuffle"}, "Poisson"),
        ({"strategy": "banded:4", "adjacency": REPLACE, "clip": 1.0}, "Poisson"),
    ],
)
def test_strategies_without_a_bound_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DPSGD(10_000, 100, 20, **change)


def test_a_filter_of_buffers_costs_one_gaussian_mechanism_of_the_same_multiplier() -> None:
    """The noise is per sensitivity to all participations; per clip under replace-one, where a gradient moves by 2."""
    run = DPSGD(10_000, 100, 20, sampling="shuffle", strategy="blt:3")
    assert (run.buffers, run.bands, run.event(4.0)) == (3, 0, Gaussian(4.0))
    assert "the same order" in run.loader and "20 participations 100 steps apart" in run.assumptions[2]
    assert run.known_epsilon(4.0, 1e-6) is None
    replaced = DPSGD(10_000, 100, 20, sampling="shuffle", strategy="blt:3", adjacency=REPLACE, clip=1.0)
    assert replaced.event(4.0) == Gaussian(2.0)
