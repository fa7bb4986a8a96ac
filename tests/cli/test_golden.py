"""What commands print in a terminal of 80 columns, kept in ``golden/``.

``pytest tests/cli/test_golden.py --snapshot-update`` writes the files again: look at each that changes. What comes from
AWS is made here, so that times, names and figures are the same each time; other tests run the commands on the local
cloud.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from typer.testing import CliRunner

from constructs_optim.cli import evaluate, preflight, replay
from constructs_optim.cli.main import app
from constructs_optim.cli.operations import artifacts, dashboard, endpoint, jobs
from constructs_optim.evaluator.comparison import ComparedLoad, CompletionComparison
from constructs_optim.evaluator.report import WrittenComparison
from constructs_optim.operations.artifacts import Artifact, State, StoredFile
from constructs_optim.operations.capacity import Component, Endpoint, ScalingRange, Schedule, Variant
from constructs_optim.operations.diagnosis import Diagnosis, EndpointAlarm, ScalingActivity, ScalingState, problems
from constructs_optim.operations.drift import ResourceDrift, StackDrift
from constructs_optim.operations.jobs import Job
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedModel
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.replay.comparison import Replayed
from constructs_optim.replay.traffic import read_traffic
from constructs_optim.runtime.evaluation.differences import Difference
from constructs_optim.runtime.preflight.report import Report, advice, problem
from constructs_optim.templates.resource_types import DASHBOARD, PREFLIGHT

from ..support.handwritten_templates import chat, resource, role, scaled, stack, written
from ..support.operator_stores import artifact_key, owner
from .test_main import COMMANDS

WIDTH = 80
HELP = [path for path, found in COMMANDS.items() if not found.hidden]
PRICES = {"ml.g5.12xlarge": 7.09, "ml.p5.4xlarge": 6.88, "ml.g6e.12xlarge": 13.12}
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
THEME = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (180, 35, 24),
        (17, 99, 41),
        (125, 78, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (87, 96, 106),
    ],
)


GOLDEN = Path(__file__).parent / "golden"
IMAGES = Path(__file__).parents[2] / "docs" / "images" / "commands"


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether files are written again: syrupy's option, as for all snapshots."""
    return request.config.getoption("update_snapshots")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of 80 columns, in an empty directory, and with an account that nobody asks."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.chdir(tmp_path)


def shown(command: str, *, colored: bool = False) -> str:
    """What a terminal shows of a command, whose exit status is the last line unless it is 0."""
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"} if colored else {}
    result = CliRunner().invoke(app, shlex.split(command), color=colored, env=environment, prog_name="constructs-optim")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    status = f"[exit status {result.exit_code}]\n" if result.exit_code else ""
    return f"$ constructs-optim {command}\n{result.stdout}{'' if colored else result.stderr}{status}"


def is_kept(text: str, path: Path, update: bool) -> bool:
    """Whether a file has this text, which it is given if it is to be updated."""
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.exists() and path.read_text(encoding="utf-8") == text


def kept(text: str, name: str, update: bool) -> None:
    """Compare with a golden file; only a name that is longer than a line may exceed the terminal."""
    _, *lines = text.splitlines()
    for line in lines:
        assert len(line) <= WIDTH or " " not in line.strip(), line
    path = GOLDEN / f"{name}.txt"
    assert is_kept(text, path, update), f"{path} differs from:\n{text}"


# What commands read of AWS


def made_job(seed: str, status: str, minutes: float, **changed: Any) -> Job:
    created = NOW - dt.timedelta(minutes=minutes, seconds=30)
    ended = created + dt.timedelta(minutes=47) if status in ("COMPLETED", "FAILED") else None
    name = f"optim-{artifact_key(seed)[:32]}-0a1b2c3d-1"
    kind = "optimization job"
    return Job(name, kind, status, "ml.g5.12xlarge", created, created, ended, 36_000, **changed)


JOBS = [
    made_job("a", "INPROGRESS", 12, artifact_key=artifact_key("a"), owners=(), orphaned=True),
    made_job("b", "COMPLETED", 125, artifact_key=artifact_key("b"), owners=(owner(),), orphaned=False),
    made_job("c", "FAILED", 1500, artifact_key=artifact_key("c"), owners=(owner("Search"),), orphaned=False),
]


