"""Tests of exact laws of the winners: against second derivations, golden numbers, and the certificates."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from attrs import evolve
from fed_stoch_cases import Gradient, secret_winners_law, winners_law
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import ReportNoisyMax
from hockeystick.learners.federated.stochastic.exact_winners import leaf_law, losses
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.losses import SquaredProducts
from hockeystick.learners.federated.stochastic.privacy_plan import plan

NOISES = ("laplace", "gumbel", "exponential")


# --- one leaf --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 5, 17])
def test_sums_of_laplaces_against_bessel_functions(m: int) -> None:
    """Two experts: the difference of two sums of m is a sum of 2m, of density |x|^(n-1/2) K_{n-1/2}(|x|)/(...)."""
    n, gap = 2 * m, 1.7

    def density(x: float) -> float:
        scale = math.sqrt(math.pi) * 2.0 ** (n - 0.5) * math.gamma(n)
        return float(x ** (n - 0.5) * special.kv(n - 0.5, x) / scale)

    between = integrate.quad(density, 1e-12, gap, epsabs=1e-13)[0]
    law = np.exp(leaf_law([0.0, gap], scale=1.0, summands=m))
    assert law == pytest.approx([0.5 + between, 0.5 - between], abs=1e-9)


@pytest.mark.parametrize("m", [2, 10])
def test_laws_of_sums_normalise_and_do_not_depend_on_a_constant(m: int) -> None:
    scores = np.array([0.0, 0.4, -1.0, 3.0])
    law = leaf_law(scores, scale=0.7, summands=m)
    assert np.exp(law).sum() == pytest.approx(1.0, abs=1e-9)
    assert leaf_law(scores + 5.0, scale=0.7, summands=m) == pytest.approx(law, abs=1e-9)
    assert leaf_law(scores[::-1], scale=0.7, summands=m)[::-1] == pytest.approx(law, abs=1e-9)


@pytest.mark.parametrize(
    ("m", "ratio", "delta", "gaps"),
    [
        (1, 0.249, 4.2e-2, (0.5,)),
        (5, 0.093, 1.1e-3, (-8.75, -8.5, -8.25)),
        (10, 0.064, 5.6e-5, (-18.0,)),
        (50, 0.028, 0.0, ()),
    ],
)
@pytest.mark.every(2)
def test_the_noise_of_all_clients_hides_much_more_than_is_certified(
    m: int, ratio: float, delta: float, gaps: tuple[float, ...]
) -> None:
    """Specification 5.2: two experts, R/lam = 0.5; the log-ratio at a balanced gap, and delta(0.2) at the worst gap."""
    first = leaf_law([0.0, 0.25], scale=1.0, summands=m)
    second = leaf_law([0.25, 0.0], scale=1.0, summands=m)
    assert first[0] - second[0] == pytest.approx(ratio, abs=6e-4)
    pairs = [[leaf_law([0.0, gap + shift], scale=1.0, summands=m) for shift in (0.0, 0.5)] for gap in gaps]
    assert max((losses(*pair).delta(0.2)[0] for pair in pairs), default=0.0) == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize(("experts", "expected"), [(8, 1.905), (64, 2.000)])
def test_noisy_min_attains_its_range_over_scale(experts: int, expected: float) -> None:
    """F8, E2: R/lam = 2. All others stay, and one goes from a lead of one scale to one behind."""
    first, second = np.zeros(experts), np.zeros(experts)
    first[0], second[0] = -1.0, 1.0
    found = losses(leaf_law(first, scale=1.0), leaf_law(second, scale=1.0)).epsilon(0.0)[0]
    assert found == pytest.approx(expected, abs=1e-3)
    assert 0.95 * 2.0 <= found <= ReportNoisyMax(1.0, score_range=2.0).pure_epsilon()


@pytest.mark.parametrize("noise", NOISES)
def test_no_instance_exceeds_range_over_scale(noise: str) -> None:
    """F8: a random search; the largest loss found with Gumbel and exponential noise is near the bound too."""
    rng = np.random.default_rng(7)
    largest = 0.0
    for _ in range(60):
        d = int(rng.integers(2, 9))
        scores, change = rng.normal(size=d) * rng.exponential(3.0), rng.uniform(-1.0, 1.0, d)
        change *= 2.0 / np.ptp(change)
        pair = leaf_law(scores, scale=1.0, noise=noise), leaf_law(scores + change, scale=1.0, noise=noise)
        assert np.exp(pair[0]).sum() == pytest.approx(1.0, abs=1e-9)
        largest = max(largest, float(np.abs(pair[0] - pair[1]).max()))
    assert 1.9 <= largest <= 2.0 + 1e-9


def test_bounded_range_is_for_gumbel_noise_alone() -> None:
    """5.2: the span of log-ratios, R/scale with Gumbel noise, reaches 2.24 for Laplace noise and 2R for exponential."""

    def span(noise: str, d: int, lead: float, moved: float = 2.0) -> float:
        first, second = np.zeros(d), np.zeros(d)
        first[0], second[0] = lead, lead + moved
        return float(np.ptp(leaf_law(first, scale=1.0, noise=noise) - leaf_law(second, scale=1.0, noise=noise)))

    leads = np.arange(-4.0, 4.1, 0.25)
    assert max(span("gumbel", 4, lead) for lead in leads) <= 2.0 + 1e-9
    assert max(span("laplace", 4, lead) for lead in leads) > 2.2
    assert span("exponential", 2, -0.025, 0.05) > 1.95 * 0.05


# --- trees -----------------------------------------------------------------------------------------------------------


def constant(*values: float) -> Gradient:
    vector = np.array(values)
    return lambda x: vector


def square(signs: Sequence[int]) -> Gradient:
    """The gradient of <u, x>^2/2, of coordinates in [-1, 1]."""
    u = np.array(signs, dtype=float)
    return lambda x: (u @ x) * u


def one_phase(phase: TreePhase, **kept: object) -> StochSetting:
    k = phase.records.bit_length() - 1
    return evolve(StochSetting(clients=1, phases=(*(None,) * k, phase), low=-1.0, high=1.0, smoothness=None), **kept)


def e2_instance(batch: int, epsilon: float, gap: float, noise: str = "laplace", multiple: float = 1.0) -> float:
    """The loss of w1 = e at the printed scale, of the right child's record u against u' (specification E2)."""
    lam = 8.0 / (batch * epsilon)
    phase = TreePhase(records=2 * batch, trees=1, batch=batch, scales=(lam * multiple,))
    found = one_phase(phase, noise=noise)
    half = batch // 2
    others = [square((-1, 1, -1, -1))] * (half // 2) + [constant(0, 0, 0, 0)] * (half - 1 - half // 2)
    root = [constant(1.0, -1.0, 0.0, gap * lam * multiple)] * batch

    def law(u: Sequence[int]) -> FloatArray:
        return np.asarray(winners_law(found, phase, [*root, square(u), *others], start=[1.0, 0.0, 0.0, 0.0]))

    first, second = law((-1, 1, 1, -1)), law((-1, 1, -1, 1))
    assert np.exp(first).sum() == pytest.approx(1.0, abs=1e-9)
    return float((first - second)[1, 3])


@pytest.mark.parametrize(
    ("batch", "epsilon", "gap", "noise", "expected"),
    [
        (64, 1.0, 0.0, "laplace", 0.965),
        (64, 1.0, 3.0, "laplace", 1.596),
        (64, 1.0, 6.0, "laplace", 1.774),
        (64, 1.0, 8.0, "laplace", 1.868),
        (256, 0.5, 8.0, "laplace", 0.900),
        (64, 1.0, 8.0, "gumbel", 1.999),
        (64, 1.0, 8.0, "exponential", 2.000),
    ],
)
def test_the_counter_example_to_the_range_of_counts(
    batch: int, epsilon: float, gap: float, noise: str, expected: float
) -> None:
    """E2, mutant M2: nearly twice the printed epsilon for every noise; twice the scale repairs it."""
    found = e2_instance(batch, epsilon, gap, noise)
    assert found == pytest.approx(expected, abs=1e-3)
    assert found <= 2.0 * epsilon * (1 + 1e-9)
    assert e2_instance(batch, epsilon, gap, noise, 2.0) <= epsilon * (1 + 1e-9)


def root_row(experts: int, multiple: float = 1.0, secret: bool = False) -> float:
    """The loss of linear losses, all others tied, of +1 on one coordinate and -1 elsewhere against its negative."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=(4.0 * multiple,))
    if secret:
        phase = evolve(phase, records=3)
    nothing = constant(*np.zeros(experts))
    u = -np.ones(experts)
    u[0] = 1.0
    setting = evolve(one_phase(evolve(phase, records=4)), phases=(), smoothness=0.0)
    law = secret_winners_law if secret else winners_law
    pair = [law(setting, phase, [constant(*v), nothing, nothing], start=np.eye(experts)[0]) for v in (u, -u)]
    return losses(*pair).epsilon(0.0)[0]


