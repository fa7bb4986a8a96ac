"""What errors about arguments print is run as it is printed, with what was passed, and the error is gone."""

from __future__ import annotations

import ast
import datetime as dt
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from inspect import signature
from typing import Any, get_args

import pytest
from aws_cdk import App, Duration, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

import constructs_optim
from constructs_optim import (
    Adapters,
    Alarms,
    CapacityReservation,
    Compilation,
    CoreDumps,
    FineTune,
    JobOptions,
    Model,
    MonitoringOptions,
    NetworkOptions,
    Observability,
    OptimizedEndpoint,
    Placement,
    Quantization,
    RecipeError,
    Routing,
    ScaleIn,
    Server,
    SpeculationCure,
    SpeculativeDecoding,
    TrainingCompute,
    VariantOptions,
    Workload,
)
from constructs_optim.constructs.declaration.document import DeclarationError, Document, form_of_keys
from constructs_optim.constructs.declaration.schema import Call
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack
from constructs_optim.constructs.endpoint.endpoint_file import endpoint_form
from constructs_optim.recipe.forms import KEYS, Form
from constructs_optim.recipe.settings import Settings, accepts, form_of_call
from constructs_optim.recipe.techniques import REGISTRY

from ..support.construct_stacks import endpoint
from ..support.sampling import one_in

_ACCOUNT = {"account": "111122223333", "region": "us-west-2"}


@pytest.fixture
def names() -> dict[str, Any]:
    return names_of_an_app()


def names_of_an_app() -> dict[str, Any]:
    """The variables of an app, and all that it imports."""
    stack = Stack(App(), "Chat", env=_ACCOUNT)  # type: ignore[arg-type]
    bucket = s3.Bucket(stack, "Captures")
    return {
        **{name: getattr(constructs_optim, name) for name in constructs_optim.__all__},
        "Duration": Duration,
        "Size": Size,
        "SnsAction": SnsAction,
        "alarms": Alarms(),
        "alarm": [cloudwatch.Alarm.from_alarm_name(stack, "Existing", "alarm")],
        "bucket": bucket,
        "ec2": ec2,
        "group": [ec2.SecurityGroup.from_security_group_id(stack, "Members", "sg-1")],
        "key": kms.Key(stack, "Key"),
        "role": iam.Role.from_role_name(stack, "Caller", "role"),
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
    ("MonitoringOptions", "alarms", "True"),
    ("NetworkOptions", "vpc_subnets", "'subnet-1'"),
    ("VariantOptions", "container_startup_timeout", "600"),
    ("MonitoringOptions", "alarm_actions", "topic"),
    ("MonitoringOptions", "alarm_actions", "[topic]"),
    ("MonitoringOptions", "alarm_actions", "SnsAction(topic)"),
    ("NetworkOptions", "security_groups", "'sg-0a1b'"),
    ("Workload", "concurrency", "4"),
    ("Workload", "concurrency", "'4'"),
    ("Workload", "concurrency", "'1, 8'"),
    ("JobOptions", "max_runtime", "timedelta(hours=2)"),
    ("UpdatePolicy.canary", "bake_time", "600"),
    ("UpdatePolicy.canary", "rollback_alarms", "'arn:aws:cloudwatch:us-west-2:111122223333:alarm:a'"),
    ("DataCapture", "bucket", "'captures'"),
    ("Quantization.awq", "ignored_layers", "'lm_head'"),
    ("ArtifactStore.from_bucket", "bucket", "'artifacts'"),
]


