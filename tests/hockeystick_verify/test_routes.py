"""Tests of the checker's routes, each against a second derivation: quadrature, exact fractions, other routes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import pytest

pytest.importorskip("flint")

from flint import acb, arb, ctx

from hockeystick_verify import finite, grid, laws, line, mixtures, routes, sums
from hockeystick_verify.balls import ball, down, normal_tail, up
from hockeystick_verify.events import Cost

CLOCK = line.Clock(600.0)


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with ctx.workprec(128), mpmath.workdps(30):
        yield


def holds(ends: tuple[arb, arb], value: object) -> bool:
    """Whether a number of mpmath lies between two ends, but for its own last digits."""
    slack = mpmath.mpf(10) ** -24
    low, high = (mpmath.mpf(end.mid().str(40, radius=False)) for end in ends)
    return bool(low - slack <= value <= high + slack)


def mixture_density(centres: list[float], weights: list[float]) -> Callable[[Any], Any]:
    return lambda x: mpmath.fsum(w * mpmath.npdf(x, m) for m, w in zip(centres, weights, strict=True))


def _one_way(fall: float, rise: float, eps: Any) -> Any:
    return max(1 - mpmath.exp(rise * (eps - fall) / (fall + rise)), 1 - mpmath.exp(eps), 0)


def _range(w: float, eps: Any) -> Any:
    inside = (mpmath.exp(w / 2) - mpmath.exp(eps / 2)) ** 2 / mpmath.expm1(w)
    return max(1 - mpmath.exp(eps), 0) if abs(eps) >= w else inside


LAWS: dict[str, tuple[Callable[[], laws.Pieces], Callable[[Any], Any]]] = {
    "Laplace": (lambda: laws.laplace(ball(0.5)), lambda e: _one_way(0.5, 0.5, e)),
    "bounded range": (lambda: laws.bounded_range(ball(0.75)), lambda e: _range(0.75, e)),
    "one way": (lambda: laws.one_way(ball(0.75), ball(0.25)), lambda e: _one_way(0.75, 0.25, e)),
    "two ways": (
        lambda: laws.two_way(ball(0.25), ball(0.75)),
        lambda e: max(_one_way(0.75, 0.25, e), _one_way(0.25, 0.75, e)),
    ),
    "two points": (
        lambda: laws.two_points("k", ball(0.5)),
        lambda e: max((mpmath.exp(0.5) - mpmath.exp(e)) / (1 + mpmath.exp(0.5)), 1 - mpmath.exp(e), 0),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_pieces_have_the_profiles_of_closed_forms(name: str) -> None:
    """P and Q have mass 1, and the moment is the transform c(c+1)·∫e^{cε}·δ(ε)dε of the profile."""
    build, profile = LAWS[name]
    law = build()
    assert abs(law.moment(acb(0)).real - 1) < 1e-30 and abs(law.moment(acb(-1)).real - 1) < 1e-30
    for eps in (-0.875, -0.5, -0.125, 0.0, 0.125, 0.3125, 0.625, 1.0):
        assert abs(mpmath.mpf(law.profile(ball(eps)).mid().str(30, radius=False)) - profile(mpmath.mpf(eps))) < 1e-25
    with mpmath.workdps(15):
        kinks = [-20, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75]
        transform = 6 * mpmath.quad(lambda e: mpmath.exp(2 * e) * profile(e), kinks)
    assert abs(transform - float(law.moment(acb(2)).real.mid())) < 1e-9


@pytest.mark.statistical
def test_the_moment_of_a_mixture_is_that_of_quadrature() -> None:
    centres, weights = [0.0, 0.8, 1.6], [0.81, 0.18, 0.01]
    density = mixture_density(centres, weights)
    for removal in (True, False):
        law = mixtures.NormalMixture(
            [ball(m) for m in centres], [ball(81) / 100, ball(18) / 100, ball(1) / 100], removal=removal
        )
        for z in (mpmath.mpc(3.5, 0.0), mpmath.mpc(3.5, 7.25)):
            law.prepare(ball(3.5), 8.0)
            power = z + 1 if removal else -z
            with mpmath.workdps(17):
                wanted = mpmath.quad(
                    lambda x, p=power: mpmath.npdf(x) * (density(x) / mpmath.npdf(x)) ** p, [-12, 0, 6, 20]
                )
            got = law.moment(acb(ball(3.5), ball(float(z.imag))))
            assert abs(mpmath.mpf(got.real.mid().str(30, radius=False)) - wanted.real) < 1e-13 * abs(wanted)
            assert abs(mpmath.mpf(got.imag.mid().str(30, radius=False)) - wanted.imag) < 1e-13 * abs(wanted)


@pytest.mark.parametrize("removal", [True, False])
@pytest.mark.parametrize("centres", [[0.0, 1.25], [0.0, 1.25, 2.5], [0.5, 1.25]])
def test_the_profile_of_a_mixture_is_that_of_quadrature(removal: bool, centres: list[float]) -> None:
    weights = [0.75, 0.25] if len(centres) == 2 else [0.5, 0.375, 0.125]
    law = mixtures.NormalMixture([ball(m) for m in centres], [ball(w) for w in weights], removal=removal)
    density, eps = mixture_density(centres, weights), 0.15
    p, q = (density, mpmath.npdf) if removal else (mpmath.npdf, density)
    value = law.profile(ball(eps))
    root = mpmath.findroot(lambda x: mpmath.log(p(x) / q(x)) - eps, 0.5 if removal else -0.5)
    side = [root, 4, 8, 16] if removal else [-16, -8, -4, root]
    wanted = mpmath.quad(lambda x: p(x) - mpmath.exp(eps) * q(x), side)
    assert abs(mpmath.mpf(value.mid().str(30, radius=False)) - wanted) < 1e-18


def test_the_line_holds_the_closed_form_of_a_gaussian() -> None:
    for mu, eps in ((1.0, 0.0), (1.0, 3.0), (0.3, 2.0)):
        law = laws.Normal(ball(mu) ** 2)
        exact = law.profile(ball(eps))
        ends = line.enclosed([(law, 1)], ball(eps), up(exact), 1e-12, CLOCK)
        assert ends is not None and ends[0] <= exact <= ends[1] and up(ends[1] - ends[0]) <= 3e-12 * up(exact)
        with mpmath.workdps(30):
            wanted = mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)
        assert holds((exact.lower(), exact.upper()), wanted)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "eps", "digits"),
    [  # by an exponentially tilted lattice in doubles, extrapolated in its width, and by balls of other code
        ("Laplace", 8.20444043946626, "9.999997044490e-7"),
        ("sample", 3.706187351516625, "9.999922898886e-7"),
    ],
)
def test_the_line_holds_known_values(name: str, eps: float, digits: str) -> None:
    law: laws.Law = laws.laplace(1 / ball(20.0))
    if name == "sample":
        law = mixtures.sampled_normal(ball(0.01), 1 / ball(0.8), removal=True)
    ends = line.enclosed([(law, 1000)], ball(eps), 1e-6, 1e-7, CLOCK)
    assert ends is not None and down(ends[0]) <= float(digits) * (1 + 1e-12) and float(digits) <= up(ends[1])
    assert up(ends[1] - ends[0]) < 1e-12


def test_a_line_that_loses_its_tail_or_its_alias_would_not_hold_a_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    """The enclosure is no wider than it has to be: the sum alone is off by the aliases."""
    law, eps = laws.Normal(ball(1.0)), ball(1.0)
    exact = law.profile(eps)
    monkeypatch.setattr(line._Line, "_alias", lambda *_: arb(0))
    monkeypatch.setattr(line._Line, "_period", lambda self: (6.0, 1.25 * self.c))
    ends = line.enclosed([(law, 1)], eps, up(exact), 1e-12, CLOCK)
    assert ends is not None and ends[0] > exact


def test_a_mass_at_infinity_counts_as_it_does_by_enumeration() -> None:
    """Three accesses with two finite losses and an infinite one, beside a Gaussian."""
    losses, masses, infinite, mu = [0.5, -0.3], [0.59, 0.4], 0.01, 0.7
    law = laws.Pieces([(ball(x), ball(p)) for x, p in zip(losses, masses, strict=True)], infinity=ball(infinite))
    normal, eps = laws.Normal(ball(mu) ** 2), ball(0.8)
    finite_part = arb(0)
    for chosen in product(range(2), repeat=3):
        mass = math.prod((ball(masses[i]) for i in chosen), start=ball(1))
        finite_part += mass * normal.profile(eps - sum((ball(losses[i]) for i in chosen), arb(0)))
    exact = finite_part + 1 - (1 - ball(infinite)) ** 3
    ends = line.enclosed([(normal, 1), (law, 3)], eps, up(exact), 1e-9, CLOCK)
    assert ends is not None and ends[0] <= exact <= ends[1] and up(ends[1] - ends[0]) < 1e-8


def test_sums_over_outcomes_are_those_of_fractions() -> None:
    pairs = [(Fraction(1, 2), Fraction(1, 4)), (Fraction(1, 3), Fraction(1, 4)), (Fraction(1, 6), Fraction(1, 2))]
    other = [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))]
    exact = Fraction(0)
    for chosen in product(*[pairs] * 4, *[other] * 2):
        p = math.prod((a for a, _ in chosen), start=Fraction(1))
        q = math.prod((b for _, b in chosen), start=Fraction(1))
        exact += max(p - Fraction(5, 2) * q, Fraction(0))
    parts: list[tuple[laws.Law, int]] = [(finite.law_of_rationals(pairs), 4), (finite.law_of_rationals(other), 2)]
    ends = sums.enclosed(parts, (ball(5) / 2).log(), CLOCK)
    assert ends is not None and ends[0] <= ball(exact) <= ends[1] and up(ends[1] - ends[0]) < 1e-30


def test_sums_over_outcomes_count_losses_at_infinity() -> None:
    losses, masses, eps = [0.5, -0.3], [0.59, 0.4], ball(0.4)
    law = laws.Pieces([(ball(x), ball(p)) for x, p in zip(losses, masses, strict=True)], infinity=1 - ball(0.99))
    exact = 1 - ball(0.99) ** 2
    for i, j in product(range(2), repeat=2):
        gap = 1 - (eps - ball(losses[i]) - ball(losses[j])).exp()
        exact += ball(masses[i]) * ball(masses[j]) * gap if gap > 0 else arb(0)
    ends = sums.enclosed([(law, 2)], eps, CLOCK)
    assert ends is not None and ends[0] <= exact <= ends[1] and up(ends[1] - ends[0]) < 1e-15


def test_two_lattices_have_the_sum_of_another_program() -> None:
    parts: list[tuple[laws.Law, int]] = [(laws.two_points(i, ball(e)), 500) for i, e in enumerate((0.1, 0.07321))]
    ends = sums.enclosed(parts, ball(17.0), CLOCK)
    assert ends is not None and ends[0].str(15, radius=False) == ends[1].str(15, radius=False) == "3.15225102733946e-7"


def test_the_larger_of_both_orders_is_the_maximum() -> None:
    pairs = [(Fraction(1, 2), Fraction(1, 4)), (Fraction(1, 3), Fraction(1, 4)), (Fraction(1, 6), Fraction(1, 2))]
    law = finite.larger_of_both(pairs)
    for x in (Fraction(1, 4), Fraction(9, 10), Fraction(1), Fraction(3, 2), Fraction(5, 2), Fraction(4)):
        orders = [
            sum((max(a - x * b, Fraction(0)) for a, b in rows), Fraction(0)) for rows in (pairs, finite.turned(pairs))
        ]
        assert abs(law.profile(ball(x).log()) - ball(max(orders))) < 1e-30
    assert not law.member and finite.larger_of_both([*pairs, *finite.turned(pairs)]).member


def test_integer_noise_has_the_law_of_its_masses() -> None:
    m, scale, eps = 3, Fraction(2), ball(0.6)
    q = (-ball(1) / 2).exp()
    mass = [(1 - q) / (1 + q) * q ** abs(k) for k in range(-70, 71)]
    wanted = arb(0)
    for k in range(m - 70, 71):
        gap = mass[k + 70 - m] - eps.exp() * mass[k + 70]
        wanted += gap if gap > 0 else arb(0)
    assert abs(finite.discrete_laplace(m, scale).profile(eps) - wanted) < 1e-14
    (law,) = finite.discrete_gaussian(1, Fraction(2), None)
    weights = [(-ball(k * k) / 8).exp() for k in range(-22, 23)]
    total, wanted = sum(weights, arb(0)), arb(0)
    for k in range(-21, 23):
        gap = (weights[k + 21] - ball(0.25).exp() * weights[k + 22]) / total
        wanted += gap if gap > 0 else arb(0)
    assert abs(law.profile(ball(0.25)) - wanted) < 1e-20
    assert [len(finite.discrete_gaussian(s, Fraction(3), None)) for s in (1, 2, 3, 4, 5)] == [1, 1, 1, 2, 2]


def test_the_grid_is_above_the_truth_and_nears_it_with_the_square_of_its_width() -> None:
    exact, excess = laws.Normal(ball(0.25)).profile(ball(1.0)), []
    for h in (2.0**-4, 2.0**-5):
        upper = grid.upper_end([(laws.Normal(ball(0.0625)), 4)], ball(1.0), 1e-6, h, CLOCK)
        assert upper is not None and upper >= exact
        excess.append(up(upper - exact))
    assert 3.5 < excess[0] / excess[1] < 4.5 and excess[1] < 0.01 * up(exact)


def test_the_grid_counts_losses_that_it_cuts_off() -> None:
    """Most losses are some 100, and those above 60.5 are cut off: δ is nearly 1."""
    exact = laws.Normal(ball(200.0)).profile(ball(0.5))
    upper = grid.upper_end([(laws.Normal(ball(100.0)), 2)], ball(0.5), 1e-6, 0.25, CLOCK)
    assert upper is not None and upper >= exact > 0.99


def test_the_grid_counts_losses_at_infinity() -> None:
    law = laws.Pieces([(ball(0.5), ball(0.59)), (ball(-0.3), ball(0.4))], infinity=1 - ball(0.99))
    ends = sums.enclosed([(law, 3)], ball(0.8), CLOCK)
    upper = grid.upper_end([(law, 3)], ball(0.8), 1e-6, 2.0**-7, CLOCK)
    assert ends is not None and upper is not None and ends[1] <= upper < 1.001 * ends[1]


def test_smoothing_proves_nothing_beyond_the_largest_loss() -> None:
    """The Gaussian loss alone exceeds it there, with the probability that the lower end is reduced by."""
    parts: list[tuple[laws.Law, int]] = [(laws.two_points("k", ball(0.1)), 10)]
    smooth = line.smoothed(parts, ball(1.0625), 1e-24, 1e-3, 0.2, CLOCK)
    assert smooth is not None and smooth[0] <= 0 < smooth[1]


@pytest.mark.statistical
def test_smoothing_holds_the_sum_over_outcomes() -> None:
    parts: list[tuple[laws.Law, int]] = [(laws.two_points("k", ball(0.1)), 500)]
    exact, smooth = sums.enclosed(parts, ball(12.05), CLOCK), None
    smooth = line.smoothed(parts, ball(12.05), 2.7e-6, 1e-3, 2e-2, CLOCK)
    assert exact is not None and smooth is not None and smooth[0] <= exact[0] <= exact[1] <= smooth[1]


def test_a_sample_around_another_access_is_that_of_its_pair() -> None:
    """Of randomised response: three outcomes' masses, by fractions."""
    pairs = [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))]
    q = Fraction(1, 5)
    inner = finite.law_of_rationals(pairs)
    removed = [((1 - q) * b + q * a, b) for a, b in pairs]
    for x in (Fraction(9, 10), Fraction(1), Fraction(11, 10), Fraction(13, 10)):
        for rows, removal in ((removed, True), (finite.turned(removed), False)):
            wanted = sum((max(a - x * b, Fraction(0)) for a, b in rows), Fraction(0))
            found = laws.Sampled(ball(q), inner, removal=removal).profile(ball(x).log())
            assert abs(found - ball(wanted)) < 1e-30
    kept = laws.Kept(ball(q), inner)
    for x in (Fraction(1), Fraction(21, 20)):
        assert abs(kept.profile(ball(x).log()) - ball(q) * inner.profile((1 + (ball(x) - 1) / ball(q)).log())) < 1e-30


