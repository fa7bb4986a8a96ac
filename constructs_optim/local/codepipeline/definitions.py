"""What CodePipeline asks of a pipeline's structure, and what it fills in.

Source: CodePipeline user guide, "CodePipeline pipeline structure reference" and "Action structure reference" (number
of input and output artifacts, configuration of each provider).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..api_error import ApiError

Record = dict[str, Any]


@dataclass(frozen=True)
class ActionType:
    """What an action of a provider may be given.

    Attributes:
        required: members of its configuration that it needs.
        inputs: how many input artifacts, at least and at most.
        outputs: how many output artifacts, at least and at most.
        optional: further members of its configuration that the local cloud knows.
        lacking: values of its configuration that the local cloud refuses, by member.
    """

    required: tuple[str, ...]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    optional: tuple[str, ...] = ()
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


ACTION_TYPES: dict[tuple[str, str], ActionType] = {
    ("Source", "CodeStarSourceConnection"): ActionType(
        ("ConnectionArn", "FullRepositoryId", "BranchName"),
        (0, 0),
        (1, 1),
        ("OutputArtifactFormat", "DetectChanges"),
        {"OutputArtifactFormat": ("CODEBUILD_CLONE_REF",)},
    ),
    ("Source", "S3"): ActionType(
        ("S3Bucket", "S3ObjectKey"), (0, 0), (1, 1), ("PollForSourceChanges", "AllowOverrideForS3ObjectKey")
    ),
    ("Build", "CodeBuild"): ActionType(
        ("ProjectName",),
        (1, 5),
        (0, 5),
        ("PrimarySource", "EnvironmentVariables", "BatchEnabled", "CombineArtifacts"),
        {"BatchEnabled": ("true",)},
    ),
    ("Test", "CodeBuild"): ActionType(
        ("ProjectName",),
        (1, 5),
        (0, 5),
        ("PrimarySource", "EnvironmentVariables", "BatchEnabled", "CombineArtifacts"),
        {"BatchEnabled": ("true",)},
    ),
    ("Deploy", "CloudFormation"): ActionType(
        ("ActionMode", "StackName"),
        (0, 10),
        (0, 1),
        (
            "Capabilities",
            "ChangeSetName",
            "OutputFileName",
            "ParameterOverrides",
            "RoleArn",
            "TemplateConfiguration",
            "TemplatePath",
        ),
    ),
    ("Approval", "Manual"): ActionType((), (0, 0), (0, 0), ("CustomData", "ExternalEntityLink", "NotificationArn")),
}
_MODES = {
    "CHANGE_SET_REPLACE": ("ChangeSetName", "RoleArn", "TemplatePath"),
    "CHANGE_SET_EXECUTE": ("ChangeSetName",),
    "CREATE_UPDATE": ("RoleArn", "TemplatePath"),
    "REPLACE_ON_FAILURE": ("RoleArn", "TemplatePath"),
    "DELETE_ONLY": ("RoleArn",),
}


def completed(given: Record) -> Record:
    """A declaration with what CodePipeline fills in.

    Raises:
        ApiError: InvalidStructureException or one of its kin, naming every problem of that kind.
    """
    declaration = {"executionMode": "SUPERSEDED", "pipelineType": "V1", **given}
    stages = [{**stage, "actions": [_action(item) for item in stage["actions"]]} for stage in given["stages"]]
    declaration["stages"] = stages
    for code, problems in (
        ("InvalidStructureException", list(_structure_problems(declaration))),
        ("InvalidStageDeclarationException", list(_stage_problems(stages))),
        ("InvalidActionDeclarationException", list(_action_problems(stages))),
    ):
        if problems:
            raise ApiError(code, "; ".join(problems))
    return declaration


def _action(given: Record) -> Record:
    defaults = {"runOrder": 1, "configuration": {}, "inputArtifacts": [], "outputArtifacts": []}
    return {**defaults, **given}


def _structure_problems(declaration: Record) -> Iterator[str]:
    stages = declaration["stages"]
    if len(stages) < 2:
        yield "Pipeline should have at least 2 stages"
    names = [stage["name"] for stage in stages]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"Stage name {name} is used more than once"
    if ("artifactStore" in declaration) == ("artifactStores" in declaration):
        yield "Exactly one of artifactStore and artifactStores must be given"
    if declaration["pipelineType"] == "V1":
        lacking = [name for name in ("triggers", "variables") if declaration.get(name)]
        if declaration["executionMode"] != "SUPERSEDED":
            lacking.append(f"executionMode {declaration['executionMode']}")
        yield from (f"{name} needs a pipeline of type V2" for name in lacking)


def _stage_problems(stages: list[Record]) -> Iterator[str]:
    for place, stage in enumerate(stages):
        sources = [item["name"] for item in stage["actions"] if item["actionTypeId"]["category"] == "Source"]
        if place == 0 and len(sources) < len(stage["actions"]):
            yield f"Stage {stage['name']} is the first one and can only contain source actions"
        if place > 0 and sources:
            yield f"Action {sources[0]} of stage {stage['name']}: only the first stage can contain source actions"
        names = [item["name"] for item in stage["actions"]]
        if not names:
            yield f"Stage {stage['name']} has no action"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"Action name {name} is used more than once in stage {stage['name']}"


def _action_problems(stages: list[Record]) -> Iterator[str]:
    made: set[str] = set()
    for stage in stages:
        for order in sorted({action["runOrder"] for action in stage["actions"]}):
            together = [action for action in stage["actions"] if action["runOrder"] == order]
            for action in together:
                place = f"Action {action['name']} of stage {stage['name']}"
                for problem in _problems_of(action, made):
                    yield f"{place}: {problem}"
            for action in together:
                for artifact in action["outputArtifacts"]:
                    if artifact["name"] in made:
                        yield f"Action {action['name']}: output artifact {artifact['name']} is made more than once"
                    made.add(artifact["name"])


def _problems_of(action: Record, made: set[str]) -> Iterator[str]:
    kind = action["actionTypeId"]
    known = ACTION_TYPES.get((kind["category"], kind["provider"]))
    if known is None or kind["owner"] != "AWS":
        there = ", ".join(f"{category} by {provider}" for category, provider in ACTION_TYPES)
        yield f"the local cloud has no {kind['category']} by {kind['provider']} ({kind['owner']}); there are {there}"
        return
    for what, limits in (("input", known.inputs), ("output", known.outputs)):
        count = len(action[f"{what}Artifacts"])
        if not limits[0] <= count <= limits[1]:
            yield f"it has {count} {what} artifacts, where {limits[0]} to {limits[1]} are allowed"
    for artifact in action["inputArtifacts"]:
        if artifact["name"] not in made:
            yield f"input artifact {artifact['name']} is not made by any action before it"
    given = action["configuration"]
    for name in known.required:
        if not given.get(name):
            yield f"its configuration lacks {name}"
    for name in sorted(set(given) - {*known.required, *known.optional}):
        yield f"its configuration has an unknown {name}"
    for name, values in known.lacking.items():
        if given.get(name) in values:
            yield f"{name} = {given[name]} is not had by the local cloud"
    if kind["provider"] == "CloudFormation":
        yield from _mode_problems(given)


def _mode_problems(given: Record) -> Iterator[str]:
    mode = given.get("ActionMode", "")
    if mode not in _MODES:
        yield f"ActionMode {mode} is none of {', '.join(_MODES)}"
        return
    for name in _MODES[mode]:
        if not given.get(name):
            yield f"ActionMode {mode} needs {name}"
    path = given.get("TemplatePath")
    if path and not re.fullmatch(r"[^:]+::.+", path):
        yield f"TemplatePath {path} is no <artifact>::<path>"
