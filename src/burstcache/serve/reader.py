"""One read: what this process keeps, the digest's tier, the key's home node, S3 Express, S3. No tier ever breaks it."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from burstcache.adapters.clock import Clock, seconds_since
from burstcache.adapters.digest_reader import DigestReader, Start, in_thread
from burstcache.adapters.patience import Patience
from burstcache.adapters.single_flight import NEXT_AFTER_S, SingleFlight
from burstcache.core.digest import Route
from burstcache.logs import logger
from burstcache.serve.memory_tier import Heads, Memory, Ticket
from burstcache.serve.own_copies import MAX_STALE_S, STRONG_S, OwnCopies
from burstcache.serve.tally import Served, Tally
from burstcache.serve.tier import Fill, Origin, Tier
from burstcache.serve.tiers import FellBack, Tiers
from burstcache.web.entry import Entry, entry_from_s3
from burstcache.web.freshness import max_age_s
from burstcache.web.headers import object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response, no_such_key, object_response

EXPRESS = Route("express")

_OK, _PARTIAL, _NOT_MODIFIED, _NOT_FOUND = 200, 206, 304, 404
_SENT = (_OK, _PARTIAL)
_CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"})


def ignored(error: Exception | None) -> None:
    """Do nothing about a tier that failed."""


def _uncounted(_: Request, __: Entry) -> None:
    """Do nothing about a hit of memory."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A read that S3 has to answer: what was known before it, and the tiers that take the object."""

    ticket: Ticket
    fills: tuple[tuple[Route, Fill], ...] = ()


