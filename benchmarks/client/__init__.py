"""The reader in the caller's process: `python -m benchmarks.client` (`__main__.py`)."""

from benchmarks.client.common import SETUPS

__all__ = ["SETUPS"]
