"""Write the parts of typescript/ that follow from the Python API: a declaration's interfaces, and their form in a file.

Run it when docs/endpoint.schema.json or a metric changes: ``python tooling/typescript_declaration.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from constructs_optim.constructs.declaration.document import SCHEMA_VERSION
from constructs_optim.constructs.standalone_template.outputs import OUTPUTS
from constructs_optim.recipe import metrics

_ROOT = Path(__file__).resolve().parent.parent
SOURCES = _ROOT / "typescript" / "src"
SCHEMA = _ROOT / "docs" / "endpoint.schema.json"
ENDPOINT, PARAMETER = "OptimizedEndpoint", "ParameterName"

# The CDK's constructs and values for which text in a file stands.
CDK_TYPES = {
    "Alarm": "aws_cloudwatch.IAlarm",
    "AlarmAction": "aws_sns.ITopic",
    "Bucket": "aws_s3.IBucket",
    "Duration": "Duration",
    "Key": "aws_kms.IKey",
    "Latency": "Duration",
    "RemovalPolicy": "RemovalPolicy",
    "Role": "aws_iam.IRole",
    "SecurityGroup": "aws_ec2.ISecurityGroup",
    "Size": "Size",
    "Topic": "aws_sns.ITopic",
    "Vpc": "aws_ec2.IVpc",
}
# Descriptions that the schema lacks or has only for Python.
_TEXTS = {
    "Compilation": "A compilation of the model.",
    "Dashboard": "Additions to the endpoint's dashboard.",
    "KvCache": "A data type of the KV cache.",
    "Quantization": "A quantization of the weights.",
    "Sharding": "A division of the weights into shards.",
    "SpeculativeDecoding": "Speculative decoding: a draft whose tokens the model verifies.",
}
# Here, an endpoint has its own template, and shares nothing with others in its stack.
_OF_A_STACK = {
    "no model; `addComponent` adds models": "no model; `components` adds models",
    "one store for the whole stack": "a store of its own; `{ fromBucket: { bucket } }` shares one with other endpoints",
    "one role for all models of the stack, without write permissions": "a role of its own, without write permissions",
    "a role for all jobs of the stack": "a role for all jobs of the endpoint",
}
# Suffix and description of the member for a union's other alternative, because jsii has no unions.
_OTHER_ARMS = {
    "boolean": ("Enabled", "Instead of `{}`: `true` for its defaults, `false` to omit it."),
    "string": ("Uri", "Instead of `{}`: its S3 URI."),
    "enum": ("Preset", "Instead of `{}`: a choice by its name."),
}
# Instructions for choices in Python, and the forms of a latency in other toolchains.
_ELSEWHERE = re.compile(
    r" Use its (?:class|static) methods\.|, in milliseconds or as text: `\w+`|, created by (`\w+`(, | and | or )?)+"
)
NOTE = "// Generated from docs/endpoint.schema.json: python tooling/typescript_declaration.py\n"
IMPORTS = """\
import {
  aws_cloudwatch, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns, Duration, RemovalPolicy, Size,
} from 'aws-cdk-lib';
"""


class Types:
    """TypeScript types of the definitions to which an endpoint refers."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        assert PARAMETER in definitions  # noqa: S101 - or numbers would be text
        self._definitions = definitions
        self._names: list[str] = []
        self.enums: dict[str, list[str]] = {}
        self.members: dict[str, dict[str, tuple[str, str]]] = {}
        """The key and value shape of each member by interface, as in ``MEMBERS``."""

    def interfaces(self) -> Iterator[str]:
        """Yield the interfaces, the endpoint's first."""
        self._refer(ENDPOINT)
        for name in self._names:
            yield self._interface(name)

    def _refer(self, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return _title(name)

    def _interface(self, name: str) -> str:
        definition = self._definitions[name]
        # For a mapping or its name alone, use the mapping.
        mapping = next((arm for arm in definition.get("anyOf", ()) if "properties" in arm), definition)
        required, lines = mapping.get("required", ()), list[str]()
        self.members[_title(name)] = {}
        for key, schema in mapping["properties"].items():
            member, optional = _camel(key), key not in required
            place = f"{name}{member[0].upper()}{member[1:]}"
            (written, shape), *others = self._arms(schema, place)
            self.members[_title(name)][member] = (key, shape)
            lines += _comment(self._text(schema, key), is_optional=optional, indent="  ")
            lines.append(f"  readonly {member}{'?' if optional else ''}: {written};")
            for other, shape in others:
                suffix, text = _OTHER_ARMS["enum" if other in self.enums else other]
                self.members[_title(name)][f"{member}{suffix}"] = (key, shape)
                lines += _comment(f"{text.format(member)} Default: `{member}`.", is_optional=True, indent="  ")
                lines.append(f"  readonly {member}{suffix}?: {other};")
        comment = _comment(_TEXTS.get(name) or mapping["description"])
        return "\n".join([*comment, f"export interface {_title(name)} {{", *lines, "}\n"])

    def _text(self, schema: Mapping[str, Any], key: str) -> str:
        """Return a member's description, or the description of its type."""
        name = schema.get("$ref", "").rpartition("/")[2]
        definition = self._definitions.get(name, {})
        definition = next((arm for arm in definition.get("anyOf", ()) if "properties" in arm), definition)
        own = schema.get("description") or _TEXTS.get(name) or definition["description"]
        return f"{key.replace('_', ' ')}. D{own[1:]}" if own.lower().startswith("default: ") else own

    def _arms(self, schema: Mapping[str, Any], place: str) -> list[tuple[str, str]]:
        """Return the types of a value and their shapes: two if it is either settings or a plain value."""
        arms = schema.get("oneOf", schema.get("anyOf", ()))
        found = [self._named_value(arm, place) or self._type(arm, place) for arm in arms]
        settings = [each for each in found if each[1] and not self._is_choice(each[1])]
        others = [each for each in found if each not in settings]
        if [len(settings), len(others)] == [1, 1] and others[0][0] in {*_OTHER_ARMS, *self.enums}:
            return [*settings, *others]
        return [self._type(schema, place)]

    def _named_value(self, schema: Mapping[str, Any], place: str) -> tuple[str, str] | None:
        """Return the enumeration of names such as ``none``, which stand for settings."""
        name = schema.get("$ref", "").rpartition("/")[2]
        values = re.fullmatch(r"\^\(([\w|]+)\)\$", self._definitions.get(name, {}).get("pattern", ""))
        if values is None or name in CDK_TYPES:
            return None
        self.enums[place] = values[1].split("|")
        return place, ""

    def _type(self, schema: Mapping[str, Any], place: str) -> tuple[str, str]:
        """Return the type of a value, and its shape; ``place`` names an enumeration."""
        if "$ref" in schema:
            return self._referred(schema["$ref"].rpartition("/")[2])
        if "enum" in schema:
            if schema["type"] != "string":
                return "number", ""
            self.enums[place] = schema["enum"]
            return place, ""
        if arms := schema.get("oneOf", schema.get("anyOf")):
            return self._either([self._type(arm, place) for arm in arms])
        match schema.get("type"):
            case "array":
                written, shape = self._type(schema["items"], place)
                return f"{written}[]", f"{shape}[]"
            case "object":
                written, shape = self._type(schema["additionalProperties"], place)
                return f"{{ [key: string]: {written} }}", f"{shape}{{}}"
            case "integer" | "number":
                return "number", ""
            case "boolean" | "string" as simple:
                return simple, ""
            case _:
                return "any", ""

    def _referred(self, name: str) -> tuple[str, str]:
        if name in CDK_TYPES:
            return CDK_TYPES[name], name
        definition = self._definitions[name]
        if definition.get("type") == "string":
            # A parameter stands for a number, as tokens do in the CDK.
            return ("number" if name == PARAMETER else "string"), ""
        if not definition:
            return "any", ""
        return self._refer(name), _title(name)

    def _either(self, arms: Iterable[tuple[str, str]]) -> tuple[str, str]:
        found = dict.fromkeys(arms)
        types, shapes = [written for written, _ in found], [shape for _, shape in found if shape]
        choices = [(written, shape) for written, shape in found if shape and self._is_choice(shape)]
        if choices:
            # The alternative text is a short form of one of its members.
            return choices[0]
        if "number" in types and len(shapes) == 1 and shapes[0] in CDK_TYPES:
            # A number in a fixed unit, for which the CDK has a type.
            return CDK_TYPES[shapes[0]], shapes[0]
        if len(types) > 1:
            assert not shapes, types  # noqa: S101 - jsii has no unions
            return "any", ""
        return types[0], "".join(shapes)

    def _is_choice(self, name: str) -> bool:
        return self._definitions.get(name, {}).get("maxProperties") == 1


def _title(name: str) -> str:
    return "EndpointDeclaration" if name == ENDPOINT else name


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _sentence(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)


def _comment(text: str, *, is_optional: bool = False, indent: str = "") -> list[str]:
    text = re.sub(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", lambda found: f"`{_camel(found[1])}`", text)
    text = _ELSEWHERE.sub("", text)
    for of_stack, of_endpoint in _OF_A_STACK.items():
        text = text.replace(of_stack, of_endpoint)
    says, _, default = text.replace("*/", "*\\/").partition("Default: ")
    says = says.strip()
    lines = [says[:1].upper() + says[1:]]
    if is_optional:
        lines.append(f"@default - {default.strip().removesuffix('.') or 'none'}")
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]


def _published() -> list[metrics.MetricDefinition]:
    return [each for each in metrics.by_name().values() if not each.of_evaluation and (each.variant or each.component)]


def _metrics() -> Iterator[str]:
    yield "/** A metric that SageMaker publishes for a running endpoint. */"
    yield "export enum EndpointMetric {"
    for definition in _published():
        yield from _comment(f"{definition.title}. {definition.definition}", indent="  ")
        yield f"  {definition.name.upper()} = '{definition.name}',"
    yield "}\n"


def _series() -> Iterator[str]:
    yield "/** Namespace, name and dimensions. */"
    yield "export type Series = [namespace: string, name: string, dimensions: string[]];\n"
    yield "/** The default statistics of metrics, and their series for a variant and an inference component. */"
    yield "export const METRICS: Record<string, { statistic: string; variant?: Series; component?: Series }> = {"
    for definition in _published():
        series = {
            kind: [found.namespace, found.metric_name, list(found.dimensions)]
            for kind, found in (("variant", definition.variant), ("component", definition.component))
            if found is not None
        }
        yield f"  {definition.name}: {_literal({'statistic': definition.statistic, **series})},"
    yield "};\n"


def _members(types: Types) -> Iterator[str]:
    yield "/**"
    yield " * The key of each member in a file, and the shape of its value: an interface, or the CDK's type."
    yield " * []: a list of these; {}: a mapping of names to them."
    yield " */"
    yield "export const MEMBERS: Record<string, Record<string, [key: string, shape: string]>> = {"
    for name, members in types.members.items():
        yield f"  {name}: {{"
        yield from (f"    {member}: {_literal(list(each))}," for member, each in members.items())
        yield "  },"
    yield "};\n"
    yield "/** The types of those members for which a file has text, by shape. */"
    yield "export const CDK_TYPES: Record<string, string> = {"
    yield from (f"  {shape}: {_literal(written)}," for shape, written in CDK_TYPES.items())
    yield "};\n"


def _of_templates() -> Iterator[str]:
    yield "/** The version of the schema from which MEMBERS was made. */"
    yield f"export const SCHEMA_VERSION = {SCHEMA_VERSION};\n"
    yield "/** The suffixes of an endpoint's, component's or adapter's outputs, after its ID. */"
    yield "export const OUTPUTS = ["
    yield from (f"  {_literal(name)}," for name in OUTPUTS)
    yield "];\n"


def _literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r'"(\w+)":', r"\1:", text).replace('"', "'")


def written() -> dict[str, str]:
    """Return the content of the files, by name."""
    types = Types(json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"])
    interfaces = list(types.interfaces())
    enums = [
        "\n".join([f"/** {_sentence(name)} */", f"export enum {name} {{", *map(_member, values), "}\n"])
        for name, values in types.enums.items()
    ]
    return {
        "declaration.ts": "\n".join([NOTE, IMPORTS, *interfaces, *enums, *_metrics()]),
        "members.ts": "\n".join([NOTE, *_members(types), *_series(), *_of_templates()]),
    }


def _member(value: str) -> str:
    return f"  /** {value} */\n  {re.sub('[^A-Z0-9]', '_', value.upper())} = {_literal(value)},"


if __name__ == "__main__":
    for name, text in written().items():
        (SOURCES / name).write_text(text, encoding="utf-8")
