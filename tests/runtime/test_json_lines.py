"""Lines of JSON end at a newline, and at none of the other characters that Python takes for the end of a line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from constructs_optim.evaluator.datasets import read_prompts as read_evaluated
from constructs_optim.runtime.evaluation.completions import read_prompts as read_gate_prompts
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.shadow_properties import ShadowRequest
from constructs_optim.runtime.shadow import observation
from constructs_optim.runtime.shadow.captures import read_captures
from constructs_optim.runtime.shadow.observation import Observer, RunState
from constructs_optim_local.sagemaker.benchmarks.benchmark_jobs import prompts_in

from ..shadow.test_observation import REQUEST

# The characters at which str.splitlines() splits, and which JSON strings need not escape.
SEPARATORS = ["\x85", "\u2028", "\u2029"]


def written(*texts: str, ending: str = "\n") -> bytes:
    return "".join(json.dumps({"prompt": text, "answer": text}, ensure_ascii=False) + ending for text in texts).encode()


def of_gate(content: bytes, *_: object) -> list[str]:
    prompts = read_gate_prompts(content, "s3://b/k", most=9, max_tokens=5, form="prompt")
    return [str(prompt.body["prompt"]) for prompt in prompts]


def of_evaluation(content: bytes, folder: Path, _: object) -> list[str]:
    rows = [{"inputs": json.loads(line)["prompt"]} for line in content.split(b"\n") if line.strip()]
    file = folder / "prompts.jsonl"
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return [prompt.inputs or "" for prompt in read_evaluated(file)]


def of_benchmark(content: bytes, *_: object) -> list[str]:
    return prompts_in(content.replace(b'"prompt"', b'"text"'))


def of_captures(content: bytes, *_: object) -> list[str]:
    requests = [json.loads(line) for line in content.split(b"\n") if line.strip()]
    texts = [json.dumps(request, ensure_ascii=False) for request in requests]
    records = [{"captureData": {"endpointInput": {"data": text, "encoding": "JSON"}}} for text in texts]
    lines = "\r\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    return [str(capture.request["prompt"]) for capture in read_captures(lines.encode(), answered=False).captures]


def of_references(content: bytes, _: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(observation, "client", lambda *_: SimpleNamespace())
    monkeypatch.setattr(observation, "get_object", lambda *_: {"Body": io.BytesIO(content)})
    check = {"Kind": "reference", "Reference": "s3://answers/k.jsonl"}
    request = validate(ShadowRequest, {**json.loads(REQUEST.model_dump_json(by_alias=True)), "Checks": [check]})
    return list(Observer(request, RunState(began=0, minute=0))._references().values())


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("read", [of_gate, of_evaluation, of_benchmark, of_captures, of_references])
def test_a_text_with_a_separator_is_one_line(
    read: Callable[[bytes, Path, pytest.MonkeyPatch], list[str]],
    separator: str,
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [f"one{separator}two", "three"]
    assert read(written(*texts, ending=ending), tmp_path, monkeypatch) == texts
