"""Techniques written as text: ``kind=name[,setting=value]``, for example ``quantization=awq,group_size=64``.

A list setting is repeated for each item. Numbers, true and false are parsed as JSON. A model is a Hugging Face
``owner/name``, optionally with ``@<commit>``, or ``s3://bucket/prefix/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from constructs_optim.recipe.forms import meant
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.settings import UnknownSettingsError, as_text, settings_of

from .base import REGISTRY, Technique

_EXAMPLE = "quantization=awq,group_size=64"


def parse(text: str) -> Technique:
    """Parse a technique. Raises UnknownSettingsError, or RecipeError for invalid settings."""
    head, *parts = [part.strip() for part in text.split(",")]
    kind, _, name = head.lower().replace("-", "_").partition("=")
    # The name can be omitted if it equals the kind.
    technique = REGISTRY.get(kind, {}).get(name or kind)
    if technique is None:
        raise UnknownSettingsError(_meant(head, parts), "no technique has this name")
    return technique(**settings_of(technique, head, parts))


def _meant(head: str, parts: Sequence[str]) -> str:
    """Return what works in place of ``kind=name``, ``Kind.name`` or ``name``, followed by settings."""
    first, *others = re.findall(r"\w+", head.lower().replace("-", "_")) or [""]
    kinds = [first] if first in REGISTRY else meant(first, REGISTRY)
    name = others[0] if others else first
    found = _named(kinds, name) or _named(REGISTRY, name)
    if found:
        settings = parts if len(found) == 1 else ()
        texts = [",".join([f"{each.kind}={each.name}", *settings]) for each in found]
        return f"did you mean {' or '.join(texts)}? In Python: {' or '.join(map(call_of, found))}"
    if kinds:
        names = ", ".join(f"{kinds[0]}={known}" for known in REGISTRY[kinds[0]])
        of_kind = f"a technique of {kinds[0]}: {names}"
        return of_kind if first in REGISTRY else f"did you mean {of_kind}?"
    return f"a kind of technique: {', '.join(REGISTRY)}; for example, {_EXAMPLE}"


def _named(kinds: Iterable[str], name: str) -> list[type[Technique]]:
    """Return the techniques of these kinds that have a name, or else a similar one."""
    same = [REGISTRY[kind][name] for kind in kinds if name in REGISTRY[kind]]
    return same or [REGISTRY[kind][near] for kind in kinds for near in meant(name, REGISTRY[kind])]


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
    return f"{technique.display_name()}({', '.join(f'{name}=...' for name in technique.needed())})"
