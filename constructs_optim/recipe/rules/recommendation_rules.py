"""Rules for a recommendation job's result and the stack that deploys it."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.evaluation.recommendation import RecommendedDeployment

from .registry import API, GUIDE, Finding, rule


@rule("OPT205", f"{GUIDE}generative-ai-inference-recommendations-deploy.html")
def _package_is_of_the_region(deployment: RecommendedDeployment) -> Iterator[Finding]:
    """A recommendation is deployed in its own Region: a model needs a model package in the same Region."""
    region = deployment.recommendation.region
    if deployment.region not in (None, region):
        reason = f"the stack is in {deployment.region}"
        yield Finding("recommendation.model_package_arn", region, f"a recommendation from {deployment.region}", reason)


@rule("OPT206", f"{GUIDE}model-registry-deploy-xaccount.html", advisory=True)
def _package_is_of_the_account(deployment: RecommendedDeployment) -> Iterator[Finding]:
    """A recommendation is deployed in its own account: another account must share the model package."""
    account = deployment.recommendation.account
    if deployment.account not in (None, account):
        reason = f"the stack is in {deployment.account}"
        fix = "Share the model package with a resource policy on its group, or run the job in the stack's account"
        yield Finding("recommendation.model_package_arn", account, fix, reason)


@rule("OPT207", f"{GUIDE}generative-ai-inference-recommendations-deploy.html")
def _package_is_for_the_instance_type(deployment: RecommendedDeployment) -> Iterator[Finding]:
    """A recommendation runs on its instance type: the package's image and optimizations are specific to that type."""
    recommendation = deployment.recommendation
    if recommendation.instance_type not in recommendation.instance_types:
        fix = f"one of {', '.join(recommendation.instance_types)}, or another recommendation"
        yield Finding("recommendation.instance_type", recommendation.instance_type, fix)


@rule("OPT208", f"{API}InferenceComponentComputeResourceRequirements.html")
def _copies_divide_the_accelerators(deployment: RecommendedDeployment) -> Iterator[Finding]:
    """A recommendation's copies fit an instance: copies share the instance's accelerators equally, and its memory."""
    recommendation = deployment.recommendation
    copies, row = recommendation.copies_per_instance, instances.find(recommendation.instance_type)
    if copies == 1:
        return
    if row is None:
        reason = "the instance type is not in the catalog, so the resources of each copy are unknown"
        yield Finding("recommendation.instance_type", recommendation.instance_type, "another recommendation", reason)
    elif row.parallel_units % copies:
        reason = f"{row.name} has {row.parallel_units} accelerators"
        yield Finding("recommendation.copies_per_instance", copies, "a divisor of this number", reason)
    elif recommendation.min_memory_mib is not None and recommendation.min_memory_mib * copies >= row.memory_mib:
        reason = f"{row.name} has {row.memory_mib} MiB for {copies} copies and the host operating system"
        yield Finding("recommendation.min_memory_mib", recommendation.min_memory_mib, "less memory", reason)


@rule("OPT217", f"{GUIDE}generative-ai-inference-recommendations-deploy.html")
def _saturation_has_a_threshold(deployment: RecommendedDeployment) -> Iterator[Finding]:
    """The saturation alarm has a threshold: a recommendation does not say how many requests an instance can handle."""
    settings = deployment.alarms.switched_on().get("saturation")
    if settings is not None and not settings.threshold:
        fix = "the concurrent requests of an instance or copy, AlarmSettings(threshold=16), or saturation=False"
        yield Finding("monitoring.alarms.saturation.threshold", settings.threshold, fix)
