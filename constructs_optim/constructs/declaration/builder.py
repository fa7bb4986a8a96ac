"""Create the constructs and settings that a document declares."""

# pyright: standard
# Not strict: models created at run time have no static types.
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar, Self, cast

from aws_cdk import Acknowledgment, CfnOutput, CfnParameter, Fn, Stack, Validations
from aws_cdk.aws_s3 import IBucket
from constructs import Construct
from pydantic import BaseModel, Field, create_model, model_validator

from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource
from constructs_optim.constructs.stack.findings import advise, translated
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.constructs.validation.policy_validation import PolicyValidation
from constructs_optim.policy import RULES
from constructs_optim.recipe.catalog.lock import LockFileError
from constructs_optim.recipe.errors import Advice, RecipeError, Violation, close_matches
from constructs_optim.recipe.forms import meant_name
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.metrics.names import LiveMetricName
from constructs_optim.recipe.rules import all_rules
from constructs_optim.recipe.secrets import NOT_SHOWN, without_secrets
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.limits import limits

from .document import DOCUMENTATION, DeclarationError, Document, FileViolation, Path_, dotted, violation
from .references import (
    BEGINS_REFERENCE,
    ENDPOINT,
    METRIC,
    PARAMETER,
    PLACEHOLDER,
    REFERENCE_EXAMPLES,
    REFERENCES,
    SERVED,
    STORE,
    Reference,
)
from .schema import Call, Choice, call_of, described
from .wording import flow, in_yaml, name_method

# CloudFormation user guide, "CloudFormation-supplied parameter types"; a resource's type is an AWS-specific one.
_TYPE = r"(String|Number|CommaDelimitedList|AWS::[\w:]+::[\w:]+)"
_LIST = r"List<(String|Number|AWS::[\w:]+::[\w:]+)>"
_PARAMETER_TYPE = rf"^({_TYPE}|{_LIST}|AWS::SSM::Parameter::Value<({_TYPE}|{_LIST})>)$"


class Parameter(Call):
    """A parameter of the template; text in the file refers to it as `${Name}`."""

    calls: ClassVar[Callable[..., Any]] = CfnParameter

    type: str = Field(
        default="String",
        description="CloudFormation's type, such as Number or AWS::EC2::VPC::Id.",
        pattern=_PARAMETER_TYPE,
        examples=["String, Number, CommaDelimitedList, or AWS::EC2::VPC::Id"],
    )
    default: str | int | float | None = Field(default=None, description="the value if a deployment passes none.")
    description: str | None = Field(
        default=None,
        description="the description, up to 4,000 characters.",
        max_length=limits()["parameter description"].most,
    )
    allowed_values: list[str] | None = Field(default=None, description="the allowed values.")
    allowed_pattern: str | None = Field(default=None, description="a regular expression that the text must match.")
    constraint_description: str | None = Field(default=None, description="the message for a refused value.")
    min_length: int | None = Field(default=None, description="the minimum length of the text.")
    max_length: int | None = Field(default=None, description="the maximum length of the text.")
    min_value: int | float | None = Field(default=None, description="the minimum number.")
    max_value: int | float | None = Field(default=None, description="the maximum number.")

    @model_validator(mode="after")
    def _is_accepted_by_cloudformation(self) -> Self:
        """Refuse constraints of another type, contradictory ones, and a default that they refuse.

        Source: CloudFormation user guide, "CloudFormation template Parameters syntax".
        """
        if wrong := [*self._contradictions()]:
            raise ValueError("; ".join(wrong))
        return self

    def _contradictions(self) -> Iterator[str]:
        if self.type != "String":
            for name in ("min_length", "max_length"):
                if getattr(self, name) is not None:
                    yield f"no {name}, which is for the type String"
        if self.type != "Number":
            for name in ("min_value", "max_value"):
                if getattr(self, name) is not None:
                    yield f"no {name}, which is for the type Number"
        if self.allowed_values and not self._allows_default(self.allowed_values):
            default = "a default of items" if self._is_list else "a default"
            yield f"{default} that allowed_values has: {', '.join(self.allowed_values)}"
        if self.type == "String":
            yield from self._outside("length", len(str(self.default)) if self.default is not None else None)
        if self.type == "Number":
            try:
                yield from self._outside("value", float(self.default) if self.default is not None else None)
            except ValueError:
                yield "a default that is a number"

    @property
    def _is_list(self) -> bool:
        return self.type == "CommaDelimitedList" or self.type.startswith("List<")

    def _allows_default(self, allowed: Sequence[str]) -> bool:
        """Return whether ``allowed`` has the default: each item of a list, and numbers in any form."""
        # A parameter of Systems Manager has the name of a value as its default, and not the value.
        if self.default is None or self.type.startswith("AWS::SSM::Parameter::Value<"):
            return True
        text = str(self.default)
        given = [each.strip() for each in text.split(",")] if self._is_list else [text]
        if self.type not in ("Number", "List<Number>"):
            return {*given} <= {*allowed}
        return {*map(_as_number, given)} <= {*map(_as_number, allowed)}

    def _outside(self, of: str, found: float | None) -> Iterator[str]:
        least, most = (getattr(self, f"{end}_{of}") for end in ("min", "max"))
        characters = " characters" if of == "length" else ""
        if least is not None and most is not None and least > most:
            yield f"a max_{of} of {least} or more, because min_{of} is {least}"
        elif found is not None and least is not None and found < least:
            yield f"a default of {least}{characters} or more"
        elif found is not None and most is not None and found > most:
            yield f"a default of {most}{characters} or less"


