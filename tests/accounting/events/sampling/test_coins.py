"""Tests of coins that do not depend on the data: exact enumeration of small mechanisms, and published numbers."""

import itertools
import math
import warnings
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import frozen
from divergences import hockey_stick, renyi
from hypothesis import strategies as st
from samples import deep_examples
from scipy import integrate, stats

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    NonPrivate,
    Oriented,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.events.basic.given_curves import RenyiCurve
from hockeystick.accounting.events.sampling.coins import (
    Assignment,
    InputMix,
    KeptPair,
    assignment,
    public_coin_gaussian,
    secret_assignment,
)
from hockeystick.accounting.losses.dominating_pairs import Atoms

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 30.0])


def responses(eps, k):
    """Row x: the law of k-ary randomised response on x."""
    odds = np.where(np.eye(k) > 0, math.exp(eps), 1.0)
    return odds / odds.sum(axis=1, keepdims=True)


def product(*laws):
    out = np.ones(1)
    for law in laws:
        out = np.outer(out, law).ravel()
    return out


def never_above(event, pairs, tight=None):
    top = max(float(np.log(p / q).max()) for p, q in pairs)
    for share in (0.0, 0.1, 0.4, 0.8, 0.99):
        exact = max(hockey_stick(p, q, share * top) for p, q in pairs)
        claim = delta(event, share * top).upper
        assert exact <= claim * (1 + 1e-12) + 1e-15
        if tight:
            assert claim <= exact * (1 + tight) + 1e-12
    assert top <= event.pure_epsilon() * (1 + 1e-12)
    for order, claim in zip(ORDERS, event.rdp(ORDERS), strict=True):
        assert max(renyi(p, q, order) for p, q in pairs) <= claim * (1 + 1e-10) + 1e-14
        assert claim <= event.pure_epsilon() * (1 + 1e-12)


# --- InputMix ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1e-3, 0.2, 0.5, 0.97])
@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
@pytest.mark.every(3)
def test_input_mix_of_randomised_response_is_exact(p, eps):
    rows = responses(eps, 3)
    mixed = (1 - p) * rows + p * rows[2]  # a replaced input is always 2
    pairs = [(mixed[x], mixed[y]) for x, y in itertools.permutations(range(3), 2)]
    never_above(InputMix(p, RandomizedResponse(eps, 3)), pairs, tight=2e-4)
    assert InputMix(p, RandomizedResponse(eps, 3)).pure_epsilon() == pytest.approx(
        math.log1p((1 - p) * math.expm1(eps)), rel=1e-12
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.every(4)
def test_input_mix_bounds_random_mechanisms(seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(5, rng.choice([0.5, 3.0])), size=4) + 1e-3
    rows /= rows.sum(axis=1, keepdims=True)
    eps = max(float(np.log(a / b).max()) for a in rows for b in rows)
    p, drawn = rng.uniform(0.01, 0.99), rng.dirichlet(np.full(4, 0.5))
    mixed = [*((1 - p) * rows + p * drawn @ rows), drawn @ rows]  # the last input is always replaced
    pairs = list(itertools.permutations(mixed, 2))
    never_above(InputMix(p, PureDP(eps)), pairs)
    assert max(float(np.log(a / b).max()) for a, b in pairs) < eps


@pytest.mark.parametrize("p", [0.1, 0.6])
def test_a_composition_stands_inside_the_mix_where_the_draw_is_shared(p):
    eps, k, times = 0.8, 3, 3
    rows = responses(eps, k)
    cubes = np.array([product(*[row] * times) for row in rows])
    for drawn in (np.array([0, 0, 1.0]), np.full(3, 1 / 3)):
        mixed = (1 - p) * cubes + p * drawn @ cubes
        event = InputMix(p, compose((RandomizedResponse(eps, k), times)))
        never_above(event, list(itertools.permutations(mixed, 2)))
    # the converse would be wrong, because one draw is shared by all three
    separate = compose((InputMix(p, RandomizedResponse(eps, k)), times))
    worst = (1 - p) * cubes + p * cubes[2]
    assert hockey_stick(worst[0], worst[1], separate.pure_epsilon()) > 1e-3


@pytest.mark.parametrize("p", [0.1, 0.6])
def test_input_mixes_compose_in_either_order_of_each(p):
    eps = 1.2
    rows = responses(eps, 3)
    mixed = (1 - p) * rows + p * rows[2]
    ways = [(mixed[0], mixed[1]), (mixed[1], mixed[0]), (mixed[0], mixed[2]), (mixed[2], mixed[0])]
    pairs = [(product(a[0], b[0]), product(a[1], b[1])) for a in ways for b in ways]
    never_above(compose((InputMix(p, RandomizedResponse(eps, 3)), 2)), pairs)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("p", "noise", "law"),
    [
        (0.05, Laplace(0.7), lambda x: math.exp(-abs(x) / 0.7) / 1.4),
        (0.5, Gaussian(0.7), lambda x: math.exp(-x * x / 0.98) / math.sqrt(0.98 * math.pi)),
    ],
)
def test_input_mix_of_additive_noise(p, noise, law):
    event = InputMix(p, noise)
    for x, y, z in ((0, 1, 1), (0, 1, 0), (0, 1, 0.5), (1, 0, 0.2)):
        for eps in (0.0, 0.2, 0.9):

            def gain(t, x=x, y=y, z=z, eps=eps):
                common = p * law(t - z)
                return max((1 - p) * law(t - x) + common - math.exp(eps) * ((1 - p) * law(t - y) + common), 0)

            exact = integrate.quad(gain, -12, 13, points=[0, 0.2, 0.5, 1], limit=400, epsabs=1e-11)[0]
            assert exact <= delta(event, eps).upper + 1e-9
    # The profile, from that of the noise: δ'(ln(1 + (1−p)(e^ε − 1))) = (1−p)·δ(ε).
    for eps in (0.1, 0.7, 1.3):
        outer = math.log1p((1 - p) * math.expm1(eps))
        got = delta(event, outer, bracket=True, method="pld")
        inner = delta(noise, eps, bracket=True)
        assert got.lower <= (1 - p) * inner.upper * (1 + 1e-9)
        assert (1 - p) * inner.lower * (1 - 1e-9) <= got.upper <= (1 - p) * inner.upper * (1 + 1e-4) + 1e-9


