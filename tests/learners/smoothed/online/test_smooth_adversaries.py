"""Smooth adversaries, the order of the game, and the guard of causality; mutants of the game must be caught."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, ProductMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.regret_bounds import hits_bound, thresholds_regret_floor
from hockeystick.learners.smoothed.measures.smooth_data import SmoothLaw, WindowLaw
from hockeystick.learners.smoothed.online.online_game import (
    CausalityError,
    OnlineLearner,
    OnlineRuns,
    Play,
    SmoothAdversary,
    View,
    play,
)
from hockeystick.learners.smoothed.online.smooth_adversaries import (
    BinarySearch,
    Blocks,
    CellConcentration,
    NearBoundary,
    NoUniformConvergence,
    RandomLabels,
)
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline

LINE = UniformCube(1)
WHOLE = WindowLaw(LINE, 0.0, 1.0)


def generators(seed: int = 0) -> dict[str, np.random.Generator]:
    return {"secret": np.random.default_rng(2 * seed), "nature": np.random.default_rng(2 * seed + 1)}


def online(rounds: int, sigma: float = 0.25, gamma: float | None = None) -> SmoothedOnline:
    return SmoothedOnline(concepts=Thresholds(), measure=LINE, sigma=sigma, rounds=rounds, variant="paper", gamma=gamma)


class Probe(SmoothAdversary):
    """Does one thing with its view in every round."""

    def __init__(self, look: Callable[[View], object], *, adaptive: bool = True, sigma: float = 1.0) -> None:
        self._look, self._adaptive, self._sigma = look, adaptive, sigma

    @property
    def sigma(self) -> float:
        return self._sigma

    @property
    def adaptive(self) -> bool:
        return self._adaptive

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        look = self._look

        class Moves(Play):
            def law(self, view: View) -> SmoothLaw:
                look(view)
                return WHOLE

            def labels(self, view: View, points: FloatArray) -> BoolArray:
                return np.zeros(runs, dtype=np.bool_)

        return Moves()


# --- the guard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "look", [lambda view: view.played(view.round), lambda view: view.played(5), lambda view: view.played(-1)]
)
def test_this_rounds_draw_is_not_shown(look: Callable[[View], object]) -> None:
    with pytest.raises(CausalityError):
        online(8).simulate(Probe(look), 3, **generators())


def test_the_past_is_shown_to_those_who_adapt_only() -> None:
    def look(view: View) -> object:
        assert view.points.shape == (3, view.round, 1) and view.labels.shape == (3, view.round)
        assert view.policy(np.full((3, 1), 0.5)).shape == (3,)
        with pytest.raises(ValueError, match="read-only"):
            view.points[...] = 0.0
        return view.played(view.round - 1) if view.round else None

    online(8).simulate(Probe(look), 3, **generators())
    for peek in (lambda v: v.points, lambda v: v.labels, lambda v: v.policy(np.zeros((3, 1))), look):
        with pytest.raises(CausalityError):
            online(8).simulate(Probe(peek, adaptive=False), 3, **generators())


def test_laws_must_be_as_smooth_as_promised_and_coins_separate() -> None:
    with pytest.raises(InvalidArgumentError, match="less smooth"):
        online(8).simulate(Lying(), 3, **generators())
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidArgumentError, match="learner's generator"):
        online(8).simulate(RandomLabels(WHOLE), 3, secret=rng, nature=rng)


class Lying(SmoothAdversary):
    """Blocks in cells that are smaller than it says."""

    @property
    def sigma(self) -> float:
        return 0.5

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return Blocks(LINE, 1 / 8).begin(rounds, runs, rng)


# --- what each does --------------------------------------------------------------------------------------------------


def test_appendix_b_has_averages_of_zero_or_one_alike_often() -> None:
    """Frequency 1/2: exact binomial test, false alarm 1e-6; a process that forgets its first point is caught."""
    found = online(30).simulate(NoUniformConvergence(), 2000, **generators(1))
    averages = (found.points[:, :, 0] > 0.5).mean(axis=1)
    assert set(averages) == {0.0, 1.0}
    assert stats.binomtest(int(averages.sum()), 2000).pvalue > 1e-6
    free = online(30).simulate(RandomLabels(WHOLE), 50, **generators(1))
    assert not set((free.points[:, :, 0] > 0.5).mean(axis=1)) <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("rounds", "sigma", "measured"), [(400, 0.1, 29.0), pytest.param(1600, 0.1, 54.1, marks=pytest.mark.statistical)]
)
def test_cell_concentration_stays_below_the_sharp_lemma(rounds: int, sigma: float, measured: float) -> None:
    """Mean most hits of 40 runs, 5 standard errors; half of the bound's mean is exceeded."""
    adversary = CellConcentration(LINE, sigma, round(math.sqrt(rounds) / sigma))
    found = play(Coin(40), adversary, rounds, 40, dimension=1, **generators(2))
    most = adversary.hits(found.points).max(axis=1)
    error = 5 * most.std() / math.sqrt(40)
    mean, log_cells = rounds / adversary.kept, math.log(adversary.cells)
    assert most.mean() + error <= hits_bound(log_cells, mean)
    assert most.mean() - error > hits_bound(log_cells, mean / 2)
    assert most.mean() == pytest.approx(measured, abs=2.5)


