"""Executions of a pipeline and of its actions, as the API tells of them."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from ..codebuild.build_artifacts import S3Object

Record = dict[str, Any]

IN_PROGRESS, SUCCEEDED, FAILED, ABANDONED = "InProgress", "Succeeded", "Failed", "Abandoned"
STOPPING, STOPPED, CANCELLED, SUPERSEDED = "Stopping", "Stopped", "Cancelled", "Superseded"


def now() -> dt.datetime:
    """The time, in UTC."""
    return dt.datetime.now(dt.UTC)


class ActionFailed(Exception):
    """Why an action failed: a code, for instance JobFailed, and the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class ActionRun:
    """One execution of an action."""

    stage: str
    declaration: Record
    version: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = IN_PROGRESS
    started: dt.datetime = field(default_factory=now)
    changed: dt.datetime = field(default_factory=now)
    configuration: dict[str, str] = field(default_factory=dict[str, str])
    summary: str = ""
    external_id: str = ""
    log_stream_arn: str = ""
    token: str = ""
    error: tuple[str, str] | None = None
    updated_by: str = ""
    inputs: dict[str, S3Object] = field(default_factory=dict[str, S3Object])
    outputs: dict[str, S3Object] = field(default_factory=dict[str, S3Object])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    revision: Record | None = None
    # An approval's answer: its status and summary.
    answer: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The action's name."""
        return self.declaration["name"]

    def end(self, status: str, error: tuple[str, str] | None = None) -> None:
        """Come to an end."""
        self.status, self.error, self.changed, self.token = status, error, now(), ""

    def state(self) -> Record:
        """As GetPipelineState tells of it."""
        return {
            "actionExecutionId": self.id,
            "status": self.status,
            "lastStatusChange": self.changed,
            **self._told(("summary", self.summary), ("token", self.token), ("lastUpdatedBy", self.updated_by)),
            **self._result(),
        }

    def detail(self, execution_id: str) -> Record:
        """As ListActionExecutions tells of it."""
        declaration = self.declaration
        more = {name: declaration[name] for name in ("roleArn", "region", "namespace") if name in declaration}
        result = {
            **self._told(("externalExecutionSummary", self.summary)),
            **self._result(),
        }
        return {
            "pipelineExecutionId": execution_id,
            "actionExecutionId": self.id,
            "pipelineVersion": self.version,
            "stageName": self.stage,
            "actionName": self.name,
            "startTime": self.started,
            "lastUpdateTime": self.changed,
            "status": self.status,
            **self._told(("updatedBy", self.updated_by)),
            "input": {
                "actionTypeId": declaration["actionTypeId"],
                "configuration": declaration["configuration"],
                "resolvedConfiguration": self.configuration,
                "inputArtifacts": _artifacts(self.inputs),
                **more,
            },
            "output": {
                "outputArtifacts": _artifacts(self.outputs) if self.status == SUCCEEDED else [],
                "executionResult": result,
                "outputVariables": self.variables,
            },
        }

    def _result(self) -> Record:
        error = {"code": self.error[0], "message": self.error[1]} if self.error is not None else None
        return self._told(
            ("externalExecutionId", self.external_id), ("logStreamARN", self.log_stream_arn), ("errorDetails", error)
        )

    def _told(self, *members: tuple[str, Any]) -> Record:
        return {name: value for name, value in members if value}


@dataclass
class Execution:
    """One execution of a pipeline."""

    pipeline: str
    declaration: Record
    trigger: Record
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    number: int = 0
    status: str = IN_PROGRESS
    summary: str = ""
    started: dt.datetime = field(default_factory=now)
    changed: dt.datetime = field(default_factory=now)
    actions: list[ActionRun] = field(default_factory=list[ActionRun])
    # By stage: what became of it.
    stages: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    stop_reason: str = ""
    # Its running actions are left behind; the thread of each looks here.
    abandoned: threading.Event = field(default_factory=threading.Event)

    @property
    def goes_on(self) -> bool:
        """Whether further actions may begin."""
        return self.status == IN_PROGRESS

    def become(self, status: str, summary: str = "") -> None:
        """Take on a status."""
        self.status, self.summary, self.changed = status, summary or self.summary, now()

    def latest(self, stage: str, action: str) -> ActionRun | None:
        """The last execution of an action."""
        found = (run for run in reversed(self.actions) if (run.stage, run.name) == (stage, action))
        return next(found, None)

    def artifact(self, name: str) -> S3Object | None:
        """Where an artifact is that an action has made."""
        made = (run.outputs[name] for run in self.actions if run.status == SUCCEEDED and name in run.outputs)
        return next(made, None)

    def namespaces(self) -> dict[str, dict[str, str]]:
        """The variables that configurations can refer to, by namespace."""
        own = {"PipelineExecutionId": self.id, "startTimestamp": self.started.isoformat(timespec="milliseconds")}
        made = {
            run.declaration["namespace"]: run.variables
            for run in self.actions
            if run.status == SUCCEEDED and "namespace" in run.declaration
        }
        return {"codepipeline": own, "variables": self.variables, **made}

    def describe(self) -> Record:
        """As GetPipelineExecution tells of it."""
        revisions = [run.revision for run in self.actions if run.revision is not None]
        return {
            "pipelineName": self.pipeline,
            "pipelineVersion": self.declaration["version"],
            "pipelineExecutionId": self.id,
            "status": self.status,
            **({"statusSummary": self.summary} if self.summary else {}),
            "artifactRevisions": revisions,
            "variables": [{"name": name, "resolvedValue": value} for name, value in self.variables.items()],
            "trigger": self.trigger,
            "executionMode": self.declaration["executionMode"],
            "executionType": "STANDARD",
        }

    def summarize(self) -> Record:
        """As ListPipelineExecutions tells of it."""
        revisions = [
            {"actionName": run.name, **{name: run.revision[name] for name in ("revisionId", "revisionSummary")}}
            for run in self.actions
            if run.revision is not None
        ]
        return {
            "pipelineExecutionId": self.id,
            "status": self.status,
            **({"statusSummary": self.summary} if self.summary else {}),
            "startTime": self.started,
            "lastUpdateTime": self.changed,
            "sourceRevisions": revisions,
            "trigger": self.trigger,
            **({"stopTrigger": {"reason": self.stop_reason}} if self.stop_reason else {}),
            "executionMode": self.declaration["executionMode"],
            "executionType": "STANDARD",
        }


def _artifacts(found: dict[str, S3Object]) -> list[Record]:
    return [{"name": name, "s3location": {"bucket": place.bucket, "key": place.key}} for name, place in found.items()]
