"""The construct for TypeScript as jsii gives it to other languages: Python stands for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import CHECKOUT

TYPESCRIPT = CHECKOUT / "typescript"
# jsii checks the types of all that crosses into the language, when it is read.
APP = """
from aws_cdk import App, Duration, Stack, Tags, assertions, aws_iam as iam, aws_s3 as s3
from constructs_optim_jsii import (
    Alarms, AlarmSettings, AwqQuantization, ComponentOptions, DataCapture, EndpointMetric, Model, ModelJumpstart,
    MonitoringOptions, OptimizedEndpoint, Quantization, Technique, UpdatePolicy, UpdatePolicyAllAtOnce,
)

MODEL = "meta-textgeneration-llama-2-70b"
stack = Stack(App(), "My")
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model(jumpstart=ModelJumpstart(model_id=MODEL, version="4.0.0", accept_eula=True)),
    techniques=[Technique(quantization=Quantization(awq=AwqQuantization()))],
    instance_type="ml.g5.12xlarge",
    inference_component=ComponentOptions(caching=True),
    data_capture=DataCapture(bucket=s3.Bucket(stack, "Captures")),
    monitoring=MonitoringOptions(alarms=Alarms(error_rate_enabled=False, queue=AlarmSettings(threshold=7))),
    update_policy=UpdatePolicy(all_at_once=UpdatePolicyAllAtOnce(bake_time=Duration.minutes(5))),
)
names = ("endpoint_name", "endpoint_arn", "inference_component_name", "open_ai_base_url", "artifact_store_bucket",
         "dashboard_name")
assert all(isinstance(getattr(endpoint, name), str) for name in names)
assert endpoint.endpoint_ref.endpoint_arn == endpoint.endpoint_arn
assert all(isinstance(alarm.alarm_arn, str) for alarm in endpoint.alarms)
assert endpoint.cfn_endpoint.ref and endpoint.cfn_dashboard.ref
assert [len(key) for key in endpoint.artifact_keys] == [64]
assert endpoint.metric(EndpointMetric.MODEL_LATENCY).metric_name == "ModelLatency"
assert endpoint.grant_invoke(iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())).success
Tags.of(stack).add("team", "nlp")
resources = assertions.Template.from_stack(stack).to_json()["Resources"].values()
(job,) = (each["Properties"] for each in resources if each["Type"] == "Custom::OptimizationJob")
assert job["Tags"] == [{"Key": "team", "Value": "nlp"}]
print("read")
"""


@pytest.mark.package
def test_what_an_endpoint_has_is_read_in_another_language(tmp_path: Path) -> None:
    assert (TYPESCRIPT / "lib").exists(), "make typescript builds it"
    pacmak = TYPESCRIPT / "node_modules" / ".bin" / "jsii-pacmak"
    node = os.environ.get("JSII_NODE") or Path(sys.executable).with_name("node")
    generated = tmp_path / "dist"
    generate = [node, pacmak, "--targets", "python", "--code-only", "--outdir", generated]
    subprocess.run(generate, cwd=TYPESCRIPT, check=True, capture_output=True, timeout=300)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(generated / "python" / "src"), "JSII_NODE": str(node)}
    done = subprocess.run(
        [sys.executable, "-c", APP], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "read"), done.stderr
