"""A stack as a template that needs no bootstrapped account, and the files that its parameters refer to."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from aws_cdk import App, DefaultStackSynthesizer, IStackSynthesizer, Stack

from constructs_optim.constructs.stack.findings import UNPRINTED, policy_warnings_of, warnings_of
from constructs_optim.constructs.validation.template_size import refusal
from constructs_optim.recipe.errors import shown
from constructs_optim.templates.limits import excesses

from .inline_code import inline_source

BUCKET_PARAMETER = "CodeBucket"
"""The parameter of the bucket with the files, in the stack's Region, because Lambda reads no other."""
CODE_PREFIX = "constructs-optim/"
"""The default prefix of the files' keys."""

_REGION = "${AWS::Region}"
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# Names of parameters by the paths of the library's assets.
_PARAMETERS = {"OptimizationService/Code": "CodeKey", "OptimizationService/TrainingCode/Asset": "TrainingCodeKey"}
# Text with a pseudo parameter becomes its own Fn::Sub, which a parameter then replaces. The CDK may replace account and
# Region by known values, but never the partition (StringSpecializer of aws-cdk-lib,
# core/lib/helpers-internal/string-specializer.ts).
_PARTITION = "${AWS::Partition}"
_BUCKET_PLACEHOLDER, _PREFIX_PLACEHOLDER = f"code-bucket-{_PARTITION}", f"code-prefix-{_PARTITION}/"
_WITHOUT_CODE = "leave inline out, and pass a bucket for the code"
_CONTEXT = {
    "@aws-cdk/core:suppressTemplateIndentation": True,
    # The template's code is read from the assembly.
    "aws:cdk:disable-asset-staging": False,
    **UNPRINTED,
}


@dataclass(frozen=True)
class CodeFile:
    """A file that must be in the bucket before the template is deployed.

    Attributes:
        parameter: the template's parameter for its key.
        key: the parameter's default, which contains the SHA-256 of the content.
        content: the file's bytes.
    """

    parameter: str
    key: str
    content: bytes


@dataclass(frozen=True)
class StandaloneTemplate:
    """A template, the files that its parameters refer to, and its constructs' warnings."""

    template: Mapping[str, Any]
    files: tuple[CodeFile, ...]
    warnings: tuple[str, ...]

    @property
    def body(self) -> str:
        """The template as JSON with a line for each parameter, resource and output, for reviewable diffs."""
        return f"{_in_lines(_section(*section) for section in self.template.items())}\n"


def standalone_template(
    declare: Callable[[App, IStackSynthesizer], Stack],
    *,
    code_bucket: str | None = None,
    code_prefix: str = CODE_PREFIX,
    inline: bool = False,
    context: Mapping[str, Any] | None = None,
) -> StandaloneTemplate:
    """Synthesize the stack that ``declare`` adds to an app.

    The template's parameters are ``CodeBucket``; ``CodeKey`` for the handlers' code; ``TrainingCodeKey`` for the
    training code, if there are training jobs; and one for each of the stack's own assets, named after its construct.

    Args:
        declare: a function that adds the stack with the given synthesizer, for instance ``lambda app, synthesizer:
            Stack(app, "Chat", synthesizer=synthesizer)``.
        code_bucket: the default of ``CodeBucket``. ``${AWS::Region}`` in it is the stack's Region, for a template for
            several Regions. Default: none; each deployment passes the bucket.
        code_prefix: the prefix of the files' keys.
        inline: whether the template contains the handlers' code and needs no bucket.
        context: the app's context. Default: none.

    Raises:
        ValueError: if the bucket name is invalid, or a single template cannot express the stack or exceeds a limit.
        RuntimeError: if constructs added errors to the stack, or a policy refuses it; contains the errors.
    """
    _check_bucket(code_bucket)
    with tempfile.TemporaryDirectory() as folder:
        app = App(
            analytics_reporting=False,
            # It prints a report whose copy would be in the temporary folder. The limits are checked below.
            builtin_cloud_formation_validation=False,
            outdir=folder,
            post_cli_context={**(context or {}), **_CONTEXT},
        )
        synthesizer = DefaultStackSynthesizer(
            bucket_prefix=_PREFIX_PLACEHOLDER,
            file_assets_bucket_name=_BUCKET_PLACEHOLDER,
            generate_bootstrap_version_rule=False,
        )
        stack = declare(app, synthesizer)
        app.synth()
        warnings = (*warnings_of(Path(folder), stack), *policy_warnings_of(Path(folder)))
        template = json.loads((Path(folder) / stack.template_file).read_bytes())
        if not template.get("Resources"):
            raise ValueError(
                "the stack has no resources, and CloudFormation does not accept a template without resources: declare "
                "some"
            )
        assets = list(_assets(Path(folder), stack, template))
        files: list[CodeFile] = []
        if inline:
            template = _inlined(template, assets)
        else:
            files = [asset.file(code_prefix) for asset in assets]
            template = _parameterized(template, assets, files, code_bucket)
    made = StandaloneTemplate(template, tuple(files), warnings)
    found = excesses(template, size=len(made.body.encode()))
    if refused := [
        f"{excess}: {_WITHOUT_CODE}" if inline and excess.name == "template bytes" else refusal(excess, template)
        for excess in found
        if not excess.limit.adjustable
    ]:
        raise ValueError("\n".join(refused))
    return made


