"""Relay certificate: a custom resource of the stack. CloudFormation's request in, its answer out, whatever happens."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools import Logger
from botocore.config import Config

from custom_resources.answer import fail, succeed

logger = Logger()
_CONFIG = Config(connect_timeout=1, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})


def handler(event: dict[str, Any], context: Any) -> None:
    """Keep a certificate for DnsName in SecretId; at deletion do nothing, since the secret goes with the stack."""
    asked = event.get("ResourceProperties", {})
    physical_id = str(event.get("PhysicalResourceId") or asked.get("SecretId") or event["LogicalResourceId"])
    try:
        attributes = {} if event["RequestType"] == "Delete" else _keep(asked)
    except Exception as error:
        logger.exception("no certificate")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
        return
    succeed(event, physical_id, attributes)


def _keep(asked: dict[str, str]) -> dict[str, str]:
    # Imported here so that even a package without the library gives CloudFormation an answer.
    from custom_resources.certificate import keep_certificate

    secrets = boto3.client("secretsmanager", config=_CONFIG)
    kept = keep_certificate(secrets, asked["SecretId"], asked["DnsName"], issue=asked["Issue"])
    logger.info("certificate kept", extra={"serial": kept.serial, "dns_name": kept.dns_name})
    return {"CaPem": kept.ca_pem, "Serial": kept.serial}
