"""What an action has to work with: its roles, its artifacts and its configuration."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..authorization import Permission, Roles
from ..codebuild.build_artifacts import S3Object
from ..role_clients import Credentials, RoleClients
from .executions import ActionFailed, ActionRun, Execution
from .pipelines import Pipeline

CONFIGURATION, PERMISSION, JOB = "ConfigurationError", "PermissionError", "JobFailed"
_VARIABLE = re.compile(r"#\{([^{}.]+)\.([^{}]+)\}")


class Abandoned(Exception):
    """The execution no longer waits for the action."""


@dataclass(frozen=True)
class ActionContext:
    """One execution of an action, and what it may use.

    Attributes:
        pipeline: the pipeline.
        execution: the pipeline's execution.
        run: the action's.
        roles: what roles may do.
        clients: make clients under a role.
        own: the credentials of the pipeline's role.
        credentials: those of the action's role.
        role_arn: the action's role, or the pipeline's where it has none.
        folder: an empty folder for its files.
    """

    pipeline: Pipeline
    execution: Execution
    run: ActionRun
    roles: Roles
    clients: RoleClients
    own: Credentials
    credentials: Credentials
    role_arn: str
    folder: Path

    @property
    def region(self) -> str:
        """Where the action acts."""
        return self.run.declaration.get("region") or self.pipeline.place[1]

    def client(self, service: str) -> Any:
        """A client under the action's role."""
        return self.clients.client(service, self.credentials, self.region)

    def wait(self, seconds: float) -> None:
        """Wait.

        Raises:
            Abandoned: the execution was stopped without the action.
        """
        if self.execution.abandoned.wait(seconds):
            raise Abandoned

    def until(self, look: Callable[[], Any], seconds: float) -> Any:
        """What ``look`` gives once it is not None; looked for every ``seconds``."""
        while (found := look()) is None:
            self.wait(seconds)
        return found

    def need(self, action: str, resource: str, **context: str) -> None:
        """Hold the action's role to a permission.

        Raises:
            ActionFailed: it lacks the permission.
        """
        if not self.roles.allows(self.role_arn, Permission(action, resource, context)):
            raise ActionFailed(
                PERMISSION,
                f"The role {self.role_arn} is not authorized to perform: {action} on resource: {resource}",
            )

    def input(self, name: str) -> S3Object:
        """Where an input artifact is."""
        return self.run.inputs[name]

    def new_output(self, name: str) -> S3Object:
        """Where an output artifact goes."""
        store = self.store
        key = f"{self.pipeline.name[:20]}/{name[:10]}/{secrets.token_urlsafe(5)}"
        place = S3Object(store["location"], key, store.get("encryptionKey", {}).get("id", ""))
        self.run.outputs[name] = place
        return place

    @property
    def store(self) -> dict[str, Any]:
        """The artifact store of the action's region.

        Raises:
            ActionFailed: there is none.
        """
        declaration = self.execution.declaration
        stores = declaration.get("artifactStores") or {self.pipeline.place[1]: declaration["artifactStore"]}
        if self.region not in stores:
            raise ActionFailed(CONFIGURATION, f"The pipeline has no artifact store in {self.region}")
        return stores[self.region]

    def fetched(self, name: str) -> Path:
        """An input artifact as a file of this machine."""
        path = self.folder / f"{name}.zip"
        if not path.exists():
            self.input(name).get(self.client("s3"), path)
        return path

    def json(self, member: str, kind: type) -> Any:
        """A member of the configuration that is JSON; an empty value of that kind where it is not given.

        Raises:
            ActionFailed: it is something else.
        """
        text = self.run.configuration.get(member)
        try:
            found = json.loads(text) if text else kind()
        except ValueError as error:
            raise ActionFailed(CONFIGURATION, f"{member} is no JSON: {error}") from None
        if not isinstance(found, kind):
            raise ActionFailed(CONFIGURATION, f"{member} has the wrong form: {text}")
        return found


def resolved(configuration: dict[str, str], namespaces: dict[str, dict[str, str]]) -> dict[str, str]:
    """A configuration with the values of the variables that it refers to, as ``#{namespace.name}``.

    Raises:
        ActionFailed: naming the variables that there are not.
    """
    missing = list[str]()

    def value(found: re.Match[str]) -> str:
        namespace, name = found.groups()
        known = namespaces.get(namespace, {})
        if name not in known:
            missing.append(found.group())
        return known.get(name, "")

    filled = {name: _VARIABLE.sub(value, text) for name, text in configuration.items()}
    if missing:
        raise ActionFailed(CONFIGURATION, f"No action before this one has made the variables {', '.join(missing)}")
    return filled
