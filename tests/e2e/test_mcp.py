"""``constructs-optim mcp``: the server as a process, called by the SDK's client over standard input and output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters, Tool, stdio_client
from mcp.types import CallToolResult
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe.rules import all_rules

from ..support.documents import CHECKOUT
from ..support.handwritten_templates import chat, resource, stack, written

LLAMA = {"model": "meta-textgeneration-llama-3-70b-instruct", "model_version": "2.25.0", "accept_eula": True}
QWEN = {"model": "Qwen/Qwen3-32B", "input_tokens": 1000, "output_tokens": 300}
SECONDS = 120
FILE = "instance_pools.yaml"


class Agent(NamedTuple):
    """What an agent has of the server: its tools, and a way to call them."""

    folder: Path
    tools: dict[str, Tool]
    start: Callable[..., Future[CallToolResult]]

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return self.start(tool, **arguments).result(SECONDS)


def server_in(folder: Path) -> list[str]:
    return [str(Path(sys.executable).parent / "constructs-optim"), "mcp", "--directory", str(folder)]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A server in a folder with two assemblies and a file, and without a network or credentials."""
    folder = tmp_path_factory.mktemp("app")
    shutil.copy(CHECKOUT / "examples" / FILE, folder)
    written(folder / "before", stack(chat()))
    written(folder / "cdk.out", stack(chat(Topic=resource("AWS::SNS::Topic"))))
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(folder)}
    program, *options = server_in(folder)
    server = StdioServerParameters(command=program, args=options, env={"PATH": os.environ["PATH"], **nowhere})
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(server))) as client,
    ):
        tools = {tool.name: tool for tool in portal.call(client.list_tools).tools}

        def start(tool: str, **arguments: Any) -> Future[CallToolResult]:
            return portal.start_task_soon(partial(client.call_tool, tool, arguments))

        yield Agent(folder, tools, start)


def printed(agent: Agent, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """What a command prints as JSON in the folder of the server."""
    monkeypatch.chdir(agent.folder)
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code in (0, 2), result.output
    return json.loads(result.stdout)


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def test_the_tools_only_read_and_only_those_that_can_call_aws_say_so(agent: Agent) -> None:
    hints = {name: tool.annotations for name, tool in agent.tools.items()}
    assert hints.keys() == {"plan", "plan_file", "recommend", "explain", "rules", "catalog"}
    assert all(hint is not None and hint.read_only_hint for hint in hints.values())
    assert {name for name, hint in hints.items() if hint is not None and hint.open_world_hint} == {
        "recommend",
        "explain",
    }
    assert all(tool.description and tool.output_schema for tool in agent.tools.values())
    arguments = [each for tool in agent.tools.values() for each in tool.input_schema["properties"].values()]
    assert arguments
    assert all("description" in json.dumps(each) for each in arguments)


def test_the_documentation_lists_the_tools(agent: Agent) -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (CHECKOUT / "docs/agents.md").read_text(), flags=re.MULTILINE)
    assert listed == ["plan", "plan_file", "recommend", "explain", "rules", "catalog"]
    assert sorted(listed) == sorted(agent.tools)


