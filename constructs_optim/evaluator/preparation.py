"""From what a user asks for to sides that can be measured: targets, formats, tokenizers and prices."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from constructs_optim.operations.price_list import API_REGION, hosting_price_per_hour
from constructs_optim.recipe.evaluation.result import Price, Subject

from .described_endpoint import DescribedEndpoint, described_endpoint
from .errors import EvaluationError
from .evaluation import Side, understood_format
from .formats import ChatFormat, formats_to_try
from .load import Sender
from .options import Options, SideOptions
from .prompts import MADE_UP, Prompt
from .targets import SageMakerTarget, UrlTarget
from .tokens import ModelTokenizer

if TYPE_CHECKING:
    from boto3 import Session

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


@dataclass
class Preparation:
    """Makes sides ready.

    Attributes:
        options: what the user asks for.
        prompts: that are sent.
        session: makes the AWS session, where one is needed.
    """

    options: Options
    prompts: Sequence[Prompt]
    session: Callable[[], Session]

    async def sides(self) -> list[Side]:
        """All sides, each of which has answered a prompt.

        Raises:
            EvaluationError: where one is not there or does not answer, or has no tokenizer where one was named.
            botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: where AWS cannot be asked.
        """
        return [await self._side(side) for side in self.options.sides]

    async def _side(self, asked: SideOptions) -> Side:
        notes = [MADE_UP] if self.options.made_up else []
        if asked.url is not None:
            target: UrlTarget | SageMakerTarget = UrlTarget(
                asked.url, model=asked.model, api_key=os.environ.get(self.options.api_key_variable)
            )
            described, session = DescribedEndpoint(), None
        else:
            session = self.session()
            described = self._described(session, asked, notes)
            target = SageMakerTarget(
                session,
                asked.endpoint_name or "",
                variant_name=asked.variant,
                inference_component_name=asked.inference_component,
            )
        subject = Subject(
            label=asked.shown,
            endpoint_name=asked.endpoint_name,
            variant_name=described.variant_name,
            inference_component_name=asked.inference_component,
            url=_plain(asked.url) if asked.url else None,
            model=asked.model,
            artifact_key=described.artifact_key,
            instance_type=described.instance_type,
            instance_count=described.instance_count,
        )
        price = self._price(asked, described, session, notes)
        tokenizer = self._tokenizer(asked, described, session, notes)
        sender = Sender(target, ChatFormat(), self.prompts, self.options.generation)
        as_text = all(prompt.inputs is not None for prompt in self.prompts)
        formats = formats_to_try(self.options.format, sagemaker=asked.url is None, as_text=as_text)
        try:
            await understood_format(sender, formats, self.prompts, self.options.timeout_seconds)
        except EvaluationError as error:
            raise EvaluationError(f"{asked.shown}: {error}") from None
        return Side(asked.name, subject, sender, tokenizer, price, notes)

    def _described(self, session: Session, asked: SideOptions, notes: list[str]) -> DescribedEndpoint:
        try:
            return described_endpoint(
                session.client("sagemaker"),
                asked.endpoint_name or "",
                variant_name=asked.variant,
                inference_component_name=asked.inference_component,
            )
        except ClientError as error:
            if not _is_denied(error):
                raise
            # Who may invoke an endpoint need not be allowed to describe it.
            notes.append(
                f"The endpoint could not be described: {error.response.get('Error', {}).get('Message', error)}"
            )
            return DescribedEndpoint(variant_name=asked.variant)

    def _price(
        self, asked: SideOptions, described: DescribedEndpoint, session: Session | None, notes: list[str]
    ) -> Price | None:
        count = described.instance_count or 1
        discount = self.options.discount if asked.discount is None else asked.discount
        if asked.instance_price_per_hour is not None:
            return Price(
                instance_price_per_hour=asked.instance_price_per_hour * count, discount=discount, source="stated"
            )
        state = "state it with --instance-price-per-hour"
        if session is None:
            notes.append(f"There are no prices: what a server at a URL costs is not known; {state}.")
            return None
        if described.instance_type is None:
            notes.append(f"There are no prices: the type of the instances is not known; {state}.")
            return None
        region = session.region_name or ""
        try:
            price = hosting_price_per_hour(
                session.client("pricing", region_name=API_REGION), described.instance_type, region
            )
        except (BotoCoreError, ClientError) as error:
            notes.append(f"There are no prices: the AWS Price List could not be asked ({error}); {state}.")
            return None
        if price is None:
            notes.append(
                f"There are no prices: the AWS Price List has none of {described.instance_type} in {region}; {state}."
            )
            return None
        return Price(instance_price_per_hour=price * count, discount=discount, source=f"AWS Price List, {region}")

    def _tokenizer(
        self, asked: SideOptions, described: DescribedEndpoint, session: Session | None, notes: list[str]
    ) -> ModelTokenizer | None:
        read = None if session is None and not (asked.tokenizer or "").startswith("s3://") else self._reader(session)
        if asked.tokenizer is not None:
            return ModelTokenizer.load(asked.tokenizer, read_s3=read)
        if not (described.model_data or "").startswith("s3://") or (described.model_data or "").endswith(".tar.gz"):
            return None
        try:
            return ModelTokenizer.load(described.model_data or "", read_s3=read)
        except EvaluationError as error:
            notes.append(f"The model's own tokenizer could not be used: {error}.")
            return None

    def _reader(self, session: Session | None) -> Callable[[str], bytes | None]:
        s3: Any = (session or self.session()).client("s3")

        def read(uri: str) -> bytes | None:
            bucket, _, key = uri.removeprefix("s3://").partition("/")
            try:
                return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            except ClientError as error:
                # Without the permission to list, S3 says of what is not there that it is denied.
                if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404", *_DENIED):
                    return None
                raise EvaluationError(str(error)) from None

        return read


def _plain(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _is_denied(error: ClientError) -> bool:
    return error.response.get("Error", {}).get("Code") in _DENIED
