"""Rules about inference components: what they take of their endpoint's instances."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import availability
from constructs_optim.recipe.hosting import Hosting, instances_for_copies
from constructs_optim.recipe.techniques import SpeculativeDecoding
from constructs_optim.recipe.tokens import is_whole, matches

from .hosting_rules import NAME
from .registry import API, GUIDE, Finding, rule

_LEAST_MEMORY_MIB = 128
_ARCHIVE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S+\.tar\.gz")


@rule("OPT130", f"{API}InferenceComponentComputeResourceRequirements.html")
def _a_copy_fits(hosting: Hosting) -> Iterator[Finding]:
    """A component's copy fits an instance: accelerators and copies are whole, and a copy is on a single instance."""
    for component in hosting.components:
        label, accelerators, memory = component.label, component.accelerators, f"{component.memory_mib} MiB"
        most, cores = component.max_memory_mib, component.cpu_cores
        if not is_whole(accelerators, 1):
            yield Finding(f"{label}.accelerators", accelerators, "a whole number from 1 on")
        if not is_whole(component.memory_mib, _LEAST_MEMORY_MIB):
            yield Finding(f"{label}.memory", memory, f"{_LEAST_MEMORY_MIB} MiB or more")
        if not is_whole(component.copies, 0):
            yield Finding(f"{label}.copies", component.copies, "a whole number from 0 on")
        if most is not None and not is_whole(most, component.memory_mib):
            reason = f"a copy reserves {memory}, and may use no less than that"
            yield Finding(f"{label}.options.max_memory", f"{most} MiB", f"{memory} or more, or less memory", reason)
        for row in hosting.rows:
            units, unit = row.parallel_units, "NeuronCores" if row.kind == "neuron" else "accelerators"
            if is_whole(accelerators, units + 1):
                reason = f"{row.name} has {units} {unit}"
                yield Finding(f"{label}.accelerators", accelerators, f"at most {units}", reason)
            if is_whole(component.memory_mib, row.memory_mib):
                reason = f"{row.name} has {row.memory_mib} MiB, and the container's host needs some of it"
                yield Finding(f"{label}.memory", memory, f"less than {row.memory_mib} MiB", reason)
            if cores is not None and cores > row.vcpu:
                reason = f"{row.name} has {row.vcpu} vCPUs"
                yield Finding(f"{label}.options.cpu_cores", cores, f"at most {row.vcpu}", reason)


@rule("OPT131", f"{GUIDE}realtime-endpoints-deploy-models.html")
def _all_copies_fit(hosting: Hosting) -> Iterator[Finding]:
    """All copies fit the endpoint's instances: copies without room stay pending, and the deployment fails."""
    most, components = hosting.maximum_instance_count, hosting.components
    # What OPT130 refuses fits nowhere.
    if most is None or not is_whole(most, 1) or any(_a_copy_fits(hosting)):
        return
    for row in hosting.rows:
        needed = instances_for_copies(components, row)
        if needed > most:
            fix = f"variant=VariantOptions(max_instance_count={needed}), fewer copies, or a larger instance type"
            labels = ", ".join(component.label for component in components)
            reason = f"the copies of {labels} take {needed} instances of {row.name}"
            yield Finding("variant.max_instance_count", most, fix, reason)


@rule("OPT132", f"{GUIDE}model-optimize.html")
def _drafts_are_served_by_variants(hosting: Hosting) -> Iterator[Finding]:
    """SageMaker's draft is served by a variant: SageMaker's draft models exclude inference components."""
    for technique in hosting.techniques:
        if isinstance(technique, SpeculativeDecoding.sagemaker_draft) and hosting.serves_components:
            yield Finding("inference_component", technique.name, "inference_component=False, or a draft of your own")


@rule("OPT133", f"{GUIDE}realtime-endpoints-deploy-models.html")
def _components_need_an_endpoint_of_components(hosting: Hosting) -> Iterator[Finding]:
    """Components need an endpoint of components: a variant serves a single model, without shards or adapters."""
    if hosting.inference_component not in (None, True, False):
        yield Finding("inference_component", hosting.inference_component, "True or False", "this is no switch")
    if hosting.serves_components:
        return
    needing = [technique.name for technique in hosting.techniques if technique.inference_component]
    if needing or hosting.components or hosting.adapters or not hosting.has_model:
        value = needing[0] if needing else hosting.inference_component
        yield Finding("inference_component", value, "OptimizedEndpoint(..., inference_component=True)")


@rule("OPT134", f"{GUIDE}realtime-endpoints-adapt.html")
def _adapters_are_archives(hosting: Hosting) -> Iterator[Finding]:
    """An adapter is an archive in S3: SageMaker loads an adapter from a gzip-compressed tar archive."""
    for adapter in hosting.adapters:
        if not matches(_ARCHIVE, adapter.uri):
            yield Finding(f"{adapter.label}.artifact_uri", adapter.uri, "s3://bucket/adapters/sql.tar.gz")
        if adapter.name is not None and not matches(NAME, adapter.name):
            fix = "at most 63 letters, digits and hyphens"
            yield Finding(f"{adapter.label}.adapter_name", adapter.name, fix, "SageMaker refuses the name")


@rule("OPT135", "https://docs.djl.ai/master/docs/serving/serving/docs/adapters.html")
def _the_base_loads_adapters(hosting: Hosting) -> Iterator[Finding]:
    """A model with adapters loads them: the container loads adapters only if it is started for them."""
    for adapter in hosting.adapters:
        if not adapter.loads:
            yield Finding(
                adapter.label,
                adapter.uri,
                "server=Server.vllm(adapters=Adapters(max_loaded=4)) for the model",
            )


@rule("OPT137", "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-specification.html")
def _region_has_components(hosting: Hosting) -> Iterator[Finding]:
    """The region has components: CloudFormation has no AWS::SageMaker::InferenceComponent in that region."""
    kind = availability.INFERENCE_COMPONENT
    if hosting.region is not None and hosting.serves_components and availability.is_missing(kind, hosting.region):
        regions = ", ".join(availability.regions_with(kind))
        fix = f"a model that a variant serves, without Sharding.fast_load(); or a stack in one of {regions}"
        yield Finding("region", hosting.region, fix)
