"""Views of the lazy learner: a statistic with one number per run, and its exact law on two given streams.

* ``"run"``: the log-likelihood ratio of the whole transcript: decisions, draws and shadows.
* ``"decision"``: that of the first switching decision that may differ.
* ``"actions"``: that of the played experts alone, by the forward filter over the hidden shadow.
* ``"count"``: the number of batches in which an expert of the second half was played.
* ``"switch"``: whether the played expert changed right after the changed batch, and from which half.

The first three are likelihood ratios, so no test of the same view is more powerful. The last two are statistics for an
auditor who does not know the learner's law. All are functions of the adversary's view, so a test of any of them tests
the claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import ExactLoss, LossLaw
from hockeystick.learners.lazy import LazyChain, Transcripts, exact_decision_loss, exact_loss
from hockeystick.learners.lazy.experts.lazy_chain import decision_log_likelihood_ratio, log_likelihood_ratio
from hockeystick.learners.lazy.theory.played_actions import actions_log_likelihood_ratio, exact_actions_loss

View = Literal["run", "decision", "actions", "count", "switch"]

VIEWS: tuple[View, ...] = ("run", "decision", "actions", "count", "switch")
_PROOF = 100.0  # stands for an infinite log-likelihood ratio
_CELLS = 2**24  # largest table of the exact law of a count


def statistic(view: View, transcripts: Transcripts, chain0: LazyChain, chain1: LazyChain) -> FloatArray:
    """Returns the statistic of ``view``, shape (runs,); ratios of ``chain0`` to ``chain1`` are cut at ±100."""
    if view == "count":
        found: FloatArray = np.sum(transcripts.actions >= chain0.experts // 2, axis=1).astype(np.float64)
        return found
    if view == "switch":
        s = _boundary(chain0, chain1)
        before, after = transcripts.actions[:, s - 1], transcripts.actions[:, s]
        code: FloatArray = 2.0 * (before >= chain0.experts // 2) + (before != after)
        return code
    if view == "actions":
        ratio = actions_log_likelihood_ratio(transcripts.actions, chain0, chain1)
    elif view == "decision":
        ratio = decision_log_likelihood_ratio(transcripts, chain0, chain1)
    else:
        ratio = log_likelihood_ratio(transcripts, chain0, chain1)
    return np.clip(ratio, -_PROOF, _PROOF)


def exact_view_loss(view: View, chain0: LazyChain, chain1: LazyChain) -> ExactLoss:
    """Returns the exact privacy loss of ``view``, which unlimited samples would show.

    Raises:
        InvalidArgumentError: The law is not known exactly on these streams, or its table would be too large.
    """
    if view == "count":
        return _exact_loss_of(*(_count_law(chain) for chain in (chain0, chain1)))
    if view == "switch":
        s = _boundary(chain0, chain1)
        return _exact_loss_of(*(_switch_law(chain, s) for chain in (chain0, chain1)))
    oracles = {"run": exact_loss, "decision": exact_decision_loss, "actions": exact_actions_loss}
    return oracles[view](chain0, chain1)


def _boundary(chain0: LazyChain, chain1: LazyChain) -> int:
    """Returns the batch after the first one on which the streams differ."""
    changed = np.flatnonzero(np.any(chain0.batch_losses[:-1] != chain1.batch_losses[:-1], axis=1))
    if changed.size == 0:
        raise InvalidArgumentError("neighbours", None, "do not differ before the last batch, so no decision differs")
    return int(changed[0]) + 1


# --- exact laws of counts and switches, by the forward chain of (action, shadow) ------------------------------------


def _boundaries(chain: LazyChain) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yields the probabilities of keeping [action, shadow] and the weights of each boundary."""
    x = np.arange(chain.experts)
    weights = np.exp(chain.log_weights)
    for s in range(1, chain.batches):
        if chain.shadow_probability is None:
            yield np.exp(chain.log_keep(s, x, None))[:, None], weights[s]
        else:
            yield np.exp(chain.log_keep(s, x[:, None], x[None, :])), weights[s]


def _start(chain: LazyChain) -> FloatArray:
    first = np.exp(chain.log_weights[0])
    table: FloatArray = first[:, None] * (np.ones((1, 1)) if chain.shadow_probability is None else first[None, :])
    return table


def _count_law(chain: LazyChain) -> FloatArray:
    """Returns P(count = i), shape (n + 1,)."""
    n, half = chain.batches, chain.experts // 2
    shadows = 1 if chain.shadow_probability is None else chain.experts
    if chain.experts * shadows * (n + 1) > _CELLS:
        raise InvalidArgumentError(
            "experts", chain.experts, "are too many for the exact law of a count", 'use view="actions" or fewer experts'
        )
    table = np.zeros((chain.experts, shadows, n + 1))
    table[:half, :, 0], table[half:, :, 1] = _start(chain)[:half], _start(chain)[half:]
    for keep, weights in _boundaries(chain):
        gone = np.sum(table * (1.0 - keep[:, :, None]), axis=0)
        table = table * keep[:, :, None] + weights[:, None, None] * gone[None]
        if chain.shadow_probability:
            again = chain.shadow_probability
            table = (1.0 - again) * table + again * table.sum(axis=1)[:, None, :] * weights[None, :, None]
        table[half:] = np.roll(table[half:], 1, axis=2)  # the last count is still empty
    law: FloatArray = table.sum(axis=(0, 1))
    return law


def _switch_law(chain: LazyChain, boundary: int) -> FloatArray:
    """Returns P(code) of 2*(second half) + (changed) at the boundary, shape (4,)."""
    half, joint = chain.experts // 2, _start(chain)
    for s, (keep, weights) in enumerate(_boundaries(chain), start=1):
        leaving = np.sum(joint * (1.0 - keep), axis=1)
        if s == boundary:
            changed, whole = leaving * (1.0 - weights), joint.sum(axis=1)
            halves = [(part[:half].sum(), part[half:].sum()) for part in (whole - changed, changed)]
            return np.array([halves[0][0], halves[1][0], halves[0][1], halves[1][1]])
        joint = joint * keep + weights[:, None] * np.sum(joint * (1.0 - keep), axis=0)
        if chain.shadow_probability:
            again = chain.shadow_probability
            joint = (1.0 - again) * joint + again * joint.sum(axis=1)[:, None] * weights[None, :]
    raise InvalidArgumentError("boundary", boundary, "is not a boundary of this chain")


def _exact_loss_of(p: FloatArray, q: FloatArray) -> ExactLoss:
    """Returns the privacy loss between two laws on the same finite set."""

    def law(one: FloatArray, other: FloatArray) -> tuple[LossLaw, LossLaw]:
        seen = (one > 0.0) & (other > 0.0)
        losses = np.log(one[seen]) - np.log(other[seen])
        order = np.argsort(losses)
        found = LossLaw(losses[order], one[seen][order], float(one[(one > 0.0) & (other == 0.0)].sum()), 1e-9)
        return found, found

    return ExactLoss(law(p, q), law(q, p))
