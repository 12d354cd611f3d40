"""Tests of whole runs of exponential weights on private messages, against a plain loop over rounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.distribution import runs as engine
from hockeystick.learners.distribution.runs import KLRisk, Losses, play, replay

EXACT = 1e-9


def laws(rng: np.random.Generator, experts: int, labels: int) -> np.ndarray:
    return rng.dirichlet(np.full(labels, 0.7), experts)


def kl(law: np.ndarray, other: np.ndarray) -> float:
    kept = law > 0
    return float(np.sum(law[kept] * np.log(law[kept] / other[kept])))


def by_loop(
    index: np.ndarray | None,
    losses: np.ndarray,
    truth: np.ndarray,
    masses: np.ndarray,
    *,
    rate: float,
    block: int = 1,
    contexts: np.ndarray | None = None,
    late: bool = False,
    sign: float = 1.0,
) -> np.ndarray:
    """The risk of each round of one run, one round at a time; ``late`` and ``sign`` plant mistakes."""
    experts, rounds = masses.shape[-2], len(losses)
    total, waiting, found = np.zeros(experts), np.zeros(experts), np.empty(rounds)
    for t in range(rounds):
        at = () if contexts is None else (contexts[t],)
        message = losses[t] if index is None else np.eye(experts)[index[t]] * losses[t]
        seen = total + (message if late else 0.0)
        found[t] = kl(truth[at], softmax(-sign * rate * seen) @ masses[at])
        waiting = waiting + message
        if (t + 1) % block == 0:
            total, waiting = total + waiting, np.zeros(experts)
    return found


def messages(rng: np.random.Generator, runs: int, rounds: int, experts: int, *, vector: bool) -> Losses:
    if vector:
        return None, rng.normal(size=(runs, rounds, experts))
    return rng.integers(0, experts, (runs, rounds)), rng.normal(size=(runs, rounds))


# --- the risk of one prediction --------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), experts=st.integers(2, 6), kinds=st.integers(2, 6), copies=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_risk_is_the_divergence_and_depends_only_on_kinds_of_labels(
    seed: int, experts: int, kinds: int, copies: int
) -> None:
    rng = np.random.default_rng(seed)
    masses = np.repeat(laws(rng, experts, kinds), copies, axis=1) / copies
    truth = rng.dirichlet(np.full(kinds * copies, 0.5))
    truth[0] = 0.0
    truth /= truth.sum()
    risk = KLRisk.finite(truth, masses)
    weights = rng.random((3, experts, 4)) + 1e-3
    expected = [[kl(truth, w[:, t] @ masses / w[:, t].sum()) for t in range(4)] for w in weights]
    np.testing.assert_allclose(risk.of(weights), expected, atol=1e-12)
    assert len(risk.truth) <= kinds and risk.experts == experts


def test_labels_that_differ_by_a_factor_only_are_one_column() -> None:
    masses = np.array([[0.1, 0.2, 0.7], [0.2, 0.4, 0.4]])
    risk = KLRisk.finite(masses[1], masses)
    assert len(risk.truth) == 2
    assert risk.of(np.array([[1.0], [0.0]]))[0] == pytest.approx(kl(masses[1], masses[0]), abs=1e-15)


def test_risk_of_densities_is_that_of_normal_laws() -> None:
    nodes, step = np.linspace(-14.0, 15.0, 4001, retstep=True)
    logs = stats.norm.logpdf(nodes[None], loc=np.array([[0.0], [1.5]]))
    risk = KLRisk.quadrature(np.full(len(nodes), step), logs[0], logs)
    assert risk.of(np.array([[1e-300], [1.0]]))[0] == pytest.approx(1.5**2 / 2, abs=1e-12)
    assert risk.of(np.array([[1.0], [1e-300]]))[0] == pytest.approx(0.0, abs=1e-12)


def test_infinite_risks_and_bad_laws_are_refused() -> None:
    some = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
    assert KLRisk.finite([0.5, 0.5, 0.0], some).experts == 2
    bad: list[tuple[Any, Any]] = [
        ([0.5, 0.25, 0.25], some),  # the prediction has no mass where the truth has
        ([0.5, 0.5], some),
        ([0.5, 0.6, 0.0], some),
        ([1.5, -0.5, 0.0], some),
        ([math.nan, 0.5, 0.5], some),
        ([0.5, 0.5, 0.0], -some),
        ([0.5, 0.5, 0.0], some[0]),
    ]
    for truth, masses in bad:
        with pytest.raises(InvalidArgumentError):
            KLRisk.finite(truth, masses)
    for log_masses in (np.full((2, 2), math.nan), np.full((2, 2), math.inf), np.zeros(2), np.zeros((2, 3))):
        with pytest.raises(InvalidArgumentError):
            KLRisk.quadrature([1.0, 1.0], [-1.0, -1.0], log_masses)
    with pytest.raises(InvalidArgumentError):
        KLRisk.quadrature([1.0, 1.0], [math.nan, -1.0], np.zeros((2, 2)))


# --- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(
    seed=st.integers(0, 2**32 - 1),
    rounds=st.integers(1, 40),
    block=st.integers(1, 7),
    experts=st.integers(2, 5),
    vector=st.booleans(),
    many=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_runs_are_the_loop(seed: int, rounds: int, block: int, experts: int, vector: bool, many: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = (3,) if many else ()
    masses = rng.dirichlet(np.ones(4), (*shape, experts))
    truth = rng.dirichlet(np.ones(4), shape or None)
    contexts = rng.integers(0, 3, rounds) if many else None
    index, losses = messages(rng, 2, rounds, experts, vector=vector)
    risks = [KLRisk.finite(f, p) for f, p in zip(truth, masses, strict=True)] if many else KLRisk.finite(truth, masses)
    marks = sorted({1, (rounds + 1) // 2})
    found = play(
        replay(index, losses), risks, rounds=rounds, runs=2, rate=0.3, block=block, contexts=contexts, marks=marks
    )
    assert found.marks[-1] == rounds
    for run in range(2):
        one = None if index is None else index[run]
        each = by_loop(one, losses[run], truth, masses, rate=0.3, block=block, contexts=contexts)
        assert found.risk[run] == pytest.approx(each.sum(), abs=EXACT)
        np.testing.assert_allclose(found.curve[run], np.cumsum(each)[found.marks - 1], atol=EXACT)
        if one is not None:
            np.testing.assert_array_equal(found.counts[run], np.bincount(one, minlength=experts))


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("block", [1, 4])
def test_chunks_and_marks_change_nothing(monkeypatch: pytest.MonkeyPatch, vector: bool, block: int) -> None:
    rng = np.random.default_rng(7)
    masses = laws(rng, 3, 5)
    index, losses = messages(rng, 2, 101, 3, vector=vector)
    risk = KLRisk.finite(masses[0], masses)
    whole = play(replay(index, losses), risk, rounds=101, runs=2, rate=0.2, block=block)
    monkeypatch.setattr(engine, "_CELLS", 48)
    pieces = play(replay(index, losses), risk, rounds=101, runs=2, rate=0.2, block=block, marks=[9, 50])
    np.testing.assert_allclose(pieces.risk, whole.risk, atol=EXACT)
    np.testing.assert_allclose(pieces.mean_weights, whole.mean_weights, atol=1e-12)
    np.testing.assert_allclose(pieces.totals, whole.totals, atol=1e-12)
    assert list(pieces.marks) == ([9, 50, 101] if block == 1 else [12, 52, 101])
    np.testing.assert_allclose(whole.mean_weights.sum(axis=1), 1.0, atol=1e-12)


def test_memory_does_not_grow_with_the_rounds() -> None:
    longest = 0

    def source(first: int, last: int) -> Losses:
        nonlocal longest
        longest = max(longest, last - first)
        return np.zeros((1, last - first), dtype=np.intp), np.zeros((1, last - first))

    risk = KLRisk.finite([0.5, 0.5], [[0.5, 0.5], [0.9, 0.1]])
    play(source, risk, rounds=200_000, runs=1, rate=0.1, block=10)
    assert longest <= 2**15


def test_a_message_is_not_used_before_its_round_is_over() -> None:
    rng = np.random.default_rng(11)
    masses = laws(rng, 3, 4)
    index, losses = messages(rng, 1, 30, 3, vector=False)
    risk = KLRisk.finite(masses[0], masses)

    def curve(values: np.ndarray) -> np.ndarray:
        return np.asarray(play(replay(index, values), risk, rounds=30, runs=1, rate=0.5, marks=range(1, 31)).curve[0])

    changed = losses.copy()
    changed[0, 17] += 3.0
    before, after = curve(losses), curve(changed)
    np.testing.assert_allclose(before[:18], after[:18], atol=1e-12)  # round 17 itself does not see its message
    assert abs((after[18] - after[17]) - (before[18] - before[17])) > 1e-3
    # Mutants: a prediction that uses its own round's message, and one with the loss' sign turned round.
    assert index is not None
    for late, sign in ((True, 1.0), (False, -1.0)):
        off = by_loop(index[0], losses[0], masses[0], masses, rate=0.5, late=late, sign=sign)
        assert abs(off.sum() - before[-1]) > 1e-3


def test_mean_losses_are_over_the_messages_that_spoke_of_the_expert() -> None:
    index, losses = np.array([[0, 0, 1]]), np.array([[1.0, 3.0, 5.0]])
    risk = KLRisk.finite([0.5, 0.5], [[0.5, 0.5]] * 3)
    found = play(replay(index, losses), risk, rounds=3, runs=1, rate=0.1).mean_losses()
    np.testing.assert_array_equal(found, [[2.0, 5.0, math.nan]])


def test_bad_arguments_are_refused() -> None:
    risk = KLRisk.finite([0.5, 0.5], [[0.5, 0.5], [0.9, 0.1]])
    index, losses = np.zeros((1, 4), dtype=np.intp), np.zeros((1, 4))
    right: dict[str, Any] = {"source": replay(index, losses), "risks": risk, "rounds": 4, "runs": 1, "rate": 0.1}
    assert play(**right).rounds == 4
    wrong: list[dict[str, Any]] = [
        {"rounds": 0},
        {"rounds": True},
        {"runs": 0},
        {"runs": 2},
        {"rate": -0.1},
        {"rate": math.nan},
        {"block": 0},
        {"marks": [5]},
        {"marks": [0]},
        {"contexts": [0, 0, 0]},
        {"contexts": [0, 0, 0, 1]},
        {"contexts": [0, 0, 0, 0.5]},
        {"contexts": [0, 0, 0, math.nan]},
        {"risks": [risk, risk]},
        {"source": replay(index, losses + math.nan)},
        {"source": replay(index + 2, losses)},
        {"source": replay(index - 1, losses)},
        {"source": replay(index, losses[:, :3])},
        {"source": replay(None, losses)},
        {"source": replay(None, np.zeros((1, 4, 3)))},
    ]
    for change in wrong:
        with pytest.raises(InvalidArgumentError):
            play(**(right | change))
    with pytest.raises(InvalidArgumentError):
        replay(np.zeros((1, 4)), losses)
