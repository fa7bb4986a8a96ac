"""One poll of an evaluation by the state machine: benchmark, completions, results, verdict. Each step is stored.

A deployment whose requirements one benchmark does not decide repeats it if that may decide them, up to
``MOST_MEASUREMENTS`` in all. A repetition that fails, or for which the stack has no time, is left out.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import client
from ..custom_resource import DONE, Output, again, end, poll, poll_run, send_signal
from ..errors import DeploymentError
from ..evaluation import evaluation_report
from ..evaluation.acceptance import seconds_until_published, with_acceptance
from ..evaluation.benchmark_output import ARCHIVE, Level, publish, read_levels
from ..evaluation.completions import complete_prompts
from ..evaluation.evaluated_fleet import fleet
from ..evaluation.gate import Verdict, judge, measurements_of, repetitions_of
from ..evaluation.samples import Observation, first_of, stored
from ..jobs.runs import create_run
from ..jobs.sagemaker_jobs import BENCHMARK, SageMakerJobs
from ..requests.properties import validate
from ..requests.run_properties import EvaluationWatch
from ..store.run_records import (
    CURRENT,
    REQUESTS,
    RESULT,
    RUN,
    BegunRun,
    Decision,
    Measurements,
    ReportedResult,
    RunRecords,
    run_job_name,
)
from ..telemetry import Counted, LambdaContext, entry_point, log

# A verdict reads the requests of the replaced version and of all measurements: 120,000, for which the function has the
# memory, and the time for its share of a processor.
_MOST_REQUESTS = 30_000
# A repetition may take this many times as long as the first measurement, and must end before the stack's deadline.
_TIMES_AS_LONG = 1.5
# What a verdict may take after the last poll of a repetition, which may be a minute before.
_VERDICT_SECONDS = 180


@entry_point
def handler(event: Mapping[str, object], context: LambdaContext) -> Output:
    """Entry point. ``event`` is the execution's input, with ``Error`` if the state machine failed."""
    watch = validate(EvaluationWatch, event)
    failed = f"watching the evaluation of {watch.request.label} failed"
    return poll_run(watch, lambda: _poll(watch, context), failed=failed, advice="Deploy again")


def _poll(watch: EvaluationWatch, context: LambdaContext) -> Output:
    request = watch.request
    region, account = context.invoked_function_arn.split(":")[3:5]
    records = RunRecords(client("s3"), "evaluations", request.bucket, request.kms_key_arn, request.key(account, region))
    if records.is_given_up(watch.issued):
        return end(watch, failure=f"the evaluation of {request.label} was canceled: its resource was deleted")
    try:
        if waiting := _measure(watch, records, watch.run, region, context):
            return waiting
        verdict: Verdict | None = None
        for repetition in repetitions_of(watch.run) if watch.wait_handle else ():
            if records.get(RUN, BegunRun, repetition) is None:
                verdict = _verdict(watch, records) if _has_time(watch, records) else None
                if verdict is None or not verdict.is_worth_repeating:
                    break
            if waiting := _repeat(watch, records, repetition, region, context):
                return waiting
            verdict = None
        return _decide(watch, records, verdict or _verdict(watch, records))
    except DeploymentError as error:
        return end(watch, failure=f"the evaluation of {request.label} failed: {error}")


def _has_time(watch: EvaluationWatch, records: RunRecords) -> bool:
    """Return whether the stack can wait for another measurement."""
    job = SageMakerJobs(client("sagemaker"), BENCHMARK).describe(run_job_name(records.key, watch.run))
    if job is None or watch.deadline is None:
        return False
    took = (job.get("EndTime") or dt.datetime.now(dt.UTC)) - job["CreationTime"]
    return time.time() + _TIMES_AS_LONG * took.total_seconds() < watch.deadline - _VERDICT_SECONDS


def _repeat(
    watch: EvaluationWatch, records: RunRecords, run: str, region: str, context: LambdaContext
) -> Output | None:
    """Store a repetition's results; return the output of the poll if it has not ended.

    Without it, there still is a verdict. So it ends in time for that, or if polls keep failing.
    """
    is_measured = not watch.error and (watch.deadline is None or time.time() < watch.deadline - _VERDICT_SECONDS)
    # A poll that fails is repeated; a job that cannot be stopped ends by itself.
    tolerated = (DeploymentError,) if is_measured else (BotoCoreError, ClientError, DeploymentError)
    try:
        if is_measured:
            # Without a deadline, a poll does not fail a stack for the repetition's sake.
            return _measure(watch.model_copy(update={"deadline": None}), records, run, region, context)
        SageMakerJobs(client("sagemaker"), BENCHMARK).stop(run_job_name(records.key, run))
    except tolerated as error:
        log("not repeated", evaluation=records.key, run=run, reason=str(error))
    return None


