"""A preflight of whole stacks, with IAM enforced: one report of all that is wrong, before anything is started."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.template_stack import ASSETS, TemplateStack, allowed, made, part_of
from ..support.uploaded_models import upload_model
from .preflight_stacks import G5, MODELS, STORE, on_engine_metrics, sound, wrong

pytestmark = pytest.mark.e2e
WITHDRAWN = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.0.1-withdrawn"
WRONG = (
    "quota: ",
    "model: the hub SageMakerPublicHub has no model",
    f"model: no engine loads s3://{MODELS}/nothing/: there are no files",
    f"{WITHDRAWN} does not exist in us-west-2",
    "role: bare may not call ",
)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(
        job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True
    ) as running:  # fmt: skip
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS, STORE):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        upload_model(s3, MODELS, "mine")
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
        running.client("iam").create_role(RoleName="bare", AssumeRolePolicyDocument=json.dumps(trust))
        yield running


@pytest.fixture(autouse=True)
def no_quotas(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_quotas()
    cloud.clear_faults()


def test_all_problems_are_reported_at_once_and_nothing_is_started(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.set_quota("ml.g5.24xlarge for endpoint usage", 0)
    before = len(cloud.calls())
    stack = withdrawn(made(cloud, tmp_path, "Wrong", wrong))
    assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
    for part in WRONG:
        assert part in stack.reasons
    assert "preflight found 5 problems; nothing was started." in stack.reasons
    created = {call["operation"] for call in cloud.calls()[before:] if call["operation"].startswith("Create")}
    assert created == set()
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def test_the_command_line_reports_the_same_findings_before_the_deployment(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.set_quota("ml.g5.24xlarge for endpoint usage", 0)
    template = withdrawn(made(cloud, tmp_path, "Wrong", wrong)).template
    (tmp_path / "S.template.json").write_text(json.dumps(template))
    command = [sys.executable, "-m", "constructs_optim", "preflight", str(tmp_path)]
    before = len(cloud.calls())
    done = subprocess.run(command, env=cloud.child_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    for part in WRONG:
        assert part in " ".join(done.stdout.split())
    assert "S: 5 problems, " in done.stdout
    assert "are known only at deployment: Roles (" in " ".join(done.stdout.split())
    changes = ("Create", "Update", "Delete", "Put", "Stop")
    assert [call for call in cloud.calls()[before:] if call["operation"].startswith(changes)] == []

    as_json = subprocess.run(
        [*command, "--json"], env=cloud.child_environment(), capture_output=True, text=True, check=False
    )
    (told,) = json.loads(as_json.stdout)
    assert sorted(problem["check"] for problem in told["problems"]) == ["image", "model", "model", "quota", "role"]


def test_scaling_on_engine_metrics_is_deployed_once_otel_enrichment_is_running(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    stack = made(cloud, tmp_path, "Scaled", on_engine_metrics)
    assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
    assert "engine metrics: Scaled/Scaling needs engine metrics" in stack.reasons
    assert "aws cloudwatch start-otel-enrichment" in stack.reasons
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons
    cloudwatch = cloud.client("cloudwatch")
    cloudwatch.start_otel_enrichment()
    try:
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons
    finally:
        cloudwatch.stop_otel_enrichment()


def withdrawn(stack: TemplateStack) -> TemplateStack:
    """The same stack with an image that its registry has no more."""
    image = r"763104351884\.dkr\.ecr\.us-west-2\.amazonaws\.com/vllm:[\w.-]+"
    text, count = re.subn(image, WITHDRAWN, json.dumps(stack.template))
    assert count > 1
    return replace(stack, template=json.loads(text))


def test_a_sound_stack_is_deployed_and_its_roles_are_allowed_what_they_do(cloud: LocalCloud, tmp_path: Path) -> None:
    # The update launches the new instance beside the old one.
    cloud.set_quota(f"{G5} for endpoint usage", 1)
    stack = made(cloud, tmp_path / "first", "Sound", sound())
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    changed = made(cloud, tmp_path / "second", "Sound", sound(64))
    assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", "the rollback is not failed by the preflight"
    assert "an update launches new instances before the old ones end" in changed.reasons
    cloud.set_quota(f"{G5} for endpoint usage", 2)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons

    decisions = [
        each
        for each in cloud.authorizations()
        if each["role"].startswith("Sound") and part_of(each["role"]) is not None
    ]
    assert [each for each in decisions if each["decision"] != "Allow"] == []
    asked = {each["action"] for each in decisions if part_of(each["role"]) == "PreflightHandler"}
    granted = {action for part, action in allowed(stack.template) if part == "PreflightHandler"}
    # Defaults are looked up where a quota has no value of its own, a bucket's policy where a role's allows too little.
    unseen = {
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
        "servicequotas:ListAWSDefaultServiceQuotas",
        "s3:GetBucketPolicy",
    }
    assert granted - asked == unseen
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons
