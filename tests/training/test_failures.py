from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.training.errors import LONGEST_REASON, UnusableModel, describe_error, write_failure
from constructs_optim.training.model.backbone import load_backbone, load_tokenizer, read_configuration
from constructs_optim.training.settings import FineTuningSettings, HeadTrainingSettings

from .jobs import FAST, job
from .models import save_small_model, small_tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model("llama", tmp_path_factory.mktemp("base") / "model")


def failure_of(root: Path, script: str, hyperparameters: dict[str, str], **channels: Path) -> str:
    """What a job that fails leaves for SageMaker to show."""
    failing = job(root / "job", script, hyperparameters, **channels)
    status, log = failing.run()
    assert status == 1, log
    assert failing.failure is not None, log
    assert len(failing.failure) <= LONGEST_REASON
    assert "Traceback" not in failing.failure
    return failing.failure


def test_malformed_data_reaches_the_jobs_failure_reason(tmp_path: Path, base: Path) -> None:
    data = tmp_path / "training.jsonl"
    data.write_text('{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n' + "{\n" * 300)
    reason = failure_of(tmp_path, "train_heads", {}, finetuned=base, training=data)
    assert reason.startswith("301 of 302 lines cannot be used:\n  training.jsonl line 2: it has no 'completion'")
    assert reason.endswith("...")


def test_a_nan_loss_ends_training_with_its_step_and_a_remedy(tmp_path: Path, base: Path, corpus: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(base, broken)
    tensors = load_file(base / "model.safetensors")
    tensors["model.norm.weight"][:] = float("nan")
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    reason = failure_of(tmp_path, "train_heads", FAST, finetuned=broken, training=corpus / "training.jsonl")
    assert reason.startswith("the loss became nan at step 0")
    assert "Lower learning_rate" in reason


@pytest.mark.exhaustive
def test_diverging_training_is_stopped(tmp_path: Path, base: Path, corpus: Path) -> None:
    settings = {**FAST, "method": "full", "learning_rate": "1", "gradient_clipping": "0", "maximum_steps": "200"}
    # A float32 model of this size survives most rates: its last layer is made to overflow.
    broken = tmp_path / "broken"
    shutil.copytree(base, broken)
    tensors = load_file(base / "model.safetensors")
    tensors["lm_head.weight"] *= 1e38
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    reason = failure_of(tmp_path, "fine_tune", settings, model=broken, training=corpus / "training.jsonl")
    assert "the training has diverged" in reason


def test_invalid_hyperparameters_are_listed_in_the_failure_reason(tmp_path: Path) -> None:
    reason = failure_of(tmp_path, "train_heads", {"heads": "0", "epoch": "2"})
    assert reason.splitlines() == [
        "hyperparameters:",
        "  heads = '0': use 1 or more",
        "  epoch = '2': there is no such hyperparameter; did you mean epochs?",
    ]


@pytest.mark.exhaustive
def test_qlora_without_a_gpu_is_refused_with_a_suggestion(tmp_path: Path, base: Path, corpus: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    reason = failure_of(tmp_path, "fine_tune", {}, model=base, training=corpus / "training.jsonl")
    assert reason == "method=qlora needs a GPU and bitsandbytes; use lora or full"


def test_a_library_that_the_image_lacks_is_named_with_where_to_get_it(tmp_path: Path) -> None:
    failing = job(tmp_path / "job", "train_heads", {})
    # A module of that name that is not there, as in an image without it.
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "accelerate.py").write_text('raise ModuleNotFoundError("none", name="accelerate")')
    status, log = failing.run(PYTHONPATH=str(tmp_path / "lacking"))
    assert status == 1, log
    assert failing.failure == "the image lacks accelerate: install requirements.txt, which is beside the training code"


def test_an_out_of_memory_error_names_the_settings_to_lower() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    text = describe_error(caught.value, FineTuningSettings(method="full", batch_size=8, gradient_checkpointing=False))
    assert text.startswith("out of memory. To fix it: lower batch_size from 8")
    assert "lower maximum_sequence_length from 2048" in text
    assert "set gradient_checkpointing=true" in text
    assert "choose method=lora or qlora" in text
    text = describe_error(torch.OutOfMemoryError("CUDA out of memory. Tried"), HeadTrainingSettings(batch_size=1))
    assert "batch_size" not in text
    assert "train fewer heads than 5" in text


def test_an_unexpected_error_is_reported_with_its_location() -> None:
    with pytest.raises(KeyError) as caught:
        {}["missing"]
    assert re.fullmatch(r"KeyError: 'missing' \(test_failures\.py, line \d+\)", describe_error(caught.value))


def test_the_first_of_several_processes_to_fail_has_the_word(tmp_path: Path) -> None:
    write_failure(tmp_path / "output" / "failure", "x" * 3000)
    write_failure(tmp_path / "output" / "failure", "later")
    text = (tmp_path / "output" / "failure").read_text()
    assert len(text) == LONGEST_REASON
    assert text.endswith("...")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = save_small_model("llama", tmp_path / "model", vocab_size=300)
    with pytest.raises(UnusableModel, match="the tokenizer has tokens up to 511, the model's vocab_size is 300"):
        load_tokenizer(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; Medusa heads support llama and mistral models"),
        ({"model_type": None}, "model_type is None"),
    ],
)
def test_another_family_is_refused(tmp_path: Path, base: Path, change: dict[str, str | None], reason: str) -> None:
    content = json.loads((base / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(UnusableModel, match=reason):
        read_configuration(tmp_path)


def test_a_folder_without_a_model_is_refused_with_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match=r"has no config\.json"):
        read_configuration(tmp_path)
    (tmp_path / "model.tar.gz").write_bytes(b"")
    with pytest.raises(UnusableModel, match="CompressionType NONE"):
        read_configuration(tmp_path)


def test_a_model_that_lacks_weights_is_refused(tmp_path: Path, base: Path) -> None:
    shutil.copytree(base, tmp_path / "model")
    tensors = load_file(base / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnusableModel, match=r"lacks 1 of its weights, for example model\.layers\.1\.mlp\.up_proj"):
        load_backbone(tmp_path / "model", dtype=torch.float32)
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0nonsense")
    with pytest.raises(UnusableModel, match="the model"):
        load_backbone(tmp_path / "model", dtype=torch.float32)


@pytest.mark.parametrize("missing", ["heads", "data"])
def test_the_command_refuses_missing_files_with_an_error_message(tmp_path: Path, missing: str) -> None:
    arguments = ["medusa", "verify", "--heads", str(tmp_path / "heads"), "--data", str(tmp_path / "data.jsonl")]
    if missing == "data":
        folder = tmp_path / "heads" / "base-model"
        save_small_model("llama", folder)
        small_tokenizer().save_pretrained(folder)
        arguments += ["--base", str(folder)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    # A line breaks where the folder's path is long.
    assert "has no config.json" in " ".join(result.stderr.split())
    result = CliRunner().invoke(app, [*arguments, "--precision", "int4"])
    assert "'int4' is not one of 'float32', 'bfloat16', 'auto'" in " ".join(result.stderr.split())
