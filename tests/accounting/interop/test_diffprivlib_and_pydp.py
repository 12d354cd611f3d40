"""Tests of events of diffprivlib's and PyDP's mechanisms: they cost at least their noise, with fake classes and in the
packages. A fake has the attributes that the real class has, under its name and module. The real ones are compared where
they are installed: noise scales with their own ``variance``, laws with a sample of theirs.
"""

from __future__ import annotations

import inspect
import math
import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import (
    NO_EVENT,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    PermuteAndFlip,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    Staircase,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    delta,
    epsilon,
    from_diffprivlib,
    from_pydp,
)

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def stand_in(module: str, kind: str, **attributes: Any) -> Any:
    made = type(kind, (), attributes)
    made.__module__ = module
    return made()


def diffprivlib(kind: str, **attributes: Any) -> Any:
    return stand_in("diffprivlib.mechanisms.some", kind, **{"delta": 0.0, **attributes})


def pydp(kind: str, **attributes: Any) -> Any:
    return stand_in("pydp", kind, **attributes)


# --------------------------------------------------------------------------------------------------------- diffprivlib


@pytest.mark.parametrize(
    ("mechanism", "event"),
    [
        (diffprivlib("Geometric", epsilon=0.5, sensitivity=2), DiscreteLaplace(4.0).at(2)),
        (diffprivlib("GeometricTruncated", epsilon=0.5, sensitivity=1, lower=0, upper=3), DiscreteLaplace(2.0)),
        (diffprivlib("GeometricFolded", epsilon=0.5, sensitivity=1, lower=0, upper=3), DiscreteLaplace(2.0)),
        (diffprivlib("Staircase", epsilon=2.0, sensitivity=3.0, gamma=0.25), Staircase(2.0, gamma=0.25)),
        (diffprivlib("Exponential", epsilon=2.0, sensitivity=3.0, monotonic=True), BoundedRange(2.0)),
        (diffprivlib("PermuteAndFlip", epsilon=2.0, sensitivity=3.0, monotonic=False), PermuteAndFlip(2.0)),
        (diffprivlib("Binary", epsilon=2.0, value0="n", value1="y"), RandomizedResponse(2.0)),
        (diffprivlib("Binary", epsilon=2.0, delta=0.1), ApproximateDP(2.0, 0.1)),
        (diffprivlib("Bingham", epsilon=2.0, sensitivity=3.0), PureDP(2.0)),
        (diffprivlib("Snapping", epsilon=2.0, sensitivity=3.0), PureDP(2.0)),
        (diffprivlib("LaplaceBoundedDomain", epsilon=2.0, delta=0.1, sensitivity=3.0), ApproximateDP(2.0, 0.1)),
        (diffprivlib("GaussianDiscrete", epsilon=2.0, delta=0.1, sensitivity=3), ApproximateDP(2.0, 0.1)),
        (diffprivlib("Uniform", epsilon=0.0, delta=0.1, sensitivity=3.0), ApproximateDP(0.0, 0.1)),
        (diffprivlib("Laplace", epsilon=2.0, sensitivity=0.0), NO_EVENT),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_mechanism_becomes_the_event_of_its_parameters(mechanism: Any, event: PrivacyEvent) -> None:
    assert from_diffprivlib(mechanism) == event


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["Laplace", "LaplaceTruncated", "LaplaceFolded"])
@given(budget=st.floats(0.01, 20.0), failure=st.sampled_from([0.0, 1e-9, 0.01, 0.5]), reach=st.floats(0.1, 100.0))
def test_laplace_noise_is_charged_for_its_width_and_not_for_its_claim(
    kind: str, budget: float, failure: float, reach: float
) -> None:
    """With δ > 0 the noise is narrower than at ε alone: its pure ε is ε − ln(1 − δ), and (ε, δ) holds of it."""
    event = from_diffprivlib(diffprivlib(kind, epsilon=budget, delta=failure, sensitivity=reach))
    assert isinstance(event, Laplace)
    exact = budget - math.log1p(-failure)
    assert exact <= event.pure_epsilon() <= exact * (1 + 1e-13)
    assert delta(event, budget).upper <= failure * (1 + 1e-9) + 1e-12


def test_gaussian_noise_is_charged_for_its_variance() -> None:
    mechanism = diffprivlib("Gaussian", epsilon=0.5, delta=1e-5, sensitivity=3.0, variance=lambda self, value: 144.0)
    event = from_diffprivlib(mechanism)
    assert isinstance(event, Gaussian) and 4.0 * (1 - 1e-13) <= event.noise_multiplier <= 4.0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (diffprivlib("BudgetAccountant"), "no single neighbouring relation fits"),
        (diffprivlib("Vector", epsilon=1.0), "exact minimiser"),
        (diffprivlib("Wishart", epsilon=1.0), "diffprivlib's Wishart has no event"),
        (stand_in("mine", "Laplace", epsilon=1.0), "mine.Laplace is not a class of diffprivlib"),
        (type("Mine", (type(diffprivlib("Laplace")),), {"__module__": "mine"})(), "mine.Mine is not a class"),
        (3.0, "builtins.float is not a class"),
    ],
)
def test_unknown_mechanisms_are_refused(source: Any, reason: str) -> None:
    with pytest.raises(UnsupportedEventError, match=reason):
        from_diffprivlib(source)


