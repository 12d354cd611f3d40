"""Regret of Hedge on representatives of an infinite class: its growth in T and in 1/sigma, and learners that fail.

Thresholds against three adversaries, from coins on uniform points to smoothed binary search; regret is against the best
threshold in hindsight, of all there are. Other classes at one size. Learners that must fail: representatives too
coarse for T, a learner that follows the leader (empirical risk minimisation in each round, without randomness) against
an adversary that contradicts it, and any learner at sigma = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED, mean_and_error
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.lazy import log_log_slope
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.polynomials.polynomials import PolynomialThresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.measures.regret_bounds import (
    block_depth,
    coupling_regret_bound,
    nonadaptive_regret_bound,
    thresholds_regret_floor,
)
from hockeystick.learners.smoothed.measures.smooth_data import SmoothLaw, WindowLaw
from hockeystick.learners.smoothed.online.online_game import Play, SmoothAdversary, View, play
from hockeystick.learners.smoothed.online.smooth_adversaries import BinarySearch, Blocks, NearBoundary, RandomLabels
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline

ROUNDS = (256, 512, 1024, 2048, 4096, 8192, 16384)
FEWER = 8192  # rounds from which games are played less often
SIGMAS = (0.25, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-10, 2.0**-12)
ADVERSARIES = ("coins", "search", "blocks")
QUOTED = {  # rounds and sigma: against coins, search and blocks
    (256, 0.25): (12.1, 16.2, 14.0),
    (256, 2.0**-10): (13.0, 21.6, 22.6),
    (1024, 0.25): (25.2, 31.5, 28.8),
    (1024, 2.0**-10): (22.8, 43.6, 43.6),
    (4096, 0.25): (48.4, 66.6, 62.0),
    (4096, 2.0**-10): (50.7, 89.2, 89.3),
}
CLASSES = ("intervals", "halfspaces in the plane", "polynomials of degree 2", "rectangles in the plane")
COARSE = {"rectangles in the plane": 0.5}  # gamma, where the default takes more representatives than can be listed


class Leader:
    """Plays a threshold of least error so far, in R runs, for ``online_game.play``."""

    def __init__(self, cuts: FloatArray, runs: int) -> None:
        self._cuts, self._errors = cuts, np.zeros((runs, len(cuts)), dtype=np.int64)

    def draw(self, rng: np.random.Generator) -> IntArray:
        return np.asarray(self._errors.argmin(axis=1))

    def predictions(self, played: IntArray, points: FloatArray) -> BoolArray:
        return np.asarray(points[:, 0] >= self._cuts[played])

    def policy(self, points: FloatArray) -> FloatArray:
        return self.predictions(self._errors.argmin(axis=1), points).astype(float)

    def update(self, points: FloatArray, labels: BoolArray) -> None:
        self._errors += (points[:, :1] >= self._cuts) != labels[:, None]


class Contrary(SmoothAdversary, Play):
    """Uniform points, each labelled against what the learner is likelier to say."""

    def __init__(self, measure: UniformCube) -> None:
        self._law = WindowLaw(measure, 0.0, 1.0)

    @property
    def sigma(self) -> float:
        return 1.0

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return self

    def law(self, view: View) -> SmoothLaw:
        return self._law

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        return np.asarray(view.policy(points) < 0.5)


def adversary(name: str, measure: UniformCube, sigma: float) -> SmoothAdversary:
    """By name."""
    if name == "coins":
        return RandomLabels(WindowLaw(measure, 0.0, 1.0))
    if name == "search":
        return BinarySearch(measure, sigma)
    return Contrary(measure) if name == "contrary" else Blocks(measure, sigma)


def concepts(name: str) -> tuple[ConceptClass, UniformCube]:
    """By name, with the cube that its brackets are known on."""
    if name == "halfspaces in the plane":
        return Halfspaces(2), UniformCube(2, -0.5, 0.5)
    if name == "rectangles in the plane":
        return Rectangles(2), UniformCube(2)
    return {"intervals": Intervals(), "polynomials of degree 2": PolynomialThresholds(1, 2)}[name], UniformCube(1)


def game(learner: SmoothedOnline, opponent: SmoothAdversary, runs: int, *, key: str) -> dict[str, float]:
    """Mean regret over runs, by chances of errors rather than by errors."""
    secret, nature = (np.random.default_rng([SEED, part, *key.encode()]) for part in (1, 2))
    found = learner.simulate(opponent, runs, secret=secret, nature=nature)
    mean, error = mean_and_error(found.mean_regrets(learner.concepts))
    return {"regret": mean, "error": error, "errors": float(found.losses.sum(axis=1).mean()), "size": learner.size}


def thresholds(against: str, rounds: int, sigma: float, runs: int, variant: str = "brackets") -> dict[str, float]:
    """One game of thresholds, with its bounds."""
    measure = UniformCube(1)
    learner = SmoothedOnline(
        concepts=Thresholds(),
        measure=measure,
        sigma=sigma,
        rounds=rounds,
        variant="paper" if variant == "paper" else "brackets",
    )
    found = game(learner, adversary(against, measure, sigma), runs, key=f"{against} {rounds} {sigma} {variant}")
    return found | {
        "bound": learner.regret_bound(),
        "floor": thresholds_regret_floor(rounds=rounds, sigma=sigma),
        "fixed": nonadaptive_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=1),
        "coupling": coupling_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=1),
    }


def leader(against: str, rounds: int, sigma: float, runs: int) -> dict[str, float]:
    """One game of the leader among the representatives that Hedge has."""
    measure = UniformCube(1)
    cuts = SmoothedOnline(concepts=Thresholds(), measure=measure, sigma=sigma, rounds=rounds).experts[:, 0]
    secret, nature = (np.random.default_rng([SEED, part, *f"leader {against}".encode()]) for part in (1, 2))
    opponent = adversary(against, measure, sigma)
    found = play(Leader(cuts, runs), opponent, rounds, runs, dimension=1, secret=secret, nature=nature)
    mean, error = mean_and_error(found.regrets(Thresholds()))
    return {"regret": mean, "error": error}


def other(name: str, rounds: int, sigma: float, runs: int) -> dict[str, float]:
    """One game of another class, against blocks along its first axis."""
    of, measure = concepts(name)
    gamma = COARSE.get(name)
    learner = SmoothedOnline(concepts=of, measure=measure, sigma=sigma, rounds=rounds, gamma=gamma)
    return game(learner, Blocks(measure, sigma), runs, key=name) | {"bound": learner.regret_bound()}


def failing(how: str, rounds: int, runs: int, sigma: float = 0.05) -> dict[str, float]:
    """Learners that must fail, and one that must not, near a boundary that representatives are far from."""
    measure = UniformCube(1)
    gamma = sigma if how == "too coarse" else None
    learner = SmoothedOnline(
        concepts=Thresholds(), measure=measure, sigma=sigma, rounds=rounds, variant="paper", gamma=gamma
    )
    if how == "sigma = 0":
        return game(learner, BinarySearch(measure, 0.0), runs, key=how)
    places = np.sort(learner.experts[:, 0])
    middle = float(places[len(places) // 2 - 1 : len(places) // 2 + 1].mean())
    return game(learner, NearBoundary(measure, sigma, middle), runs, key=how)


def experiment(
    cells: Cells,
    rounds: tuple[int, ...] = ROUNDS,
    sigmas: tuple[float, ...] = SIGMAS,
    runs: int = 40,
    fewer: int = 12,
    sweep: int = 1024,
    more: int = 120,
    small: tuple[int, int] = (128, 6),
    long: tuple[int, ...] = (256, 1024, 4096),
) -> Report:
    """Regret against T, sigma, adversaries and classes."""
    ends = (0.25, 2.0**-10)
    asked = [(a, t, s, fewer if t >= FEWER else runs) for s in ends for a in ADVERSARIES for t in rounds]
    games = {(s, a, t): one for (a, t, s, _), one in cells.each(thresholds, asked, "T").items()}
    found = cells.each(thresholds, [(a, sweep, s, more) for a in ("blocks", "search") for s in sigmas], "sigma")
    by_sigma = {a: [found[a, sweep, s, more] for s in sigmas] for a in ("blocks", "search")}
    paper = cells.each(thresholds, [(a, sweep, 0.25, runs, "paper") for a in ADVERSARIES], "cover")
    against = [(a, sweep, 0.25, runs) for a in (*ADVERSARIES, "contrary")]
    leading, hedging = (
        list(cells.each(who, against, title).values()) for who, title in ((leader, "leader"), (thresholds, "Hedge"))
    )
    others = cells.each(other, CLASSES, "classes", rounds=small[0], sigma=0.25, runs=small[1])
    places = [(how, t) for how in ("fine", "too coarse") for t in long]
    bad = list(cells.each(failing, [*places, ("sigma = 0", 48)], "who fails", runs=8).values())

    slopes = {
        (s, a): log_log_slope(rounds, [games[s, a, t]["regret"] for t in rounds]).slope
        for s in ends
        for a in ADVERSARIES
    }
    rows = []
    near: dict[str, list[float]] = {a: [] for a in ADVERSARIES}
    for s in ends:
        for i, a in enumerate(ADVERSARIES):
            values = [games[s, a, t] for t in rounds]
            rows.append([s, a, *(f"{one['regret']:.1f} ± {one['error']:.1f}" for one in values), slopes[s, a]])
            quoted = [QUOTED[t, s][i] if (t, s) in QUOTED else "" for t in rounds]
            rows.append(["", "quoted", *quoted, ""])
            near[a] += [one["regret"] / q - 1.0 for one, q in zip(values, quoted, strict=True) if isinstance(q, float)]
        for title, key in (
            ("lower bound, any learner", "floor"),
            ("bound O2", "bound"),
            ("by VC dimension", "coupling"),
        ):
            rows.append([s, title, *(games[s, "blocks", t][key] for t in rounds), ""])
    depths = np.array([block_depth(s) for s in sigmas], dtype=float)
    squares = np.array([one["regret"] ** 2 for one in by_sigma["blocks"]])
    line = np.polyfit(depths, squares, 1)
    explained = 1.0 - float(((squares - np.polyval(line, depths)) ** 2).sum() / ((squares - squares.mean()) ** 2).sum())
    fine, coarse = bad[: len(long)], bad[len(long) : -1]
    far = {a: max(map(abs, values), default=0.0) for a, values in near.items()}
    tables = [
        markdown(["σ", "adversary", *(f"T = {t}" for t in rounds), "slope"], rows),
        f"T = {sweep}, {more} runs:",
        markdown(
            ["log2(1/σ)", *(str(round(d)) for d in depths)],
            [[f"regret, {a}", *(f"{one['regret']:.1f} ± {one['error']:.1f}" for one in by_sigma[a])] for a in by_sigma]
            + [
                ["lower bound", *(one["floor"] for one in by_sigma["blocks"])],
                ["bound O2", *(one["bound"] for one in by_sigma["blocks"])],
            ],
        ),
        f"A cover of mass σ/(4 sqrt(T)), as printed, in place of brackets, σ = 1/4, T = {sweep}: "
        + ", ".join(f"{a} {one['regret']:.1f} (bound O1 {one['bound']:.0f})" for (a, *_), one in paper.items())
        + ".",
        f"Follow the leader, σ = 1/4, T = {sweep} (contrary: uniform points, labelled against the learner's "
        "likelier prediction):",
        markdown(
            ["", *ADVERSARIES, "contrary"],
            [
                [who, *(f"{one['regret']:.1f} ± {one['error']:.1f}" for one in row)]
                for who, row in (("Hedge", hedging), ("leader", leading))
            ],
        ),
        f"Other classes, σ = 1/4, T = {small[0]}, blocks along the first axis:",
        markdown(
            ["class", "representatives", "regret", "bound O2"],
            [[n, o["size"], f"{o['regret']:.1f} ± {o['error']:.1f}", o["bound"]] for n, o in others.items()],
        ),
        "Errors near a boundary (σ = 0.05; the best threshold makes none):",
        markdown(
            ["", *(f"T = {t}" for t in long)],
            [[name, *(one["errors"] for one in row)] for name, row in (("γ = σ/(4 sqrt(T))", fine), ("γ = σ", coarse))],
        ),
        f"Binary search without smoothness: {bad[-1]['errors']:.1f} errors in 48 rounds.",
        "Quoted regrets are met within "
        + ", ".join(f"{100 * far[a]:.0f} % ({a})" for a in ADVERSARIES)
        + "; against the search "
        + ("all are above them: not met." if near["search"] and min(near["search"]) > 0.1 else "they are met."),
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for (s, a), slope in slopes.items():
            regrets = [games[s, a, t]["regret"] for t in rounds]
            left.loglog(rounds, regrets, "o-", label=f"{a}, σ = {s:g}: {slope:.2f}", markersize=3)
        for s in ends:
            left.loglog(rounds, [games[s, "blocks", t]["bound"] for t in rounds], "k:", linewidth=0.8)
        left.set_xscale("log", base=2)
        left.set(xlabel="rounds T", ylabel="regret (dotted: bounds)")
        right.plot(depths, squares, "o", label="blocks")
        right.plot(depths, np.polyval(line, depths), "-", label="line")
        right.plot(depths, [one["floor"] ** 2 for one in by_sigma["blocks"]], "k:", label="lower bound")
        right.set(xlabel="log2(1/σ)", ylabel=f"regret², T = {sweep}")
        for axes in (left, right):
            axes.legend(fontsize=6)

    everything = [*games.values(), *found.values(), *paper.values(), *hedging, *others.values()]
    return Report(
        tables,
        {
            "every regret is below its bound": all(one["regret"] < one["bound"] for one in everything),
            "against blocks every regret is above the lower bound for all learners": all(
                g["regret"] + 4 * g["error"] >= g["floor"]
                for g in [games[s, "blocks", t] for s in ends for t in rounds]
            ),
            f"slope 1/2 in T within 0.05 for coins and blocks (the farthest: "
            f"{max((slopes[s, a] for s in ends for a in ('coins', 'blocks')), key=lambda v: abs(v - 0.5)):.3f})": all(
                abs(slopes[s, a] - 0.5) <= 0.05 for s in ends for a in ("coins", "blocks")
            ),
            f"regret² of blocks is linear in log2(1/σ) (R² = {explained:.3f})": explained >= 0.97,
            "regrets against coins and blocks agree with the quoted ones within 12 %": max(far["coins"], far["blocks"])
            <= 0.12,
            "representatives at γ = σ err in a third of all rounds, those at σ/(4 sqrt(T)) with a falling rate": all(
                c["errors"] > t / 3 for c, t in zip(coarse, long, strict=True)
            )
            and all(
                a["errors"] / s > b["errors"] / t for a, b, s, t in zip(fine, fine[1:], long, long[1:], strict=False)
            ),
            "an adversary can make follow-the-leader err in every round: regret of T/2 and more": leading[-1]["regret"]
            >= sweep / 2,
            "without smoothness every second prediction is wrong": bad[-1]["errors"] >= 20.0,
        },
        draw,
        "Regret against rounds, of slope one half; and its square against log2(1/σ), a line.",
    )
