"""Rules for training jobs that run this library's code: fine-tuning, Medusa heads and llm-compressor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.memory import USABLE
from constructs_optim.recipe.model import COPY_COMPUTE
from constructs_optim.recipe.plan_data import TOKEN_VARIABLE
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.secrets import NOT_SHOWN
from constructs_optim.recipe.techniques import CompressorQuantization, Medusa
from constructs_optim.recipe.tokens import is_token, matches

from .draft_rules import S3_PREFIX
from .model_rules import wrong_bucket
from .registry import API, GUIDE, Finding, rule

_MEDUSA = "https://aws.amazon.com/blogs/machine-learning/achieve-2x-speed-up-in-llm-inference-with-medusa-1-on-amazon-sagemaker-ai/"
_COMPRESSOR = "https://docs.vllm.ai/projects/llm-compressor/en/latest/"
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,511}")
_MOST_VARIABLES, _LONGEST_VALUE = 100, 512


@rule("OPT160", f"{API}CreateTrainingJob.html")
def _data_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    """Training data is an S3 prefix: a training job reads the *.jsonl files under an S3 prefix."""
    for location, technique in recipe.trained_techniques:
        for channel, uri in technique.channels.items():
            name = f"{channel}_data"
            if not matches(S3_PREFIX, uri):
                fix = "a URI such as 's3://my-bucket/text-to-sql/train/'"
                yield Finding(f"{location}.{name}", uri, fix, wrong_bucket(uri))
            elif uri.endswith((".jsonl", ".json")):
                prefix = uri.rpartition("/")[0] + "/"
                yield Finding(f"{location}.{name}", uri, repr(prefix), "this is a file, not a prefix")


@rule("OPT028", f"{API}ResourceConfig.html")
def _training_instance_type_exists(recipe: Recipe) -> Iterator[Finding]:
    """A training instance type exists: SageMaker has no training instance type with this name."""
    for location, compute in recipe.located_compute:
        name = compute.instance_type
        if name is not None and name not in instances.training_names():
            yield Finding(
                f"{location}.instance_type", name, did_you_mean(name, instances.training_names(), "ml.m5.2xlarge")
            )


@rule("OPT162", f"{API}ResourceConfig.html")
def _training_instance_type_has_gpus(recipe: Recipe) -> Iterator[Finding]:
    """A training instance type has GPUs: this library's training code needs NVIDIA GPUs that the catalog lists."""
    for location, technique in recipe.trained_techniques:
        name, row = technique.compute.instance_type, recipe.training_instance(technique.compute)
        if row is not None and row.runs_training and row.kind == "gpu":
            continue
        fix, reason = "an instance type such as ml.g5.12xlarge", None
        if name is None:
            fix = "compute=TrainingCompute(instance_type=...)"
            reason = f"the job would use the endpoint's {recipe.instance_type}, which cannot train"
        # OPT010 reports an unknown instance type of the endpoint, and OPT028 of the job.
        if (row is not None or name is not None) and (name is None or name in instances.training_names()):
            yield Finding(f"{location}.compute.instance_type", name, fix, reason)


@rule("OPT163", f"{API}ResourceConfig.html")
def _training_fits(recipe: Recipe) -> Iterator[Finding]:
    """The job fits its instance: the job's data must fit in the memory of a GPU and of the instance."""
    model = recipe.model_row
    for location, technique in recipe.trained_techniques:
        row = recipe.training_instance(technique.compute)
        if model is None or model.parameters_billion is None or row is None:
            continue
        needed = technique.training_gb(model)
        in_host = technique.host_gb(model.parameters_billion)
        accelerator_gb, memory_gb = _memory_gb(row)
        location = f"{location}.compute.instance_type"
        if needed > accelerator_gb * USABLE:
            reason = (
                f"{technique.label}: {technique.accelerator_use} need {needed:.0f} GB of each GPU, of which "
                f"{accelerator_gb * USABLE:.0f} GB ({USABLE:.0%}) are usable; activations need more"
            )
            yield Finding(location, row.name, _larger(needed, in_host), reason)
        if in_host > memory_gb * USABLE:
            reason = (
                f"{technique.label}: {technique.host_use} needs {in_host:.0f} GB of the instance's {memory_gb:.0f} GB"
            )
            yield Finding(location, row.name, _larger(needed, in_host), reason)


