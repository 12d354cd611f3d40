"""Tests of the hybrid tree: its noise and its cost by linear algebra, and releases step by step."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from divergences import gaussian_delta
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, Ledger
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms import HybridTree, SimulationNoise, TreeAggregation
from hockeystick.mechanisms.streams import tree_blocks

FALSE_ALARM = 1e-6
ESTIMATES = ["plain", "below"]


def decoder(tree: HybridTree, steps: int) -> FloatArray:
    """The matrix from independent unit noises of all blocks to the noise of the answers."""
    columns = []
    rows = np.zeros((0, 0))
    for part, here in tree._epochs(steps):
        count = here.stop - here.start
        sizes = tree_blocks.counts(count)
        unit = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
        own = tree_blocks.prefixes(tree_blocks.improved([b[:, :, None] for b in unit], tree.estimate), count)
        own = part.scale * own[:, :, 0].T
        before = np.tile(rows[-1:], (count, 1)) if len(rows) else np.zeros((count, 0))
        rows = np.block([[rows, np.zeros((len(rows), own.shape[1]))], [before, own]]) if len(rows) else own
        columns.append(own.shape[1])
    assert rows.shape == (steps, sum(columns))
    return rows


def shift(steps: int, at: int) -> FloatArray:
    return np.where(np.arange(steps) >= at, 1.0, 0.0)


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("steps", [1, 2, 3, 6, 7, 12, 15, 31])
class TestByLinearAlgebra:
    def test_variances(self, steps: int, estimate: Any) -> None:
        tree = HybridTree(1.5, estimate=estimate)
        exact = (decoder(tree, steps) ** 2).sum(axis=1)
        np.testing.assert_allclose(tree.variances(steps), exact, rtol=1e-12)
        np.testing.assert_allclose(tree.variances_between(0, steps + 1), np.append(0.0, exact), rtol=1e-12)
        laplace = HybridTree(1.5, law="laplace", estimate=estimate)
        assert laplace.variances(1)[0] == pytest.approx(2 * 1.5**2)
        ending = HybridTree(1.5, estimate=estimate, steps=steps)
        np.testing.assert_allclose(ending.variances_between(0, steps + 1), np.append(0.0, exact), rtol=1e-12)
        at, largest = ending.largest_variances()
        places = np.searchsorted(at, np.arange(1, steps + 1), side="right") - 1
        np.testing.assert_allclose(1.5**2 * largest[places], np.maximum.accumulate(exact), rtol=1e-12)

    def test_a_record_costs_one_gaussian_wherever_it_is(self, steps: int, estimate: Any) -> None:
        """The exact distance μ of the answers' normal laws: never above 1/scale, and equal to it for plain answers."""
        tree = HybridTree(1.5, estimate=estimate)
        noise = decoder(tree, steps)
        inverse = np.linalg.inv(noise @ noise.T)
        mus = [math.sqrt(shift(steps, at) @ inverse @ shift(steps, at)) for at in range(steps)]
        assert max(mus) <= 1 / 1.5 * (1 + 1e-9)
        if estimate == "plain":
            for k in range((steps + 1).bit_length() - 1):  # of the epochs that are whole
                assert mus[(1 << k) - 1] == pytest.approx(1 / 1.5, rel=1e-9)
        for epsilon in (0.0, 0.5, 2.0):
            assert gaussian_delta(max(mus), epsilon) <= accounting.delta(tree.event(), epsilon).upper * (1 + 1e-8)


