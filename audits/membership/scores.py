"""Membership scores: larger for a model that seems to be trained on an example.

Scores from one model are minus its loss on the example (Yeom, Giacomelli, Fredrikson and Jha 2018), or the logit of its
probability of the label (Carlini, Chien, Nasr, Song, Terzis and Tramer 2022), which is closer to normal.
:func:`example_scores` computes both from any model with ``predict_proba``, ``decision_function``, ``score_samples`` or
``predict``.

Shadow models, trained with and without the example, show the law of its score in both cases. :class:`ShadowScores` has
their scores, and :func:`fit_reference` makes one of these comparisons:

* "lira": the log-likelihood ratio of two normal laws, in and out (Carlini et al. 2022, Algorithm 1);
* "lira-offline": the score in standard deviations above the scores of models trained without the example (the offline
  form of the same), which needs no model trained on the example;
* "difference": the score minus the mean of those scores (Watson, Guo, Cormode and Sablayrolles 2022).

Normality of the scores is an assumption that affects the power of an attack, never the validity of a bound.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.validate import array

Reading = Literal["loss", "logit"]
Comparison = Literal["lira", "lira-offline", "difference"]

_EDGE = 1e-12  # least probability, to which smaller ones are clipped
_FEW = 16  # models with (or without) an example, below which all examples share one variance
_METHODS = ("predict_proba", "decision_function", "score_samples", "predict")


class Labelled(Protocol):
    """Features of shape (examples, ...), with a label each or without labels."""

    @property
    def features(self) -> npt.NDArray[Any]: ...

    @property
    def labels(self) -> npt.NDArray[Any] | None: ...


def example_scores(model: Any, examples: Labelled, reading: Reading = "loss") -> FloatArray:
    """Returns a score for each example, shape (examples,): finite, larger for an example that the model fits well.

    The score comes from the first of these methods that the model has:

    * ``predict_proba``: log p or log(p/(1 - p)), where p is the probability of the label;
    * ``decision_function``: minus the logistic loss or the margin m of the label;
    * ``score_samples``: its value;
    * ``predict``: minus the squared error for labels that are floats, else 1 if the prediction is right and 0 if not.

    Without labels, the score comes from ``score_samples`` or else ``decision_function``.

    Args:
      model: a trained model.
      examples: features, and labels if there are any.
      reading: "loss" or "logit", the first or the second of the two values above.

    Raises:
      InvalidArgumentError: the model has none of these methods, or one returns values of another shape or not finite.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Examples, example_scores
      >>> class Model:
      ...     def predict_proba(self, features):
      ...         return np.array([[0.9, 0.1], [0.5, 0.5]])
      >>> example_scores(Model(), Examples([[1.0], [2.0]], labels=[0, 1]), "logit").round(2)
      array([2.2, 0. ])
    """
    if reading not in ("loss", "logit"):
        raise InvalidArgumentError("reading", reading, "is unknown", "use 'loss' or 'logit'")
    labels, count = examples.labels, len(examples.features)
    methods = ("score_samples", "decision_function") if labels is None else _METHODS
    for name in methods:
        if callable(getattr(model, name, None)):
            given = np.asarray(getattr(model, name)(examples.features))
            if labels is None or name == "score_samples":
                scores = given
            elif name == "predict_proba":
                scores = _of_probability(_at_label(model, name, given, labels), reading)
            elif name == "decision_function":
                margin = _margin(model, given, labels)
                scores = margin if reading == "logit" else -np.logaddexp(0.0, -margin)
            elif labels.dtype.kind == "f":
                scores = -np.square(labels - given)
            else:
                scores = (labels == given).astype(float)
            return array(f"model.{name}", scores, shape=(count,)).astype(float)
    raise InvalidArgumentError("model", model, f"has none of {', '.join(methods)}", "give a score function instead")


def _of_probability(p: FloatArray, reading: Reading) -> FloatArray:
    p = np.clip(p, _EDGE, 1.0)
    if reading == "loss":
        return np.asarray(np.log(p))
    return np.asarray(np.log(p) - np.log(np.maximum(1.0 - p, _EDGE)))


def _columns(model: Any, name: str, width: int, labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Returns the column of each label, -1 for a label that the model does not have."""
    classes = np.asarray(getattr(model, "classes_", np.arange(width)))
    if classes.shape != (width,):
        raise InvalidArgumentError(f"model.{name}", classes, f"has {width} columns for {classes.shape} classes")
    order = np.argsort(classes)
    at = np.minimum(np.searchsorted(classes, labels, sorter=order), width - 1)
    found = order[at]
    return np.where(classes[found] == labels, found, -1)


def _at_label(model: Any, name: str, given: FloatArray, labels: npt.NDArray[Any]) -> FloatArray:
    if given.ndim != 2 or len(given) != len(labels):
        raise InvalidArgumentError(f"model.{name}", given, "is not of shape (examples, classes)")
    column = _columns(model, name, given.shape[1], labels)
    return np.asarray(np.where(column >= 0, given[np.arange(len(labels)), column], 0.0))


