"""The instances in service during an evaluation: their types, artifacts, and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import client
from ..requests.run_properties import EvaluationRequest, Subject
from ..telemetry import log
from .price_list import API_REGION, lowest_prices

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_sagemaker.type_defs import DescribeEndpointOutputTypeDef

# Regions of the price list API by partition.
_PRICING_REGIONS = {"aws": API_REGION, "aws-cn": "cn-northwest-1"}


@dataclass(frozen=True)
class Fleet:
    """The instances in service, the most frequent artifact and instance type, and notes for the report."""

    artifact_key: str
    instance_type: str
    # The number of instances, or the share of them that a component's copies use.
    count: float
    # Copies of the model.
    copies: int
    # The price of all instances, in US dollars before discount; None if unknown.
    price_per_hour: float | None
    price_source: str
    notes: tuple[str, ...]


def fleet(request: EvaluationRequest, sagemaker: SageMakerClient, region: str, function_arn: str) -> Fleet:
    """Return the instances that serve the endpoint or component now."""
    endpoint = sagemaker.describe_endpoint(EndpointName=request.endpoint_name)
    counts = _counts(request, endpoint)
    copies = max(1, round(sum(counts.values())))
    notes: list[str] = []
    if request.inference_component_name and request.share_of_instance is not None:
        component = sagemaker.describe_inference_component(InferenceComponentName=request.inference_component_name)
        copies = component.get("RuntimeConfig", {}).get("CurrentCopyCount", 1)
        # A component's price is its copies' share of the accelerators.
        whole = sum(counts.values()) or 1
        counts = {name: count / whole * copies * request.share_of_instance for name, count in counts.items()}
    if len([count for count in counts.values() if count]) > 1:
        notes.append("Several instance types served at the same time: " + ", ".join(sorted(counts)) + ".")
    by_type = {subject.instance_type: subject for subject in request.subjects}
    main = max(counts, key=lambda name: counts[name], default=request.subjects[0].instance_type)
    subject = by_type.get(main, request.subjects[0])
    price, source = _price(counts, by_type, region, function_arn.split(":")[1])
    if price is None:
        notes.append(f"The price of {source} is unknown, so the report has no price metrics. State it if you know it.")
    count = sum(counts.values())
    return Fleet(subject.artifact_key, subject.instance_type, count, copies, price, source, tuple(notes))


def _counts(request: EvaluationRequest, endpoint: DescribeEndpointOutputTypeDef) -> dict[str, float]:
    """Return the number of instances by type."""
    counts: dict[str, float] = {}
    for variant in endpoint.get("ProductionVariants", []):
        if request.variant_name not in (None, variant["VariantName"]):
            continue
        pools = {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in variant.get("InstancePools", [])}
        only = {request.subjects[0].instance_type: variant.get("CurrentInstanceCount", 1)}
        for name, count in (pools or only).items():
            counts[name] = counts.get(name, 0) + count
    return {name: count for name, count in counts.items() if count} or {request.subjects[0].instance_type: 1}


def _price(
    counts: Mapping[str, float], subjects: Mapping[str, Subject], region: str, partition: str
) -> tuple[float | None, str]:
    """Return the price of all instances and its source, or None and an instance type whose price is unknown."""
    total, sources, home = 0.0, dict[str, None](), _PRICING_REGIONS.get(partition)
    for name, count in counts.items():
        price = subjects[name].price_per_hour if name in subjects else None
        sources["stated" if price is not None else "AWS Price List"] = None
        if price is None and home is not None:
            try:
                listed = lowest_prices(
                    client("pricing", region=home), regionCode=region, instanceName=name, component="Hosting"
                )
                price = listed.get(name)
            except (ClientError, BotoCoreError) as error:
                log("no price", instance_type=name, reason=str(error))
        if price is None:
            return None, name
        total += price * count
    return total, " and ".join(sources)
