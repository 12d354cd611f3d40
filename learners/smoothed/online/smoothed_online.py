"""Online learning of infinite classes against smooth adversaries: Hedge on a set of representatives fixed in advance.

Thresholds, intervals and halfspaces cannot be learnt online in the worst case: an adversary that chooses single points
makes every learner err in every second round. If each of its laws is σ-smooth against a known base measure, Hedge on
finitely many representatives has vanishing regret against the best predicate of the *whole* class. The laws may adapt
to the game, except to the draw of their own round.

There are two sets of representatives: a σ/(4 sqrt(T))-cover ("paper", Algorithm 1), or a member of each bracket of mass
σ/sqrt(T) ("brackets", half as many for thresholds and easier to analyse).

The learner is not designed to be private, but :meth:`SmoothedOnline.graph` bounds the privacy loss of its draws.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithm 1 and Theorems 3.1 and 3.3; "brackets" and the constants are
ours.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    BoundedRange,
    InvalidArgumentError,
    InvalidDataError,
    PrivacyEvent,
    Reach,
)
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.events.catalogue import PermuteAndFlip
from hockeystick.accounting.validate import as_array, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover, checked_class
from hockeystick.learners.smoothed.measures import regret_bounds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.learners.smoothed.online.hedge import DenseHedge, Rule, best_rate, rule_of
from hockeystick.learners.smoothed.online.online_game import OnlineLearner, OnlineRuns, SmoothAdversary, play
from hockeystick.learners.smoothed.online.threshold_tree import LARGEST_FACTOR, ThresholdForest, ThresholdTree
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count

Variant = Literal["paper", "brackets"]

_MOST_EXPERTS = 1 << 24


def _variant(value: object) -> Variant:
    return one_of("variant", value, "paper", "brackets")


def _gamma(value: object) -> float | None:
    return None if value is None else real("gamma", value, low=0.0, high=1.0, low_open=True)


def _rate(value: object) -> float | None:
    return None if value is None else real("learning_rate", value, low=0.0, low_open=True, high=LARGEST_FACTOR)


def _cover(value: object) -> Cover | None:
    if value is not None and not isinstance(value, Cover):
        raise InvalidArgumentError(
            "cover", value, "is not a Cover", "use what a class's cover() or oracle_cover returns"
        )
    return value


@frozen(kw_only=True)
class SmoothedOnline:
    """Hedge on representatives of an infinite class, for σ-smooth adversaries and T rounds.

    It is not designed to be private; :meth:`graph` bounds the privacy loss of its draws.

    Source: Haghtalab, Roughgarden & Shetty 2020, Algorithm 1 and Theorems 3.1 and 3.3.

    Args:
        concepts: The class.
        measure: The base measure, public.
        sigma: The smoothness in (0, 1] of every round's law; it matters for the regret alone.
        rounds: T >= 1.
        variant: "paper" (a γ-cover) or "brackets" (one member of each bracket of mass γ).
        gamma: γ in (0, 1]; default: σ/(4 sqrt(T)) for "paper", σ/sqrt(T) for "brackets".
        learning_rate: η > 0; default: Hedge's best, sqrt(8 ln K / T).
        rule: The rule by which experts are drawn, see ``hedge``.
        cover: For "paper": a cover of this class under the same measure object, for example from ``oracle_cover``; its
            own γ is then used.

    Raises:
        InvalidArgumentError: an argument outside its domain, or too many representatives to list.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothedOnline
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube
        >>> learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.5, rounds=400)
        >>> player, points = learner.player(np.random.default_rng(0)), np.random.default_rng(1).random(400).tolist()
        >>> errors = sum(player.predict() is None or player.update(x, x >= 0.3) for x in points)
        >>> learner.size, errors < learner.regret_bound() < 400
        (40, True)
    """

    concepts: ConceptClass = field(converter=checked_class)
    measure: BaseMeasure = field()
    sigma: float = field(converter=arguments.sigma)
    rounds: int = field(converter=arguments.rounds)
    variant: Variant = field(default="brackets", converter=_variant)
    gamma: float | None = field(default=None, converter=_gamma)
    learning_rate: float | None = field(default=None, converter=_rate)
    rule: Rule = field(default="hedge", converter=rule_of)
    cover: Cover | None = field(default=None, converter=_cover)
    experts: FloatArray = field(init=False, eq=False, repr=False)  # parameters of the representatives, shape (K, p)

    @measure.validator
    def _measure_fits(self, _: object, value: object) -> None:
        self.concepts.checked_measure(value)

    @cover.validator
    def _cover_fits(self, _: object, value: object) -> None:
        if self.cover is None:
            return
        if self.cover.concepts != self.concepts or self.cover.measure is not self.measure:
            raise InvalidArgumentError(
                "cover", value, "is not a cover of this class under this measure", "make it with the same objects"
            )
        if self.variant != "paper" or self.gamma is not None:
            raise InvalidArgumentError(
                "cover", value, "has a gamma of its own", 'leave gamma out, with variant="paper"'
            )

    @experts.default
    def _representatives(self) -> FloatArray:
        measure = self.concepts.checked_measure(self.measure)
        if self.cover is not None:
            found = self.cover.parameters
        elif self.variant == "paper":
            found = self.concepts.cover(self.scale, measure).parameters
        elif isinstance(self.concepts, Thresholds) and not measure.atoms:
            found = self.concepts.cover(self.scale / 2.0, measure).parameters  # the middle of each bracket
        else:
            found = self.concepts.brackets(self.scale, measure).members()
        if len(found) > _MOST_EXPERTS:
            raise InvalidArgumentError(
                "gamma", self.scale, f"needs {len(found)} experts, too many", "use a larger gamma"
            )
        found = np.sort(found, axis=0) if isinstance(self.concepts, Thresholds) else np.array(found)
        found.flags.writeable = False
        return found

    @property
    def scale(self) -> float:
        """γ of the cover or the brackets, or its default."""
        if self.cover is not None:
            return self.cover.gamma
        if self.gamma is not None:
            return self.gamma
        return self.sigma / math.sqrt(self.rounds) / (4.0 if self.variant == "paper" else 1.0)

    @property
    def size(self) -> int:
        """The number K of representatives."""
        return len(self.experts)

    @property
    def rate(self) -> float:
        """The learning rate η."""
        return best_rate(self.rounds, self.size) if self.learning_rate is None else self.learning_rate

    # --- privacy -----------------------------------------------------------------------------------------------------

    def event(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyEvent:
        """Returns the privacy event of one later draw, for the person of one example.

        An example moves every log-weight by at most η, in both directions if it is replaced, in one if it becomes null.
        So a draw has bounded range 2η, or η; under the rule "exponential" it is permute-and-flip of the same width.

        Args:
            adjacency: ``REPLACE_ONE`` for another example in that round, ``REPLACE_WITH_NULL`` for no example (a loss
                is added or removed; the other rounds stay in place).

        Raises:
            InvalidArgumentError: another relation.
        """
        if adjacency not in (Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise InvalidArgumentError(
                "adjacency", adjacency, "has no event here", "use REPLACE_ONE or REPLACE_WITH_NULL"
            )
        width = (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0) * self.rate
        return PermuteAndFlip(width) if self.rule == "exponential" else BoundedRange(width)

    def graph(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> AccountantGraph:
        """Returns the data-independent plan: one draw per round, which reads all earlier rounds' examples.

        So the first example is read by T - 1 draws. Against an adaptive adversary neighbouring data sets differ in one
        round's example, and all later rounds are the same functions of the published draws. The guarantee is that of
        the ideal law; draws are simulated in floats, and there is no release.
        """
        found = AccountantGraph(
            adjacency=adjacency,
            pinned=True,
            assumptions=(
                "each person is one round",
                "base measure, sigma, rounds and representatives are public",
                "later examples are functions of what is published",
            ),
        ).source("rounds", size=self.rounds)
        if self.rounds == 1:
            return found  # the only draw reads no example
        event = self.event(adjacency)
        return found.release("draws", event, reads=("rounds",), reach=Reach(1, None), cumulative=True).post(
            "predictions", reads=("draws",)
        )

    def zcdp_bound(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> float:
        """Returns T η^2 / 2, or T η^2 / 8 if an example becomes null: 4 ln K and ln K at the default η.

        An upper bound in closed form on the graph's own ρ, for the rules "hedge" and "gumbel".

        Raises:
            InvalidArgumentError: the rule "exponential", whose draws are not of bounded range.
        """
        width = self.event(adjacency)
        if not isinstance(width, BoundedRange):
            raise InvalidArgumentError("rule", self.rule, "has no such closed form", "use graph().guarantee()")
        return self.rounds * width.width**2 / 8.0

    def within(self, rho: float, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> "SmoothedOnline":
        """Returns this learner with the learning rate sqrt(2ρ / T) (null: sqrt(8ρ / T)), at which it is ρ-zCDP.

        Raises:
            InvalidArgumentError: ρ is not positive, or the rule is "exponential".
        """
        target = real("rho", rho, low=0.0, low_open=True)
        factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 8.0
        rate = math.sqrt(factor * target / self.rounds)
        found = evolve(self, learning_rate=rate)
        while found.zcdp_bound(adjacency) > target:  # only by rounding
            rate = 1.0 / math.nextafter(quotient_up(1.0, rate), math.inf)
            found = evolve(self, learning_rate=rate)
        return found

    # --- utility -----------------------------------------------------------------------------------------------------

    def regret_bound(self) -> float:
        """Returns a bound on the expected regret against adaptive σ-smooth adversaries, at the learning rate in use.

        O1 for a cover, O2 for brackets, see ``smoothed.measures.regret_bounds``. The failure probability of a cover
        adds T times itself. For a class without brackets use ``coupling_regret_bound``.
        """
        log_size = math.log(self.size)
        if self.variant == "paper":
            brackets = self.concepts.brackets(self.scale, self.measure)
            missed = regret_bounds.hits_bound(
                log_size + brackets.log_count, 2.0 * self.rounds * self.scale / self.sigma
            )
            missed += 0.0 if self.cover is None else self.rounds * self.cover.failure_probability
        else:
            missed = regret_bounds.hits_bound(log_size, self.rounds * self.scale / self.sigma)
        perturbed = self.rule == "exponential"
        hedge = regret_bounds.exponential_ftpl_bound if perturbed else regret_bounds.hedge_bound
        return hedge(rounds=self.rounds, log_size=log_size, learning_rate=self.rate) + missed

    # --- games -------------------------------------------------------------------------------------------------------

    def player(self, rng: np.random.Generator) -> "OnlinePlayer":
        """Returns a player of one run of T rounds, example by example."""
        return OnlinePlayer(self, rng)

    def doubling(self, rng: np.random.Generator) -> "OnlinePlayer":
        """Returns a player without a last round: a new learner for each of the epochs of 1, 2, 4, ... rounds.

        ``rounds`` is not used. A bound of order sqrt(T) is multiplied by ``regret_bounds.doubling_factor()``.
        """
        return OnlinePlayer(evolve(self, rounds=1), rng, endless=True)

    def learner(self, runs: int) -> OnlineLearner:
        """Returns this learner in R runs, for ``online_game.play``."""
        if isinstance(self.concepts, Thresholds) and self.rule == "hedge":
            return _ThresholdRuns(self.experts[:, 0], self.rate, run_count(runs))
        return _DenseRuns(self.concepts, self.experts, DenseHedge(self.size, self.rate, runs=runs, rule=self.rule))

    def simulate(
        self, adversary: SmoothAdversary, runs: int, *, secret: np.random.Generator, nature: np.random.Generator
    ) -> OnlineRuns:
        """Returns ``runs`` games of T rounds, with runs on the leading axis, vectorised over runs.

        Args:
            adversary: The adversary. If its σ is smaller than the learner's, the bounds do not hold.
            runs: R.
            secret: The generator of the learner.
            nature: The generator of the adversary and of nature, another one.
        """
        d, learner = self.concepts.dimension, self.learner(runs)
        return play(learner, adversary, self.rounds, runs, dimension=d, secret=secret, nature=nature)


class _DenseRuns:
    """The learner of any class, O(RK) per round."""

    def __init__(self, concepts: ConceptClass, experts: FloatArray, hedge: DenseHedge) -> None:
        self._concepts, self._experts, self._hedge = concepts, experts, hedge
        self._at: FloatArray | None = None
        self._held = np.empty((0, 0), dtype=np.bool_)

    def draw(self, rng: np.random.Generator) -> IntArray:
        return self._hedge.draw(rng)

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        return np.asarray(self._table(points)[np.arange(len(played)), played])

    def policy(self, points: FloatArray) -> FloatArray:
        return np.minimum(self._hedge.share(self._table(points)), 1.0)

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        self._hedge.update(self._table(points) != labels[:, None])

    def _table(self, points: FloatArray) -> BoolArray:
        if self._at is not points or points.flags.writeable:  # a round has several calls with the same points
            self._at, self._held = points, self._concepts.predict(self._experts, points).T
        return self._held


class _ThresholdRuns:
    """The learner of sorted thresholds, O(R log K) per round."""

    def __init__(self, cuts: FloatArray, rate: float, runs: int) -> None:
        self._cuts, self._rate, self._forest = cuts, rate, ThresholdForest(len(cuts), runs)

    def draw(self, rng: np.random.Generator) -> IntArray:
        return self._forest.draw(rng.random(self._forest.runs))

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        return points[:, 0] >= self._cuts[played]

    def policy(self, points: FloatArray) -> FloatArray:
        return 1.0 - self._forest.suffix(self._silent(points))

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        # The label True is a loss of the thresholds above x; False of those up to x, which is a gain of those above.
        self._forest.tilt(self._silent(points), np.where(labels, -self._rate, self._rate))

    def _silent(self, points: FloatArray) -> IntArray:
        """Returns the index of the first threshold that does not hold at x."""
        return np.searchsorted(self._cuts, points[:, 0], side="right")


class OnlinePlayer:
    """A player of one run, round by round: ``predict`` draws a predicate, ``update`` learns from the round's example.

    Calls must alternate: the regret bounds rest on that order. Each prediction is a fresh draw.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothedOnline
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube
        >>> learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.5, rounds=400)
        >>> player = learner.player(np.random.default_rng(0))
        >>> predicate = player.predict()  # (b,)
        >>> player.update(0.4, True) == bool(predicate[0] > 0.4), player.round
        (True, 1)
    """

    def __init__(self, learner: SmoothedOnline, rng: np.random.Generator, *, endless: bool = False) -> None:
        self._rng, self._endless = generator(rng), endless
        self.round, self.errors = 0, 0
        self._start(learner)

    def _start(self, learner: SmoothedOnline) -> None:
        if not isinstance(learner, SmoothedOnline):
            raise InvalidArgumentError("learner", learner, "is not a SmoothedOnline", "use its method player(rng)")
        self.learner = learner
        self._left, self._drawn, self._rate = learner.rounds, -1, learner.rate
        self._tree: ThresholdTree | None = None
        self._dense: DenseHedge | None = None
        self._cuts: FloatArray = learner.experts[:, 0]
        if isinstance(learner.concepts, Thresholds) and learner.rule == "hedge":
            self._tree = ThresholdTree(learner.size)
        else:
            self._dense = DenseHedge(learner.size, learner.rate, rule=learner.rule)

    def predict(self) -> FloatArray:
        """Returns the parameters (p,) of this round's predicate.

        Raises:
            InvalidArgumentError: it is drawn already, or all rounds are over.
        """
        if self._drawn >= 0:
            raise InvalidArgumentError("round", self.round, "has its prediction already", "call update first")
        if self._left == 0:
            if not self._endless:
                raise InvalidArgumentError("round", self.round, "is beyond the last round", "start a new player")
            self._start(evolve(self.learner, rounds=2 * self.learner.rounds))
        if self._tree is not None:
            self._drawn = self._tree.draw(self._rng.random())
        elif self._dense is not None:
            self._drawn = int(self._dense.draw(self._rng)[0])
        found: FloatArray = self.learner.experts[self._drawn]
        return found

    def update(self, x: npt.ArrayLike, label: bool | np.bool_) -> bool:
        """Learns from this round's example, a point (d,) or a number on the line; returns whether the prediction erred.

        Raises:
            InvalidArgumentError: there is no prediction in this round, x is not a point, or the label is not a bool.
        """
        if self._drawn < 0:
            raise InvalidArgumentError("round", self.round, "has no prediction yet", "call predict first")
        if not isinstance(label, bool | np.bool_):
            raise InvalidDataError("label", label, "is not a bool", "use True or False")
        erred = self._learn(x, bool(label))
        self.round, self._left, self._drawn = self.round + 1, self._left - 1, -1
        self.errors += erred
        return erred

    def _learn(self, x: npt.ArrayLike, label: bool) -> bool:
        if self._tree is not None:
            spot = x if type(x) is float and math.isfinite(x) else self._spot(x)
            silent = int(self._cuts.searchsorted(spot, side="right"))
            self._tree.tilt(silent, -self._rate if label else self._rate)
            return (self._drawn < silent) != label
        assert self._dense is not None  # there is either a tree or a table
        held = self.learner.concepts.predict(self.learner.experts, np.reshape(x, (1, -1)))[:, 0]
        self._dense.update(held != label)
        return bool(held[self._drawn] != label)

    def _spot(self, x: npt.ArrayLike) -> float:
        return (
            float(self.learner.concepts.checked_points(np.atleast_2d(x))[0, 0])
            if as_array("x", x, data=True).size == 1
            else real("x", x, data=True)
        )
