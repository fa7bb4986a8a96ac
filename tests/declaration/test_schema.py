"""The JSON Schema of files: published as it is made, and of one mind with what reads them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML

import constructs_optim
from constructs_optim.constructs.declaration.references import PARAMETER
from constructs_optim.constructs.declaration.schema import (
    Call,
    Choice,
    call_of,
    example_of,
    json_schema,
    made_by,
    union_of,
)
from constructs_optim.constructs.declared_stack.stack_file import schema, stack_form
from constructs_optim.recipe import Model
from constructs_optim.recipe.techniques import REGISTRY

ROOT = Path(__file__).parents[2]
PUBLISHED = json.loads((ROOT / "docs" / "endpoint.schema.json").read_text())
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
EDITOR = jsonschema.Draft202012Validator(PUBLISHED)
MODEL = {"jumpstart": {"model_id": "meta-textgeneration-llama-3-8b", "accept_eula": True}}


def with_endpoint(**settings: Any) -> dict[str, Any]:
    return {"stack": "Chat", "endpoints": {"Chat": {"model": MODEL, "instance_type": "ml.g5.12xlarge", **settings}}}


def test_the_published_schema_is_that_of_the_signatures() -> None:
    assert schema() == PUBLISHED, "python -m tests.support.resource_schemas writes it"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_editors_accept_every_example(path: Path) -> None:
    EDITOR.validate(YAML(typ="safe").load(path))


ACCEPTED = [
    {"techniques": [{"quantization": "awq"}]},
    {"techniques": [{"quantization": {"awq": {"group_size": 64}}}]},
    {"techniques": [{"medusa": {"training_data": "s3://a/b/"}}]},
    {"model": "Qwen/Qwen3-32B"},
    {"model": {"s3": {"uri": "s3://bucket/model/"}}},
    {"server": {"vllm": {"context_length": 8192}}},
    {"server": "sglang"},
    {"inference_component": True},
    {"inference_component": {"cpu_cores": 2}},
    {"monitoring": {"alarms": "none"}},
    {"monitoring": {"alarms": {"latency": {"threshold": 20}, "queue": True}}},
    {"variant": {"initial_instance_count": 2, "container_startup_timeout": "20m", "routing": "random"}},
    {"variant": {"volume_size": "256GiB", "routing": {"prefix_aware": {"prefix_length": 4096}}}},
    {"update_policy": "all_at_once"},
    {"update_policy": {"canary": {"percent": 50, "bake_time": "90s"}}},
    {"objectives": {"input_tokens": 1000, "output_tokens": 300, "time_to_first_token": "1.5s"}},
    {"artifact_store": "Artifacts"},
    {"artifact_store": {"from_bucket": {"bucket": "artifacts", "read_only": True}}},
    {
        "network": {
            "vpc": {"vpc_id": "vpc-00000001", "subnet_ids": ["subnet-00000001"]},
            "security_groups": ["sg-00000001"],
        }
    },
    {"removal_policy": "retain"},
    {
        "scaling": {
            "max_capacity": 4,
            "on_concurrency": {},
            "on_schedule": {"Night": {"schedule": "cron(0 20 * * ? *)"}},
        }
    },
    {"scaling": {"max_capacity": "${Count}", "on_concurrency": {"target": "${Target}"}}},
    {
        "scaling": {
            "max_capacity": 1,
            "on_schedule": {"A": {"schedule": "rate(1 day)", "start": "2026-11-21T14:00:00Z"}},
        }
    },
    {"evaluations": {"Daily": {"schedule": "rate(1 day)", "require": {"p99_ttft_ms": 2000, "max_regression": 0.1}}}},
    {"components": {"Sql": {"model": MODEL, "copies": 2, "adapters": {"A": {"artifact_uri": "s3://a/b.tar.gz"}}}}},
    {
        "shadow": {
            "candidate": {"techniques": [{"quantization": "fp8"}]},
            "checks": ["answered", {"exact_match": {"at_least": 0.9}}],
        }
    },
    {"dashboard": {"show_costs": {"instance_price_per_hour": 7}}},
    {"acknowledge": [{"rule": "POL031", "reason": "a test"}]},
]
REFUSED = [
    {"techniques": {"quantization": "awq"}},
    {"techniques": ["quantization=awq"]},
    {"techniques": [{"quantization": "awqq"}]},
    {"techniques": [{"quantization": {"awq": {"group_size": 63}}}]},
    {"techniques": [{"quantization": "awq", "compilation": "neuron"}]},
    {"techniques": [{"medusa": {}}]},
    {"techniques": [{"quantization": {"awq": None}}]},
    {"model": {"jumpstart": {}}},
    {"model": 3},
    {"instance_type": None},
    {"instancetype": "ml.g5.12xlarge"},
    {"inference_component": "yes"},
    {"monitoring": {"alarms": "all"}},
    {"monitoring": {"alarm_actions": "arn:aws:sns:us-west-2:111122223333:pages"}},
    {"variant": {"initial_instance_count": "2"}},
    {"variant": {"initial_instance_count": 1.5}},
    {"variant": {"container_startup_timeout": 600}},
    {"variant": {"volume_size": "256"}},
    {"update_policy": {"canary": {}, "rolling": {}}},
    {"objectives": {"input_tokens": 0, "output_tokens": 1}},
    {"removal_policy": "RETAIN"},
    {"scaling": {"on_concurrency": {"target": True}}},
    {"scaling": {"on_nothing": {}}},
    {"variant": {"initial_instance_count": "${Count}"}},
    {"components": [{"model": MODEL}]},
]


@pytest.mark.parametrize("settings", ACCEPTED, ids=str)
def test_what_editors_accept_is_read(settings: dict[str, Any]) -> None:
    EDITOR.validate(with_endpoint(**settings))
    stack_form().model_validate(with_endpoint(**settings))


@pytest.mark.parametrize("settings", REFUSED, ids=str)
def test_what_editors_refuse_is_refused(settings: dict[str, Any]) -> None:
    assert not EDITOR.is_valid(with_endpoint(**settings))
    with pytest.raises(ValidationError):
        stack_form().model_validate(with_endpoint(**settings))


@pytest.mark.parametrize(
    "content",
    [
        {"parameters": {"Pages": {"description": "who"}, "Most": {"type": "Number", "default": 4}}},
        {"schema": 1, "$schema": "endpoint.schema.json"},
        {"outputs": {"Name": "${Chat.endpoint_name}"}, "tags": {"team": "x"}, "region": "eu-west-1"},
        {"account": "111122223333", "description": "Chat", "policy": {"vpc_required": True}},
    ],
    ids=str,
)
def test_the_schema_and_the_library_accept_the_same_stacks(content: dict[str, Any]) -> None:
    EDITOR.validate({**with_endpoint(), **content})
    stack_form().model_validate({**with_endpoint(), **content})


@pytest.mark.parametrize(
    "content",
    [
        {"parameters": {"a-b": {}}},
        {"parameters": {"Most": "4"}},
        {"schema": 0},
        {"schema_version": 1},
        {"outputs": {"": "x"}},
        {"region": ""},
        {"account": 111122223333},
        {"stack": ""},
    ],
    ids=str,
)
def test_what_a_stack_cannot_say_is_refused_by_both(content: dict[str, Any]) -> None:
    assert not EDITOR.is_valid({**with_endpoint(), **content})
    with pytest.raises(ValidationError):
        stack_form().model_validate({**with_endpoint(), **content})


def test_every_technique_and_server_is_in_the_schema() -> None:
    definitions = PUBLISHED["$defs"]
    techniques = {technique.__name__ for by_name in REGISTRY.values() for technique in by_name.values()}
    servers = {each.__name__ for each in vars(constructs_optim.Server).values() if inspect.isclass(each)}
    assert techniques | servers <= definitions.keys()


def test_a_new_keyword_of_a_construct_is_a_new_key() -> None:
    def declare(scope: object, id: str, *, weight: float = 0.5, names: list[str] | None = None) -> None:
        """Declare something.

        Args:
            scope: where.
            id: its id.
            weight: how heavy it is.
            names: what it is called.
        """

    made = json_schema(call_of(declare, "Something"))
    assert made["description"] == "Declare something."
    assert made["properties"]["weight"]["description"] == "how heavy it is."
    assert made["properties"]["weight"]["default"] == 0.5
    assert made["properties"]["names"] == {
        "description": "what it is called.",
        "items": {"type": "string"},
        "type": "array",
    }


def test_every_key_is_described() -> None:
    undescribed = [
        f"{name}.{key}"
        for name, definition in PUBLISHED["$defs"].items()
        for key, value in definition.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert undescribed == []


def test_no_description_is_in_the_words_of_python() -> None:
    """The schema's readers write YAML, Terraform and TypeScript."""
    python = re.compile(r"\b(True|False|None)\b|`(?!cron|rate)\w+(\.\w+)*\(|\.\.\.\)|``|:\w+:`")
    found = [text for text in _descriptions(PUBLISHED) if python.search(text)]
    assert found == []


