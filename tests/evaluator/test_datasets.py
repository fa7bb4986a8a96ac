from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.evaluator import datasets
from constructs_optim.evaluator.datasets import read_prompts, write_prompts
from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.evaluator.prompts import Prompt, Turn


def written(folder: Path, *lines: Any, name: str = "prompts.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_a_chat_of_training_data_is_asked_without_its_response(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
    (prompt,) = read_prompts(written(tmp_path, {"messages": chat}))
    assert prompt.as_messages() == chat[:1]


def test_sharegpt_is_read_as_an_array_or_line_by_line(tmp_path: Path) -> None:
    single = {"id": "a", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    several = {
        "conversations": [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "One"},
            {"from": "gpt", "value": "1"},
            {"from": "human", "value": "Two"},
        ]
    }
    array = read_prompts(written(tmp_path, json.dumps([single, several], indent=2), name="sharegpt.json"))
    lines = read_prompts(written(tmp_path, single, several))
    assert array == lines == [Prompt(prompt="Hi"), Prompt(turns=(Turn(prompt="One"), Turn(prompt="Two")))]


def test_conversations_in_which_no_user_speaks_are_skipped(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"conversations": []}
    answer = {"conversations": [{"from": "gpt", "value": "Hello"}]}
    asked = {"conversations": [{"from": "human", "value": "Hi"}]}
    assert read_prompts(written(tmp_path, empty, asked, answer)) == [Prompt(prompt="Hi")]
    with pytest.raises(EvaluationError, match=r"no user speaks in any of its conversations"):
        read_prompts(written(tmp_path, empty, answer))


def test_aiperf_files_are_read_with_their_times_and_delays(tmp_path: Path) -> None:
    lines = (
        {"text": "later", "timestamp": 2500},
        {"text": "first", "timestamp": 1000},
        {"session_id": "s", "turns": [{"text": "a", "timestamp": 1500}, {"text": "b", "delay": 500}]},
    )
    first, talk, later = read_prompts(written(tmp_path, *lines))
    assert (first.prompt, first.at_seconds) == ("first", 0.0)
    assert (talk.at_seconds, talk.turns) == (0.5, (Turn(prompt="a"), Turn(prompt="b", delay_seconds=0.5)))
    assert (later.prompt, later.at_seconds) == ("later", 1.5)


def test_mooncake_traces_share_the_prefixes_that_their_blocks_share(tmp_path: Path) -> None:
    lines = (
        {"timestamp": 0, "input_length": 1100, "output_length": 7, "hash_ids": [1, 2, 3]},
        {"timestamp": 3000, "input_length": 600, "output_length": 9, "hash_ids": [1, 4]},
    )
    one, two = read_prompts(written(tmp_path, *lines))
    first, second = one.text.split(), two.text.split()
    assert (len(first), len(second)) == (1100, 600)
    assert first[:512] == second[:512]
    assert first[512:600] != second[512:600]
    assert (one.max_tokens, two.max_tokens, two.at_seconds) == (7, 9, 3.0)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens", ("2023-11-16 18:17:03.97,374,44", "2023-11-16 18:17:05.47,10,5")),
        (
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
            ("5,ChatGPT,374,44,418,Conversation log", "6.5,GPT-4,10,5,15,API log"),
        ),
        ("seconds,input_tokens,output_tokens", ("5,374,44", "6.5,10,5")),
    ],
)
def test_traces_are_read_from_csv(tmp_path: Path, columns: str, rows: tuple[str, ...]) -> None:
    one, two = read_prompts(written(tmp_path, columns, *rows, name="trace.csv"))
    assert (len(one.text.split()), one.max_tokens, one.at_seconds) == (374, 44, 0.0)
    assert (len(two.text.split()), two.max_tokens) == (10, 5)
    assert two.at_seconds == pytest.approx(1.5)


def captured(request: Any, at: str = "2026-11-07T10:00:00Z") -> dict[str, Any]:
    data = {"observedContentType": "application/json", "mode": "INPUT", "data": json.dumps(request), "encoding": "JSON"}
    return {"captureData": {"endpointInput": data}, "eventMetadata": {"eventId": "e", "inferenceTime": at}}


