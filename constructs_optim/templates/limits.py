"""The limits that CloudFormation and its resources' services set for a template, and what of a template exceeds them.

``limits.json`` has the limits, each with its source. The local cloud, which imports nothing of this package, has the
same file. A template has at most 1 MB, so limits that are larger, of a state machine's definition (1 MiB) and of inline
code (4 MB), are not in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .json_values import as_array, as_object, is_array, is_object
from .references import Reference, direct_reference
from .resolution import KnownLater, Resolver

# The shortest values of pseudo parameters in any partition (https://github.com/boto/botocore, data/partitions.json).
_SHORTEST = {
    "AWS::AccountId": "0" * 12,
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::URLSuffix": "c2s.ic.gov",
}
_DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:[^}]+\}\}")
_NAMED = ("Parameters", "Mappings", "Resources", "Outputs")


@dataclass(frozen=True)
class Limit:
    """A limit of AWS.

    Attributes:
        service: whose limit it is.
        most: the largest allowed number.
        unit: what is counted. Characters of IAM policies do not include white space.
        source: the page that documents it.
        adjustable: whether AWS can raise it for an account.
    """

    service: str
    most: int
    unit: str
    source: str
    adjustable: bool = False


@cache
def limits() -> Mapping[str, Limit]:
    """Return the limits by their names."""
    data = json.loads(Path(__file__).with_name("limits.json").read_text(encoding="utf-8"))
    return {name: Limit(**row) for name, row in data.items()}


@dataclass(frozen=True)
class Excess:
    """A part of a template that exceeds a limit.

    Attributes:
        name: the limit's name.
        where: the part: ``the template``, a logical ID, or a name of a parameter, mapping or output.
        found: the number that was found; if a part is known only at deployment, the smallest possible one.
    """

    name: str
    where: str
    found: int

    @property
    def limit(self) -> Limit:
        """The exceeded limit."""
        return limits()[self.name]

    def __str__(self) -> str:
        """Return the excess as a sentence without its end."""
        limit = self.limit
        by_default = " by default" if limit.adjustable else ""
        return f"{self.where} has {self.found:,} {limit.unit}, and {limit.service} allows {limit.most:,}{by_default}"


def excesses(template: Mapping[str, Any], *, size: int | None = None, stack_name: str = "") -> list[Excess]:
    """Return everything in a template that exceeds a limit.

    Args:
        template: the template.
        size: the size of its text in bytes. Default: not checked.
        stack_name: the stack's name, if it is known; part of generated names.
    """
    found = [*_of_the_template(template, size), *_of_its_resources(template, stack_name)]
    return [excess for excess in found if excess.found > excess.limit.most]


def excesses_of_widgets(widgets: Sequence[Any]) -> list[Excess]:
    """Return what of a dashboard's widgets exceeds a limit."""
    found = [Excess(name, "the dashboard", number) for name, number in _widgets(widgets)]
    return [excess for excess in found if excess.found > excess.limit.most]


def _of_the_template(template: Mapping[str, Any], size: int | None) -> Iterator[Excess]:
    here = "the template"
    if size is not None:
        yield Excess("template bytes", here, size)
    for section in _NAMED:
        members = as_object(template.get(section))
        yield Excess(section.lower(), here, len(members))
        yield from (Excess("name", _short(name), len(name)) for name in members)
    for name, mapping in as_object(template.get("Mappings")).items():
        yield Excess("mapping attributes", name, len(mapping))
        yield from (Excess("name", _short(attribute), len(attribute)) for attribute in as_object(mapping))
    for name, parameter in as_object(template.get("Parameters")).items():
        yield Excess("parameter value", name, _bytes(str(as_object(parameter).get("Default", ""))))
        yield Excess("parameter description", name, len(str(as_object(parameter).get("Description", ""))))
    yield Excess("template description", here, _bytes(str(template.get("Description", ""))))
    yield Excess("dynamic references", here, len(set(_DYNAMIC_REFERENCE.findall(json.dumps(template)))))


def _of_its_resources(template: Mapping[str, Any], stack_name: str) -> Iterator[Excess]:
    resources = {name: as_object(resource) for name, resource in as_object(template.get("Resources")).items()}
    shortest = _Shortest(template, resources, stack_name)
    yield from _most_tags(resources, shortest)
    inline, managed = _attached(resources, "AWS::IAM::Policy"), _attached(resources, "AWS::IAM::ManagedPolicy")
    for logical_id, resource in resources.items():
        check = _CHECKS.get(str(resource.get("Type")))
        if check is None:
            continue
        properties = as_object(resource.get("Properties"))
        if resource.get("Type") == "AWS::IAM::Role":
            own = [as_object(policy).get("PolicyDocument") for policy in as_array(properties.get("Policies"))]
            arns = as_array(properties.get("ManagedPolicyArns"))
            properties = {
                **properties,
                "Policies": [*own, *inline.get(logical_id, ())],
                "ManagedPolicyArns": [*arns, *managed.get(logical_id, ())],
            }
        for name, number in check(properties, shortest):
            yield Excess(name, logical_id, number)


def _most_tags(resources: Mapping[str, Mapping[str, Any]], shortest: _Shortest) -> Iterator[Excess]:
    """Yield the most and the longest tags, each of one resource: an app's tags are usually those of all of them."""
    found: dict[str, Excess] = {}
    for logical_id, resource in resources.items():
        tags = [
            {name: str(shortest.value(value)) for name, value in as_object(tag).items()}
            for tag in as_array(as_object(resource.get("Properties")).get("Tags"))
            if not _is_unknown(tag)
        ]
        keys, values = ([len(tag.get(member, "")) for tag in tags] for member in ("Key", "Value"))
        numbers = {"tags": len(tags), "tag key": max(keys, default=0), "tag value": max(values, default=0)}
        for name, number in numbers.items():
            if name not in found or number > found[name].found:
                found[name] = Excess(name, logical_id, number)
    yield from found.values()


