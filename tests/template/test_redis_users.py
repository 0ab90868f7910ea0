"""Users of a node's Redis: each may do its work and nothing else, in a real Redis with what the set-up writes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError
from burstcache.results.stores.redis_store import RedisStore
from burstcache.web.entry import Entry
from support.node_machine import PASSWORDS, serving, set_up
from support.project import ROOT
from support.read_path import entry_of
from support.waiting import LIMIT_S

pytestmark = pytest.mark.slow

_ENTRY: Entry = entry_of(b"body")
_WORK: dict[str, dict[str, Callable[[RedisObjects], object]]] = {
    "reader": {
        "ping": lambda node: node.ping(),
        "read": lambda node: node.read("kept", at_us=1),
        "read_meta": lambda node: node.read_meta("kept"),
        "read_guest": lambda node: node.read_guest("kept", at_us=1, leases=True),
        "store_guest": lambda node: bring(node, "guest"),
        "read_slices": lambda node: [node.read_slices({"missing": 4}) for _ in range(2)],
        "stored_slices": lambda node: node.stored_slices({"missing": 4}),
        "store_slices": lambda node: node.store_slices({"slice": b"data"}),
        "note": lambda node: node.note({"kept": [1, 2]}),
    },
    "control": {
        "ping": lambda node: node.ping(),
        "take_lease": lambda node: node.take_lease("new"),
        "put": lambda node: node.put("new", _ENTRY, node.take_lease("new")),
        "add_older_times": lambda node: node.add_older_times("kept", [1, 2]),
        "remove": lambda node: node.remove("kept"),
        "queues": lambda node: node.queues(["kept", "none"]),
        "hits": lambda node: node.hits(),
        "memory_bytes": lambda node: node.memory_bytes(),
        "memory_sample": lambda node: node.memory_sample(),
        "leave_out": lambda node: node.leave_out({"guest": 4}),
        "lease": lambda node: node.lease(["guest", "kept"]),
        "store_guest": lambda node: node.store_guest("guest", _ENTRY, node.lease(["guest"])["guest"]),
        "drop": lambda node: node.drop(["kept"]),
    },
}


class _Passwords:
    """Passwords in the parameters."""

    def read(self, name: str) -> str:
        return PASSWORDS[name]

    def forget(self) -> None:
        pass


def bring(node: RedisObjects, hash_: str) -> bool:
    """Read a guest that is not there, and store it."""
    found, token = node.read_guest(hash_, at_us=1, leases=True)
    assert found is None
    return node.store_guest(hash_, _ENTRY, token)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    machine = tmp_path_factory.mktemp("machine")
    set_up(machine, "valkey")
    with serving(machine, "valkey") as port:
        yield port


@pytest.fixture
def connect(port: int) -> Iterator[Callable[[str], RedisObjects]]:
    opened = []

    def connect(user: str) -> RedisObjects:
        node, access = RedisNode("node-1", "i-1", "127.0.0.1", port), RedisAccess(user, user)
        opened.append(RedisObjects(node, _Passwords(), access, timeout_s=LIMIT_S))  # type: ignore[arg-type]
        return opened[-1]

    control = connect("control")
    control.put("kept", _ENTRY, control.take_lease("kept"))
    control.drop(["guest"])
    yield connect
    for each in opened:
        each.close()


@pytest.fixture(params=["reader", "control"])
def client(request: pytest.FixtureRequest, port: int) -> Iterator[redis.Redis]:
    user = str(request.param)
    with redis.Redis(port=port, username=user, password=PASSWORDS[user]) as client:
        yield client


@pytest.mark.parametrize(("user", "work"), [(user, work) for user, works in _WORK.items() for work in works])
def test_a_user_may_do_its_work(connect: Callable[[str], RedisObjects], user: str, work: str) -> None:
    node = connect(user)

    _WORK[user][work](node)
    node.ping()  # nothing has come late


def test_a_reader_keeps_results_of_functions(port: int) -> None:
    store = RedisStore.at(f"redis://reader:{PASSWORDS['reader']}@127.0.0.1:{port}", SystemClock(), timeout_s=LIMIT_S)

    assert store.take_lease("result:f:1", "token", lease_ms=60_000, most_bytes=9) == (True, False, None)
    store.renew_lease("result:f:1", "token", lease_ms=60_000)
    store.put("result:f:1", b"data", kept_ms=60_000)
    store.return_lease("result:f:1", "token", open_ms=0)
    assert store.get("result:f:1", most_bytes=9) == b"data"
    store.forget("result:f:1")
    store.ping()


def test_everything_that_is_done_to_a_node_is_the_work_of_one_of_them() -> None:
    done = {name for name, _ in inspect.getmembers(RedisObjects, inspect.isfunction) if not name.startswith("_")}

    of_tasks = {"attend"}  # by the users of `instance/redis_task.sh`
    assert done - of_tasks - {"close"} == _WORK["reader"].keys() | _WORK["control"].keys()


@pytest.mark.parametrize(
    "command",
    [
        "FLUSHALL",
        "FLUSHDB",
        "KEYS *",
        "SCAN 0",
        "CONFIG SET maxmemory 0",
        "CONFIG REWRITE",
        "ACL LIST",
        "SAVE",
        "SHUTDOWN",
        "REPLICAOF 10.0.0.1 6379",
        "DEBUG SLEEP 0",
        "MONITOR",
        "SUBSCRIBE all",
        "CLIENT KILL TYPE normal",
        "SCRIPT FLUSH",
        "MIGRATE 10.0.0.1 6379 object:kept 0 1",
        "DUMP object:kept",
        "RENAME object:kept object:other",
    ],
)
def test_nobody_may_do_what_is_nobodys_work(client: redis.Redis, command: str) -> None:
    with pytest.raises((NoPermissionError, redis.ResponseError), match="no permissions|not allowed"):
        client.execute_command(*command.split())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("key", ["other", "objects", "hits2", "left-out2", "state:1"])
def test_nobody_may_touch_other_keys(client: redis.Redis, key: str) -> None:
    with pytest.raises(NoPermissionError):
        client.get(key)
    with pytest.raises(NoPermissionError):
        client.eval("return redis.call('SET', KEYS[1], 1)", 1, key)


def test_a_script_may_do_no_more_than_its_user(client: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="can't run this command|has no permissions to run"):
        client.eval("return redis.call('FLUSHALL')", 0)


@pytest.mark.parametrize("command", ["UNLINK object:kept", "CONFIG GET maxmemory", "LRANGE recent:kept 0 -1"])
def test_a_reader_may_not_do_the_work_of_control(port: int, command: str) -> None:
    reader = redis.Redis(port=port, username="reader", password=PASSWORDS["reader"])

    with reader, pytest.raises(NoPermissionError):
        reader.execute_command(*command.split())  # type: ignore[no-untyped-call]


def test_a_stranger_is_nobody(port: int) -> None:
    with redis.Redis(port=port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_a_password_of_another_user_is_refused_by_name(port: int) -> None:
    node, access = RedisNode("node-1", "i-1", "127.0.0.1", port), RedisAccess("control", "reader")

    with pytest.raises(RedisDownError, match="^node-1 refuses the password of user control: "):
        RedisObjects(node, _Passwords(), access, timeout_s=LIMIT_S).ping()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a database of state."""
    machine = tmp_path_factory.mktemp("database")
    set_up(machine, "valkey", node="state-orders", persistence="rdb")
    with serving(machine, "valkey") as port:
        yield port


