"""A small block of outputs, drawn twice with one seed: whether the target has random numbers of its own."""

from __future__ import annotations

import time

from hockeystick.audits.drawing.own_process import limited
from hockeystick.audits.drawing.warnings_once import collected
from hockeystick.audits.outputs.one_value import equal_tables
from hockeystick.audits.outputs.reading import Codebook, Table, read
from hockeystick.audits.targets.calling import ONE_BY_ONE, Stream, Target, TargetEndedError, TargetError, most_outputs

_PURPOSE = 9  # of the streams, apart from all that an audit counts
_SECONDS = 1.0  # a block that takes longer is not drawn again


@collected()  # its warnings are those of outputs that are counted
def repeats(target: object, data: object, seed: int, *, catch: bool = False, timeout: float | None = None) -> bool:
    """Returns False if a target's outputs differ between two draws with equal generators.

    It draws at most eight outputs, twice. Outputs are not drawn where the target states ``repeatable`` or where they
    are recorded, and not again where the first draw takes more than a second, or ends its process: then the answer is
    True. So it is for a target whose own random numbers happen to be equal, which for fair coins has probability 2^-8.
    Call it when the audit has drawn all its outputs: a target with a state of its own then gives the audit the same
    outputs as without.
    """
    if hasattr(target, "repeatable") or most_outputs(target) is not None:
        return True
    called = limited(Target.of(target, catch=catch), timeout)
    runs = ONE_BY_ONE if called.most is None else min(ONE_BY_ONE, called.most)
    size, book, started = runs if called.vectorised else 1, Codebook(), time.perf_counter()
    tables: list[Table] = []
    for _ in range(2):
        stream, outputs = Stream(called, data, seed, 0, _PURPOSE), []
        while stream.drawn < runs:
            try:
                found = stream.draw(size)
            except TargetEndedError:
                return True
            slow = not tables and time.perf_counter() - started > _SECONDS
            if stream.error is not None or slow:
                return True
            outputs.append(found)
        block = outputs[0] if called.vectorised else [one for found in outputs for one in found]
        try:
            tables.append(read(block, runs, book, vectorised=called.vectorised))
        except TargetError:  # outputs that can be read in large blocks only
            return True
    return equal_tables(*tables)
