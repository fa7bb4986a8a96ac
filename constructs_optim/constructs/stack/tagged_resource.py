"""A custom resource that tags reach: ``Tags.of(app).add(...)`` finds it like CloudFormation's own resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsii
from aws_cdk import CfnResource, ITaggableV2, TagManager, TagType
from constructs import Construct


@jsii.implements(ITaggableV2)
class TaggedResource(CfnResource):
    """Its handler gives what it makes the tags in its ``Tags`` property."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        type: str,
        properties: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Declare it; ``tags`` are those that it has by itself."""
        # CfnResource renders a tag manager's tags by itself, as the property that the manager names.
        self._tag_manager = TagManager(TagType.KEY_VALUE, type, dict(tags) if tags else None, tag_property_name="Tags")
        super().__init__(scope, id, type=type, properties=dict(properties))

    @property
    def cdk_tag_manager(self) -> TagManager:
        """What the CDK collects tags in."""
        return self._tag_manager
