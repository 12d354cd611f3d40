"""A client of a secure sum: a function from its state and the server's message to its new state and its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.mechanisms.distributed.pairwise import messages as wire
from hockeystick.mechanisms.distributed.pairwise import primitives, shamir
from hockeystick.mechanisms.distributed.pairwise.messages import MessageError
from hockeystick.mechanisms.distributed.pairwise.pairwise_sum import PairwiseSum
from hockeystick.mechanisms.numbers.added_integers import whole_numbers

State = dict[str, NDArray[np.generic]]
Known = Mapping[str, NDArray[np.generic]]
_Step = tuple[int, State, list[bytes]]  # the following step, what is kept beside the run, the parts of the answer
_OVER = 255  # the step of a client that answers nothing more
BAD_KEY, BAD_BOX, BAD_SIGNATURE = range(3)
"""The reasons for a complaint about another client."""


class AnySumClient(Protocol):
    """A ``SumClient``, or an object with the same two methods."""

    def start(self) -> State:
        """Returns the state before the first message."""

    def answer(self, state: Known, text: bytes) -> tuple[State, bytes]:
        """Returns the state after a message, and the answer to it."""


@frozen
class _AccusationError(Exception):
    client: int
    reason: int


def mask_purpose(context: bytes, one: int, other: int) -> bytes:
    """Returns the purpose of the key from which a pair derives its mask; the order of the pair does not matter."""
    return context + b"mask" + _pair(min(one, other), max(one, other))


def box_purpose(context: bytes, sender: int, receiver: int) -> bytes:
    """Returns the purpose of the key of the only box from a client to another."""
    return context + b"box" + _pair(sender, receiver)


def signed_keys(context: bytes, client: int, keys: bytes) -> bytes:
    """Returns the text that a client signs with its keys."""
    return context + b"keys" + client.to_bytes(4, "big") + keys


def signed_list(context: bytes, stayed: bytes) -> bytes:
    """Returns the text that a client signs with the set of clients that stayed."""
    return context + b"stayed" + stayed


def _pair(one: int, other: int) -> bytes:
    return one.to_bytes(4, "big") + other.to_bytes(4, "big")


def _kept(**texts: bytes) -> State:
    return {name: np.frombuffer(text, dtype=np.uint8).copy() for name, text in texts.items()}


@frozen(eq=False)
class SumClient:
    """One client of a ``PairwiseSum``. It has a state between messages, which is as secret as its numbers.

    It answers each step once, and in order. It refuses to restore masks if its own numbers are said to be missing, or
    fewer than t clients are left, and it gives away shares of one kind only for each client. From its third answer on
    (the masked numbers) its privacy is spent, whether or not there is a sum. Another run needs fresh noise and costs
    again; keys are fresh in every run.

    Args:
      plan: The public plan.
      number: The client's number, 0 … n − 1.
      numbers: Returns the client's whole numbers with its share of noise, shape (length,). Called once, for the masked
        numbers, so that the noise is fresh; charge a ledger of the client's own there.
      identity: The client's secret Ed25519 key, if the plan has identities.

    Raises:
      InvalidArgumentError: there is no such client, or the identity is not the one of the plan.

    Example:
      See ``conduct_sum``.
    """

    plan: PairwiseSum
    number: int
    numbers: Callable[[], ArrayLike] = field(repr=False)
    identity: bytes | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.plan, PairwiseSum):
            raise InvalidArgumentError("plan", type(self.plan).__name__, "is not a PairwiseSum")
        validate.integer("number", self.number, low=0, high=self.plan.clients - 1)
        if not callable(self.numbers):
            raise InvalidDataError("numbers", self.numbers, "is not a function", "return the numbers in a function")
        own = None if self.plan.identities is None else self.plan.identities[self.number]
        given = self.identity
        if given is not None and (not isinstance(given, bytes) or len(given) != 32):
            raise InvalidArgumentError("identity", "…", "is not a secret key of 32 bytes", "use new_identity")
        if (None if given is None else primitives.identity_of(given)) != own:
            raise InvalidArgumentError("identity", "…", f"is not that of client {self.number} in the plan")

    def start(self) -> State:
        """Returns the state before the first message."""
        return {"step": np.array(wire.KEYS)}

    def answer(self, state: Known, text: bytes) -> tuple[State, bytes]:
        """Returns the state after a message of the server, and the answer to it.

        If another client's key or box is not usable, the answer is a complaint, which ends the run.

        Raises:
          MessageError: the message is not the next one, or asks for what the client does not do. The state stays.
          InvalidDataError: ``numbers`` does not return whole numbers of the right shape.
        """
        step, direction, run, client = wire.head(text)
        due = int(state["step"])
        if direction != wire.DOWN or client != self.number:
            raise MessageError(f"the message is not for client {self.number}")
        if step != due or due == _OVER:
            raise MessageError(f"step {step} is not due: an answered step is never answered again")
        if step != wire.KEYS and run != state["run"].tobytes():
            raise MessageError("the message is of another run")
        answers = {
            wire.KEYS: self._keys,
            wire.SHARES: self._boxes,
            wire.MASKED: self._masked,
            wire.SIGN: self._signed,
            wire.UNMASK: self._shares,
        }
        try:
            following, new, parts = answers[step](state, self.plan.context(run), text)
        except _AccusationError as found:
            about = bytes((found.reason,)) + found.client.to_bytes(4, "big")
            return {"step": np.array(_OVER)}, wire.message(wire.COMPLAINT, wire.UP, run, self.number, about)
        return {"step": np.array(following), **_kept(run=run), **new}, wire.message(
            step, wire.UP, run, self.number, *parts
        )

    def _keys(self, _: Known, context: bytes, text: bytes) -> _Step:
        wire.body(text)
        (box_secret, box_public), (mask_secret, mask_public) = primitives.new_key(), primitives.new_key()
        parts = [box_public, mask_public]
        if self.identity is not None:
            parts.append(primitives.signed(self.identity, signed_keys(context, self.number, box_public + mask_public)))
        return wire.SHARES, _kept(secrets=box_secret + mask_secret, own=box_public + mask_public), parts

    def _boxes(self, state: Known, context: bytes, text: bytes) -> _Step:
        plan, names = self.plan, self.plan.identities
        row = wire.ROW_BYTES + (0 if names is None else primitives.SIGNATURE_BYTES)
        rows = wire.set_and_rows(text, plan.clients, row)
        keys = {client: each[: wire.ROW_BYTES] for client, each in rows.items()}
        self._check_set(keys, range(plan.clients))
        if keys[self.number] != state["own"].tobytes():
            raise MessageError(f"the keys of client {self.number} are not those that it has sent")
        check_different(keys)
        for client, each in rows.items():
            if names is not None and not primitives.is_signed(
                names[client], each[wire.ROW_BYTES :], signed_keys(context, client, keys[client])
            ):
                raise _AccusationError(client, BAD_SIGNATURE)
        secret, own = state["secrets"].tobytes(), os.urandom(shamir.SECRET_BYTES)
        both = [
            shamir.shares_of(each, threshold=plan.threshold, clients=plan.clients)
            for each in (secret[primitives.KEY_BYTES :], own)
        ]
        shared = self._shared(
            secret[: primitives.KEY_BYTES], {i: each[: primitives.KEY_BYTES] for i, each in keys.items()}
        )
        boxes = []
        for other, each in shared.items():
            key = primitives.derived(each, box_purpose(context, self.number, other))
            boxes.append(primitives.boxed(key, bytes(12), both[0][other] + both[1][other], context))
        new = _kept(
            secret=secret[primitives.KEY_BYTES :],
            own=own,
            members=wire.packed_set(keys, plan.clients),
            keys=b"".join(each[primitives.KEY_BYTES :] for each in keys.values()),
            shared=b"".join(shared.values()),
            pair=both[0][self.number] + both[1][self.number],
        )
        return wire.MASKED, new, boxes

    def _masked(self, state: Known, context: bytes, text: bytes) -> _Step:
        plan, own = self.plan, state["own"].tobytes()
        before = wire.read_set(state["members"].tobytes(), plan.clients)
        keys = dict(zip(before, wire.cut(state["keys"].tobytes(), primitives.KEY_BYTES), strict=True))
        others = [other for other in before if other != self.number]
        boxed_with = dict(zip(others, wire.cut(state["shared"].tobytes(), primitives.KEY_BYTES), strict=True))
        boxes = wire.set_and_rows(text, plan.clients, wire.BOX_BYTES, skip=self.number)
        self._check_set(boxes, keys)
        pairs = {self.number: state["pair"].tobytes()}
        total = primitives.keystream(primitives.derived(own, context + b"own"), plan.length, plan.modulus)
        for other, box in boxes.items():
            if other == self.number:
                continue
            key = primitives.derived(boxed_with[other], box_purpose(context, other, self.number))
            found = primitives.unboxed(key, bytes(12), box, context)
            if found is None:
                raise _AccusationError(other, BAD_BOX)
            pairs[other] = found
        shared = self._shared(state["secret"].tobytes(), {other: keys[other] for other in boxes})
        for other, each in shared.items():
            seed = primitives.derived(each, mask_purpose(context, self.number, other))
            mask = primitives.keystream(seed, plan.length, plan.modulus)
            total = total + mask if self.number < other else total - mask
        values = whole_numbers("numbers", self.numbers())
        if values.shape != (plan.length,):
            raise InvalidDataError("numbers", values, f"are not {plan.length}")
        sent = (total + values.view(np.uint64)) & np.uint64(plan.modulus - 1)
        new = _kept(members=wire.packed_set(pairs, plan.clients), pairs=b"".join(pairs[each] for each in sorted(pairs)))
        check = primitives.derived(own, context + b"check")
        following = wire.UNMASK if plan.identities is None else wire.SIGN
        return following, new, [check, wire.packed_residues(sent, plan.bits)]

    def _signed(self, state: Known, context: bytes, text: bytes) -> _Step:
        (stayed,) = wire.body(text, wire.set_bytes(self.plan.clients))
        members = wire.read_set(state["members"].tobytes(), self.plan.clients)
        self._check_set(wire.read_set(stayed, self.plan.clients), members)
        assert self.identity is not None
        new = _kept(members=state["members"].tobytes(), pairs=state["pairs"].tobytes(), stayed=stayed)
        return wire.UNMASK, new, [primitives.signed(self.identity, signed_list(context, stayed))]

    def _shares(self, state: Known, context: bytes, text: bytes) -> _Step:
        plan, size = self.plan, wire.set_bytes(self.plan.clients)
        members = wire.read_set(state["members"].tobytes(), plan.clients)
        if plan.identities is None:
            (stayed,) = wire.body(text, size)
        else:
            stayed = state["stayed"].tobytes()
            signatures = wire.set_and_rows(text, plan.clients, primitives.SIGNATURE_BYTES)
            self._check_signatures(signatures, stayed, context)
        alive = set(wire.read_set(stayed, plan.clients))
        self._check_set(alive, members)
        pairs = wire.cut(state["pairs"].tobytes(), wire.PAIR_BYTES)
        half = shamir.SHARE_BYTES  # of a client that stayed the share of its own mask, else that of its key; never both
        parts = [pair[half:] if each in alive else pair[:half] for each, pair in zip(members, pairs, strict=True)]
        return _OVER, {}, parts

    def _check_signatures(self, signatures: Mapping[int, bytes], stayed: bytes, context: bytes) -> None:
        names, alive = self.plan.identities or (), wire.read_set(stayed, self.plan.clients)
        text = signed_list(context, stayed)
        good = [i for i, each in signatures.items() if i in alive and primitives.is_signed(names[i], each, text)]
        if len(good) < self.plan.threshold:
            raise MessageError(f"{len(good)} clients have signed the list, and the threshold is {self.plan.threshold}")

    def _check_set(self, members: Mapping[int, bytes] | set[int] | tuple[int, ...], before: object) -> None:
        """Raises unless the client itself and t clients are in a set, and all are among those before."""
        known = set(before)  # type: ignore[call-overload]
        if self.number not in members:
            raise MessageError(f"client {self.number} is said to have dropped out: its masks stay secret")
        if len(members) < self.plan.threshold:
            raise MessageError(f"{len(members)} clients are left, and the threshold is {self.plan.threshold}")
        if not set(members) <= known:
            raise MessageError("a client is back that had dropped out")

    def _shared(self, secret: bytes, keys: Mapping[int, bytes]) -> dict[int, bytes]:
        """The secrets of the pairs with all other clients, in the order of their public keys."""
        agreed, found = primitives.agreeing(secret), {}
        for other, key in keys.items():
            if other != self.number:
                each = agreed(key)
                if each is None:
                    raise _AccusationError(other, BAD_KEY)
                found[other] = each
        return found


def check_different(keys: Mapping[int, bytes]) -> None:
    """Raises if two public keys are equal: their owners, or whoever copied one, would share the keys of all pairs.

    Raises:
      MessageError: it names the client of the second one.
    """
    seen: dict[bytes, int] = {}
    for client, both in keys.items():
        for key in wire.cut(both, primitives.KEY_BYTES):
            if key in seen:
                raise MessageError(f"client {client} has sent a key that client {seen[key]} has sent")
            seen[key] = client
