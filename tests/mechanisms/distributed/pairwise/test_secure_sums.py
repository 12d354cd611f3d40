"""Tests of secure sums: dropouts at every step, sizes, tampered and forged messages, and exact laws of what is seen."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.mechanisms import ClientsInProcess, PairwiseSum, SumClient, conduct_sum
from hockeystick.mechanisms.distributed.pairwise import messages as wire
from hockeystick.mechanisms.distributed.pairwise.messages import MessageError
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError

pytest.importorskip("cryptography", reason="needs the extra secure-sum")

from hockeystick.mechanisms.distributed.pairwise import primitives, sum_client
from hockeystick.mechanisms.distributed.pairwise.sum_server import serve, sum_in_process

Change = Callable[[int, int, bytes], list[tuple[int, bytes]]]
IDENTITIES = [primitives.new_identity() for _ in range(4)]


def plan(signed: bool = False, **changed: Any) -> PairwiseSum:
    names = tuple(public for _, public in IDENTITIES) if signed else None
    return PairwiseSum(**{"clients": 4, "length": 3, "modulus": 2**20, "identities": names, **changed})


def clients(of: PairwiseSum) -> list[SumClient]:
    secret = [None if of.identities is None else IDENTITIES[i][0] for i in range(of.clients)]
    numbers = [np.arange(of.length) * (i + 1) - 2 for i in range(of.clients)]
    return [SumClient(of, i, lambda i=i: numbers[i], identity=secret[i]) for i in range(of.clients)]  # type: ignore[misc]


class Changed:
    """Clients in process, with faults on the way to the server (``up``) or to the clients (``down``)."""

    def __init__(
        self, of: PairwiseSum, up: Change | None = None, down: Callable[[int, int, bytes], bytes] | None = None
    ):
        self.inner, self.step, self.up, self.down = ClientsInProcess(clients(of)), -1, up, down

    def __call__(self, letters: dict[int, bytes]) -> list[tuple[int, bytes]]:
        self.step += 1
        if self.down is not None:
            letters = {i: self.down(self.step, i, text) for i, text in letters.items()}
        answers = self.inner(letters)
        return [each for i, text in answers for each in (self.up(self.step, i, text) if self.up else [(i, text)])]


def total_of(kept: tuple[int, ...]) -> list[int]:
    return [sum(k * (i + 1) - 2 for i in kept) for k in range(3)]


# --- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=40)
@given(st.data(), st.sampled_from([2**8, 2**13, 2**32, 2**62]), st.booleans())
def test_the_sum_is_that_of_those_that_sent_masked_numbers(data: st.DataObject, modulus: int, signed: bool) -> None:
    """Whoever drops out, at whichever step, down to the threshold; below it there is none."""
    n = 4 if signed else data.draw(st.integers(2, 7))
    t, steps = data.draw(st.integers(1, n)), 5 if signed else 4
    of = plan(signed, clients=n, length=2, modulus=modulus, threshold=t)
    gone = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(0, steps - 1), max_size=n))
    vectors = np.array(
        data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), min_size=n, max_size=n))
    )
    secret = [IDENTITIES[i][0] if signed else None for i in range(n)]
    those = [SumClient(of, i, lambda i=i: vectors[i], identity=secret[i]) for i in range(n)]  # type: ignore[misc]
    post = ClientsInProcess(those, lambda i, step: gone.get(i, steps) <= step)
    if n - len(gone) < t:
        with pytest.raises(AggregationError, match=f"threshold is {t}: no sum"):
            conduct_sum(of, post)
        return
    found = conduct_sum(of, post)
    kept = [i for i in range(n) if gone.get(i, steps) > 2]
    assert found.clients == tuple(kept) and found.refused == ()
    exact = vectors[kept].sum(axis=0)
    assert ((found.total - exact) % modulus == 0).all() and (np.abs(found.total) <= modulus // 2).all()
    assert (found.total == exact).all() or modulus == 2**8


@pytest.mark.parametrize("signed", [False, True])
def test_messages_have_the_stated_sizes(signed: bool) -> None:
    """Up: keys, 82 bytes for each other client, R bits a number and a check, 33 bytes a client; 26 bytes a message."""
    of = plan(signed, length=100, modulus=2**21)
    post = Changed(of)
    found = conduct_sum(of, post)
    up = 64 + 3 * 82 + 32 + -(-2100 // 8) + 4 * 33 + 4 * 26
    down = 0 + (1 + 4 * 64) + (1 + 3 * 82) + 1 + 4 * 26
    if signed:
        up, down = up + 64 + 64 + 26, down + 4 * 64 + (1 + 4 * 64) + 26
    assert (found.up, found.down) == (4 * up, 4 * down)


def test_a_hundred_clients_send_at_most_52_kB() -> None:
    of = PairwiseSum(clients=100, length=10_000, modulus=2**32)
    up = 64 + 99 * 82 + 32 + wire.residues_bytes(of.length, of.bits) + 100 * 33 + 4 * 26
    assert of.threshold == 67 and up == 51_618 <= 52_000


# --- faults ----------------------------------------------------------------------------------------------------------


def flipped(text: bytes, at: int) -> bytes:
    return text[:at] + bytes((text[at] ^ 1,)) + text[at + 1 :]


def at(step: int, client: int, change: Callable[[bytes], list[tuple[int, bytes]]]) -> Change:
    return lambda k, i, text: change(text) if (k, i) == (step, client) else [(i, text)]


REFUSED: dict[str, tuple[int, Callable[[bytes], list[tuple[int, bytes]]], str]] = {
    "sent twice": (2, lambda text: [(1, text), (1, text)], "has answered"),
    "forged for another": (2, lambda text: [(1, text), (2, text)], "another run or client"),
    "by nobody": (2, lambda text: [(1, text), (9, text)], "not asked"),
    "empty": (2, lambda text: [(1, b""), (1, text)], "not one of a secure sum"),
    "no bytes": (2, lambda text: [(1, "text"), (1, text)], "not one of a secure sum"),  # type: ignore[list-item]
    "too short": (2, lambda text: [(1, text[:-1]), (1, text)], "bytes, and"),
    "of another step": (3, lambda text: [(1, text[:4] + b"\x02" + text[5:]), (1, text)], "step 2, and 3"),
    "of another run": (3, lambda text: [(1, flipped(text, 6)), (1, text)], "another run"),
    "the server's own": (3, lambda text: [(1, flipped(text, 5)), (1, text)], "another run or client"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_message_that_does_not_fit_is_refused_and_the_proper_one_counts(name: str) -> None:
    step, change, reason = REFUSED[name]
    found = conduct_sum(plan(), Changed(plan(), at(step, 1, change)))
    assert found.total.tolist() == total_of((0, 1, 2, 3)) and found.clients == (0, 1, 2, 3)
    (refusal,) = found.refused
    assert refusal.step == step and reason in refusal.reason


def test_a_late_message_is_refused() -> None:
    kept: list[tuple[int, bytes]] = []

    def late(step: int, client: int, text: bytes) -> list[tuple[int, bytes]]:
        if (step, client) == (2, 1):
            kept.append((client, text))
            return []
        return [(client, text), *([kept.pop()] if step == 3 and kept else [])]

    found = conduct_sum(plan(), Changed(plan(), late))
    assert found.clients == (0, 2, 3) and found.total.tolist() == total_of((0, 2, 3))
    assert [each.client for each in found.refused] == [1] and "not asked" in found.refused[0].reason


HEAD = 26
ENDS: dict[str, tuple[bool, int, Callable[[bytes], bytes], str]] = {
    "a share that does not decrypt": (
        False,
        1,
        lambda text: flipped(text, HEAD),
        "client 1 has sent a share that does",
    ),
    "keys that change on the way": (
        False,
        0,
        lambda text: text[:HEAD] + bytes(32) + text[HEAD + 32 :],
        "not those that it has",
    ),
    "a wrong share": (False, 3, lambda text: flipped(text, HEAD + 32), "own mask of client 0 do not restore"),
    "a wrong check": (False, 2, lambda text: flipped(text, HEAD), "own mask of client 1 do not restore"),
    "a signature of keys": (True, 0, lambda text: flipped(text, HEAD + 64), "client 1 has not signed"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_tampered_message_ends_the_run(name: str) -> None:
    """A flipped bit of client 1's message, whose head stays."""
    signed, step, change, reason = ENDS[name]
    of = plan(signed, threshold=4)
    with pytest.raises(AggregationError, match=reason):
        conduct_sum(of, Changed(of, at(step, 1, lambda text: [(1, change(text))])))


