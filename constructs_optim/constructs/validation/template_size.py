"""Refuse a template that exceeds a limit of CloudFormation or of its resources' services, and suggest a fix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import jsii
from aws_cdk import Annotations, ISynthesisSession, LegacyStackSynthesizer, Stack, Token
from aws_cdk.cx_api import CloudAssemblyBuilder
from constructs import Construct, IValidation

from constructs_optim.constructs.stack.findings import warning
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.documentation import page
from constructs_optim.templates.limits import Excess, excesses
from constructs_optim.templates.resource_types import DASHBOARD, ENDPOINT

# Each endpoint counts, and each of its instance types' artifacts. A stack with fewer cannot reach a limit
# (tests/constructs/test_template_size.py), so its template is not rendered a second time.
_WATCHED_FROM = 16
_ANOTHER_STACK = (
    "declare some of the stack's endpoints in another stack, which shares the artifact store with "
    f"artifact_store=ArtifactStore.from_bucket(store.bucket) ({page('sharing')})"
)
# The logical IDs of what all endpoints of a stack use: the functions, the state machines, and the default store.
_SHARED = ("OptimizationService", "ArtifactStore")
_DIVIDED = ("template bytes", "resources", "outputs", "parameters", "mappings")
_ORGANIZATION = (
    "share with the organization, whose accounts one statement names together (share_with_organization), or divide "
    "the accounts among several stores"
)
_SECOND_DASHBOARD = "leave endpoints, segments or concurrencies out, or make a second dashboard"
_REMEDIES = {
    "alarm description": "a shorter description",
    "bucket policy": _ORGANIZATION,
    "key policy": _ORGANIZATION,
    "dashboard widgets": _SECOND_DASHBOARD,
    "metrics of a dashboard": _SECOND_DASHBOARD,
    "metrics of a widget": _SECOND_DASHBOARD,
    "dynamic references": "fewer of them, for example secrets that are read at run time, or a second stack",
    "function environment": "fewer or shorter variables, or a parameter of Systems Manager that the function reads",
    "inline policies of a role": "attach managed policies instead",
    "managed policies of a role": "merge policies, or request a higher quota of IAM",
    "managed policy": "divide it into several policies",
    "mapping attributes": "divide it into several mappings",
    "name": "a shorter name",
    "parameter description": "a shorter description",
    "parameter value": "a shorter default, or several parameters",
    "tag key": "a shorter key",
    "tag value": "a shorter value",
    "tags": "fewer tags; those of the stack and of its resources count together",
    "template description": "a shorter description",
    "trust policy": "fewer principals and conditions, or request a higher quota of IAM",
}


def watch_template_size(construct: Construct) -> None:
    """Count a construct of its stack, and check the template if there are many."""
    _count(construct, 1)


def check_template_size(construct: Construct) -> None:
    """Check the template of a construct's stack, however few constructs it has."""
    _count(construct, _WATCHED_FROM)


def _count(construct: Construct, number: int) -> None:
    context = StackContext.of(construct)
    check = context.once(_Check, lambda: _Check(context.stack))
    check.constructs += number
    if check.constructs >= _WATCHED_FROM and not check.is_added:
        check.is_added = True
        context.stack.node.add_validation(check)


@jsii.implements(IValidation)
class _Check:
    """Checks a stack after all its constructs and aspects, before the templates are written."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._is_refused, self.constructs, self.is_added = stack, False, 0, False

    def validate(self) -> list[str]:
        """Return the errors that stop synthesis: too many resources, in the CDK's words with a suggested fix.

        Everything else causes an error annotation instead, so that the template is still written and readable.
        """
        try:
            text = written_template(self._stack)
        except RuntimeError as refused:
            (message, *_) = str(refused).splitlines()
            if "Number of resources" not in message:
                raise
            return [f"{message}. What works: {_ANOTHER_STACK}"]
        # An app may be synthesized several times.
        if self._is_refused:
            return []
        template, name = json.loads(text), self._stack.stack_name
        annotations = Annotations.of(self._stack)
        found = excesses(template, size=len(text.encode()), stack_name="" if Token.is_unresolved(name) else name)
        for excess in found:
            message = f"{self._stack.node.path}: {refusal(excess, template)}"
            if excess.limit.adjustable:
                annotations.add_warning_v2(f"constructs-optim:{excess.name.title().replace(' ', '')}", warning(message))
                continue
            self._is_refused = True
            if excess.name == "template bytes":
                # This replaces the CDK's own warning, which does not suggest a fix.
                annotations.acknowledge_warning("@aws-cdk/core:Stack.templateSize")
                compact = _size(template)
                if compact <= excess.limit.most:
                    message += (
                        '; or set "@aws-cdk/core:suppressTemplateIndentation": true in the context of cdk.json, which '
                        f"makes it {compact:,} bytes"
                    )
            annotations.add_error(message)
        return []


def refusals(text: str, stack_name: str) -> list[str]:
    """Return what of a written template exceeds a limit that AWS does not raise, and what works instead."""
    template = json.loads(text)
    found = excesses(template, size=len(text.encode()), stack_name=stack_name)
    return [refusal(excess, template) for excess in found if not excess.limit.adjustable]


def refusal(excess: Excess, template: Mapping[str, Any]) -> str:
    """Return what exceeds a limit, and what works instead."""
    works = _divided(excess, template) if excess.name in _DIVIDED else _REMEDIES[excess.name]
    return f"{excess}: {works}"


def _divided(excess: Excess, template: Mapping[str, Any]) -> str:
    """Return how to divide a template, how much of it fits into one stack, and what takes its bytes."""
    resources: Mapping[str, Mapping[str, Any]] = template["Resources"]
    works, endpoints = _ANOTHER_STACK, sum(each["Type"] == ENDPOINT for each in resources.values())
    if endpoints > 1:
        # What the endpoints share is in each stack again.
        shared = [name for name in resources if name.startswith(_SHARED)]
        parts = {"resources": len(shared) / max(len(resources), 1), "template bytes": _share(template, shared)}
        of_all = excess.found * parts.get(excess.name, 0)
        fits = int((excess.limit.most - of_all) * endpoints / (excess.found - of_all))
        works += f"; about {max(fits, 1)} of its {endpoints} fit into one"
    dashboards = [resource for resource in resources.values() if resource["Type"] == DASHBOARD]
    if excess.name == "template bytes" and dashboards:
        size = sum(map(_size, dashboards))
        works += f"; or leave features out: dashboards, with the charts of evaluations, take {size:,} of the bytes"
    return works


def _share(template: Mapping[str, Any], names: Iterable[str]) -> float:
    """Return which part of a template's bytes some of its resources take."""
    return sum(_size(template["Resources"][name]) for name in names) / _size(template)


def _size(value: Any) -> int:
    """Return the size of a part of a template without indentation, in bytes."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def written_template(stack: Stack) -> str:
    """Return the template's text as it will be written, including ``add_property_override``."""
    writer = LegacyStackSynthesizer()
    writer.bind(stack)
    with TemporaryDirectory() as folder:
        writer._synthesize_template(cast("ISynthesisSession", _Session(folder)))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return Path(folder, stack.template_file).read_text(encoding="utf-8")


@jsii.implements(ISynthesisSession)
class _Session:
    """A synthesis into another folder."""

    def __init__(self, folder: str) -> None:
        self._builder = CloudAssemblyBuilder(folder)

    @property
    def assembly(self) -> CloudAssemblyBuilder:
        return self._builder
