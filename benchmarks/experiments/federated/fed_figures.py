"""The figures of the federated paper, reproduced: regret per client on its streams, with printed and certified noise.

Gao, Huang & Yang 2024 show curves and print no numbers; parameters that they do not state are ours and are named here.

* Figures 1 and 4, stochastic losses, claimed epsilon 10, 10 clients, 100 experts: three streams, of which the first is
  the paper's model in its plain form (expected errors), the second has the errors themselves, and the third is coins.
* Figures 2 and 5, one expert without loss: printed constants, corrected ones, and the library's own.
* Figure 6, genres of films: a made-up twin of MovieLens-1M, in the two ways of filling what nobody rated. The rows
  "not scaled" feed losses in stars to noise for losses in [0, 1], as the paper seems to do; their certified epsilon is
  that of what they are.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.frame import Cells, Report, Result, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.made_up_streams import (
    BernoulliLosses,
    ClassDistributions,
    FederatedStream,
    Form,
    UniformLosses,
)
from hockeystick.learners.federated.one_good_expert.calibration import (
    Budget,
    Margin,
    noise_margin,
    switch_budget,
    threshold_level,
)
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.rating_losses import STARS, Fill, assigned, scaled_losses, synthetic_ratings
from hockeystick.learners.federated.stochastic.calibration import calibrated, one_release
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, Where
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases

CLIENTS, EXPERTS, EPSILON, RHO = 10, 100, 10.0, 0.1
PERIODS = (1, 30, 50)
SEED = 20240928

STREAMS = ("expected errors", "sampled errors", "coins")
STOCHASTIC = (
    "one tree, noise as printed",
    "one release, certified",
    "server's noise, as printed",
    "server's noise, certified",
    "hidden from the server",
    "alone",
)

Constants = tuple[Budget, Margin, bool]  # switches, margin of the noise, and whether the noise is ours
CONSTANTS: dict[str, Constants | None] = {
    "printed": ("printed", "printed", False),
    "proved": ("safe", "proved", False),
    "fewest switches": ("negative binomial", "proved", False),
    "fewest switches, less noise": ("negative binomial", "tight", True),
    "calibrated": None,
}
QUOTED = {  # computed independently of this code: alone, and N = 1, 30, 50
    "printed": (160.5, 14.8, 21.0, 26.0),
    "proved": (232.0, 27.0, 26.4, 35.2),
    "fewest switches": (67.2, 6.8, 14.6, 24.3),
    "fewest switches, less noise": (36.3, 4.1, 14.6, 24.3),
}
CASES: tuple[tuple[Fill, bool], ...] = (("zero", True), ("zero", False), ("mean", True), ("mean", False))


def summary(values: FloatArray) -> dict[str, float]:
    """Mean, standard deviation of one run, and standard error of the mean over data of shape (seeds, runs)."""
    means = values.mean(axis=1)
    return {
        "mean": float(values.mean()),
        "deviation": float(values.std()),
        "error": float(means.std(ddof=1) / np.sqrt(len(means))),
    }


# --- figures 1 and 4 -------------------------------------------------------------------------------------------------


def stream(name: str, rounds: int) -> FederatedStream:
    """One of the three streams."""
    if name == "coins":
        return BernoulliLosses(clients=CLIENTS, rounds=rounds, experts=EXPERTS)
    form: Form = "expected" if name == "expected errors" else "sampled"
    return ClassDistributions(clients=CLIENTS, rounds=rounds, experts=EXPERTS, form=form)


def stochastic(name: str, rounds: int) -> FedStoch:
    """A learner for the claimed epsilon."""
    where: Where = "server" if name.startswith("server's") else "client"
    sizes = Sizes(clients=CLIENTS, experts=EXPERTS, epsilon=EPSILON, where=where)
    setting = StochSetting(clients=CLIENTS, phases=certified_phases(sizes, rounds, trees=1), where=where)
    if not name.endswith("as printed"):
        model = "server" if name == "hidden from the server" else "output"
        setting = calibrated(one_release(setting), experts=EXPERTS, threat_model=model, epsilon=EPSILON)
    return FedStoch(setting=setting, rounds=rounds, experts=EXPERTS)


def measured_stochastic(name: str, rounds: int, seeds: int) -> dict[str, Any]:
    """Regret of all learners on one stream, and what is certified of them."""
    learners = {who: stochastic(who, rounds) for who in STOCHASTIC[:-1]}
    regrets: dict[str, list[list[float]]] = {who: [] for who in STOCHASTIC}
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, STREAMS.index(name), seed])
        losses = stream(name, rounds).losses(rng)
        for who, learner in learners.items():
            points = learner.simulate(losses, rng, 4).points
            regrets[who].append([float(value) for value in learner.regrets(points, losses)])
        alone = LimitedUpdates(rounds=rounds, experts=EXPERTS, learning_rate=EPSILON)
        regrets["alone"].append([alone.average(losses)])
    return {
        "regret": {who: summary(np.array(found)) for who, found in regrets.items()},
        "certified": {
            who: {view: learner.graph().guarantee(view=view).epsilon(0.0).upper for view in ("output", "server")}
            for who, learner in learners.items()
        },
    }


# --- figures 2, 5 and 6 ----------------------------------------------------------------------------------------------


def sparse(
    constants: Constants | None, *, clients: int, rounds: int, experts: int, period: int, unit: float = 1.0
) -> FedSVT:
    """Fed-SVT for the claimed epsilon, were losses in [0, unit]; for losses divided by ``unit``."""
    if constants is None:
        return FedSVT.calibrated(
            clients=clients, rounds=rounds, experts=experts, epsilon=EPSILON, period=period, rho=RHO
        )
    switches = switch_budget(experts, RHO, form=constants[0])
    first, second, rate = 4.0 / EPSILON, 8.0 / EPSILON, EPSILON / (2.0 * switches)
    if constants[2]:
        first, second, rate = 4.0 / EPSILON, 4.0 / EPSILON, 0.75 * EPSILON / switches
    margin = noise_margin(RHO, tests=rounds // period, threshold_scale=first, query_scale=second, form=constants[1])
    return FedSVT(
        clients=clients,
        rounds=rounds,
        experts=experts,
        period=period,
        switches=switches,
        learning_rate=rate * unit,
        threshold=threshold_level(margin, clients=clients, best_loss=0.0, learning_rate=rate) / unit,
        threshold_scale=first / unit,
        query_scale=second / unit,
    )  # fmt: skip


def sparse_regrets(
    constants: Constants | None, losses: FloatArray, rng: np.random.Generator, runs: int, unit: float = 1.0
) -> list[list[float]]:
    """Regret per client and run: of every client alone (N = 1), and of all together with each period."""
    clients, rounds, experts = losses.shape
    one = sparse(constants, clients=1, rounds=rounds, experts=experts, period=1, unit=unit)
    best = losses.sum(axis=(0, 1)).min() / clients
    own = [one.losses_of(one.simulate(each, rng, runs), each) for each in losses]
    found = [np.mean(own, axis=0) - best]
    for period in PERIODS:
        learner = sparse(constants, clients=clients, rounds=rounds, experts=experts, period=period, unit=unit)
        found.append(learner.regret(learner.simulate(losses, rng, runs), losses))
    return [[float(value) for value in row] for row in found]


def certified_sparse(constants: Constants | None, rounds: int, experts: int, unit: float = 1.0) -> float:
    """Pure epsilon of N = 1."""
    learner = sparse(constants, clients=CLIENTS, rounds=rounds, experts=experts, period=1, unit=unit)
    return float(learner.guarantee().epsilon(0.0).upper)


def measured_sparse(name: str, rounds: int, seeds: int) -> dict[str, Any]:
    """Figures 2 and 5: regret alone and together, and the certified epsilon."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, 10, seed])
        losses = UniformLosses(clients=CLIENTS, rounds=rounds, experts=EXPERTS).losses(rng)
        found.append(sparse_regrets(CONSTANTS[name], losses, rng, 8))
    return {
        "regret": [summary(column) for column in np.array(found).swapaxes(0, 1)],
        "certified": certified_sparse(CONSTANTS[name], rounds, EXPERTS),
    }