def _as_number(text: str) -> float | str:
    """Return the number that a text is, or else the text."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Method:
    """A key of a construct's declaration, and the method that it calls.

    Attributes:
        key: the key.
        function: the method; None for a key whose value only has the keys of ``then``.
        calls: the calls of the method: ``once``, for each item of a ``list``, or for each ``id`` of a mapping.
        then: the keys of the method's result.
        of: the construct's attribute that has the method. Default: the construct itself.
        is_late: whether it may refer to any construct of the file, and is called after all constructs exist.
        name: the name of its value in the schema. Default: the key.
    """

    key: str
    function: Callable[..., Any] | None
    calls: str = "once"
    then: tuple[Method, ...] = ()
    of: str = ""
    is_late: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        """Let messages use the key in place of the method."""
        if self.function is not None:
            name_method(self.function.__name__, self.key, self.calls)

    @property
    def form(self) -> Any:
        """The type of the key's value."""
        model = declared(self.function, self.then, self.name or "".join(map(str.capitalize, self.key.split("_"))))
        return {"once": model, "list": list[model], "id": dict[str, model]}[self.calls]


class _Failed(Exception):
    """A value refers to something that was already refused."""


class _Refused(Exception):
    """A value refers to nothing that exists, or that can exist; ``suggestion`` is what works."""

    def __init__(self, reason: str, suggestion: str) -> None:
        super().__init__(reason)
        self.reason, self.suggestion = reason, suggestion


class WithMethods(Call):
    """A call with calls of methods on its result."""

    methods: ClassVar[tuple[Method, ...]] = ()


@cache
def declared(function: Callable[..., Any] | None, methods: tuple[Method, ...], name: str | None = None) -> type[Call]:
    """Return the model of a construct or call: its arguments, and the keys for methods of its result."""
    base = call_of(function, name) if function is not None else Call
    if not methods:
        return base
    fields: dict[str, Any] = {
        method.key: (method.form, Field(default=None, description=described(method.function))) for method in methods
    }
    own: dict[str, Any] = {key: (field.annotation, field) for key, field in base.model_fields.items()}
    model = create_model(name or base.__name__, __base__=WithMethods, __doc__=base.__doc__, **{**own, **fields})
    if function is not None:
        model.calls = staticmethod(function)
    model.methods = methods
    return model


