"""The roles and networks of jobs and models that an app declares, as plain data, which rules check at synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

INTERNET = "internet"
"""The servers outside of AWS, beside the names of AWS services."""


@dataclass(frozen=True)
class AssumedRole:
    """A role of the app that SageMaker assumes.

    Attributes:
        path: the role's path in the construct tree.
        refusal: why SageMaker cannot assume it; None if it can, or if that is known only at deployment.
        fix: what lets SageMaker assume it.
    """

    path: str
    refusal: str | None
    fix: str = ""


@dataclass(frozen=True)
class NetworkUse:
    """A job or a model in subnets that the app declares.

    Attributes:
        label: what it is, for messages.
        subnets: the subnets' names.
        closed: the subnets whose routes stay in the VPC.
        public: the subnets whose routes only lead to an internet gateway.
        without: the AWS services that it needs, each with the subnets that have no VPC endpoint for it.
        hosts: the servers outside of AWS that it reads from.
        is_certain: whether nothing but this stack can add routes, endpoints or names before it starts.
        private: the subnets whose routes only lead to private addresses of other networks.
        unnamed: the services with an interface endpoint to which their usual names do not lead.
        shut_endpoints: the services with interface endpoints whose security groups let nobody in, and these endpoints.
        dead_ends: the NAT gateways of these subnets' routes that do not lead to the internet.
        filtered: the AWS services, and ``INTERNET``, each with the subnets whose network ACLs keep it out.
    """

    label: str
    subnets: Sequence[str]
    closed: Sequence[str]
    public: Sequence[str]
    without: Mapping[str, Sequence[str]]
    hosts: Sequence[str]
    is_certain: bool
    private: Sequence[str] = ()
    unnamed: Sequence[str] = ()
    shut_endpoints: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    dead_ends: Sequence[str] = ()
    filtered: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def shut(self, target: str) -> list[str]:
        """Return the subnets whose routes certainly lead neither to an AWS service nor to ``INTERNET``."""
        without = self.subnets if target == INTERNET else self.without.get(target, ())
        return [name for name in without if name in (*self.closed, *self.private)]

    def is_unreachable(self, target: str) -> bool:
        """Return whether an AWS service or ``INTERNET`` is certainly out of reach from all subnets."""
        return self.is_certain and {*self.shut(target), *self.filtered.get(target, ())} == {*self.subnets}


@dataclass(frozen=True)
class SecurityGroupUse:
    """A job or a model in security groups that the app declares.

    Attributes:
        label: what it is, for messages.
        groups: the groups' names.
        allowed: the addresses to which they let HTTPS out: no addresses, or only private ones.
        targets: the AWS services and the servers outside of AWS that it needs and has no other way to.
        is_certain: whether nothing but this stack can add rules before it starts.
    """

    label: str
    groups: Sequence[str]
    allowed: Literal["nothing", "private"]
    targets: Sequence[str]
    is_certain: bool


@dataclass(frozen=True)
class ForeignGroup:
    """A security group of another VPC than the subnets' of a job or model.

    Attributes:
        label: what the job or model is, for messages.
        group: the group's name.
        vpc: the group's VPC.
        vpc_of_subnets: the subnets' VPC.
    """

    label: str
    group: str
    vpc: str
    vpc_of_subnets: str
