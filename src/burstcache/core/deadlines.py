"""How long a row stays in a phase before its owner counts as dead, and nobody waits for it any more.

Each is longer than the steps that it covers take with all their repeats: `tests/template/test_time_limits.py` computes
those from the state machines.
"""

from __future__ import annotations

# A key's, from the write of the phase.
STARTED_S = 1000  # Lambda until it is announced, or RedisBootup until it has joined
ANNOUNCED_S = 1600  # what is left of Lambda, the next starts of its cache function, and the return to S3
BOOTUP_S = 3300  # RedisBootup, SeedRedis
RUNNING_S = 30 * 24 * 3600 + 600  # RedisRunning, RedisShutdown

# A node's.
BOOT_S = 960  # BootNode, NodeReady
STOP_S = 840  # StopNode, and what EC2 takes
SAVE_S = 780  # SaveNode, before it
# An instance that still stops then hangs. EC2 takes a minute, at most the 90 s after which systemd kills a service; the
# janitor comes every five minutes, so a stop is forced within ten.
STOP_HANGS_S = 285
