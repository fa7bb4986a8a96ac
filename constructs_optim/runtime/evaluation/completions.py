"""Asks an endpoint a quality gate's prompts, some in each poll: for completions, embeddings, scores or classes.

Prompts and completions are users' text: they are stored but never logged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple, NotRequired, TypedDict, TypeVar

from botocore.config import Config
from botocore.exceptions import ClientError

from ..aws import client
from ..documents import is_list, is_object, json_value, nested, object_in
from ..errors import DeploymentError, code_of
from ..requests.run_properties import EvaluationRequest
from ..store.json_records import get_object
from ..store.run_records import COMPLETIONS, Answers, RunRecords
from ..telemetry import LambdaContext, log
from .pooled_outputs import NEEDED, PooledTask, output_of, request_of_line, written

# One completion at a time, because other requests wait for the model as well.
_CLIENT = Config(retries={"mode": "standard", "max_attempts": 4}, connect_timeout=5, read_timeout=60)
# A completion may take a minute, and an invocation has three.
_ROOM_MILLISECONDS = 90_000
_LARGEST_PROMPTS = 16_000_000
# In characters, of at most six bytes in JSON: a record has to stay readable (store/json_records.py).
_LARGEST_COMPLETIONS = 4_000_000
# None stands for JumpStart's container: the payloads in the hub's documents have inputs.
_TAKING_INPUTS = frozenset({"lmi", "text_generation_inference", None})

_Used = TypeVar("_Used")
TextForm = Literal["inputs", "prompt", "messages"]
"""The request member that holds the text."""


class Prompt(NamedTuple):
    """A line of a prompts file: the request body and the reference answer, as a completion or ``output_of``."""

    body: Mapping[str, object]
    reference: str | None


def form_of_texts(servers: Collection[str | None]) -> TextForm:
    """Return the form in which all these servers complete a text, without a chat template if possible.

    LMI and Text Generation Inference accept ``inputs`` (djl-serving, "LMI handlers inference API schema";
    ``router/src/sagemaker.rs`` of Text Generation Inference). vLLM answers ``inputs`` with status 400: it accepts
    OpenAI's chat completions and completions (0.30, ``entrypoints/serve/sagemaker/api_router.py`` and
    ``generate/factories.py``). SGLang accepts only chat completions (0.5.20, ``srt/entrypoints/http_server.py``,
    ``/invocations``), which all the others accept as well.
    """
    if _TAKING_INPUTS.issuperset(servers):
        return "inputs"
    return "prompt" if set(servers) == {"vllm"} else "messages"


def read_prompts(content: bytes, uri: str, *, most: int, max_tokens: int, form: TextForm) -> list[Prompt]:
    """Return the first ``most`` prompts of a JSON Lines file as requests for greedy completions; ``form`` is for texts.

    Raises:
        DeploymentError: if a line cannot be used, or the file is empty.
    """
    needs = "text, prompt, or inputs (a text), or with messages (a chat), and may have a reference completion"

    def prompt_of(row: Mapping[str, object]) -> Prompt | None:
        body, reference = _body(row, max_tokens, form), row.get("reference")
        return Prompt(body, reference if isinstance(reference, str) else None) if body else None

    return list(used_lines(content, uri, prompt_of, needs=needs, most=most))


def used_lines(
    content: bytes,
    uri: str,
    read: Callable[[Mapping[str, object]], _Used | None],
    *,
    needs: str,
    most: int | None = None,
) -> Sequence[_Used]:
    """Return what ``read`` makes of the first ``most`` lines of a JSON Lines file; ``needs`` says what it reads.

    Raises:
        DeploymentError: if a line cannot be used, or the file is empty.
    """
    used, faults = list[_Used](), list[str]()
    # Not splitlines, which also splits at characters that are valid in JSON strings, such as U+2028.
    lines = [(n, line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    for number, line in lines[:most]:
        row: object = None
        with contextlib.suppress(ValueError):
            row = json_value(line.decode("utf-8", "replace"))
        if (found := read(object_in(row))) is not None:
            used.append(found)
        else:
            faults.append(f"line {number}")
    if faults or not used:
        fault = f"{', '.join(faults[:10])} cannot be used" if faults else "it is empty"
        raise DeploymentError(f"the prompts in {uri}: {fault}. Each line must be a JSON object with {needs}")
    return used


def read_pooled_prompts(content: bytes, uri: str, *, most: int | None, task: PooledTask) -> Sequence[Prompt]:
    """Return the first ``most`` prompts of a JSON Lines file as requests for embeddings, scores or classes.

    Raises:
        DeploymentError: if a line cannot be used, or the file is empty.
    """

    def prompt_of(row: Mapping[str, object]) -> Prompt | None:
        request, reference = request_of_line(task, row), row.get("reference")
        given = written(task, reference, request.inputs) if reference is not None and request is not None else None
        is_compared = request is not None and (task != "rerank" or request.inputs > 1)
        if request is None or not is_compared or (reference is not None and given is None):
            return None
        return Prompt(request.body, given)

    return used_lines(content, uri, prompt_of, needs=NEEDED[task], most=most)


def _body(row: Mapping[str, object], max_tokens: int, form: TextForm) -> dict[str, object] | None:
    greedy = {"max_tokens": max_tokens, "temperature": 0}
    messages = row.get("messages")
    if is_list(messages) and messages:
        return {"messages": messages, **greedy}
    texts = (row.get(name) for name in ("text", "prompt", "inputs"))
    text = next((text for text in texts if isinstance(text, str) and text), None)
    if text is None:
        return None
    if form == "inputs":
        return {"inputs": text, "parameters": {"do_sample": False, "max_new_tokens": max_tokens}}
    return {form: text if form == "prompt" else [{"role": "user", "content": text}], **greedy}


class Target(TypedDict):
    """The arguments of an invocation that choose the endpoint, and its component or variant."""

    EndpointName: str
    InferenceComponentName: NotRequired[str]
    TargetVariant: NotRequired[str]


def target_of(request: EvaluationRequest) -> Target:
    """Return what an evaluation invokes."""
    target: Target = {"EndpointName": request.endpoint_name}
    if request.inference_component_name:
        target["InferenceComponentName"] = request.inference_component_name
    elif request.variant_name:
        target["TargetVariant"] = request.variant_name
    return target


def complete(request: EvaluationRequest, prompt: Prompt) -> str | None:
    """Return the endpoint's answer; None if the invocation failed or its response cannot be read."""
    body = json.dumps(prompt.body).encode()
    runtime = client("sagemaker-runtime", _CLIENT)
    try:
        response = runtime.invoke_endpoint(**target_of(request), ContentType="application/json", Body=body)
        answer = json_value(response["Body"].read())
        return completion_text(answer) if request.task == "generate" else output_of(request.task, answer)
    except ValueError:
        return None
    except ClientError as error:
        # Other errors, such as a missing permission, fail the deployment.
        if code_of(error) not in ("ModelError", "InternalFailure", "ModelNotReadyException"):
            raise
        return None


