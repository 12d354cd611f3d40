"""The false-alarm rate of whole audits, measured on correct mechanisms whose claim is exactly tight.

A correct mechanism may be refuted with probability at most alpha = 1 - confidence. So of N audits at most the quantile
``allowed(alpha)`` are, but with probability 1e-6: that is the false-alarm rate of each test here. What would betray an
auditor is computed, not guessed: a rate of ``caught(alpha)`` would exceed the quantile with probability 0.99.

The audits run through :func:`hockeystick.audits.audit` as a user's do; only the outputs are drawn beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from divergences import gaussian_delta
from scipy import optimize, stats

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.audits.attacks.choose_event import choose_event
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.outputs.reading import Codebook, read

AUDITS = {0.05: 6000, 0.001: 2500}  # of each mechanism; `python -m benchmarks.auditors.calibration` makes 100,000
SAMPLES = 200  # from each data set, in each audit
EPSILON = 1.0

Sample = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def allowed(alpha: float, audits: int | None = None) -> int:
    """The most refutations that a valid auditor makes, but with probability 1e-6."""
    return int(stats.binom.isf(1e-6, audits or AUDITS[alpha], alpha))


def caught(alpha: float) -> float:
    """The false-alarm rate that exceeds ``allowed`` with probability 0.99."""
    most, audits = allowed(alpha), AUDITS[alpha]
    return float(optimize.brentq(lambda rate: stats.binom.sf(most, audits, rate) - 0.99, alpha, 1.0))


def test_what_the_calibration_can_catch() -> None:
    """At level 0.05 an excess of 44 %, at 0.001 a rate of 9.7 in a thousand."""
    assert caught(0.05) < 0.072
    assert caught(0.001) < 0.0097
    assert allowed(0.05) < 0.064 * AUDITS[0.05]


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
    """A mechanism whose outputs were drawn beforehand; consecutive audits use consecutive outputs."""

    def __init__(self, outputs: tuple[np.ndarray, np.ndarray]) -> None:
        self.outputs = outputs
        self.at = [0, 0]

    def simulate(self, value: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        self.at[value] += runs
        return self.outputs[value][self.at[value] - runs : self.at[value]]


def refutations(outputs: tuple[np.ndarray, np.ndarray], claim: Claim, alpha: float, audits: int) -> int:
    target = Drawn(outputs)
    refuted = 0
    for _ in range(audits):
        verdict = audit(target, claim=claim, neighbours=(0, 1), samples=SAMPLES, rng=0, confidence=1 - alpha)
        assert verdict.refuted or claim.also or verdict.epsilon_lower <= claim.epsilon
        refuted += verdict.refuted
    assert target.at == [audits * SAMPLES] * 2
    return refuted


def public(outputs: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Floats on a grid of 2^-20, which keeps the mechanism tight and its last bits still."""
    if outputs[0].dtype.kind != "f":
        return outputs
    return np.round(outputs[0] * 2**20) / 2**20, np.round(outputs[1] * 2**20) / 2**20


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian curve", "randomised response", "geometric"])
def test_a_tight_mechanism_is_refuted_as_seldom_as_promised(mechanism: str, alpha: float) -> None:
    sample, claim = TIGHT[mechanism]
    audits = AUDITS[alpha]
    outputs = public(sample(np.random.default_rng([audits, round(1 / alpha)]), audits * SAMPLES))

    refuted = refutations(outputs, claim, alpha, audits)

    print(
        f"{mechanism}: {refuted} of {audits} refuted at {alpha}, allowed {allowed(alpha)}, caught {caught(alpha):.2g}"
    )
    assert refuted <= allowed(alpha)


@pytest.mark.parametrize("mechanism", TIGHT)
def test_a_slightly_untight_mechanism_fails_the_calibration(mechanism: str) -> None:
    """The calibration is no formality: the same audits of a claim 40 % too small are counted as too many."""
    sample, claim = TIGHT[mechanism]
    outputs = public(sample(np.random.default_rng(3), 500 * SAMPLES))
    too_small = Claim(0.6 * claim.epsilon, 0.6 * claim.delta, also=[(0.6 * e, 0.6 * d) for e, d in claim.also])

    assert refutations(outputs, too_small, 0.05, 500) > allowed(0.05, 500)


@pytest.mark.parametrize("mechanism", ["laplace", "geometric"])
def test_an_auditor_that_does_not_split_its_samples_fails_the_calibration(mechanism: str) -> None:
    """The same search and the same bound, but both on all samples."""
    sample, claim = TIGHT[mechanism]
    audits, alpha, refuted = 2000, 0.05, 0
    outputs = public(sample(np.random.default_rng(4), audits * SAMPLES))
    for start in range(0, audits * SAMPLES, SAMPLES):
        book = Codebook()
        tables = [read(side[start : start + SAMPLES], SAMPLES, book, vectorised=True) for side in outputs]
        evidence = Evidence.of((tables[0], tables[1]), tuple(book.layouts), None)
        event = choose_event(evidence, claim, alpha=alpha, trials=SAMPLES)
        counts = np.stack([event.partition.count(tables[i], evidence.real[i]) for i in (0, 1)])
        x, y = event.counts(counts)
        region = frontier(x, SAMPLES, y, SAMPLES, slope=event.slope, alpha=alpha)
        refuted += region.refutes(*event.point)

    assert refuted > allowed(alpha, audits)


def test_the_check_of_bit_patterns_is_as_seldom_wrong() -> None:
    """Noise that is safe in floating point, on a grid, is said to leak as seldom as promised; and bits=True refutes no
    more often than the promise either."""
    alpha, audits = 0.05, 1200
    outputs = public(laplace(np.random.default_rng(5), 2 * audits * SAMPLES))
    target = Drawn(outputs)

    verdicts = [
        audit(target, claim=Claim(EPSILON), neighbours=(0, 1), samples=SAMPLES, rng=0, confidence=1 - alpha, bits=bits)
        for bits in (False, True)
        for _ in range(audits)
    ]

    assert sum(verdict.float_leak for verdict in verdicts[:audits]) <= allowed(alpha, audits)
    assert sum(verdict.refuted for verdict in verdicts[audits:]) <= allowed(alpha, audits)
