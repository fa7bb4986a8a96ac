"""A change of an inference component in progress, and the state that its deployment depends on.

Source: developer guide, "Update inference components" (rolling: a batch of new copies starts beside the old ones, then
as many old ones end). Assumed: without a RollingUpdatePolicy the old copies end first, so that an update needs no
additional room.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from constructs_optim_local.sagemaker.execution import refusal
from constructs_optim_local.sagemaker.records import Record

from . import deployments, placement
from .component_copies import Copies
from .deployments import Deployment, Stage
from .endpoints import Endpoints

COPIES = "copies"
_SPECIFICATIONS = ("Specification", "Specifications")
_UNHEALTHY = "The container of the inference component did not pass the ping health check."


class Change:
    """A creation, an update, or a change of the number of copies.

    Args:
        copies: the copies of all components.
        endpoints: the endpoints on which they run.
        component: the component that changes.
        kind: Creating, Updating or Scaling.
        number: the new number of copies.
        fresh: the new specification. Default: unchanged.
        deployment: a DeploymentConfig. Default: none.
    """

    def __init__(
        self,
        copies: Copies,
        endpoints: Endpoints,
        component: Record,
        kind: str,
        number: int,
        fresh: Record | None = None,
        deployment: Record | None = None,
    ) -> None:
        self.kind, self._number, self._fresh = kind, number, fresh
        self._placed: Stage | None = None
        self._copies, self._endpoints, self._component = copies, endpoints, component
        self._before = component["RuntimeConfig"]["DesiredCopyCount"]
        self._rolling = "RollingUpdatePolicy" in (deployment or {})
        self._plan = self._planned(deployment or {})

    def begin(self) -> None:
        """Start the change."""
        at, component = self._endpoints.hosting.scope.now(), self._component
        self._deployment = Deployment(self._plan, self, at)
        name = component["InferenceComponentName"]
        self._endpoints.history.add(f"inference-component/{name}", self.kind, self._deployment)
        component["RuntimeConfig"]["DesiredCopyCount"] = self._number
        if self._fresh is not None:
            others = {key: value for key, value in component.items() if key not in _SPECIFICATIONS}
            component["_fresh"] = {**others, **self._fresh, "_placed": []}
        status = "Creating" if self.kind == "Creating" else "Updating"
        component |= {"InferenceComponentStatus": status, "LastModifiedTime": at, "_change": self}

    def settle(self) -> None:
        """Advance the change to the current time."""
        self._deployment.advance(self._endpoints.hosting.scope.now())
        outcome, component = self._deployment.outcome, self._component
        if outcome is None:
            return
        fresh = component.pop("_fresh", None)
        component |= {"_change": None, "LastModifiedTime": self._deployment.since}
        component["InferenceComponentStatus"] = "InService"
        if outcome == "done":
            component.pop("FailureReason", None)
            if fresh is not None:
                for key in _SPECIFICATIONS:
                    component.pop(key, None)
                component |= {key: fresh[key] for key in (*_SPECIFICATIONS, "_placed") if key in fresh}
        else:
            component["FailureReason"] = self._deployment.reason
            if self.kind == "Creating":
                component |= {"InferenceComponentStatus": "Failed", "_placed": []}
            elif self.kind == "Updating":
                component["RuntimeConfig"]["DesiredCopyCount"] = self._before
                self._copies.place(component, self._before)
        self._copies.release(component)

    def launched(self, stage: Stage, waited: float) -> str | None:
        """Return why the copies of a stage do not run; None if they do."""
        if stage is not self._placed:
            if (reason := self._place(stage)) is not None:
                return reason
            self._placed = stage
        return self._copies.refusal(self._component)

    def _place(self, stage: Stage) -> str | None:
        """Return why the copies of a stage cannot be placed; None if they can."""
        component = self._component
        if self.kind == "Updating" and (fault := self._endpoints.faults.strikes("update_fails")):
            return fault.reason or _UNHEALTHY
        fresh = component.get("_fresh")
        if (refused := self._refused(fresh or component)) is not None:
            return refused
        if fresh is None:
            return self._copies.place(component, self._number)
        self._copies.place(component, stage.old[COPIES] if self._rolling else 0)
        return self._copies.place(fresh, stage.new[COPIES] + stage.launches[COPIES])

    def restored(self) -> str | None:
        """Return None: restoring the old copies always succeeds, because they ran here before."""
        return None

    def tripped(self, alarms: Sequence[str], start: dt.datetime, end: dt.datetime) -> tuple[dt.datetime, str] | None:
        """Return the first alarm that went into ALARM, and when."""
        scope = self._endpoints.hosting.scope
        return self._endpoints.alarms.tripped(alarms, start, end, account=scope.account, region=scope.region)

    def _planned(self, deployment: Record) -> deployments.Plan:
        pace, target = self._endpoints.pace, {COPIES: self._number}
        if self._fresh is not None:
            return deployments.plan(deployment, {COPIES: self._before}, target, pace, "copies")
        return deployments.single(self.kind, {COPIES: f"{self._number} copies."}, pace.launch, target, {})

    def _refused(self, component: Record) -> str | None:
        """Return the refused permission that the execution roles need, if any."""
        hosting, own = self._endpoints.hosting, self._endpoints.hosting.scope
        names = [item.get("ModelName") for item in placement.specifications(component)]
        for name in names:
            if (reason := hosting.image_refused(name)) is not None:
                return reason
        endpoint = self._endpoints.records.find(component["EndpointName"]) or {}
        for variant in endpoint.get("_config", {}).get("ProductionVariants", ()):
            pools = variant.get("InstancePools") or [variant]
            for instance_type in (pool.get("InstanceType", "") for pool in pools):
                model = (placement.specification(component, instance_type) or {}).get("ModelName")
                reason = hosting.start_refused(model, instance_type, variant, unhealthy=_UNHEALTHY, of_component=True)
                if reason is not None:
                    return reason
        roles = {hosting.role(name) for name in names} | {endpoint.get("_config", {}).get("ExecutionRoleArn")}
        scopes = [
            self._endpoints.alarms.scope(name, account=own.account, region=own.region) for name in self._plan.alarms
        ]
        for role in sorted(role for role in roles if role):
            if (denied := hosting.roles.watch(role, scopes)) is not None:
                return refusal(role, denied)
        return None
