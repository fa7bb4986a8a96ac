"""What is wrong in a file is told by file, line and column, all of it at once."""

from __future__ import annotations

import json
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from constructs_optim.constructs.declaration import builder, document
from constructs_optim.constructs.declaration.document import DeclarationError, Document, FileViolation
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack, stack_form
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.forms import Form
from constructs_optim.recipe.report import refusal_report

VALID = textwrap.dedent(
    """\
    stack: Chat
    endpoints:
      Llama:
        model:
          jumpstart: {model_id: meta-textgeneration-llama-3-8b, version: 2.24.0, accept_eula: true}
        techniques:
          - quantization: awq
        instance_type: ml.g5.12xlarge
    """
)


TOPICS = [f"arn:aws:sns:us-west-2:111122223333:topic{n}" for n in range(6)]


def refused(text: str) -> list[tuple[str, Any, str, str]]:
    """Location, value, reason and suggestion of everything that is wrong in a file."""
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(text, "endpoint.yaml"))
    assert str(error.value).startswith("the declaration has ")
    return [(each.location, each.value, each.reason, each.suggestion) for each in error.value.violations]


def replaced(old: str, new: str) -> str:
    assert old in VALID
    return VALID.replace(old, new)


MISTAKES: list[tuple[str, str, str, str]] = [
    ("stack: A\n  b: [\n", "endpoint.yaml:2:4", "mapping values are not allowed here", "YAML 1.2"),
    ("stack: A\nstack: B\n", "endpoint.yaml:2:1", "two keys 'stack'", "one of them"),
    ("", "endpoint.yaml:1:1", "the file is empty", "`stack: <name>`"),
    ("- a\n", "endpoint.yaml:1:1", "not a mapping", "a mapping"),
    (replaced("stack: Chat\n", ""), "endpoint.yaml:1:1 stack", "'stack' is needed", "stack: ..."),
    (replaced("stack: Chat", "stack: 1"), "endpoint.yaml:1:8 stack", "this is not text", "for example Chat-prod"),
    (
        replaced("stack: Chat", "stack: a_b"),
        "endpoint.yaml:1:8 stack",
        "it must not contain '_'",
        "for example a-b",
    ),
    (replaced("stack: Chat", 'stack: "Chat'), "endpoint.yaml:1:8", "this quote is not closed", "the same quote"),
    (
        f"schema: 2\nregions: [a]\n{VALID}",
        "endpoint.yaml:1:9 schema",
        "this release knows schema 1",
        "a newer release",
    ),
    (f"schema: one\n{VALID}", "endpoint.yaml:1:9 schema", "does not work", "a whole number"),
    (f"account: 012345678901\n{VALID}", "endpoint.yaml:1:10 account", "is not text", 'in quotes: "012345678901"'),
    (f"region: frankfurt\n{VALID}", "endpoint.yaml:1:9 region", "does not work", "for example us-west-2"),
    (
        f"parameters: {{A: {{type: Numbr}}}}\n{VALID}",
        "endpoint.yaml:1:24 parameters.A.type",
        "does not work",
        "for example String, Number",
    ),
    (
        f"parameters: {{A: {{default: [1]}}}}\n{VALID}",
        "endpoint.yaml:1:27 parameters.A.default",
        "does not work",
        "text or a whole number or a number",
    ),
    (
        f"parameters: {{A: {{}}}}\n{VALID}    scaling: {{max_capacity: '${{A}}'}}\n",
        "endpoint.yaml:10:29 endpoints.Llama.scaling.max_capacity",
        "a parameter of type String",
        "a Number parameter",
    ),
    (
        f"parameters: {{A: {{}}}}\n{replaced('ml.g5.12xlarge', '${A}')}",
        "endpoint.yaml:9:20 endpoints.Llama.instance_type",
        "known only at deployment",
        "the type itself",
    ),
    (
        f"{VALID}    scaling: {{max_capacity: 4, on_concurrency: {{target: -1}}}}\n",
        "endpoint.yaml:9:57 endpoints.Llama.scaling.on_concurrency.target",
        "divides the metric by the target",
        "",
    ),
    (
        f"{VALID}    monitoring: {{alarms: {{latency: {{threshold: much}}}}}}\n",
        "endpoint.yaml:9:48 endpoints.Llama.monitoring.alarms.latency.threshold",
        "this value does not work",
        "a number",
    ),
    ("stack: Chat\nendpoints: {}\n", "endpoint.yaml:1:1", "no resources", "endpoints"),
    (replaced("endpoints:", "enpoints:"), "endpoint.yaml:2:1 enpoints", "there is no 'enpoints'", "endpoints"),
    (
        replaced("instance_type:", "instancetype:"),
        "endpoint.yaml:8:5 endpoints.Llama.instancetype",
        "there is no 'instancetype' here",
        "did you mean instance_type",
    ),
    (
        replaced("awq", "{awq: {group_sizes: 64}}"),
        "endpoint.yaml:7:30 endpoints.Llama.techniques[0].quantization.awq.group_sizes",
        "there is no 'group_sizes' here",
        "did you mean group_size?",
    ),
    (
        replaced("awq", "{awq: {group_size: 48}}"),
        "endpoint.yaml:7:42 endpoints.Llama.techniques[0].quantization.awq.group_size",
        "does not work",
        "one of 32, 64 or 128",
    ),
    (
        replaced("awq", "int4"),
        "endpoint.yaml:7:23 endpoints.Llama.techniques[0].quantization",
        "there is nothing with that name",
        "did you mean awq?",
    ),
    (
        replaced("- quantization: awq", "- quantisation: awq"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0].quantisation",
        "there is no 'quantisation' here",
        "did you mean quantization?",
    ),
    (
        replaced("- quantization: awq", "- quantisation=awq"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0]",
        "there is nothing with that name",
        "did you mean quantization: {...}?",
    ),
    (
        replaced("- quantization: awq", "- awq"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0]",
        "there is nothing with that name",
        "did you mean quantization: awq?",
    ),
    (
        replaced("- quantization: awq", "- fp8: {}"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0].fp8",
        "there is no 'fp8' here",
        "did you mean kv_cache: {fp8: {}} or quantization: {fp8: {}}?",
    ),
    (
        replaced("- quantization: awq", "- quantization=awq,group_size=64"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0]",
        "it needs settings",
        "quantization: {...}",
    ),
    (
        replaced("- quantization: awq", "- {quantization: awq, sharding: fast_load}"),
        "endpoint.yaml:7:9 endpoints.Llama.techniques[0]",
        "exactly one",
        "an item for each: {quantization: awq}, {sharding: fast_load}",
    ),
    (
        replaced("instance_type: ml.g5.12xlarge", "instance_type:"),
        "endpoint.yaml:8:5 endpoints.Llama.instance_type",
        "there is no value",
        "leave the key out",
    ),
    (
        f"{VALID}    variant: {{container_startup_timeout: 20 minutes}}\n",
        "endpoint.yaml:9:42 endpoints.Llama.variant.container_startup_timeout",
        "does not work",
        "a duration: 90s, 15m, 6h or 7d",
    ),
    # What rules refuse, in the words of a file.
    (
        replaced("accept_eula: true", "accept_eula: false"),
        "endpoint.yaml:5:91 endpoints.Llama.model.jumpstart.accept_eula",
        "only you can accept",
        "{jumpstart: {model_id: meta-textgeneration-llama-3-8b, version: 2.24.0, accept_eula: true}}",
    ),
    (
        replaced("ml.g5.12xlarge", "ml.g5.12xlarg"),
        "endpoint.yaml:8:20 endpoints.Llama.instance_type",
        "no endpoint instance type with this name",
        "did you mean ml.g5.12xlarge",
    ),
    (
        f"{VALID}    scaling: {{max_capacity: 0}}\n",
        "endpoint.yaml:9:29 endpoints.Llama.scaling.max_capacity",
        "the maximum is at least 1",
        "a whole number, 1 or greater",
    ),
    # What constructs refuse.
    (
        f"{VALID}    objectives: {{input_tokens: 1, output_tokens: 1}}\n",
        "endpoint.yaml:7:7 endpoints.Llama.techniques",
        "are set",
        "the choice for the objectives determines these values",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Lama.endpoint_name}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "no parameter 'Lama.endpoint_name'",
        "there is",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Lama}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "no parameter 'Lama'",
        "did you mean ${Llama.…}?",
    ),
    (
        f"parameters: {{P: {{}}}}\n{VALID}outputs:\n  Name: ${{Pager}}\n",
        "endpoint.yaml:11:9 outputs.Name",
        "no parameter 'Pager'",
        "there is ${P}, ${Llama.…}, or declare Pager: {} in parameters",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Llama.endpoint_nam}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "has no 'endpoint_nam'",
        "endpoint_name",
    ),
    (
        "stack: Chat\nendpoints: {Llama: {instance_type: ml.g5.12xlarge, inference_component: true}}\n"
        "outputs: {Url: '${Llama.openai_base_url}'}\n",
        "endpoint.yaml:3:16 outputs.Url",
        "has no model of its own",
        "the URL of one of its components",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Llama._endpoint}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "has no '_endpoint'",
        "",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Llama.plans.3.summary}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "has no item 3",
        "",
    ),
    (
        f"{VALID}outputs:\n  Name: ${{Llama.grant_invoke}}\n",
        "endpoint.yaml:10:9 outputs.Name",
        "is not text",
        "",
    ),
    (
        f"{VALID}outputs:\n  Type: ${{Llama.plan}}\n",
        "endpoint.yaml:10:9 outputs.Type",
        "not text, but of the type Plan",
        "container",
    ),
    (
        f"{VALID}    scaling: {{max_capacity: 4}}\noutputs:\n  Type: ${{Nothing}}\n",
        "endpoint.yaml:11:9 outputs.Type",
        "there is no parameter 'Nothing'",
        "there is ${Llama.…}, or declare parameters: {Nothing: {}} at the top of the file",
    ),
    (
        f"{VALID}    artifact_store: Artifacts\n",
        "endpoint.yaml:9:21 endpoints.Llama.artifact_store",
        "'Artifacts' is not the ID of one of this file's artifact_stores",
        "",
    ),
    (
        f"{VALID}    artifact_store: My Store!\n",
        "endpoint.yaml:9:21 endpoints.Llama.artifact_store",
        "'My Store!' is not the ID of one of this file's artifact_stores",
        "{from_bucket: {bucket: ...}}",
    ),
    (
        f"{VALID}    scaling: {{max_capacity: '${{Count}}'}}\n",
        "endpoint.yaml:9:29 endpoints.Llama.scaling.max_capacity",
        "there is no parameter 'Count'",
        "",
    ),
    (
        f"{VALID}    variant: {{initial_instance_count: '${{Count}}'}}\n",
        "endpoint.yaml:9:39 endpoints.Llama.variant.initial_instance_count",
        "does not work",
        "a whole number",
    ),
    (
        f"{VALID}    scaling: {{max_capacity: [4]}}\n",
        "endpoint.yaml:9:29 endpoints.Llama.scaling.max_capacity",
        "this is another kind of value",
        'a number, or a parameter: "${MaxCapacity}", with',
    ),
    (
        f"{VALID}tags: {{team: '${{Team'}}\n",
        "endpoint.yaml:9:14 tags.team",
        "`${` begins a reference",
        '`"${Name}"`',
    ),
    (f"{VALID}tags: {{team: a#b}}\n", "endpoint.yaml:9:14 tags.team", "it must not contain '#'", "for example a-b"),
    (f"{VALID}tags: {{a#b: team}}\n", "endpoint.yaml:9:8 tags.a#b", "it must not contain '#'", "for example a-b"),
    (
        f"{VALID}outputs: {{Name: '${{Team'}}\n",
        "endpoint.yaml:9:17 outputs.Name",
        "`${` begins a reference",
        "`$${` for the characters themselves",
    ),
    (
        f"{VALID}policy: {{alarm_actions_required: true, severities: {{POL001: warning}}}}\n",
        "endpoint.yaml:9:61 policy.severities.POL001",
        "the rule is not enabled",
        "also set allowed_instance_types",
    ),
    (
        f"{VALID}    monitoring: {{alarms: {{error_rate: {{period_seconds: 7}}}}}}\n",
        "endpoint.yaml:9:56 endpoints.Llama.monitoring.alarms.error_rate.period_seconds",
        "error_rate does not accept this period_seconds",
        "10, 20, 30, or a multiple of 60",
    ),
    (
        f"{VALID}    variant: {{container_startup_timeout: 10s}}\n",
        "endpoint.yaml:9:42 endpoints.Llama.variant.container_startup_timeout",
        "1 minute to 1 hour",
        "1m to 1h",
    ),
    (
        f"{VALID}    update_policy: {{canary: {{percent: 80}}}}\n",
        "endpoint.yaml:9:39 endpoints.Llama.update_policy.canary.percent",
        "at most 50%",
        "1 to 50%",
    ),
    (
        f"{VALID}    monitoring: {{alarm_actions: [{', '.join(TOPICS)}]}}\n",
        "endpoint.yaml:9:33 endpoints.Llama.monitoring.alarm_actions",
        "has 6 different actions, and CloudWatch allows an alarm 5",
        "an SNS topic",
    ),
    (
        f"{VALID}    monitoring: {{observability: {{detailed: false}}, alarms: {{queue: true}}}}\n",
        "endpoint.yaml:9:68 endpoints.Llama.monitoring.alarms.queue",
        "the endpoint has observability: {detailed: false}",
        "server: vllm or server: sglang",
    ),
    (
        f"{VALID}    dashboard: {{show_costs: {{instance_price_per_hour: -1}}}}\n",
        "endpoint.yaml:9:55 endpoints.Llama.dashboard.show_costs.instance_price_per_hour",
        "a price is above zero",
        "7.09, for instance",
    ),
    (
        f"{VALID}    shadow: {{candidate: {{techniques: [{{quantization: fp8}}]}}, checks: [answered]}}\n",
        "endpoint.yaml:4:5 endpoints.Llama.data_capture",
        "the captured responses of both variants",
        "{bucket: ...}",
    ),
    (
        f"{VALID}outputs: {{Where: '${{AWS::Regoin}}'}}\n",
        "endpoint.yaml:9:18 outputs.Where",
        "no pseudo parameter 'AWS::Regoin'",
        "AWS::Region",
    ),
    (
        f"{VALID}parameters: {{'a-b': {{}}}}\n",
        "endpoint.yaml:9:14 parameters.a-b",
        "it must not contain '-'",
        "for example ab",
    ),
    (
        replaced("model:\n      jumpstart: {", "model: jumpstart\n    variant: {routing: random} # {"),
        "endpoint.yaml:4:12 endpoints.Llama.model",
        "'jumpstart' is a kind of model",
        "a mapping with that key",
    ),
    (
        f"{VALID}    acknowledge: [{{rule: POL999, reason: none}}]\n",
        "endpoint.yaml:9:19 endpoints.Llama.acknowledge[0]",
        "there is no rule 'POL999'",
        "POL001",
    ),
    (
        replaced("    instance_type: ml.g5.12xlarge\n", "    <<: &a {rules: x, instance_type: ml.g5.12xlarge}\n"),
        "endpoint.yaml:8:13 endpoints.Llama.rules",
        "there is no 'rules' here",
        "",
    ),
]


