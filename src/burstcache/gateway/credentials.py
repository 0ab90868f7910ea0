"""Credentials that clients may sign with: the machine's own, a file of keys, or a secret in Secrets Manager.

An event loop looks secrets up in memory. Sources are read in a thread, when they are stale or a key is unknown.
"""

from __future__ import annotations

import configparser
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError
from botocore.session import Session

from burstcache.adapters.calls import call_aws
from burstcache.adapters.clock import Clock
from burstcache.core.errors import InvalidSettingError
from burstcache.forks import Lock
from burstcache.gateway.signatures import Secret
from burstcache.logs import logger

_CHECK_S = 1.0  # between two looks for stale sources
_IDLE_S = 10.0  # longer without a look: stale secrets are not believed
_FAILED_S = 30.0  # the same after a source could not be read
_INTERVAL_S = 2.0  # between two reads for unknown keys
_UNKNOWN_S = 30.0  # between two reads for the same unknown key
_MAX_UNKNOWN = 1024
_TTL_S = 300.0
_LONGEST_ROLE_US = 12 * 3600 * 1_000_000  # the longest session of a role
_SETTLED_S = 1.0  # a file that changed within this time may be incomplete
_SETTLING_ATTEMPTS = 5
_MAX_FILE_BYTES = 1 << 20
_MIN_SECRET_CHARS = 8  # a writer that stalls within a key leaves a short one, which could be guessed

KeysByName = Mapping[str, Secret]


class KeySource(Protocol):
    """A source of secrets."""

    def is_stale(self) -> bool:
        """Return True if the source must be read again. This does not block."""

    def may_have_changed(self) -> bool:
        """Return False if the source is known to have the secrets that were read. This does not block."""

    def read(self) -> KeysByName:
        """Return the secrets by access key. This may block.

        Raises:
            BurstcacheError: The source is unreachable, or malformed.
        """


class KeyRing:
    """The secrets of all sources. A source that cannot be read keeps the secrets that it had."""

    def __init__(self, sources: Sequence[KeySource], clock: Clock) -> None:
        """Read all sources.

        Args:
            sources: The sources. The first one that has an access key counts.
            clock: Clock that ages are measured with, and that starts threads.

        Raises:
            BurstcacheError: A source cannot be read.
        """
        self._sources = sources
        self._clock = clock
        self._lock = Lock()
        self._read: list[KeysByName] = [source.read() for source in sources]
        self._secrets = self._merged()
        self._reading: Future[None] | None = None
        self._unknown: dict[str, float] = {}  # keys that sources were read for, and when
        self._refresh_at_s = clock.monotonic_s()  # of the next read for an unknown key, at the earliest
        self._check_at_s = self._refresh_at_s + _CHECK_S

    def find(self, access_key: str) -> Secret | None:
        """Return the secret of an access key from memory. Stale sources are read in the background.

        After a while without a look, stale secrets are unknown until the sources are read. A key may be long removed.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._check_at_s:
            was_idle = now_s >= self._check_at_s + _IDLE_S
            self._check_at_s = now_s + _CHECK_S
            if any(source.is_stale() for source in self._sources):
                if was_idle:
                    self._secrets = {}
                with self._lock:
                    self._start()
        return self._secrets.get(access_key)

    def refresh(self, access_key: str) -> Future[None]:
        """Read the sources in a thread, since an access key is unknown. Look it up again once the future is done.

        Strangers with unknown keys cause one read in two seconds, and requests with the same key one in thirty. Without
        a source that may have changed there is nothing to read.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._reading is None and (
                now_s < self._unknown.get(access_key, -_UNKNOWN_S) + _UNKNOWN_S
                or not any(source.may_have_changed() for source in self._sources)
            ):
                known: Future[None] = Future()
                known.set_result(None)
                return known
            if len(self._unknown) >= _MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown[access_key] = now_s
            if self._reading is not None:
                return self._reading
            delay_s = max(0.0, self._refresh_at_s - now_s)
            self._refresh_at_s = now_s + delay_s + _INTERVAL_S
            return self._start(delay_s)

    def _start(self, delay_s: float = 0.0) -> Future[None]:
        """Start to read the sources after a delay, or return the read in progress."""
        if self._reading is None:
            reading: Future[None] = Future()
            self._reading = reading
            self._clock.start(lambda: self._read_sources(reading, delay_s))
        return self._reading

    def _read_sources(self, reading: Future[None], delay_s: float) -> None:
        self._clock.sleep(delay_s)
        for number, source in enumerate(self._sources):
            try:
                self._read[number] = source.read()
            except Exception as error:  # whatever it is, the sources that can be read go on
                self._check_at_s = self._clock.monotonic_s() + _FAILED_S
                logger().warning("Access keys could not be read. The former ones stay.", reason=str(error))
        self._secrets = self._merged()
        with self._lock:
            self._reading = None
        reading.set_result(None)

    def _merged(self) -> dict[str, Secret]:
        merged: dict[str, Secret] = {}
        for secrets in reversed(self._read):
            merged.update(secrets)
        return merged


