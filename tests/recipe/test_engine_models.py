"""What each release of an engine loads, and which images a model's architecture leaves."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe import Model, Recipe, plan
from constructs_optim.recipe.catalog import engine_models, images
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.servers import ServerSettings, by_name

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# The newest images whose engine has the architecture.
ARCHITECTURES = {
    "Plamo2ForCausalLM": "vllm:0.26.0",
    "MPTForCausalLM": "vllm:0.28.0",
    "XverseForCausalLM": "djl-inference:0.36.0-lmi27",
    "LlamaForCausalLM": "vllm:0.30.0",
}


def recipe(server: ServerSettings | None = None, **columns: Any) -> Recipe:
    containers = Lock(models={"acme/mine": RecordedModel(revision=COMMIT, **columns)})
    model = Model.huggingface("acme/mine", revision=COMMIT)
    return Recipe(model, [], "ml.g6e.2xlarge", "us-west-2", containers=containers, server=server)


def release(engine: str, version: str) -> engine_models.EngineModels:
    found = engine_models.of_release(engine, version)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("engine", "version", "architecture", "expected"),
    [
        # vllm/model_executor/models/registry.py of each release.
        ("vllm", "0.30.0", "LlamaForCausalLM", True),
        ("vllm", "0.10.2", "LlamaForCausalLM", True),
        ("vllm", "0.28.0", "MPTForCausalLM", True),
        ("vllm", "0.29.0", "MPTForCausalLM", False),
        ("vllm", "0.26.0", "Plamo2ForCausalLM", True),
        ("vllm", "0.27.1", "Plamo2ForCausalLM", False),
        ("vllm", "0.30.0", "Florence2ForConditionalGeneration", False),
        ("vllm", "0.30.0", "T5ForConditionalGeneration", False),
        # The code of transformers, in the release that was asked.
        ("vllm", "0.30.0", "HeliumForCausalLM", True),
        ("vllm", "0.28.0", "HeliumForCausalLM", None),
        # It has layers without the attention that vLLM calls there, which older releases had themselves.
        ("vllm", "0.23.0", "BambaForCausalLM", True),
        ("vllm", "0.30.0", "BambaForCausalLM", False),
        ("vllm", "0.30.0", "DiffLlamaForCausalLM", False),
        # Another head on the same layers: _normalize_arch of registry.py.
        ("vllm", "0.30.0", "PhiModel", True),
        ("vllm", "0.30.0", "Qwen3ForSequenceClassification", True),
        ("vllm", "0.30.0", "AcmeModel", False),
        ("sglang", "0.5.20", "PhiModel", False),
        ("sglang", "0.5.20", "Qwen3ForCausalLM", True),
        ("sglang", "0.5.20", "BambaForCausalLM", False),
    ],
)
def test_a_release_loads_the_architectures_of_its_registry(
    engine: str, version: str, architecture: str, expected: bool | None
) -> None:
    assert release(engine, version).loads([architecture]) is expected


def test_a_model_without_a_known_architecture_may_be_loaded() -> None:
    assert release("vllm", "0.30.0").loads(()) is None


def test_a_model_is_loaded_by_any_of_its_architectures() -> None:
    assert release("vllm", "0.30.0").loads(("AcmeForCausalLM", "LlamaForCausalLM")) is True


@pytest.mark.parametrize(
    ("method", "loaded_until", "span"),
    [
        ("bitsandbytes", "0.27.1", "0.27.1 and older"),
        ("gguf", "0.23.0", "0.23.0 and older"),
        ("awq", "0.30.0", "every release"),
        ("online", "0.30.0", "0.20.1 and newer"),
        ("cpu_gptq", "0.12.0", "0.12.0"),
        ("cpu_awq", "0.22.1", "0.12.0 to 0.22.1"),
    ],
)
def test_a_method_has_its_releases(method: str, loaded_until: str, span: str) -> None:
    tables = [release("vllm", version).quantization for version in release("vllm", "0.30.0").quantization.releases]
    assert [table.release for table in tables if table.has(method)][-1] == loaded_until
    assert tables[-1].span(method) == span


def test_a_deprecated_method_is_so_in_its_releases_alone() -> None:
    tables = [release("vllm", version).quantization for version in ("0.12.0", "0.14.0", "0.20.1")]
    assert [table.is_deprecated("experts_int8") for table in tables] == [False, True, False]
    assert not release("vllm", "0.30.0").quantization.is_deprecated("eetq")


def test_every_image_of_a_known_release_has_its_facts() -> None:
    known = [row for row in images.rows() if row.server in (*images.VLLM, "sglang") and row.engine and row.cuda]
    # LMI 14 and 15 have vLLM 0.6.3 and 0.8.4, of which there is no build for CPUs.
    lacking = {row.engine for row in known if engine_models.of_image(row) is None}
    assert lacking == {"0.6.3", "0.8.4"}
    assert engine_models.of_image(None) is None
    assert {engine_models.of_image(row) for row in images.rows() if row.server == "text_generation_inference"} == {None}


def test_an_image_that_loads_the_architecture_serves_the_model() -> None:
    images_of = [str(plan(recipe(architectures=(name,))).container.image) for name in ARCHITECTURES]
    names = [image.rpartition("/")[2] for image in images_of]
    assert [name for name, first in zip(names, ARCHITECTURES.values(), strict=True) if not name.startswith(first)] == []


@pytest.mark.parametrize(
    "columns", [{}, {"architectures": ("BambaForCausalLM",)}, {"quantization": {"method": "auto-round"}}], ids=str
)
def test_a_model_that_an_engine_may_load_is_planned(columns: dict[str, Any]) -> None:
    assert [each for each in check(recipe(**columns)) if each.rule in ("OPT289", "OPT290")] == []


def test_the_remedy_of_an_architecture_that_engines_dropped_works() -> None:
    refused = recipe(by_name()["vllm"](container_version="0.30"), architectures=("Plamo2ForCausalLM",))
    (finding,) = [each for each in check(refused) if each.rule == "OPT289"]
    version = finding.suggestion.partition('"')[2].rstrip('")')
    assert check(recipe(by_name()["vllm"](container_version=version), architectures=("Plamo2ForCausalLM",))) == []
