from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from constructs_optim.training.errors import OtherRun
from constructs_optim.training.launch import INTERRUPTED
from constructs_optim.training.trainers.checkpoints import newest_whole_checkpoint, run_identity

from .jobs import FAST, Job, job
from .models import save_small_model

# Adam's moments, the schedule, the order of the data and early stopping are all in what goes on.
HEADS = {**FAST, "maximum_steps": "40", "checkpoint_steps": "10", "learning_rate_schedule": "cosine", "heads": "3"}
TUNING = {**FAST, "maximum_steps": "12", "checkpoint_steps": "3", "method": "lora", "lora_rank": "8"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model("llama", tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def data(corpus: Path) -> dict[str, Path]:
    return {"training": corpus / "training.jsonl", "validation": corpus / "validation.jsonl"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, base: Path, data: dict[str, Path]) -> Job:
    made = job(tmp_path_factory.mktemp("undisturbed"), "train_heads", HEADS, finetuned=base, **data)
    status, log = made.run()
    assert status == 0, log
    return made


def wait_for(job_: Job, checkpoint: str, *, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not (job_.checkpoints / checkpoint / "checkpoint.json").is_file():
        assert time.monotonic() < deadline, f"no {checkpoint} within {seconds} s"
        time.sleep(0.02)


def heads_of(job_: Job) -> dict[str, torch.Tensor]:
    return load_file(job_.model / "medusa_lm_head.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_heads_whose_training_was_killed_and_begun_again_are_bit_for_bit_those_of_an_undisturbed_one(
    tmp_path: Path, base: Path, data: dict[str, Path], undisturbed: Job
) -> None:
    killed = job(tmp_path / "killed", "train_heads", HEADS, finetuned=base, **data)
    with killed.start() as process:
        wait_for(killed, "checkpoint-20")
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (killed.model / "medusa_lm_head.safetensors").exists()
    status, log = killed.run()
    assert status == 0, log
    assert "resuming from checkpoint-" in log
    assert same(heads_of(killed), heads_of(undisturbed))


def test_a_stopped_training_writes_a_checkpoint_at_once_and_loses_no_step(
    tmp_path: Path, base: Path, data: dict[str, Path], undisturbed: Job
) -> None:
    stopped = job(tmp_path / "stopped", "train_heads", HEADS, finetuned=base, **data)
    with stopped.start() as process:
        wait_for(stopped, "checkpoint-10")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=240)
    log = stopped.log
    assert process.returncode == INTERRUPTED, log
    assert stopped.failure is None
    newest = max(int(path.name.partition("-")[2]) for path in stopped.checkpoints.glob("checkpoint-*"))
    assert f"has step {newest}" in log
    status, log = stopped.run()
    assert status == 0, log
    assert f"resuming from checkpoint-{newest}" in log
    assert same(heads_of(stopped), heads_of(undisturbed))


def test_training_does_not_resume_from_an_incomplete_checkpoint(tmp_path: Path, undisturbed: Job) -> None:
    restored = tmp_path / "checkpoints"
    shutil.copytree(undisturbed.checkpoints, restored)
    run = json.loads((restored / "checkpoint-40" / "checkpoint.json").read_text())["run"]
    newest, earlier = (newest_whole_checkpoint(restored, run), sorted(restored.iterdir())[0])
    assert newest == restored / "checkpoint-40" != earlier
    optimizer = newest / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:-100])
    assert newest_whole_checkpoint(restored, run) == earlier
    assert not newest.exists()
    (earlier / "checkpoint.json").unlink()
    assert newest_whole_checkpoint(restored, run) is None
    assert newest_whole_checkpoint(tmp_path / "nowhere", run) is None


def test_checkpoints_of_a_run_with_other_settings_are_refused(undisturbed: Job) -> None:
    with pytest.raises(OtherRun, match=r"is from a run with other settings, data or model\. Choose an empty prefix"):
        newest_whole_checkpoint(undisturbed.checkpoints, run_identity(learning_rate=1))
    assert (undisturbed.checkpoints / "checkpoint-40").is_dir()


@pytest.mark.exhaustive
def test_training_stops_early_when_the_loss_gets_no_better(tmp_path: Path, base: Path, data: dict[str, Path]) -> None:
    settings = {**HEADS, "maximum_steps": "500", "checkpoint_steps": "5"}
    settings |= {"early_stopping_patience": "2", "early_stopping_threshold": "1000"}
    stopped = job(tmp_path / "early", "train_heads", settings, finetuned=base, **data)
    status, log = stopped.run()
    assert status == 0, log
    # The first evaluation is the best so far, and two more are no better by that much.
    assert json.loads((stopped.model / "medusa_report.json").read_text())["steps"] == 15


@pytest.mark.exhaustive
def test_a_killed_fine_tuning_with_adapters_ends_where_an_undisturbed_one_does(
    tmp_path: Path, base: Path, data: dict[str, Path]
) -> None:
    whole = job(tmp_path / "whole", "fine_tune", TUNING, model=base, **data)
    status, log = whole.run()
    assert status == 0, log
    killed = job(tmp_path / "killed", "fine_tune", TUNING, model=base, **data)
    with killed.start() as process:
        wait_for(killed, "checkpoint-3")
        process.send_signal(signal.SIGKILL)
    status, log = killed.run()
    assert status == 0, log
    assert "resuming from checkpoint-" in log
    one, other = (load_file(run.model / "model.safetensors") for run in (whole, killed))
    assert same(one, other)
    assert not same(one, load_file(base / "model.safetensors"))
    assert json.loads((killed.model / "config.json").read_text())["model_type"] == "llama"


def test_two_processes_train_the_same_heads_together(
    tmp_path: Path, base: Path, data: dict[str, Path], undisturbed: Job
) -> None:
    # The same examples in each step, half of them in each process.
    together = job(tmp_path / "together", "train_heads", {**HEADS, "batch_size": "8"}, finetuned=base, **data)
    status, log = together.run(MEDUSA_PROCESSES_PER_HOST="2")
    assert status == 0, log
    assert "training in 2 processes on 1 host(s)" in log
    one, other = (json.loads((run.model / "medusa_report.json").read_text()) for run in (undisturbed, together))
    assert one["steps"] == other["steps"] == 40
    for name, value in one["metrics"].items():
        if name.endswith("loss"):
            assert other["metrics"][name] == pytest.approx(value, rel=0.02)