@pytest.mark.parametrize(("call", "argument", "wrong"), one_in(2, WRONG), ids=[f"{c}.{a}={w}" for c, a, w in WRONG])
def test_the_printed_code_is_accepted_in_place_of_what_was_passed(
    call: str, argument: str, wrong: str, names: dict[str, Any]
) -> None:
    names |= {"timedelta": dt.timedelta, "cloudwatch": cloudwatch}
    needed = {"Workload": {"requests": 10}}.get(call, {})

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
    ("vpc", "vpc", "network=NetworkOptions(vpc=vpc)"),
    ("vpc_config", "vpc", "network=NetworkOptions(vpc=vpc)"),
    ("vpc", "'vpc-1'", "network=NetworkOptions(vpc=ec2.Vpc.from_lookup(stack, \"Vpc\", vpc_id='vpc-1'))"),
    ("kms_key", "key", "encryption_key"),
    ("instance_count", "2", "variant=VariantOptions(initial_instance_count=2)"),
    ("alarms", "Alarms(latency=AlarmSettings(threshold=20))", "monitoring=MonitoringOptions(alarms=Alarms(latency="),
    ("alarms", "True", "monitoring=MonitoringOptions(alarms=Alarms(latency=AlarmSettings(threshold=20)))"),
    ("latency", "20", "monitoring=MonitoringOptions(alarms=Alarms(latency=AlarmSettings(threshold=20)))"),
    ("alarm_actions", "topic", "monitoring=MonitoringOptions(alarm_actions=[SnsAction(topic)])"),
    ("topic", "topic", "monitoring=MonitoringOptions(alarm_actions=[SnsAction(topic)])"),
    ("isolation", "True", "network=NetworkOptions(isolation=True)"),
    ("max_runtime", "Duration.hours(2)", "jobs=JobOptions(max_runtime=Duration.seconds(7200))"),
    ("container_startup_timeout", "1200", "variant=VariantOptions(container_startup_timeout=Duration.seconds(1200))"),
    ("instancetype", "'ml.g5.12xlarge'", "instance_type"),
]


@pytest.mark.parametrize(
    ("keyword", "value", "home"), one_in(2, KEYWORDS), ids=[f"{keyword}={value}" for keyword, value, _ in KEYWORDS]
)
def test_an_unknown_keyword_is_refused_with_the_place_of_the_setting(
    keyword: str, value: str, home: str, names: dict[str, Any]
) -> None:
    scope = names["stack"]
    hosting: dict[str, Any] = {"instance_type": "ml.p4d.24xlarge"}
    if keyword == "kms_key":
        # Types with NVMe disks have no volume to encrypt.
        model = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)
        hosting = {"instance_type": "ml.inf2.48xlarge", "model": model, "techniques": [Compilation.neuron()]}
    with pytest.raises(TypeError) as refused:
        endpoint(scope, "Wrong", **{keyword: eval(value, dict(names))})
    assert f"{keyword!r} (did you mean {home}" in str(refused.value)
    (place,) = places_in(str(refused.value).partition(" (")[2][:-1])
    argument, _, code = place.partition("=")
    endpoint(scope, "Right", **{**hosting, argument: eval(code or value, dict(names))})


def places_in(hint: str) -> list[str]:
    """The code or the keys that a hint prints."""
    asked = hint.removeprefix("did you mean ").removesuffix("?")
    return re.sub(r" and \d+ others", "", asked).split(" or ") if asked != hint else []


def hint_of(keyword: str, value: Any = ..., call: Any = OptimizedEndpoint) -> str:
    """What an error says about an unknown keyword."""
    with pytest.raises((TypeError, RecipeError)) as refused:
        call(*([None, "Wrong"] if call is OptimizedEndpoint else ()), **{keyword: value})
    error = refused.value
    return error.violations[0].suggestion if isinstance(error, RecipeError) else str(error).partition(" (")[2][:-1]


def settings_inside(form: Form, depth: int = 0) -> Iterator[str]:
    for name, forms in form.members.items():
        if depth and name:
            yield name
        for each in forms:
            yield from settings_inside(each, depth + 1)


INSIDE = sorted(set(settings_inside(form_of_call(OptimizedEndpoint.__init__))))


def values_of(names: dict[str, Any]) -> list[Any]:
    """Values, one of which each setting accepts."""
    stack, vpc, bucket = names["stack"], names["vpc"], names["bucket"]
    return [
        *[60, 4, 30, 1024, 0.5, "0.30.0", "a/b", "s3://b/c/", True, "any"],
        *[["mig-1g.5gb"], ["SUCCESS_NOTIFICATION_TOPIC"]],
        *[Duration.minutes(20), Size.gibibytes(300), Size.mebibytes(4096), bucket, vpc, names["key"], names["topic"]],
        *[[SnsAction(names["topic"])], ec2.SubnetSelection(subnets=vpc.private_subnets), names["group"], names["role"]],
        *[names["alarm"], Alarms(), Server.vllm(), TrainingCompute(), Adapters(), CapacityReservation(arn="arn:a")],
        *[CoreDumps(bucket=bucket), Observability(), Placement.spread(), Routing.random()],
        *[
            ScaleIn.consolidation(),
            SpeculationCure.restart(),
            {"epochs": 1},
            {"mmlu": 0.5},
            stack,
            Model.huggingface("a/b"),
        ],
        *[
            "gptq",
            "eagle3",
            "lora",
            {"A": "b"},
            ["lm_head"],
            ["text/csv"],
            "none",
            FineTune(training_data="s3://b/c/"),
            "fp8",
            0,
        ],
    ]


