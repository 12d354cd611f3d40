"""The cryptography of secure sums, from the package ``cryptography`` (the extra ``secure-sum``), loaded when used.

X25519 for keys of pairs, HKDF with SHA-256 to derive keys from them, ChaCha20-Poly1305 for shares on their way, the
keystream of ChaCha20 for masks, Ed25519 for signatures. All secrets come from the operating system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np

from hockeystick.accounting.optional_packages import require
from hockeystick.mechanisms.distributed.secure_aggregation import Residues

KEY_BYTES = 32
TAG_BYTES = 16
SIGNATURE_BYTES = 64


@cache
def _part(name: str) -> ModuleType:
    return require(f"cryptography.hazmat.primitives.{name}", "a secure sum of masked numbers", extra="secure-sum")


def new_key() -> tuple[bytes, bytes]:
    """Returns a secret X25519 key and its public key."""
    secret = _part("asymmetric.x25519").X25519PrivateKey.generate()
    return secret.private_bytes_raw(), secret.public_key().public_bytes_raw()


def public_key(secret: bytes) -> bytes:
    """Returns the public key of a secret X25519 key."""
    found: bytes = (
        _part("asymmetric.x25519").X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    )
    return found


def agreeing(secret: bytes) -> Callable[[bytes], bytes | None]:
    """Returns the function from a public X25519 key to its secret with the secret key.

    The function returns None for a public key that makes this secret the same for all secret keys.
    """
    x25519 = _part("asymmetric.x25519")
    own = x25519.X25519PrivateKey.from_private_bytes(secret)

    def agreed(public: bytes) -> bytes | None:
        try:
            found: bytes = own.exchange(x25519.X25519PublicKey.from_public_bytes(public))
        except ValueError:
            return None
        return found

    return agreed


def derived(secret: bytes, purpose: bytes) -> bytes:
    """Returns 32 bytes for one purpose, by HKDF with SHA-256; different purposes have independent bytes."""
    hashes = _part("hashes")
    found: bytes = _part("kdf.hkdf").HKDF(hashes.SHA256(), KEY_BYTES, None, purpose).derive(secret)
    return found


def keystream(key: bytes, count: int, modulus: int) -> Residues:
    """Returns ``count`` residues modulo a power of two up to 2^62, from the keystream of ChaCha20; a key is for one."""
    ciphers = _part("ciphers")
    kind = np.dtype("<u4" if modulus <= 2**32 else "<u8")
    stream = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), None).encryptor()
    words = np.frombuffer(stream.update(bytes(kind.itemsize * count)), dtype=kind)
    return np.asarray(words.astype(np.uint64) & np.uint64(modulus - 1))


def boxed(key: bytes, nonce: bytes, text: bytes, context: bytes) -> bytes:
    """Returns a text encrypted and authenticated by ChaCha20-Poly1305, 16 bytes longer; a key never repeats a nonce."""
    found: bytes = _part("ciphers.aead").ChaCha20Poly1305(key).encrypt(nonce, text, context)
    return found


def unboxed(key: bytes, nonce: bytes, box: bytes, context: bytes) -> bytes | None:
    """Returns the text of a box, or None if the box is not authentic."""
    invalid = require("cryptography.exceptions", "a secure sum of masked numbers", extra="secure-sum").InvalidTag
    try:
        found: bytes = _part("ciphers.aead").ChaCha20Poly1305(key).decrypt(nonce, box, context)
    except invalid:
        return None
    return found


def new_identity() -> tuple[bytes, bytes]:
    """Returns a secret Ed25519 key, which signs, and its public key, 32 bytes each.

    Example:
      See ``PairwiseSum``.
    """
    secret = _part("asymmetric.ed25519").Ed25519PrivateKey.generate()
    return secret.private_bytes_raw(), secret.public_key().public_bytes_raw()


def identity_of(secret: bytes) -> bytes:
    """Returns the public key of a secret Ed25519 key."""
    key = _part("asymmetric.ed25519").Ed25519PrivateKey.from_private_bytes(secret)
    found: bytes = key.public_key().public_bytes_raw()
    return found


def signed(secret: bytes, text: bytes) -> bytes:
    """Returns the signature of a text, 64 bytes."""
    found: bytes = _part("asymmetric.ed25519").Ed25519PrivateKey.from_private_bytes(secret).sign(text)
    return found


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Returns whether a signature of a text is by the owner of a public key."""
    invalid = require("cryptography.exceptions", "a signature", extra="secure-sum").InvalidSignature
    try:
        _part("asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (invalid, ValueError):
        return False
    return True