@pytest.mark.statistical
def test_the_row_of_root_records() -> None:
    """Specification 9: claim eps = 1. d = 8: 0.989, d = 2: 0.498; secret at q = 2/3: 0.656; M3, no 2^j: 1.96."""
    assert root_row(8) == pytest.approx(0.989, abs=1e-3)
    assert root_row(2) == pytest.approx(0.498, abs=1e-3)
    assert root_row(8, secret=True) == pytest.approx(0.656, abs=1e-3)
    assert root_row(8, secret=True) <= math.log1p(2 / 3 * math.expm1(1.0))
    assert root_row(8, multiple=0.5) == pytest.approx(1.963, abs=1e-3)


def steps(rng: np.random.Generator, d: int) -> Gradient:
    """A record whose gradient jumps anywhere: each corner's region has values of its own, some beyond [-1, 1]."""
    table = rng.choice([-3.0, -1.0, 0.0, 1.0], size=(d, d))
    return lambda x: np.asarray(table[int(np.argmax(x))])


def exact_and_certified(phase: TreePhase, d: int, seed: int, slot: int, **kept: object) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    setting = one_phase(phase, **kept)
    records = [steps(rng, d) for _ in range(phase.records)]
    law = secret_winners_law if setting.assignment == "secret" else winners_law
    pair = []
    for changed in (steps(rng, d), steps(rng, d)):
        records[slot] = changed
        pair.append(law(setting, phase, records, start=np.full(d, 1.0 / d)))
    certified = plan(setting, experts=d).guarantee(view="output").epsilon(0.0).upper
    return losses(*pair).epsilon(0.0)[0], certified


