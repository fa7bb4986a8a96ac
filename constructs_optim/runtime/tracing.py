"""X-Ray subsegments for a handler and its calls to AWS. Only sampled invocations import this module."""

from __future__ import annotations

import functools
import json
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.tracing import Tracer
from aws_xray_sdk.core import xray_recorder
from aws_xray_sdk.core.emitters.udp_emitter import UDPEmitter

from .redaction import Redactor


class RedactingEmitter(UDPEmitter):
    """Redacts segments before it sends them to the X-Ray daemon: the SDK adds the text of exceptions."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def send_entity(self, entity: Any) -> None:
        """Send a segment without its secrets."""
        text = json.dumps(self._redactor.value(json.loads(entity.serialize())))
        redacted: Any = SimpleNamespace(serialize=lambda: text)
        super().send_entity(redacted)


@functools.cache
def tracer(redactor: Redactor) -> Tracer:
    """Return this process's tracer, which traces botocore's calls but not requests to pre-signed URLs."""
    created = Tracer(patch_modules=["botocore"])
    xray_recorder.emitter = RedactingEmitter(redactor)
    return created
