"""The search for the two neighbouring data sets on which a claim fails worst.

Many mechanisms are private on most pairs of data sets but not on all: one does not clip large values, one answers
exactly when a count is 0, one scales its noise to the data. The search rates pairs of a domain
(:mod:`hockeystick.audits.neighbours.domains`) on few samples each: canonical and random ones first, then changed copies
of the best (:mod:`hockeystick.audits.neighbours.proposals`). In each round half of the samples are for new pairs, and
the other half for the best of them, twice as many for half as many pairs each time (successive halving: Karnin, Koren
and Somekh 2013).

The score of a pair is the excess of epsilon over the claim in its samples: an event is chosen on some of them
(:func:`hockeystick.audits.attacks.event_choice.choose_event`) and counted on others, and the score is the largest
log((p - delta_i)/q) - epsilon_i over the points of the claim, where p and q are one-sided Clopper-Pearson bounds at
90 %. Scores only guide the search.

The result of a search is not a bound. :mod:`hockeystick.audits.neighbours.audit` audits it with new samples.

A long search can store its progress in a file and resume from it (:mod:`hockeystick.audits.neighbours.journal`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from attrs import define, field, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import integer
from hockeystick.audits.attacks.event_choice import Event, choose_event
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.checkpoint import digest
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.drawing.late_nones import LateNones, Values
from hockeystick.audits.drawing.own_process import limited
from hockeystick.audits.drawing.unchanged_data import Unchanged
from hockeystick.audits.drawing.warnings_once import once
from hockeystick.audits.neighbours.domains import Domain
from hockeystick.audits.neighbours.journal import Journal, Look, mark
from hockeystick.audits.neighbours.pairs import NeighbourPair, known_group
from hockeystick.audits.neighbours.proposals import Proposal, Proposals
from hockeystick.audits.outputs.cells import as_seen
from hockeystick.audits.outputs.reading import Codebook, Table, read
from hockeystick.audits.targets.calling import (
    Stream,
    Target,
    TargetEndedError,
    TargetError,
    child_seed,
    error_text,
    known_seed,
)

_LEVEL = 0.1  # of each of the two bounds in a score
MOST_SEARCHED = 10**9
"""The most outputs of each data set: a target that takes a microsecond each is called for half an hour."""

_MOST_ROUNDS = 10**4
_FLOOR = -1e3  # score of an event that was never seen

_SAMPLES, _PROPOSALS = 0, 1  # purposes of the derived seeds; searched audits have another

Progress = Callable[[int, int], object]


@frozen(eq=False)
class RatedPair:
    """A pair and its rating by a search, which is not a bound.

    See :func:`search_neighbours` for an example.

    Attributes:
      pair: the data sets.
      score: a cautious estimate of the excess of epsilon over the claim; negative if there is none.
      event: the event of the rating, in words.
      samples: number of outputs drawn from each data set.
      origin: "canonical", "random" or "changed".
    """

    pair: NeighbourPair
    score: float
    event: str
    samples: int
    origin: str


@frozen(eq=False)
class SearchResult:
    """The result of a search.

    See :func:`search_neighbours` for an example.

    Attributes:
      pairs: all rated pairs, the most promising first.
      samples: number of outputs drawn from each data set, over all pairs.
      history: for each round, the number of outputs so far and the best score so far.
      seed: seed of all random numbers; the same seed searches the same pairs.
      interrupted: whether the search was stopped (KeyboardInterrupt) before all samples were drawn.
      failures: pairs on which the target raised, and the errors.
    """

    pairs: tuple[RatedPair, ...]
    samples: int
    history: tuple[tuple[int, float], ...]
    seed: int
    interrupted: bool = False
    failures: tuple[tuple[NeighbourPair, TargetError], ...] = ()

    @property
    def best(self) -> RatedPair:
        """The most promising pair."""
        return self.pairs[0]


@once()
@guessing
def search_neighbours(
    target: object,
    domain: Domain,
    claim: Claim,
    *,
    adjacency: Adjacency,
    group: int = 1,
    samples: int = 100_000,
    samples_per_pair: int = 400,
    rounds: int = 4,
    rng: int | np.random.Generator | None = None,
    exceptions_as_output: bool = False,
    timeout: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Searches a domain for the pair of neighbours on which a claim fails worst.

    The result is a rating, not a bound. The best pair must be audited with *other* samples, as
    :func:`hockeystick.audits.neighbours.audit.audit_with_search` does.

    Args:
      target: as in :func:`hockeystick.audits.audit`.
      domain: the data sets; see :mod:`hockeystick.audits.neighbours.domains`. Every pair is checked to be neighbouring.
      claim: the claim to refute, for this neighbouring relation and group size.
      adjacency, group: the neighbouring relation, and the number of records that may differ.
      samples: largest number of outputs from *each* data set, over all pairs together; at most 10^9.
      samples_per_pair: number of these outputs for the first rating of a pair; at least 20.
      rounds: number of rounds of new pairs, at most 10^4; from the second round on, most are changed copies of the
        best.
      rng: a seed, or a generator that draws one; default: a fresh seed.
      exceptions_as_output: as in :func:`hockeystick.audits.audit`. By default, a pair on which the target raises is
        set aside.
      timeout: as in :func:`hockeystick.audits.audit`.
      checkpoint: a file that stores the progress of the search. If it exists, the search resumes from it, with the
        same result. The file is removed at the end. The target must be the same.
      progress: called as ``progress(done, total)`` with numbers of outputs, both data sets together.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was drawn.
      NotNeighboursError: the domain made data sets that are not neighbours.
      TargetError: the target raised, or could not be read, on every pair; or, on any pair, it changed its input or
        stopped giving values, took longer than ``timeout``, or would have ended the program.
      KeyboardInterrupt: the search was interrupted before any pair was rated; later, the best so far is returned.

    Example:
      >>> import hockeystick as hs
      >>> from hockeystick.audits import RealRecords, search_neighbours
      >>> def unclipped_sum(data, rng, runs):  # private for records in [0, 1] only
      ...     return data.sum() + rng.laplace(0.0, 1.0, runs)
      >>> found = search_neighbours(
      ...     unclipped_sum, RealRecords(low=0, high=9, most=3), hs.Claim(1.0),
      ...     adjacency=hs.accounting.Adjacency.ADD_OR_REMOVE_ONE, samples=4000, rng=1)
      >>> float(abs(found.best.pair.d0.sum() - found.best.pair.d1.sum())), found.best.score > 1
      (9.0, True)
    """
    plan = SearchPlan.checked(
        target,
        domain,
        claim,
        adjacency=adjacency,
        group=group,
        samples=samples,
        samples_per_pair=samples_per_pair,
        rounds=rounds,
        exceptions_as_output=exceptions_as_output,
        timeout=timeout,
    )
    journal = None
    if checkpoint is not None:
        journal = Journal.at(checkpoint, plan.digest(), None if rng is None else known_seed(rng))
    found = plan.search(known_seed(rng) if journal is None else journal.seed, journal, progress)
    if journal is not None and not found.interrupted:
        journal.remove()
    return found


