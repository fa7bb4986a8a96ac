"""One completion: the request to the endpoint, and what its answer or its error means."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation import completions
from constructs_optim.runtime.evaluation.completions import Prompt, complete, complete_prompts
from constructs_optim.runtime.requests.run_properties import EvaluationRequest, Gate
from constructs_optim.runtime.store.run_records import COMPLETIONS, RunRecords

from ..support.answers import Answers
from ..support.lambda_context import LambdaContext
from ..support.s3_clients import BUCKET
from .test_gate import QUALITY, request

PROMPT = Prompt({"prompt": "Hi", "max_tokens": 8}, None)


def asked(**changed: Any) -> EvaluationRequest:
    return request(Gate()).model_copy(update={"variant_name": "AllTraffic", **changed})


def of_endpoint(answer: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests to an endpoint with one answer: a body or an error's code."""
    if isinstance(answer, bytes):
        answer = {"Body": StreamingBody(io.BytesIO(answer), len(answer)), "ContentType": "application/json"}
    answers = Answers(sagemaker_runtime=[("invoke_endpoint", answer)])
    requests: list[dict[str, Any]] = []
    runtime = answers.client("sagemaker-runtime")
    runtime.meta.events.register("provide-client-params", lambda params, **_: requests.append(params))
    monkeypatch.setattr(completions, "client", lambda service, config: {"sagemaker-runtime": runtime}[service])
    return requests


@pytest.mark.parametrize(
    ("of", "target"),
    [
        ({}, {"TargetVariant": "AllTraffic"}),
        ({"inference_component_name": "chat-llama"}, {"InferenceComponentName": "chat-llama"}),
        ({"variant_name": None}, {}),
    ],
)
def test_a_prompt_is_sent_to_the_variant_or_the_component(
    of: dict[str, Any], target: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = of_endpoint(b'{"generated_text": "Hello"}', monkeypatch)
    assert complete(asked(**of), PROMPT) == "Hello"
    body = json.dumps(PROMPT.body).encode()
    assert requests == [{"EndpointName": "chat", "ContentType": "application/json", "Body": body, **target}]


@pytest.mark.parametrize(
    "answer", [b"not JSON", b"{}", "ModelError", "InternalFailure", "ModelNotReadyException"], ids=str
)
def test_a_completion_that_fails_or_cannot_be_read_is_none(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of_endpoint(answer, monkeypatch)
    assert complete(asked(), PROMPT) is None


def test_a_missing_permission_to_invoke_fails_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    of_endpoint("AccessDeniedException", monkeypatch)
    with pytest.raises(ClientError, match="AccessDeniedException"):
        complete(asked(), PROMPT)


def evaluated(s3: Any, prompts: str, texts: int) -> bool:
    quality = QUALITY.model_copy(update={"prompts": prompts, "most_prompts": texts})
    records = RunRecords(s3, "evaluations", BUCKET, None, "a" * 64)
    return complete_prompts(request(Gate(quality=quality)), records, "run", LambdaContext(120))


def test_an_evaluation_without_a_quality_gate_needs_no_completions(s3: Any) -> None:
    records = RunRecords(s3, "evaluations", BUCKET, None, "a" * 64)
    without = request(Gate()).model_copy(update={"gate": None})
    for each in (request(Gate()), without):
        assert complete_prompts(each, records, "run", LambdaContext(120))


@pytest.mark.parametrize("uri", [f"s3://{BUCKET}/none.jsonl", "s3://no-such-bucket/prompts.jsonl"])
def test_a_prompts_file_that_does_not_exist_fails_the_evaluation(
    uri: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions, "client", lambda service: s3)
    with pytest.raises(DeploymentError, match=f"the file {uri} with the evaluation's prompts does not exist"):
        evaluated(s3, uri, 1)


def test_completions_that_no_record_holds_fail_the_evaluation(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put_object(Bucket=BUCKET, Key="two.jsonl", Body=b'{"prompt": "a"}\n{"prompt": "b"}')
    monkeypatch.setattr(completions, "client", lambda service: s3)
    lengths = iter([2_000_000, 2_000_001, 2_000_000, 2_000_000])
    monkeypatch.setattr(completions, "complete", lambda request, prompt: "x" * next(lengths))
    with pytest.raises(DeploymentError, match="2 answers to the gate's prompts have 4,000,001 characters"):
        evaluated(s3, f"s3://{BUCKET}/two.jsonl", 2)
    assert evaluated(s3, f"s3://{BUCKET}/two.jsonl", 2)


@pytest.mark.parametrize("answers", [["a", None], ["a"]], ids=["all", "some"])
def test_completions_that_are_stored_are_not_made_again(
    s3: Any, monkeypatch: pytest.MonkeyPatch, answers: list[str | None]
) -> None:
    records, prompts = RunRecords(s3, "evaluations", BUCKET, None, "a" * 64), f"s3://{BUCKET}/deleted.jsonl"
    written = {"answers": answers, "references": [None, None], "prompts_digest": "of-a-file-that-is-gone"}
    records.write(COMPLETIONS, written, "run")
    monkeypatch.setattr(completions, "client", lambda service: s3)
    if len(answers) == 2:
        assert evaluated(s3, prompts, 2)
    else:
        with pytest.raises(DeploymentError, match="with the evaluation's prompts does not exist"):
            evaluated(s3, prompts, 2)
