"""Tests of the check of a base measure: suitable measures pass, and every violated condition is named."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from attrs import frozen
from divergences import hockey_stick
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.transform.measure_checks import FiniteMeasure, MultiplicativeMeasure, check_measure

CUBE = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
ORDER = "the order of losses does not matter"
RATIO = "the ratio depends on the last loss and x alone"
CLOSE = "consecutive measures are (eta, delta0)-close"
NEIGHBOURS = "neighbours are (2 eta, (1+e^eta) delta0)-close"


@frozen
class _Measure:
    """Weights exp(-sum of rate(t) * loss_t), with claims and rates that may be wrong."""

    eta: float = 0.1
    delta0: float = 0.0
    rate: float = 0.1
    decay: float = 0.0  # rates fall like t^-decay
    forget: float = 1.0  # older losses count less by this factor per round
    normalise: bool = False
    floor: float = 0.0  # mixes this much of the uniform law in
    ratio_width: float | None = None

    def log_measure(self, losses: FloatArray) -> FloatArray:
        t = np.arange(1, len(losses) + 1)
        rates = self.rate * t**-self.decay * self.forget ** (len(losses) - t)
        found = -(rates @ losses)
        if self.normalise or self.floor:
            found = found - np.logaddexp.reduce(found)
        if self.floor:
            found = np.log((1 - self.floor) * np.exp(found) + self.floor / len(found))
        return np.asarray(found)

    def log_func(self, loss: FloatArray) -> FloatArray:
        return -self.rate * loss


def _names(measure: FiniteMeasure) -> set[str]:
    report = check_measure(measure, CUBE, rng=np.random.default_rng(31))
    assert report.passes == (not report.violations)
    return {violation.condition for violation in report.violations}


@pytest.mark.statistical
@given(st.floats(1e-6, 0.1), st.integers(0, 100))
def test_multiplicative_weights_pass(rate: float, seed: int) -> None:
    measure = MultiplicativeMeasure(learning_rate=rate)
    assert isinstance(measure, FiniteMeasure)
    report = check_measure(measure, CUBE, rng=np.random.default_rng(seed), histories=3)
    assert report.passes and report.pairs == 4 * 16
    assert report.ratio_width == pytest.approx(rate)
    assert report.delta_at_eta <= 1e-15


def test_no_smaller_eta_passes() -> None:
    """After histories that put nearly all mass on one expert, a loss on it moves the others by all of eta."""
    assert _names(_Measure(eta=0.08, rate=0.1)) == {CLOSE, NEIGHBOURS}
    assert _names(_Measure(eta=0.1, rate=0.1)) == set()


@pytest.mark.parametrize(
    ("measure", "broken"),
    [
        (_Measure(normalise=True), set()),  # constants cancel
        (_Measure(eta=0.11, rate=0.11), {"eta <= 1/10"}),
        (_Measure(delta0=0.2), {"delta0 <= eta"}),
        (_Measure(decay=0.5), {ORDER, RATIO}),
        (_Measure(forget=0.5), {ORDER, RATIO, CLOSE}),  # what is forgotten comes back, beside the new loss
        (_Measure(floor=0.2), {RATIO}),  # symmetric, but the ratio at x depends on the weight of x
        (_Measure(rate=0.3), {CLOSE, NEIGHBOURS}),
        (_Measure(ratio_width=0.1), set()),
        (_Measure(ratio_width=0.09), {"one loss adds no more than ratio_width"}),
    ],
    ids=[
        "normalised",
        "eta too large",
        "delta0 too large",
        "rates that fall",
        "forgetful",
        "mixed",
        "claims too small",
        "width as claimed",
        "width too small",
    ],
)
def test_failed_conditions_are_named(measure: _Measure, broken: set[str]) -> None:
    assert _names(measure) == broken


def test_a_violation_can_be_replayed() -> None:
    measure = _Measure(eta=0.05, rate=0.1)
    report = check_measure(measure, CUBE, rng=np.random.default_rng(32))
    (violation,) = [v for v in report.violations if v.condition == CLOSE]
    assert violation.history is not None and violation.loss is not None
    laws = []
    for losses in (violation.history, np.vstack([violation.history, violation.loss])):
        weights = np.exp(measure.log_measure(losses))
        laws.append(weights / weights.sum())
    deltas = [hockey_stick(p, q, 0.05) for p, q in (laws, laws[::-1])]
    assert max(deltas) == pytest.approx(violation.value) and violation.value == report.delta_at_eta > violation.limit


@frozen
class _Regularised:
    """exp(-beta (sum of losses + lam x^2)) on a fine grid of [-1, 1], with linear losses of slope up to 1."""

    beta: float
    lam: float
    delta0: float
    factor: float = 1.0
    ratio_width: float | None = None

    @property
    def eta(self) -> float:
        """Gopi, Lee & Liu 2022: consecutive measures are mu-GDP with mu = sqrt(beta / (2 lam))."""
        mu = self.factor * math.sqrt(self.beta / (2 * self.lam))
        return mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / self.delta0))

    def log_measure(self, losses: FloatArray) -> FloatArray:
        grid = np.linspace(-1, 1, losses.shape[1])
        return np.asarray(-self.beta * (losses.sum(axis=0) + self.lam * grid**2))

    def log_func(self, loss: FloatArray) -> FloatArray:
        return -self.beta * loss


def test_regularised_weights_pass_with_their_delta() -> None:
    losses = np.outer([-1.0, -0.5, 0.5, 1.0], np.linspace(-1, 1, 2001))
    fit = _Regularised(beta=0.5, lam=1000.0, delta0=1e-3)
    report = check_measure(fit, losses, rng=np.random.default_rng(33))
    assert report.passes and 0.0 < report.delta_at_eta <= 1e-3
    assert report.ratio_width == pytest.approx(1.0)  # not pure at any useful eta
    unfit = _Regularised(beta=0.5, lam=1000.0, delta0=1e-3, factor=0.25)
    assert not check_measure(unfit, losses, rng=np.random.default_rng(33)).passes


@frozen
class _Returns:
    """A measure that returns given values."""

    value: object
    eta: float = 0.1
    delta0: float = 0.0
    ratio_width: float | None = None

    def log_measure(self, losses: FloatArray) -> FloatArray:
        return self.value  # type: ignore[return-value]

    def log_func(self, loss: FloatArray) -> FloatArray:
        return np.zeros(4)


def test_points_without_mass() -> None:
    kept = np.array([0.0, 0.0, -np.inf, 0.0])
    report = check_measure(_Returns(kept), CUBE, rng=np.random.default_rng(0))
    assert report.passes

    class Vanishing(_Measure):
        def log_measure(self, losses: FloatArray) -> FloatArray:
            return np.where(np.arange(4) < len(losses), -np.inf, 0.0) if len(losses) < 4 else np.zeros(4)

    assert RATIO in _names(Vanishing())


@pytest.mark.parametrize(
    ("measure", "losses", "name"),
    [
        (_Returns(np.zeros(3)), CUBE, "log_measure"),
        (_Returns(np.full(4, np.nan)), CUBE, "log_measure"),
        (_Returns(np.full(4, -np.inf)), CUBE, "log_measure"),
        (_Measure(), np.zeros(4), "losses"),
        (_Measure(), np.zeros((0, 4)), "losses"),
        (_Measure(), np.full((2, 4), np.nan), "losses"),
        (_Measure(eta=math.nan), CUBE, "eta"),
        (_Measure(delta0=-0.1), CUBE, "delta0"),
        (_Measure(ratio_width=math.inf), CUBE, "ratio_width"),
    ],
)
def test_bad_arguments_are_refused(measure: FiniteMeasure, losses: FloatArray, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        check_measure(measure, losses, rng=np.random.default_rng(0))
