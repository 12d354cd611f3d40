"""The base of all channels for levels: the centred losses of a label, its secret exchange, and blocks of simulations.

The losses of a label are u_j = middle - v_j, with v_j its levels, and lie within half a span of 0 for every label. With
a table of labels they are computed once for each distinct column.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array, boolean, integer, real
from hockeystick.learners.distribution.channels import exact_privacy
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import Levels, TableLevels
from hockeystick.learners.distribution.channels.messages import Channel, Message, Messages
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_DRAWN = 2**62


def span(value: object) -> float | None:
    """The parameter ``span``, far from where sums of noise overflow."""
    return None if value is None else real("span", value, low=0.0, high=1e100, low_open=True)


def epsilon(value: object) -> float:
    """The parameter ``epsilon``, in the range that events and exact arithmetic support."""
    return real("epsilon", value, low=1e-50, high=1e4)


def sigma(value: object) -> float:
    """The parameter ``sigma`` > 0, far from where sums with such noise overflow."""
    return real("sigma", value, low=0.0, high=1e300, low_open=True)


def flag(value: object) -> bool:
    """The parameter ``resample``."""
    return boolean("resample", value)


@frozen(eq=False, slots=False)
class LevelChannel(Channel):
    """Base of the channels for levels; a subclass defines the noise.

    Attributes:
        levels: The levels of the candidates, in one context.
        resample: Whether the label is exchanged in secret, with probability 1/T, for a draw from the reference law, as
            published. It does not improve the learner and amplifies privacy a little; for labels without a table it
            can only be simulated.
        span: The range to which noise is scaled, from ``levels.span``, the default, to 1e100. Use the largest span of
            all contexts for messages of equal accuracy. It is public and must not depend on labels.
    """

    levels: Levels = field()
    resample: bool = field(default=False, converter=flag, kw_only=True)
    span: float = field(default=None, converter=span, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.levels, Levels):
            raise InvalidArgumentError("levels", self.levels, "is not a Levels object", "use Reference.levels(...)")
        if self.span is None:
            object.__setattr__(self, "span", self.levels.span)
        if not self.levels.span <= self.span < math.inf:
            raise InvalidArgumentError(
                "span", self.span, f"is below the range of the levels, {self.levels.span}", "give at least that"
            )
        self.inner_event()  # refuses noise that is too little or too much for one

    @property
    def exchange_probability(self) -> float:
        """The probability that the label is exchanged: 1/T, or 0."""
        return 1.0 / self.levels.horizon if self.resample else 0.0

    @abstractmethod
    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns the cost of a message about a label that is never exchanged."""

    @abstractmethod
    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        """ln of the density of n messages, up to a constant of each, given R rows of centred losses: (n, R)."""

    @abstractmethod
    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        """Messages of n labels, by float noise."""

    @abstractmethod
    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        """Messages of n labels, by whole-number noise."""

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one message to the person with the label, under local adjacency.

        A secret exchange of the label encloses all noise of a message: its K numbers share it.
        """
        inner = self.inner_event()
        return accounting.InputMix(self.exchange_probability, inner) if self.resample else inner

    def privatise(
        self, label: object, *, noise: Noise | None = None, context: object = None, index: int | None = None
    ) -> Message:
        self.check_context(context)
        chosen = None if index is None else np.array([self._index(index)])
        source = check_noise(noise)
        return self._release(self._private([label], source), source, chosen).one(0)

    def privatise_all(
        self, labels: object, *, noise: Noise | None = None, index: npt.ArrayLike | None = None
    ) -> Messages:
        source = check_noise(noise)
        losses = self._private(labels, source)
        return self._release(losses, source, self._indices(index, len(losses)))

    def simulate(self, labels: object, rng: np.random.Generator, *, index: npt.ArrayLike | None = None) -> Messages:
        source = arguments.generator(rng)
        shape, flat = flattened(labels)
        chosen = self._indices(index, len(flat), shape)
        parts = []
        width = 1 if isinstance(self.levels, TableLevels) and self.payload != "reals" else self.count
        for rows in arguments.blocks(len(flat), width):
            losses = self._losses(flat[rows])
            if self.resample:
                losses = losses.exchanged(self.exchange_probability, source)
            parts.append(self._simulate(losses, source, None if chosen is None else chosen[rows]))
        return _joined(parts or [self._simulate(self._losses(flat), source, chosen)], shape)

    def log_likelihood_ratio(self, messages: Messages, label0: object, label1: object) -> FloatArray:
        if not self.resample:
            rows = self._losses(_pair(label0, label1)).rows()
            logs = self._log_densities(messages, rows)
            return np.asarray(logs[:, 0] - logs[:, 1])
        table = self._table("log_likelihood_ratio")
        weights = self._mixture()[table.columns(_pair(label0, label1))]
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        found = np.empty(len(messages.value))
        for part in arguments.blocks(len(found), len(self._rows)):
            index = None if messages.index is None else messages.index[part]
            logs = self._log_densities(Messages(index, messages.value[part]), self._rows)
            first, second = (special.logsumexp(logs + weight, axis=1) for weight in log_weights)
            found[part] = first - second
        return found

    @cached_property
    def _rows(self) -> FloatArray:
        """Centred losses of each column of the table, and last of values that are not labels, shape (U + 1, K)."""
        return self._centred(self._table("rows").rows)

    def _mixture(self) -> FloatArray:
        """The law of the column that a message is about, given the label's column: (U + 1, U + 1)."""
        law = np.append(self._table("mixture").column_law, 0.0)
        return exact_privacy.exchange_mixture(law / law.sum(), probability=self.exchange_probability)

    def _oracle_mixture(self) -> FloatArray | None:
        return self._mixture() if self.resample else None

    def _table(self, purpose: str) -> TableLevels:
        if not isinstance(self.levels, TableLevels):
            raise InvalidArgumentError(
                "levels", self.levels, f"have no table of labels, which {purpose} requires", "use a LabelTable"
            )
        return self.levels

    def _centred(self, levels: FloatArray) -> FloatArray:
        half = self.span / 2
        return np.asarray(np.clip(self.levels.middle - levels, -half, half))

    def _losses(self, labels: object) -> Losses:
        if isinstance(self.levels, TableLevels):
            return Losses(self, self.levels.columns(labels), None)
        return Losses(self, None, self._centred(self.levels.of(labels)))

    def _private(self, labels: object, noise: Noise) -> Losses:
        """The losses for the messages, after the secret exchange of labels."""
        if not self.resample:
            return self._losses(labels)
        table = self._table("a release with an exchange of labels")
        columns = table.columns(labels)
        exchanged = noise.coins(self.exchange_probability, len(columns))
        drawn = noise.uniform(_DRAWN, len(columns))  # the reference law need not be exact: it depends on no label
        steps = np.cumsum(table.column_law) / table.column_law.sum() * float(_DRAWN)
        others = np.minimum(np.searchsorted(steps, drawn, side="right"), len(steps) - 1)
        return Losses(self, np.where(exchanged, others, columns).astype(np.int64), None)

    def _index(self, index: object) -> int:
        return integer("index", index, low=0, high=self.count - 1)

    def _indices(self, index: npt.ArrayLike | None, size: int, shape: tuple[int, ...] | None = None) -> IntArray | None:
        if index is None:
            return None
        found = array("index", index, shape=(size,) if shape is None else shape, low=0, high=self.count - 1)
        if (found != np.floor(found)).any():
            raise InvalidArgumentError("index", index, "holds fractions", f"use candidates 0 .. {self.count - 1}")
        return found.reshape(-1).astype(np.int64)


