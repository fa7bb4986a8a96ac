"""The run of one execution, in a thread of its own: stage after stage, and in a stage one run order after another.

Source: CodePipeline user guide, "CodePipeline pipeline structure reference" (runOrder: actions of the same number
run in parallel) and "Stop a pipeline execution" (without abandon, actions under way are finished first).
"""

from __future__ import annotations

import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from ..authorization import Roles
from ..role_clients import RoleClients
from .action_context import JOB, PERMISSION, Abandoned, ActionContext, resolved
from .executions import (
    ABANDONED,
    CANCELLED,
    FAILED,
    STOPPED,
    STOPPING,
    SUCCEEDED,
    ActionFailed,
    ActionRun,
    Execution,
    Record,
)
from .pipelines import Pipeline

Provider = Callable[[ActionContext], None]
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden", "403")


class ExecutionRun:
    """Runs one execution from a stage on.

    Args:
        pipeline: the pipeline.
        execution: it, just begun or begun anew.
        providers: what carries actions out, by category and provider.
        roles: what roles may do.
        clients: make clients under a role.
        first: the number of the stage to begin with.
        kept: names of that stage's actions that have succeeded before and are not run again.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        execution: Execution,
        providers: Mapping[tuple[str, str], Provider],
        roles: Roles,
        clients: RoleClients,
        first: int = 0,
        kept: frozenset[str] = frozenset(),
    ) -> None:
        self._pipeline, self._execution, self._providers = pipeline, execution, providers
        self._roles, self._clients, self._first, self._kept = roles, clients, first, kept
        self._thread = threading.Thread(target=self._run, name=f"pipeline-{pipeline.name}", daemon=True)

    def start(self) -> None:
        """Begin, and return."""
        self._thread.start()

    def _run(self) -> None:
        execution, kept, is_through = self._execution, self._kept, False
        for stage in execution.declaration["stages"][self._first :]:
            if not self._pipeline.enter(stage["name"], execution):
                break
            status = FAILED
            try:
                status = self._stage(stage, kept)
            finally:
                self._pipeline.leave(stage["name"], execution, status)
            if status == FAILED and execution.goes_on:
                # From here on it may be retried, by another run.
                execution.become(FAILED)
                return
            if not execution.goes_on:
                break
            kept = frozenset()
        else:
            is_through = True
        with self._pipeline.changed:
            if execution.status == STOPPING:
                execution.become(STOPPED)
            elif is_through and execution.goes_on:
                execution.become(SUCCEEDED)
            self._pipeline.changed.notify_all()

    def _stage(self, stage: Record, kept: frozenset[str]) -> str:
        """Run a stage's actions; what the stage becomes."""
        actions = [action for action in stage["actions"] if action["name"] not in kept]
        for order in sorted({action["runOrder"] for action in actions}):
            if not self._execution.goes_on:
                return STOPPED if self._execution.status == STOPPING else CANCELLED
            together = [action for action in actions if action["runOrder"] == order]
            version = self._execution.declaration["version"]
            runs = [ActionRun(stage["name"], action, version) for action in together]
            with self._pipeline.changed:
                self._execution.actions += runs
            threads = [threading.Thread(target=self._action, args=(run,), daemon=True) for run in runs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if any(run.status == ABANDONED for run in runs):
                return STOPPED
            if any(run.status == FAILED for run in runs):
                return FAILED
        return SUCCEEDED

    def _action(self, run: ActionRun) -> None:
        """Bring an action to its end, whatever happens."""
        status, error = SUCCEEDED, None
        try:
            with tempfile.TemporaryDirectory(prefix="action-", ignore_cleanup_errors=True) as folder:
                self._carry_out(run, Path(folder))
        except Abandoned:
            status = ABANDONED
        except ActionFailed as failed:
            status, error = FAILED, (failed.code, failed.message)
        except ClientError as failed:
            code = failed.response.get("Error", {}).get("Code", "")
            status, error = FAILED, (PERMISSION if code in _DENIED else JOB, str(failed))
        except (BotoCoreError, OSError) as failed:
            status, error = FAILED, (JOB, str(failed))
        except Exception as failed:
            # Into the local cloud's log as well: it is the local cloud's own mistake.
            traceback.print_exc()
            status, error = FAILED, ("InternalError", f"The local cloud could not carry the action out: {failed!r}")
        with self._pipeline.changed:
            run.end(status, error)
            self._pipeline.changed.notify_all()

    def _carry_out(self, run: ActionRun, folder: Path) -> None:
        execution, declaration = self._execution, run.declaration
        run.configuration = resolved(declaration["configuration"], execution.namespaces())
        for item in declaration["inputArtifacts"]:
            place = execution.artifact(item["name"])
            if place is None:
                raise ActionFailed(JOB, f"The input artifact {item['name']} was not made")
            run.inputs[item["name"]] = place
        own_role = execution.declaration["roleArn"]
        own = credentials = self._clients.credentials(own_role)
        role = declaration.get("roleArn") or own_role
        if role != own_role:
            try:
                credentials = self._clients.assumed(own, role, self._pipeline.place[1])
            except ClientError as error:
                raise ActionFailed(
                    PERMISSION, f"The pipeline's role {own_role} cannot assume the action's role {role}: {error}"
                ) from None
        context = ActionContext(
            self._pipeline, execution, run, self._roles, self._clients, own, credentials, role, folder
        )
        kind = declaration["actionTypeId"]
        self._providers[kind["category"], kind["provider"]](context)
