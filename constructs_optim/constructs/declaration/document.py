"""A YAML document with the location of each value, for errors with file, line and column."""

# pyright: standard
# Not strict: the parser has no static types.
from __future__ import annotations

import math
import re
import sys
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.tokens import FlowMappingEndToken, FlowMappingStartToken, FlowSequenceEndToken, FlowSequenceStartToken

from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.errors import RecipeError, Violation, close_matches, did_you_mean
from constructs_optim.recipe.forms import FILE_PAIR, Form, similar
from constructs_optim.recipe.rules.model_rules import ARCHIVES
from constructs_optim.recipe.secrets import without_secrets
from constructs_optim.recipe.settings import Settings, Takes, accepts, expected, listed, number_in, one_by_location

from .references import BEGINS_REFERENCE, PLACEHOLDER, REFERENCE_EXAMPLES
from .schema import Call, Choice, example_of, made_by, needed_keys
from .wording import flow, shown_in_yaml

DOCUMENTATION = page("endpoint-file")
"""The page about declarations as files."""
Path_ = tuple[str | int, ...]
"""The keys and indices of a value in a document."""
_A_LIST = "a list"
_MAPPINGS = ("dict_type", "model_type")
_MOST_VALUES, _MOST_CHARACTERS, _MOST_LEVELS = 20_000, 500_000, 50
_YAML = "YAML 1.2, or JSON"
# Text without quotes before a reference, and a reference with the text and the references after it.
_PLAIN_BEFORE = re.compile(r"[^\s,\[\]{}]*")
_UNQUOTED = re.compile(r"(?:\$\{[^{}\n]*\}(?:[^\s,\[\]{}$]|\$(?!\{))*)+")
_NO_CHARACTER = re.compile(r"\\U(?!00(?:0[0-9a-fA-F]|10))[0-9a-fA-F]{8}")
_CLOSED_BY = {FlowMappingStartToken: "{}", FlowSequenceStartToken: "[]"}
_LONGEST = 120
_TAG = "tag:yaml.org,2002:"
_NODES = {"map": MappingNode, "seq": SequenceNode}
_TEXTS = ("str", "timestamp")
_SCALARS = ("bool", "float", "int", "null")
_KINDS = (*_NODES, *_TEXTS, *_SCALARS)
_Model = TypeVar("_Model", bound=Call)


SCHEMA_VERSION = 1
"""The version of the schema; newer releases may raise it."""


class DeclarationError(RecipeError):
    """A declaration that breaks rules; each violation's location begins with file, line and column."""

    subject: ClassVar[str] = "the declaration has"
    noun: ClassVar[str] = "error"
    most: ClassVar[int | None] = 100

    def __init__(self, violations: Iterable[Violation], more: int | None = 0) -> None:
        super().__init__(sorted(violations, key=lambda each: _line_and_column(each.location)), more)


