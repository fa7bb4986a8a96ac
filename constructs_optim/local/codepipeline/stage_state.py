"""A stage as GetPipelineState tells of it."""

from __future__ import annotations

from .executions import IN_PROGRESS, ActionRun, Execution, Record
from .pipelines import Pipeline


def stage_state(pipeline: Pipeline, stage: Record) -> Record:
    """What the stage holds, what waits for it, and the latest execution of each of its actions."""
    name, latest = stage["name"], pipeline.latest_in(stage["name"])
    disabled = pipeline.disabled.get(name)
    transition = {"enabled": disabled is None}
    if disabled is not None:
        transition |= {"disabledReason": disabled[0], "lastChangedAt": disabled[1]}
    waiting = [_stage_execution(execution, IN_PROGRESS) for execution in pipeline.waiting.get(name, [])]
    state: Record = {"stageName": name, "inboundTransitionState": transition, "actionStates": []}
    if waiting:
        state |= {"inboundExecution": waiting[-1], "inboundExecutions": waiting}
    for action in stage["actions"]:
        run = _latest_run(pipeline, name, action["name"])
        shown: Record = {"actionName": action["name"]}
        if run is not None:
            shown["latestExecution"] = run.state()
        state["actionStates"].append(shown)
    if latest is not None:
        state["latestExecution"] = _stage_execution(latest, latest.stages[name])
    return state


def _latest_run(pipeline: Pipeline, stage: str, action: str) -> ActionRun | None:
    found = (execution.latest(stage, action) for execution in reversed(pipeline.executions))
    return next((run for run in found if run is not None), None)


def _stage_execution(execution: Execution, status: str) -> Record:
    return {"pipelineExecutionId": execution.id, "status": status, "type": "STANDARD"}
