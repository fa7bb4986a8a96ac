"""Rules about speculation in production: training data that endpoints captured, and cures for drafts that decay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import SpeculativeDecoding
from constructs_optim.recipe.techniques.captured import CapturedEndpoint, CapturedTraffic
from constructs_optim.recipe.tokens import is_known

from .registry import API, Finding, rule

_FORMATS = f"{API}ModelSpeculativeDecodingConfig.html"


@rule("OPT210", CapturedTraffic.rule_link)
def _captured_period_has_a_name(_: Settings) -> Iterator[Finding]:
    """Captured traffic is of a day or a month: data capture writes the files of each below a prefix of their own."""
    # Enforced when the settings are created.
    yield from ()


def _captured(recipe: Recipe) -> Iterator[tuple[str, CapturedTraffic]]:
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if isinstance(heads.training_data, CapturedTraffic):
            yield f"{location}.training_data", heads.training_data


@rule("OPT211", f"{API}DataCaptureConfig.html")
def _captured_period_is_over(recipe: Recipe) -> Iterator[Finding]:
    """Training data is captured in a period that is over: captures grow, so each deployment would train anew."""
    for location, captured in _captured(recipe):
        if captured.grows_at(dt.datetime.now(dt.UTC)):
            fix = 'a day or a month that is over, in UTC: captured.during("2026-11")'
            yield Finding(f"{location}.period", captured.period, fix)


@rule("OPT212", _FORMATS)
def _captured_data_can_be_trained_on(recipe: Recipe) -> Iterator[Finding]:
    """Captured training data can be read: SageMaker trains on unencrypted captures that have request and response."""
    for location, captured in _captured(recipe):
        if not (captured.requests and captured.responses):
            missing = "responses" if captured.requests else "requests"
            reason = f"heads learn from requests and their answers, and the captures have no {missing}"
            yield Finding(location, captured.uri, "DataCapture(requests=True, responses=True)", reason)
        if captured.encryption_key_arn is not None:
            fix = "DataCapture without encryption_key, or a copy that constructs-optim captures writes"
            reason = "AWS names unencrypted captured data alone, and data capture encrypts it with a KMS key"
            yield Finding(f"{location}.encryption_key", captured.encryption_key_arn, fix, reason)


@rule("OPT213", f"{API}DataCaptureConfig.html")
def _captures_are_there(endpoint: CapturedEndpoint) -> Iterator[Finding]:
    """An endpoint with captured traffic captures: without data capture there are no files to train on or to replay."""
    if not endpoint.sampling_percentage:
        has_capture = endpoint.sampling_percentage is not None
        location = "data_capture.sampling_percentage" if has_capture else "data_capture"
        fix = "1 to 100" if has_capture else "DataCapture(bucket=...)"
        yield Finding(location, endpoint.sampling_percentage, fix)


@rule("OPT214", engines.SOURCE)
def _decay_is_a_share(alarms: Alarms) -> Iterator[Finding]:
    """A decay is a share of the acceptance length: 90 is a tenth less than in the last 23 hours, and 100 is always."""
    settings = alarms.switched_on().get("acceptance_decay")
    threshold = settings.threshold if settings is not None else None
    if is_known(threshold) and not 0 < threshold < 100:
        yield Finding("alarms.acceptance_decay.threshold", threshold, "above 0 and below 100, such as 90")
