"""Tests of noise that meets a target, for each threat model and by closed forms, and of the printed noise of Theorem
6."""

import math
from typing import Any

import pytest
from attrs import evolve
from hypothesis import strategies as st
from samples import deep_examples

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.calibration import calibrated, one_release, theorem_6
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.privacy_plan import places, plan, printed_claims, printed_scale

D = 12


def phase_of(k: int, trees: int) -> TreePhase:
    """A phase of 2^k records with the largest batch that fits."""
    n = 2**k
    batch = n if trees == 0 else 2**trees * (4 * n // (2**trees * trees * (trees + 5)))
    return TreePhase(records=n, trees=trees, batch=batch, scales=(1.0,) * max(1, trees))


def setting(trees: tuple[int | None, ...] = (None, None, 1, None, None, 2, None, 3), **kept: Any) -> StochSetting:
    phases = tuple(None if t is None else phase_of(k, t) for k, t in enumerate(trees))
    return evolve(StochSetting(clients=6, phases=phases), **kept)


def certified(found: StochSetting, view: str, delta: float = 0.0) -> float:
    return plan(found, experts=D).guarantee(view=view).epsilon(delta).upper


def scales(found: StochSetting, k: int = -1) -> tuple[float, ...]:
    phase = found.phases[k]
    assert phase is not None
    return phase.scales


# --- pure ------------------------------------------------------------------------------------------------------------


@deep_examples(
    12,
    100,
    epsilon=st.floats(0.01, 20.0),
    model=st.sampled_from(["output", "client", "server", "central"]),
    noise=st.sampled_from(["laplace", "gumbel", "exponential"]),
    low=st.sampled_from([-1.0, 0.0, -0.3]),
    smoothness=st.one_of(st.none(), st.just(0.0), st.floats(0.01, 3.0)),
    assignment=st.sampled_from(["secret", "contiguous"]),
    amplified=st.booleans(),
)
def test_pure_targets_are_met_and_used_up(
    epsilon: float, model: str, noise: str, low: float, smoothness: float | None, assignment: str, amplified: bool
) -> None:
    """Never above the target for any threat model and phase, and not below 99 % of it."""
    where = "server" if model == "central" else "client"
    asked = setting(low=low, smoothness=smoothness, assignment=assignment, where=where, noise=noise)
    if model == "server" and noise != "laplace":
        with pytest.raises(InvalidArgumentError):
            calibrated(asked, experts=D, threat_model=model, epsilon=epsilon)
        return
    found = calibrated(asked, experts=D, threat_model=model, epsilon=epsilon, amplified=amplified)
    assert [p and (p.trees, p.batch) for p in found.phases] == [p and (p.trees, p.batch) for p in asked.phases]
    charged = found if amplified else evolve(found, assignment="contiguous")
    assert 0.99 * epsilon <= certified(charged, model) <= epsilon
    assert certified(found, model) <= epsilon
    for k, phase in enumerate(found.phases):
        if phase is not None:  # every phase by itself uses up the target
            alone = evolve(charged, phases=(*(None,) * k, phase))
            assert 0.99 * epsilon <= certified(alone, model) <= epsilon


@pytest.mark.parametrize("beta", [None, 0.0, 0.2, 0.7, 2.0])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_pure_scales_of_the_winners_are_the_printed_ones_times_what_curvature_costs(
    beta: float | None, low: float
) -> None:
    """5.3(1): printed x min(2, max(1, beta dx/alpha)) for [-alpha, alpha]; half of its kind for [0, alpha]."""
    ways = {1: 2.0, 2: 1.4, 3: 2.0 * (1.0 - 6 * 7 / (10 * 11))}
    span = 1.0 - low
    for where in ("client", "server"):
        asked = setting(low=low, smoothness=beta, assignment="contiguous", where=where)
        model = "output" if where == "client" else "central"
        found = calibrated(asked, experts=D, threat_model=model, epsilon=0.5)
        phase = found.phases[-1]
        assert phase is not None
        for tree, way in ways.items():
            curved = span if beta is None else min(span, beta * way)
            expected = 2.0**tree / (phase.batch * 0.5) * max(2.0 * span, 4.0 * curved)
            assert phase.scale(tree) == pytest.approx(expected / (6 if where == "server" else 1), rel=1e-9)
        if low == -1.0:
            ratio = phase.scale(1) / printed_scale(asked, 9, phase, 1, epsilon=0.5)
            assert ratio == pytest.approx(min(2.0, max(1.0, 2.0 if beta is None else beta * 2.0)), rel=1e-9)


def test_messages_need_d_times_as_much() -> None:
    """5.3(3): d/2 times the noise of the winners; on printed scales d for curved and d/2 for linear losses."""
    for beta in (None, 0.0):
        asked = setting(low=-1.0, smoothness=beta, assignment="contiguous")
        winners = calibrated(asked, experts=D, threat_model="output", epsilon=0.5)
        messages = calibrated(asked, experts=D, threat_model="server", epsilon=0.5)
        for k in (2, 5, 7):
            assert scales(messages, k) == pytest.approx([D / 2 * scale for scale in scales(winners, k)], rel=1e-9)


def test_one_release_of_linear_losses_halves_the_noise() -> None:
    """5.3(4): 2 (high - low)/(N eps) from all N losses, also for losses that are not linear."""
    for beta in (0.0, None):
        asked = one_release(setting(smoothness=beta, assignment="contiguous"))
        assert all(phase is not None and phase.trees == 0 for phase in asked.phases)
        found = calibrated(asked, experts=D, threat_model="client", epsilon=0.25)
        for k in range(8):
            assert scales(found, k) == pytest.approx([2.0 / (2**k * 0.25)], rel=1e-12)
        assert certified(found, "client") <= 0.25
    full = StochSetting(clients=1, phases=(*(None,) * 12, phase_of(12, 1)), assignment="contiguous")
    tree = calibrated(full, experts=D, threat_model="client", epsilon=0.25)
    one = calibrated(one_release(full), experts=D, threat_model="client", epsilon=0.25)
    assert scales(tree)[0] / scales(one)[0] == pytest.approx(3.0, rel=1e-2)  # a full batch would give 2, 2/3 of it 3


def test_a_secret_assignment_needs_the_noise_of_a_larger_epsilon() -> None:
    asked = setting((None,) * 8 + (1,), smoothness=0.0)
    found = calibrated(asked, experts=D, threat_model="output", epsilon=1.0)
    plain = calibrated(asked, experts=D, threat_model="output", epsilon=1.0, amplified=False)
    phase = asked.phases[-1]
    assert phase is not None
    q = float(sum(place.share for place in places(asked, phase)))
    inner = math.log1p(math.expm1(1.0) / q)
    assert scales(plain)[0] / scales(found)[0] == pytest.approx(inner, rel=1e-9)
    assert certified(evolve(found, assignment="contiguous"), "output") == pytest.approx(inner, rel=1e-9)


# --- approximate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "smoothness"),
    [("contiguous", 0.0), pytest.param("secret", None, marks=pytest.mark.statistical)]
    + [pytest.param(*case, marks=pytest.mark.deep) for case in (("contiguous", None), ("secret", 0.0))],
)
@pytest.mark.parametrize(
    ("model", "noise"), [("output", "laplace"), ("server", "laplace"), ("server", "gaussian"), ("central", "gumbel")]
)
@pytest.mark.every(3)  # an odd step, so that both assignments stay
def test_approximate_targets_are_met(assignment: str, model: str, noise: str, smoothness: float | None) -> None:
    where = "server" if model == "central" else "client"
    asked = setting((None,) * 5 + (2,), noise=noise, assignment=assignment, where=where, smoothness=smoothness)
    found = calibrated(asked, experts=D, threat_model=model, epsilon=0.8, delta=1e-6)
    used = certified(found, model, 1e-6)
    assert used <= 0.8
    assert used >= (0.99 if assignment == "contiguous" else 0.9) * 0.8


