"""Parts for endpoints that other constructs declare: what is read of their resources, and what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsii
import pytest
from aws_cdk import App, CfnParameter, Duration, Environment, Stack, Token
from aws_cdk import aws_applicationautoscaling as applicationautoscaling
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.assertions import Annotations, Match, Template
from aws_cdk.interfaces import ResourceEnvironment
from aws_cdk.interfaces.aws_sagemaker import IInferenceComponentRef, InferenceComponentReference
from constructs import Construct

from constructs_optim import (
    Alarms,
    AlarmSettings,
    AnswerCheck,
    DataCapture,
    EndpointMonitoring,
    IOptimizedEndpoint,
    Model,
    MonitoringOptions,
    Observability,
    OptimizedEndpoint,
    RecipeError,
    Server,
    ShadowCandidate,
    Workload,
)
from constructs_optim.constructs.endpoint.declared_endpoint import DeclaredVariant
from constructs_optim.constructs.endpoint.endpoint_monitoring import (
    _key_arn,
)

_IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
_VARIANT = {
    "variantName": "AllTraffic",
    "initialInstanceCount": 2,
    "initialVariantWeight": 1,
    "instanceType": "ml.g5.12xlarge",
}
_POOLED = {
    "variantName": "A",
    "modelName": "llama",
    "instancePools": [
        {"instanceType": "ml.g5.2xlarge", "priority": 2},
        {"instanceType": "ml.g6.2xlarge", "priority": 1},
    ],
}


def stack_of() -> Stack:
    return Stack(App(), "Chat", env=Environment(account="111122223333", region="us-west-2"))


def declared(
    scope: Stack,
    *,
    environment: dict[str, str] | None = None,
    variants: list[dict[str, Any]] | None = None,
    **options: Any,
) -> sagemaker.CfnEndpoint:
    """Somebody else's endpoint."""
    model = sagemaker.CfnModel(
        scope,
        "Model",
        execution_role_arn="arn:aws:iam::111122223333:role/serve",
        primary_container={"image": _IMAGE, "environment": environment or {"SM_VLLM_MAX_NUM_SEQS": "32"}},
    )
    production: Any = variants or [{**_VARIANT, "modelName": model.attr_model_name}]
    config = sagemaker.CfnEndpointConfig(scope, "Config", production_variants=production, **options)
    return sagemaker.CfnEndpoint(scope, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)


def resources(stack: Stack, type_name: str) -> dict[str, Any]:
    return Template.from_stack(stack).find_resources(type_name)


def one(stack: Stack, type_name: str) -> dict[str, Any]:
    (found,) = resources(stack, type_name).values()
    return found["Properties"]


