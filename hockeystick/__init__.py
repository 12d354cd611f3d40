"""Differential privacy: compose a claim from mechanisms, certify it, and try to break it.

    import hockeystick as hs

* **Compose.** ``hs.AccountantGraph`` holds who reads which data, and at what cost: an event of ``hs.events``.
* **Certify.** Its ``guarantee()`` is an ``hs.Guarantee``: ε at every δ, as an upper bound with the winning method's
  name. ``hs.Accountant`` is the same behind the interface of ``dp_accounting.PrivacyAccountant``.
* **Try to break.** ``hs.audit(target, claim=hs.Claim(epsilon, delta), neighbours=(d0, d1))`` is an ``hs.Verdict``.

The mechanisms are in ``hs.mechanisms``, the algorithms built from them in ``hs.learners``. An event and a mechanism may
share the field's word for both: ``hs.events.Gaussian`` is a cost, ``hs.mechanisms.Gaussian`` adds noise to a value.

Every name is loaded on its first use: ``import hockeystick`` alone imports nothing else (a pytest run with the plugin
installed does just that).
"""

from os.path import dirname, isdir, join

from hockeystick._guess.names import attach

__version__ = "1.0.0rc1"

if not isdir(join(__path__[0], "accounting")):  # a clone without links: the four parts are beside this folder
    __path__.append(dirname(__path__[0]))

__getattr__, __dir__, __all__ = attach(__name__, __file__)
