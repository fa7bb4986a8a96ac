"""The AWS Deep Learning Container registry of the stack's Region, and other AWS accounts that differ by Region.

A stack with a Region gets the account as plain text; an environment-agnostic stack gets a CloudFormation mapping, so
that its template can be deployed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aws_cdk import Aws, CfnMapping, Stack
from constructs import Construct

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.tokens import is_token

from .permissions import Arn, sub
from .stack_context import PSEUDO, StackContext

# If a hub configuration names the image, the image is in one of these repositories.
_HUB_REPOSITORIES = frozenset({"djl-inference", "huggingface-pytorch-tgi-inference"})


def repositories_of(images: Iterable[str | None]) -> list[str]:
    """Return the names of the images' repositories; for an unnamed image, those that a hub may name."""
    named = {image.rpartition("/")[2].partition(":")[0] for image in images if image is not None}
    return sorted(named or _HUB_REPOSITORIES)


@dataclass(frozen=True)
class ContainerRegistry:
    """``account`` (12 digits) and ``host`` (``<account>.dkr.ecr.<region>.<suffix>``); both may be tokens."""

    account: str
    host: str

    @staticmethod
    def of(scope: Construct) -> ContainerRegistry:
        """Return the registry for the Region of ``scope``'s stack."""
        context = StackContext.of(scope)
        account = account_of_region(context.stack, "DeepLearningContainers", images.registry_accounts())
        if context.known_region is None:
            return ContainerRegistry(str(account), f"{account}.dkr.ecr.{PSEUDO.region}.{Aws.URL_SUFFIX}")
        # The planner reports an unknown Region together with all other violations.
        return ContainerRegistry(account or "", images.registry_host(context.known_region) or "")


def account_of_region(stack: Stack, mapping_id: str, accounts: Mapping[str, str]) -> str | None:
    """Return the account of ``stack``'s Region, or None; a token of a ``CfnMapping`` if the stack has no Region."""

    def mapped() -> str:
        rows = {region: {"Account": account} for region, account in accounts.items()}
        return CfnMapping(stack, mapping_id, mapping=rows).find_in_map(PSEUDO.region, "Account")

    context = StackContext.of(stack)
    if context.known_region is not None:
        return accounts.get(context.known_region)
    return context.once((CfnMapping, mapping_id), mapped)


def sub_account(template: str, account: str) -> Arn:
    """Return an ARN with ``account``, which may be a token, in place of ``${Account}``."""
    if is_token(account):
        return {"Fn::Sub": [template, {"Account": account}]}
    return sub(template.replace("${Account}", account))
