"""CloudFormation's registry in a Region: its resource types and their schemas, as cfn-lint copies them.

They are read as files, because importing cfn-lint takes seconds.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Literal

_FOLDER = "cfnlint/data/schemas"
Recreation = Literal["Always", "Conditionally", "Never"]


def resource_types(region: str) -> frozenset[str] | None:
    """Return the resource types of a Region; None if cfn-lint has no list of it."""
    found = _files(region)
    return None if found is None else frozenset(found)


def recreation(type_name: str, name: str, region: str) -> Recreation:
    """Return whether a change of a property replaces its resource: ``RequiresRecreation`` in a change set.

    A change of a property with members, of which some replace the resource, is ``Conditionally``, and so is each change
    of a type that is not in the registry. For ``AWS::CDK::Metadata`` and for unknown properties, that is what AWS
    reports (https://github.com/aws/aws-cdk-cli/issues/1971,
    https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/156). Assumed for custom resources:
    their handlers decide by the physical ID that they return (CloudFormation template reference,
    AWS::CloudFormation::CustomResource, "Replacing a custom resource during an update").
    """
    schema = _schema(type_name, region)
    # Types of CloudFormation's own, for which cfn-lint writes a schema, have no handlers in the registry.
    if schema is None or "handlers" not in schema or name not in schema.get("properties", {}):
        return "Conditionally"
    path = f"/properties/{name}"
    always, conditionally = schema.get("createOnlyProperties", []), schema.get("conditionalCreateOnlyProperties", [])
    if path in always:
        return "Always"
    may_replace = any(f"{pointer}/".startswith(f"{path}/") for pointer in (*always, *conditionally))
    return "Conditionally" if may_replace else "Never"


def _schema(type_name: str, region: str) -> Mapping[str, Any] | None:
    name = (_files(region) or {}).get(type_name)
    return None if name is None else _read(f"resources/{name}.json")


def _files(region: str) -> Mapping[str, str] | None:
    """Return the names of a Region's schemas by resource type."""
    try:
        return _read(f"providers/{region}.json")
    except FileNotFoundError:
        return None


@functools.cache
def _read(name: str) -> Mapping[str, Any]:
    path = Path(str(distribution("cfn-lint").locate_file(f"{_FOLDER}/{name}")))
    return json.loads(path.read_text(encoding="utf-8"))
