"""The bodies of requests: read up to a limit, in a time that is proportional to their length."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]

LONGEST_BODY = 69_905_067
"""The largest request of an AWS service other than S3, a function's code: "Request must be smaller than 69905067 bytes
for the CreateFunction operation" (https://github.com/localstack/localstack/pull/2999, from AWS). In bytes.
"""
LONGEST_OBJECT = 5 * 1024**3
"""S3 API reference, PutObject: the largest object of a single request. In bytes."""


class BodyTooLong(Exception):
    """A body that is longer than allowed.

    Attributes:
        start: what was read of it: nothing, or one byte more than allowed.
    """

    def __init__(self, limit: int, start: bytes = b"") -> None:
        super().__init__(f"the body has more than {limit:,} bytes")
        self.start = start


class Disconnected(Exception):
    """The client left before it had sent its whole body."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return a request's body.

    Args:
        receive: the request's next message, as ASGI defines it.
        limit: the largest number of bytes. Nothing after it is read.

    Raises:
        BodyTooLong: if there are more bytes.
        Disconnected: if the client leaves before the end.
    """
    parts, length = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        if length > limit:
            raise BodyTooLong(limit, b"".join(parts)[: limit + 1])
        if not message.get("more_body"):
            return b"".join(parts)
