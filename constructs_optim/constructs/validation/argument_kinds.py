"""What kind of thing each argument of a construct takes. What is something else is reported before the CDK meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Size

from constructs_optim.recipe import Violation
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.settings import Settings

from .refusal import refuse


@dataclass(frozen=True)
class Kind:
    """What an argument takes: how it is called, whether something is one, and how one is written.

    ``example`` is told what was given; ``several`` asks for a list of them.
    """

    wanted: str
    accepts: Callable[[Any], bool]
    example: Callable[[Any], str]
    several: bool = False

    def wrong(self, location: str, given: Any) -> list[Violation]:
        """What of ``given`` is something else; nothing that is None."""
        if given is None:
            return []
        if not self.several:
            return [] if self.accepts(given) else [_violation(location, given, self.wanted, self.example(given))]
        if isinstance(given, str) or not isinstance(given, Sequence):
            one = "..." if self.accepts(given) else self.example(given)
            return [_violation(location, given, f"a list, each of which is {self.wanted}", f"{location}=[{one}]")]
        return [
            _violation(f"{location}[{place}]", each, self.wanted, self.example(each))
            for place, each in enumerate(given)
            if not self.accepts(each)
        ]


def wrong_kinds(*, place: str = "", **given: Any) -> list[Violation]:
    """The arguments that are not of their kind, as violations; names that have no kind here are left alone.

    Args:
        place: what stands before their names in a violation, such as ``on_concurrency.``.
        given: the arguments by their names.
    """
    found: list[Violation] = []
    for name, value in given.items():
        kind = _KINDS.get(name)
        if kind is not None:
            found += kind.wrong(f"{place}{name}", value)
    return found


def refuse_wrong_kinds(*, place: str = "", **given: Any) -> None:
    """Raise what :func:`wrong_kinds` finds, where nothing else can be wrong yet.

    Raises:
        RecipeError: where it finds something.
    """
    refuse(wrong_kinds(place=place, **given))


def _violation(location: str, value: Any, wanted: str, example: str) -> Violation:
    return Violation(
        rule=Settings.rule,
        location=location,
        value=value,
        reason=f"this takes {wanted}",
        suggestion=example,
        link=Settings.rule_link,
    )


def _has(*attributes: str) -> Callable[[Any], bool]:
    """Whether a type has an attribute: that of an object of the CDK would be a round trip to Node.

    What jsii makes to stand for several interfaces at once does not show them; it is taken for one of them.
    """

    def found(value: Any) -> bool:
        there = getattr(value, "__dict__", ())
        return type(value).__module__.startswith("jsii.") or any(
            hasattr(type(value), name) or name in there for name in attributes
        )

    return found


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _with_number(example: str, default: float) -> Callable[[Any], str]:
    """An example with the number that was given, where it was one."""

    def filled(given: Any) -> str:
        number = given if isinstance(given, int | float) and not isinstance(given, bool) else default
        return example.format(number)

    return filled


def _with_text(example: str, default: str) -> Callable[[Any], str]:
    """An example with the text that was given, where it was some."""
    return lambda given: example.format(repr(given if isinstance(given, str) else default))


def _store(given: Any) -> str:
    if _has("bucket_arn")(given):
        return "ArtifactStore.from_bucket(...) of this bucket"
    return _with_text('ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Store", {}))', "my-bucket")(given)


_DURATION = Kind("a Duration", _is(Duration), _with_number("Duration.seconds({})", 600))
_ROLE = Kind(
    "an iam.IRole",
    _has("role_arn"),
    _with_text('iam.Role.from_role_arn(stack, "Role", {})', "arn:aws:iam::111122223333:role/mine"),
)
_KEY = Kind(
    "a kms.IKey",
    _has("key_arn"),
    _with_text('kms.Key.from_key_arn(stack, "Key", {})', "arn:aws:kms:us-west-2:111122223333:key/..."),
)
_VPC = Kind("an ec2.IVpc", _has("vpc_id"), _with_text('ec2.Vpc.from_lookup(stack, "Vpc", vpc_id={})', "vpc-..."))
_SECURITY_GROUPS = Kind(
    "an ec2.ISecurityGroup",
    _has("security_group_id"),
    _with_text('ec2.SecurityGroup.from_security_group_id(stack, "Group", {})', "sg-..."),
    several=True,
)
_ACTIONS = Kind(
    "an action of aws_cloudwatch_actions",
    _has("bind"),
    _with_text('SnsAction(sns.Topic.from_topic_arn(stack, "Topic", {}))', "arn:aws:sns:us-west-2:111122223333:pages"),
    several=True,
)
_ALARMS = Kind(
    "a cloudwatch.IAlarm",
    _has("alarm_arn"),
    _with_text(
        'cloudwatch.Alarm.from_alarm_arn(stack, "Alarm", {})', "arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine"
    ),
    several=True,
)
_BUCKET = Kind(
    "an s3.IBucket", _has("bucket_arn"), _with_text('s3.Bucket.from_bucket_name(stack, "Bucket", {})', "my-bucket")
)
_GRANTEE = Kind(
    "an iam.IGrantable, such as a role or a function",
    _has("grant_principal"),
    _with_text('iam.Role.from_role_arn(stack, "Caller", {})', "arn:aws:iam::111122223333:role/caller"),
)


def _alike(kind: Kind, names: Iterable[str]) -> dict[str, Kind]:
    return dict.fromkeys(names, kind)


_KINDS: dict[str, Kind] = {
    **_alike(
        _DURATION,
        (
            "bake_time",
            "container_startup_timeout",
            "cooldown",
            "instance_provision_timeout",
            "max_runtime",
            "model_data_download_timeout",
            "scale_in_cooldown",
            "scale_out_cooldown",
            "termination_wait",
            "timeout",
        ),
    ),
    **_alike(_ACTIONS, ("alarm_actions", "ok_actions")),
    "alarms": Kind(
        "Alarms(...)",
        _is(Alarms),
        lambda given: "Alarms.none()" if given is False else "Alarms(latency=AlarmSettings(threshold=20))",
    ),
    "artifact_store": Kind("an ArtifactStore", _has("read_only"), _store),
    "async_inference": Kind(
        "an AsyncInference", _has("max_concurrent_invocations_per_instance"), lambda _: "AsyncInference(bucket)"
    ),
    **_alike(_BUCKET, ("bucket", "input_bucket", "server_access_logs_bucket")),
    "data_capture": Kind("a DataCapture", _has("sampling_percentage"), lambda _: "DataCapture(bucket)"),
    "encryption_key": _KEY,
    "grantee": _GRANTEE,
    "jobs": Kind("JobOptions(...)", _has("max_runtime"), lambda _: "JobOptions(timeout=Duration.hours(2))"),
    "monitoring": Kind(
        "MonitoringOptions(...)", _has("alarm_actions"), lambda _: "MonitoringOptions(alarm_actions=[SnsAction(topic)])"
    ),
    "network": Kind("NetworkOptions(...)", _has("vpc_subnets"), lambda _: "NetworkOptions(vpc=vpc)"),
    "removal_policy": Kind("a RemovalPolicy", _is(RemovalPolicy), lambda _: "RemovalPolicy.RETAIN"),
    "role": _ROLE,
    "rollback_alarms": _ALARMS,
    "security_groups": _SECURITY_GROUPS,
    "variant": Kind(
        "VariantOptions(...)", _has("initial_instance_count"), lambda _: "VariantOptions(initial_instance_count=2)"
    ),
    "volume_size": Kind("a Size", _is(Size), _with_number("Size.gibibytes({})", 256)),
    "vpc": _VPC,
}
