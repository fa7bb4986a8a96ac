"""A server of known timing in this process, and loads of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator

from constructs_optim.evaluator.connection import Target, UrlTarget
from constructs_optim.evaluator.load import MeasuredLevel, Segment, Sender
from constructs_optim.evaluator.options import Generation, Load
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.streaming import ChatFormat, Format, Record

from .timing_server import Timing, serve

FIRST_TOKEN, INTER_TOKEN, TOKENS = 0.02, 0.002, 8


class ModelServer:
    """A timing server in a thread of its own."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.timing = Timing(FIRST_TOKEN, INTER_TOKEN, TOKENS)
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(serve(self.timing, tls=tls))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)


@contextlib.asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers every connection with these pieces, one after the other, and closes it."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(FIRST_TOKEN)
        writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def asked(*texts: str) -> list[Prompt]:
    return [Prompt(prompt=text) for text in texts]


def sender(target: Target | ModelServer, prompts: list[Prompt], written: type[Format] = ChatFormat) -> Sender:
    target = UrlTarget(target.url, model="timed") if isinstance(target, ModelServer) else target
    return Sender(target, written, prompts, Generation(max_tokens=TOKENS))


def sent(to: Sender, load: Load) -> tuple[list[Record], Segment]:
    """What came of a load: the requests that count."""
    level = MeasuredLevel()
    asyncio.run(to.run(load, level))
    (segment,) = level.segments
    return level.counted, segment
