"""Channels that speak of one candidate: how a device makes one message, in Python numbers alone.

The tables that a device looks its label up in are computed once, when it sends its first message; from then on a
message takes some ten microseconds. Many labels at once go through ``privatise_all``, which draws the same law.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

from attrs import frozen

from hockeystick.learners.distribution.channels.level_channel import LevelChannel, table_of
from hockeystick.learners.distribution.channels.levels import TableLevels
from hockeystick.learners.distribution.channels.messages import Message, uniform_word, word_bits
from hockeystick.mechanisms.randomness.noise import Noise


@frozen(eq=False, slots=False)
class SampledChannel(LevelChannel):
    """Base of the channels whose messages are about one candidate; a subclass has the noise."""

    @abstractmethod
    def _told(self, column: int, chosen: int, rest: int, noise: Noise | None) -> int | float:
        """The value of a message about one entry of the table.

        Args:
            column: Of the label; that of no label is the last.
            chosen: The candidate.
            rest: Uniform below 2^bits.
            noise: None for secure noise.
        """

    def privatise(
        self, label: object, *, noise: Noise | None = None, context: object = None, index: int | None = None
    ) -> Message:
        if self.resample or not isinstance(self.levels, TableLevels):
            return super().privatise(label, noise=noise, context=context, index=index)
        if context is not None:
            self.check_context(context)
        rest, drawn = divmod(uniform_word(noise, self._words), self._count)
        chosen = drawn if index is None else self._index(index)
        return Message(chosen, self._told(self.levels.column.item(self._place(label)), chosen, rest, noise))

    @cached_property
    def _count(self) -> int:
        return self.count

    @cached_property
    def _place(self) -> Callable[[object], int]:
        return table_of(self.levels).place

    @cached_property
    def _bits(self) -> int:
        return word_bits(self.count)

    @cached_property
    def _words(self) -> int:
        return self.count << self._bits
