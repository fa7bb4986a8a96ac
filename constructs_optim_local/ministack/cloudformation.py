"""Corrects ministack's CloudFormation where it differs from AWS's: custom resources and deletions.

- AWS invokes a custom resource's function asynchronously: Lambda retries a failed invocation according to its
  EventInvokeConfig. Sources: CloudFormation user guide, "Lambda-backed custom resources"; Lambda developer guide, "How
  Lambda handles errors and retries with asynchronous invocation".
- AWS sends a presigned response URL, with a date.
- AWS deletes a custom resource whose creation failed, with the physical ID of its response or a generated one. Source:
  CloudFormation user guide, "Custom resource request types".
- AWS cancels a creation if its stack is deleted, and invokes the function with Delete while Create may still run.
  Sources: https://github.com/aws/aws-cdk/issues/13782 (a stack deleted during its custom resource's creation),
  https://github.com/aws/aws-cdk/issues/26139 ("Resource creation cancelled", then Delete before Create is done).
- If a resource cannot be deleted, AWS keeps its dependencies. If that fails a rollback, the stack keeps the resource.
  Deleting the stack again finds both. Source: CloudFormation user guide, "Delete stack fails" and "Rollback failed".
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from constructs_optim_local.faults import Faults

from .patches import replace, table
from .templates import refuse_like_aws
from .workers import with_error_type

_EVENT_MEMBERS = {"RequestType", "ResponseURL", "StackId", "RequestId"}
_SECOND_DELIVERY_SECONDS = 0.5
_LONGEST_END_SECONDS = 2.0
_POLL_SECONDS = 0.2
_CANCELLED = "Resource creation cancelled"


def behave_like_aws(faults: Faults) -> None:
    """Patch ministack's CloudFormation in this process."""
    creations = _Creations()
    _invoke_asynchronously(faults)
    _let_functions_end()
    _follow_creations(creations)
    _delete_failed_creations(creations)
    _keep_what_failed_deletions_need()
    _cancel_creations(creations)
    refuse_like_aws()


def _now() -> str:
    """Return the time in CloudFormation's format, which clients parse for each resource."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_Location = tuple[str, str]


class _Creations:
    """Custom resources in creation, and those whose creation failed, by stack and logical ID.

    A failed creation is recorded like a resource of its stack, so that the stack deletes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled: set[str] = set()
        self._tokens: dict[_Location, str] = {}
        self._physical_ids: dict[_Location, str] = {}
        self._failed: dict[_Location, dict[str, Any]] = {}

    def is_cancelled(self, stack_id: str) -> bool:
        return stack_id in self._cancelled

    def refuse_cancelled(self, stack_id: str) -> None:
        if self.is_cancelled(stack_id):
            raise RuntimeError(_CANCELLED)

    def begin(self, location: _Location) -> None:
        with self._lock:
            self.refuse_cancelled(location[0])
            self._physical_ids.pop(location, None)

    def record_token(self, location: _Location, token: str) -> None:
        with self._lock:
            self._tokens[location] = token

    def record_response(self, response: dict[str, Any]) -> None:
        with self._lock:
            location = (str(response.get("StackId")), str(response.get("LogicalResourceId")))
            self._physical_ids[location] = str(response.get("PhysicalResourceId") or "")

    def end(self, location: _Location) -> None:
        with self._lock:
            self._tokens.pop(location, None)

    def fail(self, location: _Location, stack_name: str, type_name: str, properties: dict[str, Any]) -> None:
        with self._lock:
            generated = f"{stack_name}-{location[1]}-{secrets.token_hex(6).upper()}"
            self._failed[location] = {
                "PhysicalResourceId": self._physical_ids.pop(location, "") or generated,
                "ResourceType": type_name,
                "ResourceStatus": "CREATE_FAILED",
                "LogicalResourceId": location[1],
                "Properties": properties,
                "Attributes": {},
                "Timestamp": _now(),
            }

    def cancel(self, stack_id: str) -> dict[str, str]:
        """Prevent further creations of a stack. Return the response tokens of those in progress, by logical ID."""
        with self._lock:
            self._cancelled.add(stack_id)
            return {location[1]: token for location, token in self._tokens.items() if location[0] == stack_id}

    def take_failed(self, stack_id: str) -> dict[str, dict[str, Any]]:
        """Return and forget the failed creations of a stack, by logical ID."""
        with self._lock:
            locations = [location for location in self._failed if location[0] == stack_id]
            return {location[1]: self._failed.pop(location) for location in locations}


