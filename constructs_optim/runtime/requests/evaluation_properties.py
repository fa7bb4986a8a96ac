"""What an evaluation is asked to do, read and checked.

It comes as the properties of ``Custom::EndpointEvaluation``, or in the input of an execution that a schedule started.

CloudFormation delivers every number and boolean of a custom resource as a string.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InvalidEvent
from .properties import is_artifact_key
from .property_reader import Reader, object_as_delivered
from .value_shapes import INSTANCE_TYPE, RESOURCE_NAME, S3_URI, is_list, is_object, matches, object_in

_FORMULA = re.compile(r"[a-z0-9_ +*/().-]{1,200}")
_METRIC = re.compile(r"[a-z][a-z0-9_]{1,80}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_DIMENSION = re.compile(r"[A-Za-z]{1,64}")
_MOST_LEVELS, _MOST_SUBJECTS = 50, 5


@dataclass(frozen=True)
class Subject:
    """What instances of one type serve."""

    instance_type: str
    artifact_key: str
    price_per_hour: float | None


@dataclass(frozen=True)
class Limit:
    """A value that must be at most, or at least, something."""

    formula: str
    title: str
    unit: str
    at_most: float | None
    at_least: float | None


@dataclass(frozen=True)
class Quality:
    """What is required of answers to prompts in S3."""

    bucket: str
    key: str
    min_identical: float
    max_difference: float
    max_tokens: int
    most_prompts: int

    @property
    def uri(self) -> str:
        """``s3://bucket/key``."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Gate:
    """All that is required; ``compared`` are metrics with their titles and whether a higher value is the better one."""

    limits: tuple[Limit, ...]
    max_regression: float | None
    compared: tuple[tuple[str, str, bool], ...]
    at_concurrency: int | None
    quality: Quality | None


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate, how, and what must come of it.

    Attributes:
        label: what people call the endpoint.
        endpoint_name: its name.
        variant_name: the variant that serves the model.
        component_name: the inference component that does, if one does.
        endpoint_config_name: the configuration in service: another one is evaluated anew.
        model_names: the models in service.
        subjects: what each of its instance types serves.
        share_of_instance: the share of an instance that one copy of a component takes.
        lossless: whether the techniques leave the model's answers as they are.
        workload_config_name: of the AI workload configuration.
        workload: its specification, for the report.
        concurrencies: users at the same time, by rising number.
        discount: what a savings plan takes off, as a share.
        dimensions: those of its metrics, except concurrency and artifact key.
        role_arn: what the benchmark job assumes.
        vpc_config: where the job reaches the network from.
        bucket: the store.
        kms_key_arn: its key.
        gate: what is required; None where nothing depends on the results.
        tags: of the job.
    """

    label: str
    endpoint_name: str
    variant_name: str | None
    component_name: str | None
    endpoint_config_name: str
    model_names: tuple[str, ...]
    subjects: tuple[Subject, ...]
    share_of_instance: float | None
    lossless: bool
    workload_config_name: str
    workload: Mapping[str, object]
    concurrencies: tuple[int, ...]
    discount: float
    dimensions: Mapping[str, str]
    role_arn: str
    vpc_config: Mapping[str, Sequence[str]] | None
    bucket: str
    kms_key_arn: str | None
    gate: Gate | None
    tags: tuple[tuple[str, str], ...]

    def key(self, account: str, region: str) -> str:
        """SHA-256 of what decides the results: the same evaluation is not run twice for one deployment."""
        quality = self.gate.quality if self.gate is not None else None
        decides = {
            "where": [account, region, self.endpoint_name, self.variant_name, self.component_name],
            "served": [self.endpoint_config_name, *self.model_names, *(each.artifact_key for each in self.subjects)],
            "workload": [self.workload_config_name, self.workload],
            "prompts": [quality.uri, quality.max_tokens, quality.most_prompts] if quality is not None else None,
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class EvaluationProperties:
    """What one ``Custom::EndpointEvaluation`` asks for."""

    request: EvaluationRequest
    state_machine_arn: str
    wait_handle: str | None
    wait_seconds: int | None


def parse_evaluation_properties(properties: Mapping[str, object]) -> EvaluationProperties:
    """Read ``ResourceProperties`` of ``Custom::EndpointEvaluation``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    handle, machine, seconds = reader.wait_handle(), reader.state_machine_arn(), reader.seconds("WaitSeconds")
    found = _Request(object_in(properties.get("Request"))).parsed(reader.problems)
    reader.finish()
    assert found is not None  # noqa: S101 - without problems there is one
    return EvaluationProperties(found, machine, handle, seconds)


def parse_evaluation_request(value: object) -> EvaluationRequest:
    """Read the ``Request`` of an execution's input.

    Raises:
        InvalidEvent: naming every member that is missing or malformed.
    """
    problems: list[str] = []
    found = _Request(object_in(value)).parsed(problems)
    if found is None or problems:
        raise InvalidEvent(f"these members of Request are missing or malformed: {', '.join(sorted(set(problems)))}")
    return found


