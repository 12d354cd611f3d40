"""An audit by a coin walk: outputs of a target, drawn by coins, and the verdict on its claim.

*First look.* If there are at least 12,000 outputs from each data set, the first 2,000 are a walk of their own, at a
twentieth of the level, and the audit ends there if it refutes the claim. Otherwise its outputs are earlier outputs to
the walk of all others, which has the other nineteen twentieths. By the union bound a true claim is refuted, or the
bound on epsilon is above the truth, with probability at most the level in all.

*The choice between tests.* With ``rivals``, the first look may hand over to the test of two counts. It is asked for
once, after the first look; it sees the outputs of the first look alone; and the last test, whichever it is, counts
fresh outputs at the same nineteen twentieths. Given the first look, either test refutes a true claim with at most that
probability, so the choice costs nothing of the level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field, frozen
from scipy import special

from hockeystick.audits.attacks.classifiers import Attack
from hockeystick.audits.attacks.event_choice import promise
from hockeystick.audits.attacks.smaller_noise import noise_hint
from hockeystick.audits.bounds.both_orders import tosses
from hockeystick.audits.bounds.side_guesses import GuessWalk
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import Progress
from hockeystick.audits.drawing.first_outputs import FIRST_LOOK, FIRST_SHARE
from hockeystick.audits.drawing.late_nones import LateNones, Values
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Codebook, Layout, Table, read
from hockeystick.audits.targets.calling import Stream, Target, refuse_raised
from hockeystick.audits.verdicts.verdict import Verdict
from hockeystick.audits.walk.engine import Game, Pair, Played, replayed
from hockeystick.audits.walk.scores import learned
from hockeystick.audits.walk.shares import OTHERS, best_aim
from hockeystick.audits.walk.side_tests import error_rates, leaks

_PURPOSE = 4  # of the streams, apart from those of other audits with the same seed
_COINS = (2, 2)  # spawn key of the coins; the keys of the outputs' streams begin with 0 or 1
_SHARE_OF_BOUND = 0.05  # of the level, for the bound on epsilon if the claim is a curve
_BELOW = 16  # steps of epsilon up to the claimed one
_ABOVE, _STEP, _FINE = 130, 0.02, 1.03  # steps above it, the first one, and the factor from each to the next
_DELTAS = 25  # steps from a claimed delta to 1
_POWER = 0.9  # of the detectable epsilon
_MOST_WALKED = 10**7  # outputs of each data set
_LOOKED = 6 * FIRST_LOOK  # outputs of each data set from which on there is a first look


@define(eq=False)
class TargetTrials:
    """Outputs of a target; see :class:`hockeystick.audits.walk.engine.Trials`.

    Attributes:
      most: the largest number of outputs of each data set; None for any number.
      constant: the value of all outputs so far; None if there are several.
    """

    target: Target
    streams: tuple[Stream, Stream]
    most: int | None = None
    book: Codebook = field(factory=Codebook, init=False)
    constant: OneValue | None = field(default=None, init=False)
    _numbers: int = field(default=1, init=False)
    _nones: LateNones = field(factory=LateNones, init=False)

    @classmethod
    def of(cls, target: Target, data: tuple[Any, Any], seed: int, most: int | None = None) -> TargetTrials:
        """Returns the outputs of a target on two data sets, as a seed fixes them."""
        d0, d1 = data
        return cls(target, (Stream(target, d0, seed, 0, _PURPOSE), Stream(target, d1, seed, 1, _PURPOSE)), most)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of all outputs so far."""
        return tuple(self.book.layouts)

    def draw(self, sizes: tuple[int, int]) -> Pair:
        """Returns so many fresh outputs of each data set, or all that are left; None where there are none."""
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
        runs = runs if self.most is None else min(runs, self.most - stream.drawn)
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


@frozen(eq=False)
class Walked:
    """The end of a coin walk.

    Attributes:
      verdict: without warnings and the time that it took; None if the first look handed over to another test.
      drawn: number of outputs of each data set that the first look took, if it handed over.
      why: why it did, or did not.
    """

    verdict: Verdict | None
    drawn: int = 0
    why: str = ""


Rival = Callable[[Game, float], tuple[bool, str]]


def walked(
    target: Target,
    data: tuple[Any, Any],
    claim: Claim,
    *,
    confidence: float,
    samples: int,
    most: int | None,
    seed: int,
    whole: bool,
    grid: float | None,
    attack: Attack,
    progress: Progress | None,
    rival: Rival | None = None,
) -> Walked:
    """Returns the result of a coin walk.

    Args:
      target: to call for outputs.
      data: the two data sets.
      claim, confidence, samples, grid, attack, progress: as in :func:`hockeystick.audits.audit`, checked.
      most: the largest number of outputs of each data set; None for any number.
      seed: of all random numbers.
      whole: whether to draw all outputs even if the claim is refuted before; then there is no first look.
      rival: given the first look and the level of the last test, says whether another test makes it, and why.
    """
    alpha, total = 1 - confidence, 2 * samples if most is None else tosses(samples)
    trials = TargetTrials.of(target, data, seed, most)
    coins = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_COINS))
    report: Callable[[int], object] | None = None if progress is None else lambda done: progress(done, total)
    looking, why = not whole and samples >= _LOOKED, ""
    game = Game(trials, claim, total, _walk(claim, alpha), coins, grid, attack, seed, whole, report)
    if looking:
        game.total, game.whole, game.walk = 2 * FIRST_LOOK, True, _walk(claim, FIRST_SHARE * alpha)
        played = game.play()
        found = _verdict(game, played, samples, confidence, FIRST_SHARE * alpha)
        if found.refuted:
            trials.check()
            return Walked(found)
        alpha *= 1 - FIRST_SHARE
        game.total = total
        handed, why = (False, "") if rival is None else rival(game, alpha)
        if handed:
            return Walked(None, max(played.drawn), why)
        game.whole, game.walk = False, _walk(claim, alpha)
    played = game.play()
    trials.check()
    return Walked(_verdict(game, played, samples, confidence, alpha), why=why)


