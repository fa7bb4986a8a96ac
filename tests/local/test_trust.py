"""Roles that SageMaker cannot assume, in a local cloud that does not enforce permissions."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.hosting import IMAGE
from ..support.local_cloud import BUCKET
from ..support.optimization_jobs import request


def role(cloud: LocalCloud, service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    created = cloud.client("iam").create_role(RoleName=f"role-{uuid.uuid4()}", AssumeRolePolicyDocument=trust)
    return created["Role"]["Arn"]


def named() -> str:
    return f"trust-{uuid.uuid4()}"


def create_model(sagemaker: Any, role_arn: str) -> None:
    data = {"S3Uri": f"s3://{BUCKET}/models/mine/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": data}}
    sagemaker.create_model(ModelName=named(), PrimaryContainer=container, ExecutionRoleArn=role_arn)


def create_config(sagemaker: Any, role_arn: str) -> None:
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName=named(), ProductionVariants=[variant], ExecutionRoleArn=role_arn
    )


def create_optimization_job(sagemaker: Any, role_arn: str) -> None:
    sagemaker.create_optimization_job(**request(named(), RoleArn=role_arn))


def create_training_job(sagemaker: Any, role_arn: str) -> None:
    sagemaker.create_training_job(
        TrainingJobName=named(),
        AlgorithmSpecification={
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["/bin/true"],
        },
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/trained/"},
        ResourceConfig={"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1},
        RoleArn=role_arn,
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )


@pytest.mark.parametrize("create", [create_model, create_config, create_optimization_job, create_training_job])
def test_sagemaker_refuses_a_role_that_trusts_another_service(cloud: LocalCloud, sagemaker: Any, create: Any) -> None:
    with pytest.raises(ClientError, match=r"sagemaker\.amazonaws\.com") as refused:
        create(sagemaker, role(cloud, "lambda.amazonaws.com"))
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_a_role_that_trusts_sagemaker_is_assumed(cloud: LocalCloud, sagemaker: Any) -> None:
    create_config(sagemaker, role(cloud, "sagemaker.amazonaws.com"))
