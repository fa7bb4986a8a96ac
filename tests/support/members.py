"""The members of pydantic's models: their types, bounds, patterns and defaults."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

_DOCUMENTATION = ("title", "description")


def members_of(*models: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of models, and of those in them, without documentation."""
    _, schema = models_json_schema([(each, "validation") for each in models])
    return _bare(schema["$defs"])


def _bare(schema: Any) -> Any:
    """A schema without titles and descriptions, which are documentation."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # Members of these names have schemas themselves.
    kept = {name: each for name, each in schema.items() if name not in _DOCUMENTATION or isinstance(each, dict)}
    return {name: _bare(each) for name, each in kept.items()}
