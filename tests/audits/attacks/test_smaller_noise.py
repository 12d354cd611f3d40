"""The hint at the mistake behind a refutation: right on planted faults of the noise, silent on others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hockeystick import mechanisms
from hockeystick.audits import Claim, audit
from hockeystick.audits.attacks.smaller_noise import noise_hint
from hockeystick.audits.outputs.reading import Codebook, read

Law = Callable[[float, np.random.Generator, int], Any]
PURE, CURVE, POINT = Claim(1.0), Claim.gdp(1.0), Claim(1.0, 1e-5)  # the point allows mu = 0.268


def laplace(scale: float, sensitivity: float = 1.0) -> Law:
    return lambda d, rng, n: sensitivity * d + rng.laplace(scale=scale, size=n)


def normal(scale: float, sensitivity: float = 1.0) -> Law:
    return lambda d, rng, n: sensitivity * d + rng.normal(scale=scale, size=n)


def votes(noise: Callable[[float], Law]) -> Law:
    """Six counts with noise for a vote that is added; on the other data set a vote goes from one count to another."""

    def law(d: float, rng: np.random.Generator, n: int) -> Any:
        still = np.array([3.0, 0.0, 7.0, 7.0, 1.0, 2.0]) + d * np.array([0.0, 1.0, 0.0, 0.0, -1.0, 0.0])
        return still + np.stack([noise(1.0)(0.0, rng, n) for _ in range(6)], axis=1)

    return law


def shared(d: float, rng: np.random.Generator, n: int) -> Any:
    """Two counts whose noise has a part in common."""
    part = rng.normal(scale=0.5, size=(n, 3))
    return np.stack([d + part[:, 0] + part[:, 2], -d + part[:, 1] + part[:, 2]], axis=1)


def hint(law: Law, claim: Claim, runs: int, seed: int = 1) -> str:
    rng, book = np.random.default_rng(seed), Codebook()
    first, second = (read(law(d, rng, runs), runs, book, vectorised=True) for d in (0.0, 1.0))
    return noise_hint((first, second), tuple(book.layouts), claim)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "claim", "runs", "words"),
    [
        (laplace(0.5), PURE, 2000, "noise were half what the claim needs or the sensitivity twice"),
        (laplace(1.0, 2.0), PURE, 2000, "noise were half what the claim needs or the sensitivity twice"),
        (laplace(0.9), PURE, 20_000, "noise were 0.9 times what the claim needs or the sensitivity 1.1 times"),
        (normal(0.5), CURVE, 2000, "noise were half what the claim needs or the sensitivity twice"),
        (normal(0.9), CURVE, 20_000, "noise were 0.9 times"),
        (normal(0.5 / 0.268), POINT, 20_000, "noise were half"),
        (votes(laplace), PURE, 4000, "on each of 6 numbers, of which 2 differ, around centres"),
        (votes(laplace), PURE, 4000, "noise were half what the claim needs or the sensitivity twice"),
        (votes(normal), CURVE, 4000, "noise were 0.7"),
    ],
)
def test_smaller_noise_or_a_larger_sensitivity_is_told(law: Law, claim: Claim, runs: int, words: str) -> None:
    """A right fit is refused with probability 0.04 to 0.07 (of 400), below 0.1; of 20, 12 are with less than 2e-7."""
    found = [hint(law, claim, runs, seed) for seed in range(20)]

    assert sum(words in one or _near(one, words) for one in found) > 8


def _near(found: str, words: str) -> bool:
    """Returns whether the ratio in a hint is that of the words within 0.02."""
    wanted, told = (re.search(r"noise were (half|[\d.]+)", text) for text in (words, found))
    if wanted is None or told is None:
        return False
    ratio = [0.5 if one[1] == "half" else float(one[1]) for one in (wanted, told)]
    return abs(ratio[0] - ratio[1]) < 0.021


@pytest.mark.parametrize(
    ("law", "claim"),
    [
        (laplace(1.2), PURE),
        (laplace(2.0), PURE),
        (normal(1.2), CURVE),
        (normal(0.5), PURE),  # another law than the claim's
        (laplace(0.5), CURVE),
        (lambda d, rng, n: d + 0.3 * rng.standard_cauchy(n), PURE),
        (lambda d, rng, n: d + rng.laplace(size=n) * np.where(rng.random(n) < 0.5, 0.2, 1.0), PURE),
        (lambda d, rng, n: d + rng.random(n), PURE),
        (lambda d, rng, n: rng.laplace(scale=0.5 + 0.5 * d, size=n) + d, PURE),  # a scale that depends on the data
        (lambda d, rng, n: (rng.random(n) < 0.2 + 0.6 * d).astype(float), PURE),
        (lambda d, rng, n: np.round(d + rng.laplace(scale=0.5, size=n)), PURE),
        (lambda d, rng, n: d + rng.integers(-3, 4, n), PURE),
        (lambda d, rng, n: np.where(rng.random(n) < 0.1 * d, 50.0, rng.laplace(scale=0.5, size=n)), PURE),
        (shared, CURVE),
    ],
)
def test_other_outputs_give_no_hint(law: Law, claim: Claim) -> None:
    """Noise of 1.2 times the needed is ten standard errors from a hint, and the other laws are far from a fit."""
    assert not any(hint(law, claim, 4000, seed) for seed in range(3))


def test_few_outputs_give_a_hint_that_tells_their_number_and_fewer_none() -> None:
    few, many = hint(laplace(0.25), PURE, 499), hint(laplace(0.25), PURE, 500)
    assert hint(laplace(0.25), PURE, 99) == ""
    assert few.startswith("as far as 499 outputs of each data set tell, the outputs look like Laplace noise")
    assert many.startswith("the outputs look like Laplace noise")


@pytest.mark.statistical
def test_the_verdict_has_a_hint_where_it_refutes_alone() -> None:
    half: Any = mechanisms.Laplace(scale=0.5)
    verdict = audit(half, claim=PURE, neighbours=(0.0, 1.0), samples=20_000, rng=1)
    known = audit(half, claim=PURE, neighbours=(0.0, 1.0), samples=20_000, statistic=lambda x: x, rng=1)
    right = audit(half, claim=Claim(2.0), neighbours=(0.0, 1.0), samples=20_000, rng=1)

    assert verdict.refuted and "noise were" in verdict.hint and f"hint: {verdict.hint}" in str(verdict)
    assert known.refuted and known.hint == "" and right.hint == "" and not right.refuted


def with_three(d: float, rng: np.random.Generator, n: int) -> Any:
    """A noisy number, one without noise, and one with the noise of the first."""
    noise = rng.laplace(scale=5.0, size=n)
    return np.stack([d + noise, np.full(n, 7.0), 3 * d + noise], axis=1)


def numbers(law: Law, runs: int = 500) -> str:
    return hint(law, PURE, runs)


def test_numbers_without_noise_and_two_with_the_same_noise_are_named() -> None:
    same = "output[0] and output[2] have the same noise: their difference is one number in all outputs of a data set"
    assert numbers(with_three) == same
    bare = numbers(lambda d, rng, n: with_three(d, rng, n) + np.array([0.0, d, 0.0]))
    assert bare == "output[1] is the same in all outputs of a data set: it has no noise"
    assert numbers(lambda d, rng, n: np.full(n, 2.0 + d)).startswith("all outputs of a data set are the same number")


@pytest.mark.parametrize(
    "law",
    [
        lambda d, rng, n: d + rng.laplace(size=(n, 2)),
        lambda d, rng, n: np.full((n, 2), 3.0),  # which tells nothing
        lambda d, rng, n: np.stack([d + rng.laplace(size=n), np.full(n, 3.0)], axis=1),
        lambda d, rng, n: d + rng.integers(0, 2, n)[:, None] * [1.0, 2.0],  # one follows from the other, unequally
        lambda d, rng, n: 1e15 + rng.integers(0, 2, (n, 2)),  # differences that round-off could make
    ],
)
def test_other_numbers_have_no_such_hint(law: Law) -> None:
    assert "same" not in numbers(law)
