"""What a reader's own process keeps: small objects, what S3 said of large ones, and which keys it has no object for.

Nothing is served from it that may be older than the bound, nor an older version than the one that was answered last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.adapters.digest_reader import DigestReader, Start
from burstcache.adapters.single_flight import NEXT_AFTER_S, SingleFlight, never
from burstcache.core.errors import (
    ObjectNotFoundError,
    ObjectTooLargeError,
    OriginError,
    OriginUnavailableError,
    UnidentifiedObjectError,
)
from burstcache.logs import logger
from burstcache.serve.answered import ABSENT, Answered
from burstcache.serve.memory_tier import Absences, Heads, Kept, Memory, Ticket
from burstcache.serve.tier import RETRY_WITHIN_S, Origin
from burstcache.web.entry import Entry, head_from_s3
from burstcache.web.freshness import max_age_s
from burstcache.web.request import Request
from burstcache.web.response import Response, no_such_key, object_response, origin_unavailable

MAX_STALE_S = 2.0
STRONG_S, IMMUTABLE_S = 0.0, math.inf  # as `max_stale_s`: S3 confirms each read; nothing ever asks

Hit = Callable[[Request, Entry], None]

_SENT = (200, 206)
_REFUSED = (412, 416)
_NOT_FOUND = 404
_MOST_ADOPTING = 8  # at a time: hits of many keys at once must not become as many threads and HEADs


@dataclass(frozen=True, slots=True)
class _Confirmation:
    """What S3 says of a copy: the entry as it is now, and whether that is the copy; or that S3 cannot be asked."""

    entry: Entry | None
    is_hit: bool = False
    error: OriginError | None = None  # why there is no entry


class OwnCopies:
    """Answers from what this process keeps, and keeps what it reads. Threads may share it.

    It serves what is known to be at most `max_stale_s` old: because the digest that is known now is not older and has
    no change of it, or because it was loaded or confirmed so lately. Otherwise S3 confirms it by its ETag.
    """

    def __init__(
        self,
        digest: DigestReader | None,
        origin: Origin,
        clock: Clock,
        *,
        memory: Memory | None,
        heads: Heads | None,
        max_stale_s: float,
        start: Start,
        hit: Hit,
        next_after_s: float = NEXT_AFTER_S,
    ) -> None:
        """Keep nothing yet.

        Args:
            digest: What is known of the stack; None: there is no stack.
            origin: S3.
            clock: What is kept ages by.
            memory: Keeps small objects; None: none are.
            heads: Keeps what S3 says of objects that the caller reads in parts; None: of none.
            max_stale_s: As for `Reader` [s].
            start: Runs work while the read goes on.
            hit: Gets each read that memory has answered with an object, and the object.
            next_after_s: How long a question to S3 waits for an equal one that is under way [s].
        """
        self._origin = origin
        self._clock = clock
        self._memory = memory
        self._heads = heads
        self._absences = Absences() if memory is not None and max_stale_s > STRONG_S else None
        self._answered = Answered(clock)
        self._max_stale_s = max_stale_s
        self._start = start
        self._hit = hit
        self._breakers = Breakers(clock)
        self._adopting: set[str] = set()
        self._confirmations: SingleFlight[_Confirmation | None, Ticket] = SingleFlight(
            clock, self.ticket, next_after_s=next_after_s
        )
        self._heads_asked: SingleFlight[Entry | None, Ticket] = SingleFlight(
            clock, self.ticket, next_after_s=next_after_s
        )
        # The digest that says what may be served; None: what has been confirmed lately may be.
        vouched_for = [each for each in (memory, heads, self._absences) if each is not None]
        self._guard = digest if vouched_for and STRONG_S < max_stale_s < IMMUTABLE_S else None
        if self._guard is not None:
            for each in vouched_for:
                self._guard.follow(each.follow)

    def ticket(self) -> Ticket:
        """Return what is known now, before something is loaded."""
        return Ticket(0 if self._guard is None else self._guard.sequence, instant(self._clock))

    def answer(self, request: Request) -> Response | None:
        """Return the answer if the object, or its absence, is kept here; S3 may have to confirm it."""
        if self._memory is None:
            return None
        is_current = self._guard is not None and self._guard.is_within(self._max_stale_s)
        return self._from_memory(self._memory, request, is_current, may_ask=True)

    def recall(self, request: Request) -> Response | None:
        """Return the answer if it is kept here and may be given now; never waits, for an event loop's sake."""
        if self._memory is None or max_age_s(request.headers) is not None:
            return None
        is_current = self._guard is not None and self._guard.is_known_within(self._max_stale_s)
        return self._from_memory(self._memory, request, is_current, may_ask=False)

    def found(self, request: Request, entry: Entry, ticket: Ticket) -> Response:
        """Return and count the answer that memory gives with an object."""
        self._hit(request, entry)
        response = object_response(request, entry.meta, entry.body)
        return response.served_by("memory", is_hit=True, bound_ms=self.bound_ms(ticket))

    def count_hit(self, request: Request, entry: Entry) -> None:
        """Count a read that memory has answered to another caller as well."""
        self._hit(request, entry)

    def bound_ms(self, ticket: Ticket) -> int:
        """Return how long ago a change may have been announced that is not known of what has this ticket [ms]."""
        if self._max_stale_s == IMMUTABLE_S:
            return 0
        age_s = seconds_since(self._clock, ticket.at)
        return round(1000 * (age_s if self._guard is None else min(age_s, self._guard.age_s)))

    def fresh_tickets(self, hash_: str) -> Callable[[Ticket], bool]:
        """Return what says of a ticket whether memory could serve now what was loaded of a key with it; never waits."""
        memory = self._memory
        if memory is None or self._max_stale_s == STRONG_S:
            return never
        is_current = self._guard is not None and self._guard.is_known_within(self._max_stale_s)

        def is_fresh(ticket: Ticket) -> bool:
            return (is_current or self._is_young(ticket)) and not memory.may_have_changed(hash_, ticket)

        return is_fresh

    def may_follow(self, request: Request, response: Response) -> bool:
        """Whether a copy's answer is given; what a copy refuses S3 decides, which may have a newer version by now."""
        if response.status in _REFUSED:
            return False
        version = _version(response.status, response.headers)
        return version is None or self._answered.may_follow(request.hash, version)

    def note_answer(self, request: Request, status: int, headers: Mapping[str, str], ticket: Ticket) -> None:
        """Note which version S3 has answered: no older copy is answered after it.

        Args:
            request: The read.
            status: S3's.
            headers: S3's, names in lower case.
            ticket: Taken before S3 was asked.
        """
        if (version := _version(status, headers)) is not None:
            self._answered.note(request.hash, version, ticket.at)

    def takes(self, size_bytes: int) -> bool:
        """Whether memory takes an object of that size."""
        return self._memory is not None and self._memory.takes(size_bytes)

    def keep(self, request: Request, entry: Entry, ticket: Ticket) -> None:
        """Keep a whole object in memory, if it is small, and that there is one; `ticket` was taken before its load."""
        if self._memory is not None:
            self._memory.put(request.hash, entry, ticket)
        if self._absences is not None:
            self._absences.drop(request.hash)

    def note_absence(self, request: Request, ticket: Ticket) -> None:
        """Remember that S3 has no such object; `ticket` was taken before S3 was asked."""
        if self._absences is not None:
            self._absences.note(request.hash, ticket)

    def adopt(self, request: Request, entry: Entry) -> None:
        """Keep a tier's copy, in the background.

        A tier may still be replacing its copy when the digest already has the change, so S3 has to confirm it first.
        """
        if self._memory is None or request.method == "HEAD" or not self._memory.takes(entry.size_bytes):
            return
        if self._max_stale_s == IMMUTABLE_S:
            self._memory.put(request.hash, entry, self.ticket())
        elif (
            len(self._adopting) < _MOST_ADOPTING  # a later hit tries again
            and request.hash not in self._adopting
            and not self._breakers.is_open((request.hash, entry.etag))
        ):
            self._adopting.add(request.hash)
            self._start(partial(self._adopt_confirmed, self._memory, request, entry))

    def forget(self, hash_: str) -> None:
        """Forget what is kept of a key, because the caller has changed the object."""
        for each in (self._memory, self._heads, self._absences):
            if each is not None:
                each.forget(hash_, instant(self._clock))

    def head(self, request: Request) -> Entry | None:
        """Return what is known of an object that is read in parts, as fresh as `max_stale_s` asks, without its body.

        What is remembered refuses no read: S3 decides, which may have a newer version by now. None: it is not known to
        be one.
        """
        if self._heads is None:
            return None
        is_current = self._guard is not None and self._guard.is_within(self._max_stale_s)
        kept = self._heads.get(request.hash)  # after the digest, whose changes drop entries
        if kept is None:
            return None
        limit_s = max_age_s(request.headers)
        is_fresh = is_current or self._is_young(kept.ticket)
        is_fresh = is_fresh and (limit_s is None or seconds_since(self._clock, kept.ticket.at) < limit_s)
        is_final = self._max_stale_s == IMMUTABLE_S or not _refuses(kept.entry, request)
        return kept.entry if is_fresh and is_final else self._asked_head(self._heads, request)

    def head_bound_ms(self, request: Request) -> int:
        """Return how long ago a change may have been announced that `head` does not know of [ms]."""
        kept = None if self._heads is None else self._heads.get(request.hash)
        return 0 if kept is None else self.bound_ms(kept.ticket)

    def note_head(self, request: Request, headers: Mapping[str, str], ticket: Ticket) -> Entry | None:
        """Remember what S3 said of an object if it is read in parts, and return it then.

        Args:
            request: The read.
            headers: S3's, names in lower case, of an answer with the object or a part of it.
            ticket: Taken before S3 was asked.
        """
        if self._heads is None:
            return None
        entry = head_from_s3(headers).confirmed(request.at_us)
        if not self._heads.takes(entry.size_bytes):
            self._heads.drop(request.hash)
            return None
        self._heads.put(request.hash, entry, ticket)
        return entry

    def _from_memory(self, memory: Memory, request: Request, is_current: bool, *, may_ask: bool) -> Response | None:
        kept = memory.get(request.hash)  # after the digest, whose changes drop entries
        if kept is None:
            response = self._absence(request)
        elif is_current or self._is_young(kept.ticket):
            response = self.found(request, kept.entry, kept.ticket)
        else:
            response = self._confirmed(memory, request, kept) if may_ask else None
        return response if response is not None and self.may_follow(request, response) else None

    def _is_young(self, ticket: Ticket) -> bool:
        if self._max_stale_s in (STRONG_S, IMMUTABLE_S):
            return self._max_stale_s == IMMUTABLE_S
        return seconds_since(self._clock, ticket.at) <= self._max_stale_s

    def _absence(self, request: Request) -> Response | None:
        """Return what S3 said a moment ago, if it was that it has no such object."""
        ticket = None if self._absences is None else self._absences.ticket(request.hash)
        asked_s = max_age_s(request.headers)
        limit_s = min(self._max_stale_s, MAX_STALE_S, MAX_STALE_S if asked_s is None else asked_s)
        if ticket is None or (age_s := seconds_since(self._clock, ticket.at)) > limit_s:
            return None
        bound_ms = self.bound_ms(ticket)
        return no_such_key(request).served_by("memory", is_hit=True, bound_ms=bound_ms, age_s=int(age_s))

    def _confirmed(self, memory: Memory, request: Request, kept: Kept) -> Response | None:
        """Return the answer that S3 confirms by the entry's ETag, or gives anew; None if a plain read has to ask it.

        Reads of all kinds that wait for the confirmation of one entry share it: each makes its own answer of the entry.
        """
        found, shared = self._confirmations.run(
            (request.hash, kept.entry.etag, kept.entry.last_modified),
            partial(self._confirm, memory, request, kept),
            may_follow=self.fresh_tickets(request.hash),
        )
        if found is None:
            return None
        if found.entry is None:
            return replace(origin_unavailable(request.method), cause=found.error).served_by("s3", is_hit=False)
        entry = found.entry
        if shared is not None and request.method == "GET":
            self._origin.report(request, etag=entry.etag, size_bytes=0 if found.is_hit else entry.size_bytes)
        response = object_response(request, entry.meta, entry.body)
        bound_ms = 0 if shared is None or self._max_stale_s == STRONG_S else self.bound_ms(shared)
        return response.served_by("memory" if found.is_hit else "s3", is_hit=found.is_hit, bound_ms=bound_ms)

    def _confirm(self, memory: Memory, request: Request, kept: Kept) -> _Confirmation | None:
        """Ask S3 whether an entry is current, and keep what it is now; None if a plain read has to ask."""
        ticket = self.ticket()
        try:
            newer = self._origin.confirm(request, kept.entry)
        except OriginError as error:
            if isinstance(error, (ObjectNotFoundError, ObjectTooLargeError, UnidentifiedObjectError)):
                memory.drop(request.hash)
            is_late = seconds_since(self._clock, ticket.at) > RETRY_WITHIN_S
            if not (is_late and isinstance(error, OriginUnavailableError)):
                return None
            logger().error("S3 did not answer", reason=str(error), tier="s3", key=request.key, key_hash=request.hash)
            return _Confirmation(None, error=error)
        entry = newer or kept.entry.confirmed(request.at_us)
        self._answered.note(request.hash, entry.etag, ticket.at)
        memory.put(request.hash, entry, ticket)
        return _Confirmation(entry, is_hit=newer is None)

    def _adopt_confirmed(self, memory: Memory, request: Request, entry: Entry) -> None:
        try:
            ticket = self.ticket()
            is_kept = self._origin.has(request.key, entry) and memory.put(request.hash, entry, ticket)
            if is_kept:
                self._breakers.succeed((request.hash, entry.etag))
            else:
                self._breakers.fail((request.hash, entry.etag))
        except OriginError:
            self._breakers.fail((request.hash, entry.etag))
        finally:
            self._adopting.discard(request.hash)

    def _asked_head(self, heads: Heads, request: Request) -> Entry | None:
        ask = partial(self._ask_head, heads, request)
        head, _ = self._heads_asked.run(request.hash, ask, may_follow=self._follows_heads(heads, request))
        return head

    def _follows_heads(self, heads: Heads, request: Request) -> Callable[[Ticket], bool]:
        """Return what says of a ticket whether a HEAD that began with it is fresh enough for a read."""
        limit_s = max_age_s(request.headers)

        def is_fresh(ticket: Ticket) -> bool:
            is_young = limit_s is None or seconds_since(self._clock, ticket.at) < limit_s
            return is_young and self._is_young(ticket) and not heads.may_have_changed(request.hash, ticket)

        return is_fresh

    def _ask_head(self, heads: Heads, request: Request) -> Entry | None:
        ticket = self.ticket()
        response = self._origin.read(replace(request, method="HEAD", headers={}, range=None))
        if response.status in _SENT and response.is_keepable:
            return self.note_head(request, response.headers, ticket)
        if response.status == _NOT_FOUND:
            heads.drop(request.hash)
        return None


def _refuses(entry: Entry, request: Request) -> bool:
    """Whether the answer to a read of this version is that a condition or the range rules it out."""
    return object_response(request, entry.meta, b"").status in _REFUSED


def _version(status: int, headers: Mapping[str, str]) -> str | None:
    """Return which version of an object an answer is of; None: it does not say."""
    return ABSENT if status == _NOT_FOUND else headers.get("etag")