def test_equal_keys_are_refused_by_the_server_and_by_clients() -> None:
    copied: dict[int, bytes] = {}

    def copy(step: int, client: int, text: bytes) -> list[tuple[int, bytes]]:
        if step == 0:
            copied[client] = text[HEAD : HEAD + 32]
            text = text[: HEAD + 32] + copied[0] if client == 2 else text
        return [(client, text)]

    post = Changed(plan(), copy)
    with pytest.raises(AggregationError, match="client 2 has sent a key that client 0 has sent"):
        conduct_sum(plan(), post)
    assert post.step == 0  # no client has received the keys
    with pytest.raises(MessageError, match="client 2 has sent a key that client 0"):
        sum_client.check_different({0: b"a" * 32 + b"b" * 32, 2: b"c" * 32 + b"a" * 32})


def test_a_key_that_agrees_with_all_ends_the_run_with_its_owner() -> None:
    of = plan()

    def down(step: int, client: int, text: bytes) -> bytes:
        start = HEAD + 1 + 2 * 64
        return text[:start] + bytes(32) + text[start + 32 :] if step == 1 and client != 2 else text

    with pytest.raises(AggregationError, match="client 2 has sent a key that agrees"):
        conduct_sum(of, Changed(of, down=down))


def test_lost_keys_that_are_not_restored_end_the_run() -> None:
    def up(step: int, client: int, text: bytes) -> list[tuple[int, bytes]]:
        if client == 3 and step >= 2:
            return []
        return [(client, flipped(text, HEAD + 3 * 33 + 32) if (step, client) == (3, 1) else text)]

    with pytest.raises(AggregationError, match="key of client 3 do not restore"):
        conduct_sum(plan(), Changed(plan(), up))


