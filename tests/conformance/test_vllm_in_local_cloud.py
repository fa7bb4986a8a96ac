"""vLLM itself, on the CPU, behind an endpoint of the local cloud: started with a plan's arguments, asked, measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim.recipe import Model, Recipe, plan
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.light_server import tiny_model

from ..support.local_cloud import ROLE
from ..support.waiting import until
from .test_vllm_serves import ENGINE, ON_THE_CPU

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

COMMAND = (
    f"{ENGINE / 'python'} -m vllm.entrypoints.cli.main serve {{arguments}} {' '.join(ON_THE_CPU)} "
    "--tensor-parallel-size 1 --host 127.0.0.1 --port {port}"
)


def test_an_endpoint_answers_with_vllms_words_and_has_its_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "2")):
        monkeypatch.setenv(name, value)
    container = plan(Recipe(Model.s3("s3://models/tiny/"), [], "ml.g6.12xlarge", "us-west-2")).container
    with LocalCloud(serve=COMMAND, endpoint_seconds=0.1, otel_enrichment=True) as cloud:
        s3, sagemaker = cloud.client("s3"), cloud.client("sagemaker")
        s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": cloud.region})
        for path in tiny_model.write(tmp_path / "tiny").iterdir():
            s3.upload_file(str(path), "models", f"tiny/{path.name}")
        source = {"S3Uri": "s3://models/tiny/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        sagemaker.create_model(
            ModelName="chat",
            ExecutionRoleArn=ROLE,
            PrimaryContainer={
                "Image": container.image,
                "Environment": dict(container.environment),
                "ModelDataSource": {"S3DataSource": source},
            },
        )
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": "chat",
            "InstanceType": "ml.g6.12xlarge",
            "InferenceAmiVersion": container.inference_ami_version,
        }
        sagemaker.create_endpoint_config(
            EndpointConfigName="chat", ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
        )
        sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="chat")
        endpoint = until(
            lambda: sagemaker.describe_endpoint(EndpointName="chat"),
            lambda found: found["EndpointStatus"] not in ("Creating", "RollingBack"),
            # vLLM compiles and warms up, which takes minutes on a busy machine.
            seconds=1800,
        )
        assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason", "it did not start")
        request = {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 12, "temperature": 0}
        response = cloud.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="chat", ContentType="application/json", Body=json.dumps(request)
        )
        found = json.loads(response["Body"].read())
        assert found["usage"]["completion_tokens"] > 0
        query = 'sum(vllm:generation_tokens_total{"aws.sagemaker.endpoint.name"="chat"})'
        until(
            lambda: cloud.engine_metrics(query),
            lambda series: [each["value"] for each in series] == [found["usage"]["completion_tokens"]],
        )