def made_artifact(seed: str, state: State, detail: str, *owners: Any) -> Artifact:
    at = dt.datetime(2026, 11, 21, 11, 46, tzinfo=dt.UTC)
    key = artifact_key(seed)
    described = {"Model": "meta-textgeneration-llama-2-70b 4.0.0", "Techniques": ["AWQ INT4 (group size 128)"]}
    manifest = {
        "description": described,
        "ended_at": at.isoformat(),
        "model_data_uri": f"s3://ml-artifacts/artifacts/{key}/model/1/",
        "image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.33.0-lmi15.0.0-cu128",
        "job_name": made_job(seed, "COMPLETED", 125).name,
        "source": {"identity": "hub:SageMakerPublicHub/meta-textgeneration-llama-2-70b@4.0.0"},
    }
    files = (
        StoredFile(1, "config.json", 570, "9b2cf535f27731c974343645a3985328", at),
        StoredFile(1, "model-00001-of-00002.safetensors", 36_700_000_000, "5d41402abc4b2a76b9719d911017c592", at),
    )
    is_ready = state is State.ready
    return Artifact(key, state, detail, is_ready, None, manifest, files if is_ready else (), owners, None, (), at)


ARTIFACTS = [
    made_artifact("b", State.ready, "complete", owner(), owner("Search")),
    made_artifact("c", State.failed, "the optimization job ended as FAILED: CUDA out of memory", owner()),
    made_artifact("d", State.damaged, "model-00001-of-00002.safetensors is missing", owner()),
]


class _Inventory:
    bucket, account = "ml-artifacts", "000000000000"
    owner_records = SimpleNamespace(is_partial=False)
    warnings = ("the claim of 5d28a90f4498 cannot be read",)

    def all(self) -> Iterator[Artifact]:
        yield from ARTIFACTS

    def keys(self, prefix: str) -> list[str]:
        return [each.key for each in ARTIFACTS if each.key.startswith(prefix)]

    def get(self, key: str) -> Artifact:
        return next(each for each in ARTIFACTS if each.key == key)

    def with_owners(self, job: Job) -> Job:
        return job


class _Account:
    """An account whose answers are made above."""

    id, region = "000000000000", "us-west-2"

    def __init__(self, profile: str | None, region: str | None) -> None: ...

    def client(self, service: str, region: str | None = None) -> None: ...

    def sagemaker(self, bucket: str | None = None) -> None: ...

    def inventory(self, bucket: str) -> _Inventory:
        return _Inventory()