def _invoke_asynchronously(faults: Faults) -> None:
    from ministack.services import lambda_svc

    execute = lambda_svc._execute_function_with_config_scope

    def invoke(function: dict[str, Any], event: Any) -> dict[str, Any]:
        if not isinstance(event, dict) or not set(event) >= _EVENT_MEMBERS:
            return execute(function, event)
        lambda_svc.invoke_async_with_retry(function, event)
        if faults.strikes("event_twice", event["RequestType"]):
            again = threading.Timer(
                _SECOND_DELIVERY_SECONDS, lambda_svc.invoke_async_with_retry, args=(function, event)
            )
            again.daemon = True
            again.start()
        return {}

    replace("services.lambda_svc._execute_function_with_config_scope", invoke)


def _let_functions_end() -> None:
    """Let the step after a custom resource's response wait for the function's end.

    A function responds before it ends, and ministack writes its log afterwards, to a new log group if needed. On AWS, a
    role without ``logs:CreateLogGroup`` does not recreate a group. Therefore, the next step, which may delete the
    group, waits for the function's end, with a time limit for functions that hang.
    """
    from ministack.services import lambda_svc
    from ministack.services.cloudformation import custom_resource

    execute, invoke = lambda_svc._execute_function, custom_resource.invoke_custom_resource
    running: dict[str, int] = {}
    changed = threading.Condition()

    def execute_function(function: dict[str, Any], event: Any) -> dict[str, Any]:
        stack_id = event.get("StackId", "") if isinstance(event, dict) and set(event) >= _EVENT_MEMBERS else ""
        with changed:
            running[stack_id] = running.get(stack_id, 0) + 1
        try:
            return with_error_type(execute(function, event))
        finally:
            with changed:
                running[stack_id] -= 1
                changed.notify_all()

    def invoke_custom_resource(*arguments: Any, **more: Any) -> tuple[str, dict[str, Any]]:
        # The fifth argument is the stack's ID.
        stack_id = more.get("stack_id") or arguments[4]
        try:
            return invoke(*arguments, **more)
        finally:
            with changed:
                changed.wait_for(lambda: not running.get(stack_id), timeout=_LONGEST_END_SECONDS)

    replace("services.lambda_svc._execute_function", execute_function)
    replace("services.cloudformation.custom_resource.invoke_custom_resource", invoke_custom_resource)


def _follow_creations(creations: _Creations) -> None:
    from ministack.services.cloudformation import custom_resource

    invoke, deliver = custom_resource.invoke_custom_resource, custom_resource.deliver_response
    creating: ContextVar[_Location | None] = ContextVar("creating", default=None)

    def invoke_custom_resource(
        request_type: str,
        logical_id: str,
        props: dict[str, Any],
        stack_name: str,
        stack_id: str,
        resource_type: str,
        physical_id: str | None = None,
        old_props: dict[str, Any] | None = None,
    ) -> tuple[str, dict[str, Any]]:
        arguments = (logical_id, props, stack_name, stack_id, resource_type, physical_id, old_props)
        if request_type != "Create":
            return invoke(request_type, *arguments)
        if "ServiceToken" not in props:
            # No function could delete it, so its failed creation is not recorded. AWS requires the token
            # (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html);
            # its message is not documented.
            raise ValueError(f"the custom resource {logical_id} has no ServiceToken")
        location = (stack_id, logical_id)
        creations.begin(location)
        context = creating.set(location)
        try:
            return invoke(request_type, *arguments)
        except Exception:
            creations.fail(location, stack_name, resource_type, props)
            raise
        finally:
            creating.reset(context)
            creations.end(location)

    def deliver_response(token: str, response: dict[str, Any]) -> bool:
        creations.record_response(response)
        return deliver(token, response)

    response_url = custom_resource._response_url

    def dated_response_url(token: str) -> str:
        location = creating.get()
        if location is not None:
            creations.record_token(location, token)
        now = dt.datetime.now(dt.UTC)
        return f"{response_url(token)}?X-Amz-Date={now:%Y%m%dT%H%M%SZ}&X-Amz-Expires=7200"

    replace("services.cloudformation.custom_resource.invoke_custom_resource", invoke_custom_resource)
    replace("services.cloudformation.custom_resource.deliver_response", deliver_response)
    replace("services.cloudformation.custom_resource._response_url", dated_response_url)


