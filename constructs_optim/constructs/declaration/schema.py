"""Models of the Python API's calls, generated from its signatures, and their JSON Schema.

A settings class is a mapping of its settings. If a class has factories, ``UpdatePolicy.canary(percent=50)`` becomes
``canary: {percent: 50}``, and a factory without required arguments is only its name. An existing construct is its name
or ARN, a duration is ``15m``, and a size is ``256GiB``. Text may contain ``${Name}``, a parameter or an attribute.
"""

# pyright: standard
# Not strict: models created at run time have no static types.
from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union, Unpack, cast, get_args, get_origin, get_type_hints

from annotated_types import BaseMetadata
from aws_cdk import aws_applicationautoscaling, aws_cloudwatch, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Strict,
    StringConstraints,
    Tag,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore, IArtifactStore
from constructs_optim.constructs.monitoring.endpoint_dashboard import EvaluatedModel
from constructs_optim.constructs.monitoring.fleet_dashboard import FleetEndpoint
from constructs_optim.constructs.stack.arguments import SECURITY_GROUP as SECURITY_GROUP_KIND
from constructs_optim.constructs.stack.arguments import VPC
from constructs_optim.recipe.evaluation.workload import Workload
from constructs_optim.recipe.forms import meant
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.objectives import LATENCY_TEXT
from constructs_optim.recipe.servers import Server, ServerSettings
from constructs_optim.recipe.settings import Settings, factories_of
from constructs_optim.recipe.techniques import REGISTRY, Technique

from .references import (
    IN_SCHEMA,
    MODEL,
    PARAMETER,
    REFERENCES,
    SECURITY_GROUP,
    STORE,
    Reference,
    ReferenceKind,
    existing_vpc,
)

