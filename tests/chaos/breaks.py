"""The breaks: context managers that inject a fault for the duration of a `with` and count their effects."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache, partial
from random import Random

import redis

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_connection import connect
from burstcache.adapters.redis_objects import object_key
from burstcache.adapters.secrets import Secrets
from burstcache.settings.reader import ReaderSettings
from burstcache_local.faults import CallFault
from burstcache_local.signed_requests import Refusal
from burstcache_local.stepfunctions.execution import Execution
from chaos.stage import Stage
from support.processes import REDIS, processes_running, signal_named

RELAY = "nats-server"
_ENTERED = "stateEnteredEventDetails"
_LASTING = ("Task", "Wait")  # types of states
_INTO_STATE_S = (0.005, 0.05, 0.5)  # how long an execution has been in a state when it is stopped
_BY_HAND = {"error": "StoppedByHand", "cause": "made by a fault"}
_FILLER = b"f" * 3_000_000
_NOTICE_S = 10.0  # of an interruption, instead of AWS's two minutes


Break = Callable[[Stage], AbstractContextManager[None]]


def _counted(name: str, made: Break, done: Callable[[Stage], int]) -> Break:
    """Count the effects of a break while it lasts."""

    @contextmanager
    def broken(stage: Stage) -> Iterator[None]:
        before = done(stage)
        with made(stage):
            yield
        stage.counts[name] += done(stage) - before

    return broken


def repeated(act: Callable[[Stage], None], every_s: float) -> Break:
    """Act at once and then at intervals."""

    @contextmanager
    def broken(stage: Stage) -> Iterator[None]:
        over, errors = threading.Event(), list[Exception]()

        def work() -> None:
            try:
                act(stage)
                while not over.wait(every_s):
                    act(stage)
            except Exception as error:  # raised later by the thread that waits
                errors.append(error)

        thread = threading.Thread(target=work, name="break")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if errors:
            raise errors[0]

    return broken


def killed(process: str, every_s: float = 1000.0) -> Break:
    """Kill all servers with a process name, at intervals."""

    def kill(stage: Stage) -> None:
        stage.counts[f"{process} killed"] += len(signal_named(process, signal.SIGKILL))

    return repeated(kill, every_s)


def hubs_killed(stage: Stage) -> AbstractContextManager[None]:
    """Kill the pool's hub tasks, at intervals."""

    def kill(stage: Stage) -> None:
        for process in processes_running("hub_service"):
            with suppress(ProcessLookupError):  # it has ended
                os.kill(process, signal.SIGKILL)
                stage.counts["hubs killed"] += 1

    return repeated(kill, 10.0)(stage)


def frozen(process: str) -> Break:
    """Freeze the servers with a process name by SIGSTOP."""

    @contextmanager
    def broken(stage: Stage) -> Iterator[None]:
        stage.counts[f"{process} frozen"] += len(signal_named(process, signal.SIGSTOP))
        try:
            yield
        finally:
            signal_named(process, signal.SIGCONT)

    return broken


@contextmanager
def nodes_thinned(stage: Stage) -> Iterator[None]:
    """Throttle the nodes' answers to 200 bytes a second."""
    stage.counts["nodes thinned"] += len(_signal_fronts(signal.SIGUSR1))
    try:
        yield
    finally:
        _signal_fronts(signal.SIGUSR2)


def _signal_fronts(number: signal.Signals) -> list[int]:
    """Send a signal to the TLS servers in front of the nodes; return their process ids."""
    fronts = processes_running("tls_server")
    for process in fronts:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(process, number)
    return fronts


def function_killed(logical_id: str, every_s: float, count: int | None = 1) -> Break:
    """Kill environments of a function, busy or not, at intervals; `count` None: all of them."""

    def kill(stage: Stage) -> None:
        stage.counts[f"{logical_id} killed"] += stage.cloud.kill(logical_id, count)

    return repeated(kill, every_s)


