"""The game of online learning: who moves when, and what an adversary may read.

In round t the learner draws h_t. Then the adversary names a law D_t, nature draws x_t from it, and the adversary labels
x_t. An adaptive adversary knows all earlier rounds and the learner's probabilities, but not the draw h_t: the regret
bounds rest on that. So it sees the game through a :class:`View`, which refuses to show h_t. An adversary that is not
adaptive fixes everything beforehand, and its view shows nothing.

All of this is for R independent runs at once, runs on the leading axis.
"""

from abc import ABC, abstractmethod
from typing import NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.measures.smooth_data import ROUNDING, SmoothLaw
from hockeystick.learners.smoothed.online.hindsight import least_errors
from hockeystick.mechanisms.contract.arguments import generator, run_count

Value = TypeVar("Value")
Scalar = TypeVar("Scalar", bound=np.generic)


class CausalityError(HockeystickError):
    """An adversary asked for what it must not know: this round's draw, or anything at all if it is not adaptive."""


class OnlineLearner(Protocol):
    """A learner in R runs, as the game drives it."""

    def draw(self, rng: np.random.Generator) -> IntArray:
        """This round's predicates, as numbers of the learner's experts, shape (R,); drawn anew in each round."""

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        """What the experts ``played`` (R,) say at one point per run (R, d): shape (R,)."""

    def policy(self, points: FloatArray) -> FloatArray:
        """The probability of predicting True at one point per run (R, d): shape (R,); public."""

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        """Takes in one example per run."""


class View:
    """What an adversary may read before it names D_t.

    Attributes:
        round: t, from 0.
    """

    def __init__(
        self, t: int, points: FloatArray, labels: BoolArray, played: IntArray, learner: OnlineLearner, *, blind: bool
    ) -> None:
        self.round = t
        self._points, self._labels, self._played, self._learner = points, labels, played, learner
        self._blind = blind

    @property
    def points(self) -> FloatArray:
        """Points of earlier rounds, shape (R, t, d)."""
        return _frozen(self._seen(self._points)[:, : self.round])

    @property
    def labels(self) -> BoolArray:
        """Labels of earlier rounds, shape (R, t)."""
        return _frozen(self._seen(self._labels)[:, : self.round])

    def played(self, t: int) -> IntArray:
        """The learner's draws of an earlier round t, shape (R,).

        Raises:
            CausalityError: round t is not over.
        """
        if not 0 <= t < self.round:
            raise CausalityError(f"round {self.round} asks for the draw of round {t}, which is not over")
        return _frozen(self._seen(self._played)[:, t])

    def policy(self, points: npt.ArrayLike) -> FloatArray:
        """The learner's probability of predicting True now, at one point per run (R, d)."""
        return self._seen(self._learner).policy(np.asarray(points))

    def _seen(self, value: Value) -> Value:
        if self._blind:
            self._refuse()
        return value

    def _refuse(self) -> NoReturn:
        raise CausalityError("an adversary that is not adaptive reads the game; declare it adaptive")


def _frozen(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    shown = values.view()
    shown.flags.writeable = False
    return shown


class Play(ABC):
    """One adversary's moves in R runs of one game."""

    @abstractmethod
    def law(self, view: View) -> SmoothLaw:
        """D_t, one law for all runs or one for each."""

    @abstractmethod
    def labels(self, view: View, points: FloatArray) -> BoolArray:
        """The labels of this round's points (R, d), shape (R,)."""

    def observe(self, points: FloatArray, labels: BoolArray) -> None:  # noqa: B027
        """Takes note of a round that is over; adaptive adversaries only."""


class SmoothAdversary(ABC):
    """Who names sigma-smooth laws, round after round."""

    @property
    @abstractmethod
    def sigma(self) -> float:
        """What it promises; the game refuses a law that is less smooth."""

    @property
    def adaptive(self) -> bool:
        """Whether its laws and labels depend on the game."""
        return True

    @abstractmethod
    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        """A new game; ``rng`` is the adversary's and nature's, never the learner's."""


@frozen(eq=False)
class OnlineRuns:
    """R runs of T rounds.

    Attributes:
        points: Shape (R, T, d).
        labels: Shape (R, T).
        played: The experts drawn, shape (R, T).
        losses: Whether they erred, shape (R, T).
        chances: The probability with which the learner was to err, given all that came before, shape (R, T).
    """

    points: FloatArray
    labels: BoolArray
    played: IntArray
    losses: BoolArray
    chances: FloatArray

    def least_errors(self, concepts: ConceptClass) -> IntArray:
        """The fewest errors of any predicate of the whole class in hindsight, one number per run."""
        return least_errors(concepts, self.points, self.labels)

    def regrets(self, concepts: ConceptClass) -> FloatArray:
        """Errors made less the fewest of any predicate of the *whole* class in hindsight, one number per run."""
        return np.asarray(self.losses.sum(axis=1) - self.least_errors(concepts), dtype=np.float64)

    def mean_regrets(self, concepts: ConceptClass) -> FloatArray:
        """The same with the chances of errors in place of errors: equal on average, and less scattered."""
        return np.asarray(self.chances.sum(axis=1) - self.least_errors(concepts))


def play(
    learner: OnlineLearner,
    adversary: SmoothAdversary,
    rounds: int,
    runs: int,
    *,
    dimension: int,
    secret: np.random.Generator,
    nature: np.random.Generator,
) -> OnlineRuns:
    """Plays a game of ``rounds`` rounds, ``runs`` times.

    Args:
        learner: In its first round, for so many runs.
        adversary: Whose laws must be as smooth as it says.
        rounds: T >= 1.
        runs: R >= 1.
        dimension: d of the points.
        secret: The learner's coins.
        nature: The adversary's and nature's.

    Raises:
        CausalityError: the adversary asks for this round's draw; or for anything, if it is not adaptive.
        InvalidArgumentError: a law that is less smooth than promised, labels that are no bools, or both generators are
            the same one.
    """
    rounds, runs = arguments.rounds(rounds), run_count(runs)
    if generator(secret) is generator(nature):
        raise InvalidArgumentError("nature", nature, "is the learner's generator", "give the adversary its own")
    points, chances = np.empty((runs, rounds, dimension)), np.empty((runs, rounds))
    labels, losses = np.empty((2, runs, rounds), dtype=np.bool_)
    played = np.empty((runs, rounds), dtype=np.int64)
    moves = adversary.begin(rounds, runs, nature)
    for t in range(rounds):
        drawn = learner.draw(secret)
        view = View(t, points, labels, played, learner, blind=not adversary.adaptive)
        law = moves.law(view)
        if law.smoothness < adversary.sigma * (1.0 - ROUNDING):
            reason = f"is less smooth than the adversary's sigma = {adversary.sigma:g}"
            raise InvalidArgumentError("law", law.smoothness, reason, "let it state a smaller sigma")
        spots = law.sample(nature, runs)
        spots.flags.writeable = False  # nobody moves a point that is drawn
        marks = np.asarray(moves.labels(view, spots))
        if marks.dtype != np.bool_ or marks.shape != (runs,):
            raise InvalidDataError("labels", marks, "are not one bool for each run")
        points[:, t], labels[:, t], played[:, t] = spots, marks, drawn
        likely = learner.policy(spots)
        chances[:, t] = np.where(marks, 1.0 - likely, likely)
        losses[:, t] = learner.predictions(drawn, spots) != marks
        learner.update(spots, marks)
        if adversary.adaptive:
            moves.observe(spots, marks)
    return OnlineRuns(points, labels, played, losses, chances)
