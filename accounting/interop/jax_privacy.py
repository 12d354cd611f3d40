"""Accounting for training with jax-privacy.

Its event builders make trees of dp-accounting events; ``from_dp_event`` and ``hs.Accountant`` accept them under the
relation of the builder. Its training accountants take a configuration that makes an accountant. ``jax_privacy_config``
is such a configuration for ``hs.Accountant``, also for calibration:

    accountant = jax_privacy.accounting.DpsgdTrainingAccountant(jax_privacy_config())

Two traps are avoided: a fixed-size batch under add-or-remove-one, for which there is no bound, is refused. Under
replace-one a replaced record is at distance 2, where dp-accounting's RDP accountant takes distance 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dp_accounting import NeighboringRelation

from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.interop.dp_accounting_accountant import Accountant
from hockeystick.accounting.optional_packages import require


@cache
def _config_class() -> Any:
    base: Any = require("jax_privacy.accounting", "a configuration for it", extra="jax").DpAccountantConfig

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
      InvalidArgumentError: the relation is not a ``NeighboringRelation``.
    """
    if not isinstance(relation, NeighboringRelation):
        remedy = f"use one of {', '.join(map(str, NeighboringRelation))}"
        raise InvalidArgumentError("relation", relation, "is not a NeighboringRelation of dp_accounting", remedy)
    return _config_class()(relation)
