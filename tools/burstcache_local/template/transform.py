"""Step 3 of the pipeline, `transform`, converts SAM to CloudFormation. Code and state machine files bypass SAM."""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator import transform as sam

from burstcache_local.errors import TemplateError

_CODE = {"ZipFile": "# The local cloud runs the function from its source folder."}


@dataclass(frozen=True, slots=True)
class Transformed:
    """A plain CloudFormation template, and its functions' code folders."""

    body: dict[str, Any]
    roots: dict[str, Path]  # a function's logical id → code folder


def transform(source: dict[str, Any], values: Mapping[str, Any], folder: Path, region: str) -> Transformed:
    """Transform a SAM template to CloudFormation.

    Args:
        source: The SAM template without conditions, which is modified.
        values: Parameter values.
        folder: The template's folder. Paths in the template are relative to this folder.
        region: AWS region to imitate.

    Raises:
        TemplateError: A file is missing, or SAM rejects the template.
    """
    roots = _take_code(source, folder)
    _drop_layers(source)
    definitions = _take_definitions(source, folder)
    body = _transform(source, values, region)
    _put_back(body["Resources"], definitions, roots)
    return Transformed(body, roots)


def _take_code(source: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Return the functions' code folders, and replace the folders in the template with S3 locations for SAM."""
    shared = source.get("Globals", {}).get("Function", {})
    default = shared.pop("CodeUri", ".")
    roots = {}
    for name, resource in source["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = resource.setdefault("Properties", {})
            roots[name] = (folder / properties.get("CodeUri", default)).resolve()
            if not roots[name].is_dir():
                raise TemplateError(f"{name}: its CodeUri {properties.get('CodeUri', default)!r} is not a folder")
            properties["CodeUri"] = {"Bucket": "local", "Key": name}
    return roots


def _drop_layers(source: dict[str, Any]) -> None:
    """Remove the template's own layers, because functions import from this Python environment."""
    resources = source["Resources"]
    layers = [name for name, resource in resources.items() if resource["Type"] == "AWS::Serverless::LayerVersion"]
    made = [{"Ref": resources.pop(name) and name} for name in layers]
    shared = source.get("Globals", {}).get("Function", {})
    for properties in (shared, *(resource.get("Properties", {}) for resource in resources.values())):
        if "Layers" in properties:
            properties["Layers"] = [layer for layer in properties["Layers"] if layer not in made]


def _take_definitions(source: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the state machines' definitions, and replace the files in the template with S3 locations for SAM."""
    definitions = {}
    for name, resource in source["Resources"].items():
        properties = resource.get("Properties", {})
        uri = properties.get("DefinitionUri")
        if resource["Type"] == "AWS::Serverless::StateMachine" and isinstance(uri, str):
            try:
                definitions[name] = (folder / uri).read_text("utf-8")
                json.loads(definitions[name])
            except (OSError, ValueError) as error:
                raise TemplateError(f"{name}: its definition {uri} is not readable JSON: {error}") from None
            properties["DefinitionUri"] = {"Bucket": "local", "Key": name}
    return definitions


def _transform(source: dict[str, Any], values: Mapping[str, Any], region: str) -> dict[str, Any]:
    os.environ.setdefault("AWS_DEFAULT_REGION", region)  # SAM reads the region only from the environment
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    try:
        return sam.transform(copy.deepcopy(source), dict(values), _NoManagedPolicies())  # type: ignore[no-any-return]
    except InvalidDocumentException as error:
        causes = "; ".join(cause.message for cause in error.causes)
        raise TemplateError(f"SAM refuses it: {causes}") from None


def _put_back(resources: Mapping[str, Any], definitions: Mapping[str, str], roots: Mapping[str, Path]) -> None:
    """Restore the state machine definitions, and set placeholder code for functions."""
    for name, definition in definitions.items():
        resources[name]["Properties"] |= {"DefinitionString": definition}
        resources[name]["Properties"].pop("DefinitionS3Location", None)
    for name in roots:
        resources[name]["Properties"]["Code"] = _CODE


class _NoManagedPolicies:
    """An empty replacement for SAM's loader, which reads AWS managed policies from IAM."""

    max_pages = None

    def load(self) -> dict[str, str]:
        return {}
