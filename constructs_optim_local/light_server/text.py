"""A model's tokenizer and chat template, which convert messages to tokens and back.

Source: transformers, ``tokenization_utils_base.py`` and ``utils/chat_template_utils.py`` (the template's location and
the variables to render it).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from .weights import UnreadableModel

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
_PLAIN = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


class RefusedPrompt(ValueError):
    """A conversation that the model's template refuses."""


class Text:
    """A model's tokenizer and chat template.

    Args:
        folder: the folder of ``tokenizer.json``.

    Raises:
        UnreadableModel: if there is no such file.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "tokenizer.json").is_file():
            raise UnreadableModel(f"{folder} has no tokenizer.json")
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._settings = _json(folder / "tokenizer_config.json")
        template = folder / "chat_template.jinja"
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        source = template.read_text(encoding="utf-8") if template.is_file() else self._settings.get("chat_template")
        self._template = environment.from_string(source or _PLAIN)
        ends = [_json(folder / name).get("eos_token_id") for name in ("generation_config.json", "config.json")]
        self.ends = {token for end in ends if end is not None for token in (end if isinstance(end, list) else [end])}

    def of_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the tokens of a conversation, up to the beginning of the model's turn.

        Raises:
            RefusedPrompt: if the template refuses the conversation.
        """
        tokens = {name: _content(self._settings.get(name)) for name in ("bos_token", "eos_token")}
        plain = [{**message, "content": _content(message.get("content"))} for message in messages]
        try:
            text = self._template.render(messages=plain, add_generation_prompt=True, **tokens)
        except TemplateError as error:
            raise RefusedPrompt(str(error)) from None
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def of_prompt(self, prompt: str) -> list[int]:
        """Return the tokens of a text."""
        return self._tokenizer.encode(prompt).ids

    def pieces(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text that each token adds; empty while a character is incomplete."""
        so_far, written = list[int](), ""
        for token in tokens:
            so_far.append(token)
            text = self._tokenizer.decode(so_far)
            piece = "" if text.endswith(_INCOMPLETE) else text[len(written) :]
            written += piece
            yield piece


def _content(value: Any) -> str:
    """Return the text of a message's content or of a special token. Both may be objects."""
    if isinstance(value, list):
        return "".join(_content(part) for part in value)
    if isinstance(value, dict):
        return str(value.get("text", value.get("content", "")))
    return "" if value is None else str(value)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
