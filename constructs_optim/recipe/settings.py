"""The base of all user settings: pydantic validates them, and its errors are reported as violations."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from .errors import RecipeError, Violation, close_matches

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "True or False",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": 'a dictionary such as {"NAME": "value"}',
    "sequence_str": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
# Names that pydantic adds to the path of a setting with several types, in addition to names of classes.
_TYPES = {"bool", "float", "int", "str"}
# Of more settings that accept a value, none is likelier to be meant than another.
_MOST_MEANT = 3
_BOUNDS = {
    "finite_number": ("", "a finite number"),
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
}


class Settings(BaseModel):
    """Immutable settings. Raises RecipeError for unknown, missing and out-of-range settings, and for wrong types."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    error: ClassVar[type[RecipeError]] = RecipeError
    rule: ClassVar[str] = "OPT090"
    """The ID of the rule that an invalid setting breaks."""
    rule_link: ClassVar[str] = "https://docs.aws.amazon.com/cdk/v2/guide/work-with-cdk-python.html"

    def __init__(self, *unnamed: object, **settings: object) -> None:
        cls = type(self)
        if unnamed:
            fix = f"write the setting's name: {', '.join(cls._named(unnamed))}"
            raise cls.error([cls._mistake("", unnamed[0], "settings are passed by their names", fix)])
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise cls.error(cls.violations(error)) from None
        if contradictions := [*self._contradictions()]:
            raise cls.error(contradictions)

    @classmethod
    def _named(cls, unnamed: Sequence[object]) -> Iterable[str]:
        """Return values with the names of the first settings that accept them, or all names."""
        fields = cls.model_fields
        accepting = [[name for name, field in fields.items() if accepts(field, value)] for value in unnamed]
        if not all(0 < len(names) <= _MOST_MEANT for names in accepting):
            return [f"{name}=..." for name in fields]
        named = zip(accepting, unnamed, strict=True)
        return [" or ".join(f"{name}={in_code(value)}" for name in names) for names, value in named]

    def _contradictions(self) -> Iterable[Violation]:
        """Return violations caused by combinations of valid settings."""
        return ()

    @classmethod
    def display_name(cls) -> str:
        """Return the class's name in code."""
        return cls.__name__

    @classmethod
    def of_text(cls, text: str) -> Any:
        """Return the settings for a text on the command line, or the text itself if it does not name any."""
        return text

    @classmethod
    def example(cls, value: object) -> str:
        """Return how to write such settings in code, with ``value`` as one of them if it is one."""
        factories = [name for name, each in factories_of(cls).items() if not needed_by(each)]
        if isinstance(value, str) and (named := meant(value, factories)):
            return f"{cls.display_name()}.{named[0]}()"
        given: dict[str, object] = {}
        if isinstance(value, Mapping):
            given |= cast("Mapping[str, object]", cast("object", value))
        fields = cls.model_fields.items()
        if isinstance(value, str):
            # An ID such as vpc-0a1b.
            texts = {name: _kind_of(field.annotation) for name, field in fields if value.startswith(f"{name}-")}
            if written := [f"{name}={kind.code_for(value)}" for name, kind in texts.items() if kind is not None]:
                return f"{cls.display_name()}({written[0]})"
        elif not given and not isinstance(value, bool | type(None)):
            given |= {name: value for name, field in reversed(fields) if accepts(field, cast("object", value))}
            given = dict([*given.items()][-1:])
        if given:
            return f"{cls.display_name()}({', '.join(f'{name}={in_code(each)}' for name, each in given.items())})"
        needed = [name for name, field in cls.model_fields.items() if field.is_required()]
        if factories and needed:
            return " or ".join(f"{cls.display_name()}.{name}()" for name in factories)
        names = needed or list(cls.model_fields)[:1]
        return f"{cls.display_name()}({', '.join(f'{name}=...' for name in names)})"

    @classmethod
    def violations(cls, error: ValidationError) -> list[Violation]:
        """Return the violations for pydantic's errors."""
        return one_by_location(map(cls._violation, error.errors(include_url=False)))

    @classmethod
    def _violation(cls, problem: Mapping[str, Any]) -> Violation:
        kinds = _TYPES | {kind.__name__ for kind in Settings.__subclasses__()}
        parts = [str(part) for part in problem["loc"] if str(part) not in kinds]
        path = ".".join(parts)
        value, reason = problem["input"], f"{cls.display_name()} does not accept this {path.partition('.')[0]}"
        match problem["type"]:
            case "extra_forbidden":
                fix = form_of_settings(cls).hint(path) or meant_name(cls.model_fields, path)
                reason = f"{cls.display_name()} has no setting {path!r}"
            case "missing":
                value, reason, fix = None, f"{cls.display_name()} requires {path}", f"{path}=..."
            case "kind":
                reason, fix = problem["ctx"]["reason"], problem["ctx"]["fix"]
            case "value_error":
                reason, _, fix = str(problem["ctx"]["error"]).rpartition(": ")
            case _:
                fix = _example(cls, parts, problem) or _attribute(path, value) or expected(problem)
        return cls._mistake(f".{path}" if path else "", value, reason, fix)

    @classmethod
    def _mistake(cls, path: str, value: object, reason: str, fix: str) -> Violation:
        return Violation(
            rule=cls.rule,
            location=f"{cls.display_name()}{path}",
            value=value,
            reason=reason,
            suggestion=fix,
            link=cls.rule_link,
        )


