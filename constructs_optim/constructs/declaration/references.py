"""References in a file's text: existing constructs, durations, sizes, and the file's own declarations.

A bucket or a role is referred to by its name or ARN; a key, topic or alarm by its ARN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from aws_cdk import Annotations, Duration, RemovalPolicy, Size
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.monitoring.endpoint_alarms import AlarmAction
from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.model import Model

PLACEHOLDER = re.compile(r"\$\{([A-Za-z][\w.:/-]*)\}")
"""``${Name}`` in text: a parameter, a pseudo parameter such as ``AWS::Region``, or ``Construct.attribute``."""
IN_SCHEMA = "x-reference"
"""The key of a kind in a model's schema, before it moves to the definitions."""
_DURATION = re.compile(r"(\d+) ?([smhd])")
_SIZE = re.compile(r"(\d+) ?(MiB|GiB)")
_DURATIONS = {"s": Duration.seconds, "m": Duration.minutes, "h": Duration.hours, "d": Duration.days}
_SIZES = {"MiB": Size.mebibytes, "GiB": Size.gibibytes}
_ARN = "arn:"


@dataclass(frozen=True)
class Reference:
    """Text in a file that refers to something else, of a ``kind``."""

    kind: ReferenceKind
    text: str


@dataclass(frozen=True)
class ReferenceKind:
    """A kind of reference.

    ``makes`` creates the object in a scope, with an ID unique to the text; None if only the file's reader can resolve
    it.
    """

    name: str
    description: str
    makes: Callable[[Construct, str, str], Any] | None = None
    pattern: str | None = None

    @property
    def form(self) -> Any:
        """The type of such text in a model."""
        pattern = {"pattern": f"^({self.pattern})$"} if self.pattern is not None else {}
        schema = {"type": "string", "description": self.description, **pattern}
        name = "".join(word[0].upper() + word[1:] for word in self.name.split())
        return Annotated[
            Reference, BeforeValidator(self._read), WithJsonSchema({IN_SCHEMA: {"name": name, "schema": schema}})
        ]

    def _read(self, value: Any) -> Reference:
        if isinstance(value, Reference):
            return value
        if not isinstance(value, str) or (self.pattern is not None and not re.fullmatch(self.pattern, value)):
            raise PydanticCustomError(
                "reference", "{fix}", {"reason": "this value does not work", "fix": self.description}
            )
        return Reference(self, value)


def _model(text: str) -> Model:
    if text in ("huggingface", "jumpstart", "s3"):
        raise ValueError(f"{text!r} is a kind of model, not a model: a mapping with that key")
    return Model.of_text(text)


def _duration(scope: Construct, name: str, text: str) -> Duration:
    found = _DURATION.fullmatch(text)
    assert found is not None  # noqa: S101 - the pattern of its form
    return _DURATIONS[found[2]](int(found[1]))


def _size(scope: Construct, name: str, text: str) -> Size:
    found = _SIZE.fullmatch(text)
    assert found is not None  # noqa: S101 - the pattern of its form
    return _SIZES[found[2]](int(found[1]))


def _removal_policy(scope: Construct, name: str, text: str) -> RemovalPolicy:
    return RemovalPolicy[text.upper()]


def _bucket(scope: Construct, name: str, text: str) -> s3.IBucket:
    of = s3.Bucket.from_bucket_arn if text.startswith(_ARN) else s3.Bucket.from_bucket_name
    return of(scope, name, text)


def _role(scope: Construct, name: str, text: str) -> iam.IRole:
    return (
        iam.Role.from_role_arn(scope, name, text)
        if text.startswith(_ARN)
        else iam.Role.from_role_name(scope, name, text)
    )


def _topic(scope: Construct, name: str, text: str) -> sns.ITopic:
    return sns.Topic.from_topic_arn(scope, name, text)


PARAMETER = ReferenceKind("parameter name", "a number, or a parameter: ${MaxCapacity}", pattern=PLACEHOLDER.pattern)
STORE = ReferenceKind("artifact store id", "the ID of one of this file's artifact_stores")
SERVED = ReferenceKind("served", "the ID of one of this file's endpoints, or Endpoint/Component for a component")
ENDPOINT = ReferenceKind("endpoint", "the ID of one of this file's endpoints")
METRIC = ReferenceKind(
    "metric", f"the name of a metric of the endpoint ({page('metrics')}), for instance gpu_utilization"
)
MODEL = ReferenceKind(
    "model name",
    "owner/name on Hugging Face, with or without @<commit>, s3://bucket/prefix/, or the ID of a JumpStart model",
    lambda scope, name, text: _model(text),
)
REFERENCES: Mapping[Any, ReferenceKind] = {
    Duration: ReferenceKind("duration", "a duration: 90s, 15m, 6h or 7d", _duration, _DURATION.pattern),
    Size: ReferenceKind("size", "a size: 512MiB or 256GiB", _size, _SIZE.pattern),
    RemovalPolicy: ReferenceKind(
        "removal policy",
        "retain, destroy, snapshot or retain_on_update_or_delete",
        _removal_policy,
        "|".join(policy.name.lower() for policy in RemovalPolicy),
    ),
    s3.IBucket: ReferenceKind("bucket", "the name or the ARN of a bucket", _bucket),
    kms.IKey: ReferenceKind(
        "key", "the ARN of a KMS key", lambda scope, name, text: kms.Key.from_key_arn(scope, name, text)
    ),
    iam.IRole: ReferenceKind("role", "the name or the ARN of a role", _role),
    sns.ITopic: ReferenceKind("topic", "the ARN of an SNS topic", _topic),
    AlarmAction: ReferenceKind(
        "alarm action", "the ARN of an SNS topic", lambda scope, name, text: SnsAction(_topic(scope, name, text))
    ),
    cloudwatch.IAlarm: ReferenceKind(
        "alarm",
        "the ARN of a CloudWatch alarm",
        lambda scope, name, text: cloudwatch.Alarm.from_alarm_arn(scope, name, text),
    ),
    cloudwatch.IMetric: METRIC,
    IArtifactStore: STORE,
    MeasuredResource: ENDPOINT,
    ServedModel: SERVED,
}
"""The kinds of references by the argument's Python type."""
SECURITY_GROUP = ReferenceKind(
    "security group",
    "the ID of a security group",
    lambda scope, name, text: ec2.SecurityGroup.from_security_group_id(scope, name, text),
)


def existing_vpc(scope: Construct, id: str, *, vpc_id: str, subnet_ids: Sequence[str]) -> ec2.IVpc:
    """Refer to an existing VPC with the subnets for jobs and models.

    Args:
        scope: the construct to refer to it in.
        id: its ID in that scope.
        vpc_id: the VPC's ID, for instance ``vpc-0123456789abcdef0``.
        subnet_ids: the IDs of its subnets, in as many Availability Zones as possible.
    """
    # This library never uses the subnets' zones, so their names do not matter.
    zones = [f"zone {number}" for number in range(len(subnet_ids))]
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, id, vpc_id=vpc_id, availability_zones=zones, private_subnet_ids=list(subnet_ids)
    )
    # It uses no routes either.
    Annotations.of(vpc).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
    return vpc
