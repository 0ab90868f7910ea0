"""The bare clients of the tiers' servers: redis-py and a NATS client, as the tiers use them."""

from __future__ import annotations

import time
import uuid

import redis
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from benchmarks.client.common import LIMIT_S, access_of
from benchmarks.hits import Cloud
from burstcache.adapters.redis_objects import object_key, recent_key
from burstcache.adapters.relay import connect
from burstcache.adapters.secrets import Secrets
from burstcache.client.configuration import configure
from burstcache.core.keys import key_hash
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import Get, get_subject
from burstcache.core.parameters import QUEUE_LENGTH

_RECENT = recent_key("bare")  # of no key, so that it moves none


def read_from_redis(node: redis.Redis, key: str) -> bytes:
    """Read an object and note the read, in the round trip that the tier makes."""
    commands = node.pipeline(transaction=False)
    commands.hmget(object_key(key_hash(key)), ["meta", "body"])
    commands.lpush(_RECENT, "1767225600000000")
    commands.ltrim(_RECENT, 0, QUEUE_LENGTH - 1)
    body: bytes = commands.execute()[0][1]
    return body


async def open_relay(cloud: Cloud) -> Nats:
    """Connect to the relay as a reader does."""
    access = configure(**access_of(cloud), bucket="").settings.relay
    return await connect(access, Secrets(cloud.client("ssm")), timeout_s=LIMIT_S)


async def ask_relay(relay: Nats, key: str) -> Msg:
    """Ask the cache function that holds a key."""
    question = Get(at_us=time.time_ns() // 1000, request_id=uuid.uuid4().hex, method="GET")
    return await relay.request(get_subject(key_hash(key)), encode(question), timeout=LIMIT_S)
