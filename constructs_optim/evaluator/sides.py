"""Prepares a side for measurement: target, format, tokenizer and price."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from constructs_optim.recipe.evaluation.result import Price, Subject
from constructs_optim.runtime.errors import code_of, message_of
from constructs_optim.runtime.evaluation.pooled_outputs import NEEDED
from constructs_optim.runtime.evaluation.price_list import API_REGION, prices_per_hour

from . import savings_plan
from .connection import OpenAITarget, SageMakerTarget, UrlTarget
from .load import Sender
from .options import EvaluationError, Options, SideOptions
from .pooled_formats import PooledFormat, formats_for
from .prompts import Prompt
from .streaming import ChatFormat, Format
from .synthetic_prompts import RANDOM_PROMPTS_NOTE
from .tokens import ModelTokenizer

if TYPE_CHECKING:
    from boto3 import Session

_ARTIFACT = re.compile(r"/artifacts/([0-9a-f]{64})/")
_MOST_NUMBERS = 10
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


@dataclass
class Side:
    """One side of an evaluation, ready to be measured.

    ``name`` is the name of the side's folder. Without a ``tokenizer``, token counts come from the server. ``price`` is
    the price of all instances. If it is None, ``notes`` state the reason.
    """

    name: str
    subject: Subject
    sender: Sender
    tokenizer: ModelTokenizer | None = None
    price: Price | None = None
    notes: list[str] = field(default_factory=list)


def _described(sagemaker: Any, side: SideOptions, subject: Subject) -> tuple[Subject, str | None]:
    """Return the subject with its variant, instances and artifact, and the ``s3://`` prefix of the model's files."""
    name = side.endpoint_name or ""
    endpoint = sagemaker.describe_endpoint(EndpointName=name)
    component: dict[str, Any] = {}
    if side.inference_component:
        component = sagemaker.describe_inference_component(InferenceComponentName=side.inference_component)
    configuration = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    variants = {variant["VariantName"]: variant for variant in configuration["ProductionVariants"]}
    default = next(iter(variants)) if len(variants) == 1 else None
    chosen = side.variant or component.get("VariantName") or default
    if chosen not in variants:
        raise EvaluationError(f"{name} has the variants {', '.join(variants)}: choose one with {name},variant=NAME")
    variant = variants[chosen]
    if not component and "ModelName" not in variant:
        raise EvaluationError(f"{name} serves inference components: choose one with {name},inference-component=NAME")
    running = {variant["VariantName"]: variant for variant in endpoint.get("ProductionVariants", [])}
    model_data = _model_data(sagemaker, variant, component)
    artifact = _ARTIFACT.search(model_data or "")
    described = {
        "variant_name": chosen,
        "artifact_key": artifact[1] if artifact else None,
        "instance_type": variant.get("InstanceType"),
        "instance_count": running.get(chosen, {}).get("CurrentInstanceCount") or variant.get("InitialInstanceCount"),
    }
    return subject.model_copy(update=described), model_data


def _target(session: Session, side: SideOptions) -> SageMakerTarget | OpenAITarget:
    name, component = side.endpoint_name or "", side.inference_component
    if side.api == "invocations":
        return SageMakerTarget(session, name, variant_name=side.variant, inference_component_name=component)
    if side.variant is not None:
        raise EvaluationError(
            f"{name},api=openai does not support variants: leave out variant={side.variant} or api=openai"
        )
    return OpenAITarget(session, name, inference_component_name=component, model=side.model)


