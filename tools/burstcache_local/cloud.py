"""The local cloud: everything that template.yaml describes, on this machine."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web

from burstcache_local import ports
from burstcache_local.deliveries import Deliveries, Destinations
from burstcache_local.errors import LocalCloudError, TemplateError
from burstcache_local.faults import Faults
from burstcache_local.front.access_log import AccessLog
from burstcache_local.front.front_door import Front
from burstcache_local.functions import EventInvokeConfig, FunctionSpec
from burstcache_local.iam.guard import Guard
from burstcache_local.lambdas import lambda_api
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.reclaims import ReclaimPattern, run_reclaims
from burstcache_local.lambdas.schedules import run_schedules
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.loop import LoopThread
from burstcache_local.machines.network import LoopbackBlock
from burstcache_local.machines.nodes import NodeAgent, NodeTimes
from burstcache_local.machines.relay import TaskAgent
from burstcache_local.moto import execution_events
from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from burstcache_local.origin import origin_files, upload
from burstcache_local.signed_requests import refusing_malformed
from burstcache_local.stack import Stack, function_named
from burstcache_local.stepfunctions.execution import Execution
from burstcache_local.stepfunctions.http import HttpApi
from burstcache_local.stepfunctions.integrations import invoke_of, update_item_of
from burstcache_local.stepfunctions.service import StepFunctions
from burstcache_local.template.pipeline import load_template
from burstcache_local.template.read import read
from burstcache_local.template.template import LocalTemplate
from burstcache_local.traces import TraceDaemon

_PROJECT = Path(__file__).parents[2]
_DEFAULTS = {"Relay": "nlb"}  # a relay costs nothing here, and every tier is to be seen
_FURTHER_SETTINGS = {"BURSTCACHE_POOL": "PoolSettings", "BURSTCACHE_STATE": "StateSettings"}  # outputs of some stacks


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """How to run the local cloud."""

    template: Path = _PROJECT / "template.yaml"
    parameters: Mapping[str, str] = field(default_factory=dict)  # values that replace the template's defaults
    origin: Path | None = None  # a folder whose files become the origin's objects
    front_port: int = 0  # 0: any free one
    endpoint_port: int = 0
    boot_s: float = 1.0  # how long an instance takes to start …
    stop_s: float = 0.5  # … and to stop
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that every function gets
    limits: LambdaLimits = field(default_factory=LambdaLimits)
    reclaims: ReclaimPattern | None = None  # of tenants' environments; None: none but those that were idle for long
    stack_name: str = "burstcache"
    run_dir: Path | None = None  # where logs go; None: a folder that is removed at the end


class LocalCloud:
    """The whole system in this process and its children."""

    def __init__(self, options: LocalOptions | None = None) -> None:
        self.options = options or LocalOptions()
        self.stack_name = self.options.stack_name
        self.front_url = ""  # what clients talk to
        self.endpoint_url = ""  # all AWS services
        self.lambda_endpoint_url = ""  # invocations of functions, without the way through the former
        self.outputs: dict[str, str] = {}
        self.physical_ids: dict[str, str] = {}  # by logical id
        self.faults = Faults()  # what goes wrong meanwhile
        self._on_enter: Callable[[Execution, str], None] = lambda execution, state: None
        self._stacks: list[Stack] = []  # the first one is the system's
        self._closers = ExitStack()
        self._is_ending = False

    def __enter__(self) -> LocalCloud:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def bucket_name(self) -> str:
        """The origin bucket."""
        return self.outputs["BucketName"]

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a program that reads from this cloud by boto3 or by burstcache.client."""
        return {
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true",  # moto has no sessions
            "BUCKET_NAME": self.bucket_name,
            "BURSTCACHE_READER": self.outputs["ReaderSettings"],
            **{name: self.outputs[output] for name, output in _FURTHER_SETTINGS.items() if output in self.outputs},
        }

    @property
    def sam_variables(self) -> dict[str, dict[str, str]]:
        """The environments of its functions, by logical id, in the form that `sam local invoke --env-vars` takes.

        `Parameters` is for all: a function that this run does not have must not reach AWS either.
        """
        shared = {"AWS_ENDPOINT_URL": self.endpoint_url, "AWS_USE_DUALSTACK_ENDPOINT": "false"}
        functions = {name: self.function_variables(name) for name in self._stacks[0].template.roots}
        return {"Parameters": shared, **functions}

    def client(self, service: str) -> Any:
        """Return a boto3 client of a service of this cloud."""
        return self._services.client(service)

    def invoke(self, logical_id: str, payload: object) -> Any:
        """Invoke a function of the template and return what it returns.

        Raises:
            LocalCloudError: The function failed; the message is its error as JSON.
        """
        name = self.physical_ids[logical_id]
        outcome = self._loop.run(self._lambdas.invoke(name, json.dumps(payload).encode()))
        if outcome.error:
            raise LocalCloudError(f"{logical_id} failed: {outcome.body.decode()}")
        return json.loads(outcome.body)

    @contextmanager
    def out_of_concurrency(self, *logical_ids: str) -> Iterator[None]:
        """Refuse every invocation, or those of some functions, for the duration of a `with`.

        So does an account whose concurrency is used up, or a function that reserves none.
        """
        usual = self._lambdas.concurrency, self._lambdas.refused
        if logical_ids:
            self._lambdas.refused |= {self.physical_ids[logical_id] for logical_id in logical_ids}
        else:
            self._lambdas.concurrency = 0
        try:
            yield
        finally:
            self._lambdas.concurrency, self._lambdas.refused = usual

    @contextmanager
    def clocks_ahead(self, ahead_s: Sequence[float]) -> Iterator[None]:
        """Let the clocks of functions be ahead by these times in turn [s], for the duration of a `with`.

        Those that run an invocation at its begin or end keep their clocks until they have answered.
        """
        with self.faults.of_clocks(ahead_s):
            self.end_free()
            yield
        self.end_free()

    @contextmanager
    def entering(self, seen: Callable[[Execution, str], None]) -> Iterator[None]:
        """Call `seen` in the event loop before an execution enters a state, for the duration of a `with`."""
        usual, self._on_enter = self._on_enter, seen
        try:
            yield
        finally:
            self._on_enter = usual

    @property
    def refusals(self) -> int:
        """How many invocations were refused for lack of concurrency."""
        return self._lambdas.refusals

    def provision(self, logical_id: str, count: int) -> None:
        """Have this number of environments of a function wait for an invocation."""

        async def provision() -> None:
            spec, _ = await self._lambdas.function(self.physical_ids[logical_id])
            await self._lambdas.environments.provision(spec, count)

        self._loop.run(provision())

    def end_free(self, *logical_ids: str) -> None:
        """End environments that wait for an invocation, of these functions or of all: the next ones find new ones."""
        names = {self.physical_ids[logical_id] for logical_id in logical_ids} or None
        self._loop.loop.call_soon_threadsafe(self._lambdas.environments.end_free, names)

    @property
    def invocations_under_way(self) -> int:
        """How many invocations of functions run, or are still to come."""
        return self._lambdas.under_way + self._deliveries.late

    def kill(self, logical_id: str, count: int | None = None) -> int:
        """Let environments of a function die in the middle of their work, at most `count`; return how many did."""

        async def kill() -> int:
            return self._lambdas.environments.kill(self.physical_ids[logical_id], count)

        return self._loop.run(kill())

    def reclaim(self, count: int) -> list[str]:
        """Have environments of tenants reclaimed; return whose. Busy ones end after their invocation."""

        async def reclaim() -> list[str]:
            return self._lambdas.environments.reclaim(count, Random())

        return self._loop.run(reclaim())

    def deploy(self, template: Path, stack_name: str, parameters: Mapping[str, str] | None = None) -> Stack:
        """Create another stack next to the system's: an application that uses it. Nothing serves its HTTP API here.

        Args:
            template: Its SAM template.
            stack_name: Its name.
            parameters: Values of its parameters. Those that are called as the system's outputs have their values.

        Raises:
            TemplateError: It cannot be used.
        """
        declared = read(template).get("Parameters", {})
        values = {name: value for name, value in self.outputs.items() if name in declared}
        return self._create(stack_name, self._load(template, {**values, **(parameters or {})}), template)

    def function_variables(self, logical_id: str) -> dict[str, str]:
        """Return the environment variables of a function of the template."""
        spec, _ = self._loop.run(self._lambdas.function(self.physical_ids[logical_id]))
        return dict(spec.variables)

    def start(self) -> None:
        """Start everything, or leave nothing behind if that fails.

        Raises:
            LocalCloudError: Something is missing; the message says in one line what is wrong and what to do.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything that runs, the newest first."""
        self._is_ending = True
        self._closers.close()

    def _start(self) -> None:
        options = self.options
        ports.check_free(options.front_port, options.endpoint_port)
        files = origin_files(options.origin) if options.origin else []
        block = self._block = LoopbackBlock()
        self._closers.callback(block.release)
        self._services = Services()
        self._closers.callback(self._services.close)
        self.region = self._services.region
        self.guard = Guard(self.region)
        template = self._load(options.template, options.parameters)
        self.run_dir = options.run_dir or self._temporary_dir()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._access_log = AccessLog(self.run_dir)
        self._closers.callback(self._access_log.close)  # after the loop, in which the last requests are answered
        self._start_lambda(is_traced=template.is_traced)
        states = self._start_step_functions()
        server = MotoServer(
            self._services,
            options.endpoint_port,
            before=lambda moto: refusing_malformed(
                self.faults.before(
                    self.guard.before(
                        states.before(
                            lambda_api.before(moto, lambda: self._services.lambda_url, lambda: server.waiting())
                        )
                    )
                )
            ),
        )
        self.faults.more_threads = server.more_threads
        self.endpoint_url = server.start()
        self._closers.callback(server.stop)
        self._services.relay_address = block.relay_address
        self._start_servers()
        nodes = NodeAgent(self._services, NodeTimes(options.boot_s, options.stop_s), self.run_dir, self.faults)
        nodes.start()
        self._closers.callback(nodes.stop)
        tasks = TaskAgent(self._services, self.run_dir, self._task_variables())
        self._create_stack(template)
        tasks.start()
        self._closers.callback(tasks.stop)
        upload(files, self.bucket_name, self._services.client("s3"))

    def _task_variables(self) -> dict[str, str]:
        """Return what the containers of tasks get in addition to their own variables."""
        address = self._block.relay_address
        return {
            "RELAY_HOST": address,
            "HUB_HOST": address,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_LAMBDA": self.lambda_endpoint_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",
        }

    def _temporary_dir(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="burstcache-", ignore_cleanup_errors=True)
        self._closers.callback(folder.cleanup)
        return Path(folder.name)

    def _start_lambda(self, *, is_traced: bool) -> None:
        self._traces = TraceDaemon(self.run_dir) if is_traced else None
        if self._traces is not None:
            self._closers.callback(self._traces.close)
        self._loop = LoopThread()
        self._closers.callback(self._loop.stop)
        destinations = Destinations(self._services, self.guard, lambda: self._is_ending)
        self._lambdas = Lambdas(
            resolve=self._resolve,
            send=destinations.send_failure,
            logs=self.run_dir,
            limits=self.options.limits,
            traces=self._traces,
            clock_ahead_s=self.faults.clock_ahead_s,
        )
        self._closers.callback(lambda: self._loop.run(self._lambdas.close()))
        self._loop.run(self._lambdas.start())
        self._deliveries = Deliveries(self._lambdas, destinations, self.guard, self.faults, self._loop.loop)
        if self.options.reclaims:
            reclaims = run_reclaims(self.options.reclaims, self._lambdas, self.run_dir / "reclaims.log")
            asyncio.run_coroutine_threadsafe(reclaims, self._loop.loop)

    def _start_step_functions(self) -> HttpApi:
        calls = {
            "lambda:invoke": invoke_of(self._lambdas),
            "aws-sdk:dynamodb:updateItem": update_item_of(lambda: self._services.client("dynamodb")),
        }
        calls = {resource: self.guard.task(resource, call) for resource, call in calls.items()}
        states = StepFunctions(
            region=self.region,
            calls=calls,
            now_us=lambda: time.time_ns() // 1000,
            on_enter=lambda execution, state: self._on_enter(execution, state),
            on_end=self._tell_of_end,
        )
        self._closers.callback(lambda: self._loop.loop.call_soon_threadsafe(states.close))
        return HttpApi(states, self._loop.loop)

    def _tell_of_end(self, execution: Execution) -> None:
        told = (self.region, execution.arn, execution.machine_arn, execution.status)
        _ = self._loop.loop.run_in_executor(None, execution_events.tell, *told)

    def _start_servers(self) -> None:
        self._front = Front(self._lambdas, self._access_log)
        self.front_url = self._loop.serve(
            lambda: web.ServerRunner(self._front.server(), shutdown_timeout=0.5), self.options.front_port
        )
        problem = self.guard.invocation_problem
        self.lambda_endpoint_url = self._loop.serve(
            lambda: lambda_api.runner(self._lambdas, self._services.answers, problem)
        )
        self._services.front_url, self._services.lambda_url = self.front_url, self.lambda_endpoint_url
        self._services.deliver = self._deliveries.begin
        self._closers.callback(setattr, self._services, "deliver", None)

    def _load(self, template: Path, parameters: Mapping[str, str]) -> LocalTemplate:
        return load_template(
            template,
            parameters,
            vpc_block=self._block.cidr,
            relay_address=self._block.relay_address,
            region=self.region,
            defaults=_DEFAULTS,
        )

    def _create_stack(self, template: LocalTemplate) -> None:
        stack = self._create(self.options.stack_name, template, self.options.template)
        self.outputs, self.physical_ids = stack.outputs, stack.physical_ids
        self._front.door = stack.door()

    def _create(self, name: str, template: LocalTemplate, path: Path) -> Stack:
        stack = Stack(name, template, self._services)
        self._stacks.append(stack)  # from here on its functions can be called, which custom resources need
        try:
            stack.create()
        except TemplateError as error:
            raise TemplateError(f"{path}: {error}") from None
        schedules = run_schedules(template.schedules, stack.outputs, self._deliveries.deliver, self.region)
        asyncio.run_coroutine_threadsafe(schedules, self._loop.loop)
        return stack

    async def _resolve(self, name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        # A function that no finished stack has is one of the stack that is being created.
        stacks = [stack for stack in self._stacks if name in stack.physical_ids.values()] or self._stacks[-1:]
        template = stacks[0].template
        functions = {id_: template.resources[id_]["Properties"] for id_ in template.roots}
        roots = {functions[id_]["Handler"]: root for id_, root in template.roots.items()}
        isolated = {properties["Handler"] for properties in functions.values() if "TenancyConfig" in properties}
        variables = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true",  # moto has no sessions
            "AWS_ENDPOINT_URL_LAMBDA": self.lambda_endpoint_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",  # botocore refuses it together with an endpoint of one's own
            **({"AWS_XRAY_DAEMON_ADDRESS": self._traces.address} if self._traces else {}),
            **self.options.environment,
        }
        return await asyncio.get_running_loop().run_in_executor(
            None, function_named, name, roots, isolated, variables, self._services
        )
