"""Audits in one run: many canaries, each included in the training data or not by its own secret coin.

:meth:`OneRunDesign.draw` tosses the coins; the caller trains and scores anywhere; :func:`one_run_verdict` makes a
verdict of scores and coins. It guesses some coins from the scores alone: "in" for the highest scores, "out" for the
lowest, and no guess for the others. A private mechanism limits the number of right guesses, and
:mod:`hockeystick.audits.one_run.right_guesses` computes the limit exactly. The number of guesses is planned from the
claim alone, fixed by the caller, chosen on canaries that are not used otherwise, or taken from a fixed grid.

For several runs, give scores of shape (runs, canaries), with fresh coins for every run. Runs that share nothing but the
code are independent, and then some runs with few canaries show more than one run with all of them; see
:mod:`hockeystick.audits.one_run.several_runs`. If the runs may depend on one another (a warm start, a shared seed), a
coin still affects one run only, so all runs together are one mechanism that is equally private for each single coin:
with ``independent_runs=False`` the coins of all runs count like those of one run. Both hold even if the canaries of a
run interact. To treat them as independent samples of two laws, as
:func:`hockeystick.audits.bounds.two_counts.frontier` does, is valid only if they do not interact; see
:mod:`hockeystick.audits.one_run.model_based`.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from functools import lru_cache
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.validate import array, boolean, integer, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run.guess_bounds import (
    largest_refuted,
    one_run_epsilon_lower,
    one_run_mu_lower,
    one_run_p_value,
)
from hockeystick.audits.one_run.plan import planned_guesses
from hockeystick.audits.one_run.right_guesses import point_tail
from hockeystick.audits.one_run.several_runs import runs_tail
from hockeystick.audits.verdicts.fields import read_object

Rule = Literal["planned", "held-out", "grid"]

MOST_COINS = 100_000_000
ASSUMPTIONS = (
    "each canary is in the data by its own fair coin, tossed independently of everything else",
    "the claim's adjacency is to add or to remove one canary, whatever the other canaries are",
    "scores are a function of the output (and of randomness and canaries), not of the coins in any other way",
)
RUNS_ARE_INDEPENDENT = "the runs are independent: each has its own coins and randomness, and no run starts from another"
_PLANNED = ((1, 0.8), (0.5, 0.1), (2, 0.1))  # factors of the planned number of guesses, and their shares of the level
_SIZES = 14  # numbers of guesses that are tried on the choosing canaries, for each of three shapes
_LOOKS = 8  # points of a curve for which they are tried
_LEAST_GUESSES = 16  # of the grid


def _number(value: object) -> int:
    return integer("canaries or runs", value, low=1, high=MOST_COINS)


def _coins(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError("coins", value, "is not a string", "use OneRunDesign.draw(canaries)")
    return value


@frozen
class OneRunDesign:
    """The coins of an audit: the canaries that are included in the data of each run.

    Attributes:
      canaries: number of canaries in each run.
      runs: number of runs, each of which has its own coins.
      coins: one bit a canary, run after run, packed with the first in the highest bit, as hexadecimal digits.
      secure: whether the coins came from the operating system instead of a seeded generator.

    Raises:
      InvalidArgumentError: a number is out of range, or the coins have another length.

    Example:
      >>> from hockeystick.audits import OneRunDesign
      >>> design = OneRunDesign.draw(8, rng=3)
      >>> design.included.astype(int)
      array([[1, 1, 1, 1, 1, 0, 0, 0]])
      >>> OneRunDesign.from_json(design.to_json()) == design
      True
    """

    canaries: int = field(converter=_number)
    runs: int = field(converter=_number)
    coins: str = field(converter=_coins, repr=False)
    secure: bool

    def __attrs_post_init__(self) -> None:
        try:
            held = len(bytes.fromhex(self.coins))
        except ValueError:
            raise InvalidArgumentError("coins", self.coins, "is not hexadecimal") from None
        if held != (self.canaries * self.runs + 7) // 8:
            raise InvalidArgumentError("coins", self.coins, f"has {held} bytes", "give a bit for each canary and run")

    @classmethod
    def draw(cls, canaries: int, *, runs: int = 1, rng: int | np.random.Generator | None = None) -> OneRunDesign:
        """Tosses the coins.

        Args:
          canaries: number of canaries in each run; some thousands give most of the possible power.
          runs: number of training runs.
          rng: a seed or generator, for repeatable experiments; default: the operating system's generator.

        Raises:
          InvalidArgumentError: a number is out of range.
        """
        canaries = integer("canaries", canaries, low=1, high=MOST_COINS)
        runs = integer("runs", runs, low=1, high=MOST_COINS // canaries)
        size = (canaries * runs + 7) // 8
        if rng is None:
            return cls(canaries, runs, secrets.token_bytes(size).hex(), True)
        if not isinstance(rng, np.random.Generator):
            rng = np.random.default_rng(integer("rng", rng, low=0))
        return cls(canaries, runs, rng.bytes(size).hex(), False)

    @property
    def included(self) -> BoolArray:
        """The mask of included canaries, shape (runs, canaries)."""
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(self.coins), dtype=np.uint8))
        return bits[: self.runs * self.canaries].astype(bool).reshape(self.runs, self.canaries)

    def digest(self) -> str:
        """Returns a SHA-256 of the design, which identifies its scores."""
        return hashlib.sha256(f"{self.canaries}:{self.runs}:{self.coins}".encode()).hexdigest()

    def to_json(self) -> str:
        """Returns the design as JSON text. It has the coins, so keep it secret while the scores are computed."""
        return json.dumps({"schema": "one-run design 1", **attrs.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> OneRunDesign:
        """Returns the design from the text of :meth:`to_json`.

        Raises:
          InvalidArgumentError: ``text`` is not JSON, or not a design.
        """
        plain = _read(text, "one-run design 1", ("canaries", "runs", "coins", "secure"))
        if not isinstance(plain["secure"], bool):
            raise InvalidArgumentError("secure", plain["secure"], "is not True or False")
        return cls(**plain)

    def scores_to_json(self, scores: npt.ArrayLike) -> str:
        """Returns scores, shape (runs, canaries) or (canaries,) for one run, as JSON text with this design's digest."""
        found = array("scores", scores).reshape(-1)
        if found.size != self.runs * self.canaries:
            raise InvalidArgumentError("scores", found.size, "is not the number of coins", "give one score per coin")
        return json.dumps({"schema": "one-run scores 1", "design": self.digest(), "scores": found.tolist()})

    def scores_from_json(self, text: str) -> FloatArray:
        """Returns the scores from the text of :meth:`scores_to_json`, shape (runs, canaries).

        Raises:
          InvalidArgumentError: ``text`` is not JSON, has no scores, or has those of another design.
        """
        plain = _read(text, "one-run scores 1", ("design", "scores"))
        if plain["design"] != self.digest():
            raise InvalidArgumentError("design", plain["design"], "is the digest of another design")
        scores = array("scores", plain["scores"], shape=(self.runs * self.canaries,))
        return scores.reshape(self.runs, self.canaries)


