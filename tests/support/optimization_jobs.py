"""Requests for optimization jobs, and their ends."""

from __future__ import annotations

from typing import Any

from tests.support.in_process import InProcessCloud

from .local_cloud import BUCKET, ROLE
from .waiting import until


def request(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "OptimizationJobName": name,
        "RoleArn": ROLE,
        "ModelSource": {"S3": {"S3Uri": "s3://models/llama/"}},
        "DeploymentInstanceType": "ml.g5.12xlarge",
        "OptimizationConfigs": [
            {
                "ModelQuantizationConfig": {
                    "Image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1",
                    "OverrideEnvironment": {"OPTION_QUANTIZE": "awq", "OPTION_TENSOR_PARALLEL_DEGREE": "4"},
                }
            }
        ],
        "OutputConfig": {"S3OutputLocation": f"s3://{BUCKET}/{name}/"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **changed,
    }


def ended(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(
        lambda: sagemaker.describe_optimization_job(OptimizationJobName=name),
        lambda job: job["OptimizationJobStatus"] in ("COMPLETED", "FAILED", "STOPPED"),
    )


def unchecked(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker", parameter_validation=False)
