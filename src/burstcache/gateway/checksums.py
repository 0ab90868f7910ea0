"""Checksums of whole objects, as S3 sends them: a body that contradicts them is not cached."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping

Checksum = Callable[[bytes], bytes]


def available_checksums() -> dict[str, Checksum]:
    """Return the checksums that are computed quickly here, by S3's names.

    CRC32C and CRC64NVME need AWS's Common Runtime (`pip install "boto3[crt]"`), which botocore uses, too.
    """
    checksums: dict[str, Checksum] = {
        "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
        "sha1": lambda body: hashlib.sha1(body).digest(),
        "sha256": lambda body: hashlib.sha256(body).digest(),
    }
    try:
        from awscrt import checksums as runtime
    except ImportError:
        return checksums
    checksums["crc32c"] = lambda body: runtime.crc32c(body).to_bytes(4, "big")
    if hasattr(runtime, "crc64nvme"):  # since 0.23
        checksums["crc64nvme"] = lambda body: runtime.crc64nvme(body).to_bytes(8, "big")
    return checksums


_AVAILABLE = available_checksums()


def is_intact(headers: Mapping[str, str], body: bytes, checksums: Mapping[str, Checksum] = _AVAILABLE) -> bool:
    """Return False if a checksum that S3 sent with a whole object does not match its body.

    A checksum that is not available here is not compared. Nor is a composite one, which is of an upload's parts and
    ends with their number.

    Args:
        headers: S3's headers, with names in lower case.
        body: The whole body.
        checksums: The available checksums by name.
    """
    for name, compute in checksums.items():
        expected = headers.get(f"x-amz-checksum-{name}", "")
        if expected and "-" not in expected:
            return b64encode(compute(body)).decode() == expected
    return True
