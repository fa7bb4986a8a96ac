"""Starts a training, with one process for each accelerator, and reports the reason of its failure.

A job's container runs the script, such as ``fine_tune.py``, once on each host. To train with several processes, the
script starts PyTorch's ``torch.distributed.run``, which runs the same script in each process.
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

# A shell's exit status for SIGTERM. SageMaker counts such a job as stopped, not as failed.
INTERRUPTED = 128 + signal.SIGTERM
FAILED = 1
_PORT = 29_500
_RANK = "RANK"


def run(
    script: Path, settings_type: type[Hyperparameters], module: str, function: str, *, in_one_process: bool = False
) -> int:
    """Train with the job's hyperparameters and inputs, and return the exit status.

    Args:
        script: the started file, which further processes also run.
        settings_type: the type of the hyperparameters.
        module: the training's module, imported here so that missing libraries are reported too.
        function: the name of the training function, which takes the environment and the settings.
        in_one_process: whether one process uses all accelerators. Default: one process for each.

    Returns:
        0 if the artifact is written; 143 if the training was terminated, with a checkpoint; 1 if it failed, with the
        reason in ``/opt/ml/output/failure``.
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
    """Refuse to make another version of the artifact than its key states."""
    if asked != str(settings_type.version):
        raise OtherVersion(
            f"optim.lock.json records version {asked} of this artifact, but this release of "
            f"constructs-optim makes version {settings_type.version}: deploy with the release that made it, or record "
            "the newer version (`constructs-optim lock` lists artifacts' entries, and --update records it)"
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
