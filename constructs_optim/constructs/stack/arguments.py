"""Validation of constructs' arguments: errors with suggestions for wrong types and misspelled keywords.

Pydantic validates the CDK's interfaces. An object is recognized by an attribute of its type, because ``isinstance``
does not support jsii's interfaces, and reading an attribute's value is a call to Node.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.settings import Form, Settings, forms_of, needed_by
from constructs_optim.recipe.techniques import REGISTRY, Technique
from constructs_optim.recipe.techniques.parsing import call_of

from .findings import keep_refusal

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_CONVERSIONS = {"to_gibibytes", "to_mebibytes", "to_seconds"}
_NOT_KEYWORDS = {"self", "scope", "id"}
# The message of addChild in constructs/src/construct.ts; an app has no name.
_TAKEN_ID = re.compile(r"There is already a Construct with name '(?P<id>.+?)' in \w+(?: \[(?P<scope>.+?)\])?")


@dataclass(frozen=True)
class Kind:
    """A validator for ``Annotated[type, kind]``: objects of the kind have ``attribute``.

    ``example`` is code that creates one; the wrong value replaces ``{}``, or else ``default`` does.
    """

    description: str
    attribute: str
    example: str
    default: str | float = "..."
    takes: tuple[str, str] | None = None
    """An attribute of another kind of objects, and the code that creates one from such an object."""

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        """Accept objects that have the attribute, unchanged."""
        return core_schema.no_info_plain_validator_function(self._validated)

    def check(self, location: str, value: object) -> None:
        """Raise a ``RecipeError`` for an argument of another kind that is not part of an option class; ignore None."""
        if value is not None and not self._accepts(value):
            violation = Violation(
                rule=Settings.rule,
                location=location,
                value=value,
                reason=f"this takes {self.description}",
                suggestion=self.code_for(value),
                link=Settings.rule_link,
            )
            raise RecipeError([violation])

    def _accepts(self, value: object) -> bool:
        if self.attribute in _CONVERSIONS and hasattr(type(value), self.attribute):
            try:
                return getattr(value, self.attribute)() is not None
            except RuntimeError:
                return False
        # A class has its objects' attributes. jsii's type of an object that implements several interfaces has none.
        return not isinstance(value, type) and (
            type(value).__module__.startswith("jsii.")
            or hasattr(type(value), self.attribute)
            or self.attribute in getattr(value, "__dict__", ())
        )

    def _validated(self, value: Any) -> Any:
        if self._accepts(value):
            return value
        context = {"reason": f"this takes {self.description}", "fix": self.code_for(value)}
        raise PydanticCustomError("kind", "{fix}", context)

    def code_for(self, value: object) -> str:
        """Return the code of an object of the kind, with ``value`` if it is part of one."""
        if self.takes is not None and hasattr(type(value), self.takes[0]) and not isinstance(value, type):
            return self.takes[1]
        if isinstance(value, dt.timedelta):
            return self.example.format(int(value.total_seconds()))
        is_alike = isinstance(value, str if isinstance(self.default, str) else int | float)
        return self.example.format(repr(value if is_alike and not isinstance(value, bool) else self.default))


ALARM = Kind("a cloudwatch.IAlarm", "alarm_arn", 'cloudwatch.Alarm.from_alarm_arn(stack, "Alarm", {})')
ALARM_ACTION = Kind(
    "an alarm action",
    "bind",
    'SnsAction(sns.Topic.from_topic_arn(stack, "Topic", {}))',
    takes=("topic_arn", "SnsAction(topic)"),
)
ALARMS = Kind("Alarms(...)", "stale_evaluation", "Alarms.none(), or Alarms(latency=AlarmSettings(threshold=20))")
BUCKET = Kind("an s3.IBucket", "bucket_arn", 's3.Bucket.from_bucket_name(stack, "Bucket", {})')
COMPONENT = Kind(
    "an inference component, such as a CfnInferenceComponent",
    "inference_component_ref",
    "the construct that declares it",
)
DURATION = Kind("a Duration of whole seconds", "to_seconds", "Duration.seconds({})", 600)
ENDPOINT = Kind(
    "an endpoint: a CfnEndpoint, or a construct with a cfn_endpoint or an endpoint_ref",
    "endpoint_ref",
    'IOptimizedEndpoint.from_endpoint_name(stack, "Chat", {})',
)
GRANTEE = Kind("an iam.IGrantable, such as a role", "grant_principal", 'iam.Role.from_role_arn(stack, "Caller", {})')
KEY = Kind("a kms.IKey", "key_arn", 'kms.Key.from_key_arn(stack, "Key", {})')
METRIC = Kind("a cloudwatch.IMetric", "to_metric_config", "endpoint.metric({})", "gpu_utilization")
REMOVAL_POLICY = Kind("a RemovalPolicy", "RETAIN", "RemovalPolicy.RETAIN")
ROLE = Kind("an iam.IRole", "role_arn", 'iam.Role.from_role_arn(stack, "Role", {})')
SECURITY_GROUP = Kind(
    "an ec2.ISecurityGroup", "security_group_id", 'ec2.SecurityGroup.from_security_group_id(stack, "Group", {})'
)
MEMORY = Kind("a Size of whole mebibytes", "to_mebibytes", "Size.gibibytes({})", 16)
SIZE = Kind("a Size of whole gibibytes", "to_gibibytes", "Size.gibibytes({})", 256)
SERVER = Kind("the settings of a server", "loads_adapters", "Server.vllm()")
STORE = Kind(
    "an ArtifactStore",
    "read_only",
    'ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Store", {}))',
    takes=("bucket_arn", "ArtifactStore.from_bucket(bucket)"),
)
TOPIC = Kind("an sns.ITopic", "topic_arn", 'sns.Topic.from_topic_arn(stack, "Topic", {})')
WORKLOAD = Kind("a Workload", "concurrency", "Workload(concurrency=[1, 8])")
VPC = Kind("an ec2.IVpc", "vpc_id", 'ec2.Vpc.from_lookup(stack, "Vpc", vpc_id={})')


def refuse(violations: Sequence[Violation]) -> None:
    """Raise a ``RecipeError`` with the violations, if there are any."""
    if violations:
        raise RecipeError(violations)


@contextmanager
def collected(violations: list[Violation]) -> Generator[None]:
    """Add the violations that the block raises to ``violations``, to report them together."""
    try:
        yield
    except RecipeError as refused:
        violations += refused.violations


@contextmanager
def unique_ids() -> Generator[None]:
    """Refuse an ID that is already taken; also a decorator. The CDK's own message is below Node's frames."""
    try:
        yield
    except RuntimeError as error:
        taken = _TAKEN_ID.search(str(error))
        if taken is None:
            raise
        raise ValueError(
            f"{taken['scope'] or 'the app'} already has a construct {taken['id']!r}: IDs must be unique in a scope, so "
            f"choose another, such as {taken['id'] + '2'!r}"
        ) from None


def suggests_keywords(cls: _Class) -> _Class:
    """Make a class suggest keywords for misspelled ones, like Python 3.13, and another ID for a taken one."""
    constructor = suggests_keywords_of(cls.__name__, cls)(vars(cls)["__init__"])

    @wraps(constructor)
    def suggesting(*args: Any, **kwargs: Any) -> None:
        try:
            with unique_ids():
                constructor(*args, **kwargs)
        except RecipeError as refused:
            named = {**dict(zip(("self", "scope", "id"), args, strict=False)), **kwargs}
            keep_refusal(refused, named.get("scope"), named.get("id"))
            # The library's own frames would hide the violations.
            raise refused.with_traceback(None) from None

    setattr(cls, "__init__", suggesting)  # noqa: B010 - a type checker takes it for an instance's
    return cls


def suggests_keywords_of(name: str, methods_of: type | None = None) -> Callable[[_Function], _Function]:
    """Make a function, called ``name`` in errors, suggest keywords for misspelled ones, and methods of a class."""

    def decorated(function: _Function) -> _Function:
        keywords = [each for each in inspect.signature(function).parameters if each not in _NOT_KEYWORDS]

        @wraps(function)
        def suggesting(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError:
                if unknown := kwargs.keys() - keywords - _NOT_KEYWORDS:
                    given = {each: kwargs[each] for each in sorted(unknown)}
                    raise TypeError(_message(name, given, form_of_call(function), methods_of)) from None
                raise

        return cast("_Function", suggesting)

    return decorated


def check_options(method: str, options: Mapping[str, object], of: type) -> None:
    """Refuse options that are not in ``method``'s TypedDict, because Python accepts any ``**options: Unpack[...]``."""
    check_names(method, options, list(of.__annotations__))


