"""The comparison of two runs with equal answers: what differs, and which of the differences prove something.

A difference is a *violation* in three cases only.

* Two inputs of one call, after equal answers, are farther apart than its mechanism states. That disproves the
  statement for this pair, whatever δ is; not yet the claim.
* δ = 0, every random answer is shown in the value returned, and the rest of that value differs: then d0 returns it with
  a positive probability (density), and d1 never does. So it is, too, where the run on d1 ends after fewer calls.
* δ = 0, every answer is shown, and the ratio of the path's densities is above e^ε.

An answer is shown if it stands in the same place of the output on all paths. Sorted answers do not: there, several
answers lead to one output.

A draw of a coin or an index may be used to hide any of these differences (randomised response, Poisson samples of sets
with different records), and so may noise that was drawn alone: after such a draw a difference is *not covered*.
Everything else is *not certified*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeGuard

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError
from hockeystick.audits.replay.pricing import Price, UnpricedError, charges, price
from hockeystick.audits.replay.tape import Met, Query, Step, Tape
from hockeystick.audits.replay.values import Leaf, Opaque, difference
from hockeystick.audits.replay.verdict import ReplayFinding, ReplayOutcome

_ABOVE = 1e-9  # relative: densities and prices are sums of rounded floats

NOTE_OF_DRAWS = "a random draw before it may hide the difference"


@frozen
class Ran:
    """One run: its calls, its output as leaves, and how it ended.

    Attributes:
      tape: the calls.
      output: the leaves of the value returned, or of the type of the exception.
      diverged: whether it was stopped at a call that the recorded run did not make.
    """

    tape: Tape
    output: list[Leaf]
    diverged: bool = False


@frozen
class Claimed:
    """The claimed ε and δ."""

    epsilon: float
    delta: float


@define
class Compared:
    """The findings of one comparison, and the distances that it met.

    Attributes:
      findings: the differences.
      met: for each call its mechanism, its line and the distance of its inputs.
      price: of the path; None where the runs differ in their calls, or where ``unpriced``.
      unpriced: whether a call has no finite cost.
      shown: for the answers, numbered, the places of the output that show them.
    """

    order: str
    path: int
    findings: list[ReplayFinding] = field(factory=list)
    met: list[tuple[str, str, Met]] = field(factory=list)
    price: Price | None = None
    unpriced: bool = False
    shown: dict[int, tuple[str, ...]] = field(factory=dict)

    def add(self, outcome: ReplayOutcome, kind: str, message: str, where: str, call: int = 0) -> None:
        """Adds a finding."""
        self.findings.append(ReplayFinding(outcome, kind, message, where, call, self.order, self.path))


def compare(first: Ran, second: Ran, claim: Claimed, order: str, path: int) -> Compared:
    """Returns what the run on one data set and the replay on the other differ in, and the price of the path."""
    found = Compared(order, path, shown=_places(first))
    clean = _calls(first, second, found)
    same = not second.diverged and len(first.tape.steps) == len(second.tape.steps)
    returned = None if second.diverged else difference(first.output, second.output)
    if second.diverged:
        _other_call(first, second, found)
    elif not same:
        _fewer_calls(first, second, claim, found)
    elif returned is not None:
        _unpaid(first, second, returned, claim, found)
    if second.tape.reused and not any(one.kind == "noise reuse" for one in found.findings):
        told = "one draw of noise hides two values that change differently"
        found.add("not certified" if clean else "not covered", "noise reuse", told, second.tape.reused[0])
    if same:
        if returned is None and clean:
            _realised_loss(first, second, claim, found)
        _price(first, second, claim, clean, found)
    _stated(first, second, found)
    return found


# --- the calls -------------------------------------------------------------------------------------------------------


def _pairs(first: Ran, second: Ran) -> Iterator[tuple[int, Step, Step]]:
    """The calls that both runs made, numbered from 1; the last one of a run that was stopped is none of them."""
    other = second.tape.steps[:-1] if second.diverged else second.tape.steps
    for number, (one, two) in enumerate(zip(first.tape.steps, other, strict=False), 1):
        yield number, one, two


def _calls(first: Ran, second: Ran, found: Compared) -> bool:
    """Compares the inputs and the parameters of the calls; returns whether no coin or index was drawn."""
    clean = True
    for number, one, other in _pairs(first, second):
        query = one.query
        clean = clean and not query.is_opaque
        met = query.met(other.query)
        if met is not None:
            found.met.append((query.name, one.where, met))
        if query.parameters() != other.query.parameters():
            told = f"the parameters of {query.name} differ between the data sets, given equal answers"
            found.add(
                "not certified" if clean else "not covered", "parameters", _hedged(told, clean), one.where, number
            )
        if met is not None and met.broken:
            outcome: ReplayOutcome = "violation" if clean else "not covered"
            found.add(outcome, "sensitivity", _hedged(f"{query.name}: {met.broken}", clean), one.where, number)
    return clean


def _stated(first: Ran, second: Ran, found: Compared) -> None:
    """Compares the distances with the stated sensitivities.

    A sensitivity of 1 may be the default, which nobody stated: where the calls cost no more than is claimed at the
    distances that were met, it says nothing; and it may be meant for each entry of an array by itself.
    """
    paid = found.price is not None and not any(finding.kind == "price" for finding in found.findings)
    clean = True
    for number, one, other in _pairs(first, second):
        clean = clean and not one.query.is_opaque
        met = one.query.met(other.query)
        if met is None or not met.exceeds or (met.default and paid):
            continue
        told = (
            f"{one.query.name}: the inputs are {met.distance:.6g} apart ({met.norm}), above the {met.stated:.6g} stated"
        )
        outcome: ReplayOutcome = "not certified" if met.default and met.each else "violation"
        found.add(outcome if clean else "not covered", "sensitivity", _hedged(told, clean), one.where, number)


def _hedged(told: str, clean: bool) -> str:
    return told if clean else f"{told}; {NOTE_OF_DRAWS}"


def _drew(first: Ran) -> bool:
    """Whether a coin or an index was drawn, whose use may hide a difference."""
    return any(step.query.is_opaque for step in first.tape.steps)


def _noise_alone(first: Ran, second: Ran) -> bool:
    """Whether noise was looked at without a value that differs, and may have been put on one later."""
    met = (one.query.met(other.query) for _, one, other in _pairs(first, second))
    return any(one is not None and one.distance == 0.0 for one in met)


def _other_call(first: Ran, second: Ran, found: Compared) -> None:
    number = len(second.tape.steps)
    last = second.tape.steps[-1]
    recorded = first.tape.steps[number - 1] if number <= len(first.tape.steps) else None
    both: list[Query] = [last.query, *([recorded.query] if recorded is not None else [])]
    if recorded is None:
        told = f"{last.query.name} is call {number} on one data set; on the other there are {number - 1} calls"
    elif recorded.query.name != last.query.name:
        told = f"call {number} is {recorded.query.name} on one data set and {last.query.name} on the other"
    else:
        told = (
            f"call {number}, {last.query.name}, has inputs or arguments of other shapes or values on the other data set"
        )
    if any(query.is_opaque for query in both):
        found.add(
            "not covered", "random draw", f"{told}; a draw that depends on data can't be followed", last.where, number
        )
    elif _drew(first):
        found.add("not covered", "control flow", f"{told}, given equal answers; {NOTE_OF_DRAWS}", last.where, number)
    else:
        found.add("not certified", "control flow", f"{told}, given equal answers", last.where, number)


def _fewer_calls(first: Ran, second: Ran, claim: Claimed, found: Compared) -> None:
    made = len(second.tape.steps)
    told = f"{len(first.tape.steps)} calls on one data set and {made} on the other, given equal answers"
    where = first.tape.steps[made].where
    visible = _shown(first.tape.steps[:made], first.output) is not None
    if claim.delta == 0.0 and visible and difference(first.output, second.output) is not None:
        found.add("violation", "control flow", f"{told}; what is returned shows it", where, made + 1)
    elif _drew(first):
        found.add("not covered", "control flow", f"{told}; {NOTE_OF_DRAWS}", where, made + 1)
    else:
        found.add("not certified", "control flow", told, where, made + 1)


# --- the value returned ----------------------------------------------------------------------------------------------


def _places(run: Ran) -> dict[int, tuple[str, ...]]:
    """The places of an output that show each numeric answer, by the number of the answer."""
    places: dict[float, list[str]] = {}
    for place, leaf in run.output:
        if _is_fraction(leaf):
            places.setdefault(leaf, []).append(place)
    numbers = [
        number
        for step in run.tape.steps
        if step.query.is_number
        for number in np.asarray(step.answer, dtype=np.float64).reshape(-1).tolist()
    ]
    return {i: tuple(places[number]) for i, number in enumerate(numbers) if number in places}


def _is_fraction(leaf: object) -> TypeGuard[float]:
    return isinstance(leaf, float) and math.isfinite(leaf) and leaf != math.floor(leaf)


def _shown(steps: list[Step], output: list[Leaf]) -> dict[str, float] | None:
    """Returns the places of an output where it shows all answers of some calls, or None if it does not.

    Only floats with a fraction count, as two of these agree by chance with a probability of about 2^-50; whole numbers,
    bits and indices may agree by chance.
    """
    places: dict[float, list[str]] = {}
    for place, leaf in output:
        if _is_fraction(leaf):
            places.setdefault(leaf, []).append(place)
    found: dict[str, float] = {}
    for step in steps:
        if not step.query.is_number:
            return None
        for number in np.asarray(step.answer, dtype=np.float64).reshape(-1).tolist():
            if number not in places:
                return None
            found.update(dict.fromkeys(places[number], number))
    return found


def _unpaid(first: Ran, second: Ran, returned: Leaf, claim: Claimed, found: Compared) -> None:
    """The outputs differ though all answers are equal."""
    place, leaf = returned
    places = _shown(first.tape.steps, first.output)
    other = dict(second.output)
    shown = places is not None and all(other.get(place) == number for place, number in places.items())
    reused = second.tape.reused
    kind = "noise reuse" if reused else "unpaid release"
    told = f"what is returned differs ({place}), given equal answers of all calls"
    if reused:
        told = f"one draw of noise hides two values that change differently; {told}"
    where = reused[0] if reused else ""
    if claim.delta == 0.0 and shown and not isinstance(leaf, Opaque):
        found.add("violation", kind, f"{told}, and it shows these", where)
    elif _drew(first) or _noise_alone(first, second):
        found.add("not covered", kind, f"{told}; a random draw that is not on the data may hide it", where)
    else:
        found.add("not certified", kind, told, where)


def _realised_loss(first: Ran, second: Ran, claim: Claimed, found: Compared) -> None:
    """A path whose densities differ by more than e^ε, where all of the path is returned."""
    if claim.delta > 0.0 or not first.tape.steps or _shown(first.tape.steps, first.output) is None:
        return
    losses: list[tuple[float, int, Step]] = []
    for number, one, other in _pairs(first, second):
        loss = one.query.loss(other.query, one.answer)
        if loss is None or not math.isfinite(loss):
            return
        losses.append((loss, number, one))
    total = math.fsum(loss for loss, _, _ in losses)
    if abs(total) > claim.epsilon * (1 + _ABOVE) + _ABOVE:
        _, number, step = max(losses, key=lambda row: abs(row[0]))
        told = (
            f"the loss of the recorded answers is {abs(total):.6g}, above the claimed {claim.epsilon:g}, and what is "
            f"returned shows them; most of it is of {step.query.name}"
        )
        found.add("violation", "loss", told, step.where, number)


# --- the price -------------------------------------------------------------------------------------------------------


def _price(first: Ran, second: Ran, claim: Claimed, clean: bool, found: Compared) -> None:
    outcome: ReplayOutcome = "not certified" if clean else "not covered"
    note = "" if clean else "; a sample's amplification is not counted"
    try:
        paid = price(charges(first.tape, second.tape), claim.delta)
    except UnpricedError as error:
        found.unpriced = True
        found.add(outcome, "price", f"{error.reason}{note}", error.where)
        return
    except HockeystickError as error:
        found.unpriced = True
        found.add("not covered", "price", f"the graph of the calls has no guarantee ({error})", "")
        return
    found.price = paid
    if not math.isfinite(paid.epsilon):
        found.unpriced = True
    if paid.epsilon > claim.epsilon * (1 + _ABOVE) + 1e-12:  # it is a sum of rounded numbers
        told = (
            f"the calls of a path cost epsilon {paid.epsilon:.6g} at delta={claim.delta:g}, claimed {claim.epsilon:g}"
        )
        found.add(outcome, "price", f"{told}{note}", paid.dearest)
