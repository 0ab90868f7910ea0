"""The pipeline from a SAM template to a plain CloudFormation template for moto, with five steps, all offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from burstcache_local.errors import TemplateError
from burstcache_local.template.complete import complete
from burstcache_local.template.parameters import decide, parameter_values
from burstcache_local.template.read import read
from burstcache_local.template.resolve import resolve
from burstcache_local.template.template import LocalTemplate
from burstcache_local.template.transform import transform


def load_template(
    path: Path,
    overrides: Mapping[str, str],
    *,
    vpc_block: str,
    relay_address: str,
    region: str,
    defaults: Mapping[str, str] | None = None,
) -> LocalTemplate:
    """Load a SAM template, and return a template that moto can deploy.

    Args:
        path: The SAM template.
        overrides: Parameter values that replace the defaults.
        vpc_block: IPv4 block of the VPC in the local cloud.
        relay_address: Address that replaces the private DNS names of services.
        region: AWS region to imitate.
        defaults: Defaults that replace the template's defaults. Undeclared parameters are ignored.

    Raises:
        TemplateError: The template cannot be used. The message has the file and the reason in one line.
    """
    try:
        source = read(path)
        declared = source.get("Parameters", {})
        others = {name: value for name, value in (defaults or {}).items() if name in declared}
        values = parameter_values(declared, {**others, **overrides})
        decided = decide(source, values, region)
        transformed = transform(decided, values, path.parent, region)
        resolved = resolve(transformed.body, values, vpc_block=vpc_block, relay_address=relay_address, region=region)
        template = complete(resolved, transformed.roots)
        template.parameters = values
        return template
    except TemplateError as error:
        raise TemplateError(f"{path}: {error}") from None
