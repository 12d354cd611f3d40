"""Uniform calls of targets: mechanisms, vectorised callables, and callables that return one output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.validate import integer

ONE_BY_ONE = 8  # calls that share a generator
_RAMP = (128, 2048, 16384)  # runs of the first calls of a vectorised target; later calls have the last size
_NUMBERS = 1 << 21  # the most numbers that a vectorised call should return


class TargetError(HockeystickError):
    """A target raised, or returned something that can't be read as outputs.

    Attributes:
      raised: number of runs that raised, on (d0, d1).
      runs: number of runs, on (d0, d1).

    Example:
      >>> import hockeystick as hs
      >>> try:
      ...     hs.audit(lambda data, rng: 1 / data, claim=(1.0, 0.0), neighbours=(1, 0), samples=20, rng=1)
      ... except hs.audits.TargetError as error:
      ...     print(error.raised, error.runs)
      (0, 13) (13, 13)
    """

    def __init__(self, message: str, raised: tuple[int, int] = (0, 0), runs: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message, raised, runs)
        self.message = message
        self.raised = raised
        self.runs = runs

    def __str__(self) -> str:
        return self.message


@frozen
class Raised:
    """The output of a run that raised, where exceptions count as outputs."""

    error: str

    def __str__(self) -> str:
        return f"raised {self.error}"


@frozen
class Target:
    """A target of an audit, in callable form.

    Attributes:
      call: ``call(data, rng)`` returns one output; if ``vectorised``, ``call(data, rng, runs)`` returns ``runs``.
      catch: whether exceptions are outputs; for targets that return one output a call.
      most: the most runs of one call; None for no limit. A target states it as ``runs_per_call``.
    """

    call: Callable[..., Any]
    vectorised: bool
    catch: bool = False
    most: int | None = None

    @classmethod
    def of(cls, target: object, *, catch: bool = False) -> Target:
        """Returns the callable form of an object with ``simulate``, of ``f(data, rng, runs)`` or of ``f(data, rng)``.

        Raises:
          InvalidArgumentError: ``target`` is none of these, or it is vectorised and ``catch`` is true.
        """
        simulate = getattr(target, "simulate", None)
        if isinstance(target, type) and callable(simulate):
            raise InvalidArgumentError("target", target, "is a class", "give an instance of it")
        if callable(simulate):
            found = cls(simulate, vectorised=True, catch=catch, most=getattr(target, "runs_per_call", None))
        elif callable(target):
            found = cls(*_calling(target), catch=catch)
        else:
            raise InvalidArgumentError(
                "target",
                target,
                "is neither a mechanism nor callable",
                "give an object with simulate(value, rng, runs), f(data, rng) or f(data, rng, runs)",
            )
        if catch and found.vectorised:
            raise InvalidArgumentError(
                "exceptions_as_output",
                True,
                "needs a target that is called once per output; this one draws many runs in a call",
                "wrap it as f(data, rng)",
            )
        return found


def _calling(target: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Returns the callable, with ``runs`` as third argument, and whether it takes the number of runs.

    It does if it has a parameter ``runs`` that is not already bound, or three positional ones without a default.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some builtins have no signature
        return target, False
    call, vectorised, arguments, named = target, False, 2, {}
    required = [p for p in signature.parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    runs = signature.parameters.get("runs")
    if runs is not None and runs.kind > runs.POSITIONAL_ONLY and not _bound(target, "runs"):
        call, vectorised, named = _ByKeyword(target), True, {"runs": 1}
    elif runs is not None and runs.kind == runs.POSITIONAL_ONLY or len(required) == 3:
        vectorised, arguments = True, 3
    try:
        signature.bind(*range(arguments), **named)
    except TypeError as error:
        raise InvalidArgumentError(
            "target", target, f"can't be called ({error})", "give f(data, rng) or f(data, rng, runs)"
        ) from None
    return call, vectorised


@frozen
class _ByKeyword:
    target: Callable[..., Any]

    def __call__(self, data: object, rng: np.random.Generator, runs: int) -> Any:
        return self.target(data, rng, runs=runs)


def _bound(target: object, name: str) -> bool:
    while isinstance(target, functools.partial):
        if name in target.keywords:
            return True
        target = target.func
    return False


def vectorised_size(call: int, numbers: int, most: int | None = None) -> int:
    """Returns the number of runs in a call of a vectorised target, if each output has ``numbers`` numbers."""
    size = min(_RAMP[min(call, len(_RAMP) - 1)], _NUMBERS // max(1, numbers))
    return max(1, size if most is None else min(size, most))


@define
class Stream:
    """Outputs of a target on one data set, for one purpose, in an order that the seed fixes.

    The outputs of different streams are independent: each call of a vectorised target, and each block of 8 calls of
    another target, has a generator of its own, seeded by (seed, side, purpose, number of the call or block). So the
    outputs depend on the seed alone, and not on the sizes of the calls.
    """

    target: Target
    data: object
    seed: int
    side: Literal[0, 1]
    purpose: int
    drawn: int = 0
    raised: int = 0
    error: Exception | None = None
    calls: int = 0  # generators used so far
    _rng: np.random.Generator | None = field(default=None, init=False)

    def next_size(self, numbers: int) -> int:
        """Returns the number of runs for the next :meth:`draw`, if each output has ``numbers`` numbers."""
        if not self.target.vectorised:
            return ONE_BY_ONE - self.drawn % ONE_BY_ONE
        return vectorised_size(self.calls, numbers, self.target.most)

    def draw(self, runs: int) -> Any:
        """Returns ``runs`` more outputs: the target's return value if it is vectorised, else a list.

        A run that raises is counted in ``raised`` and has no output; if exceptions are outputs, its output is a
        :class:`Raised`.
        """
        if self.target.vectorised:
            rng = self._generator()
            try:
                outputs = self.target.call(self.data, rng, runs)
            except Exception as error:
                self.raised, self.error, outputs = self.raised + runs, error, []
            self.drawn += runs
            return outputs
        found: list[Any] = []
        for _ in range(runs):
            if self.drawn % ONE_BY_ONE == 0:
                self._rng = self._generator()
            self.drawn += 1
            try:
                found.append(self.target.call(self.data, self._rng))
            except Exception as error:
                if self.target.catch:
                    found.append(Raised(type(error).__name__))
                else:
                    self.raised, self.error = self.raised + 1, error
        return found

    def _generator(self) -> np.random.Generator:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(self.side, self.purpose, self.calls))
        self.calls += 1
        return np.random.default_rng(sequence)


def known_seed(rng: object) -> int:
    """Returns a seed: ``rng`` itself, or one below 2^63 drawn from a generator, or a fresh one for None.

    Raises:
      InvalidArgumentError: ``rng`` is none of these.
    """
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 63))
    try:
        return integer("rng", rng, low=0)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("rng", rng, error.reason, "give None, a seed or a numpy Generator") from None


def child_seed(seed: int, *key: int) -> int:
    """Returns the seed for one purpose, independent of those for other purposes and of ``seed`` itself."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def neighbour_pair(target: object, neighbours: Any) -> tuple[Any, Any]:
    """Returns the pair of data sets for an audit: ``neighbours``, or by default the target's own worst case.

    Raises:
      InvalidArgumentError: the target has no worst case of its own, or ``neighbours`` is not a pair.
    """
    if neighbours is None:
        worst = getattr(target, "worst_case_neighbours", None)
        if not callable(worst):
            raise InvalidArgumentError("neighbours", None, "is missing", "give two neighbouring data sets (d0, d1)")
        neighbours = worst()
    elif isinstance(neighbours, list):
        reason, remedy = "is a list, of one pair or of several", "give a tuple (d0, d1) of two data sets"
        raise InvalidArgumentError("neighbours", f"<list of {len(neighbours)}>", reason, remedy)
    if isinstance(neighbours, (str, bytes, dict, set)) or not hasattr(neighbours, "__iter__"):
        raise InvalidArgumentError("neighbours", neighbours, "is not a pair", "give two data sets (d0, d1)")
    pair = tuple(neighbours)
    if len(pair) != 2:
        raise InvalidArgumentError("neighbours", neighbours, f"holds {len(pair)} data sets", "give two (d0, d1)")
    return pair


