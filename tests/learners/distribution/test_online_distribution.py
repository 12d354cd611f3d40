"""Tests of the learner of label laws: its plan, its rules and rates, and its risk under the explicit bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from samples import least_mean
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Envelope, UniformMixture
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.risk_bounds import total_variation
from hockeystick.learners.distribution.runs import play, replay

EXACT = 1e-9


def easy(experts: int, *, copies: int = 1) -> LabelTable:
    """Half uniform, half on a block of labels of one's own: candidates that are easily distinguished."""
    blocks = np.repeat(0.5 / experts + 0.5 * np.eye(experts), copies, axis=1) / copies
    return LabelTable(blocks)


def random_table(seed: int, *shape: int) -> LabelTable:
    return LabelTable(np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.6), shape[:-1]))


CHANNELS: list[tuple[Any, dict[str, Any]]] = [
    (OneBit, {"epsilon": 1.0}),
    (SampledLaplace, {"epsilon": 1.0}),
    (SampledDiscreteLaplace, {"epsilon": 1.0, "steps": 300}),
    (VectorLaplace.calibrated, {"epsilon": 1.0, "delta": 1e-6}),
    (VectorGaussian.calibrated, {"epsilon": 1.0, "delta": 1e-6}),
    (RandomizedLabels, {"epsilon": 1.0}),
]


# --- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("channel", "parameters"), CHANNELS)
def test_a_run_costs_what_one_message_costs(channel: Any, parameters: dict[str, Any]) -> None:
    learner = OnlineDistribution.build(random_table(0, 2, 3, 5), rounds=1000, channel=channel, **parameters)
    graph = learner.graph()
    assert graph.adjacency is Adjacency.LOCAL
    delta = parameters.get("delta", 1e-9)
    assert graph.guarantee().epsilon(delta).upper <= parameters["epsilon"] * (1 + 1e-9)
    # A person who answers in three rounds pays for three messages, and rounds are shared among fewer persons.
    thrice = learner.graph(answers=3).guarantee().epsilon(delta).upper
    assert thrice > 1.2 * graph.guarantee().epsilon(delta).upper
    if "delta" not in parameters:
        assert thrice <= 3 * parameters["epsilon"] * (1 + 1e-9)


def test_the_worst_neighbours_differ_in_one_label_by_a_whole_span() -> None:
    learner = OnlineDistribution.build(random_table(1, 4, 6), rounds=50, epsilon=1.0)
    here, there = learner.worst_case_neighbours()
    assert here.shape == there.shape == (50,) and int((here != there).sum()) == 1
    channel = learner.channels[0]
    moved = np.abs(channel.levels.of(here[:1]) - channel.levels.of(there[:1])).max()
    assert moved == pytest.approx(max(np.ptp(channel.levels.of(np.arange(6)), axis=0)))
    with pytest.raises(InvalidArgumentError):
        OnlineDistribution.build(LabelDensities.poisson([1.0, 2.0]), rounds=9, epsilon=1.0).worst_case_neighbours()


# --- rules -----------------------------------------------------------------------------------------------------------


