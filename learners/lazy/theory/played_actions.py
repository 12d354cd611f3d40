"""The privacy loss of the played experts, with all decisions, draws and shadows hidden: their likelihood and its law.

Given the stream, the learner's expert x is the visible part of a hidden Markov chain with the hidden shadow y. With m
the law of y given the experts played so far, the next expert has the probability

    P(x' | x) = sum_y m(y) P(x' | x, y),    P(x' | x, y) = k(x, y) 1[x' = x] + (1 - k(x, y)) v(x'),

and m moves on by Bayes' rule and the shadow's own redraws (:func:`actions_log_likelihood_ratio`). Shadows whose losses
are equal in every batch share one entry of m, which is exact.

If later coins do not depend on the shadow, x is a Markov chain of its own. On the usual worst pair of streams its
privacy loss then lies on a lattice with two generators, the loss of a stay and that of a move;
:func:`exact_actions_loss` computes its law.
"""

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common.exact_loss import ExactLoss, LossLaw
from hockeystick.learners.lazy.experts.lazy_chain import LazyChain

_EQUAL = 1e-9  # relative difference up to which losses count as the same multiple of a step
_NEGLIGIBLE = 1e-32  # mass of the outermost losses that are cut off, and counted
_CELLS = 2**21  # largest table


def actions_log_likelihood_ratio(actions: npt.NDArray[np.integer], chain0: LazyChain, chain1: LazyChain) -> FloatArray:
    """Returns ln P0(actions) / P1(actions) of every run, shape ``(R,)``; +-inf where one law excludes the actions.

    O(batches * runs * shadows that differ), vectorised over runs.

    Args:
        actions: Shape ``(R, n)``: the expert played in each batch, as in ``Transcripts.actions``.
        chain0: Law of the transcript on one stream.
        chain1: Law of the transcript on the other.

    Raises:
        InvalidArgumentError: shapes that do not match.

    Example:
        >>> chains = [LazyChain(batch_losses=[row, [0.0, 0.0]], learning_rate=0.1, fake_switch_probability=0.2)
        ...           for row in ([1.0, 0.0], [0.0, 1.0])]
        >>> actions_log_likelihood_ratio(np.array([[0, 0], [0, 1]]), *chains).round(3).tolist()
        [-0.057, 0.423]
    """
    _require_alike(chain0, chain1)
    played = np.asarray(actions)
    if played.ndim != 2 or played.shape[1] != chain0.batches or played.dtype.kind not in "iu":
        raise InvalidArgumentError(
            "actions", played.shape, "are not the actions of these chains", "simulate one of them"
        )
    if played.size and not (played.min() >= 0 and played.max() < chain0.experts):
        raise InvalidArgumentError("actions", int(played.max()), f"are not all experts 0 .. {chain0.experts - 1}")
    columns = np.ascontiguousarray(played.T)
    first, inverse = _classes(chain0, chain1)
    with np.errstate(invalid="ignore"):
        ratio = _log_likelihood(columns, chain0, first, inverse) - _log_likelihood(columns, chain1, first, inverse)
    return np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf)  # excluded by both: it does not occur


def _log_likelihood(
    actions: npt.NDArray[np.integer], chain: LazyChain, first: npt.NDArray[np.intp], inverse: npt.NDArray[np.intp]
) -> FloatArray:
    """Returns the log-likelihood by the forward filter; actions of shape (n, R), classes of shadows as `_classes`."""
    again = chain.shadow_probability
    weights = np.exp(chain.log_weights)
    classes = np.zeros((chain.experts, len(first)))
    classes[np.arange(chain.experts), inverse] = 1.0
    shadow_weights = weights @ classes
    runs = actions.shape[1]
    x = actions[0]
    total: FloatArray = chain.log_weights[0][x]
    hidden = np.repeat(shadow_weights[0][:, None], runs, axis=1) if again is not None else np.ones((1, runs))
    experts = np.arange(chain.experts)
    for s in range(1, chain.batches):
        if again is None:
            table = np.exp(chain.log_keep(s, experts, None))[:, None]
        else:
            table = np.exp(chain.log_keep(s, experts[:, None], first[None, :]))
        keep = table.T[:, x]  # (shadows, runs)
        stayed = actions[s] == x
        x = actions[s]
        hidden *= np.where(stayed, keep + (1.0 - keep) * weights[s][x], (1.0 - keep) * weights[s][x])
        seen = hidden.sum(axis=0)
        with np.errstate(divide="ignore"):
            total += np.log(seen)
        lost = seen <= 0.0
        if lost.any():  # the likelihood stays 0, whatever follows
            hidden[:, lost], seen[lost] = 1.0, float(hidden.shape[0])
        hidden /= seen
        if again:
            hidden *= 1.0 - again
            hidden += again * shadow_weights[s][:, None]
    return total


