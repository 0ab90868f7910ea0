"""How two ends of a connection prove to each other that they know a token, without sending it.

The one that listens sends a nonce. The one that dials answers in which part it comes, with a name, a nonce of its own
and its proof; the listener's proof ends the handshake.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from burstcache.core.errors import FrameError
from burstcache.pool.frames import Header, Kind

NONCE_BYTES = 32
PROOF_BYTES = 32
MIN_TOKEN_BYTES = 16


def nonce() -> bytes:
    """Return what nobody can have seen before."""
    return secrets.token_bytes(NONCE_BYTES)


def prove(token: bytes, side: bytes, name: bytes, listener_nonce: bytes, caller_nonce: bytes) -> bytes:
    """Return one side's proof. It is of no use for another side, name or connection."""
    stated = b"\0".join((b"burstcache-pool", side, name)) + listener_nonce + caller_nonce
    return hmac.digest(token, stated, hashlib.sha256)


def is_proven(proof: bytes, token: bytes, side: bytes, name: bytes, listener_nonce: bytes, caller_nonce: bytes) -> bool:
    """Whether a proof is right; the time that this takes says nothing about it."""
    return hmac.compare_digest(proof, prove(token, side, name, listener_nonce, caller_nonce))


class Introduction:
    """The side of the handshake that dials.

    Args:
        kind: In which part it comes: `Kind.PROOF` for a member.
        name: The member that it is, or wants.
        token: What both ends know.
    """

    def __init__(self, kind: Kind, name: bytes, token: bytes) -> None:
        self._kind = kind
        self._name = name
        self._token = token
        self._listener_nonce = b""
        self._nonce = nonce()

    def answer(self, header: Header, payload: bytes) -> tuple[Kind, bytes, bytes] | None:
        """Return the frame to send, as kind, name and payload; None: the listener has proved itself, too.

        Raises:
            FrameError: It has not, or sends something else.
        """
        if header.kind is Kind.CHALLENGE and len(payload) == NONCE_BYTES and not self._listener_nonce:
            self._listener_nonce = payload
            own = prove(self._token, side(self._kind), self._name, payload, self._nonce)
            return self._kind, self._name, self._nonce + own
        if (
            header.kind is Kind.WELCOME
            and self._listener_nonce
            and is_proven(payload, self._token, side(Kind.WELCOME), self._name, self._listener_nonce, self._nonce)
        ):
            return None
        raise FrameError("the other end has not proved that it knows the token")


def side(kind: Kind) -> bytes:
    """Return the side of the frame that carries a proof, which is a part of it."""
    return kind.name.lower().encode()