def _attached(resources: Mapping[str, Mapping[str, Any]], type_name: str) -> Mapping[str, Sequence[Any]]:
    """Return the documents of the policies that are resources of their own, by the roles that they name."""
    found: dict[str, list[Any]] = {}
    for resource in resources.values():
        if resource.get("Type") == type_name:
            properties = as_object(resource.get("Properties"))
            for role in as_array(properties.get("Roles")):
                reference = direct_reference(role)
                if reference is not None:
                    found.setdefault(reference.target, []).append(properties.get("PolicyDocument"))
    return found


class _Shortest:
    """Returns the shortest possible form of values that are known only at deployment."""

    def __init__(
        self, template: Mapping[str, Any], resources: Mapping[str, Mapping[str, Any]], stack_name: str
    ) -> None:
        self._resources, self._stack_name = resources, stack_name
        self._resolver = Resolver(template, self._look_up, lambda export: "")

    def value(self, value: Any) -> Any:
        """Return the value with its intrinsic functions evaluated, and without parts of unknown length."""
        if is_array(value):
            return [self.value(item) for item in value if not _is_unknown(item)]
        if is_object(value) and direct_reference(value) is None and not any(name.startswith("Fn::") for name in value):
            return {name: self.value(member) for name, member in value.items() if not _is_unknown(member)}
        try:
            return self._resolver.value(value)
        except KnownLater:
            return ""

    def characters(self, policy: Any) -> int:
        """Return the length of a policy as IAM counts it, without white space."""
        value = self.value(policy)
        return len(re.sub(r"\s", "", value if isinstance(value, str) else _json(value)))

    def bytes(self, value: Any) -> int:
        """Return the length of a text, or of an object as JSON."""
        found = self.value(value)
        return _bytes(found if isinstance(found, str) else _json(found))

    def _look_up(self, reference: Reference) -> str:
        if reference.target in _SHORTEST:
            return _SHORTEST[reference.target]
        resource = self._resources.get(reference.target, {})
        if resource.get("Type") != "AWS::S3::Bucket":
            return ""
        given = self.value(as_object(resource.get("Properties")).get("BucketName", ""))
        # Source: CloudFormation template reference, AWS::S3::Bucket: "If you don't specify a name, CloudFormation
        # generates a unique ID": stack name, logical ID and 12 characters, abbreviated to at most 63.
        name = given or f"{self._stack_name}-{reference.target}-"[:40] + "x" * 12
        return {None: name, "Arn": f"arn:aws:s3:::{name}"}.get(reference.attribute, name)


Check = Callable[[Mapping[str, Any], _Shortest], Iterable[tuple[str, int]]]


def _role(properties: Mapping[str, Any], shortest: _Shortest) -> Iterator[tuple[str, int]]:
    yield "inline policies of a role", sum(map(shortest.characters, as_array(properties.get("Policies"))))
    yield "trust policy", shortest.characters(properties.get("AssumeRolePolicyDocument", {}))
    yield "managed policies of a role", len(as_array(properties.get("ManagedPolicyArns")))


def _dashboard(properties: Mapping[str, Any], shortest: _Shortest) -> Iterator[tuple[str, int]]:
    try:
        body = json.loads(str(shortest.value(properties.get("DashboardBody", "{}"))))
    except (ValueError, RecursionError):
        # A part that is known only at deployment is more than a text in it.
        return
    yield from _widgets(as_array(as_object(body).get("widgets")))


def _widgets(widgets: Sequence[Any]) -> Iterator[tuple[str, int]]:
    rows = [as_array(as_object(as_object(each).get("properties")).get("metrics")) for each in widgets]
    # The first member of an expression's row is an object.
    metrics = [sum(not (is_array(row) and row and is_object(row[0])) for row in graph) for graph in rows]
    yield "dashboard widgets", len(widgets)
    yield "metrics of a widget", max(metrics, default=0)
    yield "metrics of a dashboard", sum(metrics)


def _function(properties: Mapping[str, Any], shortest: _Shortest) -> Iterator[tuple[str, int]]:
    yield "function environment", shortest.bytes(as_object(properties.get("Environment")).get("Variables", {}))


def _alarm(properties: Mapping[str, Any], shortest: _Shortest) -> Iterator[tuple[str, int]]:
    yield "alarm description", len(str(shortest.value(properties.get("AlarmDescription", ""))))


_CHECKS: Mapping[str, Check] = {
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::IAM::ManagedPolicy": lambda properties, shortest: [
        ("managed policy", shortest.characters(properties.get("PolicyDocument", {})))
    ],
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": lambda properties, shortest: [("key policy", shortest.bytes(properties.get("KeyPolicy", {})))],
    "AWS::Lambda::Function": _function,
    "AWS::S3::BucketPolicy": lambda properties, shortest: [
        ("bucket policy", shortest.bytes(properties.get("PolicyDocument", {})))
    ],
}


def _is_unknown(value: Any) -> bool:
    """Return whether a member may be absent or have any length: a removed property, or a condition."""
    return is_object(value) and (value.get("Ref") == "AWS::NoValue" or "Fn::If" in value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bytes(text: str) -> int:
    return len(text.encode())


def _short(name: str) -> str:
    return f"{name[:32]}..."
