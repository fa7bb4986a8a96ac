"""Starts a training, with one process for each accelerator, and reports the reason of its failure.

A job's container runs ``fine_tune.py`` or ``train_heads.py`` once on each host. Where more than one process is to
train, it starts them with PyTorch's ``torch.distributed.run``, which runs the same script in each.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path

from .environment import TrainingEnvironment
from .errors import Interrupted, OtherVersion, TrainingError, describe_error, write_failure
from .job_log import say
from .settings import VERSION_HYPERPARAMETER, Hyperparameters

# A shell's status of a process that SIGTERM ended; SageMaker counts such a job as stopped, not as failed.
INTERRUPTED = 128 + signal.SIGTERM
FAILED = 1
_PORT = 29_500
_RANK = "RANK"


def run(
    script: Path, settings_type: type[Hyperparameters], module: str, function: str, *, in_one_process: bool = False
) -> int:
    """Train as the job's environment says, and return the exit status.

    Args:
        script: the file that was started; further processes start it as well.
        settings_type: the type of the hyperparameters.
        module: of the training. Imported here, so that a library that the image lacks is reported as well.
        function: the training's name; it takes the environment and the settings.
        in_one_process: whether one process has all accelerators. Default: one process for each.

    Returns:
        0 when the artifact is written; 143 when it was terminated, with a checkpoint; 1 with the reason in
        ``/opt/ml/output/failure``.
    """
    environment = TrainingEnvironment.of()
    settings = None
    try:
        hyperparameters = dict(environment.hyperparameters)
        _check_version(hyperparameters.pop(VERSION_HYPERPARAMETER, "1").strip('"'), settings_type)
        settings = settings_type.from_strings(hyperparameters)
        if environment.world_size > 1 and not in_one_process and _RANK not in os.environ:
            return _in_many_processes(script, environment)
        getattr(importlib.import_module(f".{module}", __package__), function)(environment, settings)
    except Interrupted as interrupted:
        say(str(interrupted))
        return INTERRUPTED
    except Exception as error:
        reason = describe_error(error, settings)
        if not isinstance(error, TrainingError):
            traceback.print_exc()
        say(f"failed: {reason}")
        write_failure(environment.failure, reason)
        return FAILED
    return 0


def _check_version(asked: str, settings_type: type[Hyperparameters]) -> None:
    """Refuse to make other bytes than the artifact's key says."""
    if asked != str(settings_type.version):
        raise OtherVersion(
            f"version {asked} of this artifact is to be made, as optim.lock.json records, and this release of "
            f"constructs-optim makes version {settings_type.version}: deploy with the release that made it, or record "
            "the newer version (`constructs-optim lock` lists the entries of artifacts, and --update records it)"
        )


def _in_many_processes(script: Path, environment: TrainingEnvironment) -> int:
    hosts = environment.hosts
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={environment.processes_per_host}"]
    if len(hosts) > 1:
        command += [
            f"--nnodes={len(hosts)}",
            f"--node-rank={hosts.index(environment.host)}",
            f"--master-addr={hosts[0]}",
            f"--master-port={_PORT}",
        ]
    else:
        command += ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={_free_port()}"]
    say(f"training in {environment.world_size} processes on {len(hosts)} host(s)")
    terminated = False
    with subprocess.Popen([*command, str(script)]) as processes:

        def pass_on(*_: object) -> None:
            nonlocal terminated
            terminated = True
            processes.terminate()

        signal.signal(signal.SIGTERM, pass_on)
        status = processes.wait()
    if status == 0:
        return 0
    if terminated:
        return INTERRUPTED
    write_failure(environment.failure, f"a training process ended with status {status}; the job's log has its output")
    return FAILED


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
