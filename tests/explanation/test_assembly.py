"""Assemblies may come from somebody else: only files of their folder are read, and every fault is one sentence."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, NestedStack, Stack, Stage
from aws_cdk import aws_s3 as s3
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.explanation.assembly import ExplanationError, read_assembly
from constructs_optim.operations.dashboard_preview import PreviewError, dashboards_of

from ..support.handwritten_templates import chat, stack, written
from ..support.properties import JSON, places, replaced

SECRET = '{"Resources": {"Secret": {"Type": "AWS::S3::Bucket"}}}'


def stack_artifact(file: str) -> dict[str, Any]:
    return {"type": "aws:cloudformation:stack", "properties": {"templateFile": file}}


def assembly_artifact(name: str) -> dict[str, Any]:
    return {"type": "cdk:cloud-assembly", "properties": {"directoryName": name}}


def with_artifact(folder: Path, artifact: Any) -> Path:
    """An assembly with one artifact, beside a file and an assembly that are not its own."""
    (folder.parent / "outside.json").write_text(SECRET)
    written(folder.parent / "other", stack(chat(), path="Secret"))
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"artifacts": {"Chat": artifact}}))
    return folder


def linked(name: str, target: str, artifact: dict[str, Any]) -> Callable[[Path], Path]:
    def assembly(folder: Path) -> Path:
        with_artifact(folder, artifact)
        (folder / name).symlink_to(target)
        return folder

    return assembly


def nested_template(path: str) -> Callable[[Path], Path]:
    """A stack whose nested stack's template is an asset at a path."""

    def assembly(folder: Path) -> Path:
        with_artifact(folder, stack_artifact("Chat.template.json"))
        nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "b/n.json"}}
        (folder / "Chat.template.json").write_text(json.dumps({"Resources": {"N": nested}}))
        asset = {"source": {"path": path}, "destinations": {"d": {"objectKey": "n.json", "bucketName": "b"}}}
        (folder / "Chat.assets.json").write_text(json.dumps({"files": {"a": asset}}))
        return folder

    return assembly


@pytest.mark.parametrize(
    ("assembly", "said"),
    [
        (stack_artifact("../outside.json"), "is outside of"),
        (stack_artifact("x/../../outside.json"), "is outside of"),
        (stack_artifact("/etc/hostname"), "refers to /etc/hostname, which is outside of"),
        (assembly_artifact("../other"), "is outside of"),
        (assembly_artifact("/etc"), "is outside of"),
        (assembly_artifact("."), "is an assembly inside of itself"),
        (assembly_artifact(""), "is an assembly inside of itself"),
        (assembly_artifact("x/.."), "is an assembly inside of itself"),
        (linked("link.json", "../outside.json", stack_artifact("link.json")), "is outside of"),
        (linked("link", "../other", assembly_artifact("link")), "is outside of"),
        (linked("link", "..", stack_artifact("link/outside.json")), "is outside of"),
        (linked("link", ".", assembly_artifact("link/link")), "is an assembly inside of itself"),
        (linked("link.json", "link.json", stack_artifact("link.json")), "cannot be read|does not exist"),
        (nested_template("../outside.json"), "is outside of"),
        (nested_template("/etc/hostname"), "is outside of"),
        (nested_template("Chat.template.json"), "is a nested stack of itself"),
        (stack_artifact("a" * 5_000), "cannot be read: File name too long"),
        (assembly_artifact("a" * 5_000), "cannot be read: File name too long"),
        (stack_artifact("a\0b"), "is not a path"),
        (stack_artifact("."), "is not a file"),
        ({"type": "aws:cloudformation:stack"}, "properties: Field required"),
        ({"type": "cdk:cloud-assembly", "properties": {}}, "directoryName: Field required"),
        ({**stack_artifact("x"), "environment": 3}, "environment: Input should be a valid string"),
        (
            {**stack_artifact("x"), "type": "aws:cloudformation:stack", "displayName": []},
            "displayName: Input should be",
        ),
    ],
)
def test_nothing_outside_of_an_assembly_is_read(
    assembly: dict[str, Any] | Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "cdk.out"
    folder = with_artifact(folder, assembly) if isinstance(assembly, dict) else assembly(folder)
    with pytest.raises(ExplanationError, match=said) as refused:
        read_assembly(folder)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 2_000
    assert "Secret" not in str(refused.value)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    folder = with_artifact(tmp_path / "cdk.out", stack_artifact("pipe"))
    os.mkfifo(folder / "pipe")
    with pytest.raises(ExplanationError, match="is not a file"):
        read_assembly(folder)


def test_a_folder_reached_by_a_link_is_an_assembly(tmp_path: Path) -> None:
    written(tmp_path / "app", stack(chat()))
    (tmp_path / "cdk.out").symlink_to("app")
    assert [found.path for found in read_assembly(tmp_path / "cdk.out")] == ["Chat"]


@pytest.mark.parametrize("name", ["a" * 5_000, "a\0b", "nowhere"])
def test_a_folder_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ExplanationError) as refused:
        read_assembly(tmp_path / name)
    assert len(str(refused.value)) < 600


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    s3.Bucket(Stack(app, "Chat"), "Bucket")
    app.synth()
    for file in ("manifest.json", "Chat.template.json"):
        (tmp_path / file).write_text((tmp_path / file).read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert len(read_assembly(tmp_path)) == 1


def test_stages_and_nested_stacks_of_the_cdk_are_read(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    inner = Stage(Stage(app, "Prod"), "Europe")
    outer = Stack(inner, "Chat")
    nested = NestedStack(outer, "Nested")
    s3.Bucket(nested, "Bucket")
    s3.Bucket(NestedStack(nested, "Deeper"), "Bucket")
    app.synth()
    assert len(read_assembly(tmp_path)) == 3


def test_templates_that_refer_to_each_other_do_not_multiply(tmp_path: Path) -> None:
    with_artifact(tmp_path / "cdk.out", stack_artifact("n0.json"))
    files: dict[str, Any] = {}
    for level in range(12):
        nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": f"b/n{level + 1}.json"}}
        resources = {f"N{each}": nested for each in range(9)}
        (tmp_path / "cdk.out" / f"n{level}.json").write_text(json.dumps({"Resources": resources}))
        destination = {"d": {"objectKey": f"n{level}.json", "bucketName": "b"}}
        files[str(level)] = {"source": {"path": f"n{level}.json"}, "destinations": destination}
    (tmp_path / "cdk.out" / "Chat.assets.json").write_text(json.dumps({"files": files}))
    with pytest.raises(ExplanationError, match="more than 1,000 stacks"):
        read_assembly(tmp_path / "cdk.out")


def _sharing(folder: Path, stacks: int, size: int) -> Path:
    """An app whose nested stacks share a template of about that size."""
    with_artifact(folder, stack_artifact("Chat.template.json"))
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "b/n.json"}}
    (folder / "Chat.template.json").write_text(
        json.dumps({"Resources": {f"N{number}": nested for number in range(stacks)}})
    )
    resources = {f"T{number}": {"Type": "AWS::SNS::Topic"} for number in range(size // 40)}
    (folder / "n.json").write_text(json.dumps({"Resources": resources}))
    asset = {"source": {"path": "n.json"}, "destinations": {"d": {"objectKey": "n.json", "bucketName": "b"}}}
    (folder / "Chat.assets.json").write_text(json.dumps({"files": {"a": asset}}))
    return folder


def test_a_template_that_stacks_share_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = _sharing(tmp_path / "cdk.out", stacks=100, size=2_000), list[Path]()
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path), read_bytes(path))[1])
    stacks = read_assembly(folder)
    assert len(stacks) == 101
    assert len([path for path in read if path.name == "n.json"]) == 1
    assert len({id(stack.template) for stack in stacks}) == 2


