"""Tests of published runs: secret orders, messages on a grid and exact choices, all covered by the same graph."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.losses import SquaredDistances
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases
from hockeystick.learners.federated.stochastic.privacy_plan import places
from hockeystick.learners.federated.stochastic.release import released_scores, released_winner, secret_labels
from hockeystick.learners.network.protocol import FederationError, InProcess, conduct
from hockeystick.mechanisms import NoisyMax, ReleaseNoise, SimulationNoise

ALARM = 1e-6


class Asked(SimulationNoise):
    """Draws nothing, and records the requested scale."""

    scales: list[float] = []

    def laplace(self, scale: float, count: int) -> Any:
        self.scales.append(scale)
        return np.arange(count)

    def gaussian(self, scale: float, count: int) -> Any:
        self.scales.append(scale)
        return np.arange(count)


def setting(**changed: Any) -> StochSetting:
    phases = certified_phases(Sizes(clients=3, experts=4, epsilon=1.0), 63, trees=2)
    return evolve(StochSetting(clients=3, phases=phases), **changed)


def covered(one: StochSetting, phase: TreePhase, tree: int, t: float, step: float) -> bool:
    """Whether noise of scale t steps costs messages and winners no more than real noise, at every vertex, exactly."""
    lam, t_exact, g = Fraction(phase.scale(tree)), Fraction(t), Fraction(step)
    for place in (each for each in places(one, phase) if each.tree == tree):
        moved = Fraction(place.shift) / g + 1  # by rounding to the grid alone; computing averages comes on top
        if moved / t_exact + 1 / (4 * t_exact**2) > Fraction(place.shift) / lam:
            return False
        span = 2 * Fraction(place.shift) / g + 2
        if span * (1 / t_exact + 1 / t_exact**2) > 2 * Fraction(place.shift) / lam:
            return False
    return True


@given(
    st.integers(0, 3), st.integers(1, 300), st.integers(0, 9), st.integers(2, 40), st.floats(1e-4, 1e4),
    st.sampled_from([None, 0.0, 1e-3, 0.5]), st.floats(-3, 0.9),
)  # fmt: skip
@settings(max_examples=60)
def test_noise_on_the_grid_is_covered_by_the_plan(trees, multiple, spare, d, relative, smoothness, low):
    batch = 2**trees * multiple
    records = batch * 12 + spare if trees else batch
    phase = TreePhase(
        records=records, trees=trees, batch=batch, scales=[relative / batch * (j + 1) for j in range(max(1, trees))]
    )
    one = StochSetting(clients=5, phases=(), low=low, smoothness=smoothness)
    for tree in range(1, trees + 1) if trees else (0,):
        noise = Asked(0)
        noise.scales.clear()
        step = float(released_scores(one, phase, tree, np.zeros(d), noise)[1])
        found = released_scores(one, phase, tree, np.linspace(low, 1.0, d), noise)
        assert (found / step == np.rint(found / step)).all()
        t = noise.scales[0]
        assert covered(one, phase, tree, t, step)
        assert not covered(one, phase, tree, phase.scale(tree) / step, step)  # the mutant without a raise
        assert t * step <= phase.scale(tree) * (1 + 2.0**-9)  # and it costs next to nothing


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_messages_have_the_law_of_real_noise(noise):
    """Kolmogorov-Smirnov of 6000, alarm 1e-6; twice the noise is caught."""
    one = setting(noise=noise)
    phase = one.phases[5 - 1]
    assert phase is not None
    source = SimulationNoise(1)
    drawn = np.concatenate([released_scores(one, phase, 1, np.full(60, 0.3), source) - 0.3 for _ in range(100)])
    law = stats.laplace if noise == "laplace" else stats.norm
    assert stats.kstest(drawn, law(scale=phase.scale(1)).cdf).pvalue > ALARM
    assert stats.kstest(drawn, law(scale=phase.scale(1) / 2).cdf).pvalue < ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential"])
def test_a_trusted_server_chooses_by_the_noisy_minimum(noise):
    """Chi-square of 1500 choices against the exact law of m times the noise, alarm 1e-6; an m-th of it is caught."""
    one = setting(noise=noise, where="server")
    phase = one.phases[1]
    assert phase is not None and phase.trees == 0
    source, total = SimulationNoise(2), np.array([0.0, 4.0, 6.0, 10.0])
    counts = np.bincount([released_winner(one, phase, 0, total, source) for _ in range(1500)], minlength=4)
    for clients, proper in ((3, True), (1, False)):
        scale = clients * phase.scale(0)
        law = np.exp(NoisyMax(scale, noise, minimum=True).log_probabilities(total))
        assert (stats.chisquare(counts, 1500 * law / law.sum()).statistic < stats.chi2.isf(ALARM, 3)) == proper


def test_secret_orders_are_uniform():
    """Chi-square over the 12 arrangements, alarm 1e-6; an order by rounds is caught."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=[1.0])
    source = SimulationNoise(3)
    for assignment, proper in (("secret", True), ("contiguous", False)):
        one = StochSetting(clients=1, phases=(), assignment=assignment)
        drawn = np.array([secret_labels(phase, one, source) for _ in range(3000)])
        _, counts = np.unique(drawn, axis=0, return_counts=True)
        statistic = stats.chisquare(np.pad(counts, (0, 12 - len(counts)))).statistic
        assert (statistic < stats.chi2.isf(ALARM, 11)) == proper


