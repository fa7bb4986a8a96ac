"""Runs one training job in its own thread: instances, inputs, the code, outputs.

Sources: API reference, StopTrainingJob and StoppingCondition (SIGTERM, 120 seconds, then the content of
``/opt/ml/model`` is uploaded) and RetryStrategy (internal errors are retried); developer guide, "Managed Spot Training
in Amazon SageMaker AI" (an interrupted job restarts from its checkpoints) and "How Amazon SageMaker AI Signals
Algorithm Success and Failure".
"""

from __future__ import annotations

import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from constructs_optim_local.clock import Clock
from constructs_optim_local.faults import Fault, Faults
from constructs_optim_local.sagemaker.execution import ExecutionRoles, refusal
from constructs_optim_local.sagemaker.images import UNPULLED, missing_image
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.processes.process import SupervisedProcess
from constructs_optim_local.sagemaker.records import Record

from .files import TrainingFiles, TransferFailed
from .host import Host, hosts_of
from .job import LONGEST_REASON, TrainingJob, algorithm_error
from .requests import MAX_RUNTIME_SECONDS
from .simulated import files as simulated_files
from .telemetry import TrainingLog, TrainingMetrics, TrainingSettings

_LOOK_SECONDS = 0.05
_TELL_SECONDS = 0.5
_CHECKPOINT_SECONDS = 2.0
_KILL_SECONDS = 5.0
_INTERNAL_ERROR = "InternalServerError"
_INTERNAL = f"{_INTERNAL_ERROR}: We encountered an internal error. Please try again."
# Only one job with several hosts runs at a time: all hosts' code uses the same port, some of it on all addresses.
_ADDRESSES = threading.Lock()


class _Cut(Exception):
    """The training ends early: ``secondary`` is the job's next secondary status."""

    def __init__(self, secondary: str) -> None:
        super().__init__(secondary)
        self.secondary = secondary


class _Failed(Exception):
    """The job has failed. The text is its FailureReason."""


