"""Credentials: each source of secrets, and when sources are read again."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import ClientError, ProfileNotFound
from botocore.session import Session

from burstcache.core.errors import InvalidSettingError, ServiceError
from burstcache.gateway.credentials import KeyRing, KeysFile, MachineKeys, SecretsManagerKeys
from burstcache.gateway.signatures import Secret, SignatureError, SignatureVerifier
from support.clock import ManualClock
from support.signing import EXAMPLE_KEY, EXAMPLE_SECRET, BotocoreSigner, seconds
from support.waiting import LIMIT_S

_NOW = datetime(2026, 11, 28, tzinfo=UTC)
_SECRET = "a secret of 8 or more characters".replace(" ", "-")


class _Source:
    """A source of secrets under a test's control."""

    def __init__(self, **secrets: str) -> None:
        self.secrets, self.reads, self.is_old, self.is_watched = secrets, 0, False, False
        self.error: Exception | None = None
        self.may_read = threading.Event()
        self.may_read.set()

    def is_stale(self) -> bool:
        return self.is_old

    def may_have_changed(self) -> bool:
        return not self.is_watched or self.is_old

    def read(self) -> Mapping[str, Secret]:
        assert self.may_read.wait(LIMIT_S)
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {name: Secret(secret) for name, secret in self.secrets.items()}


def _settle(ring: KeyRing) -> None:
    """Wait for a read of the sources in progress."""
    if ring._reading is not None:
        ring._reading.result(LIMIT_S)


def test_the_first_source_that_has_a_key_counts() -> None:
    ring = KeyRing([_Source(a="1"), _Source(a="2", b="3")], ManualClock())

    assert [ring.find(name) for name in "abc"] == [Secret("1"), Secret("3"), None]


def test_an_unknown_key_is_known_after_a_refresh() -> None:
    source, clock = _Source(), ManualClock()
    ring = KeyRing([source], clock)
    source.secrets = {"a": "1"}

    assert ring.find("a") is None
    ring.refresh("a").result(LIMIT_S)

    assert ring.find("a") == Secret("1")


def test_unknown_keys_cause_one_read_in_two_seconds_and_the_same_key_one_in_thirty() -> None:
    source, clock = _Source(), ManualClock()
    ring = KeyRing([source], clock)

    ring.refresh("a").result(LIMIT_S)
    assert (source.reads, clock.now_s) == (2, 0)
    ring.refresh("b").result(LIMIT_S)
    assert (source.reads, clock.now_s) == (3, 2)
    ring.refresh("c").result(LIMIT_S)
    assert (source.reads, clock.now_s) == (4, 4)
    clock.now_s = 29.9
    ring.refresh("a").result(LIMIT_S)
    assert source.reads == 4
    clock.now_s = 30.1
    ring.refresh("a").result(LIMIT_S)
    assert source.reads == 5


def test_an_unknown_key_is_refused_at_once_if_no_source_has_changed() -> None:
    source, clock = _Source(), ManualClock()
    ring = KeyRing([source], clock)
    source.is_watched = True

    for name in "abc":
        assert ring.refresh(name).done()
    assert (source.reads, clock.now_s) == (1, 0)

    source.secrets, source.is_old = {"a": "1"}, True
    ring.refresh("a").result(LIMIT_S)
    assert ring.find("a") == Secret("1")


def test_requests_with_unknown_keys_share_a_read() -> None:
    source, clock = _Source(), ManualClock()
    ring = KeyRing([source], clock)
    source.may_read.clear()
    source.secrets = {"a": "1", "b": "2"}

    waiting = [ring.refresh("a"), ring.refresh("b"), ring.refresh("a")]
    assert not any(future.done() for future in waiting)
    source.may_read.set()
    for future in waiting:
        future.result(LIMIT_S)

    assert source.reads == 2
    assert ring.find("b") == Secret("2")


def test_unknown_keys_are_remembered_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.gateway.credentials._MAX_UNKNOWN", 3)
    ring = KeyRing([_Source()], ManualClock())

    for name in "abcdefgh":
        ring.refresh(name).result(LIMIT_S)

    assert len(ring._unknown) <= 3


