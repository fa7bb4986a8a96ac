"""Every recipe rule: valid recipes, invalid recipes, and the error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from constructs_optim.recipe import (
    Compilation,
    FineTune,
    KvCache,
    Medusa,
    Model,
    PreOptimized,
    Quantization,
    Recipe,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
    Technique,
    TrainingCompute,
    Violation,
)
from constructs_optim.recipe.catalog import images, models
from constructs_optim.recipe.catalog.lock import Lock, RecordedFault, RecordedModel
from constructs_optim.recipe.catalog.splits import Split, StoredQuantization
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.rules import all_rules, check, warnings
from constructs_optim.recipe.servers import Adapters, Server, ServerSettings
from constructs_optim.recipe.tasks import TaskName
from constructs_optim.recipe.techniques.captured import CapturedTraffic

from .recipes import LLAMA_70B, recipe

_awq = Quantization.awq
_NEURON = Compilation.neuron()
_TRN1: dict[str, Any] = {"instance_type": "ml.trn1.32xlarge"}
_DRAFT = SpeculativeDecoding.sagemaker_draft()
_EAGLE = SpeculativeDecoding.eagle()
_DATA = "s3://data/train/"
_CAPTURED = CapturedTraffic(uri="s3://captures/captures/chat/AllTraffic", period="2026-10")
_MISTRAL = Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")
_MISTRAL_ON_G5: dict[str, Any] = {"model": _MISTRAL, "instance_type": "ml.g5.12xlarge"}


_FALCON_7B: dict[str, Any] = {
    "model": Model.jumpstart("huggingface-llm-falcon-7b-bf16"),
    "instance_type": "ml.g5.12xlarge",
}


def _trained_on(captured: CapturedTraffic) -> dict[str, Any]:
    """A recipe of EAGLE heads that are trained on captured traffic."""
    return {"techniques": [SpeculativeDecoding.eagle(training_data=captured)]}


def _medusa(**changed: Any) -> dict[str, Any]:
    """A recipe of Medusa heads, with these arguments."""
    return {"techniques": [Medusa(**{"training_data": _DATA, **changed})], **_MISTRAL_ON_G5}


def _tuned(**changed: Any) -> dict[str, Any]:
    """A recipe of fine-tuning, with these arguments."""
    return {"techniques": [FineTune(**{"training_data": _DATA, **changed})], **_MISTRAL_ON_G5}


def _on(**compute: Any) -> dict[str, Any]:
    """A recipe of Medusa heads with this training compute."""
    return _medusa(compute=TrainingCompute(**compute))


_PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"


def _reserved(arn: str) -> JobSettings:
    """Jobs that run in a training plan."""
    return JobSettings(training_plan_arn=arn)


_PINNED = Model.s3("s3://models/mine/", manifest_uri="s3://models/mine.csv", manifest_etag="0a1b")
_KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_TOKEN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
_G7E: dict[str, Any] = {"instance_type": "ml.g7e.24xlarge"}
_MXFP4 = Lock(models={"acme/mine": RecordedModel(revision=_COMMIT, precision="mxfp4")})


def _of_architecture(name: str, **columns: Any) -> dict[str, Any]:
    """A recipe of a model whose recorded config.json names this architecture."""
    recorded = RecordedModel(revision=_COMMIT, architectures=(name,), **columns)
    return {"model": _hub("acme/mine"), "techniques": [], "containers": Lock(models={"acme/mine": recorded}), **_G7E}


def _with_fault(load_format: str | None = None, **changed: Any) -> dict[str, Any]:
    """A recipe of a model whose recorded files no engine loads, except with a load format."""
    fault = RecordedFault(reason="its weights are of another kind", fix="its own weights", load_format=load_format)
    recorded = RecordedModel(revision=_COMMIT, fault=fault)
    return {**_of_type("llama"), "containers": Lock(models={"acme/mine": recorded}), **changed}


def _with_draft(**columns: Any) -> dict[str, Any]:
    """A recipe with a speculator whose record has these columns."""
    speculator = SpeculativeDecoding.speculator(model=_hub("acme/draft"))
    models = {
        "acme/mine": RecordedModel(revision=_COMMIT, architectures=("LlamaForCausalLM",)),
        "acme/draft": RecordedModel(revision=_COMMIT, **columns),
    }
    return {**_of_type("llama"), "techniques": [speculator], "containers": Lock(models=models)}


def _of_method(name: str, **quantization: Any) -> dict[str, Any]:
    """A recipe of a model whose recorded config.json names this method of quantization."""
    return _of_architecture("LlamaForCausalLM", quantization=StoredQuantization(method=name, **quantization))


_IN_FP8 = "pack-quantized: int4 per group, activations in float8 dynamic per token"
_OF_TENSORS = "int-quantized: int8 per tensor, activations in int8 per tensor"
_OF_QUARK = "fp8_e4m3 per_tensor, activations in fp8_e4m3 per_tensor"


def _in_experts(scheme: str, **quantization: Any) -> dict[str, Any]:
    """A recipe of a mixture of experts whose experts have this scheme of compressed-tensors, on GPUs with integers."""
    stored = StoredQuantization(method="compressed-tensors", expert_schemes=(scheme,), **quantization)
    columns = {"quantization": stored, "splits": {"experts": Split(width=14_336)}}
    return {**_of_architecture("MixtralForCausalLM", **columns), "instance_type": "ml.p5.4xlarge"}


def _of_type(name: str, **columns: Any) -> dict[str, Any]:
    """A recipe of a model whose recorded config.json names this model type."""
    return _of_architecture("LlamaForCausalLM", model_type=name, **columns)


_HEADS_128, _FP8_STORED = "heads of 128", StoredQuantization(method="fp8", bits=8)
_BITS_4 = StoredQuantization(method="awq", bits=4, group_size=128)
_OVERRIDES = '{"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}'


def _for_task(task: TaskName, name: str, **columns: Any) -> dict[str, Any]:
    """A recipe of a model with an architecture, which declares a task."""
    return {**_of_architecture(name, **columns), "model": _hub("acme/mine", task=task)}


def _encoder(name: str, **parts: Split) -> dict[str, Any]:
    """A recipe on eight GPUs of a model with this architecture, whose recorded encoder has these parts."""
    return {**_of_architecture(name, splits=parts), "instance_type": "ml.g6e.48xlarge"}


def _split(**parts: Split) -> dict[str, Any]:
    """A recipe on four GPUs of a model whose recorded layers are split like this."""
    return _of_architecture("LlamaForCausalLM", splits=parts) | {"instance_type": "ml.g6e.12xlarge"}


_GATED = Lock(models={"meta-llama/Llama-3.1-8B": RecordedModel(revision=_COMMIT, gated=True)})


def _nvfp4(checkpoint: Model) -> Technique:
    return Quantization.nvfp4(checkpoint=checkpoint)


def _w4a16(**settings: Any) -> Technique:
    return Quantization.w4a16(calibration_data="s3://my-data/samples/", **settings)


def _hub(model_id: str, **settings: Any) -> Model:
    return Model.huggingface(model_id, revision=_COMMIT, **settings)


_GLM_4V = _encoder("Glm4vForConditionalGeneration", vision=Split(heads=12, width=13_696))
_NARROW = _split(hidden=Split(width=4096), attention=Split(heads=32, width=4096), mlp=Split(width=11_008))
_FEW_KEYS = _split(attention=Split(heads=40, width=5120), key_value=Split(heads=10, width=1280))
_EXPERTS = _split(hidden=Split(width=2048), attention=Split(heads=32, width=4096), experts=Split(width=768))


def _copied(**compute: Any) -> Model:
    """A model whose copying job has this compute."""
    return _hub("Qwen/Qwen3-32B", compute=TrainingCompute(**compute))


_MINE = Model.s3("s3://models/mine/")
_LLAMA_8B: dict[str, Any] = {
    "model": Model.jumpstart("meta-textgeneration-llama-3-1-8b", accept_eula=True),
    "techniques": [],
    "instance_type": "ml.p5.48xlarge",
}
_LLAMA_8B_ON_A_SMALL_GPU: dict[str, Any] = {**_LLAMA_8B, "instance_type": "ml.g6.2xlarge"}
_QWEN_32B: dict[str, Any] = {"model": _hub("Qwen/Qwen3-32B"), "techniques": [], "instance_type": "ml.g6e.12xlarge"}


def _speculator(name: str) -> Technique:
    return SpeculativeDecoding.speculator(model=Model.huggingface(name, revision=_COMMIT))


def _mxfp4(name: str) -> Technique:
    return Quantization.mxfp4(checkpoint=_hub(name))


_QWEN, _HEADS = _hub("Qwen/Qwen3-32B"), "RedHatAI/Qwen3-32B-speculator.eagle3"
_HEADS_OF_8B = "RedHatAI/Qwen3-8B-speculator.eagle3"
_OF_LLAMA = _hub("nvidia/Llama-3.3-70B-Instruct-FP8")
_SHAPES = Lock(
    models={
        "acme/mine": RecordedModel(layers=64, hidden_size=5120),
        "acme/mine-fp8": RecordedModel(layers=48, hidden_size=5120, precision="fp8"),
    }
)
_WIDE = Lock(models={"acme/wide": RecordedModel(parameters_billion=60, weight_bits=16, layers=8)})
_NVFP4, _FP8 = _hub("nvidia/gemma-4-31B-it-NVFP4"), _hub("Qwen/Qwen3-32B-FP8")
_LLAMA = _hub("meta-llama/Llama-3.1-8B-Instruct", token_secret_arn=_TOKEN)
_TOKEN_OF_HUB = f"hf_{'x' * 34}"
GOOD: dict[str, list[dict[str, Any]]] = {
    "OPT001": [{"model": Model.s3("s3://models/mine/")}],
    "OPT002": [{"model": Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")}],
    "OPT003": [{"model": Model.jumpstart(LLAMA_70B, accept_eula=True)}],
    "OPT004": [{"model": Model.jumpstart("huggingface-llm-mistral-7b")}],
    "OPT005": [
        {"model": Model.s3("s3://models/mine")},
        {"model": Model.s3("s3://models")},
        {"model": Model.s3("${Token[TOKEN.1]}")},
        {"model": Model.s3("s3://${Token[Bucket.Name.12]}/mine/")},
    ],
    "OPT008": [{"model": Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT), **_G7E}],
    "OPT017": [
        {"model": Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT), **_G7E},
        {"model": Model.huggingface("meta-llama/Llama-3.1-8B", token_secret_arn=_TOKEN), "containers": _GATED, **_G7E},
    ],
    "OPT018": [
        {"model": Model.huggingface("meta-llama/Llama-3.1-8B", token_secret_arn=_TOKEN), "containers": _GATED, **_G7E},
        {"model": Model.huggingface("meta-llama/Llama-3.1-8B", token_secret_arn="${Token[T.1]}"), "containers": _GATED},
        {"model": Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT), **_G7E},
    ],
    "OPT028": [
        {"model": _copied(instance_type="ml.c5.9xlarge"), **_G7E},
        {"model": _copied(instance_type="ml.c8i.4xlarge"), **_G7E},
        _on(instance_type="ml.p4d.24xlarge"),
    ],
    "OPT049": [
        {"model": _PINNED, "techniques": [SpeculativeDecoding.ngram()], "instance_type": "ml.p4d.24xlarge"},
        {"model": Model.s3("s3://models/mine/")},
    ],
    "OPT009": [
        {"model": Model.s3("s3://models/mine", encryption_key_arn=_KEY)},
        {"model": Model.s3("s3://models/mine", encryption_key_arn="${Token[TOKEN.1]}")},
    ],
    "OPT010": [{"instance_type": "ml.p5.48xlarge"}],
    "OPT011": [{"instance_type": "ml.g6.48xlarge"}],
    "OPT012": [{"instance_type": "ml.p4d.24xlarge"}],
    "OPT055": [
        {"techniques": [_NEURON], **_TRN1},
        {"techniques": [], "server": Server.lmi(container_version="0.29.0-neuronx-sdk2.19.1"), **_TRN1},
        {"techniques": []},
    ],
    "OPT014": [{"region": "eu-central-1"}],
    "OPT015": [
        {"region": "us-iso-east-1"},
        {"techniques": [_NEURON], "region": "eu-central-1", **_TRN1},
        {**_medusa(), "region": "us-gov-west-1"},
    ],
    "OPT016": [{"jobs": JobSettings(1, 1800)}, {"jobs": JobSettings(28 * 86_400, 28 * 86_400)}, {}],
    "OPT048": [{"jobs": _reserved(_PLAN)}, {"jobs": _reserved("${Token[Plan.1]}")}, _on(spot=True)],
    "OPT020": [{"techniques": (Quantization.awq(),)}, {"techniques": [], "instance_type": "ml.p4d.24xlarge"}],
    "OPT022": [{"techniques": [Quantization.awq()]}],
    "OPT023": [{"model": Model.jumpstart("huggingface-llm-mistral-7b")}],
    "OPT024": [{"techniques": [Quantization.awq(tensor_parallel_degree=2)]}],
    "OPT025": [{"techniques": [_awq(tensor_parallel_degree=2), Sharding.fast_load(tensor_parallel_degree=2)]}],
    "OPT030": [
        {},
        {"model": _hub("Qwen/Qwen3-32B")},
        # Llama's architecture is older than the release of vLLM that the recipe asks for.
        {"model": _hub("meta-llama/Llama-3.3-70B-Instruct", token_secret_arn=_TOKEN)},
        {
            "model": _hub("google/gemma-4-31B-it"),
            "techniques": [Quantization.fp8_block()],
            "instance_type": "ml.p5.48xlarge",
        },
    ],
    "OPT029": [
        {
            "environment": {
                "SM_VLLM_MAX_NUM_SEQS": "8",
                "SM_VLLM_NO_ENABLE_PREFIX_CACHING": "true",
                "NCCL_DEBUG": "INFO",
            }
        },
        {"server": Server.vllm(tool_call_parser="hermes", reasoning_parser="qwen3")},
        {
            "server": Server.vllm(tool_call_parser="mine"),
            "environment": {"SM_VLLM_TOOL_PARSER_PLUGIN": "/opt/ml/model/p.py"},
        },
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8k", "SM_VLLM_KV_CACHE_DTYPE": "${Token[T.1]}"}},
        {"environment": {"SM_VLLM_MAX_NUM_SEQS": "false", "SM_VLLM_MAX_NUM_SEQ": "8"}},
        *(
            {"environment": {name: value}}
            for name, value in (
                ("SM_VLLM_MAX_MODEL_LEN", "25.6k"),
                ("SM_VLLM_MAX_MODEL_LEN", "2K"),
                ("SM_VLLM_MAX_MODEL_LEN", "-1"),
                ("SM_VLLM_MAX_MODEL_LEN", "auto"),
                ("SM_VLLM_ENFORCE_EAGER", "True"),
                ("SM_VLLM_ENFORCE_EAGER", " true"),
                ("SM_VLLM_ENFORCE_EAGER", ""),
                ("SM_VLLM_CHAT_TEMPLATE", ""),
                ("SM_VLLM_COLLECT_DETAILED_TRACES", '["model", "worker"]'),
                ("SM_VLLM_MAX_NUM_SEQS", " 8 "),
            )
        ),
        {"environment": {"SM_SGLANG_CONTEXT_LENGTH": "8Ki"}, "server": Server.sglang()},
        {"environment": {"SM_SGLANG_CONTEXT_LENGTH": "25.6k"}, "server": Server.sglang()},
        {"environment": {"SM_SGLANG_TP_SIZE": "4", "SM_SGLANG_MAMBA_SSM_DTYPE": "bfloat16"}, "server": Server.sglang()},
        {
            "environment": {"SM_VLLM_CALCULATE_KV_SCALES": "true"},
            "server": Server.vllm(container_version="0.27.1"),
        },
        {
            "environment": {"SM_VLLM_OF_THE_FUTURE": "1"},
            "server": Server.vllm(container_version="9.9.9-gpu-py312-cu130-sagemaker"),
        },
    ],
    "OPT262": [
        {"environment": {"SM_VLLM_PORT": "8080", "SM_VLLM_HOST": "0.0.0.0", "SM_VLLM_UDS": "false"}},
        {"environment": {"SM_VLLM_PORT": "${Token[Port.1]}", "PORT": "9000", "VLLM_PORT": "9000"}},
        {"environment": {"SM_SGLANG_HOST": "::"}, "server": Server.sglang()},
        {"environment": {"OPTION_PORT": "9000"}, "server": Server.lmi()},
    ],
    "OPT031": [
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}},
        {"environment": {"A": "${Token[T.1]}" + "x" * 2000}},
    ],
    "OPT032": [{"techniques": [Quantization.awq(ignored_layers=["lm_head", "mlp.gate"])]}],
    "OPT033": [{"environment": {"SM_VLLM_TENSOR_PARALLEL_SIZE": "4"}}],
    "OPT035": [
        {"containers": Lock(jobs={"awq": "djl-inference:0.32.0-lmi14.0.0-cu126", "fp8": "djl-inference:0.0.1"})},
        {"containers": Lock(servers={"awq": images.serving({"awq"}, ["vllm"])[2].name, "eagle": "vllm:0.0.1"})},
    ],
    "OPT273": [
        {"environment": {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}, "server": Server.vllm(adapters=Adapters())},
        {"environment": {"OPTION_MAX_MODEL_LEN": "8K"}, "server": Server.lmi(context_length=8192)},
        {"server": Server.vllm(context_length=8000), "environment": {"SM_VLLM_MAX_MODEL_LEN": "8k"}},
        {"server": Server.vllm(max_concurrent_requests=8), "environment": {"SM_VLLM_MAX_NUM_SEQS": "8"}},
        {"server": Server.vllm(prefix_caching=False), "environment": {"SM_VLLM_ENABLE_PREFIX_CACHING": "false"}},
        {"server": Server.vllm(prefix_caching=True), "environment": {"SM_VLLM_ENABLE_PREFIX_CACHING": "true"}},
        {"server": Server.vllm(adapters=Adapters()), "environment": {"SM_VLLM_MAX_LORAS": "8"}},
        {"server": Server.sglang(context_length=4096), "environment": {"SM_SGLANG_CONTEXT_LENGTH": "4Ki"}},
        {"server": Server.sglang(prefix_caching=True), "environment": {"SM_SGLANG_TP_SIZE": "8"}},
        {"server": Server.lmi(max_concurrent_requests=8), "environment": {"OPTION_MAX_ROLLING_BATCH_SIZE": "8"}},
        {"server": Server.vllm(context_length=4096), "environment": {"SM_VLLM_MAX_MODEL_LEN": "${Token[T.1]}"}},
        {"server": Server.vllm(container_version="0.30"), "environment": {"SM_VLLM_MAX_MODEL_LEN": "4096"}},
    ],
    "OPT289": [
        _of_architecture("LlamaForCausalLM"),
        _of_architecture("Plamo2ForCausalLM"),
        _of_architecture("HeliumForCausalLM"),
        {**_of_architecture("HeliumForCausalLM"), "server": Server.vllm(container_version="0.29")},
        # The planner takes a container whose release has it.
        _of_architecture("BambaForCausalLM"),
        {**_of_architecture("Plamo2ForCausalLM"), "server": Server.vllm(container_version="0.26")},
        {**_of_architecture("MptForCausalLM"), "server": Server.lmi()},
        {**_of_architecture("AcmeForCausalLM"), "server": Server.lmi(container_version="0.38")},
    ],
    "OPT290": [
        _of_method("compressed-tensors"),
        _of_method("compressed-tensors", schemes=(_OF_TENSORS, "a scheme that vLLM was not asked about"))
        | {"instance_type": "ml.p5.4xlarge"},
        _of_method("compressed-tensors", schemes=(_IN_FP8,)) | {"instance_type": "ml.p5.4xlarge"},
        _in_experts("int-quantized: int8 per channel, activations in int8 dynamic per token"),
        {**_of_method("gptq", unstated=("sym",)), "server": Server.vllm(container_version="0.27")},
        _of_method("auto-round"),
        {**_of_method("bitsandbytes"), "server": Server.vllm(container_version="0.27")},
        {**_of_method("bitsandbytes"), "server": Server.sglang()},
        {**_of_method("fbgemm_fp8"), "environment": {"SM_VLLM_ALLOW_DEPRECATED_QUANTIZATION": "true"}},
        {**_of_method("mxfp8"), "instance_type": "ml.g5.12xlarge"},
        {**_of_method("bitsandbytes"), "techniques": [Quantization.fp8(checkpoint=_hub("acme/mine-fp8"))]},
        _of_method("gptq", bits=8, group_size=128, symmetric=True),
        {**_of_method("gptq", bits=3, symmetric=False), "server": Server.vllm(container_version="0.20")},
        {**_of_method("gptq", activation_order=True), "server": Server.vllm(container_version="0.29")},
    ],
    "OPT291": [
        _of_type("llama"),
        _of_type("kimi_k25"),
        {**_of_type("acme"), "model": _hub("acme/mine", allow_code=True)},
        {**_of_type("acme"), "environment": {"SM_VLLM_TRUST_REMOTE_CODE": "true"}},
        {**_of_type("acme"), "environment": {"SM_VLLM_HF_OVERRIDES": '{"model_type": "llama"}'}},
        {**_of_type("acme"), "server": Server.sglang()},
    ],
    "OPT292": [
        {**_of_type("gemma2"), "environment": {"SM_VLLM_DTYPE": "bfloat16"}},
        {**_of_type("llama"), "environment": {"SM_VLLM_DTYPE": "half"}},
        {**_of_type("llama"), "environment": {"SM_VLLM_DTYPE": "float32"}, "instance_type": "ml.g4dn.12xlarge"},
        {**_of_type("gemma2"), "instance_type": "ml.g4dn.12xlarge"},
        {**_of_type("gemma2", quantization=_BITS_4), "instance_type": "ml.g5.12xlarge"},
        {**_of_type("llama", quantization=_BITS_4), "instance_type": "ml.g4dn.12xlarge"},
        {
            **_of_type("gemma2", quantization=StoredQuantization(method="compressed-tensors", bits=4)),
            "instance_type": "ml.g4dn.12xlarge",
        },
        {**_of_method("compressed-tensors"), "environment": {"SM_VLLM_DTYPE": "float32"}},
        {**_of_method("fp8"), "environment": {"SM_VLLM_DTYPE": "half"}},
    ],
    "OPT293": [
        {**_of_type("bloom", attention="ALiBi"), "instance_type": "ml.p5.4xlarge"},
        {**_of_type("bloom", attention="ALiBi"), "instance_type": "ml.g6e.xlarge", "techniques": [KvCache.fp8()]},
        {**_of_type("qwen3", attention=_HEADS_128), "instance_type": "ml.p5.4xlarge", "techniques": [KvCache.fp8()]},
        {
            **_of_type("qwen3", attention=_HEADS_128),
            "instance_type": "ml.g5.12xlarge",
            "environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8_e5m2"},
        },
        {**_LLAMA_8B, "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASHINFER"}},
        {**_LLAMA_8B, "environment": {"SM_VLLM_ATTENTION_BACKEND": "auto", "SM_VLLM_DTYPE": "half"}},
        {
            "model": _hub("deepseek-ai/DeepSeek-V3.1"),
            "techniques": [],
            "instance_type": "ml.p5en.48xlarge",
            "environment": {"SM_VLLM_ATTENTION_BACKEND": "TRITON_MLA"},
        },
        {
            **_of_type("gpt_oss", attention="sinks"),
            "instance_type": "ml.g5.12xlarge",
            "environment": {"SM_VLLM_KV_CACHE_DTYPE": "int8_per_token_head"},
        },
        # A kind of attention that vLLM was not asked about.
        {
            **_of_type("mimo_v2_flash", attention="heads of 112"),
            "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASHINFER"},
        },
        {**_of_type("glm_moe_dsa", attention="sparse latent"), "instance_type": "ml.p5.48xlarge"},
        {
            **_of_type("glm_moe_dsa", attention="sparse latent", has_fp8_cache=True),
            "instance_type": "ml.p5.48xlarge",
            "environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8_ds_mla"},
        },
        _of_type("deepseek_v3", attention="latent", has_fp8_cache=True),
        {**_of_type("qwen3", attention=_HEADS_128, has_fp8_cache=True), "instance_type": "ml.p4d.24xlarge"},
        {
            **_of_type("deepseek_v3", attention="latent", has_fp8_cache=True),
            "environment": {"SM_VLLM_KV_CACHE_DTYPE": "bfloat16"},
            "instance_type": "ml.p4d.24xlarge",
        },
        {
            **_of_type("deepseek_v3", attention="sparse latent", has_fp8_cache=True),
            "server": Server.sglang(),
            "instance_type": "ml.p4d.24xlarge",
        },
    ],
    "OPT307": [
        _of_type("llama"),
        {
            **_of_type("llama", rope_lacks=("yarn.factor",)),
            "environment": {"SM_VLLM_HF_OVERRIDES": '{"rope_parameters": {"rope_type": "default"}}'},
        },
        {**_of_type("llama", rope_lacks=("yarn.factor",)), "server": Server.sglang()},
    ],
    "OPT305": [
        _of_type("llama"),
        _with_fault("sharded_state", environment={"SM_VLLM_LOAD_FORMAT": "sharded_state"}),
        # Another commit can have other files.
        _with_fault(model=Model.huggingface("acme/mine", revision="1" * 40)),
        # A checkpoint replaces the model.
        _with_fault(techniques=[Quantization.fp8(checkpoint=_hub("acme/fp8"))]),
        {**_of_type("llama", has_tokenizer=False), "environment": {"SM_VLLM_TOKENIZER": "acme/other"}},
        {**_of_type("llama", has_tokenizer=False), "environment": {"SM_VLLM_SKIP_TOKENIZER_INIT": "true"}},
        _with_draft(has_tokenizer=False),
    ],
    "OPT306": [
        {**_of_type("llama", pickled=True), "model": _hub("acme/mine", allow_pickle=True)},
        {**_of_type("llama"), "model": _MINE, "containers": Lock(models={_MINE.uri: RecordedModel(pickled=True)})},
        _with_draft(),
    ],
    "OPT296": [_of_architecture("BertModel"), _of_architecture("Qwen3ForCausalLM")],
    "OPT297": [
        {**_of_architecture("BertModel"), "server": Server.vllm()},
        {**_of_architecture("LlamaForCausalLM"), "server": Server.sglang()},
    ],
    "OPT298": [
        {**_of_architecture("BertModel"), "environment": {"SM_VLLM_RUNNER": "pooling"}},
        _for_task("embed", "Qwen3ForCausalLM"),
        _for_task("rerank", "XLMRobertaForSequenceClassification", labels=1),
        _for_task("classify", "BertForSequenceClassification", labels=3),
        {**_for_task("rerank", "Qwen3ForCausalLM"), "environment": {"SM_VLLM_HF_OVERRIDES": _OVERRIDES}},
        _for_task("rerank", "BertModel"),
        _for_task("pool", "LlamaForSequenceClassification", labels=1),
        {**_of_architecture("NewModel"), "environment": {"SM_VLLM_HF_OVERRIDES": '{"architectures": ["GteNewModel"]}'}},
    ],
    "OPT299": [
        _for_task("embed", "Qwen3ForCausalLM"),
        {
            **_for_task("embed", "Qwen3ForCausalLM"),
            "techniques": [Quantization.fp8_dynamic(checkpoint=Model.s3("s3://models/embedder-fp8/"))],
        },
        {**_for_task("embed", "Qwen3ForCausalLM"), "environment": {"SM_VLLM_QUANTIZATION": "fp8"}},
    ],
    "OPT302": [
        *(
            {"environment": {f"SM_VLLM_{name}": value for name, value in given.items()}, **_LLAMA_8B}
            for given in (
                {"MAX_NUM_SEQS": "2048"},
                {"MAX_NUM_SEQS": "4k", "MAX_NUM_BATCHED_TOKENS": "8K"},
                {"MAX_NUM_SEQS": "4000", "NO_ENABLE_CHUNKED_PREFILL": "true"},
                {"MAX_NUM_BATCHED_TOKENS": "4096", "MAX_MODEL_LEN": "4096", "ENABLE_CHUNKED_PREFILL": "false"},
                {"MAX_NUM_BATCHED_TOKENS": "1024", "MAX_MODEL_LEN": "4096"},
                {"LONG_PREFILL_TOKEN_THRESHOLD": "4096", "MAX_MODEL_LEN": "4096"},
                {"ENABLE_LORA": "true", "MAX_LORAS": "4", "MAX_CPU_LORAS": "4"},
                {"MAX_LORAS": "4", "MAX_CPU_LORAS": "2"},
                {"ENABLE_EXPERT_PARALLEL": "false", "BLOCK_SIZE": "48"},
                {"PIPELINE_PARALLEL_SIZE": "1"},
                {"PIPELINE_PARALLEL_SIZE": "2", "NNODES": "2"},
            )
        ),
        {
            "environment": {"SM_VLLM_ENABLE_EXPERT_PARALLEL": "true", "SM_VLLM_ENABLE_EPLB": "true"},
            "model": _hub("Qwen/Qwen3-30B-A3B"),
            "techniques": [],
            "instance_type": "ml.p5.48xlarge",
        },
        {"environment": {"SM_SGLANG_CHUNKED_PREFILL_SIZE": "128"}, "server": Server.sglang(), **_LLAMA_8B},
    ],
    "OPT274": [
        {"environment": {"SM_VLLM_QUANTIZATION": "moe_wna16"}, **_of_method("awq", bits=4)},
        {"environment": {"SM_VLLM_QUANTIZATION": "humming"}, **_of_method("awq", bits=4)},
        {"environment": {"SM_VLLM_QUANTIZATION": "FP8"}, **_of_method("fp8")},
        {"environment": {"SM_VLLM_QUANTIZATION": "fp8"}, **_of_method("modelopt_fp4")},
        {
            "environment": {"SM_VLLM_QUANTIZATION": "fp_quant", "SM_VLLM_ALLOW_DEPRECATED_QUANTIZATION": "true"},
            **_LLAMA_8B,
        },
        {"environment": {"SM_VLLM_QUANTIZATION": "awq"}},
        {"environment": {"SM_VLLM_QUANTIZATION": "fp8"}, **_LLAMA_8B},
        {"environment": {"SM_VLLM_QUANTIZATION": "awq"}, **_QWEN_32B, "model": _hub("Qwen/Qwen3-32B-AWQ")},
    ],
    "OPT056": [
        {"server": Server.vllm(context_length=131_072), **_LLAMA_8B},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "200000", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, **_LLAMA_8B},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "200000", "SM_VLLM_HF_OVERRIDES": "{}"}, **_LLAMA_8B},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "${Token[T.1]}"}, **_LLAMA_8B},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "128K"}, **_LLAMA_8B},
        {"environment": {"SM_SGLANG_CONTEXT_LENGTH": "128Ki"}, "server": Server.sglang(), **_LLAMA_8B},
        {"server": Server.sglang(context_length=131_072), **_LLAMA_8B},
    ],
    "OPT058": [{"server": Server.vllm(adapters=Adapters())}, {"server": Server.lmi(adapters=Adapters())}],
    "OPT059": [
        {"server": Server.sglang(), "model": _MINE, "techniques": [_nvfp4(_MINE)], "instance_type": "ml.p5.48xlarge"},
        {
            "server": Server.sglang(),
            "model": _MINE,
            "techniques": [Quantization.nvfp4(calibration_data="s3://d/s/")],
            **_G7E,
        },
    ],
    "OPT069": [
        {"server": Server.sglang(), "techniques": [_speculator("acme/eagle3")]},
        {"server": Server.sglang(), "techniques": [SpeculativeDecoding.ngram()]},
        {"server": Server.sglang(), "techniques": [SpeculativeDecoding.custom_draft(model=_MINE)]},
        {"techniques": [_speculator("RedHatAI/Qwen3-8B-speculator.eagle3")]},
    ],
    "OPT037": [
        {"server": Server.vllm(container_version="0.27.1")},
        {"server": Server.vllm(container_version="9.9.9-gpu-py312-cu130-sagemaker")},
        {"server": Server.lmi(), "techniques": [_EAGLE]},
        {"server": Server.sglang()},
        {"server": Server.sglang(), "model": _hub("openai/gpt-oss-20b"), "techniques": [], **_G7E},
    ],
    "OPT038": [
        {"environment": {"SM_VLLM_MAX_NUM_SEQS": "8", "VLLM_LOGGING_LEVEL": "DEBUG"}},
        {"environment": {"OPTION_MAX_MODEL_LEN": "8192"}, "server": Server.lmi()},
    ],
    "OPT034": [
        {"environment": {"EOS_TOKEN": "</s>", "SM_VLLM_MAX_TOKENS": "64", "HF_TOKEN": ""}},
        {"environment": {"HF_TOKEN": "{{resolve:secretsmanager:hub}}", "API_KEY": "${Token[T.1]}"}},
        {"environment": {"API_KEY": "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub"}},
        {"environment": {"HTTPS_PROXY": "http://me:{{resolve:secretsmanager:proxy:SecretString:password}}@proxy:3128"}},
        {
            "environment": {
                "USE_AUTH_TOKEN": "false",
                "OPENAI_API_KEY": "EMPTY",
                "MODEL": "sk-learn-text-classification-v1",
            }
        },
        {"environment": {"HOSTS": '{"a": "http://h:80", "b": "x@y"}', "MAILS": "http://h:80,a@b"}},
        _on(environment={"PIP_INDEX_URL": "https://pip.example/simple"}),
        {"model": _copied(environment={"HF_ENDPOINT": "https://hub.example"}), **_G7E},
    ],
    "OPT071": [
        {"techniques": [_nvfp4(_NVFP4)], **_G7E},
        {"techniques": [_nvfp4(_MINE)], **_G7E},
        {"techniques": [Quantization.fp8_dynamic(checkpoint=_FP8)], **_G7E},
        {"techniques": [Quantization.w4a16(checkpoint=_hub("Qwen/Qwen3-32B-AWQ"))], **_G7E},
    ],
    "OPT072": [
        {"model": _QWEN, "techniques": [Quantization.fp8(checkpoint=_FP8), _speculator(_HEADS)], **_G7E},
        {"model": _FP8, "techniques": [Quantization.awq(checkpoint=_hub("Qwen/Qwen3-32B-AWQ"))], **_G7E},
        {"model": _hub("openai/gpt-oss-20b"), "techniques": [_mxfp4("openai/gpt-oss-20b")], **_G7E},
        {"model": _MINE, "techniques": [Quantization.fp8(checkpoint=_FP8), _speculator(_HEADS)], **_G7E},
        {"model": _QWEN, "techniques": [Quantization.fp8(checkpoint=_MINE), _speculator("acme/heads")], **_G7E},
    ],
    "OPT040": [{"techniques": [_awq(), SpeculativeDecoding.sagemaker_draft()]}, {"techniques": [_NEURON], **_TRN1}],
    "OPT041": [{"techniques": [Sharding.fast_load()]}, {"techniques": [_awq(), Sharding.fast_load()]}],
    "OPT042": [{"techniques": [_NEURON], **_TRN1}],
    "OPT043": [{"techniques": [Quantization.smoothquant(), Compilation.tensorrt_llm()]}],
    "OPT044": [{"techniques": [PreOptimized()]}],
    "OPT045": [{"techniques": [SpeculativeDecoding.eagle()]}],
    "OPT046": [{"techniques": [_awq(), Compilation.tensorrt_llm()]}, {"techniques": [_awq(group_size=64)]}],
    "OPT047": [_medusa(), _medusa(base=FineTune(training_data=_DATA))],
    "OPT050": [{}],
    "OPT052": [
        {},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}},
        # Half of the accelerators hold little more than a chat's context, and the plan sets the server's limit to it.
        {"techniques": [_awq(tensor_parallel_degree=2)]},
    ],
    "OPT054": [
        _FALCON_7B | {"techniques": [_awq(tensor_parallel_degree=1, group_size=64)]},
        _FALCON_7B | {"techniques": [Quantization.fp8(tensor_parallel_degree=1)]},
        {},
        _NARROW,
        {**_NARROW, "techniques": [_awq(group_size=64)]},
        {**_NARROW, "techniques": [Quantization.fp8_dynamic()]},
        {
            **_EXPERTS,
            "techniques": [Quantization.fp8_block()],
            "environment": {"SM_VLLM_ENABLE_EXPERT_PARALLEL": "true"},
        },
        {**_GLM_4V, "instance_type": "ml.g6e.12xlarge"},
        {**_GLM_4V, "environment": {"SM_VLLM_MM_ENCODER_TP_MODE": "data"}},
        {**_GLM_4V, "environment": {"SM_VLLM_LANGUAGE_MODEL_ONLY": "true"}},
        {**_GLM_4V, "environment": {"SM_VLLM_LIMIT_MM_PER_PROMPT": '{"image": 0, "video": 0}'}},
        {**_GLM_4V, "server": Server.sglang()},
        # Copied to every accelerator, and run by other code.
        _encoder("Qwen3ASRForConditionalGeneration", audio=Split(heads=20, width=5124)),
        _encoder("Gemma4ForConditionalGeneration", vision=Split(heads=12, width=3073)),
    ],
    "OPT060": [{"techniques": [SpeculativeDecoding.sagemaker_draft()]}],
    "OPT061": [{"techniques": [SpeculativeDecoding.sagemaker_draft()], "region": "eu-west-1"}],
    "OPT062": [
        {"techniques": [SpeculativeDecoding.sagemaker_draft()], "environment": {"HF_TRUST_REMOTE_CODE": "false"}}
    ],
    "OPT063": [
        {
            "techniques": [
                SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-2-1b", version="1.0.0")
            ]
        }
    ],
    "OPT064": [
        {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="huggingface-llm-gemma-2b", accept_eula=True)]}
    ],
    "OPT065": [
        {"techniques": [SpeculativeDecoding.custom_draft(uri="s3://drafts/one/")]},
        {"techniques": [SpeculativeDecoding.custom_draft(uri="${Token[T.1]}")]},
        {"techniques": [SpeculativeDecoding.eagle(training_data="s3://prompts/mine")]},
    ],
    "OPT067": [{"techniques": [PreOptimized(config="lmi-optimized")]}],
    "OPT250": [
        {
            "environment": {"SM_VLLM_LORA_MODULES": '[{"name": "a", "path": "/x"}, {"name": "b", "path": "/y"}]'},
            "server": Server.vllm(container_version="0.30"),
        },
        {
            "environment": {"SM_VLLM_LORA_MODULES": '[{"name": "a", "path": "/x"}]'},
            "server": Server.vllm(container_version="0.26"),
        },
        {"environment": {"SM_VLLM_HF_OVERRIDES": '{\n "a": 1\n}'}, "server": Server.vllm(container_version="0.26")},
        {"environment": {"SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS": '{\n "a": 1\n}'}, "server": Server.sglang()},
        {"environment": {"SM_VLLM_ALLOWED_ORIGINS": '["a", "b"]'}, "server": Server.vllm(container_version="0.30")},
        {"environment": {"OPTION_A": "a\nb"}, "server": Server.lmi()},
        {"environment": {"NOTE": "a\nSM_SGLANG_TP=1"}, "server": Server.vllm(container_version="0.27.1")},
        {"environment": {"NOTE": "SM_SGLANG_TP=1\na"}, "server": Server.sglang()},
        {"environment": {"NOTE": "a\nSM_VLLM_TRUST_REMOTE_CODE=true"}, "server": Server.vllm(container_version="0.30")},
    ],
    "OPT211": [_trained_on(_CAPTURED), _trained_on(_CAPTURED.during("2026-10-31"))],
    "OPT212": [_trained_on(_CAPTURED)],
    "OPT068": [
        {
            "techniques": [
                SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-8b", accept_eula=True)
            ]
        },
        {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="of-my-own")]},
        {
            "model": Model.s3("s3://models/mine/"),
            "techniques": [
                SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-2-7b", accept_eula=True)
            ],
        },
    ],
    "OPT160": [_medusa(training_data="${Token[T.1]}"), _tuned(validation_data="s3://data/validation")],
    "OPT162": [_on(instance_type="ml.p5.48xlarge"), _medusa()],
    "OPT163": [_medusa(), _tuned(), _on(instance_type="ml.g5.4xlarge")],
    "OPT164": [_on(instance_count=2, keep_alive_seconds=3600, environment={"PIP_INDEX_URL": "https://pip.example"})],
    "OPT165": [_on(spot=True), _on(keep_alive_seconds=600)],
    "OPT167": [
        {"techniques": [_w4a16()]},
        {"techniques": [Quantization.fp8_block()]},
        {"techniques": [_nvfp4(_MINE)], **_G7E},
    ],
    "OPT168": [{"techniques": [_w4a16()]}],
    "OPT169": [{"model": _copied(instance_type="ml.m5.4xlarge", volume_size_gb=500, spot=False), **_G7E}],
}

# rule, changes, location of the violation, part of the reason or suggestion
_TWO = '[{"name": "a", "path": "/x"}, {"name": "b", "path": "/y"}]'
_GIVEN_DEGREE = {"environment": {"SM_VLLM_TENSOR_PARALLEL_SIZE": "2"}}
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("OPT001", {"model": LLAMA_70B}, "model", "Model.jumpstart"),
    ("OPT001", {"model": None}, "model", "Model.s3"),
    ("OPT002", {"model": Model.jumpstart("meta-textgeneration-lama-3-70b-instruct")}, "model", LLAMA_70B),
    ("OPT002", {"model": Model.jumpstart("no such thing")}, "model", "Model.s3"),
    ("OPT002", {"model": Model.jumpstart("Qwen/Qwen3-32B")}, "model", 'Model.huggingface("Qwen/Qwen3-32B")'),
    ("OPT002", {"model": Model.jumpstart("Qwen3-32B")}, "model", "did you mean Qwen/Qwen3-32B? "),
    ("OPT002", {"model": Model.jumpstart("qwen3-32b")}, "model", "a Hugging Face model ID without its owner"),
    ("OPT002", {"model": Model.jumpstart("${Token[TOKEN.7]}")}, "model", "known only at deployment"),
    ("OPT003", {"model": Model.jumpstart(LLAMA_70B, version="latest", accept_eula=True)}, "model.version", "2.25.0"),
    ("OPT003", {"model": Model.jumpstart(LLAMA_70B, version="*", accept_eula=True)}, "model.version", "list-hub"),
    ("OPT004", {"model": Model.jumpstart(LLAMA_70B)}, "model.accept_eula", "accept_eula=True"),
    ("OPT005", {"model": Model.s3("https://example.com/model")}, "model.uri", "s3://"),
    ("OPT005", {"model": Model.s3("s3://My_Bucket/model/")}, "model.uri", "My_Bucket"),
    ("OPT005", {"model": Model.s3("s3:///model/")}, "model.uri", "bucket"),
    ("OPT005", {"model": Model.s3("s3://models/llama/model.tar.gz")}, "model.uri", "unpack"),
    ("OPT005", {"model": Model.s3("s3://models/" + "x" * 1100)}, "model.uri", "1024"),
    ("OPT001", {"techniques": [_nvfp4(Model.jumpstart(LLAMA_70B))]}, "techniques[0].checkpoint", "Model.s3"),
    ("OPT005", {"techniques": [_nvfp4(Model.s3("s3:///model/"))]}, "techniques[0].checkpoint.uri", "bucket"),
    ("OPT008", {"model": Model.huggingface("Qwen3-32B", revision=_COMMIT), **_G7E}, "model", "did you mean Qwen/Qwen3-32B?"),
    ("OPT008", {"model": Model.huggingface("a/b/c", revision=_COMMIT), **_G7E}, "model", "Qwen/Qwen3-32B"),
    ("OPT008", {"model": _hub("meta-llama/llama-3.3-70b-instruct"), **_G7E}, "model", "did you mean meta-llama/Llama-3.3-70B-Instruct?"),
    *(
        ("OPT008", {"model": _hub(given), **_G7E}, "model", f"did you mean {meant}?")
        for given, meant in (
            ("https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
            ("https://huggingface.co/Qwen/Qwen3-32B/tree/main", "Qwen/Qwen3-32B"),
            ("huggingface.co/Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
            ("hf://Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
            ("Qwen/Qwen3-32B:main", "Qwen/Qwen3-32B"),
            ("Qwen/Qwen3-32B@main", "Qwen/Qwen3-32B"),
        )
    ),
    ("OPT008", {"model": _hub("./models/llama"), **_G7E}, "model", 'Model.s3("s3://my-bucket/models/llama/")'),
    ("OPT008", {"model": _hub("/opt/models/llama"), **_G7E}, "model", "this is a path on one machine"),
    ("OPT008", {"model": _hub("S3://models/mine"), **_G7E}, "model", 'Model.s3("s3://models/mine")'),
    ("OPT005", {"model": Model.s3("s3://models/llama/model-00001-of-00004.safetensors")}, "model.uri", "s3://models/llama/"),
    ("OPT005", {"model": Model.s3("s3://models/llama/config.json")}, "model.uri", "this is one file of a model"),
    ("OPT008", {"model": _hub("s3://models/mine"), **_G7E}, "model", 'Model.s3("s3://models/mine")'),
    ("OPT008", {"model": _hub("google/gemma-4-31B-it"), "techniques": [_nvfp4(_hub("Nvidia/gemma-4-31B-it-NVFP4"))], **_G7E}, "techniques[0].checkpoint", "with different capitalization"),
    ("OPT008", {"model": Model.huggingface("${Token[T.1]}", revision=_COMMIT), **_G7E}, "model", "is a token"),
    ("OPT017", {"model": Model.huggingface("Qwen/Qwen3-32B", revision="main"), **_G7E}, "model.revision", "lock --model Qwen/Qwen3-32B"),
    ("OPT017", {"model": Model.huggingface("Qwen/Qwen3-32B"), **_G7E}, "model.revision", "the lock file has no commit of Qwen/Qwen3-32B"),
    ("OPT017", {"techniques": [_nvfp4(Model.huggingface("nvidia/Llama"))], **_G7E}, "techniques[0].checkpoint.revision", "lock --model nvidia/Llama"),
    ("OPT018", {"model": Model.huggingface("meta-llama/Llama-3.1-8B"), "containers": _GATED, **_G7E}, "model.token_secret_arn", "accept the terms"),
    ("OPT018", {"model": Model.huggingface("meta-llama/Llama-3.1-8B", token_secret_arn="hf_1"), "containers": _GATED, **_G7E}, "model.token_secret_arn", "secret.secret_arn"),
    ("OPT018", {"model": Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT, encryption_key_arn=_KEY), **_G7E}, "model.encryption_key_arn", "this key decrypts the secret"),
    ("OPT023", {"model": Model.huggingface("Qwen/Qwen3-32B-FP8", revision=_COMMIT), "instance_type": "ml.p4d.24xlarge"}, "techniques[0]", "already quantized"),
    ("OPT028", {"model": _copied(instance_type="ml.m5.xlarg"), **_G7E}, "model.compute.instance_type", "ml.m5.xlarge"),
    ("OPT028", {"model": _copied(instance_type="ml.c6g.4xlarge"), **_G7E}, "model.compute.instance_type", "did you mean ml.c"),
    ("OPT028", {"model": _copied(instance_type="ml.inf2.xlarge"), **_G7E}, "model.compute.instance_type", "no training instance type"),
    ("OPT028", _on(instance_type="ml.g5.9xlarge"), "techniques[0].compute.instance_type", "ml.g5.8xlarge"),
    ("OPT028", {"techniques": [_w4a16(compute=TrainingCompute(instance_type="ml.c5d.xlarge"))]}, "techniques[0].compute.instance_type", "ml.c5"),
    ("OPT037", {"model": Model.huggingface("Qwen/Qwen3.6-27B", revision=_COMMIT), "server": Server.lmi(container_version="0.36.0-lmi18"), **_G7E}, "server.container_version", "lmi28"),
    ("OPT049", {"model": _PINNED}, "model.manifest_uri", "the job of awq reads the whole prefix"),
    ("OPT049", {"model": Model.s3("s3://models/mine/", manifest_etag="0a"), "techniques": [SpeculativeDecoding.ngram()]}, "model.manifest_etag", "also set manifest_uri"),
    ("OPT049", {"model": Model.s3("s3://models/mine/", manifest_uri="s3://models/"), "techniques": [SpeculativeDecoding.ngram()]}, "model.manifest_uri", "a single file in S3"),
    ("OPT009", {"model": Model.s3("s3://models/mine", encryption_key_arn="alias/m")}, "model.encryption_key_arn", "key_arn"),
    ("OPT010", {"instance_type": "ml.g5.12xlage"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT010", {"instance_type": "g5.12xlarge"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT010", {"instance_type": 12}, "instance_type", "an instance type is a string"),
    ("OPT010", {"instance_type": "${Token[TOKEN.7]}"}, "instance_type", "known only at deployment"),
    ("OPT011", {"instance_type": "ml.m5.xlarge"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT012", {"instance_type": "ml.inf2.48xlarge"}, "instance_type", "g5"),
    *(
        ("OPT012", {"model": _hub("acme/mine"), "techniques": [technique], "instance_type": "ml.inf2.48xlarge"}, "instance_type", f"{technique.name} (techniques[0]) does not run on")
        for technique in (
            _awq(), Quantization.fp8(), Quantization.smoothquant(), _w4a16(), Quantization.fp8_block(),
            Quantization.fp8_dynamic(), Quantization.mxfp4(checkpoint=_MINE), _nvfp4(_MINE), KvCache.fp8(),
            Compilation.tensorrt_llm(), Sharding.fast_load(), FineTune(training_data=_DATA), Medusa(training_data=_DATA),
            _DRAFT, _EAGLE, SpeculativeDecoding.ngram(), SpeculativeDecoding.mtp(), _speculator("acme/heads"),
            SpeculativeDecoding.custom_draft(model=_MINE), SpeculativeDecoding.jumpstart_draft(model_id="of-my-own"),
        )
    ),
    ("OPT012", {"model": _LLAMA, "techniques": [KvCache.fp8()], "instance_type": "ml.g5.12xlarge"}, "instance_type", "g6, g6e, g7, g7e, p5, p5e, p5en, p6-b200, p6-b300"),
    ("OPT012", {"model": _hub("amd/gpt-oss-120b-w-mxfp4-a-fp8"), "techniques": [], "instance_type": "ml.g4dn.12xlarge"}, "instance_type", "MXFP4"),
    ("OPT012", {"model": _hub("openai/gpt-oss-20b"), "techniques": [], "instance_type": "ml.g4dn.xlarge"}, "instance_type", "the weights of openai/gpt-oss-20b are MXFP4"),
    ("OPT071", {"model": _hub("openai/gpt-oss-120b"), "techniques": [Quantization.fp8(checkpoint=_hub("openai/gpt-oss-120b"))], **_G7E}, "techniques[0].checkpoint", "Quantization.mxfp4(checkpoint=...)"),
    ("OPT037", {"model": _hub("openai/gpt-oss-120b"), "techniques": [], "server": Server.text_generation_inference(), **_G7E}, "server", "openai/gpt-oss-120b, whose weights are MXFP4"),
    ("OPT071", {"techniques": [_awq(checkpoint=_NVFP4)], **_G7E}, "techniques[0].checkpoint", "Quantization.nvfp4(checkpoint=...)"),
    ("OPT071", {"techniques": [Quantization.fp8(checkpoint=_hub("RedHatAI/Meta-Llama-3.1-8B-quantized.w8a8"))], **_G7E}, "techniques[0].checkpoint", "as the model, without Quantization.fp8"),
    ("OPT071", {"techniques": [_nvfp4(_hub("acme/mine"))], "containers": _MXFP4, **_G7E}, "techniques[0].checkpoint", "Quantization.mxfp4(checkpoint=...)"),
    ("OPT071", {"model": _QWEN, "techniques": [Quantization.fp8(checkpoint=_QWEN)], **_G7E}, "techniques[0].checkpoint", 'Model.huggingface("Qwen/Qwen3-32B-FP8"), or leave checkpoint out'),
    ("OPT072", {"model": _QWEN, "techniques": [Quantization.fp8(checkpoint=_OF_LLAMA)], **_G7E}, "techniques[0].checkpoint", 'Model.huggingface("Qwen/Qwen3-32B-FP8"), or Model.huggingface("meta-llama/Llama-3.3-70B-Instruct") as the model'),
    ("OPT072", {"model": _hub("openai/gpt-oss-120b"), "techniques": [_mxfp4("openai/gpt-oss-20b")], **_G7E}, "techniques[0].checkpoint", "openai/gpt-oss-20b is another model"),
    ("OPT072", {"model": _hub("acme/mine"), "techniques": [Quantization.fp8(checkpoint=_hub("acme/mine-fp8"))], "containers": _SHAPES, **_G7E}, "techniques[0].checkpoint", "acme/mine-fp8 has 48 layers, and acme/mine 64"),
    ("OPT072", {"model": _QWEN, "techniques": [_speculator(_HEADS_OF_8B)], **_G7E}, "techniques[0].model", _HEADS),
    ("OPT037", {"model": _hub("acme/mine"), "techniques": [], "server": Server.sglang(), "containers": _MXFP4, **_G7E}, "server", "no SGLang image can serve acme/mine, whose weights are MXFP4"),
    ("OPT037", {"model": _hub("acme/mine"), "techniques": [], "server": Server.lmi(), "containers": _MXFP4, **_G7E}, "server", "Server.vllm()"),
    ("OPT034", {"model": _copied(environment={"HF_TOKEN": _TOKEN_OF_HUB}), **_G7E}, "model.compute.environment.HF_TOKEN", "token_secret_arn=secret.secret_arn"),
    ("OPT034", {"techniques": [_nvfp4(_copied(environment={"HF_TOKEN": _TOKEN_OF_HUB}))], **_G7E}, "techniques[0].checkpoint.compute.environment.HF_TOKEN", "a Hugging Face token"),
    ("OPT034", {"techniques": [SpeculativeDecoding.speculator(model=_copied(environment={"HF_TOKEN": _TOKEN_OF_HUB}))], **_G7E}, "techniques[0].model.compute.environment.HF_TOKEN", "a Hugging Face token"),
    ("OPT164", {"model": _copied(environment={"A": "x" * 513}), **_G7E}, "model.compute.environment.A", "512"),
    ("OPT169", {"model": _copied(spot=True), **_G7E}, "model.compute.spot", "instance_type, volume_size_gb, environment"),
    ("OPT169", {"model": _copied(environment={"TOKEN_SECRET_ARN": _TOKEN}), **_G7E}, "model.compute.environment.TOKEN_SECRET_ARN", "token_secret_arn=secret.secret_arn"),
    ("OPT169", {"model": _copied(instance_count=4), **_G7E}, "model.compute.instance_count", "leave it out"),
    ("OPT169", {"techniques": [_nvfp4(_copied(keep_alive_seconds=600))], **_G7E}, "techniques[0].checkpoint.compute.keep_alive_seconds", "leave it out"),
    ("OPT029", {"environment": {"SM_VLLM_ENFORCE_EAGER": "1"}}, "environment.SM_VLLM_ENFORCE_EAGER", "such as true or false"),
    ("OPT029", {"environment": {"SM_VLLM_ENFORCE_EAGER": "yes"}}, "environment.SM_VLLM_ENFORCE_EAGER", "such as true or false"),
    ("OPT029", {"environment": {"SM_VLLM_NO_ENFORCE_EAGER": "1"}}, "environment.SM_VLLM_NO_ENFORCE_EAGER", "such as true or false"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": ""}}, "environment.SM_VLLM_MAX_MODEL_LEN", "a whole number such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "4096.0"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "a whole number such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "25.6K"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "a whole number such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "true"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "a whole number such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_KV_CACHE_DTYPE": ""}}, "environment.SM_VLLM_KV_CACHE_DTYPE", "one of"),
    ("OPT029", {"environment": {"SM_SGLANG_ENABLE_METRICS": " true"}, "server": Server.sglang()}, "environment.SM_SGLANG_ENABLE_METRICS", "such as true or false"),
    ("OPT262", {"environment": {"SM_VLLM_PORT": "9000"}}, "environment.SM_VLLM_PORT", "8080, or leave it out"),
    ("OPT262", {"environment": {"SM_VLLM_HOST": "127.0.0.1"}}, "environment.SM_VLLM_HOST", "0.0.0.0, or leave it out"),
    ("OPT262", {"environment": {"SM_VLLM_UDS": "/tmp/vllm"}}, "environment.SM_VLLM_UDS", "no port"),
    ("OPT262", {"environment": {"SM_VLLM_SSL_KEYFILE": "/opt/ml/model/key.pem"}}, "environment.SM_VLLM_SSL_KEYFILE", "by HTTP"),
    ("OPT262", {"environment": {"SM_SGLANG_HOST": "localhost"}, "server": Server.sglang()}, "environment.SM_SGLANG_HOST", "0.0.0.0, or leave it out"),
    ("OPT065", {"techniques": [SpeculativeDecoding.custom_draft(uri="s3://a..b/one/")]}, "techniques[0].uri", "is not a bucket name"),
    ("OPT055", {"techniques": [], "instance_type": "ml.inf2.48xlarge"}, "instance_type", "techniques=[Compilation.neuron()], or"),
    ("OPT055", {"techniques": [], "instance_type": "ml.trn2.48xlarge"}, "instance_type", "an instance type with GPUs, such as"),
    ("OPT055", {"techniques": [], "server": Server.vllm(), **_TRN1}, "instance_type", "has Neuron devices"),
    ("OPT055", {"techniques": [], "server": Server.lmi(container_version="0.29.0-neuronx-sdk2.19.1")}, "server.container_version", "is for Neuron devices"),
    ("OPT014", {"region": "us-wset-2"}, "region", "us-west-2"),
    ("OPT014", {"region": "the-moon"}, "region", "us-west-2"),
    ("OPT015", {"techniques": [_NEURON], "region": "us-west-1", **_TRN1}, "region", "0.29.0-neuronx-sdk2.19.1"),
    ("OPT015", {"techniques": [Compilation.tensorrt_llm()], "region": "eusc-de-east-1"}, "region", "tensorrtllm"),
    ("OPT015", {"techniques": [Sharding.fast_load()], "region": "us-isof-east-1"}, "region", "a Region other than"),
    ("OPT015", {"server": Server.vllm(container_version="0.30"), "region": "cn-north-1"}, "region", "vllm:0.30.0"),
    ("OPT016", {"jobs": JobSettings(28 * 86_400 + 1)}, "jobs.max_runtime", "Duration.days(28)"),
    ("OPT016", {"jobs": JobSettings(0)}, "jobs.max_runtime", "Duration.seconds(1) to"),
    ("OPT016", {"jobs": JobSettings(max_pending_seconds=60)}, "jobs.max_pending", "Duration.minutes(30) to"),
    ("OPT048", {"jobs": _reserved("llama")}, "jobs.capacity_reservation.arn", "training-plan/"),
    ("OPT048", {"jobs": _reserved(_PLAN.replace("training-plan", "reserved-capacity"))}, "jobs.capacity_reservation.arn", "training-plan/"),
    ("OPT048", {"jobs": _reserved(_PLAN), "region": "us-east-1"}, "jobs.capacity_reservation.arn", "a training plan in us-east-1"),
    ("OPT048", _on(spot=True) | {"jobs": _reserved(_PLAN)}, "techniques[0].compute.spot", "spot=False"),
    ("OPT020", {"techniques": Quantization.awq()}, "techniques", "techniques=[Quantization.awq()]"),
    ("OPT020", {"techniques": _DRAFT}, "techniques", "techniques=[SpeculativeDecoding.sagemaker_draft()]"),
    ("OPT020", {"techniques": "fp8"}, "techniques", "techniques=[Quantization.fp8()]"),
    ("OPT020", {"techniques": ["awq"]}, "techniques[0]", "Quantization.awq()"),
    ("OPT020", {"techniques": ["quantization=awq"]}, "techniques[0]", "Quantization.awq()"),
    ("OPT020", {"techniques": ["fp8-block"]}, "techniques[0]", "In Python: Quantization.fp8_block()"),
    ("OPT020", {"techniques": ["quantization=awq,groupsize=64"]}, "techniques[0]", "group_size"),
    ("OPT020", {"techniques": ["quantization=awq,groupsize=64"]}, "techniques[0]", "has no setting 'groupsize'"),
    ("OPT020", {"techniques": ["speculative_decoding=speculator"]}, "techniques[0]", "speculative_decoding=speculator lacks model"),
    ("OPT020", {"techniques": ["quantization=awq,64"]}, "techniques[0]", "'64' is not setting=value"),
    ("OPT020", {"techniques": ["quantization=gptq"]}, "techniques[0]", "did you mean quantization=w4a16?"),
    ("OPT037", {"server": "tgi"}, "server", "did you mean text_generation_inference?"),
    ("OPT037", {"server": "vllm,context_lenght=8192"}, "server", "did you mean context_length?"),
    ("OPT037", {"server": "vllm,context_lenght=8192"}, "server", "vllm has no setting 'context_lenght'"),
    ("OPT037", {"server": "triton"}, "server", "no server has this name"),
    ("OPT037", {"server": Server.vllm}, "server", "this is the class of a server"),
    ("OPT020", {"techniques": ["smaller"]}, "techniques[0]", "a kind of technique"),
    ("OPT020", {"techniques": [Quantization]}, "techniques[0]", "one of Quantization.awq()"),
    ("OPT020", {"techniques": [SpeculativeDecoding.jumpstart_draft]}, "techniques[0]", "SpeculativeDecoding.jumpstart_draft(model_id=...)"),
    ("OPT020", {"techniques": [Medusa]}, "techniques[0]", "class of a technique"),
    ("OPT020", {"techniques": [object()]}, "techniques[0]", "not a technique"),
    ("OPT022", {"techniques": [Quantization.awq(), Quantization.awq(group_size=64)]}, "techniques[1]", "techniques[0]"),
    ("OPT022", {"techniques": [Quantization.awq()] * 2}, "techniques[1]", "no job can apply a second technique of the same kind"),
    ("OPT022", {"techniques": [SpeculativeDecoding.ngram(), SpeculativeDecoding.mtp()], "model": _hub("Qwen/Qwen3.5-27B"), **_G7E}, "techniques[1]", "the server supports only one speculative decoding, and ngram is already one"),
    ("OPT023", {"model": Model.jumpstart("huggingface-llm-falcon-180b-bf16"), "techniques": [_DRAFT]}, "techniques[0]", "publishes no SageMaker draft model for"),
    ("OPT024", {"techniques": [_awq(tensor_parallel_degree=3)]}, "techniques[0].tensor_parallel_degree", "1, 2, 4"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_NUM_SEQZ": "8"}}, "environment.SM_VLLM_MAX_NUM_SEQZ", "SM_VLLM_MAX_NUM_SEQS"),
    ("OPT029", {"environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp7"}}, "environment.SM_VLLM_KV_CACHE_DTYPE", "did you mean fp8"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_NUM_SEQS": "many"}}, "environment.SM_VLLM_MAX_NUM_SEQS", "a whole number"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "true"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": "ngram"}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", "JSON"),
    ("OPT029", {"environment": {"SM_SGLANG_MEM_FRACTION": "x"}, "server": Server.sglang()}, "environment.SM_SGLANG_MEM_FRACTION", "a number"),
    ("OPT029", {"environment": {"SM_SGLANG_GPU_MEMORY_UTILIZATION": "0.9"}, "server": Server.sglang()}, "environment.SM_SGLANG_GPU_MEMORY_UTILIZATION", "SGLang 0.5.20 has no argument --gpu-memory-utilization"),
    ("OPT029", {"server": Server.sglang(tool_call_parser="hermess")}, "server.tool_call_parser", "did you mean hermes"),
    ("OPT029", {"server": Server.vllm(tool_call_parser="hermess")}, "server.tool_call_parser", "did you mean hermes"),
    ("OPT029", {"environment": {"SM_VLLM_REASONING_PARSER": "qwen33"}}, "environment.SM_VLLM_REASONING_PARSER", "did you mean qwen3"),
    ("OPT029", {"server": Server.vllm(tool_call_parser="kimi_k3", container_version="0.26.0")}, "server.tool_call_parser", "kimi_k2"),
    ("OPT056", {"server": Server.vllm(context_length=1_000_000), **_LLAMA_8B}, "server.context_length", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"),
    ("OPT056", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "200k"}, **_LLAMA_8B}, "environment.SM_VLLM_MAX_MODEL_LEN", "131072 or less"),
    ("OPT056", {"server": Server.vllm(context_length=1_000_000), **_LLAMA_8B_ON_A_SMALL_GPU}, "server.context_length", "25600 or less"),
    ("OPT056", {"server": Server.sglang(), "environment": {"SM_SGLANG_CONTEXT_LENGTH": "1M"}, **_LLAMA_8B}, "environment.SM_SGLANG_CONTEXT_LENGTH", "131072 or less"),
    ("OPT056", {"server": Server.lmi(context_length=200_000), **_LLAMA_8B}, "server.context_length", "131072 or less; or OPTION_HF_OVERRIDES"),
    ("OPT056", {"server": Server.sglang(), "environment": {"SM_SGLANG_CONTEXT_LENGTH": "200000"}, **_LLAMA_8B}, "environment.SM_SGLANG_CONTEXT_LENGTH", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"),
    ("OPT058", {"server": Server.sglang(adapters=Adapters())}, "server.adapters", "Server.vllm(adapters=...)"),
    ("OPT059", {"server": Server.sglang(), "model": _MINE, "techniques": [Quantization.nvfp4(calibration_data="s3://d/s/")], "instance_type": "ml.p5.48xlarge"}, "techniques[0]", "Server.vllm()"),
    ("OPT069", {"server": Server.sglang(), "techniques": [_speculator("acme/b.medusa")]}, "techniques[0]", "SGLang does not support medusa"),
    ("OPT069", {"server": Server.sglang(), "techniques": [_speculator("RedHatAI/Qwen3-8B-speculator.eagle3")]}, "techniques[0].model", "SGLang cannot read"),
    ("OPT069", {"server": Server.sglang(container_version="0.5.15"), "techniques": [_speculator("acme/dspark")]}, "techniques[0]", "0.5.16 or newer"),
    ("OPT029", {"environment": {"SM_SGLANG_CONTEXT_LENGTH": "8K"}, "server": Server.sglang()}, "environment.SM_SGLANG_CONTEXT_LENGTH", "such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8Ki"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "such as 8192 or 8k"),
    ("OPT029", {"environment": {"SM_VLLM_GPU_MEMORY_UTILIZATION": "95"}}, "environment.SM_VLLM_GPU_MEMORY_UTILIZATION", "a number, greater than 0 and 1 or less"),
    ("OPT029", {"environment": {"SM_VLLM_GPU_MEMORY_UTILIZATION": "nan"}}, "environment.SM_VLLM_GPU_MEMORY_UTILIZATION", "greater than 0 and 1 or less"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_NUM_SEQS": "-4"}}, "environment.SM_VLLM_MAX_NUM_SEQS", "a whole number, 1 or greater"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "0"}}, "environment.SM_VLLM_MAX_NUM_BATCHED_TOKENS", "a whole number, 1 or greater"),
    ("OPT273", {"server": Server.vllm(context_length=4096), "environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "server.context_length is 4096"),
    ("OPT273", {"server": Server.vllm(max_concurrent_requests=8), "environment": {"SM_VLLM_MAX_NUM_SEQS": "4"}}, "environment.SM_VLLM_MAX_NUM_SEQS", "leave max_concurrent_requests out"),
    ("OPT273", {"server": Server.vllm(max_concurrent_requests=8), "environment": {"SM_VLLM_MAX_NUM_SEQ": "4"}}, "environment.SM_VLLM_MAX_NUM_SEQ", "server.max_concurrent_requests is 8"),
    ("OPT273", {"server": Server.vllm(prefix_caching=True), "environment": {"SM_VLLM_NO_ENABLE_PREFIX_CACHING": "true"}}, "environment.SM_VLLM_NO_ENABLE_PREFIX_CACHING", "server.prefix_caching is True"),
    ("OPT273", {"server": Server.vllm(chunked_prefill=False), "environment": {"SM_VLLM_ENABLE_CHUNKED_PREFILL": "true"}}, "environment.SM_VLLM_ENABLE_CHUNKED_PREFILL", "server.chunked_prefill is False"),
    ("OPT273", {"server": Server.vllm(tool_call_parser="hermes"), "environment": {"SM_VLLM_TOOL_CALL_PARSER": "qwen3_xml"}}, "environment.SM_VLLM_TOOL_CALL_PARSER", "server.tool_call_parser is 'hermes'"),
    ("OPT273", {"server": Server.vllm(reasoning_parser="qwen3"), "environment": {"SM_VLLM_REASONING_PARSER": "deepseek_r1"}}, "environment.SM_VLLM_REASONING_PARSER", "server.reasoning_parser is 'qwen3'"),
    ("OPT273", {"server": Server.vllm(adapters=Adapters(max_loaded=2)), "environment": {"SM_VLLM_MAX_LORAS": "8"}}, "environment.SM_VLLM_MAX_LORAS", "server.adapters is set"),
    ("OPT273", {"server": Server.vllm(adapters=Adapters()), "environment": {"SM_VLLM_ENABLE_LORA": "false"}}, "environment.SM_VLLM_ENABLE_LORA", "server.adapters is set"),
    ("OPT273", {"server": Server.sglang(context_length=4096), "environment": {"SM_SGLANG_CONTEXT_LENGTH": "8192"}}, "environment.SM_SGLANG_CONTEXT_LENGTH", "server.context_length is 4096"),
    ("OPT273", {"server": Server.sglang(prefix_caching=True), "environment": {"SM_SGLANG_DISABLE_RADIX_CACHE": "true"}}, "environment.SM_SGLANG_DISABLE_RADIX_CACHE", "server.prefix_caching is True"),
    ("OPT273", {"server": Server.sglang(chunked_prefill=False), "environment": {"SM_SGLANG_CHUNKED_PREFILL_SIZE": "4096"}}, "environment.SM_SGLANG_CHUNKED_PREFILL_SIZE", "server.chunked_prefill is False"),
    ("OPT273", {"server": Server.lmi(max_concurrent_requests=8), "environment": {"OPTION_MAX_ROLLING_BATCH_SIZE": "4"}}, "environment.OPTION_MAX_ROLLING_BATCH_SIZE", "server.max_concurrent_requests is 8"),
    ("OPT273", {"server": Server.lmi(max_concurrent_requests=8), "environment": {"OPTION_MAX_NUM_SEQS": "4"}}, "environment.OPTION_MAX_NUM_SEQS", "server.max_concurrent_requests is 8"),
    ("OPT273", {"server": Server.lmi(prefix_caching=False), "environment": {"OPTION_ENABLE_PREFIX_CACHING": "true"}}, "environment.OPTION_ENABLE_PREFIX_CACHING", "server.prefix_caching is False"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "awq"}, **_LLAMA_8B}, "environment.SM_VLLM_QUANTIZATION", "quantize the weights with a technique"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "gptq"}, **_QWEN_32B}, "environment.SM_VLLM_QUANTIZATION", "leave the variable out"),
    ("OPT274", {"environment": {"OPTION_QUANTIZE": "awq"}, "server": Server.lmi(), **_LLAMA_8B}, "environment.OPTION_QUANTIZE", "leave the variable out"),
    ("OPT029", {"environment": {"SM_VLLM_SWAP_SPACE": "8"}}, "environment.SM_VLLM_SWAP_SPACE", "vLLM 0.30.0 has no argument --swap-space"),
    ("OPT029", {"environment": {"SM_VLLM_SSE_KEEP_ALIVE_INTERVAL": "5"}, "server": Server.vllm(container_version="0.28")}, "environment.SM_VLLM_SSE_KEEP_ALIVE_INTERVAL", "vLLM 0.28.0"),
    ("OPT250", {"environment": {"SM_VLLM_LORA_MODULES": _TWO}, "server": Server.vllm(container_version="0.27.1")}, "environment.SM_VLLM_LORA_MODULES", "0.28.0 or newer"),
    ("OPT250", {"environment": {"SM_VLLM_LORA_MODULES": _TWO[1:-1].replace("},", "}")}, "server": Server.vllm(container_version="0.27.1")}, "environment.SM_VLLM_LORA_MODULES", "one value"),
    ("OPT250", {"environment": {"SM_VLLM_TOKENIZER": '["a", "b"]'}, "server": Server.vllm(container_version="0.30")}, "environment.SM_VLLM_TOKENIZER", "no JSON array"),
    ("OPT250", {"environment": {"SM_SGLANG_LORA_PATHS": '["a=/x", "b=/y"]'}, "server": Server.sglang()}, "environment.SM_SGLANG_LORA_PATHS", "one value"),
    ("OPT250", {"environment": {"NOTE": "a\nSM_SGLANG_TRUST_REMOTE_CODE=true"}, "server": Server.sglang()}, "environment.NOTE", "as a variable of its own, SM_SGLANG_TRUST_REMOTE_CODE"),
    ("OPT250", {"environment": {"SM_SGLANG_CHAT_TEMPLATE": "a\nb"}, "server": Server.sglang()}, "environment.SM_SGLANG_CHAT_TEMPLATE", "on one line"),
    ("OPT250", {"environment": {"SM_SGLANG_SERVED_MODEL_NAME": "mine="}, "server": Server.sglang()}, "environment.SM_SGLANG_SERVED_MODEL_NAME", "a value without it"),
    ("OPT250", {"environment": {"SM_VLLM_SERVED_MODEL_NAME": "mine="}, "server": Server.vllm(container_version="0.27.1")}, "environment.SM_VLLM_SERVED_MODEL_NAME", "a value without it, or the release 0.28.0 or newer"),
    ("OPT031", {"environment": ["A"]}, "environment", "mapping"),
    ("OPT031", {"environment": {"A-B": "c"}}, "environment", "SM_VLLM_MAX_MODEL_LEN"),
    ("OPT031", {"environment": {"A": 1}}, "environment.A", "'1'"),
    ("OPT031", {"environment": {"A": None}}, "environment.A", "leave it out"),
    ("OPT031", {"environment": {"A": "x" * 1025}}, "environment.A", "1024"),
    ("OPT031", {"environment": {f"A{n}": "" for n in range(99)}}, "environment", "98"),
    ("OPT032", {"techniques": [Quantization.awq(ignored_layers=["x" * 257])]}, "techniques[0].ignored_layers", "256"),
    ("OPT289", _of_architecture("EagleLlamaForCausalLM"), "model", "SpeculativeDecoding.speculator(model=...)"),
    ("OPT289", {**_of_architecture("Florence2ForConditionalGeneration"), "server": Server.vllm(container_version="0.30")}, "model", "it needs the plugin https://github.com/vllm-project/bart-plugin"),
    ("OPT289", {**_of_architecture("Plamo2ForCausalLM"), "server": Server.vllm(container_version="0.30")}, "model", 'Server.vllm(container_version="0.26.0-'),
    ("OPT289", _of_architecture("T5ForConditionalGeneration"), "model", "which has an encoder and a decoder"),
    ("OPT289", _of_architecture("AcmeForCausalLM"), "model", "vLLM 0.30.0 does not load AcmeForCausalLM"),
    ("OPT289", {**_of_architecture("BambaForCausalLM"), "server": Server.vllm(container_version="0.29")}, "model", "0.23.0 and older load it"),
    ("OPT289", _of_architecture("ZambaForCausalLM"), "model", "vLLM 0.30.0 does not load ZambaForCausalLM"),
    ("OPT289", {**_of_architecture("AcmeForCausalLM"), "server": Server.sglang()}, "model", "SGLang 0.5.20 does not load AcmeForCausalLM"),
    ("OPT290", _of_method("bitsandbytes"), "model", 'FP8, or AWQ, or Server.vllm(container_version="0.27.1-'),
    ("OPT290", _of_method("gptq", activation_order=True), "model", 'FP8, or AWQ, or Server.vllm(container_version="0.29.0-'),
    ("OPT290", _of_method("gptq", bits=3), "model", "in 3 bits, only in 4, 8"),
    ("OPT290", _of_method("gptq", bits=4, symmetric=False), "model", "with zero points (sym is false)"),
    ("OPT290", _of_method("awq", bits=8), "model", "in 8 bits, only in 4"),
    ("OPT291", _of_type("acme", has_code=True), "model", "review the Python files in its repository, and then set allow_code=True"),
    ("OPT291", {"model": _hub("XiaomiMiMo/MiMo-V2.5"), "techniques": [], "instance_type": "ml.p5en.48xlarge"}, "model", "set allow_code=True"),
    ("OPT291", _of_type("acme"), "model", "do not know acme, the type of acme/mine"),
    ("OPT292", {**_of_type("gemma3"), "environment": {"SM_VLLM_DTYPE": "half"}}, "environment.SM_VLLM_DTYPE", "does not run gemma3 models in float16"),
    ("OPT292", {**_of_type("llama"), "environment": {"SM_VLLM_DTYPE": "bfloat16"}, "instance_type": "ml.g4dn.12xlarge"}, "environment.SM_VLLM_DTYPE", "has no bfloat16"),
    ("OPT292", {**_of_type("gemma2", quantization=_BITS_4), "instance_type": "ml.g4dn.12xlarge"}, "instance_type", "newer GPUs, such as ml."),
    ("OPT292", {**_of_type("glm4"), "techniques": [Quantization.awq()], "instance_type": "ml.g4dn.12xlarge"}, "instance_type", "quantized with awq in float32"),
    ("OPT292", {**_of_type("gemma2", quantization=_BITS_4), "environment": {"SM_VLLM_DTYPE": "auto"}, "instance_type": "ml.g4dn.12xlarge"}, "instance_type", "has no bfloat16"),
    ("OPT293", {**_of_type("glm_moe_dsa", attention="sparse latent"), "instance_type": "ml.g6e.48xlarge"}, "instance_type", "other GPUs, such as ml."),
    ("OPT293", {**_of_type("bloom", attention="ALiBi"), "instance_type": "ml.p5.4xlarge", "techniques": [KvCache.fp8()]}, "instance_type", "a KV cache in 16 bits, or other GPUs, such as ml."),
    ("OPT293", {**_of_type("deepseek_v3", attention="latent", has_fp8_cache=True), "instance_type": "ml.p4d.24xlarge"}, "instance_type", 'environment={"SM_VLLM_KV_CACHE_DTYPE": "bfloat16"}, or other GPUs, such as ml.'),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128, has_fp8_cache=True), "instance_type": "ml.g4dn.12xlarge"}, "instance_type", 'environment={"SM_VLLM_KV_CACHE_DTYPE": "float16"}'),
    ("OPT293", {**_of_type("glm_moe_dsa", attention="sparse latent"), "instance_type": "ml.p5.48xlarge", "environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8_e4m3"}}, "environment.SM_VLLM_KV_CACHE_DTYPE", "leave it out, or a value such as fp8"),
    ("OPT293", {**_of_type("glm_moe_dsa", attention="sparse latent"), "instance_type": "ml.p5.48xlarge", "environment": {"SM_VLLM_BLOCK_SIZE": "16"}}, "environment.SM_VLLM_BLOCK_SIZE", "leave it out, or a value such as 64"),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_ATTENTION_BACKEND": "flash_attn", "SM_VLLM_KV_CACHE_DTYPE": "fp8"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "leave it out, or a value such as FLASHINFER"),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}, "techniques": [KvCache.fp8()]}, "environment.SM_VLLM_ATTENTION_BACKEND", "a KV cache in fp8"),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "SM_VLLM_DTYPE": "float"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "leave it out"),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8_inc"}}, "environment.SM_VLLM_KV_CACHE_DTYPE", "leave it out, or a value such as fp8"),
    ("OPT293", {**_of_type("qwen3", attention=_HEADS_128, quantization=_FP8_STORED), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8_e5m2"}}, "environment.SM_VLLM_KV_CACHE_DTYPE", "leave it out"),
    ("OPT293", {**_of_type("gpt_oss", attention="sinks"), "instance_type": "ml.g6e.xlarge", "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "leave it out, or a value such as "),
    ("OPT293", {**_of_type("gemma2", attention=_HEADS_128), "instance_type": "ml.g4dn.12xlarge", "environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASHINFER"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "leave it out"),
    ("OPT307", _of_type("llama", rope_lacks=("yarn.factor",)), "model", "another model, or factor in rope_scaling"),
    ("OPT307", _of_type("llama", rope_lacks=("xpos",)), "model", "another model"),
    ("OPT307", _of_type("llama", rope_lacks=("linear.factor_with_a_decimal_point",)), "model", "has no number factor with a decimal point"),
    ("OPT307", _of_type("llama", rope_lacks=("llama3.low_freq_factor", "llama3.high_freq_factor")), "model", "has no number low_freq_factor and high_freq_factor"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_LORA_RANK": "100"}}, "environment.SM_VLLM_MAX_LORA_RANK", "one of 1, 8, 16, 32, 64, 128, 256, 320, 512"),
    ("OPT029", {"environment": {"SM_VLLM_CPU_OFFLOAD_GB": "-1"}}, "environment.SM_VLLM_CPU_OFFLOAD_GB", "a number, 0 or greater"),
    ("OPT029", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "-2"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "a whole number, -1 or greater"),
    ("OPT029", {"environment": {"SM_VLLM_ATTENTION_BACKEND": "XFORMERS"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
    ("OPT029", {"environment": {"SM_VLLM_ATTENTION_BACKEND": "FLASHATTN"}}, "environment.SM_VLLM_ATTENTION_BACKEND", "did you mean FLASH_ATTN?"),
    ("OPT029", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"num_speculative_token": 5, "method": "ngram"}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", 'did you mean {"num_speculative_tokens": 5, "method": "ngram"}?'),
    ("OPT029", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"num_speculative_tokens": 5, "method": "ngam"}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", 'did you mean {"num_speculative_tokens": 5, "method": "ngram"}?'),
    ("OPT029", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"num_speculative_tokens": 0, "method": "ngram"}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", "num_speculative_tokens: a number, greater than 0"),
    ("OPT029", {"environment": {"SM_VLLM_COMPILATION_CONFIG": '{"level": 3}'}}, "environment.SM_VLLM_COMPILATION_CONFIG", "vLLM 0.30.0 does not accept the key level in --compilation-config"),
    ("OPT029", {"environment": {"SM_VLLM_COMPILATION_CONFIG": '{"dynamic_shapes_config": {"typ": "backed"}}'}}, "environment.SM_VLLM_COMPILATION_CONFIG", "the key dynamic_shapes_config.typ"),
    ("OPT302", {"environment": {"SM_VLLM_MAX_NUM_SEQS": "16384"}, **_LLAMA_8B}, "environment.SM_VLLM_MAX_NUM_SEQS", "or less, or SM_VLLM_MAX_NUM_BATCHED_TOKENS of 16384 or more"),
    ("OPT302", {"environment": {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "128", "SM_VLLM_MAX_NUM_SEQS": "256"}, **_LLAMA_8B}, "environment.SM_VLLM_MAX_NUM_SEQS", "128 or less"),
    ("OPT302", {"environment": {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "128"}, "server": Server.vllm(max_concurrent_requests=256), **_LLAMA_8B}, "server.max_concurrent_requests", "128 or less, or SM_VLLM_MAX_NUM_BATCHED_TOKENS of 256 or more"),
    ("OPT302", {"server": Server.vllm(max_concurrent_requests=16384), **_LLAMA_8B}, "server.max_concurrent_requests", "or less"),
    ("OPT302", {"environment": {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "2048", "SM_VLLM_MAX_MODEL_LEN": "4096", "SM_VLLM_NO_ENABLE_CHUNKED_PREFILL": "true"}, **_LLAMA_8B}, "environment.SM_VLLM_MAX_MODEL_LEN", "2048 or less"),
    ("OPT302", {"environment": {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "2048"}, "server": Server.vllm(chunked_prefill=False), **_LLAMA_8B}, "environment.SM_VLLM_MAX_NUM_BATCHED_TOKENS", "or more"),
    ("OPT302", {"environment": {"SM_VLLM_LONG_PREFILL_TOKEN_THRESHOLD": "4096", "SM_VLLM_MAX_MODEL_LEN": "2048"}, **_LLAMA_8B}, "environment.SM_VLLM_LONG_PREFILL_TOKEN_THRESHOLD", "2048 or less"),
    ("OPT302", {"environment": {"SM_VLLM_ENABLE_LORA": "true", "SM_VLLM_MAX_LORAS": "4", "SM_VLLM_MAX_CPU_LORAS": "2"}, **_LLAMA_8B}, "environment.SM_VLLM_MAX_LORAS", "2 or less"),
    ("OPT302", {"environment": {"OPTION_ENABLE_LORA": "true", "OPTION_MAX_LORAS": "4", "OPTION_MAX_CPU_LORAS": "2"}, "server": Server.lmi(), **_LLAMA_8B}, "environment.OPTION_MAX_LORAS", "2 or less"),
    ("OPT302", {"environment": {"SM_VLLM_ENABLE_EXPERT_PARALLEL": "true"}, **_LLAMA_8B}, "environment.SM_VLLM_ENABLE_EXPERT_PARALLEL", "only the experts of a mixture of experts"),
    ("OPT302", {"environment": {"SM_VLLM_ENABLE_EPLB": "true"}, **_LLAMA_8B}, "environment.SM_VLLM_ENABLE_EPLB", "leave it out, or set SM_VLLM_ENABLE_EXPERT_PARALLEL to true"),
    ("OPT302", {"environment": {"SM_VLLM_BLOCK_SIZE": "8"}, **_LLAMA_8B}, "environment.SM_VLLM_BLOCK_SIZE", "a multiple of 16"),
    ("OPT302", {"environment": {"SM_VLLM_PIPELINE_PARALLEL_SIZE": "2"}, **_LLAMA_8B}, "environment.SM_VLLM_PIPELINE_PARALLEL_SIZE", "vLLM needs "),
    ("OPT302", {"environment": {"SM_VLLM_DECODE_CONTEXT_PARALLEL_SIZE": "2"}, **_LLAMA_8B}, "environment.SM_VLLM_DECODE_CONTEXT_PARALLEL_SIZE", "1, or leave it out"),
    ("OPT302", {"environment": {"SM_VLLM_KV_TRANSFER_CONFIG": '{"kv_connector": "OffloadingConnector"}'}}, "environment.SM_VLLM_KV_TRANSFER_CONFIG", "vLLM needs kv_role"),
    ("OPT302", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"method": "eagle3", "num-speculative-tokens": 3}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", "a model of its own"),
    ("OPT302", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"method": "ngram"}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", '"num_speculative_tokens" beside the method'),
    ("OPT302", {"environment": {"SM_VLLM_SPECULATIVE_CONFIG": '{"method": "ngram", "num-speculative-tokens": 3, "prompt-lookup-max": 2, "prompt-lookup-min": 3}'}}, "environment.SM_VLLM_SPECULATIVE_CONFIG", '"prompt_lookup_min" of 2 or less'),
    ("OPT302", {"environment": {"SM_VLLM_DATA_PARALLEL_SIZE": "2"}, **_LLAMA_8B}, "environment.SM_VLLM_DATA_PARALLEL_SIZE", "leave it out"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "fp8"}, **_of_method("awq", bits=4)}, "environment.SM_VLLM_QUANTIZATION", "vLLM does not load them with fp8"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "awq"}, **_of_method("fp8")}, "environment.SM_VLLM_QUANTIZATION", "leave the variable out"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "fp8"}, **_LLAMA_8B, "techniques": [Quantization.fp8_dynamic()]}, "environment.SM_VLLM_QUANTIZATION", "quantized with compressed-tensors"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "modelopt_fp4"}, **_LLAMA_8B}, "environment.SM_VLLM_QUANTIZATION", "have 16 bits"),
    ("OPT274", {"environment": {"SM_VLLM_QUANTIZATION": "fp_quant"}, **_LLAMA_8B}, "environment.SM_VLLM_QUANTIZATION", 'environment={"SM_VLLM_ALLOW_DEPRECATED_QUANTIZATION": "true"}'),
    ("OPT292", {**_of_method("fp8"), "environment": {"SM_VLLM_DTYPE": "float32"}}, "environment.SM_VLLM_DTYPE", "quantized with fp8 in float32"),
    ("OPT292", {**_LLAMA_8B, "environment": {"SM_VLLM_DTYPE": "float", "SM_VLLM_QUANTIZATION": "fp8_per_block"}}, "environment.SM_VLLM_DTYPE", "quantized with fp8_per_block in float32"),
    ("OPT305", _with_fault(), "model", "no engine loads acme/mine: its weights are of another kind"),
    ("OPT305", _with_fault("sharded_state", environment={"SM_VLLM_LOAD_FORMAT": "dummy"}), "model", "its own weights. After a change"),
    ("OPT305", _of_type("llama", has_tokenizer=False), "model", "a copy of its files in S3, with the tokenizer's of the model"),
    ("OPT306", _of_type("llama", pickled=True), "model.allow_pickle", "allow_pickle=True) if you trust its owner"),
    ("OPT306", _with_draft(pickled=True), "techniques[0].model.allow_pickle", "the weights of acme/draft are pickle files only"),
    ("OPT296", _of_architecture("WhisperForConditionalGeneration"), "model", "huggingface-asr-whisper-large-v3"),
    ("OPT297", {**_of_architecture("BertModel"), "server": Server.lmi()}, "server", "Server.vllm(), or leave server out"),
    ("OPT297", {**_of_architecture("Qwen2Model"), "server": Server.sglang()}, "server", "does not serve embeddings here"),
    ("OPT298", _for_task("generate", "BertModel"), "model.task", 'task="embed" or task="rerank", or leave it out'),
    ("OPT298", _for_task("rerank", "BertForSequenceClassification", labels=3), "model.task", 'task="classify", or leave it out'),
    ("OPT298", _for_task("classify", "BertForSequenceClassification", labels=1), "model.task", 'task="rerank", or leave it out'),
    ("OPT298", _for_task("rerank", "Qwen3ForCausalLM"), "model.task", "from_2_way_softmax"),
    ("OPT298", {**_for_task("rerank", "Qwen3ForCausalLM"), "environment": {"SM_VLLM_HF_OVERRIDES": "classifier_from_token"}}, "model.task", "from_2_way_softmax"),
    ("OPT298", _for_task("embed", "BertForSequenceClassification", labels=1), "model.task", 'task="rerank", or leave it out'),
    ("OPT298", _for_task("classify", "XLMRobertaModel"), "model.task", 'task="embed" or task="rerank", or leave it out'),
    ("OPT298", {**_of_architecture("Qwen3ForCausalLM"), "environment": {"SM_VLLM_CONVERT": "embed"}}, "environment.SM_VLLM_CONVERT", 'task="embed"'),
    ("OPT298", {**_of_architecture("Qwen3ForCausalLM"), "environment": {"SM_VLLM_RUNNER": "pooling"}}, "environment.SM_VLLM_RUNNER", 'task="embed"'),
    ("OPT298", {**_of_architecture("BertModel"), "environment": {"SM_VLLM_RUNNER": "generate"}}, "environment.SM_VLLM_RUNNER", "leave it out"),
    ("OPT299", {**_for_task("embed", "Qwen3ForCausalLM"), "techniques": [Quantization.awq()]}, "techniques[0]", 'environment={"SM_VLLM_QUANTIZATION": "fp8"}'),
    ("OPT299", {**_for_task("embed", "Qwen3ForCausalLM"), "techniques": [KvCache.fp8()]}, "techniques[0]", "leave it out"),
    ("OPT299", {**_of_architecture("BertModel"), "techniques": [SpeculativeDecoding.ngram()]}, "techniques[0]", "this model generates none"),
    ("OPT290", _of_method("eetq"), "model", "in 16 bits, FP8, or AWQ"),
    ("OPT290", _of_method("intel/auto-round"), "model", "quantized with intel/auto-round"),
    ("OPT290", _of_method("modelopt", schemes=("INT8_SQ",)), "model", "quantized with modelopt (INT8_SQ)"),
    ("OPT290", _of_method("fp8", schemes=("static activations, weights in blocks of 128x128",)), "model", "in 16 bits, FP8, or AWQ"),
    ("OPT290", _of_method("compressed-tensors", schemes=(_OF_TENSORS,)) | {"instance_type": "ml.p6-b200.48xlarge"}, "instance_type", "in 16 bits, FP8, or AWQ"),
    ("OPT290", _of_method("gptq", unstated=("desc_act", "sym")), "model", "lacks desc_act and sym, which it needs"),
    ("OPT290", _of_method("awq", torn=("self_attn",)), "model", "only some matrices of self_attn are, or not in the same way"),
    ("OPT290", _in_experts(_OF_TENSORS), "model", "activations in int8 per tensor) in experts"),
    ("OPT290", _of_method("compressed-tensors", schemes=(_IN_FP8, _OF_TENSORS)) | {"instance_type": "ml.g6e.xlarge"}, "instance_type", "other GPUs, such as ml.p5.4xlarge"),
    ("OPT290", _of_method("quark", schemes=(_OF_QUARK,)) | {"instance_type": "ml.g5.xlarge"}, "instance_type", "only on those of compute capability 8.9, 9, 10, 10.3 or 12"),
    ("OPT290", {**_of_method("qoq"), "server": Server.sglang()}, "model", "SGLang 0.5.20 does not load the weights of acme/mine"),
    ("OPT290", _of_method("fbgemm_fp8"), "model", 'environment={"SM_VLLM_ALLOW_DEPRECATED_QUANTIZATION": "true"}'),
    ("OPT290", {**_of_method("mxfp8"), "instance_type": "ml.g4dn.12xlarge"}, "instance_type", "only on GPUs of compute capability 8 or newer"),
    ("OPT035", {"containers": Lock(jobs={"awq": "djl-inference:0.38.0-lmi29.0.0-cu130"})}, "jobs['awq']", "remove 'awq' from jobs in optim.lock.json"),
    ("OPT035", {"containers": Lock(servers={"awq": "djl-inference:0.38.0-lmi29.0.0-cu130"})}, "servers['awq']", "records vllm:"),
    ("OPT037", {"server": "vllm"}, "server", "Server.vllm()"),
    ("OPT037", {"server": Server.sglang(), "techniques": [Quantization.mxfp4(checkpoint=_MINE)]}, "server", "Server.vllm()"),
    ("OPT037", {"server": Server.vllm(), "techniques": [_awq(), Sharding.fast_load()]}, "server", "Sharding.fast_load"),
    ("OPT037", {"server": Server.vllm(container_version="0.1")}, "server.container_version", "starts with this version"),
    ("OPT037", {"server": Server.lmi(container_version="0.33.0-lmi15"), "techniques": [_EAGLE]}, "server.container_version", "lmi28"),
    ("OPT038", {"environment": {"OPTION_MAX_MODEL_LEN": "8192"}}, "environment.OPTION_MAX_MODEL_LEN", "SM_VLLM_MAX_MODEL_LEN, or server=Server.lmi()"),
    ("OPT038", {"environment": {"SM_VLLM_MAX_NUM_SEQS": "8"}, "server": Server.lmi()}, "environment.SM_VLLM_MAX_NUM_SEQS", "OPTION_MAX_ROLLING_BATCH_SIZE"),
    ("OPT034", {"environment": {"HF_TOKEN": "mine"}}, "environment.HF_TOKEN", "a secret, judging by its name"),
    ("OPT034", {"environment": {"HUB": f"hf_{'x' * 34}"}}, "environment.HUB", "a Hugging Face token"),
    ("OPT034", {"environment": {"KEY": f"AKIA{'A' * 16}"}}, "environment.KEY", "an AWS access key"),
    ("OPT034", {"environment": {"PROXY": "http://me:pass@proxy.example"}}, "environment.PROXY", "a URL with a password"),
    ("OPT034", {"environment": {"KEY": "sk-proj-Ab1" + "x" * 20}}, "environment.KEY", "an API key"),
    ("OPT034", _on(environment={"DB_PASSWORD": "mine"}), "techniques[0].compute.environment.DB_PASSWORD", "secrets_manager"),
    ("OPT033", _GIVEN_DEGREE, "environment.SM_VLLM_TENSOR_PARALLEL_SIZE", "tensor_parallel_degree"),
    ("OPT024", {"techniques": [Compilation.neuron(tensor_parallel_degree=5)], **_TRN1}, "techniques[0].tensor_parallel_degree", "32 NeuronCores"),
    ("OPT025", {"techniques": [_awq(tensor_parallel_degree=2), Sharding.fast_load(tensor_parallel_degree=4)]}, "techniques[1].tensor_parallel_degree", "2 for all"),
    ("OPT012", {"techniques": [_NEURON], "instance_type": "ml.trn2.48xlarge"}, "instance_type", "trn1"),
    ("OPT012", {"techniques": [_NEURON]}, "instance_type", "inf2"),
    ("OPT023", {"model": Model.jumpstart("meta-textgeneration-llama-3-1-405b-fp8", accept_eula=True)}, "techniques[0]", "to 8 bits"),
    ("OPT030", {"techniques": [_NEURON, Compilation.tensorrt_llm()]}, "techniques", "image"),
    ("OPT030", {"techniques": [KvCache.fp8(), _DRAFT], "instance_type": "ml.p5.48xlarge"}, "techniques", "no container image can serve the result"),
    ("OPT030", {"model": _hub("google/gemma-4-31B-it")}, "techniques[0]", 'Quantization.awq(checkpoint=Model.huggingface("google/gemma-4-31B-it-qat-w4a16-ct"))'),
    ("OPT030", {"model": _hub("Qwen/Qwen3-32B"), "techniques": [SpeculativeDecoding.sagemaker_draft()]}, "techniques", "which no image that serves SageMaker draft model has"),
    ("OPT030", {"model": _hub("Qwen/Qwen3-32B"), "techniques": [_NEURON], **_TRN1}, "techniques[0]", "only the models that vLLM 0.5.3 supports"),
    ("OPT030", {"model": _hub("Qwen/Qwen3.5-9B")}, "techniques[0]", "Quantization.w4a16(calibration_data=...), which runs an llm-compressor job"),
    ("OPT030", {"model": _hub("google/gemma-4-12B-it"), "techniques": [Quantization.fp8()]}, "techniques[0]", "needs vLLM 0.23.0 or newer, and SageMaker's fp8 jobs support only the models that vLLM 0.16.0 supports"),
    ("OPT030", {"model": _hub("google/gemma-4-12B-it"), "techniques": [Quantization.fp8()]}, "techniques[0]", "Quantization.fp8_block() or Quantization.fp8_dynamic()"),
    ("OPT030", {"model": _hub("Qwen/Qwen3.5-9B"), "techniques": [Quantization.fp8(), Compilation.tensorrt_llm()], "instance_type": "ml.p4d.24xlarge"}, "techniques[1]", "the model without Compilation.tensorrt_llm()"),
    ("OPT040", {"techniques": [Compilation.tensorrt_llm(), _DRAFT]}, "techniques[1]", "either compilation or speculative decoding"),
    ("OPT041", {"techniques": [Sharding.fast_load(), _DRAFT]}, "techniques[1]", "after quantization"),
    ("OPT042", {"techniques": [_awq(), _NEURON], **_TRN1}, "techniques[0]", "alone"),
    ("OPT043", {"techniques": [Quantization.smoothquant()]}, "techniques[0]", "Compilation.tensorrt_llm()"),
    ("OPT044", {"techniques": [PreOptimized(), _awq()]}, "techniques[0]", "alone"),
    ("OPT045", {"techniques": [_awq(), _EAGLE]}, "techniques[1]", "alone"),
    ("OPT046", {"techniques": [_awq(group_size=64), Compilation.tensorrt_llm()]}, "techniques[0].group_size", "leave"),
    ("OPT050", {"instance_type": "ml.g5.xlarge"}, "instance_type", "smallest type that fits"),
    ("OPT050", {"model": _hub("Qwen/Qwen3-32B"), "techniques": [], "instance_type": "ml.p5.4xlarge", "partition": "mig-3g.40gb"}, "accelerator_partition", "mig-7g.80gb of ml.p5.4xlarge, the smallest type that fits"),
    ("OPT050", {"model": _hub("Qwen/Qwen3-235B-A22B-Instruct-2507"), "techniques": [], "instance_type": "ml.p5.4xlarge", "partition": "mig-3g.40gb"}, "accelerator_partition", "ml.p4de.24xlarge, the smallest type that fits"),
    ("OPT050", {"model": _hub("Qwen/Qwen3-32B"), "techniques": [], "instance_type": "ml.p5.4xlarge", "partition": "mig-3g.40gb"}, "accelerator_partition", "a mig-3g.40gb partition of ml.p5.4xlarge"),
    ("OPT024", {"model": _hub("Qwen/Qwen3-8B"), "techniques": [Quantization.fp8_block(tensor_parallel_degree=2)], "instance_type": "ml.p5.4xlarge", "partition": "mig-4g.40gb"}, "techniques[0].tensor_parallel_degree", "a mig-4g.40gb partition of ml.p5.4xlarge has 1 accelerator, which 2 does not divide"),
    ("OPT050", {"techniques": [_DRAFT]}, "instance_type", "142 GB"),
    ("OPT052", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "200000"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "or less"),
    ("OPT052", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "2000k"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "or less"),
    ("OPT052", {"server": Server.vllm(context_length=1_000_000), **_QWEN_32B}, "server.context_length", "40960 or less, or an instance type"),
    ("OPT052", {"environment": {"SM_VLLM_MAX_MODEL_LEN": "1M"}, **_QWEN_32B}, "environment.SM_VLLM_MAX_MODEL_LEN", "40960 or less, or an instance type"),
    ("OPT052", {"environment": {"OPTION_MAX_MODEL_LEN": "1M"}, "server": Server.lmi(), **_QWEN_32B}, "environment.OPTION_MAX_MODEL_LEN", "40960 or less"),
    ("OPT054", _FALCON_7B, "instance_type", "Quantization.awq(group_size=64, tensor_parallel_degree=1)"),
    ("OPT054", {**_FALCON_7B, "techniques": [Quantization.fp8()]}, "instance_type", "tensor parallel degree of 1 ("),
    ("OPT054", {"model": Model.jumpstart("meta-textgeneration-llama-2-7b", version="1.0.0", accept_eula=True)}, "instance_type", "11008"),
    ("OPT054", _FEW_KEYS, "instance_type", "10 heads of keys and values cannot be spread evenly over 4"),
    ("OPT054", {**_NARROW, "techniques": [_awq()]}, "instance_type", "1 or 2 (tensor_parallel_degree=), or Quantization.awq(group_size=64)"),
    ("OPT054", {**_EXPERTS, "techniques": [Quantization.fp8_block()]}, "instance_type", "1 or 2 (tensor_parallel_degree=), or Quantization.fp8_dynamic()"),
    ("OPT054", {"model": Model.jumpstart("huggingface-textgeneration-gpt2"), "instance_type": "ml.g5.48xlarge", "techniques": []}, "instance_type", "ml.g4dn.xlarge"),
    ("OPT054", _GLM_4V, "instance_type", 'environment={"SM_VLLM_MM_ENCODER_TP_MODE": "data"}, or'),
    ("OPT054", _GLM_4V, "instance_type", "12 attention heads of the vision encoder cannot be spread evenly over 8"),
    ("OPT054", _encoder("UltravoxModel", audio=Split(heads=20, width=5120)), "instance_type", "20 attention heads of the audio encoder"),
    ("OPT054", _encoder("InternVLForConditionalGeneration", vision=Split(heads=12, width=4100)), "instance_type", "the width of an MLP of the vision encoder is 4100"),
    ("OPT054", {**_GLM_4V, "environment": {"SM_VLLM_LIMIT_MM_PER_PROMPT": '{"image": 1}'}}, "instance_type", "12 attention heads"),
    ("OPT023", {"model": Model.jumpstart("huggingface-textgeneration-gpt2"), "techniques": [PreOptimized()]}, "techniques[0]", "no pre-optimized configuration for"),
    ("OPT023", _medusa() | {"model": Model.jumpstart("huggingface-llm-falcon-40b-bf16")}, "techniques[0]", "a 16-bit Llama or Mistral model"),
    ("OPT023", _medusa() | {"model": Model.jumpstart("huggingface-llm-thebloke-mistral-7b-openorca-awq")}, "techniques[0]", "16-bit"),
    ("OPT033", _medusa() | {"environment": {"SM_NUM_GPUS": "2"}}, "environment.SM_NUM_GPUS", "leave the variable out"),
    ("OPT047", _medusa() | {"techniques": [_awq(), *_medusa()["techniques"]]}, "techniques[0]", "base=FineTune(...)"),
    ("OPT050", _medusa() | {"model": Model.jumpstart("meta-textgeneration-llama-2-13b", accept_eula=True), "instance_type": "ml.g5.xlarge"}, "instance_type", "28 GB"),
    ("OPT060", {"model": Model.s3("s3://models/mine/"), "techniques": [_DRAFT]}, "techniques[0]", "custom_draft"),
    ("OPT061", {"techniques": [_DRAFT], "region": "af-south-1"}, "techniques[0]", "us-west-2"),
    ("OPT062", {"techniques": [_DRAFT], "environment": {"HF_TRUST_REMOTE_CODE": "True"}}, "environment.HF_TRUST_REMOTE_CODE", "leave"),
    ("OPT063", {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="not an id")]}, "techniques[0].model_id", "llama-3-2-1b"),
    ("OPT063", {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="gemma", version="x")]}, "techniques[0].version", "2.25.0"),
    ("OPT064", {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-2-1b")]}, "techniques[0].accept_eula", "accept_eula=True"),
    ("OPT065", {"techniques": [SpeculativeDecoding.custom_draft(uri="/tmp/draft")]}, "techniques[0].uri", "s3://"),
    ("OPT065", {"techniques": [SpeculativeDecoding.eagle(training_data="s3://prompts/all.tar.gz")]}, "techniques[0].training_data", "s3://"),
    ("OPT067", {"techniques": [PreOptimized(config="../etc")]}, "techniques[0].config", "lmi-optimized"),
    ("OPT067", {"model": Model.s3("s3://models/mine/"), "techniques": [PreOptimized()]}, "techniques[0]", "Model.jumpstart"),
    ("OPT068", {"techniques": [SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-2-7b", accept_eula=True)]}, "techniques[0].model_id", "meta-textgeneration-llama-3-8b"),
    ("OPT160", _medusa(training_data="/home/me/train"), "techniques[0].training_data", "s3://"),
    ("OPT160", _medusa(training_data="s3://My_Data/train/"), "techniques[0].training_data", "'My_Data' is not a bucket name"),
    ("OPT160", _tuned(validation_data="s3://data/validation.jsonl"), "techniques[0].validation_data", "'s3://data/'"),
    ("OPT160", _medusa(base=FineTune(training_data="")), "techniques[0].base.training_data", "s3://"),
    ("OPT162", _on(instance_type="ml.m5.4xlarge"), "techniques[0].compute.instance_type", "ml.g5.12xlarge"),
    ("OPT162", _on(instance_type="ml.trn1.32xlarge"), "techniques[0].compute.instance_type", "ml."),
    ("OPT163", _tuned(method="full"), "techniques[0].compute.instance_type", "70 GB of each GPU"),
    ("OPT163", _tuned(compute=TrainingCompute(instance_type="ml.g5.xlarge")), "techniques[0].compute.instance_type", "merging adapters"),
    ("OPT163", {"model": _hub("acme/wide"), "techniques": [Quantization.fp8_block()], "containers": _WIDE}, "techniques[0].compute.instance_type", "a layer and its statistics need 30 GB of each GPU"),
    ("OPT163", {"techniques": [_w4a16(compute=TrainingCompute(instance_type="ml.g5.2xlarge"))], "model": Model.huggingface("Qwen/Qwen3-32B", revision=_COMMIT)}, "techniques[0].compute.instance_type", "the model in 16 bits needs"),
    ("OPT164", _on(environment={"A": "x" * 513}), "techniques[0].compute.environment.A", "512"),
    ("OPT164", _on(environment={f"A{n}": "" for n in range(101)}), "techniques[0].compute.environment", "at most 100"),
    ("OPT164", _on(environment={"A-B": "c"}), "techniques[0].compute.environment", "PIP_INDEX_URL"),
    ("OPT167", {"techniques": [Quantization.nvfp4()]}, "techniques[0].calibration_data", "a ready-made checkpoint"),
    ("OPT168", {"techniques": [_w4a16(compute=TrainingCompute(instance_count=2))]}, "techniques[0].compute.instance_count", "1"),
    ("OPT211", _trained_on(CapturedTraffic(uri=_CAPTURED.uri)), "techniques[0].training_data.period", "train again"),
    ("OPT211", _trained_on(_CAPTURED.during("2999-12-31")), "techniques[0].training_data.period", "in the past"),
    ("OPT212", _trained_on(CapturedTraffic(uri=_CAPTURED.uri, period="2026-10", responses=False)), "techniques[0].training_data", "no responses"),
    ("OPT212", _trained_on(CapturedTraffic(uri=_CAPTURED.uri, period="2026-10", encryption_key_arn="arn:aws:kms:us-west-2:111122223333:key/a")), "techniques[0].training_data.encryption_key", "constructs-optim captures"),
    ("OPT165", _on(spot=True, keep_alive_seconds=600), "techniques[0].compute.keep_alive_seconds", "either spot or keep_alive_seconds"),
]  # fmt: skip


_HEADS_OF_MINE = Lock(
    models={
        "acme/mine": RecordedModel(layers=64, hidden_size=5120),
        "acme/heads": RecordedModel(layers=1, hidden_size=4096),
    }
)
_HUB: dict[str, Any] = {"version": "1.0.0"}
_FLEET: dict[str, Any] = {"instance_type": "ml.p4d.24xlarge", "server": Server.vllm()}
_AS_IT_IS: dict[str, Any] = {"techniques": [], **_FLEET}
_IN_4_BITS: dict[str, Any] = {"techniques": [_awq(tensor_parallel_degree=1)], **_FLEET}
_LLAMA_31: dict[str, Any] = {
    "model": Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="1.0.0", accept_eula=True),
    "instance_type": "ml.p5.48xlarge",
}


def _tuned_by(name: str, **tuning: Any) -> dict[str, Any]:
    """A recipe of a model with this tuning in the lock file."""
    containers = Lock.model_validate({"tuning": {name: tuning}})
    return {
        "model": _hub("Qwen/Qwen3-8B"),
        "techniques": [],
        "instance_type": "ml.g6e.2xlarge",
        "containers": containers,
    }


# rule, changes, location of the advice, part of the reason or suggestion
ADVISED: list[tuple[str, dict[str, Any], str, str]] = [
    ("OPT006", {"model": Model.jumpstart(LLAMA_70B, accept_eula=True)}, "model.version", "version="),
    ("OPT007", {"model": Model.jumpstart("meta-textgeneration-llama-9-70b", **_HUB), **_AS_IT_IS}, "model", "Otherwise, test it before"),
    ("OPT007", {"model": _hub("acme/mine"), **_AS_IT_IS}, "model", "lock --model acme/mine"),
    ("OPT007", {"model": _hub("qwen/qwen3-32"), **_AS_IT_IS}, "model", "Did you mean Qwen/Qwen3-32B"),
    ("OPT007", {"model": _MINE, **_AS_IT_IS}, "model", "lock --model s3://models/mine/"),
    ("OPT007", {"model": _hub("acme/mine"), **_AS_IT_IS, "containers": Lock(models={"acme/mine": RecordedModel(revision=_COMMIT, stored_gb=14)})}, "model", "no config.json of acme/mine could be read"),
    ("OPT013", {"instance_type": "ml.g6e.12xlarge"}, "instance_type", "its SDK does not list it"),
    ("OPT019", {"model": _hub("Qwen/Qwen3.5-0.8B"), **_AS_IT_IS}, "model.allow_code", "allow_code=True"),
    ("OPT026", {"model": Model.jumpstart("huggingface-reasoning-qwen3-8b", **_HUB), **_IN_4_BITS}, "techniques[0]", "does not list"),
    ("OPT027", {"model": _hub("Qwen/Qwen3-32B"), **_IN_4_BITS}, "techniques[0]", "Qwen/Qwen3-32B-AWQ"),
    ("OPT036", {"techniques": [SpeculativeDecoding.ngram()], "environment": {"SM_VLLM_SPECULATIVE_CONFIG": "{}"}, "instance_type": "ml.p4d.24xlarge"}, "environment.SM_VLLM_SPECULATIVE_CONFIG", "SpeculativeDecoding.ngram(...)"),
    ("OPT039", {"containers": Lock(jobs={"awq": "djl-inference:0.32.0-lmi14.0.1-cu126"})}, "jobs['awq']", "lock --update jobs.awq"),
    ("OPT039", {"containers": Lock(servers={"awq": "vllm:0.19.0-gpu-py312-cu130"})}, "servers['awq']", "lock --update servers.awq"),
    ("OPT039", {"server": Server.vllm(container_version="9.9.9-gpu-py312-cu130-sagemaker")}, "server.container_version", "Test it"),
    ("OPT051", {"instance_type": "ml.g5.24xlarge", "environment": {"SM_VLLM_MAX_NUM_SEQS": "64"}}, "instance_type", "64 requests"),
    ("OPT051", {"model": Model.jumpstart("meta-textgeneration-llama-3-1-405b-fp8", version="1.0.0", accept_eula=True), "techniques": [], "instance_type": "ml.p5.48xlarge", "environment": {"SM_VLLM_MAX_NUM_SEQS": "100000", "SM_VLLM_MAX_NUM_BATCHED_TOKENS": "100000", "SM_VLLM_ALLOW_DEPRECATED_QUANTIZATION": "true"}}, "instance_type", "need more than the usable 618 GB, so requests wait for each other or fail. Plan for fewer or shorter requests"),
    ("OPT053", {"server": Server.sglang(context_length=131_072), **_LLAMA_31, "techniques": [], "instance_type": "ml.g5.xlarge"}, "server.context_length", "SGLang starts, but rejects"),
    ("OPT057", {"model": _hub("LiquidAI/LFM2.5-230M"), "techniques": [], "instance_type": "ml.g6.xlarge", "environment": {"SM_VLLM_MAX_MODEL_LEN": "262144"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "SM_VLLM_HF_OVERRIDES"),
    ("OPT066", {"techniques": [_EAGLE], "environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}, **_LLAMA_31}, "environment.SM_VLLM_MAX_MODEL_LEN", "Longer requests"),
    ("OPT070", {"techniques": [SpeculativeDecoding.mtp()], "server": Server.vllm(), **_LLAMA_31}, "techniques[0]", "num_nextn_predict_layers"),
    ("OPT070", {"techniques": [_EAGLE], "server": Server.sglang(), **_LLAMA_31}, "techniques[0]", "AWS does not document"),
    ("OPT070", {"techniques": [SpeculativeDecoding.ngram(prompt_lookup_max=3)], "server": Server.sglang(), **_LLAMA_31}, "techniques[0].prompt_lookup_max", "in a trie"),
    ("OPT073", {"model": _hub("acme/llama"), "techniques": [Quantization.fp8(checkpoint=_OF_LLAMA)], **_G7E}, "techniques[0].checkpoint", "as a checkpoint of meta-llama/Llama-3.3-70B-Instruct, and does not have acme/llama"),
    ("OPT073", {"model": _hub("meta-llama/Llama-3.1-8B", token_secret_arn=_TOKEN), "techniques": [_speculator("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")], **_G7E}, "techniques[0].model", "so meta-llama/Llama-3.1-8B might accept fewer of its tokens"),
    ("OPT073", {"model": _hub("acme/mine"), "techniques": [_speculator("acme/heads")], "containers": _HEADS_OF_MINE, **_G7E}, "techniques[0].model", "acme/heads has 4096 hidden units per token, and acme/mine 5120"),
    ("OPT074", {"model": _hub("LiquidAI/LFM2.5-1.2B-Instruct"), "techniques": [], "instance_type": "ml.g6.xlarge", "server": Server.vllm(context_length=16_384)}, "server.context_length", "lock --model LiquidAI/LFM2.5-1.2B-Instruct"),
    ("OPT074", {"model": _hub("LiquidAI/LFM2.5-1.2B-Instruct"), "techniques": [], "instance_type": "ml.g6.xlarge", "environment": {"SM_VLLM_MAX_MODEL_LEN": "16384"}}, "environment.SM_VLLM_MAX_MODEL_LEN", "is unknown"),
    ("OPT166", _medusa(), "techniques[0]", "Evaluate it at the concurrency"),
    ("OPT243", {"model": _QWEN, "techniques": [], "instance_type": "ml.g6e.12xlarge", "containers": Lock(jobs={"copying": "pytorch-training:2.9.0-cpu-py312"})}, "jobs['copying']", "lock --update jobs.copying"),
    ("OPT251", {"environment": {"SM_SGLANG_LORA_PATHS": "a=/x b=/y"}, "server": Server.sglang(), **_LLAMA_31, "techniques": []}, "environment.SM_SGLANG_LORA_PATHS", "takes one value in a variable"),
    ("OPT251", {"environment": {"SM_VLLM_SERVED_MODEL_NAME": "a b"}, "server": Server.vllm(container_version="0.30")}, "environment.SM_VLLM_SERVED_MODEL_NAME", "JSON array"),
    ("OPT256", _tuned_by("Qwen/Qwen3-8B@l40s", environment={"LD_PRELOAD": "/opt/ml/model/x.so"}), "tuning['Qwen/Qwen3-8B@l40s'].environment.LD_PRELOAD", "Review changes"),
    ("OPT256", _tuned_by("Qwen/Qwen3-8B", arguments={"model": "evil/model"}), "tuning['Qwen/Qwen3-8B'].arguments.model", "Review changes"),
    ("OPT260", {"environment": {"SM_VLLM_ENABLE_PREFIX_CACHING": "false"}}, "environment.SM_VLLM_ENABLE_PREFIX_CACHING", "Set SM_VLLM_NO_ENABLE_PREFIX_CACHING to true instead"),
    ("OPT260", {"environment": {"MAX_MODEL_LEN": "4096"}}, "environment.MAX_MODEL_LEN", "Did you mean SM_VLLM_MAX_MODEL_LEN?"),
    ("OPT270", {"environment": {"ENCRYPTION_KEY": "correct horse"}}, "environment.ENCRYPTION_KEY", "If it is one, leave it out"),
    ("OPT270", {"model": _copied(environment={"SIGNING_KEY": "correct horse"}), "techniques": [], **_G7E}, "model.compute.environment.SIGNING_KEY", "token_secret_arn"),
]  # fmt: skip


# The invalid call, the rule, the location of the violation, part of the reason or suggestion.
WRONG_SETTINGS: list[tuple[Callable[[], Any], str, str, str]] = [
    (lambda: Model.jumpstart(42), "OPT090", "Model.model_id", "text"),  # type: ignore[arg-type]
    (lambda: Model.jumpstart(LLAMA_70B, accept_eula="yes"), "OPT090", "Model.accept_eula", "True or False"),  # type: ignore[arg-type]
    (lambda: Model.s3(7), "OPT090", "Model.uri", "text"),  # type: ignore[arg-type]
    (lambda: Model.s3("s3://models/mine", encryption_key_arn=7), "OPT090", "Model.encryption_key_arn", "text"),  # type: ignore[arg-type]
    (lambda: _awq(group_size=100), "OPT021", "Quantization.awq.group_size", "32, 64 or 128"),  # type: ignore[arg-type]
    (lambda: _awq(group_size="64"), "OPT021", "Quantization.awq.group_size", "as a number and not as text"),  # type: ignore[arg-type]
    (lambda: _awq(groupsize=64), "OPT021", "Quantization.awq.groupsize", "did you mean group_size?"),  # type: ignore[call-arg]
    (lambda: _awq(64), "OPT021", "Quantization.awq", "group_size=64"),  # type: ignore[misc]
    (lambda: Server.vllm("4096"), "OPT090", "Server.vllm", "container_version='4096' or reasoning_parser='4096' or tool_call_parser='4096'"),  # type: ignore[misc]
    (lambda: Server.vllm(4096), "OPT090", "Server.vllm", "context_length=4096 or max_concurrent_requests=4096"),  # type: ignore[misc]
    (lambda: Quantization.fp8(bits=8), "OPT021", "Quantization.fp8.bits", "it has tensor_parallel_degree, checkpoint, "),  # type: ignore[call-arg]
    (lambda: Quantization.fp8(calibration_size=0), "OPT021", "Quantization.fp8.calibration_size", "1 or more"),
    (lambda: Quantization.fp8(scheme="fp8"), "OPT021", "Quantization.fp8.scheme", "'FP8' or 'FP8_DYNAMIC'"),  # type: ignore[arg-type]
    (lambda: _awq(ignored_layers=[1]), "OPT021", "Quantization.awq.ignored_layers.0", "text"),  # type: ignore[list-item]
    (lambda: _awq(ignored_layers="lm_head"), "OPT021", "Quantization.awq.ignored_layers", "['lm_head']"),
    (lambda: _awq(tensor_parallel_degree=0), "OPT021", "Quantization.awq.tensor_parallel_degree", "1"),
    (lambda: SpeculativeDecoding.custom_draft(), "OPT021", "SpeculativeDecoding.custom_draft", 'uri="s3://'),
    (lambda: SpeculativeDecoding.custom_draft(uri="s3://d/", model=_MINE), "OPT021", "SpeculativeDecoding.custom_draft", "exactly one source"),
    (lambda: SpeculativeDecoding.custom_draft(model=_MINE, accept_eula=True), "OPT021", "SpeculativeDecoding.custom_draft.accept_eula", "Model.s3"),
    (lambda: Objectives(input_tokens=0, output_tokens=1), "OPT230", "Objectives.input_tokens", "1 or more"),
    (lambda: Objectives(input_tokens=1, output_tokens=1, confidence=80), "OPT230", "Objectives.confidence", "less than 1"),
    (lambda: Adapters(max_loaded=8, max_cached=2), "OPT090", "Adapters.max_cached", "8 or more"),
    (lambda: Server.vllm(container_version="111122223333.dkr.ecr.us-west-2.amazonaws.com/my-vllm:1"), "OPT090", "Server.vllm.container_version", "EndpointMonitoring.of(...)"),
    (lambda: Server.lmi(container_version="vllm:0.30.0"), "OPT090", "Server.lmi.container_version", "such as 0.30.0"),
    (lambda: Server.vllm(container_version=""), "OPT090", "Server.vllm.container_version", "1 to 128 letters"),
    (lambda: Server.sglang(container_version="-0.5"), "OPT090", "Server.sglang.container_version", "begins with no . or -"),
    (lambda: Adapters(max_rank=48), "OPT090", "Adapters.max_rank", "1, 8, 16"),  # type: ignore[arg-type]
    (lambda: _medusa(base=_awq()), "OPT021", "Medusa.base", "FineTune"),
    (lambda: _medusa(compute="ml.g5.12xlarge"), "OPT021", "Medusa.compute", "TrainingCompute"),
    (lambda: _medusa(hyperparameters="epochs=2"), "OPT021", "Medusa.hyperparameters", "dictionary"),
    (lambda: _medusa(hyperparameters={"lerning_rate": 1e-4}), "OPT021", "Medusa.hyperparameters", "did you mean learning_rate"),
    (lambda: _medusa(heads=17), "OPT021", "Medusa.heads", "16 or less"),
    (lambda: _tuned(method="lorra"), "OPT021", "FineTune.method", "qlora"),
    (lambda: _on(instance_count=0), "OPT090", "TrainingCompute.instance_count", "1 or more"),
    (lambda: _on(keep_alive_seconds=90_000), "OPT090", "TrainingCompute.keep_alive_seconds", "21600 or less"),
    (lambda: _on(spot="yes"), "OPT090", "TrainingCompute.spot", "True or False"),
    (lambda: _on(environment={"A": 1}), "OPT090", "TrainingCompute.environment.A", "text"),
    (lambda: _on(environment=["A"]), "OPT090", "TrainingCompute.environment", "NAME"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "rule", "location", "message"), WRONG_SETTINGS)
def test_an_invalid_setting_is_refused_at_construction(
    build: Callable[[], Any], rule: str, location: str, message: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    assert [(violation.rule, violation.location) for violation in caught.value.violations] == [(rule, location)]
    assert message in f"{caught.value.violations[0].reason} {caught.value.violations[0].suggestion}"


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(RecipeError) as caught:
        Quantization.fp8(scheme="FP9", calibration_size="many", layers=())  # type: ignore[arg-type, call-arg]
    assert [violation.location for violation in caught.value.violations] == [
        "Quantization.fp8.scheme", "Quantization.fp8.calibration_size", "Quantization.fp8.layers"
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "changed"), [(rule, changed) for rule, cases in GOOD.items() for changed in cases])
def test_valid_recipes_do_not_violate_their_rule(rule: str, changed: dict[str, Any]) -> None:
    assert rule not in [violation.rule for violation in check(Recipe(**recipe(**changed)))]


@pytest.mark.parametrize(("rule", "changed", "location", "message"), BAD)
def test_invalid_recipes_are_refused_with_their_location_and_a_suggestion(
    rule: str, changed: dict[str, Any], location: str, message: str
) -> None:
    found = [violation for violation in check(Recipe(**recipe(**changed))) if violation.rule == rule]
    assert [violation.location for violation in found] == [location]
    assert message in f"{found[0].reason} {found[0].suggestion}"
    assert found[0].link.startswith("https://")


@pytest.mark.parametrize(("rule", "changed", "location", "message"), ADVISED)
def test_doubtful_recipes_are_advised_on_with_their_location_and_a_suggestion(
    rule: str, changed: dict[str, Any], location: str, message: str
) -> None:
    subject = Recipe(**recipe(**changed))
    assert check(subject) == []
    (found,) = [advice.message for advice in warnings(subject) if advice.id == f"constructs-optim:{rule}"]
    assert found.startswith(f"{location} = ")
    assert message in found


def test_every_advisory_rule_of_recipes_has_a_case() -> None:
    assert {rule.id for rule in all_rules(Recipe) if rule.advisory} == {rule for rule, *_ in ADVISED}


def test_a_secret_is_refused_without_being_shown() -> None:
    error = RecipeError(check(Recipe(**recipe(environment={"HF_TOKEN": "hf_" + "x" * 34}))))
    assert "HF_TOKEN" in str(error)
    assert "hf_" not in f"{error}{error.violations}"


def test_every_rule_has_an_id_of_its_own_and_a_source() -> None:
    rules = all_rules()
    assert [rule.id for rule in rules if not re.fullmatch(r"OPT\d{3}", rule.id)] == []
    assert len({rule.title for rule in rules}) == len(rules)
    assert [rule.id for rule in rules if not rule.link.startswith("https://")] == []


def test_every_recipe_rule_has_valid_and_invalid_cases() -> None:
    ids = {rule.id for rule in all_rules(Recipe) if not rule.advisory}
    assert ids == set(GOOD) == {rule for rule, *_ in BAD}


_LATELY_RECORDED = Lock(models={"acme/mine": RecordedModel(revision=_COMMIT, parameters_billion=8, weight_bits=16)})


@pytest.mark.parametrize("containers", [Lock(), _LATELY_RECORDED], ids=["unknown", "recorded"])
@pytest.mark.parametrize("model", [_hub("acme/mine"), _MINE], ids=["huggingface", "s3"])
@pytest.mark.parametrize(
    "technique",
    [
        FineTune(training_data=_DATA),
        Medusa(training_data=_DATA),
        KvCache.fp8(),
        Compilation.tensorrt_llm(),
        Sharding.fast_load(),
        _EAGLE,
        SpeculativeDecoding.ngram(),
        SpeculativeDecoding.mtp(),
        SpeculativeDecoding.speculator(model=_hub("acme/heads")),
        SpeculativeDecoding.custom_draft(uri="s3://models/draft/"),
        _awq(),
        Quantization.fp8(),
        Quantization.fp8_block(),
        Quantization.fp8_dynamic(),
        Quantization.mxfp4(),
        _nvfp4(_MINE),
        _w4a16(),
        _NEURON,
    ],
    ids=lambda technique: technique.name,
)
def test_an_unknown_model_is_served_with_every_technique(technique: Technique, model: Model, containers: Lock) -> None:
    instance = "ml.inf2.48xlarge" if technique.accelerators == "neuron" else "ml.p5.48xlarge"
    unknown = recipe(model=model, techniques=[technique], instance_type=instance, containers=containers)
    assert check(Recipe(**unknown)) == []


@pytest.mark.parametrize(
    "technique",
    [
        FineTune(training_data=_DATA),
        Medusa(training_data=_DATA, compute=TrainingCompute(instance_type="ml.g6e.xlarge")),
    ],
    ids=lambda technique: technique.name,
)
def test_llamas_of_hugging_face_are_trained(technique: Technique) -> None:
    on_hub: dict[str, Any] = {"techniques": [technique], "instance_type": "ml.g5.12xlarge"}
    assert check(Recipe(**recipe(model=_LLAMA, **on_hub))) == []
    refused = check(Recipe(**recipe(model=_hub("Qwen/Qwen3-8B"), **on_hub)))
    # Its Medusa heads have more words than Llama's, and do not fit on that GPU either.
    assert [violation.rule for violation in refused][:1] == ["OPT023"]
    assert {violation.rule for violation in refused} <= {"OPT023", "OPT163"}


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("OPT012", {"techniques": [Sharding.fast_load()], "instance_type": "ml.p6-b200.48xlarge"}),
        ("OPT012", {"techniques": [Compilation.tensorrt_llm()], "instance_type": "ml.p6-b200.48xlarge"}),
        (
            "OPT071",
            {
                "model": _hub("google/gemma-4-31B-it"),
                "techniques": [Quantization.fp8(checkpoint=_NVFP4)],
                "server": Server.sglang(),
                **_G7E,
            },
        ),
        ("OPT008", {"model": Model.huggingface("s3://b/x"), "techniques": [], **_G7E}),
        ("OPT008", {"model": Model.huggingface("Qwen3-32B"), "techniques": [], **_G7E}),
        ("OPT028", {"techniques": [_w4a16(compute=TrainingCompute(instance_type="ml.c5d.xlarge"))]}),
        ("OPT162", {"techniques": [_w4a16(compute=TrainingCompute(instance_type="ml.m5.xlarge"))]}),
        ("OPT055", {"model": _NVFP4, "techniques": [], "instance_type": "ml.inf2.48xlarge"}),
    ],
)
def test_one_mistake_is_one_error(rule: str, changed: dict[str, Any]) -> None:
    assert [violation.rule for violation in check(Recipe(**recipe(**changed)))] == [rule]


def test_a_model_of_jumpstart_may_be_the_one_that_a_speculator_is_of() -> None:
    speculator = _speculator("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")
    subject = Recipe(**recipe(**{**_LLAMA_8B, "techniques": [speculator]}))
    assert check(subject) == []
    assert not [each for each in warnings(subject) if each.id.endswith("OPT073")]


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        ("Qwen/Qwen3-32B-AWQ", {"instance_type": "ml.g6.xlarge"}),
        ("Qwen/Qwen2.5-32B", {"instance_type": "ml.g6.12xlarge", "server": Server.vllm(context_length=131_072)}),
    ],
)
def test_an_instance_type_that_would_do_is_one_that_the_rules_take(model: str, changed: dict[str, Any]) -> None:
    small = Recipe(**recipe(model=_hub(model), techniques=[], **changed))
    found = {advice.id: advice.message for advice in warnings(small)}
    (larger,) = re.findall(r"Choose (ml\.[\w.]*\w)", found["constructs-optim:OPT051"])
    roomy = replace(small, instance_type=larger)
    assert not check(roomy)
    assert "constructs-optim:OPT051" not in {advice.id for advice in warnings(roomy)}


class _Secret:
    secret_arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub"


def test_a_construct_in_place_of_its_arn_is_refused_with_the_name_of_the_attribute() -> None:
    with pytest.raises(RecipeError) as refused:
        Model.huggingface("Qwen/Qwen3-32B", token_secret_arn=_Secret())  # type: ignore[arg-type]
    assert refused.value.violations[0].suggestion == "secret.secret_arn"


def test_advice_names_the_location_the_value_and_the_reason() -> None:
    arguments = recipe(model=_hub("acme/mine"), techniques=[], **_G7E)
    (advice,) = warnings(Recipe(**arguments))
    assert advice.message.startswith(
        "model = 'acme/mine': the model is not in the catalog, so it might not fit in memory"
    )


def of_a_newer_engine() -> list[Recipe]:
    """Recipes of a model that needs a newer release of vLLM than any: without a server, and with one."""
    models.override("acme/future", recipe=models.VllmRecipe(engine="99.0.0"))
    arguments: dict[str, Any] = {"model": _hub("acme/future"), "techniques": [], **_G7E}
    return [Recipe(**recipe(**arguments, **served)) for served in ({}, {"server": Server.vllm()})]


def test_a_model_that_needs_a_newer_engine_is_refused_with_the_release() -> None:
    (of_any,), (of_vllm,) = map(check, of_a_newer_engine())
    needed = "acme/future needs vLLM 99.0.0 or newer, which no"
    assert (of_any.rule, of_any.location, of_any.reason) == ("OPT030", "model", f"{needed} cataloged image has")
    assert (of_vllm.rule, of_vllm.location, of_vllm.reason) == ("OPT037", "server", f"{needed} vLLM image has")


def test_a_misspelt_model_has_no_revision_to_look_up() -> None:
    for name, rule in (("Qwen3-32B", "OPT008"), ("Qwen/Qwen3-32B", "OPT017")):
        (found,) = check(Recipe(**recipe(model=Model.huggingface(name, revision="main"), **_G7E)))
        assert found.rule == rule


def test_an_argument_of_the_wrong_type_violates_only_its_type_rule() -> None:
    found: list[Violation] = check(Recipe(model=object(), techniques=object(), instance_type=object(), region=object()))
    assert {violation.rule for violation in found} == {"OPT001", "OPT010", "OPT014", "OPT020"}


@pytest.mark.parametrize("ending", [".tar.gz", ".tgz", ".tar", ".zip", ".TAR"])
def test_a_model_in_an_archive_is_unpacked(ending: str) -> None:
    (found,) = check(Recipe(**recipe(model=Model.s3(f"s3://models/llama/model{ending}"))))
    assert (found.rule, found.suggestion) == ("OPT005", "unpack the archive to a prefix, and pass the prefix")


@pytest.mark.parametrize("ending", [".safetensors", ".bin", ".gguf", ".json", ".pt", ".pth", ".BIN"])
def test_a_file_of_a_model_is_answered_with_its_prefix(ending: str) -> None:
    (found,) = check(Recipe(**recipe(model=Model.s3(f"s3://models/llama/model{ending}"))))
    assert (found.rule, found.suggestion) == ("OPT005", "s3://models/llama/")


@pytest.mark.parametrize(
    "method", ["auto_awq", "auto_gptq", "awq", "awq_marlin", "gptq", "gptq_marlin", "moe_wna16", " awq "]
)
def test_weights_in_16_bits_have_no_files_of_a_quantization(method: str) -> None:
    subject = Recipe(**recipe(environment={"SM_VLLM_QUANTIZATION": method}, **_LLAMA_8B))
    assert "OPT274" in {each.rule for each in check(subject)}


@pytest.mark.parametrize(
    ("server", "variable", "value"),
    [
        (Server.vllm(), "SM_VLLM_HF_OVERRIDES", "{}"),
        (Server.vllm(), "SM_VLLM_ROPE_SCALING", "{}"),
        (Server.vllm(), "SM_VLLM_ROPE_THETA", "1000000"),
        (Server.sglang(), "SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS", "{}"),
        (Server.vllm(), "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"),
        (Server.vllm(), "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "yes"),
        (Server.sglang(), "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "true"),
    ],
)
def test_a_longer_context_than_the_model_s_own_can_be_asked_for(
    server: ServerSettings, variable: str, value: str
) -> None:
    given = {server.variable("max_model_len"): "200000"}
    rules = [
        {each.rule for each in check(Recipe(**recipe(server=server, environment=environment, **_LLAMA_8B)))}
        for environment in (given, {**given, variable: value})
    ]
    assert ["OPT056" in each for each in rules] == [True, False]


@pytest.mark.parametrize("off", ["", "0", "false", "no", "off", "OFF"])
def test_a_longer_context_that_is_switched_off_is_refused(off: str) -> None:
    environment = {"SM_VLLM_MAX_MODEL_LEN": "200000", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": off}
    assert "OPT056" in {each.rule for each in check(Recipe(**recipe(environment=environment, **_LLAMA_8B)))}


@pytest.mark.parametrize(
    ("variable", "value", "is_refused"),
    [
        ("OPTION_ENTRYPOINT", "mine.py", True),
        ("SAGEMAKER_PROGRAM", "mine.py", True),
        ("SAGEMAKER_SUBMIT_DIRECTORY", "/opt/mine", True),
        ("OPTION_TRUST_REMOTE_CODE", "TRUE", True),
        ("OPTION_TRUST_REMOTE_CODE", "false", False),
        ("HF_TRUST_REMOTE_CODE", "true", True),
        ("HF_TRUST_REMOTE_CODE", "false", False),
    ],
)
def test_a_draft_excludes_code_of_the_user_s(variable: str, value: str, is_refused: bool) -> None:
    found = check(Recipe(**recipe(techniques=[_DRAFT], environment={variable: value})))
    assert ("OPT062" in {each.rule for each in found}) is is_refused


@pytest.mark.parametrize(
    ("value", "reason", "fix"),
    [
        (3, "this is not a server", "a server such as Server.vllm()"),
        (Server, "this is not a server", "a server such as Server.vllm()"),
        (Server.vllm, "this is the class of a server, not an instance", "Server.vllm()"),
        ("sglang", "this is a string, not a server", "Server.sglang()"),
    ],
)
def test_what_is_no_server_is_told_apart(value: Any, reason: str, fix: str) -> None:
    (found,) = check(Recipe(**recipe(server=value)))
    assert (found.rule, found.reason, found.suggestion) == ("OPT037", reason, fix)
