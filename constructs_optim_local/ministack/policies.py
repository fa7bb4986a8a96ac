"""The sizes and numbers of policies that IAM, S3 and CloudWatch Logs allow, which ministack does not count."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .patches import replace, table

Properties = dict[str, Any]
Response = tuple[int, dict[str, str], bytes]

# IAM user guide, "IAM and AWS STS quotas": characters without white space; all inline policies of a role together. The
# numbers of a role's managed policies and of its trust policy are the defaults, which an account may have raised.
_INLINE_POLICIES = 10_240
_MANAGED_POLICY = 6_144
_TRUST_POLICY = 2_048
_MANAGED_POLICIES_OF_A_ROLE = 10
# S3 user guide, "Policies and permissions in Amazon S3": bucket policies are limited to 20 KB in size.
_BUCKET_POLICY = 20 * 1024
# CloudWatch Logs user guide, "CloudWatch Logs quotas": a resource policy has up to 5,120 characters.
_LOGS_RESOURCE_POLICY = 5_120
# "To avoid reaching the CloudWatch Logs resource policy size limit, prefix your CloudWatch Logs log group names with
# /aws/vendedlogs/": https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html.
_VENDED_LOGS = "/aws/vendedlogs/"
_BUCKET_MESSAGE = "Policy exceeds the maximum allowed document size."


def limit_policies() -> None:
    """Refuse what is too large or too many, in calls and in CloudFormation, once, before the first request."""
    _limit_calls()
    _limit_bucket_policies()
    _limit_resource("AWS::IAM::Role", _refused_role)
    _limit_resource("AWS::IAM::Policy", _refused_inline_policy)
    _limit_resource("AWS::IAM::ManagedPolicy", _refused_managed_policy)
    _limit_resource("AWS::S3::BucketPolicy", _refused_bucket_policy)
    _limit_resource("AWS::StepFunctions::StateMachine", _refused_logging)


def characters(document: Any) -> int:
    """The size of a policy as IAM counts it: without white space."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return len(re.sub(r"\s", "", text))


def _refused_inline(role: str, documents: Mapping[str, Any]) -> str:
    """IAM's words about a role's inline policies, by name, that are too large together; empty where they are not.

    https://github.com/aws-amplify/amplify-cli/issues/1699 has them.
    """
    if sum(map(characters, documents.values())) <= _INLINE_POLICIES:
        return ""
    return f"Maximum policy size of {_INLINE_POLICIES} bytes exceeded for role {role}"


def _refused_trust(document: Any) -> str:
    """The words are those of https://github.com/cloudposse/terraform-aws-components (aws-teams, "Known Problems")."""
    return f"Cannot exceed quota for ACLSizePerRole: {_TRUST_POLICY}" if characters(document) > _TRUST_POLICY else ""


def _refused_managed(document: Any) -> str:
    """The words follow https://github.com/hashicorp/terraform-provider-aws (mediastore/container_policy_test.go)."""
    return f"Cannot exceed quota for PolicySize: {_MANAGED_POLICY}" if characters(document) > _MANAGED_POLICY else ""


def _refused_attachments(policies: Iterable[str]) -> str:
    """The words are those of the AWS CDK's README of pipelines, "Troubleshooting"."""
    if len(set(policies)) <= _MANAGED_POLICIES_OF_A_ROLE:
        return ""
    return f"Cannot exceed quota for PoliciesPerRole: {_MANAGED_POLICIES_OF_A_ROLE}"


def _limit_calls() -> None:
    from ministack.services import iam

    def parameter(params: Any, name: str) -> str:
        return str(iam._p(params, name) or "")

    def put_role_policy(params: Any) -> str:
        role = parameter(params, "RoleName")
        kept = iam._roles.get(role, {}).get("InlinePolicies", {})
        return _refused_inline(role, {**kept, parameter(params, "PolicyName"): parameter(params, "PolicyDocument")})

    def attach_role_policy(params: Any) -> str:
        attached = iam._roles.get(parameter(params, "RoleName"), {}).get("AttachedPolicies", [])
        return _refused_attachments([*attached, parameter(params, "PolicyArn")])

    refused: dict[str, Callable[[Any], str]] = {
        "AttachRolePolicy": attach_role_policy,
        "CreatePolicy": lambda params: _refused_managed(parameter(params, "PolicyDocument")),
        "CreatePolicyVersion": lambda params: _refused_managed(parameter(params, "PolicyDocument")),
        "CreateRole": lambda params: _refused_trust(parameter(params, "AssumeRolePolicyDocument")),
        "PutRolePolicy": put_role_policy,
        "UpdateAssumeRolePolicy": lambda params: _refused_trust(parameter(params, "PolicyDocument")),
    }
    handlers = table("services.iam._IAM_HANDLERS")

    def limited(carry_out: Callable[[Any], Response], words: Callable[[Any], str]) -> Callable[[Any], Response]:
        def handle(params: Any) -> Response:
            if message := words(params):
                return iam._error(409, "LimitExceeded", message, ns="iam")
            return carry_out(params)

        return handle

    for name, words in refused.items():
        handlers[name] = limited(handlers[name], words)


def _limit_bucket_policies() -> None:
    """Assumed, for no source says so: the words. S3 documents the size alone."""
    from ministack.services import s3

    put = s3._put_bucket_policy

    def put_bucket_policy(name: str, body: bytes) -> Response:
        if len(body) > _BUCKET_POLICY:
            return s3._error("PolicyTooLarge", _BUCKET_MESSAGE, 400)
        return put(name, body)

    replace("services.s3._put_bucket_policy", put_bucket_policy)


