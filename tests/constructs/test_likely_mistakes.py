"""Error messages for arguments of the wrong type, misspelled names and duplicate construct ids."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import (
    Alarms,
    ArtifactStore,
    AsyncInference,
    DataCapture,
    JobOptions,
    Model,
    ModelRecommendation,
    MonitoringOptions,
    NetworkOptions,
    OptimizationJob,
    OptimizedArtifact,
    OptimizedEndpoint,
    Pool,
    Quantization,
    RecipeError,
    ScalingStep,
    Sharding,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim.constructs.stack import arguments as kinds
from constructs_optim.recipe.rules import all_rules
from constructs_optim.recipe.settings import Settings

from ..support.construct_stacks import endpoint, llama, resource, resources, stack, template_of

# Options of the wrong type, the location of the violation, and part of its message.
WRONG: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: JobOptions(max_runtime=36000), "JobOptions.max_runtime", "Duration.seconds(36000)"),
    (lambda: JobOptions(timeout="2 hours"), "JobOptions.timeout", "Duration.seconds(600)"),
    (lambda: JobOptions(timeout=dt.timedelta(hours=2)), "JobOptions.timeout", "Duration.seconds(7200)"),
    (lambda: VariantOptions(container_startup_timeout=600), "VariantOptions.container_startup_timeout", "a Duration"),
    (lambda: VariantOptions(volume_size=512), "VariantOptions.volume_size", "Size.gibibytes(512)"),
    (lambda: VariantOptions(initial_instance_count="2"), "VariantOptions.initial_instance_count", "a whole number"),
    (lambda: NetworkOptions(vpc="vpc-123"), "NetworkOptions.vpc", "vpc_id='vpc-123'"),
    (
        lambda: NetworkOptions(security_groups=["sg-1"]),
        "NetworkOptions.security_groups.0",
        "from_security_group_id(stack, \"Group\", 'sg-1')",
    ),
    (
        lambda: NetworkOptions(security_groups="sg-1"),
        "NetworkOptions.security_groups",
        "[ec2.SecurityGroup.from_security_group_id(stack, \"Group\", 'sg-1')]",
    ),
    (
        lambda: MonitoringOptions(alarm_actions=["arn:aws:sns:us-west-2:1:t"]),
        "MonitoringOptions.alarm_actions.0",
        "'arn:aws:sns:us-west-2:1:t'",
    ),
    (lambda: MonitoringOptions(alarms=3), "MonitoringOptions.alarms", "Alarms(latency="),
    (lambda: MonitoringOptions(alarms=False), "MonitoringOptions.alarms", "Alarms.none()"),
    (lambda: UpdatePolicy.all_at_once(bake_time=600), "UpdatePolicy.bake_time", "Duration.seconds(600)"),
    (lambda: UpdatePolicy.canary(termination_wait=60), "UpdatePolicy.termination_wait", "Duration.seconds(60)"),
    (lambda: UpdatePolicy.rolling(timeout="1h"), "UpdatePolicy.timeout", "Duration.seconds(600)"),
    (lambda: UpdatePolicy.linear(rollback_alarms=["checkout"]), "UpdatePolicy.rollback_alarms.0", "from_alarm_arn"),
    (lambda: UpdatePolicy.canary(percent=10, instances=1), "UpdatePolicy", "set one of the two"),
    (
        lambda: UpdatePolicy(strategy="ALL_AT_ONCE", termination_wait=Duration.minutes(30)),
        "UpdatePolicy.termination_wait",
        "set bake_time instead",
    ),
    (lambda: ArtifactStore(stack(), "Store", encryption_key="alias/mine"), "encryption_key", "kms.Key.from_key_arn"),
    (
        lambda: (
            endpoint(stack())
            .auto_scale(max_capacity=2)
            .on_steps("Busy", metric="Load", steps=[ScalingStep(change=1, lower=9)])
        ),
        "on_steps('Busy').metric",
        "endpoint.metric(",
    ),
    (lambda: endpoint(stack()).evaluate(timeout=600), "timeout", "Duration.seconds(600)"),
    (lambda: UpdatePolicy(strategy="ALL_AT_ONCE", percent=20), "UpdatePolicy.percent", "UpdatePolicy.canary()"),
    (lambda: UpdatePolicy(strategy="ALL_AT_ONCE", instances=1), "UpdatePolicy.instances", "has no steps"),
    (
        lambda: UpdatePolicy(strategy="ROLLING", termination_wait=Duration.minutes(30)),
        "UpdatePolicy.termination_wait",
        "batch by batch",
    ),
    (lambda: UpdatePolicy(strategy="CANARY", rollback_percent=50), "UpdatePolicy.rollback_percent", "rolling()"),
    (lambda: DataCapture(bucket="captures"), "DataCapture.bucket", "'captures'"),
    (lambda: DataCapture(), "DataCapture.bucket", "bucket=..."),
    (lambda: AsyncInference(bucket="answers"), "AsyncInference.bucket", "'answers'"),
    (lambda: ArtifactStore.from_bucket("artifacts"), "bucket", "'artifacts'"),
]
# The same for arguments of an endpoint.
ARGUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"artifact_store": "artifacts"}, "artifact_store", "from_bucket_name(stack, \"Store\", 'artifacts')"),
    ({"role": "arn:aws:iam::1:role/x"}, "role", "iam.Role.from_role_arn(stack, \"Role\", 'arn:aws:iam::1:role/x')"),
    ({"encryption_key": "alias/mine"}, "encryption_key", "kms.Key.from_key_arn"),
    ({"jobs": Duration.hours(2)}, "jobs", "JobOptions(max_runtime=Duration.seconds(7200))"),
    ({"monitoring": Alarms()}, "monitoring", "MonitoringOptions(alarms=Alarms())"),
    ({"network": "vpc-123"}, "network", "NetworkOptions(vpc=ec2.Vpc.from_lookup(stack, \"Vpc\", vpc_id='vpc-123'))"),
    ({"data_capture": True}, "data_capture", "DataCapture(bucket=...)"),
    ({"async_inference": True}, "async_inference", "AsyncInference(bucket=...)"),
]


@pytest.fixture(scope="module")
def chat() -> Stack:
    """A stack that stays empty: a refused construct adds no resource."""
    return stack()


@pytest.mark.parametrize(("build", "location", "message"), WRONG, ids=[location for _, location, _ in WRONG])
def test_an_option_of_the_wrong_type_is_refused_with_the_expected_type(
    build: Callable[[], Any], location: str, message: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == ("OPT090", location)
    assert message in f"{violation.reason} {violation.suggestion}"


@pytest.mark.parametrize(("arguments", "name", "message"), ARGUMENTS, ids=[name for _, name, _ in ARGUMENTS])
def test_an_argument_of_the_wrong_type_is_refused_with_the_expected_type(
    arguments: dict[str, Any], name: str, message: str, chat: Stack
) -> None:
    with pytest.raises(RecipeError) as caught:
        endpoint(chat, **arguments)
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == ("OPT090", f"OptimizedEndpoint.{name}")
    assert message in f"{violation.reason} {violation.suggestion}"
    assert not [child for child in chat.node.children if child.node.id == "Llama70B"]


def test_type_checks_accept_constructs_of_the_cdk_and_this_library() -> None:
    scope = stack()
    bucket = s3.Bucket.from_bucket_name(scope, "Bucket", "mine")
    topic = sns.Topic.from_topic_arn(scope, "Topic", "arn:aws:sns:us-west-2:111122223333:pages")
    alarm = cloudwatch.Alarm.from_alarm_arn(scope, "Alarm", "arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine")
    key_arn = "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d"
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    accepted: dict[kinds.Kind, list[Any]] = {
        kinds.DURATION: [Duration.hours(1), None],
        kinds.SIZE: [Size.gibibytes(1)],
        kinds.STORE: [ArtifactStore(scope, "Store"), ArtifactStore.from_bucket(bucket)],
        kinds.ROLE: [role, iam.Role.from_role_arn(scope, "Imported", "arn:aws:iam::111122223333:role/x")],
        kinds.GRANTEE: [role, iam.AccountRootPrincipal(), endpoint(scope)],
        kinds.KEY: [kms.Key(scope, "Key"), kms.Key.from_key_arn(scope, "ImportedKey", key_arn)],
        kinds.BUCKET: [bucket, s3.Bucket(scope, "Mine")],
        kinds.VPC: [ec2.Vpc(scope, "Vpc")],
        kinds.SECURITY_GROUP: [ec2.SecurityGroup.from_security_group_id(scope, "Group", "sg-1")],
        kinds.ALARM_ACTION: [SnsAction(topic)],
        kinds.ALARM: [alarm],
        kinds.TOPIC: [topic],
        kinds.ALARMS: [Alarms(), Alarms.none()],
    }
    for kind, values in accepted.items():
        for value in values:
            kind.check("argument", value)


def test_a_numeric_cooldown_and_a_string_grantee_are_refused() -> None:
    created = endpoint(stack())
    scaling = created.auto_scale(max_capacity=4)
    with pytest.raises(RecipeError, match=r"on_concurrency\.scale_in_cooldown = 300\n"):
        scaling.on_concurrency(target=8, scale_in_cooldown=300)
    with pytest.raises(RecipeError, match=r"Role\.from_role_arn"):
        created.grant_invoke("arn:aws:iam::111122223333:role/chat")
    with pytest.raises(RecipeError, match="OPT090 grantee"):
        created.grant_read("chat")


def test_a_job_refuses_a_wrong_argument_type_before_adding_resources() -> None:
    scope = stack()
    with pytest.raises(RecipeError) as caught:
        OptimizationJob(
            scope, "Job", model=llama(), techniques=[], instance_type="ml.g5.12xlarge", role="mine",
        )  # fmt: skip
    assert [violation.location for violation in caught.value.violations] == ["role"]
    assert not scope.node.children


def test_the_other_constructs_refuse_arguments_of_the_wrong_type(chat: Stack) -> None:
    recipe: dict[str, Any] = {
        "model": llama(), "techniques": [Quantization.awq()], "instance_type": "ml.g5.12xlarge"
    }  # fmt: skip
    created: list[tuple[Callable[[], Any], str]] = [
        (lambda: ArtifactStore(chat, "Store", encryption_key="alias/mine"), "encryption_key"),
        (
            lambda: OptimizedArtifact(chat, "Artifact", artifact_key="a" * 64, artifact_store="artifacts", **recipe),
            "artifact_store",
        ),
        (lambda: ModelRecommendation(chat, "Best", model=Model.s3("s3://models/mine/"), role="mine"), "role"),
        (lambda: endpoint(stack()).evaluate(timeout=3600), "timeout"),
    ]
    for call, location in created:
        with pytest.raises(RecipeError) as caught:
            call()
        assert [(each.rule, each.location) for each in caught.value.violations] == [("OPT090", location)]
    with pytest.raises(TypeError, match="argument 'baselin'"):
        endpoint(stack()).evaluate(baselin=None)


def test_the_argument_type_rule_is_listed_among_all_rules() -> None:
    (found,) = [rule for rule in all_rules() if rule.id == "OPT090"]
    assert not found.advisory
    assert Settings.rule_link == found.link


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OptimizedEndpoint(stack(), "Chat", instancetype="ml.g5.12xlarge"), "argument 'instancetype'"),
        (lambda: Pool("ml.g5.12xlarge", technique=[]), "argument 'technique'"),
        (lambda: OptimizationJob(stack(), "Job", modell=llama()), "argument 'modell'"),
        (
            lambda: OptimizedEndpoint(stack(), "Chat", llama(), [Quantization.awq()], "ml.g5.12xlarge"),
            "takes 3 positional arguments but 6 were given",
        ),
        (lambda: endpoint(stack()).auto_scale(4), "takes 1 positional argument but 2 were given"),
    ],
)  # fmt: skip
def test_an_unexpected_argument_raises_a_type_error_that_names_it(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("int4", "Quantization has no 'int4' (did you mean awq?); it has awq, fp8, fp8_block, "),
        ("fp_8", "Quantization has no 'fp_8' (did you mean fp8?)"),
        ("other", "Quantization has no 'other'; it has awq, fp8, fp8_block, fp8_dynamic, w4a16, nvfp4"),
    ],
)
def test_an_unknown_technique_raises_an_error_that_lists_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(Quantization, name)
    assert str(caught.value).startswith(message)
    assert not hasattr(Quantization, "other")


def test_a_violation_shows_an_encryption_key_as_a_kms_key(chat: Stack) -> None:
    key = kms.Key.from_key_arn(stack(), "Key", "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d")
    with pytest.raises(RecipeError, match=r"OPT107 encryption_key = 'a KMS key'\n"):
        endpoint(chat, encryption_key=key)


def test_a_misspelled_scaling_option_raises_a_type_error() -> None:
    scaling = endpoint(stack()).auto_scale(max_capacity=4)
    with pytest.raises(TypeError, match=r"on_concurrency.*'scale_in_coldown' \(did you mean scale_in_cooldown"):
        scaling.on_concurrency(target=8, scale_in_coldown=Duration.minutes(1))
    with pytest.raises(TypeError, match="argument 'timezone'"):
        scaling.on_schedule("Night", schedule="rate(1 day)", max_capacity=1, timezone="UTC")


def test_a_duplicate_construct_id_raises_an_error_without_the_jsii_trace() -> None:
    scope = stack()
    endpoint(scope, "Chat")
    with pytest.raises(ValueError, match=r"^Chat already has a construct 'Chat'.*such as 'Chat2'$") as caught:
        endpoint(scope, "Chat")
    assert caught.value.__suppress_context__
    OptimizationJob(scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    with pytest.raises(ValueError, match="already has a construct 'Job'"):
        OptimizationJob(scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")


@pytest.mark.parametrize(
    ("scope", "message"), [(App(), "scope is App ''"), ("Chat", "scope is 'Chat'"), (None, "None")]
)
def test_a_scope_outside_a_stack_is_refused_with_an_example(scope: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        endpoint(scope)
    assert 'OptimizedEndpoint(Stack(app, "Chat")' in str(caught.value)
    assert caught.value.__suppress_context__


def test_two_endpoints_of_a_stack_cannot_share_a_name() -> None:
    scope = stack()
    endpoint(scope, "One", endpoint_name="chat")
    with pytest.raises(
        ValueError, match=r"endpoint_name is 'Chat', and Chat/One already has this name.*Set another for Chat/Two"
    ):
        endpoint(scope, "Two", endpoint_name="Chat")
    endpoint(scope, "Two", endpoint_name="chat-two")
    parameter = CfnParameter(scope, "Name").value_as_string
    endpoint(scope, "Three", endpoint_name=parameter)
    endpoint(scope, "Four", endpoint_name=parameter)
    assert len(resources(template_of(scope), "AWS::SageMaker::Endpoint")) == 4


def test_the_name_of_a_removed_endpoint_can_be_reused() -> None:
    scope = stack()
    endpoint(scope, "One", endpoint_name="chat")
    scope.node.try_remove_child("One")
    endpoint(scope, "Two", endpoint_name="chat")
    (created,) = resources(template_of(scope), "AWS::SageMaker::Endpoint")
    assert created["EndpointName"] == "chat"


def test_a_missing_model_or_invalid_pools_are_refused_with_an_example(chat: Stack) -> None:
    with pytest.raises(
        ValueError, match=r"environment and techniques cannot be set without a model: set model=Model\.jumpstart"
    ):
        endpoint(chat, model=None, environment={"A": "b"})
    with pytest.raises(ValueError, match="artifact_key cannot be set without a model"):
        OptimizedEndpoint(chat, "NoModel", instance_pools=[Pool("ml.g5.12xlarge", artifact_key="0" * 64)])
    with pytest.raises(ValueError, match=r"instance_type=\"ml\.g5\.12xlarge\""):
        endpoint(chat, instance_type=None)
    for pools in (Pool("ml.g5.12xlarge", [Quantization.awq()]), "ml.g5.12xlarge", ["ml.g5.12xlarge"]):
        with pytest.raises(ValueError, match=r"takes a list of Pools: instance_pools=\[Pool"):
            OptimizedEndpoint(chat, "Pooled", model=llama(), instance_pools=pools)


def test_mistakes_in_options_and_in_the_recipe_are_reported_together(chat: Stack) -> None:
    wrong: Any = {
        "encryption_key": "a-key",
        "role": "a-role",
        "removal_policy": "retain",
        "instance_type": "ml.g5.12xlage",
    }
    with pytest.raises(RecipeError) as refused:
        endpoint(chat, **wrong)
    found = [(violation.rule, violation.location) for violation in refused.value.violations]
    assert found == [
        ("OPT090", "OptimizedEndpoint.encryption_key"),
        ("OPT090", "OptimizedEndpoint.role"),
        ("OPT090", "OptimizedEndpoint.removal_policy"),
        ("OPT010", "instance_type"),
    ]
    assert chat.node.children == []


@pytest.mark.parametrize(
    ("mistake", "location", "fix"),
    [
        (lambda it: it.evaluate(workload="chat"), "evaluate.workload", "Workload("),
        (
            lambda it: it.auto_scale(max_capacity=2).on_metric("A", metric="b", target=1),
            "on_metric('A').metric",
            "endpoint.metric('gpu_utilization')",
        ),
        (
            lambda it: it.auto_scale(max_capacity=2).on_steps("A", metric=it.metric("gpu_utilization"), steps=None),
            "on_steps('A').steps",
            "1 to",
        ),
    ],
    ids=["workload", "metric", "steps"],
)
def test_a_method_refuses_arguments_of_another_kind(mistake: Any, location: str, fix: str) -> None:
    with pytest.raises(RecipeError) as refused:
        mistake(endpoint(stack()))
    (violation,) = refused.value.violations
    assert violation.location == location
    assert fix in violation.suggestion


def test_a_second_evaluation_or_component_of_an_id_is_refused_with_another_id() -> None:
    scope = stack()
    created = endpoint(scope)
    created.evaluate()
    with pytest.raises(ValueError, match=r"already has a construct 'Evaluation'.*'Evaluation2'"):
        created.evaluate()
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.12xlarge")
    with pytest.raises(ValueError, match="Shared already has a construct 'Config'"):
        shared.add_component("Config", model=llama(), techniques=[Quantization.awq()])
    wrong: Any = {"memory": "4"}
    with pytest.raises(RecipeError, match="a Size"):
        shared.add_component("Chat", model=llama(), techniques=[Quantization.awq()], **wrong)


def test_isolation_is_refused_with_a_container_that_reads_s3(chat: Stack) -> None:
    isolated = NetworkOptions(isolation=True)
    with pytest.raises(ValueError, match=r"the container of Sharding\.fast_load\(\) reads S3"):
        endpoint(chat, techniques=[Quantization.awq(), Sharding.fast_load()], network=isolated)
    assert chat.node.children == []


@pytest.mark.parametrize(
    ("build", "location", "kind"),
    [
        (
            lambda: VariantOptions(container_startup_timeout=Duration.millis(1500)),
            "VariantOptions.container_",
            "seconds",
        ),
        (lambda: VariantOptions(volume_size=Size.mebibytes(1500)), "VariantOptions.volume_size", "gibibytes"),
        (lambda: JobOptions(max_runtime=Duration.millis(1500)), "JobOptions.max_runtime", "seconds"),
        (lambda: JobOptions(timeout=Duration.millis(1500)), "JobOptions.timeout", "seconds"),
        (lambda: endpoint(stack()).evaluate(timeout=Duration.millis(1500)), "timeout", "seconds"),
    ],
    ids=["timeout", "volume", "runtime", "wait", "evaluation"],
)
def test_durations_and_sizes_are_whole(build: Callable[[], Any], location: str, kind: str) -> None:
    with pytest.raises(RecipeError, match=f"a (Duration|Size) of whole {kind}") as refused:
        build()
    (violation,) = refused.value.violations
    assert violation.location.startswith(location)


def test_files_are_written_where_the_role_may_write(chat: Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(chat, "Files", "files")
    for options in (DataCapture, AsyncInference):
        with pytest.raises(RecipeError, match="the prefix is empty, and permissions need a prefix"):
            options(bucket=bucket, prefix="/")
        assert options(bucket=bucket, prefix="/a/b/").prefix == "a/b"
    with pytest.raises(RecipeError, match=r"DataCapture\.json_content_types"):
        DataCapture(bucket=bucket, json_content_types=[])
    with pytest.raises(RecipeError, match=r"NetworkOptions\.security_groups"):
        NetworkOptions(security_groups=[])
    chat.node.try_remove_child("Files")


def test_a_capacity_token_is_omitted_from_the_dashboard_annotations() -> None:
    scope = stack()
    most = CfnParameter(scope, "Most", type="Number").value_as_number
    endpoint(scope).auto_scale(max_capacity=most).on_concurrency(target=8)
    template = template_of(scope)
    body, _ = resource(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Sub"]
    assert '"scaling minimum"' in body, "text, and the limit that is known"
    assert '"scaling maximum"' not in body
    assert resource(template, "AWS::ApplicationAutoScaling::ScalableTarget")["MaxCapacity"] == {"Ref": "Most"}


def test_a_duration_that_is_refused_is_shown_in_seconds() -> None:
    with pytest.raises(RecipeError, match="termination_wait = '1800 s'\n"):
        UpdatePolicy(strategy="ALL_AT_ONCE", termination_wait=Duration.minutes(30))