def exact_actions_loss(chain0: LazyChain, chain1: LazyChain) -> ExactLoss:
    """Returns the exact privacy loss of the played experts, on streams whose experts differ in one batch only.

    In all batches except the changed one every expert has the same loss, and two halves of the experts exchange theirs
    in the changed one, as in ``LazyExperts.worst_case_neighbours()``. Then, from the second boundary after it on, all
    coins have the same law, a stay loses +a or -a, and a move loses +b or -b, depending on the half where it ends. A
    table of (half, net stays, net moves) is advanced from boundary to boundary. Nothing is rounded.

    Raises:
        InvalidArgumentError: other streams, or a table that would be too large.

    Example:
        >>> from hockeystick.learners import LazyExperts
        >>> from hockeystick.learners.lazy import exact_loss
        >>> learner = LazyExperts(rounds=9, experts=2, learning_rate=0.1, fake_switch_probability=0.3)
        >>> chains = [learner.chain(losses) for losses in learner.worst_case_neighbours()]
        >>> round(exact_actions_loss(*chains).epsilon(1e-3)[0], 3), round(exact_loss(*chains).epsilon(1e-3)[0], 3)
        (0.394, 0.73)
    """
    _require_alike(chain0, chain1)
    changed = np.flatnonzero(np.any(chain0.batch_losses != chain1.batch_losses, axis=1))
    if changed.size > 1:
        raise InvalidArgumentError("chain1", changed.tolist(), "differs from chain0 in several batches")
    nothing = LossLaw(np.zeros(1), np.ones(1), 0.0, 0.0)
    if changed.size == 0 or changed[0] == chain0.batches - 1:
        return ExactLoss((nothing, nothing), (nothing, nothing))
    s0 = int(changed[0])
    others = np.delete(chain0.batch_losses, s0, axis=0)
    if np.any(others != others[:, :1]):
        raise InvalidArgumentError(
            "chain0", s0, "has different losses in other batches than the changed one: its actions have no simple law",
            "use the worst-case neighbours, or estimate from actions_log_likelihood_ratio",
        )  # fmt: skip
    return ExactLoss(_laws(chain0, chain1, s0), _laws(chain1, chain0, s0))


@frozen(eq=False)
class _Step:
    """One boundary between halves of the experts: P(stay), shape (halves,), and P(move to another one) [from, to]."""

    stay: FloatArray
    move: FloatArray

    def losses(self, other: "_Step") -> tuple[FloatArray, FloatArray]:
        """Returns ln P0/P1 of a stay and of a move."""
        with np.errstate(divide="ignore", invalid="ignore"):
            stay, move = np.log(self.stay) - np.log(other.stay), np.log(self.move) - np.log(other.move)
        # Transitions that neither law allows do not occur: their loss is immaterial.
        return np.where(np.isnan(stay), 0.0, stay), np.where(np.isnan(move), 0.0, move)


def _step(chain: LazyChain, s: int, first: npt.NDArray[np.intp], sizes: FloatArray) -> _Step:
    """Returns the boundary into batch s, with a shadow that is uniform given all earlier plays."""
    if chain.shadow_probability is None:
        keep = np.exp(chain.log_keep(s, first, None))
    else:
        keep = np.exp(chain.log_keep(s, first[:, None], first[None, :])) @ (sizes / sizes.sum())
    each = np.exp(chain.log_weights[s][first])
    stay = keep + (1.0 - keep) * each
    return _Step(stay, (1.0 - keep)[:, None] * each[None, :] * (sizes[None, :] - np.eye(len(sizes))))


def _laws(chain0: LazyChain, chain1: LazyChain, s0: int) -> tuple[LossLaw, LossLaw]:
    first, inverse = _classes(chain0, chain1)
    sizes = np.bincount(inverse).astype(float)
    opening = [_step(chain, s0 + 1, first, sizes) for chain in (chain0, chain1)]
    steps = chain0.batches - s0 - 2
    later = [_step(chain, chain.batches - 1, first, sizes) for chain in (chain0, chain1)]
    for s in range(s0 + 2, chain0.batches - 1):
        for chain, last in zip((chain0, chain1), later, strict=True):
            if not np.allclose(_step(chain, s, first, sizes).stay, last.stay, rtol=_EQUAL, atol=0.0):
                raise InvalidArgumentError(
                    "chain0",
                    s0,
                    "has coins that change from boundary to boundary: its actions have no simple law",
                    "estimate from actions_log_likelihood_ratio",
                )
    stay, move = later[0].losses(later[1]) if steps else (np.zeros(len(sizes)), np.zeros((len(sizes), len(sizes))))
    stays, unit_a = _multiples(stay)
    moves, unit_b = _multiples(_into(move, sizes))
    table, lowest, cut = _advanced(later[0], stays, moves, steps)

    # Every transition at the first boundary, followed by the table for the later ones.
    start = sizes / sizes.sum()
    losses_stay, losses_move = opening[0].losses(opening[1])
    ways = [(start[i] * opening[0].stay[i], losses_stay[i], i) for i in range(len(sizes))]
    ways += [(start[i] * opening[0].move[i, j], losses_move[i, j], j) for i, j in np.ndindex(opening[0].move.shape)]
    atoms, masses, infinite = [], [], 0.0
    grid = (
        unit_a * (lowest[0] + np.arange(table.shape[2]))[:, None]
        + unit_b * (lowest[1] + np.arange(table.shape[3]))[None, :]
    )
    ended = table.sum(axis=1)
    for mass, loss, half in ways:
        if mass > 0.0 and loss == np.inf:
            infinite += mass
        elif mass > 0.0:
            atoms.append((loss + grid).ravel())
            masses.append((mass * ended[half]).ravel())
    loss, mass = np.concatenate([*atoms, np.zeros(1)]), np.concatenate([*masses, np.zeros(1)])
    order = np.argsort(loss, kind="stable")
    # Sums of losses have an error of at most 1e-12, and each loss that counts as equal one of ``_EQUAL`` units.
    slack = 1e-12 + _EQUAL * (unit_a + unit_b) * (steps + 1)
    return (
        LossLaw(loss[order], mass[order], infinite, slack),
        LossLaw(loss[order], mass[order], infinite + cut, slack),
    )


