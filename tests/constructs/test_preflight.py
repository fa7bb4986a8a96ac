"""The preflight of a stack: one, before all that starts anything, with what its checks look at."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    Alarms,
    AnswerCheck,
    ArtifactStore,
    CapacityReservation,
    DataCapture,
    JobOptions,
    Model,
    MonitoringOptions,
    NetworkOptions,
    Observability,
    OptimizationJob,
    Quantization,
    Server,
    ShadowCandidate,
    SpeculativeDecoding,
    TrainingCompute,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim.constructs.artifacts.preflight import PREFLIGHT_CONTEXT, Preflight
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.recipe.metrics.engines import Engine
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import as_delivered, validate
from constructs_optim.templates.resource_types import PREFLIGHT

from ..support.construct_stacks import (
    ENVIRONMENT,
    STACKS,
    endpoint,
    resource,
    resources,
    scaling_of_vllm,
    stack,
    template_of,
)
from .conftest import Synthesized
from .policy_evaluation import resolved

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan"


def looked_at(scope: Stack) -> dict[str, Any]:
    return resource(template_of(scope), PREFLIGHT)


def test_a_stack_has_one_preflight_that_everything_waits_for() -> None:
    scope = stack()
    for number in range(2):
        endpoint(scope, f"Endpoint{number}")
    declared = template_of(scope)["Resources"]
    (preflight,) = [name for name, each in declared.items() if each["Type"] == PREFLIGHT]
    waiting = {each["Type"] for each in declared.values() if preflight in each.get("DependsOn", ())}
    assert waiting == {"AWS::SageMaker::Endpoint", "AWS::SageMaker::Model", "Custom::OptimizationJob"}
    assert [fleet["InstanceCount"] for fleet in declared[preflight]["Properties"]["Fleets"]] == [1, 1]


@pytest.mark.parametrize("value", [False, "false"])
def test_context_leaves_the_preflight_out(value: object) -> None:
    scope = Stack(App(context={PREFLIGHT_CONTEXT: value}), "Chat", env=ENVIRONMENT)
    endpoint(scope)
    template = template_of(scope)
    assert "reflight" not in str(template)
    assert "Outputs" not in template


@pytest.mark.parametrize("value", [None, True, "true"])
def test_context_may_ask_for_the_preflight_that_every_stack_has(value: object) -> None:
    scope = Stack(App(context={PREFLIGHT_CONTEXT: value}), "Chat", env=ENVIRONMENT)
    assert Preflight.of(scope) is not None


def test_context_of_another_kind_is_refused() -> None:
    scope = Stack(App(context={PREFLIGHT_CONTEXT: "no"}), "Chat", env=ENVIRONMENT)
    with pytest.raises(ValueError, match=f"{PREFLIGHT_CONTEXT} is 'no': use true or false"):
        endpoint(scope)


@pytest.mark.parametrize("name", STACKS)
def test_the_handler_takes_what_templates_say(synthesized: Synthesized, name: str) -> None:
    template = synthesized(name)
    names: dict[str, str] = dict.fromkeys(template["Resources"], "resource") | {
        "Bucket": "resource",
        "RoleArn": "arn:aws:iam::111122223333:role/r",
    }
    for declared, each in template["Resources"].items():
        if each["Type"] == "AWS::KMS::Key":
            names[declared] = "arn:aws:kms:us-west-2:111122223333:key/1"
        elif each["Type"] == "AWS::IAM::Role":
            names[declared] = f"arn:aws:iam::111122223333:role/{declared}"
    for properties in resources(template, PREFLIGHT):
        validate(PreflightProperties, as_delivered(resolved(properties, "111122223333", names)))


def test_the_definition_of_a_fleet_changes_with_what_is_served_and_not_with_how_it_scales() -> None:
    definitions: list[str] = []
    for changed in ({}, {"techniques": [Quantization.awq(group_size=64)]}, {"instance_type": "ml.g5.48xlarge"}):
        scope = stack()
        endpoint(scope, **changed)
        definitions.append(looked_at(scope)["Fleets"][0]["Definition"])
    assert len(set(definitions)) == 3
    scaled = stack()
    endpoint(scaled).auto_scale(max_capacity=4).on_concurrency(target=8)
    assert looked_at(scaled)["Fleets"][0]["Definition"] == definitions[0]


@pytest.mark.parametrize(
    ("policy", "batch"),
    [
        (UpdatePolicy.all_at_once(), 8),
        (UpdatePolicy.rolling(percent=25), 2),
        (UpdatePolicy.rolling(percent=30), 3),
        (UpdatePolicy.rolling(percent=5), 1),
        (UpdatePolicy.rolling(instances=3), 3),
    ],
)
def test_an_update_launches_a_batch_of_instances(policy: UpdatePolicy, batch: int) -> None:
    scope = stack()
    endpoint(scope, variant=VariantOptions(initial_instance_count=8), update_policy=policy)
    (fleet,) = looked_at(scope)["Fleets"]
    assert (fleet["InstanceCount"], fleet["BatchSize"]) == (8, batch)


def test_a_shadow_is_launched_beside_its_endpoint_which_is_launched_anew() -> None:
    fleets: list[list[dict[str, Any]]] = []
    for shadowed in (False, True):
        scope = stack()
        bucket = s3.Bucket.from_bucket_name(scope, "Captures", "captures")
        served = endpoint(scope, data_capture=DataCapture(bucket=bucket))
        if shadowed:
            candidate = ShadowCandidate([Quantization.awq()], instance_type="ml.g6e.12xlarge", instance_count=2)
            served.shadow(candidate=candidate, checks=[AnswerCheck.answered()])
        fleets.append(looked_at(scope)["Fleets"])
    ((alone,), (own, shadow)) = fleets
    assert {name for name in own if own[name] != alone[name]} == {"Definition"}
    assert (shadow["InstanceTypes"], shadow["InstanceCount"], shadow["BatchSize"]) == (["ml.g6e.12xlarge"], 2, 2)
    assert shadow["EndpointName"] == own["EndpointName"]


def test_what_is_launched_into_a_reservation_counts_against_no_quota() -> None:
    scope = stack()
    reserved = VariantOptions(capacity_reservation=CapacityReservation(arn=PLAN))
    endpoint(scope, variant=reserved)
    properties = looked_at(scope)
    assert "Fleets" not in properties
    assert properties["Reservations"] == [{"Arn": PLAN, "InstanceType": "ml.g5.12xlarge", "Use": "endpoint"}]


def vpc_of(scope: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"], private_subnet_ids=["subnet-1"]
    )


def test_subnets_are_looked_at_where_they_are_there_before() -> None:
    imported = stack()
    endpoint(imported, network=NetworkOptions(vpc=vpc_of(imported)))
    assert looked_at(imported)["Networks"] == [{"SubnetIds": ["subnet-1"], "InstanceCount": 1}]

    # The routes and endpoints of a VPC of the same stack may be created after the preflight.
    own = stack()
    endpoint(own, network=NetworkOptions(vpc=ec2.Vpc(own, "Vpc")))
    assert "Networks" not in looked_at(own)

    app = App()
    network, chat = (Stack(app, name, env=ENVIRONMENT) for name in ("Network", "Chat"))
    endpoint(chat, network=NetworkOptions(vpc=ec2.Vpc(network, "Vpc", max_azs=1)))
    app.synth()
    (need,) = looked_at(chat)["Networks"]
    assert "Fn::ImportValue" in str(need["SubnetIds"])


def test_what_the_stack_itself_makes_is_not_looked_for() -> None:
    scope = stack()
    bucket = s3.Bucket(scope, "Models")
    model = Model.s3(bucket.s3_url_for_object("llama/"))
    endpoint(scope, model=model)
    properties = looked_at(scope)
    assert "Models" not in properties
    assert all("Reads" not in role or "llama" not in str(role) for role in properties["Roles"])


def test_the_token_of_a_gated_model_is_described_and_not_read() -> None:
    secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
    scope = stack()
    model = Model.huggingface(
        "meta-llama/Llama-3.1-8B-Instruct",
        revision="c" * 40,
        token_secret_arn=secret,
        compute=TrainingCompute(environment={"HF_ENDPOINT": "https://mirror.example.com"}),
    )
    endpoint(scope, model=model, techniques=[])
    template = template_of(scope)
    assert resource(template, PREFLIGHT)["Copies"] == [
        {
            "ModelId": "meta-llama/Llama-3.1-8B-Instruct",
            "Revision": "c" * 40,
            "TokenSecretArn": secret,
            "Endpoint": "https://mirror.example.com",
        }
    ]
    (role,) = [
        each for each in resources(template, "AWS::IAM::Role") if each["Description"].startswith("Checks quotas")
    ]
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    actions = {action for statement in statements for action in statement["Action"]}
    assert "secretsmanager:DescribeSecret" in actions
    assert not actions & {"secretsmanager:GetSecretValue", "s3:GetObject"}


def test_a_role_of_the_user_s_is_simulated_as_it_is() -> None:
    scope = stack()
    role = iam.Role.from_role_arn(scope, "Role", "arn:aws:iam::111122223333:role/mine", mutable=False)
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Store", "store"))
    OptimizationJob(
        scope,
        "Job",
        model=Model.s3("s3://models/llama/"),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        artifact_store=store,
        jobs=JobOptions(role=role),
    )
    (need,) = looked_at(scope)["Roles"]
    assert need["RoleArn"] == "arn:aws:iam::111122223333:role/mine"
    assert need["Reads"] == ["s3://models/llama/"]
    assert need["Writes"] == ["s3://store/artifacts/preflight/model/"]


VLLM = {"server": Server.vllm()}


def uses_of(scope: Stack) -> dict[str, bool]:
    """The uses of engine metrics that the stack's preflight checks, and whether they need them."""
    return {each["UsedBy"]: each.get("Required", False) for each in looked_at(scope).get("EngineMetrics", [])}


