"""The cost of one round of Flower's strategies for central differential privacy, for clients as neighbours.

``DifferentialPrivacyServerSideFixedClipping`` and its client-side twin add noise of standard deviation σ·C/m to the
mean of m clients' updates, each clipped to norm C. With m clients drawn from n without replacement, and n public, one
client replaced by another moves the mean by at most 2·C/m. A round is, under replace-one,
``SampledWithoutReplacement(n, m, Gaussian(σ/2))``.

That holds for a mean with equal weights. ``FedAvg`` weighs a client by the number of examples that it reports, so that
one client may move the mean by up to 2·C, which is m times what the noise is for. Refused are:

* weights that are not said to be equal;
* strategies other than ``FedAvg`` inside: noise is added to what they return, whose sensitivity is not that of a mean;
* a sample of another size than the noise is for;
* adaptive clipping: Flower adapts the norm first, and scales the noise to the new norm, although updates were clipped
  to the old one. Where the norm falls, the noise is too small.
"""

from __future__ import annotations

from typing import Any

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.declared import NonPrivate
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.replace_one import SampledWithoutReplacement

_FIXED = frozenset(f"DifferentialPrivacy{side}SideFixedClipping" for side in ("Server", "Client"))
_ADAPTIVE = frozenset(f"DifferentialPrivacy{side}SideAdaptiveClipping" for side in ("Server", "Client"))


def from_flower(strategy: object, *, clients: int, equal_weights: bool = False) -> PrivacyEvent:
    """Returns the event of one round, under replace-one, where one client with all its data is replaced.

    The guarantee is for the models that the server sends out, if the server is trusted, ``clients`` is public, all of
    them are available in every round, and all sampled ones answer. With clipping by clients, they have to do it. Losses
    and metrics that clients report have no noise and are not counted.

    Args:
      strategy: a strategy of Flower, ``DifferentialPrivacyServerSideFixedClipping`` or the client-side one, from
        ``flwr.server.strategy`` or ``flwr.serverapp.strategy``, around a ``FedAvg``.
      clients: n, the number of all clients.
      equal_weights: whether all clients report the same number of examples. It has to be True.

    Raises:
      InvalidArgumentError: another strategy, weights not said to be equal, or a sample of another size.

    Example: ε by round (``strategy`` is of Flower, with σ = 1, C = 0.5 and 10 clients in each round).

      >>> from hockeystick.accounting import Gaussian, SampledWithoutReplacement, compose, epsilon
      >>> a_round = SampledWithoutReplacement(1000, 10, Gaussian(1.0).at(2))  # from_flower(strategy, clients=1000, ...)
      >>> [round(epsilon(compose((a_round, rounds)), 1e-5).upper, 2) for rounds in (1, 10, 100)]
      [3.03, 4.38, 6.64]
    """
    name = type(strategy).__name__
    if name in _ADAPTIVE:
        reason = "scales its noise to the next clipping norm, not to the one that updates were clipped to"
        raise InvalidArgumentError("strategy", name, reason, "use fixed clipping")
    if name not in _FIXED or not _of_flower(strategy):
        remedy = f"give a {' or '.join(sorted(_FIXED))} of Flower"
        raise InvalidArgumentError("strategy", name, "is not a strategy whose noise is known", remedy)
    fixed: Any = strategy
    inner = fixed.strategy
    if type(inner).__name__ != "FedAvg" or not _of_flower(inner):
        reason = "does not return the mean of updates, for which the noise is"
        raise InvalidArgumentError("strategy.strategy", type(inner).__name__, reason, "wrap Flower's FedAvg")
    if equal_weights is not True:
        reason = "has to be True: a client that reports more examples than others moves the mean by more than C/m"
        remedy = "let all clients report the same number of examples, and say equal_weights=True"
        raise InvalidArgumentError("equal_weights", equal_weights, reason, remedy)
    total = validate.integer("clients", clients, low=1)
    sampled = validate.integer("num_sampled_clients", fixed.num_sampled_clients, low=1)
    if (drawn := _drawn(inner, total)) != sampled:
        reason = f"differs from the {drawn} of {total} clients that the strategy samples"
        remedy = "set fraction_fit (fraction_train) and the least number of clients to match"
        raise InvalidArgumentError("num_sampled_clients", sampled, reason, remedy)
    noise = validate.real("noise_multiplier", fixed.noise_multiplier, low=0.0)
    validate.real("clipping_norm", fixed.clipping_norm, low=0.0, low_open=True)
    if noise == 0.0:
        return NonPrivate()
    step = Gaussian(noise).at(2.0)
    return step if sampled == total else SampledWithoutReplacement(total, sampled, step)


def _of_flower(strategy: object) -> bool:
    return type(strategy).__module__.split(".")[0] == "flwr"


def _drawn(inner: Any, total: int) -> int:
    """The number of clients in a round; the two interfaces of Flower have different names for the same numbers."""
    if hasattr(inner, "fraction_train"):
        fraction, least, available = inner.fraction_train, inner.min_train_nodes, inner.min_available_nodes
    else:
        fraction, least, available = inner.fraction_fit, inner.min_fit_clients, inner.min_available_clients
    drawn = max(int(total * validate.probability("fraction", fraction)), validate.integer("least", least, low=0))
    if max(drawn, validate.integer("available", available, low=0)) > total:
        reason = f"is below the {max(drawn, available)} that the strategy waits for"
        raise InvalidArgumentError("clients", total, reason, "give the number of all clients")
    return drawn