@pytest.mark.parametrize(
    ("text", "location", "reason", "suggestion"),
    MISTAKES,
    ids=[f"{location}: {reason}" for _, location, reason, _ in MISTAKES],
)
def test_a_mistake_has_its_place_a_reason_and_a_fix(
    text: str, location: str, reason: str, suggestion: str, snapshot: SnapshotAssertion
) -> None:
    (found,) = refused(text)
    assert found[0] == location
    assert reason in found[2]
    assert suggestion in found[3]
    # Word for word in a file, where a change of a text shows.
    assert "{} = {!r}: {}. {}".format(*found) == snapshot


def test_one_error_lists_all_mistakes_of_the_form() -> None:
    text = replaced("awq", "awqq").replace("instance_type", "instancetype").replace("stack: Chat", "stak: Chat")
    assert [location for location, *_ in refused(text)] == [
        "endpoint.yaml:1:1 stack",
        "endpoint.yaml:1:1 stak",
        "endpoint.yaml:7:23 endpoints.Llama.techniques[0].quantization",
        "endpoint.yaml:8:5 endpoints.Llama.instancetype",
    ]


def test_values_in_errors_are_written_as_in_the_file() -> None:
    text = replaced("accept_eula: true", "accept_eula: false") + "    variant: {container_startup_timeout: 10s}\n"
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(text, "endpoint.yaml"))
    for shown in ("accept_eula = false\n", "container_startup_timeout = 10s\n"):
        assert shown in str(error.value)
    assert "data_capture = null\n" in str(
        FileViolation(rule="OPT191", location="data_capture", value=None, reason="", suggestion="", link="")
    )