class _Request:
    def __init__(self, given: Mapping[str, object]) -> None:
        self.given, self.reader = given, Reader(given)

    def parsed(self, problems: list[str]) -> EvaluationRequest | None:
        reader, given = self.reader, self.given
        request = EvaluationRequest(
            label=reader.text("Label", _TEXT),
            endpoint_name=reader.text("EndpointName", RESOURCE_NAME),
            variant_name=reader.optional("VariantName", RESOURCE_NAME),
            component_name=reader.optional("InferenceComponentName", RESOURCE_NAME),
            endpoint_config_name=reader.text("EndpointConfigName", RESOURCE_NAME),
            model_names=self._names("ModelNames"),
            subjects=self._subjects(),
            share_of_instance=self._number("ShareOfInstance", 0, 1) if given.get("ShareOfInstance") else None,
            lossless=str(given.get("Lossless", "false")).lower() == "true",
            workload_config_name=reader.text("WorkloadConfigName", RESOURCE_NAME),
            workload=object_as_delivered(self._object("Workload")),
            concurrencies=self._concurrencies(),
            discount=self._number("Discount", 0, 1, default=0.0) or 0.0,
            dimensions=self._dimensions(),
            role_arn=reader.role_arn(),
            vpc_config=reader.network(given, "VpcConfig"),
            bucket=reader.bucket(),
            kms_key_arn=reader.kms_key_arn(),
            gate=self._gate(),
            tags=reader.tags(),
        )
        problems += reader.problems
        return request if not reader.problems else None

    def _subjects(self) -> tuple[Subject, ...]:
        listed = self._list("Subjects")
        found: list[Subject] = []
        for each in listed if 0 < len(listed) <= _MOST_SUBJECTS else [None]:
            fields = object_in(each)
            instance_type, key = fields.get("InstanceType"), fields.get("ArtifactKey")
            if not matches(instance_type, INSTANCE_TYPE):
                self.reader.problems.append("Subjects")
            elif not is_artifact_key(key):
                self.reader.problems.append("Subjects.ArtifactKey")
            else:
                found.append(Subject(instance_type, key, _float(fields.get("PricePerHour"))))
        return tuple(found)

    def _concurrencies(self) -> tuple[int, ...]:
        users = [int(str(each)) for each in self._list("Concurrencies") if re.fullmatch(r"[1-9]\d{0,5}", str(each))]
        if not users or len(users) > _MOST_LEVELS:
            self.reader.problems.append("Concurrencies")
        return tuple(sorted(set(users)))

    def _dimensions(self) -> dict[str, str]:
        given = self._object("Dimensions")
        found = {name: value for name, value in given.items() if matches(name, _DIMENSION) and matches(value, _TEXT)}
        if len(found) < len(given):
            self.reader.problems.append("Dimensions")
        return found

    def _gate(self) -> Gate | None:
        gate = self.given.get("Gate") or None
        if gate is None:
            return None
        if not is_object(gate):
            self.reader.problems.append("Gate")
            return None
        limits = tuple(self._limit(each) for each in self._items(gate, "Limits", "Gate.Limits"))
        compared = tuple(self._compared(each) for each in self._items(gate, "Compared", "Gate.Compared"))
        most = gate.get("MaxRegression")
        users = gate.get("AtConcurrency")
        quality = gate.get("Quality") or None
        if quality is not None and not is_object(quality):
            self.reader.problems.append("Gate.Quality")
            quality = None
        return Gate(
            limits=limits,
            max_regression=self._checked("Gate.MaxRegression", most, 0, 1) if most not in (None, "") else None,
            compared=compared,
            at_concurrency=int(self._checked("Gate.AtConcurrency", users, 1, 1e6)) if users else None,
            quality=self._quality(quality) if quality is not None else None,
        )

    def _limit(self, each: object) -> Limit:
        fields = object_in(each)
        most, least = (_float(fields.get(name)) for name in ("AtMost", "AtLeast"))
        if not matches(fields.get("Formula"), _FORMULA) or (most is None) == (least is None):
            self.reader.problems.append("Gate.Limits")
        title, unit = (str(fields.get(name) or "")[:100] for name in ("Title", "Unit"))
        return Limit(str(fields.get("Formula")), title or str(fields.get("Formula")), unit, most, least)

    def _compared(self, each: object) -> tuple[str, str, bool]:
        fields = object_in(each)
        name = fields.get("Metric")
        if not matches(name, _METRIC):
            self.reader.problems.append("Gate.Compared")
        return str(name), str(fields.get("Title") or name)[:100], fields.get("Better") == "higher"

    def _quality(self, fields: Mapping[str, object]) -> Quality:
        found = S3_URI.fullmatch(str(fields.get("Prompts", "")))
        if found is None or not found[2]:
            self.reader.problems.append("Gate.Quality.Prompts")
        return Quality(
            bucket=found[1] if found else "",
            key=(found[2] or "") if found else "",
            min_identical=self._checked("Gate.Quality.MinIdentical", fields.get("MinIdentical"), 0, 1),
            max_difference=self._checked("Gate.Quality.MaxDifference", fields.get("MaxDifference"), 0, 1),
            max_tokens=int(self._checked("Gate.Quality.MaxTokens", fields.get("MaxTokens"), 1, 100_000)),
            most_prompts=int(self._checked("Gate.Quality.MostPrompts", fields.get("MostPrompts"), 1, 10_000)),
        )

    def _number(self, name: str, least: float, most: float, default: float | None = None) -> float | None:
        value = self.given.get(name)
        return default if value in (None, "") else self._checked(name, value, least, most)

    def _checked(self, place: str, value: object, least: float, most: float) -> float:
        number = _float(value)
        if number is None or not least <= number <= most:
            self.reader.problems.append(place)
            return least
        return number

    def _names(self, place: str) -> tuple[str, ...]:
        listed = self._list(place)
        found = tuple(name for name in listed if matches(name, RESOURCE_NAME))
        if len(found) < len(listed):
            self.reader.problems.append(place)
        return found

    def _list(self, name: str) -> list[object]:
        return self._items(self.given, name, name)

    def _items(self, given: Mapping[str, object], name: str, place: str) -> list[object]:
        value = given.get(name) or list[object]()
        if not is_list(value):
            self.reader.problems.append(place)
            return []
        return value

    def _object(self, name: str) -> dict[str, object]:
        value = self.given.get(name) or dict[str, object]()
        if not is_object(value):
            self.reader.problems.append(name)
            return {}
        return value


def _float(value: object) -> float | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
