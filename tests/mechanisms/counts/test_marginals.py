"""Marginals of tables: distances and fits against explicit matrices, bounds against releases, choices and refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, epsilon
from hockeystick.mechanisms import Marginals, choose_marginals, synthetic_rows
from hockeystick.mechanisms.counts.marginal_sums import MarginalSums, table_of
from hockeystick.mechanisms.counts.variance_search import residual_weights

DOMAINS = [((2, 2), 2), ((2, 3, 4), 2), ((3, 1, 2), 2), ((4, 3), 1), ((2, 2, 2), 3), ((2, 5, 3), ((0, 1), (2,)))]
SHAPES = [
    (sizes, asked, known, strategy)
    for (sizes, asked), known in itertools.product(DOMAINS, (False, True))
    for strategy in ("separate", "full", "residual")
]


def sums_of(sizes, asked, known, strategy) -> MarginalSums:
    return Marginals(
        sizes=sizes,
        marginals=asked,
        scale=1.0,
        law="gaussian",
        strategy=strategy,
        records=7 if known else None,
    ).sums


def cells_of(sizes) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, sizes))))


def matrix(of: MarginalSums) -> np.ndarray:
    """The sums of a table with one record, one row for each combination."""
    return np.array([of.of(cell[None]) for cell in cells_of(of.sizes)])


# --- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.every(3)
def test_distances_are_the_largest_over_all_pairs_of_records(shape) -> None:
    """In fractions. Only rounding the weights of residuals down makes the true distance smaller, by at most 0.01 %."""
    of = sums_of(*shape)
    rows = [[Fraction(x) for x in row] for row in matrix(of)]
    zero = [Fraction(0)] * len(rows[0])
    pairs = list(itertools.combinations(rows, 2)) if of.total_known else [(row, zero) for row in rows]
    square = max(sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) for pair in pairs)
    found = Fraction(of.distance(squares=True)) ** 2
    assert square * (1 - Fraction(1, 10**15)) <= found <= square * (1 + Fraction(1, 10**4))
    if of.strategy != "residual":
        assert found <= square * (1 + Fraction(1, 10**15))
        assert of.distance(squares=False) == max(sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in pairs)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[2]], ids=str)
def test_the_farthest_neighbours_are_at_that_distance(shape) -> None:
    sizes, asked, _, strategy = shape
    made = Marginals(sizes=sizes, marginals=asked, scale=1.0, law="gaussian", strategy=strategy, records=7)
    sums = [made.sums.of(value) for value in made.worst_case_neighbours()]
    assert math.dist(*sums) == pytest.approx(made.sums.distance(squares=True), rel=1e-4)


def test_residuals_cost_more_than_twice_as_much_if_a_record_is_replaced() -> None:
    """By hand: 4 for two columns of two values, where twice the cost of one more record would be 2.5."""
    one = round(2.0**24)
    replaced = MarginalSums((2, 2), ((0, 1),), True, "residual", (one,) * 3)
    added = MarginalSums((2, 2), ((0, 1),), False, "residual", (1, one, one, one))
    assert replaced.distance(squares=True) ** 2 == pytest.approx(4.0, rel=1e-11)
    assert added.distance(squares=True) ** 2 == pytest.approx(1.25, rel=1e-11)


@pytest.mark.parametrize("records", [None, 50])
@pytest.mark.parametrize(
    ("law", "strategy", "delta"),
    [
        ("laplace", "separate", 0.0),
        ("laplace", "full", 1e-6),
        ("gaussian", "separate", 1e-6),
        ("gaussian", "residual", 1e-6),
    ],
)
def test_a_calibrated_mechanism_meets_its_target_and_no_more(records, law, strategy, delta) -> None:
    found = Marginals.calibrated(
        sizes=(2, 3, 4), marginals=2, epsilon=0.5, delta=delta, law=law, strategy=strategy, records=records
    )
    assert 0.499 < epsilon(found.event(), delta).upper <= 0.5


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_answers_are_the_least_squares_ones_with_the_stated_variance(shape) -> None:
    of = sums_of(*shape)
    rows, cells = matrix(of).T, cells_of(of.sizes)
    noisy, total = np.random.default_rng(1).normal(size=of.measurements), 7.0 if of.total_known else 0.0
    start, free = np.full(len(cells), total / len(cells)), np.eye(len(cells))
    if of.total_known:
        free -= 1.0 / len(cells)
    inverse = free @ np.linalg.pinv(rows @ free, rcond=1e-12)
    best = start + inverse @ (noisy - rows @ start)
    residuals = of.fit(noisy[None])
    for columns in of.asked:
        shape_of = tuple(of.sizes[i] for i in columns)
        which = np.ravel_multi_index(tuple(cells[:, i] for i in columns), shape_of)
        sums = np.array([which == i for i in range(math.prod(shape_of))], dtype=float)
        assert of.answer(columns, residuals, total)[0].ravel() == pytest.approx(sums @ best, abs=1e-8)
        variances = ((sums @ inverse) ** 2).sum(axis=1)
        assert np.full(len(variances), of.variance(columns)) == pytest.approx(variances, rel=1e-4, abs=1e-12)


def test_weights_of_residuals_give_known_deviations() -> None:
    """Of a cell at ε = 1 and δ = 1e-6, add-or-remove-one: published optima for 8 columns of 2, and 5 of 10 values."""
    for sizes, known in (((2,) * 8, (8.1, 10.9, 11.9)), ((10,) * 5, (8.9, 12.1, 11.8))):
        for ways, deviation in enumerate(known, start=1):
            made = Marginals(sizes=sizes, marginals=ways, scale=1.0, law="gaussian", strategy="residual")
            found = 4.224679 * made.sums.distance(squares=True) * math.sqrt(made.sums.variance(tuple(range(ways))))
            assert found == pytest.approx(deviation, abs=0.06)


def test_weights_are_the_same_for_equal_columns_and_the_largest_is_one() -> None:
    of = sums_of((3, 3, 3), 2, True, "residual")
    found = residual_weights(MarginalSums((3, 3, 3), of.asked, True, "residual"))
    assert max(found) == 2**24
    assert found[:3] == pytest.approx([found[0]] * 3, rel=1e-3) and found[3:] == pytest.approx([found[3]] * 3, rel=1e-3)


@pytest.mark.parametrize("strategy", ["separate", "full", "residual"])
def test_tables_agree_on_the_columns_that_they_share(strategy) -> None:
    made = Marginals(sizes=(2, 3, 4), marginals=2, scale=3.0, law="gaussian", strategy=strategy, records=90)
    people = np.random.default_rng(2).integers(0, (2, 3, 4), size=(90, 3))
    found = made.answers(made.simulate(people, np.random.default_rng(3), 1)[0])
    assert found.table(0, 1).sum(axis=0) == pytest.approx(found.table(1, 2).sum(axis=1))
    assert found.table(1, 2).sum(axis=1) == pytest.approx(found.table(1))
    assert found.table().item() == pytest.approx(90.0) and found.deviation() == 0.0
    exact = made.answers(made._checked(people))
    assert exact.table(0, 2) == pytest.approx(table_of(people, (2, 3, 4), (0, 2)), abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "strategy", "records"),
    [("laplace", "separate", 90), ("laplace", "full", None), ("gaussian", "residual", 90)],
)
def test_a_bound_fails_as_often_as_it_says(law, strategy, records) -> None:
    """False alarms: at most 1e-6 each, by the binomial law at 0.05; twice the noise that is stated is noticed."""
    people = np.random.default_rng(4).integers(0, (2, 3, 4), size=(90, 3))

    def made(scale: float) -> Marginals:
        return Marginals(sizes=(2, 3, 4), marginals=2, scale=scale, law=law, strategy=strategy, records=records)

    bound, stated = made(5.0).error_bound().count, made(5.0).sums

    def failures(drawn: Marginals) -> int:
        residuals = stated.fit(np.asarray(drawn.simulate(people, np.random.default_rng(5), 2000), dtype=float))
        worst = np.zeros(2000)
        for columns in stated.asked:
            errors = stated.answer(columns, residuals, float(records or 0)) - table_of(people, (2, 3, 4), columns)
            worst = np.maximum(worst, np.abs(errors).reshape(2000, -1).max(axis=1))
        return int((worst > bound).sum())

    most = int(stats.binom.isf(1e-6, 2000, 0.05))
    assert failures(made(5.0)) <= most < failures(made(10.0))


# --- the choice, and synthetic records -------------------------------------------------------------------------------


def test_few_cells_take_the_whole_table_and_many_take_residuals() -> None:
    few = choose_marginals(sizes=(2, 2, 2), marginals=2, epsilon=1.0, records=100)
    many = choose_marginals(sizes=(10,) * 6, marginals=2, epsilon=1.0, delta=1e-6)
    assert few.mechanism.strategy == "full" and many.mechanism.strategy == "residual"
    assert few.bound == few.mechanism.error_bound()
    assert [one.error for one in many.candidates] == sorted(one.error for one in many.candidates)
    assert str(many).startswith("Gaussian noise on residuals: all cells within ")
    assert {one.mechanism.law for one in few.candidates} == {"laplace"}  # δ = 0


def test_synthetic_records_have_the_released_marginals() -> None:
    """With next to no noise; the fourth column is in no marginal, and even."""
    rng = np.random.default_rng(6)
    first = rng.integers(0, 4, 4000)
    people = np.stack([first, (first + rng.integers(0, 2, 4000)) % 4, first // 2, rng.integers(0, 1, 4000)], axis=1)
    made = Marginals(sizes=(4, 4, 2, 3), marginals=((0, 1), (1, 2)), scale=0.01)
    found = synthetic_rows(made.answers(made._checked(people)), 2000, rng)
    for columns in made.sums.asked:
        apart = np.abs(table_of(found, made.sizes, columns) - table_of(people, made.sizes, columns) / 2.0)
        assert apart.sum() / 2 < 40  # records in the wrong place; 1,000 if columns were independent
    assert np.bincount(found[:, 3], minlength=3).min() > 550


def test_synthetic_records_follow_from_mostly_negative_answers() -> None:
    made = Marginals(sizes=(3, 2), marginals=2, scale=5.0, records=6)
    found = synthetic_rows(made.answers([-40, -30, 90, -20, -10, -5]), 50, np.random.default_rng(7))
    assert found.shape == (50, 2) and (found == [1, 0]).all(axis=1).mean() > 0.9


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": ()},
        {"sizes": 3},
        {"sizes": (2,) * 17},
        {"sizes": (2, 0)},
        {"marginals": 3},
        {"marginals": 0},
        {"marginals": ((0, 0),)},
        {"marginals": ((),)},
        {"marginals": ((0, 1), (1, 0))},
        {"marginals": ((2,),)},
        {"marginals": (1,)},
        {"scale": 0.0},
        {"law": "cauchy"},
        {"strategy": "wavelet"},
        {"strategy": "residual"},
        {"weights": (1, 2)},
        {"records": 0},
        {"sizes": (2**11, 2**11), "strategy": "full", "marginals": 1},
        {"sizes": (2**11, 2**11)},
        {"strategy": "residual", "law": "gaussian", "weights": (1,)},
        {"strategy": "residual", "law": "gaussian", "weights": (1, 1, 1)},
    ],
)
def test_bad_parameters_are_refused(change) -> None:
    with pytest.raises(InvalidArgumentError):
        Marginals(**{"sizes": (2, 3), "marginals": 2, "scale": 1.0, "records": 10, **change})


def test_answers_that_do_not_follow_are_refused() -> None:
    made = Marginals(sizes=(2, 3, 4), marginals=((0, 1),), scale=1.0)
    with pytest.raises(InvalidArgumentError):
        made.answers([1, 2, 3])
    found = made.answers([1, 2, 3, 4, 5, 6])
    for columns in ((0, 2), (1, 0), (3,)):
        with pytest.raises(InvalidArgumentError):
            found.table(*columns)
    with pytest.raises(InvalidArgumentError):
        choose_marginals(sizes=(2, 3), marginals=2.5, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        synthetic_rows(found, 0, np.random.default_rng(1))


@pytest.mark.parametrize("value", [[[0, 3]], [[0, -1]], [[0]], [0, 1], [[0, 0.5]], [[0, float("nan")]], [[0, 1]] * 3])
def test_bad_codes_are_refused_without_a_word_of_them(value) -> None:
    made = Marginals(sizes=(2, 3), marginals=1, scale=1.0, records=1)
    with pytest.raises(InvalidDataError) as caught:
        made.release(value)
    assert "-1" not in str(caught.value) and "0.5" not in str(caught.value)
