"""Threat models of federated algorithms: what the adversary sees, and whose noise it knows.

Every guarantee of a federated learner holds for one threat model. In all of them the adversary may know all data except
one loss, and neighbouring data sets differ in one client's loss of one round (replace-one).
"""

from __future__ import annotations

import enum

from hockeystick.accounting import InvalidArgumentError


class ThreatModel(enum.Enum):
    """The view of an adversary.

    * ``OUTPUT``: the plays of all clients in all rounds, which is all that the server broadcasts.
    * ``CLIENT``: in addition, the data, seeds and noise of all other clients.
    * ``SERVER``: in addition, every message of the clients to the server.
    * ``CENTRAL``: the same view as OUTPUT, where the server is trusted: it sees the clients' raw messages and adds the
      noise itself.

    Example:
        >>> ThreatModel("server")
        <ThreatModel.SERVER: 'server'>
    """

    OUTPUT = "output"
    CLIENT = "client"
    SERVER = "server"
    CENTRAL = "central"


def threat_model(value: object) -> ThreatModel:
    """Returns the threat model that ``value`` is or names.

    Raises:
        InvalidArgumentError: it is neither.
    """
    try:
        return ThreatModel(value)
    except ValueError:
        names = ", ".join(model.value for model in ThreatModel)
        raise InvalidArgumentError("threat_model", value, "is unknown", f"use one of {names}") from None
