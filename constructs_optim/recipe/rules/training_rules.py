"""Rules about training jobs of this library's own code: fine-tuning and Medusa heads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.matching import close_matches
from constructs_optim.recipe.given import as_given, is_mapping
from constructs_optim.recipe.model import is_token
from constructs_optim.recipe.planning.memory import USABLE, added_parameters
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import TrainedTechnique, TrainingCompute
from constructs_optim.training.errors import SeveralProblems

from .registry import Finding, rule
from .source_rules import S3_PREFIX

_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html"
_RESOURCES = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html"
_WARM_POOLS = "https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html"
_MEDUSA = "https://aws.amazon.com/blogs/machine-learning/achieve-2x-speed-up-in-llm-inference-with-medusa-1-on-amazon-sagemaker-ai/"
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,511}")
_MOST_INSTANCES, _MOST_VOLUME_GB, _LONGEST_KEEP_ALIVE, _LONGEST_WAIT = 64, 16_384, 21_600, 2_419_200
_MOST_VARIABLES, _LONGEST_VALUE = 100, 512


@rule(
    "OPT160",
    title="Training data are S3 prefixes",
    reason="a job reads the *.jsonl files below an S3 prefix",
    link=_API,
)
def _data_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.trained_techniques:
        given = {"training_data": technique.training_data, "validation_data": technique.validation_data}
        for name, uri in given.items():
            if (uri is None and name == "validation_data") or is_token(uri):
                continue
            if not isinstance(uri, str) or not S3_PREFIX.fullmatch(uri):
                yield Finding(f"{place}.{name}", uri, "a URI such as 's3://my-bucket/text-to-sql/train/'")
            elif uri.endswith((".jsonl", ".json")):
                prefix = uri.rpartition("/")[0] + "/"
                yield Finding(f"{place}.{name}", uri, repr(prefix), reason="it names a file, not what a file is below")


@rule(
    "OPT161",
    title="Hyperparameters are those of the training",
    reason="the training code knows no such hyperparameter, or not with that value",
    link="https://arxiv.org/abs/2401.10774",
)
def _hyperparameters_are_known(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.trained_techniques:
        given = as_given(technique.hyperparameters)
        for name, value in given.items() if is_mapping(given) else ():
            try:
                technique.hyperparameter_type.from_strings({str(name): str(value)})
            except SeveralProblems as problem:
                told = problem.problems[0].partition(": ")[2]
                yield Finding(f"{place}.hyperparameters.{name}", value, told)


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
    title="What a training runs on is within the service's limits",
    reason="CreateTrainingJob takes no such value",
    link=_API,
)
def _compute_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    for place, _, compute in _computes(recipe):
        yield from (
            Finding(f"{place}.compute.{name}", value, f"a whole number from {least} to {most:,}")
            for name, value, least, most in (
                ("instance_count", compute.instance_count, 1, _MOST_INSTANCES),
                ("volume_size_gb", compute.volume_size_gb, 1, _MOST_VOLUME_GB),
                ("spot_wait_seconds", compute.spot_wait_seconds, 1, _LONGEST_WAIT),
                ("keep_alive_seconds", compute.keep_alive_seconds, 1, _LONGEST_KEEP_ALIVE),
            )
            if not (name == "keep_alive_seconds" and value is None)
            and not (isinstance(value, int) and not isinstance(value, bool) and least <= value <= most)
        )
        if not isinstance(as_given(compute.spot), bool):
            yield Finding(f"{place}.compute.spot", compute.spot, "True or False")
        yield from _variables(place, compute.environment)


def _variables(place: str, given: object) -> Iterator[Finding]:
    if given is None:
        return
    if not is_mapping(given) or len(given) > _MOST_VARIABLES:
        what = f"{len(given)} variables" if is_mapping(given) else given
        yield Finding(f"{place}.compute.environment", what, f'{{"NAME": "value"}}, at most {_MOST_VARIABLES} of them')
        return
    for name, value in given.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            yield Finding(f"{place}.compute.environment", name, "a name such as PIP_INDEX_URL", reason="no such name")
        elif not isinstance(value, str) or (len(value) > _LONGEST_VALUE and not is_token(value)):
            shown = value if not isinstance(value, str) else f"{len(value)} characters"
            yield Finding(f"{place}.compute.environment.{name}", shown, f"a string of at most {_LONGEST_VALUE}")


@rule(
    "OPT165",
    title="Spot instances have no warm pool",
    reason="SageMaker keeps no spot instances for the next job",
    link=_WARM_POOLS,
)
def _spot_excludes_warm_pools(recipe: Recipe) -> Iterator[Finding]:
    for place, _, compute in _computes(recipe):
        if compute.spot is True and compute.keep_alive_seconds is not None:
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
        if technique.method == "medusa":
            yield Finding(place, technique.method, "Evaluate it at the concurrency that you expect")


def _computes(recipe: Recipe) -> Iterator[tuple[str, TrainedTechnique, TrainingCompute]]:
    for place, technique in recipe.trained_techniques:
        compute = as_given(technique.compute)
        if isinstance(compute, TrainingCompute):
            yield place, technique, compute


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
