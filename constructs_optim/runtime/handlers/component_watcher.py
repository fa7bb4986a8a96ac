"""One poll of an inference component by the state machine: a step toward CloudFormation's request, or the response."""

from __future__ import annotations

import hashlib
import time
import urllib.error
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import DONE, Output, again, poll_or_give_up, respond
from ..documents import is_component_arn, is_object, not_created, object_in
from ..errors import DeploymentError, InvalidEvent, code_of, message_of
from ..immutable_resources import retag
from ..jobs.sagemaker_jobs import is_not_found, typed
from ..requests.properties import ComponentProperties, ComponentWatch, Tag, validate
from ..telemetry import Counted, LambdaContext, entry_point, log

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

_SECONDS = 10
# A name alone does not prove that this resource created a component: names are the user's, and unique in an account and
# Region. The value fits into a tag's 256 characters. statements.toml permits deletions by this tag.
_OWNER = "constructs-optim:owner"
_IN_PROGRESS = ("Creating", "Updating", "Deleting")


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input with the last poll, and ``Error`` if the state machine failed."""
    watch = validate(ComponentWatch, event)
    component = _Component(client("sagemaker"), watch)
    if watch.settle and not watch.look:
        # A call by the earlier request's watcher may still take effect.
        return again(_SECONDS)
    if time.time() >= watch.until:
        last = watch.look.get("Reason") or "SageMaker has not finished"
        return component.end(f"the inference component took longer than the hour that CloudFormation waits: {last}")
    return poll_or_give_up(
        watch.error,
        component.poll,
        lambda reason: component.end(f"polling the inference component failed: {reason}. Deploy again"),
    )


class _Component:
    """The inference component of a request."""

    def __init__(self, sagemaker: SageMakerClient, watch: ComponentWatch) -> None:
        self._sagemaker, self.event, self._was_asked = sagemaker, watch.event, bool(watch.look.get("Asked"))
        self._props = validate(ComponentProperties, self.event["ResourceProperties"])
        logical_id = hashlib.sha256(self.event["LogicalResourceId"].encode()).hexdigest()[:16]
        self._owner = f"{self.event['StackId']}/{logical_id}"
        self._arn: str | None = None

    def poll(self) -> Output:
        """Take the next step toward the request, or respond."""
        try:
            return self.delete() if self.event["RequestType"] == "Delete" else self.ensure()
        except DeploymentError as error:
            return self.end(str(error))

    def ensure(self) -> Output:
        """Create or update the component, and respond when it is in service."""
        name = self._props.inference_component_name
        if (stale := self._stale_name()) is not None and self._is_there_still(stale):
            return again(_SECONDS)
        found = self._describe(name)
        if found is None:
            self._call("create", VariantName=self._props.variant_name, EndpointName=self._props.endpoint_name)
            return self._asked()
        is_here = self._is_here(found)
        if not is_here or not (self._was_asked or self._owns(found)):
            raise DeploymentError(
                f"the endpoint {found['EndpointName']} already has an inference component {name}: names are unique in "
                "an account and Region, and this resource did not create it. Next: delete it, or change the name or id "
                "of this one"
            )
        arn, status = found["InferenceComponentArn"], found["InferenceComponentStatus"]
        self._arn = arn
        if status in _IN_PROGRESS:
            return again(_SECONDS) | {"Asked": self._was_asked}
        reason = found.get("FailureReason")
        if status == "Failed":
            if self._was_asked:
                raise DeploymentError(f"the inference component {name} failed: {reason}")
            # It failed in an earlier deployment.
            self._is_there_still(name)
            return again(_SECONDS)
        wanted = self._request(self._props)
        if self._was_asked:
            if reason or not _has(found["Specification"], wanted["Specification"]):
                raise DeploymentError(f"SageMaker rolled back the update of the inference component {name}: {reason}")
        elif self._differs(found, wanted):
            deployment = {"DeploymentConfig": self._props.deployment_config} if self._props.deployment_config else {}
            self._call("update", **deployment)
            return self._asked()
        retag(self._sagemaker, arn, self._tags)
        return self.end()

    def delete(self) -> Output:
        """Delete the component, and respond when it is gone."""
        physical_id = self.event.get("PhysicalResourceId")
        # Without an ARN, the creation failed or its response was lost.
        is_known = is_component_arn(physical_id)
        name = physical_id.rpartition("/")[2] if is_known else self._props.inference_component_name
        return again(_SECONDS) | {"Reason": self._reason} if self._is_there_still(name) else self.end()

    def end(self, failure: str | None = None) -> Output:
        """Respond to CloudFormation."""
        created = self._arn or not_created(self.event["RequestId"])
        # A failed update leaves the resource as it was, and CloudFormation sends its former properties next.
        physical_id = (self.event.get("PhysicalResourceId") or created) if failure or self._arn is None else self._arn
        reason = f"{self.event['LogicalResourceId']}: {failure}" if failure is not None else None
        log(Counted.deployment_failed if failure else "responded", reason=failure or "")
        try:
            respond(self.event, physical_id=physical_id, failure=reason)
        except urllib.error.HTTPError as error:
            if error.code not in (403, 404):
                raise
            # The pre-signed URL has expired, so CloudFormation no longer waits.
            log("response is late", status=error.code)
        return DONE

    _reason = ""

    def _stale_name(self) -> str | None:
        """Return the name of a component that a failed update created and that CloudFormation does not know."""
        old = self.event.get("OldResourceProperties")
        try:
            name = validate(ComponentProperties, old).inference_component_name if old is not None else None
        except InvalidEvent:
            return None
        known = str(self.event.get("PhysicalResourceId")).rpartition("/")[2]
        return name if name not in (None, self._props.inference_component_name, known) else None

    def _is_there_still(self, name: str) -> bool:
        """Delete a component if this resource created it; return whether it still exists."""
        found = self._describe(name)
        if found is None or not self._owns(found):
            return False
        if found["InferenceComponentStatus"] != "Deleting":
            try:
                self._sagemaker.delete_inference_component(InferenceComponentName=name)
                log("deleted", component_name=name)
            except ClientError as error:
                # SageMaker refuses while the component changes or adapters use it.
                if code_of(error) != "ValidationException":
                    raise
                self._reason = message_of(error)
        return True

    def _is_here(self, found: Mapping[str, Any]) -> bool:
        return found["EndpointName"].lower() == self._props.endpoint_name.lower()

    def _owns(self, found: Mapping[str, Any]) -> bool:
        """Return whether this resource created a component: by its tag or, without it, the ARN that was responded."""
        arn = found["InferenceComponentArn"]
        try:
            pages = list(self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn))
        except ClientError as error:
            if not is_not_found(error):
                raise
            # It was deleted after it was described.
            return True
        owner = next((tag["Value"] for page in pages for tag in page["Tags"] if tag["Key"] == _OWNER), None)
        if owner is None:
            return arn == self.event.get("PhysicalResourceId") and self._is_here(found)
        return owner == self._owner

    @property
    def _tags(self) -> list[Tag]:
        return [*self._props.tags, {"Key": _OWNER, "Value": self._owner}]

    def _differs(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Return whether the component lacks a wanted member, or keeps one that only the earlier properties had."""
        here, then = found["Specification"], wanted["Specification"]
        old = self.event.get("OldResourceProperties")
        try:
            before = self._request(validate(ComponentProperties, old))["Specification"] if old is not None else None
        except InvalidEvent:
            before = None
        copies = found["RuntimeConfig"]["DesiredCopyCount"] != wanted["RuntimeConfig"]["CopyCount"]
        return copies or not _has(here, then) or _keeps(here, before, then)

    def _request(self, props: ComponentProperties) -> dict[str, Any]:
        """Return the members that creation and update share, with the API's types."""
        shape = self._sagemaker.meta.service_model.operation_model("CreateInferenceComponent").input_shape
        members = {"Specification": props.specification, "RuntimeConfig": props.runtime_config}
        return {"InferenceComponentName": props.inference_component_name, **typed(members, shape)}

    def _call(self, verb: str, **members: Any) -> None:
        """Create or update the component; the API's refusal becomes a ``DeploymentError``."""
        request = {**self._request(self._props), **members}
        if "DeploymentConfig" in members:
            shape = self._sagemaker.meta.service_model.operation_model("UpdateInferenceComponent").input_shape
            request = typed(request, shape)
        if verb == "create":
            # SageMaker creates no component without copies (https://github.com/stdapi-ai/stdapi.ai/issues/43). Of a
            # component that was scaled to zero, scaling removes this one again.
            copies = max(1, request["RuntimeConfig"]["CopyCount"])
            request |= {"RuntimeConfig": {**request["RuntimeConfig"], "CopyCount": copies}, "Tags": self._tags}
        try:
            answer = getattr(self._sagemaker, f"{verb}_inference_component")(**request)
        except ClientError as error:
            if code_of(error) not in ("ValidationException", "ResourceLimitExceeded"):
                raise
            raise DeploymentError(
                f"{error.operation_name} failed with {code_of(error)}: {message_of(error)}"
            ) from error
        self._arn = answer["InferenceComponentArn"]
        log(
            Counted.component_created if verb == "create" else "updated",
            component_name=request["InferenceComponentName"],
        )

    def _asked(self) -> Output:
        return again(_SECONDS) | {"Asked": True}

    def _describe(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(self._sagemaker.describe_inference_component(InferenceComponentName=name))
        except ClientError as error:
            if not is_not_found(error):
                raise
            return None


def _has(found: object, wanted: object) -> bool:
    """Return whether a description has all of a request's members; SageMaker may have added defaults."""
    if is_object(wanted):
        members = object_in(found)
        return all(name in members and _has(members[name], value) for name, value in wanted.items())
    return found == wanted


def _keeps(found: object, before: object, wanted: object) -> bool:
    """Return whether a description keeps a member that the earlier properties had but the wanted ones lack."""
    if not is_object(before):
        return False
    members, kept = object_in(found), object_in(wanted)
    return any(
        name in members and (name not in kept or _keeps(members[name], value, kept[name]))
        for name, value in before.items()
    )
