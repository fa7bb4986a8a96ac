"""The context object that Lambda passes to a handler."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LambdaContext:
    """The context of one invocation that may take ``seconds``."""

    seconds: float = 2.0
    function_name: str = "handler"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-west-2:000000000000:function:handler"
    aws_request_id: str = "11111111-2222-3333-4444-555555555555"
    _start: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(1000 * (self._start + self.seconds - time.monotonic())))
