"""Online learning of infinite classes against smooth adversaries: Hedge on representatives fixed beforehand.

Thresholds, intervals, half-spaces cannot be learnt online in the worst case: an adversary that aims at single points
makes every learner err in every second round. If each of its laws is sigma-smooth against a known base measure, Hedge
on finitely many representatives has vanishing regret against the best predicate of the *whole* class, also if laws
adapt to the game, as long as they do not see the draw of their own round.

Two sets of representatives: a cover of mass sigma/(4 sqrt(T)) ("paper", Algorithm 1), or a member of each bracket of
mass sigma/sqrt(T) ("brackets", fewer by a factor of two for thresholds and easier to analyse).

The learner is not meant to be private. What its draws leak can be stated all the same: :meth:`SmoothedOnline.graph`.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithm 1 and Theorems 3.1 and 3.3; variant and constants are ours.
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
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover
from hockeystick.learners.smoothed.measures import regret_bounds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.learners.smoothed.measures.regret_bounds import sigma_of
from hockeystick.learners.smoothed.online.hedge import DenseHedge, Rule, best_rate, rule_of
from hockeystick.learners.smoothed.online.online_game import OnlineLearner, OnlineRuns, SmoothAdversary, play
from hockeystick.learners.smoothed.online.threshold_tree import LARGEST_FACTOR, ThresholdForest, ThresholdTree
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count

Variant = Literal["paper", "brackets"]

_MOST_EXPERTS = 1 << 24


def _concepts(value: object) -> ConceptClass:
    if not isinstance(value, ConceptClass):
        raise InvalidArgumentError("concepts", value, "is no class of predicates", "use one of learners.concept_class")
    return value


def _variant(value: object) -> Variant:
    return one_of("variant", value, "paper", "brackets")


def _gamma(value: object) -> float | None:
    return None if value is None else real("gamma", value, low=0.0, high=1.0, low_open=True)


def _rate(value: object) -> float | None:
    return None if value is None else real("learning_rate", value, low=0.0, low_open=True, high=LARGEST_FACTOR)


def _cover(value: object) -> Cover | None:
    if value is not None and not isinstance(value, Cover):
        raise InvalidArgumentError("cover", value, "is no cover", "use what a class's cover() or an oracle returns")
    return value


@frozen(kw_only=True)
class SmoothedOnline:
    """Hedge on representatives of an infinite class, for sigma-smooth adversaries and T rounds.

    It is not private: the draws of its experts leak, and :meth:`graph` says how much.

    Source: Haghtalab, Roughgarden & Shetty 2020, Algorithm 1 and Theorems 3.1 and 3.3.

    Args:
        concepts: The class.
        measure: The base measure, public.
        sigma: Smoothness in (0, 1] of every round's law; for the regret alone.
        rounds: T >= 1.
        variant: "paper" (a gamma-cover) or "brackets" (one member of each bracket of mass gamma).
        gamma: In (0, 1]; by default sigma/(4 sqrt(T)) for "paper", sigma/sqrt(T) for "brackets".
        learning_rate: eta > 0; by default Hedge's best, sqrt(8 ln K / T).
        rule: How experts are drawn, see ``hedge``.
        cover: For "paper": a cover of this class under this very measure that was made elsewhere, by an oracle say; its
            own gamma is then used.

    Raises:
        InvalidArgumentError: an argument outside its domain, or too many representatives to be listed.
    """

    concepts: ConceptClass = field(converter=_concepts)
    measure: BaseMeasure = field()
    sigma: float = field(converter=sigma_of)
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
            raise InvalidArgumentError("cover", value, "is no cover of this class under this measure")
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
            raise InvalidArgumentError("gamma", self.scale, f"takes {len(found)} experts", "take a larger gamma")
        found = np.sort(found, axis=0) if isinstance(self.concepts, Thresholds) else np.array(found)
        found.flags.writeable = False
        return found

    @property
    def scale(self) -> float:
        """The mass of the cover or of the brackets: gamma, or its default."""
        if self.cover is not None:
            return self.cover.gamma
        if self.gamma is not None:
            return self.gamma
        return self.sigma / math.sqrt(self.rounds) / (4.0 if self.variant == "paper" else 1.0)

    @property
    def size(self) -> int:
        """K: how many representatives are played."""
        return len(self.experts)

    @property
    def rate(self) -> float:
        """eta."""
        return best_rate(self.rounds, self.size) if self.learning_rate is None else self.learning_rate

    # --- privacy, as a by-product ------------------------------------------------------------------------------------

    def event(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyEvent:
        """What one later draw costs the person of one example.

        A loss moves every log-weight by at most eta, either way if it is replaced, one way if it becomes null: a draw
        of bounded range 2 eta, or eta; permute-and-flip of the same width under the rule "exponential".

        Args:
            adjacency: ``REPLACE_ONE`` for another example in that round, ``REPLACE_WITH_NULL`` for none (add or remove
                a loss; rounds keep their places).

        Raises:
            InvalidArgumentError: another relation.
        """
        if adjacency not in (Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise InvalidArgumentError("adjacency", adjacency, "is not meant here", "replace by another, or by null")
        width = (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0) * self.rate
        return PermuteAndFlip(width) if self.rule == "exponential" else BoundedRange(width)

    def graph(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> AccountantGraph:
        """The data-independent plan: one draw per round, which reads all earlier rounds' examples.

        So the first person pays for T - 1 draws. Against an adaptive adversary two worlds differ in one round's
        example, and all later rounds are the same functions of what is published. Draws are simulated with floats;
        this is the cost of the ideal law, and no release is offered.
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
            return found  # the one draw is made before any example is seen
        event = self.event(adjacency)
        return found.release("draws", event, reads=("rounds",), reach=Reach(1, None), cumulative=True).post(
            "predictions", reads=("draws",)
        )

    def zcdp_bound(self, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> float:
        """T eta^2 / 2, or T eta^2 / 8 if an example becomes null: at the default eta 4 ln K and ln K.

        A closed form above the graph's own rho, for the rules "hedge" and "gumbel".

        Raises:
            InvalidArgumentError: the rule "exponential", whose draws are not of bounded range.
        """
        width = self.event(adjacency)
        if not isinstance(width, BoundedRange):
            raise InvalidArgumentError("rule", self.rule, "has no such closed form", "ask the graph")
        return self.rounds * width.width**2 / 8.0

    def within(self, rho: float, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> "SmoothedOnline":
        """This learner at the learning rate sqrt(2 rho / T) (null: sqrt(8 rho / T)), at which it is rho-zCDP.

        Its regret bound is ln K / eta + eta T / 8 and what the representatives miss.

        Raises:
            InvalidArgumentError: rho is not positive, or the rule is "exponential".
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
        """Expected regret against every adaptive sigma-smooth adversary, from the numbers of experts and brackets.

        O1 for a cover, O2 for brackets, see ``smoothed.measures.regret_bounds``; at the learning rate in use. A cover
        that is one but for a small probability adds T times that. For a class without brackets there is the coupling
        bound.
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

    # --- runs --------------------------------------------------------------------------------------------------------

    def player(self, rng: np.random.Generator) -> "OnlinePlayer":
        """One run of T rounds, example by example."""
        return OnlinePlayer(self, rng)

    def doubling(self, rng: np.random.Generator) -> "OnlinePlayer":
        """One run without end: a fresh learner, with new representatives, for epochs of 1, 2, 4, ... rounds.

        ``rounds`` is not used. A bound that grows as sqrt(T) grows by ``smoothed_bounds.doubling_factor()``.
        """
        return OnlinePlayer(evolve(self, rounds=1), rng, endless=True)

    def learner(self, runs: int) -> OnlineLearner:
        """This learner in R runs, for ``online_game.play``."""
        if isinstance(self.concepts, Thresholds) and self.rule == "hedge":
            return _ThresholdRuns(self.experts[:, 0], self.rate, run_count(runs))
        return _DenseRuns(self.concepts, self.experts, DenseHedge(self.size, self.rate, runs=runs, rule=self.rule))

    def simulate(
        self, adversary: SmoothAdversary, runs: int, *, secret: np.random.Generator, nature: np.random.Generator
    ) -> OnlineRuns:
        """``runs`` games of T rounds, runs on the leading axis; a loop over rounds alone.

        Args:
            adversary: Its own sigma may be smaller than the learner's; bounds then do not hold.
            runs: R.
            secret: The learner's coins.
            nature: The adversary's and nature's: another generator.
        """
        d, learner = self.concepts.dimension, self.learner(runs)
        return play(learner, adversary, self.rounds, runs, dimension=d, secret=secret, nature=nature)


class _DenseRuns:
    """Any class, O(RK) per round."""

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
        if self._at is not points or points.flags.writeable:  # one round asks several times at its own points
            self._at, self._held = points, self._concepts.predict(self._experts, points).T
        return self._held


class _ThresholdRuns:
    """Sorted thresholds, O(R log K) per round."""

    def __init__(self, cuts: FloatArray, rate: float, runs: int) -> None:
        self._cuts, self._rate, self._forest = cuts, rate, ThresholdForest(len(cuts), runs)

    def draw(self, rng: np.random.Generator) -> IntArray:
        return self._forest.draw(rng.random(self._forest.runs))

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        return points[:, 0] >= self._cuts[played]

    def policy(self, points: FloatArray) -> FloatArray:
        return 1.0 - self._forest.suffix(self._silent(points))

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        # True hurts the thresholds above x; False those up to x, which is to favour the ones above.
        self._forest.tilt(self._silent(points), np.where(labels, -self._rate, self._rate))

    def _silent(self, points: FloatArray) -> IntArray:
        """The first threshold that does not hold at x."""
        return np.searchsorted(self._cuts, points[:, 0], side="right")


class OnlinePlayer:
    """One run, round by round: ``predict`` a predicate, then ``update`` with the example it is judged by.

    Predicting twice in a round, or learning before predicting, is refused: either would break the game's order, on
    which regret bounds rest. Each prediction is a fresh draw.
    """

    def __init__(self, learner: SmoothedOnline, rng: np.random.Generator, *, endless: bool = False) -> None:
        self._rng, self._endless = generator(rng), endless
        self.round, self.errors = 0, 0
        self._start(learner)

    def _start(self, learner: SmoothedOnline) -> None:
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
        """The parameters (p,) of this round's predicate.

        Raises:
            InvalidArgumentError: it was drawn already, or all rounds are over.
        """
        if self._drawn >= 0:
            raise InvalidArgumentError("round", self.round, "has its prediction already", "call update first")
        if self._left == 0:
            if not self._endless:
                raise InvalidArgumentError("round", self.round, "is beyond the last one", "start a new player")
            self._start(evolve(self.learner, rounds=2 * self.learner.rounds))
        if self._tree is not None:
            self._drawn = self._tree.draw(self._rng.random())
        elif self._dense is not None:
            self._drawn = int(self._dense.draw(self._rng)[0])
        found: FloatArray = self.learner.experts[self._drawn]
        return found

    def update(self, x: npt.ArrayLike, label: bool | np.bool_) -> bool:
        """Takes in this round's example, a point (d,) or a number on the line; returns whether the prediction erred.

        Raises:
            InvalidArgumentError: nothing was predicted in this round, x is no point, or the label is no bool.
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
        assert self._dense is not None  # one of them is there
        held = self.learner.concepts.predict(self.learner.experts, np.reshape(x, (1, -1)))[:, 0]
        self._dense.update(held != label)
        return bool(held[self._drawn] != label)

    def _spot(self, x: npt.ArrayLike) -> float:
        return (
            float(self.learner.concepts.checked_points(np.atleast_2d(x))[0, 0])
            if as_array("x", x, data=True).size == 1
            else real("x", x, data=True)
        )
