"""The writer, which handles PUT and DELETE of objects, and returns an upload URL for larger objects on POST."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.warm_up import warm_up
from burstcache.core.errors import BurstcacheError, RefusedRequestError
from burstcache.core.keys import key_hash
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.metrics import FAILED_WRITES, put
from burstcache.serve.writer import Writer
from burstcache.settings.writer import WriterSettings
from burstcache.traces import annotate, mark_failed, traces_requests
from burstcache.web.front_door import answer, arrival, body_in
from burstcache.web.prefixes import parse_patterns
from burstcache.web.response import Response, error_response, upload, written
from burstcache.web.writing import Write, failed_write, read_write, sent_headers

_UPLOAD_VALID_S = 300  # long enough to paste the URL; a leaked URL soon expires


@dataclass(frozen=True, slots=True)
class FrontWriter:
    """An adapter from the front door's events to a writer."""

    writer: Writer
    prefixes: Sequence[str] = ()

    def handle(self, event: dict[str, Any]) -> dict[str, Any]:
        """Answer one request, always with a well-formed response, never with an exception."""
        try:
            return answer(event, self._respond(event))
        except RefusedRequestError as refusal:
            return answer(event, error_response(refusal.status, refusal.code, refusal.message, headers=refusal.headers))
        except Exception:
            logger().exception("the writer failed")
            _failed()
            message = "the writer failed, and S3 may have the object or not; its log has the reason. Try again"
            return answer(event, error_response(503, "WriterFailed", message))

    def _respond(self, event: dict[str, Any]) -> Response:
        arrived = arrival(event)
        write = read_write(arrived, body_in(event), prefixes=self.prefixes)
        annotate(key_hash=key_hash(write.key))
        try:
            return self._written(write)
        except BurstcacheError as error:
            response = failed_write(error, key=write.key)
            if response.status >= 500:
                logger().error("a write failed", reason=str(error), key=write.key, key_hash=key_hash(write.key))
                _failed()
            return response

    def _written(self, write: Write) -> Response:
        match write.method:
            case "PUT":
                done = self.writer.put(write.key, write.body, **write.headers)
            case "DELETE":
                done = self.writer.delete(write.key, if_match=write.headers.get("if_match", ""))
            case _:
                url = self.writer.upload_url(write.key, valid_s=_UPLOAD_VALID_S, **write.headers)
                return upload(url, sent_headers(write.headers), valid_s=_UPLOAD_VALID_S)
        return written(etag=done.etag, version_id=done.version_id)


def _failed() -> None:
    put((FAILED_WRITES, 1))
    mark_failed()


def _forget(hash_: str) -> None:
    """Do nothing, because the writer's environment never reads, and so caches no objects."""


def make_front_writer(settings: WriterSettings, clients: Clients) -> FrontWriter:
    """Build a stack's writer."""
    drop_copies = invoke_by_name(clients.functions, settings.origin_function_name)
    store = ObjectStore(settings.bucket_name, clients.s3)
    writer = Writer(store, settings.origin_prefix, drop_copies, _forget)
    return FrontWriter(writer, parse_patterns(settings.prefixes))


@at_init
def _front_writer() -> FrontWriter:
    settings, clients = WriterSettings.read(os.environ), Clients("write")
    warm_up(clients.s3.put_object, Bucket=settings.bucket_name, Key="key", Body=b"")
    warm_up(clients.functions.invoke, FunctionName=settings.origin_function_name)
    return make_front_writer(settings, clients)


@traces_requests
@logs_requests
@answers_self_test("writer")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request from the front door, always with a well-formed response, never with an exception."""
    return _front_writer().handle(event)
