"""The regret of every private online learner on two real streams, beside the learner without privacy and the bound.

The streams come from data sets that ship with scikit-learn: 1797 images of handwritten digits, and 569 cases of breast
tumours. A fifth of the rows is declared public. It trains eight classifiers (a constant, trees, neighbours, naive
Bayes, logistic regression), which are the experts. The other rows are the protected people, one round each, in a fixed
random order; an expert's loss on a person is 1 if it errs. So losses are nearly independent with one law, and no
person's round depends on earlier plays. Bandits see the loss of their arm alone. For federated learners ten people at a
time are ten clients in one round, and regrets are per client. Learners of convex losses fit a logistic regression of
the first class within a ball of radius 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from scipy import optimize

import hockeystick.learners as L
from benchmarks.frame import Cells, Report, markdown
from hockeystick._runs.bundled_data import classifier_errors, logistic_losses
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy import Ball, RegressionLosses, SecureTangentSampler
from hockeystick.mechanisms import SimulationNoise

STREAMS = ("digits", "breast_cancer")
CLIENTS = 10
DELTA = 1e-6
EPSILONS = (1.0,)


@frozen
class Played:
    """Regrets of seeded runs, the bound, and the regrets of learners without privacy."""

    regrets: FloatArray
    bound: float
    free: tuple[float, ...]


def goal(epsilon: float, losses: FloatArray) -> dict[str, Any]:
    """The target and the size of a learner of experts."""
    return {"rounds": len(losses), "experts": losses.shape[1], "epsilon": epsilon, "delta": DELTA}


def without_privacy(losses: FloatArray) -> tuple[float, float]:
    """Returns the expected regret of Hedge at its best rate, and that of following the leader, ties to the first."""
    hedge = L.MultiplicativeWeights(rounds=len(losses), experts=losses.shape[1])
    before = np.cumsum(losses, axis=0) - losses
    played = losses[np.arange(len(losses)), before.argmin(axis=1)].sum()
    return float(hedge.expected_regret(losses)), float(played - losses.sum(axis=0).min())


def experts(build: Callable[[float, FloatArray], Any], seen: str = "oblivious") -> Callable[..., Played]:
    """A learner of experts that plays whole releases."""

    def play(losses: FloatArray, epsilon: float, runs: int) -> Played:
        learner, every = build(epsilon, losses), np.arange(len(losses))
        found = []
        for seed in range(runs):
            played = learner.release(losses, noise=SimulationNoise(seed))
            found.append(losses[every, getattr(played, "actions", played)].sum())
        bound = learner.regret_bound(adversary=seen)
        return Played(np.array(found) - losses.sum(axis=0).min(), float(bound), without_privacy(losses))

    return play


def calibrated(kind: Any, seen: str = "oblivious", **given: Any) -> Callable[..., Played]:
    """One that is calibrated by its class."""
    return experts(lambda epsilon, losses: kind.calibrated(**goal(epsilon, losses), **given), seen)


def restarted(losses: FloatArray, epsilon: float, runs: int) -> Played:
    """The dartboard, restarted in growing epochs, for a number of rounds that it does not know."""
    rounds, width = losses.shape
    made = L.Anytime(
        lambda length: L.LazyExperts.calibrated(rounds=length, experts=width, epsilon=epsilon, delta=DELTA),
        ratio=4,
        first=16,
        epochs=math.ceil(math.log(3 * rounds / 16 + 1, 4)),
    )
    found = np.zeros(runs)
    for seed in range(runs):
        session = made.start(noise=SimulationNoise(seed))
        for row in losses:
            found[seed] += row[session.predict()]
            session.update(row)
    return Played(found - losses.sum(axis=0).min(), float(made.regret_bound(rounds)), without_privacy(losses))


def bandit(kind: Any) -> Callable[..., Played]:
    """A learner that sees the loss of its own arm."""

    def play(losses: FloatArray, epsilon: float, runs: int) -> Played:
        learner = kind.calibrated(rounds=len(losses), arms=losses.shape[1], epsilon=epsilon)
        found = learner.regrets(losses, np.random.default_rng(1), runs)
        return Played(found, float(learner.regret_bound()), without_privacy(losses))

    return play


def federated(losses: FloatArray) -> FloatArray:
    """Returns the losses of ten clients, shape (clients, rounds, experts)."""
    rounds = len(losses) // CLIENTS
    return losses[: rounds * CLIENTS].reshape(rounds, CLIENTS, -1).transpose(1, 0, 2)


def noisy_hedge(losses: FloatArray, epsilon: float, runs: int) -> Played:
    """Hedge on noisy sums at a server."""
    mean = federated(losses).mean(axis=0)
    learner = L.NoisyHedge.calibrated(clients=CLIENTS, rounds=len(mean), experts=mean.shape[1], epsilon=epsilon)
    return Played(
        learner.regrets(mean, np.random.default_rng(1), runs), float(learner.regret_bound()), without_privacy(mean)
    )


def fed_stoch(losses: FloatArray, epsilon: float, runs: int) -> Played:
    """The learner of stochastic losses; its bound is for independent losses of one law."""
    table = federated(losses)
    learner = L.FedStoch.calibrated(
        clients=CLIENTS, rounds=table.shape[1], experts=table.shape[2], epsilon=epsilon, delta=0.0
    )
    points = learner.simulate(table, np.random.default_rng(1), runs).points
    regrets = np.asarray(learner.regrets(points, table))
    return Played(regrets, float(learner.regret_bound()), without_privacy(table.mean(axis=0)))


def fed_svt(losses: FloatArray, epsilon: float, runs: int) -> Played:
    """The learner for a good expert; the loss of the best one, rounded up, is taken as public."""
    table = federated(losses)
    best = math.ceil(table.mean(axis=0).sum(axis=0).min())
    learner = L.FedSVT.calibrated(
        clients=CLIENTS, rounds=table.shape[1], experts=table.shape[2], epsilon=epsilon, delta=DELTA,
        best_loss=float(best),
    )  # fmt: skip
    regrets = learner.regret(learner.simulate(table, np.random.default_rng(1), runs), table)
    return Played(np.asarray(regrets), float(learner.regret_bound()), without_privacy(table.mean(axis=0)))


def logistic(points: FloatArray, given: RegressionLosses) -> FloatArray:
    """Returns the loss of each round's point."""
    return np.asarray(np.logaddexp(0.0, -given.targets * np.sum(points * given.features, axis=-1)))