@pytest.mark.parametrize(
    "mechanism",
    [
        diffprivlib("Laplace", epsilon=math.inf, sensitivity=1.0),
        diffprivlib("Laplace", epsilon=1.0, delta=1.0, sensitivity=1.0),
        diffprivlib("Laplace", epsilon=1.0, sensitivity=math.nan),
        diffprivlib("Geometric", epsilon=1.0, sensitivity=0.5),
        diffprivlib("Gaussian", sensitivity=1.0, variance=lambda self, value: 0.0),
        diffprivlib("Exponential", epsilon=math.inf, sensitivity=1.0),
        diffprivlib("Snapping", epsilon=-1.0),
    ],
)
def test_parameters_outside_their_domain_are_refused(mechanism: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        from_diffprivlib(mechanism)


class Geometric:
    """As diffprivlib's: its noise is worked out when it is made, and kept to."""

    def __init__(self, *, epsilon: float, sensitivity: int = 1, random_state: Any = None) -> None:
        if not epsilon > 0:
            raise ValueError("Epsilon must be positive")
        self.epsilon, self.delta, self.sensitivity, self.random_state = epsilon, 0.0, sensitivity, random_state
        self._scale, self._rng = -epsilon / sensitivity, object()


class Exponential(Geometric):
    """As diffprivlib's."""

    def __init__(self, *, epsilon: float, sensitivity: int, utility: list[float]) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity)
        self.utility, self._probabilities = utility, np.cumsum(np.exp(epsilon * np.array(utility)))


class ExponentialCategorical(Geometric):
    """As diffprivlib's: it gives its utilities back in another order than it took them."""

    def __init__(self, *, epsilon: float, utility_list: list[tuple[str, float]]) -> None:
        super().__init__(epsilon=epsilon)
        self.utility_list = sorted(utility_list)
        self._domain_values = [name for name, _ in utility_list]
        self._constant = {name: sum(epsilon * value for _, value in utility_list) for name, _ in utility_list}


class LaplaceBoundedDomain:
    """As diffprivlib's: its noise is worked out when it is first used."""

    def __init__(self, *, epsilon: float, sensitivity: float) -> None:
        self.epsilon, self.delta, self.sensitivity = epsilon, 0.0, sensitivity
        self._scale: float | None = None

    def _find_scale(self) -> float:
        return 2 * self.sensitivity / self.epsilon

    def randomise(self, value: float) -> float:
        self._scale = self._scale or self._find_scale()
        return value


class LaplaceBoundedNoise(LaplaceBoundedDomain):
    """As diffprivlib's."""

    def __init__(self, *, epsilon: float, sensitivity: float) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity)
        self._noise_bound: float | None = None

    def randomise(self, value: float) -> float:
        if self._noise_bound is None:
            self._scale, self._noise_bound = self._find_scale(), 3 * self._find_scale()
        return value


for _made in (Geometric, Exponential, ExponentialCategorical, LaplaceBoundedDomain, LaplaceBoundedNoise):
    _made.__module__ = "diffprivlib.mechanisms.some"

