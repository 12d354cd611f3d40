"""The server of a secure sum: what it asks, what it accepts, and how it restores the masks of those that stayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms.distributed.pairwise import messages as wire
from hockeystick.mechanisms.distributed.pairwise import primitives, shamir
from hockeystick.mechanisms.distributed.pairwise.messages import MessageError
from hockeystick.mechanisms.distributed.pairwise.pairwise_sum import PairwiseSum
from hockeystick.mechanisms.distributed.pairwise.sum_client import (
    BAD_BOX,
    BAD_KEY,
    BAD_SIGNATURE,
    AnySumClient,
    SumClient,
    check_different,
    mask_purpose,
)
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, Residues, centred

Letters = dict[int, bytes]
Post = Callable[[Letters], Iterable[tuple[int, bytes]]]
"""Takes a message for each client that is asked; returns the answers that arrive, each with the client that sent it."""

_COMPLAINTS = {
    BAD_KEY: "has sent a key that agrees with all keys",
    BAD_BOX: "has sent a share that does not decrypt",
    BAD_SIGNATURE: "has not signed its keys",
}


@frozen
class Refusal:
    """A message that a server did not use, without its content; see ``conduct_sum``.

    Attributes:
      client: The client that sent it.
      step: The place of the step in the run, from 0.
      reason: The reason, as a sentence.
    """

    client: int
    step: int
    reason: str


@frozen(eq=False)
class SumOutcome:
    """The outcome of a secure sum; see ``conduct_sum``.

    Attributes:
      total: The sum over ``clients``, read in [−R/2, R/2), shape (length,).
      clients: The clients whose numbers are in the sum.
      refused: The messages that were not used.
      up, down: The bytes of all messages from and to the clients.
    """

    total: IntArray = field(repr=False)
    clients: tuple[int, ...]
    refused: tuple[Refusal, ...]
    up: int
    down: int


@frozen(eq=False)
class ClientsInProcess:
    """Carries messages to clients in this process; see ``conduct_sum``. It keeps their states, for one run.

    Args:
      clients: The clients 0 … n − 1.
      silent: ``silent(i, k)`` says whether client i drops out before it answers step k = 0, 1, …; by default none does.
    """

    clients: Sequence[AnySumClient] = field(repr=False)
    silent: Callable[[int, int], bool] = field(default=lambda client, step: False, repr=False)
    _states: dict[int, dict[str, np.ndarray]] = field(factory=dict, init=False, repr=False)
    _steps: list[int] = field(factory=list, init=False, repr=False)

    def __call__(self, letters: Letters) -> list[tuple[int, bytes]]:
        step = len(self._steps)
        self._steps.append(step)
        found = []
        for client, text in letters.items():
            if not self.silent(client, step):
                state = self._states.get(client, self.clients[client].start())
                self._states[client], answer = self.clients[client].answer(state, text)
                found.append((client, answer))
        return found


def conduct_sum(plan: PairwiseSum, post: Post, *, charge: Callable[[], object] | None = None) -> SumOutcome:
    """Conducts one secure sum over clients that ``post`` reaches. Needs the extra ``secure-sum``.

    Args:
      plan: The public plan.
      post: Carries messages. A client that does not answer a step has dropped out and is not asked again.
      charge: Called once, before clients are asked for masked numbers: privacy is spent then, and not before. Whatever
        it raises ends the run.

    Raises:
      AggregationError: fewer than t clients answer a step; two clients have the same key; a client complains about
        another one's key or share; or restored masks are not those that were sent. There is no sum, and the clients
        that sent masked numbers have spent their privacy.

    Example:
      >>> from hockeystick.mechanisms import ClientsInProcess, PairwiseSum, SumClient, conduct_sum
      >>> plan = PairwiseSum(clients=4, length=2, modulus=64)
      >>> clients = [SumClient(plan, i, lambda i=i: [i, -1]) for i in range(4)]
      >>> outcome = conduct_sum(plan, ClientsInProcess(clients, silent=lambda client, step: client == 3 and step == 2))
      >>> outcome.total, outcome.clients
      (array([ 3, -3]), (0, 1, 2))
    """
    served = serve(plan)
    letters = next(served)
    up = down = 0
    while True:
        if charge is not None and wire.head(next(iter(letters.values())))[0] == wire.MASKED:
            charge()
        answers = list(post(dict(letters)))
        down += sum(map(len, letters.values()))
        up += sum(len(text) for _, text in answers if isinstance(text, bytes))
        try:
            letters = served.send(answers)
        except StopIteration as stop:
            total, stayed, refused = stop.value
            return SumOutcome(total, stayed, refused, up, down)


Answers = Iterable[tuple[int, bytes]]
Found = tuple[IntArray, tuple[int, ...], tuple[Refusal, ...]]


def serve(plan: PairwiseSum, run: bytes | None = None) -> Generator[Letters, Answers, Found]:
    """Returns the server: it yields messages, receives answers, and returns sum, clients and refused messages.

    Args:
      plan: The public plan.
      run: 16 bytes that no other run has; by default from the operating system.

    Raises:
      AggregationError: (during the run) see ``conduct_sum``.
    """
    if not isinstance(plan, PairwiseSum):
        raise InvalidArgumentError("plan", type(plan).__name__, "is not a PairwiseSum")
    return _Server(plan, os.urandom(wire.RUN_BYTES) if run is None else run).served()


@frozen(eq=False)
class _Server:
    plan: PairwiseSum
    run: bytes
    refused: list[Refusal] = field(factory=list)
    steps: list[int] = field(factory=list)

    def served(self) -> Generator[Letters, Answers, Found]:
        plan, n = self.plan, self.plan.clients
        extra = 0 if plan.identities is None else primitives.SIGNATURE_BYTES
        rows = yield from self._step(wire.KEYS, dict.fromkeys(range(n), b""), wire.ROW_BYTES + extra)
        keys = {client: row[: wire.ROW_BYTES] for client, row in rows.items()}
        check_different(keys)

        table = wire.packed_set(rows, n) + b"".join(rows.values())
        boxes = yield from self._step(wire.SHARES, dict.fromkeys(rows, table), wire.BOX_BYTES * (len(rows) - 1))
        sent = {
            sender: dict(zip([each for each in rows if each != sender], wire.cut(text, wire.BOX_BYTES), strict=True))
            for sender, text in boxes.items()
        }
        members = wire.packed_set(sent, n)
        own = {i: members + b"".join(to[i] for sender, to in sent.items() if sender != i) for i in sent}
        size = primitives.KEY_BYTES + wire.residues_bytes(plan.length, plan.bits)
        masked = yield from self._step(wire.MASKED, own, size)

        stayed = tuple(masked)
        ask = wire.packed_set(stayed, n)
        asked: Sequence[int] = stayed
        if plan.identities is not None:
            signatures = yield from self._step(wire.SIGN, dict.fromkeys(stayed, ask), primitives.SIGNATURE_BYTES)
            ask = wire.packed_set(signatures, n) + b"".join(signatures.values())
            asked = tuple(signatures)
        answers = yield from self._step(wire.UNMASK, dict.fromkeys(asked, ask), shamir.SHARE_BYTES * len(sent))
        total = self._unmasked(keys, tuple(sent), masked, answers)
        return centred(total, plan.modulus), stayed, tuple(self.refused)

    def _step(
        self, step: int, asked: Mapping[int, bytes], length: int
    ) -> Generator[Letters, Answers, dict[int, bytes]]:
        """Asks clients; returns the parts of their proper answers after the head, by client, ascending."""
        place = len(self.steps)
        self.steps.append(step)
        found: dict[int, bytes] = {}
        letters = {i: wire.message(step, wire.DOWN, self.run, i, text) for i, text in asked.items()}
        for client, text in (yield letters):
            try:
                if client not in asked:
                    raise MessageError("the client was not asked")
                if client in found:
                    raise MessageError("the client has answered this step")
                found[client] = self._read(step, client, text, length, asked)
            except MessageError as error:
                self.refused.append(Refusal(client, place, str(error)))
        if len(found) < self.plan.threshold:
            raise AggregationError(
                f"step {place}: {len(found)} of {self.plan.clients} clients have answered, and the threshold is "
                f"{self.plan.threshold}: no sum is formed"
            )
        return dict(sorted(found.items()))

    def _read(self, step: int, client: int, text: object, length: int, asked: Mapping[int, bytes]) -> bytes:
        found, direction, run, sender = wire.head(text)
        if direction != wire.UP or run != self.run or sender != client:
            raise MessageError("the message is of another run or client")
        assert isinstance(text, bytes)
        if found == wire.COMPLAINT:
            reason, accused = wire.body(text, 1, 4)
            about = int.from_bytes(accused, "big")
            if reason[0] in _COMPLAINTS and about != client and about < self.plan.clients:
                raise AggregationError(f"client {client} reports that client {about} {_COMPLAINTS[reason[0]]}")
        if found != step:
            raise MessageError(f"the message is of step {found}, and {step} is due")
        return wire.body(text, length)[0]

    def _unmasked(
        self,
        keys: Mapping[int, bytes],
        shared: Sequence[int],
        masked: Mapping[int, bytes],
        answers: Mapping[int, bytes],
    ) -> Residues:
        """The sum of the masked numbers without the masks: each client that shared its secrets has one restored."""
        plan, context = self.plan, self.plan.context(self.run)
        holders = list(answers)[: plan.threshold]
        weights = shamir.weights_at_zero(holders)
        shares = {holder: wire.cut(answers[holder], shamir.SHARE_BYTES) for holder in holders}
        total = np.zeros(plan.length, dtype=np.uint64)
        for text in masked.values():
            total += wire.read_residues(text[primitives.KEY_BYTES :], plan.length, plan.bits)
        for place, client in enumerate(shared):
            secret = shamir.combined({holder: each[place] for holder, each in shares.items()}, weights)
            if client in masked:
                check = masked[client][: primitives.KEY_BYTES]
                if secret is None or primitives.derived(secret, context + b"check") != check:
                    raise AggregationError(f"the shares of the own mask of client {client} do not restore it")
                seed = primitives.derived(secret, context + b"own")
                total -= primitives.keystream(seed, plan.length, plan.modulus)
            else:
                mask_key = keys[client][primitives.KEY_BYTES :]
                if secret is None or primitives.public_key(secret) != mask_key:
                    raise AggregationError(f"the shares of the key of client {client} do not restore it")
                total += self._masks_of(secret, client, keys, tuple(masked))
        return total & np.uint64(plan.modulus - 1)

    def _masks_of(self, secret: bytes, lost: int, keys: Mapping[int, bytes], stayed: Sequence[int]) -> Residues:
        """The sum of the masks that a lost client would have sent for the clients that stayed, which cancel theirs."""
        plan, context = self.plan, self.plan.context(self.run)
        total = np.zeros(plan.length, dtype=np.uint64)
        agreed = primitives.agreeing(secret)
        for other in stayed:
            shared = agreed(keys[other][primitives.KEY_BYTES :])
            if shared is None:
                raise AggregationError(f"client {other} {_COMPLAINTS[BAD_KEY]}")
            seed = primitives.derived(shared, mask_purpose(context, lost, other))
            mask = primitives.keystream(seed, plan.length, plan.modulus)
            total = total + mask if lost < other else total - mask
        return total


def sum_in_process(
    plan: PairwiseSum, numbers: Mapping[int, IntArray], *, silent: Callable[[int, int], bool] | None = None
) -> SumOutcome:
    """Returns the outcome of a secure sum of which this process plays the server and all clients.

    Args:
      plan: The public plan, without identities.
      numbers: The numbers of the clients that take part, with their noise; the others do not answer at all.
      silent: As for ``ClientsInProcess``.

    Raises:
      AggregationError: as for ``conduct_sum``.
      InvalidDataError: the numbers are not whole, or not of the plan's length.
    """
    for values in numbers.values():
        if np.shape(values) != (plan.length,):
            raise InvalidDataError("numbers", values, f"are not {plan.length}")
    clients = [SumClient(plan, i, lambda i=i: numbers[i]) for i in range(plan.clients)]  # type: ignore[misc]
    gone = (lambda client, step: False) if silent is None else silent
    return conduct_sum(plan, ClientsInProcess(clients, lambda i, step: i not in numbers or gone(i, step)))