def test_a_tree_without_larger_noise_would_cost_more() -> None:
    """The planted mistake: all epochs with the noise of the first one."""
    mu = math.sqrt(3) / 1.5
    assert gaussian_delta(mu, 0.5) > 1.5 * accounting.delta(HybridTree(1.5).event(), 0.5).upper


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_every_epoch_costs_at_most_the_event(law: Any) -> None:
    """The event of each epoch's tree; for Gaussian noise it is equal to it, and for Laplace noise in pure ε."""
    tree = HybridTree(2.0, law=law, sensitivity=1.5)
    for k in (0, 1, 3, 29):
        for epsilon in (0.0, 0.5, 0.74) if k < 29 or law == "gaussian" else ():
            own = accounting.delta(tree.tree(k).event(), epsilon).upper
            assert own <= accounting.delta(tree.event(), epsilon).upper * (1 + 1e-9)
            if law == "gaussian":
                assert own == pytest.approx(accounting.delta(tree.event(), epsilon).upper, rel=1e-6)
        if law == "laplace":
            assert tree.tree(k).event().pure_epsilon() == pytest.approx(0.75, rel=1e-12)
            assert tree.tree(k).event().pure_epsilon() <= tree.event().pure_epsilon() * (1 + 1e-15)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_calibration_meets_its_target(delta: float | None) -> None:
    tree = HybridTree.calibrated(epsilon=0.7, delta=delta, sensitivity=3.0)
    found = accounting.epsilon(tree.event(), delta or 0.0).upper
    assert 0.69999 <= found <= 0.7
    for steps in (1, 1000):
        assert HybridTree.calibrated(epsilon=0.7, delta=delta, sensitivity=3.0, steps=steps).scale == tree.scale


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_noise_is_at_most_the_root_of_one_and_a_half_times_that_of_one_tree(estimate: Any) -> None:
    """For every number of steps up to 2^20, and at the ends of epochs up to 2^30; one tree of the same cost."""
    steps = np.arange(1, 2**20)
    own = np.maximum.accumulate(HybridTree(1.0, estimate=estimate).variances(len(steps)))
    single = np.maximum.accumulate(tree_blocks.variances(len(steps), estimate)) * (np.frexp(steps)[1])
    ratio = np.sqrt(own / single)
    assert ratio.max() == pytest.approx(math.sqrt(1.5), rel=1e-12)
    ends = [ratio[2**k - 2] for k in range(10, 21)]
    assert min(ends) > 1.15 and max(ends) < 1.1938
    at, largest = HybridTree(1.0, estimate=estimate).largest_variances()
    for k in range(20, 31):
        last = largest[np.searchsorted(at, 2**k - 1, side="right") - 1]
        heights = [1.0 if estimate == "plain" else tree_blocks.weight(h) for h in range(k)]
        assert last <= 1.5 * k * sum(heights)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_streams_are_releases_and_can_be_resumed(law: Any, estimate: Any) -> None:
    tree = HybridTree(2.0, law=law, estimate=estimate, steps=13)
    value = np.random.default_rng(1).normal(size=(13, 2))
    stream = tree.stream((2,), noise=SimulationNoise(3))
    for step in range(13):
        answer = stream.add(value[step])
        assert answer.shape == (2,) and stream.done == step + 1
        saved = json.loads(json.dumps(stream.state()))
        again = tree.resume(saved, (2,), noise=SimulationNoise(4))
        assert again.state() == stream.state()
    with pytest.raises(InvalidArgumentError, match="already done"):
        stream.add(value[0])
    tiny = HybridTree(1e-9, law=law, estimate=estimate)
    np.testing.assert_allclose(tiny.release(value, noise=SimulationNoise(5)), np.cumsum(value, axis=0), atol=1e-6)
    np.testing.assert_allclose(
        tiny.simulate(value, np.random.default_rng(6), 2)[1], np.cumsum(value, axis=0), atol=1e-6
    )
    for bad in ({}, {**saved, "done": 12}, {**saved, "before": [1.0]}, {**saved, "tree": {"done": 3}}):
        with pytest.raises(InvalidArgumentError):
            tree.resume(bad, (2,), noise=SimulationNoise(4))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "estimate"),
    [("gaussian", "below"), ("laplace", "plain")]
    + [pytest.param(*case, marks=pytest.mark.deep) for case in (("gaussian", "plain"), ("laplace", "below"))],
)
def test_noise_has_its_covariance(law: Any, estimate: Any) -> None:
    """Of simulated and of released answers: each entry within 6.5 of its standard errors."""
    tree, steps = HybridTree(1.5, law=law, estimate=estimate, steps=7), 7
    noise, released = decoder(tree, steps), SimulationNoise(8)
    exact = noise @ noise.T * (1.0 if law == "gaussian" else 2.0)
    simulated = tree.simulate(np.zeros(steps), np.random.default_rng(7), 20_000)
    runs = np.array([tree.release(np.zeros(steps), noise=released) for _ in range(600)])
    for drawn in (simulated, runs):
        products = drawn[:, :, None] * drawn[:, None, :]
        error = np.abs(products.mean(axis=0) - exact) / (products.std(axis=0) / math.sqrt(len(drawn)))
        assert error.max() < 6.5
    for t in range(steps):
        assert stats.ks_2samp(simulated[:, t], runs[:, t]).pvalue > FALSE_ALARM
    wrong = exact * np.where(np.arange(steps) >= 3, 0.8, 1.0)
    products = simulated[:, :, None] * simulated[:, None, :]
    assert (np.abs(products.mean(axis=0) - wrong) / (products.std(axis=0) / math.sqrt(20_000))).max() > 6.5


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_log_likelihood_ratio_is_that_of_the_normal_laws(estimate: Any) -> None:
    tree, steps = HybridTree(1.5, estimate=estimate, steps=6), 6
    noise = decoder(tree, steps)
    law = stats.multivariate_normal(np.zeros(steps), noise @ noise.T)
    first, second = np.random.default_rng(9).normal(size=(2, steps))
    seen = tree.simulate(first, np.random.default_rng(10), 5)
    exact = law.logpdf(seen - np.cumsum(first)) - law.logpdf(seen - np.cumsum(second))
    np.testing.assert_allclose(tree.log_likelihood_ratio(seen, first, second), exact, rtol=1e-9, atol=1e-9)