def test_a_stale_source_is_read_in_the_background_and_looked_at_once_a_second() -> None:
    source, clock = _Source(a="1"), ManualClock()
    ring = KeyRing([source], clock)
    source.secrets, source.is_old = {"a": "2"}, True
    source.may_read.clear()

    clock.now_s = 0.9
    assert (ring.find("a"), ring._reading) == (Secret("1"), None)
    clock.now_s = 1
    assert ring.find("a") == Secret("1")
    source.is_old = False
    source.may_read.set()
    _settle(ring)

    assert (ring.find("a"), source.reads) == (Secret("2"), 2)


def test_a_key_that_was_removed_while_nobody_looked_is_unknown() -> None:
    source, clock = _Source(a="1", b="2"), ManualClock()
    ring = KeyRing([source], clock)
    source.secrets, source.is_old = {"b": "2"}, True
    source.may_read.clear()
    clock.now_s = 3600

    assert [ring.find("a"), ring.find("a"), ring.find("b")] == [None, None, None]
    reading = ring.refresh("b")
    source.may_read.set()
    reading.result(LIMIT_S)

    assert [ring.find("a"), ring.find("b")] == [None, Secret("2")]


def test_keys_work_after_a_while_without_a_look_though_their_source_is_down() -> None:
    source, clock = _Source(a="1"), ManualClock()
    ring = KeyRing([source], clock)
    source.error, source.is_old = InvalidSettingError("no"), True
    clock.now_s = 3600

    ring.find("a")
    ring.refresh("a").result(LIMIT_S)

    assert ring.find("a") == Secret("1")