def filled_in(code: str, names: dict[str, Any]) -> list[Any]:
    """Run the code of arguments, with a value that each setting accepts in place of its dots; return these values."""
    values, chosen = values_of(names), list[Any]()

    def evaluated(node: ast.expr, field: FieldInfo | None) -> Any:
        if isinstance(node, ast.List):
            return [evaluated(each, None) for each in node.elts]
        if isinstance(node, ast.Constant) and node.value is ...:
            parts = get_args(field.annotation) if field else ()
            literals = [each for part in parts for each in (part, *get_args(part))]
            used = next(each for each in [*values, *literals] if accepts(field, each)) if field else ...
            chosen.append(used)
            return used
        if not isinstance(node, ast.Call):
            return eval(ast.unparse(node), dict(names))
        call = eval(ast.unparse(node.func), dict(names))
        of = call if isinstance(call, type) else eval(ast.unparse(node.func).partition(".")[0], dict(names))
        if not isinstance(of, type) or not issubclass(of, Settings):
            return eval(ast.unparse(node), dict(names))
        return call(
            *[evaluated(each, None) for each in node.args],
            **{str(each.arg): evaluated(each.value, of.model_fields[str(each.arg)]) for each in node.keywords},
        )

    call = ast.parse(f"endpoint({code})", mode="eval").body
    assert isinstance(call, ast.Call)
    for each in call.keywords:
        evaluated(each.value, None)
    return chosen


@pytest.fixture(scope="module")
def module_names() -> dict[str, Any]:
    return names_of_an_app()


@pytest.mark.parametrize("name", one_in(2, INSIDE))
def test_the_whole_code_for_a_setting_inside_of_others_is_accepted(name: str, module_names: dict[str, Any]) -> None:
    own = signature(OptimizedEndpoint.__init__).parameters
    for number, code in enumerate(places_in(hint_of(name)) if name not in own else ()):
        if code in own:
            continue
        chosen = filled_in(code, module_names)
        # With the value, nothing is left to fill in for it.
        given = places_in(hint_of(name, chosen[-1])) if chosen else []
        assert all(len(filled_in(each, module_names)) <= len(chosen) for each in given)
        if chosen and isinstance(chosen[-1], bool | int | float | str | Duration) and len(given) > number:
            assert len(filled_in(given[number], module_names)) < len(chosen)


SYNONYMS = ["gptq", "int4", "int8", "float8", "lora", "fine_tuning", "finetune", "speculativedecoding", "kvcache"]


@pytest.mark.parametrize(
    "word",
    [*sorted({word for of_kind in REGISTRY.values() for each in of_kind.values() for word in each.words()}), *SYNONYMS],
)
def test_the_code_for_a_technique_is_accepted(word: str, module_names: dict[str, Any]) -> None:
    found = places_in(hint_of(word))
    assert found
    for code in found:
        filled_in(code, module_names)


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("name", "did you mean endpoint_name?"),
        ("bucket", "did you mean async_inference=AsyncInference(bucket=...) or data_capture=DataCapture(bucket=...)?"),
        (
            "model_id",
            "did you mean model=Model.huggingface(model_id=...) or model=Model.jumpstart(model_id=...)?",
        ),
        ("version", "did you mean model=Model.jumpstart(model_id=..., version=...)?"),
        ("group_size", "did you mean techniques=[Quantization.awq(group_size=...)]?"),
        ("subnets", "did you mean network=NetworkOptions(vpc_subnets=...)?"),
        ("bake_time", "did you mean update_policy="),
        # A copy job uses no Spot Instances; a threshold is one of any alarm.
        ("spot", "did you mean techniques=[Quantization.fp8_block(compute=TrainingCompute(spot=...))] or "),
        (
            "threshold",
            "did you mean monitoring=MonitoringOptions(alarms=Alarms(error_rate=AlarmSettings(threshold=...))) ",
        ),
        ("xylophone", "it has model, "),
        # Arguments of engines.
        ("max_model_len", "did you mean server=Server.vllm(context_length=...) or "),
        ("max_num_seqs", "did you mean server=Server.vllm(max_concurrent_requests=...) or "),
        ("instances", "did you mean variant=VariantOptions(initial_instance_count=...) or update_policy="),
        # The words of a file.
        ("scaling", "call its method auto_scale("),
        ("components", 'call its method add_component("...", model=...)'),
        ("evaluations", "call its method evaluate("),
        ("shadow", "call its method shadow(candidate=..., checks=...)"),
        (
            "quantization",
            "did you mean techniques=[Quantization.awq()] or techniques=[Quantization.fp8()] and 6 others?",
        ),
        ("speculative_decoding", "did you mean techniques=["),
        ("medusa", "did you mean techniques=[Medusa(training_data=...)]?"),
        # Arguments of methods.
        ("max_capacity", "call its method auto_scale(max_capacity=...)"),
        ("max_instances", "call its method auto_scale(max_capacity=...)"),
        ("tags", "Tags.of(construct).add("),
    ],
)
def test_a_misplaced_keyword_is_refused_with_its_own_place(keyword: str, hint: str) -> None:
    assert hint_of(keyword).startswith(hint)