def two_counts_win(game: Game, alpha: float, *, samples: int) -> tuple[bool, str]:
    """Returns whether a test of two counts has the larger predicted power, and why one of the tests is chosen.

    Both predictions are of the excess over the claim in standard errors beyond the critical value, for an event or a
    score that the first look suggests, less what the best of many owes to chance.

    Args:
      game: after the first look, with the total number of trials.
      alpha: level of the last test.
      samples: number of outputs of each data set, with the first look.
    """
    left = samples - FIRST_LOOK
    if left > _MOST_WALKED:
        return True, f"a coin walk keeps the coins of all outputs, and more than {_MOST_WALKED:,} are too many"
    evidence, known, rest = game.evidence(balanced=True), game.made, game.total - game.made
    scores = learned(evidence)
    aim = best_aim(scores, game.claim, rest=rest, level=alpha, prior=OTHERS)
    walk = aim.standing
    if not scores.modelled:
        walk -= math.sqrt(2 * math.log(1 / aim.share) * rest / known)
    alone = len(evidence.layouts) == 1 and len(evidence.layouts[0].kinds) == 1
    counts = promise(evidence, game.claim, alpha=alpha, trials=left - left // (6 if alone else 2))
    promised = f"{walk:.1f} standard errors beyond the critical value by guesses, {counts:.1f} by counts"
    return counts > walk, f"the first outputs promise {promised}"


def _walk(claim: Claim, alpha: float) -> GuessWalk:
    return GuessWalk(alpha * (1 - _SHARE_OF_BOUND) if claim.also else alpha)


def _epsilon(played: Played, claim: Claim, alpha: float) -> float:
    """Returns a lower bound on epsilon at the stated delta, by a ladder in which each value has its own budget.

    The ladder is fixed by the claim, and has the claimed value: the claim counts as refuted only if all values up to it
    are. So one level covers the refutation and the bound.
    """
    low = claim.epsilon * np.arange(_BELOW) / _BELOW if claim.epsilon else np.empty(0)
    high = claim.epsilon + _STEP * (_FINE ** np.arange(1, _ABOVE + 1) - 1) / (_FINE - 1)
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


def _verdict(game: Game, played: Played, samples: int, confidence: float, alpha: float) -> Verdict:
    """Returns the verdict of a walk at the level ``alpha``."""
    claim, batches, scores, table = game.claim, played.batches, played.scores, played.table
    bound = _epsilon(played, claim, alpha * _SHARE_OF_BOUND if claim.also else alpha)
    refuted = (played.walk.refuted and bool(claim.also or bound >= claim.epsilon)) or bound > claim.epsilon
    point = batches[-1].point if batches else claim.points[0]
    found = _detectable(played, alpha)
    blind = found > max(2 * point[0], point[0] + 0.1)
    trials = max(1, *played.counted)
    shown = ("no output", "") if scores is None else (scores.words(0), scores.words(1))
    exact = ("", "") if scores is None else (scores.words(0, exact=True), scores.words(1, exact=True))
    layouts = game.trials.layouts
    return Verdict(
        outcome="refuted" if refuted else "inconclusive" if blind else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=bound,
        confidence=confidence,
        samples=-(-game.made // 2),
        timed=False,
        direction="d0->d1",
        event=shown[0],
        count_p=int(table[0, 0]),
        count_q=int(table[1, 0]),
        trials=trials,
        epsilon_tested=point[0],
        delta_tested=point[1],
        detectable_epsilon=found,
        float_leak=leaks(game.tables, layouts, claim, alpha=1 - confidence, grid=game.grid, seed=game.seed),
        bits=False,
        seed=game.seed,
        seconds=0.0,
        tradeoff=tuple(error_rates(played, alpha)),
        event_probability=(int(table[1, 0]) + 1) / (played.counted[1] + 1),
        event_back=shown[1],
        count_back_p=int(table[1, 1]),
        count_back_q=int(table[0, 1]),
        delta_lower=_delta(played, claim, alpha) if refuted and not claim.also else 0.0,
        planned=samples,
        level=alpha,
        constant=game.trials.constant is not None,
        guesses=sum(batch.guesses for batch in batches),
        right_guesses=sum(batch.right for batch in batches),
        event_exact=exact[0],
        event_back_exact=exact[1],
        hint=noise_hint(game.tables, layouts, claim) if refuted else "",
        method="coin walk",
    )
