"""Write the parts of terraform/ that follow from endpoint.yaml's schema: declaration.tf, outputs.tf, README tables.

Run it when docs/endpoint.schema.json or terraform/variables.tf changes: ``python tooling/terraform_module.py``.
Terraform's types have no unions. If a file allows text or a Boolean instead of a mapping, the mapping's type has a
further member, ``value``.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2

from constructs_optim.constructs.standalone_template.outputs import OUTPUTS

_ROOT = Path(__file__).resolve().parent.parent
_MODULE = _ROOT / "terraform"
_HEADER = "# Generated from docs/endpoint.schema.json: python tooling/terraform_module.py\n"
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "bool"}
# Alternatives that add nothing to a mapping or number: a short form, or a parameter, because Terraform has variables.
_ABBREVIATIONS = frozenset({"ModelName", "ParameterName"})
# Members that the module itself sets, or that are the same for all modules of a release.
_LEFT_OUT = frozenset({"$schema", "schema", "parameters"})
_WIDTH = 120
_HEAD_OF_INPUTS = ("name", "description", "type", "required")
_VALUE = "value"


class UntypedError(TypeError):
    """A schema that Terraform's types cannot express."""


@dataclass(frozen=True)
class Attribute:
    """A member of an object."""

    type: Type
    is_required: bool


@dataclass(frozen=True)
class Type:
    """A type constraint of Terraform: a primitive, a collection of ``element``, or an object of ``attributes``."""

    name: str
    element: Type | None = None
    attributes: Mapping[str, Attribute] | None = None

    def lines(self, indent: int, before: str = "", after: str = "") -> list[str]:
        """Return the type between two texts: on one line if it fits, else with a line for each member."""
        if self.element is not None:
            return self.element.lines(indent, f"{before}{self.name}(", f"){after}")
        line = f"{' ' * indent}{before}{self}{after}"
        if self.attributes is None or (len(line) <= _WIDTH and self.is_flat):
            return [line]
        return [f"{' ' * indent}{before}object({{", *_members(self, indent + 2), f"{' ' * indent}}}){after}"]

    @property
    def has_object(self) -> bool:
        """Whether the type is or contains an object."""
        return self.attributes is not None or (self.element is not None and self.element.has_object)

    @property
    def is_flat(self) -> bool:
        """Whether an object contains no other objects."""
        return not any(each.type.has_object for each in (self.attributes or {}).values())

    def __str__(self) -> str:
        if self.attributes is not None:
            inner = ", ".join(f"{key} = {_optional(each)}" for key, each in self.attributes.items())
            return f"object({{ {inner} }})" if inner else "object({})"
        return f"{self.name}({self.element})" if self.element is not None else self.name


def _optional(attribute: Attribute) -> str:
    return str(attribute.type) if attribute.is_required else f"optional({attribute.type})"


def _members(type: Type, indent: int) -> Iterator[str]:
    """Yield an object's members, aligned like ``terraform fmt``: consecutive one-line members together."""
    chain: list[tuple[str, str]] = []
    for key, attribute in (type.attributes or {}).items():
        before, after = ("", "") if attribute.is_required else ("optional(", ")")
        lines = attribute.type.lines(indent, f"{key} = {before}", after)
        if len(lines) == 1:
            chain.append((key, lines[0].strip().removeprefix(f"{key} = ")))
            continue
        yield from _aligned(chain, indent)
        chain = []
        yield from lines
    yield from _aligned(chain, indent)


def _aligned(chain: list[tuple[str, str]], indent: int) -> Iterator[str]:
    width = max((len(key) for key, _ in chain), default=0)
    for key, value in chain:
        yield f"{' ' * indent}{key:<{width}} = {value}"


