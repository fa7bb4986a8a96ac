"""Templates may come from somebody else: whatever their values are, they are explained."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.explanation.assembly import StackTemplate
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.formatting import exact_duration
from constructs_optim.explanation.jobs import JobKind, PastJob, Prices, StackEvidence, StoreContents, StoredArtifact
from constructs_optim.explanation.text import contents, markdown, text_lines
from constructs_optim.templates.resource_types import CHOICE_KEY

from ..support.choices import CHOICE
from ..support.handwritten_templates import KEY, RECIPE, chat, resource, scaled
from ..support.properties import places, replaced

RECIPE_OF = "constructs-optim"


def _job(type_name: str, **properties: Any) -> dict[str, Any]:
    made = resource(type_name, Description={"Model": "m", "Techniques": ["t"]}, Bucket="b", **properties)
    return {**made, "DependsOn": ["Job"], "Metadata": {RECIPE_OF: {"Recipe": "r", "Pools": [{"Recipe": "a"}]}}}


def _whole() -> dict[str, Any]:
    """A template with everything that an explanation reads."""
    action = {"ScheduledActionName": "n", "ScalableTargetAction": {"MinCapacity": 1, "MaxCapacity": 2}}
    resources = chat(Target=scaled(1, 4, ScheduledActions=[action]))
    training = {
        "AlgorithmSpecification": {"ContainerArguments": ["a"]},
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2},
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 5},
    }
    size = {"Type": "COPY_COUNT", "Value": 1}
    rolling = {
        "RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60},
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": {"Ref": "Alarm"}}]},
    }
    routing = {"Type": "CANARY", "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1}, "WaitIntervalInSeconds": 5}
    reads = [{"S3Uri": "s3://a"}]
    statement = {"Effect": "Allow", "Action": ["a", "b"], "NotResource": "*", "Condition": {"Like": {"a": ["b"]}}}
    resources |= {
        "Training": _job("Custom::TrainingJob", Source={"Kind": "hub", "ModelId": "x"}, Reads=reads, Request=training),
        "Undecided": _job("Custom::OptimizationJob", Source={"Kind": "s3", "S3Uri": "s3://a"}, Reads=reads),
        "Artifact": resource("Custom::OptimizedArtifact", ArtifactKey="a" * 64, Bucket="b"),
        "Component": {
            **resource(
                "AWS::SageMaker::InferenceComponent",
                EndpointName={"Ref": "Endpoint"},
                InferenceComponentName="c",
                Specification={"ModelName": {"Ref": "Model"}},
                DeploymentConfig=rolling,
            ),
            "Metadata": {RECIPE_OF: {"Recipe": "r2"}},
        },
        "Capacity": resource("Custom::ComponentCapacity", ComponentLogicalId="Component"),
        "Alarm": resource("AWS::CloudWatch::Alarm", AlarmName="a"),
        "Invoked": resource("AWS::Lambda::Permission", FunctionName={"Ref": "Alarm"}, Principal="p", Action="a"),
        "Rights": resource("AWS::IAM::Policy", PolicyDocument={"Statement": [statement]}, Roles=[{"Ref": "Role"}]),
        "Scaling": resource("Custom::VariantScaling", EndpointName="chat", VariantName="AllTraffic"),
    }
    resources["Role"]["Properties"] |= {"PermissionsBoundary": "x", "ManagedPolicyArns": ["y"]}
    resources["Endpoint"]["Metadata"] = {
        RECIPE_OF: {"Recipe": RECIPE, "ArtifactKey": KEY},
        CHOICE_KEY: CHOICE.model_dump(mode="json"),
    }
    resources["Endpoint"]["Properties"]["DeploymentConfig"] = {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 60}
    }
    resources["Config"]["Properties"]["ProductionVariants"].append(
        {
            "VariantName": "B",
            "InstancePools": [{"InstanceType": "ml.g5.xlarge"}, {"InstanceType": "ml.g6.xlarge"}],
            "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 3},
            "CapacityReservationConfig": {"CapacityReservationPreference": "capacity-reservations-only"},
        }
    )
    return {
        "Resources": resources,
        "Parameters": {"P": {"Type": "String", "Default": "a"}},
        "Mappings": {"M": {"a": {"b": "c"}}},
        "Outputs": {"O": {"Value": "x"}},
    }


WHOLE = _whole()
CHANGED = copy.deepcopy(WHOLE)
CHANGED["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g5.48xlarge"
PAST = PastJob(JobKind("llama", ("AWQ INT4",), frozenset({"ModelQuantizationConfig"}), "ml.g5.12xlarge"), 100.0, 50.0)
STORED = StoreContents("b", {KEY: StoredArtifact("complete", "d", "m")}, (PAST,))
EVIDENCE = StackEvidence(
    Prices({"ml.g5.12xlarge": 7.0}, {"ml.g5.xlarge": 1.0}, {}, source="s"),
    {"Job": STORED, "Training": StoreContents("b", {}), "Undecided": StoreContents("b", {})},
)
NUMBERS = (True, 5, -1, 0, 1.5, 1e308, 10**30, 10**400)
ARRAYS = ([], [None], [5], ["a"], [[]], [{}])
OBJECTS = ({}, {"a": 1}, {"Ref": "Endpoint"}, {"Ref": 5}, {"Fn::GetAtt": [[], 1]}, {"Fn::If": ["C", 1, "b"]})
JUNK = (None, *NUMBERS, "x", "", *ARRAYS, *OBJECTS)


def _explained(before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    old, new = (
        [StackTemplate("Chat", "Chat", each, region="us-west-2")] if each is not None else None
        for each in (before, after)
    )
    report = explain(new or [], old, against="main" if old else None, evidence_of=lambda _: EVIDENCE)
    assert text_lines(report, 80)
    assert markdown(report)
    contents(report)
    assert report.model_dump_json()


def _in_all_directions(template: dict[str, Any]) -> None:
    _explained(None, template)
    _explained(template, CHANGED)
    _explained(CHANGED, template)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("Resources.Job.Properties.Description.Techniques", True),
        ("Resources.Job.Properties.Request.OptimizationConfigs", 5),
        ("Resources.Job.Properties.Request.OptimizationConfigs.0", [[]]),
        ("Resources.Training.Properties.Request.AlgorithmSpecification.ContainerArguments", 5),
        ("Resources.Training.Properties.Request.ResourceConfig.InstanceCount", 10**400),
        ("Resources.Training.Metadata.constructs-optim.Pools", True),
        ("Resources.Training.Metadata.constructs-optim.Pools", [5]),
        ("Resources.Undecided.Properties.Reads", 5),
        ("Resources.Undecided.Properties.Reads", ["a"]),
        ("Resources.Ready1.DependsOn", [[]]),
        ("Resources.Capacity.Properties.ComponentLogicalId", []),
        ("Resources.Config.Properties.ProductionVariants.0.InitialInstanceCount", 10**400),
        (
            "Resources.Endpoint.Properties.DeploymentConfig.BlueGreenUpdatePolicy.TrafficRoutingConfiguration."
            "WaitIntervalInSeconds",
            -1,
        ),
        ("Parameters.P", None),
        ("Mappings.M", 5),
        ("Mappings.M.a", 5),
    ],
)
def test_a_value_of_another_form_counts_as_none(place: str, value: Any) -> None:
    path = tuple(int(part) if part.isdigit() else part for part in place.split("."))
    _in_all_directions(replaced(WHOLE, path, value))


@given(place=st.sampled_from([place for place in places(WHOLE) if place]), value=st.sampled_from(JUNK))
def test_any_template_is_explained(place: tuple[Any, ...], value: Any) -> None:
    _in_all_directions(replaced(WHOLE, place, value))


@pytest.mark.parametrize("lists", [("Action", "Resource"), ("Action",), ("Action", "Resource", "Principal")])
def test_policies_longer_than_iams_are_explained_in_time(lists: tuple[str, ...]) -> None:
    def policy(prefix: str) -> dict[str, Any]:
        named = {name: [f"{prefix}{number}" for number in range(3_000)] for name in lists}
        statement = {"Effect": "Allow", "Action": "a", "Resource": "*", **named}
        return {"Resources": {"P": resource("AWS::IAM::Policy", PolicyDocument={"Statement": [statement]})}}

    started = time.process_time()
    _explained(policy("a"), policy("b"))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (-1, "-1 s"), (59, "59 s"), (-60, "-1 min"), (7200, "2 h")])
def test_any_duration_has_a_text(seconds: int, said: str) -> None:
    assert exact_duration(seconds) == said
