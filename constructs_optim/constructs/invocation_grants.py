"""Who may invoke an endpoint: principals of its own account."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import IConstruct

from .stack_facts import is_token


def grant_invocation(
    of: IConstruct, account: str, grantee: iam.IGrantable, actions: Sequence[str], arns: Sequence[str]
) -> iam.Grant:
    """Let ``grantee`` do ``actions``, by which a request names an endpoint or a component of the caller's own account.

    Raises:
        ValueError: where the grantee is known to be of another account than ``account``. InvokeEndpoint has only a name
            to say what it invokes. The policies of endpoints allow other accounts' requests "through an inference
            router" alone (SageMaker API reference, PutEndpointPolicy).
    """
    caller = grantee.grant_principal.principal_account
    if caller is not None and caller != account and not is_token(caller) and not is_token(account):
        raise ValueError(
            f"{of.node.path} is of account {account}, and the principal that is to invoke it of account {caller}: a "
            "request names an endpoint of the caller's own account, so a permission there has no effect. Grant it to a "
            f'role of account {account} that the caller assumes: iam.Role(endpoint_stack, "Invoker", '
            f'assumed_by=iam.AccountPrincipal("{caller}")). Or send requests through an inference router of the '
            "caller's account (docs/hosting.md, Other accounts)"
        )
    return iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=list(arns))
