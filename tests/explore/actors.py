"""The actors: CloudFormation with its stacks, Lambda that delivers their requests, the state machine, prune, users."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.source import resolve
from constructs_optim.runtime.requests.properties import HuggingFaceSource
from constructs_optim.runtime.store.artifact_store import artifact_key
from constructs_optim.runtime.store.owner_records import Owner

from ..support.custom_resource_events import custom_resource_event
from .binding import HANDLERS, Context, poll_job, pruner
from .scheduler import Died
from .world import ACCOUNTS, MODEL, REGION, STORE, Execution, World

Answer = dict[str, Any]
_TRIES = 3
"""Lambda's, of an asynchronous invocation."""
_LOOKS = 9
"""The state machine's, of a poll that fails."""
_CONTEXT: Any = Context()


@dataclass(frozen=True)
class Chances:
    """How likely what may happen is, each time it may; 0 for what does not happen in a life."""

    source: float = 0.0
    duplicate: float = 0.0
    cancel: float = 0.0
    lost: float = 0.0
    quota: float = 0.0
    job_fails: float = 0.15
    same_second: float = 0.0
    deaths: int = 0
    conflicts: float = 0.0
    encrypted: bool = False
    prune: bool = False
    accounts: bool = False
    references: bool = False
    copies: bool = False


@dataclass(frozen=True)
class Violation:
    """Something that must hold and does not. ``exempted``: it follows from what no handler can know."""

    sentence: str
    exempted: bool = False


