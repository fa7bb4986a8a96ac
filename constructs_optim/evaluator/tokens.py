"""Counts tokens with the model's own tokenizer, once the requests are over."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import EvaluationError
from .prompts import Prompt
from .records import Record

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FILE = "tokenizer.json"
COMPANIONS = ("tokenizer_config.json", "chat_template.jinja")
"""What else of a model says how its chats are written."""


class ModelTokenizer:
    """A model's tokenizer and, where it has one, its chat template.

    Source of how templates are rendered: Hugging Face Transformers, "Chat templates".
    """

    def __init__(self, tokenizer: Tokenizer, source: str, *, template: str | None = None, special: Any = None) -> None:
        self._tokenizer = tokenizer
        self.source = source
        self._special: dict[str, str] = dict(special or {})
        self._render = _renderer(template) if template else None

    @classmethod
    def load(cls, source: str, *, read_s3: Callable[[str], bytes | None] | None = None) -> ModelTokenizer:
        """Load a tokenizer.

        Args:
            source: a folder of a model, a ``tokenizer.json``, an ``s3://`` prefix of a model, or a model's id on the
                Hugging Face hub.
            read_s3: reads an S3 object, None where there is none.

        Raises:
            EvaluationError: where there is none, or none that can be read.
        """
        from tokenizers import Tokenizer

        try:
            if source.startswith("s3://") and read_s3 is not None:
                prefix = source if source.endswith("/") else f"{source}/"
                files = {name: read_s3(prefix + name) for name in (_FILE, *COMPANIONS)}
            elif Path(source).exists():
                folder = Path(source) if Path(source).is_dir() else Path(source).parent
                files = {name: _read(folder / name) for name in COMPANIONS}
                files[_FILE] = _read(folder / _FILE if Path(source).is_dir() else Path(source))
            else:
                files = {name: _from_hub(source, name) for name in (_FILE, *COMPANIONS)}
            content = files[_FILE]
            if content is None:
                raise EvaluationError(f"there is no {_FILE} in {source}")
            tokenizer = Tokenizer.from_str(content.decode())
            config = json.loads(files[COMPANIONS[0]] or b"{}")
        except EvaluationError:
            raise
        except Exception as error:  # the library raises bare Exception for a file that it cannot read
            raise EvaluationError(
                f"no tokenizer can be loaded from {source}: {error}. Give a model's folder, its tokenizer.json, an "
                "s3:// prefix or an id of the Hugging Face hub"
            ) from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        template = (files[COMPANIONS[1]] or b"").decode() or _template(config)
        special = {name: _token(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
        return cls(tokenizer, source, template=template, special=special)

    def count_text(self, text: str) -> int:
        """Tokens of an answer."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count_prompt(self, prompt: Prompt, *, chat: bool) -> int:
        """Tokens that the model gets to read: for a chat, with all that its template adds."""
        if chat and self._render is not None:
            written = self._render(messages=prompt.as_messages(), add_generation_prompt=True, **self._special)
            return len(self._tokenizer.encode(written, add_special_tokens=False).ids)
        return len(self._tokenizer.encode(prompt.text).ids)


def count(
    records: Sequence[Record], prompts: Sequence[Prompt], tokenizer: ModelTokenizer | None, *, chat: bool
) -> None:
    """Fill in the tokens of requests and answers: the tokenizer's count, or the server's where there is no tokenizer.

    Args:
        records: of requests; they are changed.
        prompts: that they asked.
        tokenizer: the model's own. Default: there is none.
        chat: whether prompts were sent as chats.
    """
    if tokenizer is None:
        for record in records:
            record.input_tokens, record.output_tokens = record.server_input_tokens, record.server_output_tokens
            if record.output_tokens == 0 and (record.text or record.reasoning):
                # Text without a token is a wrong count: an answer that is there is not empty.
                record.output_tokens = None
        return
    asked: dict[int, int | None] = {}
    for record in records:
        if record.prompt not in asked:
            asked[record.prompt] = _counted(
                lambda place=record.prompt: tokenizer.count_prompt(prompts[place], chat=chat)
            )
        record.input_tokens = asked[record.prompt]
        said = record.reasoning + record.text
        record.output_tokens = _counted(lambda said=said: tokenizer.count_text(said))
        record.first_tokens = _counted(lambda said=said[: record.first_length]: tokenizer.count_text(said)) or 1
        record.tokenizer_failed = record.input_tokens is None or record.output_tokens is None


def _counted(counting: Callable[[], int]) -> int | None:
    try:
        return counting()
    except Exception:  # bare Exception, TypeError and template errors: whatever it is, it cannot parse this text
        return None


def _renderer(template: str) -> Callable[..., str]:
    import datetime as dt

    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> str:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: dt.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render
    except TemplateError as error:
        raise EvaluationError(f"the model's chat template cannot be read: {error}") from None


def _template(config: dict[str, Any]) -> str | None:
    found = config.get("chat_template")
    if isinstance(found, list):
        found = next((entry["template"] for entry in found if entry.get("name") == "default"), None)
    return found


def _token(value: Any) -> str:
    return value.get("content", "") if isinstance(value, dict) else value or ""


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _from_hub(model: str, name: str) -> bytes | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return Path(hf_hub_download(model, name)).read_bytes()
    except EntryNotFoundError:
        return None
