"""One audit of several pairs of neighbours: the worst pair is chosen by successive halving, then tested alone.

The null hypothesis is that the claim holds on all pairs, so one refuted pair refutes it. Up to half of the outputs
choose: in each round all pairs that are left get equally many, and the better half stays (Karnin, Koren and Somekh
2013). All other outputs go to the last pair. The choice is a function of the choosing outputs alone, so the test of
that pair has the whole level, for any number of pairs.

The first 2,000 outputs of each pair, or those of the first round if these are fewer but at least 500, are also a first
look: each of its audits is complete, at an equal share of a twentieth of 1 - ``confidence``. The audit ends with the
first pair that it refutes. Otherwise the last pair has the other nineteen twentieths. By the union bound a true claim
is refuted with probability at most 1 - ``confidence`` in all.

Pairs are ranked by the excess of right guesses in standard errors. Take the chosen events as guesses of the data set.
Under a claim (epsilon, delta) in both orders, of g guesses in n outputs from each data set, at most

    p0 g + (1 - p0) delta n,    p0 = e^epsilon / (1 + e^epsilon),

are right on average. A pair also stays while an event happened at least three times on one data set and never on the
other, so that a rare leak is not dropped for its small share.

Pairs may have claims of their own: of groups of several sizes, say, or of users with their own epsilons. The null
hypothesis is then that all of these claims hold. Nothing above changes, as every audit is of one pair and its claim,
and standard errors compare pairs whatever their claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.targets.calling import child_seed
from hockeystick.audits.verdicts.pairs import PairStanding, claim_words
from hockeystick.audits.verdicts.verdict import CONSTANT, Verdict

_SHARE = 1 / 20  # of the level, for all audits of the first round together
_FIRST = 2000  # outputs of a pair in the first round, where the caller gave no number
_MOST = 16 * _FIRST  # outputs for each pair, on average over all pairs, that choose
_LEAST = 64  # outputs of a pair in a round: fewer choose no event
_LEAST_LOOK = 500  # outputs of a pair with which its first audit may end the whole
_RATING = 0.1  # level at which an audit chooses events, if it can't end the whole
_SEEN = 3  # times that an event happened, of those that keep a pair
_DEFAULT = 1_000_000  # outputs of an audit whose caller gave no number, at most
_PAIRS = 3  # purpose of the derived seeds; those of searches differ

Run = Callable[..., Verdict]
Pairs = tuple[tuple[Any, Any], ...]


def given_pairs(neighbours: object) -> Pairs | None:
    """Returns the pairs of a list of pairs; None for anything but a list.

    Raises:
      InvalidArgumentError: it is a list, but not of pairs.
    """
    if not isinstance(neighbours, list):
        return None
    if neighbours and all(isinstance(pair, tuple) and len(pair) == 2 for pair in neighbours):
        return tuple(neighbours)
    raise InvalidArgumentError(
        "neighbours",
        f"<list of {len(neighbours)}>",
        "is a list, but not of pairs",
        "give a tuple (d0, d1) of two data sets, or a list [(a, b), (c, d), ...] of pairs of them",
    )


def claims_by_pair(claim: object, pairs: Pairs | None) -> tuple[Claim, ...]:
    """Returns the claims of a list of them, one for each pair; none for one claim about all pairs.

    A list of numbers is one claim, (epsilon, delta).

    Raises:
      InvalidArgumentError: there are no several pairs, or not as many claims as pairs, or one is not a claim.
    """
    if not isinstance(claim, list) or all(isinstance(one, (int, float)) for one in claim):
        return ()
    if pairs is None or len(pairs) != len(claim):
        reason = f"is a list of {len(claim)} claims for {'one pair' if pairs is None else f'{len(pairs)} pairs'}"
        raise InvalidArgumentError("claim", f"<list of {len(claim)}>", reason, "give one claim, or one for each pair")
    return tuple(Claim.of(one) for one in claim)


def audit_pairs(
    run: Run,
    pairs: Pairs,
    *,
    samples: int | None,
    confidence: float,
    seed: int,
    first_look: bool,
    last: dict[str, Any],
    claims: tuple[Claim, ...] = (),
) -> Verdict:
    """Returns the verdict on several pairs.

    Args:
      run: audits one pair; it takes the arguments ``neighbours``, ``samples``, ``confidence``, ``rng`` and
        ``first_look`` of :func:`hockeystick.audits.audit`, those in ``last``, and ``claim`` if there are ``claims``.
      pairs: the pairs.
      claims: the claim of each pair; none for one that ``run`` knows.
      samples: number of outputs from each data set, over all pairs; None for the default of each audit.
      confidence: joint confidence level.
      seed: seed of all random numbers.
      first_look: whether the audit may end in the first round.
      last: further arguments for the audit of the last pair.

    Raises:
      InvalidArgumentError: there are too few samples for so many pairs.
    """
    alpha, count = 1 - confidence, len(pairs)
    rounds = _rounds(count, samples)
    looking = first_look and rounds[0][0] >= _LEAST_LOOK * count
    alive, drawn = list(range(count)), 0
    standings = [PairStanding.of(pair) for pair in pairs]
    own: list[dict[str, Any]] = [{} for _ in pairs]
    if claims:
        own = [{"claim": claim} for claim in claims]
        standings = [evolve(one, claim=claim_words(claim)) for one, claim in zip(standings, claims, strict=True)]
    tallies, constant = [_Tally() for _ in pairs], True
    for number, (size, halved) in enumerate(rounds):
        each, look = size // len(alive), looking and number == 0
        if each < _LEAST:  # more pairs stayed than half of them
            break
        level = _SHARE * alpha / count if look else _RATING
        for j in alive:
            rng = child_seed(seed, _PAIRS, number, j)
            verdict = run(neighbours=pairs[j], samples=each, confidence=1 - level, rng=rng, first_look=False, **own[j])
            drawn += each
            constant = constant and verdict.constant
            tallies[j] = tallies[j].more(verdict)
            standings[j] = evolve(standings[j], samples=standings[j].samples + each, excess=tallies[j].excess)
            if look and verdict.refuted:
                return _joint(verdict, confidence, seed, standings, j, drawn, max(samples or _DEFAULT, drawn))
        if halved:
            ranked = sorted(alive, key=lambda j: -tallies[j].excess)
            better = ranked[: (len(ranked) + 1) // 2]
            alive = [j for j in alive if j in better or tallies[j].one_sided]
    chosen = max(alive, key=lambda j: tallies[j].excess)
    verdict = run(
        neighbours=pairs[chosen],
        samples=None if samples is None else samples - drawn,
        confidence=1 - alpha * (1 - _SHARE if looking else 1),
        rng=child_seed(seed, _PAIRS, len(rounds), chosen),
        first_look=False,
        **own[chosen],
        **last,
    )
    standings[chosen] = evolve(standings[chosen], samples=standings[chosen].samples + verdict.samples)
    total = drawn + verdict.samples
    if verdict.constant and not constant:  # other pairs had other outputs
        verdict = evolve(verdict, constant=False, warnings=tuple(w for w in verdict.warnings if w != CONSTANT))
    return _joint(verdict, confidence, seed, standings, chosen, total, drawn + verdict.planned)


@frozen
class _Tally:
    """Guesses of a pair over all rounds; see the module's docstring.

    Attributes:
      surplus: right guesses beyond those that the tested points allow on average.
      guesses: number of guesses.
      one_sided: whether the last round had an event that was seen on one data set alone.
    """

    surplus: float = 0.0
    guesses: int = 0
    one_sided: bool = False

    def more(self, verdict: Verdict) -> _Tally:
        """Returns the tally with another round."""
        counts = ((verdict.count_p, verdict.count_q), (verdict.count_back_p, verdict.count_back_q))
        right = sum(here for here, _ in counts)
        guesses = right + sum(there for _, there in counts)
        allowed = 1 / (1 + math.exp(-verdict.epsilon_tested))
        leaks = (1 - allowed) * verdict.delta_tested * verdict.trials
        return _Tally(
            surplus=self.surplus + right - allowed * guesses - leaks,
            guesses=self.guesses + guesses,
            one_sided=any(here >= _SEEN and there == 0 for here, there in counts),
        )

    @property
    def excess(self) -> float:
        """The surplus in standard errors."""
        return self.surplus / math.sqrt(self.guesses + 1)


def _rounds(count: int, samples: int | None) -> list[tuple[int, bool]]:
    """Returns the number of outputs of each round, over all pairs, and whether the better half is taken after it."""
    alive = [math.ceil(count / 2**number) for number in range(max(1, math.ceil(math.log2(count))))]
    if samples is None:
        return [(_FIRST * count, True) for _ in alive]
    part = 4 if count <= 2 else 2
    budget = min(samples // part, _MOST * count)
    if budget < _LEAST * count:
        least = part * _LEAST * count
        raise InvalidArgumentError(
            "samples", samples, f"is too small a number for {count} pairs", f"give at least {least}"
        )
    sizes = [max(_LEAST * left, budget // len(alive)) for left in alive]
    sizes = [size for size, total in zip(sizes, np.cumsum(sizes).tolist(), strict=True) if total <= budget]
    look = _FIRST * count
    first = [(look, False), (sizes[0] - look, True)] if sizes[0] > 2 * look else [(sizes[0], True)]
    return [*first, *((size, True) for size in sizes[1:])]


def _joint(
    verdict: Verdict, confidence: float, seed: int, standings: list[PairStanding], chosen: int, drawn: int, planned: int
) -> Verdict:
    return evolve(
        verdict,
        confidence=confidence,
        level=1 - verdict.confidence,
        seed=seed,
        samples=drawn,
        planned=planned,
        pair=chosen + 1,
        pairs=tuple(standings),
    )
