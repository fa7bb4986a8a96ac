"""Requests for embeddings, scores and classes, what their responses say, and how much two responses agree.

Source: vLLM 0.30, ``entrypoints/pooling``: its ``/invocations`` tells requests apart by their members. Embeddings
follow OpenAI's API reference, "Embeddings"; reranking follows Cohere's and Jina's API.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from ..documents import is_list, json_value, list_in, nested, object_in

PooledTask = Literal["embed", "rerank", "classify"]
"""The tasks whose outputs are compared."""
PATHS: Mapping[PooledTask, str] = {"embed": "/embeddings", "rerank": "/rerank", "classify": "/classify"}
"""The path of each task below the API's, for a server that is called by its URL."""
QUERY_TOKENS = 32
"""The length of the query in a reranking of random words."""
NEEDED: Mapping[PooledTask, str] = {
    "embed": "text (or a list of texts), and may have reference embeddings: a list of numbers for each text",
    "rerank": "query (a text) and documents (a list of texts; two or more, if answers are compared), and may have "
    "reference scores: one for each document",
    "classify": "text (or a list of texts), and may have reference labels: one for each text",
}
"""What a line of a file needs, in words."""
# Scores that are nearer than this share of their range change places by the rounding of half precision.
_TIED = 0.01
_TEXTS = ("input", "text", "prompt", "inputs")


class PooledRequest(NamedTuple):
    """The body of a request, and the number of its inputs: texts, or documents."""

    body: Mapping[str, object]
    inputs: int


def request_of(task: PooledTask, texts: Sequence[str]) -> PooledRequest:
    """Return the request for texts; the first one of a reranking is the query."""
    if task == "rerank":
        return PooledRequest({"query": texts[0], "documents": list(texts[1:])}, len(texts) - 1)
    # Text takes a quarter of the time of numbers to write, send and read.
    coded = {"encoding_format": "base64"} if task == "embed" else {}
    return PooledRequest({"input": list(texts), **coded}, len(texts))


def request_of_line(task: PooledTask, line: Mapping[str, object]) -> PooledRequest | None:
    """Return the request of a line of a file; None if it lacks ``query`` and ``documents``, or a text or texts."""
    if task == "rerank":
        query, documents = line.get("query"), list_in(line.get("documents"))
        texts = [query, *documents]
    else:
        given = next((line[name] for name in _TEXTS if name in line), None)
        texts = list_in(given) if is_list(given) else [given]
    known = [text for text in texts if isinstance(text, str) and text]
    if len(known) != len(texts) or len(texts) < (2 if task == "rerank" else 1):
        return None
    return request_of(task, known)


def output_of(task: PooledTask, body: object, inputs: int | None = None) -> str | None:
    """Return a response's outputs in the order of the inputs, as JSON; None if the response has no such outputs, or
    not one for each of its ``inputs`` (None: any number).

    Embeddings are base64 text or lists of numbers, scores are numbers, and classes are labels.
    """
    rows = [object_in(row) for row in list_in(nested(body, "results" if task == "rerank" else "data"))]
    member = {"embed": "embedding", "rerank": "relevance_score", "classify": "label"}[task]
    ordered = sorted(rows, key=lambda row: index if isinstance(index := row.get("index"), int) else 0)
    outputs = [row.get(member) for row in ordered]
    return written(task, outputs, inputs) if outputs else None


def written(task: PooledTask, outputs: object, inputs: int | None = None) -> str | None:
    """Return outputs as JSON; None if they are not those of the task, or not one for each of ``inputs``."""
    text = json.dumps(outputs)
    found = _READERS[task](text)
    return text if found is not None and inputs in (None, len(found)) else None


def input_tokens_of(body: object) -> int | None:
    """Return the number of tokens that the server read; None if it does not say."""
    tokens = nested(body, "usage", "prompt_tokens")
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0 else None


def agreement(task: PooledTask, output: str, reference: str) -> float:
    """Return how much outputs agree: 1 if they are the same.

    For embeddings, this is the mean cosine similarity; for scores, the share of the pairs of documents that are in the
    same order, among those whose scores in the reference differ by more than a hundredth of their range; for classes,
    the share of the same ones. Outputs of another number or length do not agree at all.
    """
    ours, theirs = _READERS[task](output), _READERS[task](reference)
    if not ours or not theirs or len(ours) != len(theirs):
        return 0.0
    return _AGREEMENTS[task](ours, theirs)


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    lengths = math.hypot(*first), math.hypot(*second)
    if len(first) != len(second) or not all(0 < length < math.inf for length in lengths):
        return 0.0
    # Divided first: products of large numbers overflow.
    return math.fsum((a / lengths[0]) * (b / lengths[1]) for a, b in zip(first, second, strict=True))


def _mean_cosine(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    return math.fsum(_cosine(*pair) for pair in zip(ours, theirs, strict=True)) / len(ours)


def _same_order(ours: Sequence[float], theirs: Sequence[float]) -> float:
    tied = _TIED * (max(theirs) - min(theirs))
    pairs = [(i, j) for i, j in combinations(range(len(ours)), 2) if abs(theirs[i] - theirs[j]) > tied]
    alike = sum((ours[i] - ours[j]) * (theirs[i] - theirs[j]) > 0 for i, j in pairs)
    return alike / len(pairs) if pairs else 1.0


def _same_labels(ours: Sequence[str], theirs: Sequence[str]) -> float:
    return sum(map(str.__eq__, ours, theirs)) / len(ours)


def _vectors(text: str) -> list[Sequence[float]] | None:
    found: list[Sequence[float]] = []
    for each in list_in(json_value(text)):
        if isinstance(each, str):
            try:
                vector = array("f", base64.b64decode(each, validate=True))
            except (ValueError, binascii.Error):
                return None
        else:
            vector = [*_numbers(each)]
            if len(vector) != len(list_in(each)):
                return None
        if not vector or not all(map(math.isfinite, vector)):
            return None
        found.append(vector)
    return found or None


def _scores(text: str) -> list[float] | None:
    listed = list_in(json_value(text))
    found = [*_numbers(listed)]
    return found if len(found) == len(listed) and found else None


def _labels(text: str) -> list[str] | None:
    listed = list_in(json_value(text))
    found = [each for each in listed if isinstance(each, str)]
    return found if len(found) == len(listed) and found else None


def _numbers(listed: object) -> Iterator[float]:
    for each in list_in(listed):
        if isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each):
            yield float(each)


_READERS: Mapping[PooledTask, Callable[[str], Sequence[object] | None]] = {
    "embed": _vectors,
    "rerank": _scores,
    "classify": _labels,
}
_AGREEMENTS: Mapping[PooledTask, Callable[..., float]] = {
    "embed": _mean_cosine,
    "rerank": _same_order,
    "classify": _same_labels,
}
