"""A YAML document with the place of each of its values, by which errors name file, line and column."""

# pyright: standard
# Not strict: the parser has no static types.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_args

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from constructs_optim.recipe.errors import RecipeError, Violation
from constructs_optim.recipe.settings import Settings, expected, meant_name

from .schema import Call

DOCUMENTATION = "docs/endpoint-file.md"
"""The page about declarations as files."""
Path_ = tuple[str | int, ...]
"""The keys and indices of a value in a document."""
_MAPPINGS = ("dict_type", "model_type")
_MOST_VALUES = 50_000
_Model = TypeVar("_Model", bound=Call)


class DeclarationError(RecipeError):
    """A declaration that breaks rules; the location of each violation begins with file, line and column."""

    subject: ClassVar[str] = "the declaration breaks"


@dataclass(frozen=True)
class Document:
    """The content of a file: plain data, and where its keys and values are."""

    name: str
    data: Any
    _values: dict[Path_, tuple[int, int]] = field(default_factory=dict[Path_, tuple[int, int]], repr=False)
    _keys: dict[Path_, tuple[int, int]] = field(default_factory=dict[Path_, tuple[int, int]], repr=False)

    @staticmethod
    def read(path: Path) -> Document:
        """The document of a file of YAML or JSON.

        Raises:
            DeclarationError: where it cannot be read, or is no YAML.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise _refused(str(path), str(path), f"{error.strerror}", "the path of a file of YAML or JSON") from None
        except UnicodeDecodeError:
            raise _refused(str(path), str(path), "this is no text in UTF-8", "a file of YAML or JSON") from None
        return Document.parsed(text, str(path))

    @staticmethod
    def parsed(text: str, name: str) -> Document:
        """The document of a text, which errors call ``name``.

        Raises:
            DeclarationError: where it is no YAML.
        """
        try:
            loaded = YAML().load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
            line = text.splitlines()[mark.line : mark.line + 1] if mark is not None else []
            # The rest of ruamel's message is about its own options.
            reason = (error.problem or error.context or "").partition("\n")[0]
            raise _refused(place, "".join(line).strip(), f"this is no YAML: {reason}", "YAML 1.2, or JSON") from None
        except YAMLError as error:
            raise _refused(name, None, f"this is no YAML: {error}", "YAML 1.2, or JSON") from None
        except RecursionError:
            raise _refused(name, None, "its values are nested too deep", "fewer levels") from None
        values: dict[Path_, tuple[int, int]] = {}
        keys: dict[Path_, tuple[int, int]] = {}
        try:
            data = _plain(loaded, (), values, keys)
        except RecursionError:
            raise _refused(name, None, "a value contains itself by an alias", "aliases of other values") from None
        except OverflowError:
            fix = f"at most {_MOST_VALUES:,} values, those of aliases included"
            raise _refused(name, None, "the file has too many values", fix) from None
        return Document(name, data, values, keys)

    def at(self, path: Sequence[str | int], *, is_key: bool = False) -> str:
        """``file:line:column path`` of a value, or of a key; of what is around it where the document has none."""
        return f"{self.place(path, is_key=is_key)} {dotted(path)}".rstrip()

    def place(self, path: Sequence[str | int], *, is_key: bool = False) -> str:
        """``file:line:column`` alone."""
        known, places = tuple(path), {**self._values, **self._keys} if is_key else self._values
        while known and known not in places:
            known = known[:-1]
        line, column = places.get(known, (1, 1))
        return f"{self.name}:{line}:{column}"

    def below(self, path: Path_, location: str) -> Path_:
        """The path of a rule's location, such as ``model.version``, in the value at ``path``."""
        node, found = self.value_at(path), path
        for text in location.replace("[", ".").replace("]", "").split("."):
            part = int(text) if text.isdigit() else text
            choice = _mapping(node)
            if part not in choice and len(choice) == 1:
                # A factory's name stands between: model.jumpstart.version.
                name, inner = next(iter(choice.items()))
                if part in _mapping(inner):
                    found, node = (*found, name), inner
            if not _has(node, part):
                break
            found, node = (*found, part), node[part]
        return found

    def value_at(self, path: Path_) -> Any:
        """The value at a path; None where the document has none."""
        node = self.data
        for part in path:
            if not _has(node, part):
                return None
            node = node[part]
        return node

    def keys_at(self, path: Path_) -> list[str]:
        """The keys of the mapping at a path; none where the document has none."""
        return list(map(str, _mapping(self.value_at(path))))

    def validated(self, model: type[_Model], path: Path_ = ()) -> _Model:
        """The call that the value at a path declares.

        Raises:
            DeclarationError: with everything that is wrong.
        """
        try:
            return model.model_validate(self.value_at(path))
        except ValidationError as error:
            found = [self._violation(problem, model, path) for problem in error.errors(include_url=False)]
            raise DeclarationError(found) from None

    def _violation(self, problem: Any, model: type[Call], below: Path_) -> Violation:
        kind, value, context = problem["type"], problem["input"], _mapping(problem.get("ctx"))
        path, models = self._followed(problem["loc"], model, below, is_missing=kind == "missing")
        whole = (*below, *path)
        if kind == "extra_forbidden":
            names = list(dict.fromkeys(name for each in models for name in each.model_fields))
            return violation(
                self.at(whole, is_key=True), value, f"there is no {path[-1]!r} here", meant_name(names, path[-1])
            )
        if kind == "missing":
            return violation(self.at(whole), None, f"{path[-1]!r} is needed", f"{path[-1]}: ...")
        if value is None:
            return violation(self.at(whole, is_key=True), None, "there is no value", "a value, or to leave the key out")
        if kind in _MAPPINGS:
            return violation(self.at(whole), value, "this is no mapping", "a mapping: keys with their values")
        if "reason" in context:
            return violation(self.at(whole), value, context["reason"], problem["msg"])
        return violation(self.at(whole), value, "this value does not work", expected(problem))

    def _followed(
        self, location: Sequence[str | int], model: type[Call], below: Path_, *, is_missing: bool
    ) -> tuple[Path_, list[type[Call]]]:
        """The path of pydantic's location, without names of types, and the models that its last part is in."""
        node, models, inner = self.value_at(below), [model], [model]
        path: Path_ = ()
        for number, part in enumerate(location):
            if not _has(node, part) and not (is_missing and number == len(location) - 1):
                continue
            path, node, models = (*path, part), self.value_at((*below, *path, part)), inner
            fields = [each.model_fields[part] for each in models if part in each.model_fields]
            if fields or not isinstance(part, int):
                inner = [found for each in fields for found in _models_in(each.annotation)] or models
        return path, models


