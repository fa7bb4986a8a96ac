"""Rules for inference components and the instance resources that they use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import availability, instances
from constructs_optim.recipe.catalog.instances import COMPUTE_SLICES, MEMORY_SLICES
from constructs_optim.recipe.hosting import Hosting, instances_for_copies
from constructs_optim.recipe.techniques import SpeculativeDecoding
from constructs_optim.recipe.tokens import is_whole, matches

from .hosting_rules import NAME
from .model_rules import BUCKET, wrong_bucket
from .registry import API, GUIDE, Finding, rule

_USER_GUIDE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
_LEAST_MEMORY_MIB = 128
_ARCHIVE = re.compile(rf"s3://{BUCKET}/\S+\.tar\.gz")


@rule("OPT130", f"{API}InferenceComponentComputeResourceRequirements.html")
def _a_copy_fits(hosting: Hosting) -> Iterator[Finding]:
    """A component's copy fits on one instance: each copy needs whole accelerators and memory of a single instance."""
    for component in hosting.components:
        label, accelerators, memory = component.label, component.accelerators, f"{component.memory_mib} MiB"
        most, cores = component.max_memory_mib, component.cpu_cores
        if not is_whole(accelerators, 1):
            yield Finding(f"{label}.accelerators", accelerators, "a whole number, 1 or greater")
        if not is_whole(component.memory_mib, _LEAST_MEMORY_MIB):
            yield Finding(f"{label}.memory", memory, f"{_LEAST_MEMORY_MIB} MiB or more")
        if most is not None and not is_whole(most, component.memory_mib):
            reason = f"a copy reserves {memory}, so its maximum cannot be lower"
            yield Finding(
                f"{label}.options.max_memory", f"{most} MiB", f"{memory} or more, or a smaller memory", reason
            )
        for row in hosting.rows:
            units, unit = row.parallel_units, "NeuronCores" if row.kind == "neuron" else "accelerators"
            if is_whole(accelerators, units + 1):
                reason = f"{row.name} has {units} {unit}"
                yield Finding(f"{label}.accelerators", accelerators, f"at most {units}", reason)
            if is_whole(component.memory_mib, row.memory_mib):
                reason = f"{row.name} has {row.memory_mib} MiB, and the host operating system needs some of it"
                yield Finding(f"{label}.memory", memory, f"less than {row.memory_mib} MiB", reason)
            if cores is not None and cores > row.vcpu:
                reason = f"{row.name} has {row.vcpu} vCPUs"
                yield Finding(f"{label}.options.cpu_cores", cores, f"at most {row.vcpu}", reason)


@rule("OPT253", "https://github.com/stdapi-ai/stdapi.ai/issues/43")
def _a_component_starts_with_a_copy(hosting: Hosting) -> Iterator[Finding]:
    """A component starts with a copy: SageMaker does not create a component with zero copies."""
    for component in hosting.components:
        if not is_whole(component.copies, 1):
            fix = "a whole number, 1 or greater; scaling with min_capacity=0 removes the copies of an idle component"
            yield Finding(f"{component.label}.copies", component.copies, fix)


@rule("OPT131", f"{GUIDE}realtime-endpoints-deploy-models.html")
def _all_copies_fit(hosting: Hosting) -> Iterator[Finding]:
    """All copies fit on the endpoint's instances: a copy that does not fit stays pending, and the deployment fails."""
    most, components = hosting.maximum_instance_count, hosting.components
    # A copy that the rules for a single copy reject fits nowhere.
    rejected = (_a_copy_fits, _a_component_starts_with_a_copy, _a_copy_takes_a_partition)
    if most is None or not is_whole(most, 1) or any(any(found(hosting)) for found in rejected):
        return
    for row in hosting.rows:
        needed = instances_for_copies(components, row, hosting.partitions)
        if needed > most:
            fix = f"variant=VariantOptions(max_instance_count={needed}), fewer copies, or a larger instance type"
            labels = ", ".join(component.label for component in components)
            reason = f"the copies of {labels} need {needed} {row.name} instances"
            yield Finding("variant.max_instance_count", most, fix, reason)


@rule("OPT132", f"{GUIDE}model-optimize.html")
def _drafts_are_served_by_variants(hosting: Hosting) -> Iterator[Finding]:
    """A variant serves SageMaker's draft model: SageMaker's draft models do not work with inference components."""
    for technique in hosting.techniques:
        if isinstance(technique, SpeculativeDecoding.sagemaker_draft) and hosting.serves_components:
            yield Finding("inference_component", technique.name, "inference_component=False, or your own draft model")


@rule("OPT133", f"{GUIDE}realtime-endpoints-deploy-models.html")
def _components_need_an_endpoint_of_components(hosting: Hosting) -> Iterator[Finding]:
    """Components need an inference component endpoint: a variant with a model serves one model, without shards or
    adapters.
    """
    if hosting.inference_component not in (None, True, False):
        yield Finding(
            "inference_component", hosting.inference_component, "True or False", "this setting is either on or off"
        )
    if hosting.serves_components:
        return
    needing = [technique.name for technique in hosting.techniques if technique.inference_component]
    if needing or hosting.components or hosting.adapters or not hosting.has_model:
        value = needing[0] if needing else hosting.inference_component
        yield Finding("inference_component", value, "OptimizedEndpoint(..., inference_component=True)")


@rule("OPT134", f"{GUIDE}realtime-endpoints-adapt.html")
def _adapters_are_archives(hosting: Hosting) -> Iterator[Finding]:
    """An adapter is a .tar.gz archive in S3: SageMaker loads an adapter from a gzip-compressed tar archive."""
    for adapter in hosting.adapters:
        if not matches(_ARCHIVE, adapter.uri):
            fix = "s3://bucket/adapters/sql.tar.gz"
            yield Finding(f"{adapter.label}.artifact_uri", adapter.uri, fix, wrong_bucket(adapter.uri))
        if adapter.name is not None and not matches(NAME, adapter.name):
            fix = "at most 63 letters, digits and hyphens"
            yield Finding(f"{adapter.label}.adapter_name", adapter.name, fix, "SageMaker rejects this name")


