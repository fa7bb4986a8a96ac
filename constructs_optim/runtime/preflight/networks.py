"""The subnets of jobs and models: free addresses, and the ways to Amazon S3 and to other servers.

Each instance has a network interface in one of the subnets. Without internet access, jobs and containers reach S3
through a VPC endpoint. Source: SageMaker developer guide, "Give SageMaker AI Training Jobs Access to Resources in Your
Amazon VPC". AWS does not document that SageMaker's interfaces have no public addresses, so subnets whose routes only
lead to an internet gateway are advice. A private name of the VPC, which no call tells, may lead to an interface
endpoint without private DNS names, or through a route to another network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from ..errors import code_of
from ..requests.preflight_properties import NetworkNeed
from .context import Context
from .report import PreflightFinding, advice, problem
from .subnet_ways import SubnetWays, ways_out

_NAME = "network"
_S3 = "s3"


def check_network(need: NetworkNeed, context: Context) -> Iterator[PreflightFinding]:
    """Check that the subnets exist, have free addresses, and have a route to S3."""
    ec2, names = context.client("ec2"), ", ".join(need.subnet_ids)
    try:
        subnets: list[dict[str, Any]] = ec2.describe_subnets(SubnetIds=list(need.subnet_ids))["Subnets"]
    except ClientError as error:
        if code_of(error) != "InvalidSubnetID.NotFound":
            raise
        yield problem(
            _NAME,
            f"at least one of the subnets {names} does not exist in {context.region}",
            "use subnets in the stack's Region",
        )
        return
    free = sum(subnet.get("AvailableIpAddressCount", 0) for subnet in subnets)
    if free == 0:
        yield problem(
            _NAME, f"there are no free addresses in {names}", "use larger subnets, or remove resources from them"
        )
    elif free < need.instance_count:
        yield advice(
            _NAME,
            f"there are {free} free addresses in {names} for {need.instance_count} instances of jobs and endpoints",
            "use larger subnets",
        )
    for vpc in sorted({subnet["VpcId"] for subnet in subnets}):
        own = [subnet for subnet in subnets if subnet["VpcId"] == vpc]
        endpoints = _all_of(ec2, "describe_vpc_endpoints", "VpcEndpoints", vpc)
        tables = _all_of(ec2, "describe_route_tables", "RouteTables", vpc)
        ways = ways_out([subnet["SubnetId"] for subnet in own], tables, endpoints)
        # SageMaker chooses among the subnets, so the deployment is certain to fail only if none of them works.
        is_closed = all(way.exit == "closed" and not way.leads_to(_S3) and _S3 not in way.unnamed for way in ways)
        yield from _check_ways(ways, vpc, need, is_closed=is_closed and not _are_shared(own, context))


def _all_of(ec2: Any, operation: str, member: str, vpc: str) -> list[dict[str, Any]]:
    """Return all descriptions of a VPC, which may have more than a page."""
    pages = ec2.get_paginator(operation).paginate(Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    return [each for page in pages for each in page[member]]


def _are_shared(subnets: list[dict[str, Any]], context: Context) -> bool:
    """Return whether another account shares the subnets: only the VPC's owner sees its interface endpoints.

    Source: Amazon VPC user guide, "Responsibilities and permissions for owners and participants".
    """
    owners = {subnet["OwnerId"] for subnet in subnets if "OwnerId" in subnet}
    return bool(owners) and owners != {context.client("sts").get_caller_identity()["Account"]}


def _check_ways(ways: list[SubnetWays], vpc: str, need: NetworkNeed, *, is_closed: bool) -> Iterator[PreflightFinding]:
    shut = [way for way in ways if way.exit != "routed"]
    uses = {_S3: "jobs and models use Amazon S3", **{service: f"a job calls {service}" for service in need.services}}
    for service, use in uses.items():
        without = [way for way in shut if way.exit != "private" and not way.leads_to(service)]
        unnamed = any(service in way.unnamed for way in without)
        if names := ", ".join(way.name for way in without):
            finding = problem if service == _S3 and is_closed else advice
            kind = "a gateway" if service == _S3 else "an interface"
            endpoint = "a VPC endpoint with private DNS names" if unnamed else "a VPC endpoint"
            enable = f"enable the private DNS names of the endpoint for {service}, " if unnamed else ""
            yield finding(
                _NAME,
                f"{use}, and {names} of {vpc} have neither {endpoint} for it nor a route to a NAT gateway",
                f"{enable}add {kind} endpoint for {service}, or use subnets with a route to a NAT gateway",
            )
    if need.hosts and shut:
        # A name may have an address in the VPC, which no call tells.
        names = ", ".join(way.name for way in shut)
        yield advice(
            _NAME,
            f"a job reads from {' and '.join(need.hosts)}, and {names} of {vpc} have no route to a NAT gateway",
            "use subnets with such a route, or name mirrors in the VPC with PIP_INDEX_URL and HF_ENDPOINT in the "
            "environment of the job's compute (in code, compute=TrainingCompute(environment={...}))",
        )
