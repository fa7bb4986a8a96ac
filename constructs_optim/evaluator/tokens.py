"""Counts tokens, after the requests: the server's counts, checked with the model's own tokenizer.

The server's count is exact. A tokenizer sees only the text, which lacks special tokens and the marks of reasoning and
tool calls. It counts where the server sends no count, or one that contradicts the response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from constructs_optim.recipe.evaluation.result import TokenCounts, TokenKind
from constructs_optim.runtime.documents import json_value, object_in
from constructs_optim.runtime.evaluation.token_counts import CONTRADICTION, NOTABLE_DIFFERENCE

from .options import EvaluationError
from .prompts import Prompt
from .streaming import Record

_FILE, _CONFIG, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
_SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


class ModelTokenizer:
    """A model's tokenizer and its chat template, if it has one.

    Source of the rendering: Hugging Face Transformers, "Chat templates".
    """

    def __init__(self, source: str, *, read_s3: Callable[[str], bytes | None] | None = None) -> None:
        """Load it from a model's folder, its ``tokenizer.json``, an ``s3://`` prefix or the Hugging Face hub.

        ``read_s3`` returns an S3 object, or None if it does not exist.
        """
        from tokenizers import Tokenizer

        path = Path(source)

        def read(name: str) -> bytes | None:
            if source.startswith("s3://") and read_s3 is not None:
                return read_s3(f"{source.rstrip('/')}/{name}")
            if not path.exists():
                return _from_hub(source, name)
            file = path / name if path.is_dir() else path if name == _FILE else path.with_name(name)
            return file.read_bytes() if file.is_file() else None

        try:
            content, config, template = read(_FILE), object_in(json_value(read(_CONFIG) or b"{}")), read(_TEMPLATE)
            if content is None:
                raise EvaluationError(f"there is no {_FILE} in {source}")
            self._tokenizer = Tokenizer.from_str(content.decode())
        except EvaluationError:
            raise
        except Exception as error:  # the library raises bare Exception for a file that it cannot read
            raise EvaluationError(
                f"no tokenizer can be loaded from {source}: {error}. Name a model's folder, its tokenizer.json, an "
                "s3:// prefix or an id of the Hugging Face hub"
            ) from None
        self.source = source
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special = {name: _token(config.get(name)) for name in _SPECIAL_TOKENS}
        source_text = (template or b"").decode() or _template(config)
        self._render = _renderer(source_text) if source_text else None

    def count_text(self, text: str) -> int:
        """Return the number of tokens of a completion."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def count_prompt(self, prompt: Prompt, *, chat: bool) -> int:
        """Return the number of tokens of a prompt; for a chat, including its template's."""
        if chat and self._render is not None:
            rendered = self._render(messages=prompt.as_messages(), add_generation_prompt=True, **self._special)
            return len(self._tokenizer.encode(rendered, add_special_tokens=False).ids)
        if prompt.query is not None:
            # A model scores pairs of the query and a document.
            return sum(len(self._tokenizer.encode(prompt.query, each).ids) for each in prompt.documents or ())
        return sum(len(self._tokenizer.encode(text).ids) for text in prompt.texts)


def count_tokens(
    records: Sequence[Record], prompts: Sequence[Prompt], tokenizer: ModelTokenizer | None, *, chat: bool
) -> None:
    """Set the records' tokens of prompts and completions: the server's count, or else the tokenizer's."""
    if tokenizer is not None:
        _count_texts(records, prompts, tokenizer, chat=chat)
    of_prompts = _difference([(record.server_input_tokens, record.tokenizer_input_tokens) for record in records])
    # A tokenizer that counts prompts as the server does is the served model's.
    is_models = of_prompts is not None and abs(of_prompts) <= NOTABLE_DIFFERENCE
    for record in records:
        server = None if _contradicts(record, is_models=is_models) else record.server_output_tokens
        record.input_tokens = record.server_input_tokens or record.tokenizer_input_tokens
        if record.inputs is not None:
            continue
        record.output_tokens = record.tokenizer_output_tokens if server is None else server
        # Reasoning that the server does not send comes before the first piece.
        record.unseen_tokens = 0 if server is None or record.reasoning else record.reasoning_tokens or 0


