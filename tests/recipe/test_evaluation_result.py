from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pydantic import ValidationError

from constructs_optim.recipe.evaluation.result import EvaluationResult, Level

# A result as another program may write it: unknown fields are ignored, and fields without a value are omitted.
DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "subject": {"label": "baseline", "endpoint_name": "chat", "instance_type": "ml.g5.12xlarge", "of_later": 1},
    "workload": {"prompts": 3, "parameters": {"max_tokens": 64, "ignore_eos": True}},
    "started": "2026-11-21T14:00:00Z",
    "levels": [
        {"concurrency": 1, "seconds": 10.5, "metrics": {"time_to_first_token_p50": 201.5}},
        {"concurrency": 8, "seconds": 10, "metrics": {}, "errors": {"timeout": 3}, "complete": False},
    ],
    "price": {"instance_price_per_hour": 7.09, "source": "stated"},
}


def test_a_result_written_by_another_program_round_trips() -> None:
    result = EvaluationResult.model_validate_json(json.dumps(DOCUMENT))
    assert result.started == dt.datetime(2026, 11, 21, 14, tzinfo=dt.UTC)
    assert not result.complete
    written = json.loads(result.model_dump_json(exclude_none=True))
    assert written["schema"] == 1
    assert written["workload"]["parameters"] == {"max_tokens": 64, "ignore_eos": True}
    assert "url" not in written["subject"]
    assert EvaluationResult.model_validate_json(result.model_dump_json(exclude_none=True)) == result


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": 2}, "schema"),
        ({"levels": [*DOCUMENT["levels"], DOCUMENT["levels"][0]]}, "in order of rising concurrency"),
        (
            {"levels": [{"concurrency": 1, "seconds": 1, "metrics": {"latency": 1}}]},
            "an evaluation has no metrics latency",
        ),
        ({"levels": [{"concurrency": 0, "seconds": 1, "metrics": {}}]}, "greater than 0"),
        ({"levels": [{"seconds": 1, "metrics": {}}]}, "either a concurrency or a request rate"),
        (
            {"levels": [{"concurrency": 1, "request_rate": 1, "seconds": 1, "metrics": {}}]},
            "either a concurrency or a request rate",
        ),
        ({"price": {"instance_price_per_hour": 7, "source": "stated", "discount": 30}}, "less than 1"),
    ],
)
def test_an_invalid_or_unsupported_result_document_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvaluationResult.model_validate_json(json.dumps(DOCUMENT | changed))


@pytest.mark.parametrize(
    ("load", "name"),
    [
        ({"concurrency": 1}, "1 user"),
        ({"concurrency": 8}, "8 users"),
        ({"request_rate": 1}, "1 request/s"),
        ({"request_rate": 2.5}, "2.5 requests/s"),
        ({"request_rate": 1, "turns": 3}, "1 conversation/s"),
        ({"request_rate": 2, "turns": 3}, "2 conversations/s"),
        ({"request_rate": 1, "end_rate": 6}, "1 to 6 requests/s"),
    ],
    ids=str,
)
def test_a_load_is_named_by_its_users_or_its_rate(load: dict[str, float], name: str) -> None:
    assert Level.model_validate({**load, "seconds": 1, "metrics": {}}).load == name
