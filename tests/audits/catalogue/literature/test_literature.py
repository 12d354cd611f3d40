"""The zoo of the literature: samplers against exact laws, exact laws against other ways to compute them.

False alarms: every chi-squared and Kolmogorov-Smirnov test is made at 1e-6, with fixed seeds. The exact laws are
quadratures, checked against scipy's adaptive one, and closed forms, checked by enumeration.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.catalogue.literature.cases import HALF_HALF, ONE_BELOW_REST_ABOVE, SideBySide, zoo_cases
from hockeystick.audits.catalogue.literature.histograms import LaplaceVector, TruncatedGeometric
from hockeystick.audits.catalogue.literature.noisy_max import ding_form
from hockeystick.audits.catalogue.literature.rappor import Rappor
from hockeystick.audits.catalogue.literature.sparse_vector import SparseVectorForm, lyu_form, numeric_form, sequences

ALPHA = 1e-6
RUNS = 20_000


def fits(outputs: NDArray[Any], values: NDArray[Any], law: NDArray[np.float64]) -> bool:
    """Whether outputs, rows or numbers, follow a law on ``values``; cells with few expected are put together."""
    rows = outputs.reshape(len(outputs), -1)
    place = {tuple(row): i for i, row in enumerate(values.reshape(len(values), -1).tolist())}
    seen = np.bincount([place[tuple(row)] for row in rows.tolist()], minlength=len(values))
    often = law * len(outputs) >= 10
    if np.any(seen[law == 0]):
        return False
    counts = [*seen[often], seen[~often].sum()] if (~often & (law > 0)).any() else list(seen[often])
    expected = [*law[often], law[~often].sum()][: len(counts)]
    return bool(stats.chisquare(counts, np.array(expected) / sum(expected) * len(outputs)).pvalue > ALPHA)


# --- sparse vector ---------------------------------------------------------------------------------------------------

QUERIES = [0.0, 1.5, -1.0, 1.0]


def by_loop(form: SparseVectorForm, queries: list[float], rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """One run as the papers write it down: answers, and the numbers shown."""
    level, above = form.threshold + rng.laplace(0, form.threshold_scale), 0
    answers, numbers = [], []
    for query in queries:
        if above == form.halts_after:
            answers.append(-1)
            continue
        noisy = query + (rng.laplace(0, form.query_scale) if form.query_scale else 0.0)
        answers.append(int(noisy >= level))
        if noisy >= level:
            above += 1
            numbers.append(noisy if form.numbers == "compared" else query + rng.laplace(0, form.number_scale or 1.0))
            if form.redraw:
                level = form.threshold + rng.laplace(0, form.threshold_scale)
    return answers, numbers


FORMS = [
    *(lyu_form(number, 1.0, halts_after=c) for number in (1, 2, 3, 4) for c in (1, 2)),
    lyu_form(5, 1.0),
    lyu_form(6, 1.0),
    numeric_form(3.0),
]


@pytest.mark.parametrize("form", FORMS)
def test_sparse_vector_follows_its_law(form: SparseVectorForm) -> None:
    answers, law = form.law(QUERIES)
    assert law.sum() == pytest.approx(1.0, abs=1e-12) and law.min() >= 0
    found = form(QUERIES, np.random.default_rng(1), RUNS)
    if form.numbers != "none":
        shown = np.isfinite(found)
        assert form.halts_after is not None
        halted = np.cumsum(shown, axis=1) - shown >= form.halts_after
        found = np.where(halted, -1, shown).astype(np.int8)
    assert fits(found, answers, law)


@pytest.mark.parametrize("form", [FORMS[0], FORMS[3], FORMS[4], FORMS[8], FORMS[10]])
def test_sparse_vector_loops_follow_the_same_law(form: SparseVectorForm) -> None:
    rng = np.random.default_rng(2)
    runs = [by_loop(form, QUERIES, rng) for _ in range(3_000)]
    assert fits(np.array([answers for answers, _ in runs]), *form.law(QUERIES))
    if form.numbers != "none":
        found = form(QUERIES, np.random.default_rng(3), RUNS)
        first = np.take_along_axis(found, np.isfinite(found).argmax(axis=1)[:, None], axis=1)[:, 0]
        looped = [numbers[0] for _, numbers in runs if numbers]
        assert stats.ks_2samp(first[np.isfinite(first)], looped).pvalue > ALPHA


def test_a_wrong_law_is_detected() -> None:
    """The power of the two tests above: a query scale that is 10 % too small."""
    found = lyu_form(6, 1.0)(QUERIES, np.random.default_rng(1), RUNS)
    off = SparseVectorForm(threshold=1.0, threshold_scale=2.0, query_scale=1.8, halts_after=None)
    assert not fits(found, *off.law(QUERIES))


def test_law_agrees_with_adaptive_quadrature() -> None:
    form = lyu_form(1, 1.0, threshold=0.5)
    answers, law = form.law([0.0, 2.0, 1.0])
    assert answers.tolist() == [[0, 0, 0], [1, -1, -1], [0, 1, -1], [0, 0, 1]]

    def integrand(z: float, row: list[int]) -> float:
        below = stats.laplace.cdf([0.5 + z, z - 1.5, z - 0.5], scale=4.0)
        chance = np.prod([1 - b if a == 1 else b if a == 0 else 1.0 for a, b in zip(row, below, strict=True)])
        return float(stats.laplace.pdf(z, scale=2.0) * chance)

    for row, found in zip(answers.tolist(), law, strict=True):
        cuts = [-60.0, -0.5, 0.0, 0.5, 1.5, 60.0]
        whole = sum(integrate.quad(integrand, a, b, args=(row,), epsabs=1e-11)[0] for a, b in itertools.pairwise(cuts))
        assert found == pytest.approx(whole, abs=1e-9)


def test_sequences_are_complete_and_distinct() -> None:
    assert len(sequences(10, 1)) == 11 and len(sequences(10, 2)) == 56 and len(sequences(4, None)) == 16
    assert len(np.unique(sequences(10, 2), axis=0)) == 56


def test_compared_numbers_have_the_loss_of_the_closed_form() -> None:
    """All queries rise by 1: m/scale one way, c/scale the other; see ``largest_losses`` for the proof."""
    form = lyu_form(3, 1.0, halts_after=2)
    assert form.largest_losses([0.0] * 6, [1.0] * 6) == pytest.approx((6 / 4, 2 / 4))
    assert form.largest_losses([1.0] * 6, [0.0] * 6) == pytest.approx((2 / 4, 6 / 4))


def test_compared_numbers_may_lie_apart() -> None:
    """Two numbers, one query rising and one falling: a low and a high one lose 1/scale each, the most there is."""
    assert lyu_form(3, 1.0, halts_after=2).largest_losses([0.0, 1.0], [1.0, 0.0]) == pytest.approx((0.5, 0.5))


def test_forms_are_those_of_the_paper() -> None:
    """Lyu, Su and Li 2017, Figure 1, at epsilon 1 and c = 3: scales of threshold and query, and what differs else."""
    forms = [lyu_form(number, 1.0, halts_after=3) for number in range(1, 7)]
    scales = [(2, 12), (6, 12), (2, 6), (4, 4 / 3), (2, 0), (2, 2)]
    assert [(form.threshold_scale, form.query_scale) for form in forms] == scales
    assert [form.halts_after for form in forms] == [3, 3, 3, 3, None, None]
    assert [form.redraw for form in forms] == [False, True, False, False, False, False]
    assert [form.numbers for form in forms] == ["none", "none", "compared", "none", "none", "none"]


@pytest.mark.statistical
def test_compared_numbers_against_densities_on_a_grid() -> None:
    """Two queries, at most one number: the density of each outcome, by adaptive quadrature."""
    form, d0, d1 = lyu_form(3, 1.0), [0.0, 1.0], [1.0, 0.0]

    def density(queries: list[float], stop: int, v: float) -> float:
        def integrand(z: float) -> float:
            before = stats.laplace.cdf(z + 1.0 - queries[0], scale=2.0) if stop else 1.0
            return float(stats.laplace.pdf(z, scale=2.0) * before)

        cuts = sorted({-80.0, *(c for c in (-1.0, 0.0) if c < v - 1), v - 1.0})
        inside = sum(integrate.quad(integrand, a, b)[0] for a, b in itertools.pairwise(cuts))
        return float(inside * stats.laplace.pdf(v - queries[stop], scale=2.0))

    losses = [
        math.log(density(d0, stop, v) / density(d1, stop, v)) for stop in (0, 1) for v in np.linspace(-3.0, 25.0, 15)
    ]
    most, least = form.largest_losses(d0, d1)
    assert max(losses) <= most + 1e-6 and max(losses) == pytest.approx(most, abs=2e-3)
    assert -min(losses) <= least + 1e-6 and -min(losses) == pytest.approx(least, abs=2e-3)


@pytest.mark.parametrize(
    "form",
    [
        *(lyu_form(number, 1.0) for number in (1, 3, 4, 6)),
        *(lyu_form(number, 1.0, halts_after=2) for number in (2, 3)),
        numeric_form(1.0),
        SideBySide(forms=(lyu_form(3, 1.0, halts_after=2), lyu_form(4, 1.0, halts_after=2))),
    ],
)
def test_likelihood_ratios_are_some_and_stay_within_the_largest_losses(form: Any) -> None:
    """The mean of Q/P under P is 1, as is that of P/Q under Q. No loss exceeds the stated one; some come near."""
    pair = [np.array(d) for d in HALF_HALF]
    most = form.largest_losses(*pair)
    for side, sign in ((0, 1), (1, -1)):
        outputs = form(pair[side], np.random.default_rng(4), RUNS)
        losses = sign * form.log_likelihood_ratio(outputs, *pair)
        assert losses.max() <= most[side] + 1e-4 and -losses.min() <= most[1 - side] + 1e-4
        assert losses.max() > 0.5 * most[side]
        spread = np.exp(-losses).std() / math.sqrt(RUNS)
        assert abs(np.exp(-losses).mean() - 1) < 6 * spread + 1e-4


def test_side_by_side_adds_losses() -> None:
    forms = lyu_form(1, 1.0), lyu_form(4, 1.0)
    both = SideBySide(forms=forms)
    assert both(QUERIES, np.random.default_rng(1), 7).shape == (7, 8)
    losses = [form.largest_losses(*HALF_HALF) for form in forms]
    assert both.largest_losses(*HALF_HALF) == (losses[0][0] + losses[1][0], losses[0][1] + losses[1][1])


# --- noisy max, numbers, counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_places_follow_their_law(number: int) -> None:
    form, queries = ding_form(number, 1.0), [1.0, 0.0, 2.0, 2.0]
    law = form.law(queries)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert fits(form(queries, np.random.default_rng(1), RUNS), np.arange(4), law)
    assert not fits(ding_form(number, 1.2)(queries, np.random.default_rng(1), RUNS), np.arange(4), law)


def test_largest_exponential_of_two_in_closed_form() -> None:
    """The higher query loses with probability e^-(gap/scale)/2."""
    assert ding_form(2, 1.0).law([0.0, 3.0])[0] == pytest.approx(math.exp(-1.5) / 2, rel=1e-12)


def test_values_of_noisy_max_have_the_stated_loss() -> None:
    """Form 3: the ratio of distribution functions, (F(v)/F(v - 1))^5, below all queries; form 4 has a floor."""
    three, four = ding_form(3, 1.0), ding_form(4, 1.0)
    low, high = [0.0] * 5, [1.0] * 5
    below = [stats.laplace.cdf(-0.5 - d[0], scale=2.0) ** 5 for d in (low, high)]
    assert three.epsilon(low, high) == pytest.approx(math.log(below[0] / below[1])) == 2.5
    seen = [np.mean(three(d, np.random.default_rng(5), RUNS) < 0.8) for d in (low, high)]
    exact = [stats.laplace.cdf(0.8 - d[0], scale=2.0) ** 5 for d in (low, high)]
    for observed, chance in zip(seen, exact, strict=True):
        assert abs(observed - chance) < 5 * math.sqrt(chance * (1 - chance) / RUNS)
    assert four.epsilon(low, high) == math.inf
    assert four(high, np.random.default_rng(6), RUNS).min() >= 1.0
    assert four(low, np.random.default_rng(6), RUNS).min() < 1.0
    for form, pair in ((three, ONE_BELOW_REST_ABOVE), (four, ([1.0, 0.0], [1.0, 1.0]))):
        with pytest.raises(InvalidArgumentError, match="no exact loss"):
            form.epsilon(*pair)


def test_laplace_vectors_follow_their_law() -> None:
    rng = np.random.default_rng(7)
    one = LaplaceVector(scale=2.0)(3.0, rng, RUNS)
    assert one.shape == (RUNS,) and stats.kstest(one, stats.laplace(3.0, 2.0).cdf).pvalue > ALPHA
    sums = LaplaceVector(scale=2.0, running=True)([1.0, 2.0], rng, RUNS)
    for noise, centre in ((sums[:, 0], 1.0), (sums[:, 1] - sums[:, 0], 2.0)):
        assert stats.kstest(noise, stats.laplace(centre, 2.0).cdf).pvalue > ALPHA
    total = LaplaceVector(scale=2.0, total=True)
    assert stats.kstest(total([1.0, 2.0], rng, RUNS), stats.laplace(3.0, 2.0).cdf).pvalue > ALPHA
    assert total.epsilon([1.0, 2.0], [2.0, 1.0]) == 0.0
    many = LaplaceVector(scale=10.0, copies=20)
    assert many(0.0, rng, 9).shape == (9, 20) and many.epsilon(0.0, 1.0) == 2.0


@pytest.mark.parametrize("exponent", [1, 3, 5])
def test_truncated_geometric_is_one(exponent: int) -> None:
    """Geometric noise of ratio b/a, cut at 0 and n: the ends hold what lies beyond (Ghosh et al. 2009)."""
    form, n = TruncatedGeometric(count_limit=5, exponent=exponent), 5
    ratio = Fraction(2**exponent, 2**exponent + 1)  # e^-epsilon
    for count in (0, 2, 5):
        inner = [(1 - ratio) / (1 + ratio) * ratio ** abs(z - count) for z in range(1, n)]
        ends = ratio**count / (1 + ratio), ratio ** (n - count) / (1 + ratio)
        whole = form.steps(count)[-1]
        assert [Fraction(mass, whole) for mass in form.law(count)] == [ends[0], *inner, ends[1]]
        law = np.array([mass / whole for mass in form.law(count)])
        assert fits(form(count, np.random.default_rng(8), RUNS), np.arange(n + 1), law)
    assert form.epsilon(2, 3) == pytest.approx(math.log(1 + 2.0**-exponent), rel=1e-12)
    with pytest.raises(InvalidArgumentError, match="outside 0..5"):
        form.law(6)


def test_natural_logarithm_is_the_slip_of_the_published_row() -> None:
    slip, right = (TruncatedGeometric.stated(0.1, natural=natural).epsilon(2, 3) for natural in (True, False))
    assert slip == pytest.approx(0.1178, abs=5e-5) and right == pytest.approx(math.log(1 + 1 / 32))


# --- RAPPOR ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [Rappor(bits=5, replaced=0.5, one=0.7, zero=0.2), Rappor(bits=5, replaced=0.4)])
def test_rappor_by_enumeration(form: Rappor) -> None:
    """All reports of five bits: the law, and the largest ratio, with other values of p and q than 1 - p and p too."""
    one, zero = form.chances()
    reports = np.array(list(itertools.product((0, 1), repeat=5)))

    def law(value: tuple[int, ...]) -> NDArray[np.float64]:
        chance = np.full(5, zero)
        chance[list(value)] = one
        return np.asarray(np.where(reports == 1, chance, 1 - chance).prod(axis=1))

    first, second = (0, 1), (2, 3, 4)
    assert form.epsilon(first, second) == pytest.approx(np.abs(np.log(law(first) / law(second))).max())
    assert fits(form(first, np.random.default_rng(9), RUNS), reports, law(first))
    with pytest.raises(InvalidArgumentError, match="sets bits"):
        form((5,), np.random.default_rng(9), 3)


def test_rappor_formulas_of_the_paper() -> None:
    """Theorem 1: 2h ln((1 - f/2)/(f/2)); Theorem 2: h ln(q*(1 - p*)/(p*(1 - q*)))."""
    apart = (0, 1, 2, 3), (4, 5, 6, 7)
    once = Rappor(bits=20, replaced=0.95)
    assert once.epsilon(*apart) == pytest.approx(8 * math.log(0.525 / 0.475))
    more = Rappor(bits=20, replaced=0.75, one=0.55, zero=0.45)
    p, q = 0.375 + 0.25 * 0.45, 0.375 + 0.25 * 0.55
    assert more.epsilon(*apart) == pytest.approx(4 * math.log(q * (1 - p) / (p * (1 - q))))
    assert Rappor(bits=4, replaced=0.0).epsilon((0,), (1,)) == math.inf


# --- the cases -------------------------------------------------------------------------------------------------------

TRUTHS = {  # exact on the pair of the case, to four digits
    "laplace": (0.1, 1.0),
    "noisy-hist-2": (10.0, 1.0),
    "prefix-sum[every entry]": (1.0, 10.0),
    "truncated-geometric[natural logarithm]": (0.1178, 0.4055),
    "noisy-max-1": (0.0946, 0.9804),
    "noisy-max-2": (0.1, 1.0),
    "noisy-max-3": (0.25, 2.5),
    "noisy-max-4": (math.inf, math.inf),
    "svt-1": (0.0885, 0.9304),
    "svt-2": (0.0882, 0.9110),
    "svt-3": (0.3, 3.0),
    "svt-4": (0.1725, 1.7418),
    "svt-5": (math.inf, math.inf),
    "svt-6": (0.4200, 4.4862),
    "numerical-svt": (0.0805, 0.8155),
    "svt-34-parallel": (0.4874, 4.9549),
}


@pytest.mark.statistical
def test_cases_know_which_claims_are_false() -> None:
    cases = {case.name: case for case in zoo_cases()}
    assert len(cases) == 48
    for case in cases.values():
        assert case.truth is not None and case.oracle and case.source
        assert case.broken == (case.truth > case.claim.epsilon * (1 + 1e-12)), case.name
    for name, truths in TRUTHS.items():
        for epsilon, truth in zip(("0.1", "1"), truths, strict=True):
            assert cases[f"zoo/{name}@{epsilon}"].truth == pytest.approx(truth, abs=6e-5), name


@pytest.mark.parametrize("form", [lyu_form, ding_form])
def test_unknown_forms_are_refused(form: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a form of"):
        form(7, 1.0)
