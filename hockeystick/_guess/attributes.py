"""Wrong attributes of objects: a method that a class does not have is refused with the one that was probably meant."""

from __future__ import annotations

from typing import Any, TypeVar

from hockeystick._guess.names import close_to

C = TypeVar("C")

# What people write, in lower case and without underscores, and ours: the first that the class has.
_METHODS = {
    "noisemultiplier": "calibrated",
    "getnoisemultiplier": "calibrated",
    "noise": "calibrated",
    "sigma": "calibrated",
    "calibrate": "calibrated",
    "getepsilon": "epsilon",
    "getprivacyspent": "epsilon",
    "eps": "epsilon epsilon_lower",
    "getdelta": "delta",
    "samplerate": "sampling_rate",
    "samplingprobability": "sampling_rate",
    "numsteps": "steps",
    "certify": "guarantee",
    "passed": "refuted",
    "isprivate": "refuted",
    "verdict": "outcome",
    "status": "outcome",
    "result": "outcome",
    "lowerbound": "epsilon_lower",
    "plottradeoff": "plot",
    "report": "summary",
    "add": "release",
    "addrelease": "release",
    "addsource": "source",
}


def guessing_attributes(cls: type[C]) -> type[C]:
    """Gives the objects of a class errors that say which attribute may have been meant, and returns the class.

    Example:
      >>> from hockeystick._guess.attributes import guessing_attributes
      >>> @guessing_attributes
      ... class Run:
      ...     def calibrated(self):
      ...         return 1.0
      >>> Run().calibrate()
      Traceback (most recent call last):
      AttributeError: 'Run' object has no attribute 'calibrate'; did you mean 'calibrated'?
    """

    def missing(self: C, name: str) -> Any:  # called where nothing of this name was found
        try:
            return object.__getattribute__(self, name)  # a property whose own code failed says so again
        except AttributeError as error:
            known = [one for one in dir(cls) if not one.startswith("_")]
            text = str(error)
            if name.startswith("_") or name in known or "did you mean" in text.lower():
                raise
            plain = name.replace("_", "").lower()
            meant = [one for one in _METHODS.get(plain, "").split() if one in known] or close_to(name.lower(), known)
            if not meant:
                raise
        raise AttributeError(f"{text}; did you mean {meant[0]!r}?")

    cls.__getattr__ = missing  # type: ignore[attr-defined]
    return cls
