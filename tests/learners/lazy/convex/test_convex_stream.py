"""Tests of the lazy learner of convex losses as a stream and as a release: law, checkpoints, cost, refusals."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import hockey_stick
from scipy import stats

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, Ledger, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.learners import ConvexStream, LazyConvex
from hockeystick.learners.common import stream_checkpoint
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ClosedFormSampler,
    ConvexLosses,
    ExactSampler,
    LangevinSampler,
    LinearLosses,
    ProximalSampler,
    QuadraticLosses,
    RegressionLosses,
    TangentSampler,
)
from hockeystick.learners.lazy.convex.convex_stream import release, resume, start
from hockeystick.learners.lazy.convex.losses.convex_losses import LIPSCHITZ_SLACK
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum, LossUnits
from hockeystick.learners.lazy.convex.stream_setting import StreamSetting
from hockeystick.mechanisms import (
    LazyWalk,
    ReleaseNoise,
    SimulationNoise,
    StreamHaltedError,
)

FALSE_ALARM = 1e-6


def _learner(rounds: int = 6, batch: int = 2, **more: Any) -> LazyConvex:
    given: dict[str, Any] = {
        "domain": Box.cube(1, 1.0),
        "lipschitz": 1.0,
        "inverse_temperature": 0.6,
        "regularisation": 0.5,
        "fake_switch_probability": 0.3,
        "sampler": ExactSampler(),
    }
    return LazyConvex(rounds=rounds, batch=batch, **(given | more))


def _linear(rounds: int, dimension: int = 1, seed: int = 3) -> LinearLosses:
    return LinearLosses(np.random.default_rng(seed).uniform(-1.0, 1.0, (rounds, dimension)) / dimension)


def _one(losses: LinearLosses | QuadraticLosses | RegressionLosses, t: int) -> ConvexLosses:
    """Round t alone."""
    if isinstance(losses, LinearLosses):
        return LinearLosses(losses.gradients[t : t + 1])
    if isinstance(losses, QuadraticLosses):
        return QuadraticLosses(losses.centres[t : t + 1], losses.curvature)
    return RegressionLosses(losses.features[t : t + 1], losses.targets[t : t + 1], losses.link)


def _played(stream: ConvexStream, losses: Any, rounds: range) -> FloatArray:
    points = []
    for t in rounds:
        points.append(stream.predict())
        stream.update(_one(losses, t))
    return np.array(points)


# --- the law ---------------------------------------------------------------------------------------------------------


def _check_law(learner: LazyConvex, losses: Any, runs: int, play: Callable[[SimulationNoise], tuple[Any, Any]]) -> None:
    """Points and decisions of the stream against those of ``simulate``, which has far more runs."""
    reference = learner.simulate(losses, np.random.default_rng(5), 50_000)
    source = SimulationNoise(11)
    found = [play(source) for _ in range(runs)]
    actions = np.array([points for points, _ in found])[:, :: learner.batch]
    tests = actions.shape[1] * actions.shape[2] + 1
    for s in range(actions.shape[1]):
        for i in range(actions.shape[2]):
            pair = actions[:, s, i], reference.actions[:, s, i]
            assert stats.ks_2samp(*pair).pvalue >= FALSE_ALARM / tests
    powers = 2 ** np.arange(learner.batches - 1)
    patterns = [np.array([bits for _, bits in found]), reference.switched]
    counts = np.array([np.bincount(bits[:, 1:] @ powers, minlength=2 ** len(powers)) for bits in patterns])
    seen = counts.sum(axis=0) > 0
    assert stats.chi2_contingency(counts[:, seen]).pvalue >= FALSE_ALARM / tests


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [None, 2])
def test_release_has_the_law_of_simulate(budget: int | None) -> None:
    learner, losses = _learner(draw_budget=budget), _linear(6)

    def play(source: SimulationNoise) -> tuple[Any, Any]:
        found = release(learner, losses, noise=source)
        return found.actions, found.switched

    _check_law(learner, losses, 200, play)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("domain", "sampler", "quadratic"),
    [
        (Box((-1.0, -0.5), (1.0, 2.0)), ExactSampler(), True),  # linear losses: in one dimension, above
        pytest.param(Ball(2, 1.5), ExactSampler(), False, marks=pytest.mark.deep),
        pytest.param(Ball(2, 1.5), ExactSampler(), True, marks=pytest.mark.deep),
        (Box((-1.0, -0.5), (1.0, 2.0)), ClosedFormSampler(), True),
    ],
)
def test_release_has_the_law_of_simulate_closely(domain: Any, sampler: Any, quadratic: bool) -> None:
    rng = np.random.default_rng(1)
    losses: ConvexLosses = _linear(7, 2)
    if quadratic:
        losses = QuadraticLosses(rng.uniform(-0.5, 0.5, (7, 2)), 0.3)
    learner = _learner(7, 2, domain=domain, sampler=sampler, normaliser=0.8)

    def play(source: SimulationNoise) -> tuple[Any, Any]:
        found = release(learner, losses, noise=source)
        return found.actions, found.switched

    _check_law(learner, losses, 600, play)


@pytest.mark.statistical
def test_a_resumed_stream_has_the_law_of_simulate() -> None:
    """Saved and taken up again in the middle of a batch and at its end."""
    learner, losses = _learner(6, 2, sampler=ClosedFormSampler()), _linear(6)

    def play(source: SimulationNoise) -> tuple[Any, Any]:
        stream, points, switched = start(learner, noise=source), [], []
        for t in range(6):
            if t in (3, 4):
                stream = resume(learner, json.loads(json.dumps(stream.checkpoint())), noise=source)
            points.append(stream.predict())
            switched += [stream.switched] if t % 2 == 0 else []
            stream.update(_one(losses, t))
        return points, switched

    _check_law(learner, losses, 200, play)


@pytest.mark.parametrize(
    "sampler", [ExactSampler(), ClosedFormSampler(), TangentSampler(), ProximalSampler(1e-3, step=0.5)]
)
def test_rounds_one_by_one_are_the_release(sampler: Any) -> None:
    """With the same noise, also where it is saved after every round."""
    learner, losses = _learner(7, 3, sampler=sampler, domain=Box.cube(2, 1.0)), _linear(7, 2)
    whole = release(learner, losses, noise=SimulationNoise(4))
    assert whole.actions.shape == (7, 2) and whole.switched.shape == (3,) and whole.simulated
    assert whole.switches == whole.switched.sum()
    stream = start(learner, noise=SimulationNoise(4))
    assert (_played(stream, losses, range(7)) == whole.actions).all() and stream.round == 7 and stream.simulated
    source, points = SimulationNoise(4), []
    stream = start(learner, noise=source)
    for t in range(7):
        stream = resume(learner, json.loads(json.dumps(stream.checkpoint())), noise=source)
        assert stream.round == t and (stream.predict() == stream.predict()).all()
        points.append(stream.predict())
        stream.update(_one(losses, t))
    assert (np.array(points) == whole.actions).all()
    for over in (stream.predict, lambda: stream.update(_one(losses, 0))):
        with pytest.raises(StreamHaltedError, match="7 rounds are over"):
            over()
    finished = resume(learner, stream.checkpoint(), noise=source)
    assert finished.round == 7
    with pytest.raises(StreamHaltedError):
        finished.predict()


def test_a_single_batch_never_reads_losses() -> None:
    learner, losses = _learner(5, 5), _linear(5)
    found = release(learner, losses, noise=SimulationNoise(0))
    assert (found.actions == found.actions[0]).all() and found.switches == 0
    stream = start(learner, noise=SimulationNoise(0))
    _played(stream, losses, range(3))
    again = resume(learner, stream.checkpoint(), noise=SimulationNoise(1))
    assert (_played(again, losses, range(3, 5)) == found.actions[3:]).all()


def test_draw_budget_lasts_across_a_checkpoint() -> None:
    learner, losses = _learner(12, 1, draw_budget=3, fake_switch_probability=0.9), _linear(12)
    source = SimulationNoise(2)
    stream = start(learner, noise=source)
    switches = 0
    for t in range(12):
        switches += stream.switched
        stream.update(_one(losses, t))
        stream = resume(learner, stream.checkpoint(), noise=source)
    assert 0 < switches <= 3
    assert stream.checkpoint()["walk"]["draws_left"] == 0


# --- losses are counted ----------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_memory_does_not_grow_with_the_rounds() -> None:
    learner = _learner(10_000, 100, domain=Box.cube(3, 1.0), fake_switch_probability=0.02, inverse_temperature=0.01)
    stream, sizes = start(learner, noise=SimulationNoise(1)), []
    shared = LinearLosses([[0.5, -0.3, 0.1]])
    for t in range(10_000):
        stream.update(shared)
        if t + 1 in (110, 9_990):
            state = [
                getattr(part, name) for part in (stream._read.total, stream._read.batch) for name in part.__slots__
            ]
            sizes.append((len(json.dumps(stream.checkpoint())), sum(map(sys.getsizeof, state))))
    assert sizes[1][0] - sizes[0][0] < 30  # digits of the sums
    assert sizes[1][1] - sizes[0][1] < 300  # one spilled list of three numbers


def test_sums_are_exact_in_any_order_and_any_pieces() -> None:
    """One person's loss moves the sum by that loss, rounded to a unit, and by nothing else."""
    units = LossUnits.of(Box.cube(3, 1.0), 1.0)
    losses, curved = _linear(9000, 3), QuadraticLosses(np.random.default_rng(0).uniform(-0.2, 0.2, (50, 3)), 0.4)
    exact = [sum(round(Fraction(g) / units.slope) for g in column) for column in losses.gradients.T.tolist()]
    whole, pieces, backwards = (LossSum(3, units) for _ in range(3))
    whole.read(losses, 0, 9000)
    for first in range(0, 9000, 700):
        part = LossSum(3, units)
        part.read(losses, first, min(9000, first + 700))
        pieces.add(part)
    for t in range(8999, -1, -1):
        backwards.read(losses, t, t + 1)
    assert whole.slope == pieces.slope == backwards.slope == exact and whole.curvature == 0
    whole.read(curved, 0, 50)
    other = LossSum(3, units)
    for t in range(50):
        other.read(curved, t, t + 1)
    other.add(pieces)
    assert other.slope == whole.slope and other.curvature == whole.curvature
    assert whole.form()[1] == pytest.approx(20.0)
    back = LossSum.from_json(json.loads(json.dumps(whole.to_json())), 3, units)
    assert back.slope == whole.slope and back.curvature == whole.curvature and back.counted
    points = np.random.default_rng(1).uniform(-1, 1, (2, 3))
    unit = Fraction(1, 2**60)
    at = [whole.value([int(Fraction(x) / unit) for x in point], unit) for point in points.tolist()]
    gap = losses.total(points, 0, 9000) + curved.total(points, 0, 50)
    assert float(at[0] - at[1]) == pytest.approx(float(gap[0] - gap[1]), rel=1e-9)
    apart = np.diff(whole.losses().total(points, 0, 1))  # values count up to a constant
    assert apart == pytest.approx([float(at[1] - at[0])], rel=1e-9)


