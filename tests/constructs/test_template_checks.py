"""Checks on every synthesized template: cfn-lint, cdk-nag, IAM's own tables, state machines, wildcards, snapshots."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.cloudformation_include import CfnInclude
from cdk_nag import AwsSolutionsChecks
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.templates.resource_types import VARIANT_SCALING

from ..support.construct_stacks import ENVIRONMENTS, STACKS, digests_of, masked, template_of
from ..support.nag import nag_findings
from ..support.sampling import one_in
from . import iam_reference
from .conftest import Synthesized
from .oracles import REGIONS, cfn_lint_errors, lacking, state_machine_errors

# Actions of the constructs' policies that have no resource-level permission (IAM service authorization reference).
WITHOUT_RESOURCES = {
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:DescribeScheduledActions",
    "cloudwatch:GetMetricData",
    "cloudwatch:GetOTelEnrichment",
    "cloudwatch:ListMetrics",
    "cloudwatch:PutMetricData",
    "cloudwatch:QueryMetrics",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ec2:DescribeVpcs",
    "ecr:GetAuthorizationToken",
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "pricing:GetProducts",
    "sagemaker:CallWithBearerToken",
    "sagemaker:ListEndpoints",
    "sagemaker:ListTrainingJobs",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}

# A region changes what stands for a template's account and region, in the same way in all of them.
EACH_AND_SOME_IN_A_REGION = [
    *((name, "anywhere") for name in STACKS),
    *((name, "in_a_region") for name in ("headline", "components", "evaluated")),
]
IN_A_REGION = [(name, "in_a_region") for name in STACKS]
each_template_and_some_in_a_region = pytest.mark.parametrize(("name", "environment"), EACH_AND_SOME_IN_A_REGION)
every_template = pytest.mark.parametrize(
    ("name", "environment"),
    [
        *EACH_AND_SOME_IN_A_REGION,
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in IN_A_REGION
            if each not in EACH_AND_SOME_IN_A_REGION
        ),
    ],
)


def declared(name: str, env: Environment | None) -> Stack:
    stack = Stack(App(), "Chat", env=env)
    STACKS[name](stack)
    return stack


class Templates:
    """The stacks' templates, each synthesized when it is first read."""

    def __init__(self, synthesized: Synthesized) -> None:
        self._synthesized = functools.cache(synthesized)

    def __getitem__(self, key: tuple[str, str]) -> dict[str, Any]:
        return self._synthesized(*key)


@pytest.fixture(scope="module")
def templates(synthesized: Synthesized) -> Templates:
    return Templates(synthesized)


@pytest.mark.lint
@each_template_and_some_in_a_region
def test_cfn_lint_finds_no_errors_in_any_template(templates: Templates, name: str, environment: str) -> None:
    regions = REGIONS if ENVIRONMENTS[environment] is None else ["us-west-2"]
    assert cfn_lint_errors(templates[name, environment], regions) == []


@pytest.mark.lint
def test_cfn_lint_detects_an_invalid_property() -> None:
    broken = {"Resources": {"Model": {"Type": "AWS::SageMaker::Model", "Properties": {"Color": "red"}}}}
    assert "Color" in str(cfn_lint_errors(broken, REGIONS))


def test_resource_types_missing_in_a_region_are_detected() -> None:
    template = {"Resources": {name: {"Type": f"AWS::SageMaker::{name}"} for name in ("Model", "AIWorkloadConfig")}}
    assert [lacking(template, region) for region in ("us-east-1", "eu-west-3")] == [
        set(),
        {"AWS::SageMaker::AIWorkloadConfig"},
    ]


@pytest.mark.parametrize("region", one_in(3, ["eu-west-3", "us-gov-west-1", "cn-north-1"]))
def test_a_stack_is_refused_when_its_region_lacks_a_resource_type(templates: Templates, region: str) -> None:
    refused = [name for name in STACKS if lacking(templates[name, "anywhere"], region)]
    assert {"components", "evaluated"} <= set(refused)
    for name in refused:
        with pytest.raises(Exception, match=region):
            template_of(declared(name, Environment(account="111122223333", region=region)))


