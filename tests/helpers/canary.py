"""A number and a text that no error may contain, and a search for them in an error."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator

NUMBER = 918273.0
TEXT = "patient-918273"
TRACES = (
    TEXT[-6:].encode(),
    *(struct.pack(form, NUMBER) for form in ("d", ">d", "f")),
    *(struct.pack(form, int(NUMBER)) for form in "iq"),
)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if error.__cause__ is not None:
            yield from chain(error.__cause__)
        error = error.__context__


def traces(error: BaseException) -> list[str]:
    """Returns the places of the canary in an error or in its causes."""
    found = []
    for one in chain(error):
        shown = {"str": str(one), "repr": repr(one), "args": repr(one.args), "dict": repr(vars(one))}
        shown |= {name: repr(getattr(one, name)) for name in ("object", "doc", "__notes__") if hasattr(one, name)}
        found += [f"{type(one).__name__}.{what}: {text[:200]}" for what, text in shown.items() if "918273" in text]
        held = pickle.dumps((one.args, vars(one)))
        found += [f"{type(one).__name__}: pickled {trace!r}" for trace in TRACES if trace in held]
    return found