class Stack:
    """CloudFormation's side of one stack with one resource: a job or a reference to an artifact by its key.

    The artifact is an optimized model, or with ``copies`` the copy of a model of Hugging Face.
    """

    def __init__(
        self, world: World, chances: Chances, number: int, account: str, kind: str, *, copies: bool = False
    ) -> None:
        self.world, self.chances, self.number, self.account, self.kind = world, chances, number, account, kind
        self.copies = copies
        self.scheduler, self.rng = world.scheduler, world.scheduler.rng
        self.name = f"S{number}"
        self.id = f"arn:aws:cloudformation:{REGION}:{account}:stack/{self.name}/{number}"
        self.owner = Owner(self.id, "Job")
        self.status = "CREATE_IN_PROGRESS"
        self.physical_id: str | None = None
        self.properties: dict[str, Any] = {}
        self.served: tuple[str, list[tuple[str, str]]] | None = None
        self.waits = self.rng.random() < 0.8
        self.waiting: str | None = None
        self.timed_out = False
        self.rollback_failed = False
        self.violations: list[Violation] = []
        self.sent: list[tuple[str, int]] = []
        self._deleted_at = 0.0
        self._is_idle = False
        self._handles = 0
        world.stacks[self.id] = self

    @property
    def is_deployed(self) -> bool:
        return self.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")

    @property
    def is_gone(self) -> bool:
        return self.status == "DELETE_COMPLETE"

    @property
    def is_out_of_order(self) -> bool:
        """Whether its latest request counts as an earlier one.

        It does where another one of the same second was delivered after it (docs/reliability.md, "What cannot be
        known"), and until a next one is sent.
        """
        began = self.world.s3.began
        sent = [(request, second) for request, second in self.sent if request in began]
        if not sent:
            return False
        latest, latest_second = sent[-1]
        return any(second == latest_second and began[request] > began[latest] for request, second in sent)

    def described(self) -> dict[str, Any]:
        """As DescribeStacks does."""
        deleted = {"DeletionTime": dt.datetime.fromtimestamp(self._deleted_at, dt.UTC)} if self.is_gone else {}
        return {"StackStatus": self.status, **deleted}

    def violate(self, what: str) -> None:
        """Something that must hold does not."""
        self.violations.append(Violation(f"{self.name} {what}", self.is_out_of_order))
        self.scheduler.note(f"!! {self.name} {what}")

    def live(self) -> None:
        """Be created, updated a few times, and maybe deleted."""
        self.create(self.declared(self.rng.choice((1, 1, 2))))
        for _ in range(self.rng.choice((0, 1, 2, 3))):
            if not self.is_deployed:
                break
            if self.rng.random() < self.chances.source:
                self.world.change_the_models_files()
            if self.rng.random() < 0.2:
                # Something changes that the artifact has nothing to do with.
                self.update({**self.properties, "Description": {"Model": f"m{self.scheduler.calls}"}})
            else:
                self.update(self.declared(self.rng.choice((1, 2, 3))))
        if not self.is_gone and self.rng.random() < 0.6:
            self.delete()
        self._is_idle = True

    def declared(self, recipe: int) -> dict[str, Any]:
        """The resource's properties with a recipe; a wait condition's handle is a new one each time."""
        copied = HuggingFaceSource(model_id="owner/model", revision=f"{recipe:040x}")
        job_kind = "TrainingJob" if self.copies else "OptimizationJob"
        if self.kind == "reference":
            identity = resolve(copied, sagemaker=None, s3=None).identity if self.copies else self.world.identity()
            key = artifact_key(f"{recipe:064x}", identity)
            return {"ArtifactKey": key, "Bucket": STORE, "JobKind": job_kind}
        self._handles += 1
        host = f"https://cloudformation-waitcondition-{REGION}.s3-{REGION}.amazonaws.com"
        handle = {"WaitHandle": f"{host}/{self.name}-{self._handles}", "WaitSeconds": "43200"} if self.waits else {}
        quantization = {"Image": "a.b/c:1", "OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}}
        optimization = {
            "DeploymentInstanceType": "ml.g5.12xlarge",
            "OptimizationConfigs": [{"ModelQuantizationConfig": quantization}],
            "StoppingCondition": {"MaxRuntimeInSeconds": "3600"},
        }
        code = {"S3DataType": "S3Prefix", "S3Uri": "s3://assets/code.zip", "S3DataDistributionType": "FullyReplicated"}
        copy = {
            "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": code}}],
            "AlgorithmSpecification": {"TrainingImage": "a.b/c:1", "TrainingInputMode": "File"},
            "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": "1", "VolumeSizeInGB": "100"},
            "StoppingCondition": {"MaxRuntimeInSeconds": "3600"},
        }
        s3_source = {"Kind": "s3", "S3Uri": f"s3://{STORE}/{MODEL}"}
        return {
            "JobKind": job_kind,
            "RecipeKey": f"{recipe:064x}",
            "Source": copied.model_dump(by_alias=True) if self.copies else s3_source,
            "Request": copy if self.copies else optimization,
            "RoleArn": f"arn:aws:iam::{self.account}:role/optimization",
            "Bucket": STORE,
            "StateMachineArn": f"arn:aws:states:{REGION}:{self.account}:stateMachine:watcher",
            **handle,
        }

    def create(self, properties: dict[str, Any]) -> None:
        """Create the stack; it is deleted where that fails, as a rolled back creation is."""
        self.properties = properties
        answer = self.send("Create", may_be_cancelled=True)
        # CloudFormation makes an id up where it gets no answer.
        self.physical_id = answer["PhysicalResourceId"] if answer else f"{self.name}-Job-MADEUP"
        if self.has_succeeded(answer) and self.takes(answer, properties):
            self.status = "CREATE_COMPLETE"
            self._rests()
            return
        self.delete()

    def update(self, properties: dict[str, Any]) -> None:
        """Update the stack, and roll back where that fails."""
        self.status = "UPDATE_IN_PROGRESS"
        old, before = self.properties, self.physical_id
        self.properties = properties
        answer = self.send("Update", old=old, may_be_cancelled=True)
        succeeded = self.has_succeeded(answer)
        if answer and succeeded:
            self.physical_id = answer["PhysicalResourceId"]
            decisive = ("RecipeKey", "ArtifactKey", "WaitHandle")
            unrelated = all(old.get(name) == properties.get(name) for name in decisive)
            if unrelated and before != self.physical_id:
                self.violate("got another artifact by an update that has nothing to do with it")
            satisfied = "WaitHandle" in properties and properties["WaitHandle"] == old.get("WaitHandle")
            if satisfied or self.takes(answer, properties):
                if self.physical_id != before:
                    self.clean_up(old, before)
                self.status = "UPDATE_COMPLETE"
                self._rests()
                return
        self.roll_back(properties, old, before, was_answered=succeeded)

    def roll_back(self, new: dict[str, Any], old: dict[str, Any], before: str | None, *, was_answered: bool) -> None:
        """Bring the properties from before back.

        Of a resource that was replaced, CloudFormation either asks for an update (aws/aws-cdk#29581 has its requests)
        or goes back to the one before without a word. Both are played.
        """
        self.check_served("while its update is rolled back")
        self.scheduler.note(f"-- {self.name} rolls back")
        self.properties = old
        if was_answered and self.physical_id != before and self.rng.random() < 0.3:
            replaced, self.physical_id = self.physical_id, before
            self.clean_up(new, replaced)
            self.status = "UPDATE_ROLLBACK_COMPLETE"
            self._rests()
            return
        for _ in range(_TRIES):
            answer = self.send("Update", old=new)
            if answer and self.has_succeeded(answer):
                back, replaced = answer["PhysicalResourceId"], self.physical_id
                if back != before:
                    self.violate("got another artifact by its rollback")
                self.physical_id = back
                if back != replaced:
                    self.clean_up(new, replaced)
                self.status = "UPDATE_ROLLBACK_COMPLETE"
                self._rests()
                return
        self.status, self.rollback_failed = "UPDATE_ROLLBACK_FAILED", True
        self._rests()

    def clean_up(self, properties: dict[str, Any], physical_id: str | None) -> None:
        """Delete what was replaced; CloudFormation takes no notice of how that ends."""
        present = self.properties, self.physical_id
        self.properties, self.physical_id = properties, physical_id
        self.send("Delete")
        self.properties, self.physical_id = present

    def delete(self) -> None:
        """Delete the stack, again where that fails. Endpoint and model go before what they were made of."""
        self.check_served("before its deletion")
        self.served = None
        for _ in range(_TRIES):
            if self.has_succeeded(self.send("Delete")):
                self.status, self._deleted_at = "DELETE_COMPLETE", self.scheduler.now
                self._rests()
                return
        self.status = "DELETE_FAILED"
        self._rests()

    def _rests(self) -> None:
        self.scheduler.happened[self.status] += 1
        self.scheduler.note(f"-- {self.name} is {self.status}")

    def has_succeeded(self, answer: Answer | None) -> bool:
        return answer is not None and answer["Status"] == "SUCCESS"

    def send(self, kind: str, *, old: dict[str, Any] | None = None, may_be_cancelled: bool = False) -> Answer | None:
        """Send a request and wait for its answer; None where there is none, or the user does not wait for it."""
        self.scheduler.now += 0.0 if self.sent and self.rng.random() < self.chances.same_second else 1.0
        self.scheduler.now += self.rng.choice((0.0, 1.0, 30.0))
        request = f"{self.name}.{len(self.sent) + 1}{kind[0]}"
        self.sent.append((request, int(self.scheduler.now)))
        date = dt.datetime.fromtimestamp(self.scheduler.now, dt.UTC)
        url = f"https://cloudformation/{request}?X-Amz-Date={date:%Y%m%dT%H%M%SZ}"
        event = custom_resource_event(
            kind,
            url,
            stack_id=self.id,
            request_id=request,
            logical_id=self.owner.logical_id,
            properties=self.properties,
            physical_id=self.physical_id,
            old_properties=old,
        )
        self.scheduler.note(f"-- {self.name} sends {request} of {self.physical_id}")
        deliveries = [self.scheduler.spawn(request, self.account, lambda: self.deliver(event, request))]
        if self.rng.random() < self.chances.duplicate:
            self.scheduler.happened["requests delivered twice"] += 1
            again = self.scheduler.spawn(f"{request}'", self.account, lambda: self.deliver(event, f"{request}'"))
            if self.rng.random() < 0.5:
                # It comes late, when CloudFormation may have sent later ones.
                after = len(self.sent) + self.rng.choice((0, 1, 2))
                again.ready = lambda: len(self.sent) >= after or self._is_idle
            else:
                deliveries.append(again)
        patience = self.scheduler.calls + self.rng.randrange(1, 60)
        cancels = may_be_cancelled and self.rng.random() < self.chances.cancel
        self.scheduler.wait(
            lambda: (
                url in self.world.answers
                or all(delivery.is_over for delivery in deliveries)
                or (cancels and self.scheduler.calls >= patience)
            )
        )
        answer = self.world.answers.get(url)
        self.scheduler.happened["requests without an answer"] += answer is None
        return answer

    def deliver(self, event: dict[str, Any], name: str) -> None:
        """Lambda's asynchronous invocation: again after a death."""
        for _ in range(_TRIES):
            try:
                HANDLERS[self.kind](event, _CONTEXT)
                return
            except Died:
                self.scheduler.sleep(60)
            except Exception as error:
                self.violate(f"{name} raised {error!r}")
                raise

    def takes(self, answer: Answer | None, properties: dict[str, Any]) -> bool:
        """Wait for the artifact and serve it from now on; False if the wait fails."""
        if self.kind == "reference":
            assert answer is not None
            self.serve(answer["Data"]["ModelDataUri"])
            return True
        handle = properties.get("WaitHandle")
        if handle is None:
            return True
        self.waiting, self.timed_out = handle, False
        patience = self.scheduler.calls + self.rng.randrange(1, 80)
        cancels = self.rng.random() < self.chances.cancel / 2
        signals = self.world.signals
        self.scheduler.wait(
            lambda: handle in signals or self.timed_out or (cancels and self.scheduler.calls >= patience)
        )
        self.waiting = None
        signal = signals.get(handle)
        if signal is None or signal["Status"] != "SUCCESS":
            return False
        self.serve(signal["Data"].split("|")[2])
        return True

    def serve(self, uri: str) -> None:
        """The endpoint reads the artifact, now and whenever it scales out."""
        files = self.world.s3.below(uri)
        if not files:
            self.violate("was told of success, and there are no files")
        self.served = uri, files

    def check_served(self, when: str) -> None:
        """What is served is as it was."""
        if self.served is not None and self.world.s3.below(self.served[0]) != self.served[1]:
            self.violate(f"serves what was removed or changed, {when}")


