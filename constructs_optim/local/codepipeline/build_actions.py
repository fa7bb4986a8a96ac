"""Build and test actions by CodeBuild.

Source: CodePipeline user guide, "AWS CodeBuild build and test action reference". Assumed, for no source says so: a
build whose action is abandoned is stopped.
"""

from __future__ import annotations

from ..api_error import ApiError
from ..codebuild.build import SUCCEEDED
from ..codebuild.build_artifacts import PRIMARY, BuildArtifacts
from ..codebuild.service import CodeBuild
from .action_context import CONFIGURATION, JOB, Abandoned, ActionContext
from .executions import ActionFailed

_LOOK_SECONDS = 0.05


class BuildAction:
    """Runs a build project with the action's input artifacts."""

    def __init__(self, codebuild: CodeBuild) -> None:
        self._codebuild = codebuild

    def __call__(self, action: ActionContext) -> None:
        """Run the build to its end."""
        given, run = action.run.configuration, action.run
        name, place = given["ProjectName"], (action.pipeline.place[0], action.region)
        action.need("codebuild:StartBuild", self._codebuild.project_arn(name, place))
        primary = given.get("PrimarySource") or next(iter(run.inputs))
        if primary not in run.inputs:
            raise ActionFailed(CONFIGURATION, f"PrimarySource {primary} is none of the action's input artifacts")
        sources = {PRIMARY if artifact == primary else artifact: place for artifact, place in run.inputs.items()}
        outputs = {item["name"]: action.new_output(item["name"]) for item in run.declaration["outputArtifacts"]}
        version = action.execution.describe()["artifactRevisions"]
        try:
            build = self._codebuild.start(
                name,
                BuildArtifacts(sources, outputs),
                action.json("EnvironmentVariables", list),
                place,
                initiator=f"codepipeline/{action.pipeline.name}",
                version=version[0]["revisionId"] if version else "",
            )
        except ApiError as error:
            raise ActionFailed(CONFIGURATION, f"Error calling startBuild: {error.message}") from None
        run.external_id = build.id
        run.log_stream_arn = build.request["logs"]["cloudWatchLogsArn"]
        try:
            while not build.over.is_set():
                action.wait(_LOOK_SECONDS)
        except Abandoned:
            build.stop_asked.set()
            raise
        found = build.describe()
        if build.status != SUCCEEDED:
            raise ActionFailed(JOB, f"Build terminated with state: {build.status}. {build.reason}".rstrip())
        run.variables = {item["name"]: item["value"] for item in found.get("exportedEnvironmentVariables", [])}