def test_delta_reduces_the_noise_of_messages() -> None:
    """5.3(3): for a hundred experts, Gaussian noise or the exact loss of Laplace noise beat the factor d by far."""
    asked = setting((None,) * 6 + (1,), smoothness=0.0, assignment="contiguous")
    deviations = {}
    for noise, delta, unit in (
        ("laplace", 0.0, math.sqrt(2.0)),
        ("laplace", 1e-6, math.sqrt(2.0)),
        ("gaussian", 1e-6, 1.0),
    ):
        found = calibrated(evolve(asked, noise=noise), experts=100, threat_model="server", epsilon=1.0, delta=delta)
        deviations[noise, delta] = scales(found)[0] * unit
    assert deviations["laplace", 1e-6] < 0.45 * deviations["laplace", 0.0]
    assert deviations["gaussian", 1e-6] < 0.45 * deviations["laplace", 0.0]


# --- Theorem 6 -------------------------------------------------------------------------------------------------------


def log_rounds(number: int, delta: float) -> float:
    """ln(2^(p-1)/δ)."""
    return (number - 1) * math.log(2.0) - math.log(delta)


@pytest.mark.parametrize(("number", "delta", "expected"), [(14, 1e-5, 4.7), (14, 1e-9, 5.8), (20, 1e-5, 5.3)])
def test_theorem_6_prints_less_noise_for_deep_trees_alone(number: int, delta: float, expected: float) -> None:
    """5.4(a): for T1 > 2 log2(ln(2^(p-1)/delta)/4)."""
    found = 2.0 * math.log2(log_rounds(number, delta) / 4.0)
    assert found == pytest.approx(expected, abs=0.06)
    asked = setting((None, None, 1), low=-1.0)
    for trees in (int(found), int(found) + 1):
        phase = TreePhase(records=2**14, trees=trees, batch=2**trees, scales=(1.0,) * trees)
        pure = printed_scale(asked, number, phase, trees, epsilon=1.0)
        assert (printed_scale(asked, number, phase, trees, epsilon=1.0, delta=delta) < pure) == (trees > found)


