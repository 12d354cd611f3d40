"""Tests of the cost of the federated stochastic learner: the totals of every place, the views, and the printed
claims."""

import math
from fractions import Fraction

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, GraphError, InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.catalogue import Laplace, NonPrivate, compose
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.privacy_plan import (
    models_of,
    phase_event,
    place_event,
    places,
    plan,
    printed_claims,
    printed_scale,
)
from hockeystick.learners.network.threat_models import ThreatModel

D = 10


def full_batch(records: int, trees: int) -> int:
    """The largest batch that fits."""
    return records if trees == 0 else 2**trees * (4 * records // (2**trees * trees * (trees + 5)))


def setting(
    trees: int = 1,
    *,
    epsilon: float = 1.0,
    k: int = 10,
    low: float = -1.0,
    high: float = 1.0,
    smoothness: float | None = None,
    assignment: str = "contiguous",
    clients: int = 1,
    where: str = "client",
    noise: str = "laplace",
    exponent: int | None = None,
) -> StochSetting:
    """One phase of 2^k records with the printed scales 4 alpha 2^j/(b epsilon)."""
    b, alpha = full_batch(2**k, trees), max(abs(low), abs(high))
    m = clients if where == "server" else 1
    scales = tuple(
        4.0 * alpha * 2.0 ** (j if exponent is None else exponent) / (b * epsilon * m) for j in range(1, trees + 1)
    )
    phase = TreePhase(records=2**k, trees=trees, batch=b, scales=scales or (4.0 * alpha / (b * epsilon * m),))
    return StochSetting(
        clients=clients,
        phases=(None,) * k + (phase,),
        low=low,
        high=high,
        smoothness=smoothness,
        noise=noise,
        where=where,
        assignment=assignment,
    )


def certified(found: StochSetting, view: str, delta: float = 0.0, experts: int = D) -> float:
    return plan(found, experts=experts).guarantee(view=view).epsilon(delta).upper


def totals(found: StochSetting, model: str, experts: int = D) -> dict[tuple[int, int], float]:
    phase = found.phases[-1]
    assert phase is not None
    return {
        (place.tree, place.depth): place_event(found, place, experts=experts, model=model).pure_epsilon()
        for place in places(found, phase)
    }


def travel(tree: int, depth: int) -> float:
    """How far the iterate can go under the first right child of a depth, step by step."""
    first, left = 2**tree - 1, 1.0
    for k in range(first, first + 2 ** (tree - depth)):
        left *= 1.0 - 2.0 / (k + 1)
    return 2.0 * (1.0 - left)


# --- totals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trees", [1, 2, 3, 4])
def test_the_table_of_totals_is_derived_again(trees: int) -> None:
    """Specification 5.1, at the printed scales: 2^j leaves of eps/2^j and so on, to whom and for which gradients."""
    eps = 0.8
    both = totals(setting(trees, epsilon=eps), "output")
    positive = totals(setting(trees, epsilon=eps, low=0.0), "output")
    server = totals(setting(trees, epsilon=eps), "server")
    server_positive = totals(setting(trees, epsilon=eps, low=0.0), "server")
    expected = {(j, r) for j in range(1, trees + 1) for r in range(j + 1)}
    assert set(both) == set(positive) == set(server) == set(server_positive) == expected
    for (tree, depth), total in both.items():
        factor = 2.0 if depth else 1.0
        assert total == pytest.approx(factor * eps, rel=1e-12)
        assert positive[tree, depth] == pytest.approx(factor * eps / 2, rel=1e-12)
        assert server[tree, depth] == pytest.approx(factor * D * eps / 2, rel=1e-12)
        assert server_positive[tree, depth] == pytest.approx(factor * D * eps / 4, rel=1e-12)


@pytest.mark.parametrize("beta", [0.2, 0.55, 0.8, 3.0])
@pytest.mark.parametrize("trees", [1, 2, 3, 4])
def test_smooth_corrections_are_charged_for_the_path_of_the_iterate(trees: int, beta: float) -> None:
    """min(2, beta dx/alpha) eps at the outputs, d/2 as much for messages; dx = 2, 1.4, 1.236, 1.170 at depth 1."""
    found = totals(setting(trees, smoothness=beta), "output")
    seen = totals(setting(trees, smoothness=beta), "server")
    for (tree, depth), total in found.items():
        expected = min(2.0, beta * travel(tree, depth)) if depth else 1.0
        assert total == pytest.approx(expected, rel=1e-9)
        assert total >= expected * (1 - 1e-13)
        assert seen[tree, depth] == pytest.approx(D / 2 * expected, rel=1e-9)


def test_the_way_at_depth_one_is_the_specified_one() -> None:
    assert [travel(j, 1) for j in (1, 2, 3, 4)] == pytest.approx([2.0, 1.4, 1.236, 1.170], abs=6e-4)


@pytest.mark.parametrize("trees", [0, 1, 2, 3, 5])
def test_shares_count_every_vertex_once_and_the_first_of_a_depth_is_the_worst(trees: int) -> None:
    found = setting(trees, smoothness=0.3)
    phase = found.phases[-1]
    assert phase is not None
    vertices, rows = phase.vertices(), places(found, phase)
    assert sum(row.share for row in rows) == Fraction(phase.used(), phase.records)
    for row in rows:
        alike = [v for v in vertices if (v.tree, v.depth) == (row.tree, row.depth)]
        assert row.share == Fraction(sum(v.records for v in alike), phase.records)
        assert {v.leaves for v in alike} == {row.leaves}
        widest = max(v.travel() for v in alike)
        width = min(2.0, 0.3 * float(widest)) * 2.0 if row.depth else 2.0
        assert row.shift == pytest.approx(width / alike[0].records, rel=1e-9)


def test_linear_losses_are_charged_only_at_roots() -> None:
    assert set(totals(setting(3, smoothness=0.0), "output")) == {(1, 0), (2, 0), (3, 0)}
    assert certified(setting(3, smoothness=0.0), "output") == pytest.approx(1.0, rel=1e-12)


# --- curves ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experts", "epsilon", "smoothness", "expected"),
    [
        (10, 1.0, 0.0, 4.67),
        (10, 1.0, None, 10.0),
        (18, 1.0, 0.0, 6.92),
        (18, 1.0, None, 17.85),
        (100, 1.0, 0.0, 20.9),
        (100, 1.0, None, 71.5),
        (100, 0.5, 0.0, 9.13),
        (100, 0.5, None, 30.5),
    ],
)
def test_messages_are_charged_for_every_coordinate(
    experts: int, epsilon: float, smoothness: float | None, expected: float
) -> None:
    """Golden numbers of specification 5.2: PLD at delta = 1e-6, T1 = 1, record pinned (linear or not)."""
    found = setting(1, epsilon=epsilon, smoothness=smoothness)
    assert certified(found, "server", 1e-6, experts) == pytest.approx(expected, rel=0.01)