@pytest.mark.parametrize("sigma", [0.3, 1 / 16])
@pytest.mark.parametrize(
    "measure",
    [LINE, UniformGrid(2**30), ProductMeasure((ListedMeasure(np.arange(3.0), np.full(3, 1 / 3)), LINE))],
    ids=["line", "grid", "product"],
)
def test_all_adversaries_play_on_all_measures(measure: UniformCube, sigma: float) -> None:
    """Binary search and near-boundary labels are those of a threshold on the first axis: no errors in hindsight."""
    runs, rounds, d = 4, 24, measure.dimension
    for adversary in (
        BinarySearch(measure, sigma),
        NearBoundary(measure, sigma, 0.9),
        Blocks(measure, sigma),
        CellConcentration(measure, sigma, 64),
        RandomLabels(WindowLaw(measure, 0.1, sigma)),
    ):
        found = play(Coin(runs), adversary, rounds, runs, dimension=d, **generators(3))
        assert found.points.shape == (runs, rounds, d) and np.isfinite(found.points).all()
        if isinstance(adversary, BinarySearch | NearBoundary):
            assert (found.least_errors(Rectangles(d)) == 0).all()
            first = OnlineRuns(found.points[:, :, :1], found.labels, found.played, found.losses, found.chances)
            assert (first.least_errors(Thresholds()) == 0).all()


def test_without_smoothness_binary_search_makes_regret_linear() -> None:
    """sigma = 0: at least every second round is an error for every learner, and the best threshold has none."""
    found = online(40, gamma=1e-6).simulate(BinarySearch(LINE, 0.0), 10, **generators(4))
    assert (found.mean_regrets(Thresholds()) >= 20.0).all()


def test_the_worst_case_ends_where_a_finite_domain_does() -> None:
    """On 16 points about four rounds are lost; then the middle is one point, be it the least of all, and no error."""
    grid = UniformGrid((16,))
    learner = SmoothedOnline(concepts=Thresholds(), measure=grid, sigma=1.0, rounds=200, variant="paper", gamma=1e-3)
    found = learner.simulate(BinarySearch(grid, 0.0), 20, **generators(5))
    assert (found.least_errors(Thresholds()) == 0).all()
    assert (found.mean_regrets(Thresholds()) < 20.0).all()


# --- mutants ---------------------------------------------------------------------------------------------------------


class AgainstMajority(SmoothAdversary):
    """Uniform points, labelled against the learner's majority; ``told`` has the draw itself, behind the view's back."""

    def __init__(self, told: Spy | None = None) -> None:
        self._told = told

    @property
    def sigma(self) -> float:
        return 1.0

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        told = self._told

        class Moves(Play):
            def law(self, view: View) -> SmoothLaw:
                return WHOLE

            def labels(self, view: View, points: FloatArray) -> BoolArray:
                if told is not None:
                    return ~told.predictions(told.drawn, points)
                return view.policy(points) < 0.5

        return Moves()


class Spy:
    """A learner that tells its draw."""

    def __init__(self, inner: OnlineLearner) -> None:
        self._inner = inner
        self.drawn = np.zeros(0, dtype=np.int64)
        self.predictions, self.policy, self.update = inner.predictions, inner.policy, inner.update

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        self.drawn = self._inner.draw(rng)
        return self.drawn


class Half(np.random.Generator):
    """Every uniform number is 1/2."""

    def random(self, size: object = None) -> object:  # type: ignore[override]
        return 0.5 if size is None else np.full(size, 0.5)  # type: ignore[call-overload]


