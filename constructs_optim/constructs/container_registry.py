"""The AWS Deep Learning Container registry of the stack's region.

The registry's account differs by region. A stack with a region gets it as plain text; an environment-agnostic stack
gets a CloudFormation mapping, so that one template can be deployed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Aws, CfnMapping, Stack, Token

from constructs_optim.recipe.catalog import images

from .permissions import Arn, sub

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
        if Token.is_unresolved(self.account):
            return {"Fn::Sub": [template, {"Account": self.account}]}
        return sub(template.replace("${Account}", self.account))

    @staticmethod
    def of(stack: Stack) -> ContainerRegistry:
        """The registry for ``stack``'s region."""
        if not Token.is_unresolved(stack.region):
            account = images.registry_account(stack.region)
            # An unknown region is the planner's to report, together with all else that is wrong.
            return ContainerRegistry(account or "", images.registry_host(stack.region) or "")
        mapping = stack.node.try_find_child(_MAPPING_ID)
        if not isinstance(mapping, CfnMapping):
            mapping = CfnMapping(
                stack,
                _MAPPING_ID,
                mapping={region: {_ACCOUNT: account} for region, account in images.registry_accounts().items()},
            )
        account = mapping.find_in_map(Aws.REGION, _ACCOUNT)
        return ContainerRegistry(account, f"{account}.dkr.ecr.{Aws.REGION}.{Aws.URL_SUFFIX}")
