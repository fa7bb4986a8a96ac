"""Checks requests against botocore's model of a service: types, required members, ranges, enums and patterns."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import botocore.session
from botocore.loaders import Loader
from botocore.model import OperationModel
from botocore.validate import ParamValidator

from .error import ApiError, validation_error


@functools.cache
def _service_model(service: str) -> Any:
    """Return botocore's model, which takes a tenth of a second to read. botocore does not type its shapes."""
    return botocore.session.get_session().get_service_model(service)


class ApiModel:
    """The API model of one service."""

    def __init__(self, service: str) -> None:
        self._model = _service_model(service)
        self.target_prefix: str = self._model.metadata["targetPrefix"]

    def operation(self, name: str) -> OperationModel:
        """Return the operation's model.

        Raises:
            ApiError: UnknownOperationException if there is no such operation.
        """
        if name not in self._model.operation_names:
            raise ApiError("UnknownOperationException", f"The operation {name} is not recognized")
        return self._model.operation_model(name)

    def check(self, name: str, request: Any) -> None:
        """Refuse a request that the model does not allow.

        Raises:
            ApiError: ValidationException. The message names every problem.
        """
        shape = self.operation(name).input_shape
        if shape is None:
            return
        report = ParamValidator().validate(request, shape)
        if report.has_errors():
            raise validation_error(report.generate_report())
        problems = list(_constraint_problems(request, shape, ""))
        if problems:
            count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected"
            raise validation_error(f"{count}: {'; '.join(problems)}")

    def typed(self, name: str, value: Any) -> Any:
        """Return ``value`` with a CloudFormation template's strings converted to the types of the request's model."""
        shape = self.operation(name).input_shape
        return _typed(value, shape) if shape is not None else value

    def enum(self, name: str, member: str) -> list[str]:
        """Return the values that a member of the request may have."""
        shape: Any = self.operation(name).input_shape
        return list(shape.members[member].enum)

    def members(self, name: str) -> frozenset[str]:
        """Return the names of the request's members."""
        shape = self.operation(name).input_shape
        return frozenset(getattr(shape, "members", {}))


def _typed(value: Any, shape: Any) -> Any:
    match shape.type_name:
        case "structure" if isinstance(value, dict):
            members: dict[str, Any] = shape.members
            return {key: _typed(item, members[key]) if key in members else item for key, item in value.items()}
        case "list" if isinstance(value, list):
            return [_typed(item, shape.member) for item in value]
        case "map" if isinstance(value, dict):
            return {key: _typed(item, shape.value) for key, item in value.items()}
        case "integer" | "long" if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            return int(value)
        case "float" | "double" if isinstance(value, str):
            return float(value)
        case "boolean" if isinstance(value, str):
            return value.lower() == "true"
        case "string" if isinstance(value, bool):
            return str(value).lower()
        case "string" if isinstance(value, int | float):
            return str(value)
        case _:
            return value


def _constraint_problems(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Yield violations that ParamValidator leaves to the service: of enums, patterns and maxima."""
    match shape.type_name:
        case "structure":
            for key, item in value.items():
                member = shape.members[key]
                yield from _constraint_problems(item, member, f"{path}.{key}" if path else key)
        case "list":
            yield from _size_problems(len(value), shape, path, value)
            for index, item in enumerate(value, 1):
                yield from _constraint_problems(item, shape.member, f"{path}.{index}.member")
        case "map":
            yield from _size_problems(len(value), shape, path, value)
            for key, item in value.items():
                yield from _constraint_problems(key, shape.key, f"{path}.{key}")
                yield from _constraint_problems(item, shape.value, f"{path}.{key}")
        case "string":
            yield from _size_problems(len(value), shape, path, value)
            enum = shape.metadata.get("enum")
            if enum and value not in enum:
                yield _problem(value, path, f"Member must satisfy enum value set: [{', '.join(enum)}]")
            pattern = shape.metadata.get("pattern")
            compiled = _compiled(pattern) if pattern else None
            if compiled is not None and not compiled.fullmatch(value):
                yield _problem(value, path, f"Member must satisfy regular expression pattern: {pattern}")
        case "integer" | "long" | "float" | "double":
            yield from _size_problems(value, shape, path, value)
        case _:
            pass


def _size_problems(size: float, shape: Any, path: str, value: Any) -> Iterator[str]:
    kind = "value" if shape.type_name in ("integer", "long", "float", "double") else "length"
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _problem(value, path, f"Member must have {kind} greater than or equal to {low}")
    if high is not None and size > high:
        yield _problem(value, path, f"Member must have {kind} less than or equal to {high}")


def _problem(value: Any, path: str, constraint: str) -> str:
    location = ".".join(part[:1].lower() + part[1:] for part in path.split("."))
    return f"Value '{value}' at '{location}' failed to satisfy constraint: {constraint}"


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error:
        # The service's patterns have Java's syntax, and Python lacks some of its classes (\p{L}).
        return None


_KIND = "service-2"


def write_model_without(operations: Collection[str], folder: Path) -> None:
    """Write SageMaker's model without ``operations`` into ``folder``, for AWS_DATA_PATH."""
    loader: Any = Loader()
    version = loader.determine_latest_version("sagemaker", _KIND)
    model = loader.load_service_model("sagemaker", _KIND, version)
    kept = {name: shape for name, shape in model["operations"].items() if name not in operations}
    path = folder / "sagemaker" / version / f"{_KIND}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**model, "operations": kept}), encoding="utf-8")
