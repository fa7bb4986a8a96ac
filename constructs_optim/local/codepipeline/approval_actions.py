"""Manual approvals.

Source: CodePipeline user guide, "Manual approval action reference" and "Approve or reject an approval action"
(an approval that nobody answers fails after seven days).
"""

from __future__ import annotations

import json
import time
import uuid

from .action_context import JOB, ActionContext
from .executions import ActionFailed

_LOOK_SECONDS = 0.05
_MINUTES = 7 * 24 * 60


class ApprovalAction:
    """Waits for PutApprovalResult, as long as AWS does at the local cloud's own pace."""

    def __init__(self, time_scale: float) -> None:
        self._scale = time_scale

    def __call__(self, action: ActionContext) -> None:
        """Wait for a person's word."""
        run = action.run
        minutes = run.declaration.get("timeoutInMinutes", _MINUTES)
        until = time.monotonic() + 60 * minutes * self._scale
        run.token = str(uuid.uuid4())
        self._notify(action)
        while run.answer is None:
            if time.monotonic() > until:
                raise ActionFailed(JOB, f"The approval action timed out: nobody answered within {minutes} minutes.")
            action.wait(_LOOK_SECONDS)
        status, summary = run.answer
        run.summary = summary
        if status != "Approved":
            raise ActionFailed(JOB, summary or "The approval was rejected.")

    def _notify(self, action: ActionContext) -> None:
        topic = action.run.configuration.get("NotificationArn")
        if not topic:
            return
        approval = {
            "pipelineName": action.pipeline.name,
            "stageName": action.run.stage,
            "actionName": action.run.name,
            "token": action.run.token,
            "customData": action.run.configuration.get("CustomData"),
            "externalEntityLink": action.run.configuration.get("ExternalEntityLink"),
        }
        message = {"region": action.region, "approval": approval}
        action.client("sns").publish(TopicArn=topic, Subject="APPROVAL NEEDED", Message=json.dumps(message))
