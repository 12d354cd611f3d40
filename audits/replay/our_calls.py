"""The calls of this library's mechanisms that are recorded: ``release``, ``simulate``, sessions and samplers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hockeystick.audits.replay.generator import RecordingGenerator
from hockeystick.audits.replay.noisy import Noisy
from hockeystick.audits.replay.our_inputs import Asked, Opening, OurCall
from hockeystick.audits.replay.queries import OtherDraw
from hockeystick.audits.replay.values import strip
from hockeystick.audits.replay.watch import Replacement, Watch
from hockeystick.mechanisms.data.record_samplers import Sampler
from hockeystick.mechanisms.randomness.noise import SimulationNoise
from hockeystick.mechanisms.release import Releasable
from hockeystick.mechanisms.thresholds.cumulative_above_threshold import CumulativeAboveThreshold, CumulativeSession
from hockeystick.mechanisms.thresholds.sparse_vector import SparseVectorSession
from hockeystick.mechanisms.thresholds.threshold_stream import ThresholdSession, ThresholdStream

_BEYOND = 1 << 70  # above every noisy query


def replacements(watch: Watch) -> Iterator[Replacement]:
    """Yields the methods to replace while a run lasts."""
    yield Releasable, "release", _release(watch)
    for kind in _family(Releasable):
        if "simulate" in vars(kind):
            yield kind, "simulate", _simulate(watch, vars(kind)["simulate"])
    for kind in _family(Sampler):
        if "draw" in vars(kind) and not getattr(vars(kind)["draw"], "__isabstractmethod__", False):
            yield kind, "draw", _sample(watch, vars(kind)["draw"])
    sessions: list[Any] = []
    starting: tuple[type, ...] = (ThresholdStream, CumulativeAboveThreshold)
    for owner in starting:
        yield owner, "start", _start(watch, vars(owner)["start"], sessions)
    asking: tuple[tuple[type, str], ...] = (
        (ThresholdSession, "ask"),
        (SparseVectorSession, "ask"),
        (CumulativeSession, "add"),
    )
    for session, name in asking:
        yield session, name, _ask(watch, vars(session)[name], sessions)


def _family(kind: type) -> Iterator[type]:
    yield kind
    below: list[type] = kind.__subclasses__()
    for one in below:
        yield from _family(one)


def _release(watch: Watch) -> Any:
    old = Releasable.release

    def release(self: Any, value: Any, **options: Any) -> Any:
        if not watch.records():
            return old(self, value, **options)
        seen = strip(value, Noisy._see)
        live = {**options, "noise": SimulationNoise(watch.tape.rng)}
        return watch.call(OurCall(self, seen, 1, False), lambda: old(self, seen, **live))

    return release


def _simulate(watch: Watch, old: Any) -> Any:
    def simulate(self: Any, value: Any, rng: Any, runs: int) -> Any:
        if not watch.records() or not isinstance(rng, RecordingGenerator):
            return old(self, value, rng, runs)
        seen = strip(value, Noisy._see)
        return watch.call(OurCall(self, seen, runs, True), lambda: old(self, seen, watch.tape.rng, runs))

    return simulate


def _sample(watch: Watch, old: Any) -> Any:
    def draw(self: Any, *given: Any, **options: Any) -> Any:
        if not watch.records():
            return old(self, *given, **options)
        live = {**options, "noise": SimulationNoise(watch.tape.rng)}
        shown = (self, given, options.get("records"))
        return watch.call(OtherDraw(f"{type(self).__name__}.draw", shown), lambda: old(self, *given, **live))

    return draw


def _start(watch: Watch, old: Any, sessions: list[Any]) -> Any:
    def start(self: Any, **options: Any) -> Any:
        if not watch.records():
            return old(self, **options)
        live = {**options, "noise": SimulationNoise(watch.tape.rng)}
        watch.call(Opening(self), lambda: None)
        with watch.quiet():
            session = old(self, **live)
        sessions.append(session)
        return session

    return start


def _ask(watch: Watch, old: Any, sessions: list[Any]) -> Any:
    def ask(self: Any, value: Any) -> Any:
        number = next((i for i, one in enumerate(sessions) if one is self), None)
        if number is None or not watch.records():
            return old(self, value)
        seen = strip(value, Noisy._see)
        mechanism = self._mechanism if isinstance(self, CumulativeSession) else self._stream

        def force(answer: Any) -> None:  # the session goes on as if it had drawn this answer
            self._limit = _BEYOND if answer is None or answer is False or answer is np.False_ else -_BEYOND

        return watch.call(Asked(mechanism, number, seen), lambda: old(self, seen), force=force)

    return ask
