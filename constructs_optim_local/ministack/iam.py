"""IAM enforcement for everything that a deployment's roles do, with ministack's evaluator.

ministack (``AUTH=true``) evaluates the requests that Lambda functions sign with a session of their execution role. This
module adds this package's services, Step Functions' invocations, SageMaker's steps under an execution role, KMS through
S3, S3's response about keys that may not be listed, trust policies for services, and a record of each evaluation.

"""

from __future__ import annotations

import contextvars
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from constructs_optim_local.access.authorization import (
    ALLOW,
    AuthorizationLog,
    Permission,
    Refused,
    StoredObject,
    Unchecked,
    through_s3,
)
from constructs_optim_local.access.credentials import (
    KEY_ID,
    SECRET_KEY,
    TOKEN,
    derived_secret,
)

from .accounts import as_owner_of, is_of_another_account
from .patches import replace, table

Response = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, Any]], Awaitable[Response]]

_LOOPBACK = "127.0.0.1"
_KEY_HEADER = "x-amz-server-side-encryption-aws-kms-key-id"
# The evaluations of the current request, and the state machine for which a function is invoked.
_evaluations: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("evaluations", default=None)
_machine: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("machine", default=None)


class TrustedRoles(Unchecked):
    """ministack's roles without their permissions: a role must trust the service that assumes it.

    A role that this cloud does not have trusts every service.
    """

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Return whether the role's trust policy lets ``service`` assume it; True for an unknown role."""
        result = _trust(role_arn, service, source_arn)
        return result is None or result.decision == ALLOW


def _trust(role_arn: str, service: str, source_arn: str) -> Any:
    """Return the evaluation of a role's trust policy; None if this cloud does not have the role."""
    from ministack.core import iam_evaluator
    from ministack.core.responses import get_region
    from ministack.services import iam

    account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    role = iam._roles.get_scoped(account, None, name)
    if role is None:
        return None
    context = iam_evaluator.EvalContext(
        principal_arn="",
        principal_type="Service",
        principal_account=account,
        action="sts:AssumeRole",
        resource_arn=role_arn,
        region=get_region(),
        service_context={"aws:sourceaccount": source_arn.split(":")[4], "aws:sourcearn": source_arn},
    )
    return iam_evaluator.evaluate_resource_policy(role["AssumeRolePolicyDocument"], context, service=service)


