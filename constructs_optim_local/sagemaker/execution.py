"""What SageMaker does under an execution role: it reads models, writes artifacts and pulls images.

The local cloud moves no model, so it asks for each step's permissions instead, as the services would. Writing logs and
metrics and making network interfaces are left out: no test could see a difference. Training jobs do read and write, and
ask beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from constructs_optim_local.access.authorization import (
    Permission,
    Refused,
    Roles,
    through_s3,
)

SERVICE = "sagemaker.amazonaws.com"
_IMAGE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<repository>[^:@]+)")
# What a role of an AI job does with the resources that the job is made of: "All SageMaker AI resources created by the
# service (training jobs, endpoints, optimization jobs) are created in your AWS account using your execution role"
# (developer guide, "Security in SageMaker AI inference optimization"). The four actions on training jobs are those of
# https://github.com/awslabs/ml-container-creator, whose role has run benchmarks.
_MANAGING = {
    "training-job": ("CreateTrainingJob", "AddTags", "DescribeTrainingJob", "StopTrainingJob"),
    "endpoint": ("CreateEndpoint",),
    "optimization-job": ("CreateOptimizationJob",),
}
# The quota that is read is not documented: any of SageMaker's stands for it.
_QUOTA = "L-00000000"
_PULL_ACTIONS = ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage")


class ExecutionRoles:
    """The steps, as permissions; each method gives the first one that is refused, or None."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    def assume(self, role_arn: str, source_arn: str) -> bool:
        """Whether SageMaker may take the role on for a resource."""
        return self._roles.trusts(role_arn, SERVICE, source_arn)

    def read(self, role_arn: str, uri: str) -> Refused | None:
        """List a prefix and get all that is below it."""
        return self._first_refused(role_arn, self._reading(uri))

    def may_list(self, role_arn: str, uri: str) -> bool:
        """Whether the role may list what begins with a URI."""
        return self._roles.allows(role_arn, next(self._reading(uri)))

    def credentials(self, role_arn: str) -> dict[str, str]:
        """The variables that have an SDK act under the role, as in a training job's container."""
        return self._roles.credentials(role_arn)

    def write(self, role_arn: str, uri: str, key_arn: str | None) -> Refused | None:
        """Put objects below a prefix, encrypted with ``key_arn`` or as the bucket asks for."""
        return self._first_refused(role_arn, self._writing(uri, key_arn))

    def pull(self, role_arn: str, image: str | None) -> Refused | None:
        """Pull a container image from ECR."""
        return self._first_refused(role_arn, _pulling(image))

    def run_ai_job(self, role_arn: str, *arns: str) -> Refused | None:
        """Create what a benchmark or recommendation job is made of, and pass it the job's own role.

        Source: https://github.com/aws-samples/sagemaker-genai-hosting-examples, "Gen AI inference recommendations",
        "IAM Role Requirements" (Service Quotas is asked when a job is created); developer guide, "Security in SageMaker
        AI inference optimization", "Execution roles".
        """
        return self._first_refused(role_arn, _running(role_arn, arns))

    def invoke(self, role_arn: str, endpoint_arn: str) -> Refused | None:
        """Send requests to an endpoint, as a benchmark does: AWS asks for ``sagemaker:InvokeEndpoint*``."""
        actions = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
        return self._first_refused(role_arn, (Permission(action, endpoint_arn) for action in actions))

    def watch(self, role_arn: str, scopes: Iterable[str]) -> Refused | None:
        """Look at the alarms that roll a deployment back (developer guide, "Auto-rollback configuration")."""
        return self._first_refused(role_arn, (Permission("cloudwatch:DescribeAlarms", scope) for scope in scopes))

    def _first_refused(self, role_arn: str, permissions: Iterator[Permission]) -> Refused | None:
        return next(filter(None, (self._roles.refused(role_arn, permission) for permission in permissions)), None)

    def _reading(self, uri: str) -> Iterator[Permission]:
        bucket, prefix = _parts(uri)
        key = uri.removeprefix(f"s3://{bucket}/")
        # A channel's URI may be that of a single object.
        exact = [item for item in self._roles.objects(bucket, key) if item.name == key]
        yield Permission("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": key if exact else prefix})
        found = exact or self._roles.objects(bucket, prefix)
        for item in found:
            yield Permission("s3:GetObject", f"arn:aws:s3:::{bucket}/{item.name}")
        for key_arn in sorted({item.key_arn for item in found if item.key_arn}):
            yield through_s3("kms:Decrypt", key_arn)
        if not found:
            # A bucket of AWS's own: any file of the prefix stands for all of them.
            yield Permission("s3:GetObject", f"arn:aws:s3:::{bucket}/{prefix}model.safetensors")

    def _writing(self, uri: str, key_arn: str | None) -> Iterator[Permission]:
        bucket, prefix = _parts(uri)
        yield Permission("s3:PutObject", f"arn:aws:s3:::{bucket}/{prefix}model.safetensors")
        encrypted_with = key_arn or self._roles.default_key(bucket)
        if encrypted_with:
            yield through_s3("kms:GenerateDataKey", encrypted_with)
            # A large file is uploaded in parts, and S3 decrypts each part to put them together.
            yield through_s3("kms:Decrypt", encrypted_with)


def refusal(role_arn: str, permission: Refused) -> str:
    """IAM's sentence about a permission that a role lacks."""
    account, role = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    return (
        f"User: arn:aws:sts::{account}:assumed-role/{role}/SageMaker is not authorized to perform: {permission.action} "
        f"on resource: {permission.resource} {permission.reason}"
    )


def _running(role_arn: str, arns: Iterable[str]) -> Iterator[Permission]:
    for arn in arns:
        _, _, _, region, account, resource = arn.split(":", 5)
        yield Permission(
            "servicequotas:GetServiceQuota", f"arn:aws:servicequotas:{region}:{account}:sagemaker/{_QUOTA}"
        )
        for action in _MANAGING[resource.partition("/")[0]]:
            yield Permission(f"sagemaker:{action}", arn)
    yield Permission("iam:PassRole", role_arn, {"iam:PassedToService": SERVICE})


def _pulling(image: str | None) -> Iterator[Permission]:
    found = _IMAGE.match(image or "")
    if found is None:
        return
    yield Permission("ecr:GetAuthorizationToken", "*")
    repository = f"arn:aws:ecr:{found['region']}:{found['account']}:repository/{found['repository']}"
    for action in _PULL_ACTIONS:
        yield Permission(action, repository)


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
