"""Queries of OpenDP's contexts as targets: claims, what a context is told wrongly, and what is refused.

Contexts on vectors need OpenDP alone, those on data frames polars in the version that OpenDP reads. OpenDP can't be
seeded: a fair query is refuted with probability 1e-6 in each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.errors import InvalidDataError
from hockeystick.audits import Verdict, adapt, audit, context_query
from hockeystick.audits.adapters.opendp_contexts import _larger

SURE = 1 - 1e-6
WITHOUT, WITH = [3] * 20, [3] * 20 + [9, 9, 9]  # one person has the last three records

dp.enable_features("contrib")


def context(data: Any, contributions: int = 1, **loss: float) -> Any:
    loss = loss or {"epsilon": 1.0}
    unit, total = dp.unit_of(contributions=contributions), dp.loss_of(**loss)
    return dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=total, split_evenly_over=2)


def count(contributions: int, **loss: float) -> Any:
    query = context(WITH, contributions, **loss).query().count()
    return query.gaussian() if "rho" in loss else query.laplace()


def verdict(query: Any, samples: int, neighbours: Any = (WITHOUT, WITH), **options: Any) -> Verdict:
    return audit(context_query(query, neighbours=neighbours), samples=samples, rng=1, confidence=SURE, **options)


@pytest.mark.statistical  # some tenths of a second
def test_the_claim_is_the_share_of_the_loss_that_the_query_costs() -> None:
    assert context_query(count(3), neighbours=(WITHOUT, WITH)).claim().epsilon == pytest.approx(0.5)

    curve = context_query(count(3, rho=0.25), neighbours=(WITHOUT, WITH), delta=1e-5).claim()
    assert curve.delta == 1e-5 and len(curve.also) > 10
    assert curve.epsilon == pytest.approx(accounting.epsilon(accounting.ZCDP(0.125), 1e-5).upper, rel=1e-6)


@pytest.mark.statistical
def test_a_person_with_three_records_refutes_a_context_that_was_told_of_one() -> None:
    """The true epsilon is 1.5, claimed 0.5: the best event has .888 against .5, 24 standard errors of 1,600."""
    fair, wrong = verdict(count(3), 2000), verdict(count(1), 2000)

    assert not fair.refuted and wrong.refuted
    assert "own source of random numbers" in wrong.warnings[0]


@pytest.mark.statistical
def test_a_context_may_be_made_anew_for_each_data_set() -> None:
    """Bounds from the data: the sum of ages is clamped to the largest age, and its noise tells it."""

    def fixed(ages: Any) -> Any:
        return context(ages).query().clamp((0, 97)).sum().laplace()

    def learned(ages: Any) -> Any:
        return context(ages).query().clamp((0, max(ages))).sum().laplace()

    pair = [1] * 20, [1] * 20 + [97]

    assert not verdict(fixed, 1000, pair).refuted
    assert verdict(learned, 1000, pair).refuted


def test_nothing_is_charged_to_the_context() -> None:
    whole = context(WITH)
    target = context_query(whole.query().count().laplace(), neighbours=(WITHOUT, WITH))

    outputs = [target(data, np.random.default_rng(0)) for data in (WITHOUT, WITH) for _ in range(20)]

    assert {type(one) for one in outputs} == {int} and len(whole.remaining_privacy_loss()) == 2


@pytest.mark.statistical  # some tenths of a second
def test_adapt_takes_queries_too() -> None:
    target = adapt(count(1, rho=0.25), neighbours=(WITHOUT, WITH), delta=1e-9)

    assert target.claim().delta == 1e-9 and "context" in target.name
    with pytest.raises(InvalidArgumentError, match="coordinatewise=True: is not an option of opendp"):
        adapt(count(1), neighbours=(WITHOUT, WITH), coordinatewise=True)
    with pytest.raises(InvalidArgumentError, match="neighbours=None"):
        adapt(count(1))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: 3, "is not a query of an OpenDP context"),
        (lambda: dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 1.0), "is not a query"),
        (lambda: context(WITH).query().count(), "can't be released"),
    ],
)
def test_what_can_not_be_released_is_refused(query: Callable[[], Any], said: str) -> None:
    made = query()
    with pytest.raises(InvalidArgumentError, match=said):
        context_query((lambda _: made) if callable(made) and said == "is not a query" else made, neighbours=([3], [4]))


def test_data_of_another_form_are_refused_and_not_shown() -> None:
    for pair in ((WITH, ["secret"]), ([3.25], WITH)):
        with pytest.raises(InvalidDataError, match="not both in the query's domain VectorDomain") as caught:
            context_query(count(1), neighbours=pair)
        assert "secret" not in str(caught.value) and "3.25" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="delta"):
        context_query(count(1), neighbours=(WITHOUT, WITH), delta=2.0)


def test_the_larger_of_two_costs_is_claimed() -> None:
    assert _larger(("A", 1.0), ("A", 2.0)) == ("A", 2.0)
    assert _larger(("A", (1.0, 1e-6)), ("A", (0.5, 1e-5))) == ("A", (1.0, 1e-5))
    for first, second in ((("A", 1.0), ("B", 1.0)), (("A", abs), ("A", math.sqrt))):
        with pytest.raises(UnsupportedEventError):
            _larger(first, second)


# --------------------------------------------------------------------------------------------------------- data frames


@pytest.fixture
def polars() -> Any:
    found = pytest.importorskip("polars", reason="polars is not installed")
    wanted = import_module("opendp.mod")._EXPECTED_POLARS_VERSION
    if found.__version__ != wanted:
        pytest.skip(f"OpenDP reads plans of polars {wanted} alone")
    return found


def length() -> Any:
    return import_module("opendp.extras.polars").dp_len(signed=True)


def of_frame(visits: Any, contributions: int, **loss: float) -> Any:
    margin = import_module("opendp.extras.polars").Margin(max_length=1000)
    unit, total = dp.unit_of(contributions=contributions), dp.loss_of(**loss or {"epsilon": 1.0})
    return dp.Context.compositor(
        data=visits, privacy_unit=unit, privacy_loss=total, split_evenly_over=1, margins=[margin]
    ).query()


@pytest.mark.statistical
@pytest.mark.parametrize("eager", [False, True])
def test_data_frames_are_released_and_understated_contributions_refuted(polars: Any, eager: bool) -> None:
    """The true epsilon is 3, claimed 1: .9 against .13 in 300 outputs, 30 standard errors."""
    without = polars.LazyFrame({"person": [1, 2, 3] * 10})
    pair = without, polars.concat([without, polars.LazyFrame({"person": [4, 4, 4]})])
    shown = tuple(each.collect() for each in pair) if eager else pair

    fair, wrong = (verdict(of_frame(pair[1], k).select(length()), 400, shown) for k in (3, 1))

    assert not fair.refuted and wrong.refuted
    assert "column len" in wrong.event


@pytest.mark.statistical
def test_keys_of_groups_that_come_from_a_data_frame_are_refuted(polars: Any) -> None:
    without = polars.LazyFrame({"ward": ["eye", "ear"] * 10})
    pair = without, polars.concat([without, polars.LazyFrame({"ward": ["surgery"]})])

    def by_ward(visits: Any) -> Any:
        counts = of_frame(visits, 1).group_by("ward").agg(length())
        return counts.with_keys(visits.select("ward").unique())

    assert verdict(by_ward, 100, pair, statistic=lambda table: "surgery" in table["ward"]).refuted


@pytest.mark.statistical
def test_a_data_frame_with_other_columns_is_refused(polars: Any) -> None:
    frame = polars.LazyFrame({"person": [1, 2]})
    query = of_frame(frame, 1, epsilon=1.0, delta=1e-7).select(length())

    for other in (frame.rename({"person": "p"}), frame.cast(polars.Float64)):
        with pytest.raises(InvalidDataError, match="have different columns"):
            context_query(query, neighbours=(frame, other))
    claim = context_query(query, neighbours=(frame, frame.head(1))).claim()
    assert 0.99 < claim.epsilon <= 1.0 and claim.delta <= 1e-7
