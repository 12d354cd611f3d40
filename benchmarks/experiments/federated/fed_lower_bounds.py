"""Lower bounds on federated regret: printed, refuted and corrected, compared with the regret of learners.

Gao, Huang & Yang 2024, Theorem 2, print a lower bound of order min(ln(d)/eps, T) on the regret per client of every
eps-DP learner, for any number m of clients. Hedge on noisy sums of all clients' losses is eps-DP under the same
neighbouring relation, and falls below it as clients are added: by proof on every oblivious sequence of losses, and by
simulation on sequences that all clients share. (Not on coin losses: there every learner has the same expected regret.)

What holds is the larger of two floors: the exact regret on shared coin losses, for all m, and a packing bound of about
ln(d) / (m eps). Theorem 3's own constant and the number of experts that its proof needs stand beside the latter, and
the regret of private learners, and of one without privacy, on the losses that it is for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners import MultiplicativeWeights
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.lower_bounds import (
    PackingAdversary,
    independent_floor,
    packing_floor,
    packing_margin,
    printed_private_floor,
    printed_step,
    regret_floor,
    shared_floor,
    shared_losses,
    theorem_3,
)
from hockeystick.learners.federated.noisy_hedge import NoisyHedge
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT

SETTINGS = ((4096, 2, 1024), (16384, 2, 8192), (65536, 2, 32768), (4096, 64, 256))  # T, d, 1/eps
CLIENTS = (1, 10**2, 10**4, 10**6, 10**8)
SEQUENCES = ("constant", "alternating", "flip", "packing")
GOOD = (16384, 64, 100)  # T, d, 1/eps of one expert that never loses
COINS = (256, 16)  # T, d of the coin losses, at eps = 1
SEED = 20241210

Losses = npt.NDArray[np.float64]


def sequence(name: str, rounds: int, experts: int, inverse: int) -> Losses:
    """Losses that all clients share, shape (rounds, experts).

    "constant": expert 0 never loses, all others always; "flip": from the middle on expert 1 is the one that does not
    lose; "alternating": expert 0 loses in even rounds, expert 1 in odd ones; "packing": Theorem 3's adversary of a
    single client, in rounds.
    """
    if name == "packing":
        single = PackingAdversary.printed(clients=1, rounds=rounds, experts=experts, epsilon=1.0 / inverse)
        return single.average(experts - 1)
    t = np.arange(rounds)
    losses = np.ones((rounds, experts)) if name != "alternating" else np.zeros((rounds, experts))
    if name == "alternating":
        losses[t, t % 2] = 1.0
    elif name == "constant":
        losses[:, 0] = 0.0
    else:
        losses[t, np.where(2 * t < rounds, 0, 1)] = 0.0
    return losses


def played(rounds: int, experts: int, inverse: int, clients: int, name: str, runs: int) -> dict[str, Any]:
    """The noisy learner's mean regret per client, with its standard error over the noise."""
    learner = NoisyHedge.calibrated(
        clients=clients, rounds=rounds, experts=experts, epsilon=1.0 / inverse, steady=False
    )
    found = learner.regrets(sequence(name, rounds, experts, inverse), np.random.default_rng(SEED), runs)
    return {"mean": float(found.mean()), "error": float(found.std(ddof=1) / math.sqrt(runs))}


def proved(rounds: int, experts: int, inverse: int, clients: int) -> dict[str, Any]:
    """Bounds from above and below, without simulation."""
    setting: dict[str, Any] = {"clients": clients, "rounds": rounds, "experts": experts, "epsilon": 1.0 / inverse}
    learner = NoisyHedge.calibrated(**setting, steady=False)
    floor = regret_floor(**setting)
    return {
        "certified": learner.graph().guarantee(view="output").epsilon(0.0).upper * inverse,
        "bound": learner.regret_bound(),
        "floor": floor.value,
        "packing": floor.packing,
        "printed": printed_private_floor(**setting).value,
        "theorem 3": theorem_3(**setting).value,
    }


