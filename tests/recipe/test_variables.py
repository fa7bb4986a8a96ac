"""Variables of a container that its server does not read."""

from __future__ import annotations

import re
from inspect import signature

import pytest

from constructs_optim.recipe import KvCache, Model, Quantization, Recipe
from constructs_optim.recipe.catalog import engine_arguments, server_variables
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.rules.variable_rules import _is_misspelled
from constructs_optim.recipe.servers import Server, ServerSettings, by_name

VLLM, SGLANG, LMI, TGI = Server.vllm(), Server.sglang(), Server.lmi(), Server.text_generation_inference()
# Of CUDA, NCCL, PyTorch, Hugging Face's libraries, Python, proxies, AWS's SDK and SageMaker; and names of one's own.
ORDINARY = """
    HF_HUB_OFFLINE HF_HOME HF_ENDPOINT HF_HUB_ENABLE_HF_TRANSFER HF_HUB_DOWNLOAD_TIMEOUT HF_DATASETS_CACHE HF_TOKEN
    HF_TRUST_REMOTE_CODE_OF_MINE TRANSFORMERS_OFFLINE TRANSFORMERS_CACHE TOKENIZERS_PARALLELISM HUGGINGFACE_HUB_CACHE
    LOG_LEVEL LOGLEVEL DEBUG TZ LANG LC_ALL PATH HOME TMPDIR PYTHONPATH PYTHONUNBUFFERED PYTHONHASHSEED
    LD_LIBRARY_PATH LD_PRELOAD OMP_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS
    NCCL_DEBUG NCCL_P2P_DISABLE NCCL_IB_DISABLE NCCL_SOCKET_IFNAME NCCL_NVLS_ENABLE NCCL_CUMEM_ENABLE FI_PROVIDER
    CUDA_VISIBLE_DEVICES CUDA_LAUNCH_BLOCKING CUDA_DEVICE_MAX_CONNECTIONS CUDA_HOME CUDA_CACHE_PATH
    PYTORCH_CUDA_ALLOC_CONF TORCH_CUDA_ARCH_LIST TORCHINDUCTOR_CACHE_DIR TORCH_NCCL_AVOID_RECORD_STREAMS
    TRITON_CACHE_DIR RAY_DEDUP_LOGS RAY_memory_monitor_refresh_ms XDG_CACHE_HOME
    HTTP_PROXY HTTPS_PROXY NO_PROXY https_proxy no_proxy SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_INDEX_URL
    AWS_REGION AWS_DEFAULT_REGION AWS_STS_REGIONAL_ENDPOINTS S3_ENDPOINT_URL
    SAGEMAKER_MODEL_SERVER_WORKERS SAGEMAKER_ENV ENDPOINT_SERVER_TIMEOUT
    MODEL MODEL_CACHE_ROOT MODEL_NAME PORT HOST API_KEY OPENAI_API_KEY EOS_TOKEN CONFIG SEED DEVICE TEAM STAGE
    NODE_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK RANK OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_ENDPOINT
    STANDARD_AUTO_INSTALL_REQ JAVA_OPTS MAX_JOBS
""".split()  # noqa: SIM905 - a list that wraps


def recipe_with(name: str, server: ServerSettings, value: str = "1") -> Recipe:
    """A recipe with a variable."""
    return Recipe(Model.s3("s3://models/mine/"), [], "ml.p5.48xlarge", "us-west-2", {name: value}, server=server)


def advice(name: str, server: ServerSettings, value: str = "1") -> list[str]:
    """The advice on a variable."""
    return [each.message for each in warnings(recipe_with(name, server, value)) if each.id == "constructs-optim:OPT260"]


@pytest.mark.parametrize("server", [VLLM, SGLANG, LMI, TGI], ids=lambda server: server.name)
def test_ordinary_variables_have_no_advice(server: ServerSettings) -> None:
    assert {name: found for name in ORDINARY if (found := advice(name, server))} == {}