_OURS = "constructs-optim:"
# Warnings that no rule gives, or that another place gives for a rule of errors.
_OTHER_WARNINGS = (
    "GrantedAccount",
    "ManagedPoliciesOfARole",
    "OPT240",
    "OpenAiPath",
    "RetainAllVariantProperties",
    "StoreKeyPolicy",
    "TrustPolicy",
    "UnreadReference",
    "lock-file",
)


def acknowledge(scope: Construct, *, rule: str, reason: str) -> None:
    """Accept the findings of a rule in a construct and below it.

    Args:
        scope: the construct with the findings.
        rule: the ID in a warning, such as ``OPT013``, or of a policy rule, such as ``POL031``; for another tool's rule,
            with the tool's name before ``::``.
        reason: why the findings are acceptable here.
    """
    name = rule.removeprefix(_OURS)
    if not reason.strip():
        raise ValueError(f"acknowledge: {name} has no reason: add one")
    of_policy = [each.id for each in RULES]
    if name in of_policy:
        PolicyValidation.acknowledge(scope, name, reason=reason)
        return
    if ":" not in name:
        advisory = {each.id: each.advisory for each in all_rules()} | dict.fromkeys(_OTHER_WARNINGS, True)
        if not advisory.get(name, True):
            raise ValueError(
                f"acknowledge: {name} is an error, and only warnings and findings of a policy can be acknowledged: "
                "correct what it refuses, and leave this out"
            )
        if name not in advisory:
            # IDs differ by a digit, so that a similar one is rarely meant.
            raise ValueError(
                f"acknowledge: there is no rule {name!r}: the ID in a warning, such as OPT013, or POL001 of a policy"
            )
        rule = f"{_OURS}{name}"
    Validations.of(scope).acknowledge(Acknowledgment(id=rule, reason=reason))


# CloudFormation user guide, "Pseudo parameters reference"; without AWS::NoValue, which is not text.
_PSEUDO_PARAMETERS = tuple(
    f"AWS::{name}" for name in ("AccountId", "Partition", "Region", "StackId", "StackName", "URLSuffix")
)
_REFERENCE = re.compile(rf"(?<!\$){PLACEHOLDER.pattern}")
# The construct's path, and the method's name, which are before the reason.
_METHOD = re.compile(r"^(?:[\w-]+(?:/[\w-]+)+: )?(?:[a-z_]+(?:\('[^']*'\))?: )?")
# Other languages' references to a construct's attribute, such as $(Chat.endpoint_name) and {{Chat.endpoint_name}}.
_UNREAD = re.compile(r"\$?(\(|(?<!\$)\{{1,2}) ?(?P<owner>[\w/-]+)\.(?P<attribute>[a-z_]+) ?[)}]{1,2}")
_AS_SAID = "another value: this is a message of the AWS CDK"
ACKNOWLEDGE = Method("acknowledge", acknowledge, "list")


