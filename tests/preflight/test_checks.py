"""Each check against stated answers of AWS: what is a problem, what is advice, and what is neither."""

from __future__ import annotations

import datetime as dt
import io
import json
from email.message import Message
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from constructs_optim.runtime.documents import MOST_BYTES
from constructs_optim.runtime.preflight.checks import CHECKS, run
from constructs_optim.runtime.preflight.report import PreflightFinding, Report
from constructs_optim.runtime.preflight.trust import SAGEMAKER
from constructs_optim.runtime.requests.preflight_properties import PreflightProperties
from constructs_optim.runtime.requests.properties import validate

from ..support.answers import Answers
from ..support.model_hub import HubModel, serving

IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0"
ROLE = "arn:aws:iam::111122223333:role/jobs"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1"
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
STORE = {"Bucket": "store"}
LISTED: tuple[str, Any] = ("list_objects_v2", {"Contents": []})
LOCATED: tuple[str, Any] = ("get_bucket_location", {"LocationConstraint": "us-west-2"})


def found(answers: Answers, **properties: Any) -> list[tuple[str, str]]:
    """The level and the text of each finding."""
    report = run(validate(PreflightProperties, properties), answers.context())
    assert {finding.check for finding in report.findings} <= {check.name for check in CHECKS}
    return [(finding.level, finding.text) for finding in report.findings]


def fixes(answers: Answers, **properties: Any) -> list[str]:
    """How the findings say that they would be solved."""
    return [finding.fix for finding in run(validate(PreflightProperties, properties), answers.context()).findings]


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        ({"imageDetails": []}, None, ""),
        ("ImageNotFoundException", "problem", "does not exist in us-west-2"),
        ("RepositoryNotFoundException", "problem", "does not exist in us-west-2"),
        ("AccessDeniedException", "advice", "not checked: DescribeImages is denied"),
        ("ServerException", "advice", "not checked: DescribeImages returned ServerException"),
    ],
)
def test_an_image_is_there_or_not_or_the_registry_does_not_tell(answer: Any, level: str | None, text: str) -> None:
    findings = found(Answers(ecr=[("describe_images", answer)]), Images=[IMAGE])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all(text in found_text for _, found_text in findings)


@pytest.mark.parametrize("image", ["public.ecr.aws/vllm/vllm:1", IMAGE.replace("us-west-2", "us-east-1")])
def test_an_image_elsewhere_is_advice_without_a_question(image: str) -> None:
    ((level, _),) = found(Answers(), Images=[image])
    assert level == "advice"


def test_an_image_by_digest_is_looked_up_by_it() -> None:
    answers = Answers(ecr=[("describe_images", {"imageDetails": []})])
    assert found(answers, Images=[f"{IMAGE}@sha256:{'0' * 64}"]) == []
    (request,) = answers.asked
    assert request["registryId"] == "763104351884"
    assert request["imageIds"] == [{"imageDigest": f"sha256:{'0' * 64}"}]


@pytest.mark.parametrize(
    ("image", "identified"),
    [
        (IMAGE, {"imageTag": "0.30.0"}),
        (IMAGE.partition(":")[0], {"imageTag": "latest"}),
        (IMAGE.replace("dkr.ecr.", "dkr.ecr-fips."), {"imageTag": "0.30.0"}),
    ],
)
def test_an_image_is_looked_up_by_its_tag(image: str, identified: dict[str, str]) -> None:
    answers = Answers(ecr=[("describe_images", {"imageDetails": []})])
    assert found(answers, Images=[image]) == []
    (request,) = answers.asked
    assert request == {"registryId": "763104351884", "repositoryName": "vllm", "imageIds": [identified]}


def key_in(state: str) -> tuple[str, Any]:
    return "describe_key", {"KeyMetadata": {"KeyId": "1", "KeyState": state}}


@pytest.mark.parametrize(
    ("kms", "s3", "expected"),
    [
        ([key_in("Enabled")], [LISTED, LOCATED], []),
        ([key_in("Updating")], [LISTED, LOCATED], []),
        ([key_in("PendingDeletion")], [LISTED, LOCATED], [("problem", f"the KMS key {KEY} is PendingDeletion")]),
        ([("describe_key", "NotFoundException")], [LISTED, LOCATED], [("problem", f"there is no KMS key {KEY}")]),
        ([key_in("Enabled")], [("list_objects_v2", "NoSuchBucket")], [("problem", "there is no bucket store")]),
        (
            [key_in("Enabled")],
            [LISTED, ("get_bucket_location", {"LocationConstraint": "eu-west-1"})],
            [
                (
                    "problem",
                    "the artifact store store is in eu-west-1, but this stack is in us-west-2: SageMaker reads models "
                    "only from buckets in its own Region",
                )
            ],
        ),
        (
            [("describe_key", "AccessDeniedException")],
            [LISTED, LOCATED],
            [("advice", "not checked: DescribeKey is denied")],
        ),
    ],
)
def test_a_store_has_a_bucket_of_the_region_and_an_enabled_key(kms: Any, s3: Any, expected: Any) -> None:
    assert found(Answers(kms=kms, s3=s3), Stores=[{**STORE, "KmsKeyArn": KEY}]) == expected


def test_a_store_without_a_key_of_its_own_is_checked_without_kms() -> None:
    answers = Answers(s3=[LISTED, LOCATED])
    assert found(answers, Stores=[STORE]) == []
    # Whoever may only read artifacts may list no other prefix.
    assert answers.asked[0].items() >= {"Bucket": "store", "Prefix": "artifacts/", "MaxKeys": 1}.items()