def test_rates_are_those_of_the_theorems() -> None:
    rounds, experts = 10_000, 4
    table = easy(experts)

    def rate(channel: Any, rule: Any = "tuned", **parameters: Any) -> float:
        return OnlineDistribution.build(table, rounds=rounds, channel=channel, rule=rule, **parameters).learning_rate

    span = UniformMixture().levels(table, rounds).span
    reach = span / 2 / math.tanh(0.5)
    assert rate(OneBit, epsilon=1.0) == pytest.approx(math.sqrt(2 * experts * math.log(experts) / rounds) / reach)
    x1 = math.sqrt(experts * math.log(experts) / (rounds * (span**2 / 8 + span**2)))
    assert rate(SampledLaplace, epsilon=1.0) == pytest.approx(x1)
    assert rate(SampledDiscreteLaplace, epsilon=1.0, steps=4096) == pytest.approx(x1, rel=1e-3)
    x3 = math.sqrt(math.log(experts) / (rounds * (span**2 / 8 + 9 * span**2)))
    assert rate(VectorLaplace, scale=3 * span) == pytest.approx(x3)
    assert rate(VectorGaussian, sigma=math.sqrt(18) * span) == pytest.approx(x3)
    assert rate(RandomizedLabels, epsilon=1.0) == 1.0
    assert rate(OneBit, "posterior", epsilon=1.0) == 1.0
    # As published, and the slip of a factor sqrt(K) in Algorithm 1.
    printed = rate(VectorLaplace, "printed", scale=1.0)
    assert printed == pytest.approx(math.sqrt(2 * math.log(experts) / rounds))
    assert rate(VectorLaplace, "misprinted", scale=1.0) == pytest.approx(2 * printed)
    assert rate(SampledLaplace, "printed", epsilon=1.0) == pytest.approx(2 * printed)
    assert rate(OneBit, epsilon=1.0, rate=0.25) == 0.25
    assert OnlineDistribution.build(table, rounds=9, channel=VectorLaplace, rule="printed", scale=1.0).risk_bound() > 0
    with pytest.raises(InvalidArgumentError):
        OnlineDistribution.build(table, rounds=9, channel=VectorLaplace, rule="misprinted", scale=1.0).risk_bound()


def test_printed_losses_lie_in_the_unit_interval_and_centred_ones_are_unbiased() -> None:
    """False alarm below 1e-6: means of 200 000 losses within 6 standard errors; noise beyond c' 4000 times in 3e12."""
    table, rng, count = random_table(3, 3, 5), np.random.default_rng(17), 200_000
    for channel, parameters in CHANNELS[:5]:
        learner = OnlineDistribution.build(table, rounds=500, channel=channel, **parameters)
        levels = learner.channels[0].levels
        label = np.full(count, 2)
        index, losses = learner.losses(learner.channels[0].simulate(label, rng))
        expected = levels.middle - levels.of(label[:1])[0]
        for j in range(3):
            mine = losses[index == j] if index is not None else losses[:, j]
            assert abs(mine.mean() - expected[j]) < 6 * mine.std() / math.sqrt(len(mine))
    for channel in (SampledLaplace, VectorLaplace):
        parameters = {"epsilon": 1.0} if channel is SampledLaplace else {"scale": 20.0}
        learner = OnlineDistribution.build(table, rounds=10**6, channel=channel, rule="printed", **parameters)
        _, losses = learner.losses(learner.channels[0].simulate(rng.integers(0, 5, 1000), rng))
        assert losses.min() >= 0.0 and losses.max() <= 1.0 and 0.4 < losses.mean() < 0.6


def test_posterior_weights_are_bayes_rule() -> None:
    """Against the message's law by hand, for a bit, Laplace noise, all candidates, and a randomised label."""
    table = random_table(5, 3, 4)
    laws, rng = table.table(), np.random.default_rng(2)
    for channel, parameters in (CHANNELS[0], CHANNELS[1], (VectorLaplace, {"scale": 2.0}), CHANNELS[5]):
        learner = OnlineDistribution.build(table, rounds=40, channel=channel, rule="posterior", **parameters)
        own = learner.channels[0]
        messages = own.simulate(rng.integers(0, 4, (2, 30)), rng)
        _, losses = learner.losses(messages)
        assert losses.shape == (2, 30, 3)
        levels = own.levels.of(np.arange(4))
        for place in ((0, 0), (1, 7), (1, 29)):
            j = None if messages.index is None else int(messages.index[place])
            value = messages.value[place]
            if isinstance(own, OneBit):
                up = 0.5 + (own.levels.middle - levels[:, j]) / own.span * math.tanh(0.5)
                chance = up if value else 1 - up
            elif isinstance(own, SampledLaplace):
                chance = stats.laplace.pdf(value - (own.levels.middle - levels[:, j]), scale=own.scale)
            elif isinstance(own, VectorLaplace):
                chance = stats.laplace.pdf(value - (own.levels.middle - levels), scale=2.0).prod(axis=1)
            else:
                chance = np.where(np.arange(4) == value, math.e, 1.0) / (math.e + 3)
            expected = -np.log(laws @ chance)
            np.testing.assert_allclose(losses[place] - losses[place][0], expected - expected[0], atol=1e-9)


