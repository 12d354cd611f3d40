"""The exact law of the output of Fed-SVT: of given runs, and of all runs of a small instance.

Given the draws so far, the answers of a window are independent of all others: "below" up to some block, and "above"
there or never. The probability of a window is one integral over the threshold's noise, computed for all ends of the
window at once; that of a draw is the exponential mechanism's. So the law of a run is a product, exact up to quadrature.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.common.exact_loss import ExactLoss, LossLaw
from hockeystick.learners.federated.one_good_expert.runs import SVTRuns
from hockeystick.learners.federated.one_good_expert.setting import SVTSetting
from hockeystick.mechanisms.thresholds import comparison_law
from hockeystick.mechanisms.thresholds.comparison_law import LAPLACE

_CELLS = 1 << 20  # of an integrand that are held at a time
_MOST_RUNS = 1 << 20
_SLACK = 1e-9  # of a loss, by quadrature


def log_probability(learner: SVTSetting, runs: SVTRuns, sums: FloatArray) -> FloatArray:
    """Returns ln P(run) for each run, shape (R,), from the sums of the blocks, shape (blocks + 1, experts)."""
    tested, drawn = _windows(learner, runs), _draws(runs)
    found = np.full(len(np.atleast_2d(runs.experts)), -math.log(learner.experts))
    found += np.bincount(tested.run, _log_windows(learner, tested, sums), len(found))
    found += np.bincount(drawn.run, _log_draws(learner, drawn, sums), len(found))
    return found


def log_likelihood_ratio(learner: SVTSetting, runs: SVTRuns, sums0: FloatArray, sums1: FloatArray) -> FloatArray:
    """Returns ln P0(run)/P1(run), shape (R,); windows with equal sums are skipped."""
    tested, drawn = _windows(learner, runs), _draws(runs)
    changed = np.zeros((len(sums0) + 1, learner.experts), np.int64)
    np.cumsum(sums0 != sums1, axis=0, out=changed[1:])
    differs = changed[tested.last + 1, tested.expert] > changed[tested.first, tested.expert]
    few = _Windows(
        tested.run[differs], tested.first[differs], tested.last[differs], tested.top[differs], tested.expert[differs]
    )
    windows = _log_windows(learner, few, sums0) - _log_windows(learner, few, sums1)
    draws = _log_draws(learner, drawn, sums0) - _log_draws(learner, drawn, sums1)
    size = len(np.atleast_2d(runs.experts))
    return np.asarray(np.bincount(few.run, windows, size) + np.bincount(drawn.run, draws, size))


def all_runs(learner: SVTSetting) -> SVTRuns:
    """Returns every possible run of the learner, for any losses.

    Raises:
        InvalidArgumentError: there are more than 2^20.
    """
    n, d = learner.blocks, learner.experts
    most = min(n, learner.switches)
    count = sum(math.comb(n, k) * d ** (k + 1) for k in range(most + 1))
    if count > _MOST_RUNS:
        raise InvalidArgumentError("learner", learner, f"has {count} runs", "take fewer blocks, experts or switches")
    experts, above = np.empty((count, n + 1), np.int64), np.zeros((count, n), np.bool_)
    rows = iter(range(count))
    for k in range(most + 1):
        for tops in itertools.combinations(range(n), k):
            lengths = np.diff([0, *(top + 1 for top in tops), n + 1])
            for choice in itertools.product(range(d), repeat=k + 1):
                row = next(rows)
                experts[row] = np.repeat(choice, lengths)
                above[row, list(tops)] = True
    return SVTRuns(experts, above)


def exact_loss(learner: SVTSetting, losses0: object, losses1: object) -> ExactLoss:
    """Returns the exact privacy loss between two streams, in both directions, from every run of a small instance.

    Raises:
        InvalidArgumentError: invalid losses, or more than 2^20 runs.
    """
    runs = all_runs(learner)
    log_p, log_q = (log_probability(learner, runs, learner.sums(losses)) for losses in (losses0, losses1))
    laws = []
    for one, other in ((log_p, log_q), (log_q, log_p)):
        order = np.argsort(one - other)
        laws.append(LossLaw((one - other)[order], np.exp(one)[order], 0.0, _SLACK))
    return ExactLoss((laws[0], laws[0]), (laws[1], laws[1]))


def log_window_law(gaps: FloatArray, threshold_scale: float, query_scale: float) -> tuple[FloatArray, FloatArray]:
    """Returns ln P(first "above" at k) and ln P(none up to k), for each k, both of shape (queries,).

    Args:
        gaps: Sum minus threshold after each block of the window, shape (queries,).
        threshold_scale, query_scale: b1 and b2.

    Raises:
        NumericalError: the sums are too far apart for the scales.
    """
    nodes, log_weights = comparison_law._quadrature(gaps, threshold_scale, query_scale)
    log_weights = log_weights + LAPLACE.log_density(nodes / threshold_scale) - math.log(threshold_scale)
    ends, none = np.full((2, len(gaps)), -np.inf)
    rows = max(1, _CELLS // len(gaps))
    for start in range(0, len(nodes), rows):
        part = slice(start, start + rows)
        z = (nodes[part, None] - gaps) / query_scale
        below = np.cumsum(LAPLACE.log_tail(-z), axis=1) + log_weights[part, None]
        none = np.logaddexp(none, special.logsumexp(below, axis=0))
        above = LAPLACE.log_tail(z)
        above[:, 1:] += below[:, :-1]
        above[:, 0] += log_weights[part]
        ends = np.logaddexp(ends, special.logsumexp(above, axis=0))
    return ends, none


def threshold_neighbours(learner: SVTSetting) -> tuple[FloatArray, FloatArray]:
    """Returns neighbours that only answers tell apart, summed over clients; see ``FedSVT.worst_case_neighbours``."""
    before = np.clip(learner.threshold - learner.clients * np.arange(learner.rounds), 0.0, learner.clients)
    room = np.flatnonzero(before <= learner.clients - 1)
    at = int(room[0]) if room.size else learner.rounds - 1
    before[at] = min(before[at], learner.clients - 1)
    first = np.repeat(before[:, None], learner.experts, axis=1)
    second = first.copy()
    second[at] += 1.0
    return first, second


# --- runs, cut into windows and draws --------------------------------------------------------------------------------


@frozen(eq=False)
class _Windows:
    """Tested windows: run, first and last block, whether the window ends with "above", and the expert."""

    run: IntArray
    first: IntArray
    last: IntArray
    top: npt.NDArray[np.bool_]
    expert: IntArray


@frozen(eq=False)
class _Draws:
    """Draws: run, the block before the draw, and the drawn expert."""

    run: IntArray
    block: IntArray
    expert: IntArray


def _windows(learner: SVTSetting, runs: SVTRuns) -> _Windows:
    experts, above = checked(learner, runs)
    run, last = np.nonzero(above)
    count = above.sum(axis=1)
    begins = np.append(0, np.cumsum(count)[:-1])
    first = np.append(0, last[:-1] + 1) if len(last) else last
    first[begins[count > 0]] = 0
    open_ = np.flatnonzero((count < learner.switches) & ~above[:, -1])  # still tested when the blocks are over
    ended = np.where(count[open_] > 0, learner.blocks - np.argmax(above[open_, ::-1], axis=1), 0)
    every_run, every_first = np.concatenate([run, open_]), np.concatenate([first, ended])
    return _Windows(
        every_run,
        every_first,
        np.concatenate([last, np.full(len(open_), learner.blocks - 1)]),
        np.arange(len(every_run)) < len(run),
        experts[every_run, every_first].astype(np.int64),
    )


def _draws(runs: SVTRuns) -> _Draws:
    run, block = np.nonzero(np.atleast_2d(runs.above))
    return _Draws(run, block, np.atleast_2d(runs.experts)[run, block + 1].astype(np.int64))


def _log_windows(learner: SVTSetting, tested: _Windows, sums: FloatArray) -> FloatArray:
    """ln P of each window; windows with the same first block and equal sums are computed together."""
    columns, alike = np.unique(sums, axis=1, return_inverse=True)
    found, kinds = np.empty(len(tested.run)), columns.shape[1]
    if not len(found):  # no run has come to a window
        return found
    begun, group = np.unique(tested.first * kinds + alike.reshape(-1)[tested.expert], return_inverse=True)
    order = np.argsort(group, kind="stable")
    for key, members in zip(begun, np.split(order, np.cumsum(np.bincount(group))[:-1]), strict=True):
        first, kind = divmod(int(key), kinds)
        gaps = np.cumsum(columns[first : int(tested.last[members].max()) + 1, kind]) - learner.threshold
        ends, none = log_window_law(gaps, learner.threshold_scale, learner.query_scale)
        at = tested.last[members] - first
        found[members] = np.where(tested.top[members], ends[at], none[at])
    return found


def _log_draws(learner: SVTSetting, drawn: _Draws, sums: FloatArray) -> FloatArray:
    logits = learner.logits(np.cumsum(sums[: learner.blocks], axis=0))
    logits -= special.logsumexp(logits, axis=1, keepdims=True)
    return np.asarray(logits[drawn.block, drawn.expert])


def checked(learner: SVTSetting, runs: SVTRuns) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.bool_]]:
    """Returns the experts and the draws of runs, with runs on the leading axis.

    Raises:
        InvalidArgumentError: they are not runs of this learner.
    """
    if not isinstance(runs, SVTRuns):
        raise InvalidArgumentError("runs", runs, "are not the runs of a FedSVT", "give the result of its simulate")
    experts, above = np.atleast_2d(runs.experts), np.atleast_2d(runs.above)
    n = learner.blocks
    if experts.dtype.kind not in "iu" or above.dtype != np.bool_ or experts.shape != (len(above), n + 1):
        raise InvalidArgumentError("runs", runs, "do not have this learner's shape", "give the result of its simulate")
    moved = experts[:, 1:] != experts[:, :-1]
    if (
        above.shape[1] != n
        or (experts.size and not (experts.min() >= 0 and experts.max() < learner.experts))
        or (moved & ~above).any()
        or (above.sum(axis=1) > learner.switches).any()
    ):
        raise InvalidArgumentError("runs", runs, "are impossible for this learner", "give the result of its simulate")
    return experts, above
