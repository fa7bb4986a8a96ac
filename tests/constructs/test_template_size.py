"""A template beyond CloudFormation's limits is refused at synthesis with an alternative."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, Stack

import constructs_optim.constructs.validation.template_size as template_size
from constructs_optim import Adapters, ArtifactStore, Model, OptimizedEndpoint, Server, Workload
from constructs_optim.constructs.validation.template_size import refusal
from constructs_optim.templates.limits import Excess, excesses, limits

from ..support.construct_stacks import ENVIRONMENT, endpoint, resource, stack, template_of
from ..support.template_limits import lower

_INDENTED = {"@aws-cdk/core:suppressTemplateIndentation": False}
_COMPACT = {"@aws-cdk/core:suppressTemplateIndentation": True}


def _declare(scope: Stack, endpoints: int, *, full: bool = False) -> None:
    for number in range(endpoints):
        uri = f"s3://models-of-the-whole-company/large-language-models/instruct/version-{number:04}/"
        created = endpoint(scope, f"Endpoint{number}", model=Model.s3(uri))
        if full:
            scaling = created.auto_scale(min_capacity=2, max_capacity=8).on_concurrency(target=8)
            scaling.on_schedule("Day", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=4)
            created.evaluate(workload=Workload(concurrency=[1, 8, 64]), schedule="cron(0 4 * * ? *)")


def _written(context: dict[str, bool], folder: Path, endpoints: int, *, full: bool = False) -> tuple[Stack, int]:
    """A stack, and the size of its written template in bytes."""
    scope = Stack(App(outdir=str(folder), context=context), "PlatformTeamProduction", env=ENVIRONMENT)
    _declare(scope, endpoints, full=full)
    template_of(scope)
    return scope, (folder / "PlatformTeamProduction.template.json").stat().st_size


def _annotations(scope: Stack, level: str) -> list[str]:
    # Not aws_cdk.assertions.Annotations: aws-cdk-lib and aws-cdk-cloud-assembly-schema install the module that its
    # entries are of at the same path, and which one stays is a matter of the order.
    every = [entry for each in scope.node.find_all() for entry in each.node.metadata]
    return [str(entry.data) for entry in every if entry.type == f"aws:cdk:{level}"]


def _errors(scope: Stack) -> list[str]:
    return _annotations(scope, "error")


def _reported(error: str, pattern: str) -> int:
    """The number that an error reports."""
    (number,) = re.findall(pattern, error)
    return int(number.replace(",", ""))


def _bytes(resource: object) -> int:
    return len(json.dumps(resource, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.exhaustive
def test_a_stack_beyond_the_resource_limit_is_refused_with_an_alternative() -> None:
    scope = stack()
    _declare(scope, 40, full=True)
    with pytest.raises(RuntimeError) as refused:
        template_of(scope)
    message = str(refused.value)
    assert message.count("Number of resources in stack") == 1
    assert "is greater than allowed maximum of 500" in message
    assert "another stack, which shares the artifact store with artifact_store=ArtifactStore.from_bucket" in message


@pytest.mark.exhaustive
def test_an_oversized_template_gives_one_error_with_its_size_in_bytes(tmp_path: Path) -> None:
    scope, size = _written(_INDENTED, tmp_path, 20, full=True)
    (error,) = _errors(scope)
    assert size > 1_000_000
    assert "and CloudFormation allows 1,000,000: declare some of the stack's endpoints in another stack" in error
    assert _reported(error, r"has ([\d,]+) bytes") == pytest.approx(size, abs=1000)
    template = json.loads((tmp_path / "PlatformTeamProduction.template.json").read_text())
    dashboards = [each for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Dashboard"]
    assert _reported(error, r"take ([\d,]+) of the bytes") == sum(map(_bytes, dashboards))
    assert not any("Template size" in warning for warning in _annotations(scope, "warning"))


@pytest.mark.exhaustive
def test_the_number_of_endpoints_in_the_size_error_fits_into_one_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_size, "_WATCHED_FROM", 2)
    lower(monkeypatch, "template bytes", 200_000)
    scope, _ = _written(_COMPACT, tmp_path / "many", 7)
    fits = _reported(_errors(scope)[0], r"about (\d+) of its 7 fit into one")
    assert 1 < fits < 7
    assert _errors(_written(_COMPACT, tmp_path / "fewer", fits)[0]) == []
    assert _errors(_written(_COMPACT, tmp_path / "more", fits + 1)[0]) != []


def test_an_oversized_indented_template_suggests_suppressing_the_indentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_size, "_WATCHED_FROM", 4)
    lower(monkeypatch, "template bytes", 185_000)
    indented, size = _written(_INDENTED, tmp_path / "indented", 4)
    compact, less = _written(_COMPACT, tmp_path / "compact", 4)
    assert less < 185_000 < size
    (error,) = _errors(indented)
    assert 1 <= _reported(error, r"about (\d+) of its 4 fit into one") < 4
    template = json.loads((tmp_path / "compact" / "PlatformTeamProduction.template.json").read_text())
    dashboards = [each for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Dashboard"]
    assert _reported(error, r"take ([\d,]+) of the bytes") == sum(map(_bytes, dashboards))
    assert 'set "@aws-cdk/core:suppressTemplateIndentation": true in the context of cdk.json' in error
    assert _reported(error, r"has ([\d,]+) bytes") == pytest.approx(size, abs=1000)
    assert _reported(error, r"makes it ([\d,]+) bytes") == pytest.approx(less, abs=1000)
    assert _errors(compact) == []


def test_every_limit_has_a_remedy() -> None:
    resources = {"It": {"Type": "AWS::SNS::Topic"}}
    for name, limit in limits().items():
        excess = Excess(name, "It", limit.most + 1)
        words = rf"It has [\d,]+ .*, and {limit.service} allows [\d,]+( by default)?: .{{10,}}"
        assert re.fullmatch(words, refusal(excess, {"Resources": resources})), name


def test_every_excess_is_an_error_and_every_adjustable_one_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("outputs", "parameters", "inline policies of a role", "alarm description"):
        lower(monkeypatch, name, 0)
    lower(monkeypatch, "trust policy", 10)
    scope = stack()
    _declare(scope, 8)
    CfnOutput(scope, "Own", value="x")
    number = len(template_of(scope)["Outputs"])
    errors = "\n".join(_errors(scope))
    assert f"the template has {number} outputs, and CloudFormation allows 0: " in errors
    assert "characters in its inline policies, and IAM allows 0: attach managed policies instead" in errors
    assert "characters in its description, and CloudWatch allows 0: a shorter description" in errors
    assert "trust policy" not in errors
    assert any("trust policy, and IAM allows 10 by default" in warning for warning in _annotations(scope, "warning"))


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_shared_with_more_accounts_than_its_bucket_policy_can_name_is_refused(read_only: bool) -> None:
    def errors(accounts: int) -> list[str]:
        scope = stack()
        store = ArtifactStore(scope, "Artifacts")
        for number in range(accounts):
            store.share_with_account(f"{number:012}", read_only=read_only)
        policy = resource(template_of(scope), "AWS::S3::BucketPolicy")["PolicyDocument"]
        assert len(json.dumps(policy)) > 9_000
        return _errors(scope)

    assert errors(100) == []
    (error,) = errors(300 if read_only else 118)
    assert re.search(
        r"ArtifactsBucketPolicy\w+ has [\d,]+ bytes in its policy, and S3 allows 20,480: share with the", error
    )


def test_the_template_of_a_few_endpoints_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scope: Stack) -> Any:
        raise AssertionError(f"{scope.node.path} is written twice")

    monkeypatch.setattr(template_size, "written_template", fail)
    scope = stack()
    _declare(scope, 7, full=True)
    template = template_of(scope)
    assert len(json.dumps(template, indent=1)) < 800_000
    assert excesses(template) == []
    assert len(template["Resources"]) < 300


def _endpoints(scope: Stack) -> None:
    for name in ("One", "Two", "Three"):
        OptimizedEndpoint(scope, name, instance_type="ml.g5.12xlarge")


def _adapters(scope: Stack) -> None:
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.12xlarge")
    server = Server.vllm(adapters=Adapters())
    component = shared.add_component("Chat", model=Model.s3("s3://models/chat/"), server=server)
    for name in ("Sql", "Law", "Tax"):
        component.add_adapter(name, artifact_uri=f"s3://adapters/{name.lower()}.tar.gz")


@pytest.mark.parametrize(("build", "number"), [(_endpoints, 3), (_adapters, 6)])
def test_everything_that_can_be_there_in_great_numbers_is_counted(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[Stack], None], number: int
) -> None:
    lower(monkeypatch, "template bytes", 1_000)
    for watched_from in (number, number + 1):
        monkeypatch.setattr(template_size, "_WATCHED_FROM", watched_from)
        scope = stack()
        build(scope)
        template_of(scope)
        assert bool(_errors(scope)) == (watched_from == number)


def test_each_limit_has_an_alternative_of_its_own() -> None:
    assert {*template_size._REMEDIES, *template_size._DIVIDED} == limits().keys()
