"""boto3's client of S3 with the cache in front of it: `s3 = burstcache.wrap(boto3.client("s3"))`, and all else stays.

botocore prepares every call as ever: it checks and serializes the parameters and runs the handlers of events that the
program has registered. Only where it would send a GET or HEAD of an object in the cached bucket, the cache is asked
first, and botocore parses the cache's answer as it would S3's: results, bodies and exceptions are botocore's own. What
the cache cannot answer exactly goes to S3: a version or part, other response headers, checksums that the caller asks
for, keys of encryption, a failed precondition, an impossible range.

Two internal methods of botocore's `BaseClient` are overridden. botocore has events at both places, but handlers of them
would change the client that was wrapped as well. `tests/contract` holds a wrapped client to what boto3 does.
"""

from __future__ import annotations

import base64
import copy
import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from http.client import IncompleteRead
from typing import TYPE_CHECKING, Any, TypeVar

import urllib3
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from botocore.endpoint import convert_to_response_dict
from botocore.parsers import ResponseParserFactory
from botocore.response import StreamingBody
from botocore.utils import parse_timestamp
from cachetools import TTLCache
from urllib3.exceptions import ProtocolError

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.single_flight import PATIENT_NEXT_AFTER_S, Flight, SingleFlight
from burstcache.client.client import Client, check_arguments
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError, InvalidSettingError, RefusedRequestError
from burstcache.core.keys import key_hash
from burstcache.forks import Lock
from burstcache.serve.memory_tier import Ticket
from burstcache.serve.reader import Miss, question
from burstcache.web.entry import Entry, entry_from_s3
from burstcache.web.headers import is_identified, object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response

if TYPE_CHECKING:
    from botocore.model import OperationModel

S3 = TypeVar("S3", bound=BaseClient)

_Answer = tuple[AWSResponse, dict[str, Any]]  # of S3's or the cache's, and what botocore makes of it
_Send = Callable[[], _Answer]