def test_the_whole_stream_is_charged_once() -> None:
    tree = HybridTree(2.0)
    plan = accounting.AccountantGraph().source("people").release("sums", tree.event(), reads=["people"])
    ledger = Ledger(plan)
    stream = tree.stream(ledger=ledger, name="sums", noise=SimulationNoise(1))
    stream.extend(np.ones(100))
    assert ledger.recorded("sums") == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: HybridTree(0.0), "scale"),
        (lambda: HybridTree(math.nan), "scale"),
        (lambda: HybridTree(1.0, law="normal"), "law"),  # type: ignore[arg-type]
        (lambda: HybridTree(1.0, estimate="full"), "estimate"),
        (lambda: HybridTree(1.0, sensitivity=-1.0), "sensitivity"),
        (lambda: HybridTree(1.0, steps=0), "steps"),
        (lambda: HybridTree(1.0, steps=2**30), "steps"),
        (lambda: HybridTree.calibrated(epsilon=0.0), "epsilon"),
        (lambda: HybridTree.calibrated(epsilon=1.0, delta=1.0), "delta"),
        (lambda: HybridTree(1.0, steps=3).release(np.ones(4), noise=SimulationNoise(1)), "value"),
        (lambda: HybridTree(1.0).simulate([1.0, math.nan], np.random.default_rng(1), 1), r"value\[1\]"),
        (lambda: HybridTree(1.0, steps=3).tree(2), "epoch"),
        (lambda: HybridTree(1.0, steps=3).variances(4), "steps"),
        (lambda: HybridTree(1.0).worst_case_neighbours(), "steps"),
    ],
)
def test_bad_arguments_are_refused(call: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()


def test_large_scales_overflow_to_infinite_variances() -> None:
    assert HybridTree(1e200).variances(3).tolist() == [math.inf] * 3
    np.testing.assert_array_equal(
        HybridTree(1e200).unit_variances_between(0, 9), HybridTree(1.0).variances_between(0, 9)
    )


def test_a_cut_tree_has_the_law_of_a_whole_one() -> None:
    """Blocks that end after the last step change no answer, so the last epoch is simulated with fewer steps."""
    whole, cut = TreeAggregation(8, 2.0).variances(), TreeAggregation(5, 2.0).variances()
    np.testing.assert_array_equal(whole[:5], cut)
