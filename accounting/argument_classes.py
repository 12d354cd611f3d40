"""Objects of a wrong class in the place of an argument: found when a call has failed, and refused by a typed error.

A number is checked where it enters (:mod:`hockeystick.accounting.validate`). Where an object is expected, such as a
graph, a function or a list of names, the code uses it as one, and Python's own error would say which attribute of it is
missing, deep inside. ``typed`` gives a public function, and the public methods of a class, one more handler: if a call
ends in such an error, its arguments are compared with their annotations, and the first that does not fit is named, with
its class and the one that is expected. The value is never shown, as it may hold data. Calls that succeed are not
checked, and an error that no argument explains is raised unchanged: it may be one of the caller's own function.

The methods of what a public call returns are public too, such as those of a session or a plan. Their classes get the
handler with their first object that is returned.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Number
from typing import Any, TypeVar

import numpy as np

from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError, InvalidDataError

T = TypeVar("T")

_known: set[type] = {type(None), bool, int, float, str, tuple, list, dict, np.ndarray}
"""The classes of what public calls have returned; those of the library among them have the handler."""

MARK = "_has_typed_errors"
"""The attribute of functions and classes that have the handler."""

_TWIN = "_with_typed_errors"  # of a bare function
_OURS = "hockeystick."
_FAULTS = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError)
_OF_THE_LANGUAGE = ("builtins", "numpy.exceptions", "numpy.linalg")  # an error of another module has a type of its own
_ENTRIES = 100  # of a list that are compared
_CALLED = ("__init__", "__call__")  # of a class, beside its public names


def typed(what: T) -> T:
    """Returns a public function with the handler, or a public class whose own methods have it; all else as it is.

    Example:
      >>> from hockeystick.accounting.argument_classes import typed
      >>> @typed
      ... def longest(names: list[str]) -> int:
      ...     return max(map(len, names))
      >>> longest(3)
      Traceback (most recent call last):
      hockeystick.accounting.errors.InvalidDataError: names=<int>: is of a wrong class; expected list[str]
    """
    if not str(getattr(what, "__module__", "")).startswith(_OURS):
        return what
    if isinstance(what, types.FunctionType) and not hasattr(what, MARK):
        found = vars(what).get(_TWIN) or _handled(what)
        setattr(what, _TWIN, found)  # whoever has the bare function, and makes it public too, gets the same
        module = sys.modules[what.__module__]
        if vars(module).get(found.__name__) is what:  # pickles look there
            setattr(module, found.__name__, found)
        return found  # type: ignore[return-value]
    if isinstance(what, type) and not issubclass(what, BaseException):
        for cls in what.__mro__:
            # A method more would be one more that a protocol asks for.
            own = vars(cls)
            if cls.__module__.startswith(_OURS) and MARK not in own and not own.get("_is_protocol"):
                _handle_methods(cls)
    return what


def _handle_methods(cls: type) -> None:
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in _CALLED:
            continue
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if isinstance(plain, types.FunctionType) and plain.__module__.startswith(_OURS):
            found = _handled(plain)
            setattr(cls, name, found if plain is member else type(member)(found))
    setattr(cls, MARK, True)


def _handled(function: types.FunctionType) -> types.FunctionType:
    """A function that does the same, with the handler; its globals are those of the function, where doctest looks."""
    ours, faults, refused, languages = HockeystickError, _FAULTS, _refusal, _OF_THE_LANGUAGE
    known, learn = _known, _learn

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            found = function(*args, **kwargs)
            if type(found) not in known:
                learn(found)
            return found
        except ours:
            raise
        except faults as error:
            refusal = refused(function, args, kwargs) if type(error).__module__ in languages else None
            if refusal is None:
                raise
        raise refusal  # out here, where the error that tells the value is not its context

    found = types.FunctionType(called.__code__, function.__globals__, closure=called.__closure__)
    setattr(found, MARK, True)
    functools.update_wrapper(found, function)
    return found


def _learn(found: object) -> None:
    """Gives the class of an object that a public call returned the handler, and those of what it holds."""
    pending = [found]
    while pending:
        one = pending.pop()
        kind = type(one)
        if isinstance(one, (tuple, list)):
            pending += one[:1]
        if kind in _known:
            continue
        _known.add(kind)
        if kind.__module__.startswith(_OURS):
            typed(kind)
            pending += [getattr(one, name, None) for name in _fields(kind)]


def _fields(kind: type) -> list[str]:
    return [field.name for field in getattr(kind, "__attrs_attrs__", ())]


def _refusal(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> InvalidArgumentError | None:
    """The error of the first argument that does not fit its annotation; None if all may fit."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None  # of the call itself: a missing argument, or one too many
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        hint = _hint(function, parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            wrong = [one for one in value if not _fits(one, hint)]
        elif parameter.kind is parameter.VAR_KEYWORD:
            wrong = []
        else:
            wrong = [] if value is parameter.default or _fits(value, hint) else [value]
        if wrong:
            return InvalidDataError(name, wrong[0], "is of a wrong class", f"expected {_name(parameter.annotation)}")
    return None


def _hint(function: Callable[..., Any], annotation: object) -> object:
    """An annotation as an object; Any where a name in it is known to type checkers alone."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    plain = inspect.unwrap(function)
    try:
        return eval(annotation, dict(vars(typing)) | plain.__globals__)
    except Exception:
        return Any


def _name(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return "a list of numbers or an array" if "ArrayLike" in text or "_SupportsArray" in text else text


def _fits(value: object, hint: object) -> bool:
    """Whether a value may be meant by an annotation; True where that is not known."""
    if hint is Any or hint is object:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner if not _is_numpys_own(one)) or (
            any(map(_is_numpys_own, inner)) and _is_like_an_array(value)
        )
    if origin is typing.Annotated:
        return _fits(value, inner[0])
    if origin is type:
        return isinstance(value, type)
    kind = hint if origin is None else origin
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False) and kind.__module__ not in ("collections.abc", "typing"):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    if issubclass(kind, Number) or kind in (int, float):
        return isinstance(value, (Number, Decimal, np.generic)) or isinstance(value, np.ndarray) and not value.ndim
    if kind is np.ndarray:
        return _is_like_an_array(value)
    if kind in (str, bytes, bool, dict) or not issubclass(kind, Iterable) or issubclass(kind, Mapping):
        return isinstance(value, kind)
    if not isinstance(value, Iterable):
        return False
    return _fit(value, inner) if isinstance(value, (list, tuple)) else True


def _fit(values: list[Any] | tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    """Whether the entries of a list may be those of an annotation."""
    entries = [one for one in inner if one is not ...]
    if len(entries) == 1:
        return all(_fits(one, entries[0]) for one in values[:_ENTRIES])
    if len(entries) == len(values):
        return all(_fits(one, each) for one, each in zip(values, entries, strict=True))
    return True


def _is_numpys_own(hint: object) -> bool:
    """Whether a part of an annotation is one of the protocols of ``ArrayLike``."""
    return str(getattr(typing.get_origin(hint) or hint, "__module__", "")).startswith("numpy._typing")


def _is_like_an_array(value: object) -> bool:
    return isinstance(value, (Number, Decimal, np.generic, list, tuple, range)) or hasattr(value, "__array__")
