"""JSON of users, models, hubs and other programs: whatever it is, a reader takes it or refuses it in a sentence.

Each reader gets each hostile document. Readers with a place for the text of somebody else, such as the request in a
capture, get it there as well.
"""

from __future__ import annotations

import ast
import io
import json
import tarfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer

from constructs_optim.cli.prices import stated_prices
from constructs_optim.cli.recipes.evidence import published
from constructs_optim.cli.recipes.model_lookup import NotAModelError, _config
from constructs_optim.evaluator.connection import Exchange, refusal
from constructs_optim.evaluator.datasets import read_prompts
from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.explanation.assembly import ExplanationError, read_assembly
from constructs_optim.operations.captures import CaptureFormat, Written, exported
from constructs_optim.operations.dashboard_preview import PreviewError, dashboards_of
from constructs_optim.recipe.catalog.lock import Lock
from constructs_optim.recipe.errors import RecipeError
from constructs_optim.recipe.evaluation.recommendation import Recommendation
from constructs_optim.replay.traffic import TrafficError, read_traffic
from constructs_optim.runtime.documents import MOST_BYTES, json_value
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation import completions
from constructs_optim.runtime.evaluation.benchmark_output import read_levels
from constructs_optim.runtime.jobs.hub_document import HubDocument
from constructs_optim.runtime.shadow.captures import Pair, read_captures
from constructs_optim.runtime.shadow.checks import Check, outcome
from constructs_optim.runtime.store.json_records import JsonRecords

from ..support.s3_clients import BUCKET
from ..support.sampling import one_in

SOURCES = Path(__file__).parents[2] / "constructs_optim"

HOSTILE: dict[str, bytes] = {
    "1,500 levels": b'{"messages": [{"role": "user", "content": "Hi"}], "metadata": '
    + b'{"a":' * 1_500
    + b"1"
    + b"}" * 1_501,
    "100,000 levels": b"[" * 100_000,
    "100,000 closed levels": b"[" * 100_000 + b"]" * 100_000,
    "half a surrogate pair": rb'{"prompt": "a\ud800b", "text": "a\uDC00b", "\ud800": 1}',
    "a surrogate in UTF-8": b'{"prompt": "a\xed\xa0\x80b"}',
    "an integer of 5,000 digits": b'{"max_tokens": ' + b"9" * 5_000 + b', "prompt": "Hi"}',
    "an integer of 400 digits": b'{"max_tokens": '
    + b"9" * 400
    + b', "prompt": "Hi", "timestamp": '
    + b"9" * 400
    + b"}",
    "NaN": b'{"timestamp": NaN, "prompt": "Hi", "max_tokens": NaN}',
    "infinity": b'{"timestamp": -Infinity, "prompt": "Hi", "max_tokens": Infinity}',
    "1e999": b'{"timestamp": 1e999, "prompt": "Hi", "max_tokens": 1e999}',
    "duplicate keys": b'{"prompt": "Hi", "prompt": "Hello", "artifacts": {}, "artifacts": []}',
    "an escaped NUL": rb'{"prompt": "a\u0000b", "text": "a\u0000b"}',
    "a NUL": b'{"prompt": "a\x00b"}',
    "50 MB": b'{"prompt": "' + b"x" * 50_000_000 + b'"}',
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "UTF-16": '{"prompt": "Hi"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"prompt": "Hi"}',
    "nothing": b"",
    "a list": b'[{"prompt": "Hi"}]',
    "a null": b"null",
    "a comma": b'{"prompt": "Hi",}',
}


def in_capture(content: bytes, *, part: str = "endpointInput") -> bytes:
    """A record of data capture with hostile text as the request or the response."""
    data = {"endpointInput": '{"prompt": "Hi"}', "endpointOutput": '{"choices": []}'}
    data[part] = content.decode(errors="replace")
    record = {
        "captureData": {name: {"data": text, "encoding": "JSON"} for name, text in data.items()},
        "eventMetadata": {"eventId": "1", "inferenceTime": "2026-11-07T10:00:00Z"},
    }
    return json.dumps(record).encode()


def captures(content: bytes, _: Path) -> Any:
    lines = [content, in_capture(content), in_capture(content, part="endpointOutput")]
    return [read_captures(line, answered=answered) for line in lines for answered in (True, False)]


def exports(content: bytes, _: Path) -> Any:
    files = [content, in_capture(content), in_capture(content, part="endpointOutput")]
    return [list(exported(files, form, Written(), redact=redact)) for form in CaptureFormat for redact in (False, True)]


