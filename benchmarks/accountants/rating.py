"""Measures accountants: the ratio of their ε to the truth, whether it is ever too small, and their time.

On compositions whose ε is known (:mod:`benchmarks.accountants.compositions`), three things are measured of an
accountant:

* **Soundness.** An ε below the truth, or a lower end above it, makes the accountant *INVALID*. On a finite set no
  accountant is shown to be sound, so the other word is only *not below*.
* **Tightness.** ε as a multiple of the truth, which is known from below and above.
* **Time.** CPU seconds of the first answer, after a warm-up on an unrelated composition.

Refusals and failures are noted, and do not count against an accountant.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import dp_accounting
import numpy as np
from attrs import frozen
from dp_accounting import DpEvent, NeighboringRelation

from benchmarks.accountants.compositions import KnownComposition
from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.interop.dp_accounting_accountant import Accountant

Judgement = Literal["not below", "INVALID", "no answer"]

TOLERANCE = 1e-9
"""Relative; below the truth by less is round-off."""

_RELATIONS = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)


@frozen
class RatedAccountant:
    """An accountant to be rated.

    Attributes:
      name: unique.
      epsilon: ``epsilon(event, delta)``, an upper bound on ε of a native tree of events at δ.
      lower: the lower end of its bracket, where it has one; not timed.
    """

    name: str
    epsilon: Callable[[DpEvent, float], float]
    lower: Callable[[DpEvent, float], float] | None = None


@frozen
class Answer:
    """The answer of an accountant for one composition.

    Attributes:
      epsilon: upper bound, or infinite; None where it has none to give.
      epsilon_lower: the lower end of its bracket, if it has one.
      truth_lower, truth_upper: the ends between which the true ε lies.
      seconds: CPU time of ``epsilon``.
      refused: why there is no ε; else empty.
    """

    accountant: str
    composition: str
    epsilon: float | None
    epsilon_lower: float | None
    truth_lower: float
    truth_upper: float
    seconds: float
    refused: str = ""

    @property
    def ratio(self) -> float | None:
        """ε as a multiple of the truth, at least."""
        return None if self.epsilon is None else self.epsilon / self.truth_upper

    @property
    def ratio_most(self) -> float | None:
        """The same, at most."""
        return None if self.epsilon is None else self.epsilon / self.truth_lower

    @property
    def ratio_of_lower(self) -> float | None:
        """The lower end as a multiple of the truth, at least."""
        return None if self.epsilon_lower is None else self.epsilon_lower / self.truth_upper

    @property
    def judgement(self) -> Judgement:
        """Whether it says too little, or its lower end too much."""
        if self.epsilon is None:
            return "no answer"
        below = self.epsilon < self.truth_lower * (1.0 - TOLERANCE)
        above = self.epsilon_lower is not None and self.epsilon_lower > self.truth_upper * (1.0 + TOLERANCE)
        return "INVALID" if below or above else "not below"


def rate_accountant(accountant: RatedAccountant, composition: KnownComposition) -> Answer:
    """Returns the answer of ``accountant`` for ``composition``.

    Raises:
      InvalidArgumentError: It did not return a number, or NaN or a negative one.
    """
    event, truth = composition.event, composition.truth
    with _quiet():
        start = time.process_time()
        try:
            said = accountant.epsilon(copy.deepcopy(event), composition.delta)
        except Exception as error:  # others' accountants refuse, and fail, in many ways
            seconds = time.process_time() - start
            return Answer(accountant.name, composition.name, None, None, *truth, seconds, _reason(error))
        seconds = time.process_time() - start
        epsilon = validate.real(f"{accountant.name}: epsilon", said, low=0.0, allow_inf=True)
        lower = None if accountant.lower is None else accountant.lower(copy.deepcopy(event), composition.delta)
    return Answer(accountant.name, composition.name, epsilon, lower, *truth, seconds)


def rate(accountants: Sequence[RatedAccountant], compositions: Sequence[KnownComposition]) -> Iterator[Answer]:
    """Yields every answer of every accountant as it is there, accountant by accountant.

    Raises:
      InvalidArgumentError: see :func:`rate_accountant`.
    """
    for accountant in accountants:
        _warm_up(accountant)
        for composition in compositions:
            yield rate_accountant(accountant, composition)


def judge(answers: Iterable[Answer]) -> Judgement:
    """Returns the worst judgement of an accountant over all its answers."""
    judgements = {one.judgement for one in answers}
    return "INVALID" if "INVALID" in judgements else "not below" if "not below" in judgements else "no answer"


# --- accountants -----------------------------------------------------------------------------------------------------


def _ours(event: DpEvent, delta: float) -> float:
    return Accountant().compose(event).get_epsilon(delta)


def _our_lower_end(event: DpEvent, delta: float) -> float:
    found = Accountant().compose(event).bracket(delta).lower
    assert found is not None
    return found


def _native(kind: Any) -> Callable[[DpEvent, float], float]:
    """One of dp-accounting's accountants, under the first relation under which the event has a meaning to it."""

    def epsilon(event: DpEvent, delta: float) -> float:
        made = (kind(neighboring_relation=relation) for relation in _RELATIONS)
        supporting = next((accountant for accountant in made if accountant.supports(event)), None)
        if supporting is None:
            raise NotImplementedError("unsupported event")
        return float(supporting.compose(event).get_epsilon(delta))

    return epsilon


ACCOUNTANTS = (
    RatedAccountant("hockeystick", _ours, _our_lower_end),
    RatedAccountant("dp-accounting-pld", _native(dp_accounting.pld.PLDAccountant)),
    RatedAccountant("dp-accounting-rdp", _native(dp_accounting.rdp.RdpAccountant)),
)
"""Ours, and those of dp-accounting in their default settings."""


def accountant(name: str) -> RatedAccountant:
    """Returns the one of :data:`ACCOUNTANTS` that has this name.

    Raises:
      InvalidArgumentError: none has.
    """
    for one in ACCOUNTANTS:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in ACCOUNTANTS)
    raise InvalidArgumentError("accountant", name, "is unknown", f"use one of {known}, or MODULE:CALLABLE")


# --- parts -----------------------------------------------------------------------------------------------------------


def _warm_up(accountant: RatedAccountant) -> None:
    """Imports and builds what is needed once, so that it does not count in the time of the first answer."""
    sampled = dp_accounting.PoissonSampledDpEvent(0.03, dp_accounting.GaussianDpEvent(2.2))
    with _quiet(), contextlib.suppress(Exception):
        accountant.epsilon(dp_accounting.ComposedDpEvent([sampled, dp_accounting.LaplaceDpEvent(4.4)]), 1e-5)


def _reason(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:150] if said else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the warnings of accountants; only ε counts."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
