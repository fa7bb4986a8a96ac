"""The base of all user settings: pydantic validates them, and its errors are reported as violations."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self, TypeVar, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticKnownError, from_json

from .errors import RecipeError, Violation, did_you_mean
from .forms import Form, in_code, meant, meant_name
from .secrets import without_secrets

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_A_TIME = "a time such as 2030-01-31T12:00:00Z"
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "True or False",
    "float_parsing": "a number",
    "float_type": "a number",
    "datetime_from_date_parsing": _A_TIME,
    "datetime_parsing": _A_TIME,
    "datetime_type": _A_TIME,
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": 'a dictionary such as {"NAME": "value"}',
    "sequence_str": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
# Names that pydantic adds to the path of a setting with several types, in addition to names of classes.
_TYPES = {"bool", "float", "int", "str", "[key]", "function-wrap[_has_names()]"}
# Of more settings that accept a value, none is likelier to be meant than another.
_MOST_MEANT = 3
# Of more names than these, the similar ones are proposed.
_NAMES = re.compile(r"'([^']+)'")
_MOST_NAMES = 10
_BOUNDS = {
    "too_short": ("min_length", "a list with at least {} items"),
    "too_long": ("max_length", "a list with at most {} items"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "string_pattern_mismatch": ("pattern", "text that matches {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "finite_number": ("", "a finite number"),
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
}


_CLASSES: list[type[Settings]] = []
"""All classes of settings, in the order of their definitions."""


class Settings(BaseModel):
    """Immutable settings. Raises RecipeError for unknown, missing and out-of-range settings, and for wrong types."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    error: ClassVar[type[RecipeError]] = RecipeError
    rule: ClassVar[str] = "OPT090"
    """The ID of the rule that an invalid setting breaks."""
    rule_link: ClassVar[str] = "https://docs.aws.amazon.com/cdk/v2/guide/work-with-cdk-python.html"

    def __init__(self, /, *unnamed: object, **settings: object) -> None:
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

    @model_validator(mode="wrap")
    @classmethod
    def _has_names(cls, given: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        # pydantic calls the constructor with them as keywords, which Python refuses with an error of its own.
        names = cast("Mapping[object, object]", given) if isinstance(given, Mapping) else ()
        if not all(isinstance(name, str) for name in names):
            raise PydanticKnownError("model_type", {"class_name": cls.__name__})
        return validate(given)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES.append(cls)
        methods_suggest_keywords(cls)

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

    def as_code(self) -> str:
        """Return the code that creates these settings; ``...`` if a factory created them."""
        if self.needed() and factories_of(type(self)):
            return "..."
        given = [name for name in type(self).model_fields if name in self.model_fields_set]
        return f"{self.display_name()}({', '.join(f'{name}={in_code(getattr(self, name))}' for name in given)})"

    @classmethod
    def needed(cls) -> list[str]:
        """Return the settings without which the others are refused."""
        return [name for name, field in cls.model_fields.items() if field.is_required()]

    @classmethod
    def words(cls) -> Sequence[str]:
        """Return the words that mean such settings where no setting has the name."""
        return ()

    @classmethod
    def of_text(cls, text: str) -> Any:
        """Return the settings for a text on the command line, or the text itself if it does not name any."""
        return text

    @classmethod
    def example(cls, value: object) -> str:
        """Return how to write such settings in code, with ``value`` as one of them if it is one."""
        own = cls.display_name()
        factories = {name: _call(f"{own}.{name}", needed_by(each)) for name, each in factories_of(cls).items()}
        if isinstance(value, str) and (named := meant(value, factories)):
            return factories[named[0]]
        form = Form(_members(cls, cls.model_fields), cls.needed(), f"{own}({{}})", text=partial(_text, cls))
        fields = cls.model_fields.items()
        if isinstance(value, str):
            # An ID such as vpc-0a1b.
            written = {name: code_for(field, value) for name, field in fields if value.startswith(f"{name}-")}
        elif isinstance(value, Mapping):
            given = cast("Mapping[str, object]", value)
            written = {name: form.member(name, each) for name, each in given.items() if name in cls.model_fields}
        else:
            accepting = [] if isinstance(value, bool | None) else [each for each in fields if accepts(each[1], value)]
            written = {name: in_code(value) for name, _ in accepting[:1]}
        if written:
            return form.written(written)
        if factories and cls.needed():
            return " or ".join(factories.values())
        return _call(own, cls.needed() or list(cls.model_fields)[:1])

    @classmethod
    def violations(cls, error: ValidationError) -> list[Violation]:
        """Return the violations for pydantic's errors."""
        problems = error.errors(include_url=False)
        # A dictionary in place of settings: their own violations, without those of the other types.
        inner = {each["loc"][:1]: refused for each in problems if (refused := _refused_in(each)) is not None}
        own = [cls._violation(each) for each in problems if each["loc"][:1] not in inner]
        return one_by_location([*own, *(found for refused in inner.values() for found in refused.violations)])

    @classmethod
    def _violation(cls, problem: Mapping[str, Any]) -> Violation:
        kinds = _TYPES | {kind.__name__ for kind in Settings.__subclasses__()}
        parts = [str(part) for part in problem["loc"] if str(part) not in kinds]
        path = ".".join(parts)
        value, reason = problem["input"], f"{cls.display_name()} does not accept this {path.partition('.')[0]}"
        match problem["type"]:
            case "extra_forbidden":
                fix = form_of_settings(cls).hint(path, value, forms_around(cls), cls.words())
                value = without_secrets(value, path)
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
            value=without_secrets(value),
            reason=reason,
            suggestion=fix,
            link=cls.rule_link,
        )


