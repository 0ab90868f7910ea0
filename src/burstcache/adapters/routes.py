"""Where a key is served from, by its row and for Redis by the row of its node, as the proxy remembers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.core.table import ROUTE_COLUMNS, RUN_COLUMNS, ItemKey, KeyColumns, NodeColumns, key_item, node_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

REMEMBERED_S = 1.0  # a node that stops waits 2 s: `docs/understand/lifecycle.md`, "A node"
_MAX_REMEMBERED = 4096
_NEVER_US = 2**63
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Route:
    """The tier that serves a key: "lambda", or "redis" and the node's name."""

    tier: str
    node: str = ""


class Routes:
    """Routes of all keys, read from the table, eventually consistent.

    A route to a tier is remembered for a second; that a key is with S3 is not, so a key that gets hot moves at once.
    """

    def __init__(self, table_name: str, client: DynamoDBClient, clock: Clock) -> None:
        self._table_name = table_name
        self._client = client
        self._clock = clock
        self._keys: _Memory[tuple[Route, int]] = _Memory(clock)
        self._nodes: _Memory[int | None] = _Memory(clock)

    def route(self, hash_: str) -> Route | None:
        """Return the tier to ask for the key with this hash; None for S3.

        Raises:
            ServiceError: DynamoDB does not answer.
        """
        known = self._keys.get(hash_)
        if known is None and (known := self._read_route(hash_)) is not None:
            self._keys.put(hash_, known)
        if known is None:
            return None
        route, generation = known
        return route if route.tier != "redis" or self._running_generation(route.node) == generation else None

    def forget(self, hash_: str) -> None:
        """Forget this key's route, because its tier did not have the object."""
        self._keys.drop(hash_)

    def _read_route(self, hash_: str) -> tuple[Route, int] | None:
        row = cast(KeyColumns, self._row(key_item(hash_), ROUTE_COLUMNS))
        # An expired row counts as S3: its execution died, and nothing keeps the row true.
        if row.get("deadline_at_us", _NEVER_US) <= self._clock.now_us():
            return None
        match row.get("tier"):
            case "lambda":
                return Route("lambda"), 0
            case "redis":
                return Route("redis", row.get("node", "")), row.get("generation", 0)
        return None

    def _running_generation(self, node: str) -> int | None:
        """Return the generation of a running node; None if it is not running, which is remembered as well."""
        if not self._nodes.has(node):
            row = cast(NodeColumns, self._row(node_item(node), RUN_COLUMNS))
            is_running = row.get("phase") == "running"
            self._nodes.put(node, row.get("generation") if is_running else None)
        return self._nodes.get(node)

    def _row(self, key: ItemKey, columns: tuple[str, ...]) -> dict[str, str | int]:
        names = {f"#{name}": name for name in columns}
        answer = ask(
            self._client.get_item,
            TableName=self._table_name,
            Key={"pk": {"S": key["pk"]}, "sk": {"S": key["sk"]}},
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
        )
        # Whole numbers and text are all that these columns hold: no need of boto3's general conversion.
        item = answer.get("Item", {})
        return {name: int(value["N"]) if "N" in value else value["S"] for name, value in item.items()}


class _Memory(Generic[_T]):
    """Values by name, each for a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, _T]] = {}

    def has(self, name: str) -> bool:
        entry = self._values.get(name)
        return entry is not None and self._clock.monotonic_s() < entry[0]

    def get(self, name: str) -> _T | None:
        return self._values[name][1] if self.has(name) else None

    def put(self, name: str, value: _T) -> None:
        if len(self._values) >= _MAX_REMEMBERED:
            self._values = {known: entry for known, entry in self._values.items() if self.has(known)}
        if len(self._values) >= _MAX_REMEMBERED:
            self._values.clear()
        self._values[name] = (self._clock.monotonic_s() + REMEMBERED_S, value)

    def drop(self, name: str) -> None:
        self._values.pop(name, None)
