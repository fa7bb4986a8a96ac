from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.training import job_log
from constructs_optim.training.decoding.verification import verify_artifact
from constructs_optim.training.model.artifact import read_heads_configuration, read_report
from constructs_optim.training.model.fingerprint import fingerprint

from .jobs import Trained
from .models import PROMPTS


def test_outputs_with_heads_match_those_without_on_450_prompts_and_are_faster(trained: Trained, corpus: Path) -> None:
    found = verify_artifact(trained.artifact / "base-model", trained.artifact, corpus / "test.jsonl", limit=PROMPTS)
    assert found.prompts == PROMPTS
    assert found.differences == ()
    assert found.tokens_per_pass > 1.5
    assert found.plain_passes == found.tokens
    assert found.acceptance[0] > 0.5


def test_a_candidate_tree_gives_the_same_outputs_in_fewer_passes(trained: Trained, corpus: Path) -> None:
    def verified(nodes: int) -> float:
        found = verify_artifact(
            trained.artifact / "base-model", trained.artifact, corpus / "test.jsonl", limit=25, tree_nodes=nodes
        )
        assert found.identical == 1
        return found.tokens_per_pass

    assert verified(24) > verified(0)


def test_the_frozen_base_model_is_unchanged_bit_for_bit(trained: Trained) -> None:
    before = load_file(trained.fine_tuned / "model.safetensors")
    after = load_file(trained.artifact / "base-model" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    written = (trained.artifact / "base-model" / "model.safetensors").read_bytes()
    assert written == (trained.fine_tuned / "model.safetensors").read_bytes()
    assert read_heads_configuration(trained.artifact).base_fingerprint == fingerprint(trained.fine_tuned)


def test_fine_tuning_changes_the_model_and_lowers_its_loss(trained: Trained) -> None:
    assert fingerprint(trained.base) != fingerprint(trained.fine_tuned)
    losses = values_of("validation_loss", trained.fine_tuning_log)
    assert losses[-1] < losses[0]
    assert values_of("validation_token_accuracy", trained.fine_tuning_log)[-1] > 0.9


def test_each_heads_loss_and_accuracies_are_printed_as_metric_definitions_find_them(trained: Trained) -> None:
    for name in job_log.head_training_metrics(heads=5):
        assert values_of(name, trained.heads_log), name
    for head in range(1, 6):
        accuracies = values_of(f"validation_head_{head}_top1_accuracy", trained.heads_log)
        assert accuracies[-1] > accuracies[0] - 0.01
    for name in job_log.fine_tuning_metrics():
        assert values_of(name, trained.fine_tuning_log), name


def test_the_first_head_is_the_most_accurate(trained: Trained) -> None:
    by_rank = read_report(trained.artifact)["accuracy_by_rank"]
    first = [row[0] for row in by_rank]
    assert first[0] == max(first)
    assert first[0] > first[-1]


def test_tensorboard_has_the_metrics(trained: Trained) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(trained.heads_job.root / "output" / "tensorboard"))
    events.Reload()
    assert {"train/head_1_top1_accuracy", "eval/head_5_loss"} <= set(events.Tags()["scalars"])


def test_medusa_verify_prints_its_result_as_text_and_json(trained: Trained, corpus: Path) -> None:
    arguments = ["medusa", "verify", "--heads", str(trained.artifact), "--data", str(corpus / "test.jsonl")]
    result = CliRunner().invoke(app, [*arguments, "--limit", "5"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "100.00% of 5 outputs" in result.stdout
    assert "times as fast" in result.stdout
    result = CliRunner().invoke(app, [*arguments, "--limit", "5", "--json"])
    found = json.loads(result.stdout)
    assert found["identical"] == 1
    assert found["tokens_per_pass"] > 1.5
    assert len(found["acceptance"]) == 5


def test_in_bfloat16_the_share_of_identical_outputs_is_reported(trained: Trained, corpus: Path) -> None:
    found = verify_artifact(
        trained.artifact / "base-model", trained.artifact, corpus / "test.jsonl", limit=15, precision="bfloat16"
    )
    assert found.dtype == "bfloat16"
    assert found.ties == 0
    assert found.identical == pytest.approx(1 - len(found.differences) / 15)
    assert found.tokens_per_pass > 1.5


def values_of(name: str, log: str) -> list[float]:
    defined = job_log.definition(name)
    return [float(found) for found in re.findall(defined.regex, log, re.MULTILINE)]
