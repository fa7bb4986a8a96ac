"""CodePipeline's API.

Source: CodePipeline API reference. Reports of users have the words about a role that cannot be assumed. Assumed, for no
source says so: the words of the other refusals. Executions begin when a pipeline is created and when they are asked
for: a folder that stands for a repository has no pushes, and a pipeline's triggers are kept but never fire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..api_error import ApiError, validation_error
from ..api_model import ApiModel
from ..authorization import Roles
from ..call_log import CallLog
from ..faults import Faults
from ..role_clients import RoleClients
from .definitions import completed
from .execution_run import ExecutionRun, Provider
from .executions import FAILED, IN_PROGRESS, STOPPED, STOPPING, SUCCEEDED, Execution, now
from .pipelines import Pipeline
from .stage_state import stage_state

Record = dict[str, Any]
Place = tuple[str, str]
_SERVICE = "codepipeline.amazonaws.com"
_PAGE = 100


class CodePipeline:
    """CodePipeline, for any account and region that calls it."""

    name = "codepipeline"

    def __init__(
        self,
        faults: Faults,
        calls: CallLog,
        roles: Roles,
        clients: RoleClients,
        providers: Mapping[tuple[str, str], Provider],
    ) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls, self._roles = faults, calls, roles
        self._clients, self._providers = clients, providers
        self._pipelines: dict[tuple[Place, str], Pipeline] = {}
        self._lock = threading.RLock()
        self._operations: dict[str, Callable[[Record, Place], Record]] = {
            "CreatePipeline": self._create,
            "DeletePipeline": self._delete,
            "DisableStageTransition": self._disable_transition,
            "EnableStageTransition": self._enable_transition,
            "GetPipeline": self._get,
            "GetPipelineExecution": self._get_execution,
            "GetPipelineState": self._get_state,
            "ListActionExecutions": self._list_actions,
            "ListPipelineExecutions": self._list_executions,
            "ListPipelines": self._list,
            "ListTagsForResource": self._list_tags,
            "PutApprovalResult": self._put_approval,
            "RetryStageExecution": self._retry,
            "StartPipelineExecution": self._start,
            "StopPipelineExecution": self._stop,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "UpdatePipeline": self._update,
        }

    def invoke(self, operation: str, request: Record, *, account: str, region: str) -> Record:
        """Carry an operation out.

        Raises:
            ApiError: as AWS would answer.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            carry_out = self._operations.get(operation)
            if carry_out is None:
                raise ApiError("UnknownOperationException", f"{operation} is not an operation of the local cloud")
            with self._lock:
                return carry_out(request, (account, region))

    def close(self) -> None:
        """Let go of all that runs: the local cloud ends."""
        for pipeline in list(self._pipelines.values()):
            for execution in pipeline.executions:
                if execution.goes_on:
                    execution.become(STOPPED)
                execution.abandoned.set()

    def _create(self, request: Record, place: Place) -> Record:
        given = request["pipeline"]
        name = given["name"]
        if (place, name) in self._pipelines:
            raise ApiError("PipelineNameInUseException", f"A pipeline with the name '{name}' already exists")
        arn = f"arn:aws:codepipeline:{place[1]}:{place[0]}:{name}"
        declaration = {**self._checked(given, arn), "version": 1}
        pipeline = self._pipelines[place, name] = Pipeline(declaration, arn)
        pipeline.tags.update({tag["key"]: tag["value"] for tag in request.get("tags", [])})
        self._begin(pipeline, {"triggerType": "CreatePipeline", "triggerDetail": arn}, _defaults(declaration))
        return {"pipeline": declaration, "tags": _tags(pipeline)}

    def _update(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipeline"]["name"], place)
        checked = self._checked(request["pipeline"], pipeline.arn)
        pipeline.redefine({**checked, "version": pipeline.declaration["version"] + 1})
        return {"pipeline": pipeline.declaration}

    def _get(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["name"], place)
        version = request.get("version", pipeline.declaration["version"])
        known = [pipeline.declaration, *(execution.declaration for execution in pipeline.executions)]
        found = next((declaration for declaration in known if declaration["version"] == version), None)
        if found is None:
            raise ApiError("PipelineVersionNotFoundException", f"{pipeline.name} has no version {version}")
        metadata = {"pipelineArn": pipeline.arn, "created": pipeline.created, "updated": pipeline.updated}
        return {"pipeline": found, "metadata": metadata}

    def _delete(self, request: Record, place: Place) -> Record:
        pipeline = self._pipelines.pop((place, request["name"]), None)
        for execution in pipeline.executions if pipeline is not None else ():
            if execution.goes_on:
                execution.become(STOPPED)
            execution.abandoned.set()
        return {}

    def _list(self, request: Record, place: Place) -> Record:
        found = [pipeline for (where, _), pipeline in self._pipelines.items() if where == place]
        rows = [
            {
                **{name: each.declaration[name] for name in ("name", "version", "pipelineType", "executionMode")},
                "created": each.created,
                "updated": each.updated,
            }
            for each in sorted(found, key=lambda pipeline: pipeline.name)
        ]
        return _page("pipelines", rows, request)

    def _start(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["name"], place)
        if request.get("sourceRevisions"):
            raise validation_error("sourceRevisions: the local cloud's repositories are as their folders are now")
        declared = {item["name"] for item in pipeline.declaration.get("variables", [])}
        given = {item["name"]: item["value"] for item in request.get("variables", [])}
        values = {**_defaults(pipeline.declaration), **given}
        unknown, missing = sorted(set(given) - declared), sorted(declared - set(values))
        if unknown or missing:
            problems = [f"the pipeline has no variable {name}" for name in unknown]
            raise validation_error("; ".join([*problems, *(f"variable {name} needs a value" for name in missing)]))
        trigger = {"triggerType": "StartPipelineExecution", "triggerDetail": f"arn:aws:iam::{place[0]}:root"}
        return {"pipelineExecutionId": self._begin(pipeline, trigger, values).id}

    def _stop(self, request: Record, place: Place) -> Record:
        pipeline, execution = self._execution(request, place)
        with pipeline.changed:
            if execution.status == STOPPING and not request.get("abandon"):
                raise ApiError("DuplicatedStopRequestException", f"Execution {execution.id} is stopping already")
            if execution.status not in (IN_PROGRESS, STOPPING):
                raise ApiError(
                    "PipelineExecutionNotStoppableException", f"Execution {execution.id} is {execution.status}"
                )
            execution.stop_reason = request.get("reason", "")
            execution.become(STOPPING, execution.stop_reason)
            if request.get("abandon"):
                execution.abandoned.set()
            pipeline.changed.notify_all()
        return {"pipelineExecutionId": execution.id}

    def _retry(self, request: Record, place: Place) -> Record:
        pipeline, execution = self._execution(request, place)
        stage = self._stage(pipeline, request["stageName"])
        if pipeline.latest_in(stage["name"]) is not execution:
            raise ApiError(
                "NotLatestPipelineExecutionException", f"Another execution has entered stage {stage['name']} since"
            )
        if execution.status != FAILED or execution.stages.get(stage["name"]) != FAILED:
            raise ApiError("StageNotRetryableException", f"Stage {stage['name']} of {execution.id} has not failed")
        if execution.declaration["version"] != pipeline.declaration["version"]:
            raise ApiError("StageNotRetryableException", "The pipeline's definition was updated since")
        names = [action["name"] for action in stage["actions"]]
        latest = {name: execution.latest(stage["name"], name) for name in names}
        kept = {name for name, run in latest.items() if run is not None and run.status == SUCCEEDED}
        first = [each["name"] for each in execution.declaration["stages"]].index(stage["name"])
        execution.become(IN_PROGRESS)
        self._run(pipeline, execution, first, frozenset(kept if request["retryMode"] == "FAILED_ACTIONS" else ()))
        return {"pipelineExecutionId": execution.id}

    def _put_approval(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipelineName"], place)
        stage = self._stage(pipeline, request["stageName"])
        name = request["actionName"]
        if name not in [action["name"] for action in stage["actions"]]:
            raise ApiError("ActionNotFoundException", f"Stage {stage['name']} has no action {name}")
        found = [run for execution in pipeline.executions for run in [execution.latest(stage["name"], name)]]
        run = next((run for run in reversed(found) if run is not None and run.token == request["token"]), None)
        if run is None:
            ended = any(run is not None and run.answer is not None for run in found)
            code = "ApprovalAlreadyCompletedException" if ended else "InvalidApprovalTokenException"
            raise ApiError(code, f"No approval of {name} waits under this token")
        if run.answer is not None:
            raise ApiError("ApprovalAlreadyCompletedException", f"The approval {name} was answered already")
        result = request["result"]
        run.answer, run.updated_by = (result["status"], result["summary"]), f"arn:aws:iam::{place[0]}:root"
        return {"approvedAt": now()}

    def _get_execution(self, request: Record, place: Place) -> Record:
        _, execution = self._execution(request, place)
        return {"pipelineExecution": execution.describe()}

    def _list_executions(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipelineName"], place)
        rows = [execution.summarize() for execution in reversed(pipeline.executions)]
        stage = request.get("filter", {}).get("succeededInStage", {}).get("stageName")
        if stage is not None:
            passed = {each.id for each in pipeline.executions if each.stages.get(stage) == SUCCEEDED}
            rows = [row for row in rows if row["pipelineExecutionId"] in passed]
        return _page("pipelineExecutionSummaries", rows, request)

    def _list_actions(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipelineName"], place)
        wanted = request.get("filter", {})
        wanted = wanted.get("pipelineExecutionId") or wanted.get("latestInPipelineExecution", {}).get(
            "pipelineExecutionId"
        )
        if wanted is not None and pipeline.find(wanted) is None:
            raise _no_execution(wanted)
        with pipeline.changed:
            rows = [
                run.detail(execution.id)
                for execution in pipeline.executions
                if wanted in (None, execution.id)
                for run in execution.actions
            ]
        return _page("actionExecutionDetails", rows[::-1], request)

    def _get_state(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["name"], place)
        with pipeline.changed:
            stages = [stage_state(pipeline, stage) for stage in pipeline.declaration["stages"]]
        return {
            "pipelineName": pipeline.name,
            "pipelineVersion": pipeline.declaration["version"],
            "stageStates": stages,
            "created": pipeline.created,
            "updated": pipeline.updated,
        }

    def _disable_transition(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipelineName"], place)
        stage = self._stage(pipeline, request["stageName"])
        if request["transitionType"] != "Inbound":
            raise validation_error("transitionType Outbound: the local cloud has Inbound")
        with pipeline.changed:
            pipeline.disabled[stage["name"]] = (request["reason"], now())
        return {}

    def _enable_transition(self, request: Record, place: Place) -> Record:
        pipeline = self._pipeline(request["pipelineName"], place)
        with pipeline.changed:
            pipeline.disabled.pop(self._stage(pipeline, request["stageName"])["name"], None)
            pipeline.changed.notify_all()
        return {}

    def _list_tags(self, request: Record, place: Place) -> Record:
        return {"tags": _tags(self._tagged(request, place))}

    def _tag(self, request: Record, place: Place) -> Record:
        self._tagged(request, place).tags.update({tag["key"]: tag["value"] for tag in request["tags"]})
        return {}

    def _untag(self, request: Record, place: Place) -> Record:
        tags = self._tagged(request, place).tags
        for key in request["tagKeys"]:
            tags.pop(key, None)
        return {}

    def _checked(self, given: Record, arn: str) -> Record:
        declaration = completed(given)
        if not self._roles.trusts(declaration["roleArn"], _SERVICE, arn):
            raise ApiError(
                "InvalidStructureException",
                f"CodePipeline is not authorized to perform AssumeRole on role {declaration['roleArn']}",
            )
        return declaration

    def _begin(self, pipeline: Pipeline, trigger: Record, variables: dict[str, str]) -> Execution:
        execution = pipeline.began(trigger, variables)
        self._run(pipeline, execution)
        return execution

    def _run(
        self, pipeline: Pipeline, execution: Execution, first: int = 0, kept: frozenset[str] = frozenset()
    ) -> None:
        ExecutionRun(pipeline, execution, self._providers, self._roles, self._clients, first, kept).start()

    def _pipeline(self, name: str, place: Place) -> Pipeline:
        pipeline = self._pipelines.get((place, name))
        if pipeline is None:
            raise ApiError(
                "PipelineNotFoundException", f"Account '{place[0]}' does not have a pipeline with name '{name}'"
            )
        return pipeline

    def _execution(self, request: Record, place: Place) -> tuple[Pipeline, Execution]:
        pipeline = self._pipeline(request["pipelineName"], place)
        execution = pipeline.find(request["pipelineExecutionId"])
        if execution is None:
            raise _no_execution(request["pipelineExecutionId"])
        return pipeline, execution

    def _stage(self, pipeline: Pipeline, name: str) -> Record:
        found = next((stage for stage in pipeline.declaration["stages"] if stage["name"] == name), None)
        if found is None:
            raise ApiError("StageNotFoundException", f"Pipeline {pipeline.name} has no stage {name}")
        return found

    def _tagged(self, request: Record, place: Place) -> Pipeline:
        arn = request["resourceArn"]
        found = next((each for each in self._pipelines.values() if each.arn == arn and each.place == place), None)
        if found is None:
            raise ApiError("ResourceNotFoundException", f"There is no resource {arn}")
        return found


def _defaults(declaration: Record) -> dict[str, str]:
    """The values that variables have where none is given."""
    variables = declaration.get("variables", [])
    return {item["name"]: item["defaultValue"] for item in variables if "defaultValue" in item}


def _tags(pipeline: Pipeline) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in pipeline.tags.items()]


def _page(member: str, rows: list[Record], request: Record) -> Record:
    token, most = request.get("nextToken", "0"), request.get("maxResults", _PAGE)
    if not token.isdigit():
        raise ApiError("InvalidNextTokenException", f"{token} is no token of this operation")
    start = int(token)
    more = {"nextToken": str(start + most)} if start + most < len(rows) else {}
    return {member: rows[start : start + most], **more}


def _no_execution(execution_id: str) -> ApiError:
    return ApiError("PipelineExecutionNotFoundException", f"There is no pipeline execution {execution_id}")
