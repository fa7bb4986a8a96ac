"""Container images in Amazon ECR.

AWS's registries answer customers about their images: the AWS Neuron documentation lists them with ``aws ecr
list-images --registry-id 763104351884``, and public tools ask with ``describe-images``. An organization's policies may
deny that; then the image is not known.
Source: Amazon ECR API reference, DescribeImages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from botocore.exceptions import ClientError

from ..errors import code_of
from .context import Context
from .report import PreflightFinding, advice, problem

IMAGE = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.[a-z.-]+/(?P<repository>[^:@]+)"
    r"(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
"""An image of ECR: ``<account>.dkr.ecr.<region>.<suffix>/<repository>:<tag>@<digest>``."""
_ABSENT = ("ImageNotFoundException", "RepositoryNotFoundException")


def check_image(image: str, context: Context) -> Iterator[PreflightFinding]:
    """An image, which has to be in the registry of this region."""
    parts = IMAGE.fullmatch(image)
    if parts is None:
        yield advice("image", f"{image} is not in Amazon ECR", "see that it can be pulled")
        return
    if parts["region"] != context.region:
        # Neither jobs nor models are refused for it by their documentation.
        yield advice("image", f"{image} is in another region", "see that it can be pulled")
        return
    identified = {"imageDigest": parts["digest"]} if parts["digest"] else {"imageTag": parts["tag"] or "latest"}
    try:
        context.client("ecr").describe_images(
            registryId=parts["account"], repositoryName=parts["repository"], imageIds=[identified]
        )
    except ClientError as error:
        if code_of(error) not in _ABSENT:
            raise
        yield problem(
            "image",
            f"{image} does not exist in {context.region}",
            "name one that does: optim.lock.json and server settings have the app's images",
        )
