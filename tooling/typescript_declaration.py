"""Write what the Python API decides in typescript/: the interfaces of a declaration, and what they are in a file.

Run it when docs/endpoint.schema.json or a metric changes: ``python tooling/typescript_declaration.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from constructs_optim.recipe import metrics

_ROOT = Path(__file__).resolve().parent.parent
SOURCES = _ROOT / "typescript" / "src"
SCHEMA = _ROOT / "docs" / "endpoint.schema.json"
ENDPOINT, PARAMETER = "OptimizedEndpoint", "ParameterName"

# The constructs and values of the CDK that text in a file stands for.
CDK_TYPES = {
    "Alarm": "aws_cloudwatch.IAlarm",
    "AlarmAction": "aws_sns.ITopic",
    "Bucket": "aws_s3.IBucket",
    "Duration": "Duration",
    "Key": "aws_kms.IKey",
    "RemovalPolicy": "RemovalPolicy",
    "Role": "aws_iam.IRole",
    "SecurityGroup": "aws_ec2.ISecurityGroup",
    "Size": "Size",
    "Topic": "aws_sns.ITopic",
    "Vpc": "aws_ec2.IVpc",
}
NOTE = "// Generated from docs/endpoint.schema.json: python tooling/typescript_declaration.py\n"
IMPORTS = """\
import {
  aws_cloudwatch, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns, Duration, RemovalPolicy, Size,
} from 'aws-cdk-lib';
"""


class Types:
    """The types of TypeScript for the definitions that an endpoint refers to."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        assert PARAMETER in definitions  # noqa: S101 - or numbers would be text
        self._definitions = definitions
        self._names: list[str] = []
        self.enums: dict[str, list[str]] = {}
        self.members: dict[str, dict[str, tuple[str, str]]] = {}
        """By interface and member: its key in a file, and the shape of its value, as ``MEMBERS`` has them."""

    def interfaces(self) -> Iterator[str]:
        """The interfaces, the endpoint's first."""
        self._refer(ENDPOINT)
        for name in self._names:
            yield self._interface(name)

    def _refer(self, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        return _title(name)

    def _interface(self, name: str) -> str:
        definition = self._definitions[name]
        # Of a mapping of one name, or that name alone, this is the mapping.
        mapping = next((arm for arm in definition.get("anyOf", ()) if "properties" in arm), definition)
        required, lines = mapping.get("required", ()), list[str]()
        self.members[_title(name)] = {}
        for key, schema in mapping["properties"].items():
            member = _camel(key)
            written, shape = self._type(schema, f"{name}{member[0].upper()}{member[1:]}")
            self.members[_title(name)][member] = (key, shape)
            lines += _comment(schema.get("description"), is_optional=key not in required, indent="  ")
            lines.append(f"  readonly {member}{'' if key in required else '?'}: {written};")
        comment = _comment(mapping.get("description") or _sentence(name))
        return "\n".join([*comment, f"export interface {_title(name)} {{", *lines, "}\n"])

    def _type(self, schema: Mapping[str, Any], place: str) -> tuple[str, str]:
        """The type of a value, and its shape; ``place`` is what an enumeration there is called."""
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
            # A parameter stands for a number, as do tokens in the CDK.
            return ("number" if name == PARAMETER else "string"), ""
        if not definition:
            return "any", ""
        return self._refer(name), _title(name)

    def _either(self, arms: Iterable[tuple[str, str]]) -> tuple[str, str]:
        found = dict.fromkeys(arms)
        types, shapes = [written for written, _ in found], [shape for _, shape in found if shape]
        choices = [(written, shape) for written, shape in found if shape and self._is_choice(shape)]
        if choices:
            # The text that may stand for it is short for one of its members.
            return choices[0]
        if {"number", "string"} == set(types):
            return "string", ""
        if len(types) > 1 and not shapes:
            return "any", ""
        return " | ".join(types), "".join(shapes)

    def _is_choice(self, name: str) -> bool:
        return self._definitions.get(name, {}).get("maxProperties") == 1


def _title(name: str) -> str:
    return "EndpointDeclaration" if name == ENDPOINT else name


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _sentence(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)


def _comment(text: str | None, *, is_optional: bool = False, indent: str = "") -> list[str]:
    if text is None:
        return []
    text = re.sub(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", lambda found: f"`{_camel(found[1])}`", text)
    says, _, default = text.partition("Default: ")
    says = says.strip().replace("*/", "*\\/")
    lines = [says[:1].upper() + says[1:]]
    if is_optional:
        lines.append(f"@default - {default.strip().removesuffix('.') or 'none'}")
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]


def _published() -> list[metrics.MetricDefinition]:
    return [each for each in metrics.by_name().values() if not each.of_evaluation and (each.variant or each.component)]


def _metrics() -> Iterator[str]:
    yield "/** A metric that SageMaker publishes of a running endpoint. */"
    yield "export enum EndpointMetric {"
    for definition in _published():
        yield from _comment(f"{definition.title}. {definition.definition}", indent="  ")
        yield f"  {definition.name.upper()} = '{definition.name}',"
    yield "}\n"


def _series() -> Iterator[str]:
    yield "/** Namespace, name and dimensions. */"
    yield "export type Series = [namespace: string, name: string, dimensions: string[]];\n"
    yield "/** The default statistics of metrics, and their series of a variant and of an inference component. */"
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
    yield " * The key of each member in a file, and the shape of its value: an interface, or what the CDK has for it."
    yield " * []: a list of these; {}: a mapping of names to them."
    yield " */"
    yield "export const MEMBERS: Record<string, Record<string, [key: string, shape: string]>> = {"
    for name, members in types.members.items():
        yield f"  {name}: {{"
        yield from (f"    {member}: {_literal(list(each))}," for member, each in members.items())
        yield "  },"
    yield "};\n"


def _literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r'"(\w+)":', r"\1:", text).replace('"', "'")


def written() -> dict[str, str]:
    """The texts of the files, by name."""
    types = Types(json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"])
    interfaces = list(types.interfaces())
    enums = [
        "\n".join([f"/** {_sentence(name)} */", f"export enum {name} {{", *map(_member, values), "}\n"])
        for name, values in types.enums.items()
    ]
    return {
        "declaration.ts": "\n".join([NOTE, IMPORTS, *interfaces, *enums, *_metrics()]),
        "members.ts": "\n".join([NOTE, *_members(types), *_series()]),
    }


def _member(value: str) -> str:
    return f"  /** {value} */\n  {re.sub('[^A-Z0-9]', '_', value.upper())} = {_literal(value)},"


if __name__ == "__main__":
    for name, text in written().items():
        (SOURCES / name).write_text(text, encoding="utf-8")
