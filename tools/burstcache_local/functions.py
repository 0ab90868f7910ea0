"""A Lambda function as the local cloud knows it, and the outcome of an invocation."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ACCOUNT = "123456789012"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function as its environments see it."""

    name: str
    arn: str
    handler: str
    timeout_s: int
    memory_mb: int
    root: Path  # the folder that `handler` is imported from
    variables: Mapping[str, str]
    is_tenant_isolated: bool = False  # an environment serves one tenant alone

    def environment(self, runtime_api: str) -> dict[str, str]:
        """Return the environment variables of an execution environment, those of Lambda first.

        Source:
            AWS Lambda Developer Guide, "Defined runtime environment variables".
        """
        region = self.arn.split(":")[3]
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": ":UTC",
            "PYTHONPATH": str(self.root),
            "PYTHONUNBUFFERED": "1",
            "_HANDLER": self.handler,
            "LAMBDA_TASK_ROOT": str(self.root),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory_mb),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{self.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": "local",
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ACCESS_KEY_ID": self.name,  # so that calls show who makes them
            "AWS_SECRET_ACCESS_KEY": "local",
            **self.variables,
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
        }


@dataclass(frozen=True, slots=True)
class EventInvokeConfig:
    """How Lambda treats an asynchronous invocation that fails; the defaults are AWS's."""

    max_retries: int = 2
    max_age_s: int = 21_600
    on_failure_arn: str = ""  # an SQS queue, an event bus, or empty


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an invocation returned. `error` is "Unhandled" or empty; the body is JSON either way."""

    body: bytes
    error: str = ""
    reusable: bool = field(default=True)  # False if the environment is gone or must go


def failed(error_type: str, message: str) -> Outcome:
    """Return the outcome of an invocation whose environment is lost."""
    body = json.dumps({"errorType": error_type, "errorMessage": message}).encode()
    return Outcome(body, "Unhandled", reusable=False)