@pytest.mark.statistical
def test_several_records_each_have_their_own_coin():
    rng = np.random.default_rng(1)
    p = 0.3
    for _ in range(5):
        table = np.exp(rng.uniform(0, 1, size=(3, 1, 4)) + rng.uniform(0, 1, size=(1, 3, 4)))
        table /= table.sum(axis=2, keepdims=True)
        single = max(
            float(np.log(table[a] / table[b]).max())
            for a in np.ndindex(3, 3)
            for b in np.ndindex(3, 3)
            if (a[0] == b[0]) != (a[1] == b[1])
        )
        kernel = (1 - p) * np.eye(3) + p * np.full((3, 3), rng.dirichlet(np.ones(3)))
        mixed = np.einsum("ai,bj,ijo->abo", kernel, kernel, table)
        pairs = [(mixed[a], mixed[b]) for a in np.ndindex(3, 3) for b in np.ndindex(3, 3) if a != b]
        never_above(InputMix(p, PureDP(single)).at(2), pairs)
    # Both inputs are published, so one coin for the two would give too small an ε.
    p_law, q_law = np.zeros(9), np.zeros(9)
    for law, x in ((p_law, 0), (q_law, 1)):
        for c, d in itertools.product((x, 2), repeat=2):
            law[3 * c + d] += (p if c == 2 else 1 - p) * (p if d == 2 else 1 - p)
    exact = hockey_stick(p_law, q_law, 0.0)
    assert exact == pytest.approx(1 - p * p)
    assert delta(InputMix(p, ApproximateDP(0.0, 1.0)), 0.0).upper < exact
    assert delta(InputMix(p, ApproximateDP(0.0, 1.0)).at(2), 0.0).upper >= exact * (1 - 1e-12)
    assert InputMix(p, Laplace(2.0)).at(0.5) == InputMix(p, Laplace(2.0))  # the draw may be a whole unit away
    assert InputMix(p, Laplace(2.0)).at(0) == NO_EVENT