@pytest.fixture
def holder(database: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=database, username="holder", password=PASSWORDS["holder"]) as client:
        yield client


@pytest.fixture
def keeper(database: int) -> Iterator[redis.Redis]:
    """The user of the program that saves the database."""
    with redis.Redis(port=database, username="keeper", password=PASSWORDS["keeper"]) as client:
        yield client


def test_a_holder_may_do_what_it_wants_with_its_data(holder: redis.Redis) -> None:
    with holder.pipeline() as transaction:
        transaction.incr("any")
        transaction.execute()
    holder.publish("channel", "message")
    assert holder.keys("*")
    holder.flushall()

    assert holder.dbsize() == 0


def test_a_holder_may_do_with_its_own_connection_what_libraries_do(database: int) -> None:
    more: dict[str, Any] = {"client_name": "x", "protocol": 2, "driver_info": redis.DriverInfo(name="library")}
    with redis.Redis(port=database, username="holder", password=PASSWORDS["holder"], **more) as client:
        assert client.client_getname() == "x"
        assert client.client_info()["user"] == "holder"
        assert client.client_id() > 0
        assert client.client_trackinginfo()
        assert client.acl_whoami() == "holder"
        assert client.execute_command("CLIENT", "TRACKING", "ON")


def test_a_holder_may_not_touch_the_server_and_the_page_says_what_that_is(holder: redis.Redis, database: int) -> None:
    page = (ROOT / "docs/use/state.md").read_text()
    table = page.partition("`NoPermissionError`:")[2].partition("Newer servers")[0]
    clients, *others = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    named = {name.lower() for line in others for name in re.findall("`([A-Z]+)`", line)}
    refused_of_clients = set(re.findall("`([A-Z-]+)`", clients)) - {"CLIENT"}
    with redis.Redis(port=database, username="keeper", password=PASSWORDS["keeper"]) as keeper:
        keeper.execute_command("ACL", "SETUSER", "asks", "on", "nopass", "+acl|cat", "+client|help")
    with redis.Redis(port=database, username="asks", password="any") as asks:
        admin = {name.decode() for name in asks.execute_command("ACL", "CAT", "admin")}
        helped = asks.execute_command("CLIENT", "HELP")
    of_clients = {line.split()[0].decode() for line in helped[1:] if line[:1].isalpha()}

    assert named == admin - {"client"}
    for name in sorted(named):
        assert any(_refuses(holder, name, *["x"] * words) for words in range(9)), name
    allowed = {name for name in of_clients if not _refuses(holder, "CLIENT", name)}
    assert of_clients - allowed == refused_of_clients - {"NO-EVICT"}  # which this version does not know


