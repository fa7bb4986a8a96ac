"""Container images in Amazon ECR.

Customers can query AWS's registries: the AWS Neuron documentation uses ``aws ecr list-images --registry-id
763104351884``, and public tools use ``describe-images``. An organization's policies may deny these calls, in which case
the check only advises.
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
"""An image in ECR: ``<account>.dkr.ecr.<region>.<suffix>/<repository>:<tag>@<digest>``."""
_ABSENT = ("ImageNotFoundException", "RepositoryNotFoundException")


def check_image(image: str, context: Context) -> Iterator[PreflightFinding]:
    """Check that an image is in this Region's registry."""
    parts = IMAGE.fullmatch(image)
    if parts is None:
        yield advice("image", f"{image} is not in Amazon ECR", "make sure that SageMaker can pull it")
        return
    if parts["region"] != context.region:
        # The documentation does not exclude such images for jobs or models.
        yield advice("image", f"{image} is in another Region", "make sure that SageMaker can pull it")
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
            "use an existing image; the app's images are in optim.lock.json and its server settings",
        )
