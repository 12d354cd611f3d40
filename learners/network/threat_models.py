"""Who an adversary of a federated algorithm is: what it sees, and whose noise it knows.

Every guarantee of a federated learner is one for a threat model. In all of them the adversary may know all data but one
loss, and neighbouring data differ in one client's loss of one round (replace-one).
"""

from __future__ import annotations

import enum

from hockeystick.accounting import InvalidArgumentError


class ThreatModel(enum.Enum):
    """What an adversary sees.

    * ``OUTPUT``: what all clients play in all rounds, which is all that the server broadcasts.
    * ``CLIENT``: that, and the data, seeds and noise of all other clients.
    * ``SERVER``: that, and every message of the clients to the server.
    * ``CENTRAL``: what OUTPUT sees, of a server that is trusted with the clients' raw messages and adds the noise
      itself. The other three ask of an algorithm what it keeps from whom; this one also says who has to be trusted.
    """

    OUTPUT = "output"
    CLIENT = "client"
    SERVER = "server"
    CENTRAL = "central"


def threat_model(value: object) -> ThreatModel:
    """``value``, a threat model or its name.

    Raises:
        InvalidArgumentError: it is neither.
    """
    try:
        return ThreatModel(value)
    except ValueError:
        names = ", ".join(model.value for model in ThreatModel)
        raise InvalidArgumentError("threat_model", value, "is unknown", f"use one of {names}") from None
