"""Messages about a file use its keys: no Python calls, no arguments, no context of cdk.json."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from aws_cdk import App, Stack
from pydantic import create_model
from ruamel.yaml import YAML
from typer.testing import CliRunner

import constructs_optim
from constructs_optim import Compilation, Medusa, Model, OptimizedEndpoint, Quantization, Server, UpdatePolicy
from constructs_optim.cli.main import app
from constructs_optim.constructs.declaration.builder import Builder
from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declaration.schema import Call, form_of
from constructs_optim.constructs.declaration.wording import flow, in_yaml
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack, declared_template, stack_form
from constructs_optim.constructs.stack.findings import warnings_of
from constructs_optim.constructs.validation import template_size
from constructs_optim.constructs.validation.template_size import refusal
from constructs_optim.recipe import Recipe
from constructs_optim.recipe.rules import Rule, all_rules, check, warnings
from constructs_optim.recipe.servers import ServerSettings
from constructs_optim.recipe.techniques import REGISTRY, Technique
from constructs_optim.templates.limits import Excess

from ..recipe import (
    test_benchmark,
    test_hosting_rules,
    test_objective_rules,
    test_recommendation_request,
    test_scaling_rules,
    test_shadow_rules,
)
from ..recipe.test_rules import BAD, recipe
from ..support.sampling import one_in
from ..support.template_limits import lower
from .test_document import VALID

stack_form()
RULES = Path(__file__).parents[2] / "constructs_optim" / "recipe" / "rules"
_CLASSES = "|".join(name for name in constructs_optim.__all__ if re.search("[a-z][A-Z]", name))
# What only apps declare, and no file: the trust policies of their roles, their own networks, and objects for times.
OF_APPS = re.compile(
    r"iam\.Role\(.*\.\.\.\)|\(ec2\.SubnetType\.\w+\)|vpc\.add_gateway_endpoint\(.*?\)|datetime\.datetime"
)
# Classes, calls, members of classes, arguments, and constants. file(s) and cron(...) are no calls, a class of one word,
# such as Server, can be prose, an environment variable is no argument, and setting=value is a form of the command line.
PYTHON = re.compile(
    rf"(?<![\w:])(?:{_CLASSES})\b|(?<![\w.])(?!(?:cron|rate|at)\()[A-Za-z_][\w.]*\((?!s\))|[)}}\]]\.\w+\("
    r"|(?<![\w.])[A-Z][a-z]\w*\.(?:[a-z_]\w*|[A-Z_]{3,})\b(?!\.)|(?<![\w./?&-])(?!setting=value)[a-z]\w*=(?!=)"
    r"|\b(?:True|False|datetime|self)\b|\bNone\b(?! of)"
)
# A policy and the command line name techniques in this form.
_NAMED_TECHNIQUE = re.compile(rf"\b(?:{'|'.join(REGISTRY)})=[a-z]\w*(?:,[a-z_]+=\w+)*")
_BRACES = re.compile(r"\w+: \{(?=.)|(?<!\$)\{")


def python_in(text: str) -> list[str]:
    """The calls and arguments of a text, without commands, which are in backticks."""
    return PYTHON.findall(_NAMED_TECHNIQUE.sub("", OF_APPS.sub("", " ".join(text.split("`")[::2]))))


def yaml_in(text: str) -> Iterator[str]:
    """The mappings of a text, with their keys."""
    end = 0
    for found in _BRACES.finditer(text):
        if found.start() >= end and not text.startswith("{{", found.start()):
            depth = 0
            for end in range(found.end() - 1, len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            end += 1
            yield text[found.start() : end]


def read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("use Quantization.awq()", "use {quantization: awq}"),
        ("spot=False, or no capacity_reservation", "spot: false, or no capacity_reservation"),
        ("a degree of 1 or 2 (tensor_parallel_degree=)", "a degree of 1 or 2 (tensor_parallel_degree)"),
        ("pass token_secret_arn=secret.secret_arn", "pass token_secret_arn: ..."),
        ("a dashboard without evaluate()", "a dashboard without evaluations"),
        ("endpoint.auto_scale(max_capacity=4)", "scaling: {max_capacity: 4}"),
        ("leave auto_scale(...) out", "leave scaling out"),
        ("self.endpoint.auto_scale(max_capacity=4)", "scaling: {max_capacity: 4}"),
        ("on_schedule('Mornings').schedule = 1", "on_schedule.Mornings.schedule = 1"),
        (
            'Call add_component("Chat", model=...), or leave it out',
            "Add components: {Chat: {model: ...}}, or leave it out",
        ),
        (
            'evaluate("Daily", schedule="rate(1 day)")',
            'evaluations: {Daily: {schedule: "rate(1 day)"}}',
        ),
        ("artifact_store=ArtifactStore.from_bucket(store.bucket)", "artifact_store: {from_bucket: {bucket: ...}}"),
        ('network=NetworkOptions(vpc=ec2.Vpc.from_lookup(stack, "Vpc"))', "network: {vpc: ...}"),
        ("Model.huggingface(..., token_secret_arn=secret.secret_arn)", "{huggingface: {token_secret_arn: ...}}"),
        ('captured.during("2026-11")', 'period: "2026-11"'),
        ("Duration.hours(1) to Duration.days(30)", "1h to 30d"),
        (
            'did you mean Qwen/Qwen3-32B? In Python: Model.huggingface("Qwen/Qwen3-32B")',
            "did you mean Qwen/Qwen3-32B? In a file: {huggingface: {model_id: Qwen/Qwen3-32B}}",
        ),
        ("removal_policy=RemovalPolicy.RETAIN", "removal_policy: retain"),
        ("keeps it with RemovalPolicy.RETAIN", "keeps it with retain"),
        ('SecretValue.secrets_manager("<name>").unsafe_unwrap()', '"{{resolve:secretsmanager:<name>}}"'),
        ("Objectives(input_tokens=..., ...)", "{input_tokens: ..., ...}"),
        ("DataCapture(...) or Medusa(...)", "{...} or {medusa: ...}"),
        ("the artifact of Quantization.awq, or Server.vllm.", "the artifact of quantization.awq, or server.vllm."),
        ("removal_policy = None: auto_scale needs a maximum", "removal_policy = null: scaling needs a maximum"),
        ("Duration.seconds(0) to Duration.minutes(10)", "0s to 10m"),
        ("ArtifactStore.from_bucket(bucket, read_only=False)", "{from_bucket: {bucket: ..., read_only: false}}"),
        ("endpoint.evaluate(...).require(...)", "evaluations: {<id>: {require: ...}}"),
        (
            "endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)",
            "scaling: {max_capacity: 4, on_concurrency: {target: 8}}",
        ),
        ("Quantization.awq().with_(group_size=64) or Medusa(...)", "... or {medusa: ...}"),
        ("role=iam.Role.from_role_arn(...) or spot=True", "role: ... or spot: true"),
        ("Size.mebibytes(512) to Size.gibibytes(2)", "512MiB to 2GiB"),
        ('call add_component("Chat", model=...)', "add components: {Chat: {model: ...}}"),
        ("evaluate(discount=0.1).fly() or Medusa(...)", "... or {medusa: ...}"),
        (f'evaluate(label="{"a" * 600}").require(label="{"b" * 600}") or Medusa(...)', "... or {medusa: ...}"),
        ("Quantization.awq or Server.fastest", "quantization.awq or Server.fastest"),
        ("spot is True, and role is None", "spot is true, and role is None"),
    ],
)
def test_a_message_about_a_file_has_yaml_in_place_of_python(text: str, written: str) -> None:
    assert in_yaml(text) == written
    assert all(read(each) for each in yaml_in(written))


@pytest.mark.parametrize(
    "text",
    [
        "`constructs-optim lock --update x=1` of file(s)",
        "https://example.com/?a=b&c=d and VLLM_USE=1",
        # A technique as in a policy, and on the command line.
        "quantization=awq, or quantization=awq,group_size=64",
        "cron(0 7 ? * MON-FRI *), rate(2 hours), or at(2027-01-31T07:00:00)",
        'assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")',
        'vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)',
        "Principal(s) of sns.Topic(stack, 'Topic')",
        "the limits (unit=ms) of f(x=1)",
        "f(max_capacity=1), or g(Model.s3(x))",
        "None of the pools",
        "shadow(s) and evaluate(s)",
        "Model(" * 100_000,
        f"Model({'-' * 900}1)",
        f"Model({'(' * 400}{')' * 400})",
    ],
    ids=lambda text: text[:40],
)
def test_all_other_text_stays(text: str) -> None:
    assert in_yaml(text) == text


SUBJECTS = {
    f"{case[0]}-{number}": subject
    for bad, subject_of in (
        (BAD, lambda given: Recipe(**recipe(**given))),
        (test_hosting_rules.BAD, lambda given: test_hosting_rules.hosting(**given)),
        *((each.BAD, lambda given: given) for each in (test_benchmark, test_scaling_rules, test_shadow_rules)),
        *((each.BAD, lambda given: given) for each in (test_objective_rules, test_recommendation_request)),
    )
    for number, case in enumerate(bad)
    for subject in [subject_of(case[1])]
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_refusals_and_warnings_of_rules_have_no_python_in_a_file(subject: Any) -> None:
    refusals = [text for each in check(subject) for text in (each.suggestion, each.reason)]
    # Warnings are about a valid recipe.
    for text in refusals or [each.message for each in warnings(subject)]:
        written = in_yaml(text)
        assert not python_in(written), text
        assert all(read(each) for each in yaml_in(written)), written


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for each in ast.iter_child_nodes(node):
            yield from _texts(each)


def test_messages_that_rules_compose_have_no_python_in_a_file() -> None:
    for file in sorted(RULES.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_fix = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("fix", "reason")
            if is_fix or (isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"):
                for text in _texts(node):
                    # A name that is part of the text is mostly a technique's.
                    assert not python_in(in_yaml(text.replace("X(", "Quantization.awq("))), f"{file.name}: {text}"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_reasons_of_rules_have_no_python_in_a_file(rule: Rule) -> None:
    assert not python_in(in_yaml(rule.reason))


CODE: dict[str, tuple[Any, dict[str, Any]]] = {
    code: (form, {each.__name__: each for each in (Compilation, Medusa, Model, Quantization, Server, UpdatePolicy)})
    for form, codes in {
        Technique: ["Quantization.awq(group_size=64)", 'Medusa(training_data="s3://b/c/")', "Compilation.neuron()"],
        Model: ['Model.huggingface("a/b")', 'Model.jumpstart("a", version="1.0.0")', 'Model.s3("s3://b/c/")'],
        ServerSettings: ["Server.vllm()", 'Server.sglang(container_version="0.5.16")'],
        UpdatePolicy: ["UpdatePolicy.all_at_once()", "UpdatePolicy.rolling(percent=20)"],
    }.items()
    for code in codes
}


@pytest.mark.parametrize("code", CODE)
def test_the_yaml_of_code_declares_the_same(code: str) -> None:
    form, names = CODE[code]
    model = create_model("File", __base__=Call, value=(form_of(form), ...))
    document = Document.parsed(f"value: {in_yaml(code)}", "endpoint.yaml")
    value = Builder(Stack(App(), "Chat"), document).value(document.validated(model).value, ("value",))  # type: ignore[attr-defined]
    assert value == eval(code, dict(names))


SCHEDULES = """\
    scaling:
      {{max_capacity: 2, on_schedule: {{Mornings: {{min_capacity: 1, schedule: {schedule}}}}}}}
    evaluations: {{Daily: {{workload: {{concurrency: [1], requests: 10}}, schedule: {daily}}}}}
