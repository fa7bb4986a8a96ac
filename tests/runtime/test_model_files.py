"""Which files of a model an engine reads, and what a folder is that it cannot load."""

from __future__ import annotations

import pytest

from constructs_optim.runtime.model_files import fault, has_both_layouts, has_tokenizer, pickled, weights

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
        (["config.json", "model.safetensors", "adapter_model.safetensors"], ["model.safetensors"]),
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
        (["config.json", "optimizer.pt", "training_args.bin"], "there are no weights", "beside config.json"),
        (["config.json", "consolidated.00.pth"], "only consolidated.00.pth: engines read", "save_pretrained"),
        (["config.json", "onnx/model.onnx"], "ONNX files", "safetensors"),
        (["config.json", "flax_model.msgpack"], "Flax files", "safetensors"),
        (["config.json", "adapter_config.json", "adapter_model.safetensors"], "LoRA adapter", "add_adapter(...)"),
        (["config.json", "adapter_config.json", "adapter_model.bin"], "LoRA adapter", "add_adapter(...)"),
        (
            ["config.json", "model.safetensors", "adapter_model.safetensors"],
            "adapter_model.safetensors is beside the weights, and without model.safetensors.index.json",
            "the files without adapter_model.safetensors",
        ),
        (["config.json", "model-rank-0-part-0.safetensors"], "the parts of accelerators", "load_format sharded_state"),
        (
            ["config.json", "checkpoint-100/model.safetensors", "checkpoint-100/optimizer.pt"],
            "in checkpoint-100/, a checkpoint of training",
            "the files of checkpoint-100/",
        ),
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
        ["config.json", "model.safetensors", "model-00002-of-00003.safetensors"],
        [*MODEL, "model.Q4_K_M.gguf", "original/consolidated.00.pth", "pytorch_model.bin"],
    ],
)
def test_a_model_that_an_engine_loads_has_no_fault(names: list[str]) -> None:
    assert fault(names) is None


def test_only_the_parts_of_accelerators_have_a_load_format() -> None:
    parts = fault(["config.json", "model-rank-0-part-0.safetensors", "model-rank-1-part-0.safetensors"])
    others = fault(["config.json", "llama-q4_k_m.gguf"])
    assert (parts and parts.load_format, others and others.load_format) == ("sharded_state", None)


def test_files_that_an_index_names_are_there() -> None:
    assert fault(MODEL, indexed=PARTS) is None
    found = fault(MODEL, indexed=[*PARTS, "model-a.safetensors"])
    assert found is not None
    assert found.reason == "the model is incomplete: it lacks model-a.safetensors"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["pytorch_model.bin", "training_args.bin", "optimizer.pt"], ["pytorch_model.bin"]),
        (["model.pt", "scheduler.pt"], ["model.pt"]),
        # Engines take the first ending of which there are files.
        (["model.pt", "training_args.bin"], []),
        (["adapter_model.bin", "original/pytorch_model.bin", "consolidated.00.pth"], []),
    ],
)
def test_pickled_weights_are_those_that_engines_read(names: list[str], expected: list[str]) -> None:
    assert pickled(names) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        *((["config.json", name], True) for name in ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.txt")),
        *((["config.json", name], True) for name in ("qwen.tiktoken", "spiece.model", "tokenizer.model.v3")),
        (["config.json", "vocab.json", "merges.txt"], True),
        # The model's own code may have one.
        (["config.json", "tokenizer_config.json", "tokenization_own.py"], True),
        (["config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"], False),
        (["config.json", "original/tokenizer.model", "model.safetensors"], False),
    ],
)
def test_a_tokenizer_is_known_by_its_vocabulary(names: list[str], expected: bool) -> None:
    assert has_tokenizer(names) is expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["config.json", "consolidated.safetensors", *PARTS], True),
        (["config.json", "params.json", "consolidated.safetensors", *PARTS], False),
        (["config.json", "consolidated.safetensors"], False),
        (MODEL, False),
    ],
)
def test_weights_in_mistrals_layout_come_before_those_of_the_hubs(names: list[str], expected: bool) -> None:
    assert has_both_layouts(names) is expected


def test_pickles_are_weights_where_they_are_accepted() -> None:
    found = fault(["config.json", "pytorch_model-00001-of-00002.bin"], pickles=True)
    assert found is not None
    assert "lacks pytorch_model-00002-of-00002.bin" in found.reason
    assert fault(["config.json", "pytorch_model.bin"], pickles=True) is None
    assert fault(["config.json", "README.md"], pickles=True) is not None
