"""What an error about a file says that works, works: the file with it is accepted."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declaration.wording import flow
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

from ..support.sampling import one_in
from .test_document import VALID, refused


def declare(text: str) -> None:
    DeclaredStack(Document.parsed(text, "endpoint.yaml"))


def fix_of(text: str) -> str:
    (found,) = refused(text)
    return found[3]


def with_key(line: str) -> str:
    """A file whose endpoint has a further key."""
    return f"{VALID}    {line}\n"


NUMBER = "parameters: {MaxCapacity: {type: Number}}\n"
SCALING = "scaling: {max_capacity: @}"
ALARMS = "monitoring: {alarm_actions: [@]}"
TOPIC = "arn:aws:sns:us-west-2:111122223333:ops-topic"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CASES: dict[str, tuple[str, str, str, str]] = {
    # A file with the place of a value, the wrong value, what the error prints, and the value that follows it.
    "a parameter of the file": (
        NUMBER + with_key(SCALING),
        "four",
        'a number, or a parameter: "${MaxCapacity}"',
        '"${MaxCapacity}"',
    ),
    "a list instead of a number": (
        NUMBER + with_key(SCALING),
        "[4]",
        'a number, or a parameter: "${MaxCapacity}"',
        '"${MaxCapacity}"',
    ),
    "a number in quotes": (NUMBER + with_key(SCALING), '"4"', "4, without quotes", "4"),
    "a fraction in quotes": (
        NUMBER + with_key(SCALING),
        '"4.5"',
        'a number, or a parameter: "${MaxCapacity}"',
        '"${MaxCapacity}"',
    ),
    "a similar parameter": (NUMBER + with_key(SCALING), '"${MaxCapcity}"', '"${MaxCapacity}"', '"${MaxCapacity}"'),
    "an account": (
        f"account: @\n{VALID}",
        '"123"',
        '12 digits in quotes, for example "111122223333"',
        '"111122223333"',
    ),
    "a short account": (
        f"account: @\n{VALID}",
        "123",
        '12 digits in quotes, for example "111122223333"',
        '"111122223333"',
    ),
    "an account without quotes": (
        f"account: @\n{VALID}",
        "111122223333",
        'text, in quotes: "111122223333"',
        '"111122223333"',
    ),
    "a stack with a number's name": (VALID.replace("Chat", "@"), "1", "for example Chat-prod", "Chat-prod"),
    "a stack with a constant's name": (VALID.replace("Chat", "@"), "True_", "for example True-", "True-"),
    "a type of parameter": (
        f"parameters: {{A: {{type: @}}}}\n{VALID}",
        "Numbr",
        "for example String, Number, CommaDelimitedList, or AWS::EC2::VPC::Id",
        "CommaDelimitedList",
    ),
    "a pool's type": (
        with_key("instance_pools: [@]").replace(
            "    techniques:\n      - quantization: awq\n    instance_type: ml.g5.12xlarge\n", ""
        ),
        "ml.g5.48xlarge",
        "{instance_type: ml.g5.48xlarge}",
        "{instance_type: ml.g5.48xlarge}",
    ),
    "no ID of a schedule": (
        with_key("scaling: {max_capacity: 4, on_schedule: @}"),
        '{schedule: "rate(1 day)", min_capacity: 2}',
        '{Schedule: {schedule: "rate(1 day)", min_capacity: 2}}, where Schedule is an ID of your choice',
        '{Schedule: {schedule: "rate(1 day)", min_capacity: 2}}',
    ),
    "no ID of a metric's policy": (
        with_key("scaling: {max_capacity: 4, on_metric: @}"),
        "{metric: gpu_utilization, target: 3}",
        "{Metric: {metric: gpu_utilization, target: 3}}, where Metric is an ID of your choice",
        "{Metric: {metric: gpu_utilization, target: 3}}",
    ),
    "no ID of an evaluation": (
        with_key("evaluations: @"),
        '{schedule: "rate(1 day)", require: {p99_ttft_ms: 2000}}',
        '{Evaluation: {schedule: "rate(1 day)", require: {p99_ttft_ms: 2000}}}, '
        "where Evaluation is an ID of your choice",
        '{Evaluation: {schedule: "rate(1 day)", require: {p99_ttft_ms: 2000}}}',
    ),
    "no ID of a parameter": (
        f"{VALID}parameters: @\n",
        "{type: Number}",
        "{Parameter: {type: Number}}, where Parameter is an ID of your choice",
        "{Parameter: {type: Number}}",
    ),
    "a rule alone": (
        with_key("acknowledge: [@]"),
        "POL001",
        "{rule: POL001, reason: ...}",
        "{rule: POL001, reason: x}",
    ),
    "a rule alone, without a list": (
        with_key("acknowledge: @"),
        "POL001",
        "[{rule: POL001, reason: ...}]",
        "[{rule: POL001, reason: x}]",
    ),
    "a list of settings": (
        with_key("dashboard: @"),
        "true",
        "a mapping such as {show_costs: ...}",
        "{show_costs: {instance_price_per_hour: 7}}",
    ),
    "a topic's name": (with_key(ALARMS), "ops-topic", f"the ARN of an SNS topic, such as {TOPIC}", TOPIC),
    "a queue's ARN": (
        with_key(ALARMS),
        "arn:aws:sqs:us-west-2:111122223333:ops",
        "the ARN of an SNS topic, such as arn:aws:sns:us-west-2:111122223333:my-topic",
        "arn:aws:sns:us-west-2:111122223333:my-topic",
    ),
    "a key's alias": (
        with_key("data_capture: {bucket: my-bucket, encryption_key: @}"),
        "alias/mine",
        f"the ARN of a KMS key, such as {KEY}",
        KEY,
    ),
    "a role's path": (
        with_key("role: @"),
        "MyRole/../x",
        "the name or the ARN of a role, such as MyRole or arn:aws:iam::111122223333:role/MyRole",
        "arn:aws:iam::111122223333:role/MyRole",
    ),
    "a user": (
        with_key("role: @"),
        "arn:aws:iam::111122223333:user/me",
        "the name or the ARN of a role, such as MyRole or arn:aws:iam::111122223333:role/MyRole",
        "MyRole",
    ),
    "a bucket with capitals": (
        with_key("artifact_store: {from_bucket: {bucket: @}}"),
        "Shared",
        "the name or the ARN of a bucket, such as my-bucket or arn:aws:s3:::my-bucket",
        "arn:aws:s3:::my-bucket",
    ),
    "the numbers of an address as a bucket": (
        with_key("data_capture: {bucket: @}"),
        "10.0.0.1",
        "the name or the ARN of a bucket, such as my-bucket or arn:aws:s3:::my-bucket",
        "arn:aws:s3:::my-bucket",
    ),
    "a bucket's URI": (
        with_key("data_capture: {bucket: @}"),
        "s3://captures/",
        "the name or the ARN of a bucket, such as my-bucket or arn:aws:s3:::my-bucket",
        "my-bucket",
    ),
    "a bucket as a store": (
        with_key("artifact_store: @"),
        "my-bucket",
        "{from_bucket: {bucket: my-bucket}}",
        "{from_bucket: {bucket: my-bucket}}",
    ),
    "a parameter as a store": (
        f"parameters: {{Bucket: {{}}}}\n{with_key('artifact_store: @')}",
        '"${Bucket}"',
        '{from_bucket: {bucket: "${Bucket}"}}',
        '{from_bucket: {bucket: "${Bucket}"}}',
    ),
    "an endpoint of a fleet": (
        f"artifact_stores: {{Shared: {{}}}}\n{VALID}fleet_dashboards: {{Fleet: {{endpoints: [@]}}}}\n",
        "Shared",
        "Llama",
        "Llama",
    ),
    "an alarm's level": (
        with_key("monitoring: {alarms: {latency: @}}"),
        "high",
        "true or false, or settings such as {threshold: ...}",
        "{threshold: 20}",
    ),
    "a number of alarms": (
        with_key("monitoring: {alarms: @}"),
        "7",
        "none, or settings such as {error_rate: ...}",
        "none",
    ),
    "two choices": (
        with_key("update_policy: @"),
        "{canary: {percent: 10}, rolling: {percent: 20}}",
        "{canary: {percent: 10}} or {rolling: {percent: 20}}",
        "{canary: {percent: 10}}",
    ),
    "two techniques in one item": (
        VALID.replace("- quantization: awq", "- @").replace("g5", "g6e"),
        "{quantization: awq, kv_cache: fp8}",
        "an item for each: {quantization: awq}, {kv_cache: fp8}",
        "{quantization: awq}\n      - {kv_cache: fp8}",
    ),
    "several instance types": (
        with_key("@").replace("    techniques:\n      - quantization: awq\n    instance_type: ml.g5.12xlarge\n", ""),
        "instance_type: [ml.g5.12xlarge, ml.g5.48xlarge]",
        "one text, or in place of instance_type, "
        "instance_pools: [{instance_type: ml.g5.12xlarge}, {instance_type: ml.g5.48xlarge}]",
        "instance_pools: [{instance_type: ml.g5.12xlarge}, {instance_type: ml.g5.48xlarge}]",
    ),
}


@pytest.mark.parametrize(("text", "wrong", "printed", "right"), one_in(2, CASES.values()), ids=CASES)
def test_what_an_error_prints_is_accepted(text: str, wrong: str, printed: str, right: str) -> None:
    assert fix_of(text.replace("@", wrong)) == printed
    declare(text.replace("@", right))


INDENTED = {
    # What is changed in a file, the error's place and key, and what it prints.
    "one key": (
        ("    instance_type", "  instance_type"),
        ("8:3", "instance_type"),
        "indent `instance_type` below `Llama`",
    ),
    "a mapping before": (
        ("    instance_type: ml.g5.12xlarge", "  variant: {routing: random}\n  instance_type: ml.g5.12xlarge"),
        ("8:3", "variant"),
        "indent `variant` and `instance_type` below `Llama`",
    ),
    "keys after several IDs": (
        (
            "    instance_type: ml.g5.12xlarge\n",
            "  instance_type: ml.g5.12xlarge\n  Other: {model: a/b}\n  role: MyRole\n",
        ),
        ("8:3", "instance_type"),
        "indent `instance_type` below `Llama`, and `role` below `Other`",
    ),
}


@pytest.mark.parametrize(("change", "place", "printed"), INDENTED.values(), ids=INDENTED)
def test_keys_that_are_indented_too_little_go_below_their_id(
    change: tuple[str, str], place: tuple[str, str], printed: str
) -> None:
    ((location, _, reason, suggestion),) = refused(VALID.replace(*change))
    assert location == f"endpoint.yaml:{place[0]} endpoints.{place[1]}"
    assert reason == f"the keys here are IDs, and {place[1]!r} is a key below an ID"
    assert suggestion == printed


def test_keys_below_an_id_without_a_value_go_below_it() -> None:
    text = "stack: A\nendpoints:\n  Chat:\n  model: a/b\n  instance_type: ml.g5.12xlarge\n"
    assert [(location, fix) for location, *_, fix in refused(text)] == [
        ("endpoint.yaml:3:3 endpoints.Chat", "a value, or to leave the key out"),
        ("endpoint.yaml:4:3 endpoints.model", "indent `model` and `instance_type` below `Chat`"),
    ]


def test_a_key_after_thousands_of_ids_is_found_within_seconds() -> None:
    ids = "".join(f"  Parameter{number}: {{}}\n" for number in range(5_000))
    start = time.process_time()
    assert fix_of(f"{VALID}parameters:\n{ids}  type: Number\n") == "indent `type` below `Parameter4999`"
    assert time.process_time() - start < 10


def test_a_misspelled_key_beside_keys_is_no_id() -> None:
    text = "stack: A\nendpoints: {model: a/b, scalling: {max_capacity: 4}, instance_type: ml.g5.12xlarge}\n"
    suggestion = refused(text)[0][3]
    assert suggestion.startswith("{OptimizedEndpoint: {model: a/b, instance_type: ml.g5.12xlarge}}, where")


def test_an_image_of_ones_own_is_no_call_in_a_file() -> None:
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl:0.35.0"
    fix = fix_of(with_key(f'server: {{vllm: {{container_version: "{image}"}}}}'))
    assert fix == (
        "a tag of AWS's images or its beginning, such as 0.30.0; for an image of your own, declare its model and "
        "endpoint yourself: https://constructs-optim.dev/existing-endpoints/"
    )


DECLARED = {
    # A file, what its error prints, what follows it in the file, and what follows it before or in a section.
    "a number": (
        with_key("scaling: {max_capacity: four}"),
        'a number, or a parameter: "${MaxCapacity}", '
        "with parameters: {MaxCapacity: {type: Number}} at the top of the file",
        ("four", '"${MaxCapacity}"'),
        "parameters: {MaxCapacity: {type: Number}}\n",
    ),
    "an unknown parameter": (
        with_key("scaling: {max_capacity: '${Most}'}"),
        '"${Most}", with parameters: {Most: {type: Number}} at the top of the file',
        ("", ""),
        "parameters: {Most: {type: Number}}\n",
    ),
    "an unknown parameter in text": (
        with_key("monitoring: {alarm_actions: ['${Pages}']}"),
        "declare parameters: {Pages: {}} at the top of the file",
        ("", ""),
        "parameters: {Pages: {}}\n",
    ),
    "a store": (
        with_key("artifact_store: Shared"),
        "Shared, with artifact_stores: {Shared: {}} at the top of the file",
        ("", ""),
        "artifact_stores: {Shared: {}}\n",
    ),
}


@pytest.mark.parametrize(("text", "printed", "change", "more"), DECLARED.values(), ids=DECLARED)
def test_what_an_error_prints_to_declare_is_accepted(text: str, printed: str, change: Any, more: str) -> None:
    assert fix_of(text) == printed
    assert more.strip() in printed
    declare(more + text.replace(*change))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            f"parameters: {{Other: {{}}}}\n{with_key('scaling: {max_capacity: four}')}",
            'a number, or a parameter: "${MaxCapacity}", with MaxCapacity: {type: Number} in parameters',
        ),
        (
            f"parameters: {{Most: {{}}}}\n{with_key(SCALING.replace('@', repr('${Most}')))}",
            "a Number parameter: Most: {type: Number} in parameters",
        ),
        (
            f"parameters: {{Least: {{type: Number}}}}\n{with_key(SCALING.replace('@', repr('${Capacity}')))}",
            '"${Capacity}", with Capacity: {type: Number} in parameters',
        ),
        (
            f"artifact_stores: {{Other: {{}}}}\n{with_key('artifact_store: Shared')}",
            "Other or Shared, with Shared: {} in artifact_stores",
        ),
    ],
)
def test_a_section_that_the_file_has_is_not_written_twice(text: str, printed: str) -> None:
    assert fix_of(text) == printed
    (section,) = re.findall(r"in (\w+)$", printed)
    (new,) = re.findall(r"(\w+: \{[^}]*\}) in \w+$", printed)
    name = new.partition(":")[0]
    declared = re.sub(rf"^{section}: {{.*}}$", f"{section}: {{Unused: {{}}, {new}}}", text, flags=re.MULTILINE)
    declare(declared.replace("four", f'"${{{name}}}"'))


def test_any_number_that_the_file_has_is_proposed_for_a_number() -> None:
    text = f"parameters: {{Least: {{type: Number}}}}\n{with_key('scaling: {max_capacity: four}')}"
    assert fix_of(text) == 'a number, or a parameter: "${Least}"'


@pytest.mark.parametrize(
    "line",
    [
        "artifact_store: {from_bucket: {bucket: arn:aws-cn:s3:::my.bucket}}",
        "role: service-role/My+Role=,.@_-1",
        "role: arn:aws-us-gov:iam::111122223333:role/a/b/MyRole",
        f"data_capture: {{bucket: b-c, encryption_key: {KEY.partition('/')[0]}/mrk-0123456789abcdef0123456789abcdef}}",
        "monitoring: {alarm_actions: [arn:aws:sns:us-west-2:111122223333:pages.fifo]}",
        'monitoring: {alarm_actions: ["arn:${AWS::Partition}:sns:${AWS::Region}:${AWS::AccountId}:pages"]}',
        'role: "${AWS::StackName}-role"',
    ],
)
def test_names_and_arns_of_aws_are_accepted(line: str) -> None:
    declare(with_key(line))


NOT_YAML = {
    # The text, its error's place, reason and fix, and the text that follows the fix.
    "a reference in braces": (
        "a: {b: ${C}, d: 1}\n",
        ("1:8", "in braces and brackets, text with ${...} needs quotes", '"${C}", in quotes'),
        'a: {b: "${C}", d: 1}\n',
    ),
    "a reference in brackets": (
        "a:\n  [x, arn:${A::B}:c${D}e]\n",
        ("2:7", "in braces and brackets, text with ${...} needs quotes", '"arn:${A::B}:c${D}e", in quotes'),
        'a:\n  [x, "arn:${A::B}:c${D}e"]\n',
    ),
    "a reference as a key": (
        "a: {${C}: 1}\n",
        ("1:5", "in braces and brackets, text with ${...} needs quotes", '"${C}", in quotes'),
        'a: {"${C}": 1}\n',
    ),
    "half a reference": (
        "a: [${C\n",
        ("1:5", "in braces and brackets, text with ${...} needs quotes", '"${...}", in quotes'),
        'a: ["${C}"]\n',
    ),
    "a reference after a byte order mark": (
        "\ufeffa: [${C}]\n",
        ("1:5", "in braces and brackets, text with ${...} needs quotes", '"${C}", in quotes'),
        '\ufeffa: ["${C}"]\n',
    ),
    "a tab": (
        "a:\n\tb: 1\n",
        ("2:1", "there is a tab where only spaces are allowed", "indent with spaces: spaces in place of tabs"),
        "a:\n  b: 1\n",
    ),
    "an open brace": ("a: {b: 1,\n\n", ("1:4", "this `{` is not closed", "`}` after its last value"), "a: {b: 1,}\n"),
    "an open bracket": ("a:\n- b: [\n", ("2:6", "this `[` is not closed", "`]` after its last value"), "a:\n- b: []\n"),
    "an open bracket in another": (
        "a: [{b: c},\n  {d: e\n",
        ("2:3", "this `{` is not closed", "`}` after its last value"),
        "a: [{b: c},\n  {d: e}]\n",
    ),
    "an open brace before other keys": (
        "a: {b: 1\nc: 2\n",
        ("2:2", "expected ',' or '}', but got ':'", "`,` or `}` before this, because the `{` of line 1 is open"),
        "a: {b: 1}\nc: 2\n",
    ),
    "an open bracket in braces": (
        "a: {b: [1, }\n",
        (
            "1:12",
            "expected the node content, but found '}'",
            "a value or `]` before this, because the `[` of line 1 is open",
        ),
        "a: {b: [1, ]}\n",
    ),
    "an open quote": (
        "a: 'b\nc: 2\n",
        ("1:4", "this quote is not closed", "the same quote after the text"),
        "a: 'b'\nc: 2\n",
    ),
}


@pytest.mark.parametrize(("text", "said", "right"), NOT_YAML.values(), ids=NOT_YAML)
def test_text_that_is_not_yaml_has_the_place_to_change(text: str, said: tuple[str, str, str], right: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Document.parsed(text, "a.yaml")
    (found,) = error.value.violations
    assert (found.location, found.reason, found.suggestion) == (
        f"a.yaml:{said[0]}",
        f"this is not YAML: {said[1]}",
        said[2],
    )
    assert found.value == text.removeprefix("\ufeff").splitlines()[int(said[0].partition(":")[0]) - 1].strip()
    Document.parsed(right, "a.yaml")


def test_unknown_keys_are_those_that_the_mapping_lacks() -> None:
    found = refused(with_key("acknowledge: [{id: POL001, why: known}]"))
    unknown = [suggestion for _, _, reason, suggestion in found if reason.startswith("there is no")]
    assert unknown == ["did you mean rule or reason?"] * 2
    # A number is no rule's ID, and a similar name is likelier.
    found = refused(with_key("acknowledge: [{rules: POL001, reason: known}]"))
    assert "did you mean rule?" in [suggestion for *_, suggestion in found]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (VALID.replace("stack: Chat", "stack:"), "a value"),
        (with_key("acknowledge: [{rule: , reason: known}]"), "a value"),
        (VALID.replace("- quantization: awq", "-"), "a value, or to leave the item out"),
        (with_key("role:"), "a value, or to leave the key out"),
    ],
)
def test_what_is_empty_can_be_left_out_if_it_is_not_needed(text: str, fix: str) -> None:
    assert fix_of(text) == fix


def test_an_endpoint_without_an_instance_type_is_told_what_it_needs() -> None:
    fix = fix_of(VALID.replace("    instance_type: ml.g5.12xlarge\n", ""))
    assert fix == "instance_type: ml.g5.12xlarge, for instance, or instance_pools"


@pytest.mark.parametrize("value", ["${Type}", "ml.${Type}"])
def test_an_instance_type_of_a_parameter_is_refused_in_the_words_of_a_file(value: str) -> None:
    text = f"parameters: {{Type: {{}}}}\n{VALID.replace('ml.g5.12xlarge', value)}"
    ((_, given, reason, fix),) = refused(text)
    assert given == value
    assert "comes from a parameter" in reason
    assert "token" not in reason
    assert fix == "the type itself, without ${...}; to deploy with several, one file for each type"


def test_keys_of_text_are_not_keys_of_settings() -> None:
    found = refused(f"{VALID}tags: {{stack: 1, endpoints: 2}}\n")
    assert [(place.partition(" ")[2], fix) for place, _, _, fix in found] == [
        ("tags.stack", 'text, in quotes: "1"'),
        ("tags.endpoints", 'text, in quotes: "2"'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "stack: Chat\nendpoints: {model: a/b, environment: {DB_PASSWORD: hunter2}}\n",
        f"stack: Chat\nendpoints: {{model: a/b, instance_type: {'x' * 300}, environment: {{DB_PASSWORD: hunter2}}}}\n",
        with_key(f"evaluations: {{Daily: {{schedule: [hf_{'Ab1' * 10}]}}}}"),
        VALID.replace("model:\n      jumpstart: {", f"model: {{huggingface: hf_{'Ab1' * 10}}} # {{"),
    ],
)
def test_what_works_has_no_secret(text: str) -> None:
    for *_, fix in refused(text):
        assert "hunter2" not in fix
        assert "hf_Ab1" not in fix
        assert len(fix) < 300


@pytest.mark.parametrize("text", ["true", "True", "NULL", "False"])
def test_text_that_is_another_type_is_quoted(text: str) -> None:
    assert flow(text) == f'"{text}"'