def _into(move: FloatArray, sizes: FloatArray) -> FloatArray:
    """Returns the loss of a move into each half, from any half (there is no move within a half of one expert)."""
    halves = len(sizes)
    found: FloatArray = np.array([move[(j + 1) % halves if sizes[j] == 1 else j, j] for j in range(halves)])
    return found


def _multiples(losses: FloatArray) -> tuple[npt.NDArray[np.int64], float]:
    """Returns ``losses`` as -1, 0 or 1 times a unit, and the unit."""
    unit = float(np.abs(losses).max())
    if not np.isfinite(unit):
        raise InvalidArgumentError("chain0", unit, "excludes a transition that chain1 allows in a later batch")
    if unit < 1e-15:
        return np.zeros(len(losses), dtype=np.int64), 0.0
    ratio = losses / unit
    nearest = np.round(ratio)
    if np.any(np.abs(ratio - nearest) > _EQUAL):
        raise InvalidDataError(
            "chain0", losses, "has no common lattice of losses", "change two halves of an even number of experts"
        )
    return nearest.astype(np.int64), unit


def _advanced(
    step: _Step, stays: npt.NDArray[np.int64], moves: npt.NDArray[np.int64], steps: int
) -> tuple[FloatArray, tuple[int, int], float]:
    """Returns masses [first half, last half, net stays, net moves] after ``steps`` equal boundaries.

    Also returns the net numbers of the table's first cells, and the mass cut off at its ends.
    """
    halves = len(stays)
    table = np.eye(halves)[:, :, None, None]
    lowest, cut = [0, 0], 0.0
    for _ in range(steps):
        wide = np.zeros((halves, halves, table.shape[2] + 2, table.shape[3] + 2))
        rows, columns = table.shape[2], table.shape[3]
        for j in range(halves):
            a, b = 1 + int(stays[j]), 1 + int(moves[j])
            wide[:, j, a : a + rows, 1 : 1 + columns] += step.stay[j] * table[:, j]
            wide[:, j, 1 : 1 + rows, b : b + columns] += np.tensordot(step.move[:, j], table, axes=(0, 1))
        for axis in (2, 3):
            along = wide.sum(axis=tuple(i for i in range(4) if i != axis))
            worth = np.flatnonzero(along > _NEGLIGIBLE)
            cut += float(along[: worth[0]].sum() + along[worth[-1] + 1 :].sum())
            wide = np.take(wide, np.arange(worth[0], worth[-1] + 1), axis=axis)
            lowest[axis - 2] += int(worth[0]) - 1
        if wide.size > _CELLS:
            raise InvalidArgumentError(
                "chain0",
                steps,
                f"the exact law needs a table of over {_CELLS} cells",
                "use fewer batches or two experts",
            )
        table = wide
    return table, (lowest[0], lowest[1]), cut


def _classes(chain0: LazyChain, chain1: LazyChain) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns the classes of experts with equal losses in both worlds: one expert per class, each expert's class."""
    both = np.concatenate([chain0.batch_losses, chain1.batch_losses])
    _, first, inverse = np.unique(both, axis=1, return_index=True, return_inverse=True)
    return first, inverse.ravel()


def _require_alike(chain0: LazyChain, chain1: LazyChain) -> None:
    if chain0.batch_losses.shape != chain1.batch_losses.shape or (
        (chain0.shadow_probability is None) != (chain1.shadow_probability is None)
    ):
        raise InvalidArgumentError(
            "chain1", chain1.batch_losses.shape, "is not a chain of the same shape, with or without a shadow, as chain0"
        )