def decided(**decisions: str) -> tuple[str, Any]:
    results = [
        {"EvalActionName": name.replace("_", ":"), "EvalDecision": decision} for name, decision in decisions.items()
    ]
    return "simulate_principal_policy", {"EvaluationResults": results}


ALLOWED_PULL = decided(ecr_BatchGetImage="allowed")
NO_POLICY: tuple[str, Any] = ("get_bucket_policy", "NoSuchBucketPolicy")


# A policy's only statement need not be in a list.
ALLOWING = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}


def policy_of(effect: str) -> tuple[str, Any]:
    statement = {"Effect": effect, "Principal": "*", "Action": "s3:*", "Resource": "*"}
    return "get_bucket_policy", {"Policy": json.dumps({"Statement": [statement]})}


@pytest.mark.parametrize(
    ("decision", "policy", "level"),
    [
        ("allowed", None, None),
        ("explicitDeny", None, "problem"),
        ("implicitDeny", NO_POLICY, "problem"),
        ("implicitDeny", policy_of("Deny"), "problem"),
        ("implicitDeny", policy_of("Allow"), "advice"),
        ("implicitDeny", ("get_bucket_policy", "AccessDenied"), "advice"),
        ("implicitDeny", ("get_bucket_policy", "NoSuchBucket"), "advice"),
        ("implicitDeny", ("get_bucket_policy", {"Policy": json.dumps({"Statement": ALLOWING})}), "advice"),
        ("implicitDeny", ("get_bucket_policy", {"Policy": "{}"}), "problem"),
    ],
)
def test_what_a_bucket_policy_may_allow_is_not_certain(decision: str, policy: Any, level: str | None) -> None:
    answers = Answers(iam=[decided(s3_PutObject=decision)], s3=[policy] if policy else [])
    findings = found(answers, Roles=[{"RoleArn": ROLE, "Writes": ["s3://store/artifacts/"]}])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all("s3:PutObject on s3://store/artifacts/" in text for _, text in findings)


def test_a_bucket_policy_that_s3_fails_to_return_decides_nothing() -> None:
    answers = Answers(iam=[decided(s3_PutObject="implicitDeny")], s3=[("get_bucket_policy", "InternalError")])
    ((level, text),) = found(answers, Roles=[{"RoleArn": ROLE, "Writes": ["s3://store/artifacts/"]}])
    assert (level, text.partition(":")[0]) == ("advice", "not checked")


def test_a_pull_that_a_repository_s_policy_may_allow_is_not_certain() -> None:
    denied = decided(ecr_BatchGetImage="implicitDeny")
    may_sign_in = decided(ecr_GetAuthorizationToken="allowed")
    needs = {"Roles": [{"RoleArn": ROLE, "Images": [IMAGE]}]}
    ((level, text),) = found(Answers(iam=[denied, may_sign_in]), **needs)
    assert (level, text) == ("advice", "the policies of jobs do not allow ecr:BatchGetImage on vllm")
    by_role = {"IAM Policy": "allowed", "Resource Policy": "implicitDeny"}
    across: Any = {
        "EvalActionName": "ecr:BatchGetImage",
        "EvalDecision": "implicitDeny",
        "EvalDecisionDetails": by_role,
    }
    iam = [("simulate_principal_policy", {"EvaluationResults": [across]}), may_sign_in]
    assert found(Answers(iam=iam), **needs) == []
    refused = decided(ecr_BatchGetImage="explicitDeny")
    ((level, text),) = found(Answers(iam=[refused, may_sign_in]), **needs)
    assert (level, text) == ("problem", "jobs may not call ecr:BatchGetImage on vllm")


@pytest.mark.parametrize(
    ("result", "level"),
    [
        ({"EvalDecision": "allowed"}, None),
        ({"EvalDecision": "implicitDeny"}, "problem"),
        ({"EvalDecision": "explicitDeny"}, "problem"),
        (
            {"EvalDecision": "explicitDeny", "OrganizationsDecisionDetail": {"AllowedByOrganizations": False}},
            "advice",
        ),
    ],
)
def test_a_role_that_pulls_images_signs_in_to_their_registry(result: dict[str, Any], level: str | None) -> None:
    signing_in = {"EvalActionName": "ecr:GetAuthorizationToken", **result}
    iam = [ALLOWED_PULL, ("simulate_principal_policy", {"EvaluationResults": [signing_in]})]
    findings = found(Answers(iam=iam), Roles=[{"RoleArn": ROLE, "Images": [IMAGE]}])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all("ecr:GetAuthorizationToken on *" in text for _, text in findings)


def test_a_role_is_asked_about_the_objects_below_each_prefix() -> None:
    answers = Answers(iam=[decided(s3_GetObject="allowed")] * 2 + [decided(s3_PutObject="allowed")])
    reads = ["s3://models/mine/", "s3://data/a_"]
    role = ROLE.replace("arn:aws:", "arn:aws-us-gov:").replace(":role/", ":role/team/")
    assert found(answers, Roles=[{"RoleArn": role, "Reads": reads, "Writes": ["s3://store/artifacts"]}]) == []
    assert [(each["ActionNames"], each["ResourceArns"]) for each in answers.asked] == [
        (["s3:GetObject"], ["arn:aws-us-gov:s3:::models/mine/preflight"]),
        (["s3:GetObject"], ["arn:aws-us-gov:s3:::data/a_/preflight"]),
        (["s3:PutObject"], ["arn:aws-us-gov:s3:::store/artifacts/preflight"]),
    ]


def test_an_image_outside_of_ecr_needs_no_permission_to_pull() -> None:
    iam = [decided(ecr_GetAuthorizationToken="allowed")]
    assert found(Answers(iam=iam), Roles=[{"RoleArn": ROLE, "Images": ["public.ecr.aws/vllm/vllm:1"]}]) == []