def test_input_mix_at_the_ends_and_with_failures():
    assert epsilon(InputMix(1.0, Gaussian(1)), 1e-9).upper == 0.0
    assert epsilon(InputMix(1.0, ZCDP(0.5)), 1e-9).upper == 0.0
    assert epsilon(InputMix(0.0, Gaussian(1)), 1e-6).upper == pytest.approx(epsilon(Gaussian(1), 1e-6).upper, rel=2e-6)
    assert InputMix(0.0, Laplace(1)).pure_epsilon() == 1.0
    assert InputMix(0.25, ApproximateDP(1.0, 1e-4)).failure_delta() == pytest.approx(0.75e-4, rel=1e-12)
    assert epsilon(InputMix(0.5, ZCDP(0.5)), 1e-6).upper <= epsilon(ZCDP(0.5), 1e-6).upper
    big = InputMix(0.5, PureDP(5000.0))
    assert big.pure_epsilon() == pytest.approx(5000 + math.log(0.5), rel=1e-12)
    assert np.isfinite(big.rdp(ORDERS)).all()


def test_input_mix_is_for_replacement_alone():
    event = InputMix(0.1, Laplace(1))
    assert event.accepts(Adjacency.REPLACE_ONE) and event.accepts(Adjacency.LOCAL)
    assert not event.accepts(Adjacency.ADD_OR_REMOVE_ONE) and not event.accepts(Adjacency.REPLACE_WITH_NULL)
    assert event.norm == "l1"
    with pytest.raises(InvalidArgumentError, match="one order"):
        InputMix(0.1, compose(Laplace(1), Oriented(LazySwitchDecision(0.9, 0.1), True)))


@deep_examples(10, 50, st.floats(0.01, 0.99), st.floats(0.01, 3.0), st.floats(0.0, 1.0))
def test_input_mix_cost_grows_with_probability_and_order(p, eps, share):
    event, at = InputMix(p, PureDP(eps)), share * eps
    assert delta(event, at).upper <= delta(PureDP(eps), at).upper * (1 + 1e-6)
    assert delta(InputMix(p**2, PureDP(eps)), at).upper >= delta(event, at).upper * (1 - 1e-6)
    assert (np.diff(event.rdp(ORDERS)) >= -1e-12).all()
    got = delta(event, at, bracket=True)
    assert got.lower is not None and got.lower <= got.upper


# --- Assignment -------------------------------------------------------------------------------------------------------


def mixture_pair(weights, laws):
    rest = 1 - sum(weights)
    p = np.concatenate([*(w * p for w, (p, _) in zip(weights, laws, strict=True)), [rest]])
    q = np.concatenate([*(w * q for w, (_, q) in zip(weights, laws, strict=True)), [rest]])
    return p[p + q > 0], q[p + q > 0]


@pytest.mark.parametrize("weights", [(0.2, 0.5, 0.3), (0.1, 0.2, 0.05), (1e-3, 0.0, 0.9)])
def test_assignment_is_the_mixture(weights):
    epsilons = (2.0, 0.3, 1.0)
    rows = [responses(e, 2) for e in epsilons]
    event = assignment(weights, [RandomizedResponse(e) for e in epsilons])
    p, q = mixture_pair(weights, [(r[0], r[1]) for r in rows])
    never_above(event, [(p, q)], tight=1e-5)
    assert np.allclose(event.rdp(ORDERS), [renyi(p, q, a) for a in ORDERS], rtol=1e-9)
    # forgetting the coin costs nothing
    secret = [sum(w * r[x] for w, r in zip(weights, rows, strict=True)) + (1 - sum(weights)) / 2 for x in (0, 1)]
    never_above(event, [tuple(secret)])
    twice = compose((event, 2))
    squared = (product(p, p), product(q, q))
    never_above(twice, [squared], tight=3e-4)
    never_above(twice, [(product(p, q), product(q, p))])


@pytest.mark.parametrize(
    "inner", [Gaussian(1.3), Laplace(0.7), compose((BoundedRange(0.4), 3)), ApproximateDP(1.0, 1e-4)]
)
@pytest.mark.parametrize("r", [0.01, 0.6])
@pytest.mark.every(3)
def test_one_alternative_is_a_visible_mixture(inner, r):
    assert assignment([r], [inner]) == VisibleMixture(r, inner) == assignment([r / 2, r / 2], [inner, inner])
    general, special = Assignment([r / 2, r / 2], [inner, inner]), VisibleMixture(r, inner)
    assert np.allclose(general.rdp(ORDERS), special.rdp(ORDERS), rtol=1e-12)
    assert general.failure_delta() == pytest.approx(special.failure_delta(), rel=1e-12)
    assert general.pure_epsilon() == special.pure_epsilon() and general.zcdp_rho() == special.zcdp_rho()
    for eps in (0.0, 0.5, 2.0):
        assert delta(general, eps).upper == pytest.approx(delta(special, eps).upper, rel=1e-5, abs=1e-15)


