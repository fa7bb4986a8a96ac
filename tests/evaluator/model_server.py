"""A real model server, of a small, randomly initialized Llama, and a proxy that injects faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ENVIRONMENT = Path(__file__).parent.parent.parent / ".venv-models"

_MAKE = """
import string, sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.manual_seed(0)
# Printable characters only, a token each: what is said can be counted again.
characters = [*string.ascii_letters, *"[]<>:.,!?0123456789", "\u0120", "\u010a"]
vocabulary = {token: place for place, token in enumerate(["<s>", "</s>", *characters])}
words = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
words.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="</s>")
tokenizer.chat_template = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}\\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
tokenizer.save_pretrained(sys.argv[1])
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, bos_token_id=0, eos_token_id=1, pad_token_id=1, max_position_embeddings=2048))
model.generation_config.suppress_tokens = [0, 1]
model.save_pretrained(sys.argv[1])
"""


def make_model(folder: Path) -> Path:
    """Weights, tokenizer and chat template of a Llama with two layers."""
    subprocess.run([str(ENVIRONMENT / "bin" / "python"), "-c", _MAKE, str(folder)], check=True, capture_output=True)
    return folder


@contextlib.contextmanager
def model_server(model: Path, log: Path) -> Iterator[str]:
    """Serve the model on loopback; the URL of the API."""
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    command = [str(ENVIRONMENT / "bin" / "transformers"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with (
        log.open("w") as said,
        subprocess.Popen(
            [*command, "--device", "cpu", str(model)], stdout=said, stderr=subprocess.STDOUT, env=environment
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 180
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                    break
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


class FaultyProxy:
    """Stands before a server and does to a request what ``fault:NAME`` in its prompt says."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _cancel(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")
            )
            body = await reader.readexactly(length)
            fault = next(
                (name for name in ("503", "hang", "empty", "malformed", "cut") if f"fault:{name}".encode() in body), ""
            )
            await self._answer(fault, head, body, writer)
        writer.close()

    async def _answer(self, fault: str, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        if fault == "503":
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy")
        elif fault == "hang":
            await asyncio.sleep(3600)
        elif fault == "empty":
            closing = b'data: {"choices":[{"delta":{},"index":0,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
            told = f"Content-Length: {len(closing)}\r\nConnection: close\r\n\r\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + told + closing)
        else:
            await self._forward(fault, head, body, writer)

    async def _forward(self, fault: str, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        upstream, sending = await asyncio.open_connection("127.0.0.1", self._upstream)
        sending.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
        writer.write(await upstream.readuntil(b"\r\n\r\n"))
        chunks = 0
        while line := await upstream.readline():
            writer.write(line + await upstream.readexactly(int(line, 16) + 2))
            chunks += 1
            if chunks == 2 and fault == "cut":
                break
            if chunks == 2 and fault == "malformed":
                writer.write(b'd\r\ndata: {"oops\n\r\n')
        await writer.drain()
        sending.close()
