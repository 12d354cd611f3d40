"""Tests of loss streams of many clients: their laws, which do not depend on the blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.made_up_streams import (
    BernoulliLosses,
    ClassDistributions,
    FederatedStream,
    OneGoodExpert,
    Targets,
    UniformLosses,
    hard_gap,
)

SIZE: dict[str, Any] = {"clients": 3, "rounds": 10, "experts": 4}
STREAMS: tuple[FederatedStream, ...] = (
    UniformLosses(**SIZE),
    UniformLosses(**SIZE, best=2),
    BernoulliLosses(**SIZE),
    OneGoodExpert(**SIZE, gap=0.2),
    ClassDistributions(**SIZE),
    ClassDistributions(**SIZE, form="sampled"),
    ClassDistributions(**SIZE, form="distributions"),
    Targets(**SIZE),
)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def off(observed: float, expected: float, count: int, false_alarm: float = 1e-9) -> bool:
    """Whether a mean of so many independent numbers in [0, 1] is further off than chance (Hoeffding 1963)."""
    return abs(observed - expected) > math.sqrt(math.log(2.0 / false_alarm) / (2.0 * count))


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: type(s).__name__)
@given(block=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_cutting_changes_nothing(stream: FederatedStream, block: int, seed: int) -> None:
    whole = stream.losses(rng(seed))
    parts = list(stream.blocks(rng(seed), block=block))
    assert whole.shape == (3, 10, 4) and all(part.shape[1] == block for part in parts[:-1])
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    np.testing.assert_allclose(stream.totals(rng(seed), block=block), whole.sum(axis=0))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: type(s).__name__)
def test_a_generator_gives_one_stream_after_the_other(stream: FederatedStream) -> None:
    generator = rng()
    first, second = stream.losses(generator), stream.losses(generator)
    np.testing.assert_array_equal(first, stream.losses(rng()))
    assert (first != second).any()


@pytest.mark.parametrize("stream", STREAMS[:-1], ids=lambda s: type(s).__name__)
def test_losses_are_in_range(stream: FederatedStream) -> None:
    losses = stream.losses(rng())
    assert losses.dtype == np.float64 and losses.min() >= 0.0 and losses.max() <= 1.0


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, math.nan, "2"])
@pytest.mark.parametrize("name", ["clients", "rounds", "experts"])
def test_sizes_are_checked(name: str, bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        UniformLosses(**{**SIZE, name: bad})


@pytest.mark.parametrize("bad", [0, 2.5, True, math.inf])
def test_blocks_are_checked_at_once(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="block"):
        UniformLosses(**SIZE).blocks(rng(), block=bad)
    with pytest.raises(InvalidArgumentError, match="block"):
        UniformLosses(**SIZE).totals(rng(), block=bad)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (UniformLosses, {"best": 4}),
        (UniformLosses, {"best": -1}),
        (OneGoodExpert, {"gap": 0.6}),
        (OneGoodExpert, {"gap": math.nan}),
        (OneGoodExpert, {"gap": 0.1, "best": 4}),
        (BernoulliLosses, {"low": 0.6}),
        (BernoulliLosses, {"low": -0.1}),
        (BernoulliLosses, {"high": 1.1}),
        (ClassDistributions, {"form": "other"}),
        (ClassDistributions, {"mean_low": 2.0}),
        (ClassDistributions, {"mean_high": math.inf}),
        (ClassDistributions, {"variance_low": -1.0}),
        (ClassDistributions, {"variance_low": 2.0}),
        (Targets, {"spread": 0.0}),
        (Targets, {"spread": True}),
    ],
)
def test_parameters_are_checked(kind: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        kind(**SIZE, **arguments)


def test_equal_numbers_of_other_types() -> None:
    assert OneGoodExpert(**SIZE, gap=0.5, best=2) == OneGoodExpert(**SIZE, gap=Fraction(1, 2), best=2.0)


# --- each of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [None, 0, 2])
def test_uniform_losses_have_their_law(best: int | None) -> None:
    """False alarms 1e-9 per mean; the losses' squares as losses, a planted violation, are caught."""
    losses = UniformLosses(clients=20, rounds=500, experts=4, best=best).losses(rng())
    (zero,) = np.flatnonzero(~losses.any(axis=(0, 1)))
    assert best is None or zero == best
    others = np.delete(losses, zero, axis=2)
    assert not any(off(mean, 0.5, 10_000) for mean in others.mean(axis=(0, 1)))
    assert off(float((others**2).mean()), 0.5, others.size)


def test_the_best_expert_is_drawn() -> None:
    """A false alarm (one of 4 experts is never drawn in 100 streams) has probability below 4 * 0.75^100 < 2e-12."""
    stream = UniformLosses(clients=1, rounds=1, experts=4)
    assert {int(np.flatnonzero(stream.losses(rng(seed))[0, 0] == 0.0)[0]) for seed in range(100)} == {0, 1, 2, 3}


