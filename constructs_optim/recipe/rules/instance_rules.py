"""Rules for the instance type, the Region and accelerator memory."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from constructs_optim.recipe.catalog import images, instances
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.durations import duration
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.memory import (
    LEAST_CONTEXT,
    MAX_MODEL_LEN,
    USABLE,
    context,
    context_name,
    engine_setting,
    estimate,
    has_such_a_cache,
    model_context,
    planned_context,
    whole_setting,
)
from constructs_optim.recipe.parallelism import misfits_of
from constructs_optim.recipe.plan_data import MemoryEstimate
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import Compilation, Technique
from constructs_optim.recipe.tokens import is_token, is_whole, matches

from .model_rules import too_late
from .registry import API, GUIDE, Finding, Rule, all_rules, rule

_SDK = "https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/utils/optimize_utils.py"
_HARDWARE = "https://docs.vllm.ai/en/latest/features/quantization/"
_IMAGE_CONFIG = (
    "https://github.com/aws/sagemaker-python-sdk/tree/master/sagemaker-core/src/sagemaker/core/image_uri_config"
)
_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/deployment_guide/instance-type-selection.html"
_SHORTEST_PENDING, _LONGEST_RUNTIME = 1800, 28 * 86_400
# The pattern of the API's TrainingPlanArn, which has 50 to 2,048 characters.
_TRAINING_PLAN = re.compile(r"(?=.{50,2048}\Z)arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:\d{12}:training-plan/\S+")
_EXAMPLE = "an instance type such as ml.g5.12xlarge"
_SCALING = ("hf_overrides", "json_model_override_args", "rope_scaling", "rope_theta")
_OFF = frozenset({"", "0", "false", "no", "off"})
# Rules that a recipe breaks on one instance type and not on another.
_OF_HARDWARE = frozenset({"OPT012", "OPT024", "OPT033", "OPT050", "OPT052", "OPT055"})
_DEVICES = {"gpu": "GPUs", "neuron": "Neuron devices"}


@rule("OPT010", f"{API}CreateOptimizationJob.html")
def _instance_type_exists(subject: Recipe | Hosting) -> Iterator[Finding]:
    """The instance type exists: SageMaker has no endpoint instance type with this name."""
    for name in _types(subject):
        if not isinstance(name, str):
            yield Finding("instance_type", name, 'a string such as "ml.g5.12xlarge"', "an instance type is a string")
        elif is_token(name):
            fix = 'the type as a string, which can come from the context: app.node.try_get_context("instance_type")'
            yield Finding("instance_type", name, fix, too_late("the instance type"))
        elif instances.find(name) is None and name not in instances.other_names():
            spelled = name if name.startswith("ml.") else f"ml.{name}"
            yield Finding("instance_type", name, did_you_mean(spelled, instances.by_name(), _EXAMPLE))


@rule("OPT011", f"{API}CreateOptimizationJob.html")
def _instance_type_is_accelerated(subject: Recipe | Hosting) -> Iterator[Finding]:
    """The instance type has an accelerator: optimized models do not run on this instance type."""
    families = sorted({row.family for row in instances.by_name().values() if row.runs_optimization})
    fix = f"an instance type of one of the families {', '.join(families)}, such as ml.g5.12xlarge"
    for name in _types(subject):
        if isinstance(name, str) and name in instances.other_names():
            yield Finding("instance_type", name, fix)


def _types(subject: Recipe | Hosting) -> Sequence[object]:
    """Return the instance type of a recipe, or the types of an endpoint without a model, which has no recipe."""
    if isinstance(subject, Recipe):
        return [subject.instance_type]
    return subject.instance_types if not subject.has_model else ()


@rule("OPT012", _HARDWARE)
def _techniques_run_on_the_family(recipe: Recipe) -> Iterator[Finding]:
    """Every technique runs on the instance family: a technique's kernels or jobs do not support the accelerator."""
    row, checkpoint = recipe.instance, recipe.unnamed_technique
    if row is None:
        return
    for location, technique in recipe.located_techniques:
        if not recipe.runs_on(technique, row):
            fix = f"an instance type of one of the families {_families(recipe, [technique])}"
            reason = f"{technique.name} ({location}) does not run on {row.name} ({row.accelerator})"
            yield Finding("instance_type", recipe.instance_type, fix, reason)
    if checkpoint is not None and row.kind == "gpu" and not recipe.runs_on(checkpoint, row):
        fix = f"an instance type of one of the families {_families(recipe, [checkpoint])}"
        weights = f"the weights of {recipe.served_model.name} are {checkpoint.name.upper()}"
        reason = f"{weights}, for which vLLM has no kernels on {row.name} ({row.accelerator})"
        yield Finding("instance_type", recipe.instance_type, fix, reason)