@pytest.mark.parametrize(("stacks", "size"), [(110, 79_000), (1, 70_000_000)])
def test_templates_of_more_bytes_than_an_app_has_are_refused(tmp_path: Path, stacks: int, size: int) -> None:
    folder = _sharing(tmp_path / "cdk.out", stacks, 100 if stacks == 1 else size)
    if stacks == 1:
        os.truncate(folder / "n.json", size)
    with pytest.raises(ExplanationError, match="beyond the 64,000,000 bytes and 200,000 resources"):
        read_assembly(folder)


def test_a_template_of_more_resources_than_can_be_deployed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExplanationError, match=r"n\.json has 37,500 resources, and CloudFormation deploys"):
        read_assembly(_sharing(tmp_path / "cdk.out", stacks=1, size=1_500_000))


MANIFEST = {
    "version": "55.0.0",
    "artifacts": {
        "Chat": {
            "type": "aws:cloudformation:stack",
            "environment": "aws://unknown-account/us-west-2",
            "properties": {"templateFile": "Chat.template.json", "stackName": "Chat"},
            "displayName": "Chat",
        },
        "Prod": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "."}, "displayName": "Prod"},
        "Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}},
    },
}


@given(place=st.sampled_from(list(places(MANIFEST))), value=JSON)
def test_any_manifest_is_read_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, place: Any, value: Any
) -> None:
    folder = tmp_path_factory.mktemp("assembly")
    (folder / "Chat.template.json").write_text("{}")
    (folder / "manifest.json").write_text(json.dumps(replaced(MANIFEST, place, value)))
    with contextlib.suppress(ExplanationError):
        read_assembly(folder)


def test_a_dashboard_outside_of_an_assembly_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(SECRET)
    (tmp_path / "cdk.out").mkdir()
    (tmp_path / "cdk.out" / "Chat.template.json").symlink_to("../outside.json")
    with pytest.raises(PreviewError, match="is a link to a file outside of"):
        dashboards_of(tmp_path / "cdk.out")
    with pytest.raises(PreviewError, match="has no synthesized templates"):
        dashboards_of(tmp_path / ("a" * 5_000))
