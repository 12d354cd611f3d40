"""Uniform calls of targets: mechanisms, vectorised callables, and callables that return one output."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.errors import visible
from hockeystick.accounting.validate import integer
from hockeystick.audits.targets.program_ends import ExitCalled, kept_alive

ONE_BY_ONE = 8  # calls that share a generator
_RAMP = (128, 2048, 16384)  # runs of the first calls of a vectorised target; later calls have the last size
_NUMBERS = 1 << 21  # the most numbers that a vectorised call should return
_TEXT = 400  # characters of a target's error in a message


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
        self.message = visible(" ".join(message.split()))
        self.raised = raised
        self.runs = runs

    def __str__(self) -> str:
        return self.message


class TargetEndedError(TargetError):
    """A target would have ended the program, took too long, or ended the process that it was in.

    It ends an audit at once, also where exceptions count as outputs. See :func:`hockeystick.audits.audit` for an
    example.
    """


@frozen
class Raised:
    """The output of a run that raised, where exceptions count as outputs."""

    error: str

    def __str__(self) -> str:
        return f"raised {self.error}"


@frozen
class Outputs:
    """The outputs of a number of runs, and their errors.

    Attributes:
      found: the outputs: the target's return value if it is vectorised, else a list.
      raised: number of runs that raised, and that have no output.
      error: what the last of them raised.
      rng: the generator after these runs.
    """

    found: Any
    raised: int
    error: Exception | None
    rng: np.random.Generator


@frozen
class Target:
    """A target of an audit, in callable form.

    Attributes:
      call: ``call(data, rng)`` returns one output; if ``vectorised``, ``call(data, rng, runs)`` returns ``runs``.
      catch: whether exceptions are outputs; for targets that return one output a call.
      most: the most runs of one call; None for no limit. A target states it as ``runs_per_call``.
      elsewhere: makes the calls of :meth:`outputs` in its place, in another process; None for this process.
    """

    call: Callable[..., Any]
    vectorised: bool
    catch: bool = False
    most: int | None = None
    elsewhere: Callable[[object, np.random.Generator, int], Outputs] | None = None

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

    def outputs(self, data: object, rng: np.random.Generator, runs: int) -> Outputs:
        """Returns the outputs of ``runs`` runs on a data set, in one call if the target is vectorised.

        A run that raises has no output; if exceptions are outputs, its output is a :class:`Raised`.

        Raises:
          TargetEndedError: a run would have ended the program.
          KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self.elsewhere is not None:
            return self.elsewhere(data, rng, runs)
        with ends_refused():
            return self._outputs(data, rng, runs)

    def _outputs(self, data: object, rng: np.random.Generator, runs: int) -> Outputs:
        found: Any = []
        raised, last = 0, None
        for _ in range(1 if self.vectorised else runs):
            try:
                if self.vectorised:
                    found = self.call(data, rng, runs)
                else:
                    found.append(self.call(data, rng))
            except Exception as error:
                if self.catch:
                    found.append(Raised(type(error).__name__))
                else:
                    raised, last = raised + (runs if self.vectorised else 1), error
        return Outputs(found, raised, last, rng)


@contextlib.contextmanager
def ends_refused() -> Iterator[None]:
    """Turns what would have ended the program into an error; other exceptions than those named here stay.

    Raises:
      TargetEndedError: the code in the ``with`` block raised ``SystemExit`` or ``GeneratorExit``, called ``os._exit``,
        or raised ``KeyboardInterrupt`` without a Ctrl-C.
      KeyboardInterrupt: Ctrl-C was pressed.
    """
    with kept_alive() as interruptions:
        try:
            yield
        except ExitCalled as error:
            raise TargetEndedError(_ENDED.format(f"called os._exit({error})")) from None
        except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and interruptions.seen:
                raise
            raise TargetEndedError(_ENDED.format(f"raised {type(error).__name__}")) from error


_ENDED = "target {}, which would have ended the program: return an output, or raise an Exception"


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
            self.drawn += runs
            return self._block(self._generator(), runs).found
        found: list[Any] = []
        while runs:
            left = ONE_BY_ONE - self.drawn % ONE_BY_ONE
            if self._rng is None or left == ONE_BY_ONE:
                self._rng = self._generator()
            size = min(left, runs)
            self.drawn, runs = self.drawn + size, runs - size
            block = self._block(self._rng, size)
            self._rng = block.rng
            found += block.found
        return found

    def _block(self, rng: np.random.Generator, runs: int) -> Outputs:
        block = self.target.outputs(self.data, rng, runs)
        self.raised, self.error = self.raised + block.raised, block.error or self.error
        return block

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
    text = " ".join(f"{type(error).__name__}: {error_text(error)}".split())
    way_out = "" if vectorised else "; count exceptions as outputs with exceptions_as_output=True"
    raise TargetError(
        f"target raised in {raised[0]} of {runs} runs on d0 and {raised[1]} of {runs} on d1 ({text}){way_out}",
        raised,
        (runs, runs),
    ) from error


def error_text(error: Exception) -> str:
    """Returns the text of an error, which may have none, or an endless one."""
    try:
        text = str(error)
    except Exception:  # of a class of the target's own
        return "its text can't be read"
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
