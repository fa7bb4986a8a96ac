"""Asks vLLM for its configuration of a plan, as if this machine had the plan's GPUs; runs in the engine's environment.

The input is a JSON object with ``arguments``, the command line, and ``gpu`` (``planned_engine.PlannedGpu``); the
output, after a line of its own, one with ``refusal``, the engine's words if it refuses, ``unknown``, what could not be
asked without GPUs, and otherwise the ``kind`` of the model. Nothing is loaded or started.

vLLM asks its platform what GPUs can do (``platforms/interface.py``). The modules of its models are imported for the
CPU first, because their imports look for GPU kernels; then the platform becomes CUDA's, with the planned GPUs. What
vLLM 0.30 checks in this way: the compute capability of quantization methods, types, tensor parallel degrees, contexts,
the model's code, and arguments that exclude each other.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

# What it raises to refuse a configuration: pydantic's ValidationError is a ValueError.
_REFUSALS = (ValueError, NotImplementedError, AssertionError)
_LONGEST = 2000


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    # The launchers have moved between releases.
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ModuleNotFoundError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    return make_arg_parser(FlexibleArgumentParser())


def _import_for_the_cpu(folder: str) -> None:
    """Import what looks for GPU kernels when it is imported."""
    import vllm.config
    import vllm.model_executor.model_loader  # noqa: F401
    from vllm.model_executor.layers.quantization import get_quantization_config
    from vllm.model_executor.models import ModelRegistry

    # It imports all methods.
    get_quantization_config("fp8")
    for name in ("config.json", "params.json"):
        path = Path(folder) / name
        for architecture in json.loads(path.read_text("utf-8")).get("architectures") or () if path.exists() else ():
            model = ModelRegistry.models.get(architecture)
            if model is not None:
                with contextlib.suppress(Exception):
                    model.inspect_model_cls()


def _with_gpus(gpu: dict[str, Any]) -> None:
    """Let vLLM's platform be CUDA's, with the planned GPUs."""
    # vllm/platforms/cuda.py imports the kernels only to register them.
    for name in ("vllm._C", "vllm._C_stable_libtorch"):
        sys.modules.setdefault(name, types.ModuleType(name))
    from vllm.platforms import current_platform
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    capability = DeviceCapability(*gpu["capability"])

    class Planned(CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return capability

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return gpu["name"]

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return gpu["memory_mib"] * 2**20

        @classmethod
        def is_fully_connected(cls, device_ids: list[int]) -> bool:
            return True

        @classmethod
        def device_count(cls) -> int:
            return gpu["count"]

    # Its modules hold the object itself.
    current_platform.__class__ = Planned


def configuration(arguments: list[str], gpu: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine says of a command line."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parsed = _parser().parse_args(arguments)
    except SystemExit:
        return {"refusal": errors.getvalue().partition("error: ")[2].strip()[-_LONGEST:]}
    from vllm.engine.arg_utils import AsyncEngineArgs

    try:
        engine = AsyncEngineArgs.from_cli_args(parsed)
        _import_for_the_cpu(engine.model)
        _with_gpus(gpu)
        model = engine.create_engine_config().model_config
    except Exception as error:
        cause = _root(error)
        return {"refusal" if isinstance(cause, _REFUSALS) else "unknown": _text(cause)}
    return {
        "kind": {
            "runner": model.runner_type,
            "convert": model.convert_type,
            "reads_images": bool(model.is_multimodal_model),
            "transcribes": _transcribes(model),
            "context": model.max_model_len,
        }
    }


def _transcribes(model: Any) -> bool:
    """Whether the model only transcribes sound; no model does in releases that do not ask."""
    from vllm.model_executor.models import ModelRegistry

    asks = getattr(ModelRegistry, "is_transcription_only_model", None)
    return asks is not None and bool(asks(model.architectures, model))


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _text(error: BaseException) -> str:
    """Return an error's message; of pydantic's, those of its fields."""
    details = getattr(error, "errors", None)
    messages = [each["msg"] for each in details()] if callable(details) else [str(error)]
    text = "; ".join(message.removeprefix("Value error, ") for message in messages)
    return (text or type(error).__name__)[:_LONGEST]


def main() -> None:
    """Read the question and write the answer."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
    question = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answer = configuration(question["arguments"], question["gpu"])
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
