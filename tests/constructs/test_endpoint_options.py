"""Every prop of an endpoint, alone and in pairs, gives resources that CloudFormation and the API accept, or a violation
with a rule id.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from aws_cdk import RemovalPolicy, Size, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Annotations, Match
from cfnlint.api import lint

from constructs_optim import (
    AsyncInference,
    CoreDumps,
    DataCapture,
    MonitoringOptions,
    NetworkOptions,
    Observability,
    OptimizedEndpoint,
    RecipeError,
    Routing,
    Server,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim_local.api.error import ApiError
from constructs_optim_local.api.model import ApiModel

from ..support.construct_stacks import endpoint, resource, resources, stack, template_of
from ..support.endpoint_options import GROUPS, KEY, ON, Props, alarm, bucket, grouped

_IN_A_STACK = 30


# Required props, and props that are valid only together with others.
_ALWAYS_OR_WITH_OTHERS = {
    "scope", "id", "model", "techniques", "instance_type", "objectives", "artifact_key", "artifact_store",
    "network.vpc_subnets", "network.security_groups", "variant.accelerator_partitions",
}  # fmt: skip
_TYPES = {
    "AWS::SageMaker::EndpointConfig": "CreateEndpointConfig",
    "AWS::SageMaker::Endpoint": "CreateEndpoint",
    "AWS::SageMaker::InferenceComponent": "CreateInferenceComponent",
    "AWS::SageMaker::Model": "CreateModel",
}


def _switched_on(combinations: list[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The result of each combination of props: the rules that refuse it, or its SageMaker resources."""
    for start in range(0, len(combinations), _IN_A_STACK):
        scope = stack()
        props_by_name = {name: make(scope) for name, make in ON.items()}
        declared: dict[str, tuple[str, ...]] = {}
        for number, names in enumerate(combinations[start : start + _IN_A_STACK]):
            case = f"Case{start + number}x"
            try:
                props = {key: value for name in names for key, value in props_by_name[name].items()}
                if "instance_pools" in props:
                    # Each pool has its own.
                    props["techniques"] = None
                if "endpoint_name" in props:
                    props["endpoint_name"] = props["endpoint_name"].format(number)
                endpoint(scope, case, **grouped(props))
                declared[case] = names
            except RecipeError as error:
                yield names, [violation.rule for violation in error.violations]
        found = template_of(scope)["Resources"]
        for case, names in declared.items():
            yield names, {n: r for n, r in found.items() if n.startswith(case) and r["Type"] in _TYPES}


def _literal(value: Any, key: str = "") -> Any:
    """Properties with literal values instead of intrinsic functions."""
    if isinstance(value, dict):
        if set(value) & {"Ref", "Fn::GetAtt", "Fn::Select", "Fn::Join", "Fn::Sub"}:
            text = json.dumps(value)
            if "Timeout" in key:
                return 1200
            if "Arn" in key or "Role" in text:
                return "arn:aws:iam::111122223333:role/execution"
            if key == "Image":
                return "111122223333.dkr.ecr.us-west-2.amazonaws.com/djl-inference:1"
            if key.endswith(("Uri", "Path")):
                return "s3://artifacts-of-mine/artifacts/"
            return "name-of-it" if key not in ("SecurityGroupIds",) else "sg-11111111"
        return {name: _literal(item, name) for name, item in value.items()}
    return [_literal(item, key) for item in value] if isinstance(value, list) else value


@functools.cache
def _api() -> ApiModel:
    return ApiModel("sagemaker")


def _refused_by_the_api(resources: dict[str, Any]) -> list[str]:
    model = _api()
    problems: list[str] = []
    for found in resources.values():
        operation = _TYPES[found["Type"]]
        request = _literal(found["Properties"])
        names = {f"{found['Type'].rpartition('::')[2]}Name": "name-of-it"}
        # Deployments are configured when an endpoint is updated; a component's creation knows none.
        members = model.members(operation)
        body = {**names, **request}
        later = {name: body.pop(name) for name in set(body) - members}
        try:
            model.check(operation, model.typed(operation, body))
            if later:
                update = operation.replace("Create", "Update")
                model.check(update, model.typed(update, {**names, **_required(update), **later}))
        except ApiError as error:
            problems.append(f"{found['Type']}: {error}")
    return problems


def _required(operation: str) -> Props:
    return {"EndpointConfigName": "name-of-it"} if operation == "UpdateEndpoint" else {}


def _content(one: dict[str, Any]) -> str:
    """A resource's type and literal properties."""
    return json.dumps([one["Type"], _literal(one["Properties"])], sort_keys=True)


