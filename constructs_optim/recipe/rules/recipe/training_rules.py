"""Rules about training jobs of this library's own code: fine-tuning and Medusa heads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.planning.memory import USABLE, added_parameters
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.techniques import TrainedTechnique, TrainingCompute
from constructs_optim.recipe.tokens import is_token

from .source_rules import S3_PREFIX

_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html"
_RESOURCES = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html"
_WARM_POOLS = "https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html"
_MEDUSA = "https://aws.amazon.com/blogs/machine-learning/achieve-2x-speed-up-in-llm-inference-with-medusa-1-on-amazon-sagemaker-ai/"
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,511}")
_MOST_VARIABLES, _LONGEST_VALUE = 100, 512


@rule(
    "OPT160",
    title="Training data are S3 prefixes",
    reason="a job reads the *.jsonl files below an S3 prefix",
    link=_API,
)
def _data_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.trained_techniques:
        for name, uri in (("training_data", technique.training_data), ("validation_data", technique.validation_data)):
            if uri is None or is_token(uri):
                continue
            if not S3_PREFIX.fullmatch(uri):
                yield Finding(f"{place}.{name}", uri, "a URI such as 's3://my-bucket/text-to-sql/train/'")
            elif uri.endswith((".jsonl", ".json")):
                prefix = uri.rpartition("/")[0] + "/"
                yield Finding(f"{place}.{name}", uri, repr(prefix), reason="it names a file, not what a file is below")


@rule(
    "OPT162",
    title="A training instance type has GPUs",
    reason="the training code runs on NVIDIA GPUs, and SageMaker trains on no other type of that name",
    link=_RESOURCES,
)
def _training_instance_type_has_gpus(recipe: Recipe) -> Iterator[Finding]:
    for place, _, compute in _computes(recipe):
        name = compute.instance_type
        if name is None and recipe.instance is None:
            continue  # OPT010 says so of the endpoint's.
        row = recipe.training_instance(compute)
        if row is not None and row.runs_training and row.kind == "gpu":
            continue
        able = {row.name for row in instances.by_name().values() if row.runs_training and row.kind == "gpu"}
        matches = close_matches(name, able)
        meant = f"did you mean {' or '.join(matches)}?" if matches else "a type such as ml.g5.12xlarge"
        if name is None:
            meant = f"compute=TrainingCompute(instance_type=...): the endpoint's {recipe.instance_type} does not train"
        yield Finding(f"{place}.compute.instance_type", name, meant)


@rule(
    "OPT163",
    title="The training fits each GPU",
    reason="every GPU has the whole model in the training",
    link=_RESOURCES,
)
def _training_fits(recipe: Recipe) -> Iterator[Finding]:
    model = recipe.model_row
    if model is None or model.parameters_billion is None:
        return
    for place, technique, compute in _computes(recipe):
        row = recipe.training_instance(compute)
        if row is None:
            continue
        name = f"{place}.compute.instance_type"
        needed = technique.training_gb(model.parameters_billion, added_parameters(model, technique))
        there = row.accelerator_memory_mib * 2**20 / 1e9 * USABLE
        if needed > there:
            yield Finding(
                name,
                row.name,
                _larger(needed, technique.merging_gb(model.parameters_billion)),
                reason=f"weights, gradients and optimizer of {technique.label} take {needed:.0f} GB of each GPU, of "
                f"which {there:.0f} GB ({USABLE:.0%}) can be used; activations come on top",
            )
        merging, memory = technique.merging_gb(model.parameters_billion), row.memory_mib * 2**20 / 1e9
        if merging > memory * USABLE:
            yield Finding(
                name,
                row.name,
                _larger(needed, merging),
                reason=f"at the end of {technique.label} its adapters are merged into weights in float32, which take "
                f"{merging:.0f} GB of the instance's {memory:.0f} GB",
            )


@rule(
    "OPT164",
    title="The environment of a training is within the service's limits",
    reason=f"CreateTrainingJob takes at most {_MOST_VARIABLES} variables, of at most {_LONGEST_VALUE} characters",
    link=_API,
)
def _environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    for path, technique in recipe.trained_techniques:
        variables = technique.compute.environment or {}
        if len(variables) > _MOST_VARIABLES:
            yield Finding(f"{path}.compute.environment", f"{len(variables)} variables", f"at most {_MOST_VARIABLES}")
        for name, value in variables.items():
            if not _VARIABLE.fullmatch(name):
                fix = "a name such as PIP_INDEX_URL"
                yield Finding(f"{path}.compute.environment", name, fix, reason="no variable has such a name")
            elif len(value) > _LONGEST_VALUE and not is_token(value):
                fix = f"a string of at most {_LONGEST_VALUE}"
                yield Finding(f"{path}.compute.environment.{name}", f"{len(value)} characters", fix)


@rule(
    "OPT165",
    title="Spot instances have no warm pool",
    reason="SageMaker keeps no spot instances for the next job",
    link=_WARM_POOLS,
)
def _spot_excludes_warm_pools(recipe: Recipe) -> Iterator[Finding]:
    for place, _, compute in _computes(recipe):
        if compute.spot and compute.keep_alive_seconds is not None:
            yield Finding(f"{place}.compute.keep_alive_seconds", compute.keep_alive_seconds, "one of the two")


@rule(
    "OPT166",
    title="Medusa heads are for few requests at a time",
    reason="the published speed-up is of one request at a time: verifying guesses takes computation that a full batch "
    "has other use for",
    link=_MEDUSA,
    advisory=True,
)
def _medusa_is_for_small_batches(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.known_techniques:
        if technique.name == "medusa":
            yield Finding(place, technique.name, "Evaluate it at the concurrency that you expect")


def _computes(recipe: Recipe) -> Iterator[tuple[str, TrainedTechnique, TrainingCompute]]:
    return ((path, technique, technique.compute) for path, technique in recipe.trained_techniques)


def _larger(accelerator_gb: float, memory_gb: float) -> str:
    """The smallest instance type that has as much, in words."""
    fitting = [
        row
        for row in instances.by_name().values()
        if row.runs_training
        and row.kind == "gpu"
        and row.accelerator_memory_mib * 2**20 / 1e9 * USABLE >= accelerator_gb
        and row.memory_mib * 2**20 / 1e9 * USABLE >= memory_gb
    ]
    smallest = instances.smallest(fitting)
    return f"{smallest.name}, the smallest that would do" if smallest else "a smaller model, or method='qlora'"