def _refused_in(problem: ErrorDetails) -> RecipeError | None:
    """Return the error of settings in other settings; None for another problem."""
    error = problem.get("ctx", {}).get("error")
    return error if isinstance(error, RecipeError) else None


def _call(name: str, needed: Iterable[str]) -> str:
    return f"{name}({', '.join(f'{each}=...' for each in needed)})"


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


def _created_types(field: FieldInfo) -> list[type[Settings]]:
    """Return the settings types of a setting; none if it also accepts text, which is simpler."""
    return _settings_types(field.annotation) if not accepts(field, "") else []


_OF_CLASSES = {"dataclass_type", "is_instance_of", "model_type"}
_OF_LISTS = {"is_instance_of", "list_type", "sequence_str", "tuple_type"}


def _example(cls: type[Settings], path: Sequence[str], problem: Mapping[str, Any]) -> str:
    """Return how to write the setting at a path, if its type is a list or has settings of its own."""
    value = problem["input"]
    field = cls.model_fields.get(path[0]) if len(path) == 1 else None
    if field is None:
        return ""
    if problem["type"] in _OF_LISTS and not isinstance(value, list | tuple):
        if (items := listed(field, value)) is not None:
            return f"[{', '.join(map(in_code, items))}]"
        if (kind := _kind_of(field.annotation)) is not None:
            return f"[{kind.code_for(value)}]"
    kinds = _settings_types(cast("object", field.annotation)) if problem["type"] in _OF_CLASSES else []
    return kinds[0].example(cast("object", value)) if kinds else ""


def code_for(field: FieldInfo, value: object) -> str:
    """Return the code of a setting's value: of the given one, or of what can be created from it."""
    if value is ... or accepts(field, value):
        return in_code(value)
    if (kind := _kind_of(Annotated[(field.annotation, *field.metadata, None)])) is not None:
        code = kind.code_for(value)
    elif kinds := _created_types(field):
        code = kinds[0].example(value)
    else:
        items = listed(field, value)
        return f"[{', '.join(map(in_code, items))}]" if items is not None else "..."
    # The first of several ways.
    code = re.split(r",? or ", code)[0]
    return f"[{code}]" if "Sequence[" in str(field.annotation) else code


def number_in(text: str) -> int | float | None:
    """Return the number that a text is; None for other text."""
    found = re.fullmatch(r"[-+]?\d{1,15}(\.\d{1,15})?", text)
    return None if found is None else float(text) if found[1] else int(text)


