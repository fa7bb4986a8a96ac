"""What traffic is read from: captures, traces and CSV."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.replay.traffic import TrafficError, read_traffic


def captured(at: str, usage: dict[str, int] | None) -> str:
    response: dict[str, Any] = {"choices": []} | ({"usage": usage} if usage is not None else {})
    data = {
        "endpointInput": {"data": json.dumps({"messages": []}), "encoding": "JSON"},
        "endpointOutput": {"data": json.dumps(response), "encoding": "JSON"},
    }
    return json.dumps({"captureData": data, "eventMetadata": {"eventId": at, "inferenceTime": at}})


def written(folder: Path, content: str) -> Path:
    file = folder / "traffic"
    file.write_text(content, encoding="utf-8")
    return file


USAGE = {"prompt_tokens": 120, "completion_tokens": 30}


def test_captures_are_ordered_by_time_and_have_the_tokens_of_their_responses(tmp_path: Path) -> None:
    lines = [captured("2026-11-02T10:00:30Z", USAGE), captured("2026-11-02T10:00:00Z", {**USAGE, "prompt_tokens": 7})]
    traffic = read_traffic(written(tmp_path, "\n".join(lines) + "\n"))
    assert list(traffic.seconds) == [0.0, 30.0]
    assert list(traffic.input_tokens) == [7, 120]
    assert list(traffic.output_tokens) == [30, 30]
    assert traffic.start == dt.datetime(2026, 11, 2, 10, tzinfo=dt.UTC)
    assert traffic.lengths == (63.5, 30)


@pytest.mark.parametrize(
    "content",
    [
        "seconds,input_tokens,output_tokens\n5,100,20\n8.5,50,10\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,100,20,120,x\n8.5,ChatGPT,50,10,60,x\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,100,20\n2023-11-16 18:15:49.5,50,10\n",
        '{"timestamp": "2026-11-26T10:00:00Z", "input_length": 100, "output_length": 20}\n'
        '{"timestamp": "2026-11-26T10:00:03.5Z", "input_length": 50, "output_length": 10}\n',
        '{"timestamp": 5000, "input_length": 100, "output_length": 20, "hash_ids": [1]}\n'
        '{"timestamp": 8500, "input_length": 50, "output_length": 10, "hash_ids": [1]}\n',
    ],
    ids=["csv", "burstgpt", "azure", "lines", "mooncake"],
)
def test_traces_have_times_and_tokens(tmp_path: Path, content: str) -> None:
    traffic = read_traffic(written(tmp_path, content))
    assert list(traffic.seconds) == [0.0, 3.5]
    assert list(zip(traffic.input_tokens, traffic.output_tokens, strict=True)) == [(100, 20), (50, 10)]


def test_requests_without_tokens_are_left_out_or_take_those_that_are_given(tmp_path: Path) -> None:
    file = written(tmp_path, "seconds,input_tokens,output_tokens\n0,100,20\n1,100,0\n2,,\n")
    assert (len(read_traffic(file)), read_traffic(file).left_out) == (1, 2)
    assert list(read_traffic(file, (50, 10)).output_tokens) == [20, 10], "what failed has no tokens"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"text": "a prompt"}\n', "no request with a time"),
        ("", "no request with a time"),
        ("when,how long\n1,2\n", "'when,how long' instead of the columns seconds,input_tokens,output_tokens or"),
        (captured("2026-11-02T10:00:00Z", None), "for other files, set --input-tokens and --output-tokens"),
        ("seconds,input_tokens,output_tokens\nsoon,1,2\n", "'soon' is not a time, such as 12.5"),
        ("seconds,input_tokens,output_tokens\nnan,1,2\n", "'nan' is not a time"),
        ("seconds,input_tokens,output_tokens\n0,inf,2\n", "does not say how many tokens its requests have"),
        ("seconds,input_tokens,output_tokens\n0,-3,2\n", "does not say how many tokens"),
        ('{"timestamp": "x"}\n', "'x' is not a time"),
        ('{"timestamp": 1}\n[1]\n', "not a JSON object"),
        ("{broken\n", "is not traffic"),
        ('{"timestamp": 1, "input_length": 1}\n{broken\n', "line 2: "),
        ("seconds,input_tokens,output_tokens\n0001-01-01T00:00:00+05:00,1,2\n", "is not a time"),
        ("seconds,input_tokens,output_tokens\n9999-12-31 23:59:59.9999999,1,2\n", "is not a time"),
        ("seconds,input_tokens,output_tokens\n0,1,2\n1700000000,1,2\n", "over 19,676 days, which is more than 92"),
        (f"seconds,input_tokens,output_tokens\n{'1' * 200_000},1,2\n", "is not traffic"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_what_would_work(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(TrafficError, match=said):
        read_traffic(written(tmp_path, content))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="cannot be read: No such file"):
        read_traffic(tmp_path / "none.csv")
