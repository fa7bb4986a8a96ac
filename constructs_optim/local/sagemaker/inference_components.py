"""Inference components: models that share an endpoint's accelerators."""

from __future__ import annotations

from ..api_error import validation_error
from .hosting import Hosting
from .records import Record, Records, Scope, now


class InferenceComponents:
    """The inference components of one account and region. ``seconds`` is how long one takes to change."""

    def __init__(self, scope: Scope, hosting: Hosting, seconds: float) -> None:
        self._scope, self._hosting, self._seconds = scope, hosting, seconds
        self._components = Records(
            lambda name: validation_error(
                f'Could not find inference component "{scope.arn("inference-component", name)}".'
            ),
            lambda name: validation_error(f'Cannot create already existing inference component "{name}".'),
        )

    def create(self, request: Record) -> Record:
        """CreateInferenceComponent."""
        endpoint = self._hosting.endpoints.get(request["EndpointName"])
        name = request["InferenceComponentName"]
        arn = self._scope.arn("inference-component", name)
        copies = request.get("RuntimeConfig", {}).get("CopyCount", 1)
        self._components.add(
            name,
            {
                **{key: value for key, value in request.items() if key not in ("Tags", "RuntimeConfig")},
                "EndpointArn": endpoint["EndpointArn"],
                "InferenceComponentArn": arn,
                "InferenceComponentStatus": "Creating",
                "RuntimeConfig": {"DesiredCopyCount": copies, "CurrentCopyCount": 0},
                "CreationTime": now(),
                "LastModifiedTime": now(),
            },
        )
        self._scope.tag(arn, request.get("Tags"))
        return {"InferenceComponentArn": arn}

    def describe(self, request: Record) -> Record:
        """DescribeInferenceComponent."""
        return dict(self._settled(request["InferenceComponentName"]))

    def update(self, request: Record) -> Record:
        """UpdateInferenceComponent."""
        component = self._settled(request["InferenceComponentName"])
        component |= {"InferenceComponentStatus": "Updating", "LastModifiedTime": now()}
        if "Specification" in request:
            component["Specification"] = request["Specification"]
        if "RuntimeConfig" in request:
            component["RuntimeConfig"]["DesiredCopyCount"] = request["RuntimeConfig"]["CopyCount"]
        return {"InferenceComponentArn": component["InferenceComponentArn"]}

    def delete(self, request: Record) -> Record:
        """DeleteInferenceComponent, at once."""
        self._components.remove(request["InferenceComponentName"])
        return {}

    def list(self, request: Record) -> Record:
        """ListInferenceComponents."""
        for name in list(self._components.by_name):
            self._settled(name)
        names = (
            "CreationTime",
            "EndpointArn",
            "EndpointName",
            "InferenceComponentArn",
            "InferenceComponentName",
            "InferenceComponentStatus",
            "LastModifiedTime",
            "VariantName",
        )
        return self._components.page("InferenceComponents", request, lambda c: {n: c[n] for n in names if n in c})

    def _settled(self, name: str) -> Record:
        component = self._components.get(name)
        changing = component["InferenceComponentStatus"] in ("Creating", "Updating")
        if changing and (now() - component["LastModifiedTime"]).total_seconds() >= self._seconds:
            refused = self._hosting.image_refused(component.get("Specification", {}).get("ModelName"))
            if refused is not None:
                component |= {"InferenceComponentStatus": "Failed", "FailureReason": refused}
                return component
            component |= {"InferenceComponentStatus": "InService", "LastModifiedTime": now()}
            component["RuntimeConfig"]["CurrentCopyCount"] = component["RuntimeConfig"]["DesiredCopyCount"]
        return component
