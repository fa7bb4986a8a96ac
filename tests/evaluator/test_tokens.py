from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.tokens import ModelTokenizer, count_tokens, how_counted
from constructs_optim.recipe.evaluation.result import TokenCounts

from ..support.model_server import asked
from ..support.tokenizers import model


def record(
    prompt: int, text: str, reasoning: str = "", *, server: tuple[int | None, int | None] = (70, 80), pieces: int = 1
) -> Record:
    """A request, with the server's counts of its input and output tokens."""
    return Record(
        prompt=prompt,
        segment=0,
        start=0,
        end=1,
        first_token=0.5,
        last_token=1,
        server_input_tokens=server[0],
        server_output_tokens=server[1],
        text=text,
        reasoning=reasoning,
        gaps=[20.0] * (pieces - 1),
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


def test_the_tokenizer_counts_what_the_server_does_not_without_truncation(tmp_path: Path) -> None:
    nothing = (None, None)
    records = [record(0, "one two three two one two", server=nothing)]
    records += [record(0, "two three", reasoning="one ", server=nothing)]
    count_tokens(records, asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert [(each.input_tokens, each.output_tokens, each.tokenizer_failed) for each in records] == [
        (5, 6, False),
        (5, 3, False),
    ]
    counts = how_counted(records)
    assert counts["output"] == TokenCounts(by_server=0, by_tokenizer=2)


def test_without_a_tokenizer_the_server_s_counts_are_used() -> None:
    records = [record(0, "one two")]
    count_tokens(records, asked("one"), None, chat=True)
    assert (records[0].input_tokens, records[0].output_tokens) == (70, 80)
    assert how_counted(records)["input"] == TokenCounts(by_server=1)


def test_the_server_s_counts_are_used_and_compared_with_the_tokenizer_s(tmp_path: Path) -> None:
    """The server counts four special tokens that the text of 20 lacks, and does not render the chat template."""
    text = "one two three two " * 5
    records = [record(0, text, server=(4, 24)), record(0, text, server=(None, None))]
    count_tokens(records, asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert [(each.input_tokens, each.output_tokens) for each in records] == [(4, 24), (5, 20)]
    counts = how_counted(records)
    assert [(each.by_server, each.by_tokenizer) for each in counts.values()] == [(1, 1), (1, 1)]
    assert [each.difference for each in counts.values()] == [pytest.approx(-0.2), pytest.approx(0.2)]
    count_tokens(records, asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert how_counted(records) == counts, "again, for a resumed evaluation"


@pytest.mark.parametrize(
    ("counted", "pieces", "used"),
    [
        (0, 1, None),
        (1, 8, None),  # the last chunk's
        (5, 8, None),
        (6, 8, 6),
        (30, 8, 30),
    ],
)
def test_a_server_s_count_that_contradicts_the_response_is_not_used(
    counted: int, pieces: int, used: int | None, tmp_path: Path
) -> None:
    eight = record(0, "one two three one two three one two", server=(9, counted), pieces=pieces)
    count_tokens([eight], asked("one"), None, chat=True)
    assert eight.output_tokens == used
    count_tokens([eight], asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert eight.output_tokens == (8 if used is None else used)


@pytest.mark.parametrize(("input_tokens", "used"), [(5, 8), (6, 2), (None, 2)])
def test_a_server_that_counts_chunks_is_found_by_a_tokenizer_that_counts_prompts_alike(
    input_tokens: int | None, used: int, tmp_path: Path
) -> None:
    """Two chunks of four tokens each. Otherwise, the tokenizer may be another model's."""
    chunks = record(0, "one two three one two three one two", server=(input_tokens, 2), pieces=2)
    count_tokens([chunks], asked("one"), ModelTokenizer(str(model(tmp_path))), chat=True)
    assert chunks.output_tokens == used


def test_reasoning_that_is_not_sent_counts_for_rates_and_not_for_inter_token_latency(tmp_path: Path) -> None:
    """100 tokens of reasoning come before the first piece; the other ten take half a second."""
    hidden, shown = record(0, "one " * 10, server=(5, 110)), record(0, "one " * 10, "two " * 100, server=(5, 110))
    for each in (hidden, shown):
        each.reasoning_tokens, each.first_length = 100, 4
    for tokenizer in (ModelTokenizer(str(model(tmp_path))), None):
        count_tokens([hidden, shown], asked("one"), tokenizer, chat=True)
        assert hidden.output_tokens == shown.output_tokens == 110
        assert hidden.inter_token_latency == pytest.approx(500 / 9)
        assert shown.inter_token_latency == pytest.approx(500 / 109)


def test_text_the_tokenizer_cannot_parse_is_counted_as_a_failure(tmp_path: Path) -> None:
    prompts = [*asked("one"), Prompt.model_validate({"messages": [{"role": "tool", "content": "one"}]})]
    half_a_character, nothing = json.loads('"one \\ud83d"'), (None, None)
    records = [record(0, half_a_character, server=nothing), record(1, "one", server=nothing)]
    records += [record(0, "one", server=nothing), record(0, half_a_character)]
    count_tokens(records, prompts, ModelTokenizer(str(model(tmp_path))), chat=True)
    assert [each.tokenizer_failed for each in records] == [True, True, False, True]
    assert records[0].output_tokens is None
    assert records[0].is_empty
    assert (records[1].input_tokens, records[1].output_tokens) == (None, 1)
    assert not records[1].is_empty
    assert (records[3].output_tokens, records[3].is_empty) == (80, False), "the server counted it"


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