def test_a_false_complaint_format_is_refused_as_a_message() -> None:
    """About itself, about nobody, or for no reason that exists."""
    for about in (b"\x01\x00\x00\x00\x01", b"\x01\x00\x00\x00\x09", b"\x07\x00\x00\x00\x00"):
        change = at(1, 1, lambda text, about=about: [(1, text[:4] + b"\x05" + text[5:HEAD] + about)])  # type: ignore[misc]
        found = conduct_sum(plan(), Changed(plan(), change))
        assert found.clients == (0, 2, 3) and len(found.refused) == 1


# --- what a client refuses -------------------------------------------------------------------------------------------


def walked(of: PairwiseSum, until: int) -> tuple[SumClient, Any, dict[int, bytes]]:
    """Client 1 with its state before it answers step ``until``, and that step's messages."""
    those, served = clients(of), serve(of, bytes(16))
    letters, states = next(served), [each.start() for each in those]
    for _ in range(until):
        answers = []
        for i, text in letters.items():
            states[i], answer = those[i].answer(states[i], text)
            answers.append((i, answer))
        letters = served.send(answers)
    return those[1], states[1], letters


SETS: dict[str, tuple[set[int], str]] = {
    "without itself": ({0, 2, 3}, "said to have dropped out"),
    "too few": ({1, 2}, "threshold is 3"),
}


