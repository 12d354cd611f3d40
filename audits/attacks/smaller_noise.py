"""A hint at the mistake behind a refuted claim: noise that is missing, used twice, or too small for it.

A number that is the same in all outputs of a data set, and another one on the other, has no noise. Two numbers that
vary while their difference is one number on each data set have the same noise.

Outputs of one number, or of a few such as the counts of a histogram, are fitted with noise of one scale s around two
centres that are a distance D apart: the medians of both data sets, and the mean distance from them. Of several numbers
D is the sum of their distances for Laplace noise and the root of the sum of squares for Gaussian noise, of those that
differ by more than four standard errors. The fit is accepted if

 * on each data set, and on both together, the largest difference of the distribution functions is at most 1.1/sqrt(n),
   which noise of that law exceeds somewhere with a probability of 4 to 7 % (cf. Lilliefors 1967);
 * the mean distances from the medians differ by at most four standard errors;
 * the noise of no two numbers of an output is correlated by more than five standard errors.

Under a claim of (epsilon, 0) Laplace noise of scale D/epsilon is enough, and under a claim with delta > 0 at all points
Gaussian noise of standard deviation D/mu, where mu is the largest that all points allow. The hint is the ratio of s to
that, given where it is below 1 by four standard errors. It is not part of the test: it has no level, and other mistakes
may give outputs of the same laws.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.targets.target_features import VALUE

_LEAST = 100  # outputs of each data set
_FEW_ROWS, _FEW_NUMBERS = 1 << 12, 32  # of the outputs in which noise is looked for
_MANY = 500  # fewer fit many laws, and the hint says how few they are
_MOST = 1 << 17
_FARTHEST = 1.1  # difference of the distribution functions, in 1/sqrt(n)
_ERRORS = 4.0
_CORRELATED = 5.0  # standard errors
_LARGEST = 50.0  # mu

_HALF = 0.03  # from 1/2, within which noise is called half


def noise_hint(tables: tuple[Table, Table], layouts: tuple[Layout, ...], claim: Claim) -> str:
    """Returns a sentence on the noise, or "" if nothing fits.

    Args:
      tables: outputs of both data sets; of a fixed sample, those that chose the event.
      layouts: the layouts of the outputs.
      claim: the claim, which was refuted.
    """
    if told := _missing(tables, layouts):
        return told
    values = _numbers(tables, layouts)
    if values is None:
        return ""
    centres = [np.median(side, axis=0) for side in values]
    rest = [side - centre for side, centre in zip(values, centres, strict=True)]
    spreads, n, width = [float(np.abs(side).mean()) for side in rest], *rest[0].shape
    pure = any(delta == 0 for _, delta in claim.points)
    # Standard deviation of a distance from the median, and of the median, both in mean distances.
    deviation, median = (1.0, 1.0) if pure else (math.sqrt(math.pi / 2 - 1), math.pi / 2)
    spread = (spreads[0] + spreads[1]) / 2
    gaps = np.abs(centres[0] - centres[1])
    if width > 1:
        gaps[gaps <= _ERRORS * median * spread * math.sqrt(2 / n)] = 0.0
    distance = float(gaps.sum() if pure else np.linalg.norm(gaps))
    if not (spread > 0 and distance > 0 and math.isfinite(spread + distance)):
        return ""
    if abs(spreads[0] - spreads[1]) > _ERRORS * deviation * spread * math.sqrt(2 / (n * width)):
        return ""
    law = _laplace_distribution if pure else special.ndtr
    scale = spread if pure else spread * math.sqrt(math.pi / 2)
    if any(_difference(law(np.sort(part, axis=None) / scale)) > 1 for part in (*rest, np.concatenate(rest))):
        return ""
    if width > 1 and _is_correlated(np.concatenate(rest)):
        return ""
    needed = distance / _reach(claim, pure) if _reach(claim, pure) > 0 else math.inf
    ratio, moved = scale / needed, int(np.count_nonzero(gaps))
    gap_error = median * spread * math.sqrt(2 * (moved if pure else 1) / n)
    error = math.hypot(deviation / math.sqrt(2 * n * width), gap_error / distance)
    if not 0 < ratio * math.exp(_ERRORS * error) < 1:
        return ""
    name = f"Laplace noise of scale {scale:.3g}" if pure else f"Gaussian noise of standard deviation {scale:.3g}"
    few = f"as far as {n} outputs of each data set tell, " if n < _MANY else ""
    if width > 1:
        name += f" on each of {width} numbers, of which {moved} {'differs' if moved == 1 else 'differ'},"
    return (
        f"{few}the outputs look like {name} around centres {distance:.3g} apart, as if the noise were {_times(ratio)} "
        f"what the claim needs or the sensitivity {_times(1 / ratio)} what was assumed"
    )


def _laplace_distribution(x: FloatArray) -> FloatArray:
    """Returns P[X <= x] of Laplace noise of scale 1."""
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


def _is_correlated(rest: FloatArray) -> bool:
    """Returns whether numbers of an output have noise in common; rest: (outputs, numbers)."""
    found = np.asarray(np.corrcoef(rest, rowvar=False))
    return not np.abs(np.triu(found, 1)).max() <= _CORRELATED / math.sqrt(len(rest))


def _missing(tables: tuple[Table, Table], layouts: tuple[Layout, ...]) -> str:
    """Returns which number of an output has no noise, or which two have the same, in words; or ""."""
    if len(layouts) != 1 or any(not isinstance(table.codes, int) or 0 not in table.blocks for table in tables):
        return ""
    blocks = [table.blocks[0][:_FEW_ROWS] for table in tables]
    width = blocks[0].shape[1]
    if not 0 < width <= _FEW_NUMBERS or min(map(len, blocks)) < _LEAST or not all(np.isfinite(b).all() for b in blocks):
        return ""
    still = (np.ptp(blocks[0], axis=0) == 0) & (np.ptp(blocks[1], axis=0) == 0)
    bare = np.flatnonzero(still & (blocks[0][0] != blocks[1][0]))
    if len(bare) and width == 1:
        return "all outputs of a data set are the same number: no noise of the generator it is given reaches them"
    if len(bare):
        return f"{layouts[0].slot(int(bare[0]))} is the same in all outputs of a data set: it has no noise"
    moving = np.flatnonzero((np.ptp(blocks[0], axis=0) > 0) & (np.ptp(blocks[1], axis=0) > 0))
    for place, one in enumerate(moving):
        for other in moving[place + 1 :]:
            gaps = [block[:, one] - block[:, other] for block in blocks]
            size = max(float(np.abs(block[:, [one, other]]).max()) for block in blocks)
            spread = min(float(np.ptp(block[:, one])) for block in blocks)
            # Rounding of the two sums, far below what noise of its own would show.
            if all(np.ptp(gap) <= 1e-12 * size for gap in gaps) and spread > 1e-6 * size:
                names = " and ".join(layouts[0].slot(int(slot)) for slot in (one, other))
                return f"{names} have the same noise: their difference is one number in all outputs of a data set"
    return ""


def _numbers(tables: tuple[Table, Table], layouts: tuple[Layout, ...]) -> tuple[FloatArray, FloatArray] | None:
    """Returns the outputs of both data sets, shape (outputs, numbers), if they are floats.

    Beside statistics of the target's own, the output itself counts.
    """
    if len(layouts) != 1 or any(not isinstance(table.codes, int) or 0 not in table.blocks for table in tables):
        return None
    kinds, slots = layouts[0].kinds, list(range(len(layouts[0].kinds)))
    if layouts[0].names(VALUE):
        slots = [i for i in slots if layouts[0].slot(i) == f"output.{VALUE}"][:1]
    if not 0 < len(slots) <= _FEW_NUMBERS or any(kinds[slot] == "i" for slot in slots):
        return None
    size = min(_MOST // len(slots), *(len(table.blocks[0]) for table in tables))
    sides = tables[0].blocks[0][:size][:, slots], tables[1].blocks[0][:size][:, slots]
    known = size >= _LEAST and all(np.isfinite(side).all() for side in sides)
    return sides if known else None


def _difference(law: FloatArray) -> float:
    """Returns the largest difference of distribution functions, given that of the law at the sorted outputs."""
    n = len(law)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - law).max(), (law - steps[:-1]).max()) * math.sqrt(n) / _FARTHEST)


def _reach(claim: Claim, pure: bool) -> float:
    """Returns the largest distance of centres, in scales, that the claim allows."""
    if pure:
        return min(epsilon for epsilon, delta in claim.points if delta == 0)
    return min(_largest_mu(*point) for point in claim.points)


def _largest_mu(epsilon: float, delta: float) -> float:
    def excess(mu: float) -> float:
        log_other = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
        return float(special.ndtr(mu / 2 - epsilon / mu) - math.exp(min(log_other, 0.0)) - delta)

    if excess(_LARGEST) <= 0:
        return _LARGEST
    return float(optimize.brentq(excess, 1e-9, _LARGEST))


def _times(ratio: float) -> str:
    if abs(ratio - 0.5) <= _HALF:
        return "half"
    return "twice" if abs(1 / ratio - 0.5) <= _HALF else f"{ratio:.2g} times"