def listed(field: FieldInfo, value: object) -> Sequence[object] | None:
    """Return the list that a setting accepts in place of one value, or of the numbers in a text such as 1,8,32."""
    numbers = map(number_in, re.split(r"[,\s]+", value.strip())) if isinstance(value, str) else ()
    return next((items for items in ([value], [*numbers]) if items and accepts(field, items)), None)


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
    annotation: Any = field.annotation
    if isinstance(annotation, type) and issubclass(cast("type[object]", annotation), BaseModel):
        return isinstance(value, annotation)
    # A dataclass has its own.
    config = None if is_dataclass(field.annotation) else ConfigDict(strict=True, arbitrary_types_allowed=True)
    whole: Any = Annotated[(annotation, *field.metadata)] if field.metadata else annotation
    adapter = TypeAdapter[Any](whole, config=config)
    try:
        adapter.validate_python(value)
    except (ValidationError, ValueError):
        return False
    return True


def factories_of(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class that create its settings, by their names."""
    found: dict[str, Callable[..., Any]] = {
        name: getattr(cls, name)
        for name, each in vars(cls).items()
        if isinstance(each, staticmethod | classmethod) and not name.startswith(("_", "of_"))
    }
    return {name: each for name, each in found.items() if inspect.signature(each).return_annotation == cls.__name__}


def arguments_of(function: Callable[..., object]) -> dict[str, str]:
    """Return a function's arguments with their types as text, with those of ``**options: Unpack[...]``."""
    called = inspect.unwrap(function)
    found: dict[str, str] = {}
    for name, parameter in inspect.signature(called).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = getattr(called, "__globals__", {}).get(_unpacked(parameter))
            found |= {each: str(of) for each, of in getattr(options, "__annotations__", {}).items()}
        elif parameter.kind is not parameter.VAR_POSITIONAL and name not in _NOT_KEYWORDS:
            found[name] = str(parameter.annotation)
    return found


_NOT_KEYWORDS = {"self", "cls", "scope"}


def _unpacked(parameter: inspect.Parameter) -> str:
    """Return the name of the class of ``**options: Unpack[...]``, whose type may be text; empty for others."""
    found = re.fullmatch(r"(?:typing\.)?Unpack\[(?:[\w.]*\.)?(\w+)\]", str(parameter.annotation))
    return found[1] if found is not None else ""


def needed_by(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that a function cannot be called without."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and name not in _NOT_KEYWORDS
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]


def suggests_keywords_of(function: _Function, name: str, form: Callable[[], Form] | None = None) -> _Function:
    """Make a function refuse unknown keywords, and say where the settings are that they mean.

    Python's own message only names the keyword, and functions with ``**options`` would ignore it.

    Args:
        function: the function.
        name: its name in errors.
        form: returns the form of its arguments. Default: ``form_of_call`` of the function.
    """
    variable = [each for each in inspect.signature(function).parameters.values() if each.kind is each.VAR_KEYWORD]
    if any(not _unpacked(each) for each in variable):
        return function
    names = cache(lambda: {*arguments_of(function), *_NOT_KEYWORDS})

    @wraps(function)
    def suggesting(*args: Any, **kwargs: Any) -> Any:
        if kwargs and (unknown := kwargs.keys() - names()):
            given = {each: kwargs[each] for each in sorted(unknown)}
            raise refused_keywords(name, given, form() if form is not None else form_of_call(function))
        return function(*args, **kwargs)

    return cast("_Function", suggesting)


def refused_keywords(name: str, unknown: Mapping[str, object], form: Form) -> TypeError:
    """Return the error about unknown keyword arguments of a function."""
    parts = [f"{keyword!r} ({form.hint(keyword, value)})" for keyword, value in unknown.items()]
    return TypeError(f"{name}(...) has no argument {' and no '.join(parts)}")


def methods_suggest_keywords(cls: _Class) -> _Class:
    """Make a class's public methods and factories refuse unknown keywords, and say which ones are meant."""
    for name, method in list(cast("Mapping[str, object]", vars(cls)).items()):
        if name.startswith("_"):
            continue
        if isinstance(method, staticmethod | classmethod):
            of_class = cast("Any", method)
            suggesting = suggests_keywords_of(of_class.__func__, f"{cls.__name__}.{name}")
            setattr(cls, name, type(of_class)(suggesting))
        elif inspect.isfunction(method):
            setattr(cls, name, suggests_keywords_of(method, name))
    return cls


def form_of_call(function: Callable[..., Any], methods: Mapping[str, str] | None = None) -> Form:
    """Return the form of a function's arguments, whose types may only be text."""
    return Form(
        {
            name: _of_list(forms_of(kinds)) if "Sequence[" in arguments_of(function)[name] else forms_of(kinds)
            for name, kinds in kinds_of_call(function).items()
            # The ID of a construct is positional.
            if name != "id"
        },
        methods=methods or {},
    )


def kinds_of_call(function: Callable[..., Any]) -> dict[str, list[type[Settings]]]:
    """Return the classes of settings that a function's arguments accept."""
    known = {each.__name__: each for each in _CLASSES}
    return {
        name: [known[word] for word in re.findall(r"\w+", annotation) if word in known]
        for name, annotation in arguments_of(function).items()
    }


CONSTRUCTORS: dict[str, tuple[Callable[..., None], Callable[[], Form]]] = {}
"""The constructors that take settings, with the forms of their arguments, by the names of their classes."""


def forms_around(cls: type[Settings]) -> Iterator[tuple[str, Form]]:
    """Yield the forms of the constructors that take settings of a class, with the argument that contains them."""
    # The more arguments, the likelier it is meant.
    for constructor, form in sorted(CONSTRUCTORS.values(), key=lambda each: -len(arguments_of(each[0]))):
        for name, kinds in kinds_of_call(constructor).items():
            if any(_contains(kind, cls) for kind in kinds):
                yield name, form()
                break


def _contains(kind: type[Settings], cls: type[Settings]) -> bool:
    """Return whether settings of one class are, or contain, settings of another."""
    return issubclass(cls, kind) or any(
        _contains(inner, cls) for field in kind.model_fields.values() for inner in _settings_types(field.annotation)
    )


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
    return Form(_members(cls, cls.model_fields), text=partial(_text, cls))


def forms_of(kinds: Iterable[type[Settings]], names: Sequence[str] | None = None) -> list[Form]:
    """Return the forms of settings in code: of classes, or of their factories; only with ``names``, if given."""
    return [form for kind in kinds for each in _concrete(kind) for form in _forms(each, names)]


def _forms(cls: type[Settings], names: Sequence[str] | None) -> Iterator[Form]:
    if cls.needed() and (factories := factories_of(cls)):
        for name, factory in factories.items():
            members = _members(cls, [each for each in arguments_of(factory) if each in cls.model_fields])
            yield Form(members, needed_by(factory), f"{cls.display_name()}.{name}({{}})", text=partial(_text, cls))
    else:
        members, around = _members(cls, names or cls.model_fields), f"{cls.display_name()}({{}})"
        yield Form(members, cls.needed(), around, text=partial(_text, cls), words=cls.words())


def _text(cls: type[Settings], name: str, value: object) -> str:
    return code_for(cls.model_fields[name], value)


def _of_list(forms: Sequence[Form]) -> list[Form]:
    """Return the form of a list with one item."""
    return [Form({"": forms}, around="[{}]", pair="{1}")] if forms else []


def _members(cls: type[Settings], names: Iterable[str]) -> dict[str, list[Form]]:
    members: dict[str, list[Form]] = {}
    for name in names:
        field = cls.model_fields[name]
        forms = forms_of(_created_types(field), Takes.of(cls, name))
        members[name] = _of_list(forms) if get_origin(field.annotation) is Sequence else forms
    return members


def _concrete(kind: type[Settings]) -> Iterable[type[Settings]]:
    """Return the classes that are derived from a class, or the class itself."""
    return [each for each in _CLASSES if issubclass(each, kind) and not each.__subclasses__()]


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
        text = re.sub(r"\b(item|character)s$", r"\1", text) if limit == 1 else text
        return text.format(f"{limit:g}" if isinstance(limit, float) else limit)
    if kind == "is_instance_of" and context.get("class") == "Sequence":
        return "a list"
    if kind in ("is_instance_of", "model_type", "dataclass_type"):
        return f"{context.get('class') or context.get('class_name')}(...)"
    expected = context.get("expected")
    if expected is None:
        return re.sub(r"^(?:Input should be|Value error,) ", "", str(problem["msg"]))
    if kind == "literal_error" and len(names := _NAMES.findall(expected)) > _MOST_NAMES:
        return did_you_mean(value, names, f"one of {expected}")
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