def convex(build: Callable[..., Any]) -> Callable[..., Played]:
    """A learner of convex losses; beside it the same one at ε = 10^6, against the best point."""

    def play(losses: RegressionLosses, epsilon: float, runs: int) -> Played:
        width = losses.features.shape[1]
        shape: dict[str, Any] = {
            "rounds": losses.rounds, "domain": Ball(width, 1.0), "lipschitz": 1.0, "delta": DELTA,
        }  # fmt: skip
        fitted = optimize.minimize(
            lambda x: logistic(x, losses).sum(),
            np.zeros(width),
            constraints={"type": "ineq", "fun": lambda x: 1.0 - x @ x},
            method="SLSQP",
        )

        def regrets(learner: Any, count: int) -> FloatArray:
            plays = (learner.release(losses, noise=SimulationNoise(seed)) for seed in range(count))
            total = [logistic(getattr(one, "actions", one), losses).sum() for one in plays]
            return np.array(total) - float(fitted.fun)

        learner = build(**shape, epsilon=epsilon)
        free = L.PrivateFTRL.calibrated(**shape, epsilon=1e6)
        found = regrets(learner, runs)
        return Played(found, float(learner.regret_bound()), (float(regrets(free, 1)[0]),))

    return play


LEARNERS: dict[str, Callable[..., Played]] = {
    "LazyExperts, dartboard": calibrated(L.LazyExperts),
    "LazyExperts, L2P": calibrated(L.LazyExperts, variant="l2p"),
    "ShrinkingDartboard": calibrated(L.ShrinkingDartboard),
    "TreeExperts, leader": calibrated(L.TreeExperts, sums="square root"),
    "TreeExperts, Hedge": calibrated(L.TreeExperts, sums="square root", policy="hedge"),
    "AnytimeTreeExperts, leader": calibrated(L.AnytimeTreeExperts),
    "Anytime, dartboard": restarted,
    "SleepingExperts, all awake": calibrated(L.SleepingExperts),
    "LimitedUpdates": calibrated(L.LimitedUpdates, "stochastic"),
    "learner of choose": experts(lambda epsilon, losses: L.choose(**goal(epsilon, losses)).learner),
    "NoisyBandit": bandit(L.NoisyBandit),
    "PrivateElimination": bandit(L.PrivateElimination),
    "PrivateUCB": bandit(L.PrivateUCB),
    "NoisyHedge, 10 clients": noisy_hedge,
    "FedStoch, 10 clients": fed_stoch,
    "FedSVT, 10 clients": fed_svt,
    "PrivateFTRL": convex(L.PrivateFTRL.calibrated),
    "LazyConvex": convex(lambda **given: L.LazyConvex.calibrated(**given, sampler=SecureTangentSampler())),
}
CONVEX = ("PrivateFTRL", "LazyConvex")


def measured(stream: str, learner: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Regrets of a learner on a stream."""
    losses = logistic_losses(stream) if learner in CONVEX else classifier_errors(stream)
    found = LEARNERS[learner](losses, epsilon, runs)
    return {
        "mean": float(found.regrets.mean()),
        "error": float(found.regrets.std(ddof=1) / math.sqrt(len(found.regrets))),
        "bound": found.bound,
        "free": list(found.free),
    }


def experiment(
    cells: Cells,
    streams: tuple[str, ...] = STREAMS,
    learners: tuple[str, ...] = tuple(LEARNERS),
    epsilons: tuple[float, ...] = EPSILONS,
    runs: int = 40,
) -> Report:
    """Regrets of all online learners on two real streams."""
    settings = [(stream, name, epsilon) for stream in streams for name in learners for epsilon in epsilons]
    found = cells.each(measured, settings, "regrets", runs=runs)
    rows = []
    for stream in streams:
        for name in learners:
            each = [found[stream, name, epsilon] for epsilon in epsilons]
            told = [f"{one['mean']:.1f} ± {one['error']:.1f} ({one['bound']:.0f})" for one in each]
            rows.append([stream, name, " / ".join(f"{one:.1f}" for one in each[0]["free"]), *told])
    titles = [f"ε = {epsilon:g}: regret ± standard error (bound)" for epsilon in epsilons]
    within = all(one["mean"] - 5.0 * one["error"] <= one["bound"] for one in found.values())
    return Report(
        markdown(["stream", "learner", "without privacy", *titles], rows),
        {"no mean regret is five standard errors above its bound": within},
    )