def test_sums_do_not_overflow() -> None:
    units = LossUnits.of(Box.cube(1, 1.0), 1.0)
    total, twice = LossSum(1, units), LossSum(1, units)
    total.read(LinearLosses(np.ones((40_000, 1))), 0, 40_000)
    assert total.slope == [40_000 * round(1 / units.slope)] and total.slope[0] > 2**63
    for _ in range(2):
        twice.add(total)
    assert twice.slope == [2 * total.slope[0]]


def test_units_round_a_loss_by_less_than_the_slack() -> None:
    """Each loss moves by a function whose Lipschitz constant is at most a tenth of what costs are charged with."""
    for domain in (Box.cube(40, 2.0), Ball(3, 0.1), Box((5.0, -1.0), (6.0, 1.0))):
        units = LossUnits.of(domain, 3.0)
        rounding = math.sqrt(domain.dimension) * units.slope + units.curvature * Fraction(domain.largest_norm)
        assert rounding <= 0.1 * LIPSCHITZ_SLACK * 3.0
    with pytest.raises(InvalidArgumentError, match="far from the origin"):
        LossUnits.of(Box((1e6,), (1e6 + 1.0,)), 1.0)
    with pytest.raises(InvalidArgumentError, match="range of floats"):
        LossUnits.of(Box.cube(1, 1.0), 1e-290)


