"""Refuse a template that exceeds CloudFormation's limits, and suggest a fix.

Source of the limits: AWS CloudFormation user guide, "Understand CloudFormation quotas" (500 resources; 1 MB in an
object of S3).
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import jsii
from aws_cdk import Annotations, ISynthesisSession, LegacyStackSynthesizer, Stack
from aws_cdk.cx_api import CloudAssemblyBuilder
from constructs import Construct, IValidation

from constructs_optim.constructs.stack.stack_context import StackContext

# The CDK adds the bootstrap version rule later, less than 1 KB; for a template this close, only its own warning
# remains.
MOST_BYTES = 1_000_000
"""The maximum size of a template in S3; in a request it is 51,200 bytes."""
# An endpoint with its job counts twice, and with all features has at most 20 resources and 100 KB. A stack with fewer
# constructs cannot reach a limit, so its template is not rendered a second time.
_WATCHED_FROM = 16
_SPLIT = (
    "declare some of the stack's endpoints in another stack, which shares the artifact store with "
    "artifact_store=ArtifactStore.from_bucket(store.bucket), or leave features out: evaluate() enlarges a dashboard "
    "from 14 KB to 40 KB, and each policy and schedule of auto_scale() is a resource"
)


def watch_template_size(construct: Construct) -> None:
    """Count a construct of its stack, and measure the template if there are many."""
    context = StackContext.of(construct)
    size = context.once(_Measurement, lambda: _Measurement(context.stack))
    size.constructs += 1
    if size.constructs == _WATCHED_FROM:
        context.stack.node.add_validation(size)


@jsii.implements(IValidation)
class _Measurement:
    """Measures a stack after all its constructs and aspects, before the templates are written."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._is_refused, self.constructs = stack, False, 0

    def validate(self) -> list[str]:
        """Return the errors that stop synthesis: too many resources, in the CDK's words with a suggested fix.

        A template with too many bytes causes an error annotation instead, so that it is still written and readable.
        """
        try:
            text = written_template(self._stack)
        except RuntimeError as refused:
            (message, *_) = str(refused).splitlines()
            if "Number of resources" not in message:
                raise
            return [f"{message}. What works: {_SPLIT}"]
        size = len(text.encode())
        # An app may be synthesized several times.
        if size > MOST_BYTES and not self._is_refused:
            self._is_refused = True
            compact = len(json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode())
            unindented = (
                'set "@aws-cdk/core:suppressTemplateIndentation": true in the context of cdk.json, which makes it '
                f"about {compact:,} bytes; or "
            )
            annotations = Annotations.of(self._stack)
            # This replaces the CDK's own warning, which does not suggest a fix.
            annotations.acknowledge_warning("@aws-cdk/core:Stack.templateSize")
            annotations.add_error(
                f"the template of {self._stack.node.path} has about {size:,} bytes, and CloudFormation allows "
                f"{MOST_BYTES:,}: {unindented if compact <= MOST_BYTES else ''}{_SPLIT}"
            )
        return []


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