SCORES = [0.0, 123.456]
KEEPING: list[tuple[Any, dict[str, Any], Any]] = [
    (Geometric, {"epsilon": 0.5, "sensitivity": 2, "random_state": 1}, DiscreteLaplace(4.0).at(2)),
    (Exponential, {"epsilon": 0.5, "sensitivity": 1, "utility": SCORES}, BoundedRange(0.5)),
    (ExponentialCategorical, {"epsilon": 0.5, "utility_list": [("c", 0.1), ("a", 0.2), ("b", 0.3)]}, PureDP(0.5)),
    (LaplaceBoundedDomain, {"epsilon": 0.5, "sensitivity": 1.0}, PureDP(0.5)),
    (LaplaceBoundedNoise, {"epsilon": 0.5, "sensitivity": 1.0}, PureDP(0.5)),
]


@pytest.mark.parametrize(("kind", "parameters", "event"), KEEPING, ids=lambda value: getattr(value, "__name__", ""))
def test_noise_that_does_not_follow_its_parameters_is_refused(
    kind: Any, parameters: dict[str, Any], event: PrivacyEvent
) -> None:
    """With m.epsilon = 0.1 a mechanism made for ε = 5 reports 0.1, but its noise is that for 5."""
    for used in (False, True):
        made = kind(**parameters)
        made.note = "whoever's"
        if used and hasattr(made, "randomise"):
            made.randomise(0.0)
        assert from_diffprivlib(made) == event
        made.epsilon = 0.1
        if kind.__name__.startswith("Laplace") and not used:
            assert from_diffprivlib(made) == PureDP(0.1)  # nothing has been worked out yet
            continue
        with pytest.raises(InvalidArgumentError, match="was changed after it was made") as caught:
            from_diffprivlib(made)
        assert "123.456" not in str(caught.value) and kind.__name__ in str(caught.value)


def test_mechanisms_with_overridden_methods_are_refused() -> None:
    made = LaplaceBoundedDomain(epsilon=0.5, sensitivity=1.0)
    made.randomise = lambda value: value  # type: ignore[method-assign]
    with pytest.raises(InvalidArgumentError, match="randomise does not follow from its parameters"):
        from_diffprivlib(made)
    made = Exponential(epsilon=0.5, sensitivity=1, utility=[0.0, 1.0])  # type: ignore[assignment]
    made.utility[1] = 9.0  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="_probabilities does not"):
        from_diffprivlib(made)


def test_parameters_that_no_mechanism_can_have_are_refused() -> None:
    made = Geometric(epsilon=0.5)
    made.epsilon = -1.0
    with pytest.raises(InvalidArgumentError, match="from which it can't be made"):
        from_diffprivlib(made)


@pytest.fixture
def real() -> Any:
    reason = "diffprivlib (with scikit-learn < 1.6) is not installed"
    return pytest.importorskip("diffprivlib.mechanisms", reason=reason)


