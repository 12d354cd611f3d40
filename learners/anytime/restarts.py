"""Restarts: any online learner for a number of rounds that is not known, at the cost of its most expensive epoch.

Rounds are cut into epochs of growing length, and each epoch has a learner of its own, which starts afresh and reads the
losses of its epoch alone. *Theorem (adaptive parallel composition).* The cut, and the learner of an epoch, may depend
on everything that was published before it. If every learner that can be chosen in epoch k costs at most δ_k(ε), the
whole run costs a person at most the largest δ_k(ε), however many epochs follow.

*Proof.* Let two streams differ in round r. What is published before the epoch that holds r has one law in both. Given
it, that epoch and its learner are the same in both, and what it publishes has a divergence of at most its δ_k(ε),
against adaptive losses, too. All that follows is a function of what was published, of later losses and of fresh coins.
Averages over the past keep the bound, as hockey-stick divergences are jointly convex.

So nothing but published values may pass from one epoch to the next. A learner that begins with the weights of an
earlier epoch makes earlier people pay again, and a cut at a sum of losses that was not published shows that sum.

*Groups.* The people of a group may lie in several epochs, whose costs then add up; the worst split counts. If later
learners are chosen by earlier plays, each share is charged the worst of all choices of its epoch: a list of learners
that is fixed in advance may cost less than a choice among them.

*Regret.* It is at most the sum of the epochs' bounds. With bounds c·√T for T rounds that is at most √12 = 3.47 times
the bound for a known number of rounds at the ratio 4. Hedge's regret in an epoch that is cut short grows with its
rounds, and at that ratio is at most 2.6 times the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    InvalidDataError,
    PrivacyEvent,
    epsilon,
    parallel,
    validate,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.graph.neighbour_moves import prune
from hockeystick.accounting.graph.parts.charges import Charge, Move
from hockeystick.accounting.graph.parts.group_splittings import compositions
from hockeystick.learners.anytime import restart_stream
from hockeystick.learners.common import arguments
from hockeystick.learners.common.online_learner import Learner, OnlineLearner
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.experts.expert_losses import checked_losses
from hockeystick.mechanisms.contract.arguments import blocks, generator, zeros
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

Maker = Callable[[int], Any]
Select = Callable[[int, npt.NDArray[Any]], int]

_WORST_AT = 1e-6  # the δ at which epochs are compared for the worst-case neighbours


def _maker(value: Any) -> Maker:
    validate.function("learner_of_rounds", value, "give a function from a number of rounds to a learner")
    return value  # type: ignore[no-any-return]


def _select(value: Any) -> Select | None:
    if value is not None:
        validate.function("select", value, "give a function of the epoch's number and of the plays before it")
    return value  # type: ignore[no-any-return]


def _ratio(value: object) -> int:
    return validate.integer("ratio", value, low=2, high=2**30)


def _first(value: object) -> int:
    return validate.integer("first", value, low=1, high=2**53)


def _epochs(value: object) -> int:
    return validate.integer("epochs", value, low=1, high=64)


@frozen
class Anytime(OnlineLearner):
    """A learner for a number of rounds that is not known: it restarts in epochs of growing length.

    A person costs what the most expensive epoch costs, however long the run becomes. The whole run is charged at its
    start. Neighbouring streams differ in one round's losses (replace-one; rounds keep their places).

    Args:
        learner_of_rounds: Returns the learner for a number of rounds; or a list of learners for at most so many rounds,
            one of which ``select`` takes when its epoch begins.
        ratio: The length of an epoch in that of the epoch before.
        first: The length of the first epoch.
        epochs: The number of epochs; after the last one the run is over. All learners are made when this is.
        select: A function of an epoch's number 0, 1, … and of the plays of the epoch before it (as an array, empty for
            epoch 0), which returns the place of the learner to take in its list. It must not depend on anything else
            that depends on losses.

    Raises:
        InvalidArgumentError: an argument outside its domain, or the function returns something else than learners for
            these numbers of rounds.

    Example:
        >>> from hockeystick.learners import Anytime, LazyExperts
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> def dartboard(rounds):
        ...     return LazyExperts.calibrated(rounds=rounds, experts=10, epsilon=1.0, delta=1e-6)
        >>> learner = Anytime(dartboard, epochs=4)
        >>> [choices[0].rounds for choices in learner.choices], learner.rounds
        ([64, 256, 1024, 4096], 5440)
        >>> round(learner.guarantee().epsilon(1e-6).upper, 2)
        1.0
        >>> [round(learner.regret_bound(rounds)) for rounds in (1000, 5000)]
        [189, 355]
        >>> learner.release(np.random.default_rng(1).random((100, 10)), noise=SimulationNoise(1)).shape
        (100,)
    """

    refuses = {
        "calibrated": "its learners are: give a function that calibrates them",
        "release_mixtures": "its epochs are runs of several learners, each with sums of its own",
    }

    learner_of_rounds: Maker = field(converter=_maker, eq=False, repr=False)
    ratio: int = field(default=4, converter=_ratio)
    first: int = field(default=64, converter=_first, kw_only=True)
    epochs: int = field(default=12, converter=_epochs, kw_only=True)
    select: Select | None = field(default=None, converter=_select, eq=False, repr=False, kw_only=True)
    choices: tuple[tuple[Any, ...], ...] = field(init=False, repr=False)
    """The learners that can be taken, for each epoch."""

    @choices.default
    def _made(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(self._choices(self.first * self.ratio**k) for k in range(self.epochs))

    def _choices(self, rounds: int) -> tuple[Any, ...]:
        if rounds > arguments.MOST:
            raise InvalidArgumentError("epochs", self.epochs, "make a run of too many rounds", "take fewer")
        made = self.learner_of_rounds(rounds)
        several = isinstance(made, (list, tuple))
        found = tuple(made) if several else (made,)
        if not found:
            raise InvalidArgumentError("learner_of_rounds", made, "returns no learner", "return at least one")
        if len(found) > 1 and self.select is None:
            raise InvalidArgumentError(
                "learner_of_rounds", made, "returns several learners for an epoch", "give a function select to take one"
            )
        for learner in found:
            if not isinstance(learner, Learner):
                raise InvalidArgumentError(
                    "learner_of_rounds", learner, "does not return an online learner", "see learners.Learner"
                )
            if learner.rounds > rounds or (learner.rounds < rounds and not several):
                raise InvalidArgumentError(
                    "learner_of_rounds", learner.rounds, f"is not the {rounds} rounds that were asked for"
                )
            _check_published(learner)
        return found

    @property
    def rounds(self) -> int:
        """The largest number of rounds of a run."""
        return sum(max(learner.rounds for learner in each) for each in self.choices)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: a source and a release for each epoch.

        It has no rule for groups unless all learners' events have one; :meth:`guarantee` has.
        """
        plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=self._assumptions())
        for k, each in enumerate(self.choices):
            people = f"people of epoch {k + 1}"
            plan = plan.source(people, size=max(learner.rounds for learner in each))
            plan = plan.release(f"epoch {k + 1}", parallel(*(learner.event() for learner in each)), reads=(people,))
        return plan

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger."""
        return parallel(*(learner.event() for each in self.choices for learner in each))

    def guarantee(self, view: str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee of a run.

        Args:
            view: A view of all learners; None for their widest one that has a guarantee.
            group: Number of people who are protected together, or of rounds of one user. They are split over the epochs
                in all ways; their shares are composed, each at the worst of the learners of its epoch.

        Raises:
            InvalidArgumentError: there is no such view.
            GraphError: a group has too many splits over the epochs.
        """
        people = arguments.group(group)
        costs: dict[tuple[int, int], PrivacyEvent] = {}
        moves, seen = [], ""
        for split in compositions(people, len(self.choices)):
            charges = []
            for k, share in enumerate(split):
                if share and (k, share) not in costs:
                    own = [learner.guarantee(view, group=share) for learner in self.choices[k]]
                    costs[k, share], seen = parallel(*(each.event for each in own)), own[0].threat_model
                if share:
                    charges.append(Charge(f"epoch {k + 1}", costs[k, share], 1))
            label = ", ".join(f"epoch {k + 1}: {share}" for k, share in enumerate(split) if share)
            moves.append(Move(label, tuple(charges)))
        return Guarantee(prune(moves), Adjacency.REPLACE_ONE, people, self._assumptions(), seen)

    def _assumptions(self) -> tuple[str, ...]:
        found = [sentence for each in self.choices for learner in each for sentence in learner.graph().assumptions]
        if self.select is not None:
            found.append("the learner of an epoch is chosen by earlier plays alone")
        return tuple(dict.fromkeys(found))

    # --- one round at a time, and releases ---------------------------------------------------------------------------

    start = restart_stream.start
    resume = restart_stream.resume

    def release(
        self,
        losses: Iterable[Any],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> npt.NDArray[Any]:
        """Returns the plays of all rounds for publication, rounds on the leading axis.

        Args:
            losses: An array with the rounds on the leading axis, or any iterable with one item a round, as ``update``
                of the learners takes it; at most ``rounds`` of them. The losses of bandits depend on the plays: they
                run in sessions.
            ledger, name, reads, noise: As for ``start``.

        Raises:
            InvalidArgumentError: bad losses, which end the run; the charge remains.
            HockeystickError: the ledger refuses.
        """
        if not isinstance(losses, Iterable) or isinstance(losses, (str, bytes)):
            raise InvalidDataError("losses", losses, "is not an iterable with one item a round")
        session = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        played = []
        for each in losses:
            played.append(session.predict())
            session.update(each)
        return np.array(played)

    # --- simulation, of epochs whose learner is fixed ----------------------------------------------------------------

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams that differ in the epoch that costs most: its learner's own, and losses 0 elsewhere.

        Raises:
            InvalidArgumentError: the streams are too long for an array, or the learner's have not the rounds on their
                leading axis; or learners are chosen by plays.
        """
        learners = self._fixed()
        costs = [epsilon(learner.event(), _WORST_AT).upper for learner in learners]
        k = int(np.argmax(costs))
        pair = learners[k].worst_case_neighbours()
        own = [np.asarray(one) for one in pair]
        if own[0].shape[:1] != (learners[k].rounds,):
            raise InvalidArgumentError(
                "learner_of_rounds", learners[k], "has no worst-case neighbours with the rounds on the leading axis"
            )
        first = sum(learner.rounds for learner in learners[:k])
        found = zeros((2, self.rounds, *own[0].shape[1:]))
        found[0, first : first + len(own[0])], found[1, first : first + len(own[0])] = own
        return found[0], found[1]

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> tuple[Any, ...]:
        """Returns the results of each epoch's ``simulate``, with ``runs`` independent runs on their leading axis.

        The last epoch is simulated to its end, with losses 0 where there are none.

        Args:
            losses: Shape (n, ...), 1 <= n <= rounds.
            rng: Generator of all noise and coins.
            runs: Number of runs.

        Raises:
            InvalidArgumentError: an argument outside its domain, or learners are chosen by plays.
        """
        source = generator(rng)
        return tuple(learner.simulate(rows, source, runs) for learner, rows in self._cut("losses", losses))

    def log_likelihood_ratio(
        self, found: Sequence[Any], losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> npt.NDArray[Any]:
        """Returns the logarithm of the likelihood ratio of what :meth:`simulate` returned, one number per run.

        Raises:
            InvalidArgumentError: bad losses, or results or losses of another number of epochs.
        """
        first, second = (list(self._cut(name, losses)) for name, losses in (("losses0", losses0), ("losses1", losses1)))
        if not len(first) == len(second) == len(found):
            raise InvalidArgumentError(
                "found", len(found), f"results are not those of {len(first)} and {len(second)} epochs of losses"
            )
        parts = [
            learner.log_likelihood_ratio(seen, rows0, rows1)
            for seen, (learner, rows0), (_, rows1) in zip(found, first, second, strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0))

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret against the best single expert, from that of each epoch.

        A memory-mapped file is read in blocks.

        Raises:
            InvalidArgumentError: bad losses, learners are chosen by plays, or they do not play experts.
            RefusedMethodError: a learner has no exact regret.
        """
        given = self._rounds_of("losses", validate.as_array("losses", losses, data=True))
        lost, totals, first = 0.0, np.zeros(()), 0
        for learner in self._fixed():
            if not hasattr(learner, "experts"):
                reason = "is a learner that does not play experts"
                raise InvalidArgumentError("learner_of_rounds", type(learner).__name__, reason, "simulate")
            last = min(len(given), first + learner.rounds)
            if first < last:
                own = np.zeros(learner.experts)
                lost += learner.expected_regret(_blocks(learner, given, first, last, own)) + float(own.min())
                totals, first = totals + own, last
        return lost - float(totals.min())

    def _rounds_of(self, name: str, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns losses with a round for each row, or raises an error."""
        if not given.ndim or not 1 <= len(given) <= self.rounds:
            raise InvalidDataError(name, given, f"does not have 1 to {self.rounds} rounds on the leading axis")
        return given

    def _fixed(self) -> list[Any]:
        if any(len(each) > 1 for each in self.choices):
            raise InvalidArgumentError(
                "select", self.select, "chooses learners by their plays", "use start with SimulationNoise"
            )
        return [learner for (learner,) in self.choices]

    def _cut(self, name: str, losses: npt.ArrayLike) -> Iterator[tuple[Any, FloatArray]]:
        """Yields the learners of the epochs with losses, and these losses, filled up with 0."""
        learners = self._fixed()
        given = self._rounds_of(name, validate.array(name, losses, bools=True, infinite=True, data=True))
        first = 0
        for learner in learners:
            rows = given[first : first + learner.rounds]
            if not len(rows):
                return
            missing = np.zeros((learner.rounds - len(rows), *rows.shape[1:]))
            yield learner, np.concatenate([rows, missing])
            first += len(rows)

    # --- utility -----------------------------------------------------------------------------------------------------

    def regret_bound(self, rounds: int | None = None, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret after so many rounds: the sum of the bounds of the epochs.

        Where an epoch has several learners, the worst sequence of them counts. An epoch that is not over has the bound
        of its learner as a whole, as equal losses could follow, or the largest regret of its rounds.

        Args:
            rounds: The number of rounds that were played; None for all.
            adversary: The losses for which it holds. In an epoch that is not over, "stochastic" losses need the
                learner's bound for oblivious ones.

        Raises:
            InvalidArgumentError: ``rounds`` is not in 1 .. ``self.rounds``, or a learner has no such bound.
        """
        count = self.rounds if rounds is None else validate.integer("rounds", rounds, low=1, high=self.rounds)
        kind = checked_adversary(adversary)
        known: dict[tuple[int, int], tuple[float, float]] = {}

        def worst(k: int, left: int) -> tuple[float, float]:
            """The largest bound of ``left`` rounds from epoch ``k`` on, and the largest regret."""
            if left <= 0 or k == len(self.choices):
                return 0.0, 0.0
            if (k, left) not in known:
                after = [worst(k + 1, left - learner.rounds) for learner in self.choices[k]]
                own = [_bound(learner, min(left, learner.rounds), kind) for learner in self.choices[k]]
                sums = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(own, after, strict=True)]
                known[k, left] = max(one for one, _ in sums), max(most for _, most in sums)
            return known[k, left]

        value, most = worst(0, count)
        return RegretBound(value, most=most, adversary=kind)


def _check_published(learner: Any) -> None:
    """Refuses a learner without a guarantee of all its plays: later epochs, and ``select``, may depend on them."""
    try:
        relation = learner.guarantee().adjacency
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            "learner_of_rounds", learner, f"has no guarantee of all its plays ({error.reason})"
        ) from None
    if relation is not Adjacency.REPLACE_ONE:
        raise InvalidArgumentError("learner_of_rounds", learner, "is for another relation than replace-one")


def _bound(learner: Any, rounds: int, kind: Adversary) -> tuple[float, float]:
    """Returns the bound of a learner's first rounds, and the largest regret that they can have."""
    whole = rounds == learner.rounds
    bound = learner.regret_bound(adversary="oblivious" if kind == "stochastic" and not whole else kind)
    most = bound.most if whole or math.isinf(bound.most) else bound.most * (rounds / learner.rounds)
    return min(float(bound), most), most


def _blocks(learner: Any, losses: npt.NDArray[Any], first: int, last: int, totals: FloatArray) -> Iterator[FloatArray]:
    """Yields rounds first .. last-1 in blocks, and losses 0 up to the learner's rounds; adds all to ``totals``."""
    for rows in blocks(last - first, learner.experts):
        start, stop = first + rows.start, first + rows.stop
        found = checked_losses(
            "losses",
            losses[start:stop],
            rounds=stop - start,
            experts=learner.experts,
            clip=learner.clip,
            first=start,
        )
        totals += found.sum(axis=0)
        yield found
    for rows in blocks(learner.rounds - (last - first), learner.experts):
        yield np.zeros((rows.stop - rows.start, learner.experts))
