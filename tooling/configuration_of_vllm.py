"""What the classes of vLLM's configuration say of its arguments: ranges, and the fields of those that are JSON.

``tooling/engine_arguments.py`` imports this in the engines' environment, once for each release.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import vllm
import vllm.config
from vllm.config.speculative import SpeculativeConfig
from vllm.engine.arg_utils import EngineArgs, get_type_hints
from vllm.v1.attention.backends.registry import AttentionBackendEnum

_LIMITS = ("gt", "ge", "lt", "le")
# Fields that vLLM fills in (create_speculative_config of engine/arg_utils.py, __post_init__ of SpeculativeConfig).
_FILLED = frozenset({f"{of}_{what}_config" for of in ("target", "draft") for what in ("model", "parallel")})
# vLLM reads these in capitals and in small letters (field validators of ModelConfig and AttentionConfig).
_ANY_CASE = frozenset({"attention_backend", "quantization"})


def described() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the classes say of arguments."""
    named = re.findall(r"(?:= |\(\s*)(\w+Config)[.,]", inspect.getsource(EngineArgs))
    classes = [getattr(vllm.config, name) for name in sorted({*named}) if hasattr(vllm.config, name)]
    for field in dataclasses.fields(EngineArgs):
        ranges = [found for each in classes if (found := _bounds(each, field.name))]
        # Fields of the same name can have other ranges.
        bounds = ranges[0] if ranges and all(each == ranges[0] for each in ranges) else None
        own = SpeculativeConfig if field.name == "speculative_config" else _class_of(field.type)
        row = {"bounds": bounds, "keys": _keys(own) if own is not None else None, "any_case": field.name in _ANY_CASE}
        if field.name == "attention_backend":
            row["choices"] = ["auto", *sorted(_backends())]
        yield field.name, {name: value for name, value in row.items() if value}


def _bounds(of: Any, name: str) -> dict[str, float]:
    field = getattr(of, "__pydantic_fields__", {}).get(name)
    limits = field.metadata if field is not None else ()
    return {key: getattr(each, key) for each in limits for key in _LIMITS if getattr(each, key, None) is not None}


def _class_of(kind: Any) -> Any:
    """Return the class that JSON becomes, if it allows no other fields."""
    for each in get_type_hints(kind) if not isinstance(kind, str) else ():
        if dataclasses.is_dataclass(each) and getattr(each, "__pydantic_config__", {}).get("extra") == "forbid":
            return each
    return None


def _keys(of: Any) -> dict[str, Any] | None:
    """Return the fields of a class; None if it changes what it is given before it checks the names."""
    decorators = of.__pydantic_decorators__
    if any(each.info.mode != "after" for each in decorators.model_validators.values()):
        return None
    changed = {
        name for each in decorators.field_validators.values() if each.info.mode != "after" for name in each.info.fields
    }
    return {field.name: _key(of, field, changed) for field in _fields(of)}


def _fields(of: Any) -> list[Any]:
    return [each for each in dataclasses.fields(of) if each.init and each.name not in _FILLED]


def _key(of: Any, field: Any, changed: set[str]) -> dict[str, Any]:
    if changed & {field.name, "*"}:
        return {}
    inner = _class_of(field.type)
    kinds = get_type_hints(field.type) if not isinstance(field.type, str) else set()
    are_named = kinds and all(get_origin(each) is Literal or each is type(None) for each in kinds)
    choices = [choice for each in kinds for choice in get_args(each)] if are_named else []
    row = {
        "bounds": _bounds(of, field.name),
        "keys": _keys(inner) if inner is not None else None,
        "choices": sorted(choices) if all(isinstance(each, str) for each in choices) else None,
    }
    return {name: value for name, value in row.items() if value}


def _backends() -> Iterator[str]:
    """Yield the names of attention backends, without those that have no code."""
    for name, backend in AttentionBackendEnum.__members__.items():
        module = str(backend.value or "").rpartition(".")[0].removeprefix("vllm.").replace(".", "/")
        has_code = any((Path(vllm.__file__).parent / f"{module}{end}").exists() for end in (".py", "/__init__.py"))
        if backend.value is None or (module and has_code):
            yield name
