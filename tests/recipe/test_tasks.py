"""What models do: derived from their files and architectures, declared, planned, and kept in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from constructs_optim.recipe import Model, Recipe, plan, tasks
from constructs_optim.recipe.catalog import engine_models
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.memory import estimate
from constructs_optim.recipe.tasks import TaskName
from constructs_optim.runtime import model_files

COMMIT = "a" * 40
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}


def recipe(config: dict[str, Any], *, pools: bool = False, task: TaskName | None = None, **options: Any) -> Recipe:
    columns = ModelConfig.model_validate(config).columns
    recorded = RecordedModel.model_validate({"parameters_billion": 0.11, **columns, "revision": COMMIT, "pools": pools})
    model = Model.huggingface("acme/mine", revision=COMMIT, task=task)
    given = {"techniques": [], "instance_type": "ml.g5.xlarge", "region": "us-west-2", **options}
    return Recipe(model, containers=Lock(models={"acme/mine": recorded}), **given)


QWEN = {**BERT, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_key_value_heads": 4, "head_dim": 64}


@pytest.mark.parametrize(
    ("architectures", "labels", "task"),
    [
        (["Qwen3ForCausalLM"], None, "generate"),
        (["BertModel"], None, "embed"),
        (["DistilBertModel"], None, "embed"),
        (["Qwen2Model"], None, "embed"),
        (["XLMRobertaForSequenceClassification"], 1, "rerank"),
        (["Qwen3ForSequenceClassification"], 1, "rerank"),
        (["BertForSequenceClassification"], 2, "classify"),
        (["BertForTokenClassification"], 9, "pool"),
        (["ColBERTModernBertModel"], None, "pool"),
        (["Qwen2ForRewardModel"], None, "pool"),
        (["AcmeUnheardOf"], None, "generate"),
        ([], None, "generate"),
    ],
)
def test_an_architecture_says_what_a_model_does(architectures: list[str], labels: int | None, task: TaskName) -> None:
    assert tasks.of_architectures(architectures, labels) == task


def test_the_number_of_labels_is_that_of_config_json() -> None:
    classifier = {**BERT, "architectures": ["BertForSequenceClassification"]}
    for config, labels in (
        ({**classifier, "id2label": {"0": "no", "1": "perhaps", "2": "yes"}}, 3),
        ({**classifier, "num_labels": 1}, 1),
        # transformers leaves its own default out.
        (classifier, 2),
        ({**BERT, "num_labels": 4}, None),
    ):
        assert ModelConfig.model_validate(config).columns.get("labels") == labels


def test_a_sentence_transformers_model_embeds_whatever_its_architecture() -> None:
    assert recipe(QWEN).task.name == "generate"
    assert recipe(QWEN, pools=True).task.name == "embed"
    assert recipe(QWEN, pools=True, task="generate").task.name == "generate"
    assert model_files.pools(["modules.json", "1_Pooling/config.json", "config.json"])
    assert not model_files.pools(["modules.json", "config.json"])
    assert not model_files.pools(["1_Pooling/config.json", "config.json"])


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        (BERT, {}, {"SM_VLLM_RUNNER": "pooling"}),
        (QWEN, {"task": "embed"}, {"SM_VLLM_RUNNER": "pooling", "SM_VLLM_CONVERT": "embed"}),
        (
            {**BERT, "architectures": ["BertForSequenceClassification"], "num_labels": 1},
            {},
            {"SM_VLLM_RUNNER": "pooling"},
        ),
        (QWEN, {}, {}),
    ],
)
def test_a_plan_says_how_the_engine_runs_the_model(
    config: dict[str, Any], options: dict[str, Any], expected: dict[str, str]
) -> None:
    planned = plan(recipe(config, **options))
    environment = planned.container.environment
    assert {
        name: environment[name] for name in ("SM_VLLM_RUNNER", "SM_VLLM_CONVERT") if name in environment
    } == expected
    assert planned.container.server == "vllm"
    assert planned.task == ("generate" if not expected else planned.task)


def test_only_a_model_that_generates_gets_the_length_that_config_json_states() -> None:
    assert "SM_VLLM_MAX_MODEL_LEN" in plan(recipe(QWEN)).container.environment
    assert "SM_VLLM_MAX_MODEL_LEN" not in plan(recipe(BERT)).container.environment
    assert "SM_VLLM_MAX_MODEL_LEN" not in plan(recipe(QWEN, task="embed")).container.environment


def test_a_model_that_reads_in_both_directions_keeps_no_cache() -> None:
    both, decoder = estimate(recipe(BERT)), estimate(recipe(QWEN, task="embed"))
    assert both is not None
    assert decoder is not None
    assert both.kv_cache_gb == 0
    assert (decoder.kv_cache_gb or 0) > 0


def test_every_architecture_of_the_engine_has_a_task() -> None:
    newest = engine_models.of_release("vllm", "0.30.0")
    assert newest is not None
    for name in newest.architectures.rows:
        row = newest.architectures.rows[name]
        known = tasks.find(tasks.of_architectures([name], None))
        assert known.generates == (row.task in ("generate", "draft", "transcribe")), name
    encoders = {name for name, row in newest.architectures.rows.items() if row.encoder}
    assert {"BertModel", "XLMRobertaForSequenceClassification", "ModernBertModel"} <= encoders
    assert not {"LlamaModel", "Qwen2Model", "Qwen3ForCausalLM"} & encoders


def test_each_task_has_its_row() -> None:
    assert [tasks.find(cast("TaskName", name)).name for name in tasks.NAMES] == [*tasks.NAMES]
    assert [name for name in tasks.NAMES if tasks.find(name).generates] == ["generate"]