def test_mechanisms_of_diffprivlib_are_read(real: Any) -> None:
    for failure in (0.0, 0.3):
        mechanism = real.Laplace(epsilon=0.7, delta=failure, sensitivity=3.0)
        event = from_diffprivlib(mechanism)
        assert isinstance(event, Laplace)
        assert event.noise_multiplier * 3.0 == pytest.approx(math.sqrt(mechanism.variance(0) / 2), rel=1e-12)
    for mechanism in (real.Gaussian(epsilon=0.7, delta=1e-5, sensitivity=3.0),
                      real.GaussianAnalytic(epsilon=3.0, delta=1e-5, sensitivity=3.0)):  # fmt: skip
        assert delta(from_diffprivlib(mechanism), mechanism.epsilon).upper <= mechanism.delta * (1 + 1e-9)
    assert from_diffprivlib(real.Geometric(epsilon=0.5, sensitivity=2)) == DiscreteLaplace(4.0).at(2)
    assert from_diffprivlib(real.Staircase(epsilon=2.0, sensitivity=3.0)) == Staircase(2.0)
    some = {"epsilon": 2.0, "sensitivity": 1.0}
    others = [
        real.Exponential(utility=[1.0, 2.0], **some), real.PermuteAndFlip(utility=[1.0, 2.0], **some),
        real.Bingham(**some), real.Binary(epsilon=2.0, value0="n", value1="y"),
        real.Snapping(lower=0.0, upper=1.0, **some),
        real.LaplaceTruncated(lower=0.0, upper=1.0, **some), real.LaplaceFolded(lower=0.0, upper=1.0, **some),
        real.LaplaceBoundedDomain(lower=0.0, upper=1.0, **some), real.GeometricTruncated(epsilon=2.0, lower=0, upper=4),
        real.GeometricFolded(epsilon=2.0, lower=0, upper=4),
        real.ExponentialCategorical(epsilon=2.0, utility_list=[("a", "b", 1.0), ("a", "c", 2.0), ("b", "c", 2.0)]),
    ]  # fmt: skip
    for mechanism in others:
        assert epsilon(from_diffprivlib(mechanism), 0.0).upper == pytest.approx(2.0)
    bounded = [real.LaplaceBoundedNoise(delta=1e-3, **some), real.Uniform(delta=0.1, sensitivity=1.0),
               real.GaussianDiscrete(epsilon=2.0, delta=1e-3)]  # fmt: skip
    for mechanism in bounded:
        assert from_diffprivlib(mechanism) == ApproximateDP(mechanism.epsilon, mechanism.delta)
    with pytest.raises(UnsupportedEventError, match="no single neighbouring relation"):
        from_diffprivlib(import_module("diffprivlib").BudgetAccountant())


def test_altered_mechanisms_of_diffprivlib_are_refused_or_charged_for_their_noise(real: Any) -> None:
    """A mechanism with any altered parameter is refused, or its event is that of its actual noise."""
    some, ends = {"epsilon": 0.9, "sensitivity": 2.0}, {"lower": 0, "upper": 5}
    whole = {"epsilon": 0.9, "sensitivity": 2}
    pairs = [("z", "b", 0.1), ("z", "a", 0.3), ("b", "a", 0.7)]
    follow = {"Laplace", "LaplaceTruncated", "LaplaceFolded", "Staircase", "Binary", "Bingham", "Snapping"}
    makers: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("Laplace", some, (0.0,)), ("LaplaceTruncated", {**some, **ends}, (0.0,)),
        ("LaplaceFolded", {**some, **ends}, (0.0,)), ("LaplaceBoundedDomain", {**some, **ends}, (0.0,)),
        ("LaplaceBoundedNoise", {**some, "delta": 0.1}, (0.0,)), ("Gaussian", {**some, "delta": 1e-5}, (0.0,)),
        ("GaussianAnalytic", {**some, "delta": 1e-5}, (0.0,)), ("GaussianDiscrete", {**whole, "delta": 1e-5}, (0,)),
        ("Geometric", whole, (0,)), ("GeometricTruncated", {**whole, **ends}, (0,)),
        ("GeometricFolded", {**whole, **ends}, (0,)), ("Staircase", some, (0.0,)),
        ("Exponential", {**some, "utility": [0.0, 1.0]}, ()), ("PermuteAndFlip", {**some, "utility": [0.0, 1.0]}, ()),
        ("Binary", {"epsilon": 0.9, "value0": "n", "value1": "y"}, ("n",)), ("Bingham", some, (np.eye(2),)),
        ("Snapping", {**some, "lower": 0.0, "upper": 5.0}, (0.0,)),
        ("ExponentialCategorical", {"epsilon": 0.9, "utility_list": pairs}, ("a",)),
        ("ExponentialHierarchical", {"epsilon": 0.9, "hierarchy": [["a", "b"], ["c"]]}, ("a",)),
    ]  # fmt: skip
    for name, parameters, value in makers:
        made = getattr(real, name)(**parameters)
        before = from_diffprivlib(made)
        made.randomise(*value)
        assert from_diffprivlib(made) == before
        made.epsilon = 0.1
        if name in follow:  # it computes its noise again for each output
            assert epsilon(from_diffprivlib(made), 0.0).upper == pytest.approx(0.1)
            continue
        with pytest.raises(InvalidArgumentError, match="was changed after it was made"):
            from_diffprivlib(made)


