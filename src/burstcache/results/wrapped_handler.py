"""A Lambda function's results, cached without a change of its code.

`Handler: burstcache.results.handler` puts this before the handler that the variable BURSTCACHE_HANDLER names, as
`Handler` did: `module.function`. BURSTCACHE_RESULTS_FILE names a JSON file of the package: the arguments of `cached`.

    {"key": "image.name", "ttl_s": 300}

Source:
    Rosa 2022, section 4.1: a file names the property that decides the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.results.decorator import cached
from burstcache.results.near_misses import meant_by

HANDLER_VARIABLE = "BURSTCACHE_HANDLER"
FILE_VARIABLE = "BURSTCACHE_RESULTS_FILE"
# Classes of exceptions and codecs of one's own are code.
_IN_FILES = {
    "key", "backend", "ttl_s", "stale_s", "negative_ttl_s", "codec", "version", "max_bytes", "compress_above_bytes",
    "compression", "timeout_ms", "wait_s",
}  # fmt: skip


def make_handler() -> Callable[..., Any]:
    """Return the handler that the environment names, with its results cached.

    Raises:
        InvalidSettingError: A variable is missing, or the file or what it names is not accepted.
    """
    return cached(**read_options())(find_function())


def find_function() -> Callable[..., Any]:
    """Return the function that BURSTCACHE_HANDLER names."""
    name = os.environ.get(HANDLER_VARIABLE, "")
    module, _, function = name.replace("/", ".").rpartition(".")
    if not module:
        raise InvalidSettingError(f"{HANDLER_VARIABLE}={name!r}; accepted: module.function, as Lambda's Handler")
    try:
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    except AttributeError as error:
        raise InvalidSettingError(f"{HANDLER_VARIABLE}={name!r}: {module} has no {function!r}") from error


def read_options() -> dict[str, Any]:
    """Return the arguments of `cached` that the file named by BURSTCACHE_RESULTS_FILE has."""
    path = os.environ.get(FILE_VARIABLE, "")
    if not path:
        raise InvalidSettingError(f"{FILE_VARIABLE} is not set; accepted: a JSON file of the arguments of `cached`")
    try:
        options = json.loads(Path(os.environ.get("LAMBDA_TASK_ROOT", ""), path).read_text())
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"{FILE_VARIABLE}={path!r} cannot be read: {error}") from error
    if not isinstance(options, dict) or not isinstance(options.get("key"), str):
        raise InvalidSettingError(f"{path}: accepted: a JSON object with `key`, a JMESPath expression into the event")
    if unknown := sorted(set(options) - _IN_FILES):
        accepted = sorted(_IN_FILES)
        meant = meant_by(unknown[0], accepted)
        raise InvalidSettingError(f"{path}: {unknown[0]!r}; accepted: {', '.join(accepted)}{meant}")
    return options
