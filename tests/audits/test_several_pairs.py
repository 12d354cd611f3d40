"""Audits of several pairs: the order of halving, the shares of the level, and what is said of every pair."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hockeystick as hs
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import several_pairs
from hockeystick.audits.several_pairs import audit_pairs
from hockeystick.audits.verdicts.verdict import Verdict

CONFIDENCE = 1 - 1e-6


def laplace(data, rng, runs):
    """A number with Laplace noise; ``data`` has the epsilon and the number."""
    epsilon, value = data
    return value + rng.laplace(0.0, 1 / epsilon, runs)


def reused(data, rng, runs):
    """Two answers with the same noise: each is 1-DP, and their difference is exact."""
    return np.array(data) + rng.laplace(0.0, 2.0, (runs, 1))


def of_epsilons(*epsilons: float) -> list[tuple[Any, Any]]:
    return [((epsilon, 0.0), (epsilon, 1.0)) for epsilon in epsilons]


TEMPLATE = hs.audit(laplace, claim=(1.0, 0.0), neighbours=of_epsilons(1.0)[0], samples=100, rng=0)


class Spy:
    """Stands for the audit of one pair: remembers the calls and answers with given right and wrong guesses."""

    def __init__(self, template, counts, refuted=()):
        self.template, self.counts, self.refuted = template, counts, refuted
        self.calls: list[dict[str, Any]] = []

    def __call__(self, **given: Any) -> Verdict:
        self.calls.append(given)
        number, samples = given["neighbours"][0], given["samples"] or 100_000
        right, wrong = self.counts[number]
        found: Verdict = attrs.evolve(
            self.template,
            outcome="refuted" if number in self.refuted else "consistent",
            confidence=given["confidence"],
            samples=samples,
            planned=samples,
            seed=given["rng"],
            trials=samples,
            count_p=right,
            count_q=wrong,
            count_back_p=0,
            count_back_q=0,
        )
        return found


def audited(spy: Spy, count: int, **options: Any) -> Verdict:
    given: dict[str, Any] = {"samples": 100_000, "confidence": 0.95, "seed": 3, "first_look": True, "last": {}}
    return audit_pairs(spy, tuple((j, -j) for j in range(count)), **{**given, **options})


@given(st.integers(2, 70), st.integers(64 * 4, 10**7), st.booleans())
def test_outputs_and_level_are_never_overspent(count, samples, first_look) -> None:
    """Of any number of pairs and outputs: half of the outputs and the level's shares are for the last pair."""
    spy = Spy(TEMPLATE, {j: (3 * (j + 1), 1) for j in range(count)})
    if samples < (4 if count == 2 else 2) * 64 * count:
        with pytest.raises(InvalidArgumentError, match="give at least"):
            audited(spy, count, samples=samples, first_look=first_look)
        return

    verdict = audited(spy, count, samples=samples, first_look=first_look)

    *choosing, last = spy.calls
    drawn = sum(call["samples"] for call in choosing)
    assert drawn <= samples // (4 if count == 2 else 2)
    assert last["samples"] == samples - drawn and verdict.samples == samples
    assert all(call["samples"] >= 64 for call in choosing)
    looks = choosing[:count]  # of these alone a refutation counts, if there is a look at all
    looked = first_look and looks[0]["samples"] >= 500
    spent = (sum(1 - call["confidence"] for call in looks) if looked else 0.0) + 1 - last["confidence"]
    assert spent == pytest.approx(0.05, rel=1e-9)
    assert len({call["rng"] for call in spy.calls}) == len(spy.calls)  # the last outputs are in no choice
    assert last["neighbours"][0] == count - 1 == verdict.pair - 1
    assert verdict.confidence == 0.95 and verdict.level == pytest.approx(1 - last["confidence"])


def test_half_of_the_pairs_are_left_after_each_round() -> None:
    spy = Spy(TEMPLATE, {j: (50 + j, 50) for j in range(9)})

    verdict = audited(spy, 9, samples=None)

    numbers = [call["neighbours"][0] for call in spy.calls]
    assert numbers == [*range(9), *range(4, 9), *range(6, 9), *range(7, 9), 8]
    assert verdict.pair == 9
    assert [one.samples for one in verdict.pairs][:2] == [2000, 2000]
    assert spy.calls[-1]["samples"] is None


def test_a_rare_leak_stays_though_its_share_is_small() -> None:
    counts = {j: (60, 10) for j in range(8)} | {5: (3, 0)}
    kept, forgotten = Spy(TEMPLATE, counts), Spy(TEMPLATE, counts | {5: (2, 0)})
    audited(kept, 8)
    audited(forgotten, 8)

    def audits_of_the_leak(spy):
        return sum(call["neighbours"][0] == 5 for call in spy.calls)

    assert audits_of_the_leak(kept) == 3 > audits_of_the_leak(forgotten) == 1


