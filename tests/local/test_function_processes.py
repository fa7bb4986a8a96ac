"""The processes of functions: a limited number of them stays warm, and none outlives its function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.ministack.workers import MOST_WORKERS, surplus

from ..support.cloudformation_stacks import Stack
from ..support.local_cloud import ROLE
from ..support.processes import children
from ..support.waiting import until

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
NAMES_ITS_PROCESS = "import os\ndef handler(event, context): return os.getpid()"
# Lambda invokes a function again whose asynchronous invocation fails.
FAILS_LATE = "import time\ndef handler(event, context):\n    time.sleep(1)\n    raise OSError('always')"
FUNCTIONS_OF_A_STACK = 3


@pytest.fixture(scope="module")
def own() -> Iterator[LocalCloud]:
    """A local cloud whose processes no other test starts."""
    with LocalCloud(time_scale=0.001) as running:
        yield running


@dataclass
class Warm:
    """A worker without a process."""

    name: str
    last_used: float
    in_use: bool = False


def functions(code: str, number: int = FUNCTIONS_OF_A_STACK) -> dict[str, Any]:
    properties = {"Code": {"ZipFile": code}, "Handler": "index.handler", "Role": ROLE, "Runtime": "python3.14"}
    return {f"Function{index}": {"Type": "AWS::Lambda::Function", "Properties": properties} for index in range(number)}


def deployed(cloud: LocalCloud, name: str, code: str = NAMES_ITS_PROCESS, number: int = FUNCTIONS_OF_A_STACK) -> Stack:
    stack = Stack(cloud, name)
    assert stack.deploy(functions(code, number)) == "CREATE_COMPLETE"
    return stack


def invoked(cloud: LocalCloud, stack: Stack) -> list[int]:
    """The processes that ran a stack's functions."""
    client = cloud.client("lambda")
    answers = (
        client.invoke(FunctionName=stack.physical_id(f"Function{index}")) for index in range(FUNCTIONS_OF_A_STACK)
    )
    return [json.loads(answer["Payload"].read()) for answer in answers]


def names(workers: list[Any]) -> list[str]:
    return [worker.name for worker in workers]


def test_the_least_recently_used_idle_workers_are_surplus() -> None:
    pools = {"old": [Warm("old", 1), Warm("older", 0)], "new": [Warm("new", 3)], "running": [Warm("running", 2, True)]}
    assert names(surplus(pools, 4)) == []
    assert names(surplus(pools, 2)) == ["older", "old"]


def test_running_functions_are_never_surplus() -> None:
    running = [Warm(str(number), number, in_use=True) for number in range(5)]
    assert names(surplus({"burst": running, "idle": [Warm("idle", 9)]}, 3)) == ["idle"]


@needs_proc
def test_twice_as_many_stacks_have_no_more_processes_than_the_limit(own: LocalCloud) -> None:
    assert own.pid is not None
    number = MOST_WORKERS // FUNCTIONS_OF_A_STACK
    first = [deployed(own, f"first-{index}") for index in range(number)]
    started = [process for stack in first for process in invoked(own, stack)]
    assert sorted(children(own.pid)) == sorted(started)
    second = [deployed(own, f"second-{index}") for index in range(number)]
    started += [process for stack in second for process in invoked(own, stack)]
    assert len(started) > MOST_WORKERS
    assert sorted(children(own.pid)) == sorted(started[-MOST_WORKERS:]), "the least recently used have ended"
    for stack in (*first, *second):
        stack.delete()
    until(lambda: children(own.pid), lambda processes: processes == [])


@needs_proc
def test_an_ended_function_answers_again(own: LocalCloud) -> None:
    stacks = [deployed(own, f"again-{index}") for index in range(MOST_WORKERS // FUNCTIONS_OF_A_STACK + 1)]
    before = [invoked(own, stack) for stack in stacks]
    (again, *_) = invoked(own, stacks[0])
    assert again not in before[0]
    for stack in stacks:
        stack.delete()


@needs_proc
@pytest.mark.exhaustive
def test_an_invocation_that_outlasts_its_stack_and_is_tried_again_leaves_no_process(own: LocalCloud) -> None:
    stack = deployed(own, "late", FAILS_LATE, 1)
    name, logs = stack.physical_id("Function0"), own.client("logs")
    own.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
    until(lambda: children(own.pid), lambda processes: processes != [])
    stack.delete()

    def attempts() -> int:
        try:
            written = logs.filter_log_events(logGroupName=f"/aws/lambda/{name}", filterPattern="REPORT")
        except logs.exceptions.ResourceNotFoundException:
            return 0
        return len(written["events"])

    until(attempts, lambda found: found == 3, 30)
    until(lambda: children(own.pid), lambda processes: processes == [])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def handler(event, context): raise OSError('always')", "OSError"),
        ("import json\ndef handler(event, context): json.loads('{')", "JSONDecodeError"),
        ("class Refused(Exception): pass\ndef handler(event, context): raise Refused", "Refused"),
        (
            "def handler(event, context):\n    try:\n        raise OSError('a')\n    except OSError as error:\n"
            "        raise ValueError('b\\nOther: c') from error",
            "ValueError",
        ),
    ],
)
def test_an_invocation_that_raises_answers_with_the_name_of_the_class(own: LocalCloud, code: str, error: str) -> None:
    stack = deployed(own, f"Raises{error}", code, 1)
    answer = own.client("lambda").invoke(FunctionName=stack.physical_id("Function0"))
    assert json.loads(answer["Payload"].read())["errorType"] == error
