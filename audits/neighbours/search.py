"""The search for the two neighbouring data sets on which a claim fails worst, and the audit of what it found.

Many mechanisms are private on most pairs of data sets and not on all: one forgets to clip large values, one answers
exactly when a count is 0, one scales its noise to the data. The search rates pairs of a domain
(:mod:`hockeystick.audits.neighbours.domains`) on few samples each: canonical and random ones first, then changed copies
of the best. In each round half of the samples go to new pairs, and the other half to the best of them, twice as many
for half as many pairs each time (successive halving: Karnin, Koren and Somekh 2013).

A pair is rated by the excess of epsilon over the claim that its samples show: an event is chosen on some of them
(:func:`hockeystick.audits.attacks.choose_event.choose_event`) and counted on others, and the score is the largest
log((p - delta_i)/q) - epsilon_i over the points of the claim, p and q being one-sided Clopper-Pearson bounds at 90 %.
Scores decide what is looked at next and nothing else.

What is found bounds nothing. :mod:`hockeystick.audits.neighbours.audit` audits it, with samples that the search never
saw.

A long search can be kept in a file while it runs, and goes on from there
(:mod:`hockeystick.audits.neighbours.journal`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import integer
from hockeystick.audits.attacks.choose_event import Event, choose_event
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.checkpoint import digest
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.neighbours.domains import Domain
from hockeystick.audits.neighbours.journal import Journal, Look, mark
from hockeystick.audits.neighbours.pairs import NeighbourPair, known_group, record_key
from hockeystick.audits.outputs.cells import real_blocks
from hockeystick.audits.outputs.reading import Codebook, Table, read
from hockeystick.audits.targets.calling import Stream, Target, TargetError, known_seed

_LEVEL = 0.1  # of each of the two bounds in a score
_BEAM = 4  # pairs that are changed in the next round
_CANONICAL = 0.75  # of the first round's pairs, at most
_LEFT = 0.25  # of a later round's pairs: canonical ones that are left, at most
_CHANGED = 0.75  # of its other pairs; what remains is random
_TRIES = 20  # to find a pair that is new
_FLOOR = -1e3  # a score where the event was never seen

_SAMPLES, _PROPOSALS = 0, 1  # what seeds are derived for; searched audits have another

Progress = Callable[[int, int], object]


@frozen(eq=False)
class RatedPair:
    """A pair and what the search's samples say of it. None of it bounds anything.

    Attributes:
      pair: the data sets.
      score: by how much epsilon exceeds the claim, cautiously; negative if nothing shows.
      event: the event it was rated by, in words.
      samples: outputs drawn from each data set.
      origin: "canonical", "random" or "changed".
    """

    pair: NeighbourPair
    score: float
    event: str
    samples: int
    origin: str


@frozen(eq=False)
class SearchResult:
    """What a search found.

    Attributes:
      pairs: all rated pairs, the most promising in front.
      samples: outputs drawn from each data set, over all pairs.
      history: per round the outputs drawn so far and the best score so far.
      seed: of everything that was drawn; the same seed searches the same pairs.
      interrupted: whether the search was stopped (KeyboardInterrupt) before its budget was spent.
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
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Searches a domain for the pair of neighbours on which a claim fails worst.

    The result rates pairs and bounds nothing: audit the best pair with *other* samples, as
    :func:`hockeystick.audits.neighbours.audit.audit_with_search` does.

    Args:
      target: as for :func:`hockeystick.audit`.
      domain: the data sets; see :mod:`hockeystick.audits.neighbours.domains`. Every pair is checked to be one of
      neighbours. claim: what is to be refuted, for the group size and the neighbouring relation given here. adjacency,
      group: which data sets are neighbours, and how many records may differ. samples: outputs to draw from *each* data
      set, over all pairs together; never exceeded. samples_per_pair: of these, for the first look at a pair; at least
      20. rounds: of new pairs; from the second one on most are changed copies of the best. rng: a seed, or a generator
      that gives one; by default a fresh seed. exceptions_as_output: as for
      :func:`hockeystick.audit`. Otherwise a pair on which the target raises is set aside.
      checkpoint: a file in which the search is kept while it runs. If it is there, the search goes on from it, and
        finds what it would have found at once; it is removed at the end. The target must be the same.
      progress: called as ``progress(done, total)`` with numbers of outputs, of both data sets together.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was drawn.
      NotNeighboursError: the domain made data sets that are no neighbours.
      TargetError: the target raised, or could not be read, on every pair.
      KeyboardInterrupt: before any pair was rated. Later the best so far is returned.
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
    """A search whose arguments are checked; see :func:`search_neighbours`."""

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
            target=Target.of(target, catch=exceptions_as_output),
            domain=domain,
            claim=claim,
            adjacency=adjacency,
            group=known_group(adjacency, group),
            budget=integer("samples", samples, low=first),
            first=first,
            rounds=integer("rounds", rounds, low=1),
        )

    def digest(self, *more: object) -> str:
        """Returns a name of what the search, and ``more`` after it, is asked to do; see ``checkpoint.digest``."""
        asked = (self.domain, self.claim, self.adjacency, self.group, self.budget, self.first, self.rounds)
        return digest("search", *asked, self.target.catch, *more)

    def search(self, seed: int, journal: Journal | None, progress: Progress | None) -> SearchResult:
        """Returns what is found; a journal keeps its looks and stays."""
        search = _Search(
            plan=self,
            seed=child_seed(seed, _SAMPLES),
            rng=np.random.default_rng(child_seed(seed, _PROPOSALS)),
            journal=journal,
            progress=progress,
        )
        interrupted = False
        try:
            for number in range(1, self.rounds + 1):
                search.round(self.budget * number // self.rounds)
        except KeyboardInterrupt:
            if not search.rated:
                raise
            interrupted = True
        if not search.rated:
            raise (
                search.failures[0][1]
                if search.failures
                else InvalidArgumentError(
                    "domain", self.domain, "has no two data sets that differ", "give a domain with more values"
                )
            )
        found = tuple(RatedPair(c.pair, c.score, c.words, c.drawn, c.origin) for c in search.ranked())
        return SearchResult(found, search.spent, tuple(search.history), seed, interrupted, tuple(search.failures))


@define(eq=False)
class _Candidate:
    """A pair and its samples so far."""

    number: int
    pair: NeighbourPair
    origin: str
    streams: tuple[Stream, Stream]
    book: Codebook = field(factory=Codebook)
    tables: tuple[list[Table], list[Table]] = field(factory=lambda: ([], []))
    drawn: int = 0
    score: float = _FLOOR
    words: str = ""
    owed: list[int] = field(factory=list)  # outputs of looks that a journal told of: drawn again before any other


@define(eq=False)
class _Search:
    """The state of a search: the candidates, and what was spent."""

    plan: SearchPlan
    seed: int
    rng: np.random.Generator
    journal: Journal | None
    progress: Progress | None
    spent: int = 0
    made: int = 0
    rated: list[_Candidate] = field(factory=list)
    failures: list[tuple[NeighbourPair, TargetError]] = field(factory=list)
    history: list[tuple[int, float]] = field(factory=list)
    _known: set[Hashable] = field(factory=set, init=False)
    _canonical: list[NeighbourPair] = field(factory=list, init=False)

    def ranked(self) -> list[_Candidate]:
        return sorted(self.rated, key=lambda candidate: -candidate.score)

    def round(self, until: int) -> None:
        """Rates new pairs, then the best of all more closely, until ``until`` outputs are drawn."""
        first = self.plan.first
        room = (until - self.spent) // first
        rated = [self._look(candidate, first, until) for candidate in self._new(max(1, (room + 1) // 2))]
        pool, wanted = len(rated) // 2, 2 * first
        while pool >= 1 and self.spent < until:  # the best of earlier rounds have their samples already
            for candidate in self.ranked()[:pool]:
                self._look(candidate, wanted - candidate.drawn, until)
            pool, wanted = pool // 2, 2 * wanted
        while until - self.spent >= first and (more := self._new(1)):
            self._look(more[0], first, until)
        if self.rated:
            self.history.append((self.spent, self.ranked()[0].score))

    def _new(self, count: int) -> list[_Candidate]:
        """Returns pairs that were not looked at before, as many as there are up to ``count``."""
        found: list[_Candidate] = []
        if not self.made:
            self._canonical = list(self.plan.domain.canonical(self.plan.adjacency, self.plan.group))
            front = max(1, count // 3)
            rest = self.rng.permutation(np.arange(front, len(self._canonical)))
            self._canonical[front:] = [self._canonical[i] for i in rest]
        most = max(1, int((_CANONICAL if not self.made else _LEFT) * count))
        while self._canonical and len(found) < most:
            known = self._canonical.pop(0)
            if (candidate := self._candidate(tuple(known), known.why, "canonical")) is not None:
                found.append(candidate)
        best = self.ranked()[:_BEAM]
        changed = round(_CHANGED * (count - len(found))) if best else 0
        for number in range(count - len(found)):
            for _ in range(_TRIES):
                if number < changed:
                    parent = best[int(self.rng.integers(len(best)))]
                    pair = self.plan.domain.mutate(tuple(parent.pair), self.rng, self.plan.adjacency, self.plan.group)
                    candidate = self._candidate(pair, "", "changed")
                else:
                    pair = self.plan.domain.random_pair(self.rng, self.plan.adjacency, self.plan.group)
                    candidate = self._candidate(pair, "", "random")
                if candidate is not None:
                    found.append(candidate)
                    break
        return found

    def _candidate(self, pair: Any, why: str, origin: str) -> _Candidate | None:
        """Returns a checked pair as a candidate; None if its data sets are equal or it is known."""
        try:
            d0, d1 = pair
        except (TypeError, ValueError):
            raise InvalidArgumentError("domain", pair, "made what is no pair of data sets") from None
        if self.plan.domain.check(d0, d1, self.plan.adjacency, self.plan.group) == 0:
            return None
        try:
            key: Hashable = (record_key(d0), record_key(d1))
        except InvalidArgumentError:  # data of the user's own kind: let it be looked at again
            key = self.made
        if key in self._known:
            return None
        self._known.add(key)
        number, self.made = self.made, self.made + 1
        streams = Stream(self.plan.target, d0, self.seed, 0, number), Stream(self.plan.target, d1, self.seed, 1, number)
        return _Candidate(
            number, NeighbourPair(d0, d1, why or origin, self.plan.adjacency, self.plan.group), origin, streams
        )

    def _look(self, candidate: _Candidate, size: int, until: int) -> _Candidate | None:
        """Draws up to ``size`` more outputs and rates the pair anew, by an event that was chosen without them."""
        size = min(size, until - self.spent)
        if size < (2 if candidate.drawn else MINIMUM_SAMPLES):
            return None
        marked, before = mark((candidate.pair.d0, candidate.pair.d1)), self.spent
        kept = None if self.journal is None else self.journal.next(candidate.number, marked, size)
        if kept is not None:
            return self._recalled(candidate, kept)
        new = not candidate.drawn
        found: _Candidate | None
        try:
            self._draw_again(candidate)
            drawn = size
            if new:
                self._draw(candidate, size // 2)
                drawn -= size // 2
            event, evidence = self._choose(candidate, drawn)
            counts = np.zeros((2, event.partition.cells), dtype=np.int64)
            for side, table in enumerate(self._draw(candidate, drawn)):
                counts[side] += event.partition.count(table, real_blocks(table, evidence.layouts, None))
        except TargetError as error:
            look = Look(pair=candidate.number, mark=marked, size=size, drawn=self.spent - before, error=str(error))
            self._failed(candidate, error)
            found = None
        else:
            score, words = _score(*event.counts(counts), drawn, self.plan.claim), str(event)
            look = Look(pair=candidate.number, mark=marked, size=size, drawn=size, score=score, event=words)
            found = self._rated(candidate, look, new=new)
        if self.journal is not None:
            self.journal.keep(look)
        return found

    def _rated(self, candidate: _Candidate, look: Look, *, new: bool) -> _Candidate:
        candidate.score, candidate.words = look.score, look.event
        if new:
            self.rated.append(candidate)
        return candidate

    def _failed(self, candidate: _Candidate, error: TargetError) -> None:
        self.failures.append((candidate.pair, error))
        if candidate in self.rated:
            self.rated.remove(candidate)

    def _recalled(self, candidate: _Candidate, look: Look) -> _Candidate | None:
        """Takes a look as an earlier run made it. Its outputs are drawn again if ever they are needed."""
        new = not candidate.drawn
        self.spent, candidate.drawn = self.spent + look.drawn, candidate.drawn + look.drawn
        candidate.owed.append(look.size)
        if self.progress is not None:
            self.progress(2 * self.spent, 2 * self.plan.budget)
        if look.error:
            self._failed(candidate, TargetError(look.error))
            return None
        return self._rated(candidate, look, new=new)

    def _draw_again(self, candidate: _Candidate) -> None:
        """Draws the outputs of looks that were recalled, by the same generators and in the same pieces."""
        spent, drawn, progress = self.spent, candidate.drawn, self.progress
        owed, candidate.owed, self.progress = candidate.owed, [], None
        try:
            for number, size in enumerate(owed):
                for part in (size // 2, size - size // 2) if number == 0 else (size,):
                    self._draw(candidate, part)
        finally:
            self.spent, candidate.drawn, self.progress = spent, drawn, progress

    def _choose(self, candidate: _Candidate, trials: int) -> tuple[Event, Evidence]:
        tables = Table.join(candidate.tables[0]), Table.join(candidate.tables[1])
        evidence = Evidence.of(tables, tuple(candidate.book.layouts), None, attack="simple")
        return choose_event(evidence, self.plan.claim, alpha=_LEVEL, trials=trials), evidence

    def _draw(self, candidate: _Candidate, size: int) -> tuple[Table, Table]:
        """Returns new outputs as read by the layouts known so far, and keeps them for the choices to come."""
        found: tuple[list[Table], list[Table]] = ([], [])
        drawn, known = 0, candidate.tables[0]
        while drawn < size:
            piece = min(candidate.streams[0].next_size(known[-1].numbers if known else 1), size - drawn)
            outputs = [stream.draw(piece) for stream in candidate.streams]
            self.spent, candidate.drawn, drawn = self.spent + piece, candidate.drawn + piece, drawn + piece
            for stream in candidate.streams:
                require_outputs(stream)
            for closed in (True, False):
                candidate.book.closed = closed
                kept = found if closed else candidate.tables
                for side, output in enumerate(outputs):
                    kept[side].append(read(output, piece, candidate.book, vectorised=self.plan.target.vectorised))
        if self.progress is not None:
            self.progress(2 * self.spent, 2 * self.plan.budget)
        return Table.join(found[0]), Table.join(found[1])


def _score(x: int, y: int, trials: int, claim: Claim) -> float:
    """Returns by how much epsilon exceeds the claim, at the point where it does most."""
    low, _ = clopper_pearson(x, trials, confidence=1 - _LEVEL, side="lower")
    _, high = clopper_pearson(y, trials, confidence=1 - _LEVEL, side="upper")
    shown = [math.log((low - delta) / high) - epsilon for epsilon, delta in claim.points if low > delta]
    return max(shown, default=_FLOOR)


def require_outputs(stream: Stream) -> None:
    """Refuses a stream in which the target raised.

    Raises:
      TargetError: with the target's last error as its cause.
    """
    if stream.error is not None:
        text = " ".join(f"{type(stream.error).__name__}: {stream.error}".split())
        message = f"target raised in {stream.raised} of {stream.drawn} runs on d{stream.side} ({text})"
        raise TargetError(message) from stream.error


def child_seed(seed: int, *key: int) -> int:
    """Returns the seed of one purpose, independent of those of others and of the seed itself."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(1))
