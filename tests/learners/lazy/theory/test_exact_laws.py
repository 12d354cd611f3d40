"""Tests of the exact privacy loss of the lazy learner: published values, and no certificate falls below it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import deep_examples

from hockeystick import accounting
from hockeystick.accounting import BoundedRange, InvalidArgumentError, LazySwitchDecision, PrivacyEvent, VisibleMixture
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import LazyChain, exact_decision_loss, exact_loss
from hockeystick.learners.lazy.experts.setting import Variant


def _learner(
    n: int,
    batch: int,
    rate: float,
    p: float,
    variant: Variant = "l2p",
    *,
    normaliser: str | float = "paper",
    shadow_probability: float | None = None,
) -> LazyExperts:
    return LazyExperts(
        rounds=n * batch,
        experts=2,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=p,
        shadow_probability=shadow_probability,
        variant=variant,
        normaliser=normaliser if variant == "l2p" else "tight",
    )


def _exact(learner: LazyExperts, delta: float) -> tuple[float, float]:
    first, second = learner.worst_case_neighbours()
    return exact_loss(learner.chain(first), learner.chain(second)).epsilon(delta)


# (n, B, eta, p, delta): exact epsilon of "first batch (1, 0) against (0, 1), then nothing" with the paper's normaliser,
# from an independent dynamic programme; three decimals.
GOLDEN = [
    (200, 1, 0.05, 0.3, 1e-2, 1.129),
    (400, 1, 0.1, 0.3, 1e-2, 4.817),
    (400, 5, 0.05, 0.3, 1e-2, 2.122),
    (200, 1, 0.02, 0.1, 1e-6, 0.710),
    (50, 1, 0.05, 0.3, 1e-3, 0.737),
    (200, 1, 0.02, 0.1, 1e-3, 0.358),
    (200, 1, 0.05, 0.3, 1e-6, 2.671),
]


@pytest.mark.parametrize(("n", "batch", "rate", "p", "delta", "value"), GOLDEN)
@pytest.mark.every(3)
def test_exact_losses_agree_with_golden_values(
    n: int, batch: int, rate: float, p: float, delta: float, value: float
) -> None:
    lower, upper = _exact(_learner(n, batch, rate, p), delta)
    assert lower <= upper <= lower + 1e-6
    assert lower == pytest.approx(value, abs=8e-4)


def test_the_loss_of_a_decision_agrees_with_a_golden_value() -> None:
    """One boundary, eta = 0.01 and p = 0.2: the whole loss is (nearly) the decision's."""
    first, second = _learner(2, 1, 0.01, 0.2).worst_case_neighbours()
    chain0, chain1 = (_learner(2, 1, 0.01, 0.2).chain(stream) for stream in (first, second))
    assert exact_decision_loss(chain0, chain1).epsilon(1e-3)[0] == pytest.approx(0.055, abs=5e-4)
    assert exact_loss(chain0, chain1).epsilon(1e-4)[0] == pytest.approx(0.080, abs=5e-4)


def test_without_fake_switches_the_loss_is_infinite() -> None:
    learner = _learner(2, 1, 0.01, 0.0, normaliser="tight", shadow_probability=0.2)
    assert _exact(learner, 1e-3)[0] == math.inf
    # The paper's normaliser is twice as large as need be; its excess acts as a fake switch of its own.
    assert _exact(_learner(2, 1, 0.01, 0.0, shadow_probability=0.2), 1e-3)[0] == pytest.approx(0.943, abs=1e-3)


def _enumerated_delta(chain0: LazyChain, chain1: LazyChain, epsilon: float) -> float:
    """delta(epsilon) of one direction by listing every transcript of the dartboard chain."""
    n, d = chain0.batch_losses.shape
    table: dict[tuple[int, ...], tuple[float, float]] = {(x,): (1.0 / d, 1.0 / d) for x in range(d)}
    weights = [np.exp(chain.log_weights) for chain in (chain0, chain1)]
    for s in range(1, n):
        longer: dict[tuple[int, ...], tuple[float, float]] = {}
        for seen, (p0, p1) in table.items():
            x = np.array([seen[-1]])
            keep0, keep1 = (float(np.exp(chain.log_keep(s, x, None))[0]) for chain in (chain0, chain1))
            longer[(*seen, -1, seen[-1])] = (p0 * keep0, p1 * keep1)
            for fresh in range(d):
                fresh0, fresh1 = (float(weight[s, fresh]) for weight in weights)
                longer[(*seen, -2, fresh)] = (p0 * (1 - keep0) * fresh0, p1 * (1 - keep1) * fresh1)
        table = longer
    return float(hockey_stick(*zip(*table.values(), strict=True), epsilon))