SCHEDULE = Schedule(
    name="Start",
    expression="cron(0 7 ? * MON-FRI *)",
    time_zone="Europe/Berlin",
    min_capacity=1,
    max_capacity=4,
)
CAPACITY = Endpoint(
    name="chat",
    arn="arn:aws:sagemaker:us-west-2:000000000000:endpoint/chat",
    status="InService",
    config_name="optim-chat-config-1",
    last_modified=NOW - dt.timedelta(hours=3),
    variants=(
        Variant(
            name="AllTraffic",
            desired_instances=2,
            current_instances=1,
            managed_instances={"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 4},
        ),  # type: ignore[call-arg]
    ),
    components=(
        Component(
            name="chat-llama",
            variant="AllTraffic",
            status="InService",
            desired_copies=2,
            current_copies=0,
            last_modified=NOW - dt.timedelta(minutes=20),
            scaling=ScalingRange(min_capacity=1, max_capacity=4, suspended=False, schedules=(SCHEDULE,)),
        ),
        Component(name="chat-qwen", variant="AllTraffic", status="Failed", failure_reason="CUDA out of memory"),
    ),
)
_DIAGNOSED = Diagnosis(
    endpoint=CAPACITY,
    stack="Chat",
    stack_status="UPDATE_COMPLETE",
    models=("optim-chat-model-1",),
    scaling={
        "inference-component/chat-llama": ScalingState(
            policies=("OnConcurrency",),
            last_activity=ScalingActivity(
                status="Successful", description="Setting desired copy count to 2.", started=NOW - dt.timedelta(hours=1)
            ),
        )
    },
    alarms=(
        EndpointAlarm(name="chat-ErrorRate", state="OK"),
        EndpointAlarm(
            name="chat-ZeroCapacity", state="ALARM", description="Requests fail. First: describe the component."
        ),
    ),
    log_groups=("/aws/sagemaker/InferenceComponents/chat-llama",),
    dashboards=("https://us-west-2.console.aws.amazon.com/cloudwatch/home?region=us-west-2#dashboards/dashboard/chat",),
    drift=StackDrift(
        resources=(
            ResourceDrift(
                name="Chat/Scaling/Target",
                logical_id="Target",
                type="AWS::ApplicationAutoScaling::ScalableTarget",
                is_missing=True,
                text="is not registered, so nothing scales inference-component/chat-qwen",
                remedy="`cdk deploy --revert-drift` creates it again",
            ),
        )
    ),
    not_seen=("GetRolePolicy is denied",),
)
DIAGNOSIS = _DIAGNOSED.model_copy(update={"problems": tuple(problems(_DIAGNOSED, NOW))})
FOUND = Report(
    (
        problem("quota", "ml.g5.12xlarge for endpoint usage is 0", "request an increase in Service Quotas"),
        advice("image", "AWS denies ecr:BatchGetImage", "have the permission added"),
    ),
    asked=7,
)


@contextmanager
def answers(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands' requests to AWS are answered with what is made above."""
    for module in (jobs, artifacts, endpoint, preflight):
        patch.setattr(module, "Account", _Account)
    patch.setattr(jobs, "dt", SimpleNamespace(datetime=SimpleNamespace(now=lambda zone: NOW), UTC=dt.UTC))
    patch.setattr(jobs, "list_jobs", lambda sagemaker, statuses: JOBS)
    patch.setattr(endpoint, "EndpointCapacity", lambda *given, on_wait: SimpleNamespace(describe=lambda name: CAPACITY))
    diagnosed = SimpleNamespace(diagnose=lambda name: DIAGNOSIS)
    patch.setattr(endpoint, "EndpointDiagnosis", lambda create_client, now: diagnosed)
    patch.setattr(endpoint, "dt", SimpleNamespace(datetime=SimpleNamespace(now=lambda zone: NOW), UTC=dt.UTC))
    patch.setattr(preflight.StackPreflight, "report", lambda *given: FOUND)
    patch.setattr(dashboard, "picture", lambda preview, metrics: b"")
    yield


# What commands read of the directory


def folders() -> None:
    """Synthesized apps, prices, and a file that declares an endpoint."""
    written(Path("main.out"), stack(chat(Target=scaled(1, 2))))
    wide = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    widgets = {"widgets": [{"type": "text", "properties": {"markdown": "Chat"}}]}
    more = {
        "Preflight": resource(PREFLIGHT),
        "Dashboard": resource(DASHBOARD, DashboardBody=json.dumps(widgets), DashboardName="chat"),
    }
    written(
        Path("cdk.out"), stack({**chat(generation="2", key="b" * 64, Target=scaled(1, 4), Role=role(wide)), **more})
    )
    refused = chat(Target=scaled(1, 2))
    refused["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.12xlarge"
    written(Path("refused.out"), stack(refused))
    Path("prices.json").write_text(json.dumps(PRICES))
    Path("endpoint.yaml").write_text((Path(__file__).parents[2] / "examples" / "quickstart.yaml").read_text())


def lock_file() -> None:
    """A lock file that records an older container, and a model."""
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126"
    model = RecordedModel(revision="a" * 40, parameters_billion=32.8)
    Lock(jobs={"awq@us-west-2": image}, models={"Qwen/Qwen3-32B": model}).write(Path(LOCK_FILE))


RECOMMEND = (
    "recommend Qwen/Qwen3-32B --ttft 1s --itl 40ms --rate 12 --input-tokens 1000 --output-tokens 300 "
    "--prices prices.json --offline --limit 3 --instance-type ml.p5.4xlarge --instance-type ml.g6e.12xlarge"
)
LLAMA = "--model meta-textgeneration-llama-3-70b-instruct --model-version 2.25.0"
COMMANDS_SHOWN = {
    "artifacts-list": "artifacts list --store ml-artifacts",
    "artifacts-show": f"artifacts show {artifact_key('b')[:8]} --store ml-artifacts",
    "artifacts-show-unknown": "artifacts show 0000 --store ml-artifacts",
    "catalog-instances": "catalog instances --family g5",
    "catalog-models": "catalog models --family falcon",
    "catalog-unknown": "catalog models --supports fp9",
    "dashboard-preview": "dashboard preview",
    "endpoint-show": "endpoint show chat",
    "explain": "explain --against main.out --prices prices.json",
    "explain-first": "explain cdk.out",
    "explain-refused": "explain refused.out --against main.out",
    "jobs-list": "jobs list",
    "jobs-list-store": "jobs list --store ml-artifacts",
    "lock": "lock",
    "plan": f"plan {LLAMA} --accept-eula --instance-type ml.g5.12xlarge --technique quantization=awq",
    "plan-file": "plan endpoint.yaml",
    "plan-refused": f"plan {LLAMA} --instance-type ml.g5.12xlarge --technique quantization=awq,group_size=48",
    "plan-usage": "plan --instance-type ml.g5.12xlarge",
    "preflight": "preflight",
    "recommend": RECOMMEND,
    "synth": "synth endpoint.yaml --output chat.out",
}
# The rest of them changes with each release of a container, a metric or a rule.
BEGINNINGS = {
    "catalog-images": "catalog images",
    "catalog-metrics": "catalog metrics",
    "catalog-rules": "catalog rules",
}
PICTURES = ("explain", "jobs-list", "plan", "recommend")


@pytest.mark.parametrize("path", HELP, ids=" ".join)
def test_the_help_of_a_command_is_as_kept(path: tuple[str, ...], update: bool) -> None:
    kept(shown(shlex.join([*path, "--help"])), "-".join(("help", *path)), update)


@pytest.mark.parametrize("name", COMMANDS_SHOWN)
def test_the_output_of_a_command_is_as_kept(name: str, update: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    folders()
    if name == "lock":
        lock_file()
    if name == "synth":
        # The first time, constructs say in one long line what they record in the lock file.
        shown(COMMANDS_SHOWN[name])
    with answers(monkeypatch):
        kept(shown(COMMANDS_SHOWN[name]), name, update)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_first_lines_of_a_catalog_are_as_kept(name: str, update: bool) -> None:
    kept("\n".join(shown(BEGINNINGS[name]).splitlines()[:20]) + "\n", name, update)


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_of_a_command_is_as_kept(name: str, update: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    folders()
    with answers(monkeypatch):
        text = shown(COMMANDS_SHOWN[name], colored=True)
    assert "\x1b[" in text
    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w"))  # noqa: SIM115 # until the process ends
    console.print(Text.from_ansi(text.rstrip()), soft_wrap=False)
    picture = console.export_svg(title=f"constructs-optim {name.partition('-')[0]}", theme=THEME, unique_id=name)
    # No font from elsewhere: the page's own is monospaced as well.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    # No font from elsewhere: the page's own is monospaced as well.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    path = IMAGES / f"{name}.svg"
    assert is_kept(picture, path, update), f"{path} is another picture"


def level(concurrency: int, **metrics: float) -> dict[str, Any]:
    counts = {"client_invocations": 64.0, "client_invocation_errors": 0.0}
    return {"concurrency": concurrency, "seconds": 30.0, "metrics": {**counts, **metrics}}


def evaluation(label: str, factor: float) -> EvaluationResult:
    levels = [
        level(
            users,
            time_to_first_token_p50=120 * users**0.5 * factor,
            inter_token_latency_p50=21 * users**0.25 * factor,
            client_latency_p50=6400 * users**0.25 * factor,
            requests_per_second=0.16 * users**0.75 / factor,
            output_tokens_per_second=41 * users**0.75 / factor,
            blended_price_per_million_tokens=12 / users**0.75 * factor,
        )
        for users in (1, 8, 64)
    ]
    return EvaluationResult.model_validate(
        {
            "subject": {"label": label},
            "workload": {"prompts": 64, "prompts_digest": "0" * 64},
            "started": dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
            "levels": levels,
        }
    )


def test_an_evaluation_and_a_comparison_are_as_kept(update: bool, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("evaluations/chat")
    folder.mkdir(parents=True)
    (folder / "report.html").touch()
    differences = [
        Difference("time_to_first_token_p50", 120, 96, -0.2, -0.26, -0.13, 0.05, "better"),
        Difference("inter_token_latency_p50", 21, 21.8, 0.04, 0.03, 0.05, 0.02, "undecided", too_busy=True),
        Difference("output_tokens_per_second", 41, 40.6, -0.01, -0.06, 0.05, 0.05, "undecided", 480),
    ]
    load = evaluation("chat", 1).levels[0].load
    comparison = WrittenComparison(
        0.05,
        [ComparedLoad(load=load, paired=True, differences=differences)],
        CompletionComparison(64, 61, 0.98, {}, {}, {}, ()),
    )
    evaluate._print(folder, [evaluation("baseline", 1.25), evaluation("optimized", 1)], comparison)
    kept(f"$ constructs-optim evaluate chat --compare chat-baseline\n{capsys.readouterr().out}", "evaluate", update)


def test_a_replay_is_as_kept(update: bool, capsys: pytest.CaptureFixture[str]) -> None:
    Path("week.csv").write_text("seconds,input_tokens,output_tokens\n" + "".join(f"{s},800,200\n" for s in range(3601)))

    def replayed(source: str, hours: float, worst: float) -> Replayed:
        def spread(value: float) -> tuple[float, float, float]:
            return value, value / 2, value * worst

        return Replayed(
            name="Chat/Qwen",
            source=source,
            instance_types=("ml.p5.4xlarge",),
            requests=3601,
            instance_hours=(hours, hours, hours * worst),
            dollars=(hours * 6.88, hours * 6.88, hours * 6.88 * worst),
            failed=0,
            time_to_first_token=spread(121),
            time_to_first_token_p50=spread(116),
            time_to_first_token_p99=spread(202),
            inter_token_latency=spread(8.5),
            inter_token_latency_p50=spread(8.4),
            missed_first=(0.0, 0.0, 0.001),
            missed_between=(0.0, 0.0, 0.0),
            waited=(0.0, 0.0, 0.0),
            wait=None,
            copies=(1, 2),
            capacity=(),
            notes=(),
        )

    replay._print([replayed("fixed.out", 336, 1), replayed("scaled.out", 168, 1.3)], read_traffic(Path("week.csv")))
    kept(
        f"$ constructs-optim replay fixed.out scaled.out --traffic week.csv\n{capsys.readouterr().out}",
        "replay",
        update,
    )


def test_colors_leave_pipes_and_terminals_that_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    folders()
    command = COMMANDS_SHOWN["explain"]
    assert "\x1b[" not in CliRunner().invoke(app, shlex.split(command), color=True).stdout
    assert "\x1b[" not in CliRunner().invoke(app, ["plan", "--help"], color=True).stdout
    # NO_COLOR leaves bold text, which is no color (no-color.org).
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(command, colored=True)


def completed(words: str, shell: str = "zsh") -> str:
    environment = {
        "_CONSTRUCTS_OPTIM_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": f"constructs-optim {words}",
    }
    return CliRunner().invoke(app, [], prog_name="constructs-optim", env=environment).stdout


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("pl", "plan"),
        ("plan --instance-type ml.g5.1", "ml.g5.12xlarge"),
        ("plan --model Qwen/Qwen3-3", "Qwen/Qwen3-32B"),
        ("plan --technique quantization=a", "quantization=awq"),
        ("plan --server vl", "vllm"),
        ("catalog models --supports fp", "fp8"),
        ("jobs list --region eu-we", "eu-west-1"),
    ],
)
def test_a_shell_completes_commands_and_values(words: str, value: str) -> None:
    assert value in completed(words)


def test_no_file_is_of_a_command_that_is_gone() -> None:
    names = {"-".join(("help", *path)) for path in HELP} | {*COMMANDS_SHOWN, *BEGINNINGS, "evaluate", "replay"}
    assert {path.stem for path in GOLDEN.iterdir()} == names
    assert {path.stem for path in IMAGES.iterdir()} == {*PICTURES}