def test_the_first_look_ends_with_the_first_refuted_pair() -> None:
    spy = Spy(TEMPLATE, {j: (50, 50) for j in range(4)}, refuted=(1, 3))

    verdict = audited(spy, 4)

    assert [call["neighbours"][0] for call in spy.calls] == [0, 1]
    assert verdict.refuted and verdict.pair == 2 and verdict.stopped
    assert verdict.level == pytest.approx(0.05 / 20 / 4)
    assert verdict.pairs[2].samples == 0 and "pair 3: not reached" in str(verdict)


def test_a_round_without_a_share_of_the_level_refutes_nothing() -> None:
    spy = Spy(TEMPLATE, {j: (50, 50) for j in range(4)}, refuted=(1,))

    verdict = audited(spy, 4, samples=1000)  # fewer than 500 outputs in the first round

    assert verdict.pair == 1 and not verdict.refuted
    assert 1 - spy.calls[-1]["confidence"] == pytest.approx(0.05)


@pytest.mark.statistical
def test_noise_that_is_used_twice_is_refuted_on_the_pair_where_one_answer_differs() -> None:
    edge, ordinary = ((0.0, 0.0), (1.0, 1.0)), ((0.0, 0.0), (1.0, 0.0))
    alone = hs.audit(reused, claim=(1.0, 0.0), neighbours=edge, samples=50_000, rng=1, confidence=CONFIDENCE)

    both = hs.audit(reused, claim=(1.0, 0.0), neighbours=[edge, ordinary], rng=1, confidence=CONFIDENCE)

    assert not alone.refuted
    assert both.refuted and both.pair == 2 and both.stopped
    assert "pair 2 of 2: d0 = (0.0, 0.0), d1 = (1.0, 0.0)" in str(both)
    assert Verdict.from_json(both.to_json()) == both
    again = hs.audit(reused, claim=(1.0, 0.0), neighbours=[edge, ordinary], rng=1, confidence=CONFIDENCE)
    assert attrs.evolve(again, seconds=0.0) == attrs.evolve(both, seconds=0.0)


@pytest.mark.statistical
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.deep)], ids=str)
def test_one_false_pair_of_ten_is_found_and_ten_true_ones_stand(seeds: range) -> None:
    """A false refutation of the true claims has probability at most 1e-6. Of 40 false ones elsewhere, 40 fell."""
    for seed in seeds:
        epsilons = [0.6] * 10
        epsilons[seed % 10] = 2.0
        found = hs.audit(
            laplace, claim=(1.0, 0.0), neighbours=of_epsilons(*epsilons), samples=1500, rng=seed, confidence=0.95
        )
        assert found.refuted and found.pair == seed % 10 + 1

    true = hs.audit(
        laplace, claim=(1.0, 0.0), neighbours=of_epsilons(*[1.0] * 10), samples=20_000, rng=0, confidence=CONFIDENCE
    )
    assert not true.refuted
    assert "pair " in str(true) and len(true.pairs) == 10


def test_a_list_is_never_read_as_one_pair() -> None:
    for wrong in ([0.0, 1.0], [(1, 2), 3], [], [(0, 1, 2)]):
        with pytest.raises(InvalidArgumentError, match="give a tuple"):
            hs.audit(laplace, claim=(1.0, 0.0), neighbours=wrong, samples=100)
    several: Any = of_epsilons(1.0, 2.0)
    with pytest.raises(InvalidArgumentError, match="give a tuple"):
        hs.audits.sequential_audit(laplace, claim=(1.0, 0.0), neighbours=several)
    one = hs.audit(laplace, claim=(1.0, 0.0), neighbours=of_epsilons(0.5), samples=100, rng=1)
    assert one.pair == 0 and not one.pairs


def test_a_checkpoint_of_several_pairs_needs_a_seed(tmp_path) -> None:
    with pytest.raises(InvalidArgumentError, match="seed"):
        hs.audit(laplace, claim=(1.0, 0.0), neighbours=of_epsilons(1.0, 2.0), checkpoint=tmp_path / "audit.json")


@pytest.mark.parametrize(("pair", "count"), [(0, 2), (3, 2), (1, 0)])
def test_a_pair_that_is_not_there_is_refused(pair, count) -> None:
    plain = TEMPLATE.to_dict() | {"pair": pair}
    plain["pairs"] = [{"d0": "0", "d1": "1", "samples": 5, "excess": 0.5}] * count

    with pytest.raises(InvalidArgumentError, match="pair"):
        Verdict.from_dict(plain)
    for field, value in (("excess", math.inf), ("samples", -1), ("d0", 1)):
        row = {"d0": "0", "d1": "1", "samples": 5, "excess": 0.5, field: value}
        with pytest.raises(InvalidArgumentError, match=field):
            Verdict.from_dict({**plain, "pair": 1, "pairs": [row]})