@pytest.mark.statistical
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 3), st.integers(0, 3))
def test_bracket_holds_the_enumerated_value(seed: int, n: int, experts: int, changed: int) -> None:
    """Against brute force over all transcripts, on random streams: no lattice, so both roundings are at work."""
    assume(changed < n)
    rng = np.random.default_rng(seed)
    losses = rng.random((n, experts))
    other = losses.copy()
    other[changed] = rng.random(experts)
    rate, p = rng.uniform(0.05, 0.8), rng.uniform(0.02, 0.6)
    chain0, chain1 = (
        LazyChain(batch_losses=stream, learning_rate=rate, fake_switch_probability=p) for stream in (losses, other)
    )
    oracle = exact_loss(chain0, chain1, steps=200)
    for epsilon in (0.0, 0.03, 0.2, 0.5):
        truth = max(_enumerated_delta(chain0, chain1, epsilon), _enumerated_delta(chain1, chain0, epsilon))
        lower, upper = oracle.delta(epsilon)
        assert lower - 1e-12 <= truth <= upper + 1e-12
        assert upper - lower <= 0.02


def test_experts_treated_alike_are_merged_without_loss() -> None:
    """Two halves of ten experts have the exact curve of two experts."""
    two, ten = (LazyExperts(rounds=30, experts=d, learning_rate=0.1, fake_switch_probability=0.1) for d in (2, 10))
    curves = []
    for learner in (two, ten):
        first, second = learner.worst_case_neighbours()
        curves.append(exact_loss(learner.chain(first), learner.chain(second)))
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        assert curves[0].delta(epsilon) == pytest.approx(curves[1].delta(epsilon), rel=1e-6)


