"""Rules for what a model does: tasks, the servers that have them, and the techniques that suit them."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Mapping

from constructs_optim.recipe import tasks
from constructs_optim.recipe.catalog import engine_models
from constructs_optim.recipe.memory import engine_setting
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import ServerSettings, VllmServer

from .registry import GUIDE, Finding, rule

_POOLING = "https://docs.vllm.ai/en/latest/models/pooling_models/"
_SCORING = "https://docs.vllm.ai/en/latest/models/pooling_models/scoring/"
_TOKENS = "classifier_from_token"
# AWS's own ways to serve what this library does not: developer guide, "Resources for using Hugging Face", and Amazon
# SageMaker JumpStart's models for automatic speech recognition.
_FOR_SPEECH = (
    "a JumpStart model for speech recognition, such as huggingface-asr-whisper-large-v3, deployed with the SageMaker "
    "Python SDK; or Amazon Transcribe"
)


@rule("OPT296", f"{GUIDE}jumpstart-foundation-models.html")
def _the_model_answers_text(recipe: Recipe) -> Iterator[Finding]:
    """The model generates text, or computes embeddings, scores or classes: SageMaker sends all requests to one path,
    at which no server transcribes speech.
    """
    row = recipe.model_row
    if row is None or engine_models.task_of(row.architectures) != "transcribe":
        return
    named = " and ".join(row.architectures)
    reason = f"{named}, the architecture of {recipe.served_model.name}, transcribes speech, which has a path of its own"
    yield Finding("model", recipe.served_model.name, _FOR_SPEECH, reason)


@rule("OPT297", _POOLING)
def _the_server_has_the_task(recipe: Recipe) -> Iterator[Finding]:
    """The server has the task: only vLLM's container computes embeddings, scores and classes at the path that SageMaker
    calls.
    """
    server = recipe.server
    if not recipe.task.generates and isinstance(server, ServerSettings) and server.name != VllmServer.name:
        fix = f"{VllmServer.display_name()}(), or leave server out"
        yield Finding("server", server.display_name(), fix, f"{server.title} does not serve {recipe.task.title} here")


@rule("OPT298", _SCORING)
def _the_model_has_the_task(recipe: Recipe) -> Iterator[Finding]:
    """The model can do the task: its weights decide what its outputs mean."""
    model, row, task = recipe.model, recipe.model_row, recipe.task
    variable = recipe.variable("runner")
    runner = recipe.variables.get(variable)
    if runner is not None and runner not in ("auto", task.runner):
        fix = 'leave it out, and declare the task of the model: task="embed", "rerank", "classify" or "pool"'
        reason = f"the plan, the metrics and the evaluations are those of {task.title}"
        yield Finding(f"environment.{variable}", runner, fix if task.generates else "leave it out", reason)
    if not isinstance(model, Model) or model.task is None or row is None or not row.architectures:
        return
    own, named = tasks.of_architectures(row.architectures, row.labels), " and ".join(row.architectures)
    reason = f"{model.name} has the architecture {named}"
    if own == tasks.GENERATE:
        if task.convert == "classify" and _TOKENS not in (engine_setting(recipe, "hf_overrides") or ""):
            yield _without_classes(recipe, reason)
    elif task.generates:
        yield Finding("model.task", task.name, f'task="{own}", or leave it out', f"{reason}, which generates no text")
    elif own in ("rerank", "classify") and task.name in ("rerank", "classify") and own != task.name:
        classes = f"{row.labels} classes" if row.labels != 1 else "one score"
        yield Finding("model.task", task.name, f'task="{own}", or leave it out', f"{reason} with {classes}")


def _without_classes(recipe: Recipe, reason: str) -> Finding:
    """Return a finding about a model whose scores the engine would have no weights for."""
    reason += ", which generates text: a score can only come from the probability of tokens, and nothing says which"
    overrides = '{\\"' + _TOKENS + '\\": [\\"no\\", \\"yes\\"]}'
    fix = (
        f'environment={{"{recipe.variable("hf_overrides")}": "{overrides}"}}, with the tokens that its model card '
        "names; or a model that was converted to ForSequenceClassification"
    )
    return Finding("model.task", recipe.task.name, fix, reason)


# Why no technique of a kind suits a model that pools.
_UNSUITED: Mapping[str, str] = {
    "quantization": "its job saves a model that generates text, without the layers and files that pool",
    "kv_cache": "each input is computed once, and no later token reads what is cached",
    "speculative_decoding": "it drafts tokens, and this model generates none",
}


@rule("OPT299", _POOLING)
def _techniques_suit_the_task(recipe: Recipe) -> Iterator[Finding]:
    """The techniques suit the task: most techniques make the generation of text faster, one token after another."""
    if recipe.task.generates:
        return
    for location, technique in recipe.located_techniques:
        is_ready = technique.kind == "quantization" and technique.ready_made is not None
        if is_ready:
            continue
        fix = "leave it out"
        if technique.kind == "quantization":
            fix += f'; environment={{"{recipe.variable("quantization")}": "fp8"}} quantizes when the model is loaded'
        reason = _UNSUITED.get(technique.kind, "it is made for models that generate text")
        yield Finding(location, technique.name, fix, f"{recipe.served_model.name} serves {recipe.task.title}: {reason}")
