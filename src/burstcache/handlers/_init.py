"""Function init: components that are built before the first event, and the context of log lines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from burstcache import adapters
from burstcache.logs import name_request

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

_T = TypeVar("_T")
# botocore's own bundle has every public certificate authority. Loading this bundle costs 20 to 90 ms of CPU per new
# connection, and a function has only a fraction of a CPU. A custom endpoint may have a certificate from any of these
# authorities.
_AMAZON_ROOTS = Path(adapters.__path__[0]) / "amazon_roots.pem"


def at_init(make: Callable[[], _T]) -> _lru_cache_wrapper[_T]:
    """Build a function's components once, in Lambda's INIT phase, and return their getter.

    INIT has a full CPU, and the first event only a fraction of a CPU. An error in INIT, such as a missing variable,
    stops the function before any event. Outside Lambda the components are built at the first call, so that the module
    can be imported without a function's environment.
    """
    made = cache(make)
    if "LAMBDA_TASK_ROOT" in os.environ:
        if not any(url for name, url in os.environ.items() if name.startswith("AWS_ENDPOINT_URL")):
            os.environ.setdefault("AWS_CA_BUNDLE", str(_AMAZON_ROOTS))
        made()
    return made


def init_s() -> float:
    """Return the billed time since this environment began to initialise, or 0 outside Lambda [s].

    Source:
        proc_pid_stat(5): field 22 is the start of the process, in ticks since the machine's start.
    """
    if "LAMBDA_TASK_ROOT" not in os.environ:
        return 0.0
    began_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_ticks / os.sysconf("SC_CLK_TCK")


def logs_requests(handler: Callable[[dict[str, Any], Any], _T]) -> Callable[[dict[str, Any], Any], _T]:
    """Add the request ID to a handler's log lines."""

    @wraps(handler)
    def named(event: dict[str, Any], context: Any) -> _T:
        name_request(str(getattr(context, "aws_request_id", "")))
        return handler(event, context)

    return named