def _streams(
    rng: np.random.Generator, learner: LazyExperts, changed: int, style: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Neighbouring streams whose changed round is the first of batch ``changed``."""
    shape = (learner.rounds, learner.experts)
    losses = {
        "zero": np.zeros(shape),
        "alternating": np.tile([[1.0, 0.0], [0.0, 1.0]], (learner.rounds, 1))[: learner.rounds],
        "random": rng.integers(0, 2, shape).astype(float),
    }[style]
    first, second = losses.copy(), losses.copy()
    first[changed * learner.batch], second[changed * learner.batch] = (1.0, 0.0), (0.0, 1.0)
    return first, second


@st.composite
def _settings(draw: st.DrawFn) -> tuple[LazyExperts, int, str, int]:
    variant: Variant = draw(st.sampled_from(("l2p", "dartboard")))
    rate = math.exp(draw(st.floats(math.log(0.005), math.log(0.3))))
    p = math.exp(draw(st.floats(math.log(0.01), math.log(0.8))))
    batch = draw(st.integers(1, 4))
    horizon = draw(st.one_of(st.sampled_from((1, 2, 3)), st.integers(1, 50)))  # n - s0, short ones often
    before = draw(st.integers(0, 8))
    normaliser = draw(st.one_of(st.sampled_from(("tight", "paper")), st.sampled_from((0.0, 0.05))))
    shadow = draw(st.sampled_from((None, 0.0, 0.2))) if variant == "l2p" else None
    learner = _learner(before + 1 + horizon, batch, rate, p, variant, normaliser=normaliser, shadow_probability=shadow)
    return learner, before, draw(st.sampled_from(("zero", "alternating", "random"))), draw(st.integers(0, 10**6))


@deep_examples(18, 150, _settings())
@example((_learner(2, 1, 0.1, 0.05, "dartboard"), 0, "zero", 0))
@example((_learner(3, 1, 0.1, 0.05, "dartboard"), 0, "zero", 0))
def test_no_certificate_below_the_truth(case: tuple[LazyExperts, int, str, int]) -> None:
    """The person's certified epsilon is at least the exact one of the full view, in both directions, at every delta."""
    learner, changed, style, seed = case
    first, second = _streams(np.random.default_rng(seed), learner, changed, style)
    oracle = exact_loss(learner.chain(first), learner.chain(second), steps=32)
    person = learner.graph().guarantee_for("batches", member=changed + 1)
    whole = learner.graph().guarantee()
    for delta in (1e-2, 1e-4, 1e-8):
        exact, certified = oracle.epsilon(delta)[0], person.epsilon(delta).upper
        assert exact <= certified * (1 + 1e-9)
        assert certified <= whole.epsilon(delta).upper * (1 + 1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(("people", "exact", "by_rdp"), [(1, 0.756, 0.908), (2, 1.621, 1.932), (4, 3.536, 4.177)])
def test_golden_group_in_one_batch(people: int, exact: float, by_rdp: float) -> None:
    """Several people of the first batch change together: (200, 4, 0.02, 0.2) at delta = 1e-5, three decimals."""
    learner = _learner(200, 4, 0.02, 0.2)
    first, second = np.zeros((800, 2)), np.zeros((800, 2))
    first[:people, 0], second[:people, 1] = 1.0, 1.0
    truth = exact_loss(learner.chain(first), learner.chain(second)).epsilon(1e-5)[0]
    assert truth == pytest.approx(exact, abs=8e-4)
    certified = learner.graph().guarantee(group=people).epsilon(1e-5).upper
    assert truth <= certified <= by_rdp + 2e-3


# --- accounting that charges too little: the oracle must show it below the truth ------------------------------------


def _charged(
    rate: float, keep: float, redraw: float, shadow: float, n: int, *, full_draw: bool = True, width: float = 2.0
) -> PrivacyEvent:
    draw = BoundedRange(width * rate)
    return accounting.compose(
        LazySwitchDecision(keep, 2 * rate),
        (draw, int(full_draw)),
        (VisibleMixture(redraw, draw), n - 2 + (not full_draw)),
        (VisibleMixture(shadow, draw), n - 1),
    )


@pytest.mark.statistical
def test_accounting_mutants_fall_below_the_truth() -> None:
    """Half the draw's width; no shadow draws; a tenth of the steps."""
    n, rate, p, delta = 400, 0.1, 0.3, 1e-2
    exact = _exact(_learner(n, 1, rate, p), delta)[0]
    redraw = 1 - (1 - p) * math.exp(-3 * rate)
    keep = (1 - p) * math.exp(-rate)
    correct = accounting.epsilon(_charged(rate, keep, redraw, p, n), delta).upper
    assert exact <= correct == pytest.approx(5.932, abs=2e-3)
    for name, mutant in {
        "half the width": _charged(rate, keep, redraw, p, n, width=1.0),
        "shadow not charged": _charged(rate, keep, redraw, 0.0, n),
        "a tenth of the steps": _charged(rate, keep, redraw, p, n // 10),
    }.items():
        assert accounting.epsilon(mutant, delta).upper < exact, name


def test_coin_of_the_deciding_boundary_gives_no_discount() -> None:
    """The draw on the decision's own branch, charged as a visible mixture, is below the truth at n = 2."""
    rate, p, delta = 0.1, 0.05, 1e-3
    learner = _learner(2, 1, rate, p, "dartboard")
    exact = _exact(learner, delta)[0]
    redraw = 1 - (1 - p) * math.exp(-rate)
    mutant = accounting.compose(LazySwitchDecision(1 - p, rate), VisibleMixture(redraw, BoundedRange(2 * rate)))
    assert accounting.epsilon(mutant, delta).upper == pytest.approx(1.032, abs=2e-3)
    assert accounting.epsilon(mutant, delta).upper < exact == pytest.approx(1.105, abs=1e-3)
    assert exact < learner.graph().guarantee().epsilon(delta).upper == pytest.approx(1.159, abs=1e-3)


@pytest.mark.statistical
def test_real_switches_must_be_charged() -> None:
    """Only fake switches counted (r_x = p), where later batches alternate and make most switches real."""
    n, batch, rate, p, delta = 1000, 10, 0.02, 0.02, 1e-2
    learner = _learner(n, batch, rate, p)
    losses = np.repeat(np.tile([[1.0, 0.0], [0.0, 1.0]], (n // 2, 1)), batch, axis=0)
    other = losses.copy()
    other[0] = (0.0, 1.0)
    exact = exact_loss(learner.chain(losses), learner.chain(other), steps=8).epsilon(delta)[0]
    keep = (1 - p) * math.exp(-batch * rate)
    mutant = accounting.epsilon(_charged(rate, keep, p, p, n), delta).upper
    assert mutant < exact
    assert exact <= learner.graph().guarantee().epsilon(delta).upper


# --- arguments -------------------------------------------------------------------------------------------------------


def test_equal_streams_and_the_last_batch_lose_nothing() -> None:
    learner = _learner(5, 2, 0.1, 0.1)
    losses = np.zeros((10, 2))
    other = losses.copy()
    other[-1] = (1.0, 0.0)
    assert exact_loss(learner.chain(losses), learner.chain(losses)).epsilon(0.0) == (0.0, 0.0)
    assert exact_loss(learner.chain(losses), learner.chain(other)).epsilon(0.0)[0] == 0.0


@pytest.mark.statistical
def test_bad_arguments_are_refused() -> None:
    learner = _learner(5, 1, 0.1, 0.1)
    losses = np.zeros((5, 2))
    other = losses.copy()
    other[0], other[3] = (1.0, 0.0), (1.0, 0.0)
    with pytest.raises(InvalidArgumentError, match="several batches"):
        exact_loss(learner.chain(losses), learner.chain(other))
    with pytest.raises(InvalidArgumentError, match="another learning_rate"):
        exact_loss(learner.chain(losses), _learner(5, 1, 0.2, 0.1, normaliser=0.2).chain(losses))
    large = LazyExperts(rounds=2000, experts=8, learning_rate=0.1, fake_switch_probability=0.1)
    rng = np.random.default_rng(0)
    stream = rng.random((2000, 8))
    changed = stream.copy()
    changed[0] = rng.random(8)
    with pytest.raises(InvalidArgumentError, match="cells"):
        exact_loss(large.chain(stream), large.chain(changed))
