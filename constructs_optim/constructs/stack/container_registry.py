"""The AWS Deep Learning Container registry of the stack's region.

The registry's account differs by region. A stack with a region gets it as plain text; an environment-agnostic stack
gets a CloudFormation mapping, so that one template can be deployed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aws_cdk import CfnMapping, Stack

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.planning.plan_data import Plan

from .permissions import Arn, sub
from .stack_facts import PSEUDO, facts_of, is_token

_MAPPING_ID = "DeepLearningContainers"
_ACCOUNT = "Account"
# Where a hub's configuration names the image, it is one of these.
_HUB_REPOSITORIES = frozenset({"djl-inference", "huggingface-pytorch-tgi-inference"})


def repositories_of(images: Iterable[str | None]) -> list[str]:
    """The names of the repositories that images are pulled from; where none is named, of those a hub may name."""
    named = {image.rpartition("/")[2].partition(":")[0] for image in images if image is not None}
    return sorted(named or _HUB_REPOSITORIES)


@dataclass(frozen=True)
class ContainerRegistry:
    """``account`` (12 digits) and ``host`` (``<account>.dkr.ecr.<region>.<suffix>``); both may be tokens."""

    account: str
    host: str

    def repository_arn(self, repository: str) -> Arn:
        """The ARN of one of its repositories."""
        template = "arn:${AWS::Partition}:ecr:${AWS::Region}:${Account}:repository/" + repository
        if is_token(self.account):
            return {"Fn::Sub": [template, {"Account": self.account}]}
        return sub(template.replace("${Account}", self.account))

    def serving_repositories(self, plan: Plan) -> list[str]:
        """The repositories that an artifact of ``plan`` may be served from, for its manifest to be held to.

        The execution role pulls from no other.
        """
        return [f"{self.host}/{name}" for name in repositories_of([plan.container.image])]

    @staticmethod
    def of(stack: Stack) -> ContainerRegistry:
        """The registry for ``stack``'s region."""
        facts = facts_of(stack)
        region = facts.known_region
        if region is None:
            return facts.once(ContainerRegistry, ContainerRegistry._of_any_region)
        account = images.registry_account(region)
        # An unknown region is the planner's to report, together with all else that is wrong.
        return ContainerRegistry(account or "", images.registry_host(region) or "")

    @staticmethod
    def _of_any_region(stack: Stack) -> ContainerRegistry:
        mapping = CfnMapping(
            stack,
            _MAPPING_ID,
            mapping={region: {_ACCOUNT: account} for region, account in images.registry_accounts().items()},
        )
        account = mapping.find_in_map(PSEUDO.region, _ACCOUNT)
        return ContainerRegistry(account, f"{account}.dkr.ecr.{PSEUDO.region}.{PSEUDO.url_suffix}")