@pytest.mark.statistical
def test_every_mechanism_of_diffprivlib_is_known_or_refused_by_name(real: Any) -> None:
    """The odds of its choices are those of the event. False alarm: 1e-9, by Hoeffding."""
    mechanism = real.Exponential(epsilon=2.0, sensitivity=1.0, utility=[0.0, 1.0], random_state=1)
    drawn = np.mean([mechanism.randomise() for _ in range(4000)])
    assert abs(drawn - 1 / (1 + math.exp(-1.0))) < math.sqrt(math.log(2e9) / 8000)
    known = {name for name in vars(real) if isinstance(vars(real)[name], type)} - {"DPMachine", "DPMechanism"}
    source = import_module("hockeystick.accounting.interop.diffprivlib")
    text = " ".join([*source._CLAIMED, *source._REFUSED, *_cases(source)])
    assert known - {"TruncationAndFoldingMixin", "DPTransformer"} <= set(text.split())


def _cases(source: Any) -> list[str]:
    return re.findall(r'"(\w+)"', inspect.getsource(source.from_diffprivlib))


# ---------------------------------------------------------------------------------------------------------------- PyDP


def test_pydp_noise_is_charged_for_its_scale() -> None:
    assert from_pydp(pydp("LaplaceMechanism", diversity=6.0, sensitivity=2.0)) == Laplace(3.0)
    assert from_pydp(pydp("GaussianMechanism", std=6.0, l2_sensitivity=2.0)) == Gaussian(3.0)


@pytest.mark.parametrize("kind", ["BoundedSum", "Count", "Median"])
def test_an_algorithm_is_for_a_user_added_or_removed(kind: str) -> None:
    algorithm = pydp(kind, epsilon=0.5, delta=0.0)
    assert from_pydp(algorithm, adjacency=ADD) == PureDP(0.5)
    replaced = from_pydp(algorithm, adjacency=REPLACE)
    graph = AccountantGraph(adjacency=REPLACE).source("users").release("sum", replaced, reads=["users"])
    assert graph.guarantee().epsilon(0.0).upper == 1.0
    assert from_pydp(pydp(kind, epsilon=0.5, delta=0.1), adjacency=ADD) == ApproximateDP(0.5, 0.1)
    with pytest.raises(InvalidArgumentError, match="adjacency=None: is needed"):
        from_pydp(algorithm)
    with pytest.raises(UnsupportedAdjacencyError, match="not Adjacency.LOCAL"):
        from_pydp(algorithm, adjacency=Adjacency.LOCAL)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (pydp("Unknown", epsilon=1.0), UnsupportedEventError),
        (3.0, UnsupportedEventError),
        (pydp("LaplaceMechanism", diversity=0.0, sensitivity=2.0), InvalidArgumentError),
        (pydp("GaussianMechanism", std=1.0, l2_sensitivity=math.nan), InvalidArgumentError),
    ],
)
def test_pydp_without_a_cost_is_refused(source: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        from_pydp(source)


def test_mechanisms_of_pydp_are_read() -> None:
    algorithms = pytest.importorskip("pydp.algorithms.laplacian", reason="python-dp is not installed")
    mechanisms = import_module("pydp.algorithms.numerical_mechanisms")
    assert epsilon(from_pydp(mechanisms.LaplaceMechanism(0.5, 2.0)), 0.0).upper == pytest.approx(0.5)
    gaussian = from_pydp(mechanisms.GaussianMechanism(1.0, 1e-5, 2.0))
    assert 0.99 < epsilon(gaussian, 1e-5).upper <= 1.0
    bounds = {"epsilon": 0.5, "delta": 0, "lower_bound": 0, "upper_bound": 1, "dtype": "float"}
    for name in ("BoundedSum", "BoundedMean", "BoundedVariance", "BoundedStandardDeviation", "Max", "Min", "Median"):
        assert from_pydp(getattr(algorithms, name)(**bounds), adjacency=ADD) == PureDP(0.5)
    assert from_pydp(algorithms.Count(epsilon=0.5, dtype="int"), adjacency=ADD) == PureDP(0.5)