def test_the_value_of_a_file_s_word_selects_the_technique() -> None:
    assert hint_of("quantization", "fp8") == "did you mean techniques=[Quantization.fp8()]?"


@pytest.mark.parametrize(
    ("call", "keyword", "value", "hint"),
    [
        (MonitoringOptions, "kv_cache", 0.9, "did you mean alarms=Alarms(kv_cache=AlarmSettings(threshold=0.9))?"),
        (VariantOptions, "ami_version", "a", "did you mean inference_ami_version?"),
        (JobOptions, "instance_count", 2, "did you mean variant=VariantOptions(initial_instance_count=2) beside jobs?"),
        (NetworkOptions, "kms_key", "a", "did you mean encryption_key='a' beside network?"),
        (
            VariantOptions,
            "encryption_key",
            ...,
            "did you mean core_dumps=CoreDumps(bucket=..., encryption_key=...) or encryption_key=... beside variant?",
        ),
        (Alarms, "quantization", "fp8", "did you mean techniques=[Quantization.fp8()] beside monitoring?"),
        (VariantOptions, "tags", {"team": "a"}, "Tags.of(construct).add('team', 'a') adds tags"),
        (VariantOptions, "max_capacity", 4, "call the method auto_scale(max_capacity=4)"),
        (
            OptimizedEndpoint,
            "subnets",
            ["a"],
            "did you mean network=NetworkOptions(vpc_subnets=ec2.SubnetSelection(subnets="
            "[ec2.Subnet.from_subnet_id(stack, \"Subnet\", '...')]))?",
        ),
        (VariantOptions, "max_instances", 4, "call the method auto_scale(max_capacity=4)"),
        (
            Quantization.awq,
            "quantization",
            3,
            "it has tensor_parallel_degree, checkpoint, group_size, ignored_layers",
        ),
    ],
)
def test_settings_name_the_place_of_those_of_others(call: Any, keyword: str, value: Any, hint: str) -> None:
    assert hint_of(keyword, value, call) == hint


@pytest.mark.parametrize(
    ("keyword", "value", "hint"),
    [
        ("hf_token", "hf_short", "did you mean model=Model.huggingface(model_id=..., token_secret_arn=...)?"),
        (
            "token_secret_arn",
            "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub",
            "did you mean model=Model.huggingface(model_id=..., "
            "token_secret_arn='arn:aws:secretsmanager:us-west-2:111122223333:secret:hub')?",
        ),
    ],
)
def test_a_hint_does_not_show_a_secret(keyword: str, value: str, hint: str) -> None:
    assert hint_of(keyword, value) == hint


def test_an_error_about_an_unknown_setting_does_not_show_a_secret() -> None:
    for value in ("hf_short", {"HF_TOKEN": "hf_short"}, [f"--api-key=sk-{'Ab1' * 8}"]):
        with pytest.raises(RecipeError) as refused:
            NetworkOptions(hf_token=value)  # type: ignore[call-arg]
        assert "(not shown)" in str(refused.value)
        assert not re.search("hf_short|Ab1", str(refused.value))


def test_keys_of_files_are_the_names_in_the_table_of_methods() -> None:
    declared = {method.function.__name__: method.key for method in methods_of(endpoint_form(OptimizedEndpoint))}
    assert {name: key for name, key in declared.items() if name != key} == KEYS


