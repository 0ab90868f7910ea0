"""A stack's measured usage during a replay, saved as `measured.json`, because the stack may be deleted later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.metric_queries import values_of
from burstcache_cli.service_use import ServiceUse, queries_of, use_of
from burstcache_cli.stack import Stack
from burstcache_local import state_file
from burstcache_replay.executions import Executions, Lives, NodeRun, read_executions
from burstcache_replay.function_use import FunctionUse, of_log_files, of_log_groups, of_metrics

MEASURED = "measured.json"
LATE_S = 180  # maximum delay until CloudWatch publishes metrics
FUNCTIONS = ("ProxyFunction", "SchedulerFunction", "CacheFunction", "RedisControlFunction")
_US_PER_MINUTE = 60_000_000
ALWAYS_ON = "REDIS_ALWAYS_ON_NODES"  # environment variable of RedisControlFunction
_WITHOUT_REPORTS = "ProxyFunction"  # on AWS, two log lines per read would cost a fifth of a hit (template.yaml)
# The scheduler's environment variables that affect its decisions.
_SETTINGS = (
    "POLICY", "POLICY_RATE", "POLICY_SENSITIVITY", "POLICY_OVERRIDES", "HIT_VALUE_USD_PER_MILLION", "HAS_RELAY",
    "REDIS_NODES", "REDIS_INSTANCE_TYPE", "CACHE_MEMORY_MB", "EXPRESS_BUCKET",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """A stack's usage from the first request until the tiers were off again, and the settings behind its decisions."""

    settings: Mapping[str, str]  # with `AWS_REGION`
    architecture: str  # of the stack's functions
    functions: Mapping[str, FunctionUse]  # by logical id
    executions: Executions
    until_us: int  # time of the measurement, since 1970
    services: ServiceUse | None = None  # usage metered by AWS in whole minutes (None: a local run)


def measure(stack: Stack, state_dir: Path, *, since_us: int, until_us: int) -> Measured:
    """Measure a stack's usage in a time range [us since 1970].

    Raises:
        StackIncompleteError: The stack has no scheduler and therefore makes no decisions.
        QueryFailedError: The log query failed or timed out.
    """
    configuration = stack.configuration(stack.output("SchedulerFunctionName"))
    variables = configuration["Environment"]["Variables"]
    settings = {name: variables.get(name, "") for name in _SETTINGS} | {"AWS_REGION": stack.session.region_name}
    if control := stack.functions.get("RedisControlFunction"):
        of_control = stack.configuration(control)["Environment"]["Variables"]
        settings[ALWAYS_ON] = of_control.get(ALWAYS_ON, "")
    return Measured(
        settings=settings,
        architecture={"arm64": "arm", "x86_64": "x86"}[configuration.get("Architectures", ["arm64"])[0]],
        functions=_functions(stack, state_dir, since_us, until_us),
        executions=read_executions(
            stack.clients.states,
            key_machine_arn=stack.outputs.get("KeyLifecycleArn", ""),
            node_machine_arn=stack.outputs.get("RedisNodeArn", ""),
            since_us=since_us,
        ),
        until_us=until_us,
        services=_services(stack, since_us, until_us) if stack.is_deployed else None,
    )


def _services(stack: Stack, since_us: int, until_us: int) -> ServiceUse:
    first_minute, last_minute = since_us // _US_PER_MINUTE, -(-until_us // _US_PER_MINUTE)
    values = values_of(
        stack.client("cloudwatch"), queries_of(stack.resources, 60), since_s=60 * first_minute, until_s=60 * last_minute
    )
    return use_of(values)


def _functions(stack: Stack, state_dir: Path, since_us: int, until_us: int) -> dict[str, FunctionUse]:
    names = {logical_id: name for logical_id, name in stack.functions.items() if logical_id in FUNCTIONS}
    if running := None if stack.is_deployed else state_file.read(state_dir):
        return of_log_files(Path(running.log_dir), names, since_us=since_us)
    configurations = {logical_id: stack.configuration(name) for logical_id, name in names.items()}
    groups = {logical_id: each["LoggingConfig"]["LogGroup"] for logical_id, each in configurations.items()}
    proxy = groups.pop(_WITHOUT_REPORTS, None)
    uses = of_log_groups(stack.client("logs"), groups, since_us=since_us, until_us=until_us)
    if proxy is not None:
        memory_mb = configurations[_WITHOUT_REPORTS]["MemorySize"]
        uses[_WITHOUT_REPORTS] = of_metrics(
            stack.client("cloudwatch"), names[_WITHOUT_REPORTS], memory_mb, since_us=since_us, until_us=until_us
        )
    return uses


def write(folder: Path, measured: Measured) -> None:
    """Write `measured.json` into the replay's folder."""
    (folder / MEASURED).write_text(json.dumps(asdict(measured), indent=2) + "\n")


def read(folder: Path) -> Measured | None:
    """Read `measured.json`. Return None if the file does not exist.

    Raises:
        InvalidSettingError: The file was not written by `burstcache research evaluate`.
    """
    path = folder / MEASURED
    if not path.exists():
        return None
    try:
        return _of_json(json.loads(path.read_text()))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidSettingError(f"{path}: not written by `burstcache research evaluate`: {error!r}") from error


def _of_json(fields: dict[str, Any]) -> Measured:
    executions = fields["executions"]
    return Measured(
        fields["settings"],
        fields["architecture"],
        {name: FunctionUse(**use) for name, use in fields["functions"].items()},
        Executions(
            Lives(
                tuple((name, at_us) for name, at_us in executions["lives"]["functions_us"]),
                executions["lives"]["promotions"],
                executions["lives"]["failures"],
            ),
            tuple(NodeRun(**run) for run in executions["node_runs"]),
            executions["transitions"],
        ),
        fields["until_us"],
        ServiceUse(**services) if (services := fields.get("services")) else None,
    )