@rule("OPT164", f"{API}CreateTrainingJob.html")
def _environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    """A training environment is within limits: a training job has at most 100 variables of 512 characters each."""
    for compute_location, compute in recipe.located_compute:
        location, variables = f"{compute_location}.environment", compute.environment or {}
        if len(variables) > _MOST_VARIABLES:
            yield Finding(location, f"{len(variables)} variables", f"at most {_MOST_VARIABLES} variables")
        for name, value in variables.items():
            if not _VARIABLE.fullmatch(name):
                yield Finding(location, name, "a name such as PIP_INDEX_URL", "this is not a valid name")
            elif len(value) > _LONGEST_VALUE and not is_token(value):
                fix = f"at most {_LONGEST_VALUE} characters"
                yield Finding(f"{location}.{name}", f"{len(value)} characters", fix)


@rule("OPT165", f"{GUIDE}train-warm-pools.html")
def _spot_excludes_warm_pools(recipe: Recipe) -> Iterator[Finding]:
    """Spot Instances exclude warm pools: SageMaker does not keep Spot Instances for the next job."""
    for location, technique in recipe.trained_techniques:
        seconds = technique.compute.keep_alive_seconds
        if technique.compute.spot and seconds is not None:
            yield Finding(f"{location}.compute.keep_alive_seconds", seconds, "either spot or keep_alive_seconds")


@rule("OPT169", f"{API}ResourceConfig.html")
def _copies_use_their_compute(recipe: Recipe) -> Iterator[Finding]:
    """A copy job supports its compute settings: a copy job uses one On-Demand instance without a warm pool."""
    for location, model in recipe.located_models:
        if model.compute is None:
            continue
        if TOKEN_VARIABLE in (model.compute.environment or {}):
            reason = "the library sets this variable to pass the secret to the job"
            fix = "Model.huggingface(..., token_secret_arn=secret.secret_arn)"
            yield Finding(f"{location}.compute.environment.{TOKEN_VARIABLE}", NOT_SHOWN, fix, reason)
        for name, value in model.compute.model_dump(exclude_defaults=True).items():
            if name not in COPY_COMPUTE:
                fix = f"leave it out: a copy job supports {', '.join(COPY_COMPUTE)}"
                yield Finding(f"{location}.compute.{name}", value, fix)


@rule("OPT167", _COMPRESSOR)
def _samples_are_given(recipe: Recipe) -> Iterator[Finding]:
    """Calibration has data: GPTQ, AWQ and NVFP4 derive their scales from the model's activations on samples."""
    for location, technique in recipe.techniques_of(CompressorQuantization):
        if technique.job_stage is not None and technique.calibrates and not technique.channels:
            fix = "the S3 prefix of a few hundred samples like the endpoint's requests, or a ready-made checkpoint"
            yield Finding(f"{location}.calibration_data", None, fix)


@rule("OPT168", _COMPRESSOR)
def _one_instance_quantizes(recipe: Recipe) -> Iterator[Finding]:
    """A quantization job uses one instance: llm-compressor jobs do not distribute work across instances."""
    for location, technique in recipe.trained_techniques:
        if not technique.distributed and technique.compute.instance_count != 1:
            yield Finding(f"{location}.compute.instance_count", technique.compute.instance_count, "1")


@rule("OPT166", _MEDUSA, advisory=True)
def _medusa_is_for_small_batches(recipe: Recipe) -> Iterator[Finding]:
    """Medusa heads suit small batches: the published speedup is for one request at a time."""
    for location, technique in recipe.techniques_of(Medusa):
        yield Finding(location, technique.name, "Evaluate it at the concurrency that you expect")


def _memory_gb(row: instances.InstanceRow) -> tuple[float, float]:
    """Return the memory of one accelerator and of the instance, in GB."""
    return row.accelerator_memory_mib * 2**20 / 1e9, row.memory_mib * 2**20 / 1e9


def _larger(accelerator_gb: float, memory_gb: float) -> str:
    """Name the smallest instance type with enough memory."""
    fitting = [
        row
        for row in instances.by_name().values()
        if row.runs_training
        and row.kind == "gpu"
        and _memory_gb(row)[0] * USABLE >= accelerator_gb
        and _memory_gb(row)[1] * USABLE >= memory_gb
    ]
    smallest = instances.smallest(fitting)
    return f"{smallest.name}, the smallest type that fits" if smallest else "a smaller model, or method='qlora'"