def methods_of(form: type[Call]) -> Iterator[Any]:
    """The methods with functions that a form's keys call."""
    methods = list(getattr(form, "methods", ()))
    while methods:
        method = methods.pop()
        methods += method.then
        if method.function is not None:
            yield method


@cache
def keys_inside() -> list[str]:
    form = form_of_keys([endpoint_form(OptimizedEndpoint)])
    return sorted(set(settings_inside(form)) - set(form.members))


def test_the_yaml_for_a_key_inside_of_others_lacks_and_adds_nothing() -> None:
    endpoint = endpoint_form(OptimizedEndpoint)
    form = form_of_keys([endpoint])
    assert len(keys_inside()) > 50
    for key in keys_inside():
        for text in places_in(form.hint(key)):
            data = YAML(typ="safe", pure=True).load(text)
            if not isinstance(data, dict):
                assert text in form.members
                continue
            try:
                endpoint.model_validate({"model": "a/b", **data})
            except ValidationError as error:
                # The dots stand for a value, which has another type, or is one of several words.
                wrong = [each for each in error.errors() if each["type"] == "extra_forbidden" or each["input"] != "..."]
                assert not wrong, (key, text)


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
    for each in violation.suggestion.removeprefix("write the setting's name: ").split(" or "):
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
LISTS = [
    # What is right, what is written instead, and what the error prints in place of it.
    ("techniques: [quantization: awq]", "quantization: awq", "techniques: [quantization: awq]"),
    ("techniques: [quantization: awq]", "techniques: awq", "techniques: [quantization: awq]"),
    ("techniques: [quantization: awq]", "techniques: {quantization: awq}", "techniques: [{quantization: awq}]"),
    (
        "techniques: [quantization: awq]\n    instance_type: ml.g5.12xlarge",
        "instance_pools: ml.g6e.12xlarge",
        "instance_pools: [{instance_type: ml.g6e.12xlarge}]",
    ),
]


@pytest.mark.parametrize(("right", "written", "printed"), LISTS, ids=[written for _, written, _ in LISTS])
def test_the_list_that_an_error_prints_is_accepted(right: str, written: str, printed: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(FILE.replace(right, written), "endpoint.yaml"))
    (violation,) = refused.value.violations
    suggestion = violation.suggestion.removeprefix("did you mean ").removesuffix("?")
    key = printed.partition(": ")[0]
    assert suggestion.removeprefix(f"{key}: ") == printed.removeprefix(f"{key}: ")
    DeclaredStack(Document.parsed(FILE.replace(right, printed), "endpoint.yaml"))


