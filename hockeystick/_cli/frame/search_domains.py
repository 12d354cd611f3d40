"""Reading the domain of ``hockeystick search``: the kind of answers, JSON, a .json file, or MODULE:NAME."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from hockeystick.audits import Domain

_OPTION = "--domain"
_KINDS = ("counts", "histogram", "sums")


def load_domain(text: str) -> Domain:
    """Returns the domain that ``--domain`` names: the kind of answers, JSON, a .json file, or MODULE:NAME.

    Raises:
      InvalidArgumentError: The text is none of these.
      TargetImportError: The module's own code raised an error.
    """
    from hockeystick._files.named_callables import load_data
    from hockeystick.audits import Answers

    if text in _KINDS:
        return Answers(kind=text)
    if is_module(text):
        return _from_module(text)
    return _from_json(text, load_data(_OPTION, text))


def is_module(text: str) -> bool:
    """Returns whether ``--domain`` names a MODULE:NAME."""
    return re.fullmatch(r"[^\[{\"]*:[^\W\d][\w.]*", text) is not None


def _from_json(text: str, plain: Any) -> Domain:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Answers, FiniteRecords, RealRecords

    remedy = (
        """write for example '[0, 1]', '{"low": 0, "high": 1}', '{"answers": "counts", "size": 3}' or module:name"""
    )
    if isinstance(plain, list):
        plain = {"values": plain}
    if not isinstance(plain, dict):
        raise InvalidArgumentError(_OPTION, text, "describes no data sets", remedy)
    given = dict(plain)
    kind: Any
    if "answers" in given:
        given["kind"], kind = given.pop("answers"), Answers
    else:
        kind = FiniteRecords if "values" in given else RealRecords
    fields = {one.name: one.default is attrs.NOTHING for one in attrs.fields(kind) if one.init}
    wrong = [name for name in given if name not in fields]
    missing = [name for name, needed in fields.items() if needed and name not in given]
    if wrong or missing:
        fault = f"has an unknown entry {wrong[0]!r}" if wrong else f"lacks {missing[0]!r}"
        names = ", ".join("answers" if name == "kind" else name for name in fields)
        raise InvalidArgumentError(_OPTION, text, f"{fault}; {kind.__name__} takes {names}", remedy)
    try:
        found: Domain = kind(**given)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(_OPTION, text, f"{error.argument} {error.reason}", error.remedy) from None
    return found


def _from_module(text: str) -> Domain:
    """Returns the named domain; the name may also be that of a function, as :func:`load_domain` takes it."""
    from hockeystick._files.named_callables import load_object
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import PairsFrom

    try:
        named = load_object(text)
        if callable(named) and not _is_domain(named):
            required = [
                one
                for one in inspect.signature(named).parameters.values()
                if one.default is one.empty and one.kind <= one.POSITIONAL_OR_KEYWORD
            ]
            named = PairsFrom(random=named) if len(required) == 1 else named() if not required else named
    except InvalidArgumentError as error:
        if error.argument != "target":
            raise
        raise InvalidArgumentError(_OPTION, text, error.reason, error.remedy) from None
    if not _is_domain(named):
        remedy = "name a domain, a function that returns one, or f(rng) that returns two neighbouring data sets"
        raise InvalidArgumentError(_OPTION, text, f"is of type {type(named).__name__}, not a domain", remedy)
    found: Domain = named
    return found


def _is_domain(value: object) -> bool:
    methods = ("canonical", "random_pair", "mutate", "check")
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
