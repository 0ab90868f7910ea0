"""Handler of the custom resources for credentials. It answers every request of CloudFormation, also after a failure.

The names of its parameters identify a resource. Other names make another resource, so CloudFormation deletes the former
one once the update has succeeded, or the new one if it is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from botocore.config import Config

from custom_resources.passwords import delete_parameters, make_passwords
from custom_resources.stack_answer import fail, succeed

logger = Logger()
_CONFIG = Config(connect_timeout=1, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})


def handler(event: dict[str, Any], context: Any) -> None:
    """Create or delete passwords, or a certificate for DnsName, in the parameters Names."""
    properties = event.get("ResourceProperties", {})
    names = " ".join(properties.get("Names", ()))
    physical_id = names or str(event.get("PhysicalResourceId") or event["LogicalResourceId"])
    try:
        act = _delete if event["RequestType"] == "Delete" else _KEEP[event["ResourceType"]]
        attributes = act(properties)
    except Exception as error:
        logger.exception("no credentials")
        fail(event, physical_id, f"{type(error).__name__}: {error}")
        return
    succeed(event, physical_id, attributes)


def _keep_passwords(properties: Mapping[str, Any]) -> Mapping[str, str]:
    make_passwords(_parameter_store(), properties["Names"])
    return {}


def _keep_certificate(properties: Mapping[str, Any]) -> Mapping[str, str]:
    # Imported here so that even a package without the library gives CloudFormation an answer.
    from custom_resources.certificate import keep_certificate

    (name,) = properties["Names"]
    kept = keep_certificate(_parameter_store(), name, properties["DnsName"])
    logger.info("certificate kept", extra={"serial": kept.serial, "dns_name": properties["DnsName"]})
    return {"CaPem": kept.ca_pem, "DnsName": properties["DnsName"], "Serial": kept.serial}


def _delete(properties: Mapping[str, Any]) -> Mapping[str, str]:
    if names := properties.get("Names"):  # a resource that was refused for lack of names is deleted too
        delete_parameters(_parameter_store(), names)
    return {}


def _parameter_store() -> Any:
    return boto3.client("ssm", config=_CONFIG)


_KEEP: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, str]]] = {
    "Custom::Passwords": _keep_passwords,
    "Custom::RelayCertificate": _keep_certificate,
    "Custom::RedisCertificate": _keep_certificate,
    "Custom::HubCertificate": _keep_certificate,
}
