"""The audit of neighbours found by a search: a valid bound after any number of searched pairs.

The audited pair is a function of the search's samples alone, and the audit draws its own samples from generators that
the search never used. Given the pair, the audit is the same as for a pair fixed in advance: it refutes a true claim
with probability at most 1 - confidence. So this also holds unconditionally, for every rule and length of the search. If
there are K finalists, each is audited at 1 - (1 - confidence)/K, and by the union bound all statements hold together.

As for every audit, the target's outputs have to be independent given its data and generator. A target that remembers
the search's calls violates this.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.drawing.warnings_once import once
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.neighbours.domains import Domain
from hockeystick.audits.neighbours.journal import Journal
from hockeystick.audits.neighbours.pairs import NeighbourPair
from hockeystick.audits.neighbours.search import MOST_SEARCHED, Progress, SearchPlan, SearchResult
from hockeystick.audits.targets.calling import child_seed, known_seed
from hockeystick.audits.verdicts.pairs import short_text
from hockeystick.audits.verdicts.verdict import Verdict

_AUDITS = 2  # purpose of the derived seeds; the search has other purposes
_NEUTRAL = ("workers", "backend", "address")  # options that do not affect the result


@frozen(eq=False)
class SearchedAudit:
    """The verdicts on the pairs that a search found.

    See :func:`audit_with_search` for an example.

    Attributes:
      search: the result of the search, whose samples are in no verdict.
      pairs, verdicts: the finalists and a verdict on each.
      confidence: confidence level of all verdicts together.
    """

    search: SearchResult
    pairs: tuple[NeighbourPair, ...]
    verdicts: tuple[Verdict, ...]
    confidence: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, at the stated confidence level."""
        return any(verdict.refuted for verdict in self.verdicts)

    @property
    def strongest(self) -> int:
        """The number of the finalist with the strongest evidence against the claim."""
        return max(range(len(self.verdicts)), key=lambda i: (self.verdicts[i].refuted, self.verdicts[i].epsilon_lower))

    @property
    def verdict(self) -> Verdict:
        """The verdict with the strongest evidence against the claim."""
        return self.verdicts[self.strongest]

    @property
    def pair(self) -> NeighbourPair:
        """The data sets of :attr:`verdict`."""
        return self.pairs[self.strongest]

    def __str__(self) -> str:
        found = self.search
        return (
            f"searched {len(found.pairs)} pairs with {found.samples} samples from each data set, "
            f"audited {len(self.verdicts)} at a joint confidence of {self.confidence:.10g}\n"
            f"d0 = {short_text(self.pair.d0)}\nd1 = {short_text(self.pair.d1)}\n{self.verdict}"
        )


@once()
@guessing
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
    timeout: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SearchedAudit:
    """Searches for the worst neighbours, then audits the best pair, or the best few, with new samples.

    A true claim is refuted with probability at most 1 - confidence, over the search and all audits together, for any
    number of searched pairs; see the module's docstring.

    Args:
      target, domain, claim, adjacency, group, samples_per_pair, rounds, exceptions_as_output, timeout: as in
        :func:`hockeystick.audits.neighbours.search.search_neighbours`.
      search_samples: number of outputs that the search draws from each data set, at most 10^9.
      samples: number of outputs that the audit of each finalist draws from each data set, at most 10^9.
      finalists: number of pairs to audit. Each has an equal share of 1 - confidence.
      confidence: confidence level of all verdicts together, in (0.5, 1).
      rng: a seed, or a generator that draws one; default: a fresh seed.
      checkpoint: a file that stores the progress of the search, and then the verdicts; a second file beside it stores
        that of the current audit. If the file exists, the same call resumes from it, with the same result. Both files
        are removed at the end.
      progress: called as ``progress(done, total)``, for the search first, then for each audit.
      options: further arguments of :func:`hockeystick.audits.audit`.

    Raises:
      InvalidArgumentError, NotNeighboursError, TargetError: as in the search and the audit.
      KeyboardInterrupt: the search or an audit was interrupted.

    Example:
      >>> import hockeystick as hs
      >>> from hockeystick.audits import FiniteRecords, audit_with_search
      >>> def leaky(data, rng, runs):  # noisy counts, but exact for the record 8
      ...     return len(data) + rng.laplace(0.0, 1.0, runs) * (8 not in data)
      >>> found = audit_with_search(
      ...     leaky, FiniteRecords(values=range(10)), hs.Claim(1.0),
      ...     adjacency=hs.accounting.Adjacency.ADD_OR_REMOVE_ONE, search_samples=8000, samples=2000, rng=1)
      >>> found.refuted, 8 in found.pair.d0 + found.pair.d1
      (True, True)
    """
    refused = {"neighbours", "claim"} & options.keys()
    if refused:
        raise InvalidArgumentError("options", sorted(refused), "are set by the search", "leave them out")
    count = integer("finalists", finalists, low=1)
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    samples = integer("samples", samples, low=MINIMUM_SAMPLES, high=MOST_SEARCHED)
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
        timeout=timeout,
    )
    journal = None
    if checkpoint is not None:
        given = {name: not callable(value) and value for name, value in sorted(options.items()) if name not in _NEUTRAL}
        key = plan.digest(samples, count, confidence, given)
        journal = Journal.at(checkpoint, key, None if rng is None else known_seed(rng))
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
                timeout=timeout,
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
    """Returns the path of the checkpoint of an audit."""
    return journal.with_name(journal.name + ".audit")