# Alternative names of members.
_SYNONYMS = {"int4": "awq", "int8": "smoothquant", "gptq": "w4a16", "float8": "fp8", "tgi": "text_generation_inference"}


def meant(name: str, names: Iterable[str]) -> list[str]:
    """Return which of ``names`` a text can mean: its synonym, or up to two similar names."""
    known = [*names]
    synonym = _SYNONYMS.get(name.lower())
    return [synonym] if synonym in known else close_matches(name, known)[:2]


class Group(type):
    """The type of groups of settings. For a misspelled member, its AttributeError suggests the right one."""

    # A type checker that sees this method accepts every name.
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            names = [method for method in vars(cls) if not method.startswith("_")]
            near = meant(name, names)
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            raise AttributeError(f"{cls.__name__} has no {name!r}{hint}; it has {', '.join(names)}")


def _settings_types(annotation: object) -> list[type[Settings]]:
    """Return the settings types that an annotation allows."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [kind for each in get_args(annotation) for kind in _settings_types(each)]


_OF_CLASSES = {"dataclass_type", "is_instance_of", "model_type"}
_OF_LISTS = {"is_instance_of", "list_type", "sequence_str", "tuple_type"}


def _example(cls: type[Settings], path: Sequence[str], problem: Mapping[str, Any]) -> str:
    """Return how to write the setting at a path, if its type is a list or has settings of its own."""
    value = problem["input"]
    field = cls.model_fields.get(path[0]) if len(path) == 1 else None
    if field is None:
        return ""
    if problem["type"] in _OF_LISTS and not isinstance(value, list | tuple):
        if accepts(field, [value]):
            return f"[{in_code(value)}]"
        if (kind := _kind_of(field.annotation)) is not None:
            return f"[{kind.code_for(value)}]"
    kinds = _settings_types(cast("object", field.annotation)) if problem["type"] in _OF_CLASSES else []
    return kinds[0].example(cast("object", value)) if kinds else ""


class _Kind(Protocol):
    """A validator that knows how to write its values in code."""

    def code_for(self, value: object) -> str:
        """Return the code of a value of the kind in place of another value."""
        ...


def _kind_of(annotation: object) -> _Kind | None:
    """Return the kind in an annotation, or in the parts of it."""
    parts: tuple[object, ...] = get_args(annotation)
    if found := [part for part in parts if hasattr(part, "code_for")]:
        return cast("_Kind", found[0])
    return next((kind for part in parts if (kind := _kind_of(part)) is not None), None)


def accepts(field: FieldInfo, value: object) -> bool:
    """Return whether a setting accepts a value."""
    annotation: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    if isinstance(annotation, type) and issubclass(cast("type[object]", annotation), BaseModel):
        return isinstance(value, annotation)
    adapter = TypeAdapter[Any](annotation, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
    try:
        adapter.validate_python(value)
    except (ValidationError, ValueError):
        return False
    return True


def in_code(value: object) -> str:
    """Return a value as code, or the name of a variable for an object whose code is not known."""
    if isinstance(value, Settings):
        return f"{value.display_name()}(...)"
    if isinstance(value, str | int | float | list | tuple | dict):
        return repr(value)  # pyright: ignore[reportUnknownArgumentType]
    attributes = [name for name in dir(type(value)) if name.endswith(("_arn", "_id")) and not name.startswith("_")]
    return attributes[0].rpartition("_")[0] if len(attributes) == 1 else "..."


def factories_of(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class that create its settings, by their names."""
    found: dict[str, Callable[..., Any]] = {
        name: getattr(cls, name)
        for name, each in vars(cls).items()
        if isinstance(each, staticmethod | classmethod) and not name.startswith(("_", "of_"))
    }
    return {name: each for name, each in found.items() if inspect.signature(each).return_annotation == cls.__name__}


