"""The control plane's parts in one place, to be called in any order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import boto3

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.executions import Executions, execution_arn
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.instances import Instances
from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay import RelayListener, RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.control.cache_environment import CacheEnvironment, warm_copies
from burstcache.control.cache_life import CacheTask, CacheTools
from burstcache.control.janitor import Janitor
from burstcache.control.key_on_node import Life
from burstcache.control.operations import RedisControl
from burstcache.control.scheduler import Scheduler
from burstcache.core.keys import key_hash
from burstcache.core.parameters import parameters_from_text
from burstcache.core.policy import Request
from burstcache.core.table import KeyRow
from burstcache.settings import RedisNode, Settings, settings_from
from support.clock import ManualClock
from support.servers import RedisServer

BUCKET, NODE = "origin", "node-1"

_TOKEN_MACHINE = {
    "QueryLanguage": "JSONata",
    "StartAt": "Lambda",
    "States": {
        "Lambda": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
            "Arguments": {
                "TableName": "{% $states.input.table %}",
                "Key": {"pk": {"S": "{% 'TOKEN#' & $states.input.name %}"}, "sk": {"S": "TOKEN"}},
                "UpdateExpression": "SET held = :token",
                "ExpressionAttributeValues": {":token": {"S": "{% $states.context.Task.Token %}"}},
            },
            "End": True,
        }
    },
}
_KEY_MACHINE = json.loads(
    json.dumps(_TOKEN_MACHINE)
    .replace("$states.input.name", "$states.context.Execution.Name")
    .replace("{% $states.input.table %}", "TABLE")
)
_NODE_MACHINE = {
    "QueryLanguage": "JSONata",
    "StartAt": "W",
    "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": True}},
}


@cache
def _image() -> str:
    """Return an image that moto knows; asking takes most of a second."""
    return str(boto3.client("ec2").describe_images()["Images"][0]["ImageId"])


class World:
    """One table, one bucket, one node and the functions that work on them."""

    def __init__(self, name: str, relay_url: str, redis: RedisServer) -> None:
        self.name, self.redis = name, redis
        self._lives: list[Serving] = []
        self.clients, self.clock = Clients("control"), SystemClock()
        self.aws: dict[str, Any] = {
            "dynamodb": self.clients.dynamodb,
            "stepfunctions": self.clients.states,
            "s3": self.clients.s3,
            "ec2": self.clients.ec2,
        }
        self._make_table()
        self.key_machine = self._make_machine("key", json.dumps(_KEY_MACHINE).replace("TABLE", name))
        self.node_machine = self._make_machine("node", json.dumps(_NODE_MACHINE))
        self.token_machine = self._make_machine("token", json.dumps(_TOKEN_MACHINE))
        self.settings: Settings = replace(
            settings_from(
                {
                    "TABLE_NAME": name,
                    "BUCKET_NAME": BUCKET,
                    "KEY_LIFECYCLE_ARN": self.key_machine,
                    "REDIS_NODE_ARN": self.node_machine,
                    "RELAY_URL": relay_url,
                    "RELAY_USER": "control",
                    "MAX_HOT_KEYS": "3",
                    "MAX_OBJECT_BYTES": "4194304",
                }
            ),
            parameters=parameters_from_text(rate="9", sensitivity="4", overrides="tick_s=1,redis_check_s=1"),
            redis_nodes=(RedisNode(NODE, self._make_instance(), "127.0.0.1", redis.port),),
        )
        self.keys = KeyTable(name, self.clients.dynamodb, self.clock)
        self.nodes, self.executions = NodeTable(name, self.clients.dynamodb), Executions(self.clients.states)
        self.objects, self.secrets = ObjectStore(BUCKET, self.clients.s3), Secrets(self.clients.secrets)
        self.hot_keys = HotKeys(self.keys, self.settings.max_hot_keys, self.clients.dynamodb, self.clock)
        self.relay = RelayRequests(self.settings.relay, self.secrets, self.clock)
        self.control = RedisControl(
            nodes=self.nodes,
            keys=self.keys,
            executions=self.executions,
            instances=Instances(self.settings.instance_ids, self.clients.ec2, self.clock),
            objects=self.objects,
            relay=self.relay,
            store=cache(lambda name: RedisObjects(self.settings.node(name), self.secrets, "")),
            node_names=[NODE],
            machine_arn=self.node_machine,
            max_object_bytes=self.settings.max_object_bytes,
            parameters=self.settings.parameters,
            clock=self.clock,
        )
        self.node = self.control.node(NODE)

    def close(self) -> None:
        """Let go of connections and of the lives still under way."""
        for life in self._lives:
            life.join()
        self.relay.close()

    # what AWS has

    def _make_table(self) -> None:
        keys = [("pk", "HASH"), ("sk", "RANGE")]
        self.aws["dynamodb"].create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )

    def _make_machine(self, kind: str, definition: str) -> str:
        answer = self.aws["stepfunctions"].create_state_machine(
            name=f"{self.name}-{kind}", definition=definition, roleArn="arn:aws:iam::123456789012:role/any"
        )
        return str(answer["stateMachineArn"])

    def _make_instance(self) -> str:
        answer = self.aws["ec2"].run_instances(ImageId=_image(), MinCount=1, MaxCount=1)
        instance_id = str(answer["Instances"][0]["InstanceId"])
        self.aws["ec2"].stop_instances(InstanceIds=[instance_id])
        return instance_id

    def put_object(self, key: str, body: bytes = b"body") -> None:
        self.aws["s3"].put_object(Bucket=BUCKET, Key=key, Body=body)

    def executions_of(self, machine: str, status: str = "RUNNING") -> list[str]:
        answer = self.aws["stepfunctions"].list_executions(stateMachineArn=machine, statusFilter=status)
        return [execution["name"] for execution in answer["executions"]]

    def token(self, name: str) -> str:
        """Return a real token: the one of the key's execution of that name, or of a new execution."""
        if name not in self.executions_of(self.key_machine):
            self.executions.start(self.token_machine, name, {"table": self.name, "name": name})
        return str(self.until(lambda: self._item(f"TOKEN#{name}", "TOKEN").get("held")))

    def outcome(self, token_name: str) -> dict[str, Any]:
        """Return what the execution of that token ended with: its output, or its error."""
        for machine in (self.key_machine, self.token_machine):
            arn = execution_arn(machine, token_name)
            try:
                self.aws["stepfunctions"].describe_execution(executionArn=arn)
            except self.aws["stepfunctions"].exceptions.ExecutionDoesNotExist:
                continue
            ended = self.until(
                lambda arn=arn: (
                    (answer := self.aws["stepfunctions"].describe_execution(executionArn=arn))["status"] != "RUNNING"
                    and answer
                )
            )
            return json.loads(ended["output"]) if ended["status"] == "SUCCEEDED" else {"error": ended.get("error")}
        raise AssertionError(f"no execution {token_name}")

    def _item(self, pk: str, sk: str) -> dict[str, Any]:
        answer = self.aws["dynamodb"].get_item(TableName=self.name, Key=to_values({"pk": pk, "sk": sk}))
        return to_plain(answer.get("Item", {}))

    def until(self, ask: Callable[[], Any], within_s: float = 10) -> Any:
        """Return the first true answer."""
        give_up_s = time.monotonic() + within_s
        while not (answer := ask()):
            assert time.monotonic() < give_up_s, "it did not happen"
            time.sleep(0.02)
        return answer

    # the functions under test, and steps of theirs

    def now_us(self) -> int:
        return self.clock.now_us()

    def scheduler(self, executions: Executions | None = None, clock: Clock | None = None) -> Scheduler:
        return Scheduler(
            keys=self.keys,
            nodes=self.nodes,
            hot_keys=self.hot_keys,
            executions=executions or self.executions,
            machine_arn=self.key_machine,
            node_names=[NODE],
            max_object_bytes=self.settings.max_object_bytes,
            parameters=self.settings.parameters,
            clock=clock or self.clock,
        )

    def get_twice(self, key: str, scheduler: Scheduler | None = None, **more: int) -> list[str]:
        """Report two GETs within the threshold, as two events would."""
        now, size = more.get("at_us", self.now_us()), more.get("size_bytes", 4)
        scheduler = scheduler or self.scheduler()
        scheduler = replace(scheduler, clock=ManualClock(more.get("now_us", now) / 1e6))
        times = (now - 1000, now)
        return [scheduler.observe(key, Request(at_us, f"r{at_us}"), etag='"e"', size_bytes=size) for at_us in times]

    def started(self, key: str) -> KeyRow:
        """Make a key hot; return its row."""
        self.put_object(key)
        assert self.get_twice(key)[-1] == "started"
        return self.row(key)

    def row(self, key: str) -> KeyRow:
        row = self.keys.read(key_hash(key))
        assert row is not None
        return row

    def life(self, key: str) -> Life:
        return Life(key, key_hash(key), self.row(key).epoch)

    def joined(self, key: str) -> str:
        """Make a key hot and let it join the node; return the name under which `outcome` finds its token."""
        name = f"join-{self.started(key).hash}"
        self.control.key(key_hash(key)).join(self.life(key), self.token(name))
        return name

    def running(self, key: str) -> str:
        """Bring a key to Redis, the node booted for it or running; return the name of its running token."""
        waiter = self.joined(key)
        generation = self.nodes.read(NODE).generation
        self.node.await_ready(generation)
        assert self.outcome(waiter) == {"generation": generation}
        self.control.key(key_hash(key)).seed(self.life(key), generation)
        name = f"run-{key_hash(key)}"
        lease = next(lease for lease in self.nodes.leases(NODE) if lease.hash == key_hash(key))
        self.nodes.change_lease(lease, {"running": self.token(name)}, remove="waiter")
        return name

    def check(self, at_us: int | None = None) -> dict[str, Any]:
        """Run the node's check, by default at an instant at which every key is idle."""
        row = self.nodes.read(NODE)
        idle_at_us = self.now_us() + 2 * self.settings.parameters.redis_utilization_us
        return self.node.check(row.generation, check_at_us=at_us or idle_at_us, checks=0)

    def serve(self, key: str, *, holder: str = "one", remaining_s: float = 600) -> Serving:
        """Run a life of the cache function in a thread."""
        tools = CacheTools(
            keys=self.keys,
            nodes=self.nodes,
            executions=self.executions,
            objects=self.objects,
            node_names=(NODE,),
            max_object_bytes=4 << 20,
            parameters=self.settings.parameters,
            clock=self.clock,
        )
        relay = RelayListener(self.settings.relay, self.secrets)
        environment = CacheEnvironment(tools, relay, warm_copies(64 << 20))
        row = self.row(key)
        task = CacheTask(key, row.hash, row.epoch, self.token(row.execution_name), holder)
        self._lives.append(Serving(environment, task, remaining_s))
        return self._lives[-1]

    def janitor(self) -> Janitor:
        control = {
            "leave": lambda p: self.control.key(p["key_hash"]).leave(
                Life(p["key"], p["key_hash"], p["epoch"]),
                queue_us=p["queue_us"],
                is_failed=p["is_failed"],
                failures=p["failures"],
            ),
            "release": lambda p: self.control.node(p["node"]).stop_by_hand(),
        }
        return Janitor(
            keys=self.keys,
            nodes=self.nodes,
            executions=self.executions,
            instances=self.node.instances,
            key_lifecycle_arn=self.key_machine,
            redis_node_arn=self.node_machine,
            node_names=[NODE],
            redis_control=lambda payload: control[payload["op"]](payload),
            clock=_Hasty(),
        )


class _Hasty(SystemClock):
    """Does not sleep."""

    def sleep(self, duration_s: float) -> None:
        pass


class Serving:
    """A life of the cache function under way in a thread."""

    def __init__(self, environment: CacheEnvironment, task: CacheTask, remaining_s: float) -> None:
        self.end = ""
        self._thread = threading.Thread(target=self._run, args=(environment, task, remaining_s), daemon=True)
        self._thread.start()

    def _run(self, environment: CacheEnvironment, task: CacheTask, remaining_s: float) -> None:
        try:
            self.end = environment.run(task, remaining_ms=int(remaining_s * 1000))
        finally:
            environment.close()

    def join(self) -> str:
        self._thread.join(20)
        assert self.end, "the life goes on"
        return self.end
