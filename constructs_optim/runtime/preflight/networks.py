"""The subnets of jobs and models: free addresses, and the ways to Amazon S3 and to other servers.

Each instance has a network interface in one of the subnets. Without internet access, jobs and containers reach S3
through a VPC endpoint. Sources: SageMaker developer guide, "Give SageMaker AI Training Jobs Access to Resources in Your
Amazon VPC"; Amazon VPC user guide, "Enable internet access for a VPC using an internet gateway" (only a resource with a
public address reaches the internet through it) and "Gateway endpoints" (routes of the tables that they name). AWS does
not document that SageMaker's interfaces have no public addresses, so this is only advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
        yield from _ways(_Ways.of(ec2, vpc, own), vpc, need)


@dataclass(frozen=True)
class _Ways:
    """The ways out of a VPC's subnets: those with local routes only, those that only lead to an internet gateway, and
    the services that each reaches through a VPC endpoint.
    """

    closed: list[str]
    public: list[str]
    services: dict[str, set[str]]

    @staticmethod
    def of(ec2: Any, vpc: str, subnets: list[str]) -> _Ways:
        of_vpc = {"Name": "vpc-id", "Values": [vpc]}
        endpoints = ec2.describe_vpc_endpoints(Filters=[of_vpc])["VpcEndpoints"]
        tables = ec2.describe_route_tables(Filters=[of_vpc])["RouteTables"]
        main = [table for table in tables if any(each.get("Main") for each in table.get("Associations", ()))]
        ways = _Ways([], [], {})
        for subnet in subnets:
            own = [
                table
                for table in tables
                if any(each.get("SubnetId") == subnet for each in table.get("Associations", ()))
            ]
            used = own or main
            exits = {_exit(route) for table in used for route in table.get("Routes", ())}
            if exits and "routed" not in exits:
                (ways.public if "public" in exits else ways.closed).append(subnet)
            ids = {table.get("RouteTableId") for table in used}
            ways.services[subnet] = {
                endpoint["ServiceName"].rpartition(".")[2] for endpoint in endpoints if _serves(endpoint, ids)
            }
        return ways

    def without(self, service: str, among: list[str]) -> list[str]:
        return [subnet for subnet in among if self.services[subnet].isdisjoint({service, f"{service}express"})]


def _ways(ways: _Ways, vpc: str, need: NetworkNeed) -> Iterator[PreflightFinding]:
    if lost := ways.without("s3", ways.closed):
        yield problem(
            _NAME,
            f"there is no route out of {vpc} for {', '.join(lost)}, and the VPC has no S3 endpoint: jobs and "
            "models cannot reach S3",
            "add vpc.add_gateway_endpoint(..., service=GatewayVpcEndpointAwsService.S3), or a NAT gateway",
        )
    shut = [*ways.closed, *ways.public]
    if doubtful := ways.without("s3", ways.public):
        yield advice(
            _NAME,
            f"{', '.join(doubtful)} of {vpc} have routes to an internet gateway only, and no S3 endpoint. An interface "
            "without a public address reaches nothing through that gateway",
            "use subnets with a route to a NAT gateway, or add an S3 endpoint",
        )
    if need.hosts and shut:
        # A name may have an address in the VPC, which no call tells.
        yield advice(
            _NAME,
            f"a job reads from {' and '.join(need.hosts)}, and {', '.join(shut)} of {vpc} have no route to a NAT "
            "gateway",
            "use subnets with such a route, or name mirrors in the VPC with PIP_INDEX_URL and HF_ENDPOINT "
            "(TrainingCompute(environment=...))",
        )
    for service in need.services:
        if without := ways.without(service, shut):
            yield advice(
                _NAME,
                f"a job calls {service}, and {', '.join(without)} of {vpc} have neither a VPC endpoint for it nor a "
                "route to a NAT gateway",
                f"add an interface endpoint for {service}, or a NAT gateway",
            )


def _exit(route: dict[str, Any]) -> str:
    """Return where an IPv4 route leads: ``closed`` (within the VPC, or to a service), ``public`` or ``routed``.

    A gateway endpoint's route has its service's prefix list as destination. The endpoint of a Gateway Load Balancer,
    such as a firewall, has addresses. Source: Amazon VPC user guide, "Example routing options".
    """
    gateway = str(route.get("GatewayId", ""))
    if gateway == "local" or "DestinationPrefixListId" in route or "DestinationIpv6CidrBlock" in route:
        return "closed"
    return "public" if gateway.startswith("igw-") else "routed"


def _serves(endpoint: dict[str, Any], tables: set[str | None]) -> bool:
    """Return whether a VPC endpoint works in a subnet with one of the route tables; a gateway needs a route."""
    return endpoint.get("VpcEndpointType") != "Gateway" or not tables.isdisjoint(endpoint.get("RouteTableIds", ()))