def _arguments_of(function: Callable[..., object]) -> Iterator[str]:
    """Yield the names of a function's arguments, with those of ``**options: Unpack[...]``, whose type may be text."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
            yield from getattr(getattr(function, "__globals__", {}).get(options), "__annotations__", ())
        else:
            yield name


def needed_by(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that a function cannot be called without."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and name != "self"
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]


# Words of other tools for settings, and those of code and files for each other's.
_ALSO_CALLED = {
    "desired_count": ["initial_instance_count"],
    "instance_count": ["initial_instance_count"],
    "key": ["encryption_key"],
    "kms_key": ["encryption_key"],
    "kms_key_id": ["encryption_key"],
    "sns_topic": ["alarm_actions"],
    "subnet_ids": ["vpc_subnets"],
    "subnets": ["vpc_subnets", "subnet_ids"],
    "topic": ["alarm_actions"],
    "vpc_config": ["vpc"],
    "vpc_id": ["vpc"],
    "vpc_subnets": ["subnet_ids"],
}
# Of more places of a setting, none is likelier to be meant than another.
_MOST_PLACES = 5
_INNER = "\0"


@dataclass(frozen=True)
class Form:
    """How settings are written: a call with arguments in code, or a mapping with keys in a file.

    Attributes:
        members: the names of the settings, with the forms of those that have settings themselves.
        needed: the settings without which the others are refused.
        around: the text around the settings, such as ``NetworkOptions({})``.
        pair: the text of one setting, such as ``{}={}``.
    """

    members: Mapping[str, Sequence[Form]]
    needed: Sequence[str] = ()
    around: str = "{}"
    pair: str = "{}={}"

    def written(self, name: str, value: str = "...") -> str:
        """Return the text of the settings with a value for one of them."""
        values = {**dict.fromkeys(self.needed, "..."), name: value}
        return self.around.replace("{}", ", ".join(self.pair.format(*each) for each in values.items()))

    def inside(self, is_meant: Callable[[str], bool]) -> list[str]:
        """Return how to write the settings inside of others whose names are meant; only the outermost ones."""
        level = [(form, self.written(name, _INNER)) for name, forms in self.members.items() for form in forms]
        while level:
            found = [
                text.replace(_INNER, form.written(name))
                for form, text in level
                for name in filter(is_meant, form.members)
            ]
            if found:
                return list(dict.fromkeys(found))
            level = [
                (inner, text.replace(_INNER, form.written(name, _INNER)))
                for form, text in level
                for name, forms in form.members.items()
                for inner in forms
            ]
        return []

    def hint(self, name: str, others: Sequence[str] = ()) -> str:
        """Return where the setting that a word means is, or ``others`` with its name; empty if it may be anywhere.

        A setting of this form is likelier to be meant than one inside of another.
        """
        words = [name, *_ALSO_CALLED.get(name, ())]
        found = [word for word in words if word in self.members]
        found = found or [each for each in self.members if each.endswith(f"_{name}")]
        found = found or [*others, *self.inside(lambda each: each in words)]
        found = found or self.inside(lambda each: each.endswith(f"_{name}"))
        return f"did you mean {' or '.join(found)}?" if 0 < len(found) <= _MOST_PLACES else ""


@dataclass(frozen=True)
class Takes:
    """Metadata of a setting that uses only some of its type's settings; rules refuse the others."""

    names: Sequence[str]

    @staticmethod
    def of(kind: object, name: str) -> Sequence[str] | None:
        """Return the names for a setting of a class; None for all."""
        field = kind.model_fields.get(name) if isinstance(kind, type) and issubclass(kind, Settings) else None
        metadata = field.metadata if field is not None else ()
        return next((each.names for each in metadata if isinstance(each, Takes)), None)


def form_of_settings(cls: type[Settings]) -> Form:
    """Return the form of a class's settings without the class itself."""
    return Form(_members(cls, cls.model_fields))


def forms_of(kinds: Iterable[type[Settings]], names: Sequence[str] | None = None) -> list[Form]:
    """Return the forms of settings in code: of classes, or of their factories; only with ``names``, if given."""
    return [form for kind in kinds for each in _concrete(kind) for form in _forms(each, names)]


def _forms(cls: type[Settings], names: Sequence[str] | None) -> Iterator[Form]:
    needed = [name for name, field in cls.model_fields.items() if field.is_required()]
    if needed and (factories := factories_of(cls)):
        for name, factory in factories.items():
            members = _members(cls, [each for each in _arguments_of(factory) if each in cls.model_fields])
            yield Form(members, needed_by(factory), f"{cls.display_name()}.{name}({{}})")
    else:
        yield Form(_members(cls, names or cls.model_fields), needed, f"{cls.display_name()}({{}})")


