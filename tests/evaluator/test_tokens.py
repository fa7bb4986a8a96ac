from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.tokens import ModelTokenizer, count_tokens

from ..support.model_server import asked
from ..support.tokenizers import model


def record(prompt: int, text: str, reasoning: str = "") -> Record:
    return Record(
        prompt=prompt,
        segment=0,
        start=0,
        end=1,
        first_token=0.5,
        last_token=1,
        server_input_tokens=70,
        server_output_tokens=80,
        text=text,
        reasoning=reasoning,
    )


@pytest.mark.parametrize("file", [False, True])
def test_a_chat_prompt_is_counted_with_its_template_tokens(tmp_path: Path, file: bool) -> None:
    tokenizer = ModelTokenizer(str(model(tmp_path, file=file)))
    # <s> <user> one two </s> <assistant>
    assert tokenizer.count_prompt(asked("one two")[0], chat=True) == 6
    # What goes to the model as text: <s> one two
    assert tokenizer.count_prompt(Prompt(inputs="one two"), chat=False) == 3


def test_without_a_chat_template_the_prompt_text_is_counted(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer(str(model(tmp_path, template=None) / "tokenizer.json"))
    assert tokenizer.count_prompt(asked("one two")[0], chat=True) == 3


def test_the_tokenizer_s_counts_replace_the_server_s_without_truncation(tmp_path: Path) -> None:
    records = [record(0, "one two three two one two"), record(0, "two three", reasoning="one ")]
    count_tokens(records, asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert [(each.input_tokens, each.output_tokens, each.tokenizer_failed) for each in records] == [
        (5, 6, False),
        (5, 3, False),
    ]


def test_without_a_tokenizer_the_server_s_counts_are_used() -> None:
    records = [record(0, "one two")]
    count_tokens(records, asked("one"), None, chat=True)
    assert (records[0].input_tokens, records[0].output_tokens) == (70, 80)


def test_text_the_tokenizer_cannot_parse_is_counted_as_a_failure(tmp_path: Path) -> None:
    prompts = [*asked("one"), Prompt.model_validate({"messages": [{"role": "tool", "content": "one"}]})]
    half_a_character = json.loads('"one \\ud83d"')
    records = [record(0, half_a_character), record(1, "one"), record(0, "one")]
    count_tokens(records, prompts, ModelTokenizer(str(model(tmp_path))), chat=True)
    assert [each.tokenizer_failed for each in records] == [True, True, False]
    assert records[0].output_tokens is None
    assert records[0].is_empty
    assert (records[1].input_tokens, records[1].output_tokens) == (None, 1)
    assert not records[1].is_empty


def test_a_tokenizer_is_read_from_s3(tmp_path: Path) -> None:
    folder = model(tmp_path)

    def read(uri: str) -> bytes | None:
        name = uri.removeprefix("s3://store/artifacts/1/model/")
        return (folder / name).read_bytes() if (folder / name).exists() else None

    tokenizer = ModelTokenizer("s3://store/artifacts/1/model", read_s3=read)
    assert tokenizer.count_text("one two") == 2
    assert tokenizer.source == "s3://store/artifacts/1/model"
    with pytest.raises(EvaluationError, match=r"there is no tokenizer\.json in s3://other/"):
        ModelTokenizer("s3://other/", read_s3=lambda _: None)


def test_a_missing_or_invalid_tokenizer_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EvaluationError, match="no tokenizer can be loaded from"):
        ModelTokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(EvaluationError, match=r"there is no tokenizer\.json"):
        ModelTokenizer(str(tmp_path))


def test_an_invalid_chat_template_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="chat template cannot be read"):
        ModelTokenizer(str(model(tmp_path, template="{% for %}")))


def test_a_chat_template_runs_in_a_sandbox(tmp_path: Path) -> None:
    tokenizer = ModelTokenizer(str(model(tmp_path, template="{{ ''.__class__.__mro__ }}")))
    records = [record(0, "one")]
    count_tokens(records, asked("one"), tokenizer, chat=True)
    assert records[0].tokenizer_failed
