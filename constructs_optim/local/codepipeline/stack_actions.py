"""Deploy actions by CloudFormation.

Source: CodePipeline user guide, "AWS CloudFormation deploy action reference" (action modes, template configuration,
parameter overrides, output file, output variables). Reports of users say that a change set without changes fails no
action. Assumed, for no source says so: the words of an action whose stack fails.
"""

from __future__ import annotations

import json
import secrets
import zipfile
from typing import Any

import yaml
from botocore.exceptions import ClientError

from ..zip_archives import pack, read_member
from .action_context import CONFIGURATION, JOB, ActionContext
from .executions import ActionFailed

_LOOK_SECONDS = 0.2
_SETTLED = ("COMPLETE", "FAILED")
_NO_CHANGES = ("didn't contain changes", "No updates are to be performed", "no changes")
_REPLACED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED")
_GOOD = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


def stack_action(action: ActionContext) -> None:
    """Do what the action's mode says."""
    match action.run.configuration["ActionMode"]:
        case "CHANGE_SET_REPLACE":
            _replace_change_set(action)
        case "CHANGE_SET_EXECUTE":
            _execute_change_set(action)
        case "DELETE_ONLY":
            _delete(action)
        case mode:
            _create_or_update(action, replaces=mode == "REPLACE_ON_FAILURE")


def _replace_change_set(action: ActionContext) -> None:
    cloudformation, given = action.client("cloudformation"), action.run.configuration
    stack, name = given["StackName"], given["ChangeSetName"]
    found = _stack(cloudformation, stack)
    is_new = found is None or found["StackStatus"] == "REVIEW_IN_PROGRESS"
    if found is not None:
        cloudformation.delete_change_set(StackName=stack, ChangeSetName=name)
    with _Template(action) as template:
        made = cloudformation.create_change_set(
            StackName=stack, ChangeSetName=name, ChangeSetType="CREATE" if is_new else "UPDATE", **template
        )
        action.run.external_id = made["Id"]
        described = action.until(lambda: _settled_change_set(cloudformation, stack, name), _LOOK_SECONDS)
    reason = described.get("StatusReason", "")
    if described["Status"] == "FAILED" and not _is_empty(described):
        raise ActionFailed(JOB, f"Change set {name} of stack {stack} could not be created: {reason}")
    action.run.summary = f"Change set {name} was created." if described["Status"] != "FAILED" else reason


def _execute_change_set(action: ActionContext) -> None:
    cloudformation, given = action.client("cloudformation"), action.run.configuration
    stack, name = given["StackName"], given["ChangeSetName"]
    described = cloudformation.describe_change_set(StackName=stack, ChangeSetName=name)
    action.run.external_id = described.get("StackId", "")
    if described["Status"] == "FAILED" and _is_empty(described):
        action.run.summary = "Execution of the change set was skipped because it is empty."
        _hand_on_outputs(action, _stack(cloudformation, stack) or {})
        return
    cloudformation.execute_change_set(StackName=stack, ChangeSetName=name)
    _finish(action, cloudformation, stack)


def _create_or_update(action: ActionContext, *, replaces: bool) -> None:
    cloudformation, stack = action.client("cloudformation"), action.run.configuration["StackName"]
    found = _stack(cloudformation, stack)
    if found is not None and replaces and found["StackStatus"] in _REPLACED:
        _delete(action)
        found = None
    with _Template(action) as template:
        if found is None:
            made = cloudformation.create_stack(StackName=stack, **template)
        else:
            try:
                made = cloudformation.update_stack(StackName=stack, **template)
            except ClientError as error:
                if not any(text in str(error) for text in _NO_CHANGES):
                    raise
                action.run.external_id, action.run.summary = found["StackId"], "No updates are to be performed."
                _hand_on_outputs(action, found)
                return
        action.run.external_id = made["StackId"]
        _finish(action, cloudformation, stack)


def _delete(action: ActionContext) -> None:
    cloudformation, given = action.client("cloudformation"), action.run.configuration
    found = _stack(cloudformation, given["StackName"])
    if found is None:
        return
    action.run.external_id = found["StackId"]
    cloudformation.delete_stack(StackName=found["StackId"], **_role(given))
    settled = action.until(lambda: _settled_stack(cloudformation, found["StackId"]), _LOOK_SECONDS)
    if settled["StackStatus"] != "DELETE_COMPLETE":
        raise ActionFailed(JOB, _failure(cloudformation, settled))


def _finish(action: ActionContext, cloudformation: Any, stack: str) -> None:
    """Wait until a stack has settled, and hand on what it gives."""
    settled = action.until(lambda: _settled_stack(cloudformation, stack), _LOOK_SECONDS)
    if settled["StackStatus"] not in _GOOD:
        raise ActionFailed(JOB, _failure(cloudformation, settled))
    action.run.summary = f"Stack {stack} was deployed."
    _hand_on_outputs(action, settled)