class Reader:
    """Asks what this process keeps, then the tiers, then S3. Threads may share it.

    Attributes:
        own: What this process keeps.
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
        patience: Patience | None = None,
        prefix: str = "",
        next_after_s: float = NEXT_AFTER_S,
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
            fell_back: As for `Tiers`.
            patience: How long a read waits for the digest and all tiers together; it learns how long S3 takes.
            prefix: Of the keys that may be read; no tier is asked for another one, which is as if it did not exist.
            next_after_s: How long a read of S3 waits for an equal one that is under way [s].
        """
        self._digest = digest
        self._origin = origin
        self._patience = patience or Patience(clock=clock)
        self._tiers = Tiers(make_tier, clock, fell_back, self._patience)
        self._clock = clock
        self._max_stale_s = max_stale_s
        self._start = start
        self._prefix = prefix
        self._has_express = has_express
        self._tally = Tally(clock) if digest is not None and (memory is not None or has_express) else None
        self._telling = threading.Lock()
        self.own = OwnCopies(
            digest,
            origin,
            clock,
            memory=memory,
            heads=heads,
            max_stale_s=max_stale_s,
            start=start,
            hit=self._note if tells_memory else _uncounted,
            next_after_s=next_after_s,
        )
        self._shares_reads = memory is not None and max_stale_s > STRONG_S
        # Below memory a reader that may not follow the read under way asks the tiers at once; only reads of S3 wait.
        self._loads: SingleFlight[Response, Ticket] = SingleFlight(clock, self.own.ticket, next_after_s=0)
        self._s3_reads: SingleFlight[Response, Ticket] = SingleFlight(clock, self.own.ticket, next_after_s=next_after_s)

    def look_ahead(self) -> None:
        """Do before the first request what it would wait for: read the digest, and make the tiers that serve now.

        What fails is left to the requests that need it.
        """
        if self._digest is None or self._max_stale_s == STRONG_S:
            return
        self._digest.is_within(self._max_stale_s)
        for route in self._digest.places():
            with suppress(Exception):
                self._tiers.find(route)

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
        return self._load_once(request) if self._shares_reads and _is_plain(request) else self._load(request)

    def lookup(self, request: Request) -> Response | Miss:
        """Return the answer of the tier that holds the object, this process included; else what `keep` needs."""
        return self._at_hand(request) or self._below(request)

    def head(self, request: Request) -> Entry | None:
        """Begin a read of an object of any size: return what `OwnCopies.head` does."""
        self._patience.begin()
        return self.own.head(request)

    def _at_hand(self, request: Request) -> Response | None:
        """Return the answer of own copies or of the tier that the digest names, or a 404 outside of the prefix."""
        self._patience.begin()
        if not request.key.startswith(self._prefix):
            return no_such_key(request).served_by("s3", is_hit=False)
        if (response := self.own.answer(request)) is not None:
            return response
        response = None if self._max_stale_s == STRONG_S else self._from_route(request)
        return response if response is not None and self.own.may_follow(request, response) else None

    def _below(self, request: Request) -> Response | Miss:
        """Return the answer of a tier that its readers fill, or what `keep` needs."""
        found = self.miss() if self._max_stale_s == STRONG_S else self._from_filled(request)
        return found if isinstance(found, Miss) or self.own.may_follow(request, found) else self.miss()

    def _load(self, request: Request) -> Response:
        """Return the answer of what is below own copies and the digest's routes."""
        found = self._below(request)
        return found if isinstance(found, Response) else self._loaded(request, found)

    def _loaded(self, request: Request, found: Miss) -> Response:
        """Return S3's answer, and keep what may be kept."""
        response = self._from_s3(request)
        is_object = request.method == "GET" and response.status == _OK and response.is_whole and response.is_keepable
        if is_object and self.keeps(len(response.body), found):
            self.keep(request, entry_from_s3(response.headers, response.body).confirmed(request.at_us), found)
        if response.status in _SENT and response.is_keepable:
            self.own.note_head(request, response.headers, found.ticket)
        elif response == no_such_key(request):
            self.own.note_absence(request, found.ticket)
        return response.served_by("s3", is_hit=False)

    def _from_s3(self, request: Request) -> Response:
        """Return S3's answer, or that of another caller's equal read which began after this."""
        response, shared = self._s3_reads.run(question(request), partial(self._ask_s3, request))
        if shared is not None:
            self._count_shared(request, response, is_own=False)
        return response

    def _ask_s3(self, request: Request) -> Response:
        ticket = self.own.ticket()
        response = self._origin.read(request)
        self._patience.s3_took(self._clock.monotonic_s() - ticket.at.monotonic_s)
        self.own.note_answer(request, response.status, response.headers, ticket)
        return response

    def _load_once(self, request: Request) -> Response:
        """Return what `_load` does, or the answer of another thread's `_load` that memory could serve now."""

        def load() -> Response:
            return self.own.recall(request) or self._load(request)  # it may have arrived a moment ago

        is_fresh = self.own.fresh_tickets(request.hash)
        answer, ticket = self._loads.run(request.hash, load, may_follow=is_fresh)
        return answer if ticket is None else self.shared(request, answer, ticket) or self._load(request)

    def shared(
        self, request: Request, answer: Response, ticket: Ticket, *, since: Ticket | None = None
    ) -> Response | None:
        """Return and count the answer that an equal read of another caller has got; None if it may not be given.

        Args:
            request: The caller's own.
            answer: That of the other one.
            ticket: Taken before the other one began.
            since: Taken when the caller's read began; an answer of a later one is as good as the caller's own.
        """
        if not self.own.may_follow(request, answer):
            return None
        is_own = answer.headers["x-cache-tier"] == "memory"
        if since is not None and ticket.at >= since.at:
            self._count_shared(request, answer, is_own=is_own)
            return answer
        is_read = answer.status in _SENT and not is_own
        if not is_read and answer.status != _NOT_FOUND:
            self._count_shared(request, answer, is_own=is_own)
            return answer
        answer = replace(answer, headers={**answer.headers, "age": str(self._age_s(answer, ticket))})
        if is_read and _is_plain(request):
            entry = Entry(answer.headers, answer.body)
            if answer.is_whole and answer.is_keepable and self.own.takes(entry.size_bytes):
                return self.own.found(request, entry, ticket)
        self._count_shared(request, answer, is_own=is_own)
        return answer.served_by("memory", is_hit=True, bound_ms=self.own.bound_ms(ticket))

    def _count_shared(self, request: Request, answer: Response, *, is_own: bool) -> None:
        """Count a read that another caller's read has answered: as memory's, or as S3's tier counts what it reads."""
        if request.method != "GET" or answer.status not in (*_SENT, _NOT_MODIFIED):
            return
        etag = answer.headers.get("etag", "")
        size_bytes = 0 if answer.status == _NOT_MODIFIED else object_size_bytes(answer.headers)
        if is_own:
            self.own.count_hit(request, Entry({"etag": etag, "content-length": str(size_bytes)}, b""))
        else:
            self._origin.report(request, etag=etag, size_bytes=size_bytes)

    def _age_s(self, answer: Response, ticket: Ticket) -> int:
        """Return how long ago S3 gave an answer that another read has got [s]: it may have begun long before this."""
        since_s = seconds_since(self._clock, ticket.at)
        is_copy = answer.headers["x-cache"] == "hit"  # whose age has been rounded down
        return int(answer.headers["age"]) + (math.ceil(since_s) if is_copy else int(since_s))

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

    def miss(self) -> Miss:
        """Return what is known now, for `keep`: of a read that asks S3 and no tier."""
        return Miss(self.own.ticket())

    def keeps(self, size_bytes: int, miss: Miss) -> bool:
        """Whether memory or a tier takes the object of that size."""
        return self.own.takes(size_bytes) or any(size_bytes <= fill.max_object_bytes for _, fill in miss.fills)

    def keep(self, request: Request, entry: Entry, miss: Miss) -> None:
        """Keep a whole object that has been read, in memory and in the tiers that take it.

        Args:
            request: The read, a GET.
            entry: The object.
            miss: What was known, and which tiers had been asked in vain, before it was read.
        """
        self.own.keep(request, entry, miss.ticket)
        for route, fill in miss.fills:
            if entry.size_bytes <= fill.max_object_bytes:
                self._tiers.fill(route, fill, request, entry)

    def forget(self, hash_: str) -> None:
        """Forget what this process has of a key, because the caller has changed the object."""
        self._loads.forget(hash_)
        self.own.forget(hash_)

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
        self._tiers.close()
        self._origin.close()

    def _tell(self, route: Route | None, batch: Sequence[Served]) -> None:
        try:
            if route is None:
                self._origin.count(batch)
            else:
                self._tiers.count(route, batch)
        except Exception as error:  # heat is lost, nothing else
            logger().warning("hits of memory not counted", tier=route.tier if route else "s3", reason=repr(error))

    def _route(self, hash_: str) -> Route | None:
        return self._digest.route(hash_) if self._digest is not None else None

    def _home(self, hash_: str) -> Route | None:
        return self._digest.home(hash_) if self._digest is not None else None

    def _note(self, request: Request, entry: Entry) -> None:
        if self._tally is not None and request.method == "GET" and self._tally.note(request, entry):
            self._start(self.tell)

    def _from_tier(self, route: Route, request: Request) -> Response | None:
        if self._tiers.is_left_alone(route, request):
            return None
        found = self._tiers.ask(route, request)
        if isinstance(found, Entry):
            self.own.adopt(request, found)
            return object_response(request, found.meta, found.body)
        if self._digest is not None and not self._patience.is_used_up:
            self._digest.forget(request.hash)
        return None

    def _from_filled(self, request: Request) -> Response | Miss:
        """Return the answer of the first tier that its readers fill and that has the object, or what fills them.

        What such a tier has may be kept without asking S3: each write is taken out of it before it is announced for the
        last time, so a copy of an older version was read before that announcement, and the ticket is older.
        """
        miss = self.miss()  # before the digest that says whom to ask can have become a newer one
        for route in list(self._filled(request.hash)):
            found = None if self._tiers.is_left_alone(route, request) else self._tiers.ask(route, request)
            if isinstance(found, Entry):
                if request.method == "GET":
                    self.keep(request, found, miss)
                if route == EXPRESS:
                    self._note(request, found)
                response = object_response(request, found.meta, found.body)
                return response.served_by(route.tier, is_hit=True)
            if found is not None:
                miss = Miss(miss.ticket, (*miss.fills, (route, found)))
        return miss

    def _filled(self, hash_: str) -> Iterator[Route]:
        if (home := self._home(hash_)) is not None:
            yield home
        if self._has_express:
            yield EXPRESS


def question(request: Request) -> Hashable:
    """Return what S3 is asked by a read: equal reads have equal answers."""
    conditions = tuple((name, request.headers[name]) for name in sorted(_CONDITIONS & request.headers.keys()))
    return request.method, request.hash, str(request.range or ""), conditions


def _is_plain(request: Request) -> bool:
    """Whether it asks for the whole object as it is, of any age that the reader allows."""
    return _is_whole(request) and "cache-control" not in request.headers


def _is_whole(request: Request) -> bool:
    """Whether it asks for the whole object as it is."""
    return request.method == "GET" and request.range is None and _CONDITIONS.isdisjoint(request.headers)
