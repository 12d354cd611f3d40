"""An audit by a coin walk: outputs of a target, drawn by coins, and the verdict on its claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field
from scipy import special

from hockeystick.audits.attacks.classifiers import Attack
from hockeystick.audits.bounds.side_guesses import GuessWalk
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import Progress
from hockeystick.audits.drawing.late_nones import LateNones, Values
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Codebook, Layout, Table, read
from hockeystick.audits.targets.calling import Stream, Target, refuse_raised
from hockeystick.audits.verdicts.verdict import Verdict
from hockeystick.audits.walk.engine import Game, Pair, Played, replayed

_PURPOSE = 4  # of the streams, apart from those of other audits with the same seed
_COINS = (2, 2)  # spawn key of the coins; the keys of the outputs' streams begin with 0 or 1
_SHARE_OF_BOUND = 0.05  # of the level, for the bound on epsilon if the claim is a curve
_BELOW, _ABOVE, _FINE = 16, 60, 1.05  # steps below and above a claimed epsilon; the factor between those above
_DELTAS = 40  # steps from a claimed delta to 1
_POWER = 0.9  # of the detectable epsilon


@define(eq=False)
class TargetTrials:
    """Outputs of a target; see :class:`hockeystick.audits.walk.engine.Trials`.

    Attributes:
      constant: the value of all outputs so far; None if there are several.
    """

    target: Target
    streams: tuple[Stream, Stream]
    book: Codebook = field(factory=Codebook, init=False)
    constant: OneValue | None = field(default=None, init=False)
    _numbers: int = field(default=1, init=False)
    _nones: LateNones = field(factory=LateNones, init=False)

    @classmethod
    def of(cls, target: Target, data: tuple[Any, Any], seed: int) -> TargetTrials:
        """Returns the outputs of a target on two data sets, as a seed fixes them."""
        d0, d1 = data
        return cls(target, (Stream(target, d0, seed, 0, _PURPOSE), Stream(target, d1, seed, 1, _PURPOSE)))

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of all outputs so far."""
        return tuple(self.book.layouts)

    def draw(self, sizes: tuple[int, int]) -> Pair:
        """Returns so many fresh outputs of each data set; None where there are none."""
        before = sum(stream.drawn for stream in self.streams)
        drawn = self._side(0, sizes[0]), self._side(1, sizes[1])
        for table in drawn:
            if table is None:
                continue
            if not before:
                self.constant, before = OneValue.of((table, table)), table.runs
            elif self.constant is not None and self.constant.count(table, {})[1]:
                self.constant = None
        return drawn

    def check(self) -> None:
        """Checks that the outputs did not turn into None.

        Raises:
          TargetError: they did.
        """
        self._nones.check()

    def _side(self, side: int, runs: int) -> Table | None:
        stream, found, nothing = self.streams[side], [], Values()
        while runs:
            size = min(runs, stream.next_size(self._numbers)) if self.target.vectorised else runs
            start, outputs = stream.drawn, stream.draw(size)
            if stream.error is not None:
                raised = self.streams[0].raised, self.streams[1].raised
                refuse_raised(raised, stream.drawn, stream.error, vectorised=self.target.vectorised)
            values = Values.of(outputs, size)
            self._nones.add(0, start, (values, nothing) if side == 0 else (nothing, values))
            found.append(read(outputs, size, self.book, vectorised=self.target.vectorised))
            self._numbers = max(self._numbers, found[-1].numbers)
            runs -= size
        return Table.join(found) if found else None


