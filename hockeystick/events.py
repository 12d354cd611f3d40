"""The privacy events: what one access to the data cost.

``hs.events.Gaussian(2.0)`` is a cost, ``hs.mechanisms.Gaussian(...)`` the mechanism that incurs it. The two families
share the field's words, so neither stands at the top of the facade.
"""

from hockeystick._guess.names import unknown
from hockeystick.accounting.argument_classes import typed
from hockeystick.accounting.events.catalogue import *  # noqa: F403
from hockeystick.accounting.events.catalogue import __all__ as __all__

globals().update({name: typed(globals()[name]) for name in __all__})


def __getattr__(name: str) -> object:
    raise unknown(__name__, name)
