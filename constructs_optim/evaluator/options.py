"""The options of an evaluation, which are stored with its results so that it can be resumed."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveFloat

from constructs_optim.runtime.evaluation.differences import MARGIN


class EvaluationError(Exception):
    """An evaluation cannot continue. The message is for users, with a fix."""


class FormatName(StrEnum):
    """The format of requests and completions."""

    AUTO = "auto"
    OPENAI = "openai"
    COMPLETIONS = "completions"
    LMI = "lmi"
    TGI = "tgi"


class _Options(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Generation(_Options):
    """How completions are generated; ``parameters`` are passed on as they are."""

    # Of a completion whose prompt sets no limit.
    max_tokens: int = 256
    # 0 chooses the likeliest token each time, so that completions can be compared.
    temperature: float = 0.0
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class Load(_Options):
    """The load of one level: requests of all users together, or seconds in which requests are started."""

    concurrency: int
    requests: int | None = None
    seconds: float | None = None
    # Requests of each user before anything is counted.
    warm_up: int = 1
    timeout_seconds: float = 120.0

    @property
    def total(self) -> int | None:
        """Requests of all users together; None where time limits them."""
        if self.seconds is not None:
            return None
        # By default enough for a median, and few enough to wait for.
        return self.requests or max(32, 8 * self.concurrency)


class SideOptions(_Options):
    """A subject of an evaluation: a SageMaker endpoint, or the URL of an OpenAI-compatible server."""

    # The name of its folder: endpoint, or optimized and baseline.
    name: str
    endpoint_name: str | None = None
    url: str | None = None
    variant: str | None = None
    inference_component: str | None = None
    # By which path of the endpoint: InvokeEndpointWithResponseStream, or the OpenAI-compatible one.
    api: Literal["invocations", "openai"] = "invocations"
    model: str | None = None
    label: str | None = None
    # By default the tokenizer among the files of the endpoint's model.
    tokenizer: str | None = None
    # By default the AWS Price List's, for an endpoint.
    instance_price_per_hour: PositiveFloat | None = None
    discount: float = Field(default=0.0, ge=0, lt=1)

    @property
    def title(self) -> str:
        """Its name in reports."""
        return self.label or self.endpoint_name or self.url or self.name


class Options(_Options):
    """All options of an evaluation: of two sides, the baseline comes first; a load for each level, by concurrency."""

    # The version of the folder's format.
    version: Literal[2] = 2
    sides: tuple[SideOptions, ...]
    started: dt.datetime
    loads: tuple[Load, ...]
    generation: Generation
    format: FormatName = FormatName.AUTO
    region: str | None = None
    profile: str | None = None
    api_key_variable: str = "OPENAI_API_KEY"
    max_error_rate: float | None = None
    margin: float = MARGIN
    random_prompts: bool = False