def check_names(method: str, options: Mapping[str, object], names: list[str]) -> None:
    """Refuse options with other names, and suggest similar ones."""
    if unknown := options.keys() - set(names):
        form = Form(dict.fromkeys(names, ()))
        raise TypeError(_message(method, {each: options[each] for each in sorted(unknown)}, form))


KEYS = {"add_adapter": "adapters", "add_component": "components", "auto_scale": "scaling", "evaluate": "evaluations"}
"""The keys of a file for methods, where they are not the methods' names."""


def form_of_call(function: Callable[..., Any]) -> Form:
    """Return the form of a function's arguments, whose annotations may only be text."""
    known = {each.__name__: each for each in _classes(Settings)}
    kinds = {
        name: [known[word] for word in re.findall(r"\w+", str(parameter.annotation)) if word in known]
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in _NOT_KEYWORDS
    }
    is_list = {name for name in kinds if "Sequence" in str(inspect.signature(function).parameters[name].annotation)}
    return Form({name: [] if name in is_list else forms_of(of) for name, of in kinds.items()})


def _classes(of: type[Settings]) -> Iterator[type[Settings]]:
    for each in of.__subclasses__():
        yield each
        yield from _classes(each)


def _techniques(word: str, value: object) -> list[str]:
    """Return the code of the techniques that a file's key for their group means, or only of those of their name."""
    grouped: dict[str, list[type[Technique]]] = {}
    for technique in (each for of_kind in REGISTRY.values() for each in of_kind.values()):
        for name in (technique.display_name().partition(".")[0].lower(), technique.name):
            grouped.setdefault(name, []).append(technique)
    meant = grouped.get(word.replace("_", ""), grouped.get(word, []))
    calls = dict.fromkeys(call_of(each) for each in [each for each in meant if each.name == value] or meant)
    return [f"techniques=[{' or '.join(calls)}]"] if calls else []


