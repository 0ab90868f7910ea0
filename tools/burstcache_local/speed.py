"""The switch for speed patches, which replace slow parts of moto, botocore and hypothesis.

`BURSTCACHE_SPEED_PATCHES=0` disables the patches. The tests also pass without the patches, but take about twice as
long.
"""

from __future__ import annotations

import os

ENABLED = os.environ.get("BURSTCACHE_SPEED_PATCHES", "1") != "0"