"""


def test_a_schedule_that_a_file_s_error_names_is_accepted() -> None:
    def declared(schedule: str, daily: str) -> DeclaredStack:
        text = VALID + SCHEDULES.format(schedule=schedule, daily=daily)
        return DeclaredStack(Document.parsed(text, "endpoint.yaml"))

    with pytest.raises(DeclarationError) as refused:
        declared("every day", "daily")
    first, second = refused.value.violations
    assert first.location == "endpoint.yaml:10:77 endpoints.Llama.scaling.on_schedule.Mornings.schedule"
    assert second.location.endswith("endpoints.Llama.evaluations.Daily.schedule")
    for word in ("cron", "rate"):
        found = [re.findall(rf"{word}\(\d[^)]*\)", each.suggestion)[0] for each in (first, second)]
        declared(*(f'"{each}"' for each in found))


@pytest.mark.parametrize("limit", ["bytes", "resources"])
def test_a_file_with_too_many_endpoints_is_refused_in_its_own_words(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_size, "_WATCHED_FROM", 1)
    if limit == "bytes":
        lower(monkeypatch, "template bytes", 10_000)
    else:
        refused = RuntimeError("Number of resources in stack 'Chat': 501 is greater than allowed maximum of 500: ...")

        def written_template(_: Any) -> str:
            raise refused

        monkeypatch.setattr(template_size, "written_template", written_template)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoint.yaml").write_text(VALID)
    result = CliRunner().invoke(app, ["synth", "endpoint.yaml"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "10,000" in said or "Number of resources" in said
    assert not python_in(said)
    assert "cdk.json" not in said
    assert "ValidationFailed" not in said
    assert "another stack" in said


ADVISED = """\
    scaling: {max_capacity: 4}
    update_policy: canary
  Empty:
    instance_type: ml.g5.12xlarge
    inference_component: true
