"""What a wait condition's Data carries.

The bars let a template take a part out of the JSON that CloudFormation wraps it in, with Fn::Split.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..documents import list_in, nested, object_in


def artifact_data(manifest: Mapping[str, Any]) -> str:
    """``|image|model data URI|job name|`` of an artifact's manifest."""
    return f"|{manifest['image']}|{manifest['model_data_uri']}|{manifest['job_name']}|"


def recommendation_data(document: Mapping[str, Any]) -> str:
    """``|instance type|instance count|model package ARN|inference specification name|`` of the first recommendation.

    What it does not say is empty.
    """
    first = document["recommendations"][0]
    model = object_in(nested(first, "ModelDetails"))
    # The deployment's own configuration is the more exact one; the model package's lists what it may run on.
    listed = [object_in(details) for details in list_in(model.get("InstanceDetails"))[:1]]
    instance = {**(listed[0] if listed else {}), **object_in(nested(first, "DeploymentConfiguration"))}
    parts = (
        instance.get("InstanceType"),
        instance.get("InstanceCount"),
        model.get("ModelPackageArn"),
        model.get("InferenceSpecificationName"),
    )
    return f"|{'|'.join('' if part is None else str(part) for part in parts)}|"
