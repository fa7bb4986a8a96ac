"""Measures a model that computes embeddings, scores or classes: concurrent users who send one request after another.

Benchmark jobs only send requests for generated text (developer guide, "Set up a workload configuration": no parameter
chooses another kind), so the function that evaluates sends these requests itself. Every poll measures at most one
number of users, and stores its requests.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from ..aws import client
from ..documents import json_value
from ..errors import DeploymentError, code_of, message_of
from ..requests.run_properties import EvaluationRequest, PooledLoad
from ..store.run_records import POOLED, RunRecords, SentRequests, StoredRequests
from ..telemetry import LambdaContext, log
from .benchmark_output import Level, of_requests
from .completions import read_file, target_of, used_lines
from .formatting import users_of
from .pooled_outputs import (
    NEEDED,
    QUERY_TOKENS,
    PooledRequest,
    PooledTask,
    input_tokens_of,
    output_of,
    request_of,
    request_of_line,
)
from .random_words import WORDS
from .samples import Observation

if TYPE_CHECKING:
    from mypy_boto3_sagemaker_runtime.client import SageMakerRuntimeClient

_FEWEST_REQUESTS, _REQUESTS_PER_USER = 100, 8
# What an invocation has to keep for the end of a level, besides the time for its last responses.
_ROOM_SECONDS, _LEAST_SECONDS = 15.0, 5.0
# Different requests.
_DISTINCT = 512
_EXAMPLES: Mapping[PooledTask, Sequence[str]] = {
    "embed": ["Where is it?"],
    "rerank": ["Where is it?", "It is here."],
    "classify": ["It is here."],
}
# Above this share of a processor, the function itself may limit the rates.
_BUSY_SHARE = 0.7
# Errors of the runtime that say something about the endpoint, with the kinds of ``evaluator/requests.py``. Others, such
# as a missing permission, fail the evaluation.
_KINDS = {
    "ModelError": "server_error",
    "InternalFailure": "server_error",
    "InternalDependencyException": "server_error",
    "ModelNotReadyException": "server_error",
    "ServiceUnavailable": "server_error",
    "ThrottlingException": "throttled",
}


class _Sent(NamedTuple):
    """A request: when it was sent, in seconds; its latency in milliseconds, or the kind of its error; its tokens."""

    start: float
    latency: float | None
    tokens: int | None
    inputs: int
    error: str | None


def measured_levels(
    request: EvaluationRequest, load: PooledLoad, records: RunRecords, run: str, context: LambdaContext
) -> list[Level] | None:
    """Return the measurements of all numbers of users, or measure the next one and return None.

    Raises:
        DeploymentError: if the file of prompts cannot be used, or the endpoint answers none of the requests.
    """
    stored = records.get(POOLED, StoredRequests, run) or StoredRequests(levels=())
    left = [users for users in request.concurrencies if users not in {each.concurrency for each in stored.levels}]
    if not left:
        return [_level(each) for each in sorted(stored.levels, key=lambda each: each.concurrency)]
    task = request.task
    assert task != "generate"  # noqa: S101 - a request with a load has another task
    # A request that is sent last may still take this long.
    seconds = context.get_remaining_time_in_millis() / 1000 - load.request_timeout_seconds - _ROOM_SECONDS
    level = _Users(request, task, load, left[0]).measured(max(_LEAST_SECONDS, seconds))
    records.write(POOLED, StoredRequests(levels=(*stored.levels, level)).to_record(), run)
    log("measured", evaluation=records.key, run=run, users=left[0], requests=len(level.requests))
    return None


def notes_on(records: RunRecords, run: str) -> list[str]:
    """Return what to know about the measurements of a run."""
    stored = records.get(POOLED, StoredRequests, run) or StoredRequests(levels=())
    notes: list[str] = []
    for each in stored.levels:
        users = users_of(each.concurrency)
        if each.busy > _BUSY_SHARE:
            notes.append(
                f"With {users}, the function that sent the requests was busy for {each.busy:.0%} of the time. The "
                "endpoint may be faster than measured; `constructs-optim evaluate` measures it from a larger machine, "
                "and several inputs in each request need fewer requests."
            )
        if each.wanted is not None and len(each.requests) < each.wanted:
            notes.append(
                f"With {users}, time was left for {len(each.requests):,} of {each.wanted:,} requests: a function runs "
                "for three minutes."
            )
    return notes


def _level(stored: SentRequests) -> Level:
    """Return the metrics of the requests of one number of users."""
    observations = [
        Observation(start, client_latency=latency, input_tokens=tokens, inputs=inputs if latency is not None else None)
        for start, latency, tokens, inputs in stored.requests
    ]
    failed = sum(stored.errors.values())
    metrics = {
        "concurrency": float(stored.concurrency),
        "client_invocations": float(len(observations)),
        "client_invocation_errors": float(failed),
    }
    level = Level(stored.concurrency, stored.seconds, metrics, stored.errors, stored.ended)
    return of_requests(level, observations)


class _Users:
    """The users of one level, each a thread."""

    def __init__(self, request: EvaluationRequest, task: PooledTask, load: PooledLoad, users: int) -> None:
        self._load, self._users = load, users
        self._task: PooledTask = task
        self._target = target_of(request)
        self._requests = _requests(task, load)
        self._numbers, self._lock = itertools.count(), threading.Lock()
        self._failure: BaseException | None = None

    def measured(self, most_seconds: float) -> SentRequests:
        """Send the requests, for at most this many seconds."""
        load = self._load
        usual = max(_FEWEST_REQUESTS, _REQUESTS_PER_USER * self._users)
        wanted = None if load.duration_seconds else load.requests or usual
        seconds = min(most_seconds, load.duration_seconds or most_seconds)
        runtime = client(
            "sagemaker-runtime",
            Config(
                retries={"total_max_attempts": 1},
                connect_timeout=5,
                read_timeout=load.request_timeout_seconds,
                max_pool_connections=self._users,
            ),
        )
        began, computed = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(self._users) as pool:
            users = [pool.submit(self._user, runtime, began, seconds, wanted) for _ in range(self._users)]
        if self._failure is not None:
            raise self._failure
        took, busy = time.perf_counter() - began, time.process_time() - computed
        sent = sorted((each for user in users for each in user.result()), key=lambda each: each.start)
        if not any(each.latency is not None for each in sent):
            kinds = ", ".join(sorted({str(each.error) for each in sent}))
            raise DeploymentError(
                f"the endpoint answered none of {len(sent)} requests for {self._task} ({kinds}). Next: invoke it with "
                f"{json.dumps(request_of(self._task, _EXAMPLES[self._task]).body)}, and read the log of its container"
            )
        return SentRequests(
            concurrency=self._users,
            seconds=took,
            ended=dt.datetime.now(dt.UTC).timestamp(),
            busy=busy / took,
            wanted=wanted,
            errors=dict(Counter(each.error for each in sent if each.error is not None)),
            requests=tuple((each.start, each.latency, each.tokens, each.inputs) for each in sent),
        )

    def _user(self, runtime: SageMakerRuntimeClient, began: float, seconds: float, wanted: int | None) -> list[_Sent]:
        sent: list[_Sent] = []
        while self._failure is None and time.perf_counter() < began + seconds:
            with self._lock:
                number = next(self._numbers)
            if wanted is not None and number >= wanted:
                break
            try:
                sent.append(self._send(runtime, self._requests(number), began))
            except ClientError as error:
                self._failure = DeploymentError(
                    f"invoking the endpoint failed with {code_of(error)}: {message_of(error)}"
                )
        return sent

    def _send(self, runtime: SageMakerRuntimeClient, request: PooledRequest, began: float) -> _Sent:
        body, error = json.dumps(request.body).encode(), None
        tokens, answered = None, None
        start = time.perf_counter()
        try:
            response = runtime.invoke_endpoint(**self._target, ContentType="application/json", Body=body)
            content = response["Body"].read()
            answered = time.perf_counter()
            value = json_value(content)
            tokens = input_tokens_of(value)
            error = None if output_of(self._task, value, request.inputs) is not None else "malformed_response"
        except ReadTimeoutError:
            error = "timeout"
        except BotoCoreError:
            error = "connection"
        except ValueError:
            error = "malformed_response"
        except ClientError as refused:
            code = code_of(refused)
            if code not in _KINDS:
                raise
            status = refused.response.get("OriginalStatusCode")
            is_refusal = isinstance(status, int) and 400 <= status < 500
            error = "client_error" if is_refusal else _KINDS[code]
        latency = (answered - start) * 1000 if answered is not None and error is None else None
        return _Sent(start - began, latency, tokens if error is None else None, request.inputs, error)


def _requests(task: PooledTask, load: PooledLoad) -> Callable[[int], PooledRequest]:
    """Return the requests by their number: the lines of the file in turn, or random words of the load's lengths."""
    if load.prompts is not None:
        content, needs = read_file(load.prompts), NEEDED[task]
        lines = used_lines(content, load.prompts, lambda line: request_of_line(task, line), needs=needs)
        return lambda number: lines[number % len(lines)]

    @cache
    def made(number: int) -> PooledRequest:
        return _random_request(task, load, number)

    return lambda number: made(number % _DISTINCT)


def _random_request(task: PooledTask, load: PooledLoad, number: int) -> PooledRequest:
    generator = random.Random(f"{load.seed}/{number}")  # noqa: S311 - no secret

    def text(most: int) -> str:
        tokens = max(1, round(generator.gauss(load.input_tokens, load.input_tokens_stddev)))
        return " ".join(generator.choices(WORDS, k=min(tokens, most)))

    query = [text(QUERY_TOKENS)] if task == "rerank" else []
    return request_of(task, [*query, *(text(load.input_tokens * 10) for _ in range(load.inputs_per_request))])
