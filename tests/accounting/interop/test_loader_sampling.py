"""Tests of what is seen of data loaders, with stand-ins for the samplers of PyTorch and Opacus."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hockeystick.accounting import DPSGD, Gaussian, InvalidArgumentError, PoissonSampled, compose, from_opacus
from hockeystick.accounting.interop.loader_sampling import sampling_of

TORCH, OPACUS = "torch.utils.data.sampler", "opacus.utils.uniform_sampler"


def sampler(name: str, module: str = TORCH, **values: Any) -> Any:
    made = type(name, (), {"__module__": module})()
    vars(made).update(values)
    return made


def loader(order: Any, batch: int = 4) -> Any:
    return SimpleNamespace(batch_sampler=sampler("BatchSampler", sampler=order, batch_size=batch))


def drawn(count: int, replacement: bool = False) -> Any:
    return sampler("RandomSampler", data_source=range(20), num_samples=count, replacement=replacement)


POISSON = SimpleNamespace(batch_sampler=sampler("UniformWithReplacementSampler", OPACUS))


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (POISSON, "poisson"),
        (SimpleNamespace(_counted=POISSON), "poisson"),
        (loader(drawn(20)), "shuffle"),
        (loader(sampler("SequentialSampler")), "shuffle"),
        (loader(drawn(4)), "without-replacement"),
    ],
)
def test_known_samplers_are_named_in_the_words_of_a_training(given: Any, seen: str) -> None:
    assert sampling_of(given) == seen == DPSGD(20, 4, 1, clip=1.0, sampling=seen).sampling


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (loader(drawn(20, replacement=True)), "RandomSampler"),
        (loader(drawn(8)), "RandomSampler"),  # a pass of two batches, without the other twelve records
        (loader(sampler("WeightedRandomSampler")), "WeightedRandomSampler"),
        (loader(sampler("RandomSampler", "mine", num_samples=20)), "RandomSampler"),
        (SimpleNamespace(batch_sampler=sampler("DistributedUniformWithReplacementSampler", OPACUS)), "Distributed"),
        (SimpleNamespace(batch_sampler=None), "NoneType"),
        ([1, 2, 3], "NoneType"),
    ],
)
def test_samplers_that_do_not_show_their_law_are_refused_by_name(given: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name}.*does not show how batches are drawn; say which it is"):
        sampling_of(given)


def test_a_history_is_read_as_poisson_samples_unless_the_loader_shows_another_sampling() -> None:
    rows = [(1.0, 0.2, 5)]
    assert from_opacus(rows, loader=POISSON) == from_opacus(rows) == compose((PoissonSampled(0.2, Gaussian(1.0)), 5))
    for other in ("shuffle", "without-replacement"):
        given = loader(drawn(20 if other == "shuffle" else 4))
        with pytest.raises(InvalidArgumentError, match=f"loader='{other}'.*charge.*DPSGD"):
            from_opacus(rows, loader=given)
    with pytest.raises(InvalidArgumentError, match="does not show"):
        from_opacus(rows, loader=[1])