def test_one_error_lists_the_violations_of_all_endpoints() -> None:
    second = VALID.split("endpoints:\n")[1].replace("Llama", "Other").replace("ml.g5.12xlarge", "ml.g6.xlarg")
    text = replaced("accept_eula: true", "accept_eula: false") + second
    assert [location.partition(" ")[2] for location, *_ in refused(text)] == [
        "endpoints.Llama.model.jumpstart.accept_eula",
        "endpoints.Other.instance_type",
    ]


def test_a_missing_file_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="No such file"):
        Document.read(tmp_path / "endpoint.yaml")
    (tmp_path / "endpoint.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(DeclarationError, match="UTF-8"):
        Document.read(tmp_path / "endpoint.yaml")


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(DeclarationError) as refused:
        Document.read(Path("a\0b"))
    (violation,) = refused.value.violations
    assert "null" in violation.reason
    assert violation.suggestion == "the path of a file of YAML or JSON"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- &a [*a]\n", "contains itself"),
        ("[" * 5_000, "nested too deeply"),
        (
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "too many values",
        ),
        ("stack: !!python/object:os.system {}\n", "endpoint.yaml:1:8 ="),
    ],
)
def test_files_that_would_exhaust_a_reader_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Document.parsed(text, "endpoint.yaml").validated(stack_form())
    assert reason in str(error.value)


