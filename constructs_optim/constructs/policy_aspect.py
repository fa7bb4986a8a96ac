"""A platform team's policy as an aspect: its findings are annotations of the constructs that they are about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import jsii
from aws_cdk import Annotations, Aspects, CfnResource, IAspect, Stack, Stage
from aws_cdk import Validations as CdkValidations
from constructs import IConstruct, IValidation

from constructs_optim.recipe.policy import PlatformPolicy, PolicyFinding, check

from .policy_validation import acknowledgement_id
from .written_template import written_template


@jsii.implements(IAspect)
class PolicyAspect:
    """Judges the stacks of a scope, nested ones among them, as ``PolicyValidation`` does.

    ``Aspects.of(app).add(PolicyAspect(policy))``. Findings are errors and warnings of constructs; those that were
    acknowledged are infos, with the reason. The CDK runs aspects within a stage (``cdk.Stage``): each stage needs one.
    """

    def __init__(self, policy: PlatformPolicy) -> None:
        """Judge by ``policy``."""
        self._policy = policy
        self._judged: set[str] = set()

    def visit(self, node: IConstruct) -> None:
        """Have a stack judged when all aspects are through with it.

        Raises:
            ValueError: at a stage within the scope that has no ``PolicyAspect``: it would pass unseen.
        """
        if isinstance(node, Stage):
            _refuse_unseen_stages(node)
        if isinstance(node, Stack) and node.node.addr not in self._judged:
            self._judged.add(node.node.addr)
            # A validation runs after every aspect, whatever their priorities, and before templates are written.
            node.node.add_validation(_Judgement(self._policy, node))


@jsii.implements(IValidation)
class _Judgement:
    """Annotates the constructs of one stack."""

    def __init__(self, policy: PlatformPolicy, stack: Stack) -> None:
        self._policy, self._stack = policy, stack

    def validate(self) -> list[str]:
        """Annotate; nothing is returned, for what validations return stops synthesis without a report."""
        findings = check(self._policy, json.loads(written_template(self._stack)))
        if findings:
            constructs = _resources(self._stack)
            for finding in findings:
                _annotate(constructs[finding.logical_id], finding)
        return []


def _annotate(construct: CfnResource, finding: PolicyFinding) -> None:
    text = f"{finding.description}. What works: {finding.suggestion}"
    name = acknowledgement_id(finding.rule)
    reason = _acknowledged(construct, name) if finding.severity != "fatal" else None
    if reason is not None:
        Annotations.of(construct).add_info(f"{text}. Acknowledged: {reason} ({name})")
    elif finding.severity == "warning":
        CdkValidations.of(construct).add_warning(name, text)
    else:
        CdkValidations.of(construct).add_error(name, text)


def _acknowledged(construct: IConstruct, name: str) -> str | None:
    """Why a rule is let pass at a construct: by the closest acknowledgement at it or above it."""
    for scope in reversed(construct.node.scopes):
        # Of two at one construct the later one counts, as in the report of the CDK.
        for entry in reversed(scope.node.metadata):
            if entry.type == CdkValidations.ACKNOWLEDGED_RULES_METADATA_KEY and isinstance(entry.data, Mapping):
                reason = entry.data.get(name)
                if reason is not None:
                    return str(reason)
    return None


def _resources(stack: Stack) -> dict[str, CfnResource]:
    """The resources of a stack, its nested stacks' left out, by logical id."""
    found = (one for one in stack.node.find_all() if isinstance(one, CfnResource) and one.stack is stack)
    return {str(stack.resolve(one.logical_id)): one for one in found}


def _refuse_unseen_stages(stage: Stage) -> None:
    unseen = [
        one.node.path
        for one in _stages_below(stage)
        if not any(isinstance(aspect, PolicyAspect) for aspect in Aspects.of(one).all)
    ]
    if unseen:
        raise ValueError(
            f"PolicyAspect does not reach the stages {', '.join(unseen)}: the CDK runs aspects within a stage. Add one "
            "to each, Aspects.of(stage).add(PolicyAspect(policy)), or have the app validated by "
            "Validations.of(app).add_plugins(PolicyValidation(policy)), which sees all stages"
        )


def _stages_below(stage: Stage) -> Iterator[Stage]:
    return (one for one in stage.node.find_all() if isinstance(one, Stage) and one is not stage)