def test_invalid_learners_are_refused() -> None:
    table = easy(3)

    def channel(rounds: int = 10, **parameters: Any) -> Channel:
        return OneBit(UniformMixture().levels(table, rounds), **({"epsilon": 1.0} | parameters))

    assert OnlineDistribution(channels=channel()).experts == 3
    other = SampledLaplace(UniformMixture().levels(table, 10), epsilon=1.0)
    bad: list[dict[str, Any]] = [
        {"channels": ()},
        {"channels": 3},
        {"channels": (channel(), other)},
        {"channels": (channel(), channel(11))},
        {"channels": (channel(), channel(epsilon=2.0))},
        {"channels": (channel(), channel(span=50.0))},
        {"channels": channel(), "rule": "best"},
        {"channels": channel(), "rule": "printed"},
        {"channels": other, "rule": "misprinted"},
        {"channels": channel(), "rate": -1.0},
        {"channels": channel(), "rate": True},
    ]
    for arguments in bad:
        with pytest.raises(InvalidArgumentError):
            OnlineDistribution(**arguments)
    densities = LabelDensities.gaussian([0.0, 1.0])
    with pytest.raises(InvalidArgumentError):
        OnlineDistribution.build(densities, rounds=10, epsilon=1.0, rule="posterior")
    learner, rng = OnlineDistribution.build(table, rounds=10, epsilon=1.0), np.random.default_rng(0)
    wrong: list[dict[str, Any]] = [
        {"truth": 3},
        {"truth": True},
        {"truth": [0.5, 0.5]},
        {"truth": [0.5, 0.5, math.nan]},
        {"truth": 0, "runs": 0},
        {"truth": 0, "rounds": 0},
        {"truth": 0, "labels": [0, 1]},
        {"truth": 0, "contexts": [1] * 10},
    ]
    base: dict[str, Any] = {"rng": rng, "runs": 1}
    for change in wrong:
        with pytest.raises(InvalidArgumentError):
            learner.simulate(**base | change)
    with pytest.raises(InvalidArgumentError):
        OnlineDistribution.build(densities, rounds=10, epsilon=1.0).simulate(0, rng, 1)


# --- risk ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", [CeiledBlocks(), Envelope(), UniformMixture(), UniformMixture(calibrated=False)])
@pytest.mark.parametrize(("channel", "parameters"), [CHANNELS[i] for i in (0, 1, 3, 4, 5)])
@pytest.mark.every(3)
def test_risk_is_below_its_bound(channel: Any, parameters: dict[str, Any], reference: Any) -> None:
    """Rows 7, 20. False alarm 1e-6 by Student's t."""
    rng = np.random.default_rng(31)
    for table in (easy(4), random_table(9, 3, 7)):
        learner = OnlineDistribution.build(table, rounds=4000, channel=channel, reference=reference, **parameters)
        runs = learner.simulate(1, rng, 12, block=4)
        assert least_mean(runs.risk) < learner.risk_bound()
        wrong_way = OnlineDistribution(channels=learner.channels, rate=0.0)  # a mutant that learns nothing
        assert wrong_way.simulate(1, rng, 2, block=4).risk.mean() > 0.05 * 4000


def test_the_wrong_sign_leads_away_from_the_truth() -> None:
    """Mutant 24. The risk with losses of the wrong sign is linear in T: more than that of no learning at all."""
    learner, rng = OnlineDistribution.build(easy(4), rounds=20_000, epsilon=1.0), np.random.default_rng(4)
    labels = learner.channels[0].levels.hypotheses.sample(0, 20_000, rng)
    index, losses = learner.losses(learner.channels[0].simulate(labels[None], rng))
    risk, right = learner.risk(0), {"rounds": 20_000, "runs": 1, "rate": learner.learning_rate}
    fair = play(replay(index, losses), risk, **right).risk[0]  # type: ignore[arg-type]
    turned = play(replay(index, -losses), risk, **right).risk[0]  # type: ignore[arg-type]
    assert fair < 0.02 * 20_000 < 0.3128 * 20_000 < turned
    assert fair < learner.risk_bound() < turned