def _of_methods(word: str, methods_of: type) -> list[str]:
    """Return the calls of a class's methods that a file's key, or one of their arguments, means."""
    for name, method in inspect.getmembers(methods_of, inspect.isfunction):
        arguments = inspect.signature(method).parameters
        is_argument = name in KEYS and word in arguments and arguments[word].kind is inspect.Parameter.KEYWORD_ONLY
        if not name.startswith("_") and (is_argument or word == KEYS.get(name, name)):
            # An ID is positional.
            named = dict.fromkeys([*needed_by(method), *([word] if is_argument else [])])
            written = ['"..."' if each == "id" else f"{each}=..." for each in named]
            return [f"{name}({', '.join(written)})"]
    return []


def _message(name: str, unknown: Mapping[str, object], form: Form, methods_of: type | None = None) -> str:
    # Without underscores, instancetype is closer to instance_type than to instance_pools.
    plain = {keyword.replace("_", ""): keyword for keyword in form.members}
    parts: list[str] = []
    for keyword, value in unknown.items():
        close = [plain[match] for match in close_matches(keyword.replace("_", ""), plain)][:2]
        calls = _of_methods(keyword, methods_of) if methods_of is not None else []
        if calls:
            hint = f"call its method {calls[0]}"
        elif meant := form.hint(keyword, _techniques(keyword, value) if "techniques" in form.members else ()):
            hint = meant
        elif keyword == "tags":
            hint = 'Tags.of(construct).add("team", "nlp") adds tags'
        else:
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(form.members)}"
        parts.append(f"{keyword!r} ({hint})")
    return f"{name}(...) has no argument {' and no '.join(parts)}"