def test_the_share_of_the_level_is_what_makes_the_look_sound(monkeypatch) -> None:
    """With the whole level in the look and again at the end, the shares add up to more than the level."""
    monkeypatch.setattr(several_pairs, "_SHARE", 1.0)
    spy = Spy(TEMPLATE, {j: (50, 50) for j in range(4)})

    audited(spy, 4)

    assert 1 - spy.calls[-1]["confidence"] == 0.0  # nothing is left for the last pair


# --- claims by pair ---------------------------------------------------------------------------------------------------


def test_each_pair_is_audited_at_its_own_claim_and_the_level_is_shared_as_before() -> None:
    claims = tuple(hs.Claim(1.0 + j, 1e-6 * j) for j in range(4))
    spy, plain = (Spy(TEMPLATE, {j: (50 + j, 50) for j in range(4)}) for _ in range(2))

    verdict = audited(spy, 4, claims=claims)
    audited(plain, 4)

    assert all(call["claim"] == claims[call["neighbours"][0]] for call in spy.calls)
    stated = [{name: value for name, value in call.items() if name != "claim"} for call in spy.calls]
    assert stated == plain.calls
    assert [one.claim for one in verdict.pairs] == ["(1, 0)", "(2, 1e-06)", "(3, 2e-06)", "(4, 3e-06)"]
    assert "pair 4 of 4, claim (4, 3e-06): d0 = 3" in str(verdict) and "pair 1, claim (1, 0): " in str(verdict)
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.statistical
def test_claims_of_users_with_their_own_epsilon_are_refuted_if_one_of_them_is_false() -> None:
    epsilons = (0.5, 1.0, 2.0)
    pairs = of_epsilons(*epsilons)
    given_samples: dict[str, Any] = {"samples": 30_000, "rng": 1, "confidence": CONFIDENCE}

    true = hs.audit(laplace, claim=[hs.Claim(one) for one in epsilons], neighbours=pairs, **given_samples)
    largest = hs.audit(laplace, claim=(2.0, 0.0), neighbours=pairs, **given_samples)
    false = hs.audit(laplace, claim=[(0.5, 0.0), (0.5, 0.0), (2.0, 0.0)], neighbours=pairs, **given_samples)

    assert not true.refuted and true.epsilon_lower <= epsilons[true.pair - 1]
    assert not largest.refuted  # one claim for all would have to be the weakest
    assert false.refuted and false.pair == 2 and (false.epsilon_claimed, false.delta) == (0.5, 0.0)
    assert 0.5 < false.epsilon_lower <= 1.0


@pytest.mark.statistical
def test_groups_have_the_claims_of_their_size() -> None:
    """Groups of k people move a count by k: the event's curve at distance k holds, and that of one person does not."""
    event, pairs = hs.events.Gaussian(1.0), [(0.0, 1.0), (0.0, 3.0)]
    count = hs.mechanisms.Gaussian(1.0)
    options: dict[str, Any] = {"samples": 20_000, "rng": 1, "confidence": CONFIDENCE}

    true = hs.audit(count, claim=[event.at(1.0), event.at(3.0)], neighbours=pairs, **options)
    false = hs.audit(count, claim=[event.at(1.0), event.at(1.0)], neighbours=pairs, **options)

    assert not true.refuted and true.pairs[0].claim.endswith(" as a curve")
    assert false.refuted and false.pair == 2


@pytest.mark.parametrize(
    ("claim", "neighbours", "reason"),
    [
        ([(1.0, 0.0), (2.0, 0.0)], (0.0, 1.0), "is a list of 2 claims for one pair"),
        ([(1.0, 0.0)], of_epsilons(1.0, 2.0), "is a list of 1 claims for 2 pairs"),
        ([(1.0, 0.0), "high"], of_epsilons(1.0, 2.0), "is not a claim"),
        ([1.0, 1.0, 1.0], of_epsilons(1.0, 2.0, 3.0), "is not a claim"),
    ],
)
def test_claims_that_do_not_fit_the_pairs_are_refused(claim: Any, neighbours: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^claim=.*{reason}"):
        hs.audit(laplace, claim=claim, neighbours=neighbours, samples=1000, rng=1)


def test_a_list_of_two_numbers_is_one_claim_and_one_pair_may_have_a_list_of_one() -> None:
    options: dict[str, Any] = {"samples": 1000, "rng": 1}
    both = hs.audit(laplace, claim=[1.0, 0.5], neighbours=of_epsilons(1.0, 1.0), **options)
    assert (both.epsilon_claimed, both.delta) == (1.0, 0.5) and not both.pairs[0].claim
    alone = hs.audit(laplace, claim=[(1.0, 0.25)], neighbours=of_epsilons(1.0), **options)
    assert (alone.epsilon_claimed, alone.delta, alone.pair) == (1.0, 0.25, 0)
