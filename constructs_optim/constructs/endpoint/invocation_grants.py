"""Who may use an endpoint: principals of its own account."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Annotations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from constructs_optim.constructs.stack.stack_context import is_token


def grant_invocation(
    of: IConstruct, account: str, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]
) -> iam.Grant:
    """Let ``grantee`` do ``actions``, by which a request names an endpoint or a component of the caller's own account.

    Where the account of the grantee is known and the endpoint's is not, a warning says that they have to be the same.

    Raises:
        ValueError: where the grantee is known to be of another account than ``account``. InvokeEndpoint has only a name
            to say what it invokes. The policies of endpoints allow other accounts' requests "through an inference
            router" alone (SageMaker API reference, PutEndpointPolicy). And as ``grant_by_policy``.
    """
    caller = _account_of(grantee.grant_principal)
    if caller is not None and caller != account and not is_token(account):
        raise ValueError(
            f"{of.node.path} is of account {account}, and the principal that is to use it of account {caller}: a "
            "request names an endpoint of the caller's own account, so a permission there has no effect. Grant it to a "
            f'role of account {account} that the caller assumes: iam.Role(endpoint_stack, "Invoker", '
            f'assumed_by=iam.AccountPrincipal("{caller}")). Or send requests through an inference router of the '
            "caller's account (docs/hosting.md, Other accounts)"
        )
    grant = grant_by_policy(of, grantee, actions, arns)
    if caller is not None and is_token(account):
        Annotations.of(of).add_warning_v2(
            "constructs-optim:GrantedAccount",
            f"{of.node.path} is granted to a principal of account {caller}, and may be deployed to any account, as its "
            "stack has none: the permission has an effect in that account only, because a request names an endpoint of "
            f'the caller\'s own account. Give the stack its account, env=Environment(account="{caller}", '
            "region=...), or grant it to a role that the caller assumes (docs/hosting.md, Other accounts)",
        )
    return grant


def grant_by_policy(of: IConstruct, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]) -> iam.Grant:
    """Let ``grantee`` do ``actions`` by a policy of its own.

    Raises:
        ValueError: where it is no role, user or group that a policy can be attached to.
    """
    grant = iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=list(arns))
    if not grant.success:
        kind = type(grantee.grant_principal).__name__
        raise ValueError(
            f"no policy can be attached to {kind}, so {of.node.path} cannot let it do {', '.join(actions)}: an "
            "endpoint has no policy of its own that names principals. Grant it to a role, "
            'user or group: one of this app, or one that exists, iam.Role.from_role_arn(stack, "Caller", '
            '"arn:aws:iam::111122223333:role/chat")'
        )
    return grant


def _account_of(principal: iam.IPrincipal) -> str | None:
    """The account that a principal is known to be of."""
    # An imported construct without a role has none: iam.UnknownPrincipal.
    account: str | None = getattr(principal, "principal_account", None)
    if account is None and isinstance(principal, iam.ArnPrincipal) and not is_token(principal.arn):
        # A principal by its ARN does not tell it: arn:aws:iam::111122223333:role/chat.
        parts = principal.arn.split(":")
        account = parts[4] if len(parts) > 5 and parts[4] else None
    return None if is_token(account) else account
