"""Differential privacy: compose a claim from mechanisms, certify it, and try to break it.

    import hockeystick as hs

* **Compose.** ``hs.AccountantGraph`` holds who reads which data, and at what cost: an event of ``hs.events``.
* **Certify.** Its ``guarantee()`` is an ``hs.Guarantee``: ε at every δ, as an upper bound with the winning method's
  name. ``hs.Accountant`` is the same behind the interface of ``dp_accounting.PrivacyAccountant``.
* **Try to break.** ``hs.audit(target, claim=hs.Claim(epsilon, delta), neighbours=(d0, d1))`` is an ``hs.Verdict``.

The mechanisms are in ``hs.mechanisms``, the algorithms built from them in ``hs.learners``. An event and a mechanism may
share the field's word for both: ``hs.events.Gaussian`` is a cost, ``hs.mechanisms.Gaussian`` adds noise to a value.

Every name is loaded on its first use: ``import hockeystick`` alone imports nothing else (a pytest run with our plugin
installed does just that).
"""

from __future__ import annotations

from importlib import import_module
from os.path import dirname, isdir, join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hockeystick import accounting, audits, events, learners, mechanisms
    from hockeystick._report.parts.graph_picture import draw_graph
    from hockeystick.accounting import (
        Accountant,
        AccountantGraph,
        Adjacency,
        Bracket,
        Contribution,
        GraphError,
        Guarantee,
        HockeystickError,
        InvalidArgumentError,
        InvalidDataError,
        NumericalError,
        PrivacyEvent,
        Reach,
        UnsupportedAdjacencyError,
        UnsupportedEventError,
        compose,
        delta,
        epsilon,
        parallel,
    )
    from hockeystick.audits import Claim, Verdict
    from hockeystick.audits.fixed_sample import audit
    from hockeystick.mechanisms import SecureReleaseUnavailableError

__version__ = "0.1.0"

if not isdir(join(__path__[0], "accounting")):  # a clone without links: the four parts are beside this folder
    __path__.append(dirname(__path__[0]))

__all__ = [
    "Accountant",
    "AccountantGraph",
    "Adjacency",
    "Bracket",
    "Claim",
    "Contribution",
    "GraphError",
    "Guarantee",
    "HockeystickError",
    "InvalidArgumentError",
    "InvalidDataError",
    "NumericalError",
    "PrivacyEvent",
    "Reach",
    "SecureReleaseUnavailableError",
    "UnsupportedAdjacencyError",
    "UnsupportedEventError",
    "Verdict",
    "__version__",
    "accounting",
    "audit",
    "audits",
    "compose",
    "delta",
    "draw_graph",
    "epsilon",
    "events",
    "learners",
    "mechanisms",
    "parallel",
]

_MODULES = ("accounting", "audits", "events", "learners", "mechanisms")

# Where the names of __all__ live; those not named here, in accounting. tests/hockeystick/test_facade.py compares all of
# it with the block for type checkers.
_HOME = {
    "Claim": "hockeystick.audits",
    "SecureReleaseUnavailableError": "hockeystick.mechanisms",
    "Verdict": "hockeystick.audits",
    "audit": "hockeystick.audits.fixed_sample",
    "draw_graph": "hockeystick._report.parts.graph_picture",
}


def __getattr__(name: str) -> object:  # PEP 562
    if name in _MODULES:
        value: object = import_module(f"hockeystick.{name}")
    elif name in __all__:
        value = getattr(import_module(_HOME.get(name, "hockeystick.accounting")), name)
    else:
        raise AttributeError(f"module 'hockeystick' has no attribute {name!r}")
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
