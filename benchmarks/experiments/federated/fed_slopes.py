"""The decrease of federated regret in the number of clients and in epsilon: slopes on logarithmic axes, and bounds.

* *Coins*: Fed-DP-OPE-Stoch with one tree and printed noise, of the clients or of a trusted server. One of 64 experts is
  better by a gap, and the worst of five gaps is reported: with a fixed gap regret falls faster than any bound says.
  Regret is against the expert that is best in expectation.
* *Curves*: the same learner on ||x - y||^2/2 for points y of 16 coordinates around a hidden one, epsilon 0.3, as many
  trees as the certified rule gives. Regret is against the hidden point.
* *One expert without loss*: Fed-SVT, calibrated; against m, epsilon, the period N, and the best expert's loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.made_up_streams import OneGoodExpert, Targets, UniformLosses, hard_gap
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, Where
from hockeystick.learners.federated.stochastic.losses import SquaredDistances
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases

SEED = 20240929
GAPS = (0.25, 0.5, 1.0, 2.0, 4.0)
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
EPSILONS = (0.1, 1.0, 10.0)
SMALL = (0.025, 0.05, 0.1)  # at the largest number of clients: noise dominates, and regret is far from T/2
COINS_D, CURVES_D, SPARSE_D = 64, 16, 100
CURVES_EPSILON = 0.3
SPARSE_EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
PERIODS = (1, 8, 32, 128)
BEST_LOSSES = (0, 2, 8)
RHO = 0.1
PLACES: tuple[Where, Where] = ("client", "server")


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line of least squares on logarithmic axes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --- stochastic losses -----------------------------------------------------------------------------------------------


def excess(points: FloatArray, per_round: FloatArray) -> float:
    """Mean pseudo-regret over runs: phase p is played 2^(p-1) times; per_round has shape (runs, phases)."""
    return float((per_round * 2.0 ** np.arange(points.shape[1])).sum(axis=1).mean())


def coins(clients: int, epsilon: float, where: Where, doublings: int, seeds: int) -> dict[str, Any]:
    """The largest pseudo-regret over the gaps, T = 2^doublings - 1, and its bound."""
    used = 2 ** (doublings - 1)  # later losses are played and never read
    sizes = Sizes(clients=clients, experts=COINS_D, epsilon=epsilon, where=where)
    phases = certified_phases(sizes, 2 * used - 1, trees=1)
    setting = StochSetting(clients=clients, phases=phases, where=where)
    learner = FedStoch(setting=setting, rounds=used, experts=COINS_D)
    noise = phases[-1].scale(1) / (math.sqrt(clients) if where == "client" else 1.0)
    unit = hard_gap(clients=clients, records=used // 4, experts=COINS_D, noise=noise)
    found = []
    for number, factor in enumerate(GAPS):
        gap, values = min(0.5, factor * unit), []
        stream = OneGoodExpert(clients=clients, rounds=used, experts=COINS_D, gap=gap, best=COINS_D - 1)
        for seed in range(seeds):
            rng = np.random.default_rng([SEED, clients, number, seed])
            points = learner.simulate(stream.losses(rng), rng, 2).points
            values.append(excess(points, gap * (1.0 - points[:, :, -1])))
        found.append(float(np.mean(values)))
    whole = FedStoch(setting=setting, rounds=2 * used - 1, experts=COINS_D)
    return {"regret": max(found), "bound": whole.regret_bound(pseudo=True)}


def curves(clients: int, where: Where, epsilon: float, doublings: int, seeds: int) -> dict[str, Any]:
    """Pseudo-regret on curved losses, T = 2^doublings - 1, and the numbers of trees."""
    used = 2 ** (doublings - 1)
    sizes = Sizes(clients=clients, experts=CURVES_D, epsilon=epsilon, lipschitz=1.2, smoothness=1.0, where=where)
    phases = certified_phases(sizes, used)
    setting = StochSetting(clients=clients, phases=phases, low=-1.2, high=1.2, smoothness=1.0, where=where)
    family = SquaredDistances(least=-0.2, most=1.2)
    learner = FedStoch(setting=setting, rounds=used, experts=CURVES_D, family=family)
    stream, values = Targets(clients=clients, rounds=used, experts=CURVES_D, spread=0.2), []
    for seed in range(seeds):
        centre = np.random.default_rng([SEED, 1, seed]).dirichlet(np.ones(CURVES_D))  # that of the stream
        rng = np.random.default_rng([SEED, 1, seed])
        points = learner.simulate(stream.losses(rng), rng, 2).points
        values.append(excess(points, 0.5 * ((points - centre) ** 2).sum(axis=2)))
    trees = [phase.trees for phase in phases]
    return {"regret": float(np.mean(values)), "bound": learner.regret_bound(pseudo=True), "trees": trees}


# --- one good expert -------------------------------------------------------------------------------------------------


def sparse(
    clients: int, epsilon: float, period: int, best_loss: int, delta: float, rounds: int, seeds: int
) -> dict[str, Any]:
    """Fed-SVT's regret, its bound, and the part of the runs that exceed it."""
    learner = FedSVT.calibrated(
        clients=clients,
        rounds=rounds,
        experts=SPARSE_D,
        epsilon=epsilon,
        delta=delta,
        period=period,
        best_loss=float(best_loss),
        rho=RHO,
    )
    values = []
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, 2, clients, seed])
        losses = UniformLosses(clients=clients, rounds=rounds, experts=SPARSE_D, best=0).totals(rng)
        losses[rng.permutation(rounds)[:best_loss], 0] = clients
        values.append(learner.regret(learner.simulate(losses, rng, 8), losses))
    regrets = np.array(values)
    bound = learner.regret_bound(RHO)
    beyond = float((regrets > bound).mean())
    return {"regret": float(regrets.mean()), "bound": bound, "beyond": beyond, "switches": learner.switches}