class _Age:
    """The age of what a source has read, for sources that do not tell of changes."""

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._read_at_s: float | None = None

    def is_over(self) -> bool:
        return self._read_at_s is None or self._clock.monotonic_s() >= self._read_at_s + self._ttl_s

    def restart(self) -> None:
        self._read_at_s = self._clock.monotonic_s()


class MachineKeys:
    """The machine's own credentials, where boto3 finds them: environment, files, the role of a container or instance.

    A client that started earlier signs with credentials that the machine has replaced since. They stay valid until they
    expire. Programs that assume a role by themselves have sessions of their own, which are not known here.
    """

    def __init__(self, clock: Clock, *, make_session: Callable[[], Session] = Session, ttl_s: float = _TTL_S) -> None:
        """Set the factory of sessions. Each read has a new session, since a session keeps its credentials."""
        self._clock = clock
        self._make_session = make_session
        self._age = _Age(clock, ttl_s)
        self._secrets: dict[str, Secret] = {}

    def is_stale(self) -> bool:
        """Return True if the credentials were read longer ago than the TTL."""
        return self._age.is_over()

    def may_have_changed(self) -> bool:
        """Return True: nothing tells of new credentials."""
        return True

    def read(self) -> KeysByName:
        """Return the current credentials and the former ones that have not expired."""
        now_us = self._clock.now_us()
        try:
            credentials = self._make_session().get_credentials()
            if credentials is None:
                raise InvalidSettingError(
                    "This machine has no AWS credentials to verify signatures with. Give a file of access keys."
                )
            frozen = credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise InvalidSettingError(f"This machine's AWS credentials cannot be read: {error}") from error
        name, secret_key, token = frozen.access_key, frozen.secret_key, frozen.token or None
        if not name or not secret_key:
            raise InvalidSettingError("This machine's AWS credentials have no access key or no secret key.")
        expiry = getattr(credentials, "_expiry_time", None)
        expires_us = round(expiry.timestamp() * 1e6) if isinstance(expiry, datetime) else None
        kept = {former: secret for former, secret in self._secrets.items() if (secret.expires_us or 0) > now_us}
        current = Secret(secret_key, token, expires_us)
        # A token whose end is unknown lasts no longer than this, once it is replaced.
        remembered = Secret(secret_key, token, now_us + _LONGEST_ROLE_US) if token and expires_us is None else current
        self._secrets = {**kept, name: remembered}
        self._age.restart()
        return {**kept, name: current}


class SecretsManagerKeys:
    """Access keys in Secrets Manager: a secret whose text is a JSON object of access keys and their secret keys."""

    def __init__(self, client: Any, secret_id: str, clock: Clock, *, ttl_s: float = _TTL_S) -> None:
        """Set the secret.

        Args:
            client: A client of Secrets Manager.
            secret_id: Name or ARN of the secret.
            clock: Clock for the TTL.
            ttl_s: Age after which the secret is read again, and a removed key is refused. A new key is known at once.
        """
        self._client = client
        self._secret_id = secret_id
        self._age = _Age(clock, ttl_s)

    def is_stale(self) -> bool:
        """Return True if the secret was read longer ago than the TTL."""
        return self._age.is_over()

    def may_have_changed(self) -> bool:
        """Return True: nothing tells of a new version."""
        return True

    def read(self) -> KeysByName:
        """Return the keys in the secret's current version."""
        where = f"the secret {self._secret_id}"
        response = call_aws(self._client.get_secret_value, SecretId=self._secret_id)
        try:
            keys = json.loads(response["SecretString"])
        except (KeyError, ValueError):
            keys = None
        if not isinstance(keys, dict) or not keys:
            raise InvalidSettingError(
                f"The text of {where} must be a JSON object of access keys and their secret keys."
            )
        secrets = {name: _checked(name, Secret(secret_key), where) for name, secret_key in keys.items()}
        self._age.restart()
        return secrets