@dataclass(frozen=True)
class Document:
    """The content of a file as plain data, with the locations of its keys and values."""

    name: str
    data: Any
    has_places: bool = True
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """The options of the command line that replaced values at the top, by key."""
    _values: dict[Path_, tuple[int, int]] = field(default_factory=dict[Path_, tuple[int, int]], repr=False)
    _keys: dict[Path_, tuple[int, int]] = field(default_factory=dict[Path_, tuple[int, int]], repr=False)
    _texts: dict[Path_, str] = field(default_factory=dict[Path_, str], repr=False)

    @staticmethod
    def read(path: Path) -> Document:
        """Return the document of a YAML or JSON file.

        Raises:
            DeclarationError: if the file cannot be read, or is not YAML.
        """
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 1)
        except OSError as error:
            beside = [each.name for each in path.parent.glob("*") if each.suffix in (".yaml", ".yml", ".json")]
            names = beside if isinstance(error, FileNotFoundError) else ()
            fix = did_you_mean(path.name, names, "the path of a file of YAML or JSON")
            raise _refused(str(path), str(path), f"{error.strerror}", fix) from None
        except UnicodeDecodeError:
            raise _refused(str(path), str(path), "this is not UTF-8 text", "a file of YAML or JSON") from None
        except ValueError as error:
            raise _refused(str(path), str(path), f"{error}", "the path of a file of YAML or JSON") from None
        return Document.parsed(text, str(path))

    @staticmethod
    def parsed(text: str, name: str) -> Document:
        """Return the document of a text; errors call it ``name``.

        Raises:
            DeclarationError: if the text is not YAML, is too long to be a declaration, or this release does not know
                its schema version.
        """
        if len(text) > _MOST_CHARACTERS:
            line = text.count("\n", 0, _MOST_CHARACTERS) + 1
            column = _MOST_CHARACTERS - text.rfind("\n", 0, _MOST_CHARACTERS)
            reason, fix = f"the file has more than {_MOST_CHARACTERS:,} characters", "a shorter file"
            raise _refused(f"{name}:{line}:{column}", None, reason, fix)
        parser = YAML(typ="safe", pure=True)
        parser.Composer = _Composer
        reader = _Reader(name, parser.constructor)
        try:
            root = _composed(parser, name, text)
            data = reader.value(root, (), ()) if root is not None else None
        except MarkedYAMLError as error:
            raise _not_yaml(name, text, error) from None
        except YAMLError as error:
            raise _refused(name, None, f"this is not YAML: {error}", _YAML) from None
        except _TooMuch as error:
            raise _refused(f"{name}:{error.line}:{error.column}", None, error.reason, error.suggestion) from None
        document = Document(name, data, _values=reader.values, _keys=reader.keys, _texts=reader.texts)
        if data is None:
            raise _refused(f"{name}:1:1", None, "the file is empty", "`stack: <name>`, and constructs")
        document._refuse_newer_schema()
        return document

    def without_places(self) -> Document:
        """Return the document of a generated text, whose errors have paths but no lines."""
        return replace(self, has_places=False)

    def _refuse_newer_schema(self) -> None:
        """Refuse a file whose ``schema`` this release does not know, before checking its keys."""
        version = self.value_at(("schema",))
        if isinstance(version, int) and version > SCHEMA_VERSION:
            fix = f"a newer release of constructs-optim, or a file of schema {SCHEMA_VERSION}"
            reason = f"the file is of schema {version}, and this release knows schema {SCHEMA_VERSION}"
            raise _refused(self.at(("schema",)), version, reason, fix)

    def at(self, path: Sequence[str | int], *, is_key: bool = False) -> str:
        """Return ``file:line:column path`` of a value or key; if it does not exist, of its nearest parent."""
        return f"{self.place(path, is_key=is_key)} {dotted(path)}".rstrip()

    def place(self, path: Sequence[str | int], *, is_key: bool = False) -> str:
        """Return ``file:line:column``, ``file`` for a document without locations, or the option for its value."""
        if path and (option := self.options.get(str(path[0]))) is not None:
            return option
        if not self.has_places:
            return self.name
        known, places = tuple(path), ChainMap(self._keys, self._values) if is_key else self._values
        while known and known not in places:
            known = known[:-1]
        line, column = places.get(known, (1, 1))
        return f"{self.name}:{line}:{column}"

    def owner_of(self, path: Path_, location: str) -> Path_:
        """Return the innermost path around ``path`` with the first key of a rule's location; without any, ``path``.

        A component is refused for settings of its endpoint, and both for the stack's Region.
        """
        around = (path[:end] for end in range(len(path), -1, -1))
        return next((each for each in around if self.below(each, location) != each), path)

    def below(self, path: Path_, location: str) -> Path_:
        """Return the path of a rule's location, such as ``model.version``, in the value at ``path``, as far as the file
        has it.
        """
        return self.located(path, location)[0]

    def located(self, path: Path_, location: str) -> tuple[Path_, Path_]:
        """Return the path of a rule's location in the value at ``path``, and its rest that the file does not have."""
        node, found = self.value_at(path), path
        # Names may be in brackets and quotes: severities['POL001'].
        names = [text.strip("'") for text in re.split(r"[.\[]", location.replace("]", ""))]
        parts = [int(text) if text.isdigit() else text for text in names]
        for number, part in enumerate(parts if location else ()):
            choice = _mapping(node)
            if part not in choice and len(choice) == 1:
                # A factory's name stands between: model.jumpstart.version.
                name, inner = next(iter(choice.items()))
                if part in _mapping(inner):
                    found, node = (*found, name), inner
            if not _has(node, part):
                return found, (*parts[number:],)
            found, node = (*found, part), node[part]
        return found, ()

    def value_at(self, path: Path_) -> Any:
        """Return the value at a path, or None."""
        node = self.data
        for part in path:
            if not _has(node, part):
                return None
            node = node[part]
        return node

    def keys_at(self, path: Path_) -> list[str]:
        """Return the keys of the mapping at a path; empty without a mapping."""
        return list(map(str, _mapping(self.value_at(path))))

    def validated(self, model: type[_Model], path: Path_ = ()) -> _Model:
        """Return the call that the value at a path declares.

        Raises:
            DeclarationError: if the value has errors; lists the first 100.
        """
        try:
            return model.model_validate(self.value_at(path))
        except ValidationError as error:
            problems: dict[Path_, list[tuple[Any, _Followed]]] = {}
            for problem in error.errors(include_url=False):
                followed = self._followed(problem["loc"], model, path, is_missing=problem["type"] == "missing")
                of_path = problems.setdefault(followed.path, [])
                if not (followed.lacks_ids and of_path):
                    of_path.append((problem, followed))
            # A hint takes a search among all settings, and nobody reads thousands of them.
            in_order = sorted(problems, key=lambda each: _line_and_column(self.place((*path, *each))))
            first = [each for of in in_order[: DeclarationError.most] for each in problems[of]]
            found = [self._violation(problem, followed, model, path) for problem, followed in first]
            more = len(in_order[DeclarationError.most :])
            raise DeclarationError(one_by_location(found), more) from None

    def _violation(self, problem: Any, followed: _Followed, model: type[Call], below: Path_) -> Violation:
        kind, value, context = problem["type"], problem["input"], _mapping(problem.get("ctx"))
        path, models, fields, inner = followed.path, followed.models, followed.fields, followed.inner
        last, whole = path[-1] if path else "", (*below, *path)
        # What suggestions contain.
        known = without_secrets(value, str(last), ...)
        if followed.lacks_ids:
            return self._without_ids(whole, inner[0])
        if kind == "extra_forbidden":
            name = str(path[-1])
            fix = _missing_keys(models, name, value, self.keys_at(whole[:-1]))
            fix = fix or form_of_keys(models).hint(name, value, followed.around)
            if not below and path[:-1] and name in model.model_fields:
                fix = f"{name} is a key of the whole file: write it without indentation"
            reason = f"there is no {path[-1]!r} here"
            return violation(self.at(whole, is_key=True), without_secrets(value, name), reason, fix)
        if kind == "missing":
            return violation(self.at(whole), None, f"{path[-1]!r} is needed", f"{path[-1]}: ...")
        if value is None:
            is_needed = any(last in needed_keys(each) for each in models)
            fix = (
                "a value" if is_needed else f"a value, or to leave the {'item' if isinstance(last, int) else 'key'} out"
            )
            return violation(self.at(whole, is_key=True), None, "there is no value", fix)
        if kind == "list_type":
            return violation(self.at(whole), value, "this is not a list", _as_list(known, fields))
        if kind in _MAPPINGS or (kind == "kind" and _as_mapping(known, inner)):
            fix = _as_mapping(known, inner) or _a_mapping(inner)
            return violation(self.at(whole), value, "this is not a mapping", fix)
        if kind == "choice" and (each := _alone(known, inner)):
            fix = f"an item for each: {', '.join(each)}" if isinstance(last, int) else " or ".join(each)
            return violation(self.at(whole), value, context["reason"], fix)
        number = number_in(value) if isinstance(value, str) else None
        if number is not None and context.get("takes_parameter") and any(_takes(of, number) for of in fields):
            return violation(self.at(whole), value, context["reason"], f"{value}, without quotes")
        if context.get("takes_parameter"):
            fix = f"a number, or a parameter: {self.number_parameter(_id_of(path))}"
            return violation(self.at(whole), value, context["reason"], fix)
        if "reason" in context:
            return violation(self.at(whole), value, context["reason"], problem["msg"])
        if kind == "string_type" and (text := self._texts.get(whole)) is not None:
            is_text = not fields or accepts(fields[0], text)
            fix = ("" if is_text else _of_pattern(fields)) or f'text, in quotes: "{text}"'
            return violation(self.at(whole), value, "this is not text", fix)
        if kind == "string_type" and isinstance(known, list) and (fix := _in_list(known, models, path)):
            return violation(self.at(whole), value, "this is a list, and not text", fix)
        if kind == "string_pattern_mismatch":
            place, pattern = self.at(whole, is_key=problem["loc"][-1:] == ("[key]",)), context["pattern"]
            if "${" in PLACEHOLDER.sub("", value):
                return violation(place, value, BEGINS_REFERENCE, REFERENCE_EXAMPLES)
            wrong = {each for each in value if not _is_allowed(each, pattern)}
            instead = "-" if _is_allowed("-", pattern) else ""
            allowed = "".join(instead if each in wrong else each for each in value)
            if wrong and re.search(pattern, allowed):
                reason = f"it must not contain {', '.join(sorted(map(repr, wrong)))}"
                return violation(place, value, reason, f"for example {flow(allowed)}")
            fix = _of_pattern(fields) or f"text that matches {pattern}"
            return violation(place, value, "this value does not work", fix)
        fix = expected(problem)
        if kind in ("int_type", "float_type") and number is not None:
            fix = f"{value}, without quotes"
        return violation(
            self.at(whole), value, "this value does not work", fix.replace("True or False", "true or false")
        )

    def _without_ids(self, path: Path_, model: type[Call]) -> Violation:
        """Return the violation of a mapping of IDs with the keys of what an ID names."""
        value, form = _mapping(self.value_at(path)), form_of_keys([model])
        below = _below_ids(value, form)
        key = next(key for key in value if _is_setting(value, key, [model]) or (below and key in form.members))
        reason = f"the keys here are IDs, and {key!r} is a key below an ID"
        if below:
            fix = ", and ".join(
                f"{' and '.join(f'`{each}`' for each in of)} below `{of_id}`" for of_id, of in below.items()
            )
            shown = without_secrets(value[key], str(key))
            return violation(self.at((*path, key), is_key=True), shown, reason, f"indent {fix}")
        known = {key: each for key, each in _mapping(without_secrets(value, "", ...)).items() if key in form.members}
        around = _form_of((model,), None, (*needed_keys(model),), "{{}}")
        named = around.of_value(known)
        if len(named) > _LONGEST:
            named = around.of_value(dict.fromkeys(known, ...))
        name = re.sub("^On(?=[A-Z])", "", model.__name__)
        return violation(self.at(path), value, reason, f"{{{name}: {named}}}, where {name} is an ID of your choice")

    def number_parameter(self, name: str, *, other: bool = True) -> str:
        """Return how to refer to a parameter of the file for numbers: to one with a similar name, or else to a new one;
        with ``other``, to any before a new one.
        """
        parameters = _mapping(self.value_at(("parameters",))).items()
        numbers = [str(each) for each, of in parameters if _mapping(of).get("type") == "Number"]
        if near := close_matches(name, numbers) or (numbers if other else []):
            return f'"${{{near[0]}}}"'
        return f'"${{{name}}}", with {self.declaration("parameters", name, {"type": "Number"})}'

    def declaration(self, section: str, id: str, value: Mapping[str, Any]) -> str:
        """Return how to declare something in a section of the file."""
        if section in _mapping(self.data):
            return f"{id}: {flow(value)} in {section}"
        return f"{section}: {flow({id: value})} at the top of the file"

    def _followed(
        self, location: Sequence[str | int], model: type[Call], below: Path_, *, is_missing: bool
    ) -> _Followed:
        node, models, inner = self.value_at(below), [model], [model]
        path: Path_ = ()
        fields: list[FieldInfo] = []
        around: list[tuple[str, Form]] = []
        of_ids = False
        for number, part in enumerate(location):
            if not _has(node, part) and not (is_missing and number == len(location) - 1):
                continue
            if of_ids and part in _keys(inner) and any(_is_setting(node, key, inner) for key in _keys(inner)):
                return _Followed(path, models, fields, inner, around, lacks_ids=True)
            if path and isinstance(path[-1], str):
                around.insert(0, (path[-1], form_of_keys(models)))
            path, node, models = (*path, part), self.value_at((*below, *path, part)), inner
            fields = [each.model_fields[str(part)] for each in models if part in each.model_fields and not of_ids]
            of_ids = any(dict in _origins(each.annotation) for each in fields)
            if fields:
                inner = [found for each in fields for found in _models_in(each.annotation)]
        return _Followed(path, models, fields, [] if of_ids else inner, around)


