"""Random lives of several stacks that share one store: deployments, changes, deletions and faults, in any order.

Actions of users and services are random; the guarantees are checked whenever no stack operation is in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from constructs_optim_local.cloud import LocalCloud

from .guarantees import Guarantees
from .stacks import STORE, FaultStack

NAMES = ("north", "south", "east")
# One process at a time may run into a fault that strikes once; more of them at once show what is shared.
_ONCE = ("throttled", "server_error", "function_dies_before", "function_dies_after", "message_twice", "access_denied")
_LASTING = ("job_fails", "job_writes_nothing")
_OPERATIONS = (
    "CreateOptimizationJob",
    "DescribeOptimizationJob",
    "GetObject",
    "ListObjectsV2",
    "PutObject",
    "Respond",
    "Signal",
    "StartExecution",
    "StopOptimizationJob",
)
_DEPLOYED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


def state_machine(cloud: Callable[[], LocalCloud]) -> type[RuleBasedStateMachine]:
    """The machine, on the local cloud that ``cloud`` gives."""

    class StacksOfOneStore(RuleBasedStateMachine):
        """Three stacks, two recipes, two models: some artifacts are shared and some are not."""

        number = 0

        @initialize()
        def begin(self) -> None:
            """Start without stacks, and with models that are not optimized yet."""
            StacksOfOneStore.number += 1
            self.cloud = cloud()
            self.guarantees = Guarantees(self.cloud)
            self.stacks = {
                name: FaultStack(self.cloud, f"{name}-{self.number}", model=f"model-{self.number}-a") for name in NAMES
            }

        @rule(name=st.sampled_from(NAMES), group_size=st.sampled_from([64, 128]), model=st.sampled_from("ab"))
        def deploy(self, name: str, group_size: int, model: str) -> None:
            """Create or update a stack, and do not wait for it."""
            stack = self.stacks[name]
            if stack.busy:
                return
            if stack.exists and stack.status not in _DEPLOYED:
                stack.destroy()
            stack.group_size = group_size
            stack.use(f"model-{self.number}-{model}")
            stack.start()

        @rule(name=st.sampled_from(NAMES))
        def destroy(self, name: str) -> None:
            """Delete a stack, whatever it is doing."""
            stack = self.stacks[name]
            if stack.exists:
                stack.destroy()

        @rule(name=st.sampled_from(NAMES))
        def wait(self, name: str) -> None:
            """Wait for what a stack is doing."""
            self.stacks[name].ended()

        @rule(fault=st.sampled_from(_ONCE), operation=st.sampled_from(_OPERATIONS), skip=st.integers(0, 3))
        def a_call_fails(self, fault: str, operation: str, skip: int) -> None:
            """Some call of some function meets a fault."""
            self.cloud.inject(fault, operation=operation, count=1, skip=skip)

        @rule(fault=st.sampled_from(_LASTING))
        def jobs_fail(self, fault: str) -> None:
            """The next job fails."""
            self.cloud.inject(fault, count=1)

        @rule()
        def jobs_take_long(self) -> None:
            """No job ends from here on."""
            self.cloud.inject("job_never_finishes")

        @rule()
        def all_is_well(self) -> None:
            """The faults are over."""
            self.cloud.clear_faults()

        @precondition(lambda self: hasattr(self, "stacks"))
        @rule(data=st.data())
        def a_manifest_is_deleted(self, data: st.DataObject) -> None:
            """Somebody deletes a manifest."""
            s3 = self.cloud.client("s3")
            found = s3.list_objects_v2(Bucket=STORE, Prefix="artifacts/").get("Contents", [])
            manifests = sorted(item["Key"] for item in found if item["Key"].endswith("manifest.json"))
            if manifests:
                s3.delete_object(Bucket=STORE, Key=data.draw(st.sampled_from(manifests)))

        def teardown(self) -> None:
            """Once the faults are over, all deploy again, all hold, and all can be deleted without a trace."""
            if not hasattr(self, "stacks"):
                return
            self.cloud.clear_faults()
            for stack in self.stacks.values():
                stack.ended()
            self._assert_quiet()
            for stack in self.stacks.values():
                # CloudFormation refuses an update that changes nothing.
                stack.group_size = 192 - stack.group_size
                status = stack.deploy()
                assert status in _DEPLOYED, (status, stack.reasons[:5])
                assert self.guarantees.store.manifest(stack.artifact_key) is not None
            self._assert_quiet()
            for stack in self.stacks.values():
                assert stack.destroy() == "DELETE_COMPLETE", stack.reasons[:5]
            self._assert_quiet()

        def _assert_quiet(self) -> None:
            broken: list[Any] = self.guarantees.broken_for_good()
            assert not broken, broken

    return StacksOfOneStore