def _delete_failed_creations(creations: _Creations) -> None:
    from ministack.services.cloudformation import handlers, stacks

    roll_back = stacks._roll_back_operation

    async def roll_back_operation(
        stack_name: str, stack_id: str, stack: dict[str, Any], operation: dict[str, Any], reason_override: str = ""
    ) -> None:
        if stack["StackStatus"].startswith("DELETE_"):
            return
        failed = creations.take_failed(stack_id)
        stack.setdefault("_resources", {}).update(failed)
        operation["created"] = [*operation.get("created", []), *failed]
        await roll_back(stack_name, stack_id, stack, operation, reason_override)
        if stack["StackStatus"] == "ROLLBACK_FAILED":
            stack["_template"] = operation.get("template") or {}
            for name, left in stack.get("_rollback_failed", {}).items():
                stack["_resources"][name] = {"LogicalResourceId": name, "Attributes": {}, "Timestamp": _now(), **left}

    replace("services.cloudformation.stacks._roll_back_operation", roll_back_operation, stacks, handlers)


def _cancel_creations(creations: _Creations) -> None:
    """Let a stack's deletion cancel creations in progress, and wait for the deployment's end."""
    from ministack.services import cloudformation
    from ministack.services.cloudformation import changesets, custom_resource, handlers, stacks, wait_conditions

    deploy, provision, delete = (
        stacks._deploy_stack_async,
        stacks._provision_keeping_seed,
        stacks._delete_stack_async,
    )
    deploying: set[str] = set()

    def provision_keeping_seed(
        type_name: str, logical_id: str, properties: dict[str, Any], stack_name: str
    ) -> tuple[Created, str]:
        creations.refuse_cancelled(cloudformation._stacks[stack_name]["StackId"])
        return provision(type_name, logical_id, properties, stack_name)

    def cancel(stack_id: str) -> None:
        for logical_id, token in creations.cancel(stack_id).items():
            failure = {"StackId": stack_id, "LogicalResourceId": logical_id, "Status": "FAILED", "Reason": _CANCELLED}
            custom_resource.deliver_response(token, failure)
        for (waiting, logical_id), condition in list(wait_conditions._waiting.items()):
            if waiting == stack_id:
                failure = {"UniqueId": logical_id, "Status": "FAILURE", "Reason": _CANCELLED, "Data": ""}
                wait_conditions.deliver_signal(condition["token"], failure)

    async def deploy_stack_async(stack_name: str, stack_id: str, *arguments: Any, **more: Any) -> None:
        deploying.add(stack_id)
        try:
            await deploy(stack_name, stack_id, *arguments, **more)
        finally:
            deploying.remove(stack_id)
            if creations.is_cancelled(stack_id):
                cloudformation._stacks[stack_name]["StackStatus"] = "DELETE_IN_PROGRESS"

    async def delete_stack_async(stack_name: str, stack_id: str, *arguments: Any, **more: Any) -> None:
        stack = cloudformation._stacks[stack_name]
        if stack_id in deploying:
            stack["StackStatus"] = "DELETE_IN_PROGRESS"
            cancel(stack_id)
            while stack_id in deploying:
                await asyncio.sleep(_POLL_SECONDS)
        stack.setdefault("_resources", {}).update(creations.take_failed(stack_id))
        await delete(stack_name, stack_id, *arguments, **more)

    replace("services.cloudformation.stacks._provision_keeping_seed", provision_keeping_seed)
    replace("services.cloudformation.stacks._deploy_stack_async", deploy_stack_async, stacks, handlers, changesets)
    replace("services.cloudformation.stacks._delete_stack_async", delete_stack_async, stacks, handlers)


