"""CloudFormation's refusals of templates, custom resources' responses and signals that ministack accepts, and what it
says of changes.

ministack itself refuses templates that exceed CloudFormation's own limits, and updates or change sets without changes.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable
from typing import Any

from constructs_optim_local.cloudformation.limits import LONGEST_MESSAGE
from constructs_optim_local.cloudformation.registry import recreation, resource_types
from constructs_optim_local.cloudformation.template_format import refuse_invalid, refuse_undeclared_parameters

from .patches import replace, table

_RESPONSES, _SIGNALS = "/_ministack/cfn-response/", "/_ministack/cfn-signal/"


def refuse_like_aws() -> None:
    """Install the refusals. Called once, before the first request."""
    _refuse_invalid_templates()
    _refuse_types_of_other_regions()
    _refuse_changed_types()
    _refuse_existing_log_groups()
    _refuse_existing_exports()
    _refuse_long_messages()
    _order_events()
    _say_what_is_replaced()


class _RefusedUpdate(Exception):
    """An update that CloudFormation refuses to begin."""


def _refuse_invalid_templates() -> None:
    """Refuse templates that are wrong in themselves, and values of parameters that they do not declare.

    Parameters are the first that each operation reads of a template; conditions that are wrong would fail right after.
    The message about circles is AWS's: https://github.com/aws/serverless-application-model/issues/1044.
    """
    from ministack.services.cloudformation import changesets, engine, handlers

    resolve, validate = engine._resolve_parameters, engine.validate_template_support

    def refuse(template: dict[str, Any]) -> None:
        # What a macro makes of the template is not known.
        if not isinstance(template, engine._TransformFailed) and not handlers._uses_macro(template):
            refuse_invalid(template)

    def resolve_parameters(template: dict[str, Any], provided: list[dict[str, Any]], *more: Any) -> Any:
        refuse(template)
        if not template.get("Transform"):
            refuse_undeclared_parameters(template, [given["Key"] for given in provided if "Key" in given])
        return resolve(template, provided, *more)

    def validate_template_support(
        template: dict[str, Any], conditions: dict[str, Any], params: dict[str, Any] | None = None
    ) -> None:
        # ValidateTemplate ignores that the parameters cannot be resolved, since it has no values of them.
        if params is None:
            refuse(template)
        validate(template, conditions, params)
        if not handlers._uses_macro(template):
            try:
                engine._topological_sort(template["Resources"], conditions)
            except ValueError as circle:
                names = str(circle).rpartition(": ")[2]
                raise ValueError(f"Circular dependency between resources: [{names}]") from circle

    replace("services.cloudformation.engine._resolve_parameters", resolve_parameters, engine, handlers, changesets)
    _replace_validation(validate_template_support)


def _replace_validation(validate_template_support: Callable[..., None]) -> None:
    """Replace the validation of templates by stacks and change sets."""
    from ministack.services.cloudformation import changesets, engine, handlers

    name = "services.cloudformation.engine.validate_template_support"
    replace(name, validate_template_support, engine, handlers, changesets)


def _refuse_types_of_other_regions() -> None:
    """Refuse resource types that CloudFormation does not support in the stack's Region.

    The message is AWS's: https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/342.
    """
    from ministack.core.responses import get_region
    from ministack.services.cloudformation import engine

    validate = engine.validate_template_support

    def validate_template_support(
        template: dict[str, Any], conditions: dict[str, Any], params: dict[str, Any] | None = None
    ) -> None:
        known = resource_types(get_region())
        if known is not None and isinstance(template.get("Resources"), dict) and not template.get("Transform"):
            used = {
                str(resource.get("Type"))
                for resource in template["Resources"].values()
                if isinstance(resource, dict) and conditions.get(str(resource.get("Condition")), True)
            }
            missing = sorted(name for name in used if name.startswith("AWS::") and name not in known)
            if missing:
                raise ValueError(f"Template format error: Unrecognized resource types: [{', '.join(missing)}]")
        validate(template, conditions, params)

    _replace_validation(validate_template_support)


def _refuse_changed_types() -> None:
    """Refuse an update that gives a logical ID another resource type.

    The message is AWS's: https://github.com/aws-quickstart/quickstart-amazon-eks/issues/361. Users report a
    ValidationError, or a failed change set with this message (https://github.com/aws/aws-sam-cli/issues/6786). Here it
    is a ValidationError.
    """
    from ministack.services.cloudformation import changesets, handlers
    from ministack.services.cloudformation.helpers import _error

    diff, has_no_updates = changesets._diff_resources, handlers._stack_has_no_updates

    def check(resources: dict[str, Any] | None, template: dict[str, Any]) -> None:
        declared = template.get("Resources") or {}
        changed = [
            logical_id
            for logical_id, resource in (resources or {}).items()
            if logical_id in declared and declared[logical_id].get("Type") != resource.get("ResourceType")
        ]
        if changed:
            raise _RefusedUpdate(
                "Update of resource type is not permitted. The new template modifies resource type of the following "
                f"resources: [{', '.join(sorted(changed))}]"
            )

    def diff_resources(
        old: dict[str, Any], new: dict[str, Any], resources: dict[str, Any] | None = None, *more: Any
    ) -> Any:
        check(resources, new)
        return diff(old, new, resources, *more)

    def stack_has_no_updates(stack: dict[str, Any], template: dict[str, Any], *more: Any) -> bool:
        check(stack.get("_resources"), template)
        return has_no_updates(stack, template, *more)

    replace("services.cloudformation.stacks._diff_resources", diff_resources, changesets)
    replace("services.cloudformation.handlers._stack_has_no_updates", stack_has_no_updates)
    actions = table("services.cloudformation.handlers._ACTION_HANDLERS")

    def refusing(action: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def carry_out(params: Any) -> Any:
            try:
                return action(params)
            except _RefusedUpdate as refused:
                return _error("ValidationError", str(refused))

        return carry_out

    for name in ("CreateChangeSet", "UpdateStack"):
        actions[name] = refusing(actions[name])


def _refuse_existing_log_groups() -> None:
    """Refuse to create a log group that exists, which ministack would replace by an empty one.

    Source of the error: CreateHandler of AWS::Logs::LogGroup, and the message of its CfnAlreadyExistsException
    (https://github.com/aws-cloudformation/aws-cloudformation-resource-providers-logs).
    """
    from ministack.services import cloudwatch_logs

    handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")["AWS::Logs::LogGroup"]
    create = handlers["create"]

    def create_log_group(logical_id: str, properties: dict[str, Any], stack_name: str) -> Any:
        name = properties.get("LogGroupName")
        if name in cloudwatch_logs._log_groups:
            raise ValueError(
                "Resource handler returned message: \"Resource of type 'AWS::Logs::LogGroup' with identifier "
                f"'{name}' already exists.\" (HandlerErrorCode: AlreadyExists)"
            )
        return create(logical_id, properties, stack_name)

    handlers["create"] = create_log_group


def _refuse_existing_exports() -> None:
    """Refuse to export a name that another stack of the account and Region exports.

    The message is AWS's: https://github.com/aws-solutions/aws-waf-security-automations/issues/268. An update that no
    longer exports a name makes it free.
    """
    from ministack.services import cloudformation
    from ministack.services.cloudformation import stacks

    resolve = stacks._resolve_stack_outputs

    # Outputs are the last of a deployment that can fail.
    def resolve_stack_outputs(*arguments: Any) -> tuple[Any, dict[str, Any]]:
        stack_id: str = arguments[-1]
        outputs, exports = resolve(*arguments)
        known = cloudformation._exports
        for name in exports:
            owner = known[name]["StackId"] if name in known else stack_id
            if owner != stack_id:
                raise ValueError(f"Export with name {name} is already exported by stack {owner.split('/')[1]}")
        for name in [name for name, exported in known.items() if exported["StackId"] == stack_id]:
            if name not in exports:
                del known[name]
        return outputs, exports

    replace("services.cloudformation.stacks._resolve_stack_outputs", resolve_stack_outputs, stacks)


def _refuse_long_messages() -> None:
    """Refuse responses of custom resources and signals of more than 4,096 bytes.

    Source of the message about responses: https://github.com/aws/aws-cdk/issues/23958. CloudFormation's handling of
    such a signal is not documented; here, its sender gets status 400 and nothing is signaled.
    """
    import ministack.app as ministack_app
    from ministack.services.cloudformation import custom_resource

    handle = ministack_app._handle_post_body_shortcuts

    async def handle_post_body_shortcuts(
        method: str, path: str, headers: dict[str, str], body: bytes, *more: Any
    ) -> Any:
        if method == "PUT" and len(body) > LONGEST_MESSAGE:
            if path.startswith(_RESPONSES):
                failed = {"Status": "FAILED", "Reason": "Response object is too long."}
                custom_resource.deliver_response(path.removeprefix(_RESPONSES), failed)
                return 200, {}, b""
            if path.startswith(_SIGNALS):
                refused = f"the signal has more than {LONGEST_MESSAGE} bytes, the most for wait condition data"
                return 400, {"Content-Type": "application/json"}, json.dumps({"message": refused}).encode()
        return await handle(method, path, headers, body, *more)

    replace("app._handle_post_body_shortcuts", handle_post_body_shortcuts)


def _order_events() -> None:
    """Give every stack event a unique time, because clients sort by it and would swap simultaneous events."""
    from ministack.services.cloudformation import stacks

    lock = threading.Lock()
    last = dt.datetime.fromtimestamp(0, dt.UTC)

    def now_iso() -> str:
        nonlocal last
        with lock:
            last = max(dt.datetime.now(dt.UTC), last + dt.timedelta(milliseconds=1))
            return last.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    replace("core.responses.now_iso", now_iso, stacks)


def _say_what_is_replaced() -> None:
    """Let change sets say which changes replace a resource, by the type's schema. ministack has a list of few types."""
    from ministack.core.responses import get_region
    from ministack.services.cloudformation import stacks

    def property_recreation(resource_type: str, name: str) -> str:
        return recreation(resource_type, name, get_region())

    # Only in the reports: in updates, ministack's own list decides what it replaces.
    replace("services.cloudformation.provisioners._property_recreation", property_recreation, stacks)
