"""Learners as scikit-learn estimators: ``fit`` on arrays or data frames, in pipelines, cloned, with ``get_params``.

| estimator                  | ``fit`` releases                             | neighbours differ in                |
|----------------------------|----------------------------------------------|-------------------------------------|
| `PrivateClassifier`        | a predicate of small error                   | one labelled record (replace-one)   |
| `PrivateQueries`           | answers to all queries of a class            | one record (replace-one)            |
| `PrivateDivergence`        | the KL divergence from a public reference    | a record, or a client's (replace)   |
| `PrivateLabelDistribution` | the distribution of a label, from messages   | one person's label (local)          |

After ``fit`` the attribute ``guarantee_`` is its certified privacy. ``hockeystick.estimators.base`` describes
``random_state`` and public information. Needs the extra ``sklearn``; data frames need ``tables``.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick._files.data_frames import as_frame, is_frame
from hockeystick._files.symbol_tables import Reference, read_records, read_reference
from hockeystick._runs.kl import Question, Randomness, estimate_content, estimator_of
from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, items, real
from hockeystick.estimators.base import PrivateEstimator, column, first_absent, is_absent, sklearn_base
from hockeystick.estimators.classifier import PrivateClassifier
from hockeystick.learners.distribution.channels.all_channels import OneBit, RandomizedLabels, SampledDiscreteLaplace
from hockeystick.learners.distribution.channels.candidates import LabelTable, draw
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.queries.query_release import QueryRelease

__all__ = ["PrivateClassifier", "PrivateDivergence", "PrivateLabelDistribution", "PrivateQueries"]

_CHANNELS: dict[str, Any] = {
    "one-bit": OneBit,
    "discrete-laplace": SampledDiscreteLaplace,
    "randomized-labels": RandomizedLabels,
}


# --- query release ---------------------------------------------------------------------------------------------------


class PrivateQueries(sklearn_base.DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """Private answers to all thresholds, intervals or rectangles of a table's columns, and synthetic records.

    Neighbouring data sets differ in one record (replace-one). See ``QueryRelease`` for the parameters.

    Args:
        columns: The public bounds: {name: (low, high)} in the order of the features, or a list of ``PublicColumn``. The
            columns of a data frame are selected by these names.
        queries: "thresholds", "intervals" or "rectangles".
        sigma: The smoothness of the records' distribution, which only the error bound needs.
        epsilon, delta: The target.
        options: Further arguments of ``QueryRelease.calibrated``, such as ``{"rounds": 20}``.
        random_state: None for a release; a seed or a generator for a simulation.

    Attributes:
        plan_: The ``QueryRelease``.
        released_: The ``ReleasedQueries``.
        error_bound_: The bound on the error of every answer, on σ-smooth records; None without one.
        guarantee_, simulated_, n_features_in_, feature_names_in_: See ``estimators.base``.

    Example:
        >>> import numpy as np
        >>> ages = np.random.default_rng(0).uniform(0, 100, (20_000, 1))
        >>> model = PrivateQueries({"age": (0, 100)}, options={"rounds": 5}, random_state=1).fit(ages)
        >>> bool(abs(model.predict([[50.0]])[0] - 0.5) < 0.1), model.guarantee_.epsilon(0.0).upper <= 1.0
        (True, True)
    """

    def __init__(
        self,
        columns: Any,
        *,
        queries: str = "thresholds",
        sigma: float = 0.5,
        epsilon: float = 1.0,
        delta: float = 0.0,
        options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.columns = columns
        self.queries = queries
        self.sigma = sigma
        self.epsilon = epsilon
        self.delta = delta
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PrivateQueries:
        """Releases a distribution from records (n, d); n is public. ``y`` is ignored.

        Raises:
            InvalidArgumentError: A parameter is outside its domain, or the records are invalid.
        """
        noise, _ = self._randomness()
        known = _public_columns(self.columns)
        rows = self._rows(_picked(X, [one.name for one in known]), reset=True)
        options: dict[str, Any] = dict(self.options or {})
        self.plan_ = QueryRelease.calibrated(
            known,
            queries=self.queries,  # type: ignore[arg-type]  # checked there
            records=len(rows),
            sigma=self.sigma,
            epsilon=self.epsilon,
            delta=self.delta,
            **options,
        )
        self.released_ = self.plan_.release(rows, noise=noise)
        bound = self.released_.bound
        self.error_bound_ = None if bound is None else bound.error
        self.guarantee_, self.simulated_ = self.plan_.guarantee(), noise.simulated
        return self

    def predict(self, X: Any) -> FloatArray:
        """Returns the answers to queries with these ends, shape (M, p): see ``ReleasedQueries.answer``."""
        self._check_fitted()
        return self.released_.answer(X)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Returns synthetic records, shape (n_samples, d), at no further cost."""
        self._check_fitted()
        return self.released_.synthetic(n_samples, np.random.default_rng(random_state))


