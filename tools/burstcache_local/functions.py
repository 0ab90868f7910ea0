"""Models of Lambda functions and invocation outcomes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ACCOUNT = "123456789012"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A function's specification for its environments."""

    name: str
    arn: str
    handler: str
    timeout_s: int
    memory_mb: int
    root: Path  # folder to import `handler` from
    variables: Mapping[str, str]
    is_tenant_isolated: bool = False  # an environment serves one tenant only

    def environment(self, runtime_api: str) -> dict[str, str]:
        """Return the environment variables of an execution environment, including variables that Lambda defines.

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
            "AWS_ACCESS_KEY_ID": self.name,  # identifies the caller
            "AWS_SECRET_ACCESS_KEY": "local",
            **self.variables,
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
        }


@dataclass(frozen=True, slots=True)
class EventInvokeConfig:
    """Configuration of asynchronous invocations, with AWS's defaults."""

    max_retries: int = 2
    max_age_s: int = 21_600
    on_failure_arn: str = ""  # ARN of an SQS queue or event bus, or empty


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an invocation. `error` is "Unhandled" or empty. The body is always JSON."""

    body: bytes
    error: str = ""
    reusable: bool = field(default=True)  # False if the environment has ended or must end


def failed(error_type: str, message: str) -> Outcome:
    """Return the outcome of an invocation that failed and lost its environment."""
    body = json.dumps({"errorType": error_type, "errorMessage": message}).encode()
    return Outcome(body, "Unhandled", reusable=False)
