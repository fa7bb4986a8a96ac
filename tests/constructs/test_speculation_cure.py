"""Cures for drafts that decay: the alarm, its message, and what restarts an endpoint's instances."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from constructs_optim import (
    Alarms,
    AlarmSettings,
    DataCapture,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    RecipeError,
    SpeculationCure,
    SpeculativeDecoding,
)
from constructs_optim.recipe.techniques import Technique

NGRAM = SpeculativeDecoding.ngram(speculative_tokens=5)
EAGLE = SpeculativeDecoding.eagle()
CONFIG, ALARM, RULE = "AWS::SageMaker::EndpointConfig", "AWS::CloudWatch::Alarm", "AWS::Events::Rule"


@pytest.fixture
def stack() -> Stack:
    return Stack(App(), "Chat", env={"region": "us-west-2"})


def endpoint(
    stack: Stack, cure: SpeculationCure | None = None, technique: Technique | None = NGRAM, **options: Any
) -> OptimizedEndpoint:
    monitoring = MonitoringOptions(alarms=options.pop("alarms", None), speculation_cure=cure)
    return OptimizedEndpoint(
        stack,
        "Llama",
        model=Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
        techniques=[technique] if technique is not None else [],
        instance_type="ml.p5.48xlarge",
        monitoring=monitoring,
        **options,
    )


def found(stack: Stack, kind: str) -> dict[str, dict[str, Any]]:
    return Template.from_stack(stack).find_resources(kind)


def decay_alarm(stack: Stack) -> dict[str, Any]:
    [alarm] = [each for name, each in found(stack, ALARM).items() if "AcceptanceDecay" in name]
    return alarm["Properties"]


def test_a_restart_has_a_second_configuration_with_the_same_content(stack: Stack) -> None:
    endpoint(stack, SpeculationCure.restart())
    first, second = (each["Properties"] for each in found(stack, CONFIG).values())
    assert first == second
    [served] = found(stack, "AWS::SageMaker::Endpoint").values()
    names = set(found(stack, CONFIG))
    # Both are there before the endpoint, and after it.
    assert names <= {*served["DependsOn"], served["Properties"]["EndpointConfigName"]["Fn::GetAtt"][0]}


def test_without_a_restart_the_configuration_has_the_id_that_it_had(stack: Stack) -> None:
    endpoint(stack)
    other = Stack(App(), "Chat", env={"region": "us-west-2"})
    endpoint(other, SpeculationCure.restart())
    third = Stack(App(), "Chat", env={"region": "us-west-2"})
    endpoint(third, SpeculationCure.drafts_off())
    # Taking the cure away moves an endpoint that is on the second one to a configuration that is left.
    assert not set(found(stack, CONFIG)) & set(found(other, CONFIG))
    assert set(found(stack, CONFIG)) == set(found(third, CONFIG))
    assert not found(stack, RULE)
    assert not found(third, RULE)


def test_the_alarm_starts_the_restart_of_this_endpoint(stack: Stack) -> None:
    endpoint(stack, SpeculationCure.restart(at_most_every_hours=6), endpoint_name="chat")
    [rule] = (each["Properties"] for each in found(stack, RULE).values())
    [alarm] = [name for name in found(stack, ALARM) if "AcceptanceDecay" in name]
    assert rule["EventPattern"] == {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "resources": [{"Fn::GetAtt": [alarm, "Arn"]}],
        "detail": {"state": {"value": ["ALARM"]}},
    }
    assert rule["State"] == "ENABLED"
    [target] = rule["Targets"]
    machine, role = target["Arn"]["Ref"], target["RoleArn"]["Fn::GetAtt"][0]
    assert machine in found(stack, "AWS::StepFunctions::StateMachine")
    (policy,) = found(stack, "AWS::IAM::Role")[role]["Properties"]["Policies"]
    [statement] = policy["PolicyDocument"]["Statement"]
    assert (statement["Action"], statement["Resource"]) == (["states:StartExecution"], {"Ref": machine})
    transformer = target["InputTransformer"]
    assert transformer["InputPathsMap"] == {"run": "$.id"}
    text = json.dumps(transformer["InputTemplate"])
    for part in ('\\"EndpointName\\":\\"chat\\"', '\\"AtMostEverySeconds\\":21600', '\\"Run\\":\\"<run>\\"'):
        assert part.replace("\\\\", "\\") in text.replace("\\\\", "\\"), part
    roles = found(stack, "AWS::IAM::Role")
    [watcher] = [role for name, role in roles.items() if name.startswith("RestartServiceWatcher")]
    statements = {each["Sid"]: each for each in watcher["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]}
    [served] = found(stack, "AWS::SageMaker::Endpoint")
    assert statements["RestartEndpoint"]["Resource"] == {"Ref": served}
    assert {each["Ref"] for each in statements["UseTwinConfigs"]["Resource"]} == set(found(stack, CONFIG))
    assert "/chat.json" in json.dumps(statements["Restarts"]["Resource"])


def test_the_alarm_compares_each_container_with_itself(stack: Stack) -> None:
    endpoint(stack, alarms=Alarms(acceptance_decay=AlarmSettings(threshold=80)))
    criteria = decay_alarm(stack)["EvaluationCriteria"]["PromQLCriteria"]
    assert criteria["Query"].endswith(" < 80") if isinstance(criteria["Query"], str) else True
    text = json.dumps(criteria["Query"])
    assert "[1800s]" in text
    assert "[23h]" in text
    assert "aws.sagemaker.container.id" in text
    assert (criteria["PendingPeriod"], criteria["RecoveryPeriod"]) == (1800, 300)


@pytest.mark.parametrize(
    ("cure", "technique", "message"),
    [
        (SpeculationCure.restart(), NGRAM, "replaced automatically, at most every 12 h"),
        (
            SpeculationCure.shorter_drafts(speculative_tokens=2),
            NGRAM,
            "deploy SpeculativeDecoding.ngram(..., speculative_tokens=2)",
        ),
        (SpeculationCure.drafts_off(), EAGLE, "deploy without SpeculativeDecoding.eagle(...)"),
        (SpeculationCure.train_anew(), EAGLE, "training_data=data_capture.captured("),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_the_alarm_description_names_the_remedy(
    stack: Stack, cure: SpeculationCure, technique: Technique, message: str
) -> None:
    endpoint(stack, cure, technique, data_capture=DataCapture(bucket=s3.Bucket(stack, "Captures")))
    description = decay_alarm(stack)["AlarmDescription"]
    assert message in description
    # Amazon CloudWatch API reference, PutMetricAlarm.
    assert len(description) <= 1024


@pytest.mark.parametrize(
    ("cure", "technique", "options", "message"),
    [
        (SpeculationCure.restart(), None, {}, "OPT215 monitoring.speculation_cure"),
        (SpeculationCure.shorter_drafts(speculative_tokens=5), NGRAM, {}, "1 to 4"),
        (SpeculationCure.train_anew(), NGRAM, {}, "no job trains SpeculativeDecoding"),
        (SpeculationCure.train_anew(), EAGLE, {}, "OPT215 data_capture"),
        (
            SpeculationCure.restart(),
            NGRAM,
            {"alarms": Alarms(acceptance_decay=False)},
            "OPT215 monitoring.alarms.acceptance_decay",
        ),
        (SpeculationCure.restart(), NGRAM, {"inference_component": True}, "OPT216 inference_component"),
    ],
)
def test_a_cure_that_cannot_work_is_refused(
    stack: Stack, cure: SpeculationCure, technique: Technique | None, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint(stack, cure, technique, **options)
    assert message in str(refused.value)


def test_settings_out_of_range_are_refused_where_they_are_written() -> None:
    with pytest.raises(RecipeError, match=r"OPT215 SpeculationCure\.at_most_every_hours"):
        SpeculationCure.restart(at_most_every_hours=0)