def test_the_prediction_never_loses_the_reference_law() -> None:
    """Mutant 25: without the reference law's share the risk is infinite where the weights of the truth underflow."""
    table = LabelTable([[1.0, 0.0], [0.0, 1.0]])
    learner = OnlineDistribution.build(table, rounds=100, epsilon=1.0)
    lost = np.array([[0.0], [1.0]])
    assert learner.risk(0).of(lost)[0] == pytest.approx(math.log(200.0))
    levels = learner.channels[0].levels
    np.testing.assert_allclose(levels.masses(), [[0.995, 0.005], [0.005, 0.995]])


def test_total_variation_of_the_mean_prediction_is_below_the_root_of_the_risk() -> None:
    """Theorem 6 in every run: TV(truth, mean prediction) <= mean TV <= sqrt(risk/(2T)), by Pinsker and Jensen."""
    table, rng = random_table(12, 4, 6), np.random.default_rng(5)
    learner = OnlineDistribution.build(table, rounds=3000, epsilon=1.0)
    runs = learner.simulate(2, rng, 20)
    means = runs.mean_weights @ learner.channels[0].levels.masses()
    distance = 0.5 * np.abs(means - table.table()[2]).sum(axis=1)
    for far, risk in zip(distance, runs.risk, strict=True):
        assert far <= total_variation(risk=float(risk), rounds=3000) + 1e-12
    # The norm without its half would break it: labels of one kind, all weight on the wrong candidate.
    assert total_variation(risk=1.0, rounds=1) < 2.0 * 0.5 * 2.0


@pytest.mark.statistical
def test_the_bound_does_not_grow_with_the_number_of_labels() -> None:
    """Row 7. Labels that come in blocks make the very same run, for 4 labels as for 65 536."""

    def risk(copies: int) -> float:
        learner = OnlineDistribution.build(easy(4, copies=copies), rounds=2000, epsilon=1.0)
        assert len(learner.risk(0).truth) == 4  # blocks
        labels = np.arange(2000) % 7 % 4
        found = learner.simulate(0, np.random.default_rng(3), 3, labels=labels * copies)
        return float(found.risk.sum())

    assert risk(1) == pytest.approx(risk(2**14), rel=1e-6)


