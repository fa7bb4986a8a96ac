"""Converts conversations to tokens.

Prompts are tokenized separately from their answers, as in generation, so that the model is trained on the same tokens
that it later receives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..errors import InvalidData
from .conversations import Conversation

# The label that cross-entropy ignores (torch.nn.CrossEntropyLoss, ignore_index).
IGNORED = -100


@dataclass(frozen=True)
class Example:
    """One conversation as tokens. ``labels`` are the tokens to learn at their positions, and -100 elsewhere."""

    input_ids: list[int]
    labels: list[int]


@dataclass(frozen=True)
class Tokenized:
    """All examples, with the numbers of truncated ones and of those omitted because they have no token to learn."""

    examples: list[Example]
    cut: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        text = f"{len(self.examples)} examples"
        if self.cut:
            text += f"; {self.cut} cut off at maximum_sequence_length"
        if self.left_out:
            text += f"; {self.left_out} left out because their prompts alone are longer"
        return text


@dataclass(frozen=True)
class _Piece:
    text: str
    is_answer: bool


def tokenized(
    conversations: Sequence[Conversation], tokenizer: Any, *, maximum_length: int, with_prompts: bool = False
) -> Tokenized:
    """Convert conversations to examples.

    Args:
        conversations: the conversations, at least one.
        tokenizer: the model's tokenizer.
        maximum_length: maximum tokens of an example; the rest is cut off.
        with_prompts: whether to learn the prompts' tokens as well. Default: only the answers'.

    Raises:
        InvalidData: if there is a chat but no chat template, the template does not continue its own prompt, or no
            example has a token to learn.
    """
    examples: list[Example] = []
    problems: list[str] = []
    cut = left_out = 0
    for number, conversation in enumerate(conversations, start=1):
        try:
            example = _example(conversation, tokenizer, with_prompts=with_prompts)
        except ValueError as error:
            problems.append(f"example {number}: {error}")
            continue
        if len(example.input_ids) > maximum_length:
            cut += 1
            example = Example(example.input_ids[:maximum_length], example.labels[:maximum_length])
        # No token precedes the first one, so it cannot be predicted.
        if all(label == IGNORED for label in example.labels[1:]):
            left_out += 1
            continue
        examples.append(example)
    if problems:
        raise InvalidData(f"{len(problems)} of {len(conversations)} examples cannot be tokenized", problems)
    if not examples:
        reason = f"all {left_out} prompts fill maximum_sequence_length = {maximum_length} and leave no answer to learn"
        raise InvalidData("there is nothing to learn", [f"{reason}; raise it"])
    return Tokenized(examples, cut, left_out)


def prompt_tokens(conversation: Conversation, tokenizer: Any) -> list[int]:
    """Return the tokens before the last answer, as a server would receive them.

    Raises:
        InvalidData: if there is a chat but no chat template.
    """
    try:
        pieces = list(_pieces(conversation, tokenizer))
    except ValueError as error:
        raise InvalidData("a prompt cannot be tokenized", [str(error)]) from None
    return [token for token, _ in _tokens(pieces[:-1], conversation, tokenizer)]


def _example(conversation: Conversation, tokenizer: Any, *, with_prompts: bool) -> Example:
    tokens = list(_tokens(list(_pieces(conversation, tokenizer)), conversation, tokenizer))
    if _is_plain(conversation, tokenizer) and tokenizer.eos_token_id is not None:
        tokens.append((tokenizer.eos_token_id, True))
    labels = [token if learned or with_prompts else IGNORED for token, learned in tokens]
    return Example([token for token, _ in tokens], labels)


def _tokens(pieces: Sequence[_Piece], conversation: Conversation, tokenizer: Any) -> Iterator[tuple[int, bool]]:
    # A template includes special tokens; for plain text, the tokenizer adds them.
    if _is_plain(conversation, tokenizer) and tokenizer.bos_token_id is not None:
        first = tokenizer("", add_special_tokens=True)["input_ids"][:1]
        if first == [tokenizer.bos_token_id]:
            yield tokenizer.bos_token_id, False
    for piece in pieces:
        for token in tokenizer(piece.text, add_special_tokens=False)["input_ids"]:
            yield token, piece.is_answer


def _is_plain(conversation: Conversation, tokenizer: Any) -> bool:
    return not conversation.messages or (conversation.instruction is not None and not tokenizer.chat_template)


def _pieces(conversation: Conversation, tokenizer: Any) -> Iterator[_Piece]:
    """Yield the text in pieces, prompts and answers in turn. The last is an answer."""
    if not conversation.messages:
        yield _Piece(conversation.prompt, is_answer=False)
        yield _Piece(conversation.completion, is_answer=True)
        return
    if not tokenizer.chat_template:
        if conversation.instruction is None:
            raise ValueError(
                "the tokenizer has no chat template for 'messages'; "
                'use {"instruction": ..., "output": ...} or {"prompt": ..., "completion": ...}'
            )
        yield _Piece(conversation.instruction, is_answer=False)
        yield _Piece(conversation.messages[-1].content, is_answer=True)
        return
    yield from _templated(conversation, tokenizer)


def _templated(conversation: Conversation, tokenizer: Any) -> Iterator[_Piece]:
    messages = [{"role": message.role, "content": message.content} for message in conversation.messages]
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    spans: list[tuple[str, str]] = []
    for index in answers:
        before = tokenizer.apply_chat_template(messages[:index], tokenize=False, add_generation_prompt=True)
        after = tokenizer.apply_chat_template(messages[: index + 1], tokenize=False)
        spans.append((before, after))
    before, after = spans[-1]
    if not after.startswith(before):
        raise ValueError("the tokenizer's chat template does not continue its own prompt with the answer")
    continues = all(
        answered.startswith(asked) and following.startswith(answered)
        for (asked, answered), (following, _) in pairwise(spans)
    )
    # With templates that rewrite earlier turns, such as dropping reasoning, only the last answer can be learned.
    written = ""
    for asked, answered in spans if continues else spans[-1:]:
        yield _Piece(asked[len(written) :], is_answer=False)
        yield _Piece(answered[len(asked) :], is_answer=True)
        written = answered
