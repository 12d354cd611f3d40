"""Tests of certificates as files: canonical text, digests, signatures, and texts that are refused."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick_verify import documents
from hockeystick_verify.documents import UnusableError, canonical, digest, parsed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-documents.MOST, documents.MOST)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not documents.MOST < abs(x) < 1e21)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_canonical_text_is_read_as_it_was_and_written_again(value: dict[str, object]) -> None:
    text = canonical(value)

    assert parsed(text.encode()) == value and canonical(parsed(text.encode())) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [  # of RFC 8785, Appendix B, and ECMAScript's rules for exponents
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.0, "1"),
        (-123.25, "-123.25"),
        (333333333.3333332, "333333333.3333332"),
        (struct.unpack(">d", bytes.fromhex("3eb0c6f7a0b5ed8d"))[0], "0.000001"),
        (struct.unpack(">d", bytes.fromhex("3eb0c6f7a0b5ed8c"))[0], "9.999999999999997e-7"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(number: float, text: str) -> None:
    assert canonical(number) == text


def test_keys_are_sorted_by_code_units_of_utf_16() -> None:
    assert canonical({"\ufb33": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ufb33":1}'


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1e400}',
        b'{"a":5e-400}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1,"\\u0061":2}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 66 + b"1" + b"}" * 66,
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":9007199254740992}',
        b'{"a":1e16}',
        b'{"a":1}x',
        b"[1]",
        b"",
    ],
)
def test_texts_that_are_not_strict_json_are_refused(text: bytes) -> None:
    with pytest.raises(UnusableError):
        parsed(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, 1e16, "\ud800", object(), {"a": (1,)}])
def test_values_without_a_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(UnusableError):
        canonical(value)


def test_the_digest_covers_all_other_fields() -> None:
    content = {"a": 1, "b": {"c": 0.5}}
    assert digest({**content, "digest": "x"}) == digest(content) != digest({**content, "a": 2})


class TestSignatures:
    body = b'{"delta":0.000001,"epsilon":3.706187351516625}'

    @pytest.fixture
    def keys(self) -> tuple[bytes, bytes]:
        """The key of bytes 0 … 31, private and public."""
        ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
        forms = pytest.importorskip("cryptography.hazmat.primitives.serialization")
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        public = key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
        return private, public

    def test_a_signature_is_the_one_that_another_implementation_makes(self, keys: tuple[bytes, bytes]) -> None:
        signature = documents.sign(self.body, keys[0])
        envelope = json.loads(signature)
        # Computed in plain integers from RFC 8032, over DSSE's encoding.
        wanted = "LL8ysgaixfFS2JdSxmSrAoAiR1Q91qU8V52cwuidoDdE"
        wanted += "vhLAEGh2S6mt8WkTnkoB2k2gr/dBqF01Ep/iS/qhBA=="
        assert (envelope["payloadType"], envelope["signatures"][0]["sig"]) == (documents.PAYLOAD_TYPE, wanted)
        assert documents.verify_signature(self.body, signature, [keys[1]]) == envelope["signatures"][0]["keyid"]

    def test_a_changed_bit_is_refused(self, keys: tuple[bytes, bytes]) -> None:
        signature = documents.sign(self.body, keys[0])
        for i in range(0, 8 * len(self.body), 7):
            changed = bytearray(self.body)
            changed[i // 8] ^= 1 << i % 8
            with pytest.raises(UnusableError, match="no given key fits"):
                documents.verify_signature(bytes(changed), signature, [keys[1]])

    @pytest.mark.parametrize("signature", [b"{}", b'{"payloadType":"x","signatures":[]}', b"x"])
    def test_malformed_signatures_and_keys_are_refused(self, keys: tuple[bytes, bytes], signature: bytes) -> None:
        with pytest.raises(UnusableError):
            documents.verify_signature(self.body, signature, [keys[1]])
        with pytest.raises(UnusableError, match="PEM"):
            documents.verify_signature(self.body, documents.sign(self.body, keys[0]), [b"x"])
        with pytest.raises(UnusableError, match="PEM"):
            documents.sign(self.body, b"x")
