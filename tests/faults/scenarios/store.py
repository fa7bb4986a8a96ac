"""What is in the store, and the store itself."""

from __future__ import annotations

from constructs_optim.runtime.jobs.sagemaker_jobs import RUNNING, job_name
from constructs_optim.runtime.store.artifact_store import Claim
from constructs_optim.runtime.store.json_records import JsonRecords

from ..stacks import STORE
from ..trial import Trials
from .registry import files_of, jobs_of, running_job, scenario, survives, until


@scenario
def half_written_output(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    key = stack.artifact_key
    first = files_of(t, stack)
    stack.destroy()
    s3 = t.cloud.client("s3")
    # As a job would leave it that was deleted before it was through.
    s3.delete_object(Bucket=STORE, Key=f"artifacts/{key}/manifest.json")
    s3.delete_object(Bucket=STORE, Key=next(file for file in first if file.endswith(".safetensors")))
    t.cloud.client("sagemaker").delete_optimization_job(OptimizationJobName=job_name(STORE, key, 1))
    survives(t, stack)
    manifest = t.guarantees.store.manifest(key)
    t.expect(manifest and manifest["attempt"], 2, "the attempt of the new output")
    t.expect(manifest and len(manifest["files"]), len(first), "its files")


@scenario
def manifest_missing(t: Trials) -> None:
    _manifest_damaged(t, None)


@scenario
def manifest_corrupt(t: Trials) -> None:
    _manifest_damaged(t, b"{")


def _manifest_damaged(t: Trials, body: bytes | None) -> None:
    stack = t.stack(model=f"manifest-{body!r:.8}".replace("'", "").replace("{", "x"))
    stack.deploy()
    s3, name = t.cloud.client("s3"), f"artifacts/{stack.artifact_key}/manifest.json"
    if body is None:
        s3.delete_object(Bucket=STORE, Key=name)
    else:
        s3.put_object(Bucket=STORE, Key=name, Body=body)
    second = t.stack(model=stack.model)
    survives(t, second)
    t.expect(t.guarantees.store.manifest(stack.artifact_key) is not None, True, "the manifest is there again")
    t.expect(len(jobs_of(t, stack)), 1, "jobs")


@scenario
def output_deleted_behind_our_back(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    t.cloud.client("s3").delete_object(Bucket=STORE, Key=files_of(t, stack)[0])
    second = t.stack(model=stack.model)
    t.expect(second.deploy(), "CREATE_COMPLETE", "the stack's status")
    manifest = t.guarantees.store.manifest(stack.artifact_key)
    t.expect(manifest and manifest["attempt"], 2, "the attempt of the new output")
    t.check()


@scenario
def claim_corrupt(t: Trials) -> None:
    stack = t.stack()
    stack.deploy()
    records = JsonRecords(t.cloud.client("s3"), STORE)
    name = f"artifacts/{stack.artifact_key}/claim.json"
    claim = records.read(name)
    t.cloud.client("s3").put_object(Bucket=STORE, Key=name, Body=b"{")
    second = t.stack(model=stack.model)
    t.expect(second.deploy(), "ROLLBACK_FAILED", "the stack's status")
    t.says(second, ["claim.json is damaged", "restore the previous version"])
    records.write(name, claim or Claim(artifact_key=stack.artifact_key).to_record())
    second.destroy()
    t.again(second)


@scenario
def bucket_gone(t: Trials) -> None:
    stack = t.stack(store=f"{STORE}-gone")
    t.expect(stack.deploy(), "ROLLBACK_COMPLETE", "the stack's status")
    t.says(stack, ["NoSuchBucket", "create it again, or use another store"])


@scenario
def bucket_gone_while_the_job_runs(t: Trials) -> None:
    s3, store = t.cloud.client("s3"), f"{STORE}-goes"
    s3.create_bucket(Bucket=store, CreateBucketConfiguration={"LocationConstraint": t.cloud.region})
    t.cloud.inject("job_never_finishes")
    stack = t.stack("unwaited", store=store)
    stack.deploy()
    name = running_job(t)
    for item in s3.list_objects_v2(Bucket=store)["Contents"]:
        s3.delete_object(Bucket=store, Key=item["Key"])
    s3.delete_bucket(Bucket=store)
    t.expect(stack.destroy(), "DELETE_COMPLETE", "the stack's status")
    t.end_faults()
    until(
        lambda: all(job["status"] not in RUNNING for job in t.cloud.jobs() if job["name"] == name),
        "end of the job",
    )
