"""One question of a model's kind: a chat, a completion, an image, an embedding, or a score."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

from .configuration import Kind
from .server import Engine, EngineEndedError

_TEXT, _TOKENS, _SIDE = "Which tables have a column that is named city?", 4, 64
# gpt-oss: openai_harmony downloads the vocabulary of its format, unless TIKTOKEN_ENCODINGS_BASE names a folder with it
# (README.md of openai/harmony). A dry start downloads nothing.
_VOCABULARY = "vocab file"


def answered(engine: Engine, kind: Kind, *, chats: bool) -> str:
    """Ask a started engine a question, and return in words what it answered.

    Raises:
        EngineEndedError: if it does not answer.
        OutOfTimeError: if it does not answer in time.
    """
    name = engine.served_name()
    if kind.runner == "pooling":
        if kind.convert == "classify":
            engine.ask("/score", {"model": name, "text_1": _TEXT, "text_2": _TEXT})
            return "a score"
        engine.ask("/v1/embeddings", {"model": name, "input": _TEXT})
        return "an embedding"
    if not chats:
        return _completion(engine, name)
    content: object = _TEXT
    if kind.reads_images:
        content = [{"type": "text", "text": _TEXT}, {"type": "image_url", "image_url": {"url": _image()}}]
    chat = {"model": name, "messages": [{"role": "user", "content": content}], "max_tokens": _TOKENS}
    try:
        engine.ask("/v1/chat/completions", chat)
    except EngineEndedError as error:
        if _VOCABULARY not in str(error):
            raise
        return f"{_completion(engine, name)}, and no chat, whose format needs a vocabulary from the network"
    return "a chat completion about an image" if kind.reads_images else "a chat completion"


def _completion(engine: Engine, name: str) -> str:
    engine.ask("/v1/completions", {"model": name, "prompt": _TEXT, "max_tokens": _TOKENS})
    return "a completion"


def _image() -> str:
    """Return a black square as a PNG (W3C, "Portable Network Graphics", 5)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes((1 + 3 * _SIDE) * _SIDE))
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(content).decode()}"