def _margin(model: Any, given: FloatArray, labels: npt.NDArray[Any]) -> FloatArray:
    """Returns the label's value minus the largest of the other values."""
    if given.ndim == 1:
        given = np.stack([-given / 2, given / 2], axis=1)
    own = _at_label(model, "decision_function", given, labels)
    column = _columns(model, "decision_function", given.shape[1], labels)
    others = np.where(np.arange(given.shape[1]) == column[:, None], -np.inf, given)
    return np.asarray(np.where(column >= 0, own - others.max(axis=1), -others.max(axis=1)))


def _scores(value: object) -> FloatArray:
    return array("scores", value, ndim=2).astype(float)


def _members(value: object) -> BoolArray:
    return np.asarray(value)


@frozen(eq=False)
class ShadowScores:
    """Scores of the same examples under many shadow models.

    See :func:`fit_reference` for an example.

    Attributes:
      scores: shape (models, examples).
      members: whether each model was trained on each example, same shape.

    Raises:
      InvalidArgumentError: the shapes differ, a score is not finite, or ``members`` is not boolean.
    """

    scores: FloatArray = field(converter=_scores)
    members: BoolArray = field(converter=_members)

    def __attrs_post_init__(self) -> None:
        if self.members.dtype.kind != "b" or self.members.shape != self.scores.shape:
            reason = f"is not a boolean array of shape {self.scores.shape}"
            raise InvalidArgumentError("members", self.members, reason, "give a bool per model and example")


@frozen(eq=False)
class Reference:
    """The comparison of scores, shape (..., examples), with those of shadow models. It is called with the scores.

    Attributes:
      comparison: the kind of comparison; see the module's docstring.
      mean_in, spread_in: moments of scores under models trained on the example, shape (examples,); None if not needed.
      mean_out, spread_out: moments of scores under models trained without the example.
    """

    comparison: Comparison
    mean_out: FloatArray
    spread_out: FloatArray
    mean_in: FloatArray | None = None
    spread_in: FloatArray | None = None

    def __call__(self, scores: npt.ArrayLike) -> FloatArray:
        given = np.asarray(scores, dtype=float)
        if self.comparison == "difference":
            return np.asarray(given - self.mean_out)
        out = (given - self.mean_out) / self.spread_out
        if self.mean_in is None or self.spread_in is None:
            return np.asarray(out)
        inside = (given - self.mean_in) / self.spread_in
        return np.asarray((np.square(out) - np.square(inside)) / 2 + np.log(self.spread_out / self.spread_in))


def fit_reference(shadows: ShadowScores, comparison: Comparison = "lira") -> Reference:
    """Returns the comparison of scores with those of shadow models.

    Examples share one variance if fewer than 16 models were trained with them, or without.

    Args:
      shadows: scores under the shadow models.
      comparison: "lira", "lira-offline" or "difference"; see the module's docstring.

    Raises:
      InvalidArgumentError: the comparison is unknown, or an example has fewer than two models that were trained with
        it (for "lira") or without it.

    Example:
      >>> from hockeystick.audits import ShadowScores, fit_reference
      >>> shadows = ShadowScores([[1.0], [3.0], [0.0], [2.0]], [[True], [True], [False], [False]])
      >>> fit_reference(shadows, "difference")([2.5])  # minus the mean of 0 and 2
      array([1.5])
    """
    if comparison not in ("lira", "lira-offline", "difference"):
        raise InvalidArgumentError("comparison", comparison, "is unknown", "use 'lira', 'lira-offline' or 'difference'")
    mean_out, spread_out = _moments(shadows.scores, ~shadows.members, "without")
    if comparison != "lira":
        return Reference(comparison, mean_out, spread_out)
    mean_in, spread_in = _moments(shadows.scores, shadows.members, "with")
    return Reference(comparison, mean_out, spread_out, mean_in, spread_in)


def _moments(scores: FloatArray, used: BoolArray, kind: str) -> tuple[FloatArray, FloatArray]:
    count = used.sum(axis=0)
    if count.size and count.min() < 2:
        reason = f"is too small a number of models trained {kind} an example"
        raise InvalidArgumentError("shadows", int(count.min()), reason, "train at least two")
    mean = np.where(used, scores, 0.0).sum(axis=0) / count
    squares = np.where(used, np.square(scores - mean), 0.0).sum(axis=0)
    pooled = squares.sum() / (count - 1).sum()
    variance = squares / (count - 1) if count.min() >= _FEW else np.full_like(mean, pooled)
    # Kept away from 0 in case all scores of an example are equal; this affects a score, not a bound.
    floor = 1e-4 * pooled + 1e-12 * (1 + float(np.abs(scores).max())) ** 2
    return mean, np.sqrt(np.maximum(variance, floor))