def test_renyi_curves_bound_and_name_themselves() -> None:
    cost = Cost([(laws.RenyiOnly(lambda c: ball(0.1) * c * (c + 1)), 1)])
    found = routes.enclosed(cost, ball(2.2), ball(1e-6), 1e-6, CLOCK)
    normal = laws.Normal(2 * ball(0.1)).profile(ball(2.2))
    assert found.route == "Rényi" and normal < found.upper < 20 * normal and found.lower == 0


@pytest.mark.parametrize("c", [0.5, 3.0, 20.0])
def test_the_worst_pair_of_a_bounded_range_is_the_worst(c: float) -> None:
    worst, w = laws.bounded_range(ball(0.8)).renyi(ball(c)), mpmath.mpf("0.8")

    def moment(t: Any) -> Any:
        p = (mpmath.exp(w) - mpmath.exp(t)) / mpmath.expm1(w)
        return p * mpmath.exp(c * t) + (1 - p) * mpmath.exp(c * (t - w))

    best = max(moment(w * k / 400) for k in range(401))
    assert 0 <= mpmath.mpf(worst.mid().str(30, radius=False)) - best < 1e-3 * best


def test_failures_and_infinite_losses_add_to_every_route() -> None:
    cost = Cost([(laws.two_points("k", ball(0.1)), 3)], [(ball(Fraction(1, 1000)), 2)])
    found = routes.enclosed(cost, ball(1.0), ball(1.0), 1e-6, CLOCK)
    assert found.route == "pure" and abs(found.upper - ball(Fraction(2, 1000))) < 1e-30
    assert normal_tail(ball(0.0)).contains(ball(0.5))
