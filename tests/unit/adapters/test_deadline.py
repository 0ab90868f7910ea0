"""A deadline for a whole operation, and what moves it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from burstcache.adapters.deadline import LEAST_BYTES_PER_S, Deadline, TimedSocket
from support.clock import ManualClock


class _Link:
    """A socket over which as many bytes come, and go, as its bandwidth lets pass."""

    def __init__(self, clock: ManualClock, *, bytes_per_s: float, piece_bytes: int = 32_768) -> None:
        self._clock, self._bytes_per_s, self._piece_bytes = clock, bytes_per_s, piece_bytes
        self._timeout_s: float | None = None
        self.sent = 0

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def recv(self, size_bytes: int) -> bytes:
        return b"x" * self._pass(size_bytes)

    def recv_into(self, buffer: memoryview) -> int:
        return self._pass(len(buffer))

    def send(self, data: memoryview) -> int:
        self.sent += (count := self._pass(len(data)))
        return count

    def _pass(self, size_bytes: int) -> int:
        count = min(size_bytes, self._piece_bytes)
        took_s = count / self._bytes_per_s
        if self._timeout_s is not None and took_s > self._timeout_s:
            self._clock.now_s += self._timeout_s
            raise TimeoutError
        self._clock.now_s += took_s
        return count


def _receive(sock: TimedSocket, size_bytes: int) -> None:
    while size_bytes:
        size_bytes -= len(sock.recv(size_bytes))


def _timed(clock: ManualClock, **link: Any) -> tuple[TimedSocket, Deadline]:
    deadline = Deadline(clock)
    return TimedSocket(_Link(clock, **link), deadline), deadline  # type: ignore[arg-type]


def test_a_trickle_ends_at_the_deadline_although_each_piece_comes_in_time() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=200, piece_bytes=20)

    with deadline.within(0.25, most_s=1.0), pytest.raises(TimeoutError):
        _receive(sock, 2_000)

    assert clock.now_s == pytest.approx(0.25, abs=1e-3)


def test_a_large_answer_over_a_slow_link_has_its_time() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=2 * LEAST_BYTES_PER_S)

    with deadline.within(0.25, most_s=1.0):
        _receive(sock, 4_000_000)

    assert clock.now_s == pytest.approx(0.5)


def test_no_bandwidth_moves_a_deadline_beyond_its_latest() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=100 * LEAST_BYTES_PER_S)

    with deadline.within(0.25, most_s=1.0), pytest.raises(TimeoutError):
        _receive(sock, 10**10)

    assert clock.now_s == pytest.approx(1.0, abs=1e-3)


def test_a_peer_that_reads_slowly_is_left_at_the_deadline() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=200, piece_bytes=20)

    with deadline.within(0.25), pytest.raises(TimeoutError):
        sock.sendall(b"x" * 2_000)

    assert clock.now_s == pytest.approx(0.25)


def test_everything_is_sent_over_a_link_that_takes_it_in_parts() -> None:
    clock = ManualClock()
    link = _Link(clock, bytes_per_s=10**9, piece_bytes=7)

    TimedSocket(link, Deadline(clock)).sendall(b"x" * 100)  # type: ignore[arg-type]

    assert link.sent == 100


def test_outside_of_an_operation_the_time_out_of_the_socket_counts() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=10)

    sock.settimeout(0.5)

    assert deadline.remaining_s() == math.inf
    with pytest.raises(TimeoutError):
        sock.recv(100)
    assert clock.now_s == 0.5


def test_a_deadline_that_has_passed_begins_no_read() -> None:
    clock = ManualClock()
    sock, deadline = _timed(clock, bytes_per_s=10**9)

    with deadline.within(0.25):
        clock.now_s = 0.25
        with pytest.raises(TimeoutError, match="deadline has passed"):
            sock.recv_into(memoryview(bytearray(1)))
