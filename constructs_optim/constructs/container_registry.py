"""The AWS Deep Learning Container registry of the stack's region.

The registry's account differs by region. A stack with a region gets it as plain text; an environment-agnostic stack
gets a CloudFormation mapping, so that one template can be deployed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import CfnMapping, Stack

from constructs_optim.recipe.catalog import images

from .permissions import Arn, sub
from .stack_facts import PSEUDO, facts_of, is_token

_MAPPING_ID = "DeepLearningContainers"
_ACCOUNT = "Account"


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