def test_coins_see_one_batch_exactly() -> None:
    """The log-ratio is a rational number, within the declared sensitivity of that with another loss in the batch."""
    learner, unit = _learner(2, 1), Fraction(1, 2**100)
    beta, values = Fraction(learner.inverse_temperature), []
    for gradient in (1.0, -1.0):
        batch = LossSum(1, LossUnits.of(learner.domain, 1.0))
        batch.read(LinearLosses([[gradient]]), 0, 1)
        values.append(beta * (batch.value([2**100], unit) - batch.value([-(2**100)], unit)))
    assert values[0] - values[1] == 4 * beta <= learner.switch.sensitivity  # attained: the bound that holds for sure


def test_each_coin_reads_its_own_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two streams that differ in round 0: their coins agree from the second boundary on, at any one point, exactly."""
    learner, seen = _learner(8, 2), list[Fraction]()
    unit = StreamSetting.of(learner, SimulationNoise(0)).unit
    at = [(round(Fraction(x) / unit),) for x in (0.25, -0.5)]
    step = LazyWalk.step

    def recorded(walk: LazyWalk[Any], log_ratio: Callable[[Any], Fraction], sample: Callable[[Any], Any]) -> Any:
        seen.append(log_ratio(at[0]) - log_ratio(at[1]))
        return step(walk, log_ratio, sample)

    monkeypatch.setattr(LazyWalk, "step", recorded)
    losses, ratios = _linear(8), []
    for first in (1.0, -1.0):
        stream = LinearLosses(np.concatenate([[[first]], losses.gradients[1:]]))
        seen.clear()
        release(learner, stream, noise=SimulationNoise(0))
        ratios.append(list(seen))
        x, y = np.array([[0.25]]), np.array([[-0.5]])
        for s, found in enumerate(seen):
            assert float(found) == pytest.approx(float(learner.weights.log_ratio(stream, 2 * s, 2 * s + 2, x, y)[0]))
    assert len(ratios[0]) == 3 and ratios[0][0] != ratios[1][0] and ratios[0][1:] == ratios[1][1:]


def test_kept_losses_grow_and_are_summed() -> None:
    rng = np.random.default_rng(6)
    features, labels = rng.uniform(-0.5, 0.5, (8, 2)), np.where(rng.random(8) < 0.5, -1.0, 1.0)
    losses = RegressionLosses(features, labels)
    learner = _learner(8, 2, domain=Box.cube(2, 1.0), sampler=TangentSampler())
    whole = release(learner, losses, noise=SimulationNoise(3))
    source, sizes = SimulationNoise(3), []
    stream, points = start(learner, noise=source), []
    for t in range(8):
        points.append(stream.predict())
        stream.update(_one(losses, t))
        saved = json.loads(json.dumps(stream.checkpoint()))
        sizes.append(len(json.dumps(saved)))
        stream = resume(learner, saved, noise=source)
    assert np.array(points) == pytest.approx(whole.actions, abs=1e-9)
    assert sizes[-1] - sizes[0] > 8 * 30
    both = LossSum(2, LossUnits.of(learner.domain, 1.0))
    linear, own = _linear(3, 2), _Own(2)
    for one in (losses, linear, own):
        both.read(one, 0, one.rounds)
    at, joined = rng.uniform(-1, 1, (5, 2)), both.losses()
    assert joined.total(at, 0, 1) == pytest.approx(sum(one.total(at, 0, one.rounds) for one in (losses, linear, own)))
    gradient = sum(one.gradient(at, 0, one.rounds) for one in (losses, linear, own))
    assert joined.gradient(at, 0, 1) == pytest.approx(gradient)
    assert not joined.total(at, 0, 0).any() and joined.dimension == 2
    constants = [one.lipschitz(learner.domain).sum() for one in (losses, linear, own)]
    assert max(constants) <= joined.lipschitz(learner.domain)[0] <= sum(constants)
    mixed = start(_learner(3, 1, domain=Box.cube(2, 1.0), sampler=TangentSampler()), noise=SimulationNoise(0))
    mixed.update(_Own(2))
    mixed.update(_one(losses, 0))
    with pytest.raises(InvalidArgumentError, match=r"losses=<_Own>: can.t be written to JSON"):
        mixed.checkpoint()


@frozen
class _Own:
    """A user-defined family: one loss ||x||/2."""

    dimension: int
    rounds: int = 1

    def lipschitz(self, domain: Any) -> FloatArray:
        return np.array([0.5])

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        return np.asarray((stop - start) * 0.5 * np.linalg.norm(points, axis=1))

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        norm = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray((stop - start) * 0.5 * points / np.maximum(norm, 1e-300))


# --- what it costs ---------------------------------------------------------------------------------------------------


def test_the_whole_plan_is_charged_once_before_anything_is_drawn() -> None:
    learner, losses = _learner(), _linear(6)
    event = learner.graph().guarantee().event
    plan = AccountantGraph(Adjacency.REPLACE_ONE).source("people").release("points", event, reads=["people"])
    ledger, source = Ledger(plan), SimulationNoise(1)
    release(learner, losses, ledger=ledger, name="points", noise=source)
    assert ledger.recorded("points") == 1 and ledger.guarantee().assumptions != plan.guarantee().assumptions
    assert ledger.guarantee().epsilon(1e-3).upper == pytest.approx(learner.graph().guarantee().epsilon(1e-3).upper)
    before = source.rng.bit_generator.state
    for refused in (
        lambda: start(learner, ledger=ledger, name="points", noise=source),  # it is recorded already
        lambda: start(learner, name="points", noise=source),
        lambda: release(learner, LinearLosses(np.ones((6, 1)) * 2), ledger=ledger, name="points", noise=source),
    ):
        with pytest.raises(Exception, match=r"points|ledger|lipschitz"):
            refused()
    assert source.rng.bit_generator.state == before and ledger.recorded("points") == 1


CELLS = 12


def _cell_law(learner: LazyConvex, losses: ConvexLosses) -> FloatArray:
    """P[(cell of x1, cell of y1, switched, cell of x2)] for two rounds, by quadrature within cells (no clipping)."""
    fine = 12
    x = (np.arange(CELLS * fine) + 0.5) * 2.0 / (CELLS * fine) - 1.0
    weights = []
    for batch in (0, 1):
        w = np.exp(-learner.measure(losses, batch).potential(x[:, None]))
        weights.append(w / w.sum())
    points = x[:, None]
    keep = np.empty((x.size, x.size))
    for j in range(x.size):
        keep[:, j] = np.exp(learner.log_keep(losses, 1, points, np.broadcast_to(points[j], points.shape)))
    joint = weights[0][:, None] * weights[0][None, :]
    kept = (joint * keep).reshape(CELLS, fine, CELLS, fine).sum(axis=(1, 3))
    moved = (joint * (1.0 - keep)).reshape(CELLS, fine, CELLS, fine).sum(axis=(1, 3))
    law = np.zeros((CELLS, CELLS, 2, CELLS))
    for cell in range(CELLS):
        law[cell, :, 0, cell] = kept[cell]
    law[:, :, 1, :] = moved[:, :, None] * weights[1].reshape(CELLS, fine).sum(axis=1)
    return law


@pytest.mark.statistical
def test_enumerated_release_is_below_its_certificate_and_is_what_is_drawn() -> None:
    """All states of two rounds on a coarse grid: hockey sticks in both directions, and the frequencies of releases."""
    learner = _learner(2, 1, inverse_temperature=0.8, fake_switch_probability=0.2, shadow_probability=0.0)
    pair = learner.worst_case_neighbours()
    laws = [_cell_law(learner, losses) for losses in pair]
    guarantee = learner.graph().guarantee()
    for epsilon in np.linspace(0.0, 2.5, 11):
        bound = guarantee.delta(float(epsilon)).upper
        for p, q in (laws, laws[::-1]):
            assert hockey_stick(p, q, epsilon) <= bound * (1 + 1e-9) + 1e-12
    assert np.maximum(0.0, laws[0] - laws[1]).sum() > 0.3 * guarantee.delta(0.0).upper
    source, runs = SimulationNoise(9), 200
    for losses, law in zip(pair, laws, strict=True):
        counts = np.zeros((3, 2, 3))
        for _ in range(runs):
            found = release(learner, losses, noise=source)
            first, second = (min(2, int((x + 1.0) * 1.5)) for x in found.actions[:, 0])
            counts[first, int(found.switched[1]), second] += 1
        coarse = law.sum(axis=1).reshape(3, CELLS // 3, 2, 3, CELLS // 3).sum(axis=(1, 4))
        possible = coarse > 1e-9
        assert not counts[~possible].any()
        assert stats.chisquare(counts[possible], runs * coarse[possible] / coarse.sum()).pvalue >= FALSE_ALARM


@frozen
class _Released:
    """(x1, x2, switched) of releases of two rounds. A mutant reads losses that are steeper than declared."""

    learner: LazyConvex
    steepness: float = 1.0

    def simulate(self, losses: LinearLosses, rng: np.random.Generator, runs: int) -> FloatArray:
        source, found = SimulationNoise(rng), np.empty((runs, 3))
        read = LinearLosses(self.steepness * losses.gradients)
        for r in range(runs):
            stream = start(self.learner, noise=source)
            found[r, 0] = stream.predict()[0]
            stream._take(read, 0, 1)
            found[r, 1:] = stream.predict()[0], stream.switched
        return found


@pytest.mark.deep  # in CI releases are compared with simulations, which an audit of the learner passes
def test_audit_passes_the_release_and_refutes_a_mutant() -> None:
    """False alarm 1e-6. The mutant's draws are at the ends of the line: 800 samples refute it in every run."""
    learner = _learner(2, 1, inverse_temperature=0.1, regularisation=2.0, fake_switch_probability=0.5)
    claim = Claim(learner.graph().guarantee().epsilon(1e-3).upper, 1e-3)
    pair = learner.worst_case_neighbours()
    for steepness, refuted in ((1.0, False), (200.0, True)):
        target = _Released(learner, steepness)
        found = audit(target, claim=claim, neighbours=pair, samples=800, rng=1, confidence=1 - FALSE_ALARM)
        assert found.refuted is refuted


