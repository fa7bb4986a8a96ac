"""Reads a custom resource's properties, and collects what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import InvalidEvent
from .job_request import SECONDS, is_request, malformed_members
from .value_shapes import are_network_ids, is_list, is_object, is_tag, is_wait_handle, matches

# Patterns and limits are the API's (CreateOptimizationJob, CreateModel, CreateStateMachine), narrowed to what a
# deployment can mean. ASCII: \d and \w stand for the digits and letters of every script otherwise.
JOB_KINDS = ("OptimizationJob", "TrainingJob")
"""The kinds of jobs that make artifacts."""
_MOST_TAGS, _MOST_GROUPS, _MOST_SUBNETS = 50, 5, 16
_BUCKET = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ROLE_ARN = re.compile(r"(?=.{1,2048}\Z)arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]{1,64}", re.ASCII)
_MACHINE_ARN = re.compile(r"arn:aws[a-z-]*:states:[a-z0-9-]+:\d{12}:stateMachine:[\w-]{1,80}", re.ASCII)


class Reader:
    """Reads one resource's properties and collects the names of those that are wrong."""

    def __init__(self, properties: Mapping[str, object]) -> None:
        self.properties: Mapping[str, object] = properties
        self.problems: list[str] = []

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str:
        """A text of that form."""
        value = self.properties.get(name)
        if not isinstance(value, str) or not value or (pattern and not pattern.fullmatch(value)):
            self.problems.append(name)
            return ""
        return value

    def optional(self, name: str, pattern: re.Pattern[str]) -> str | None:
        """A text of that form, or None where there is none."""
        return self.text(name, pattern) if self.properties.get(name) else None

    def role_arn(self) -> str:
        """``RoleArn``."""
        return self.text("RoleArn", _ROLE_ARN)

    def bucket(self) -> str:
        """``Bucket``."""
        return self.text("Bucket", _BUCKET)

    def kms_key_arn(self) -> str | None:
        """``KmsKeyArn``, where there is one."""
        return self.optional("KmsKeyArn", _KEY_ARN)

    def state_machine_arn(self) -> str:
        """``StateMachineArn``."""
        return self.text("StateMachineArn", _MACHINE_ARN)

    def seconds(self, name: str) -> int | None:
        """A number of seconds, where there is one."""
        return int(self.optional(name, SECONDS) or 0) or None

    def wait_handle(self) -> str | None:
        """``WaitHandle``, where there is one."""
        handle = self.properties.get("WaitHandle") or None
        if handle is None or is_wait_handle(handle):
            return handle
        self.problems.append("WaitHandle")
        return None

    def tags(self) -> tuple[tuple[str, str], ...]:
        """``Tags``."""
        listed = self.listed("Tags", _MOST_TAGS)
        tags = [tag for tag in listed if is_tag(tag)]
        if len(tags) < len(listed):
            self.problems.append("Tags")
            return ()
        return tuple((tag["Key"], tag["Value"]) for tag in tags)

    def listed(self, name: str, most: int) -> list[object]:
        """A list of that many items at most, empty where there is none."""
        value = self.properties.get(name) or list[object]()
        if not is_list(value) or len(value) > most:
            self.problems.append(name)
            return []
        return value

    def texts(self, name: str, pattern: re.Pattern[str], most: int) -> tuple[str, ...]:
        """A list of that many texts of that form at most, empty where there is none."""
        listed = self.listed(name, most)
        found = tuple(item for item in listed if matches(item, pattern))
        if len(found) < len(listed):
            self.problems.append(name)
            return ()
        return found

    def network(self, given: Mapping[str, object], place: str) -> Mapping[str, Sequence[str]] | None:
        """The ``VpcConfig`` of ``given``, or None where there is none."""
        network = given.get("VpcConfig") or None
        if network is None:
            return None
        if is_object(network) and set(network) == {"SecurityGroupIds", "Subnets"}:
            groups, subnets = network["SecurityGroupIds"], network["Subnets"]
            if are_network_ids(groups, _MOST_GROUPS) and are_network_ids(subnets, _MOST_SUBNETS):
                return {"SecurityGroupIds": groups, "Subnets": subnets}
        self.problems.append(place)
        return None

    def job_kind(self) -> str:
        """``JobKind``; optimization jobs have none."""
        kind = self.properties.get("JobKind", JOB_KINDS[0])
        if not isinstance(kind, str) or kind not in JOB_KINDS:
            self.problems.append("JobKind")
            return JOB_KINDS[0]
        return kind

    def request(self, kind: str) -> Mapping[str, object]:
        """What the request of a job of that kind has besides what the handler fills in."""
        request = self.properties.get("Request")
        if not is_request(request, kind):
            self.problems.append("Request")
            return {}
        self.network(request, "Request.VpcConfig")
        self.problems += [f"Request.{member}" for member in malformed_members(request, kind)]
        return request

    def description(self) -> Mapping[str, object]:
        """``Description``, as the manifest keeps it."""
        value = self.properties.get("Description") or dict[str, object]()
        if not is_object(value):
            self.problems.append("Description")
            return {}
        return value

    def finish(self) -> None:
        """Refuse what had problems.

        Raises:
            InvalidEvent: naming all of them.
        """
        if self.problems:
            listed = ", ".join(sorted(set(self.problems)))
            raise InvalidEvent(f"these properties are missing or malformed: {listed}")


def as_delivered(value: object) -> object:
    """Numbers and booleans as CloudFormation delivers them: a schedule's input has them as they are."""
    if is_object(value):
        return object_as_delivered(value)
    if is_list(value):
        return [as_delivered(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def object_as_delivered(value: Mapping[str, object]) -> dict[str, object]:
    """:func:`as_delivered` of an object."""
    return {name: as_delivered(item) for name, item in value.items()}