@pytest.mark.parametrize("server", [VLLM, SGLANG, LMI, TGI], ids=lambda server: server.name)
def test_no_variable_that_a_server_reads_has_advice(server: ServerSettings) -> None:
    names = {*server_variables.read_by(server.name), *server.fixed, *filter(None, [server.any_length])}
    if server.name != "text_generation_inference":
        rows = engine_arguments.of_newest("sglang" if server.name == "sglang" else "vllm").rows
        ignored = {"api_server_count", "grpc", "headless"} if server.name == "vllm" else set[str]()
        names |= {server.variable(argument) for argument in rows if argument not in ignored}
    assert {name: found for name in names if (found := advice(name, server))} == {}


UNREAD: list[tuple[str, ServerSettings, str]] = [
    ("HF_MODEL_ID", VLLM, "Leave it out: the server loads the recipe's model"),
    ("SM_NUM_GPUS", VLLM, "Set SM_VLLM_TENSOR_PARALLEL_SIZE, or leave it out"),
    ("MAX_INPUT_LENGTH", VLLM, "it is a variable of Text Generation Inference"),
    ("MAX_TOTAL_TOKENS", VLLM, "Set SM_VLLM_MAX_MODEL_LEN"),
    ("MAX_TOTAL_TOKENS", SGLANG, "Set SM_SGLANG_CONTEXT_LENGTH, or leave it out"),
    ("MAX_INPUT_TOKENS", SGLANG, "SM_SGLANG_CONTEXT_LENGTH, which limits a prompt and its completion together"),
    ("MAX_BATCH_PREFILL_TOKENS", VLLM, "Set SM_VLLM_MAX_NUM_BATCHED_TOKENS, or leave it out"),
    ("MAX_BATCH_PREFILL_TOKENS", SGLANG, "Set SM_SGLANG_MAX_PREFILL_TOKENS, or leave it out"),
    ("MAX_BATCH_TOTAL_TOKENS", LMI, "Leave it out: the engine makes its KV cache as large as the memory allows"),
    ("MAX_CONCURRENT_REQUESTS", VLLM, "Server.lmi() or Server.text_generation_inference()"),
    ("NUM_SHARD", LMI, "Set OPTION_TENSOR_PARALLEL_DEGREE, or leave it out"),
    ("CUDA_MEMORY_FRACTION", SGLANG, "Set SM_SGLANG_MEM_FRACTION_STATIC, or leave it out"),
    ("TENSOR_PARALLEL_DEGREE", VLLM, "Set SM_VLLM_TENSOR_PARALLEL_SIZE, or leave it out"),
    ("TENSOR_PARALLEL_DEGREE", TGI, "Set SM_NUM_GPUS, or leave it out"),
    (
        "HF_TRUST_REMOTE_CODE",
        VLLM,
        "SM_VLLM_TRUST_REMOTE_CODE, which Model.huggingface(..., allow_code=True) also sets",
    ),
    ("HF_MODEL_REVISION", LMI, "Leave it out: the recipe states the commit"),
    ("MODEL_ID", LMI, "Leave it out: the server loads the recipe's model"),
    ("MESSAGES_API_ENABLED", VLLM, "Leave it out: the server has OpenAI's chat completions"),
    ("KV_CACHE_DTYPE", VLLM, "Leave it out: techniques=[KvCache.fp8()]"),
    ("HF_TASK", SGLANG, "Leave it out: the server generates text"),
    ("HF_OPTIMUM_BATCH_SIZE", VLLM, "it is a variable of the Hugging Face inference toolkit"),
    ("SAGEMAKER_PROGRAM", VLLM, "Leave it out: the server runs no inference script"),
    ("VALIDATION_WORKERS", VLLM, "Leave it out, or set server=Server.text_generation_inference()"),
    ("QUANTIZE", VLLM, "Leave it out: the engine reads the format of quantized weights from config.json"),
    ("QUANTIZE", LMI, "Set OPTION_QUANTIZE"),
    ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", VLLM, "it is a variable of SGLang"),
    ("SERVING_FAIL_FAST", VLLM, "it is a variable of Large Model Inference"),
    ("VLLM_LOGGING_LEVEL", SGLANG, "it is a variable of vLLM and Large Model Inference"),
    ("MAX_MODEL_LEN", VLLM, "Did you mean SM_VLLM_MAX_MODEL_LEN?"),
    ("MAX_MODEL_LEN", SGLANG, "Did you mean SM_SGLANG_CONTEXT_LENGTH?"),
    ("MAX_MODEL_LEN", TGI, "Did you mean MAX_TOTAL_TOKENS?"),
    ("TENSOR_PARALLEL_SIZE", LMI, "Did you mean OPTION_TENSOR_PARALLEL_DEGREE?"),
    ("SM_VLM_MAX_MODEL_LEN", VLLM, "Did you mean SM_VLLM_MAX_MODEL_LEN?"),
    ("sm_vllm_max_model_len", VLLM, "Did you mean SM_VLLM_MAX_MODEL_LEN?"),
    ("VLLM_MAX_MODEL_LEN", VLLM, "Did you mean SM_VLLM_MAX_MODEL_LEN?"),
    ("VLLM_LOGING_LEVEL", VLLM, "Did you mean VLLM_LOGGING_LEVEL?"),
    ("SM_VLLM_HEADLESS", VLLM, "which alone reads --headless"),
    ("OPTION_TENSOR_PARALEL_DEGREE", LMI, "Did you mean OPTION_TENSOR_PARALLEL_DEGREE?"),
    ("QUANTISE", TGI, "Did you mean QUANTIZE?"),
]
# Values of engine arguments.
ACCEPTED = {
    "dtype": "bfloat16",
    "gpu_memory_utilization": "0.9",
    "max_model_len": "4096",
    "max_num_batched_tokens": "16384",
    "max_num_seqs": "64",
    "max_prefill_tokens": "16384",
    "mem_fraction_static": "0.9",
    "pipeline_parallel_size": "1",
    "quantize": "fp8",
    "tensor_parallel_size": "8",
    "trust_remote_code": "true",
}


