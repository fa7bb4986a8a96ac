"""``constructs-optim recommend`` against the local cloud."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe import Model, Quantization, Recipe, plan
from constructs_optim.runtime.evaluation import price_list
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.price_list import hourly_price

from ..support.operator_stores import Store, artifact_key

pytestmark = pytest.mark.local

# The document is of a model whose numbers are not this one's; what matters here is where they end up.
MODEL = "meta-textgeneration-llama-3-70b-instruct"
SPEC = (
    Path(__file__).parent.parent
    / "conformance/jumpstart/community_models/meta-textgeneration-llama-3-1-70b/specs_v2.16.2.json"
)
TYPES = ("--instance-type", "ml.g5.48xlarge", "--instance-type", "ml.p4d.24xlarge")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud whose hub has a document with published benchmarks."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / MODEL).mkdir()
    (folder / MODEL / "2.25.0.json").write_text(SPEC.read_text())
    with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2, hub_folders=[folder]) as running:
        yield running


@pytest.fixture(autouse=True)
def prices_are_asked_for_anew() -> None:
    price_list._cache.clear()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["recommend", *arguments])


def recommended(*arguments: str) -> dict[str, Any]:
    result = run("--model", MODEL, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def places(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(" + ".join(each["techniques"]), each["instance_type"]) for each in found["candidates"]]


def test_hub_candidates_are_ranked_by_published_benchmarks_and_prices(store: Store) -> None:
    found = recommended(*TYPES)
    assert found["version"] == "2.25.0"
    known = [each for each in found["candidates"] if each["benchmark"] is not None]
    assert {each["benchmark"]["source"] for each in known} == {
        "published by JumpStart, lmi 2.25.0",
        "published by JumpStart, lmi-optimized 2.25.0",
    }
    assert found["candidates"][: len(known)] == known
    blended = [each["blended_price"] for each in known]
    assert blended == sorted(blended)
    first = known[0]
    assert first["price_per_hour"] == hourly_price(first["instance_type"])
    tokens = first["benchmark"]["tokens_per_second"]
    assert first["blended_price"] == pytest.approx(first["price_per_hour"] / (tokens * 3600 / 1e6) / 4)


def test_the_table_explains_the_ranking_and_suggests_the_plan_command(store: Store) -> None:
    result = run("--model", MODEL, *TYPES, "--limit", "2")
    assert result.exit_code == 0, result.output
    assert "pre-optimized (lmi)" in result.stdout
    assert "for a million tokens" in result.stdout
    assert "recipes more; --limit shows them" in result.stdout
    assert "Left out, by rule: OPT012" in result.stdout
    assert f"constructs-optim plan --model {MODEL} --model-version 2.25.0" in result.stdout
    assert "The model is gated" in result.stdout


def test_at_80_columns_each_recipe_has_a_line_and_common_facts_appear_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    prices = tmp_path / "prices.json"
    prices.write_text('{"ml.g5.12xlarge": 7.09}')
    result = run(
        "--model",
        MODEL,
        "--offline",
        "--prices",
        str(prices),
        "--instance-type",
        "ml.g5.12xlarge",
        "--model-version",
        "2.25.0",
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.count("No published benchmark.") == 1
    lines = result.stdout.splitlines()
    rows = [line for line in lines if "ml.g5.12xlarge" in line and not line.startswith(("Plan", "constructs"))]
    assert max(map(len, rows)) <= 80
    assert [row.split()[0] for row in rows] == [str(place) for place in range(1, len(rows) + 1)]
    (first,) = [row.split() for row in rows if row.split()[0] == "1"]
    assert first[1:] == ["ml.g5.12xlarge", "7.09", "39/86", "17.0", "ms", "≥1.05", "awq"]
    assert "1, 2: 1 job (awq)" in result.stdout


def test_the_unoptimized_model_is_listed_as_the_baseline(store: Store) -> None:
    result = run("--model", MODEL, *TYPES, "--offline", "--model-version", "2.25.0")
    assert "as it is (no recipe)" in result.stdout
    document = recommended(*TYPES, "--offline", "--model-version", "2.25.0")
    assert document["baseline"]["instance_type"] in TYPES
    assert document["candidates"][0]["at_best"]["milliseconds"] > 0
    assert document["candidates"][0]["tested"] is True


def test_excluded_recipes_are_listed_with_their_rule(store: Store) -> None:
    result = run("--model", MODEL, "--instance-type", "ml.g5.2xlarge", "--left-out")
    assert result.exit_code == 2
    assert "OPT050" in result.stdout
    assert "Published by JumpStart for configurations and instance types that are no candidates" in result.stdout
    assert "No recipe is left" in result.stderr


def test_concurrency_goal_and_maximum_price_filter_and_rank_candidates(store: Store) -> None:
    found = recommended(*TYPES, "--concurrency", "4", "--optimize-for", "latency", "--max-price", "20")
    assert {name for _, name in places(found)} == {"ml.g5.48xlarge"}
    assert found["candidates"][0]["benchmark"]["concurrency"] == 4
    assert "price" in {each["rule"] for each in found["left_out"]}


def test_stored_evaluations_and_existing_artifacts_inform_the_recommendation(store: Store) -> None:
    model = Model.jumpstart(MODEL, version="2.25.0", accept_eula=True)
    made = plan(
        Recipe(model=model, techniques=[Quantization.awq()], instance_type="ml.g5.48xlarge", region="us-west-2")
    )
    assert made.artifact_key is not None
    store.put(f"artifacts/{made.artifact_key}/manifest.json", b"{}")
    store.put(f"evaluations/{artifact_key('x')}/result.json", _evaluation(made.artifact_key))
    store.put(f"evaluations/{artifact_key('y')}/result.json", b'{"schema": 9}')
    found = recommended(*TYPES, "--store", store.bucket)
    (awq,) = [
        each
        for each in found["candidates"]
        if (each["techniques"], each["instance_type"]) == (["quantization=awq"], "ml.g5.48xlarge")
    ]
    assert awq["jobs"] == []
    assert any("does not record whether it was served with a draft" in reason for reason in awq["reasons"])
    assert any("could not be read" in note for note in found["notes"])


def _evaluation(key: str) -> bytes:
    document = {
        "schema": 1,
        "subject": {
            "label": "Chat",
            "endpoint_name": "gone",
            "artifact_key": key,
            "instance_type": "ml.g5.48xlarge",
            "instance_count": 1,
        },
        "workload": {"prompts": 1},
        "started": dt.datetime(2026, 11, 20, tzinfo=dt.UTC).isoformat(),
        "levels": [{"concurrency": 8, "seconds": 9.0, "metrics": {"total_throughput": 400.0}}],
    }
    return json.dumps(document).encode()


def test_offline_calls_no_aws_api_and_accepts_a_price_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    prices = tmp_path / "prices.json"
    prices.write_text('{"ml.g5.48xlarge": 16.5}')
    found = recommended(*TYPES, "--offline", "--prices", str(prices), "--model-version", "2.25.0", "--max-price", "17")
    assert {each["price_per_hour"] for each in found["candidates"]} == {16.5}
    assert any("--offline" in note for note in found["notes"])
    assert any("prices" in note for note in recommended(*TYPES, "--offline")["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--offline", "--store", "bucket"), "--store is read from AWS"),
        (("--offline", "--prices", "/nowhere.json"), "cannot be read"),
        (("--offline", "--discount", "1.5"), "discount is 1.5"),
    ],
)
def test_invalid_options_of_recommend_are_refused(arguments: tuple[str, ...], said: str) -> None:
    result = run("--model", MODEL, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("content", ["[]", '{"ml.g5.48xlarge": "much"}', '{"ml.g5.48xlarge": 0}', "{"])
def test_a_file_without_valid_prices_is_refused(tmp_path: Path, content: str) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(content)
    result = run("--model", MODEL, "--offline", "--prices", str(prices))
    assert result.exit_code == 2
    assert "prices.json" in result.stderr


def test_denied_prices_or_hub_documents_are_noted_and_the_rest_is_listed(store: Store) -> None:
    store.cloud.inject("access_denied", operation="GetProducts")
    store.cloud.inject("access_denied", operation="DescribeHubContent")
    found = recommended(*TYPES)
    assert all(each["benchmark"] is None and each["price_per_hour"] is None for each in found["candidates"])
    assert any("pricing:GetProducts" in note for note in found["notes"])
    assert any("sagemaker:DescribeHubContent" in note for note in found["notes"])


def test_an_unknown_model_or_version_is_refused_with_a_suggestion(store: Store) -> None:
    result = run("--model", "meta-textgeneration-lama-3-70b", "--format", "json")
    assert result.exit_code == 2
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["rule"] == "OPT002"
    assert "did you mean" in violation["suggestion"]
    result = run("--model", MODEL, "--model-version", "9.9.9")
    assert result.exit_code == 2
    assert "in version 9.9.9" in result.stderr


def test_models_of_hugging_face_are_ranked_before_their_commit_is_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--model", "Qwen/Qwen3-32B", "--offline", "--instance-type", "ml.g6e.12xlarge")
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    copies = {candidate["jobs"][0] for candidate in found["candidates"]}
    assert copies == {"copy-qwen-qwen3-32b", "copy-qwen-qwen3-32b-awq", "copy-qwen-qwen3-32b-fp8"}
    assert {candidate["artifact_key"] for candidate in found["candidates"]} == {None}
    assert any("`constructs-optim lock --model Qwen/Qwen3-32B`" in note for note in found["notes"])
    assert "0000000" not in result.stdout
    assert "constructs-optim plan --model Qwen/Qwen3-32B --region" in run(*arguments).stdout


@pytest.mark.parametrize(
    ("model", "rule"), [("Qwen/Qwen3-32B@main", "OPT017"), ("a/b/c", "OPT008"), ("s3://M/", "OPT005")]
)
def test_a_model_that_cannot_be_is_refused_with_its_rule(model: str, rule: str) -> None:
    result = run("--model", model, "--offline")
    assert result.exit_code == 2
    assert rule in result.stderr