@pytest.mark.parametrize(
    ("answer", "is_early"),
    [
        (decided(s3_GetObject="explicitDeny"), True),
        (("simulate_principal_policy", "AccessDenied"), True),
        (("simulate_principal_policy", "ServiceFailure"), False),
        (("simulate_principal_policy", "NoSuchEntity"), False),
    ],
)
def test_a_refusal_may_be_of_a_permission_that_is_not_effective_yet(answer: Any, *, is_early: bool) -> None:
    needs = validate(PreflightProperties, {"Roles": [{"RoleArn": ROLE, "Reads": ["s3://models/mine/"]}]})
    report = run(needs, Answers(iam=[answer]).context())
    assert [finding.is_early for finding in report.findings] == [is_early]
    assert report.is_early is is_early


def test_conditions_that_a_simulation_cannot_fill_decide_nothing() -> None:
    missing = {
        "EvalResourceName": "x",
        "EvalResourceDecision": "implicitDeny",
        "MissingContextValues": ["aws:SourceVpce"],
    }
    result = {"EvalActionName": "s3:GetObject", "EvalDecision": "implicitDeny", "ResourceSpecificResults": [missing]}
    answers = Answers(iam=[("simulate_principal_policy", {"EvaluationResults": [result]})])
    assert found(answers, Roles=[{"RoleArn": ROLE, "Reads": ["s3://models/mine/"]}]) == []


def test_a_refusal_of_the_organization_is_not_certain() -> None:
    result = {
        "EvalActionName": "s3:GetObject",
        "EvalDecision": "explicitDeny",
        "OrganizationsDecisionDetail": {"AllowedByOrganizations": False},
    }
    answers = Answers(iam=[("simulate_principal_policy", {"EvaluationResults": [result]})])
    ((level, _),) = found(answers, Roles=[{"RoleArn": ROLE, "Reads": ["s3://models/mine/"]}])
    assert level == "advice"


def test_a_role_that_there_is_not_is_a_problem() -> None:
    answers = Answers(iam=[("simulate_principal_policy", "NoSuchEntity")])
    assert found(answers, Roles=[{"RoleArn": ROLE, "Reads": ["s3://models/mine/"]}]) == [
        ("problem", f"there is no role {ROLE}")
    ]