@rule("OPT055", _IMAGE_CONFIG)
def _container_is_built_for_the_accelerators(recipe: Recipe) -> Iterator[Finding]:
    """The container supports the instance's accelerators: a container for GPUs does not start on Neuron devices, and a
    container for Neuron devices does not start on GPUs.
    """
    row, image = recipe.instance, recipe.serving_image.image
    if row is None or image is None or image.accelerators == row.kind or not recipe.has_only_techniques:
        return
    if not all(recipe.runs_on(technique, row) for _, technique in recipe.located_techniques):
        return
    reason = f"{image.name} is for {_DEVICES[image.accelerators]}, but {row.name} has {_DEVICES[row.kind]}"
    if row.kind == "neuron":
        compiled = "techniques=[Compilation.neuron()], or " if recipe.runs_on(Compilation.neuron(), row) else ""
        yield Finding(
            "instance_type",
            recipe.instance_type,
            f"{compiled}an instance type with GPUs, such as ml.g5.12xlarge",
            reason,
        )
    else:
        yield Finding("server.container_version", image.tag, "a container for GPUs, or leave it out", reason)


@rule("OPT013", _SDK, advisory=True)
def _family_is_tested(recipe: Recipe) -> Iterator[Finding]:
    """AWS lists the family: SageMaker accepts the instance type, but its SDK does not list it for optimization."""
    row = recipe.instance
    if row is None or row.sdk_lists:
        return
    running = [t for _, t in recipe.located_techniques if t.job_stage is not None and recipe.runs_on(t, row)]
    if running:
        tested = _families(recipe, running, tested=True) or "none"
        yield Finding("instance_type", recipe.instance_type, f"Listed families: {tested}")


def _families(recipe: Recipe, techniques: list[Technique], *, tested: bool = False) -> str:
    """Return the families that all techniques run on; with ``tested``, only those that the SageMaker SDK lists."""
    # One instance type for each family and kind, because techniques run on all of them alike.
    rows = {
        (row.family, row.kind, row.runs_optimization): row
        for row in instances.by_name().values()
        if row.hosts_endpoints and (row.sdk_lists or not tested)
    }.values()
    return ", ".join(sorted({row.family for row in rows if all(recipe.runs_on(t, row) for t in techniques)}))


@rule("OPT014", "https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html")
def _region_has_containers(recipe: Recipe) -> Iterator[Finding]:
    """The Region has the containers: the Region has no AWS Deep Learning Containers registry."""
    region = recipe.region
    if region is not None and (not isinstance(region, str) or region not in images.registry_accounts()):
        fix = did_you_mean(region, images.registry_accounts(), "a Region such as us-west-2")
        yield Finding("region", region, fix)


@rule("OPT015", _IMAGE_CONFIG)
def _region_has_images(recipe: Recipe) -> Iterator[Finding]:
    """The Region has the images: the Region's registry lacks the container image that the techniques need."""
    region = recipe.region if isinstance(recipe.region, str) else None
    # OPT012 and OPT030 report a result that no image can build or serve.
    lacking = [choice.usable[0] for _, choice in recipe.choices if choice.usable and choice.image is None]
    for image in dict.fromkeys(lacking):
        fix = f"a Region other than {', '.join(sorted(image.missing_in))}"
        yield Finding("region", region, fix, f"the registry of {region} has no {image.name}")


