"""ARNs of existing resources that a construct refers to, as plain data, which rules check at synthesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from constructs_optim.recipe.tokens import TOKEN

ArnKind = Literal["alarm action", "rollback alarm", "reservation", "volume key", "key of files", "topic", "role"]


@dataclass(frozen=True)
class ArnUse:
    """An ARN, and where the stack that uses it is deployed; None for what is known only at deployment."""

    location: str
    kind: ArnKind
    arn: str
    partition: str | None
    region: str | None
    account: str | None

    @property
    def parts(self) -> list[str]:
        """The parts of the ARN, in which tokens are empty: ``arn``, partition, service, Region, account, resource."""
        parts = TOKEN.sub("", self.arn).split(":", 5)
        return parts if len(parts) == 6 and parts[0] == "arn" else [""] * 6

    def moved(self) -> str:
        """Return the ARN of a resource of the same name where the stack is."""
        start, partition, service, region, account, resource = self.parts
        account = (self.account if self.kind in OF_ACCOUNT else None) or account
        moved = (start, self.partition or partition, service, region and (self.region or region), account, resource)
        return ":".join(moved)


OF_ACCOUNT: dict[ArnKind, str] = {
    # IAM user guide, "Grant a user permissions to pass a role to an AWS service".
    "role": "a role can only be passed to SageMaker in its own account",
    # API reference, Alarm: its only member is AlarmName.
    "rollback alarm": "SageMaker gets only the alarm's name, and looks for it in the endpoint's own account and Region",
}
"""Why a resource of another account does not work; SNS topics, KMS keys, and secrets of another account do."""
OF_REGION: dict[ArnKind, str] = {
    # PutMetricAlarm: "Invalid region ca-central-1 specified. Only us-west-2 is supported."
    # (cds-snc/notification-terraform#128)
    "alarm action": "CloudWatch refuses an alarm with an action in another Region",
    "rollback alarm": OF_ACCOUNT["rollback alarm"],
    # API reference, ProductionVariantCapacityReservationConfig: instances are launched into the reservation.
    "reservation": "a reservation has instances of its own Region",
    # AWS KMS developer guide, "Multi-Region keys": a KMS key is used in its own Region, also a replica.
    "volume key": "a volume is encrypted with a key of its own Region",
}
"""Why a resource of another Region does not work."""
UNCERTAIN_IN_REGION: dict[ArnKind, tuple[str, str]] = {
    # Amazon S3 user guide, "Using server-side encryption with AWS KMS keys": key and bucket are in one Region.
    "key of files": ("S3 encrypts files with a key in the Region of their bucket", "if the bucket is not there either"),
    # Amazon SNS refuses to publish to a topic of another Region than the endpoint's that is called
    # (mozilla/security#8); no source says which one SageMaker calls.
    "topic": (
        "Amazon SNS takes messages for a topic only in the topic's Region, and no source says that SageMaker "
        "sends them to another Region than the endpoint's",
        "if you have tried it",
    ),
}
"""Why a resource of another Region may not work, and when the warning can be acknowledged."""
