"""The formats of requests for embeddings, scores and classes, and the choice of formats to try for an endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from constructs_optim.runtime.documents import json_value, object_in
from constructs_optim.runtime.evaluation.pooled_outputs import (
    NEEDED,
    PATHS,
    PooledRequest,
    PooledTask,
    input_tokens_of,
    output_of,
    request_of_line,
    written,
)

from .connection import error_message
from .options import EvaluationError, FormatName, Generation
from .prompts import Prompt
from .requests import ErrorKind
from .streaming import Format, Record, candidate_formats

_EXCERPT = 120
# How many scores a request asks for (Cohere's and Jina's API, "Rerank").
_FEWER = "top_n"


class PooledFormat(Format):
    """A request whose response is one JSON object with an output for each input."""

    streams = False
    task: ClassVar[PooledTask]

    @classmethod
    def count(cls, record: Record, prompt: Prompt, generation: Generation) -> None:
        """Note the number of texts or documents. A response with another number of outputs has failed."""
        request = _request(cls.task, prompt)
        record.inputs = request.inputs if request is not None else None
        if record.error is not None or record.inputs is None or _FEWER in generation.parameters:
            return
        if written(cls.task, json_value(record.text), record.inputs) is None:
            reason = f"not one output for each of the {record.inputs} inputs: {record.text[:_EXCERPT]}"
            record.fail(ErrorKind.MALFORMED_RESPONSE, reason)

    @classmethod
    def suits(cls, prompt: Prompt) -> bool:
        """Return whether the prompt has texts, or a query and documents."""
        return _request(cls.task, prompt) is not None

    @classmethod
    def body(cls, prompt: Prompt, generation: Generation, model: str | None) -> dict[str, Any]:
        """Return the body of a request. Raises EvaluationError for a prompt without inputs."""
        request = _request(cls.task, prompt)
        if request is None:
            raise EvaluationError(f"a prompt for {cls.name.value} needs {NEEDED[cls.task]}")
        return {**({"model": model} if model else {}), **request.body, **generation.parameters}

    def feed(self, at: float, piece: bytes) -> None:
        """Wait for the other pieces, because the body is read as a whole."""

    def read(self, at: float, data: dict[str, Any]) -> bool:
        """Read the body."""
        output = output_of(self.task, data)
        self.record.text = output or ""
        self.record.server_input_tokens = input_tokens_of(data)
        return output is not None

    def _end(self) -> None:
        body = b"".join(piece for _, piece in self._exchange.pieces)
        try:
            data = object_in(json_value(body))
        except ValueError:
            data = {}
        if data.get("error") or data.get("object") == "error":
            self.record.fail(ErrorKind.MODEL_ERROR, error_message(data))
        elif not self.read(self._exchange.end, data):
            excerpt = body[:_EXCERPT].decode(errors="replace")
            self.record.fail(ErrorKind.MALFORMED_RESPONSE, f"not of this format: {excerpt or 'an empty body'}")


class EmbedFormat(PooledFormat):
    """Embeddings. Source: OpenAI API reference, "Embeddings"."""

    name = FormatName.EMBED
    task = "embed"
    path = PATHS[task]


class RerankFormat(PooledFormat):
    """Scores of documents for a query. Source: Cohere's and Jina's API."""

    name = FormatName.RERANK
    task = "rerank"
    path = PATHS[task]
    example = Prompt(query="What is a city?", documents=("A large town", "A river"))


class ClassifyFormat(PooledFormat):
    """Classes of texts. Source: vLLM 0.30, ``entrypoints/pooling/classify``."""

    name = FormatName.CLASSIFY
    task = "classify"
    path = PATHS[task]


# In the order in which they are tried: vLLM also classifies with a reranker, and scores with an embedding model.
POOLED_FORMATS: Mapping[str, type[PooledFormat]] = {
    each.name.value: each for each in (EmbedFormat, RerankFormat, ClassifyFormat)
}


def formats_for(name: FormatName, prompts: Sequence[Prompt], *, sagemaker: bool) -> tuple[type[Format], ...]:
    """Return the formats to try for these prompts; ``sagemaker``: for the invocations of a SageMaker endpoint."""
    if name.value in POOLED_FORMATS:
        return (POOLED_FORMATS[name.value],)
    as_text = all(prompt.inputs is not None for prompt in prompts)
    generating = candidate_formats(name, sagemaker=sagemaker, as_text=as_text)
    if name is not FormatName.AUTO:
        return generating
    if all(prompt.query is not None for prompt in prompts):
        return (RerankFormat,)
    pooled = (*POOLED_FORMATS.values(),)
    if not all(prompt.generates for prompt in prompts):
        return pooled
    return (*generating, *pooled) if all(map(EmbedFormat.suits, prompts)) else generating


def _request(task: PooledTask, prompt: Prompt) -> PooledRequest | None:
    return request_of_line(task, prompt.model_dump(mode="json", exclude_none=True))