@dataclass
class Types:
    """The types of a schema's values, and the names of the members that may also be a ``value``."""

    definitions: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Start with no names."""
        self.alternatives: set[str] = set()

    def of(self, schema: Mapping[str, Any], within: tuple[str, ...] = (), *, called: str = "") -> Type:
        """Return the type of a schema.

        Raises:
            UntypedError: if there is none, as for any value, a union of mappings, or a recursive definition.
        """
        if (reference := schema.get("$ref")) is not None:
            name = reference.rpartition("/")[2]
            if name in within:
                raise UntypedError(f"{name} contains itself")
            return self.of(self.definitions[name], (*within, name), called=called)
        arms = schema.get("anyOf") or schema.get("oneOf")
        if arms is not None:
            return self._union(arms, within, called)
        match schema.get("type"):
            case "object" if "properties" in schema or not isinstance(schema.get("additionalProperties"), dict):
                return Type("object", attributes=dict(self._attributes(schema, within)))
            case "object":
                return Type("map", self.of(schema["additionalProperties"], within))
            case "array":
                return Type("list", self.of(schema["items"], within))
            case str() as name:
                return Type(_PRIMITIVES[name])
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if not values:
            raise UntypedError(f"{called or 'this'} may be of any type")
        return Type("string" if any(isinstance(each, str) for each in values) else "number")

    def _attributes(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Iterator[tuple[str, Attribute]]:
        for key, member in schema.get("properties", {}).items():
            try:
                of = self.of(member, within, called=key)
            except UntypedError:
                # JSON of any kind cannot be part of a union.
                continue
            yield key, Attribute(of, key in schema.get("required", ()))

    def _union(self, arms: list[Mapping[str, Any]], within: tuple[str, ...], called: str) -> Type:
        kept = [arm for arm in arms if arm.get("type") != "null" and _name(arm) not in _ABBREVIATIONS]
        types = [self.of(arm, within, called=called) for arm in kept]
        if len(types) == 1:
            return types[0]
        mappings = [each for each in types if each.attributes is not None]
        scalars = list(dict.fromkeys(each.name for each in types if each.attributes is None))
        if not mappings:
            # Text can also express a number or a Boolean, and Terraform converts both.
            return Type("string" if "string" in scalars else scalars[0])
        (mapping,) = mappings
        names = [name for arm in kept for name in arm.get("enum", ())]
        if not scalars or names:
            # A name is a short form of a mapping of that name.
            return mapping
        assert _VALUE not in (mapping.attributes or {})  # noqa: S101 - no mapping of the schema may have this member
        self.alternatives.add(called)
        members = {key: Attribute(each.type, is_required=False) for key, each in (mapping.attributes or {}).items()}
        return Type("object", attributes={_VALUE: Attribute(Type(scalars[0]), is_required=False), **members})


def _name(arm: Mapping[str, Any]) -> str:
    return arm.get("$ref", "").rpartition("/")[2]


@dataclass(frozen=True)
class Variable:
    """A variable of the module."""

    name: str
    description: str
    type: Type
    is_required: bool

    @property
    def text(self) -> str:
        """The variable's block."""
        description, lines = _escaped(self.description), self.type.lines(2, "type = ")
        default = [] if self.is_required else [("default", "null")]
        if "\n" not in description and len(lines) == 1:
            written = [("description", _quoted(description)), ("type", str(self.type)), *default]
            body = list(_aligned(written, 2))
        else:
            heredoc = f"<<-EOT\n{textwrap.indent(description, '    ')}\n  EOT"
            text = heredoc if "\n" in description else _quoted(description)
            body = [f"  description = {text}", *lines, *(f"  {key} = {value}" for key, value in default)]
        return "\n".join([f'variable "{self.name}" {{', *body, "}", ""])


def variables() -> tuple[list[Variable], Types]:
    """Return the variables of a declaration, and the types from which they were made."""
    schema = json.loads((_ROOT / "docs" / "endpoint.schema.json").read_bytes())
    types = Types(schema["$defs"])
    found: list[Variable] = []
    for name, member in schema["properties"].items():
        if name not in _LEFT_OUT:
            described = _described(member, schema["$defs"])
            found.append(Variable(name, described, types.of(member, called=name), name in schema["required"]))
    return found, types