def _hand_on_outputs(action: ActionContext, stack: dict[str, Any]) -> None:
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
    action.run.variables = outputs
    artifacts, file = action.run.declaration["outputArtifacts"], action.run.configuration.get("OutputFileName")
    if artifacts and file:
        (action.folder / "outputs").write_text(json.dumps(outputs), encoding="utf-8")
        pack({file: action.folder / "outputs"}, action.folder / "outputs.zip")
        action.new_output(artifacts[0]["name"]).put(action.client("s3"), action.folder / "outputs.zip")


def _failure(cloudformation: Any, stack: dict[str, Any]) -> str:
    """What the stack's own events give as the reason, the first failure first."""
    events = list[str]()
    for event in cloudformation.describe_stack_events(StackName=stack["StackId"])["StackEvents"]:
        reason = event.get("ResourceStatusReason", "")
        if event["ResourceStatus"].endswith("_FAILED") and reason and "cancelled" not in reason:
            events.insert(0, f"{event['LogicalResourceId']}: {reason}")
        # Newest first: what came before the operation began is another deployment's.
        if event["LogicalResourceId"] == stack["StackName"] and event["ResourceStatus"] in (
            "CREATE_IN_PROGRESS",
            "UPDATE_IN_PROGRESS",
            "DELETE_IN_PROGRESS",
        ):
            break
    reasons = "; ".join(events) or stack.get("StackStatusReason", "")
    return f"Stack {stack['StackName']} is {stack['StackStatus']}: {reasons}"


def _stack(cloudformation: Any, name: str) -> dict[str, Any] | None:
    try:
        (found,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return found


def _settled_stack(cloudformation: Any, name: str) -> dict[str, Any] | None:
    found = _stack(cloudformation, name)
    if found is None:
        raise ActionFailed(JOB, f"Stack {name} was deleted meanwhile")
    status = found["StackStatus"]
    # UPDATE_COMPLETE_CLEANUP_IN_PROGRESS is not the end.
    return found if status.endswith(_SETTLED) else None


def _settled_change_set(cloudformation: Any, stack: str, name: str) -> dict[str, Any] | None:
    found = cloudformation.describe_change_set(StackName=stack, ChangeSetName=name)
    return found if found["Status"].endswith(_SETTLED) else None


def _is_empty(change_set: dict[str, Any]) -> bool:
    return any(text in change_set.get("StatusReason", "") for text in _NO_CHANGES)


def _role(given: dict[str, str]) -> dict[str, str]:
    return {"RoleARN": given["RoleArn"]} if given.get("RoleArn") else {}


class _Template:
    """The template and its settings as members of a request; the object that carries it is there for as long."""

    def __init__(self, action: ActionContext) -> None:
        self._action = action
        self._s3 = action.clients.client("s3", action.own, action.region)
        self._key = f"{action.pipeline.name[:20]}/templates/{secrets.token_hex(8)}"

    def __enter__(self) -> dict[str, Any]:
        action, given = self._action, self._action.run.configuration
        template = _member(action, given["TemplatePath"])
        settings = self._settings(given.get("TemplateConfiguration", ""))
        overrides = action.json("ParameterOverrides", dict)
        parameters = {**settings.get("Parameters", {}), **{name: _text(value) for name, value in overrides.items()}}
        bucket = action.store["location"]
        self._s3.put_object(Bucket=bucket, Key=self._key, Body=template)
        capabilities = [item for item in given.get("Capabilities", "").split(",") if item]
        tags = [{"Key": key, "Value": value} for key, value in settings.get("Tags", {}).items()]
        return {
            "TemplateURL": f"{self._s3.meta.endpoint_url}/{bucket}/{self._key}",
            "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            **_role(given),
            **({"Capabilities": capabilities} if capabilities else {}),
            **({"Tags": tags} if tags else {}),
        }

    def __exit__(self, *raised: object) -> None:
        self._s3.delete_object(Bucket=self._action.store["location"], Key=self._key)

    def _settings(self, place: str) -> dict[str, Any]:
        """The file of parameters and tags that stands beside the template."""
        if not place:
            return {}
        try:
            found = yaml.safe_load(_member(self._action, place))
        except yaml.YAMLError as error:
            raise ActionFailed(CONFIGURATION, f"TemplateConfiguration {place} is no JSON: {error}") from None
        return found if isinstance(found, dict) else {}


def _member(action: ActionContext, place: str) -> bytes:
    """A file of an input artifact, given as ``<artifact>::<path>``."""
    artifact, _, path = place.partition("::")
    if artifact not in action.run.inputs:
        raise ActionFailed(CONFIGURATION, f"{artifact} of {place} is none of the action's input artifacts")
    try:
        content = read_member(action.fetched(artifact), path)
    except zipfile.BadZipFile as error:
        raise ActionFailed(CONFIGURATION, f"The artifact {artifact} is no zip archive: {error}") from None
    if content is None:
        raise ActionFailed(CONFIGURATION, f"File [{path}] does not exist in artifact [{artifact}]")
    return content


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
