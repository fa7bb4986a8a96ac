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
from constructs_optim.recipe.rules.model_rules import BUCKET
from constructs_optim.recipe.tokens import is_token

PLACEHOLDER = re.compile(r"\$\{([A-Za-z][\w.:/-]*)\}")
"""``${Name}`` in text: a parameter, a pseudo parameter such as ``AWS::Region``, or ``Construct.attribute``."""
BEGINS_REFERENCE = "`${` begins a reference, which is a name or an ID with an attribute, and ends with `}`"
REFERENCE_EXAMPLES = '`"${Name}"`, `"${Endpoint.endpoint_name}"`'
"""Why ``${`` in text is refused without a reference, and references."""
IN_SCHEMA = "x-reference"
"""The key of a kind in a model's schema, before it moves to the definitions."""
_DURATION = re.compile(r"(\d+) ?([smhd])")
_SIZE = re.compile(r"(\d+) ?(MiB|GiB)")
_DURATIONS = {"s": Duration.seconds, "m": Duration.minutes, "h": Duration.hours, "d": Duration.days}
_SIZES = {"MiB": Size.mebibytes, "GiB": Size.gibibytes}
_ARN, _REGION, _ACCOUNT = "arn:", "us-west-2", "111122223333"


@dataclass(frozen=True)
class Reference:
    """Text in a file that refers to something else, of a ``kind``."""

    kind: ReferenceKind
    text: str


@dataclass(frozen=True)
class _Names:
    """The ARNs of a kind of resource, and its names if they also refer to it.

    Attributes:
        arn: an ARN of the kind without the name at its end.
        is_name: returns whether a text is a name.
        usual: a name, for examples.
        rule: what a name consists of, if names refer to the resource; empty if only ARNs do.
    """

    arn: str
    is_name: Callable[[str], bool]
    usual: str
    rule: str = ""

    def has(self, text: str) -> bool:
        """Return whether a text can refer to a resource."""
        if not text.startswith(_ARN):
            return bool(self.rule) and self.is_name(text)
        start = self.arn.replace("aws", "aws[a-z-]*", 1).replace(_REGION, "[a-z0-9-]+").replace(_ACCOUNT, r"\d{12}")
        found = re.match(start, text)
        return found is not None and self.is_name(text[found.end() :])

    def example(self, text: str) -> str:
        """Return a name or ARN in place of a text, with the name that the text can be."""
        is_name = not text.startswith(_ARN) and self.is_name(text)
        arn = f"{self.arn}{text if is_name else self.usual}"
        return f"{self.usual} or {arn}" if self.rule and self.arn else arn


@dataclass(frozen=True)
class ReferenceKind:
    """A kind of reference.

    ``makes`` creates the object in a scope, with an ID unique to the text; None if only the file's reader can resolve
    it. ``names`` are the texts that can refer to an object of AWS; None for any.
    """

    name: str
    description: str
    makes: Callable[[Construct, str, str], Any] | None = None
    pattern: str | None = None
    names: _Names | None = None

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
                "reference",
                "{fix}",
                {
                    "reason": "this value does not work",
                    "fix": self.description,
                    "takes_parameter": self is PARAMETER,
                },
            )
        return Reference(self, value)

    def refusal(self, text: str) -> tuple[str, str] | None:
        """Return why AWS can have no object of such a name or ARN, and what works; None if it can."""
        if self.names is None or self.names.has(text):
            return None
        rule = f": {self.names.rule}" if self.names.rule else ""
        return f"this is not {self.description}{rule}", f"{self.description}, such as {self.names.example(text)}"


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


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.ASCII) is not None