def may_look_for_enrichment(scope: Stack) -> bool:
    return "cloudwatch:GetOTelEnrichment" in str(template_of(scope))


def test_charts_alarms_and_scaling_on_engine_metrics_are_checked_for_otel_enrichment() -> None:
    scope = stack()
    monitoring = MonitoringOptions(alarms=Alarms(kv_cache=True))
    served = endpoint(scope, "Chat", monitoring=monitoring, **VLLM)
    served.auto_scale(max_capacity=4).on_queue(target=2)
    served.metric_kv_cache_usage()
    assert uses_of(scope) == {
        "Chat/Alarms": False,
        "Chat/Dashboard": False,
        "Chat/Scaling": True,
        "Chat": False,
    }
    assert may_look_for_enrichment(scope)


def test_an_endpoint_whose_engine_publishes_no_metrics_is_not_checked_for_otel_enrichment() -> None:
    scope = stack()
    monitoring = MonitoringOptions(observability=Observability(detailed=False))
    endpoint(scope, monitoring=monitoring, **VLLM)
    assert uses_of(scope) == {}
    assert not may_look_for_enrichment(scope)


def test_an_evaluation_that_requires_an_acceptance_length_needs_otel_enrichment() -> None:
    required: list[dict[str, bool]] = []
    for limits in ({}, {"min_acceptance_length": 2}):
        scope = stack()
        served = endpoint(
            scope, "Chat", model=Model.s3("s3://models/chat/"), techniques=[SpeculativeDecoding.ngram()], **VLLM
        )
        evaluation = served.evaluate()
        if limits:
            evaluation.require(**limits)
        required.append(uses_of(scope))
    assert [uses["Chat/Evaluation"] for uses in required] == [False, True]


def test_a_stack_without_endpoints_that_scales_on_engine_metrics_has_a_preflight() -> None:
    scope, other = stack(), stack()
    scaling_of_vllm(scope).on_kv_cache(target=70)
    scaling_of_vllm(other).on_concurrency()
    assert uses_of(scope) == {"Scaling": True}
    assert may_look_for_enrichment(scope)
    assert PREFLIGHT not in str(template_of(other))


def test_a_dashboard_alone_brings_no_preflight() -> None:
    scope = stack()
    EndpointDashboard(scope, "Dashboard", served=ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM")))
    assert PREFLIGHT not in str(template_of(scope))