def watch(world: World, execution: Execution) -> Callable[[], None]:
    """The state machine's execution: polls until the job has ended."""

    def act() -> None:
        failures = 0
        while not execution.over:
            seen = world.scheduler.changes
            try:
                answer = poll_job(execution.event, _CONTEXT)
            except Died:
                failures += 1
                if failures >= _LOOKS:
                    return
                continue
            except Exception as error:
                failures += 1
                if failures < _LOOKS:
                    continue
                answer = poll_job({**execution.event, "Error": repr(error)}, _CONTEXT)
            execution.over = bool(answer["Done"])
            if not execution.over:
                world.scheduler.wait(lambda seen=seen: world.scheduler.changes != seen)

    return act


def prune(world: World) -> None:
    """The account that has the bucket prunes it, again and again."""
    for _ in range(_TRIES):
        try:
            one = pruner(world, ACCOUNTS[0])
            done = one.remove(one.survey())
            removed = [each.artifact.key for each in done.removals if each.removed]
            world.scheduler.happened["artifacts pruned"] += len(removed)
            world.scheduler.note(f"-- prune removed {removed}")
        except Died:
            continue
        except DeploymentError as error:
            world.scheduler.note(f"-- prune: {error}")
        for stack in world.stacks.values():
            stack.check_served("after prune")
        seen = world.scheduler.changes
        world.scheduler.wait(lambda seen=seen: world.scheduler.changes > seen + 5)
