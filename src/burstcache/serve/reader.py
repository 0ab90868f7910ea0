"""One read: memory, the tier that the digest names, the key's home node, S3 Express, S3. The cache never breaks it."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.adapters.digest_reader import DigestReader, Start, in_thread
from burstcache.core.digest import Route
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, OriginError
from burstcache.logs import logger
from burstcache.serve.answered import ABSENT, Answered
from burstcache.serve.memory_tier import Absences, Heads, Kept, Memory, Ticket
from burstcache.serve.shared_reads import SharedRead, SharedReads
from burstcache.serve.tally import Served, Tally
from burstcache.serve.tier import FAILURES_OF_ONE_KEY, Fill, Origin, Tier
from burstcache.web.entry import Entry, entry_from_s3, head_from_s3
from burstcache.web.freshness import max_age_s
from burstcache.web.request import Request
from burstcache.web.response import Response, no_such_key, object_response

MAX_STALE_S = 2.0
STRONG_S, IMMUTABLE_S = 0.0, math.inf  # as `max_stale_s`: S3 confirms each read; nothing ever asks
EXPRESS = Route("express")

FellBack = Callable[[Exception | None], None]

_SENT = (200, 206)
_REFUSED = (412, 416)
_ASKING = {"cache-control", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"}
_NOT_FOUND = 404
_MOST_ADOPTING = 8  # at a time: hits of many keys at once must not become as many threads and HEADs


def ignored(error: Exception | None) -> None:
    """Do nothing about a tier that failed."""


def unheeded(_: float) -> None:
    """Do nothing about how long S3 took."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A read that S3 has to answer: what was known before it, and the tiers that take the object."""

    ticket: Ticket
    fills: tuple[tuple[Route, Fill], ...] = ()


