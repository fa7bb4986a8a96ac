"""The prompts of an evaluation: a file with a JSON object a line."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from constructs_optim.recipe.evaluation.workload import Workload

from .errors import EvaluationError

MADE_UP = (
    "The prompts were made up of random words (no --prompts): their length is usual, their content is not, and neither "
    "are acceptance rates of a draft."
)
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city name team minute idea body back parent face level office door health"
)
_MOST_FAULTS = 20
_KEYS = ("prompt", "messages", "inputs")
_KNOWN = frozenset((*_KEYS, "reference", "max_tokens"))


@dataclass(frozen=True)
class Prompt:
    """What one request asks.

    Attributes:
        messages: of a chat: ``role`` and ``content`` each.
        inputs: text for models that take no chat, or take it as text. One of the two is there.
        reference: the answer that is hoped for. Default: none.
        max_tokens: of the answer. Default: the evaluation's.
    """

    messages: tuple[dict[str, Any], ...] = ()
    inputs: str | None = None
    reference: str | None = None
    max_tokens: int | None = None

    @property
    def text(self) -> str:
        """All its text, without a chat template."""
        if self.inputs is not None:
            return self.inputs
        return "\n".join(_text_of(message.get("content")) for message in self.messages)

    def as_messages(self) -> list[dict[str, Any]]:
        """The prompt as a chat; plain text is what the user says."""
        if self.inputs is not None:
            return [{"role": "user", "content": self.inputs}]
        return [dict(message) for message in self.messages]


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a JSON Lines file; empty lines are passed over.

    Each line has ``prompt`` (what a user says) or ``messages`` (a chat, as OpenAI's API takes it) or ``inputs`` (text
    as the model gets it), and may have ``reference`` and ``max_tokens``.

    Raises:
        EvaluationError: with every line that is none of these, and why.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"the prompts cannot be read from {path}: {error}") from None
    prompts: list[Prompt] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found = _parsed(line)
        if isinstance(found, Prompt):
            prompts.append(found)
        else:
            faults.append(f"  line {number}: {found}")
    if faults:
        more = [f"  and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        told = "\n".join([*faults[:_MOST_FAULTS], *more])
        raise EvaluationError(f"{path} has {len(faults)} faulty line{'s' if len(faults) > 1 else ''}:\n{told}")
    if not prompts:
        raise EvaluationError(
            f'{path} holds no prompts: write one JSON object a line, for instance {{"prompt": "Hello"}}'
        )
    return prompts


def made_up_prompts(count: int, tokens_in: Callable[[str], int] | None = None) -> str:
    """JSON Lines of prompts with a mean length of 622 tokens, always the same for the same count.

    The length is that of evaluations in the cloud (:class:`Workload`), drawn with their seed and a standard deviation
    of a tenth. The words are common ones in random order: no two prompts begin alike, which a server could make use of.

    Args:
        count: of prompts.
        tokens_in: counts the tokens of a text. Default: a word counts as one token.
    """
    shape = Workload()
    drawn, known = random.Random(shape.seed), _WORDS.split()  # noqa: S311 - no secret
    lines: list[str] = []
    for _ in range(count):
        length = max(1, round(drawn.gauss(shape.input_tokens, shape.input_tokens / 10)))
        words = drawn.choices(known, k=length)
        if tokens_in is not None:
            # Tokens grow with words, and hardly differ between one word and the next.
            found = max(1, tokens_in(" ".join(words)))
            words = (words * (length // found + 1))[: max(1, round(length * length / found))]
        lines.append(json.dumps({"prompt": " ".join(words)}))
    return "\n".join(lines) + "\n"


def digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of the prompts in their order: two evaluations with the same asked the same."""
    canonical = json.dumps([asdict(prompt) for prompt in prompts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _parsed(line: str) -> Prompt | str:
    """The prompt, or what is wrong with the line."""
    try:
        data = json.loads(line)
    except ValueError as error:
        return f"is no JSON ({error})"
    if not isinstance(data, dict):
        return f"is no JSON object but {_kind(data)}"
    given = [key for key in _KEYS if key in data]
    if len(given) != 1:
        return f"has {' and '.join(given) or 'none of prompt, messages and inputs'}; one of them is needed"
    unknown = sorted(set(data) - _KNOWN)
    if unknown:
        return f"has {', '.join(unknown)}, which means nothing here; known are {', '.join(sorted(_KNOWN))}"
    key, value = given[0], data[given[0]]
    wrong = _wrong_messages(value) if key == "messages" else _wrong_text(key, value)
    wrong = wrong or _wrong_options(data)
    if wrong:
        return wrong
    return Prompt(
        messages=tuple(value)
        if key == "messages"
        else ({"role": "user", "content": value},)
        if key == "prompt"
        else (),
        inputs=value if key == "inputs" else None,
        reference=data.get("reference"),
        max_tokens=data.get("max_tokens"),
    )


def _wrong_text(key: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{key} is {_kind(value)}, and text is needed"
    return None if value.strip() else f"{key} is empty"


def _wrong_messages(value: Any) -> str | None:
    if not isinstance(value, list) or not value:
        return "messages is no list of messages"
    for place, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str) or "content" not in message:
            return f"messages[{place}] has no role and content"
    return None


def _wrong_options(data: dict[str, Any]) -> str | None:
    if not isinstance(data.get("reference"), str | None):
        return f"reference is {_kind(data['reference'])}, and text is needed"
    limit = data.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        return f"max_tokens is {limit!r}, and a whole number from 1 is needed"
    return None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return ""


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
