"""Correlated sampling: draws from several laws that are equal as often as the laws are alike, by shared coins alone.

All parties read one stream of pairs (z_i, u_i), z_i from a base law and u_i uniform. Each takes the first z_i whose u_i
is at most its own density there, over a common bound. Each result follows its party's law, and two of them differ with
probability at most 2 TV / (1 + TV), although no party knows another's law (Holenstein 2009; Angel & Spinka 2019, who
show that no other rule does better for all pairs of laws).

The joint law of two parties depends neither on the base nor on the bound. While neither has taken anything, a pair of
the stream is taken by both with the measure min(P, Q), by the first alone with (P - Q)+, and by the second alone with
(Q - P)+, up to one factor; whoever is left then takes an independent draw. Hence with total mass 1 + TV

    J(x, y) = [ min(P, Q)(x) 1{x = y} + (P - Q)+(x) Q(y) + P(x) (Q - P)+(y) ] / (1 + TV).
"""

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.experts.expert_losses import FloatArray

IntArray = npt.NDArray[np.integer]


def _laws(name: str, value: object, ndim: int) -> FloatArray:
    weights: FloatArray = array(name, value, ndim=ndim, low=0.0, data=True)
    if weights.size == 0:
        raise InvalidDataError(name, value, "is empty", "give the weight of at least one outcome")
    peaks = weights.max(axis=-1, keepdims=True)
    if not peaks.all():
        raise InvalidDataError(name, value, "has no mass", "give at least one positive weight")
    scaled = weights / peaks  # so that sums can't overflow
    normalised: FloatArray = scaled / scaled.sum(axis=-1, keepdims=True)
    return normalised


def _pair(first: object, second: object) -> tuple[FloatArray, FloatArray]:
    p, q = _laws("first", first, 1), _laws("second", second, 1)
    if p.shape != q.shape:
        raise InvalidArgumentError("second", q.shape, f"is not over the outcomes of first, {p.shape}")
    return p, q


def total_variation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """The distance sup_S P(S) - Q(S) of two laws, given by weights of shape ``(outcomes,)``; in [0, 1]."""
    p, q = _pair(first, second)
    return float(np.maximum(p - q, 0.0).sum())


def correlated_law(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """Exact joint law of two parties' draws.

    Args:
        first: Weights of the first party's outcomes, shape ``(outcomes,)``, not negative, of any positive sum.
        second: The second party's.

    Returns:
        Shape ``(outcomes, outcomes)``; row sums are the first law, column sums the second.

    Raises:
        InvalidArgumentError: weights are negative, not finite, all zero, or of different shapes.
    """
    p, q = _pair(first, second)
    more, less = np.maximum(p - q, 0.0), np.maximum(q - p, 0.0)
    joint = np.diag(np.minimum(p, q)) + np.outer(more, q) + np.outer(p, less)
    found: FloatArray = joint / (1.0 + more.sum())
    return found


def disagreement(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Exact probability that two parties' draws differ; at most :func:`disagreement_bound`."""
    p, q = _pair(first, second)
    more, less = np.maximum(p - q, 0.0), np.maximum(q - p, 0.0)
    distance = float(more.sum())
    return float(more @ (1.0 - q) + less @ (1.0 - p)) / (1.0 + distance)


def disagreement_bound(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """2 TV / (1 + TV): attained where neither law has mass on outcomes that the other one favours, beyond the common.

    No coupling at all does better than TV, which needs both laws to be known.
    """
    distance = total_variation(first, second)
    return 2.0 * distance / (1.0 + distance)


def correlated_draws(
    laws: npt.ArrayLike, rng: np.random.Generator, runs: int, *, base: npt.ArrayLike | None = None
) -> IntArray:
    """Draws of k parties from one shared stream, in independent runs.

    Args:
        laws: Weights of shape ``(k, outcomes)``, a law per row.
        rng: Seeds the shared stream of each run.
        runs: Number of runs, at least 1.
        base: Weights of the base law, shape ``(outcomes,)``, positive wherever a law is. By default in proportion to
            the largest of the laws, which needs fewest pairs; parties that don't know each other's laws agree on one
            beforehand. The result's law is the same.

    Returns:
        Shape ``(runs, k)``: the outcomes' indices.
    """
    rows = _laws("laws", laws, 2)
    runs = integer("runs", runs, low=1)
    sigma = _laws("base", rows.max(axis=0) if base is None else base, 1)
    if sigma.shape != rows.shape[1:]:
        raise InvalidArgumentError("base", sigma.shape, f"is not over the outcomes of laws, {rows.shape[1:]}")
    if ((sigma == 0.0) & (rows > 0.0)).any():
        raise InvalidArgumentError("base", base, "has no mass where a law has some", "give it a positive weight there")
    density = np.divide(rows, sigma, out=np.zeros_like(rows), where=sigma > 0.0)
    accept = density / density.max()
    sums = np.cumsum(sigma)
    found = np.full((runs, len(rows)), -1, dtype=np.int64)
    waiting = np.arange(runs)
    while waiting.size:
        z = np.searchsorted(sums[:-1], rng.random(waiting.size) * sums[-1], side="right")
        # Uniforms lie in [0, 1): a density of 0 never takes, the largest one always does.
        takes = rng.random(waiting.size)[:, None] < accept[:, z].T
        kept = found[waiting]
        kept = np.where((kept < 0) & takes, z[:, None], kept)
        found[waiting] = kept
        waiting = waiting[(kept < 0).any(axis=1)]
    return found