def _members(cls: type[Settings], names: Iterable[str]) -> dict[str, list[Form]]:
    fields = {name: cls.model_fields[name] for name in names}
    return {
        name: forms_of(
            _settings_types(field.annotation) if get_origin(field.annotation) is not Sequence else (),
            Takes.of(cls, name),
        )
        for name, field in fields.items()
    }


def _concrete(kind: type[Settings]) -> Iterable[type[Settings]]:
    """Return the classes that are derived from a class, or the class itself."""
    derived = kind.__subclasses__()
    return [each for subclass in derived for each in _concrete(subclass)] if derived else [kind]


def meant_name(names: Iterable[str], name: object) -> str:
    """Return a hint with the closest of ``names`` to a misspelled name, or with all of them."""
    bare = {known.replace("_", ""): known for known in names}
    near = [bare[known] for known in close_matches(str(name).replace("_", ""), bare)][:2]
    near += [known for known in bare.values() if known.endswith(f"_{name}") and known not in near][:2]
    return f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(bare.values())}"


def _attribute(path: str, value: object) -> str:
    """Return the attribute of a construct to pass instead, such as ``secret.secret_arn``; empty if there is none."""
    words = path.split("_")
    names = ("_".join(words[start:]) for start in range(len(words) - 1))
    name = next((name for name in names if not isinstance(value, str) and hasattr(value, name)), None)
    return f"{name.rpartition('_')[0]}.{name}" if name is not None else ""


def one_by_location(violations: Iterable[Violation]) -> list[Violation]:
    """Return one violation for each location, with all suggestions.

    pydantic reports a value of several types once per type.
    """
    found: dict[str, Violation] = {}
    for violation in violations:
        if (previous := found.get(violation.location)) is not None:
            fix = f"{previous.suggestion} or {violation.suggestion}"
            violation = previous.model_copy(update={"suggestion": fix})
        found[violation.location] = violation
    return list(found.values())


def expected(problem: Mapping[str, Any]) -> str:
    """Return the valid input that an error of pydantic describes."""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _BOUNDS:
        bound, text = _BOUNDS[kind]
        limit = context.get(bound)
        return text.format(f"{limit:g}" if isinstance(limit, float) else limit)
    if kind == "is_instance_of" and context.get("class") == "Sequence":
        return "a list"
    if kind in ("is_instance_of", "model_type", "dataclass_type"):
        return f"{context.get('class') or context.get('class_name')}(...)"
    expected = context.get("expected")
    if expected is None:
        return str(problem["msg"]).removeprefix("Input should be ")
    as_text = isinstance(value, str) and "'" not in str(expected)
    return f"one of {expected}{', as a number and not as text' if as_text else ''}"


def as_text(value: object) -> str:
    """Return a setting as text for a variable or hyperparameter: a list separated by commas, other data as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value, separators=(",", ":"))


class UnknownSettingsError(ValueError):
    """A text that names unknown settings, or lacks required ones. Its message is the fix, ``reason`` the error."""

    def __init__(self, fix: str, reason: str) -> None:
        super().__init__(fix)
        self.reason = reason


def settings_of(cls: type[Settings], head: str, parts: Iterable[str]) -> dict[str, Any]:
    """Parse ``setting=value`` texts into settings of a class, which ``head`` names in errors.

    Repeat a list setting for each item. Numbers, true and false are parsed as JSON, and a model is its ID or its URI.

    Raises:
        UnknownSettingsError: if a setting is unknown, missing, or not of this form.
    """
    fields = cls.model_fields
    settings: dict[str, Any] = {}
    for part in parts:
        setting, separator, value = part.partition("=")
        if not separator:
            raise UnknownSettingsError(f"settings of {head}: {', '.join(fields)}", f"{part!r} is not setting=value")
        if setting not in fields:
            raise UnknownSettingsError(meant_name(fields, setting), f"{head} has no setting {setting!r}")
        annotation = fields[setting].annotation
        if get_origin(annotation) is Sequence:
            settings[setting] = [*settings.get(setting, []), value]
        elif kinds := _settings_types(annotation):
            settings[setting] = kinds[0].of_text(value)
        else:
            settings[setting] = value if str in (annotation, *get_args(annotation)) else _value(value)
    missing = [setting for setting, field in fields.items() if field.is_required() and setting not in settings]
    if missing:
        needed = ", ".join(f"{setting}=..." for setting in missing)
        raise UnknownSettingsError(f"{head} needs {needed}", f"{head} lacks {', '.join(missing)}")
    return settings


def _value(text: str) -> Any:
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
