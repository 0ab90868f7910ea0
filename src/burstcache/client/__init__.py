"""The reader in the caller's process: the tiers of a stack without front door and proxy, or memory over S3 alone."""

from __future__ import annotations

from burstcache.client.async_client import AsyncClient
from burstcache.client.client import Client
from burstcache.client.copies import expire_copies
from burstcache.client.objects import Object
from burstcache.client.streams import ObjectFile

__all__ = ["AsyncClient", "Client", "Object", "ObjectFile", "expire_copies"]