def _public_columns(value: Any) -> list[PublicColumn]:
    if not isinstance(value, Mapping):
        found: list[PublicColumn] = list(items("columns", value))
        return found
    ends = {name: items("columns", pair) for name, pair in value.items()}
    if any(len(pair) != 2 for pair in ends.values()):
        raise InvalidArgumentError("columns", value, "has bounds that are not a pair", "give {name: (low, high)}")
    return [PublicColumn(name=name, low=low, high=high) for name, (low, high) in ends.items()]


def _picked(X: Any, names: list[str]) -> Any:
    """Returns the named columns of a data frame, and arrays unchanged."""
    if not is_frame(X):
        return X
    frame = as_frame("X", X)
    if missing := sorted(set(names) - set(frame.columns)):
        raise InvalidArgumentError("X", frame, f"has no column {missing[0]!r}", "name columns of the data frame")
    return frame.table.select(names)


# --- divergence ------------------------------------------------------------------------------------------------------


class PrivateDivergence(PrivateEstimator):
    """A private estimate of KL(reference || records), for records of symbols and a public reference.

    Neighbouring data sets differ in one record's symbol or, with ``group``, in all symbols of a client (replace-one).
    See ``learners.divergence`` and ``hockeystick kl``.

    Args:
        reference: The public reference: {symbol: probability}, or a table with a column "symbol", as in
            ``hockeystick kl``.
        model: The party that is trusted with the counts: "trusted" (the server), "aggregated" or "dist" (none).
        epsilon, delta: The target.
        multiplier: λ ≥ 0, see ``TrustedKL``.
        samples: The largest number of symbols to query: all of them, or this number of draws from the reference.
        group: None to protect single records; a number to protect clients with at most this many records.
        random_state: None for a release; a seed for a simulation.

    Attributes:
        divergence_: The estimate, in nats.
        noise_deviation_: The standard deviation of its noise (for "dist" to first order).
        content_: The published values and the guarantee, as in ``hockeystick kl --json``.
        guarantee_, simulated_: See ``estimators.base``.

    Example:
        >>> model = PrivateDivergence({"a": 0.5, "b": 0.5}, random_state=1).fit(["a"] * 500 + ["b"] * 1500)
        >>> bool(abs(model.divergence_ - 0.144) < 0.05), model.guarantee_.epsilon(1e-6).upper <= 1.0
        (True, True)
    """

    def __init__(
        self,
        reference: Any,
        *,
        model: str = "trusted",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        multiplier: float = 1.0,
        samples: int = 1000,
        group: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.reference = reference
        self.model = model
        self.epsilon = epsilon
        self.delta = delta
        self.multiplier = multiplier
        self.samples = samples
        self.group = group
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> PrivateDivergence:
        """Estimates the divergence of records' symbols (n,), or (n, 1). ``y`` is ignored.

        Args:
            X: The symbol of each record: texts or whole numbers.
            y: Not used.
            groups: The client of each record, shape (n,); by default each record has its own client. The clients'
                numbers of records are public.

        Raises:
            InvalidArgumentError: A parameter is outside its domain, or a symbol is not in the reference.
        """
        if self.model not in ("trusted", "aggregated", "dist"):
            raise InvalidArgumentError("model", self.model, "is unknown", 'use "trusted", "aggregated" or "dist"')
        seed = None if self.random_state is None else integer("random_state", self.random_state, low=0)
        symbols = column("X", X)
        clients = np.arange(len(symbols)) if groups is None else column("groups", groups)
        if len(clients) != len(symbols):
            reason = f"has {len(clients)} entries for {len(symbols)} records"
            remedy = "give the client of each record"
            raise InvalidDataError("groups", groups, reason, remedy)
        table = {"symbol": _texts("X", symbols), "client": _texts("groups", clients)}
        randomness, reference = Randomness.of(seed), _reference(self.reference)
        known = frozenset(reference.symbols)
        for i, symbol in enumerate(table["symbol"], 1):
            if symbol not in known:
                reason = f"has a symbol in record {i} that is not in the reference"
                remedy = "replace all such symbols by one symbol of the reference"
                raise InvalidDataError("X", X, reason, remedy)
        records = read_records(as_frame("X", table), reference, column="symbol", client_column="client")
        if self.group is not None:
            records = records.capped(integer("group", self.group, low=1), randomness.coins)
        question = Question(
            model=self.model,  # type: ignore[arg-type]  # checked above
            epsilon=real("epsilon", self.epsilon, low=0.0, low_open=True),
            delta=real("delta", self.delta, low=0.0, high=1.0),
            samples=integer("samples", self.samples, low=1),
            multiplier=self.multiplier,
            logarithm=Smoothed(1.0),
            group=self.group,
        )
        counts = records.counts()
        estimator = estimator_of(reference, counts.records(), question, randomness.coins)
        self.content_ = estimate_content(estimator, counts, question, randomness, reference)
        self.divergence_ = float(self.content_["estimate"])
        self.noise_deviation_ = float(self.content_["noise_deviation"])
        self.guarantee_ = estimator.graph().guarantee(view="server" if self.model == "dist" else None)
        self.simulated_ = seed is not None
        self.n_features_in_ = 1
        return self


def _texts(name: str, values: npt.NDArray[Any]) -> list[str]:
    each = values.tolist()
    if values.dtype.kind not in "biuUTO" or any(isinstance(value, float) and value == value for value in each):
        reason = "does not hold texts or whole numbers"
        raise InvalidDataError(name, values, reason, "convert fractions such as 1.0")
    empty = (i for i, value in enumerate(each) if isinstance(value, str) and not value)
    nothing = next(empty, first_absent(values))
    if nothing is not None:
        reason = f"has a missing value in record {nothing + 1}"
        raise InvalidDataError(name, values, reason, "leave such records out")
    return [str(value) for value in each]


def _reference(value: Any) -> Reference:
    if isinstance(value, Reference):
        return value
    if isinstance(value, Mapping) and "symbol" not in value:
        names = _texts("reference", np.array(list(value), dtype=object))
        value = {"symbol": names, "probability": [real("reference", mass) for mass in value.values()]}
    try:
        return read_reference(value, column="symbol")
    except InvalidArgumentError as error:  # its argument is the option of the command line
        raise InvalidArgumentError("reference", error.value, error.reason, error.remedy) from None


# --- distributions of labels -----------------------------------------------------------------------------------------


class PrivateLabelDistribution(sklearn_base.DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """The distribution of a private label, as a mixture of public candidates, from one local message per label.

    Neighbouring data sets differ in one person's label (local privacy). It is ``OnlineDistribution`` with one context:
    each label passes through an ε-DP channel, and the weights are those after the last message. The risk bound is for
    the mean over the rounds.

    Args:
        candidates: K public distributions of labels 0 .. M - 1, shape (K, M).
        epsilon: The ε of each person's message (local), at δ = 0.
        channel: "one-bit", "discrete-laplace" or "randomized-labels".
        random_state: None for a release; a seed or a generator for a simulation.

    Attributes:
        weights_: The weights of the candidates, shape (K,).
        law_: The published distribution of a label, shape (M,).
        learner_: The ``OnlineDistribution``.
        guarantee_, simulated_: See ``estimators.base``.

    Example:
        >>> labels = [0] * 800 + [1] * 200
        >>> model = PrivateLabelDistribution([[0.8, 0.2], [0.2, 0.8]], epsilon=2.0, random_state=1).fit(labels)
        >>> model.law_.round(2).tolist(), model.guarantee_.epsilon(0.0).upper
        ([0.8, 0.2], 2.0)
    """

    def __init__(
        self, candidates: Any, *, epsilon: float = 1.0, channel: str = "one-bit", random_state: Any = None
    ) -> None:
        self.candidates = candidates
        self.epsilon = epsilon
        self.channel = channel
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PrivateLabelDistribution:
        """Learns from private labels (n,), or (n, 1), one for each person; n ≥ 2 is public. ``y`` is ignored.

        Raises:
            InvalidArgumentError: A parameter is outside its domain, or there are fewer than two labels. No label is
                refused.
        """
        if self.channel not in _CHANNELS:
            raise InvalidArgumentError("channel", self.channel, "is unknown", f"use one of {', '.join(_CHANNELS)}")
        noise, _ = self._randomness()
        labels = column("X", X)
        hypotheses, channel = LabelTable(self.candidates), _CHANNELS[self.channel]
        learner = OnlineDistribution.build(hypotheses, rounds=len(labels), channel=channel, epsilon=self.epsilon)
        sent = learner.channels[0].privatise_all(labels, noise=noise)
        index, losses = learner.losses(sent)
        if index is None:
            totals = np.asarray(losses).sum(axis=0)
        else:
            totals = np.bincount(index.ravel(), weights=losses.ravel(), minlength=learner.experts)
        odds = np.exp(-learner.learning_rate * (totals - totals.min()))
        self.learner_, self.weights_ = learner, odds / odds.sum()
        self.law_ = np.asarray(self.weights_ @ learner.channels[0].levels.masses())
        self.guarantee_, self.simulated_ = learner.graph(rounds=len(labels)).guarantee(), noise.simulated
        self.n_features_in_ = 1
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Returns the logarithm of the published probability of each label, shape (n,); -inf for other numbers.

        Raises:
            InvalidArgumentError: The values are not numbers.
        """
        self._check_fitted()
        given = column("X", X)
        if given.dtype.kind == "O" and all(isinstance(each, (Real, np.bool_)) or is_absent(each) for each in given):
            given = np.array([-1.0 if is_absent(each) else float(each) for each in given])
        if given.dtype.kind not in "biuf":
            raise InvalidDataError("X", X, "does not hold numbers", "give labels 0, 1, ...")
        labels = given.astype(np.float64)
        known = (labels >= 0) & (labels < len(self.law_)) & (labels == np.floor(labels))
        with np.errstate(divide="ignore"):
            return np.where(known, np.log(self.law_[np.where(known, labels, 0).astype(np.int64)]), -np.inf)

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the sum of ``score_samples``. Private on private labels."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> npt.NDArray[np.int64]:
        """Returns labels drawn from the published distribution, shape (n_samples,), at no further cost."""
        self._check_fitted()
        return draw(self.law_, integer("n_samples", n_samples, low=0), np.random.default_rng(random_state))