@frozen
class OneRunVerdict:
    """The verdict of a one-run audit on a claim. An audit can refute a claim; it can't prove that one holds.

    See :func:`one_run_verdict` for an example.

    Attributes:
      refuted: whether the claim is refuted, at the stated confidence level.
      epsilon_claimed, delta: the claim, as stated.
      p_value: upper bound on the probability of as many right guesses (by the rule) if all points of the claim hold.
      epsilon_lower: lower bound on the true epsilon at ``delta``.
      confidence: confidence level: the least probability that a true claim is not refuted and ``epsilon_lower`` is not
        above the truth. It holds for both together, as both fail for large counts only.
      canaries: number of coins of all runs.
      counted: number of coins in the bound; the others chose the number of guesses.
      k_plus, k_minus: number of guesses "in" (the highest scores) and "out" (the lowest), in each of ``runs``.
      correct: number of right guesses, in all runs.
      rule: the choice of the numbers of guesses, in words.
      tests: number of tests, for which the level is corrected.
      share: share of the level 1 - ``confidence`` that is used for the test whose counts are shown.
      runs: number of independent runs; 1 if the coins of all runs count like those of one run.
      assumptions: the assumptions of the bound, in words.
    """

    refuted: bool
    epsilon_claimed: float
    delta: float
    p_value: float
    epsilon_lower: float
    confidence: float
    canaries: int
    counted: int
    k_plus: int
    k_minus: int
    correct: int
    rule: str
    tests: int = 1
    share: float = 1.0
    runs: int = 1
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def guesses(self) -> int:
        """The number of guesses, in all runs."""
        return (self.k_plus + self.k_minus) * self.runs

    def mu_lower(self) -> float:
        """Returns a lower bound on mu of Gaussian DP from the same guesses, at the same confidence level.

        No mechanism that is mu'-Gaussian-DP with a smaller mu' allows so many right guesses. This takes some seconds.
        """
        level = 1 - (1 - self.confidence) * self.share
        each = self.k_plus + self.k_minus, self.counted // self.runs
        return one_run_mu_lower(self.correct, *each, confidence=level, runs=self.runs)

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        claim = f"claim ({self.epsilon_claimed:g}, {self.delta:g})"
        lines = [
            f"{claim} is {'refuted' if self.refuted else 'not refuted'} (confidence {self.confidence:.10g}, "
            f"p-value {self.p_value:.3g})",
            f"{self.correct} of {self.guesses} guesses were right: {self.k_plus} in, {self.k_minus} out"
            f"{f' in each of {self.runs} independent runs' if self.runs > 1 else ''}, "
            f"{self.counted - self.guesses} of {self.counted} counted canaries without a guess",
            f"epsilon is at least {np.floor(self.epsilon_lower * 1e4) / 1e4:g} at delta={self.delta:g}",
            f"{self.canaries} canaries; {self.rule}",
        ]
        return "\n".join([*lines, *(f"assumption: {assumption}" for assumption in self.assumptions)])

    def __str__(self) -> str:
        return self.summary()