IN_A_FILE = [
    # What is right, what is written instead, and the end of the corrected line.
    ("stack: Chat", "stack: my_chat", "stack: my-chat"),
    ("quantization: awq", "awq", "quantization: awq"),
    ("quantization: awq", "int4", "quantization: awq"),
    ("quantization: awq", "fp8", "quantization: fp8"),
    ("quantization: awq", "quantization: awg", "quantization: awq"),
    ("instance_type: ml", "vpc: vpc-1\n    instance_type: ml", "network: {vpc: {vpc_id: vpc-1, subnet_ids: ...}}"),
    ("instance_type: ml", "instance_count: 2\n    instance_type: ml", "variant: {initial_instance_count: 2}"),
    (
        "instance_type: ml",
        "variant: {isolation: true}\n    instance_type: ml",
        "network: {isolation: true} beside variant",
    ),
    ("instance_type: ml", "medusa: {}\n    instance_type: ml", "techniques: [medusa: {training_data: ...}]"),
    ("instance_type: ml", "custom_draft:\n    instance_type: ml", "{custom_draft: {model: ...}}"),
    ("instance_type: ml", "gptq: {}\n    instance_type: ml", "techniques: [quantization: {w4a16: {}}]"),
    ("instance_type: ml", "threshold: 3\n    instance_type: ml", "and 11 others"),
    ("instance_type: ml", "subnets: [a]\n    instance_type: ml", "network: {vpc: {vpc_id: ..., subnet_ids: [a]}}"),
    # What is printed is not what the key would refuse.
    ("instance_type: ml", "latency: 3\n    instance_type: ml", "monitoring: {alarms: {latency: {threshold: 3}}}"),
    ("instance_type: ml", "topic: a\n    instance_type: ml", "monitoring: {alarm_actions: [a]}"),
    ("instance_type: ml", "fp8: true\n    instance_type: ml", "[kv_cache: {fp8: {}}]"),
    ("instance_type: ml", "lora: s3://a/\n    instance_type: ml", "[fine_tune: {training_data: ...}]"),
    ("instance_type: ml", "huggingface: a/b\n    instance_type: ml", "model: {huggingface: {model_id: a/b}}"),
    ("instance_type: ml", "isolation: 3\n    instance_type: ml", "network: {isolation: ...}"),
    ("instance_type: ml", "isolation:\n    instance_type: ml", "network: {isolation: ...}"),
    # Nor is it the place where the key is.
    (
        "techniques: [quantization: awq]",
        "techniques: [fine_tune: {training_data: s3://a/b/, lora: {rank: 16}}]",
        "server: {lmi: {adapters: {}}} beside techniques",
    ),
    (
        "techniques: [quantization: awq]",
        "techniques: [quantization: {awq: {quantization: 3}}]",
        "it has tensor_parallel_degree, checkpoint",
    ),
    # A component's instances are copies.
    (
        "instance_type: ml",
        "inference_component: true\n    components: {Mine: {model: a/b, replicas: 3}}\n    instance_type: ml",
        "copies",
    ),
    ("instance_type: ml", "scaling: {replicas: 2}\n    instance_type: ml", "initial_instance_count: 2} beside scaling"),
    ("instance_type: ml", "name: chat\n    instance_type: ml", "endpoint_name"),
    ("instance_type: ml", "auto_scale: {}\n    instance_type: ml", "scaling"),
    (
        "instance_type: ml",
        "bucket: a\n    instance_type: ml",
        "async_inference: {bucket: a} or data_capture: {bucket: a}",
    ),
    ("instance_type: ml", "spot: true\n    instance_type: ml", "compute: {spot: true}}"),
    ("instance_type: ml", "max_capacity: 2\n    instance_type: ml", "scaling: {max_capacity: 2}"),
    ("instance_type: ml", "latency: {}\n    instance_type: ml", "monitoring: {alarms: {latency: {}}}"),
    ("instance_type: ml", "kms_key: a\n    instance_type: ml", "encryption_key"),
    ("instance_type: ml", "image_uri: a\n    instance_type: ml", "server: {vllm: {container_version: ...}}"),
    ("instance_type: ml", "asynchronous: true\n    instance_type: ml", "async_inference"),
    ("instance_type: ml", "max_instances: 2\n    instance_type: ml", "scaling: {max_capacity: 2}"),
    ("instance_type: ml", "replicas: 2\n    instance_type: ml", "variant: {initial_instance_count: 2}"),
    ("instance_type: ml", "execution_role: a\n    instance_type: ml", "role"),
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


_WORKLOAD = "evaluations: {{Daily: {{workload: {{requests: 10, concurrency: {}}}}}}}"
VALUES = [
    # A key with the place of its value, the wrong value, and the value that the error prints.
    (_WORKLOAD, "'4'", "[4]"),
    (_WORKLOAD, "'1, 8'", "[1, 8]"),
    (_WORKLOAD, "4", "[4]"),
    (_WORKLOAD.replace("{}", "[{}]"), "'4'", "4, without quotes"),
    ("variant: {{initial_instance_count: {}}}", "'2'", "2, without quotes"),
    ("variant: {}", "2", "{initial_instance_count: 2}"),
    ("monitoring: {{alarms: {{latency: {}}}}}", "3", "{threshold: 3}"),
    ("monitoring: {{alarms: {{disk: {}}}}}", "80.5", "{threshold: 80.5}"),
    ("scaling: {}", "4", "{max_capacity: 4}"),
    ("artifact_store: {}", "my-bucket", "{from_bucket: {bucket: my-bucket}}"),
    ("artifact_store: {{from_bucket: {}}}", "my-bucket", "{bucket: my-bucket}"),
    ("data_capture: {}", "my-bucket", "{bucket: my-bucket}"),
    ("techniques: [{{speculative_decoding: {{custom_draft: {}}}}}]", "s3://drafts/one", '{uri: "s3://drafts/one/"}'),
]


@pytest.mark.parametrize(
    ("key", "wrong", "printed"), one_in(2, VALUES), ids=[f"{key}={wrong}" for key, wrong, _ in VALUES]
)
def test_the_value_that_an_error_prints_is_accepted(key: str, wrong: str, printed: str) -> None:
    # It has room for the model without quantization.
    larger = FILE.replace("ml.g5.12xlarge", "ml.p5.48xlarge")

    def declare(value: str) -> None:
        text = larger.replace("techniques: [quantization: awq]", key.format(value))
        DeclaredStack(Document.parsed(text, "endpoint.yaml"))

    with pytest.raises(DeclarationError) as refused:
        declare(wrong)
    (violation,) = refused.value.violations
    assert violation.suggestion == printed
    declare(printed.removesuffix(", without quotes"))


@pytest.mark.parametrize("key", ["model: {{s3: {}}}", "techniques: [{{speculative_decoding: {{custom_draft: {}}}}}]"])
def test_the_uri_of_an_archive_is_not_printed_as_that_of_a_prefix(key: str) -> None:
    line = next(line for line in FILE.splitlines() if line.strip().startswith(key.partition(":")[0]))

    def refused(value: str) -> dict[str, str]:
        text = FILE.replace(line, f"    {key.format(value)}")
        with pytest.raises(DeclarationError) as error:
            DeclaredStack(Document.parsed(text, "endpoint.yaml"))
        return {each.location.rpartition(".")[2]: each.suggestion for each in error.value.violations}

    archive = "s3://models/assistant.tar.gz"
    (printed,) = refused(archive).values()
    assert printed == f'{{uri: "{archive}"}}'
    # A rule says what to do with it.
    assert "uri" in refused(printed)


def test_a_draft_of_hugging_face_alone_is_printed_as_the_mapping() -> None:
    technique = "techniques: [{speculative_decoding: {custom_draft: a/b}}]"
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(FILE.replace("techniques: [quantization: awq]", technique), "endpoint.yaml"))
    assert [each.suggestion for each in refused.value.violations] == ["{model: a/b}"]