@rule("OPT135", "https://docs.djl.ai/master/docs/serving/serving/docs/adapters.html")
def _the_base_loads_adapters(hosting: Hosting) -> Iterator[Finding]:
    """The base model's server enables adapters: the container loads adapters only if LoRA is enabled at startup."""
    for adapter in hosting.adapters:
        if not adapter.loads:
            yield Finding(
                adapter.label,
                adapter.uri,
                "server=Server.vllm(adapters=Adapters(max_loaded=4)) for the base model",
            )


@rule("OPT137", "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-specification.html")
def _region_has_components(hosting: Hosting) -> Iterator[Finding]:
    """The Region supports inference components: CloudFormation has no AWS::SageMaker::InferenceComponent in this
    Region.
    """
    kind = availability.INFERENCE_COMPONENT
    if hosting.region is not None and hosting.serves_components and availability.is_missing(kind, hosting.region):
        regions = ", ".join(availability.regions_with(kind))
        fix = f"serve the model from a variant, without Sharding.fast_load(); or deploy the stack in one of {regions}"
        yield Finding("region", hosting.region, fix)


@rule("OPT138", f"{GUIDE}inference-components-accelerator-partitioning-create.html")
def _a_layout_divides_a_gpu(hosting: Hosting) -> Iterator[Finding]:
    """Accelerator partitions fit the GPU: every GPU of the endpoint is partitioned the same way for inference
    components.
    """
    location, layout = "variant.accelerator_partitions", ", ".join(map(str, hosting.partitions))
    if not hosting.partitions:
        return
    if not hosting.serves_components:
        yield Finding(
            location,
            layout,
            "inference_component=True, or leave it out",
            "a variant that serves a model uses whole GPUs",
        )
    if hosting.pooled and len(hosting.instance_types) > 1:
        reason = "partitions apply to the GPUs of one instance type, and the pools have several types"
        yield Finding(location, layout, "one instance_type instead of pools, or no partitions", reason)
    for row in hosting.rows:
        if unknown := [str(name) for name in hosting.partitions if name not in row.partitions]:
            divided = ", ".join(name for name, other in instances.by_name().items() if other.partitions)
            fix = f"any of {', '.join(row.partitions)}" if row.partitions else f"one of the instance types {divided}"
            reason = f"the accelerators of {row.name} do not support this partition"
            yield Finding(location, ", ".join(dict.fromkeys(unknown)), fix, reason)
            continue
        compute, memory = (sum(slices) for slices in zip(*map(row.slices, hosting.partitions), strict=True))
        if compute > COMPUTE_SLICES or memory > MEMORY_SLICES:
            reason = (
                f"the partitions need {compute} compute and {memory} memory slices, but a GPU of {row.name} has "
                f"{COMPUTE_SLICES} and {MEMORY_SLICES}"
            )
            yield Finding(location, layout, "fewer or smaller partitions", reason)


@rule("OPT139", f"{GUIDE}inference-components-accelerator-partitioning-deploy.html")
def _a_copy_takes_a_partition(hosting: Hosting) -> Iterator[Finding]:
    """A copy uses one of the endpoint's partitions: SageMaker rejects a component without a partition on partitioned
    GPUs.
    """
    kinds = ", ".join(sorted({*map(str, hosting.partitions)}))
    for component in hosting.components:
        location, partition = f"{component.label}.options.accelerator_partition", component.partition
        if hosting.partitions and partition not in hosting.partitions:
            yield Finding(location, partition, f"one of the endpoint's partitions: {kinds}")
        elif not hosting.partitions and partition is not None:
            fix = f"variant=VariantOptions(accelerator_partitions=[{partition!r}, ...]), or leave it out"
            yield Finding(location, partition, fix, "the endpoint's GPUs are not partitioned")
        elif partition is not None and component.accelerators != 1:
            fix = "leave accelerators out: a copy uses one partition"
            yield Finding(f"{component.label}.accelerators", component.accelerators, fix)


@rule("OPT209", f"{_USER_GUIDE}import-resources.html")
def _what_is_imported_has_its_name(hosting: Hosting) -> Iterator[Finding]:
    """Imported resources keep their names: CloudFormation replaces an endpoint or a component whose name changes, and
    an import cannot refer to a model or a configuration outside it.
    """
    kept = (
        ("variant.existing_configuration", hosting.existing_configuration, "endpoint_name", hosting.endpoint_name),
        ("existing_model", hosting.existing_model, "component_name", hosting.component_name),
    )
    for location, existing, name_location, name in kept:
        if existing is not None and not matches(NAME, existing):
            yield Finding(location, existing, "a name such as chat-2025-01-31")
        if existing is not None and name is None:
            yield Finding(name_location, name, "the name of the deployed resource")
    if (name := hosting.component_name) is not None and (not matches(NAME, name) or name != name.lower()):
        reason = "the component's ARN has the name in lowercase, and references use the ARN"
        yield Finding("component_name", name, "1 to 63 lowercase letters, digits and inner hyphens", reason)
    if hosting.existing_configuration is not None and hosting.partitions:
        reason = "changing the partitions replaces the endpoint"
        yield Finding("variant.accelerator_partitions", ", ".join(hosting.partitions), "no partitions", reason)
    if hosting.existing_model is not None and len(hosting.instance_types) > 1:
        reason = "an imported component has a single specification"
        yield Finding("existing_model", hosting.existing_model, "an endpoint with one instance type", reason)