def test_the_resources_of_an_endpoint_say_what_its_parts_need() -> None:
    stack = stack_of()
    monitoring = EndpointMonitoring.of(declared(stack))
    monitoring.auto_scale(max_capacity=4).on_concurrency().on_queue(target=2)
    monitoring.evaluate(workload=Workload(concurrency=[1])).require(p99_ttft_ms=500)
    monitoring.grant_invoke(iam.Role(stack, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")))
    name = {"Fn::GetAtt": ["Endpoint", "EndpointName"]}
    alarms = [each["Properties"] for each in resources(stack, "AWS::CloudWatch::Alarm").values()]
    assert [name] * 2 == [
        value["Value"] for each in alarms for value in each.get("Dimensions", []) if value["Name"] == "EndpointName"
    ]
    (saturation,) = [each for each in alarms if each.get("MetricName") == "ConcurrentRequestsPerModel"]
    assert saturation["Threshold"] == 32
    assert one(stack, "AWS::ApplicationAutoScaling::ScalableTarget")["ResourceId"] == {
        "Fn::Join": ["", ["endpoint/", name, "/variant/AllTraffic"]]
    }
    targets = [
        each["Properties"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
        for each in resources(stack, "AWS::ApplicationAutoScaling::ScalingPolicy").values()
        if "TargetTrackingScalingPolicyConfiguration" in each["Properties"]
    ]
    assert targets == [22.4], "seven tenths of what the container's environment says"
    request = one(stack, "Custom::EndpointEvaluation")["Request"]
    assert request["EndpointName"] == name
    assert request["EndpointConfigName"] == {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    assert request["ModelNames"] == [{"Fn::GetAtt": ["Model", "ModelName"]}]
    (subject,) = request["Subjects"]
    assert (subject["InstanceType"], subject["Server"]) == ("ml.g5.12xlarge", "vllm")
    assert one(stack, "AWS::SageMaker::Endpoint")["RetainAllVariantProperties"] is True
    board = json.dumps(one(stack, "AWS::CloudWatch::Dashboard"))
    assert "ml.g5.12xlarge" in board
    assert "vllm:" in board, "the engine's own metrics are drawn"


@pytest.mark.parametrize(
    ("image", "server"),
    [
        (_IMAGE, "vllm"),
        ({"Fn::Sub": "763104351884.dkr.ecr.${AWS::Region}.amazonaws.com/sglang:0.5.9"}, "sglang"),
        (
            {"Fn::Sub": ["${Account}.dkr.ecr.us-west-2.amazonaws.com/sglang:0.5.9", {"Account": "763104351884"}]},
            "sglang",
        ),
        ({"Fn::Join": ["", [{"Ref": "Registry"}, "/vllm:0.30.0", "-gpu-py312"]]}, "vllm"),
        ({"Fn::Join": ["/", [{"Ref": "Registry"}, "sglang:0.5.9"]]}, "sglang"),
        ({"Ref": "Image"}, None),
        ({"Fn::Join": ["/", {"Ref": "Parts"}]}, None),
        (None, None),
    ],
)
def test_the_known_parts_of_an_image_tell_the_server(image: Any, server: str | None) -> None:
    assert DeclaredVariant(containers=({"image": image},)).server == server


@pytest.mark.parametrize("containers", [(), ({"image": _IMAGE}, {"image": _IMAGE})])
def test_any_container_of_a_pipeline_may_be_the_server(containers: tuple[dict[str, Any], ...]) -> None:
    assert DeclaredVariant(containers=containers).server is None


@pytest.mark.parametrize(
    ("described", "count"), [({"initialInstanceCount": 3}, 3), ({"initialInstanceCount": {"Ref": "Count"}}, 1), ({}, 1)]
)
def test_the_initial_instances_are_one_if_their_number_is_not_known(described: dict[str, Any], count: int) -> None:
    assert DeclaredVariant(described=described).instance_count == count


def test_instance_pools_are_in_the_order_of_their_priorities() -> None:
    pools = [{"instanceType": "ml.g6.12xlarge", "priority": 2}, {"instanceType": "ml.g5.12xlarge", "priority": 1}]
    described = {"instancePools": [*pools, {"instanceType": {"Ref": "Type"}, "priority": 3}]}
    assert DeclaredVariant(described=described).instance_types == ("ml.g5.12xlarge", "ml.g6.12xlarge")


def test_an_endpoint_that_another_construct_scales_is_not_scaled_twice() -> None:
    stack = stack_of()
    endpoint = declared(stack)
    for variant, target in (("Other", "OtherTarget"), ("AllTraffic", "Target")):
        applicationautoscaling.CfnScalableTarget(
            stack,
            target,
            max_capacity=2,
            min_capacity=1,
            resource_id=f"endpoint/{endpoint.attr_endpoint_name}/variant/{variant}",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            service_namespace="sagemaker",
        )
    with pytest.raises(ValueError, match="Chat/Target already scales this endpoint"):
        EndpointMonitoring.of(endpoint).auto_scale(max_capacity=4)


def test_an_evaluation_is_another_one_when_the_container_changes() -> None:
    def key(**environment: str) -> str:
        stack = stack_of()
        EndpointMonitoring.of(declared(stack, environment=environment)).evaluate()
        return one(stack, "Custom::EndpointEvaluation")["Request"]["Subjects"][0]["ArtifactKey"]

    assert key(SM_VLLM_MAX_NUM_SEQS="8") == key(SM_VLLM_MAX_NUM_SEQS="8") != key(SM_VLLM_MAX_NUM_SEQS="16")


@pytest.mark.parametrize(
    "options",
    [{"async_inference_config": {"outputConfig": {}}}, {"metrics_config": {"enableDetailedObservability": False}}],
)
def test_metrics_settings_of_the_configuration_have_precedence(options: dict[str, Any]) -> None:
    scaling = EndpointMonitoring.of(declared(stack_of(), **options)).auto_scale(max_capacity=2)
    with pytest.raises(RecipeError, match="OPT170"):
        scaling.on_queue(target=2)


def test_an_endpoint_that_keeps_its_name_from_a_parameter_and_a_config_by_its_name() -> None:
    stack = stack_of()
    count = CfnParameter(stack, "Count", type="Number")
    sagemaker.CfnModel(stack, "Model", model_name="llama", primary_container={"image": _IMAGE})
    variant: Any = {**_VARIANT, "modelName": "llama", "initialInstanceCount": count.value_as_number}
    sagemaker.CfnEndpointConfig(stack, "Config", endpoint_config_name="chat", production_variants=[variant])
    endpoint = sagemaker.CfnEndpoint(stack, "Endpoint", endpoint_config_name="chat")
    monitoring = EndpointMonitoring.of(endpoint)
    assert monitoring.served.engine.server == "vllm"
    monitoring.evaluate()
    assert one(stack, "Custom::EndpointEvaluation")["Request"]["ModelNames"] == [{"Fn::GetAtt": ["Model", "ModelName"]}]


def test_arguments_replace_what_the_resources_say() -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_POOLED])
    as_declared = EndpointMonitoring.of(endpoint)
    as_declared.evaluate()
    types = [each["InstanceType"] for each in one(stack, "Custom::EndpointEvaluation")["Request"]["Subjects"]]
    assert types == ["ml.g6.2xlarge", "ml.g5.2xlarge"], "by priority"
    changed = EndpointMonitoring.of(
        endpoint,
        id="Other",
        instance_type="ml.g5.2xlarge",
        model_name="other",
        server=Server.sglang(),
        max_concurrent_requests=4,
    )
    assert changed.served.instance_type == "ml.g5.2xlarge"
    assert changed.served.engine.server == "sglang"
    assert changed.served.artifact_key != as_declared.served.artifact_key
    assert changed.auto_scale(max_capacity=2).capacity == 4


def llama_on(endpoint: sagemaker.CfnEndpoint, **properties: Any) -> sagemaker.CfnInferenceComponent:
    return sagemaker.CfnInferenceComponent(
        endpoint.stack,
        "Component",
        endpoint_name=endpoint.attr_endpoint_name,
        inference_component_name="llama",
        **properties,
    )


def test_a_component_has_parts_of_its_own_and_keeps_its_copies() -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_VARIANT])
    specification = {"modelName": "llama", "computeResourceRequirements": {"numberOfAcceleratorDevicesRequired": 1}}
    component = llama_on(endpoint, specification=specification, runtime_config={"copyCount": 2})
    with pytest.raises(ValueError, match="publishes metrics by the inference components on it"):
        EndpointMonitoring.of(endpoint)
    monitoring = EndpointMonitoring.of(endpoint, inference_component=component, max_concurrent_requests=8)
    monitoring.auto_scale(min_capacity=1, max_capacity=4).on_concurrency()
    monitoring.evaluate()
    name = {"Fn::Select": [1, {"Fn::Split": ["/", {"Ref": "Component"}]}]}
    assert one(stack, "AWS::ApplicationAutoScaling::ScalableTarget")["ResourceId"] == {
        "Fn::Join": ["", ["inference-component/", name]]
    }
    request = one(stack, "Custom::EndpointEvaluation")["Request"]
    assert (request["InferenceComponentName"], request["ShareOfInstance"]) == (name, 0.25)
    capacity = one(stack, "Custom::ComponentCapacity")
    assert (capacity["ComponentLogicalId"], capacity["InitialCopyCount"]) == ("Component", 2)
    assert "llama" in json.dumps(capacity["Component"])
    copies = one(stack, "AWS::SageMaker::InferenceComponent")["RuntimeConfig"]["CopyCount"]
    assert copies["Fn::GetAtt"][1] == "CopyCount"