def _refused_by_cfn_lint(found: Iterable[dict[str, Any]]) -> list[str]:
    """cfn-lint's errors for all resources, checked in templates of at most 400."""
    items = [
        (f"Case{number}", {"Type": one["Type"], "Properties": _literal(one["Properties"])})
        for number, one in enumerate(found)
    ]
    problems: list[str] = []
    for start in range(0, len(items), 400):
        template = json.dumps({"Resources": dict(items[start : start + 400])})
        problems += [str(match) for match in lint(template, regions=["us-west-2"]) if match.rule.severity == "error"]
    return problems


def test_the_option_table_covers_every_endpoint_prop() -> None:
    props = set(OptimizedEndpoint.__init__.__annotations__) - {"return"}
    fields = {f"{group}.{name}" for group, options in GROUPS.items() for name in options.model_fields}
    assert (props - set(GROUPS)) | fields == set(ON) | _ALWAYS_OR_WITH_OTHERS
    assert len(props - {"scope", "id"}) <= 21


@pytest.mark.exhaustive
def test_every_prop_alone_and_in_pairs_is_deployable_or_breaks_a_rule() -> None:
    combinations: list[tuple[str, ...]] = [*((name,) for name in ON), *itertools.combinations(ON, 2)]
    refused: dict[tuple[str, ...], list[str]] = {}
    # Most combinations change one resource of several: each new one is checked once.
    deployable: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for names, found in _switched_on(combinations):
        if isinstance(found, list):
            refused[names] = found
            continue
        assert any(one["Type"] == "AWS::SageMaker::Endpoint" for one in found.values()), names
        new = {name: one for name, one in found.items() if _content(one) not in deployable}
        problems += [f"{' + '.join(names)}: {problem}" for problem in _refused_by_the_api(new)]
        deployable |= {_content(one): one for one in new.values()}
    problems += _refused_by_cfn_lint(deployable.values())
    assert problems == []
    assert all(re.fullmatch(r"OPT\d{3}", rule) for rules in refused.values() for rule in rules)
    assert [names for names in refused if len(names) == 1] == [
        ("encryption_key",),
        ("variant.max_instance_count",),
        ("variant.min_instance_count",),
        ("variant.scale_in",),
        ("variant.volume_size",),
    ]
    assert refused["async_inference", "inference_component"] == ["OPT105"]
    assert refused["variant.capacity_reservation", "instance_pools"] == ["OPT109"]


