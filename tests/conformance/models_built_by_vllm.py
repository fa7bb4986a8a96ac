"""Has vLLM build models as it does on GPUs, without weights or a GPU: ``models_built_by_vllm.py < cases.json``.

Run in the engines' environment (``make conformance``). The input is a list of objects with ``name``; ``config``, the
content of a ``config.json``; ``degree``, the tensor parallel degree; ``capability``, the compute capability as two
numbers; and ``environment``, the container's variables. The output is one JSON object: why vLLM refuses a model, by
name.

vLLM chooses backends and kernels for the capability, and creates one accelerator's part of every layer on PyTorch's
``meta`` device. Not shown: what kernels do with the weights once they are loaded, and memory. What is replaced: CUDA
libraries and vLLM's compiled operators, which are not called, and the communication between accelerators.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import torch
import torch.distributed as dist
from arguments_of_engines import options
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore

_LONGEST = 500
# Kernels for GPUs in Python (tooling/install_engine.sh).
sys.path.append(str(Path(sys.prefix) / "gpu"))
# What the files of a model that reads images say of their preparation; the values change no layer.
_PREPARATION = {
    "do_rescale": False,
    "do_normalize": False,
    "rescale_factor": 1.0,
    "image_mean": [0.0] * 3,
    "image_std": [1.0] * 3,
}
# Compiled parts of vLLM for CUDA, and packages for GPUs that its container has.
_COMPILED = ("_C_stable_libtorch", "_moe_C", "_qutlass_C", "_flashmla_C", "_flashkda_C")
_ATTENTION = ("vllm_flash_attn._vllm_fa2_C", "vllm_flash_attn._vllm_fa3_C")
_PACKAGES = frozenset(
    {"cuda", "cutlass", "deep_gemm", "flashinfer", "pynvml", "quack", "tilelang", "torchaudio", "torchvision"}
)
_FLASH_ATTENTION = ("vllm.vllm_flash_attn.cute", "vllm.third_party.deep_gemm")
_NAMESPACES = frozenset({"_C", "_moe_C", "_flashkda_C"})
# vLLM reads from the weights' files which matrices GPTQ quantized: here those of all layers of the text model, for
# which it looks for parts of their names.
_OF_GPTQ = {f"{name}.qweight": {"dtype": "I32"} for name in ("model.layers", "decoder.layers", "transformer.h", ".mtp")}


class _Type(type):
    """A type whose attributes are types."""

    def __getattr__(cls, name: str) -> _Type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Type(name, (), {})


class _Package(MagicMock):
    """A module of a package for GPUs. What is written like a type is one."""

    def __getattr__(self, name: str) -> Any:
        return _Type(name, (), {}) if name[:2].isupper() else super().__getattr__(name)


class _Packages:
    """Finds packages for GPUs."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        is_one = name.partition(".")[0] in _PACKAGES or name.startswith(_FLASH_ATTENTION)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_one else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = _Package()
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module: object) -> None:
        pass


class _Operator:
    """A compiled operator, which is not called."""

    def __getattr__(self, name: str) -> _Operator:
        return _Operator()

    def __call__(self, *_: Any, **__: Any) -> bool:
        return True


class _OnMeta(TorchFunctionMode):
    """Makes tensors that code puts on CUDA on ``meta``, whose values are zero where code asks for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        # The slopes of ALiBi.
        if func is torch.Tensor.tolist and args[0].is_meta:
            return torch.zeros(args[0].shape, device="cpu").tolist()
        return func(*args, **given | ({"device": "meta"} if str(given.get("device", "")).startswith("cuda") else {}))


def without_cuda() -> None:
    """Replace what needs CUDA and is not called."""
    # transformers notices here which packages it lacks.
    importlib.import_module("transformers.models.auto.image_processing_auto")
    # Names that vLLM 0.30 imports, of transformers before 5.24. They have no weights.
    pixtral: Any = importlib.import_module("transformers.models.pixtral.modeling_pixtral")
    pixtral.PixtralRotaryEmbedding = lambda config, device: torch.nn.Identity()
    pixtral.position_ids_in_meshgrid = None
    for name in (*_COMPILED, *_ATTENTION):
        sys.modules[f"vllm.{name}"] = types.ModuleType(f"vllm.{name}")
    sys.meta_path.append(_Packages())  # type: ignore[arg-type]
    namespace: Any = torch._ops._OpNamespace
    found: Callable[[Any, str], Any] = namespace.__getattr__

    def operator(self: Any, name: str) -> Any:
        # What an accelerator supports is known from its capability.
        is_asked = sys._getframe(1).f_globals.get("__name__") == "vllm._custom_ops"
        try:
            return found(self, name)
        except AttributeError:
            if self.name in _NAMESPACES and ("supports" in name or not is_asked):
                return _Operator()
            raise

    namespace.__getattr__ = operator
    torch.cuda.Stream = torch.cuda.Event = MagicMock  # type: ignore[misc, assignment]
    torch.accelerator.empty_cache = lambda: None


def planned_platform() -> Any:
    """Make vLLM's platform CUDA, with the capability and the number of accelerators that a case names."""
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class Planned(CudaPlatformBase):
        device_name, device_type = "cuda", "meta"
        capability, count = (9, 0), 1
        get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(*cls.capability))
        get_device_name = classmethod(lambda cls, device_id=0: "planned")
        get_device_total_memory = classmethod(lambda cls, device_id=0: 80 * 2**30)
        is_fully_connected = classmethod(lambda cls, ids: True)
        device_count = classmethod(lambda cls: cls.count)
        get_cuda_runtime_major = classmethod(lambda cls: 13)
        num_compute_units = classmethod(lambda cls, device_id=0: 132)
        current_device = classmethod(lambda cls: torch.device("meta"))
        set_device = classmethod(lambda cls, device: None)
        use_custom_allreduce = classmethod(lambda cls: False)
        get_device_communicator_cls = classmethod(
            lambda cls: "vllm.distributed.device_communicators.base_device_communicator.DeviceCommunicatorBase"
        )

    vllm.platforms._current_platform = Planned()
    return Planned


