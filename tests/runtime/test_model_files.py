"""Which files of a model an engine reads, and what a folder is that it cannot load."""

from __future__ import annotations

import pytest

from constructs_optim.runtime.model_files import fault, weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKENIZER = ["tokenizer.json", "tokenizer_config.json"]
PARTS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
MODEL = ["config.json", *PARTS, "model.safetensors.index.json", *TOKENIZER]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (MODEL, PARTS),
        # openai/gpt-oss-20b: Meta's and OpenAI's own layouts are in folders below, which engines do not read.
        ([*MODEL, "original/model.safetensors", "metal/model.bin"], PARTS),
        # microsoft/Phi-4-multimodal-instruct has adapters in folders of their own.
        ([*MODEL, "vision-lora/adapter_model.safetensors", "speech-lora/adapter_model.safetensors"], PARTS),
        # mistralai/Mistral-7B-Instruct-v0.3 has its weights in both layouts.
        ([*MODEL, "params.json", "consolidated.safetensors"], PARTS),
        (["params.json", "consolidated.safetensors", "tekken.json"], ["consolidated.safetensors"]),
        (["config.json", "consolidated.safetensors"], ["consolidated.safetensors"]),
        (["config.json", "pytorch_model.bin"], []),
        ([], []),
    ],
)
def test_the_weights_are_those_beside_the_configuration(names: list[str], expected: list[str]) -> None:
    assert weights(names) == expected


@pytest.mark.parametrize(
    ("names", "reason", "fix"),
    [
        ([], "there are no files", "upload the model's files"),
        (["adapter_config.json", "adapter_model.safetensors", *TOKENIZER], "LoRA adapter", "add_adapter(...)"),
        (
            ["checkpoint-500/adapter_config.json", "checkpoint-500/adapter_model.safetensors"],
            "LoRA adapter",
            "base model",
        ),
        (
            ["model_index.json", "unet/config.json", "unet/diffusion_pytorch_model.safetensors", "vae/config.json"],
            "pipeline of diffusers",
            "diffusion models",
        ),
        (
            [f"models--acme--llama/snapshots/{COMMIT}/config.json", f"models--acme--llama/blobs/{COMMIT}"],
            "cache of huggingface_hub",
            "hf download",
        ),
        # With the names of branches in place of commits.
        (["models--acme--llama/snapshots/main/config.json", "models--acme--llama/refs/main"], "cache", "hf download"),
        ([f"snapshots/{COMMIT}/config.json", f"snapshots/{COMMIT}/model.safetensors"], "cache", "--local-dir"),
        (["config.json", "__0_0.distcp", "__1_0.distcp", ".metadata"], "checkpoint of training", "save_pretrained"),
        (
            ["config.json", "global_step100/mp_rank_00_model_states.pt", "latest"],
            "checkpoint of training",
            "zero_to_fp32.py",
        ),
        (["llama-q4_k_m.gguf", "README.md"], "GGUF", "safetensors"),
        (["config.json", "llama-q4_k_m.gguf"], "GGUF", "safetensors"),
        (["model.tar.gz"], "an archive", "unpack"),
        (["code/inference.py", "model.tar.gz"], "an archive", "unpack"),
        ([*PARTS, *TOKENIZER], "there is no config.json", "upload config.json"),
        (["llama/config.json", "llama/model.safetensors"], "there is no config.json", "use the folder llama/"),
        (["params.json", "model.safetensors"], "there is no config.json", "upload config.json"),
        (["config.json", *TOKENIZER, "model.safetensors.index.json"], "there are no weights", "beside config.json"),
        (["config.json", "original/model.safetensors"], "there are no weights", "beside config.json"),
        (["config.json", "pytorch_model.bin"], "pickle files only", "safetensors"),
        (["config.json", PARTS[1]], f"is incomplete: it lacks {PARTS[0]}", "upload the missing files"),
        (["params.json", "consolidated-00001-of-00002.safetensors"], "lacks consolidated-00002-of-00002", "upload"),
        # deepseek-ai/DeepSeek-V3 counts its parts in six digits.
        (["config.json", "model-00002-of-000002.safetensors"], "lacks model-00001-of-000002.safetensors", "upload"),
        (
            ["config.json", "model-00002-of-00006.safetensors"],
            "model-00001-of-00006.safetensors, model-00003-of-00006.safetensors, model-00004-of-00006.safetensors and "
            "2 more",
            "upload",
        ),
    ],
)
def test_a_folder_that_no_engine_loads_is_named_for_what_it_is(names: list[str], reason: str, fix: str) -> None:
    found = fault(names)
    assert found is not None
    assert reason in found.reason
    assert fix in found.fix


@pytest.mark.parametrize(
    "names",
    [
        MODEL,
        ["params.json", "consolidated.safetensors", "tekken.json"],
        # A merged model beside the adapter it was made with.
        [*MODEL, "adapter_config.json", "adapter_model.safetensors"],
        [*MODEL, "checkpoint-500/optimizer.pt", "runs/events"],
        # openai/gpt-oss-20b counts from 0 to the number itself, and other models to the one before.
        ["config.json", *(f"model-0000{number}-of-00002.safetensors" for number in (0, 1, 2))],
        ["config.json", *(f"model-0000{number}-of-00002.safetensors" for number in (0, 1))],
        # Saved again in other parts, of which some of the old ones are left.
        [*MODEL, "model-00002-of-00003.safetensors"],
        [*MODEL, "model.Q4_K_M.gguf", "original/consolidated.00.pth", "pytorch_model.bin"],
    ],
)
def test_a_model_that_an_engine_loads_has_no_fault(names: list[str]) -> None:
    assert fault(names) is None


def test_pickles_are_weights_where_they_are_accepted() -> None:
    assert fault(["config.json", "pytorch_model.bin"], pickles=True) is None
    assert fault(["config.json", "README.md"], pickles=True) is not None
