"""Trainings of jax-privacy, charged here.

Its event builders make native trees of dp-accounting: ``from_dp_event`` and ``hs.Accountant`` take them as they are,
under the relation that a builder is for. Its training accountants take a configuration that makes an accountant;
``jax_privacy_config`` is one that makes ours, also for its calibration:

    accountant = jax_privacy.accounting.DpsgdTrainingAccountant(jax_privacy_config())

What goes wrong elsewhere and is refused here, or charged for what it is: a fixed-size batch under add-or-remove-one has
no cost of its own, and under replace-one dp-accounting's RDP accountant takes a replaced record for one unit instead of
two.
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

    class HockeystickAccountantConfig(base):  # type: ignore[misc]  # known once it is imported
        """Makes ``hs.Accountant`` for trainings of jax-privacy."""

        def __init__(self, relation: NeighboringRelation) -> None:
            self.relation = relation

        def create_accountant(self) -> Accountant:
            return Accountant(self.relation)

    return HockeystickAccountantConfig


def jax_privacy_config(relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Any:
    """Returns a ``jax_privacy.accounting.DpAccountantConfig`` whose accountants are ours.

    Args:
      relation: of dp-accounting. jax-privacy's own training accountants are for add-or-remove-one. For batches of a
        fixed size they, too, compose events that are to be read under it, with twice the sensitivity, and so in one
        order of the two worlds throughout: a native tree of such batches under replace-one may cost more here.

    Raises:
      MissingExtraError: jax-privacy is not installed.
      InvalidArgumentError: no such relation.
    """
    if not isinstance(relation, NeighboringRelation):
        raise InvalidArgumentError("relation", relation, "is no NeighboringRelation of dp_accounting")
    return _config_class()(relation)
