"""ECR registries as on AWS: AWS's own registries have its images, and a missing image is an error."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.sagemaker.images import has_image, is_registry_of_aws, repositories

from .patches import table

Response = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, Any]], Awaitable[Response]]


def serve_registries_of_aws() -> None:
    """Answer DescribeImages for AWS's registries, and refuse missing images. Called once.

    Source: Amazon ECR API reference, DescribeImages (``ImageNotFoundException``, ``RepositoryNotFoundException``).
    Sources that AWS's registries answer customers: https://awsdocs-neuron.readthedocs-hosted.com (DLC images, ``aws ecr
    list-images --registry-id 763104351884``), and public tools that call DescribeImages on them.
    """
    handlers = table("app.SERVICE_HANDLERS")
    handlers["ecr"] = _with_aws(handlers["ecr"])


def _with_aws(handler: Handler) -> Handler:
    async def handle(
        method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
    ) -> Response:
        if not headers.get("x-amz-target", "").endswith(".DescribeImages"):
            return await handler(method, path, headers, body, query_params)
        request = json.loads(body or b"{}")
        registry, tags = request.get("registryId", ""), [each.get("imageTag") for each in request.get("imageIds", [])]
        if is_registry_of_aws(registry):
            try:
                return 200, {"Content-Type": "application/x-amz-json-1.1"}, _described(request, registry, tags)
            except ApiError as error:
                return error.to_response()
        response = await handler(method, path, headers, body, query_params)
        if response[0] == 200 and tags and not json.loads(response[2])["imageDetails"]:
            return _no_image(request, registry, tags).to_response()
        return response

    return handle


def _described(request: dict[str, Any], registry: str, tags: list[str | None]) -> bytes:
    from ministack.core.responses import get_region

    repository = request["repositoryName"]
    if repository not in repositories():
        raise ApiError(
            "RepositoryNotFoundException",
            f"The repository with name '{repository}' does not exist in the registry with id '{registry}'",
        )
    if not all(has_image(repository, str(tag), get_region()) for tag in tags):
        raise _no_image(request, registry, tags)
    details = [{"registryId": registry, "repositoryName": repository, "imageTags": [tag]} for tag in tags]
    return json.dumps({"imageDetails": details}).encode()


def _no_image(request: dict[str, Any], registry: str, tags: list[str | None]) -> ApiError:
    return ApiError(
        "ImageNotFoundException",
        f"The image with imageId {{imageDigest:'null', imageTag:'{tags[0]}'}} does not exist within the repository "
        f"with name '{request['repositoryName']}' in the registry with id '{registry}'",
    )
