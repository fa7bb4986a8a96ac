"""The module of terraform/, with Terraform itself and providers whose calls go to the local cloud."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT
from ..support.example_cloud import example_cloud
from ..support.terraform_providers import environment_of_providers

TERRAFORM = shutil.which("terraform")
pytestmark = pytest.mark.skipif(TERRAFORM is None, reason="there is no terraform on the PATH")

BUCKET, OTHER_BUCKET, OTHER_REGION = "code-us-west-2", "code-eu-west-1", "eu-west-1"
# Exit statuses of `terraform plan -detailed-exitcode`.
NO_CHANGES, CHANGES = 0, 2
# What a reviewer reads, without lines on the progress of data sources.
LINES_OF_A_FIRST_PLAN, LINES_OF_A_CHANGE = 120, 200


class Configuration:
    """A copy of the module with its example, which Terraform has initialized."""

    def __init__(self, folder: Path, cloud: LocalCloud) -> None:
        self.module, self.cloud = folder / "module", cloud
        self.example = self.module / "examples/quickstart"
        shutil.copytree(CHECKOUT / "terraform", self.module)
        self.environment = {
            **os.environ,
            **cloud.environment(),
            **environment_of_providers(folder),
            "TF_VAR_code_bucket": BUCKET,
        }

    def run(self, *arguments: str, status: int = 0, folder: Path | None = None, **variables: str) -> str:
        """Run Terraform; all that it prints."""
        assert TERRAFORM is not None
        done = subprocess.run(
            [TERRAFORM, *arguments, *(["-no-color"] if arguments[0] not in ("fmt", "output", "show") else [])],
            cwd=folder or self.example,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == status, printed[-5000:]
        return printed

    def edit(self, before: str, after: str) -> None:
        path = self.example / "main.tf"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))


def actions(planned: str) -> list[str]:
    """The lines of a plan after those on its progress."""
    lines = planned.splitlines()
    return lines[lines.index("Terraform will perform the following actions:") :]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with example_cloud(tmp_path_factory.mktemp("cloud")) as running:
        for bucket, region in ((BUCKET, "us-west-2"), (OTHER_BUCKET, OTHER_REGION)):
            location: Any = {"LocationConstraint": region}
            running.client("s3", region_name=region).create_bucket(Bucket=bucket, CreateBucketConfiguration=location)
        yield running


@pytest.fixture
def configuration(cloud: LocalCloud, tmp_path: Path) -> Configuration:
    made = Configuration(tmp_path, cloud)
    made.run("init")
    return made


def test_the_module_is_formatted_and_valid(configuration: Configuration) -> None:
    configuration.run("fmt", "-check", "-recursive", folder=configuration.module)
    configuration.run("validate")


@pytest.mark.exhaustive
def test_the_module_passes_its_own_tests(configuration: Configuration) -> None:
    configuration.run("init", folder=configuration.module)
    assert "0 failed" in configuration.run("test", folder=configuration.module)


def test_a_plan_shows_what_changes_and_an_apply_changes_it(configuration: Configuration, cloud: LocalCloud) -> None:
    # More than an object may have.
    tags = "\n".join(f'tag{number} = "x"' for number in range(11))
    with (configuration.example / "main.tf").open("a") as file:
        file.write(f'provider "aws" {{\n  default_tags {{\n    tags = {{\n{tags}\n}}\n  }}\n}}\n')
    first = actions(configuration.run("plan"))
    assert len(first) < LINES_OF_A_FIRST_PLAN
    assert {
        "            Quickstart/Llama70B",
        "              capacity: 1 to 4 instances of ml.g5.12xlarge (scaling)",
        "              AWS::ApplicationAutoScaling: 1 ScalableTarget, 1 ScalingPolicy",
    } <= {*first}
    configuration.run("apply", "-auto-approve")
    s3 = cloud.client("s3")
    for key in [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]:
        assert s3.get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"] == [], key
    outputs = json.loads(configuration.run("output", "-json"))
    endpoint = outputs["endpoint_name"]["value"]
    found = cloud.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    assert found["EndpointStatus"] == "InService"
    assert found["EndpointArn"] in outputs["invoke_policy"]["value"]
    configuration.edit("target = 8", "target = 6")
    planned = configuration.run("plan", "-out", "plan", "-detailed-exitcode", status=CHANGES)
    assert "TargetValue                   = 8 -> 6" in planned
    assert "unchanged attributes hidden" in planned
    assert len(actions(planned)) < LINES_OF_A_CHANGE
    changed = json.loads(configuration.run("show", "-json", "plan"))["resource_changes"]
    (record,) = [each["change"] for each in changed if each["address"].endswith("aws_s3_object.deployed")]
    before, after = (json.loads(record[side]["content"])["Resources"] for side in ("before", "after"))
    kinds = {after[name]["Type"] for name in after if before[name] != after[name]}
    assert kinds >= {"AWS::ApplicationAutoScaling::ScalingPolicy"}
    assert "AWS::SageMaker::Endpoint" not in kinds
    # Another plan in the folder leaves the saved one as it is.
    configuration.edit("target = 6", "target = 5")
    configuration.run("plan")
    configuration.edit("target = 5", "target = 6")
    configuration.run("apply", "plan")
    (policy,) = cloud.client("application-autoscaling").describe_scaling_policies(ServiceNamespace="sagemaker")[
        "ScalingPolicies"
    ]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 6
    configuration.run("plan", "-detailed-exitcode", status=NO_CHANGES)
    assert Lock.read(configuration.example / LOCK_FILE).servers.keys() == {"awq"}
    # Without the command, as where the module's configuration no longer works.
    configuration.run("destroy", "-refresh=false", "-auto-approve", PATH="")
    assert cloud.client("sagemaker").list_endpoints()["Endpoints"] == []
    assert "Contents" not in cloud.client("s3").list_objects_v2(Bucket=BUCKET)


@pytest.mark.exhaustive
def test_a_change_that_was_rolled_back_is_planned_again(configuration: Configuration, cloud: LocalCloud) -> None:
    configuration.run("apply", "-auto-approve")
    found = cloud.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    (deployed,) = [each["Key"] for each in found if re.search(r"/[0-9a-f]{64}\.template\.json$", each["Key"])]
    configuration.edit('"ml.g5.12xlarge"', '"ml.g5.12xlarge"\n      environment = { OWNER = "team" }')
    cloud.inject("update_fails", count=1)
    assert "stack status (UPDATE_ROLLBACK_COMPLETE)" in configuration.run("apply", "-auto-approve", status=1)
    planned = configuration.run("plan", "-detailed-exitcode", status=CHANGES)
    assert re.search(r'\+ OWNER += "team"', planned)
    configuration.edit('environment = { OWNER = "team" }', "")
    configuration.run("plan", "-out", "reverted")
    changed = json.loads(configuration.run("show", "-json", "reverted"))["resource_changes"]
    (deleted,) = [each["index"] for each in changed if "delete" in each["change"]["actions"]]
    assert deleted != deployed, "going back deletes the template of the stack that runs"
    configuration.edit('"ml.g5.12xlarge"\n', '"ml.g5.12xlarge"\n      environment = { OWNER = "team" }')
    configuration.run("apply", "-auto-approve")
    sagemaker = cloud.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    container = sagemaker.describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    assert container["Environment"]["OWNER"] == "team"
    configuration.run("destroy", "-auto-approve")


@pytest.mark.exhaustive
def test_a_creation_that_failed_is_repeated(configuration: Configuration, cloud: LocalCloud) -> None:
    cloud.inject("endpoint_fails", count=1)
    assert "stack status (ROLLBACK_COMPLETE)" in configuration.run("apply", "-auto-approve", status=1)
    configuration.run("apply", "-auto-approve")
    configuration.run("destroy", "-auto-approve")


@pytest.mark.exhaustive
def test_two_modules_of_one_stack_s_name_are_two_stacks(configuration: Configuration, cloud: LocalCloud) -> None:
    """One in each Region, whose declarations differ."""
    text = (configuration.example / "main.tf").read_text()
    module = text[text.index("module ") : text.index("\noutput ")]
    elsewhere = module.replace('"endpoints"', '"elsewhere"').replace("var.code_bucket", f'"{OTHER_BUCKET}"')
    elsewhere = elsewhere.replace("endpoints = {", f'region = "{OTHER_REGION}"\n    endpoints = {{').replace(
        "target = 8", "target = 3"
    )
    (configuration.example / "main.tf").write_text(module.join([text.partition(module)[0], f"\n{elsewhere}"]))
    configuration.run("init")
    configuration.run("plan", "-out", "plan")
    planned = json.loads(configuration.run("show", "-json", "plan"))
    where = {}
    for each in planned["resource_changes"]:
        change = each["change"]["after"]
        if each["name"] == "upload" and change["key"].endswith(".template.json"):
            resources = json.loads(change["content"])["Resources"].values()
            (target,) = [
                each["Properties"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
                for each in resources
                if each["Type"] == "AWS::ApplicationAutoScaling::ScalingPolicy"
            ]
            where[change["bucket"], change.get("region")] = target
    assert where == {(BUCKET, None): 8, (OTHER_BUCKET, OTHER_REGION): 3}


@pytest.mark.exhaustive
def test_a_bucket_or_an_account_that_does_not_fit_fails_the_plan(configuration: Configuration) -> None:
    moved = configuration.run("plan", status=1, TF_VAR_code_bucket=OTHER_BUCKET)
    assert f"reading S3 Bucket ({OTHER_BUCKET})" in moved
    assert "MovedPermanently" in moved
    configuration.edit("    endpoints = {", '    account = "111122223333"\n    endpoints = {')
    refused = unwrapped(configuration.run("plan", status=1))
    assert "is declared for the account 111122223333, but the provider's credentials belong to 000000000000" in refused


def test_a_plan_reports_mistakes_and_uploads_nothing(configuration: Configuration, cloud: LocalCloud) -> None:
    missing = configuration.run("plan", status=1, PATH="")
    assert "External Program Lookup Failed" in missing
    assert "Program: constructs-optim" in missing
    assert "Contents" not in cloud.client("s3").list_objects_v2(Bucket=BUCKET)


@pytest.mark.exhaustive
def test_a_misspelled_name_is_refused_at_every_depth(configuration: Configuration) -> None:
    configuration.edit("  declaration = {", "  declaratoin = {")
    assert 'An argument named "declaratoin" is not expected here. Did you mean "declaration"?' in unwrapped(
        configuration.run("plan", status=1)
    )
    configuration.edit("  declaratoin = {", "  declaration = {")
    configuration.edit("    endpoints = {", "    endpoint = {")
    assert " endpoint = {" in (refused := unwrapped(configuration.run("plan", status=1)))
    assert "did you mean endpoints?" in refused
    configuration.edit("    endpoint = {", "    endpoints = {")
    for before, after in (
        ("scaling ", "scalling "),
        ("model_id", "model_ids"),
        ('[{ quantization = "awq" }]', "[{ quantization = { awq = { group_sise = 64 } } }, { quantisation = {} }, {}]"),
    ):
        configuration.edit(before, after)
    refused = unwrapped(configuration.run("plan", status=1))
    for place, meant in (
        ("endpoints.Llama70B.scalling", "scaling"),
        ("endpoints.Llama70B.model.jumpstart.model_ids", "model_id"),
        ("endpoints.Llama70B.techniques[0].quantization.awq.group_sise", "group_size"),
        ("endpoints.Llama70B.techniques[1].quantisation", "quantization"),
    ):
        _, _, violation = refused.partition(place)
        assert f"what works: did you mean {meant}?" in violation.partition("see:")[0], place
    assert "endpoints.Llama70B.techniques[2]" in refused
    assert "Traceback" not in refused


def unwrapped(printed: str) -> str:
    """What Terraform prints in a frame, on one line."""
    return " ".join(printed.replace("│", "").split())
