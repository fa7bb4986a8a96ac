"""What a user asks of an evaluation, as it is kept beside its results so that it can be gone on with."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from constructs_optim.recipe.evaluation.result import Workload

from .formats import FormatName, Generation
from .load import Load
from .prompts import Prompt, digest

FEWEST_REQUESTS, REQUESTS_A_USER = 32, 8
"""Requests at a concurrency where nothing else is asked for: enough for a median, few enough to wait for."""


class _Options(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class SideOptions(_Options):
    """One thing to evaluate: a SageMaker endpoint or a URL.

    Attributes:
        name: of its folder.
        endpoint_name: of a SageMaker endpoint.
        url: of an OpenAI-compatible server.
        variant: the production variant to invoke.
        inference_component: the inference component to invoke.
        model: the name under which a server knows the model.
        label: what people call it. Default: the endpoint's name or the URL.
        tokenizer: where the model's tokenizer is. Default: with the files of an endpoint's model.
        instance_price_per_hour: of one instance. Default: looked up for an endpoint.
        discount: what a savings plan takes off, as a share. Default: the evaluation's.
    """

    name: str
    endpoint_name: str | None = None
    url: str | None = None
    variant: str | None = None
    inference_component: str | None = None
    model: str | None = None
    label: str | None = None
    tokenizer: str | None = None
    instance_price_per_hour: float | None = None
    discount: float | None = None

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.label or self.endpoint_name or self.url or self.name


class Options(_Options):
    """All of it.

    Attributes:
        sides: one, or the baseline and what is compared with it.
        started: when.
        concurrency: users at the same time, for each level.
        requests: at each concurrency. Default: 8 a user and at least 32, unless ``seconds`` are given.
        seconds: for which requests are sent at each concurrency.
        warm_up: requests of each user before anything is counted.
        timeout_seconds: after which a request has failed.
        max_tokens: of an answer, where its prompt says nothing else.
        temperature: of generation.
        parameters: further ones, passed on.
        format: of requests.
        discount: what a savings plan takes off, as a share.
        region: of endpoints.
        profile: of AWS.
        api_key_variable: the environment variable that holds the key of a URL.
        max_error_rate: the share of requests that may fail at a concurrency. Default: any.
        made_up: whether the prompts are made up.
    """

    sides: tuple[SideOptions, ...]
    started: dt.datetime
    concurrency: tuple[int, ...]
    requests: int | None = None
    seconds: float | None = None
    warm_up: int = 1
    timeout_seconds: float = 120.0
    max_tokens: int = 256
    temperature: float = 0.0
    parameters: dict[str, Any] = Field(default_factory=dict)
    format: FormatName = FormatName.AUTO
    discount: float = 0.0
    region: str | None = None
    profile: str | None = None
    api_key_variable: str = "OPENAI_API_KEY"
    max_error_rate: float | None = None
    made_up: bool = False

    @property
    def loads(self) -> list[Load]:
        """What is sent, by rising concurrency."""
        return [
            Load(
                concurrency=users,
                requests=None
                if self.seconds is not None
                else self.requests or max(FEWEST_REQUESTS, REQUESTS_A_USER * users),
                seconds=self.seconds,
                warm_up=self.warm_up,
                timeout_seconds=self.timeout_seconds,
            )
            for users in sorted(set(self.concurrency))
        ]

    @property
    def generation(self) -> Generation:
        """How answers are generated."""
        return Generation(self.max_tokens, self.temperature, self.parameters)

    def workload(self, prompts: list[Prompt], tool: str) -> Workload:
        """The same, as results tell it."""
        return Workload(
            prompts=len(prompts),
            prompts_digest=digest(prompts),
            tool=tool,
            parameters={"max_tokens": self.max_tokens, "temperature": self.temperature, **self.parameters},
            requests=self.requests,
            seconds=self.seconds,
            warm_up=self.warm_up,
            timeout_seconds=self.timeout_seconds,
        )
