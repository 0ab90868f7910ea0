"""Wrapped handler: caches the results of a Lambda function without changing its code.

Set `Handler: burstcache.results.handler`, and BURSTCACHE_HANDLER to the original handler (`module.function`).
BURSTCACHE_RESULTS_FILE is the path of a JSON file in the package that contains the arguments of `cached`.

    {"key": "image.name", "ttl_s": 300}

Source:
    Rosa 2022, section 4.1: a file names the property that determines the result.
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
# Custom codecs and exception classes are code, so a file cannot contain them.
_IN_FILES = {
    "key", "backend", "ttl_s", "stale_s", "negative_ttl_s", "codec", "version", "max_bytes", "compress_above_bytes",
    "compression", "timeout_ms", "wait_s",
}  # fmt: skip


def make_handler() -> Callable[..., Any]:
    """Return the handler named in environment variables, with its results cached.

    Raises:
        InvalidSettingError: A variable is missing, or the file or one of its values is invalid.
    """
    return cached(**read_options())(find_function())


def find_function() -> Callable[..., Any]:
    """Return the function named in BURSTCACHE_HANDLER."""
    name = os.environ.get(HANDLER_VARIABLE, "")
    module, _, function = name.replace("/", ".").rpartition(".")
    if not module:
        raise InvalidSettingError(f"{HANDLER_VARIABLE}={name!r}; accepted: module.function, as Lambda's Handler")
    try:
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    except AttributeError as error:
        raise InvalidSettingError(f"{HANDLER_VARIABLE}={name!r}: {module} has no {function!r}") from error


def read_options() -> dict[str, Any]:
    """Read the arguments of `cached` from the file at BURSTCACHE_RESULTS_FILE."""
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
        suggestion = meant_by(unknown[0], accepted)
        raise InvalidSettingError(f"{path}: {unknown[0]!r}; accepted: {', '.join(accepted)}{suggestion}")
    return options