def test_theorem_6_needs_shallow_trees() -> None:
    """5.4(a): eps = 1, m = 10, d = 100, alpha = beta = 1, delta = 1e-6: -0.6, 1.4, 3.5 at p = 12, 16, 20.

    T1 is (2/3) log2(b eps sqrt(m) beta/(alpha ln(2^(p-1)/delta) ln(d))) with b = 2^(p-1)/(p-1)^2.
    """
    values = [
        2.0 / 3.0 * math.log2(2 ** (p - 1) / (p - 1) ** 2 * math.sqrt(10) / (log_rounds(p, 1e-6) * math.log(100)))
        for p in (12, 16, 20)
    ]
    assert values == pytest.approx([-0.6, 1.4, 3.5], abs=0.06)


def test_theorem_6_noise_is_never_more_than_pure_noise_and_what_is_certified_is_the_graphs() -> None:
    """F5: below the crossover the noise is the pure one, hence (eps, 0)-DP; above it only the graph certifies a
    bound."""
    shallow = theorem_6(setting(low=-1.0), experts=D, epsilon=1.0, delta=1e-5)
    assert shallow == calibrated(shallow, experts=D, threat_model="output", epsilon=1.0)
    assert certified(shallow, "output") <= 1.0
    deep = setting((*(None,) * 15, 9), low=-1.0, smoothness=None, assignment="contiguous")
    found = theorem_6(deep, experts=D, epsilon=1.0, delta=1e-5)
    pure = calibrated(deep, experts=D, threat_model="output", epsilon=1.0)
    assert all(a <= b for a, b in zip(scales(found), scales(pure), strict=True))
    assert scales(found)[-1] < scales(pure)[-1]
    assert certified(found, "output") > 1.0


def test_theorem_6_without_amplification_loses_a_multiple_of_epsilon() -> None:
    """5.4(b), p = 26, T1 = 8, delta = 1e-6: a right child at depth 8 of tree 8 loses 4.1 eps; q = 0.083."""
    batch = 2**25 // 625
    batch -= batch % 2**8
    phase = TreePhase(records=2**24, trees=8, batch=batch, scales=(1.0,) * 8)
    asked = StochSetting(clients=1, phases=(*(None,) * 24, phase), low=-1.0, high=1.0, smoothness=None)
    scale = printed_scale(asked, 26, phase, 8, epsilon=1.0, delta=1e-6)
    printed = evolve(phase, scales=(scale,) * 8)
    assert phase.used() / phase.records == pytest.approx(0.083, abs=1e-3)
    last = max(places(evolve(asked, assignment="contiguous"), printed), key=lambda place: (place.tree, place.depth))
    assert 2.0 * last.shift / last.scale * last.leaves == pytest.approx(4.1, abs=0.05)


def test_no_printed_claim_certifies_a_calibration_for_the_server() -> None:
    """M1: scales of the winners claim nothing for messages; those of messages are above the printed ones."""
    asked = setting(low=-1.0, smoothness=0.0, assignment="contiguous")
    winners = calibrated(asked, experts=D, threat_model="output", epsilon=1.0)
    claims = {claim.threat_model.value: claim for claim in printed_claims(winners, experts=D, epsilon=1.0)}
    assert claims["output"].holds and claims["server"].refuted
    messages = calibrated(asked, experts=D, threat_model="server", epsilon=1.0)
    assert all(claim.holds and claim.printed.applies for claim in printed_claims(messages, experts=D, epsilon=1.0))


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": True},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"delta": math.nan},
        {"experts": 1},
        {"threat_model": "central"},
        {"threat_model": "everybody"},
        {"amplified": 1},
    ],
)
def test_bad_targets_are_refused(bad: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"experts": D, "threat_model": "output", "epsilon": 1.0, **bad}
    with pytest.raises(InvalidArgumentError):
        calibrated(setting(), **asked)


@pytest.mark.parametrize(
    ("kept", "model", "delta"),
    [
        ({"noise": "gaussian"}, "output", 0.0),
        ({"noise": "gumbel"}, "server", 1e-3),
        ({"where": "server"}, "server", 1e-3),
    ],
)
def test_noise_that_meets_no_target_is_refused(kept: dict[str, Any], model: str, delta: float) -> None:
    with pytest.raises(InvalidArgumentError, match="can't be met"):
        calibrated(setting(**kept), experts=D, threat_model=model, epsilon=1.0, delta=delta)


def test_theorem_6_is_of_laplace_noise_at_clients() -> None:
    for other in (setting(noise="gumbel"), setting(where="server")):
        with pytest.raises(InvalidArgumentError):
            theorem_6(other, experts=D, epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidArgumentError):
        theorem_6(setting(), experts=D, epsilon=1.0, delta=0.0)
