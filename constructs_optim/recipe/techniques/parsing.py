"""Techniques written as text: ``kind=name[,setting=value]``, for example ``quantization=awq,group_size=64``.

A list setting is repeated for each item. Numbers, true and false are parsed as JSON. A model is a Hugging Face
``owner/name``, optionally with ``@<commit>``, or ``s3://bucket/prefix/``.
"""

from __future__ import annotations

import re

from constructs_optim.recipe.model import Model
from constructs_optim.recipe.settings import UnknownSettingsError, as_text, meant, settings_of

from .base import REGISTRY, Technique

_EXAMPLE = "quantization=awq,group_size=64"


def parse(text: str) -> Technique:
    """Parse a technique. Raises UnknownSettingsError, or RecipeError for invalid settings."""
    head, *parts = [part.strip() for part in text.split(",")]
    kind, _, name = head.lower().replace("-", "_").partition("=")
    if kind not in REGISTRY:
        if (call := in_code(text)) is not None:
            fix = f"in Python: {call}; on the command line: {_EXAMPLE}, for example"
            raise UnknownSettingsError(fix, "this is a string, not a technique")
        fix = f"a kind of technique: {', '.join(REGISTRY)}; for example, {_EXAMPLE}"
        raise UnknownSettingsError(fix, "no technique has this name")
    # The name can be omitted if it equals the kind.
    technique = REGISTRY[kind].get(name or kind)
    if technique is None:
        near = meant(name, REGISTRY[kind])
        names = [f"{kind}={known}" for known in near or REGISTRY[kind]]
        fix = f"did you mean {' or '.join(names)}?" if near else f"a technique of {kind}: {', '.join(names)}"
        raise UnknownSettingsError(fix, "no technique has this name")
    return technique(**settings_of(technique, head, parts))


def written(technique: Technique) -> str:
    """Format a technique: its name and the settings that differ from their defaults.

    Settings that cannot be written as text, such as training data, are omitted.
    """
    parts = [f"{technique.kind}={technique.name}"]
    for name in technique.model_fields_set:
        value = getattr(technique, name)
        if value == type(technique).model_fields[name].default:
            continue
        if isinstance(value, Model):
            at = f"@{value.revision}" if value.revision else ""
            parts.append(f"{name}={value.name}{at}")
        elif isinstance(value, bool | int | float | str):
            parts.append(f"{name}={as_text(value)}")
    return ",".join([parts[0], *sorted(parts[1:])])


def in_code(text: str) -> str | None:
    """Return the Python call for a technique's name, such as ``Quantization.awq()``; None if no technique matches.

    ``quantization=awq``, ``Quantization.awq`` and ``awq`` name the same technique.
    """
    words = re.split(r"[=.,(]", text.lower().replace("-", "_"))
    techniques = {name: technique for by_name in REGISTRY.values() for name, technique in by_name.items()}
    technique = next((techniques[word.strip()] for word in words if word.strip() in techniques), None)
    return call_of(technique) if technique is not None else None


def call_of(technique: type[Technique]) -> str:
    """Return the Python call that creates a technique, with its required settings."""
    needed = [name for name, field in technique.model_fields.items() if field.is_required()]
    return f"{technique.display_name()}({', '.join(f'{name}=...' for name in needed)})"
