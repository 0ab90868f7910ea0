"""The structured log of the read path. Made at the first line: a read that goes well writes none."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger


@cache
def logger() -> Logger:
    """Return this process's logger; service and level come from POWERTOOLS_SERVICE_NAME and POWERTOOLS_LOG_LEVEL."""
    from aws_lambda_powertools import Logger

    return Logger()
