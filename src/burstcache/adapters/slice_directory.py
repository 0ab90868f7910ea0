"""The directory of slice files: its format, its owner, and the share of `max_bytes` of each subdirectory.

    PATH/format                   version, number of subdirectories
    PATH/00 … PATH/ff             subdirectories by the name's first digits, created at the first write
    PATH/00/<name>.slice          header, body
    PATH/00/<name>.<hex>.part     a file that is being written
    PATH/00/blocks                its length is the estimated size of the subdirectory, in blocks of 4 KiB

Processes agree by atomic steps of the file system alone: link, rename, append.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from burstcache.adapters.slice_header import VERSION
from burstcache.core.errors import InvalidSettingError
from burstcache.logs import logger

MOST_DIRECTORIES = 256
# Windows lacks some of these. `claim` rejects it.
_IS_SAFE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_HAS_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
READ = os.O_RDONLY | _SAFE  # does not wait for the writer of a FIFO
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
DIRECTORY = READ | getattr(os, "O_DIRECTORY", 0)
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFE

_FORMAT = "format"
_FORMAT_TEXT = re.compile(rb"burstcache slices ([1-9]\d{0,8})\n(?:(\d{1,3}) directories\n)?.*", re.DOTALL)
_FORMAT_BYTES = 4096
_FORMAT_PART = re.compile(r"format\.[0-9a-f]{16}\.part")
_DIRECTORY_NAME = re.compile(r"[0-9a-f]{2}")
_FILE_NAME = re.compile(r"[0-9a-f]{32}(?:\.slice|(\.[0-9a-f]{16}\.part))")  # group 1: a file that is being written
_COUNTER = "blocks"

_DISK_BLOCK_BYTES = 4096
_STEPS = 16  # a share is measured this often until it is used up. An eviction makes that part of room
_LEFTOVER_NS = 60 * 10**9  # an older unfinished file has lost its writer


class SliceLayout(NamedTuple):
    """A verified format file: its identity and the number of directories."""

    identity: tuple[int, int, int]
    directories: int

    def directory_of(self, name: str) -> str:
        """Return the directory of a slice's name."""
        return f"{int(name[:2], 16) * self.directories >> 8:02x}"


def claim(path: str, directories: int) -> None:
    """Create the directory unless it exists, and empty one of an older version.

    Raises:
        InvalidSettingError: The directory is not ours, or of a newer version.
        OSError: The directory cannot be created, opened or written.
    """
    if not _IS_SAFE:
        raise InvalidSettingError(f"{path}: slices in files need a POSIX system")
    if os.path.lexists(path) and not stat.S_ISDIR(mode := os.lstat(path).st_mode):
        kind = "a symlink" if stat.S_ISLNK(mode) else "not a directory"
        raise InvalidSettingError(f"{path} is {kind}; accepted: a directory")
    os.makedirs(path, 0o700, exist_ok=True)
    root = os.open(path, DIRECTORY)
    try:
        _check_owner(root, path)
        found = _read_format(root, path)
        if found is None and (foreign := _foreign_names(root)):
            found = _read_format(root, path)  # perhaps another process has just begun to use it
            if found is None:
                raise InvalidSettingError(f"{path} has a foreign file, {foreign[0]!r}; accepted: an empty directory")
        if found is None:
            _write_format(root, directories, replaces=False)
        elif found[1] < VERSION:
            _empty(root)
            _write_format(root, directories, replaces=True)
            logger().warning("emptied the slices of an older version", reason=f"{path} has version {found[1]}")
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=root, effective_ids=_HAS_EFFECTIVE_IDS):
            raise InvalidSettingError(f"{path} is not writable; accepted: a directory that this user may write")
    finally:
        os.close(root)


def open_root(path: str, known: SliceLayout | None) -> tuple[int, SliceLayout]:
    """Open the directory and verify it, unless its format file is the known one.

    Returns:
        A descriptor, which the caller closes, and the layout.

    Raises:
        FileNotFoundError: There is no directory or no format file.
        InvalidSettingError: The directory is not ours, or of another version.
    """
    root = os.open(path, DIRECTORY)
    try:
        if known is not None:
            format_ = os.stat(_FORMAT, dir_fd=root, follow_symlinks=False)
            if (format_.st_dev, format_.st_ino, format_.st_ctime_ns) == known.identity:
                return root, known
        _check_owner(root, path)
        if (found := _read_format(root, path)) is None:
            raise FileNotFoundError(f"{path} has no format file")
        identity, version, directories = found
        accepted = {1 << power for power in range(MOST_DIRECTORIES.bit_length())}
        if version != VERSION or directories not in accepted:
            raise InvalidSettingError(
                f"{path} has slices of version {version} in {directories} directories; accepted: version {VERSION} in "
                "a power of two up to 256. Name another directory, or remove this one"
            )
        if stat.S_IMODE(os.fstat(root).st_mode) & 0o077:
            os.fchmod(root, 0o700)
        return root, SliceLayout(identity, directories)
    except BaseException:
        os.close(root)
        raise