def test_the_api_and_cfn_lint_checks_detect_an_invalid_resource() -> None:
    broken = {"Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [{}]}}}
    assert "VariantName" in _refused_by_the_api(broken)[0]
    assert "VariantName" in _refused_by_cfn_lint(broken.values())[0]


def test_data_capture_lets_the_execution_role_write_below_its_prefix_only() -> None:
    scope = stack()
    endpoint(scope, data_capture=DataCapture(bucket=bucket(scope), prefix="chat", requests=False))
    template = template_of(scope)
    capture = resource(template, "AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    assert capture["CaptureOptions"] == [{"CaptureMode": "Output"}]
    assert capture["DestinationS3Uri"] == "s3://bucket-of-mine/chat"
    (statement,) = [s for s in _statements(template) if s.get("Sid") == "WriteCaptures"]
    assert statement["Action"] == ["s3:PutObject"]
    assert json.dumps(statement["Resource"]).endswith(':s3:::bucket-of-mine/chat/*"]]}')


@pytest.mark.parametrize(
    ("captured", "modes"),
    [({}, ["Input", "Output"]), ({"requests": False}, ["Output"]), ({"responses": False}, ["Input"])],
)
def test_data_capture_has_requests_and_responses_unless_they_are_left_out(
    captured: dict[str, bool], modes: list[str]
) -> None:
    options = DataCapture(bucket=bucket(stack()), **captured).to_property()["captureOptions"]
    assert options == [{"captureMode": mode} for mode in modes]


def test_core_dumps_are_written_below_their_prefix_with_their_key() -> None:
    scope = stack()
    key = kms.Key.from_key_arn(scope, "Key", KEY)
    dumps = CoreDumps(bucket=bucket(scope), prefix="crashes/", encryption_key=key)
    endpoint(scope, variant=VariantOptions(core_dumps=dumps))
    template = template_of(scope)
    (variant,) = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["CoreDumpConfig"] == {"DestinationS3Uri": "s3://bucket-of-mine/crashes", "KmsKeyId": KEY}
    found = {s["Sid"]: s for s in _statements(template) if s.get("Sid", "").endswith("CoreDumps")}
    assert found["WriteCoreDumps"]["Action"] == ["s3:AbortMultipartUpload", "s3:PutObject"]
    assert json.dumps(found["WriteCoreDumps"]["Resource"]).endswith(':s3:::bucket-of-mine/crashes/*"]]}')
    assert found["EncryptCoreDumps"]["Resource"] == KEY


def test_core_dumps_have_a_uri_that_sagemaker_takes() -> None:
    mine = bucket(stack())
    CoreDumps(bucket=mine, prefix="a" * 492)
    with pytest.raises(RecipeError, match=r"OPT128 CoreDumps") as caught:
        CoreDumps(bucket=mine, prefix="a" * 493)
    (violation,) = caught.value.violations
    assert violation.link.endswith("/API_ProductionVariantCoreDumpConfig.html")
    assert violation.suggestion == "use a shorter prefix"


def test_sessions_need_a_container_that_is_not_isolated() -> None:
    scope, sessions = stack(), VariantOptions(ssm_access=True)
    with pytest.raises(RecipeError, match="OPT116"):
        endpoint(scope, variant=sessions)
    endpoint(scope, variant=sessions, network=NetworkOptions(isolation=False))
    template = template_of(scope)
    assert resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]["EnableSSMAccess"] is True
    (statement,) = [s for s in _statements(template) if s.get("Sid") == "OpenSessions"]
    assert "ssmmessages:OpenDataChannel" in statement["Action"]


@pytest.mark.parametrize(
    ("given", "written"), [({}, {}), ({"detailed": False}, {"EnableDetailedObservability": False})]
)
def test_detailed_metrics_are_left_to_the_service_unless_they_are_set(
    given: dict[str, Any], written: dict[str, Any]
) -> None:
    scope = stack()
    endpoint(scope, monitoring=MonitoringOptions(observability=Observability(frequency_seconds=10, **given)))
    assert resource(template_of(scope), "AWS::SageMaker::EndpointConfig")["MetricsConfig"] == {
        "EnableEnhancedMetrics": False,
        "MetricPublishFrequencyInSeconds": 10,
        **written,
    }


def test_statements_attached_to_an_existing_role_have_unique_sids() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    endpoint(
        scope,
        role=role,
        update_policy=UpdatePolicy.all_at_once(rollback_alarms=[alarm(scope)]),
        data_capture=DataCapture(bucket=bucket(scope)),
    )
    policies = resources(template_of(scope), "AWS::IAM::Policy")
    ids = [[statement["Sid"] for statement in policy["PolicyDocument"]["Statement"]] for policy in policies]
    shared, apart = sorted(ids, key=len, reverse=True)
    assert apart == ["WatchAlarms"]
    assert "WriteCaptures" in shared
    assert len(shared) == len(set(shared))


def test_data_capture_of_neither_requests_nor_responses_is_refused() -> None:
    with pytest.raises(ValueError, match="captures nothing"):
        DataCapture(bucket=bucket(stack()), requests=False, responses=False)


def test_an_asynchronous_endpoint_scales_to_zero_and_alarms_on_its_backlog() -> None:
    scope = stack()
    endpoint(scope, async_inference=AsyncInference(bucket=bucket(scope))).auto_scale(min_capacity=0, max_capacity=2)
    template = template_of(scope)
    assert resource(template, "AWS::ApplicationAutoScaling::ScalableTarget")["MinCapacity"] == 0
    alarms = resources(template, "AWS::CloudWatch::Alarm")
    series = [q["MetricStat"]["Metric"] for alarm in alarms for q in alarm.get("Metrics", []) if "MetricStat" in q]
    watched = {each["MetricName"] for each in [*series, *alarms] if "MetricName" in each}
    errors = {"InvocationFailures", "Invocation4XXErrors", "Invocation5XXErrors", "ExpiredRequests", "ModelLatency"}
    assert watched == {*errors, "HasBacklogWithoutCapacity", "JobFailed"}


def test_ebs_volumes_use_the_custom_kms_key_and_configured_size() -> None:
    scope = stack()
    endpoint(
        scope,
        model=_neuron_model(),
        techniques=[_neuron()],
        instance_type="ml.inf2.48xlarge",
        encryption_key=kms.Key.from_key_arn(scope, "Key", KEY),
        variant=VariantOptions(volume_size=Size.gibibytes(256)),
    )
    config = resource(template_of(scope), "AWS::SageMaker::EndpointConfig")
    assert config["KmsKeyId"] == KEY
    assert config["ProductionVariants"][0]["VolumeSizeInGB"] == 256


def test_a_configuration_with_kv_aware_routing_is_made_by_a_handler_that_may_do_no_more_than_that() -> None:
    scope = stack()
    endpoint(
        scope,
        model=_neuron_model(),
        techniques=[_neuron()],
        instance_type="ml.inf2.48xlarge",
        encryption_key=kms.Key.from_key_arn(scope, "Key", KEY),
        variant=VariantOptions(routing=Routing.kv_aware(), volume_size=Size.gibibytes(256)),
    )
    template = template_of(scope)
    assert resources(template, "AWS::SageMaker::EndpointConfig") == []
    config = resource(template, "Custom::OptimizedEndpointConfig")
    assert config["ProductionVariants"][0]["RoutingConfig"] == {"RoutingStrategy": "KV_AWARE"}
    assert (config["KmsKeyId"], config["ProductionVariants"][0]["VolumeSizeInGB"]) == (KEY, 256)
    (name,) = [n for n, r in template["Resources"].items() if r["Type"] == "Custom::OptimizedEndpointConfig"]
    served = resource(template, "AWS::SageMaker::Endpoint")["EndpointConfigName"]
    assert served == {"Fn::GetAtt": [name, "EndpointConfigName"]}
    (role,) = [r for n, r in template["Resources"].items() if "EndpointConfigsRole" in n]
    allowed = [
        (statement["Sid"], statement["Resource"])
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    assert {sid for sid, _ in allowed} == {"WriteLogs", "Trace", "ManageEndpointConfigs"}


def test_tags_of_the_stack_are_those_of_a_configuration_made_by_a_handler() -> None:
    scope = stack()
    endpoint(scope, variant=VariantOptions(routing=Routing.kv_aware()))
    Tags.of(scope).add("team", "chat")
    assert {"Key": "team", "Value": "chat"} in resource(template_of(scope), "Custom::OptimizedEndpointConfig")["Tags"]


def test_a_retained_endpoint_keeps_its_configuration_and_its_model() -> None:
    scope = stack()
    endpoint(scope, removal_policy=RemovalPolicy.RETAIN)
    kept = {
        r["Type"] for r in template_of(scope)["Resources"].values() if r.get("DeletionPolicy") == "Retain"
    }  # fmt: skip
    assert {"AWS::SageMaker::Endpoint", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"} <= kept


def test_properties_without_a_prop_can_be_set_through_escape_hatches() -> None:
    scope = stack()
    created = endpoint(scope)
    resource_of: Any = created.node.default_child
    resource_of.add_property_override("RetainDeploymentConfig", True)
    config: Any = created.node.find_child("Config")
    config.add_property_override("ProductionVariants.0.EnableSSMAccess", True)
    template = template_of(scope)
    assert resource(template, "AWS::SageMaker::Endpoint")["RetainDeploymentConfig"] is True
    assert resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]["EnableSSMAccess"] is True


def test_recipe_and_hosting_violations_are_reported_together() -> None:
    with pytest.raises(RecipeError) as caught:
        endpoint(
            stack(),
            instance_type="ml.g5.12xlage",
            variant=VariantOptions(initial_instance_count=0),
            endpoint_name="a b",
        )
    assert [violation.rule for violation in caught.value.violations] == ["OPT010", "OPT100", "OPT101"]


def test_a_refused_endpoint_adds_no_construct_to_the_stack() -> None:
    scope = stack()
    with pytest.raises(RecipeError):
        endpoint(scope, variant=VariantOptions(initial_instance_count=0))
    assert scope.node.try_find_child("Llama70B") is None


def _neuron() -> Any:
    from constructs_optim import Compilation

    return Compilation.neuron()


def _neuron_model() -> Any:
    from constructs_optim import Model

    return Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)


def _statements(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for role in resources(template, "AWS::IAM::Role")
        for policy in role.get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def test_kv_aware_routing_to_lmi_gives_a_warning() -> None:
    scope = stack()
    routed = VariantOptions(routing=Routing.kv_aware())
    endpoint(scope, "Vllm", variant=routed, server=Server.vllm())
    Annotations.from_stack(scope).has_no_warning("*", Match.string_like_regexp("OPT118"))
    endpoint(scope, "Lmi", variant=routed, server=Server.lmi())
    Annotations.from_stack(scope).has_warning("/Chat/Lmi", Match.string_like_regexp("OPT118"))
