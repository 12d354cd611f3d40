"""The audit of neighbours that a search found: any number of pairs searched, one bound.

The pair to be audited is a function of the search's samples alone, and the audit draws its own from generators that
the search never had. Given the pair, the audit is what it would be for a pair fixed in advance: it refutes a true claim
with probability at most 1 - confidence, and so it does without the condition, whatever was searched, for how long, and
by whatever rule. With K finalists each is audited at 1 - (1 - confidence)/K, and by the union bound the statements
about all of them hold together.

As for every audit, the target's outputs have to be independent given its data and generator: one that remembers the
search's calls is not what is audited.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.neighbours.domains import Domain
from hockeystick.audits.neighbours.journal import Journal
from hockeystick.audits.neighbours.pairs import NeighbourPair
from hockeystick.audits.neighbours.search import Progress, SearchPlan, SearchResult, child_seed
from hockeystick.audits.targets.calling import known_seed
from hockeystick.audits.verdicts.verdict import Verdict

_AUDITS = 2  # what seeds are derived for; the search has others
_HANDS = ("workers", "backend", "address")  # who draws changes no result


@frozen(eq=False)
class SearchedAudit:
    """The verdicts on the pairs that a search found.

    Attributes:
      search: the search; its samples are in no verdict.
      pairs, verdicts: the finalists and a verdict on each.
      confidence: with which all verdicts hold together.
    """

    search: SearchResult
    pairs: tuple[NeighbourPair, ...]
    verdicts: tuple[Verdict, ...]
    confidence: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is wrong, at the stated confidence."""
        return any(verdict.refuted for verdict in self.verdicts)

    @property
    def strongest(self) -> int:
        """The number of the finalist that says most against the claim."""
        return max(range(len(self.verdicts)), key=lambda i: (self.verdicts[i].refuted, self.verdicts[i].epsilon_lower))

    @property
    def verdict(self) -> Verdict:
        """The verdict that says most against the claim."""
        return self.verdicts[self.strongest]

    @property
    def pair(self) -> NeighbourPair:
        """The data sets it is about."""
        return self.pairs[self.strongest]

    def __str__(self) -> str:
        found = self.search
        return (
            f"searched {len(found.pairs)} pairs with {found.samples} samples from each data set, "
            f"audited {len(self.verdicts)} at a joint confidence of {self.confidence:.10g}\n"
            f"d0 = {_short(self.pair.d0)}\nd1 = {_short(self.pair.d1)}\n{self.verdict}"
        )


def audit_with_search(
    target: object,
    domain: Domain,
    claim: Claim,
    *,
    adjacency: Adjacency,
    group: int = 1,
    search_samples: int = 100_000,
    samples: int = 100_000,
    samples_per_pair: int = 400,
    rounds: int = 4,
    finalists: int = 1,
    confidence: float = 0.999,
    rng: int | np.random.Generator | None = None,
    exceptions_as_output: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SearchedAudit:
    """Searches for the worst neighbours, then audits the best pair, or the best few, with samples of their own.

    A true claim is refuted with probability at most 1 - confidence, over the search and all audits together, however
    many pairs were searched; see the module's docstring.

    Args:
      search_samples: outputs that the search draws from each data set; see
        :func:`hockeystick.audits.neighbours.search.search_neighbours`.
      samples: outputs that the audit of each finalist draws from each data set.
      finalists: pairs to audit. Each gets an equal share of 1 - confidence.
      confidence: of all verdicts together, in (0.5, 1).
      checkpoint: a file in which the search, and then the verdicts, are kept, beside it one for the audit that is under
        way. If it is there, the same call goes on from it, and finds what it would have found at once; all is removed
        at the end.
      options: further arguments of :func:`hockeystick.audits.audit`.
      progress: called for the search first, then for each audit.

    Raises:
      InvalidArgumentError, NotNeighboursError, TargetError: as the search and the audit do.
      KeyboardInterrupt: also during the search, of which :func:`hockeystick.audits.neighbours.search.search_neighbours`
        gives the best pairs so far.
    """
    refused = {"neighbours", "claim"} & options.keys()
    if refused:
        raise InvalidArgumentError("options", sorted(refused), "are what the search gives")
    count = integer("finalists", finalists, low=1)
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    samples = integer("samples", samples, low=MINIMUM_SAMPLES)
    plan = SearchPlan.checked(
        target,
        domain,
        claim,
        adjacency=adjacency,
        group=group,
        samples=search_samples,
        samples_per_pair=samples_per_pair,
        rounds=rounds,
        exceptions_as_output=exceptions_as_output,
    )
    journal = None
    if checkpoint is not None:
        chosen = {name: not callable(value) and value for name, value in sorted(options.items()) if name not in _HANDS}
        asked = plan.digest(samples, count, confidence, chosen)
        journal = Journal.at(checkpoint, asked, None if rng is None else known_seed(rng))
    found = plan.search(known_seed(rng) if journal is None else journal.seed, journal, progress)
    if found.interrupted:
        raise KeyboardInterrupt
    pairs = tuple(rated.pair for rated in found.pairs[:count])
    verdicts = []
    for number, pair in enumerate(pairs):
        verdict = None if journal is None else journal.verdicts.get(number)
        if verdict is None:
            verdict = audit(
                target,
                claim=claim,
                neighbours=(pair.d0, pair.d1),
                samples=samples,
                rng=child_seed(found.seed, _AUDITS, number),
                confidence=1 - (1 - confidence) / len(pairs),
                exceptions_as_output=exceptions_as_output,
                checkpoint=None if journal is None else _beside(journal.path),
                progress=progress,
                **options,
            )
            if journal is not None:
                journal.keep_verdict(number, verdict)
        verdicts.append(verdict)
    if journal is not None:
        journal.remove()
    return SearchedAudit(found, pairs, tuple(verdicts), confidence)


def _beside(journal: Path) -> Path:
    """Where an audit is kept while it runs."""
    return journal.with_name(journal.name + ".audit")


def _short(data: Any) -> str:
    text = " ".join(repr(data).split())
    return text if len(text) <= 100 else text[:97] + "..."