def archived(name: str, content: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    file.seek(0)
    return file


def benchmark(content: bytes, _: Path) -> Any:
    return read_levels(archived("profile_export_aiperf.json", content), [1])


def benchmark_records(content: bytes, _: Path) -> Any:
    return read_levels(archived("profile_export.jsonl", content), [1])


def compared(content: bytes, _: Path) -> Any:
    text = content.decode(errors="replace")
    call = {"function": {"name": "f", "arguments": text}}
    answer: dict[str, object] = {"choices": [{"message": {"content": text, "tool_calls": [call]}}]}
    tool = {"function": {"name": "f", "parameters": {}}}
    request: dict[str, object] = {"response_format": {"type": "json_object"}, "tools": [tool], "prompt": text}
    pair = Pair(request, answer, answer)
    return [outcome(Check(kind), pair, {}, None) for kind in ("json_valid", "tool_calls", "reference", "answered")]


def stored(content: bytes, _: Path) -> Any:
    class Stored:
        def get_object(self, **_: Any) -> Any:
            return {"Body": io.BytesIO(content), "ETag": "1"}

    return JsonRecords(Stored(), BUCKET).read("record.json")  # type: ignore[arg-type]


def refused_by_server(content: bytes, _: Path) -> Any:
    return refusal(Exchange(0.0, status=400, pieces=[(0.0, content)]))


def in_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    def reader(content: bytes, folder: Path) -> Any:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return reader


def manifest(content: bytes, folder: Path) -> Any:
    (folder / "manifest.json").write_bytes(content)
    return read_assembly(folder)


def traffic_of_captures(content: bytes, folder: Path) -> Any:
    (folder / "captures.jsonl").write_bytes(in_capture(content, part="endpointOutput"))
    return read_traffic(folder / "captures.jsonl", (1, 1))


READERS: dict[str, tuple[Callable[[bytes, Path], Any], type[Exception]]] = {
    "any JSON": (lambda content, _: json_value(content), ValueError),
    "captures": (captures, AssertionError),
    "exported captures": (exports, AssertionError),
    "a benchmark's summary": (benchmark, DeploymentError),
    "a benchmark's records": (benchmark_records, DeploymentError),
    "a hub's document": (lambda content, _: HubDocument("m", content.decode(errors="replace")), DeploymentError),
    "a hub's benchmarks": (lambda content, _: published(content.decode(errors="replace"), "1"), ValueError),
    "a model's configuration": (lambda content, _: _config("m", content), NotAModelError),
    "a gate's prompts": (
        lambda content, _: completions.read_prompts(content, "s3://b/k", most=9, max_tokens=9, form="inputs"),
        DeploymentError,
    ),
    "compared answers": (compared, AssertionError),
    "records of the store": (stored, DeploymentError),
    "a server's refusal": (refused_by_server, AssertionError),
    "prompts": (in_file("prompts.jsonl", read_prompts), EvaluationError),
    "traffic": (in_file("traffic.jsonl", read_traffic), TrafficError),
    "captured traffic": (traffic_of_captures, TrafficError),
    "prices": (in_file("prices.json", stated_prices), typer.BadParameter),
    "a recommendation": (in_file("recommendation.json", Recommendation.from_file), RecipeError),
    "the lock file": (in_file("optim.lock.json", Lock.read), ValueError),
    "an assembly's manifest": (manifest, ExplanationError),
    "dashboards": (in_file("a.template.json", lambda file: dashboards_of(file.parent)), PreviewError),
}


@pytest.mark.parametrize(("hostile", "reader"), one_in(5, product(HOSTILE, READERS)))
def test_hostile_json_is_read_or_refused_in_a_sentence(reader: str, hostile: str, tmp_path: Path) -> None:
    read, refusal = READERS[reader]
    try:
        found = read(HOSTILE[hostile], tmp_path)
    except refusal as error:
        found = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
        assert len(found) > 10
    json.dumps(found, default=str, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (rb'"\ud83d\ude00 \\ud800 \uD800\u0041"', "\N{GRINNING FACE} \\ud800 \N{REPLACEMENT CHARACTER}A"),
        (rb'["\ud800\ud83d\ude00", "\ude00\ud83d"]', ["\ufffd\N{GRINNING FACE}", "\ufffd\ufffd"]),
        ('"a\ud800"', "a\N{REPLACEMENT CHARACTER}"),
        (b'{"a": 1, "a": [2, 2.5, true, null]}', {"a": [2, 2.5, True, None]}),
        (b"\xef\xbb\xbf1e300", 1e300),
        (b"[" * 150 + b"]" * 150, json.loads("[" * 150 + "]" * 150)),
    ],
)
def test_json_is_read_with_encodable_text(content: str | bytes, value: object) -> None:
    assert json_value(content) == value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 300 + b"]" * 300, "more than 200 nested levels"),
        (b"x" * (MOST_BYTES + 1), r"it has 32,000,001 bytes, and at most 32,000,000 are read"),
        (b"[1e999]", "a number is too large"),
        (b'{"a": -1e999}', "a number is too large"),
        (b"9" * 400, "a number is too large"),
        (b"9" * 5_000, "number out of range"),
        (b"NaN", "expected value"),
        (b"\xff", "expected value"),
        (b'"\xff"', "invalid unicode"),
        (b"{'a': 1}", "line 1 column 2"),
    ],
)
def test_json_that_later_code_could_not_handle_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        json_value(content)


OWN = {
    # The package's own data, and what it has just written itself.
    "constructs/stack/findings.py",
    "constructs/stack/handler.py",
    "constructs/standalone_template/standalone_template.py",
    "constructs/validation/network_ways.py",
    "constructs/validation/policy_validation.py",
    "constructs/validation/template_size.py",
    "cli/adoption/adopt.py",
    "cli/synth.py",
    "constructs/artifacts/roles.py",
    "explanation/resources.py",
    "recipe/catalog/__init__.py",
    # The JSON parser of the containers' entry points.
    "recipe/catalog/entry_points.py",
    "runtime/evaluation/definitions.py",
    "runtime/hosting/scaling_registration.py",
    "runtime/shadow/failed_requests.py",
    "runtime/tracing.py",
    # A dashboard of the app.
    "templates/limits.py",
    # It runs in the engine's environment, which lacks this library, and reads the library's own question.
    "dry_start/engine_configuration.py",
    # The halves of a surrogate pair may come in two pieces.
    "evaluator/streaming.py",
}


def test_json_of_others_is_read_by_one_reader() -> None:
    """``json_value`` or a pydantic model, whose parser is the same. Code of training containers has no pydantic."""
    found = {
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if file.relative_to(SOURCES).parts[0] != "training"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.loads", "json.load")
    }
    assert found <= OWN, f"use json_value: {found - OWN}"
    assert not OWN - found, f"read no JSON: {OWN - found}"
