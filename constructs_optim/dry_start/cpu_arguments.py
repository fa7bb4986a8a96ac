"""The arguments with which the CPU build starts: the plan's, without what only GPUs can do, and with small sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Options = Mapping[str, tuple[str, ...]]

LONGEST_CONTEXT = 2048
"""The longest context of a dry start, in tokens: it determines the time of the first steps on a CPU."""
_REQUESTS = 4
# The CPU build counts the machine's memory (vLLM, v1/worker/cpu_worker.py); VLLM_CPU_KVCACHE_SPACE sets the cache.
_MEMORY_SHARE = "0.3"
CACHE_GB = 1
"""The KV cache of each process, in GiB."""

_REPLACED = {
    **dict.fromkeys(("host", "port", "uds", "api_key", "root_path", "grpc"), "the address of the server"),
    **dict.fromkeys(
        ("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_ciphers", "ssl_keyfile", "enable_ssl_refresh"),
        "the address of the server",
    ),
    **dict.fromkeys(("load_format", "model_loader_extra_config", "safetensors_load_strategy"), "how weights are read"),
    **dict.fromkeys(
        ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_memory_bytes"),
        "the sizes of requests and of memory",
    ),
    **dict.fromkeys(("num_gpu_blocks_override", "block_size"), "the sizes of requests and of memory"),
}
_OF_GPUS = {
    **dict.fromkeys(
        ("kv_cache_dtype", "calculate_kv_scales", "kv_cache_dtype_skip_layers"),
        "a quantized KV cache: the CPU's has 16 bits",
    ),
    # The CPU's kernels of speculation are not connected in 0.30 (tests/conformance/vllm_cpu_kernels.py).
    **dict.fromkeys(("speculative_config", "spec_method", "spec_model", "spec_tokens"), "speculative decoding"),
    **dict.fromkeys(
        ("attention_backend", "attention_config", "moe_backend", "linear_backend", "mamba_backend", "kernel_config"),
        "the choice of GPU kernels",
    ),
    **dict.fromkeys(
        ("gdn_prefill_backend", "mm_encoder_attn_backend", "enable_flashinfer_autotune", "ir_op_priority"),
        "the choice of GPU kernels",
    ),
    **dict.fromkeys(
        ("compilation_config", "cudagraph_capture_sizes", "max_cudagraph_capture_size", "optimization_level"),
        "CUDA graphs and compilation",
    ),
    **dict.fromkeys(
        ("cpu_offload_gb", "cpu_offload_params", "offload_backend", "kv_offloading_size", "kv_offloading_backend"),
        "memory of the host beside the GPU's",
    ),
    **dict.fromkeys(
        ("pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local", "data_parallel_backend"),
        "several stages and copies",
    ),
    **dict.fromkeys(
        ("enable_expert_parallel", "all2all_backend", "enable_eplb", "eplb_config", "enable_dbo"),
        "the distribution of experts over GPUs",
    ),
    **dict.fromkeys(("decode_context_parallel_size", "prefill_context_parallel_size"), "several stages and copies"),
    **dict.fromkeys(("kv_transfer_config", "ec_transfer_config", "async_scheduling"), "transfers between GPUs"),
}
REMOVED: Mapping[str, str] = {**_REPLACED, **_OF_GPUS}
"""The arguments that a dry start leaves out, and what each determines."""


class CpuArguments(NamedTuple):
    """Arguments for the CPU build, and in words what of the plan they do not have."""

    options: dict[str, tuple[str, ...]]
    changes: tuple[str, ...]


def on_the_cpu(planned: Options, *, degree: int, context: int) -> CpuArguments:
    """Return the arguments of a plan for a CPU.

    Args:
        planned: the plan's arguments by their canonical names.
        degree: the tensor parallel degree to start with.
        context: the longest context of the plan, in tokens.
    """
    left = {name: words for name, words in planned.items() if name.removeprefix("no_") not in REMOVED}
    shorter = min(context, LONGEST_CONTEXT)
    options = {
        **left,
        "tensor_parallel_size": (str(degree),),
        "load_format": ("dummy",),
        "enforce_eager": (),
        "max_model_len": (str(shorter),),
        "max_num_seqs": (str(_REQUESTS),),
        "max_num_batched_tokens": (str(LONGEST_CONTEXT),),
        "gpu_memory_utilization": (_MEMORY_SHARE,),
    }
    return CpuArguments(options, tuple(_changes(planned, shorter, context)))


def _changes(planned: Options, shorter: int, context: int) -> Iterator[str]:
    yield "dummy weights, and no compilation"
    sizes = f"at most {_REQUESTS} requests of {shorter} tokens"
    yield f"{sizes} (planned: {context} tokens)" if shorter < context else sizes
    by_reason: dict[str, list[str]] = {}
    for name in planned:
        if (reason := _OF_GPUS.get(name.removeprefix("no_"))) is not None:
            by_reason.setdefault(reason, []).append(f"--{name.replace('_', '-')}")
    for reason, names in by_reason.items():
        yield f"without {reason} ({', '.join(names)})"
