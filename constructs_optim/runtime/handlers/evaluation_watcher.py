"""One poll of an evaluation by the state machine: benchmark, completions, results, verdict. Each step is stored.

A deployment whose requirements one benchmark does not decide repeats it if that may decide them, up to
``MOST_MEASUREMENTS`` in all. A repetition that fails, or for which the stack has no time, is left out.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
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
from ..evaluation.pooled_load import measured_levels, notes_on
from ..evaluation.samples import Observation, first_of, stored
from ..jobs.runs import create_run
from ..jobs.sagemaker_jobs import BENCHMARK, SageMakerJobs
from ..requests.properties import validate
from ..requests.run_properties import EvaluationWatch
from ..store.run_records import (
    CURRENT,
    POOLED,
    REQUESTS,
    RESULT,
    RUN,
    BegunRun,
    Decision,
    Measurements,
    ReportedResult,
    RunRecords,
    StoredRequests,
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
    measure = _measure if request.load is None else _measure_pooled
    try:
        if waiting := measure(watch, records, watch.run, region, context):
            return waiting
        verdict: Verdict | None = None
        for repetition in repetitions_of(watch.run) if watch.wait_handle else ():
            if records.get(RUN, BegunRun, repetition) is None:
                verdict = _verdict(watch, records) if _has_time(watch, records) else None
                if verdict is None or not verdict.is_worth_repeating:
                    break
            if waiting := _repeat(watch, records, repetition, region, context, measure):
                return waiting
            verdict = None
        return _decide(watch, records, verdict or _verdict(watch, records))
    except DeploymentError as error:
        return end(watch, failure=f"the evaluation of {request.label} failed: {error}")


def _has_time(watch: EvaluationWatch, records: RunRecords) -> bool:
    """Return whether the stack can wait for another measurement."""
    took = _seconds(watch, records)
    if took is None or watch.deadline is None:
        return False
    return time.time() + _TIMES_AS_LONG * took < watch.deadline - _VERDICT_SECONDS


def _seconds(watch: EvaluationWatch, records: RunRecords) -> float | None:
    """Return how long the measurement took; None if that is unknown."""
    if watch.request.load is not None:
        stored = records.get(POOLED, StoredRequests, watch.run)
        return sum(level.seconds for level in stored.levels) if stored is not None else None
    job = SageMakerJobs(client("sagemaker"), BENCHMARK).describe(run_job_name(records.key, watch.run))
    return ((job.get("EndTime") or dt.datetime.now(dt.UTC)) - job["CreationTime"]).total_seconds() if job else None


def _repeat(
    watch: EvaluationWatch, records: RunRecords, run: str, region: str, context: LambdaContext, measure: _Measure
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
            return measure(watch.model_copy(update={"deadline": None}), records, run, region, context)
        if watch.request.load is None:
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
    measurement = evaluation_report.Measurement.of_job(job, levels, unaccepted)
    _store(watch, records, run, region, context, measurement)
    return None


def _measure_pooled(
    watch: EvaluationWatch, records: RunRecords, run: str, region: str, context: LambdaContext
) -> Output | None:
    """Store a run's results; return the output of the poll if the run has not ended. Each poll sends some requests."""
    request = watch.request
    assert request.load is not None  # noqa: S101 - only then is it called
    if records.get(RESULT, Measurements, run) is not None:
        return None
    if watch.deadline is not None and time.time() > watch.deadline - _VERDICT_SECONDS:
        raise DeploymentError("the time is over: measure fewer concurrencies or requests, or set a longer timeout")
    if records.get(RUN, BegunRun, run) is None:
        records.write(RUN, {"job_name": run_job_name(records.key, run)}, run)
    levels = measured_levels(request, request.load, records, run, context)
    if levels is None or not complete_prompts(request, records, watch.run, context):
        return again(1)
    ended = [dt.datetime.fromtimestamp(level.ended, dt.UTC) for level in levels if level.ended is not None]
    began = min(ended) - dt.timedelta(seconds=levels[0].seconds)
    notes = notes_on(records, run)
    measurement = evaluation_report.Measurement("the evaluation's function", began, max(ended), levels, notes)
    _store(watch, records, run, region, context, measurement)
    return None


def _store(
    watch: EvaluationWatch,
    records: RunRecords,
    run: str,
    region: str,
    context: LambdaContext,
    measurement: evaluation_report.Measurement,
) -> None:
    """Publish and store a run's measurements, with prices."""
    request = watch.request
    evaluated = fleet(request, client("sagemaker"), region, context.invoked_function_arn)
    if (price := evaluated.price_per_hour) is not None:
        measurement = measurement.priced(price, request.discount)
    publish(request.dimensions, evaluated.artifact_key, measurement.levels, at=measurement.ended)
    result = evaluation_report.result(request, evaluated, measurement)
    if run == watch.run:
        records.write(RESULT, result)
    records.write(REQUESTS, stored(_kept(measurement.levels)), run)
    # Written last, because it marks the end of the run.
    records.write(RESULT, result, run)


_Measure = Callable[[EvaluationWatch, RunRecords, str, str, LambdaContext], Output | None]


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
    assert request.workload_config_name is not None  # noqa: S101 - a request without a load has one
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