def _keep_what_failed_deletions_need() -> None:
    from ministack.core.responses import get_account_id, get_region
    from ministack.services.cloudformation import handlers, stacks

    delete_resource, delete_stack, roll_back = (
        stacks._delete_resource,
        stacks._delete_stack_async,
        stacks._roll_back_operation,
    )
    # By account, Region and stack name: the declared resources, and those that must stay.
    declared: dict[tuple[str, str, str], dict[str, Any]] = {}
    kept: dict[tuple[str, str, str], set[str]] = {}

    def location(stack_name: str) -> tuple[str, str, str]:
        return get_account_id(), get_region(), stack_name

    def delete(type_name: str, physical_id: str, properties: Any, stack_name: str, logical_id: str) -> None:
        stack = location(stack_name)
        if logical_id in kept.get(stack, ()):
            raise RuntimeError(f"a resource that depends on {logical_id} could not be deleted")
        try:
            delete_resource(type_name, physical_id, properties, stack_name, logical_id)
        except Exception:
            resources = declared.get(stack, {})
            needed = stacks._with_dependencies([logical_id], resources, set(resources)) - {logical_id}
            kept.setdefault(stack, set()).update(needed)
            raise

    async def delete_stack_async(stack_name: str, *arguments: Any, **more: Any) -> None:
        from ministack.services.cloudformation import _stacks

        template = (_stacks.get(stack_name) or {}).get("_template") or {}
        declared[location(stack_name)] = template.get("Resources", {})
        kept.pop(location(stack_name), None)
        await delete_stack(stack_name, *arguments, **more)

    async def roll_back_operation(stack_name: str, stack_id: str, stack: Any, operation: Any, *more: Any) -> None:
        declared[location(stack_name)] = (operation.get("template") or {}).get("Resources", {})
        kept.pop(location(stack_name), None)
        await roll_back(stack_name, stack_id, stack, operation, *more)

    replace("services.cloudformation.provisioners._delete_resource", delete, stacks)
    replace("services.cloudformation.stacks._delete_stack_async", delete_stack_async, stacks, handlers)
    replace("services.cloudformation.stacks._roll_back_operation", roll_back_operation, stacks, handlers)


Properties = dict[str, Any]
Created = tuple[str, Any]


def keep_properties() -> None:
    """Make CloudFormation apply properties that ministack drops. Called once, before the first request."""
    _after("AWS::IAM::Role", _bound)
    _after("AWS::S3::Bucket", _encrypt)


def _after(type_name: str, apply: Callable[[str, Properties], None]) -> None:
    handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")[type_name]
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Properties, stack_name: str) -> Created:
        result = create(logical_id, properties, stack_name)
        apply(result[0], properties)
        return result

    def updated(physical_id: str, old: Properties, new: Properties, *rest: Any, **named: Any) -> Created:
        result = update(physical_id, old, new, *rest, **named)
        apply(result[0], new)
        return result

    handlers |= {"create": created, "update": updated}


def _bound(role: str, properties: Properties) -> None:
    from ministack.services import iam

    iam._roles[role]["PermissionsBoundary"] = properties.get("PermissionsBoundary")


def _encrypt(bucket: str, properties: Properties) -> None:
    from ministack.services import s3

    rules = properties.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
    # ministack lacks the AWS managed key aws/s3, for buckets without a key.
    if not any("KMSMasterKeyID" in rule.get("ServerSideEncryptionByDefault", {}) for rule in rules):
        s3._delete_bucket_encryption(bucket)
        return
    status, _, content = s3._put_bucket_encryption(bucket, _encryption(rules))
    if status != 200:
        raise ValueError(f"AWS::S3::Bucket Properties.BucketEncryption: {content.decode()}")


def _encryption(rules: list[Properties]) -> bytes:
    """Return the body of PutBucketEncryption, whose name for the default differs from templates'."""
    root = ET.Element("ServerSideEncryptionConfiguration")
    for rule in rules:
        written = ET.SubElement(root, "Rule")
        by_default = ET.SubElement(written, "ApplyServerSideEncryptionByDefault")
        for name, value in rule.get("ServerSideEncryptionByDefault", {}).items():
            ET.SubElement(by_default, name).text = str(value)
        ET.SubElement(written, "BucketKeyEnabled").text = str(rule.get("BucketKeyEnabled", False)).lower()
    return ET.tostring(root)
