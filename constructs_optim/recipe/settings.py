"""The base of all user settings: pydantic validates them, and its errors are reported as violations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from .errors import RecipeError, Violation, close_matches

_EXPECTED = {
    "bool_type": "True or False",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": 'a dictionary such as {"NAME": "value"}',
    "sequence_str": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
# Names that pydantic adds to the path of a setting with several types, in addition to names of classes.
_TYPES = {"bool", "float", "int", "str"}
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
            fix = f"write the setting's name: {', '.join(f'{name}=...' for name in cls.model_fields)}"
            raise cls.error([cls._mistake("", unnamed[0], "settings are passed by their names", fix)])
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise cls.error(cls.violations(error)) from None
        if contradictions := [*self._contradictions()]:
            raise cls.error(contradictions)

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

    @staticmethod
    def example(value: object) -> str:
        """Return how to write such settings in code if ``value`` names some; empty to show the class's name."""
        return ""

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
                reason, fix = f"{cls.display_name()} has no setting {path!r}", meant_name(cls.model_fields, path)
            case "missing":
                value, reason, fix = None, f"{cls.display_name()} requires {path}", f"{path}=..."
            case "kind":
                reason, fix = problem["ctx"]["reason"], problem["ctx"]["fix"]
            case "value_error":
                reason, _, fix = str(problem["ctx"]["error"]).rpartition(": ")
            case _:
                fix = _example(cls, parts, value) or _attribute(path, value) or expected(problem)
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
    kinds = (annotation, *get_args(annotation))
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)]


def _example(cls: type[Settings], path: Sequence[str], value: object) -> str:
    """Return how to write the setting at a path, if its type has settings of its own."""
    field = cls.model_fields.get(path[0]) if len(path) == 1 else None
    kinds = _settings_types(field.annotation) if field is not None else []
    return kinds[0].example(value) if kinds else ""


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
