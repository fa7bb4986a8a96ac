"""The permissions of SageMaker's roles, their assignment, and IAM's limits on policy size."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from typing import Any

import pytest
from aws_cdk import App, CfnCondition, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match

from constructs_optim import (
    AsyncInference,
    DataCapture,
    FineTune,
    JobOptions,
    Model,
    ModelRecommendation,
    OptimizationJob,
    OptimizedEndpoint,
    Quantization,
    UpdatePolicy,
    Workload,
)
from constructs_optim.constructs.artifacts import roles
from constructs_optim.constructs.stack.permissions import (
    NO_RESOURCES,
    ServiceRole,
    Statement,
    characters_of,
    document,
    give_reasons,
    statements_of,
)
from constructs_optim.constructs.validation.template_size import written_template

from ..support.construct_stacks import STACKS, endpoint, llama, resource, resources, stack, template_of
from .conftest import Synthesized
from .policy_evaluation import resolved

_INLINE, _MANAGED = 10_240, 6_144
# Names that CloudFormation generates for logical ids, at their maximum length.
_LONG = "arn:aws:s3:::" + "a" * 63


def _role(template: dict[str, Any], part: str) -> dict[str, Any]:
    (found,) = [
        r["Properties"] for name, r in template["Resources"].items() if r["Type"] == "AWS::IAM::Role" and part in name
    ]
    return found


def _statements(template: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """All statements of a role that the stack declares, inline and managed."""
    role = _role(template, part)
    documents = [policy["PolicyDocument"] for policy in role.get("Policies", ())]
    managed = [template["Resources"][arn["Ref"]] for arn in role.get("ManagedPolicyArns", ())]
    documents += [policy["Properties"]["PolicyDocument"] for policy in managed]
    return [statement for document in documents for statement in document["Statement"]]


def _allowed(statements: list[dict[str, Any]]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for statement in statements:
        arns = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        found |= {(action, json.dumps(arn)) for action in statement["Action"] for arn in arns}
    return found


def _writes(template: dict[str, Any], part: str) -> list[str]:
    """The keys that a role may write."""
    texts = [arn for action, arn in _allowed(_statements(template, part)) if action == "s3:PutObject"]
    keys = re.compile(r'(artifacts|checkpoints|captures|async|async-failures)/[^"]*')
    return sorted(found[0] for text in texts if (found := keys.search(text)))


def _characters(document: dict[str, Any], template: dict[str, Any]) -> int:
    """The size that IAM counts: without white space, with resolved names."""
    names = dict.fromkeys(template["Resources"], _LONG) | {"AWS::AccountId": "111122223333"}
    return len(re.sub(r"\s", "", json.dumps(resolved(document, "111122223333", names))))


def _large(scope: Stack, endpoints: int, **options: Any) -> None:
    for number in range(endpoints):
        uri = f"s3://models-of-the-whole-company/large-language-models/instruct/version-{number:04}/"
        endpoint(scope, f"Endpoint{number}", model=Model.s3(uri), **options)


def test_the_execution_role_of_an_endpoint_may_not_write_by_default() -> None:
    scope = stack()
    endpoint(scope)
    assert _writes(template_of(scope), "ExecutionRole") == []


def test_the_execution_role_writes_captures_and_async_outputs_below_their_prefixes() -> None:
    scope = stack()
    bucket = s3.Bucket.from_bucket_name(scope, "Bucket", "of-mine")
    endpoint(scope, data_capture=DataCapture(bucket=bucket))
    endpoint(scope, "Queued", async_inference=AsyncInference(bucket=bucket))
    assert _writes(template_of(scope), "ExecutionRole") == ["async-failures/*", "async/*", "captures/*"]


def test_the_job_role_writes_model_outputs_but_not_manifests_or_claims() -> None:
    scope = stack()
    endpoint(scope)
    assert _writes(template_of(scope), "JobRole") == ["artifacts/*/model/*"]


def test_the_role_of_training_jobs_also_writes_tensorboard_logs_and_checkpoints() -> None:
    scope = stack()
    endpoint(
        scope, model=Model.s3("s3://models/mistral/7b"), techniques=[FineTune(training_data="s3://prompts/sql/train")]
    )
    written = _writes(template_of(scope), "JobRole")
    assert written == ["artifacts/*/model/*", "artifacts/*/tensorboard/*", "checkpoints/*"]


def test_models_and_jobs_have_different_roles_by_default() -> None:
    scope = stack()
    endpoint(scope)
    template = template_of(scope)
    served = resource(template, "AWS::SageMaker::Model")["ExecutionRoleArn"]["Fn::GetAtt"][0]
    created = resource(template, "Custom::OptimizationJob")["RoleArn"]["Fn::GetAtt"][0]
    assert "ExecutionRole" in served
    assert "JobRole" in created


def test_a_stack_with_only_a_job_has_no_execution_role() -> None:
    scope = stack()
    OptimizationJob(scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    assert [name for name in template_of(scope)["Resources"] if "ExecutionRole" in name] == []


def test_an_explicit_role_serves_models_and_jobs_without_a_job_role() -> None:
    scope = stack()
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    both, jobs = (iam.Role(scope, name, assumed_by=sagemaker) for name in ("Both", "Jobs"))
    endpoint(scope, "One", role=both)
    endpoint(scope, "Two", role=both, jobs=JobOptions(role=jobs))
    template = template_of(scope)
    of_jobs = [r["RoleArn"]["Fn::GetAtt"][0][:4] for r in resources(template, "Custom::OptimizationJob")]
    of_models = [r["ExecutionRoleArn"]["Fn::GetAtt"][0][:4] for r in resources(template, "AWS::SageMaker::Model")]
    assert of_jobs == ["Both", "Jobs"]
    assert of_models == ["Both", "Both"]
    attached = {policy["Roles"][0]["Ref"][:4]: policy for policy in resources(template, "AWS::IAM::Policy")}
    assert "s3:PutObject" in json.dumps(attached["Jobs"])
    assert "cloudwatch:DescribeAlarms" not in json.dumps(attached["Jobs"])


def test_models_and_jobs_depend_on_the_policies_of_their_existing_roles() -> None:
    scope = stack()
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    both, jobs = (iam.Role(scope, name, assumed_by=sagemaker) for name in ("Both", "Jobs"))
    endpoint(scope, role=both, jobs=JobOptions(role=jobs))
    template = template_of(scope)
    policies = {
        r["Properties"]["Roles"][0]["Ref"][:4]: name
        for name, r in template["Resources"].items()
        if r["Type"] == "AWS::IAM::Policy"
    }
    (model,) = [r for r in template["Resources"].values() if r["Type"] == "AWS::SageMaker::Model"]
    (job,) = [r for r in template["Resources"].values() if r["Type"] == "Custom::OptimizationJob"]
    assert policies["Both"] in model["DependsOn"]
    assert policies["Jobs"] in job["DependsOn"]


def test_a_stack_with_one_endpoint_has_no_managed_policies() -> None:
    scope = stack()
    endpoint(scope)
    assert resources(template_of(scope), "AWS::IAM::ManagedPolicy") == []


# As many as the 500 resources of a stack allow.
MOST_ENDPOINTS = 39


@pytest.fixture(scope="module")
def full_stack() -> dict[str, Any]:
    scope = stack("PlatformTeamProduction")
    _large(scope, MOST_ENDPOINTS)
    return template_of(scope)


def test_the_endpoints_of_a_full_stack_stay_within_the_iam_policy_size_limits(full_stack: dict[str, Any]) -> None:
    template = full_stack
    assert len(template["Resources"]) <= 500
    for role in resources(template, "AWS::IAM::Role"):
        assert sum(_characters(policy["PolicyDocument"], template) for policy in role["Policies"]) <= _INLINE
        assert len(role.get("ManagedPolicyArns", ())) <= 10
    managed = resources(template, "AWS::IAM::ManagedPolicy")
    assert managed != []
    assert all(_characters(policy["PolicyDocument"], template) <= _MANAGED for policy in managed)


def test_splitting_the_policies_of_a_full_stack_loses_no_permission(full_stack: dict[str, Any]) -> None:
    template = full_stack
    jobs, serving = (_allowed(_statements(template, part)) for part in ("JobRole", "ExecutionRole"))
    for number in range(MOST_ENDPOINTS):
        read = [arn for action, arn in jobs if action == "s3:GetObject" and f"version-{number:04}/*" in arn]
        assert len(read) == 1
    assert len({arn for action, arn in serving if action == "cloudwatch:DescribeAlarms"}) == 2 * MOST_ENDPOINTS
    listings = [s for s in _statements(template, "JobRole") if s["Sid"].startswith("ListSource")]
    assert sum(len(listing["Condition"]["StringLike"]["s3:prefix"]) for listing in listings) == MOST_ENDPOINTS


def test_exceeding_the_policy_size_limit_of_an_existing_role_is_an_error() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    _large(scope, MOST_ENDPOINTS, role=role)
    expected = r"a policy of about \d+ characters on Chat/Role, and IAM allows 10240 .*leave role=.* out"
    Annotations.from_stack(scope).has_error("*", Match.string_like_regexp(expected))


def test_endpoints_that_share_an_existing_role_share_a_policy() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    for number in range(6):
        endpoint(scope, f"Endpoint{number}", role=role)
    template = template_of(scope)
    policy = resource(template, "AWS::IAM::Policy")
    assert _characters(policy["PolicyDocument"], template) <= _INLINE
    ids = [statement["Sid"] for statement in policy["PolicyDocument"]["Statement"]]
    assert len(ids) == len(set(ids))


def test_stacks_that_share_an_existing_role_attach_differently_named_policies() -> None:
    app = App()
    role = iam.Role(Stack(app, "Base"), "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    teams = [Stack(app, team) for team in ("TeamA", "TeamB")]
    for scope in teams:
        endpoint(scope, role=role)
    for scope in teams:
        (policy,) = resources(template_of(scope), "AWS::IAM::Policy")
        # The last part of a stack's id is a UUID.
        number = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
        assert policy["PolicyName"]["Fn::Join"][1][1:] == [number]


def test_a_role_returned_twice_by_a_construct_gets_one_policy() -> None:
    scope = stack()
    function = lambda_.Function(
        scope,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        role=_trusting(scope, "lambda.amazonaws.com", "sagemaker.amazonaws.com"),
    )
    for name in ("One", "Two"):
        assert function.role is not None
        endpoint(scope, name, role=function.role)
    assert len(resources(template_of(scope), "AWS::IAM::Policy")) == 1


@pytest.mark.parametrize("is_existing", [True, False])
def test_an_alarm_on_another_endpoint_with_the_same_role_may_trigger_rollback(is_existing: bool) -> None:
    scope = stack()
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    options = {"role": iam.Role(scope, "Role", assumed_by=sagemaker)} if is_existing else {}
    first = endpoint(scope, "First", **options)
    alarm = cloudwatch.Alarm(scope, "Slow", metric=first.metric_model_latency(), threshold=1, evaluation_periods=1)
    endpoint(scope, "Second", update_policy=UpdatePolicy.all_at_once(rollback_alarms=[alarm]), **options)
    # Template refuses a template whose resources wait for each other.
    template = template_of(scope)
    (watching,) = [
        name
        for name, found in template["Resources"].items()
        if found["Type"] == "AWS::IAM::Policy" and "WatchAlarms" in name
    ]
    (second,) = [
        found
        for name, found in template["Resources"].items()
        if found["Type"] == "AWS::SageMaker::Endpoint" and name.startswith("Second")
    ]
    assert watching in second["DependsOn"]


def test_a_composite_rollback_alarm_is_seen_by_those_who_may_see_all_alarms() -> None:
    scope = stack()
    errors = cloudwatch.Metric(namespace="Tests", metric_name="Errors")
    metric = cloudwatch.Alarm(scope, "Errors", metric=errors, threshold=1, evaluation_periods=1)
    rule = cloudwatch.AlarmRule.from_alarm(metric, cloudwatch.AlarmState.ALARM)
    composite = cloudwatch.CompositeAlarm(scope, "All", alarm_rule=rule)
    for name, alarm in (("First", metric), ("Second", composite)):
        endpoint(scope, name, update_policy=UpdatePolicy.all_at_once(rollback_alarms=[alarm]))
    template = template_of(scope)
    policies = {
        name: found["Properties"]["PolicyDocument"]["Statement"]
        for name, found in template["Resources"].items()
        if found["Type"] == "AWS::IAM::Policy" and "WatchAlarms" in name
    }
    seen = {name[:5]: [each["Resource"] for each in statements] for name, statements in policies.items()}
    assert len(seen["First"]) == 1
    assert seen["Secon"][1:] == ["*"]
    handler = {each["Sid"]: each["Resource"] for each in _statements(template, "Serving")}
    assert handler["SeeCompositeAlarms"] == "*"
    assert "*" not in handler["SeeAlarms"]


def test_rollback_alarms_beyond_the_role_policy_limit_are_refused() -> None:
    scope = stack()
    alarms = [
        cloudwatch.Alarm.from_alarm_arn(
            scope, f"Alarm{number}", f"arn:aws:cloudwatch:us-west-2:111122223333:alarm:{'slow' * 40}{number}"
        )
        for number in range(10)
    ]
    for number in range(5):
        endpoint(scope, f"Endpoint{number}", update_policy=UpdatePolicy.all_at_once(rollback_alarms=alarms))
    entries = [entry for child in scope.node.find_all() for entry in child.node.metadata]
    errors = [str(entry.data) for entry in entries if entry.type == "aws:cdk:error"]
    assert "has room for 5240: declare some of the endpoints in another stack" in errors[0]


@pytest.mark.exhaustive
def test_additional_grants_for_many_endpoints_stay_within_iam_policy_limits() -> None:
    scope = stack("PlatformTeamProduction")
    _large(scope, 24)
    for created in scope.node.children:
        if isinstance(created, OptimizedEndpoint):
            s3.Bucket.from_bucket_name(
                scope, f"Of{created.node.id}", f"prompts-of-{created.node.id.lower()}"
            ).grant_read(created)
    template = template_of(scope)
    roles = {name: r["Properties"] for name, r in template["Resources"].items() if r["Type"] == "AWS::IAM::Role"}
    attached = [
        (name, r["Properties"]["PolicyDocument"])
        for r in template["Resources"].values()
        if r["Type"] == "AWS::IAM::Policy"
        for name in (role["Ref"] for role in r["Properties"]["Roles"])
    ]
    assert len(attached) == 2
    for name, role in roles.items():
        inline = [policy["PolicyDocument"] for policy in role["Policies"]] + [of for at, of in attached if at == name]
        assert sum(_characters(policy, template) for policy in inline) <= _INLINE


@pytest.mark.exhaustive
def test_a_retained_endpoint_retains_the_managed_policies_of_its_role() -> None:
    scope = stack("PlatformTeamProduction")
    _large(scope, MOST_ENDPOINTS, removal_policy=RemovalPolicy.RETAIN)
    found = template_of(scope)["Resources"]
    managed = {n: r.get("DeletionPolicy") for n, r in found.items() if r["Type"] == "AWS::IAM::ManagedPolicy"}
    assert {kept for name, kept in managed.items() if "ExecutionRole" in name} == {"Retain"}


@pytest.mark.parametrize("name", STACKS)
def test_no_role_may_list_a_whole_store(synthesized: Synthesized, name: str) -> None:
    for policy in _all_documents(synthesized(name)):
        for statement in policy["Statement"]:
            lists = statement["Effect"] == "Allow" and "s3:ListBucket" in statement["Action"]
            # Other buckets: JumpStart's, which everybody may read, that of a URI whose prefix is a token, and that of
            # requests, which callers put where they like.
            if lists and not statement["Sid"].startswith(("ListJumpStart", "ListSource", "ListRequests")):
                prefixes = statement["Condition"]["StringLike"]["s3:prefix"]
                assert "*" not in ([prefixes] if isinstance(prefixes, str) else prefixes), statement


def _all_documents(template: dict[str, Any]) -> list[dict[str, Any]]:
    found = [p["PolicyDocument"] for role in resources(template, "AWS::IAM::Role") for p in role.get("Policies", ())]
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::S3::BucketPolicy"):
        found += [policy["PolicyDocument"] for policy in resources(template, kind)]
    return found


def test_lambda_trust_policies_have_optional_source_conditions() -> None:
    scope = stack()
    endpoint(scope)
    (statement,) = _role(template_of(scope), "WatcherRole")["AssumeRolePolicyDocument"]["Statement"]
    assert set(statement["Condition"]) == {"StringEqualsIfExists", "ArnLikeIfExists"}


def test_state_machines_log_to_unique_vended_log_groups() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    template = template_of(scope)
    names = [group.get("LogGroupName", "") for group in resources(template, "AWS::Logs::LogGroup")]
    vended = [name for name in names if name.startswith("/aws/vendedlogs/states/chat-")]
    assert len(set(vended)) == len(vended) == len(resources(template, "AWS::StepFunctions::StateMachine")) == 2


def test_the_execution_role_may_list_async_buckets_and_abort_multipart_uploads() -> None:
    scope = stack()
    answers, requests = (s3.Bucket.from_bucket_name(scope, name, name.lower()) for name in ("Answers", "Requests"))
    endpoint(scope, async_inference=AsyncInference(bucket=answers, prefix="chat", input_bucket=requests))
    statements = {s["Sid"]: s for s in _statements(template_of(scope), "ExecutionRole")}
    assert "s3:AbortMultipartUpload" in statements["WriteAnswers"]["Action"]
    assert statements["ListAnswers"]["Condition"] == {"StringLike": {"s3:prefix": ["chat/*", "chat-failures/*"]}}
    assert "requests" in json.dumps(statements["ListRequests"]["Resource"])


def test_async_output_buckets_are_listed_only_below_their_own_prefixes() -> None:
    scope = stack()
    requests = s3.Bucket.from_bucket_name(scope, "Requests", "requests")
    for name in ("One", "Two"):
        bucket = s3.Bucket.from_bucket_name(scope, f"Answers{name}", f"answers-{name.lower()}")
        queue = AsyncInference(bucket=bucket, prefix=name.lower(), input_bucket=requests)
        endpoint(scope, name, async_inference=queue)
    listed = [s for s in _statements(template_of(scope), "ExecutionRole") if s["Sid"].startswith("ListAnswers")]
    assert [s["Condition"]["StringLike"]["s3:prefix"][0] for s in listed] == ["one/*", "two/*"]


def test_a_benchmark_role_may_run_training_jobs_and_pass_itself() -> None:
    scope = stack()
    endpoint(scope).evaluate(workload=Workload(concurrency=[1]))
    template = template_of(scope)
    allowed = {action for action, _ in _allowed(_statements(template, "EvaluationServiceRole"))}
    assert allowed >= {
        "sagemaker:AddTags",
        "sagemaker:CreateTrainingJob",
        "sagemaker:DescribeTrainingJob",
        "sagemaker:StopTrainingJob",
        "sagemaker:InvokeEndpoint",
        "sagemaker:InvokeEndpointWithResponseStream",
        "servicequotas:GetServiceQuota",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:ListBucket",
    }
    passing = resource(template, "AWS::IAM::Policy")
    (statement,) = passing["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["iam:PassRole"]
    assert statement["Resource"]["Fn::GetAtt"][0] == passing["Roles"][0]["Ref"]
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


def test_an_evaluation_depends_on_the_policy_that_passes_its_role() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    found = template_of(scope)["Resources"]
    (passing,) = [name for name, r in found.items() if r["Type"] == "AWS::IAM::Policy"]
    (evaluation,) = [r for r in found.values() if r["Type"] == "Custom::EndpointEvaluation"]
    machine = evaluation["Properties"]["StateMachineArn"]["Ref"]
    assert passing in found[machine]["DependsOn"]


def test_a_recommendation_role_gets_the_permissions_that_the_service_needs() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    ModelRecommendation(scope, "Cheapest", model=Model.s3("s3://models/llama/70b"), role=role)
    statements = resource(template_of(scope), "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    allowed = {action for action, _ in _allowed(statements)}
    for kind in ("TrainingJob", "OptimizationJob", "Endpoint", "EndpointConfig", "Model", "ModelPackage"):
        assert f"sagemaker:Create{kind}" in allowed
    (passing,) = [s for s in statements if s["Sid"] == "PassItself"]
    assert passing["Resource"] == {"Fn::GetAtt": ["Role1ABCC5F0", "Arn"]}


def test_an_endpoint_and_its_components_share_one_execution_role() -> None:
    scope = stack()
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge")
    shared.add_component("Llama", model=llama(), techniques=[Quantization.awq(tensor_parallel_degree=4)])
    template = template_of(scope)
    config, model = (resource(template, f"AWS::SageMaker::{kind}") for kind in ("EndpointConfig", "Model"))
    assert config["ExecutionRoleArn"] == model["ExecutionRoleArn"]


def test_a_source_models_kms_key_only_adds_decrypt_to_the_job_role() -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
    created: list[dict[str, Any]] = []
    for options in ({}, {"encryption_key_arn": key}):
        scope = stack()
        endpoint(scope, model=Model.s3("s3://models/llama/70b/", **options))
        created.append(template_of(scope))
    plain, encrypted = created
    (statement,) = [s for s in _statements(encrypted, "JobRole") if s not in _statements(plain, "JobRole")]
    assert (statement["Action"], statement["Resource"]) == (["kms:Decrypt"], key)
    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": {"Fn::Sub": "s3.${AWS::Region}.amazonaws.com"}}
    }
    for template in created:
        template["Resources"] = {n: r for n, r in template["Resources"].items() if "JobRole" not in n}
    assert plain["Resources"] == encrypted["Resources"]


def _trusting(scope: Stack, *services: str, **options: Any) -> iam.Role:
    named = [iam.ServicePrincipal(service) for service in services]
    return iam.Role(scope, "Mine", assumed_by=iam.CompositePrincipal(*named), **options)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_role_that_sagemaker_cannot_assume_is_refused_at_synthesis(wrapped: bool) -> None:
    scope = stack()
    role = _trusting(scope, "lambda.amazonaws.com", "ec2.amazonaws.com")
    endpoint(scope, role=role.without_policy_updates() if wrapped else role)
    with pytest.raises(RuntimeError, match=r"OPT245[\s\S]*lambda\.amazonaws\.com, ec2\.amazonaws\.com"):
        template_of(scope)


def test_each_construct_with_a_role_refuses_one_that_sagemaker_cannot_assume() -> None:
    scope = stack()
    endpoint(scope, jobs=JobOptions(role=_trusting(scope, "states.amazonaws.com")))
    with pytest.raises(RuntimeError, match="OPT245"):
        template_of(scope)


def test_a_trust_policy_may_be_completed_after_the_endpoint() -> None:
    scope = stack()
    role = _trusting(scope, "lambda.amazonaws.com")
    endpoint(scope, role=role)
    assert role.assume_role_policy is not None
    role.assume_role_policy.add_statements(
        iam.PolicyStatement(actions=["sts:AssumeRole"], principals=[iam.ServicePrincipal("sagemaker.amazonaws.com")])
    )
    template_of(scope)


@pytest.mark.parametrize(
    ("declared", "written", "is_refused"),
    [
        ("lambda.amazonaws.com", "sagemaker.amazonaws.com", False),
        ("sagemaker.amazonaws.com", "lambda.amazonaws.com", True),
    ],
)
def test_a_trust_policy_is_read_as_the_template_has_it(declared: str, written: str, is_refused: bool) -> None:
    scope = stack()
    role = iam.Role(scope, "Mine", assumed_by=iam.ServicePrincipal(declared))
    resource_of_role = role.node.default_child
    assert isinstance(resource_of_role, iam.CfnRole)
    resource_of_role.add_property_override("AssumeRolePolicyDocument.Statement.0.Principal.Service", written)
    endpoint(scope, role=role)
    with pytest.raises(RuntimeError, match="OPT245") if is_refused else nullcontext():
        template_of(scope)


@pytest.mark.parametrize(
    "policy",
    [
        {"Fn::If": ["IsTrusted", {"Statement": []}, {"Statement": []}]},
        {"Statement": {"Fn::If": ["IsTrusted", [], []]}},
        {"Statement": [{"Fn::If": ["IsTrusted", {}, {"Ref": "AWS::NoValue"}]}]},
    ],
)
def test_a_trust_policy_that_is_known_only_at_deployment_is_left_to_aws(policy: Any) -> None:
    scope = stack()
    CfnCondition(scope, "IsTrusted")
    role = _trusting(scope, "lambda.amazonaws.com")
    declared = role.node.default_child
    assert isinstance(declared, iam.CfnRole)
    declared.add_property_override("AssumeRolePolicyDocument", None)
    declared.add_property_override("AssumeRolePolicyDocument", policy)
    endpoint(scope, role=role)
    template_of(scope)


def test_a_macro_may_complete_a_trust_policy() -> None:
    scope = stack()
    scope.add_transform("Macro")
    endpoint(scope, role=_trusting(scope, "lambda.amazonaws.com"))
    template_of(scope)


def test_the_template_is_written_once_to_check_all_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Stack] = []

    def write(of: Stack) -> str:
        written.append(of)
        return written_template(of)

    monkeypatch.setattr(roles, "written_template", write)
    app = App()
    base = Stack(app, "Base")
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    shared = [iam.Role(base, name, assumed_by=sagemaker) for name in ("One", "Two")]
    for name in ("TeamA", "TeamB"):
        team = Stack(app, name)
        for role in shared:
            endpoint(team, role.node.id, role=role)
    template_of(base)
    assert [each.node.path for each in written] == ["Base"]


def test_the_principals_of_a_refused_role_are_named_as_text() -> None:
    scope = stack(env=None)
    endpoint(scope, role=iam.Role(scope, "Mine", assumed_by=iam.AccountRootPrincipal()))
    with pytest.raises(RuntimeError) as refused:
        template_of(scope)
    assert "its trust policy names arn:${AWS::Partition}:iam::${AWS::AccountId}:root, not" in str(refused.value)


@pytest.mark.parametrize(
    ("effect", "action", "reason"),
    [
        (iam.Effect.DENY, "sts:AssumeRole", "has a Deny statement for sagemaker.amazonaws.com"),
        (iam.Effect.ALLOW, "sts:TagSession", "allows sagemaker.amazonaws.com only sts:TagSession, not sts:AssumeRole"),
    ],
)
def test_a_role_that_names_sagemaker_is_refused_for_what_its_policy_lacks(
    effect: iam.Effect, action: str, reason: str
) -> None:
    scope = stack()
    role = _trusting(scope, "sagemaker.amazonaws.com" if effect is iam.Effect.DENY else "lambda.amazonaws.com")
    assert role.assume_role_policy is not None
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    role.assume_role_policy.add_statements(iam.PolicyStatement(effect=effect, actions=[action], principals=[sagemaker]))
    endpoint(scope, role=role)
    with pytest.raises(RuntimeError) as refused:
        template_of(scope)
    assert reason in str(refused.value)
    assert "assumed_by" not in str(refused.value)


def test_a_condition_of_a_trust_policy_is_left_to_aws() -> None:
    scope = stack()
    principal = iam.ServicePrincipal(
        "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": "111122223333"}}
    )
    endpoint(scope, role=iam.Role(scope, "Mine", assumed_by=principal))
    template_of(scope)


def test_the_preflight_reads_the_trust_policy_of_users_roles_only() -> None:
    scope, other = stack(), stack()
    endpoint(scope, role=iam.Role.from_role_arn(scope, "Mine", "arn:aws:iam::111122223333:role/mine", mutable=False))
    endpoint(other)
    (need, *_) = [each for each in resource(template_of(scope), "Custom::Preflight")["Roles"] if "IsOfUser" in each]
    assert need["RoleArn"].endswith(":role/mine")
    assert "iam:GetRole" in json.dumps(template_of(scope))
    assert "iam:GetRole" not in json.dumps(template_of(other))


def test_the_policies_that_a_retained_role_gets_later_are_retained() -> None:
    scope = stack()
    role = ServiceRole(scope, "Role", "lambda", source_arn="arn:${AWS::Partition}:lambda:*", description="A role.")
    role.apply_removal_policy(RemovalPolicy.RETAIN)
    statements = [Statement(f"Read{n}", ("s3:GetObject",), (f"arn:aws:s3:::models-{n:0100}/*",)) for n in range(120)]
    for begin in (0, 60):
        role.permit(statements[begin : begin + 60])
    found = template_of(scope)["Resources"].values()
    kept = [each["DeletionPolicy"] for each in found if each["Type"] == "AWS::IAM::ManagedPolicy"]
    assert len(kept) > 1
    assert {*kept} == {"Retain"}


# The length of a pseudo parameter, and the most characters of what else is known only at deployment.
_PSEUDO, _LATER = "p" * 16, "l" * 128


@pytest.mark.parametrize(
    ("arn", "text"),
    [
        ("arn:aws:s3:::models/*", "arn:aws:s3:::models/*"),
        ({"Fn::Sub": "arn:${AWS::Partition}:s3:::${Store}/*"}, f"arn:{_PSEUDO}:s3:::{_LATER}/*"),
        ({"Fn::Sub": ["arn:aws:s3:::${Name}", {"Name": "models"}]}, f"arn:aws:s3:::{_LATER}"),
        ("arn:${Token[AWS.Partition.3]}:s3:::${Token[TOKEN.12]}", f"arn:{_PSEUDO}:s3:::{_LATER}"),
        ({"Ref": "AWS::AccountId"}, _PSEUDO),
        ({"Ref": "Store"}, _LATER),
        ({"Fn::GetAtt": ["Store", "Arn"]}, _LATER),
        ({"Fn::ImportValue": "Shared:Store"}, _LATER),
        ({"Fn::Select": [1, ["a", "b"]]}, _LATER),
        (
            {"Fn::Join": ["--", ["arn:aws:s3:::models", {"Ref": "AWS::Region"}, "x"]]},
            f"arn:aws:s3:::models--{_PSEUDO}--x",
        ),
    ],
    ids=json.dumps,
)
def test_a_policy_is_measured_at_its_greatest_length_after_deployment(arn: Any, text: str) -> None:
    condition = {"NumericLessThan": {"s3:max-keys": 1000}}

    def statements(resource: Any) -> list[Statement]:
        return [Statement("Read", ("s3:GetObject", "s3:ListBucket"), (resource, "arn:aws:s3:::mine"), condition)]

    deployed = json.dumps(document(statements(text)), separators=(",", ":"))
    assert characters_of(statements(arn)) == len(deployed)


def _long(number: int, characters: int) -> Statement:
    """A statement that takes so many characters of a policy, with the comma before it."""
    written = json.dumps(Statement(f"Read{number:04}", ("s3:GetObject",), ("",)).to_json(), separators=(",", ":"))
    return Statement(f"Read{number:04}", ("s3:GetObject",), ("a" * (characters - 1 - len(written)),))


# Of a policy without statements and the comma that its first statement does not have.
_EMPTY = len(json.dumps({"Version": "2012-10-17", "Statement": []}, separators=(",", ":"))) - 1


@pytest.mark.parametrize(("beyond", "managed"), [((0, 0), 1), ((0, 1), 2), ((1, 0), 1), ((1, 5_000), 2)])
def test_a_policy_is_divided_only_where_its_limit_is_exceeded(beyond: tuple[int, int], managed: int) -> None:
    scope = stack()
    role = ServiceRole(scope, "Role", "lambda", source_arn="arn:${AWS::Partition}:lambda:*", description="A role.")
    # An inline policy of 5,000 characters, and a managed one of 6,144.
    fill = [(1_000, 5_000 - _EMPTY - 1_000 + beyond[0]), (1_000, _MANAGED - _EMPTY - 1_000 + beyond[1])]
    if beyond[0]:
        # The second statement of the inline policy does not fit, and is the first of the managed one.
        fill[1] = (500, _MANAGED - _EMPTY - (5_000 - _EMPTY - 1_000 + beyond[0]) - 500 + beyond[1])
    role.permit(_long(number, size) for number, size in enumerate(size for sizes in fill for size in sizes))
    template = template_of(scope)
    (inline,) = resource(template, "AWS::IAM::Role")["Policies"]
    assert len(inline["PolicyDocument"]["Statement"]) == (1 if beyond[0] else 2)
    assert len(resources(template, "AWS::IAM::ManagedPolicy")) == managed
    attached = resource(template, "AWS::IAM::Role")["ManagedPolicyArns"]
    assert {each["Ref"] for each in attached} == {
        name for name, each in template["Resources"].items() if each["Type"] == "AWS::IAM::ManagedPolicy"
    }
    assert [each["Sid"] for each in _statements(template, "Role")] == [f"Read{number:04}" for number in range(4)]


def test_the_reason_for_a_wildcard_is_given_for_the_resource_as_cdk_nag_names_it() -> None:
    scope = stack(env=None)
    store = s3.CfnBucket(scope, "Store")
    named: dict[str, Any] = {
        "arn:aws:s3:::models/*": "arn:aws:s3:::models/*",
        "arn:<AWS::Partition>:s3:::models/*": {"Fn::Sub": "arn:${AWS::Partition}:s3:::models/*"},
        "<Store.Arn>/*": f"{store.attr_arn}/*",
        "arn:<AWS::Partition>:s3:::<Store>/*": f"arn:${{AWS::Partition}}:s3:::{store.ref}/*",
        "Shared:Store/*": {"Fn::Join": ["", [{"Fn::ImportValue": "Shared:Store"}, "/*"]]},
        '{"Fn::Select":[0,["a","b"]]}/*': {"Fn::Join": ["", [{"Fn::Select": [0, ["a", "b"]]}, "/*"]]},
    }
    reasoned = Statement("Read", ("s3:GetObject",), (*named.values(), "arn:aws:s3:::one"), wildcard="they come later")
    give_reasons(scope, [reasoned, Statement("Own", ("s3:GetObject",), ("arn:aws:s3:::mine/*",))])
    reasons = [entry.data for entry in scope.node.metadata if "acknowledged" in entry.type]
    given = {name: reason for each in reasons for name, reason in each.items()}
    assert given == {f"Annotation::AwsSolutions-IAM5[Resource::{name}]": "they come later" for name in named}


def test_an_action_without_resources_has_that_as_its_reason_for_a_wildcard() -> None:
    given = statements_of("keep scaling", Endpoint="arn:aws:sagemaker:us-west-2:111122223333:endpoint/chat", Stack=None)
    reasons = {each.sid: each.wildcard for each in given}
    assert "SeeResources" not in reasons
    assert reasons["ScaleEndpoint"] is None
    assert reasons["SeeScaling"] == NO_RESOURCES
