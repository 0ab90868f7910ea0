"""Slice files: slices of object versions on local disk, shared by all processes of the machine, kept over restarts.

Each subdirectory has its share of `max_bytes`. A writer reserves its file's size in the subdirectory's counter, and
evicts the least recently used files if the share is used up. So there is neither an index nor a lock, and no state
between calls but what was verified: the format file, and the directories. All files take at most `max_bytes` of the
disk, plus one file for each write that is in progress while another process measures the same subdirectory. If
processes disagree, the largest `max_bytes` counts.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.slice_directory import (
    CREATE,
    DIRECTORY,
    MOST_DIRECTORIES,
    READ,
    SliceLayout,
    claim,
    open_root,
    reserve,
)
from burstcache.adapters.slice_header import (
    MAX_BODY_BYTES,
    DamagedSliceError,
    encode_header,
    header_bytes,
    read_begin,
    read_body,
    read_halves,
    read_part,
)
from burstcache.core.errors import InvalidSettingError
from burstcache.logs import logger

T = TypeVar("T")
_ReadFile = Callable[[int, int, str, int], T]  # of a descriptor, the file's size, the slice's name, and flags

_LEAST_SHARE_BYTES = 16 << 20  # nearly two of the largest files
_USUAL_SHARE_BYTES = 65 << 20  # 256 slices of 256 KiB with their headers
_SETTLED_NS = 3 * 10**9  # the next change has a later time then: file systems have a resolution of up to 2 s
_TOUCH_NS = 10 * 10**9  # a file read again within this time keeps its modification time
# A change of the modification time may wait for the file system's journal, so reads that must not wait leave it to
# others. They would rarely succeed if the time were as short.
_TOUCH_WAITING_NS = 60 * 10**9
_AT_ONCE = getattr(os, "RWF_NOWAIT", 0)
_RECENT_BITS = 16
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS)
_NAME = re.compile(r"[0-9a-f]{32}")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DAMAGED = (errno.ELOOP, errno.EIO)  # a symlink, or a bad sector


_State = tuple[int, int, int, int]  # of a directory: device, inode, and when its entries and itself changed [ns]


class _Verified(NamedTuple):
    """Directories of slices that are no symlinks as long as the root is in this state: it has their entries."""

    state: _State
    layout: SliceLayout
    directories: set[str]

    def directory_of(self, name: str) -> str | None:
        """Return the directory of a slice's name, or None if it is not verified."""
        directory = self.layout.directory_of(name)
        return directory if directory in self.directories else None


class _RecentNames:
    """Names of slices that this process has read or written, in a table of fixed size. Newer ones replace older ones.

    The system has the directory entry and the inode of such a file in memory, so that opening it does not wait.
    """

    def __init__(self) -> None:
        self._rest = array("Q", bytes(8 << _RECENT_BITS))  # 64 bits of a name, by the bits before

    def add(self, name: str) -> None:
        self._rest[int(name[:4], 16)] = int(name[4:20], 16)

    def __contains__(self, name: str) -> bool:
        return self._rest[int(name[:4], 16)] == int(name[4:20], 16)