def test_a_message_costs_what_a_laplace_vector_costs() -> None:
    found = setting(2, smoothness=0.0)
    phase = found.phases[-1]
    assert phase is not None
    for place in places(found, phase):
        own = place_event(found, place, experts=5, model="server")
        laplace = compose((Laplace(place.scale).at(place.shift), 5 * place.leaves))
        assert own.pure_epsilon() == pytest.approx(laplace.pure_epsilon(), rel=1e-12)
        for delta in (1e-9, 1e-4):
            reference = accounting.epsilon(laplace, delta).upper
            assert accounting.epsilon(own, delta).upper == pytest.approx(reference, rel=1e-6)


def test_gaussian_messages_compose_to_one_shift() -> None:
    found = evolve(setting(2), noise="gaussian")
    phase = found.phases[-1]
    assert phase is not None
    for place in places(found, phase):
        mu = place.shift * math.sqrt(D * place.leaves) / place.scale
        for model in ("output", "server"):
            event = place_event(found, place, experts=D, model=model)
            assert event.zcdp_rho() == pytest.approx(D * place.leaves * (place.shift / place.scale) ** 2 / 2, rel=1e-9)
            assert math.isinf(event.pure_epsilon())
            assert event.zcdp_rho() >= 0.5 * mu**2 * (1 - 1e-12)