def test_an_endpoint_of_another_app_takes_what_is_given() -> None:
    stack = stack_of()
    existing = IOptimizedEndpoint.from_endpoint_name(stack, "Prod", "Chat-Prod")
    monitoring = EndpointMonitoring.of(
        existing, instance_type="ml.g5.12xlarge", model_name="llama", server=Server.vllm(max_concurrent_requests=16)
    )
    monitoring.auto_scale(max_capacity=2).on_concurrency()
    monitoring.evaluate(schedule="rate(1 day)")
    target = one(stack, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert target["ResourceId"] == "endpoint/Chat-Prod/variant/AllTraffic"
    Annotations.from_stack(stack).has_warning("*", Match.string_like_regexp(".*RetainAllVariantProperties.*"))
    with pytest.raises(ValueError, match="call shadow in the app that does"):
        monitoring.shadow(candidate=ShadowCandidate(), checks=[], data_capture=captured(stack))


def captured(stack: Stack) -> DataCapture:
    return DataCapture(bucket=s3.Bucket.from_bucket_name(stack, "Captures", "captures"))


def test_a_shadow_is_a_configuration_beside_the_declared_one() -> None:
    alone, stack = stack_of(), stack_of()
    declared(alone, kms_key_id="0123-key")
    before = one(alone, "AWS::SageMaker::EndpointConfig")
    endpoint = declared(stack, kms_key_id="0123-key")
    monitoring = EndpointMonitoring.of(endpoint)
    candidate = ShadowCandidate(model=Model.s3("s3://models/llama/"), instance_type="ml.g5.2xlarge")
    capture = captured(stack)
    run = monitoring.shadow(
        candidate=candidate,
        checks=[AnswerCheck.answered()],
        data_capture=capture,
        duration=Duration.hours(4),
        promote=True,
    )
    assert run.announced_pairs > 0
    monitoring.evaluate()
    found = {name: each["Properties"] for name, each in resources(stack, "AWS::SageMaker::EndpointConfig").items()}
    assert found.pop("Config") == before
    (shadow,) = [each for each in found.values() if "ShadowProductionVariants" in each]
    (promoted,) = [each for each in found.values() if "ShadowProductionVariants" not in each]
    assert shadow["ProductionVariants"] == before["ProductionVariants"]
    (shadowing,) = shadow["ShadowProductionVariants"]
    assert shadowing["InstanceType"] == "ml.g5.2xlarge"
    roles = [each["Properties"] for each in resources(stack, "AWS::IAM::Role").values()]
    assert [role["Description"] for role in roles if "WriteCaptures" in json.dumps(role)]
    assert shadow["KmsKeyId"] == promoted["KmsKeyId"] == "0123-key"
    assert shadow["DataCaptureConfig"]["DestinationS3Uri"] == "s3://captures/captures"
    (taken_over,) = promoted["ProductionVariants"]
    assert (taken_over["VariantName"], taken_over["InitialInstanceCount"]) == ("AllTraffic", 2)
    request = one(stack, "Custom::ShadowRun")["Request"]
    assert request["EndedConfigName"] == {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    evaluated = one(stack, "Custom::EndpointEvaluation")["Request"]["EndpointConfigName"]
    assert evaluated == request["EndedConfigName"], "an evaluation does not run again because a shadow begins"
    assert one(stack, "AWS::SageMaker::Endpoint")["EndpointConfigName"] == {
        "Fn::GetAtt": [next(name for name, each in found.items() if each is shadow), "EndpointConfigName"]
    }
    assert "key/0123-key" in json.dumps(Template.from_stack(stack).to_json())
    with pytest.raises(ValueError, match="already has a shadow"):
        monitoring.shadow("Second", candidate=candidate, checks=[], data_capture=capture)
    with pytest.raises(RecipeError, match="OPT193"):
        monitoring.auto_scale(max_capacity=2)


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        ({}, {"candidate": ShadowCandidate()}, r"ShadowCandidate\(model="),
        ({"kms_key_id": "alias/volumes"}, {}, "permissions cannot refer to an alias"),
        ({"async_inference_config": {"outputConfig": {}}}, {}, "OPT190"),
        ({"shadow_production_variants": [{**_VARIANT, "modelName": "b"}]}, {}, "already has a shadow"),
        ({}, {"checks": []}, "OPT195"),
        ({"variants": [_POOLED]}, {}, r"instance_pools = \['ml\.g6\.2xlarge', 'ml\.g5\.2xlarge'\]"),
    ],
)
def test_a_shadow_that_cannot_be_is_refused_with_its_reason(
    config: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    stack = stack_of()
    candidate = ShadowCandidate(model=Model.s3("s3://models/llama/"))
    given = {"candidate": candidate, "checks": [AnswerCheck.answered()], "data_capture": captured(stack), **options}
    with pytest.raises(ValueError, match=reason):
        EndpointMonitoring.of(declared(stack, **config)).shadow(**given)


def test_one_of_several_variants_has_no_shadow() -> None:
    stack = stack_of()
    monitoring = EndpointMonitoring.of(_two_variants(stack), variant_name="B")
    candidate = ShadowCandidate(model=Model.s3("s3://models/llama/"))
    with pytest.raises(ValueError, match="only with a single production variant"):
        monitoring.shadow(candidate=candidate, checks=[AnswerCheck.answered()], data_capture=captured(stack))


def test_a_shadow_has_the_defaults_that_its_documentation_says() -> None:
    def template(**options: Any) -> Any:
        stack = stack_of()
        monitoring = EndpointMonitoring.of(declared(stack))
        candidate = ShadowCandidate(model=Model.s3("s3://models/llama/"))
        monitoring.shadow(candidate=candidate, checks=[AnswerCheck.answered()], data_capture=captured(stack), **options)
        return Template.from_stack(stack).to_json()

    said = {"duration": Duration.days(7), "margin": 0.02, "latency_tolerance": 0.1, "promote": False}
    of_defaults = template()
    assert of_defaults == template(sample_percent=5, **said)
    (shadow,) = [
        variant
        for each in of_defaults["Resources"].values()
        if each["Type"] == "AWS::SageMaker::EndpointConfig"
        for variant in each["Properties"].get("ShadowProductionVariants", ())
    ]
    assert (shadow["InitialVariantWeight"], shadow["InstanceType"], shadow["InitialInstanceCount"]) == (
        0.05,
        "ml.g5.12xlarge",
        1,
    )


@pytest.mark.parametrize(
    ("given", "arn"),
    [
        (None, None),
        ("arn:aws:kms:us-west-2:111122223333:key/0123", "arn:aws:kms:us-west-2:111122223333:key/0123"),
        ("${Token[Key.1]}", "${Token[Key.1]}"),
        ("0123", "arn:${AWS::Partition}:kms:us-west-2:111122223333:key/0123"),
    ],
)
def test_permissions_have_the_arn_of_a_key(given: str | None, arn: str | None) -> None:
    stack = stack_of()
    found = _key_arn(stack, given)
    partition = stack.partition
    assert (found.replace(partition, "${AWS::Partition}") if found is not None else None) == arn


@pytest.mark.parametrize(
    ("runtime", "least", "initial"), [({"copyCount": 9}, 1, 4), ({"copyCount": 1}, 2, 2), (None, 1, 1), (None, 3, 3)]
)
def test_a_component_begins_with_its_copies_within_the_range(
    runtime: dict[str, int] | None, least: int, initial: int
) -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_VARIANT])
    component = llama_on(endpoint, runtime_config=runtime)
    monitoring = EndpointMonitoring.of(endpoint, inference_component=component, model_name="llama")
    monitoring.auto_scale(min_capacity=least, max_capacity=4)
    assert one(stack, "Custom::ComponentCapacity")["InitialCopyCount"] == initial


