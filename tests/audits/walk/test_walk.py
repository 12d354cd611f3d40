"""Coin walks: plans before outputs, coins apart from outputs, the level on tight nulls and of a mutant; verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import Gaussian, InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.audits import Claim, GuessLadder, GuessWalk, Recorded, Verdict, audit, fixed_sample, guess_tail
from hockeystick.audits.outputs.cells import Intervals, Partition, ordinal
from hockeystick.audits.outputs.features import Coordinate
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.targets.calling import Target, TargetError
from hockeystick.audits.walk import audit as walk_audit
from hockeystick.audits.walk import engine
from hockeystick.audits.walk.engine import Batch, Game, Played
from hockeystick.audits.walk.scores import Scores, learned
from hockeystick.audits.walk.shares import OTHERS, best_aim, sharpest_aim

ALPHA = 0.05


class Responses:
    """Randomised response with visible leaks, which attains the claim (epsilon, delta) of both orders."""

    layouts = (Layout(("number", "float64"), ("f8",)),)
    constant = None

    def __init__(self, epsilon: float, delta: float, seed: int) -> None:
        self.right, self.delta, self.rng = 1 / (1 + np.exp(-epsilon)), delta, np.random.default_rng(seed)

    def draw(self, sizes: tuple[int, int]) -> tuple[Table | None, Table | None]:
        return self._side(0, sizes[0]), self._side(1, sizes[1])

    def _side(self, side: int, runs: int) -> Table | None:
        noisy = np.where(self.rng.random(runs) < self.right, side, 1 - side)
        values = np.where(self.rng.random(runs) < self.delta, 10.0 + side, noisy)
        return Table(runs, 0, {0: values[:, None]}) if runs else None


class RightFirst(Game):
    """A mutant: ties between scores are broken by the coins."""

    def _batch(self, size: int, scores: Scores | None) -> tuple[IntArray, IntArray]:
        coins, cells = super()._batch(size, scores)
        if scores is None:
            return coins, cells
        order = np.argsort(np.where(scores.ratios[cells] > 0, 0, 1) != coins, kind="stable")
        return coins[order], cells[order]


def refutations(game: type[Game], epsilon: float, delta: float, claim: Claim, total: int, runs: int) -> int:
    found = 0
    for seed in range(runs):
        coins = np.random.default_rng([seed, 1])
        found += game(Responses(epsilon, delta, seed), claim, total, GuessWalk(ALPHA), coins).play().walk.refuted
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("delta", "runs"), [(0.0, 50), *(pytest.param(delta, 200, marks=pytest.mark.deep) for delta in (0.0, 0.05))]
)
def test_the_level_holds_where_the_claim_is_attained(delta: float, runs: int) -> None:
    """False-alarm rate 1e-6 for each delta. The mutant and a violation of power above 0.99 show that it can fail."""
    claim = Claim(1.0, delta)
    most = stats.binom.isf(1e-6, runs, ALPHA)
    assert refutations(Game, 1.0, delta, claim, 100, runs) <= most
    if delta == 0.0:  # with leaks, all outputs that are not guessed have other scores
        assert refutations(RightFirst, 1.0, delta, claim, 100, runs) > most
    assert refutations(Game, 3.0, delta, claim, 200, 20) >= 15


def test_each_plan_is_made_before_its_batch_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def noting(step: str, call: Any) -> Any:
        def noted(*args: Any, **given: Any) -> Any:
            steps.append(step)
            return call(*args, **given)

        return noted

    monkeypatch.setattr(engine, "best_aim", noting("plan", best_aim))
    monkeypatch.setattr(Responses, "draw", noting("draw", Responses.draw))
    played = Game(Responses(1.0, 0.0, 1), Claim(1.0), 80, GuessWalk(ALPHA), np.random.default_rng(2)).play()

    first = steps.index("plan")
    assert steps[first:] == ["plan", "draw"] * len(played.batches)
    assert sum(batch.trials for batch in played.batches) == sum(played.counted) == 80 - first * 12
    # All that a last plan has promised is guessed: fewer guesses, by what the outputs show, would not be exact.
    assert played.batches[-1].guesses == played.batches[-1].planned[0]
    assert int(played.table.sum()) == sum(batch.guesses for batch in played.batches)
    assert int(np.trace(played.table)) == sum(batch.right for batch in played.batches)


def test_scores_of_a_batch_do_not_depend_on_its_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(Responses(1.0, 0.0, 3), Claim(1.0), 80, GuessWalk(ALPHA), np.random.default_rng(4))
    seen: list[tuple[int, int]] = []

    def spied(evidence: Any) -> Scores:
        seen.append((evidence.tables[0].runs + evidence.tables[1].runs, int(game._drawn.sum())))
        return learned(evidence)

    monkeypatch.setattr(engine, "learned", spied)
    played = game.play()
    starts = 80 - np.cumsum([batch.trials for batch in played.batches][::-1])[::-1]
    assert [known for known, _ in seen] == starts.tolist()
    assert all(known == drawn for known, drawn in seen)


def test_coins_have_a_stream_of_their_own() -> None:
    """The keys of outputs begin with the data set, 0 or 1."""
    assert walk_audit._COINS[0] not in (0, 1)
    coins = np.random.default_rng(np.random.SeedSequence(5, spawn_key=walk_audit._COINS)).integers(0, 2, 200)
    trials = walk_audit.TargetTrials.of(Target.of(lambda data, rng, runs: rng.integers(0, 2, runs)), (0, 1), 5)
    for table in trials.draw((200, 200)):
        assert table is not None
        assert 60 < np.count_nonzero(table.blocks[0][:, 0] == coins[: table.runs]) < 140  # 100, standard deviation 7


def test_the_bound_is_that_of_a_ladder_in_which_each_value_has_its_own_budget() -> None:
    batches = (Batch((60, 100), (1.0, 0.0), 30, 50, 29), Batch((35, 50), (1.0, 0.0), 35, 50, 34))
    played = engine.Played(GuessWalk(ALPHA), batches, np.zeros((2, 2), dtype=np.int64), (50, 50), (50, 50), None)
    found = walk_audit._epsilon(played, Claim(1.0), ALPHA)
    ladder = GuessLadder.of([0.5, 1.0, found, found + 1e-9, 9.0], alpha=ALPHA)
    for batch in batches:
        ladder = ladder.planned(*batch.planned).after(batch.guesses, batch.trials, right=batch.right)
    assert 1.0 < found <= ladder.epsilon_lower < 9.0


def noisy(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(0.0, 0.25, runs)  # epsilon = 4


def one_output(data: float, rng: np.random.Generator) -> object:
    u = rng.random()
    return None if u < 0.3 else "leak" if data and u > 0.4 else [1.0, u]


@pytest.mark.statistical
@pytest.mark.parametrize("target", [noisy, one_output])
def test_a_violation_is_refuted_and_the_verdict_is_whole(target: Any) -> None:
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 300, "method": "coin walk"}
    verdict = audit(target, rng=1, **given)
    assert verdict.refuted and verdict.samples <= verdict.planned == 300
    assert 1.0 <= verdict.epsilon_lower <= (4.0 if target is noisy else 40.0)
    assert 0 < verdict.right_guesses == verdict.count_p + verdict.count_back_p <= verdict.guesses
    assert f"{verdict.guesses} outputs, {verdict.right_guesses} times rightly" in verdict.summary()
    assert Verdict.from_json(verdict.to_json()) == verdict
    again = audit(target, rng=1, **given)
    assert (again.samples, again.right_guesses, again.event) == (verdict.samples, verdict.right_guesses, verdict.event)


@pytest.mark.statistical
def test_all_outputs_sharpen_the_bound_of_a_refuted_claim() -> None:
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 300, "method": "coin walk"}
    early, whole = audit(noisy, rng=1, **given), audit(noisy, rng=1, first_look=False, **given)
    assert whole.samples == 300 > early.samples
    assert early.epsilon_lower < whole.epsilon_lower <= 4.0
    assert 0 < whole.delta_lower <= 1.0


@pytest.mark.statistical
def test_a_true_claim_and_a_true_curve_are_not_refuted() -> None:
    """At confidence 1 - 1e-6 each, which is the false-alarm rate."""
    given: dict[str, Any] = {"samples": 200, "method": "coin walk", "confidence": 1 - 1e-6, "rng": 3}
    assert not audit(noisy, claim=(4.0, 0.0), neighbours=(0.0, 1.0), **given).refuted
    gaussian = audit(lambda d, rng, runs: rng.normal(d, 1.0, runs), claim=Gaussian(1.0), neighbours=(0, 1), **given)
    assert not gaussian.refuted
    equal = audit(lambda d, rng, runs: np.zeros(runs), claim=(1.0, 0.0), neighbours=(0, 1), **given)
    assert equal.constant and not equal.refuted and any("same value" in one for one in equal.warnings)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("method", {"method": "coins"}),
        ("samples", {"samples": None}),
        ("seconds", {"seconds": 3.0}),
        ("bits", {"bits": True}),
        ("workers", {"workers": 2}),
        ("checkpoint", {"checkpoint": "walk.ckpt"}),
    ],
)
def test_arguments_that_do_not_go_with_a_coin_walk_are_named(name: str, given: dict[str, Any]) -> None:
    options: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 100, "method": "coin walk"}
    with pytest.raises(InvalidArgumentError) as refused:
        audit(noisy, **(options | given))
    assert refused.value.argument == name


def test_a_target_that_raises_ends_a_coin_walk() -> None:
    def raising(data: float, rng: np.random.Generator) -> float:
        return 1 / data

    with pytest.raises(TargetError, match="on d0"):
        audit(raising, claim=(1.0, 0.0), neighbours=(0.0, 1.0), samples=100, method="coin walk")


CELLS = Partition(
    Responses.layouts, np.zeros(1, dtype=np.int64), {0: Intervals(Coordinate(0), ordinal(np.array([1.0])))}, 3
)
"""Outputs below 1, others, and none."""


def scores_of(ratio: float, seen: tuple[int, int, int] = (50, 50, 0)) -> Scores:
    return Scores(CELLS, np.array([ratio, -ratio, 0.0]), np.array(seen))


def played(epsilon: float, total: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> Played:
    """A walk against (1, 0) whose scores are known."""
    monkeypatch.setattr(Game, "evidence", lambda self: None)
    monkeypatch.setattr(engine, "learned", lambda evidence: scores_of(epsilon))
    coins = np.random.default_rng([seed, 1])
    return Game(Responses(epsilon, 0.0, seed), Claim(1.0), total, GuessWalk(ALPHA), coins, whole=True).play()


@pytest.mark.statistical
def test_the_tail_at_the_number_of_guesses_that_happened_breaks_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: it stops when ahead, in about a quarter of audits, judged by the same guesses. False-alarm rate 1e-6."""
    runs, own, mutant = 150, 0, 0
    for seed in range(runs):
        found = played(1.0, 1000, seed, monkeypatch)
        own += found.walk.refuted
        made = np.cumsum([(batch.right, batch.guesses, batch.trials) for batch in found.batches], axis=0).tolist()
        mutant += any(guess_tail(*row, epsilon=1.0) <= ALPHA for row in made if row[1])
    most = stats.binom.isf(1e-6, runs, ALPHA)
    assert own <= most < mutant