def test_a_secret_assignment_amplifies_what_is_not_always_read() -> None:
    """0.763 = ln(1 + (2/3)(e - 1)): linear losses, T1 = 1, of which a root reads two thirds (5.2 and 9)."""
    found = setting(1, smoothness=0.0, k=12, assignment="secret")
    phase = found.phases[-1]
    assert phase is not None
    q = phase.batch / phase.records
    assert q == pytest.approx(2 / 3, abs=1e-3)
    assert certified(found, "output") == pytest.approx(math.log1p(q * math.expm1(1.0)), rel=1e-12)
    assert certified(found, "output") == pytest.approx(0.763, abs=1e-3)
    assert certified(evolve(found, assignment="contiguous"), "output") == pytest.approx(1.0, rel=1e-12)


@given(
    trees=st.integers(1, 3),
    epsilon=st.floats(0.1, 3.0),
    beta=st.one_of(st.none(), st.just(0.0), st.floats(0.01, 3.0)),
    low=st.sampled_from([-1.0, 0.0]),
    model=st.sampled_from(["output", "server"]),
)
@settings(max_examples=40, deadline=None)
def test_secret_is_the_amplified_worst_place_and_never_more_than_contiguous(
    trees: int, epsilon: float, beta: float | None, low: float, model: str
) -> None:
    found = setting(trees, epsilon=epsilon, smoothness=beta, low=low, assignment="secret", k=8)
    phase = found.phases[-1]
    assert phase is not None
    worst = max(totals(found, model).values())
    q = float(sum(place.share for place in places(found, phase)))
    secret = phase_event(found, phase, experts=D, model=model).pure_epsilon()
    plain = phase_event(evolve(found, assignment="contiguous"), phase, experts=D, model=model).pure_epsilon()
    assert plain == pytest.approx(worst, rel=1e-12)
    assert secret == pytest.approx(worst + math.log(q + (1 - q) * math.exp(-worst)), rel=1e-9)
    assert secret <= plain


# --- who sees what ---------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(clients=st.integers(2, 500), trees=st.integers(0, 3), assignment=st.sampled_from(["secret", "contiguous"]))
@settings(max_examples=8, deadline=None)
def test_colluding_clients_leave_the_guarantee_of_one_client(clients: int, trees: int, assignment: str) -> None:
    """F40: the others' noise and data are constants for an adversary that knows them, and no guarantee uses them."""
    many = setting(trees, clients=clients, assignment=assignment, k=6, smoothness=0.4)
    alone = evolve(many, clients=1)
    for view in ("client", "output", "server"):
        assert certified(many, view) == certified(alone, view)
        for one, other in zip(plan(many, experts=D).views, plan(alone, experts=D).views, strict=True):
            assert one == other  # events and all: the same at every delta
    central = setting(trees, clients=clients, assignment=assignment, k=6, where="server", smoothness=0.4)
    for view in ("client", "output", "central"):
        assert certified(central, view) == pytest.approx(certified(alone, view.replace("central", "output")), rel=1e-12)


def test_the_noise_of_a_client_is_not_that_of_the_average() -> None:
    """M6: scales for noise at the server, a client's over m, cost m times as much where clients add them."""
    central = setting(1, clients=8, where="server", smoothness=0.0)
    mutant = evolve(central, where="client")
    assert certified(central, "central") == pytest.approx(1.0, rel=1e-12)
    assert certified(mutant, "client") == pytest.approx(8.0, rel=1e-12)


def test_a_server_that_adds_the_noise_sees_the_messages() -> None:
    """F6: the inbox holds raw gradients; without a view everything is published, so it is in that guarantee too."""
    graph = plan(setting(1, where="server", clients=3), experts=D)
    assert math.isinf(graph.guarantee(view="server").epsilon(1e-3).upper)
    assert math.isinf(graph.guarantee().epsilon(1e-3).upper)
    assert graph.guarantee(view="central").epsilon(0.0).upper == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize("assignment", ["secret", "contiguous"])
