"""Reads that a cache function serves over a real NATS server, and what the proxy does when it cannot."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from burstcache.adapters.circuit_breaker import OPEN_S
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.core.digest import MAX_AGE_S
from support.answers import body_of
from support.aws import clients
from support.read_path import ETAG, PASSWORDS, Cloud, Environment, MakeEntry, Relay
from support.servers import ServerProcess, Silence
from support.waiting import LIMIT_S, until

BODY = b"0123456789"


@pytest.fixture
def hot(cloud: Cloud, relay: Relay) -> Cloud:
    """The key `hot`, routed to the Lambda tier (S3 has other bytes, so that a test sees who served)."""
    cloud.put("hot", b"from S3")
    cloud.route("hot", tier="lambda")
    return cloud


def test_get_is_a_hit_that_tells_the_cache_function_who_and_when(
    hot: Cloud, relay: Relay, make_entry: MakeEntry
) -> None:
    holder = relay("hot", make_entry(BODY, content_type="a/b"))
    message = hot.get("hot")

    expected = {
        "x-cache-tier": "lambda",
        "x-cache": "hit",
        "etag": ETAG,
        "content-type": "a/b",
        "content-length": "10",
    }
    assert (message["statusCode"], body_of(message)) == (200, BODY)
    assert expected.items() <= message["headers"].items()
    assert [(seen["method"], seen["request_id"]) for seen in holder.seen] == [("GET", "request-1=")]
    assert holder.seen[0]["at_us"] == hot.clock.now_us()


def test_head_needs_no_body_on_the_relay(hot: Cloud, relay: Relay, make_entry: MakeEntry) -> None:
    holder = relay("hot", make_entry(BODY).without_body())

    message = hot.get("hot", "HEAD")

    assert (message["statusCode"], message["body"], message["headers"]["content-length"]) == (200, "", "10")
    assert holder.seen[0]["method"] == "HEAD"


def test_large_object_crosses_the_relay(hot: Cloud, relay: Relay, make_entry: MakeEntry) -> None:
    body = bytes(range(256)) * (4 << 12)
    relay("hot", make_entry(body))

    assert body_of(hot.get("hot")) == body


def test_part_is_cut_from_what_the_cache_function_sent(hot: Cloud, relay: Relay, make_entry: MakeEntry) -> None:
    relay("hot", make_entry(BODY))

    message = hot.get("hot", range="bytes=2-4")

    assert (message["statusCode"], body_of(message)) == (206, b"234")


def test_key_that_nobody_holds_comes_from_s3_without_a_time_out(
    hot: Cloud, reported: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    message = hot.get("hot")

    assert (body_of(message), message["headers"]["x-cache"]) == (b"from S3", "miss")
    assert [record for record in caplog.records if record.name == "proxy"] == []
    assert len(reported) == 1


def test_key_that_nobody_held_is_asked_for_again_after_the_next_digest(
    hot: Cloud, relay: Relay, make_entry: MakeEntry
) -> None:
    hot.get("hot")
    relay("hot", make_entry(BODY))
    hot.clock.sleep(MAX_AGE_S + 1)

    assert hot.get("hot")["headers"]["x-cache-tier"] == "lambda"


def test_silent_cache_function_costs_one_time_out_and_only_its_key(
    hot: Cloud, relay: Relay, make_entry: MakeEntry
) -> None:
    silent = relay("hot", None)
    relay("other", make_entry(BODY))
    hot.route("other", tier="lambda")

    served = [body_of(hot.get("hot")) for _ in range(10)]

    assert served == [b"from S3"] * 10
    assert len(silent.seen) == 1
    assert hot.get("other")["headers"]["x-cache-tier"] == "lambda"


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"", b"\0\0\0\2{}", "without body"])
def test_answer_that_is_no_whole_entry_is_served_from_s3(
    hot: Cloud, relay: Relay, make_entry: MakeEntry, answer: bytes | str
) -> None:
    relay("hot", make_entry(BODY).without_body() if isinstance(answer, str) else answer)

    assert body_of(hot.get("hot")) == b"from S3"


def test_head_has_no_body_even_if_the_cache_function_sends_one(hot: Cloud, relay: Relay, make_entry: MakeEntry) -> None:
    relay("hot", make_entry(BODY))

    message = hot.get("hot", "HEAD")

    assert (message["statusCode"], message["body"], message["headers"]["content-length"]) == (200, "", "10")


def test_dead_relay_breaks_no_read(hot: Cloud, relay: Relay, nats_server: ServerProcess, make_entry: MakeEntry) -> None:
    relay("hot", make_entry(BODY))
    hot.get("hot")
    nats_server.kill()

    served = [body_of(hot.get("hot")) for _ in range(10)]

    assert served == [b"from S3"] * 10


def test_connection_lost_in_a_freeze_is_made_anew_at_its_first_use(
    hot: Cloud, relay: Relay, nats_server: ServerProcess, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay("hot", make_entry(BODY))
    hot.get("hot")
    nats_server.kill()
    nats_server.start()
    relay("hot", make_entry(b"after"))
    hot.clock.sleep(60)  # longer than a connection is trusted without a ping

    assert body_of(hot.get("hot")) == b"after"


def test_relay_that_hangs_costs_one_time_out_and_not_one_per_read(hot: Cloud, environment: Environment) -> None:
    with Silence() as silence:
        environment(RELAY_URL=f"nats://{silence.address}")

        served = [body_of(hot.get("hot")) for _ in range(10)]

        assert served == [b"from S3"] * 10
        assert silence.connections() == 1


def test_refused_password_is_read_anew(
    hot: Cloud, relay: Relay, environment: Environment, make_entry: MakeEntry
) -> None:
    clients().secrets.put_parameter(Name="/stale", Value="old", Type="SecureString")
    environment(RELAY_PASSWORD_PARAMETER="/stale")
    relay("hot", make_entry(BODY))

    assert body_of(hot.get("hot")) == b"from S3"
    clients().secrets.put_parameter(Name="/stale", Value=PASSWORDS["proxy"], Type="SecureString", Overwrite=True)

    def is_answered_by_the_relay() -> bool:
        hot.clock.now_s += OPEN_S  # the log-in may outlast the patience of a read, which leaves the relay alone anew
        return body_of(hot.get("hot")) == BODY

    assert until(is_answered_by_the_relay)


def test_relay_is_reached_over_tls_with_the_certificate_of_the_stack(
    hot: Cloud,
    relay: Relay,
    environment: Environment,
    nats_server: ServerProcess,
    tmp_path: Path,
    make_entry: MakeEntry,
) -> None:
    authority = certificate(tmp_path)
    config = tmp_path / "nats.conf"
    pair = f'cert_file: "{tmp_path}/relay.pem", key_file: "{tmp_path}/relay.key"'
    nats_server.kill()
    config.write_text(config.read_text() + f"tls: {{{pair}}}\n")
    nats_server.start()
    environment(RELAY_URL=f"tls://127.0.0.1:{nats_server.port}", RELAY_CA_PEM=authority)

    requests = RelayRequests(environment.settings.relay, Secrets(clients().secrets), SystemClock())
    try:
        assert requests.send_request("get.nobody", b"", timeout_s=LIMIT_S) is None
    finally:
        requests.close()


def certificate(folder: Path) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "relay")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "relay.pem").write_bytes(pem)
    (folder / "relay.key").write_bytes(secret)
    return pem.decode()
