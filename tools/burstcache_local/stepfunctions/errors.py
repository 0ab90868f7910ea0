"""Step Functions errors: API errors and state failures."""

from __future__ import annotations

from burstcache_local.errors import LocalCloudError

TIMEOUT = "States.Timeout"
QUERY = "States.QueryEvaluationError"
_TERMINAL = ("States.DataLimitExceeded", "States.Runtime")


class ApiError(LocalCloudError):
    """A rejected API call. `code` is the error code that boto3 reports."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StateError(Exception):
    """A state failure, with error name and cause. The state machine may retry or catch the error."""

    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.cause = name, cause

    def matches(self, names: list[str]) -> bool:
        """Return whether a retrier or catcher with these `ErrorEquals` matches this error.

        Source:
            Step Functions, "Handling errors": `States.TaskFailed` matches all errors except timeouts. Neither
                `States.TaskFailed` nor `States.ALL` matches terminal errors.
        """
        if self.name in names or self.name in _TERMINAL:
            return self.name in names
        return "States.ALL" in names or ("States.TaskFailed" in names and self.name != TIMEOUT)


class HeartbeatLostError(StateError):
    """A missed heartbeat, which AWS reports as `States.Timeout` without a cause. Both error names match."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT)

    def matches(self, names: list[str]) -> bool:
        """Return whether a retrier or catcher with these `ErrorEquals` matches a missed heartbeat."""
        return "States.HeartbeatTimeout" in names or super().matches(names)
