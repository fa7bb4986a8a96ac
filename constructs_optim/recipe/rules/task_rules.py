"""Rules for what a model does: tasks, the servers that have them, and the techniques that suit them."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Mapping

from constructs_optim.recipe import tasks
from constructs_optim.recipe.catalog import engine_models
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import ServerSettings, VllmServer

from .registry import GUIDE, Finding, rule

_POOLING = "https://docs.vllm.ai/en/latest/models/pooling_models/"
_SCORING = "https://docs.vllm.ai/en/latest/models/pooling_models/scoring/"
_TOKENS = "classifier_from_token"
# Outputs for a purpose of the user's own: the score of a model with one class can be a reward.
_OTHER = "pool"
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
    if engine_models.task_of(recipe.architectures) != "transcribe":
        return
    named = " and ".join(recipe.architectures)
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
    yield from _contradictions(recipe)
    if not isinstance(model, Model) or model.task is None or not recipe.architectures:
        return
    labels = row.labels if row is not None else None
    own, named = tasks.of_architectures(recipe.architectures, labels), " and ".join(recipe.architectures)
    reason = f"{model.name} has the architecture {named}"
    if own == tasks.GENERATE:
        if task.convert == "classify" and not recipe.overrides.has_classes:
            yield _without_classes(recipe, reason)
    elif task.name not in (*tasks.able(own), _OTHER):
        named_tasks = " or ".join(f'task="{name}"' for name in tasks.able(own))
        fix = f"{named_tasks}, or leave it out"
        classes = f" with {labels} classes" if own == "classify" and labels is not None else ""
        yield Finding("model.task", task.name, fix, f"{reason}{classes}, which is for {tasks.find(own).title}")


def _contradictions(recipe: Recipe) -> Iterator[Finding]:
    """Yield variables with which the engine would do something else than the plan's task."""
    task = recipe.task
    expected = {"runner": {"auto", task.runner}, "convert": {"auto", "none", task.convert}}
    for argument, values in expected.items():
        variable = recipe.variable(argument)
        given = recipe.variables.get(variable)
        if given is not None and given not in values:
            fix = 'leave it out, and declare the task of the model: task="embed", "rerank", "classify" or "pool"'
            reason = f"the plan, the metrics and the evaluations are those of {task.title}"
            yield Finding(f"environment.{variable}", given, fix if task.generates else "leave it out", reason)


def _without_classes(recipe: Recipe, reason: str) -> Finding:
    """Return a finding about a model whose scores the engine would have no weights for."""
    reason += ", which generates text: a score can only come from the probability of tokens, and nothing says which"
    overrides = '{\\"' + _TOKENS + '\\": [\\"no\\", \\"yes\\"], \\"method\\": \\"from_2_way_softmax\\"}'
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
