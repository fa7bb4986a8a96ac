"""Endpoints declared in files: the constructor's arguments, and the methods called on the endpoint."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from aws_cdk import Stack
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import ArtifactStore
from constructs_optim.constructs.declaration.builder import ACKNOWLEDGE, Builder, Method, Parameter, declared
from constructs_optim.constructs.declaration.document import DeclarationError, Document, violation
from constructs_optim.constructs.declaration.schema import Call
from constructs_optim.constructs.evaluation.endpoint_evaluation import EndpointEvaluation
from constructs_optim.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.stack.arguments import check_names
from constructs_optim.recipe.forms import meant_name

from .endpoint_base import ModelServer
from .inference_component import InferenceComponent

_Endpoint = TypeVar("_Endpoint", bound=ModelServer)


def _policies() -> tuple[Method, ...]:
    """Return the methods that add a policy or a schedule to scaling, under their own names."""
    functions = {
        name: function
        for name, function in vars(EndpointScaling).items()
        if inspect.isfunction(function) and name.startswith(("on_", "start_on", "stop_on"))
    }
    return tuple(
        Method(name, function, "id" if _takes_id(function) else "once") for name, function in functions.items()
    )


def _takes_id(function: Any) -> bool:
    parameter = inspect.signature(function).parameters.get("id")
    return parameter is not None and parameter.kind is parameter.POSITIONAL_OR_KEYWORD


# Methods of both endpoints and components.
_OF_BOTH = (
    Method("scaling", ModelServer.auto_scale, then=_policies()),
    Method(
        "evaluations",
        ModelServer.evaluate,
        "id",
        then=(Method("require", EndpointEvaluation.require, name="Requirements"),),
        name="Evaluation",
    ),
)
_DASHBOARD = (
    Method("show_costs", EndpointDashboard.show_costs),
    Method("show_evaluation", EndpointDashboard.show_evaluation, "list"),
    Method("add_deployment", EndpointDashboard.add_deployment, "list"),
)


@cache
def store_form() -> type[Call]:
    """Return the model of a store in a file."""
    sharing = (ArtifactStore.share_with_account, ArtifactStore.share_with_organization)
    return declared(ArtifactStore, tuple(Method(each.__name__, each, "list") for each in sharing))


@cache
def endpoint_form(of: Any) -> type[Call]:
    """Return the model of an endpoint in a file; ``of`` is its class, ``OptimizedEndpoint``."""
    adapters = Method("adapters", InferenceComponent.add_adapter, "id", name="Adapter")
    return declared(
        of,
        (
            Method("components", of.add_component, "id", then=(adapters, *_OF_BOTH), name="Component"),
            *_OF_BOTH,
            Method("shadow", of.shadow),
            Method("dashboard", None, then=_DASHBOARD, of="dashboard", is_late=True),
            ACKNOWLEDGE,
        ),
    )


def read_endpoint(
    of: type[_Endpoint],
    declared_as: Any,
    scope: Construct,
    id: str,
    path: Path,
    endpoint: str | None,
    given: dict[str, Any],
) -> _Endpoint:
    """Create the endpoint that a file declares as an ``of``; ``given`` replaces the file's arguments."""
    if of is declared_as:
        # A derived class may take others.
        check_names(f"{of.__name__}.from_file", given, of.__init__)
    document = Document.read(path)
    endpoints, name = document.keys_at(("endpoints",)), endpoint or id
    if endpoint is None and name not in endpoints and len(endpoints) == 1:
        (name,) = endpoints
    if name not in endpoints:
        fix = meant_name(endpoints, name) if endpoints else "endpoints: {...}"
        raise DeclarationError([violation(document.at(("endpoints",)), name, f"there is no endpoint {name!r}", fix)])
    parameters = {key: document.validated(Parameter, ("parameters", key)) for key in document.keys_at(("parameters",))}
    builder = Builder(Stack.of(scope), document, parameters)
    store = document.value_at(("endpoints", name, "artifact_store"))
    if "artifact_store" not in given and isinstance(store, str) and Stack.of(scope).node.try_find_child(store) is None:
        at = ("artifact_stores", store)
        if document.value_at(at) is not None:
            builder.construct(document.validated(store_form(), at), Stack.of(scope), store, at)
    form = document.validated(endpoint_form(declared_as), ("endpoints", name))
    made = builder.construct(form, scope, id, ("endpoints", name), of=of, **given)
    builder.finish()
    return made
