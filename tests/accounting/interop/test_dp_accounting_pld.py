"""Tests of privacy-loss distributions of dp-accounting: in and out, no δ becomes smaller, alone and composed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from hockeystick import accounting as c

EPSILONS = (0.0, 0.07, 1.63, 5.0)
COARSE = 0.05


def gaussian(**options: Any) -> PrivacyLossDistribution:
    return pld.from_gaussian_mechanism(1.0, value_discretization_interval=COARSE, **options)


READ = {
    "gaussian": gaussian(),
    "rounded up": gaussian(use_connect_dots=False),
    "sampled": gaussian(sampling_prob=0.1),
    "sampled, rounded up": gaussian(sampling_prob=0.1, use_connect_dots=False),
    "laplace": pld.from_laplace_mechanism(1.0, value_discretization_interval=COARSE),
    "response": pld.from_randomized_response(0.4, 3, value_discretization_interval=COARSE),
    "discrete": pld.from_discrete_laplace_mechanism(0.5, 2, value_discretization_interval=COARSE),
    "composed": gaussian(sampling_prob=0.1).self_compose(8),
    "two": gaussian().compose(pld.from_laplace_mechanism(2.0, value_discretization_interval=COARSE)),
    "nothing": pld.identity(COARSE),
}


def table(pmf: Any) -> dict[int, float]:
    dense = pmf.to_dense_pmf()
    return dict(enumerate(dense._probs.tolist(), dense._lower_loss))


def exact(law: PrivacyLossDistribution, at: float) -> mpmath.mpf:
    """δ by the definition, from the masses as they are, in 40 digits."""
    with mpmath.workdps(40):
        return max(
            mpmath.mpf(float(pmf._infinity_mass))
            + sum(
                (mpmath.mpf(mass) * -mpmath.expm1(at - k * mpmath.mpf(pmf._discretization))
                 for k, mass in table(pmf).items() if k * mpmath.mpf(pmf._discretization) > at),
                mpmath.mpf(0),
            )
            for pmf in (law._pmf_remove, law._pmf_add)
        )  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_read_distribution_has_at_least_the_exact_delta_of_its_masses(name: str) -> None:
    event = c.from_pld(READ[name])
    for at in EPSILONS:
        truth = exact(READ[name], at)
        assert truth <= c.delta(event, at).upper <= truth * (1 + 1e-9) + 1e-14


@pytest.mark.statistical
@pytest.mark.parametrize("name", READ)
def test_read_distributions_compose_as_the_other_library_composes_them(name: str) -> None:
    """It adds 1e-15 at infinity, and Fourier transforms are off by some 1e-16 in each cell."""
    event, theirs = c.compose((c.from_pld(READ[name]), 20)), READ[name].self_compose(20)
    for at in (0.5, 2.0, 6.0):
        value = theirs.get_delta_for_epsilon(at)
        assert value - 1e-13 <= c.delta(event, at).upper <= value * (1 + 2e-3) + 1e-12


def enumerated(laws: list[tuple[dict[float, float], int]], at: float) -> float:
    """δ of a composition of laws {loss: mass}, by enumeration."""
    places = [items for law, count in laws for items in [list(law.items())] * count]
    return math.fsum(
        math.prod(mass for _, mass in outcome) * -math.expm1(min(0.0, at - math.fsum(loss for loss, _ in outcome)))
        for outcome in itertools.product(*places)
    )


def two_laws() -> tuple[dict[int, float], dict[int, float]]:
    """Laws of losses k/2 for the two orders that are no pair: each is rounded up by itself."""
    return {3: 0.3, 0: 0.4, -1: 0.3}, {2: 0.35, -2: 0.1, 0: 0.55}


def asymmetric(step: float = 0.5, pessimistic: bool = True) -> PrivacyLossDistribution:
    removal, addition = two_laws()
    return PrivacyLossDistribution.create_from_rounded_probability(
        *(removal, 0.0, step, pessimistic),
        rounded_probability_mass_function_add=addition,
        infinity_mass_add=0.0,
        symmetric=False,
    )


@pytest.mark.parametrize("at", [0.1, 0.8, 2.2])
def test_a_law_for_each_order_is_composed_order_by_order(at: float) -> None:
    """With a tied pair of ours: one order throughout, then the other; the maximum of each access would be more."""
    event = c.from_pld(asymmetric())
    assert isinstance(event, c.OrderedPair)
    p, q = (0.7, 0.2, 0.1), (0.3, 0.3, 0.4)
    other = c.DiscretePair(p, q, orientation="tied")
    removal, addition = ({k / 2: mass for k, mass in law.items()} for law in two_laws())
    forward = {math.log(x / y): x for x, y in zip(p, q, strict=True)}
    backward = {math.log(y / x): y for x, y in zip(p, q, strict=True)}
    truth = max(enumerated([(removal, 3), (forward, 1)], at), enumerated([(addition, 3), (backward, 1)], at))
    assert truth <= c.delta(c.compose((event, 3), other), at).upper <= truth * (1 + 2e-6)
    swapped = max(enumerated([(removal, 3), (backward, 1)], at), enumerated([(addition, 3), (forward, 1)], at))
    assert abs(swapped / truth - 1) > 1e-3  # the order is seen


def test_a_law_for_each_order_is_for_records_that_are_added_or_removed() -> None:
    event = c.from_pld(asymmetric())
    assert event.accepts(c.Adjacency.REPLACE_WITH_NULL) and not event.accepts(c.Adjacency.REPLACE_ONE)
    graph = c.AccountantGraph().source("people").release("theirs", event, reads=["people"])
    graph = graph.release("ours", c.Laplace(2.0), reads=["people"])
    found = graph.guarantee().epsilon(1e-3).upper
    assert found == c.epsilon(c.compose(event, c.Laplace(2.0)), 1e-3).upper
    assert c.AccountantGraph.from_json(graph.to_json()).guarantee().epsilon(1e-3).upper == found
    assert graph.guarantee(group=2).epsilon(1e-3).upper > found
    with pytest.raises(c.UnsupportedAdjacencyError):
        c.AccountantGraph(adjacency=c.Adjacency.REPLACE_ONE).source("people").release("theirs", event, reads=["people"])


def test_bounds_of_an_ordered_pair_are_each_for_one_order() -> None:
    forward = c.LossDistribution((0.5, -0.5), (0.65, 0.35), orientation="forward")
    for wrong in (
        c.compose(c.Gaussian(1.0), c.Failure(1e-3)),
        c.DiscretePair((0.6, 0.4), (0.4, 0.6), orientation="tied"),
        1,
    ):
        with pytest.raises(c.InvalidArgumentError, match="addition"):
            c.OrderedPair(forward, wrong)  # type: ignore[arg-type]


def test_mass_that_is_missing_is_infinite_loss() -> None:
    short = PrivacyLossDistribution.create_from_rounded_probability({1: 0.5, -1: 0.4}, 0.01, 0.5)
    assert c.delta(c.from_pld(short), math.inf).upper >= 0.1 - 1e-15
    assert c.delta(c.from_pld(short), 0.0).upper >= 0.1 + 0.5 * -math.expm1(-0.5)
    nothing = PrivacyLossDistribution.create_from_rounded_probability({0: 0.0}, 1.0, 0.5)
    assert c.delta(c.from_pld(nothing), 3.0).upper == 1.0


def test_masses_that_no_other_law_allows_are_moved_up_and_negative_ones_count_as_none() -> None:
    """Fourier transforms leave 1e-17 at losses of −60, where Q would have a mass of 1e9."""
    odd = PrivacyLossDistribution.create_from_rounded_probability({-120: 1e-17, -1: 0.5, 1: 0.5, 2: -1e-12}, 0.0, 0.5)
    event = c.from_pld(odd)
    assert isinstance(event, c.LossDistribution) and min(event.losses) > -1.0 and all(event.masses)
    assert math.fsum(m * math.exp(-x) for x, m in zip(event.losses, event.masses, strict=True)) <= 1 + 1e-11
    for at in (0.0, 0.2, 0.5):
        assert exact(odd, at) <= c.delta(event, at).upper
    below = PrivacyLossDistribution.create_from_rounded_probability({-3: 1.0}, 0.0, 0.5)
    assert c.delta(c.from_pld(below), 0.0).upper <= 1e-12


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (gaussian(pessimistic_estimate=False, use_connect_dots=False), "optimistic"),
        (asymmetric(pessimistic=False), "optimistic"),
        (c.Gaussian(1.0), "not a PrivacyLossDistribution"),
        (PrivacyLossDistribution.create_from_rounded_probability({0: 0.6, 1: 0.6}, 0.0, 0.5), "add up to 1.2"),
        (PrivacyLossDistribution.create_from_rounded_probability({0: math.nan}, 0.0, 0.5), "not finite"),
        (PrivacyLossDistribution.create_from_rounded_probability({0: 1.0}, 0.0, 0.0), "value_discretization"),
    ],
)
def test_what_is_no_upper_bound_is_refused(wrong: Any, reason: str) -> None:
    with pytest.raises(c.InvalidArgumentError, match=reason):
        c.from_pld(wrong)


WRITTEN: dict[str, c.PrivacyEvent] = {
    "gaussian": c.Gaussian(1.0),
    "laplace": c.Laplace(0.7),
    "sampled": c.PoissonSampled(0.1, c.Gaussian(1.0)),
    "allocated": c.RandomAllocation(4, 1, c.PureDP(1.0)),
    "tied": c.DiscretePair((0.7, 0.2, 0.1), (0.3, 0.3, 0.4), orientation="tied"),
    "failing": c.compose(c.ApproximateDP(0.5, 1e-3), c.Failure(1e-5)),
    "sparse vector": c.AboveThreshold(2.0, 4.0),
    "composed": c.compose((c.Laplace(4.0), 6), c.PureDP(0.2)),
    "zcdp": c.compose((c.ZCDP(0.01), 5)),
    "both": c.compose(c.ZCDP(0.01), c.Laplace(3.0)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_distribution_has_at_least_our_delta(name: str) -> None:
    """A Rényi curve gives a δ that is not convex in e^ε; its hull, which is a bound as well, is some per cent lower."""
    event = WRITTEN[name]
    theirs = c.to_pld(event, step=1e-3)
    below = 1.0 if event.has_profile() else 0.95
    for at in np.linspace(0.0, 4.0, 11):
        ours = c.delta(event, float(at)).upper
        value = float(theirs.get_delta_for_epsilon(float(at)))
        assert ours * below <= value <= ours * 1.05 + 1e-11, at


def test_a_zcdp_claim_is_written_above_the_gaussian_that_has_it() -> None:
    theirs = c.to_pld(c.ZCDP(0.125), step=0.01)
    for at in (0.0, 0.3, 1.0, 2.0):
        assert c.delta(c.Gaussian(2.0), at).upper < float(theirs.get_delta_for_epsilon(at))


@pytest.mark.statistical
def test_long_compositions_are_written_from_their_curve() -> None:
    """They span millions of cells of 1e-4."""
    event = c.compose((c.PoissonSampled(0.01, c.Gaussian(0.8)), 500))
    theirs = c.to_pld(event)
    for at in (0.1, 1.0, 3.0):
        assert 1.0 <= float(theirs.get_delta_for_epsilon(at)) / c.delta(event, at).upper < 1.005
    assert 1.0 <= theirs.get_epsilon_for_delta(1e-6) / c.epsilon(event, 1e-6).upper < 1.002


@pytest.mark.statistical
def test_written_distributions_compose_in_the_other_library() -> None:
    parts = [c.PoissonSampled(0.1, c.Gaussian(1.0)), c.Laplace(2.0), c.compose(c.ZCDP(0.01), c.Laplace(9.0))]
    theirs = c.to_pld(parts[0], step=1e-3).self_compose(5)
    for part in parts[1:]:
        theirs = theirs.compose(c.to_pld(part, step=1e-3))
    ours = c.compose((parts[0], 5), *parts[1:])
    for at in (0.2, 0.9, 1.7):
        assert c.delta(ours, at, method="rdp").upper > float(theirs.get_delta_for_epsilon(at))
    known = c.compose((parts[0], 5), parts[1])
    theirs = c.to_pld(parts[0], step=1e-3).self_compose(5).compose(c.to_pld(parts[1], step=1e-3))
    for at in (0.2, 0.9, 1.7):
        value = float(theirs.get_delta_for_epsilon(at))
        assert c.delta(known, at).upper <= value <= c.delta(known, at).upper * (1 + 1e-4)


@pytest.mark.parametrize("name", ["laplace", "sampled", "tied", "failing"])
def test_what_is_written_can_be_read(name: str) -> None:
    event = WRITTEN[name]
    back = c.from_pld(c.to_pld(event, step=0.01))
    assert isinstance(back, c.OrderedPair) == (len(event.directions()) == 2)
    for at in (0.0, 0.33, 1.0):
        assert c.delta(event, at).upper <= c.delta(back, at).upper <= c.delta(event, at).upper * 1.02 + 1e-9
    twice = c.compose((event, 2))
    assert c.delta(twice, 0.4).upper <= c.delta(c.compose((back, 2)), 0.4).upper


def test_a_guarantee_is_written_too() -> None:
    graph = c.AccountantGraph().source("people").release("mean", c.Laplace(2.0), reads=["people"])
    for what in (graph, graph.guarantee(), c.Laplace(2.0)):
        assert c.to_pld(what, step=0.01).get_epsilon_for_delta(1e-9) == pytest.approx(0.5, rel=1e-6)


def test_a_cut_of_the_masses_that_a_failure_takes_is_at_the_lowest_losses() -> None:
    theirs = c.to_pld(c.ApproximateDP(1.0, 0.25), step=0.5)
    masses = table(theirs._pmf_remove)
    assert theirs._pmf_remove._infinity_mass == pytest.approx(0.25, rel=1e-8)
    assert math.fsum(masses.values()) == pytest.approx(0.75, rel=1e-8)
    assert masses[2] == pytest.approx(1 / (1 + math.exp(-1.0)), rel=1e-8)  # untouched


@pytest.mark.parametrize(
    "what, step, error, reason",
    [
        (c.PoissonSampled(0.1, c.Gaussian(1.0), "removal"), 1e-3, c.InvalidArgumentError, "direction"),
        (c.compose((c.PoissonSampled(0.1, c.Laplace(1.0), "addition"), 3)), 1e-3, c.InvalidArgumentError, "direction"),
        (c.compose(c.ZCDP(0.1), c.Failure(1e-3)), 1e-3, c.UnsupportedEventError, "no guarantee"),
        ("noise", 1e-3, c.InvalidArgumentError, "what"),
        (c.Laplace(1.0), 0.0, c.InvalidArgumentError, "step"),
        (c.Laplace(1e-4), 1e-4, c.NumericalError, "cells"),
    ],
)
def test_what_cannot_be_written_is_refused(what: Any, step: float, error: Any, reason: str) -> None:
    with pytest.raises(error, match=reason):
        c.to_pld(what, step=step)