@jsii.implements(IInferenceComponentRef)
class _OfAnotherApp(Construct):
    @property
    def inference_component_ref(self) -> InferenceComponentReference:
        arn = "arn:aws:sagemaker:us-west-2:111122223333:inference-component/chat-llama"
        return InferenceComponentReference(inference_component_arn=arn)

    @property
    def env(self) -> ResourceEnvironment:
        return ResourceEnvironment(account="111122223333", region="us-west-2")


def test_a_component_of_another_app_has_the_name_of_its_arn_and_the_instances_of_the_endpoint() -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_VARIANT])
    component: Any = _OfAnotherApp(stack, "Component")
    monitoring = EndpointMonitoring.of(endpoint, inference_component=component)
    assert monitoring.served.inference_component_name == "chat-llama"
    assert monitoring.served.instance_type == "ml.g5.12xlarge"
    with pytest.raises(ValueError, match=r'pass to EndpointMonitoring.of\(...\) model_name="..."'):
        monitoring.evaluate()


@pytest.mark.parametrize(("least", "at_night", "periods"), [(1, 1, (10, 3)), (0, None, (2, 2)), (1, 0, (2, 2))])
def test_the_zero_capacity_alarm_of_a_scaled_component_tolerates_its_wake_up(
    least: int, at_night: int | None, periods: tuple[int, int]
) -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_VARIANT])
    monitoring = EndpointMonitoring.of(endpoint, inference_component=llama_on(endpoint), model_name="llama")
    scaling = monitoring.auto_scale(min_capacity=least, max_capacity=2)
    if at_night is not None:
        scaling.on_schedule("Night", schedule="cron(0 20 * * ? *)", min_capacity=at_night)
    (alarm,) = (
        each["Properties"]
        for name, each in resources(stack, "AWS::CloudWatch::Alarm").items()
        if "ZeroCapacity" in name
    )
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == periods


