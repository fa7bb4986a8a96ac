"""Limits on the sizes and numbers of policies in IAM, S3 and CloudWatch Logs, which ministack lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from constructs_optim_local.cloudformation.limits import most

from .patches import replace, table

Properties = dict[str, Any]
Response = tuple[int, dict[str, str], bytes]

# IAM counts characters without white space; the limit of inline policies is that of a role's together. The limits of a
# role's managed policies and of its trust policy are defaults that AWS can raise for an account.
_INLINE_POLICIES = most("inline policies of a role")
_MANAGED_POLICY = most("managed policy")
_TRUST_POLICY = most("trust policy")
_MANAGED_POLICIES_OF_A_ROLE = most("managed policies of a role")
_BUCKET_POLICY = most("bucket policy")
# CloudWatch Logs user guide, "CloudWatch Logs quotas": a resource policy has up to 5,120 characters.
_LOGS_RESOURCE_POLICY = 5_120
# "To avoid reaching the CloudWatch Logs resource policy size limit, prefix your CloudWatch Logs log group names with
# /aws/vendedlogs/": https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html.
_VENDED_LOGS = "/aws/vendedlogs/"
_BUCKET_MESSAGE = "Policy exceeds the maximum allowed document size."


def limit_policies() -> None:
    """Enforce the limits in calls and in CloudFormation. Called once, before the first request."""
    _limit_calls()
    _limit_bucket_policies()
    limit_resource("AWS::IAM::Role", _refused_role)
    limit_resource("AWS::IAM::Policy", _refused_inline_policy)
    limit_resource("AWS::IAM::ManagedPolicy", _refused_managed_policy)
    limit_resource("AWS::S3::BucketPolicy", _refused_bucket_policy)
    limit_resource("AWS::StepFunctions::StateMachine", _refused_logging)


def characters(document: Any) -> int:
    """Return the size of a policy as IAM counts it, without whitespace."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return len(re.sub(r"\s", "", text))


def _refused_inline(role: str, documents: Mapping[str, Any]) -> str:
    """Return IAM's message if a role's inline policies are too large in total, otherwise an empty text.

    Source of the message: https://github.com/aws-amplify/amplify-cli/issues/1699.
    """
    if sum(map(characters, documents.values())) <= _INLINE_POLICIES:
        return ""
    return f"Maximum policy size of {_INLINE_POLICIES} bytes exceeded for role {role}"


def _refused_trust(document: Any) -> str:
    """Return IAM's message if a trust policy is too large.

    Source of the message: https://github.com/cloudposse/terraform-aws-components (aws-teams, "Known Problems").
    """
    return f"Cannot exceed quota for ACLSizePerRole: {_TRUST_POLICY}" if characters(document) > _TRUST_POLICY else ""


def _refused_managed(document: Any) -> str:
    """Return IAM's message if a managed policy is too large.

    Source of the message: https://github.com/hashicorp/terraform-provider-aws (mediastore/container_policy_test.go).
    """
    return f"Cannot exceed quota for PolicySize: {_MANAGED_POLICY}" if characters(document) > _MANAGED_POLICY else ""


def _refused_attachments(policies: Iterable[str]) -> str:
    """Return IAM's message if a role has too many policies.

    Source of the message: the AWS CDK's README of pipelines, "Troubleshooting".
    """
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
    """Refuse bucket policies that are too large. S3 documents the size only; the message is assumed."""
    from ministack.services import s3

    put = s3._put_bucket_policy

    def put_bucket_policy(name: str, body: bytes) -> Response:
        if len(body) > _BUCKET_POLICY:
            return s3._error("PolicyTooLarge", _BUCKET_MESSAGE, 400)
        return put(name, body)

    replace("services.s3._put_bucket_policy", put_bucket_policy)


def limit_resource(type_name: str, refused: Callable[[str, Properties, Properties], str]) -> None:
    """Fail a refused resource before any change.

    ``refused`` returns the message, empty if allowed. Its arguments are the physical ID (during creation, the logical
    ID) and the properties before and after.
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


def handler_message(service: str, words: str, code: str = "ServiceLimitExceeded", status: int = 409) -> str:
    """Return a service's message as CloudFormation reports it; empty without one."""
    if not words:
        return ""
    full_message = f"{words} (Service: {service}, Status Code: {status})"
    return f'Resource handler returned message: "{full_message}" (HandlerErrorCode: {code})'


def _refused_role(physical_id: str, old: Properties, new: Properties) -> str:
    from ministack.services import iam

    role = iam._roles.get(physical_id, {})

    def inline(properties: Properties) -> dict[str, Any]:
        return {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies") or []}

    # Policies that were put or attached outside the template stay.
    others = {name: text for name, text in role.get("InlinePolicies", {}).items() if name not in inline(old)}
    attached = set(role.get("AttachedPolicies", [])) - set(old.get("ManagedPolicyArns") or [])
    name = new.get("RoleName") or physical_id
    return handler_message(
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
    return handler_message("Iam", words)


def _refused_bucket_policy(physical_id: str, old: Properties, new: Properties) -> str:
    document = new.get("PolicyDocument", {})
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return handler_message("S3", _BUCKET_MESSAGE if len(text) > _BUCKET_POLICY else "", "InvalidRequest", 400)


def _refused_logging(physical_id: str, old: Properties, new: Properties) -> str:
    """Return the refusal if the log groups of state machines exceed the size of their resource policy.

    Sources: https://github.com/aws-solutions/centralized-logging-with-opensearch (troubleshooting) for the message;
    CloudWatch Logs user guide, "Logs sent to CloudWatch Logs", for the policy. On AWS the policy keeps the groups of
    deleted state machines; here, only existing ones count.
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
    return handler_message("Sfn", words if too_large else "", "InvalidRequest", 400)


def _log_groups(logging: Properties | None) -> set[str]:
    """Return the ARNs of a logging configuration's groups that the resource policy must list."""
    found = set[str]()
    for destination in (logging or {}).get("Destinations", (logging or {}).get("destinations")) or []:
        group = destination.get("CloudWatchLogsLogGroup", destination.get("cloudWatchLogsLogGroup")) or {}
        arn = str(group.get("LogGroupArn", group.get("logGroupArn", "")))
        if arn and not arn.partition(":log-group:")[2].startswith(_VENDED_LOGS):
            found.add(arn)
    return found
