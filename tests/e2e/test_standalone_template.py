"""Standalone templates, deployed by CloudFormation alone in an account that was never bootstrapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.constructs.declaration.document import Document
from constructs_optim.constructs.declared_stack.stack_file import declared_template
from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate
from constructs_optim.operations.code_upload import upload
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT
from ..support.example_cloud import example_cloud
from ..support.standalone_templates import of_example
from ..support.waiting import until

BUCKETS = ("code-us-west-2", "templates")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with example_cloud(tmp_path_factory.mktemp("cloud")) as running:
        for name in BUCKETS:
            location: Any = {"LocationConstraint": "us-west-2"}
            running.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration=location)
        yield running


class Deployed:
    """A stack of a template, which is read from S3: in a request there may be 51,200 bytes of it."""

    def __init__(self, cloud: LocalCloud, name: str) -> None:
        self._cloud, self._name, self._cloudformation = cloud, name, cloud.client("cloudformation")

    @property
    def id(self) -> str:
        """The last part of the stack's ARN."""
        return self._described()["StackId"].rpartition("/")[2]

    def create(self, made: StandaloneTemplate, **parameters: str) -> dict[str, str]:
        """Upload and deploy; the stack's outputs."""
        files = {file.key: file.content for file in made.files}
        upload(
            lambda _: self._cloud.client("s3"), "code-${AWS::Region}", files, region="us-west-2", owner="000000000000"
        )
        self._cloud.client("s3").put_object(Bucket="templates", Key=self._name, Body=made.body.encode())
        self._cloudformation.create_stack(
            StackName=self._name,
            TemplateURL=f"https://s3.us-west-2.amazonaws.com/templates/{self._name}",
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        )
        stack = until(self._described, lambda stack: not stack["StackStatus"].endswith("_IN_PROGRESS"), 180)
        events = self._cloudformation.describe_stack_events(StackName=self._name)["StackEvents"]
        assert stack["StackStatus"] == "CREATE_COMPLETE", [event.get("ResourceStatusReason") for event in events]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def delete(self) -> None:
        arn = self._described()["StackId"]
        self._cloudformation.delete_stack(StackName=self._name)
        until(
            lambda: self._cloudformation.describe_stacks(StackName=arn)["Stacks"][0]["StackStatus"],
            lambda status: status == "DELETE_COMPLETE",
            180,
        )

    def _described(self) -> dict[str, Any]:
        return self._cloudformation.describe_stacks(StackName=self._name)["Stacks"][0]


@pytest.fixture
def deployed(cloud: LocalCloud, request: pytest.FixtureRequest) -> Iterator[Deployed]:
    stack = Deployed(cloud, "Standalone")
    yield stack
    stack.delete()


@pytest.mark.parametrize(
    ("example", "endpoint", "options"),
    [
        ("quickstart", "Llama70B", {"code_bucket": "code-${AWS::Region}"}),
        ("quickstart", "Llama70B", {"inline": True}),
        pytest.param("production", "Chat", {"code_bucket": "code-us-west-2"}, marks=pytest.mark.exhaustive),
        pytest.param("evaluation", "Chat", {"inline": True}, marks=pytest.mark.exhaustive),
        pytest.param("medusa", "Sql", {"code_bucket": "code-us-west-2"}, marks=pytest.mark.exhaustive),
    ],
)
def test_an_example_is_in_service_without_a_bootstrapped_account(
    cloud: LocalCloud, deployed: Deployed, example: str, endpoint: str, options: dict[str, Any]
) -> None:
    outputs = deployed.create(of_example(CHECKOUT / "examples" / f"{example}.py", outputs=True, **options))
    found = cloud.client("sagemaker").describe_endpoint(EndpointName=outputs[f"{endpoint}EndpointName"])
    assert found["EndpointStatus"] == "InService"
    assert found["EndpointArn"] == outputs[f"{endpoint}EndpointArn"]
    alarms = outputs[f"{endpoint}AlarmNames"].split(",")
    assert len(cloud.client("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"]) == len(alarms)
    for key in outputs[f"{endpoint}ArtifactKeys"].split(","):
        manifest = f"artifacts/{key}/manifest.json"
        assert cloud.client("s3").head_object(Bucket=outputs[f"{endpoint}ArtifactStoreBucket"], Key=manifest)


def test_a_deployment_names_the_bucket(cloud: LocalCloud, deployed: Deployed) -> None:
    made = of_example(CHECKOUT / "app.py")
    deployed.create(made, CodeBucket="code-us-west-2")
    assert cloud.client("sagemaker").list_endpoints(NameContains="gemma")["Endpoints"]


def test_two_stacks_of_one_template(cloud: LocalCloud) -> None:
    """As two launches of a Service Catalog product."""
    _, made = declared_template(
        Document.read(CHECKOUT / "examples" / "quickstart.yaml"),
        code_bucket="code-us-west-2",
        inline=False,
        reusable=True,
    )
    first, second = Deployed(cloud, "First"), Deployed(cloud, "Second")
    names = [stack.create(made)["Llama70BEndpointName"] for stack in (first, second)]
    assert names[0] != names[1]
    first.delete()
    endpoints = cloud.client("sagemaker").list_endpoints()["Endpoints"]
    assert [each["EndpointName"] for each in endpoints if each["EndpointName"] in names] == [names[1]]
    groups = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/aws/vendedlogs/states/")["logGroups"]
    assert [name for each in groups if (name := each.get("logGroupName", "")).endswith(second.id)], groups
    second.delete()