def test_updates_do_what_the_endpoint_says_about_scaled_instances() -> None:
    stack = stack_of()
    endpoint = declared(stack)
    endpoint.retain_all_variant_properties = False
    EndpointMonitoring.of(endpoint).auto_scale(max_capacity=2)
    assert one(stack, "AWS::SageMaker::Endpoint")["RetainAllVariantProperties"] is False


@pytest.mark.parametrize(
    ("metrics_config", "seconds"), [({"metricPublishFrequencyInSeconds": 10}, 10), (None, 60), ({}, 60)]
)
def test_metrics_are_as_frequent_as_the_configuration_says(metrics_config: dict[str, Any] | None, seconds: int) -> None:
    monitoring = EndpointMonitoring.of(declared(stack_of(), metrics_config=metrics_config))
    assert monitoring.served.publishing_seconds == seconds


@pytest.mark.parametrize(
    ("environment", "is_speculative", "requests"),
    [
        ({"SM_VLLM_SPECULATIVE_CONFIG": "{}", "SM_VLLM_MAX_NUM_SEQS": "8"}, True, 8),
        ({"SM_VLLM_MAX_NUM_SEQS": "8k"}, False, None),
        ({"SM_VLLM_MAX_NUM_SEQS": {"Ref": "Most"}}, False, None),
        ({}, False, None),
        (None, False, None),
        ({"Ref": "Variables"}, False, None),
    ],
)
def test_the_environment_of_a_container_tells_how_it_serves(
    environment: Any, is_speculative: bool, requests: int | None
) -> None:
    found = DeclaredVariant(containers=({"image": _IMAGE, "environment": environment},))
    assert (found.speculates, found.max_concurrent_requests) == (is_speculative, requests)


