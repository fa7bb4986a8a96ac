"""The fixtures that come with the package, in a project that knows nothing else of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import CHECKOUT, snippets

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.e2e

TESTS = """
import boto3
import json
import os

def test_a_bucket_is_made(local_session):
    local_session.client("s3").create_bucket(
        Bucket="mine", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    local_session.client("s3").put_object(Bucket="mine", Key="one", Body=b"1")
    local_session.client("sagemaker").create_model(
        ModelName="m", ExecutionRoleArn="arn:aws:iam::000000000000:role/r", PrimaryContainer={"Image": "vllm"}
    )

def test_the_next_test_has_an_account_of_its_own(local_account):
    assert boto3.client("s3").list_buckets()["Buckets"] == []
    assert boto3.client("sagemaker").list_models()["Models"] == []
    assert boto3.client("sts").get_caller_identity()["Account"] == local_account.id
    boto3.client("s3").create_bucket(Bucket="mine", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    assert os.environ["AWS_ENDPOINT_URL"] == local_account.environment["AWS_ENDPOINT_URL"]

def test_an_endpoint_answers(local_session):
    sagemaker, runtime = local_session.client("sagemaker"), local_session.client("sagemaker-runtime")
    sagemaker.create_model(
        ModelName="m", ExecutionRoleArn="arn:aws:iam::000000000000:role/r", PrimaryContainer={"Image": "vllm"}
    )
    variant = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.g6.xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="c")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="chat", WaiterConfig={"Delay": 1})
    request = {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 9, "temperature": 0}
    response = runtime.invoke_endpoint(EndpointName="chat", Body=json.dumps(request), ContentType="application/json")
    text = json.loads(response["Body"].read())["choices"][0]["message"]["content"]
    assert ("deployment" in text) == SERVED

def test_the_environment_is_as_it_was():
    assert "AWS_ENDPOINT_URL" not in os.environ
"""


@pytest.mark.parametrize("serve", ["true", "false"])
def test_the_fixtures_work_by_themselves(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serve: str
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    pytester.makeini(f"[pytest]\nlocal_cloud_serve = {serve}\n")
    pytester.makepyfile(TESTS.replace("SERVED", str(serve == "true")))
    pytester.runpytest_subprocess("-p", "no:randomly", "-x").assert_outcomes(passed=4)


def test_the_tests_of_the_documentation_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    # One of them deploys an app.
    shown = [each.code for each in snippets(CHECKOUT / "docs" / "testing.md") if "npx" not in each.code]
    (settings,) = [code for code in shown if "def local_cloud_settings" in code]
    tests = [code for code in shown if "def test_" in code]
    assert len(tests) == 3
    pytester.makeini("[pytest]\nlocal_cloud_serve = true\n")
    pytester.makeconftest(settings)
    pytester.makepyfile("\n\n".join(tests))
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=3)
