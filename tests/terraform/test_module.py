"""The Terraform module where there is no Terraform: it is parsed, held against the schema, and evaluated."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from constructs_optim.constructs.declaration.document import Document
from constructs_optim.constructs.declared_stack.stack_file import declared_template

CHECKOUT = Path(__file__).parents[2]
MODULE = CHECKOUT / "terraform"
TOOL = runpy.run_path(str(CHECKOUT / "tooling/terraform_module.py"))
VARIABLES = {each.name: each for each in TOOL["variables"]()[0]}
SCHEMA = json.loads((CHECKOUT / "docs/endpoint.schema.json").read_bytes())
# JSON of any kind, which Terraform has no type for.
WITHOUT_TYPE = {"Workload.parameters"}
HAND_WRITTEN = ("main.tf", "outputs.tf", "variables.tf", "versions.tf", "examples/quickstart/main.tf")
BLOCK = re.compile(r'^(variable|data|resource|module) "(\w+)"(?: "(\w+)")?', re.MULTILINE)
PREFIXES = {"variable": "var.", "data": "data.", "resource": "", "module": "module."}
LOCAL = re.compile(r"^  (\w+) +=", re.MULTILINE)
REFERENCE = re.compile(r"\b((?:var|local|module|data\.\w+|aws_\w+|terraform_data)\.\w+)")
KEYS = st.text("az_09-", min_size=1, max_size=4)
TEXT = st.text('ab":{},\\null', max_size=12)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    # No list of a declaration has nulls.
    lambda inner: st.lists(inner.filter(lambda value: value is not None), max_size=4) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


@cache
def parsed(name: str) -> dict[str, Any]:
    return hcl2.loads((MODULE / name).read_text())


def evaluated(value: Any) -> Any:
    """The value of an expression of literals."""
    match value:
        case dict():
            return {key.strip('"'): evaluated(member) for key, member in value.items() if not key.startswith("__")}
        case list():
            return [evaluated(item) for item in value]
        case str():
            assert value.startswith('"'), f"no literal: {value}"
            return json.loads(value).replace("$${", "${")
    return value


def test_what_is_generated_is_as_the_schema_has_it() -> None:
    for path, content in TOOL["files"]().items():
        assert (MODULE / path).read_text() == content, "python tooling/terraform_module.py"


def test_each_property_of_the_schema_has_a_type() -> None:
    left_out = set(SCHEMA["properties"]) - {"$schema", "schema", "parameters"} - set(VARIABLES)
    for name, variable in VARIABLES.items():
        left_out |= set(missing(SCHEMA["properties"][name], variable.type, name))
    assert left_out == WITHOUT_TYPE


def missing(schema: Mapping[str, Any], type: Any, named: str) -> Iterator[str]:
    """The properties of a schema that a type has no attributes for."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from missing(SCHEMA["$defs"][name], type, name)
    for arm in schema.get("anyOf", schema.get("oneOf", ())):
        yield from missing(arm, type, named)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from missing(schema[key], type.element or type, named)
    for key, member in schema.get("properties", {}).items():
        attribute = (type.attributes or {}).get(key)
        if attribute is None:
            yield f"{named}.{key}"
        else:
            yield from missing(member, attribute.type, named)


def test_whatever_an_example_declares_the_module_takes() -> None:
    for path in (CHECKOUT / "examples").glob("*.yaml"):
        for key, value in YAML(typ="safe").load(path.read_text()).items():
            if key != "parameters":
                fits(value, VARIABLES[key].type, f"{path.name}: {key}")


def fits(value: Any, type: Any, place: str) -> None:
    """Whether a value of a file is one of a type, or one of its short forms."""
    if type.element is not None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            fits(item, type.element, f"{place}.{key}")
    elif type.attributes is None:
        # A number may be text, with a unit or a parameter, only where the type is text.
        assert not isinstance(value, dict | list), place
    elif isinstance(value, dict):
        for key, member in value.items():
            assert key in type.attributes, f"{place}.{key}"
            fits(member, type.attributes[key].type, f"{place}.{key}")
    else:
        is_name = isinstance(value, str) and (value in type.attributes or "jumpstart" in type.attributes)
        assert is_name or "value" in type.attributes, f"{place}: {value}"


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_a_file_refers_to_what_there_is(name: str) -> None:
    there = set(declared_in((MODULE / name).parent.glob("*.tf")))
    for expression in expressions(parsed(name)):
        assert set(REFERENCE.findall(expression)) <= there, expression


def declared_in(files: Iterable[Path]) -> Iterator[str]:
    """The names of all blocks and locals, as expressions have them."""
    for path in files:
        for kind, *labels in BLOCK.findall(path.read_text()):
            yield PREFIXES[kind] + ".".join(filter(None, labels))
        yield from (f"local.{name}" for name in LOCAL.findall(path.read_text()))


def expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [member for key, member in value.items() if key != "__comments__"]
    if isinstance(value, list):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, str):
        yield from re.findall(r"\$\{.*\}", value)


def declaration_of(members: Any) -> str:
    """The text that the command reads, by the expressions of main.tf."""
    found: dict[str, str] = parsed("main.tf")["locals"][0]
    alternatives = re.search(r'alternatives = "(.*)"', (MODULE / "declaration.tf").read_text())
    assert alternatives is not None
    text = json.dumps(members, separators=(",", ":"))
    for name in ("without_nulls", "typed"):
        for pattern, replacement in re.findall(r', ("/(?:[^"\\]|\\.)*/"), ("(?:[^"\\]|\\.)*")\)', found[name]):
            expression = json.loads(pattern)[1:-1].replace("${local.alternatives}", alternatives[1])
            text = re.sub(expression, json.loads(replacement).replace("$", "\\"), text, flags=re.ASCII)
    return text


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(KEYS, JSON_VALUES, max_size=4))
def test_nulls_are_left_out_and_nothing_else(members: Any) -> None:
    assert json.loads(declaration_of(members)) == without_nulls(members)


@given(TEXT | st.booleans())
def test_a_value_stands_for_its_object(value: Any) -> None:
    members = {"artifact_store": {"value": value, "from_bucket": None}, "environment": {"value": value}}
    expected = {"artifact_store": value, "environment": {"value": value}}
    assert json.loads(declaration_of(members)) == expected


def test_the_example_is_the_one_of_yaml() -> None:
    (module,) = parsed("examples/quickstart/main.tf")["module"]
    given = {key: value for key, value in module['"endpoints"'].items() if key not in ("source", "code_bucket")}
    declared = Document.parsed(declaration_of({"schema": 1, "region": None, **evaluated(given)}), "standard input")
    written = Document.read(CHECKOUT / "examples/quickstart.yaml")
    made, expected = (declared_template(each, code_bucket=None, inline=False) for each in (declared, written))
    assert made[1].body == expected[1].body
