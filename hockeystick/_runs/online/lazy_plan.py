"""The privacy of the lazy learners for given parameters: certified, printed, and exact on one bad pair of streams.

The functions return the entries of a result as plain dictionaries. ``epsilon`` is always certified by the learner's
accountant graph at ``delta``; ``epsilon_printed`` is the formula of Theorem 3.2 of Asi, Koren, Liu & Talwar 2024 with
its conditions, a baseline and not a guarantee.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import evolve

from hockeystick._runs.guarantee_entries import drawn_content, printed_content
from hockeystick.accounting import Bracket, Guarantee, InvalidArgumentError
from hockeystick.learners import Condition, LazyConvex, LazyExperts, PrintedGuarantee
from hockeystick.learners.lazy import exact_loss, paper_epsilon
from hockeystick.learners.lazy.convex.losses.convex_losses import Ball, Domain
from hockeystick.learners.lazy.theory.actions_view import actions_epsilon
from hockeystick.learners.lazy.theory.played_actions import exact_actions_loss
from hockeystick.learners.lazy.theory.printed_guarantee import paper_epsilon_convex

View = Literal["white-box", "actions"]

FULL_VIEW: View = "white-box"
FULL_VIEW_NOTE = "the adversary sees all decisions, draws and shadows, and hence the actions"

_TIGHTER = "the adversary sees the actions only: a shadow costs only if a coin may depend on it"
_NO_TIGHTER = "the adversary sees the actions only; no tighter epsilon is proved for them, so this is the full view's"
_FAILURE_SHARE = 0.05  # of delta, for the bounds behind the convex learner's certificate
# Up to these the exact epsilon of a bad pair takes about a second.
_EXACT_CELLS = 2_000_000
_EXACT_BATCHES: dict[View, int] = {"white-box": 500, "actions": 200}


# --- learners --------------------------------------------------------------------------------------------------------


def experts_of(
    *,
    variant: str,
    rounds: int,
    experts: int,
    batch: int,
    learning_rate: float,
    fake: float,
    shadow: float | None,
    normaliser: str | float,
    draw_budget: int | None,
) -> LazyExperts:
    """Returns the learner of experts with given parameters; "frozen-shadow" is L2P whose shadow is never refreshed."""
    known: dict[str, Any] = {
        "rounds": rounds,
        "experts": experts,
        "batch": batch,
        "learning_rate": learning_rate,
        "fake_switch_probability": fake,
        "draw_budget": draw_budget,
    }
    if variant == "dartboard":
        return LazyExperts(variant="dartboard", **known)
    frozen_shadow = variant == "frozen-shadow"
    return LazyExperts(normaliser=normaliser, shadow_probability=0.0 if frozen_shadow else shadow, **known)


def convex_of(
    *,
    rounds: int,
    domain: Domain,
    lipschitz: float,
    batch: int,
    inverse_temperature: float,
    regularisation: float,
    fake: float,
    shadow: float | None,
    normaliser: str | float,
    failure: float | None,
    adversary: str,
    draw_budget: int | None,
    delta: float,
) -> LazyConvex:
    """Returns the learner of convex losses; the ``normaliser`` "paper" is 2*B*eta with the printed eta."""
    learner = LazyConvex(
        rounds=rounds,
        domain=domain,
        lipschitz=lipschitz,
        batch=batch,
        inverse_temperature=inverse_temperature,
        regularisation=regularisation,
        fake_switch_probability=fake,
        shadow_probability=shadow,
        normaliser=None if isinstance(normaliser, str) else normaliser,
        failure=_FAILURE_SHARE * delta if failure is None else failure,
        adversary=adversary,
        draw_budget=draw_budget,
    )
    if normaliser != "paper":
        return learner
    if fake == 0.0:
        raise InvalidArgumentError(
            "--normaliser", normaliser, "needs a fake-switch probability above 0", "give --normaliser tight or a number"
        )
    return evolve(learner, normaliser=2.0 * batch * _printed_rate(_formula_convex(learner, delta)))


# --- plans -----------------------------------------------------------------------------------------------------------


def plan(
    learner: LazyExperts | LazyConvex, delta: float, *, group: int, user_batch: int | None, view: View
) -> dict[str, Any]:
    """Returns the entries of a learner's plan.

    Args:
        learner: The learner.
        delta: In (0, 1).
        group: The number of rounds that may differ.
        user_batch: The batch, 1 .. n, of the person whose epsilon is computed; None for the worst.
        view: "white-box", or "actions" for adversaries who see the actions only.

    Raises:
        InvalidArgumentError: There is a group together with a person's batch, or no such batch.
    """
    if user_batch is not None:
        if group > 1:
            raise InvalidArgumentError(
                "--user-batch", user_batch, "can't be combined with a --group", "leave one of them out"
            )
        if user_batch > learner.batches:
            reason = f"there are {learner.batches} batches"
            raise InvalidArgumentError("--user-batch", user_batch, reason, "count batches from 1")
    graph = learner.graph()
    if user_batch is None:
        guarantee = graph.guarantee(group=group)
    else:
        guarantee = graph.guarantee_for("batches", member=user_batch)
    bracket, note = guarantee.epsilon(delta, bracket=True), FULL_VIEW_NOTE
    if view == "actions":
        bracket, note = _for_actions(learner, bracket, delta, group, user_batch)
    return {
        "mode": "plan",
        **accounted(learner, guarantee, bracket, delta),
        "view": view,
        "view_note": note,
        "epsilon_exact_pair": _exact_pair(learner, delta, view) if group == 1 and user_batch in (None, 1) else None,
        "group": group,
        "user_batch": user_batch,
    }


def _for_actions(
    learner: LazyExperts | LazyConvex, full: Bracket, delta: float, group: int, user_batch: int | None
) -> tuple[Bracket, str]:
    if group > 1 or isinstance(learner, LazyConvex):
        return full, _NO_TIGHTER
    first = 0 if user_batch is None else (user_batch - 1) * learner.batch
    found = actions_epsilon(learner, delta, round_=first, bracket=True)
    return (found, _TIGHTER) if found.upper < full.upper else (full, _NO_TIGHTER)


def _exact_pair(learner: LazyExperts | LazyConvex, delta: float, view: View) -> float | None:
    """Returns the exact epsilon, rounded down, of a bad pair of streams, a lower bound on the truth; None if costly."""
    if isinstance(learner, LazyConvex) or learner.draw_budget is not None:
        return None
    if learner.batches > _EXACT_BATCHES[view] or learner.rounds * learner.experts > _EXACT_CELLS or learner.experts % 2:
        return None  # an odd number of experts has no two halves, and its losses are on no lattice
    chains = [learner.chain(losses) for losses in learner.worst_case_neighbours()]
    law = exact_loss(*chains) if view == FULL_VIEW else exact_actions_loss(*chains)
    return law.epsilon(delta)[0]


# --- entries of all results ------------------------------------------------------------------------------------------


def accounted(
    learner: LazyExperts | LazyConvex, guarantee: Guarantee, bracket: Bracket, delta: float
) -> dict[str, Any]:
    """Returns the entries that all results of a learner have: certified bracket, printed formula, parameters."""
    printed, reason = _printed(learner, delta, guarantee.group)
    return {
        "learner": "lazy-experts" if isinstance(learner, LazyExperts) else "lazy-convex",
        "epsilon": bracket.upper,
        "epsilon_lower": bracket.lower,
        "delta": delta,
        "method": bracket.method,
        "epsilon_printed": None if printed is None else printed.epsilon,
        "printed": printed_content(printed, reason),
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        "parameters": _parameters(learner),
        **drawn_content(guarantee, delta),
    }


def _printed(learner: LazyExperts | LazyConvex, delta: float, group: int) -> tuple[PrintedGuarantee | None, str | None]:
    """Returns the printed formula, with the theorem's shadow and normaliser as conditions; or why there is none."""
    if group > 1:
        return None, "the printed formula is about one person, not a group"
    if learner.fake_switch_probability == 0.0:
        return None, "the printed formula divides by the fake-switch probability, which is 0"
    if learner.refresh_probability == 0.0:
        return None, "the printed theorem is about a learner whose shadow is refreshed"
    if learner.draw_budget is not None:
        return None, "the printed theorem is about a learner without a draw budget"
    if isinstance(learner, LazyConvex):
        found = _formula_convex(learner, delta)
        rate = _printed_rate(found)
    else:
        rate = learner.learning_rate
        found = paper_epsilon(
            rounds=learner.rounds,
            batch=learner.batch,
            learning_rate=rate,
            fake_switch_probability=learner.fake_switch_probability,
            delta=delta,
        )
    p, own = learner.fake_switch_probability, 2.0 * learner.batch * rate
    same = abs(learner.log_normaliser - own) <= 1e-9 * own
    settings = (
        Condition("p_y = p", learner.refresh_probability, p, learner.refresh_probability == p),
        Condition("c = 2 B eta", learner.log_normaliser, own, same),
    )
    return evolve(found, conditions=(*found.conditions, *settings)), None


