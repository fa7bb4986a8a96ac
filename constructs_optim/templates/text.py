"""The text of a value, with its intrinsic functions evaluated as far as that goes before a deployment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .json_values import as_object, is_array, is_object
from .references import PLACEHOLDER, Reference, direct_reference, readable_id


class TextRenderer:
    """Renders values for readers, with ``${Name}`` for what only a deployment knows. Subclasses may change that."""

    def text(self, value: Any) -> str:
        """A value of any kind as text."""
        reference = direct_reference(value)
        if reference is not None:
            return self.reference(reference)
        match value:
            case None:
                return "none"
            case bool():
                return "true" if value else "false"
            case {"Fn::Join": [separator, parts]} if len(value) == 1 and is_array(parts):
                return str(separator).join(self.text(part) for part in parts)
            case {"Fn::Sub": [str() as pattern, variables]} if len(value) == 1:
                return self._substituted(pattern, as_object(variables))
            case {"Fn::Sub": str() as pattern} if len(value) == 1:
                return self._substituted(pattern, {})
            case {"Fn::ImportValue": name} if len(value) == 1:
                return self.text(name)
            case _:
                return self.data(value) if is_object(value) or is_array(value) else str(value)

    def reference(self, reference: Reference) -> str:
        """The text of a ``Ref`` or ``Fn::GetAtt``, and of their placeholders in ``Fn::Sub``."""
        name = readable_id(reference.target)
        return f"${{{name}}}" if reference.attribute is None else f"${{{name}.{reference.attribute}}}"

    def data(self, value: Any) -> str:
        """An object or an array, be it data or a function that is not evaluated."""
        match value:
            case {"Fn::FindInMap": [name, *_]} if len(value) == 1:
                return f"${{{name}}}"
            case {"Fn::Select": [_, inner]} | {"Fn::Split": [_, inner]} if len(value) == 1:
                return self.text(inner)
            case _:
                pass
        if is_array(value):
            return ", ".join(self.text(item) for item in value)
        return "{" + ", ".join(f"{name}: {self.text(item)}" for name, item in as_object(value).items()) + "}"

    def _substituted(self, pattern: str, defined: Mapping[str, Any]) -> str:
        def replacement(matched: re.Match[str]) -> str:
            escaped, name = matched.groups()
            if escaped:
                return f"${{{name}}}"
            return self.text(defined[name]) if name in defined else self.reference(Reference.named(name))

        return PLACEHOLDER.sub(replacement, pattern)


def text_of(value: Any) -> str:
    """A value for readers: ``${Name}`` stands for what only a deployment knows."""
    return TextRenderer().text(value)