@rule("OPT016", f"{API}StoppingCondition.html")
def _times_of_jobs_are_in_range(recipe: Recipe) -> Iterator[Finding]:
    """A job's times are in range: SageMaker runs a job for 1 second to 28 days, and waits 30 minutes to 28 days for its
    instances.
    """
    jobs = recipe.jobs
    for name, seconds, least in (
        ("max_runtime", jobs.max_runtime_seconds, 1),
        ("max_pending", jobs.max_pending_seconds, _SHORTEST_PENDING),
    ):
        if seconds is not None and not is_whole(seconds, least, _LONGEST_RUNTIME):
            yield Finding(f"jobs.{name}", f"{seconds} s", f"{duration(least)} to {duration(_LONGEST_RUNTIME)}")


@rule("OPT048", f"{GUIDE}reserve-capacity-with-training-plans.html")
def _reservation_of_jobs_is_a_training_plan(recipe: Recipe) -> Iterator[Finding]:
    """A job's capacity reservation is a training plan: a job takes the ARN of a training plan in its Region, and then
    cannot use Spot Instances.
    """
    arn, location = recipe.jobs.training_plan_arn, "jobs.capacity_reservation.arn"
    if arn is None:
        return
    if not matches(_TRAINING_PLAN, arn):
        yield Finding(location, arn, "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")
    elif isinstance(recipe.region, str) and not is_token(arn) and (named := arn.split(":")[3]) != recipe.region:
        yield Finding(location, arn, f"a training plan in {recipe.region}", f"the training plan is in {named}")
    for place, technique in recipe.trained_techniques:
        if technique.compute.spot:
            yield Finding(f"{place}.compute.spot", True, "spot=False, or no capacity_reservation")


@rule("OPT050", _LMI)
def _weights_fit(recipe: Recipe) -> Iterator[Finding]:
    """The weights fit the accelerators: the weights alone need more memory than the accelerators have."""
    # An invalid technique might be the one that reduces the size of the weights.
    memory = estimate(recipe) if recipe.has_only_techniques else None
    if memory is None or memory.weights_fit:
        return
    smallest = smallest_fit(recipe, memory)
    degree = recipe.tensor_parallel_degree
    spread = "its one accelerator or core" if degree == 1 else f"its {degree} accelerators or cores"
    if recipe.instance is not None and recipe.partition in recipe.instance.partitions:
        spread = f"a {recipe.partition} partition of {recipe.instance_type}"
    yield Finding(
        *_place(recipe),
        f"{smallest}, the smallest type that fits" if smallest else "fewer bits per weight, or a smaller model",
        f"the weights need {memory.fixed_gb:.0f} GB, but only {memory.available_gb:.0f} GB ({USABLE:.0%}) of the "
        f"memory of {spread} is usable",
    )


@rule("OPT051", _LMI, advisory=True)
def _cache_fits(recipe: Recipe) -> Iterator[Finding]:
    """Enough memory remains for the KV cache: the KV cache is too small, so requests wait for each other or fail."""
    memory = estimate(recipe)
    if memory is None or not memory.weights_fit or memory.total_gb <= memory.available_gb:
        return
    smallest = smallest_fit(recipe, memory)
    yield Finding(
        *_place(recipe),
        f"Choose {smallest}" if smallest else "Plan for fewer or shorter requests",
        f"weights ({memory.fixed_gb:.0f} GB) and KV cache ({memory.kv_cache_gb:.0f} GB for {memory.batch_size} "
        f"requests of {memory.sequence_length} tokens) need more than the usable {memory.available_gb:.0f} GB, so "
        "requests wait for each other or fail",
    )


def _place(recipe: Recipe) -> tuple[str, str]:
    """Return the location and the value of the setting that says where the model runs."""
    row = recipe.instance
    if row is not None and recipe.partition in row.partitions:
        return "accelerator_partition", str(recipe.partition)
    return "instance_type", recipe.instance_type


def smallest_fit(recipe: Recipe, needed: MemoryEstimate) -> str | None:
    """Return the smallest partition that fits, if the model uses one; otherwise, the instance type with the least
    accelerator memory that holds the weights and the KV cache, splits the layers, and follows the other rules.
    """
    row, found = recipe.instance, list[tuple[str, Recipe]]()
    if row is not None and recipe.partition in row.partitions:
        found += [(f"{each} of {row.name}", replace(recipe, partition=each)) for each in row.partitions]
    found += [
        (row.name, replace(recipe, instance_type=row.name, partition=None))
        for row in instances.by_size()
        if row.hosts_endpoints and row.total_accelerator_memory_gb * USABLE >= needed.total_gb
    ]
    for name, candidate in found:
        memory = estimate(candidate)
        if memory is None or memory.total_gb > memory.available_gb:
            continue
        if misfits_of(candidate):
            continue
        if not any(finding for rule in _rules_of_hardware() for finding in rule.check(candidate)):
            return name
    return None