def _formula_convex(learner: LazyConvex, delta: float) -> PrintedGuarantee:
    return paper_epsilon_convex(
        rounds=learner.rounds,
        batch=learner.batch,
        inverse_temperature=learner.inverse_temperature,
        regularisation=learner.regularisation,
        lipschitz=learner.lipschitz,
        fake_switch_probability=learner.fake_switch_probability,
        delta=delta,
    )


def _printed_rate(found: PrintedGuarantee) -> float:
    return dict(found.constants)["eta"]


def _parameters(learner: LazyExperts | LazyConvex) -> dict[str, Any]:
    common = {
        "rounds": learner.rounds,
        "batch": learner.batch,
        "batches": learner.batches,
        "fake_switch_probability": learner.fake_switch_probability,
        "shadow_probability": learner.refresh_probability,
        "log_normaliser": learner.log_normaliser,
        "draw_budget": learner.draw_budget,
    }
    if isinstance(learner, LazyExperts):
        frozen_shadow = learner.variant == "l2p" and learner.refresh_probability == 0.0
        own: dict[str, Any] = {
            "variant": "frozen-shadow" if frozen_shadow else learner.variant,
            "experts": learner.experts,
            "learning_rate": learner.learning_rate,
        }
    else:
        own = {
            "domain": "ball" if isinstance(learner.domain, Ball) else "box",
            "dimension": learner.domain.dimension,
            "diameter": learner.domain.diameter,
            "lipschitz": learner.lipschitz,
            "inverse_temperature": learner.inverse_temperature,
            "regularisation": learner.regularisation,
            "failure": learner.failure,
            "adversary": learner.adversary,
        }
    return {**own, **common}
