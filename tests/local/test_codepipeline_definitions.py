"""What CodePipeline refuses of a pipeline's structure, and what it fills in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from constructs_optim.local.api_error import ApiError
from constructs_optim.local.codepipeline.definitions import completed

from .pipelines import action, approval, build, definition, source, stack, stage

Change = Callable[[dict[str, Any]], Any]


def pipeline() -> dict[str, Any]:
    return definition(
        source(), stage("Build", build("Build", "project", ["Built"])), stage("Release", approval()), name="chat"
    )


def test_what_is_left_out_is_filled_in() -> None:
    given = pipeline()
    del given["stages"][2]["actions"][0]["configuration"]
    found = completed(given)
    assert (found["pipelineType"], found["executionMode"]) == ("V1", "SUPERSEDED")
    release = found["stages"][2]["actions"][0]
    assert (release["runOrder"], release["configuration"], release["inputArtifacts"]) == (1, {}, [])


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda it: it["stages"].pop(), "", ""),
        (lambda it: it.update(stages=it["stages"][:1]), "InvalidStructure", "should have at least 2 stages"),
        (lambda it: it["stages"].append(it["stages"][2]), "InvalidStructure", "Release is used more than once"),
        (lambda it: it.pop("artifactStore"), "InvalidStructure", "Exactly one of artifactStore and artifactStores"),
        (lambda it: it.update(executionMode="QUEUED"), "InvalidStructure", "executionMode QUEUED needs a pipeline of"),
        (lambda it: it.update(executionMode="QUEUED", pipelineType="V2"), "", ""),
        (lambda it: it["stages"].pop(0), "InvalidStageDeclaration", "Build is the first one and can only contain"),
        (lambda it: it["stages"][2]["actions"].append(approval()), "InvalidStage", "Release is used more than once in"),
        (lambda it: it["stages"][2].update(actions=[]), "InvalidStage", "Stage Release has no action"),
        (
            lambda it: it["stages"][2]["actions"].extend(source()["actions"]),
            "InvalidStage",
            "only the first stage can contain source actions",
        ),
        (
            lambda it: it["stages"][2]["actions"].append(action("Deploy by ECS", "Ship")),
            "InvalidAction",
            "the local cloud has no Deploy by ECS (AWS); there are Source by CodeStarSourceConnection",
        ),
        (
            lambda it: it["stages"][1]["actions"].append(build("Other", "p", ["Built"])),
            "InvalidAction",
            "output artifact Built is made more than once",
        ),
        (
            lambda it: it["stages"][1]["actions"][0].update(inputArtifacts=[{"name": "Nothing"}]),
            "InvalidAction",
            "Action Build of stage Build: input artifact Nothing is not made by any action before it",
        ),
        (
            lambda it: it["stages"][1]["actions"][0].update(inputArtifacts=[]),
            "InvalidAction",
            "it has 0 input artifacts, where 1 to 5 are allowed",
        ),
        (
            lambda it: it["stages"][1]["actions"][0].update(configuration={"Project": "p"}),
            "InvalidAction",
            "lacks ProjectName; Action Build of stage Build: its configuration has an unknown Project",
        ),
        (
            lambda it: it["stages"][1]["actions"][0]["configuration"].update(BatchEnabled="true"),
            "InvalidAction",
            "BatchEnabled = true is not had by the local cloud",
        ),
        (
            lambda it: it["stages"][2]["actions"].append(stack("Deploy", "CHANGE_SET_REPLACE", "it")),
            "InvalidAction",
            "ActionMode CHANGE_SET_REPLACE needs TemplatePath",
        ),
        (
            lambda it: it["stages"][2]["actions"].append(stack("Deploy", "CREATE_REPLACE", "it")),
            "InvalidAction",
            "ActionMode CREATE_REPLACE is none of CHANGE_SET_REPLACE, CHANGE_SET_EXECUTE",
        ),
    ],
)
def test_a_structure_that_cannot_run_is_refused_with_the_reason(change: Change, code: str, said: str) -> None:
    given = pipeline()
    change(given)
    if not code:
        completed(given)
        return
    with pytest.raises(ApiError) as refused:
        completed(given)
    assert refused.value.code.startswith(code)
    assert said in refused.value.message


def test_all_that_is_wrong_with_the_actions_is_said_at_once() -> None:
    given = pipeline()
    given["stages"][1]["actions"][0]["configuration"] = {}
    given["stages"][2]["actions"][0]["configuration"] = {"Colour": "red"}
    with pytest.raises(ApiError) as refused:
        completed(given)
    assert "lacks ProjectName" in refused.value.message
    assert "unknown Colour" in refused.value.message
