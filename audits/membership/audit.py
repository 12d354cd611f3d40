"""Membership inference as an audit: was this record in the training data? A bound, not an estimate.

Two data sets differ in one record, the *canary*; a model is trained many times on either, and each trained model is
reduced to a score of the canary. That game is a target like any other: what the models show of the canary is
post-processing of the training, so an audit of the scores is an audit of the training algorithm, with the guarantee of
:func:`hockeystick.audits.audit`. Nothing is assumed of the scores; a bad one costs power alone.

A record that looks like no other shows most: :func:`mislabelled_canary`, :func:`outlying_canary`. What attacks find
on ordinary records, and with few trainings, is described by :mod:`hockeystick.audits.membership.attack_rates`, which
bounds nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import array, integer, items, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.membership.scores import Comparison, Reading, ShadowScores, example_scores, fit_reference
from hockeystick.audits.neighbours.pairs import NeighbourPair, checked_pair
from hockeystick.audits.neighbours.search import child_seed, require_outputs
from hockeystick.audits.targets.calling import Stream, Target, known_seed
from hockeystick.audits.verdicts.verdict import Verdict

Score = Callable[[Any], Any]
Train = Callable[["Examples", np.random.Generator], Any]

_SHADOWS, _AUDIT = 0, 1  # what seeds are derived for


def _features(value: object) -> npt.NDArray[Any]:
    found = array("features", value)
    if found.ndim < 1:
        raise InvalidArgumentError("features", value, "is one number", "give an array with the examples in front")
    return found


def _labels(value: object) -> npt.NDArray[Any] | None:
    if value is None:
        return None
    found = np.asarray(value)
    if found.ndim != 1 or found.dtype.kind not in "biufUS":
        raise InvalidArgumentError("labels", value, "is no vector of numbers or strings", "give one label per example")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidArgumentError("labels", value, "holds a value that is not finite")
    return found


@frozen(eq=False)
class Examples:
    """A training set: features with the examples on the leading axis, and a label for each, or none.

    Raises:
      InvalidArgumentError: features that are not finite numbers, labels of another length or type.
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
          InvalidArgumentError: the others have another shape, or one has labels and the other has not.
        """
        if self.features.shape[1:] != other.features.shape[1:] or (self.labels is None) != (other.labels is None):
            raise InvalidArgumentError("other", other, "are examples of another kind", "give the same features")
        features = np.concatenate([self.features, other.features])
        if self.labels is None or other.labels is None:
            return Examples(features)
        return Examples(features, np.concatenate([self.labels, other.labels]))


def mislabelled_canary(examples: Examples, index: int) -> Examples:
    """Returns an example with another label: the next one of those there are.

    Raises:
      InvalidArgumentError: no such example, no labels, or one label only.
    """
    index = integer("index", index, low=0, high=len(examples) - 1)
    kinds = np.unique(examples.labels) if examples.labels is not None else np.empty(0)
    if examples.labels is None or len(kinds) < 2:
        raise InvalidArgumentError("examples", examples, "have no second label", "give examples of several classes")
    found = examples.take([index])
    other = kinds[(int(np.searchsorted(kinds, examples.labels[index])) + 1) % len(kinds)]
    return attrs.evolve(found, labels=np.array([other], dtype=examples.labels.dtype))


def outlying_canary(examples: Examples, rng: np.random.Generator, *, distance: float = 10.0) -> Examples:
    """Returns an example far from all others: each feature ``distance`` standard deviations off its mean, either way.

    Its label is drawn from those there are. A training algorithm that clips or normalises records may not let it be
    far; then its clipped form is what is tested.

    Raises:
      InvalidArgumentError: no examples, or a distance that is not positive.
    """
    distance = real("distance", distance, low=0.0, low_open=True)
    if not len(examples):
        raise InvalidArgumentError("examples", examples, "are none", "give at least one")
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
      adjacency: add-or-remove-one appends the canary; replace-one puts it in the place of ``replaced``.
      replaced: the position of the (first of the) records that the canary replaces, under replace-one.
      group: how many records may differ; by default as many as the canary holds.

    Raises:
      InvalidArgumentError: another relation, no canary, or a position that is missing, superfluous or out of range.
      NotNeighboursError: the canary holds more than ``group`` records.
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
    """``train(examples, rng)`` for any estimator with ``fit``: fits a copy, seeded where it takes a ``random_state``.

    An estimator that draws its randomness from elsewhere is trained as it is: its runs are then not repeatable.
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
    """Returns ``train(examples, rng)``, from such a callable or from an estimator.

    Raises:
      InvalidArgumentError: neither.
    """
    if callable(getattr(train, "fit", None)):
        return EstimatorTraining(train)
    if callable(train):
        return train
    raise InvalidArgumentError("train", train, "can't train", "give train(examples, rng), or an estimator with fit")


