"""Tests of the pictures of guarantees: no point of a line is better than the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import special

from hockeystick.accounting import (
    DPSGD,
    AccountantGraph,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Skellam,
    UnsupportedEventError,
    compose,
    epsilon,
    parallel,
)
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.graph.drawing.curves import (
    KINDS,
    part_way,
    plot_parameter,
    plot_trade_offs,
    steps_of,
    with_noise,
)
from hockeystick.accounting.graph.guarantee import Guarantee


def axes() -> Any:
    return Figure().subplots()


def guarantee(count: int = 10) -> Guarantee:
    graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"], count=count)
    return graph.guarantee()


def drawn(line: Any, x: float) -> float:
    """The height of a drawn line at x, as matplotlib draws its steps."""
    xs, ys = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    if line.get_drawstyle() == "steps-pre":
        return float(ys[np.searchsorted(xs, x, side="left")])
    if line.get_drawstyle() == "steps-post":
        return float(ys[np.searchsorted(xs, x, side="right") - 1])
    return float(np.interp(x, xs, ys))


def test_epsilon_over_steps_is_never_below_the_truth() -> None:
    found = guarantee(37).plot("steps", delta=1e-5, points=6, ax=axes()).lines[0]

    for step in range(1, 38):
        assert drawn(found, step) >= epsilon(compose((Gaussian(5.0), step)), 1e-5).upper
    assert drawn(found, 37) == epsilon(compose((Gaussian(5.0), 37)), 1e-5).upper


def test_a_straight_line_between_the_points_would_be_below_the_truth() -> None:
    found: Any = guarantee(37).plot("steps", delta=1e-5, points=6, ax=axes()).lines[0]
    straight = np.interp(4, found.get_xdata(), found.get_ydata())

    assert straight < epsilon(compose((Gaussian(5.0), 4)), 1e-5).upper


def test_epsilon_over_noise_is_never_below_the_truth() -> None:
    found = guarantee().plot("utility", delta=1e-5, points=6, ax=axes()).lines[0]

    for factor in np.linspace(0.5, 3.9, 18):
        assert drawn(found, factor) >= epsilon(compose((Gaussian(5.0 * factor), 10)), 1e-5).upper
    assert drawn(found, 1.0) == guarantee().epsilon(1e-5).upper


def test_a_trade_off_curve_is_never_above_the_truth() -> None:
    found = plot_trade_offs({"one": Gaussian(1.0)}, axes()).lines[1]
    alarms = np.random.default_rng(1).uniform(size=50)

    for alarm in alarms:
        truth = special.ndtr(special.ndtri(1 - alarm) - 1.0)
        assert truth - 0.01 < drawn(found, alarm) <= truth + 1e-15


def test_the_profile_is_never_below_the_truth() -> None:
    found = guarantee().plot("profile", ax=axes()).lines[0]

    for at in np.linspace(0.0, 2.0, 21):
        assert drawn(found, at) >= guarantee().delta(float(at)).upper * (1 - 1e-9)


@pytest.mark.parametrize(
    ("event", "twice"),
    [
        (Gaussian(2.0), Gaussian(4.0)),
        (Laplace(2.0), Laplace(4.0)),
        (DiscreteGaussian(2.0), DiscreteGaussian(4.0)),
        (Skellam(3.0), Skellam(12.0)),
        (PoissonSampled(0.1, Gaussian(2.0)), PoissonSampled(0.1, Gaussian(4.0))),
        (compose((Gaussian(2.0), 3), Laplace(1.0)), compose((Gaussian(4.0), 3), Laplace(2.0))),
        (parallel(Gaussian(2.0), Laplace(1.0)), parallel(Gaussian(4.0), Laplace(2.0))),
    ],
)
def test_twice_the_noise(event: Any, twice: Any) -> None:
    assert with_noise(event, 2.0) == twice


def test_an_event_without_noise_has_no_picture_over_noise() -> None:
    with pytest.raises(UnsupportedEventError, match='PureDP has no noise to scale: use kind="steps"'):
        with_noise(compose(PureDP(1.0), Gaussian(2.0)), 2.0)


def test_parts_of_other_counts_advance_in_proportion_rounded_up() -> None:
    event = compose((Gaussian(2.0), 10), (Laplace(1.0), 3))

    assert steps_of(event) == 10
    assert part_way(event, 4, 10) == compose((Gaussian(2.0), 4), (Laplace(1.0), 2))
    assert part_way(event, 10, 10) == event
    assert part_way(event, 0, 10) == compose()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_into_the_given_axes(kind: str) -> None:
    given = axes()

    assert guarantee().plot(kind, points=3, ax=given) is given
    assert given.lines and given.get_xlabel() and given.get_ylabel()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "pie"}, 'kind=\'pie\': is unknown; use "utility", "steps", "profile" or "trade-off"'),
        ({"delta": 2.0}, "delta=2.0"),
        ({"points": 1}, "points=1"),
        ({"delta": 0.0}, "no ε of this picture is finite"),
        ({"ax": "here"}, "ax='here': are not axes"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        guarantee().plot(**({"points": 3, "ax": axes()} | arguments))
    assert message in str(error.value)


def test_infinite_points_are_left_out_and_the_chosen_one_is_marked() -> None:
    found: Any = plot_parameter(
        [1, 2, 3], [math.inf, 2.0, 1.0], 2, axes(), name="n", delta=0.1, mark="found", target=1.5
    )

    assert list(found.lines[0].get_xdata()) == [2, 3]
    labels = [text.get_text() for text in found.get_legend().get_texts()]
    assert labels == ["certified ε", "found: ε = 2", "target: ε = 1.5"]


@pytest.mark.statistical
def test_a_training_has_pictures_over_noise_and_over_steps() -> None:
    found = DPSGD(records=1000, batch=10, epochs=1).guarantee(1.0)
    for kind in ("utility", "steps"):
        line = found.plot(kind, delta=1e-5, points=3, ax=axes()).lines[0]
        assert drawn(line, 1.0 if kind == "utility" else 100) == found.epsilon(1e-5).upper
