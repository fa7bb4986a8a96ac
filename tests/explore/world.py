"""AWS as the handlers and the pruner see it, in memory: S3, SageMaker, Step Functions and CloudFormation's call-backs.

S3 reads are strongly consistent, and writes take ``If-Match`` and ``If-None-Match``. Sources: Amazon S3 user guide,
"What is Amazon S3?", section "Amazon S3 data consistency model", and "Add preconditions to S3 operations with
conditional requests"; Amazon S3 API reference, PutObject and DeleteObject (412 and 404 for a condition that does not
hold, 409 where another conditional write is under way).
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import botocore.session
from botocore.exceptions import ClientError

from constructs_optim.runtime.jobs.sagemaker_jobs import OPTIMIZATION, TRAINING, ArtifactJobKind

from .scheduler import Scheduler

REGION, STORE, MODEL = "us-west-2", "store", "models/m/"
SERVING_PROPERTIES = "serving.properties"
_SETTINGS = b"engine=Python\noption.quantize=awq\noption.rolling_batch=lmi-dist\n"
ACCOUNTS = ("111111111111", "222222222222")


@functools.cache
def _sagemakers_model() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


def refused(operation: str, code: str, status: int = 400, message: str = "") -> ClientError:
    """How AWS refuses a call."""
    answer = {"Error": {"Code": code, "Message": message or code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)  # pyright: ignore[reportArgumentType]


class Stored(NamedTuple):
    """An object of the bucket.

    Its ETag is the digest of its bytes, so what is written back has the ETag that it had. In a bucket with a KMS key it
    is not: the same bytes have another ETag each time (Amazon S3 API reference, Object).
    """

    body: bytes
    etag: str
    modified: dt.datetime


class _Body(io.BytesIO):
    def __repr__(self) -> str:
        return f"{len(self.getvalue())} bytes"


class S3:
    """One bucket."""

    def __init__(self, scheduler: Scheduler, *, encrypted: bool, conflicts: float) -> None:
        self._scheduler, self._call = scheduler, scheduler.call
        self._encrypted, self._conflicts = encrypted, conflicts
        self._writes = 0
        self.meta = SimpleNamespace(region_name=REGION)
        self.objects: dict[str, Stored] = {}
        self.began: dict[str, int] = {}
        """The requests whose records say that they are the latest, and the number of the call that wrote it first."""

    def put(self, name: str, body: bytes) -> None:
        """Write an object without a call to AWS: a job does it, or a user."""
        self._writes += 1
        digested = body + b"%d" % self._writes if self._encrypted else body
        self.objects[name] = Stored(body, f'"{hashlib.md5(digested).hexdigest()}"', self._now)
        self._scheduler.changed()

    def below(self, uri: str) -> list[tuple[str, str]]:
        """Name and ETag of what is below an ``s3://`` prefix."""
        prefix = uri.removeprefix(f"s3://{STORE}/")
        return sorted((name, stored.etag) for name, stored in self.objects.items() if name.startswith(prefix))

    def get_bucket_location(self, Bucket: str) -> dict[str, Any]:  # noqa: N803
        return self._call("GetBucketLocation", lambda: {"LocationConstraint": REGION})

    def get_bucket_versioning(self, Bucket: str) -> dict[str, Any]:  # noqa: N803
        return self._call("GetBucketVersioning", lambda: {"Status": "Enabled"})

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        def act() -> dict[str, Any]:
            found = self._found(Key, "GetObject", "NoSuchKey")
            return {"Body": _Body(found.body), "ETag": found.etag, "ContentLength": len(found.body)}

        return self._call(f"GetObject {Key}", act)

    def head_object(self, Bucket: str, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        def act() -> dict[str, Any]:
            found = self._found(Key, "HeadObject", "404")
            return {"ETag": found.etag, "ContentLength": len(found.body), "ChecksumCRC64NVME": "AAAAAAAAAAA="}

        return self._call(f"HeadObject {Key}", act)

    def put_object(
        self,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
        **_: Any,
    ) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            self._check(Key, "PutObject", IfMatch)
            if IfNoneMatch and Key in self.objects:
                raise refused("PutObject", "PreconditionFailed", 412)
            if (IfMatch or IfNoneMatch) and self._scheduler.rng.random() < self._conflicts:
                self._scheduler.happened["conflicting writes refused"] += 1
                raise refused("PutObject", "ConditionalRequestConflict", 409)
            self.put(Key, Body)
            self._scheduler.happened["serving.properties rewritten"] += Key.endswith(SERVING_PROPERTIES)
            if Key.startswith("owners/"):
                self.began.setdefault(json.loads(Body)["request"], self._scheduler.calls)
            return _summary(Body) if self._scheduler.lines is not None and Key.endswith(".json") else {}

        return self._call(f"PutObject {Key}", act)

    def delete_object(self, Bucket: str, Key: str, IfMatch: str | None = None) -> None:  # noqa: N803
        def act() -> None:
            self._check(Key, "DeleteObject", IfMatch)
            self.objects.pop(Key, None)
            self._scheduler.changed()

        self._call(f"DeleteObject {Key}", act)

    def delete_objects(self, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        def act() -> dict[str, Any]:
            for each in Delete["Objects"]:
                self.objects.pop(each["Key"], None)
            self._scheduler.changed()
            return {}

        return self._call(f"DeleteObjects {[each['Key'] for each in Delete['Objects']]}", act)

    def list_objects_v2(self, Bucket: str, Prefix: str = "", **_: Any) -> dict[str, Any]:  # noqa: N803
        def act() -> dict[str, Any]:
            found = [
                {"Key": name, "Size": len(stored.body), "ETag": stored.etag, "LastModified": stored.modified}
                for name, stored in sorted(self.objects.items())
                if name.startswith(Prefix)
            ]
            return {"Contents": found, "KeyCount": len(found)} if found else {"KeyCount": 0}

        return self._call(f"ListObjectsV2 {Prefix}", act)

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_objects_v2"

        def paginate(**request: Any) -> Iterator[dict[str, Any]]:
            yield self.list_objects_v2(**request)

        return SimpleNamespace(paginate=paginate)

    @property
    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._scheduler.now, dt.UTC)

    def _found(self, name: str, operation: str, code: str) -> Stored:
        if name not in self.objects:
            raise refused(operation, code, 404)
        return self.objects[name]

    def _check(self, name: str, operation: str, etag: str | None) -> None:
        if etag is None:
            return
        if name not in self.objects:
            raise refused(operation, "NoSuchKey", 404)
        if self.objects[name].etag != etag:
            raise refused(operation, "PreconditionFailed", 412)


def _summary(body: bytes) -> dict[str, Any]:
    """What a trace shows of a claim or an owner's record that is written."""
    record = json.loads(body)
    shown = {name: record[name] for name in ("attempt", "released", "request") if name in record}
    if "owners" in record:
        shown["owners"] = [owner["stack_id"].split("/")[1] for owner in record["owners"]]
    if "keys" in record:
        shown["keys"] = {key[:8]: f"{of['state']} by {of['request']}" for key, of in record["keys"].items()}
    return shown


@dataclass
class Job:
    """A job. ``status`` is in capitals, as the statuses of optimization jobs are."""

    kind: ArtifactJobKind
    arn: str
    request: dict[str, Any]
    created: dt.datetime
    modified: dt.datetime
    creator: str
    """Whose request created it: a stack's name."""
    status: str = "INPROGRESS"
    reason: str = ""

    @property
    def name(self) -> str:
        return self.request[self.kind.name_member]

    @property
    def artifact_key(self) -> str:
        return self.kind.output(self.request).split("/")[4]

    def described(self) -> dict[str, Any]:
        """As the service does, which writes a training job's status in another way."""
        status = self.status
        if self.kind is TRAINING:
            status = "InProgress" if status == "INPROGRESS" else status.capitalize()
        return {
            **self.request,
            f"{self.kind.name}Arn": self.arn,
            f"{self.kind.name}Status": status,
            "CreationTime": self.created,
            "LastModifiedTime": self.modified,
            **({"FailureReason": self.reason} if self.reason else {}),
        }


class SageMaker:
    """Optimization jobs and training jobs, by account and name."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._call = scheduler, scheduler.call
        self.meta = SimpleNamespace(service_model=_sagemakers_model(), region_name=REGION)
        self.jobs: dict[tuple[str, str, str], Job] = {}
        self.quota_is_used_up = False

    def create_optimization_job(self, **request: Any) -> dict[str, Any]:
        return self._create(OPTIMIZATION, request)

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        return self._create(TRAINING, request)

    def describe_optimization_job(self, OptimizationJobName: str) -> dict[str, Any]:  # noqa: N803
        missing = refused("DescribeOptimizationJob", "ResourceNotFound")
        return self._describe(OPTIMIZATION, OptimizationJobName, missing)

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803
        missing = refused("DescribeTrainingJob", "ValidationException", message="Requested resource not found.")
        return self._describe(TRAINING, TrainingJobName, missing)

    def stop_optimization_job(self, OptimizationJobName: str) -> None:  # noqa: N803
        self._stop(OPTIMIZATION, OptimizationJobName)

    def stop_training_job(self, TrainingJobName: str) -> None:  # noqa: N803
        self._stop(TRAINING, TrainingJobName)

    def unended(self) -> list[Job]:
        """The jobs that run or are being stopped."""
        return [job for job in self.jobs.values() if job.status in ("INPROGRESS", "STOPPING")]

    def end(self, job: Job, s3: S3, *, fails: bool) -> None:
        """Have a job come to its end; one that is being stopped may have completed all the same."""
        rng = self._scheduler.rng
        if job.status == "STOPPING" and rng.random() < 0.8:
            job.status = "STOPPED"
        elif fails:
            job.status, job.reason = "FAILED", "out of memory"
        else:
            output = job.kind.artifact_uri(job.kind.output(job.request), job.name).removeprefix(f"s3://{STORE}/")
            s3.put(f"{output}model.safetensors", job.arn.encode())
            if job.kind is OPTIMIZATION:
                # Quantization does (djl-serving, serving/docker/partition/sm_neo_quantize.py).
                s3.put(f"{output}{SERVING_PROPERTIES}", _SETTINGS)
            job.status = "COMPLETED"
        self._scheduler.happened[f"{job.kind.title}s {job.status}"] += 1
        job.modified = dt.datetime.fromtimestamp(self._scheduler.now, dt.UTC)
        self._scheduler.note(f"** {job.name} is {job.status}")
        self._scheduler.changed()

    @property
    def _account(self) -> str:
        return self._scheduler.current.account

    def _create(self, kind: ArtifactJobKind, request: dict[str, Any]) -> dict[str, Any]:
        operation, name, account = f"Create{kind.name}", request[kind.name_member], self._account

        def act() -> dict[str, Any]:
            if self.quota_is_used_up and self._scheduler.rng.random() < 0.3:
                self._scheduler.happened["jobs refused"] += 1
                raise refused(operation, "ResourceLimitExceeded")
            if (account, kind.name, name) in self.jobs:
                raise refused(operation, "ResourceInUse")
            now = dt.datetime.fromtimestamp(self._scheduler.now, dt.UTC)
            arn = f"arn:aws:sagemaker:{REGION}:{account}:{kind.title.replace(' ', '-')}/{name}"
            creator = self._scheduler.current.name.partition(".")[0]
            self.jobs[account, kind.name, name] = Job(kind, arn, request, now, now, creator)
            self._scheduler.changed()
            return {}

        return self._call(f"{operation} {name}", act)

    def _describe(self, kind: ArtifactJobKind, name: str, missing: ClientError) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            job = self.jobs.get((self._account, kind.name, name))
            if job is None:
                raise missing
            return job.described()

        return self._call(f"Describe{kind.name} {name}", act)

    def _stop(self, kind: ArtifactJobKind, name: str) -> None:
        def act() -> None:
            job = self.jobs.get((self._account, kind.name, name))
            if job is None or job.status != "INPROGRESS":
                raise refused(f"Stop{kind.name}", "ValidationException")
            job.status = "STOPPING"
            self._scheduler.changed()

        self._call(f"Stop{kind.name} {name}", act)


@dataclass
class Execution:
    """One of the state machine's; a lost one does nothing."""

    event: dict[str, Any]
    account: str
    name: str
    lost: bool
    over: bool = False


class World:
    """All of it."""

    def __init__(
        self, scheduler: Scheduler, *, losing: float = 0.0, encrypted: bool = False, conflicts: float = 0.0
    ) -> None:
        self.scheduler = scheduler
        self.s3 = S3(scheduler, encrypted=encrypted, conflicts=conflicts)
        self.sagemaker = SageMaker(scheduler)
        self.executions: dict[tuple[str, str], Execution] = {}
        self.stacks: dict[str, Any] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.signals: dict[str, dict[str, Any]] = {}
        self.started: list[Execution] = []
        self._losing = losing
        self._versions = 0
        self.change_the_models_files()

    def client(self, service: str) -> Any:
        """What stands for boto3's client."""
        return {"s3": self.s3, "sagemaker": self.sagemaker}.get(service, self)

    def change_the_models_files(self) -> None:
        """Somebody uploads other weights under the same name, or, seldom, deletes them."""
        self._versions += 1
        self.scheduler.happened["changes of model files"] += self._versions > 1
        if self._versions > 1 and self.scheduler.rng.random() < 0.1:
            self.s3.objects.pop(f"{MODEL}model.safetensors", None)
            self.scheduler.note("** the model's files are gone")
            return
        self.s3.put(f"{MODEL}model.safetensors", b"weights %d" % self._versions)
        self.scheduler.note(f"** the model's files are version {self._versions}")

    def identity(self) -> str:
        """What the source of the artifacts is at the moment, as a handler finds out (runtime/jobs/source.py)."""
        digest = hashlib.sha256()
        for name, stored in sorted(self.s3.objects.items()):
            if name.startswith(MODEL):
                digest.update(f"{name.removeprefix(MODEL)}\t{len(stored.body)}\t{stored.etag}\n".encode())
        return f"s3:s3://{STORE}/{MODEL}#{digest.hexdigest()}"

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: N803
        account = self.scheduler.current.account

        def act() -> dict[str, Any]:
            if (account, name) in self.executions:
                raise refused("StartExecution", "ExecutionAlreadyExists")
            lost = self.scheduler.rng.random() < self._losing
            self.scheduler.happened["lost watchers"] += lost
            execution = Execution(json.loads(input), account, name, lost)
            self.executions[account, name] = execution
            self.started.append(execution)
            self.scheduler.changed()
            return {}

        return self.scheduler.call(f"StartExecution {name}", act)

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        def act() -> dict[str, Any]:
            stack = self.stacks.get(StackName)
            if stack is None:
                message = f"Stack with id {StackName} does not exist"
                raise refused("DescribeStacks", "ValidationError", message=message)
            return {"Stacks": [stack.described()]}

        return self.scheduler.call(f"DescribeStacks {StackName}", act)

    def put_answer(self, url: str, body: dict[str, Any]) -> None:
        """A custom resource's answer, or a wait condition's signal: CloudFormation takes the first."""

        def act() -> None:
            taken = self.signals if url.startswith("https://cloudformation-waitcondition") else self.answers
            taken.setdefault(url, body)
            self.scheduler.changed()

        self.scheduler.call(f"PUT {url} {body['Status']} {body.get('Reason', '')}", act)