@pytest.mark.parametrize("name", SETS)
def test_a_client_keeps_its_shares_if_the_list_is_not_right(name: str) -> None:
    client, state, letters = walked(plan(), 3)
    members, reason = SETS[name]
    with pytest.raises(MessageError, match=reason):
        client.answer(state, letters[1][:HEAD] + wire.packed_set(members, 4))
    assert client.answer(state, letters[1])[1]  # the state has not changed


def test_a_client_that_dropped_out_does_not_come_back() -> None:
    of = plan()
    post = ClientsInProcess(clients(of), lambda i, step: i == 3 and step == 1)
    seen: list[object] = []

    def spied(letters: dict[int, bytes]) -> list[tuple[int, bytes]]:
        if len(seen) == 3:
            letters = {i: text[:HEAD] + wire.packed_set(range(4), 4) for i, text in letters.items()}
        seen.append(letters)
        return post(letters)

    with pytest.raises(MessageError, match="is back"):
        conduct_sum(of, spied)


def test_no_step_is_answered_twice_and_no_other_is() -> None:
    for signed, steps in ((False, 4), (True, 5)):
        of = plan(signed)
        for k in range(steps):
            client, state, letters = walked(of, k)
            new, _ = client.answer(state, letters[1])
            for text in (letters[1], letters[1][:4] + b"\xff" + letters[1][5:]):
                with pytest.raises(MessageError, match="not due"):
                    client.answer(new, text)
            for text, reason in ((letters[2], "not for client 1"), (flipped(letters[1], 5), "not for client 1")):
                with pytest.raises(MessageError, match=reason):
                    client.answer(state, text)
            if k:
                with pytest.raises(MessageError, match="another run"):
                    client.answer(state, flipped(letters[1], 6))
            with pytest.raises(MessageError, match="bytes"):
                client.answer(state, letters[1] + b"x")


def test_shares_of_one_kind_are_given_away_for_each_client() -> None:
    client, state, letters = walked(plan(), 3)
    pairs = wire.cut(state["pairs"].tobytes(), wire.PAIR_BYTES)
    _, text = client.answer(state, letters[1][:HEAD] + wire.packed_set({0, 1, 2}, 4))
    told = wire.cut(text[HEAD:], 33)
    assert told == [pairs[0][33:], pairs[1][33:], pairs[2][33:], pairs[3][:33]]


def test_keys_are_forgotten_with_the_masked_numbers_and_shares_with_the_last_answer() -> None:
    client, state, letters = walked(plan(), 3)
    assert set(state) == {"step", "run", "members", "pairs"}
    assert set(client.answer(state, letters[1])[0]) == {"step", "run"}


def test_lists_have_to_be_signed_by_t_clients_that_stayed() -> None:
    of = plan(True)
    client, state, letters = walked(of, 4)
    assert client.answer(state, letters[1])
    _, rows = wire.body(letters[1], 1, 4 * 64)
    two = wire.packed_set({0, 1}, 4) + rows[:128]
    for text in (two, wire.packed_set(range(4), 4) + rows[:128] + rows[:128]):
        with pytest.raises(MessageError, match="2 clients have signed the list, and the threshold is 3"):
            client.answer(state, letters[1][:HEAD] + text)


def test_a_signature_of_a_client_that_is_not_on_the_list_does_not_count() -> None:
    of = plan(True)
    client, state, letters = walked(of, 3)
    stayed = wire.packed_set({1, 2, 3}, 4)
    state, _ = client.answer(state, letters[1][:HEAD] + stayed)
    text = sum_client.signed_list(of.context(bytes(16)), stayed)
    for signers, proper in (({0, 1, 2}, False), ({1, 2, 3}, True)):
        signed = b"".join(primitives.signed(IDENTITIES[i][0], text) for i in sorted(signers))
        due = letters[1][:4] + bytes((wire.UNMASK,)) + letters[1][5:HEAD] + wire.packed_set(signers, 4) + signed
        if proper:
            assert client.answer(state, due)[1]
        else:
            with pytest.raises(MessageError, match="2 clients have signed"):
                client.answer(state, due)


