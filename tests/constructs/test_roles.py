"""What SageMaker's roles may do, who has which, and that no policy is longer than IAM takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk import App, Stack
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

from .policy_evaluation import resolved
from .stacks import STACKS, endpoint, llama, resource, resources, stack, template_of

_INLINE, _MANAGED = 10_240, 6_144
# Logical ids stand for what CloudFormation makes up: as long as names may be.
_LONG = "arn:aws:s3:::" + "a" * 63


def _role(template: dict[str, Any], part: str) -> dict[str, Any]:
    (found,) = [
        r["Properties"] for name, r in template["Resources"].items() if r["Type"] == "AWS::IAM::Role" and part in name
    ]
    return found


def _statements(template: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """All that a role of the stack's own is allowed, in whichever policy."""
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
    """As IAM counts: without white space, when everything has its name."""
    names = dict.fromkeys(template["Resources"], _LONG) | {"AWS::AccountId": "111122223333"}
    return len(re.sub(r"\s", "", json.dumps(resolved(document, "111122223333", names))))


def _large(scope: Stack, endpoints: int, **options: Any) -> None:
    for number in range(endpoints):
        uri = f"s3://models-of-the-whole-company/large-language-models/instruct/version-{number:04}/"
        endpoint(scope, f"Endpoint{number}", model=Model.s3(uri), **options)


def test_what_serves_a_model_writes_nothing() -> None:
    scope = stack()
    endpoint(scope)
    assert _writes(template_of(scope), "ExecutionRole") == []


def test_what_serves_a_model_writes_captures_and_answers_where_it_is_told_to() -> None:
    scope = stack()
    bucket = s3.Bucket.from_bucket_name(scope, "Bucket", "of-mine")
    endpoint(scope, data_capture=DataCapture(bucket=bucket))
    endpoint(scope, "Queued", async_inference=AsyncInference(bucket=bucket))
    assert _writes(template_of(scope), "ExecutionRole") == ["async-failures/*", "async/*", "captures/*"]


def test_jobs_write_their_output_and_neither_manifests_nor_claims() -> None:
    scope = stack()
    endpoint(scope)
    assert _writes(template_of(scope), "JobRole") == ["artifacts/*/model/*"]


def test_trainings_write_what_they_tell_and_where_they_go_on_as_well() -> None:
    scope = stack()
    endpoint(
        scope, model=Model.s3("s3://models/mistral/7b"), techniques=[FineTune(training_data="s3://prompts/sql/train")]
    )
    written = _writes(template_of(scope), "JobRole")
    assert written == ["artifacts/*/model/*", "artifacts/*/tensorboard/*", "checkpoints/*"]


def test_models_and_jobs_are_given_different_roles() -> None:
    scope = stack()
    endpoint(scope)
    template = template_of(scope)
    served = resource(template, "AWS::SageMaker::Model")["ExecutionRoleArn"]["Fn::GetAtt"][0]
    made = resource(template, "Custom::OptimizationJob")["RoleArn"]["Fn::GetAtt"][0]
    assert "ExecutionRole" in served
    assert "JobRole" in made


