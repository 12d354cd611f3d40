"""Tests of the scikit-learn estimators: conventions, guarantees and accuracy."""

from __future__ import annotations

import math
import pickle
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from estimator_instances import CANDIDATES, LABELS, MADE, SECRET, SYMBOLS, X1, X2, Y1, Y2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from hockeystick import Adjacency, InvalidArgumentError
from hockeystick.estimators import PrivateClassifier, PrivateDivergence, PrivateLabelDistribution, PrivateQueries
from hockeystick.learners.smoothed import Halfspaces, PublicColumn, Thresholds
from hockeystick.learners.smoothed.nets.agnostic_learner import best_predicate

# --------------------------------------------------------------------------------------- scikit-learn's conventions


@pytest.mark.parametrize("name", MADE)
def test_parameters_are_attributes_and_clones_are_fresh(name: str) -> None:
    make, data = MADE[name]
    made = make(epsilon=2.0, random_state=1)
    for check in ("check_no_attributes_set_in_init", "check_get_params_invariance", "check_estimator_repr"):
        if hasattr(estimator_checks, check):
            getattr(estimator_checks, check)(name, made)
    assert made.get_params()["epsilon"] == 2.0 and made.set_params(epsilon=1.0).epsilon == 1.0
    fitted = made.fit(*data)
    assert fitted is made and not hasattr(clone(fitted), "guarantee_")
    again = clone(fitted).fit(*data)
    for key in ("parameters_", "weights_", "divergence_"):
        assert np.array_equal(getattr(again, key, 0), getattr(fitted, key, 0))  # a seed repeats
    assert repr(made).startswith("Private")
    with pytest.raises(ValueError, match="Invalid parameter"):
        made.set_params(nothing=1)


@pytest.mark.parametrize("name", MADE)
def test_a_fit_states_its_guarantee(name: str) -> None:
    make, data = MADE[name]
    at = 1e-6 if name == "divergence" else 0.0
    for budget in (0.5, 2.0):
        found = make(epsilon=budget, random_state=1).fit(*data)
        assert found.simulated_ is True
        assert found.guarantee_.epsilon(at).upper <= budget * (1 + 1e-9)
        assert found.guarantee_.epsilon(at).upper >= budget * 0.9
        adjacency = Adjacency.LOCAL if name == "labels" else Adjacency.REPLACE_ONE
        assert found.guarantee_.adjacency is adjacency


@pytest.mark.parametrize("name", MADE)
def test_without_a_seed_it_is_a_release(name: str) -> None:
    make, data = MADE[name]
    released = make().fit(*data)
    assert released.simulated_ is False and released.guarantee_.epsilon(1e-6).upper <= 1.0 + 1e-9


@pytest.mark.parametrize("name", ["classifier", "net", "queries", "labels"])
def test_unfitted_estimators_raise_not_fitted(name: str) -> None:
    make, data = MADE[name]
    method = "sample" if name == "labels" else "predict"
    with pytest.raises(NotFittedError):
        getattr(make(), method)(*data[:1])


@pytest.mark.parametrize("name", MADE)
def test_fitted_estimators_can_be_pickled(name: str) -> None:
    make, data = MADE[name]
    fitted = make(random_state=1).fit(*data)
    again = pickle.loads(pickle.dumps(fitted))
    if name in ("classifier", "net"):
        assert (again.predict(X1) == fitted.predict(X1)).all()


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("state", [True, 1.5, "seed"])
def test_an_invalid_state_is_refused(name: str, state: object) -> None:
    make, data = MADE[name]
    with pytest.raises(InvalidArgumentError, match="random_state"):
        make(random_state=state).fit(*data)


def test_pipelines_searches_and_scores() -> None:
    steps = make_pipeline(FunctionTransformer(np.log1p), PrivateClassifier(high=3.0, random_state=1))
    assert steps.fit(X1, Y1.astype(int)).score(X1, Y1.astype(int)) > 0.85
    assert cross_val_score(steps, X1, Y1.astype(int), cv=3).mean() > 0.85
    search = GridSearchCV(PrivateClassifier(high=10.0, random_state=1), {"points": [2, 65]}, cv=2)
    assert search.fit(X1, Y1.astype(int)).best_params_ == {"points": 65}


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.accounting.optional_packages import MissingExtraError

    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "hockeystick.estimators.base")
    with pytest.raises(MissingExtraError, match=r"an estimator needs sklearn: pip install 'hockeystick\[sklearn\]'"):
        import_module("hockeystick.estimators.base")


# --------------------------------------------------------------------------------------- what is learned


