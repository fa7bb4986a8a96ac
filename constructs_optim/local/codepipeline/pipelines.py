"""A pipeline: its definition, its executions, and which of them may enter a stage.

Source: CodePipeline user guide, "How pipeline executions work" (a stage holds one execution; of those that wait for it
the newest goes on and supersedes the others) and "Set or change the pipeline execution mode".
"""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import dataclass, field
from typing import Any

from .executions import CANCELLED, IN_PROGRESS, STOPPING, SUPERSEDED, Execution, now

Record = dict[str, Any]
_LOOK_SECONDS = 0.5


@dataclass
class Pipeline:
    """One pipeline. What changes it holds ``changed``."""

    declaration: Record
    arn: str
    created: dt.datetime = field(default_factory=now)
    updated: dt.datetime = field(default_factory=now)
    executions: list[Execution] = field(default_factory=list[Execution])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    # By stage: the executions in it, those before it, and why none may enter.
    inside: dict[str, list[Execution]] = field(default_factory=dict[str, list[Execution]])
    waiting: dict[str, list[Execution]] = field(default_factory=dict[str, list[Execution]])
    disabled: dict[str, tuple[str, dt.datetime]] = field(default_factory=dict[str, tuple[str, dt.datetime]])
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def name(self) -> str:
        """Its name."""
        return self.declaration["name"]

    @property
    def place(self) -> tuple[str, str]:
        """Its account and region."""
        region, account = self.arn.split(":")[3:5]
        return account, region

    def redefine(self, declaration: Record) -> None:
        """Take on another definition; executions under way end where they are (GetPipelineExecution, Cancelled)."""
        with self.changed:
            self.declaration, self.updated = declaration, now()
            for execution in self.executions:
                if execution.status in (IN_PROGRESS, STOPPING):
                    execution.become(CANCELLED, "The pipeline's definition was updated.")
            self.changed.notify_all()

    def began(self, trigger: Record, variables: dict[str, str]) -> Execution:
        """Add an execution."""
        with self.changed:
            execution = Execution(self.name, self.declaration, trigger, variables=variables)
            execution.number = len(self.executions) + 1
            self.executions.append(execution)
        return execution

    def enter(self, stage: str, execution: Execution) -> bool:
        """Wait until the execution may enter a stage; whether it did."""
        mode = execution.declaration["executionMode"]
        with self.changed:
            line = self.waiting.setdefault(stage, [])
            line.append(execution)
            try:
                while execution.goes_on:
                    if mode == "SUPERSEDED" and any(other.number > execution.number for other in line):
                        execution.become(SUPERSEDED)
                        break
                    first = mode != "QUEUED" or min(line, key=lambda other: other.number) is execution
                    free = mode == "PARALLEL" or not self.inside.get(stage)
                    if first and free and stage not in self.disabled:
                        self.inside.setdefault(stage, []).append(execution)
                        execution.stages[stage] = IN_PROGRESS
                        return True
                    self.changed.notify_all()
                    self.changed.wait(_LOOK_SECONDS)
                return False
            finally:
                line.remove(execution)
                self.changed.notify_all()

    def leave(self, stage: str, execution: Execution, status: str) -> None:
        """Let the next one in."""
        with self.changed:
            self.inside[stage].remove(execution)
            execution.stages[stage] = status
            self.changed.notify_all()

    def find(self, execution_id: str) -> Execution | None:
        """The execution of that id."""
        return next((execution for execution in self.executions if execution.id == execution_id), None)

    def latest_in(self, stage: str) -> Execution | None:
        """The last execution that has entered a stage."""
        return next((execution for execution in reversed(self.executions) if stage in execution.stages), None)