def _measure(
    watch: EvaluationWatch, records: RunRecords, run: str, region: str, context: LambdaContext
) -> Output | None:
    """Store a run's results; return the output of the poll if the run has not ended."""
    if records.get(RESULT, Measurements, run) is not None:
        return None
    name, request = run_job_name(records.key, run), watch.request
    jobs = SageMakerJobs(client("sagemaker"), BENCHMARK)
    job = jobs.describe(name)
    if job is None:
        return _create(watch, records, jobs, run)
    advice = ": measure fewer concurrencies or requests, or set a longer timeout"
    if waiting := poll(watch, BENCHMARK, name, job, advice=advice):
        return waiting
    if not complete_prompts(request, records, watch.run, context):
        return again(1)
    if request.acceptance is not None and (seconds := seconds_until_published(job.get("EndTime"))) > 0:
        return again(seconds)
    output = records.open_output(job["OutputConfig"]["S3OutputLocation"], ARCHIVE)
    levels = read_levels(output, request.concurrencies)
    levels, unaccepted = with_acceptance(request, levels)
    evaluated = fleet(request, client("sagemaker"), region, context.invoked_function_arn)
    if evaluated.price_per_hour is not None:
        levels = [level.priced(evaluated.price_per_hour, request.discount) for level in levels]
    publish(request.dimensions, evaluated.artifact_key, levels, at=job.get("EndTime") or dt.datetime.now(dt.UTC))
    result = evaluation_report.result(request, evaluated, levels, job, notes=unaccepted)
    if run == watch.run:
        records.write(RESULT, result)
    records.write(REQUESTS, stored(_kept(levels)), run)
    # Written last, because it marks the end of the run.
    records.write(RESULT, result, run)
    return None


def _kept(levels: Sequence[Level]) -> dict[int, tuple[Sequence[Observation], float]]:
    """Return the requests to store by concurrency: of levels with very many requests, the first ones."""
    kept: dict[int, tuple[Sequence[Observation], float]] = {}
    left = _MOST_REQUESTS
    for place, level in enumerate(sorted(levels, key=lambda each: len(each.observations))):
        kept[level.concurrency] = first_of(level.observations, level.seconds, left // (len(levels) - place))
        left -= len(kept[level.concurrency][0])
    return {level.concurrency: kept[level.concurrency] for level in levels}


def _create(watch: EvaluationWatch, records: RunRecords, jobs: SageMakerJobs, run: str) -> Output:
    request, component = watch.request, watch.request.inference_component_name
    name = run_job_name(records.key, run)
    records.write(RUN, {"job_name": name}, run)
    components: dict[str, Any] = {"InferenceComponents": [{"Identifier": component}]} if component else {}
    job = {
        "AIBenchmarkJobName": name,
        "BenchmarkTarget": {"Endpoint": {"Identifier": request.endpoint_name, **components}},
        "OutputConfig": {"S3OutputLocation": records.uri("output/", run)},
        "AIWorkloadConfigIdentifier": request.workload_config_name,
        "RoleArn": request.role_arn,
        "Tags": request.tags,
        **({"NetworkConfig": {"VpcConfig": request.vpc_config}} if request.vpc_config else {}),
    }
    advice = "without evaluate(...), the endpoint deploys as before"
    create_run(jobs, records, job, watch.issued, advice=advice, is_retried=False)
    return again(5)


def _verdict(watch: EvaluationWatch, records: RunRecords) -> Verdict:
    request, replaced = watch.request, None
    if watch.before:
        replaced = RunRecords(client("s3"), "evaluations", request.bucket, request.kms_key_arn, watch.before)
    return judge(request, records, replaced, watch.run)


def _decide(watch: EvaluationWatch, records: RunRecords, verdict: Verdict) -> Output:
    request, measurements = watch.request, measurements_of(records, watch.run)
    begun = [each for each in repetitions_of(watch.run) if records.get(RUN, BegunRun, each) is not None]
    if set(begun) - set(measurements):
        said = "another measurement, which was to decide it, failed or took too long"
        undecided = [f"{each}; {said}" for each in verdict.found.undecided]
        verdict = verdict._replace(found=verdict.found._replace(undecided=undecided))
    decision = records.get(CURRENT, Decision)
    if watch.wait_handle or decision is None:
        decision = Decision(
            run=watch.run,
            accepted=not verdict.misses,
            runs=tuple(measurements),
            before=verdict.before,
            lossless=request.lossless,
            misses=tuple(verdict.misses),
            undecided=tuple(verdict.found.undecided),
        )
        records.write(CURRENT, decision.to_record())
    elif not verdict.misses:
        # A scheduled run: later evaluations are compared with its results.
        records.write(CURRENT, decision.with_run(watch.run).to_record())
    if (result := records.get(RESULT, ReportedResult, watch.run)) is not None:
        report = evaluation_report.markdown(result.model_dump(exclude_none=True), verdict.found, len(measurements))
        records.write_report(watch.run, report)
    log(Counted.evaluated, evaluation=records.key, run=watch.run, misses=len(verdict.misses))
    if verdict.refusal is None:
        return end(watch, data=records.key)
    send_signal(watch, failure=verdict.refusal)
    log(Counted.gate_closed, reason=verdict.refusal)
    return DONE