def most_outputs(target: object) -> int | None:
    """Returns how many outputs of each data set there are; None for a target that can draw any number."""
    left = getattr(target, "left", None)
    return left if isinstance(left, int) and not isinstance(target, type) else None


def notes_on(target: object, *, repeats: bool = True) -> list[str]:
    """Returns the sentences that a verdict on the target needs: on its randomness, and its own ``audit_notes``.

    Args:
      target: the target.
      repeats: whether its outputs repeat with the seed, if it has no attribute ``repeatable``.
    """
    found = []
    if not getattr(target, "repeatable", repeats):
        found.append("the outputs come from the target's own source of random numbers: the seed does not repeat them")
    own = getattr(target, "audit_notes", None)
    if callable(own) and not isinstance(target, type):
        found.extend(own())
    return found


def equal_data(d0: Any, d1: Any) -> bool:
    """Returns whether two data sets are known to be equal."""
    try:
        if isinstance(d0, np.ndarray) or isinstance(d1, np.ndarray):
            return bool(np.array_equal(d0, d1))
        return bool(d0 == d1)
    except Exception:  # data may be of any type, and == may raise or return anything
        return d0 is d1


def refuse_raised(raised: tuple[int, int], runs: int, error: Exception, *, vectorised: bool) -> NoReturn:
    """Raises the error for a target that raised in ``raised`` of ``runs`` runs on (d0, d1).

    Raises:
      TargetError: always, with the counts per data set, and ``error`` as its cause.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    way_out = "" if vectorised else "; count exceptions as outputs with exceptions_as_output=True"
    raise TargetError(
        f"target raised in {raised[0]} of {runs} runs on d0 and {raised[1]} of {runs} on d1 ({text}){way_out}",
        raised,
        (runs, runs),
    ) from error
