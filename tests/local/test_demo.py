"""The processes that the demo starts, and what it prints."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console
from rich.progress import Progress

from constructs_optim_local import demo
from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import settled

SLEEPS = ["sh", "-c", "sleep 60 & wait"]


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_a_process_starts_ends_that_process(
    sign: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the process exists and nobody has it yet."""
    groups: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            groups.append(self.pid)
            os.kill(os.getpid(), sign)

    monkeypatch.setattr(demo.subprocess, "Popen", Interrupted)
    before = signal.signal(sign, signal.default_int_handler)
    try:
        with (
            (tmp_path / "log").open("w") as log,
            pytest.raises(KeyboardInterrupt),
            demo.running(SLEEPS, tmp_path, dict(os.environ), log),
        ):
            raise AssertionError("the interruption comes before the block")
        assert signal.getsignal(sign) is signal.default_int_handler
    finally:
        signal.signal(sign, before)
    assert len(groups) == 1
    assert settled(lambda: is_gone(groups[0]), bool)


def test_a_process_that_did_not_start_leaves_ctrl_c_as_it_was(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(FileNotFoundError),
        demo.running(["no-such-program"], tmp_path, dict(os.environ), log),
    ):
        pass
    assert signal.getsignal(signal.SIGINT) is before


@dataclass(frozen=True)
class DeployedCloud:
    """A local cloud in which one stack is complete."""

    def jobs(self) -> list[dict[str, Any]]:
        return []

    def training_jobs(self) -> list[dict[str, Any]]:
        return [{"name": "optim-1", "history": [{"status": "Training"}, {"status": "Completed"}]}]

    def client(self, service: str) -> DeployedCloud:
        assert service == "cloudformation"
        return self

    def describe_stacks(self) -> dict[str, Any]:
        return {"Stacks": [{"StackName": "Chat", "StackStatus": "CREATE_COMPLETE"}]}

    def describe_stack_resources(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        policy = "AWS::ApplicationAutoScaling::ScalingPolicy"
        statuses = {"Policy": (policy, "CREATE_COMPLETE"), "Other": ("AWS::SageMaker::Model", "DELETE_COMPLETE")}
        return {
            "StackResources": [
                {"LogicalResourceId": name, "ResourceType": kind, "ResourceStatus": status}
                for name, (kind, status) in statuses.items()
            ]
        }

    def get_template(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        return {"TemplateBody": {"Resources": {"Policy": {}, "Other": {}}}}


def test_what_is_complete_when_the_deployment_ends_is_still_printed() -> None:
    done, printed = threading.Event(), io.StringIO()
    done.set()
    with Progress(console=Console(file=printed), disable=True) as progress:
        bar = progress.add_task("cdk deploy", total=None)
        demo._watch(cast(LocalCloud, DeployedCloud()), progress, bar, done)
    assert printed.getvalue().splitlines() == [
        "  training job Training",
        "  training job Completed",
        "  AWS::ApplicationAutoScaling::ScalingPolicy created",
    ]
