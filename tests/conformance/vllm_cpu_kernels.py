"""A plugin of vLLM's: the CPU's own versions of kernels that vLLM 0.30 keeps for its CPU backend and does not connect.

``vllm/v1/worker/cpu_model_runner.py`` assigns them to the names that the launchers of these kernels had in earlier
releases; speculative decoding then fails with "Cannot inspect kernel parameters for function".
"""

from __future__ import annotations


def register() -> None:
    """Connect them."""
    import vllm.utils.cpu_triton_utils as of_the_cpu
    import vllm.v1.sample.rejection_sampler as sampler
    import vllm.v1.spec_decode.utils as speculation

    for module in (sampler, speculation):
        for launcher in vars(module).values():
            name = getattr(getattr(launcher, "kernel", None), "__name__", "")
            if hasattr(of_the_cpu, name):
                launcher.kernel = getattr(of_the_cpu, name)
