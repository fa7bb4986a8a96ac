from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.training.data.conversations import Conversation, Message, read_conversations
from constructs_optim.training.data.tokenization import IGNORED, prompt_tokens, tokenized
from constructs_optim.training.errors import InvalidData

from .models import small_tokenizer

USER = {"role": "user", "content": "Count the rows."}
ASSISTANT = {"role": "assistant", "content": "SELECT COUNT(*)"}


def written(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "training.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(InvalidData) as caught:
        read_conversations(path)
    return str(caught.value)


def test_chat_instruction_and_completion_rows_are_read(tmp_path: Path) -> None:
    found = read_conversations(
        written(
            tmp_path,
            {"messages": [USER, ASSISTANT]},
            {"instruction": "Count.", "input": "CREATE TABLE t (a)", "output": "SELECT 1"},
            {"instruction": "Count.", "output": "SELECT 2"},
            {"prompt": "1 + 1 =", "completion": " 2"},
        )
    )
    assert [len(conversation.messages) for conversation in found] == [2, 2, 2, 0]
    assert found[0].messages == (Message("user", "Count the rows."), Message("assistant", "SELECT COUNT(*)"))
    assert found[1].messages[0].content == "Count.\n\nCREATE TABLE t (a)"
    assert found[3] == Conversation(prompt="1 + 1 =", completion=" 2")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ("[1]", "not a JSON object but a list"),
        ({}, "its keys are none"),
        ({"text": "x"}, "its keys are text; use one of"),
        ({"prompt": "x"}, "it has no 'completion'"),
        ({"prompt": "x", "completion": "  "}, "'completion' is empty"),
        ({"prompt": 1, "completion": "y"}, "'prompt' is not text but a number"),
        ({"instruction": "x"}, "it has no 'output'"),
        ({"messages": []}, "'messages' is not a list of messages"),
        ({"messages": [USER]}, "the last message is from 'user'"),
        ({"messages": [ASSISTANT]}, "messages[0].role is 'assistant', but no user message precedes it"),
        ({"messages": [USER, USER, ASSISTANT]}, "messages[1].role is 'user', like the previous one"),
        (
            {"messages": [USER, {"role": "system", "content": "x"}]},
            "messages[1].role is 'system'; only the first message can be a system message",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role is 'tool'; use one of system, user"),
        ({"messages": [USER, {"role": "assistant"}]}, "messages[1].content is not text: None"),
        ({"messages": ["x"]}, "messages[0] is not a JSON object but text"),
    ],
)
def test_an_invalid_data_line_is_reported_with_its_reason(tmp_path: Path, row: Any, reason: str) -> None:
    text = refused(written(tmp_path, {"messages": [USER, ASSISTANT]}, "", row))
    assert "1 of 2 lines cannot be used" in text
    assert f"training.jsonl line 3: {reason}" in text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[" * 100_000, "it has too many nested levels"),
        ('{"messages": ' + '{"a":' * 100_000, "it has too many nested levels"),
        (r'{"prompt": "a \uD800 b", "completion": "c"}', "its text has half a surrogate pair"),
        (r'{"prompt": "a \ud83d\ude00 b", "completion": "\udc00"}', "its text has half a surrogate pair"),
        ('{"prompt": ' + "1" * 5_000 + "}", "Exceeds the limit"),
    ],
)
def test_a_line_that_no_parser_or_tokenizer_takes_is_reported(tmp_path: Path, line: str, reason: str) -> None:
    text = refused(written(tmp_path, {"messages": [USER, ASSISTANT]}, line))
    assert f"training.jsonl line 2: {reason}" in text


def test_a_line_with_whole_surrogate_pairs_is_read(tmp_path: Path) -> None:
    (found,) = read_conversations(written(tmp_path, r'{"prompt": "\ud83d\ude00", "completion": "\\ud800"}'))
    assert (found.prompt, found.completion) == ("\N{GRINNING FACE}", r"\ud800")


def test_a_line_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "training.jsonl"
    path.write_bytes(b'{"prompt": "\xff"}\n')
    assert "training.jsonl line 1: not UTF-8: byte 12 is 0xff" in refused(path)


def test_invalid_data_lines_are_reported_together_up_to_a_limit(tmp_path: Path) -> None:
    text = refused(written(tmp_path, *["{"] * 50))
    assert "50 of 50 lines cannot be used" in text
    assert "line 20:" in text
    assert "line 21:" not in text
    assert "and 30 more" in text


