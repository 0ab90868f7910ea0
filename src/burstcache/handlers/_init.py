"""What a function makes before its first event."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

_T = TypeVar("_T")


def at_init(make: Callable[[], _T]) -> _lru_cache_wrapper[_T]:
    """Make a function's parts in Lambda's INIT phase, once; return what hands them out.

    INIT has a full CPU and the first event a fraction of one, and an error in INIT, such as a missing variable, stops
    the function before it takes any event. Where Lambda does not run the module, so that it can be imported without a
    function's environment, the parts are made at the first call.
    """
    made = cache(make)
    if "LAMBDA_TASK_ROOT" in os.environ:
        made()
    return made
