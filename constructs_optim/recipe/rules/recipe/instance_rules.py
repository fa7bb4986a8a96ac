"""Rules about what the model runs on, and where."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.catalog import images, instances
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.tokens import is_token, too_late

_LONGEST_RUNTIME = 28 * 86_400
_INSTANCES = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateOptimizationJob.html"
_SDK = "https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/utils/optimize_utils.py"
_STOPPING = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html"
_IMAGES = "https://github.com/aws/sagemaker-python-sdk/tree/master/sagemaker-core/src/sagemaker/core/image_uri_config"
_CONTAINERS = "https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html"


@rule(
    "OPT010",
    title="The instance type exists",
    reason="SageMaker has no endpoint instance type of that name",
    link=_INSTANCES,
)
def _instance_type_exists(recipe: Recipe) -> Iterator[Finding]:
    given = recipe.instance_type
    if recipe.instance is not None or (isinstance(given, str) and given in instances.other_names()):
        return
    if not isinstance(given, str):
        yield Finding("instance_type", given, 'text such as "ml.g5.12xlarge"', reason="an instance type is text")
        return
    if is_token(given):
        yield Finding(
            "instance_type",
            given,
            'the type as text; it may come from the context: app.node.try_get_context("instance_type")',
            reason=too_late("the instance type"),
        )
        return
    spelled = given if given.startswith("ml.") else f"ml.{given}"
    matches = close_matches(spelled, instances.by_name())
    meant = f"did you mean {' or '.join(matches)}?" if matches else "a type such as ml.g5.12xlarge"
    yield Finding("instance_type", given, meant)


@rule(
    "OPT011",
    title="The instance type has an accelerator",
    reason="it has no accelerator that an optimized model runs on",
    link=_INSTANCES,
)
def _instance_type_is_accelerated(recipe: Recipe) -> Iterator[Finding]:
    if isinstance(recipe.instance_type, str) and recipe.instance_type in instances.other_names():
        families = sorted({row.family for row in instances.by_name().values() if row.runs_optimization})
        yield Finding(
            "instance_type",
            recipe.instance_type,
            f"a type of one of the families {', '.join(families)}, such as ml.g5.12xlarge",
        )


@rule(
    "OPT012",
    title="Every technique runs on the instance family",
    reason="the technique has no kernels for this accelerator, or the service does not accept the type for its jobs",
    link=_SDK,
)
def _techniques_run_on_the_family(recipe: Recipe) -> Iterator[Finding]:
    row = recipe.instance
    if row is None:
        return
    for place, technique in recipe.known_techniques:
        if not recipe.runs_on(technique, row):
            listed = sorted(_listed_families(recipe, technique))
            yield Finding(
                "instance_type",
                recipe.instance_type,
                f"a type of one of the families {', '.join(listed)}",
                reason=f"{technique.name} ({place}) does not run on {row.name} ({row.accelerator})",
            )


@rule(
    "OPT013",
    title="The vendor tested the instance family",
    reason="the service accepts the type, but the SageMaker SDK does not list it for this technique",
    link=_SDK,
    advisory=True,
)
def _family_is_tested(recipe: Recipe) -> Iterator[Finding]:
    instance = recipe.instance
    if instance is None or instance.sdk_lists:
        return
    running = [technique for _, technique in recipe.known_techniques if recipe.runs_on(technique, instance)]
    if running:
        tested = _listed_families(recipe, *running)
        yield Finding("instance_type", recipe.instance_type, f"Tested families: {', '.join(sorted(tested)) or 'none'}")


def _listed_families(recipe: Recipe, *techniques: Technique) -> set[str]:
    """The families that the SageMaker SDK lists, of those that all techniques run on."""
    listed = (row for row in instances.by_name().values() if row.sdk_lists)
    return {row.family for row in listed if all(recipe.runs_on(technique, row) for technique in techniques)}


@rule(
    "OPT014",
    title="The region has the containers",
    reason="there is no AWS Deep Learning Container registry in that region",
    link=_CONTAINERS,
)
def _region_has_containers(recipe: Recipe) -> Iterator[Finding]:
    if recipe.region is None or (isinstance(recipe.region, str) and images.registry_account(recipe.region)):
        return
    matches = close_matches(recipe.region, images.registry_accounts())
    meant = f"did you mean {' or '.join(matches)}?" if matches else "a region such as us-west-2"
    yield Finding("region", recipe.region, meant)


@rule(
    "OPT015",
    title="The region has the images",
    reason="that region's registry lacks the container image that has what the techniques need",
    link=_IMAGES,
)
def _region_has_images(recipe: Recipe) -> Iterator[Finding]:
    region = recipe.region
    if not isinstance(region, str):
        return
    needed = [recipe.capabilities, *({"training"} for _ in recipe.trained_techniques)]
    for capabilities in needed:
        image = images.select(capabilities)
        if image is not None and images.select(capabilities, region) is None:
            reason = f"the registry of {region} has no {image.name}"
            without = ", ".join(sorted(image.missing_in))
            yield Finding("region", region, f"a region other than {without}", reason=reason)


@rule(
    "OPT016",
    title="A job's runtime is one that SageMaker takes",
    reason="a job runs for 1 second at least and 28 days at most",
    link=_STOPPING,
)
def _runtime_is_in_range(recipe: Recipe) -> Iterator[Finding]:
    given = recipe.max_runtime_seconds
    if given is not None and not (type(given) is int and 1 <= given <= _LONGEST_RUNTIME):
        yield Finding("jobs.max_runtime", f"{given} s", f"1 to {_LONGEST_RUNTIME} seconds (28 days)")
