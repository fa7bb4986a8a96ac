"""The Terraform module where there is no Terraform: it is parsed, and its example is rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest

from constructs_optim.constructs.declaration.document import Document
from constructs_optim.constructs.declared_stack.stack_file import declared_template

CHECKOUT = Path(__file__).parents[2]
MODULE = CHECKOUT / "terraform"
FILES = ("main.tf", "outputs.tf", "variables.tf", "versions.tf", "examples/quickstart/main.tf")
PAGES = ("terraform/README.md", "docs/terraform.md")
BLOCK = re.compile(r'^(variable|data|resource|module) "(\w+)"(?: "(\w+)")?', re.MULTILINE)
PREFIXES = {"variable": "var.", "data": "data.", "resource": "", "module": "module."}
LOCAL = re.compile(r"^  (\w+) +=", re.MULTILINE)
REFERENCE = re.compile(r"\b((?:var|local|module|data\.\w+|aws_\w+|terraform_data)\.\w+)")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|(?: (.*?) \| ?(.*?) \|)?$", re.MULTILINE)


@cache
def parsed(name: str) -> dict[str, Any]:
    return hcl2.loads((MODULE / name).read_text())


def blocks(name: str, kind: str) -> dict[str, dict[str, Any]]:
    return {key.strip('"'): body for block in parsed(name)[kind] for key, body in block.items()}


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


def text_of(description: str) -> str:
    """A description's text on one line: that of a quoted string, or of a heredoc."""
    if description.startswith('"<<'):
        description = " ".join(line.strip() for line in description.splitlines()[1:-1])
    else:
        description = json.loads(description)
    return description.replace("$${", "${")


@pytest.mark.parametrize("name", FILES)
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


def test_what_is_declared_is_one_variable_without_types() -> None:
    """Terraform drops an attribute that a type does not have without a word."""
    variables = blocks("variables.tf", "variable")
    assert {name for name, body in variables.items() if "object" in str(body["type"])} == set()
    assert re.sub(r"\W", "", variables["declaration"]["type"]) == "any"


def test_the_readme_lists_the_inputs_and_outputs_with_their_descriptions() -> None:
    _, _, tables = (MODULE / "README.md").read_text().partition("\n## Inputs\n")
    inputs, _, outputs = tables.partition("\n## Outputs\n")
    assert ROW.findall(inputs) == [
        (name, text_of(body["description"]), re.sub(r"[${}]", "", body["type"]), "" if "default" in body else "yes")
        for name, body in blocks("variables.tf", "variable").items()
    ]
    assert [row[:2] for row in ROW.findall(outputs)] == [
        (name, text_of(body["description"])) for name, body in blocks("outputs.tf", "output").items()
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_versions_that_the_module_allows(page: str) -> None:
    """Each provider has an upper bound below the next major version, which may change resources."""
    (settings,) = parsed("versions.tf")["terraform"]
    ((providers,), required) = settings["required_providers"], json.loads(settings["required_version"])
    text = " ".join((CHECKOUT / page).read_text().split())
    assert f"Terraform {required.removeprefix('>= ')} or later" in text
    for name in ("aws", "external"):
        lowest, highest = re.findall(r"\d+\.\d+", evaluated(providers[name])["version"])
        assert evaluated(providers[name])["version"] == f">= {lowest}, < {highest}"
        assert int(highest.partition(".")[0]) == int(lowest.partition(".")[0]) + 1
        assert f"`hashicorp/{name}` {lowest.removesuffix('.0')}" in text


def test_the_example_is_the_one_of_yaml() -> None:
    (module,) = parsed("examples/quickstart/main.tf")["module"]
    (body,) = module.values()
    # As main.tf does.
    data = {"schema": 1, "parameters": {}, **evaluated(body["declaration"]), "stack": evaluated(body["stack"])}
    declared = Document.parsed(json.dumps(data), "standard input")
    written = Document.read(CHECKOUT / "examples/quickstart.yaml")
    made, expected = (declared_template(each, code_bucket=None, inline=False) for each in (declared, written))
    assert made[1].body == expected[1].body