@pytest.mark.statistical
def test_a_bound_from_the_last_guesses_at_the_budget_of_the_claim_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: above the claim the budget grows. False-alarm rate 1e-6; the mutant errs in some 0.45 of audits."""
    runs, truth, own, mutant = 60, 2.0, 0, 0
    for seed in range(runs):
        found = played(truth, 140, seed, monkeypatch)
        own += walk_audit._epsilon(found, Claim(1.0), ALPHA) > truth
        walk = GuessWalk(ALPHA)
        for batch in found.batches:
            budget = walk.budget
            if batch is found.batches[-1]:
                break
            walk = batch.settle(walk, (1.0, 0.0))
        last = found.batches[-1]
        at = guess_tail(last.right, last.guesses, last.trials, epsilon=truth)
        mutant += walk.refuted or at <= budget
    most = stats.binom.isf(1e-6, runs, ALPHA)
    assert own <= most < mutant


def test_a_share_is_as_small_as_a_leak_is_rare() -> None:
    """20 of 100,000 outputs come from one data set alone."""
    scores = scores_of(0.0, (20, 99_980, 0))
    scores = attrs.evolve(scores, ratios=np.array([9.0, 0.0, 0.0]))
    for aim in (
        best_aim(scores, Claim(1.0), rest=10**6, level=0.05, prior=OTHERS),
        sharpest_aim(scores, Claim(1.0), rest=10**6, level=0.05),
    ):
        assert 1e-4 < aim.share <= 2.2e-4


def test_missing_outputs_count_as_wrong_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second data set has 30 outputs, and all that there are are told rightly."""

    class Short(Responses):
        used = 0

        def _side(self, side: int, runs: int) -> Table | None:
            runs = min(runs, 30 - self.used) if side else runs
            self.used += runs * side
            return super()._side(side, runs)

    monkeypatch.setattr(engine, "learned", lambda evidence: scores_of(30.0))
    found = Game(Short(30.0, 0.0, 1), Claim(1.0), 200, GuessWalk(ALPHA), np.random.default_rng(2), whole=True).play()
    missing = sum(found.counted) + 12 - sum(found.drawn)
    wrong = sum(batch.guesses - batch.right for batch in found.batches)
    assert found.drawn[1] == 30 and missing > 40
    assert 40 < wrong == found.table[1, 0] <= missing  # a batch has no more wrong guesses than guesses
    assert found.table[0, 1] == 0 < found.table[1, 1]