def coins(clients: int, streams: int) -> dict[str, Any]:
    """Mean regret on coin losses, shared by all clients and of their own, with standard errors."""
    rounds, experts = COINS
    learner = NoisyHedge.calibrated(clients=clients, rounds=rounds, experts=experts, epsilon=1.0, steady=False)
    rng = np.random.default_rng(SEED + clients)
    shared, own = np.empty(streams), np.empty(streams)
    for i in range(streams):
        shared[i] = learner.regrets(shared_losses(rounds=rounds, experts=experts, rng=rng), rng, 1)[0]
        own[i] = learner.regrets(rng.binomial(clients, 0.5, (rounds, experts)) / clients, rng, 1)[0]
    return {
        name: [float(found.mean()), float(found.std(ddof=1) / math.sqrt(streams))]
        for name, found in (("shared", shared), ("own", own))
    }


def beside(clients: int, runs: int) -> dict[str, Any]:
    """Mean regrets per client where one expert never loses and all others always do, and the floors for it."""
    rounds, experts, inverse = GOOD
    setting: dict[str, Any] = {"clients": clients, "rounds": rounds, "experts": experts, "epsilon": 1.0 / inverse}
    losses = sequence("constant", rounds, experts, inverse)
    rng = np.random.default_rng(SEED + clients)
    svt = FedSVT.calibrated(**setting)
    found = {
        "Fed-SVT": svt.regret(svt.simulate(clients * losses, rng, runs), clients * losses),
        "noisy Hedge": NoisyHedge.calibrated(**setting, steady=False).regrets(losses, rng, runs),
    }
    alone = LimitedUpdates(rounds=rounds, experts=experts, learning_rate=1.0 / inverse)
    return {
        **{name: [float(r.mean()), float(r.std(ddof=1) / math.sqrt(runs))] for name, r in found.items()},
        "each alone": alone.expected_regret(losses),
        "not private": MultiplicativeWeights(rounds=rounds, experts=experts).expected_regret(losses),
        "floor": packing_floor(**setting),
        "theorem 3": theorem_3(**setting).value,
    }


