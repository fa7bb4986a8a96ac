"""Rules for the roles and networks of jobs and models that an app declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from constructs_optim.recipe.hosting.roles_and_networks import (
    INTERNET,
    AssumedRole,
    ForeignGroup,
    NetworkUse,
    SecurityGroupUse,
)
from constructs_optim.recipe.plan_data import HUB_VARIABLE

from .registry import GUIDE, Finding, rule

_VPC = f"{GUIDE}train-vpc.html"
_EC2 = "https://docs.aws.amazon.com/vpc/latest/userguide/"
_S3 = "s3"
_GATEWAY = 'vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)'
_EXIT = (
    "subnets with a route to a NAT gateway: "
    "vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)"
)
_EGRESS = "security_group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443)), or leave allow_all_outbound out"
_ENTRIES = (
    'acl.add_entry("Requests", cidr=ec2.AclCidr.any_ipv4(), rule_number=1, traffic=ec2.AclTraffic.tcp_port(443), '
    "direction=ec2.TrafficDirection.EGRESS) and "
    'acl.add_entry("Responses", cidr=ec2.AclCidr.any_ipv4(), rule_number=1, '
    "traffic=ec2.AclTraffic.tcp_port_range(1024, 65535), direction=ec2.TrafficDirection.INGRESS)"
)
_MIRRORS = {
    "huggingface.co": f'"{HUB_VARIABLE}": "https://..."',
    "pypi.org": '"PIP_INDEX_URL": "https://..."',
}


@rule("OPT245", f"{GUIDE}sagemaker-roles.html")
def _service_assumes_the_role(role: AssumedRole) -> Iterator[Finding]:
    """A role's trust policy lets SageMaker assume it: SageMaker assumes the role for jobs and models, and refuses a
    role that it cannot assume.
    """
    if role.refusal is not None:
        yield Finding("role", role.path, role.fix, role.refusal)


@rule("OPT246", _VPC)
def _network_leads_to_s3(use: NetworkUse) -> Iterator[Finding]:
    """A VPC has a way to Amazon S3: jobs and models read and write S3 through their subnets' routes and network
    ACLs.
    """
    if use.is_unreachable(_S3):
        lost = use.shut(_S3)
        lack = f"neither an S3 endpoint nor {_way_out(use)}"
        yield from _routes(use, lost, f"reads from S3, and these subnets have {lack}", f"{_GATEWAY}, or {_EXIT}", _S3)
        yield from _acls(use, lost, _S3, "reads from S3", _ENTRIES)


@rule("OPT247", _VPC)
def _network_leads_to_the_internet(use: NetworkUse) -> Iterator[Finding]:
    """A VPC has a way to the servers that a job reads from: a job that copies a model or installs packages needs
    servers outside of AWS.
    """
    if use.hosts and use.is_unreachable(INTERNET):
        lost, need = use.shut(INTERNET), f"reads from {_listed(use.hosts)}"
        lack = _way_out(use).replace("a ", "no ", 1)
        yield from _routes(use, lost, f"{need}, and these subnets have {lack}", f"{_EXIT}, or {_mirror(use.hosts)}")
        yield from _acls(use, lost, INTERNET, need, _ENTRIES)


@rule("OPT248", _VPC, advisory=True)
def _network_may_lead_to_s3(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to Amazon S3: SageMaker chooses among the subnets, and assigns no public addresses."""
    if not use.is_unreachable(_S3):
        without = _without(use, _S3)
        why = "reads from S3, and these subnets have no S3 endpoint and no route to a NAT gateway"
        yield from _routes(use, without, why, f"Call {_GATEWAY}, or use {_EXIT}", _S3)
        yield from _acls(use, without, _S3, "reads from S3", f"Call {_ENTRIES}")


