"""Every call that the functions make, in every phase of a stack's life, with every fault that a call can meet.

The calls are those of a clean run: a call that is added to a function is tried from then on.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from typing import Any

from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import until
from .stacks import LONGEST_SECONDS, MODELS, STORE, running_executions
from .trial import Outcome, Step, Strike, Trial, Trials, kind_of

_PLACES = ("owners/", "claim.json", "manifest.json", "/shadows/", "/evaluations/", f"/{MODELS}", f"/{STORE}")
# The objects of a kind's runs.
_RUNS = {"shadow": "/shadows/", "evaluated": "/evaluations/"}
_OF_INTEREST = {
    "endpoint": ("Model", "EndpointConfig"),
    "component": ("StackResource", "InferenceComponent"),
    "partition": ("Execution", "Executions", "InferenceComponent"),
    # CloudFormation describes endpoints as well, and in an update it updates them: faults would strike it.
    "create shadow": ("Execution", "UpdateEndpoint", "ListObjectsV2"),
    "shadow": ("Execution", "ListObjectsV2"),
    "evaluated": ("AIBenchmarkJob", "Execution", "MetricData"),
    "copy": ("TrainingJob",),
    "preflight": ("PrincipalPolicy", "Images", "DescribeStacks", "ListStackResources"),
    "scaled": (
        "DescribeEndpoint",
        "Execution",
        "Executions",
        "MetricAlarm",
        "MetricAlarms",
        "ScalableTarget",
        "ScalableTargets",
        "ScalingPolicies",
        "ScalingPolicy",
        "ScheduledAction",
        "ScheduledActions",
        "StackResources",
        "Stacks",
    ),
}
# What CloudFormation calls for its own resources as well: only a function's first call is sure to be struck.
_CALLED_BY_CLOUDFORMATION = (
    "DescribeEndpoint",
    "DescribeScalableTargets",
    "DescribeScalingPolicies",
    "PutScalingPolicy",
    "PutScheduledAction",
    "RegisterScalableTarget",
)
# Of the machine's clock: longer than until Lambda retries a request, as the local cloud shortens these waits.
_QUIET_SECONDS = 3.0
# A watcher that a deletion overtakes makes another call now and then: what every run calls is tried.
_CLEAN_RUNS = 3
# The watcher polls for as long as the job runs; further polls would show nothing new.
_MOST_OF_A_KIND = 3


class NoCleanRun(Exception):
    """A phase went wrong without any fault, so there is nothing to compare faults with: ``outcome`` says what."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name, *outcome.problems)
        self.outcome = outcome


def trials(on: Trials, phase: str) -> list[Trial]:
    """All trials of a phase, from clean runs of it.

    Raises:
        NoCleanRun: A run without faults did not do what it must.
    """
    clean_runs: list[list[Step]] = []
    for _ in range(_CLEAN_RUNS):
        clean = on.judge(f"a clean run of {phase}", lambda: clean_runs.append(_steps(on, phase)))
        if clean.problems:
            raise NoCleanRun(clean)
    steps = [step for step in clean_runs[0] if all(step in run for run in clean_runs)]
    assert steps, f"{phase} makes no call that a fault could strike"
    # Of the calls of a kind one in each trial: were all to fail in one, the SDK would wait longer each time.
    failing = [step for step in steps if step.skip == 0 or step.operation not in _CALLED_BY_CLOUDFORMATION]
    by_place = {place: [step for step in failing if step.skip == place] for place in {step.skip for step in failing}}
    every_call_fails = [
        tuple(Strike(fault, step) for step in some for fault in ("throttled", "server_error"))
        for _, some in sorted(by_place.items())
    ]
    return [
        *(Trial(phase, strikes) for strikes in every_call_fails),
        *(Trial(phase, (Strike("function_dies_after", step),)) for step in _worth_dying_after(steps)),
        # To die before any other call is to die after the one before it.
        Trial(phase, (Strike("function_dies_before", steps[0]),)),
    ]


def _worth_dying_after(steps: list[Step]) -> list[Step]:
    """All writes, each kind of read once, and each read that is the first since a write.

    To die after another read leaves the world as the death before it left it.
    """
    after_a_write = (not before.reads for before in [steps[0], *steps[:-1]])
    return [
        step
        for step, follows_a_write in zip(steps, after_a_write, strict=True)
        if not step.reads or step.skip == 0 or follows_a_write
    ]


def _steps(on: Trials, phase: str) -> list[Step]:
    """The calls of a clean run of ``phase``, each named so that a fault can find it again."""
    cloud, stack = on.cloud, on.prepared(kind_of(phase))
    if phase.startswith(("abandon", "cancel")):
        stack.deploy_without_end()
    elif not phase.startswith("create"):
        stack.deploy()
    before = len(cloud.function_calls())
    if phase.startswith(("update", "roll back")):
        stack.group_size = 64
    if phase.startswith("roll back"):
        cloud.inject("update_fails", count=1)
    if phase.startswith(("create", "update", "roll back")):
        stack.deploy()
    else:
        stack.destroy()
    calls = _all_calls(cloud)[before:]
    # The other calls of such a stack are those of any job.
    only = next((end for end in _OF_INTEREST if phase.endswith(end)), None)
    return _named(phase, [call for call in calls if only is None or _is_of_interest(call, only)])


def _is_of_interest(call: dict[str, Any], kind: str) -> bool:
    runs = _RUNS.get(kind.split()[-1])
    return call["operation"].endswith(_OF_INTEREST[kind]) or (runs is not None and runs in call["request"])


def _all_calls(cloud: LocalCloud) -> list[dict[str, Any]]:
    """The functions' calls, those of watchers that go on after the stack among them."""
    until(lambda: running_executions(cloud), operator.not_, LONGEST_SECONDS)
    calls, quiet_since = cloud.function_calls(), time.monotonic()
    while time.monotonic() < quiet_since + _QUIET_SECONDS:
        time.sleep(0.2)
        if len(latest := cloud.function_calls()) > len(calls):
            calls, quiet_since = latest, time.monotonic()
    return calls


def _named(phase: str, calls: list[dict[str, Any]]) -> list[Step]:
    seen: Counter[tuple[str, str]] = Counter()
    steps: list[Step] = []
    for call in calls:
        place = next((place for place in _PLACES if place in call["request"]), "")
        kind = (call["operation"], place)
        if seen[kind] < _MOST_OF_A_KIND:
            steps.append(Step(phase, *kind, skip=seen[kind]))
        seen[kind] += 1
    return steps