@frozen(eq=False)
class CanaryScore:
    """``score(model)``: the sum of a model's scores of the records of a canary."""

    canary: Examples
    reading: Reading = "loss"

    def __call__(self, model: Any) -> float:
        return float(example_scores(model, self.canary, self.reading).sum())


@frozen(eq=False)
class MembershipTarget:
    """The game as a target of an audit: ``target(data, rng)`` trains a model on the data and scores it.

    Attributes:
      train: ``train(data, rng)`` returns a model; or an estimator with ``fit``.
      score: ``score(model)`` returns a number, or an array of several, in which an audit looks for the best test.
    """

    train: Any = field(converter=training)
    score: Score

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        return self.score(self.train(data, rng))


@frozen(eq=False)
class SimulatedMembership:
    """The same for a learner that simulates many runs at once.

    Attributes:
      learner: an object with ``simulate(data, rng, runs)``.
      score: ``score(outputs)`` of a batch returns one number, or one array, per run on the leading axis; what it knows
        of the record in question is its own.
    """

    learner: Any
    score: Score

    def __attrs_post_init__(self) -> None:
        if not callable(getattr(self.learner, "simulate", None)):
            raise InvalidArgumentError("learner", self.learner, "has no method simulate", "use MembershipTarget")

    def simulate(self, data: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns the scores of ``runs`` runs."""
        return self.score(self.learner.simulate(data, rng, runs))


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
    **options: Any,
) -> Verdict:
    """Audits a training algorithm by membership inference: trains ``samples`` models on each of two data sets.

    Args:
      train: ``train(data, rng)`` returns a model; or an estimator with ``fit``.
      canary: what is scored: the records that the data sets differ in, say.
      neighbours: the two data sets, as :func:`membership_pair` makes them.
      claim: what is to be refuted, for the relation and group of ``neighbours``.
      samples: trainings on each data set, for all purposes of the audit; shadows are extra.
      attack: "loss" or "logit" score the canary under each model; "lira", "lira-offline" and "difference" compare the
        logit with that under shadow models; a callable ``score(model)`` does what it likes.
      shadows: further trainings on each data set for those that compare; the audit never sees them.
      rng: a seed, or a generator that gives one; by default a fresh seed.
      options: further arguments of :func:`hockeystick.audits.audit`: confidence, progress, ...

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was trained.
      TargetError: training or scoring raised.
    """
    if not isinstance(neighbours, NeighbourPair):
        raise InvalidArgumentError("neighbours", neighbours, "is no NeighbourPair", "make one with membership_pair")
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
        trained = [
            np.array(_drawn(Target.of(target), data, child_seed(seed, _SHADOWS), side, count))
            for side, data in enumerate(neighbours)
        ]
        members = np.repeat([[True], [False]], count, axis=0)
        reference = fit_reference(ShadowScores(np.concatenate(trained)[:, None], members), attack)
        target = MembershipTarget(train, lambda model: float(reference(np.array([score(model)]))[0]))
    return audit(
        target,
        claim=claim,
        neighbours=(neighbours.d0, neighbours.d1),
        samples=samples,
        rng=child_seed(seed, _AUDIT),
        **options,
    )


def _drawn(target: Target, data: Any, seed: int, side: int, count: int) -> list[Any]:
    stream = Stream(target, data, seed, 1 if side else 0, 0)
    outputs = items("scores", stream.draw(count))
    require_outputs(stream)
    return list(outputs)
