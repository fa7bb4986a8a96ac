"""CloudFormation resource types, driven by their real schemas: valid properties, replacement, and identifiers.

A handler refuses to create a resource that exists and to update one that does not, although the service's operation
would do both: "CloudFormation requires that update actions to a non-existing resource always throw a
ResourceNotFoundException" (CloudFormation CLI user guide, "Resource type FAQ" and "Resource type handler contract"). No
source says how AWS's handler finds a scaling policy. Assumed: by its identifier, the ARN, so a policy that is deleted
and put again under the same name is another resource.

``resource_types.json`` holds the parts of the schemas that this module uses. A test compares it with cfn-lint's
schemas.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.api.model import ApiModel
from constructs_optim_local.clock import Clock

from .operations import (
    OPERATIONS,
    SAGEMAKER,
    SCALING,
    Properties,
    settles,
)

# "Defines the timeout for the entire operation to be interpreted by the invoker of the handler. The default is 120":
# aws-cloudformation/cloudformation-cli, provider.definition.schema.v1.json.
_DEFAULT_MINUTES = 120
_LONGEST_NAME = 63
_STABLE = ("InService", "Failed", "UpdateRollbackFailed")


class Service(Protocol):
    """A service whose operations can be called in process."""

    model: ApiModel

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation."""
        ...


class ResourceError(ValueError):
    """The reason a resource could not be provisioned, as a stack event shows it."""