"""
WARNINGS = {
    "OPT006": 'Pin it: {jumpstart: {model_id: meta-textgeneration-llama-3-8b, version: "..."}}',
    "OPT123": "Use variant: {initial_instance_count: 2}, or update_policy: all_at_once",
    "OPT237": "For a policy, add on_concurrency: {target: 8}, or leave scaling out",
    "OPT239": "Add components: {Chat: {model: ...}}, or set model",
}


@pytest.mark.parametrize("made", one_in(3, ["a stack", "an app", "a standalone template"]))
def test_warnings_about_a_file_use_its_keys(made: str, tmp_path: Path) -> None:
    path = tmp_path / "endpoint.yaml"
    path.write_text(VALID.replace("version: 2.24.0, ", "") + ADVISED)
    if made == "a stack":
        stack = DeclaredStack(Document.read(path))
        warnings = stack.warnings
        (plan,) = stack.plans["Llama"]
        assert [each.message in "".join(warnings) for each in plan.warnings] == [True]
    elif made == "a standalone template":
        warnings = declared_template(Document.read(path), code_bucket=None, inline=True)[1].warnings
    else:
        stack = Stack(App(), "Chat")
        for name in ("Llama", "Empty"):
            OptimizedEndpoint.from_file(stack, name, str(path))
        warnings = warnings_of(Path(cast("App", stack.node.root).synth().directory), stack)
    for rule, advice in WARNINGS.items():
        (warning,) = [each for each in warnings if f"constructs-optim:{rule}" in each]
        assert advice in warning
    for warning in warnings:
        # The value is before the reason.
        assert not python_in(warning.partition(": ")[2].partition("[ack")[0]), warning


def test_a_file_near_the_template_s_limit_has_no_advice_of_the_cdk_on_stacks(tmp_path: Path) -> None:
    # The longest that CloudFormation allows.
    first = f"  P0: {{description: &text {'x' * 4_000}, default: *text}}\n"
    more = "".join(f"  P{number}: {{description: *text, default: *text}}\n" for number in range(1, 108))
    text = f"{VALID}parameters:\n{first}{more}"
    stack = DeclaredStack(Document.parsed(text, "endpoint.yaml"), outdir=tmp_path)
    assert not any("Template size" in warning for warning in stack.warnings)
    assert (tmp_path / stack.template_file).stat().st_size > 800_000


def test_the_existing_store_that_an_error_names_is_accepted() -> None:
    refused = Excess("template bytes", "the template", 1_000_001)
    endpoints = {name: {"Type": "AWS::SageMaker::Endpoint"} for name in ("A", "B")}
    said = in_yaml(refusal(refused, {"Resources": endpoints}))
    (store,) = [each for each in yaml_in(said) if each.startswith("artifact_store")]
    DeclaredStack(Document.parsed(f"{VALID}    {store.replace('...', 'my-bucket')}\n", "endpoint.yaml"))


def test_a_file_s_template_has_no_indentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoint.yaml").write_text(VALID)
    assert CliRunner().invoke(app, ["synth", "endpoint.yaml", "--output", "out"]).exit_code == 0
    assert "\n " not in (tmp_path / "out" / "Chat.template.json").read_text()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("awq", "awq"),
        ("s3/models-of.mine@1", "s3/models-of.mine@1"),
        ("2.24.0", "2.24.0"),
        ("2.24", '"2.24"'),
        ("90s", "90s"),
        ("15m", "15m"),
        ("6h", "6h"),
        ("7d", "7d"),
        ("512MiB", "512MiB"),
        ("256GiB", "256GiB"),
        ("8k", '"8k"'),
        ("<an id>", "<an id>"),
        ("True", '"True"'),
        ("false", '"false"'),
        ("NULL", '"NULL"'),
        ("a b", '"a b"'),
        ("ü: 1", '"ü: 1"'),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (..., "..."),
        ({"a": [1, "b"], "c": (2, ...)}, "{a: [1, b], c: [2, ...]}"),
    ],
)
def test_a_value_is_written_as_yaml_reads_it(value: object, written: str) -> None:
    assert flow(value) == written
    if "..." not in written and "<" not in written:
        assert read(written) == value
