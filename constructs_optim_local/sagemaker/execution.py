"""SageMaker's steps under an execution role: it reads models, writes artifacts and pulls images.

The local cloud moves no model, but checks each step's permissions as the services would. It does not check permissions
for logs, metrics and network interfaces, because no test could see a difference. Training jobs do read and write, after
this check.
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
from constructs_optim_local.api.error import ApiError, validation_error

SERVICE = "sagemaker.amazonaws.com"
_IMAGE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<repository>[^:@]+)")
# The actions of an AI job's role on the resources that make up the job: "All SageMaker AI resources created by the
# service (training jobs, endpoints, optimization jobs) are created in your AWS account using your execution role"
# (developer guide, "Security in SageMaker AI inference optimization"). The four actions on training jobs are from
# https://github.com/awslabs/ml-container-creator, whose role has run benchmarks.
_MANAGING = {
    "training-job": ("CreateTrainingJob", "AddTags", "DescribeTrainingJob", "StopTrainingJob"),
    "endpoint": ("CreateEndpoint",),
    "optimization-job": ("CreateOptimizationJob",),
}
# AWS does not document which quota the job reads: one of SageMaker's stands for it.
_QUOTA = "L-00000000"
_PULL_ACTIONS = ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage")


class ExecutionRoles:
    """The steps as permission checks. Each method returns the first refused permission, or None."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    def assume(self, role_arn: str, source_arn: str) -> bool:
        """Check that SageMaker may assume the role for a resource."""
        return self._roles.trusts(role_arn, SERVICE, source_arn)

    def read(self, role_arn: str, uri: str) -> Refused | None:
        """Check listing a prefix and getting all objects below it."""
        return self._first_refused(role_arn, self._reading(uri))

    def may_list(self, role_arn: str, uri: str) -> bool:
        """Return whether the role may list the objects whose URIs begin with ``uri``."""
        return self._roles.allows(role_arn, next(self._reading(uri)))

    def credentials(self, role_arn: str) -> dict[str, str]:
        """Return variables that make an SDK use the role, as in a training job's container."""
        return self._roles.credentials(role_arn)

    def write(self, role_arn: str, uri: str, key_arn: str | None) -> Refused | None:
        """Check putting objects below a prefix, encrypted with ``key_arn`` or the bucket's default key."""
        return self._first_refused(role_arn, self._writing(uri, key_arn))

    def pull(self, role_arn: str, image: str | None) -> Refused | None:
        """Check pulling a container image from ECR."""
        return self._first_refused(role_arn, _pulling(image))

    def run_ai_job(self, role_arn: str, *arns: str) -> Refused | None:
        """Check creating the resources of a benchmark or recommendation job, and passing them the job's role.

        Source: https://github.com/aws-samples/sagemaker-genai-hosting-examples, "Gen AI inference recommendations",
        "IAM Role Requirements" (a job reads Service Quotas at its creation); developer guide, "Security in SageMaker AI
        inference optimization", "Execution roles".
        """
        return self._first_refused(role_arn, _running(role_arn, arns))

    def invoke(self, role_arn: str, endpoint_arn: str) -> Refused | None:
        """Check sending requests to an endpoint, as a benchmark does: AWS requires ``sagemaker:InvokeEndpoint*``."""
        actions = ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream")
        return self._first_refused(role_arn, (Permission(action, endpoint_arn) for action in actions))

    def watch(self, role_arn: str, scopes: Iterable[str]) -> Refused | None:
        """Check describing the alarms that roll a deployment back (developer guide, "Auto-rollback configuration")."""
        return self._first_refused(role_arn, (Permission("cloudwatch:DescribeAlarms", scope) for scope in scopes))

    def _first_refused(self, role_arn: str, permissions: Iterator[Permission]) -> Refused | None:
        return next(filter(None, (self._roles.refused(role_arn, permission) for permission in permissions)), None)

    def _reading(self, uri: str) -> Iterator[Permission]:
        bucket, prefix = _parts(uri)
        key = uri.removeprefix(f"s3://{bucket}/")
        # A channel's URI may be a single object's.
        exact = [item for item in self._roles.objects(bucket, key) if item.name == key]
        yield Permission("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": key if exact else prefix})
        found = exact or self._roles.objects(bucket, prefix)
        for item in found:
            yield Permission("s3:GetObject", f"arn:aws:s3:::{bucket}/{item.name}")
        for key_arn in sorted({item.key_arn for item in found if item.key_arn}):
            yield through_s3("kms:Decrypt", key_arn)
        if not found:
            # In a bucket of AWS's, any file of the prefix stands for all of them.
            yield Permission("s3:GetObject", f"arn:aws:s3:::{bucket}/{prefix}model.safetensors")

    def _writing(self, uri: str, key_arn: str | None) -> Iterator[Permission]:
        bucket, prefix = _parts(uri)
        yield Permission("s3:PutObject", f"arn:aws:s3:::{bucket}/{prefix}model.safetensors")
        encrypted_with = key_arn or self._roles.default_key(bucket)
        if encrypted_with:
            yield through_s3("kms:GenerateDataKey", encrypted_with)
            # S3 decrypts the parts of a multipart upload to assemble a large file.
            yield through_s3("kms:Decrypt", encrypted_with)


def cannot_assume(role_arn: str) -> ApiError:
    """Return SageMaker's refusal of a role whose trust policy does not name it.

    Source of the message: https://github.com/awslabs/predictive-maintenance-using-machine-learning/issues/3.
    """
    return validation_error(
        f"Could not assume role {role_arn}. Please ensure that the role exists and allows principal '{SERVICE}' to "
        "assume the role."
    )


def refusal(role_arn: str, permission: Refused) -> str:
    """Return IAM's message about a permission that a role lacks."""
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