# --- the report ------------------------------------------------------------------------------------------------------


def experiment(
    cells: Cells,
    doublings: tuple[int, int] = (11, 12),
    rounds: int = 4096,
    seeds: tuple[int, int, int] = (24, 16, 8),
    clients: tuple[int, ...] = CLIENTS,
    lengths: tuple[int, ...] = (8, 9, 10, 11, 12, 13),
) -> Report:
    """Slopes of regret in the number of clients and in epsilon."""
    most, curved = clients[-1], clients[:-1]
    wanted = [(m, e, w) for w in PLACES for e in EPSILONS for m in clients]
    wanted += [(most, eps, "client") for eps in SMALL if eps not in EPSILONS]
    found = cells.each(coins, reversed(wanted), "coins", doublings=doublings[0], seeds=seeds[0])
    flat = {(w, e, m): row for (m, e, w), row in found.items()}
    few, middle = curved[-1], 4.0
    asked = [(m, w, CURVES_EPSILON, doublings[1]) for w in PLACES for m in curved]
    asked += [(few, "client", CURVES_EPSILON, p) for p in lengths]
    bent = {(w, m, p): row for (m, w, _, p), row in cells.each(curves, asked, "curves", seeds=seeds[1]).items()}
    plans = (
        [(m, middle, 1, 0, 0.0) for m in curved]
        + [(10, e, 1, 0, delta) for e in SPARSE_EPSILONS for delta in (0.0, 1e-6)]
        + [(few, 16.0, n, 0, 0.0) for n in PERIODS]
        + [(few, 16.0, 1, loss, 0.0) for loss in BEST_LOSSES]
    )
    single = cells.each(sparse, plans, "one good expert", rounds=rounds, seeds=seeds[2])

    lines = {(w, e): [flat[w, e, m]["regret"] for m in clients] for w in PLACES for e in EPSILONS}
    tiny = [flat["client", e, most]["regret"] for e in SMALL]
    bends = {w: [bent[w, m, doublings[1]]["regret"] for m in curved] for w in PLACES}
    longer = [bent["client", few, p]["regret"] for p in lengths]
    by_clients = [single[m, middle, 1, 0, 0.0]["regret"] for m in curved]
    by_epsilon = {delta: [single[10, e, 1, 0, delta]["regret"] for e in SPARSE_EPSILONS] for delta in (0.0, 1e-6)}
    by_period = [single[few, 16.0, n, 0, 0.0]["regret"] for n in PERIODS]
    by_loss = [single[few, 16.0, 1, loss, 0.0] for loss in BEST_LOSSES]
    slopes = {key: slope(clients, line) for key, line in lines.items()}
    bend_slopes = {w: slope(curved, line) for w, line in bends.items()}
    names = {"client": "clients", "server": "server"}
    tables = [
        f"Coins, T = {2 ** doublings[0] - 1}, d = {COINS_D}:",
        markdown(
            ["noise of", "ε", *(f"m = {m}" for m in clients), "slope"],
            [[names[w], f"{e:g}", *line, slopes[w, e]] for (w, e), line in lines.items()],
        ),
        f"Coins, noise of {most} clients:",
        markdown([*(f"ε = {e:g}" for e in SMALL), "slope"], [[*tiny, slope(SMALL, tiny)]]),
        f"Curves, T = {2 ** doublings[1] - 1}, d = {CURVES_D}, ε = {CURVES_EPSILON:g}:",
        markdown(
            ["noise of", *(f"m = {m}" for m in curved), "slope"],
            [[names[w], *line, bend_slopes[w]] for w, line in bends.items()],
        ),
        f"Curves, noise of {few} clients:",
        markdown(
            [*(f"T = {2**p - 1}" for p in lengths), "slope"], [[*longer, slope([2.0**p for p in lengths], longer)]]
        ),
        f"Fed-SVT, T = {rounds}, d = {SPARSE_D}, ε = {middle:g}:",
        markdown([*(f"m = {m}" for m in curved), "slope"], [[*by_clients, slope(curved, by_clients)]]),
        "Fed-SVT, m = 10:",
        markdown(
            ["δ", *(f"ε = {e:g}" for e in SPARSE_EPSILONS), "slope"],
            [[f"{delta:g}", *line, slope(SPARSE_EPSILONS, line)] for delta, line in by_epsilon.items()],
        ),
        f"Fed-SVT, m = {few}, ε = 16:",
        markdown([f"N = {n}" for n in PERIODS], [by_period]),
        f"Fed-SVT, m = {few}, ε = 16, if the best expert loses in so many rounds:",
        markdown([str(loss) for loss in BEST_LOSSES], [[row["regret"] for row in by_loss]]),
    ]

    def draw(figure: Any) -> None:
        left, middle_axes, right = figure.subplots(1, 3)
        for (w, e), line in lines.items():
            left.loglog(clients, line, "o-" if w == "client" else "s--", label=f"{names[w]}, ε = {e:g}", markersize=3)
        left.set(title="coins", xlabel="m", ylabel="regret per client")
        for w, line in bends.items():
            middle_axes.loglog(curved, line, "o-" if w == "client" else "s--", label=names[w], markersize=3)
        middle_axes.set(title="curves", xlabel="m")
        right.loglog(curved, by_clients, "o-", label=f"against m, ε = {middle:g}", markersize=3)
        right.loglog(SPARSE_EPSILONS, by_epsilon[0.0], "s-", label="against ε, m = 10", markersize=3)
        right.set(title="one good expert", xlabel="m or ε")
        for axes in (left, middle_axes, right):
            axes.legend(fontsize=6)

    return Report(
        tables,
        {
            "coins, noise of the clients: slope -1/2 in m at every ε, up to 0.1": all(
                abs(slopes["client", e] + 0.5) <= 0.1 for e in EPSILONS
            ),
            f"coins, noise of the server: slope {slopes['server', EPSILONS[0]]:.2f} in m where noise dominates "
            f"(-1 to -0.85), {slopes['server', EPSILONS[-1]]:.2f} where it does not (-1/2 up to 0.1)": -1.05
            <= slopes["server", EPSILONS[0]]
            <= -0.85
            and abs(slopes["server", EPSILONS[-1]] + 0.5) <= 0.1,
            "coins, small ε: slope -1 in ε, up to 0.15": abs(slope(SMALL, tiny) + 1.0) <= 0.15,
            "coins and curves: no regret is above its explicit bound": all(
                row["regret"] <= row["bound"] for row in (*flat.values(), *bent.values())
            ),
            "curves: slopes in m of -1/4 for noise of the clients, -1/2 for the server's, up to 0.15": abs(
                bend_slopes["client"] + 0.25
            )
            <= 0.15
            and abs(bend_slopes["server"] + 0.5) <= 0.15,
            "curves: slope 1/2 in T, up to 0.15": abs(slope([2.0**p for p in lengths], longer) - 0.5) <= 0.15,
            "Fed-SVT: slopes -1 in m and in ε, up to 0.1 (with δ > 0 for ε ≤ 4: beyond, the regret of N/2 shows)": abs(
                slope(curved, by_clients) + 1.0
            )
            <= 0.1
            and abs(slope(SPARSE_EPSILONS, by_epsilon[0.0]) + 1.0) <= 0.1
            and abs(slope(SPARSE_EPSILONS[:3], by_epsilon[1e-6][:3]) + 1.0) <= 0.1,
            "Fed-SVT: longer periods cost half a round each, up to the losses of a few more experts": all(
                0.4 * (n - 1) <= value - by_period[0] <= 1.5 * (n - 1)
                for n, value in zip(PERIODS[1:], by_period[1:], strict=True)
            ),
            f"Fed-SVT: at most {2 * RHO:g} of the runs are above the bound, which may fail for "
            f"{2 * RHO:g} of them": all(row["beyond"] <= 2 * RHO for row in single.values()),
            "Fed-SVT: a best expert that loses L* costs at most (κ + 1)L* more": all(
                row["regret"] - by_loss[0]["regret"] <= (row["switches"] + 1) * loss
                for row, loss in zip(by_loss, BEST_LOSSES, strict=True)
            ),
        },
        draw,
        "Regret per client on logarithmic axes: coins and curves against the number of clients, Fed-SVT against both.",
    )