def merges(levels: int, references: int) -> str:
    """Mappings that each merge the one before several times."""
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * references)}]}}\n" for n in range(1, levels)]
    return "".join(["a0: &a0 {k: v}\n", *lines])


def test_nested_merges_are_read_once_each() -> None:
    text = merges(11, 9)
    assert len(text) < 700
    assert Document.parsed(text, "endpoint.yaml").data == {f"a{n}": {"k": "v"} for n in range(11)}


def test_a_merged_key_has_the_place_where_it_is_written() -> None:
    document = Document.parsed("a: &a {b: 1, c: 2}\nd:\n  c: 3\n  <<: *a\n", "endpoint.yaml")
    assert document.data["d"] == {"b": 1, "c": 3}
    assert document.at(("d", "b"), is_key=True) == "endpoint.yaml:1:8 d.b"
    assert document.at(("d", "c"), is_key=True) == "endpoint.yaml:3:3 d.c"


@pytest.mark.parametrize(
    "pair",
    [
        f'A: "{"a" * 200_000}", B: ${{Max}}',
        f'A: "{"a ${" * 50_000}", B: ${{Max}}',
        f"B: {'a' * 200_000}${{Max}}",
        f"B: ${{Max}}{'a' * 200_000}",
        f"B: {'${a}' * 50_000}",
        f"B: {'${a' * 50_000}",
    ],
    ids=["text", "references in quotes", "before", "after", "references", "open references"],
)
def test_a_reference_without_quotes_in_a_long_line_is_found_within_seconds(pair: str) -> None:
    start = time.process_time()
    with pytest.raises(DeclarationError, match=r"text with \$\{\.\.\.\} needs quotes"):
        Document.parsed(f"environment: {{{pair}}}\n", "endpoint.yaml")
    assert time.process_time() - start < 5