def walked(
    target: Target,
    data: tuple[Any, Any],
    claim: Claim,
    *,
    confidence: float,
    samples: int,
    seed: int,
    whole: bool,
    grid: float | None,
    attack: Attack,
    progress: Progress | None,
) -> Verdict:
    """Returns the verdict of a coin walk, without warnings and the time that it took.

    Args:
      target: to call for outputs.
      data: the two data sets.
      claim, confidence, samples, grid, attack, progress: as in :func:`hockeystick.audits.audit`, checked.
      seed: of all random numbers.
      whole: whether to draw all outputs even if the claim is refuted before.
    """
    alpha, total = 1 - confidence, 2 * samples
    level = alpha * (1 - _SHARE_OF_BOUND) if claim.also else alpha
    trials = TargetTrials.of(target, data, seed)
    coins = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_COINS))
    report: Callable[[int], object] | None = None if progress is None else lambda done: progress(done, total)
    game = Game(trials, claim, total, GuessWalk(level), coins, grid, attack, seed, whole, report)
    played = game.play()
    trials.check()
    bound = _epsilon(played, claim, alpha * _SHARE_OF_BOUND if claim.also else alpha)
    refuted = (played.walk.refuted and bool(claim.also or bound >= claim.epsilon)) or bound > claim.epsilon
    return _verdict(played, claim, samples, seed, confidence, refuted, bound, trials.constant is not None)


def _epsilon(played: Played, claim: Claim, alpha: float) -> float:
    """Returns a lower bound on epsilon at the stated delta, by a ladder in which each value has its own budget.

    The ladder is fixed by the claim, and has the claimed value: the claim counts as refuted only if all values up to it
    are. So one level covers the refutation and the bound.
    """
    low = claim.epsilon * np.arange(_BELOW) / _BELOW if claim.epsilon else np.empty(0)
    high = claim.epsilon + 0.05 * (_FINE ** np.arange(1, _ABOVE + 1) - 1) / (_FINE - 1)
    found = 0.0
    for value in [*low.tolist(), claim.epsilon, *high.tolist()]:
        if not replayed(played.batches, (value, claim.delta), alpha):
            break
        found = value
    return float(found)


def _delta(played: Played, claim: Claim, alpha: float) -> float:
    """Returns a lower bound on delta at the claimed epsilon, of a refuted claim; by a ladder too."""
    found = claim.delta
    for step in range(1, _DELTAS):
        value = claim.delta + (1 - claim.delta) * step / _DELTAS
        if not replayed(played.batches, (claim.epsilon, value), alpha):
            break
        found = value
    return found


def _detectable(played: Played, alpha: float) -> float:
    """Returns the least epsilon of randomised response on the guessed outputs that is refuted with probability 0.9."""
    guesses, trials = sum(batch.guesses for batch in played.batches), sum(batch.trials for batch in played.batches)
    if not guesses:
        return math.inf
    point = played.batches[-1].point
    needed = GuessWalk(alpha).planned(guesses, trials, epsilon=point[0], delta=point[1]).needed
    if needed > guesses:
        return math.inf
    right = float(special.betaincinv(needed, guesses - needed + 1, _POWER))
    return max(point[0], float(special.logit(right)))


def _verdict(
    played: Played,
    claim: Claim,
    samples: int,
    seed: int,
    confidence: float,
    refuted: bool,
    bound: float,
    constant: bool,
) -> Verdict:
    alpha, batches, scores, table = 1 - confidence, played.batches, played.scores, played.table
    point = batches[-1].point if batches else claim.points[0]
    found = _detectable(played, alpha)
    blind = found > max(2 * point[0], point[0] + 0.1)
    trials = max(1, *played.counted)
    shown = ("no output", "") if scores is None else (scores.words(0), scores.words(1))
    return Verdict(
        outcome="refuted" if refuted else "inconclusive" if blind else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=bound,
        confidence=confidence,
        samples=-(-sum(played.drawn) // 2),
        timed=False,
        direction="d0->d1",
        event=shown[0],
        count_p=int(table[0, 0]),
        count_q=int(table[1, 0]),
        trials=trials,
        epsilon_tested=point[0],
        delta_tested=point[1],
        detectable_epsilon=found,
        float_leak=False,
        bits=False,
        seed=seed,
        seconds=0.0,
        event_probability=(int(table[1, 0]) + 1) / (played.counted[1] + 1),
        event_back=shown[1],
        count_back_p=int(table[1, 1]),
        count_back_q=int(table[0, 1]),
        delta_lower=_delta(played, claim, alpha) if refuted and not claim.also else 0.0,
        planned=samples,
        constant=constant,
        guesses=sum(batch.guesses for batch in batches),
        right_guesses=sum(batch.right for batch in batches),
    )
