"""A recommendation's result as a document, and as the data of a wait condition's signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..documents import list_in, nested, object_in
from ..requests.recommendation_properties import RecommendationRequest


def result(request: RecommendationRequest, fingerprint: str, name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """The document: what was asked, and the job's recommendations as they are.

    Args:
        request: what was asked.
        fingerprint: what the model's files were.
        name: the job's name.
        job: its description, of a job that has completed.
    """
    times = {"started": job.get("StartTime") or job["CreationTime"], "ended": job.get("EndTime")}
    return {
        "schema": 1,
        "asked": {**request.asked, "fingerprint": fingerprint},
        "job": {"name": name, **{which: at.isoformat() for which, at in times.items() if at is not None}},
        "recommendations": job["Recommendations"],
    }


def signal_data(document: Mapping[str, Any]) -> str:
    """``|instance type|instance count|model package ARN|inference specification name|`` of the first recommendation.

    What it does not say is empty.
    """
    first = document["recommendations"][0]
    model = object_in(nested(first, "ModelDetails"))
    # The deployment's own configuration is the more exact one; the model package's lists what it may run on.
    listed = [object_in(each) for each in list_in(model.get("InstanceDetails"))[:1]]
    instance = {**(listed[0] if listed else {}), **object_in(nested(first, "DeploymentConfiguration"))}
    parts = (
        instance.get("InstanceType"),
        instance.get("InstanceCount"),
        model.get("ModelPackageArn"),
        model.get("InferenceSpecificationName"),
    )
    return f"|{'|'.join('' if part is None else str(part) for part in parts)}|"
