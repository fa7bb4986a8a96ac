"""A value's text, with intrinsic functions evaluated as far as possible before a deployment."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .json_values import as_object, is_array, is_object
from .references import PLACEHOLDER, Reference, direct_reference, readable_id


def placeholder(reference: Reference) -> str:
    """Return ``${Name}`` or ``${Name.Attribute}``, for a value known only at deployment."""
    name = readable_id(reference.target)
    return f"${{{name}}}" if reference.attribute is None else f"${{{name}.{reference.attribute}}}"


def text_of(value: Any, render: Callable[[Reference], str] = placeholder) -> str:
    """Return any value as readable text; ``render`` formats its references."""
    reference = direct_reference(value)
    if reference is not None:
        return render(reference)

    def substituted(pattern: str, variables: Any) -> str:
        def replacement(matched: re.Match[str]) -> str:
            escaped, name = matched.groups()
            if escaped:
                return f"${{{name}}}"
            defined = as_object(variables)
            return text_of(defined[name], render) if name in defined else render(Reference.named(name))

        return PLACEHOLDER.sub(replacement, pattern)

    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case {"Fn::Join": [separator, parts]} if len(value) == 1 and is_array(parts):
            return str(separator).join(text_of(part, render) for part in parts)
        case {"Fn::Sub": [str() as pattern, variables]} if len(value) == 1:
            return substituted(pattern, variables)
        case {"Fn::Sub": str() as pattern} if len(value) == 1:
            return substituted(pattern, {})
        case {"Fn::ImportValue": inner} | {"Fn::Select": [_, inner]} | {"Fn::Split": [_, inner]} if len(value) == 1:
            return text_of(inner, render)
        case {"Fn::FindInMap": [name, *_]} if len(value) == 1:
            return f"${{{name}}}"
        case _ if is_array(value):
            return ", ".join(text_of(item, render) for item in value)
        case _ if is_object(value):
            return "{" + ", ".join(f"{name}: {text_of(item, render)}" for name, item in value.items()) + "}"
        case _:
            return str(value)
