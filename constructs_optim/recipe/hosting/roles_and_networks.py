"""The roles and networks of jobs and models that an app declares, as plain data, which rules check at synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AssumedRole:
    """A role of the app that a service assumes.

    Attributes:
        path: the role's path in the construct tree.
        service: the service's principal, for example ``sagemaker.amazonaws.com``.
        principals: who may assume it, as its trust policy names them.
        is_trusted: whether the service may; None if a condition, or a value known only at deployment, decides.
    """

    path: str
    service: str
    principals: Sequence[str]
    is_trusted: bool | None


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
    """

    label: str
    subnets: Sequence[str]
    closed: Sequence[str]
    public: Sequence[str]
    without: Mapping[str, Sequence[str]]
    hosts: Sequence[str]
    is_certain: bool

    def unreachable(self, service: str) -> list[str]:
        """Return the subnets from which there is certainly no way to an AWS service."""
        return [name for name in self.without.get(service, ()) if name in self.closed]
