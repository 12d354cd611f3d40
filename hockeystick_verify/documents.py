"""Certificates as files: strict JSON, the canonical form of RFC 8785, digests, and detached signatures.

A signature covers the bytes of the file, so that one changed blank is refused; the digest covers its canonical form.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from typing import Any

MOST_BYTES = 1 << 24
DEEPEST = 64
MOST = 2**53 - 1
PAYLOAD_TYPE = "application/vnd.hockeystick.certificate+json"


class UnusableError(ValueError):
    """A file that can't be checked: unreadable, of another schema, or with a wrong digest or signature."""


def parsed(content: bytes) -> dict[str, Any]:
    """Returns the JSON object of a file.

    Raises:
      UnusableError: it isn't strict UTF-8 JSON, has a key twice, a number that is not finite or not exact, a lone
        surrogate, or more than 64 levels.
    """
    if len(content) > MOST_BYTES:
        raise UnusableError(f"the file has more than {MOST_BYTES} bytes")
    try:
        value = json.loads(
            content.decode("utf-8", errors="strict"),
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_exact,
        )
        canonical(value)
    except UnusableError:
        raise
    except UnicodeError as error:
        raise UnusableError(f"the file isn't UTF-8 text ({error.reason if hasattr(error, 'reason') else ''})") from None
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"the file isn't JSON ({type(error).__name__}: {str(error)[:80]})") from None
    if not isinstance(value, dict):
        raise UnusableError("the file isn't a JSON object")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnusableError("a key occurs twice in one JSON object")
    return found


def _no_constant(name: str) -> Any:
    raise UnusableError(f"{name} isn't a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value) or (value == 0.0 and any(c in "123456789" for c in text.lower().partition("e")[0])):
        raise UnusableError(f"the number {text[:40]} is out of the range of a double")
    return value


def _exact(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MOST:
        raise UnusableError(f"the integer {text[:20]} is beyond 2^53 - 1")
    return int(text)


def canonical(value: Any, depth: int = 0) -> str:
    """Returns the canonical text of a JSON value (RFC 8785).

    Raises:
      UnusableError: it has none, or none that ``parsed`` would read again.
    """
    if depth > DEEPEST:
        raise UnusableError(f"values are nested more than {DEEPEST} deep")
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        if abs(value) > MOST:
            raise UnusableError(f"the integer {value} is beyond 2^53 - 1")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, depth + 1) for item in value) + "]"
    if not isinstance(value, dict):
        raise UnusableError(f"a {type(value).__name__} has no JSON form")
    keys = sorted(value, key=lambda key: key.encode("utf-16-be", errors="surrogatepass"))
    return "{" + ",".join(f"{_string(key)}:{canonical(value[key], depth + 1)}" for key in keys) + "}"


def _string(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UnusableError("a string has a lone surrogate") from None
    return json.dumps(value, ensure_ascii=False)


def _number(x: float) -> str:
    """Returns a double as ECMAScript writes it: the shortest digits that name it."""
    if not math.isfinite(x):
        raise UnusableError("a number isn't finite")
    if x == 0.0:
        return "0"
    mantissa, _, exponent = repr(abs(x)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole.lstrip("0")) or len(digits) - len(part)
    point += int(exponent or 0)
    digits = digits.rstrip("0")
    k = len(digits)
    if k <= point <= 21:
        if abs(x) > MOST:
            raise UnusableError(f"the number {x!r} would be written as an integer beyond 2^53 - 1")
        text = digits + "0" * (point - k)
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        rest = "." + digits[1:] if k > 1 else ""
        text = f"{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return ("-" if x < 0 else "") + text


def digest(certificate: dict[str, Any]) -> str:
    """Returns the digest of a certificate: that of its canonical form without the field ``digest``."""
    rest = {key: value for key, value in certificate.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(canonical(rest).encode("utf-8")).hexdigest()


def signed_message(body: bytes) -> bytes:
    """Returns the bytes that a signature covers: DSSE's pre-authentication encoding of a file."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def sign(body: bytes, private_key: bytes) -> bytes:
    """Returns the text of the detached signature file of ``body`` by an Ed25519 key in PEM (PKCS#8).

    Raises:
      UnusableError: the key isn't an unencrypted Ed25519 key in PEM.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private_key, password=None)
    except (ValueError, TypeError) as error:
        raise UnusableError(f"the private key isn't readable PEM ({type(error).__name__})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnusableError("the private key isn't an Ed25519 key")
    raw = key.public_key().public_bytes_raw()
    one = {"keyid": hashlib.sha256(raw).hexdigest(), "sig": base64.b64encode(key.sign(signed_message(body))).decode()}
    return (canonical({"payloadType": PAYLOAD_TYPE, "signatures": [one]}) + "\n").encode()


def verify_signature(body: bytes, signature: bytes, public_keys: list[bytes]) -> str:
    """Returns the id of the key, one of ``public_keys`` in PEM, by which a signature file signs ``body``.

    Raises:
      UnusableError: a file is malformed, or no key fits: one key and one signature that fit are enough.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    envelope = parsed(signature)
    rows = envelope.get("signatures")
    if set(envelope) != {"payloadType", "signatures"} or envelope["payloadType"] != PAYLOAD_TYPE:
        raise UnusableError("the signature file isn't one of a certificate")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) == {"keyid", "sig"} for row in rows):
        raise UnusableError("the signature file's list of signatures is malformed")
    for text in public_keys:
        try:
            key = load_pem_public_key(text)
        except ValueError:
            raise UnusableError("a public key isn't readable PEM") from None
        if not isinstance(key, Ed25519PublicKey):
            raise UnusableError("a public key isn't an Ed25519 key")
        for row in rows:
            try:
                key.verify(base64.b64decode(str(row["sig"]), validate=True), signed_message(body))
            except (InvalidSignature, ValueError):
                continue
            return hashlib.sha256(key.public_bytes_raw()).hexdigest()
    raise UnusableError("no given key fits the signature of this file")