@cache
def _rules_of_hardware() -> list[Rule]:
    return [rule for rule in all_rules(Recipe) if rule.id in _OF_HARDWARE]


@rule("OPT052", "https://docs.vllm.ai/en/latest/configuration/conserving_memory/")
def _context_fits(recipe: Recipe) -> Iterator[Finding]:
    """The longest request fits the KV cache: vLLM does not start if the KV cache cannot hold one such request."""
    longest, memory = context(recipe), estimate(recipe)
    if longest is None or memory is None or not memory.weights_fit or not recipe.has_only_techniques:
        return
    if not longest.must_fit:
        return
    variable = engine_setting(recipe, MAX_MODEL_LEN)
    needed = longest.requested if variable is not None else min(longest.requested, LEAST_CONTEXT)
    if needed <= longest.fits_at_best:
        return
    reason = (
        f"one request of {longest.requested} tokens needs {longest.request_gb:.1f} GB of KV cache, but weights and "
        f"activations leave {longest.left_gb:.1f} GB: vLLM does not start"
    )
    larger = "an instance type with more accelerator memory, or fewer bits per weight"
    if variable is not None:
        most = min(filter(None, (longest.shortened, _positions(recipe))))
        shorter = f"{most} or less, or " if longest.fits_at_best >= LEAST_CONTEXT else ""
        yield Finding(*_length(recipe, variable), shorter + larger, reason)
    else:
        yield Finding("instance_type", recipe.instance_type, larger, reason)


@rule("OPT053", "https://docs.vllm.ai/en/latest/configuration/conserving_memory/", advisory=True)
def _context_is_shortened(recipe: Recipe) -> Iterator[Finding]:
    """The longest context fits the KV cache: the endpoint accepts only requests that fit."""
    longest, planned = context(recipe), planned_context(recipe)
    if longest is not None and not longest.must_fit and longest.requested > longest.fits:
        reason = f"SGLang starts, but rejects requests of more than about {longest.fits} tokens"
        fix = f"Set {recipe.variable(MAX_MODEL_LEN)} to a length that fits, or choose an instance type with more memory"
        yield Finding(*_length(recipe, longest.requested), fix, reason)
    if longest is None or longest.shortened is None:
        return
    name = recipe.variable(MAX_MODEL_LEN)
    left = (
        f"one request of {longest.requested} tokens needs {longest.request_gb:.1f} GB of KV cache, but only about "
        f"{longest.left_gb:.1f} GB remain"
    )
    if engine_setting(recipe, MAX_MODEL_LEN) is not None:
        most = min(filter(None, (longest.shortened, _positions(recipe))))
        value, needed = longest.requested, f"{most} or less"
        reason = f"{left}, so the server might not start"
    elif planned is not None and planned <= longest.shortened:
        value, needed = planned, "the length that your requests need"
        reason = f"{name} is set to {planned}, and the server rejects longer requests: {left}"
    else:
        # Recorded when the library knew less about the model.
        value, needed = planned or longest.requested, f"{longest.shortened} or less"
        entry = f"contexts.{context_name(recipe)}"
        reason = f"{left}, and {LOCK_FILE} records {value} tokens ({entry}), so the server might not start"
    fix = f"Set {name} to {needed}, or choose an instance type with more accelerator memory"
    yield Finding(*_length(recipe, value), fix, reason)


