"""A training job's files, which it reads from and writes to S3.

Source: API reference, S3DataSource, OutputDataConfig, CheckpointConfig, TensorBoardOutputConfig; developer guide, "How
Amazon SageMaker AI Provides Training Information". Users' reports have the failures' messages, and say that a key with
an empty segment is not downloaded. Assumed, without a source: a prefix that ends within a segment of a key keeps the
whole segment; the segments ``.`` and ``..`` are refused like empty ones; two objects of one name in a channel fail the
job; ShardedByS3Key distributes the objects round-robin; checkpoints are never deleted from S3.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from constructs_optim_local.access.authorization import Refused
from constructs_optim_local.sagemaker.execution import ExecutionRoles, refusal
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import Record

from .host import CHECKPOINTS, TENSORBOARD, Host


class TransferFailed(Exception):
    """A download or an upload that failed. The text is the job's ``FailureReason``."""


class TrainingFiles:
    """The transfers between S3 and one job's hosts, under the job's role."""

    def __init__(self, job: Record, objects: Objects, roles: ExecutionRoles) -> None:
        self._job, self._objects, self._roles = job, objects, roles
        self._output = f"{job['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job['TrainingJobName']}/output"
        self._uploaded: dict[Path, tuple[int, int]] = {}

    @property
    def model_uri(self) -> str:
        """``S3ModelArtifacts``: the prefix of the model's files, or the archive of them."""
        return f"{self._output}/model" if self._uncompressed else f"{self._output}/model.tar.gz"

    def download(self, hosts: Sequence[Host]) -> None:
        """Fill the channels and restore the checkpoints.

        Raises:
            TransferFailed: if an object cannot be read. The text names it and the reason.
        """
        for channel in self._job["InputDataConfig"]:
            self._download_channel(channel, hosts)
        if at := self._job.get("CheckpointConfig"):
            self._may(self._roles.read(self._role, at["S3Uri"]), "Data download failed")
            self._may(self._roles.write(self._role, at["S3Uri"], None), "Data download failed")
            prefix = f"{at['S3Uri'].rstrip('/')}/"
            found = [(uri, uri.removeprefix(prefix)) for uri in self._objects.uris(prefix)]
            for host in hosts:
                folder = host.local(at.get("LocalPath", CHECKPOINTS))
                folder.mkdir(parents=True, exist_ok=True)
                self._fetch(found, folder)
                self._uploaded |= {path: state for path in _files(folder) if (state := _state(path)) is not None}

    def upload_checkpoints(self, hosts: Iterable[Host]) -> None:
        """Copy the checkpoints that changed since the last time.

        Raises:
            TransferFailed: if an object cannot be written. The text names the location and the reason.
        """
        at = self._job.get("CheckpointConfig")
        if at is None:
            return
        for host in hosts:
            folder = host.local(at.get("LocalPath", CHECKPOINTS))
            for path in _files(folder):
                state = _state(path)
                if state is None or self._uploaded.get(path) == state:
                    continue
                try:
                    self._put(path, f"{at['S3Uri'].rstrip('/')}/{path.relative_to(folder).as_posix()}", None)
                    self._uploaded[path] = state
                except TransferFailed:
                    # The code may write and remove checkpoints during the copy.
                    if _state(path) == state:
                        raise

    def upload_model(self, hosts: Sequence[Host]) -> bool:
        """Write the model artifact, and return whether the job left any.

        Raises:
            TransferFailed: if an object cannot be written. The text names the location and the reason.
        """
        return self._write_output(hosts, "model", [host.model for host in hosts])

    def upload_output(self, hosts: Sequence[Host]) -> None:
        """Write the job's other output and TensorBoard's events.

        Raises:
            TransferFailed: if an object cannot be written. The text names the location and the reason.
        """
        self._write_output(hosts, "output", [host.output_data for host in hosts])
        if at := self._job.get("TensorBoardOutputConfig"):
            prefix = f"{at['S3OutputPath'].rstrip('/')}/{self._job['TrainingJobName']}/tensorboard-output"
            folders = [host.local(at.get("LocalPath", TENSORBOARD)) for host in hosts]
            files = _merged(folders)
            if files:
                self._may(self._roles.write(self._role, prefix, None), "Artifact upload failed")
            for name, path in files.items():
                self._put(path, f"{prefix}/{name}", None)

    def _write_output(self, hosts: Sequence[Host], name: str, folders: Sequence[Path]) -> bool:
        files, key = _merged(folders), self._job["OutputDataConfig"].get("KmsKeyId") or None
        if not files:
            return False
        self._may(self._roles.write(self._role, f"{self._output}/", key), "Artifact upload failed")
        if self._uncompressed:
            subfolder = "model" if name == "model" else "data"
            for file, path in files.items():
                self._put(path, f"{self._output}/{subfolder}/{file}", key)
            return True
        archive = hosts[0].folder / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            for file, path in files.items():
                packed.add(path, file, recursive=False)
        self._put(archive, f"{self._output}/{archive.name}", key)
        archive.unlink()
        return True

    def _download_channel(self, channel: Record, hosts: Sequence[Host]) -> None:
        source = channel["DataSource"]["S3DataSource"]
        self._may(self._roles.read(self._role, source["S3Uri"]), "Data download failed")
        found = list(self._listed(source))
        if not found:
            raise TransferFailed(f"Data download failed:{no_objects(source['S3Uri'], self._role, self._region)}")
        by_name: dict[str, str] = {}
        for uri, name in found:
            if by_name.setdefault(name, uri) != uri:
                raise TransferFailed(f"Data download failed:{by_name[name]} and {uri} would be the same file, {name}")
        sharded = source.get("S3DataDistributionType") == "ShardedByS3Key"
        for index, host in enumerate(hosts):
            folder = host.channel(channel["ChannelName"])
            folder.mkdir(parents=True)
            self._fetch(found[index :: len(hosts)] if sharded else found, folder)

    def _listed(self, source: Record) -> Iterator[tuple[str, str]]:
        """Yield the objects of a channel, with their names in its folder."""
        uri = source["S3Uri"]
        if source["S3DataType"] == "ManifestFile":
            yield from self._in_manifest(uri)
            return
        for found in self._objects.uris(uri):
            if found.endswith("/"):
                continue
            if found == uri:
                yield found, found.rpartition("/")[2]
            elif uri.endswith("/") or found.startswith(f"{uri}/"):
                yield found, found.removeprefix(f"{uri.rstrip('/')}/")
            else:
                yield found, found.removeprefix(f"{uri.rpartition('/')[0]}/")

    def _in_manifest(self, uri: str) -> Iterator[tuple[str, str]]:
        content = self._objects.read(uri)
        try:
            prefix, *names = json.loads(content or b"")
            places = [(f"{prefix['prefix']}{name}", str(name)) for name in names]
        except (ValueError, TypeError, KeyError):
            raise TransferFailed(
                f"Data download failed:{uri} is not a manifest: an array of an object with prefix, and names below it"
            ) from None
        yield from places

    def _fetch(self, found: Iterable[tuple[str, str]], folder: Path) -> None:
        for uri, name in found:
            if name.endswith("/") or not name:
                continue
            for part in ("//", "/../", "/./"):
                if part in f"/{name}/":
                    raise TransferFailed(
                        f"Data download failed:Failed to download data. S3 key:{uri} has an illegal char sub-sequence "
                        f"'{part}' in it"
                    )
            path = folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._objects.download(uri, path)
            except Exception as error:
                raise TransferFailed(f"Data download failed:Unable to download object {uri} ({error})") from None

    def _put(self, path: Path, uri: str, key: str | None) -> None:
        try:
            self._objects.upload(path, uri, key)
        except Exception as error:
            raise TransferFailed(f"Artifact upload failed:{uri}: {error}") from None

    def _may(self, refused: Refused | None, what: str) -> None:
        if refused is not None:
            raise TransferFailed(f"{what}:{refusal(self._role, refused)}")

    @property
    def _role(self) -> str:
        return self._job["RoleArn"]

    @property
    def _region(self) -> str:
        return self._job["TrainingJobArn"].split(":")[3]

    @property
    def _uncompressed(self) -> bool:
        return self._job["OutputDataConfig"].get("CompressionType") == "NONE"


def no_objects(uri: str, role: str, region: str) -> str:
    """Return SageMaker's message for a missing input."""
    bucket = uri.removeprefix("s3://").partition("/")[0]
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that the bucket exists in '
        f"the selected region ({region}), that objects exist under that S3 prefix, and that the role "
        f'"{role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
    )


def _merged(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the files of all hosts by relative name. The first host that has a name wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _files(folder):
            found.setdefault(path.relative_to(folder).as_posix(), path)
    return found


def _files(folder: Path) -> list[Path]:
    """Return all files below a folder. rglob would fail on folders that are removed meanwhile."""
    return sorted(Path(at, name) for at, _, names in os.walk(folder) for name in names if Path(at, name).is_file())


def _state(path: Path) -> tuple[int, int] | None:
    """Return a value that changes with the file; None if the file is gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