MANY = ", ".join(f"k{n}: 1" for n in range(5_000))


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        pytest.param("- a\n" * 2_500_000, "endpoint.yaml:125001:1", "more than 500,000 characters", id="10 MB"),
        pytest.param("- a\n" * 30_000, "endpoint.yaml:20000:3", "too many values", id="many values"),
        pytest.param(
            f"a: &a {{{MANY}}}\nb: {{<<: [*a, *a, *a, *a]}}\n", "endpoint.yaml:2:5", "too many values", id="merges"
        ),
        pytest.param("[" * 60, "endpoint.yaml:1:51", "nested too deeply", id="60 levels"),
        pytest.param("[" * 400_000, "endpoint.yaml:1:51", "nested too deeply", id="400,000 levels"),
        pytest.param("stack: " + "9" * 5_000, "endpoint.yaml:1:8", "too large", id="5,000 digits"),
        pytest.param("stack: -" + "9" * 400, "endpoint.yaml:1:8", "too large", id="400 digits"),
        pytest.param("stack: 0x" + "f" * 100_000, "endpoint.yaml:1:8", "too large", id="hexadecimal"),
        pytest.param("stack: 1e999", "endpoint.yaml:1:8", "too large", id="1e999"),
        pytest.param("stack: [-.inf]", "endpoint.yaml:1:9", "too large", id="infinity"),
        *(
            pytest.param(f"stack: !!{tag} {value}", "endpoint.yaml:1:8", f"the tag !!{tag}", id=f"{tag} of {value}")
            for tag, value in (
                ("bool", "abc"),
                ("float", "abc"),
                ("int", "abc"),
                ("map", "foo"),
                ("seq", "abc"),
                ("str", "{a: b}"),
                ("str", "[a]"),
                ("int", "{a: 1}"),
                ("null", "[]"),
                ("map", "[a]"),
                ("seq", "{a: b}"),
            )
        ),
        pytest.param("stack: .nan", "endpoint.yaml:1:8", "not a number", id="not a number"),
        pytest.param("a: 1\n<<: 3\n", "endpoint.yaml:2:5", "it is not a mapping", id="a merged number"),
        pytest.param("<<: [{a: 1}, b]\n", "endpoint.yaml:1:14", "it is not a mapping", id="a merged list"),
        pytest.param("? [a]\n: b\n", "endpoint.yaml:1:3", "this key is not text", id="a list as a key"),
        pytest.param("a: {~: b}\n", "endpoint.yaml:1:5", "this key is not text", id="a key without a value"),
        pytest.param("stack: \x07\n", "endpoint.yaml", "this is not YAML", id="a character that YAML has not"),
        pytest.param("a: &a {b: &b {<<: *a}}", "endpoint.yaml:1:11", "contains itself", id="a cycle through a key"),
        pytest.param("a: &a {<<: {<<: *a}}", "endpoint.yaml:1:4", "contains itself", id="a cycle of merges"),
    ],
)
def test_what_is_refused_at_once_has_a_place(text: str, place: str, reason: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Document.parsed(text, "endpoint.yaml")
    [violation] = error.value.violations
    assert (violation.location, reason in violation.reason) == (place, True), violation


def test_the_work_of_reading_a_file_is_limited_and_not_only_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mappings that merge thousands of keys, in a list of references that is as long."""
    copied = 0

    class Counted(dict[str, Any]):
        def keys(self) -> Any:
            nonlocal copied
            copied += len(self)
            return super().keys()

    members = document._Reader._members  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(document._Reader, "_members", lambda *arguments: Counted(members(*arguments)))
    with pytest.raises(DeclarationError, match="too many values"):
        Document.parsed(f"a: &a {{{MANY}}}\nb: {{<<: [{', '.join(['*a'] * 2_000)}]}}\n", "endpoint.yaml")
    assert copied < 25_000


def test_the_composer_ends_at_too_many_nodes_before_the_rest_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_MOST_VALUES", 3)
    with pytest.raises(DeclarationError) as error:
        Document.parsed("[1, 2, 3, 4, 5, 6, {", "endpoint.yaml")
    (violation,) = error.value.violations
    # The list and five of its items are as many nodes as three keys with values.
    assert violation.location == "endpoint.yaml:1:17"
    assert violation.reason == "the file has too many values"


def test_thousands_of_mistakes_are_reported_in_linear_time() -> None:
    """Each mistake is compared with others of its place, and not with all."""
    compared = 0

    class Value:
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = None  # type: ignore[assignment]

    each = [document.violation(f"endpoint.yaml:{n}:1", Value(), "wrong", "right") for n in range(3_000)]
    error = DeclarationError([*each, *each])
    assert len(error.violations) + (error.more or 0) == 3_000
    assert compared <= 3_000


def test_an_error_lists_the_first_100_mistakes_of_the_form_and_the_number_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each hint takes a search, and the time is limited however many mistakes a file has."""
    searches: list[str] = []
    hint = Form.hint
    monkeypatch.setattr(Form, "hint", lambda form, word, *rest: searches.append(word) or hint(form, word, *rest))
    # The keys at the top come last in pydantic's order.
    keys = "".join(f"instnce_type{n}: 1\n" for n in range(120))
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(keys + VALID + textwrap.indent(keys, "    "), "endpoint.yaml"))
    assert [each.location.split(":")[1] for each in error.value.violations] == [str(n) for n in range(1, 101)]
    assert error.value.more == 140
    assert str(error.value).startswith("the declaration has 240 errors:\n")
    assert str(error.value).endswith("\n  and 140 more")
    assert len(searches) == 100