def _refuses(client: redis.Redis, *command: str) -> bool:
    """Return whether the server denies a user a command, regardless of other errors in it."""
    try:
        client.execute_command(*command)  # type: ignore[no-untyped-call]
    except NoPermissionError:
        return True
    except redis.ResponseError:
        return False
    return False


def test_a_keeper_saves_and_shuts_holders_out(keeper: redis.Redis, holder: redis.Redis) -> None:
    holder.ping()

    keeper.execute_command("ACL", "SETUSER", "holder", "off")  # type: ignore[no-untyped-call]
    keeper.execute_command("CLIENT", "KILL", "USER", "holder")  # type: ignore[no-untyped-call]
    keeper.save()

    assert keeper.info("persistence")["rdb_changes_since_last_save"] == 0
    with pytest.raises(redis.ConnectionError):
        holder.ping()
    keeper.execute_command("ACL", "SETUSER", "holder", "on")  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("command", ["GET any", "KEYS *", "FLUSHALL", "CONFIG SET maxmemory 0", "SHUTDOWN", "ACL LIST"])
def test_a_keeper_reads_no_data(keeper: redis.Redis, command: str) -> None:
    with pytest.raises(NoPermissionError):
        keeper.execute_command(*command.split())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("user", ["reader", "control", "default"])
def test_nobody_of_the_cache_gets_into_a_database(database: int, user: str) -> None:
    with (
        redis.Redis(port=database, username=user, password="anything") as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


def test_users_have_the_same_rights_in_a_task_but_for_the_channel_that_attends_to_it() -> None:
    def rights(program: str) -> dict[str, set[str]]:
        text = (ROOT / "instance" / program).read_text().replace("\\\n", " ")
        found = re.findall(r"^user (?!watcher)([a-z]+)\S* on #\S+(?: \S+\"\))? (.*)$", text, re.MULTILINE)
        return {user: {*words.split()} - {"resetchannels"} for user, words in found}

    on_instance, in_task, in_task_of_state = map(rights, ("set_up_redis.sh", "redis_task.sh", "state_task.sh"))

    on_instance["control"] |= {"&attended", "+publish"}
    assert in_task == {user: on_instance[user] for user in ("reader", "control")}
    assert in_task_of_state == {user: on_instance[user] for user in ("holder", "keeper")}
