"""The exact law of the lazy learner's privacy loss on two given streams, without sampling: the oracle for all bounds.

The loss ln P0(transcript)/P1(transcript) of the full view is accumulated by dynamic programming over
(state of the chain) x (loss of the first decision) x (loss of the draws, on a grid). Experts that both streams treat
alike are merged first, which is exact: neither the coins nor the loss distinguish them. So the usual worst case, two
halves of the experts, has two states whatever the number of experts, and its draws lose exactly +-η: no rounding.
In general the losses of draws are rounded to the grid, once up and once down, and the result is a bracket.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common.exact_loss import ExactLoss, LossLaw
from hockeystick.learners.lazy.experts.lazy_chain import LazyChain, bit_log_ratios

_SNAP = 1e-9  # losses within this relative distance of a multiple of the grid step count as on the grid
_CELLS = 2**22  # largest table of the dynamic programme
_NEGLIGIBLE = 1e-32  # mass of a column below which the ends of the table are cut


def exact_loss(chain0: LazyChain, chain1: LazyChain, *, steps: int = 64) -> ExactLoss:
    """Returns the exact privacy loss of the whole run, full view, of two chains whose streams differ within one batch.

    Args:
        chain0: Law of the transcript on one stream.
        chain1: Law of the transcript on the other.
        steps: Grid steps per largest loss of one draw, if the losses of draws have no common lattice.

    Raises:
        InvalidArgumentError: the streams differ in several batches, or the exact computation would be too large.

    Example:
        >>> from hockeystick.learners import LazyExperts
        >>> learner = LazyExperts(rounds=9, experts=2, learning_rate=0.1, fake_switch_probability=0.3)
        >>> chains = [learner.chain(losses) for losses in learner.worst_case_neighbours()]
        >>> lower, upper = exact_loss(*chains).epsilon(1e-3)
        >>> round(lower, 3), lower <= upper <= learner.epsilon_for(0, 1e-3)
        (0.73, True)
    """
    steps = integer("steps", steps, low=1)
    lumped = _lump(chain0, chain1)
    s0 = _changed_batch(chain0, chain1)
    if s0 is None:
        nothing = LossLaw(np.zeros(1), np.ones(1), 0.0, 0.0)
        return ExactLoss((nothing, nothing), (nothing, nothing))
    return ExactLoss(_run_laws(lumped, s0, steps), _run_laws(lumped.swapped(), s0, steps))


def exact_decision_loss(chain0: LazyChain, chain1: LazyChain) -> ExactLoss:
    """Returns the exact privacy loss of the switching decision after the changed batch; no rounding.

    Arguments and errors are as for :func:`exact_loss`.

    Example:
        >>> chains = [LazyChain(batch_losses=[row, [0.0, 0.0]], learning_rate=0.1, fake_switch_probability=0.2)
        ...           for row in ([1.0, 0.0], [0.0, 1.0])]
        >>> round(exact_decision_loss(*chains).epsilon(1e-3)[0], 3)
        0.315
    """
    lumped = _lump(chain0, chain1)
    s0 = _changed_batch(chain0, chain1)
    laws = []
    for pair in (lumped, lumped.swapped()):
        if s0 is None:
            law = LossLaw(np.zeros(1), np.ones(1), 0.0, 0.0)
        else:
            mass, loss = _decision(pair, s0)
            flat, weight = loss.ravel(), mass.ravel()
            finite = np.isfinite(flat) & (weight > 0.0)
            order = np.argsort(flat[finite])
            infinite = float(weight[(flat == np.inf)].sum())
            law = LossLaw(flat[finite][order], weight[finite][order], infinite, 1e-12)
        laws.append((law, law))
    return ExactLoss(laws[0], laws[1])


def exact_marginals(chain: LazyChain) -> FloatArray:
    """Returns the exact law of the action of every batch, shape ``(n, d)``, in time O(n d^2).

    Example:
        >>> chain = LazyChain(
        ...     batch_losses=[[1.0, 0.0], [0.0, 0.0]], learning_rate=0.5, fake_switch_probability=0.1,
        ...     shadow_probability=0.1, log_normaliser=0.0)
        >>> exact_marginals(chain)[1].round(4).tolist(), np.exp(chain.log_weights)[1].round(4).tolist()
        ([0.4326, 0.5674], [0.3775, 0.6225])
    """
    weights = np.exp(chain.log_weights)
    joint = _initial(chain, weights)
    marginals = np.empty_like(weights)
    marginals[0] = joint.sum(axis=1)
    for s in range(1, chain.batches):
        joint = _advance(chain, joint, s, weights[s])
        marginals[s] = joint.sum(axis=1)
    return marginals


# --- the chain of (action, shadow), as a table [x, y]; y takes one value if there is no shadow -----------------------


def _initial(chain: LazyChain, weights: FloatArray, multiplicity: FloatArray | None = None) -> FloatArray:
    first = weights[0] if multiplicity is None else multiplicity / multiplicity.sum()
    joint: FloatArray = first[:, None] * (first[None, :] if chain.shadow_probability is not None else np.ones((1, 1)))
    return joint


def _keep(chain: LazyChain, s: int) -> FloatArray:
    x = np.arange(chain.experts)
    if chain.shadow_probability is None:
        return np.exp(chain.log_keep(s, x, None))[:, None]
    return np.exp(chain.log_keep(s, x[:, None], x[None, :]))


def _advance(chain: LazyChain, joint: FloatArray, s: int, weights: FloatArray) -> FloatArray:
    keep = _keep(chain, s)
    joint = joint * keep + weights[:, None] * np.sum(joint * (1.0 - keep), axis=0)[None, :]
    if chain.shadow_probability:
        again = chain.shadow_probability
        joint = (1.0 - again) * joint + again * np.sum(joint, axis=1)[:, None] * weights[None, :]
    return joint


# --- the loss --------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _Pair:
    """Two chains over classes of experts, and the number of experts in each class."""

    chain0: LazyChain
    chain1: LazyChain
    sizes: FloatArray
    weights0: FloatArray = field()  # shape (n, classes): probability of each class before each batch
    weights1: FloatArray = field()

    def swapped(self) -> "_Pair":
        return _Pair(self.chain1, self.chain0, self.sizes, self.weights1, self.weights0)


def _lump(chain0: LazyChain, chain1: LazyChain) -> _Pair:
    if chain0.batch_losses.shape != chain1.batch_losses.shape:
        raise InvalidArgumentError(
            "chain1", chain1.batch_losses.shape, f"has another shape than chain0's {chain0.batch_losses.shape}"
        )
    for name in ("learning_rate", "fake_switch_probability", "shadow_probability", "log_normaliser"):
        if getattr(chain0, name) != getattr(chain1, name):
            raise InvalidArgumentError(
                "chain1", getattr(chain1, name), f"has another {name} than chain0's {getattr(chain0, name)}"
            )
    both = np.concatenate([chain0.batch_losses, chain1.batch_losses])
    _, first, inverse = np.unique(both, axis=1, return_index=True, return_inverse=True)
    sizes = np.bincount(inverse.ravel()).astype(float)
    classes, experts = len(sizes), chain0.experts
    gather = np.zeros((experts, classes))
    gather[np.arange(experts), inverse.ravel()] = 1.0

    def reduced(chain: LazyChain) -> LazyChain:
        return evolve(chain, batch_losses=chain.batch_losses[:, first])

    weights0, weights1 = (np.exp(chain.log_weights) @ gather for chain in (chain0, chain1))
    return _Pair(reduced(chain0), reduced(chain1), sizes, weights0, weights1)


def _changed_batch(chain0: LazyChain, chain1: LazyChain) -> int | None:
    """Returns the index of the only batch on which the streams differ, or None if they are equal."""
    changed = np.flatnonzero(np.any(chain0.batch_losses != chain1.batch_losses, axis=1))
    if changed.size > 1:
        raise InvalidArgumentError(
            "chain1", changed.tolist(), "differs from chain0 in several batches", "change the losses of one batch only"
        )
    return int(changed[0]) if changed.size else None


def _state_at(pair: _Pair, s0: int) -> FloatArray:
    """Returns the joint law of (action, shadow) in batch s0, which is equal in both worlds."""
    joint = _initial(pair.chain0, pair.weights0, pair.sizes)
    for s in range(1, s0 + 1):
        joint = _advance(pair.chain0, joint, s, pair.weights0[s])
    return joint


def _decision(pair: _Pair, s0: int) -> tuple[FloatArray, FloatArray]:
    """Returns masses and losses of (stayed, moved) at the boundary after batch s0, each of shape (2, x, y)."""
    joint = _state_at(pair, s0)
    if s0 + 1 >= pair.chain0.batches:
        return np.stack([joint, np.zeros_like(joint)]), np.zeros((2, *joint.shape))
    x = np.arange(pair.chain0.experts)
    if pair.chain0.shadow_probability is None:
        stayed, moved = (ratio[:, None] for ratio in bit_log_ratios(pair.chain0, pair.chain1, s0 + 1, x, None))
    else:
        stayed, moved = bit_log_ratios(pair.chain0, pair.chain1, s0 + 1, x[:, None], x[None, :])
    keep = _keep(pair.chain0, s0 + 1)
    return np.stack([joint * keep, joint * (1.0 - keep)]), np.stack([stayed, moved])


def _run_laws(pair: _Pair, s0: int, steps: int) -> tuple[LossLaw, LossLaw]:
    drawn = np.log(pair.weights0) - np.log(pair.weights1)
    later = drawn[s0 + 1 :]
    sizes = np.abs(later[np.abs(later) > 1e-13])
    unit = float(sizes.min(initial=np.inf))
    multiples = later / unit
    if sizes.size == 0 or (np.abs(multiples).max() <= 64 and np.all(np.abs(multiples - np.round(multiples)) < _SNAP)):
        return _grid_laws(pair, s0, drawn, min(unit, 1.0), np.round)
    step = float(sizes.max()) / steps
    return _grid_laws(pair, s0, drawn, step, np.floor)[0], _grid_laws(pair, s0, drawn, step, np.ceil)[1]


def _grid_laws(
    pair: _Pair, s0: int, drawn: FloatArray, step: float, rounding: Callable[[FloatArray], FloatArray]
) -> tuple[LossLaw, LossLaw]:
    """Returns the law with draws' losses rounded to multiples of ``step``; the cut mass counts as 0, or as inf."""
    chain, n = pair.chain0, pair.chain0.batches
    ratio = drawn / step
    nearest = np.round(ratio)
    shifts = np.where(np.abs(ratio - nearest) < _SNAP, nearest, rounding(ratio)).astype(np.int64)
    masses, losses = _decision(pair, s0)
    possible = masses > 0.0
    finite = np.unique(losses[possible & np.isfinite(losses)])
    infinite = float(masses[possible & (losses == np.inf)].sum())
    cut = 0.0

    # Tables are [x, y, loss of the decision, loss of the draws]; column j of the last axis is a loss (lowest + j)*step.
    stayed, moved = (np.zeros((*masses.shape[1:], finite.size, 1)) for _ in range(2))
    for table, mass, loss in ((stayed, masses[0], losses[0]), (moved, masses[1], losses[1])):
        x, y = np.nonzero((mass > 0.0) & np.isfinite(loss))
        table[x, y, np.searchsorted(finite, loss[x, y]), 0] = mass[x, y]
    lowest = 0
    for s in range(s0 + 1, n):
        if s > s0 + 1:
            keep = _keep(chain, s)[:, :, None, None]
            stayed, moved = stayed * keep, stayed * (1.0 - keep)
        stayed, below = _redraw(stayed, moved.sum(axis=0), pair.weights0[s], shifts[s], axis=0)
        lowest -= below
        if chain.shadow_probability:
            again = chain.shadow_probability
            left = again * stayed.sum(axis=1)
            stayed, below = _redraw((1.0 - again) * stayed, left, pair.weights0[s], shifts[s], axis=1)
            lowest -= below
        columns = stayed.sum(axis=(0, 1, 2))
        worth = np.flatnonzero(columns > _NEGLIGIBLE)
        if worth.size and (worth[0] > 0 or worth[-1] < columns.size - 1):
            cut += float(columns[: worth[0]].sum() + columns[worth[-1] + 1 :].sum())
            stayed = stayed[..., worth[0] : worth[-1] + 1]
            lowest += int(worth[0])
        if stayed.size > _CELLS:
            raise InvalidArgumentError(
                "chain0",
                chain.batch_losses.shape,
                f"the exact law needs a table of over {_CELLS} cells",
                "use fewer distinguishable experts, fewer batches or fewer grid steps",
            )
    grid = step * (lowest + np.arange(stayed.shape[-1]))
    atoms = (finite[:, None] + grid[None, :]).ravel()
    weight = (stayed if s0 + 1 < n else stayed + moved).sum(axis=(0, 1)).ravel()
    order = np.argsort(atoms, kind="stable")
    # Sums of losses have an error of at most 1e-12, and each snapped draw of ``_SNAP`` steps, in up to four terms.
    slack = 1e-12 + 4 * _SNAP * step * (n - s0)
    return (
        LossLaw(atoms[order], weight[order], infinite, slack),
        LossLaw(atoms[order], weight[order], infinite + cut, slack),
    )


def _redraw(
    stay: FloatArray, gone: FloatArray, weights: FloatArray, shifts: npt.NDArray[np.int64], *, axis: int
) -> tuple[FloatArray, int]:
    """Adds to ``stay`` the mass ``gone``, spread over the classes of ``axis`` and shifted by their losses.

    Returns the table and the number of columns added below.
    """
    below, above = max(0, -int(shifts.min())), max(0, int(shifts.max()))
    table = np.pad(stay, [(0, 0)] * 3 + [(below, above)])
    width = gone.shape[-1]
    for index, shift in enumerate(shifts):
        target = table[index] if axis == 0 else table[:, index]
        target[..., below + shift : below + shift + width] += weights[index] * gone
    return table, below
