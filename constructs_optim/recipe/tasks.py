"""What a model does for its requests: it generates text, or it computes embeddings, scores or classes.

The engine serves a model for one task, with one of two runners: one generates, the other pools what the last layer
says of each token. Source: vLLM, "Pooling models"; ``--runner`` and ``--convert`` of its engine arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from pydantic import BaseModel

from .catalog import engine_models

TaskName = Literal["generate", "embed", "rerank", "classify", "pool"]
"""Text generation, embeddings, scores of documents for a query, classes of a text, or other pooled outputs."""
NAMES: Sequence[TaskName] = get_args(TaskName)
GENERATE: TaskName = "generate"
Runner = Literal["generate", "pooling"]


class Task(NamedTuple):
    """A task: in words, the engine's runner, and the conversion of a model that was trained to generate text.

    ``is_evaluated`` tells whether evaluations have requests for it.
    """

    name: TaskName
    title: str
    runner: Runner
    convert: str | None = None
    is_evaluated: bool = True

    @property
    def generates(self) -> bool:
        """Whether responses are generated, one token after another."""
        return self.runner == "generate"

    def arguments(self, *, converted: bool, pools: bool) -> Mapping[str, str]:
        """Return the engine's arguments.

        Args:
            converted: for a model whose architecture generates text.
            pools: for a model whose files say how outputs become embeddings, which the engine would pool by default.
        """
        if self.generates:
            return {"runner": self.runner} if pools else {}
        return {"runner": self.runner} | ({"convert": self.convert} if converted and self.convert else {})


class Overrides(BaseModel, frozen=True, extra="ignore"):
    """Fields of config.json that decide a model's task, as ``--hf-overrides`` gives them.

    Source: vLLM, ``seq_cls_model_loader`` of ``model_executor/models/adapters.py``; for Qwen3's rerankers,
    ``model_executor/models/config.py``.
    """

    architectures: tuple[str, ...] = ()
    classifier_from_token: tuple[str, ...] = ()
    method: str | None = None
    is_original_qwen3_reranker: bool = False

    @property
    def has_classes(self) -> bool:
        """Whether they say which tokens are classes, and how the tokens' probabilities become scores."""
        is_known = self.method in ("from_2_way_softmax", "no_post_processing") or self.is_original_qwen3_reranker
        return bool(self.classifier_from_token) and is_known


_TASKS: Mapping[TaskName, Task] = {
    each.name: each
    for each in (
        Task("generate", "text generation", "generate"),
        Task("embed", "embeddings", "pooling", "embed"),
        Task("rerank", "reranking", "pooling", "classify"),
        Task("classify", "classification", "pooling", "classify"),
        Task("pool", "pooled outputs of tokens", "pooling", is_evaluated=False),
    )
}
# The tasks that models can do, by the task that they are made for; a model that generates text can be adapted to all.
_ABLE: Mapping[TaskName, Sequence[TaskName]] = {
    "generate": NAMES,
    "embed": ("embed", "rerank"),
    "rerank": ("rerank",),
    "classify": ("classify",),
    "pool": ("pool",),
}
# The tasks by the names of ``engine_models.Task``.
_OF_ENGINES: Mapping[engine_models.Task, TaskName] = {
    "embed": "embed",
    "classify": "classify",
    "embed_tokens": "pool",
    "classify_tokens": "pool",
    "reward": "pool",
}


def find(name: TaskName) -> Task:
    """Return the task with a name."""
    return _TASKS[name]


def able(own: TaskName) -> Sequence[TaskName]:
    """Return the tasks of a model that is made for its ``own``."""
    return _ABLE[own]


def of_architectures(architectures: Sequence[str], labels: int | None) -> TaskName:
    """Return what the engine does with a model by default; ``labels`` is its number of classes, None if unknown.

    A model with one class scores pairs of a query and a document (vLLM, ``enable_scoring_api``).
    """
    kind = engine_models.task_of(architectures)
    name = _OF_ENGINES.get(kind, GENERATE) if kind is not None else GENERATE
    return "rerank" if name == "classify" and labels == 1 else name
