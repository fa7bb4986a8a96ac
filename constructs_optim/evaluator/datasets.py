"""Files of prompts: this library's own, and the common formats of chats, benchmarks and recorded traffic.

=====================  ===============================================================================================
own                    ``prompt``, ``messages``, ``inputs`` or ``turns`` (``Prompt``); OpenAI's chats among them
ShareGPT               ``conversations`` of ``from`` and ``value``, a JSON array or a line each
AIPerf, single turn    ``text``
embeddings, classes    ``text``, a list
AIPerf, multi turn     ``turns`` of ``text`` and ``delay`` in milliseconds
Mooncake               ``timestamp`` in milliseconds, ``input_length``, ``output_length``, ``hash_ids``
SageMaker              records of data capture, with their times
Azure, BurstGPT        CSV with times and numbers of tokens, or ``seconds,input_tokens,output_tokens``
=====================  ===============================================================================================

Sources: AIPerf, ``dataset/loader/models.py``; Mooncake, "FAST25 traces": blocks of 512 tokens; Azure public dataset,
"LLM inference trace"; BurstGPT, ``data``.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, NonNegativeInt, PositiveInt, ValidationError

from constructs_optim.recipe.errors import listed_mistakes, shortened
from constructs_optim.recipe.objectives import MOST_TOKENS
from constructs_optim.runtime.documents import json_value, list_in, object_in
from constructs_optim.runtime.shadow.captures import read_captures

from .options import EvaluationError
from .prompts import Prompt, Turn
from .synthetic_prompts import text_of_blocks

_MOST_FAULTS = 20
# ShareGPT is an array of 640 MB.
_MOST_BYTES = 2_000_000_000
_BLOCK_TOKENS = 512
# The most tokens of all prompts whose lengths alone are known: each becomes a word in memory. The longest of Mooncake's
# traces has about 300 million.
_MOST_WORDS = 1_000_000_000
_Tokens = Annotated[int, Field(gt=0, le=MOST_TOKENS)]
_Milliseconds = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens")
_CAPTURED = ("messages", "prompt", "inputs", "input", "query")


class _Line(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    def prompt(self) -> Prompt | None:
        """Return the prompt in this library's form; None if no user speaks."""
        raise NotImplementedError


class _Said(BaseModel):
    speaker: str = Field(alias="from")
    value: str


class _ShareGpt(_Line):
    conversations: tuple[_Said, ...]

    def prompt(self) -> Prompt | None:
        asked = [said.value for said in self.conversations if said.speaker in ("human", "user")]
        if not asked:
            # Such files contain empty conversations and the ends of longer ones.
            return None
        if len(asked) == 1:
            return Prompt(prompt=asked[0])
        return Prompt(turns=tuple(Turn(prompt=text) for text in asked))


class _Texts(_Line):
    text: tuple[str, ...]
    reference: list[JsonValue] | None = None

    def prompt(self) -> Prompt:
        return Prompt(input=self.text, reference=self.reference)


class _AiperfTurn(_Line):
    text: str
    timestamp: _Milliseconds | None = None
    delay: _Milliseconds = 0.0

    def prompt(self) -> Prompt:
        return Prompt(prompt=self.text, at_seconds=None if self.timestamp is None else self.timestamp / 1000)


class _AiperfConversation(_Line):
    turns: tuple[_AiperfTurn, ...] = Field(min_length=1)

    def prompt(self) -> Prompt:
        turns = tuple(Turn(prompt=turn.text, delay_seconds=turn.delay / 1000) for turn in self.turns)
        return Prompt(turns=turns, at_seconds=self.turns[0].prompt().at_seconds)


class _Sized(_Line):
    """A request of which a trace has the length alone."""

    @property
    def tokens(self) -> int:
        """The length of the prompt to write."""
        raise NotImplementedError


class _Mooncake(_Sized):
    input_length: _Tokens
    timestamp: _Milliseconds | None = None
    output_length: PositiveInt | None = None
    hash_ids: tuple[NonNegativeInt, ...] = ()

    @property
    def tokens(self) -> int:
        """The length of the prompt to write."""
        return self.input_length

    def prompt(self) -> Prompt:
        return Prompt(
            prompt=text_of_blocks(self.hash_ids, self.input_length, _BLOCK_TOKENS)
            if self.hash_ids
            else _unlike_others(self.timestamp, self.input_length),
            max_tokens=self.output_length,
            at_seconds=None if self.timestamp is None else self.timestamp / 1000,
        )


