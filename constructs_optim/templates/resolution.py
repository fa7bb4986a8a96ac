"""A template's values before its deployment: evaluates intrinsic functions whose references are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .json_values import as_array, as_object, is_array, is_object
from .references import PLACEHOLDER, Reference, direct_reference

LookUp = Callable[[Reference], str | None]
"""Returns a reference's value; None if it is known only at deployment."""


class KnownLater(Exception):
    """A value is known only at deployment; ``args`` describes its reference."""


class Resolver:
    """Evaluates a template's values; ``exported`` returns the value of another stack's export."""

    def __init__(self, template: Mapping[str, Any], look_up: LookUp, exported: Callable[[str], str | None]) -> None:
        self._mappings = as_object(template.get("Mappings"))
        self._look_up, self._exported = look_up, exported

    def value(self, value: Any) -> Any:
        """Return the value with its intrinsic functions evaluated.

        Raises:
            KnownLater: if a part of the value is known only at deployment.
        """
        reference = direct_reference(value)
        if reference is not None:
            return self._referred(reference)
        match value:
            case {"Fn::Join": [separator, parts]} if len(value) == 1:
                return str(separator).join(str(part) for part in as_array(self.value(parts)))
            case {"Fn::Sub": [str() as pattern, variables]} if len(value) == 1:
                return self._substituted(pattern, as_object(variables))
            case {"Fn::Sub": str() as pattern} if len(value) == 1:
                return self._substituted(pattern, {})
            case {"Fn::Select": [index, items]} if len(value) == 1:
                return self._item(as_array(self.value(items)), int(str(index)))
            case {"Fn::Split": [str() as separator, text]} if len(value) == 1:
                return str(self.value(text)).split(separator)
            case {"Fn::FindInMap": [name, first, second]} if len(value) == 1:
                row = as_object(as_object(self._mappings.get(str(name))).get(str(self.value(first))))
                return self._known(row.get(str(self.value(second))), f"a value of the mapping {name}")
            case {"Fn::ImportValue": name} if len(value) == 1:
                export = str(self.value(name))
                return self._known(self._exported(export), f"the export {export}")
            case _ if is_array(value):
                return [self.value(item) for item in value]
            case _ if is_object(value):
                if function := next((name for name in value if name.startswith("Fn::")), None):
                    raise KnownLater(function)
                return {name: self.value(item) for name, item in value.items()}
            case _:
                return value

    def pruned(self, value: Any) -> Any:
        """Return the value without unknown items of lists.

        Raises:
            KnownLater: if another part of the value is known only at deployment.
        """
        if is_object(value) and direct_reference(value) is None and not any(name.startswith("Fn::") for name in value):
            return {name: self.pruned(item) for name, item in value.items()}
        if not is_array(value):
            return self.value(value)
        known: list[Any] = []
        for item in value:
            try:
                known.append(self.pruned(item))
            except KnownLater:
                continue
        return known

    def _referred(self, reference: Reference) -> str:
        name = reference.target if reference.attribute is None else f"{reference.target}.{reference.attribute}"
        return self._known(self._look_up(reference), name)

    def _substituted(self, pattern: str, variables: Mapping[str, Any]) -> str:
        def text(escaped: str, name: str) -> str:
            if escaped:
                return f"${{{name}}}"
            known = self.value(variables[name]) if name in variables else self._referred(Reference.named(name))
            return str(known)

        return PLACEHOLDER.sub(lambda matched: text(*matched.groups()), pattern)

    @staticmethod
    def _item(items: Sequence[Any], index: int) -> Any:
        if index >= len(items):
            raise KnownLater("an item of a list")
        return items[index]

    @staticmethod
    def _known(value: Any, name: str) -> Any:
        if value is None:
            raise KnownLater(name)
        return value
