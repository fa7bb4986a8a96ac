"""Rules for the roles and networks of jobs and models that an app declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from constructs_optim.recipe.hosting.roles_and_networks import AssumedRole, NetworkUse
from constructs_optim.recipe.plan_data import HUB_VARIABLE

from .registry import GUIDE, Finding, rule

_VPC = f"{GUIDE}train-vpc.html"
_S3 = "s3"
_GATEWAY = 'vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)'
_EXIT = (
    "subnets with a route to a NAT gateway: "
    "vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)"
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
    """A VPC has a way to Amazon S3: jobs and models read and write S3 through their subnets' routes."""
    lost = use.unreachable(_S3)
    if use.is_certain and len(lost) == len(use.subnets):
        reason = f"{use.label} reads from S3, and these subnets have neither an S3 endpoint nor a route out of the VPC"
        yield Finding("network.vpc_subnets", ", ".join(lost), f"{_GATEWAY}, or {_EXIT}", reason)


@rule("OPT247", _VPC)
def _network_leads_to_the_internet(use: NetworkUse) -> Iterator[Finding]:
    """A VPC has a way to the servers that a job reads from: a job that copies a model or installs packages needs
    servers outside of AWS.
    """
    if use.hosts and use.is_certain and len(use.closed) == len(use.subnets):
        reason = f"{use.label} reads from {_listed(use.hosts)}, and these subnets have no route out of the VPC"
        yield Finding("network.vpc_subnets", ", ".join(use.closed), f"{_EXIT}, or {_mirror(use)}", reason)


@rule("OPT248", _VPC, advisory=True)
def _network_may_lead_to_s3(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to Amazon S3: SageMaker chooses among the subnets, and assigns no public addresses."""
    without = [name for name in use.without.get(_S3, ()) if name in (*use.closed, *use.public)]
    if without and not (use.is_certain and len(use.unreachable(_S3)) == len(use.subnets)):
        reason = f"{use.label} reads from S3, and these subnets have no S3 endpoint and no route to a NAT gateway"
        yield Finding("network.vpc_subnets", ", ".join(without), f"Call {_GATEWAY}, or use {_EXIT}", reason)


@rule("OPT249", _VPC, advisory=True)
def _network_may_lead_to_servers(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to the servers that a job reads from: SageMaker chooses among the subnets, and assigns no
    public addresses.
    """
    shut = [*use.closed, *use.public]
    if use.hosts and shut and not (use.is_certain and len(use.closed) == len(use.subnets)):
        reason = f"{use.label} reads from {_listed(use.hosts)}, and these subnets have no route to a NAT gateway"
        yield Finding("network.vpc_subnets", ", ".join(shut), f"Use {_EXIT}, or {_mirror(use)}", reason)
    for service, subnets in use.without.items():
        without = [name for name in subnets if name in shut]
        if service != _S3 and without:
            reason = f"{use.label} calls {service}, and these subnets have no route to a NAT gateway"
            fix = f"Call {_interface(service)}, or use {_EXIT}"
            yield Finding("network.vpc_subnets", ", ".join(without), fix, reason)


def _interface(service: str) -> str:
    return f'vpc.add_interface_endpoint("{service}", service=ec2.InterfaceVpcEndpointAwsService("{service}"))'


def _mirror(use: NetworkUse) -> str:
    variables = ", ".join(_MIRRORS[host] for host in use.hosts)
    return f"name mirrors in the VPC: compute=TrainingCompute(environment={{{variables}}})"


def _listed(hosts: Sequence[str]) -> str:
    return " and ".join(hosts)
