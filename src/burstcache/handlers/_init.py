"""What functions do before their first event, and before each."""

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
# botocore's own bundle has every authority of the web: 20 to 90 ms of CPU at each new connection, of which a function
# has a fraction. An endpoint of one's own has a certificate of any of them.
_AMAZON_ROOTS = Path(adapters.__path__[0]) / "amazon_roots.pem"


def at_init(make: Callable[[], _T]) -> _lru_cache_wrapper[_T]:
    """Make a function's parts in Lambda's INIT phase, once; return what hands them out.

    INIT has a full CPU and the first event a fraction of one, and an error in INIT, such as a missing variable, stops
    the function before it takes any event. Where Lambda does not run the module, so that it can be imported without a
    function's environment, the parts are made at the first call.
    """
    made = cache(make)
    if "LAMBDA_TASK_ROOT" in os.environ:
        if not any(url for name, url in os.environ.items() if name.startswith("AWS_ENDPOINT_URL")):
            os.environ.setdefault("AWS_CA_BUNDLE", str(_AMAZON_ROOTS))
        made()
    return made


def init_s() -> float:
    """Return how long the environment has been initialising itself, which is billed; 0 where Lambda does not run it.

    Source:
        proc_pid_stat(5): field 22 is when the process began, in ticks since the machine's start.
    """
    if "LAMBDA_TASK_ROOT" not in os.environ:
        return 0.0
    began_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_ticks / os.sysconf("SC_CLK_TCK")


def logs_requests(handler: Callable[[dict[str, Any], Any], _T]) -> Callable[[dict[str, Any], Any], _T]:
    """Have the lines that a handler logs name the request that it works on."""

    @wraps(handler)
    def named(event: dict[str, Any], context: Any) -> _T:
        name_request(str(getattr(context, "aws_request_id", "")))
        return handler(event, context)

    return named
