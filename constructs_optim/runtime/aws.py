"""AWS clients for the handlers, from botocore: boto3 would only lengthen a cold start."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from botocore.client import ClientMeta
    from botocore.paginate import Paginator
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_pricing.client import PricingClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_sagemaker_runtime.client import SageMakerRuntimeClient
    from mypy_boto3_stepfunctions.client import SFNClient

# Standard retries back off over throttling and 5xx; eight attempts stay well below a function's timeout.
CLIENT = Config(retries={"mode": "standard", "max_attempts": 8}, connect_timeout=5, read_timeout=20)


class Judges(Protocol):
    """The calls to AWS Lambda, for a function that judges answers."""

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - the API's names
        """Invoke the function and wait for its response."""
        ...


class ScalableTargets(Protocol):
    """The calls to Application Auto Scaling."""

    @property
    def meta(self) -> ClientMeta:
        """The client's metadata."""
        ...

    def get_paginator(self, operation_name: str, /) -> Paginator[Any]:
        """Return the paginator for an operation."""
        ...

    def describe_scalable_targets(self, **request: Any) -> dict[str, Any]:
        """DescribeScalableTargets."""
        ...

    def list_tags_for_resource(self, **request: Any) -> dict[str, Any]:
        """ListTagsForResource."""
        ...

    def register_scalable_target(self, **request: Any) -> object:
        """RegisterScalableTarget."""
        ...

    def deregister_scalable_target(self, **request: Any) -> object:
        """DeregisterScalableTarget."""
        ...

    def put_scaling_policy(self, **request: Any) -> object:
        """PutScalingPolicy."""
        ...

    def put_scheduled_action(self, **request: Any) -> object:
        """PutScheduledAction."""
        ...


class Topics(Protocol):
    """The calls to Amazon SNS."""

    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> object:  # noqa: N803 - the API's names
        """Send a message to a topic's subscribers."""
        ...


@overload
def client(name: Literal["application-autoscaling"]) -> ScalableTargets: ...
@overload
def client(name: Literal["cloudformation"]) -> CloudFormationClient: ...
@overload
def client(name: Literal["cloudwatch"]) -> CloudWatchClient: ...
@overload
def client(name: Literal["lambda"], config: Config = ...) -> Judges: ...
@overload
def client(name: Literal["sns"]) -> Topics: ...
@overload
def client(name: Literal["pricing"], config: Config = ..., *, region: str) -> PricingClient: ...
@overload
def client(name: Literal["s3"]) -> S3Client: ...
@overload
def client(name: Literal["sagemaker"]) -> SageMakerClient: ...
@overload
def client(name: Literal["sagemaker-runtime"], config: Config) -> SageMakerRuntimeClient: ...
@overload
def client(name: Literal["stepfunctions"]) -> SFNClient: ...
def client(name: str, config: Config = CLIENT, *, region: str | None = None) -> object:
    """Return the client for a service."""
    return _client(session(), name, region, config)


def any_client(name: str) -> Any:
    """Return the client for a service without type stubs here, such as those that a preflight queries."""
    return _client(session(), name, None, CLIENT)


@functools.cache
def _client(session: botocore.session.Session, name: str, region: str | None, config: Config) -> Any:
    # The next invocation of a warm function has its clients, and their connections.
    return session.create_client(name, region_name=region, config=config)


def forget_clients() -> None:
    """Let the next calls begin with new clients, which have new connections and all their retries.

    A client's failed calls use up its retry quota, so that later ones are retried less often, or not at all. Source:
    AWS SDKs and Tools reference guide, "Retry behavior", on the token bucket of the standard mode.
    """
    _client.cache_clear()


@functools.cache
def session() -> botocore.session.Session:
    """Return the shared session, with SageMaker's newest operations as ``sdk-extras`` (botocore/loaders.py)."""
    created = botocore.session.get_session()
    loader = created.get_component("data_loader")
    loader.search_paths.append(str(Path(__file__).with_name("botocore_data")))
    loader.list_available_services = _available_services
    return created


def _available_services(type_name: str) -> list[str]:
    # botocore would list every service's folder, twice in a cold start.
    return [
        "application-autoscaling",
        "cloudformation",
        "cloudwatch",
        "ec2",
        "ecr",
        "iam",
        "kms",
        "lambda",
        "pricing",
        "s3",
        "sagemaker",
        "sagemaker-runtime",
        "secretsmanager",
        "service-quotas",
        "sns",
        "stepfunctions",
        "sts",
    ]
