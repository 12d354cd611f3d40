"""The lazy learner of experts as an audit target, correct and broken, in several views.

A target is called as ``f(losses, rng, runs)`` and returns one number per run: the statistic of its view (see
:mod:`hockeystick.audits.catalogue.lazy.views`), in most views a log-likelihood ratio between two fixed neighbouring
streams under the target's own law. It is a public function of the adversary's view, so an audit of it tests the claim.

The broken variants have the mistakes that matter in practice (see :mod:`hockeystick.audits.catalogue.lazy.mutants`).
Each of them is a :class:`~hockeystick.learners.lazy.LazyChain`, whose exact privacy loss is known; so is the number of
samples that an audit needs (:func:`hockeystick.audits.catalogue.lazy.sample_sizes.samples_needed`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.catalogue.lazy.mutants import MUTATIONS, Mutation, mutant_chain
from hockeystick.audits.catalogue.lazy.views import VIEWS, View, exact_view_loss, statistic
from hockeystick.learners import ExactLoss, LazyExperts
from hockeystick.learners.lazy import LazyChain

_ENTRIES = 1 << 24  # of a transcript array that is drawn at once


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(name, value, "is unknown", f"use one of {', '.join(map(repr, allowed))}")


@frozen(kw_only=True, eq=False)
class LazyTarget:
    """One variant of the lazy learner on two neighbouring streams.

    Args:
        learner: The learner whose guarantee is the claim.
        neighbours: Two streams of shape (rounds, experts) that differ in one round.
        mutation: The mistake; None for the correct learner.
        view: "run" for the whole transcript, "decision" for the first decision that may differ, "actions" for the
            played experts alone, "count" and "switch" for two simple statistics of them.

    Raises:
        InvalidArgumentError: The mutation or view is unknown, the learner has a draw budget, or the variant refuses
            the streams.
    """

    learner: LazyExperts
    neighbours: tuple[FloatArray, FloatArray]
    mutation: Mutation | None = field(default=None)
    view: View = field(default="run")

    def __attrs_post_init__(self) -> None:
        _one_of("mutation", self.mutation, (None, *MUTATIONS))
        _one_of("view", self.view, VIEWS)
        if self.learner.draw_budget is not None:
            raise InvalidArgumentError(
                "learner", self.learner.draw_budget, "has a draw budget, which these targets ignore",
                "audit its own log_likelihood_ratio",
            )  # fmt: skip
        for stream in self.neighbours:
            self.chain(stream)

    def __call__(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the view's statistic of ``runs`` transcripts on ``losses``, shape (runs,), within ±100."""
        runs = integer("runs", runs, low=1)
        chain, (chain0, chain1) = self.chain(losses), self.chains()
        block = max(1, _ENTRIES // chain.batches)
        parts = [
            statistic(self.view, chain.simulate(rng, min(block, runs - start)), chain0, chain1)
            for start in range(0, runs, block)
        ]
        return np.concatenate(parts)

    def chains(self) -> tuple[LazyChain, LazyChain]:
        """Returns the laws of the transcript on the two neighbouring streams."""
        return self.chain(self.neighbours[0]), self.chain(self.neighbours[1])

    def chain(self, losses: npt.ArrayLike) -> LazyChain:
        """Returns the variant's law of the transcript on ``losses`` of shape (rounds, experts)."""
        return mutant_chain(self.learner, losses, self.mutation)

    def exact(self) -> ExactLoss:
        """Returns the exact privacy loss of the view on the two streams, which unlimited samples would show.

        Raises:
            InvalidArgumentError: It is not known exactly. For "actions" it is known on streams on which experts differ
                in one batch only, and without decisions inside batches.
        """
        return exact_view_loss(self.view, *self.chains())


def lazy_target(
    learner: LazyExperts, mutation: Mutation | None = None, *, view: View = "run", excess: float = 2.0
) -> LazyTarget:
    """Returns the target on the learner's own worst-case neighbours.

    Args:
        learner: The learner whose guarantee is the claim.
        mutation: The mistake; None for the correct learner.
        view: See :class:`LazyTarget`.
        excess: For unclipped losses: the factor by which the changed round exceeds the declared range.
    """
    excess = real("excess", excess, low=1.0)
    # On the neighbours that favour the decision, experts differ in a later batch too; actions have no exact law there.
    decisive = view == "decision" or (mutation == "no fake switches" and view == "run")
    first, second = learner.worst_case_neighbours(
        focus="decision" if decisive and mutation != "decisions every round" else "run"
    )
    if mutation == "unclipped losses":
        first[0] *= excess
        second[0] *= excess
    return LazyTarget(learner=learner, neighbours=(first, second), mutation=mutation, view=view)
