"""The requests of simulated users, as in an AI workload configuration.

Source: SageMaker Python SDK 3, which names the parameters and rejects others; Amazon SageMaker developer guide, "AI
benchmark jobs". The parameters are options of aiperf, the tool that sends the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, JsonValue, NonNegativeInt, PositiveInt

from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.tokens import is_token

CHANNEL = "prompts"
"""The input channel of your own prompts."""
POOLED_SETTINGS = (
    "concurrency",
    "inputs_per_request",
    "input_tokens",
    "input_tokens_stddev",
    "prompts",
    "requests",
    "duration_seconds",
    "request_timeout_seconds",
    "seed",
)
"""The settings for models that generate no text."""

_FEWEST_REQUESTS, _REQUESTS_PER_USER = 100, 8


def _ascending(users: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(users)))


class Workload(Settings):
    """Users who send requests continuously: each sends the next request as soon as the previous response is complete.

    Without ``prompts``, prompts are synthetic. Their length is the one in the AWS Machine Learning Blog's introduction
    of the inference optimization toolkit: 622 input tokens on average, and 250 output tokens.

    Attributes:
        concurrency: numbers of concurrent users; each number is a separate measurement.
        input_tokens: mean length of a synthetic prompt, in tokens.
        input_tokens_stddev: its standard deviation.
        inputs_per_request: number of texts in a request to embed or classify, or of documents to rerank; for models
            that generate no text, which have none of the settings of output tokens, warm-up requests, tokenizer,
            secret and parameters.
        output_tokens: number of tokens to request.
        output_tokens_stddev: their standard deviation.
        prompts: a JSON Lines file of your own prompts in S3 (``s3://bucket/key.jsonl``), each line with ``text``, or
            with ``query`` and ``documents`` to rerank. Default: synthetic prompts.
        requests: number of requests at each concurrency. Default: 100, or eight per user if that is more, because
            requests before every user's first response do not count.
        duration_seconds: instead of ``requests``, how long to send requests.
        warmup_requests: number of earlier requests that do not count.
        tokenizer: the Hugging Face ID of the model's tokenizer. Default: SageMaker's default.
        token_secret_arn: a Secrets Manager secret that holds a Hugging Face token, for a gated tokenizer.
        request_timeout_seconds: how long a response may take.
        seed: seed of the random number generator.
        parameters: additional workload parameters, by SageMaker's names; they override the settings above.
    """

    concurrency: Annotated[Sequence[PositiveInt], Field(min_length=1), AfterValidator(_ascending)] = (1, 8, 32)
    input_tokens: PositiveInt = 622
    input_tokens_stddev: NonNegativeInt = 0
    inputs_per_request: int = Field(default=1, ge=1, le=2_048)
    output_tokens: PositiveInt = 250
    output_tokens_stddev: NonNegativeInt = 0
    prompts: str | None = None
    requests: PositiveInt | None = None
    duration_seconds: PositiveInt | None = None
    warmup_requests: NonNegativeInt | None = None
    tokenizer: str | None = None
    token_secret_arn: str | None = None
    request_timeout_seconds: PositiveInt | None = None
    seed: NonNegativeInt = 42
    parameters: Mapping[str, JsonValue] = {}

    @property
    def pooled(self) -> dict[str, Any]:
        """The requests for embeddings, scores or classes, which the evaluation's function sends."""
        sent = {name: getattr(self, name) for name in POOLED_SETTINGS if name != "concurrency"}
        return {name: value for name, value in sent.items() if value is not None}

    @property
    def spec(self) -> dict[str, Any]:
        """The ``Inline`` workload specification."""
        lengths = {
            "prompt_input_tokens_mean": self.input_tokens,
            **({"prompt_input_tokens_stddev": self.input_tokens_stddev} if self.input_tokens_stddev else {}),
        }
        # A file name that is known only at deployment cannot be split, so this is the folder instead.
        name = "" if self.prompts is None or is_token(self.prompts) else self.prompts.rpartition("/")[2]
        prompts = {"custom_dataset_type": "single_turn", "input_file": f"/opt/ml/input/data/{CHANNEL}/{name}"}
        requests = self.requests or max(_FEWEST_REQUESTS, _REQUESTS_PER_USER * max(self.concurrency))
        duration = {"benchmark_duration": self.duration_seconds}
        optional = {
            "output_tokens_stddev": self.output_tokens_stddev or None,
            "request_timeout_seconds": self.request_timeout_seconds,
            "tokenizer": self.tokenizer,
            "warmup_request_count": self.warmup_requests,
        }
        return {
            "benchmark": {"type": "aiperf"},
            "parameters": {
                **(lengths if self.prompts is None else prompts),
                "output_tokens_mean": self.output_tokens,
                # The developer guide documents a number; the SDK also reads a list, as a sweep.
                "concurrency": self.concurrency[0] if len(self.concurrency) == 1 else list(self.concurrency),
                **({"request_count": requests} if self.duration_seconds is None else duration),
                "random_seed": self.seed,
                "streaming": True,
                **{name: value for name, value in optional.items() if value is not None},
                **self.parameters,
            },
            # Each key is a parameter's name (developer guide, "Set up a workload configuration").
            **({"secrets": {"hf_token": self.token_secret_arn}} if self.token_secret_arn is not None else {}),
            "tooling": {"api_standard": "openai"},
        }