@guessing
def one_run_verdict(
    claim: Claim,
    scores: npt.ArrayLike,
    included: npt.ArrayLike,
    *,
    rule: Rule | tuple[int, int] = "planned",
    independent_runs: bool = True,
    share: float = 0.25,
    confidence: float = 0.999,
) -> OneRunVerdict:
    """Tests a claim on the scores of canaries that were included in the data by independent fair coins.

    The bound extends Steinke, Nasr & Jagielski (2023); see :mod:`hockeystick.audits.one_run.right_guesses`.

    Args:
      claim: one point or a whole curve, for adding or removing one canary.
      scores: one score a canary, higher if it seems to be included; shape (canaries,), or (runs, canaries) with fresh
        coins in each run. They must depend on the coins through the trained model only. In a tie, the canary that
        comes first counts as higher.
      included: whether each canary was included: bools (or 0 and 1) of the shape of ``scores``.
      rule: "planned" (the number that :class:`OneRunPlan` takes from the claim alone, at 80 % of the level; half and
        twice that number at 10 % each); "held-out" (a share of the canaries chooses the number of guesses for the
        others); "grid" (powers of two times the smallest number, equally many "in" and "out", each tested at its share
        of the level); or a pair (k_plus, k_minus) that was fixed before scores and coins were seen, for each run.
      independent_runs: whether the runs share nothing but the code; False if a run may depend on others, for example by
        a warm start. Then the canaries of all runs are ranked together, and ``rule`` is that of all of them.
      share: share of the canaries that choose for "held-out"; in (0, 0.5].
      confidence: confidence level, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain, a score is not finite, or there are too few canaries.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Claim, OneRunDesign, one_run_verdict
      >>> design = OneRunDesign.draw(1000, rng=1)
      >>> scores = design.included + np.random.default_rng(2).laplace(scale=0.5, size=(1, 1000))  # epsilon = 2
      >>> verdict = one_run_verdict(Claim(0.5), scores, design.included)
      >>> verdict.refuted, round(verdict.epsilon_lower, 1)
      (True, 1.8)
    """
    if not isinstance(claim, Claim):
        raise InvalidArgumentError("claim", claim, "is not a claim", "give Claim(epsilon, delta) or Claim.curve(...)")
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    share = real("share", share, low=0.0, high=0.5, low_open=True)
    independent_runs = boolean("independent_runs", independent_runs)
    s, inside = read_canaries(scores, included)
    if not independent_runs:
        s, inside = s.reshape(1, -1), inside.reshape(1, -1)
    chosen, counts, words = _tests(claim, s, inside, rule, share, confidence)
    s, inside = s[:, counts], inside[:, counts]

    runs, canaries = s.shape
    ordered = np.take_along_axis(inside, np.argsort(-s, axis=1, kind="stable"), axis=1)
    found = []
    for plus, minus, part in chosen:
        correct, each = _correct(ordered, plus, minus), plus + minus
        level = 1 - (1 - confidence) * part
        bound = one_run_epsilon_lower(correct, each, canaries, delta=claim.delta, confidence=level, runs=runs)
        p_value = one_run_p_value(correct, each, canaries, claim.points, runs=runs) if each else 1.0
        found.append((p_value / part, -bound, plus, minus, correct, part))
    p_value, _, plus, minus, correct, part = min(found)
    return OneRunVerdict(
        refuted=p_value <= 1 - confidence,
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        p_value=min(1.0, p_value),
        epsilon_lower=max(-bound for _, bound, *_ in found),
        confidence=confidence,
        canaries=np.size(scores),
        counted=s.size,
        k_plus=plus,
        k_minus=minus,
        correct=correct,
        rule=words,
        tests=len(chosen),
        share=part,
        runs=runs,
        assumptions=(*ASSUMPTIONS, RUNS_ARE_INDEPENDENT) if runs > 1 else ASSUMPTIONS,
    )


