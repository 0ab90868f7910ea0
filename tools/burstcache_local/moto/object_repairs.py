"""Patches that repair object reads and writes in moto's S3."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any

from burstcache_local.moto.registry import repair

_MOST_KEY_BYTES = 1_024
_MOST_METADATA_BYTES = 2_048
_METADATA = "x-amz-meta-"
_RANGE = re.compile("bytes=[0-9]*-[0-9]*", re.IGNORECASE)


@repair
def objects_are_no_forms() -> None:
    """Store objects with a form's content type, curl's default. moto parses the form and stores nothing."""
    from moto.s3.responses import S3Response
    from werkzeug.datastructures import ImmutableMultiDict

    set_up = S3Response.setup_class

    def setup_class(self: S3Response, request: Any, *args: Any, **more: Any) -> None:
        if request.method == "PUT":
            request.get_data(cache=True)
            vars(request).update(form=ImmutableMultiDict(), files=ImmutableMultiDict())
        set_up(self, request, *args, **more)

    S3Response.setup_class = setup_class


@repair
def replaced_objects_stay_readable() -> None:
    """Keep replaced objects readable. moto closes an object's file when the key is overwritten.

    moto does so even during a read or write of the object. With this patch, the file closes with its last reference.
    """
    from moto.s3.models import FakeKey

    close = FakeKey.dispose

    def dispose(self: FakeKey, garbage: bool = False) -> None:
        if garbage:
            close(self, garbage)
        self.disposed = True

    FakeKey.dispose = dispose


@repair
def etags_are_of_whole_objects() -> None:
    """Compute an object's ETag while nobody else reads its file. moto takes no lock.

    A concurrent read moves the position in the file, so the ETag could be that of an empty object, and several objects
    could have it.
    """
    from moto.s3.models import FakeKey

    compute: Any = FakeKey.etag.fget

    def etag(self: FakeKey) -> str:
        with self.lock:
            return str(compute(self))

    FakeKey.etag = property(etag)


@repair
def bodies_are_what_their_digest_says() -> None:
    """Verify Content-MD5, as S3 does to reject bodies corrupted in transit. moto ignores the header."""
    from moto.s3.exceptions import S3ClientError
    from moto.s3.responses import S3Response

    def checked(name: str) -> None:
        answer = getattr(S3Response, name)

        def check(self: S3Response, *arguments: Any, **more: Any) -> Any:
            header = self.headers.get("Content-MD5")
            if header is not None and "aws-chunked" not in self.headers.get("Content-Encoding", ""):
                if (digest := _digest(header)) is None:
                    raise S3ClientError("InvalidDigest", "The Content-MD5 you specified was invalid.")
                if digest != hashlib.md5(self.body, usedforsecurity=False).digest():
                    raise S3ClientError("BadDigest", "The Content-MD5 you specified did not match what we received.")
            return answer(self, *arguments, **more)

        setattr(S3Response, name, check)

    for name in ("put_object", "upload_part", "_bucket_response_delete_keys"):
        checked(name)


@repair
def deletions_are_xml() -> None:
    """Reject malformed XML in DeleteObjects, such as a control character in a key. moto responds with a 500."""
    from xml.parsers.expat import ExpatError

    from moto.s3.exceptions import MalformedXML
    from moto.s3.responses import S3Response

    delete = S3Response._bucket_response_delete_keys

    def delete_keys(self: S3Response, *arguments: Any, **more: Any) -> Any:
        try:
            return delete(self, *arguments, **more)
        except ExpatError:
            raise MalformedXML from None

    S3Response._bucket_response_delete_keys = delete_keys


@repair
def metadata_has_a_limit() -> None:
    """Limit user metadata to 2 KB of names and values, as S3 does. moto accepts any amount."""
    from moto.s3 import responses
    from moto.s3.exceptions import S3ClientError

    read = responses.metadata_from_headers

    def metadata_from_headers(headers: Any) -> Any:
        metadata = read(headers)
        users = {name: str(value) for name, value in metadata.items() if name.lower().startswith(_METADATA)}
        size_bytes = sum(len(name.encode()) - len(_METADATA) + len(value.encode()) for name, value in users.items())
        if size_bytes > _MOST_METADATA_BYTES:
            raise S3ClientError("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size")
        return metadata

    responses.metadata_from_headers = metadata_from_headers


@repair
def keys_have_a_limit() -> None:
    """Limit keys to 1,024 bytes, as S3 does. moto accepts any length."""
    from moto.s3.exceptions import S3ClientError
    from moto.s3.responses import S3Response

    parse = S3Response.parse_key_name

    def parse_key_name(self: S3Response, *arguments: Any, **more: Any) -> str:
        key: str = parse(self, *arguments, **more)
        if len(key.encode(errors="surrogateescape")) > _MOST_KEY_BYTES:
            raise S3ClientError("KeyTooLongError", "Your key is too long")
        return key

    S3Response.parse_key_name = parse_key_name


@repair
def keys_may_have_line_breaks() -> None:
    """Accept keys with line breaks. moto's routes match keys with `.`, which excludes line breaks."""
    from moto.moto_server.utilities import RegexConverter

    make = RegexConverter.__init__

    def init(self: RegexConverter, url_map: Any, *items: Any) -> None:
        make(self, url_map, f"(?s:{items[0]})", *items[1:])

    RegexConverter.__init__ = init


@repair
def unchanged_objects_say_when_they_changed() -> None:
    """Keep Last-Modified in a 304, as S3 does.

    moto's server removes the header, so that a cache has to read the whole object again.
    """
    from werkzeug.wrappers import response

    module: Any = response  # this module imports the function by name
    remove = module.remove_entity_headers

    def remove_entity_headers(headers: Any) -> None:
        remove(headers, allowed=("expires", "content-location", "last-modified"))

    module.remove_entity_headers = remove_entity_headers


@repair
def malformed_ranges_are_ignored() -> None:
    """Ignore malformed ranges and send the whole object, as S3 does.

    moto raises an exception for a range without `=`, and treats every unit as bytes.
    """
    from moto.s3.responses import S3Response

    cut = S3Response._handle_range_header

    def handle_range_header(self: S3Response, request: Any, headers: dict[str, Any], content: Any) -> Any:
        if not _RANGE.fullmatch(request.headers["range"]):
            return 200, headers, content
        return cut(self, request, headers, content)

    S3Response._handle_range_header = handle_range_header


def _digest(text: str) -> bytes | None:
    """Return the digest in a Content-MD5 header, or None if the header is malformed."""
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest if len(digest) == hashlib.md5(usedforsecurity=False).digest_size else None
