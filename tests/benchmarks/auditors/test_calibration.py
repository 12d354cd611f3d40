"""The false-alarm rate of whole audits, measured on correct mechanisms whose claim is exactly tight.

A correct mechanism may be refuted with probability at most alpha = 1 - confidence. Wald's sequential test decides
between that and a rate that would betray the auditor (``NOTICED``). The likelihood ratio of the two rates, audit by
audit, is a supermartingale under every rate up to alpha, and its inverse under every rate from ``NOTICED`` on. So, by
Ville's inequality, a valid auditor fails with probability at most 1e-6, which is the false-alarm rate of each test
here, and one of a noticed rate passes with probability at most 0.01, after as few audits as it takes.

The audits run through :func:`hockeystick.audits.audit` as a user's do; only the outputs are drawn beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from divergences import gaussian_delta
from samples import diagonal

from hockeystick import accounting
from hockeystick.audits import Claim, Verdict, audit
from hockeystick.audits.attacks.event_choice import choose_event
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.outputs.reading import Codebook, read

NOTICED = {0.05: 0.072, 0.001: 0.0097}  # a rate for each level
MOST = 24_000  # audits; `python -m benchmarks.auditors.calibration` makes 100,000 for each bound
SAMPLES = 200  # from each data set, in each audit
EPSILON = 1.0

Sample = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
Seed = int | list[int]


def keeps_its_level(refuted: Iterable[bool], alpha: float) -> bool:
    """Whether refutations, audit by audit, are as rare as alpha; see the module."""
    rate, total = NOTICED[alpha], 0.0
    for one in refuted:
        total += math.log(rate / alpha) if one else math.log1p(-rate) - math.log1p(-alpha)
        if total >= math.log(1e6) or total <= math.log(0.01):
            return total < 0.0
    raise AssertionError("too few audits to decide")


@pytest.mark.parametrize("alpha", NOTICED)
def test_the_calibration_catches_stated_excess_rates(alpha: float) -> None:
    """The mean factor of the likelihood ratio is 1 at the level, that of its inverse at the noticed rate."""
    rate = NOTICED[alpha]
    factors = rate / alpha, (1 - rate) / (1 - alpha)
    for p in (alpha, alpha / 2):
        assert p * factors[0] + (1 - p) * factors[1] <= 1.0 + 1e-12
    for p in (rate, 2 * rate):
        assert p / factors[0] + (1 - p) / factors[1] <= 1.0 + 1e-12
    rng = np.random.default_rng(1)
    assert keeps_its_level(rng.random(MOST) < alpha / 2, alpha)
    assert not keeps_its_level(rng.random(MOST) < 2 * rate, alpha)


def laplace(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.laplace(scale=1 / EPSILON, size=size), 1 + rng.laplace(scale=1 / EPSILON, size=size)


def gaussian(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal(size), 1 + rng.standard_normal(size)


def randomised_response(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    keep = math.exp(EPSILON) / (1 + math.exp(EPSILON))
    return (rng.random(size) >= keep).astype(int), (rng.random(size) < keep).astype(int)


def geometric(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    p = 1 - math.exp(-EPSILON)
    noise = rng.geometric(p, (2, size)) - rng.geometric(p, (2, size))
    return noise[0], 1 + noise[1]


TIGHT: dict[str, tuple[Sample, Claim]] = {
    "laplace": (laplace, Claim(EPSILON)),
    "gaussian": (gaussian, Claim(EPSILON, gaussian_delta(1.0, EPSILON))),
    "gaussian curve": (gaussian, Claim.curve(accounting.Gaussian(1.0), gaussian_delta(1.0, EPSILON))),
    "randomised response": (randomised_response, Claim(EPSILON)),
    "geometric": (geometric, Claim(EPSILON)),
}


class Drawn:
    """A mechanism whose outputs are drawn in blocks beforehand; consecutive audits use consecutive outputs."""

    repeatable = False

    def __init__(self, sample: Sample, seed: Seed, block: int = 500) -> None:
        self.sample, self.rng, self.size = sample, np.random.default_rng(seed), block * SAMPLES
        self.outputs, self.at = (np.empty(0), np.empty(0)), [0, 0]

    def simulate(self, value: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        if self.at[value] + runs > len(self.outputs[value]):
            assert [self.at[0] % SAMPLES, self.at[1] % SAMPLES] == [0, 0]
            self.outputs, self.at = public(self.sample(self.rng, self.size)), [0, 0]
        self.at[value] += runs
        return self.outputs[value][self.at[value] - runs : self.at[value]]


def verdicts(
    sample: Sample, seed: int | list[int], claim: Claim, alpha: float, bits: bool = False
) -> Iterator[Verdict]:
    target = Drawn(sample, seed)
    for number in range(1, MOST + 1):
        verdict = audit(target, claim=claim, neighbours=(0, 1), samples=SAMPLES, rng=0, confidence=1 - alpha, bits=bits)
        assert verdict.refuted or claim.also or verdict.epsilon_lower <= claim.epsilon
        assert target.at[0] == target.at[1] == (number - 1) % 500 * SAMPLES + SAMPLES
        yield verdict


def public(outputs: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Floats on a grid of 2^-20, which keeps the mechanism tight and its last bits still."""
    if outputs[0].dtype.kind != "f":
        return outputs
    return np.round(outputs[0] * 2**20) / 2**20, np.round(outputs[1] * 2**20) / 2**20


