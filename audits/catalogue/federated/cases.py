"""The federated learners as cases of the catalogue, by threat model, with mutants that make the same claim.

Every target returns the log-likelihood ratio of the adversary's view between two neighbouring data sets that nearly
attain the claim. Mutants have mistakes that implementations of these two algorithms could have; some of them are in
print: the scale of a noisy minimum for scores that can only rise, or messages charged coordinate by coordinate.
Mistakes that cost utility, or that are in the accounting only, need other checks and are not here.

Sources: Gao, Huang & Yang 2024, Algorithms 1-5, 7 and 8; Asi, Feldman, Koren & Talwar 2023, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from hockeystick.audits.catalogue.federated.one_good_expert import (
    BrokenThresholds,
    Pair,
    SVTDefect,
    ThresholdFromData,
    one_loss,
)
from hockeystick.audits.catalogue.federated.stochastic import (
    KinkedLosses,
    StochTarget,
    kinked_target,
    one_phase,
    root_target,
)
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners import FedStoch, FedSVT
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.stochastic.losses import ExpertLosses
from hockeystick.learners.network.threat_models import ThreatModel

_GAO = "Gao, Huang & Yang 2024"

OUTPUT, CLIENT, SERVER = ThreatModel.OUTPUT, ThreatModel.CLIENT, ThreatModel.SERVER


def federated_cases() -> Iterator[Case]:
    """Yields the cases of the federated learners."""
    yield from stoch_cases()
    yield from svt_cases()


# --- the stochastic learner ------------------------------------------------------------------------------------------


def stoch_cases() -> Iterator[Case]:
    """Yields the stochastic learner's cases: one client or four, one phase with one tree, claims of 1 where printed."""
    eight = one_phase(scale=4.0)
    yield _stoch("root-of-eight", eight, partial(root_target, eight))
    root, halved = one_phase(scale=4.0, experts=4), one_phase(scale=2.0, experts=4)
    wide = one_phase(scale=4.0, experts=4, low=-5.0, high=5.0, family=ExpertLosses(low=-5.0, high=5.0))
    yield _stoch("root", root, partial(root_target, root))
    yield _stoch("root[scale without 2^j]", root, partial(root_target, halved), samples=16_000)
    yield _stoch("root[a loss read twice]", root, partial(read_twice, root), samples=16_000)
    yield _stoch("root[losses not clipped]", root, partial(root_target, wide), samples=1_000)
    yield _stoch("root[scores rounded]", root, partial(rounded, root), samples=16_000)

    secret = one_phase(experts=5, scale=1.0, doublings=6, batch=8, assignment="secret")
    in_order = evolve(secret, setting=evolve(secret.setting, assignment="contiguous"))
    yield _stoch("secret-order", secret, partial(root_target, secret))
    yield _stoch("secret-order[the order of rounds]", secret, partial(root_target, in_order), samples=16_000)

    kinked = KinkedLosses(kink=0.8)
    curved = one_phase(scale=8.0, family=kinked, smoothness=None)
    counts = one_phase(scale=4.0, family=kinked, smoothness=None)
    smooth = one_phase(scale=4.0, family=kinked, smoothness=0.01)
    yield _stoch("right-child", curved, partial(kinked_target, curved))
    yield _stoch("right-child[range of counts]", curved, partial(kinked_target, counts), samples=4_000)
    yield _stoch("smooth", smooth, partial(kinked_target, smooth))
    yield _stoch("smooth[corrections not clipped]", smooth, partial(kinked_target, counts), samples=4_000)

    ten = one_phase(scale=4.0, experts=10)
    yield _stoch("messages", ten, partial(root_target, ten, view=SERVER), view=SERVER)
    yield _stoch("messages[each coordinate alone]", ten, partial(root_target, ten, view=SERVER), samples=4_000)
    reused = partial(kinked_target, curved, view=SERVER)
    yield _stoch("curved-messages", curved, reused, view=SERVER)
    yield _stoch(
        "curved-messages[one noise for both leaves]",
        curved,
        partial(reused, defect="one noise for both leaves"),
        view=SERVER,
        samples=2_000,
    )

    four, averaged = one_phase(scale=4.0, clients=4), one_phase(scale=1.0, clients=4)
    yield _stoch("four-clients", four, partial(root_target, four))
    yield _stoch("colluding-clients", four, partial(root_target, four, view=CLIENT), view=CLIENT)
    yield _stoch(
        "colluding-clients[noise of the average]",
        four,
        partial(root_target, averaged, view=CLIENT),
        view=CLIENT,
        samples=2_000,
    )
    yield _stoch(
        "colluding-clients[one seed for all]",
        four,
        partial(root_target, four, view=CLIENT, defect="one seed for all clients"),
        view=CLIENT,
        samples=4_000,
    )
    central = one_phase(scale=1.0, clients=4, where="server")
    yield _stoch("trusted-server", central, partial(root_target, central, view=CLIENT), view=CLIENT)


def read_twice(learner: FedStoch) -> StochTarget:
    """Returns the root target in which the attacked loss is read twice at the root, as in sampling with replacement."""
    target = root_target(learner)
    for losses in target.neighbours:
        losses[0, target.round] = losses[0, target.round - 1]
    return target


def rounded(learner: FedStoch) -> StochTarget:
    """Returns the root target in which the scores 0 and 1, at a distance of 1, become 0 and 1.9."""
    target = root_target(learner, defect="scores rounded before noise", grid=1.9)
    for losses in target.neighbours:
        losses[0, target.round] = 1.0
    return target