def _descriptions(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(text := part.get("description"), str):
            yield text
        part = [*part.values()]
    for each in part if isinstance(part, list) else ():
        yield from _descriptions(each)


class Numbers(TypedDict, total=False):
    """The numbers of a group.

    Attributes:
        first: the first one.
    """

    first: int
    second: int


def test_an_option_without_a_description_has_that_of_its_group() -> None:
    def declare(*, alone: int = 1, **numbers: Unpack[Numbers]) -> None:
        """Declare something."""

    descriptions = {name: field.description for name, field in call_of(declare).model_fields.items()}
    assert (descriptions["first"], descriptions["second"]) == ("the first one.", "The numbers of a group.")


class Ways(Choice):
    first: Call | None = None
    second: Call | None = None


class Bare(Choice):
    bare = ("first", "second")
    first: Call | None = None
    second: Call | None = None


class Needy(Call):
    name: str
    size: int
    color: str = "blue"


class Free(Call):
    color: str = "blue"
    size: int = 1


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (Ways, "{first: {...}} or {second: {...}}"),
        (Needy, "{name: ..., size: ...}"),
        (Free, "{color: ...}"),
        (Call, "{}"),
    ],
)
def test_a_model_is_written_with_what_it_needs(model: type[Call], example: str) -> None:
    assert example_of(model) == example


