"""Rules about inference components: what they ask of their endpoint's instances."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.catalog.instances import InstanceRow
from constructs_optim.recipe.catalog.resource_types import INFERENCE_COMPONENT, is_missing, regions_with
from constructs_optim.recipe.hosting import (
    Component,
    Hosting,
    instances_for_copies,
)
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token

from .hosting_rules import in_range

_RESOURCES = (
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentComputeResourceRequirements.html"
)
_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-deploy-models.html"
TYPES_BY_REGION = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-specification.html"
_LEAST_MEMORY_MIB = 128


def _units(row: InstanceRow) -> str:
    return "NeuronCores" if row.kind == "neuron" else "accelerators"


@rule(
    "OPT130",
    title="A component's copy fits an instance",
    reason="a copy of an inference component has its accelerators and memory on one instance",
    link=_RESOURCES,
)
def _a_copy_fits(hosting: Hosting) -> Iterator[Finding]:
    for component in hosting.components:
        if not in_range(component.accelerators, 1):
            yield Finding(f"{component.label}.accelerators", component.accelerators, "a whole number from 1 on")
        if not in_range(component.memory_mib, _LEAST_MEMORY_MIB):
            yield Finding(
                f"{component.label}.memory", f"{component.memory_mib} MiB", f"{_LEAST_MEMORY_MIB} MiB or more"
            )
        if not in_range(component.copies, 0):
            yield Finding(f"{component.label}.copies", component.copies, "a whole number from 0 on")
        for row in hosting.rows:
            if in_range(component.accelerators, row.parallel_units + 1):
                yield Finding(
                    f"{component.label}.accelerators",
                    component.accelerators,
                    f"at most {row.parallel_units}",
                    reason=f"{row.name} has {row.parallel_units} {_units(row)}",
                )
            if in_range(component.memory_mib, row.memory_mib):
                yield Finding(
                    f"{component.label}.memory",
                    f"{component.memory_mib} MiB",
                    f"less than {row.memory_mib} MiB",
                    reason=f"{row.name} has {row.memory_mib} MiB, and the container's host needs some of it",
                )


@rule(
    "OPT131",
    title="All copies fit the endpoint's instances",
    reason="copies that find no room stay pending, and the deployment fails",
    link=_GUIDE,
)
def _all_copies_fit(hosting: Hosting) -> Iterator[Finding]:
    most = hosting.maximum_instance_count
    sound = [component for component in hosting.components if _is_sound(component)]
    if most is None or not in_range(most, 1) or len(sound) < len(hosting.components):
        return
    for row in hosting.rows:
        if any(c.accelerators > row.parallel_units or c.memory_mib >= row.memory_mib for c in sound):
            continue
        needed = instances_for_copies(sound, row)
        if needed > most:
            yield Finding(
                "variant.max_instance_count",
                most,
                f"variant=VariantOptions(max_instance_count={needed}), fewer copies, or a larger instance type",
                reason=f"the copies of {', '.join(c.label for c in sound)} take {needed} instances of {row.name}",
            )


@rule(
    "OPT132",
    title="SageMaker's draft is served by a variant",
    reason="SageMaker's draft models exclude inference components",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html",
)
def _drafts_are_served_by_variants(hosting: Hosting) -> Iterator[Finding]:
    for technique in hosting.known_techniques:
        if technique.variant_only and hosting.serves_components:
            yield Finding("inference_component", technique.name, "inference_component=False, or a draft of your own")


@rule(
    "OPT133",
    title="Components are served by an endpoint of components",
    reason="a variant serves the model it was made with: no other can be added to it, shards load only as a component, "
    "and an endpoint without a model of its own has nothing else to serve",
    link=_GUIDE,
)
def _components_need_an_endpoint_of_components(hosting: Hosting) -> Iterator[Finding]:
    if hosting.serves_components:
        return
    needing = [technique.name for technique in hosting.known_techniques if technique.inference_component]
    if needing or hosting.components or hosting.adapters or not hosting.has_model:
        what = needing[0] if needing else hosting.inference_component
        yield Finding("inference_component", what, "OptimizedEndpoint(..., inference_component=True)")


@rule(
    "OPT134",
    title="An adapter is an archive in S3",
    reason="SageMaker loads an adapter from one gzip-compressed tar archive",
    link="https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-adapt.html",
)
def _adapters_are_archives(hosting: Hosting) -> Iterator[Finding]:
    for adapter in hosting.adapters:
        uri = adapter.uri
        if not is_token(uri) and not (uri.startswith("s3://") and uri.endswith(".tar.gz")):
            yield Finding(f"{adapter.label}.artifact_uri", uri, "s3://bucket/adapters/sql.tar.gz")


@rule(
    "OPT135",
    title="A model with adapters loads them",
    reason="the container loads adapters only when it is started for them",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/adapters.html",
)
def _the_base_loads_adapters(hosting: Hosting) -> Iterator[Finding]:
    for adapter in hosting.adapters:
        if not adapter.loads:
            yield Finding(adapter.label, adapter.uri, "adapters=Adapters(max_loaded=4, max_rank=64) for the model")


@rule(
    "OPT137",
    title="The region has inference components",
    reason=f"CloudFormation has no {INFERENCE_COMPONENT} in that region, and refuses the whole template",
    link=TYPES_BY_REGION,
)
def _region_has_components(hosting: Hosting) -> Iterator[Finding]:
    if hosting.region is not None and hosting.serves_components and is_missing(INFERENCE_COMPONENT, hosting.region):
        listed = ", ".join(regions_with(INFERENCE_COMPONENT))
        works = f"a model that a variant serves, without Sharding.fast_load(); or a stack in one of {listed}"
        yield Finding("region", hosting.region, works)


def _is_sound(component: Component) -> bool:
    return (
        in_range(component.accelerators, 1)
        and in_range(component.memory_mib, _LEAST_MEMORY_MIB)
        and in_range(component.copies, 0)
    )