def _described(member: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a variable's description, including the members of its constructs."""
    text = _sentence(member["description"]).replace("the credentials' Region", "the provider's Region")
    of = member.get("additionalProperties")
    if not isinstance(of, dict) or "$ref" not in of:
        return text
    definition = definitions[_name(of)]
    members = [
        f"- `{key}`: {_sentence(each['description'])}"
        for key, each in definition.get("properties", {}).items()
        if "description" in each
    ]
    return "\n".join([text, "", *members]) if members else text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")


def declaration() -> str:
    """Return declaration.tf."""
    found, types = variables()
    members = [(each.name, f"var.{each.name}") for each in found if each.name != "stack"]
    local = [
        "locals {",
        "  # Sections and attributes that are not set are null.",
        "  variables = {",
        *_aligned(members, 4),
        "  }",
        "",
        f"  # Objects for which their member `{_VALUE}` may stand.",
        f'  alternatives = "{"|".join(sorted(types.alternatives))}"',
        "}",
        "",
    ]
    return "\n".join([_HEADER, *(each.text for each in found), *local])


def outputs() -> str:
    """Return outputs.tf."""
    suffixes = ", ".join(f'"{suffix}"' for suffix in OUTPUTS)
    blocks = [
        "# Generated from standalone_template/outputs.py: python tooling/terraform_module.py\n",
        "locals {\n"
        "  # The names come from the template, so that a plan knows the keys before the stack has the values.\n"
        "  outputs = { for name in keys(local.sections.Outputs) : name => "
        "lookup(aws_cloudformation_stack.this.outputs, name, null) }\n"
        "  # Each name begins with the ID of its endpoint or component: Llama70BEndpointName.\n"
        "  by_id = {\n"
        f"    for suffix in [{suffixes}] : suffix => {{\n"
        "      for name, value in local.outputs : trimsuffix(name, suffix) => value "
        "if endswith(name, suffix) && name != suffix\n"
        "    }\n"
        "  }\n"
        "}\n",
    ]
    blocks += [_output(name, description, value) for name, description, value in named_outputs()]
    return "\n".join(blocks)


def named_outputs() -> Iterator[tuple[str, str, str]]:
    """Yield names, descriptions and values of the module's outputs."""
    for suffix, description in OUTPUTS.items():
        text = f"{description.removesuffix(', separated by commas')}, by the ID of the endpoint, component or adapter."
        value = f'local.by_id["{suffix}"]'
        if _is_list(suffix):
            value = f'{{ for id, text in {value} : id => text == null ? [] : split(",", text) }}'
        yield _plural(suffix), text, value
    yield "outputs", "All outputs of the template, by name.", "local.outputs"
    yield "stack_id", "The ARN of the stack.", "aws_cloudformation_stack.this.id"


def _output(name: str, description: str, value: str) -> str:
    return f'output "{name}" {{\n  description = "{description}"\n  value       = {value}\n}}\n'


def _is_list(suffix: str) -> bool:
    return suffix.endswith("s")


def _plural(suffix: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", suffix.replace("OpenAi", "Openai")).lower()
    if _is_list(suffix):
        return snake
    return f"{snake.removesuffix('y')}ies" if snake.endswith("y") else f"{snake}s"


def own_variables() -> Iterator[tuple[str, str, str, bool]]:
    """Yield the name, description and type of each variable in variables.tf, and whether it is required."""
    parsed: dict[str, Any] = hcl2.loads((_MODULE / "variables.tf").read_text(encoding="utf-8"))
    for block in parsed["variable"]:
        ((name, body),) = block.items()
        text: str = body["description"]
        is_heredoc = text.startswith('"<<')
        text = " ".join(line.strip() for line in text.splitlines()[1:-1]) if is_heredoc else json.loads(text)
        of = re.sub(r"^\$\{(.*)\}$", r"\1", body["type"])
        yield name.strip('"'), text.replace("$${", "${"), of, "default" not in body


def _tables() -> Iterator[tuple[str, str]]:
    """Yield the README's tables by heading."""
    yield (
        "Inputs of the module",
        _table(
            _HEAD_OF_INPUTS,
            ((f"`{name}`", text, of, "yes" * is_required) for name, text, of, is_required in own_variables()),
        ),
    )
    yield (
        "Inputs of the declaration",
        _table(
            _HEAD_OF_INPUTS,
            (
                (f"`{each.name}`", each.description.partition("\n")[0], _shown(each.type), "yes" * each.is_required)
                for each in variables()[0]
            ),
        ),
    )
    yield "Outputs", _table(("name", "description"), ((f"`{name}`", text) for name, text, _ in named_outputs()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _shown(type: Type) -> str:
    """Return a type without its members, which declaration.tf lists."""
    if type.attributes is not None:
        return "object"
    return f"{type.name}({_shown(type.element)})" if type.element is not None else type.name


def files() -> dict[Path, str]:
    """Return all generated files, by their paths in terraform/."""
    readme = (_MODULE / "README.md").read_text(encoding="utf-8")
    for heading, table in _tables():
        before, _, after = readme.partition(f"# {heading}\n\n")
        _, _, rest = after.partition("\n\n")
        readme = f"{before}# {heading}\n\n{table}\n\n{rest}"
    return {Path("declaration.tf"): declaration(), Path("outputs.tf"): outputs(), Path("README.md"): readme}


if __name__ == "__main__":
    for path, content in files().items():
        (_MODULE / path).write_text(content, encoding="utf-8")
