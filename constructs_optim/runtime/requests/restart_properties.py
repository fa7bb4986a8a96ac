"""The input of a restart's execution, which EventBridge writes when an alarm goes into ALARM."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .properties import Bucket, KeyArn, Properties, ResourceName, StackId, Watch, pattern


class RestartRequest(Properties):
    """An endpoint to restart, by moving it to the other of two configurations with the same content."""

    endpoint_name: ResourceName
    config_names: Annotated[tuple[ResourceName, ResourceName], Field(min_length=2, max_length=2)]
    # The alarm that starts the restart, and must stay in ALARM.
    alarm_name: Annotated[str, pattern(r"[^\x00-\x1f\x7f]{1,255}")]
    at_most_every_seconds: Annotated[int, Field(ge=3_600, le=2_592_000)]
    # No restart begins while this stack is being deployed.
    stack_id: StackId
    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class RestartWatch(Watch):
    """The input; ``run`` is the ID of the alarm's event."""

    request: RestartRequest
    run: Annotated[str, pattern("[a-zA-Z0-9-]{1,64}")]