class TrainingRun:
    """Runs one job.

    Args:
        job: the new job.
        settings: how to run jobs.
        objects: S3's objects.
        roles: checks what the job's role may do.
        faults: the faults to inject.
        clock: measures the job's time limits.
        is_warm: whether the instances come from a warm pool.
        ended: returns further members of the ended job, from whether its instances can be reused.
    """

    def __init__(
        self,
        job: TrainingJob,
        settings: TrainingSettings,
        objects: Objects,
        roles: ExecutionRoles,
        faults: Faults,
        clock: Clock,
        *,
        is_warm: bool,
        ended: Callable[[bool], Record],
    ) -> None:
        self._thread = threading.Thread(target=self._run, name=f"training-{job.name}", daemon=True)
        self._job, self._settings, self._roles, self._faults = job, settings, roles, faults
        self._clock = clock
        self._request, self._is_warm, self._ended = job.request, is_warm, ended
        algorithm = self._request["AlgorithmSpecification"]
        self._command = [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
        self._metrics = TrainingMetrics(algorithm.get("MetricDefinitions", []))
        self._log = TrainingLog(job.name, self._metrics, settings.telemetry, clock)
        self._files = TrainingFiles(self._request, objects, roles)
        self._retries: int = self._request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
        limits = self._request["StoppingCondition"]
        self._longest = limits.get("MaxRuntimeInSeconds", MAX_RUNTIME_SECONDS)
        self._until = self._clock.monotonic() + limits.get("MaxWaitTimeInSeconds", float("inf"))
        # Seconds with earlier instances, when the current ones started, and seconds without any in between.
        self._had, self._since, self._lacked = 0.0, float("nan"), 0.0
        self._processes: list[SupervisedProcess] = []
        self._processes_lock, self._abandoned = threading.Lock(), False

    def start(self) -> None:
        """Start the job's thread."""
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Run the job to its end, and always record that end."""
        members: Record = {}
        try:
            secondary, members = self._life()
        except _Cut as cut:
            secondary = cut.secondary
        except (_Failed, TransferFailed) as error:
            prefix = "ClientError: " if isinstance(error, TransferFailed) else ""
            secondary, members = "Failed", {"FailureReason": f"{prefix}{error}"[:LONGEST_REASON]}
        except Exception:
            if not self._abandoned:
                # The traceback goes to the local cloud's log; the job shows the service's internal error.
                traceback.print_exc()
            secondary, members = "Failed", {"FailureReason": _INTERNAL}
        is_good = not members.get("FailureReason", "").startswith(_INTERNAL_ERROR)
        self._log.tell()
        if metrics := self._metrics.final():
            members["FinalMetricDataList"] = metrics
        self._job.end(secondary, unbilled=self._lacked, **members, **self._ended(is_good))

    def abandon(self) -> None:
        """Kill the job's processes at once, because the local cloud ends."""
        with self._processes_lock:
            self._abandoned = True
            for process in self._processes:
                process.kill()

    def _life(self) -> tuple[str, Record]:
        while True:
            with self._lacking():
                self._wait_for_instances()
            with (
                self._addresses(),
                tempfile.TemporaryDirectory(prefix="training-", ignore_cleanup_errors=True) as folder,
            ):
                self._since = self._clock.monotonic()
                self._job.begin_training()
                try:
                    return self._attempt(hosts_of(self._request, Path(folder)))
                except _Cut as cut:
                    if cut.secondary != "Interrupted":
                        raise
                    again = cut.secondary
                except _Failed as failed:
                    if self._retries == 0 or not str(failed).startswith(_INTERNAL_ERROR):
                        raise
                    self._retries, again = self._retries - 1, "Restarting"
                finally:
                    self._kill()
            self._had, self._since = self._had + self._clock.monotonic() - self._since, float("nan")
            self._job.enter(again)
            self._is_warm = False
            self._pause(_LOOK_SECONDS)
            self._job.enter("Starting")

    @contextmanager
    def _lacking(self) -> Iterator[None]:
        """Count the time between losing instances and getting new ones."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            if self._had:
                self._lacked += self._clock.monotonic() - began

    def _wait_for_instances(self) -> None:
        ready = self._clock.monotonic() + self._settings.starting
        while not self._is_warm and (self._clock.monotonic() < ready or self._strikes("training_never_starts")):
            self._pause(_LOOK_SECONDS)
        self._pause(0)

    @contextmanager
    def _addresses(self) -> Iterator[None]:
        """Reserve the hosts' addresses, if the job has several hosts."""
        if self._request["ResourceConfig"]["InstanceCount"] == 1:
            yield
            return
        while not _ADDRESSES.acquire(blocking=False):
            self._pause(_LOOK_SECONDS)
        try:
            yield
        finally:
            _ADDRESSES.release()

    def _attempt(self, hosts: list[Host]) -> tuple[str, Record]:
        """Run the job from its inputs to its outputs, on one set of instances."""
        image = self._request["AlgorithmSpecification"]["TrainingImage"]
        if missing_image(image):
            raise _Failed(f"ClientError: {UNPULLED}")
        refused = self._roles.pull(self._request["RoleArn"], image)
        if refused is not None:
            raise _Failed(f"ClientError: {refusal(self._request['RoleArn'], refused)}")
        self._job.enter("Downloading")
        for host in hosts:
            host.prepare(self._request, hosts)
        self._files.download(hosts)
        self._pause(0)
        self._job.enter("Training")
        while self._strikes("training_never_finishes"):
            self._pause(_LOOK_SECONDS)
        if fault := self._strikes("training_fails"):
            raise _Failed(fault.reason or _INTERNAL)
        try:
            self._train(hosts)
        except _Cut as cut:
            if cut.secondary in ("MaxRuntimeExceeded", "MaxWaitTimeExceeded"):
                self._job.enter("Stopping")
            self._terminate()
            self._files.upload_checkpoints(hosts)
            if cut.secondary == "Interrupted":
                raise
            return cut.secondary, self._written(hosts, is_whole=False)
        except _Failed:
            self._job.enter("Uploading")
            self._files.upload_checkpoints(hosts)
            self._files.upload_output(hosts)
            raise
        self._files.upload_checkpoints(hosts)
        return "Completed", self._written(hosts, is_whole=True)

    def _train(self, hosts: list[Host]) -> None:
        """Run the code on every host until it ends on all of them, or fails on one."""
        simulated = simulated_files(self._request) if self._settings.simulates else None
        if simulated is not None:
            self._pause(self._settings.running)
            for name, content in simulated.items():
                (hosts[0].model / name).write_bytes(content)
            return
        with self._processes_lock:
            if self._abandoned:
                raise _Cut("Stopped")
            self._processes = [self._started(host) for host in hosts]
        reported = copied = self._clock.monotonic()
        while True:
            statuses = [process.status for process in self._processes]
            if any(status not in (None, 0) for status in statuses):
                # The other hosts wait for the failed one. The first that failed gives the reason.
                status, host = next((status, host) for status, host in zip(statuses, hosts, strict=True) if status)
                self._kill()
                raise _Failed(algorithm_error(host.failure, status))
            if None not in statuses:
                return
            if self._clock.monotonic() - reported > _TELL_SECONDS:
                self._log.tell()
                reported = self._clock.monotonic()
            if self._clock.monotonic() - copied > _CHECKPOINT_SECONDS:
                self._files.upload_checkpoints(hosts)
                copied = self._clock.monotonic()
            self._pause(_LOOK_SECONDS)
            if self._request["EnableManagedSpotTraining"] and self._strikes("training_interrupted"):
                raise _Cut("Interrupted")

    def _started(self, host: Host) -> SupervisedProcess:
        isolated = self._request["EnableNetworkIsolation"]
        cloud = {} if isolated else {**self._settings.cloud, **self._roles.credentials(self._request["RoleArn"])}
        return SupervisedProcess(
            [host.text(part) for part in self._command],
            host.environment(self._request, self._settings.path, cloud),
            host.root,
            lambda line: self._log.add(host, line),
        )

    def _written(self, hosts: list[Host], *, is_whole: bool) -> Record:
        """Write the outputs, and return the job's members about them. A stopped job may have none."""
        self._job.enter("Uploading")
        self._log.tell()
        if self._strikes("training_writes_nothing"):
            return {"ModelArtifacts": {"S3ModelArtifacts": self._files.model_uri}}
        is_there = self._files.upload_model(hosts)
        self._files.upload_output(hosts)
        return {"ModelArtifacts": {"S3ModelArtifacts": self._files.model_uri}} if is_there or is_whole else {}

    def _terminate(self) -> None:
        """Send SIGTERM, wait for the code to end, then kill it."""
        for process in self._processes:
            process.terminate()
        until = self._clock.monotonic() + self._settings.stop_seconds
        while self._clock.monotonic() < until and any(process.status is None for process in self._processes):
            time.sleep(_LOOK_SECONDS)
        self._kill()

    def _kill(self) -> None:
        with self._processes_lock:
            for process in self._processes:
                process.kill()
        until = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < until and any(process.status is None for process in self._processes):
            time.sleep(_LOOK_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Wait, unless the job must end.

        Raises:
            _Cut: if the job must end.
        """
        if self._job.stop_asked.wait(seconds):
            raise _Cut("Stopped")
        if self._clock.monotonic() >= self._until:
            raise _Cut("MaxWaitTimeExceeded")
        # While there are no instances, the sum is NaN, and the comparison is False.
        if self._had + self._clock.monotonic() - self._since >= self._longest:
            raise _Cut("MaxRuntimeExceeded")

    def _strikes(self, fault: str) -> Fault | None:
        return self._faults.strikes(fault, path=self._job.name)