@pytest.mark.statistical
def test_recorded_outputs_are_walked_once_each() -> None:
    rng = np.random.default_rng(5)
    record = Recorded(rng.laplace(0.0, 0.25, 300), rng.laplace(1.0, 0.25, 300))
    verdict = audit(record, claim=(1.0, 0.0), rng=1, method="coin walk", first_look=False)
    assert verdict.refuted and verdict.planned == 300
    assert 270 < verdict.samples < 300  # both data sets have enough outputs for so many coins
    assert record.left < 40


def words(data: int, rng: np.random.Generator) -> list[str]:
    drawn = ["abcdefgh"[i] for i in rng.integers(0, 8, 8)]
    if data and rng.random() < 0.57:
        drawn[rng.integers(0, 8)] = "z"
    return drawn


@pytest.mark.statistical
@pytest.mark.parametrize("form", [list, " ".join])
def test_a_leak_inside_texts_is_refuted(form: Any) -> None:
    """A word in 57 % of outputs on one data set alone; whole outputs never recur."""
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0, 1), "samples": 200, "rng": 2, "method": "coin walk"}
    verdict = audit(lambda data, rng: form(words(data, rng)), first_look=False, **given)
    assert verdict.refuted and verdict.epsilon_lower > 1.3
    assert "'z'" in verdict.event + verdict.event_back
    assert not audit(lambda data, rng: form(words(0, rng)), **{**given, "confidence": 1 - 1e-6}).refuted