def how_counted(records: Sequence[Record]) -> dict[TokenKind, TokenCounts]:
    """Return how tokens of completed requests were counted, without kinds of tokens that nobody counted."""
    completed = [record for record in records if record.is_measured]
    counts = {
        "input": [(each.input_tokens, each.server_input_tokens, each.tokenizer_input_tokens) for each in completed],
        "output": [(each.output_tokens, each.server_output_tokens, each.tokenizer_output_tokens) for each in completed],
    }
    found: dict[TokenKind, TokenCounts] = {}
    for kind in ("input", "output"):
        known = [each for each in counts[kind] if each[0] is not None]
        by_server = [(server, tokenizer) for used, server, tokenizer in known if used == server]
        if known:
            by_tokenizer, difference = len(known) - len(by_server), _difference(by_server)
            found[kind] = TokenCounts(by_server=len(by_server), by_tokenizer=by_tokenizer, difference=difference)
    return found


def _difference(counts: Iterable[tuple[int | None, int | None]]) -> float | None:
    """Return how much more the server counted than the tokenizer, over all requests that both counted."""
    both = [(server, tokenizer) for server, tokenizer in counts if server and tokenizer]
    return sum(server for server, _ in both) / sum(tokenizer for _, tokenizer in both) - 1 if both else None


def _contradicts(record: Record, *, is_models: bool) -> bool:
    """Return whether the response has far more tokens than the server counted.

    A server may count no tokens, only those of its last chunk, or chunks, which have several tokens each with
    speculative decoding. At least as many tokens as pieces arrived.
    """
    if record.server_output_tokens is None or not (record.text or record.reasoning):
        return False
    tokens = record.tokenizer_output_tokens if is_models else None
    return (len(record.gaps) + 1 if tokens is None else tokens) > CONTRADICTION * record.server_output_tokens


def _count_texts(
    records: Sequence[Record], prompts: Sequence[Prompt], tokenizer: ModelTokenizer, *, chat: bool
) -> None:
    """Set the tokenizer's counts."""
    prompt_tokens: dict[int, int | None] = {}
    said: dict[tuple[int, int], list[str]] = {}
    for record in sorted(records, key=lambda record: record.turn):
        prompt, responses = prompts[record.prompt], said.setdefault((record.segment, record.conversation), [])
        if prompt.turns is not None:
            asked = prompt.request(responses) if len(responses) == record.turn else None
            record.tokenizer_input_tokens = _count_or_none(tokenizer.count_prompt, asked, chat=chat) if asked else None
            responses.append(record.text)
        else:
            if record.prompt not in prompt_tokens:
                prompt_tokens[record.prompt] = _count_or_none(tokenizer.count_prompt, prompt, chat=chat)
            record.tokenizer_input_tokens = prompt_tokens[record.prompt]
        if record.inputs is not None:
            continue
        generated = record.reasoning + record.text
        record.tokenizer_output_tokens = _count_or_none(tokenizer.count_text, generated)
        record.first_tokens = _count_or_none(tokenizer.count_text, generated[: record.first_length]) or 1
        record.tokenizer_failed = None in (record.tokenizer_input_tokens, record.tokenizer_output_tokens)


def _count_or_none(count: Callable[..., int], text: Any, **options: bool) -> int | None:
    try:
        return count(text, **options)
    except Exception:  # the tokenizer raises bare Exception, TypeError and template errors
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
    template = config.get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    return template


def _token(value: Any) -> str:
    return value.get("content", "") if isinstance(value, dict) else value or ""


def _from_hub(model: str, name: str) -> bytes | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return Path(hf_hub_download(model, name)).read_bytes()
    except EntryNotFoundError:
        return None