def _stoch(
    name: str,
    claimed: FedStoch,
    target: Callable[[], StochTarget],
    *,
    view: ThreatModel = OUTPUT,
    samples: int | None = None,
) -> Case:
    oracle = "the exact law of winners" if view is not SERVER and "messages" not in name else ""
    build = partial(_stoch_subject, claimed, target, view)
    return Case.of(f"learner/fed-stoch-{name}", build, samples, source=_GAO, oracle=oracle)


def _stoch_subject(claimed: FedStoch, build: Callable[[], StochTarget], view: ThreatModel) -> Subject:
    target = build()
    if target.defect in ("one noise for both leaves", "one seed for all clients"):
        truth = float("inf")
    elif target.view is SERVER:
        truth = target.largest_loss()
    else:
        truth = target.exact().epsilon(0.0)[0]
    claim = Claim(claimed.graph().guarantee(view=view.value).epsilon(0.0).upper)
    return Subject(target=target, neighbours=target.neighbours, claim=claim, truth=truth)


# --- sparse vector, and limited updates ------------------------------------------------------------------------------


def svt_learner(**changes: Any) -> FedSVT:
    """Returns a learner of eight rounds with one draw at a negligible cost."""
    known: dict[str, Any] = {
        "clients": 1,
        "rounds": 8,
        "experts": 2,
        "switches": 1,
        "learning_rate": 1e-3,
        "threshold": 1.0,
        "threshold_scale": 1.0,
        "query_scale": 1.0,
    }
    return FedSVT(**known | changes)


def svt_cases() -> Iterator[Case]:
    """Yields the cases of Fed-SVT, part by part, and of the learner that draws when the rounds have doubled."""
    one = svt_learner()
    pair = one_loss(one, at=2)
    yield _svt("thresholds", one, one, pair)
    for what, defect, samples in _OF_ONE_WINDOW:
        yield _svt(f"thresholds[{what}]", one, BrokenThresholds(learner=one, defect=defect), pair, samples)

    many = svt_learner(switches=4)
    yield _svt("windows", many, many, one_loss(many, at=4, before=1.0))
    single = BrokenThresholds(learner=many, defect="one threshold for all windows")
    yield _svt("windows[one threshold]", many, single, one_loss(many, at=4, before=1.0), 12_000)
    added = BrokenThresholds(learner=many, defect="sums not reset")
    yield _svt("windows[sums not reset]", many, added, one_loss(many, at=1), 4_000)
    soon = evolve(many, threshold=0.0)
    yield _svt("windows[threshold from data]", soon, ThresholdFromData(learner=soon), one_loss(soon, at=8), 8_000)

    draws = svt_learner(experts=8, learning_rate=1.0, threshold=-200.0, threshold_scale=10.0, query_scale=10.0)
    raw = evolve(draws, clients=5)
    yield _svt("draws", draws, draws, for_one_expert(draws))
    yield _svt("draws[twice the rate]", draws, evolve(draws, learning_rate=2.0), for_one_expert(draws), 8_000)
    yield _svt("draws[budget not kept]", draws, evolve(draws, switches=8), for_one_expert(draws), 8_000)
    yield _svt("draws[losses up to 5]", draws, raw, for_one_expert(raw), 1_000)

    four = svt_learner(clients=4)
    mean = evolve(four, threshold_scale=0.25, query_scale=0.25)
    yield _svt("four-clients", four, four, one_loss(four, at=2))
    yield _svt("four-clients[noise of the mean]", four, mean, one_loss(four, at=2), 1_000)

    updates = LimitedUpdates(rounds=4, experts=64, learning_rate=1.0)
    twice = evolve(updates, learning_rate=2.0)
    yield _case("limited-updates", updates, updates, updates.worst_case_neighbours())
    yield _case("limited-updates[range of zeroed losses]", updates, twice, updates.worst_case_neighbours(), 16_000)


_OF_ONE_WINDOW: tuple[tuple[str, SVTDefect, int], ...] = (
    ("no noise", "threshold without noise", 1_000),
    ("queries without noise", "queries without noise", 500),
    ("one query noise", "one query noise in a window", 1_000),
)


def for_one_expert(learner: FedSVT) -> Pair:
    """Returns two streams that differ in the first round: only expert 0 loses nothing, or only it loses the maximum."""
    first, second = np.zeros((2, learner.rounds, learner.experts))
    first[0, 1:] = second[0, 0] = float(learner.clients)
    return first, second


def _svt(name: str, claimed: FedSVT, sampled: Any, pair: Pair, samples: int | None = None) -> Case:
    return _case(f"fed-svt-{name}", claimed, sampled, pair, samples)


def _case(name: str, claimed: Any, sampled: Any, pair: Pair, samples: int | None = None) -> Case:
    source = _GAO if isinstance(claimed, FedSVT) else "Asi, Feldman, Koren & Talwar 2023"
    oracle = "the exact law of answers" if isinstance(sampled, BrokenThresholds) else ""
    build = partial(_subject, claimed, sampled, pair)
    return Case.of(f"learner/{name}", build, samples, source=source, oracle=oracle)


def _subject(claimed: Any, sampled: Any, pair: Pair) -> Subject:
    claim = Claim(claimed.event().pure_epsilon())
    truth = sampled.exact(*pair).epsilon(0.0)[0] if isinstance(sampled, BrokenThresholds) else None
    return Subject(target=LossOf(sampled, pair), neighbours=pair, claim=claim, truth=truth)