# --- checkpoints -----------------------------------------------------------------------------------------------------


def _saved(learner: LazyConvex | None = None, rounds: int = 3) -> dict[str, Any]:
    learner = _learner() if learner is None else learner
    stream = start(learner, noise=SimulationNoise(8))
    _played(stream, _linear(learner.rounds, learner.domain.dimension), range(rounds))
    found: dict[str, Any] = json.loads(json.dumps(stream.checkpoint()))
    return found


def _resealed(saved: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint that was changed and given a new digest."""
    body = {key: value for key, value in saved.items() if key != "digest"}
    return body | {"digest": stream_checkpoint._digest(body)}


CHANGES: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("round", lambda saved: saved["read"].update(round=4)),
    ("bool", lambda saved: saved["read"].update(round=True)),
    ("negative", lambda saved: saved["read"].update(round=-1)),
    ("late", lambda saved: saved["read"].update(round=99)),
    ("switched", lambda saved: saved["walk"].update(switched=1)),
    ("steps", lambda saved: saved["walk"].update(steps_left=7)),
    ("no steps", lambda saved: saved["walk"].update(steps_left=None)),
    ("draws", lambda saved: saved["walk"].update(draws_left=7)),
    ("no shadow", lambda saved: saved["walk"].update(shadow=[])),
    ("far", lambda saved: saved["walk"].update(action=["9" * 60])),
    ("words", lambda saved: saved["walk"].update(action=["here"])),
    ("two", lambda saved: saved["walk"].update(action=["1", "2"])),
    ("no walk", lambda saved: saved.pop("walk")),
    ("slope", lambda saved: saved["read"]["total"].update(slope=["1", "2"])),
    ("curvature", lambda saved: saved["read"]["batch"].update(curvature="-3")),
    ("kept", lambda saved: saved["read"]["batch"].update(kept=[["logistic", [[1.0]], [1.0]]])),
    ("wide", lambda saved: saved["read"]["batch"].update(kept=[["logistic", [[1.0, 2.0]], [1.0]]])),
    ("bad", lambda saved: saved["read"]["batch"].update(kept=[["cubic", [[1.0]], [1.0]]])),
]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
def test_changed_checkpoints_are_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    saved, learner = _saved(), _learner()
    assert resume(learner, saved, noise=SimulationNoise(0)).round == 3
    change(saved)
    with pytest.raises(InvalidArgumentError, match="digest does not match") as caught:
        resume(learner, saved, noise=SimulationNoise(0))
    assert "slope" not in str(caught.value)  # an error does not show what is private
    if change is not CHANGES[0][1]:  # two rounds more or less in the same batch can't be told from the sums
        with pytest.raises(InvalidArgumentError, match=r"checkpoint|state|shadow|steps_left|draws_left"):
            resume(learner, _resealed(saved), noise=SimulationNoise(0))


def test_checkpoints_of_something_else_are_refused() -> None:
    saved, learner = _saved(), _learner()
    for bad, match in (
        (None, "is not a checkpoint"),
        ({}, "is not a checkpoint"),
        (saved | {"format": "another"}, "is not a checkpoint"),
        (saved | {"version": 2}, "another version"),
        (saved | {"extra": 1}, "digest"),
        (saved | {"extra": {1, 2}}, "not a JSON value"),
        (saved | {"extra": math.nan}, "not a JSON value"),
        (_resealed(saved | {"simulated": False}), "written with secure noise"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            resume(learner, bad, noise=SimulationNoise(0))  # type: ignore[arg-type]
    for other in (
        evolve(learner, rounds=8),
        evolve(learner, inverse_temperature=math.nextafter(0.6, 1.0)),
        evolve(learner, domain=Ball(1, 1.0)),
        evolve(learner, sampler=ClosedFormSampler()),
    ):
        with pytest.raises(InvalidArgumentError, match="other parameters"):
            resume(other, saved, noise=SimulationNoise(0))


def test_streams_are_neither_copied_nor_pickled_and_hold_no_generator() -> None:
    learner = _learner()
    stream = start(learner, noise=SimulationNoise(8))
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cost covers one run"):
            refused(stream)
    first = json.dumps(stream.checkpoint())
    stream._walk._noise.rng.random(100)  # type: ignore[attr-defined]
    assert json.dumps(stream.checkpoint()) == first


# --- secure noise, and refusals --------------------------------------------------------------------------------------


def test_secure_noise_publishes() -> None:
    for domain in (Box.cube(2, 1.0), Ball(2, 1.0)):
        learner, losses = _learner(6, 2, domain=domain), _linear(6, 2)
        found = release(learner, losses)
        assert not found.simulated and found.actions.shape == (6, 2) and domain.contains(found.actions).all()
        assert (release(learner, losses, noise=ReleaseNoise()).actions != found.actions).any()
        stream = start(learner)
        _played(stream, losses, range(3))
        saved = json.loads(json.dumps(stream.checkpoint()))
        with pytest.warns(UserWarning, match="without a ledger"):
            assert saved["simulated"] is False and resume(learner, saved).round == 3
        with pytest.raises(InvalidArgumentError, match="written with secure noise"):
            resume(learner, saved, noise=SimulationNoise(0))
        with pytest.raises(InvalidArgumentError, match="written with simulated noise"):
            resume(_learner(), _saved())


def test_floating_point_is_never_published() -> None:
    for sampler in (ClosedFormSampler(), TangentSampler(), ProximalSampler(1e-6)):
        with pytest.raises(InvalidArgumentError, match=r"not fit for release.*ExactSampler\(\)"):
            start(_learner(sampler=sampler))
    rng = np.random.default_rng(0)
    losses = RegressionLosses(rng.uniform(-1, 1, (6, 1)), np.ones(6))
    with pytest.raises(InvalidArgumentError, match="from which ExactSampler can.t draw"):
        release(_learner(), losses, noise=SimulationNoise(0))
    stream = start(_learner(), noise=SimulationNoise(0))
    with pytest.raises(InvalidArgumentError, match="from which ExactSampler can.t draw"):
        stream.update(_one(losses, 0))
    assert stream.round == 0


def test_arrays_are_gradients_of_linear_losses() -> None:
    learner, losses = _learner(7, 3, domain=Ball(2, 1.0)), _linear(7, 2)
    whole = release(learner, losses, noise=SimulationNoise(4))
    for same in (losses.gradients, losses.gradients.tolist()):
        assert (release(learner, same, noise=SimulationNoise(4)).actions == whole.actions).all()
    stream = start(learner, noise=SimulationNoise(4))
    for t in range(7):
        assert (stream.predict() == whole.actions[t]).all()
        stream.update(losses.gradients[t] if t % 2 else losses.gradients[t : t + 1])
    one, other = learner.run(losses, np.random.default_rng(1)), learner.run(losses.gradients, np.random.default_rng(1))
    assert (one.actions == other.actions).all() and one.regret == other.regret
    box = _learner(7, 3, domain=Box.cube(2, 1.0))
    assert box.expected_regret(losses.gradients) == box.expected_regret(losses)
    with pytest.raises(InvalidArgumentError, match="not linear"):
        box.expected_regret(QuadraticLosses(np.zeros((7, 2)), 0.1))  # type: ignore[arg-type]


def test_functions_are_read_as_tangents_at_the_point_played() -> None:
    """They depend on earlier draws, so only a learner of adaptive losses takes them."""
    learner, centres = _learner(7, 3, domain=Ball(2, 1.0), adversary="adaptive"), _linear(7, 2).gradients
    asked: list[FloatArray] = []

    def gradient(centre: FloatArray) -> Callable[[FloatArray], FloatArray]:
        return lambda x: asked.append(x) or 0.4 * (x - centre)  # type: ignore[func-returns-value]

    found = release(learner, [gradient(c) for c in centres], noise=SimulationNoise(4))
    assert (np.array(asked) == found.actions).all() and len(asked) == 7
    same = release(learner, LinearLosses(0.4 * (found.actions - centres)), noise=SimulationNoise(4))
    assert (same.actions == found.actions).all()
    stream = start(learner, noise=SimulationNoise(4))
    for bad, match in (
        (lambda x: x[:1], "shape"),
        (lambda x: [math.nan, 0.0], r"loss\(point\)\[0\].*not finite"),
        (lambda x: x + 5.0, "lipschitz"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            stream.update(bad)
    with pytest.raises(ZeroDivisionError):
        stream.update(lambda x: x / (1 // 0))
    assert stream.round == 0
    with pytest.raises(InvalidArgumentError, match="has 3 rounds.*expected 7"):
        release(learner, [gradient(c) for c in centres[:3]], noise=SimulationNoise(4))


def test_bad_arguments_are_refused() -> None:
    source = SimulationNoise(0)
    with pytest.raises(UnsupportedEventError, match="no certificate"):
        start(_learner(sampler=LangevinSampler(steps=3, step=0.1)), noise=source)
    with pytest.raises(InvalidArgumentError, match="too large for exact draws after 6 rounds"):
        start(_learner(inverse_temperature=1e80), noise=source)
    with pytest.raises(InvalidArgumentError, match="finer than the lattice"):
        start(_learner(inverse_temperature=1e80, sampler=ClosedFormSampler()), noise=source)
    with pytest.raises(InvalidArgumentError, match="noise"):
        start(_learner(), noise=3)  # type: ignore[arg-type]
    stream = start(_learner(), noise=source)
    for bad, match in (
        (LinearLosses([[1.1]]), "lipschitz"),
        (LinearLosses([[0.1], [0.1]]), "rounds"),
        (LinearLosses([[0.1, 0.1]]), "dimension"),
        ([1.1], "lipschitz"),
        (np.zeros(2), "dimension"),
        (np.zeros((2, 1)), "rounds"),
        ([math.nan], r"loss\[0\].*not finite"),
        ([True], r"not an array of real numbers.*astype"),
        (0.5, "axes"),
        (lambda x: x, r"loss='a function'.*adversary=\"adaptive\""),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            stream.update(bad)
    assert stream.round == 0
    for rows, match in (
        ([[0.1]] * 5 + [[math.inf]], r"losses\[5, 0\].*not finite"),
        (np.zeros((6, 1), dtype=bool), "astype"),
        (np.zeros(6), "axes"),
        ([lambda x: x] * 6, "adaptive"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            release(_learner(), rows, noise=source)
    with pytest.raises(InvalidArgumentError, match="rounds"):
        release(_learner(), _linear(5), noise=source)
