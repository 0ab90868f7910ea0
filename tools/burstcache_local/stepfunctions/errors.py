"""What Step Functions answers and what a state fails with."""

from __future__ import annotations

from burstcache_local.errors import LocalCloudError

TIMEOUT = "States.Timeout"
QUERY = "States.QueryEvaluationError"
_TERMINAL = ("States.DataLimitExceeded", "States.Runtime")


class ApiError(LocalCloudError):
    """A call is refused; `code` is the name that boto3 reports."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StateError(Exception):
    """A state fails with an error name and a cause; the machine may retry or catch it."""

    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.cause = name, cause

    def matches(self, names: list[str]) -> bool:
        """Whether a retrier or catcher with these `ErrorEquals` takes this error.

        Source:
            Step Functions, "Handling errors": `States.TaskFailed` stands for all but a time-out, and neither it nor
            `States.ALL` for an error that ends every execution.
        """
        if self.name in names or self.name in _TERMINAL:
            return self.name in names
        return "States.ALL" in names or ("States.TaskFailed" in names and self.name != TIMEOUT)


class HeartbeatLostError(StateError):
    """A task sent no heartbeat in time: AWS reports `States.Timeout` without a cause and matches both names."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT)

    def matches(self, names: list[str]) -> bool:
        """Whether a retrier or catcher takes a lost heartbeat."""
        return "States.HeartbeatTimeout" in names or super().matches(names)