class EnforcedRoles:
    """ministack's roles and policies, as an implementation of ``authorization.Roles``."""

    def __init__(self, log: AuthorizationLog) -> None:
        self._log = log

    def install(self) -> None:
        """Install the checks and the record. Called once, before the first request."""
        import ministack.app as ministack_app

        self._record()
        self._condition_keys()
        self._named_alarms()
        self._encrypted_transport(ministack_app)
        handlers = table("app.SERVICE_HANDLERS")
        handlers["s3"] = self._checked_s3(handlers["s3"])
        self._trusted_functions()
        self._checked_invocations()
        self._checked_targets()

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Return whether the role's trust policy lets ``service`` assume it for ``source_arn`` of the same account.

        Source: IAM user guide, "Grant a user permissions to pass a role to an AWS service": roles cannot be passed
        across accounts.
        """
        account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
        if account != source_arn.split(":")[4]:
            return False
        # A stack may have been deleted with the role while its state machine was running.
        result = _trust(role_arn, service, source_arn)
        if result is None:
            return False
        self._log.add(account, name, "sts:AssumeRole", role_arn, result.decision, result.matched_sid)
        return result.decision == ALLOW

    def allows(self, role_arn: str, permission: Permission) -> bool:
        """Return whether the role's policies, its boundary and the resource's policy allow it."""
        return self.refused(role_arn, permission) is None

    def refused(self, role_arn: str, permission: Permission) -> Refused | None:
        """Return the permission with the reason for its refusal; None if it is allowed."""
        from ministack.core import iam_evaluator
        from ministack.core.responses import get_region, request_scope

        iam_evaluator.pin_request_origin(_LOOPBACK, True)
        service, region = permission.action.partition(":")[0], get_region()
        # Jobs' threads belong to no account.
        with request_scope(role_arn.split(":")[4], region):
            denied = iam_evaluator.enforce(
                _session(role_arn), permission.action, service, region, permission.resource, dict(permission.context)
            )
        if denied is None:
            return None
        return Refused(permission.action, permission.resource, permission.context, _reason(permission.action, denied))

    def objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """Return the objects below a prefix, each with the key that encrypts it."""
        from ministack.services import s3

        with as_owner_of(bucket):
            stored = (s3._buckets.get(bucket) or {}).get("objects", {})
            return [StoredObject(name, _object_key(bucket, name)) for name in sorted(stored) if name.startswith(prefix)]

    def default_key(self, bucket: str) -> str | None:
        """Return the key of a bucket's default encryption."""
        from ministack.services import s3

        with as_owner_of(bucket):
            return _key_arn(s3._bucket_default_sse_headers(bucket).get(_KEY_HEADER))

    def credentials(self, role_arn: str) -> dict[str, str]:
        """Return the variables of a session of the role."""
        key, secret = _session(role_arn), derived_secret(role_arn)
        return {KEY_ID: key, SECRET_KEY: secret, TOKEN: secret}

    def refusal(self, headers: Mapping[str, str], query: Mapping[str, Any], permissions: Iterator[Permission]) -> str:
        """Return IAM's message about the first permission that a request's signer lacks; empty if none."""
        from ministack.core import iam_evaluator
        from ministack.core.responses import get_region
        from ministack.core.router import extract_access_key_id

        key = extract_access_key_id(dict(headers), dict(query))
        for permission in permissions:
            service = permission.action.partition(":")[0]
            denied = iam_evaluator.enforce(
                key, permission.action, service, get_region(), permission.resource, dict(permission.context)
            )
            if isinstance(denied, iam_evaluator.AuthError):
                return denied.message
            if denied is not None and service == "s3" and is_of_another_account(denied):
                return "Access Denied"
            if denied is not None:
                return (
                    f"User: {denied.principal_arn} is not authorized to perform: {permission.action} on resource: "
                    f"{permission.resource} {_reason(permission.action, denied)}"
                )
        return ""

    def _record(self) -> None:
        from ministack.core import iam_evaluator
        from ministack.services import iam

        evaluate, enforce = iam_evaluator.evaluate, iam_evaluator.enforce

        def observed(context: Any, policies: Any, *limits: Any) -> Any:
            result = evaluate(context, policies, *limits)
            seen = _evaluations.get()
            if seen is not None:
                seen.append((context, result))
            return result

        def recorded(*arguments: Any, **named: Any) -> Any:
            seen: list[Any] = []
            token = _evaluations.set(seen)
            try:
                denied = enforce(*arguments, **named)
            finally:
                _evaluations.reset(token)
            if seen:
                # The first evaluation is of the caller's own policies; the resource's follow.
                context, own = seen[0]
                decision = ALLOW if denied is None else getattr(denied, "decision", "Deny")
                statement = own.matched_sid if own.decision == decision else ""
                role = context.principal_arn.split("/")[1]
                if iam._roles.get_scoped(context.principal_account, None, role) is None:
                    # After a stack's deletion, a session may briefly outlive its role. No policy refused the call.
                    return denied
                self._log.add(
                    context.principal_account, role, context.action, context.resource_arn, decision, statement
                )
            return denied

        replace("core.iam_evaluator.evaluate", observed)
        replace("core.iam_evaluator.enforce", recorded)

    def _condition_keys(self) -> None:
        """Add condition keys to requests: the namespace of metrics, and the tags of a role to assume.

        Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon CloudWatch"
        (``cloudwatch:namespace``) and "... for AWS Security Token Service" (``iam:ResourceTag/<key>``).
        """
        from ministack.core import iam_actions

        context_of = iam_actions.request_tag_context

        def with_more(service: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
            found = context_of(service, action, body, params)
            if action == "cloudwatch:PutMetricData" and body[:1] == b"{":
                found = {**found, "cloudwatch:namespace": json.loads(body).get("Namespace", "")}
            if action == "sts:AssumeRole":
                found = {**found, **_role_tags(params.get("RoleArn"))}
            return found

        replace("core.iam_actions.request_tag_context", with_more)

    def _named_alarms(self) -> None:
        """Check calls about alarms against the first named alarm, and about composite alarms against ``*``.

        Sources: Service Authorization Reference, "Actions, resources, and condition keys for Amazon CloudWatch"; Amazon
        CloudWatch API reference, DescribeAlarms and DescribeAlarmHistory (permissions "scoped to *");
        https://github.com/cdklabs/cdk-enterprise-iac/issues/202 (AWS refuses a narrower permission).
        """
        from ministack.core import iam_actions

        resource_of = iam_actions.extract_resource_arn

        def with_alarms(
            service: str,
            method: str,
            path: str,
            headers: dict[str, str],
            body: bytes,
            query_params: dict[str, Any],
            region: str,
            account_id: str,
        ) -> str:
            found = resource_of(service, method, path, headers, body, query_params, region, account_id)
            if service != "monitoring":
                return found
            if "CompositeAlarm" in _members(body, query_params, "AlarmTypes"):
                return "*"
            names = _members(body, query_params, "AlarmNames") if found == "*" else []
            return f"arn:aws:cloudwatch:{region}:{account_id}:alarm:{names[0]}" if names else found

        replace("core.iam_actions.extract_resource_arn", with_alarms)

    def _encrypted_transport(self, ministack_app: Any) -> None:
        """Count loopback as TLS, which clients of the real service use and bucket policies require."""
        pin = ministack_app.pin_request_origin
        replace("core.iam_evaluator.pin_request_origin", lambda address, secure: pin(address, True), ministack_app)

    def _checked_s3(self, handler: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
        ) -> Response:
            from ministack.core.iam_actions import access_denied_response

            if message := self.refusal(headers, query_params, _s3_permissions(method, path, headers, query_params)):
                return access_denied_response("s3", "", "", "", message=message, headers=headers)
            return await handler(method, path, headers, body, query_params)

        return handle

    def _trusted_functions(self) -> None:
        from ministack.core import lambda_runtime
        from ministack.services import lambda_svc, sts

        issue = lambda_runtime.execution_credentials

        def credentials(config: dict[str, Any]) -> dict[str, str]:
            if not self.trusts(config.get("Role", ""), "lambda.amazonaws.com", config["FunctionArn"]):
                raise RuntimeError("The role defined for the function cannot be assumed by Lambda.")
            # ministack's secrets are digests of public names.
            issued = issue(config)
            secret = derived_secret(issued[KEY_ID])
            sts._sessions[issued[KEY_ID]] |= {"SecretAccessKey": secret, "SessionToken": secret}
            return issued | {SECRET_KEY: secret, TOKEN: secret}

        replace("core.lambda_runtime.execution_credentials", credentials, lambda_runtime, lambda_svc)

    def _checked_targets(self) -> None:
        """Check rules' roles. Source: EventBridge user guide, "Using IAM roles for events in Amazon EventBridge"."""
        from ministack.services import eventbridge

        invoke = eventbridge._invoke_target

        def invoke_as_role(target: dict[str, Any], event: Any, rule: dict[str, Any], view: Any = None) -> None:
            role, arn = target.get("RoleArn", ""), target.get("Arn", "")
            # Schedules' targets also pass here, after their own check.
            if (
                ":rule/" in rule["Arn"]
                and ":states:" in arn
                and not (
                    role
                    and self.trusts(role, "events.amazonaws.com", rule["Arn"])
                    and self.allows(role, Permission("states:StartExecution", arn))
                )
            ):
                # The rule's metric counts the failed invocation, and no caller sees it.
                return
            invoke(target, event, rule, view)

        replace("services.eventbridge._invoke_target", invoke_as_role)

    def _checked_invocations(self) -> None:
        from ministack.services import lambda_svc, stepfunctions

        run, call = stepfunctions._run_execution, stepfunctions._call_lambda

        def run_as_machine(execution_arn: str) -> None:
            execution = stepfunctions._executions.get(execution_arn) or {}
            _machine.set(stepfunctions._state_machines.get(execution.get("stateMachineArn")))
            run(execution_arn)

        def call_as_machine(function: str, event: Any) -> Any:
            machine = _machine.get()
            if machine is not None:
                _, config, _ = lambda_svc._get_func_record_for_ref(function)
                needed = Permission("lambda:InvokeFunction", (config or {}).get("FunctionArn", function))
                role = machine["roleArn"]
                trusted = self.trusts(role, "states.amazonaws.com", machine["stateMachineArn"])
                if not trusted or not self.allows(role, needed):
                    raise stepfunctions._ExecutionError(
                        "Lambda.AWSLambdaException",
                        f"User: {role} is not authorized to perform: {needed.action} on resource: {needed.resource} "
                        f"because no identity-based policy allows the {needed.action} action"
                        if trusted
                        else f"Step Functions cannot assume the role {role}",
                    )
            return call(function, event)

        replace("services.stepfunctions._run_execution", run_as_machine)
        replace("services.stepfunctions._call_lambda", call_as_machine)


def _reason(action: str, denied: Any) -> str:
    """Return the end of IAM's message about a denial, which names the policy. An ``AuthError`` has no decision."""
    kind = "a resource-based" if getattr(denied, "resource_policy_arn", "") else "an identity-based"
    if getattr(denied, "decision", "") == "Deny":
        return f"with an explicit deny in {kind} policy"
    return f"because no {kind.partition(' ')[2]} policy allows the {action} action"


def _session(role_arn: str) -> str:
    """Return the access key of a role's session for SageMaker or Step Functions."""
    from ministack.services import sts

    account, name = role_arn.split(":")[4], role_arn.rpartition("/")[2]
    digest = derived_secret(role_arn)
    key = f"ASIA{digest[:16].upper()}"
    arn = f"arn:aws:sts::{account}:assumed-role/{name}/service"
    sts.register_session(
        key, {"Arn": arn, "UserId": f"{name}:service", "SecretAccessKey": digest, "SessionToken": digest}
    )
    return key


def _members(body: bytes, query_params: Mapping[str, Any], name: str) -> list[str]:
    """Return a list in a JSON or form request."""
    request: Any = json.loads(body) if body[:1] == b"{" else {}
    of_form = [value for key, value in sorted(query_params.items()) if key.startswith(f"{name}.member.")]
    return [*request.get(name, []), *(value[0] if isinstance(value, list) else value for value in of_form)]


def _role_tags(values: Any) -> dict[str, str]:
    from ministack.services import iam

    role_arn = str(values[0] if isinstance(values, list) else values)
    if role_arn.count(":") < 5:
        return {}
    role = iam._roles.get_scoped(role_arn.split(":")[4], None, role_arn.rpartition("/")[2]) or {}
    return {f"iam:resourcetag/{tag['Key']}".lower(): tag["Value"] for tag in role.get("Tags", [])}


def _s3_permissions(
    method: str, path: str, headers: Mapping[str, str], query: Mapping[str, Any]
) -> Iterator[Permission]:
    """Yield the permissions that a request for an object needs besides the S3 action."""
    from ministack.services import s3

    bucket, _, name = path.lstrip("/").partition("/")
    if not name or set(query) - {"x-id"}:
        return
    if method == "PUT":
        with as_owner_of(bucket):
            written, _ = s3._resolve_sse_write_headers(dict(headers), bucket)
        key = _key_arn((written or {}).get(_KEY_HEADER))
        if key is not None:
            yield through_s3("kms:GenerateDataKey", key)
    elif method in ("GET", "HEAD"):
        with as_owner_of(bucket):
            is_there = name in (s3._buckets.get(bucket) or {}).get("objects", {})
            key = _object_key(bucket, name) if is_there else None
        if not is_there:
            # Without permission to list, S3 returns 403 instead of 404. It uses the key as the prefix.
            yield Permission("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": name})
        elif key is not None:
            yield through_s3("kms:Decrypt", key)


def _object_key(bucket: str, name: str) -> str | None:
    from ministack.services import s3

    return _key_arn(s3._stored_sse_headers(s3._buckets[bucket]["objects"][name]).get(_KEY_HEADER))


def _key_arn(key: str | None) -> str | None:
    """Return a key's ARN. S3 also accepts its ID."""
    from ministack.core.responses import get_account_id, get_region

    if not key or key.startswith("arn:"):
        return key or None
    return f"arn:aws:kms:{get_region()}:{get_account_id()}:key/{key}"
