"""The VPC of jobs and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakSet

from aws_cdk import Stack
from constructs import Construct
from pydantic import Field

from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.tokens import is_token

from .arguments import SECURITY_GROUP, SUBNETS, VPC
from .stack_context import StackContext, path_of

if TYPE_CHECKING:
    from aws_cdk.aws_ec2 import ISecurityGroup, IVpc, SubnetSelection
else:
    # Most endpoints have no VPC, and the module takes 0.25 seconds to load.
    ISecurityGroup = IVpc = SubnetSelection = Any


# The library's own let everything out, and are of the right VPC.
_own_groups: WeakSet[Any] = WeakSet()


class NetworkOptions(Settings):
    """Network settings of jobs and models.

    Attributes:
        vpc: the VPC of jobs and models. Default: none.
        vpc_subnets: the VPC's subnets to use. Default: the private ones.
        security_groups: the security groups of jobs and models. Default: a new one without ingress.
        isolation: whether the model's container is isolated from the network; only for an endpoint. Default: if the
            techniques allow it.
    """

    vpc: Annotated[IVpc, VPC] | None = None
    vpc_subnets: Annotated[SubnetSelection, SUBNETS] | None = None
    security_groups: Annotated[Sequence[Annotated[ISecurityGroup, SECURITY_GROUP]], Field(min_length=1)] | None = None
    isolation: bool | None = None

    def with_shared_security_groups(self, scope: Construct) -> NetworkOptions:
        """Return the options with the security groups that an endpoint's models share; without any, create one."""
        if self.vpc is None or self.security_groups is not None:
            return self
        from aws_cdk import aws_ec2

        group = aws_ec2.SecurityGroup(scope, "SecurityGroup", vpc=self.vpc)
        _own_groups.add(group)
        return self.model_copy(update={"security_groups": [group]})


@dataclass(frozen=True)
class Network:
    """The IDs of subnets and security groups; may be tokens.

    ``is_there_before``: whether subnets and routes exist before the stack is deployed. ``declared_by``: the stack that
    declares them; None if their IDs are known. ``vpc_id``: the ID of their VPC, if it is known. ``declared_groups``:
    the IDs of security groups of the app, besides the library's own, each with the stack that declares it.
    """

    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]
    is_there_before: bool
    declared_by: Stack | None = None
    vpc_id: str | None = None
    declared_groups: tuple[tuple[str, Stack], ...] = ()

    @staticmethod
    def of(scope: Construct, options: NetworkOptions) -> Network | None:
        """Select the subnets of the VPC; return None without a VPC."""
        if options.vpc is None:
            if options.vpc_subnets is not None or options.security_groups is not None:
                raise ValueError("vpc_subnets and security_groups need the vpc they belong to: pass vpc as well")
            return None
        groups = options.with_shared_security_groups(scope).security_groups or ()
        vpc, selection = options.vpc, options.vpc_subnets
        values = selection._values if selection is not None else {}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        subnet_ids = StackContext.of(scope).once(
            (Network, vpc, repr(selection)), lambda: tuple(vpc.select_subnets(**values).subnet_ids)
        )
        declared_by = StackContext.of(vpc).stack if any(map(is_token, subnet_ids)) else None
        is_there_before = declared_by is None or path_of(declared_by) != path_of(StackContext.of(scope).stack)
        ids = tuple(group.security_group_id for group in groups)
        # Subnets that are named one by one may be another VPC's.
        is_of_vpc = declared_by is None and "subnets" not in values and not is_token(vpc.vpc_id)
        declared_groups = tuple(
            (identity, StackContext.of(group).stack)
            for group, identity in zip(groups, ids, strict=True)
            if is_token(identity) and group not in _own_groups
        )
        vpc_id = vpc.vpc_id if is_of_vpc else None
        return Network(subnet_ids, ids, is_there_before, declared_by, vpc_id, declared_groups)

    def to_property(self, security_groups_name: str) -> dict[str, list[str]]:
        """Return a ``VpcConfig`` property in the spelling of the API (``SecurityGroupIds``) or of a construct."""
        subnets_name = "Subnets" if security_groups_name[0].isupper() else "subnets"
        return {security_groups_name: list(self.security_group_ids), subnets_name: list(self.subnet_ids)}


def refuse_isolation(network: NetworkOptions, construct: str) -> None:
    """Refuse ``isolation`` for a construct without a container."""
    if network.isolation is not None:
        raise ValueError(
            f"network.isolation is {network.isolation}, and {construct} has no model container: leave it out here, and "
            "set it on the endpoint that serves the artifact"
        )


def make_connectable(of: type) -> None:
    """Make a class an ``IConnectable``, as endpoints in a VPC are."""
    # Not at import, because the interface's module takes 0.25 seconds to load.
    import jsii
    from aws_cdk import aws_ec2

    if aws_ec2.IConnectable not in getattr(of, "__jsii_ifaces__", []):
        jsii.implements(aws_ec2.IConnectable)(of)
