"""One question of a model's kind: a chat, a completion, an image, an embedding, or a score."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

from .configuration import Kind
from .server import Engine, EngineEndedError, EngineRefusesError

_TEXT, _TOKENS, _SIDE = "Which tables have a column that is named city?", 4, 64
# gpt-oss: openai_harmony downloads the vocabulary of its format, unless TIKTOKEN_ENCODINGS_BASE names a folder with it
# (README.md of openai/harmony). A dry start downloads nothing.
_VOCABULARY = "vocab file"
_CHAT = "/v1/chat/completions"


def answered(engine: Engine, kind: Kind, *, chats: bool) -> str:
    """Ask a started engine a question, and return in words what it answered.

    Raises:
        EngineEndedError: if it does not answer.
        OutOfTimeError: if it does not answer in time.
    """
    name = engine.served_name()
    if kind.runner == "pooling":
        return _pooled(engine, name, classifies=kind.convert == "classify")
    if kind.transcribes:
        return "nothing: it transcribes sound, which a dry start does not send"
    if not chats:
        return _completion(engine, name)
    if kind.reads_images:
        parts = [{"type": "text", "text": _TEXT}, {"type": "image_url", "image_url": {"url": _image()}}]
        try:
            engine.ask(_CHAT, _chat(name, parts))
        except EngineRefusesError as error:
            # It may read sound instead, or be told to read text only.
            engine.ask(_CHAT, _chat(name, _TEXT))
            return f"a chat completion, and none about an image: {error}"
        return "a chat completion about an image"
    try:
        engine.ask(_CHAT, _chat(name, _TEXT))
    except EngineEndedError as error:
        if _VOCABULARY not in str(error):
            raise
        return f"{_completion(engine, name)}, and no chat, whose format needs a vocabulary from the network"
    return "a chat completion"


def _chat(name: str, content: object) -> dict[str, object]:
    return {"model": name, "messages": [{"role": "user", "content": content}], "max_tokens": _TOKENS}


def _pooled(engine: Engine, name: str, *, classifies: bool) -> str:
    """Ask for what a model without generation computes: only its API says whether that is an embedding or a score."""
    embedding = ("/v1/embeddings", {"input": _TEXT}, "an embedding")
    others = [
        ("/score", {"text_1": _TEXT, "text_2": _TEXT}, "a score"),
        ("/classify", {"input": _TEXT}, "a class"),
        ("/pooling", {"input": _TEXT}, "a pooled output"),
    ]
    refused: EngineRefusesError | None = None
    for path, body, answer in [*others, embedding] if classifies else [embedding, *others]:
        try:
            engine.ask(path, {"model": name, **body})
        except EngineRefusesError as error:
            refused = refused or error
        else:
            return answer
    raise refused or EngineEndedError


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
