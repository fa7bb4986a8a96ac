"""Events about endpoints' state changes, which SageMaker sends to EventBridge.

Source: Amazon SageMaker developer guide, "Events that Amazon SageMaker AI sends to Amazon EventBridge" (endpoint state
change). Because of its note on "multiple events to EventBridge for each state change", each event is sent twice.
"""

from __future__ import annotations

import logging
import re
import threading

from constructs_optim_local.clock import Clock
from constructs_optim_local.sagemaker.records import Record
from constructs_optim_local.sagemaker.service import SageMaker, to_json

_TICK_SECONDS = 0.1
_MEMBERS = ("EndpointName", "EndpointArn", "EndpointConfigName", "CreationTime", "LastModifiedTime")


def send_endpoint_events(sagemaker: SageMaker, clock: Clock) -> None:
    """Start a thread that sends events. Called once, before the first request."""
    threading.Thread(target=_watch, args=(sagemaker, clock), daemon=True).start()


def _watch(sagemaker: SageMaker, clock: Clock) -> None:
    seen: dict[str, tuple[object, ...]] = {}
    while True:
        clock.sleep(_TICK_SECONDS)
        try:
            for endpoint in sagemaker.endpoints():
                state = (endpoint["EndpointStatus"], endpoint["LastModifiedTime"])
                if seen.get(endpoint["EndpointArn"]) != state:
                    seen[endpoint["EndpointArn"]] = state
                    _publish(endpoint)
        except Exception:
            # A failure of one event must not stop the others.
            logging.getLogger(__name__).exception("events of endpoints were not sent")


def _publish(endpoint: Record) -> None:
    from ministack.core.responses import request_scope
    from ministack.services import eventbridge

    detail = {name: endpoint[name] for name in _MEMBERS if name in endpoint}
    # These events spell states IN_SERVICE, and the API InService.
    detail["EndpointStatus"] = re.sub("(?<!^)(?=[A-Z])", "_", endpoint["EndpointStatus"]).upper()
    entry = {
        "Source": "aws.sagemaker",
        "DetailType": "SageMaker Endpoint State Change",
        "Resources": [endpoint["EndpointArn"]],
        "Detail": to_json(detail).decode(),
    }
    region, account = endpoint["EndpointArn"].split(":")[3:5]
    with request_scope(account, region):
        for _ in range(2):
            eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)