def test_a_server_that_tells_different_lists_gets_no_sum() -> None:
    """Clients 0 and 1 are told that 3 has dropped out, the others that 0 has: no list has three signatures."""
    of = plan(True)

    def down(step: int, client: int, text: bytes) -> bytes:
        if step == 3:
            return text[:HEAD] + wire.packed_set({0, 1, 2} if client < 2 else {1, 2, 3}, 4)
        return text

    with pytest.raises(MessageError, match="2 clients have signed"):
        conduct_sum(of, Changed(of, down=down))


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_masked_vectors_alone_are_exactly_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """All masks of three clients modulo 4, where each stream is one of the four residues.

    Own masks unknown: every triple of messages comes from as many streams. Own masks known: every triple with the sum
    of the numbers does, and no other.
    """
    of = PairwiseSum(clients=3, length=1, modulus=4)
    numbers = [1, 0, 3]
    streams: dict[bytes, int] = {}
    monkeypatch.setattr(primitives, "keystream", lambda key, count, modulus: np.array([streams[key]], dtype=np.uint64))
    monkeypatch.setattr(primitives, "derived", lambda secret, purpose: named(secret, purpose))
    monkeypatch.setattr(primitives, "agreeing", lambda secret: lambda public: b"shared" + bytes(26))
    monkeypatch.setattr(primitives, "boxed", lambda key, nonce, text, context: text + bytes(16))
    monkeypatch.setattr(primitives, "unboxed", lambda key, nonce, box, context: box[:-16])

    def named(secret: bytes, purpose: bytes) -> bytes:
        return purpose[-12:] if b"mask" in purpose or b"box" in purpose else secret + purpose[-3:]

    those = [SumClient(of, i, lambda i=i: [numbers[i]]) for i in range(3)]  # type: ignore[misc]
    served = serve(of, bytes(16))
    letters, states = next(served), [each.start() for each in those]
    for _ in range(2):
        answers = []
        for i, text in letters.items():
            states[i], answer = those[i].answer(states[i], text)
            answers.append((i, answer))
        letters = served.send(answers)
    pairs = [b"mask" + i.to_bytes(4, "big") + j.to_bytes(4, "big") for i, j in ((0, 1), (0, 2), (1, 2))]
    own = [state["own"].tobytes() + b"own" for state in states]

    def sent(values: tuple[int, ...]) -> tuple[int, ...]:
        streams.update(zip([*own, *pairs], values, strict=True))
        monkeypatch.setattr(primitives, "derived", lambda s, p: b"c" * 32 if p.endswith(b"check") else named(s, p))
        texts = [those[i].answer(states[i], letters[i])[1] for i in range(3)]
        return tuple(int(wire.read_residues(text[HEAD + 32 :], 1, 2)[0]) for text in texts)

    law = Counter(sent(values) for values in itertools.product(range(4), repeat=6))
    assert len(law) == 64 and set(law.values()) == {64}
    known = Counter(sent((0, 0, 0, *values)) for values in itertools.product(range(4), repeat=3))
    assert len(known) == 16 and set(known.values()) == {4} and all(sum(each) % 4 == 0 for each in known)


def test_fresh_keys_in_every_run_and_old_states_take_part_in_no_other() -> None:
    post = ClientsInProcess(clients(plan()))
    conduct_sum(plan(), post)
    with pytest.raises(MessageError, match="not due"):
        conduct_sum(plan(), post)
    first, second = (walked(plan(), 1)[1]["secrets"].tobytes() for _ in range(2))
    assert first != second and len(first) == 64


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_default_threshold_is_two_thirds() -> None:
    assert [PairwiseSum(clients=n, length=1, modulus=4).threshold for n in (2, 3, 4, 99, 100)] == [2, 3, 3, 67, 67]