@pytest.mark.statistical
def test_draws_that_are_reused_or_seen_make_regret_linear() -> None:
    """M20 and M23: T/2 errors more than the best threshold's, where fresh, unseen draws keep to the bound."""
    rounds, runs, made = 400, 20, online(400)
    right = made.simulate(AgainstMajority(), runs, **generators(5)).regrets(Thresholds())
    assert right.mean() + 5 * right.std() / math.sqrt(runs) <= made.regret_bound() < 0.25 * rounds
    half = Half(np.random.PCG64(0))
    stale = play(
        made.learner(runs), AgainstMajority(), rounds, runs, dimension=1, secret=half, nature=np.random.default_rng(1)
    )
    spy = Spy(made.learner(runs))
    told = play(spy, AgainstMajority(spy), rounds, runs, dimension=1, **generators(5))
    for mutant in (stale, told):
        assert (mutant.regrets(Thresholds()) >= 0.45 * rounds).all()


def test_looking_ahead_is_refused_and_would_show_as_negative_regret() -> None:
    """On coins the expected errors of a learner that looks ahead fall below T/2 by far; no learner's may."""
    made, rounds, runs = online(400, gamma=0.002), 400, 60
    player = made.player(np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError, match="no prediction yet"):
        player.update(0.5, True)
    rng, learner, ahead, fair = np.random.default_rng(6), made.learner(runs), np.zeros(runs), np.zeros(runs)
    for _ in range(rounds):
        points, labels = rng.random((runs, 1)), rng.random(runs) < 0.5
        before = learner.policy(points)
        learner.update(points, labels)
        after = learner.policy(points)
        fair += np.where(labels, 1 - before, before)
        ahead += np.where(labels, 1 - after, after)
    error = 5 * fair.std() / math.sqrt(runs)
    assert abs(fair.mean() - rounds / 2) <= error < rounds / 2 - ahead.mean()


@pytest.mark.statistical
@pytest.mark.parametrize(("rounds", "coarse", "fine"), [(256, 121, 18), (1024, 520, 35)])
def test_a_cover_without_the_root_of_t_loses_for_ever_near_a_boundary(rounds: int, coarse: int, fine: int) -> None:
    """M24: linear losses where the cover has mass sigma, against about sqrt(T)."""
    sigma, near = 0.05, NearBoundary(LINE, 0.05, 0.1)  # the cover of mass 0.05 has 0.05 and 0.15
    wrong = online(rounds, sigma, gamma=sigma).simulate(near, 10, **generators(7)).mean_regrets(Thresholds())
    right = online(rounds, sigma).simulate(near, 10, **generators(7)).mean_regrets(Thresholds())
    assert wrong.mean() == pytest.approx(coarse, rel=0.1)
    assert right.mean() == pytest.approx(fine, rel=0.25)


def test_the_floor_of_the_block_adversary_holds_for_hedge_and_for_coins() -> None:
    """Mean regret of 200 runs, plus 5 standard errors (false alarm 3e-7); the floor of four times the
    rounds is not reached."""
    sigma, rounds, runs = 1 / 16, 128, 200
    floor = thresholds_regret_floor(rounds=rounds, sigma=sigma)
    hedge = online(rounds, sigma).simulate(Blocks(LINE, sigma), runs, **generators(8)).mean_regrets(Thresholds())
    assert hedge.mean() + 5 * hedge.std() / math.sqrt(runs) >= floor
    coins = play(Coin(runs), Blocks(LINE, sigma), rounds, runs, dimension=1, **generators(8)).mean_regrets(Thresholds())
    assert coins.mean() + 5 * coins.std() / math.sqrt(runs) >= floor
    assert coins.mean() + 5 * coins.std() / math.sqrt(runs) < thresholds_regret_floor(rounds=4 * rounds, sigma=sigma)


class Coin:
    """Predicts by a coin."""

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, 2, self._runs)

    def predictions(self, played: np.ndarray, points: FloatArray) -> BoolArray:
        return np.asarray(played == 1)

    def policy(self, points: FloatArray) -> FloatArray:
        return np.full(len(points), 0.5)

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        return None


def test_bad_arguments_are_refused() -> None:
    for make in (
        lambda: NearBoundary(LINE, 0.0, 0.5),
        lambda: NearBoundary(LINE, 0.5, 1.0),
        lambda: BinarySearch(LINE, -0.1),
        lambda: Blocks(LINE, math.nan),
        lambda: CellConcentration(LINE, 0.01, 10),
    ):
        with pytest.raises(InvalidArgumentError):
            make()
