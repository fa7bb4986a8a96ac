"""X-Ray subsegments for a handler and its calls to AWS. Imported only by an invocation that is sampled."""

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
    """Sends segments to the X-Ray daemon without secrets: the SDK adds exceptions to them with their whole text."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def send_entity(self, entity: Any) -> None:
        """Send one."""
        text = json.dumps(self._redactor.value(json.loads(entity.serialize())))
        redacted: Any = SimpleNamespace(serialize=lambda: text)
        super().send_entity(redacted)


@functools.cache
def tracer(redactor: Redactor) -> Tracer:
    """The tracer of this process, with boto3's calls patched in. Calls to pre-signed URLs are not traced."""
    created = Tracer(patch_modules=["botocore"])
    xray_recorder.emitter = RedactingEmitter(redactor)
    return created