def test_an_unknown_store_is_replaced_by_one_of_the_file_or_an_existing_bucket() -> None:
    text = f"{FILE}    artifact_store: my-bucket\nartifact_stores: {{Mine: {{}}}}\n"
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(text, "endpoint.yaml"))
    assert [each.suggestion for each in refused.value.violations] == ["Mine or {from_bucket: {bucket: my-bucket}}"]


def test_a_mapping_of_ids_is_not_printed_as_one_of_its_values() -> None:
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(f"{FILE}artifact_stores: 3\n", "endpoint.yaml"))
    assert [each.suggestion for each in refused.value.violations] == ["a mapping: keys with their values"]


@pytest.mark.parametrize(
    "settings",
    [
        lambda: VariantOptions(core_dumps={1: 2}),  # type: ignore[arg-type]
        lambda: Alarms(latency={1: 2}),  # type: ignore[arg-type]
        lambda: endpoint(Stack(App(), "Chat", env=_ACCOUNT), variant={1: 2}),
    ],
)
def test_a_dictionary_whose_keys_are_not_text_is_refused_with_what_works(settings: Any) -> None:
    with pytest.raises(RecipeError) as refused:
        settings()
    (violation,) = refused.value.violations
    assert violation.value == {1: 2}
    assert re.match(r"(CoreDumps|AlarmSettings|VariantOptions)\(", violation.suggestion)
    assert re.fullmatch(r"(VariantOptions\.core_dumps|Alarms\.latency|OptimizedEndpoint\.variant)", violation.location)


def test_a_dictionary_in_place_of_settings_is_refused_for_its_own_mistakes() -> None:
    with pytest.raises(RecipeError) as refused:
        Alarms(latency={"threshold": "x"})  # type: ignore[arg-type]
    (violation,) = refused.value.violations
    assert (violation.location, violation.suggestion) == ("AlarmSettings.threshold", "a number")


def test_the_bound_of_one_is_singular() -> None:
    with pytest.raises(RecipeError, match="a list with at least 1 item\n"):
        Workload(concurrency=[])


def test_a_jumpstart_id_alone_is_printed_as_the_mapping() -> None:
    # A model without a license to accept.
    short = re.sub(r"jumpstart: \{.*?\}", "jumpstart: huggingface-llm-mistral-7b", FILE)
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(Document.parsed(short, "endpoint.yaml"))
    (violation,) = refused.value.violations
    assert violation.suggestion == "{model_id: huggingface-llm-mistral-7b}"
    DeclaredStack(Document.parsed(short.replace("huggingface-llm-mistral-7b", violation.suggestion), "endpoint.yaml"))
