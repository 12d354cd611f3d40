"""Sums of noise shares as cases of the catalogue: in one draw, and added up share by share; with mutants.

A claim is the event of the survivors' noise. Truths come from the exact law of the sum on the two values.

Source: Agarwal, Kairouz & Liu 2021 (Skellam); Kairouz, Liu & Steinke 2021 (discrete Gaussian); Goryczka & Xiong 2017
(Pólya).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick import accounting
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim
from hockeystick.mechanisms import DiscreteGaussianShares, PolyaShares, SimulationNoise, SkellamShares

STATED_AT = 1e-6
"""The delta of the claims."""

Shares = SkellamShares | DiscreteGaussianShares | PolyaShares
Rng = np.random.Generator


# --- targets ---------------------------------------------------------------------------------------------------------


@frozen
class AddedUp:
    """The value plus the shares of several clients, each drawn as a client draws it.

    Attributes:
      shares: One client's noise.
      clients: The number of clients that add noise; in a correct sum the number of survivors.
      copied: Whether all clients add the same draw, from a shared seed.
    """

    shares: Shares
    clients: int
    copied: bool = False

    def __call__(self, value: Any, rng: Rng, runs: int) -> Any:
        noise, numbers = SimulationNoise(rng), np.asarray(value)
        shape = (runs, *numbers.shape)
        count = int(np.prod(shape))
        draws = [self.shares.share(count, noise=noise) for _ in range(1 if self.copied else self.clients)]
        total = np.sum(draws, axis=0) * (self.clients if self.copied else 1)
        return numbers + total.reshape(shape)


# --- the cases -------------------------------------------------------------------------------------------------------


def share_cases() -> Iterator[Case]:
    """Yields the cases of noise shares."""
    skellam = SkellamShares(4.0, survivors=2)
    yield _case("skellam-shares", skellam)
    yield _case("skellam-shares[one share forgotten]", skellam, evolve(skellam, survivors=1), 16_000)
    eight = SkellamShares(1.0, survivors=8)
    yield _case("skellam-shares[noise of all, two stay]", eight, evolve(eight, survivors=2), 2_000)
    yield _case("skellam-shares-added-up", skellam, AddedUp(skellam, 2), broken=False)
    yield _case("skellam-shares-added-up[one share forgotten]", skellam, AddedUp(skellam, 1), 16_000)
    yield _case("skellam-shares-added-up[one seed for all]", skellam, AddedUp(skellam, 2, copied=True), 1_000)
    replaced = SkellamShares(4.0, survivors=2, fall=1)
    yield _case("skellam-shares-replaced", replaced)
    moved = replaced.worst_case_neighbours()
    yield _case("skellam-shares-replaced[charged as added]", skellam, replaced, 16_000, pair=moved)

    gaussian = DiscreteGaussianShares(2.0, survivors=4)
    yield _case("discrete-gaussian-shares", gaussian)
    yield _case("discrete-gaussian-shares[noise of all, half stay]", gaussian, evolve(gaussian, survivors=2), 32_000)
    finer = DiscreteGaussianShares(2.0, survivors=4, factor=4)
    yield _case("discrete-gaussian-shares[factor forgotten]", gaussian, finer, 1_000, pair=(0, 4))
    yield _case("discrete-gaussian-shares-added-up", gaussian, AddedUp(gaussian, 4), broken=False)
    yield _case("discrete-gaussian-shares-added-up[one share forgotten]", gaussian, AddedUp(gaussian, 3), 256_000)

    polya = PolyaShares(2.0, survivors=4)
    yield _case("polya-shares", polya)
    yield _case("polya-shares[sized for eight]", polya, evolve(polya, whole=8), 1_000)
    yield _case("polya-shares-dropouts", evolve(polya, whole=5))
    yield _case("polya-shares-added-up", polya, AddedUp(polya, 4), broken=False)
    yield _case("polya-shares-added-up[one share forgotten]", polya, AddedUp(polya, 3), 32_000)


def _case(
    name: str,
    claimed: Shares,
    sampled: Any = None,
    refuted_by: int | None = None,
    *,
    pair: tuple[Any, Any] | None = None,
    broken: bool | None = None,
    known: bool = True,
    samples: int = 100_000,
) -> Case:
    false = refuted_by is not None if broken is None else broken
    return Case(
        name=f"mechanism/{name}",
        build=partial(_subject, claimed, claimed if sampled is None else sampled, pair, known),
        broken=false,
        samples=samples if refuted_by is None else refuted_by,
        oracle="the exact law of the sum" if known else "",
    )


def _subject(claimed: Shares, sampled: Any, pair: tuple[Any, Any] | None, known: bool) -> Subject:
    claim = Claim.curve(claimed.event(), STATED_AT)
    truth = _truth(sampled, claim.delta) if known else None
    neighbours = claimed.worst_case_neighbours() if pair is None else pair
    return Subject(target=sampled, neighbours=neighbours, claim=claim, truth=truth)


def _truth(sampled: Any, delta: float) -> float | None:
    """Returns the exact epsilon of a sum on its own worst pair."""
    if isinstance(sampled, AddedUp):
        if sampled.copied:
            return float("inf")  # the noise is a multiple of the number of clients
        sampled = evolve(sampled.shares, survivors=sampled.clients)
    return float(accounting.epsilon(sampled.event(), delta))