@frozen(eq=False, kw_only=True)
class SearchPlan:
    """The checked arguments of a search; see :func:`search_neighbours`."""

    target: Target
    domain: Domain
    claim: Claim
    adjacency: Adjacency
    group: int
    budget: int
    first: int
    rounds: int

    @classmethod
    def checked(
        cls,
        target: object,
        domain: Domain,
        claim: Claim,
        *,
        adjacency: Adjacency,
        group: int,
        samples: int,
        samples_per_pair: int,
        rounds: int,
        exceptions_as_output: bool,
        timeout: float | None = None,
    ) -> SearchPlan:
        """Returns the plan of a search.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
        """
        if not isinstance(claim, Claim):
            raise InvalidArgumentError(
                "claim", claim, "is not a claim", "give Claim(epsilon, delta) or Claim.curve(...)"
            )
        first = integer("samples_per_pair", samples_per_pair, low=MINIMUM_SAMPLES)
        return cls(
            target=limited(Target.of(target, catch=exceptions_as_output), timeout),
            domain=domain,
            claim=claim,
            adjacency=adjacency,
            group=known_group(adjacency, group),
            budget=integer("samples", samples, low=first, high=MOST_SEARCHED),
            first=first,
            rounds=integer("rounds", rounds, low=1, high=_MOST_ROUNDS),
        )

    def digest(self, *more: object) -> str:
        """Returns the digest of the search's arguments and of ``more``; see ``checkpoint.digest``."""
        own = (self.domain, self.claim, self.adjacency, self.group, self.budget, self.first, self.rounds)
        return digest("search", *own, self.target.catch, *more)

    def search(self, seed: int, journal: Journal | None, progress: Progress | None) -> SearchResult:
        """Returns the result of the search; the journal, if any, records it."""
        rng = np.random.default_rng(child_seed(seed, _PROPOSALS))
        proposals = Proposals(self.domain, self.adjacency, self.group, rng)
        search = _Search(self, child_seed(seed, _SAMPLES), proposals, journal, progress)
        state = search.state
        interrupted = False
        try:
            for number in range(1, self.rounds + 1):
                search.round(self.budget * number // self.rounds)
        except KeyboardInterrupt:
            if not state.rated:
                raise
            interrupted = True
        finally:
            if journal is not None:
                journal.flush()
        if not state.rated:
            raise (
                state.failures[0][1]
                if state.failures
                else InvalidArgumentError(
                    "domain", self.domain, "has no two data sets that differ", "give a domain with more values"
                )
            )
        found = tuple(RatedPair(c.pair, c.score, c.words, c.drawn, c.origin) for c in state.ranked())
        return SearchResult(found, state.spent, tuple(state.history), seed, interrupted, tuple(state.failures))


@define(eq=False)
class _Candidate:
    """A pair and its samples so far.

    Attributes:
      drawn: number of outputs from each data set.
      owed: sizes of looks from a journal, whose outputs count as drawn but have to be drawn again before any other.
    """

    number: int
    pair: NeighbourPair
    origin: str
    streams: tuple[Stream, Stream]
    unchanged: Unchanged
    nones: LateNones = field(factory=LateNones)
    book: Codebook = field(factory=Codebook)
    tables: tuple[list[Table], list[Table]] = field(factory=lambda: ([], []))
    drawn: int = 0
    score: float = _FLOOR
    words: str = ""
    owed: list[int] = field(factory=list)

    @classmethod
    def of(cls, proposal: Proposal, target: Target, seed: int) -> _Candidate:
        number, pair = proposal.number, proposal.pair
        streams = Stream(target, pair.d0, seed, 0, number), Stream(target, pair.d1, seed, 1, number)
        return cls(number, pair, proposal.origin, streams, Unchanged((pair.d0, pair.d1)))

    def draw(self, size: int, counted: Callable[[int], None] = lambda _: None) -> tuple[Table, Table]:
        """Returns new outputs, and stores them for later choices.

        Args:
          size: number of outputs from each data set.
          counted: called with the size of each piece as soon as it is drawn.

        Raises:
          TargetError: the target raised, or its outputs can't be read.
        """
        vectorised = self.streams[0].target.vectorised
        found: tuple[list[Table], list[Table]] = ([], [])
        drawn, known = 0, self.tables[0]
        while drawn < size:
            piece = min(self.streams[0].next_size(known[-1].numbers if known else 1), size - drawn)
            start = self.streams[0].drawn
            outputs = [stream.draw(piece) for stream in self.streams]
            self.nones.add(0, start, [Values.of(one, piece) for one in outputs])
            drawn += piece
            counted(piece)
            for stream in self.streams:
                require_outputs(stream)
            for side, output in enumerate(outputs):
                found[side].append(read(output, piece, self.book, vectorised=vectorised))
                self.tables[side].append(found[side][-1])
        return Table.join(found[0]), Table.join(found[1])

    def draw_owed(self) -> None:
        """Draws the outputs of recalled looks again, with the same generators and in the same pieces."""
        owed, self.owed = self.owed, []
        for number, size in enumerate(owed):
            for part in (size // 2, size - size // 2) if number == 0 else (size,):
                self.draw(part)


@define(eq=False)
class _State:
    """The progress of a search; see :class:`SearchResult`."""

    spent: int = 0
    rated: list[_Candidate] = field(factory=list)
    failures: list[tuple[NeighbourPair, TargetError]] = field(factory=list)
    history: list[tuple[int, float]] = field(factory=list)

    def ranked(self) -> list[_Candidate]:
        return sorted(self.rated, key=lambda candidate: -candidate.score)


@frozen(eq=False)
class _Search:
    """A running search."""

    plan: SearchPlan
    seed: int
    proposals: Proposals
    journal: Journal | None
    progress: Progress | None
    state: _State = field(factory=_State, init=False)

    def round(self, until: int) -> None:
        """Rates new pairs, then rates the best of all with more samples, until ``until`` outputs are drawn."""
        first, state = self.plan.first, self.state
        room = (until - state.spent) // first
        new = self._new(max(1, (room + 1) // 2))
        for candidate in new:
            self._look(candidate, first, until)
        pool, wanted = len(new) // 2, 2 * first
        while pool >= 1 and state.spent < until:  # the best of earlier rounds have their samples already
            for candidate in state.ranked()[:pool]:
                self._look(candidate, wanted - candidate.drawn, until)
            pool, wanted = pool // 2, 2 * wanted
        while until - state.spent >= first and (more := self._new(1)):
            self._look(more[0], first, until)
        if state.rated:
            state.history.append((state.spent, state.ranked()[0].score))

    def _new(self, count: int) -> list[_Candidate]:
        proposed = self.proposals.new(count, [candidate.pair for candidate in self.state.ranked()])
        return [_Candidate.of(proposal, self.plan.target, self.seed) for proposal in proposed]

    def _look(self, candidate: _Candidate, size: int, until: int) -> None:
        """Draws up to ``size`` more outputs and rates the pair again, by an event that was chosen without them."""
        size = min(size, until - self.state.spent)
        if size < (2 if candidate.drawn else MINIMUM_SAMPLES):
            return
        marked, new = mark((candidate.pair.d0, candidate.pair.d1)), not candidate.drawn
        known = None if self.journal is None else self.journal.next(candidate.number, marked, size)
        look, error = self._made(candidate, marked, size) if known is None else self._recalled(candidate, known)
        candidate.unchanged.check()  # a fault of the target, and not of the pair alone
        candidate.nones.check()
        if error is not None:
            self.state.failures.append((candidate.pair, error))
            if candidate in self.state.rated:
                self.state.rated.remove(candidate)
        else:
            candidate.score, candidate.words = look.score, look.event
            if new:
                self.state.rated.append(candidate)
        if known is None and self.journal is not None:
            self.journal.keep(look)

    def _made(self, candidate: _Candidate, marked: int, size: int) -> tuple[Look, TargetError | None]:
        """Returns a new look, and the target's error, if any."""
        before, rest = self.state.spent, size
        try:
            candidate.draw_owed()
            if not candidate.drawn:
                self._draw(candidate, size // 2)
                rest -= size // 2
            event, evidence = self._choose(candidate, rest)
            counts = np.zeros((2, event.partition.cells), dtype=np.int64)
            for side, table in enumerate(self._draw(candidate, rest)):
                seen = next(as_seen([event.partition.view], table, candidate.book.layouts, None))
                counts[side] += event.partition.count(*seen)
        except TargetEndedError:
            raise
        except TargetError as error:
            drawn = self.state.spent - before
            return Look(pair=candidate.number, mark=marked, size=size, drawn=drawn, error=str(error)), error
        score = _score(*event.counts(counts), rest, self.plan.claim)
        return Look(pair=candidate.number, mark=marked, size=size, drawn=size, score=score, event=str(event)), None

    def _recalled(self, candidate: _Candidate, look: Look) -> tuple[Look, TargetError | None]:
        """Returns a look of an earlier run, and its error, if any; its outputs are drawn again only when needed."""
        self._count(candidate, look.drawn)
        candidate.owed.append(look.size)
        self._report()
        return look, TargetError(look.error) if look.error else None

    def _choose(self, candidate: _Candidate, trials: int) -> tuple[Event, Evidence]:
        tables = Table.join(candidate.tables[0]), Table.join(candidate.tables[1])
        evidence = Evidence.of(tables, tuple(candidate.book.layouts), None, attack="simple")
        return choose_event(evidence, self.plan.claim, alpha=_LEVEL, trials=trials), evidence

    def _draw(self, candidate: _Candidate, size: int) -> tuple[Table, Table]:
        tables = candidate.draw(size, lambda piece: self._count(candidate, piece))
        self._report()
        return tables

    def _count(self, candidate: _Candidate, drawn: int) -> None:
        self.state.spent, candidate.drawn = self.state.spent + drawn, candidate.drawn + drawn

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(2 * self.state.spent, 2 * self.plan.budget)


def _score(x: int, y: int, trials: int, claim: Claim) -> float:
    """Returns the largest excess of epsilon over the claim at any of its points."""
    low, _ = clopper_pearson(x, trials, confidence=1 - _LEVEL, side="lower")
    _, high = clopper_pearson(y, trials, confidence=1 - _LEVEL, side="upper")
    shown = [math.log((low - delta) / high) - epsilon for epsilon, delta in claim.points if low > delta]
    return max(shown, default=_FLOOR)


def require_outputs(stream: Stream) -> None:
    """Checks that the target did not raise in a stream.

    Raises:
      TargetError: it did; its last error is the cause.
    """
    if stream.error is not None:
        text = " ".join(f"{type(stream.error).__name__}: {error_text(stream.error)}".split())
        message = f"target raised in {stream.raised} of {stream.drawn} runs on d{stream.side} ({text})"
        raise TargetError(message) from stream.error
