"""Source actions: a repository behind a connection, and an object of S3.

Source: CodePipeline user guide, "CodeStarSourceConnection" and "Amazon S3 source action" (output variables); Developer
Tools console user guide, "Identity and access management for AWS CodeStar Notifications and AWS CodeConnections": the
prefix of the action in a policy has to match that of the connection's ARN.
"""

from __future__ import annotations

from ..zip_archives import pack
from .action_context import CONFIGURATION, ActionContext
from .executions import ActionFailed, now
from .repositories import Repositories, revision


class ConnectionSource:
    """A repository behind a connection, whose files are in a folder of this machine, whatever the branch."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def __call__(self, action: ActionContext) -> None:
        """Hand the files over as they are now."""
        given = action.run.configuration
        repository, connection = given["FullRepositoryId"], given["ConnectionArn"]
        prefix = connection.split(":")[2] if connection.count(":") >= 5 else ""
        if prefix not in ("codeconnections", "codestar-connections"):
            raise ActionFailed(CONFIGURATION, f"{connection} is no ARN of a connection")
        context = {f"{prefix}:FullRepositoryId": repository, f"{prefix}:BranchName": given["BranchName"]}
        action.need(f"{prefix}:UseConnection", connection, **context)
        try:
            files = self._repositories.copy(repository, action.folder / "source")
        except LookupError as error:
            raise ActionFailed(CONFIGURATION, str(error)) from None
        archive, commit = action.folder / "source.zip", revision(files)
        pack(files, archive)
        name = action.run.declaration["outputArtifacts"][0]["name"]
        action.new_output(name).put(action.client("s3"), archive)
        action.run.external_id = commit
        action.run.summary = f'{{"ProviderType":"GitHub","CommitMessage":"{len(files)} files as they were"}}'
        action.run.variables = {
            "BranchName": given["BranchName"],
            "CommitId": commit,
            "CommitMessage": f"{len(files)} files as they were",
            "ConnectionArn": connection,
            "FullRepositoryName": repository,
        }
        action.run.revision = _revision(name, commit, action.run.variables["CommitMessage"])


def bucket_source(action: ActionContext) -> None:
    """Hand over an archive that is an object of S3."""
    given = action.run.configuration
    found = action.client("s3").get_object(Bucket=given["S3Bucket"], Key=given["S3ObjectKey"])
    archive = action.folder / "source.zip"
    archive.write_bytes(found["Body"].read())
    name = action.run.declaration["outputArtifacts"][0]["name"]
    action.new_output(name).put(action.client("s3"), archive)
    etag, version = found["ETag"].strip('"'), found.get("VersionId", "")
    action.run.external_id = version or etag
    action.run.variables = {
        "BucketName": given["S3Bucket"],
        "ETag": etag,
        "ObjectKey": given["S3ObjectKey"],
        "VersionId": version,
    }
    action.run.revision = _revision(name, version or etag, "Amazon S3 version id: " + (version or "null"))


def _revision(artifact: str, commit: str, summary: str) -> dict[str, object]:
    return {"name": artifact, "revisionId": commit, "revisionSummary": summary, "created": now()}
