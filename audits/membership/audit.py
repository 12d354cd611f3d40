"""Audits of training algorithms by membership inference: "was this record in the training data?".

Two data sets differ in one record, the *canary*. A model is trained many times on each data set, and each trained model
is reduced to a score of the canary. The score is post-processing of the training, so an audit of the scores is an audit
of the training algorithm, with the guarantee of :func:`hockeystick.audits.audit`: a bound, not an estimate. Nothing is
assumed about the scores; a bad score only costs power.

Unusual records show most: see :func:`mislabelled_canary` and :func:`outlying_canary`. For descriptive statistics of
attacks on ordinary records with few trainings, which bound nothing, see
:mod:`hockeystick.audits.membership.attack_rates`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import array, integer, items, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.own_process import limited
from hockeystick.audits.drawing.unchanged_data import Unchanged
from hockeystick.audits.drawing.warnings_once import once
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.membership.scores import Comparison, Reading, ShadowScores, example_scores, fit_reference
from hockeystick.audits.neighbours.pairs import NeighbourPair, checked_pair
from hockeystick.audits.neighbours.search import require_outputs
from hockeystick.audits.targets.calling import Stream, Target, child_seed, known_seed
from hockeystick.audits.verdicts.verdict import Verdict

Score = Callable[[Any], Any]
Train = Callable[["Examples", np.random.Generator], Any]

_SHADOWS, _AUDIT = 0, 1  # purposes of the derived seeds


def _features(value: object) -> npt.NDArray[Any]:
    found = array("features", value)
    if found.ndim < 1:
        raise InvalidArgumentError("features", value, "is one number", "give an array, examples on the first axis")
    return found


def _labels(value: object) -> npt.NDArray[Any] | None:
    if value is None:
        return None
    found = np.asarray(value)
    if found.ndim != 1 or found.dtype.kind not in "biufUS":
        raise InvalidArgumentError(
            "labels", value, "is not a vector of numbers or strings", "give one label per example"
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidArgumentError("labels", value, "holds a value that is not finite")
    return found


@frozen(eq=False)
class Examples:
    """A training set.

    Attributes:
      features: finite numbers, with the examples on the leading axis.
      labels: a number or string for each example; None for no labels.

    Raises:
      InvalidArgumentError: features are not finite numbers, or labels have another length or type.

    Example:
      >>> from hockeystick.audits import Examples
      >>> examples = Examples([[0.0, 1.0], [2.0, 3.0]], labels=["a", "b"])
      >>> len(examples), examples.take([1]).labels.tolist()
      (2, ['b'])
    """

    features: npt.NDArray[Any] = field(converter=_features)
    labels: npt.NDArray[Any] | None = field(default=None, converter=_labels)

    def __attrs_post_init__(self) -> None:
        if self.labels is not None and len(self.labels) != len(self.features):
            raise InvalidArgumentError(
                "labels", self.labels, f"holds {len(self.labels)} labels for {len(self.features)} examples"
            )

    def __len__(self) -> int:
        return len(self.features)

    def records(self) -> list[Any]:
        """Returns one record per example, as ``neighbours.pairs.check_neighbours`` compares them."""
        if self.labels is None:
            return list(self.features)
        return list(zip(self.features, self.labels, strict=True))

    def take(self, index: Any) -> Examples:
        """Returns the examples at ``index``: positions, a slice or a boolean mask."""
        return Examples(self.features[index], None if self.labels is None else self.labels[index])

    def joined(self, other: Examples) -> Examples:
        """Returns these examples followed by others.

        Raises:
          InvalidArgumentError: the features have different shapes, or only one of the two has labels.
        """
        if self.features.shape[1:] != other.features.shape[1:] or (self.labels is None) != (other.labels is None):
            raise InvalidArgumentError("other", other, "has other features or labels", "give the same shape")
        features = np.concatenate([self.features, other.features])
        if self.labels is None or other.labels is None:
            return Examples(features)
        return Examples(features, np.concatenate([self.labels, other.labels]))


def mislabelled_canary(examples: Examples, index: int) -> Examples:
    """Returns one of the examples with another label: the next one in sorted order.

    Raises:
      InvalidArgumentError: there is no such example, or there are not at least two labels.

    Example:
      >>> from hockeystick.audits import Examples, mislabelled_canary
      >>> examples = Examples([[0.0], [1.0], [2.0]], labels=["a", "a", "b"])
      >>> mislabelled_canary(examples, 0).labels.tolist()
      ['b']
    """
    index = integer("index", index, low=0, high=len(examples) - 1)
    kinds = np.unique(examples.labels) if examples.labels is not None else np.empty(0)
    if examples.labels is None or len(kinds) < 2:
        raise InvalidArgumentError("examples", examples, "has no second label", "give examples of several classes")
    found = examples.take([index])
    other = kinds[(int(np.searchsorted(kinds, examples.labels[index])) + 1) % len(kinds)]
    return attrs.evolve(found, labels=np.array([other], dtype=examples.labels.dtype))


def outlying_canary(examples: Examples, rng: np.random.Generator, *, distance: float = 10.0) -> Examples:
    """Returns an example far from all others: each feature is ``distance`` standard deviations from its mean.

    The signs are random, and the label is drawn from the existing labels. If a training algorithm clips or normalises
    records, the audit tests the clipped canary.

    Raises:
      InvalidArgumentError: there are no examples, or ``distance`` is not positive.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Examples, outlying_canary
      >>> outlying_canary(Examples([[0.0], [2.0]]), np.random.default_rng(1)).features  # 1 plus or minus 10
      array([[11.]])
    """
    distance = real("distance", distance, low=0.0, low_open=True)
    if not len(examples):
        raise InvalidArgumentError("examples", examples, "is empty", "give at least one example")
    spread = examples.features.std(axis=0)
    signs = np.where(rng.random(spread.shape) < 0.5, -1.0, 1.0)
    features = examples.features.mean(axis=0) + distance * np.where(spread > 0, spread, 1.0) * signs
    labels = None if examples.labels is None else rng.choice(np.unique(examples.labels), 1)
    return Examples(features[None], labels)


def membership_pair(
    examples: Examples,
    canary: Examples,
    *,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    replaced: int | None = None,
    group: int | None = None,
) -> NeighbourPair:
    """Returns the training sets with the canary (d0) and without it (d1), checked to be neighbours.

    Args:
      examples: the training set without the canary.
      canary: one record, or a group of them.
      adjacency: under add-or-remove-one the canary is appended; under replace-one it replaces a record.
      replaced: the position of the (first) record that the canary replaces, under replace-one.
      group: the number of records that may differ; default: the number of records in the canary.

    Raises:
      InvalidArgumentError: the relation is another one, the canary is empty, or ``replaced`` is missing, superfluous or
        out of range.
      NotNeighboursError: the canary has more than ``group`` records.

    Example:
      >>> from hockeystick.audits import Examples, membership_pair
      >>> pair = membership_pair(Examples([[0.0], [1.0]]), Examples([[9.0]]))
      >>> pair.d0.features.ravel().tolist(), pair.d1.features.ravel().tolist()
      ([0.0, 1.0, 9.0], [0.0, 1.0])
    """
    if not len(canary):
        raise InvalidArgumentError("canary", canary, "is empty", "give at least one record")
    size = len(canary) if group is None else group
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        if replaced is not None:
            raise InvalidArgumentError("replaced", replaced, "is for replace-one", "leave it out")
        return checked_pair(examples.joined(canary), examples, "with and without", adjacency=adjacency, group=size)
    if adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidArgumentError("adjacency", adjacency, "has no canaries", "use add-or-remove-one or replace-one")
    at = integer("replaced", replaced, low=0, high=len(examples) - len(canary))
    rest = examples.take(slice(at + len(canary), None))
    inside = examples.take(slice(at)).joined(canary).joined(rest)
    return checked_pair(inside, examples, "canary in place of another", adjacency=adjacency, group=size)


@frozen(eq=False)
class EstimatorTraining:
    """A training function ``train(examples, rng)`` made of an estimator with ``fit``.

    It fits a copy of the estimator, and seeds it if it has a parameter ``random_state``. The runs of an estimator with
    another source of randomness are not repeatable.

    Raises:
      InvalidArgumentError: the estimator has no method ``fit``, or is a class.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import EstimatorTraining, Examples
      >>> class Mean:
      ...     def fit(self, features):
      ...         self.mean = features.mean(axis=0)
      >>> EstimatorTraining(Mean())(Examples([[0.0], [2.0]]), np.random.default_rng(1)).mean
      array([1.])
    """

    estimator: Any

    def __attrs_post_init__(self) -> None:
        if not callable(getattr(self.estimator, "fit", None)) or isinstance(self.estimator, type):
            raise InvalidArgumentError("estimator", self.estimator, "has no method fit", "give an instance that has")

    def __call__(self, examples: Examples, rng: np.random.Generator) -> Any:
        model = copy.deepcopy(self.estimator)
        seeded = callable(getattr(model, "get_params", None)) and "random_state" in model.get_params(deep=False)
        if seeded:
            model.set_params(random_state=int(rng.integers(1 << 31)))
        if examples.labels is None:
            model.fit(examples.features)
        else:
            model.fit(examples.features, examples.labels)
        return model


def training(train: object) -> Train:
    """Returns a training function: ``train`` itself, or an :class:`EstimatorTraining` of an estimator.

    Raises:
      InvalidArgumentError: ``train`` is neither callable nor an estimator.
    """
    if callable(getattr(train, "fit", None)):
        return EstimatorTraining(train)
    if callable(train):
        return train
    remedy = "give train(examples, rng), or an estimator with fit"
    raise InvalidArgumentError("train", train, "is neither callable nor an estimator", remedy)


@frozen(eq=False)
class CanaryScore:
    """A score ``score(model)``: the sum of a model's scores of the records of a canary.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import CanaryScore, Examples
      >>> class Model:
      ...     def score_samples(self, features):
      ...         return -np.abs(features).sum(axis=1)
      >>> CanaryScore(Examples([[1.0], [2.0]]))(Model())
      -3.0
    """

    canary: Examples
    reading: Reading = "loss"

    def __call__(self, model: Any) -> float:
        return float(example_scores(model, self.canary, self.reading).sum())


@frozen(eq=False)
class MembershipTarget:
    """A target of an audit that trains a model on the data and scores it: ``target(data, rng)``.

    Attributes:
      train: ``train(data, rng)`` returns a model; or an estimator with ``fit``.
      score: ``score(model)`` returns a number, or an array of several, in which the audit searches for the best test.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import MembershipTarget
      >>> def train(data, rng):
      ...     return np.mean(data) + rng.laplace()
      >>> target = MembershipTarget(train, score=lambda model: model > 1)
      >>> bool(target([5.0, 7.0], np.random.default_rng(1)))
      True
    """

    train: Any = field(converter=training)
    score: Score

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        return self.score(self.train(data, rng))


@frozen(eq=False)
class SimulatedMembership:
    """A target of an audit that scores a learner's simulated runs, many at once.

    Attributes:
      learner: an object with ``simulate(data, rng, runs)``.
      score: ``score(outputs)`` of a batch returns one number, or one array, per run on the leading axis. It may use
        the canary.

    Raises:
      InvalidArgumentError: the learner has no method ``simulate``.

    Example:
      >>> import numpy as np
      >>> import hockeystick as hs
      >>> target = hs.audits.SimulatedMembership(hs.mechanisms.Laplace(scale=1.0), score=np.abs)
      >>> target.simulate(0.0, np.random.default_rng(1), runs=3).shape
      (3,)
    """

    learner: Any
    score: Score

    def __attrs_post_init__(self) -> None:
        if not callable(getattr(self.learner, "simulate", None)):
            raise InvalidArgumentError("learner", self.learner, "has no method simulate", "use MembershipTarget")

    def simulate(self, data: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns the scores of ``runs`` runs."""
        return self.score(self.learner.simulate(data, rng, runs))


