"""The resources of calls in IAM, where ministack's differ from AWS's."""

from __future__ import annotations

import json
from typing import Any

from .patches import replace


def name_resources() -> None:
    """Use the named registry for a repository, and the principal for a simulation. Called once.

    Source: Service Authorization Reference, "Amazon Elastic Container Registry" (``repository``) and "AWS Identity and
    Access Management" (SimulatePrincipalPolicy: ``group``, ``role``, ``user``).
    """
    from ministack.core import iam_actions

    arn_of = iam_actions.extract_resource_arn

    def named(
        service: str, method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any], *more: str
    ) -> str:
        arn = arn_of(service, method, path, headers, body, query, *more)
        if service == "ecr" and arn.startswith("arn:") and (registry := json.loads(body).get("registryId")):
            return ":".join([*arn.split(":")[:4], registry, *arn.split(":")[5:]])
        if service == "iam" and query.get("Action") in (["SimulatePrincipalPolicy"], "SimulatePrincipalPolicy"):
            source = query.get("PolicySourceArn", arn)
            return str(source[0] if isinstance(source, list) else source)
        return arn

    replace("core.iam_actions.extract_resource_arn", named)