def test_assignment_builds_one_value():
    a, b = Gaussian(1), Gaussian(2)
    assert assignment([], []) == assignment([0.4], [NO_EVENT]) == assignment([0], [a]) == NO_EVENT
    assert assignment([1.0], [a]) == a == assignment([0.5, 0.5], [a, a])
    assert assignment([0.3, 0.7], [a, b]) == assignment([0.7, 0.3], [b, a])
    assert assignment([0.3, 0.2], [a, b]).at(2) == assignment([0.3, 0.2], [a.at(2), b.at(2)])
    assert assignment([0.3, 0.7], [a, b]).norm == "l2"
    assert hash(Assignment([0.5, 0.25], [a, b])) == hash(Assignment((0.5, 0.25), (a, b)))
    with pytest.raises(UnsupportedEventError):
        _ = assignment([0.5, 0.5], [a, Laplace(1)]).norm
    mixed = assignment([0.5, 0.5], [ZCDP(0.1), ZCDP(0.4)])
    assert not mixed.has_profile() and math.isfinite(epsilon(mixed, 1e-6).upper)
    assert epsilon(mixed, 1e-6).upper <= epsilon(ZCDP(0.4), 1e-6).upper
    assert epsilon(assignment([0.1, 0.1], [NonPrivate(), a]), 0.05).upper == math.inf
    with pytest.raises(UnsupportedEventError):
        mixed.loss_law(0.1, True)


@frozen
class Tied(PrivacyEvent):
    """One order of a two-outcome pair in each direction."""

    eps: float
    way: int | None = None

    def directions(self):
        return (self,) if self.way is not None else (Tied(self.eps, 0), Tied(self.eps, 1))

    def pair(self):
        p, q = np.array([0.9, 0.1]), np.array([0.9 * math.exp(-self.eps), 1 - 0.9 * math.exp(-self.eps)])
        p, q = (p, q) if self.way == 0 else (q, p)
        return Atoms(tuple(np.log(p / q)), tuple(p))


def test_directions_stay_tied_and_an_input_mix_unties_them():
    event = assignment([0.5, 0.25], [Tied(1.0), Laplace(1)])
    first, second = event.directions()
    assert first == assignment([0.5, 0.25], [Tied(1.0, 0), Laplace(1)])
    assert second == assignment([0.5, 0.25], [Tied(1.0, 1), Laplace(1)])
    assert InputMix(0.5, Tied(1.0)).directions() == (InputMix(0.5, Tied(1.0)),)
    for way in (0, 1):
        pair = Tied(1.0, way).pair()
        p, losses = np.array(pair.p), np.array(pair.losses)
        q = p * np.exp(-losses)
        common = np.array([0.4, 0.6])
        for r in (p, q):
            x, y = 0.5 * p + 0.5 * r, 0.5 * q + 0.5 * r
            for eps in (0.0, 0.1, 0.5):
                assert hockey_stick(x, y, eps) <= delta(InputMix(0.5, Tied(1.0)), eps).upper * (1 + 1e-9) + 1e-15
        assert common.sum() == 1.0


@pytest.mark.parametrize("readers", [((0,), (1, 2)), ((0, 1), ()), ((0,), (1,), (2,))])
def test_secret_assignment_by_enumeration_of_permutations(readers):
    """Four records are in secret places; each event is randomised response on the OR of the places that it reads."""
    n, costs = 4, (2.0, 0.7, 1.1)
    laws = [responses(e, 2) for e in costs]

    def output(records):
        total = 0.0
        for order in itertools.permutations(range(n)):
            placed = [records[i] for i in order]
            reads = [max((placed[i] for i in reader), default=0) for reader in readers]
            total = total + product(*(laws[i][v] for i, v in enumerate(reads)))
        return total / math.factorial(n)

    event = secret_assignment([len(r) / n for r in readers], [RandomizedResponse(e) for e in costs[: len(readers)]])
    pairs = []
    for others in itertools.product((0, 1), repeat=n - 1):
        p, q = output((0, *others)), output((1, *others))
        pairs += [(p, q), (q, p)]
    never_above(event, pairs)
    revealed = assignment([len(r) / n for r in readers], [RandomizedResponse(e) for e in costs[: len(readers)]])
    assert event.pure_epsilon() < revealed.pure_epsilon()