def experiment(
    cells: Cells,
    settings: tuple[tuple[int, int, int], ...] = SETTINGS,
    clients: tuple[int, ...] = CLIENTS,
    runs: int = 16,
    streams: int = 2000,
) -> Report:
    """Regret of the noisy learner, beside printed and corrected floors."""
    bounds = {(s, m): proved(*s, m) for s in settings for m in clients}
    cases = [(*s, m, name) for s in settings for m in clients for name in SEQUENCES]
    found = cells.each(played, cases, "sequences", runs=runs)
    regrets = {(key[:3], *key[3:]): row for key, row in found.items()}
    few = tuple(m for m in (1, 10, 100, 1000) if m <= max(clients))
    tossed = cells.each(coins, few, "coin losses", streams=streams)
    rounds, experts = COINS
    good = cells.each(beside, few, "learners", runs=runs)
    table = [
        markdown(
            ["T", "d", "1/ε", "m", "printed, all m", *SEQUENCES, "proved, all sequences", "floor", "of it packing"],
            [
                [t, d, inverse, _power(m), row["printed"]]
                + [_mean(regrets[(t, d, inverse), m, name]) for name in SEQUENCES]
                + [row["bound"], row["floor"], row["packing"]]
                for ((t, d, inverse), m), row in bounds.items()
            ],
        ),
        f"Coin losses, T = {rounds}, d = {experts}, ε = 1:",
        markdown(
            ["m", "shared by all clients", "exact", "of their own", "exact"],
            [
                [m, _pair(row["shared"]), shared_floor(rounds=rounds, experts=experts)]
                + [_pair(row["own"]), independent_floor(clients=m, rounds=rounds, experts=experts)]
                for m, row in tossed.items()
            ],
        ),
        "One expert that never loses, T = {}, d = {}, ε = 1/{}:".format(*GOOD),
        markdown(
            ["m", "Fed-SVT", "noisy Hedge", "Limited Updates, each alone"]
            + ["Hedge, not private", "packing bound", "Theorem 3"],
            [
                [m, _pair(row["Fed-SVT"]), _pair(row["noisy Hedge"])]
                + [row[name] for name in ("each alone", "not private", "floor", "theorem 3")]
                for m, row in good.items()
            ],
        ),
        "Conditions of the proof of Theorem 3 on d, and its bound beside the direct one (m = 1, T = 10^5, ε = 0.01):",
        markdown(
            "d | > 1/2 for δ = ε/d | > 1/2 for δ = 0 | printed step holds | Theorem 3 | direct packing bound",
            [
                [d, packing_margin(d), packing_margin(d, pure=True), printed_step(d).holds, *_single(d)]
                for d in (7, 8, 31, 32, 74, 75, 1000)
            ],
        ),
    ]
    crowd = max(clients)

    def draw(figure: Any) -> None:
        t, d, inverse = settings[0]
        axes = figure.subplots()
        grid = [10**k for k in range(10)]
        rows = [proved(t, d, inverse, m) for m in grid]
        axes.axhline(rows[0]["printed"], color="k", linestyle="--", label="printed lower bound, without its constant")
        axes.plot(grid, [row["bound"] for row in rows], "C3-", label="noisy Hedge, proved on every sequence")
        for name, style in (("constant", "C0o-"), ("packing", "C1v-")):
            means = [regrets[settings[0], m, name]["mean"] for m in clients]
            axes.plot(list(clients), means, style, label=f"noisy Hedge, {name} losses", markersize=3)
        axes.plot(grid, [row["floor"] for row in rows], "k-", label="corrected lower bound, on some sequence")
        axes.set(xscale="log", yscale="log", xlabel=f"clients m, at T = {t}, d = {d}, ε = 1/{inverse}")
        axes.set_ylabel("regret per client")
        axes.legend(fontsize=7, loc="upper right")

    return Report(
        table,
        {
            "the noisy learner is certified at ε for an adversary that sees all plays": all(
                row["certified"] <= 1.0 for row in bounds.values()
            ),
            f"with {_power(crowd)} clients its bound for every sequence is below a tenth of the printed one": all(
                10.0 * bounds[s, crowd]["bound"] < bounds[s, crowd]["printed"] for s in settings
            ),
            "with a million clients or more its regret on each sequence is below a tenth of the printed bound": all(
                10.0 * (row["mean"] + 5.0 * row["error"]) < bounds[s, m]["printed"]
                for (s, m, _), row in regrets.items()
                if m >= 10**6
            ),
            "it is within its proved bound everywhere": all(
                row["mean"] - 5.0 * row["error"] <= bounds[s, m]["bound"] for (s, m, _), row in regrets.items()
            ),
            "it is never below the corrected floor of the sequence (constant losses: the packing bound)": all(
                regrets[s, m, "constant"]["mean"] + 5.0 * regrets[s, m, "constant"]["error"] >= row["packing"]
                and row["bound"] >= row["floor"]
                for (s, m), row in bounds.items()
            ),
            "on coin losses its regret agrees with the exact one, for shared losses at every m and for each "
            "client's own losses": all(
                abs(row["shared"][0] - shared_floor(rounds=rounds, experts=experts)) <= 5.0 * row["shared"][1]
                and abs(row["own"][0] - independent_floor(clients=m, rounds=rounds, experts=experts))
                <= 5.0 * row["own"][1]
                for m, row in tossed.items()
            ),
            "if one expert never loses, every private learner is above the packing bound, and the learner without "
            "privacy is below it for one client": all(
                min(row["each alone"], *(sum(row[name]) for name in ("Fed-SVT", "noisy Hedge"))) >= row["floor"]
                for row in good.values()
            )
            and good[1]["not private"] < good[1]["floor"],
            "the direct packing bound is above Theorem 3's everywhere": all(
                row["packing"] > row["theorem 3"] for row in bounds.values()
            ),
        },
        draw,
        "Regret per client over the number of clients: the bound of the noisy learner falls below the printed "
        "lower bound, and stays above the corrected one.",
    )


def _single(experts: int) -> list[float]:
    row: dict[str, Any] = {"clients": 1, "rounds": 10**5, "experts": experts, "epsilon": 0.01}
    return [theorem_3(**row).value, regret_floor(**row).packing]


def _power(count: int) -> str:
    return f"10^{round(math.log10(count))}" if count > 100 else str(count)


def _mean(row: dict[str, Any]) -> str:
    return _pair([row["mean"], row["error"]])


def _pair(value: list[float]) -> str:
    return f"{value[0]:.4g} ± {value[1]:.1g}"