@pytest.mark.parametrize("content", ["", "\n\n  \n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "training.jsonl"
    path.write_text(content)
    assert "training.jsonl: no line with content" in refused(path)


def test_a_channel_without_jsonl_is_refused_and_its_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x")
    assert "has no *.jsonl file, only data.csv" in refused(tmp_path)
    assert "no such file or folder" in refused(tmp_path / "nowhere")


def test_all_files_of_a_channel_are_read_in_name_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).write_text(json.dumps({"prompt": name, "completion": "x"}))
    assert [conversation.prompt for conversation in read_conversations(tmp_path)] == ["a.jsonl", "b.jsonl"]


def test_only_the_completion_and_its_end_token_are_learned() -> None:
    tokenizer = small_tokenizer()
    conversation = Conversation(messages=(Message("user", "Count."), Message("assistant", "SELECT 1")))
    (example,) = tokenized([conversation], tokenizer, maximum_length=64).examples
    learned = [token for token in example.labels if token != IGNORED]
    assert tokenizer.decode(learned) == "SELECT 1</s>"
    assert tokenizer.decode(example.input_ids) == "<|user|>Count.</s><|assistant|>SELECT 1</s>"


def test_training_and_decoding_tokenize_the_same_prompt() -> None:
    tokenizer = small_tokenizer()
    conversation = Conversation(messages=(Message("user", "Count."), Message("assistant", "SELECT 1")))
    (example,) = tokenized([conversation], tokenizer, maximum_length=64).examples
    prompt = prompt_tokens(conversation, tokenizer)
    assert example.input_ids[: len(prompt)] == prompt
    assert all(label == IGNORED for label in example.labels[: len(prompt)])
    assert example.labels[len(prompt)] != IGNORED


def test_every_assistant_turn_of_a_chat_is_learned() -> None:
    tokenizer = small_tokenizer()
    turns = [("user", "One?"), ("assistant", "1"), ("user", "Two?"), ("assistant", "2")]
    conversation = Conversation(messages=tuple(Message(*turn) for turn in turns))
    (example,) = tokenized([conversation], tokenizer, maximum_length=64).examples
    assert tokenizer.decode([token for token in example.labels if token != IGNORED]) == "1</s>2</s>"


def test_with_a_template_that_rewrites_earlier_turns_only_the_last_is_learned() -> None:
    tokenizer = small_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}{% if message.role == 'user' or loop.last %}"
        "<|{{ message.role }}|>{{ message.content }}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    turns = [("user", "One?"), ("assistant", "1"), ("user", "Two?"), ("assistant", "2")]
    conversation = Conversation(messages=tuple(Message(*turn) for turn in turns))
    (example,) = tokenized([conversation], tokenizer, maximum_length=64).examples
    assert tokenizer.decode([token for token in example.labels if token != IGNORED]) == "2</s>"


def test_without_a_chat_template_instructions_are_plain_text_and_chats_are_refused() -> None:
    tokenizer = small_tokenizer(chat_template=False)
    asked = Conversation(
        messages=(Message("user", "Count."), Message("assistant", "SELECT 1")), instruction="Count.\n\n"
    )
    (example,) = tokenized([asked], tokenizer, maximum_length=64).examples
    assert tokenizer.decode(example.input_ids) == "Count.\n\nSELECT 1</s>"
    chat = Conversation(messages=asked.messages)
    with pytest.raises(InvalidData, match="example 1: the tokenizer has no chat template for 'messages'"):
        tokenized([chat], tokenizer, maximum_length=64)


def test_examples_that_are_too_long_are_truncated_or_dropped_and_counted() -> None:
    tokenizer = small_tokenizer()
    short = Conversation(prompt="a", completion="b")
    long_answer = Conversation(prompt="a", completion="b " * 50)
    long_prompt = Conversation(prompt="a " * 50, completion="b")
    found = tokenized([short, long_answer, long_prompt], tokenizer, maximum_length=16)
    assert str(found) == (
        "2 examples; 2 cut off at maximum_sequence_length; 1 left out because their prompts alone are longer"
    )
    assert max(len(example.input_ids) for example in found.examples) == 16
    with pytest.raises(InvalidData, match="leave no answer to learn; raise it"):
        tokenized([long_prompt], tokenizer, maximum_length=16)


def test_prompts_are_learned_when_configured() -> None:
    (example,) = tokenized(
        [Conversation(prompt="abc", completion="def")], small_tokenizer(), maximum_length=64, with_prompts=True
    ).examples
    assert example.labels == example.input_ids
