"""``endpoint.yaml``: a stack of endpoints, stores and jobs, declared in a YAML or JSON file."""

# pyright: standard
# Not strict: models created at run time have no static types.
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

from aws_cdk import Annotations, App, Environment, IStackSynthesizer, Stack, Tags, Validations
from pydantic import AfterValidator, Field, StringConstraints, create_model

from constructs_optim.constructs.artifacts.optimization_job import OptimizationJob
from constructs_optim.constructs.artifacts.optimized_artifact import OptimizedArtifact
from constructs_optim.constructs.artifacts.planned_recipe import keep_containers, write_containers
from constructs_optim.constructs.declaration.builder import (
    ACKNOWLEDGE,
    Builder,
    Method,
    Parameter,
    declared,
)
from constructs_optim.constructs.declaration.document import SCHEMA_VERSION, Document
from constructs_optim.constructs.declaration.schema import Call, call_of, json_schema
from constructs_optim.constructs.declaration.wording import in_yaml
from constructs_optim.constructs.endpoint.endpoint_base import ModelServer
from constructs_optim.constructs.endpoint.endpoint_file import endpoint_form, store_form
from constructs_optim.constructs.endpoint.inference_component import InferenceComponent, LoraAdapter
from constructs_optim.constructs.endpoint.optimized_endpoint import OptimizedEndpoint
from constructs_optim.constructs.monitoring.fleet_dashboard import FleetDashboard
from constructs_optim.constructs.recommendation.model_recommendation import ModelRecommendation
from constructs_optim.constructs.stack.findings import UNPRINTED, translated, warnings_of
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.constructs.standalone_template.outputs import OUTPUTS, add_outputs
from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate, standalone_template
from constructs_optim.constructs.validation.policy_validation import PolicyValidation
from constructs_optim.constructs.validation.template_size import refusals
from constructs_optim.policy import PlatformPolicy
from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.limits import limits

LogicalId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9]+$", max_length=255)]