@every_template
def test_policies_use_only_actions_resources_and_conditions_known_to_iam(
    templates: Templates, name: str, environment: str
) -> None:
    assert iam_reference.unexpected(templates[name, environment]) == set()


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"Action": "sagemaker:CreateOptimisationJob"}, "sagemaker:CreateOptimisationJob is not an action"),
        ({"Action": "sagemaker:Fly*"}, "sagemaker:Fly* is not an action"),
        ({"Resource": "*"}, "sagemaker:CreateModel takes resources, and is granted on all"),
        (
            {"Resource": "arn:aws:sagemaker:us-west-2:111122223333:endpoint/x"},
            "sagemaker:CreateModel takes no such resource: ['arn:aws:sagemaker:us-west-2:111122223333:endpoint/x']",
        ),
        (
            {"Action": "s3:ListBucket", "Resource": {"Fn::Sub": "arn:${AWS::Partition}:s3:::store/artifacts/*"}},
            "s3:ListBucket takes no such resource: ['arn:x:s3:::store/artifacts/*']",
        ),
        (
            {"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::b", "arn:aws:sns:::b"]},
            "arn:aws:sns:::b is a resource of none of ['s3:GetObject', 's3:ListBucket']",
        ),
        (
            {"Action": "cloudwatch:PutMetricData", "Resource": {"Fn::GetAtt": ["Store", "Arn"]}},
            "cloudwatch:PutMetricData takes no resource, and is granted on ['arn:x:s3:::x']",
        ),
        (
            {"Condition": {"StringEquals": {"cloudwatch:namespace": "Optim"}}},
            "sagemaker:CreateModel has no condition key cloudwatch:namespace",
        ),
    ],
    ids=str,
)
def test_an_ineffective_iam_statement_is_detected(changed: dict[str, Any], found: str) -> None:
    resource = "arn:aws:sagemaker:us-west-2:111122223333:model/optim-*"
    statement = {"Effect": "Allow", "Action": "sagemaker:CreateModel", "Resource": resource}

    def template(**overrides: Any) -> dict[str, Any]:
        policy = {"PolicyName": "p", "PolicyDocument": {"Statement": [{**statement, **overrides}]}}
        role = {"Type": "AWS::IAM::Role", "Properties": {"Policies": [policy]}}
        return {"Resources": {"Role": role, "Store": {"Type": "AWS::S3::Bucket"}}}

    assert iam_reference.unexpected(template()) == set()
    assert found in iam_reference.unexpected(template(**changed))


@pytest.mark.parametrize(("name", "environment"), one_in(6, EACH_AND_SOME_IN_A_REGION))
def test_state_machine_definitions_are_valid_amazon_states_language(
    templates: Templates, name: str, environment: str
) -> None:
    assert state_machine_errors(templates[name, environment]) == []