_READS = ("GetObject", "HeadObject")
_EXACT = (200, 206, 304)  # in other answers S3 has more to say
# Headers of a request that the cache answers: those that it follows, and those that change no answer.
_UNDERSTOOD = frozenset({"range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})
_WITHOUT_EFFECT = frozenset({"user-agent", "x-amzn-trace-id", "traceparent", "tracestate", "baggage"})
_CHECKSUM_MODE = "x-amz-checksum-mode"
# What the context of a call carries from its parameters to its request.
_PARAMETERS, _WANTS_CHECKSUM = "burstcache-parameters", "burstcache-wants-checksum"
_WRITTEN_FOR_S = 60.0  # normally S3's event of a write has reached every copy within a second
_MAX_WRITTEN = 65_536
_SHARED_BYTES = 8 << 20  # a body that is read at once for callers that wait for it
_CHUNK_BYTES = 1 << 20

_parsers = ResponseParserFactory()
_parsers.set_parser_defaults(timestamp_parser=lru_cache(4096)(parse_timestamp))  # otherwise most of the time
_parser = _parsers.create_parser("rest-xml")


def wrap(s3_client: S3, *, client: Client | None = None, **configuration: Any) -> S3:
    """Return a client of S3 that reads the objects of one bucket through the cache, and does all else as the given one.

    Args:
        s3_client: boto3's client of S3. It stays as it is; both share its connections and events.
        client: Reads the cache, and stays open. None: one is made, and is closed with the wrapped client.
        configuration: Arguments of `Client` to make one; without them it is made from the environment.

    Raises:
        InvalidSettingError: This is no client of S3, or `Client` does not accept the configuration.
    """
    if not isinstance(s3_client, BaseClient) or s3_client.meta.service_model.service_name != "s3":
        raise InvalidSettingError(
            f"{s3_client!r} cannot be wrapped; accepted: boto3.client('s3'), and of a resource its meta.client"
        )
    if inspect.iscoroutinefunction(getattr(s3_client, "_make_api_call", None)):
        raise InvalidSettingError(
            f"{s3_client!r} is asynchronous and cannot be wrapped; accepted: boto3.client('s3'). In asyncio,"
            " burstcache.client.AsyncClient reads through the cache"
        )
    check_arguments("wrap()", configuration)
    if "s3" in configuration:
        raise InvalidSettingError("s3 is given already: the client that is wrapped reads S3")
    if client is not None and not isinstance(client, Client):
        raise InvalidSettingError(f"client={client!r}; accepted: a burstcache.client.Client")
    if client is not None and configuration:
        raise InvalidSettingError(f"client and {', '.join(configuration)} exclude each other; accepted: one of them")
    s3: Any = s3_client
    bucket = _CachedBucket(client or Client(s3=s3, **configuration), is_own=client is None)
    former: dict[str, _CachedBucket] = s3_client.__dict__.get("_burstcache", {})
    given_class = type(s3_client)
    bases = (given_class,) if issubclass(given_class, _CachedClient) else (_CachedClient, given_class)
    wrapped: Any = object.__new__(type(given_class.__name__, bases, {}))
    wrapped.__dict__.update(s3_client.__dict__)
    wrapped._burstcache = {**former, bucket.name: bucket}
    wrapped._burstcache_wrapped = s3_client  # botocore's handlers refer to it weakly
    return wrapped  # type: ignore[no-any-return]


class _CachedBucket:
    """One bucket as wrapped calls use it: what the cache has of it, and what this process writes to it."""

    def __init__(self, client: Client, *, is_own: bool) -> None:
        self.name = client.bucket_name
        self._client = client
        self._is_own = is_own
        self._lock = Lock()
        self._written: TTLCache[str, None] = TTLCache(_MAX_WRITTEN, _WRITTEN_FOR_S)
        self._flights: SingleFlight[_SharedAnswer | None, Ticket] = SingleFlight(
            SystemClock(), lambda: client.reader.own.ticket(), next_after_s=PATIENT_NEXT_AFTER_S
        )

    def request(self, method: str, key: str, headers: Mapping[str, str]) -> Request | None:
        """Return the read that S3 would be asked for; None if S3 alone can answer it."""
        lower = {name.lower(): value for name, value in headers.items()}
        conditions = {name: value for name, value in lower.items() if name.startswith("if-")}
        try:
            request = self._client.requests.read(method, key, conditions, range=lower.get("range"))
        except RefusedRequestError:  # S3 has its own way with it
            return None
        return None if self._is_written(request.hash) else request

    def large(self, request: Request) -> tuple[Response, io.RawIOBase] | None:
        """Return the answer to a GET of what is known to be a large object, and its body; None if there is none."""
        head = self._client.reader.head(request) if request.method == "GET" else None
        return self._stream(request, head) if head is not None else None

    def taken_over(self, request: Request, miss: Miss, answer: _Answer) -> tuple[Response, io.RawIOBase] | None:
        """Return what answers in the place of S3 that has begun to send a large object; None if nothing does."""
        http, parsed = answer
        if http.status_code not in (200, 206) or not is_identified(http.headers):
            return None
        head = self._client.reader.own.note_head(request, http.headers, miss.ticket)
        if head is None or http.status_code != 200:
            return None
        if (taken_over := self._stream(request, head)) is not None:
            parsed["Body"].close()
        return taken_over

    def lookup(self, request: Request) -> Response | Miss:
        """Return the cache's answer, or what `load` needs if S3 has to give it."""
        found = self._client.reader.lookup(request)
        return self._client.reader.miss() if isinstance(found, Response) and found.status not in _EXACT else found

    def read(self, request: Request, miss: Miss, send: _Send) -> _Answer:
        """Return S3's answer to a GET or HEAD, or that which an equal call of another thread has got.

        A body of a GET that nobody else waits for is streamed; one for which others wait is read at once, if it is
        small. All see S3's own answer.
        """
        key, own = question(request), list[_Answer]()

        def lead(flight: Flight[_SharedAnswer | None, Ticket]) -> _SharedAnswer | None:
            ticket = flight.ticket or miss.ticket  # the read may have begun some time after the miss
            answer = self._load(request, replace(miss, ticket=ticket), send)
            own.append(answer)
            return None if self._flights.leave(key, flight) else _shared_answer(*answer)

        def alone() -> None:
            own.append(self._load(request, miss, send))

        may_follow = self._client.reader.own.fresh_tickets(request.hash)
        answer, ticket = self._flights.fly(key, lead, alone, may_follow=may_follow)
        if own:
            return own[0]
        if answer is None or ticket is None:  # too large to be shared
            return self._load(request, self._client.reader.miss(), send)
        self._report(request, answer.http)
        return answer.http, answer.parsed()

    def _load(self, request: Request, miss: Miss, send: _Send) -> _Answer:
        """Return S3's answer, and keep the object of a GET if it is small and the caller reads it to its end."""
        reader = self._client.reader
        http, parsed = send()
        headers = http.headers
        # No older copy is answered after it.
        reader.own.note_answer(request, http.status_code, headers, miss.ticket)
        self._report(request, http)
        is_kept = request.method == "GET" and http.status_code == 200 and is_identified(headers)
        if is_kept and reader.keeps(parsed["ContentLength"], miss):
            body = parsed["Body"]
            is_as_sent = _checked(body)

            def keep(read: bytes) -> None:
                if not self._is_written(request.hash) and is_as_sent(read):
                    reader.keep(request, entry_from_s3(headers, read), miss)

            body._raw_stream = _ReadToTheEnd(body._raw_stream, parsed["ContentLength"], keep)
        return http, parsed

    def _report(self, request: Request, http: AWSResponse) -> None:
        if request.method == "GET" and http.status_code in _EXACT:
            size_bytes = 0 if http.status_code == 304 else object_size_bytes(http.headers)
            self._client.reader.report(request, etag=http.headers.get("etag", ""), size_bytes=size_bytes)

    def write(self, keys: Iterable[str], send: _Send) -> _Answer:
        """Return S3's answer to a write. However it ends, reads of these keys go to S3 until its events are through."""
        hashes = [key_hash(key) for key in keys]
        self._note_written(hashes)
        try:
            return send()
        finally:
            self._note_written(hashes)

    def close(self) -> None:
        """Close the client of the cache, if it was made for this bucket."""
        if self._is_own:
            self._client.close()

    def _stream(self, request: Request, head: Entry) -> tuple[Response, io.RawIOBase] | None:
        response, file = self._client.large.stream(request, head)
        file.client = self._client
        return (response, _Body(file)) if response.status in _EXACT else None

    def _note_written(self, hashes: Iterable[str]) -> None:
        with self._lock:
            self._written.update(dict.fromkeys(hashes))
        for hash_ in hashes:
            self._client.reader.forget(hash_)

    def _is_written(self, hash_: str) -> bool:
        with self._lock:
            return hash_ in self._written


class _CachedClient(BaseClient):
    """Comes before the class of the client that is wrapped."""

    _burstcache: dict[str, _CachedBucket]  # by the bucket's name

    def close(self) -> None:
        """Close all connections, which are those of the client that was wrapped, too."""
        for bucket in self._burstcache.values():
            bucket.close()
        super().close()

    def _emit_api_params(self, api_params: dict[str, Any], operation_model: OperationModel, context: Any) -> Any:
        context[_WANTS_CHECKSUM] = "ChecksumMode" in api_params  # botocore is about to make it the default
        context[_PARAMETERS] = super()._emit_api_params(api_params, operation_model, context)  # type: ignore[misc]
        return context[_PARAMETERS]

    def _make_request(self, operation_model: OperationModel, request_dict: dict[str, Any], request_context: Any) -> Any:
        send = partial(super()._make_request, operation_model, request_dict, request_context)  # type: ignore[misc]
        parameters = request_context[_PARAMETERS]
        bucket = self._burstcache.get(parameters.get("Bucket"))
        if bucket is None:
            return send()
        if request_dict["method"] not in ("GET", "HEAD"):
            return bucket.write(_keys(parameters), send)
        if operation_model.name not in _READS or _has_parameters_of_s3(request_dict, request_context[_WANTS_CHECKSUM]):
            return send()
        request = bucket.request(request_dict["method"], parameters["Key"], request_dict["headers"])
        if request is None:
            return send()
        parsed = partial(self._parsed, operation_model, request_dict["url"], request)
        if (large := bucket.large(request)) is not None:
            return parsed(*large)
        found = bucket.lookup(request)
        if isinstance(found, Response):
            return parsed(found)
        answer = bucket.read(request, found, send)
        if request.method == "GET" and (large := bucket.taken_over(request, found, answer)) is not None:
            return parsed(*large)
        return answer

    def _parsed(
        self, model: OperationModel, url: str, request: Request, response: Response, body: io.RawIOBase | None = None
    ) -> _Answer:
        """Return the cache's answer as botocore's endpoint returns S3's, with a body that is read as it is used."""
        headers: Any = {"x-amz-request-id": request.request_id, **response.headers}
        raw = _raw(body or _InMemory(response.body), headers, response.status, request.method)
        http = AWSResponse(url, response.status, headers, raw)
        answer = convert_to_response_dict(http, model)
        # botocore's own mapping makes an object for each of 60 look-ups and raises for most: 30 of 240 us.
        answer["headers"] = raw.headers
        customized: dict[str, Any] = {}
        self.meta.events.emit(
            f"before-parse.s3.{model.name}",
            operation_model=model,
            response_dict=answer,
            customized_response_dict=customized,
        )
        parsed = _parser.parse(answer, model.output_shape) | customized  # type: ignore[arg-type]
        parsed["ResponseMetadata"]["RetryAttempts"] = 0
        return http, parsed


@dataclass(frozen=True, slots=True)
class _SharedAnswer:
    """S3's whole answer, of which each caller gets results and a body of its own."""

    http: AWSResponse
    results: Mapping[str, Any]  # without the body
    body: bytes | None

    def parsed(self) -> dict[str, Any]:
        """Return what botocore makes of it."""
        parsed: dict[str, Any] = copy.deepcopy(dict(self.results))
        if self.body is not None:
            raw: Any = _raw(_InMemory(self.body), self.http.headers, self.http.status_code, "GET")
            parsed["Body"] = StreamingBody(raw, len(self.body))
        return parsed


def _shared_answer(http: AWSResponse, parsed: dict[str, Any]) -> _SharedAnswer | None:
    """Return an answer for all that wait for it, and leave a body to be read to its first caller.

    None: it has a body that is large or of unknown length, breaks off, or has another checksum than S3 sent.
    """
    results = {name: value for name, value in parsed.items() if name != "Body"}
    body: Any = parsed.get("Body")
    if body is None:
        return _SharedAnswer(http, results, None)
    length_bytes = parsed.get("ContentLength")
    if length_bytes is None or length_bytes > _SHARED_BYTES:
        return None
    is_as_sent, stream = _checked(body), body._raw_stream
    replay = _Replayed(stream, length_bytes)
    body._raw_stream = _raw(replay, http.headers, http.status_code, "GET")
    is_whole = replay.error is None and len(replay.getbuffer()) == length_bytes
    return _SharedAnswer(http, results, replay.getvalue()) if is_whole and is_as_sent(replay.getvalue()) else None


def _raw(body: Any, headers: Any, status: int, method: str) -> urllib3.HTTPResponse:
    """Return a response as botocore's own bodies read from it."""
    return urllib3.HTTPResponse(
        body,
        headers,
        status,
        preload_content=False,
        decode_content=False,
        request_method=method,
        enforce_content_length=False,  # botocore looks at the length itself
    )


class _NoSocket:
    """Takes a time-out where botocore looks for the socket of a body: what is in memory never waits."""

    def __init__(self) -> None:
        self.raw = self._sock = self

    def settimeout(self, timeout: float | None) -> None:
        """Do nothing."""


class _InMemory(io.BytesIO):
    """A body that is here already."""

    fp = _NoSocket()


class _Replayed(_InMemory):
    """A body that has been read from a stream; a read behind what came raises what the stream did."""

    def __init__(self, stream: Any, length_bytes: int) -> None:
        super().__init__()
        self.error: Exception | None = None
        self._length_bytes = length_bytes
        try:
            while chunk := stream.read(_CHUNK_BYTES):
                self.write(chunk)
        except Exception as error:
            self.error = error
        self.seek(0)

    def read(self, size: int | None = -1) -> bytes:
        """Read as the stream would have."""
        data = super().read(size)
        missing = self._length_bytes - self.getbuffer().nbytes
        if missing > 0 and self.error is None and (size is None or size < 0):
            raise IncompleteRead(data, missing)
        if self.error is not None and (size is None or size < 0 or (size and not data)):
            raise self.error
        return data

    def readinto(self, buffer: Any) -> int:
        """Read as the stream would have."""
        size_bytes = super().readinto(buffer)
        if self.error is not None and len(buffer) and not size_bytes:
            raise self.error
        return size_bytes


class _Body(io.RawIOBase):
    """A large object's body, as botocore reads one; what fails is an error that it knows."""

    fp = _NoSocket()

    def __init__(self, file: ObjectFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _as_urllib3_error():
            return self._file.readinto(buffer)

    def readall(self) -> bytes:
        with _as_urllib3_error():
            return self._file.read()

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def _as_urllib3_error() -> Iterator[None]:
    try:
        yield
    except BurstcacheError as error:
        raise ProtocolError(str(error)) from error


class _ReadToTheEnd:
    """S3's body on its way to the caller; `finished` gets it whole when its last byte has been read.

    Only `read` and `readinto` are followed, which is what botocore's `StreamingBody` uses for all but lines.
    """

    def __init__(self, stream: Any, length_bytes: int, finished: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._left_bytes = length_bytes
        self._finished: Callable[[bytes], None] | None = finished
        self._chunks: list[bytes] = []

    def read(self, *arguments: Any, **named: Any) -> bytes:
        """Read as the stream does."""
        chunk: bytes = self._stream.read(*arguments, **named)
        self._follow(chunk)
        return chunk

    def readinto(self, buffer: Any) -> int:
        """Read as the stream does."""
        size_bytes: int = self._stream.readinto(buffer)
        self._follow(bytes(memoryview(buffer)[:size_bytes]))
        return size_bytes

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _follow(self, chunk: bytes) -> None:
        if self._finished is None:
            return
        self._chunks.append(chunk)
        self._left_bytes -= len(chunk)
        if self._left_bytes == 0:
            finished, self._finished = self._finished, None
            finished(b"".join(self._chunks))


def _checked(body: Any) -> Callable[[bytes], bool]:
    """Return what shows whether bytes have the checksum that S3 sent with a body, if any; it does not keep the body.

    botocore itself looks when it has passed all on.
    """
    if (expected := getattr(body, "_expected", None)) is None:  # of a StreamingChecksumBody alone
        return lambda read: True
    checksum = getattr(body, "checksum", None) or getattr(body, "_checksum", None)  # private before botocore 1.41
    if checksum is None:  # what cannot be checked is not kept
        return lambda read: False
    make, digest = type(checksum), base64.b64decode(expected)

    def has_it(read: bytes) -> bool:
        checksum = make()
        checksum.update(read)
        return bool(checksum.digest() == digest)

    return has_it


def _has_parameters_of_s3(request: Mapping[str, Any], wants_checksum: bool) -> bool:
    """Whether a GET or HEAD asks for more than HTTP's own parameters, or a handler has added a header."""
    names = {name.lower() for name in request["headers"]} - _WITHOUT_EFFECT
    if not wants_checksum:
        names.discard(_CHECKSUM_MODE)
    return bool(request["query_string"]) or not names <= _UNDERSTOOD


def _keys(parameters: Mapping[str, Any]) -> list[str]:
    """Return the keys of the objects that a call may change."""
    objects = parameters.get("Delete", {}).get("Objects", [])
    return [each["Key"] for each in (parameters, *objects) if "Key" in each]
