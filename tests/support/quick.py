"""What makes a process quick that has many clients of AWS and reads the template often: importing it is enough."""

from __future__ import annotations

import functools
import gc
from typing import Any

import botocore.loaders
import botocore.parsers
import yaml
from botocore.hooks import EventAliaser

# Each session reads the descriptions of its services anew, which takes longer than most tests: all share one reader.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)

# So it is with the names of events, which each client looks up in a table of a hundred rows, and with times in answers.
_Aliaser: Any = EventAliaser
_event_name = functools.cache(_Aliaser(None)._alias_event_name)
_Aliaser._alias_event_name = lambda self, event_name: _event_name(event_name)
botocore.parsers.DEFAULT_TIMESTAMP_PARSER = functools.lru_cache(botocore.parsers.DEFAULT_TIMESTAMP_PARSER)

# libyaml reads the template six times as fast as Python does.
yaml.SafeLoader, yaml.BaseLoader = yaml.CSafeLoader, yaml.CBaseLoader  # type: ignore[misc, assignment]

# Libraries and those descriptions are millions of objects that live to the end: at Python's own thresholds a fifth of
# the time goes into looking through them for garbage.
gc.set_threshold(200_000, 50, 1_000)