def test_the_classifier_is_near_the_best_threshold() -> None:
    """Excess over the best threshold below 4 %: the exponential mechanism errs by 2/ε·(ln 66 + t) of 800 records, but
    for e^{−t}; with t = 11 that is 3.8 %, false alarm 2e-5 for a fixed seed. Half of the labels turned round is not."""
    best = best_predicate(Thresholds(), X1[:, 0] / 10, Y1)[1]
    threshold = PrivateClassifier(high=10.0, classes=(False, True), random_state=2).fit(X1, Y1)
    assert abs(threshold.parameters_[0] - 4.0) < 0.5
    assert 1 - threshold.score(X1, Y1) < best + 0.04 + 1 / 64
    turned = PrivateClassifier(high=10.0, classes=(True, False), random_state=2).fit(X1, Y1)
    assert turned.score(X1, Y1) < 0.75


def test_classes_of_two_features_and_user_defined_ones_are_fitted() -> None:
    box = PrivateClassifier(concepts="rectangles", classes=(False, True), random_state=1).fit(X2, Y2)
    assert box.score(X2, Y2) > 0.75 and len(box.parameters_) == 4 and box.n_features_in_ == 2
    half = PrivateClassifier(concepts=Halfspaces(2), points=5, classes=("n", "y"), random_state=1)
    half.fit(X2, np.where(X2.sum(axis=1) > 1, "y", "n"))
    assert set(half.predict(X2)) <= {"n", "y"} and half.score(X2, np.where(X2.sum(axis=1) > 1, "y", "n")) > 0.75
    interval = PrivateClassifier(concepts="intervals", high=10.0, random_state=1)
    inside = ((X1[:, 0] > 3) & (X1[:, 0] < 7)).astype(int)
    assert interval.fit(X1, inside).score(X1, inside) > 0.9


def test_the_classifier_rounds_to_its_grid() -> None:
    """Clipping and rounding are each record's own: far values and near ones are their points."""
    made = PrivateClassifier(points=5, random_state=1).fit(np.linspace(-3, 4, 50), np.arange(50) > 25)
    assert (made.predict(np.array([0.24, 0.26, -7.0])) == made.predict(np.array([0.25, 0.25, 0.0]))).all()


@pytest.mark.statistical
def test_the_law_of_the_choice_is_that_of_its_event() -> None:
    """All records at one point: odds of the labels are e^(ε·2/2), by 1000 fits; false alarm 2e-8, by Hoeffding."""
    x, y = np.full(4, 0.5), np.array([0, 1, 1, 1])
    made = PrivateClassifier(points=3, epsilon=1.2, random_state=np.random.default_rng(1))
    ones = np.mean([made.fit(x, y).predict([0.5])[0] for _ in range(1000)])
    margin = math.sqrt(math.log(1e8) / 2000)
    assert abs(ones - 1 / (1 + math.exp(-1.2))) < margin
    assert abs(ones - 1 / (1 + math.exp(-2.4))) > margin  # twice the budget


def test_queries_are_answered_within_their_bound() -> None:
    made = PrivateQueries({"age": (0.0, 10.0)}, sigma=0.5, epsilon=2.0, random_state=1).fit(X1)
    ends = np.array([[2.0], [5.0], [8.0]])
    truth = (X1 >= ends.T).mean(axis=0)
    assert made.error_bound_ is not None and np.abs(made.predict(ends) - truth).max() < made.error_bound_
    assert made.sample(5, 1).shape == (5, 1) and (made.sample(5, 1) == made.sample(5, 1)).all()
    listed = PrivateQueries([PublicColumn(name="age", low=0.0, high=10.0)], options={"rounds": 5}, random_state=1)
    assert listed.fit(X1).plan_.learner.rounds == 5