class Builder:
    """Creates a document's constructs in a stack; ``finish`` raises the collected errors."""

    def __init__(self, stack: Stack, document: Document, parameters: Mapping[str, Parameter] | None = None) -> None:
        """Create the builder; ``parameters`` are the document's parameters."""
        self._stack, self._document, self._parameters = stack, document, parameters or {}
        self._violations: list[Any] = []
        self._late: list[Callable[[], None]] = []
        self._measured: MeasuredResource | None = None
        self._failed: set[str] = set()
        self._keys: dict[Path_, Set[str]] = {}
        self.made: dict[str, Any] = StackContext.of(stack).once((Builder, document.name), dict[str, Any])
        """The document's constructs by their IDs, and components by ``Endpoint/Component``."""

    def parameter(self, name: str) -> CfnParameter:
        """Return the parameter of a name, and add it to the template.

        Raises:
            ValueError: if another file declares it differently in the stack.
        """
        given = {key: value for key, value in self._parameters[name].model_dump().items() if value is not None}
        declared, parameter = StackContext.of(self._stack).once(
            ("declared parameter", name), lambda: (given, CfnParameter(self._stack, name, **given))
        )
        if declared != given:
            raise ValueError(
                f"the stack has a different parameter {name!r}: another name, or the same parameter in both files"
            )
        return parameter

    def construct(
        self, call: Call, scope: Construct, id: str, path: Path_, *, of: Callable[..., Any] | None = None, **given: Any
    ) -> Any:
        """Create a declared construct and call its methods; ``given`` replaces arguments. Return None on errors.

        ``of`` is the class to create, which is derived from the declared one.
        """
        arguments = self._arguments(call, path, given)
        made = None
        if arguments is not None:
            with self.explained(path):
                made = (of or call.calls)(scope, id, **arguments)
        if made is None:
            self._failed.add(id)
        else:
            self.made[id] = made
            self._call_methods(made, call, path, id)
        return made

    def output(self, id: str, text: str) -> None:
        """Add an output with a text of the file to the stack."""
        path = ("outputs", id)
        with self.explained(path):
            CfnOutput(self._stack, id, value=self.text(text))
        for found in _UNREAD.finditer(text):
            if found["owner"] in self.made:
                meant = f"${{{found['owner']}.{found['attribute']}}}"
                message = f"outputs.{id}: {found[0]} is text as it is, and no reference. Did you mean {meant}?"
                advise(self._stack, Advice("constructs-optim:UnreadReference", message))

    def finish(self) -> None:
        """Call the late methods, and raise all errors.

        Raises:
            DeclarationError: if the document has errors; lists the first 100.
        """
        for late in self._late if not self._violations else ():
            late()
        self._late.clear()
        if self._violations:
            raise DeclarationError(self._violations)

    def value(self, form: Any, path: Path_) -> Any:
        """Return the Python value of a part of a declaration."""
        match form:
            case Choice():
                (name,) = form.model_fields_set
                return self.value(getattr(form, name), (*path, name))
            case Call():
                arguments = self._arguments(form, path, {})
                if arguments is None:
                    return None
                with self.explained(path, form.calls):
                    if "scope" in inspect.signature(form.calls).parameters:
                        return self._existing(form.calls, arguments, path)
                    return form.calls(**arguments)
            case Reference():
                with self.explained(path):
                    return self._referred(form)
            case str():
                with self.explained(path):
                    return self.text(form)
            case list():
                return [self.value(each, (*path, index)) for index, each in enumerate(form)]
            case dict():
                return {key: self.value(each, (*path, key)) for key, each in form.items()}
            case _:
                return form

    def _existing(self, calls: Callable[..., Any], arguments: Mapping[str, Any], path: Path_) -> Any:
        """Return the construct of an existing resource, once per stack: several files may refer to it."""
        key, name = (calls, repr(sorted(arguments.items()))), dotted(path)
        if self._stack.node.try_find_child(name) is not None:
            # Another file has an endpoint of the same ID.
            name = f"{name}-{sha256(key[1])[:8]}"
        return StackContext.of(self._stack).once(key, lambda: calls(self._stack, name, **arguments))

    def text(self, text: str) -> str:
        """Return text with the values of its parameters and attributes."""
        parts = [
            str(self._placed(part)) if index % 2 else _literal(part)
            for index, part in enumerate(_REFERENCE.split(text))
        ]
        return "".join(parts)

    def _placed(self, name: str) -> Any:
        if name in self._parameters:
            return self.parameter(name).value_as_string
        if name.startswith("AWS::"):
            if name not in _PSEUDO_PARAMETERS:
                raise ValueError(f"there is no pseudo parameter {name!r}: {meant_name(_PSEUDO_PARAMETERS, name)}")
            return Fn.ref(name)
        owner, *attributes = name.split(".")
        found = self._named(owner)
        if found is None or not attributes:
            # Of a construct, an attribute is text.
            known = {**{each: each for each in self._parameters}, **{f"{each}.": f"{each}.…" for each in self.made}}
            written = {each: f"${{{shown}}}" for each, shown in known.items()}
            there = [f"there is {', '.join(written.values())}"] if known else []
            new = (
                [f"declare {self._document.declaration('parameters', name, {})}"]
                if re.fullmatch("[A-Za-z0-9]+", name)
                else []
            )
            near = [written[each] for each in close_matches(name, known)]
            others = ", or ".join([*there, *new]) or "a key of `parameters`"
            hint = f"did you mean {' or '.join(near)}?" if near else others
            raise _Refused(f"there is no parameter {name!r}, and no construct with that ID is declared before", hint)
        for attribute in attributes:
            found = _attribute(found, attribute, name)
        if not isinstance(found, str | int | float):
            members = _public(found)
            fix = meant_name(members, "") if members else f"another attribute of {owner}"
            raise ValueError(f"{name!r} is not text, but of the type {type(found).__name__}: {fix}")
        return found

    def _named(self, id: str) -> Any:
        """Return the construct with an ID, of the file or of the app that reads an endpoint from it, or None."""
        # A component of a refused endpoint was not made either.
        if not self._failed.isdisjoint(accumulate(id.split("/"), "{}/{}".format)):
            raise _Failed
        return self.made.get(id) or self._stack.node.try_find_child(id)

    def _referred(self, reference: Reference) -> Any:
        kind, text = reference.kind, reference.text
        if kind is PARAMETER:
            name = text[2:-1]
            if name not in self._parameters:
                raise _Refused(f"there is no parameter {name!r}", self._document.number_parameter(name, other=False))
            if (of := self._parameters[name].type) != "Number":
                reason = f"{name!r} is a parameter of type {of}, and this is a number"
                raise _Refused(reason, f"a Number parameter: {name}: {flow({'type': 'Number'})} in parameters")
            return self.parameter(name).value_as_number
        if kind is METRIC:
            assert self._measured is not None  # noqa: S101 - only scaling takes metrics
            # An unknown name is an error there.
            return self._measured.metric(cast("LiveMetricName", text))
        if kind in (STORE, ENDPOINT, SERVED):
            found = self._named(text)
            wanted = "bucket_name" if kind is STORE else "served"
            if found is None or not _has(found, wanted):
                others = [key for key, each in self.made.items() if _has(each, wanted)]
                new = [self._new_store(text)] if kind is STORE else []
                none = kind.description.replace("the ID", "not the ID")
                raise _Refused(f"{text!r} is {none}", " or ".join([*others, *new]) or "the ID of one declared before")
            return found.served if kind is SERVED else found
        assert kind.makes is not None  # noqa: S101 - of all others
        makes, value = kind.makes, self.text(text)
        if not is_token(value) and (refusal := kind.refusal(value)) is not None:
            raise _Refused(*refusal)
        name = f"{PLACEHOLDER.sub(lambda found: found[1], text)}-{kind.name.replace(' ', '-')}"
        return StackContext.of(self._stack).once((kind, text), lambda: makes(self._stack, name, value))

    def _new_store(self, text: str) -> str:
        """Return how to write a store with a name: that of an existing bucket, or else the ID of a new store."""
        if PLACEHOLDER.search(text) or REFERENCES[IBucket].refusal(text) is None:
            return flow({"from_bucket": {"bucket": text}})
        if re.fullmatch(r"[A-Za-z][\w-]*", text):
            return f"{text}, with {self._document.declaration('artifact_stores', text, {})}"
        return flow({"from_bucket": {"bucket": ...}})

    def _arguments(self, call: Call, path: Path_, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the arguments of a call; None if one of them is wrong."""
        count = len(self._violations)
        self._keys[path] = type(call).model_fields.keys()
        methods = {method.key for method in call.methods} if isinstance(call, WithMethods) else set[str]()
        # In the order of the signature, which sets the order of imported constructs; a set has no order.
        names = [name for name in type(call).model_fields if name in call.model_fields_set - methods - given.keys()]
        arguments = {name: self.value(getattr(call, name), (*path, name)) for name in names}
        return {**arguments, **given} if len(self._violations) == count else None

    def _call_methods(self, made: Any, call: Call, path: Path_, id: str) -> None:
        for method in call.methods if isinstance(call, WithMethods) else ():
            if method.key in call.model_fields_set:
                at = (*path, method.key)
                value = getattr(call, method.key)
                if method.is_late:
                    self._late.append(lambda method=method, value=value, at=at: self.call(made, method, value, at, id))
                else:
                    self.call(made, method, value, at, id)

    def call(self, made: Any, method: Method, value: Any, path: Path_, id: str = "") -> None:
        """Call a method of a construct with each value of a key."""
        match method.calls:
            case "id":
                calls = [(name, call, (*path, name)) for name, call in value.items()]
            case "list":
                calls = [(None, call, (*path, index)) for index, call in enumerate(value)]
            case _:
                calls = [(None, value, path)]
        of = getattr(made, method.of) if method.of else made
        for name, call, at in calls:
            if isinstance(made, MeasuredResource):
                self._measured = made
            arguments, result = self._arguments(call, at, {}), None
            inner = f"{id}/{name}" if name is not None else id
            with self.explained(at):
                if arguments is not None:
                    result = of
                    if method.function is not None:
                        result = method.function(of, *([name] if name is not None else []), **arguments)
                    self.made.setdefault(inner, result)
                    self._call_methods(result, call, at, inner)
            if result is None and name is not None:
                self._failed.add(inner)

    @contextmanager
    def explained(self, path: Path_, calls: Callable[..., Any] | None = None) -> Generator[None]:
        """Collect the errors of the block, which may be a call, with their location in the document.

        Its warnings and errors use the file's keys.

        Raises:
            DeclarationError: if the document has more errors than one lists; a hint can take a search among thousands
                of names.
        """
        count = len(self._violations)
        try:
            with translated(in_yaml):
                yield
        except DeclarationError:
            raise
        except RecipeError as error:
            self._violations += [self._in_file(each, path, calls) for each in error.violations]
        except _Failed:
            # The existing error also covers this value; errors list it once.
            self._violations.append(self._violations[-1])
            return
        except _Refused as error:
            self.refuse(path, error.reason, error.suggestion)
        except LockFileError as error:
            # Another file, which all endpoints use.
            place, (reason, _, fix) = str(error.path), str(error).rpartition(": ")
            self._violations.append(violation(place, place, reason, fix))
        except (TypeError, ValueError) as error:
            # This library's message format: the method, the reason, and after a colon what works.
            text = _METHOD.sub("", str(error))
            reason, _, fix = text.rpartition(": ")
            if not reason:
                reason, _, fix = text.partition("; ")
            # A message that says what is needed says what works.
            fix = fix or text.partition(" needs ")[2]
            self.refuse(self._named_in(path, text), in_yaml(reason), in_yaml(fix) or "another value")
        except RuntimeError as error:
            # The CDK's own message; Node's frames follow it.
            self.refuse(path, str(error).partition("\n")[0], _AS_SAID)
        if count < len(self._violations) and (found := DeclarationError(self._violations)).more:
            raise DeclarationError(found.violations, more=None)

    def _in_file(self, found: Violation, path: Path_, calls: Callable[..., Any] | None) -> FileViolation:
        """Return a violation of the call at a path, with the file's key, value, and words."""
        settings = calls if inspect.isclass(calls) and issubclass(calls, Settings) else None
        # Settings name their own class, and methods their own key, which the path already says.
        name = settings.display_name() if settings is not None else str(path[-1])
        # A method with an ID: on_schedule('Mornings').schedule.
        inner = re.sub(rf"^({re.escape(name)}|\w+\({re.escape(repr(name))}\))(\.|$)", "", found.location)
        owner = self._owner_of(path, inner)
        below, rest = self._document.located(owner, inner)
        location = dotted((*below, *rest)) if below != owner else f"{dotted(owner)}.{inner}".removesuffix(".")
        given = self._document.value_at(below)
        # A rule's own value may be in another unit, or a token, whose text means nothing to the file's reader. It says
        # what a reference in the file is.
        is_reference = isinstance(given, str) and PLACEHOLDER.fullmatch(given) is not None
        is_own = found.value == NOT_SHOWN or ((rest or is_reference) and not is_token(found.value))
        value = found.value if is_own else without_secrets(given)
        # A rule may name the class of a value that the file leaves out.
        value = in_yaml(value) if rest and isinstance(value, str) else value
        return FileViolation(
            rule=found.rule,
            location=f"{self._document.place(below)} {location}",
            value=value,
            reason=in_yaml(re.sub(rf"^{re.escape(name)}(?= )", str(path[-1]), found.reason)),
            suggestion=in_yaml(found.suggestion),
            link=DOCUMENTATION if found.link == Settings.rule_link else found.link,
        )

    def _owner_of(self, path: Path_, location: str) -> Path_:
        """Return the path around ``path`` to which a rule's location belongs: one that has its first key, or that can
        have it.
        """
        owner, key = self._document.owner_of(path, location), re.split(r"[.\[]", location)[0]
        if self._document.below(owner, location) != owner:
            return owner
        around = (path[:end] for end in range(len(path), 0, -1))
        return next((each for each in around if key in self._keys.get(each, ())), owner)

    def _named_in(self, path: Path_, text: str) -> Path_:
        """Return the path of the key that an error begins with, such as ``min_capacity is 3``, or ``path``.

        The key may be inside of one of the keys there: an endpoint's ``alarm_actions`` of ``monitoring``.
        """
        found = re.match(r"[a-z]\w*(?:\.\w+)*(?= )", text)
        if found is None:
            return path
        below, rest = self._document.located(path, found[0])
        if not rest:
            return below
        around = [(*path, key) for key in self._document.keys_at(path)]
        inside = [below for below, rest in (self._document.located(each, found[0]) for each in around) if not rest]
        return inside[0] if len(inside) == 1 else path

    def refuse(self, path: Path_, reason: str, suggestion: str) -> None:
        """Add an error about a value of the document."""
        place, value = self._document.at(path), self._document.value_at(path)
        self._violations.append(violation(place, value, reason, suggestion))


def _literal(text: str) -> str:
    """Return text without references, with ``$${`` replaced by ``${``."""
    parts = text.split("$${")
    if any("${" in part for part in parts):
        raise _Refused(BEGINS_REFERENCE, f"{REFERENCE_EXAMPLES}, or `$${{` for the characters themselves")
    return "${".join(parts)


def _has(owner: Any, attribute: str) -> bool:
    """Return whether an object has an attribute, without reading a property."""
    return hasattr(type(owner), attribute) or attribute in getattr(owner, "__dict__", ())


def _attribute(owner: Any, attribute: str, path: str) -> Any:
    """Return a public attribute, or an item by its index."""
    if attribute.isdigit() and isinstance(owner, Sequence):
        items = cast("Sequence[Any]", owner)
        if int(attribute) < len(items):
            return items[int(attribute)]
        raise ValueError(f"{path!r} has no item {attribute}: an index from 0 to {len(items) - 1}")
    if attribute.startswith("_") or not hasattr(owner, attribute):
        raise ValueError(f"{path!r} has no {attribute!r}: {meant_name(_public(owner), attribute)}")
    return getattr(owner, attribute)


def _public(owner: Any) -> list[str]:
    # An object's own attributes are likelier to be meant than those that any class of its kind has.
    names = [*getattr(owner, "__dict__", ()), *dir(type(owner))]
    # Reading a property may raise an error.
    static = {name: inspect.getattr_static(owner, name, None) for name in names if not name.startswith("_")}
    # What every settings class has is nobody's output.
    shown = {name: value for name, value in static.items() if value is not None and not hasattr(BaseModel, name)}
    return [name for name, value in shown.items() if not callable(value) and not isinstance(value, classmethod)]
