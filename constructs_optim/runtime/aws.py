"""boto3's clients, as patient as handlers are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import boto3
import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_stepfunctions.client import SFNClient

# Standard retries back off over throttling and 5xx; eight attempts stay well below a function's timeout.
CLIENT = Config(retries={"mode": "standard", "max_attempts": 8}, connect_timeout=5, read_timeout=20)


@overload
def client(name: Literal["cloudformation"]) -> CloudFormationClient: ...
@overload
def client(name: Literal["cloudwatch"]) -> CloudWatchClient: ...
@overload
def client(name: Literal["s3"]) -> S3Client: ...
@overload
def client(name: Literal["sagemaker"]) -> SageMakerClient: ...
@overload
def client(name: Literal["stepfunctions"]) -> SFNClient: ...
def client(name: str) -> object:
    """boto3's client of a service, as patient as handlers are."""
    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session(botocore_session=_knowing_newest_operations())
    return boto3.client(name, config=CLIENT)


def _knowing_newest_operations() -> botocore.session.Session:
    """A session that knows SageMaker's newest operations, whichever boto3 the Lambda runtime brings.

    botocore adds what it finds in "sdk-extras" to its own model of a service (botocore/loaders.py); boto3 adds its own
    folder to the same list.
    """
    made = botocore.session.get_session()
    made.get_component("data_loader").search_paths.append(str(Path(__file__).with_name("botocore_data")))
    return made