_PLACES = {"self", "cls", "scope", "id"}
# Names in signatures that are only imported for type checkers.
_NAMES: dict[str, Any] = {
    "EvaluatedModel": EvaluatedModel,
    "Workload": Workload,
    "cloudwatch": aws_cloudwatch,
    "ec2": aws_ec2,
    "iam": aws_iam,
    "kms": aws_kms,
    "s3": aws_s3,
    "scaling": aws_applicationautoscaling,
    "sns": aws_sns,
}
# Ranges and targets of scaling may be template parameters.
_TAKES_PARAMETERS = ("ModelServer.auto_scale", "EndpointScaling.")
_SCALARS = (bool, int, float, str)
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DOCUMENTED = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([\w.]+)`")


class Call(BaseModel):
    """The keyword arguments of a call of the Python API."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True
    )

    calls: ClassVar[Callable[..., Any]]


class Choice(Call):
    """One of several calls by name: a mapping with that name, or only the name if nothing is required."""

    bare: ClassVar[tuple[str, ...]] = ()
    """The names without required arguments."""

    @classmethod
    def written(cls, name: str) -> str:
        """Return how to write a choice: only its name if nothing is required."""
        return name if name in cls.bare else f"{name}: {{...}}"

    @model_validator(mode="before")
    @classmethod
    def _is_one(cls, data: Any) -> Any:
        names = list(cls.model_fields)
        if isinstance(data, str):
            if data in cls.bare:
                return {data: {}}
            # The command line's form: awq,group_size=64.
            word = data.partition(",")[0].partition("=")[0]
            if word in names:
                reason, fix = "it needs settings", cls.written(word)
            else:
                reason, fix = "there is nothing with that name", cls.hint(word)
            raise PydanticCustomError("choice", "{fix}", {"reason": reason, "fix": fix})
        if isinstance(data, Mapping) and len(cast("Mapping[Any, Any]", data)) != 1:
            fix = f"one of {', '.join(names)}"
            raise PydanticCustomError("choice", "{fix}", {"reason": "this takes exactly one of them", "fix": fix})
        return data

    @classmethod
    def hint(cls, word: str) -> str:
        """Return a question with the members that a name can mean, or that contain it; without any, all members."""
        near = [cls.written(name) for name in meant(word, cls.model_fields)] or cls._inside(word)
        return f"did you mean {' or '.join(near)}?" if near else " or ".join(map(cls.written, cls.model_fields))

    @classmethod
    def _inside(cls, word: str) -> list[str]:
        """Return how to write the members' members that a name can mean: ``quantization: awq`` for ``awq``."""
        return [
            f"{outer}: {name}" if name in inner.bare else f"{outer}: {{{inner.written(name)}}}"
            for outer, inner in cls.choices().items()
            for name in meant(word, inner.model_fields)
        ]

    @classmethod
    def choices(cls) -> dict[str, type[Choice]]:
        """Return the members that are choices themselves."""
        annotations = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: each for name, each in annotations.items() if inspect.isclass(each) and issubclass(each, Choice)}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema: a mapping with one name, or only a name."""
        schema = handler(core_schema)
        mapping = handler.resolve_ref_schema(schema)
        mapping |= {"minProperties": 1, "maxProperties": 1}
        if cls.bare:
            alternatives = [{"enum": list(cls.bare), "type": "string"}, dict(mapping)]
            mapping.clear()
            mapping["anyOf"] = alternatives
        return schema


@cache
def call_of(function: Callable[..., Any], name: str | None = None) -> type[Call]:
    """Return the model of a call of a class, factory or method, without its scope and ID."""
    texts = _descriptions(function)
    fields: dict[str, Any] = {}
    for argument, annotation, default in _arguments(function):
        form = form_of(annotation)
        if form is not Any:
            if function.__qualname__.startswith(_TAKES_PARAMETERS) and "number" in _kinds(form):
                form = union_of([form, PARAMETER.form])
            shown = default if default is ... or _is_shown(default) else None
            fields[argument] = (form, Field(default=shown, description=texts.get(argument, texts.get(""))))
    model = create_model(name or _name_of(function), __base__=Call, __doc__=described(function), **fields)
    model.calls = staticmethod(function)
    _ARGUMENTS.update(fields)
    if inspect.isclass(function):
        _MADE[model.__name__] = model
    return model


def made_by(model: type[Call]) -> object:
    """Return the class whose factory a model calls, such as ``Model`` for ``Model.huggingface``; None without one."""
    function = getattr(model, "calls", None)
    name = getattr(function, "__qualname__", "").partition(".")[0]
    return getattr(sys.modules.get(getattr(function, "__module__", "")), name, None)


def named_forms() -> Mapping[str, type[Call]]:
    """Return the created models by the names of technique groups and classes."""
    return _MADE


def named_arguments() -> Set[str]:
    """Return the names of the arguments of all created models."""
    return _ARGUMENTS


_MADE: dict[str, type[Call]] = {}
_ARGUMENTS: set[str] = set()


def choice_of(name: str, description: str | None, members: Mapping[str, Any]) -> type[Choice]:
    """Return the model of a choice; ``members`` are models or functions by name."""
    forms = {key: each if _is_model(each) else call_of(each) for key, each in members.items()}
    fields: dict[str, Any] = {
        key: (form, Field(default=None, description=_first_paragraph(form.__doc__))) for key, form in forms.items()
    }
    model = create_model(name, __base__=Choice, __doc__=description, **fields)
    model.bare = tuple(key for key, form in forms.items() if _needs_nothing(form))
    _MADE[name] = model
    _ARGUMENTS.update(fields)
    return model


@cache
def form_of(annotation: Any) -> Any:
    """Return the type of an annotation's values in a file; Any for values that a file cannot contain."""
    if annotation in REFERENCES and annotation is not IArtifactStore:
        return REFERENCES[annotation].form
    if annotation in _OWN_FORMS:
        return _OWN_FORMS[annotation]()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _constrained(*arguments)
    if origin in (Union, types.UnionType):
        arms = [each for each in arguments if each is not type(None)]
        if len(arms) > 1 and all(arm in _SCALARS for arm in arms):
            return _either(arms)
        return union_of([form for form in map(form_of, arms) if form is not Any])
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return dict[form_of(arguments[0]), form_of(arguments[1])]
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        return list[form_of(arguments[0])]
    if annotation in (int, float):
        return _within(annotation, [])
    if annotation is datetime:
        return Annotated[datetime, Strict(False)]
    if inspect.isclass(annotation) and issubclass(annotation, Settings):
        return _settings(annotation)
    if inspect.isclass(annotation) and is_dataclass(annotation):
        return call_of(annotation)
    return Any if inspect.isclass(annotation) and annotation.__module__.startswith("aws_cdk") else annotation


def union_of(arms: Sequence[Any]) -> Any:
    """Return a union that selects an arm by the kind of the value, so that errors concern only one arm."""
    if len(arms) < 2:
        return arms[0] if arms else Any
    by_kind: dict[str, list[Any]] = {}
    for arm in arms:
        for kind in _kinds(arm):
            by_kind.setdefault(kind, []).append(arm)
    tagged = [Annotated[_either(of_kind), Tag(f"<{kind}>")] for kind, of_kind in by_kind.items()]
    # The longest ones are last.
    in_order = sorted(by_kind.items(), key=lambda each: each[0] == "mapping")
    fix = ", or ".join(dict.fromkeys(_example(arm, kind) for kind, of_kind in in_order for arm in of_kind))
    return Annotated[
        _either(tagged),
        Discriminator(
            _kind_of,
            custom_error_type="kind",
            custom_error_message="{fix}",
            custom_error_context={
                "reason": "this is another kind of value",
                "fix": fix,
                "takes_parameter": PARAMETER.form in arms,
            },
        ),
    ]


def _either(arms: Sequence[Any]) -> Any:
    return arms[0] if len(arms) == 1 else Union[tuple(arms)]  # noqa: UP007 - of values


_KINDS = {
    "boolean": "true or false",
    "number": "a number",
    "text": "text",
    "list": "a list",
    "mapping": "a mapping",
}


def _example(arm: Any, kind: str) -> str:
    """Return what a value of one of a union's types and of a kind is."""
    if _is_model(arm) and kind == "text":
        return " or ".join(arm.bare)
    if _is_model(arm):
        return f"settings such as {example_of(arm)}"
    schemas = [each.json_schema for each in get_args(arm)[1:] if isinstance(each, WithJsonSchema)]
    references = [each[IN_SCHEMA]["schema"]["description"] for each in schemas if each and IN_SCHEMA in each]
    return next(iter(references), _KINDS[kind])


def example_of(model: type[Call]) -> str:
    """Return how to write a model: with the needed keys, or else the first one; of a choice, with each."""
    if issubclass(model, Choice):
        return " or ".join(f"{{{name}: {{...}}}}" for name in model.model_fields)
    names = needed_keys(model) or [of.alias or name for name, of in model.model_fields.items()][:1]
    return f"{{{', '.join(f'{name}: ...' for name in names)}}}"


def _kind_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "<boolean>"
    kinds = {(int, float): "number", (str, Reference): "text", (list, tuple): "list", (Mapping, BaseModel): "mapping"}
    return next((f"<{kind}>" for classes, kind in kinds.items() if isinstance(value, classes)), None)


def _kinds(form: Any) -> Iterable[str]:
    inner = get_args(form)[0] if get_origin(form) is Annotated else form
    if get_origin(inner) is Union:
        return [kind for arm in get_args(inner) for kind in _kinds(arm)]
    if get_origin(inner) is Literal:
        return dict.fromkeys(str(_kind_of(each)).strip("<>") for each in get_args(inner))
    if _is_model(inner):
        return ["mapping", "text"] if issubclass(inner, Choice) and inner.bare else ["mapping"]
    if get_origin(inner) in (list, dict):
        return ["list" if get_origin(inner) is list else "mapping"]
    return ["boolean" if inner is bool else "number" if inner in (int, float) else "text"]


_LATENCY_SCHEMA = {
    "type": "string",
    "description": "a latency: 40ms or 1.5s",
    "pattern": f"^({LATENCY_TEXT.pattern})$",
}
_LATENCY = Annotated[str, WithJsonSchema({IN_SCHEMA: {"name": "Latency", "schema": _LATENCY_SCHEMA}})]


def _constrained(inner: Any, *metadata: Any) -> Any:
    """Return the form of an annotation with metadata, applying its constraints."""
    if VPC in metadata:
        return call_of(existing_vpc, "Vpc")
    if SECURITY_GROUP_KIND in metadata:
        return SECURITY_GROUP.form
    flat = [each for one in metadata for each in (one.metadata if isinstance(one, FieldInfo) else [one])]
    kept = [each for each in flat if isinstance(each, BaseMetadata | StringConstraints | Strict)]
    if inner in (int, float):
        if any(isinstance(each, BeforeValidator) for each in flat):
            # The setting itself parses its text.
            return union_of([_within(float, kept), _LATENCY])
        return _within(inner, kept)
    if get_origin(inner) in (Union, types.UnionType):
        arms = [each for each in get_args(inner) if each is not type(None)]
        return union_of([_constrained(each, *kept) for each in arms])
    form = form_of(inner)
    is_sized = get_origin(form) in (list, dict) or form is str
    return Annotated[(form, *kept)] if kept and is_sized else form


def _within(kind: type, constraints: Sequence[Any]) -> Any:
    """Return a number type with constraints."""
    # Keeps whole numbers, so that templates show 20 instead of 20.0.
    kept = [WrapValidator(_unchanged)] if kind is float else []
    return Annotated[(kind, *constraints, *kept)] if constraints or kept else kind


def _unchanged(value: Any, validate: Callable[[Any], Any]) -> Any:
    validate(value)
    return value


def _settings(cls: type[Settings]) -> Any:
    """Return the form of settings: by factories, by fields, or by either."""
    if not (factories := factories_of(cls)):
        return call_of(cls)
    choice = choice_of(cls.__name__, described(cls), factories)
    if any(field.is_required() for field in cls.model_fields.values()):
        return choice
    # Alarms have both fields and the factory Alarms.none().
    names = ReferenceKind(
        f"{cls.__name__} name",
        f"{' or '.join(factories)}",
        lambda scope, name, text: factories[text](),
        "|".join(factories),
    )
    return union_of([names.form, call_of(cls)])


def _techniques() -> Any:
    """Return the form of techniques, in snake case: ``quantization: {awq: ...}``, ``medusa: ...``."""
    groups: dict[str, dict[str, Any]] = {}
    alone: dict[str, Any] = {}
    for technique in (each for by_name in REGISTRY.values() for each in by_name.values()):
        group, _, name = technique.display_name().partition(".")
        if name:
            groups.setdefault(group, {})[name] = technique
        else:
            alone[snake(group)] = technique
    choices = {snake(group): choice_of(group, None, members) for group, members in groups.items()}
    return choice_of("Technique", "A technique, by its kind.", {**choices, **alone})


def _servers() -> Any:
    members = {name: each for name, each in vars(Server).items() if inspect.isclass(each)}
    return choice_of("Server", inspect.getdoc(Server), members)


def _stores() -> Any:
    existing = choice_of("ExistingStore", "A store that exists.", {"from_bucket": ArtifactStore.from_bucket})
    return union_of([STORE.form, existing])


# Each is created once, because models with the same name share a definition in the schema.
_OWN_FORMS: dict[Any, Callable[[], Any]] = {
    Technique: cache(_techniques),
    ServerSettings: cache(_servers),
    IArtifactStore: cache(_stores),
    Model: cache(lambda: union_of([MODEL.form, choice_of("Model", described(Model), factories_of(Model))])),
    # Only for endpoints of other apps; a file refers to its own endpoints.
    FleetEndpoint: lambda: Any,
}


def _arguments(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names, annotations and defaults of a call's arguments; ``...`` for a required one."""
    if inspect.isclass(function) and issubclass(function, Settings):
        for name, field in function.model_fields.items():
            annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            yield name, annotation, ... if field.is_required() else field.get_default(call_default_factory=True)
        return
    called = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
    hints = _hints(function if is_dataclass(function) else called)
    for name, parameter in inspect.signature(called).parameters.items():
        hint, kind = hints.get(name, Any), parameter.kind
        if name in _PLACES and kind is not parameter.KEYWORD_ONLY:
            continue
        if kind is parameter.VAR_KEYWORD and get_origin(hint) is Unpack:
            for option, of_option in _hints(get_args(hint)[0]).items():
                yield option, of_option, None
        elif kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            yield name, hint, ... if parameter.default is parameter.empty else parameter.default


def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of, vars(sys.modules[of.__module__]), _NAMES, include_extras=True)


def _is_model(form: Any) -> bool:
    return inspect.isclass(form) and issubclass(form, Call)


def _is_shown(default: Any) -> bool:
    """Return whether the schema can show a default."""
    if isinstance(default, list | tuple):
        return bool(default) and all(map(_is_shown, cast("Sequence[Any]", default)))
    return isinstance(default, _SCALARS)


def needed_keys(form: type[Call]) -> list[str]:
    """Return the keys without which a mapping is refused."""
    calls = getattr(form, "calls", None)
    needed = calls.needed() if inspect.isclass(calls) and issubclass(calls, Settings) else ()
    return [field.alias or name for name, field in form.model_fields.items() if field.is_required() or name in needed]


def _needs_nothing(form: type[Call]) -> bool:
    return not issubclass(form, Choice) and not needed_keys(form)


def _name_of(function: Callable[..., Any]) -> str:
    """Return ``UpdatePolicyCanary`` for ``UpdatePolicy.canary``."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[._]", function.__qualname__))


def snake(name: str) -> str:
    """Return a class's name as a key."""
    return _NEW_WORD.sub("_", name).lower()


def _document_of(function: Callable[..., Any]) -> str:
    own = inspect.getdoc(function) or ""
    constructor = inspect.getdoc(inspect.unwrap(function.__init__)) if inspect.isclass(function) else ""
    return f"{own}\n\n{constructor}" if inspect.isclass(function) and not issubclass(function, BaseModel) else own


def _descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of arguments: ``Args`` of a function, ``Attributes`` of a class and its bases."""
    if inspect.isclass(function) and issubclass(function, Settings):
        bases = list(reversed(function.__mro__))
    else:
        bases = [*_options_of(function), function]
    texts = [_document_of(each) for each in bases]
    found = {name: _plain(text) for document in texts for name, text in _DOCUMENTED.findall(document)}
    # The description of a whole group of options applies to those without their own.
    groups = [described(each) for each in bases if each is not function and not isinstance(each, type(Settings))]
    return {**({"": str(groups[-1])} if groups else {}), **found}


def _options_of(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield the classes of a call's options, the most general one first."""
    called = inspect.unwrap(function.__init__ if inspect.isclass(function) and not is_dataclass(function) else function)
    for hint in _hints(called).values():
        if get_origin(hint) is Unpack:
            yield get_args(hint)[0]


def described(function: Callable[..., Any] | None) -> str | None:
    """Return the first paragraph of a function's documentation."""
    return _first_paragraph(inspect.getdoc(function)) if function is not None else None


def _first_paragraph(document: str | None) -> str | None:
    paragraph = (document or "").partition("\n\n")[0]
    return _plain(paragraph) or None


def _plain(text: str) -> str:
    return " ".join(_ROLE.sub(r"`\1`", text.replace("``", "`")).split())


