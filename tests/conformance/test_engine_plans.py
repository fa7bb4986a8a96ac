"""Every plan of the catalog's models, as the engines' own argument parsers read it (``make conformance`` has them)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe import KvCache, Model, Quantization, Recipe, RecipeError, SpeculativeDecoding, plan
from constructs_optim.recipe.catalog import engine_arguments, images, instances, models
from constructs_optim.recipe.servers import Adapters, ServerSettings, by_name
from constructs_optim.recipe.techniques import Technique

pytestmark = pytest.mark.engine

CHECKOUT = Path(__file__).parents[2]
PYTHON = CHECKOUT / ".venv-engine" / "bin" / "python"
COMMIT = "0" * 40
ENGINES = ["vllm", "sglang"]
# The least planned environments, so that a catalog that cannot be planned fails here.
LEAST = 500
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
# The model that every way of speculating is planned for, whatever is published.
WITH_EVERYTHING = "Qwen/Qwen3-8B"


def techniques_of(row: models.ModelRow) -> Iterator[list[Technique]]:
    """What a model may be served with, without a job."""
    yield []
    yield [KvCache.fp8()]
    yield [SpeculativeDecoding.ngram()]
    if row.model_id == WITH_EVERYTHING:
        yield [SpeculativeDecoding.mtp()]
        yield [SpeculativeDecoding.custom_draft(model=Model.huggingface("acme/draft", revision=COMMIT))]
        for method in ("eagle3", "eagle", "dflash", "dspark"):
            speculator = Model.huggingface("acme/heads", revision=COMMIT)
            yield [SpeculativeDecoding.speculator(model=speculator, method=method)]
    for settings in row.recipe.speculation if row.recipe is not None else ():
        if "model" in settings:
            yield [SpeculativeDecoding.speculator(model=Model.huggingface(settings["model"], revision=COMMIT))]
        elif "mtp" in settings.get("method", ""):
            yield [SpeculativeDecoding.mtp()]


def recipes(server: ServerSettings) -> Iterator[tuple[str, Recipe]]:
    """Every model on the smallest instance type of each generation of GPUs that it is planned on."""
    hosts = [row for row in instances.by_name().values() if row.hosts_endpoints and row.kind == "gpu"]
    hosts.sort(key=lambda row: row.total_accelerator_memory_gb)
    for row in (*models.of_hugging_face().values(), *models.by_id().values()):
        is_copied = "/" in row.model_id
        model = (
            Model.huggingface(row.model_id, revision=COMMIT, allow_code=True, token_secret_arn=SECRET)
            if is_copied
            else Model.jumpstart(row.model_id, version="1.0.0", accept_eula=True)
        )
        stacks: list[list[Technique]] = [*techniques_of(row)] if is_copied else [[], [Quantization.awq()]]
        for techniques in stacks:
            done: set[str | None] = set()
            for host in hosts:
                recipe = Recipe(model, techniques, host.name, "us-west-2", server=server)
                if host.generation not in done and is_planned(recipe):
                    done.add(host.generation)
                    names = "+".join(technique.name for technique in techniques)
                    yield f"{row.model_id} {names} {host.name}", recipe


def is_planned(recipe: Recipe) -> bool:
    try:
        plan(recipe)
    except RecipeError:
        return False
    return True


def judged(engine: str, environments: list[dict[str, Any]]) -> dict[str, Any]:
    """What an engine says of environments."""
    program = [str(PYTHON), str(CHECKOUT / "tests" / "conformance" / "arguments_of_engines.py"), engine]
    ended = subprocess.run(
        program, input=json.dumps(environments), capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_accepts_every_argument_of_every_plan(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    server = by_name()[engine]()
    planned = [{"name": name, "environment": plan(recipe).container.environment} for name, recipe in recipes(server)]
    verdict = judged(engine, planned)
    accepted = len(planned) - len(verdict["refused"])
    with capsys.disabled():
        sys.stdout.write(f"\n{server.title} {verdict['release']} accepts {accepted} of {len(planned)} plans\n")
    assert verdict["refused"] == {}
    assert len(planned) >= LEAST


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_accepts_the_settings_of_its_server(engine: str) -> None:
    adapters = Adapters(max_loaded=8, max_cached=16, max_rank=32) if engine == "vllm" else None
    parsers = {"vllm": ("qwen3", "hermes"), "sglang": ("qwen3", "qwen25")}[engine]
    servers = [
        by_name()[engine](
            context_length=8192,
            max_concurrent_requests=32,
            prefix_caching=is_on,
            chunked_prefill=is_on,
            reasoning_parser=parsers[0],
            tool_call_parser=parsers[1],
            adapters=adapters,
        )  # type: ignore[call-arg]
        for is_on in (True, False)
    ]
    model = Model.huggingface("Qwen/Qwen3-8B", revision=COMMIT)
    plans = [plan(Recipe(model, [], "ml.g6e.2xlarge", "us-west-2", server=server)) for server in servers]
    environments = [{"name": str(n), "environment": each.container.environment} for n, each in enumerate(plans)]
    assert judged(engine, environments)["refused"] == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_the_release_that_models_are_served_with(engine: str) -> None:
    newest = images.serving((), [engine])[0].engine
    assert judged(engine, [])["release"] == newest
    assert engine_arguments.of_release(engine, newest) is not None


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"SM_VLLM_OF_NO_RELEASE": "1"}, "unrecognized arguments: --of-no-release"),
        ({"SM_VLLM_MAX_MODEL_LEN": "many"}, "--max-model-len"),
        ({"SM_VLLM_KV_CACHE_DTYPE": "int3"}, "--kv-cache-dtype"),
        ({"SM_VLLM_SPECULATIVE_CONFIG": '{"tokens": 3, "method": "mtp"}'}, "no tokens"),
        ({"SM_VLLM_SPECULATIVE_CONFIG": '{"num_speculative_tokens": 3, "method": "guess"}'}, "no method guess"),
        ({"SM_VLLM_REASONING_PARSER": "none_such"}, "not registered"),
        ({"SM_SGLANG_MODEL_PATH": "m", "SM_SGLANG_OF_NO_RELEASE": "1"}, "unrecognized arguments: --of-no-release"),
        ({"SM_SGLANG_MODEL_PATH": "m", "SM_SGLANG_CONTEXT_LENGTH": "many"}, "--context-length"),
        ({"SM_SGLANG_MODEL_PATH": "m", "SM_SGLANG_SPECULATIVE_ALGORITHM": "MEDUSA"}, "Unknown speculative algorithm"),
        ({"SM_SGLANG_MODEL_PATH": "m", "SM_SGLANG_REASONING_PARSER": "none_such"}, "--reasoning-parser"),
    ],
)
def test_an_engine_refuses_what_it_does_not_know(environment: dict[str, str], reason: str) -> None:
    engine = "sglang" if "SM_SGLANG_MODEL_PATH" in environment else "vllm"
    (problem,) = judged(engine, [{"name": "one", "environment": environment}])["refused"]["one"]
    assert reason in problem
