"""The KV cache: the keys and values of requests' tokens, in the memory that the weights leave free."""

from __future__ import annotations

from typing import Any

from constructs_optim.recipe.settings import Group

from .base import Technique


class Fp8KvCache(Technique):
    """A KV cache in FP8: twice the tokens in the same memory, without a job. Needs GPUs with FP8.

    Source: vLLM's documentation, "Quantized KV Cache".
    """

    kind = "kv_cache"
    name = "fp8"
    title = "KV cache in FP8"
    serves = frozenset({"fp8_kv_cache"})
    # Triton's attention kernels have no conversion to FP8 (E4M3) below 8.9.
    compute_capability = (8.9, 12.0)
    lossless = False

    def engine_arguments(self) -> dict[str, Any]:
        """Return the data type of the cache."""
        return {"kv_cache_dtype": "fp8"}


class KvCache(metaclass=Group):
    """A smaller KV cache: more and longer requests in the same memory."""

    fp8 = Fp8KvCache