@dataclass(frozen=True)
class _Asset:
    """An asset of the stack: its parameter, the placeholder of its key in the template, and its files."""

    parameter: str
    placeholder: str
    path: Path

    def file(self, prefix: str) -> CodeFile:
        content = _archive(self.path) if self.path.is_dir() else self.path.read_bytes()
        suffix = ".zip" if self.path.is_dir() else self.path.suffix
        return CodeFile(self.parameter, f"{prefix}{hashlib.sha256(content).hexdigest()}{suffix}", content)


def _check_bucket(name: str | None) -> None:
    # Regions have 9 to 14 characters.
    if name is not None and not _BUCKET_NAME.fullmatch(name.replace(_REGION, "us-west-2")):
        raise ValueError(
            f"the code bucket is {shown(name)}, and a bucket name has 3 to 63 lowercase letters, digits, dots and "
            f"hyphens, for instance my-code, or my-code-{_REGION} for a bucket in each Region"
        )


def _assets(folder: Path, stack: Stack, template: Mapping[str, Any]) -> Iterator[_Asset]:
    """Yield the assets of a synthesized stack.

    Raises:
        ValueError: if a template with parameters cannot express an asset.
    """
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            raise ValueError(
                f"{logical_id} is a nested stack with its own template: declare its resources in the stack"
            )
    manifest = json.loads((folder / f"{stack.artifact_id}.assets.json").read_bytes())
    if images := manifest.get("dockerImages", {}):
        raise ValueError(
            f"{', '.join(image.get('displayName', digest) for digest, image in images.items())}: only the CDK CLI "
            "builds and pushes images; push them beforehand, and refer to them by URI"
        )
    for digest, asset in manifest["files"].items():
        path = asset.get("source", {}).get("path")
        if path == stack.template_file:
            continue
        name = asset.get("displayName", digest)
        if path is None:
            raise ValueError(
                f"{name} is created by a command of the CDK CLI: create it beforehand, and refer to it by path"
            )
        (destination,) = asset["destinations"].values()
        parameter = _PARAMETERS.get(name) or f"{re.sub('[^A-Za-z0-9]', '', name)}Key"
        yield _Asset(parameter, destination["objectKey"], folder / path)


def _archive(folder: Path) -> bytes:
    """Return a zip archive with the same bytes on every machine: uncompressed, because builds of zlib differ."""
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                entry.create_system = 3
                entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
                archive.writestr(entry, path.read_bytes())
    return archived.getvalue()


