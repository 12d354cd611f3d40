"""The work of ``hockeystick run fed-svt`` and ``fed-stoch``: calibrates, certifies, simulates and releases.

The result is a plain dictionary. ``epsilon`` is certified by the learner's accountant graph for the threat model at
``delta``; ``epsilon_printed`` comes from the paper's theorems for the same parameters, and is not a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick._runs.guarantee_entries import drawn_content, printed_content
from hockeystick._runs.lazy_streams import federated_file
from hockeystick._runs.ledgers import WITHHELD, charging
from hockeystick.accounting import DurableLedger, Guarantee, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import FedStoch, FedSVT
from hockeystick.learners.common.printed_claims import PrintedGuarantee
from hockeystick.learners.federated.lower_bounds import PackingAdversary, shared_losses
from hockeystick.learners.federated.made_up_streams import (
    BernoulliLosses,
    ClassDistributions,
    FederatedStream,
    OneGoodExpert,
    UniformLosses,
)
from hockeystick.learners.federated.one_good_expert import runs as fed_svt_run
from hockeystick.learners.federated.one_good_expert.plan import printed_cost
from hockeystick.learners.federated.one_good_expert.runs import SVTRuns
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import Noise
from hockeystick.learners.federated.stochastic.privacy_plan import printed_claims
from hockeystick.learners.network.protocol import Communication
from hockeystick.learners.network.threat_models import ThreatModel

Progress = Callable[[str], None]

ADVERSARIES = ("zero-expert", "coins", "gap", "classes", "shared", "packing")
"""Names of built-in losses; see :func:`stream`."""

_BLOCK = 256
_ONE = "the printed claims are about one loss"
_GAP = 0.1
_NOTES = {
    ThreatModel.OUTPUT: "the adversary sees the actions of all clients",
    ThreatModel.CLIENT: "the adversary sees the actions, and knows the data and noise of all other clients",
    ThreatModel.SERVER: "the adversary sees every message of the clients",
    ThreatModel.CENTRAL: "the adversary sees the actions of all clients; the server is trusted with their messages",
}


@frozen(eq=False)
class FederatedLosses:
    """Losses of m clients over T rounds.

    Attributes:
        name: The source of the losses.
        shape: (clients, rounds, experts).
        blocks: Returns an iterator over blocks of rounds, of shape (clients, n, experts), or (n, experts) if
            ``summed``.
        summed: Whether the losses are summed over clients.
        array: The losses of each client; None if they are summed or made up block by block.
    """

    name: str
    shape: tuple[int, int, int]
    blocks: Callable[[], Iterator[FloatArray]]
    summed: bool = False
    array: npt.NDArray[Any] | None = None

    def each(self) -> npt.NDArray[Any]:
        """Returns the losses of each client.

        Raises:
            InvalidArgumentError: The losses are summed over clients.
        """
        if self.array is None:
            raise InvalidArgumentError("--losses", self.name, "is summed over clients", "give each client's losses")
        return self.array


def stream(name: str, *, clients: int, rounds: int, experts: int, epsilon: float, seed: int) -> FederatedLosses:
    """Returns built-in losses.

    * "zero-expert": uniform losses, but one expert never loses.
    * "coins": Bernoulli losses, with a mean between 0.4 and 0.5 for each expert.
    * "gap": fair coins, but one expert has the mean 0.4.
    * "classes": errors of predicting one of d classes, drawn from a client's own distribution.
    * "shared": fair coins that are the same for all clients.
    * "packing": the adversary of the lower bound: zeros, until all experts but one lose a few times.

    Raises:
        InvalidArgumentError: The name is unknown, or the losses can't have these sizes.
    """
    shape = (clients, rounds, experts)
    sizes = {"clients": clients, "rounds": rounds, "experts": experts}
    made: dict[str, Callable[[], FederatedStream]] = {
        "zero-expert": lambda: UniformLosses(**sizes),
        "coins": lambda: BernoulliLosses(**sizes),
        "gap": lambda: OneGoodExpert(gap=_GAP, **sizes),
        "classes": lambda: ClassDistributions(form="sampled", **sizes),
    }
    if name in made:
        found = made[name]()
        return FederatedLosses(name, shape, lambda: found.blocks(np.random.default_rng(seed), block=_BLOCK))
    if name == "shared":
        coins = shared_losses(rounds=rounds, experts=experts, rng=np.random.default_rng(seed))
    elif name == "packing":
        best = int(np.random.default_rng(seed).integers(experts))
        entries = max(1, math.floor(min(clients * rounds, math.log(experts) / (2.0 * epsilon))))
        return _array(name, PackingAdversary(entries=entries, **sizes).losses(best))
    else:
        raise InvalidArgumentError("--adversary", name, "is unknown", f"use one of {', '.join(ADVERSARIES)}")
    everybody = np.broadcast_to(coins, shape)
    return FederatedLosses(name, shape, lambda: _cut(everybody))


def losses_file(path: str, *, clients: int | None, rounds: int | None, experts: int | None) -> FederatedLosses:
    """Returns losses of an .npy file, mapped into memory: (clients, rounds, experts), or summed over clients.

    Raises:
        InvalidArgumentError: The file does not exist, holds no such numbers, or has other sizes than those given.
    """
    found = federated_file(path)
    if found.ndim == 2 and clients is None:
        raise InvalidArgumentError("--losses", path, "is summed over clients", "give the number of --clients")
    shape = (clients, *found.shape) if found.ndim == 2 else found.shape
    for option, given, own in zip(
        ("--clients", "--rounds", "--experts"), (clients, rounds, experts), shape, strict=True
    ):
        if given is not None and given != own:
            raise InvalidArgumentError(option, given, f"differs from the file's {own}", "leave it out")
    if found.ndim == 3:
        return _array(path, found)
    return FederatedLosses(path, (int(shape[0]), *found.shape), lambda: _cut(found), summed=True)


def _array(name: str, losses: npt.NDArray[Any]) -> FederatedLosses:
    m, t, d = losses.shape
    return FederatedLosses(name, (m, t, d), lambda: _cut(losses), array=losses)


def _cut(losses: npt.NDArray[Any]) -> Iterator[FloatArray]:
    rounds = losses.shape[-2]
    return (np.asarray(losses[..., a : a + _BLOCK, :], dtype=np.float64) for a in range(0, rounds, _BLOCK))


# --- learners --------------------------------------------------------------------------------------------------------


def svt_learner(
    shape: tuple[int, int, int],
    *,
    epsilon: float,
    delta: float,
    group: int,
    period: int,
    best_loss: float,
    rho: float,
    lazy_vectors: bool,
) -> FedSVT:
    """Returns Fed-SVT, calibrated; ``shape`` is (clients, rounds, experts)."""
    m, t, d = shape
    return FedSVT.calibrated(
        clients=m,
        rounds=t,
        experts=d,
        epsilon=epsilon,
        delta=delta,
        group=group,
        period=period,
        best_loss=best_loss,
        rho=rho,
        lazy_vectors=lazy_vectors,
    )


def stoch_learner(
    shape: tuple[int, int, int],
    *,
    model: ThreatModel,
    epsilon: float,
    delta: float,
    group: int,
    noise: Noise,
    trees: int | None,
    known_order: bool,
) -> FedStoch:
    """Returns Fed-DP-OPE-Stoch for losses in [0, 1], calibrated; ``trees`` is None for those with the least noise."""
    m, t, d = shape
    return FedStoch.calibrated(
        clients=m,
        rounds=t,
        experts=d,
        epsilon=epsilon,
        delta=delta,
        group=group,
        view=model,
        trees=trees,
        noise=noise,
        assignment="contiguous" if known_order else "secret",
    )


# --- what both learners have in common -------------------------------------------------------------------------------

Played = tuple[dict[str, Any], npt.NDArray[Any]]
"""The entries of a run, and what is played: the expert of each round, or the mixture of each phase."""


def plan_content(
    learner: FedSVT | FedStoch, model: ThreatModel, *, epsilon: float, delta: float, group: int
) -> dict[str, Any]:
    """Returns the entries of a plan for a group of losses, with the ε of a client, all its losses together."""
    if isinstance(learner, FedSVT):
        content = _svt_content(learner, model, epsilon, delta, group)
    else:
        content = _stoch_content(learner, model, epsilon, delta, group)
    client = learner.guarantee(model, group=max(1, learner.client_losses)).epsilon(delta).upper
    return {
        **content,
        "group": group,
        "client_losses": learner.client_losses,
        "epsilon_client": client if math.isfinite(client) else None,
    }


def play(learner: FedSVT | FedStoch, losses: FederatedLosses, seed: int, progress: Progress) -> Played:
    """Returns one simulated run."""
    progress("simulating")
    if isinstance(learner, FedSVT):
        return _play_svt(learner, losses, seed)
    return _play_stoch(learner, losses, seed)


def release(
    learner: FedSVT | FedStoch,
    losses: FederatedLosses,
    model: ThreatModel,
    ledger: DurableLedger | None,
    progress: Progress,
) -> Played:
    """Returns a release of all clients in one process; the ledger is charged the cost against the adversary ``model``.

    Raises:
        InvalidArgumentError: The losses are summed over clients, or outside [0, 1]; or the noise has no exact sampler.
            Nothing was charged.
        HockeystickError: The ledger refuses; nothing was drawn.
    """
    progress("releasing")
    given = losses.each()
    if isinstance(learner, FedSVT):
        found = learner.release(given, **charging(ledger, "run fed-svt"))
        runs = SVTRuns(found.experts, found.above)
        return _entries(losses, learner.communication(runs)) | _switches(runs), learner.plays(runs)
    points = learner.release(given, view=model, **charging(ledger, "run fed-stoch")).points
    return _entries(losses, learner.communication()), points


# --- results ---------------------------------------------------------------------------------------------------------


def _svt_content(learner: FedSVT, model: ThreatModel, epsilon: float, delta: float, group: int) -> dict[str, Any]:
    """Returns the entries of a plan of Fed-SVT."""
    printed = printed_cost(
        delta,
        switches=learner.switches,
        learning_rate=learner.learning_rate,
        threshold_scale=learner.threshold_scale,
        query_scale=learner.query_scale,
    )
    parameters = {
        "period": learner.period,
        "switches": learner.switches,
        "learning_rate": learner.learning_rate,
        "threshold": learner.threshold,
        "best_loss": learner.best_loss,
        "threshold_scale": learner.threshold_scale,
        "query_scale": learner.query_scale,
        "lazy_vectors": learner.lazy_vectors,
    }
    shape = (learner.clients, learner.rounds, learner.experts)
    return {
        "learner": "fed-svt",
        **_accounted(
            learner.guarantee(model, group=group),
            model,
            shape,
            epsilon,
            delta,
            printed if group == 1 else None,
            None if group == 1 else _ONE,
        ),
        "parameters": parameters,
    }


def _stoch_content(learner: FedStoch, model: ThreatModel, epsilon: float, delta: float, group: int) -> dict[str, Any]:
    """Returns the entries of a plan of Fed-DP-OPE-Stoch."""
    setting = learner.setting
    printed, reason = None, None if group == 1 else _ONE
    phases = [phase for phase in setting.phases if phase is not None]
    if reason is not None:
        pass
    elif setting.noise != "laplace":
        reason = "the printed theorems are about Laplace noise"
    elif setting.where == "server" and delta > 0.0:
        reason = "the printed theorem about noise at the server has no delta"
    elif not any(phase.trees for phase in phases):
        reason = "the printed theorems are about phases with trees"
    else:
        claims = printed_claims(setting, experts=learner.experts, epsilon=epsilon, delta=delta)
        printed = next(claim.printed for claim in claims if claim.threat_model is model)
    parameters = {
        "noise": setting.noise,
        "noise_added_by": setting.where,
        "order_of_reading": setting.assignment,
        "trees": max((phase.trees for phase in phases), default=0),
        "phases": len(phases),
        "leaves": sum(phase.leaves() for phase in phases),
        "last_batch": phases[-1].batch if phases else None,
        "last_scale": phases[-1].scales[-1] if phases else None,
    }
    shape = (setting.clients, learner.rounds, learner.experts)
    return {
        "learner": "fed-stoch",
        **_accounted(learner.guarantee(model, group=group), model, shape, epsilon, delta, printed, reason),
        "parameters": parameters,
    }


def _accounted(
    guarantee: Guarantee,
    model: ThreatModel,
    shape: tuple[int, int, int],
    epsilon: float,
    delta: float,
    printed: PrintedGuarantee | None,
    reason: str | None,
) -> dict[str, Any]:
    bracket = guarantee.epsilon(delta, bracket=True)
    return {
        "mode": "plan",
        **dict(zip(("clients", "rounds", "experts"), shape, strict=True)),
        "epsilon_target": epsilon,
        "epsilon": bracket.upper,
        "epsilon_lower": bracket.lower,
        "delta": delta,
        "method": bracket.method,
        "epsilon_printed": None if printed is None else printed.epsilon,
        "printed": printed_content(printed, reason),
        "threat_model": model.value,
        "threat_model_note": _NOTES[model],
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        **drawn_content(guarantee, delta),
    }


def _play_svt(learner: FedSVT, losses: FederatedLosses, seed: int) -> Played:
    sums = learner.sums(losses.blocks())
    run = fed_svt_run.run(learner, [sums], seed)
    regret = float(learner.regret_of(run, sums)[0])
    return _entries(losses, learner.communication(run), seed, regret) | _switches(run), learner.plays(run)


def _play_stoch(learner: FedStoch, losses: FederatedLosses, seed: int) -> Played:
    if losses.summed:
        losses.each()  # refuses
    m = learner.setting.clients
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(m + 1, np.uint64) >> np.uint64(1)]
    run = learner.run(losses.blocks(), seeds[:m], server_seed=seeds[m])
    return _entries(losses, learner.communication(), seed, run.regret), run.broadcasts.points


def _switches(run: SVTRuns) -> dict[str, Any]:
    return {"switches_made": int(np.sum(run.above))}


def _entries(
    losses: FederatedLosses, sent: Communication, seed: int | None = None, regret: float | None = None
) -> dict[str, Any]:
    """The entries of a simulation with its seed and regret, or of a release without them."""
    released = regret is None
    return {
        "mode": "release" if released else "simulation",
        "simulated": not released,
        "seed": seed,
        "data": losses.name,
        "regret": regret,
        "regret_per_round": None if regret is None else regret / losses.shape[1],
        "withheld": WITHHELD if released else None,
        "scalars_up": sent.up,
        "scalars_down": sent.down,
    }


def regret_bound(learner: FedSVT | FedStoch, rho: float) -> float | None:
    """Returns the explicit bound on the regret per client, or None without one."""
    try:
        found = learner.regret_bound(rho) if isinstance(learner, FedSVT) else learner.regret_bound()
    except InvalidArgumentError:
        return None
    return found if math.isfinite(found) else None
