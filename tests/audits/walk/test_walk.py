"""Coin walks: plans before outputs, coins apart from outputs, the level on tight nulls and of a mutant; verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import Gaussian, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits import Claim, GuessLadder, GuessWalk, Verdict, audit
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.targets.calling import Target, TargetError
from hockeystick.audits.walk import audit as walk_audit
from hockeystick.audits.walk import engine
from hockeystick.audits.walk.engine import Batch, Game
from hockeystick.audits.walk.scores import Scores, learned
from hockeystick.audits.walk.shares import best_aim

ALPHA = 0.05


class Responses:
    """Randomised response with visible leaks, which attains the claim (epsilon, delta) of both orders."""

    layouts = (Layout(("number", "float64"), ("f8",)),)

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

    def _batch(self, size: int, scores: Scores | None) -> tuple[IntArray, FloatArray]:
        coins, values = super()._batch(size, scores)
        order = np.argsort(np.where(values > 0, 0, 1) != coins, kind="stable")
        return coins[order], values[order]


def refutations(game: type[Game], epsilon: float, delta: float, claim: Claim, total: int, runs: int) -> int:
    found = 0
    for seed in range(runs):
        coins = np.random.default_rng([seed, 1])
        found += game(Responses(epsilon, delta, seed), claim, total, GuessWalk(ALPHA), coins).play().walk.refuted
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_level_holds_where_the_claim_is_attained(delta: float) -> None:
    """False-alarm rate 1e-6 for each delta. The mutant and a violation of power above 0.99 show that it can fail."""
    claim, runs = Claim(1.0, delta), 80
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
        ("neighbours", {"neighbours": [(0.0, 1.0), (1.0, 0.0)]}),
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
