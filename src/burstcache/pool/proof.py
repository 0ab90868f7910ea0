"""How hub and member prove to each other that they know the token of one invocation, without sending it."""

from __future__ import annotations

import hashlib
import hmac
import secrets

NONCE_BYTES = 32
PROOF_BYTES = 32
MIN_TOKEN_BYTES = 16


def nonce() -> bytes:
    """Return what nobody can have seen before."""
    return secrets.token_bytes(NONCE_BYTES)


def prove(token: bytes, side: bytes, member: bytes, hub_nonce: bytes, member_nonce: bytes) -> bytes:
    """Return one side's proof. It is of no use for the other side, another member or another connection."""
    return hmac.digest(token, b"\0".join((b"burstcache-pool", side, member)) + hub_nonce + member_nonce, hashlib.sha256)


def is_proven(proof: bytes, token: bytes, side: bytes, member: bytes, hub_nonce: bytes, member_nonce: bytes) -> bool:
    """Whether a proof is right; the time that this takes says nothing about it."""
    return hmac.compare_digest(proof, prove(token, side, member, hub_nonce, member_nonce))
