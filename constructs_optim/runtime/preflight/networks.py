"""The subnets of jobs and models: free addresses, and a route to Amazon S3.

Each instance has a network interface in one of the subnets. Without internet access, jobs and containers reach S3
through a VPC endpoint. Source: SageMaker developer guide, "Give SageMaker AI Training Jobs Access to Resources in Your
Amazon VPC".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from ..errors import code_of
from ..requests.preflight_properties import NetworkNeed
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "network"


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
        own = [subnet["SubnetId"] for subnet in subnets if subnet["VpcId"] == vpc]
        lost = _without_a_way(ec2, vpc, own, context.region)
        if lost:
            yield problem(
                _NAME,
                f"there is no route out of {vpc} for {', '.join(lost)}, and the VPC has no S3 endpoint: jobs and "
                "models cannot reach S3",
                "add vpc.add_gateway_endpoint(..., service=GatewayVpcEndpointAwsService.S3), or a NAT gateway",
            )


def _without_a_way(ec2: Any, vpc: str, subnets: list[str], region: str) -> list[str]:
    """Return the subnets with only local routes, if the VPC has no S3 endpoint."""
    of_vpc = {"Name": "vpc-id", "Values": [vpc]}
    endpoints = ec2.describe_vpc_endpoints(Filters=[of_vpc])["VpcEndpoints"]
    if any(endpoint["ServiceName"].endswith((f".{region}.s3", f".{region}.s3express")) for endpoint in endpoints):
        return []
    tables = ec2.describe_route_tables(Filters=[of_vpc])["RouteTables"]
    main = [table for table in tables if any(each.get("Main") for each in table.get("Associations", ()))]
    lost: list[str] = []
    for subnet in subnets:
        own = [
            table for table in tables if any(each.get("SubnetId") == subnet for each in table.get("Associations", ()))
        ]
        routes = [route for table in own or main for route in table.get("Routes", ())]
        if routes and all(route.get("GatewayId") == "local" for route in routes):
            lost.append(subnet)
    return lost
