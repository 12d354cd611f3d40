"""Accounting for training with jax-privacy.

Its event builders make trees of dp-accounting events; ``from_dp_event`` and ``hs.Accountant`` accept them under the
relation of the builder. They are in ``jax_privacy.experimental.accounting`` up to version 2.0, and in
``jax_privacy.accounting`` later: ``jax_privacy_events`` returns the module that has them.

The training accountants of version 2.0 take a configuration that makes an accountant. ``jax_privacy_config`` is such a
configuration for ``hs.Accountant``, also for calibration:

    accountant = jax_privacy.accounting.DpsgdTrainingAccountant(jax_privacy_config())

Later versions have no training accountants. There trees are charged, and noise is calibrated, by dp-accounting's own
interface, which takes ``hs.Accountant`` as it is:

    dp_accounting.calibrate_dp_mechanism(hs.Accountant, make_event, target_epsilon, target_delta)

Two traps are avoided: a fixed-size batch under add-or-remove-one, for which there is no bound, is refused. Under
replace-one a replaced record is at distance 2, where dp-accounting's RDP accountant takes distance 1.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from dp_accounting import NeighboringRelation

from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.interop.dp_accounting_accountant import Accountant
from hockeystick.accounting.optional_packages import require


def _require(what: str) -> ModuleType:
    return require("jax_privacy.accounting", what, extra="jax")


def jax_privacy_events() -> ModuleType:
    """Returns the module of jax-privacy with the event builders, such as ``dpsgd_event``.

    It is ``jax_privacy.accounting``, or ``jax_privacy.experimental.accounting`` up to version 2.0. Charge what they
    make by ``hs.Accountant``, or read it by ``from_dp_event``, under the relation of the builder.

    Raises:
      MissingExtraError: jax-privacy is not installed.

    Example (with jax-privacy installed):
      event = jax_privacy_events().dpsgd_event(2.0, 1000, sampling_prob=0.01)
      epsilon = hs.Accountant().compose(event).get_epsilon(1e-6)
    """
    module = _require("its event builders")
    if hasattr(module, "dpsgd_event"):
        return module
    return require("jax_privacy.experimental.accounting", "its event builders", extra="jax")


@cache
def _config_class() -> Any:
    base: Any = getattr(_require("a configuration for it"), "DpAccountantConfig", None)
    if base is None:
        raise UnsupportedEventError(
            "this version of jax-privacy has no training accountants, which take a configuration: charge the tree of "
            "jax_privacy_events() by hs.Accountant, also in dp_accounting.calibrate_dp_mechanism"
        )

    class HockeystickAccountantConfig(base):  # type: ignore[misc]  # its type is unknown without jax-privacy
        """A configuration that makes an ``hs.Accountant`` for training with jax-privacy."""

        def __init__(self, relation: NeighboringRelation) -> None:
            self.relation = relation

        def create_accountant(self) -> Accountant:
            return Accountant(self.relation)

    return HockeystickAccountantConfig


def jax_privacy_config(relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Any:
    """Returns a ``jax_privacy.accounting.DpAccountantConfig`` that makes ``hs.Accountant``.

    Args:
      relation: of dp-accounting. The training accountants of jax-privacy are for add-or-remove-one. For batches of a
        fixed size they also compose events under that relation, with twice the sensitivity, and so with a fixed order
        of the two laws throughout. A tree of such batches under replace-one may cost more here.

    Raises:
      MissingExtraError: jax-privacy is not installed.
      UnsupportedEventError: a version after 2.0, which has no training accountants.
      InvalidArgumentError: the relation is not a ``NeighboringRelation``.
    """
    if not isinstance(relation, NeighboringRelation):
        remedy = f"use one of {', '.join(map(str, NeighboringRelation))}"
        raise InvalidArgumentError("relation", relation, "is not a NeighboringRelation of dp_accounting", remedy)
    return _config_class()(relation)