def calls(
    service: str, *operations: str, delay_s: float = 0.0, refusal: Refusal | None = None, is_cut: bool = False
) -> Break:
    """Delay, refuse or cut off calls of a service."""

    def made(stage: Stage) -> AbstractContextManager[None]:
        return stage.cloud.faults.inject_call_fault(
            CallFault(service, frozenset(operations), delay_s, refusal, is_cut=is_cut)
        )

    return _counted(f"calls of {service}", made, lambda stage: stage.cloud.faults.counts["calls"])


def unavailable(service: str, *operations: str, code: str = "ServiceUnavailable") -> Break:
    """Answer calls of a service with a 503."""
    return calls(service, *operations, refusal=Refusal(code, "503 Service Unavailable", "made by a fault"))


def events(deliveries: Callable[[Random], Sequence[float]]) -> Break:
    """Deliver each event once per delay [s]; without delays it is lost."""

    def made(stage: Stage) -> AbstractContextManager[None]:
        return stage.cloud.faults.schedule_events(lambda: deliveries(stage.chance))

    return _counted("events", made, lambda stage: stage.cloud.faults.counts["events"])


def refused(*logical_ids: str) -> Break:
    """Throttle invocations of functions, as Lambda does without concurrency."""

    def made(stage: Stage) -> AbstractContextManager[None]:
        return stage.cloud.out_of_concurrency(*logical_ids)

    return _counted("invocations refused", made, lambda stage: stage.cloud.refusals)


def clocks(*ahead_s: float) -> Break:
    """Set the clocks of starting functions ahead by these times in turn."""

    def made(stage: Stage) -> AbstractContextManager[None]:
        return stage.cloud.clocks_ahead(ahead_s)

    return _counted("clocks", made, lambda stage: stage.cloud.faults.counts["clocks"])


def nodes_silent() -> Break:
    """Keep booting nodes from answering."""
    return _counted(
        "nodes silent",
        lambda stage: stage.cloud.faults.silence_nodes(),
        lambda stage: stage.cloud.faults.counts["nodes"],
    )


def volumes_full() -> Break:
    """Fill the volumes of booting instances."""
    return _counted(
        "servers without room",
        lambda stage: stage.cloud.faults.fill_volumes(),
        lambda stage: stage.cloud.faults.counts["volumes"],
    )


def instances_lost(stage: Stage) -> AbstractContextManager[None]:
    """Kill the servers of all running instances, then stop the instances."""

    def lose(stage: Stage) -> None:
        ec2 = stage.client("ec2")
        found = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])
        ids = [each["InstanceId"] for group in found["Reservations"] for each in group["Instances"]]
        signal_named(REDIS, signal.SIGKILL)
        if ids:
            ec2.stop_instances(InstanceIds=ids)
            stage.counts["instances lost"] += len(ids)

    return repeated(lose, 1000.0)(stage)


def tasks_interrupted(stage: Stage) -> AbstractContextManager[None]:
    """Take Spot's capacity back from all running tasks, once."""

    def interrupt(stage: Stage) -> None:
        stage.counts["tasks interrupted"] += len(stage.cloud.interrupt_tasks(notice_s=_NOTICE_S))

    return repeated(interrupt, 1000.0)(stage)


@contextmanager
def boots_interrupted(stage: Stage) -> Iterator[None]:
    """Take Spot's capacity back from each task that boots, which takes a second longer."""

    def interrupt(stage: Stage) -> None:
        ended = stage.cloud.interrupt_tasks(notice_s=_NOTICE_S, only_booting=True)
        stage.counts["boots interrupted"] += len(ended)

    with stage.cloud.faults.delay_tasks(1.0), repeated(interrupt, 1.0)(stage):
        yield


def tasks_refused(*providers: str) -> Break:
    """Leave capacity providers without capacity."""
    return _counted(
        "tasks refused",
        lambda stage: stage.cloud.faults.refuse_tasks(*providers),
        lambda stage: stage.cloud.faults.counts["tasks"],
    )


