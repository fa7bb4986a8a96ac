"""The VPC that a job and a model reach the network through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from constructs import Construct

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2


@dataclass(frozen=True)
class Network:
    """Subnets and security groups, by id; the ids may be tokens."""

    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]

    @staticmethod
    def of(
        scope: Construct,
        vpc: ec2.IVpc | None,
        subnets: ec2.SubnetSelection | None,
        security_groups: Sequence[ec2.ISecurityGroup] | None,
    ) -> Network | None:
        """Pick the subnets of ``vpc``; None without a VPC.

        Raises:
            ValueError: when subnets or security groups are given without a VPC.
        """
        if vpc is None:
            if subnets is not None or security_groups is not None:
                raise ValueError("vpc_subnets and security_groups need the vpc they belong to: pass vpc as well")
            return None
        groups = shared_security_groups(scope, vpc, security_groups) or ()
        return Network(_chosen(vpc, subnets), tuple(group.security_group_id for group in groups))

    def to_property(self, security_groups_name: str) -> dict[str, list[str]]:
        """A ``VpcConfig`` property in the spelling of the API (``SecurityGroupIds``) or of a construct."""
        subnets_name = "Subnets" if security_groups_name[0].isupper() else "subnets"
        return {security_groups_name: list(self.security_group_ids), subnets_name: list(self.subnet_ids)}


_subnet_ids: WeakKeyDictionary[ec2.IVpc, list[tuple[ec2.SubnetSelection | None, tuple[str, ...]]]] = WeakKeyDictionary()


def _chosen(vpc: ec2.IVpc, subnets: ec2.SubnetSelection | None) -> tuple[str, ...]:
    """The ids of a VPC's subnets, asked for once: an endpoint and its jobs are in the same, and often all endpoints."""
    known = _subnet_ids.setdefault(vpc, [])
    for selection, ids in known:
        if selection is subnets:
            return ids
    chosen = vpc.select_subnets(**(subnets._values if subnets is not None else {}))  # noqa: SLF001
    known.append((subnets, tuple(chosen.subnet_ids)))
    return known[-1][1]


def shared_security_groups(
    scope: Construct, vpc: ec2.IVpc | None, given: Sequence[ec2.ISecurityGroup] | None
) -> Sequence[ec2.ISecurityGroup] | None:
    """The security groups that all models of an endpoint share: a new one where a VPC comes without any."""
    if vpc is None or given is not None:
        return given
    # Imported here: most endpoints have no VPC, and the module takes a quarter of a second to load.
    from aws_cdk import aws_ec2

    return [aws_ec2.SecurityGroup(scope, "SecurityGroup", vpc=vpc)]


def make_connectable(of: type) -> None:
    """Let a class's objects be given wherever the CDK takes an ``IConnectable``.

    Only endpoints in a VPC are, and only then: the module of the interface takes a quarter of a second to load.
    """
    import jsii
    from aws_cdk import aws_ec2

    if aws_ec2.IConnectable not in getattr(of, "__jsii_ifaces__", []):
        jsii.implements(aws_ec2.IConnectable)(of)
