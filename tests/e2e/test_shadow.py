"""A shadow's life with the CDK CLI, with IAM enforced: decided, ended, deployed once more, promoted, and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.runtime.store.run_records import CURRENT, RESULT, RunRecords
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.notifications import Notifications
from ..support.security_document import permissions_under
from ..support.template_stack import allowed, part_of
from ..support.uploaded_models import upload_model
from ..support.waiting import until

STORE, DATA = "shadow-store", "shadow-models"
REFERENCE = "reference/answers.jsonl"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud that enforces IAM, with a model, and answers that are known."""
    with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.01, enforce_iam=True) as running:
        s3 = running.client("s3")
        for bucket in (STORE, DATA):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        upload_model(s3, DATA, "llama")
        s3.put_object(Bucket=DATA, Key=REFERENCE, Body=b'{"prompt": "Question 0?", "answer": "no text has this"}\n')
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def ask(stack: DeployedStack, questions: int) -> None:
    runtime, name = stack.client("sagemaker-runtime"), stack.endpoint["EndpointName"]
    for number in range(questions):
        body = {"messages": [{"role": "user", "content": f"Question {number}?"}], "max_tokens": 16}
        runtime.invoke_endpoint(EndpointName=name, Body=json.dumps(body), ContentType="application/json")


def records(stack: DeployedStack, key_arn: str) -> RunRecords:
    (key,) = stack.resources["Custom::ShadowRun"]
    return RunRecords(stack.client("s3"), "shadows", STORE, key_arn, key)


def without_shadow(stack: DeployedStack) -> dict[str, Any]:
    """The endpoint, once the watcher has ended its shadow."""
    return until(
        lambda: stack.endpoint,
        lambda found: found["EndpointStatus"] == "InService" and "ShadowProductionVariants" not in found,
        seconds=300,
    )


def optimization_jobs(cloud: LocalCloud) -> int:
    return len(cloud.client("sagemaker").list_optimization_jobs()["OptimizationJobSummaries"])


def test_a_shadow_is_decided_ended_promoted_and_deleted(cloud: LocalCloud, tmp_path: Path) -> None:
    key_arn = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    given = {
        "stack": "Shadowed",
        "bucket": STORE,
        "key": key_arn,
        "model": f"s3://{DATA}/llama/",
        "reference": f"s3://{DATA}/{REFERENCE}",
    }
    settings = {"SHADOW_APP": json.dumps(given)}
    stack = DeployedStack(cloud, tmp_path, "Shadowed", app="shadow_app.py", settings=settings)
    # By its artifact: production has the files of the model itself.
    cloud.set_performance(f"{STORE}/artifacts/", answers_differently=1.0)
    stack.deploy()
    template = stack.client("cloudformation").get_template(StackName="Shadowed")["TemplateBody"]
    notifications = Notifications.of(cloud, stack.outputs["Topic"])
    production = stack.served_container["ModelDataSource"]
    assert [each["VariantName"] for each in stack.endpoint["ShadowProductionVariants"]] == ["Shadow"]

    ask(stack, 40)
    ended = without_shadow(stack)
    result = records(stack, key_arn).uri(RESULT).removeprefix(f"s3://{STORE}/")
    report = json.loads(stack.client("s3").get_object(Bucket=STORE, Key=result)["Body"].read())
    assert report["outcome"] == "worse"
    [judged] = [finding for finding in report["findings"] if finding["measure"] == "judge"]
    assert judged["outcome"] == "worse"
    [told] = notifications.received()
    assert told["Subject"] == f"Shadow of {ended['EndpointName']}: worse"
    assert "The candidate is worse by judge" in told["Message"]

    # What has changed behind CloudFormation's back is no difference of templates.
    assert "no differences" in stack.diff()
    stack.deploy()
    assert stack.endpoint["EndpointConfigName"] == ended["EndpointConfigName"]

    # An earlier run of the same comparison had another end, and its promotion is made good.
    records(stack, key_arn).write(CURRENT, {"outcome": "pass", "run": "0" * 16})
    more = replace(stack, settings={"SHADOW_APP": json.dumps({**given, "instances": 2})})
    more.deploy()
    promoted = without_shadow(more)
    assert "Promoted" in promoted["EndpointConfigName"]
    candidate = more.served_container["ModelDataSource"]
    assert candidate != production

    # Deployments of what the run knows nothing of go back to the shadow, which then ends as it did.
    baked = replace(stack, settings={"SHADOW_APP": json.dumps({**given, "instances": 2, "bake": 1})})
    baked.deploy()
    found = without_shadow(baked)
    assert found["EndpointConfigName"] == promoted["EndpointConfigName"]
    assert found["LastDeploymentConfig"] != promoted["LastDeploymentConfig"]
    cloud.inject("update_fails", count=1)
    assert "UPDATE_ROLLBACK" in more.deploy(fails=True)
    assert without_shadow(more)["EndpointConfigName"] == promoted["EndpointConfigName"]

    jobs = optimization_jobs(cloud)
    final = replace(stack, settings={"SHADOW_APP": json.dumps({**given, "instances": 2, "promoted": True})})
    final.deploy()
    assert final.served_container["ModelDataSource"] == candidate
    assert optimization_jobs(cloud) == jobs == 1
    (bucket,) = [name for name in final.resources["AWS::S3::Bucket"] if "captures" in name]
    s3 = cloud.client("s3")
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        s3.delete_object(Bucket=bucket, Key=item["Key"])
    final.destroy()
    assert cloud.client("sagemaker").list_endpoint_configs()["EndpointConfigs"] == []

    decisions = [each for each in cloud.authorizations() if part_of(each["role"]) is not None]
    assert [each for each in decisions if each["decision"] != "Allow"] == []
    may = {each for each in allowed(template) if each[0].startswith("Shadow")}
    did = {(part_of(each["role"]), each["action"]) for each in decisions}
    unseen = {each for each in permissions_under("What no test sees") if each[0].startswith("Shadow")}
    # CloudWatch has metrics minutes late, and this run is decided before: tests/handlers/test_shadow_watcher.py.
    assert may - did == unseen | {("ShadowWatcher", "cloudwatch:GetMetricData")}
