"""The roles and networks of jobs and models that an app declares, as plain data, which rules check at synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