def _limit_resource(type_name: str, refused: Callable[[str, Properties, Properties], str]) -> None:
    """Fail a resource that is refused, before anything is changed.

    ``refused`` gives the words: for the physical id, or the logical id while there is none, and the properties before
    and after.
    """
    handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")[type_name]
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Properties, stack_name: str) -> Any:
        if message := refused(logical_id, {}, properties):
            raise ValueError(message)
        return create(logical_id, properties, stack_name)

    def updated(physical_id: str, old: Properties, new: Properties, *more: Any, **named: Any) -> Any:
        if message := refused(physical_id, old, new):
            raise ValueError(message)
        return update(physical_id, old, new, *more, **named)

    handlers |= {"create": created, "update": updated}


def _handler_message(service: str, words: str, code: str = "ServiceLimitExceeded", status: int = 409) -> str:
    if not words:
        return ""
    full_message = f"{words} (Service: {service}, Status Code: {status})"
    return f'Resource handler returned message: "{full_message}" (HandlerErrorCode: {code})'


def _refused_role(physical_id: str, old: Properties, new: Properties) -> str:
    from ministack.services import iam

    role = iam._roles.get(physical_id, {})

    def inline(properties: Properties) -> dict[str, Any]:
        return {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies") or []}

    # What was put or attached beside the role's own properties stays.
    others = {name: text for name, text in role.get("InlinePolicies", {}).items() if name not in inline(old)}
    attached = set(role.get("AttachedPolicies", [])) - set(old.get("ManagedPolicyArns") or [])
    name = new.get("RoleName") or physical_id
    return _handler_message(
        "Iam",
        _refused_trust(new.get("AssumeRolePolicyDocument", {}))
        or _refused_inline(name, {**others, **inline(new)})
        or _refused_attachments([*attached, *(new.get("ManagedPolicyArns") or [])]),
    )


def _refused_inline_policy(physical_id: str, old: Properties, new: Properties) -> str:
    from ministack.services import iam

    for role in new.get("Roles") or []:
        kept = dict(iam._roles.get(role, {}).get("InlinePolicies", {}))
        kept.pop(old.get("PolicyName") or physical_id, None)
        words = _refused_inline(role, {**kept, str(new.get("PolicyName")): new.get("PolicyDocument", {})})
        if words:
            return f"{words} (Service: AmazonIdentityManagement; Status Code: 409; Error Code: LimitExceeded)"
    return ""


def _refused_managed_policy(physical_id: str, old: Properties, new: Properties) -> str:
    from ministack.services import iam

    attached = (
        _refused_attachments([*iam._roles.get(role, {}).get("AttachedPolicies", []), physical_id])
        for role in new.get("Roles") or []
    )
    words = _refused_managed(new.get("PolicyDocument", {})) or next(filter(None, attached), "")
    return _handler_message("Iam", words)


def _refused_bucket_policy(physical_id: str, old: Properties, new: Properties) -> str:
    document = new.get("PolicyDocument", {})
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return _handler_message("S3", _BUCKET_MESSAGE if len(text) > _BUCKET_POLICY else "", "InvalidRequest", 400)


def _refused_logging(physical_id: str, old: Properties, new: Properties) -> str:
    """Words about the resource policy that Step Functions enters a state machine's log groups into.

    The words are those of https://github.com/aws-solutions/centralized-logging-with-opensearch (troubleshooting); the
    policy is that of the CloudWatch Logs user guide, "Logs sent to CloudWatch Logs". AWS leaves the groups of state
    machines that are gone in it; here, those that are there count.
    """
    from ministack.core.responses import get_account_id, get_region
    from ministack.services import stepfunctions

    account, region = get_account_id(), get_region()
    groups = _log_groups(new.get("LoggingConfiguration"))
    for arn, machine in stepfunctions._state_machines.items():
        if arn != physical_id:
            groups |= _log_groups(machine.get("loggingConfiguration"))
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "AWSLogDeliveryWrite",
                "Effect": "Allow",
                "Principal": {"Service": "delivery.logs.amazonaws.com"},
                "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
                "Resource": [f"{group.removesuffix(':*')}:log-stream:*" for group in sorted(groups)],
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": [account]},
                    "ArnLike": {"aws:SourceArn": [f"arn:aws:logs:{region}:{account}:*"]},
                },
            }
        ],
    }
    too_large = characters(policy) > _LOGS_RESOURCE_POLICY
    words = "Invalid Logging Configuration: The CloudWatch Logs Resource Policy size was exceeded."
    return _handler_message("Sfn", words if too_large else "", "InvalidRequest", 400)


def _log_groups(logging: Properties | None) -> set[str]:
    """The ARNs of a logging configuration's groups that the resource policy names one by one."""
    found = set[str]()
    for destination in (logging or {}).get("Destinations", (logging or {}).get("destinations")) or []:
        group = destination.get("CloudWatchLogsLogGroup", destination.get("cloudWatchLogsLogGroup")) or {}
        arn = str(group.get("LogGroupArn", group.get("logGroupArn", "")))
        if arn and not arn.partition(":log-group:")[2].startswith(_VENDED_LOGS):
            found.add(arn)
    return found
