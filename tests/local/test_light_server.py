"""The light server: its answers, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from constructs_optim_local.light_server import tiny_model, weights
from constructs_optim_local.light_server.application import Application
from constructs_optim_local.light_server.llama import Llama

from ..support.light_server import ask, complete

CHAT = {"messages": [{"role": "user", "content": "Why?"}], "temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def application(folder: Path) -> Application:
    return Application(folder, "tiny")


def text_of(completion: dict[str, Any]) -> str:
    return completion["choices"][0]["message"]["content"]


def test_a_chat_is_completed_up_to_the_most_tokens(application: Application) -> None:
    found = complete(application, CHAT)
    assert found["object"] == "chat.completion"
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["usage"]["completion_tokens"] == 8
    assert text_of(found) == text_of(complete(application, CHAT, "/invocations"))


def test_a_stream_has_the_text_of_the_whole(application: Application) -> None:
    request = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    lines = ask(application, "/v1/chat/completions", request).text.splitlines()
    assert [line for line in lines if line][-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    pieces = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert "".join(pieces) == text_of(complete(application, CHAT))
    assert events[-1]["usage"]["completion_tokens"] == 8


def test_a_seed_repeats_a_completion(application: Application) -> None:
    def said(seed: int) -> str:
        return text_of(complete(application, {**CHAT, "temperature": 1.0, "seed": seed, "max_tokens": 20}))

    assert said(1) == said(1)
    assert len({said(seed) for seed in range(5)}) > 1


def test_the_end_of_a_turn_and_a_stop_end_a_completion(application: Application) -> None:
    ended = complete(application, {**CHAT, "temperature": 0.5, "seed": 1, "max_tokens": 200})
    assert ended["choices"][0]["finish_reason"] == "stop"
    first, *_ = text_of(complete(application, CHAT)).split(" ")
    stopped = complete(application, {**CHAT, "stop": [" "]})
    assert (text_of(stopped), stopped["choices"][0]["finish_reason"]) == (first, "stop")
    longer = complete(application, {**CHAT, "temperature": 0.5, "seed": 1, "max_tokens": 60, "ignore_eos": True})
    assert longer["usage"]["completion_tokens"] == 60


def test_completions_and_lmis_inputs_are_served(application: Application) -> None:
    completion = complete(application, {"prompt": "An endpoint", "temperature": 0}, "/v1/completions")
    assert completion["usage"]["completion_tokens"] <= 16
    generated = complete(application, {"inputs": "An endpoint", "parameters": {"max_new_tokens": 16}}, "/invocations")
    assert generated["generated_text"] == completion["choices"][0]["text"]
    streamed = ask(
        application, "/invocations", {"inputs": "An endpoint", "parameters": {"max_new_tokens": 16}, "stream": True}
    )
    assert json.loads(streamed.text.splitlines()[-1])["generated_text"] == generated["generated_text"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({}, "no messages or prompt or inputs"),
        ([], "not a JSON object"),
        ({"messages": "Why?"}, "not a list of objects"),
        ({"prompt": 7}, "not a string"),
        ({"prompt": "a", "n": 2}, "one completion"),
        ({"prompt": "a", "temperature": "hot"}, "wrong type"),
        ({"prompt": "word " * 4000}, "maximum context length is 2048 tokens"),
    ],
)
def test_what_is_not_served_is_refused_with_the_reason(application: Application, request_: Any, reason: str) -> None:
    response = ask(application, "/invocations", request_)
    assert response.status_code == 400
    assert reason in (response.json or {})["error"]["message"]


def test_a_model_of_another_kind_is_refused_with_the_kinds_there_are(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["MixtralForCausalLM"]}))
    with pytest.raises(weights.UnreadableModel, match=r"MixtralForCausalLM.*LlamaForCausalLM"):
        Llama(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(weights.UnreadableModel, match="quantized by awq"):
        Llama(tmp_path)


def test_quantized_layers_are_read_as_what_they_stand_for(tmp_path: Path) -> None:
    """By hand, from the formats' definitions; tests/training/test_quantizing.py has llm-compressor's own files."""
    scale = np.array([[0.5], [2.0]], np.float32)
    values = np.array([[-8, -1, 0, 7, 1, 2, 3, 4], [1, 1, 1, 1, 1, 1, 1, 1]], np.float32)
    words = [sum((int(value) + 8) << (4 * place) for place, value in enumerate(row)) for row in values]
    packed = np.array(words, np.uint32).view(np.int32).reshape(2, 1)
    cases: list[tuple[str, dict[str, Any], np.ndarray[Any, Any]]] = [
        ("pack-quantized", {"weight_packed": packed, "weight_shape": np.array([2, 8])}, values * scale),
        ("float-quantized", {"weight": values.astype(ml_dtypes.float8_e4m3fn)}, values * scale),
    ]
    for kind, tensors, expected in cases:
        folder = tmp_path / kind
        folder.mkdir()
        named = {f"layer.{name}": tensor for name, tensor in {**tensors, "weight_scale": scale}.items()}
        save_file({**named, "norm.weight": np.ones(2, np.float32)}, folder / "model.safetensors")
        found = weights.read(folder, {"quant_method": "compressed-tensors", "format": kind})
        assert set(found) == {"layer.weight", "norm.weight"}
        np.testing.assert_allclose(found["layer.weight"], expected)
