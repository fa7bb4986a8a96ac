"""``constructs-optim jobs`` against the local cloud."""

from __future__ import annotations

import datetime as dt
import json
import os
import pty
import re
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.cli.operations import jobs
from constructs_optim.operations.jobs import list_jobs

from ..support.operator_stores import Store, artifact_key, owner
from ..support.waiting import until

pytestmark = pytest.mark.local

KEY = artifact_key("of the command line")
MEMBERS = {
    "name",
    "kind",
    "status",
    "instance_type",
    "attempt",
    "created_at",
    "started_at",
    "ended_at",
    "age_seconds",
    "running_seconds",
    "artifact_key",
    "owners",
    "orphaned",
    "max_runtime_seconds",
    "failure_reason",
}


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["jobs", *arguments], input=answer)


def listed(*arguments: str) -> dict[str, dict[str, Any]]:
    result = run("list", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return {job["name"]: job for job in json.loads(result.stdout)}


def test_jobs_are_listed_as_json(store: Store) -> None:
    name = store.running(KEY, by=owner())
    job = listed()[name]
    assert set(job) == MEMBERS
    assert (job["instance_type"], job["attempt"], job["artifact_key"]) == ("ml.g5.12xlarge", 1, None)
    assert job["age_seconds"] >= 0


def test_a_store_adds_artifact_and_owners(store: Store) -> None:
    name = store.running(KEY, by=owner())
    job = listed("--store", store.bucket)[name]
    assert job["artifact_key"] == KEY
    assert job["owners"] == [{"stack_id": owner().stack_id, "logical_id": "Llama70BJob"}]
    assert job["orphaned"] is False


def test_a_running_job_without_owners_is_marked_as_orphaned(store: Store) -> None:
    name = store.running(KEY)
    assert listed("--store", store.bucket)[name]["orphaned"] is True
    result = run("list", "--store", store.bucket)
    assert "none: orphaned" in next(line for line in result.stdout.splitlines() if name in line)


def test_jobs_are_listed_as_a_table(store: Store) -> None:
    name = store.running(KEY, by=owner("Chat"))
    result = run("list", "--store", store.bucket, "--status", "STARTING", "--status", "inprogress")
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if name in line)
    assert "Chat / Llama70BJob (000000000000, us-west-2)" in row
    assert "ml.g5.12xlarge" in row


