"""What callers of CodePipeline and CodeBuild must be allowed.

Source: Service Authorization Reference, "Actions, resources, and condition keys for AWS CodePipeline" and "... for AWS
CodeBuild": a stage's and an action's ARN continue that of their pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_OF_STAGES = ("DisableStageTransition", "EnableStageTransition", "PutApprovalResult", "RetryStageExecution")


def delivery_permissions(
    service: str, operation: str, request: Mapping[str, Any], *, account: str, region: str
) -> Iterator[tuple[str, str]]:
    """Actions and the ARNs that they are on, ``*`` where an operation is on no resource of its own."""
    prefix = f"arn:aws:{service}:{region}:{account}"
    found = _projects(request) if service == "codebuild" else _pipelines(operation, request)
    for name in found or [""]:
        resource = name if name.startswith("arn:") else f"{prefix}:{name}" if name else "*"
        yield f"{service}:{operation}", resource
    role = request["pipeline"].get("roleArn") if isinstance(request.get("pipeline"), dict) else None
    if role:
        yield "iam:PassRole", role


def _pipelines(operation: str, request: Mapping[str, Any]) -> list[str]:
    declared = request.get("pipeline")
    given = declared.get("name") if isinstance(declared, dict) else None
    name = given or request.get("name") or request.get("pipelineName") or request.get("resourceArn")
    if not name:
        return []
    further = [request.get(member) for member in ("stageName", "actionName")] if operation in _OF_STAGES else []
    return ["/".join(str(part) for part in (name, *further) if part)]


def _projects(request: Mapping[str, Any]) -> list[str]:
    named = [request.get("projectName"), *(request.get("names") or [])]
    # A build's permission is that on its project.
    built = [request.get("id"), *(request.get("ids") or [])]
    names = [*named, *(str(each).rpartition("build/")[2].partition(":")[0] for each in built if each)]
    return [f"project/{name}" for name in dict.fromkeys(names) if name]
