"""The hub: members dial in, and requests for chunks are sent over their connections. The hub stores no chunks."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import ssl
from collections.abc import Sequence
from typing import TypeVar

from burstcache.core.errors import FrameError, InvalidSettingError
from burstcache.core.messages.pool import HubAddress
from burstcache.pool import handshake
from burstcache.pool.acceptor import Acceptor, Role
from burstcache.pool.channel import Channel, request_numbers
from burstcache.pool.connection import HANDSHAKE_LIMIT_S, FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.invocations import Invocations, Invoke
from burstcache.pool.member_channel import MemberChannel
from burstcache.pool.on_demand import OnDemandMember
from burstcache.pool.peers import PeerEnd, Peers
from burstcache.pool.proxied_connection import ProxiedConnection, ProxiedReplicaConnection
from burstcache.pool.replicas import Replicas

_MAX_UNPROVEN = 1024  # connections in their handshake; members and readers never dial as many at the same time
_TURNS_TO_ACCEPT = 3  # event loop iterations from accept() to the Acceptor: a task, its transport, connection_made
_MAX_WAKES = 4096  # pending invocations; fewer begin during the longest start of a member

C = TypeVar("C", bound=FrameConnection)


class Hub:
    """The connections of all members, by name. A member's newest connection replaces its earlier one.

    Args:
        token: The members' token.
        reader_token: Token of readers that members cannot dial. None: no readers are accepted.
        invoke: Invokes members. None: members dial in on their own.

    Attributes:
        id: The hub's unique id.
        members: Connections by member.
        used: Members that have disconnected since the last `take_used_members`, and the environments that they named.
        written: Members written to since their last replication.
        invocations: The hub's invocations of members.
        peers: The other hubs of the pool, which may be connected to a member that this hub needs.

    Raises:
        InvalidSettingError: A token is too short.
    """

    def __init__(self, token: bytes, reader_token: bytes | None = None, invoke: Invoke | None = None) -> None:
        for each in (token, token if reader_token is None else reader_token):
            if len(each) < handshake.MIN_TOKEN_BYTES:
                raise InvalidSettingError(
                    f"a token of {len(each)} bytes; at least {handshake.MIN_TOKEN_BYTES} are accepted"
                )
        self.id = secrets.token_hex(8)
        self.members: dict[str, MemberChannel] = {}
        self.used: dict[str, str] = {}
        self._token = token
        self.written: set[str] = set()
        self.invocations = Invocations(invoke) if invoke else None
        self.peers = Peers(self.id, self.invocations) if self.invocations else None
        self._on_demand: dict[str, OnDemandMember] = {}
        self._wakes: dict[int, str] = {}  # members that have not dialled in yet, by invocation id
        self._wake_numbers = itertools.count(1)
        self._requests = request_numbers()
        self._replicas = Replicas(self._reinstate)
        self._roles: dict[Kind, tuple[bytes, Role]] = {
            Kind.PROOF: (token, self._accept_member),
            Kind.REPLICA: (token, self._accept_replica),
            Kind.PEER: (token, self._accept_peer),
        }
        if reader_token is not None:
            self._roles[Kind.READER] = reader_token, self._accept_reader
        self._connections: set[FrameConnection] = set()
        self._server: asyncio.Server
        self._address: tuple[str, int, str]

    async def start(
        self,
        host: str,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        *,
        certificate: str = "",
        reached_at: str = "",
    ) -> int:
        """Start listening, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any free port.
            tls: TLS context with the hub's certificate. None: no TLS.
            certificate: The certificate as PEM, for invocations.
            reached_at: The address that members dial; empty: `host`.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Acceptor(self._roles, self._on_connected),
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_LIMIT_S if tls else None,
        )
        port = int(self._server.sockets[0].getsockname()[1])
        self._address = reached_at or host, port, certificate
        return port

    async def stop(self) -> None:
        """Abort all connections, and peers' connections last, so that peers learn when members have returned."""
        await self._stop_listening()
        for member in self._on_demand.values():
            member.stop()
        await self._end([each for each in self._connections if not isinstance(each, PeerEnd)])
        if self.invocations:
            await self.invocations.stop()
        if self.peers:
            await self.peers.stop()
        await self._end(list(self._connections))

    def find_channel(self, member: str) -> Channel | None:
        """Return the channel to a member, or None if the member is not connected and cannot be started on demand."""
        if not self.peers:
            return self.members.get(member)
        if member not in self._on_demand:
            self._on_demand[member] = OnDemandMember(member, self, self.peers.start_member, self._requests)
        return self._on_demand[member]

    def address_for(self, member: str) -> HubAddress:
        """Return the address and token with which a member can dial in once."""
        wake = next(self._wake_numbers)
        self._wakes[wake] = member
        if len(self._wakes) > _MAX_WAKES:
            del self._wakes[next(iter(self._wakes))]
        host, port, certificate = self._address
        return {
            "id": self.id,
            "host": host,
            "port": port,
            "token": self._token.hex(),
            "certificate": certificate,
            "wake": wake,
        }

    def attach(self, channel: MemberChannel) -> None:
        """Register a member's connection. An earlier connection is aborted, unless a replica is copying its chunks."""
        former = self.members.get(channel.name)
        self.members[channel.name] = channel
        if self.peers:
            self.peers.on_arrival(channel.name)
        is_copied = former is not None and channel.is_replica and self._replicas.begin(former, channel)
        if former and not is_copied:
            former.end()
        if on_demand := self._on_demand.get(channel.name):
            on_demand.on_connected(is_replica=is_copied)

    def on_activity(self, channel: MemberChannel) -> None:
        """Record that a member has sent a frame."""
        channel.active_at_s = asyncio.get_running_loop().time()
        on_demand = self._on_demand.get(channel.name)
        if on_demand and self.members.get(channel.name) is channel:  # otherwise the environment was replaced
            on_demand.on_activity()

    def detach(self, channel: MemberChannel, environment: str) -> None:
        """Remove a member's connection. A primary that was being copied serves again."""
        self.used[channel.name] = environment or self.used.get(channel.name, "")
        was_active = self.members.get(channel.name) is channel
        if was_active:
            del self.members[channel.name]
        self._replicas.detach(channel)
        if was_active and channel.name in self._on_demand and channel.name not in self.members:
            self._on_demand[channel.name].on_disconnected()

    def expect_replica(self, member: str) -> asyncio.Future[bool] | None:
        """Keep a member running until a replica has copied its chunks. The caller must invoke the replica soon.

        Returns:
            A future that resolves to True once the replica is complete, or None if the member is not connected.
        """
        primary = self.members.get(member)
        return self._replicas.expect(primary) if primary else None

    def abandon_replica(self, member: str) -> None:
        """Stop a member's wait for a replica that will not arrive."""
        self._replicas.abandon(member)

    def _reinstate(self, channel: MemberChannel) -> None:
        self.members[channel.name] = channel

    def _on_connected(self, acceptor: Acceptor) -> None:
        self._track(acceptor)
        is_open = self._server.is_serving()  # False if the connection was accepted while the hub was stopping
        if not is_open or sum(isinstance(each, Acceptor) for each in self._connections) > _MAX_UNPROVEN:
            acceptor.end()

    def _accept_member(self, name: str, header: Header) -> MemberChannel:
        # Lambda may deliver an event twice, and the second environment would be empty.
        if self.peers:
            if self._wakes.get(header.request) != name:
                raise FrameError(f"member {name} dials in for wake {header.request}, which is another's or used")
            del self._wakes[header.request]
        return self._track(MemberChannel(self, name, self._requests, is_replica=header.number == 1))

    def _accept_reader(self, member: str, header: Header) -> ProxiedConnection:
        return self._track(ProxiedConnection(lambda: self.find_channel(member)))

    def _accept_replica(self, member: str, header: Header) -> ProxiedReplicaConnection:
        return self._track(self._replicas.open_connection(member))

    def _accept_peer(self, hub: str, header: Header) -> FrameConnection:
        if not self.peers:
            raise FrameError(f"the hub {hub} dials in, and this one starts no members")
        peers = self.peers

        def running(member: str) -> Channel | None:
            is_running = member in self.members or peers.is_invoked(member)
            return self.find_channel(member) if is_running and self._server.is_serving() else None

        def start(member: str) -> Channel | None:
            if not self._server.is_serving():  # the hub is stopping
                return None
            if member not in self._on_demand or self._on_demand[member].is_asleep:
                peers.accept_start(member)
            return self.find_channel(member)

        return self._track(PeerEnd(peers, running=running, start=start, on_write=self.written.add))

    async def _stop_listening(self) -> None:
        # asyncio leaks the connections that it accepts in the iteration before close() (CPython issue 109564).
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        self._server.close()

    @staticmethod
    async def _end(connections: Sequence[FrameConnection]) -> None:
        for connection in connections:
            connection.end()
        await asyncio.gather(*(connection.ended for connection in connections))

    def _track(self, connection: C) -> C:
        self._connections.add(connection)
        connection.ended.add_done_callback(lambda _: self._connections.discard(connection))
        return connection