async def prepare(
    options: Options, side: SideOptions, prompts: Sequence[Prompt], session: Callable[[], Session]
) -> Side:
    """Prepare a side, and check that it responds to a prompt.

    Raises:
        EvaluationError: if it does not, or the prompts are not those of the model. Random prompts are only for some
            tasks, so the caller replaces them.
    """
    notes = [RANDOM_PROMPTS_NOTE] if options.random_prompts else []
    subject = Subject(
        label=side.title,
        endpoint_name=side.endpoint_name,
        variant_name=side.variant,
        inference_component_name=side.inference_component,
        url=side.url,
        model=side.model,
    )
    model_data, tokenizer = None, None
    if side.url is not None:
        target = UrlTarget(side.url, model=side.model, api_key=os.environ.get(options.api_key_variable))
    else:
        try:
            subject, model_data = _described(session().client("sagemaker"), side, subject)
        except ClientError as error:
            if code_of(error) not in _DENIED:
                raise EvaluationError(message_of(error)) from None
            # A role can have the permission to invoke an endpoint, but not to describe it.
            notes.append(f"The endpoint could not be described: {message_of(error)}")
        target = _target(session(), side)
    price = price_of(side, subject, session)
    if isinstance(price, str):
        state = f"set one with {side.endpoint_name or side.url},instance-price-per-hour=DOLLARS"
        notes.append(f"There are no prices: {price}; {state}.")
    read_s3 = partial(_read_s3, session)
    if side.tokenizer is not None:
        tokenizer = ModelTokenizer(side.tokenizer, read_s3=read_s3)
    elif model_data is not None and model_data.startswith("s3://") and not model_data.endswith(".tar.gz"):
        try:
            tokenizer = ModelTokenizer(model_data, read_s3=read_s3)
        except EvaluationError as error:
            notes.append(f"The model's own tokenizer could not be used: {error}.")
    unique = f"{side.name}-{options.started:%H%M%S}" if options.unique_prompts else ""
    sender = Sender(target, ChatFormat, prompts, options.generation, unique)
    formats = formats_for(options.format, prompts, sagemaker=side.url is None and side.api == "invocations")
    # Developer guide, "Invoke endpoints with OpenAI-compatible APIs": only /openai/v1/chat/completions.
    if side.api == "openai" and not (formats := [each for each in formats if each.streams]):
        raise EvaluationError(
            f"{side.title},api=openai takes only chats, but not embeddings, documents to rerank, or texts to classify: "
            "leave out api=openai"
        )
    try:
        await sender.choose_format(formats, options.first_load.timeout_seconds)
        if not options.random_prompts:
            _check_prompts(sender.format, prompts)
    except EvaluationError as error:
        raise EvaluationError(f"{side.title}: {error}") from None
    return Side(side.name, subject, sender, tokenizer, None if isinstance(price, str) else price, notes)


def _check_prompts(written: type[Format], prompts: Sequence[Prompt]) -> None:
    """Raise EvaluationError for prompts that requests of a format cannot have."""
    unsuited = [number for number, prompt in enumerate(prompts, 1) if not written.suits(prompt)]
    if not unsuited:
        return
    generated = "prompt (a text) or messages (a chat)"
    needed = NEEDED[written.task] if issubclass(written, PooledFormat) else generated
    numbers = ", ".join(map(str, unsuited[:_MOST_NUMBERS])) + ", ..." * (len(unsuited) > _MOST_NUMBERS)
    raise EvaluationError(
        f"{len(unsuited)} of {len(prompts)} prompts ({numbers}) cannot be sent as {written.name.value}. Each needs "
        f"{needed}"
    )


def price_of(side: SideOptions, subject: Subject, session: Callable[[], Session]) -> Price | str:
    """Return the price of all instances, as set or from the AWS Price List; the reason if it is unknown."""
    hourly, source = side.instance_price_per_hour, "stated"
    if hourly is None:
        if subject.instance_type is None:
            return "the instance type is unknown"
        region, plan = session().region_name or "", side.savings_plan
        named, read = "AWS Price List", "the AWS Price List"
        missing = f"the AWS Price List has no {subject.instance_type} in {region}"
        if plan is not None:
            named, read = f"SageMaker savings plan {plan.value}", "the rates of savings plans"
            missing = f"no {named} has {subject.instance_type} in {region}"
        try:
            if plan is not None:
                client = session().client("savingsplans", region_name=savings_plan.API_REGION)
                hourly = savings_plan.savings_plan_price(client, region, subject.instance_type, plan)
            else:
                pricing = session().client("pricing", region_name=API_REGION)
                hourly = prices_per_hour(pricing, region).get(subject.instance_type)
        except (BotoCoreError, ClientError) as error:
            return f"{read} could not be read ({error})"
        if hourly is None:
            return missing
        source = f"{named}, {region}"
    return Price(instance_price_per_hour=hourly * (subject.instance_count or 1), discount=side.discount, source=source)


def _read_s3(session: Callable[[], Session], uri: str) -> bytes | None:
    """Return an S3 object; None if it does not exist."""
    s3: Any = session().client("s3")
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        # Without the permission to list, S3 denies access to an object that does not exist.
        if code_of(error) in ("NoSuchKey", "404", *_DENIED):
            return None
        raise EvaluationError(str(error)) from None


def _model_data(sagemaker: Any, variant: dict[str, Any], component: dict[str, Any]) -> str | None:
    specification = component.get("Specification", {})
    container = specification.get("Container", {})
    if "ArtifactUrl" in container:
        return container["ArtifactUrl"]
    name = specification.get("ModelName") or variant.get("ModelName")
    if name is None:
        return None
    model = sagemaker.describe_model(ModelName=name)
    primary = model.get("PrimaryContainer") or next(iter(model.get("Containers", [])), {})
    source = primary.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    return source or primary.get("ModelDataUrl")