@pytest.mark.parametrize(("name", "server", "part"), UNREAD)
def test_a_variable_that_the_server_does_not_read_is_advised_against(
    name: str, server: ServerSettings, part: str
) -> None:
    (found,) = advice(name, server, "true")
    assert found.startswith(f"environment.{name} = 'true': ")
    assert part in found


@pytest.mark.parametrize("server", [VLLM, SGLANG, LMI], ids=lambda server: server.name)
@pytest.mark.parametrize("name", server_variables.counterparts())
def test_what_advice_on_a_variable_of_another_server_names_works(name: str, server: ServerSettings) -> None:
    row, found = server_variables.counterparts()[name], advice(name, server)
    reading = [each for each in by_name() if server_variables.is_read(each, name)]
    is_of_toolkits = server is not LMI and bool(server_variables.toolkits_with(name))
    assert len(found) == (server.name not in reading and bool(reading or is_of_toolkits))
    for meant in re.findall(r"Set (\w+)", " ".join(found)):
        recipe = recipe_with(meant, server, ACCEPTED[str(row.argument_of(server.name))])
        assert check(recipe) == []
        assert advice(meant, server) == []
    for other in re.findall(r"Server\.(\w+)\(\)", " ".join(found)):
        assert advice(name, getattr(Server, other)()) == []
    model = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", accept_eula=True)
    for technique in re.findall(r"techniques=\[(.*?)\]", row.instead):
        techniques = [eval(technique, {"KvCache": KvCache, "Quantization": Quantization})]
        assert check(Recipe(model, techniques, "ml.p5.48xlarge", "us-west-2")) == []
    for option in re.findall(r"Model\.huggingface\(\.\.\., (\w+)=", f"{row.instead} {row.meaning}"):
        assert option in signature(Model.huggingface).parameters