def test_a_stack_that_only_makes_an_artifact_has_no_role_for_models() -> None:
    scope = stack()
    OptimizationJob(scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    assert [name for name in template_of(scope)["Resources"] if "ExecutionRole" in name] == []


def test_a_role_that_is_given_is_that_of_models_and_jobs_and_a_job_role_that_of_jobs() -> None:
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


def test_a_model_waits_until_the_role_that_was_given_may_read_it() -> None:
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


def test_a_stack_of_one_endpoint_has_its_roles_policies_in_the_roles() -> None:
    scope = stack()
    endpoint(scope)
    assert resources(template_of(scope), "AWS::IAM::ManagedPolicy") == []


def test_forty_endpoints_on_models_of_ones_own_have_policies_that_iam_takes() -> None:
    scope = stack("PlatformTeamProduction")
    _large(scope, 40)
    template = template_of(scope)
    assert len(template["Resources"]) <= 500
    for role in resources(template, "AWS::IAM::Role"):
        assert sum(_characters(policy["PolicyDocument"], template) for policy in role["Policies"]) <= _INLINE
        assert len(role.get("ManagedPolicyArns", ())) <= 10
    managed = resources(template, "AWS::IAM::ManagedPolicy")
    assert managed != []
    assert all(_characters(policy["PolicyDocument"], template) <= _MANAGED for policy in managed)


def test_nothing_that_many_endpoints_need_is_lost_between_policies() -> None:
    scope = stack("PlatformTeamProduction")
    _large(scope, 40)
    template = template_of(scope)
    jobs, serving = (_allowed(_statements(template, part)) for part in ("JobRole", "ExecutionRole"))
    for number in range(40):
        read = [arn for action, arn in jobs if action == "s3:GetObject" and f"version-{number:04}/*" in arn]
        assert len(read) == 1
    assert len({arn for action, arn in serving if action == "cloudwatch:DescribeAlarms"}) == 80
    listings = [s for s in _statements(template, "JobRole") if s["Sid"].startswith("ListSource")]
    assert sum(len(listing["Condition"]["StringLike"]["s3:prefix"]) for listing in listings) == 40


def test_more_than_a_given_role_can_have_is_refused_with_the_number_and_what_to_do() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    _large(scope, 40, role=role)
    expected = r"of Chat/Role is a policy of about \d+ characters, and IAM allows 10240 .*leave role=.* out"
    Annotations.from_stack(scope).has_error("*", Match.string_like_regexp(expected))


def test_endpoints_that_share_a_given_role_share_a_policy() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    for number in range(6):
        endpoint(scope, f"Endpoint{number}", role=role)
    template = template_of(scope)
    policy = resource(template, "AWS::IAM::Policy")
    assert _characters(policy["PolicyDocument"], template) <= _INLINE
    ids = [statement["Sid"] for statement in policy["PolicyDocument"]["Statement"]]
    assert len(ids) == len(set(ids))


def test_stacks_that_share_a_given_role_attach_policies_of_different_names() -> None:
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


def test_a_role_that_a_construct_gives_out_twice_is_one_role() -> None:
    scope = stack()
    function = lambda_.Function(
        scope,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
    )
    for name in ("One", "Two"):
        assert function.role is not None
        endpoint(scope, name, role=function.role)
    assert len(resources(template_of(scope), "AWS::IAM::Policy")) == 1


@pytest.mark.parametrize("is_given", [True, False])
def test_an_endpoint_may_be_rolled_back_by_an_alarm_about_another_of_the_same_role(is_given: bool) -> None:
    scope = stack()
    sagemaker = iam.ServicePrincipal("sagemaker.amazonaws.com")
    options = {"role": iam.Role(scope, "Role", assumed_by=sagemaker)} if is_given else {}
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


def test_rollback_alarms_that_a_role_has_no_room_for_are_refused() -> None:
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


def test_grants_on_top_of_what_many_endpoints_need_are_policies_that_iam_takes() -> None:
    scope = stack("PlatformTeamProduction")
    _large(scope, 24)
    for made in scope.node.children:
        if isinstance(made, OptimizedEndpoint):
            s3.Bucket.from_bucket_name(scope, f"Of{made.node.id}", f"prompts-of-{made.node.id.lower()}").grant_read(
                made
            )
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


def test_what_is_retained_with_an_endpoint_keeps_all_of_its_roles_policies() -> None:
    from aws_cdk import RemovalPolicy

    scope = stack("PlatformTeamProduction")
    _large(scope, 40, removal_policy=RemovalPolicy.RETAIN)
    found = template_of(scope)["Resources"]
    managed = {n: r.get("DeletionPolicy") for n, r in found.items() if r["Type"] == "AWS::IAM::ManagedPolicy"}
    assert {kept for name, kept in managed.items() if "ExecutionRole" in name} == {"Retain"}


@pytest.mark.parametrize("name", STACKS)
def test_no_role_may_list_a_whole_store(name: str) -> None:
    scope = stack()
    STACKS[name](scope)
    for policy in _all_documents(template_of(scope)):
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


def test_lambda_need_not_say_for_whom_it_takes_a_role_on() -> None:
    scope = stack()
    endpoint(scope)
    (statement,) = _role(template_of(scope), "WatcherRole")["AssumeRolePolicyDocument"]["Statement"]
    assert set(statement["Condition"]) == {"StringEqualsIfExists", "ArnLikeIfExists"}


def test_state_machines_log_where_step_functions_needs_no_policy_for_each_group() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    template = template_of(scope)
    names = [group.get("LogGroupName", "") for group in resources(template, "AWS::Logs::LogGroup")]
    vended = [name for name in names if name.startswith("/aws/vendedlogs/states/chat-")]
    assert len(set(vended)) == len(vended) == len(resources(template, "AWS::StepFunctions::StateMachine")) == 2


def test_queued_requests_and_answers_can_be_listed_and_uploads_given_up() -> None:
    scope = stack()
    answers, requests = (s3.Bucket.from_bucket_name(scope, name, name.lower()) for name in ("Answers", "Requests"))
    endpoint(scope, async_inference=AsyncInference(bucket=answers, prefix="chat", input_bucket=requests))
    statements = {s["Sid"]: s for s in _statements(template_of(scope), "ExecutionRole")}
    assert "s3:AbortMultipartUpload" in statements["WriteAnswers"]["Action"]
    assert statements["ListAnswers"]["Condition"] == {"StringLike": {"s3:prefix": ["chat/*", "chat-failures/*"]}}
    assert "requests" in json.dumps(statements["ListRequests"]["Resource"])


def test_queues_in_different_buckets_are_listed_by_their_own_prefixes_only() -> None:
    scope = stack()
    requests = s3.Bucket.from_bucket_name(scope, "Requests", "requests")
    for name in ("One", "Two"):
        bucket = s3.Bucket.from_bucket_name(scope, f"Answers{name}", f"answers-{name.lower()}")
        queue = AsyncInference(bucket=bucket, prefix=name.lower(), input_bucket=requests)
        endpoint(scope, name, async_inference=queue)
    listed = [s for s in _statements(template_of(scope), "ExecutionRole") if s["Sid"].startswith("ListAnswers")]
    assert [s["Condition"]["StringLike"]["s3:prefix"][0] for s in listed] == ["one/*", "two/*"]


def test_a_benchmarks_role_runs_the_training_job_that_it_is_and_passes_itself_on() -> None:
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


def test_an_evaluation_waits_until_its_role_may_pass_itself_on() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    found = template_of(scope)["Resources"]
    (passing,) = [name for name, r in found.items() if r["Type"] == "AWS::IAM::Policy"]
    (evaluation,) = [r for r in found.values() if r["Type"] == "Custom::EndpointEvaluation"]
    machine = evaluation["Properties"]["StateMachineArn"]["Ref"]
    assert passing in found[machine]["DependsOn"]


def test_a_recommendations_role_may_do_what_the_service_does_with_it() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    ModelRecommendation(scope, "Cheapest", model=Model.s3("s3://models/llama/70b"), role=role)
    statements = resource(template_of(scope), "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    allowed = {action for action, _ in _allowed(statements)}
    for kind in ("TrainingJob", "OptimizationJob", "Endpoint", "EndpointConfig", "Model", "ModelPackage"):
        assert f"sagemaker:Create{kind}" in allowed
    (passing,) = [s for s in statements if s["Sid"] == "PassItself"]
    assert passing["Resource"] == {"Fn::GetAtt": ["Role1ABCC5F0", "Arn"]}


def test_components_on_one_endpoint_have_one_role() -> None:
    scope = stack()
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge")
    shared.add_component("Llama", model=llama(), techniques=[Quantization.awq(tensor_parallel_degree=4)])
    template = template_of(scope)
    config, model = (resource(template, f"AWS::SageMaker::{kind}") for kind in ("EndpointConfig", "Model"))
    assert config["ExecutionRoleArn"] == model["ExecutionRoleArn"]


def test_a_models_own_key_may_be_used_by_jobs_through_s3_and_changes_nothing_that_is_made() -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
    made: list[dict[str, Any]] = []
    for options in ({}, {"encryption_key_arn": key}):
        scope = stack()
        endpoint(scope, model=Model.s3("s3://models/llama/70b/", **options))
        made.append(template_of(scope))
    plain, encrypted = made
    (statement,) = [s for s in _statements(encrypted, "JobRole") if s not in _statements(plain, "JobRole")]
    assert (statement["Action"], statement["Resource"]) == (["kms:Decrypt"], key)
    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": {"Fn::Sub": "s3.${AWS::Region}.amazonaws.com"}}
    }
    for template in made:
        template["Resources"] = {n: r for n, r in template["Resources"].items() if "JobRole" not in n}
    assert plain["Resources"] == encrypted["Resources"]