def test_checks_end_after_100_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    search = builder.close_matches

    def counted(*arguments: Any) -> list[str]:
        nonlocal searches
        searches += 1
        return search(*arguments)

    monkeypatch.setattr(builder, "close_matches", counted)
    outputs = "".join(f"  O{n}: ${{Lama.name}}\n" for n in range(300))
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(f"{VALID}outputs:\n{outputs}", "endpoint.yaml"))
    assert len(error.value.violations) == 100
    assert error.value.more is None
    assert str(error.value).startswith("the declaration has more than 100 errors:\n")
    assert str(error.value).endswith("\n  and more")
    assert searches == 101
    assert refusal_report(error.value)["more"] is None


def test_a_hundred_mistakes_are_all_listed() -> None:
    outputs = "".join(f"  O{n}: ${{Lama.name}}\n" for n in range(100))
    with pytest.raises(DeclarationError, match="the declaration has 100 errors:") as error:
        DeclaredStack(Document.parsed(f"{VALID}outputs:\n{outputs}", "endpoint.yaml"))
    assert error.value.more == 0
    assert "more" not in refusal_report(error.value)


def test_json_and_anchors_are_yaml() -> None:
    as_json = '{"stack": "A", "endpoints": {}}'
    assert Document.parsed(as_json, "a.json").data == {"stack": "A", "endpoints": {}}
    anchored = "a: &model {kind: x}\nb: *model\n"
    assert Document.parsed(anchored, "a.yaml").data == {"a": {"kind": "x"}, "b": {"kind": "x"}}


