"""The variables of the functions, for a process that runs one of them without a stack."""

from __future__ import annotations

VARIABLES = {
    "TABLE_NAME": "table",
    "BUCKET_NAME": "bucket",
    "BUS_NAME": "bus",
    "EXPRESS_BUCKET": "",
    "TAKES_GUESTS": "false",
    "RELAY_URL": "nats://127.0.0.1:9",
    "RELAY_USER": "proxy",
    "RELAY_PASSWORD_PARAMETER": "",
    "RELAY_CA_PEM": "",
    "REDIS_PASSWORD_PARAMETER": "",
    "REDIS_NODES": "",
    "MAX_OBJECT_BYTES": "4194304",
    "MEMORY_MB": "0",
    "MAX_STALE_MS": "2000",
    "MAX_HOT_KEYS": "5",
    "HAS_RELAY": "true",
    "KEY_LIFECYCLE_ARN": "key-lifecycle",
    "REDIS_NODE_ARN": "redis-node",
    "REDIS_CONTROL_FUNCTION_NAME": "redis-control",
    "POLICY": "thesis",
    "POLICY_RATE": "9",
    "POLICY_SENSITIVITY": "4",
    "POLICY_OVERRIDES": "",
    "HIT_VALUE_USD_PER_MILLION": "10",
    "AWS_REGION": "us-east-1",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "POWERTOOLS_TRACE_DISABLED": "true",
}