def trusting(service: str, **more: Any) -> tuple[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole", **more}
    role = {"Path": "/", "RoleName": "jobs", "RoleId": "A" * 16, "Arn": ROLE, "CreateDate": dt.datetime(2026, 1, 1)}
    document = quote(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    return "get_role", {"Role": {**role, "AssumeRolePolicyDocument": document}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (trusting(SAGEMAKER), []),
        (trusting(SAGEMAKER, Condition={"Bool": {"aws:SecureTransport": "true"}}), []),
        (
            trusting("lambda.amazonaws.com"),
            [
                (
                    "problem",
                    "SageMaker cannot assume jobs: its trust policy names lambda.amazonaws.com, not the service "
                    + SAGEMAKER,
                )
            ],
        ),
        (
            trusting(SAGEMAKER, Effect="Deny"),
            [
                (
                    "problem",
                    f"SageMaker cannot assume jobs: its trust policy has a Deny statement for {SAGEMAKER} and "
                    f"names nobody, not the service {SAGEMAKER}",
                )
            ],
        ),
        (
            trusting(SAGEMAKER, Action="sts:TagSession"),
            [
                (
                    "problem",
                    f"SageMaker cannot assume jobs: its trust policy allows {SAGEMAKER} only sts:TagSession, not "
                    "sts:AssumeRole",
                )
            ],
        ),
        (("get_role", "AccessDenied"), [("advice", "the trust policy of jobs is not checked: GetRole is denied")]),
        (("get_role", "NoSuchEntity"), [("problem", f"there is no role {ROLE}")]),
    ],
)
def test_a_users_role_must_trust_sagemaker(answer: tuple[str, Any], expected: list[tuple[str, str]]) -> None:
    assert found(Answers(iam=[answer]), Roles=[{"RoleArn": ROLE, "IsOfUser": "true"}]) == expected


def test_a_trust_policy_may_not_be_effective_yet() -> None:
    needs = validate(PreflightProperties, {"Roles": [{"RoleArn": ROLE, "IsOfUser": "true"}]})
    assert run(needs, Answers(iam=[trusting("lambda.amazonaws.com")]).context()).is_early


def objects(*names: str) -> tuple[str, Any]:
    return "list_objects_v2", {"Contents": [{"Key": name, "Size": 1, "ETag": "e"} for name in names]}


@pytest.mark.parametrize(
    ("listed", "level", "text"),
    [
        (objects("mine/config.json", "mine/model.safetensors", "mine/tokenizer.json"), None, ""),
        (objects("mine/config.json", "mine/model.safetensors"), "advice", "has no tokenizer"),
        (
            objects(
                *(
                    f"mine/{name}"
                    for name in ("config.json", "model.safetensors", "consolidated.safetensors", "vocab.txt")
                )
            ),
            "advice",
            "vLLM loads consolidated* under s3://models/mine/",
        ),
        # With an argument, vLLM loads them.
        (objects("mine/config.json", "mine/model-rank-0-part-0.safetensors"), "advice", "the parts of accelerators"),
        # Engines find files by lower-case names.
        (objects("mine/config.json", "mine/MODEL.SAFETENSORS"), "problem", "there are no weights"),
        (
            objects(
                *(
                    f"mine/{name}"
                    for name in ("config.json", "model.safetensors", "training_args.bin", "a.zip", "vocab.txt")
                )
            ),
            None,
            "",
        ),
        (objects("mine/model.tar.gz", "mine/config.json"), "problem", "is an archive"),
        (objects("mine/config.json", "mine/model.safetensors.index.json"), "problem", "there are no weights"),
        (objects("mine/model.safetensors", "mine/tokenizer.json"), "problem", "there is no config.json"),
        (objects("mine/part/config.json", "mine/part/model.safetensors"), "problem", "there is no config.json"),
        (objects("mine/config.json", "mine/Qwen3-8B-Q4_K_M.gguf"), "problem", "GGUF"),
        (objects("mine/models--a--b/snapshots/abc/config.json"), "problem", "cache of huggingface_hub"),
        (objects("mine/adapter_config.json", "mine/adapter_model.safetensors"), "problem", "is a LoRA adapter"),
        (objects("mine/model_index.json", "mine/unet/model.safetensors"), "problem", "a pipeline of diffusers"),
        (objects("mine/config.json", "mine/__0_0.distcp"), "problem", "a checkpoint of training"),
        # LMI reads what these files say.
        (objects("mine/serving.properties", "mine/part/config.json"), "advice", "there is no config.json"),
        (objects("mine/model.py", "mine/model.safetensors"), "advice", "there is no config.json"),
        (objects(), "problem", "no engine loads s3://models/mine/: there are no files"),
        # Of S3's console, for a folder.
        (objects("mine/"), "problem", "no engine loads s3://models/mine/: there are no files"),
        (objects("mine/model.tar.gz"), "problem", "is an archive"),
        *(
            (objects("mine/config.json", f"mine/weights.{ending}", "mine/vocab.txt"), "advice", "pickle files only")
            for ending in ("bin", "pt")
        ),
        *(
            (objects("mine/config.json", f"mine/weights.{ending}"), "problem", "there are no weights, only weights.")
            for ending in ("ckpt", "joblib", "pickle", "pkl", "pth")
        ),
        *((objects(f"mine/model.{ending}"), "problem", "is an archive") for ending in ("tar", "tar.gz", "tgz", "zip")),
        (
            objects(
                "mine/config.json",
                "mine/tokenizer.model",
                *(f"mine/model-0000{number}-of-00002.safetensors" for number in (1, 2)),
            ),
            None,
            "",
        ),
        (
            objects("mine/config.json", "mine/model-00002-of-00006.safetensors"),
            "problem",
            "is incomplete: it lacks model-00001-of-00006.safetensors, model-00003-of-00006.safetensors, "
            "model-00004-of-00006.safetensors and 2 more",
        ),
        (("list_objects_v2", "NoSuchBucket"), "problem", "there is no bucket models"),
        (("list_objects_v2", "AccessDenied"), "advice", "ListObjectsV2 is denied"),
    ],
)
def test_files_in_s3_are_of_a_form_that_engines_read(listed: Any, level: str | None, text: str) -> None:
    findings = found(Answers(s3=[listed]), Models=[{"Kind": "s3", "S3Uri": "s3://models/mine/"}])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all(text in found_text for _, found_text in findings)


def test_a_hub_has_the_model_that_is_declared() -> None:
    model = {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "llama", "Version": "1.0.0"}
    answers = Answers(sagemaker=[("describe_hub_content", "ResourceNotFound")], s3=[])
    ((level, text),) = found(answers, Models=[model])
    assert level == "problem"
    assert "llama" in text
    assert answers.asked == [
        {
            "HubName": "SageMakerPublicHub",
            "HubContentType": "Model",
            "HubContentName": "llama",
            "HubContentVersion": "1.0.0",
        }
    ]


def test_data_of_a_job_is_there() -> None:
    data = [{"Kind": "s3", "S3Uri": "s3://models/data/"}]
    assert found(Answers(s3=[objects("data/a.jsonl")]), Data=data) == []
    assert found(Answers(s3=[objects()]), Data=data) == [("problem", "there are no data files under s3://models/data/")]


def test_the_first_three_missing_parts_of_the_weights_are_named() -> None:
    model = [{"Kind": "s3", "S3Uri": "s3://models/mine/"}]
    listed = objects("mine/config.json", "mine/model-00004-of-00004.safetensors")
    ((_, text),) = found(Answers(s3=[listed]), Models=model)
    lacking = ", ".join(f"model-0000{number}-of-00004.safetensors" for number in (1, 2, 3))
    assert text == f"no engine loads s3://models/mine/: the model is incomplete: it lacks {lacking}"


VPC = "vpc-1"
LOCAL = {"GatewayId": "local", "DestinationCidrBlock": "10.0.0.0/16"}
NAT = {"NatGatewayId": "nat-1", "DestinationCidrBlock": "0.0.0.0/0"}
IGW = {"GatewayId": "igw-1", "DestinationCidrBlock": "0.0.0.0/0"}
TRANSIT = {"TransitGatewayId": "tgw-1", "DestinationCidrBlock": "10.99.0.0/16"}
UNNAMED = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": False}
S3_GATEWAY = {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1"]}


def network(*routes: list[dict[str, str]], free: int = 8, s3: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
    """Subnets whose route tables have these routes besides the local one, in a VPC with an endpoint of S3 or none."""
    names = [f"subnet-{number}" for number, _ in enumerate(routes, 1)]
    endpoints = [{"VpcEndpointId": "vpce-1", "ServiceName": "com.amazonaws.us-west-2.s3", **s3}] if s3 else []
    tables = [
        {"RouteTableId": f"rtb-{number}", "Associations": [{"SubnetId": name}], "Routes": [LOCAL, *of_table]}
        for number, (name, of_table) in enumerate(zip(names, routes, strict=True), 1)
    ]
    subnets = [{"SubnetId": name, "VpcId": VPC, "AvailableIpAddressCount": free} for name in names]
    return [
        ("describe_subnets", {"Subnets": subnets}),
        ("describe_vpc_endpoints", {"VpcEndpoints": endpoints}),
        ("describe_route_tables", {"RouteTables": tables}),
    ]


@pytest.mark.parametrize(
    ("ec2", "level", "text"),
    [
        (network([NAT]), None, ""),
        (network([], s3={"VpcEndpointType": "Interface"}), None, ""),
        (network([]), "problem", "use Amazon S3, and subnet-1 of vpc-1 have neither a VPC endpoint for it nor a route"),
        (network([], []), "problem", "subnet-1, subnet-2 of vpc-1 have neither"),
        (network([], [NAT]), "advice", "subnet-1 of vpc-1 have neither"),
        (network([], [IGW]), "advice", "subnet-1, subnet-2 of vpc-1 have neither"),
        (network([], [], s3=S3_GATEWAY), "advice", "subnet-2 of vpc-1 have neither"),
        (network([], s3={**S3_GATEWAY, "RouteTableIds": ["rtb-2"]}), "problem", "subnet-1 of vpc-1 have neither"),
        (network([IGW], s3=S3_GATEWAY), None, ""),
        (network([IGW]), "advice", "subnet-1 of vpc-1 have neither"),
        # A private name that no call tells may lead to this endpoint, or through this route.
        (network([], s3=UNNAMED), "advice", "have neither a VPC endpoint with private DNS names for it nor a route"),
        (network([NAT], s3=UNNAMED), None, ""),
        (network([TRANSIT]), None, ""),
        (network([TRANSIT], []), "advice", "subnet-2 of vpc-1 have neither"),
        (network([NAT], free=0), "problem", "no free address"),
        (network([NAT], free=2), None, ""),
        (network([NAT], free=1), "advice", "1 free addresses in subnet-1 for 2 instances"),
        ([("describe_subnets", "InvalidSubnetID.NotFound")], "problem", "does not exist"),
        ([("describe_subnets", "UnauthorizedOperation")], "advice", "DescribeSubnets is denied"),
    ],
)
def test_subnets_have_addresses_and_a_way_to_s3(ec2: Any, level: str | None, text: str) -> None:
    findings = found(Answers(ec2=ec2), Networks=[{"SubnetIds": ["subnet-1"], "InstanceCount": "2"}])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all(text in found_text for _, found_text in findings)


def test_the_route_tables_of_a_large_vpc_are_on_several_pages() -> None:
    subnets, endpoints, (operation, answer) = network([NAT])
    first = {"RouteTables": [{"Associations": [{"Main": True}], "Routes": [LOCAL]}], "NextToken": "next"}
    ec2 = [subnets, endpoints, (operation, first), (operation, answer)]
    assert found(Answers(ec2=ec2), Networks=[{"SubnetIds": ["subnet-1"], "InstanceCount": "2"}]) == []


def test_the_subnets_of_each_vpc_are_checked_on_their_own() -> None:
    (_, first), *rest = network([])
    others = [{**each, "SubnetId": "subnet-2", "VpcId": "vpc-2"} for each in first["Subnets"]]
    associated = {"RouteTableId": "rtb-2", "Associations": [{"SubnetId": "subnet-2"}], "Routes": [LOCAL]}
    subnets = ("describe_subnets", {"Subnets": [*first["Subnets"], *others]})
    of_other = [rest[0], ("describe_route_tables", {"RouteTables": [associated]})]
    answers = Answers(ec2=[subnets, *rest, *of_other])
    findings = found(answers, Networks=[{"SubnetIds": ["subnet-1", "subnet-2"], "InstanceCount": "2"}])
    assert [level for level, _ in findings] == ["problem", "problem"]
    assert ["subnet-1 of vpc-1" in findings[0][1], "subnet-2 of vpc-2" in findings[1][1]] == [True, True]
    assert [request["Filters"] for request in answers.asked[1:]] == [
        [{"Name": "vpc-id", "Values": [vpc]}] for vpc in ("vpc-1", "vpc-1", "vpc-2", "vpc-2")
    ]


def test_the_fix_of_a_missing_way_names_the_kind_of_endpoint() -> None:
    needs = {"Networks": [{"SubnetIds": ["subnet-1"], "InstanceCount": "1", "Services": ["secretsmanager"]}]}
    nat = "or use subnets with a route to a NAT gateway"
    assert fixes(Answers(ec2=network([])), **needs) == [
        f"add a gateway endpoint for s3, {nat}",
        f"add an interface endpoint for secretsmanager, {nat}",
    ]
    assert fixes(Answers(ec2=network([], s3=UNNAMED)), **needs) == [
        f"enable the private DNS names of the endpoint for s3, add a gateway endpoint for s3, {nat}",
        f"add an interface endpoint for secretsmanager, {nat}",
    ]


@pytest.mark.parametrize(("owner", "level"), [("111122223333", "problem"), ("444455556666", "advice")])
def test_the_endpoints_of_a_vpc_that_another_account_shares_are_not_seen(owner: str, level: str) -> None:
    (subnets, *others) = network([])
    shared = {"Subnets": [{**each, "OwnerId": owner} for each in subnets[1]["Subnets"]]}
    answers = Answers(
        ec2=[("describe_subnets", shared), *others], sts=[("get_caller_identity", {"Account": "111122223333"})]
    )
    (finding,) = found(answers, Networks=[{"SubnetIds": ["subnet-1"], "InstanceCount": "1"}])
    assert finding[0] == level


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([NAT], []),
        ([], ["a job calls secretsmanager", "a job reads from huggingface.co and pypi.org"]),
        ([IGW], ["a job calls secretsmanager", "a job reads from huggingface.co and pypi.org"]),
        ([TRANSIT], ["a job reads from huggingface.co and pypi.org"]),
    ],
)
def test_a_job_reaches_the_servers_it_reads_from(routes: list[dict[str, str]], expected: list[str]) -> None:
    ec2 = network(routes, s3={"VpcEndpointType": "Interface"})
    reached = {"Hosts": ["huggingface.co", "pypi.org"], "Services": ["secretsmanager"]}
    findings = found(Answers(ec2=ec2), Networks=[{"SubnetIds": ["subnet-1"], "InstanceCount": "1", **reached}])
    assert len(findings) == len(expected)
    for (level, text), part in zip(findings, expected, strict=True):
        assert (level, part in text) == ("advice", True), text


def plan(*, without: str = "", **changed: Any) -> tuple[str, Any]:
    described = {
        "TrainingPlanArn": PLAN,
        "TrainingPlanName": "plan",
        "Status": "Active",
        "TargetResources": ["training-job"],
        "ReservedCapacitySummaries": [
            {
                "ReservedCapacityArn": "arn:aws:sagemaker:us-west-2:111122223333:reserved-capacity/1",
                "InstanceType": "ml.p5.48xlarge",
                "TotalInstanceCount": 1,
                "Status": "Active",
            }
        ],
    }
    described.pop(without, None)
    return "describe_training_plan", {**described, **changed}


@pytest.mark.parametrize(
    ("answer", "need", "level", "text"),
    [
        (plan(), {}, None, ""),
        (plan(Status="Expired"), {}, "problem", "is Expired"),
        (plan(Status="Failed"), {}, "problem", "is Failed"),
        (
            plan(Status="Scheduled", StartTime=dt.datetime(2026, 12, 1, 9, 30, tzinfo=dt.UTC)),
            {},
            "advice",
            "is Scheduled and starts at 2026-12-01 09:30 UTC",
        ),
        (plan(without="TargetResources"), {"Use": "endpoint"}, None, ""),
        (plan(without="ReservedCapacitySummaries"), {"InstanceType": "ml.g5.12xlarge"}, None, ""),
        (plan(Status="Scheduled"), {}, "advice", "is Scheduled"),
        (plan(), {"Use": "endpoint"}, "problem", "is for training-job, not for endpoint"),
        (plan(), {"InstanceType": "ml.g5.12xlarge"}, "problem", "has ml.p5.48xlarge, not ml.g5.12xlarge"),
        (("describe_training_plan", "ResourceNotFound"), {}, "problem", "there is no training plan plan"),
    ],
)
def test_a_reservation_is_active_and_for_its_use(answer: Any, need: Any, level: str | None, text: str) -> None:
    reservation = {"Arn": PLAN, "InstanceType": "ml.p5.48xlarge", "Use": "training-job", **need}
    findings = found(Answers(sagemaker=[answer]), Reservations=[reservation])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all(text in found_text for _, found_text in findings)


def test_a_reservation_of_another_kind_is_advice() -> None:
    other = PLAN.replace("training-plan", "reserved-capacity")
    ((level, text),) = found(Answers(), Reservations=[{"Arn": other}])
    assert (level, "is not a training plan" in text) == ("advice", True)


def test_a_reservation_of_unknown_instances_is_only_active() -> None:
    assert found(Answers(sagemaker=[plan()]), Reservations=[{"Arn": PLAN}]) == []


@pytest.mark.parametrize("answer", ["ResourceNotFoundException", {"DeletedDate": "2026-11-25T00:00:00Z"}])
def test_the_secret_of_a_token_is_there(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    copy = {"ModelId": "meta-llama/Llama", "Revision": "c" * 40, "TokenSecretArn": SECRET}
    findings = found(Answers(secretsmanager=[("describe_secret", answer)]), Copies=[copy])
    assert findings[0][0] == "problem"
    assert "secret hub" in findings[0][1]
    assert "AbCdEf" not in findings[0][1]
    assert [level for level, _ in findings[1:]] == ["advice"], "the hub cannot be reached"


def test_the_secret_of_a_token_in_another_region_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    secret = SECRET.replace("us-west-2", "eu-west-1")
    copy = {"ModelId": "meta-llama/Llama", "Revision": "c" * 40, "TokenSecretArn": secret}
    (level, text), _ = found(Answers(), Copies=[copy])
    assert level == "advice"
    assert "the secret hub is in eu-west-1, and was not looked up" in text


def test_the_report_has_all_problems_and_its_reason_as_many_as_fit() -> None:
    findings = tuple(PreflightFinding("image", "problem", f"{number} {'x' * 300}", "y") for number in range(20))
    report = Report((*findings, PreflightFinding("quota", "advice", "a", "b")), 21)
    reason = report.reason("/aws/lambda/preflight")
    assert reason.startswith("preflight found 20 problems; nothing was started. (1) image: 0 xxx")
    assert len(reason) < 3500
    shown = reason.count(" image: ")
    assert 5 < shown < 20
    assert reason.endswith(f"And {20 - shown} more, in the function's log /aws/lambda/preflight")


def test_a_model_that_is_not_found_is_mended_as_its_error_says() -> None:
    model = {"Kind": "s3", "S3Uri": "s3://models/mine/"}
    assert fixes(Answers(s3=[("list_objects_v2", "NoSuchBucket")]), Models=[model]) == ["use another one"]


COMMIT = "c" * 40
SAFE = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}"}
PICKLED = {"config.json": b"{}", "pytorch_model.bin": b"weights", "tokenizer.json": b"{}"}


@pytest.mark.parametrize(
    ("model", "need", "level", "text"),
    [
        (HubModel(COMMIT, SAFE), {}, None, ""),
        (HubModel(COMMIT, SAFE, token="t"), {}, "problem", "is gated, but no token is declared"),
        (HubModel(COMMIT, SAFE, token="t"), {"TokenSecretArn": SECRET}, None, ""),
        (HubModel(COMMIT, PICKLED), {}, "problem", "pickle files only"),
        (HubModel(COMMIT, PICKLED), {"AllowPickle": "true"}, None, ""),
        (HubModel(COMMIT, {"config.json": b"{}", "model.safetensors": b"a"}), {}, "advice", "has no tokenizer"),
        (HubModel(COMMIT, {"README.md": b"-"}), {}, "problem", "there is no config.json"),
        (HubModel(COMMIT, {"config.json": b"{}"}), {}, "problem", "there are no weights"),
        (HubModel("d" * 40, SAFE), {}, "problem", "has no model owner/model@cccccccccccc"),
        (None, {}, "problem", "has no model owner/model@cccccccccccc"),
        (None, {"TokenSecretArn": SECRET}, "advice", "the token's access to it was not checked"),
    ],
)
def test_a_model_of_hugging_face_is_there_open_and_in_a_form_that_is_copied(
    model: HubModel | None, need: dict[str, str], level: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(secretsmanager=[("describe_secret", {})])
    with serving({"owner/model": model} if model is not None else {}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        findings = found(answers, Copies=[{"ModelId": "owner/model", "Revision": COMMIT, **need}])
    assert [found_level for found_level, _ in findings] == ([level] if level else [])
    assert all(text in found_text for _, found_text in findings)
    assert hub.downloads == []


@pytest.mark.parametrize(
    ("status", "need", "level", "text"),
    [
        (401, {}, "problem", "has no model owner/model@cccccccccccc, or it is private"),
        (403, {}, "problem", "has no model owner/model@cccccccccccc, or it is private"),
        (401, {"TokenSecretArn": SECRET}, "advice", "is not public, and the token's access to it was not checked"),
        (403, {"TokenSecretArn": SECRET}, "advice", "is not public, and the token's access to it was not checked"),
        (404, {"TokenSecretArn": SECRET}, "problem", "has no model owner/model@cccccccccccc, or it is private"),
        (503, {}, "advice", "returned status 503 for owner/model@cccccccccccc"),
        (None, {}, "advice", "could not be queried for owner/model@cccccccccccc (timed out)"),
    ],
)
def test_a_hub_that_refuses_or_does_not_answer_is_told_from_one_without_the_model(
    status: int | None, need: dict[str, str], level: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str, timeout: float) -> NoReturn:
        # The function has more time than that.
        assert timeout == 10
        raise TimeoutError("timed out") if status is None else HTTPError(url, status, "refused", Message(), None)

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    answers = Answers(secretsmanager=[("describe_secret", {})])
    ((found_level, found_text),) = found(answers, Copies=[{"ModelId": "owner/model", "Revision": COMMIT, **need}])
    assert (found_level, text in found_text) == (level, True)


@pytest.mark.parametrize(("too_many", "levels"), [(0, []), (1, ["advice"])])
def test_a_hubs_answer_is_read_up_to_the_size_of_any_document(
    too_many: int, levels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b"{%*s}" % (MOST_BYTES - 2 + too_many, b"")
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: io.BytesIO(answer))
    findings = found(Answers(), Copies=[{"ModelId": "owner/model", "Revision": COMMIT}])
    assert [level for level, _ in findings] == levels


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ({}, "has no model owner/model"),
        ({"owner/model": HubModel(COMMIT, SAFE, token="t")}, "is gated"),
        ({"owner/model": HubModel(COMMIT, PICKLED)}, "pickle files only"),
        ({"owner/model": HubModel(COMMIT, {"config.json": b"{}"})}, "there are no weights"),
    ],
)
def test_what_a_mirror_answers_is_advice(models: dict[str, HubModel], text: str) -> None:
    with serving(models) as hub:
        copy = {"ModelId": "owner/model", "Revision": COMMIT, "Endpoint": f"{hub.url}/"}
        ((level, found_text),) = found(Answers(), Copies=[copy])
    assert (level, text in found_text) == ("advice", True)


def test_a_finding_names_its_check() -> None:
    denied = {
        "data": Answers(s3=[("list_objects_v2", "AccessDenied")]),
        "engine metrics": Answers(cloudwatch=[("get_otel_enrichment", "AccessDenied")]),
        "image": Answers(ecr=[("describe_images", "AccessDenied")]),
        "model": Answers(s3=[("list_objects_v2", "AccessDenied")]),
        "network": Answers(ec2=[("describe_subnets", "UnauthorizedOperation")]),
        "quota": Answers(service_quotas=[("list_service_quotas", "AccessDenied")]),
        "reservation": Answers(sagemaker=[("describe_training_plan", "AccessDeniedException")]),
        "role": Answers(iam=[("simulate_principal_policy", "AccessDenied")]),
        "store": Answers(s3=[("list_objects_v2", "AccessDenied")]),
    }
    fleet = {"EndpointName": "chat", "InstanceTypes": ["ml.g5.xlarge"], "Definition": "1"}
    needs: dict[str, dict[str, Any]] = {
        "data": {"Data": [{"Kind": "s3", "S3Uri": "s3://models/data/"}]},
        "engine metrics": {"EngineMetrics": [{"UsedBy": "Chat/Dashboard"}]},
        "image": {"Images": [IMAGE]},
        "model": {"Models": [{"Kind": "s3", "S3Uri": "s3://models/mine/"}]},
        "network": {"Networks": [{"SubnetIds": ["subnet-1"], "InstanceCount": "1"}]},
        "quota": {"Fleets": [{**fleet, "InstanceCount": "1", "BatchSize": "1"}]},
        "reservation": {"Reservations": [{"Arn": PLAN}]},
        "role": {"Roles": [{"RoleArn": ROLE, "Reads": ["s3://models/mine/"]}]},
        "store": {"Stores": [STORE]},
    }
    for name, answers in denied.items():
        (finding,) = run(validate(PreflightProperties, needs[name]), answers.context()).findings
        assert (finding.check, finding.level) == (name, "advice")
        assert finding.fix.startswith("allow the call")
    assert {check.name for check in CHECKS} == denied.keys()


def test_findings_are_counted_once_and_subjects_each_time() -> None:
    missing = ("describe_images", "ImageNotFoundException")
    needs = validate(PreflightProperties, {"Images": [IMAGE, IMAGE], "Stores": [STORE]})
    report = run(needs, Answers(ecr=[missing, missing], s3=[LISTED, LOCATED]).context())
    assert [finding.check for finding in report.problems] == ["image"]
    assert report.asked == 3


def test_a_service_that_fails_is_asked_again_later() -> None:
    assert fixes(Answers(ecr=[("describe_images", "ServerException")]), Images=[IMAGE]) == ["try again later"]


def test_a_check_that_fails_itself_is_advice() -> None:
    ((level, text),) = found(Answers(ecr=[("describe_images", {})]), Images=[IMAGE, IMAGE])
    assert (level, "not checked" in text) == ("advice", True)


READS = {"UsedBy": "Llama70B/Dashboard"}
SCALES = {"UsedBy": "Llama70B/Scaling", "Required": True}


@pytest.mark.parametrize(
    ("answer", "uses", "expected"),
    [
        ({"Status": "Running"}, [READS, SCALES], []),
        ({"Status": "Stopped"}, [READS], [("advice", "Llama70B/Dashboard uses engine metrics")]),
        ({"Status": "Stopped"}, [SCALES], [("problem", "Llama70B/Scaling needs engine metrics")]),
        (
            {"Status": "Stopped"},
            [READS, SCALES],
            [("problem", "Llama70B/Scaling needs"), ("advice", "Llama70B/Dashboard uses")],
        ),
        ("AccessDeniedException", [SCALES], [("advice", "not checked: GetOTelEnrichment is denied")]),
    ],
)
def test_without_otel_enrichment_scaling_on_engine_metrics_is_a_problem_and_a_chart_is_advice(
    answer: Any, uses: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    findings = found(Answers(cloudwatch=[("get_otel_enrichment", answer)]), EngineMetrics=uses)
    assert [level for level, _ in findings] == [level for level, _ in expected]
    assert all(text.startswith(start) for (_, text), (_, start) in zip(findings, expected, strict=True))


def test_the_fix_of_missing_enrichment_is_a_command_that_starts_it() -> None:
    needs = validate(PreflightProperties, {"EngineMetrics": [SCALES]})
    answers = Answers(cloudwatch=[("get_otel_enrichment", {"Status": "Stopped"})])
    (finding,) = run(needs, answers.context()).findings
    assert "aws observabilityadmin start-telemetry-enrichment && aws cloudwatch start-otel-enrichment" in finding.fix


def test_only_new_and_changed_needs_are_checked_in_an_update() -> None:
    fleet = {"EndpointName": "chat", "InstanceTypes": ["ml.g5.xlarge"], "BatchSize": "1"}
    role = {"RoleArn": ROLE, "Reads": ["s3://models/a/"], "Writes": ["s3://store/a/"], "Images": [IMAGE]}
    before = {
        "Fleets": [{**fleet, "Definition": "1", "InstanceCount": "1"}],
        "Roles": [role],
        "Images": [IMAGE],
        "Stores": [STORE],
    }
    fleets = [{**fleet, "Definition": definition, "InstanceCount": "2"} for definition in ("1", "2")]
    more = {"Reads": ["s3://models/a/", "s3://models/b/"], "Images": [IMAGE, f"{IMAGE}-b"]}
    other = {"RoleArn": f"{ROLE}-b", "Reads": ["s3://models/a/"]}
    after = {
        "Fleets": fleets,
        "Roles": [{**role, **more}, other],
        "Images": [IMAGE, f"{IMAGE}-b"],
        "Stores": [STORE, {"Bucket": "other"}],
    }
    found = validate(PreflightProperties, after).since(validate(PreflightProperties, before))
    # A launched fleet is the same with another count, which scaling may have set.
    new_role = {"RoleArn": ROLE, "Reads": ["s3://models/b/"], "Images": [f"{IMAGE}-b"]}
    assert found == validate(
        PreflightProperties,
        {
            "Fleets": fleets[1:],
            "Roles": [new_role, other],
            "Images": [f"{IMAGE}-b"],
            "Stores": [{"Bucket": "other"}],
        },
    )


def test_only_new_uses_of_engine_metrics_are_checked_in_an_update() -> None:
    before = validate(PreflightProperties, {"EngineMetrics": [READS]})
    after = validate(PreflightProperties, {"EngineMetrics": [READS, SCALES]})
    assert [need.used_by for need in after.since(before).engine_metrics] == ["Llama70B/Scaling"]
