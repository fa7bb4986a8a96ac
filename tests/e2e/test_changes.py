"""A scaled endpoint changes its instances in one deployment, with its scaling, and goes back in one.

Times are shortened; what CloudFormation, SageMaker and Application Auto Scaling refuse, the local cloud refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.aws_applicationautoscaling import ScalingInterval

from constructs_optim import Alarms, Model, MonitoringOptions, OptimizedEndpoint, Pool, UpdatePolicy, VariantOptions
from constructs_optim.templates.resource_types import SERVED_CONFIGURATION, VARIANT_SCALING
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.sampling import one_in
from ..support.scaled_variants import variant
from ..support.template_stack import ASSETS, TemplateStack, endpoint_of, made, part_of, physical
from ..support.uploaded_models import upload_model
from ..support.variant_scaling import VariantScaling
from ..support.waiting import until

MODELS = "models-of-changes"
POLICIES = {"OnConcurrency", "OnErrorsIn", "OnErrorsOut"}
G5, G6 = "ml.g5.12xlarge", "ml.g6.12xlarge"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def changing() -> Iterator[LocalCloud]:
    """A local cloud that holds every role to its permissions."""
    with LocalCloud(endpoint_seconds=0.8, time_scale=0.01, enforce_iam=True) as running:
        prepare(running)
        yield running


@pytest.fixture(scope="module", autouse=True)
def nothing_is_refused(changing: LocalCloud) -> Iterator[None]:
    """After the last test: no role of the constructs was without a permission."""
    yield
    decisions = [each for each in changing.authorizations() if part_of(each["role"]) is not None]
    assert decisions
    assert [each for each in decisions if each["decision"] != "Allow"] == []


@pytest.fixture(autouse=True)
def no_more_faults(changing: LocalCloud) -> Iterator[None]:
    yield
    changing.clear_faults()


def prepare(cloud: LocalCloud) -> None:
    s3 = cloud.client("s3")
    for bucket in (ASSETS, MODELS):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    upload_model(s3, MODELS, "llama")


class Chat:
    """A stack with a scaled endpoint, which changes."""

    def __init__(self, cloud: LocalCloud, folder: Path) -> None:
        self.cloud, self._folder, self._name = cloud, folder, f"changes{next(_numbers)}"
        self.stack = self.template(G5)
        assert self.stack.deploy() == "CREATE_COMPLETE", self.stack.reasons
        self.first = endpoint_of(self.stack)
        self.scaling = VariantScaling(self.stack)
        assert self.is_scaled() == ((1, 4), POLICIES, 8)

    def template(
        self,
        *instance_types: str,
        target: float = 8,
        most: int = 4,
        scaled: bool = True,
        composite: bool = False,
        bake: int = 0,
        alarms: Alarms | None = None,
        **variant: Any,
    ) -> TemplateStack:
        """The stack with an endpoint on a type, or on pools; updates may watch a composite alarm as well.

        ``bake``: the minutes, 0.6 s each here, that an update goes on after its instances have launched. Without any, a
        busy machine may not look before the update is over.
        """

        def build(scope: Stack) -> None:
            watched: list[cloudwatch.IAlarm] = []
            if composite:
                errors = cloudwatch.Metric(namespace="Tests", metric_name="Refunds")
                refunds = cloudwatch.Alarm(scope, "Refunds", metric=errors, threshold=1, evaluation_periods=1)
                rule = cloudwatch.AlarmRule.from_alarm(refunds, cloudwatch.AlarmState.ALARM)
                watched = [cloudwatch.CompositeAlarm(scope, "Business", alarm_rule=rule)]
            pooled: dict[str, Any] = {"instance_pools": [Pool(each, techniques=[]) for each in instance_types]}
            alone: dict[str, Any] = {"techniques": [], "instance_type": instance_types[0]}
            endpoint = OptimizedEndpoint(
                scope,
                "Chat",
                model=Model.s3(f"s3://{MODELS}/llama/"),
                update_policy=UpdatePolicy.all_at_once(bake_time=Duration.minutes(bake), rollback_alarms=watched),
                variant=VariantOptions(**variant),
                monitoring=MonitoringOptions(alarms=alarms or Alarms()),
                **(alone if len(instance_types) == 1 else pooled),
            )
            if not scaled:
                return
            scaling = endpoint.auto_scale(max_capacity=most).on_concurrency(target=target)
            scaling.on_steps(
                "OnErrors",
                metric=cloudwatch.Metric(namespace="Tests", metric_name="Errors"),
                steps=[ScalingInterval(lower=10, change=1), ScalingInterval(upper=5, change=-1)],
            )
            scaling.on_schedule("Mornings", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=2)

        return made(self.cloud, self._folder / str(next(_numbers)), self._name, build)

    def failing_at_last(self, stack: TemplateStack) -> TemplateStack:
        """The same with a resource that cannot be created, after all that scales."""
        resources = stack.template["Resources"]
        alarms = [name for name, each in resources.items() if "Scaling" in name and each["Type"].endswith("::Alarm")]
        assert alarms
        variant = {"VariantName": "A", "ModelName": "none", "InstanceType": G5, "InitialInstanceCount": 1}
        resources["Last"] = {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {"ProductionVariants": [variant]},
            "DependsOn": alarms,
        }
        return stack

    def is_scaled(self, variant: str = "AllTraffic") -> tuple[tuple[int, int] | None, set[str], float]:
        """The range, the policies and the target of concurrency, once all is registered and alarms call policies.

        After a cancelled update, the watcher puts back what no request did.
        """

        def is_back(now: VariantScaling) -> bool:
            # One after the other: none of these says that the others are back.
            is_registered = now.range is not None and set(now.policies) == POLICIES
            return is_registered and now.scheduled == ["Mornings"] and not now.unheard

        scaling = until(lambda: VariantScaling(self.stack, variant), is_back, 60)
        return scaling.range, set(scaling.policies), scaling.targets["OnConcurrency"]

    @property
    def types(self) -> list[str]:
        name = endpoint_of(self.stack)["EndpointConfigName"]
        config = self.cloud.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
        (variant,) = config["ProductionVariants"]
        return [pool["InstanceType"] for pool in variant.get("InstancePools", [variant])]

    def goes_back(self, changed: TemplateStack, *says: str) -> None:
        """A change that fails leaves endpoint and scaling as they were, and succeeds when it is deployed again."""
        before, types = endpoint_of(self.stack), self.types
        assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        for words in says:
            assert words in changed.reasons
        after = endpoint_of(self.stack)
        assert (after["EndpointStatus"], self.types) == ("InService", types)
        assert after["EndpointArn"] == before["EndpointArn"]
        assert self.is_scaled() == ((1, 4), POLICIES, 8)


@pytest.fixture
def chat(changing: LocalCloud, tmp_path: Path) -> Iterator[Chat]:
    found = Chat(changing, tmp_path)
    yield found
    changing.clear_faults()
    assert found.stack.delete() == "DELETE_COMPLETE", found.stack.reasons


def test_an_instance_type_changes_with_its_scaling(chat: Chat) -> None:
    changed = chat.template(G6, target=5, most=6)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert (chat.types, chat.is_scaled()) == ([G6], ((1, 6), POLICIES, 5))
    assert endpoint_of(chat.stack)["EndpointArn"] == chat.first["EndpointArn"]
    # CloudFormation knows the policies that are there: it changes one, and then the type again.
    for types, target in (((G6,), 6), ((G5,), 6)):
        changed = chat.template(*types, target=target)
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert chat.is_scaled() == ((1, 4), POLICIES, target)
    assert chat.types == [G5]


def deregister(chat: Chat) -> None:
    key = variant(chat.first["EndpointName"])
    chat.cloud.client("application-autoscaling").deregister_scalable_target(**key)


def register_without_policies(chat: Chat) -> None:
    limits = VariantScaling(chat.stack).range
    assert limits is not None
    deregister(chat)
    key = {**variant(chat.first["EndpointName"]), "MinCapacity": limits[0], "MaxCapacity": limits[1]}
    chat.cloud.client("application-autoscaling").register_scalable_target(**key)


def delete_a_policy(chat: Chat) -> None:
    key, policies = variant(chat.first["EndpointName"]), VariantScaling(chat.stack).policies
    name = policies["OnConcurrency"]["PolicyName"]
    chat.cloud.client("application-autoscaling").delete_scaling_policy(**key, PolicyName=name)


REMOVALS = [deregister, register_without_policies, delete_a_policy]


@pytest.mark.parametrize("remove", one_in(3, REMOVALS))
def test_scaling_that_was_removed_by_hand_comes_back_with_the_next_change(
    chat: Chat, remove: Callable[[Chat], None]
) -> None:
    changes: list[tuple[dict[str, Any], tuple[tuple[int, int], set[str], float]]] = [
        ({"most": 6}, ((1, 6), POLICIES, 8)),
        # Another release: the endpoint moves to another configuration.
        ({"most": 6, "container_startup_timeout": Duration.minutes(20)}, ((1, 6), POLICIES, 8)),
        ({"most": 6, "target": 5}, ((1, 6), POLICIES, 5)),
    ]
    for change, expected in changes:
        remove(chat)
        changed = chat.template(G5, **change)
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert chat.is_scaled() == expected
    # An instance type changes with scaling that is gone, and CloudFormation knows all policies.
    remove(chat)
    for types in (G6, G5):
        changed = chat.template(types, target=6)
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert (chat.types, chat.is_scaled()) == ([types], ((1, 4), POLICIES, 6))


def test_a_deployment_that_fails_after_scaling_was_removed_by_hand_is_rolled_back_and_the_next_one_restores_it(
    chat: Chat,
) -> None:
    deregister(chat)
    changed = chat.failing_at_last(chat.template(G5, most=6))
    assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    assert VariantScaling(chat.stack).range == (1, 4)
    changed = chat.template(G5, most=6)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert chat.is_scaled() == ((1, 6), POLICIES, 8)


@pytest.mark.exhaustive
def test_pools_change_with_their_scaling(chat: Chat) -> None:
    for types in ((G5, G6), (G6, G5), (G6,)):
        changed = chat.template(*types)
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert (chat.types, chat.is_scaled()) == ([*types], ((1, 4), POLICIES, 8))


@pytest.mark.exhaustive
def test_a_variant_of_another_name_is_scaled_in_its_place(chat: Chat) -> None:
    changed = chat.template(G6, name="Other")
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert chat.is_scaled("Other") == ((1, 4), POLICIES, 8)
    assert VariantScaling(chat.stack).range is None
    chat.cloud.inject("update_fails", count=1)
    assert chat.template(G5).deploy() == "UPDATE_ROLLBACK_COMPLETE"
    assert chat.is_scaled("Other") == ((1, 4), POLICIES, 8)


def test_an_endpoint_that_does_not_start_goes_back_with_its_scaling(chat: Chat) -> None:
    chat.cloud.inject("update_fails", count=1, reason="it does not start")
    chat.goes_back(chat.template(G6, target=5, most=6), "it does not start")
    # The policies were put back, and are others to CloudFormation: a change of one replaces all.
    changed = chat.template(G5, target=7)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert chat.is_scaled() == ((1, 4), POLICIES, 7)
    changed = chat.template(G6, target=5, most=6)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert chat.is_scaled() == ((1, 6), POLICIES, 5)


def test_a_failure_after_the_endpoint_has_moved_takes_it_back_with_its_scaling(chat: Chat) -> None:
    chat.goes_back(chat.failing_at_last(chat.template(G6, target=5, most=6)), "Could not find model")
    # So does one while policies that were put back are replaced.
    chat.goes_back(chat.failing_at_last(chat.template(G5, target=5)), "Could not find model")
    changed = chat.template(G6, target=5)
    assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
    assert (chat.types, chat.is_scaled()) == ([G6], ((1, 4), POLICIES, 5))


def test_a_cancelled_change_goes_back_with_its_scaling(chat: Chat) -> None:
    changed = chat.template(G6, bake=15)
    changed.start()
    until(lambda: endpoint_of(chat.stack)["EndpointStatus"], lambda status: status == "Updating", 60)
    chat.cloud.client("cloudformation").cancel_update_stack(StackName=changed.name)
    assert changed.settled() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    assert (chat.types, chat.is_scaled()) == ([G5], ((1, 4), POLICIES, 8))


@pytest.mark.parametrize("scaled", one_in(2, [True, False]))
def test_a_silent_rollback_fails_the_deployment_with_the_name_of_the_alarm(chat: Chat, scaled: bool) -> None:
    if not scaled:
        assert chat.template(G5, scaled=False).deploy() == "UPDATE_COMPLETE"
    before = endpoint_of(chat.stack)
    chat.cloud.inject("silent_rollback", count=1)
    changed = chat.template(G6, scaled=scaled, bake=60)
    alarm = physical(chat.stack, "AWS::CloudWatch::Alarm", "AlarmsErrorRate")
    changed.start()
    until(lambda: endpoint_of(chat.stack)["EndpointStatus"], lambda status: status == "Updating", 60)
    signals = chat.cloud.client("cloudwatch")
    signals.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="a test")
    assert changed.settled() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    assert "rolled back the update of the endpoint" in changed.reasons
    assert f"{alarm} went into ALARM" in changed.reasons
    assert endpoint_of(chat.stack)["EndpointConfigName"] == before["EndpointConfigName"]
    signals.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="a test")
    if scaled:
        assert chat.is_scaled() == ((1, 4), POLICIES, 8)


@pytest.mark.exhaustive
def test_during_an_outage_a_release_goes_back_once_the_alarm_that_blocks_it_is_switched_off(chat: Chat) -> None:
    alarm, signals = physical(chat.stack, "AWS::CloudWatch::Alarm", "AlarmsErrorRate"), chat.cloud.client("cloudwatch")
    signals.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="a test")
    earlier: dict[str, Any] = {"container_startup_timeout": Duration.minutes(20)}
    before = endpoint_of(chat.stack)["EndpointConfigName"]
    blocked = chat.template(G5, **earlier)
    assert blocked.deploy() == "UPDATE_ROLLBACK_COMPLETE", blocked.reasons
    assert alarm in blocked.reasons
    unwatched = chat.template(G5, alarms=Alarms(error_rate=False), **earlier)
    assert unwatched.deploy() == "UPDATE_COMPLETE", unwatched.reasons
    assert endpoint_of(chat.stack)["EndpointConfigName"] != before


@pytest.mark.exhaustive
def test_a_silent_rollback_by_a_composite_alarm_names_it(chat: Chat) -> None:
    before = chat.template(G5, composite=True)
    assert before.deploy() == "UPDATE_COMPLETE", before.reasons
    chat.cloud.inject("silent_rollback", count=1)
    changed = chat.template(G6, composite=True, bake=60)
    child = physical(chat.stack, "AWS::CloudWatch::Alarm", "Refunds")
    alarm = physical(chat.stack, "AWS::CloudWatch::CompositeAlarm", "Business")
    changed.start()
    until(lambda: endpoint_of(chat.stack)["EndpointStatus"], lambda status: status == "Updating", 60)
    signals = chat.cloud.client("cloudwatch")
    signals.set_alarm_state(AlarmName=child, StateValue="ALARM", StateReason="a test")
    assert changed.settled() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
    assert f"{alarm} went into ALARM" in changed.reasons
    signals.set_alarm_state(AlarmName=child, StateValue="OK", StateReason="a test")
    assert chat.is_scaled() == ((1, 4), POLICIES, 8)


def test_a_deployment_that_adds_the_resources_and_changes_the_type_is_refused_before_anything_changes(
    changing: LocalCloud, tmp_path: Path
) -> None:
    chat = Chat(changing, tmp_path)
    without = chat.template(G5)
    as_an_earlier_release(without.template["Resources"])
    assert without.deploy() == "UPDATE_COMPLETE", without.reasons
    calls = len(changing.calls())
    chat.goes_back(chat.template(G6), "Next: deploy once with the current instance type and variant name")
    assert not [
        call for call in changing.calls()[calls:] if call["operation"] in ("UpdateEndpoint", "PutScalingPolicy")
    ]
    for types in (G5, G6):
        changed = chat.template(types)
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert (chat.types, chat.is_scaled()) == ([types], ((1, 4), POLICIES, 8))
    assert chat.stack.delete() == "DELETE_COMPLETE"


def as_an_earlier_release(resources: dict[str, Any]) -> None:
    """Take away what earlier releases did not declare."""
    added = [name for name, each in resources.items() if each["Type"] in (SERVED_CONFIGURATION, VARIANT_SCALING)]
    assert len(added) == 2
    for name in added:
        del resources[name]
    for resource in resources.values():
        needed = [name for name in resource.get("DependsOn", []) if name not in added]
        if resource.pop("DependsOn", None) is not None and needed:
            resource["DependsOn"] = needed
        name = resource.get("Properties", {}).get("PolicyName")
        if isinstance(name, dict):
            resource["Properties"]["PolicyName"] = name["Fn::Join"][1][0]


@pytest.mark.exhaustive
def test_the_cdk_cli_changes_an_instance_type_in_one_deployment_and_goes_back_in_one(
    cloud: LocalCloud, output: Path
) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=MODELS, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    upload_model(s3, MODELS, "llama")

    def on(instance_type: str) -> DeployedStack:
        return DeployedStack(cloud, output, "Changes", app="changes_app.py", settings={"INSTANCE_TYPE": instance_type})

    def scaling() -> VariantScaling:
        stack = TemplateStack(cloud, "Changes", {})
        return until(lambda: VariantScaling(stack), lambda now: bool(now.scheduled) and not now.unheard, 60)

    on(G5).deploy()
    on(G6).deploy()
    assert on(G6).endpoint["ProductionVariants"][0]["VariantName"] == "AllTraffic"
    assert (scaling().range, set(scaling().policies), scaling().scheduled) == ((1, 4), POLICIES, ["Mornings"])
    serving = on(G6).endpoint["EndpointConfigName"]
    cloud.inject("update_fails", count=1, reason="it does not start")
    assert "it does not start" in on(G5).deploy(fails=True)
    assert on(G6).endpoint["EndpointConfigName"] == serving
    assert (scaling().range, set(scaling().policies), scaling().scheduled) == ((1, 4), POLICIES, ["Mornings"])
    on(G5).deploy()
    assert on(G5).endpoint["EndpointConfigName"] != serving
    on(G5).destroy()
