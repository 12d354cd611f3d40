"""Noisy values that nobody has looked at yet.

A ``Noisy`` is base + Σ coefficient·draw, entry by entry. Sums, differences and multiples of noisy values are noisy
values; an index of the largest one, or a comparison of two, is a call of its own, since only that becomes known.
Anything else (a return, a float, a function of numpy) looks at the value, and this is the call that adds noise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import define, frozen
from numpy.lib.mixins import NDArrayOperatorsMixin

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.replay.queries import AddedNoise, Comparison, Winner
from hockeystick.audits.replay.tape import ADDED, COMPARED, FRESH, KNOWN, NotCoveredError, Tape

_COMPARISONS = {
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
}


@frozen(eq=False)
class Term:
    """One draw for each entry, with its coefficient."""

    coefficient: FloatArray
    draw: IntArray

    def mapped(self, change: Callable[[Any], Any]) -> Term:
        return Term(change(self.coefficient), change(self.draw))

    def times(self, factor: Any, shape: tuple[int, ...]) -> Term:
        return Term(np.broadcast_to(self.coefficient, shape) * factor, np.broadcast_to(self.draw, shape))


class Noisy(NDArrayOperatorsMixin):
    """A value with noise that is looked at late; see the module."""

    __array_priority__ = 1000
    __slots__ = ("_base", "_seen", "_tape", "_terms")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, base: FloatArray, terms: tuple[Term, ...]) -> None:
        self._tape, self._base, self._terms = tape, np.asarray(base, dtype=np.float64), terms
        self._seen: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._base.shape

    @property
    def ndim(self) -> int:
        return self._base.ndim

    @property
    def size(self) -> int:
        return self._base.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    # Looking ---------------------------------------------------------------------------------------------------------

    def _see(self) -> Any:
        """Returns the value as numpy would have returned it: a float for a scalar."""
        if self._seen is None:
            self._seen = _look(self._tape, self._base.reshape(-1), self._flat()).reshape(self.shape)
        return self._seen.copy() if self.ndim else float(self._seen)

    def _flat(self) -> tuple[Term, ...]:
        return tuple(term.mapped(lambda x: np.broadcast_to(x, self.shape).reshape(-1)) for term in self._terms)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._see(), dtype=dtype)

    def __float__(self) -> float:
        return float(self._see())

    def __int__(self) -> int:
        return int(self._see())

    def __complex__(self) -> complex:
        return complex(self._see())

    def __bool__(self) -> bool:
        return bool(self._see())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._see(), digits) if digits is not None else round(self._see())

    def __trunc__(self) -> int:
        return int(self._see())

    def __repr__(self) -> str:
        return repr(self._see())

    def __format__(self, spec: str) -> str:
        return format(self._see(), spec)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("object of type 'float' has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("'float' object is not iterable")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return self._part(lambda x: np.asarray(x[index]))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotCoveredError(
            "entries of an array with fresh noise are set: a replay follows a copy of its values only"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._see().__reduce_ex__(protocol)

    def __copy__(self) -> Noisy:
        return self

    def __deepcopy__(self, memo: object) -> Noisy:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self._see()) if self.ndim else np.float64(self._see()), name)

    # Rearranging -----------------------------------------------------------------------------------------------------

    def _part(self, change: Callable[[Any], Any]) -> Noisy:
        terms = tuple(term.mapped(lambda x: change(np.broadcast_to(x, self.shape))) for term in self._terms)
        return Noisy(self._tape, change(self._base), terms)

    def reshape(self, *shape: Any) -> Noisy:
        return self._part(lambda x: x.reshape(*shape))

    def ravel(self) -> Noisy:
        return self.reshape(-1)

    def flatten(self) -> Noisy:
        return self.reshape(-1)

    def copy(self) -> Noisy:
        return self

    @property
    def T(self) -> Noisy:  # numpy's name
        return self._part(np.transpose)

    def item(self, *index: Any) -> float:
        return float(np.asarray(self._see()).item(*index))

    def argmax(self, *given: Any, **named: Any) -> Any:
        return np.argmax(self, *given, **named)

    def argmin(self, *given: Any, **named: Any) -> Any:
        return np.argmin(self, *given, **named)

    # Arithmetic ------------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method == "__call__" and not options and out is None:
            found = _linear(ufunc, inputs)
            if found is not None:
                return found
            if ufunc in _COMPARISONS and all(map(_is_numeric, inputs)):
                return _compare(ufunc, *inputs)
        if method == "__call__" and out is not None and not options:  # x += noise, for an array x
            found = ufunc(*inputs)
            if isinstance(out[0], Noisy):  # noise += x
                return found
            np.copyto(out[0], found._see() if isinstance(found, Noisy) else found)
            return out[0]
        seen = [one._see() if isinstance(one, Noisy) else one for one in inputs]
        return getattr(ufunc, method)(*seen, **({} if out is None else {"out": out}), **options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.argmax, np.argmin) and isinstance(args[0], Noisy):
            found = _winners(args[0], func is np.argmax, *args[1:], **kwargs)
            if found is not None:
                return found
        if func in (np.ravel, np.atleast_1d) and len(args) == 1 and not kwargs and isinstance(args[0], Noisy):
            return args[0].ravel() if func is np.ravel or not args[0].ndim else args[0]
        return func(*_looked(args), **_looked(kwargs))


def _looked(value: Any) -> Any:
    if isinstance(value, Noisy):
        return value._see()
    if isinstance(value, dict):
        return {key: _looked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_looked(one) for one in value)
    return value


def _is_numeric(value: Any) -> bool:
    return isinstance(value, Noisy) or np.asarray(value).dtype.kind in "biuf"


def _linear(ufunc: Any, inputs: tuple[Any, ...]) -> Noisy | None:
    """Returns the result of an operation that keeps a noisy value linear in its draws, or None."""
    if not all(map(_is_numeric, inputs)):
        return None
    first = inputs[0]
    if ufunc in (np.negative, np.positive):
        return _times(first, -1.0 if ufunc is np.negative else 1.0)
    if len(inputs) != 2:
        return None
    second = inputs[1]
    if ufunc is np.add:
        return _sum(first, second, 1.0)
    if ufunc is np.subtract:
        return _sum(first, second, -1.0)
    if ufunc is np.multiply and not (isinstance(first, Noisy) and isinstance(second, Noisy)):
        return _times(first, second) if isinstance(first, Noisy) else _times(second, first)
    if ufunc is np.true_divide and isinstance(first, Noisy) and not isinstance(second, Noisy):
        divisor = np.asarray(second, dtype=np.float64)
        shape = np.broadcast_shapes(first.shape, divisor.shape)
        terms = tuple(
            Term(np.broadcast_to(t.coefficient, shape) / divisor, np.broadcast_to(t.draw, shape)) for t in first._terms
        )
        return Noisy(first._tape, first._base / divisor, terms)
    return None


def _times(value: Noisy, factor: Any) -> Noisy:
    number = np.asarray(factor, dtype=np.float64)
    shape = np.broadcast_shapes(value.shape, number.shape)
    return Noisy(value._tape, value._base * number, tuple(term.times(number, shape) for term in value._terms))


def _sum(first: Any, second: Any, sign: float) -> Noisy:
    bases = [x._base if isinstance(x, Noisy) else np.asarray(x, dtype=np.float64) for x in (first, second)]
    total = bases[0] + bases[1] if sign > 0 else bases[0] - bases[1]
    terms: list[Term] = []
    tape: Tape | None = None
    for one, factor in ((first, 1.0), (second, sign)):
        if isinstance(one, Noisy):
            tape = one._tape
            terms += [term.times(factor, total.shape) for term in one._terms]
    assert tape is not None
    return Noisy(tape, total, tuple(terms))


# Looking at values ---------------------------------------------------------------------------------------------------


@define
class _Entry:
    """One entry of a value: the sum of its known part, and its draws that are not known."""

    place: int
    base: float
    draws: dict[int, float]
    line: str  # of a known draw


def _look(tape: Tape, base: FloatArray, terms: tuple[Term, ...]) -> FloatArray:
    """Returns the entries of a value, asking for those that no known draws determine."""
    if len(terms) == 1 and _is_simple(tape, terms[0]):
        kind = tape.kinds[int(terms[0].draw[0])]
        return _ask(tape, kind, base, terms[0].coefficient, terms[0].draw)
    found = np.full(len(base), np.nan)
    pending = list(range(len(base)))
    while pending:
        later: list[int] = []
        claimed: set[int] = set()
        entries: list[_Entry] = []
        for place in pending:
            entry = _entry(tape, place, float(base[place]), terms)
            if claimed & entry.draws.keys():
                later.append(place)
            else:
                claimed |= entry.draws.keys()
                entries.append(entry)
        known = [entry for entry in entries if not entry.draws]
        if known:
            places = [entry.place for entry in known]
            found[places] = tape.repeat(np.array([entry.base for entry in known]), known[0].line)
        _ask_entries(tape, [entry for entry in entries if entry.draws], found)
        pending = later
    return found


def _is_simple(tape: Tape, term: Term) -> bool:
    """Whether each entry has one fresh draw of its own, and all are of one kind."""
    draws = term.draw
    return bool(
        len(draws)
        and (tape.state[draws] == FRESH).all()
        and (term.coefficient != 0.0).all()
        and len(np.unique(draws)) == len(draws)
        and len({tape.kinds[draw] for draw in draws.tolist()}) == 1
    )


def _entry(tape: Tape, place: int, base: float, terms: tuple[Term, ...]) -> _Entry:
    total: dict[int, float] = {}
    for term in terms:
        draw = int(term.draw[place])
        total[draw] = total.get(draw, 0.0) + float(term.coefficient[place])
    draws, line = {}, ""
    for draw, coefficient in total.items():
        if coefficient == 0.0:
            continue
        if tape.state[draw] == KNOWN:
            base += coefficient * float(tape.noise[draw])
            line = tape.places[draw]
        elif tape.state[draw] == ADDED:
            raise NotCoveredError("a draw of noise that was added to another one is used again: draw afresh")
        else:
            draws[draw] = coefficient
    return _Entry(place, base, draws, line)


def _ask_entries(tape: Tape, entries: list[_Entry], found: FloatArray) -> None:
    """Asks for entries that share no draw: those with one draw each by kind, and those with sums of draws."""
    groups: dict[tuple[str, bool], list[_Entry]] = {}
    for entry in entries:
        kinds = [tape.kinds[draw] for draw in entry.draws]
        groups.setdefault((kinds[0], len(entry.draws) > 1), []).append(entry)
    for (kind, several), group in groups.items():
        places, bases = [entry.place for entry in group], np.array([entry.base for entry in group])
        if not several:
            draws = np.array([next(iter(entry.draws)) for entry in group])
            scales = np.array([next(iter(entry.draws.values())) for entry in group])
            found[places] = _ask(tape, kind, bases, scales, draws)
        else:
            found[places] = _ask_sums(tape, group, bases)


def _ask(tape: Tape, kind: str, base: FloatArray, coefficient: FloatArray, draws: IntArray) -> FloatArray:
    query = AddedNoise(kind, base.copy(), coefficient.copy(), draws.copy())
    tape.released_after.update(draws[tape.state[draws] == COMPARED].tolist())
    line = tape.places[int(draws[0])]
    answer: FloatArray = tape.ask(query, lambda: base + coefficient * tape.noise[draws], where=line)
    tape.state[draws] = KNOWN
    tape.noise[draws] = (answer - base) / coefficient  # in this run's world
    return answer


def _ask_sums(tape: Tape, group: list[_Entry], base: FloatArray) -> FloatArray:
    """Asks for entries that are sums of several draws: the noise is that of one of them, the others only blur it.

    A sum of independent normal draws is normal; of other draws only that with the largest scale is counted.
    """
    kinds, scales, exact = [], [], True
    for entry in group:
        of_kind = {draw: tape.kinds[draw] for draw in entry.draws}
        if set(of_kind.values()) == {"gaussian"}:
            kinds.append("gaussian")
            scales.append(float(np.sqrt(sum(x * x for x in entry.draws.values()))))
        else:
            exact = False
            widest = max(entry.draws, key=lambda draw: (of_kind[draw] != "gumbel", abs(entry.draws[draw])))
            kinds.append(of_kind[widest])
            scales.append(abs(entry.draws[widest]))
    if len(set(kinds)) > 1:
        raise NotCoveredError("one value holds entries with sums of different kinds of noise: release them one by one")
    every = np.array([draw for entry in group for draw in entry.draws])
    query = AddedNoise(kinds[0], base.copy(), np.array(scales), every, exact=exact)
    tape.released_after.update(every[tape.state[every] == COMPARED].tolist())

    def make() -> FloatArray:
        return np.array([entry.base + sum(c * tape.noise[draw] for draw, c in entry.draws.items()) for entry in group])

    answer: FloatArray = tape.ask(query, make, where=tape.places[int(every[0])])
    tape.state[every] = ADDED
    return answer


# Comparing values ----------------------------------------------------------------------------------------------------


def _single(value: Any) -> bool:
    """Whether each entry has one draw that is not known."""
    if not isinstance(value, Noisy) or value._seen is not None or len(value._terms) != 1:
        return False
    draws = np.broadcast_to(value._terms[0].draw, value.shape)
    states = value._tape.state[draws]
    return bool(((states == FRESH) | (states == COMPARED)).all() and (value._terms[0].coefficient != 0.0).all())


def _compare(ufunc: Any, first: Any, second: Any) -> Any:
    """Returns the outcome of a comparison, entry by entry.

    Two noisy values: only which is larger becomes known. A noisy and a plain value: their difference is looked at.
    """
    if ufunc in (np.equal, np.not_equal) or not (_single(first) and _single(second)):
        difference = _sum(first, second, -1.0)
        return ufunc(difference._see(), 0.0)
    shape = np.broadcast_shapes(first.shape, second.shape)
    found: BoolArray = np.empty(shape, dtype=np.bool_)
    for index in np.ndindex(shape):
        sides = [_at(side, shape, index) for side in (first, second)]
        found[index] = _one_comparison(first._tape, ufunc, *sides)
    return found if shape else np.bool_(found)


def _at(value: Noisy, shape: tuple[int, ...], index: tuple[int, ...]) -> tuple[float, float, int]:
    """Returns (base, coefficient, draw) of one entry."""
    term = value._terms[0]
    of = (value._base, term.coefficient, term.draw)
    base, coefficient, draw = (np.broadcast_to(x, shape)[index] for x in of)
    return float(base), float(coefficient), int(draw)


def _one_comparison(tape: Tape, ufunc: Any, x: tuple[float, float, int], y: tuple[float, float, int]) -> bool:
    if x[2] == y[2]:
        raise NotCoveredError("two values with one draw of noise are compared: the outcome may be no secret at all")
    older, newer = (x, y) if x[2] < y[2] else (y, x)
    query = Comparison(
        bases=(older[0], newer[0]),
        coefficients=(older[1], newer[1]),
        draws=(older[2], newer[2]),
        kinds=(tape.kinds[older[2]], tape.kinds[newer[2]]),
        operation=f"{ufunc.__name__} {x[2] < y[2]}",
    )

    def make() -> bool:
        one, other = (base + c * float(tape.noise[draw]) for base, c, draw in (x, y))
        return bool(_COMPARISONS[ufunc](one, other))

    answer = bool(tape.ask(query, make))
    tape.state[[x[2], y[2]]] = COMPARED
    return answer


def _winners(value: Noisy, largest: bool, axis: int | None = None, **others: Any) -> Any:
    """Returns the place of the largest entry, of an array or of each row; None if values have to be looked at."""
    if others or value.ndim not in (1, 2) or axis not in (None, -1, value.ndim - 1):
        return None
    if value.ndim == 1:
        place = _winner(value, largest=largest)
        return None if place is None else np.int64(place)
    if axis is None or not _single(value):
        return None
    places = [_winner(value[i], largest=largest) for i in range(len(value))]
    return None if None in places else np.array(places, dtype=np.int64)


def _winner(value: Noisy, *, largest: bool) -> int | None:
    """Returns the place of the largest (or least) entry, or None if its entries do not have one fresh draw each."""
    if value.ndim != 1 or not value.size or not _single(value):
        return None
    draws, tape = np.broadcast_to(value._terms[0].draw, value.shape).copy(), value._tape
    kinds = {tape.kinds[draw] for draw in draws.tolist()}
    coefficient = np.broadcast_to(value._terms[0].coefficient, value.shape)
    if len(np.unique(draws)) != len(draws) or kinds - {"laplace", "gumbel"} or len(kinds) != 1:
        return None
    if len(np.unique(coefficient)) != 1 or (kinds == {"gumbel"} and largest != bool(coefficient[0] > 0)):
        return None  # the least of Gumbel's draws has another law
    query = Winner(next(iter(kinds)), value._base.copy(), float(coefficient[0]), draws, largest)

    def make() -> int:
        noisy = value._base + coefficient * tape.noise[draws]
        return int(noisy.argmax() if largest else noisy.argmin())

    answer = int(tape.ask(query, make))
    tape.state[draws] = COMPARED
    return answer