@pytest.mark.statistical
def test_a_refuted_curve_is_refuted_as_a_whole_and_no_point_is_named() -> None:
    given: dict[str, Any] = {"neighbours": (0, 1), "samples": 400, "rng": 3, "method": "coin walk"}
    verdict = audit(lambda d, rng, runs: rng.normal(d, 0.5, runs), claim=Gaussian(1.0), **given)
    assert verdict.refuted and verdict.curve_alone
    first = verdict.summary().splitlines()[0]
    assert "as a curve: it fails at one of its points, and the test does not say at which" in first
    assert f"({verdict.epsilon_tested:g}, {verdict.delta_tested:g})" not in verdict.summary().replace(first[:30], "")
    assert "tested at" not in verdict._repr_markdown_() and "as a whole" in verdict._repr_markdown_()


@pytest.mark.statistical
def test_floating_point_noise_a_trade_off_and_a_hint_come_with_the_verdict() -> None:
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "method": "coin walk", "rng": 1}
    verdict = audit(noisy, samples=1500, first_look=False, **given)
    assert verdict.float_leak and any("floating-point noise leaks" in one for one in verdict.warnings)
    assert "noise of scale" in verdict.hint
    assert len(verdict.tradeoff) > 3
    rates = [(point.fpr, point.fnr) for point in verdict.tradeoff]
    assert rates == sorted(rates, key=lambda rate: (rate[0], -rate[1]))
    assert all(point.fpr_low <= point.fpr <= point.fpr_high for point in verdict.tradeoff)
    assert not audit(lambda d, rng, runs: np.round(rng.laplace(d, 0.25, runs), 2), samples=600, **given).float_leak