def measured_ratings(fill: Fill, scaled: bool, people: int, trials: int) -> dict[str, Any]:
    """Figure 6: regret in stars."""
    ratings = synthetic_ratings(np.random.default_rng([SEED, 20]), people=people)
    losses = scaled_losses(ratings.losses(fill), sensitivity=STARS)
    constants, unit = CONSTANTS["fewest switches"], 1.0 if scaled else STARS
    found = []
    for trial in range(trials):
        rng = np.random.default_rng([SEED, 21, trial])
        dealt = assigned(losses, clients=CLIENTS, rng=rng)
        found.append(sparse_regrets(constants, dealt, rng, 8, unit))
    return {
        "regret": [summary(STARS * column) for column in np.array(found).swapaxes(0, 1)],
        "certified": certified_sparse(constants, people // CLIENTS, losses.shape[1], unit),
        "best": ratings.best_genre(fill),
    }


def near(row: dict[str, Any], quoted: tuple[float, ...]) -> bool:
    """Whether all means are within a quarter of what is quoted, or four standard errors."""
    return all(
        abs(found["mean"] - want) <= max(0.25 * want, 4.0 * found["error"])
        for found, want in zip(row["regret"], quoted, strict=True)
    )


def experiment(
    cells: Cells,
    rounds: tuple[int, int] = (2**14 - 1, 512),
    seeds: tuple[int, int, int] = (8, 30, 10),
    people: int = 6040,
) -> Report:
    """The figures of the federated paper."""
    first = cells.each(measured_stochastic, STREAMS, "figure 1", rounds=rounds[0], seeds=seeds[0])
    second = cells.each(measured_sparse, CONSTANTS, "figure 2", rounds=rounds[1], seeds=seeds[1])
    third = cells.each(measured_ratings, CASES, "figure 6", people=people, trials=seeds[2])
    header = ["alone (N = 1)", *(f"N = {period}" for period in PERIODS)]
    tables = [
        f"Figures 1 and 4, T = {rounds[0]}: regret per client, mean ± standard deviation of a run; certified pure ε:",
        markdown(["learner", *STREAMS, "ε of the plays", "ε of what the server sees"], _stochastic_rows(first)),
        f"Figures 2 and 5, T = {rounds[1]}, claimed ε = {EPSILON:g}:",
        markdown(
            ["constants", *header, "certified ε"],
            [[name, *map(_cell, row["regret"]), row["certified"]] for name, row in second.items()],
        ),
        f"Figure 6, twin of {people} people, T = {people // CLIENTS}: regret in stars, claimed ε = {EPSILON:g}:",
        markdown(
            ["unrated", "losses", "g*", *header, "certified ε"],
            [
                [fill, "in [0, 1]" if scaled else "not scaled", row["best"]]
                + [*map(_cell, row["regret"]), row["certified"]]
                for (fill, scaled), row in third.items()
            ],
        ),
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        x = np.arange(len(STREAMS))
        for k, who in enumerate(STOCHASTIC):
            left.bar(x + (k - 2.5) * 0.14, [first[name]["regret"][who]["mean"] for name in STREAMS], 0.13, label=who)
        left.set_xticks(x, STREAMS)
        left.set(ylabel="regret per client", yscale="log", title="figures 1 and 4")
        left.legend(fontsize=6)
        x = np.arange(len(header))
        for k, (name, row) in enumerate(second.items()):
            right.bar(x + (k - 2) * 0.16, [found["mean"] for found in row["regret"]], 0.15, label=name)
        right.set_xticks(x, header)
        right.set(yscale="log", title="figures 2 and 5")
        right.legend(fontsize=6)

    return Report(
        tables,
        _stochastic_checks(first) | _sparse_checks(second, rounds[1] == 512) | _ratings_checks(third),
        draw,
        "Regret per client: on the left of stochastic learners by stream, on the right of Fed-SVT by constants.",
    )


def _cell(found: dict[str, float]) -> str:
    return f"{found['mean']:.3g} ± {found['deviation']:.2g}"


def _stochastic_rows(first: dict[str, Result]) -> list[list[object]]:
    certified = first[STREAMS[0]]["certified"]
    return [
        [who, *(_cell(first[name]["regret"][who]) for name in STREAMS)]
        + ([certified[who]["output"], certified[who]["server"]] if who in certified else [EPSILON, "no server"])
        for who in STOCHASTIC
    ]


def _stochastic_checks(first: dict[str, Result]) -> dict[str, bool]:
    def mean(name: str, who: str) -> float:
        return float(first[name]["regret"][who]["mean"])

    plain, printed = STREAMS[0], STOCHASTIC[0]
    hidden, alone = STOCHASTIC[-2:]
    return {
        f"expected errors: one tree with printed noise has no advantage over clients that play alone "
        f"(regret {mean(plain, printed):.3g} and {mean(plain, alone):.3g})": mean(plain, printed)
        > 0.8 * mean(plain, alone),
        "sampled errors and coins: all federated learners lose less than clients that play alone, except the one "
        "that hides messages from the server": all(
            mean(s, who) < mean(s, alone) for s, who in itertools.product(STREAMS[1:], STOCHASTIC[:-2])
        ),
        "all plays are certified at the claimed ε, but the server's view for one learner only": all(
            row["output"] <= EPSILON * (1.0 + 1e-9) and (row["server"] <= EPSILON * (1.0 + 1e-9)) == (who == hidden)
            for who, row in first[plain]["certified"].items()
        ),
    }


def _sparse_checks(second: dict[str, Result], comparable: bool) -> dict[str, bool]:
    ratios = [row["regret"][0]["mean"] / row["regret"][1]["mean"] for row in second.values()]
    found = {
        f"figure 2: clients alone lose 7 to 13 times as much as federated ones at N = 1 "
        f"(here {min(ratios):.1f} to {max(ratios):.1f} times)": all(7.0 <= ratio <= 13.0 for ratio in ratios),
        "figure 2: N = 50 loses less than clients alone, with printed constants and with the fewest switches": all(
            second[name]["regret"][-1]["mean"] < second[name]["regret"][0]["mean"]
            for name in ("printed", "fewest switches")
        ),
        "figure 2: all constants are certified at the claimed ε": all(
            row["certified"] <= EPSILON * (1.0 + 1e-9) for row in second.values()
        ),
    }
    if comparable:
        found["figure 2: means agree with an independent computation within a quarter or four standard errors"] = all(
            near(second[name], quoted) for name, quoted in QUOTED.items()
        )
    return found


def _ratings_checks(third: dict[tuple[Fill, bool], Result]) -> dict[str, bool]:
    fills: tuple[Fill, Fill] = ("zero", "mean")
    ratios = [third[fill, False]["certified"] / third[fill, True]["certified"] for fill in fills]
    return {
        "figure 6: unscaled losses cost five times the ε of scaled ones": all(
            abs(ratio / STARS - 1.0) < 1e-9 for ratio in ratios
        ),
        "figure 6: federated clients lose less than a quarter of what clients alone lose at N = 1": all(
            row["regret"][1]["mean"] < 0.25 * row["regret"][0]["mean"] for row in third.values()
        ),
    }
