"""Replicas in progress: a hub keeps each member's primary environment running until a replica has its chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from burstcache.pool.frames import Kind
from burstcache.pool.member_channel import MemberChannel
from burstcache.pool.proxied_connection import ProxiedReplicaConnection

_ARRIVES_WITHIN_S = 10.0  # longest start of an environment
_PROGRESSES_WITHIN_S = 5.0  # a replication without progress for this long has failed


@dataclass(slots=True)
class _Replication:
    primary: MemberChannel
    is_complete: asyncio.Future[bool]
    replica: MemberChannel | None = None
    connection: ProxiedReplicaConnection | None = None
    timer: asyncio.TimerHandle | None = None
    checked_bytes: int = field(default=-1)  # bytes forwarded before the last check


class Replicas:
    """One hub's running replications.

    Args:
        reinstate: Makes an environment serve its member again.

    Attributes:
        passed_bytes: Bytes forwarded to replicas.
    """

    def __init__(self, reinstate: Callable[[MemberChannel], None]) -> None:
        self.passed_bytes = 0
        self._reinstate = reinstate
        self._running: dict[str, _Replication] = {}

    def expect(self, primary: MemberChannel) -> asyncio.Future[bool]:
        """Make an environment wait for its replica. The future resolves to True once the replica is complete."""
        replication = self._running.get(primary.name)
        if not replication:
            replication = self._add(primary)
            primary.send(Kind.REPLICA, 0)
            self._restart_timer(replication, _ARRIVES_WITHIN_S)
        return replication.is_complete

    def abandon(self, member: str) -> None:
        """End a member's replication, since no replica will come."""
        if replication := self._running.get(member):
            self._release_primary(replication)

    def begin(self, former: MemberChannel, replica: MemberChannel) -> bool:
        """Register a replica that has dialled in. Return False if `former` is not its primary and can be closed."""
        replication = self._running.get(replica.name) or self._add(former)
        is_primary = replication.primary is former
        replication.replica = replica
        self._restart_timer(replication, _PROGRESSES_WITHIN_S)
        return is_primary

    def open_connection(self, member: str) -> ProxiedReplicaConnection:
        """Return the hub's end of the connection over which a replica copies its primary's chunks."""
        replication = self._running.get(member)
        connection = ProxiedReplicaConnection(
            lambda: replication.primary if replication and self._is_running(replication) else None
        )
        if replication:
            replication.connection = connection
            connection.ended.add_done_callback(lambda _: self._on_connection_ended(replication, connection))
        return connection

    def detach(self, channel: MemberChannel) -> None:
        """Handle the loss of a connection. The member's other environment continues."""
        replication = self._running.get(channel.name)
        if replication and channel is replication.primary:
            self._end(replication, is_complete=False)
            if replication.connection:
                replication.connection.end()
        elif replication and channel is replication.replica:
            self._release_primary(replication)

    def _add(self, primary: MemberChannel) -> _Replication:
        replication = _Replication(primary, asyncio.get_running_loop().create_future())
        self._running[primary.name] = replication
        return replication

    def _is_running(self, replication: _Replication) -> bool:
        return self._running.get(replication.primary.name) is replication

    def _on_connection_ended(self, replication: _Replication, connection: ProxiedReplicaConnection) -> None:
        self.passed_bytes += connection.passed_bytes
        if self._is_running(replication) and replication.connection is connection:
            if connection.is_done:
                self._end(replication, is_complete=True)
                replication.primary.send(Kind.REPLICATED, 0, number=1)
            else:
                self._release_primary(replication)

    def _release_primary(self, replication: _Replication) -> None:
        """Let the primary continue and the replica return."""
        self._end(replication, is_complete=False)
        replication.primary.send(Kind.REPLICATED, 0, number=0)
        self._reinstate(replication.primary)
        if replication.replica and not replication.replica.ended.done():
            replication.replica.send(Kind.REPLICATED, 0, number=1)

    def _end(self, replication: _Replication, *, is_complete: bool) -> None:
        del self._running[replication.primary.name]
        if replication.timer:
            replication.timer.cancel()
        if not replication.is_complete.done():  # done if the waiting task was cancelled
            replication.is_complete.set_result(is_complete)

    def _restart_timer(self, replication: _Replication, limit_s: float) -> None:
        if replication.timer:
            replication.timer.cancel()
        replication.timer = asyncio.get_running_loop().call_later(limit_s, self._check_progress, replication)

    def _check_progress(self, replication: _Replication) -> None:
        """End a replication that has stalled, or has not begun in time."""
        passed_bytes = replication.connection.passed_bytes if replication.connection else -1
        if passed_bytes > replication.checked_bytes:
            replication.checked_bytes = passed_bytes
            self._restart_timer(replication, _PROGRESSES_WITHIN_S)
            return
        self._release_primary(replication)
        if replication.connection:
            replication.connection.end()
