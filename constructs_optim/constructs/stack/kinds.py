"""The CDK's interfaces as types that pydantic validates, and what each error suggests instead.

An object is recognized by an attribute of its type: jsii's interfaces cannot be checked by ``isinstance``, and reading
an attribute of an object is a call to Node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.settings import Settings


@dataclass(frozen=True)
class Kind:
    """A validator for ``Annotated[type, kind]``.

    Attributes:
        wanted: what the argument takes, in words.
        attribute: what each object of this kind has.
        example: code that creates one; ``{}`` stands for the text or number that was passed instead.
        default: the text or number in the example otherwise.
    """

    wanted: str
    attribute: str
    example: str
    default: str | float = ""

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        """Accept objects that have the attribute, as they are."""
        return core_schema.no_info_plain_validator_function(self._validated)

    def check(self, location: str, value: object) -> None:
        """Check an argument that belongs to no option class; None is no argument.

        Raises:
            RecipeError: where it is of another kind.
        """
        if value is not None and not self._accepts(value):
            raise RecipeError(
                [
                    Violation(
                        rule=Settings.rule,
                        location=location,
                        value=value,
                        reason=f"this takes {self.wanted}",
                        suggestion=self._example(value),
                        link=Settings.rule_link,
                    )
                ]
            )

    def _accepts(self, value: object) -> bool:
        # The type of an object that implements several interfaces at once does not show them.
        return (
            type(value).__module__.startswith("jsii.")
            or hasattr(type(value), self.attribute)
            or self.attribute in getattr(value, "__dict__", ())
        )

    def _validated(self, value: Any) -> Any:
        if self._accepts(value):
            return value
        context = {"reason": f"this takes {self.wanted}", "fix": self._example(value)}
        raise PydanticCustomError("kind", "{fix}", context)

    def _example(self, value: object) -> str:
        if isinstance(self.default, str):
            return self.example.format(repr(value if isinstance(value, str) else self.default))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self.example.format(value if is_number else self.default)


ALARM = Kind(
    "a cloudwatch.IAlarm",
    "alarm_arn",
    'cloudwatch.Alarm.from_alarm_arn(stack, "Alarm", {})',
    "arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine",
)
ALARM_ACTION = Kind(
    "an action of aws_cloudwatch_actions",
    "bind",
    'SnsAction(sns.Topic.from_topic_arn(stack, "Topic", {}))',
    "arn:aws:sns:us-west-2:111122223333:pages",
)
ALARMS = Kind(
    "Alarms(...)", "stale_evaluation", "Alarms.none() for none, or Alarms(latency=AlarmSettings(threshold=20))"
)
BUCKET = Kind("an s3.IBucket", "bucket_arn", 's3.Bucket.from_bucket_name(stack, "Bucket", {})', "my-bucket")
DURATION = Kind("a Duration", "to_seconds", "Duration.seconds({})", 600)
GRANTEE = Kind(
    "an iam.IGrantable, such as a role or a function",
    "grant_principal",
    'iam.Role.from_role_arn(stack, "Caller", {})',
    "arn:aws:iam::111122223333:role/caller",
)
KEY = Kind(
    "a kms.IKey",
    "key_arn",
    'kms.Key.from_key_arn(stack, "Key", {})',
    "arn:aws:kms:us-west-2:111122223333:key/...",
)
ROLE = Kind(
    "an iam.IRole",
    "role_arn",
    'iam.Role.from_role_arn(stack, "Role", {})',
    "arn:aws:iam::111122223333:role/mine",
)
SECURITY_GROUP = Kind(
    "an ec2.ISecurityGroup",
    "security_group_id",
    'ec2.SecurityGroup.from_security_group_id(stack, "Group", {})',
    "sg-...",
)
SIZE = Kind("a Size", "to_gibibytes", "Size.gibibytes({})", 256)
STORE = Kind(
    "an ArtifactStore",
    "read_only",
    'ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Store", {}))',
    "my-bucket",
)
TOPIC = Kind(
    "an sns.ITopic",
    "topic_arn",
    'sns.Topic.from_topic_arn(stack, "Topic", {})',
    "arn:aws:sns:us-west-2:111122223333:mine",
)
VPC = Kind("an ec2.IVpc", "vpc_id", 'ec2.Vpc.from_lookup(stack, "Vpc", vpc_id={})', "vpc-...")
