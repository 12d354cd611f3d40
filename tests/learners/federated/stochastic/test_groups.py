"""Guarantees for groups of losses: exact laws of all winners, for all placements of a group on small trees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from attrs import evolve

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.events.catalogue import GaussianDP, LogLipschitz, NonPrivate
from hockeystick.learners import FedStoch
from hockeystick.learners.federated.stochastic.exact_winners import leaf_law
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.loss_pool import new_pool, ordered_labels
from hockeystick.learners.federated.stochastic.losses import ExpertLosses, LossFamily, SquaredDistances
from hockeystick.learners.federated.stochastic.phase import Path, moved
from hockeystick.learners.federated.stochastic.privacy_plan import group_event, place_rate, places

Floats = npt.NDArray[np.float64]
EXPERTS = 2


def log_first_wins(gap: Floats, noise: str) -> Floats:
    """ln P(the first of two noisy scores is the least), for their difference in units of the scale."""
    size = np.abs(gap)
    if noise == "gumbel":
        return np.asarray(-np.logaddexp(0.0, gap))
    tail = np.exp(-size) * ((2.0 + size) / 4.0 if noise == "laplace" else 0.5)
    return np.asarray(np.log(np.where(gap >= 0.0, tail, 1.0 - tail)))


def log_law(
    setting: StochSetting, phase: TreePhase, family: LossFamily, labels: npt.NDArray[np.int32], losses: Floats
) -> Floats:
    """ln P of every sequence of winners of a phase, shape (2^leaves,), from losses of shape (clients, records, 2).

    With noise of the clients the clients but the first have none: the adversary knows it.
    """
    clients = len(losses)
    pool = new_pool(family, setting, phase, labels[None], EXPERTS)
    pool.add(losses)
    path, point, found = Path.empty(phase.trees, 1, clients, EXPERTS), np.full((1, EXPERTS), 0.5), np.zeros(1)
    for leaf in phase.schedule():
        total = path.to(leaf, pool, point).sum(axis=1)
        gap = (total[:, 0] - total[:, 1]) / phase.scale(leaf.tree)
        found = np.concatenate([found + log_first_wins(one, setting.noise) for one in (gap, -gap)])
        both = np.repeat([0, 1], len(gap))
        point = moved(np.tile(point, (2, 1)), both, leaf)
        path = Path(np.tile(path.points, (1, 2, 1)), np.tile(path.gradients, (1, 2, 1, 1)))
    return found


def placements(phase: TreePhase, group: int) -> Iterator[tuple[int, ...]]:
    """Rounds of a phase, read in order, for each way to spread a group over its vertices and the unread rounds."""
    labels = ordered_labels(phase)
    seen = set()
    for chosen in itertools.combinations(range(phase.records), group):
        where = tuple(labels[list(chosen)])
        if where not in seen:
            seen.add(where)
            yield chosen


def instance(noise: str, family: LossFamily, *, trees: int = 2, batch: int = 4, **more: Any) -> FedStoch:
    """A learner of which only the last phase reads losses, calibrated to ε = 2 for one loss."""
    records = 2 ** math.ceil(math.log2(TreePhase(records=10**6, trees=trees, batch=batch, scales=[1.0] * trees).used()))
    phase = TreePhase(records=records, trees=trees, batch=batch, scales=[1.0] * trees)
    setting = StochSetting(
        clients=1,
        phases=(*[None] * (records.bit_length() - 1), phase),
        low=family.low,
        high=family.high,
        smoothness=0.0 if family.linear else family.smoothness,
        noise=noise,
        **{"assignment": "contiguous", **more},
    )
    made = FedStoch(setting=setting, rounds=2 * records, experts=EXPERTS, family=family)
    return made.recalibrated("output", epsilon=2.0, amplified=False)


def neighbours(
    rng: np.random.Generator, learner: FedStoch, chosen: tuple[int, ...], *, worst: bool = False
) -> tuple[Floats, Floats]:
    """Losses that differ in the chosen rounds of the only client, mostly from one extreme to the other."""
    family: Any = learner.family
    low, high = (family.low, family.high) if family.linear else (family.least, family.most)
    phase = learner.setting.phases[-1]
    assert phase is not None
    first = rng.uniform(low, high, (1, phase.records, EXPERTS))
    if worst or rng.random() < 0.6:  # one expert wins with a small probability, of which the ratio is large
        first[:] = low, high
    second = first.copy()
    if worst:
        second[0, list(chosen)] = high, low
        return first, second
    for t in chosen:
        first[0, t] = rng.permutation([low, high]) if rng.random() < 0.5 else (low, high)
        second[0, t] = first[0, t, ::-1] if rng.random() < 0.8 else rng.uniform(low, high, EXPERTS)
    return first, second


def excess(log_p: Floats, log_q: Floats, event: accounting.PrivacyEvent) -> float:
    """How far the exact loss is above the certificate: a ratio of pure ε, or of δ at some ε; at most 1 if it holds."""
    worst = float(np.abs(log_p - log_q).max()) / event.pure_epsilon()
    for epsilon in (0.5, 1.5):
        allowed = accounting.delta(event, epsilon).upper
        for one, other in ((log_p, log_q), (log_q, log_p)):
            exact = float(np.maximum(np.exp(one) - math.exp(epsilon) * np.exp(other), 0.0).sum())
            worst = max(worst, exact / allowed if allowed else exact * math.inf if exact > 1e-14 else 0.0)
    return worst


FAMILIES: dict[str, LossFamily] = {"linear": ExpertLosses(), "curved": SquaredDistances(least=0.0, most=1.0)}


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential"])
def test_the_law_of_two_scores_is_that_of_a_leaf(noise: str) -> None:
    gaps = np.array([-7.0, -0.3, 0.0, 0.5, 4.0])
    exact = [leaf_law([gap * 2.0, 0.0], scale=2.0, noise=noise)[0] for gap in gaps]
    np.testing.assert_allclose(log_first_wins(gaps, noise), exact, atol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", ["laplace", "gumbel", pytest.param("exponential", marks=pytest.mark.deep)])
def test_no_placement_of_a_group_costs_more_than_its_certificate(noise: str, family: str) -> None:
    """All placements of one, two and three losses on two trees with six leaves, exactly, for pairs of data each.

    For linear losses a certificate of one loss, the mutant, is exceeded by each pair and three.
    """
    learner, rng = instance(noise, FAMILIES[family]), np.random.default_rng(3)
    phase = learner.setting.phases[-1]
    assert phase is not None and phase.leaves() == 6
    labels = ordered_labels(phase)[None]
    for group in (1, 2, 3):
        event, most = learner.guarantee(group=group).event, 0.0
        for chosen in placements(phase, group):
            for number in range(4 - group):
                pair = neighbours(rng, learner, chosen, worst=number == 0)
                log_p, log_q = (log_law(learner.setting, phase, learner.family, labels, one) for one in pair)
                most = max(most, excess(log_p, log_q, event))
        assert (0.6 if family == "linear" else 0.2) < most <= 1.0 + 1e-9


@pytest.mark.parametrize("group", [1, 2])
def test_as_many_leaves_as_losses_are_not_enough(group: int) -> None:
    """The mutant that charges a group of k for k leaves: one loss at the root of the second tree reaches four."""
    learner = instance("laplace", FAMILIES["linear"])
    phase = learner.setting.phases[-1]
    assert phase is not None
    leaf = max(
        place_rate(learner.setting, place, experts=EXPERTS, model="output") / place.leaves
        for place in places(learner.setting, phase)
    )
    root = 4 + 2  # rounds of the second tree's root come after those of the first tree
    chosen = tuple(range(root, root + group))
    first = np.tile([0.0, 1.0], (1, phase.records, 1))  # the other expert wins a leaf with a small probability
    second = first.copy()
    second[0, list(chosen)] = 1.0, 0.0
    laws = [
        log_law(learner.setting, phase, learner.family, ordered_labels(phase)[None], one) for one in (first, second)
    ]
    loss = float(np.abs(laws[0] - laws[1]).max())
    assert group * leaf < 0.9 * loss  # what the mutant charges
    assert loss <= learner.guarantee(group=group).event.pure_epsilon() <= 2.0 * group * (1 + 1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential"])
def test_no_group_costs_more_in_a_secret_order(noise: str) -> None:
    """All twelve orders of four rounds that one tree reads, mixed exactly; one loss alone costs less than in a known
    order."""
    learner, rng = instance(noise, FAMILIES["curved"], trees=1, batch=2, assignment="secret"), np.random.default_rng(5)
    phase = learner.setting.phases[-1]
    assert phase is not None and phase.records == 4 and phase.leaves() == 2
    orders = sorted(set(itertools.permutations(ordered_labels(phase).tolist())))
    assert len(orders) == 12
    for group in (1, 2, 3, 4):
        event, most = learner.guarantee(group=group).event, 0.0
        for _ in range(3):
            pair = neighbours(rng, learner, tuple(range(group)))
            laws = [
                np.logaddexp.reduce(
                    [
                        log_law(learner.setting, phase, learner.family, np.array([order], dtype=np.int32), losses)
                        for order in orders
                    ]
                )
                - math.log(len(orders))
                for losses in pair
            ]
            most = max(most, excess(laws[0], laws[1], event))
        assert 0.05 < most <= 1.0 + 1e-9
    assert learner.guarantee().epsilon(0.0).upper < learner.guarantee(group=2).epsilon(0.0).upper / 2


@pytest.mark.parametrize(("noise", "view"), [("laplace", "server"), ("gaussian", "output"), ("gaussian", "server")])
def test_messages_of_a_group_add_up(noise: str, view: str) -> None:
    """All placements of three losses: the rates at all leaves and coordinates, from the walk itself."""
    learner = instance("laplace", FAMILIES["curved"])
    learner = evolve(learner, setting=evolve(learner.setting, noise=noise))
    phase = learner.setting.phases[-1]
    assert phase is not None
    unit, most = {place.tree * 10 + place.depth: place for place in places(learner.setting, phase)}, 0.0
    labels, vertices = ordered_labels(phase), phase.vertices()
    for chosen in placements(phase, 3):
        shift, scale = np.zeros(phase.leaves()), np.ones(phase.leaves())
        for t in chosen:
            if labels[t] >= 0:
                vertex = vertices[labels[t]]
                reached = slice(vertex.before, vertex.before + vertex.leaves)
                shift[reached] += unit[vertex.tree * 10 + vertex.depth].shift
                scale[reached] = phase.scale(vertex.tree)
        rates = shift / scale
        if noise == "gaussian":
            most = max(most, math.sqrt(EXPERTS * float((rates**2).sum())))
        else:
            most = max(most, EXPERTS * float(rates.sum()))
    event = group_event(learner.setting, experts=EXPERTS, model=view).at(3)
    charged = event.mu if isinstance(event, GaussianDP) else event.pure_epsilon()
    assert (0.8 if noise == "gaussian" else 1.0 - 1e-9) <= most / charged <= 1.0 + 1e-9


@pytest.mark.parametrize("view", ["output", "client", "server", "central"])
@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0.0), ("laplace", 1e-6), ("gaussian", 1e-6)])
@pytest.mark.every(3)
def test_targets_for_groups_are_met(view: str, noise: Any, delta: float) -> None:
    if noise == "gaussian" and view == "central":
        delta = 1e-3
    sizes: dict[str, Any] = {"clients": 3, "rounds": 31, "experts": 4, "epsilon": 0.7, "delta": delta, "noise": noise}
    for group in (2, 15):
        one = FedStoch.calibrated(**sizes, view=view, group=group)
        assert 0.69 < one.guarantee(view, group=group).epsilon(delta).upper <= 0.7
        assert one.guarantee(view, group=group).group == group
        assert one.guarantee(view).epsilon(delta).upper < 0.4


def test_a_client_is_a_group_of_all_losses_that_are_read() -> None:
    one = FedStoch.calibrated(clients=2, rounds=31, experts=4, epsilon=1.0)
    assert one.client_losses == 15  # the last 16 rounds are played and never read
    assert one.guarantee(group=15).epsilon(0.0).upper == pytest.approx(15.0)
    whole = one.guarantee(group=30)
    assert one.guarantee(group=10**9).event == whole.event and one.guarantee(group=10**9).group == 10**9
    nothing = FedStoch(setting=StochSetting(clients=2, phases=()), rounds=1, experts=4)
    assert nothing.client_losses == 0 and nothing.guarantee(group=5).epsilon(0.0).upper == 0.0


def test_what_hides_nothing_costs_everything() -> None:
    one = FedStoch.calibrated(clients=2, rounds=31, experts=4, epsilon=1.0, view="central")
    assert group_event(one.setting, experts=4, model="server") == NonPrivate()
    assert math.isinf(one.guarantee("server", group=2).epsilon(0.5).upper)
    assert isinstance(group_event(one.setting, experts=4, model="central"), LogLipschitz)


@pytest.mark.parametrize("group", [0, -1, 1.5, "x", None, True, float("nan")])
def test_groups_are_whole_numbers(group: Any) -> None:
    one = FedStoch.calibrated(clients=2, rounds=7, experts=4, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="group"):
        one.guarantee(group=group)
    with pytest.raises(InvalidArgumentError, match="group"):
        FedStoch.calibrated(clients=2, rounds=7, experts=4, epsilon=1.0, group=group)