def test_secret_assignment_is_sampling_without_replacement():
    event = secret_assignment([0.05, 0.1], [PureDP(2.0), PureDP(1.0)])
    assert event.pure_epsilon() == pytest.approx(math.log1p(0.15 * math.expm1(2.0)), rel=1e-9)
    assert secret_assignment([0.5, 0.5], [PureDP(2.0), PureDP(1.0)]) == assignment(
        [0.5, 0.5], [PureDP(2.0), PureDP(1.0)]
    )
    assert secret_assignment([], []) == NO_EVENT


# --- public coins -----------------------------------------------------------------------------------------------------

MU = 0.26805  # μ with δ(1) = 1e-5, to the digits printed


def largest_of_two(draws, p):
    """P(max(c₁, c₂) = m) for two of the counts of a multinomial sample, each symbol having probability p."""
    cumulative = np.zeros(draws + 1)
    for total in range(draws + 1):  # c₁ + c₂ is binomial, and c₁ given it too
        weight = stats.binom.pmf(total, draws, 2 * p)
        m = np.arange(draws + 1)
        inside = stats.binom.cdf(m, total, 0.5) - stats.binom.cdf(total - m - 1, total, 0.5)
        cumulative += weight * np.maximum(inside, 0)
    return np.clip(np.diff(cumulative, prepend=0.0), 0.0, 1.0)


@pytest.mark.parametrize(
    ("draws", "p", "expected"),
    [(10, 0.05, 0.191), (100, 0.01, 0.0197), pytest.param(1000, 0.2, 0.183, marks=pytest.mark.deep)],
)
def test_public_coins_agree_with_known_numbers(draws, p, expected):
    odds = largest_of_two(draws, p)
    counts = np.flatnonzero(odds > 1e-30)
    mus = counts / draws * MU
    event = public_coin_gaussian(odds[counts] / odds[counts].sum() * (1 - 1e-12), mus)
    got = epsilon(event, 1e-5).upper
    assert got == pytest.approx(expected, rel=0.02)

    def exact(eps):
        tail = stats.norm.cdf(mus / 2 - eps / np.maximum(mus, 1e-300)) - math.exp(eps) * stats.norm.cdf(
            -mus / 2 - eps / np.maximum(mus, 1e-300)
        )
        return float(np.sum(odds[counts] * np.where(mus > 0, tail, 0)))

    assert exact(got) <= 1e-5
    assert exact(got * 0.99) > 1e-5


def test_one_symbol_alone_would_be_below_the_truth():
    counts = np.arange(11)
    event = public_coin_gaussian(stats.binom.pmf(counts, 10, 0.05), counts / 10 * MU)
    assert epsilon(event, 1e-5).upper == pytest.approx(0.169, rel=0.02)


def test_shared_coins_are_mixed_once_outside():
    shared = public_coin_gaussian([0.01, 0.99], [[1.0] * 4, [0.0] * 4])
    assert shared == assignment([0.01], [Gaussian(1 / np.hypot.reduce(np.ones(4)) / (1 + 5e-15))])
    separate = compose((public_coin_gaussian([0.01, 0.99], [1.0, 0.0]), 4))
    assert epsilon(shared, 1e-5).upper == pytest.approx(7.58, rel=0.005)
    assert epsilon(separate, 1e-5).upper == pytest.approx(3.76, rel=0.005)


def test_pairs_are_maximised_last():
    """With fresh coins in each release, the events of a pair compose, and the worst pair is taken at the end."""
    first = [public_coin_gaussian([0.5, 0.5], [1.0, 0.2]), public_coin_gaussian([0.5, 0.5], [0.2, 0.1])]
    second = [public_coin_gaussian([0.5, 0.5], [0.2, 0.1]), public_coin_gaussian([0.5, 0.5], [1.0, 0.2])]
    last = parallel(*(compose(a, b) for a, b in zip(first, second, strict=True)))
    early = compose(parallel(*first), parallel(*second))
    assert epsilon(last, 1e-6).upper < epsilon(early, 1e-6).upper
    assert epsilon(last, 1e-6).upper == epsilon(compose(first[0], second[0]), 1e-6).upper