@pytest.mark.parametrize("error", [InvalidSettingError("no"), ValueError("no")])
def test_a_source_that_fails_keeps_its_secrets_and_others_are_read(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    failing, sound, clock = _Source(a="1"), _Source(b="1"), ManualClock()
    ring = KeyRing([failing, sound], clock)
    failing.error, failing.is_old, sound.secrets = error, True, {"b": "2"}
    clock.now_s = 10

    with caplog.at_level(logging.WARNING, "burstcache"):
        ring.find("a")
        _settle(ring)

    assert (ring.find("a"), ring.find("b")) == (Secret("1"), Secret("2"))
    clock.now_s = 39
    ring.find("a")
    assert (ring._reading, failing.reads) == (None, 2)
    clock.now_s = 41
    failing.error = None
    ring.find("a")
    _settle(ring)
    assert failing.reads == 3


def test_a_source_that_cannot_be_read_at_first_is_an_error() -> None:
    source = _Source()
    source.error = InvalidSettingError("no")

    with pytest.raises(InvalidSettingError):
        KeyRing([source], ManualClock())


def _machine(clock: ManualClock, *credentials: Any, **options: Any) -> MachineKeys:
    """Return the keys of a machine that has these credentials, one after the other."""
    remaining = list(credentials)

    def make_session() -> Session:
        session: Any = Session()
        session._credentials = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return cast(Session, session)

    return MachineKeys(clock, make_session=make_session, **options)


def _of_a_role(name: str, lasts: timedelta) -> RefreshableCredentials:
    """Return credentials as of an instance's or a container's role."""
    metadata = {
        "access_key": name,
        "secret_key": f"secret-{name}",
        "token": f"token-{name}",
        "expiry_time": (datetime.now(UTC) + lasts).isoformat(),
    }
    return RefreshableCredentials.create_from_metadata(metadata, lambda: metadata, "a role")


def test_a_machine_s_static_key_has_no_token_and_no_end() -> None:
    machine = _machine(ManualClock(), Credentials(EXAMPLE_KEY, EXAMPLE_SECRET))

    assert machine.read() == {EXAMPLE_KEY: Secret(EXAMPLE_SECRET)}


def test_former_credentials_of_a_role_are_known_until_they_expire() -> None:
    clock = ManualClock(datetime.now(UTC).timestamp())
    began_s = clock.now_s
    machine = _machine(clock, _of_a_role("A", timedelta(hours=1)), _of_a_role("B", timedelta(hours=7)))

    assert list(machine.read()) == ["A"]
    clock.now_s = began_s + 3500
    both = machine.read()
    clock.now_s = began_s + 3700

    assert {name: (secret.secret_key, secret.session_token) for name, secret in both.items()} == {
        "A": ("secret-A", "token-A"),
        "B": ("secret-B", "token-B"),
    }
    assert both["A"].expires_us == pytest.approx((began_s + 3600) * 1e6, abs=60e6)
    assert list(machine.read()) == ["B"]


def test_a_former_static_key_is_forgotten_and_a_former_token_without_an_end_is_kept_half_a_day() -> None:
    clock = ManualClock(1e9)
    machine = _machine(
        clock, Credentials("A", "secret-A"), Credentials("B", "secret-B", "t"), Credentials("C", "secret-C")
    )

    assert list(machine.read()) == ["A"]
    assert machine.read() == {"B": Secret("secret-B", "t")}
    assert set(machine.read()) == {"B", "C"}
    clock.now_s += 12 * 3600 + 1
    assert set(machine.read()) == {"C"}


def test_a_machine_without_credentials_is_told_what_to_do() -> None:
    with pytest.raises(InvalidSettingError, match="file of access keys"):
        MachineKeys(ManualClock(), make_session=_session_without_credentials).read()


def _session_without_credentials() -> Session:
    session = Session()
    session.get_component("credential_provider").providers = []
    return session


def test_a_machine_s_broken_configuration_is_told() -> None:
    def make_session() -> Session:
        raise ProfileNotFound(profile="absent")

    with pytest.raises(InvalidSettingError, match="absent"):
        MachineKeys(ManualClock(), make_session=make_session).read()


def test_a_machine_s_credentials_are_stale_after_their_ttl() -> None:
    clock = ManualClock()
    machine = _machine(clock, Credentials("A", "secret-A"), ttl_s=10)

    assert machine.is_stale()
    machine.read()
    assert not machine.is_stale()
    clock.now_s = 10
    assert machine.is_stale()


def test_a_client_that_signs_with_replaced_credentials_is_verified() -> None:
    signer = BotocoreSigner("http://127.0.0.1:9000", "token-A")
    request = signer.sign(lambda client: client.get_object(Bucket="bucket", Key="key"))
    clock = ManualClock(seconds(dict(request.headers)[b"x-amz-date"].decode()))
    role = RefreshableCredentials.create_from_metadata(
        {
            "access_key": EXAMPLE_KEY,
            "secret_key": EXAMPLE_SECRET,
            "token": "token-A",
            "expiry_time": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        },
        dict,
        "a role",
    )
    ring = KeyRing([_machine(clock, role, _of_a_role("B", timedelta(hours=7)))], clock)
    ring.refresh("B").result(LIMIT_S)
    verifier = SignatureVerifier(ring.find, clock)

    assert ring.find("B") is not None
    assert verifier.verify(*request).access_key == EXAMPLE_KEY
    clock.now_s += 3700
    with pytest.raises(SignatureError, match="RequestTimeTooSkewed"):
        verifier.verify(*request)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file of keys, by default one that was written a minute ago."""
    path = tmp_path / "keys"

    def write(text: str | bytes, *, mode: int = 0o600, written_s: float = 1e9 - 60) -> Path:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        os.utime(path, (written_s, written_s))
        return path

    return write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A secret-A\n", {"A": Secret("secret-A")}),
        ("\n# a comment\n  A   secret-A  \nB\tsecret/B+=\n", {"A": Secret("secret-A"), "B": Secret("secret/B+=")}),
        ("A secret-A\r\nA secret-A", {"A": Secret("secret-A")}),
        (
            "# a comment\n[default]\naws_access_key_id = A\naws_secret_access_key=secret%A\n\n[b]\nregion = eu-west-1\n"
            "aws_access_key_id=B\naws_secret_access_key=secret-B\naws_session_token=t=\n[c]\nrole_arn=arn\n",
            {"A": Secret("secret%A"), "B": Secret("secret-B", "t=")},
        ),
    ],
)
def test_a_file_of_keys_is_read(write: Callable[..., Path], text: str, expected: Mapping[str, Secret]) -> None:
    assert KeysFile(write(text), ManualClock(1e9)).read() == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no access keys"),
        ("# nothing\n", "no access keys"),
        ("[default]\nregion=eu-west-1\n", "no access keys"),
        (f"A {_SECRET} c\n", "line 1"),
        (f"\n\n{_SECRET}\n", "line 3"),
        (f"A {_SECRET}\nA {_SECRET}2\n", "two secret keys for A"),
        ("A short\n", "at least 8 characters"),
        (f"[a]\naws_secret_access_key={_SECRET}\n", "half of a key"),
        ("[a]\naws_access_key_id=A\n", "half of a key"),
        (f"[a]\naws_access_key_id=A\n{_SECRET}\n", "ParsingError"),
        (f"[a]\naws_access_key_id={_SECRET}\n[a]\n", "DuplicateSectionError"),
        (_SECRET.encode() + b"\xff", "UTF-8"),
        (b"A " + b"a" * (1 << 20), "larger than 1 MiB"),
    ],
)
def test_a_malformed_file_is_refused_without_showing_a_secret(
    write: Callable[..., Path], text: str | bytes, words: str
) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        KeysFile(write(text), ManualClock(1e9)).read()

    assert words in str(raised.value)
    assert _SECRET not in str(raised.value)
    assert _SECRET not in repr(raised.value.__cause__)


@pytest.mark.parametrize(
    ("mode", "is_right"), [(0o600, True), (0o440, True), (0o644, False), (0o602, False), (0o601, False)]
)
def test_a_file_that_every_user_may_access_is_refused(write: Callable[..., Path], mode: int, is_right: bool) -> None:
    file = KeysFile(write(f"A {_SECRET}", mode=mode), ManualClock(1e9))

    if is_right:
        file.read()
    else:
        with pytest.raises(InvalidSettingError, match="chmod o="):
            file.read()


def test_a_file_that_is_absent_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        file = KeysFile(path, ManualClock(1e9))
        assert file.is_stale()
        with pytest.raises(InvalidSettingError, match="cannot be read"):
            file.read()


def test_a_changed_file_is_stale_whatever_its_time_says(write: Callable[..., Path]) -> None:
    file = KeysFile(path := write(f"A {_SECRET}"), ManualClock(1e9))
    assert file.is_stale()
    file.read()
    assert not file.is_stale()
    assert not file.may_have_changed()

    write(f"B {_SECRET}")
    assert file.is_stale()
    assert file.may_have_changed()
    assert set(file.read()) == {"B"}
    replacement = path.with_name("replacement")
    replacement.write_text(f"C {_SECRET}")
    replacement.chmod(0o600)
    replacement.replace(path)
    assert file.is_stale()


class _WritingClock(ManualClock):
    """Clock of a machine where a file is written while somebody sleeps."""

    def __init__(self, now_s: float, write: Callable[[float], object]) -> None:
        super().__init__(now_s)
        self._write = write

    def sleep(self, duration_s: float) -> None:
        super().sleep(duration_s)
        self._write(self.now_s)


def test_a_file_that_is_being_written_is_not_read_by_half(write: Callable[..., Path]) -> None:
    parts = iter([f"A {_SECRET}", f"A {_SECRET}\nB {_SECRET}"])

    def go_on(now_s: float) -> None:
        if part := next(parts, None):
            write(part, written_s=now_s)

    clock = _WritingClock(1e9, go_on)

    keys = KeysFile(write(f"A {_SECRET[:9]}", written_s=1e9), clock).read()

    assert keys == {"A": Secret(_SECRET), "B": Secret(_SECRET)}


def test_a_file_that_changes_while_it_is_read_is_read_again(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fstat, calls = os.fstat, []

    def change_meanwhile(file: int) -> os.stat_result:
        calls.append(file)
        if len(calls) == 2:
            write(f"A {_SECRET}\nB {_SECRET}")
        return fstat(file)

    monkeypatch.setattr("burstcache.gateway.credentials.os.fstat", change_meanwhile)

    assert set(KeysFile(write(f"A {_SECRET}"), ManualClock(1e9)).read()) == {"A", "B"}


def test_a_file_that_is_written_all_the_time_is_refused(write: Callable[..., Path]) -> None:
    clock = _WritingClock(1e9, lambda now_s: write(f"A {_SECRET}", written_s=now_s))

    with pytest.raises(InvalidSettingError, match="all the time"):
        KeysFile(write(f"A {_SECRET}", written_s=1e9), clock).read()


def test_a_file_from_the_future_is_read(write: Callable[..., Path]) -> None:
    assert KeysFile(write(f"A {_SECRET}", written_s=2e9), ManualClock(1e9)).read()


def test_a_ring_notices_a_changed_file_and_keeps_the_keys_of_a_broken_one(write: Callable[..., Path]) -> None:
    clock = ManualClock(1e9)
    ring = KeyRing([KeysFile(write(f"A {_SECRET}"), clock)], clock)

    write(f"B {_SECRET}")
    clock.now_s += 5
    ring.find("B")
    _settle(ring)
    assert (ring.find("A"), ring.find("B")) == (None, Secret(_SECRET))

    write(f"B {_SECRET}", mode=0o644)
    clock.now_s += 5
    ring.find("B")
    _settle(ring)
    assert ring.find("B") == Secret(_SECRET)


class _SecretsManager:
    """Secrets Manager with one secret."""

    def __init__(self, text: str | None) -> None:
        self.text, self.error = text, ""

    def get_secret_value(self, *, SecretId: str) -> dict[str, object]:
        if self.error:
            raise ClientError({"Error": {"Code": self.error, "Message": "no"}}, "GetSecretValue")
        assert SecretId == "keys"
        return {"SecretString": self.text} if self.text is not None else {"SecretBinary": b"{}"}


def test_a_secret_in_secrets_manager_is_read_and_stale_after_its_ttl() -> None:
    client, clock = _SecretsManager(json.dumps({"A": "secret-A", "B": "secret-B"})), ManualClock()
    source = SecretsManagerKeys(client, "keys", clock, ttl_s=60)

    assert source.is_stale()
    assert source.read() == {"A": Secret("secret-A"), "B": Secret("secret-B")}
    clock.now_s = 59
    assert not source.is_stale()
    clock.now_s = 60
    assert source.is_stale()


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '"a"', '{"A": 12345678}', '{"A": "short"}', '{"A": null}', None])
def test_a_malformed_secret_is_refused(text: str | None) -> None:
    with pytest.raises(InvalidSettingError, match="the secret keys|The text of the secret keys"):
        SecretsManagerKeys(_SecretsManager(text), "keys", ManualClock()).read()


def test_a_rotated_key_is_known_at_once_and_the_removed_one_refused_after_the_ttl() -> None:
    client, clock = _SecretsManager('{"A": "secret-A"}'), ManualClock()
    ring = KeyRing([SecretsManagerKeys(client, "keys", clock, ttl_s=60)], clock)
    client.text = '{"A": "secret-A", "B": "secret-B"}'
    ring.refresh("B").result(LIMIT_S)
    assert ring.find("B") == Secret("secret-B")

    client.text = '{"B": "secret-B"}'
    clock.now_s += 30
    ring.find("A")
    _settle(ring)
    assert ring.find("A") == Secret("secret-A")
    clock.now_s += 31
    ring.find("A")
    _settle(ring)
    assert ring.find("A") is None


def test_secrets_stay_while_secrets_manager_is_down() -> None:
    client, clock = _SecretsManager('{"A": "secret-A"}'), ManualClock()
    source = SecretsManagerKeys(client, "keys", clock, ttl_s=60)
    ring = KeyRing([source], clock)
    client.error = "InternalServiceError"
    clock.now_s = 100

    ring.find("A")
    _settle(ring)

    with pytest.raises(ServiceError):
        source.read()
    assert ring.find("A") == Secret("secret-A")
