"""Phase deadlines: the maximum time that a row stays in a phase before its owner counts as dead.

Each deadline exceeds the time that its steps take with all retries. `tests/template/test_time_limits.py` computes this
time from the state machines.
"""

from __future__ import annotations

# Deadlines of a key's phases, counted from the write of the phase.
STARTED_S = 1000  # Lambda until its function has announced itself, or RedisBootup until the key has joined a node
ANNOUNCED_S = 1600  # the rest of Lambda, including restarts of its cache function, and the return to S3
BOOTUP_S = 3300  # RedisBootup, SeedRedis
RUNNING_S = 30 * 24 * 3600 + 600  # RedisRunning, RedisShutdown

# Deadlines of a node's phases.
BOOT_S = 960  # BootNode, NodeReady
STOP_S = 840  # StopNode, and the time that EC2 takes
SAVE_S = 780  # SaveNode, which precedes StopNode
# An instance that is still stopping after this time hangs. EC2 takes a minute, and at most 90 s, because systemd then
# kills the service. The janitor runs every five minutes, so it forces a stop within ten minutes.
STOP_HANGS_S = 285