def test_honest_shares_are_those_above_the_colluders() -> None:
    of = PairwiseSum(clients=100, length=1, modulus=4)
    assert [of.honest(c) for c in (0, 10, 66)] == [67, 57, 1]
    with pytest.raises(InvalidArgumentError, match="colluders"):
        of.honest(67)
    with pytest.raises(InvalidArgumentError, match=r"signed lists.*two of 67 honest"):
        of.honest(0, lying=True)
    signing = plan(True)
    assert signing.honest(1, lying=True) == 2
    with pytest.raises(InvalidArgumentError, match="two lists"):
        signing.honest(2, lying=True)
    assert "semi-honest" in " ".join(of.assumptions(3)) and "Ed25519" in " ".join(signing.assumptions(1, lying=True))
    assert "does not depend on its records" in " ".join(of.assumptions(3))


BAD: list[tuple[str, dict[str, Any]]] = [
    ("clients", {"clients": 1}),
    ("clients", {"clients": True}),
    ("length", {"length": 0}),
    ("modulus", {"modulus": 100}),
    ("modulus", {"modulus": 2**63}),
    ("threshold", {"threshold": 0}),
    ("threshold", {"threshold": 5}),
    ("identities", {"identities": [b"x" * 32] * 4}),
    ("identities", {"identities": ["x"] * 4}),
]


@pytest.mark.parametrize(("name", "changed"), BAD)
def test_bad_plans_are_refused(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        plan(**changed)


def test_bad_clients_are_refused() -> None:
    for arguments, reason in (
        ((plan(), 4, lambda: [0] * 3), "number"),
        ((plan(), 0, [0] * 3), "numbers"),
        (("plan", 0, lambda: [0] * 3), "plan"),
        ((plan(), 0, lambda: [0] * 3, bytes(32)), "identity"),
        ((plan(), 0, lambda: [0] * 3, "secret"), "identity"),
        ((plan(True), 0, lambda: [0] * 3, IDENTITIES[1][0]), "identity"),
        ((plan(True), 0, lambda: [0] * 3), "identity"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            SumClient(*arguments)
    with pytest.raises(InvalidArgumentError, match="plan"):
        conduct_sum("plan", lambda letters: [])  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="numbers"):
        sum_in_process(plan(), {i: np.zeros(2, dtype=np.int64) for i in range(4)})
    for wrong in ([0.5, 1, 2], [1, 2]):
        with pytest.raises(InvalidDataError, match="numbers"):
            conduct_sum(plan(), ClientsInProcess([SumClient(plan(), i, lambda: wrong) for i in range(4)]))


def test_nothing_secret_is_shown() -> None:
    client = clients(plan(True))[1]
    assert "numbers" not in repr(client) and "identity" not in repr(client)
    assert "states" not in repr(ClientsInProcess([client]))


def test_keys_and_signatures_are_bound_to_plan_run_clients_and_purpose() -> None:
    changes: list[dict[str, Any]] = [{}, {"clients": 5}, {"length": 4}, {"modulus": 2**21}, {"threshold": 2}]
    contexts = [plan(**each).context(bytes(16)) for each in changes]
    contexts += [plan().context(b"x" * 16), plan(True).context(bytes(16))]
    texts = [
        text
        for context in contexts
        for text in (
            sum_client.mask_purpose(context, 0, 1),
            sum_client.mask_purpose(context, 0, 2),
            sum_client.box_purpose(context, 0, 1),
            sum_client.box_purpose(context, 1, 0),
            sum_client.signed_keys(context, 0, bytes(64)),
            sum_client.signed_keys(context, 1, bytes(64)),
            sum_client.signed_list(context, b"\xf0"),
        )
    ]
    assert len(set(texts)) == 7 * 7
    assert sum_client.mask_purpose(contexts[0], 1, 0) == texts[0]
