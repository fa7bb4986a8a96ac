"""``constructs-optim recommend`` against the local cloud."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe import Model, Quantization, Recipe, plan
from constructs_optim.recipe.catalog.lock import LOCK_FILE, NO_COMMIT, Lock, RecordedArtifact, RecordedModel
from constructs_optim.runtime.evaluation import price_list
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.price_list import hourly_price

from ..support.operator_stores import Store, artifact_key
from ..support.sampling import one_in

pytestmark = pytest.mark.local

# The document is of a model whose numbers are not this one's; what matters here is where they end up.
MODEL = "meta-textgeneration-llama-3-70b-instruct"
SPEC = (
    Path(__file__).parent.parent
    / "conformance/jumpstart/community_models/meta-textgeneration-llama-3-1-70b/specs_v2.16.2.json"
)
G5, P4D, P5 = "ml.g5.48xlarge", "ml.p4d.24xlarge", "ml.p5.48xlarge"
TYPES = ("--instance-type", G5, "--instance-type", P4D)
LENGTHS = ("--input-tokens", "1000", "--output-tokens", "300")
# All of it is met by far.
CHAT = (*LENGTHS, "--rate", "4", "--ttft", "5s", "--itl", "100ms")
QWEN = ("Qwen/Qwen3-32B", "--offline", "--instance-type", P5, "--instance-type", "ml.g6e.12xlarge")


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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An app's folder, without a lock file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["recommend", *arguments])


def recommended(*arguments: str, model: str = MODEL) -> dict[str, Any]:
    result = run(model, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def prices_of(folder: Path, **prices: float) -> tuple[str, str]:
    """The option for a file with these prices."""
    file, by_type = folder / "prices.json", {f"ml.{name.replace('_', '.')}": each for name, each in prices.items()}
    file.write_text(json.dumps(by_type))
    return "--prices", str(file)


def rows(result: Result) -> list[str]:
    """The lines of the table."""
    return [line for line in result.stdout.splitlines() if re.match(r" *\d+  \d+ x ml\.\w+\.\w+ ", line)]


def test_candidates_are_ranked_by_the_price_of_what_meets_the_objectives(store: Store) -> None:
    found = recommended(*TYPES, *CHAT)
    assert found["version"] == "2.25.0"
    assert found["objectives"]["requests_per_second"] == 4
    assert found["objectives"]["time_to_first_token"] == 5000
    met = [each for each in found["candidates"] if each["meets"]]
    assert found["candidates"][: len(met)] == met
    assert [each["price_per_hour"] for each in met] == sorted(each["price_per_hour"] for each in met)
    first = met[0]
    assert first["rank"] == 1
    assert first["price_per_hour"] == pytest.approx(first["instances"] * hourly_price(first["instance_type"]))
    assert first["probability"] >= 0.8
    assert first["forecast"]["time_to_first_token"]["value"] <= 5
    assert first["forecast"]["requests_per_second"]["value"] >= 4


def test_json_has_what_the_table_has_and_more(store: Store) -> None:
    found = recommended(*TYPES, *CHAT, "--limit", "2")
    assert len(found["candidates"]) == 2
    assert found["candidate_count"] > 2
    for each in found["candidates"]:
        for figure in ("time_to_first_token", "inter_token_latency", "requests_per_second"):
            estimate = each["forecast"][figure]
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
            assert each["record"][figure]["measurements"] >= 0
        assert each["techniques"] == [] or each["labels"]
        assert each["memory"]["weights_gb"] > 0
    assert {"rule", "techniques", "reason", "instance_types"} <= found["left_out"][0].keys()
    assert isinstance(found["notes"], list)


def test_the_table_explains_the_ranking_and_suggests_the_plan_command(store: Store) -> None:
    result = run(MODEL, *TYPES, *CHAT, "--limit", "2")
    assert result.exit_code == 0, result.output
    assert "for 4 requests/s of 1000+300 tokens, first token within 5000 ms, a token every 100 ms" in result.stdout
    assert re.search(r"(from \d+ measurements of similar models|no measurement of a similar model)", result.stdout)
    assert "more recipes: raise --limit to show them" in result.stdout
    assert "Excluded, by rule: OPT012" in result.stdout
    assert f"constructs-optim plan --model {MODEL} --model-version 2.25.0" in result.stdout
    assert "The model is gated" in result.stdout


def test_the_suggested_plan_command_plans_the_first_one(store: Store) -> None:
    found, shown = recommended(*TYPES, *CHAT), run(MODEL, *TYPES, *CHAT).stdout
    _, *arguments = shlex.split(shown.partition("To plan the first recipe:\n")[2])
    planned = CliRunner().invoke(app, [*arguments, "--accept-eula", "--json"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["artifact_key"] == found["candidates"][0]["artifact_key"]


@pytest.mark.parametrize("columns", [120, 160])
@pytest.mark.parametrize("rate", [("--rate", "40"), ()], ids=["with a rate", "without"])
def test_at_120_columns_each_recipe_has_a_line_and_common_facts_appear_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int, rate: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    known = prices_of(folder, p5_48xlarge=60)
    result = run(MODEL, "--offline", *known, "--instance-type", P5, "--model-version", "2.25.0", *LENGTHS, *rate)
    assert result.exit_code == 0, result.output
    listed = rows(result)
    assert max(map(len, listed)) <= 120
    assert [row.split()[0] for row in listed] == [str(place) for place in range(1, 11)]
    assert all("p5.48xlarge" in row and ("%" in row) is bool(rate) for row in listed)
    (heading,) = [line for line in result.stdout.splitlines() if "Recipe" in line and "TTFT" in line]
    assert ("$/h" if rate else "$/M") in heading
    (grounds,) = [line for line in result.stdout.splitlines() if "measurements of similar models" in line]
    assert grounds.startswith("All: ")


def test_at_80_columns_no_figure_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (*QWEN, *CHAT, *prices_of(folder, p5_48xlarge=60), "--limit", "3")
    monkeypatch.setenv("COLUMNS", "200")
    wide = run(*arguments)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = "".join(run(*arguments).stdout.split())
    for row in rows(wide):
        figures = re.findall(r"\d[\d.]* \([\d.]+-[\d.]+\)", row)
        assert len(figures) == 3
        assert all("".join(figure.split()) in narrow for figure in figures)


def columns(result: Result) -> list[str]:
    """The headings of the table."""
    (heading,) = [line for line in result.stdout.splitlines() if line.lstrip().startswith("Instances")]
    return heading.split()


ANY_TYPE = ("Qwen/Qwen3-32B", "--offline")


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("wide")
def test_the_table_has_only_columns_with_figures(folder: Path) -> None:
    prices = prices_of(folder, p5_48xlarge=60, g6e_12xlarge=10)
    assert columns(run(*QWEN)) == ["Instances", "TTFT", "ITL", "Req/s", "Recipe"]
    assert columns(run(*QWEN, *prices)) == ["Instances", "$/h", "$/M", "TTFT", "ITL", "Req/s", "Recipe"]
    assert columns(run(*QWEN, "--ttft", "5s")) == ["Instances", "TTFT", "ITL", "Req/s", "Chance", "Recipe"]
    asked = run(*QWEN, "--rate", "1", *prices)
    assert columns(asked) == ["Instances", "$/h", "TTFT", "ITL", "Req/s", "Chance", "Recipe"]
    assert "Chance: of meeting the objectives" in " ".join(asked.stdout.split())
    without = " ".join(run(*QWEN, *prices).stdout.split())
    assert "Chance" not in without
    assert "$/M: US dollars for a million tokens at that rate" in without
    priced_in_part = run(*QWEN, *prices_of(folder, p5_48xlarge=60))
    assert all("unknown" in row for row in rows(priced_in_part) if "g6e" in row)


def test_without_objectives_json_has_no_probability(folder: Path) -> None:
    def probabilities(*arguments: str) -> set[bool]:
        found = json.loads(run(*QWEN, "--json", *arguments).stdout)
        return {each["probability"] is None for each in found["candidates"]}

    assert probabilities() == {True}
    assert probabilities("--rate", "1") == probabilities("--itl", "100ms") == {False}


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("objective", one_in(2, [[], ["--rate", "1", "--quality", "any"]]))
def test_no_two_rows_of_the_table_look_alike(objective: list[str]) -> None:
    result = run(*ANY_TYPE, "--limit", "500", *objective)
    recipes = [re.sub(r" *\d+  (\d+ x ml\.\S+).*\)(?:  +\d+%)?  ", r"\1 ", row) for row in rows(result)]
    assert len(recipes) > 100
    assert [each for each in recipes if recipes.count(each) > 1] == []


@pytest.mark.usefixtures("wide")
def test_rows_that_only_differ_in_a_checkpoint_show_it() -> None:
    result = run(*ANY_TYPE, "--instance-type", P5, "--limit", "30")
    assert any(row.endswith("fp8 (Qwen/Qwen3-32B-FP8), TP 1") for row in rows(result))
    assert any(row.endswith("fp8 (job), TP 1") for row in rows(result))
    only = run(*QWEN[:2], "--instance-type", "ml.p5.4xlarge", "--limit", "1")
    assert rows(only)[0].endswith("fp8 + speculator")


def test_without_a_rate_the_first_recipe_is_not_on_the_largest_instance(folder: Path) -> None:
    prices = prices_of(folder, **{"p6-b200_48xlarge": 100, "p5_48xlarge": 60, "p5_4xlarge": 7, "g6_12xlarge": 6})
    found = json.loads(run(*ANY_TYPE, "--json", *prices).stdout)["candidates"]
    assert found[0]["instance_type"] == "ml.g6.12xlarge"
    assert "p6-b200" not in [each["instance_type"] for each in found[:3]]


def test_excluded_recipes_are_listed_with_their_rule(store: Store) -> None:
    result = run(MODEL, "--instance-type", "ml.g5.2xlarge", "--left-out")
    assert result.exit_code == 2
    assert "OPT050" in result.stdout
    assert "Published by JumpStart for other configurations and instance types" in result.stdout
    assert "No recipe remains" in result.stderr


def test_published_benchmarks_are_shown_beside_the_forecast(store: Store) -> None:
    found = recommended(*TYPES, *CHAT, "--limit", "100")
    (configured,) = [
        each
        for each in found["candidates"]
        if (each["techniques"], each["instance_type"]) == (["pre_optimized,config=lmi"], P4D)
    ]
    assert any("published by JumpStart, lmi 2.25.0" in reason for reason in configured["reasons"])


def test_lengths_that_are_not_given_are_assumed_and_noted() -> None:
    (assumed,) = [note for note in recommended(*QWEN[1:], model=QWEN[0])["notes"] if note.startswith("Assumed")]
    usual = recommended(*QWEN[1:], model=QWEN[0])["objectives"]
    lengths = f"{usual['input_tokens']} input tokens (--input-tokens) and {usual['output_tokens']} output tokens"
    assert lengths in assumed
    one = recommended(*QWEN[1:], "--output-tokens", "50", model=QWEN[0])
    assert one["objectives"]["output_tokens"] == 50
    assert any(note.startswith(f"Assumed {usual['input_tokens']} input tokens (--in") for note in one["notes"])
    assert not any("50 output tokens" in note for note in one["notes"])
    given = recommended(*QWEN[1:], *LENGTHS, model=QWEN[0])
    assert not any("Assumed" in note for note in given["notes"])


@pytest.mark.parametrize("lengths", [(), ("--input-tokens", "1000"), ("--output-tokens", "300")])
def test_a_choice_is_not_recorded_for_assumed_lengths(folder: Path, lengths: tuple[str, ...]) -> None:
    result = run(*QWEN, *lengths, "--update")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", "").split())
    assert "--input-tokens and --output-tokens" in said
    assert "constructs-optim captures" in said
    assert not (folder / LOCK_FILE).exists()


def test_update_records_and_prints_the_first_candidate(folder: Path) -> None:
    result = run(*QWEN, *CHAT, *prices_of(folder, p5_48xlarge=60), "--update")
    assert result.exit_code == 0, result.output
    ((name, choice),) = Lock.read(folder / LOCK_FILE).choices.items()
    assert (
        name == "Qwen/Qwen3-32B for 4 requests/s of 1000+300 tokens, first token within 5000 ms, a token every 100 ms"
    )
    first = recommended(*QWEN[1:], *CHAT, *prices_of(folder, p5_48xlarge=60), model=QWEN[0])["candidates"][0]
    (pool,) = choice.pools
    assert (pool.instance_type, [*pool.techniques]) == (first["instance_type"], first["techniques"])
    assert (choice.copies, choice.instances) == (first["copies"], first["instances"])
    (said,) = [line for line in result.stdout.splitlines() if line.startswith("Recorded the choice for")]
    assert f"Recorded the choice for {name} in {LOCK_FILE}: {choice.instances} x {pool.instance_type}" in said
    assert said.endswith("Review and commit it.")


def test_without_update_the_lock_file_stays(folder: Path) -> None:
    Lock(jobs={"awq": "image:1"}).write(folder / LOCK_FILE)
    before = (folder / LOCK_FILE).read_bytes()
    assert run(*QWEN, *CHAT).exit_code == 0
    assert (folder / LOCK_FILE).read_bytes() == before


def test_other_entries_of_the_lock_file_stay(folder: Path) -> None:
    Lock(jobs={"awq": "image:1"}).write(folder / LOCK_FILE)
    assert run(*QWEN, *CHAT, "--update").exit_code == 0
    assert run(*QWEN, *LENGTHS, "--rate", "8", "--update").exit_code == 0
    recorded = Lock.read(folder / LOCK_FILE)
    assert recorded.jobs == {"awq": "image:1"}
    assert len(recorded.choices) == 2


def test_another_file_is_written_where_it_is_asked_for(folder: Path) -> None:
    assert run(*QWEN, *CHAT, "--update", "--lock-file", "other.json").exit_code == 0
    assert len(Lock.read(folder / "other.json").choices) == 1
    assert not (folder / LOCK_FILE).exists()


def test_an_update_with_other_prices_prints_the_changes(folder: Path) -> None:
    dear = prices_of(folder, p5_48xlarge=600, g6e_12xlarge=13)
    assert run(*QWEN, *CHAT, *dear, "--update").exit_code == 0
    before = Lock.read(folder / LOCK_FILE).choices
    cheap = prices_of(folder, p5_48xlarge=6, g6e_12xlarge=13)
    result = run(*QWEN, *CHAT, *cheap, "--update")
    assert result.exit_code == 0, result.output
    after = Lock.read(folder / LOCK_FILE).choices
    assert before.keys() == after.keys()
    (said,) = [line for line in result.stdout.splitlines() if line.startswith("Recorded the choice for")]
    assert re.search(r"1 x ml\.p5\.48xlarge, .* instead of \d+ x ml\.g6e\.12xlarge, ", said)
    assert re.search(r"\$6\.00 an hour instead of \$\d+\.00 an hour", said)
    assert "first token after" in said


def test_an_update_without_changes_prints_that_nothing_changes(folder: Path) -> None:
    assert run(*QWEN, *CHAT, "--update").exit_code == 0
    before = (folder / LOCK_FILE).read_bytes()
    result = run(*QWEN, *CHAT, "--update")
    assert result.exit_code == 0
    assert "already has this choice" in result.stdout
    assert (folder / LOCK_FILE).read_bytes() == before


def test_another_objective_is_a_choice_of_its_own(folder: Path) -> None:
    assert run(*QWEN, *CHAT, "--update").exit_code == 0
    result = run(*QWEN, *CHAT, "--confidence", "0.95", "--update")
    assert result.exit_code == 0, result.output
    assert "with 95%" in result.stdout
    assert "instead of" not in result.stdout
    assert len(Lock.read(folder / LOCK_FILE).choices) == 2


def test_several_instance_types_are_recorded_in_the_order_of_the_ranking(folder: Path) -> None:
    known = prices_of(folder, p5_48xlarge=60, g6e_12xlarge=13)
    result = run(*QWEN, *CHAT, *known, "--update", "--pools", "3")
    assert result.exit_code == 0, result.output
    (choice,) = Lock.read(folder / LOCK_FILE).choices.values()
    ranked = recommended(*QWEN[1:], *CHAT, *known, "--limit", "100", model=QWEN[0])["candidates"]
    first = ranked[0]
    fitting = [
        each
        for each in ranked
        if each["meets"] and each["copies"] <= first["copies"] and each["instances"] <= first["instances"]
    ]
    order = [*dict.fromkeys(each["instance_type"] for each in fitting)]
    assert [pool.instance_type for pool in choice.pools] == order
    assert (len(order) == 2) is (f", or {order[-1]}" in result.stdout)
    said = "Recorded only "
    assert (said in result.stdout) is (len(order) < 3)


def test_another_instance_type_is_recorded_only_where_as_many_of_it_do(folder: Path) -> None:
    """One p5.48xlarge does what takes several g6e.12xlarge, which cannot take its place."""
    known = prices_of(folder, p5_48xlarge=6, g6e_12xlarge=13)
    rate = ("--rate", "40", *LENGTHS)
    result = run(*QWEN, *rate, *known, "--update", "--pools", "2")
    assert result.exit_code == 0, result.output
    (choice,) = Lock.read(folder / LOCK_FILE).choices.values()
    assert [pool.instance_type for pool in choice.pools] == [P5]
    assert "Recorded only 1 instance type" in result.stdout


def test_json_has_what_was_recorded(folder: Path) -> None:
    result = run(*QWEN, *CHAT, "--update", "--json")
    assert result.exit_code == 0, result.output
    recorded = json.loads(result.stdout)["recorded"]
    assert recorded[0].startswith("Recorded the choice for Qwen/Qwen3-32B for 4 requests/s")


def test_recipes_whose_context_is_too_short_for_the_requests_are_left_out(folder: Path) -> None:
    long = ("--input-tokens", "20000", "--output-tokens", "500", "--rate", "0.001", "--quality", "lossless")
    found = recommended(*long, "--offline", "--instance-type", "ml.p5.4xlarge", "--limit", "100", model=QWEN[0])
    left_out = [each for each in found["left_out"] if each["rule"] == "OPT231"]
    assert any("a request has 20500 tokens, but the context has" in each["reason"] for each in left_out)
    refused = {tuple(each["techniques"]) for each in left_out}
    assert not refused & {tuple(each["techniques"]) for each in found["candidates"]}


def test_what_misses_the_objectives_is_ranked_by_how_far(folder: Path) -> None:
    result = run(*QWEN[:1], *LENGTHS, "--itl", "2ms", "--offline", "--quality", "lossless", "--json")
    found = json.loads(result.stdout)["candidates"]
    missed = [float(each["missed"][0].split(" ms")[0].rpartition(" ")[2].replace(",", "")) for each in found]
    assert missed == sorted(missed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pools", "2", *CHAT), "add --update"),
        (("--max-price", "10", "--offline", *CHAT), "--max-price needs prices. No prices"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments: tuple[str, ...], said: str) -> None:
    result = run(QWEN[0], *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", "").split())


def test_where_nothing_meets_the_nearest_are_listed_with_what_to_give_up(folder: Path) -> None:
    arguments = (*QWEN, *LENGTHS, "--itl", "3ms", "--quality", "lossless", "--instance-type", P5)
    result = run(*arguments, "--update")
    assert result.exit_code == 2
    assert (
        "No recipe meets these objectives with a probability of 80%: requests of 1000+300 tokens, a token every 3 ms, "
        "lossless." in result.stderr
    )
    assert "with a probability of 80%" in result.stderr
    assert len(rows(result)) > 1
    assert re.search(r"^1[\d, ]*: inter-token latency: [\d,]+ ms instead of 3$", result.stdout, re.MULTILINE)
    assert not (folder / LOCK_FILE).exists()
    found = json.loads(run(*arguments, "--json").stdout)
    assert not any(each["meets"] for each in found["candidates"])
    assert all(each["missed"] for each in found["candidates"])


def test_what_is_impossible_is_refused_with_what_is_possible() -> None:
    result = run(*QWEN, *LENGTHS, "--itl", "0.01ms", "--json")
    assert result.exit_code == 2
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["rule"] == "OPT233"
    assert re.match(r"[\d.]+ ms or more", violation["suggestion"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--ttft", "1ms"), "OPT232 --ttft = '1ms'"),
        (("--itl", "0.01 ms"), "OPT233 --itl = '0.01 ms'"),
        (("--output-tokens", "100000"), "OPT231 --input-tokens and --output-tokens = 101000"),
    ],
)
def test_impossible_objectives_are_named_as_the_options_that_were_given(given: tuple[str, ...], said: str) -> None:
    result = run(*QWEN, *LENGTHS, *given)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_types_with_a_price_come_before_those_without_which_are_named(folder: Path) -> None:
    prices = prices_of(folder, g5_12xlarge=7.09)
    result = run(QWEN[0], "--offline", *LENGTHS, "--ttft", "1s", "--itl", "40ms", *prices)
    assert result.exit_code == 0, result.output
    first, *others = rows(result)
    assert first.split()[1:5] == ["1", "x", "ml.g5.12xlarge", "7.09"]
    assert any("unknown" in row for row in others)
    assert re.search(r"^No price for (ml\.\S+, ){2}ml\.\S+ and \d+ more types: recipes on", result.stdout, re.MULTILINE)


def test_of_recipes_of_the_same_price_those_that_keep_the_context_come_first(folder: Path) -> None:
    on_one = ("--instance-type", "ml.p5.4xlarge", "--offline", *prices_of(folder, p5_4xlarge=6.88))
    found = recommended(*LENGTHS, "--rate", "0.1", *on_one, model=QWEN[0])["candidates"]
    shortened = ["constructs-optim:OPT053" in each["warnings"] for each in found]
    assert {each["price_per_hour"] for each in found} == {6.88}
    assert shortened == sorted(shortened)
    assert {*shortened} == {True, False}


def test_all_wrong_objectives_are_refused_at_once() -> None:
    given = [*QWEN, "--ttft", "fast", "--rate", "-1", "--confidence", "2"]
    result = run(*given, "--json")
    assert result.exit_code == 2
    violations = json.loads(result.stdout)["violations"]
    assert {each["rule"] for each in violations} == {"OPT230"}
    assert [each["location"].partition(".")[2] for each in violations] == [
        "requests_per_second",
        "time_to_first_token",
        "confidence",
    ]
    printed = run(*given).stderr.splitlines()
    assert [line.split()[1] for line in printed if "OPT230" in line] == ["--rate", "--ttft", "--confidence"]


def test_a_maximum_price_ranks_what_costs_more_behind(folder: Path) -> None:
    known = prices_of(folder, p5_48xlarge=60, g6e_12xlarge=13)
    found = recommended(*QWEN[1:], *CHAT, *known, "--max-price", "50", "--limit", "100", model=QWEN[0])
    for each in found["candidates"]:
        dear = [missed for missed in each["missed"] if missed.startswith("price: ")]
        assert bool(dear) == (each["price_per_hour"] > 50)
    assert found["candidates"][0]["price_per_hour"] <= 50


def test_a_discount_lowers_the_prices(folder: Path) -> None:
    known = prices_of(folder, p5_48xlarge=60, g6e_12xlarge=13)
    full = recommended(*QWEN[1:], *CHAT, *known, model=QWEN[0])["candidates"][0]
    less = recommended(*QWEN[1:], *CHAT, *known, "--discount", "0.5", model=QWEN[0])["candidates"][0]
    assert less["price_per_hour"] == pytest.approx(full["price_per_hour"] / 2)


def test_existing_artifacts_need_no_job_and_damaged_evaluations_are_noted(store: Store) -> None:
    model = Model.jumpstart(MODEL, version="2.25.0", accept_eula=True)
    made = plan(Recipe(model=model, techniques=[Quantization.fp8()], instance_type=P4D, region="us-west-2"))
    assert made.artifact_key is not None
    store.put(f"artifacts/{made.artifact_key}/manifest.json", b"{}")
    store.put(f"evaluations/{artifact_key('y')}/result.json", b'{"schema": 9}')
    found = recommended(*TYPES, *CHAT, "--store", store.bucket, "--limit", "100")
    (fp8,) = [
        each
        for each in found["candidates"]
        if (each["techniques"], each["instance_type"]) == (["quantization=fp8"], P4D)
    ]
    assert fp8["jobs"] == []
    assert any("cannot be read" in note for note in found["notes"])


def test_offline_calls_no_aws_api_and_accepts_a_price_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    known = prices_of(folder, g5_48xlarge=16.5)
    found = recommended(*TYPES, *LENGTHS, "--offline", *known, "--model-version", "2.25.0")
    priced = {each["price_per_hour"] for each in found["candidates"] if each["instance_type"] == G5}
    assert priced == {16.5}
    assert any("AWS was not called" in note for note in found["notes"])
    assert any("prices" in note for note in recommended(*TYPES, *LENGTHS, "--offline")["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--offline", "--store", "bucket"), "--store needs calls to AWS"),
        (("--offline", "--prices", "/nowhere.json"), "cannot read"),
        (("--offline", "--discount", "1.5"), "discount is 1.5"),
        (("--offline", "--quality", "best"), "near-lossless"),
        (("--offline", "--pools", "6"), "less than or equal to 5"),
        (("--offline", "--rate", "many"), "valid number"),
        (("--offline", "--goal", "cost"), "--goal"),
    ],
)
def test_invalid_options_of_recommend_are_refused(arguments: tuple[str, ...], said: str) -> None:
    result = run(MODEL, *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", "").split())


@pytest.mark.parametrize("content", ["[]", '{"ml.g5.48xlarge": "much"}', '{"ml.g5.48xlarge": 0}', "{"])
def test_a_file_without_valid_prices_is_refused(tmp_path: Path, content: str) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(content)
    result = run(MODEL, "--offline", "--prices", str(prices))
    assert result.exit_code == 2
    assert "prices.json" in result.stderr


def test_a_lock_file_of_another_release_is_refused_and_stays(folder: Path) -> None:
    (folder / LOCK_FILE).write_text('{"version": 2}')
    result = run(*QWEN, *CHAT, "--update")
    assert result.exit_code == 2
    assert "is a lock file of a newer release (version 2, and this release reads 1)" in " ".join(
        result.stderr.replace("│", "").split()
    )
    assert (folder / LOCK_FILE).read_text() == '{"version": 2}'


def test_denied_prices_or_hub_documents_are_noted_and_the_rest_is_listed(store: Store) -> None:
    store.cloud.inject("access_denied", operation="GetProducts")
    store.cloud.inject("access_denied", operation="DescribeHubContent")
    found = recommended(*TYPES, *CHAT)
    assert {each["price_per_hour"] for each in found["candidates"]} == {None}
    assert found["version"] is None
    assert any("pricing:GetProducts" in note for note in found["notes"])
    assert any("sagemaker:DescribeHubContent" in note for note in found["notes"])


def test_an_unknown_model_or_version_is_refused_with_a_suggestion(store: Store) -> None:
    result = run("meta-textgeneration-lama-3-70b", "--json")
    assert result.exit_code == 2
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["rule"] == "OPT002"
    assert "did you mean" in violation["suggestion"]
    result = run(MODEL, "--model-version", "9.9.9")
    assert result.exit_code == 2
    assert "in version 9.9.9" in result.stderr


def test_models_of_hugging_face_are_ranked_before_their_commit_is_fixed() -> None:
    arguments = ("Qwen/Qwen3-32B", "--offline", "--instance-type", "ml.g6e.12xlarge", "--quality", "any", *LENGTHS)
    result = run(*arguments, "--json", "--limit", "100")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    copies = {job for each in found["candidates"] for job in each["jobs"] if job.startswith("copy-qwen")}
    assert copies == {"copy-qwen-qwen3-32b", "copy-qwen-qwen3-32b-awq", "copy-qwen-qwen3-32b-fp8"}
    assert {candidate["artifact_key"] for candidate in found["candidates"]} == {None}
    assert any("`constructs-optim lock --model Qwen/Qwen3-32B`" in note for note in found["notes"])
    assert NO_COMMIT not in result.stdout
    assert "constructs-optim plan --model Qwen/Qwen3-32B --region" in run(*arguments).stdout


def test_a_model_of_unknown_size_is_listed_without_a_forecast_and_with_how_to_look_it_up() -> None:
    result = run("acme/mine", "--offline", "--instance-type", P5, *LENGTHS)
    assert result.exit_code == 2
    assert "no forecast: the size of the model is unknown; `constructs-optim lock --model`" in result.stdout
    assert "No forecast: the size of acme/mine is unknown." in result.stderr


@pytest.mark.parametrize(
    ("model", "rule"), [("Qwen/Qwen3-32B@main", "OPT017"), ("a/b/c", "OPT008"), ("s3://M/", "OPT005")]
)
def test_a_model_that_cannot_be_is_refused_with_its_rule(model: str, rule: str) -> None:
    result = run(model, "--offline")
    assert result.exit_code == 2
    assert rule in result.stderr


def test_recipes_are_planned_with_what_the_app_s_lock_file_has_recorded(folder: Path) -> None:
    commit = {QWEN[0]: RecordedModel(revision="a" * 40, gated=False)}

    def key() -> str:
        found = recommended(*QWEN[1:], *CHAT, "--quality", "lossless", "--limit", "100", model=QWEN[0])["candidates"]
        return next(each["artifact_key"] for each in found if not each["techniques"])

    Lock(models=commit).write(folder / LOCK_FILE)
    newest = key()
    recorded = {QWEN[0]: RecordedArtifact(version=99, storage_gb=128)}
    Lock(models=commit, artifacts=recorded).write(folder / LOCK_FILE)
    assert key() != newest


def test_a_model_of_unknown_size_has_no_ranking() -> None:
    result = CliRunner().invoke(app, ["recommend", "Qwen/Qwen9-32B", "--ttft", "1s", "--rate", "1", "--offline"])
    assert result.exit_code == 2
    assert "1 request/s" in result.stdout
    assert "Did you mean Qwen/Qwen3-32B" in result.stdout
    assert "ml.g4dn.xlarge" not in result.stdout
    assert "No forecast: the size of Qwen/Qwen9-32B is unknown" in result.stderr