class KeysFile:
    """A file of access keys: a line `ACCESS_KEY SECRET_KEY` for each, or the format of ~/.aws/credentials.

    Lines that begin with # are comments. A change is read within three seconds. A file is read when nobody has written
    it for a second, so that it is never read by half.
    """

    def __init__(self, path: str | Path, clock: Clock) -> None:
        """Set the file, which only its owner and group may access."""
        self._path = Path(path)
        self._clock = clock
        self._identity: tuple[int, ...] = ()

    def is_stale(self) -> bool:
        """Return True if the file has changed."""
        try:
            return _identity(os.stat(self._path)) != self._identity
        except OSError:
            return True

    def may_have_changed(self) -> bool:
        """Return True if the file has changed."""
        return self.is_stale()

    def read(self) -> KeysByName:
        """Return the keys of the file, once it is not being written."""
        for _ in range(_SETTLING_ATTEMPTS):
            before, text, after = self._read_text()
            age_s = self._clock.now_us() / 1e6 - after.st_mtime
            if _identity(before) == _identity(after) and not 0 <= age_s < _SETTLED_S:
                secrets = _parse_keys(text, str(self._path))
                self._identity = _identity(after)
                return secrets
            self._clock.sleep(_SETTLED_S)
        raise InvalidSettingError(f"{self._path} is being written all the time. Replace it by renaming another file.")

    def _read_text(self) -> tuple[os.stat_result, str, os.stat_result]:
        try:
            with self._path.open("rb") as file:
                before = os.fstat(file.fileno())
                _check_file(before, self._path)
                content = file.read(_MAX_FILE_BYTES + 1)
                after = os.fstat(file.fileno())
            if len(content) > _MAX_FILE_BYTES:
                raise InvalidSettingError(f"{self._path} is larger than {_MAX_FILE_BYTES >> 20} MiB.")
            return before, content.decode(), after
        except OSError as error:
            raise InvalidSettingError(f"{self._path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise InvalidSettingError(f"{self._path} is not UTF-8 text.") from None


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


def _check_file(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InvalidSettingError(f"{path} is not a regular file.")
    if os.name == "posix" and status.st_mode & stat.S_IRWXO:
        raise InvalidSettingError(f"{path} has secrets that every user may read. Run: chmod o= {path}")


def _parse_keys(text: str, where: str) -> dict[str, Secret]:
    """Parse a file of keys. No error shows a line, since it may have a secret."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith(("#", ";"))]
    pairs = _profiles(text, where) if lines and lines[0][1].startswith("[") else _lines(lines, where)
    secrets: dict[str, Secret] = {}
    for access_key, secret in pairs:
        if secrets.setdefault(access_key, secret) != secret:
            raise InvalidSettingError(f"{where} has two secret keys for {access_key}.")
    if not secrets:
        raise InvalidSettingError(f"{where} has no access keys. Write a line `ACCESS_KEY SECRET_KEY` for each.")
    return {name: _checked(name, secret, where) for name, secret in secrets.items()}


def _lines(lines: Sequence[tuple[int, str]], where: str) -> list[tuple[str, Secret]]:
    pairs = []
    for number, line in lines:
        fields = line.split()
        if len(fields) != 2:
            raise InvalidSettingError(f"{where}, line {number}: write `ACCESS_KEY SECRET_KEY`.")
        pairs.append((fields[0], Secret(fields[1])))
    return pairs


def _profiles(text: str, where: str) -> list[tuple[str, Secret]]:
    parser = configparser.RawConfigParser(default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        name = type(error).__name__
        raise InvalidSettingError(f"{where} does not have the format of ~/.aws/credentials ({name}).") from None
    pairs = []
    for profile in parser.sections():
        section = parser[profile]
        access_key, secret_key = section.get("aws_access_key_id"), section.get("aws_secret_access_key")
        if bool(access_key) != bool(secret_key):
            raise InvalidSettingError(f"{where}: the profile {profile} has half of a key.")
        if access_key and secret_key:
            pairs.append((access_key, Secret(secret_key, section.get("aws_session_token") or None)))
    return pairs


def _checked(name: str, secret: Secret, where: str) -> Secret:
    if not isinstance(secret.secret_key, str) or len(secret.secret_key) < _MIN_SECRET_CHARS:
        raise InvalidSettingError(
            f"{where}: the secret key of {name} must be a text of at least {_MIN_SECRET_CHARS} characters."
        )
    return secret