class Reader:
    """Asks the tiers. A tier is made at its first use and left alone for a while after a failure.

    Memory serves what is known to be at most `max_stale_s` old: because the digest that is known now is not older and
    has no change of it, or because it was loaded or confirmed so lately. Otherwise S3 confirms it by its ETag.
    """

    def __init__(
        self,
        digest: DigestReader | None,
        origin: Origin,
        make_tier: Callable[[Route], Tier],
        clock: Clock,
        *,
        memory: Memory | None = None,
        heads: Heads | None = None,
        has_express: bool = False,
        tells_memory: bool = True,
        max_stale_s: float = MAX_STALE_S,
        start: Start = in_thread,
        fell_back: FellBack = ignored,
        s3_took: Callable[[float], None] = unheeded,
        prefix: str = "",
    ) -> None:
        """Remember the parts.

        Args:
            digest: What is known of the stack; None: there is no stack, and no tier but memory and S3.
            origin: S3.
            make_tier: Makes the tier that a route leads to.
            clock: What tiers are left alone by, and what is remembered ages by.
            memory: Keeps small objects in this process; None: none are.
            heads: Keeps what S3 says of objects that the caller reads in parts; None: of none.
            has_express: Whether `make_tier` makes one for `EXPRESS`, which is asked before S3.
            tells_memory: Whether memory's hits count for the lives of keys. Where nodes take guests they do not: Redis
                would not have got them.
            max_stale_s: How old an answer may be, the delivery of S3's event apart [s]. 0: S3 confirms every read, and
                no tier is asked; infinite: objects never change.
            start: Runs work while the read goes on.
            fell_back: Gets the error of each tier that fails, and None for one that is left alone because it has.
            s3_took: Gets how long S3 took to answer each read [s].
            prefix: Of the keys that may be read; no tier is asked for another one, which is as if it did not exist.
        """
        self._digest = digest
        self._origin = origin
        self._make_tier = make_tier
        self._tiers: dict[Route, Tier] = {}
        self._clock = clock
        self._breakers = Breakers(clock)
        self._memory = memory
        self._heads = heads
        self._absences = Absences() if memory is not None and max_stale_s > STRONG_S else None
        self._shared = SharedReads()
        self._answered = Answered(clock)
        self._max_stale_s = max_stale_s
        self._start = start
        self._fell_back = fell_back
        self._s3_took = s3_took
        self._prefix = prefix
        self._adopting: set[str] = set()
        self._has_express = has_express
        self._tells_memory = tells_memory
        self._tally = Tally(clock) if digest is not None and (memory is not None or has_express) else None
        self._telling = threading.Lock()
        # The digest that says what memory may serve; None: what has been confirmed lately may be served.
        vouched_for = [each for each in (memory, heads, self._absences) if each is not None]
        self._guard = digest if vouched_for and STRONG_S < max_stale_s < IMMUTABLE_S else None
        if self._guard is not None:
            for each in vouched_for:
                self._guard.follow(each.follow)

    def look_ahead(self) -> None:
        """Do before the first request what it would wait for: read the digest, and make the tiers that serve now.

        What fails is left to the requests that need it.
        """
        if self._digest is None or self._max_stale_s == STRONG_S:
            return
        self._digest.is_within(self._max_stale_s)
        for route in self._digest.places():
            with suppress(Exception):
                self._tier(route)

    def read(self, request: Request) -> Response:
        """Return the answer to a GET or HEAD, not older than its `Cache-Control` asks."""
        limit_s = max_age_s(request.headers)
        if limit_s is None or not request.key.startswith(self._prefix):
            return self._read(request)
        if limit_s and int((response := self._read(request)).headers.get("age", 0)) <= limit_s:
            return response
        return self._loaded(request, self.miss())

    def _read(self, request: Request) -> Response:
        if (response := self._at_hand(request)) is not None:
            return response
        if self._memory is None or self._max_stale_s == STRONG_S or not _is_plain(request):
            return self._load(request)
        return self._load_once(self._memory, request)

    def head(self, request: Request) -> Entry | None:
        """Return what is known of an object that is read in parts, as fresh as `max_stale_s` asks, without its body.

        None: it is not known to be one.
        """
        if self._heads is None:
            return None
        is_current = self._guard is not None and self._guard.is_within(self._max_stale_s)
        kept = self._heads.get(request.hash)  # after the digest, whose changes drop entries
        if kept is None:
            return None
        limit_s = max_age_s(request.headers)
        is_fresh = is_current or self._is_young(kept.ticket)
        if is_fresh and (limit_s is None or seconds_since(self._clock, kept.ticket.at) < limit_s):
            return kept.entry
        return self._asked_head(self._heads, request)

    def head_bound_ms(self, request: Request) -> int:
        """Return how long ago a change may have been announced that `head` does not know of [ms]."""
        kept = None if self._heads is None else self._heads.get(request.hash)
        return 0 if kept is None else self._bound_ms(kept.ticket)

    def note_head(self, request: Request, headers: Mapping[str, str], asked: Miss) -> Entry | None:
        """Remember what S3 said of an object if it is read in parts, and return it then.

        Args:
            request: The read.
            headers: S3's, names in lower case, of an answer with the object or a part of it.
            asked: What was known before.
        """
        if self._heads is None:
            return None
        entry = head_from_s3(headers).confirmed(request.at_us)
        if not self._heads.takes(entry.size_bytes):
            self._heads.drop(request.hash)
            return None
        self._heads.put(request.hash, entry, asked.ticket)
        return entry

    def lookup(self, request: Request) -> Response | Miss:
        """Return the answer of memory or of the tier that holds the object; if only S3 has it, what `keep` needs."""
        return self._at_hand(request) or self._below(request)

    def _at_hand(self, request: Request) -> Response | None:
        """Return the answer of memory or of the tier that the digest names, or a 404 outside of the prefix."""
        if not request.key.startswith(self._prefix):
            return no_such_key(request).served_by("s3", is_hit=False)
        response = None if self._memory is None else self._from_memory(self._memory, request)
        if response is not None and self._may_follow(request, response):
            return response
        response = None if self._max_stale_s == STRONG_S else self._from_route(request)
        return response if response is not None and self._may_follow(request, response) else None

    def _below(self, request: Request) -> Response | Miss:
        """Return the answer of a tier that its readers fill, or what `keep` needs."""
        found = self.miss() if self._max_stale_s == STRONG_S else self._from_filled(request)
        return found if isinstance(found, Miss) or self._may_follow(request, found) else self.miss()

    def _load(self, request: Request) -> Response:
        """Return the answer of what is below memory and the digest's routes."""
        found = self._below(request)
        return found if isinstance(found, Response) else self._loaded(request, found)

    def _loaded(self, request: Request, found: Miss) -> Response:
        """Return S3's answer, and keep what may be kept."""
        began_s = self._clock.monotonic_s()
        response = self._origin.read(request)
        self._s3_took(self._clock.monotonic_s() - began_s)
        self.note_answer(request, response.status, response.headers, found)
        if request.method == "GET" and response.status == 200 and self.keeps(len(response.body), found):
            self.keep(request, entry_from_s3(response.headers, response.body).confirmed(request.at_us), found)
        if response.status in _SENT:
            self.note_head(request, response.headers, found)
        elif self._absences is not None and response == no_such_key(request):
            self._absences.note(request.hash, found.ticket)
        return response.served_by("s3", is_hit=False)

    def _load_once(self, memory: Memory, request: Request) -> Response:
        """Return what `_load` does, or the answer of another thread's `_load` that memory could serve now."""
        is_current = self._guard is not None and self._guard.is_known_within(self._max_stale_s)

        def may_follow(ticket: Ticket) -> bool:
            return (is_current or self._is_young(ticket)) and not memory.may_have_changed(request.hash, ticket)

        shared, is_mine = self._shared.join(request.hash, self._ticket(), may_follow)
        if not is_mine:
            answer = shared.answer.result()
            if answer is None or not self._may_follow(request, answer):
                return self._load(request)
            return self._followed(memory, request, answer, shared)
        response = None
        try:
            response = self.recall(request) or self._load(request)  # it may have arrived a moment ago
            return response
        finally:
            self._shared.end(request.hash, shared, response)

    def _followed(self, memory: Memory, request: Request, answer: Response, shared: SharedRead) -> Response:
        """Return and count what another read has got."""
        if answer.status == _NOT_FOUND:
            return answer.served_by("memory", is_hit=True, bound_ms=self._bound_ms(shared.ticket))
        if answer.status != 200 or answer.headers["x-cache-tier"] == "memory":
            return answer
        entry = Entry(answer.headers, answer.body)
        if len(entry.body) == entry.size_bytes and memory.takes(entry.size_bytes):
            return self._remembered(request, entry, shared.ticket)
        self._origin.report(request, etag=entry.etag, size_bytes=entry.size_bytes)
        return answer.served_by("memory", is_hit=True, bound_ms=self._bound_ms(shared.ticket))

    def _from_route(self, request: Request) -> Response | None:
        asked = None
        # What is known may be some seconds old; a key that has moved on meanwhile is looked for where it is now.
        while (route := self._route(request.hash)) is not None and route != asked:
            if (response := self._from_tier(route, request)) is not None:
                return response.served_by(route.tier, is_hit=True)
            if asked is not None:
                break
            asked = route
        return None

    def recall(self, request: Request) -> Response | None:
        """Return memory's answer if it has one that may be served now; never waits, for an event loop's sake."""
        if self._memory is None or max_age_s(request.headers) is not None:
            return None
        is_current = self._guard is not None and self._guard.is_known_within(self._max_stale_s)
        kept = self._memory.get(request.hash)  # after the digest, whose changes drop entries
        if kept is None:
            response = self._absence(request)
        else:
            is_fresh = is_current or self._is_young(kept.ticket)
            response = self._remembered(request, kept.entry, kept.ticket) if is_fresh else None
        return response if response is not None and self._may_follow(request, response) else None

    def note_answer(self, request: Request, status: int, headers: Mapping[str, str], asked: Miss) -> None:
        """Note which version S3 has answered: no older copy is answered after it.

        Args:
            request: The read.
            status: S3's.
            headers: S3's, names in lower case.
            asked: What was known before.
        """
        if (version := _version(status, headers)) is not None:
            self._answered.note(request.hash, version, asked.ticket.at)

    def _may_follow(self, request: Request, response: Response) -> bool:
        """Whether a copy's answer is given; what a copy refuses S3 decides, which may have a newer version by now."""
        if response.status in _REFUSED:
            return False
        version = _version(response.status, response.headers)
        return version is None or self._answered.may_follow(request.hash, version)

    def miss(self) -> Miss:
        """Return what is known now, for `keep`: of a read that asks S3 and no tier."""
        return Miss(self._ticket())

    def keeps(self, size_bytes: int, miss: Miss) -> bool:
        """Whether memory or a tier takes the object of that size."""
        if self._memory is not None and self._memory.takes(size_bytes):
            return True
        return any(size_bytes <= fill.max_object_bytes for _, fill in miss.fills)

    def keep(self, request: Request, entry: Entry, miss: Miss) -> None:
        """Keep a whole object that has been read, in memory and in the tiers that take it.

        Args:
            request: The read, a GET.
            entry: The object.
            miss: What was known, and which tiers had been asked in vain, before it was read.
        """
        if self._memory is not None:
            self._memory.put(request.hash, entry, miss.ticket)
        if self._absences is not None:
            self._absences.drop(request.hash)
        for route, fill in miss.fills:
            if entry.size_bytes <= fill.max_object_bytes:
                self._fill(route, fill, request, entry)

    def forget(self, hash_: str) -> None:
        """Forget what memory has of a key, because the caller has changed the object."""
        self._shared.forget(hash_)
        for each in (self._memory, self._heads, self._absences):
            if each is not None:
                each.forget(hash_, instant(self._clock))

    def report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Count a GET that the caller has read from S3 for the key's life; `size_bytes` is that of the whole object."""
        self._origin.report(request, etag=etag, size_bytes=size_bytes)

    def tell(self) -> None:
        """Tell where lives are judged what memory and Express have served since the last time, or lose it."""
        if self._tally is None:
            return
        with self._telling:  # closing waits for what is being told
            batches: defaultdict[Route | None, list[Served]] = defaultdict(list)
            for served in self._tally.take():
                batches[self._route(served.hash)].append(served)
            for route, batch in batches.items():
                self._tell(route, batch)

    def close(self) -> None:
        """Tell what is left to tell, and leave the tiers."""
        self.tell()
        for tier in self._tiers.values():
            tier.close()
        self._origin.close()

    def _tell(self, route: Route | None, batch: Sequence[Served]) -> None:
        if route is not None and self._breakers.is_open(route):
            return
        try:
            (self._origin if route is None else self._tier(route)).count(batch)
        except Exception as error:  # heat is lost, nothing else
            if route is not None and not isinstance(error, FAILURES_OF_ONE_KEY):
                self._breakers.fail(route)
            logger().warning("hits of memory not counted", tier=route.tier if route else "s3", reason=repr(error))

    def _route(self, hash_: str) -> Route | None:
        return self._digest.route(hash_) if self._digest is not None else None

    def _home(self, hash_: str) -> Route | None:
        return self._digest.home(hash_) if self._digest is not None else None

    def _ticket(self) -> Ticket:
        return Ticket(0 if self._guard is None else self._guard.sequence, instant(self._clock))

    def _from_memory(self, memory: Memory, request: Request) -> Response | None:
        # First the digest: reading it may drop the entry.
        is_current = self._guard is not None and self._guard.is_within(self._max_stale_s)
        kept = memory.get(request.hash)
        if kept is None:
            return self._absence(request)
        if not (is_current or self._is_young(kept.ticket)):
            return self._confirmed(memory, request, kept)
        return self._remembered(request, kept.entry, kept.ticket)

    def _absence(self, request: Request) -> Response | None:
        """Return what S3 said a moment ago, if it was that it has no such object."""
        ticket = None if self._absences is None else self._absences.ticket(request.hash)
        asked_s = max_age_s(request.headers)
        limit_s = min(self._max_stale_s, MAX_STALE_S, MAX_STALE_S if asked_s is None else asked_s)
        if ticket is None or seconds_since(self._clock, ticket.at) > limit_s:
            return None
        return no_such_key(request).served_by("memory", is_hit=True, bound_ms=self._bound_ms(ticket))

    def _remembered(self, request: Request, entry: Entry, ticket: Ticket) -> Response:
        if self._tells_memory:
            self._note(request, entry)
        return _answer(request, entry).served_by("memory", is_hit=True, bound_ms=self._bound_ms(ticket))

    def _bound_ms(self, ticket: Ticket) -> int:
        """Return how long ago a change may have been announced that is not known of what has this ticket [ms]."""
        if self._max_stale_s == IMMUTABLE_S:
            return 0
        age_s = seconds_since(self._clock, ticket.at)
        return round(1000 * (age_s if self._guard is None else min(age_s, self._guard.age_s)))

    def _note(self, request: Request, entry: Entry) -> None:
        if self._tally is not None and request.method == "GET" and self._tally.note(request, entry):
            self._start(self.tell)

    def _is_young(self, ticket: Ticket) -> bool:
        if self._max_stale_s in (STRONG_S, IMMUTABLE_S):
            return self._max_stale_s == IMMUTABLE_S
        return seconds_since(self._clock, ticket.at) <= self._max_stale_s

    def _confirmed(self, memory: Memory, request: Request, kept: Kept) -> Response | None:
        """Return the answer that S3 confirms by the entry's ETag, or gives anew; None if it gives no whole object."""
        ticket = self._ticket()
        try:
            newer = self._origin.confirm(request, kept.entry)
        except OriginError as error:
            if isinstance(error, (ObjectNotFoundError, ObjectTooLargeError)):
                memory.drop(request.hash)
            return None
        entry = newer or kept.entry.confirmed(request.at_us)
        self._answered.note(request.hash, entry.etag, ticket.at)
        memory.put(request.hash, entry, ticket)
        is_hit = newer is None
        return _answer(request, entry).served_by("memory" if is_hit else "s3", is_hit=is_hit)

    def _asked_head(self, heads: Heads, request: Request) -> Entry | None:
        asked = self.miss()
        response = self._origin.read(replace(request, method="HEAD", headers={}, range=None))
        if response.status in _SENT:
            return self.note_head(request, response.headers, asked)
        if response.status == _NOT_FOUND:
            heads.drop(request.hash)
        return None

    def _from_tier(self, route: Route, request: Request) -> Response | None:
        if self._is_left_alone(route, request):
            return None
        found = self._ask(route, request)
        if isinstance(found, Entry):
            self._adopt(request, found)
            return _answer(request, found)
        if self._digest is not None:
            self._digest.forget(request.hash)
        return None

    def _from_filled(self, request: Request) -> Response | Miss:
        """Return the answer of the first tier that its readers fill and that has the object, or what fills them.

        What such a tier has may be kept without asking S3: each write is taken out of it before it is announced, so a
        copy of an older version was read before the announcement, and the ticket is older than that.
        """
        routes = list(self._filled(request.hash))
        miss = self.miss()
        for route in routes:
            found = None if self._is_left_alone(route, request) else self._ask(route, request)
            if isinstance(found, Entry):
                if request.method == "GET":
                    self.keep(request, found, miss)
                if route == EXPRESS:
                    self._note(request, found)
                return _answer(request, found).served_by(route.tier, is_hit=True)
            if found is not None:
                miss = Miss(miss.ticket, (*miss.fills, (route, found)))
        return miss

    def _filled(self, hash_: str) -> Iterator[Route]:
        if (home := self._home(hash_)) is not None:
            yield home
        if self._has_express:
            yield EXPRESS

    def _is_left_alone(self, route: Route, request: Request) -> bool:
        is_left_alone = self._breakers.is_open(route) or self._breakers.is_open(request.hash)
        if is_left_alone:
            self._fell_back(None)
        return is_left_alone

    def _ask(self, route: Route, request: Request) -> Entry | Fill | None:
        try:
            found = self._tier(route).fetch(request)
            return _whole(request, found) if isinstance(found, Entry) else found
        except Exception as error:  # whatever it is, S3 has the object
            self._breakers.fail(request.hash if isinstance(error, FAILURES_OF_ONE_KEY) else route)
            self._fell_back(error)
            logger().warning(
                "tier failed, S3 serves", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )
            return None

    def _fill(self, route: Route, fill: Fill, request: Request, entry: Entry) -> None:
        try:
            fill.put(entry)
        except Exception as error:  # the reader has its answer
            self._breakers.fail(route)
            logger().warning(
                "tier not filled", tier=route.tier, reason=repr(error), key=request.key, key_hash=request.hash
            )

    def _adopt(self, request: Request, entry: Entry) -> None:
        """Keep a tier's copy, in the background.

        A tier may still be replacing its copy when the digest already has the change, so S3 has to confirm it first.
        """
        if self._memory is None or request.method == "HEAD" or not self._memory.takes(entry.size_bytes):
            return
        if self._max_stale_s == IMMUTABLE_S:
            self._memory.put(request.hash, entry, self._ticket())
        elif (
            len(self._adopting) < _MOST_ADOPTING  # a later hit tries again
            and request.hash not in self._adopting
            and not self._breakers.is_open((request.hash, entry.etag))
        ):
            self._adopting.add(request.hash)
            self._start(partial(self._adopt_confirmed, self._memory, request, entry))

    def _adopt_confirmed(self, memory: Memory, request: Request, entry: Entry) -> None:
        try:
            ticket = self._ticket()
            is_kept = self._origin.has(request.key, entry) and memory.put(request.hash, entry, ticket)
            if not is_kept:
                self._breakers.fail((request.hash, entry.etag))
        except OriginError:
            self._breakers.fail((request.hash, entry.etag))
        finally:
            self._adopting.discard(request.hash)

    def _tier(self, route: Route) -> Tier:
        if route not in self._tiers:
            self._tiers.setdefault(route, self._make_tier(route))  # two threads may have come here
        return self._tiers[route]


def _answer(request: Request, entry: Entry) -> Response:
    return object_response(request, entry.meta, b"" if request.method == "HEAD" else entry.body)


def _version(status: int, headers: Mapping[str, str]) -> str | None:
    """Return which version of an object an answer is of; None: it does not say."""
    return ABSENT if status == _NOT_FOUND else headers.get("etag")


def _is_plain(request: Request) -> bool:
    """Whether it asks for the whole object as it is."""
    return request.method == "GET" and request.range is None and not _ASKING.intersection(request.headers)


def _whole(request: Request, entry: Entry) -> Entry:
    if request.method != "HEAD" and len(entry.body) != entry.size_bytes:
        raise ValueError(f"the entry of {request.key!r} has {len(entry.body)} of its {entry.size_bytes} bytes")
    return entry
