"""Tests of losses in blocks: their sums are those of the whole array, and bad losses are found with their place."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.learners import FedSVT, LazyExperts, LimitedUpdates, MultiplicativeWeights, NoisyHedge
from hockeystick.learners.experts import batches as module
from hockeystick.learners.experts.batches import column_sums, loss_batches
from hockeystick.learners.experts.expert_losses import batch_sums, checked_losses


def collected(losses: object, rounds: int, experts: int, batch: int, clip: bool = False) -> np.ndarray:
    parts = []
    for found in loss_batches(losses, rounds=rounds, experts=experts, batch=batch, clip=clip):
        parts.append(found.sums.copy())
        start, stop = np.sort(np.random.default_rng(len(parts)).integers(len(found.sums) + 1, size=2))
        for first, last in ((0, len(found.sums)), (start, stop)):
            exact = found.sums[first:last].sum(axis=0, dtype=np.float64)
            np.testing.assert_allclose(found.total(first, last), exact, rtol=1e-5)
            assert found.lost(experts - 1, first, last) == pytest.approx(exact[-1], rel=1e-5)
        assert len(found) == len(found.sums)
        at = np.arange(len(found))[:: max(1, len(found) // 5)]
        np.testing.assert_allclose(found.losses(at, 0), found.sums[at, 0], rtol=1e-6)
        assert found.loss(len(found) - 1, 0) == pytest.approx(float(found.sums[-1, 0]), rel=1e-6)
        played = np.arange(len(found)) % experts
        assert found.played(played) == pytest.approx(found.sums[np.arange(len(found)), played].sum(), rel=1e-5)
    return np.concatenate(parts)


SHAPES: dict[str, st.SearchStrategy[Any]] = dict(
    rounds=st.integers(1, 400),
    experts=st.integers(2, 5),
    batch=st.integers(1, 150),
    dtype=st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.bool_]),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    bytes_=st.sampled_from(
        [(1, 1, 1, 1), (600, 900, 200, 60), (60, 100, 600, 60), (60, 1 << 14, 1 << 12, 1 << 12), (1 << 24,) * 4]
    ),
)


@pytest.mark.statistical
@pytest.mark.parametrize("examples", [15, pytest.param(150, marks=pytest.mark.deep)])
def test_sums_are_those_of_the_whole_array(examples):
    settings(deadline=None, max_examples=examples)(given(**SHAPES)(check_sums))()


def check_sums(rounds, experts, batch, dtype, cuts, bytes_):
    rng = np.random.default_rng(rounds * 1000 + experts)
    losses = rng.random((rounds, experts)).round(0 if np.dtype(dtype).kind in "ib" else 6).astype(dtype)
    if dtype is np.bool_:
        losses = losses.astype(np.int8)
    expected = batch_sums(losses.astype(np.float64), batch)
    blocks = [block for block in np.split(losses, sorted(min(cut, rounds) for cut in cuts))]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("PIECE", "ROOM", "BLOCK", "FEW"), bytes_, strict=True):
            patch.setattr(module, f"_{name}_BYTES", value)
        for given_ in (losses, iter(blocks), blocks, losses.tolist(), np.asfortranarray(losses)):
            found = collected(given_, rounds, experts, batch)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
            if losses.dtype != np.float32:
                np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("few", [1, 100, 1 << 20])
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_caller_may_reuse_a_block(batch, few, monkeypatch):
    monkeypatch.setattr(module, "_FEW_BYTES", few)

    def blocks():
        memory = np.empty((3, 2))
        for i in range(10):
            memory[:] = i / 10
            yield memory

    expected = batch_sums(np.repeat(np.arange(10) / 10, 3)[:, None] * np.ones(2), batch)
    np.testing.assert_allclose(collected(blocks(), 30, 2, batch), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_of_a_few_rounds_are_not_written_anew(dtype):
    """Except for the batch that two blocks share, and for batches with too many rounds."""
    losses = np.random.default_rng(1).random((3001, 400)).astype(dtype)

    def kept(batch):
        parts = list(loss_batches((losses[:2000], losses[2000:]), rounds=3001, experts=400, batch=batch))
        there = [part for part in parts if np.shares_memory(part.rows, losses)]
        assert all(part.each == batch and part.size == 64 // batch for part in there)
        return [len(part) for part in parts], [len(part) for part in there]

    assert kept(3) == ([666, 1, 333, 1], [666, 333])
    assert kept(module._FEW_ROUNDS + 1)[1] == []


def test_single_precision_over_many_rounds_keeps_its_digits():
    losses = np.full((200_000, 2), 0.1, np.float32)
    exact = 200_000 * float(np.float32(0.1))
    assert abs(float(collected(losses, 200_000, 2, 200_000)[0, 0]) - exact) < 0.02
    assert abs(float(column_sums(losses)[1]) - exact) < 0.02
    assert abs(float(losses.sum(axis=0)[0]) - exact) > 1.0  # plainly summed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [1.5, -0.25, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_loss_out_of_range_is_found(dtype, bad, blocks):
    losses = np.full((1000, 3), 0.5, dtype)
    losses[777, 1] = bad
    stream = np.split(losses, 10) if blocks else losses
    with pytest.raises(InvalidArgumentError) as error:
        collected(stream, 1000, 3, 7)
    assert "loss" in error.value.argument
    if np.isfinite(bad):
        assert error.value.argument == "losses[777, 1]"
    if not np.isnan(bad):
        clipped = collected(np.split(losses, 10) if blocks else losses, 1000, 3, 1, clip=True)
        assert clipped[777, 1] == np.clip(bad, 0.0, 1.0)


@pytest.mark.parametrize("batch", [1, 3, 64, 65, 300])
@pytest.mark.parametrize("room", [1, 200, 1 << 24])
@pytest.mark.parametrize("few", [1, 1 << 20])
def test_blocks_of_several_kinds_of_numbers(batch, room, few, monkeypatch):
    """Sums of what was there before go out before the precision changes: nothing is lost, nothing rounded to it."""
    monkeypatch.setattr(module, "_ROOM_BYTES", room)
    monkeypatch.setattr(module, "_FEW_BYTES", few)
    rng, kinds = np.random.default_rng(1), [np.float64, np.float32, np.float16, np.int8, np.float32, np.float64]
    blocks = [rng.integers(0, 2, (90, 2)).astype(kind) for kind in kinds]
    blocks[0] /= 3.0
    blocks[-1] /= 3.0
    exact = batch_sums(np.concatenate([block.astype(np.float64) for block in blocks]), batch)
    found = [part.sums.copy() for part in loss_batches(blocks, rounds=540, experts=2, batch=batch)]
    np.testing.assert_allclose(np.concatenate(found), exact, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("batch", "few"), [(1, 1), (1, 1 << 20), (3, 1), (3, 1 << 20), (100, 1), (300, 1)])
def test_one_bad_loss_among_many_is_found_wherever_it_is(batch, few, dtype, monkeypatch):
    """Blocks of 50 rounds: every place in them and every kind of remainder; sums alone would hide these losses."""
    monkeypatch.setattr(module, "_FEW_BYTES", few)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 50 * 2 * np.dtype(dtype).itemsize)
    losses = np.zeros((211, 2), dtype)
    above, below = np.nextafter(dtype(1.0), dtype(2.0)), -np.nextafter(dtype(0.0), dtype(1.0))
    for row in range(211):
        for bad in (above, below):
            losses[row, row % 2] = bad
            with pytest.raises(InvalidArgumentError) as error:
                collected(losses, 211, 2, min(batch, 211))
            assert error.value.argument == f"losses[{row}, {row % 2}]"
        losses[row] = 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_losses_without_a_finite_sum_are_refused_without_a_warning(batch, dtype):
    losses = np.full((200, 2), 0.5, dtype)
    losses[:2, 0] = np.inf, -np.inf
    losses[:2, 1] = np.finfo(dtype).max
    with pytest.raises(InvalidArgumentError, match="losses"):
        collected(losses, 200, 2, batch)


def test_negative_zero_is_a_loss_of_nothing():
    losses = np.full((10, 2), -0.0, np.float32)
    np.testing.assert_array_equal(collected(losses, 10, 2, 1), 0.0)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (np.zeros((9, 2)), "shape"),
        (np.zeros((10, 3)), "shape"),
        (np.zeros(10), "shape"),
        ([np.zeros((5, 2)), np.zeros((4, 2))], "end before round 10"),
        ([np.zeros((5, 2)), np.zeros((6, 2))], "more than 10 rows"),
        ([np.zeros((5, 2)), np.zeros((5, 3))], "another shape"),
        ([["a"] * 2] * 10, "not an array of real numbers"),
        ([[0.0, 0.0], [0.0]], "ragged"),
        (3.0, "neither an array nor an iterable"),
        (None, "neither an array nor an iterable"),
    ],
)
def test_bad_losses_are_refused(losses, words):
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        collected(losses, 10, 2, 3)


def test_bools_are_losses_of_one_and_zero() -> None:
    """What ``predictions != labels`` gives, at every door through which losses in [0, 1] come."""
    wrong = np.random.default_rng(1).random((8, 3)) < 0.5
    shared: dict[str, Any] = {"rounds": 8, "experts": 3}
    lazy = LazyExperts(**shared, learning_rate=0.1, fake_switch_probability=0.1)
    for losses in (wrong, wrong.tolist(), [wrong[:5], wrong[5:]]):
        ran, same = (lazy.run(each, np.random.default_rng(2)) for each in (losses, wrong.astype(float)))
        np.testing.assert_array_equal(ran.actions, same.actions)
        assert (ran.loss, ran.regret, ran.best_expert) == (same.loss, same.regret, same.best_expert)
    for learner in (MultiplicativeWeights(**shared), LimitedUpdates(**shared, learning_rate=0.5)):
        assert learner.expected_regret(wrong) == learner.expected_regret(wrong.astype(float))
    clients = np.stack([wrong, ~wrong])
    hedge = NoisyHedge(clients=2, **shared, scale=1.0)
    played, again = (hedge.run(losses, np.random.default_rng(3)) for losses in (clients, clients.astype(float)))
    np.testing.assert_array_equal(played, again)
    svt = FedSVT(
        clients=2, **shared, switches=2, learning_rate=0.5, threshold=1.0, threshold_scale=2.0, query_scale=4.0
    )
    found = [svt.run(losses, server_seed=1) for losses in (clients, clients.astype(float))]
    np.testing.assert_array_equal(found[0].experts, found[1].experts)
    np.testing.assert_array_equal(svt.regret(found[0], clients), svt.regret(found[1], clients.astype(float)))


def test_infinite_losses_are_clipped_and_nan_is_refused_by_its_place() -> None:
    losses = np.array([[np.inf, 0.5], [0.25, -np.inf]])
    clipped = checked_losses("losses", losses, rounds=2, experts=2, clip=True)
    np.testing.assert_array_equal(clipped, [[1.0, 0.5], [0.25, 0.0]])
    hedge = NoisyHedge(clients=1, rounds=2, experts=2, scale=1.0, clip=True)
    hedge.run(losses[None], np.random.default_rng(1))
    losses[1, 0] = np.nan
    for clip in (False, True):
        blocks = loss_batches([np.zeros((5, 2)), losses], rounds=7, experts=2, batch=3, clip=clip)
        with pytest.raises(
            InvalidDataError, match=r"losses\[6, 0\]=<float64>: is not a number" if clip else r"\[5, 0\]"
        ):
            list(blocks)


@pytest.mark.parametrize("batch", [1, 2, 5, 29])
@pytest.mark.parametrize("cells", [1, 9, 1000])
def test_exact_sums_do_not_depend_on_the_pieces(monkeypatch: pytest.MonkeyPatch, batch: int, cells: int) -> None:
    """Batches that begin and end within pieces and blocks, and one that spans them all."""
    monkeypatch.setattr(module, "_PART_CELLS", cells)
    losses = np.random.default_rng(batch).random((29, 3))
    for stream in (losses, losses.tolist(), iter(np.split(losses, [1, 2, 10, 11]))):
        found = list(module.exact_batch_sums(stream, rounds=29, experts=3, batch=batch))
        np.testing.assert_allclose(np.concatenate(found), batch_sums(losses, batch), rtol=1e-13)
    spoilt = losses.copy()
    spoilt[28, 2] = -1.0
    with pytest.raises(InvalidArgumentError, match=r"losses\[28, 2\]"):
        list(module.exact_batch_sums(spoilt, rounds=29, experts=3, batch=batch))