@rule("OPT249", _VPC, advisory=True)
def _network_may_lead_to_servers(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to the servers that a job reads from: SageMaker chooses among the subnets, and assigns no
    public addresses.
    """
    if use.hosts and not use.is_unreachable(INTERNET):
        shut, need = [*use.closed, *use.private, *use.public], f"reads from {_listed(use.hosts)}"
        why = f"{need}, and these subnets have no route to a NAT gateway"
        yield from _routes(use, shut, why, f"Use {_EXIT}, or {_mirror(use.hosts)}")
        yield from _acls(use, shut, INTERNET, need, f"Call {_ENTRIES}")
    for service in use.without:
        if service != _S3:
            without = _without(use, service)
            why = f"calls {service}, and these subnets have no route to a NAT gateway"
            yield from _routes(use, without, why, f"Call {_interface(service)}, or use {_EXIT}", service)
            yield from _acls(use, without, service, f"calls {service}", f"Call {_ENTRIES}")


@rule("OPT265", f"{_EC2}security-group-rules.html")
def _security_groups_let_requests_out(use: SecurityGroupUse) -> Iterator[Finding]:
    """Security groups let the requests of jobs and models out: they reach S3 and the servers that they read from by
    HTTPS, and need an outbound rule for it.
    """
    if use.is_certain:
        yield _closed_groups(use)


@rule("OPT266", f"{_EC2}security-group-rules.html", advisory=True)
def _security_groups_may_let_requests_out(use: SecurityGroupUse) -> Iterator[Finding]:
    """Security groups let the requests of jobs and models out, as far as the template shows: without an outbound rule
    that something else adds, jobs and models do not reach what they need.
    """
    if not use.is_certain:
        finding = _closed_groups(use)
        yield replace(finding, suggestion=f"Call {finding.suggestion}")


@rule("OPT267", f"{_EC2}security-groups.html")
def _security_group_is_of_the_vpc(use: ForeignGroup) -> Iterator[Finding]:
    """A security group belongs to the VPC of the subnets: EC2 refuses a network interface with a group of another
    VPC, unless the group is associated with the VPC of the subnets.
    """
    reason = f"{use.label} is in subnets of {use.vpc_of_subnets}, and this group belongs to {use.vpc}"
    fix = "a security group of the same VPC, or leave security_groups out: the construct creates one"
    yield Finding("network.security_groups", use.group, fix, reason)


def _closed_groups(use: SecurityGroupUse) -> Finding:
    lack = (
        "its security groups have no outbound rule for it"
        if use.allowed == "nothing"
        else "the outbound rules of its security groups lead only to private addresses"
    )
    reason = f"{use.label} needs {_listed(use.targets)} by HTTPS, and {lack}"
    return Finding("network.security_groups", ", ".join(use.groups), _EGRESS, reason)


def _without(use: NetworkUse, service: str) -> list[str]:
    """Return the subnets without a way to a service; another network may have an endpoint for it."""
    return [name for name in use.without.get(service, ()) if name in (*use.closed, *use.public)]


def _way_out(use: NetworkUse) -> str:
    return "a route to public addresses" if use.private else "a route out of the VPC"


def _routes(use: NetworkUse, names: Sequence[str], why: str, fix: str, service: str | None = None) -> Iterator[Finding]:
    """Yield a finding for subnets without a way, with what seems to be one."""
    if not names:
        return
    reason = f"{use.label} {why}"
    enable = ""
    if service in use.unnamed:
        name = _listed([service or ""])
        reason += f". The usual name of {name} does not lead to its interface endpoint, which has no private DNS names"
        enable = "private_dns_enabled=True for the endpoint"
    elif shut := use.shut_endpoints.get(service or ""):
        reason += f". The security groups of the endpoint {_listed(shut)} have no inbound rule for HTTPS"
        enable = "open=True for the endpoint"
    if enable:
        fix = f"Set {enable}, or call {fix[5:]}" if fix.startswith("Call ") else f"{enable}, or {fix}"
    if use.dead_ends:
        reason += (
            f". The NAT gateway {_listed(use.dead_ends)} does not lead to the internet: that takes "
            "connectivity_type='public' and a subnet with a route to an internet gateway"
        )
    yield Finding("network.vpc_subnets", ", ".join(names), fix, reason)


def _acls(use: NetworkUse, others: Sequence[str], target: str, need: str, fix: str) -> Iterator[Finding]:
    """Yield a finding for the subnets, besides others, whose network ACLs keep a target out."""
    if names := [name for name in use.filtered.get(target, ()) if name not in others]:
        lack = "the network ACLs of these subnets do not allow HTTPS requests and their responses"
        yield Finding("network.vpc_subnets", ", ".join(names), fix, f"{use.label} {need}, and {lack}")


def _interface(service: str) -> str:
    return f'vpc.add_interface_endpoint("{service}", service=ec2.InterfaceVpcEndpointAwsService("{service}"))'


def _mirror(hosts: Sequence[str]) -> str:
    variables = ", ".join(_MIRRORS[host] for host in hosts)
    return f"name mirrors in the VPC: compute=TrainingCompute(environment={{{variables}}})"


def _listed(names: Sequence[str]) -> str:
    named = ["S3" if name == _S3 else name for name in names]
    return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
