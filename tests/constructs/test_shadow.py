"""Shadows of an endpoint in templates: configurations, the run, its permissions, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template

from constructs_optim import (
    AnswerCheck,
    AsyncInference,
    Compilation,
    DataCapture,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    PreOptimized,
    Quantization,
    RecipeError,
    Routing,
    Server,
    ShadowCandidate,
    SpeculationCure,
    SpeculativeDecoding,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim.recipe.hosting import shadow
from constructs_optim.runtime.requests import shadow_properties
from constructs_optim.templates.resource_types import OPTIMIZED_ENDPOINT_CONFIG

CONFIG, RUN = "AWS::SageMaker::EndpointConfig", "Custom::ShadowRun"
AWQ = ShadowCandidate(techniques=[Quantization.awq()])


@pytest.fixture
def stack() -> Stack:
    return Stack(App(), "Chat", env={"region": "us-west-2"})


def served(stack: Stack, **options: Any) -> OptimizedEndpoint:
    options.setdefault("data_capture", DataCapture(bucket=s3.Bucket(stack, "Captures")))
    return OptimizedEndpoint(
        stack,
        "Llama",
        model=Model.s3("s3://models/llama-3-8b/"),
        **{"techniques": [], "instance_type": "ml.g5.12xlarge", **options},
    )


def of_type(stack: Stack, kind: str) -> dict[str, Any]:
    found = Template.from_stack(stack).find_resources(kind)
    return {name: resource["Properties"] for name, resource in found.items()}


def test_every_check_of_answers_is_one_that_the_watcher_knows() -> None:
    assert get_args(shadow.CheckKind) == get_args(shadow_properties.CheckKind)


def test_the_configuration_has_the_candidate_as_shadow_variant(stack: Stack) -> None:
    run = served(stack).shadow(candidate=AWQ, checks=[AnswerCheck.answered()])
    assert run.announced_pairs == 4_000
    (name,) = of_type(stack, RUN)
    assert stack.resolve(run.shadow_key) == {"Ref": name}
    assert stack.resolve(run.report_uri) == {"Fn::GetAtt": [name, "ReportUri"]}
    configs = of_type(stack, CONFIG)
    [shadowed] = [config for config in configs.values() if "ShadowProductionVariants" in config]
    [shadow], [production] = shadowed["ShadowProductionVariants"], shadowed["ProductionVariants"]
    assert (shadow["VariantName"], shadow["InitialVariantWeight"], shadow["InitialInstanceCount"]) == (
        "Shadow",
        0.05,
        1,
    )
    assert production["InitialVariantWeight"] == 1
    assert shadow["ModelName"] != production["ModelName"]
    [ended] = [config for config in configs.values() if config is not shadowed]
    assert ended == {name: value for name, value in shadowed.items() if name != "ShadowProductionVariants"}


def test_a_candidate_with_jumpstarts_container_is_marked_as_hosted_by_a_shadow(stack: Stack) -> None:
    llama = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)
    candidate = ShadowCandidate(techniques=[PreOptimized()], model=llama, instance_type="ml.g5.48xlarge")
    served(stack).shadow(candidate=candidate, checks=[AnswerCheck.answered()])
    models = of_type(stack, "Custom::OptimizedModel").values()
    assert [model["Host"] for model in models if "Host" in model] == [{"IsShadow": True}]


def test_a_promotion_has_a_configuration_of_its_own_with_the_names_of_production(stack: Stack) -> None:
    served(stack).shadow(candidate=AWQ, checks=[AnswerCheck.answered()], promote=True, duration=Duration.days(2))
    configs = of_type(stack, CONFIG)
    [promoted] = [config for name, config in configs.items() if "Promoted" in name]
    [shadowed] = [config for config in configs.values() if "ShadowProductionVariants" in config]
    [variant], [shadow] = promoted["ProductionVariants"], shadowed["ShadowProductionVariants"]
    assert variant["ModelName"] == shadow["ModelName"]
    assert (variant["VariantName"], variant["InitialVariantWeight"]) == ("AllTraffic", 1)
    Annotations.from_stack(stack).has_warning("/Chat/Llama/Shadow", Match.string_like_regexp(".*sample_percent.*"))
    [run] = of_type(stack, RUN).values()
    assert run["Request"]["DurationSeconds"] == 172_800


def _watcher_statements(stack: Stack) -> dict[str, Any]:
    roles = of_type(stack, "AWS::IAM::Role")
    [watcher] = [role for name, role in roles.items() if name.startswith("ShadowServiceWatcher")]
    return {each["Sid"]: each for each in watcher["Policies"][0]["PolicyDocument"]["Statement"]}


def test_the_watcher_may_touch_this_endpoint_and_its_configurations_alone(stack: Stack) -> None:
    checks = [AnswerCheck.reference("s3://answers/golden.jsonl"), AnswerCheck.exact_match(at_least=0.8)]
    served(stack).shadow(candidate=AWQ, checks=checks, topic=sns.Topic(stack, "Verdicts"))
    statements = _watcher_statements(stack)
    [endpoint] = Template.from_stack(stack).find_resources("AWS::SageMaker::Endpoint")
    assert statements["EndShadow"]["Resource"] == {"Ref": endpoint}
    assert len(statements["UseConfigs"]["Resource"]) == 2
    assert statements["ReadReferences"]["Action"] == ["s3:GetObject"]
    assert statements["TellOfShadows"]["Action"] == ["sns:Publish"]
    assert "AskJudges" not in statements
    assert "GrantVolumeKey" not in statements


def test_the_watcher_may_have_instances_with_encrypted_volumes_launched(stack: Stack) -> None:
    key = kms.Key(stack, "VolumeKey")
    compiled = {"techniques": [Compilation.neuron()], "instance_type": "ml.inf2.24xlarge"}
    candidate = ShadowCandidate(techniques=[Compilation.neuron(maximum_batch_size=4)])
    served(stack, encryption_key=key, **compiled).shadow(candidate=candidate, checks=[AnswerCheck.answered()])
    statements = _watcher_statements(stack)
    assert statements["GrantVolumeKey"]["Resource"] == stack.resolve(key.key_arn)
    assert statements["GrantVolumeKey"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


@pytest.mark.parametrize(
    ("options", "shadow", "rule"),
    [
        ({"data_capture": None}, {}, "OPT191"),
        ({"inference_component": True}, {}, "OPT190"),
        ({}, {"sample_percent": 0}, "OPT192"),
        ({}, {"margin": 0.001}, "OPT195"),
        ({}, {"checks": []}, "OPT195"),
        ({}, {"instance_quota": 2}, "OPT194"),
        ({}, {"candidate": ShadowCandidate(techniques=[Quantization.awq()], instance_type="ml.inf1.xlarge")}, "OPT190"),
    ],
)
def test_what_cannot_work_is_refused_and_adds_nothing(
    stack: Stack, options: dict[str, Any], shadow: dict[str, Any], rule: str
) -> None:
    endpoint = served(stack, **options)
    before = len(endpoint.node.children)
    with pytest.raises(RecipeError, match=rule):
        endpoint.shadow(**{"candidate": AWQ, "checks": [AnswerCheck.answered()], **shadow})
    assert len(endpoint.node.children) == before


def test_an_asynchronous_endpoint_has_no_shadow(stack: Stack) -> None:
    endpoint = served(stack, async_inference=AsyncInference(bucket=s3.Bucket(stack, "Answers")))
    with pytest.raises(RecipeError, match="OPT190"):
        endpoint.shadow(candidate=AWQ, checks=[AnswerCheck.answered()])


def test_an_endpoint_has_one_shadow(stack: Stack) -> None:
    endpoint = served(stack)
    endpoint.shadow(candidate=AWQ, checks=[AnswerCheck.answered()])
    with pytest.raises(ValueError, match="already has a shadow"):
        endpoint.shadow("Second", candidate=AWQ, checks=[AnswerCheck.answered()])


def test_a_promotion_keeps_the_type_of_a_scaled_variant(stack: Stack) -> None:
    endpoint = served(stack)
    endpoint.auto_scale(max_capacity=3).on_concurrency(target=8)
    candidate = ShadowCandidate(techniques=[Quantization.awq()], instance_type="ml.g6.12xlarge")
    with pytest.raises(RecipeError, match="OPT193"):
        endpoint.shadow(candidate=candidate, checks=[AnswerCheck.answered()], promote=True)


def test_scaling_that_comes_after_a_promotion_of_another_type_is_refused(stack: Stack) -> None:
    endpoint = served(stack)
    candidate = ShadowCandidate(techniques=[Quantization.awq()], instance_type="ml.g6.12xlarge")
    endpoint.shadow(candidate=candidate, checks=[AnswerCheck.answered()], promote=True)
    with pytest.raises(RecipeError, match="OPT193"):
        endpoint.auto_scale(max_capacity=3)


def test_an_adopted_endpoint_has_no_shadow(stack: Stack) -> None:
    endpoint = served(stack, variant=VariantOptions(existing_configuration="by-hand"), endpoint_name="chat")
    with pytest.raises(RecipeError, match="OPT190"):
        endpoint.shadow(candidate=AWQ, checks=[AnswerCheck.answered()])


def test_an_endpoint_that_is_restarted_has_no_shadow(stack: Stack) -> None:
    endpoint = served(
        stack,
        server=Server.vllm(),
        techniques=[SpeculativeDecoding.ngram()],
        monitoring=MonitoringOptions(speculation_cure=SpeculationCure.restart()),
    )
    with pytest.raises(RecipeError, match="OPT190"):
        endpoint.shadow(candidate=AWQ, checks=[AnswerCheck.answered()])


@pytest.mark.parametrize("kept", [RemovalPolicy.RETAIN, None])
def test_a_policy_beside_the_role_is_retained_with_it(stack: Stack, kept: RemovalPolicy | None) -> None:
    alarm = cloudwatch.Alarm.from_alarm_arn(stack, "Own", f"arn:aws:cloudwatch:us-west-2:{stack.account}:alarm:own")
    options = {} if kept is None else {"removal_policy": kept}
    served(stack, update_policy=UpdatePolicy.all_at_once(rollback_alarms=[alarm]), **options)
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    (watching,) = [each for name, each in policies.items() if "WatchAlarms" in name]
    assert watching.get("DeletionPolicy") == (None if kept is None else "Retain")


def test_a_cure_of_drafts_is_refused_without_drafts(stack: Stack) -> None:
    monitoring = MonitoringOptions(speculation_cure=SpeculationCure.restart())
    with pytest.raises(RecipeError, match="the recipe does not use speculative decoding"):
        served(stack, monitoring=monitoring, server=Server.vllm())


@pytest.mark.parametrize("cured", [False, True])
def test_configurations_that_handlers_make_are_named_in_permissions_by_their_arns(stack: Stack, cured: bool) -> None:
    more: dict[str, Any] = {"server": Server.vllm(), "variant": VariantOptions(routing=Routing.kv_aware())}
    if cured:
        monitoring = MonitoringOptions(speculation_cure=SpeculationCure.restart())
        served(stack, techniques=[SpeculativeDecoding.ngram()], monitoring=monitoring, **more)
    else:
        served(stack, **more).shadow(candidate=AWQ, checks=[AnswerCheck.answered()], promote=True)
    configs = of_type(stack, OPTIMIZED_ENDPOINT_CONFIG)
    assert len(configs) == (2 if cured else 3)
    assert of_type(stack, CONFIG) == {}
    roles = of_type(stack, "AWS::IAM::Role").values()
    documents = [policy["PolicyDocument"] for role in roles for policy in role["Policies"]]
    statements = [each for document in documents for each in document["Statement"]]
    [moving] = [each for each in statements if each["Sid"] == ("UseTwinConfigs" if cured else "UseConfigs")]
    assert [each["Fn::GetAtt"] for each in moving["Resource"]] == [[name, "EndpointConfigArn"] for name in configs]


@pytest.mark.parametrize("cured", [False, True])
def test_what_a_retained_endpoint_may_be_moved_to_is_retained(stack: Stack, cured: bool) -> None:
    kept = RemovalPolicy.RETAIN
    if cured:
        monitoring = MonitoringOptions(speculation_cure=SpeculationCure.restart())
        served(
            stack,
            server=Server.vllm(),
            techniques=[SpeculativeDecoding.ngram()],
            monitoring=monitoring,
            removal_policy=kept,
        )
    else:
        served(stack, removal_policy=kept).shadow(candidate=AWQ, checks=[AnswerCheck.answered()], promote=True)
    resources = Template.from_stack(stack).to_json()["Resources"].values()
    kinds = (CONFIG, "AWS::SageMaker::Model", "Custom::OptimizedModel")
    found = [each for each in resources if each["Type"] in kinds]
    assert len(found) == (3 if cured else 5)
    assert {each["DeletionPolicy"] for each in found} == {"Retain"}


def test_a_shadow_has_the_defaults_that_its_documentation_says() -> None:
    def template(**options: Any) -> Any:
        stack = Stack(App(), "Chat", env={"region": "us-west-2"})
        served(stack).shadow(candidate=AWQ, checks=[AnswerCheck.answered()], **options)
        return Template.from_stack(stack).to_json()

    said = {"duration": Duration.days(7), "margin": 0.02, "latency_tolerance": 0.1, "promote": False}
    assert template() == template(sample_percent=5, **said)
