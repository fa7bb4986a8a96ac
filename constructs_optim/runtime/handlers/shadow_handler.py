"""``Custom::ShadowRun``: compare the answers of an endpoint's shadow variant with production's, and end the shadow.

CloudFormation deploys the endpoint configuration with the shadow variant. This resource starts a state machine that
watches the run; no deployment waits for it. A candidate with an earlier verdict is not compared again: the run ends at
once with the same outcome.
"""

from __future__ import annotations

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, account_and_region, custom_resource, issued_at, start_watching
from ..documents import is_artifact_key
from ..errors import code_of
from ..requests.properties import validate
from ..requests.shadow_properties import ShadowProperties, ShadowRequest
from ..store.run_records import CURRENT, OBSERVING, RESULT, RunRecords, ShadowDecision, run_of
from ..telemetry import log


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(ShadowProperties, event["ResourceProperties"])
    key, issued = props.request.key(*account_and_region(event)), issued_at(event["ResponseURL"])
    replaced = event.get("PhysicalResourceId")
    if is_artifact_key(replaced):
        # The earlier run compares another candidate, or the same one under another configuration.
        _records(props.request, replaced).give_up(issued - 1)
    run = run_of(event["StackId"], event["RequestId"])

    def begun(before: ShadowDecision | None) -> ShadowDecision:
        # Keeps a verdict, and the run of an earlier attempt at this request.
        if before is not None and (before.run == run or before.is_final):
            return before
        return ShadowDecision(outcome=OBSERVING, run=run)

    _records(props.request, key).change(CURRENT, ShadowDecision, begun)
    document = {"Request": event["ResourceProperties"]["Request"], "Run": run, "Issued": issued}
    if start_watching(props, f"{key[:32]}-{run}", document):
        log("shadow started", shadow=key, run=run)
    return key, {"ShadowKey": key, "ReportUri": _records(props.request, key).uri(RESULT)}


def _delete(event: Event) -> None:
    request = validate(ShadowProperties, event["ResourceProperties"]).request
    physical_id, issued = event.get("PhysicalResourceId"), issued_at(event["ResponseURL"])
    key = physical_id if is_artifact_key(physical_id) else request.key(*account_and_region(event))
    try:
        # The deletion that follows an update must not give up the new run, which was requested before the deletion.
        _records(request, key).give_up(issued)
    except ClientError as error:
        # Without the bucket, no run can continue.
        if code_of(error) != "NoSuchBucket":
            raise


def _records(request: ShadowRequest, key: str) -> RunRecords:
    return RunRecords(client("s3"), "shadows", request.bucket, request.kms_key_arn, key)


handler = custom_resource(ensure=_ensure, delete=_delete)
