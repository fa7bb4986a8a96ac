"""One poll of an evaluation, made by the watching state machine each time it wakes.

Benchmark, completions, results, verdict, in that order; each step writes down what it found, so that a repeated poll
goes on from there. Returns ``{"Done": false, "WaitSeconds": n}`` until the stack has its signal.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..documents import is_artifact_key
from ..errors import (
    DeploymentError,
    InvalidEvent,
    code_of,
    message_of,
)
from ..evaluation import evaluation_report
from ..evaluation.benchmark_output import ARCHIVE, Level, publish, read_levels
from ..evaluation.completions import complete_prompts
from ..evaluation.evaluated_fleet import Fleet, fleet
from ..evaluation.gate import Verdict
from ..jobs.sagemaker_jobs import BENCHMARK, SageMakerJobs
from ..jobs.watching import (
    DONE,
    again,
    end,
    poll_later,
    send_signal,
)
from ..requests.evaluation_properties import EvaluationRequest
from ..requests.fields import validate
from ..store.run_records import EvaluationRecords, run_job_name
from ..telemetry import Counted, entry_point, log

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_RUN = re.compile(r"[a-zA-Z0-9-]{1,64}")
_NOT_HERE = (
    "Benchmark jobs are not open to every account and region: an account team or AWS Support can tell, and without "
    "evaluate(...) the endpoint is deployed as before"
)


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> dict[str, object]:
    """Entry point. ``event`` is the execution's input, with ``Error`` where the state machine gave up."""
    request = validate(EvaluationRequest, event.get("Request"))
    run, issued = _run(event), _issued(event)
    region, account = context.invoked_function_arn.split(":")[3:5]
    key = request.key(account, region)
    if event.get("Error"):
        return end(event, failure=f"watching the evaluation of {request.label} failed: {event['Error']}. Deploy again")
    records = EvaluationRecords(client("s3"), request.bucket, request.kms_key_arn, key)
    if records.is_given_up(issued):
        return end(event, failure=f"the evaluation of {request.label} was given up")
    try:
        return _Poll(event, request, records, run, issued, region, context).next_step()
    except DeploymentError as error:
        return end(event, failure=f"the evaluation of {request.label} failed: {error}")


def _run(event: Mapping[str, object]) -> str:
    run = event.get("Run")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise InvalidEvent("the execution's input needs Run")
    return run


def _issued(event: Mapping[str, object]) -> int:
    """When the run was asked for, in seconds since 1970; a schedule gives the time in ISO 8601."""
    issued = event.get("Issued")
    if isinstance(issued, str):
        return int(dt.datetime.fromisoformat(issued.replace("Z", "+00:00")).timestamp())
    if not isinstance(issued, int):
        raise InvalidEvent("the execution's input needs Issued")
    return issued


class _Poll:
    def __init__(
        self,
        event: Mapping[str, object],
        request: EvaluationRequest,
        records: EvaluationRecords,
        run: str,
        issued: int,
        region: str,
        context: LambdaContext,
    ) -> None:
        self.event, self.request, self.records, self.run, self.issued = event, request, records, run, issued
        self.region, self.context = region, context
        self.jobs = SageMakerJobs(client("sagemaker"), BENCHMARK)
        self.name = run_job_name(records.key, run)

    def next_step(self) -> dict[str, object]:
        """Go on from where the last poll ended."""
        if self.records.run_result(self.run) is None:
            job = self.jobs.describe(self.name)
            if job is None:
                return self._create()
            status = BENCHMARK.status(job)
            log("polled", job_name=self.name, status=status)
            if status != BENCHMARK.completed:
                return self._wait(job, status)
            if not complete_prompts(self.request, self.records, self.run, self.context):
                return again(1)
            self._finish(job)
        return self._judge()

    def _create(self) -> dict[str, object]:
        self.records.begin(self.run, self.name)
        network = {"NetworkConfig": {"VpcConfig": self.request.vpc_config}} if self.request.vpc_config else {}
        try:
            self.jobs.create(
                {
                    "AIBenchmarkJobName": self.name,
                    "BenchmarkTarget": {"Endpoint": self._target()},
                    "OutputConfig": {"S3OutputLocation": self.records.output_uri(self.run)},
                    "AIWorkloadConfigIdentifier": self.request.workload_config_name,
                    "RoleArn": self.request.role_arn,
                    "Tags": self.request.tags,
                    **network,
                }
            )
        except ClientError as error:
            code = code_of(error)
            if code not in ("AccessDeniedException", "ResourceLimitExceeded", "ValidationException"):
                raise
            message = message_of(error)
            raise DeploymentError(f"CreateAIBenchmarkJob failed with {code}: {message}. {_NOT_HERE}") from error
        log(Counted.job_created, job_name=self.name)
        if self.records.is_given_up(self.issued):
            # Whoever gave it up may have looked before the job was there.
            self.jobs.stop(self.name)
        return again(5)

    def _target(self) -> dict[str, object]:
        component = self.request.inference_component_name
        listed = {"InferenceComponents": [{"Identifier": component}]} if component else {}
        return {"Identifier": self.request.endpoint_name, **listed}

    def _wait(self, job: Mapping[str, Any], status: str) -> dict[str, object]:
        if status in ("Failed", "Stopped"):
            reason = job.get("FailureReason") or "it was stopped from outside this deployment"
            raise DeploymentError(
                f"the benchmark job {self.name} ended as {status}: {reason}. Deploy again to repeat it"
            )
        return poll_later(
            self.event,
            f"the benchmark job {self.name} is still {status}",
            since=job["CreationTime"],
            advice=": measure fewer numbers of users or requests, or give it a longer timeout",
        )

    def _finish(self, job: Mapping[str, Any]) -> None:
        """Read what was measured, add what it costs, publish it and keep it."""
        output = self.records.open_output(job["OutputConfig"]["S3OutputLocation"], ARCHIVE)
        levels = read_levels(output, self.request.concurrencies)
        evaluated = fleet(self.request, client("sagemaker"), self.region, self.context.invoked_function_arn)
        priced = [self._priced(level, evaluated) for level in levels]
        ended = job.get("EndTime") or dt.datetime.now(dt.UTC)
        publish(self.request.dimensions, evaluated.artifact_key, priced, at=ended)
        result = evaluation_report.result(self.request, evaluated, priced, job)
        self.records.finish(self.run, result, evaluation_report.markdown(result))

    def _priced(self, level: Level, evaluated: Fleet) -> Level:
        price = evaluated.price_per_hour
        return level if price is None else level.priced(price, self.request.discount)

    def _judge(self) -> dict[str, object]:
        before = self.event.get("Before")
        replaced = None
        if is_artifact_key(before):
            replaced = EvaluationRecords(client("s3"), self.request.bucket, self.request.kms_key_arn, str(before))
        verdict = Verdict(self.request, self.records, replaced)
        found = verdict.misses(self.run)
        decision = self.records.current()
        if self.event.get("WaitHandle") or decision is None:
            self.records.decide(verdict.decision(self.run, found))
        elif not found:
            # A scheduled run: what is in service stays in service, and later ones are compared with it as it is now.
            self.records.decide({**decision, "run": self.run})
        log(Counted.evaluated, evaluation=self.records.key, run=self.run, misses=len(found))
        refusal = verdict.refusal(found)
        if refusal is None:
            return end(self.event, data=self.records.key)
        send_signal(self.event, failure=refusal)
        log(Counted.gate_closed, reason=refusal)
        return DONE
