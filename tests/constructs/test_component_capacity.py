from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack, Tags, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import lint

from constructs_optim.constructs.endpoint.inference_component import current_copies
from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings
from constructs_optim.recipe.hosting.scaling import ScalingDefaults, ScalingStep

from ..support.construct_stacks import ENVIRONMENT, resource, stack, template_of
from ..support.nag import nag_findings

SPECIFICATION = {
    "computeResourceRequirements": {"minMemoryRequiredInMb": 1024, "numberOfAcceleratorDevicesRequired": 1},
    "container": {"image": "lmi:1", "environment": {"OPTION": "kept"}},
}


def component(scope: Stack, initial_copies: int = 2) -> sagemaker.CfnInferenceComponent:
    """A component whose copy count is looked up."""
    created = sagemaker.CfnInferenceComponent(
        scope, "Component", endpoint_name="chat", variant_name="AllTraffic", specification=SPECIFICATION
    )
    definition = {"endpointName": "chat", "variantName": "AllTraffic", "specification": SPECIFICATION}
    created.runtime_config = {"copyCount": current_copies(scope, created, definition, initial_copies)}  # type: ignore[assignment]
    return created


def test_a_component_update_first_looks_up_its_current_copy_count() -> None:
    scope = stack()
    Tags.of(scope).add("team", "chat")
    component(scope)
    template = template_of(scope)
    found = resource(template, "AWS::SageMaker::InferenceComponent")
    lookup = resource(template, "Custom::ComponentCapacity")
    (logical_id,) = [n for n, item in template["Resources"].items() if item["Type"] == "Custom::ComponentCapacity"]
    assert found["RuntimeConfig"] == {"CopyCount": {"Fn::GetAtt": [logical_id, "CopyCount"]}}
    assert lookup["ComponentLogicalId"] == "Component"
    assert lookup["InitialCopyCount"] == 2
    # Every property that could make CloudFormation update the component.
    assert lookup["Component"] == {
        name: value for name, value in found.items() if name not in ("RuntimeConfig", "Tags")
    }
    assert lookup["ComponentTags"]


def test_the_copy_count_lookup_does_not_depend_on_its_component() -> None:
    scope = stack()
    component(scope)
    lookup = resource(template_of(scope), "Custom::ComponentCapacity")
    assert '{"Ref": "Component"}' not in json.dumps(lookup)


def test_the_lookup_role_may_only_describe_its_stack_and_components() -> None:
    scope = stack()
    component(scope)
    roles = [
        item["Properties"]
        for item in template_of(scope)["Resources"].values()
        if item["Type"] == "AWS::IAM::Role" and "copies" in item["Properties"].get("Description", "")
    ]
    statements = {s["Sid"]: s for s in roles[0]["Policies"][0]["PolicyDocument"]["Statement"]}
    assert list(statements) == ["WriteLogs", "Trace", "FindComponents", "DescribeComponents"]
    assert statements["FindComponents"]["Action"] == ["cloudformation:DescribeStackResource"]
    assert statements["FindComponents"]["Resource"] == {"Ref": "AWS::StackId"}
    assert statements["DescribeComponents"]["Action"] == ["sagemaker:DescribeInferenceComponent"]
    assert statements["DescribeComponents"]["Resource"]["Fn::Sub"].endswith(":inference-component/*")


def everything(scope: Stack) -> None:
    """All resources that scaling and alarms can declare."""
    component(scope)
    scaling = EndpointScaling(
        scope,
        "Scaling",
        target=ScalingTarget.component("chat-llama"),
        min_capacity=0,
        max_capacity=4,
        defaults=ScalingDefaults(capacity=8, concurrency=5.6),
    )
    load = cloudwatch.Metric(namespace="Chat", metric_name="Load", statistic="p90")
    twice = cloudwatch.MathExpression(expression="load * 2", using_metrics={"load": load})
    scaling.on_concurrency().on_invocations(request_seconds=20).on_metric("Twice", metric=twice, target=4)
    scaling.on_steps("Burst", metric=load, steps=[ScalingStep(change=1, lower=16), ScalingStep(change=-1, upper=2)])
    scaling.stop_on(schedule="cron(0 19 ? * MON-FRI *)", time_zone="Europe/Berlin")
    scaling.start_on(schedule="cron(0 7 ? * MON-FRI *)", time_zone="Europe/Berlin")
    for name, served in (
        ("Component", ServedModel("chat", "AllTraffic", "chat-llama")),
        ("Variant", ServedModel("chat", "AllTraffic", artifact_key="a" * 64)),
    ):
        EndpointAlarms(
            scope,
            f"AlarmsOf{name}",
            served=served,
            endpoint="Chat/Llama70B",
            capacity=8,
            alarms=Alarms(latency=AlarmSettings(threshold=30)),
        ).watch(evaluation_concurrency=4 if served.artifact_key else None)


def test_cfn_lint_finds_no_errors_in_scaling_and_alarm_resources() -> None:
    scope = stack()
    everything(scope)
    found = lint(json.dumps(template_of(scope)), regions=["us-west-2"])
    assert [str(match) for match in found if match.rule.severity == "error"] == []


def test_cdk_nag_finds_no_violations_in_scaling_and_alarm_resources(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    everything(Stack(app, "Chat", env=ENVIRONMENT))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    assert nag_findings(app, tmp_path) == []


def test_synthesizing_the_same_stack_twice_gives_the_same_template() -> None:
    def text() -> Any:
        scope = Stack(App(), "Chat")
        everything(scope)
        return json.dumps(template_of(scope))

    assert text() == text()
