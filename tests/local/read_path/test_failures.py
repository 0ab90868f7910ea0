"""The cache never breaks a read: what dies around the proxy, and what a client sees of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from burstcache.adapters.clients import _EXCEPTIONS, _config
from support.answers import body_of, error_of
from support.read_path import Cloud, Environment
from support.servers import Silence


@contextmanager
def dead_endpoint() -> Iterator[str]:
    with socket.socket() as taken:  # bound, never listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def endpoint_that_sends(*replies: bytes, times: int, before: Callable[[], object] = int) -> Iterator[str]:
    """A server that answers this many connections with these bytes in turn, the last ones again, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for i in range(times):
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    before()
                    connection.sendall(replies[min(i, len(replies) - 1)])

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("service", ["DYNAMODB", "EVENTBRIDGE"])
def test_get_is_answered_from_s3_whatever_dies(cloud: Cloud, environment: Environment, service: str) -> None:
    cloud.put("a", b"body")
    with dead_endpoint() as url:
        environment(**{f"AWS_ENDPOINT_URL_{service}": url})

        served = [body_of(cloud.get("a")) for _ in range(10)]

    assert served == [b"body"] * 10


@pytest.mark.parametrize("service", ["DYNAMODB", "EVENTBRIDGE"])
def test_service_that_hangs_costs_one_time_out_and_not_one_per_read(
    cloud: Cloud, environment: Environment, service: str
) -> None:
    cloud.put("a", b"body")
    with Silence() as silence:
        environment(**{f"AWS_ENDPOINT_URL_{service}": f"http://{silence.address}"})

        served = [body_of(cloud.get("a")) for _ in range(10)]

        assert served == [b"body"] * 10
        assert silence.connections() == 1


def test_get_is_answered_while_table_and_bus_do_not_exist(cloud: Cloud, environment: Environment) -> None:
    cloud.put("a", b"body")
    environment(TABLE_NAME="absent", BUS_NAME="absent")

    assert body_of(cloud.get("a")) == b"body"


def test_refused_report_is_logged_and_the_get_answered(
    cloud: Cloud, environment: Environment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        def put_events(self, **_: Any) -> dict[str, Any]:
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}

    cloud.put("a", b"body")
    monkeypatch.setattr(environment.clients.events, "put_events", Refusing().put_events)

    assert body_of(cloud.get("a")) == b"body"
    assert [vars(record)["reason"] for record in caplog.records] == [
        "ServiceError('the bus refused 1 of 1 events: ThrottlingException')"
    ]


def test_good_reads_write_no_log(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    cloud.put("a", b"body")

    cloud.get("a")

    assert [record for record in caplog.records if record.name == "proxy"] == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_unreachable_s3_is_a_503_that_says_so(cloud: Cloud, environment: Environment, method: str) -> None:
    with dead_endpoint() as url:
        environment(AWS_ENDPOINT_URL_S3=url)

        message = cloud.get("a", method)

    assert (message["statusCode"], message["headers"]["retry-after"]) == (503, "1")
    assert message["body"] == "" if method == "HEAD" else error_of(message) == "OriginUnavailable"


def test_silent_s3_is_asked_once_and_then_a_503(
    cloud: Cloud, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_EXCEPTIONS, ("read", "s3"), _config(read_timeout_s=1, tries=2))
    with Silence() as silence:
        environment(AWS_ENDPOINT_URL_S3=f"http://{silence.address}")

        assert cloud.get("a")["statusCode"] == 503

        assert silence.connections() == 1


def test_s3_whose_connection_fails_is_asked_a_second_time(cloud: Cloud, environment: Environment) -> None:
    reply = b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: "e"\r\nConnection: close\r\n\r\nbody'
    with endpoint_that_sends(b"", reply, times=2) as url:
        environment(AWS_ENDPOINT_URL_S3=url)

        assert body_of(cloud.get("a")) == b"body"


@pytest.mark.parametrize("body", [b"body", b""])
def test_s3_that_answers_after_a_while_is_waited_for(cloud: Cloud, environment: Environment, body: bytes) -> None:
    head = f'HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nETag: "e"\r\nConnection: close\r\n\r\n'
    reply = head.encode() + body
    with endpoint_that_sends(reply, times=1, before=lambda: cloud.clock.sleep(19)) as url:
        environment(AWS_ENDPOINT_URL_S3=url)

        assert body_of(cloud.get("a")) == body


@pytest.mark.parametrize(
    ("status", "code", "seen"),
    [
        ("403 Forbidden", "AccessDenied", (403, "AccessDenied")),
        ("403 Forbidden", "InvalidObjectState", (403, "InvalidObjectState")),
        ("400 Bad Request", "KeyTooLongError", (400, "KeyTooLongError")),
        ("400 Bad Request", "ExpiredToken", (502, "ExpiredToken")),
        ("503 Slow Down", "SlowDown", (503, "SlowDown")),
        ("500 Internal", "InternalError", (500, "InternalError")),
    ],
)
def test_errors_of_s3_keep_their_status_and_code(
    cloud: Cloud, environment: Environment, status: str, code: str, seen: tuple[int, str]
) -> None:
    xml = f"<Error><Code>{code}</Code><Message>arn:aws:iam::1:role/secret</Message></Error>".encode()
    reply = f"HTTP/1.1 {status}\r\nContent-Length: {len(xml)}\r\nConnection: close\r\n\r\n".encode() + xml
    with endpoint_that_sends(reply, times=20) as url:
        environment(AWS_ENDPOINT_URL_S3=url)

        message = cloud.get("a")

    assert (message["statusCode"], error_of(message)) == seen
    assert "arn:" not in message["body"]


def test_body_that_breaks_off_is_asked_for_again_and_then_given_up(cloud: Cloud, environment: Environment) -> None:
    reply = b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: "e"\r\nConnection: close\r\n\r\nhalf'
    with endpoint_that_sends(reply, times=2) as url:
        environment(AWS_ENDPOINT_URL_S3=url)

        message = cloud.get("a")

    assert (message["statusCode"], error_of(message)) == (503, "OriginUnavailable")
