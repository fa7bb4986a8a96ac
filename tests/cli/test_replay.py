"""``constructs-optim replay``, and ``explain --traffic``: what recorded traffic would have cost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from typer.testing import CliRunner, Result

from constructs_optim import Model, OptimizedEndpoint, Pool, Quantization, VariantOptions
from constructs_optim.cli import replay as replay_module
from constructs_optim.cli.installation import installing
from constructs_optim.cli.main import app
from constructs_optim.explanation.assembly import StackTemplate, read_assembly
from constructs_optim.explanation.endpoints import Endpoint
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedModel, RecordedPool
from constructs_optim.recipe.objectives import Objectives, choice_name
from constructs_optim.replay.declaration import declared
from constructs_optim.replay.traffic import read_traffic
from constructs_optim.templates.resource_types import ENDPOINT
from constructs_optim.templates.template import Template

from ..support.choices import CHOICE
from ..support.construct_stacks import ENVIRONMENT
from ..support.handwritten_templates import stack, written

PRICE = 10.0
OBJECTIVES = Objectives(**CHOICE.objectives)  # type: ignore[arg-type]


def replayed(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def synthesized(folder: Path, *, most: int | None) -> Path:
    """An app with an endpoint by objectives, scaled between one instance and ``most``."""
    made = App(outdir=str(folder))
    endpoint = OptimizedEndpoint(
        Stack(made, "Chat", env=ENVIRONMENT), "Qwen", model=Model.huggingface(CHOICE.model), objectives=OBJECTIVES
    )
    if most is not None:
        endpoint.auto_scale(min_capacity=1, max_capacity=most).on_concurrency()
    made.synth()
    return folder


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The lock file's folder with two apps: of two instances always, and of one or two."""
    folder = tmp_path_factory.mktemp("replay")
    limit = {"server": "vllm", "max_concurrent_requests": 117}
    pool = RecordedPool(instance_type="ml.g6e.12xlarge", techniques=("quantization=fp8_dynamic",), **limit)
    choice = CHOICE.model_copy(update={"pools": (pool,), "copies": 2, "instances": 2, "concurrency": 20.0})
    revision = RecordedModel(revision="a" * 40, gated=False, license="apache-2.0")
    lock = Lock(models={CHOICE.model: revision}, choices={choice_name(CHOICE.model, OBJECTIVES): choice})
    lock.write(folder / LOCK_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("CDK_OUTDIR", raising=False)
        return synthesized(folder / "deployed", most=None), synthesized(folder / "proposed", most=2)


@pytest.fixture(autouse=True)
def folder(apps: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one has the lock file, prices and an hour of traffic."""
    monkeypatch.chdir(apps[0].parent)
    (tmp_path / "prices.json").write_text(json.dumps({"ml.g6e.12xlarge": PRICE}))
    rows = "".join(f"{second},800,200\n" for second in range(0, 3601, 4))
    (tmp_path / "hour.csv").write_text("seconds,input_tokens,output_tokens\n" + rows)
    return tmp_path


def test_two_declarations_are_compared_in_dollars_latencies_and_capacity(apps: tuple[Path, Path], folder: Path) -> None:
    deployed, proposed = apps
    given = ("--traffic", folder / "hour.csv", "--prices", folder / "prices.json")
    result = replayed(*given, deployed, proposed, "--ttft", "1ms")
    assert result.exit_code == 0, result.output
    first, *lines = result.stdout.splitlines()
    assert first.startswith("901 requests in 60 minutes: 0.25 per second, 0.25 in the busiest hour, 800 input and 200")
    # The second instance leaves after the fifteen minutes that its alarm looks at.
    (dollars,) = [line for line in lines if line.startswith("US dollars")]
    assert [dollar[:4] for dollar in re.findall(r"(?<= )\d+\.\d+", dollars)] == ["20.0", "12.5"]
    assert any(line.startswith("TTFT missed") and line.split()[-1] == "100.0%" for line in lines)
    assert f"{proposed} compared with {deployed}: Chat/Qwen: $12.5 instead of $20, 1.25 instance-hours" in result.stdout
    given = (*given, deployed, "--json")
    document = json.loads(replayed(*given).stdout)
    assert (document["requests"], document["seconds"]) == (901, 3600)
    (endpoint,) = document["endpoints"]
    assert endpoint["instance_hours"] == pytest.approx([2, 2, 2], abs=0.02)
    assert endpoint["dollars"] == pytest.approx([20, 20, 20], abs=0.2)


def test_a_chart_is_drawn(apps: tuple[Path, Path], folder: Path) -> None:
    given = ("--traffic", folder / "hour.csv", apps[1], "--offline", "--chart", folder / "hour.svg")
    result = replayed(*given)
    assert result.exit_code == 0, result.output
    assert "<svg" in (folder / "hour.svg").read_text()
    assert "No prices: AWS was not called" in result.stdout


def test_explain_has_a_line_of_what_the_traffic_would_have_cost(apps: tuple[Path, Path], folder: Path) -> None:
    deployed, proposed = apps
    given = ("--against", deployed, "--traffic", folder / "hour.csv", "--prices", folder / "prices.json")
    result = CliRunner().invoke(app, ["explain", str(proposed), *map(str, given)])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert f"With the traffic of {folder / 'hour.csv'}, Chat/Qwen: $12.5 instead of $20" in said
    alone = CliRunner().invoke(app, ["explain", str(proposed), "--traffic", str(folder / "hour.csv")])
    assert (alone.exit_code, "needs --against" in alone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("input_tokens,output_tokens\n5,5\n", "instead of the columns seconds,"),
        ("", "has no request with a time"),
        ("seconds,input_tokens,output_tokens\nsoon,5,5\n", "not a time"),
    ],
)
def test_traffic_that_cannot_be_replayed_is_refused(
    apps: tuple[Path, Path], folder: Path, content: str, said: str
) -> None:
    (folder / "traffic.csv").write_text(content)
    for command in (
        ["replay", apps[0], "--offline"],
        ["explain", apps[1], "--against", apps[0]],
    ):
        result = CliRunner().invoke(app, [*map(str, command), "--traffic", str(folder / "traffic.csv")])
        assert result.exit_code == 2
        assert said in " ".join(result.output.split())
        assert "Traceback" not in result.output


def foreign(folder: Path, *more: StackTemplate) -> Path:
    """An app with an endpoint that another tool has declared."""
    variant = {"VariantName": "AllTraffic", "ModelName": "mine", "InstanceType": "ml.g5.12xlarge"}
    other = {
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}},
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]}},
        },
    }
    return written(folder / "foreign", stack(other), *more)


def test_endpoint_files_are_compared_like_assemblies(folder: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "quickstart.yaml").read_text()
    files = [folder / "endpoint.yaml", folder / "larger.yaml"]
    files[0].write_text(text)
    files[1].write_text(text.replace("ml.g5.12xlarge", "ml.g5.48xlarge"))
    result = replayed(*files, "--traffic", folder / "hour.csv", "--offline", "--json")
    assert result.exit_code == 0, result.output
    found = {each["source"]: each["instance_types"] for each in json.loads(result.stdout)["endpoints"]}
    assert found == {str(files[0]): ["ml.g5.12xlarge"], str(files[1]): ["ml.g5.48xlarge"]}


def test_a_mistake_in_an_endpoint_file_is_refused_by_its_rule(folder: Path) -> None:
    (folder / "endpoint.yaml").write_text("stack: Chat\nendpoint: {}\n")
    result = replayed(folder / "endpoint.yaml", "--traffic", folder / "hour.csv", "--offline")
    assert (result.exit_code, "what works:" in result.stderr) == (2, True), result.output


def test_a_chart_that_cannot_be_written_ends_the_command_after_its_report(
    apps: tuple[Path, Path], folder: Path
) -> None:
    (folder / "taken.svg").mkdir()
    result = replayed("--traffic", folder / "hour.csv", apps[1], "--offline", "--chart", folder / "taken.svg")
    assert (result.exit_code, "Instance-hours" in result.stdout) == (2, True), result.output
    assert "taken.svg: Is a directory. Name another path with --chart." in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ttft", "soon"), "a duration as text needs a unit"),
        (("--ttft", "5"), "OPT230 --ttft = '5'"),
        (("--input-tokens", "0"), "--input-tokens"),
        (("--start-seconds", "-5"), "--start-seconds"),
        (("--chart", "week.bmp"), "use a .svg or .png file in an existing directory"),
        (("--chart", "/nowhere/week.svg"), "use a .svg or .png file in an existing directory"),
        (("--endpoint", "Chat/Other"), "--endpoint Chat/Other chooses none of its endpoints: Chat/Qwen."),
        (("--stack", "Other"), "--stack Other chooses none of its stacks: Chat."),
    ],
)
def test_wrong_options_are_refused(
    apps: tuple[Path, Path], folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = replayed("--traffic", folder / "hour.csv", apps[0], "--offline", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", "").split())
    assert "Traceback" not in result.output


def test_an_app_is_not_compared_with_itself(apps: tuple[Path, Path], folder: Path) -> None:
    result = replayed("--traffic", folder / "hour.csv", apps[0], apps[0], "--offline")
    assert (result.exit_code, "an assembly is named twice" in result.stderr) == (2, True)


def test_an_endpoint_that_cannot_be_simulated_is_noted_beside_others(apps: tuple[Path, Path], folder: Path) -> None:
    (deployed,) = read_assembly(apps[0])
    both = foreign(folder, replace(deployed, path="Mine", stack_name="Mine"))
    result = replayed("--traffic", folder / "hour.csv", both, "--offline")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Chat/Endpoint: its model has no metadata from this library, so its recipe is unknown." in said
    assert "Mine/Qwen" in said


def test_what_has_no_endpoint_is_refused(folder: Path) -> None:
    empty = written(folder / "empty", stack({}))
    result = replayed("--traffic", folder / "hour.csv", empty, "--offline")
    assert (result.exit_code, "No endpoint to simulate in" in result.output) == (2, True)


def test_an_endpoint_that_is_not_of_this_library_is_refused(folder: Path) -> None:
    result = replayed("--traffic", folder / "hour.csv", foreign(folder), "--offline")
    assert result.exit_code == 2
    assert "its model has no metadata from this library, so its recipe is unknown" in " ".join(result.output.split())


def test_a_chart_needs_its_extra(apps: tuple[Path, Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "HAS_PLOTS", False)
    given: tuple[Any, ...] = ("--traffic", folder / "hour.csv", apps[0], "--chart", folder / "c.svg")
    result = replayed(*given)
    assert (result.exit_code, installing("plots") in result.output) == (2, True)


def test_the_batches_of_the_declared_container_are_simulated(apps: tuple[Path, Path], folder: Path) -> None:
    (of_app,) = read_assembly(apps[0])
    template = Template(of_app.template)
    (resource,) = template.of_type(ENDPOINT)
    known, traffic = Lock.read(Path(LOCK_FILE)), read_traffic(folder / "hour.csv")
    simulated = declared("Chat", Endpoint(template, resource), traffic, prices={}, known=known)
    assert simulated.pools[0].forecasts.most_requests == 117


@pytest.fixture(scope="module")
def pooled_app(apps: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app whose endpoint has two pools."""
    made = App(outdir=str(tmp_path_factory.mktemp("pools") / "cdk.out"))
    techniques = [Quantization.fp8_dynamic()]
    pools = [Pool("ml.p5.4xlarge", techniques=techniques), Pool("ml.g6e.12xlarge", techniques=techniques)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(apps[0].parent)
        stack = Stack(made, "Chat", env=ENVIRONMENT)
        model = Model.huggingface(CHOICE.model, revision="a" * 40)
        OptimizedEndpoint(
            stack, "Qwen", model=model, instance_pools=pools, variant=VariantOptions(initial_instance_count=2)
        )
        return Path(made.synth().directory)


def test_instances_that_are_short_are_of_the_next_pool(pooled_app: Path, folder: Path) -> None:
    given = ("--traffic", folder / "hour.csv", pooled_app, "--offline", "--json")
    first = replayed(*given)
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert found["endpoints"][0]["instance_types"] == ["ml.p5.4xlarge"]
    assert any(
        "uses ml.g6e.12xlarge if too few ml.p5.4xlarge are available: see --available" in note
        for note in found["notes"]
    )
    short = replayed(*given, "--available", "ml.p5.4xlarge=1")
    (endpoint,) = json.loads(short.stdout)["endpoints"]
    assert endpoint["instance_types"] == ["ml.p5.4xlarge", "ml.g6e.12xlarge"]
    assert endpoint["inter_token_latency"][0] > found["endpoints"][0]["inter_token_latency"][0]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["ml.p5.4xlarge"], "use TYPE=COUNT"),
        (["ml.p5.4xlarge=few"], "use TYPE=COUNT"),
        (["ml.p4d.24xlarge=1"], "no simulated endpoint uses it"),
        (["ml.g6e.12xlarge=1"], "The types of the pools before it also need a count"),
        (["ml.p5.4xlarge=1", "ml.g6e.12xlarge=0"], "starts with 2 copies, but the available instances have room for 1"),
    ],
)
def test_what_is_available_is_checked(pooled_app: Path, folder: Path, given: list[str], complaint: str) -> None:
    options = [part for each in given for part in ("--available", each)]
    result = replayed("--traffic", folder / "hour.csv", pooled_app, "--offline", *options)
    assert result.exit_code != 0
    assert complaint in " ".join(result.output.replace("│", " ").split())