def test_one_sided_noise_gives_messages_an_infinite_epsilon(noise: str, assignment: str) -> None:
    found = setting(1, noise=noise, assignment=assignment, smoothness=0.0)
    assert math.isinf(certified(found, "server", 0.5))
    assert math.isfinite(certified(found, "output"))


def test_gumbel_noise_at_the_server_is_of_bounded_range() -> None:
    """Specification 5.3(2): zCDP (R/mu)^2/8 per leaf; Laplace and exponential noise are charged more."""
    found = {noise: setting(1, where="server", noise=noise) for noise in ("gumbel", "laplace", "exponential")}
    rho = {noise: plan(s, experts=D).guarantee(view="central").event.zcdp_rho() for noise, s in found.items()}
    assert rho["gumbel"] <= 4.0 / 8 * (1 + 1e-12)
    assert rho["laplace"] > 4.0 / 8
    assert rho["exponential"] == rho["laplace"]


def test_views_are_those_of_the_setting() -> None:
    assert ThreatModel.CENTRAL not in models_of(setting())
    assert set(models_of(setting(where="server"))) == set(ThreatModel)
    with pytest.raises(GraphError):
        plan(setting(), experts=D).guarantee(view="central")
    local = setting()
    place = places(local, local.phases[-1])[0]  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        place_event(local, place, experts=D, model="central")
    with pytest.raises(InvalidArgumentError):
        place_event(local, place, experts=D, model="nobody")
    with pytest.raises(InvalidArgumentError):
        plan(local, experts=1)


def test_phases_are_alternatives_and_skipped_ones_cost_nothing() -> None:
    one = setting(1, k=6)
    smaller = TreePhase(records=16, trees=1, batch=8, scales=(4.0 * 2.0 / 8,))
    both = evolve(one, phases=(*(None,) * 4, smaller, None, one.phases[-1]))
    assert certified(both, "output") == certified(one, "output")
    weaker = evolve(both, phases=(*(None,) * 4, evolve(smaller, scales=(0.5,)), None, one.phases[-1]))
    assert certified(weaker, "output") == pytest.approx(4.0, rel=1e-12)
    assert plan(evolve(one, phases=(None, None)), experts=D).guarantee().epsilon(0.0).upper == 0.0


@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("assignment", ["secret", "contiguous"])
def test_plans_go_through_files_and_groups_are_refused(where: str, noise: str, assignment: str) -> None:
    graph = plan(setting(2, where=where, noise=noise, assignment=assignment, smoothness=0.5, clients=3), experts=D)
    again = AccountantGraph.from_json(graph.to_json())
    assert again == graph
    for view in ("output", "server") if where == "client" else ("output",):
        with pytest.raises(UnsupportedEventError):
            again.guarantee(view=view, group=2).epsilon(0.0)
    assert len(graph.guarantee(view="output").assumptions) == (4 if assignment == "secret" else 3)


# --- printed claims --------------------------------------------------------------------------------------------------


def by_model(found: StochSetting, **target: float) -> dict[str, tuple[bool, bool]]:
    claims = printed_claims(found, experts=D, epsilon=1.0, **target)
    return {claim.threat_model.value: (claim.holds, claim.refuted) for claim in claims}


def test_theorem_1_holds_for_winners_of_linear_or_one_sided_losses_and_for_no_messages() -> None:
    """C1, C2 (specification 4, 5.2): at the outputs if beta dx <= alpha or gradients are in [0, alpha]."""
    outside = {"output": (True, False), "client": (True, False), "server": (False, True)}
    assert by_model(setting(1, smoothness=0.0)) == outside
    assert by_model(setting(3, smoothness=0.5 * (1 - 1e-9))) == outside
    assert by_model(setting(3, low=0.0)) == outside
    assert by_model(setting(2))["output"] == (False, False)
    names = {trees: printed_claims(setting(trees), experts=D, epsilon=1.0)[0].printed for trees in (0, 1, 2)}
    assert names[1].source.endswith("Corollary 1") and names[1].applies
    assert names[2].source.endswith("Theorem 1") and names[2].applies
    assert not names[0].applies  # one release is in no printed algorithm