def _tests(
    claim: Claim, s: FloatArray, inside: BoolArray, rule: object, share: float, confidence: float
) -> tuple[list[tuple[int, int, float]], BoolArray, str]:
    """Returns (k_plus, k_minus, share of the level) of each test, the mask of the canaries that count, and words."""
    runs, total = s.shape
    every = np.ones(total, dtype=bool)
    if rule == "planned":
        best = planned_guesses(claim.points, total, runs, confidence)
        sizes: dict[int, float] = {}
        for factor, part in _PLANNED:
            size = min(total, max(1, round(best * factor)))
            sizes[size] = sizes.get(size, 0.0) + part
        words = f"the number of guesses was planned from the claim alone; the best of {len(sizes)} numbers, corrected"
        return [(size - size // 2, size // 2, part) for size, part in sizes.items()], every, words
    if rule == "held-out":
        if total < 8:
            raise InvalidArgumentError(
                "scores", total, "is too small a number to hold canaries out", "give rule=(k_plus, k_minus)"
            )
        chooser = np.arange(total) % round(1 / share) == 0
        pair = _choose(claim, s[:, chooser], inside[:, chooser], int(np.sum(~chooser)), 1 - confidence)
        return [(*pair, 1.0)], ~chooser, "the number of guesses was chosen on the other canaries"
    if rule == "grid":
        halves = [total // 2 >> i for i in range(64) if total // 2 >> i >= _LEAST_GUESSES // 2] or [total // 2]
        pairs = [(half, half) for half in halves if half] or [(1, 0)]
        words = f"the best of {len(pairs)} numbers of guesses, corrected for multiple tests"
        return [(*pair, 1 / len(pairs)) for pair in pairs], every, words
    if isinstance(rule, tuple) and len(rule) == 2:
        plus = integer("k_plus", rule[0], low=0, high=total)
        minus = integer("k_minus", rule[1], low=0, high=total - plus)
        return [(plus, minus, 1.0)], every, "the number of guesses was fixed beforehand"
    raise InvalidArgumentError("rule", rule, "is not a rule", 'give "planned", "held-out", "grid" or (k_plus, k_minus)')


def _correct(ordered: BoolArray, plus: int, minus: int) -> int:
    """Returns the number of right guesses, for the coins of each run in order of decreasing score."""
    return int(np.sum(ordered[:, :plus]) + np.sum(~ordered[:, ordered.shape[1] - minus :]))


def _choose(claim: Claim, s: FloatArray, inside: BoolArray, counted: int, alpha: float) -> tuple[int, int]:
    """Returns the pair (k_plus, k_minus) for ``counted`` canaries a run with the largest predicted excess.

    For one run, the prediction is the bound on epsilon from these canaries at one of the claimed deltas; for several,
    the p-value, which takes less time. The verdict is valid for any pair.
    """
    ordered = np.take_along_axis(inside, np.argsort(-s, axis=1, kind="stable"), axis=1)
    runs, held = s.shape
    scale = held / counted
    sizes = np.unique(np.geomspace(min(_LEAST_GUESSES, counted), counted, _SIZES).astype(int)).tolist()
    shapes = [pair for size in sizes for pair in ((size - size // 2, size // 2), (size, 0), (0, size))]
    step = -(-len(claim.also) // _LOOKS)
    points = ((claim.epsilon, claim.delta), *(claim.also[step // 2 :: step] if claim.also else ()))
    best = (-math.inf, 1, 0)
    for plus, minus in shapes:
        tried = round(plus * scale), round(minus * scale)
        tried = tried[0], min(tried[1], held - tried[0])
        made, size = sum(tried) * runs, (plus + minus) * runs
        if made:
            rate = (made - _correct(ordered, *tried) + 0.7) / (made + 1)
            wrong = min(size, math.ceil(size * rate))
            if runs > 1:
                right = size - wrong
                foreseen = -runs_tail(right, runs, plus + minus, counted, claim.points, curve=False)
            else:
                foreseen = max(_foreseen(wrong, size, counted, delta, alpha) - e for e, delta in points)
            best = max(best, (foreseen, plus, minus))
    return best[1:]


@lru_cache(maxsize=1 << 14)
def _foreseen(wrong: int, guesses: int, canaries: int, delta: float, alpha: float) -> float:
    """Returns an approximation of the bound on epsilon at ``delta``."""
    if point_tail(wrong, guesses, canaries, 0.0, delta) > alpha:
        return 0.0
    return largest_refuted(lambda e: point_tail(wrong, guesses, canaries, e, delta) <= alpha, 30.0, precision=1e-2)


def read_canaries(scores: object, included: object) -> tuple[FloatArray, BoolArray]:
    """Returns scores and coins as arrays of shape (runs, canaries).

    Raises:
      InvalidArgumentError: the shapes differ, there are no canaries, a score is not finite, or a coin is not 0 or 1.
    """
    s = array("scores", scores)
    if s.ndim not in (1, 2) or not s.size:
        raise InvalidArgumentError("scores", scores, f"has shape {s.shape}", "give (canaries,) or (runs, canaries)")
    inside = np.asarray(included)
    if inside.dtype != np.bool_:
        bits = array("included", included, low=0, high=1)
        if np.any(bits != np.round(bits)):
            raise InvalidArgumentError("included", included, "holds values other than 0 and 1")
        inside = bits.astype(bool)
    if inside.shape != s.shape:
        raise InvalidArgumentError("included", included, f"has shape {inside.shape}", f"give shape {s.shape}")
    return np.atleast_2d(s).astype(float), np.atleast_2d(inside)


def _read(text: object, schema: str, names: tuple[str, ...]) -> dict[str, Any]:
    plain = read_object(text)
    if plain.pop("schema", None) != schema or set(plain) != set(names):
        raise InvalidArgumentError("text", text, f"is not a {schema}")
    return plain
