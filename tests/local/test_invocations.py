"""Invocations of endpoints: deterministic outputs in the formats of their containers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.sagemaker.hosting.invocations import text_for
from tests.support.in_process import InProcessCloud

from ..support.benchmark_jobs import serve
from ..support.hosting import IMAGE
from ..support.inference_components import create, endpoint, needing
from ..support.waiting import until

PROMPTS = [f"prompt {number}" for number in range(200)]


@pytest.fixture(scope="module")
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


@pytest.fixture(scope="module")
def runtime(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker-runtime")


@pytest.fixture(scope="module")
def served(sagemaker: Any) -> str:
    return serve(sagemaker, "answering")


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def openai_server(sagemaker: Any, request: pytest.FixtureRequest) -> str:
    return serve(sagemaker, f"served-by-{request.param}", Image=IMAGE.replace("/lmi:", f"/{request.param}:"))


@pytest.fixture(scope="module")
def vllm(sagemaker: Any) -> str:
    return serve(sagemaker, "completing", Image=IMAGE.replace("/lmi:", "/vllm:"))


def ask(runtime: Any, name: str, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    answer = runtime.invoke_endpoint(EndpointName=name, Body=json.dumps(body), ContentType="application/json", **more)
    return json.loads(answer["Body"].read())


def generated(runtime: Any, name: str, prompt: str) -> str:
    return ask(runtime, name, {"inputs": prompt})["generated_text"]


def refused(call: Any, **given: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**given)
    return caught.value.response


def test_a_prompt_gets_the_same_completion_on_every_endpoint(runtime: Any, sagemaker: Any, served: str) -> None:
    other = serve(sagemaker, "answering-too")
    assert generated(runtime, served, "Why?") == generated(runtime, other, "Why?") == text_for("Why?")
    assert generated(runtime, served, "Why?") != generated(runtime, served, "Why not?")


def test_a_generation_has_the_requested_number_of_tokens(runtime: Any, served: str) -> None:
    body = {"inputs": "Why?", "parameters": {"max_new_tokens": 5, "details": True}}
    answer = ask(runtime, served, body)
    assert len(answer["generated_text"].split()) == 5
    assert answer["details"] == {"finish_reason": "length", "generated_tokens": 5}


def test_a_chat_completion_has_the_openai_response_format(runtime: Any, served: str) -> None:
    answer = ask(runtime, served, {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 7})
    assert answer["object"] == "chat.completion"
    (choice,) = answer["choices"]
    assert (choice["message"]["role"], choice["finish_reason"]) == ("assistant", "length")
    assert answer["usage"]["completion_tokens"] == len(choice["message"]["content"].split()) == 7


def test_the_events_of_a_streamed_chat_add_up_to_the_completion(runtime: Any, served: str) -> None:
    body = {"messages": [{"role": "user", "content": "Why?"}]}
    whole = ask(runtime, served, body)["choices"][0]["message"]["content"]
    answer = runtime.invoke_endpoint_with_response_stream(EndpointName=served, Body=json.dumps(body))
    assert answer["ContentType"] == "text/event-stream"
    parts = [event["PayloadPart"]["Bytes"].decode() for event in answer["Body"]]
    assert len(parts) > 10
    events = [line.removeprefix("data: ") for line in "".join(parts).split("\n\n") if line]
    assert events.pop() == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events) == whole


def test_vllm_and_sglang_refuse_inputs_and_answer_chats(runtime: Any, openai_server: str) -> None:
    response = refused(
        runtime.invoke_endpoint, EndpointName=openai_server, Body=b'{"inputs": "Why?", "parameters": {}}'
    )
    assert (response["Error"]["Code"], response["OriginalStatusCode"]) == ("ModelError", 400)
    said = "Either prompt or prompt_embeds must be provided" if "vllm" in openai_server else "Field required"
    assert said in response["OriginalMessage"]
    answer = ask(runtime, openai_server, {"messages": [{"role": "user", "content": "Why?"}]})
    assert answer["object"] == "chat.completion"


def test_sglang_has_no_completions_of_text(runtime: Any, sagemaker: Any) -> None:
    name = serve(sagemaker, "chatting", Image=IMAGE.replace("/lmi:", "/sglang:"))
    response = refused(runtime.invoke_endpoint, EndpointName=name, Body=b'{"prompt": "Why?"}')
    assert response["OriginalStatusCode"] == 400


def test_vllm_completes_a_text_as_openais_api_does(runtime: Any, vllm: str) -> None:
    answer = ask(runtime, vllm, {"prompt": "Why?", "max_tokens": 100})
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == text_for("Why?")
    assert ask(runtime, vllm, {"prompt": "Why?"})["usage"]["completion_tokens"] == 16
    body = json.dumps({"prompt": "Why?", "max_tokens": 100})
    stream = runtime.invoke_endpoint_with_response_stream(EndpointName=vllm, Body=body)
    assert stream["ContentType"] == "text/event-stream"
    whole = b"".join(event["PayloadPart"]["Bytes"] for event in stream["Body"]).decode()
    events = [line.removeprefix("data: ") for line in whole.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events) == text_for("Why?")


def test_a_component_is_asked_in_the_form_of_its_own_container(runtime: Any, sagemaker: Any) -> None:
    endpoint(sagemaker, "shared-by-servers")
    create(sagemaker, "by-vllm", "shared-by-servers", needing(1, image=IMAGE.replace("/lmi:", "/vllm:")))
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName="by-vllm")["InferenceComponentStatus"],
        lambda status: status == "InService",
    )
    answer = ask(runtime, "shared-by-servers", {"prompt": "Why?"}, InferenceComponentName="by-vllm")
    assert answer["object"] == "text_completion"


def test_a_streamed_generation_is_json_lines_ending_with_the_whole_text(runtime: Any, served: str) -> None:
    answer = runtime.invoke_endpoint_with_response_stream(EndpointName=served, Body=json.dumps({"inputs": "Why?"}))
    lines = b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"]).splitlines()
    tokens = [json.loads(line) for line in lines]
    assert answer["ContentType"] == "application/jsonlines"
    assert "".join(token["token"]["text"] for token in tokens) == tokens[-1]["generated_text"] == text_for("Why?")


def test_a_configured_share_of_prompts_gets_a_different_output(
    in_process: InProcessCloud, runtime: Any, sagemaker: Any, served: str
) -> None:
    other = serve(sagemaker, "quantized", Environment={"MADE_BY": "awq"})
    in_process.set_performance("MADE_BY=awq", answers_differently=0.2)
    differing = {prompt for prompt in PROMPTS if generated(runtime, other, prompt) != text_for(prompt)}
    assert 0.1 < len(differing) / len(PROMPTS) < 0.3
    assert all(generated(runtime, served, prompt) == text_for(prompt) for prompt in PROMPTS[:20])
    assert {p for p in PROMPTS if generated(runtime, other, p) != text_for(p)} == differing
    in_process.set_performance("MADE_BY=awq", answers_differently=1)
    assert generated(runtime, other, PROMPTS[0]) != text_for(PROMPTS[0])


def test_a_configured_error_rate_fails_invocations_with_a_model_error(
    in_process: InProcessCloud, runtime: Any, sagemaker: Any
) -> None:
    name = serve(sagemaker, "faulty")
    in_process.set_performance(name, error_rate=1)
    response = refused(runtime.invoke_endpoint, EndpointName=name, Body=b'{"inputs": "Why?"}')
    assert response["Error"]["Code"] == "ModelError"
    assert response["OriginalStatusCode"] == 500


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"{", "not JSON"), (b"[]", "not an object"), (b'{"text": 1}', "neither inputs nor messages")],
)
def test_an_invalid_request_body_is_a_model_error_with_status_400(
    runtime: Any, served: str, body: bytes, said: str
) -> None:
    response = refused(runtime.invoke_endpoint, EndpointName=served, Body=body)
    assert (response["OriginalStatusCode"], response["ResponseMetadata"]["HTTPStatusCode"]) == (400, 424)
    assert said in response["OriginalMessage"]


def test_invoking_an_endpoint_that_does_not_exist_is_a_validation_error(runtime: Any) -> None:
    response = refused(runtime.invoke_endpoint, EndpointName="nowhere", Body=b"{}")
    assert response["Error"]["Code"] == "ValidationError"
    assert "Endpoint nowhere of account 000000000000 not found" in response["Error"]["Message"]


def test_an_invocation_must_name_a_component_that_has_a_copy(runtime: Any, sagemaker: Any) -> None:
    endpoint(sagemaker, "several")
    create(sagemaker, "one", "several", needing(1))

    def copies() -> int:
        return sagemaker.describe_inference_component(InferenceComponentName="one")["RuntimeConfig"]["CurrentCopyCount"]

    until(copies, lambda count: count == 1)
    response = refused(runtime.invoke_endpoint, EndpointName="several", Body=b"{}")
    assert "Inference Component Name header is required" in response["Error"]["Message"]
    assert ask(runtime, "several", {"inputs": "Why?"}, InferenceComponentName="one")["generated_text"]
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName="one")["InferenceComponentStatus"],
        lambda status: status == "InService",
    )
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName="one", DesiredRuntimeConfig={"CopyCount": 0}
    )
    until(copies, lambda count: count == 0)
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName="one")["InferenceComponentStatus"],
        lambda status: status == "InService",
    )
    response = refused(
        runtime.invoke_endpoint, EndpointName="several", InferenceComponentName="one", Body=b'{"inputs": "Why?"}'
    )
    assert "has no capacity to process this request" in response["Error"]["Message"]


def test_invocations_are_recorded_as_calls_and_can_be_throttled(
    in_process: InProcessCloud, runtime: Any, served: str
) -> None:
    in_process.inject("throttled", operation="InvokeEndpoint", count=1)
    assert generated(runtime, served, "Why?")
    outcomes = [call["outcome"] for call in in_process.calls("InvokeEndpoint")[-2:]]
    assert outcomes == ["ThrottlingException", "OK"]


@pytest.mark.parametrize("operation", ["invoke_endpoint", "invoke_endpoint_with_response_stream"])
def test_a_request_that_is_too_large_is_refused(runtime: Any, served: str, operation: str) -> None:
    found = refused(getattr(runtime, operation), EndpointName=served, Body=b" " * 6_291_457)
    assert found["Error"]["Message"] == "HTTP content length exceeded 6291456 bytes."
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 413
