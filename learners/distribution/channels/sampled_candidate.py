"""The base of channels with messages about one candidate: one message on a device, in Python numbers alone.

The tables in which a device looks up its label are computed once, for its first message; after that a message takes
about ten microseconds. ``privatise_all`` draws from the same law for many labels at once.
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
    """Base of the channels whose messages are about one candidate; a subclass defines the noise."""

    @abstractmethod
    def _message_value(self, column: int, chosen: int, rest: int, noise: Noise | None) -> int | float:
        """Returns the value of a message about one entry of the table.

        Args:
            column: The column of the label; the last one is for values that are not labels.
            chosen: The candidate.
            rest: A uniform integer below 2^bits.
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
        return Message(chosen, self._message_value(self.levels.column.item(self._place(label)), chosen, rest, noise))

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
