"""Validation of constructs' arguments: errors with suggestions for wrong types and misspelled keywords.

Pydantic validates the CDK's interfaces. An object is recognized by an attribute of its type, because ``isinstance``
does not support jsii's interfaces, and reading an attribute's value is a call to Node.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from constructs_optim.recipe import RecipeError, Violation, metrics
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.forms import KEYS, VALUE
from constructs_optim.recipe.settings import (
    CONSTRUCTORS,
    Settings,
    arguments_of,
    form_of_call,
    methods_suggest_keywords,
    needed_by,
    refused_keywords,
    suggests_keywords_of,
)

from .findings import keep_refusal

_Class = TypeVar("_Class", bound=type)
_CONVERSIONS = {"to_gibibytes", "to_mebibytes", "to_seconds"}
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

    names: Callable[[], Sequence[str]] | None = None
    """The names of metrics that the code takes, of which the most similar one replaces another. Default: any text."""

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
        if self.names is not None and isinstance(value, str) and value not in (known := self.names()):
            near = [*metrics.with_word(value), *close_matches(value, known)]
            value = near[0] if near else self.default
        if isinstance(self.default, str):
            return self.example.format(repr(value if isinstance(value, str) else self.default))
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and value % 1 == 0:
            return self.example.format(int(value))
        return self.example.format(self.default)


ALARM = Kind("a cloudwatch.IAlarm", "alarm_arn", 'cloudwatch.Alarm.from_alarm_arn(stack, "Alarm", {})')
ALARM_ACTION = Kind(
    "an alarm action",
    "bind",
    'SnsAction(sns.Topic.from_topic_arn(stack, "Topic", {}))',
    takes=("topic_arn", "SnsAction(topic)"),
)
ALARMS = Kind("Alarms(...)", "stale_evaluation", "Alarms(latency=AlarmSettings(threshold=20)) or Alarms.none()")
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
METRIC = Kind(
    "a cloudwatch.IMetric",
    "to_metric_config",
    "endpoint.metric({})",
    "gpu_utilization",
    names=lambda: [*metrics.by_name()],
)
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
SUBNETS = Kind(
    "an ec2.SubnetSelection",
    "one_per_az",
    'ec2.SubnetSelection(subnets=[ec2.Subnet.from_subnet_id(stack, "Subnet", {})])',
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
    """Make a class and its methods refuse unknown keywords with a suggestion, and suggest an ID for a taken one."""
    unchecked = vars(cls)["__init__"]
    form = cache(lambda: form_of_call(unchecked, methods_of(cls)))
    constructor = suggests_keywords_of(unchecked, cls.__name__, form)
    CONSTRUCTORS[cls.__name__] = unchecked, form

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
    return methods_suggest_keywords(cls)


def check_names(name: str, given: Mapping[str, object], of: Callable[..., Any]) -> None:
    """Refuse arguments that a constructor does not have, and suggest similar ones."""
    if unknown := given.keys() - arguments_of(of).keys():
        raise refused_keywords(name, {each: given[each] for each in sorted(unknown)}, form_of_call(of))


def methods_of(cls: type) -> dict[str, str]:
    """Return the calls of a class's methods by the words that mean them: a key of a file, or one of their arguments.

    Arguments of the class itself mean those.
    """
    calls: dict[str, str] = {}
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_"):
            continue
        parameters = inspect.signature(method).parameters.values()
        named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY] if name in KEYS else []
        calls.setdefault(KEYS.get(name, name), _call_of(name, needed_by(method)))
        for argument in named:
            calls.setdefault(argument, _call_of(name, needed_by(method), argument))
    return {word: call for word, call in calls.items() if word not in arguments_of(vars(cls)["__init__"])}


def _call_of(name: str, needed: Sequence[str], argument: str = "") -> str:
    """Return the call of a method with all that it needs, and an argument's value; an ID is positional."""
    named = {**dict.fromkeys(needed, "..."), **({argument: VALUE} if argument else {})}
    written = ['"..."' if each == "id" else f"{each}={value}" for each, value in named.items()]
    return f"{name}({', '.join(written)})"
