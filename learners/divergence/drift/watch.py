"""The query of a watch for drift on each window, which monitors and alarms share.

The server is trusted with the counts (see :class:`~hockeystick.learners.divergence.trusted.TrustedKL`). The window of a
record, and the number of records of a client in it, are public. ``scope`` is the difference of neighbouring data sets:

* "record": the symbol of one record, hence of one window. Windows are then disjoint data.
* "client": the symbols of all records of one client, at most ``group`` in each window, hence of all windows.

What is watched is KL(Pi || P) of the window's own frequencies P: from a noisy histogram with counts of half a record at
least, or with method "priest" from one noisy number, with the pseudo-count (see ``divergence.drift.methods``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, CountLogarithm, Smoothed
from hockeystick.learners.divergence.drift.methods import Method
from hockeystick.learners.divergence.drift.noisy_histogram import checked_counts
from hockeystick.learners.divergence.query_average import QueryAverage

Scope = Literal["record", "client"]


def _threshold(value: object) -> float:
    return real("threshold", value, low=0.0)


def _samples(value: object) -> int | None:
    return None if value is None else integer("samples", value, low=1)


def _logarithm(value: object) -> Smoothed | AssumedCounts:
    if not isinstance(value, Smoothed | AssumedCounts):
        raise InvalidArgumentError(
            "logarithm", value, "leaves frequencies of 0, for which the divergence is infinite", "use Smoothed()"
        )
    return value


@frozen(kw_only=True, eq=False)
class Watch:
    """Base of :class:`DriftMonitor`, which describes the fields, and of :class:`DriftAlarms`."""

    reference: FloatArray = field(converter=sensitivity.reference, repr=False)
    threshold: float = field(converter=_threshold)
    epsilon: float = field(converter=arguments.epsilon)
    scope: Scope = "record"
    group: int = field(default=1, converter=arguments.group)
    samples: int | None = field(default=None, converter=_samples)
    multiplier: float = field(default=0.0, converter=arguments.multiplier)
    logarithm: CountLogarithm = field(factory=Smoothed, converter=_logarithm)
    method: Method = "auto"

    def __attrs_post_init__(self) -> None:
        one_of("method", self.method, "auto", "histogram", "priest")
        if self.method == "histogram" and self._asks_for_priest():
            reason = 'is for method="priest", and so is each of multiplier and logarithm'
            raise InvalidArgumentError("samples", self.samples, reason, "leave them out")
        one_of("scope", self.scope, "record", "client")
        if self.scope == "record" and self.group != 1:
            raise InvalidArgumentError("group", self.group, "is more than one record", 'use scope="client"')
        if self.samples is None and self.multiplier != 0.0:
            reason = "has no effect if all symbols are asked for"
            raise InvalidArgumentError("multiplier", self.multiplier, reason, "leave it out, or give samples")

    def _asks_for_priest(self) -> bool:
        """Whether an argument has a meaning for "priest" alone."""
        return self.samples is not None or self.multiplier != 0.0 or self.logarithm != Smoothed()

    @property
    def by_histogram(self) -> bool:
        """Whether windows are looked at by noisy histograms."""
        return self.method == "histogram" or (self.method == "auto" and not self._asks_for_priest())

    def window_counts(self, data: ClientCounts) -> IntArray:
        """Returns the counts of a window (k,): not private.

        Raises:
            InvalidDataError: ``data`` is not a ClientCounts of these symbols, or has no record.
            InvalidArgumentError: with scope "client" a client has more than ``group`` records.
        """
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is not a ClientCounts")
        self._check_group(data.records())
        return checked_counts(data, len(self.reference))

    def _check_group(self, records: IntArray) -> None:
        if self.scope == "client" and records.size and records.max() > self.group:
            reason = f"has a client with more than {self.group} records"
            raise InvalidArgumentError("client_records", "...", reason, "cap them, for instance by ClientCounts.capped")

    def average(self, client_records: npt.ArrayLike, rng: np.random.Generator) -> QueryAverage:
        """Returns the query of one window, with all its clients as the cohort.

        Args:
            client_records: The public number of records of each client in it, shape (n,).
            rng: The source of the public coins; not used if all symbols are asked for.

        Raises:
            InvalidArgumentError: the window has no records, or with scope "client" a client has more than ``group``.
        """
        own = array("client_records", client_records, ndim=1, dtype=np.int64)
        self._check_group(own)
        if self.samples is not None:
            return QueryAverage.drawn(self.reference, own, samples=self.samples, rng=rng, logarithm=self.logarithm)
        return QueryAverage(
            reference=self.reference,
            symbols=np.arange(len(self.reference)),
            shares=self.reference,
            cohorts=(np.arange(len(own)),),
            client_records=own,
            logarithm=self.logarithm,
        )

    def unit(self) -> str:
        """Returns a description of the difference between neighbouring data sets."""
        if self.scope == "record":
            return "the symbol of one record"
        return f"the symbols of one client's records, at most {self.group} in each window"

    def plan(self, size: int) -> AccountantGraph:
        """Returns the graph before its release: ``size`` blocks of data, the public coins and the assumptions."""
        assumed = [
            f"neighbours differ in {self.unit()}; in which window a record is, and how many a client has, is public",
            "the server, which is trusted, sees the counts",
        ]
        if not self.by_histogram and self.logarithm.assumption is not None:
            assumed.append(self.logarithm.assumption)
        graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=tuple(assumed))
        return graph.source("windows", size=size).public("coins")
