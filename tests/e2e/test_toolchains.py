"""The quickstart by every toolchain: what SageMaker, CloudWatch and Application Auto Scaling have is the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CDK, CHECKOUT, DeployedStack
from ..support.example_cloud import example_cloud
from ..support.waiting import until
from .test_terraform import TERRAFORM, Configuration

STACK = "Quickstart"
TYPESCRIPT = CHECKOUT / "typescript"
FILE = CHECKOUT / "examples" / "quickstart.yaml"
CODE = "code-us-west-2"
# What differs between two deployments of one template.
_PASSING = re.compile(r"(Time|Timestamp|Updated\w*|Arn|ARN|Date)$")
_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with example_cloud(tmp_path_factory.mktemp("cloud")) as running:
        location: Any = {"LocationConstraint": "us-west-2"}
        running.client("s3").create_bucket(Bucket=CODE, CreateBucketConfiguration=location)
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def run(cloud: LocalCloud, folder: Path, *command: str, **variables: str) -> str:
    """Run a command as a user does: in a folder of its own, with the cloud's credentials and the CDK CLI."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{CDK.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**cloud.child_environment(), "PATH": path, **variables}
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_python(cloud: LocalCloud, folder: Path) -> None:
    app = f"{sys.executable} {CHECKOUT / 'examples' / 'quickstart.py'}"
    run(cloud, folder, "cdk", "deploy", "--app", app, "--require-approval", "never")


def by_yaml(cloud: LocalCloud, folder: Path) -> None:
    run(cloud, folder, "constructs-optim", "deploy", str(FILE), "--", "--require-approval", "never")


def by_cloudformation(cloud: LocalCloud, folder: Path) -> None:
    template = ("--format", "cloudformation", "--code-bucket", CODE, "--output", "out", "--json")
    written = json.loads(run(cloud, folder, "constructs-optim", "synth", str(FILE), *template))
    # What `aws cloudformation deploy --s3-bucket` does.
    cloud.client("s3").put_object(Bucket=CODE, Key="template", Body=(folder / written["template"]).read_bytes())
    url = f"https://s3.us-west-2.amazonaws.com/{CODE}/template"
    cloudformation = cloud.client("cloudformation")
    cloudformation.create_stack(StackName=STACK, TemplateURL=url, Capabilities=["CAPABILITY_IAM"])
    status = until(lambda: status_of(cloud), lambda status: not status.endswith("_IN_PROGRESS"), 180)
    assert status == "CREATE_COMPLETE"


def by_terraform(cloud: LocalCloud, folder: Path) -> None:
    configuration = Configuration(folder, cloud)
    configuration.run("init")
    configuration.run("apply", "-auto-approve")


def by_typescript(cloud: LocalCloud, folder: Path) -> None:
    """As an app with the package installed."""
    assert (TYPESCRIPT / "lib" / "index.js").exists(), "the package is not built: make typescript"
    modules = folder / "node_modules"
    modules.mkdir()
    (modules / "constructs-optim").symlink_to(TYPESCRIPT)
    for name in ("aws-cdk-lib", "constructs"):
        (modules / name).symlink_to(TYPESCRIPT / "node_modules" / name)
    app = folder / "quickstart.mts"
    app.write_text((CHECKOUT / "examples" / app.name).read_text())
    run(cloud, folder, "cdk", "deploy", "--app", f"node {app.name}", "--require-approval", "never")


WAYS: dict[str, Callable[[LocalCloud, Path], None]] = {
    "YAML": by_yaml,
    "CloudFormation": by_cloudformation,
    "Terraform": by_terraform,
    "TypeScript": by_typescript,
}
WITHOUT_TERRAFORM = pytest.mark.skipif(TERRAFORM is None, reason="there is no terraform on the PATH")


@pytest.fixture(scope="module")
def of_python(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return deployed(by_python, cloud, tmp_path_factory.mktemp("Python"))


def deployed(by: Callable[[LocalCloud, Path], None], cloud: LocalCloud, folder: Path) -> dict[str, Any]:
    """Deploy the quickstart and delete it: what it made."""
    by(cloud, folder)
    try:
        return resources_of(cloud)
    finally:
        delete(cloud)


def test_python_makes_an_endpoint_that_scales(of_python: dict[str, Any]) -> None:
    assert set(of_python) == {"endpoint", "config", "model", "targets", "policies", "alarms", "dashboard"}
    assert of_python["endpoint"]["EndpointStatus"] == "InService"
    assert of_python["targets"][0]["MaxCapacity"] == 4


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=(WITHOUT_TERRAFORM, pytest.mark.exhaustive) if way == "Terraform" else ())
        for way in WAYS
    ],
)
def test_every_way_makes_the_resources_of_python_property_by_property(
    way: str, cloud: LocalCloud, tmp_path: Path, of_python: dict[str, Any]
) -> None:
    assert deployed(WAYS[way], cloud, tmp_path) == of_python


def status_of(cloud: LocalCloud) -> str:
    return cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"]


def delete(cloud: LocalCloud) -> None:
    cloudformation = cloud.client("cloudformation")
    arn = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackId"]
    cloudformation.delete_stack(StackName=STACK)
    until(
        lambda: cloudformation.describe_stacks(StackName=arn)["Stacks"][0]["StackStatus"],
        lambda status: status == "DELETE_COMPLETE",
        180,
    )


def resources_of(cloud: LocalCloud) -> dict[str, Any]:
    """What the services say of the stack's resources, without times, and with types in place of generated names."""
    stack = cloud.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
    names: dict[str, list[str]] = {}
    for each in stack:
        names.setdefault(each["ResourceType"], []).append(each["PhysicalResourceId"])
    (endpoint,) = (each.rpartition("/")[2] for each in names["AWS::SageMaker::Endpoint"])
    sagemaker, scaling = cloud.client("sagemaker"), cloud.client("application-autoscaling")
    described = sagemaker.describe_endpoint(EndpointName=endpoint)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=described["EndpointConfigName"])
    model = sagemaker.describe_model(ModelName=config["ProductionVariants"][0]["ModelName"])
    of_sagemaker: dict[str, Any] = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{endpoint}/variant/AllTraffic",
    }
    policies = scaling.describe_scaling_policies(**of_sagemaker)["ScalingPolicies"]
    of_sagemaker["ResourceIds"] = [of_sagemaker.pop("ResourceId")]
    targets = scaling.describe_scalable_targets(**of_sagemaker)["ScalableTargets"]
    cloudwatch = cloud.client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNames=names["AWS::CloudWatch::Alarm"])["MetricAlarms"]
    (dashboard,) = names["AWS::CloudWatch::Dashboard"]
    found = {
        "endpoint": described,
        "config": config,
        "model": model,
        "targets": targets,
        "policies": policies,
        "alarms": sorted(alarms, key=lambda alarm: alarm["AlarmDescription"]),
        "dashboard": json.loads(cloudwatch.get_dashboard(DashboardName=dashboard)["DashboardBody"]),
    }
    text = json.dumps(_lasting(found), default=str)
    generated = {name.rpartition("/")[2]: kind for kind, of_kind in names.items() for name in of_kind}
    for name in sorted(generated, key=len, reverse=True):
        # Names in ARNs are in lower case.
        text = re.sub(re.escape(name), f"<{generated[name]}>", text, flags=re.IGNORECASE)
    return json.loads(_UNIQUE.sub("<unique>", text))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        passing = {"ResponseMetadata", "StateReason", "StateReasonData", "StateValue"}
        return {key: _lasting(each) for key, each in value.items() if key not in passing and not _PASSING.search(key)}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