def violation(place: str, value: object, reason: str, suggestion: str) -> Violation:
    """What is wrong at a place of a document."""
    return Violation(
        rule=Settings.rule, location=place, value=value, reason=reason, suggestion=suggestion, link=DOCUMENTATION
    )


def dotted(path: Sequence[str | int]) -> str:
    """A path as text: ``endpoints.Chat.techniques[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _refused(place: str, value: object, reason: str, suggestion: str) -> DeclarationError:
    return DeclarationError([violation(place, value, reason, suggestion)])


def _plain(node: Any, path: Path_, values: dict[Path_, tuple[int, int]], keys: dict[Path_, tuple[int, int]]) -> Any:
    """Python's own types for those of the parser, whose places are recorded, from 1.

    Raises OverflowError where aliases make more values of a file than any declaration has.
    """
    if len(values) > _MOST_VALUES:
        raise OverflowError
    if isinstance(node, CommentedMap):
        for key in node:
            keys[*path, key], values[*path, key] = _place(node.lc.key(key)), _place(node.lc.value(key))
        return {key: _plain(value, (*path, key), values, keys) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        values.update({(*path, index): _place(node.lc.item(index)) for index in range(len(node))})
        return [_plain(value, (*path, index), values, keys) for index, value in enumerate(node)]
    return next((kind(node) for kind in (bool, int, float, str) if isinstance(node, kind)), node)


def _place(position: Sequence[int]) -> tuple[int, int]:
    return position[0] + 1, position[1] + 1


def _mapping(node: Any) -> dict[str | int, Any]:
    return cast("dict[str | int, Any]", node) if isinstance(node, dict) else {}


def _has(node: Any, part: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(cast("list[Any]", node))
    return part in _mapping(node)


def _models_in(annotation: Any) -> Iterator[type[Call]]:
    """The models in an annotation, but for those in models."""
    if isinstance(annotation, type) and issubclass(annotation, Call):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