@frozen(eq=False)
class Losses:
    """Centred losses of n labels: by columns of the channel's table, or as they are, shape (n, K)."""

    channel: LevelChannel
    columns: IntArray | None
    values: FloatArray | None

    def __len__(self) -> int:
        return len(self.columns if self.columns is not None else self.values)  # type: ignore[arg-type]

    def rows(self) -> FloatArray:
        """Shape (n, K)."""
        return self.channel._rows[self.columns] if self.values is None else self.values

    def pick(self, index: IntArray, table: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Returns the losses of one candidate each, shape (n,), or entries of another table of the channel's shape."""
        if self.values is None:
            source = self.channel._rows if table is None else table
            found: npt.NDArray[Any] = np.take(source.reshape(-1), self.columns * source.shape[1] + index)
            return found
        return np.take_along_axis(self.values, index[:, None], axis=1)[:, 0]

    def exchanged(self, probability: float, rng: np.random.Generator) -> Losses:
        """Returns the losses after a simulated exchange of some labels for draws from the reference law."""
        where = np.flatnonzero(rng.random(len(self)) < probability)
        if not len(where):
            return self
        others = self.channel._losses(self.channel.levels.resample(len(where), rng))
        if self.columns is not None and others.columns is not None:
            columns = self.columns.copy()
            columns[where] = others.columns
            return Losses(self.channel, columns, None)
        values = self.rows().copy()
        values[where] = others.rows()
        return Losses(self.channel, None, values)


def table_of(levels: Levels) -> LabelTable:
    """Returns the table of labels of the levels.

    Raises:
        InvalidArgumentError: the levels have no table.
    """
    if not isinstance(levels, Levels) or not isinstance(levels.hypotheses, LabelTable):
        raise InvalidArgumentError("levels", levels, "have no table of labels", "use those of a LabelTable")
    return levels.hypotheses


def flattened(labels: object) -> tuple[tuple[int, ...], npt.NDArray[Any]]:
    """Returns the shape of the labels of a simulation, and the labels as one row."""
    found = as_array("labels", labels, data=True)
    return found.shape, found.reshape(-1)


def _joined(parts: list[Messages], shape: tuple[int, ...]) -> Messages:
    value = parts[0].value if len(parts) == 1 else np.concatenate([part.value for part in parts])
    value = value.reshape((*shape, *value.shape[1:]))
    if parts[0].index is None:
        return Messages(None, value)
    index = parts[0].index if len(parts) == 1 else np.concatenate([np.asarray(part.index) for part in parts])
    return Messages(index.reshape(shape), value)


def _pair(label0: object, label1: object) -> npt.NDArray[Any]:
    pair = np.empty(2, dtype=object)
    pair[0], pair[1] = label0, label1
    return pair
