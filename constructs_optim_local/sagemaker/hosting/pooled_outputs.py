"""What vLLM's container answers for a model that computes embeddings, scores or classes, made up from the request.

Sources: vLLM 0.30, ``entrypoints/pooling/factories.py`` (the order in which ``/invocations`` tries its requests) and
the protocols in ``entrypoints/pooling``. A classifier answers no requests to rerank; a reranker also classifies, and a
model for embeddings also reranks. The simulation knows rerankers and classifiers by the names of their models.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

RUNNER = "SM_VLLM_RUNNER=pooling"
"""The variable of a container whose model generates no text."""
_CONVERTED = "SM_VLLM_CONVERT=classify"
_DIMENSIONS, _LABELS = 8, ("negative", "neutral", "positive")


def pooled(request: Mapping[str, Any], texts: Sequence[str], salt: str, tokens: int) -> dict[str, Any] | None:
    """Return a response; None if the request is none for such a model. ``salt`` changes it, ``tokens`` is its usage.

    ``texts`` are the texts by which the model is known.
    """
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    query, documents, inputs = request.get("query"), request.get("documents"), request.get("input")
    reranks = any("rerank" in text.lower() for text in texts)
    is_classifier = any("classif" in text.lower() for text in texts if text != _CONVERTED)
    if isinstance(query, str) and isinstance(documents, list):
        if is_classifier and not reranks:
            return None
        scores = [(_share(salt, query, str(each)), number) for number, each in enumerate(documents)]
        results = [{"index": number, "relevance_score": score} for score, number in sorted(scores, reverse=True)]
        return {"id": "rerank", "model": "model", "usage": usage, "results": results}
    listed = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) for each in listed):
        return None
    if is_classifier or reranks or _CONVERTED in texts:
        rows = [_class(number, _share(salt, each)) for number, each in enumerate(listed)]
    else:
        is_coded = request.get("encoding_format") == "base64"
        rows = [_embedding(number, _vector(salt, each), is_coded=is_coded) for number, each in enumerate(listed)]
    return {"id": "pooled", "object": "list", "model": "model", "data": rows, "usage": usage}


def texts_of(request: Mapping[str, Any]) -> list[str]:
    """Return the texts in a request."""
    given = request.get("input")
    listed = [request.get("query"), *(request.get("documents") or [])] if given is None else given
    return [each for each in (listed if isinstance(listed, list) else [listed]) if isinstance(each, str)]


def _embedding(number: int, vector: Sequence[float], *, is_coded: bool) -> dict[str, Any]:
    coded = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode() if is_coded else list(vector)
    return {"index": number, "object": "embedding", "embedding": coded}


def _class(number: int, share: float) -> dict[str, Any]:
    label = _LABELS[int(share * len(_LABELS))]
    probabilities = [1.0 if each == label else 0.0 for each in _LABELS]
    return {"index": number, "label": label, "probs": probabilities, "num_classes": len(_LABELS)}


def _vector(*texts: str) -> list[float]:
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    return [byte / 255 - 0.5 for byte in digest[:_DIMENSIONS]]


def _share(*texts: str) -> float:
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
