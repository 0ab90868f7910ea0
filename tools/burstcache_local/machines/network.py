"""The private network of one local cloud, which is a block of loopback addresses."""

from __future__ import annotations

import random
import socket

from burstcache_local.errors import LocalCloudError

_CLAIM_PORT = 4220  # stays bound in the block, so that no other cloud claims the block


class LoopbackBlock:
    """A /16 block of 127.0.0.0/8, claimed by this local cloud."""

    def __init__(self) -> None:
        for second in random.sample(range(16, 250), 234):
            claim = socket.socket()
            try:
                claim.bind((f"127.{second}.255.254", _CLAIM_PORT))
            except OSError:
                claim.close()
                continue
            self._claim, self.cidr, self.relay_address = claim, f"127.{second}.0.0/16", f"127.{second}.255.10"
            return
        raise LocalCloudError(
            "no block of loopback addresses is free: the local cloud needs Linux, and 127.x.0.0/16 unused"
        )

    def release(self) -> None:
        """Release the block."""
        self._claim.close()