def images_removed() -> Break:
    """Take away the image of booting tasks."""
    return _counted(
        "tasks without image",
        lambda stage: stage.cloud.faults.remove_images(),
        lambda stage: stage.cloud.faults.counts["tasks"],
    )


def redis_filled(stage: Stage) -> AbstractContextManager[None]:
    """Fill the memory of a node with foreign objects, again and again."""
    settings = ReaderSettings.read(json.loads(stage.cloud.outputs["ReaderSettings"]))
    (node,) = settings.redis_nodes
    rows = NodeTable(settings.table_name, stage.client("dynamodb"), SystemClock())

    @cache
    def server_at(host: str) -> redis.Redis:
        return connect(host, node.port, settings.redis, Secrets(stage.client("ssm")))

    def fill(stage: Stage) -> None:
        host = rows.read(node.name).host if node.is_task else node.host  # each task has another address
        if not host:
            return
        server = server_at(host)
        with suppress(redis.RedisError):  # the node may stop meanwhile
            for _ in range(20):
                server.hset(object_key(f"filler-{stage.counts['fillers written']}"), "data", _FILLER)
                stage.counts["fillers written"] += 1

    return repeated(fill, 0.5)(stage)


def executions_stopped(machine: str) -> Break:
    """Stop one execution of a machine in each state that one enters, as a person would.

    The machine is named by its stack output. Task and Wait states that no execution entered are counted as 0.
    """
    return partial(_Stops, machine)


class _Stops(AbstractContextManager[None]):
    """Stops of executions: of one that enters a state, a moment later, and of one that is in a state already."""

    def __init__(self, machine: str, stage: Stage) -> None:
        self._stage, self._arn = stage, stage.cloud.outputs[machine]
        self._states = stage.client("stepfunctions")
        self._in_state: dict[str, str] = {}  # by execution
        self._done: set[str] = set()  # states
        self._is_over = False
        self._opened = ExitStack()

    def __enter__(self) -> None:
        definition = json.loads(self._states.describe_state_machine(stateMachineArn=self._arn)["definition"])
        lasting = [name for name, state in definition["States"].items() if state["Type"] in _LASTING]
        self._stage.counts.update({_stopped(name): 0 for name in lasting})
        self._opened.enter_context(self._stage.cloud.entering(self._entered))
        self._opened.enter_context(repeated(lambda stage: self._stop_all(), 1.0)(self._stage))

    def __exit__(self, *error: object) -> None:
        self._is_over = True  # cancels stops that are still due
        self._opened.close()

    def _entered(self, execution: Execution, state: str) -> None:
        if execution.machine_arn == self._arn:
            self._in_state[execution.arn] = state
            after_s = self._stage.chance.choice(_INTO_STATE_S)
            asyncio.get_running_loop().call_later(after_s, self._stop_in, execution, state)

    def _stop_in(self, execution: Execution, state: str) -> None:
        is_there = execution.status == "RUNNING" and self._in_state[execution.arn] == state
        if is_there and not self._is_over and state not in self._done:
            execution.stop(**_BY_HAND)
            self._note(state)

    def _stop_all(self) -> None:
        found = self._states.list_executions(stateMachineArn=self._arn, statusFilter="RUNNING")["executions"]
        for arn in (each["executionArn"] for each in found):
            history = self._states.get_execution_history(executionArn=arn, reverseOrder=True)["events"]
            entered = [each[_ENTERED]["name"] for each in history if _ENTERED in each]
            if entered and entered[0] not in self._done:
                self._states.stop_execution(executionArn=arn, **_BY_HAND)
                self._note(entered[0])

    def _note(self, state: str) -> None:
        self._done.add(state)
        self._stage.counts[_stopped(state)] += 1


def _stopped(state: str) -> str:
    return f"stopped in {state}"