def _parameterized(
    template: dict[str, Any], assets: list[_Asset], files: list[CodeFile], code_bucket: str | None
) -> dict[str, Any]:
    """Return the template with parameters for the bucket and the keys."""
    bucket: dict[str, Any] = {"Ref": BUCKET_PARAMETER}
    described = {
        "Type": "String",
        "Description": "The bucket with the code, in the stack's Region",
        "AllowedPattern": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    }
    conditions: dict[str, Any] = {}
    if code_bucket is not None and _REGION in code_bucket:
        # A parameter's default must be a literal.
        described = {**described, "Default": "", "AllowedPattern": f"|{described['AllowedPattern']}"}
        described["Description"] += f"; by default {code_bucket.replace(_REGION, '<region>')}"
        conditions = {f"{BUCKET_PARAMETER}IsNamed": {"Fn::Not": [{"Fn::Equals": [bucket, ""]}]}}
        bucket = {"Fn::If": [f"{BUCKET_PARAMETER}IsNamed", bucket, {"Fn::Sub": code_bucket}]}
    elif code_bucket is not None:
        described["Default"] = code_bucket
    parameters = {BUCKET_PARAMETER: described} if assets else {}
    for file in files:
        parameters[file.parameter] = {"Type": "String", "Default": file.key, "Description": "A key in the code bucket"}
    if taken := sorted(parameters.keys() & template.get("Parameters", {}).keys()):
        raise ValueError(f"the stack has the parameter {taken[0]}, which the template itself defines: rename it")
    referred = {asset.placeholder: {"Ref": asset.parameter} for asset in assets}
    replaced = _replaced(template, {**referred, _BUCKET_PLACEHOLDER: bucket})
    if any(left in json.dumps(replaced) for left in ("code-bucket-", "code-prefix-")):
        raise ValueError(
            "the stack contains the URL of an asset, where parameters cannot replace the bucket and key: compose it "
            "from s3_bucket_name and s3_object_key"
        )
    added: dict[str, Any] = {"Parameters": parameters, "Conditions": conditions if assets else {}}
    for section, entries in added.items():
        if entries:
            added[section] = {**entries, **replaced.pop(section, {})}
    return {**{name: section for name, section in added.items() if section}, **replaced}


def _inlined(template: dict[str, Any], assets: list[_Asset]) -> dict[str, Any]:
    """Return the template with the code of each function in it."""
    by_key = {asset.placeholder: asset for asset in assets}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            properties = resource["Properties"]
            match properties["Code"]:
                case {"S3Key": {"Fn::Sub": str() as placeholder}}:
                    asset = by_key.get(placeholder)
                case _:
                    asset = None
            if asset is not None and asset.path.is_dir():
                properties["Code"] = {"ZipFile": inline_source(asset.path, properties["Handler"])}
                properties["Handler"] = "index.handler"
    rest = json.dumps(template)
    if kept := [asset.parameter.removesuffix("Key") for asset in assets if asset.placeholder in rest]:
        raise ValueError(
            f"{' and '.join(kept)} cannot be in the template, because only functions can have inline code: "
            f"{_WITHOUT_CODE}"
        )
    return template


def _replaced(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its placeholders replaced by ``values``."""
    match value:
        case {"Fn::Sub": str() as placeholder} if placeholder in values:
            return values[placeholder]
        case dict():
            return {key: _replaced(member, values) for key, member in cast("dict[str, Any]", value).items()}
        case list():
            return [_replaced(item, values) for item in cast("list[Any]", value)]
        case _:
            return value


def _section(name: str, section: Any) -> str:
    if not isinstance(section, dict):
        return f"{json.dumps(name)}:{_compact(section)}"
    entries = cast("dict[str, Any]", section).items()
    return f"{json.dumps(name)}:{_in_lines(f'{json.dumps(key)}:{_compact(entry)}' for key, entry in entries)}"


def _in_lines(members: Iterable[str]) -> str:
    return "{\n" + ",\n".join(members) + "\n}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