def test_a_token_of_the_hub_belongs_to_the_job_that_copies() -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_API_TOKEN"):
        (refused,) = check(recipe_with(name, VLLM, f"hf_{'x' * 34}"))
        assert (refused.rule, refused.value) == ("OPT034", "(not shown)")
        assert "leave it out: only the job that copies a model reads a token" in refused.suggestion
    assert check(recipe_with("TEAM", VLLM)) == []


def test_a_variable_with_three_other_letters_is_another_one() -> None:
    (found,) = advice("VLLM_LOGIN_LEVEL", VLLM, "true")
    assert "Did you mean VLLM_LOGGING_LEVEL?" in found
    assert not advice("VLLM_LOGIN_LEVL", VLLM, "true")


@pytest.mark.parametrize(
    ("name", "server"),
    [
        # vLLM 0.11.1, 0.10.2 and 0.26.0.
        ("VLLM_ATTENTION_BACKEND", Server.lmi(container_version="0.35.0")),
        ("VLLM_USE_FLASHINFER_MOE_FP8", Server.lmi(container_version="0.35.0")),
        ("VLLM_LOGING_LEVEL", Server.lmi(container_version="0.35.0")),
        ("VLLM_MARLIN_USE_ATOMIC_ADD", Server.lmi(container_version="0.35.0")),
        ("OPTION_TENSOR_PARALEL_DEGREE", Server.lmi(container_version="0.35.0")),
        ("option_rolling_batch", Server.lmi(container_version="0.34.0")),
        ("OPTION_ENABLE_REASONING", Server.lmi(container_version="0.34.0")),
        ("VLLM_ATTENTION_BACKEND", LMI),
        ("OPTION_ENABLE_REASONING", LMI),
        ("OPTION_DISABLE_LOG_REQUESTS", LMI),
        ("OPTION_MIN_MODEL_LEN", LMI),
        ("VLLM_ATTENTION_BACKEND", Server.vllm(container_version="0.26.0")),
        ("VLLM_ATTENTION_BACKEND", Server.sglang(container_version="0.5.13")),
        ("LMCACHE_CONFIG_FILE", SGLANG),
        ("LMCACHE_USE_EXPERIMENTAL", SGLANG),
        ("LMCACHE_CONFIG_FILE", VLLM),
        ("LMCACHE_CONFIG_FILE", LMI),
    ],
)
def test_a_variable_that_the_engine_may_read_has_no_advice(name: str, server: ServerSettings) -> None:
    assert not advice(name, server, "true")


def test_a_value_that_looks_like_a_secret_is_not_shown() -> None:
    (found,) = advice("SM_VLM_API_KEY", VLLM, "sk-0123456789abcdef0123456789abcdef")
    assert "0123" not in found


def test_the_catalog_has_the_variables_of_every_server() -> None:
    for name in by_name():
        assert server_variables.read_by(name)
    recipe = Recipe(Model.s3("s3://models/mine/"), [], "ml.p5.48xlarge", "us-west-2", {"A": "1"}, server=VLLM)
    assert not check(recipe)


@pytest.mark.parametrize(
    ("name", "known", "is_misspelled"),
    [
        ("VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL", True),
        ("VLLM_LOGIN_LEVEL", "VLLM_LOGGING_LEVEL", True),
        ("VLLM_LOGIN_LEVL", "VLLM_LOGGING_LEVEL", False),
        ("VLLM_USE_V2", "VLLM_USE_V1", False),
        ("VLLM_ENABLE_CACHE", "VLLM_DISABLE_CACHE", False),
        ("VLLM_MAX_CACHE", "VLLM_MIN_CACHE", False),
        ("NCCL_P2P_ENABLE", "NCCL_P2P_DISABLE", False),
        ("VLLM_CACHE_MAX", "VLLM_CACHE_MIN", False),
        ("VLLM_MAXES_CACHE", "VLLM_MAX_CACHE", True),
    ],
)
def test_a_misspelled_name_has_two_other_letters_at_most_and_no_opposite_word(
    name: str, known: str, is_misspelled: bool
) -> None:
    assert _is_misspelled(name, known) is is_misspelled
    assert _is_misspelled(known, name) is is_misspelled