@pytest.mark.parametrize(
    ("where", "noise"),
    [
        ("client", "laplace"),
        ("client", "gaussian"),
        ("server", "laplace"),
        ("server", "gumbel"),
        ("server", "gaussian"),
    ],
)
def test_published_runs_come_to_an_end(where, noise):
    """With hardly any noise they end where a simulation without does."""
    family = SquaredDistances()
    phases = certified_phases(Sizes(clients=3, experts=4, epsilon=1e6), 63, trees=2)
    one = FedStoch(
        setting=StochSetting(
            clients=3, phases=phases, low=family.low, high=family.high, smoothness=0.5, where=where, noise=noise,
            assignment="contiguous",
        ),
        rounds=63, experts=4, family=family,
    )  # fmt: skip
    losses = np.random.default_rng(0).random((3, 63, 4))
    transport = InProcess([one.client(own, SimulationNoise(i)) for i, own in enumerate(losses)])
    found = conduct(one.server(SimulationNoise(9)), transport, clients=3).result
    assert found.winners == one.run(losses, range(3), server_seed=9).broadcasts.winners


def test_a_published_answer_is_drawn_once():
    """A repeated request is answered from the state, because fresh noise would be a second release."""
    one = FedStoch(setting=setting(), rounds=63, experts=4)
    client = one.client(np.full((63, 4), 0.5), SimulationNoise(4))
    server = one.server()
    request = next(server)
    state, answer = client.answer(client.start(), request)
    assert (client.answer(state, request)[1] == answer).all()
    with pytest.raises(FederationError):
        client.answer(state, evolve(request, number=2))


def test_secure_noise_is_taken():
    one = FedStoch(setting=setting(), rounds=63, experts=4)
    transport = InProcess([one.client(np.full((63, 4), 0.5), ReleaseNoise()) for _ in range(3)])
    outcome = conduct(one.server(), transport, clients=3)
    assert outcome.result.points.sum(axis=1) == pytest.approx(np.ones(6))


def test_results_that_cannot_be_published_are_refused():
    one = FedStoch(setting=setting(noise="gumbel"), rounds=63, experts=4)
    client = one.client(np.full((63, 4), 0.5), SimulationNoise(0))
    with pytest.raises(InvalidArgumentError, match="hides no message"):
        client.answer(client.start(), next(one.server()))
    sources: list[Any] = [None, True, -1, "seed", SimulationNoise]
    for source in sources:
        with pytest.raises(InvalidArgumentError):
            one.client(np.full((63, 4), 0.5), source)
    with pytest.raises(InvalidArgumentError):
        FedStoch(setting=setting(where="server"), rounds=63, experts=4).server()
    tiny = setting(low=-1e18, high=-1e18 + 1e3)
    phase = tiny.phases[0]
    assert phase is not None
    with pytest.raises(InvalidArgumentError, match="rounding"):
        released_scores(tiny, phase, 0, np.zeros(4), SimulationNoise(0))
    with pytest.raises(InvalidArgumentError, match="too large"):
        released_scores(setting(), evolve(phase, scales=[1e15]), 0, np.zeros(4), SimulationNoise(0))
