"""The templates of a synthesized app, from all stages, stacks and nested stacks.

Source: the cloud assembly's manifest (npm package ``@aws-cdk/cloud-assembly-schema``), which the CDK writes to
``manifest.json`` in its output folder.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Discriminator, Field, RootModel, Tag, ValidationError

from constructs_optim.recipe.errors import shortened
from constructs_optim.templates.resource_types import NESTED_STACK
from constructs_optim.templates.template import Template
from constructs_optim.templates.text import text_of

# The environment of a stack without an explicit account or Region.
_UNKNOWN = {"", "unknown-account", "unknown-region"}
_LONGEST, _MOST_STACKS = 300, 1_000
# Of all files, and of the templates of all stacks, several of which may have the same file. CloudFormation allows a
# template 1,000,000 bytes and 500 resources.
_MOST_BYTES, _MOST_RESOURCES, _MOST_OF_A_TEMPLATE = 64_000_000, 200_000, 2_000
_TEMPLATE = RootModel[dict[str, Any]]
_Model = TypeVar("_Model", bound=BaseModel)


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
    """Return the stacks of the app that ``cdk synth`` wrote to ``folder``, in the manifest's order.

    An assembly may come from somebody else, so files outside of its folder are not read.

    Raises:
        ExplanationError: if the folder is not a synthesized app.
    """
    return list(_Reader(folder).stacks(folder))


class _StackProperties(BaseModel):
    template_file: str = Field(alias="templateFile")
    stack_name: str | None = Field(None, alias="stackName")


class _NestedProperties(BaseModel):
    directory_name: str = Field(alias="directoryName")


class _Stack(BaseModel):
    type: Literal["aws:cloudformation:stack"]
    environment: str = ""
    display_name: str | None = Field(None, alias="displayName")
    properties: _StackProperties


class _NestedAssembly(BaseModel):
    type: Literal["cdk:cloud-assembly"]
    properties: _NestedProperties


class _Other(BaseModel):
    """An artifact that has no template, such as the construct tree."""


_TYPES = ("aws:cloudformation:stack", "cdk:cloud-assembly")
_OTHER = "another type"


def _type_of(artifact: dict[str, Any] | object) -> str:
    found = artifact.get("type") if isinstance(artifact, dict) else None
    return found if found in _TYPES else _OTHER


_Artifact = Annotated[
    Annotated[_Stack, Tag(_TYPES[0])] | Annotated[_NestedAssembly, Tag(_TYPES[1])] | Annotated[_Other, Tag(_OTHER)],
    Discriminator(_type_of),
]


class _Manifest(BaseModel):
    artifacts: dict[str, _Artifact] = {}


class _Source(BaseModel):
    path: str | None = None


class _Destination(BaseModel):
    object_key: str = Field(alias="objectKey")


class _FileAsset(BaseModel):
    source: _Source
    destinations: dict[str, _Destination]


class _AssetManifest(BaseModel):
    files: dict[str, _FileAsset] = {}


class _Reader:
    """Reads the assemblies below a folder, each once."""

    def __init__(self, root: Path) -> None:
        self._root = _without_links(root)
        self._known: set[Path] = set()
        # The templates, with their sizes, by path: nested stacks can share one.
        self._templates: dict[Path, tuple[Mapping[str, Any], int]] = {}
        self._count = 0
        self._bytes_left, self._resources_left = _MOST_BYTES, _MOST_RESOURCES

    def stacks(self, folder: Path) -> Iterator[StackTemplate]:
        """Yield the stacks of the assembly in ``folder``, with those of assemblies in it."""
        resolved = self._inside(folder, folder)
        if resolved in self._known:
            raise ExplanationError(f"{folder} is an assembly inside of itself: synthesize the app again")
        self._known.add(resolved)
        manifest = self._read(_Manifest, folder, "manifest.json")
        uploaded = self._uploaded(folder)
        for artifact_id, artifact in manifest.artifacts.items():
            match artifact:
                case _NestedAssembly():
                    yield from self.stacks(folder / artifact.properties.directory_name)
                case _Stack(properties=properties):
                    # aws://<account>/<region>
                    account, _, region = artifact.environment.removeprefix("aws://").partition("/")
                    stack = StackTemplate(
                        path=artifact.display_name or artifact_id,
                        stack_name=properties.stack_name or artifact_id,
                        template=self._template(folder, properties.template_file),
                        account=None if account in _UNKNOWN else account,
                        region=None if region in _UNKNOWN else region,
                    )
                    yield stack
                    yield from self._nested(folder, uploaded, stack, ())
                case _:
                    pass

    def _nested(
        self, folder: Path, files: Mapping[str, str], parent: StackTemplate, around: tuple[str, ...]
    ) -> Iterator[StackTemplate]:
        for resource in Template(parent.template).of_type(NESTED_STACK):
            # The CDK's template of a nested stack is an asset with this name.
            name = text_of(resource.properties.get("TemplateURL")).rpartition("/")[2]
            if name not in files:
                continue
            if name in around:
                raise ExplanationError(f"{folder / files[name]} is a nested stack of itself: synthesize the app again")
            stack = replace(
                parent,
                path=f"{parent.path}/{resource.logical_id}",
                template=self._template(folder, files[name]),
                parents=(*parent.parents, resource.logical_id),
            )
            yield stack
            yield from self._nested(folder, files, stack, (*around, name))

    def _uploaded(self, folder: Path) -> dict[str, str]:
        """Return the paths of the assembly's assets in its folder, by object name."""
        return {
            destination.object_key.rpartition("/")[2]: asset.source.path
            for manifest in sorted(folder.glob("*.assets.json"))
            for asset in self._read(_AssetManifest, folder, manifest.name).files.values()
            for destination in asset.destinations.values()
            if asset.source.path is not None
        }

    def _template(self, folder: Path, name: str) -> Mapping[str, Any]:
        # Nested stacks can share templates, so that a few files describe any number of stacks.
        self._count += 1
        if self._count > _MOST_STACKS:
            raise ExplanationError(f"{_shown(folder)} has more than {_MOST_STACKS:,} stacks")
        path = folder / name
        if path in self._templates:
            template, size = self._templates[path]
            self._spend(path, size)
        else:
            before = self._bytes_left
            template = self._read(_TEMPLATE, folder, name).root
            self._templates[path] = template, before - self._bytes_left
        resources = len(Template(template).section("Resources"))
        # Resources are compared with others of their template.
        if resources > _MOST_OF_A_TEMPLATE:
            raise ExplanationError(
                f"{_shown(path)} has {resources:,} resources, and CloudFormation deploys a template of at most 500: "
                "divide the stack, and synthesize the app again"
            )
        self._spend(path, resources=resources)
        return template

    def _spend(self, path: Path, size: int = 0, resources: int = 0) -> None:
        """Count bytes to read, or to compare once more, and resources.

        Raises:
            ExplanationError: if all are more than any app has.
        """
        self._bytes_left -= size
        self._resources_left -= resources
        if self._bytes_left < 0 or self._resources_left < 0:
            raise ExplanationError(
                f"{_shown(path)} is beyond the {_MOST_BYTES:,} bytes and {_MOST_RESOURCES:,} resources that are read "
                "at once (a template that stacks share counts for each): pass a part of the app, such as the folder of "
                "one stage (cdk.out/assembly-Prod)"
            )

    def _read(self, model: type[_Model], folder: Path, name: str) -> _Model:
        path = folder / name
        try:
            resolved = self._inside(path, folder)
            status = resolved.stat()
            if not stat.S_ISREG(status.st_mode):
                raise ExplanationError(f"{_shown(path)} is not a file")
            self._spend(path, status.st_size)
            return model.model_validate_json(resolved.read_bytes().removeprefix(codecs.BOM_UTF8))
        except (FileNotFoundError, NotADirectoryError):
            if name == "manifest.json":
                raise ExplanationError(_no_assembly(folder)) from None
            raise ExplanationError(f"{_shown(path)} does not exist: synthesize the app again") from None
        except OSError as error:
            raise ExplanationError(f"{_shown(path)} cannot be read: {error.strerror}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"] if part not in (*_TYPES, _OTHER))
            reason = f"{where}: {problem['msg']}" if where else problem["msg"]
            raise ExplanationError(f"{_shown(path)} is not a file of the CDK: {reason[:_LONGEST]}") from None

    def _inside(self, path: Path, folder: Path) -> Path:
        """Return a path without symbolic links.

        Raises:
            ExplanationError: if the path leads out of the assembly.
        """
        resolved = _without_links(path)
        if not resolved.is_relative_to(self._root):
            raise ExplanationError(
                f"{_shown(folder)} refers to {_shown(path)}, which is outside of {self._root}: only files of the app "
                "are read. Synthesize the app again"
            )
        return resolved


def _no_assembly(folder: Path) -> str:
    advice = "run `cdk synth` first, or pass the folder that it wrote (cdk.out by default), or an endpoint file"
    if folder.is_file():
        return f"{_shown(folder)} is neither a folder nor an endpoint file, whose name ends in .yaml, .yml or .json"
    if not folder.is_dir():
        return f"{_shown(folder)} does not exist: {advice}"
    return f"{_shown(folder)} has no manifest.json, so it is not a synthesized app: {advice}"


def _without_links(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise ExplanationError(f"{_shown(path)} is not a path") from None


def _shown(path: Path) -> str:
    return shortened(str(path), _LONGEST)


def is_chosen(stack: StackTemplate, patterns: Sequence[str] | None) -> bool:
    """Return whether a stack, or its outermost parent, matches a pattern; true without patterns."""
    outermost = stack.path
    for _ in stack.parents:
        outermost = outermost.rpartition("/")[0]
    return not patterns or any(fnmatchcase(path, pattern) for pattern in patterns for path in (stack.path, outermost))