def test_yaml_is_that_of_today() -> None:
    """No text is a number or a truth value by accident, as in YAML 1.1."""
    assert Document.parsed("a: on\nb: 1:30\nc: no\nd: 0o17\ne: 1_000\n", "a.yaml").data["a"] == "on"
    assert Document.parsed("a: 1:30", "a.yaml").data == {"a": "1:30"}


_KEYS = st.sampled_from(
    [*stack_form().model_fields, "Chat", "model", "techniques", "quantization", "awq", "scaling", "schema"]
)
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
_ANYTHING = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def test_the_place_of_a_value_from_the_command_line_is_its_option() -> None:
    document = Document("endpoint.yaml", {}, has_places=False, options={"model": "--model"})
    places = [document.place(path) for path in (("model",), ("model", "source"), ("techniques", 0), ())]
    assert places == ["--model", "--model", "endpoint.yaml", "endpoint.yaml"]


@given(_ANYTHING)
def test_whatever_a_file_holds_is_read_or_refused_with_places(data: Any) -> None:
    document = Document("endpoint.yaml", data)
    with suppress(RecipeError):
        document.validated(stack_form())
        return
    with pytest.raises(DeclarationError) as error:
        document.validated(stack_form())
    assert error.value.violations
    assert all(each.location.startswith("endpoint.yaml:1:1") for each in error.value.violations)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (r'stack: "\ud800"', "endpoint.yaml:1:8"),
        (r'"\udfff": 1', "endpoint.yaml:1:1"),
        (r'tags: {team: ["\ude00\ud83d"]}', "endpoint.yaml:1:15"),
    ],
)
def test_a_surrogate_that_stands_alone_is_refused_where_it_is(text: str, place: str) -> None:
    with pytest.raises(DeclarationError, match=r"a surrogate, .* stands alone") as error:
        Document.parsed(text, "endpoint.yaml")
    assert error.value.violations[0].location == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (r'stack: "a\U00110000"', "endpoint.yaml:1:10"),
        ('stack: Chat\nregion: "\\UFFFFFFFF"', "endpoint.yaml:2:10"),
    ],
)
def test_an_escape_beyond_the_last_character_is_refused_where_it_is(text: str, place: str) -> None:
    with pytest.raises(DeclarationError, match=r"the last one is \\U0010ffff") as error:
        Document.parsed(text, "endpoint.yaml")
    assert error.value.violations[0].location == place


@given(
    st.sampled_from(["", "!!int ", "!!float ", "!!bool ", "!!null ", "!!timestamp ", "!!str ", "!!binary ", "!!x "]),
    st.text("0123456789abcdefoxyzTU+-_.:e \\", max_size=12),
)
def test_any_tag_and_escape_is_read_or_refused(tag: str, text: str) -> None:
    with suppress(DeclarationError):
        Document.parsed(f'stack: {tag}"{text}"', "endpoint.yaml")


def test_an_alias_means_the_last_anchor_of_its_name(recwarn: pytest.WarningsRecorder) -> None:
    assert Document.parsed("a: &x 1\nb: &x 2\nc: *x", "endpoint.yaml").data["c"] == 2
    assert not recwarn.list