@pytest.mark.parametrize(
    ("state", "member", "value", "found"),
    [
        ("HasEnded", "Default", "Nap", "Missing 'StartAt'|'Next'|'Default' target: Nap"),
        ("Look", "ResultPath", "Look", "/States/Look/ResultPath is invalid"),
        ("Sleep", "Type", "Nap", "SCHEMA_VALIDATION_FAILED"),
    ],
)
def test_an_invalid_state_machine_definition_is_detected(
    templates: Templates, state: str, member: str, value: str, found: str
) -> None:
    template = json.loads(json.dumps(templates["headline", "anywhere"]))
    definition, *_ = [
        resource["Properties"]["Definition"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    ]
    definition["States"][state][member] = value
    assert found in str(state_machine_errors(template))


@every_template
def test_no_policy_allows_an_action_by_wildcard(templates: Templates, name: str, environment: str) -> None:
    actions = [action for statement in allowed(templates[name, environment]) for action in listed(statement["Action"])]
    assert actions
    assert [action for action in actions if "*" in action] == []


@every_template
def test_only_actions_without_resource_level_permissions_use_a_wildcard_resource(
    templates: Templates, name: str, environment: str
) -> None:
    for statement in allowed(templates[name, environment]):
        if "*" in listed(statement["Resource"]):
            assert set(listed(statement["Action"])) <= WITHOUT_RESOURCES


@every_template
def test_wildcards_in_resource_arns_follow_a_specific_prefix(templates: Templates, name: str, environment: str) -> None:
    for statement in allowed(templates[name, environment]):
        for arn in listed(statement["Resource"]):
            text = json.dumps(arn) if not isinstance(arn, str) else arn
            if text != "*" and "*" in text:
                service_part = text[: text.index("*")].rstrip('"')
                # The hash in a physical name: what cannot change in place has successors with other endings.
                is_own_name = re.search(r"-[0-9a-f]{8}-$", service_part) is not None
                assert is_own_name or service_part.endswith(("/", "optim-", ":", "${AWS::StackName}-")), text
                assert "*:" not in text, text


@every_template
def test_role_trust_policies_are_limited_to_the_account_and_service_resources(
    templates: Templates, name: str, environment: str
) -> None:
    services = set[str]()
    for resource in templates[name, environment]["Resources"].values():
        # A role of the constructs has a description; the user's own roles are the user's.
        if resource["Type"] != "AWS::IAM::Role" or "Description" not in resource["Properties"]:
            continue
        for statement in resource["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            service = statement["Principal"]["Service"].partition(".")[0]
            services.add(service)
            condition = statement["Condition"]
            # No page of Lambda's guide says that it sends either when it checks the role of a function.
            if_sent = "IfExists" if service == "lambda" else ""
            assert condition[f"StringEquals{if_sent}"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
            source = condition[f"ArnLike{if_sent}"]["aws:SourceArn"]["Fn::Sub"]
            assert source.startswith(f"arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:")
    # An artifact by key, or one of AWS's making, has no job to watch, and a scaled variant has changes to watch.
    # Evaluations run on a schedule, and shadow runs and restarts begin at events. A role of the user's is there instead
    # of the stack's own.
    is_scaled = any(each["Type"] == VARIANT_SCALING for each in templates[name, environment]["Resources"].values())
    has_jobs = not (name.endswith("by_key") or name in ("pre_optimized", "copies_with_all_settings"))
    watched = ("states",) if is_scaled or has_jobs else ()
    jobs = () if name in ("recommended", "own_role", "imported_role") else ("sagemaker",)
    scheduled = name in ("evaluated", "watched")
    on_event = name in ("shadowed", "restarted", "compared_with_all_settings")
    starts = ("scheduler",) if scheduled else ("events",) if on_event else ()
    assert services == {"lambda", *jobs, *watched, *starts}


@every_template
def test_no_resource_policy_admits_unnamed_services_or_accounts(
    templates: Templates, name: str, environment: str
) -> None:
    for resource in templates[name, environment]["Resources"].values():
        assert not resource["Type"].endswith("::Permission")
        if resource["Type"] == "AWS::S3::BucketPolicy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Deny" or name.startswith("shared_"), statement
                # A wildcard principal must be limited to an organization.
                everybody = statement["Principal"] in ("*", {"AWS": "*"})
                if statement["Effect"] == "Allow" and everybody:
                    assert "aws:PrincipalOrgID" in statement["Condition"]["StringEquals"], statement


@pytest.mark.parametrize("name", ["by_key", "evaluated", "medusa", "scaled", "shadowed"])
def test_each_wildcard_of_a_policy_has_its_reason_for_cdk_nag(name: str) -> None:
    stack = declared(name, None)
    template = template_of(stack)["Resources"]
    found = 0
    for each in stack.node.find_all():
        if not isinstance(each, iam.CfnRole | iam.CfnPolicy | iam.CfnManagedPolicy):
            continue
        resource = template[stack.resolve(each.logical_id)]
        entries = [entry.data for scope in each.node.scopes for entry in scope.node.metadata]
        reasons = {key: reason for data in entries if isinstance(data, dict) for key, reason in data.items()}
        for statement in allowed({"Resources": {"Own": resource}}):
            for arn in listed(statement["Resource"]):
                if "*" in (text := as_nag_writes(arn)):
                    found += 1
                    assert reasons[f"Annotation::AwsSolutions-IAM5[Resource::{text}]"], statement
    assert found > 5


def as_nag_writes(arn: Any) -> str:
    """A resource in a finding of cdk-nag, with references in angle brackets."""
    if isinstance(arn, str):
        return re.sub(r"\$\{(.*?)\}", r"<\1>", arn)
    match arn:
        case {"Fn::Join": [between, parts]}:
            return between.join(map(as_nag_writes, parts))
        case {"Fn::Sub": str(text)} | {"Fn::ImportValue": text}:
            return as_nag_writes(text)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return json.dumps(arn, separators=(",", ":"))


@pytest.mark.lint
@each_template_and_some_in_a_region
def test_cdk_nag_has_no_unacknowledged_findings(tmp_path: Path, name: str, environment: str) -> None:
    app = App(outdir=str(tmp_path))
    STACKS[name](Stack(app, "Chat", env=ENVIRONMENTS[environment]))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    assert nag_findings(app, tmp_path) == []


@pytest.mark.lint
def test_cdk_nag_detects_an_insecure_bucket(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    s3.Bucket(Stack(app, "Chat"), "Careless")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    assert any("S10" in finding for finding in nag_findings(app, tmp_path))


# One of each shape. Of the others the snapshots hold what a change would replace: logical ids and their types.
WHOLE = {
    ("headline", "anywhere"),
    ("headline", "in_a_region"),
    ("by_key", "anywhere"),
    ("components", "anywhere"),
    ("evaluated", "anywhere"),
    ("heads", "anywhere"),
    ("pools", "anywhere"),
    ("recommended", "anywhere"),
    ("shared_with_an_account", "anywhere"),
}


@every_template
def test_a_template_matches_its_snapshot(
    templates: Templates, snapshot: SnapshotAssertion, name: str, environment: str
) -> None:
    template = templates[name, environment]
    kept = masked(template) if (name, environment) in WHOLE else digests_of(template)
    assert kept == snapshot(extension_class=JSONSnapshotExtension)


@pytest.mark.parametrize(("name", "environment"), one_in(9, EACH_AND_SOME_IN_A_REGION))
def test_two_syntheses_of_the_same_stack_are_byte_identical(
    templates: Templates, tmp_path: Path, name: str, environment: str
) -> None:
    app = App(outdir=str(tmp_path))
    STACKS[name](Stack(app, "Chat", env=ENVIRONMENTS[environment]))
    app.synth()
    again = json.loads((tmp_path / "Chat.template.json").read_text())
    assert json.dumps(again) == json.dumps(templates[name, environment])


def allowed(template: dict[str, Any]) -> list[dict[str, Any]]:
    """Every Allow statement of an identity's policy."""
    documents: list[dict[str, Any]] = []
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::IAM::Role":
            documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            documents.append(properties["PolicyDocument"])
    return [s for document in documents for s in document["Statement"] if s["Effect"] == "Allow"]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.lint
@pytest.mark.parametrize(("runtime", "found"), [(None, False), ("python3.9", True)])
def test_cdk_nag_checks_that_functions_use_a_current_runtime(
    templates: Templates, tmp_path: Path, runtime: str | None, found: bool
) -> None:
    # cdk-nag checks lambda.CfnFunction, which is what CfnInclude makes of them too; a template's runtimes can vary.
    template = json.loads(json.dumps(templates["draft", "in_a_region"]))
    functions = [r for r in template["Resources"].values() if r["Type"] == "AWS::Lambda::Function"]
    assert len(functions) == 7
    for function in functions:
        function["Properties"]["Runtime"] = runtime or function["Properties"]["Runtime"]
    (tmp_path / "template.json").write_text(
        json.dumps({"Resources": {f"Function{n}": {**f, "DependsOn": []} for n, f in enumerate(map(alone, functions))}})
    )
    app = App(outdir=str(tmp_path / "out"))
    CfnInclude(Stack(app, "Included"), "Template", template_file=str(tmp_path / "template.json"))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    assert any("AwsSolutions-L1" in finding for finding in nag_findings(app, tmp_path / "out")) == found


def alone(function: dict[str, Any]) -> dict[str, Any]:
    """A function without references to the rest of its stack."""
    kept = {name: value for name, value in function["Properties"].items() if isinstance(value, str | int)}
    code = {"S3Bucket": "assets", "S3Key": "code.zip"}
    return {"Type": function["Type"], "Properties": {**kept, "Code": code, "Role": "arn:aws:iam::111122223333:role/r"}}