@pytest.mark.statistical
def test_public_coin_gaussian_rounds_up():
    rng = np.random.default_rng(0)
    mus, odds = rng.uniform(0, 2, 120), rng.dirichlet(np.ones(120))
    fine: Any = public_coin_gaussian(odds, mus, most=120)
    coarse: Any = public_coin_gaussian(odds, mus, most=20)
    assert len(coarse.events) <= 20 < len(fine.events)
    for e in (0.0, 1.0, 4.0):
        assert delta(fine, e).upper <= delta(coarse, e).upper * (1 + 1e-9)
    assert (coarse.rdp(ORDERS) >= fine.rdp(ORDERS)).all()
    assert epsilon(coarse, 1e-6).upper <= epsilon(fine, 1e-6).upper * 1.1


def test_public_coin_gaussian_takes_what_the_odds_leave_open_as_the_worst_outcome():
    assert public_coin_gaussian([0.5, 0.25], [0.5, 1.0], most=1) == Gaussian(1.0)
    assert public_coin_gaussian([0.5, 0.25], [0.5, 1.0]) == public_coin_gaussian([0.5, 0.5], [0.5, 1.0])
    assert public_coin_gaussian([1.0], [0.0]) == NO_EVENT


@pytest.mark.parametrize(
    "call",
    [
        lambda: Assignment([0.5], [Laplace(1), Laplace(2)]),
        lambda: Assignment([0.0, 0.5], [Laplace(1), Laplace(2)]),
        lambda: Assignment([], []),
        lambda: assignment([0.6, 0.6], [Laplace(1), Laplace(2)]),
        lambda: assignment([-0.1, 0.6], [Laplace(1), Laplace(2)]),
        lambda: assignment([math.nan], [Laplace(1)]),
        lambda: assignment([0.5], [Laplace(1), Laplace(2)]),
        lambda: assignment([0.5], []),
        lambda: assignment([0.5], ["x"]),  # type: ignore[list-item]
        lambda: secret_assignment([0.6, 0.6], [Laplace(1), Laplace(2)]),
        lambda: public_coin_gaussian([0.5, 0.6], [1, 2]),
        lambda: public_coin_gaussian([0.5, 0.5], [1, 2, 3]),
        lambda: public_coin_gaussian([0.5, 0.5], [1, -2]),
        lambda: public_coin_gaussian([0.5, 0.5], [1, math.inf]),
        lambda: public_coin_gaussian([], []),
        lambda: public_coin_gaussian([0.5, 0.5], [1, 2], most=0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(InvalidArgumentError):
        call()


@pytest.mark.parametrize("inner", [PureDP(1.0), PureDP(0.01), Laplace(2.0), Gaussian(1.0)])
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.999])
def test_rho_of_an_input_mix_is_above_its_curve(probability, inner):
    event, orders = InputMix(probability, inner), np.geomspace(1.001, 1e4, 60)
    curve = event.rdp(orders) / orders
    assert curve.max() * 0.98 <= event.zcdp_rho() <= inner.zcdp_rho()  # small divergences carry their round-off
    assert event.zcdp_rho() <= 0.5 * event.pure_epsilon() ** 2


def test_unbounded_divergences_stay_infinite():
    event = RenyiCurve((1.5, 2.0), (0.1, 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Assignment([0.5, 0.25], [event, Gaussian(1.0)]).rdp(np.array([2.0, 4.0]))
    assert found[0] < 0.6 and found[1] == math.inf


@pytest.mark.parametrize("weight", [1e-303, 1e-25, 1e-14, 1e-6, 0.5])
@pytest.mark.parametrize("moment", [1e-9, 1.0, 29.0, 31.0, 50.0, 699.0, 701.0])
def test_moments_of_unlikely_events_keep_their_digits(weight, moment):
    """A mixture with nothing, where the divergence is that of the moment 1 + w·(e^moment - 1)."""
    noise = Gaussian(math.sqrt(1.0 / moment))
    with mpmath.workdps(400):
        exponent = 1 / mpmath.mpf(noise.noise_multiplier) ** 2
        exact = mpmath.log1p(weight * mpmath.expm1(exponent))
        for event in (VisibleMixture(weight, noise), Assignment([weight / 2, weight / 2], [noise, noise])):
            found = mpmath.mpf(float(event.rdp(np.array([2.0]))[0]))
            found += mpmath.mpf("1e-314")  # floats below 1e-308 have fewer digits
            assert exact <= found <= exact * (1 + mpmath.mpf(moment + 10) * 1e-15) + mpmath.mpf("2e-314")


@pytest.mark.parametrize("moments", [[744.9], [745.2], [745.2, 744.4, 744.3, 744.2], [800.0, 1e5]])
def test_moments_of_events_of_the_least_probability_are_not_lost(moments):
    """The products of weights and moments may lie between floats that are far apart."""
    least, order = 5e-324, np.array([2.0])
    events = [Gaussian(math.sqrt(1.0 / moment)) for moment in moments]
    with mpmath.workdps(400):
        exact = mpmath.log1p(mpmath.fsum(least * mpmath.expm1(float(event.rdp(order)[0])) for event in events))
        found = float(Assignment([least] * len(events), events).rdp(order)[0])
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-11"))


def test_gaussians_on_a_public_coin_are_exact_up_to_as_many_as_are_kept():
    assert public_coin_gaussian([0.5, 0.5], [0.0, 0.0]) == NO_EVENT
    odds, mus = [0.5, 0.25, 0.25], [0.5, 1.0, 2.0]
    exact: Any = public_coin_gaussian(odds, mus, most=3)
    rough: Any = public_coin_gaussian(odds, mus, most=2)
    assert [event.noise_multiplier for event in exact.events] == [0.5, 1.0, 2.0]
    assert [event.noise_multiplier for event in rough.events] == pytest.approx([0.5, 1.0], rel=1e-14)
    assert sum(rough.probabilities) == 1.0 and rough.probabilities[1] == 0.75  # a half is charged as a one
    assert (rough.rdp(ORDERS) >= exact.rdp(ORDERS) * (1 - 1e-14)).all()  # both are rounded up


def test_the_support_of_a_kept_pair_is_its_largest_loss():
    pair = KeptPair(Atoms((-0.5, 0.5), (0.4, 0.6)), 0.25)
    largest = math.log1p(0.25 * math.expm1(0.5))
    assert pair.support() == pytest.approx((-largest, largest), rel=1e-14) and pair.support()[1] >= largest


@pytest.mark.parametrize("distance", [1.5, 2.0, 4.0])
def test_an_input_mix_of_several_records(distance):
    mix, k = InputMix(0.3, PureDP(0.5)), math.ceil(distance)
    assert mix.at(0.4) == mix  # the draw may lie farther away than the two inputs
    # all k are replaced with probability 0.3^k, and the outputs are at most k·0.5 apart otherwise
    assert mix.at(distance) == InputMix(0.3**k, PureDP(0.5).at(distance))
    inner: Any = PureDP(0.5).at(distance)
    worst = math.log1p((1 - 0.3**k) * math.expm1(inner.epsilon))
    assert mix.at(distance).pure_epsilon() == pytest.approx(worst, rel=1e-12)


def test_the_replacement_probability_of_a_secret_assignment_is_rounded_down():
    for share in np.linspace(0.01, 0.49, 97).tolist():
        event = secret_assignment([share, share / 2], [Gaussian(1.0), Gaussian(2.0)])
        assert isinstance(event, InputMix)
        assert Fraction(event.probability) <= 1 - Fraction(share) - Fraction(share / 2)
        assert event.probability == pytest.approx(1 - 1.5 * share, rel=1e-14)


def test_the_least_positive_loss_of_a_mixed_composition_counts():
    """On a coarse grid all of them are one step."""
    event = InputMix(0.5, compose(PureDP(0.5), (PureDP(0.25), 2)))
    law = event.loss_law(1.0, True)
    found = law.infinity + float(law.p @ np.maximum(0.0, -np.expm1(-law.losses())))
    assert found >= delta(event, 0.0).upper * (1 - 1e-9)