def test_a_plan_is_what_the_command_prints(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    result = agent.call("plan", **LLAMA, instance_type="ml.g5.12xlarge", techniques=["quantization=awq"])
    assert not result.is_error
    assert result.structured_content == printed(
        agent, monkeypatch, "plan", "--model", str(LLAMA["model"]), "--model-version", "2.25.0", "--accept-eula",
        "--instance-type", "ml.g5.12xlarge", "--technique", "quantization=awq",
    )  # fmt: skip


def test_a_refusal_has_every_violation_with_what_works_as_the_command_prints_it(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = agent.call("plan", model="meta-textgeneration-lama-3-70b", instance_type="ml.none", techniques=["awq"])
    assert result.is_error
    refusal = result.structured_content or {}
    assert {"OPT002", "OPT010", "OPT020"} <= {violation["rule"] for violation in refusal["violations"]}
    assert all(each["message"] and each["suggestion"] and each["link"] for each in refusal["violations"])
    assert text_of(result) == json.dumps(refusal, separators=(",", ":"), ensure_ascii=False)
    assert refusal == printed(
        agent, monkeypatch, "plan", "--model", "meta-textgeneration-lama-3-70b", "--instance-type", "ml.none",
        "--technique", "awq",
    )  # fmt: skip


def test_a_recommendation_is_what_the_command_prints(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    types = ["ml.p5.48xlarge", "ml.g6e.12xlarge"]
    arguments = {**QWEN, "requests_per_second": 4, "time_to_first_token": "2s", "instance_types": types}
    result = agent.call("recommend", **arguments, left_out=True, limit=10).structured_content or {}
    of_command = printed(
        agent, monkeypatch, "recommend", "Qwen/Qwen3-32B", "--offline", "--input-tokens", "1000", "--output-tokens",
        "300", "--rate", "4", "--ttft", "2s", "--instance-type", types[0], "--instance-type", types[1],
    )  # fmt: skip
    count = len(of_command["left_out"])
    assert (len(result["left_out"]), result["notes"][-1]) == (
        10,
        f"10 of {count} excluded recipes: a higher limit returns more.",
    )
    notes = [note.replace("--prices FILE", "`prices`") for note in of_command["notes"]]
    shortened = {"left_out": of_command["left_out"][:10], "notes": [*notes, result["notes"][-1]]}
    assert result == of_command | shortened
    shorter = agent.call("recommend", **arguments, limit=1).structured_content or {}
    assert (len(shorter["candidates"]), shorter["left_out"]) == (1, [])


def test_a_recommendation_without_a_match_reports_it(agent: Agent) -> None:
    result = agent.call("recommend", **QWEN, inter_token_latency="6ms", instance_types=["ml.g5.48xlarge"])
    found = result.structured_content or {}
    assert found["candidates"][0]["meets"] is False
    assert found["notes"][-1].startswith("No recipe meets these objectives")


def test_the_plans_of_a_file_are_what_the_command_prints(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.call("plan_file", file=FILE).structured_content == printed(agent, monkeypatch, "plan", FILE)


def test_calls_at_the_same_time_return_what_they_return_one_after_another(agent: Agent) -> None:
    calls = [("plan_file", {"file": FILE}), ("explain", {"file": FILE})] * 4
    alone = [agent.call(tool, **arguments) for tool, arguments in calls[:2]]
    assert not any(each.is_error for each in alone)
    at_once = [agent.start(tool, **arguments) for tool, arguments in calls]
    assert [each.result(SECONDS) for each in at_once] == alone * 4


def test_the_server_ends_when_its_client_does(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "examples" / FILE, tmp_path)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    plan_file = {"name": "plan_file", "arguments": {"file": FILE}}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": plan_file} for number in range(1, 9)),
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    command = server_in(tmp_path)
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("path", ["/etc/hostname", "../secret.yaml", "../other", "link", "a\0.yaml"])
def test_nothing_outside_of_the_folder_is_read(agent: Agent, path: str) -> None:
    (agent.folder.parent / "secret.yaml").write_text("secret")
    written(agent.folder.parent / "other", stack(chat()))
    link = agent.folder / "link"
    if not link.exists():
        link.symlink_to("../other")
    for tool, argument in (("plan_file", "file"), ("explain", "file"), ("explain", "against")):
        result = agent.call(tool, **{argument: path})
        assert result.is_error
        assert f"is not in {agent.folder}, the server's --directory" in text_of(result)


def test_a_file_that_breaks_rules_is_refused_with_places(agent: Agent) -> None:
    (agent.folder / "endpoint.yaml").write_text("stack: Chat\nendpoints:\n  Chat: {instance_typ: ml.g5.12xlarge}\n")
    result = agent.call("plan_file", file="endpoint.yaml")
    assert result.is_error
    (found,) = result.structured_content["violations"]
    assert found["location"].endswith("endpoint.yaml:3:10 endpoints.Chat.instance_typ")
    assert "instance_type" in found["suggestion"]


def test_an_explanation_is_what_the_command_prints(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    result = agent.call("explain", against="before", prices={"ml.g5.12xlarge": 7.09})
    (agent.folder / "prices.json").write_text('{"ml.g5.12xlarge": 7.09}')
    report = printed(agent, monkeypatch, "explain", "--against", "before", "--prices", "prices.json")
    assert report["stacks"][0]["endpoints"][0]["monthly_cost"]
    assert json.dumps(result.structured_content).replace("of the call", "of prices.json") == json.dumps(report)


def test_rules_and_the_catalog_are_what_the_command_prints(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = agent.call("rules").structured_content or {}
    assert everything["result"] == printed(agent, monkeypatch, "catalog", "rules")
    assert len(everything["result"]) == len(all_rules())
    one = agent.call("rules", ids=["OPT023"]).structured_content or {}
    assert [rule["id"] for rule in one["result"]] == ["OPT023"]
    lower = agent.call("rules", ids=["opt023"]).structured_content
    assert lower == one
    named = agent.call("catalog", part="instances", names=["ml.g5.12xlarge"]).structured_content or {}
    assert [row["name"] for row in named["result"]] == ["ml.g5.12xlarge"]
    models = agent.call("catalog", part="models", family="Llama", supports=["fp8"]).structured_content or {}
    command = ("catalog", "models", "--family", "Llama", "--supports", "fp8")
    assert models["result"] == printed(agent, monkeypatch, *command)


@pytest.mark.parametrize("part", ["models", "instances", "images", "metrics", "rules"])
def test_a_part_of_the_catalog_is_what_the_command_prints(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    rows = (agent.call("catalog", part=part).structured_content or {})["result"]
    assert rows == printed(agent, monkeypatch, "catalog", part)


def test_a_price_of_a_misspelled_type_is_noted(agent: Agent) -> None:
    for tool, arguments in (("explain", {}), ("recommend", {**QWEN, "instance_types": ["ml.p5.48xlarge"]})):
        result = agent.call(tool, **arguments, prices={"ml.p5.48xlarg": 55.04}).structured_content or {}
        assert "prices has ml.p5.48xlarg: did you mean ml.p5.48xlarge?" in result["notes"]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("plan", {}, "the argument instance_type is missing"),
        (
            "plan",
            {"instance_typ": "a", "server": 3},
            "the argument instance_type is missing; server is 3: it takes text; there is no argument instance_typ: did "
            "you mean instance_type?",
        ),
        ("explain", {"fil": "cdk.out"}, "there is no argument fil: did you mean file"),
        ("explain", {"prices": "awss"}, "prices is 'awss': did you mean aws?"),
        ("explain", {"prices": {"ml.g5.12xlarge": -1}}, "more than 0"),
        ("plan_file", {"file": "cdk.out"}, "is not a YAML or JSON file"),
        ("plan_file", {"file": FILE, "region": "eu-nowhere"}, "`region` is eu-nowhere, and there is no such Region"),
        ("plan", {"instance_type": "ml.g5.12xlarge"}, "use one of `model` and `model_s3`"),
        ("recommend", {**QWEN, "store": "a-store"}, "set from_aws"),
        ("recommend", {**QWEN, "profile": "nope"}, "set from_aws"),
        ("recommend", {**QWEN, "store": "s3://a-store", "from_aws": True}, "is not a bucket name"),
        ("recommend", {**QWEN, "max_price_per_hour": 5}, "`max_price_per_hour` needs prices"),
        ("explain", {"file": "nowhere"}, "run `cdk synth` first"),
        ("explain", {"stacks": ["Another"]}, "Its stacks:"),
        ("explain", {"file": "empty"}, "empty is a cloud assembly without stacks"),
        ("explain", {"against": "deployed", "region": "us-west-2"}, "name a profile with `profile`."),
        ("explain", {"file": FILE, "against": "deployed"}, "Use `region`, or set AWS_REGION."),
        ("explain", {"store": "deployed", "profile": "nobody"}, "lists the profiles"),
        ("rules", {"ids": ["opt02", "OPT023", "x"]}, "no 'opt02': did you mean OPT002?; no 'x'"),
        ("catalog", {"part": "models", "family": "Lama"}, "did you mean llama or"),
        ("catalog", {"part": "rules", "family": "Llama"}, "`family` filters models and instances only"),
        ("catalog", {"part": "zones"}, "'models', 'instances', 'images', 'metrics' or 'rules'"),
    ],
)
def test_a_mistake_is_a_sentence_and_never_a_traceback(
    agent: Agent, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    (agent.folder / "empty").mkdir(exist_ok=True)
    (agent.folder / "empty" / "manifest.json").write_text("{}")
    result = agent.call(tool, **arguments)
    assert result.is_error
    assert sentence in text_of(result)
    assert "\n" not in text_of(result)
    assert "Error executing" not in text_of(result)
    assert not re.search(r"(?:^|\s)--", text_of(result)), "an option is no argument of a tool"
    assert "Traceback" not in text_of(result)