@dataclass(frozen=True)
class _Followed:
    """pydantic's location of a problem, as a path of the document.

    Attributes:
        path: the path, without the names of types.
        models: the models that contain its last part.
        fields: the last part's fields in those models; empty for an ID or an index.
        inner: the models of the value, or of its items; empty for a mapping of IDs.
        around: the forms around those models, the innermost first, with the keys at which they contain them.
        lacks_ids: whether the value is a mapping of IDs that has keys of the models instead.
    """

    path: Path_
    models: Sequence[type[Call]]
    fields: Sequence[FieldInfo]
    inner: Sequence[type[Call]]
    around: Sequence[tuple[str, Form]]
    lacks_ids: bool = False


# The nodes of a mapping's keys and values, by key.
_Members = dict[str, tuple[Any, Any]]
_PLACE = re.compile(r":(\d+):(\d+)(?: |$)")


def _line_and_column(location: str) -> tuple[int, int]:
    found = _PLACE.search(location)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


class FileViolation(Violation, frozen=True):
    """A violation in a document, whose value is shown as YAML."""

    @property
    def shown_value(self) -> str:
        """The value as the user writes it, in a file."""
        return shown_in_yaml(self.value)


def violation(place: str, value: object, reason: str, suggestion: str) -> FileViolation:
    """Return the violation at a location in a document."""
    return FileViolation(
        rule=Settings.rule,
        location=place,
        value=without_secrets(value),
        reason=reason,
        suggestion=suggestion,
        link=DOCUMENTATION,
    )


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as text: ``endpoints.Chat.techniques[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _refused(place: str, value: object, reason: str, suggestion: str) -> DeclarationError:
    return DeclarationError([violation(place, value, reason, suggestion)])


def _composed(parser: YAML, name: str, text: str) -> Any:
    """Return the node at a text's root; None if there is none."""
    try:
        with warnings.catch_warnings():
            # YAML 1.2 allows it: an alias means the last anchor of its name.
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            return parser.compose(text)
    except DeclarationError:
        raise
    except (ValueError, OverflowError):
        # ruamel.yaml passes the number to chr().
        found = _NO_CHARACTER.search(text)
        start = found.start() if found is not None else 0
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        reason = r"this escape is no character: the last one is \U0010ffff"
        raise _refused(f"{name}:{line}:{column}", None, reason, "the character itself, or its escape") from None


def _not_yaml(name: str, text: str, error: MarkedYAMLError) -> DeclarationError:
    """Return the error about a text that is not YAML."""
    # The rest of ruamel's message is about ruamel's options.
    reason, fix = (error.problem or error.context or "").partition("\n")[0], _YAML
    context, mark = error.context or "", error.problem_mark or error.context_mark
    if mark is None:
        return _refused(name, None, f"this is not YAML: {reason}", fix)
    line, column = mark.line, mark.column
    # The parser does not count a byte order mark.
    lines = text.removeprefix("\ufeff").splitlines()
    if "'\\t'" in reason:
        reason, fix = "there is a tab where only spaces are allowed", "indent with spaces: spaces in place of tabs"
    elif "scanning a quoted scalar" in context and error.context_mark is not None:
        # The problem is at the end of the file.
        line, column = error.context_mark.line, error.context_mark.column
        reason, fix = "this quote is not closed", "the same quote after the text"
    elif "parsing a flow" in context and (token := _open_bracket(text, mark.index)) is not None:
        opened, (bracket, closing) = token.start_mark, _CLOSED_BY[type(token)]
        if "".join(lines[line : line + 1])[:column].endswith("$"):
            column -= 1
            unquoted = "${...}"
            if (found := _UNQUOTED.match(lines[line], column)) is not None:
                # Nothing searches the line, which can be long: the text around the reference is read outwards from it.
                before = _PLAIN_BEFORE.match(lines[line][:column][::-1])
                column -= before.end() if before is not None else 0
                unquoted = lines[line][column : found.end()].rstrip(":")
            reason = "in braces and brackets, text with ${...} needs quotes"
            fix = f"{flow(unquoted)}, in quotes"
        elif "<stream end>" in reason:
            line, column = opened.line, opened.column
            reason, fix = f"this `{bracket}` is not closed", f"`{closing}` after its last value"
        else:
            missing = "a value" if "node content" in reason else "`,`"
            fix = f"{missing} or `{closing}` before this, because the `{bracket}` of line {opened.line + 1} is open"
    shown = "".join(lines[line : line + 1]).strip()
    return _refused(f"{name}:{line + 1}:{column + 1}", shown, f"this is not YAML: {reason}", fix)


def _open_bracket(text: str, before: int) -> Any:
    """Return the token of the last bracket before an index that is not closed there; None without any."""
    opened: list[Any] = []
    with suppress(YAMLError):
        for token in YAML(typ="safe", pure=True).scan(text):
            if token.start_mark.index >= before:
                break
            if isinstance(token, tuple(_CLOSED_BY)):
                opened.append(token)
            elif isinstance(token, FlowMappingEndToken | FlowSequenceEndToken) and opened:
                opened.pop()
    return opened[-1] if opened else None


class _TooMuch(Exception):
    """The file has more than is read; ``mark`` is the place of the first value beyond."""

    def __init__(self, mark: Any, reason: str, suggestion: str) -> None:
        super().__init__(reason)
        self.line, self.column, self.reason, self.suggestion = mark.line + 1, mark.column + 1, reason, suggestion


def _too_many_values(mark: Any) -> _TooMuch:
    fix = f"at most {_MOST_VALUES:,} values, including aliases and merged (`<<`) keys"
    return _TooMuch(mark, "the file has too many values", fix)


class _Composer(Composer):
    """Ends at too many or too deeply nested values, before the rest of the file is parsed."""

    _count = _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        self._count += 1
        # Keys are nodes, too.
        if self._count > 2 * _MOST_VALUES:
            raise _too_many_values(mark)
        if self._depth == _MOST_LEVELS:
            raise _TooMuch(mark, "its values are nested too deeply", f"at most {_MOST_LEVELS} levels")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Reader:
    """Reads the nodes of a parsed file into plain data, and records their locations.

    The work is limited, and not only the result: values, their aliases, and each key of a merged mapping count.
    """

    def __init__(self, name: str, constructor: Any) -> None:
        self._name, self._constructor = name, constructor
        self.values: dict[Path_, tuple[int, int]] = {}
        self.keys: dict[Path_, tuple[int, int]] = {}
        self.texts: dict[Path_, str] = {}
        """The numbers and Booleans as the file writes them, such as 012345678901."""
        self._count = 0
        self._known: dict[int, _Members] = {}
        self._merging: set[int] = set()

    def value(self, node: Any, path: Path_, around: tuple[int, ...]) -> Any:
        """Return the data of a node at a path; ``around`` are the nodes that contain it."""
        self.values[path] = _place(node)
        self._add(1, node)
        if id(node) in around:
            raise self._refused(node, "a value contains itself through an alias", "an alias of another value")
        kind, around = node.tag.removeprefix(_TAG), (*around, id(node))
        if kind in _KINDS and not isinstance(node, _NODES.get(kind, ScalarNode)):
            raise self._wrong_tag(node)
        if kind == "map":
            data: dict[str, Any] = {}
            for name, (key, member) in self._members(node).items():
                self.keys[*path, name] = _place(key)
                data[name] = self.value(member, (*path, name), around)
            return data
        if kind == "seq":
            return [self.value(each, (*path, index), around) for index, each in enumerate(node.value)]
        if kind in _TEXTS:
            return self._text(node)
        if kind in _SCALARS:
            if kind != "null":
                self.texts[path] = node.value
            return self._scalar(node)
        raise self._refused(node, f"this has the tag {node.tag}", "a value without a tag")

    def _wrong_tag(self, node: Any) -> DeclarationError:
        tag = node.tag.removeprefix(_TAG)
        return self._refused(node, f"the tag !!{tag} does not fit this value", "a value without a tag")

    def _text(self, node: Any) -> str:
        r"""Return a node's text; two escapes as in JSON, such as ``\ud83d\ude00``, are one character."""
        try:
            return node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            reason = "a surrogate, \\ud800 to \\udfff, stands alone, and is no character"
            raise self._refused(node, reason, "the character itself, or both of its escapes") from None

    def _scalar(self, node: Any) -> Any:
        try:
            value = self._constructor.construct_object(node)
        except (KeyError, ValueError, IndexError):
            # Python converts at most 4,300 digits.
            if not re.fullmatch(r"[-+]?[0-9][0-9_]*", node.value):
                raise self._wrong_tag(node) from None
            value = math.inf
        if isinstance(value, int | float) and abs(value) > sys.float_info.max:
            raise self._refused(node, "this number is too large", "a smaller number, or text in quotes")
        if value != value:
            raise self._refused(node, "this is not a number", "a number, or text in quotes")
        return value

    def _add(self, work: int, node: Any) -> None:
        self._count += work
        if self._count > _MOST_VALUES:
            raise _too_many_values(node.start_mark)

    def _members(self, node: Any) -> _Members:
        """Return the nodes of a mapping's keys and values by key, with merged (``<<``) ones before its own."""
        if (known := self._known.get(id(node))) is not None:
            return known
        if id(node) in self._merging:
            raise self._refused(node, "a value contains itself through an alias", "an alias of another value")
        self._merging.add(id(node))
        merged: _Members = {}
        own: _Members = {}
        for key, member in node.value:
            if key.tag == f"{_TAG}merge":
                for each in member.value if member.tag == f"{_TAG}seq" else [member]:
                    if each.tag != f"{_TAG}map" or id(each) == id(node):
                        raise self._refused(each, "`<<` merges this, and it is not a mapping", "an alias of a mapping")
                    more = self._members(each)
                    self._add(len(more) + 1, key)
                    merged = {**more, **merged}
                continue
            if key.tag.removeprefix(_TAG) not in ("str", "int", "bool", "float", "timestamp"):
                raise self._refused(key, "this key is not text", "text")
            if (name := self._text(key)) in own:
                raise self._refused(key, f"there are two keys {name!r}", "one of them")
            own[name] = key, member
        self._merging.discard(id(node))
        self._known[id(node)] = {**merged, **own}
        return self._known[id(node)]

    def _refused(self, node: Any, reason: str, suggestion: str) -> DeclarationError:
        line, column = _place(node)
        return _refused(
            f"{self._name}:{line}:{column}", node.value if isinstance(node.value, str) else None, reason, suggestion
        )


def _place(node: Any) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _mapping(node: Any) -> dict[str | int, Any]:
    return cast("dict[str | int, Any]", node) if isinstance(node, dict) else {}


def _has(node: Any, part: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(cast("list[Any]", node))
    return part in _mapping(node)


def form_of_keys(models: Iterable[type[Call]]) -> Form:
    """Return the form of models' keys."""
    return _form_of((*models,))


@cache
def _form_of(
    models: tuple[type[Call], ...],
    only: tuple[str, ...] | None = None,
    needed: tuple[str, ...] = (),
    around: str = "{}",
) -> Form:
    """Return the form of models' keys, or ``only`` of some of them."""
    members = {
        of.alias or name: [*_forms_of(of.annotation, Takes.of(made_by(model), name))]
        for model in models
        for name, of in model.model_fields.items()
        if only is None or name in only
    }
    return Form(members, needed, around, FILE_PAIR, text=partial(_text, models))


def _text(models: Sequence[type[Call]], name: str, value: object) -> str:
    """Return the text of a key's value: of the given one, or of the mapping or the list that it is meant as."""
    fields = [of for model in models for key, of in model.model_fields.items() if name in (key, of.alias)]
    if value is ... or any(_takes(of, value) for of in fields):
        return flow(value)
    if mapping := _as_mapping(value, _inner(fields)):
        return mapping
    if any(list in _origins(of.annotation) for of in fields) and (items := _as_list(value, fields)) != _A_LIST:
        return items
    inner = [found for of in fields for found in _models_in(of.annotation) if not issubclass(found, Choice)]
    return _form_of((inner[0],), None, (*needed_keys(inner[0]),), "{{}}").written({}) if inner else "..."


def _takes(field: FieldInfo, value: object) -> bool:
    """Return whether a key accepts a value of a file."""
    annotation = field.annotation
    if not isinstance(annotation, type) or not issubclass(annotation, Call):
        return accepts(field, value)
    try:
        annotation.model_validate(value)
    except ValidationError:
        return False
    return True


def _forms_of(annotation: Any, only: Sequence[str] | None) -> Iterator[Form]:
    """Yield the forms of a key's value; the keys of other mappings are IDs, and only choices are known in lists."""
    origins = _origins(annotation)
    for model in _models_in(annotation) if dict not in origins else ():
        if list not in origins:
            yield _form_of((model,), (*only,) if only is not None else None, (*needed_keys(model),), "{{}}")
        elif issubclass(model, Choice):
            yield _form_of((model,), around="[{}]")


def _origins(annotation: Any) -> set[Any]:
    """Return the generic types in an annotation."""
    return {get_origin(annotation), *(each for part in get_args(annotation) for each in _origins(part))}


def _id_of(path: Path_) -> str:
    """Return an ID with the name of the last key in a path: MaxCapacity."""
    return "".join(map(str.capitalize, next(str(each) for each in reversed(path) if isinstance(each, str)).split("_")))


def _alone(value: object, inner: Iterable[type[Call]]) -> list[str]:
    """Return the choices in a mapping of several, each as a mapping; empty if one of them is unknown."""
    choices = _mapping(value)
    return [flow({name: of}) for name, of in choices.items()] if len(choices) > 1 and {*choices} <= _keys(inner) else []


def _keys(models: Iterable[type[Call]]) -> set[str | int]:
    return {of.alias or name for model in models for name, of in model.model_fields.items()}


def _is_setting(ids: Any, key: str | int, models: Iterable[type[Call]]) -> bool:
    """Return whether a key in a mapping of IDs is one of the models', and no ID: its value is not a mapping."""
    return key in _keys(models) and key in ids and not isinstance(ids[key], dict)


def _below_ids(value: Mapping[str | int, Any], form: Form) -> dict[str | int, list[str | int]]:
    """Return the keys in a mapping of IDs that are a form's and no IDs, by the ID before each; empty without IDs.

    An ID has no value if all of its keys are indented too little. Other keys than IDs are misspelled ones of the form.
    """
    # A search for similar names takes long, and nobody misspells one key among hundreds.
    is_short = len(value) <= _LONGEST
    ids = {
        key: each
        for key, each in value.items()
        if (each is None or isinstance(each, dict))
        and key not in form.members
        and (_mapping(each).keys() & form.members.keys() or not (is_short and similar(form.members, key)))
    }
    below: dict[str | int, list[str | int]] = {}
    before = next(iter(ids), None)
    for key in value:
        if key in ids:
            before = key
        elif before is not None and key in form.members:
            below.setdefault(before, []).append(key)
    return below


def _missing_keys(models: Iterable[type[Call]], name: str, value: object, given: Sequence[str]) -> str:
    """Return a question with the needed keys that a mapping lacks and that accept the value of an unknown key; empty
    if the models have keys like it.
    """
    form = form_of_keys(models)
    fields = {of.alias or key: of for model in models for key, of in model.model_fields.items()}
    needed = [key for model in models for key in needed_keys(model) if key not in given]
    lacking = [key for key in needed if _takes(fields[key], value)]
    is_similar = form.own(name) or similar(form.members, name)
    return f"did you mean {' or '.join(lacking)}?" if lacking and not is_similar else ""


def _of_pattern(fields: Sequence[FieldInfo]) -> str:
    """Return what matches a field's pattern, with its example; empty without an example."""
    examples = [str(example) for each in fields for example in each.examples or ()]
    patterns = [each.pattern for of in fields for each in of.metadata if getattr(each, "pattern", None)]
    digits = [found[1] for each in patterns if (found := re.fullmatch(r"\^\\d\{(\d+)\}\$", each))]
    # An example in words names several values.
    shown = [flow(each) if re.search(patterns[0], each) else each for each in examples[:1] if patterns]
    return "".join(f"{f'{digits[0]} digits in quotes, ' if digits else ''}for example {each}" for each in shown)


def _in_list(items: Sequence[Any], models: Iterable[type[Call]], path: Path_) -> str:
    """Return where a list goes that is the value of a key for one text; empty if that is not clear."""
    key = str(path[-1]) if path else ""
    fields = {
        name: of for model in models for name, of in model.model_fields.items() if list in _origins(of.annotation)
    }
    lists = [name for name, of in fields.items() if key in _keys(_models_in(of.annotation))]
    written = flow([{key: each} for each in items])
    return f"one text, or in place of {key}, {lists[0]}: {written}" if lists else ""


def _a_mapping(models: Sequence[type[Call]]) -> str:
    """Return what a mapping of the models is."""
    shapes = " or ".join(map(example_of, models))
    return f"a mapping such as {shapes}" if shapes else "a mapping: keys with their values"


def _inner(fields: Iterable[FieldInfo]) -> list[type[Call]]:
    """Return the models of the values of keys, but not of mappings, whose keys are IDs."""
    forms = [each.annotation for each in fields if dict not in _origins(each.annotation)]
    return [found for each in forms for found in _models_in(each)]


def _as_mapping(value: object, inner: Sequence[type[Call]]) -> str:
    """Return a mapping with a value as the key that it is for; empty if that is not clear."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    named = {of.alias or name: of for model in inner for name, of in model.model_fields.items()}
    if isinstance(value, str) and value.startswith("s3://") and "uri" in named:
        # A prefix ends with a slash; what to do with an archive, the rules say.
        is_archive = value.lower().endswith(ARCHIVES)
        return f"{{uri: {flow(value if is_archive else value.removesuffix('/') + '/')}}}"
    # An ID such as vpc-0a1b.
    if prefixed := [name for name in named if isinstance(value, str) and value.startswith(f"{name}-")]:
        deeper = _as_mapping(value, _inner([named[prefixed[0]]]))
        return f"{{{prefixed[0]}: {deeper or flow(value)}}}"
    needed = [name for model in inner for name in needed_keys(model)]
    ids = [name for name in needed if str(value).startswith(f"{name.removesuffix('_id')}-")]
    # Of numbers without a needed key, the first one is the most important.
    numbers = [name for name, of in named.items() if not needed and not isinstance(value, str) and accepts(of, value)]
    # Of several needed keys, the first one names what it is.
    first = [name for name in needed if isinstance(value, str) and accepts(named[name], value)]
    key = needed[0] if len(needed) == 1 else next(iter([*ids, *numbers, *first]), None)
    written = ", ".join(f"{name}: {flow(value) if name == key else '...'}" for name in needed or [key])
    return f"{{{written}}}" if key else ""


def _as_list(value: object, fields: Sequence[FieldInfo]) -> str:
    """Return a list with a value, or with what it can mean, as its only item."""
    items = [found for each in fields for found in _models_in(each.annotation)]
    if not isinstance(value, str) or not items:
        meant = [items for of in fields if (items := listed(of, value)) is not None]
        return flow(meant[0]) if meant else _A_LIST
    if issubclass(items[0], Choice):
        near = re.findall(r"^did you mean (.*)\?$", items[0].hint(value))
        return " or ".join(f"[{each}]" for each in near[0].split(" or ")) if near else _A_LIST
    return f"[{_as_mapping(value, items) or example_of(items[0])}]"


def _is_allowed(character: str, pattern: str) -> bool:
    """Return whether a character may be inside a text that matches a pattern."""
    return re.search(pattern, f"a{character}a") is not None


def _models_in(annotation: Any) -> Iterator[type[Call]]:
    """Yield the models in an annotation, but not the models nested in them."""
    if isinstance(annotation, type) and issubclass(annotation, Call):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
