"""The server's view of secure sums as cases of the catalogue, with mutants. Needs the extra ``secure-sum``.

The server follows the protocol of ``PairwiseSum`` and uses all messages; c clients give it all that they have. It takes
off a client's message every mask that it can restore. All runs are entries of one vector: masks and noise of different
entries are independent. The claim is the noise of t − c clients.

Source: Bonawitz et al. 2017.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from attrs import evolve, field, frozen

from hockeystick.accounting import compose
from hockeystick.accounting.arrays import IntArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim
from hockeystick.mechanisms import PairwiseSum, SimulationNoise, SkellamShares, SumClient, conduct_sum
from hockeystick.mechanisms.distributed.pairwise import messages, primitives
from hockeystick.mechanisms.distributed.pairwise.sum_client import mask_purpose
from hockeystick.mechanisms.distributed.secure_aggregation import Residues, centred

STATED_AT = 1e-6
"""The delta of the claims."""

CLIENTS, THRESHOLD, COLLUDERS = 6, 5, (4, 5)
HONEST = THRESHOLD - len(COLLUDERS)
VICTIM, LATE = 0, 1
Shown = Literal["sum", "message", "late message", "difference of two runs"]


@frozen(eq=False)
class _Spy:
    """Carries messages between the server and clients in this process, and keeps them and all states."""

    clients: list[SumClient]
    lost: int
    states: dict[int, dict[str, np.ndarray]] = field(factory=dict)
    secrets: dict[int, dict[str, np.ndarray]] = field(factory=dict)
    sent: dict[int, bytes] = field(factory=dict)

    def __call__(self, letters: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
        for client, text in letters.items():
            step = messages.head(text)[0]
            state = self.states.get(client, self.clients[client].start())
            if step == messages.MASKED:
                self.secrets[client] = state  # with keys and the own mask, which the client now forgets
            self.states[client], answer = self.clients[client].answer(state, text)
            if step == messages.MASKED:
                self.sent[client] = answer
                if client == self.lost:
                    continue  # its message comes too late
            yield client, answer


@frozen
class ServerView:
    """The view of a server with two colluders of six clients, of one client whose number is the value.

    Attributes:
      shares: One client's noise.
      modulus: R.
      shown: The sum without the colluders' numbers and noise; the client's message, or its message that came after it
        was said to be lost, without all masks that can be restored; or the difference of the sums of two runs, of
        which the client misses the second.
      one_key: Whether all clients have one key, so that a colluder has all of it.
      own_mask: Whether clients add a mask of their own.
      fresh: Whether the second run has fresh noise.
    """

    shares: SkellamShares
    modulus: int
    shown: Shown
    one_key: bool = False
    own_mask: bool = True
    fresh: bool = True

    def __call__(self, value: int, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns numbers of shape (runs,)."""
        noise = [self.shares.share(2 * runs, noise=SimulationNoise(rng)).reshape(2, runs) for _ in range(CLIENTS)]
        victim = LATE if self.shown == "late message" else VICTIM
        plan = PairwiseSum(clients=CLIENTS, length=runs, modulus=self.modulus, threshold=THRESHOLD)

        def conducted(lost: int, place: int) -> tuple[IntArray, _Spy]:
            numbers = [own[place] + (value if i == victim else 0) for i, own in enumerate(noise)]
            spy = _Spy([SumClient(plan, i, lambda i=i: numbers[i]) for i in range(CLIENTS)], lost)  # type: ignore[misc]
            return conduct_sum(plan, spy).total, spy

        first, spy = conducted(LATE, 0)
        if self.shown == "difference of two runs":
            again, _ = conducted(VICTIM, 1 if self.fresh else 0)
            # The late client is in the second sum only; its noise is known.
            return np.asarray(first - again + noise[LATE][1 if self.fresh else 0])
        if self.shown == "sum":
            return np.asarray(first - sum(noise[i][0] for i in COLLUDERS))
        return self._stripped(plan, spy, victim)

    def _stripped(self, plan: PairwiseSum, spy: _Spy, victim: int) -> IntArray:
        """The victim's message without its masks of pairs with colluders, and those that the server restores."""
        state, text = spy.secrets[victim], spy.sent[victim]
        context = plan.context(state["run"].tobytes())
        body = messages.body(text, primitives.KEY_BYTES, messages.residues_bytes(plan.length, plan.bits))[1]
        found = messages.read_residues(body, plan.length, plan.bits)
        others = [i for i in range(CLIENTS) if i != victim]
        known = others if victim == LATE or self.one_key else [*COLLUDERS, LATE]
        for other in known:
            mask = self._pair(plan, spy, context, victim, other)
            found = found - mask if victim < other else found + mask
        if victim != LATE or not self.own_mask:  # the server restores own masks of those that stayed
            key = primitives.derived(state["own"].tobytes(), context + b"own")
            found = found - primitives.keystream(key, plan.length, plan.modulus)
        return centred(found, plan.modulus)

    def _pair(self, plan: PairwiseSum, spy: _Spy, context: bytes, one: int, other: int) -> Residues:
        mine, theirs = (spy.secrets[i]["secret"].tobytes() for i in (one, other))
        agreed = primitives.agreeing(mine)(primitives.public_key(theirs))
        assert agreed is not None
        key = primitives.derived(agreed, mask_purpose(context, one, other))
        return primitives.keystream(key, plan.length, plan.modulus)


def secure_sum_cases() -> Iterable[Case]:
    """Yields the cases, or none if the extra is not installed."""
    if find_spec("cryptography") is None:
        return
    shares = SkellamShares(0.5, survivors=HONEST)
    seen = ServerView(shares, 64, "sum")
    yield _case("secure-sum", shares, seen)
    yield _case("secure-sum[colluders' noise counted]", evolve(shares, survivors=THRESHOLD), seen, 64_000)
    message = evolve(seen, shown="message")
    yield _case("secure-sum:message", shares, message)
    yield _case("secure-sum:message[one key for all]", shares, evolve(message, one_key=True), 4_000)
    late = evolve(seen, shown="late message")
    yield _case("secure-sum:late", shares, late)
    yield _case("secure-sum:late[no mask of its own]", shares, evolve(late, own_mask=False), 4_000)
    twice = evolve(seen, shown="difference of two runs")
    yield _case("secure-sum:retry", shares, twice, runs=2)
    yield _case("secure-sum:retry[the noise of the first run]", shares, evolve(twice, fresh=False), 4_000, runs=2)


def _case(name: str, claimed: SkellamShares, view: ServerView, refuted_by: int | None = None, *, runs: int = 1) -> Case:
    build = partial(_subject, claimed, view, runs)
    return Case.of(f"mechanism/{name}", build, refuted_by, correct=100_000, source="Bonawitz et al. 2017")


def _subject(claimed: SkellamShares, view: Any, runs: int) -> Subject:
    claim = Claim.curve(compose((claimed.event(), runs)), STATED_AT)
    return Subject(target=view, neighbours=(0, 1), claim=claim, truth=None)
