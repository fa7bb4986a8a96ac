"""Every tool for agents with every kind of mistake: the answer is a sentence that names the argument and what works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import run
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult

from constructs_optim.cli.agent_tools import declared_tools

from ..support.documents import CHECKOUT

TOOLS = {tool.name: tool for tool in declared_tools()}
QWEN = {"model": "Qwen/Qwen3-32B"}
ON_G6E = {**QWEN, "instance_type": "ml.g6e.12xlarge"}
TOKENS = {**QWEN, "input_tokens": 1000, "output_tokens": 300}
FILE = {"file": "endpoint.yaml"}
# A value of the wrong type by the type of an argument, and what the answer says of the right one.
WRONG: dict[str, tuple[Any, str]] = {
    "string": (3, "text"),
    "integer": ("many", "a whole number"),
    "number": ("much", "a number"),
    "boolean": ("maybe", "true or false"),
    "array": ("one", "a list"),
    "object": (3, "a dictionary"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's folder, with a file and without credentials."""
    shutil.copy(CHECKOUT / "examples/quickstart.yaml", tmp_path / "endpoint.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def refusal(tool: str, arguments: dict[str, Any]) -> str:
    """What a call is refused with: the sentence, or the fixes of its violations."""

    async def called() -> Any:
        return await TOOLS[tool].run(arguments, Context(), convert_result=True)

    try:
        result = run(called)
    except ToolError as error:
        return str(error)
    assert isinstance(result, CallToolResult)
    assert result.is_error, f"{tool} accepts {arguments}"
    found = (result.structured_content or {})["violations"]
    return "; ".join(f"{each['location']}: {each['message']}: {each['suggestion']}" for each in found)


def arguments_of(tool: str) -> dict[str, dict[str, Any]]:
    return TOOLS[tool].parameters["properties"]


def types_of(schema: dict[str, Any]) -> Iterator[str]:
    for arm in schema.get("anyOf", [schema]):
        if "enum" not in arm and "const" not in arm and arm["type"] != "null":
            yield arm["type"]


EACH = [pytest.param(tool, name, id=f"{tool}-{name}") for tool in TOOLS for name in arguments_of(tool)]


@pytest.mark.parametrize(("tool", "name"), EACH)
def test_a_misspelled_argument_is_answered_with_the_right_one(tool: str, name: str) -> None:
    misspelled = f"{name[:-2]}{name[-1]}" if len(name) > 3 else f"{name}x"
    answer = refusal(tool, {misspelled: "x"})
    (question,) = re.findall(rf"there is no argument {misspelled}: did you mean ([\w ]+)\?", answer)
    assert name in question.split(" or ")
    assert "Error executing" not in answer


@pytest.mark.parametrize(("tool", "name"), EACH)
def test_a_value_of_the_wrong_type_is_answered_with_the_right_type(tool: str, name: str) -> None:
    for of in types_of(arguments_of(tool)[name]):
        value, wanted = WRONG[of]
        answer = refusal(tool, {name: value})
        (told,) = [each for each in answer.split("; ") if each.startswith(f"{name} is ")]
        assert told.startswith(f"{name} is {value!r}: it takes {wanted}")
        assert "Error executing" not in answer


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("plan", {**ON_G6E, "techniques": ["quantisation=awq"]}, "did you mean quantization=awq?"),
        ("plan", {**ON_G6E, "techniques": ["awq"]}, "did you mean quantization=awq?"),
        ("plan", {**ON_G6E, "techniques": ["quantization=awq,groupsize=64"]}, "did you mean group_size?"),
        ("plan", {**ON_G6E, "server": "vlm"}, "did you mean vllm"),
        ("plan", {**ON_G6E, "server": "vllm,contextlength=3"}, "did you mean context_length?"),
        ("plan", {**ON_G6E, "region": "us-wst-2"}, "did you mean us-west-2"),
        ("plan", {**ON_G6E, "instance_type": "g6e.12xlarge"}, "did you mean ml.g6e.12xlarge"),
        ("plan", {**ON_G6E, "model": "meta-textgeneration-lama-3-70b"}, "did you mean meta-textgeneration-llama-3-70b"),
        ("plan_file", {**FILE, "region": "us-wst-2"}, "did you mean us-west-2"),
        ("recommend", {**TOKENS, "instance_types": ["ml.g6e.12xlage"]}, "did you mean ml.g6e.12xlarge"),
        ("recommend", {**TOKENS, "quality": "lossles"}, "quality is 'lossles': did you mean lossless"),
        ("recommend", {**TOKENS, "region": "us-wst-2"}, "did you mean us-west-2"),
        ("recommend", {**TOKENS, "time_to_first_token": "fast"}, '"40ms" or "1.5s"'),
        ("explain", {**FILE, "stacks": ["Quickstrat"]}, "Its stacks: Quickstart"),
        ("explain", {**FILE, "against": "deploye"}, "there is no 'deploye': did you mean deployed?"),
        ("explain", {**FILE, "prices": "awss"}, "prices is 'awss': did you mean aws?"),
        ("rules", {"ids": ["OPT02"]}, "no 'OPT02': did you mean OPT"),
        ("rules", {"ids": ["OPT23"]}, "no 'OPT23': did you mean OPT023?"),
        ("rules", {"ids": ["opt0007"]}, "no 'opt0007': did you mean OPT007?"),
        ("rules", {"ids": ["llama"]}, "no 'llama': a call without ids lists all"),
        ("catalog", {"part": "model"}, "part is 'model': did you mean models?"),
        (
            "catalog",
            {"part": "models", "names": ["llama"]},
            "no 'llama': did you mean meta-llama/Llama-3",
        ),
        ("catalog", {"part": "models", "names": ["lama-3-70b"]}, " or meta-textgeneration-llama-3-70b-instruct"),
        ("catalog", {"part": "models", "names": ["Qwen3"]}, "did you mean Qwen/Qwen3"),
        ("catalog", {"part": "models", "family": "lama"}, "did you mean llama"),
        ("catalog", {"part": "models", "supports": ["eagel"]}, "no model supports eagel: did you mean eagle?"),
        ("catalog", {"part": "instances", "names": ["g5.12xlarge"]}, "did you mean ml.g5.12xlarge"),
        ("catalog", {"part": "instances", "names": ["p6"]}, "did you mean ml.p6-b200.48xlarge"),
        ("catalog", {"part": "images", "names": ["0.30.0"]}, "did you mean 0.30.0-"),
        ("catalog", {"part": "metrics", "names": ["modellatency"]}, "did you mean model_latency"),
    ],
)
def test_a_misspelled_value_is_answered_with_near_ones(tool: str, arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(tool, arguments)


@pytest.mark.parametrize("tool", ["plan_file", "explain"])
def test_a_file_has_the_same_argument_in_all_tools_and_an_absent_one_is_answered(tool: str) -> None:
    assert "did you mean endpoint.yaml?" in refusal(tool, {"file": "endpoint.yml"})
    assert "No such file or directory" in refusal(tool, {"file": "nowhere.yaml"})
    assert "'nowhere'" in (answer := refusal("plan_file", {"file": "nowhere"}))
    assert "such as endpoint.yaml" in answer
    assert "nowhere does not exist" in refusal("explain", {"file": "nowhere"})


@pytest.mark.parametrize("arguments", [{"region": "us-west-2"}, {"profile": "prod"}])
def test_an_argument_that_only_calls_to_aws_need_is_refused_without_them(arguments: dict[str, str]) -> None:
    (name,) = arguments
    assert refusal("explain", {**FILE, **arguments}).startswith(f"{name}: set against or store to deployed, or prices")