def test_with_few_experts_messages_are_protected_as_printed() -> None:
    """d eps/4 of linear losses in [0, alpha]: four experts are the most."""
    claims = {d: printed_claims(setting(1, smoothness=0.0, low=0.0), experts=d, epsilon=1.0)[-1] for d in (4, 5, 10)}
    assert claims[4].holds and not claims[4].refuted
    assert claims[5].refuted and not claims[5].holds
    assert claims[10].attained == pytest.approx(2.5, rel=1e-9)


def test_a_secret_assignment_of_a_small_part_saves_theorem_1() -> None:
    """5.2 (ii): 2 eps per place is eps in all if q <= 1/(1 + e^eps)."""
    phase = TreePhase(records=1024, trees=1, batch=160, scales=(8.0 / 160,))
    found = evolve(setting(1, assignment="secret"), phases=(None,) * 10 + (phase,))
    assert phase.used() / phase.records <= 1 / (1 + math.e)
    assert by_model(found)["output"] == (True, False)
    assert by_model(found)["server"] == (False, False)  # certified far above, with no lower bound known


def test_theorem_7_needs_twice_its_noise_for_curved_losses() -> None:
    """C4: its proof uses the range D of counting queries, where gradients need 2D."""
    assert by_model(setting(1, where="server", clients=5, smoothness=0.0))["central"] == (True, False)
    assert by_model(setting(1, where="server", clients=5))["central"] == (False, False)
    assert by_model(setting(1, where="server", clients=5))["server"] == (False, True)


def test_theorem_6_never_applies() -> None:
    """C3 has no stated constants; its conditions say so, and the certified bound is the graph's."""
    claims = printed_claims(setting(2), experts=D, epsilon=1.0, delta=1e-6)
    assert all(not claim.printed.applies for claim in claims)
    assert {condition.statement for condition in claims[0].printed.failing} >= {
        "constants of (O(epsilon), O(delta)) that are stated"
    }
    assert claims[-1].refuted


def test_settings_that_no_claim_covers_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        printed_claims(setting(noise="gumbel"), experts=D, epsilon=1.0)
    with pytest.raises(InvalidArgumentError):
        printed_claims(setting(where="server"), experts=D, epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidArgumentError):
        printed_claims(setting(), experts=D, epsilon=math.nan)


# --- mutants ---------------------------------------------------------------------------------------------------------


def test_mutants_of_the_scales_are_charged_for_their_actual_noise() -> None:
    """M1: messages cost d/2 as much; M2: a range of 2D; M3: scales without 2^j cost 2^j times as much."""
    assert certified(setting(1, smoothness=0.0), "server") == pytest.approx(D / 2, rel=1e-12)
    assert certified(setting(1), "output") == pytest.approx(2.0, rel=1e-12)
    for trees in (1, 2, 3):
        mutant = setting(trees, smoothness=0.0, exponent=0)
        assert certified(mutant, "output") == pytest.approx(2.0**trees, rel=1e-12)


def test_smoothness_without_the_clip_does_not_lower_the_cost() -> None:
    """M25: a correction that is not clipped to beta times the path is charged for gradients that jump."""
    assert certified(setting(2, smoothness=None), "output") == pytest.approx(2.0, rel=1e-12)
    assert certified(setting(2, smoothness=0.01), "output") == pytest.approx(1.0, rel=1e-12)


def test_scales_are_the_printed_ones() -> None:
    found = setting(3, epsilon=0.5, k=12)
    phase = found.phases[-1]
    assert phase is not None
    for tree in (1, 2, 3):
        assert printed_scale(found, 14, phase, tree, epsilon=0.5) == pytest.approx(phase.scale(tree), rel=1e-12)
    theorem_6 = printed_scale(found, 14, phase, 3, epsilon=0.5, delta=1e-5)
    assert theorem_6 == pytest.approx(2**1.5 * math.log(2.0**13 / 1e-5) / (0.5 * phase.batch), rel=1e-12)


def test_a_message_without_noise_is_not_private() -> None:
    found = setting(1, where="server")
    phase = found.phases[-1]
    assert phase is not None
    assert phase_event(found, phase, experts=D, model="server") == NonPrivate()