@pytest.mark.statistical
def test_the_divergence_is_near_the_truth_within_its_noise() -> None:
    """Laplace noise beyond 16 times its scale has probability 1e-7."""
    truth = sum(p * math.log(p / 0.5) for p in (0.8, 0.2))
    made = PrivateDivergence({"a": 0.5, "b": 0.5}, epsilon=5.0, random_state=1)
    for groups in (None, np.arange(2000) // 4):
        found = made.fit(SYMBOLS, groups=groups)
        assert abs(found.divergence_ - truth) < 16 * found.noise_deviation_ / math.sqrt(2) + 0.05
    for model, group in (("trusted", 3), ("aggregated", None), ("dist", 2)):
        other = PrivateDivergence({"a": 0.5, "b": 0.5}, model=model, group=group, epsilon=5.0, random_state=1)
        assert other.fit(SYMBOLS, groups=np.arange(2000) // 4).guarantee_.epsilon(1e-6).upper <= 5.0
    assert made.fit(SYMBOLS[:, None]).divergence_ == made.fit(pa.table({"any": SYMBOLS})).divergence_
    table = PrivateDivergence({"symbol": ["a", "b"], "count": [1, 1]}, epsilon=5.0, random_state=1)
    assert table.fit(SYMBOLS).divergence_ == made.fit(SYMBOLS).divergence_


@pytest.mark.parametrize("channel", ["one-bit", "discrete-laplace", "randomized-labels"])
def test_the_law_of_labels_is_found(channel: str) -> None:
    made = PrivateLabelDistribution(CANDIDATES, epsilon=2.0, channel=channel, random_state=1).fit(LABELS)
    assert made.weights_[1] > 0.9 and made.law_ == pytest.approx([0.1, 0.2, 0.7], abs=0.06)
    assert made.law_.sum() == pytest.approx(1.0)
    assert made.score_samples([0, 2, 3, -1]) == pytest.approx([*np.log(made.law_[[0, 2]]), -np.inf, -np.inf])
    assert made.sample(7, 1).shape == (7,)
    assert made.score(LABELS) > PrivateLabelDistribution(CANDIDATES, random_state=1).fit(2 - LABELS).score(LABELS)


# --------------------------------------------------------------------------------------- data frames


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_columns_are_taken_by_name(kind: str) -> None:
    columns = {"b": X2[:, 1], "a": X2[:, 0]}
    names = {"arrow": "pyarrow", "pandas": "pandas", "polars": "polars"}
    library = pytest.importorskip(names[kind], reason=f"{kind} is not installed")
    make = pa.table if kind == "arrow" else library.DataFrame
    box = {"concepts": "rectangles", "classes": (False, True), "random_state": 1}
    made = PrivateClassifier(**box).fit(make(columns), Y2)  # type: ignore[arg-type]
    assert made.feature_names_in_.tolist() == ["b", "a"]
    swapped = make({"a": X2[:, 0], "b": X2[:, 1]})
    assert (made.predict(swapped) == made.predict(make(columns))).all()
    assert (made.predict(swapped) == made.predict(X2[:, ::-1])).all()
    with pytest.raises(InvalidArgumentError, match="has no column 'b'"):
        made.predict(make({"a": X2[:, 0]}))
    bounds = {"a": (0.0, 1.0)}
    queries = PrivateQueries(bounds, random_state=1)
    assert queries.fit(make(columns)).predict([[0.5]]) == queries.fit(X2[:, :1]).predict([[0.5]])
    with pytest.raises(InvalidArgumentError, match="has no column 'c'"):
        PrivateQueries({"c": (0, 1)}).fit(make(columns))


@pytest.mark.parametrize("concepts", ["thresholds", "rectangles"])
def test_rows_picked_from_a_frame_of_pandas_have_its_columns_alone(concepts: str) -> None:
    """An index is the name of a record, which is private: no feature, in searches and splits neither."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    names = [f"{SECRET}-{i}" for i in range(len(X1))]
    frame = pandas.DataFrame({"a": X1[:, 0]}, index=pandas.Index(names, name="name"))
    labels = pandas.DataFrame({"y": Y1.astype(int)}, index=frame.index)
    picked = frame.sample(frac=0.5, random_state=1)
    made = PrivateClassifier(concepts=concepts, high=10.0, epsilon=5.0, random_state=1)
    for y in (labels.loc[picked.index], labels.loc[picked.index, "y"]):
        made.fit(picked, y)
        assert made.feature_names_in_.tolist() == ["a"] and made.n_features_in_ == 1
        assert (made.predict(frame) == made.predict(X1)).all()
    search = GridSearchCV(made, {"points": [2, 65]}, cv=2, error_score="raise")
    assert search.fit(frame, labels["y"]).best_params_ == {"points": 65}
    shuffled = frame.reset_index(drop=True).sample(frac=1.0, random_state=1)
    assert (
        cross_val_score(made, shuffled, labels["y"].to_numpy()[shuffled.index], cv=3, error_score="raise").min() > 0.7
    )


class NothingLike:
    """As pandas's NA: no comparison with it is a truth value."""

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __eq__

    def __hash__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


NA = NothingLike()
NOTHING = [None, math.nan, NA, np.datetime64("NaT", "s")]


def objects(*values: Any) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


@pytest.mark.parametrize("nothing", NOTHING, ids=lambda each: type(each).__name__)
def test_a_label_that_is_missing_is_refused_by_its_place(nothing: Any) -> None:
    for classes, y in (((False, True), objects(True, False, nothing, True)), (("a", "b"), ["a", "b", nothing, "a"])):
        with pytest.raises(InvalidArgumentError, match="has no label in record 3") as caught:
            PrivateClassifier(classes=classes, random_state=1).fit([0.1, 0.2, 0.3, 0.4], y)
        assert caught.value.argument == "y"
    with pytest.raises(InvalidArgumentError, match="two different labels"):
        PrivateClassifier(classes=(nothing, "b"), random_state=1).fit([0.1, 0.2], ["b", "b"])


def test_missing_values_are_not_taken_for_a_label() -> None:
    """numpy makes the text "nan" of a NaN among texts."""
    with pytest.raises(InvalidArgumentError, match="has no label in record 2"):
        PrivateClassifier(classes=("a", "nan"), random_state=1).fit([0.1, 0.2], ["a", math.nan])
    assert PrivateClassifier(classes=("a", "nan"), random_state=1).fit([0.1, 0.2], ["a", "nan"]).guarantee_


def test_a_column_of_pandas_with_missing_labels_is_refused() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for dtype, given in (("boolean", [True, None, False]), ("Int64", [1, None, 0]), ("category", [True, None, False])):
        with pytest.raises(InvalidArgumentError, match="in record 2|is not one of the classes"):
            y = pandas.Series(given, dtype=dtype)
            PrivateClassifier(classes=(False, True), random_state=1).fit([0.1, 0.2, 0.3], y)
    assert PrivateClassifier(random_state=1).fit([0.1, 0.2], pandas.Series([1, 0], dtype="Int64")).guarantee_
    with pytest.raises(InvalidArgumentError, match="has a missing value in record 2"):
        PrivateDivergence({"a": 0.5, "<NA>": 0.5}, random_state=1).fit(pandas.Series(["a", None], dtype="string"))


@pytest.mark.parametrize("empty", [{}, pa.table({})])
def test_a_frame_without_columns_is_refused(empty: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="has no columns"):
        PrivateClassifier(random_state=1).fit(empty, [0, 1])
    with pytest.raises(InvalidArgumentError, match="has no column 'age'"):
        PrivateQueries({"age": (0, 1)}, random_state=1).fit(empty)
    with pytest.raises(InvalidArgumentError, match="not one value for each record"):
        PrivateClassifier(random_state=1).fit([0.1, 0.2], empty)


def test_unknown_labels_have_no_mass() -> None:
    made = PrivateLabelDistribution(CANDIDATES, random_state=1).fit(LABELS)
    first, last = np.log(made.law_[[0, 2]])
    given = [0.0, 0.5, 1.7, -0.5, 2.0, 3.0, math.nan, math.inf, -math.inf, 2.0**70]
    assert made.score_samples(given) == pytest.approx([first, *[-np.inf] * 3, last, *[-np.inf] * 5])
    mixed = objects(0, np.bool_(False), np.int8(2), 2**70, 0.5, *NOTHING)
    assert made.score_samples(mixed) == pytest.approx([first, first, last, *[-np.inf] * 6])
    assert made.score_samples([True, False]) == pytest.approx(np.log(made.law_[[1, 0]]))
    for texts in (
        ["a"],
        ["0"],
        objects(0, "0"),
        [b"0"],
        objects(0, [1]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        [0j],
    ):
        with pytest.raises(InvalidArgumentError, match="does not hold numbers") as caught:
            made.score_samples(texts)
        assert caught.value.argument == "X"


@pytest.mark.parametrize("nothing", [*NOTHING, ""], ids=lambda each: type(each).__name__)
def test_a_symbol_or_a_client_that_is_missing_is_refused(nothing: Any) -> None:
    """It is none of the symbols, whatever their names are."""
    reference = {"a": 0.2, "None": 0.2, "nan": 0.2, "NaT": 0.2, "<NA>": 0.2}
    for given in (["a", nothing, "a"], objects("a", nothing, "a"), objects(1, nothing, 2)):
        with pytest.raises(InvalidArgumentError, match="has a missing value in record 2") as caught:
            PrivateDivergence(reference, random_state=1).fit(given)
        assert caught.value.argument == "X"
        with pytest.raises(InvalidArgumentError, match="has a missing value in record 2") as caught:
            PrivateDivergence(reference, random_state=1).fit(["a"] * 3, groups=given)
        assert caught.value.argument == "groups"
    with pytest.raises(InvalidArgumentError, match="has a missing value in record 2") as caught:
        PrivateDivergence({"a": 0.5, nothing: 0.5}).fit(["a"])
    assert caught.value.argument == "reference"
    assert PrivateDivergence(reference, random_state=1).fit(["a", "None", "nan"] * 20).guarantee_


def test_errors_of_the_divergence_are_in_its_own_terms() -> None:
    made = PrivateDivergence({"a": 0.5, "b": 0.5}, random_state=1)
    with pytest.raises(InvalidArgumentError, match="a symbol in record 2 that is not in the reference") as caught:
        made.fit(["a", SECRET])
    assert caught.value.argument == "X" and "--" not in str(caught.value) and SECRET not in str(caught.value)
    for groups in ([1, 2], list(range(5))):
        with pytest.raises(InvalidArgumentError, match=f"has {len(groups)} entries for 3 records") as caught:
            made.fit(["a", "b", "a"], groups=groups)
        assert caught.value.argument == "groups"
    for reference in ({"a": -1.0, "b": 1.0}, {"a": "x", "b": 1.0}, {"a": 1.0}, {}, None, {1.5: 0.5, "a": 0.5},
                      {"symbol": ["a", "a"], "count": [1, 2]}, {"a": math.nan, "b": 1.0}):  # fmt: skip
        with pytest.raises(InvalidArgumentError) as caught:
            PrivateDivergence(reference, random_state=1).fit(["a", "b"])
        assert caught.value.argument == "reference" and "--" not in str(caught.value)
    whole = PrivateDivergence({1: 0.5, 2: 0.5}, random_state=1)
    assert whole.fit([1, 2] * 50).divergence_ == whole.fit(objects(*["1", 2] * 50)).divergence_


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        (PrivateClassifier(method="best"), "method"),
        (PrivateClassifier(concepts="circles"), "concepts"),
        (PrivateClassifier(concepts="rectangles", low=[0, 0, 0], high=[1, 1, 1]), "low"),
        (PrivateClassifier(concepts=Halfspaces(3)), "concepts"),
        (PrivateClassifier(low=1.0, high=1.0), "high"),
        (PrivateClassifier(high=math.nan), "high"),
        (PrivateClassifier(points=1), "points"),
        (PrivateClassifier(method="net", size=0, points=3), "size"),
        (PrivateClassifier(epsilon=-1.0), "epsilon"),
        (PrivateClassifier(classes=(0, 0)), "classes"),
        (PrivateClassifier(classes=(0, 1, 2)), "classes"),
        (PrivateQueries({"age": (0, 1, 2)}), "columns"),
        (PrivateQueries({"age": (1, 0)}), "high"),
        (PrivateQueries({"age": (0, 1)}, queries="all"), "queries"),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, model="none"), "model"),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, epsilon=0.0), "epsilon"),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, samples=0), "samples"),
        (PrivateLabelDistribution(CANDIDATES, channel="none"), "channel"),
        (PrivateLabelDistribution([[0.5, 0.5]]), "tables"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(estimator: Any, named: str) -> None:
    data = (SYMBOLS,) if isinstance(estimator, PrivateDivergence) else (X1, Y1.astype(int))
    if isinstance(estimator, PrivateLabelDistribution):
        data = (LABELS,)
    with pytest.raises(InvalidArgumentError) as caught:
        estimator.set_params(random_state=1).fit(*data)
    assert caught.value.argument == named and not hasattr(estimator, "guarantee_")


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (PrivateClassifier(random_state=1), ([[SECRET]], [0])),
        (PrivateClassifier(random_state=1), ([[math.nan]], [0])),
        (PrivateClassifier(random_state=1), ([[0.25], [1.0, 2.0]], [0, 1])),
        (PrivateClassifier(random_state=1), ([[0.25]], [SECRET])),
        (PrivateClassifier(random_state=1), ([[0.25]], [0, 1])),
        (PrivateClassifier(random_state=1), ([], [])),
        (PrivateClassifier(random_state=1), ([[0.25]], [[0, 1]])),
        (PrivateQueries({"age": (0, 1)}, random_state=1), ([[SECRET]],)),
        (PrivateQueries({"age": (0, 1)}, random_state=1), (pa.table({"age": [SECRET]}),)),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, random_state=1), ([SECRET, "a"],)),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, random_state=1), ([1.5, 0.25],)),
        (PrivateDivergence({"a": 0.5, "b": 0.5}, random_state=1), ([["a", SECRET]],)),
        (PrivateLabelDistribution(CANDIDATES, random_state=1), ([[0, 1]],)),
        (PrivateLabelDistribution(CANDIDATES, random_state=1), ([],)),
    ],
)
def test_records_are_never_shown(estimator: Any, data: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        estimator.fit(*data)
    for shown in (str(caught.value), repr(caught.value)):
        assert SECRET not in shown and "0.25" not in shown
    assert not hasattr(estimator, "guarantee_")
