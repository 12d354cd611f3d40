"""The parameters of federated experts with one good expert, and the plan and graph that follow from them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import (
    AccountantGraph,
    Guarantee,
    InvalidArgumentError,
    InvalidDataError,
    PrivacyEvent,
    field_checks,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, boolean, integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.online_learner import EXACT_WEIGHTS, OnlineLearner
from hockeystick.learners.federated.one_good_expert import plan
from hockeystick.learners.federated.one_good_expert.losses import segment_sums
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms import CumulativeAboveThreshold, ExponentialMechanism
from hockeystick.mechanisms.contract.arguments import array_length, quotient_up

Indexing = Literal["clean", "paper"]
LARGEST = 1e300
"""The largest total loss: sums and differences of such are finite."""


def _period(value: object) -> int:
    return integer("period", value, low=1)


def _switches(value: object) -> int:
    return integer("switches", value, low=1)


def _threshold(value: object) -> float:
    return real("threshold", value)


def _best_loss(value: object) -> float:
    return real("best_loss", value, low=0.0)


def _indexing(value: object) -> Indexing:
    return one_of("indexing", value, "clean", "paper")


def _lazy_vectors(value: object) -> bool:
    return boolean("lazy_vectors", value)


@frozen(kw_only=True)
class SVTSetting(OnlineLearner):
    """The parameters of :class:`FedSVT`, documented there, and the properties that follow from them alone."""

    refuses = {"release_mixtures": EXACT_WEIGHTS}

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    period: int = field(default=1, converter=_period)
    switches: int = field(converter=_switches)
    learning_rate: float = field(converter=arguments.learning_rate)
    threshold: float = field(converter=_threshold)
    best_loss: float = field(default=0.0, converter=_best_loss)
    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)
    indexing: Indexing = field(default="clean", converter=_indexing)
    lazy_vectors: bool = field(default=False, converter=_lazy_vectors)

    def __attrs_post_init__(self) -> None:
        if self.period > self.rounds:
            raise InvalidArgumentError("period", self.period, f"exceeds rounds={self.rounds}", "use a smaller one")
        _ = self.windows, self.draw  # refuse scales and rates that no mechanism can have

    @property
    def blocks(self) -> int:
        """The number of tests of sums: T/N, rounded down."""
        return self.rounds // self.period

    @property
    def edges(self) -> npt.NDArray[np.int64]:
        """The first round (from 0) of each block and of the tail, and at the end T; shape (blocks + 2,)."""
        array_length("rounds", self.rounds, self.blocks + 2)
        array_length("experts", self.experts, self.experts)
        begins = np.arange(self.blocks + 1) * self.period - (self.indexing == "paper")
        return np.append(np.maximum(begins, 0), self.rounds)

    def block_end(self, block: int) -> int:
        """Returns the number of rounds up to the end of block number ``block``, from 0."""
        return max(0, (block + 1) * self.period - (self.indexing == "paper"))

    @property
    def windows(self) -> CumulativeAboveThreshold:
        """The mechanism that tests sums, per record."""
        return CumulativeAboveThreshold(
            self.threshold, threshold_scale=self.threshold_scale, query_scale=self.query_scale
        )

    @property
    def draw(self) -> ExponentialMechanism:
        """The mechanism that draws an expert; its scores are minus sums of losses, and a record moves each by 1."""
        return ExponentialMechanism(quotient_up(2.0, self.learning_rate))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, with one view for each threat model by its name; see ``plan.graph``."""
        return plan.graph(
            blocks=self.blocks,
            switches=self.switches,
            learning_rate=self.learning_rate,
            threshold_scale=self.threshold_scale,
            query_scale=self.query_scale,
        )

    @property
    def client_losses(self) -> int:
        """The number of a client's losses that are sent; a guarantee for a group of so many protects a client."""
        return self.block_end(self.blocks - 1)

    def guarantee(self, view: ThreatModel | str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee for ``group`` losses together, of any clients and rounds.

        Use m to protect a round of all clients, and :attr:`client_losses` to protect a client.

        Args:
            view: The threat model; None for the plays.
            group: The number of losses that are replaced.

        Raises:
            InvalidArgumentError: the threat model is unknown, or is the server, which receives exact sums.
        """
        adversary = threat_model(ThreatModel.OUTPUT if view is None else view)
        if adversary not in plan.TRUSTED:
            raise InvalidArgumentError(
                "view",
                adversary.value,
                "has no guarantee: clients send exact sums",
                'trust the server ("central"), or use secure aggregation with noise at the clients',
            )
        return self.graph().guarantee(view=adversary.value, group=group)

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run under a trusted server, as one event for a larger graph or a ledger."""
        return self.guarantee(ThreatModel.CENTRAL).event

    def logits(self, totals: FloatArray) -> FloatArray:
        """Returns the log-odds of a draw from the losses of all clients, shape (..., experts); the largest is 0.

        Raises:
            InvalidDataError: the losses are not finite numbers, or not one for each expert.
        """
        given = array("totals", totals, low=-LARGEST, high=LARGEST, data=True)
        if given.shape[-1:] != (self.experts,):
            raise InvalidDataError("totals", given, "does not have one number for each expert")
        scores = np.maximum(given, min(self.clients * self.best_loss, LARGEST))
        return np.asarray(-0.5 * self.learning_rate * (scores - scores.min(axis=-1, keepdims=True)))

    def sums(self, losses: object) -> FloatArray:
        """Returns the losses summed over clients and blocks, the tail last, shape (blocks + 1, experts)."""
        return np.concatenate(list(segment_sums(losses, clients=self.clients, experts=self.experts, edges=self.edges)))