@rule("OPT074", "https://docs.vllm.ai/en/latest/configuration/conserving_memory/", advisory=True)
def _context_is_checked(recipe: Recipe) -> Iterator[Finding]:
    """The longest request can be checked against the memory: the size of the model's KV cache is unknown, so the
    request might not fit.
    """
    row, length = recipe.model_row, engine_setting(recipe, MAX_MODEL_LEN)
    # If the KV cache is known, the plan knows what fits. OPT007 reports a model that is not known at all.
    if row is None or row.key_value_bytes_a_token is not None or whole_setting(recipe, MAX_MODEL_LEN) is None:
        return
    name, location = recipe.served_model.name, _length_location(recipe)
    is_chosen = location.startswith("server.") or recipe.variable(MAX_MODEL_LEN) in recipe.variables
    if not is_chosen or not has_such_a_cache(recipe):
        return
    looks_up = (
        f"`constructs-optim lock --model {name}` reads it from config.json. "
        if name not in recipe.containers.models
        else ""
    )
    reason = f"the size of the KV cache of {name} is unknown, so the longest request might not fit"
    yield Finding(*_length(recipe, length), f"{looks_up}Test it before you rely on it", reason)


@rule("OPT056", "https://docs.vllm.ai/en/latest/configuration/env_vars/")
def _context_is_the_models(recipe: Recipe) -> Iterator[Finding]:
    """The context is within the model's: vLLM and SGLang do not start with more than config.json allows."""
    row = recipe.model_row
    # A row with geometry comes from config.json; a figure without geometry is a vendor's. Bloom has no maximum (ALiBi).
    if row is not None and row.hidden_size is not None and not row.family.upper().startswith("BLOOM"):
        yield from _too_long(recipe)


@rule("OPT057", "https://docs.vllm.ai/en/latest/configuration/env_vars/", advisory=True)
def _context_is_the_recipes(recipe: Recipe) -> Iterator[Finding]:
    """The context is within the vendor's figure: the server does not start with more than config.json allows."""
    if recipe.model_row is not None and recipe.model_row.hidden_size is None:
        for finding in _too_long(recipe):
            yield replace(finding, suggestion=f"Use {finding.suggestion}")


def _too_long(recipe: Recipe) -> Iterator[Finding]:
    """Find a context longer than the model's, unless its positions are scaled or the server is told to accept it.

    Sources: vLLM, ``_get_and_verify_max_len`` of ``config/model.py``; SGLang, ``_derive_context_length`` of
    ``configs/model_config.py``.
    """
    row, length, positions = recipe.model_row, whole_setting(recipe, MAX_MODEL_LEN), _positions(recipe)
    if row is None or length is None or positions is None or length <= positions:
        return
    if any(t.hub_configuration or t.kind == "compilation" for _, t in recipe.located_techniques):
        return
    longest = context(recipe)
    fitting = longest.shortened if longest is not None and longest.fits_at_best >= LEAST_CONTEXT else None
    name = "json_model_override_args" if recipe.serving_settings.name == "sglang" else "hf_overrides"
    fix = (
        f"{min(positions, fitting or positions)} or less; or {recipe.variable(name)} with the model's rope scaling; or "
        f"{recipe.serving_settings.any_length}=1, if you know that the model supports more"
    )
    reason = f"{row.model_id} has {positions} positions, and the server does not start with a longer context"
    yield Finding(*_length(recipe, engine_setting(recipe, MAX_MODEL_LEN)), fix, reason)


def _positions(recipe: Recipe) -> int | None:
    """Return the longest context that the server accepts from the recipe; None for any, or if it is unknown."""
    row, allowed = recipe.model_row, recipe.serving_settings.any_length
    is_scaled = any(engine_setting(recipe, name) is not None for name in _SCALING)
    if row is None or is_scaled or not allowed or recipe.variables.get(allowed, "0").lower() not in _OFF:
        return None
    return model_context(recipe)


def _length(recipe: Recipe, value: int | str | None) -> tuple[str, int | str | None]:
    """Return the location of the longest context, and the value as given there: a number in a server's settings."""
    location = _length_location(recipe)
    is_number = location.startswith("server.") and isinstance(value, str) and value.isdigit()
    return location, int(value) if is_number and isinstance(value, str) else value


def _length_location(recipe: Recipe) -> str:
    """Return the location where the longest context is set, or could be set."""
    name, server = recipe.variable(MAX_MODEL_LEN), recipe.serving_settings.arguments()
    return f"environment.{name}" if name in recipe.variables or MAX_MODEL_LEN not in server else "server.context_length"
