"""Hostile HTTP on a gateway's connection: what the application sees of it, and what the client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.gateway import http_connection
from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest, response_head
from burstcache.gateway.recorder import Unrecorded
from support.waiting import LIMIT_S


@dataclass
class _Recorder:
    """Application that records each request with its body, and answers with the target.

    Attributes:
        seen: Methods, targets and bodies; a body that broke off is None.
        headers: The headers of each request, as they were once its body was read.
    """

    seen: list[tuple[bytes, bytes, bytes | None]] = field(default_factory=list)
    headers: list[list[tuple[bytes, bytes]]] = field(default_factory=list)

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        self._answer(request, connection, b"")
        return True

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        assert request.body is not None
        try:
            body = b"".join([piece async for piece in request.body])
        except Exception:
            self.seen.append((request.method, request.target, None))
            raise
        self._answer(request, connection, body)

    def _answer(self, request: HttpRequest, connection: HttpConnection, body: bytes) -> None:
        self.seen.append((request.method, request.target, body))
        self.headers.append(request.headers)
        text = request.target
        connection.send(200, response_head(200, [("content-length", str(len(text)))]), text)


def _exchange(*pieces: bytes, ends: bool = True) -> tuple[_Recorder, bytes]:
    """Send pieces on a connection, and return what the application has seen and all that came back.

    Args:
        pieces: What to send.
        ends: Whether to end this side of the connection after it. Otherwise the gateway has to close it.
    """
    return asyncio.run(_exchanged(pieces, ends=ends))


async def _exchanged(pieces: Sequence[bytes], *, ends: bool) -> tuple[_Recorder, bytes]:
    application, connections = _Recorder(), set[HttpConnection]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(application, connections, Unrecorded()), "127.0.0.1", 0)
    async with server, asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # the server reads it
        if ends:
            writer.write_eof()
        received = await reader.read()
        writer.close()
        await asyncio.gather(*(each.closed for each in connections))
    return application, received


def _statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def _post(*lines: bytes, body: bytes = b"") -> bytes:
    """Return a POST whose body is followed by what would be a second request if it were not in the body."""
    return b"\r\n".join([b"POST /b/first HTTP/1.1", b"Host: localhost", *lines, b"", body])


_SMUGGLED = b"GET /b/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
_CHUNKED = b"Transfer-Encoding: chunked"

# Messages that two parsers could read in two ways (RFC 9112, sections 5 to 7 and 11.2).
_AMBIGUOUS = {
    "a length and chunks": _post(b"Content-Length: 4", _CHUNKED, body=b"0\r\n\r\n"),
    "chunks and a length": _post(_CHUNKED, b"Content-Length: 4", body=b"0\r\n\r\n"),
    "two equal lengths": _post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
    "two lengths": _post(b"Content-Length: 5", b"Content-Length: 0", body=b"hello"),
    "two lengths in one line": _post(b"Content-Length: 5, 5", body=b"hello"),
    "a length with a sign": _post(b"Content-Length: +5", body=b"hello"),
    "a hexadecimal length": _post(b"Content-Length: 0x5", body=b"hello"),
    "a length with a space inside": _post(b"Content-Length: 5 0", body=b"hello"),
    "an empty length": _post(b"Content-Length: ", body=b""),
    "two codings in two lines": _post(_CHUNKED, b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "chunked that is not the last coding": _post(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
    "another coding before chunked": _post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "an unknown coding": _post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked twice": _post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "a vertical tab before chunked": _post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "chunked in quotes": _post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "a space before the colon": _post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
    "a folded line": _post(b"X-A: b", b" Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "a folded coding": _post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n"),
    "a carriage return alone": _post(b"X-A: b\rTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "a NUL in a value": _post(b"X-A: b\0", _CHUNKED, body=b"0\r\n\r\n"),
    "line feeds alone": _post(_CHUNKED, body=b"0\r\n\r\n").replace(b"\r\n", b"\n"),
    "line feeds alone, without a body": b"GET /b/first HTTP/1.1\nHost: localhost\n\n",
    "a space first in the head": b"GET /b/first HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a name with a space": _post(b"Content Length: 5", body=b"hello"),
    "a line without a colon": _post(b"Content-Length", body=b"hello"),
    "two hosts": _post(b"Host: other", b"Content-Length: 0"),
    "a chunk size with a sign": _post(_CHUNKED, body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with 0x": _post(_CHUNKED, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk size that overflows": _post(_CHUNKED, body=b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a space": _post(_CHUNKED, body=b"5 \r\nhello\r\n0\r\n\r\n"),
    "an empty chunk size": _post(_CHUNKED, body=b"\r\nhello\r\n0\r\n\r\n"),
    "a chunk size before a line feed alone": _post(_CHUNKED, body=b"5\nhello\r\n0\r\n\r\n"),
    "a chunk that is longer than its size": _post(_CHUNKED, body=b"4\r\nhello\r\n0\r\n\r\n"),
    "a chunk extension with a line feed": _post(_CHUNKED, body=b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "a chunk extension with a carriage return": _post(_CHUNKED, body=b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "a version of HTTP to come": b"GET /b/first HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "HTTP/0.9": b"GET /b/first\r\n",
    "chunks in HTTP/1.0": b"POST /b/first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("sent", [*_AMBIGUOUS.values()], ids=[*_AMBIGUOUS])
def test_an_ambiguous_message_is_refused_and_nothing_after_it_is_a_request(sent: bytes) -> None:
    application, received = _exchange(sent + _SMUGGLED)

    assert [target for _, target, body in application.seen if body is not None] == []
    assert _statuses(received) == [400]
    assert b"<Error><Code>" in received


_UNAMBIGUOUS = {
    "a length": (_post(b"Content-Length: 5", body=b"hello"), b"hello"),
    "a length with zeros first": (_post(b"Content-Length: 005", body=b"hello"), b"hello"),
    "a length of nothing": (_post(b"Content-Length: 00"), b""),
    "chunks": (_post(_CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "a coding in capitals": (_post(b"TRANSFER-ENCODING: CHUNKED", body=b"5\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "a chunk extension": (_post(_CHUNKED, body=b'5;a="b";c\r\nhello\r\n0;d\r\n\r\n'), b"hello"),
    "a chunk size with zeros first": (_post(_CHUNKED, body=b"0005\r\nhello\r\n000\r\n\r\n"), b"hello"),
    "a request within a body": (_post(b"Content-Length: %d" % len(_SMUGGLED), body=_SMUGGLED), _SMUGGLED),
    "a request within a chunk": (
        _post(_CHUNKED, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(_SMUGGLED), _SMUGGLED)),
        _SMUGGLED,
    ),
}


@pytest.mark.parametrize(("sent", "body"), [*_UNAMBIGUOUS.values()], ids=[*_UNAMBIGUOUS])
def test_a_message_with_one_meaning_is_one_request_and_the_next_one_follows_it(sent: bytes, body: bytes) -> None:
    application, received = _exchange(sent + _SMUGGLED)

    assert application.seen == [(b"POST", b"/b/first", body), (b"GET", b"/b/smuggled", b"")]
    assert _statuses(received) == [200, 200]


def test_trailers_are_no_headers() -> None:
    trailers = b"0\r\nHost: other\r\nX-Amz-Acl: public-read\r\n\r\n"

    application, _ = _exchange(_post(_CHUNKED, body=b"5\r\nhello\r\n" + trailers))

    assert application.headers == [[(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]]


def test_headers_and_trailers_without_end_are_refused() -> None:
    line = b"X-A: %b\r\n" % (b"a" * 1000)
    many = line * (http_connection.MAX_HEAD_BYTES // len(line) + 9)

    _, to_head = _exchange(b"GET /b/first HTTP/1.1\r\nHost: localhost\r\n" + many)
    application, to_trailers = _exchange(_post(_CHUNKED, body=b"0\r\n" + many))

    assert (_statuses(to_head), _statuses(to_trailers)) == ([400], [400])
    assert application.seen == [(b"POST", b"/b/first", None)]


def test_a_target_without_end_is_refused() -> None:
    application, received = _exchange(b"GET /" + b"a" * (http_connection.MAX_HEAD_BYTES + 1))

    assert (application.seen, _statuses(received)) == ([], [400])


@pytest.mark.parametrize(
    "sent",
    [
        _post(b"Content-Length: 9", body=b"hello"),
        _post(_CHUNKED, body=b"5\r\nhello\r\n"),
        _post(_CHUNKED, body=b"9\r\nhello"),
    ],
    ids=["by its length", "between chunks", "within a chunk"],
)
def test_a_body_that_is_cut_off_is_no_body(sent: bytes) -> None:
    application, received = _exchange(sent)

    assert (application.seen, received) == ([(b"POST", b"/b/first", None)], b"")


def test_a_client_that_sends_no_whole_head_in_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_WITHIN_S", 0.05)

    application, received = _exchange(b"GET /b/first HTTP/1.1\r\nHost: local", ends=False)

    assert (application.seen, received) == ([], b"")


def test_each_byte_of_a_slow_head_does_not_give_it_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_WITHIN_S", 0.2)

    async def drip() -> int:
        connections, sent = set[HttpConnection](), 0
        server = await asyncio.get_running_loop().create_server(
            lambda: HttpConnection(_Recorder(), connections, Unrecorded()), "127.0.0.1", 0
        )
        async with server, asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET /b/first HTTP/1.1\r\nX-A: ")
            closed = asyncio.ensure_future(reader.read())
            while not (await asyncio.wait([closed], timeout=0.01))[0]:
                writer.write(b"a")
                sent += 1
            with suppress(ConnectionResetError):  # a byte has come after the close
                assert await closed == b""
            writer.close()
        return sent

    assert asyncio.run(drip()) > 0


def test_a_slow_second_head_is_cut_off_like_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "IDLE_S", 0.05)

    application, received = _exchange(_SMUGGLED, b"GET /b/second HTTP/1.1\r\nHost: local", ends=False)

    assert (len(application.seen), _statuses(received)) == (1, [200])


def test_a_client_that_sends_no_more_of_its_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BODY_WITHIN_S", 0.05)
    monkeypatch.setattr(http_connection, "_LINGER_S", 0.05)

    application, received = _exchange(_post(b"Content-Length: 9", body=b"hello"), ends=False)

    assert (application.seen, _statuses(received)) == ([(b"POST", b"/b/first", None)], [400])
    assert b"<Code>RequestTimeout</Code>" in received


@given(
    st.lists(st.sampled_from(sorted(_UNAMBIGUOUS)), min_size=1, max_size=4), st.lists(st.integers(0, 800), max_size=9)
)
def test_packets_do_not_change_what_requests_mean(names: list[str], cuts: list[int]) -> None:
    sent = b"".join(_UNAMBIGUOUS[name][0] for name in names)
    ends = sorted({min(cut, len(sent)) for cut in cuts} | {len(sent)})

    application, received = _exchange(*(sent[begin:end] for begin, end in pairwise([0, *ends])))

    assert [body for _, _, body in application.seen] == [_UNAMBIGUOUS[name][1] for name in names]
    assert _statuses(received) == [200] * len(names)


@given(
    st.sampled_from(sorted(_UNAMBIGUOUS)), st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=3)), max_size=4)
)
def test_damaged_bytes_are_refused_or_served_and_never_a_failure(name: str, damages: list[tuple[int, bytes]]) -> None:
    sent = bytearray(_UNAMBIGUOUS[name][0])
    for position, replacement in damages:
        sent[position : position + len(replacement)] = replacement

    _, received = _exchange(bytes(sent) + _SMUGGLED)

    assert {*_statuses(received)} <= {200, 400, 501}


def test_a_connection_whose_client_sends_no_more_is_closed_after_the_last_response() -> None:
    message = _post(b"Content-Length: 5", body=b"hello")

    application, received = _exchange(message * 3)

    assert (len(application.seen), _statuses(received)) == (3, [200, 200, 200])