@pytest.mark.parametrize(
    ("mechanism", "alpha"), diagonal(["laplace", "gaussian curve", "randomised response", "geometric"], [0.05, 0.001])
)
def test_a_tight_mechanism_is_refuted_at_most_at_the_stated_rate(mechanism: str, alpha: float) -> None:
    sample, claim = TIGHT[mechanism]
    found = verdicts(sample, [6000 if alpha == 0.05 else 2500, round(1 / alpha)], claim, alpha)
    assert keeps_its_level((one.refuted for one in found), alpha)


@pytest.mark.parametrize("mechanism", TIGHT)
def test_a_slightly_untight_mechanism_fails_the_calibration(mechanism: str) -> None:
    """The calibration has power: the same audits of a claim that is 40 % too small are counted as too many."""
    sample, claim = TIGHT[mechanism]
    too_small = Claim(0.6 * claim.epsilon, 0.6 * claim.delta, also=[(0.6 * e, 0.6 * d) for e, d in claim.also])
    assert not keeps_its_level((one.refuted for one in verdicts(sample, 3, too_small, 0.05)), 0.05)


@pytest.mark.parametrize("mechanism", ["laplace", "geometric"])
def test_an_auditor_that_does_not_split_its_samples_fails_the_calibration(mechanism: str) -> None:
    """The same search and the same bound, but both on all samples."""
    sample, claim = TIGHT[mechanism]
    alpha, outputs = 0.05, public(sample(np.random.default_rng(4), 2000 * SAMPLES))

    def unsplit(start: int) -> bool:
        book = Codebook()
        tables = [read(side[start : start + SAMPLES], SAMPLES, book, vectorised=True) for side in outputs]
        evidence = Evidence.of((tables[0], tables[1]), tuple(book.layouts), None)
        event = choose_event(evidence, claim, alpha=alpha, trials=SAMPLES)
        counts = np.stack([event.partition.count(tables[i], evidence.real[i]) for i in (0, 1)])
        x, y = event.counts(counts)
        region = frontier(x, SAMPLES, y, SAMPLES, slope=event.slope, alpha=alpha)
        return bool(region.refutes(*event.point))

    assert not keeps_its_level(map(unsplit, range(0, 2000 * SAMPLES, SAMPLES)), alpha)


def test_the_check_of_bit_patterns_keeps_the_same_rate() -> None:
    """Noise that is safe in floating point, on a grid, is said to leak as seldom as promised; and bits=True refutes no
    more often than the promise either."""
    for bits in (False, True):
        found = verdicts(laplace, 5, Claim(EPSILON), 0.05, bits)
        assert keeps_its_level((one.refuted if bits else one.float_leak for one in found), 0.05)
