"""The local cloud, which runs everything in template.yaml on this machine."""

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
from burstcache_local.errors import GuardrailError, LocalCloudError, TemplateError
from burstcache_local.event_sources import EventSource, Mapped
from burstcache_local.faults import Faults
from burstcache_local.front.access_log import AccessLog
from burstcache_local.front.front_door import Front
from burstcache_local.functions import EventInvokeConfig, FunctionSpec
from burstcache_local.iam.creation import StackCreation
from burstcache_local.iam.guard import Guard
from burstcache_local.iam.guardrail import Guardrail
from burstcache_local.lambdas import lambda_api
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.reclaims import ReclaimPattern, run_reclaims
from burstcache_local.lambdas.schedules import run_schedules
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.loop import LoopThread
from burstcache_local.machines.network import LoopbackBlock
from burstcache_local.machines.nodes import NodeAgent, NodeTimes
from burstcache_local.machines.relay import TaskAgent
from burstcache_local.machines.tasks import TaskRunner, TaskTimes
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
_DEFAULTS = {"Relay": "nlb"}  # enables all tiers, and costs nothing here
_FURTHER_SETTINGS = {"BURSTCACHE_POOL": "PoolSettings", "BURSTCACHE_STATE": "StateSettings"}  # optional outputs


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Options of the local cloud."""

    template: Path = _PROJECT / "template.yaml"
    parameters: Mapping[str, str] = field(default_factory=dict)  # overrides of the template's defaults
    origin: Path | None = None  # folder with files to upload to the origin
    front_port: int = 0  # 0: any free port
    endpoint_port: int = 0
    boot_s: float = 1.0  # boot time of an instance or a node's task
    stop_s: float = 0.5  # shutdown time of an instance
    task_times: TaskTimes | None = None  # of nodes on Fargate (None: half of `boot_s` until the pull, half after)
    task_environment: Mapping[str, str] = field(default_factory=dict)  # additional variables of their tasks
    environment: Mapping[str, str] = field(default_factory=dict)  # additional variables of every function
    limits: LambdaLimits = field(default_factory=LambdaLimits)
    reclaims: ReclaimPattern | None = None  # for tenants' environments (None: environments end only when idle)
    stack_name: str = "burstcache"
    run_dir: Path | None = None  # folder for logs (None: a temporary folder)
    tags: Mapping[str, str] = field(default_factory=dict)  # of the stack
    guardrail: Mapping[str, Any] | None = None  # a service control policy of the account
    deployer: Mapping[str, Any] | None = None  # policy of the deploying role (None: it may do everything)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # managed policies of the account, by name


class LocalCloud:
    """The whole system in this process and its child processes."""

    def __init__(self, options: LocalOptions | None = None) -> None:
        self.options = options or LocalOptions()
        self.stack_name = self.options.stack_name
        self.front_url = ""  # URL of the HTTP API or load balancer, for clients
        self.endpoint_url = ""  # endpoint of all AWS services
        self.lambda_endpoint_url = ""  # Lambda's Invoke API, without the detour through `endpoint_url`
        self.outputs: dict[str, str] = {}
        self.physical_ids: dict[str, str] = {}  # by logical id
        self.faults = Faults()  # injected failures
        self._on_enter: Callable[[Execution, str], None] = lambda execution, state: None
        self._stacks: list[Stack] = []  # the system's own stack first
        self._closers = ExitStack()
        self._is_ending = False

    def __enter__(self) -> LocalCloud:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def bucket_name(self) -> str:
        """Name of the origin bucket."""
        return self.outputs["BucketName"]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for a program that uses this cloud through boto3 or burstcache.client."""
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
        """Environment variables for the functions by logical id, in the format of `sam local invoke --env-vars`.

        `Parameters` applies to every function, so that functions missing in this run cannot reach AWS either.
        """
        shared = {"AWS_ENDPOINT_URL": self.endpoint_url, "AWS_USE_DUALSTACK_ENDPOINT": "false"}
        functions = {name: self.function_variables(name) for name in self._stacks[0].template.roots}
        return {"Parameters": shared, **functions}

    def client(self, service: str) -> Any:
        """Return a boto3 client for one of this cloud's services."""
        return self._services.client(service)

    def invoke(self, logical_id: str, payload: object) -> Any:
        """Invoke a function from the template, and return its result.

        Raises:
            LocalCloudError: The function failed. The message contains the function's error as JSON.
        """
        name = self.physical_ids[logical_id]
        outcome = self._loop.run(self._lambdas.invoke(name, json.dumps(payload).encode()))
        if outcome.error:
            raise LocalCloudError(f"{logical_id} failed: {outcome.body.decode()}")
        return json.loads(outcome.body)

    @contextmanager
    def out_of_concurrency(self, *logical_ids: str) -> Iterator[None]:
        """Throttle all invocations, or only invocations of the given functions, for the duration of a `with`.

        This simulates an account at its concurrency limit, or functions with a reserved concurrency of 0.
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
        """Set the clocks of new environments ahead by these offsets [s], round-robin, for the duration of a `with`.

        An environment that is busy when the block starts or ends keeps its clock until it has responded.
        """
        with self.faults.shift_clocks(ahead_s):
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
        """Number of invocations throttled by a concurrency limit."""
        return self._lambdas.refusals

    def provision(self, logical_id: str, count: int) -> None:
        """Start environments of a function until `count` environments are idle."""

        async def provision() -> None:
            spec, _ = await self._lambdas.function(self.physical_ids[logical_id])
            await self._lambdas.environments.provision(spec, count)

        self._loop.run(provision())

    def end_free(self, *logical_ids: str) -> None:
        """Stop idle environments of the given functions (default: all), so that the next invocations start cold."""
        names = {self.physical_ids[logical_id] for logical_id in logical_ids} or None
        self._loop.loop.call_soon_threadsafe(self._lambdas.environments.end_free, names)

    @property
    def invocations_under_way(self) -> int:
        """Number of running and pending invocations."""
        queued = sum(source.under_way for source in self._deliveries.sources)
        return self._lambdas.under_way + self._deliveries.late + queued

    def kill(self, logical_id: str, count: int | None = None) -> int:
        """Kill up to `count` environments of a function, including busy environments. Return the number killed."""

        async def kill() -> int:
            return self._lambdas.environments.kill(self.physical_ids[logical_id], count)

        return self._loop.run(kill())

    def reclaim(self, count: int) -> list[str]:
        """Reclaim up to `count` environments of tenants, and return these tenants. Busy environments finish first."""

        async def reclaim() -> list[str]:
            return self._lambdas.environments.reclaim(count, Random())

        return self._loop.run(reclaim())

    def interrupt_tasks(
        self, count: int | None = None, *, notice_s: float = 120.0, only_booting: bool = False
    ) -> list[str]:
        """Take Spot's capacity back from up to `count` tasks (None: all), and return their ARNs.

        Args:
            count: The most tasks.
            notice_s: Time from the notice, which is SIGTERM and an event, to SIGKILL [s].
            only_booting: Whether running tasks are spared.
        """
        return self._tasks.interrupt(count, notice_s=notice_s, only_booting=only_booting)

    def deploy(self, template: Path, stack_name: str, parameters: Mapping[str, str] | None = None) -> Stack:
        """Deploy an application's stack next to the system's own stack. The application's HTTP API is not served.

        Args:
            template: The stack's SAM template.
            stack_name: The stack's name.
            parameters: Parameter values. A parameter with the name of a system output defaults to that output.

        Raises:
            TemplateError: The template cannot be used.
        """
        declared = read(template).get("Parameters", {})
        values = {name: value for name, value in self.outputs.items() if name in declared}
        return self._create(stack_name, self._load(template, {**values, **(parameters or {})}), template)

    def function_variables(self, logical_id: str) -> dict[str, str]:
        """Return the environment variables of a function in the template."""
        spec, _ = self._loop.run(self._lambdas.function(self.physical_ids[logical_id]))
        return dict(spec.variables)

    def start(self) -> None:
        """Start all components. If one fails, stop the others.

        Raises:
            LocalCloudError: A requirement is missing. The message says what is missing and what to do, in one line.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all running components in reverse start order."""
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
        self._guardrail = Guardrail(options.guardrail, options.deployer)
        self.guard = Guard(self.region, guardrail=self._guardrail)
        template = self._load(options.template, options.parameters)
        self.run_dir = options.run_dir or self._temporary_dir()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._access_log = AccessLog(self.run_dir)
        self._closers.callback(self._access_log.close)  # after the event loop, which serves the last requests
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
        times = options.task_times or TaskTimes(provision_s=options.boot_s / 2, pull_s=options.boot_s / 2)
        self._tasks = TaskRunner(self._services, times, self.run_dir, self.faults, options.task_environment)
        self._tasks.start()
        self._closers.callback(self._tasks.stop)
        tasks = TaskAgent(self._services, self.run_dir, self._task_variables())
        for name, document in options.policies.items():
            self._services.client("iam").create_policy(PolicyName=name, PolicyDocument=json.dumps(document))
        self._create_stack(template)
        tasks.start()
        self._closers.callback(tasks.stop)
        upload(files, self.bucket_name, self._services.client("s3"))

    def _task_variables(self) -> dict[str, str]:
        """Return additional environment variables for task containers."""
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
            on_end=self._publish_end,
        )
        self._closers.callback(lambda: self._loop.loop.call_soon_threadsafe(states.close))
        return HttpApi(states, self._loop.loop)

    def _publish_end(self, execution: Execution) -> None:
        arguments = (self.region, execution.arn, execution.machine_arn, execution.status)
        _ = self._loop.loop.run_in_executor(None, execution_events.publish_end, *arguments)

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
        stack = Stack(name, template, self._services, self.options.tags)
        try:
            self._guardrail.check(StackCreation(template, name, self.region, self.options.tags))
        except GuardrailError as error:
            raise GuardrailError(f"{path}: {error}") from None
        self._stacks.append(stack)  # first, because custom resources invoke its functions during creation
        try:
            stack.create()
        except TemplateError as error:
            raise TemplateError(f"{path}: {error}") from None
        schedules = run_schedules(template.schedules, stack.outputs, self._deliveries.deliver, self.region)
        asyncio.run_coroutine_threadsafe(schedules, self._loop.loop)
        for mapped in stack.event_sources():
            asyncio.run_coroutine_threadsafe(self._take_events(mapped), self._loop.loop)
        return stack

    async def _take_events(self, mapped: Mapped) -> None:
        source = EventSource(mapped, self._lambdas, self._services, self.guard)
        self._deliveries.sources.append(source)
        await source.run()

    async def _resolve(self, name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        # A function that no finished stack contains belongs to the stack being created.
        stacks = [stack for stack in self._stacks if name in stack.physical_ids.values()] or self._stacks[-1:]
        template = stacks[0].template
        functions = {id_: template.resources[id_]["Properties"] for id_ in template.roots}
        roots = {functions[id_]["Handler"]: root for id_, root in template.roots.items()}
        isolated = {properties["Handler"] for properties in functions.values() if "TenancyConfig" in properties}
        variables = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true",  # moto has no sessions
            "AWS_ENDPOINT_URL_LAMBDA": self.lambda_endpoint_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",  # botocore refuses dualstack together with a custom endpoint
            **({"AWS_XRAY_DAEMON_ADDRESS": self._traces.address} if self._traces else {}),
            **self.options.environment,
        }
        return await asyncio.get_running_loop().run_in_executor(
            None, function_named, name, roots, isolated, variables, self._services
        )
