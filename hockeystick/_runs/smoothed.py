"""The work of ``hockeystick run smoothed-online``: regret bounds, and the regret in simulated games."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick._runs.guarantee_entries import drawn_content
from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.measures import regret_bounds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.smooth_data import WindowLaw
from hockeystick.learners.smoothed.online.online_game import OnlineRuns, SmoothAdversary
from hockeystick.learners.smoothed.online.smooth_adversaries import (
    BinarySearch,
    Blocks,
    CellConcentration,
    NearBoundary,
    NoUniformConvergence,
    RandomLabels,
)
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline, Variant

Class = Literal["thresholds", "intervals", "rectangles", "halfspaces"]
Adversary = Literal["random", "near-boundary", "binary-search", "block", "cell", "app-b"]

LARGEST_COVER = 2**14
"""The largest number of predicates, unless a gamma is given."""

_CLASSES: dict[str, ConceptClass] = {
    "thresholds": Thresholds(),
    "intervals": Intervals(),
    "rectangles": Rectangles(2),
    "halfspaces": Halfspaces(2),
}
_CELLS = 10.0  # times 1/sigma: the cells of the adversary that concentrates
_MOST_CELLS = 2**20


@frozen(kw_only=True)
class Game:
    """The parameters of the learner and of its adversary.

    Attributes:
        concepts: The class; rectangles and half-spaces are in the plane.
        sigma: The smoothness that the learner assumes.
        rounds: T.
        adversary: The adversary's name.
        adversary_sigma: The adversary's smoothness; the bounds hold if it is at least ``sigma``.
        variant: "brackets" or "paper", see ``SmoothedOnline``.
        gamma: The gamma of the cover or the brackets; None for the best with at most :data:`LARGEST_COVER` members.
        points: The number of points per axis of the grid on which the base measure is uniform; None for the unit cube.
    """

    concepts: Class
    sigma: float
    rounds: int
    adversary: Adversary
    adversary_sigma: float
    variant: Variant = "brackets"
    gamma: float | None = None
    points: int | None = None

    @property
    def measure(self) -> BaseMeasure:
        """The base measure."""
        d = _CLASSES[self.concepts].dimension
        return UniformCube(d) if self.points is None else UniformGrid([self.points] * d)

    def learner(self) -> SmoothedOnline:
        """Returns the learner.

        Raises:
            InvalidArgumentError: An argument is outside its domain, or the class has no brackets on the measure.
        """
        concepts = _CLASSES[self.concepts]
        shares = 4.0 if self.variant == "paper" else 1.0
        gamma = self.gamma if self.gamma is not None else self.sigma / (shares * math.sqrt(self.rounds))
        if self.gamma is None:
            largest = _MOST_CELLS if self.concepts == "thresholds" else LARGEST_COVER
            while concepts.brackets(gamma, self.measure).count > largest and gamma < 1.0:
                gamma = min(1.0, 1.25 * gamma)
        return SmoothedOnline(
            concepts=concepts,
            measure=self.measure,
            sigma=self.sigma,
            rounds=self.rounds,
            variant=self.variant,
            gamma=gamma,
        )

    def opponent(self, learner: SmoothedOnline) -> SmoothAdversary:
        """Returns the adversary.

        Raises:
            InvalidArgumentError: The adversary does not exist on this domain, or with this smoothness.
        """
        name, sigma, measure = self.adversary, self.adversary_sigma, self.measure
        if name == "binary-search":
            return BinarySearch(measure, sigma)
        if sigma == 0.0:
            raise InvalidArgumentError(
                "--adversary-sigma", sigma, "needs --adversary binary-search", "give a number above 0"
            )
        if name == "random":
            return RandomLabels(WindowLaw(measure, 0.5 - 0.5 * sigma, sigma))
        if name == "near-boundary":
            return NearBoundary(measure, sigma, _between_two(learner))
        if name == "block":
            return Blocks(measure, sigma)
        if name == "cell":
            return CellConcentration(measure, sigma, min(_MOST_CELLS, math.ceil(_CELLS / sigma)))
        if measure != UniformCube(1):
            raise InvalidArgumentError(
                "--adversary", name, "is for [0, 1] only", "use thresholds or intervals, without --points"
            )
        if self.sigma > 0.5:
            raise InvalidArgumentError(
                "--sigma", self.sigma, "is above 1/2, the smoothness of this adversary", "give at most 0.5"
            )
        return NoUniformConvergence()


def _between_two(learner: SmoothedOnline) -> float:
    """Returns the quantile halfway between two representatives in the middle of the axis; 1/2 in more dimensions."""
    if not isinstance(learner.concepts, Thresholds):
        return 0.5
    reached = learner.measure.cdf(0, learner.experts[:, 0], left=True)
    at = len(reached) // 2
    first, last = (reached[at - 1], reached[at]) if at else (reached[0], 1.0)
    found = float(first + last) / 2.0
    return found if 0.0 < found < 1.0 else 0.5


def plan_content(game: Game, learner: SmoothedOnline, *, delta: float) -> dict[str, Any]:
    """Returns the entries of a plan: sizes, regret bounds, and the ε at ``delta`` of publishing the draws."""
    concepts = learner.concepts
    brackets = concepts.brackets(learner.scale, learner.measure)
    shared: dict[str, Any] = {"rounds": game.rounds, "sigma": game.sigma}
    vc = concepts.vc_dimension
    bounds: dict[str, float] = {
        "cover": regret_bounds.cover_regret_bound(
            **shared, gamma=learner.scale, log_cover=math.log(learner.size), log_brackets=brackets.log_count
        ),
        "coupling": regret_bounds.coupling_regret_bound(**shared, vc_dimension=vc),
        "nonadaptive": regret_bounds.nonadaptive_regret_bound(**shared, vc_dimension=vc),
    }
    if game.variant == "brackets":
        bounds["brackets"] = regret_bounds.brackets_regret_bound(
            **shared, epsilon=learner.scale, log_brackets=math.log(learner.size)
        )
    return {
        "mode": "plan",
        "learner": "smoothed-online",
        "class": game.concepts,
        "vc_dimension": vc,
        "base_measure": "uniform on the unit cube"
        if game.points is None
        else f"uniform on {game.points} points per axis",
        "sigma": game.sigma,
        "rounds": game.rounds,
        "adversary": game.adversary,
        "variant": game.variant,
        "gamma": learner.scale,
        "gamma_of_theory": game.sigma / math.sqrt(game.rounds) / (4.0 if game.variant == "paper" else 1.0),
        "cover_size": learner.size,
        "brackets": brackets.count,
        "learning_rate": learner.rate,
        "regret_bound": learner.regret_bound(),
        "bounds": bounds,
        "regret_floor": regret_bounds.thresholds_regret_floor(rounds=game.rounds, sigma=game.sigma),
        "rho": learner.zcdp_bound(),
        **_cost_of_draws(learner, delta),
    }


def _cost_of_draws(learner: SmoothedOnline, delta: float) -> dict[str, Any]:
    guarantee = learner.graph().guarantee()
    found = guarantee.epsilon(delta, bracket=True)
    return {
        "epsilon": found.upper,
        "epsilon_lower": found.lower,
        "delta": delta,
        "method": found.method,
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        **drawn_content(guarantee, delta),
    }


def play_content(game: Game, learner: SmoothedOnline, *, runs: int, seed: int) -> dict[str, Any]:
    """Returns the entries of simulated games; regret is against the whole class in hindsight.

    Raises:
        InvalidArgumentError: The adversary does not fit, or there are too many rounds to find the best predicate.
    """
    opponent = game.opponent(learner)
    secret, nature = np.random.default_rng(seed).spawn(2)
    played = learner.simulate(opponent, runs, secret=secret, nature=nature)
    best = played.least_errors(learner.concepts)
    regrets = played.losses.sum(axis=1) - best
    expected = played.chances.sum(axis=1) - best
    return {
        "mode": "simulation",
        "simulated": True,
        "seed": seed,
        "runs": runs,
        "adversary_sigma": opponent.sigma,
        "adaptive": opponent.adaptive,
        "bound_applies": opponent.sigma >= game.sigma * (1.0 - 1e-12),
        "errors": float(played.losses.sum(axis=1).mean()),
        "least_errors": float(best.mean()),
        "regret": float(regrets.mean()),
        "regret_error": None if runs == 1 else float(regrets.std(ddof=1) / math.sqrt(runs)),
        "regret_largest": int(regrets.max()),
        "expected_regret": float(expected.mean()),
        "per_run": regrets.astype(int),
        **_own(opponent, played),
    }


def _own(opponent: SmoothAdversary, played: OnlineRuns) -> dict[str, Any]:
    """Returns the entries of statistics that belong to one adversary."""
    if isinstance(opponent, CellConcentration):
        rounds = played.labels.shape[1]
        mean = rounds / (opponent.cells * opponent.sigma)
        return {
            "cells": opponent.cells,
            "most_hits": float(opponent.hits(played.points).max(axis=1).mean()),
            "most_hits_bound": regret_bounds.hits_bound(math.log(opponent.cells), mean),
        }
    if isinstance(opponent, NoUniformConvergence):
        return {"shares_above_half": (played.points[:, 1:, 0] > 0.5).mean(axis=1)}
    return {}