def test_captures_of_sagemaker_are_read_with_their_times(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Why?"}]
    lines = (
        captured({"messages": chat, "max_tokens": 9}),
        captured({"inputs": "Once", "parameters": {"max_new_tokens": 5}}, "2026-11-07T10:00:02.5Z"),
        captured({"prompt": "upon"}, "2026-11-07T10:00:04Z"),
    )
    one, two, three = read_prompts(written(tmp_path, *lines))
    assert (one.as_messages(), one.max_tokens, one.at_seconds) == (chat, 9, 0.0)
    assert (two.inputs, two.max_tokens, two.at_seconds) == ("Once", 5, 2.5)
    assert (three.inputs, three.at_seconds) == ("upon", 4.0)


def test_prompts_are_written_and_read_without_loss(tmp_path: Path) -> None:
    prompts = [
        Prompt(prompt="a", max_tokens=3, at_seconds=0.0),
        Prompt(inputs="b", reference="c", at_seconds=1.0),
        Prompt.model_validate({"messages": [{"role": "system", "content": "s"}], "turns": ["x", "y"], "at_seconds": 2}),
    ]
    path = tmp_path / "prompts.jsonl"
    write_prompts(path, prompts)
    assert read_prompts(path) == prompts


def test_texts_with_characters_that_break_lines_elsewhere_are_kept(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\x85d\x0be"
    path = tmp_path / "odd.jsonl"
    path.write_text(f"\ufeff{json.dumps({'prompt': odd}, ensure_ascii=False)}\n", encoding="utf-8")
    prompts = read_prompts(path)
    assert prompts == [Prompt(prompt=odd)]
    write_prompts(path, prompts)
    assert read_prompts(path) == prompts


def test_a_message_without_content_is_kept(tmp_path: Path) -> None:
    chat = [{"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, {"role": "user", "content": "Go on"}]
    prompts = read_prompts(written(tmp_path, {"messages": chat}))
    write_prompts(tmp_path / "copy.jsonl", prompts)
    assert read_prompts(tmp_path / "copy.jsonl")[0].as_messages() == chat


def test_a_traced_request_that_failed_has_no_limit_and_times_keep_their_offsets(tmp_path: Path) -> None:
    columns = "TIMESTAMP,ContextTokens,GeneratedTokens"
    rows = ("2023-11-16 02:00:00.5+02:00,5,0", "2023-11-16 00:00:01.5+00:00,5,7")
    one, two = read_prompts(written(tmp_path, columns, *rows, name="trace.csv"))
    assert (one.max_tokens, two.max_tokens, two.at_seconds) == (None, 7, 1.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Hello", "this is not JSON: expected value at line 1 column 1"),
        ('{"prompt": "a", "at_seconds": NaN}', "this is not JSON: expected value at line 1 column 31"),
        ('{"prompt": "a", "at_seconds": 1e300}', "at_seconds: Input should be less than or equal to"),
        ('{"text": "a", "timestamp": Infinity}', "this is not JSON: expected value at line 1 column 28"),
        ('{"prompt": "a", "at_seconds": 1e999}', "this is not JSON: a number is too large"),
        ({"turns": [{"text": "a", "delay": -1}]}, "turns.0.delay: Input should be greater than or equal to 0"),
        ({"input_length": 0}, "input_length: Input should be greater than 0"),
        ({"captureData": {}}, "request is not a JSON object"),
        (captured({"model": "m"}), "none of messages, prompt, inputs, input and query"),
        ({"turns": []}, "turns: Tuple should have at least 1 item"),
        ({"prompt": "a", "turns": ["b"]}, "has prompt and turns, but needs exactly one"),
    ],
)
def test_a_faulty_line_is_refused_with_its_number_and_the_reason(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(EvaluationError) as refused:
        read_prompts(written(tmp_path, {"prompt": "fine"}, line))
    assert "line 2: " in str(refused.value)
    assert said in str(refused.value)


def test_half_of_a_surrogate_pair_can_be_sent(tmp_path: Path) -> None:
    [prompt] = read_prompts(written(tmp_path, r'{"prompt": "a\ud800"}'))
    assert prompt.prompt == "a\N{REPLACEMENT CHARACTER}"


def test_a_csv_file_of_other_columns_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(
        EvaluationError, match="the columns are a, b, but a trace has seconds, input_tokens, output_tokens or TIMESTAMP"
    ):
        read_prompts(written(tmp_path, "a,b", "1,2", name="trace.csv"))
    with pytest.raises(EvaluationError, match=r"line 2: .*input_tokens: Input should be a valid integer"):
        read_prompts(written(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens", "1,x,3", name="trace.csv"))


COLUMNS = "seconds,input_tokens,output_tokens"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((COLUMNS, f"0,10,{'5' * 131_073}"), "is not a trace in CSV: line 2: field larger than field limit"),
        (("a,b", "1,2,3"), "line 2: the columns are a, b, but a trace has"),
        ((COLUMNS, "0,10,5,7"), "line 2: the row has 4 values, but there are 3 columns"),
        ((COLUMNS, "0,10"), "line 2: the row has 2 values, but there are 3 columns"),
        ((COLUMNS, "0,300000000,5"), "line 2: input_tokens: Input should be less than or equal to 1000000"),
        ((f"{'a' * 100_000},b", "1,2"), "line 2: the columns are aaa"),
    ],
)
def test_a_csv_file_that_is_no_trace_is_refused_with_the_line(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    with pytest.raises(EvaluationError) as refused:
        read_prompts(written(tmp_path, *lines, name="trace.csv"))
    assert said in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_value_with_a_line_break_is_one_value(tmp_path: Path) -> None:
    lines = ("Timestamp,Model,Request tokens,Response tokens", '5,"a\nb\u2028c",374,44', "6,d,10,x")
    with pytest.raises(EvaluationError, match="line 4: output_tokens"):
        read_prompts(written(tmp_path, *lines, name="trace.csv"))
    [prompt] = read_prompts(written(tmp_path, *lines[:2], name="trace.csv"))
    assert prompt.max_tokens == 44


@pytest.mark.parametrize("line", [{"input_length": 300_000_000, "timestamp": 0}, {"input_length": 10**30}])
def test_a_prompt_longer_than_any_model_reads_is_refused(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(EvaluationError, match="line 1: input_length: Input should be less than or equal to 1000000"):
        read_prompts(written(tmp_path, line))


def test_traces_with_more_tokens_than_fit_in_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_MOST_WORDS", 25)
    lines = [{"input_length": 10, "timestamp": second} for second in range(3)]
    assert len(read_prompts(written(tmp_path, *lines[:2]))) == 2
    with pytest.raises(EvaluationError, match="more than 25 tokens in all up to line 3"):
        read_prompts(written(tmp_path, *lines))
    with pytest.raises(EvaluationError, match="more than 25 tokens in all up to line 4"):
        read_prompts(written(tmp_path, COLUMNS, *["0,10,5"] * 3, name="trace.csv"))


def test_the_message_about_a_line_with_many_faults_stays_short(tmp_path: Path) -> None:
    line = {"conversations": [{"from": 5}] * 10_000, "x" * 100_000: 1}
    with pytest.raises(EvaluationError, match=r"; and 19,995 more") as refused:
        read_prompts(written(tmp_path, line, {"prompt": "a", "y" * 100_000: 1}))
    assert len(str(refused.value)) < 3000


LINES: tuple[dict[str, Any], ...] = (
    {"prompt": "a", "max_tokens": 3, "at_seconds": 1.0, "reference": "b"},
    {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}], "turns": ["x", {"prompt": "y"}]},
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    {"text": "a", "timestamp": 2500},
    {"turns": [{"text": "a", "timestamp": 1500}, {"text": "b", "delay": 500}]},
    {"timestamp": 0, "input_length": 11, "output_length": 7, "hash_ids": [1, 2, 3]},
    captured({"inputs": "Once", "parameters": {"max_new_tokens": 5}}),
)
JUNK = (None, True, 0, -1, 0.5, 10**12, 10**400, 1e300, "", "x", "9", "\ud800", [], [1], {}, {"a": None})


def _mutated(value: Any) -> Iterator[Any]:
    yield from JUNK
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for changed in _mutated(item):
            other = value.copy()
            other[key] = changed
            yield other
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}


@pytest.mark.parametrize("line", LINES, ids=lambda line: next(iter(line)))
def test_any_line_is_a_prompt_or_is_refused_with_a_sentence(tmp_path: Path, line: dict[str, Any]) -> None:
    refused: list[str] = []
    for changed in _mutated(line):
        for content in (json.dumps(changed), json.dumps([changed])):
            path = written(tmp_path, content)
            try:
                for prompt in read_prompts(path):
                    prompt.as_messages()
            except EvaluationError as error:
                refused.append(str(error))
    assert max(map(len, refused)) < 2000


def test_any_rows_are_prompts_or_are_refused_with_a_sentence(tmp_path: Path) -> None:
    drawn = random.Random(5)
    times = ("0", "1e300", "-5", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00")
    parts = [*COLUMNS.split(","), *times, "9" * 30, "\0", '"', "", "\n", "\r", "é"]
    refused: list[str] = []
    for count in range(1500):
        content = "".join(drawn.choice([*parts, *",,,\n"]) for _ in range(drawn.randrange(1, 20)))
        path = written(tmp_path, f"{COLUMNS}\n{content}" if count % 2 else content, name="trace.csv")
        try:
            read_prompts(path)
        except EvaluationError as error:
            refused.append(str(error))
    assert max(map(len, refused)) < 5000
