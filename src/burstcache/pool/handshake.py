"""The handshake: both ends of a connection prove that they know a token, without sending it.

The listener sends a nonce. The caller responds with its role, a name, its own nonce and its proof. The listener's proof
ends the handshake.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from burstcache.core.errors import FrameError
from burstcache.pool.frames import Header, Kind

NONCE_BYTES = 32
PROOF_BYTES = 32
MIN_TOKEN_BYTES = 16

# The sender's side, by the kind of the frame that carries its proof. Part of the wire format.
SIDES: Mapping[Kind, bytes] = {
    Kind.PROOF: b"proof",
    Kind.WELCOME: b"welcome",
    Kind.READER: b"reader",
    Kind.REPLICA: b"copy",
    Kind.PEER: b"neighbour",
}


def nonce() -> bytes:
    """Return a new random nonce."""
    return secrets.token_bytes(NONCE_BYTES)


def prove(token: bytes, side: bytes, name: bytes, listener_nonce: bytes, caller_nonce: bytes) -> bytes:
    """Return one side's proof. It is invalid for any other side, name or connection."""
    claim = b"\0".join((b"burstcache-pool", side, name)) + listener_nonce + caller_nonce
    return hmac.digest(token, claim, hashlib.sha256)


def is_proven(proof: bytes, token: bytes, side: bytes, name: bytes, listener_nonce: bytes, caller_nonce: bytes) -> bool:
    """Whether a proof is valid. The comparison takes constant time."""
    return hmac.compare_digest(proof, prove(token, side, name, listener_nonce, caller_nonce))


class Introduction:
    """The caller's side of the handshake.

    Args:
        kind: The caller's role: `Kind.PROOF` for a member.
        name: The caller's own name, or for a reader the name of the requested member.
        token: The token that both ends know.
    """

    def __init__(self, kind: Kind, name: bytes, token: bytes) -> None:
        self._kind = kind
        self._name = name
        self._token = token
        self._listener_nonce = b""
        self._nonce = nonce()

    def answer(self, header: Header, payload: bytes) -> tuple[Kind, bytes, bytes] | None:
        """Return the frame to send, as kind, name and payload, or None once the listener is authenticated.

        Raises:
            FrameError: The listener's proof is invalid, or the listener sent an unexpected frame.
        """
        if header.kind is Kind.CHALLENGE and len(payload) == NONCE_BYTES and not self._listener_nonce:
            self._listener_nonce = payload
            own = prove(self._token, SIDES[self._kind], self._name, payload, self._nonce)
            return self._kind, self._name, self._nonce + own
        if (
            header.kind is Kind.WELCOME
            and self._listener_nonce
            and is_proven(payload, self._token, SIDES[Kind.WELCOME], self._name, self._listener_nonce, self._nonce)
        ):
            return None
        raise FrameError("the other end has not proved that it knows the token")
