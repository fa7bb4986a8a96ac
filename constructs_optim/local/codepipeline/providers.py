"""What carries actions out, by category and provider."""

from __future__ import annotations

from ..codebuild.service import CodeBuild
from .approval_actions import ApprovalAction
from .build_actions import BuildAction
from .execution_run import Provider
from .repositories import Repositories
from .source_actions import ConnectionSource, bucket_source
from .stack_actions import stack_action


def action_providers(
    repositories: Repositories, codebuild: CodeBuild, time_scale: float
) -> dict[tuple[str, str], Provider]:
    """Those that the local cloud has."""
    build = BuildAction(codebuild)
    return {
        ("Source", "CodeStarSourceConnection"): ConnectionSource(repositories),
        ("Source", "S3"): bucket_source,
        ("Build", "CodeBuild"): build,
        ("Test", "CodeBuild"): build,
        ("Deploy", "CloudFormation"): stack_action,
        ("Approval", "Manual"): ApprovalAction(time_scale),
    }
