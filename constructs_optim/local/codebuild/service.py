"""CodeBuild's API: projects, which CloudFormation makes, and builds, which pipelines and callers start.

Source: CodeBuild API reference. A build of its own can be started of a project without a source; what a repository is
to CodeBuild, a pipeline hands over here.
"""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ..api_error import ApiError
from ..api_model import ApiModel
from ..authorization import Roles
from ..call_log import CallLog
from ..faults import Faults
from ..role_clients import RoleClients
from .build import IN_PROGRESS, Build
from .build_artifacts import BuildArtifacts
from .build_run import BuildRun
from .settings import BuildSettings, Projects

Record = dict[str, Any]
Place = tuple[str, str]
_SERVICE = "codebuild.amazonaws.com"
_MAX_MINUTES = 60


class CodeBuild:
    """CodeBuild, for any account and region that calls it."""

    name = "codebuild"

    def __init__(
        self,
        faults: Faults,
        calls: CallLog,
        projects: Projects,
        roles: Roles,
        clients: RoleClients,
        settings: BuildSettings,
    ) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls, self._projects, self._roles = faults, calls, projects, roles
        self._clients, self._settings = clients, settings
        self._lock = threading.Lock()
        self._builds: dict[str, tuple[Place, Build, BuildRun]] = {}

    def invoke(self, operation: str, request: Record, *, account: str, region: str) -> Record:
        """Carry an operation out.

        Raises:
            ApiError: as AWS would answer.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            return self._carried_out(operation, request, (account, region))

    def start(
        self,
        name: str,
        artifacts: BuildArtifacts,
        variables: Sequence[Mapping[str, str]],
        place: Place,
        *,
        initiator: str,
        version: str = "",
    ) -> Build:
        """Begin a build of a project.

        Args:
            name: the project's.
            artifacts: what it reads and writes.
            variables: those that go before the project's, each as ``{"name", "value", "type"}``.
            place: account and region.
            initiator: who starts it, for instance ``codepipeline/<pipeline>``.
            version: the revision of the source.

        Raises:
            ApiError: there is no such project, or its role cannot be assumed.
        """
        project = self._project(name, place)
        account, region = place
        prefix, number = f"arn:aws:codebuild:{region}:{account}", len(self._of_project(name, place)) + 1
        build_id = f"{name}:{uuid.uuid4()}"
        arn, role = f"{prefix}:build/{build_id}", project["serviceRole"]
        if not self._roles.trusts(role, _SERVICE, arn):
            raise _invalid(f"CodeBuild is not authorized to perform: sts:AssumeRole on service role {role}")
        stream = build_id.partition(":")[2]
        record: Record = {
            "id": build_id,
            "arn": arn,
            "buildNumber": number,
            "projectName": name,
            "startTime": dt.datetime.now(dt.UTC),
            "source": project["source"],
            "environment": project["environment"],
            "serviceRole": role,
            "logs": {
                "groupName": f"/aws/codebuild/{name}",
                "streamName": stream,
                "cloudWatchLogsArn": f"arn:aws:logs:{region}:{account}:log-group:/aws/codebuild/{name}"
                f":log-stream:{stream}",
            },
            "timeoutInMinutes": project.get("timeoutInMinutes", _MAX_MINUTES),
            "initiator": initiator,
            **({"sourceVersion": version, "resolvedSourceVersion": version} if version else {}),
        }
        given = self._variables([*project["environment"].get("environmentVariables", []), *variables], role, region)
        build = Build(record)
        run = BuildRun(
            build,
            project["source"].get("buildspec", ""),
            {**given, **_own_variables(record)},
            artifacts,
            self._settings,
            self._clients,
        )
        with self._lock:
            self._builds[build.id] = (place, build, run)
        run.start()
        return build

    def project_arn(self, name: str, place: Place) -> str:
        """The ARN of a project."""
        return f"arn:aws:codebuild:{place[1]}:{place[0]}:project/{name}"

    def close(self) -> None:
        """End all that runs, at once."""
        for _, _, run in list(self._builds.values()):
            run.abandon()

    def _carried_out(self, operation: str, request: Record, place: Place) -> Record:
        match operation:
            case "BatchGetProjects":
                found = {name: self._projects.find(name, *place) for name in request["names"]}
                return {
                    "projects": [project for project in found.values() if project is not None],
                    "projectsNotFound": [name for name, project in found.items() if project is None],
                }
            case "ListProjects":
                return {"projects": sorted(self._projects.names(*place))}
            case "StartBuild":
                return {"build": self._started(request, place).describe()}
            case "StopBuild":
                return {"build": self._stopped(request["id"], place).describe()}
            case "BatchGetBuilds":
                found = {name: self._find(name, place) for name in request["ids"]}
                return {
                    "builds": [build.describe() for build in found.values() if build is not None],
                    "buildsNotFound": [name for name, build in found.items() if build is None],
                }
            case "ListBuilds":
                return _newest_first(self._all(place), request)
            case "ListBuildsForProject":
                self._project(request["projectName"], place)
                return _newest_first(self._of_project(request["projectName"], place), request)
            case _:
                raise ApiError("UnknownOperationException", f"{operation} is not an operation of the local cloud")

    def _started(self, request: Record, place: Place) -> Build:
        project = self._project(request["projectName"], place)
        kind = project["source"].get("type")
        if kind == "CODEPIPELINE":
            raise _invalid("Build source of type CODEPIPELINE can only be started by CodePipeline")
        if kind != "NO_SOURCE":
            raise _invalid(
                f"The project's source is of type {kind}: the local cloud builds what a pipeline hands over "
                "(CODEPIPELINE) or nothing (NO_SOURCE)"
            )
        variables = request.get("environmentVariablesOverride", [])
        return self.start(request["projectName"], BuildArtifacts(), variables, place, initiator=f"{place[0]}/user")

    def _stopped(self, build_id: str, place: Place) -> Build:
        build = self._find(build_id, place)
        if build is None:
            raise ApiError("ResourceNotFoundException", f"Build {build_id} does not exist")
        if build.status == IN_PROGRESS:
            build.stop_asked.set()
        return build

    def _variables(self, given: Sequence[Mapping[str, str]], role: str, region: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for variable in given:
            match variable.get("type", "PLAINTEXT"):
                case "PLAINTEXT":
                    found[variable["name"]] = variable["value"]
                case "PARAMETER_STORE":
                    found[variable["name"]] = self._parameter(variable["value"], role, region)
                case kind:
                    raise _invalid(f"{variable['name']}: the local cloud's builds have no variables of type {kind}")
        return found

    def _parameter(self, name: str, role: str, region: str) -> str:
        ssm = self._clients.client("ssm", self._clients.credentials(role), region)
        try:
            return ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
        except ssm.exceptions.ClientError as error:
            raise _invalid(f"Parameter {name} cannot be read: {error}") from None

    def _project(self, name: str, place: Place) -> Record:
        project = self._projects.find(name, *place)
        if project is None:
            raise ApiError("ResourceNotFoundException", f"Project cannot be found: {self.project_arn(name, place)}")
        return project

    def _find(self, build_id: str, place: Place) -> Build | None:
        with self._lock:
            where, build, _ = self._builds.get(build_id.rpartition("build/")[2], (None, None, None))
        return build if where == place else None

    def _all(self, place: Place) -> list[Build]:
        with self._lock:
            return [build for where, build, _ in self._builds.values() if where == place]

    def _of_project(self, name: str, place: Place) -> list[Build]:
        return [build for build in self._all(place) if build.id.startswith(f"{name}:")]


def _own_variables(record: Record) -> dict[str, str]:
    return {
        "CODEBUILD_BUILD_ARN": record["arn"],
        "CODEBUILD_BUILD_ID": record["id"],
        "CODEBUILD_BUILD_IMAGE": record["environment"].get("image", ""),
        "CODEBUILD_BUILD_NUMBER": str(record["buildNumber"]),
        "CODEBUILD_BUILD_SUCCEEDING": "1",
        "CODEBUILD_INITIATOR": record["initiator"],
        "CODEBUILD_LOG_PATH": record["logs"]["streamName"],
        "CODEBUILD_RESOLVED_SOURCE_VERSION": record.get("resolvedSourceVersion", ""),
        "CODEBUILD_SOURCE_VERSION": record.get("sourceVersion", ""),
        "CODEBUILD_START_TIME": str(round(record["startTime"].timestamp() * 1000)),
    }


def _newest_first(builds: list[Build], request: Record) -> Record:
    ids = [build.id for build in builds]
    return {"ids": ids if request.get("sortOrder") == "ASCENDING" else ids[::-1]}


def _invalid(message: str) -> ApiError:
    return ApiError("InvalidInputException", message)