_BUCKETS = _Names(
    "arn:aws:s3:::",
    _matches(BUCKET),
    "my-bucket",
    "a bucket's name has 3 to 63 lowercase letters, digits, dots and hyphens",
)
# IAM API Reference, CreateRole. A name can have the role's path before it.
_ROLES = _Names(
    f"arn:aws:iam::{_ACCOUNT}:role/",
    _matches(r"((?!\.+/)[\w+=,.@-]+/)*[\w+=,.@-]{1,64}"),
    "MyRole",
    "a role's name has 1 to 64 letters, digits and characters of +=,.@_-, and can follow its path, such as "
    "service-role/, in which no part is . or ..",
)
_TOPICS = _Names(f"arn:aws:sns:{_REGION}:{_ACCOUNT}:", _matches(r"[\w-]{1,256}(\.fifo)?"), "my-topic")
_KEYS = _Names(
    f"arn:aws:kms:{_REGION}:{_ACCOUNT}:key/",
    _matches(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}"),
    "1234abcd-12ab-34cd-56ef-1234567890ab",
)
# Amazon EC2 user guide, "Longer IDs".
_OF_EC2 = r"([0-9a-f]{8}|[0-9a-f]{17})"
_RESOLVED = r"\{\{resolve:[^{}]+\}\}"
_GROUPS = _Names(
    "", _matches(rf"sg-{_OF_EC2}|{_RESOLVED}"), "sg-0123456789abcdef0", "an ID has 8 or 17 hexadecimal digits"
)
_ALARMS = _Names(f"arn:aws:cloudwatch:{_REGION}:{_ACCOUNT}:alarm:", _matches(r".{1,255}"), "my-alarm")

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
    s3.IBucket: ReferenceKind("bucket", "the name or the ARN of a bucket", _bucket, names=_BUCKETS),
    kms.IKey: ReferenceKind(
        "key",
        "the ARN of a KMS key",
        lambda scope, name, text: kms.Key.from_key_arn(scope, name, text),
        names=_KEYS,
    ),
    iam.IRole: ReferenceKind("role", "the name or the ARN of a role", _role, names=_ROLES),
    sns.ITopic: ReferenceKind("topic", "the ARN of an SNS topic", _topic, names=_TOPICS),
    AlarmAction: ReferenceKind(
        "alarm action",
        "the ARN of an SNS topic",
        lambda scope, name, text: SnsAction(_topic(scope, name, text)),
        names=_TOPICS,
    ),
    cloudwatch.IAlarm: ReferenceKind(
        "alarm",
        "the ARN of a CloudWatch alarm",
        lambda scope, name, text: cloudwatch.Alarm.from_alarm_arn(scope, name, text),
        names=_ALARMS,
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
    names=_GROUPS,
)


_EXAMPLE_IDS = {"vpc": "vpc-0123456789abcdef0", "subnet": "subnet-0123456789abcdef0"}


def existing_vpc(scope: Construct, id: str, *, vpc_id: str, subnet_ids: Sequence[str]) -> ec2.IVpc:
    """Refer to an existing VPC with the subnets for jobs and models.

    Args:
        scope: the construct to refer to it in.
        id: its ID in that scope.
        vpc_id: the VPC's ID, for instance ``vpc-0123456789abcdef0``.
        subnet_ids: the IDs of its subnets, in as many Availability Zones as possible.
    """
    if not subnet_ids:
        raise ValueError(f"subnet_ids is empty, and jobs and models need a subnet: [{_EXAMPLE_IDS['subnet']}]")
    for kind, given in (("vpc", vpc_id), *(("subnet", each) for each in subnet_ids)):
        # CloudFormation resolves a dynamic reference.
        if not is_token(given) and not re.fullmatch(rf"{kind}-{_OF_EC2}|{_RESOLVED}", given):
            raise ValueError(
                f"{kind}_id{'s' if kind == 'subnet' else ''} has {given!r}, and an ID has 8 or 17 hexadecimal digits: "
                f"{_EXAMPLE_IDS[kind]}"
            )
    # This library never uses the subnets' zones, so their names do not matter.
    zones = [f"zone {number}" for number in range(len(subnet_ids))]
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, id, vpc_id=vpc_id, availability_zones=zones, private_subnet_ids=list(subnet_ids)
    )
    # It uses no routes either.
    Annotations.of(vpc).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
    return vpc
