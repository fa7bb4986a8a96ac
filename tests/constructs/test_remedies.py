"""What errors about arguments print is run as it is printed, with what was passed, and the error is gone."""

from __future__ import annotations

import datetime as dt
import re
import textwrap
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction

import constructs_optim
from constructs_optim import (
    Alarms,
    JobOptions,
    Quantization,
    RecipeError,
    Server,
    SpeculativeDecoding,
)
from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

from ..support.construct_stacks import endpoint

_ACCOUNT = {"account": "111122223333", "region": "us-west-2"}


@pytest.fixture
def names() -> dict[str, Any]:
    """The variables of an app, and all that it imports."""
    stack = Stack(App(), "Chat", env=_ACCOUNT)  # type: ignore[arg-type]
    bucket = s3.Bucket(stack, "Captures")
    return {
        **{name: getattr(constructs_optim, name) for name in constructs_optim.__all__},
        "Duration": Duration,
        "SnsAction": SnsAction,
        "alarms": Alarms(),
        "bucket": bucket,
        "ec2": ec2,
        "key": kms.Key(stack, "Key"),
        "s3": s3,
        "sns": sns,
        "stack": stack,
        "topic": sns.Topic(stack, "Pages"),
        "vpc": ec2.Vpc(stack, "Network"),
    }


WRONG: list[tuple[str, str, str]] = [
    # What is called, its argument, and the wrong value.
    ("endpoint", "artifact_store", "bucket"),
    ("endpoint", "network", "vpc"),
    ("endpoint", "network", "'vpc-0a1b'"),
    ("endpoint", "monitoring", "alarms"),
    ("endpoint", "update_policy", "'canary'"),
    ("endpoint", "update_policy", "'rollng'"),
    ("endpoint", "data_capture", "bucket"),
    ("endpoint", "async_inference", "bucket"),
    ("endpoint", "variant", "2"),
    ("endpoint", "model", "'huggingface-llm-mistral-7b'"),
    ("endpoint", "model", "'s3://models/mine/'"),
    ("endpoint", "server", "'vllm'"),
    ("endpoint", "techniques", "Quantization.awq()"),
    ("endpoint", "techniques", "'awq'"),
    ("VariantOptions", "routing", "'random'"),
    ("VariantOptions", "container_startup_timeout", "600"),
    ("MonitoringOptions", "alarm_actions", "topic"),
    ("MonitoringOptions", "alarm_actions", "[topic]"),
    ("MonitoringOptions", "alarm_actions", "SnsAction(topic)"),
    ("NetworkOptions", "security_groups", "'sg-0a1b'"),
    ("Workload", "concurrency", "4"),
    ("JobOptions", "max_runtime", "timedelta(hours=2)"),
    ("UpdatePolicy.canary", "bake_time", "600"),
    ("UpdatePolicy.canary", "rollback_alarms", "'arn:aws:cloudwatch:us-west-2:111122223333:alarm:a'"),
    ("DataCapture", "bucket", "'captures'"),
    ("Quantization.awq", "ignored_layers", "'lm_head'"),
    ("ArtifactStore.from_bucket", "bucket", "'artifacts'"),
]


@pytest.mark.parametrize(("call", "argument", "wrong"), WRONG, ids=[f"{c}.{a}={w}" for c, a, w in WRONG])
def test_the_printed_code_is_accepted_in_place_of_what_was_passed(
    call: str, argument: str, wrong: str, names: dict[str, Any]
) -> None:
    from aws_cdk import aws_cloudwatch

    names |= {"timedelta": dt.timedelta, "cloudwatch": aws_cloudwatch}
    needed = {"UpdatePolicy.canary": {}, "Workload": {"requests": 10} if argument != "requests" else {}}.get(call, {})

    def created(value: Any, name: str) -> None:
        if call == "endpoint":
            endpoint(names["stack"], name, **{argument: value})
        else:
            eval(call, dict(names))(**needed, **{argument: value})

    given = eval(wrong, dict(names))
    with pytest.raises(RecipeError) as refused:
        created(given, "Wrong")
    (violation,) = refused.value.violations
    code = violation.suggestion.split(" or ")[0].removeprefix(f"{argument}=").removeprefix("in Python: ")
    # The placeholder is the variable of the value that was passed.
    code = code.replace("(...)", "()").replace("...", wrong)
    value = eval(code, dict(names))
    if violation.location.endswith(".0"):
        value = [value]
    if isinstance(given, list) and not isinstance(value, list):
        value = [value]
    created(value, "Right")


KEYWORDS = [
    # A keyword that an endpoint does not have, the value, and where it lives.
    ("vpc", "vpc", "network=NetworkOptions(vpc=...)"),
    ("vpc_config", "vpc", "network=NetworkOptions(vpc=...)"),
    ("kms_key", "key", "encryption_key"),
    ("instance_count", "2", "variant=VariantOptions(initial_instance_count=...)"),
    ("alarms", "alarms", "monitoring=MonitoringOptions(alarms=...)"),
    ("alarm_actions", "[SnsAction(topic)]", "monitoring=MonitoringOptions(alarm_actions=...)"),
    ("topic", "[SnsAction(topic)]", "monitoring=MonitoringOptions(alarm_actions=...)"),
    ("isolation", "True", "network=NetworkOptions(isolation=...)"),
    ("max_runtime", "Duration.hours(2)", "jobs=JobOptions(max_runtime=...)"),
    ("container_startup_timeout", "Duration.minutes(20)", "variant=VariantOptions(container_startup_timeout=...)"),
    ("instancetype", "'ml.g5.12xlarge'", "instance_type"),
]