class Schema(GenerateJsonSchema):
    """JSON Schema for editors, without titles and without null defaults."""

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """Return a schema with its default, if it is not null."""
        return (
            self.generate_inner(schema["schema"]) if schema.get("default") is None else super().default_schema(schema)
        )

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False, because a key's name is its title."""
        return False


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a model."""
    definitions: dict[str, Any] = {}
    schema = _with_references(model.model_json_schema(schema_generator=Schema), definitions)
    schema["$defs"] = dict(sorted({**schema.get("$defs", {}), **definitions}.items()))
    return schema


def _with_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return the schema without titles, and with one definition for each kind of reference."""
    if isinstance(schema, list):
        return [_with_references(each, definitions) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema)
    if (reference := parts.get(IN_SCHEMA)) is None:
        untitled = {key: each for key, each in parts.items() if key != "title" or not isinstance(each, str)}
        match untitled.pop("patternProperties", {}):
            case {**patterns} if patterns:
                # Only keys that match the pattern are allowed.
                ((pattern, each),) = patterns.items()
                untitled |= {"additionalProperties": each, "propertyNames": {"pattern": pattern}}
        return {key: _with_references(each, definitions) for key, each in untitled.items()}
    name = reference["name"]
    definitions[name] = reference["schema"]
    return {"$ref": f"#/$defs/{name}", **{key: each for key, each in parts.items() if key != IN_SCHEMA}}