@pytest.mark.statistical
@given(
    d=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    slot=st.integers(0, 2),
    scale=st.floats(0.5, 6.0),
    noise=st.sampled_from(NOISES),
    smoothness=st.one_of(st.none(), st.floats(0.05, 1.5), st.just(0.0)),
)
@settings(max_examples=15, deadline=None)
def test_exact_losses_stay_below_the_certificate(
    d: int, seed: int, slot: int, scale: float, noise: str, smoothness: float | None
) -> None:
    """T1 = 1, the record pinned to a root (places 0, 1) or to the right child (place 2)."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=(scale,))
    exact, certified = exact_and_certified(
        phase, d, seed, slot, noise=noise, smoothness=smoothness, assignment="contiguous"
    )
    assert exact <= certified * (1 + 1e-9) + 1e-9


@pytest.mark.statistical
@given(seed=st.integers(0, 10**6), scale=st.floats(0.5, 4.0), smoothness=st.sampled_from([None, 0.3, 0.0]))
@settings(max_examples=6, deadline=None)
def test_exact_losses_of_secret_orders_stay_below_the_amplified_certificate(
    seed: int, scale: float, smoothness: float | None
) -> None:
    """Four records in 24 orders, one of them unread: q = 3/4, or 1/2 for linear losses."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=(scale,))
    exact, certified = exact_and_certified(phase, 3, seed, 0, smoothness=smoothness, assignment="secret")
    assert exact <= certified * (1 + 1e-9) + 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("slot", [n if n in (0, 4, 11) else pytest.param(n, marks=pytest.mark.deep) for n in range(14)])
def test_exact_losses_of_two_trees_stay_below_the_certificate(slot: int) -> None:
    """T1 = 2, two experts, all 14 records pinned in turn: 64 outcomes, and who reads what is checked with it."""
    phase = TreePhase(records=16, trees=2, batch=4, scales=(1.0, 1.5))
    setting = {"assignment": "contiguous", "smoothness": 0.4}
    found = [exact_and_certified(phase, 2, seed, slot, **setting) for seed in range(2)]
    assert all(exact <= certified * (1 + 1e-9) for exact, certified in found)


