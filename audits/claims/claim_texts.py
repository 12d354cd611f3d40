"""Claims as words and files name them: ``gdp:1``, ``zcdp:0.5``, ``rdp:2:0.4``, or a JSON file of a curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick.accounting import Guarantee, HockeystickError, InvalidArgumentError
from hockeystick.accounting.files.reading import LARGEST_JSON, UnreadableFileError, json_value, read_text
from hockeystick.audits.claims.claim import Claim

_FORMS = "gdp:MU, zcdp:RHO, zcdp:RHO:XI, rdp:ORDER:EPSILON[,ORDER:EPSILON...], or a .json file"


def read_claim(text: str, delta: float | None = None) -> Claim:
    """Returns the claim that a text or file names; it is a whole curve.

    * ``gdp:MU``: Gaussian DP (:meth:`Claim.gdp`).
    * ``zcdp:RHO`` or ``zcdp:RHO:XI``: zero-concentrated DP (:meth:`Claim.zcdp`).
    * ``rdp:ORDER:EPSILON``, several of them with commas between: Rényi DP at these orders (:meth:`Claim.rdp`).
    * A text that ends in ``.json`` is a path, of a guarantee (``Guarantee.to_json``), of a claim (``Claim.to_dict`` as
      JSON), or of points ``{"epsilons": [...], "deltas": [...]}`` (:meth:`Claim.profile`).

    Args:
      text: the claim.
      delta: the delta at which the verdict states epsilon, 1e-6 by default. A claim or points in a file state their
        own.

    Raises:
      InvalidArgumentError: the text has none of these forms, a number is out of range, or the file can't be read.

    Example:
      >>> from hockeystick.audits import read_claim
      >>> round(read_claim("gdp:1", delta=1e-5).epsilon, 2), round(read_claim("rdp:2:0.4,8:1.6").epsilon, 2)
      (4.38, 3.14)
    """
    stated = {} if delta is None else {"delta": delta}
    if text.lower().endswith(".json"):
        return _of_file(text, stated)
    kind, _, rest = text.partition(":")
    make = _KINDS.get(kind.strip().lower())
    try:
        rows = [[float(number) for number in part.split(":")] for part in rest.split(",")]
    except ValueError:
        rows = []
    if make is None or not rows:
        raise InvalidArgumentError("claim", text, "is not a claim in words", f"give {_FORMS}")
    try:
        return make(rows, stated)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("claim", text, f"{error.argument} {error.reason}", error.remedy) from None
    except (TypeError, ValueError):  # another number of numbers
        raise InvalidArgumentError(
            "claim", text, f"has another number of numbers than {kind} needs", f"give {_FORMS}"
        ) from None


def _gdp(rows: list[list[float]], stated: dict[str, float]) -> Claim:
    ((mu,),) = rows
    return Claim.gdp(mu, **stated)


def _zcdp(rows: list[list[float]], stated: dict[str, float]) -> Claim:
    (numbers,) = rows
    rho, xi = numbers if len(numbers) == 2 else (*numbers, 0.0)
    return Claim.zcdp(rho, xi, **stated)


def _rdp(rows: list[list[float]], stated: dict[str, float]) -> Claim:
    orders, epsilons = zip(*sorted((order, epsilon) for order, epsilon in rows), strict=True)
    return Claim.rdp(orders, epsilons, **stated)


_KINDS: dict[str, Callable[[list[list[float]], dict[str, float]], Claim]] = {"gdp": _gdp, "zcdp": _zcdp, "rdp": _rdp}


def _of_file(file: str, stated: dict[str, float]) -> Claim:
    try:
        text = read_text(file, most=LARGEST_JSON)
    except UnreadableFileError as error:
        raise error.about("claim", file, f"give {_FORMS}") from None
    try:
        plain: Any = json_value(text)
    except UnreadableFileError as error:
        raise InvalidArgumentError(
            "claim", file, f"is not JSON ({error})", "write it with Guarantee.to_json()"
        ) from None
    keys = set(plain) if isinstance(plain, dict) else set()
    try:
        if "moves" in keys:
            return Claim.curve(Guarantee.from_json(text), stated.get("delta", 1e-6))
        if "also" in keys:
            return Claim.from_dict(plain)
        if keys == {"epsilons", "deltas"}:
            return Claim.profile(plain["epsilons"], plain["deltas"])
    except InvalidArgumentError as error:
        raise InvalidArgumentError("claim", file, f"{error.argument} {error.reason}", error.remedy) from None
    except HockeystickError as error:
        raise InvalidArgumentError("claim", file, f"can't be read: {error}", "write it again") from None
    remedy = 'give what Guarantee.to_json() wrote, or {"epsilons": [...], "deltas": [...]}'
    raise InvalidArgumentError("claim", file, "holds neither a guarantee nor a curve", remedy)
