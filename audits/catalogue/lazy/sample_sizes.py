"""The number of samples that an audit needs to refute a claim, computed from the exact law of the privacy loss."""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting.validate import real
from hockeystick.audits.bounds import sample_limits
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners import ExactLoss
from hockeystick.learners.common.exact_loss import LossLaw


def samples_needed(exact: ExactLoss, claim: Claim, *, confidence: float = 0.999, power: float = 0.9) -> float:
    """Returns the samples per data set with which an audit refutes ``claim`` with probability ``power``; inf if true.

    For each claimed point and each threshold of the exact privacy loss, in both directions, the event's probabilities
    P and Q are known. Half of the samples choose the event; the other half bound it
    (:func:`hockeystick.audits.bounds.sample_limits.samples_needed`). The best event is found by its normal
    approximation.
    """
    confidence = real("confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True)
    power = real("power", power, low=0.0, high=1.0, low_open=True, high_open=True)
    best = math.inf
    for law in (exact.forward[0], exact.backward[0]):
        event = _best_event(law, claim)
        if event is not None:
            p, q, epsilon, delta = event
            needed = sample_limits.samples_needed(
                p, q, epsilon=epsilon, delta=delta, alpha=1.0 - confidence, power=power
            )
            best = min(best, 2.0 * needed)
    return best


def _best_event(law: LossLaw, claim: Claim) -> tuple[float, float, float, float] | None:
    """Returns (P, Q, epsilon, delta) of the threshold and claimed point that show the violation best; None without."""
    p, q = law.tails()
    found: tuple[float, tuple[float, float, float, float]] | None = None
    for epsilon, delta in claim.points:
        with np.errstate(divide="ignore", over="ignore"):  # e^epsilon itself may be above all floats; here 1 is enough
            allowed = np.exp(np.minimum(epsilon + np.log(q), 1.0))
            spread = allowed**2 * (1 - q) / np.maximum(q, 1e-300)
        gap = p - allowed - delta
        worth = np.where(gap > 1e-12, gap, 0.0) ** 2 / np.maximum(p * (1 - p) + spread, 1e-300)
        # Small variance is not enough: a rare event has to occur at all, and an event that never occurs on the other
        # side may still have a probability of about 1/n there, which the claim multiplies by e^epsilon.
        worth = np.minimum(worth, np.maximum(gap, 0.0) * math.exp(-epsilon))
        index = int(np.argmax(worth))
        if worth[index] > 0.0 and (found is None or worth[index] > found[0]):
            found = float(worth[index]), (float(p[index]), float(q[index]), epsilon, delta)
    return None if found is None else found[1]