class SliceFiles:
    """Slices of object versions in plain files. Threads, forks and processes may share a directory.

    A method that gets no help from the disk logs one warning per cause, and the caller reads S3. The next call tries
    again.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, *, clock: Clock | None = None) -> None:
        """Create the directory unless it exists. An older version's is emptied.

        Args:
            path: The directory. Others have no access to it (mode 0700).
            max_bytes: Bound of all files together [bytes], at least 16 MiB. The process that creates the directory
                thereby also decides into how many directories of at least 256 slices it is divided, at most 256.
            clock: Source of time.

        Raises:
            InvalidSettingError: The path is no directory, a symlink, of another user, read-only, has foreign files or a
                newer version's, or `max_bytes` is too small for it.
        """
        self._path = os.path.abspath(path)
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()
        self._warned: set[tuple[str, str]] = set()
        self._layout: SliceLayout | None = None
        self._verified: _Verified | None = None
        self._recent = _RecentNames()
        self._reads_at_once = bool(_AT_ONCE)  # until the file system says that it cannot
        least_bytes = _LEAST_SHARE_BYTES
        if max_bytes >= least_bytes:
            try:
                claim(self._path, self._directories)
                root, self._layout = open_root(self._path, None)
                os.close(root)
            except OSError as error:
                if error.errno not in _FULL:
                    raise InvalidSettingError(f"{self._path} cannot be used: {error.strerror or error}") from error
                self._warn("slices cannot be stored", error)
            else:
                least_bytes *= self._layout.directories
        if max_bytes < least_bytes:
            raise InvalidSettingError(f"{self._path}: max_bytes is {max_bytes}; accepted: at least {least_bytes}")

    def read(self, name: str) -> bytes | None:
        """Return the verified body of a slice. None: absent or damaged."""
        return self._read(name, read_body)

    def has(self, name: str) -> bool:
        """Return True if a slice is present. Its body is not verified."""
        return self._read(name, lambda *_: True) is True

    def read_halves(
        self, name: str, split: Callable[[bytes], int], *, waits: bool = True
    ) -> tuple[bytes, bytes] | None:
        """Return the verified body of a slice in two halves, which saves a copy of each. None: absent or damaged.

        Args:
            name: Name of the slice.
            split: Returns the length of the first half, from the first bytes of the body.
            waits: Whether to wait for the disk. If False, None also means that the page cache lacks the slice, that
                this process has not read it of late, or that it is longer than 128 KiB.
        """
        read = partial(read_halves, split=split)
        return self._read(name, read) if waits else self._read_at_once(name, read)

    def read_begin(self, name: str, split: Callable[[bytes], int]) -> bytes | None:
        """Return the verified first half of a slice's body, without a wait for the disk.

        Args:
            name: Name of the slice.
            split: As for `read_halves`.

        Returns:
            None: As for `read_halves`, but the slice may be longer. Or the half has more than 3 KB.
        """
        return self._read_at_once(name, partial(read_begin, split=split))

    def read_into(self, name: str, start: int, into: memoryview, *, prefix: bytes = b"", waits: bool = True) -> bool:
        """Fill `into` from `start` of the body. Only the blocks of 64 KiB that it touches are read and verified.

        Args:
            name: Name of the slice.
            start: Start of the part in the body [bytes].
            into: Destination, of the part's length.
            prefix: The bytes with which the body has to begin, of `read_begin`.
            waits: As for `read_halves`, but the slice may be longer.

        Returns:
            False if the slice is absent or damaged, begins with other bytes, or ends before the part. The content of
            `into` is undefined then.
        """
        read = partial(read_part, start=start, into=into.cast("B"), prefix=prefix)
        return bool(self._read(name, read) if waits else self._read_at_once(name, read))

    def write(self, name: str, body: bytes | memoryview, *, replaces: bool = False) -> bool:
        """Store a slice atomically, after evicting others if necessary.

        Args:
            name: Name of the slice.
            body: Its bytes.
            replaces: Whether the name may already have other bytes, which these replace.

        Returns:
            True if the slice is present. False if it is too large, or the disk is full or fails.
        """
        _check_name(name)
        content = memoryview(body).cast("B")
        if len(content) > MAX_BODY_BYTES:
            return False
        try:
            share, share_bytes = self._open_share(name, creates=True)
            try:
                return self._write_in(share, share_bytes, name, content, replaces=replaces)
            finally:
                os.close(share)
        except (OSError, InvalidSettingError) as error:
            self._warn("slices cannot be stored", error)
            return False

    def remove(self, name: str) -> None:
        """Remove a slice if it is present."""
        _check_name(name)
        try:
            share, _ = self._open_share(name)
            try:
                os.unlink(f"{name}.slice", dir_fd=share)
            finally:
                os.close(share)
        except FileNotFoundError:
            pass
        except (OSError, InvalidSettingError) as error:
            self._warn("slices cannot be removed", error)

    @property
    def _directories(self) -> int:
        """The number of directories of a new root: each has room for 256 slices of 256 KiB."""
        shares = max(1, self._max_bytes // _USUAL_SHARE_BYTES)
        return int(min(MOST_DIRECTORIES, 1 << (shares.bit_length() - 1)))

    def _open_share(self, name: str, *, creates: bool = False) -> tuple[int, int]:
        """Return a descriptor of a name's directory, and the directory's share [bytes]."""
        if creates and self._layout is None:  # the disk was full when this process began
            claim(self._path, self._directories)
        try:
            root, layout = open_root(self._path, self._layout)
        except FileNotFoundError:
            if not creates:
                raise
            claim(self._path, self._directories)
            root, layout = open_root(self._path, None)
        try:
            self._layout = layout
            directory = layout.directory_of(name)
            if creates:
                with suppress(FileExistsError):
                    os.mkdir(directory, 0o700, dir_fd=root)
            return os.open(directory, DIRECTORY, dir_fd=root), self._max_bytes // layout.directories
        finally:
            with suppress(OSError):  # would leak the other descriptor
                os.close(root)

    def _read(self, name: str, read: _ReadFile[T]) -> T | None:
        _check_name(name)
        if (verified := self._verified) is not None and (directory := verified.directory_of(name)):
            try:
                return self._read_verified(verified, directory, name, read)
            except (DamagedSliceError, OSError):  # which the other way says or mends
                self._verified = None
        try:
            state = self._state()
            share, _ = self._open_share(name)
            try:
                self._note_verified(state, name)
                return self._read_in(share, name, read)
            finally:
                os.close(share)
        except FileNotFoundError:
            return None
        except (OSError, InvalidSettingError) as error:
            self._warn("slices cannot be read", error)
            return None

    def _read_at_once(self, name: str, read: _ReadFile[T]) -> T | None:
        """Read a slice as `_read` does, if that needs no wait. Leave everything else to `_read`."""
        _check_name(name)
        if not (self._reads_at_once and name in self._recent):
            return None
        if (verified := self._verified) is None or (directory := verified.directory_of(name)) is None:
            return None
        try:
            return self._read_verified(verified, directory, name, read, _AT_ONCE)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                self._reads_at_once = False
        except DamagedSliceError:
            pass
        return None

    def _state(self) -> _State:
        status = os.stat(self._path, follow_symlinks=False)
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    def _note_verified(self, state: _State, name: str) -> None:
        """Note that a directory of slices is one, in the state of the root from before that was verified."""
        layout, latest_ns = self._layout, max(state[2:])
        if layout is None or not latest_ns < self._clock.now_us() * 1000 - _SETTLED_NS:
            return
        if (verified := self._verified) is None or (verified.state, verified.layout) != (state, layout):
            verified = self._verified = _Verified(state, layout, set())
        verified.directories.add(layout.directory_of(name))

    def _read_verified(
        self, verified: _Verified, directory: str, name: str, read: _ReadFile[T], flags: int = 0
    ) -> T | None:
        """Read a slice by its path, if no directory on the way has changed since it was verified.

        Raises:
            DamagedSliceError, OSError: The slice is damaged, or anything has changed or fails.
            BlockingIOError: With RWF_NOWAIT: the read would have to wait.
        """
        try:
            file = os.open(f"{self._path}/{directory}/{name}.slice", READ)
        except FileNotFoundError:
            if self._state() != verified.state:
                raise
            return None
        try:
            if self._state() != verified.state:
                raise DamagedSliceError("the directory has changed")
            return self._read_file(file, name, read, flags)
        finally:
            os.close(file)

    def _read_file(self, file: int, name: str, read: _ReadFile[T], flags: int = 0) -> T:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise DamagedSliceError("the file is another's")
        untouched_ns = abs(self._clock.now_us() * 1000 - status.st_mtime_ns)
        if flags and untouched_ns > _TOUCH_WAITING_NS:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        found = read(file, status.st_size, name, flags)
        if not flags:
            self._recent.add(name)
            if untouched_ns > _TOUCH_NS:
                with suppress(OSError):
                    os.utime(file)
        return found

    def _read_in(self, share: int, name: str, read: _ReadFile[T]) -> T | None:
        try:
            file = os.open(f"{name}.slice", READ, dir_fd=share)
            try:
                return self._read_file(file, name, read)
            finally:
                os.close(file)
        except (DamagedSliceError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _DAMAGED:
                raise
            self._warn("a damaged slice is removed", error)
            os.unlink(f"{name}.slice", dir_fd=share)
            return None

    def _write_in(self, share: int, share_bytes: int, name: str, body: memoryview, *, replaces: bool) -> bool:
        size_bytes = header_bytes(len(body)) + len(body)
        if size_bytes > share_bytes:
            return False
        if not replaces and _is_present(share, f"{name}.slice", size_bytes):
            return True
        part = f"{name}.{os.urandom(8).hex()}.part"
        file, is_stored = os.open(part, CREATE, 0o600, dir_fd=share), False
        try:
            try:
                os.ftruncate(file, size_bytes)  # a measurement counts the whole file from now on
                if not reserve(share, share_bytes, size_bytes, os.fstat(file).st_mtime_ns):
                    return False
                _write_all(file, encode_header(name, body))
                _write_all(file, body)
            finally:
                os.close(file)
            os.rename(part, f"{name}.slice", src_dir_fd=share, dst_dir_fd=share)
            self._recent.add(name)
            is_stored = True
        finally:
            if not is_stored:
                with suppress(OSError):
                    os.unlink(part, dir_fd=share)
        return is_stored

    def _warn(self, what: str, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if (what, reason) not in self._warned:
            self._warned.add((what, reason))
            logger().warning(what, reason=f"{self._path}: {reason}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r}; accepted: 32 hexadecimal digits in lower case")


def _is_present(share: int, file: str, size_bytes: int) -> bool:
    try:
        status = os.stat(file, dir_fd=share, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size_bytes


def _write_all(file: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
