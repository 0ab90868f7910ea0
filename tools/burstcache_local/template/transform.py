"""The third step: SAM becomes CloudFormation. Code and state machines stay files, which the transform cannot read."""

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
    """A plain template, and where its functions' code is."""

    body: dict[str, Any]
    roots: dict[str, Path]  # function's logical id → folder of its code


def transform(source: dict[str, Any], values: Mapping[str, Any], folder: Path, region: str) -> Transformed:
    """Return the transformed template.

    Args:
        source: A SAM template without conditions; is changed.
        values: Its parameters' values.
        folder: Where the template is: paths in it start there.
        region: AWS region to imitate.

    Raises:
        TemplateError: A file is missing, or SAM refuses the template.
    """
    roots = _take_code(source, folder)
    _drop_layers(source)
    definitions = _take_definitions(source, folder)
    body = _transform(source, values, region)
    _put_back(body["Resources"], definitions, roots)
    return Transformed(body, roots)


def _take_code(source: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Return the code folder per function; the template gets a location that the transform accepts."""
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
    """Leave out layers that the template makes: functions find here what is in this Python's environment."""
    resources = source["Resources"]
    layers = [name for name, resource in resources.items() if resource["Type"] == "AWS::Serverless::LayerVersion"]
    made = [{"Ref": resources.pop(name) and name} for name in layers]
    shared = source.get("Globals", {}).get("Function", {})
    for properties in (shared, *(resource.get("Properties", {}) for resource in resources.values())):
        if "Layers" in properties:
            properties["Layers"] = [layer for layer in properties["Layers"] if layer not in made]


def _take_definitions(source: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the definition per state machine that names a file."""
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
    os.environ.setdefault("AWS_DEFAULT_REGION", region)  # the transform reads it only from the environment
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    try:
        return sam.transform(copy.deepcopy(source), dict(values), _NoManagedPolicies())  # type: ignore[no-any-return]
    except InvalidDocumentException as error:
        causes = "; ".join(cause.message for cause in error.causes)
        raise TemplateError(f"SAM refuses it: {causes}") from None


def _put_back(resources: Mapping[str, Any], definitions: Mapping[str, str], roots: Mapping[str, Path]) -> None:
    """Give machines their definitions and functions code that moto accepts."""
    for name, definition in definitions.items():
        resources[name]["Properties"] |= {"DefinitionString": definition}
        resources[name]["Properties"].pop("DefinitionS3Location", None)
    for name in roots:
        resources[name]["Properties"]["Code"] = _CODE


class _NoManagedPolicies:
    """Stands in for the loader that would ask IAM for AWS's managed policies."""

    max_pages = None

    def load(self) -> dict[str, str]:
        return {}
