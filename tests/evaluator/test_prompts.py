from __future__ import annotations

from pathlib import Path

import pytest

from constructs_optim.evaluator.datasets import read_prompts
from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.evaluator.prompts import Message, Prompt, digest


def written(folder: Path, *lines: str) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_prompts_can_be_text_chat_messages_or_raw_inputs(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"prompt": "Hello"}',
        "",
        '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],'
        ' "max_tokens": 5}',
        '{"inputs": "[INST] Hello [/INST]", "reference": "Hi"}',
        '{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}]}]}',
    )
    prompts = read_prompts(path)
    assert [prompt.text for prompt in prompts] == ["Hello", "Be brief.\nWhy?", "[INST] Hello [/INST]", "What is this?"]
    assert prompts[0].as_messages() == [{"role": "user", "content": "Hello"}]
    assert prompts[1].max_tokens == 5
    assert prompts[2] == Prompt(inputs="[INST] Hello [/INST]", reference="Hi")
    assert prompts[2].as_messages() == [{"role": "user", "content": "[INST] Hello [/INST]"}]


def test_all_invalid_prompt_lines_are_reported_together(tmp_path: Path) -> None:
    faulty = {
        "{": "this is not JSON",
        "[]": "Input should be an object",
        "{}": "has none of prompt, messages, inputs, turns, input and query, but needs exactly one",
        '{"prompt": "a", "inputs": "b"}': "has prompt and inputs, but needs exactly one",
        '{"prompt": 1}': "prompt: Input should be a valid string",
        '{"prompt": " "}': "prompt: the text is empty",
        '{"messages": []}': "messages: Tuple should have at least 1 item",
        '{"messages": [{"role": "user"}]}': "messages.0.content: Field required",
        '{"prompt": "a", "promt": "b"}': "promt: Extra inputs are not permitted",
        '{"prompt": "a", "reference": 1}': "reference: the reference is neither a text nor a list",
        '{"prompt": "a", "max_tokens": true}': "max_tokens: Input should be a valid integer",
        '{"prompt": "a", "max_tokens": 0}': "max_tokens: Input should be greater than 0",
    }
    path = written(tmp_path, '{"prompt": "fine"}', *faulty)
    with pytest.raises(EvaluationError) as refused:
        read_prompts(path)
    told = str(refused.value).splitlines()
    assert told[0] == f"{path} has {len(faulty)} faulty lines:"
    for number, (line, reason) in enumerate(faulty.items(), start=2):
        assert told[number - 1].startswith(f"  line {number}: "), line
        assert reason in told[number - 1]


def test_only_the_first_of_many_invalid_lines_are_shown(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="and 10 more"):
        read_prompts(written(tmp_path, *["{}"] * 30))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(EvaluationError, match="contains no prompts"):
        read_prompts(written(tmp_path, content))


def test_a_missing_or_binary_prompt_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_prompts(tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_prompts(tmp_path / "bytes.jsonl")


def test_equal_prompts_have_equal_digests_and_different_ones_differ(tmp_path: Path) -> None:
    one = read_prompts(written(tmp_path, '{"prompt": "a", "max_tokens": 3}'))
    assert digest(one) == digest([Prompt(messages=(Message(role="user", content="a"),), max_tokens=3)])
    assert digest(one) != digest([Prompt(messages=(Message(role="user", content="a"),))])