@once()
@guessing
def audit_membership(
    train: object,
    canary: Examples,
    neighbours: NeighbourPair,
    claim: Claim,
    *,
    samples: int,
    attack: Literal["loss", "logit"] | Comparison | Score = "loss",
    shadows: int = 64,
    rng: int | np.random.Generator | None = None,
    timeout: float | None = None,
    **options: Any,
) -> Verdict:
    """Audits a training algorithm by membership inference: trains ``samples`` models on each of two data sets.

    Args:
      train: ``train(data, rng)`` returns a model; or an estimator with ``fit``.
      canary: the records to score, usually those in which the data sets differ.
      neighbours: the two data sets, from :func:`membership_pair`.
      claim: the claim to refute, for the neighbouring relation and the group of ``neighbours``.
      samples: number of trainings on each data set, for all purposes of the audit; shadows are extra.
      attack: "loss" or "logit" scores the canary under each model; "lira", "lira-offline" and "difference" compare the
        logit with that under shadow models; or a callable ``score(model)``.
      shadows: number of shadow models for each data set, for attacks that compare; the audit does not use them.
      rng: a seed, or a generator that draws one; default: a fresh seed.
      timeout: seconds that one training with its score may take, of shadows too; see :func:`hockeystick.audits.audit`.
        The training function, the score and the data must be such that they can be pickled. Default: no limit.
      options: further arguments of :func:`hockeystick.audits.audit`, such as ``confidence`` and ``progress``.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was trained.
      TargetError: training or scoring raised, took longer than ``timeout``, or would have ended the program.
      MissingExtraError: ``timeout`` without cloudpickle.

    Example:
      >>> import hockeystick as hs
      >>> from hockeystick.audits import Examples, audit_membership, membership_pair
      >>> canary = Examples([[1.0]])
      >>> pair = membership_pair(Examples([[0.0], [0.0]]), canary)
      >>> def noisy_sum(examples, rng):  # epsilon = 2 for features in [0, 1]
      ...     return examples.features.sum() + rng.laplace(scale=0.5)
      >>> verdict = audit_membership(noisy_sum, canary, pair, hs.Claim(0.5), samples=2000, attack=float, rng=1)
      >>> verdict.outcome
      'refuted'
    """
    if not isinstance(neighbours, NeighbourPair):
        raise InvalidArgumentError("neighbours", neighbours, "is not a NeighbourPair", "make one with membership_pair")
    if callable(attack):
        score: Score = attack
    elif attack in ("loss", "logit"):
        score = CanaryScore(canary, attack)
    elif attack in ("lira", "lira-offline", "difference"):
        score = CanaryScore(canary, "logit")
    else:
        raise InvalidArgumentError("attack", attack, "is unknown", "use 'loss', 'logit', 'lira', 'lira-offline', ...")
    target = MembershipTarget(train, score)
    seed = known_seed(rng)
    if attack in ("lira", "lira-offline", "difference"):
        count = integer("shadows", shadows, low=2)
        unchanged = Unchanged((neighbours.d0, neighbours.d1))
        shadow = limited(Target.of(target), timeout)
        trained = [
            np.array(_drawn(shadow, data, child_seed(seed, _SHADOWS), side, count))
            for side, data in enumerate(neighbours)
        ]
        unchanged.check()
        members = np.repeat([[True], [False]], count, axis=0)
        reference = fit_reference(ShadowScores(np.concatenate(trained)[:, None], members), attack)
        target = MembershipTarget(train, lambda model: float(reference(np.array([score(model)]))[0]))
    return audit(
        target,
        claim=claim,
        neighbours=(neighbours.d0, neighbours.d1),
        samples=samples,
        rng=child_seed(seed, _AUDIT),
        timeout=timeout,
        **options,
    )


def _drawn(target: Target, data: Any, seed: int, side: int, count: int) -> list[Any]:
    stream = Stream(target, data, seed, 1 if side else 0, 0)
    outputs = items("scores", stream.draw(count))
    require_outputs(stream)
    return list(outputs)