def test_two_escapes_of_json_are_one_character() -> None:
    document = Document.parsed(r'{"tags": {"\ud83d\ude00": "\ud83d\ude00"}}', "endpoint.json")
    assert document.data == {"tags": {"\N{GRINNING FACE}": "\N{GRINNING FACE}"}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"servers": 3}', "optim.lock.json is not a lock file of this release"),
        ('{"version": 2}', "optim.lock.json is a lock file of a newer release"),
        (None, "optim.lock.json cannot be read as a lock file (Is a directory)"),
    ],
)
def test_a_refused_lock_file_is_one_mistake_at_its_own_place(
    content: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is None:
        (tmp_path / "optim.lock.json").mkdir()
    else:
        (tmp_path / "optim.lock.json").write_text(content)
    second = VALID.split("endpoints:\n")[1].replace("Llama", "Other")
    ((location, value, given_reason, fix),) = refused(VALID + second)
    assert (location, value) == ("optim.lock.json", "optim.lock.json")
    assert given_reason.startswith(reason)
    assert "from version control" in fix


LINES = [
    # What a file has besides its endpoint's model, and the lines that rules refuse.
    (
        """\
    monitoring:
      alarms:
        latency:
          threshold: 20000
        error_rate:
          evaluation_periods: 300
        disk:
          evaluation_periods: 2
          datapoints_to_alarm: 3
        stale_evaluation:
          threshold: 9
        time_to_first_token: true
""",
        {
            ("OPT244", "threshold: 20000"),
            ("OPT087", "evaluation_periods: 300"),
            ("OPT087", "datapoints_to_alarm: 3"),
            ("OPT089", "threshold: 9"),
            ("OPT173", "time_to_first_token: true"),
        },
    ),
    (
        # A component's alarms are those of its endpoint.
        """\
    inference_component: true
    monitoring:
      alarms:
        latency:
          threshold: 20000
""",
        {("OPT244", "threshold: 20000")},
    ),
    (
        """\
    variant:
      container_startup_timeout: 2h
    environment:
      AWS_SECRET_ACCESS_KEY: abc
    server:
      vllm:
        container_version: 1.2.3
""",
        {
            ("OPT106", "container_startup_timeout: 2h"),
            ("OPT034", "AWS_SECRET_ACCESS_KEY: abc"),
            ("OPT037", "container_version: 1.2.3"),
        },
    ),
]


@pytest.mark.parametrize(("more", "lines"), LINES, ids=["alarms", "alarms of a component", "options"])
def test_each_violation_of_a_rule_has_the_line_of_its_key(more: str, lines: set[tuple[str, str]]) -> None:
    text = VALID + more
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(text, "endpoint.yaml"))
    written = text.splitlines()
    found = {(each.rule, written[int(each.location.split(":")[1]) - 1].strip()) for each in error.value.violations}
    assert found >= lines
    assert {line for _, line in found} == {line for _, line in lines}


_TOKEN = f"hf_{'Ab1' * 10}"
_SECRETS = [
    # What a file has besides its endpoint's model, and the secret in it.
    (f"environment: {{HF_TOKEN: {_TOKEN}}}", _TOKEN),
    ("environment: {DB_PASSWORD: hunter2}", "hunter2"),
    ("environment: {A_URL: 'https://me:hunter2@host.example'}", "hunter2"),
    (f"environment: {{VLLM_ARGS: '--api-key sk-{'Ab1' * 8}'}}", f"sk-{'Ab1' * 8}"),
    (f"environment: [HF_TOKEN={_TOKEN}]", _TOKEN),
    ("hf_token: hf_short", "hf_short"),
    ("network: {hf_token: hf_short}", "hf_short"),
    ("env: {DB_PASSWORD: hunter2}", "hunter2"),
    ("jobs: {environment: {DB_PASSWORD: hunter2}}", "hunter2"),
]


@pytest.mark.parametrize(("more", "secret"), _SECRETS, ids=[more for more, _ in _SECRETS])
def test_an_error_about_a_file_does_not_show_a_secret(more: str, secret: str) -> None:
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(f"{VALID}    {more}\n", "endpoint.yaml"))
    assert "(not shown)" in str(error.value)
    assert secret not in str(error.value)
    assert secret not in json.dumps(refusal_report(error.value))


def test_an_error_about_the_secret_of_a_model_does_not_show_the_token() -> None:
    model = "model:\n      huggingface: {model_id: a/b, token_secret_arn: hf_short} #"
    text = replaced("model:\n      jumpstart:", model)
    found = {location.partition(" ")[2]: value for location, value, *_ in refused(text)}
    assert found["endpoints.Llama.model.huggingface.token_secret_arn"] == "(not shown)"


def test_of_many_names_the_similar_ones_are_proposed() -> None:
    require = "require: {max_regression: 0.05, regression_metrics: [client_latency_p95]}"
    evaluation = f"    evaluations: {{Daily: {{{require}}}}}\n"
    with pytest.raises(DeclarationError) as error:
        DeclaredStack(Document.parsed(VALID + evaluation, "endpoint.yaml"))
    (violation,) = error.value.violations
    assert violation.suggestion.startswith("did you mean client_latency_p9")
