"""Every resource in the policies of a template's roles exists: in the template, or by a listed reason outside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    ComponentOptions,
    DataCapture,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    Quantization,
    ShadowCandidate,
    SpeculationCure,
    SpeculativeDecoding,
    VariantOptions,
)

from ..support.construct_stacks import STACKS, resource, stack, template_of
from .conftest import Synthesized

# Resources that are in no template. Each pattern is a whole one: a name with a wildcard beside it must be a name of the
# template. The reasons for wildcards are beside the statements (constructs/stack/statements.toml).
OUTSIDE = {
    r"\*": "actions without resource-level permissions",
    r"arn:.*:(endpoint|endpoint-config|inference-component|model|model-package|model-package-group)/\*": "all, by kind",
    r"arn:.*:(optimization-job|training-job|scalable-target)/\*": "a service generates the names",
    r"arn:.*:cloudformation:.*:stack/\*": "the stacks that share a store",
    r"\$\{AWS::StackId\}": "the stack itself",
    r"arn:.*:(endpoint-config|model|[a-z-]*-job)/optim-[*]": "the functions of the stack name them",
    r"arn:.*:alarm:\$\{AWS::StackName\}-\*": "CloudFormation generates the names",
    r"arn:.*:log-group:/aws/sagemaker/\*": "SageMaker names its log groups",
    r"arn:.*:hub/\w+|arn:.*:hub-content/\w+/Model/[\w-]+/\*": "a model in a hub",
    r"arn:.*:servicequotas:.*:sagemaker/\*": "quotas",
    r"arn:.*:s3:::(jumpstart-(private-)?cache|sagemaker-sd-models)-prod-\$\{AWS::Region\}(/\*)?": "models of JumpStart",
    r"arn:.*:s3:::packages-of-mine(/chat/\*)?": "the files of a model package",
    r"arn:.*:s3:::requests-of-mine(/\*)?": "the requests of an asynchronous endpoint",
    r"arn:.*:s3:::cdk-\w+-assets-.*": "code that the CDK CLI uploads",
    r"arn:.*:repository/[\w-]+": "AWS's container images",
    r"arn:aws:lambda:us-west-2:\d{12}:function:judge": "given",
    r"arn:aws:(iam|kms|sagemaker|secretsmanager|sns):us-west-2:?\d*:\d{12}:.+|arn:aws:iam::\d{12}:role/.+": "given",
}
# What functions write to the artifact store, whose paths are not in a template.
IN_THE_STORE = {
    r"artifacts/\*/(model|tensorboard)/\*": "store/artifact_store.py",
    r"owners/\$\{AWS::AccountId\}/\*": "store/owner_records.py",
    r"(evaluations|recommendations)/\*(/runs/\*/output/\*)?|shadows/\*": "store/run_records.py",
    r"restarts/\$\{AWS::AccountId\}/\$\{AWS::Region\}/(?P<endpoint>.+)\.json": "handlers/restart_watcher.py",
    r"scaling/\$\{AWS::AccountId\}/\$\{AWS::Region\}/(?P<endpoint>.+)\.json": "hosting/suspended_scaling.py",
}
_ROLES = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
_S3 = "arn:${AWS::Partition}:s3:::"
_NAMED = {
    "AWS::CloudWatch::Alarm": ("AlarmName", "cloudwatch", "alarm:{name}"),
    "AWS::SageMaker::Endpoint": ("EndpointName", "sagemaker", "endpoint/{name}"),
    "AWS::SageMaker::InferenceComponent": ("InferenceComponentName", "sagemaker", "inference-component/{name}"),
    "Custom::OptimizedInferenceComponent": ("InferenceComponentName", "sagemaker", "inference-component/{name}"),
}
_PREFIX = "arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{resource}"


def text(value: Any) -> str:
    """An ARN as text, with references in braces."""
    match value:
        case str():
            return value
        case {"Fn::Sub": str() as template} | {"Fn::Sub": [str() as template, _]}:
            return template
        case {"Fn::Join": [str() as delimiter, list() as parts]}:
            return delimiter.join(map(text, parts))
        case {"Fn::Select": [index, {"Fn::Split": [str() as delimiter, inner]}]}:
            parts = text(inner).split(delimiter)
            return parts[int(index)] if len(parts) > int(index) else text(inner)
        case {"Ref": str() as name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [str() as name, str() as attribute]}:
            return f"${{{name}.{attribute}}}"
    raise AssertionError(f"an ARN of an unknown form: {value}")


def granted(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The statement's ID and the ARN of each resource that a role of the template may use."""
    for declared in template["Resources"].values():
        properties = declared.get("Properties", {})
        documents = [policy["PolicyDocument"] for policy in properties.get("Policies", ())]
        if declared["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            documents.append(properties["PolicyDocument"])
        for document in documents:
            for statement in document["Statement"]:
                of_statement = statement["Resource"]
                for arn in of_statement if isinstance(of_statement, list) else [of_statement]:
                    yield statement.get("Sid", ""), text(arn)


def uris(value: Any) -> Iterator[str]:
    """The buckets and keys of the S3 URIs in a part of a template."""
    try:
        yield from re.findall(r"s3://((?:\$\{[^}]*\}|[^\s\"',}{])+)", text(value))
    except AssertionError:
        for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from uris(member)


def unknown(template: dict[str, Any]) -> list[tuple[str, str]]:
    """The granted resources that are neither of the template nor listed."""
    names = {*template["Resources"], *template.get("Parameters", ())}
    arns: list[str] = []
    for declared in template["Resources"].values():
        member, service, form = _NAMED.get(declared["Type"], ("", "", ""))
        name = declared.get("Properties", {}).get(member)
        if name is not None:
            arns.append(_PREFIX.format(service=service, resource=form.format(name=text(name))))
        if declared["Type"] == "AWS::SageMaker::Endpoint" and name is not None:
            # Application Auto Scaling names the alarms of target tracking policies after the scalable target.
            alarm = f"alarm:TargetTracking-endpoint/{text(name)}/variant/Any"
            arns.append(_PREFIX.format(service="cloudwatch", resource=alarm))

    written = {
        uri
        for declared in template["Resources"].values()
        if declared["Type"] not in _ROLES
        for uri in uris(declared.get("Properties"))
    }
    buckets = {f"${{{name}}}" for name in names} | {uri.partition("/")[0] for uri in written}
    endpoints = [
        text(declared["Properties"]["EndpointName"])
        for declared in template["Resources"].values()
        if declared["Type"] == "AWS::SageMaker::Endpoint" and "EndpointName" in declared["Properties"]
    ]

    def is_in_s3(path: str) -> bool:
        bucket, _, key = path.partition("/")
        stored = next(filter(None, (re.fullmatch(pattern, key) for pattern in IN_THE_STORE)), None)
        if bucket in buckets and (not key or (stored and stored.groupdict().get("endpoint") in (None, *endpoints))):
            return True
        # SageMaker writes captures below the name of their endpoint.
        below = ("", "/", *(f"/{name}/" for name in endpoints))
        return any(fnmatchcase(f"{uri}{rest}", path.replace("[", "[[]")) for uri in written for rest in below)

    def is_known(arn: str) -> bool:
        reference = re.fullmatch(r"(?:arn:.*:execution:)?\$\{(\w+)(?:\.\w+)?\}(?P<rest>/.*|:\*)?", arn)
        if reference is not None and reference[1] in names:
            rest = reference["rest"] or ""
            return not rest.startswith("/") or is_in_s3(f"${{{reference[1]}}}{rest}")
        return (
            (arn.startswith(_S3) and is_in_s3(arn.removeprefix(_S3)))
            or any(fnmatchcase(of_template, arn.replace("[", "[[]")) for of_template in arns)
            or any(re.fullmatch(pattern, arn) for pattern in OUTSIDE)
        )

    return sorted({(sid, arn) for sid, arn in granted(template) if not is_known(arn)})


@pytest.fixture(scope="module")
def named() -> dict[str, Any]:
    """A template in which everything that can have a name of the user's has one."""
    scope = stack()
    store = ArtifactStore(scope, "Artifacts", bucket_name="artifacts-of-mine")
    capture = DataCapture(bucket=s3.Bucket(scope, "Captures", bucket_name="captures-of-mine"))
    shared = OptimizedEndpoint(
        scope,
        "Sliced",
        endpoint_name="sliced-of-mine",
        instance_type="ml.p5.48xlarge",
        variant=VariantOptions(accelerator_partitions=["mig-3g.40gb", "mig-3g.40gb"]),
    )
    options = ComponentOptions(accelerator_partition="mig-3g.40gb")
    small = Model.s3("s3://models/small/")
    shared.add_component("Chat", model=small, component_name="chat", options=options)
    whole = OptimizedEndpoint(scope, "Whole", endpoint_name="whole-of-mine", instance_type="ml.g5.12xlarge")
    whole.add_component("Embed", model=small, component_name="embed-of-mine").auto_scale(max_capacity=2)
    scaled = OptimizedEndpoint(
        scope,
        "Scaled",
        model=small,
        techniques=[Quantization.awq()],
        artifact_store=store,
        endpoint_name="scaled-of-mine",
        instance_type="ml.g5.12xlarge",
        variant=VariantOptions(name="Main"),
    )
    scaled.auto_scale(max_capacity=2).on_concurrency(target=4)
    OptimizedEndpoint(
        scope,
        "Shadowed",
        model=small,
        techniques=[],
        artifact_store=store,
        endpoint_name="shadowed-of-mine",
        instance_type="ml.g5.12xlarge",
        data_capture=capture,
    ).shadow(candidate=ShadowCandidate(techniques=[Quantization.awq()]), checks=[AnswerCheck.answered()])
    OptimizedEndpoint(
        scope,
        "Cured",
        model=small,
        techniques=[SpeculativeDecoding.ngram(speculative_tokens=5)],
        artifact_store=store,
        endpoint_name="cured-of-mine",
        instance_type="ml.p5.48xlarge",
        monitoring=MonitoringOptions(speculation_cure=SpeculationCure.restart()),
    )
    return template_of(scope)


@pytest.mark.parametrize("name", STACKS)
def test_every_role_names_resources_that_exist(synthesized: Synthesized, name: str) -> None:
    assert unknown(synthesized(name)) == []


def test_every_role_names_resources_that_exist_where_users_name_them(named: dict[str, Any]) -> None:
    assert unknown(named) == []
    arns = dict(granted(named))
    assert arns["ManageComponents"].endswith(":inference-component/chat")


SAGEMAKER, CLOUDWATCH = (_PREFIX.format(service=service, resource="") for service in ("sagemaker", "cloudwatch"))


@pytest.mark.parametrize(
    "arn",
    [
        f"{SAGEMAKER}inference-component/-*",
        f"{SAGEMAKER}inference-component/other",
        f"{SAGEMAKER}endpoint/",
        f"{CLOUDWATCH}alarm:-Errors",
        "${Bucket.Arn}/artifact/*",
        "${Bucket.Arn}/artifacts/*/checkpoints/*",
        "${Bucket.Arn}/restarts/${AWS::AccountId}/${AWS::Region}/other.json",
        "${Bucket.Arn}/scaling/${AWS::AccountId}/${AWS::Region}/.json",
        "${Bucket.Arn}-other",
        f"{_S3}models/other/*",
        f"{_S3}models/smaller/*",
        f"{_S3}other",
        f"{_S3}jumpstart-cache-prod/*",
    ],
)
def test_a_resource_with_an_empty_or_another_name_is_detected(named: dict[str, Any], arn: str) -> None:
    bucket = next(name for name, each in named["Resources"].items() if each["Type"] == "AWS::S3::Bucket")
    named_so = {"Fn::Sub": arn.replace("${Bucket.", f"${{{bucket}.")}
    statement = {"Sid": "Made", "Effect": "Allow", "Action": "sagemaker:DescribeEndpoint", "Resource": named_so}
    policy = {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": {"Statement": [statement]}}}
    template = {**named, "Resources": {**named["Resources"], "Made": policy}}
    assert [sid for sid, _ in unknown(template)] == ["Made"]


def test_the_functions_delete_a_component_of_another_name_only_by_the_tag_of_their_stack(
    named: dict[str, Any],
) -> None:
    statements = [
        statement
        for declared in named["Resources"].values()
        for policy in declared.get("Properties", {}).get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if "sagemaker:DeleteInferenceComponent" in statement["Action"]
    ]
    conditions = {statement["Sid"]: statement.get("Condition") for statement in statements}
    by_tag = {"StringLike": {"aws:ResourceTag/constructs-optim:owner": {"Fn::Sub": "${AWS::StackId}/*"}}}
    assert conditions == {"ManageComponents": None, "DeleteFormerComponents": by_tag}
    assert resource(named, "Custom::OptimizedInferenceComponent")["InferenceComponentName"] == "chat"


@pytest.mark.parametrize(("name", "folder"), [("evaluated", "evaluations"), ("recommended", "recommendations")])
def test_a_job_writes_its_output_and_no_decision(name: str, folder: str) -> None:
    scope = stack()
    STACKS[name](scope)
    template = template_of(scope)
    resources_of_template = template["Resources"]
    of_jobs: dict[str, Any] = {}
    for name, declared in resources_of_template.items():
        trusted = str(declared.get("Properties", {}).get("AssumeRolePolicyDocument", ""))
        if "sagemaker.amazonaws.com" in trusted:
            policies = [arn["Ref"] for arn in declared["Properties"].get("ManagedPolicyArns", ())]
            of_jobs |= {each: resources_of_template[each] for each in (name, *policies)}
        # The policy of a role that the user gave.
        if declared["Type"] == "AWS::IAM::Policy":
            of_jobs[name] = declared
    jobs = {**template, "Resources": of_jobs}
    written = {arn for _, arn in granted(jobs) if f"/{folder}/" in arn}
    assert written
    assert {arn.partition(f"/{folder}/")[2] for arn in written} == {"*/runs/*/output/*"}