class ResourceProvider:
    """Creates, updates and deletes the resources of one type. A minute of its timeouts lasts ``minute`` seconds."""

    def __init__(
        self,
        type_name: str,
        service: Service,
        where: Callable[[], tuple[str, str]],
        minute: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._type, self._service, self._where, self._minute = type_name, service, where, minute
        self._operations = OPERATIONS[type_name]
        self._schema = schemas()[type_name]

    @property
    def create_only(self) -> tuple[str, ...]:
        """The properties whose change replaces the resource."""
        return tuple(self._schema["create_only"])

    def create(self, logical_id: str, properties: Properties, stack_name: str) -> tuple[str, Properties]:
        """Create a resource, and return its ``Ref`` and attributes."""
        self._check(properties)
        desired = dict(properties)
        name = self._operations.name
        if name is not None and not desired.get(name):
            desired[name] = f"{logical_id[: _LONGEST_NAME - 13]}-{secrets.token_hex(6)}"
        if self._found(desired) is not None:
            # Source of the message: https://github.com/pulumi/pulumi-aws-native/issues/1637, about a scaling policy.
            kind = {"ScalableTarget": "Scalable Target"}.get(self._type.rpartition(":")[2], "Scaling Policy")
            raise ResourceError(
                f'Resource handler returned message: "{kind} Already Exists" (HandlerErrorCode: AlreadyExists)'
            )
        response = self._call(self._operations.create, self._operations.normalize(desired))
        reference, attributes = self._identity(desired, response)
        try:
            self._settle(desired, reference, "create")
            self._put_parts({}, desired)
        except ResourceError:
            # CloudFormation deletes the resource before it reports that its creation failed.
            with contextlib.suppress(ResourceError):
                self._remove(desired)
            raise
        return reference, attributes

    def update(
        self,
        physical_id: str,
        old: Properties,
        new: Properties,
        stack_name: str,
        logical_id: str | None = None,
    ) -> tuple[str, Properties]:
        """Update a resource in place, or replace it if its schema says so."""
        self._check(new)
        if any(old.get(name) != new.get(name) for name in self._schema["create_only"]):
            if self._was_never_replaced(physical_id, old, new):
                return self._identity(
                    {**new, **self._names(physical_id, new)}, {self._operations.arn or "": physical_id}
                )
            return self.create(logical_id or physical_id, new, stack_name)
        desired = {**new, **self._names(physical_id, new)}
        self._retag(physical_id, old.get("Tags") or [], new.get("Tags") or [])
        if self._operations.update is None or not self._differs(old, new):
            return self._identity(desired, {self._operations.arn or "": physical_id})
        if not self._is_there(physical_id, desired):
            raise ResourceError(
                f"Resource of type '{self._type}' with identifier '{physical_id}' was not found. "
                "(HandlerErrorCode: NotFound)"
            )
        if settles(self._type):
            # The resource may be scaling, and a changing resource cannot be updated.
            self._stable(desired[str(self._operations.name)], "update")
        request = self._operations.normalize(desired)
        # Another operation changes the tags of an existing resource.
        request.pop("Tags", None)
        response = self._call(self._operations.update, request)
        self._settle(desired, physical_id, "update")
        self._put_parts(old, desired)
        # An update in place keeps the ID, but moto generates a new ARN for a policy that is put again.
        return self._identity(desired, {**response, self._operations.arn or "": physical_id})

    def delete(self, physical_id: str, properties: Properties) -> None:
        """Delete a resource, if it still exists."""
        if self._is_there(physical_id, properties):
            self._remove({**properties, **self._names(physical_id, properties)})

    @property
    def identifier(self) -> tuple[str, ...]:
        """The members of the identifier that a resource is imported by: the schema's ``primaryIdentifier``."""
        return tuple(self._schema["identifier"])

    def imported(self, identifier: Properties) -> tuple[str, Properties]:
        """Return the ``Ref`` and attributes of an existing resource, without changing it.

        Raises:
            ResourceError: if there is no such resource.
        """
        operations, shown = self._operations, None
        if operations.find is not None:
            # The API and the schema name a policy's ARN differently.
            members = {"Arn": operations.arn or "Arn"}
            shown = next(
                (
                    one
                    for one in self._listed(identifier)
                    if all(one.get(members.get(k, k)) == v for k, v in identifier.items())
                ),
                None,
            )
        elif operations.describe is not None and operations.name is not None:
            name = str(identifier[self.identifier[0]]).rpartition("/")[2]
            with contextlib.suppress(ResourceError):
                shown = self._call(operations.describe, {operations.name: name})
            if shown is not None and shown[str(operations.arn)] != identifier[self.identifier[0]]:
                shown = None
        if shown is None:
            # CloudFormation's message for types without their own, as ministack measured it.
            value = "|".join(str(identifier[name]) for name in self.identifier)
            raise ResourceError(f"Resource of type '{self._type}' with identifier '{value}' was not found.")
        return self._identity(shown, shown)

    @property
    def read_back(self) -> frozenset[str]:
        """The properties compared to detect drift. If empty, only the resource's existence is checked."""
        return frozenset(self._operations.read_back)

    def current(self, physical_id: str, properties: Properties) -> Properties | None:
        """Return a resource's current properties; None if it is gone."""
        operations = self._operations
        if operations.describe is None or operations.name is None:
            return self._found(properties)
        with contextlib.suppress(ResourceError):
            return self._call(operations.describe, {operations.name: physical_id.rpartition("/")[2]})
        return None

    def _found(self, properties: Properties) -> Properties | None:
        """Return the existing resource of the same names, for types whose put operation may have created it already."""
        operations, request = self._operations, self._operations.normalize(properties)
        if operations.find is None:
            return None
        names = operations.delete_members
        alike = (one for one in self._listed(request) if all(one.get(name) == request.get(name) for name in names))
        return next(alike, None)

    def _listed(self, identifier: Properties) -> list[Properties]:
        response = self._call(str(self._operations.find), self._operations.find_request(identifier))
        (listed,) = (value for value in response.values() if isinstance(value, list))
        return listed

    def _is_there(self, physical_id: str, properties: Properties) -> bool:
        """Return whether CloudFormation's resource still exists, as opposed to another of the same names."""
        if self._operations.find is None:
            return True
        found = self._found(properties)
        return found is not None and self._identity({**properties, **found}, found)[0] == physical_id

    def _was_never_replaced(self, physical_id: str, old: Properties, new: Properties) -> bool:
        """Return whether the rollback of a failed replacement refers to the original resource."""
        name = self._operations.name or ""
        current, before, after = (
            str(value or "").lower() for value in (physical_id.rpartition("/")[2], old.get(name), new.get(name))
        )
        return settles(self._type) and (before not in ("", current) or (after != "" and after == current))

    def _retag(self, arn: str, old: list[dict[str, str]], new: list[dict[str, str]]) -> None:
        """Update a resource's tags, for types that keep them under an ARN."""
        gone = sorted({tag["Key"] for tag in old} - {tag["Key"] for tag in new})
        if old == new:
            return
        if self._type == "AWS::ApplicationAutoScaling::ScalableTarget":
            resource, dimension, namespace = arn.split("|")
            names = {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}
            found = self._found(names)
            if found is not None:
                where = {"ResourceARN": found["ScalableTargetARN"]}
                if gone:
                    self._call("UntagResource", {**where, "TagKeys": gone})
                if new:
                    self._call("TagResource", {**where, "Tags": {tag["Key"]: tag["Value"] for tag in new}})
            return
        if not arn.startswith("arn:"):
            return
        if gone:
            self._call("DeleteTags", {"ResourceArn": arn, "TagKeys": gone})
        if new:
            self._call("AddTags", {"ResourceArn": arn, "Tags": new})

    def _differs(self, old: Properties, new: Properties) -> bool:
        return any(old.get(name) != new.get(name) for name in {*old, *new} if name != "Tags")

    def _names(self, physical_id: str, properties: Properties) -> Properties:
        """Return the resource's name as requested. An ARN has it in lower case."""
        name, describe = self._operations.name, self._operations.describe
        if name is None:
            return {}
        if properties.get(name) or describe is None:
            return {name: properties.get(name)}
        found = physical_id.rpartition("/")[2]
        with contextlib.suppress(ResourceError):
            found = self._call(describe, {name: found})[name]
        return {name: found}

    def _identity(self, desired: Properties, response: Properties) -> tuple[str, Properties]:
        arn = response.get(self._operations.arn or "", "")
        reference = self._operations.reference(desired, arn)
        attributes: Properties = {read_only: response.get(read_only, arn) for read_only in self._schema["read_only"]}
        if "Id" in attributes:
            attributes["Id"] = reference
        name = self._operations.name
        return reference, {**attributes, **({name: desired[name]} if name is not None else {})}

    def _check(self, properties: Properties) -> None:
        unknown = sorted(set(properties) - set(self._schema["properties"]))
        read_only = sorted(set(properties) & set(self._schema["read_only"]))
        missing = sorted(set(self._schema["required"]) - set(properties))
        problems = [
            *(f"extraneous key [{name}] is not permitted" for name in unknown),
            *(f"[{name}] is read-only" for name in read_only),
            *(f"required key [{name}] not found" for name in missing),
            *(f"#{path}: failed validation constraint for keyword [enum]" for path in self._other_values(properties)),
        ]
        if problems:
            raise ResourceError(
                f"Properties validation failed for resource of type {self._type}: {'; '.join(problems)}"
            )

    def _other_values(self, value: object, path: str = "") -> Iterator[str]:
        """Yield the paths of values outside the schema's enumerations."""
        if isinstance(value, dict):
            for name, member in value.items():
                listed = self._schema["values"].get(name)
                if listed is not None and isinstance(member, str) and member not in listed:
                    yield f"{path}/{name}"
                yield from self._other_values(member, f"{path}/{name}")
        elif isinstance(value, list):
            for index, member in enumerate(value):
                yield from self._other_values(member, f"{path}/{index}")

    def _call(self, operation: str, request: Properties) -> Properties:
        account, region = self._where()
        model = self._service.model
        known = {key: value for key, value in request.items() if key in model.members(operation)}
        try:
            return self._service.invoke(operation, model.typed(operation, known), account=account, region=region)
        except ApiError as error:
            raise ResourceError(
                f'Resource handler returned message: "{error.message} (Service: {self._service_name}, Status Code: '
                f'{error.status})" (HandlerErrorCode: {error.code})'
            ) from error

    @property
    def _service_name(self) -> str:
        return {SAGEMAKER: "SageMaker", SCALING: "ApplicationAutoScaling"}[self._operations.service]

    def _put_parts(self, old: Properties, new: Properties) -> None:
        parts = self._operations.parts
        if parts is None:
            return
        shared = {name: new[name] for name in parts.shared}
        before, after = (
            {part[parts.name]: part for part in properties.get(parts.member) or []} for properties in (old, new)
        )
        for name in sorted(set(before) - set(after)):
            with contextlib.suppress(ResourceError):
                self._call(parts.delete, {**shared, parts.name: name})
        for name, part in after.items():
            if before.get(name) != part:
                self._call(parts.put, {**shared, **part})

    def _settle(self, desired: Properties, reference: str, operation: str) -> None:
        """Wait until the resource has the requested state.

        A deployment that was rolled back leaves an endpoint in service with another configuration than requested, and a
        failure reason. Assumed: an endpoint with the requested configuration, as in the rollback of a stack, has
        succeeded.
        """
        operations = self._operations
        if operations.describe is None or operations.status_member is None or operations.name is None:
            return
        shown = self._stable(desired[operations.name], operation)
        if shown is None:
            # Source of the message: https://github.com/aws/aws-app-mesh-examples/issues/419, about an
            # AWS::ECS::Service.
            raise ResourceError(f"Resource timed out waiting for completion (RequestToken: {uuid.uuid4()})")
        unstable = f"Resource of type '{self._type}' with identifier '{reference}' did not stabilize"
        config = desired.get("EndpointConfigName")
        arrived = (
            shown[operations.status_member] == "InService" and config and shown.get("EndpointConfigName") == config
        )
        if shown.get("FailureReason") and not arrived:
            raise ResourceError(f'{unstable}: "{shown["FailureReason"]}"')

    def _stable(self, name: str, operation: str) -> Properties | None:
        """Return the resource once it has stopped changing; None if the operation times out first."""
        operations = self._operations
        minutes = self._schema["timeouts"].get(operation, _DEFAULT_MINUTES)
        deadline = self._clock.monotonic() + minutes * self._minute
        while self._clock.monotonic() < deadline:
            shown = self._call(str(operations.describe), {str(operations.name): name})
            if shown[str(operations.status_member)] in _STABLE:
                return shown
            self._clock.sleep(0.1)
        return None

    def _remove(self, desired: Properties) -> None:
        operations, request = self._operations, self._operations.normalize(desired)
        waits = operations.status_member is not None and operations.name is not None
        try:
            if waits:
                # A changing resource cannot be deleted, and CloudFormation waits until a deleted one is gone.
                self._stable(request[str(operations.name)], "delete")
            self._call(operations.delete, {name: request[name] for name in operations.delete_members})
            if waits:
                self._stable(request[str(operations.name)], "delete")
        except ResourceError as error:
            cause = error.__cause__
            gone = isinstance(cause, ApiError) and (
                cause.code in ("ResourceNotFound", "ObjectNotFoundException") or "Could not find" in cause.message
            )
            if not gone:
                raise


def schemas() -> dict[str, Any]:
    """Return the used parts of each type's schema."""
    return json.loads(Path(__file__).with_name("resource_types.json").read_text(encoding="utf-8"))
