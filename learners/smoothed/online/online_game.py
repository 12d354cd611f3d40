"""The game of online learning: the order of the moves, and the information of the adversary.

In round t the learner draws h_t. Then the adversary chooses a law D_t, nature draws x_t from it, and the adversary
labels x_t. An adaptive adversary knows all earlier rounds and the learner's probabilities, but not the draw h_t; the
regret bounds rest on that. It observes the game through a :class:`View`, which does not show h_t. A non-adaptive
adversary fixes everything in advance, and its view shows nothing.

R independent runs are played at once, with runs on the leading axis.
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
    """Raised if an adversary reads this round's draw, or, if it is not adaptive, anything of the game.

    Example:
        >>> from hockeystick import HockeystickError
        >>> from hockeystick.learners.smoothed import CausalityError
        >>> issubclass(CausalityError, HockeystickError)
        True
    """


class OnlineLearner(Protocol):
    """The interface of a learner in R runs of a game."""

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Returns this round's predicates, as indices of experts, shape (R,), drawn anew in each round."""

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        """Returns the predictions (R,) of the experts ``played`` (R,) at one point per run (R, d)."""

    def policy(self, points: FloatArray) -> FloatArray:
        """Returns the probability (R,) of predicting True at one point per run (R, d); public."""

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        """Learns from one example per run."""


class View:
    """The information of an adversary when it chooses D_t.

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
        """The points of earlier rounds, shape (R, t, d)."""
        return _frozen(self._seen(self._points)[:, : self.round])

    @property
    def labels(self) -> BoolArray:
        """The labels of earlier rounds, shape (R, t)."""
        return _frozen(self._seen(self._labels)[:, : self.round])

    def played(self, t: int) -> IntArray:
        """Returns the learner's draws in an earlier round t, shape (R,).

        Raises:
            CausalityError: round t is not over.
        """
        if not 0 <= t < self.round:
            raise CausalityError(f"in round {self.round} the draw of round {t} is not public: read earlier rounds only")
        return _frozen(self._seen(self._played)[:, t])

    def policy(self, points: npt.ArrayLike) -> FloatArray:
        """Returns the learner's probability of predicting True now, at one point per run (R, d)."""
        return self._seen(self._learner).policy(np.asarray(points))

    def _seen(self, value: Value) -> Value:
        if self._blind:
            self._refuse()
        return value

    def _refuse(self) -> NoReturn:
        raise CausalityError("a non-adaptive adversary must not read the game: declare it adaptive")


def _frozen(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    shown = values.view()
    shown.flags.writeable = False
    return shown


class Play(ABC):
    """One adversary's moves in R runs of one game."""

    @abstractmethod
    def law(self, view: View) -> SmoothLaw:
        """Returns D_t, one law for all runs or one for each."""

    @abstractmethod
    def labels(self, view: View, points: FloatArray) -> BoolArray:
        """Returns the labels of this round's points (R, d), shape (R,)."""

    def observe(self, points: FloatArray, labels: BoolArray) -> None:  # noqa: B027
        """Observes a finished round; called for adaptive adversaries only."""


class SmoothAdversary(ABC):
    """An adversary that chooses σ-smooth laws, round after round.

    Example:
        >>> from hockeystick.learners.smoothed import BinarySearch, NearBoundary, UniformCube
        >>> line = UniformCube(1)
        >>> [(one.sigma, one.adaptive) for one in (BinarySearch(line, 0.1), NearBoundary(line, 0.1, 0.5))]
        [(0.1, True), (0.1, False)]
    """

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The smoothness of its laws; the game refuses a law that is less smooth."""

    @property
    def adaptive(self) -> bool:
        """Whether its laws and labels depend on the game."""
        return True

    @abstractmethod
    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        """Starts a game; ``rng`` is the generator of the adversary and of nature, never the learner's."""


@frozen(eq=False)
class OnlineRuns:
    """The record of R runs of T rounds.

    Attributes:
        points: The points, shape (R, T, d).
        labels: The labels, shape (R, T).
        played: The experts drawn, shape (R, T).
        losses: Whether they erred, shape (R, T).
        chances: The conditional probabilities of these errors given everything before the draw, shape (R, T).

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothedOnline
        >>> from hockeystick.learners.smoothed import Blocks, Thresholds, UniformCube
        >>> learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.25, rounds=100)
        >>> secret, nature = np.random.default_rng(0), np.random.default_rng(1)
        >>> runs = learner.simulate(Blocks(UniformCube(1), 0.25), 20, secret=secret, nature=nature)
        >>> bool(3.0 < runs.mean_regrets(Thresholds()).mean() < learner.regret_bound())
        True
    """

    points: FloatArray
    labels: BoolArray
    played: IntArray
    losses: BoolArray
    chances: FloatArray

    def least_errors(self, concepts: ConceptClass) -> IntArray:
        """Returns the least number of errors of any predicate of the whole class in hindsight, for each run."""
        return least_errors(concepts, self.points, self.labels)

    def regrets(self, concepts: ConceptClass) -> FloatArray:
        """Returns the errors minus the least number of errors of any predicate of the *whole* class, for each run."""
        return np.asarray(self.losses.sum(axis=1) - self.least_errors(concepts), dtype=np.float64)

    def mean_regrets(self, concepts: ConceptClass) -> FloatArray:
        """Returns the regrets with the probabilities of errors in place of errors: the same mean, less variance."""
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
        learner: The learner, in its first round, with R runs.
        adversary: The adversary.
        rounds: T >= 1.
        runs: R >= 1.
        dimension: The dimension d of the points.
        secret: The generator of the learner.
        nature: The generator of the adversary and of nature.

    Raises:
        CausalityError: the adversary reads this round's draw, or anything if it is not adaptive.
        InvalidArgumentError: a law that is less smooth than stated, labels that are not bools, or the same generator
            twice.
    """
    if not isinstance(adversary, SmoothAdversary):
        raise InvalidArgumentError("adversary", adversary, "is not a SmoothAdversary")
    rounds, runs = arguments.rounds(rounds), run_count(runs)
    if generator(secret) is generator(nature):
        raise InvalidArgumentError("nature", nature, "is the learner's generator", "give the adversary another one")
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
            raise InvalidArgumentError("law", law.smoothness, reason, "make the adversary state a smaller sigma")
        spots = law.sample(nature, runs)
        spots.flags.writeable = False  # the adversary must not move it
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
