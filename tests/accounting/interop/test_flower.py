"""Tests of Flower's strategies: the cost of a round by its arithmetic, and the strategies whose noise is wrong."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import (
    Adjacency,
    Gaussian,
    InvalidArgumentError,
    NonPrivate,
    SampledWithoutReplacement,
    compose,
    epsilon,
    from_flower,
)


def named(name: str, module: str = "flwr.server.strategy", **fields: Any) -> Any:
    """An object of a class with a name and a module, and its fields."""
    kind = type(name, (SimpleNamespace,), {"__module__": module})
    return kind(**fields)


def fedavg(name: str = "FedAvg", fraction: float = 0.1, least: int = 2, **more: Any) -> Any:
    return named(name, fraction_fit=fraction, min_fit_clients=least, min_available_clients=2, **more)


def strategy(
    kind: str = "ServerSideFixedClipping", *, noise: float = 1.5, sampled: int = 10, inner: Any = None, **more: Any
) -> Any:
    fields = {"noise_multiplier": noise, "clipping_norm": 0.5, "num_sampled_clients": sampled}
    return named(f"DifferentialPrivacy{kind}", strategy=inner or fedavg(), **{**fields, **more})


@pytest.mark.parametrize("kind", ["ServerSideFixedClipping", "ClientSideFixedClipping"])
def test_a_round_is_a_sample_without_replacement_at_distance_two(kind: str) -> None:
    event = from_flower(strategy(kind), clients=100, equal_weights=True)
    assert event == SampledWithoutReplacement(100, 10, Gaussian(0.75))
    assert event.accepts(Adjacency.REPLACE_ONE) and not event.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    half = SampledWithoutReplacement(100, 10, Gaussian(1.5))  # as if a replaced client moved the sum by C alone
    assert epsilon(compose((event, 5)), 1e-5).upper > 1.9 * epsilon(compose((half, 5)), 1e-5).upper


def test_both_interfaces_of_flower_are_read() -> None:
    later = named("FedAvg", "flwr.serverapp.strategy", fraction_train=0.1, min_train_nodes=2, min_available_nodes=2)
    assert from_flower(strategy(inner=later), clients=100, equal_weights=True) == SampledWithoutReplacement(
        100, 10, Gaussian(0.75)
    )


def test_all_clients_are_no_sample_and_no_noise_is_no_privacy() -> None:
    everyone = strategy(inner=fedavg(fraction=1.0), sampled=10)
    assert from_flower(everyone, clients=10, equal_weights=True) == Gaussian(0.75)
    assert from_flower(strategy(noise=0.0), clients=100, equal_weights=True) == NonPrivate()


@pytest.mark.parametrize(
    "wrong, options, reason",
    [
        (strategy(), {"equal_weights": False}, "equal_weights"),
        (strategy("ServerSideAdaptiveClipping"), {}, "next clipping norm"),
        (strategy("ClientSideAdaptiveClipping"), {}, "next clipping norm"),
        (strategy(inner=fedavg("FedAdam")), {}, "mean of updates"),
        (strategy(inner=named("FedAvg", "mine", fraction_fit=0.1)), {}, "mean of updates"),
        (strategy(sampled=11), {}, "differs from the 10 of 100"),
        (strategy(inner=fedavg(least=20)), {}, "differs from the 20 of 100"),
        (strategy(), {"clients": 1}, "waits for"),
        (strategy(), {"clients": 0}, "clients"),
        (strategy(noise=-1.0), {}, "noise_multiplier"),
        (strategy(clipping_norm=0.0), {}, "clipping_norm"),
        (fedavg(), {}, "noise is known"),
        (named("DifferentialPrivacyServerSideFixedClipping", "mine"), {}, "noise is known"),
    ],
)
def test_what_the_noise_is_not_for_is_refused(wrong: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        from_flower(wrong, **{"clients": 100, "equal_weights": True, **options})


def real(name: str, **options: Any) -> Any:
    pytest.importorskip("flwr", reason="flwr is not installed")
    place = import_module("flwr.server.strategy")
    inner = place.FedAvg(fraction_fit=0.1, min_fit_clients=2, min_available_clients=2)
    return getattr(place, f"DifferentialPrivacy{name}")(inner, 1.5, num_sampled_clients=10, **options)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of flwr
def test_strategies_of_flower_are_read() -> None:
    for name in ("ServerSideFixedClipping", "ClientSideFixedClipping"):
        event = from_flower(real(name, clipping_norm=0.5), clients=100, equal_weights=True)
        assert event == SampledWithoutReplacement(100, 10, Gaussian(0.75))
    with pytest.raises(InvalidArgumentError, match="next clipping norm"):
        from_flower(real("ServerSideAdaptiveClipping", clipped_count_stddev=5.0), clients=100, equal_weights=True)
    later = import_module("flwr.serverapp.strategy")
    inner = later.FedAvg(fraction_train=0.1, min_train_nodes=2, min_available_nodes=2)
    fixed = later.DifferentialPrivacyServerSideFixedClipping(inner, 1.5, 0.5, 10)
    assert from_flower(fixed, clients=100, equal_weights=True) == event


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_one_client_with_many_examples_moves_flowers_mean_by_more_than_its_noise_is_for() -> None:
    """The mean of Flower's own FedAvg, whose clipping norm here is 0.5: with equal weights it moves by 0.05."""
    pytest.importorskip("flwr", reason="flwr is not installed")
    aggregate = import_module("flwr.server.strategy.aggregate").aggregate

    def mean(update: float, examples: int) -> float:
        results = [([np.array([0.0])], 10) for _ in range(9)]
        return float(aggregate([*results, ([np.array([update])], examples)])[0][0])

    assert mean(0.5, 10) - mean(0.0, 10) == pytest.approx(0.5 / 10)
    assert mean(0.5, 10_000) - mean(0.0, 10_000) > 9 * 0.5 / 10
