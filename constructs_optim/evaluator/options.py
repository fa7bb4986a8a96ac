"""What a user asks of an evaluation. It is kept beside the results, so that the evaluation can be resumed."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveFloat

FEWEST_REQUESTS, REQUESTS_PER_USER = 32, 8
"""Requests at a concurrency by default: enough for a median, few enough to wait for."""


class EvaluationError(Exception):
    """An evaluation cannot go on. The message is for the person who started it, and says what would help."""


class FormatName(StrEnum):
    """The format of requests and completions."""

    AUTO = "auto"
    OPENAI = "openai"
    LMI = "lmi"
    TGI = "tgi"


class _Options(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Generation(_Options):
    """How completions are generated.

    Attributes:
        max_tokens: of a completion, where its prompt sets no limit of its own.
        temperature: 0 chooses the likeliest token each time, so that completions can be compared.
        parameters: others, passed on as they are.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class Load(_Options):
    """The load of one level.

    Attributes:
        concurrency: users at the same time.
        requests: of all users together. Default: 8 a user and at least 32, unless ``seconds`` limit them.
        seconds: in which requests are started; those under way at the end are waited for.
        warm_up: requests of each user before anything is counted.
        timeout_seconds: after which a request has failed.
    """

    concurrency: int
    requests: int | None = None
    seconds: float | None = None
    warm_up: int = 1
    timeout_seconds: float = 120.0

    @property
    def total(self) -> int | None:
        """Requests of all users together; None where time limits them."""
        if self.seconds is not None:
            return None
        return self.requests or max(FEWEST_REQUESTS, REQUESTS_PER_USER * self.concurrency)


class SideOptions(_Options):
    """One thing to evaluate: a SageMaker endpoint or a URL.

    Attributes:
        name: of its folder: ``endpoint``, or ``optimized`` and ``baseline``.
        endpoint_name: of a SageMaker endpoint.
        url: of an OpenAI-compatible server.
        variant: the production variant to invoke.
        inference_component: the inference component to invoke.
        model: the name under which a server knows the model.
        label: its name in reports. Default: the endpoint's name or the URL.
        tokenizer: where the model's tokenizer is. Default: with the files of an endpoint's model.
        instance_price_per_hour: of one instance, in US dollars. Default: looked up for an endpoint.
        discount: what a savings plan takes off, as a share.
    """

    name: str
    endpoint_name: str | None = None
    url: str | None = None
    variant: str | None = None
    inference_component: str | None = None
    model: str | None = None
    label: str | None = None
    tokenizer: str | None = None
    instance_price_per_hour: PositiveFloat | None = None
    discount: float = Field(default=0.0, ge=0, lt=1)

    @property
    def title(self) -> str:
        """Its name in reports."""
        return self.label or self.endpoint_name or self.url or self.name


class Options(_Options):
    """All options of an evaluation.

    Attributes:
        sides: one, or the baseline and what is compared with it.
        started: when.
        loads: one a level, by rising concurrency.
        generation: how completions are generated.
        format: of requests.
        region: of endpoints.
        profile: of AWS.
        api_key_variable: the environment variable that holds the key of a URL.
        max_error_rate: the share of requests that may fail at a concurrency. Default: any.
        random_prompts: whether the prompts are random words.
    """

    sides: tuple[SideOptions, ...]
    started: dt.datetime
    loads: tuple[Load, ...]
    generation: Generation
    format: FormatName = FormatName.AUTO
    region: str | None = None
    profile: str | None = None
    api_key_variable: str = "OPENAI_API_KEY"
    max_error_rate: float | None = None
    random_prompts: bool = False
