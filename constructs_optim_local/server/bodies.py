"""The bodies of requests: read up to a limit, in a time that is proportional to their length."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]

LONGEST_BODY = 69_905_067
"""The largest request of an AWS service other than S3, a function's code: "Request must be smaller than 69905067 bytes
for the CreateFunction operation" (https://github.com/localstack/localstack/pull/2999, from AWS). In bytes.
"""
LONGEST_OBJECT = 5 * 1024**3
"""S3 API reference, PutObject: the largest object of a single request. In bytes."""


_SMALL_BODY = 1_000_000
_FOR_SMALL_BODIES = 32_000_000


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


class TooManyBytes(Exception):
    """The bodies of all requests that are not verified yet are too long together."""


class UnverifiedBodies:
    """The bodies of requests whose signatures are not verified yet: together limited, because anyone can send them.

    There is room for the largest request, and apart from it for small ones, which large ones cannot keep out.
    """

    def __init__(self) -> None:
        self._left = LONGEST_BODY + _FOR_SMALL_BODIES

    @contextmanager
    def counted(self, receive: Receive) -> Iterator[Receive]:
        """Count what a request receives, until the ``with`` block ends.

        Raises:
            TooManyBytes: by the returned function, if there is no room for more.
        """
        taken = 0

        async def counting() -> dict[str, Any]:
            nonlocal taken
            message = await receive()
            length = len(message.get("body", b""))
            kept_free = _FOR_SMALL_BODIES if taken + length > _SMALL_BODY else 0
            if length > self._left - kept_free:
                raise TooManyBytes
            taken += length
            self._left -= length
            return message

        try:
            yield counting
        finally:
            self._left += taken


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