def test_a_job_of_a_clock_that_is_ahead_has_no_negative_age(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.running(KEY, by=owner("Chat"))
    ahead = [replace(job, created_at=job.created_at + dt.timedelta(days=2)) for job in list_jobs(store.sagemaker)]
    monkeypatch.setattr(jobs, "list_jobs", lambda *_, **__: ahead)
    rows = run("list").stdout.splitlines()[1:]
    assert rows
    assert {tuple(row.split()[1:3]) for row in rows} == {("0", "s")}


def failed(store: Store) -> str:
    store.cloud.inject("job_fails", reason="CUDA out of memory. Tried to allocate 2 GiB")
    claim = store.claimed(KEY, owner("Chat"))
    name = store.job(KEY, claim.attempt)
    store.ended(KEY, claim.attempt)
    return name


@pytest.mark.parametrize("with_store", [True, False])
def test_jobs_that_ended_early_are_listed_with_their_reasons(store: Store, with_store: bool) -> None:
    name = failed(store)
    stopped = store.running(artifact_key("of a stopped job"), by=owner())
    assert run("stop", stopped, "--yes").exit_code == 0
    until(lambda: listed()[stopped]["status"], lambda status: status == "STOPPED")
    arguments = ("--status", "FAILED", "--status", "STOPPED", *(("--store", store.bucket) if with_store else ()))
    reasons = {name: "CUDA out of memory. Tried to allocate 2 GiB", stopped: "a request stopped it"}
    found = listed(*arguments)
    assert {job: found[job]["failure_reason"] for job in reasons} == reasons
    rows = run("list", *arguments).stdout.splitlines()
    for job, reason in reasons.items():
        assert next(line for line in rows if job in line).endswith(f"  {reason}")


def test_a_narrow_terminal_shows_the_reason_below_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = failed(store)
    lines = [line.strip() for line in run("list", "--status", "FAILED").stdout.splitlines()]
    assert lines[lines.index(f"Job: {name}") + 1] == "Reason: CUDA out of memory. Tried to allocate 2 GiB"


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_breaks_no_value_of_the_job_table(
    store: Store, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    name = store.running(KEY, by=owner("Chat"))
    for arguments in ((), ("--store", store.bucket)):
        lines = run("list", *arguments).stdout.splitlines()
        assert all(len(line) <= width for line in lines)
        place = next(place for place, line in enumerate(lines) if line.split()[-1] == name)
        shown = lines[place] if lines[place].startswith("INPROGRESS") else lines[place - 1]
        assert shown.startswith("INPROGRESS  ")
        assert "optimization  ml.g5.12xlarge" in shown


def test_only_jobs_of_the_requested_statuses_are_listed(store: Store) -> None:
    name = store.running(KEY, by=owner())
    assert name not in listed("--status", "COMPLETED")
    assert name not in listed("--status", "COMPLETED", "--status", "FAILED")
    assert run("list", "--status", "DONE").exit_code == 2


def test_watching_a_job_that_completes_exits_with_status_0(store: Store) -> None:
    name = store.job(KEY)
    result = run("watch", name, "--poll-seconds", "0.1")
    assert result.exit_code == 0, result.output
    assert f"{name} COMPLETED after" in result.stdout
    statuses = [line.split()[1].rstrip(",") for line in result.stdout.splitlines()[:-1]]
    assert statuses[-1] == "COMPLETED"
    assert len(statuses) == len(set(statuses)), "one line for each status"
    assert "of at most 10 h" in result.stdout


def test_watching_a_job_that_fails_ends_with_its_reason(store: Store) -> None:
    store.cloud.inject("job_fails", reason="CUDA out of memory")
    result = run("watch", store.job(KEY), "--poll-seconds", "0.1")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "CUDA out of memory" in result.stdout


def test_watching_a_stopped_job_exits_with_status_1(store: Store) -> None:
    name = store.running(KEY, by=owner())
    store.sagemaker.stop_optimization_job(OptimizationJobName=name)
    result = run("watch", name, "--poll-seconds", "0.1")
    assert (result.exit_code, "STOPPED" in result.stdout) == (1, True)


def test_watching_a_job_in_a_terminal_shows_a_progress_bar(store: Store) -> None:
    name = store.job(KEY)
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from constructs_optim.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "jobs", "watch", name, "--poll-seconds", "0.1"],
        stdout=follower,
        stderr=subprocess.STDOUT,
        env={**store.cloud.child_environment(), "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(follower)
    seen = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(leader, 4096):
                seen.extend(chunk)
        except OSError:
            pass  # Linux's way to say that the other side has closed.

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert process.wait(timeout=60) == 0
    reader.join(timeout=10)
    os.close(leader)
    text = seen.decode()
    assert "━" in text
    assert "of at most 10 h" in text
    assert f"{name} COMPLETED after" in text


@pytest.mark.parametrize("command", ["watch", "stop"])
def test_an_unknown_job_is_an_error_that_suggests_the_list_command(store: Store, command: str) -> None:
    result = run(command, "optim-nobody")
    assert result.exit_code == 2
    assert "constructs-optim jobs list" in result.stderr


def test_stopping_a_job_names_its_owners_and_asks_for_confirmation(store: Store) -> None:
    name = store.running(KEY, by=owner("Chat"))
    refused = run("stop", name, "--store", store.bucket, answer="n\n")
    assert refused.exit_code == 1
    assert "Chat / Llama70BJob" in refused.stdout
    assert "rolls back" in refused.stdout
    assert store.sagemaker.describe_optimization_job(OptimizationJobName=name)["OptimizationJobStatus"] == "INPROGRESS"
    stopped = run("stop", name, "--store", store.bucket, answer="y\n")
    assert stopped.exit_code == 0, stopped.output
    # A busy machine may see it after it stopped.
    assert re.search(f"{name} is (STOPPING|STOPPED)", stopped.stdout)


def test_a_stop_without_confirmation_stops_nothing(store: Store) -> None:
    name = store.running(KEY, by=owner())
    result = run("stop", name, answer="")
    assert result.exit_code == 1
    assert "Nothing was stopped" in result.stdout
    assert run("stop", name, "--yes").exit_code == 0


def test_stopping_a_completed_job_is_no_error(store: Store) -> None:
    store.made(KEY, by=owner())
    (name,) = [job["name"] for job in listed("--store", store.bucket).values() if job["artifact_key"] == KEY]
    result = run("stop", name)
    assert result.exit_code == 0
    assert "already COMPLETED" in result.stdout