def _is_not_reserved(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise ValueError("a key that does not begin with aws:, which AWS reserves")
    return key


# IAM's characters, because roles have the tags as well (IAM API reference, "Tag").
TagKey = Annotated[
    str,
    StringConstraints(pattern=r"^[\w .:/=+@-]+$", max_length=limits()["tag key"].most),
    AfterValidator(_is_not_reserved),
]
TagValue = Annotated[
    str,
    # A parameter's value is known only at deployment.
    StringConstraints(pattern=r"^(?:[\w .:/=+@-]|\$\{[^{}]+\})*$", max_length=limits()["tag value"].most),
]


class StackFile(Call):
    """The declarations in a file besides its constructs."""

    calls: ClassVar[Callable[..., Any]] = Stack

    schema_version: int = Field(
        default=SCHEMA_VERSION, alias="schema", ge=1, le=SCHEMA_VERSION, description="the version of this schema."
    )
    editor_schema: str | None = Field(default=None, alias="$schema", description="the JSON Schema, for editors.")
    stack: str = Field(
        description="the stack's name.", pattern="^[A-Za-z][A-Za-z0-9-]*$", max_length=128, examples=["Chat-prod"]
    )
    description: str | None = Field(default=None, description="the stack's description.", max_length=1024)
    account: str | None = Field(
        default=None,
        description="the account ID, in quotes. Default: the credentials' account.",
        pattern=r"^\d{12}$",
        examples=["111122223333"],
    )
    region: str | None = Field(
        default=None,
        description="the Region. Default: the credentials' Region.",
        pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d$",
        examples=["us-west-2"],
    )
    tags: dict[TagKey, TagValue] | None = Field(
        default=None, description="tags of all resources.", max_length=limits()["tags"].most
    )
    parameters: dict[LogicalId, Parameter] | None = Field(
        default=None, description="parameters of the template; text refers to them as `${Name}`."
    )
    outputs: dict[LogicalId, str] | None = Field(
        default=None, description="outputs by ID: text with `${Endpoint.endpoint_name}`."
    )

    def given(self, section: str) -> Any:
        """Return the value of a generated section, or None."""
        return getattr(self, section)


_FLEET = Method("add_endpoint", FleetDashboard.add_endpoint, "list")


@cache
def sections() -> dict[str, type[Call]]:
    """Return the models of the constructs that a file declares by ID, in the order of their creation."""
    return {
        "artifact_stores": store_form(),
        "optimization_jobs": call_of(OptimizationJob),
        "optimized_artifacts": call_of(OptimizedArtifact),
        "endpoints": endpoint_form(OptimizedEndpoint),
        "model_recommendations": call_of(ModelRecommendation),
        "fleet_dashboards": declared(FleetDashboard, (_FLEET,)),
    }


@cache
def stack_form() -> type[StackFile]:
    """Return the model of a file."""
    fields: dict[str, Any] = {
        name: (dict[str, form], Field(default=None, description=f"{form.__name__} constructs by ID."))
        for name, form in sections().items()
    }
    return create_model(
        "StackFile",
        __base__=StackFile,
        __doc__="Optimized LLM endpoints on Amazon SageMaker.",
        **fields,
        policy=(
            call_of(PlatformPolicy),
            Field(default=None, description="the platform policy, whose findings fail synthesis."),
        ),
        acknowledge=(ACKNOWLEDGE.form, Field(default=None, description="accepted findings of the stack.")),
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of files (draft 2020-12), for editors and code generators."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema(stack_form())}


def intents(document: Document) -> dict[str, tuple[Model, Objectives]]:
    """Return the models and objectives of the file's endpoints with objectives.

    Raises:
        DeclarationError: if the file's form has errors; lists the first 100.
    """
    form = document.validated(stack_form())
    builder = Builder(Stack(App(), form.stack), document, form.parameters)
    found = {
        key: tuple(builder.value(getattr(endpoint, name), ("endpoints", key, name)) for name in ("model", "objectives"))
        for key, endpoint in (form.given("endpoints") or {}).items()
        if endpoint.objectives is not None and endpoint.model is not None
    }
    builder.finish()
    return cast("dict[str, tuple[Model, Objectives]]", found)


class DeclaredStack(Stack):
    """A stack that a file declares, in its own app."""

    def __init__(
        self,
        document: Document,
        *,
        account: str | None = None,
        region: str | None = None,
        app: App | None = None,
        outdir: Path | None = None,
        is_temporary: bool = False,
        synthesizer: IStackSynthesizer | None = None,
        reusable: bool = False,
    ) -> None:
        """Create the app, the stack and its constructs.

        Args:
            document: the file.
            account: the account if the file does not name one. Default: any.
            region: the Region if the file does not name one. Default: any.
            app: the app. Default: a new one.
            outdir: the folder of a new app's cloud assembly. Default: chosen by the CDK CLI or the CDK.
            is_temporary: whether the folder is deleted after synthesis, with its report. The CDK's own validation is
                then left out, and the findings of policies are only in the report.
            synthesizer: how the template refers to uploaded assets. Default: by the buckets of ``cdk bootstrap``.
            reusable: whether any number of stacks can have the template, so that names such as the endpoint's contain
                the stack's ID. Default: names contain the stack's name.

        Raises:
            DeclarationError: if the file has errors; lists the first 100.
        """
        form = document.validated(stack_form())
        # A file has no cdk.json, and without indentation more endpoints fit into a template.
        context = {"@aws-cdk/core:suppressTemplateIndentation": True, **(UNPRINTED if is_temporary else {})}
        self.app = app or App(
            builtin_cloud_formation_validation=not is_temporary,
            outdir=str(outdir) if outdir is not None else None,
            context=context,
        )
        env = Environment(account=form.account or account, region=form.region or region)
        super().__init__(self.app, form.stack, description=form.description, env=env, synthesizer=synthesizer)
        # A file cannot follow the CDK's advice below the limit; beyond it, an error says what works.
        Annotations.of(self).acknowledge_warning("@aws-cdk/core:Stack.templateSize")
        StackContext.of(self).is_reusable = reusable
        keep_containers(self)
        self._builder = Builder(self, document, form.parameters)
        for name in form.parameters or ():
            self._builder.parameter(name)
        for key, value in (form.tags or {}).items():
            if (text := self._builder.value(value, ("tags", key))) is not None:
                # The CDK CLI passes a stack's own tags to CloudFormation, and does not know the values of tokens.
                Tags.of(self).add(key, text, exclude_resource_types=["aws:cdk:stack"] if is_token(text) else [])
        if (settings := form.given("policy")) is not None:
            policy: PlatformPolicy = self._builder.value(settings, ("policy",))
            Validations.of(self.app).add_plugins(PolicyValidation(policy))
        if not any(form.given(section) for section in sections()):
            fix = f"constructs in one of {', '.join(sections())}"
            self._builder.refuse((), "the stack has no resources, and CloudFormation refuses a stack without any", fix)
        for section in sections():
            for key, construct in (form.given(section) or {}).items():
                self._builder.construct(construct, self, key, (section, key))
        self._builder.call(self, ACKNOWLEDGE, form.given("acknowledge") or [], ("acknowledge",))
        self._outputs = (form.outputs or {}).keys()
        for key, text in (form.outputs or {}).items():
            self._builder.output(key, text)
        self._builder.finish()

    def add_outputs(self) -> None:
        """Add the outputs of all endpoints, components and adapters, such as ``ChatEndpointName``.

        Raises:
            DeclarationError: if two outputs have the same name.
        """
        owners: dict[str, str] = {}
        for key, made in self._builder.made.items():
            if isinstance(made, OptimizedEndpoint | InferenceComponent | LoraAdapter):
                # As in logical IDs, which contain nothing else.
                name = re.sub("[^A-Za-z0-9]", "", key)
                with self._builder.explained(("endpoints", key.partition("/")[0])):
                    if (other := owners.setdefault(name, key)) != key:
                        names = f"outputs of {other} and {key} have the same names, {name}..."
                        raise ValueError(f"{names}: another ID for one of them")
                    if taken := self._outputs & {f"{name}{suffix}" for suffix in OUTPUTS}:
                        path = ("outputs", min(taken))
                        self._builder.refuse(path, f"the template has an output of this name for {key}", "another ID")
                    else:
                        add_outputs(name, made)
        self._builder.finish()

    @property
    def plans(self) -> dict[str, tuple[Plan, ...]]:
        """The plans of all pools, by endpoint ID and, for components, by ``Endpoint/Component``."""
        servers = {key: made for key, made in self._builder.made.items() if isinstance(made, ModelServer)}
        return {
            key: tuple(_advising_file(model.plan) for model in server.models)
            for key, server in servers.items()
            if server.models
        }

    def synth(self) -> Path:
        """Write the cloud assembly, and return its folder.

        Raises:
            RuntimeError: if the written template exceeds a limit of AWS; says what works.
        """
        with translated(in_yaml):
            folder = Path(self.app.synth().directory)
        if refused := refusals((folder / self.template_file).read_text(encoding="utf-8"), self.stack_name):
            raise RuntimeError("\n".join(refused))
        return folder

    def record_containers(self) -> str | None:
        """Record the containers in ``optim.lock.json``; return what to do if it cannot be written."""
        return write_containers(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The constructs' warnings, which the CDK CLI prints if it runs the app.

        Raises:
            RuntimeError: if constructs added errors to the stack; contains them.
        """
        return warnings_of(self.synth(), self)


def _advising_file(plan: Plan) -> Plan:
    """Return a plan whose warnings use a file's keys."""
    advice = tuple(replace(each, message=in_yaml(each.message)) for each in plan.warnings)
    return plan.model_copy(update={"warnings": advice})


def declared_template(
    document: Document, *, code_bucket: str | None, inline: bool, reusable: bool = False
) -> tuple[DeclaredStack, StandaloneTemplate]:
    """Return the stack that a file declares, and its template for accounts without bootstrapping.

    Raises:
        DeclarationError: if the file has errors; lists the first 100.
        ValueError: if the bucket name is invalid, or a single template cannot express the stack.
    """
    declared: list[DeclaredStack] = []

    def declare(app: App, synthesizer: IStackSynthesizer) -> Stack:
        declared.append(DeclaredStack(document, app=app, synthesizer=synthesizer, reusable=reusable))
        declared[0].add_outputs()
        return declared[0]

    with translated(in_yaml):
        template = standalone_template(declare, code_bucket=code_bucket, inline=inline)
    return declared[0], template