def completion_text(body: object) -> str | None:
    """Return the text in a response of a container that this library serves with, or that uses OpenAI's schema."""
    if is_list(body) and body:
        return completion_text(body[0])
    generated, choices = nested(body, "generated_text"), nested(body, "choices")
    if isinstance(generated, str):
        return generated
    if not is_list(choices) or not choices:
        return None
    is_chat = is_object(nested(choices[0], "message"))
    text = nested(choices[0], "message", "content") if is_chat else nested(choices[0], "text")
    return text if isinstance(text, str) else None


def complete_prompts(request: EvaluationRequest, records: RunRecords, run: str, context: LambdaContext) -> bool:
    """Send prompts until the function is nearly out of time; return whether all have a completion."""
    quality = request.gate.quality if request.gate is not None else None
    if quality is None:
        return True
    stored = records.get(COMPLETIONS, Answers, run)
    if stored is not None and len(stored.answers) == len(stored.references):
        return True
    content, form, most = read_file(quality.prompts), None, quality.most_prompts
    if request.task == "generate":
        form = form_of_texts({subject.server for subject in request.subjects})
        prompts = read_prompts(content, quality.prompts, most=most, max_tokens=quality.max_tokens, form=form)
    else:
        prompts = read_pooled_prompts(content, quality.prompts, most=most, task=request.task)
    # Start again if the file has changed since the last poll. A text inside a chat template is not the same prompt as
    # the bare text, so their completions are not compared.
    digest = hashlib.sha256(content + (b"messages" if form == "messages" else b"")).hexdigest()
    completions = list(stored.answers) if stored is not None and stored.prompts_digest == digest else []
    while len(completions) < len(prompts) and context.get_remaining_time_in_millis() > _ROOM_MILLISECONDS:
        completions.append(complete(request, prompts[len(completions)]))
    size = sum(len(completion) for completion in completions if completion is not None)
    if size > _LARGEST_COMPLETIONS:
        raise DeploymentError(
            f"{len(completions)} answers to the gate's prompts have {size:,} characters, but at most "
            f"{_LARGEST_COMPLETIONS:,} are compared. Next: use fewer prompts"
            f"{', or a smaller max_tokens' if request.task == 'generate' else ', or fewer inputs in each'}"
        )
    references = [prompt.reference for prompt in prompts]
    written = {"answers": completions, "references": references, "prompts_digest": digest}
    records.write(COMPLETIONS, written, run)
    log("completed prompts", prompts=len(prompts), completions=len(completions))
    return len(completions) == len(prompts)


def read_file(uri: str) -> bytes:
    """Return the content of a file of prompts in S3. Raises DeploymentError if it does not exist."""
    s3 = client("s3")
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        prompts = get_object(s3, bucket, key)
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        prompts = None
    if prompts is None:
        raise DeploymentError(f"the file {uri} with the evaluation's prompts does not exist")
    content = prompts["Body"].read(_LARGEST_PROMPTS + 1)
    if len(content) > _LARGEST_PROMPTS:
        raise DeploymentError(f"the file {uri} has more than {_LARGEST_PROMPTS:,} bytes. Next: use fewer lines")
    return content
