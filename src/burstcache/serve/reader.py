"""One read: the route, the tier that it names, and S3 if that tier cannot answer. The cache never breaks a read."""

from __future__ import annotations

from collections.abc import Callable

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock
from burstcache.adapters.routes import Route, Routes
from burstcache.logs import logger
from burstcache.serve.tier import FAILURES_OF_ONE_KEY, Origin, Tier
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response, object_response

_ROUTES = "routes"


class Reader:
    """Asks the tiers. A tier is made at its first use and left alone for a while after a failure."""

    def __init__(
        self,
        routes: Routes,
        origin: Origin,
        make_tier: Callable[[Route], Tier],
        clock: Clock,
    ) -> None:
        self._routes = routes
        self._origin = origin
        self._make_tier = make_tier
        self._tiers: dict[Route, Tier] = {}
        self._breakers = Breakers(clock)

    def read(self, request: Request) -> Response:
        """Return the answer to a GET or HEAD."""
        asked = None
        # A remembered route may be a second old; a key that has moved on meanwhile is looked for where it is now.
        while (route := self._route(request)) is not None and route != asked:
            if (response := self._from_tier(route, request)) is not None:
                return response.served_by(route.tier, is_hit=True)
            if asked is not None:
                break
            asked = route
        return self._origin.read(request).served_by("s3", is_hit=False)

    def _route(self, request: Request) -> Route | None:
        if self._breakers.is_open(_ROUTES):
            return None
        try:
            return self._routes.route(request.hash)
        except Exception as error:  # whatever it is, S3 has the object
            self._breakers.fail(_ROUTES)
            logger().warning("route not read, S3 serves", reason=repr(error), key=request.key)
            return None

    def _from_tier(self, route: Route, request: Request) -> Response | None:
        if self._breakers.is_open(route) or self._breakers.is_open(request.hash):
            return None
        try:
            entry = self._tier(route).fetch(request)
            if entry is not None:
                return object_response(request, entry.meta, _body(request, entry))
        except Exception as error:  # whatever it is, S3 has the object
            self._breakers.fail(request.hash if isinstance(error, FAILURES_OF_ONE_KEY) else route)
            logger().warning("tier failed, S3 serves", tier=route.tier, reason=repr(error), key=request.key)
        self._routes.forget(request.hash)
        return None

    def _tier(self, route: Route) -> Tier:
        if route not in self._tiers:
            self._tiers[route] = self._make_tier(route)
        return self._tiers[route]


def _body(request: Request, entry: Entry) -> bytes:
    if request.method == "HEAD":
        return b""
    if len(entry.body) != entry.size_bytes:
        raise ValueError(f"the entry of {request.key!r} has {len(entry.body)} of its {entry.size_bytes} bytes")
    return entry.body
