"""Rules for the ARNs of existing resources."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.hosting.arns import OF_ACCOUNT, OF_REGION, UNCERTAIN_IN_REGION, ArnUse

from .registry import Finding, rule

_ARNS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html"


@rule("OPT280", _ARNS)
def _resource_is_where_the_stack_is(use: ArnUse) -> Iterator[Finding]:
    """An existing resource is in reach of the stack: AWS refuses a resource of another partition, and some resources
    of another Region or account.
    """
    _, partition, _, region, account, _ = use.parts
    fix = f"one such as {use.moved()}"
    if _differs(partition, use.partition):
        reason = f"the stack is in the partition {use.partition}, and partitions share no resources"
        yield Finding(use.location, use.arn, fix, reason)
    elif use.kind in OF_REGION and _differs(region, use.region):
        reason = f"the stack is in {use.region}, and {OF_REGION[use.kind]}"
        yield Finding(use.location, use.arn, fix, reason)
    elif use.kind in OF_ACCOUNT and _differs(account, use.account):
        reason = f"the stack is in account {use.account}, and {OF_ACCOUNT[use.kind]}"
        yield Finding(use.location, use.arn, fix, reason)


@rule("OPT281", _ARNS, advisory=True)
def _resource_is_in_the_region(use: ArnUse) -> Iterator[Finding]:
    """A key or a topic is in the endpoint's Region: no source says that SageMaker uses one of another Region."""
    _, partition, _, region, _, _ = use.parts
    if use.kind in UNCERTAIN_IN_REGION and _differs(region, use.region) and not _differs(partition, use.partition):
        reason, exception = UNCERTAIN_IN_REGION[use.kind]
        fix = f"Use one such as {use.moved()}, or acknowledge this warning {exception}"
        yield Finding(use.location, use.arn, fix, f"the stack is in {use.region}, and {reason}")


def _differs(given: str, known: str | None) -> bool:
    """Return whether a part of an ARN, empty if it is not known, is another one than the stack's."""
    return bool(given) and known is not None and given != known