class _TracedRequest(_Sized):
    """A row of a trace: the time of a request, and its numbers of tokens."""

    at: Annotated[FiniteFloat | dt.datetime, Field(union_mode="left_to_right")]
    input_tokens: _Tokens
    # None for a request that failed.
    output_tokens: NonNegativeInt | None = None

    @property
    def tokens(self) -> int:
        """The length of the prompt to write."""
        return self.input_tokens

    def prompt(self) -> Prompt:
        at = self.at
        if isinstance(at, dt.datetime):
            at = (at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)).timestamp()
        text = _unlike_others(at, self.input_tokens)
        return Prompt(prompt=text, max_tokens=self.output_tokens or None, at_seconds=at)


TRACES: Sequence[Mapping[str, str]] = (
    {"seconds": "at", "input_tokens": "input_tokens", "output_tokens": "output_tokens"},
    {"TIMESTAMP": "at", "ContextTokens": "input_tokens", "GeneratedTokens": "output_tokens"},
    {"Timestamp": "at", "Request tokens": "input_tokens", "Response tokens": "output_tokens"},
)
"""The columns of plain traces, Azure's and BurstGPT's: time, input tokens and output tokens."""


@dataclass(frozen=True)
class _Row:
    columns: Sequence[str]
    values: Sequence[str]

    def request(self) -> _TracedRequest:
        columns = next((columns for columns in TRACES if columns.keys() <= {*self.columns}), None)
        if columns is None:
            known = " or ".join(", ".join(columns) for columns in TRACES)
            raise ValueError(f"the columns are {shortened(', '.join(self.columns))}, but a trace has {known}")
        if len(self.values) != len(self.columns):
            values = "value" if len(self.values) == 1 else "values"
            raise ValueError(f"the row has {len(self.values):,} {values}, but there are {len(self.columns):,} columns")
        row = dict(zip(self.columns, self.values, strict=True))
        return _TracedRequest.model_validate({ours: row[theirs] for theirs, ours in columns.items()})


def read_prompts(path: Path) -> list[Prompt]:
    """Read the prompts of a file in any format. Skips empty lines, and conversations in which no user speaks.

    Times of recorded traffic are in seconds from the first request. Raises EvaluationError that lists all faulty lines.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"the prompts cannot be read from {path}: {error}") from None
    prompts: list[Prompt] = []
    faults: list[str] = []
    silent = 0
    left = _MOST_WORDS
    for number, entry in _entries(path, content):
        try:
            asked = _asked_in(entry)
            if isinstance(asked, _Sized):
                left -= asked.tokens
                if left < 0:
                    raise EvaluationError(
                        f"{path} has prompts of more than {_MOST_WORDS:,} tokens in all up to line {number}, whose "
                        "texts would fill the memory: evaluate with a part of the trace, such as its first lines"
                    )
            prompt = asked.prompt() if isinstance(asked, _Line) else asked
            if prompt is None:
                silent += 1
                continue
            prompts.append(prompt)
        except ValidationError as error:
            faults.append(f"  line {number}: {listed_mistakes(error)}")
        except ValueError as error:
            faults.append(f"  line {number}: {error}")
    if faults:
        more = [f"  and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        listed = "\n".join([*faults[:_MOST_FAULTS], *more])
        raise EvaluationError(f"{path} has {len(faults)} faulty line{'s' if len(faults) > 1 else ''}:\n{listed}")
    if silent and not prompts:
        raise EvaluationError(f"{path} contains no prompts: no user speaks in any of its conversations (from: human)")
    if not prompts:
        raise EvaluationError(
            f'{path} contains no prompts: write one JSON object per line, such as {{"prompt": "Hello"}}'
        )
    times = [prompt.at_seconds for prompt in prompts if prompt.at_seconds is not None]
    if len(times) < len(prompts):
        return prompts
    first = min(times)
    timed = [prompt.model_copy(update={"at_seconds": (prompt.at_seconds or 0.0) - first}) for prompt in prompts]
    return sorted(timed, key=lambda prompt: prompt.at_seconds or 0.0)


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write prompts in this library's own format."""
    path.write_text(
        "".join(f"{prompt.model_dump_json(exclude_defaults=True)}\n" for prompt in prompts), encoding="utf-8"
    )


