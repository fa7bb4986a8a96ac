"""The templates of a synthesized app, from all stages, stacks and nested stacks.

Source: the cloud assembly's manifest (npm package ``@aws-cdk/cloud-assembly-schema``), which the CDK writes to
``manifest.json`` in its output folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from constructs_optim.templates.resource_types import NESTED_STACK
from constructs_optim.templates.template import Template
from constructs_optim.templates.text import text_of

# The environment of a stack without an explicit account or Region.
_UNKNOWN = {"", "unknown-account", "unknown-region"}
_OBJECT = TypeAdapter(dict[str, Any])


class ExplanationError(ValueError):
    """The app cannot be explained; the message names a fix."""


@dataclass(frozen=True)
class StackTemplate:
    """A stack of an app: its ``path`` (``Prod/Chat``), and the logical IDs of its parent stacks."""

    path: str
    stack_name: str
    template: Mapping[str, Any]
    account: str | None = None
    region: str | None = None
    parents: tuple[str, ...] = ()


def read_assembly(folder: Path) -> list[StackTemplate]:
    """Return the stacks of the app that ``cdk synth`` wrote to ``folder``, in the manifest's order."""
    if not (folder / "manifest.json").is_file():
        raise ExplanationError(
            f"{folder} has no manifest.json, so it is not a synthesized app: run `cdk synth` first, or pass the folder "
            "that it wrote (cdk.out by default), or an endpoint file"
        )
    return list(_stacks(folder))


def _stacks(folder: Path) -> Iterator[StackTemplate]:
    uploaded = _uploaded(folder)
    for artifact_id, artifact in _object(folder / "manifest.json").get("artifacts", {}).items():
        properties = artifact.get("properties", {})
        match artifact.get("type"):
            case "cdk:cloud-assembly":
                yield from _stacks(folder / properties["directoryName"])
            case "aws:cloudformation:stack":
                # aws://<account>/<region>
                account, _, region = artifact.get("environment", "").removeprefix("aws://").partition("/")
                stack = StackTemplate(
                    path=artifact.get("displayName", artifact_id),
                    stack_name=properties.get("stackName", artifact_id),
                    template=_object(folder / properties["templateFile"]),
                    account=None if account in _UNKNOWN else account,
                    region=None if region in _UNKNOWN else region,
                )
                yield stack
                yield from _nested(uploaded, stack)
            case _:
                pass


def _nested(files: Mapping[str, Path], parent: StackTemplate) -> Iterator[StackTemplate]:
    for resource in Template(parent.template).of_type(NESTED_STACK):
        # The CDK's template of a nested stack is an asset with this name.
        name = text_of(resource.properties.get("TemplateURL")).rpartition("/")[2]
        if name not in files:
            continue
        stack = replace(
            parent,
            path=f"{parent.path}/{resource.logical_id}",
            template=_object(files[name]),
            parents=(*parent.parents, resource.logical_id),
        )
        yield stack
        yield from _nested(files, stack)


def _uploaded(folder: Path) -> dict[str, Path]:
    """Return the files of the assembly's assets, by object name."""
    return {
        destination["objectKey"].rpartition("/")[2]: folder / asset["source"]["path"]
        for manifest in sorted(folder.glob("*.assets.json"))
        for asset in _object(manifest).get("files", {}).values()
        for destination in asset["destinations"].values()
        if "path" in asset["source"]
    }


def _object(path: Path) -> dict[str, Any]:
    try:
        return _OBJECT.validate_json(path.read_bytes())
    except OSError as error:
        raise ExplanationError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ExplanationError(f"{path} is not a JSON object: {error.errors()[0]['msg']}") from None


def is_chosen(stack: StackTemplate, patterns: Sequence[str] | None) -> bool:
    """Return whether a stack, or its outermost parent, matches a pattern; true without patterns."""
    outermost = stack.path
    for _ in stack.parents:
        outermost = outermost.rpartition("/")[0]
    return not patterns or any(fnmatchcase(path, pattern) for pattern in patterns for path in (stack.path, outermost))
