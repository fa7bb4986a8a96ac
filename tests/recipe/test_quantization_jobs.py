"""Quantization by llm-compressor: the training job, its key, and what is served."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe import FineTune, Model, Plan, Quantization, Recipe, TrainingCompute, plan
from constructs_optim.recipe.plan_data import ArtifactSource
from constructs_optim.recipe.techniques import Technique
from constructs_optim.training.settings import QuantizationSettings

COMMIT = "a" * 40
QWEN = Model.huggingface("Qwen/Qwen3-32B", revision=COMMIT)
LLAMA = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.0.0", accept_eula=True)
SAMPLES = "s3://my-data/samples/"
JOBS: dict[str, Technique] = {
    "FP8_BLOCK": Quantization.fp8_block(),
    "FP8_DYNAMIC": Quantization.fp8_dynamic(),
    "MXFP4": Quantization.mxfp4(),
    "W4A16": Quantization.w4a16(calibration_data=SAMPLES),
    "NVFP4": Quantization.nvfp4(calibration_data=SAMPLES),
}


def planned(*techniques: Technique, instance_type: str = "ml.g5.12xlarge", model: Model = QWEN, **changed: Any) -> Plan:
    return plan(Recipe(model, techniques, instance_type, "us-west-2", **changed))


@pytest.mark.parametrize("scheme", JOBS)
def test_a_job_quantizes_the_copy_and_the_newest_vllm_serves_what_it_makes(scheme: str) -> None:
    result = planned(JOBS[scheme])
    copy, job = result.jobs
    assert copy.copies
    assert (job.source, job.model_channel, job.kind) == (ArtifactSource(job=0), "model", "TrainingJob")
    assert job.image == "pytorch-training:2.10.0-gpu-py313"
    algorithm = job.request["AlgorithmSpecification"]
    assert algorithm["ContainerArguments"] == ["training/quantize.py", "training/quantizing.txt"]
    assert {metric["Name"] for metric in algorithm["MetricDefinitions"]} >= {"quantization:weight_error"}
    settings = QuantizationSettings.from_strings(job.request["HyperParameters"])
    assert settings == QuantizationSettings(scheme=scheme)
    channels = [each["ChannelName"] for each in job.request["InputDataConfig"]]
    assert channels == (["calibration"] if settings.calibrates else [])
    assert result.container.model == ArtifactSource(job=1)
    assert result.container.image is not None
    assert "/vllm:" in result.container.image
    assert not result.lossless
    assert result.containers.jobs["quantizing"] == job.image


def test_the_key_is_of_model_and_settings_alone() -> None:
    key = planned(Quantization.fp8_block()).jobs[1].artifact_key
    assert key is not None
    compute = TrainingCompute(instance_type="ml.g6e.2xlarge", volume_size_gb=500, spot=True)
    assert planned(Quantization.fp8_block(compute=compute), instance_type="ml.p5.48xlarge").jobs[1].artifact_key == key
    for other in (Quantization.fp8_dynamic(), Quantization.fp8_block(ignored_layers=["lm_head"])):
        assert planned(other).jobs[1].artifact_key not in (None, key)


def test_the_number_of_gpus_changes_the_key_of_training_alone() -> None:
    def key(technique: Technique) -> str | None:
        return planned(technique, model=LLAMA).jobs[-1].artifact_key

    types = [TrainingCompute(instance_type=name) for name in ("ml.g5.4xlarge", "ml.g5.48xlarge")]
    quantized = {key(Quantization.fp8_block(compute=each)) for each in types}
    assert len(quantized) == 1
    fine_tuned = [planned(FineTune(training_data=SAMPLES, compute=each), model=LLAMA).jobs[-1] for each in types]
    assert len({each.recipe_key for each in fine_tuned}) == 2


def test_the_content_of_samples_is_part_of_the_key_and_known_at_deployment() -> None:
    job = planned(Quantization.w4a16(calibration_data=SAMPLES, algorithm="awq", calibration_size=64)).jobs[1]
    assert job.artifact_key is None
    assert [read.uri for read in job.reads] == [SAMPLES]
    assert job.request["HyperParameters"] == {"scheme": "W4A16", "algorithm": "awq", "calibration_size": "64"}


def test_the_volume_holds_the_model_twice() -> None:
    assert planned(Quantization.fp8_block()).jobs[1].request["ResourceConfig"]["VolumeSizeInGB"] == 128
    assert planned(Quantization.fp8_block(), model=Model.s3("s3://models/m/")).jobs[0].request["ResourceConfig"] == {
        "InstanceCount": 1,
        "InstanceType": "ml.g5.12xlarge",
        "VolumeSizeInGB": 100,
    }


def test_a_fine_tuned_model_is_quantized() -> None:
    model = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.0.0", accept_eula=True)
    tuned = FineTune(training_data="s3://my-data/train/")
    result = planned(tuned, Quantization.w4a16(calibration_data=SAMPLES), model=model)
    assert [job.name for job in result.jobs] == ["fine-tune", "w4a16"]
    assert result.jobs[1].source == ArtifactSource(job=0)
    assert {name: image.partition("-gpu")[0] for name, image in result.containers.jobs.items()} == {
        "training": "pytorch-training:2.10.0",
        "quantizing": "pytorch-training:2.10.0",
    }


def test_a_ready_made_checkpoint_needs_no_job() -> None:
    checkpoint = Model.s3("s3://models/qwen-w4a16/")
    assert planned(Quantization.w4a16(checkpoint=checkpoint), model=Model.s3("s3://models/qwen/")).jobs == ()