def _entries(path: Path, content: str) -> Iterator[tuple[int, str | _Row]]:
    """Yield each line with its number; for an array, each element as a line; for CSV, each row."""
    if path.suffix.lower() == ".csv":
        yield from _rows(path, content)
        return
    if content.lstrip().startswith("["):
        try:
            elements = list_in(json_value(content, most=_MOST_BYTES))
        except ValueError:
            pass
        else:
            yield from ((number, json.dumps(element)) for number, element in enumerate(elements, start=1))
            return
    # Not splitlines, which also splits at characters that are valid in JSON strings.
    yield from ((number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip())


def _rows(path: Path, content: str) -> Iterator[tuple[int, _Row]]:
    # With newline="", a value in quotes keeps its line breaks.
    reader = csv.reader(io.StringIO(content, newline=""))
    columns: list[str] | None = None
    try:
        for row in reader:
            if row and columns is None:
                columns = row
            elif row and columns is not None:
                yield reader.line_num, _Row(columns, row)
    except csv.Error as error:
        raise EvaluationError(
            f"{path} is not a trace in CSV: line {reader.line_num}: {error}. The name of a file of JSON ends in .jsonl"
        ) from None


def _asked_in(entry: str | _Row) -> _Line | Prompt:
    """Return what a line or row asks. Raises ValueError if it does not ask anything."""
    if isinstance(entry, _Row):
        return entry.request()
    try:
        document = json_value(entry)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(document, dict):
        return Prompt.model_validate_json(entry)
    if "captureData" in document:
        return _captured(entry)
    for kind, known in _KINDS.items():
        if known(document):
            return kind.model_validate(document)
    return _asked(Prompt.model_validate(document))


def _captured(line: str) -> Prompt:
    """Return the request of a data capture record: a chat, or text."""
    captures = read_captures(line.encode(), answered=False).captures
    if not captures:
        raise ValueError("the record's request is not a JSON object (captureData.endpointInput.data)")
    capture = captures[0]
    request = capture.request
    limits = (request, object_in(request.get("parameters")))
    limit = next((each[name] for each in limits for name in _LIMITS if isinstance(each.get(name), int)), None)
    named = next((name for name in _CAPTURED if request.get(name)), None)
    if named is None:
        raise ValueError(f"the captured request has none of {', '.join(_CAPTURED[:-1])} and {_CAPTURED[-1]}")
    at = dt.datetime.fromisoformat(capture.inference_time).timestamp() if capture.inference_time else None
    # A completion's prompt is text without a template.
    known = {"inputs" if named == "prompt" else named: request[named], "max_tokens": limit, "at_seconds": at}
    documents = {"documents": request.get("documents")} if named == "query" else {}
    return _asked(Prompt.model_validate(known | documents))


def _asked(prompt: Prompt) -> Prompt:
    """Return a prompt without the final response that training data contains."""
    messages = prompt.messages or ()
    if prompt.turns is not None or len(messages) < 2 or messages[-1].role != "assistant":
        return prompt
    return prompt.model_copy(update={"messages": messages[:-1]})


def _unlike_others(at: float | None, tokens: int) -> str:
    """Return random words for a recorded prompt with a known length but unknown text."""
    return text_of_blocks([f"{at} {tokens}"], tokens, tokens)


def _is_aiperf_conversation(document: Mapping[str, Any]) -> bool:
    turns = document.get("turns")
    return isinstance(turns, list) and any(isinstance(turn, dict) and "text" in turn for turn in turns)


_KINDS: Mapping[type[_Line], Callable[[Mapping[str, Any]], bool]] = {
    _ShareGpt: lambda document: "conversations" in document,
    _AiperfConversation: _is_aiperf_conversation,
    _Texts: lambda document: isinstance(document.get("text"), list),
    _AiperfTurn: lambda document: "text" in document,
    _Mooncake: lambda document: "input_length" in document,
}
