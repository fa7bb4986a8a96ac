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
    """A VPC has a way to Amazon S3: jobs and models read and write S3 through their subnets' routes and network ACLs."""
    if use.is_unreachable(_S3):
        if lost := use.shut(_S3):
            reason = f"{use.label} reads from S3, and these subnets have neither an S3 endpoint nor {_way(use, _S3)}"
            yield Finding("network.vpc_subnets", ", ".join(lost), f"{_named(use, _S3)}{_GATEWAY}, or {_EXIT}", reason)
        yield from _filtered(use, _S3, "S3", lost)


@rule("OPT247", _VPC)
def _network_leads_to_the_internet(use: NetworkUse) -> Iterator[Finding]:
    """A VPC has a way to the servers that a job reads from: a job that copies a model or installs packages needs
    servers outside of AWS.
    """
    if use.hosts and use.is_unreachable(INTERNET):
        if lost := use.shut(INTERNET):
            reason = f"{use.label} reads from {_listed(use.hosts)}, and these subnets have no {_way(use)[2:]}"
            yield Finding("network.vpc_subnets", ", ".join(lost), f"{_EXIT}, or {_mirror(use.hosts)}", reason)
        yield from _filtered(use, INTERNET, _listed(use.hosts), lost)


@rule("OPT248", _VPC, advisory=True)
def _network_may_lead_to_s3(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to Amazon S3: SageMaker chooses among the subnets, and assigns no public addresses."""
    if use.is_unreachable(_S3):
        return
    if without := _without(use, _S3):
        reason = f"{use.label} reads from S3, and these subnets have no S3 endpoint and no {_way(use, _S3, nat=True)}"
        fix = f"{_named(use, _S3)}{_GATEWAY}, or use {_EXIT}"
        yield Finding("network.vpc_subnets", ", ".join(without), f"Call {fix}", reason)
    yield from _filtered(use, _S3, "S3", without)


@rule("OPT249", _VPC, advisory=True)
def _network_may_lead_to_servers(use: NetworkUse) -> Iterator[Finding]:
    """Every subnet has a way to the servers that a job reads from: SageMaker chooses among the subnets, and assigns no
    public addresses.
    """
    if use.hosts and not use.is_unreachable(INTERNET):
        if shut := [*use.closed, *use.private, *use.public]:
            reason = f"{use.label} reads from {_listed(use.hosts)}, and these subnets have no {_way(use, nat=True)}"
            yield Finding("network.vpc_subnets", ", ".join(shut), f"Use {_EXIT}, or {_mirror(use.hosts)}", reason)
        yield from _filtered(use, INTERNET, _listed(use.hosts), shut)
    for service in use.without:
        if service == _S3:
            continue
        if without := _without(use, service):
            reason = f"{use.label} calls {service}, and these subnets have no {_way(use, service, nat=True)}"
            fix = f"Call {_named(use, service)}{_interface(service)}, or use {_EXIT}"
            yield Finding("network.vpc_subnets", ", ".join(without), fix, reason)
        yield from _filtered(use, service, service, without)