def test_bernoulli_losses_have_their_law() -> None:
    """False alarms 1e-9 per mean; losses of mean 1/2 where 0.4 is meant, a planted violation, are caught."""
    losses = BernoulliLosses(clients=20, rounds=1000, experts=3, low=0.4, high=0.4).losses(rng())
    assert set(np.unique(losses)) == {0.0, 1.0}
    assert not any(off(mean, 0.4, 20_000) for mean in losses.mean(axis=(0, 1)))
    wrong = BernoulliLosses(clients=20, rounds=1000, experts=3, low=0.5, high=0.5).losses(rng())
    assert all(off(mean, 0.4, 20_000) for mean in wrong.mean(axis=(0, 1)))
    drawn = BernoulliLosses(clients=50, rounds=1000, experts=30).losses(rng()).mean(axis=(0, 1))
    assert drawn.min() > 0.38 and drawn.max() < 0.52 and np.ptp(drawn) > 0.05


def test_the_best_expert_has_the_stated_gap() -> None:
    """False alarms 1e-9 per mean; half the gap, a planted violation, is caught."""
    losses = OneGoodExpert(clients=20, rounds=2000, experts=3, gap=0.1, best=1).losses(rng())
    means = losses.mean(axis=(0, 1))
    assert not any(off(mean, want, 40_000) for mean, want in zip(means, (0.5, 0.4, 0.5), strict=True))
    assert off(means[1], 0.45, 40_000)
    assert not OneGoodExpert(clients=2, rounds=50, experts=3, gap=0.5, best=2).losses(rng())[:, :, 2].any()


def test_class_distributions_are_softmaxes() -> None:
    stream = ClassDistributions(clients=2, rounds=5, experts=3, form="distributions", mean_low=-1.0, variance_high=4.0)
    generator = rng(7)
    means, deviations = generator.uniform(-1.0, 1.0, 3), np.sqrt(generator.uniform(0.0, 4.0, 3))
    scores = means + deviations * generator.spawn(1)[0].standard_normal((5, 2, 3))
    np.testing.assert_allclose(stream.losses(rng(7)), softmax(scores, axis=2).swapaxes(0, 1), rtol=1e-12)
    even = ClassDistributions(**SIZE, form="distributions", mean_low=0.5, mean_high=0.5, variance_high=0.0)
    np.testing.assert_array_equal(even.losses(rng()), 0.25)


def test_large_scores_overflow_nothing() -> None:
    stream = ClassDistributions(**SIZE, mean_low=-1e5, mean_high=1e5)
    assert np.isfinite(stream.losses(rng())).all()


def test_expected_losses_are_what_sampled_ones_are_on_average() -> None:
    """False alarms 1e-9 per class (Hoeffding's bound for martingales: differences lie in an interval of length 1).

    Planted violation: labels one class too far.
    """
    sizes: dict[str, Any] = {"clients": 20, "rounds": 1000, "experts": 5, "mean_high": 3.0}
    p = ClassDistributions(**sizes, form="distributions").losses(rng())
    expected = ClassDistributions(**sizes).losses(rng())
    sampled = ClassDistributions(**sizes, form="sampled").losses(rng())
    np.testing.assert_array_equal(expected, 1.0 - p)
    assert ((sampled == 0.0).sum(axis=2) == 1).all() and ((sampled == 1.0).sum(axis=2) == 4).all()

    def wrong(labels: np.ndarray[Any, Any]) -> list[bool]:
        return [off(float(difference), 0.0, 20_000) for difference in (labels - expected).mean(axis=(0, 1))]

    assert not any(wrong(sampled))
    assert any(wrong(np.roll(sampled, 1, axis=2)))


def test_target_losses_stay_within_their_spread() -> None:
    """False alarms 1e-9 per coordinate; a centre moved by a tenth of the spread, a planted violation, is caught."""
    stream = Targets(clients=10, rounds=1000, experts=3, spread=0.2)
    y, centre = stream.losses(rng()), rng().dirichlet(np.ones(3))
    assert np.abs(y - centre).max() <= 0.2
    unit = (y - centre) / 0.4 + 0.5
    assert not any(off(mean, 0.5, 10_000) for mean in unit.mean(axis=(0, 1)))
    assert all(off(mean - 0.05, 0.5, 10_000) for mean in unit.mean(axis=(0, 1)))
    corners = np.eye(3)[:, None, None, :]
    assert np.abs(corners - y).max() <= 1.2  # the gradient x - y at points of the simplex


def test_the_hard_gap_is_its_closed_form() -> None:
    assert hard_gap(clients=4, records=25, experts=64, noise=0.1) == pytest.approx(0.1 + math.sqrt(math.log(64) / 100))
    with pytest.raises(InvalidArgumentError, match="noise"):
        hard_gap(clients=4, records=25, experts=64, noise=-0.1)
    with pytest.raises(InvalidArgumentError, match="records"):
        hard_gap(clients=4, records=0, experts=64, noise=0.1)