@pytest.mark.statistical
def test_a_first_look_and_the_walk_after_it_have_their_parts_of_the_level() -> None:
    """The gross violation falls at the first look, the true claim (at confidence 1 - 1e-6) not at all."""
    given: dict[str, Any] = {"neighbours": (0.0, 1.0), "samples": 12_000, "rng": 1, "method": "auto"}
    first = audit(noisy, claim=(1.0, 0.0), **given)
    assert first.refuted and (first.samples, first.planned, first.method) == (2000, 12_000, "coin walk")
    assert first.level == pytest.approx(0.001 / 20) and first.epsilon_lower > 3
    last = audit(noisy, claim=(4.0, 0.0), confidence=1 - 1e-6, **given)
    assert not last.refuted and last.samples == 12_000
    assert last.level == pytest.approx(1e-6 * 19 / 20)
    assert "standard errors beyond the critical value by guesses" in last.why
    assert f"method: {last.method}, because {last.why}" in last.summary()
    assert Verdict.from_json(last.to_json()) == last


@pytest.mark.statistical
@pytest.mark.parametrize("handed", [False, True])
def test_the_last_test_counts_no_output_of_the_first_look(monkeypatch: pytest.MonkeyPatch, handed: bool) -> None:
    """Whichever is chosen: by what the first look shows alone, before any other output is drawn."""
    drawn: list[int] = []

    def target(data: float, rng: np.random.Generator, runs: int) -> Any:
        drawn.append(runs)
        return data + rng.laplace(0.0, 1.0, runs)

    def chosen(game: Game, alpha: float, *, samples: int) -> tuple[bool, str]:
        assert sum(drawn) == game.made == 4000 and alpha == pytest.approx(1e-6 * 19 / 20) and samples == 12_000
        return handed, "so"

    monkeypatch.setattr(fixed_sample, "two_counts_win", chosen)
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 12_000, "confidence": 1 - 1e-6}
    verdict = audit(target, rng=4, method="auto", **given)
    assert not verdict.refuted and verdict.why == "so" and verdict.level == pytest.approx(1e-6 * 19 / 20)
    assert verdict.method == ("two counts" if handed else "coin walk")
    assert verdict.samples == verdict.planned == 12_000
    counted = 2 * verdict.trials if handed else verdict.guesses
    assert counted < 20_000
    assert abs(sum(drawn) - 24_000) <= 200  # the last look takes what the larger data set of the first one left


@pytest.mark.statistical
@pytest.mark.parametrize(("leak", "method"), [(False, "coin walk"), (True, "two counts")])
def test_the_larger_promise_is_chosen(leak: bool, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise by the walk, which uses nearly all outputs; and whatever has the larger promise by counts."""
    if leak:
        monkeypatch.setattr(walk_audit, "promise", lambda *given, **more: 1e9)
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 12_000, "rng": 4}
    verdict = audit(lambda d, rng, runs: d + rng.laplace(0.0, 0.95, runs), method="auto", **given)
    assert verdict.method == method


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"bits": True}, "bit patterns"),
        ({"backend": "threading"}, "several processes"),
        ({"checkpoint": "walk.ckpt"}, "a checkpoint"),
        ({"statistic": np.asarray}, "a statistic"),
    ],
)
def test_auto_takes_two_counts_where_a_walk_can_not_be(
    given: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 400, "rng": 1}
    verdict = audit(noisy, method="auto", **(options | given))
    assert verdict.refuted and verdict.method == "two counts" and not verdict.guesses
    assert why in verdict.why and verdict.why in verdict.summary()
    assert audit(noisy, **(options | given)).why == ""


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["auto", "coin walk"])
def test_of_several_pairs_the_last_one_is_walked(method: Any) -> None:
    """One pair of two is at distance 4 in noise of epsilon 1 for distance 1: the power is above 0.999."""
    pairs = [(0.0, 0.5), (0.0, 4.0)]
    verdict = audit(
        lambda d, rng, runs: d + rng.laplace(0.0, 1.0, runs),
        claim=(1.0, 0.0),
        neighbours=pairs,
        samples=800,
        rng=3,
        method=method,
    )
    assert verdict.refuted and verdict.pair == 2 and verdict.method == "coin walk" and verdict.guesses > 0
    assert verdict.epsilon_lower <= 4.0