def reserve(share: int, share_bytes: int, size_bytes: int, now_ns: int) -> bool:
    """Count a new file in its subdirectory. Measure the subdirectory at times, and evict if its share is used up.

    Appends are atomic, so each step of the counter is passed by one writer, however many there are. A measurement
    corrects what the counter missed: removed files, and files of writers that were killed.

    Args:
        share: Descriptor of the subdirectory, which already has the new file, at its full length.
        share_bytes: Share of the subdirectory [bytes].
        size_bytes: Size of the new file [bytes].
        now_ns: Current time by the file system's clock, that of the new file [ns].

    Returns:
        False if the file has no room.
    """
    share_blocks, blocks = share_bytes // _DISK_BLOCK_BYTES, _disk_blocks(size_bytes)
    counter = os.open(_COUNTER, _APPEND, 0o600, dir_fd=share)
    try:
        os.write(counter, bytes(blocks))
        counted = os.lseek(counter, 0, os.SEEK_CUR)
        step = max(1, share_blocks // _STEPS)
        if counted <= share_blocks and counted // step == (counted - blocks) // step:
            return True
        before = os.fstat(counter).st_size
        used = _evict(share, share_blocks, share_blocks - step, now_ns)
        meanwhile = max(0, os.fstat(counter).st_size - before)
        os.ftruncate(counter, used + meanwhile)
        return used <= share_blocks
    finally:
        os.close(counter)


def used_bytes(path: str) -> int:
    """Return the estimated size of all files in a directory of slices [bytes], 0 if it cannot be read."""
    blocks = 0
    for number in range(MOST_DIRECTORIES):
        with suppress(OSError):  # nothing has been written there yet
            blocks += os.lstat(os.path.join(path, f"{number:02x}", _COUNTER)).st_size
    return _DISK_BLOCK_BYTES * blocks


def _evict(share: int, most_blocks: int, wanted_blocks: int, now_ns: int) -> int:
    """Measure a subdirectory. Above its share, remove the least recently used files. Return the blocks in use."""
    slices: list[tuple[int, str, int]] = []  # modified at, name, blocks
    used = 0
    with os.scandir(share) as entries:
        for entry in entries:
            if not (match := _FILE_NAME.fullmatch(entry.name)):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed by another process
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            blocks, modified_ns = _disk_blocks(status.st_size), status.st_mtime_ns
            if not match[1]:
                is_from_future = modified_ns > now_ns + _LEFTOVER_NS  # the clock was wrong
                slices.append((0 if is_from_future else modified_ns, entry.name, blocks))
            elif abs(now_ns - modified_ns) > _LEFTOVER_NS:
                _unlink(share, entry.name)
                continue
            used += blocks
    if used > most_blocks:
        for _, file, blocks in sorted(slices):
            if used <= wanted_blocks:
                break
            _unlink(share, file)
            used -= blocks
    return used


def _check_owner(root: int, path: str) -> None:
    if (owner := os.fstat(root).st_uid) != os.geteuid():
        raise InvalidSettingError(f"{path} belongs to user {owner}; accepted: a directory of user {os.geteuid()}")


def _read_format(root: int, path: str) -> tuple[tuple[int, int, int], int, int] | None:
    """Return identity, version and number of directories (0: unknown). None: there is no format file."""
    try:
        file = os.open(_FORMAT, READ, dir_fd=root)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(file)
        text = os.read(file, _FORMAT_BYTES) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(file)
    if not (match := _FORMAT_TEXT.fullmatch(text)):
        raise InvalidSettingError(f"{path} has a foreign file, {_FORMAT!r}; accepted: an empty directory")
    return (status.st_dev, status.st_ino, status.st_ctime_ns), int(match[1]), int(match[2] or 0)


def _write_format(root: int, directories: int, *, replaces: bool) -> None:
    part = f"{_FORMAT}.{os.urandom(8).hex()}.part"
    file = os.open(part, CREATE, 0o600, dir_fd=root)
    try:
        try:
            os.write(file, b"burstcache slices %d\n%d directories\n" % (VERSION, directories))
            os.fsync(file)  # after a power cut an empty one would make the directory foreign
        finally:
            os.close(file)
        if replaces:
            os.rename(part, _FORMAT, src_dir_fd=root, dst_dir_fd=root)
        else:
            with suppress(FileExistsError):  # another process was first
                os.link(part, _FORMAT, src_dir_fd=root, dst_dir_fd=root, follow_symlinks=False)
    finally:
        with suppress(OSError):
            os.unlink(part, dir_fd=root)


def _foreign_names(root: int) -> list[str]:
    return sorted(name for name in os.listdir(root) if name != _FORMAT and not _FORMAT_PART.fullmatch(name))


def _empty(root: int) -> None:
    """Remove our files and directories. Keep all others."""
    for name in filter(_DIRECTORY_NAME.fullmatch, os.listdir(root)):
        with suppress(OSError):
            directory = os.open(name, DIRECTORY, dir_fd=root)
            try:
                for file in os.listdir(directory):
                    if file == _COUNTER or _FILE_NAME.fullmatch(file):
                        with suppress(OSError):
                            os.unlink(file, dir_fd=directory)
            finally:
                os.close(directory)
            os.rmdir(name, dir_fd=root)


def _disk_blocks(size_bytes: int) -> int:
    return -(-size_bytes // _DISK_BLOCK_BYTES)


def _unlink(share: int, file: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(file, dir_fd=share)
