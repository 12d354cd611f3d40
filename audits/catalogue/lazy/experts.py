"""The lazy learner of experts as an audit target, correct and broken, in each view of what an adversary sees.

A target is called as ``f(losses, rng, runs)`` and returns one number per run: what the view shows of it (see
:mod:`hockeystick.audits.catalogue.lazy.views`), mostly a log-likelihood ratio between two fixed neighbouring streams
under the target's own law. It is a public function of what the adversary sees, so testing it tests the claim.

The broken variants are those that matter in practice (see :mod:`hockeystick.audits.catalogue.lazy.mutants`). Because
each of them is a :class:`~hockeystick.learners.LazyChain`, its exact privacy loss is known, and from it how many
samples an audit needs (:func:`hockeystick.audits.catalogue.lazy.samples_needed.samples_needed`).
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
from hockeystick.learners import ExactLoss, LazyChain, LazyExperts

_ENTRIES = 1 << 24  # of one transcript array drawn at a time


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(name, value, "is unknown", f"use one of {', '.join(map(repr, allowed))}")


@frozen(kw_only=True, eq=False)
class LazyTarget:
    """One variant of the lazy learner on two neighbouring streams.

    Args:
        learner: The learner whose certificate is the claim.
        neighbours: Two streams of shape (rounds, experts) that differ in one round.
        mutation: What is broken; None for the correct learner.
        view: "run" for the whole transcript, "decision" for the first decision that may differ, "actions" for the
            played experts alone, "count" and "switch" for two crude statistics of them.

    Raises:
        InvalidArgumentError: unknown mutation or view, a learner with a draw budget, or streams that the variant does
            not take.
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
                "learner", self.learner.draw_budget, "has a draw budget, which these targets do not keep",
                "audit its own log_likelihood_ratio",
            )  # fmt: skip
        for stream in self.neighbours:
            self.chain(stream)

    def __call__(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """What the view shows of ``runs`` transcripts drawn on ``losses``, shape (runs,); +-100 for infinite ratios."""
        runs = integer("runs", runs, low=1)
        chain, (chain0, chain1) = self.chain(losses), self.chains()
        block = max(1, _ENTRIES // chain.batches)
        parts = [
            statistic(self.view, chain.simulate(rng, min(block, runs - start)), chain0, chain1)
            for start in range(0, runs, block)
        ]
        return np.concatenate(parts)

    def chains(self) -> tuple[LazyChain, LazyChain]:
        """The laws of the transcript on the two neighbouring streams."""
        return self.chain(self.neighbours[0]), self.chain(self.neighbours[1])

    def chain(self, losses: npt.ArrayLike) -> LazyChain:
        """The variant's law of the transcript on ``losses`` of shape (rounds, experts)."""
        return mutant_chain(self.learner, losses, self.mutation)

    def exact(self) -> ExactLoss:
        """The exact privacy loss of the view on the two streams: what an audit with unlimited samples would find.

        Raises:
            InvalidArgumentError: it is not known exactly; for "actions" it is on streams that tell experts apart in
                one batch alone, and without decisions inside batches.
        """
        return exact_view_loss(self.view, *self.chains())


def lazy_target(
    learner: LazyExperts, mutation: Mutation | None = None, *, view: View = "run", excess: float = 2.0
) -> LazyTarget:
    """The target on the learner's own worst-case neighbours.

    Args:
        learner: The learner whose certificate is the claim.
        mutation: What is broken; None for the correct learner.
        view: See :class:`LazyTarget`.
        excess: For unclipped losses: by what factor the changed round exceeds the declared range.
    """
    excess = real("excess", excess, low=1.0)
    # The neighbours that favour the decision tell experts apart in a later batch too, where actions have no exact law.
    decisive = view == "decision" or (mutation == "no fake switches" and view == "run")
    first, second = learner.worst_case_neighbours(
        focus="decision" if decisive and mutation != "decisions every round" else "run"
    )
    if mutation == "unclipped losses":
        first[0] *= excess
        second[0] *= excess
    return LazyTarget(learner=learner, neighbours=(first, second), mutation=mutation, view=view)