@pytest.mark.parametrize(("keyword", "value", "home"), KEYWORDS, ids=[keyword for keyword, _, _ in KEYWORDS])
def test_an_unknown_keyword_is_told_where_the_setting_lives(
    keyword: str, value: str, home: str, names: dict[str, Any]
) -> None:
    scope = names["stack"]
    instance = {"instance_type": "ml.p4d.24xlarge"}
    with pytest.raises(TypeError) as refused:
        endpoint(scope, "Wrong", **{keyword: eval(value, dict(names))})
    assert f"{keyword!r} (did you mean {home}" in str(refused.value)
    if keyword == "kms_key":
        return  # its instance type has NVMe disks
    argument, _, code = home.partition("=")
    created = eval(code.replace("...", value) or value, dict(names))
    endpoint(scope, "Right", **{**instance, argument: created})


def test_arguments_of_methods_and_tags_are_told_where_they_live(names: dict[str, Any]) -> None:
    for keyword, hint in (("tags", "Tags.of(construct).add"), ("max_capacity", "auto_scale(max_capacity=...)")):
        with pytest.raises(TypeError) as refused:
            endpoint(names["stack"], "Wrong", **{keyword: 4})
        assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("call", "positional"),
    [
        (SpeculativeDecoding.custom_draft, "s3://drafts/one/"),
        (Server.vllm, "0.30.0"),
        (Quantization.awq, 64),
        (JobOptions, Duration.hours(2)),
    ],
)
def test_a_positional_setting_is_printed_with_a_name_that_accepts_it(call: Any, positional: Any) -> None:
    with pytest.raises(RecipeError) as refused:
        call(positional)
    (violation,) = refused.value.violations
    written = violation.suggestion.removeprefix("write the setting's name: ").split(" or ")
    assert written
    for each in written:
        name, _, code = each.partition("=")
        call(**{name: positional if code == "..." else eval(code)})


FILE = textwrap.dedent(
    """\
    stack: Chat
    endpoints:
      Chat:
        model: {jumpstart: {model_id: meta-textgeneration-llama-3-70b-instruct, version: 2.25.0, accept_eula: true}}
        techniques: [quantization: awq]
        instance_type: ml.g5.12xlarge
    """
)
IN_A_FILE = [
    # What is right, what is written instead, and the end of the corrected line.
    ("stack: Chat", "stack: my_chat", "stack: my-chat"),
    ("quantization: awq", "awq", "quantization: awq"),
    ("quantization: awq", "int4", "quantization: awq"),
    ("quantization: awq", "fp8", "quantization: fp8"),
    ("{quantization: awq}".strip("{}"), "quantization: awg", "quantization: awq"),
    ("instance_type: ml", "vpc: vpc-1\n    instance_type: ml", "network: {vpc: ...}"),
    ("instance_type: ml", "instance_count: 2\n    instance_type: ml", "variant: {initial_instance_count: ...}"),
    ("instance_type: ml", "max_capacity: 2\n    instance_type: ml", "scaling: {max_capacity: ...}"),
    ("instance_type: ml", "latency: {}\n    instance_type: ml", "monitoring: {alarms: {latency: ...}}"),
    ("instance_type: ml", "kms_key: a\n    instance_type: ml", "encryption_key"),
    ("instance_type: ml", "tags: {a: b}\n    instance_type: ml", "tags is a key of the whole file"),
    ("instance_type: ml", "network: vpc-1\n    instance_type: ml", "{vpc: {vpc_id: vpc-1, subnet_ids: ...}}"),
]


@pytest.mark.parametrize(("right", "written", "printed"), IN_A_FILE, ids=[written for _, written, _ in IN_A_FILE])
def test_a_mistake_in_a_file_prints_what_to_write(right: str, written: str, printed: str) -> None:
    assert right in FILE
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(FILE.replace(right, written), "endpoint.yaml"))
    (violation,) = refused.value.violations
    suggestion = re.sub(r"^did you mean (.*)\?$", r"\1", violation.suggestion)
    assert printed.removeprefix("stack: ").split("quantization: ")[-1] in suggestion
    code = suggestion.removeprefix("for example ").split(" or ")[-1]
    if right.startswith(("stack", "quantization")):
        corrected = written.partition(": ")[0] + ": " + code if ": " in written and ": " not in code else code
        DeclaredStack(Document.parsed(FILE.replace(right, corrected), "endpoint.yaml"))


def test_a_jumpstart_id_alone_is_printed_as_the_mapping() -> None:
    short = re.sub(r"jumpstart: \{.*?\}", "jumpstart: some-id", FILE)
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(short, "endpoint.yaml"))
    (violation,) = refused.value.violations
    assert violation.suggestion == "{model_id: some-id}"
    Document.parsed(short.replace("some-id", violation.suggestion), "endpoint.yaml")
