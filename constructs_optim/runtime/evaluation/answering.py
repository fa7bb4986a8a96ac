"""Answers to the prompts of a quality gate: some in each look, until all are there."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..custom_resource import client
from ..errors import DeploymentError, code_of
from ..requests.evaluation_properties import EvaluationRequest, Quality
from ..store.evaluation_records import EvaluationRecords
from ..store.json_records import lacks
from ..telemetry import log
from .endpoint_answers import ask, prompts_content, read_prompts

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# One answer may take a minute, and an invocation has three.
_ROOM_MILLISECONDS = 90_000


def answer_prompts(request: EvaluationRequest, records: EvaluationRecords, run: str, context: LambdaContext) -> bool:
    """Ask as many prompts as there is time for; whether all are answered.

    Raises:
        DeploymentError: when the prompts cannot be read.
    """
    quality = request.gate.quality if request.gate is not None else None
    if quality is None:
        return True
    kept = records.answers(run)
    if kept is not None and len(kept["answers"]) == len(kept["references"]):
        return True
    content = _content(quality)
    prompts = read_prompts(content, quality.prompts, most=quality.most_prompts, max_tokens=quality.max_tokens)
    # A file that was changed in between is another one: begin again.
    digest = hashlib.sha256(content).hexdigest()
    answers = list(kept["answers"]) if kept is not None and kept["prompts_digest"] == digest else []
    while len(answers) < len(prompts) and context.get_remaining_time_in_millis() > _ROOM_MILLISECONDS:
        prompt = prompts[len(answers)]
        answers.append(ask(request.endpoint_name, request.inference_component_name, request.variant_name, prompt))
    references = [prompt.reference for prompt in prompts]
    records.write_answers(run, {"schema": 1, "answers": answers, "references": references, "prompts_digest": digest})
    log("answered", prompts=len(prompts), answers=len(answers))
    return len(answers) == len(prompts)


def _content(quality: Quality) -> bytes:
    s3 = client("s3")
    try:
        return prompts_content(s3, quality.bucket, quality.key)
    except ClientError as error:
        if code_of(error) != "NoSuchBucket" and not lacks(s3, quality.bucket, quality.key, error):
            raise
        raise DeploymentError(
            f"there is no file {quality.prompts}, which the prompts of the gate are read from"
        ) from error