@pytest.mark.parametrize("of_model", [{"primary_container": {"image": _IMAGE}}, {"containers": [{"image": _IMAGE}]}])
def test_models_of_variants_that_are_rendered_late_are_found(of_model: dict[str, Any]) -> None:
    stack = stack_of()
    model = sagemaker.CfnModel(stack, "Model", **of_model)
    variants = Token.as_any([{**_VARIANT, "modelName": model.attr_model_name}])
    config = sagemaker.CfnEndpointConfig(stack, "Config", production_variants=variants)
    endpoint = sagemaker.CfnEndpoint(stack, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
    assert EndpointMonitoring.of(endpoint).served.engine.server == "vllm"


def test_a_model_that_a_parameter_names_is_evaluated_by_its_reference() -> None:
    stack = stack_of()
    CfnParameter(stack, "ModelName")
    variants: Any = Token.as_any([{**_VARIANT, "modelName": {"Ref": "ModelName"}}])
    config = sagemaker.CfnEndpointConfig(stack, "Config", production_variants=variants)
    endpoint = sagemaker.CfnEndpoint(stack, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
    EndpointMonitoring.of(endpoint).evaluate()
    assert one(stack, "Custom::EndpointEvaluation")["Request"]["ModelNames"] == [{"Ref": "ModelName"}]


def test_the_price_of_an_instance_is_on_the_dashboard_with_its_discount() -> None:
    def board(**options: Any) -> str:
        stack = stack_of()
        EndpointMonitoring.of(declared(stack), monitoring=MonitoringOptions(**options))
        return json.dumps(one(stack, "AWS::CloudWatch::Dashboard"))

    full, less = board(instance_price_per_hour=7.09), board(instance_price_per_hour=7.09, discount=0.5)
    assert "7.09" in full
    assert "7.09" not in board()
    assert full != less


def _two_variants(scope: Stack) -> Any:
    return declared(
        scope, variants=[{**_VARIANT, "modelName": "a"}, {**_VARIANT, "variantName": "B", "modelName": "b"}]
    )


def _serverless(scope: Stack) -> Any:
    serverless = {"maxConcurrency": 1, "memorySizeInMb": 4096}
    return declared(scope, variants=[{"variantName": "A", "modelName": "a", "serverlessConfig": serverless}])


def _unknown_config(scope: Stack) -> Any:
    return sagemaker.CfnEndpoint(scope, "Endpoint", endpoint_config_name="made-by-hand")


def _ours(scope: Stack) -> Any:
    return OptimizedEndpoint(scope, "Ours", model=Model.s3("s3://models/llama/"), instance_type="ml.g5.12xlarge")


def _inside_ours(scope: Stack) -> Any:
    return _ours(scope).node.find_child("Resource")


@pytest.mark.parametrize(
    ("endpoint", "options", "reason"),
    [
        (_two_variants, {}, "has the variants AllTraffic, B: set variant_name= to one of them"),
        (declared, {"variant_name": "Blue"}, "has no variant 'Blue': it has AllTraffic"),
        (_serverless, {}, "its variant is serverless"),
        (_unknown_config, {}, r'variant_name="AllTraffic", for instance, and instance_type='),
        (_ours, {}, "has its own alarms, dashboard and scaling"),
        (_inside_ours, {}, "has its own alarms, dashboard and scaling"),
        (lambda scope: None, {}, "this takes an endpoint"),
        (lambda scope: sagemaker.CfnEndpoint, {}, "this takes an endpoint"),
        (declared, {"server": "vllm"}, r"(?s)EndpointMonitoring.of.server = 'vllm'.* Server.vllm\(\)"),
        (declared, {"max_concurrent_requests": "32"}, "(?s)max_concurrent_requests = '32'.* a whole number"),
        (declared, {"max_concurrent_requests": -1}, "(?s)max_concurrent_requests = -1.* 1 or more"),
        (declared, {"max_concurrent_requests": 10**30}, "100000 or less"),
        (
            declared,
            {"id": 3, "model_name": 4, "variant_name": 5},
            r"(?s)of.id = 3.*variant_name = 5.*model_name = 4.* text",
        ),
        (declared, {"instance_type": ["ml"]}, r"(?s)instance_type = \['ml'\].* text"),
        (declared, {"artifact_store": "bucket"}, r"(?s)artifact_store = 'bucket'.* ArtifactStore.from_bucket\("),
        (declared, {"monitoring": {"runbok": "x"}}, "did you mean runbook"),
        (declared, {"instance_type": "ml.g5.12xlarg"}, "(?s)no such type for endpoints.* did you mean ml.g5.12xlarge"),
        (lambda scope: "chat", {}, r'IOptimizedEndpoint.from_endpoint_name\(stack, "Chat", \'chat\'\)'),
        (
            declared,
            {"monitoring": MonitoringOptions(observability=Observability(enhanced=True))},
            "monitoring.observability: this belongs to the endpoint's configuration",
        ),
        (
            lambda scope: declared(scope, environment={"A": "b"}),
            {"monitoring": MonitoringOptions(alarms=Alarms())},
            "saturation without a threshold",
        ),
    ],
)
def test_settings_that_cannot_be_derived_are_required(
    endpoint: Callable[[Stack], Any], options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        EndpointMonitoring.of(endpoint(stack_of()), **options)


def test_options_can_be_dictionaries_and_a_misspelled_argument_is_refused_with_the_closest() -> None:
    stack = stack_of()
    options: Any = {"runbook": "https://wiki.example.com/chat"}
    monitoring = EndpointMonitoring.of(declared(stack), monitoring=options)
    assert options["runbook"] in json.dumps(resources(stack, "AWS::CloudWatch::Alarm"))
    misspelled: Any = {"variantname": "A"}
    with pytest.raises(TypeError, match=r"EndpointMonitoring.of\(...\) has no .* \(did you mean variant_name\?\)"):
        EndpointMonitoring.of(monitoring, **misspelled)


def test_without_the_requests_of_an_instance_there_is_no_alarm_on_saturation_and_no_default_target() -> None:
    stack = stack_of()
    endpoint = declared(stack, environment={"A": "b"})
    monitoring = EndpointMonitoring.of(
        endpoint, monitoring=MonitoringOptions(alarms=Alarms(saturation=AlarmSettings(threshold=4)))
    )
    assert "saturation" in monitoring.alarms.alarms
    unknown = EndpointMonitoring.of(endpoint, id="Second")
    assert "saturation" not in unknown.alarms.alarms
    scaling = unknown.auto_scale(max_capacity=2)
    with pytest.raises(ValueError, match=r"on_concurrency\(target=8\), or .* max_concurrent_requests=32"):
        scaling.on_concurrency()
    with pytest.raises(ValueError, match=r"max_concurrent_requests=32"):
        scaling.on_queue(target=1)
    with pytest.raises(ValueError, match="it has no plan"):
        _ = unknown.plan
    evaluated = EndpointMonitoring.of(IOptimizedEndpoint.from_endpoint_name(stack, "Prod", "chat"))
    assert evaluated.served.artifact_key is None, "no model is known that the metrics are of"
    with pytest.raises(ValueError, match=r'model_name="..." and instance_type="..."'):
        evaluated.evaluate()


def test_a_component_needs_a_name_that_is_its_own() -> None:
    stack = stack_of()
    endpoint = declared(stack, variants=[_VARIANT])
    component = sagemaker.CfnInferenceComponent(stack, "Component", endpoint_name=endpoint.attr_endpoint_name)
    with pytest.raises(ValueError, match='inference_component_name="chat-llama"'):
        EndpointMonitoring.of(endpoint, inference_component=component)


def test_the_cdks_own_constructs_take_endpoints_and_components_of_this_library() -> None:
    stack = stack_of()
    ours = OptimizedEndpoint(
        stack,
        "Ours",
        model=Model.s3("s3://models/llama/"),
        instance_type="ml.g5.12xlarge",
        inference_component=True,
    )
    existing = IOptimizedEndpoint.from_endpoint_name(stack, "Prod", "chat")
    assert ours.component is not None
    assert sagemaker.CfnEndpoint.arn_for_endpoint(ours) == ours.endpoint_arn
    assert sagemaker.CfnEndpoint.arn_for_endpoint(existing) == existing.endpoint_arn
    component_arn = sagemaker.CfnInferenceComponent.arn_for_inference_component(ours.component)
    assert component_arn == ours.component.inference_component_arn
