"""The policy rules on handwritten templates, and the validation of policy settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.policy import RULES, PlatformPolicy, PolicyError, check, rules_table
from constructs_optim.policy.settings import SETTING_BY_RULE

DOCS = Path(__file__).parent.parent.parent / "docs"
PRICES = {"ml.g5.12xlarge": 7.0, "ml.p5.48xlarge": 60.0}


def config(**properties: Any) -> dict[str, Any]:
    variant = {"VariantName": "A", "ModelName": "m", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1}
    variants = [variant | properties.pop("variant", {})]
    return {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": variants, **properties}}


ENDPOINT = {
    "Type": "AWS::SageMaker::Endpoint",
    "Properties": {"EndpointName": "chat", "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
}


def target(maximum: Any = 4, **properties: Any) -> dict[str, Any]:
    name = {"Fn::Join": ["", ["endpoint/", {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "/variant/A"]]}
    return {
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "Properties": {"ResourceId": name, "MaxCapacity": maximum, **properties},
    }


def scheduled(*limits: tuple[Any, Any]) -> dict[str, Any]:
    """A range of 1 to 4 with schedules of these limits."""
    changes = [
        {name: limit for name, limit in zip(("MinCapacity", "MaxCapacity"), pair, strict=True) if limit is not None}
        for pair in limits
    ]
    actions = [{"ScalableTargetAction": change, "Schedule": "cron(0 7 ? * MON-FRI *)"} for change in changes]
    return target(MinCapacity=1, ScheduledActions=actions)


SCALING_POLICY = {
    "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
    "Properties": {"ScalingTargetId": {"Ref": "Target"}},
}


def component(**properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::SageMaker::InferenceComponent",
        "Properties": {"InferenceComponentName": "one", "EndpointName": "chat", **properties},
    }


def alarm(**properties: Any) -> dict[str, Any]:
    dimensions = [{"Name": "EndpointName", "Value": "chat"}]
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Dimensions": dimensions, **properties}}


def evaluation(**request: Any) -> dict[str, Any]:
    return {
        "Type": "Custom::EndpointEvaluation",
        "Properties": {
            "Request": {"Dimensions": {"EndpointName": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}}, **request}
        },
    }


def model(type: str = "AWS::SageMaker::Model", **properties: Any) -> dict[str, Any]:
    metadata = {key: properties.pop(key) for key in ("Recipe", "Models", "Techniques") if key in properties}
    return {"Type": type, "Properties": properties, "Metadata": {"constructs-optim": metadata}}


def found(policy: PlatformPolicy, **resources: dict[str, Any]) -> list[str]:
    """The resource of each finding."""
    return [finding.resource.logical_id for finding in check(policy, {"Resources": resources})]


INSTANCES = PlatformPolicy(allowed_instance_types=["ml.g5.*"])
JOBS = PlatformPolicy(allowed_job_instance_types=["ml.p4d.24xlarge"])
PRICE = PlatformPolicy(max_price_per_hour=10, instance_prices=PRICES)
COST = PlatformPolicy(max_monthly_cost=7 * 730 * 4, instance_prices=PRICES)
REQUIRED = PlatformPolicy(required_techniques=["quantization", "speculative_decoding=medusa"])
FORBIDDEN = PlatformPolicy(forbidden_techniques=["compilation", "quantization=fp8"])
LICENSES = PlatformPolicy(accepted_licenses=["Gemma Terms of Use", "s3://mine/*"])
PINNED = PlatformPolicy(pinned_model_versions=True)
KMS = PlatformPolicy(kms_required=True)
VPC = PlatformPolicy(vpc_required=True)
ISOLATION = PlatformPolicy(network_isolation_required=True)
SCALING = PlatformPolicy(autoscaling_required=True)
ALARMS = PlatformPolicy(alarm_actions_required=True)
EVALUATION = PlatformPolicy(evaluation_gate_required=True)

P5 = {"variant": {"InstanceType": "ml.p5.48xlarge"}}
POOLS = {"variant": {"InstancePools": [{"InstanceType": "ml.g5.12xlarge"}, {"InstanceType": "ml.p5.48xlarge"}]}}
LATER = {"variant": {"InstanceType": {"Ref": "Type"}}}
SERVERLESS = {
    "Properties": {"ProductionVariants": [{"ServerlessConfig": {}}]},
    "Type": "AWS::SageMaker::EndpointConfig",
}
MANAGED = {"Status": "ENABLED", "MaxInstanceCount": 5}
SHARED = {
    "Type": "AWS::SageMaker::EndpointConfig",
    "Properties": {
        "ProductionVariants": [
            {"VariantName": "A", "InstanceType": "ml.g5.12xlarge", "ManagedInstanceScaling": MANAGED}
        ]
    },
}
NETWORK = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
WITH_ACTION = {"AlarmActions": ["arn:aws:sns:us-west-2:111122223333:pages"]}
TRAINING = {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge"}}
OF_THE_COMPONENT = {"ResourceId": "inference-component/one"}
PINNED_LLAMA = [{"ModelId": "meta-textgeneration-llama-2-7b", "Version": "4.0.0"}]


@pytest.mark.parametrize(
    ("policy", "good"),
    [
        (INSTANCES, {"Config": config()}),
        (INSTANCES, {"Config": SERVERLESS}),
        (JOBS, {"Job": model("Custom::TrainingJob", Request=TRAINING)}),
        (PRICE, {"Config": config()}),
        (COST, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(4)}),
        (COST, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(4.0)}),
        (COST, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(4), "Other": target(9, **OF_THE_COMPONENT)}),
        (REQUIRED, {"Model": model(Techniques=["quantization=awq", "speculative_decoding=medusa"])}),
        (FORBIDDEN, {"Model": model(Techniques=["quantization=awq"])}),
        (LICENSES, {"Model": model(Models=[{"ModelId": "huggingface-llm-gemma-7b"}, {"Uri": "s3://mine/weights/"}])}),
        (PINNED, {"Model": model(Models=[*PINNED_LLAMA, {"Uri": "s3://mine/weights/"}])}),
        (KMS, {"Config": config()}),
        (KMS, {"Config": config(KmsKeyId="key", variant={"InstanceType": "ml.inf2.xlarge"})}),
        (KMS, {"Config": config(variant={"InstanceType": "ml.m5d.xlarge"})}),
        (
            VPC,
            {
                "Model": model(VpcConfig=NETWORK),
                "Job": model("Custom::OptimizationJob", Request={"VpcConfig": NETWORK}),
            },
        ),
        (ISOLATION, {"Model": model(EnableNetworkIsolation=True), "Config": SHARED}),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(), "Policy": SCALING_POLICY}),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(ScheduledActions=[{}])}),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": scheduled((4, 4), (1, 1))}),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": scheduled((4, 4), (None, {"Ref": "Night"}))}),
        (
            SCALING,
            {"Config": config(), "Endpoint": ENDPOINT, "Target": target(MinCapacity=1), "Policy": SCALING_POLICY},
        ),
        (SCALING, {"Config": SHARED, "Adapter": component(Specification={"BaseInferenceComponentName": "one"})}),
        (SCALING, {"Component": component(), "Target": target(**OF_THE_COMPONENT), "Policy": SCALING_POLICY}),
        (ALARMS, {"Config": config(), "Endpoint": ENDPOINT, "Alarm": alarm(**WITH_ACTION)}),
        (
            ALARMS,
            {
                "Config": config(),
                "Endpoint": ENDPOINT,
                "Alarm": alarm(),
                "Any": {
                    "Type": "AWS::CloudWatch::CompositeAlarm",
                    "Properties": {"AlarmRule": {"Fn::Sub": "ALARM(${Alarm.Arn})"}, **WITH_ACTION},
                },
            },
        ),
        (ALARMS, {"Config": SHARED, "Endpoint": ENDPOINT}),
        (EVALUATION, {"Config": config(), "Endpoint": ENDPOINT, "Evaluation": evaluation(Gate={"Limits": []})}),
    ],
)
def test_compliant_templates_have_no_findings(policy: PlatformPolicy, good: dict[str, Any]) -> None:
    assert found(policy, **good) == []


@pytest.mark.parametrize(
    ("policy", "bad", "at"),
    [
        (INSTANCES, {"Config": config(**P5)}, ["Config"]),
        (INSTANCES, {"Config": config(**POOLS)}, ["Config"]),
        (INSTANCES, {"Config": config(**LATER)}, ["Config"]),
        (INSTANCES, {"Config": config(ProductionVariants={"Fn::If": ["Large", [], []]})}, ["Config"]),
        (INSTANCES, {"Config": config(ShadowProductionVariants=[{"InstanceType": "ml.p5.48xlarge"}])}, ["Config"]),
        (JOBS, {"Job": model("Custom::OptimizationJob", Request={"DeploymentInstanceType": "ml.g5.xlarge"})}, ["Job"]),
        (PRICE, {"Config": config(**P5)}, ["Config"]),
        (PRICE, {"Config": config(variant={"InstanceType": "ml.g6.xlarge"})}, ["Config"]),
        (PRICE, {"Config": config(**LATER)}, ["Config"]),
        (COST, {"Config": config(variant={"InitialInstanceCount": 5})}, ["Config"]),
        (COST, {"Config": config(), "Endpoint": ENDPOINT, "Target": target(5)}, ["Config"]),
        (COST, {"Config": config(), "Endpoint": ENDPOINT, "Target": target({"Ref": "Most"})}, ["Config"]),
        (COST, {"Config": config(**POOLS)}, ["Config"]),
        (COST, {"Config": config(variant={"ManagedInstanceScaling": MANAGED})}, ["Config"]),
        (COST, {"Config": config(variant={"InstanceType": "ml.g6.xlarge"})}, ["Config"]),
        (
            COST,
            {
                "Config": config(),
                "Endpoint": ENDPOINT,
                "Target": target(2, ScheduledActions=[{"ScalableTargetAction": {"MaxCapacity": 8}}]),
            },
            ["Config"],
        ),
        (REQUIRED, {"Model": model(Techniques=["quantization=awq"])}, ["Model"]),
        (REQUIRED, {"Model": model()}, ["Model"]),
        (REQUIRED, {"A": model("Custom::OptimizationJob"), "B": model("Custom::OptimizationJob")}, ["A", "B"]),
        (REQUIRED, {"Job": model("Custom::TrainingJob", Recipe="r", Techniques=["fine_tuning=fine_tune"])}, ["Job"]),
        (FORBIDDEN, {"Model": model(Techniques=["quantization=fp8", "compilation=neuron"])}, ["Model", "Model"]),
        (LICENSES, {"Model": model(Models=PINNED_LLAMA)}, ["Model"]),
        (LICENSES, {"Model": model(Models=[{"Uri": "s3://theirs/weights/"}])}, ["Model"]),
        (LICENSES, {"Model": model(Models=[{"ModelId": "of-nobody"}])}, ["Model"]),
        (PINNED, {"Model": model(Models=[*PINNED_LLAMA, {"ModelId": "meta-textgeneration-llama-2-7b"}])}, ["Model"]),
        (KMS, {"Config": config(variant={"InstanceType": "ml.inf2.xlarge"})}, ["Config"]),
        (KMS, {"Config": config(DataCaptureConfig={"EnableCapture": True})}, ["Config"]),
        (KMS, {"Config": config(AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": "s3://out"}})}, ["Config"]),
        (KMS, {"Job": model("Custom::OptimizationJob")}, ["Job"]),
        (VPC, {"Model": model(), "Job": model("Custom::TrainingJob"), "Config": SHARED}, ["Model", "Job", "Config"]),
        (VPC, {"Model": model(VpcConfig={"SecurityGroupIds": [], "Subnets": []})}, ["Model"]),
        (ISOLATION, {"Model": model(), "Other": model(EnableNetworkIsolation=False)}, ["Model", "Other"]),
        (ISOLATION, {"Model": model(EnableNetworkIsolation={"Ref": "Isolated"})}, ["Model"]),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT}, ["Config"]),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": target()}, ["Config"]),
        (SCALING, {"Config": config(), "Endpoint": ENDPOINT, "Target": scheduled((1, 1))}, ["Config"]),
        (
            SCALING,
            {"Config": config(), "Endpoint": ENDPOINT, "Target": target(2, MinCapacity=2), "Policy": SCALING_POLICY},
            ["Config"],
        ),
        (SCALING, {"Config": SHARED, "Endpoint": ENDPOINT, "Component": component()}, ["Component"]),
        (ALARMS, {"Config": config(), "Endpoint": ENDPOINT}, ["Endpoint"]),
        (ALARMS, {"Config": config(), "Endpoint": ENDPOINT, "Alarm": alarm()}, ["Endpoint"]),
        (
            ALARMS,
            {"Config": config(), "Endpoint": ENDPOINT, "Alarm": alarm(ActionsEnabled=False, **WITH_ACTION)},
            ["Endpoint"],
        ),
        (
            ALARMS,
            {
                "Config": config(),
                "Endpoint": ENDPOINT,
                "Alarm": alarm(AlarmActions=[{"Ref": "Policy"}]),
                "Policy": SCALING_POLICY,
            },
            ["Endpoint"],
        ),
        (
            ALARMS,
            {
                "Config": config(),
                "Endpoint": ENDPOINT,
                "Alarm": alarm(AlarmName="x"),
                "Any": {
                    "Type": "AWS::CloudWatch::CompositeAlarm",
                    "Properties": {"AlarmRule": "ALARM(exchange) OR ALARM(x-2)", **WITH_ACTION},
                },
            },
            ["Endpoint"],
        ),
        (ALARMS, {"Config": SHARED, "Endpoint": ENDPOINT, "Component": component()}, ["Component"]),
        (EVALUATION, {"Config": config(), "Endpoint": ENDPOINT}, ["Endpoint"]),
        (EVALUATION, {"Config": config(), "Endpoint": ENDPOINT, "Evaluation": evaluation()}, ["Endpoint"]),
    ],
)
def test_noncompliant_templates_have_findings_at_the_expected_resources(
    policy: PlatformPolicy, bad: dict[str, Any], at: list[str]
) -> None:
    assert found(policy, **bad) == at


def test_every_policy_rule_has_a_failing_case() -> None:
    tried = {
        rule.id
        for mark in test_noncompliant_templates_have_findings_at_the_expected_resources.pytestmark  # type: ignore[attr-defined]
        for policy, _, _ in mark.args[1]
        for rule in RULES
        if policy.is_on(rule.setting)
    }
    assert tried == {rule.id for rule in RULES}


def test_every_policy_rule_id_maps_to_its_setting() -> None:
    assert list(SETTING_BY_RULE.items()) == [(rule.id, rule.setting) for rule in RULES]


def test_a_recipe_of_a_job_and_its_model_is_validated_once() -> None:
    metadata = {"Recipe": "one", "Techniques": ["sharding=fast_load"]}
    both = {"Job": model("Custom::OptimizationJob", **metadata), "Model": model(**metadata)}
    assert found(REQUIRED, **both) == ["Model"]


def test_the_monthly_cost_limit_counts_instances_of_scheduled_scaling() -> None:
    raised = target(2, ScheduledActions=[{"ScalableTargetAction": {"MaxCapacity": 8}}])
    (finding,) = check(COST, {"Resources": {"Config": config(), "Endpoint": ENDPOINT, "Target": raised}})
    assert finding.reason == (
        "8 x ml.g5.12xlarge (a schedule of Target) cost $40,880 per month, but the policy allows $20,440"
    )


def test_an_instance_type_without_a_price_is_a_finding() -> None:
    (finding,) = check(PRICE, {"Resources": {"Config": config(variant={"InstanceType": "ml.g6.xlarge"})}})
    assert "is 'ml.g6.xlarge': the policy has no price for this type" in finding.description
    assert "instance_prices={'ml.g6.xlarge': ...}" in finding.suggestion


def test_an_empty_allow_list_allows_no_instance_type() -> None:
    assert found(PlatformPolicy(allowed_instance_types=[]), Config=config()) == ["Config"]


def test_findings_contain_the_configured_severity_and_reason() -> None:
    policy = PlatformPolicy(
        allowed_instance_types=["ml.p5.*"], severities={"POL001": "fatal"}, reasons={"POL001": "reserved until June"}
    )
    (finding,) = check(policy, {"Resources": {"Config": config()}})
    assert finding.severity == "fatal"
    assert finding.reason.endswith("(reserved until June)")


def test_all_invalid_policy_settings_are_reported_together() -> None:
    with pytest.raises(PolicyError) as refused:
        PlatformPolicy(
            allowed_instance_types=["g5.*", "ml.g5.12xlage", ""],
            allowed_job_instance_types="ml.g5.*",
            max_price_per_hour=0,
            max_monthly_cost=float("nan"),
            required_techniques=["awq", "compilation=neuron"],
            forbidden_techniques=["compilation", 7],
            accepted_licenses=["llama 3.1 community license agreement"],
            kms_required="yes",
            severities={"POL001": "loud"},
            reasons={"POL001": " "},
            vcp_required=True,  # type: ignore[call-arg]
        )
    assert [violation.location.removeprefix("PlatformPolicy.") for violation in refused.value.violations] == [
        "allowed_instance_types.0",
        "allowed_instance_types.1",
        "allowed_instance_types.2",
        "allowed_job_instance_types",
        "max_price_per_hour",
        "max_monthly_cost",
        "required_techniques.0",
        "forbidden_techniques.1",
        "accepted_licenses.0",
        "kms_required",
        "severities.POL001",
        "reasons.POL001",
        "vcp_required",
    ]
    text = str(refused.value)
    assert text.startswith("the policy has 13 mistakes:")
    for near in (
        "did you mean ml.g5.*?",
        "did you mean ml.g5.12xlarge",
        "did you mean quantization=awq?",
        "did you mean Llama 3.1 Community License Agreement",
        "did you mean vpc_required",
    ):
        assert near in text


def test_contradictory_policy_settings_are_reported_together() -> None:
    with pytest.raises(PolicyError) as refused:
        PlatformPolicy(
            max_price_per_hour=5,
            required_techniques=["quantization", "compilation=neuron"],
            forbidden_techniques=["compilation"],
            severities={"POL099": "error", "POL031": "error"},
        )
    assert [violation.location.removeprefix("PlatformPolicy") for violation in refused.value.violations] == [
        ".instance_prices",
        ".required_techniques.1",
        ".severities['POL099']",
        ".severities['POL031']",
    ]


@pytest.mark.parametrize("prices", [{"g5.xlarge": 1.0}, {"ml.g5.*": 1.0}, {"ml.g5.xlarge": -1.0}, [7.09]])
def test_prices_must_be_positive_and_for_single_instance_types(prices: Any) -> None:
    with pytest.raises(PolicyError, match="instance_prices"):
        PlatformPolicy(max_price_per_hour=5, instance_prices=prices)


def test_a_policy_without_rules_is_refused() -> None:
    with pytest.raises(PolicyError, match="a policy without rules accepts everything"):
        PlatformPolicy()


def test_a_policy_does_not_change_when_its_arguments_are_mutated() -> None:
    allowed, prices = ["ml.g5.*"], {"ml.g5.12xlarge": 7.0}
    policy = PlatformPolicy(allowed_instance_types=allowed, max_price_per_hour=10, instance_prices=prices)
    allowed.append("ml.p5.*")
    prices.clear()
    assert policy.allowed_instance_types == ("ml.g5.*",)
    assert policy.instance_prices == {"ml.g5.12xlarge": 7.0}


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Ref", "Fn::Sub", "Name"]), inner),
    max_leaves=4,
)
_TYPES = st.sampled_from(
    [
        "AWS::SageMaker::EndpointConfig",
        "AWS::SageMaker::Endpoint",
        "AWS::SageMaker::InferenceComponent",
        "AWS::SageMaker::Model",
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWS::CloudWatch::Alarm",
        "Custom::EndpointEvaluation",
        "Custom::OptimizationJob",
    ]
)
_NAMES = st.sampled_from(
    ["ProductionVariants", "InstanceType", "ResourceId", "MaxCapacity", "Dimensions", "Request", "AlarmActions"]
)
EVERY_RULE = PlatformPolicy(
    allowed_instance_types=["ml.g5.*"],
    allowed_job_instance_types=["ml.g5.*"],
    max_price_per_hour=10,
    max_monthly_cost=100,
    instance_prices=PRICES,
    required_techniques=["quantization"],
    forbidden_techniques=["compilation"],
    accepted_licenses=["Gemma Terms of Use"],
    pinned_model_versions=True,
    kms_required=True,
    vpc_required=True,
    network_isolation_required=True,
    autoscaling_required=True,
    alarm_actions_required=True,
    evaluation_gate_required=True,
)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["A", "B", "C"]),
        st.fixed_dictionaries(
            {
                "Type": _TYPES,
                "Properties": st.dictionaries(_NAMES, _PLAIN | st.lists(st.dictionaries(_NAMES, _PLAIN), max_size=2)),
                "Metadata": st.dictionaries(st.just("constructs-optim"), _PLAIN),
            }
        ),
    )
)
def test_an_arbitrary_template_can_be_validated(resources: dict[str, Any]) -> None:
    for finding in check(EVERY_RULE, {"Resources": resources}):
        assert finding.resource.logical_id in resources
        assert finding.reason
        assert finding.suggestion


def test_the_policy_page_contains_the_table_of_all_rules() -> None:
    assert rules_table() in (DOCS / "policy.md").read_text(encoding="utf-8"), (
        'python -c "from constructs_optim.policy import rules_table; print(rules_table())"'
    )