def test_contexts_and_labels_from_outside() -> None:
    """Row 21, oblivious contexts: a context permutes which candidates agree with the truth; the bound is the same."""
    base = random_table(21, 4, 5).table()
    table = LabelTable(np.stack([base, base[[0, 0, 2, 2]], base[[0, 1, 0, 3]]]))
    learner = OnlineDistribution.build(table, rounds=3000, epsilon=1.0)
    rng = np.random.default_rng(6)
    for contexts in (np.arange(3000) % 3, np.arange(3000) // 1000, np.zeros(3000)):
        runs = learner.simulate(0, rng, 10, contexts=contexts, block=3)
        assert runs.risk.mean() < learner.risk_bound()
    with pytest.raises(InvalidArgumentError):
        learner.simulate(0, rng, 10)
    laws = np.stack([base[3], base[1], base[2]])  # a truth of its own in each context
    found = learner.simulate(laws, rng, 2, contexts=np.arange(3000) % 3, marks=[30])
    assert found.curve.shape == (2, 2) and np.isfinite(found.risk).all()


@pytest.mark.statistical
def test_labels_without_a_table() -> None:
    """Row 3: Poisson and normal candidates, the risk by summing and by quadrature."""
    rng, points = np.random.default_rng(8), np.arange(200.0)
    counts = OnlineDistribution.build(LabelDensities.poisson([1.0, 7.0, 50.0]), rounds=2000, epsilon=2.0)
    risk = counts.risk_at(1, points)
    assert counts.simulate(1, rng, 6, risks=risk).risk.mean() < counts.risk_bound()
    nodes, step = np.linspace(-9.0, 12.0, 3001, retstep=True)
    normal = OnlineDistribution.build(LabelDensities.gaussian([0.0, 3.0]), rounds=2000, epsilon=2.0)
    normal_risk = normal.risk_at(1, nodes, nodes=np.full(len(nodes), step))
    assert normal.simulate(1, rng, 6, risks=normal_risk, block=5).risk.mean() < normal.risk_bound()


def test_one_seed_is_one_run() -> None:
    learner = OnlineDistribution.build(easy(3), rounds=300, epsilon=1.0)
    first, second = (learner.simulate(0, np.random.default_rng(1), 2).risk for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first[0] != first[1]


# --- after a trusted shuffler ----------------------------------------------------------------------------------------


def test_shuffled_messages_cost_what_their_event_costs_and_less_than_one_alone() -> None:
    one = OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=1000, epsilon=1.0)
    found = one.shuffled_graph().guarantee()
    assert found.adjacency is Adjacency.REPLACE_ONE and "trusted shuffler" in found.assumptions[0]
    bound = found.epsilon(1e-6)
    # A bit about one of two candidates is no report of two outcomes: the exact law of a thousand bits has 0.1266.
    assert bound.method == "shuffle-clone" and 0.148 < bound.upper < 0.149
    assert bound.upper == accounting.epsilon(accounting.Shuffled(one.channels[0].event(), 1000), 1e-6).upper
    assert one.shuffled_graph(rounds=4000).guarantee().epsilon(1e-6).upper < 0.6 * bound.upper
    assert found.epsilon(0.0).upper == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [(0, 1), (1, 0)])
def test_shuffled_bits_about_two_candidates_are_not_above_the_bound(rows: tuple[int, int]) -> None:
    """The exact law of three persons' messages, (candidate, bit), against the certificate, for all labels of two."""
    one = OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=3, epsilon=1.0)
    channel = one.channels[0]
    assert isinstance(channel, OneBit)
    chance = np.array([[float(p) for p in column] for column in channel.probabilities()]).T[:2]
    laws = np.concatenate([chance, 1.0 - chance], axis=1) / 2  # of a label's message, four outcomes
    worst = 0.0
    for others in ((0, 0), (0, 1), (1, 1)):
        law: list[dict[tuple[int, ...], float]] = []
        for x in rows:
            found: dict[tuple[int, ...], float] = {}
            for sent in itertools.product(range(4), repeat=3):
                mass = math.prod(laws[who, y] for who, y in zip((x, *others), sent, strict=True))
                found[tuple(sorted(sent))] = found.get(tuple(sorted(sent)), 0.0) + mass
            law.append(found)
        worst = max(worst, sum(max(law[0][y] - math.exp(0.2) * law[1][y], 0.0) for y in law[0]))
    assert 0.0 < worst <= accounting.delta(accounting.Shuffled(channel.event(), 3), 0.2).upper


def test_shuffled_messages_of_several_contexts_and_of_one_round_are_refused() -> None:
    tables = LabelTable([[[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]]])
    with pytest.raises(InvalidArgumentError, match="may depend on earlier messages") as raised:
        OnlineDistribution.build(tables, rounds=10, epsilon=1.0).shuffled_graph()
    assert raised.value.argument == "channels"
    one = OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=10, epsilon=1.0)
    with pytest.raises(InvalidArgumentError):
        one.shuffled_graph(rounds=1)


def test_shuffled_messages_with_gaussian_noise_hide_each_other() -> None:
    table = LabelTable([[0.9, 0.1], [0.1, 0.9]])
    learner = OnlineDistribution.build(table, rounds=1000, channel=VectorGaussian, sigma=30.0)
    local, central = (graph.guarantee().delta(0.01).upper for graph in (learner.graph(), learner.shuffled_graph()))
    assert central < 0.9 * local