def with_one_process() -> None:
    """Make groups of processes that consist of this one."""
    from vllm.config import vllm as of_engine
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue
    from vllm.model_executor.layers.fused_moe.expert_map_manager import ExpertMapManager
    from vllm.model_executor.layers.quantization import auto_gptq
    from vllm.model_executor.model_loader import utils as loader
    from vllm.model_executor.models import registry
    from vllm.models.kimi_k3.nvidia.ops.latent_moe_tail import KimiK3LatentMoETailOp
    from vllm.transformers_utils import repo_utils
    from vllm.utils import deep_gemm, flashinfer, import_utils
    from vllm.v1.attention.ops import flydsl_turboquant_decode

    made = dist.new_group
    dist.new_group = lambda ranks=None, *_, **__: made(ranks, backend="fake")
    parallel_state.in_the_same_node_as = lambda group, source_rank=0: [True] * group.size()
    MessageQueue.create_from_process_group = staticmethod(lambda *_, **__: None)
    registry._run_in_subprocess = lambda asked: asked()
    deep_gemm.has_deep_gemm = import_utils.has_deep_gemm = lambda: True
    import_utils.has_tilelang = import_utils.has_flashinfer = lambda: True
    # FlashInfer's compiled kernels, which a container may have.
    flashinfer.has_nvidia_artifactory = lambda: True
    # What is in vLLM's container for GPUs.
    of_engine.HAS_TRITON = True
    # FlashInfer 0.6.18.post1, which vLLM 0.30 requires: mla/_sparse_mla_sm120.py, _DECODE_DSV4_DISPATCH.
    flashinfer.has_flashinfer_sparse_mla_sm120_config = lambda heads, tokens: (
        heads in (8, 16, 32, 64, 128) and tokens in (128, 192, 256, 512, 1024)
    )
    # A kernel that is compiled while the model is built, and the largest number of tokens for it.
    KimiK3LatentMoETailOp.initialize = lambda **_: MagicMock(contract=MagicMock(max_num_tokens=1))
    # It would load a library for other accelerators to find out.
    flydsl_turboquant_decode.is_flydsl_available = lambda *_, **__: False
    # A text for the log, from values that are not there.
    ExpertMapManager.get_compressed_map_string = lambda self: ""
    auto_gptq.get_safetensors_params_metadata = lambda *_, **__: _OF_GPTQ
    # Neither does a model load other weights later, nor a file become readable.
    loader.record_metadata_for_reloading = lambda model: None
    repo_utils.time = types.SimpleNamespace(sleep=lambda seconds: None)


@cache
def parser() -> Any:
    """vLLM's parser of its command line."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())


def build(folder: str, degree: int, environment: dict[str, str]) -> None:
    """Build one accelerator's part of the model in a folder."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype
    from vllm.v1.worker import workspace

    given = parser().parse_args([*options(environment)])
    own = {"model": folder, "tokenizer": folder, "skip_tokenizer_init": True, "tensor_parallel_size": degree}
    without_weights = {"load_format": "dummy", "enforce_eager": True, "distributed_executor_backend": "uni"}
    arguments = argparse.Namespace(**{**vars(given), **own, **without_weights})
    engine = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    dist.init_process_group(backend="fake", world_size=degree, rank=0, store=FakeStore())
    try:
        with set_current_vllm_config(engine):
            parallel_state.init_distributed_environment(degree, 0, "env://", 0, "fake")
            parallel_state.initialize_model_parallel(degree, backend="fake")
            workspace.init_workspace_manager(torch.device("meta"))
            with set_default_torch_dtype(engine.model_config.dtype), torch.device("meta"), _OnMeta():
                initialize_model(vllm_config=engine, model_config=engine.model_config)
    finally:
        parallel_state.destroy_model_parallel()
        parallel_state._WORLD = None
        dist.destroy_process_group()


def main() -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "CRITICAL"}
    without_cuda()
    platform = planned_platform()
    with_one_process()
    refused: dict[str, str] = {}
    for case in json.load(sys.stdin):
        platform.capability, platform.count = tuple(case["capability"]), case["degree"]
        environment = case.get("environment", {})
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, environment):
            # Without the model's own code, which its repository has.
            config = {name: value for name, value in case["config"].items() if name != "auto_map"}
            (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
            (Path(folder) / "preprocessor_config.json").write_text(json.dumps(_PREPARATION), encoding="utf-8")
            try:
                build(folder, case["degree"], environment)
            except (Exception, SystemExit) as error:
                refused[case["name"]] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST]
    sys.stdout.write(f"\n{json.dumps({'refused': refused})}\n")


if __name__ == "__main__":
    main()
