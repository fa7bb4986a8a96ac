"""Lambda functions whose SDK is older than the API."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import ROLE

LOOKING = """
import boto3

def handler(event, context):
    client = boto3.client("sagemaker")
    client.list_models()
    return {name: hasattr(client, name) for name in ("create_ai_benchmark_job", "create_optimization_job")}
"""


def found_by_a_function(cloud: LocalCloud) -> dict[str, Any]:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", LOOKING)
    functions = cloud.client("lambda")
    functions.create_function(
        FunctionName="looking",
        Runtime="python3.12",
        Role=ROLE,
        Handler="index.handler",
        Timeout=60,
        Code={"ZipFile": code.getvalue()},
    )
    return json.loads(functions.invoke(FunctionName="looking")["Payload"].read())


def test_the_sdk_of_functions_can_be_made_to_lack_operations() -> None:
    with LocalCloud(sdk_lacks=["CreateAIBenchmarkJob"]) as cloud:
        assert found_by_a_function(cloud) == {"create_ai_benchmark_job": False, "create_optimization_job": True}
        # The service has them all the same.
        assert cloud.client("sagemaker").list_ai_benchmark_jobs()["AIBenchmarkJobs"] == []


def test_functions_use_the_installed_sdk_by_default(cloud: LocalCloud) -> None:
    assert found_by_a_function(cloud) == {"create_ai_benchmark_job": True, "create_optimization_job": True}