@pytest.mark.statistical
def test_two_trees_read_disjoint_records_in_order() -> None:
    """Records of tree 1: root 0-3, right child 4-5; tree 2: root 6-9, "01" 10, "1" 11-12, "11" 13; 14, 15 unread."""
    phase = TreePhase(records=16, trees=2, batch=4, scales=(1.0, 1.0))
    setting = one_phase(phase)
    base: list[Gradient] = [constant(0.0, 0.0)] * 16
    reference = winners_law(setting, phase, base, start=[0.5, 0.5])
    first_leaf = {
        **dict.fromkeys(range(4), 0),
        4: 1,
        5: 1,
        **dict.fromkeys(range(6, 10), 2),
        10: 3,
        11: 4,
        12: 4,
        13: 5,
    }
    for slot in range(16):
        # A gradient that depends on the point, so that right children see it too.
        changed = [*base[:slot], lambda x: np.array([x[0], -1.0]), *base[slot + 1 :]]
        law = np.exp(winners_law(setting, phase, changed, start=[0.5, 0.5]))
        moved = [
            leaf
            for leaf in range(6)
            if not np.allclose(
                law.sum(axis=tuple(range(leaf + 1, 6))), np.exp(reference).sum(axis=tuple(range(leaf + 1, 6)))
            )
        ]
        assert min(moved, default=None) == first_leaf.get(slot)


def largest_gap(trees: int, experts: int, noise: str, mutant: float = 1.0) -> tuple[float, float]:
    """How far simulated shares of outcomes are from the exact law's, and how far they may be by chance.

    By Hoeffding and the union over K outcomes, sqrt(ln(2K/1e-6)/(2 runs)) is exceeded with probability <= 1e-6.
    """
    k, runs = (4, 40_000) if trees == 2 else (2, 40_000)
    phase = TreePhase(records=2**k, trees=trees, batch=2**trees, scales=(0.4, 0.3)[:trees])
    setting = one_phase(phase, smoothness=0.7, assignment="contiguous", noise=noise)
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(1, 2 ** (k + 1), experts))
    learner = FedStoch(
        setting=evolve(setting, phases=(*(None,) * k, evolve(phase, scales=[mutant * s for s in phase.scales]))),
        rounds=2 ** (k + 1),
        experts=experts,
        family=SquaredProducts(),
    )
    winners = learner.simulate(signs, np.random.default_rng(11), runs).winners[-1]
    shares = np.zeros((experts,) * phase.leaves())
    np.add.at(shares, tuple(winners.T), 1.0 / runs)
    records = [square(u) for u in signs[0, 2**k - 1 : 2 ** (k + 1) - 1]]
    law = winners_law(setting, phase, records, start=np.full(experts, 1.0 / experts))
    return float(np.abs(shares - np.exp(law)).max()), math.sqrt(math.log(2.0 * shares.size / 1e-6) / (2.0 * runs))


@pytest.mark.parametrize(
    ("trees", "experts", "noise"),
    [(1, 4, "laplace"), (1, 3, "gumbel"), pytest.param(2, 2, "exponential", marks=pytest.mark.statistical)],
)
def test_simulations_follow_the_exact_law(trees: int, experts: int, noise: str) -> None:
    """False alarm at most 1e-6 each; half the noise is caught."""
    found, allowed = largest_gap(trees, experts, noise)
    assert found <= allowed
    mutant, allowed = largest_gap(trees, experts, noise, mutant=0.5)
    assert mutant > allowed


def test_one_release_is_one_leaf() -> None:
    phase = TreePhase(records=4, trees=0, batch=4, scales=(0.5,))
    law = winners_law(one_phase(phase), phase, [constant(0.0, 1.0, -1.0)] * 4, start=[1.0, 0.0, 0.0])
    assert law == pytest.approx(leaf_law([0.0, 1.0, -1.0], scale=0.5), abs=1e-12)


@pytest.mark.statistical
def test_a_secret_law_is_the_mean_over_orders() -> None:
    phase = TreePhase(records=4, trees=1, batch=2, scales=(1.0,))
    records = [constant(*v) for v in ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (0.5, 0.5))]
    laws = [
        np.exp(winners_law(one_phase(phase), phase, order, start=[0.5, 0.5]))
        for order in itertools.permutations(records)
    ]
    found = secret_winners_law(one_phase(phase), phase, records, start=[0.5, 0.5])
    assert np.exp(found) == pytest.approx(np.mean(laws, axis=0), abs=1e-12)


def test_invalid_arguments_of_laws_are_refused() -> None:
    for bad in (
        lambda: leaf_law([0.0, 1.0], scale=0.0),
        lambda: leaf_law([0.0, math.inf], scale=1.0),
        lambda: leaf_law([0.0, 1.0], scale=1.0, noise="gumbel", summands=2),
        lambda: leaf_law([0.0, 1.0], scale=1.0, noise="cauchy"),
        lambda: losses(np.zeros(2), np.zeros(3)),
    ):
        with pytest.raises(InvalidArgumentError):
            bad()