@pytest.mark.parametrize(
    ("arms", "value", "fix"),
    [
        ([bool, int], "x", "true or false, or a number"),
        ([bool, float], None, "true or false, or a number"),
        ([str, list[int]], 1, "text, or a list"),
        ([dict[str, int], list[int], str], True, "a list, or text, or a mapping"),
        ([Literal["on"], int], [], "text, or a number"),
        ([Literal["on", 1], bool], [], "text, or a number, or true or false"),
        ([Needy, int], "x", "a number, or settings such as {name: ..., size: ...}"),
        ([Ways, int], "x", "a number, or settings such as {first: {...}} or {second: {...}}"),
        (
            [Bare, int],
            [],
            "first or second, or a number, or settings such as {first: {...}} or {second: {...}}",
        ),
        ([int, PARAMETER.form], [], "a number, or a number, or a parameter: ${MaxCapacity}"),
    ],
)
def test_a_value_of_no_kind_of_a_union_is_answered_with_all_of_them(arms: list[Any], value: object, fix: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter[Any](union_of(arms)).validate_python(value)
    (problem,) = refused.value.errors()
    assert (problem["type"], problem["msg"]) == ("kind", fix)
    assert problem.get("ctx", {})["takes_parameter"] is (PARAMETER.form in arms)


@pytest.mark.parametrize(
    "value", [True, 1, 1.5, "x", [1], (1,), {"color": "red"}, Free(color="red")], ids=lambda value: type(value).__name__
)
def test_a_value_selects_the_arm_of_its_kind(value: object) -> None:
    adapter = TypeAdapter[Any](union_of([bool, int, float, str, list[int], Free]))
    read = adapter.validate_python(value)
    expected = [1] if value == (1,) else Free(color="red") if isinstance(value, dict) else value
    assert (read, type(read)) == (expected, type(expected))


def test_a_union_of_one_type_is_the_type() -> None:
    assert union_of([int]) is int
    assert union_of([]) is Any


def test_a_factory_makes_its_class() -> None:
    assert made_by(call_of(Model.huggingface)) is Model
    assert made_by(Choice) is None
